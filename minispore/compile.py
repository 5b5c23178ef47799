"""jit: from a call of a Python function to a compiled graph, kept for calls like it.

    source -> evaluate -> grad (J) -> passes -> plan -> run

A compiled graph is kept under the *signature* of its arguments (dtypes and shapes of Tensors,
values of constants, which arguments are the same object) together with a *guard*, a generated
function that checks all else that it depends on and collects its inputs (frontend/capture.py).  A
call first tries the guards of the graphs with its signature; only if none holds is the function
compiled again.
"""

from __future__ import annotations

import functools
import os
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from minispore import context
from minispore.abstract import Abstract
from minispore.autodiff import api
from minispore.autodiff.tape import record_custom
from minispore.autodiff.transform import J, expand_grad, set_evaluator
from minispore.engine import Executable, compile_plan
from minispore.frontend import calls
from minispore.frontend.builtins import BUILTINS
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.evaluate import Evaluator
from minispore.frontend.gradient import call_gradient
from minispore.frontend.heap import Choice, Conflict
from minispore.frontend.lower import Lowering
from minispore.ir.node import CNode, FuncGraph, Grad, Node, ParameterNode, ValueNode, tuple_item
from minispore.passes import Fire, optimize
from minispore.primitive import bprop_getters, handled_by, is_tracing
from minispore.symbolic import NeedConstant, Scalar, wrap
from minispore.tensor import Tensor, tapes
from minispore.tree import Constant, Structure, Text, flatten, unflatten


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


# ------------------------------------------------------------------------------- one graph


@dataclass
class Stage:
    """A graph on the way, how long it took to make, and the rules that fired for it."""

    name: str
    graph: FuncGraph
    seconds: float
    fires: list[Fire] = field(default_factory=list)


@dataclass
class Compiled:
    """One compiled graph and what a call needs to run it.

    `history` are the graphs on the way, in order; `results` tells how to build what the function
    returns from the graph's outputs and from Tensors that were its inputs; `writes` which outputs
    are new values of which inputs; `attributes` which are written to which objects' attributes.
    """

    history: list[Stage]
    guard: Callable[[list], list | None]
    guard_source: str
    structure: Structure
    cells: list[int]  # per leaf of the result: the input that it is, or -1
    n_results: int
    writes: list[int]
    attributes: list[tuple[Any, str]]
    first_inputs: list[Tensor] | None
    function: GraphFunction
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def stages(self) -> dict[str, FuncGraph]:
        """The graphs on the way, by the name of their stage."""
        return {stage.name: stage.graph for stage in self.history}

    def run(self, inputs: list[Tensor]) -> Any:
        """Run the graph on the Tensors that the guard collected, and commit what it wrote."""
        with self.lock:
            outs = self.function(inputs)
            results = [inputs[cell] if cell >= 0 else outs[i] for i, cell in enumerate(self.cells)]
            k = self.n_results
            for number in self.writes:
                inputs[number]._write(outs[k])
                k += 1
            for obj, name in self.attributes:
                setattr(obj, name, outs[k])
                k += 1
        return unflatten(self.structure, results)


class GraphFunction:
    """A closed graph as a function of Tensors that the tape can differentiate, to any order."""

    name = "GraphFunction"

    def __init__(self, graph: FuncGraph):
        self.graph = graph
        self.name = graph.name
        self._backward: tuple[int, GraphFunction] | None = None

    @functools.cached_property
    def plan(self) -> Executable:
        """The graph, optimised and made executable."""
        return compile_plan(optimize(self.graph))

    def backward(self) -> GraphFunction:
        """(inputs, cotangents) -> cotangents of the inputs, as one graph of its own."""
        if self._backward is None or self._backward[0] != bprop_getters.version:
            self._backward = (bprop_getters.version, GraphFunction(backward_graph(self.graph)))
        return self._backward[1]

    def __call__(self, inputs: list[Any]) -> tuple:
        values = [v._data if isinstance(v, Tensor) else v for v in inputs]
        outs = tuple(map(_as_result, self.plan.run(values)))
        return record_custom(self, tuple(inputs), outs) if tapes.active else outs

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        """The tape's question for the cotangents of the inputs."""
        douts = [
            d
            for p, d in zip(self.graph.outputs(), dout, strict=True)
            if p.abstract.is_differentiable
        ]
        found = iter(self.backward()([*inputs, *douts]))
        return tuple(
            next(found) if p.abstract.is_differentiable else None for p in self.graph.parameters
        )


