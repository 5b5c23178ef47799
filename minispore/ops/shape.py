"""Ops that move elements without computing: reshape, transpose, concatenate, slice, broadcast.

Attributes hold the resolved form (no -1 in shapes, non-negative axes), so that equal nodes are
equal primitives.  Results are copies: nothing aliases its operand.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor, AbstractTuple, broadcast_shapes
from minispore.abstract import Shape as Sizes
from minispore.dims import Dim, divided, equal, larger, same, same_shape, smaller
from minispore.ops.common import (
    Composite,
    all_axes,
    as_int,
    as_ints,
    check_tensor,
    one_axis,
    require_sizes,
)
from minispore.ops.reduce import inverse_permutation
from minispore.primitive import Primitive, apply

# --------------------------------------------------------------------- the same elements, reshaped


class _View(Primitive, register=False):
    """The same elements in the same order in another shape (``self.shape_of``)."""

    def shape_of(self, shape: Sizes) -> Sizes:
        raise NotImplementedError

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        return AbstractTensor(x.dtype, self.shape_of(x.shape))

    def eval(self, x: np.ndarray) -> Any:
        return np.array(x.reshape(self.shape_of(x.shape)), order="C")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (ops.reshape(dout, inputs[0].shape),)


class Reshape(_View):
    """Attribute `shape`; one size may be -1: what is left."""

    def __call__(self, x: Any, shape: Any) -> Any:
        check_tensor("Reshape", x)
        return apply(Reshape.bound(shape=_resolved(x.shape, as_ints("a size", shape))), x)

    def shape_of(self, shape: Sizes) -> Sizes:
        return self.attrs["shape"]


def _resolved(old: Sizes, new: Sizes) -> Sizes:
    """The shape `new` with its -1 replaced; ValueError if the sizes do not fit."""
    free = [same(n, -1) for n in new]
    if free.count(True) > 1 or any(n < -1 for n in new):
        raise ValueError(f"reshape to {new}: at most one size may be -1, and none below")
    size = math.prod(old)
    known = math.prod(n for n, is_free in zip(new, free, strict=True) if not is_free)
    message = ("reshape of shape ", old, " to ", new, " is impossible: ", size, " elements")
    if True not in free:
        require_sizes(equal, (size, known), ValueError, *message, " are not ", known)
        return new
    require_sizes(lambda n: n > 0, (known,), ValueError, *message)
    rest = divided(size, known)
    require_sizes(lambda n: n <= 0, (size - known * rest,), ValueError, *message)
    return tuple(rest if is_free else n for n, is_free in zip(new, free, strict=True))


class ExpandDims(_View):
    """A new dimension of size 1; attribute `axis`."""

    def __call__(self, x: Any, axis: Any) -> Any:
        check_tensor("ExpandDims", x)
        return apply(ExpandDims.bound(axis=one_axis("ExpandDims", axis, len(x.shape) + 1)), x)

    def shape_of(self, shape: Sizes) -> Sizes:
        axis = self.attrs["axis"]
        return (*shape[:axis], 1, *shape[axis:])


class Squeeze(_View):
    """Without dimensions of size 1: those of attribute `axis`, or all if it is ()."""

    def __init__(self, axis: Any = ()):
        super().__init__(axis=() if axis is None else as_ints("axis", axis))

    def __call__(self, x: Any) -> Any:
        check_tensor("Squeeze", x)
        if self.attrs["axis"] == ():
            axes = tuple(a for a, n in enumerate(x.shape) if n == 1)
        else:
            axes = all_axes("Squeeze", self.attrs["axis"], len(x.shape))
        for a in axes:
            if x.shape[a] != 1:
                raise ValueError(f"squeeze: axis {a} of shape {x.shape} has a size other than 1")
        return apply(Squeeze.bound(axis=axes), x)

    def shape_of(self, shape: Sizes) -> Sizes:
        return tuple(n for a, n in enumerate(shape) if a not in self.attrs["axis"])


class Flatten(Composite):
    """All dimensions but the first as one."""

    def __call__(self, x: Any) -> Any:
        return ops.flatten(x)


# ---------------------------------------------------------------------- elements moved or repeated


class Transpose(Primitive):
    """Dimensions in another order; attribute `perm`."""

    def __call__(self, x: Any, perm: Any) -> Any:
        check_tensor("Transpose", x)
        axes = tuple(one_axis("transpose", a, len(x.shape)) for a in as_ints("perm", perm))
        if sorted(axes) != list(range(len(x.shape))):
            raise ValueError(f"transpose: {tuple(perm)} does not permute {len(x.shape)} dimensions")
        return apply(Transpose.bound(perm=axes), x)

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        return AbstractTensor(x.dtype, tuple(x.shape[a] for a in self.attrs["perm"]))

    def eval(self, x: np.ndarray) -> Any:
        return np.array(np.transpose(x, self.attrs["perm"]), order="C")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (apply(Transpose.bound(perm=inverse_permutation(self.attrs["perm"])), dout),)


class BroadcastTo(Primitive):
    """Repeated along new dimensions and those of size 1; attribute `shape`."""

    def __init__(self, shape: Any):
        super().__init__(shape=as_ints("a size", shape))

    def __call__(self, x: Any) -> Any:
        """The broadcast Tensor; a size of -1 keeps the operand's."""
        check_tensor("BroadcastTo", x)
        shape = self.attrs["shape"]
        offset = len(shape) - len(x.shape)
        if any(n == -1 and i < offset for i, n in enumerate(shape)):
            raise ValueError(f"broadcast_to: -1 in {shape} stands for no dimension of {x.shape}")
        sizes = tuple(x.shape[i - offset] if n == -1 else n for i, n in enumerate(shape))
        return apply(BroadcastTo.bound(shape=sizes), x)

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        shape = self.attrs["shape"]
        if len(x.shape) > len(shape) or not same_shape(broadcast_shapes(x.shape, shape), shape):
            raise ValueError(f"shape {x.shape} cannot be broadcast to {shape}")
        return AbstractTensor(x.dtype, shape)

    def eval(self, x: np.ndarray) -> Any:
        return np.array(np.broadcast_to(x, self.attrs["shape"]), order="C")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (ops.sum_to(dout, inputs[0].shape),)


