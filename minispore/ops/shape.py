"""Ops that move elements without computing: reshape, transpose, concatenate, slice, broadcast.

Attributes hold the resolved form (no -1 in shapes, non-negative axes), so that equal nodes are
equal primitives.  Results are copies: nothing aliases its operand.
"""

from __future__ import annotations

import builtins
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
    choice,
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
        return flatten(x)


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
        return (sum_to(dout, inputs[0].shape),)


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
            Tile.bound(reps=counts), x if len(padded) == len(x.shape) else reshape(x, padded)
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
        return (ops.reduce_sum(reshape(dout, pairs), copies) if copies else dout,)


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
        return unstack(dout, self.attrs["axis"])


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


def slice_bounds(s: builtins.slice, size: Any) -> tuple[Any, Any, int]:
    """``s.indices(size)``, also for sizes that are not known."""
    if not any(isinstance(v, Dim) for v in (s.start, s.stop, size)):
        bounds = s.indices(size)
        # an empty slice has many spellings; one of them keeps equal nodes equal
        return bounds if len(builtins.range(*bounds)) else (0, 0, 1)
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


def resolved_slices(slices: list[builtins.slice], shape: Sizes) -> dict[str, Sizes]:
    """The attributes of a StridedSlice for a Python slice of each dimension."""
    bounds = [slice_bounds(s, n) for s, n in zip(slices, shape, strict=True)]
    begin, end, strides = zip(*bounds, strict=True) if bounds else ((), (), ())
    return {"begin": begin, "end": end, "strides": strides}


def as_slices(attrs: dict) -> tuple[builtins.slice, ...]:
    """The Python slices of such attributes."""
    bounds = zip(attrs["begin"], attrs["end"], attrs["strides"], strict=True)
    return tuple(builtins.slice(b, None if e < 0 else e, s) for b, e, s in bounds)


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
        return sliced(x, [builtins.slice(*bounds) for bounds in zip(*ranges, strict=True)])

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        bounds = zip(*(self.attrs[n] for n in ("begin", "end", "strides")), strict=True)
        return AbstractTensor(x.dtype, tuple(slice_size(*b) for b in bounds))

    def eval(self, x: np.ndarray) -> Any:
        return np.array(x[as_slices(self.attrs)], order="C")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (apply(StridedSliceGrad.bound(shape=inputs[0].shape, **self.attrs), dout),)


def sliced(x: Any, slices: list[builtins.slice]) -> Any:
    """``x[slices]`` for Python slices of the first dimensions, as one StridedSlice."""
    whole = [builtins.slice(None)] * (len(x.shape) - len(slices))
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
        return (slice(dout, begin, inputs[0].shape),)


# ----------------------------------------------------------------------------------- functions


def sum_to(x: Any, shape: Sizes) -> Any:
    """`x` summed down to `shape`, from which it was broadcast: the one place that undoes it."""
    if same_shape(x.shape, shape):
        return x
    new = len(x.shape) - len(shape)
    ones = [i + new for i, n in enumerate(shape) if same(n, 1)]
    axes = (*builtins.range(new), *(a for a in ones if not same(x.shape[a], 1)))
    return reshape(ops.reduce_sum(x, axes) if axes else x, shape)


def reshape(input: Any, shape: Any) -> Any:
    """The same elements in `shape`, where one size may be -1: what is left.

    ValueError if the number of elements differs.  MindSpore: ``ops.reshape``, ``ops.Reshape``.
    """
    return Reshape()(input, shape)


def transpose(input: Any, dims: Any) -> Any:
    """Dimensions in the order `dims`, a permutation.

    ValueError if it is none.  MindSpore: ``ops.transpose``, ``ops.Transpose``.
    """
    return Transpose()(input, dims)


def permute(input: Any, axis: Any) -> Any:
    """Dimensions in the order `axis`, as ``transpose``.  MindSpore: ``ops.permute``."""
    return Transpose()(input, axis)


def swapaxes(input: Any, axis0: Any, axis1: Any) -> Any:
    """Two dimensions exchanged.  ValueError if out of range.  MindSpore: ``ops.swapaxes``."""
    ndim = len(check_tensor("swapaxes", input).shape)
    a, b = one_axis("swapaxes", axis0, ndim), one_axis("swapaxes", axis1, ndim)
    perm = list(range(ndim))
    perm[a], perm[b] = b, a
    return transpose(input, tuple(perm))


swapdims = swapaxes


