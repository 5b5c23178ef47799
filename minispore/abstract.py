"""What is known of a value before it exists.

Every node of a graph carries one of these from its birth (MindSpore: ``AbstractTensor`` and
its siblings).  They are immutable and compared by value.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from minispore.dtype import DType, of_python

Shape = tuple[int, ...]


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


@dataclass(frozen=True, slots=True)
class AbstractTensor(Abstract):
    """A Tensor of known dtype and shape."""

    dtype: DType
    shape: Shape

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
    out: list[int] = []
    ndim = max(map(len, shapes), default=0)
    for axis in range(-ndim, 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1:
            raise ValueError(
                "shapes " + " and ".join(map(str, shapes)) + " cannot be broadcast together: "
                "from the right, sizes must be equal or 1"
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)