class Tile(Primitive):
    """Copies side by side: as many per dimension as attribute `reps` says."""

    def __call__(self, x: Any, reps: Any) -> Any:
        check_tensor("Tile", x)
        counts = as_ints("a number of copies", reps)
        if any(n < 0 for n in counts):
            raise ValueError(f"tile: numbers of copies must not be negative: {counts}")
        counts = (1,) * (len(x.shape) - len(counts)) + counts
        padded = (1,) * (len(counts) - len(x.shape)) + x.shape
        return apply(
            Tile.bound(reps=counts), x if len(padded) == len(x.shape) else ops.reshape(x, padded)
        )

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        sizes = zip(self.attrs["reps"], x.shape, strict=True)
        return AbstractTensor(x.dtype, tuple(r * n for r, n in sizes))

    def eval(self, x: np.ndarray) -> Any:
        return np.array(np.tile(x, self.attrs["reps"]), order="C")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        shape = inputs[0].shape
        pairs = tuple(size for pair in zip(self.attrs["reps"], shape, strict=True) for size in pair)
        copies = tuple(range(0, len(pairs), 2))
        return (ops.reduce_sum(ops.reshape(dout, pairs), copies) if copies else dout,)


class ReverseV2(Primitive):
    """The order of elements reversed along attribute `axis`, a tuple."""

    def __init__(self, axis: Any):
        super().__init__(axis=as_ints("axis", axis))

    def __call__(self, x: Any) -> Any:
        check_tensor("ReverseV2", x)
        axes = all_axes("flip", self.attrs["axis"], len(x.shape)) if self.attrs["axis"] else ()
        return apply(ReverseV2.bound(axis=axes), x)

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        return x

    def eval(self, x: np.ndarray) -> Any:
        return np.array(np.flip(x, self.attrs["axis"]), order="C")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (apply(self, dout),)


# --------------------------------------------------------------------------- pieces and their joins


class Concat(Primitive):
    """Tensors one after the other along attribute `axis`; they take their common type."""

    promotes = True

    def __init__(self, axis: int = 0):
        super().__init__(axis=as_int("axis", axis))

    def __call__(self, tensors: Any) -> Any:
        parts = _tensors("concat", tensors)
        axis = one_axis("concat", self.attrs["axis"], len(parts[0].shape))
        return apply(Concat.bound(axis=axis), *parts)

    def infer(self, *parts: AbstractTensor) -> AbstractTensor:
        axis, first = self.attrs["axis"], parts[0]
        for part in parts:
            if _without(part.shape, axis) != _without(first.shape, axis):
                raise ValueError(
                    f"concat along axis {axis}: all other sizes must be equal, not those of "
                    f"{' and '.join(str(p.shape) for p in parts)}"
                )
        sizes = list(first.shape)
        sizes[axis] = sum(p.shape[axis] for p in parts)
        return AbstractTensor(first.dtype, tuple(sizes))

    def eval(self, *parts: np.ndarray) -> Any:
        return np.concatenate(parts, self.attrs["axis"])

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        axis = self.attrs["axis"]
        return apply(Split.bound(axis=axis, sizes=tuple(x.shape[axis] for x in inputs)), dout)


