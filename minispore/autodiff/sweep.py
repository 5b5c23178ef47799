"""J of one graph: the backward sweep over its nodes, and what fwd must keep for it.

Every kind of node has a rule: from the cotangents of its items (None where absent) to those of its
inputs.  The rules of calls, Switch and While also say what fwd computes in place of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from minispore import ops
from minispore.abstract import STACK, Abstract, AbstractTuple, agree, symbols_of
from minispore.autodiff.loops import LoopAdjoint
from minispore.autodiff.nodes import (
    Adjoint,
    Place,
    Places,
    backward,
    call_node,
    cotangent_sum,
    fresh_parameters,
    items_of,
    place_of,
    places_of,
    spliced,
    spread,
    type_at,
    types_of,
    unread_node,
    zero_node,
)
from minispore.autodiff.tape import flowing, vjp_of
from minispore.dims import is_born
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Node,
    ParameterNode,
    Rebuilder,
    Switch,
    ValueNode,
    While,
    copied_parameters,
    inline_call,
    is_call_of,
    is_tuple_plumbing,
    make_tuple,
    prim_node,
    toposort,
    tuple_item,
)
from minispore.ops.structural import Known
from minispore.primitive import Primitive, handled_by
from minispore.symbolic import GraphBuilder, wrap
from minispore.tree import NeedConstant

Cotangents = list[Node | None]
Evaluator = Callable[[Callable, list[Abstract]], FuncGraph]

# ------------------------------------------------------------------------ rules of primitives

_evaluator: list[Evaluator] = []  # at most one


def set_evaluator(evaluator: Evaluator) -> None:
    """Say how users' gradient rules, which are Python functions, become graphs.

    ``evaluator(bprop, abstracts)`` gets the types of the rule's arguments (inputs, out, dout; a
    tuple's items in a row) and returns its graph, whose output is a MakeTuple of one
    cotangent per input; an item that is not differentiable stands for None.  The front end sets it;
    without it the function is run once on symbolic values.
    """
    _evaluator[:] = [evaluator]


def call_rule(builder: GraphBuilder, bprop: Callable, arguments: tuple) -> Any:
    """The cotangents that a user's rule gives for symbolic arguments."""
    if not _evaluator:
        start = builder.token
        result = bprop(*arguments)
        if builder.token is not start:
            raise RuntimeError(
                f"{bprop.__name__} has an effect (print, assert, a check of values); a gradient "
                "rule in a graph must be free of them"
            )
        return result
    leaves = [v for a in arguments for v in (a if isinstance(a, tuple) else (a,))]
    nodes = [builder.node_of(v) for v in leaves]
    graph = _evaluator[0](bprop, [n.abstract for n in nodes])
    results = items_of(inline_call(graph, nodes))
    return tuple(wrap(r) if r.abstract.has_cotangent else None for r in results)


def rule_of_primitive(graph: Sequence[Node], node: CNode, douts: Cotangents) -> Cotangents:
    """The cotangents of a primitive's inputs, by its vjp rule run on nodes.

    `graph` are all nodes of the graph: some may tell a size that is born when it runs.
    """
    prim = node.callee
    assert isinstance(prim, Primitive)
    builder = GraphBuilder(backward(node.origin), sized=graph)
    own = len(node.inputs) - len(prim.needs)
    if isinstance(prim, Known):
        prim, own = prim.op, own - 1
    with handled_by(builder):
        seen = [None if d is None else wrap(d) for d in douts]
        cotangents = vjp_of(
            prim,  # type: ignore[arg-type]
            tuple(map(wrap, node.inputs[:own])),
            wrap(node),
            tuple(seen) if isinstance(node.abstract, AbstractTuple) else seen[0],
            lambda bprop, arguments: call_rule(builder, bprop, arguments),
        )
        found = [None if c is None else builder.node_of(c) for c in cotangents]
    return found + [None] * (len(node.inputs) - own)


def rule_of_push(node: CNode, douts: Cotangents) -> Cotangents:
    """What was pushed comes back on the Stack of cotangents: Pop it."""
    (dout,) = douts
    assert dout is not None
    value = node.inputs[1].abstract
    top, below = items_of(prim_node("Pop", dout, abstract=value, origin=backward(node.origin)))
    return [below, top]


def rule_of_pop(node: CNode, douts: Cotangents) -> Cotangents:
    """The cotangent of what was popped goes on top of the Stack of cotangents."""
    top, rest = (
        zero_node(item.abstract, [item]) if d is None else d
        for item, d in zip(items_of(node), douts, strict=True)
    )
    return [prim_node("Push", rest, top, origin=backward(node.origin))]


# ---------------------------------------------------------------------------------- activity


