"""jit: a function that runs as compiled graphs, kept for calls like those they were compiled for.

A graph is kept under the *signature* of the arguments (dtypes and shapes of Tensors, values of
constants, which arguments are the same object) together with a *guard*, a generated function that
checks all else that it depends on and collects its inputs (frontend/capture.py).  A call first
tries the guards of the graphs with its signature; only if none holds is the function compiled
again (program.py).
"""

from __future__ import annotations

import functools
import os
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

from minispore.autodiff import api
from minispore.autodiff.jacobian import DirectionalDerivative, JacobianFunction, vjp
from minispore.autodiff.transform import set_evaluator
from minispore.frontend import calls
from minispore.frontend.builtins import BUILTINS
from minispore.frontend.evaluate import Evaluator
from minispore.frontend.gradient import call_gradient
from minispore.frontend.natives import native
from minispore.inputs import Axes, Inputs, described_inputs
from minispore.ir.interp import debugging
from minispore.ir.node import FuncGraph
from minispore.ir.verify import verify
from minispore.jit_options import DEFAULTS, Options, check_signature, options_of, options_of_cell
from minispore.mutable import Mutable
from minispore.primitive import is_tracing
from minispore.program import Compiled, compile_call, graph_of_rule
from minispore.random import drawn_again
from minispore.recompile import History, Recompilation, describe
from minispore.shortcut import MISSED, Shortcut
from minispore.tensor import Tensor, is_variable, tapes
from minispore.tree import flatten

# ------------------------------------------------------------------------------- jit


# Called with every new graph, as (JitFunction, Compiled); views/report.py saves graphs here.
after_compiling: list[Callable[[JitFunction, Compiled], None]] = []


MOST_GRAPHS = 64  # of one function with one signature; the oldest are forgotten


class Graphs:
    """The graphs of one function by signature, and those kept with an object; see ``graphs_of``."""

    def __init__(self, owner: Any = None):
        self.owner = owner
        self.by_signature: dict[tuple, list[Compiled]] = {}
        self.of: dict[Any, Any] = {}  # what is kept with an object: its methods' Graphs ...
        self.shortcut: Shortcut | None = None  # for a call like the last one
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple:
        return Graphs, ()  # a copy of an object starts without graphs


def graphs_of(obj: Any, key: Any, make: Callable[[], Any]) -> Any:
    """What is kept with an object under a key.

    Graphs refer to the objects that they read.  Kept anywhere else, they would keep these alive.
    """
    graphs = obj.__dict__.get("_graphs")
    if graphs is None or graphs.owner is not obj:  # none yet, or those of the original of a copy
        graphs = obj.__dict__["_graphs"] = Graphs(obj)
    return graphs.of.get(key) or graphs.of.setdefault(key, make())