def movedim(x: Any, source: Any, destination: Any) -> Any:
    """Dimensions `source` moved to positions `destination` (ints or tuples); others keep order.

    ValueError if one is out of range.  MindSpore: ``ops.movedim``.
    """
    ndim = len(check_tensor("movedim", x).shape)
    olds = [one_axis("movedim", a, ndim) for a in as_ints("source", source)]
    news = [one_axis("movedim", a, ndim) for a in as_ints("destination", destination)]
    if len(set(olds)) != len(olds) or len(set(news)) != len(news) or len(olds) != len(news):
        raise ValueError(f"movedim: {source} and {destination} must be as many different axes")
    perm = [a for a in range(ndim) if a not in olds]
    for new, old in sorted(zip(news, olds, strict=True)):
        perm.insert(new, old)
    return transpose(x, tuple(perm))


def expand_dims(input_x: Any, axis: Any) -> Any:
    """A new dimension of size 1 before dimension `axis` (-1: at the end).

    ValueError if it is out of range.  MindSpore: ``ops.expand_dims``, ``ops.ExpandDims``.
    """
    return ExpandDims()(input_x, axis)


def unsqueeze(input: Any, dim: Any) -> Any:
    """The same as ``expand_dims``.  MindSpore: ``ops.unsqueeze``."""
    return ExpandDims()(input, dim)


def squeeze(input: Any, axis: Any = None) -> Any:
    """Without the dimensions `axis` (an int or a tuple), or, by default, without all of size 1.

    ValueError if one has another size.  MindSpore: ``ops.squeeze``, ``ops.Squeeze``.
    """
    return Squeeze(axis)(input)


def flatten(input: Any, order: str = "C", *, start_dim: int = 1, end_dim: int = -1) -> Any:
    """Dimensions `start_dim` to `end_dim` as one; `order` "F" reverses all dimensions first.

    ValueError for an axis out of range or another order.  MindSpore: ``ops.flatten``.
    """
    x = check_tensor("flatten", input)
    choice("order", order, ("C", "F"))
    if len(x.shape) < 2:
        return reshape(x, (-1,))
    if order == "F":
        x = transpose(x, tuple(reversed(range(len(x.shape)))))
    first, last = (one_axis("flatten", d, len(x.shape)) for d in (start_dim, end_dim))
    if first > last:
        raise ValueError(f"flatten: start_dim {start_dim} is after end_dim {end_dim}")
    middle = math.prod(x.shape[first : last + 1])
    return reshape(x, (*x.shape[:first], middle, *x.shape[last + 1 :]))


def broadcast_to(input: Any, shape: Any) -> Any:
    """Repeated to `shape` by NumPy's rules; a size of -1 keeps the operand's.

    ValueError if it does not fit.  MindSpore: ``ops.broadcast_to``, ``ops.BroadcastTo``.
    """
    return BroadcastTo(shape)(input)


def tile(input: Any, dims: Any) -> Any:
    """Copies side by side: `dims` says how many for each dimension, from the right.

    MindSpore: ``ops.tile``, ``ops.Tile``.
    """
    return Tile()(input, dims)


def repeat_interleave(input: Any, repeats: Any, axis: Any = None) -> Any:
    """Each element along `axis` (None: of the flattened Tensor) repeated.

    `repeats` is an int, or a tuple or list of one int for each element.  ValueError if one is
    negative, or if there are too few.  MindSpore: ``ops.repeat_interleave``.
    """
    x = check_tensor("repeat_interleave", input)
    counts = as_ints("a number of repeats", repeats)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = one_axis("repeat_interleave", axis, len(x.shape))
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    if len(counts) not in (1, size) or min(counts, default=0) < 0:
        raise ValueError(
            f"repeat_interleave: repeats must be {size} numbers of 0 or more, or one, not {repeats}"
        )
    if len(counts) != 1:
        return ops.gather(x, ops.constant(np.repeat(np.arange(operator.index(size)), counts)), axis)
    repeated = broadcast_to(expand_dims(x, axis + 1), (*before, size, counts[0], *after))
    return reshape(repeated, (*before, size * counts[0], *after))


def flip(input: Any, dims: Any) -> Any:
    """The order of elements reversed along `dims`, an int or a tuple.

    ValueError for an axis out of range or given twice.  MindSpore: ``ops.flip``, ``ops.ReverseV2``.
    """
    return ReverseV2(dims)(input)