def active_places(graph: FuncGraph, wrt: Places) -> set[Place]:
    """The values of a graph that depend on the parameters numbered in `wrt`, and so have a
    cotangent: floats; integers too if they depend on integers among those.
    """
    active = {Place(graph.parameters[i], None) for i in wrt}
    for node in graph.nodes():
        if not isinstance(node, CNode) or is_tuple_plumbing(node):
            continue
        if isinstance(node.callee, While):
            reached = active_carry(node.callee, [place_of(x) in active for x in node.inputs])
            active |= {Place(node, i) for i in reached}
            continue
        inputs = node.inputs
        if isinstance(node.callee, Primitive):
            inputs = flowing(node.callee, inputs)
        felt = [x.abstract for x in inputs if place_of(x) in active]
        whole = any(a.is_whole or a == STACK for a in felt)  # a Stack may hold integers
        if felt:
            types = ((p, type_at(p)) for p in places_of(node))
            active |= {p for p, t in types if t.is_differentiable or (whole and t.is_whole)}
    return active


def as_whole(cotangent: Node, abstract: Abstract) -> Node:
    """A cotangent that was found for an integer Tensor, as integers (towards zero)."""
    builder = GraphBuilder(cotangent.origin)
    with handled_by(builder):
        return builder.node_of(ops.cast(wrap(cotangent), abstract.dtype))  # type: ignore[attr-defined]


def active_carry(loop: While, is_active: list[bool]) -> set[int]:
    """Which carried values of a loop come to depend on its active inputs, after any turns."""
    constants = {i for i in range(loop.n_const) if is_active[i]}
    carry = {i - loop.n_const for i in range(loop.n_const, len(is_active)) if is_active[i]}
    results = items_of(loop.body.output)
    while True:
        wrt = constants | {loop.n_const + i for i in carry}
        active = active_places(loop.body, tuple(sorted(wrt))) if wrt else set()
        reached = {i for i, r in enumerate(results) if place_of(r) in active}
        if reached <= carry:
            return carry
        carry |= reached


# --------------------------------------------------------------------------------- one graph


@dataclass(frozen=True)
class Forward:
    """How fwd computes a node of the graph in place of the node itself.

    `build(inputs)` returns the node's items and the values of `residuals`, which stand for them in
    bwd until it is complete.
    """

    residuals: list[ParameterNode]
    build: Callable[[list[Node]], tuple[list[Node], list[Node]]]


class FindsAdjoints(Protocol):
    """What a sweep asks for the graphs that its graph calls (transform.py)."""

    def of(self, graph: FuncGraph, wrt: Places, live: Places) -> Adjoint:
        """J of a graph for these parameters and outputs."""


