"""Elements at computed positions: gather, scatter, sort; ops whose result size depends on values.

Positions count from the front, negative ones from the end.  The primitives take positions modulo
the size, so that they cannot fail; the functions check before (``require``) and raise IndexError
when the program runs.

Gradients come in pairs: what gathers scatters back, and the other way round:

    Gather - IndexAdd        GatherD - TensorScatterElements        GatherNd - TensorScatterAdd
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor, AbstractTuple, Shape
from minispore.dtype import bool_, int32, int64
from minispore.ops.common import (
    Composite,
    as_int,
    as_shape,
    check_tensor,
    choice,
    one_axis,
    require,
    widened,
    words,
)
from minispore.primitive import Primitive, apply

# ---------------------------------------------------------------------------------- positions


def as_index(name: str, index: Any) -> Any:
    """An integer Tensor as Int32 or Int64; TypeError for anything else."""
    dtype = check_tensor(name, index).dtype
    if not dtype.is_integer:
        raise TypeError(f"{name}: positions must be integers, not {dtype}")
    return index if dtype in (int32, int64) else ops.cast(index, int64)


def check_range(name: str, index: Any, size: int) -> None:
    """Raise IndexError, when the program runs, unless all positions are in [-size, size)."""
    message = words(f"{name}: a position is out of range; it must be in [", -size, ", ", size, ")")
    require(apply(ops.IndexInRange.bound(size=size), index), IndexError, message)


def add_rows(out: np.ndarray, index: np.ndarray, rows: np.ndarray) -> None:
    """``out[index] += rows`` along the first axis, adding up rows of equal index."""
    if rows.ndim == 1:
        np.add.at(out, index, rows)
    elif index.size:  # sorted runs of equal indices are summed as blocks
        order = np.argsort(index, kind="stable")
        found, starts = np.unique(index[order], return_index=True)
        out[found] += np.add.reduceat(rows[order], starts, axis=0)


class Gather(Primitive):
    """Slices of the first operand along attribute `axis`, at the positions in the second."""

    def __init__(self, batch_dims: int = 0):
        super().__init__(batch_dims=as_int("batch_dims", batch_dims))

    def __call__(self, input_params: Any, input_indices: Any, axis: Any) -> Any:
        return gather(input_params, input_indices, axis, self.attrs["batch_dims"])

    def infer(self, x: AbstractTensor, index: AbstractTensor) -> AbstractTensor:
        axis = self.attrs["axis"]
        return AbstractTensor(x.dtype, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))

    def eval(self, x: np.ndarray, index: np.ndarray) -> Any:
        if not index.size:
            return np.take(x, index, self.attrs["axis"])
        return np.take(x, index, self.attrs["axis"], mode="wrap")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        x, index = inputs
        axis = self.attrs["axis"]
        flat = ops.reshape(index, (-1,))
        rows = ops.reshape(dout, (*x.shape[:axis], flat.shape[0], *x.shape[axis + 1 :]))
        return apply(IndexAdd(axis), ops.zeros_like(x), flat, rows), None


class IndexAdd(Primitive):
    """The first operand plus slices of the third along `axis`, at positions in the second (1-D)."""

    def __init__(self, axis: int):
        super().__init__(axis=as_int("axis", axis))

    def __call__(self, x: Any, indices: Any, y: Any) -> Any:
        return index_add(x, indices, y, self.attrs["axis"])

    def infer(self, x: AbstractTensor, index: AbstractTensor, y: AbstractTensor) -> AbstractTensor:
        return x

    def eval(self, x: np.ndarray, index: np.ndarray, y: np.ndarray) -> Any:
        axis = self.attrs["axis"]
        out = np.array(widened(x), order="C")
        if index.size:
            add_rows(
                np.moveaxis(out, axis, 0), index % x.shape[axis], np.moveaxis(widened(y), axis, 0)
            )
        return out

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        rows = apply(Gather.bound(axis=self.attrs["axis"]), dout, inputs[1])
        return dout, None, rows


def _element_positions(shape: Shape, index: np.ndarray, axis: int) -> np.ndarray:
    """The flat position in `shape` of the element that each index along `axis` means."""
    grid: list = list(np.indices(index.shape, sparse=True))
    grid[axis] = index % (shape[axis] or 1)
    strides = [math.prod(shape[a + 1 :]) for a in range(len(shape))]
    return sum(g * s for g, s in zip(grid, strides, strict=True)).astype(np.int64).reshape(-1)


class GatherD(Primitive):
    """Elements of the first operand: along attribute `axis` at the position in the second."""

    def __call__(self, x: Any, dim: Any, index: Any) -> Any:
        return gather_elements(x, dim, index)

    def infer(self, x: AbstractTensor, index: AbstractTensor) -> AbstractTensor:
        _check_elements("gather_elements", x.shape, index.shape, self.attrs["axis"])
        return AbstractTensor(x.dtype, index.shape)

    def eval(self, x: np.ndarray, index: np.ndarray) -> Any:
        if not index.size:
            return np.zeros(index.shape, x.dtype)
        flat = _element_positions(x.shape, index, self.attrs["axis"])
        return x.reshape(-1)[flat].reshape(index.shape)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        x, index = inputs
        add = TensorScatterElements(self.attrs["axis"], "add")
        return apply(add, ops.zeros_like(x), index, dout), None


def _check_elements(name: str, shape: Shape, index: Shape, axis: int) -> None:
    """ValueError unless `index` has the rank of `shape` and, off `axis`, no larger sizes."""
    fits = len(shape) == len(index)
    if not fits or any(
        n > m for a, (n, m) in enumerate(zip(index, shape, strict=True)) if a != axis
    ):
        raise ValueError(
            f"{name}: positions of shape {index} do not fit shape {shape}: as many dimensions, "
            f"and none larger except axis {axis}"
        )


class TensorScatterElements(Primitive):
    """The first operand with elements of the third written (or added) along `axis`.

    The second operand holds the positions, as in GatherD.  `reduction` is "none" or "add".
    """

    def __init__(self, axis: int = 0, reduction: str = "none"):
        choice("reduction", reduction, ("none", "add"))
        super().__init__(axis=as_int("axis", axis), reduction=reduction)

    def __call__(self, x: Any, indices: Any, updates: Any) -> Any:
        return tensor_scatter_elements(x, indices, updates, **self.attrs)

    def infer(self, x: AbstractTensor, index: AbstractTensor, y: AbstractTensor) -> AbstractTensor:
        _check_elements("tensor_scatter_elements", x.shape, index.shape, self.attrs["axis"])
        if y.shape != index.shape:
            raise ValueError(
                f"tensor_scatter_elements: updates of shape {y.shape} need as many positions, "
                f"not {index.shape}"
            )
        return x

    def eval(self, x: np.ndarray, index: np.ndarray, y: np.ndarray) -> Any:
        flat = _element_positions(x.shape, index, self.attrs["axis"])
        return scattered(x, flat, y.reshape(-1), self.attrs["reduction"])

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        x, index, y = inputs
        kept = dout
        if self.attrs["reduction"] == "none":
            kept = apply(self, dout, index, ops.zeros_like(y))
        return kept, None, apply(GatherD.bound(axis=self.attrs["axis"]), dout, index)


_EXTREMES = {"max": np.maximum, "min": np.minimum}


def scattered(x: np.ndarray, index: np.ndarray, y: np.ndarray, reduction: str) -> np.ndarray:
    """`x` with rows of `y` put at, or added to, flat positions along its leading elements.

    `index` counts rows of ``x.reshape(-1, *row)``, where a row has the shape of ``y[0]``.
    """
    out = np.array(widened(x) if reduction == "add" else x, order="C")
    if index.size:
        rows = out.reshape((-1, *y.shape[1:]))
        if reduction == "add":
            add_rows(rows, index, widened(y))
        elif reduction in _EXTREMES:
            _EXTREMES[reduction].at(rows, index, y)
        else:
            rows[index] = y
    return out


def _row_positions(shape: Shape, index: np.ndarray) -> np.ndarray:
    """The flat position of the slice of `shape` that each row of the last axis of `index` means."""
    depth = index.shape[-1]
    flat = np.zeros(index.shape[:-1], np.int64)
    for a in range(depth):
        flat = flat * shape[a] + index[..., a] % (shape[a] or 1)
    return flat.reshape(-1)


class GatherNd(Primitive):
    """Slices of the first operand: each row of the second's last axis is a position."""

    def __call__(self, input_x: Any, indices: Any) -> Any:
        return gather_nd(input_x, indices)

    def infer(self, x: AbstractTensor, index: AbstractTensor) -> AbstractTensor:
        _check_rows("gather_nd", x.shape, index.shape)
        return AbstractTensor(x.dtype, (*index.shape[:-1], *x.shape[index.shape[-1] :]))

    def eval(self, x: np.ndarray, index: np.ndarray) -> Any:
        row = x.shape[index.shape[-1] :]
        if not index.size and 0 in index.shape[:-1]:
            return np.zeros((*index.shape[:-1], *row), x.dtype)
        rows = x.reshape((-1, *row)) if x.size else np.zeros((1, *row), x.dtype)
        return rows[_row_positions(x.shape, index)].reshape((*index.shape[:-1], *row))

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        x, index = inputs
        return apply(TensorScatterAdd(), ops.zeros_like(x), index, dout), None


