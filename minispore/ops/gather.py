"""Elements at computed positions: gather, scatter, sort; ops whose result size depends on values.

Positions count from the front, negative ones from the end.  The primitives take positions modulo
the size, so that they cannot fail; the functions (gather_functions.py) check before, and raise
IndexError when the program runs.

Gradients come in pairs: what gathers scatters back, and the other way round:

    Gather - IndexAdd        GatherD - TensorScatterElements        GatherNd - TensorScatterAdd
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor, AbstractTuple, Shape
from minispore.dtype import int32, int64
from minispore.ops.common import (
    Composite,
    as_int,
    check_tensor,
    choice,
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
        return ops.gather(input_params, input_indices, axis, self.attrs["batch_dims"])

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
        return ops.index_add(x, indices, y, self.attrs["axis"])

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
        return ops.gather_elements(x, dim, index)

    def infer(self, x: AbstractTensor, index: AbstractTensor) -> AbstractTensor:
        check_elements("gather_elements", x.shape, index.shape, self.attrs["axis"])
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


def check_elements(name: str, shape: Shape, index: Shape, axis: int) -> None:
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
        return ops.tensor_scatter_elements(x, indices, updates, **self.attrs)

    def infer(self, x: AbstractTensor, index: AbstractTensor, y: AbstractTensor) -> AbstractTensor:
        check_elements("tensor_scatter_elements", x.shape, index.shape, self.attrs["axis"])
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
        return ops.gather_nd(input_x, indices)

    def infer(self, x: AbstractTensor, index: AbstractTensor) -> AbstractTensor:
        check_rows("gather_nd", x.shape, index.shape)
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


def check_rows(name: str, shape: Shape, index: Shape) -> None:
    """ValueError unless the last size of `index` is a number of axes that `shape` has."""
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
        check_rows(self.name, x.shape, index.shape)
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
        return ops.one_hot(indices, depth, on_value, off_value, self.attrs["axis"])


class Sort(Composite):
    """(elements in order along an axis, their Int32 positions)."""

    def __init__(self, axis: int = -1, descending: bool = False):
        super().__init__(axis=as_int("axis", axis), descending=bool(descending))

    def __call__(self, x: Any) -> tuple:
        return ops.sort(x, **self.attrs)


class TopK(Composite):
    """(the largest elements along the last axis, their Int32 positions)."""

    def __init__(self, sorted: bool = True):
        super().__init__(sorted=bool(sorted))

    def __call__(self, input_x: Any, k: int) -> tuple:
        return ops.topk(input_x, k)