class Sweep:
    """One graph on its way through J: first bwd, node by node in reverse; then fwd.

    Args:
        wrt, live: the numbers of the parameters and outputs that matter.
        parameters: those of fwd.
        douts: the parameters of bwd that take the cotangents of `live`.

    Attributes:
        results: fwd's outputs, but for the residuals.
        residuals: pairs of a parameter of bwd and the node of fwd that it stands for.
        cotangents: nodes of bwd, which read only residuals and douts, by parameter number.
    """

    def __init__(
        self,
        adjoints: FindsAdjoints,
        graph: FuncGraph,
        wrt: Places,
        live: Places,
        parameters: Sequence[Node],
        douts: Sequence[Node],
    ):
        self.adjoints = adjoints
        self.nodes = graph.nodes()
        self.active = active_places(graph, wrt)
        self.found: dict[Place, Node] = {}
        self.forwards: dict[Node, Forward] = {}
        results = items_of(graph.output)
        for i, dout in zip(live, douts, strict=True):
            self.accumulate(results[i], dout)
        for node in reversed(self.nodes):
            if isinstance(node, CNode) and not is_tuple_plumbing(node):
                self.step(node)
        fwd = self.forward_nodes(graph.parameters, parameters)
        self.results = [self.in_forward(fwd, r) for r in results]
        places = ((i, Place(graph.parameters[i], None)) for i in wrt)
        raw = {i: self.found[p] for i, p in places if p in self.found}
        self.residuals, self.cotangents = self.closed(fwd, raw)

    def is_active(self, node: Node) -> bool:
        """True if a gradient flows through the value."""
        return place_of(node) in self.active

    def accumulate(self, node: Node, cotangent: Node) -> None:
        """Add a cotangent to what a value has."""
        place = place_of(node)
        if place in self.active:
            self.found[place] = cotangent_sum(self.found.get(place), cotangent)

    def step(self, node: CNode) -> None:
        """Turn the cotangents of a node's items into those of its inputs."""
        douts = [self.found.get(p) for p in places_of(node)]
        if all(d is None for d in douts):
            return
        try:
            cotangents = self.rule_of(node)(node, douts)
        except (TypeError, NeedConstant) as error:
            if node.origin.where is not None and not hasattr(error, "__notes__"):
                error.add_note(f"While differentiating:\n{node.origin.where.shown()}")
            raise
        for x, cotangent in zip(node.inputs, cotangents, strict=True):
            if cotangent is not None and self.is_active(x):
                if x.abstract.is_whole and cotangent.abstract != x.abstract:
                    cotangent = as_whole(cotangent, x.abstract)
                if not agree(cotangent.abstract, x.abstract):
                    raise TypeError(
                        f"the gradient rule of {node.callee} gives {cotangent.abstract} for an "
                        f"input of type {x.abstract}"
                    )
                self.accumulate(x, cotangent)

    def rule_of(self, node: CNode) -> Callable[[CNode, Cotangents], Cotangents]:
        """How this kind of node goes backward."""
        if isinstance(node.callee, FuncGraph):
            return self.rule_of_call
        if isinstance(node.callee, Switch):
            return self.rule_of_switch
        if isinstance(node.callee, While):
            return self.rule_of_while
        assert isinstance(node.callee, Primitive), "Grad nodes are expanded innermost first"
        rules = {"Push": rule_of_push, "Pop": rule_of_pop}
        return rules.get(node.callee.name) or partial(rule_of_primitive, self.nodes)

    # ------------------------------------------------------------------------- call and Switch

    def forwarded(
        self, node: CNode, fwd: Callable[[], FuncGraph | Switch], kept: Sequence[Abstract]
    ) -> list[ParameterNode]:
        """Compute a call by `fwd()`, which also gives what is `kept`: the residuals that are."""
        residuals, outputs = fresh_parameters(kept, "r"), types_of(items_of(node))

        def build(inputs: list[Node]) -> tuple[list[Node], list[Node]]:
            items = call_node(fwd(), inputs, [*outputs, *kept], node.origin)
            return items[: len(outputs)], items[len(outputs) :]

        self.forwards[node] = Forward(residuals, build)
        return residuals

    def rule_of_call(self, node: CNode, douts: Cotangents) -> Cotangents:
        graph = node.callee
        assert isinstance(graph, FuncGraph)
        wrt = tuple(i for i, x in enumerate(node.inputs) if self.is_active(x))
        given = {i: d for i, d in enumerate(douts) if d is not None}
        adjoint = self.adjoints.of(graph, wrt, tuple(given))
        if not adjoint.grads:
            return [None] * len(node.inputs)
        residuals = self.forwarded(node, lambda: adjoint.fwd, adjoint.residuals)
        types = [node.inputs[i].abstract for i in adjoint.grads]
        operands = [*residuals, *given.values()]
        cotangents = call_node(adjoint.bwd, operands, types, backward(node.origin))
        return spread(len(node.inputs), adjoint.grads, cotangents)

    def rule_of_switch(self, node: CNode, douts: Cotangents) -> Cotangents:
        switch = node.callee
        assert isinstance(switch, Switch)
        operands = node.inputs[1:]
        wrt = tuple(i for i, x in enumerate(operands) if self.is_active(x))
        given = {i: d for i, d in enumerate(douts) if d is not None}
        arms = [self.adjoints.of(g, wrt, tuple(given)) for g in switch.graphs]
        grads = tuple(sorted({i for arm in arms for i in arm.grads}))
        if not grads:
            return [None] * len(node.inputs)

        def fwd() -> Switch:
            return Switch(tuple(forward_arm(g, arms, i) for i, g in enumerate(switch.graphs)))

        kept = [t for arm in arms for t in arm.residuals]
        residuals = self.forwarded(node, fwd, kept)
        types = {i: operands[i].abstract for i in grads}
        born = [i for i in grads if any(map(is_born, symbols_of(types[i])))]
        zeros = {i: zero_node(types[i], [operands[i]]) for i in born}
        seeds = types_of(given.values())
        bwd = Switch(tuple(backward_arm(arms, i, seeds, types, born) for i in range(len(arms))))
        cotangents = call_node(
            bwd,
            [node.inputs[0], *residuals, *zeros.values(), *given.values()],
            types.values(),
            backward(node.origin),
        )
        return [None, *spread(len(operands), grads, cotangents)]

    # ---------------------------------------------------------------------------------- While

    def rule_of_while(self, node: CNode, douts: Cotangents) -> Cotangents:
        loop = node.callee
        assert isinstance(loop, While)
        wrt = [i for i in range(loop.n_const) if self.is_active(node.inputs[i])]
        carried = range(len(node.inputs) - loop.n_const)
        wrt += [loop.n_const + i for i in carried if Place(node, i) in self.active]
        live = {i for i, d in enumerate(douts) if d is not None}
        while True:  # a cotangent may reach further carried values with each turn
            adjoint = self.adjoints.of(loop.body, tuple(wrt), tuple(sorted(live)))
            reached = {i - loop.n_const for i in adjoint.grads if i >= loop.n_const}
            if reached <= live:
                break
            live |= reached
        plan = LoopAdjoint(node, adjoint, sorted(live))
        self.forwards[node] = Forward(plan.residuals, plan.forward)
        return plan.backward(douts)

    # ---------------------------------------------------------------- fwd, and what bwd reads

    def forward_nodes(self, old: Sequence[Node], new: Sequence[Node]) -> Rebuilder:
        """The nodes of fwd, by those of the graph and those that stand for residuals."""
        rebuild = Rebuilder()
        for parameter, replacement in zip(old, new, strict=True):
            rebuild.substitute(parameter, replacement)
        for node in self.nodes:
            forward = self.forwards.get(node)
            if forward is not None:
                items, residuals = forward.build([rebuild.memo[id(x)] for x in node.inputs])
                is_tuple = isinstance(node.abstract, AbstractTuple)
                rebuild.substitute(node, make_tuple(items, node.origin) if is_tuple else items[0])
                for stand_in, value in zip(forward.residuals, residuals, strict=True):
                    rebuild.substitute(stand_in, value)
            elif is_call_of(node, "TupleGetItem"):
                rebuild.substitute(node, self.in_forward(rebuild, node))
            else:
                rebuild(node)
        return rebuild

    def in_forward(self, fwd: Rebuilder, node: Node) -> Node:
        """The value in fwd of a node of the graph, or of an item of one."""
        place = place_of(node)
        if id(place.node) not in fwd.memo:  # a size of what is
            assert isinstance(node, CNode)
            operands = [self.in_forward(fwd, i) for i in node.inputs]
            fwd.substitute(node, CNode(node.callee, operands, node.abstract, node.origin))
        value = fwd.memo[id(place.node)]
        return value if place.item is None else tuple_item(value, place.item)

    def closed(
        self, fwd: Rebuilder, raw: dict[int, Node]
    ) -> tuple[list[tuple[ParameterNode, Node]], dict[int, Node]]:
        """Replace what bwd reads of the forward pass by parameters: the residuals.

        Constants need none.  Values that are one value in fwd share a parameter.  Where only the
        size of one is read, that is what is kept.
        """
        kept: dict[Place, tuple[ParameterNode, Node]] = {}
        rebuild = Rebuilder()

        def is_forward(node: Node) -> bool:
            place = place_of(node).node
            return id(place) in fwd.memo or (
                is_call_of(place, "DimSize") and is_forward(place.inputs[0])
            )

        read = [*raw.values()]
        read += [x for n in toposort(raw.values(), stop=is_forward) for x in n.inputs]
        for node in filter(is_forward, read):
            value = self.in_forward(fwd, node)
            if isinstance(value, ValueNode):
                rebuild.substitute(node, value)
                continue
            place = place_of(value)
            if place not in kept:
                kept[place] = (ParameterNode(f"r{len(kept)}", value.abstract), value)
            rebuild.substitute(node, kept[place][0])
        return list(kept.values()), {i: rebuild(node) for i, node in raw.items()}