def backward_graph(graph: FuncGraph) -> FuncGraph:
    """A graph of (parameters, cotangents of outputs) that returns cotangents of parameters."""
    fwd, bwd, _ = J(graph)
    outputs = graph.outputs()
    params = [ParameterNode(p.name, p.abstract, p.origin) for p in graph.parameters]
    douts = [ParameterNode("dout", o.abstract) for o in outputs if o.abstract.is_differentiable]
    forward = CNode(fwd, params, fwd.abstract)
    items = fwd.outputs()[len(outputs) :]
    residuals = [tuple_item(forward, len(outputs) + i) for i in range(len(items))]
    call = CNode(bwd, [*residuals, *douts], bwd.abstract)
    return FuncGraph(f"{graph.name}_backward", [*params, *douts], call)


def uses_rules(graph: FuncGraph) -> bool:
    """True if a gradient is taken inside the graph, so that it depends on registered rules."""
    nodes = (n for g in graph.graphs() for n in g.nodes())
    return any(isinstance(n, CNode) and isinstance(n.callee, Grad) for n in nodes)


def _as_result(value: Any) -> Any:
    return Tensor._wrap(value) if isinstance(value, np.ndarray) else value


def compile_call(function: Callable, args: tuple, kwargs: dict, name: str) -> Compiled:
    """Compile one call: evaluate it into a graph, expand gradients, optimise, plan."""
    start = perf_counter()
    leaves, structure = flatten((args, kwargs), _is_tensor)
    tensors = list({id(t): t for t in leaves}.values())
    ev = Evaluator(name, context.get_context("max_call_depth"))
    with handled_by(ev):
        names = _argument_names(function, args, kwargs, leaves)
        shadows = [ev.outside.argument(t, n) for t, n in zip(leaves, names, strict=True)]
        seen_args, seen_kwargs = ev.homed(unflatten(structure, shadows))
        _mark_old(ev, (seen_args, seen_kwargs), (args, kwargs))
        try:
            value = ev.call(function, list(seen_args), dict(seen_kwargs))
        except NeedConstant as error:
            raise _needs_constant(ev, error) from None
        except calls.Unreachable:
            value = None
        value = ev.readable(value, "the result")
        return _finish(ev, value, len(tensors), start)


def _argument_names(
    function: Callable, args: tuple, kwargs: dict, leaves: list[Tensor]
) -> list[str]:
    """A name for each Tensor among the arguments: its parameter's, numbered within containers."""
    code = getattr(_plain_function(function), "__code__", None)
    positional = list(code.co_varnames[: code.co_argcount]) if code else []
    if positional[:1] == ["self"] and len(args) < len(positional):
        positional = positional[1:]
    names: list[str] = []
    for i, value in enumerate([*args, *kwargs.values()]):
        if i >= len(args):
            base = list(kwargs)[i - len(args)]
        else:
            base = positional[i] if i < len(positional) else f"arg{i}"
        inner, _ = flatten(value, _is_tensor)
        alone = len(inner) == 1 and _is_tensor(value)
        names += [base] if alone else [f"{base}_{j}" for j in range(len(inner))]
    return names


def _plain_function(function: Any) -> Any:
    """The Python function behind a method, a Cell, a jitted function or a gradient."""
    for attribute in ("__wrapped_function__", "fn", "__func__", "construct"):
        inner = getattr(function, attribute, None)
        if inner is not None and not isinstance(function, types.FunctionType):
            return _plain_function(inner)
    return function


def _mark_old(ev: Evaluator, seen: Any, real: Any) -> None:
    """Containers among the arguments may not be written; objects are what the key says they are."""
    if isinstance(seen, (list, dict)):
        ev.outside.old[id(seen)] = "an argument"
        ev.alive.append(seen)
    if isinstance(seen, (list, tuple)):
        for s, r in zip(seen, real, strict=True):
            _mark_old(ev, s, r)
    elif isinstance(seen, dict):
        for s, r in zip(seen.values(), real.values(), strict=True):
            _mark_old(ev, s, r)
    elif not isinstance(seen, (Tensor, type(None), bool, int, float, str, bytes)):
        ev.outside.pin(seen, type(seen).__name__)


