"""Attributes, items and iteration, on objects of the Python world and on objects made here."""

from __future__ import annotations

import functools
import types
from collections.abc import MappingView
from typing import TYPE_CHECKING, Any

import numpy as np

from minispore.frontend.capture import is_trusted
from minispore.frontend.control import each_text, for_each, resolve
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import is_text_choice, refuse_choice
from minispore.frontend.heap import END, UNSET, Choice, Lazy
from minispore.frontend.loops import SymbolicRange
from minispore.frontend.text import method_of_text
from minispore.parameter import Parameter
from minispore.symbolic import NeedConstant, Scalar
from minispore.tensor import Tensor
from minispore.tree import Text

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

_BUILTIN = (str, bytes, int, float, bool, list, tuple, dict, set, frozenset, range, slice,
            type(None), Scalar, np.ndarray, np.generic, np.dtype)  # fmt: skip


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
    if isinstance(obj, Text):
        return functools.partial(method_of_text, obj, name)
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
    if isinstance(found, functools.cached_property):
        value = ev.call(found.func, [obj], {})
        ev.set_attribute(obj, name, value)
        return value
    if isinstance(inner, types.FunctionType):
        if not is_trusted(owner.__module__):
            code, method = ev.outside.constant(owner), ev.outside.constant(found)
            ev.outside.require(f"{code}.__dict__[{name!r}] is {method}", f"{owner.__name__}.{name}")
        return types.MethodType(inner, obj)
    value = getattr(obj, name)
    if id(obj) in ev.births or is_trusted(owner.__module__):
        return ev.readable(value, name)
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
    if is_text_choice(obj) or is_text_choice(index):
        return each_text(ev, [obj, index], lambda o, i: get_item(ev, o, i))
    refuse_choice(obj, "what is indexed")
    refuse_choice(index, "an index")
    method = getattr(type(obj), "__getitem__", None)
    if isinstance(method, types.FunctionType) and not isinstance(obj, Tensor):
        return ev.call(method, [obj, index], {})
    if isinstance(obj, dict) and isinstance(index, Scalar):
        raise NeedConstant("a dict key")
    factory = getattr(obj, "default_factory", None)
    if factory is not None and index not in obj:
        set_item(ev, obj, index, ev.call(factory, [], {}))
    out = obj[index]
    if isinstance(obj, (list, tuple, dict)):
        return ev.born(out) if isinstance(index, slice) else ev.readable(out, "the item")
    return out


def set_item(ev: Evaluator, obj: Any, index: Any, value: Any) -> None:
    """``obj[index] = value``."""
    refuse_choice(obj, "what is indexed")
    refuse_choice(index, "an index")
    method = getattr(type(obj), "__setitem__", None)
    if isinstance(obj, Tensor):
        obj[index] = value
    elif isinstance(method, types.FunctionType):
        ev.call(method, [obj, index, value], {})
    else:
        ev.check_writable(obj)
        if isinstance(index, slice):
            value = ev.iterate(value)
        ev.region.touch(obj)
        obj[index] = value


# ------------------------------------------------------------------------------- iteration


def iterate(ev: Evaluator, value: Any) -> Lazy:
    """``iter(value)``, for an iterable whose length is known."""
    refuse_choice(value, "what is iterated over")
    if isinstance(value, Lazy):
        return value
    if isinstance(value, SymbolicRange):
        raise NeedConstant("the length of a range that depends on a Tensor")
    method = getattr(type(value), "__iter__", None)
    own = isinstance(method, types.FunctionType) and not isinstance(value, Tensor)
    if isinstance(value, types.GeneratorType) or (own and hasattr(type(value), "__next__")):
        raise UnsupportedError(
            "a generator or iterator of one's own cannot be part of a compiled graph: use a list"
        )
    if own:
        return iterate(ev, ev.call(method, [value], {}))
    live = isinstance(value, (list, Tensor, range))  # a list may grow while it is iterated over
    items = value if live and iter(value) else tuple(value)
    size = len(value) if isinstance(value, (dict, set, MappingView)) else None

    def advance(it: Lazy) -> Any:
        if size is not None and len(value) != size:
            raise RuntimeError(f"{_kind_of_view(value)} changed size during iteration")
        i = it.slots["at"]
        if i >= len(items):
            return END
        move(ev, it, at=i + 1)
        return ev.readable(items[i], "an item")

    return ev.born(Lazy(advance, at=0))


def _kind_of_view(value: Any) -> str:
    return "Set" if isinstance(value, set) else "dictionary"


def move(ev: Evaluator, it: Lazy, **slots: Any) -> None:
    """Change the position of an iterator."""
    ev.region.touch(it)
    it.slots = it.slots | slots
