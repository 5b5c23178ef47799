"""A compiled call: from a call of a Python function to a graph, and to what runs it.

    source -> evaluate -> grad (J) -> passes -> plan -> run

``compile_call`` goes this way once; what it returns, a Compiled, is run for every call like that
(compile.py decides which those are).  Under a tape of PyNative mode a graph is one entry:
graph_function.py.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from minispore import context
from minispore.abstract import Abstract
from minispore.autodiff.transform import expand_grad
from minispore.dims import Agreed, Decisions, deciding
from minispore.engine import compile_plan
from minispore.frontend.capture import Older, Opaque, items_of
from minispore.frontend.commits import Store, Target
from minispore.frontend.errors import UnsupportedError, deep_stack, locate
from minispore.frontend.evaluate import Evaluator
from minispore.frontend.exits import Unreachable
from minispore.frontend.guards import Guard, Guarded
from minispore.frontend.heap import Closure, Lazy
from minispore.frontend.lower import Lowering
from minispore.frontend.trace import Tracer
from minispore.frontend.values import is_symbolic, refuse_choice
from minispore.graph_function import GraphFunction
from minispore.inputs import Axes
from minispore.ir.interp import debugging
from minispore.ir.node import FuncGraph, Node, ParameterNode, ValueNode
from minispore.ir.verify import verify
from minispore.jit_options import DEFAULTS, Options
from minispore.ops.structural import written_before
from minispore.parameter import Parameter
from minispore.passes import Fire
from minispore.passes.pipeline import BEFORE_GRAD
from minispore.primitive import ScalarLike, handled_by
from minispore.random import drawn_again_if_it_fails
from minispore.shortcut import Shortcuts
from minispore.symbolic import NeedConstant, is_run_time, wrap
from minispore.tensor import Tensor, is_variable, tapes
from minispore.tree import Constant, Container, Marked, Structure, flatten, unflatten, unmarked

# ------------------------------------------------------------------------------- one graph


@dataclass
class Stage:
    """A graph on the way, how long it took to make, and the rules that fired for it."""

    name: str
    graph: FuncGraph
    seconds: float
    fires: list[Fire] = field(default_factory=list)


@dataclass
class PassRun:
    """One run of a pass: what it was given and what it made, the same graph if it did nothing."""

    name: str
    before: FuncGraph
    after: FuncGraph
    seconds: float
    fires: list[Fire]


@dataclass
class Compiled:
    """One compiled graph and what a call needs to run it.

    `history` are the graphs on the way, in order; `runs` all passes that ran.  `structure` is that
    of the function's result.  A place says where a value is found: input number p, or output number
    ~p.  `places` are those of the result's leaves; `writes` tell which targets get the value at
    which place, and `stores` what older containers hold.  Where such are written or returned, they
    follow the inputs, from number `containers` on (else None): first those that the guard found,
    then those at `paths` in the arguments.  `number` counts the graphs of a function; `arguments`
    describe what this one was compiled for (recompile.py).
    """

    history: list[Stage]
    runs: list[PassRun]
    guard: Guard
    guarded: Guarded
    structure: Structure
    places: list[int]
    targets: list[Target]
    writes: list[tuple[int, int]]
    containers: int | None
    stores: list[Store]
    paths: list[tuple]
    first_inputs: list[Any] | None
    function: GraphFunction
    lock: threading.RLock = field(default_factory=threading.RLock)
    number: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    shortcuts: Shortcuts = field(default_factory=Shortcuts)

    @functools.cached_property
    def taken(self) -> dict[int, int]:
        """Outputs that are written to one Tensor and given to no one else: the Tensor's input."""
        kept = (p for store in self.stores for p in store.places)
        uses = Counter([*self.places, *(p for _, p in self.writes), *kept])
        return {
            ~p: self.targets[n].cell
            for n, p in self.writes
            if p < 0 and not self.targets[n].name and uses[p] == 1
        }

    @functools.cached_property
    def other_writes(self) -> list[tuple[int, int]]:
        """The writes of all other outputs, and of inputs."""
        return [(n, p) for n, p in self.writes if ~p not in self.taken]

    @property
    def stages(self) -> dict[str, FuncGraph]:
        """The graphs on the way, by the name of their stage."""
        return {stage.name: stage.graph for stage in self.history}

    def graph(self, stage: str = "optimized") -> FuncGraph:
        """The graph after a stage; ValueError if there is no such stage."""
        stages = self.stages
        if stage not in stages:
            raise ValueError(f"there is no stage '{stage}'; there are {', '.join(stages)}")
        return stages[stage]

    def run(self, inputs: list[Any], args: tuple = (), kwargs: dict | None = None) -> Any:
        """Run the graph on the inputs that the guard collected, and commit what it wrote.

        If it fails, what it wrote to Tensors and attributes before that is committed.  Two threads
        do not write at once.  `args` and `kwargs` are those of the call.
        """
        n = self.containers
        if n is not None:
            inputs = self.with_containers(inputs, args, kwargs or {})
        with self.lock if self.targets or self.stores else contextlib.nullcontext():
            taken = {} if tapes.active else self.taken
            try:
                outs = self.function(inputs if n is None else inputs[:n], taken)
            except Exception as error:
                for number, value in written_before(error).items():
                    found = Tensor._wrap(value.copy()) if isinstance(value, np.ndarray) else value
                    self.targets[number].write(inputs, found)
                raise
            for i, cell in taken.items():
                inputs[cell]._take_array(outs[i])
            for number, place in self.other_writes if taken else self.writes:
                self.targets[number].write(inputs, inputs[place] if place >= 0 else outs[~place])
            for store in self.stores:
                store.write(lambda p: inputs[p] if p >= 0 else outs[~p])
        return unflatten(self.structure, [inputs[p] if p >= 0 else outs[~p] for p in self.places])

    def with_containers(self, inputs: list[Any], args: tuple, kwargs: dict) -> list[Any]:
        """The inputs, and then the containers; TypeError if two that the graph knows are one."""
        at: Any = operator.getitem
        found = [*inputs, *(functools.reduce(at, path, (args, kwargs)) for path in self.paths)]
        if len({*map(id, found)}) < len(found) and self.stores:
            raise TypeError(
                "a list, dict or set that the compiled function changes is reached in two ways "
                "that were two when it was compiled: pass a copy"
            )
        return found