def _needs_constant(ev: Evaluator, error: NeedConstant) -> TypeError:
    """The user's error for a run-time value where a graph needs a constant."""
    out = TypeError(f"{error} cannot be known when the graph is compiled")
    for note in getattr(error, "__notes__", ()):
        out.add_note(note)
    return out


def _finish(ev: Evaluator, value: Any, n_args: int, start: float) -> Compiled:
    """Lower what was evaluated (since `start`) to a graph, and compile that."""
    outside = ev.outside
    ev.homed(None)
    unique: dict[int, int] = {}
    leaves: list[Any] = []

    def leaf(v: Any) -> bool:
        return isinstance(v, (Tensor, Scalar))

    all_leaves, structure = flatten(value, leaf)
    _check_result(structure)
    order = []
    for v in all_leaves:
        if id(v) not in unique:
            unique[id(v)] = len(leaves)
            leaves.append(v)
        order.append(unique[id(v)])
    structure = _renumber(structure, order)
    cells = [next((i for i, s in enumerate(outside.shadows) if s is v), -1) for v in leaves]
    outputs: list[Node] = [ev.node_of(v) for v in leaves]
    writes = [i for i, s in enumerate(outside.shadows) if s._node is not outside.params[i]]
    outputs += [outside.shadows[i]._node for i in writes]  # type: ignore[misc]
    attributes = []
    for (owner, name), obj in ev.overlays.items():
        new = ev.readable(ev.world.slots["attribute", owner, name], name)
        attributes.append((obj, name))
        outputs.append(ev.node_of(new))
    token = ev.world.slots["token"]
    if not isinstance(token, ValueNode):
        outputs.append(token)
    graph = Lowering(ev.home, ev.names).graph(ev.root, outputs)
    if uses_rules(graph):
        outside.require(
            f"RULES.version == {bprop_getters.version}", "gradient rules", RULES=bprop_getters
        )
    guard, source = outside.guard(n_args)
    history = [Stage("evaluate", graph, perf_counter() - start)]
    function, more = _compile_graph(graph)
    return Compiled(
        history + more, guard, source, structure, cells, len(leaves), writes, attributes,
        list(outside.tensors), function,
    )  # fmt: skip


def _compile_graph(graph: FuncGraph) -> tuple[GraphFunction, list[Stage]]:
    """Expand gradients, optimise and plan a graph; every stage that changed it is kept."""
    last = perf_counter()
    function = GraphFunction(expand_grad(graph))
    stages = [Stage("grad", function.graph, perf_counter() - last)]
    log: list[Fire] = []
    n_logged = 0

    def keep(name: str, before: FuncGraph, after: FuncGraph) -> None:
        nonlocal last, n_logged
        now = perf_counter()
        if after is not before:
            number = len(stages)
            stages.append(Stage(f"optimize_{number:02d}_{name}", after, now - last, log[n_logged:]))
        last, n_logged = now, len(log)

    last = perf_counter()
    optimized = optimize(function.graph, log, keep)
    function.__dict__["plan"] = compile_plan(optimized)
    stages.append(Stage("optimized", optimized, perf_counter() - last))
    return function, stages


def _renumber(structure: Structure, order: list[int]) -> Structure:
    from minispore.tree import Leaf

    new = unflatten_structure(structure, [Leaf(i) for i in order])
    return new


def unflatten_structure(structure: Structure, leaves: list[Any]) -> Structure:
    """The structure with its leaves replaced by others."""
    from minispore.tree import Container, Leaf

    if isinstance(structure, Leaf):
        return leaves[structure.index]
    if isinstance(structure, Container):
        items = tuple(unflatten_structure(i, leaves) for i in structure.items)
        return Container(structure.kind, items, structure.keys)
    return structure


