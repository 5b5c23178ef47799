"""A compiled graph as a function of Tensors, which tapes can differentiate to any order.

A call under a tape is one entry on it.  What runs is then the forward graph that J makes of the
graph, the entry keeps the residuals, and its gradient is a call of the backward graph:

    J(g) = (forward, backward)     outputs, residuals = forward(inputs)
                                   cotangents of inputs = backward(residuals, those of outputs)

Both are GraphFunctions again, so that the tapes around this one see the same one order higher: they
follow the residuals, too.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from minispore.abstract import STACK, AbstractTensor, sizes_of, symbols_of
from minispore.autodiff.nodes import Place, Places, differentiable, items_of, place_of
from minispore.autodiff.tape import innermost
from minispore.autodiff.transform import J
from minispore.context import checks_finite
from minispore.dims import Dim, is_born
from minispore.engine import Executable, compile_plan
from minispore.ir.finite import run_checked
from minispore.ir.interp import debugging
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Node,
    ParameterNode,
    Switch,
    While,
    copied_parameters,
    make_tuple,
)
from minispore.ir.verify import verify
from minispore.passes import Pipeline
from minispore.passes.rewrite import copy_graphs
from minispore.primitive import Primitive, bprop_getters
from minispore.tensor import Tensor, tapes
from minispore.tree import NeedConstant


class GraphFunction:
    """A closed graph without Grad nodes, as a function from a list of values to a tuple.

    `level` is jit's `jit_level`; with `check_finite` a node that makes a nan or inf out of finite
    numbers stops it.  `planning`: the seconds that laying out the plan took, with its kernels.
    """

    planning = 0.0

    def __init__(
        self, graph: FuncGraph, pipeline: Pipeline, level: str, check_finite: bool = False
    ):
        if debugging():
            verify(graph, "grad")
        self.graph = graph
        self.pipeline = pipeline
        self.level = level
        self.check_finite = check_finite
        self.name = graph.name
        self.n_outputs = len(items_of(graph.output))
        self._live: dict[Places, Places] = {}  # see expect
        self._pairs: dict[tuple, Pair] = {}
        self._decides: NeedConstant | None = None  # why its gradient needs the sizes of inputs
        self._sized: dict[tuple, GraphFunction] = {}  # for sizes of inputs

    @functools.cached_property
    def plan(self) -> Executable:
        """The graph, optimised and made executable."""
        return compile_plan(self.pipeline.run(self.graph), self.level)

    def __call__(self, inputs: Sequence[Any], as_arrays: Container[int] = ()) -> tuple:
        """The outputs as Tensors and numbers; those `as_arrays` as arrays, if no tape looks on."""
        if tapes.active:
            return self.recorded(inputs)
        values = [v._data if isinstance(v, Tensor) else v for v in inputs]
        if self.check_finite or checks_finite():
            found = run_checked(self.graph, values)
        else:
            found = self.plan.run(values)
        return tuple(
            [
                Tensor._wrap(v) if isinstance(v, np.ndarray) and i not in as_arrays else v
                for i, v in enumerate(found)
            ]
        )

    def recorded(self, inputs: Sequence[Any]) -> tuple:
        """A call under tapes: an entry on the innermost; what it runs is seen by those around."""
        tape, around = innermost()
        tensors = {i: x for i, x in enumerate(inputs) if isinstance(x, Tensor)}
        wrt = tuple(i for i, x in tensors.items() if tape.follows(x))
        with around:
            live = self.outputs_of(any(tensors[i].dtype.is_integer for i in wrt))
            if not wrt or not live:
                return self(inputs)
            pair = self.pair(wrt, self._live.get(wrt, live))
            if (
                pair is not None
                and pair.keeps_stacks
                and any(t.follows(x) for t in tapes.active for x in tensors.values())
            ):
                pair = self.recomputing(wrt, pair.live)  # a Stack is no Tensor, which tapes follow
            found = pair.forward(inputs) if pair is not None else ()
        if pair is None:
            return self.sized(inputs).recorded(inputs)
        outputs, kept = found[: self.n_outputs], found[self.n_outputs :]
        tape.record(Call(self, pair, kept), tuple(inputs), outputs)
        return outputs

    def like(self, graph: FuncGraph) -> GraphFunction:
        """Another graph with the same options."""
        return GraphFunction(graph, self.pipeline, self.level, self.check_finite)

    def outputs_of(self, whole: bool) -> Places:
        """The outputs that have a cotangent on a tape, where Python floats have none.

        With `whole` integers too: they depend on integers that the tape follows.
        """
        outputs = items_of(self.graph.output)
        places = differentiable(outputs, whole)
        return tuple(i for i in places if isinstance(outputs[i].abstract, AbstractTensor))

    def expect(self, wrt: Places, live: Places) -> None:
        """Be prepared that outputs `live` will get a cotangent, as those of the last call did."""
        self._live[wrt] = live

    def sized(self, inputs: Sequence[Any]) -> GraphFunction:
        """This function for inputs of these sizes only, which its gradient needs.

        Raises:
            TypeError: what it needs is known only when the graph has run so far.
        """
        sizes = sizes_of([p.abstract for p in self.graph.parameters], inputs)
        if not sizes:
            raise TypeError(f"{self._decides} cannot be known when a gradient is compiled")
        key = tuple(sizes.items())
        if key not in self._sized:
            self._sized[key] = self.like(copy_graphs(self.graph, sizes))
        return self._sized[key]

    def pair(self, wrt: Places, live: Places) -> Pair | None:
        """The pair that keeps residuals, for some inputs and outputs; None if sizes decide it."""
        if self._decides is not None:
            return None
        key = (wrt, live, bprop_getters.version)
        if key not in self._pairs:
            try:
                pair = keeping_pair(self, wrt, live)
            except NeedConstant as error:
                self._decides = error
                return None
            if unknown_sizes(pair.backward.graph) or may_keep_no_sizes(self.graph, pair):
                pair = self.recomputing(wrt, live)
            self._pairs[key] = pair
        return self._pairs[key]

    def recomputing(self, wrt: Places, live: Places) -> Pair:
        """The pair that keeps nothing: its backward graph begins with the forward graph."""
        key = (wrt, live, bprop_getters.version, "recomputing")
        if key not in self._pairs:
            whole = backward_graph(self.graph, wrt, live)
            backward = self.like(whole)
            sources = [("input", i) for i in range(len(self.graph.parameters))]
            self._pairs[key] = Pair(wrt, live, self, backward, sources)
        return self._pairs[key]


@dataclass
class Pair:
    """J of a graph, for the inputs `wrt` and the outputs `live`.

    `forward` gives the graph's outputs, and then what is kept.  `sources` say where backward's
    residuals are found: ("input", i), ("output", i) or ("kept", i).
    """

    wrt: Places
    live: Places
    forward: GraphFunction
    backward: GraphFunction
    sources: list[tuple[str, int]]
    keeps_stacks: bool = False


@dataclass
class Call:
    """A call of a graph, as a tape sees it: an entry's rule."""

    function: GraphFunction
    pair: Pair
    kept: tuple
    knows_none = True  # see tape.vjp_of

    def __post_init__(self) -> None:
        self.name = self.function.name

    def vjp(self, inputs: tuple, out: tuple, dout: tuple) -> tuple:
        """The cotangents of the inputs; a dout of None is zero, and no other outputs had one."""
        pair, live = self.pair, tuple(i for i, d in enumerate(dout) if d is not None)
        if live != pair.live:
            self.function.expect(pair.wrt, live)
            pair = self.function.recomputing(pair.wrt, live)
        values = {"input": inputs, "output": out, "kept": self.kept}
        residuals = [values[kind][i] for kind, i in pair.sources]
        found = iter(pair.backward([*residuals, *(dout[i] for i in live)]))
        return tuple(next(found) if i in pair.wrt else None for i in range(len(inputs)))