def forward_arm(graph: FuncGraph, arms: list[Adjoint], number: int) -> FuncGraph:
    """Arm `number` of fwd's Switch: its outputs, its residuals, zeros for those of the others."""
    own = arms[number]
    outputs = types_of(items_of(graph.output))
    parameters = copied_parameters(graph.parameters)
    items = spliced(own.fwd, parameters, outputs + own.residuals, graph.origin)
    kept: list[Node] = items[: len(outputs)]
    for i, arm in enumerate(arms):
        kept += items[len(outputs) :] if i == number else map(unread_node, arm.residuals)
    output = make_tuple(kept)
    return FuncGraph(own.fwd.name, parameters, output, graph.origin, graph.scope_kind)


def backward_arm(
    arms: list[Adjoint],
    number: int,
    seeds: Iterable[Abstract],
    types: dict[int, Abstract],
    born: list[int],
) -> FuncGraph:
    """Arm `number` of bwd's Switch: from all arms' residuals and the cotangents `seeds`.

    It is given zeros where only values tell their size (`born`).
    """
    own = arms[number]
    residuals = [fresh_parameters(arm.residuals, f"r{i}_") for i, arm in enumerate(arms)]
    zeros = fresh_parameters([types[i] for i in born], "zero")
    douts = fresh_parameters(seeds, "dout")
    operands = [*residuals[number], *douts]
    origin = own.bwd.origin
    cotangents = spliced(own.bwd, operands, [types[i] for i in own.grads], origin)
    found = {**dict(zip(born, zeros, strict=True)), **dict(zip(own.grads, cotangents, strict=True))}
    output = make_tuple([found[i] if i in found else zero_node(t) for i, t in types.items()])
    parameters = [*(p for arm in residuals for p in arm), *zeros, *douts]
    return FuncGraph(own.bwd.name, parameters, output, origin, own.bwd.scope_kind)