def _check_result(structure: Structure) -> None:
    """Refuse to return what a graph cannot: functions, strings of run-time values, choices."""
    from minispore.tree import Container, Leaf

    if isinstance(structure, Container):
        if structure.kind in (Text,):
            raise UnsupportedError(
                "a compiled function cannot return a string that depends on Tensors: print it, or "
                "return the Tensors"
            )
        for item in structure.items:
            _check_result(item)
    elif isinstance(structure, Constant) and not isinstance(structure, Leaf):
        value = structure.value
        if isinstance(value, Conflict):
            raise TypeError(f"the result cannot be returned: {value.why}")
        if isinstance(value, Choice):
            from minispore.frontend.control import refuse_choice

            refuse_choice(value, "the result")
        if callable(value) and not isinstance(value, type):
            raise UnsupportedError(
                "a compiled function cannot return a function: return what it computes"
            )


# ------------------------------------------------------------------------------- jit


# Called with every new graph, as (JitFunction, Compiled); report.py saves graphs here.
after_compiling: list[Callable[[JitFunction, Compiled], None]] = []


class JitFunction:
    """A function that runs as a compiled graph, whatever the mode."""

    def __init__(self, function: Callable, options: dict[str, Any] | None = None):
        functools.update_wrapper(self, function, updated=())
        self.__name__: str = getattr(function, "__name__", type(function).__name__)
        self.__wrapped_function__ = function
        self.options = options or {}
        self._cache: dict[tuple, list[Compiled]] = {}
        self.last: Compiled | None = None
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_tracing() or os.environ.get("MS_JIT") == "0":
            return self.__wrapped_function__(*args, **kwargs)
        compiled, inputs = self._find(args, kwargs)
        return compiled.run(inputs)

    def _find(self, args: tuple, kwargs: dict) -> tuple[Compiled, list[Tensor]]:
        """The graph for these arguments, compiled if there is none yet, and its inputs."""
        leaves, structure = flatten((args, kwargs), _is_tensor)
        key, tensors = _signature(leaves, structure)
        with self._lock:
            for compiled in reversed(self._cache.get(key, [])):
                inputs = compiled.guard(tensors)
                if inputs is not None:
                    self.last = compiled
                    return compiled, inputs
            compiled = compile_call(self.__wrapped_function__, args, kwargs, self.__name__)
            for listener in after_compiling:
                listener(self, compiled)
            self._cache.setdefault(key, []).append(compiled)
            self.last = compiled
            first, compiled.first_inputs = compiled.first_inputs, None
            assert first is not None
            return compiled, first

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for arguments like these, without running."""
        self._find(args, kwargs)

    def graph(self, stage: str = "optimized") -> FuncGraph:
        """The graph of the last call: "evaluate", "grad", "optimized", or any of ``stages``.

        Raises:
            RuntimeError: nothing has been compiled yet.
            ValueError: there is no such stage.
        """
        stages = self.stages
        if stage not in stages:
            raise ValueError(f"there is no stage '{stage}'; there are {', '.join(stages)}")
        return stages[stage]

    @property
    def stages(self) -> dict[str, FuncGraph]:
        """All stages of the last call's compilation, by name, in order."""
        if self.last is None:
            raise RuntimeError(f"{self.__name__} has not been compiled yet: call it first")
        return self.last.stages

    @property
    def compile_count(self) -> int:
        """How many graphs have been compiled."""
        return sum(map(len, self._cache.values()))


def _signature(leaves: list[Tensor], structure: Structure) -> tuple[tuple, list[Tensor]]:
    """What a graph is kept under, and the distinct Tensors among the arguments."""
    types_ = tuple((type(t), t._data.dtype, t._data.shape) for t in leaves)
    distinct = list({id(t): t for t in leaves}.values())
    if len(distinct) == len(leaves):
        return (structure, types_), leaves
    number = {id(t): i for i, t in enumerate(distinct)}
    return (structure, types_, tuple(number[id(t)] for t in leaves)), distinct


_OPTIONS = {
    "capture_mode": ("ast",),
    "jit_level": ("O0", "O1"),
    "dynamic": (0, 1),
    "fullgraph": (False, True),
    "backend": ("", "ms_backend"),
}