def keeping_pair(function: GraphFunction, wrt: Places, live: Places) -> Pair:
    """J of a graph; what is an input or an output already is not kept a second time."""
    fwd, bwd, n_residuals = J(function.graph, wrt, live)
    items = items_of(fwd.output)
    outputs, residuals = items[: len(items) - n_residuals], items[len(items) - n_residuals :]
    source_of = Sources().of
    known = {Place(p, None): ("input", i) for i, p in enumerate(fwd.parameters)}
    for i, output in enumerate(outputs):
        known.setdefault(source_of(output), ("output", i))
    kept: list[Node] = []
    for residual in residuals:
        if source_of(residual) not in known:
            known[source_of(residual)] = ("kept", len(kept))
            kept.append(residual)
    results = make_tuple([*outputs, *kept])
    whole = FuncGraph(fwd.name, fwd.parameters, results, fwd.origin)
    sources = [known[source_of(r)] for r in residuals]
    stacks = any(r.abstract == STACK for r in kept)
    return Pair(wrt, live, function.like(whole), function.like(bwd), sources, stacks)


class Sources:
    """Where values come from, through tuples and through calls that only hand them on.

    Not through calls of a graph with a gradient of its own, which is not that of what it does.
    """

    def __init__(self) -> None:
        self.known: dict[FuncGraph, list[Place]] = {}  # of the outputs of a graph

    def of(self, node: Node) -> Place:
        """The source of a value that is no tuple."""
        place = place_of(node)
        call = place.node
        if not isinstance(call, CNode) or not isinstance(call.callee, FuncGraph):
            return place
        graph = call.callee
        if graph not in self.known:
            self.known[graph] = []  # while it is open, for graphs that call themselves
            if graph.bprop is None:
                self.known[graph] = [*map(self.of, items_of(graph.output))]
        if not self.known[graph]:
            return place
        source = self.known[graph][place.item or 0]
        if source.node in graph.parameters:
            return self.of(call.inputs[graph.parameters.index(source.node)])
        return place if place.item is None else Place(call, self.known[graph].index(source))