# ------------------------------------------------------------------------------- compiling


def compile_call(
    function: Callable,
    args: tuple,
    kwargs: dict,
    name: str,
    options: Options = DEFAULTS,
    axes: Axes | None = None,
) -> Compiled:
    """Compile one call: evaluate it into a graph, expand gradients, optimise, plan.

    `axes`: of an argument, by its id, those whose size may be another at the next call.
    """
    depth = context.get_context("max_call_depth")
    evaluator: type[Evaluator] = Tracer if options.capture_mode == "trace" else Evaluator
    agreed: dict[str, Any] = {}  # sizes that turned out to be others (dims.py)
    keeps_loops = True
    with deep_stack(depth):
        while True:
            ev, decisions = evaluator(name, depth, keeps_loops), Decisions(agreed)
            try:
                with drawn_again_if_it_fails():
                    return _compile(ev, function, args, kwargs, options, axes or {}, decisions)
            except Agreed as found:
                agreed[found.symbol] = found.size
            except Exception as error:
                if not ev.kept or not keeps_loops:
                    decisions.tell(error)
                    raise
                # The numbers of a loop that constants decide may be needed after it: unroll such.
                keeps_loops = False


def _compile(
    ev: Evaluator, function: Callable, args: tuple, kwargs: dict, options: Options, axes: Axes,
    decisions: Decisions,
) -> Compiled:  # fmt: skip
    start = perf_counter()
    with handled_by(ev), deciding(decisions):
        names = _argument_names(function, args, kwargs)
        (seen_args, seen_kwargs), n_args = _arguments(ev, names, (args, kwargs), axes, decisions)
        _note_containers(ev, (seen_args, seen_kwargs), (args, kwargs), ())
        try:
            value = ev.call(function, list(seen_args), seen_kwargs)
        except NeedConstant as error:
            raise _needs_constant(ev, error) from None
        except Unreachable:
            value = None
        try:
            result = Result(ev, value)
            outputs = result.outputs()
        except Exception as error:
            locate(error, [ev.returned] if ev.returned else [])
            raise
    graph = Lowering(ev.home, ev.names).graph(ev.root, outputs)
    if debugging():
        verify(graph, "evaluate")
    if graph.has_grad():  # then it depends on registered rules
        ev.outside.gradient_rules()
    history = [Stage("evaluate", graph, perf_counter() - start)]
    try:
        graph_function, more, runs = _compile_graph(graph, options, decisions)
    except NeedConstant as error:
        raise _needs_constant(ev, error) from None
    guarded = ev.outside.guarded(n_args, decisions, result.containers is not None)
    inputs = list(ev.outside.tensors)
    if result.containers is not None:
        inputs += [older.real for older in ev.outside.captured()]
    return Compiled(
        history + more, runs, guarded.function(), guarded, result.structure, result.places,
        ev.commits.targets, result.writes, result.containers, result.stores, result.paths,
        inputs, graph_function,
    )  # fmt: skip