def jit(function: Any = None, **options: Any) -> Any:
    """Run a function, method or Cell as a compiled graph (MindSpore: ``mindspore.jit``).

    Use it as ``@jit``, ``@jit(...)``, ``jit(fn)``, on ``construct``, on a Cell class or instance.

    Args:
        function: what to compile; what is no callable is returned unchanged.
        options: ``capture_mode="ast"``, ``jit_level="O0"|"O1"``, ``fullgraph``, ``dynamic``.

    Raises:
        ValueError: an unknown option, or a value that is not allowed.
    """
    for key, value in options.items():
        if key not in _OPTIONS:
            raise ValueError(f"jit has no option '{key}'; it knows {', '.join(_OPTIONS)}")
        if value not in _OPTIONS[key]:
            allowed = ", ".join(map(repr, _OPTIONS[key]))
            raise ValueError(f"jit's {key} must be one of {allowed}, not {value!r}")
    if function is None:
        return lambda fn: jit(fn, **options)
    if isinstance(function, JitFunction) or not callable(function):
        return function
    if isinstance(function, type):
        if "construct" in vars(function):
            function.construct = JitFunction(function.construct, options)  # type: ignore[attr-defined]
        return function
    return JitFunction(function, options)


# ------------------------------------------------------------------------------- other rooms

_cells: weakref.WeakKeyDictionary[Any, JitFunction] = weakref.WeakKeyDictionary()


def _jit_of_cell(cell: Any) -> JitFunction:
    found = _cells.get(cell)
    if found is None:
        found = JitFunction(_CellCall(weakref.ref(cell)))
        _cells[cell] = found
    return found


class _CellCall:
    """Calls a Cell that must not be kept alive by its own compiled graphs."""

    def __init__(self, cell: weakref.ref):
        self.cell = cell
        self.__name__ = type(cell()).__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        cell: Any = self.cell()
        return cell(*args, **kwargs)


def run_cell(cell: Any, args: tuple, kwargs: dict) -> Any:
    """A Cell called in GRAPH_MODE."""
    return _jit_of_cell(cell)(*args, **kwargs)


def compile_cell(cell: Any, args: tuple, kwargs: dict) -> None:
    """``Cell.compile``: compile for arguments like these, without running."""
    _jit_of_cell(cell).compile(*args, **kwargs)


_gradients: OrderedDict[Any, JitFunction] = OrderedDict()  # the gradients used last


def _run_gradient(gradient: Any, args: tuple, kwargs: dict) -> Any:
    """A GradFunction called in GRAPH_MODE; equal ones share their graphs."""
    found = _gradients.pop(gradient, None) or JitFunction(gradient)
    _gradients[gradient] = found
    if len(_gradients) > 64:
        _gradients.popitem(last=False)
    return found(*args, **kwargs)


def _call_grad_operation(ev: Evaluator, operation: Any, args: list, kwargs: dict) -> Any:
    """``GradOperation(...)(net)`` inside a graph: its default weights are read at each call."""
    function, weights = (*args, kwargs.get("weights"))[:2]
    if operation.get_by_list and weights is None and hasattr(function, "trainable_params"):
        weights = tuple(ev.call(ev.get_attribute(function, "trainable_params"), [], {}))
    return ev.born(operation(function, weights))


def _refuse(name: str, ev: Evaluator, args: list, kwargs: dict) -> Any:
    raise UnsupportedError(f"'{name}' cannot be part of a compiled graph yet: use grad")


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
        raise UnsupportedError("a gradient rule must not use Tensors other than its arguments")
    return Lowering(ev.home, ev.names).graph(ev.root, outputs)


def _install() -> None:
    calls.SPECIAL.append(
        (JitFunction, lambda ev, f, args, kwargs: ev.call(f.__wrapped_function__, args, kwargs))
    )
    calls.SPECIAL.append((_CellCall, lambda ev, f, args, kwargs: ev.call(f.cell(), args, kwargs)))
    gradient = functools.partial(call_gradient, api.cotangents_of)
    calls.SPECIAL.append((api.GradFunction, gradient))
    calls.SPECIAL.append((api.GradOperation, _call_grad_operation))
    for function in (api.vjp, api.jvp, api.jacrev, api.jacfwd):
        BUILTINS[function] = functools.partial(_refuse, function.__name__)
    api.graph_runner = _run_gradient
    set_evaluator(graph_of_rule)


_install()