def _without(shape: Sizes, axis: int) -> Sizes:
    return (*shape[:axis], *shape[axis + 1 :], len(shape))  # the rank too: (3,) is not ()


def _tensors(name: str, tensors: Any) -> tuple:
    """A non-empty tuple of Tensors."""
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(f"{name} takes a tuple or list of Tensors, not {type(tensors).__name__}")
    if not tensors:
        raise ValueError(f"{name} needs at least one Tensor")
    return tuple(check_tensor(name, t) for t in tensors)


class Stack(Primitive):
    """Tensors of one shape along a new dimension; attribute `axis`."""

    promotes = True

    def __init__(self, axis: int = 0):
        super().__init__(axis=as_int("axis", axis))

    def __call__(self, tensors: Any) -> Any:
        parts = _tensors("stack", tensors)
        axis = one_axis("stack", self.attrs["axis"], len(parts[0].shape) + 1)
        return apply(Stack.bound(axis=axis), *parts)

    def infer(self, *parts: AbstractTensor) -> AbstractTensor:
        axis, first = self.attrs["axis"], parts[0]
        if any(p.shape != first.shape for p in parts):
            shapes = " and ".join(str(p.shape) for p in parts)
            raise ValueError(f"stack needs Tensors of one shape, not {shapes}")
        return AbstractTensor(first.dtype, (*first.shape[:axis], len(parts), *first.shape[axis:]))

    def eval(self, *parts: np.ndarray) -> Any:
        return np.stack(parts, self.attrs["axis"])

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return ops.unstack(dout, self.attrs["axis"])