class JitFunction:
    """A function that runs as a compiled graph, whatever the mode.

    Attributes:
        options: those that ``jit`` was given.
        compile_count: how many graphs have been compiled.
    """

    def __init__(self, function: Callable, options: Options = DEFAULTS):
        functools.update_wrapper(self, function, updated=())
        self.__name__: str = getattr(function, "__name__", type(function).__name__)
        self.__wrapped_function__ = function
        self.options = options
        self.compile_count = 0
        self.history = History()
        self._last: Callable[[], Compiled | None] = lambda: None
        self._graphs = Graphs(self)
        self._varies = SizesSeen()
        self._is_plain = isinstance(function, types.FunctionType)
        self.described = described_inputs(function) if self._is_plain else None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {self.__wrapped_function__!r}>"

    def __reduce__(self) -> str:
        return str(self.__wrapped_function__.__qualname__)  # as functions are: by name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        if is_tracing():
            return self.__wrapped_function__(*args, **kwargs)
        return self.run(args, kwargs, "MS_JIT")

    def run(self, args: tuple, kwargs: dict, switch: str = "") -> Any:
        """A call, as a graph; not if the environment's variable `switch` is "0"."""
        __tracebackhide__ = True
        kept = None
        if not kwargs and not tapes.active:
            kept = self._graphs if args and type(args[0]) is Tensor else self._graphs_for(args)[0]
            if kept.shortcut is not None:
                found = kept.shortcut(args)
                if found is not MISSED:
                    return found
        if switch and os.environ.get(switch) == "0":
            return self.__wrapped_function__(*args, **kwargs)
        try:
            compiled, inputs = self.find(args, kwargs)
            found = compiled.run(inputs, args, kwargs)
        except Exception as error:
            if debugging() or self.options.debug_level == "DEBUG":
                raise
            error.__suppress_context__ = True
            raise error.with_traceback(None)  # noqa: B904  # its notes show the user's lines
        if kept is not None:
            kept.shortcut = compiled.shortcuts.after(compiled, args)
        return found

    def run_all(self, calls: list[tuple]) -> Any:
        """The result of the last of some calls, made one after the other.

        Each is taken from the list when it is made: an error leaves those after it.
        """
        __tracebackhide__ = True
        found = None
        while calls:
            shortcut = self._graphs.shortcut
            if shortcut is not None and not tapes.active and not is_tracing():
                found = shortcut.several(calls)
                if not calls:
                    break
            found = self(*calls.pop(0))
        return found

    def find(self, args: tuple, kwargs: dict) -> tuple[Compiled, list[Any]]:
        """The graph for these arguments, compiled if there is none yet, and its inputs."""
        options = self.options
        graphs, described = self._graphs_for(args)
        axes = described.axes(self.__wrapped_function__, args, kwargs) if described else None
        if options.input_signature is not None:
            axes = check_signature(options.input_signature, self.__name__, args, kwargs)
        if options.dynamic:
            axes = self._varies(args, kwargs, axes or {})
        key, tensors = _signature(args, kwargs, axes)
        with graphs.lock:
            known = graphs.by_signature.setdefault((options.jit_level, key), [])
            for compiled in reversed(known):
                inputs = compiled.guard(tensors)
                if inputs is not None:
                    self._last = weakref.ref(compiled)
                    return compiled, inputs
            everything = [g for kept in graphs.by_signature.values() for g in kept]
            compiled = self._compile(args, kwargs, axes or {}, tensors, known, everything)
            known.append(compiled)
            del known[:-MOST_GRAPHS]
            self._last = weakref.ref(compiled)
            self.history.warn()
            first, compiled.first_inputs = compiled.first_inputs, None
            assert first is not None
            return compiled, first

    def _compile(
        self, args: tuple, kwargs: dict, axes: Axes, tensors: list[Any], known: list[Compiled],
        others: list[Compiled],
    ) -> Compiled:  # fmt: skip
        """A new graph, as no guard of the `known` ones holds, which are kept for such arguments."""
        name, function, options = self.__name__, self.__wrapped_function__, self.options
        arguments = describe(function, args, kwargs, options.jit_level, axes)
        with drawn_again():
            self.history.note(name, self.compile_count + 1, arguments, tensors, known, others)
        compiled = compile_call(function, args, kwargs, name, options, axes)
        if options.debug_level == "DEBUG":
            for graph in compiled.stages.values():
                verify(graph)
        self.compile_count += 1
        compiled.number, compiled.arguments = self.compile_count, arguments
        for listener in after_compiling:
            listener(self, compiled)
        return compiled

    def explain_recompile(self) -> Recompilation:
        """Why the last graph was compiled: what of the call differed from the graphs there were.

        Print it, or read its `causes`: each names an argument (its dtype, shape, or a constant), or
        what was read from outside and in which line, and says what to do.

        Raises:
            RuntimeError: nothing has been compiled yet.
        """
        if self.history.last is None:
            raise RuntimeError(f"{self.__name__} has not been compiled yet: call it first")
        return self.history.last

    @property
    def last(self) -> Compiled | None:
        """What was compiled for the last call; it is kept as long as the object of a method."""
        return self._last()

    def _graphs_for(self, args: tuple) -> tuple[Graphs, Inputs | None]:
        """Where graphs for a call are kept: those of a method with its object; described inputs."""
        owner = args[0] if args else None
        if getattr(type(owner), self.__name__, None) is self and hasattr(owner, "__dict__"):
            own = owner.__dict__.get("_inputs") if self.__name__ == "construct" else None
            return graphs_of(owner, self, Graphs), own or self.described
        if self.described is None and not self._is_plain:
            return self._graphs, described_inputs(self.__wrapped_function__)
        return self._graphs, self.described

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for arguments like these, without running."""
        with drawn_again():
            self.find(args, kwargs)

    def graph(self, stage: str = "optimized") -> FuncGraph:
        """The graph of the last call: "evaluate", "grad", "optimized", or any of ``stages``.

        Raises:
            RuntimeError: nothing has been compiled yet.
            ValueError: there is no such stage.
        """
        return self._compiled().graph(stage)

    @property
    def stages(self) -> dict[str, FuncGraph]:
        """All stages of the last call's compilation, by name, in order."""
        return self._compiled().stages

    def _compiled(self) -> Compiled:
        """What was compiled for the last call; RuntimeError if there is nothing yet."""
        if self.last is None:
            raise RuntimeError(f"{self.__name__} has not been compiled yet: call it first")
        return self.last


