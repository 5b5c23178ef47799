"""Functions that move elements without computing, on the primitives of shape.py.

They take what a program gives (-1 in shapes, negative axes, ints or tuples) and resolve it.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import Shape as Sizes
from minispore.dims import same, same_shape
from minispore.ops.common import as_int, as_ints, check_tensor, choice, one_axis
from minispore.ops.shape import (
    BroadcastTo,
    Concat,
    ExpandDims,
    Pad,
    Reshape,
    ReverseV2,
    Split,
    Squeeze,
    Stack,
    StridedSlice,
    Tile,
    Transpose,
)
from minispore.primitive import apply


def sum_to(x: Any, shape: Sizes) -> Any:
    """`x` summed down to `shape`, from which it was broadcast: the one place that undoes it."""
    if same_shape(x.shape, shape):
        return x
    new = len(x.shape) - len(shape)
    ones = [i + new for i, n in enumerate(shape) if same(n, 1)]
    axes = (*range(new), *(a for a in ones if not same(x.shape[a], 1)))
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