class Split(Primitive):
    """Consecutive pieces along `axis`, of the given `sizes`: as many results as sizes."""

    def __init__(self, axis: int = 0, output_num: int = 1):
        super().__init__(axis=as_int("axis", axis), output_num=as_int("output_num", output_num))

    def __call__(self, x: Any) -> Any:
        check_tensor("Split", x)
        axis = one_axis("split", self.attrs["axis"], len(x.shape))
        pieces, size = self.attrs["output_num"], x.shape[axis]
        if pieces < 1 or size % pieces:
            raise ValueError(f"Split: axis {axis} of shape {x.shape} has no {pieces} equal pieces")
        return apply(Split.bound(axis=axis, sizes=(size // pieces,) * pieces), x)

    def infer(self, x: AbstractTensor) -> AbstractTuple:
        axis = self.attrs["axis"]
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        return AbstractTuple(
            tuple(AbstractTensor(x.dtype, (*before, n, *after)) for n in self.attrs["sizes"])
        )

    def eval(self, x: np.ndarray) -> Any:
        ends = np.cumsum(self.attrs["sizes"])[:-1]
        return tuple(np.array(p, order="C") for p in np.split(x, ends, self.attrs["axis"]))

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        pieces = [ops.zeros_like(o) if d is None else d for o, d in zip(out, dout, strict=True)]
        return (apply(Concat.bound(axis=self.attrs["axis"]), *pieces),)


def slice_bounds(s: slice, size: Any) -> tuple[Any, Any, int]:
    """``s.indices(size)``, also for sizes that are not known."""
    if not any(isinstance(v, Dim) for v in (s.start, s.stop, size)):
        bounds = s.indices(size)
        # an empty slice has many spellings; one of them keeps equal nodes equal
        return bounds if len(range(*bounds)) else (0, 0, 1)
    step = 1 if s.step is None else operator.index(s.step)
    first, last = (0, size) if step > 0 else (size - 1, -1)

    def bound(position: Any, default: Any) -> Any:
        if position is None:
            return default
        if not isinstance(position, Dim):
            position = operator.index(position)
        position = position + size if position < 0 else position
        low, high = (first, last) if step > 0 else (last, first)
        return larger(smaller(position, high, True), low, True)

    begin, end = bound(s.start, first), bound(s.stop, last)
    return begin, (larger if step > 0 else smaller)(begin, end, True), step


def slice_size(begin: Any, end: Any, step: int) -> Any:
    """The number of positions that such bounds give: ``len(range(begin, end, step))``."""
    if step < 0:
        begin, end, step = end, begin, -step
    return divided(end - begin + step - 1, step)


def resolved_slices(slices: list[slice], shape: Sizes) -> dict[str, Sizes]:
    """The attributes of a StridedSlice for a Python slice of each dimension."""
    bounds = [slice_bounds(s, n) for s, n in zip(slices, shape, strict=True)]
    begin, end, strides = zip(*bounds, strict=True) if bounds else ((), (), ())
    return {"begin": begin, "end": end, "strides": strides}


def as_slices(attrs: dict) -> tuple[slice, ...]:
    """The Python slices of such attributes."""
    bounds = zip(attrs["begin"], attrs["end"], attrs["strides"], strict=True)
    return tuple(slice(b, None if e < 0 else e, s) for b, e, s in bounds)


class StridedSlice(Primitive):
    """Elements ``range(begin, end, stride)`` of each dimension; attributes are tuples of ints.

    Attributes are resolved: positions count from the front, an `end` of -1 (for a negative stride)
    is before the first element.
    """

    def __call__(self, x: Any, begin: Any, end: Any, strides: Any) -> Any:
        """``x[begin:end:stride]`` in each of the first dimensions, as Python slices."""
        check_tensor("StridedSlice", x)
        ranges = [as_ints(n, v) for n, v in (("begin", begin), ("end", end), ("strides", strides))]
        if len({len(r) for r in ranges}) > 1 or len(ranges[0]) > len(x.shape):
            raise ValueError(
                f"strided_slice of shape {x.shape} needs begin, end and strides of one length "
                f"of at most {len(x.shape)}, not {ranges[0]}, {ranges[1]} and {ranges[2]}"
            )
        if 0 in ranges[2]:
            raise ValueError("strided_slice: a stride must not be 0")
        return sliced(x, [slice(*bounds) for bounds in zip(*ranges, strict=True)])

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        bounds = zip(*(self.attrs[n] for n in ("begin", "end", "strides")), strict=True)
        return AbstractTensor(x.dtype, tuple(slice_size(*b) for b in bounds))

    def eval(self, x: np.ndarray) -> Any:
        return np.array(x[as_slices(self.attrs)], order="C")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (apply(StridedSliceGrad.bound(shape=inputs[0].shape, **self.attrs), dout),)


def sliced(x: Any, slices: list[slice]) -> Any:
    """``x[slices]`` for Python slices of the first dimensions, as one StridedSlice."""
    whole = [slice(None)] * (len(x.shape) - len(slices))
    return apply(StridedSlice.bound(**resolved_slices([*slices, *whole], x.shape)), x)


class StridedSliceGrad(Primitive):
    """The operand in zeros of attribute `shape`, where StridedSlice would have taken it."""

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        return AbstractTensor(x.dtype, self.attrs["shape"])

    def eval(self, x: np.ndarray) -> Any:
        out = np.zeros(self.attrs["shape"], x.dtype)
        out[as_slices(self.attrs)] = x
        return out

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        attrs = {n: self.attrs[n] for n in ("begin", "end", "strides")}
        return (apply(StridedSlice.bound(**attrs), dout),)


class Pad(Primitive):
    """Surrounded by `value`: `paddings` holds (before, after) for each dimension."""

    def __init__(self, paddings: Any, value: float = 0):
        pairs = tuple(as_ints("a padding", p) for p in paddings)
        super().__init__(paddings=pairs, value=value)

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        pairs = self.attrs["paddings"]
        if len(pairs) != x.ndim or any(len(p) != 2 or min(p) < 0 for p in pairs):
            raise ValueError(
                f"Pad needs a pair of non-negative ints for each dimension of shape {x.shape}, "
                f"not {pairs}"
            )
        sizes = zip(pairs, x.shape, strict=True)
        return AbstractTensor(x.dtype, tuple(n + before + after for (before, after), n in sizes))

    def eval(self, x: np.ndarray) -> Any:
        return np.pad(x, self.attrs["paddings"], constant_values=self.attrs["value"])

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        begin = tuple(before for before, _ in self.attrs["paddings"])
        return (ops.slice(dout, begin, inputs[0].shape),)


class Shape(Composite):
    """The shape of a Tensor, as a tuple of ints."""

    def __call__(self, x: Any) -> Sizes:
        return ops.shape(x)


class Rank(Composite):
    """The number of dimensions."""

    def __call__(self, x: Any) -> int:
        return ops.rank(x)


class Size(Composite):
    """The number of elements."""

    def __call__(self, x: Any) -> int:
        return ops.size(x)