class SizesSeen:
    """The sizes of arguments so far: those that have differed are no part of a signature.

    (``jit(dynamic=1)``: the second graph for arguments of the same types and ranks is for all.)
    """

    def __init__(self) -> None:
        self.first: dict[tuple, list[tuple]] = {}
        self.differed: dict[tuple, set[tuple[int, int]]] = {}
        self.lock = threading.Lock()

    def __call__(self, args: tuple, kwargs: dict, axes: Axes) -> Axes:
        """The axes of these arguments whose size may be another, beside those known."""
        leaves = [t for t in flatten((args, kwargs), is_variable)[0] if isinstance(t, Tensor)]
        shapes = [t.shape for t in leaves]
        every = {id(t): set(range(t.ndim)) for t in leaves}
        key, _ = _signature(args, kwargs, every)
        with self.lock:
            differed = self.differed.setdefault(key, set())
            for i, (first, now) in enumerate(
                zip(self.first.setdefault(key, shapes), shapes, strict=True)
            ):
                differed |= {(i, axis) for axis, n in enumerate(now) if n != first[axis]}
            for i, axis in differed:
                axes.setdefault(id(leaves[i]), set()).add(axis)
        return axes


def _signature(args: tuple, kwargs: dict, axes: Axes | None = None) -> tuple[tuple, list[Any]]:
    """What a graph is kept under, and the distinct Tensors and numbers among the arguments.

    The sizes of `axes` do not count.
    """
    if not axes and not kwargs and all([type(a) is Tensor for a in args]):  # most calls
        leaves: list[Any] = list(args)
        key: tuple = tuple([(t._data.dtype, t._data.shape) for t in leaves])
        if len({id(t) for t in leaves}) == len(leaves):
            return key, leaves
    else:
        leaves, structure = flatten((args, kwargs), is_variable)
        key = (structure, tuple(_kind(leaf, axes or {}) for leaf in leaves))
    numbers = {id(t): i for i, t in enumerate(leaves)}
    if len(numbers) < len(leaves):
        key = (key, tuple(numbers[id(t)] for t in leaves))
        leaves = list({id(t): t for t in leaves}.values())
    return key, [t.plain() if isinstance(t, Mutable) else t for t in leaves]


def _kind(leaf: Any, axes: Axes) -> tuple:
    if isinstance(leaf, Mutable):
        return (type(leaf),)
    shape, free = leaf._data.shape, axes.get(id(leaf))
    if free:
        shape = tuple(None if axis in free else n for axis, n in enumerate(shape))
    return type(leaf), leaf._data.dtype, shape