def _check_rows(name: str, shape: Shape, index: Shape) -> None:
    if not index or index[-1] > len(shape):
        raise ValueError(
            f"{name}: positions of shape {index} do not fit shape {shape}: the last size is the "
            f"number of axes they name, at most {len(shape)}"
        )


class _TensorScatter(Primitive, register=False):
    """Slices of the third operand put into the first at the positions of the second."""

    reduction: str

    def __call__(self, input_x: Any, indices: Any, updates: Any) -> Any:
        x, y = check_tensor(self.name, input_x), check_tensor(self.name, updates)
        index = as_index(self.name, indices)
        _check_rows(self.name, x.shape, index.shape)
        for a, column in enumerate(ops.unstack(index, -1)):
            check_range(self.name, column, x.shape[a])
        return apply(self, x, index, ops.cast(y, x.dtype))

    def infer(self, x: AbstractTensor, index: AbstractTensor, y: AbstractTensor) -> AbstractTensor:
        expected = (*index.shape[:-1], *x.shape[index.shape[-1] :])
        if y.shape != expected:
            raise ValueError(
                f"{self.name} into shape {x.shape} at positions of shape {index.shape} needs "
                f"updates of shape {expected}, not {y.shape}"
            )
        return x

    def eval(self, x: np.ndarray, index: np.ndarray, y: np.ndarray) -> Any:
        rows = y.reshape((-1, *x.shape[index.shape[-1] :])) if y.size else y[:0]
        flat = _row_positions(x.shape, index) if y.size else np.zeros(0, np.int64)
        return scattered(x, flat, rows, self.reduction)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        x, index, y = inputs
        kept = dout if self.reduction == "add" else apply(self, dout, index, ops.zeros_like(y))
        return kept, None, apply(GatherNd(), dout, index)


