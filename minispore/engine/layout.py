"""Where the elements of a value are: buffers, and views of them by strides.

Transposing, slicing, broadcasting and splitting only make another view of the same buffer;
reshaping does so where the strides allow it.  Who can follow strides (products of matrices, copies,
rows of element-wise kernels) reads the view itself; all others get a copy in row-major order.

    Buffer            512 * 64 floats, what a Dense layer wrote
    (8, 64, 4, 16)    reshaped to heads                             strides (4096, 64, 16, 1)
    (8, 4, 64, 16)    transposed: for each head a matrix            strides (4096, 16, 64, 1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minispore.abstract import Abstract, AbstractScalar, AbstractTensor, Shape

DTYPES = {
    "float32": "f4", "float64": "f8", "int32": "i4", "int64": "i8", "bool": "u1",
    "float16": "f2", "bfloat16": "b2",
}  # fmt: skip
NUMBERS = {int: "i8", float: "f8", bool: "u1"}
NUMPY = {kind: np.dtype(name) for name, kind in DTYPES.items()}
HALVES = ("f2", "b2")  # computed as f4, and rounded by each node
FLOATS = ("f4", "f8", *HALVES)
SIZES = {"f4": 4, "f8": 8, "i4": 4, "i8": 8, "u1": 1, "f2": 2, "b2": 2}


def kind_of(abstract: Abstract) -> str | None:
    """The kernels' name of a value's type; None for what no kernel takes.

    Such as sizes that vary, and the -1 of a Tensor that describes inputs and has no elements.
    """
    if isinstance(abstract, AbstractScalar):
        return NUMBERS.get(abstract.kind)
    if not isinstance(abstract, AbstractTensor):
        return None
    if any(type(n) is not int or n < 0 for n in abstract.shape):
        return None
    return DTYPES.get(abstract.dtype.numpy.name)


@dataclass(eq=False)
class Buffer:
    """An array of a run: an input, a constant (`value`), or what a step writes.

    `at`: another buffer whose memory it takes over, as the next round of a loop does.
    """

    dtype: str
    size: int
    value: np.ndarray | None = None
    step: Any = field(default=None, repr=False)
    at: Buffer | None = field(default=None, repr=False)

    @property
    def home(self) -> Buffer:
        """The buffer whose memory this is."""
        return self if self.at is None else self.at.home

    @property
    def bytes(self) -> int:
        return self.size * SIZES[self.dtype]


@dataclass(frozen=True)
class View:
    """Elements of a buffer: `strides` counts elements; None if they are all, in row-major order."""

    buffer: Buffer
    shape: Shape
    strides: Shape | None = None
    offset: int = 0

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_whole(self) -> bool:
        """True if these are all elements of the buffer, in row-major order."""
        return self.strides is None

    @property
    def steps(self) -> Shape:
        """The strides, whatever the layout."""
        return row_major(self.shape) if self.strides is None else self.strides

    @property
    def matrix(self) -> tuple[int, int, int, int]:
        """Rows, columns and their steps, of the last two axes."""
        (m, n), (down, right) = self.shape[-2:], self.steps[-2:]
        return m, n, down, right


def row_major(shape: Sequence[int]) -> Shape:
    """The strides of a contiguous array."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def strided(buffer: Buffer, shape: Sequence[int], strides: Sequence[int], offset: int) -> View:
    """A view; a whole one if its strides say so."""
    pairs = zip(shape, strides, row_major(shape), strict=True)
    same = offset == 0 and math.prod(shape) == buffer.size
    if same and all(n == 1 or s == t for n, s, t in pairs):
        return View(buffer, tuple(shape))
    return View(buffer, tuple(shape), tuple(strides), offset)


def permuted(view: View, perm: Sequence[int]) -> View:
    """Axes in another order."""
    steps = view.steps
    shape = tuple(view.shape[a] for a in perm)
    return strided(view.buffer, shape, [steps[a] for a in perm], view.offset)


def sliced(view: View, ranges: Sequence[tuple[int, int, int]]) -> View:
    """Elements ``range(begin, end, step)`` of each axis."""
    steps, offset = view.steps, view.offset
    shape = tuple(len(range(*r)) for r in ranges)
    offset += sum(r[0] * s for r, s in zip(ranges, steps, strict=True))
    return strided(
        view.buffer, shape, [r[2] * s for r, s in zip(ranges, steps, strict=True)], offset
    )


def broadcast(view: View, shape: Shape) -> View:
    """Repeated along new axes and those of size 1, by strides of 0."""
    new = len(shape) - len(view.shape)
    own = zip(view.shape, view.steps, shape[new:], strict=True)
    strides = [0] * new + [0 if n == 1 and m != 1 else s for n, s, m in own]
    return strided(view.buffer, shape, strides, view.offset)


def unbroadcast(view: View) -> View:
    """Each element once: axes along which a view repeats them have size 1."""
    if view.is_whole:
        return view
    shape = tuple(1 if s == 0 else n for n, s in zip(view.shape, view.steps, strict=True))
    return strided(view.buffer, shape, view.steps, view.offset)


def reshaped(view: View, shape: Shape) -> View | None:
    """The same elements in another shape; None if no strides do that."""
    if view.is_whole:
        return View(view.buffer, shape)
    old = [(n, s) for n, s in zip(view.shape, view.steps, strict=True) if n != 1]
    strides: list[int] = []
    i = 0
    left, step = old[0] if old else (1, 1)
    for n in shape:
        if n == 1:
            strides.append(0)
            continue
        while left == 1:
            i += 1
            left, step = old[i]
        while left % n and i + 1 < len(old) and step == old[i + 1][1] * old[i + 1][0]:
            i += 1  # two old axes that follow one another are one
            left, step = left * old[i][0], old[i][1]
        if left % n:
            # a new axis that takes several old ones
            return None
        left //= n
        strides.append(step * left)
    return strided(view.buffer, shape, strides, view.offset)


def collapsed(shape: Shape, *strides: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    """Fewer axes for loops over several arrays at once: those that follow one another are one."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for a, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(mine[-1] == s[a] * n for mine, s in zip(steps, strides, strict=True)):
            sizes[-1] *= n
            for mine, s in zip(steps, strides, strict=True):
                mine[-1] = s[a]
        else:
            sizes.append(n)
            for mine, s in zip(steps, strides, strict=True):
                mine.append(s[a])
    return sizes, steps


def rows_of(view: View) -> tuple[int, int] | None:
    """(offset, stride) of the rows of a view whose last axis is contiguous; None if it has none."""
    if not view.shape:
        return None
    sizes, (steps,) = collapsed(view.shape[:-1], view.steps[:-1])
    if view.shape[-1] != 1 and view.steps[-1] != 1:
        return None
    return None if len(sizes) > 1 else (view.offset, steps[0] if sizes else 0)
