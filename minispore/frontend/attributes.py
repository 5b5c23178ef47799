"""Attributes: of older objects, which are read under guards and written when the graph has run; and
of objects made here.

A write to an older object is kept in the World (heap.py), where regions journal and merge it; the
object itself is written by ``Target.write`` (commits.py).
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from minispore.frontend.capture import is_stdlib, is_trusted, module_of
from minispore.frontend.commits import NEW
from minispore.frontend.control import for_each
from minispore.frontend.heap import UNSET, Choice
from minispore.frontend.text import method_of_text
from minispore.frontend.values import refuse_choice, type_name
from minispore.parameter import Parameter
from minispore.primitive import ScalarLike, is_number
from minispore.tensor import Tensor
from minispore.tree import Text

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

_BUILTIN = (str, bytes, int, float, bool, list, tuple, dict, set, frozenset, range, slice,
            type(None), ScalarLike, np.ndarray, np.generic, np.dtype)  # fmt: skip
_METHODS_IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType,
                 types.ClassMethodDescriptorType, types.BuiltinFunctionType)  # fmt: skip
_ALWAYS_GUARDED = ("construct", "bprop")  # also of the package's own Cells


def lookup(cls: type, name: str) -> Any:
    """What a class or its bases hold under a name, unbound; UNSET if they do not."""
    return next((k.__dict__[name] for k in cls.__mro__ if name in k.__dict__), UNSET)


def has_own(obj: Any, name: str) -> bool:
    """True if the object itself holds the attribute, in its ``__dict__``."""
    return name in getattr(obj, "__dict__", ())


def get_attribute(ev: Evaluator, obj: Any, name: str) -> Any:
    """``obj.name``."""
    obj = ev.facts.resolve(obj)
    if isinstance(obj, Choice):
        return for_each(ev, obj, lambda o: get_attribute(ev, o, name))
    written = ev.world.slots.get(("attribute", id(obj), name), UNSET)
    if written is not UNSET:
        return ev.readable(written, name)
    if isinstance(obj, Tensor):
        return _of_tensor(ev, obj, name)
    if isinstance(obj, Text):
        return functools.partial(method_of_text, obj, name)
    if isinstance(obj, super):
        return _of_parent(ev, obj, name)
    if isinstance(obj, _BUILTIN) and not hasattr(obj, "__dict__"):
        return getattr(obj, name)
    if isinstance(obj, types.ModuleType):
        value = getattr(obj, name)
        if is_trusted(obj.__name__):
            return ev.homed(ev.outside.trusted(value))
        return ev.homed(ev.outside.attribute(obj, name, value))
    if isinstance(obj, type):
        return _of_class(ev, obj, name)
    return _of_instance(ev, obj, name)


def _of_tensor(ev: Evaluator, obj: Tensor, name: str) -> Any:
    try:
        value = getattr(obj, name)
    except AttributeError:
        if isinstance(obj, Parameter) and hasattr(Parameter, name):
            why = f"which Parameter's '{name}' this is depends on a Tensor"
            raise AttributeError(why) from None
        raise
    if isinstance(obj, Parameter) and ev.outside.number(obj) is not None:
        for own in (name, f"_{name}"):  # past the property, which takes time
            if has_own(obj, own):
                return ev.homed(ev.outside.attribute(obj, own, value))
    return value


def _of_parent(ev: Evaluator, obj: Any, name: str) -> Any:
    """``super().name``."""
    value = getattr(obj, name)
    here, kind = obj.__thisclass__, obj.__self_class__
    if isinstance(value, types.MethodType) and not is_trusted(kind.__module__):
        code = f"super({ev.outside.constant(here)}, {ev.outside.constant(kind)}).{name}"
        inner = value.__func__
        code += ".__func__" if value.__self__ is kind else ""
        ev.outside.require(f"{code} is {ev.outside.constant(inner)}", f"super().{name}")
    return value


def _of_class(ev: Evaluator, cls: type, name: str) -> Any:
    value = getattr(cls, name)
    found = lookup(cls, name)
    native = isinstance(found, _METHODS_IN_C) or isinstance(value, _METHODS_IN_C)
    if native or is_trusted(cls.__module__) or cls.__module__ == "builtins":
        return value
    if isinstance(found, (types.FunctionType, staticmethod, classmethod, property)):
        ev.outside.from_class(cls, name, found)
        return value
    return ev.homed(ev.outside.attribute(cls, name, value))


def _of_instance(ev: Evaluator, obj: Any, name: str) -> Any:
    cls, found = type(obj), lookup(type(obj), name)
    if isinstance(found, property):
        if found.fget is None:
            raise AttributeError(f"property '{name}' of '{cls.__name__}' object has no getter")
        _guard(ev, obj, name, found)
        return ev.call(found.fget, [obj], {})
    if has_own(obj, name) and not _comes_first(found):
        value = obj.__dict__[name]
        if value is UNSET:
            raise AttributeError(
                f"'{cls.__name__}' object has no attribute '{name}' if an arm of an if or a loop "
                "does not run: give it a value before"
            )
        if id(obj) in ev.births:
            return ev.readable(value, name)
        return ev.homed(ev.outside.attribute(obj, name, value))
    if found is UNSET:
        return _missing(ev, obj, name)
    return _from_class(ev, obj, found, name)


def _comes_first(found: Any) -> bool:
    """True for a descriptor of a class that hides what the object itself has."""
    kind = type(found)
    return hasattr(kind, "__get__") and (hasattr(kind, "__set__") or hasattr(kind, "__delete__"))


def _guard(ev: Evaluator, obj: Any, name: str, found: Any) -> None:
    """What the class gives is the same at the next call, and the object has nothing of its own."""
    cls, old = type(obj), id(obj) not in ev.births
    if not is_trusted(cls.__module__):
        ev.outside.from_class(cls, name, found, obj if old else None)
    elif name in _ALWAYS_GUARDED and old:
        code, fresh, text = ev.outside.source(obj)
        ev.outside.require(f"{name!r} not in {code}.__dict__", f"{text}.{name}", fresh)


def _from_class(ev: Evaluator, obj: Any, found: Any, name: str) -> Any:
    """What a class gives its instances: a method, a constant, or what a descriptor makes."""
    inner = getattr(found, "__wrapped_function__", found)  # a jitted method is its function
    if isinstance(inner, (types.FunctionType, staticmethod, classmethod)):
        _guard(ev, obj, name, found)
        if isinstance(inner, staticmethod):
            return inner.__func__
        if isinstance(inner, classmethod):
            return found.__get__(obj, type(obj))
        return types.MethodType(inner, obj)
    if isinstance(found, functools.cached_property):
        value = ev.call(found.func, [obj], {})
        set_attribute(ev, obj, name, value)
        return value
    get = getattr(type(found), "__get__", None)
    if isinstance(get, types.FunctionType) and not is_stdlib(module_of(get)):
        if id(obj) not in ev.births:
            ev.outside.descriptor(obj, name, found, lookup)
        return ev.call(get, [found, obj, type(obj)], {})
    value = getattr(obj, name)
    if id(obj) in ev.births or isinstance(found, _METHODS_IN_C):
        return ev.readable(value, name)
    if is_trusted(type(obj).__module__):
        _guard(ev, obj, name, found)
        return value
    return ev.homed(ev.outside.attribute(obj, name, value))


def _missing(ev: Evaluator, obj: Any, name: str) -> Any:
    """An attribute that neither the object nor its class has."""
    fallback = getattr(type(obj), "__getattr__", None)
    if isinstance(fallback, types.FunctionType):
        if id(obj) not in ev.births:
            ev.outside.no_attribute(obj, name)
        return ev.call(fallback, [obj, name], {})
    if name in ("__class__", "__doc__", "__name__", "__qualname__") or id(obj) in ev.births:
        return getattr(obj, name)
    value = getattr(obj, name)  # the AttributeError is Python's own
    return ev.homed(ev.outside.attribute(obj, name, value))


# ------------------------------------------------------------------------------- writing


def set_attribute(ev: Evaluator, obj: Any, name: str, value: Any) -> None:
    """``obj.name = value``."""
    refuse_choice(obj, "the object")
    if isinstance(obj, Tensor):
        _set_on_tensor(obj, name, value)
        return
    found = lookup(type(obj), name)
    if isinstance(found, property):
        if found.fset is None:
            raise AttributeError(
                f"property '{name}' of '{type(obj).__name__}' object has no setter"
            )
        _guard(ev, obj, name, found)
        ev.call(found.fset, [obj, value], {})
        return
    put = getattr(type(found), "__set__", None)
    if isinstance(put, types.FunctionType):
        ev.call(put, [found, obj, value], {})
        return
    method = type(obj).__setattr__
    own = isinstance(method, types.FunctionType)
    if own and (id(obj) in ev.births or not is_trusted(module_of(method))):
        ev.call(method, [obj, name, value], {})
    else:
        set_plainly(ev, obj, name, value)


def set_plainly(ev: Evaluator, obj: Any, name: str, value: Any) -> None:
    """``object.__setattr__(obj, name, value)``."""
    if id(obj) in ev.births:
        ev.region.touch(obj)
        object.__setattr__(obj, name, value)
    else:
        _set_on_old(ev, obj, name, value)


def _set_on_tensor(obj: Tensor, name: str, value: Any) -> None:
    if isinstance(obj, Parameter) and name != "data":
        raise TypeError(
            f"'{name}' of Parameter {obj.name} cannot be written in a compiled graph: "
            "write it outside; the next call sees it"
        )
    setattr(obj, name, value)  # a Tensor's own properties check what may be written


def _set_on_old(ev: Evaluator, obj: Any, name: str, value: Any) -> None:
    """Write an attribute of an object that is older than the call: a Tensor or number only."""
    key = ("attribute", id(obj), name)
    real = getattr(obj, "__dict__", {}).get(name, UNSET)
    is_cell = hasattr(type(obj), "construct")  # which keeps its Parameters
    if is_cell and key not in ev.world.slots:
        code, fresh, text = ev.outside.source(obj)
        held = f"isinstance({code}.__dict__.get({name!r}), {ev.outside.constant(Parameter)})"
        held += f" is {isinstance(real, Parameter)}"
        ev.outside.require(held, f"whether {text}.{name} is a Parameter", fresh)
    if isinstance(ev.world.slots.get(key, real), Parameter):
        current = get_attribute(ev, obj, name)
        if value is current:  # ``self.p += 1`` wrote it
            return
        if is_cell and isinstance(value, Tensor) and not isinstance(value, Parameter):
            current.set_data(value)
            return
    if id(value) in ev.outside.older and value is get_attribute(ev, obj, name):
        return  # ``self.items += [x]`` wrote it
    fixed = is_cell and isinstance(ev.world.slots.get(key, real), Parameter)
    fits = isinstance(value, Tensor) or (is_number(value) and not fixed)
    if isinstance(obj, (type, types.ModuleType)) or not fits or hasattr(type(real), "construct"):
        owner = getattr(obj, "__name__", type(obj).__name__)
        raise TypeError(
            f"'{name}' of {owner} is older than the compiled call, so the graph can "
            f"write only a Tensor, Parameter or number to it, not {type_name(value)}: "
            "make it a Parameter, or return the value"
        )
    cell = ("cell", id(obj), name)
    if key not in ev.world.base and key not in ev.world.slots and ev.is_conditional():
        before = ev.world.base[key] = UNSET if real is UNSET else get_attribute(ev, obj, name)
        number = ev.outside.number(before)
        ev.world.base[cell] = NEW if number is None else number
    ev.alive.append(obj)
    ev.outside.source(obj)
    ev.region.touch(ev.world)
    ev.world.slots[key] = value
    ev.world.slots[cell] = ev.commits.cell(value, real) if isinstance(value, Tensor) else NEW
    ev.overlays[id(obj), name] = obj, ev.places()
