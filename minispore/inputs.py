"""Descriptions of inputs: Tensors without elements, of which a size of None may be any.

    net.set_inputs(Tensor(shape=[None, 3], dtype=ms.float32))     one graph for all batches

A call of a compiled function whose inputs are described is checked against that, and the sizes
that are None are no part of what its graph is kept for (dims.py).  MindSpore:
``Cell.set_inputs`` and ``mindspore.enable_dynamic``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from minispore.tensor import Tensor
from minispore.tree import constant_key

Axes = dict[int, set[int]]  # id of an argument -> those of which the size may be another

Function = TypeVar("Function", bound=Callable)


class Inputs:
    """Descriptions of arguments: of all, in order (`given` is a tuple), or of some, by name (dict).

    A description is a Tensor, a constant, or a tuple or list of descriptions.
    """

    def __init__(self, given: tuple | dict[str, Any]):
        self.given = given
        self._parameters: dict[Any, inspect.Signature] = {}

    def axes(self, function: Callable, args: tuple, kwargs: dict) -> Axes:
        """The axes of arguments whose sizes are described by None.

        Raises:
            TypeError, ValueError: an argument is not as described.
        """
        found: Axes = {}
        for name, described, value in self._pairs(function, args, kwargs):
            _match(name, described, value, found)
        return found

    def _pairs(self, function: Callable, args: tuple, kwargs: dict) -> Iterator[tuple]:
        known = self._parameters.get(function)
        if known is None:
            known = self._parameters[function] = parameters_of(function)
        values = known.bind(*args, **kwargs).arguments
        if isinstance(self.given, dict):
            yield from ((n, d, values[n]) for n, d in self.given.items() if n in values)
            return
        values.pop("self", None)
        each = [pair for name, v in values.items() for pair in _each(known.parameters[name], v)]
        if len(each) != len(self.given):
            raise ValueError(
                f"{len(self.given)} inputs are described, but {len(each)} are given: describe each"
            )
        for (name, value), described in zip(each, self.given, strict=True):
            yield name, described, value


def _each(parameter: inspect.Parameter, value: Any) -> list[tuple[str, Any]]:
    """The arguments that a parameter holds, with names."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        return [(f"{parameter.name}[{i}]", v) for i, v in enumerate(value)]
    return (
        [*value.items()] if parameter.kind is parameter.VAR_KEYWORD else [(parameter.name, value)]
    )


def parameters_of(function: Any) -> inspect.Signature:
    """The parameters of what is called: of a Cell, its construct; of a gradient, its function."""
    while not hasattr(function, "construct"):
        inner = getattr(function, "__wrapped_function__", None) or getattr(function, "fn", None)
        if inner is None:
            break
        function = inner
    return inspect.signature(getattr(function, "construct", function))


def _match(name: str, described: Any, value: Any, found: Axes) -> None:
    """Check an argument, and note the axes that may have another size."""
    if isinstance(described, (tuple, list)):
        if not isinstance(value, (tuple, list)) or len(value) != len(described):
            kind = f"{len(value)}" if isinstance(value, (tuple, list)) else type(value).__name__
            raise ValueError(f"input '{name}' is described as {len(described)} values, not {kind}")
        for i, (d, v) in enumerate(zip(described, value, strict=True)):
            _match(f"{name}[{i}]", d, v, found)
    elif not isinstance(described, Tensor):
        if constant_key(described) != constant_key(value):
            raise ValueError(f"input '{name}' is described as {described!r}, but is {value!r:.60}")
    elif not isinstance(value, Tensor):
        kind = type(value).__name__
        raise TypeError(f"input '{name}' is described as a Tensor, but is {kind} ({value!r:.40})")
    else:
        if value.dtype is not described.dtype:
            raise TypeError(
                f"input '{name}' is described as {described.dtype}, but is {value.dtype}"
            )
        free = free_axes(described, value)
        if free is None:
            raise ValueError(
                f"input '{name}' is described with shape {described_shape(described)}, but has "
                f"shape {value.shape}"
            )
        found.setdefault(id(value), set()).update(free)


def free_axes(described: Tensor, value: Tensor) -> set[int] | None:
    """The axes of which the size may be any; None if a Tensor has not the shape described."""
    pairs = enumerate(zip(described.shape, value.shape, strict=False))
    fits = value.ndim == described.ndim and all(want < 0 or want == n for _, (want, n) in pairs)
    return {axis for axis, size in enumerate(described.shape) if size < 0} if fits else None


def described_shape(described: Tensor) -> tuple:
    """The shape that a description gives, with None for what may be any size."""
    return tuple(None if size < 0 else size for size in described.shape)


def described_inputs(function: Any) -> Inputs | None:
    """How the inputs of a function, Cell or gradient are described."""
    if hasattr(function, "construct"):
        return getattr(function, "_inputs", None)
    known = getattr(function, "described", None)
    inner = getattr(function, "fn", None)
    return known if known is not None or inner is None else described_inputs(inner)


def enable_dynamic(**kwargs: Any) -> Callable[[Function], Function]:
    """A decorator: sizes of the named inputs of a compiled function may differ between calls.

        @ms.enable_dynamic(x=Tensor(shape=[None, 3], dtype=ms.float32))
        @ms.jit
        def f(x, y): ...

    Without ``jit`` it changes nothing.

    Args:
        kwargs: of each such parameter a Tensor with None among its sizes, or a tuple or list of
            Tensors.

    Raises:
        ValueError: nothing is described, or what is no parameter.
        TypeError: a description is no Tensor, or has no size of None.

    MindSpore: ``mindspore.enable_dynamic``.
    """
    if not kwargs:
        raise ValueError("enable_dynamic: describe an input, as in enable_dynamic(x=Tensor(...))")
    for name, described in kwargs.items():
        parts = described if isinstance(described, (tuple, list)) else (described,)
        if not all(isinstance(part, Tensor) for part in parts):
            raise TypeError(f"enable_dynamic: '{name}' must be described by Tensors")
        if not any(size < 0 for part in parts for size in part.shape):
            raise TypeError(f"enable_dynamic: no size of '{name}' is None")

    def decorator(function: Function) -> Function:
        known = parameters_of(function).parameters
        for name in kwargs:
            if name not in known:
                raise ValueError(f"enable_dynamic: '{name}' is no parameter; there are {[*known]}")
        function.described = Inputs(kwargs)  # type: ignore[attr-defined]
        return function

    return decorator
