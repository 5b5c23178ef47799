"""Calls: of user functions and Cells (a sub-graph each), of ops and builtins, of grad.

Functions with Python source are evaluated; ops functions and Tensor methods run natively, since
all they do is call ``apply``; builtins go by a table (builtins.py); anything else runs on constants
alone, and only if it is known to have no hidden state.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import itertools
import operator
import types
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, MutableSet
from typing import TYPE_CHECKING, Any

from minispore import ops
from minispore.autodiff.tape import checked, refuse_containers
from minispore.context import get_context
from minispore.dims import Dim
from minispore.dtype import DType
from minispore.frontend import control, exits, fence
from minispore.frontend.builtins import BUILTINS, call_container_method
from minispore.frontend.capture import is_trusted
from minispore.frontend.errors import UnsupportedError, hidden_state
from minispore.frontend.exits import RAISE, RETURN, Peel, Raised, Unreachable, is_symbolic
from minispore.frontend.heap import (
    CallNode,
    Choice,
    Closure,
    CustomGradient,
    Env,
    Frame,
    Region,
    Trial,
)
from minispore.frontend.recursion import Call, Recurs, Recursion, open_recursion
from minispore.frontend.source import Code, code_of
from minispore.ir.node import LATE, ParameterNode
from minispore.parameter import Parameter
from minispore.primitive import Primitive
from minispore.symbolic import is_run_time, wrap
from minispore.tensor import Tensor
from minispore.tree import Text, flatten, unflatten

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

# Modules of this package whose functions are evaluated from source, like a user's.
_EVALUATED = ("minispore.nn", "minispore.train", "minispore.composite", "minispore.ops.loops")
# Modules whose functions may run while compiling, on constants: they have no hidden state.
PURE = frozenset(
    "math operator numpy functools itertools collections typing copy _operator ml_dtypes builtins "
    "_functools fractions decimal string".split()
)

# Of these, the functions only move values, and may be given run-time ones.
_MOVES = frozenset("collections itertools functools _functools".split())
_LISTED = (type, types.FunctionType, types.BuiltinFunctionType)  # what may be in BUILTINS
# Mutable types whose changes are journaled.
_UNDONE = (list, dict, set, collections.OrderedDict, collections.defaultdict)

# Modules of this package whose functions act on the program: they must not run while compiling.
_HOST = frozenset(
    f"minispore.{m}" for m in ("context", "random", "initializer", "report", "cli", "dataset.mnist")
)

# Handlers for callables of upper rooms, by class: (evaluator, callable, args, kwargs) -> result.
SPECIAL: list[tuple[type, Callable]] = []


def call(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of ``function(*args, **kwargs)``."""
    function = control.resolve(ev, function)
    if isinstance(function, Choice):
        return control.for_each(ev, function, lambda f: call(ev, f, args, kwargs))
    if not callable(function):
        raise TypeError(f"'{exits.type_name(function)}' object is not callable")
    if isinstance(function, _LISTED) and function in BUILTINS:
        return BUILTINS[function](ev, args, kwargs)
    for kind, handler in SPECIAL:
        if isinstance(function, kind):
            return handler(ev, function, args, kwargs)
    if hasattr(type(function), "construct"):
        return call_cell(ev, function, args, kwargs)
    method = getattr(type(function), "__call__", None)  # noqa: B004  # where it is defined matters
    if isinstance(method, types.FunctionType) and not _is_native(type(function).__module__):
        return call(ev, method, [function, *args], kwargs)
    return native(ev, function, args, kwargs)


def _is_native(module: str) -> bool:
    """True for code of this package that runs as it is while compiling."""
    return is_trusted(module) and not module.startswith(_EVALUATED)


