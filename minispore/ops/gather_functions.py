"""Functions that gather, scatter and sort, on the primitives of gather.py.

They check positions when the program runs: IndexError for one that is out of range.
"""

from __future__ import annotations

import math
from typing import Any

from minispore import ops
from minispore.dtype import bool_, int32
from minispore.ops.common import as_int, as_shape, check_tensor, one_axis, require
from minispore.ops.gather import (
    ArgSort,
    Gather,
    GatherD,
    GatherNd,
    IndexAdd,
    NonZero,
    TensorScatterAdd,
    TensorScatterElements,
    TensorScatterMax,
    TensorScatterMin,
    TensorScatterUpdate,
    Unique,
    as_index,
    check_elements,
    check_range,
    check_rows,
)
from minispore.primitive import apply


def gather(input_params: Any, input_indices: Any, axis: Any, batch_dims: int = 0) -> Any:
    """Slices of `input_params` along `axis` at the positions in `input_indices`.

    The shape is that of `input_params` with the shape of `input_indices` in place of `axis`; the
    first `batch_dims` axes of both go together.  TypeError unless positions are integers;
    ValueError for an axis out of range; IndexError when the program runs for a position out of
    range (MindSpore: RuntimeError). MindSpore: ``ops.gather``, ``ops.Gather``.
    """
    x, index = check_tensor("gather", input_params), as_index("gather", input_indices)
    axis = one_axis("gather", axis, len(x.shape))
    check_range("gather", index, x.shape[axis])
    if as_int("batch_dims", batch_dims):
        return _gather_of_batches(x, index, axis, batch_dims)
    return apply(Gather.bound(axis=axis), x, index)


def _gather_of_batches(x: Any, index: Any, axis: int, batch_dims: int) -> Any:
    """One Gather from the slices of all batches in one row; batch b starts at b times the size."""
    b = batch_dims % (len(index.shape) + 1)
    if b > axis or x.shape[:b] != index.shape[:b]:
        raise ValueError(
            f"gather: the first {batch_dims} sizes of {x.shape} and {index.shape} must be equal, "
            f"and axis {axis} not among them"
        )
    size, batches = x.shape[axis], math.prod(x.shape[:b])
    between, after = x.shape[b:axis], x.shape[axis + 1 :]
    rows = ops.reshape(ops.movedim(x, axis, b), (batches * size, *between, *after))
    starts = ops.reshape(ops.arange(batches) * size, (*x.shape[:b], *(1,) * (len(index.shape) - b)))
    inside = ops.select(ops.less(index, 0), index + size, index)
    taken = apply(Gather.bound(axis=0), rows, starts + inside)
    # of shape (batches, positions, between, after): `between` belongs before the positions
    places = tuple(range(len(index.shape), len(index.shape) + len(between)))
    return ops.movedim(taken, places, tuple(range(b, b + len(between))))


def index_select(input: Any, axis: Any, index: Any) -> Any:
    """Slices along `axis` at the positions in the 1-D Tensor `index`; errors as in ``gather``.

    MindSpore: ``ops.index_select``.
    """
    if len(check_tensor("index_select", index).shape) > 1:
        raise ValueError(f"index_select: positions must be 1-D, not of shape {index.shape}")
    return gather(input, ops.reshape(index, (-1,)), axis)


def index_add(
    x: Any, indices: Any, y: Any, axis: Any, use_lock: bool = True, check_index_bound: bool = True
) -> Any:
    """`x` plus the slices of `y` along `axis`, added at the positions in the 1-D `indices`.

    ValueError unless `y` has the shape of `x` but for `axis`; IndexError for a position out of
    range, whatever `check_index_bound` says (`use_lock` changes nothing either).  MindSpore:
    ``ops.index_add``, ``ops.IndexAdd``.
    """
    x, index = check_tensor("index_add", x), as_index("index_add", indices)
    axis = one_axis("index_add", axis, len(x.shape))
    expected = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    if len(index.shape) != 1 or check_tensor("index_add", y).shape != expected:
        raise ValueError(
            f"index_add into shape {x.shape} along axis {axis} at positions of shape "
            f"{index.shape} needs slices of shape {expected}, not {y.shape}"
        )
    check_range("index_add", index, x.shape[axis])
    return apply(IndexAdd(axis), x, index, ops.cast(y, x.dtype))


def gather_elements(input: Any, dim: Any, index: Any) -> Any:
    """Elements of `input`: ``out[i, j] = input[i, index[i, j]]`` for `dim` 1, and so on.

    `index` has as many dimensions as `input` and no larger sizes but along `dim` (ValueError).
    IndexError when the program runs for a position out of range.  MindSpore:
    ``ops.gather_elements``, ``ops.GatherD``.
    """
    x, index = check_tensor("gather_elements", input), as_index("gather_elements", index)
    axis = one_axis("gather_elements", dim, len(x.shape))
    check_elements("gather_elements", x.shape, index.shape, axis)
    check_range("gather_elements", index, x.shape[axis])
    return apply(GatherD.bound(axis=axis), x, index)


