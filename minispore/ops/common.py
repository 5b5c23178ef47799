"""What the op modules share: arguments, axes, half floats, checks at run time.

Rules of gradients call public ops through the package (``ops.exp``), so that modules may refer to
each other in both directions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from minispore import tree
from minispore.abstract import Shape, symbols_of
from minispore.dims import Dim, as_number
from minispore.ops.structural import Check
from minispore.primitive import Primitive, ScalarLike, TensorLike, apply
from minispore.tree import NeedConstant


class Composite(Primitive, register=False):
    """MindSpore's class of an op that is composed from other primitives here.

    It is constructed and called like a primitive, and prints like one, but makes no node itself.
    """

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(register=False, **kwargs)
        cls.name = cls.__name__


def require(holds: Any, exception: type[Exception], message: Any) -> None:
    """Raise ``exception(message)`` when the program runs, unless the bool (Tensor) holds.

    An op that can fail on values is a pure op that follows such a check, so that the failure
    survives every rewrite of the value.
    """
    leaves, structure = tree.flatten((message,), lambda leaf: isinstance(leaf, ScalarLike))
    apply(Check.bound(exception=exception, structure=structure), holds, *leaves)


def words(*parts: Any) -> Any:
    """The text of several values in a row; sizes are put in when the program runs."""
    if not any(symbols_of(parts)):
        return "".join(map(str, parts))
    return tree.Text(tuple(p if isinstance(p, str) else tree.Formatted(p, -1, "") for p in parts))


def require_sizes(
    holds: Callable[..., Any], sizes: tuple, exception: type[Exception], *message: Any
) -> None:
    """Raise ``exception(words(*message))`` unless ``holds(*sizes)``.

    It is asked at once, or when the program runs if the sizes are not known before.
    """
    try:
        if not holds(*sizes):
            raise exception("".join(map(str, message)))
    except NeedConstant:
        require(holds(*map(as_number, sizes)), exception, words(*message))


def check_tensor(name: str, value: Any) -> Any:
    """`value`, which must be a Tensor."""
    if not isinstance(value, TensorLike):
        kind = type(value).__name__
        if isinstance(value, np.ndarray):
            raise TypeError(f"{name} takes a Tensor, not {kind}: make it one, ms.Tensor(x)")
        raise TypeError(f"{name} takes a Tensor, not {kind} ({value!r:.40})")
    return value


def holds_tensors(value: Any) -> bool:
    """True if a Tensor, or a number known at run time only, is somewhere in nested lists."""
    if isinstance(value, (list, tuple)):
        return any(map(holds_tensors, value))
    return isinstance(value, (TensorLike, ScalarLike))


def is_half(array: np.ndarray) -> bool:
    """True for float16 and bfloat16 arrays."""
    return array.dtype.itemsize == 2 and array.dtype.kind in "fV"


def widened(array: np.ndarray) -> np.ndarray:
    """A half-precision array as float32; any other array unchanged.

    Half floats are computed in float32 and rounded once, by the handler.
    """
    return array.astype(np.float32) if is_half(array) else array


def as_int(name: str, value: Any) -> int:
    """An int (or size) argument; TypeError for bools, floats and others."""
    if isinstance(value, Dim):
        return value  # type: ignore[return-value]
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an int, not bool")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None


def as_ints(name: str, value: Any) -> tuple[int, ...]:
    """A tuple of ints from an int, tuple or list."""
    if isinstance(value, (tuple, list)):
        return tuple(as_int(name, v) for v in value)
    return (as_int(name, value),)


def as_shape(name: str, value: Any) -> Shape:
    """A shape from an int, tuple or list; ValueError for negative sizes."""
    shape = as_ints(f"the shape of {name}", value)
    if any(n < 0 for n in shape):
        raise ValueError(f"the shape of {name} must not have negative sizes: {shape}")
    return shape


def one_axis(name: str, axis: Any, ndim: int) -> int:
    """`axis` counted from the front; ValueError if a Tensor of `ndim` dimensions has none such."""
    index = as_int(f"the axis of {name}", axis)
    if not -ndim <= index < ndim:
        raise ValueError(f"{name}: axis {index} is out of range for {ndim} dimension(s)")
    return index % ndim


def all_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Sorted axes from None or () (all of them), an int, or a tuple; ValueError for doubles."""
    if axis is None or (isinstance(axis, (tuple, list)) and not axis):
        return tuple(range(ndim))
    if ndim == 0 and not isinstance(axis, (tuple, list)) and as_int(name, axis) in (-1, 0):
        return ()  # a 0-d Tensor may be reduced over its only element
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(one_axis(name, a, ndim) for a in given))
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}: an axis appears twice in {tuple(given)}")
    return axes


def choice(name: str, value: Any, allowed: tuple) -> Any:
    """`value`, which must be one of `allowed`; ValueError otherwise."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {allowed}, not {value!r}")
    return value


def functional(
    prim: type[Primitive], name: str, doc: str, binary: bool = False
) -> Callable[..., Any]:
    """The snake-case function of an element-wise primitive: ``exp`` for ``Exp``."""
    instance = prim()

    def one(input: Any) -> Any:
        return apply(instance, input)

    def two(input: Any, other: Any) -> Any:
        return apply(instance, input, other)

    function = two if binary else one
    function.__name__ = function.__qualname__ = name
    function.__module__ = prim.__module__
    function.__doc__ = f"{doc}\n\nMindSpore: ``ops.{name}``, ``ops.{prim.name}``."
    return function