def unknown_sizes(graph: FuncGraph) -> set[str]:
    """The sizes of inputs that a graph reads, and that its own parameters do not tell."""
    nodes = (n for g in graph.graphs() for n in g.nodes() if isinstance(n, CNode))
    read = {s for n in nodes if isinstance(n.callee, Primitive) for s in n.callee.symbols}
    told = {d.symbol for p in graph.parameters for d in getattr(p.abstract, "shape", ())
            if isinstance(d, Dim)}  # fmt: skip
    return {s for s in read - told if not is_born(s)}


def may_keep_no_sizes(graph: FuncGraph, pair: Pair) -> bool:
    """True if the sizes of what is kept may not be those of inputs: an arm, or a body, that does
    not run leaves a stand-in of no size, and backward would read sizes off that."""
    if not any(isinstance(n, CNode) and isinstance(n.callee, (Switch, While))
               for g in graph.graphs() for n in g.nodes()):  # fmt: skip
        return False
    residuals = zip(pair.sources, pair.backward.graph.parameters, strict=False)
    kept = (symbols_of(p.abstract) for (kind, _), p in residuals if kind == "kept")
    return not all(map(is_born, chain.from_iterable(kept)))


def backward_graph(graph: FuncGraph, wrt: Places, live: Places) -> FuncGraph:
    """A graph of (parameters, cotangents of outputs) that returns cotangents of parameters."""
    fwd, bwd, n_residuals = J(graph, wrt, live)
    outputs = items_of(graph.output)
    params = copied_parameters(graph.parameters)
    douts = [ParameterNode("dout", outputs[i].abstract) for i in live]
    residuals = items_of(CNode(fwd, params, fwd.abstract))[len(outputs) :]
    assert len(residuals) == n_residuals
    call = CNode(bwd, [*residuals, *douts], bwd.abstract)
    return FuncGraph(f"{graph.name}_backward", [*params, *douts], make_tuple(items_of(call)))