def _arguments(
    ev: Evaluator, names: list[str], given: tuple[tuple, dict], axes: Axes, decisions: Decisions
) -> tuple[tuple[tuple, dict], int]:
    """The arguments as the evaluated program sees them, and how many inputs of the graph."""
    leaves, structure = flatten(given, is_variable)
    shadows = [
        ev.outside.argument(t, n, decisions, axes.get(id(t), ()))
        for t, n in zip(leaves, names, strict=True)
    ]
    n_args = len(ev.outside.tensors)
    return _as_seen(ev, unflatten(structure, shadows)), n_args


def _argument_names(function: Callable, args: tuple, kwargs: dict) -> list[str]:
    """A name for each input among the arguments: its parameter's, numbered within containers."""
    code = getattr(python_function(function), "__code__", None)
    positional = list(code.co_varnames[: code.co_argcount]) if code else []
    if positional[:1] == ["self"] and len(args) < len(positional):
        positional = positional[1:]
    more = [f"arg{i}" for i in range(len(positional), len(args))]
    bases = [*(positional + more)[: len(args)], *kwargs]
    names: list[str] = []
    for base, value in zip(bases, [*args, *kwargs.values()], strict=True):
        inner = flatten(value, is_variable)[0]
        names += [base] if is_variable(value) else [f"{base}_{j}" for j in range(len(inner))]
    return names


def python_function(function: Any) -> types.FunctionType | None:
    """The function behind a method, Cell, jitted function or gradient; None if it is not Python."""
    if isinstance(function, types.FunctionType):
        return function
    for attribute in ("__wrapped_function__", "fn", "__func__", "construct"):
        inner = getattr(function, attribute, None)
        if inner is not None:
            return python_function(inner)
    return None


def _as_seen(ev: Evaluator, value: Any) -> Any:
    """An argument as the program sees it: what it cannot write is marked, objects are guarded."""
    if isinstance(value, (Tensor, ScalarLike, type(None), bool, int, float, str, bytes)):
        return value
    if isinstance(value, Marked):
        value = _as_seen(ev, unmarked(value))
        ev.outside.marked[id(value)] = value
        return value
    if isinstance(value, tuple):
        return tuple.__new__(type(value), [_as_seen(ev, v) for v in value])
    if type(value) is list:
        value[:] = [_as_seen(ev, v) for v in value]
    elif type(value) is dict:
        value.update({k: _as_seen(ev, v) for k, v in value.items()})
    else:
        code = ev.outside.constant(value)
        seen = ev.homed(ev.outside.capture(value, code, False, f"a {type(value).__name__}"))
        if isinstance(value, set):  # equal ones share a graph
            ev.outside.older.pop(id(seen), None)
        return seen
    ev.outside.old[id(value)] = "an argument"
    ev.alive.append(value)
    return value