def jit(
    function: Any = None,
    *,
    capture_mode: str = "ast",
    jit_level: str = "O1",
    dynamic: int = 0,
    fullgraph: bool = False,
    backend: str = "",
    **options: Any,
) -> Any:
    """Run a function, method or Cell as a compiled graph (MindSpore: ``mindspore.jit``).

    Use it as ``@jit``, ``@jit(...)``, ``jit(fn)``, on ``construct``, on a Cell class or instance.

    Args:
        function: what to compile; what is no callable is returned unchanged.
        capture_mode: "ast" reads the source: both arms of an ``if`` that a Tensor decides become
            part of the graph.  "trace": Python runs the function, once for each graph, on Tensors
            without values: such an ``if`` is an error.
        jit_level: "O0": a NumPy call for each operation, results as in PyNative mode.  "O1":
            kernels of machine code do most operations; results are equal up to rounding.  "O2":
            also laws that are not exact, such as ``x / c -> x * (1 / c)`` or ``x - x -> 0``
            (passes/fastmath.py; ``ms.explain`` tells which fired).  Results are those of O1 up to
            rounding as long as all values, on the way too, are normal numbers or 0.  What is nan
            or inf may become a number, and -0.0 may become 0.  With a Pipeline of your own in
            ``passes=`` only its rules count.
        dynamic: 1: sizes of arguments that have differed between calls may be any, as if they
            were described by None (``Cell.set_inputs``), so that the second graph is for all.
        fullgraph: accepted.  Whatever it is, Python never steps in where a graph cannot go on.
        backend: "" or "ms_backend".
        options: ``input_signature=`` a Tensor, or a tuple of them: calls whose arguments have other
            dtypes or shapes are refused; a size may be None, as in ``Cell.set_inputs``.
            ``check_finite=True``: a FloatingPointError at the first
            operation that makes a nan or inf out of finite numbers.  ``debug_level="DEBUG"``: every
            stage of a compilation is verified, and errors show the compiler's own frames too.
            ``passes=`` rules and passes to add, or a Pipeline to run in place of the default one
            (minispore.passes); where a compiled function calls another, the outer one's count.
            ``fn=`` the function, as before MindSpore 2.4.  Without effect: ``mode``, ``hash_args``,
            ``jit_config``, ``compile_once`` (of that time), ``exc_mode``, ``jit_syntax_level``,
            ``infer_boost``.

    Raises:
        ValueError: an unknown option, or a value that is not allowed.
        TypeError: a value of the wrong type.
    """
    function = options.pop("fn", function)
    for old in ("mode", "hash_args", "jit_config", "compile_once"):
        options.pop(old, None)
    given = options_of(
        dict(capture_mode=capture_mode, jit_level=jit_level, dynamic=dynamic, fullgraph=fullgraph,
             backend=backend, **options)
    )  # fmt: skip
    return _jitted(function, given)


def _jitted(function: Any, options: Options) -> Any:
    if function is None:
        return lambda fn: _jitted(fn, options)
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(_jitted(function.__func__, options))
    if isinstance(function, JitFunction) or not callable(function):
        return function
    if isinstance(function, type):
        if hasattr(function, "construct"):  # its own or an inherited one
            function.construct = _jitted(function.construct, options)
        return function
    return JitFunction(function, options)


# ------------------------------------------------------------------------------- other rooms


def jit_of_cell(cell: Any) -> JitFunction:
    """What runs a Cell in GRAPH_MODE."""
    jitted = graphs_of(cell, "call", lambda: JitFunction(cell))
    jitted.options = options_of_cell(cell)
    return jitted


def _run_as_graph(function: Callable, args: tuple, kwargs: dict) -> Any:
    """What is differentiated in GRAPH_MODE, or a gradient: equal ones share their graphs."""
    if isinstance(function, JitFunction) or hasattr(type(function), "construct"):
        return function(*args, **kwargs)
    of = function.fn if isinstance(function, _GRADIENTS) else function  # type: ignore[attr-defined]
    owner = getattr(of, "__self__", of)
    options = options_of_cell(owner)
    if not hasattr(owner, "__dict__"):
        return JitFunction(function, options).run(args, kwargs)
    jitted = graphs_of(owner, function, lambda: JitFunction(function))
    jitted.options = options
    return jitted.run(args, kwargs)


_GRADIENTS = (api.GradFunction, JacobianFunction, DirectionalDerivative)


def _call_grad_operation(ev: Evaluator, operation: Any, args: list, kwargs: dict) -> Any:
    """``GradOperation(...)(net)`` inside a graph: its default weights are read at each call."""
    function, weights = (*args, kwargs.get("weights"))[:2]
    if operation.get_by_list and weights is None and hasattr(function, "trainable_params"):
        weights = tuple(ev.call(ev.get_attribute(function, "trainable_params"), [], {}))
    return ev.born(operation(function, weights))


def _call_vjp(ev: Evaluator, args: list, kwargs: dict) -> Any:
    """``vjp`` inside a graph: the function that it returns is made where it is called."""
    made = native(ev, vjp, args, kwargs)
    ev.born(made[1])
    return made


def _install() -> None:
    calls.SPECIAL.append(
        (JitFunction, lambda ev, f, args, kwargs: ev.call(f.__wrapped_function__, args, kwargs))
    )
    gradient = functools.partial(call_gradient, api.cotangents_of)
    calls.SPECIAL.append((api.GradFunction, gradient))
    calls.SPECIAL.append((api.GradOperation, _call_grad_operation))
    BUILTINS[vjp] = _call_vjp
    api.graph_runner = _run_as_graph
    set_evaluator(graph_of_rule)


_install()
