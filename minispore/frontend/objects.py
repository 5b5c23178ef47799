"""Attributes, items and iteration, on objects of the Python world and on objects made here."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import numpy as np

from minispore.frontend.capture import is_trusted
from minispore.frontend.control import for_each, resolve
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import refuse_choice
from minispore.frontend.heap import UNSET, Choice
from minispore.frontend.loops import SymbolicRange
from minispore.parameter import Parameter
from minispore.symbolic import NeedConstant, Scalar
from minispore.tensor import Tensor
from minispore.tree import Text

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

_BUILTIN = (str, bytes, int, float, bool, list, tuple, dict, set, frozenset, range, slice,
            type(None), Scalar, Text, np.ndarray, np.generic, np.dtype)  # fmt: skip


# ------------------------------------------------------------------------------- attributes


def get_attribute(ev: Evaluator, obj: Any, name: str) -> Any:
    """``obj.name``."""
    obj = resolve(ev, obj)
    if isinstance(obj, Choice):
        return for_each(ev, obj, lambda o: get_attribute(ev, o, name))
    overlay = ev.world.slots.get(("attribute", id(obj), name), UNSET)
    if overlay is not UNSET:
        return ev.readable(overlay, name)
    if isinstance(obj, Tensor):
        return _tensor_attribute(ev, obj, name)
    if isinstance(obj, (*_BUILTIN, super)):
        return getattr(obj, name)
    if isinstance(obj, types.ModuleType):
        value = getattr(obj, name)
        if is_trusted(obj.__name__):
            return ev.homed(ev.outside.trusted(value))
        return ev.homed(ev.outside.attribute(obj, name, value))
    if isinstance(obj, type):
        return _class_attribute(ev, obj, name)
    return _instance_attribute(ev, obj, name)


def _tensor_attribute(ev: Evaluator, obj: Tensor, name: str) -> Any:
    value = getattr(obj, name)
    if isinstance(obj, Parameter) and name == "requires_grad":
        real = ev.outside.real(obj)
        if real is not None:
            code = ev.outside.constant(real)
            ev.outside.require(f"{code}.requires_grad is {value}", f"requires_grad of {obj.name}")
    return value


def _class_attribute(ev: Evaluator, cls: type, name: str) -> Any:
    value = getattr(cls, name)
    if isinstance(value, (types.FunctionType, types.MethodType)) or is_trusted(cls.__module__):
        return value
    if cls.__module__ == "builtins":
        return value
    return ev.homed(ev.outside.attribute(cls, name, value))


def _instance_attribute(ev: Evaluator, obj: Any, name: str) -> Any:
    cls = type(obj)
    owner, found = next(
        ((k, k.__dict__[name]) for k in cls.__mro__ if name in k.__dict__), (cls, UNSET)
    )
    if isinstance(found, property):
        if found.fget is None:
            raise AttributeError(f"property '{name}' of '{cls.__name__}' cannot be read")
        return ev.call(found.fget, [obj], {})
    slots = getattr(obj, "__dict__", {})
    if name in slots:
        if id(obj) in ev.births:
            return ev.readable(slots[name], name)
        return ev.homed(ev.outside.attribute(obj, name, slots[name]))
    if found is UNSET:
        return _missing_attribute(ev, obj, name)
    return _from_class(ev, obj, owner, found, name)


def _from_class(ev: Evaluator, obj: Any, owner: type, found: Any, name: str) -> Any:
    """What a class gives its instances: a method, a constant, or what a descriptor makes."""
    inner = getattr(found, "__wrapped_function__", found)  # a jitted method is its function
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, classmethod):
        return types.MethodType(found.__func__, type(obj))
    if isinstance(inner, types.FunctionType):
        if not is_trusted(owner.__module__):
            code, method = ev.outside.constant(owner), ev.outside.constant(found)
            ev.outside.require(f"{code}.__dict__[{name!r}] is {method}", f"{owner.__name__}.{name}")
        return types.MethodType(inner, obj)
    value = getattr(obj, name)
    if id(obj) in ev.births or is_trusted(owner.__module__):
        return value
    return ev.homed(ev.outside.attribute(obj, name, value))


def _missing_attribute(ev: Evaluator, obj: Any, name: str) -> Any:
    fallback = getattr(type(obj), "__getattr__", None)
    if isinstance(fallback, types.FunctionType):
        return ev.call(fallback, [obj, name], {})
    if name in ("__class__", "__dict__", "__doc__", "__name__", "__qualname__"):
        return getattr(obj, name)
    value = getattr(obj, name)  # the AttributeError is Python's own
    return ev.homed(ev.outside.attribute(obj, name, value))


def set_attribute(ev: Evaluator, obj: Any, name: str, value: Any) -> None:
    """``obj.name = value``."""
    refuse_choice(obj, "the object")
    if isinstance(obj, Tensor):
        setattr(obj, name, value)  # a Tensor's own properties check what may be written
        return
    if id(obj) in ev.births:
        _set_on_new(ev, obj, name, value)
        return
    current = getattr(obj, "__dict__", {}).get(name, UNSET)
    if isinstance(current, Parameter):
        shadow = get_attribute(ev, obj, name)
        if value is not shadow:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"'{name}' is a Parameter: assign a Tensor, not {type(value).__name__}"
                )
            shadow.set_data(value)
        return
    if not isinstance(value, Tensor):
        raise TypeError(
            f"'{name}' of {type(obj).__name__} is older than the compiled call, so the graph can "
            f"write only a Tensor or Parameter to it, not {type(value).__name__}: "
            "make it a Parameter, or return the value"
        )
    ev.region.touch(ev.world)
    ev.alive.append(obj)
    ev.outside.source(obj)
    ev.world.slots["attribute", id(obj), name] = value
    ev.overlays[id(obj), name] = obj


def _set_on_new(ev: Evaluator, obj: Any, name: str, value: Any) -> None:
    found = next((k.__dict__[name] for k in type(obj).__mro__ if name in k.__dict__), None)
    if isinstance(found, property):
        if found.fset is None:
            raise AttributeError(f"property '{name}' of '{type(obj).__name__}' has no setter")
        ev.call(found.fset, [obj, value], {})
        return
    method = type(obj).__setattr__
    if isinstance(method, types.FunctionType):
        ev.call(method, [obj, name, value], {})
        return
    ev.region.touch(obj)
    object.__setattr__(obj, name, value)


# ------------------------------------------------------------------------------- items


def get_item(ev: Evaluator, obj: Any, index: Any) -> Any:
    """``obj[index]``."""
    refuse_choice(obj, "what is indexed")
    refuse_choice(index, "an index")
    method = getattr(type(obj), "__getitem__", None)
    if isinstance(method, types.FunctionType) and not isinstance(obj, Tensor):
        return ev.call(method, [obj, index], {})
    if isinstance(obj, dict) and isinstance(index, (Tensor, Scalar)):
        raise NeedConstant("a dict key that is known only at run time")
    out = obj[index]
    if isinstance(obj, (list, tuple, dict)):
        return ev.born(out) if isinstance(index, slice) else ev.readable(out, "the item")
    return out


def set_item(ev: Evaluator, obj: Any, index: Any, value: Any) -> None:
    """``obj[index] = value``."""
    refuse_choice(obj, "what is indexed")
    method = getattr(type(obj), "__setitem__", None)
    if isinstance(obj, Tensor):
        obj[index] = value
    elif isinstance(method, types.FunctionType):
        ev.call(method, [obj, index, value], {})
    else:
        ev.check_writable(obj)
        ev.region.touch(obj)
        obj[index] = value


def iterate(ev: Evaluator, value: Any) -> list[Any]:
    """The items of an iterable whose length is known."""
    refuse_choice(value, "what is iterated over")
    if isinstance(value, SymbolicRange):
        raise NeedConstant("the length of a range that is known only at run time")
    if isinstance(value, (list, tuple)):
        return [ev.readable(v, "an item") for v in value]
    if isinstance(value, Tensor):
        return list(value)
    if isinstance(value, (Scalar, Text)):
        raise TypeError(f"{value!r} is not iterable")
    method = getattr(type(value), "__iter__", None)
    if isinstance(method, types.FunctionType):
        return iterate(ev, ev.call(method, [value], {}))
    if isinstance(value, types.GeneratorType):
        raise UnsupportedError("a generator cannot be part of a compiled graph: use a list")
    return list(value)