def _note_containers(ev: Evaluator, seen: Any, real: Any, path: tuple) -> None:
    """Note the lists and dicts among the arguments, and where they are."""
    if isinstance(seen, (list, dict)) and path[1:] and id(seen) not in ev.outside.older:
        ev.outside.older[id(seen)] = Older(seen, real, items_of(seen), path=path)
    if isinstance(seen, (list, tuple, dict)) and isinstance(real, (list, tuple, dict)):
        for key, item in seen.items() if isinstance(seen, dict) else enumerate(seen):
            _note_containers(ev, item, real[key], (*path, key))


def _needs_constant(ev: Evaluator, error: NeedConstant) -> TypeError:
    """The user's error for a run-time value where a graph needs a constant."""
    advice = f": {error.advice}" if error.advice else ""
    if isinstance(ev, Tracer):
        advice = (
            ", while Python runs the function (capture_mode='trace'); capture_mode='ast' reads its "
            "source, and makes both arms of an if part of the graph"
        )
    out = TypeError(f"{error} cannot be known when the graph is compiled{advice}")
    for note in getattr(error, "__notes__", ()):
        out.add_note(note)
    return out


class Result:
    """What a function returned and wrote, as outputs of its graph; see Compiled."""

    def __init__(self, ev: Evaluator, value: Any):
        self.ev = ev
        value = ev.readable(value, "the result")
        ev.homed(None)
        self.values: list[Any] = []  # outputs: Tensors, Scalars, and new values of Tensors
        leaves, self.structure = flatten(value, self.is_leaf)
        self.check(self.structure)
        self.places = [self.place(leaf) for leaf in leaves]
        self.stores = [self.store(o) for o in ev.outside.older.values() if o.is_written]
        self.writes = [(n, self.place(v)) for n, v in ev.commits.attributes()]
        for number, node in ev.commits.tensors():
            self.values.append(node)
            self.writes.append((number, ~(len(self.values) - 1)))

    def is_leaf(self, value: Any) -> bool:
        """True for what has a place: what the graph computes, and containers that are older."""
        return is_run_time(value) or id(value) in self.ev.outside.older

    def store(self, older: Older) -> Store:
        """What an older container holds in the end."""
        seen = older.seen
        items = dict(seen) if isinstance(seen, dict) else list(seen)
        for item in items_of(seen):
            self.ev.readable(item, self.ev.outside.old[id(seen)])
        leaves, structure = flatten(items, self.is_leaf)
        self.check(structure, kept=True)
        return Store(self.place(seen), structure, [self.place(leaf) for leaf in leaves])

    def number_containers(self) -> None:
        """Put numbers in the places of containers: they follow the Tensors, which are complete."""
        outside = self.ev.outside
        arguments = [o for o in outside.older.values() if o.path]
        self.paths = [o.path for o in arguments]
        n = len(outside.tensors)
        numbers = {id(o): n + i for i, o in enumerate([*outside.captured(), *arguments])}

        def numbered(place: Any) -> Any:
            return numbers.get(id(place), place)

        used = self.stores or any(isinstance(p, Older) for p in self.places)
        self.containers = n if used else None
        self.places = [*map(numbered, self.places)]
        self.stores = [
            Store(numbered(s.place), s.structure, [*map(numbered, s.places)]) for s in self.stores
        ]

    def place(self, leaf: Any) -> Any:
        """Where a leaf is found; a Tensor that appears twice is one output, and one object."""
        if id(leaf) in self.ev.outside.older:
            return self.ev.outside.older[id(leaf)]
        known = [i for i, v in enumerate(self.values) if v is leaf]
        if not known:
            self.values.append(leaf)
        number = self.ev.outside.number(leaf)
        if number is not None:
            return number
        if isinstance(leaf, Parameter) and not self.ev.alternatives.is_one_of(leaf):
            raise UnsupportedError("a Parameter cannot be made in a compiled function")
        return ~(known[0] if known else len(self.values) - 1)

    def outputs(self) -> list[Node]:
        """The outputs, and the last Token if there are effects."""
        nodes = [self.ev.node_of(v) for v in self.values]
        self.number_containers()
        token = self.ev.world.slots["token"]
        return nodes if isinstance(token, ValueNode) else [*nodes, token]

    def check(self, structure: Structure, kept: bool = False) -> None:
        """Refuse to return what a graph cannot: functions, objects made here.

        `kept`: it is not returned, but what an older container holds: old functions may be.
        """
        if isinstance(structure, Constant):
            self.check_constant(structure.value, kept)
        elif isinstance(structure, Container):
            for item in (*structure.items, *structure.keys):
                self.check(item, kept)

    def check_constant(self, value: Any, kept: bool) -> None:
        refuse_choice(value, "the result")
        if callable(value) and not isinstance(value, type) and not kept:
            raise UnsupportedError(
                "a compiled function cannot return a function: return what it computes"
            )
        unsafe = (
            set,
            np.ndarray,
            Lazy,
            Tensor,
            Closure,
            Opaque,
        )  # a Tensor here is the key of a dict
        old = id(value) in self.ev.outside.old or self.ev.outside.is_fresh(value)
        mutable = isinstance(value, unsafe) or old
        if mutable or is_symbolic(value) or self.ev.is_new(value):
            kind = type(value).__name__
            raise UnsupportedError(
                f"a compiled function cannot return an object of type {kind}: return Tensors, "
                "numbers and strings, or tuples, lists and dicts of them"
            )