class TensorScatterAdd(_TensorScatter):
    """Slices added at positions; those of equal position add up."""

    reduction = "add"


class TensorScatterUpdate(_TensorScatter):
    """Slices written at positions; of equal positions the last wins.

    The gradient of `updates` is right only where positions differ.
    """

    reduction = "none"


class TensorScatterMax(_TensorScatter):
    """Slices at positions, where they are larger; the gradient goes to equal winners in parts."""

    reduction = "max"

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        x, index, y = inputs
        kept = ops.cast(ops.equal(x, out), dout.dtype)
        put = ops.cast(ops.equal(y, apply(GatherNd(), out, index)), dout.dtype)
        share = dout / apply(TensorScatterAdd(), kept, index, put)
        return share * kept, None, apply(GatherNd(), share, index) * put


class TensorScatterMin(TensorScatterMax):
    """Slices at positions, where they are smaller; the gradient goes to equal winners in parts."""

    reduction = "min"


class ArgSort(Primitive):
    """The Int32 positions that sort along attribute `axis`; stable; nan counts as the largest."""

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        return AbstractTensor(int32, x.shape)

    def eval(self, x: np.ndarray) -> Any:
        axis, wide = self.attrs["axis"], widened(x)
        if not self.attrs["descending"]:
            return np.argsort(wide, axis, kind="stable")
        # reversed, sorted upwards and reversed again, equals keep their order
        backwards = np.argsort(np.flip(wide, axis), axis, kind="stable")
        return x.shape[axis] - 1 - np.flip(backwards, axis)


class NonZero(Primitive):
    """The positions of elements that are not zero, one row each; `count` is how many (dims.py)."""

    gives_sizes = True

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        return AbstractTensor(int64, (self.attrs.get("count", 0), x.ndim))

    def eval(self, x: np.ndarray) -> Any:
        return np.argwhere(widened(x))


class Unique(Primitive):
    """(different elements in order of appearance, the position among them of each element).

    `count` is how many there are (dims.py).
    """

    gives_sizes = True

    def infer(self, x: AbstractTensor) -> AbstractTuple:
        found = AbstractTensor(x.dtype, (self.attrs.get("count", 0),))
        return AbstractTuple((found, AbstractTensor(int64, x.shape)))

    def eval(self, x: np.ndarray) -> Any:
        _, first, place = np.unique(widened(x).reshape(-1), return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        return x.reshape(-1)[first[order]], rank[place].reshape(x.shape)


class OneHot(Composite):
    """A new axis with `on_value` at the position that the index says, `off_value` elsewhere."""

    def __init__(self, axis: int = -1):
        super().__init__(axis=as_int("axis", axis))

    def __call__(self, indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0) -> Any:
        return one_hot(indices, depth, on_value, off_value, self.attrs["axis"])


class Sort(Composite):
    """(elements in order along an axis, their Int32 positions)."""

    def __init__(self, axis: int = -1, descending: bool = False):
        super().__init__(axis=as_int("axis", axis), descending=bool(descending))

    def __call__(self, x: Any) -> tuple:
        return sort(x, **self.attrs)


class TopK(Composite):
    """(the largest elements along the last axis, their Int32 positions)."""

    def __init__(self, sorted: bool = True):
        super().__init__(sorted=bool(sorted))

    def __call__(self, input_x: Any, k: int) -> tuple:
        return topk(input_x, k)


# ----------------------------------------------------------------------------------- functions


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
    _check_elements("gather_elements", x.shape, index.shape, axis)
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
    _check_rows("gather_nd", x.shape, index.shape)
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
    _check_elements(name, x.shape, index.shape, axis)
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