def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Elements moved on by `shifts` along `dims`, those that fall off coming in at the front.

    Without `dims` the flattened Tensor is rolled.  MindSpore: ``ops.roll``.
    """
    x = check_tensor("roll", input)
    if dims is None:
        return reshape(roll(reshape(x, (-1,)), shifts, 0), x.shape)
    steps, axes = as_ints("shifts", shifts), as_ints("dims", dims)
    if len(steps) != len(axes):
        raise ValueError(f"roll: {shifts} and {dims} must have one length")
    for step, a in zip(steps, axes, strict=True):
        axis = one_axis("roll", a, len(x.shape))
        cut = -step % x.shape[axis] if x.shape[axis] else 0
        if cut:
            head, tail = split(x, (cut, x.shape[axis] - cut), axis)
            x = concat((tail, head), axis)
    return x


def concat(tensors: Any, axis: int = 0) -> Any:
    """Tensors one after the other along `axis`; they take their common type.

    TypeError unless it is a tuple or list of Tensors; ValueError if other sizes differ.
    MindSpore: ``ops.concat``, ``ops.Concat``.
    """
    return Concat(axis)(tensors)


def cat(tensors: Any, axis: int = 0) -> Any:
    """The same as ``concat``.  MindSpore: ``ops.cat``."""
    return Concat(axis)(tensors)


def stack(tensors: Any, axis: int = 0) -> Any:
    """Tensors of one shape along a new dimension `axis`; they take their common type.

    TypeError unless it is a tuple or list of Tensors; ValueError if shapes differ.
    MindSpore: ``ops.stack``, ``ops.Stack``.
    """
    return Stack(axis)(tensors)


def unstack(input_x: Any, axis: int = 0) -> tuple:
    """The slices along `axis`, without that dimension: the undoing of ``stack``.

    ValueError for an axis out of range.  MindSpore: ``ops.unstack``.
    """
    x = check_tensor("unstack", input_x)
    axis = one_axis("unstack", axis, len(x.shape))
    if not x.shape[axis]:
        return ()
    pieces = apply(Split.bound(axis=axis, sizes=(1,) * x.shape[axis]), x)
    return tuple(squeeze(p, axis) for p in pieces)


def unbind(input: Any, dim: int = 0) -> tuple:
    """The same as ``unstack``.  MindSpore: ``ops.unbind``."""
    return unstack(input, dim)


def split(tensor: Any, split_size_or_sections: Any, axis: int = 0) -> tuple:
    """Consecutive pieces along `axis`: of one size (the last may be smaller), or of listed sizes.

    ValueError if listed sizes do not add up.  MindSpore: ``ops.split``, ``ops.Split``.
    """
    x = check_tensor("split", tensor)
    axis = one_axis("split", axis, len(x.shape))
    total = x.shape[axis]
    sizes = as_ints("a size", split_size_or_sections)
    if not isinstance(split_size_or_sections, (tuple, list)):
        if sizes[0] < 1:
            raise ValueError(f"split: the size of pieces must be positive, not {sizes[0]}")
        whole, rest = divmod(total, sizes[0])
        sizes = (sizes[0],) * whole + ((rest,) if rest or not whole else ())
    if sum(sizes) != total or any(n < 0 for n in sizes):
        raise ValueError(f"split: sizes {sizes} must add up to {total}, axis {axis} of {x.shape}")
    return apply(Split.bound(axis=axis, sizes=sizes), x)


def chunk(input: Any, chunks: int, axis: int = 0) -> tuple:
    """At most `chunks` pieces of one size (the last may be smaller) along `axis`.

    ValueError unless `chunks` is positive.  MindSpore: ``ops.chunk``.
    """
    x = check_tensor("chunk", input)
    n = as_int("chunks", chunks)
    if n < 1:
        raise ValueError(f"chunk: the number of pieces must be positive, not {n}")
    size = -(-x.shape[one_axis("chunk", axis, len(x.shape))] // n)
    return split(x, size or 1, axis)


def strided_slice(input_x: Any, begin: Any, end: Any, strides: Any) -> Any:
    """``input_x[begin:end:stride]`` in each of the first dimensions, by Python's rules of slices.

    ValueError for a stride of 0, or lengths that differ.
    MindSpore: ``ops.strided_slice``, ``ops.StridedSlice``.
    """
    return StridedSlice()(input_x, begin, end, strides)


def slice(input_x: Any, begin: Any, size: Any) -> Any:
    """The block of shape `size` that starts at `begin`; a size of -1 takes all that is left.

    ValueError if it does not lie inside.  MindSpore: ``ops.slice``.
    """
    x = check_tensor("slice", input_x)
    starts, sizes = as_ints("begin", begin), as_ints("size", size)
    if len(starts) != len(x.shape) or len(sizes) != len(x.shape):
        raise ValueError(f"slice of shape {x.shape}: begin and size need {len(x.shape)} items")
    ends = tuple(n if k == -1 else b + k for b, k, n in zip(starts, sizes, x.shape, strict=True))
    if any(not 0 <= b <= e <= n for b, e, n in zip(starts, ends, x.shape, strict=True)):
        raise ValueError(f"slice: begin {starts} and size {sizes} leave shape {x.shape}")
    return strided_slice(x, starts, ends, (1,) * len(starts))


def narrow(input: Any, axis: int, start: int, length: int) -> Any:
    """`length` elements along `axis`, from `start` on.

    ValueError if they are not inside.  MindSpore: ``ops.narrow``.
    """
    x = check_tensor("narrow", input)
    axis = one_axis("narrow", axis, len(x.shape))
    begin, size = [0] * len(x.shape), list(x.shape)
    begin[axis], size[axis] = start, length
    return slice(x, begin, size)


def pad(input_x: Any, padding: Any, mode: str = "constant", value: Any = None) -> Any:
    """Elements added around: `padding` is (before, after) of the last dimension, then of others.

    `mode` "constant" fills with `value` (0); "reflect" mirrors without the border, "replicate"
    repeats the border, "circular" goes round.  A negative constant padding removes elements.
    ValueError if padding does not fit.  MindSpore: ``ops.pad``.
    """
    x = check_tensor("pad", input_x)
    choice("mode", mode, ("constant", "reflect", "replicate", "circular"))
    sizes = as_ints("a padding", padding)
    if len(sizes) % 2 or len(sizes) > 2 * len(x.shape):
        raise ValueError(f"pad: {sizes} must be pairs, at most one for each dimension of {x.shape}")
    given = [(sizes[i], sizes[i + 1]) for i in range(0, len(sizes), 2)]
    pairs = [(0, 0)] * (len(x.shape) - len(given)) + given[::-1]
    if mode != "constant":
        return _pad_from_inside(x, pairs, mode)
    for axis, (before, after) in enumerate(pairs):
        if min(before, after) < 0:
            cut = min(before, 0), min(after, 0)
            x = narrow(x, axis, -cut[0], x.shape[axis] + cut[0] + cut[1])
    kept = tuple((max(before, 0), max(after, 0)) for before, after in pairs)
    return apply(Pad.bound(paddings=kept, value=0 if value is None else value), x)


_PAD_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad_from_inside(x: Any, pairs: list[tuple[int, int]], mode: str) -> Any:
    """Each dimension gathered at the positions that NumPy's padding of 0..n-1 gives."""
    for axis, pair in enumerate(pairs):
        n = x.shape[axis]
        limit = n - 1 if mode == "reflect" else n
        if min(pair) < 0 or (mode != "replicate" and max(pair) > limit) or (n == 0 and any(pair)):
            raise ValueError(f"pad: {mode} of {pair} does not fit axis {axis} of shape {x.shape}")
        if any(pair):
            index = np.pad(np.arange(operator.index(n)), pair, mode=_PAD_MODES[mode])  # type: ignore[call-overload]
            x = ops.gather(x, ops.constant(index), axis)
    return x


def shape(input_x: Any) -> Sizes:
    """The shape, a tuple of ints.  MindSpore: ``ops.shape``, ``ops.Shape``."""
    return check_tensor("shape", input_x).shape


def rank(input_x: Any) -> int:
    """The number of dimensions.  MindSpore: ``ops.rank`` (there a 0-d Tensor in graphs)."""
    return len(check_tensor("rank", input_x).shape)


def size(input_x: Any) -> int:
    """The number of elements.  MindSpore: ``ops.size``."""
    return math.prod(check_tensor("size", input_x).shape)


numel = size


class Shape(Composite):
    """The shape of a Tensor, as a tuple of ints."""

    def __call__(self, x: Any) -> Sizes:
        return shape(x)


class Rank(Composite):
    """The number of dimensions."""

    def __call__(self, x: Any) -> int:
        return rank(x)


class Size(Composite):
    """The number of elements."""

    def __call__(self, x: Any) -> int:
        return size(x)