def _compile_graph(
    graph: FuncGraph, options: Options, decisions: Decisions
) -> tuple[GraphFunction, list[Stage], list[PassRun]]:
    """Expand gradients, optimise and plan a graph; every stage that changed it is kept."""
    log: list[Fire] = []
    runs: list[PassRun] = []
    stages: list[Stage] = []
    n_logged, last = 0, perf_counter()

    def keep(name: str, before: FuncGraph, after: FuncGraph) -> None:
        nonlocal last, n_logged
        now = perf_counter()
        runs.append(PassRun(name, before, after, now - last, log[n_logged:]))
        if after is not before:
            title = f"optimize_{len(stages):02d}_{name}" if grad in stages else name
            stages.append(Stage(title, after, now - last, log[n_logged:]))
        last, n_logged = perf_counter(), len(log)

    grad = Stage("grad", graph, 0.0)
    combined = BEFORE_GRAD.run(graph, log, keep)
    last = perf_counter()
    with deciding(decisions):
        grad.graph = expand_grad(combined)
    grad.seconds = perf_counter() - last
    stages.append(grad)
    pipeline = options.pipeline
    function = GraphFunction(grad.graph, pipeline, options.jit_level, options.check_finite)
    last = perf_counter()
    optimized = pipeline.run(grad.graph, log, keep)
    stages.append(Stage("optimized", optimized, perf_counter() - last))
    last = perf_counter()
    function.__dict__["plan"] = compile_plan(optimized, options.jit_level)
    function.planning = perf_counter() - last
    return function, stages, runs


def graph_of_rule(rule: Callable, abstracts: list[Abstract]) -> FuncGraph:
    """The graph of a user's gradient rule; an int stands where it returns None."""
    ev = Evaluator(getattr(rule, "__name__", "bprop"))
    with handled_by(ev):
        args = []
        for i, abstract in enumerate(abstracts):
            param = ParameterNode(f"x{i}", abstract)
            ev.root.params.append(param)
            ev.home[id(param)] = ev.root
            args.append(wrap(param))
        value = ev.call(rule, args, {})
        items = value if isinstance(value, (tuple, list)) else (value,)
        outputs = [ev.node_of(0 if v is None else v) for v in items]
    if ev.outside.params:
        raise UnsupportedError(
            "a gradient rule must not use Tensors other than its arguments: make them inputs of "
            "the primitive"
        )
    return Lowering(ev.home, ev.names).graph(ev.root, outputs)