def gather_d(x: Any, dim: Any, index: Any) -> Any:
    """The same as ``gather_elements``.  MindSpore: ``ops.gather_d``."""
    return gather_elements(x, dim, index)


def gather_nd(input_x: Any, indices: Any) -> Any:
    """Slices of `input_x` at positions: each row of the last axis of `indices` names one.

    Shapes ``(n0, .., nk, rest)`` and ``(batch, k + 1)`` give ``(batch, rest)``.  ValueError for
    more positions than axes; IndexError when the program runs for one out of range. MindSpore:
    ``ops.gather_nd``, ``ops.GatherNd``.
    """
    x, index = check_tensor("gather_nd", input_x), as_index("gather_nd", indices)
    check_rows("gather_nd", x.shape, index.shape)
    for a, column in enumerate(ops.unstack(index, -1)):
        check_range("gather_nd", column, x.shape[a])
    return apply(GatherNd(), x, index)


def tensor_scatter_elements(
    input_x: Any, indices: Any, updates: Any, axis: int = 0, reduction: str = "none"
) -> Any:
    """`input_x` with the elements of `updates` written (or, "add", added) along `axis`.

    `indices` and `updates` have one shape, as in ``gather_elements`` (ValueError).  IndexError when
    the program runs for a position out of range.  MindSpore: ``ops.tensor_scatter_elements``.
    """
    name = "tensor_scatter_elements"
    x, index, y = check_tensor(name, input_x), as_index(name, indices), check_tensor(name, updates)
    axis = one_axis(name, axis, len(x.shape))
    scatter = TensorScatterElements(axis, reduction)
    check_elements(name, x.shape, index.shape, axis)
    check_range(name, index, x.shape[axis])
    return apply(scatter, x, index, ops.cast(y, x.dtype))


