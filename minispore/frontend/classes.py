"""Instances made while compiling: Tensors, exceptions, Cells, objects of users' classes."""

from __future__ import annotations

import dataclasses
import types
from typing import TYPE_CHECKING, Any

from minispore.frontend.capture import is_trusted
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import Raised
from minispore.frontend.natives import PURE, native, with_constants
from minispore.frontend.values import is_symbolic
from minispore.parameter import Parameter
from minispore.primitive import Primitive
from minispore.tensor import Tensor

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


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
    if dataclasses.is_dataclass(cls) and is_generated(init):
        return _make_dataclass(ev, cls, args, kwargs)
    if cls.__new__ is not object.__new__:
        raise UnsupportedError(
            f"a {cls.__name__} cannot be made in a compiled graph, as its class defines __new__: "
            "make it outside"
        )
    obj = ev.new_object(cls)
    ev.outside.special_methods(cls)
    if isinstance(init, types.FunctionType):
        ev.call(init, [obj, *args], kwargs)
    elif args or kwargs:
        raise TypeError(f"{cls.__name__}() takes no arguments")
    return obj


def is_generated(function: Any) -> bool:
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
        ev.call(cls.__post_init__, [obj, *rest], {})
    return obj


def _build_cell(ev: Evaluator, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A Cell made inside the compiled function: each call makes it anew, before the graph runs."""
    if ev.is_conditional():
        raise UnsupportedError(
            f"a {cls.__name__} cannot be made where a Tensor decides whether or how often: "
            "make it before"
        )
    args, kwargs = with_constants(args), with_constants(kwargs)
    if any(is_symbolic(v) for v in [*args, *kwargs.values()]):
        raise UnsupportedError(
            f"{cls.__name__}(...) in a compiled function takes constants: its parameters are made "
            "before the graph runs; give the Tensor to its construct"
        )
    return ev.outside.build(cls, tuple(args), dict(kwargs), cls.__name__)
