"""What is known of a value before it exists.

Every node of a graph carries one of these from its birth (MindSpore: ``AbstractTensor`` and
its siblings).  They are immutable and compared by value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

from minispore.dims import Dim, form, same, same_shape
from minispore.dtype import DType, of_python
from minispore.tree import NeedConstant

Shape = tuple[int, ...]  # or Dims, in a graph: see dims.py


class Abstract:
    """The base of all abstract values."""

    __slots__ = ()

    @property
    def is_differentiable(self) -> bool:
        """True if a cotangent exists for the value: float Tensors, floats, Stacks."""
        return False

    @property
    def is_whole(self) -> bool:
        """True for Tensors of integers: they have a cotangent where one is asked for."""
        return False

    @property
    def has_cotangent(self) -> bool:
        """True if gradients may be asked for, and given, for the value."""
        return self.is_differentiable or self.is_whole


@dataclass(frozen=True, slots=True, eq=False)
class AbstractTensor(Abstract):
    """A Tensor of known dtype and shape; equal shapes are equal by the form of their sizes."""

    dtype: DType
    shape: Shape

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AbstractTensor):
            return NotImplemented
        return self.dtype is other.dtype and same_shape(self.shape, other.shape)

    def __hash__(self) -> int:
        return hash((self.dtype, *map(form, self.shape)))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_differentiable(self) -> bool:
        return self.dtype.is_float

    @property
    def is_whole(self) -> bool:
        return self.dtype.is_integer

    def takes(self, shape: Shape) -> bool:
        """True for the shape of an array that the type may have when a graph runs."""
        return len(shape) == len(self.shape) and all(
            isinstance(dim, Dim) or dim == size for dim, size in zip(self.shape, shape, strict=True)
        )

    def __str__(self) -> str:
        return f"Tensor[{self.dtype}, ({', '.join(map(str, self.shape))})]"


@dataclass(frozen=True, slots=True)
class AbstractScalar(Abstract):
    """A Python bool, int (64 bits) or float (64 bits) that varies at run time."""

    kind: type

    @property
    def is_differentiable(self) -> bool:
        return self.kind is float

    @property
    def dtype(self) -> DType:
        return of_python(self.kind)

    def __str__(self) -> str:
        return self.kind.__name__


@dataclass(frozen=True, slots=True)
class AbstractTuple(Abstract):
    """Several values: the result of a graph or of a primitive with more than one output."""

    items: tuple[Abstract, ...]

    @property
    def is_differentiable(self) -> bool:
        return any(item.is_differentiable for item in self.items)

    def __str__(self) -> str:
        return f"Tuple[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, slots=True)
class AbstractToken(Abstract):
    """The order of effects: print, assert, raise and checks take one and return one."""

    def __str__(self) -> str:
        return "Token"


@dataclass(frozen=True, slots=True)
class AbstractStack(Abstract):
    """An opaque stack of values, on which a loop keeps what its gradient will read."""

    @property
    def is_differentiable(self) -> bool:
        return True

    def __str__(self) -> str:
        return "Stack"


TOKEN = AbstractToken()
STACK = AbstractStack()


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape under NumPy's broadcasting rules; ValueError if there is none."""
    ndim = max(map(len, shapes), default=0)
    out = [1] * ndim
    for shape in shapes:
        for axis in range(-len(shape), 0):
            a, b = out[axis], shape[axis]
            if same(b, 1) or same(a, b):
                continue
            if not same(a, 1) and not a == b:  # noqa: SIM201  # for what == decides about Dims
                if not (a == 1 or b == 1):
                    raise ValueError(
                        "shapes " + " and ".join(map(str, shapes)) + " cannot be broadcast "
                        "together: from the right, sizes must be equal or 1"
                    )
            out[axis] = b
    return tuple(out)


def agree(a: Abstract, b: Abstract) -> bool:
    """True for equal types; sizes of inputs that only happen to be equal become one (dims.py)."""
    if isinstance(a, AbstractTensor) and isinstance(b, AbstractTensor) and a.dtype is b.dtype:
        with suppress(NeedConstant):  # about a size that is born: the form tells all that is known
            return a == b or (a.ndim == b.ndim and a.shape == b.shape and a == b)
    return a == b


def symbols_of(value: Any) -> Iterator[str]:
    """The symbols of all Dims in an attribute: in shapes, and in types."""
    if isinstance(value, Dim):
        yield from value.symbols
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from symbols_of(item)
    elif isinstance(value, AbstractTensor):
        yield from symbols_of(value.shape)
    elif isinstance(value, AbstractTuple):
        yield from symbols_of(value.items)


def at_sizes(value: Any, sizes: Mapping[str, int]) -> Any:
    """The attribute with sizes in place of their symbols."""
    if isinstance(value, Dim):
        return value.at(sizes)
    if isinstance(value, (tuple, list)):
        return type(value)([at_sizes(item, sizes) for item in value])
    if isinstance(value, AbstractTensor):
        return AbstractTensor(value.dtype, at_sizes(value.shape, sizes))
    if isinstance(value, AbstractTuple):
        return AbstractTuple(at_sizes(value.items, sizes))
    return value


def sizes_of(abstracts: Any, values: Any, known: Mapping[str, int] | None = None) -> dict[str, int]:
    """The sizes of the symbols that alone are dimensions of these types, read off the values.

    Raises:
        ValueError: two dimensions of one symbol differ.
    """
    found = dict(known or {})
    for abstract, value in zip(abstracts, values, strict=True):
        if not isinstance(abstract, AbstractTensor):
            continue
        for dim, size in zip(abstract.shape, value.shape, strict=True):
            symbol = dim.symbol if isinstance(dim, Dim) else None
            if symbol is not None and found.setdefault(symbol, size) != size:
                raise ValueError(f"the size {symbol} is both {found[symbol]} and {size}")
    return found