def _call_partial(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    first, keywords = function.args, function.keywords
    if id(function) not in ev.births:
        first = ev.homed(ev.outside.attribute(function, "args", first))
        keywords = ev.homed(ev.outside.attribute(function, "keywords", keywords))
    return call(ev, function.func, [*first, *args], {**keywords, **kwargs})


def _call_method(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    owner = function.__self__
    owner = ev.seen(owner) if isinstance(owner, Tensor) else owner
    return call(ev, function.__func__, [owner, *args], kwargs)


def _call_descriptor(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``list.append(items, x)``: the method of its first argument."""
    if not args:
        raise TypeError(f"unbound method {function.__qualname__}() needs an argument")
    if not isinstance(args[0], (function.__objclass__, Text)):
        raise TypeError(
            f"descriptor '{function.__name__}' for '{function.__objclass__.__name__}' objects "
            f"doesn't apply to a '{exits.type_name(args[0])}' object"
        )
    if isinstance(args[0], Text):
        return call(ev, ev.get_attribute(args[0], function.__name__), args[1:], kwargs)
    return call(ev, function.__get__(args[0]), args[1:], kwargs)


def is_op(function: Any) -> bool:
    """True for an op, or a method of a Tensor: it fails on its operands.

    Not for the checks in ops/loops.py, of which the operands are none of the user's.
    """
    inner = getattr(function, "__func__", function)
    module = getattr(inner, "__module__", None) or ""
    return isinstance(inner, Primitive) or (_is_native(module) and module != "minispore.ops.carry")


def _call_function(
    ev: Evaluator, function: types.FunctionType, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    module = function.__module__ or ""
    if _is_native(module) or module.split(".")[0] in PURE:
        return native(ev, function, args, kwargs)
    if _is_generated(function) and args and dataclasses.is_dataclass(args[0]):
        return function(*args, **kwargs)  # such as __eq__
    if args and hasattr(type(args[0]), "construct") and _reads_parameters(function):
        return _read_parameters(ev, function, args, kwargs)
    return call_python(ev, function, args, kwargs)


def native(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Run a function as it is: an op on nodes, or a pure function on constants."""
    if any(exits.is_text_choice(a) for a in args):
        return control.each_text(ev, args, lambda *now: native(ev, function, list(now), kwargs))
    for value in [*args, *kwargs.values()]:
        _refuse_deep(value)
    module = getattr(function, "__module__", None) or type(function).__module__
    if module in _HOST:
        return _host(ev, function, args, kwargs)
    if is_trusted(module):
        out = function(*args, **kwargs)
        is_value = isinstance(out, (type, types.FunctionType, DType, str, int, float, type(None)))
        is_old = isinstance(out, Tensor) and ev.outside.number(out) is not None
        return out if is_value or is_old else _new(ev, out)
    name = getattr(function, "__qualname__", repr(function))
    if module.split(".")[0] not in PURE or module.startswith("numpy.random"):
        raise hidden_state(f"{module}.{name}")
    args, kwargs = _with_constants(args), _with_constants(kwargs)
    if module not in _MOVES and any(is_symbolic(v) for v in [*args, *kwargs.values()]):
        raise UnsupportedError(
            f"'{module}.{name}' needs values that are known only at run time: use the function "
            "of minispore.ops in its place"
        )
    evaluated = [functools.partial(_invoke, ev, a) if _has_source(a) else a for a in args]
    return _made_here(ev, function(*evaluated, **kwargs))


def _new(ev: Evaluator, value: Any) -> Any:
    """Note that a native function made an object, and the containers in it."""
    if id(value) in ev.births or id(value) in ev.outside.old:
        return value  # it was there before
    parts = value.values() if isinstance(value, dict) else value
    for item in parts if isinstance(value, (list, tuple, dict)) else ():
        if isinstance(item, (list, tuple, dict)):
            _new(ev, item)
    return ev.born(value)


def _host(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A function of the package that acts on the program, not on Tensors."""
    if function is get_context:
        code = f"{ev.outside.constant(function)}({args[0]!r})"
        return ev.outside.capture(function(*args, **kwargs), code, False, f"context {args[0]!r}")
    raise UnsupportedError(
        f"'{function.__name__}' acts on the program, not on Tensors, and would do so only while "
        "compiling: call it outside the compiled function"
    )


def _refuse_deep(value: Any) -> None:
    """Refuse what differs between arms, also inside containers."""
    exits.refuse_choice(value, "an argument")
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            _refuse_deep(item)


def _with_constants(value: Any) -> Any:
    """A value in which the sizes of inputs are the constants that the call at hand gives."""
    if isinstance(value, Dim):
        return operator.index(value)
    if isinstance(value, dict):
        return {k: _with_constants(v) for k, v in value.items()}
    return type(value)(map(_with_constants, value)) if type(value) in (list, tuple) else value


def _has_source(value: Any) -> bool:
    function = getattr(value, "__func__", value)
    return isinstance(function, types.FunctionType) and not is_trusted(function.__module__)


def _invoke(ev: Evaluator, function: Any, *args: Any, **kwargs: Any) -> Any:
    """A user's function, called back by a native one."""
    return call(ev, function, list(args), kwargs)


def _made_here(ev: Evaluator, out: Any) -> Any:
    """What a native function returned, if it can be undone and merged as Python's own types can."""
    if isinstance(out, Iterator):
        if isinstance(out, (itertools.count, itertools.cycle, itertools.repeat)):
            raise UnsupportedError(
                f"an endless iterator ({type(out).__name__}) cannot be part of a compiled graph: "
                "count with while, or go over a range"
            )
        return ev.iterator(tuple(out))
    if isinstance(out, (MutableSequence, MutableMapping, MutableSet)) and type(out) not in _UNDONE:
        raise UnsupportedError(
            f"a {type(out).__name__} cannot be part of a compiled graph: use a list, dict or set"
        )
    return ev.born(out) if isinstance(out, (list, dict, set)) else out


# ------------------------------------------------------------------------------- Python functions


def call_python(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Evaluate a function in a region of its own: it becomes a graph, and a call of it."""
    return _in_region(ev, "function", "", function, args, kwargs)


def _in_region(
    ev: Evaluator, kind: str, name: str, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """The value of a function; if Tensors decide how often it calls itself, of its Recursion."""
    runner = ev.runner_of(function)
    if runner is not None:
        name = name or function.__name__
        return run_region(ev, kind, name, lambda: runner(args, kwargs))[1]
    code, owner, parent = _parts(function)
    name = name or code.name
    call = Call(code, owner if parent is None else parent, args, kwargs)
    recursion = open_recursion(ev, call)
    if recursion is not None:
        return recursion.again(call)

    def run(*call: Any) -> Any:  # no functools.partial: some Pythons allow few calls through C
        return activate(ev, function, code, owner, parent, *call)

    with Trial(ev.region, kept=True) as trial:
        try:
            return run_region(ev, kind, name, lambda: run(args, kwargs, call))[1]
        except Recurs as found:
            if found.frame.call is not call:
                raise
            trial.kept, varied = False, found.varied
    try:
        return Recursion(ev, name, call, varied, run).evaluate()
    except Exception as why:  # constants may end it all the same
        ev.refused_recursions[call.kind] = why
    return _in_region(ev, kind, name, function, args, kwargs)


def run_region(ev: Evaluator, kind: str, name: str, run: Callable[[], Any]) -> tuple[Region, Any]:
    """Run something in a new region whose writes are kept; it becomes a called graph.

    The outermost function is the graph itself.
    """
    if ev.is_outermost():
        return ev.region, run()
    region = _called_region(ev, kind, name)
    with ev.within(region):
        value = run()
    return region, value


def _called_region(ev: Evaluator, kind: str, name: str) -> Region:
    """A region that becomes a called graph; the call of a Cell has the Cell's own scope."""
    is_cell = kind in ("cell", LATE)
    scope = "/".join(ev.scopes) if is_cell else ev.origin.scope
    region = Region(ev.region, kind, name, dataclasses.replace(ev.origin, scope=scope))
    region.recompute = is_cell and _is_recomputed(ev, ev.cells[-1])
    region.owner = CallNode(region.parent, region.origin, region)
    return region


def _parts(function: Any) -> tuple[Code, types.FunctionType, Env | None]:
    if isinstance(function, types.FunctionType):
        code = code_of(function)
        fence.check(code)
        return code, function, None
    return function.code, function.owner, function.env


def activate(
    ev: Evaluator, function: Any, code: Code, owner: types.FunctionType, parent: Env | None,
    args: list[Any], kwargs: dict[str, Any], call: Call | None = None,
    recursion: Recursion | None = None,
) -> Any:  # fmt: skip
    """Run a function's body in a new frame; returns its value."""
    if len(ev.frames) >= ev.max_depth:
        raise RecursionError(
            f"{code.name} is called {ev.max_depth} deep while compiling: a recursion must be "
            "ended by a constant (set_context(max_call_depth=...) allows more)"
        )
    env = ev.born(Env(parent, code.local))
    env.slots.update(bind(ev, function, code, args, kwargs))
    for name, value in env.slots.items():
        ev.remember_name(value, name)
    origin = ev.origin
    where = fence.location(code.node, code)
    ev.frames.append(Frame(code, env, owner, where, call, ev.region, recursion))
    try:
        value = _body(ev, code)
    except (Peel, Unreachable):
        raise
    except Exception as error:
        ev.failed(error)
        raise
    finally:
        ev.frames.pop()
        ev.origin = origin
    return value


def _body(ev: Evaluator, code: Code) -> Any:
    if isinstance(code.node, ast.Lambda):
        value = ev.expression(code.node.body)
        ev.at(code.node.body)
        ev.returned = ev.frame.where
        return value
    exit = ev.block(code.node.body)
    if exit.may == {RAISE}:
        raise Unreachable
    if RETURN not in exit.may:
        return None
    value = exit.value
    if exit.may != {RETURN}:
        returned = control.is_code(ev, exit.code, RETURN)
        value = control.choose(ev, returned, [lambda: exit.value, lambda: None])
    return ev.readable(value, f"the result of {code.name}")


def bind(
    ev: Evaluator, function: Any, code: Code, args: list[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Parameter names to values, by Python's rules."""
    a = code.node.args
    positional = [p.arg for p in [*a.posonlyargs, *a.args]]
    keyword_only = [p.arg for p in a.kwonlyargs]
    slots = dict(zip(positional, args, strict=False))
    extra = args[len(positional) :]
    if extra and a.vararg is None:
        takes = f"{len(positional)} positional argument{'s' * (len(positional) != 1)}"
        given = f"{len(args)} {'was' if len(args) == 1 else 'were'} given"
        raise TypeError(f"{code.name}() takes {takes} but {given}")
    if a.vararg is not None:
        slots[a.vararg.arg] = tuple(extra)
    rest: dict[str, Any] = {}
    by_position_only = {p.arg for p in a.posonlyargs}
    for name, value in kwargs.items():
        if name in slots and name not in by_position_only:
            raise TypeError(f"{code.name}() got multiple values for argument '{name}'")
        if name in keyword_only or (name in positional and name not in by_position_only):
            slots[name] = value
        elif a.kwarg is not None:
            rest[name] = value
        else:
            raise TypeError(f"{code.name}() got an unexpected keyword argument '{name}'")
    if a.kwarg is not None:
        slots[a.kwarg.arg] = ev.born(rest)
    for name, value in defaults(ev, function, positional).items():
        slots.setdefault(name, value)
    missing = [n for n in [*positional, *keyword_only] if n not in slots]
    if missing:
        names = ", ".join(f"'{n}'" for n in missing)
        raise TypeError(f"{code.name}() is missing required argument(s): {names}")
    return slots


def defaults(ev: Evaluator, function: Any, positional: list[str]) -> dict[str, Any]:
    """What a function's parameters are if they are not given."""
    if not isinstance(function, types.FunctionType):
        names = positional[len(positional) - len(function.defaults) :]
        return dict(zip(names, function.defaults, strict=True)) | function.kw_defaults
    defaults = function.__defaults__ or ()
    names = positional[len(positional) - len(defaults) :]
    found = dict(zip(names, defaults, strict=True)) | (function.__kwdefaults__ or {})
    if is_trusted(function.__module__):
        return found
    code = ev.outside.constant(function)
    paths = [f"{code}.__defaults__[{i}]" for i in range(len(names))]
    paths += [f"{code}.__kwdefaults__[{name!r}]" for name in function.__kwdefaults__ or {}]
    return {
        name: ev.homed(ev.outside.capture(value, path, False, name))
        for path, (name, value) in zip(paths, found.items(), strict=True)
    }


# ------------------------------------------------------------------------------- classes


def instantiate(ev: Evaluator, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """An instance of a class: a Tensor, an exception, a Cell, or a user's object."""
    if issubclass(cls, BaseException):
        if is_symbolic(kwargs):
            raise UnsupportedError(
                f"{cls.__name__} takes run-time values by position only in a compiled graph"
            )
        return Raised(cls, tuple(args), kwargs)
    if issubclass(cls, Primitive):
        return cls(*args, **kwargs)
    if issubclass(cls, Tensor):
        if issubclass(cls, Parameter) or kwargs.get("init") is not None or len(args) > 3:
            raise UnsupportedError(
                "a Parameter, or a Tensor with an initializer, would be made only once, while "
                "compiling: make it outside the compiled function"
            )
        return ev.born(native(ev, cls, args, kwargs))
    if hasattr(cls, "construct"):
        return _build_cell(ev, cls, args, kwargs)
    if is_trusted(cls.__module__) or cls.__module__.split(".")[0] in PURE:
        return native(ev, cls, args, kwargs)
    if issubclass(cls, tuple):
        return cls(*args, **kwargs)
    return _make_object(ev, cls, args, kwargs)


def _make_object(ev: Evaluator, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """An instance of a class with Python source."""
    init: Any = cls.__init__
    if dataclasses.is_dataclass(cls) and _is_generated(init):
        return _make_dataclass(ev, cls, args, kwargs)
    if cls.__new__ is not object.__new__:
        raise UnsupportedError(
            f"a {cls.__name__} cannot be made in a compiled graph, as its class defines __new__: "
            "make it outside"
        )
    obj = ev.new_object(cls)
    ev.outside.special_methods(cls)
    if isinstance(init, types.FunctionType):
        call(ev, init, [obj, *args], kwargs)
    elif args or kwargs:
        raise TypeError(f"{cls.__name__}() takes no arguments")
    return obj


def _is_generated(function: Any) -> bool:
    """True for a method that ``@dataclass`` made."""
    return function.__code__.co_filename == "<string>"


def _make_dataclass(ev: Evaluator, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Run the generated ``__init__`` as it is, but evaluate ``__post_init__`` from source."""
    later: list[tuple] = []
    body = {"__post_init__": lambda self, *rest: later.append(rest), "__slots__": ()}
    obj: Any = ev.new_object(type(cls.__name__, (cls,), body))
    cls.__init__(obj, *args, **kwargs)
    object.__setattr__(obj, "__class__", cls)
    for rest in later:
        call(ev, cls.__post_init__, [obj, *rest], {})
    return obj


def _build_cell(ev: Evaluator, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A Cell made inside the compiled function: each call makes it anew, before the graph runs."""
    if ev.is_conditional():
        raise UnsupportedError(
            f"a {cls.__name__} cannot be made where a Tensor decides whether or how often: "
            "make it before"
        )
    args, kwargs = _with_constants(args), _with_constants(kwargs)
    if any(is_symbolic(v) for v in [*args, *kwargs.values()]):
        raise UnsupportedError(
            f"{cls.__name__}(...) in a compiled function takes constants: its parameters are made "
            "before the graph runs; give the Tensor to its construct"
        )
    return ev.outside.build(cls, tuple(args), dict(kwargs), cls.__name__)


_PARAMETER_READERS = frozenset(
    {"get_parameters", "trainable_params", "untrainable_params", "parameters_dict",
     "parameters_and_names", "cells", "name_cells", "cells_and_names"}
)  # fmt: skip


def _reads_parameters(function: types.FunctionType) -> bool:
    return is_trusted(function.__module__) and function.__name__ in _PARAMETER_READERS


def _read_parameters(
    ev: Evaluator, function: types.FunctionType, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """``cell.trainable_params()`` and the like: read again at each call, like an attribute."""
    code, fresh, text = ev.outside.source(args[0])
    values = function(*args, **kwargs)
    rest = ", ".join([repr(v) for v in args[1:]] + [f"{k}={v!r}" for k, v in kwargs.items()])
    path = f"{code}.{function.__name__}({rest})"
    if not isinstance(values, dict):  # an iterator
        values, path = list(values), f"list({path})"
    return ev.homed(ev.outside.capture(values, path, fresh, f"{text}.{function.__name__}()"))


SPECIAL += [
    (functools.partial, _call_partial),
    (types.MethodType, _call_method),
    (types.FunctionType, _call_function),
    (Closure, call_python),
    (type, instantiate),
    (types.BuiltinMethodType, call_container_method),
    (types.MethodWrapperType, call_container_method),
    (types.MethodDescriptorType, _call_descriptor),
    (types.WrapperDescriptorType, _call_descriptor),
    (functools._lru_cache_wrapper, lambda ev, f, args, kws: call(ev, f.__wrapped__, args, kws)),
]


# ------------------------------------------------------------------------------- Cells


def call_cell(ev: Evaluator, cell: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call of a Cell: hooks, then construct (or construct with the Cell's own gradient)."""
    code, fresh, text = ev.outside.source(cell)
    pre = _hooks(ev, cell, "_pre_hooks")
    post = _hooks(ev, cell, "_hooks")
    if _hooks(ev, cell, "_backward_hooks"):
        raise UnsupportedError(
            f"the backward hooks of {type(cell).__name__} are called in PyNative mode only: remove "
            "them, or define its gradient with bprop"
        )
    phase = ev.phase
    ev.scopes.append(_scope_name(ev, cell))
    ev.cells.append(cell)
    ev.phase = getattr(type(cell), "_phase", phase)
    try:
        for hook in pre:
            changed = call(ev, hook, [cell, tuple(args)], {})
            if changed is not None:
                args = list(changed) if isinstance(changed, tuple) else [changed]
        if hasattr(cell, "bprop") and ev.get_attribute(cell, "bprop") is not None:
            out = _call_with_bprop(ev, cell, args, kwargs)
        else:
            out = _construct(ev, cell, args, kwargs)
        for hook in post:
            changed = call(ev, hook, [cell, tuple(args), out], {})
            out = out if changed is None else changed
    finally:
        ev.scopes.pop()
        ev.cells.pop()
        ev.phase = phase
    return out


def _hooks(ev: Evaluator, cell: Any, name: str) -> list[Any]:
    hooks = getattr(cell, name, None)
    if not hooks:
        code, fresh, text = ev.outside.source(cell)
        if hooks is not None and not fresh:
            ev.outside.require(f"not {code}.{name}", f"hooks of {text}")
        return []
    return list(ev.homed(ev.outside.attribute(cell, name, hooks)).values())


def _is_recomputed(ev: Evaluator, cell: Any) -> bool:
    """Whether ``recompute()`` was called on a Cell."""
    flag = getattr(cell, "_recompute", None)  # what has a construct need not be a Cell
    code, fresh, text = ev.outside.source(cell)
    if flag is not None and not fresh:
        ev.outside.require(f"{'' if flag else 'not '}{code}._recompute", f"recompute of {text}")
    return bool(flag)


def _construct(ev: Evaluator, cell: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    method = ev.get_attribute(cell, "construct")
    if not isinstance(method, types.MethodType):
        return call(ev, method, args, kwargs)
    kind = LATE if getattr(cell, "_is_inlined_late", False) else "cell"
    return _in_region(ev, kind, type(cell).__name__, method.__func__, [cell, *args], kwargs)


def _scope_name(ev: Evaluator, cell: Any) -> str:
    """The name of a Cell in scopes: its attribute in the Cell around it, else its class."""
    if ev.cells:
        for name, child in getattr(ev.cells[-1], "_cells", {}).items():
            if child is cell:
                return name
    return type(cell).__name__


def _call_with_bprop(ev: Evaluator, cell: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A Cell with its own gradient: arguments, results and the graph of bprop are explicit."""
    function = ev.get_attribute(cell, "construct").__func__
    code, owner, parent = _parts(function)
    inputs = list(bind(ev, function, code, [cell, *args], kwargs).values())[1:]
    refuse_containers(type(cell).__name__, inputs)
    region = _called_region(ev, "cell", type(cell).__name__)
    owner_node = region.owner
    assert isinstance(owner_node, CallNode)
    owner_node.operands = [v._node for v in inputs if isinstance(v, Tensor)]  # type: ignore[misc]
    with ev.within(region):
        inner = explicit(ev, region, inputs, "x")
        value = activate(ev, function, code, owner, parent, [cell, *inner], {})
    refuse_containers(type(cell).__name__, value if isinstance(value, tuple) else (value,))
    leaves, _ = flatten(value, is_run_time)
    owner_node.results = [ev.node_of(v) for v in leaves]
    _build_bprop(ev, cell, owner_node, inputs, value)
    return value


def explicit(ev: Evaluator, region: Region, values: list[Any], name: str) -> list[Any]:
    """The values with each Tensor replaced by an explicit parameter of the region."""
    out = []
    for value in values:
        if isinstance(value, Tensor):
            param = ParameterNode(name, value._abstract, ev.origin)
            region.params.append(param)
            ev.home[id(param)] = region
            value = ev.born(wrap(param))
        out.append(value)
    return out


def _build_bprop(ev: Evaluator, cell: Any, owner: CallNode, inputs: list[Any], value: Any) -> None:
    region = Region(owner.parent, "cell", f"{type(cell).__name__}_bprop", ev.origin, owner)
    owner.custom = custom = CustomGradient(region)
    owner.regions = (owner.region, region)
    phase, ev.phase = ev.phase, "backward"
    with ev.within(region, keeps=False):
        args = explicit(ev, region, inputs, "x")
        leaves, structure = flatten(value, lambda v: isinstance(v, Tensor))
        outs = explicit(ev, region, leaves, "out")
        douts = iter(explicit(ev, region, [o for o in outs if o._abstract.has_cotangent], "dout"))
        all_douts = [next(douts) if o._abstract.has_cotangent else ops.zeros_like(o) for o in outs]
        custom.params = list(region.params)
        bprop = ev.get_attribute(cell, "bprop")
        got = call(
            ev, bprop, [*args, unflatten(structure, outs), unflatten(structure, all_douts)], {}
        )
        cotangents = checked(f"{type(cell).__name__}.bprop", got, tuple(args))
        for x, c in zip(args, cotangents, strict=True):
            if isinstance(x, Tensor) and x._abstract.has_cotangent:
                custom.cotangents.append(ev.node_of(ops.zeros_like(x) if c is None else c))
        if region.changes(ev.births):
            raise UnsupportedError(
                f"{type(cell).__name__}.bprop must not write or print anything: what it "
                "returns is all that is used"
            )
    ev.phase = phase