def tensor_scatter_add(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` plus `updates` at the positions in `indices` (rows as in ``gather_nd``).

    Equal positions add up.  ValueError if shapes do not fit; IndexError when the program runs for a
    position out of range.  MindSpore: ``ops.tensor_scatter_add``, ``ops.TensorScatterAdd``.
    """
    return TensorScatterAdd()(input_x, indices, updates)


def tensor_scatter_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` with `updates` in place of the slices at `indices` (rows as in ``gather_nd``).

    Of equal positions the last wins.  Errors as in ``tensor_scatter_add``.
    MindSpore: ``ops.tensor_scatter_update``, ``ops.TensorScatterUpdate``.
    """
    return TensorScatterUpdate()(input_x, indices, updates)


def tensor_scatter_max(input_x: Any, indices: Any, updates: Any) -> Any:
    """The larger of `input_x` and all `updates` at the positions in `indices`, element by element.

    Errors as in ``tensor_scatter_add``.
    MindSpore: ``ops.tensor_scatter_max``, ``ops.TensorScatterMax``.
    """
    return TensorScatterMax()(input_x, indices, updates)


def tensor_scatter_min(input_x: Any, indices: Any, updates: Any) -> Any:
    """The smaller of `input_x` and all `updates` at the positions in `indices`.

    As ``tensor_scatter_max``.  MindSpore: ``ops.tensor_scatter_min``, ``ops.TensorScatterMin``.
    """
    return TensorScatterMin()(input_x, indices, updates)


def scatter_nd(indices: Any, updates: Any, shape: Any) -> Any:
    """`updates` added into zeros of `shape` at `indices`, as ``tensor_scatter_add``.

    MindSpore: ``ops.scatter_nd``, ``ops.ScatterNd``.
    """
    zeros = ops.zeros(as_shape("scatter_nd", shape), check_tensor("scatter_nd", updates).dtype)
    return tensor_scatter_add(zeros, indices, updates)


def unsorted_segment_sum(input_x: Any, segment_ids: Any, num_segments: int) -> Any:
    """Sums of the slices of `input_x` of equal `segment_ids`; shape ``(num_segments, ...)``.

    The ids have the first sizes of `input_x` (ValueError); slices of negative ids are left out.
    IndexError when the program runs for an id of `num_segments` or more.
    MindSpore: ``ops.unsorted_segment_sum``.
    """
    name = "unsorted_segment_sum"
    x, ids = check_tensor(name, input_x), as_index(name, segment_ids)
    n = as_int("num_segments", num_segments)
    if ids.shape != x.shape[: len(ids.shape)] or not ids.shape:
        raise ValueError(f"{name}: ids of shape {ids.shape} do not lead shape {x.shape}")
    require(ops.all(ops.less(ids, n)), IndexError, f"{name}: an id must be less than {n}")
    rest = x.shape[len(ids.shape) :]
    flat = ops.reshape(ids, (-1,))
    rows = ops.reshape(x, (flat.shape[0], *rest))
    # one more segment takes what is left out
    places = ops.select(ops.less(flat, 0), n, flat)
    sums = apply(IndexAdd(0), ops.zeros((n + 1, *rest), x.dtype), places, rows)
    return ops.narrow(sums, 0, 0, n)


def masked_fill(input_x: Any, mask: Any, value: Any) -> Any:
    """`input_x` with `value` (a number or 0-d Tensor) where `mask` is true; both broadcast.

    The result has the dtype of `input_x`.  MindSpore: ``ops.masked_fill``.
    """
    x = check_tensor("masked_fill", input_x)
    return ops.select(check_tensor("masked_fill", mask), ops.full((), value, dtype=x.dtype), x)


def masked_select(input: Any, mask: Any) -> Any:
    """The elements of `input` where `mask` is true, as a 1-D Tensor; both broadcast.

    In a graph its size is known when the graph runs.  MindSpore: ``ops.masked_select``.
    """
    x, mask = check_tensor("masked_select", input), check_tensor("masked_select", mask)
    both = ops.logical_or(mask, ops.zeros(x.shape, bool_))
    places = ops.reshape(nonzero(ops.reshape(both, (-1,))), (-1,))
    return gather(ops.reshape(ops.broadcast_to(x, both.shape), (-1,)), places, 0)


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The Int64 positions of elements that are not zero, of shape ``(count, ndim)``.

    With `as_tuple` one Tensor for each dimension.  In a graph their size is known when the graph
    runs.  MindSpore: ``ops.nonzero``, ``ops.NonZero``.
    """
    positions = apply(NonZero(), check_tensor("nonzero", input))
    return ops.unstack(positions, 1) if as_tuple else positions


def argwhere(input: Any) -> Any:
    """The same as ``nonzero``.  MindSpore: ``ops.argwhere``."""
    return nonzero(input)


def unique(input: Any) -> tuple:
    """(different elements in order of appearance, the Int64 position of each element among them).

    In a graph the number of elements is known when the graph runs.  MindSpore: ``ops.unique``.
    """
    return apply(Unique(), check_tensor("unique", input))


def argsort(input: Any, axis: int = -1, descending: bool = False) -> Any:
    """The Int32 positions that sort along `axis`; equal elements keep their order.

    ValueError for an axis out of range.  MindSpore: ``ops.argsort``.
    """
    x = check_tensor("argsort", input)
    if not x.shape:
        return ops.zeros((), int32)
    axis = one_axis("argsort", axis, len(x.shape))
    return apply(ArgSort.bound(axis=axis, descending=bool(descending)), x)


def sort(input_x: Any, axis: int = -1, descending: bool = False) -> tuple:
    """(elements in order along `axis`, their Int32 positions); nan counts as the largest.

    ValueError for an axis out of range.  MindSpore: ``ops.sort``, ``ops.Sort``.
    """
    x = check_tensor("sort", input_x)
    if not x.shape:
        return ops.identity(x), argsort(x)
    axis = one_axis("sort", axis, len(x.shape))
    places = argsort(x, axis, descending)
    return apply(GatherD.bound(axis=axis), x, places), places


def topk(
    input: Any, k: int, dim: int | None = None, largest: bool = True, sorted: bool = True
) -> tuple:
    """(the `k` largest, or smallest, elements along `dim` (-1), their Int32 positions), in order.

    They are in order whatever `sorted` says.  ValueError for `k` out of range.
    MindSpore: ``ops.topk``, ``ops.TopK``.
    """
    x = check_tensor("topk", input)
    axis = one_axis("topk", -1 if dim is None else dim, len(x.shape))
    count = as_int("k", k)
    if not 0 <= count <= x.shape[axis]:
        raise ValueError(f"topk: k must be in [0, {x.shape[axis]}], not {count}")
    places = ops.narrow(argsort(x, axis, largest), axis, 0, count)
    return apply(GatherD.bound(axis=axis), x, places), places


def one_hot(indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0, axis: int = -1) -> Any:
    """A new `axis` of size `depth`: `on_value` at the position in `indices`, else `off_value`.

    Positions outside [0, depth) give `off_value` everywhere.  The dtype is that of the values:
    Int64 for ints.  TypeError unless positions are integers.  MindSpore: ``ops.one_hot``,
    ``ops.OneHot``.
    """
    index = as_index("one_hot", indices)
    n = as_int("depth", depth)
    place = one_axis("one_hot", axis, len(index.shape) + 1)
    line = (n, *(1,) * (len(index.shape) - place))
    positions = ops.reshape(ops.arange(n), line)
    return ops.select(ops.equal(ops.expand_dims(index, place), positions), on_value, off_value)
