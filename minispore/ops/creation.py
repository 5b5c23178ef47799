"""Tensors from nothing: constants of a shape, ranges, identity matrices."""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor
from minispore.dims import Dim, larger
from minispore.dtype import DType, dtype_to_pytype, float32, int64, of_python
from minispore.ops.common import as_int, as_shape, check_tensor
from minispore.ops.shape import slice_size
from minispore.primitive import (
    Primitive,
    ScalarLike,
    TensorLike,
    apply,
    as_tensor,
    current_handler,
    is_number,
    number_kind,
)


class Fill(Primitive):
    """A Tensor of one number; attributes `dtype`, `shape`, `value`."""

    def __call__(self, dtype: DType, shape: Any, value: Any) -> Any:
        return full(shape, value, dtype=dtype)

    def infer(self) -> AbstractTensor:
        return AbstractTensor(self.attrs["dtype"], self.attrs["shape"])

    def eval(self) -> Any:
        return np.full(self.attrs["shape"], self.attrs["value"], self.attrs["dtype"].numpy)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return ()


def _fill(dtype: DType, shape: Any, value: Any) -> Any:
    """A Fill whose value has the Python type of `dtype`: equal fills are equal primitives."""
    number = dtype_to_pytype(dtype)(value)
    return apply(Fill.bound(dtype=dtype, shape=shape, value=number))


def check_dtype(name: str, dtype: Any, default: DType = float32) -> DType:
    """`dtype`, or the default for None; TypeError for anything else."""
    if dtype is None:
        return default
    if not isinstance(dtype, DType):
        raise TypeError(f"the dtype of {name} must be a minispore type, not {dtype!r}")
    return dtype


def constant(array: np.ndarray) -> Any:
    """A Tensor of an ndarray's values: a constant, in a graph."""
    return current_handler().constant(array, None)


def zeros(size: Any, dtype: DType | None = None) -> Any:
    """Zeros of shape `size` (an int, tuple or list), Float32 by default.

    ValueError for negative sizes; TypeError for other arguments.  MindSpore: ``ops.zeros``.
    """
    return _fill(check_dtype("zeros", dtype), as_shape("zeros", size), 0)


def ones(shape: Any, dtype: DType | None = None) -> Any:
    """Ones of `shape` (an int, tuple or list), Float32 by default.

    ValueError for negative sizes; TypeError for other arguments.  MindSpore: ``ops.ones``.
    """
    return _fill(check_dtype("ones", dtype), as_shape("ones", shape), 1)


def full(size: Any, fill_value: Any, *, dtype: DType | None = None) -> Any:
    """A Tensor of shape `size` filled with a number (or a 0-d Tensor).

    Without `dtype`: Bool, Int64 or Float32 by the number.  ValueError for negative sizes.
    MindSpore: ``ops.full``, ``ops.Fill``.
    """
    shape = as_shape("full", size)
    if isinstance(fill_value, (TensorLike, ScalarLike)):
        value = as_tensor(fill_value, dtype)
        return ops.broadcast_to(value if dtype is None else ops.cast(value, dtype), shape)
    if not is_number(fill_value):
        raise TypeError(f"full needs a number to fill with, not {type(fill_value).__name__}")
    return _fill(check_dtype("full", dtype, of_python(number_kind(fill_value))), shape, fill_value)


def fill(type: DType, shape: Any, value: Any) -> Any:
    """A Tensor of `type` and `shape` filled with a number.  MindSpore: ``ops.fill``."""
    return full(shape, value, dtype=type)


def zeros_like(input: Any, *, dtype: DType | None = None) -> Any:
    """Zeros of the shape and (unless given) dtype of `input`; no gradient flows.

    MindSpore: ``ops.zeros_like``, ``ops.ZerosLike``.
    """
    return full_like(input, 0, dtype=dtype)


def ones_like(input: Any, *, dtype: DType | None = None) -> Any:
    """Ones of the shape and (unless given) dtype of `input`; no gradient flows.

    MindSpore: ``ops.ones_like``, ``ops.OnesLike``.
    """
    return full_like(input, 1, dtype=dtype)


def full_like(input: Any, fill_value: Any, *, dtype: DType | None = None) -> Any:
    """A Tensor filled with a number, of the shape and (unless given) dtype of `input`.

    MindSpore: ``ops.full_like``.
    """
    x = check_tensor("full_like", input)
    return full(x.shape, fill_value, dtype=check_dtype("full_like", dtype, x.dtype))


def arange(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: DType | None = None) -> Any:
    """``start, start + step, ...`` up to and without `end`, of shape ``(n,)``.

    With one argument it is the end.  Int64 for ints, Float32 for floats, unless `dtype` is given.
    ValueError for a step of 0; TypeError unless all are constant numbers or sizes.  MindSpore:
    ``ops.arange``.
    """
    start, end = (0, start) if end is None else (start, end)
    for number in (start, end, step):
        if not isinstance(number, (int, float, Dim)) or isinstance(number, bool):
            raise TypeError(f"arange takes constant numbers, not {number!r:.60}")
    if step == 0:
        raise ValueError("arange: the step must not be 0")
    if isinstance(start, Dim) or isinstance(end, Dim):
        return _range_of_sizes(start, end, step, dtype)
    kind = float if any(isinstance(n, float) for n in (start, end, step)) else int
    values = start + step * np.arange(max(0, math.ceil((end - start) / step)))
    return constant(values.astype(check_dtype("arange", dtype, of_python(kind)).numpy))


