"""Calls: which way each callable goes.

Functions with Python source are evaluated (functions.py), Cells and classes too (cells.py,
classes.py); builtins go by a table (builtins.py); what is left runs as it is (natives.py).
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minispore.frontend import control
from minispore.frontend.builtins import BUILTINS, call_container_method
from minispore.frontend.capture import is_trusted, module_of
from minispore.frontend.cells import call_cell
from minispore.frontend.classes import instantiate, is_generated
from minispore.frontend.functions import call_python
from minispore.frontend.heap import Choice, Closure
from minispore.frontend.natives import PURE, is_native, native
from minispore.frontend.values import type_name
from minispore.primitive import Primitive
from minispore.tensor import Tensor
from minispore.tree import Text

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

_LISTED = (type, types.FunctionType, types.BuiltinFunctionType)  # what may be in BUILTINS

# Handlers for callables of upper rooms, by class: (evaluator, callable, args, kwargs) -> result.
SPECIAL: list[tuple[type, Callable]] = []


def call(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of ``function(*args, **kwargs)``."""
    function = ev.facts.resolve(function)
    if isinstance(function, Choice):
        return control.for_each(ev, function, lambda f: call(ev, f, args, kwargs))
    if not callable(function):
        raise TypeError(f"'{type_name(function)}' object is not callable")
    if isinstance(function, _LISTED) and function in BUILTINS:
        return BUILTINS[function](ev, args, kwargs)
    for kind, handler in SPECIAL:
        if isinstance(function, kind):
            return handler(ev, function, args, kwargs)
    if hasattr(type(function), "construct"):
        return call_cell(ev, function, args, kwargs)
    method = getattr(type(function), "__call__", None)  # noqa: B004  # where it is defined matters
    if isinstance(method, types.FunctionType) and not is_native(type(function).__module__):
        return call(ev, method, [function, *args], kwargs)
    return native(ev, function, args, kwargs)


def is_op(function: Any) -> bool:
    """True for an op, or a method of a Tensor: it fails on its operands.

    Not for the checks in ops/loops.py, of which the operands are none of the user's.
    """
    inner = getattr(function, "__func__", function)
    module = module_of(inner)
    return isinstance(inner, Primitive) or (is_native(module) and module != "minispore.ops.carry")


def _call_function(
    ev: Evaluator, function: types.FunctionType, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    module = module_of(function)
    if is_native(module) or module.split(".")[0] in PURE:
        return native(ev, function, args, kwargs)
    if is_generated(function) and args and dataclasses.is_dataclass(args[0]):
        return function(*args, **kwargs)  # such as __eq__
    if args and hasattr(type(args[0]), "construct") and _reads_parameters(function):
        return _read_parameters(ev, function, args, kwargs)
    return call_python(ev, function, args, kwargs)


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
            f"doesn't apply to a '{type_name(args[0])}' object"
        )
    if isinstance(args[0], Text):
        return call(ev, ev.get_attribute(args[0], function.__name__), args[1:], kwargs)
    return call(ev, function.__get__(args[0]), args[1:], kwargs)


_PARAMETER_READERS = frozenset(
    {"get_parameters", "trainable_params", "untrainable_params", "parameters_dict",
     "parameters_and_names", "cells", "name_cells", "cells_and_names"}
)  # fmt: skip


def _reads_parameters(function: types.FunctionType) -> bool:
    return is_trusted(module_of(function)) and function.__name__ in _PARAMETER_READERS


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