class Arange(Primitive):
    """``start, start + step, ...``: `size` ints, where these depend on sizes (see dims.py).

    Attributes `start`, `step`, `size`, `dtype`.
    """

    def infer(self) -> AbstractTensor:
        return AbstractTensor(self.attrs["dtype"], (self.attrs["size"],))

    def eval(self) -> Any:
        steps = np.arange(self.attrs["size"])
        values = self.attrs["start"] + self.attrs["step"] * steps
        return values.astype(self.attrs["dtype"].numpy)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return ()


def _range_of_sizes(start: Any, end: Any, step: Any, dtype: DType | None) -> Any:
    if isinstance(start, float) or isinstance(end, float) or isinstance(step, float):
        return arange(float(start), float(end), float(step), dtype=dtype)
    step, dtype = operator.index(step), check_dtype("arange", dtype, int64)
    size = larger(slice_size(start, end, step), 0, True)
    return apply(Arange.bound(start=start, step=step, size=size, dtype=dtype))


def range(start: Any, end: Any, step: Any, maxlen: int = 1000000) -> Any:
    """``arange(start, end, step)`` of at most `maxlen` elements (ValueError).

    MindSpore: ``ops.range``.
    """
    values = arange(start, end, step)
    if values.shape[0] > maxlen:
        raise ValueError(f"range: {values.shape[0]} elements are more than maxlen {maxlen}")
    return values


def linspace(start: Any, end: Any, steps: int) -> Any:
    """`steps` Float32 numbers at equal distances from `start` to `end`, both included.

    ValueError unless `steps` is positive.  MindSpore: ``ops.linspace``.
    """
    n = as_int("steps", steps)
    if n < 1:
        raise ValueError(f"linspace: steps must be positive, not {n}")
    if isinstance(start, (TensorLike, ScalarLike)) or isinstance(end, (TensorLike, ScalarLike)):
        weight = constant(np.linspace(0, 1, n).astype(np.float32))
        return as_tensor(start) + weight * (as_tensor(end) - start)
    return constant(np.linspace(start, end, n).astype(np.float32))


def eye(n: int, m: int | None = None, dtype: DType | None = None) -> Any:
    """A matrix of `n` rows and `m` (`n`) columns with ones on the diagonal, Float32 by default.

    ValueError for negative sizes.  MindSpore: ``ops.eye``, ``ops.Eye``.
    """
    rows, columns = as_shape("eye", (n, n if m is None else m))
    return constant(np.eye(rows, columns, dtype=check_dtype("eye", dtype).numpy))


def _diagonal_distance(x: Any) -> tuple[Any, Any]:
    rows = ops.expand_dims(arange(x.shape[-2]), 1)
    return arange(x.shape[-1]), rows


def _matrices(name: str, input: Any) -> Any:
    x = check_tensor(name, input)
    if len(x.shape) < 2:
        raise ValueError(f"{name} needs at least 2 dimensions, not shape {x.shape}")
    return x


def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangles of matrices, up to and with the given diagonal; zeros above.

    ValueError for fewer than 2 dimensions.  MindSpore: ``ops.tril``.
    """
    x = _matrices("tril", input)
    columns, rows = _diagonal_distance(x)
    return ops.select(ops.less_equal(columns, rows + diagonal), x, zeros_like(x))


def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangles of matrices, from the given diagonal on; zeros below.

    ValueError for fewer than 2 dimensions.  MindSpore: ``ops.triu``.
    """
    x = _matrices("triu", input)
    columns, rows = _diagonal_distance(x)
    return ops.select(ops.greater_equal(columns, rows + diagonal), x, zeros_like(x))


def meshgrid(*inputs: Any, indexing: str = "xy") -> tuple:
    """Coordinate Tensors of the grid of 1-D Tensors; `indexing` "xy" swaps the first two axes.

    ValueError unless all are 1-D, or for another indexing.  MindSpore: ``ops.meshgrid``.
    """
    tensors = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], (tuple, list)) else inputs
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', not {indexing!r}")
    if any(len(check_tensor("meshgrid", t).shape) != 1 for t in tensors):
        raise ValueError("meshgrid takes 1-D Tensors")
    swap = indexing == "xy" and len(tensors) > 1
    order = [1, 0, *builtins.range(2, len(tensors))] if swap else [*builtins.range(len(tensors))]
    sizes = tuple(tensors[i].shape[0] for i in order)
    grids = []
    for i, t in enumerate(tensors):
        axis = order.index(i)
        line = tuple(t.shape[0] if a == axis else 1 for a in builtins.range(len(sizes)))
        grids.append(ops.broadcast_to(ops.reshape(t, line), sizes))
    return tuple(grids)
