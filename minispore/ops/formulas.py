"""Ops that are a formula of other ops: nothing here has a primitive, a type rule or a gradient.

Angles, fractions, medians, extremes so far, products that are added to something, diagonals, filled
positions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore import ops
from minispore.ops.common import as_int, check_tensor, one_axis
from minispore.ops.gather import as_index, check_range
from minispore.ops.state import as_float
from minispore.primitive import as_tensor


def frac(x: Any) -> Any:
    """What is left of each element without its whole part, with its sign.  MindSpore: ``ops.frac``.

    The gradient is 1.
    """
    return ops.sub(check_tensor("frac", x), ops.trunc(x))


def exp2(input: Any) -> Any:
    """2 to the power of each element, computed in floats.  MindSpore: ``ops.exp2``."""
    return ops.pow(2.0, check_tensor("exp2", input))


def deg2rad(x: Any) -> Any:
    """Degrees as radians.  MindSpore: ``ops.deg2rad``."""
    return ops.mul(check_tensor("deg2rad", x), math.pi / 180)


def rad2deg(x: Any) -> Any:
    """Radians as degrees.  MindSpore: ``ops.rad2deg``."""
    return ops.mul(check_tensor("rad2deg", x), 180 / math.pi)


def addcmul(input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """``input + value * tensor1 * tensor2``; all broadcast.  MindSpore: ``ops.addcmul``."""
    return ops.add(input, ops.mul(ops.mul(tensor1, tensor2), value))


def addcdiv(input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """``input + value * tensor1 / tensor2``; all broadcast.  MindSpore: ``ops.addcdiv``."""
    return ops.add(input, ops.mul(ops.div(tensor1, tensor2), value))


def hypot(input: Any, other: Any) -> Any:
    """The length of the hypotenuse: the square root of ``input**2 + other**2``; both broadcast.

    No square overflows.  Integers are computed in floats.  MindSpore: ``ops.hypot``.
    """
    x, y = as_float(as_tensor(input)), as_float(as_tensor(other))
    scale = ops.stop_gradient(ops.maximum(ops.abs(x), ops.abs(y)))
    usual = ops.logical_and(ops.greater(scale, 0), ops.isfinite(scale))
    scale = ops.where(usual, scale, ops.ones_like(scale))
    return scale * ops.sqrt(ops.square(x / scale) + ops.square(y / scale))


def logaddexp(input: Any, other: Any) -> Any:
    """The logarithm of ``exp(input) + exp(other)``, without overflow; both broadcast.

    MindSpore: ``ops.logaddexp``.
    """
    x, y = as_float(as_tensor(input)), as_float(as_tensor(other))
    top = ops.stop_gradient(ops.maximum(x, y))
    top = ops.where(ops.isfinite(top), top, ops.zeros_like(top))  # inf - inf would be nan
    return top + ops.log(ops.exp(x - top) + ops.exp(y - top))


def xlogy(input: Any, other: Any) -> Any:
    """``input * log(other)``, and 0 where `input` is 0 unless `other` is nan; both broadcast.

    Integers are computed in floats.  MindSpore: ``ops.xlogy`` (there 0 with 0 is nan).
    """
    x, y = as_float(as_tensor(input)), as_float(as_tensor(other))
    strange = ops.logical_or(ops.less_equal(y, 0), ops.isinf(y))
    hidden = ops.logical_and(ops.equal(x, 0), strange)
    return ops.mul(x, ops.log(ops.where(hidden, ops.ones_like(y), y)))


# ---------------------------------------------------------------------------------------- order


def median(input: Any, axis: int = -1, keepdims: bool = False) -> tuple:
    """(the lower median along `axis`, its Int64 position); nan where there is one.

    ValueError for an axis out of range.  MindSpore: ``ops.median``.
    """
    x = check_tensor("median", input)
    if not x.shape:
        return ops.identity(x), ops.zeros((), dt.int64)
    axis = one_axis("median", axis, len(x.shape))
    middle = ops.narrow(ops.argsort(x, axis), axis, (x.shape[axis] - 1) // 2, 1)
    unknown = ops.isnan(x) if x.dtype.is_float else ops.not_equal(x, x)
    first = ops.argmax(ops.cast(unknown, dt.int32), axis, True)
    place = ops.where(ops.any(unknown, axis, True), ops.cast(first, middle.dtype), middle)
    found = ops.gather_elements(x, axis, place), ops.cast(place, dt.int64)
    return found if keepdims else tuple(ops.squeeze(v, axis) for v in found)


def _running(name: str, input: Any, axis: Any, pick: Any) -> tuple:
    """Extremes so far along an axis, and the last positions where they are."""
    x = check_tensor(name, input)
    axis = one_axis(name, axis, len(x.shape))
    moved = ops.movedim(x, axis, -1)
    n = moved.shape[-1]
    steps = ops.arange(n)
    until = ops.minimum(ops.expand_dims(steps, 1), ops.arange(n - 1, -1, -1))  # row i: n-1 ... 0
    first = pick(ops.gather(moved, until, len(x.shape) - 1), -1)
    place = ops.minimum(steps, n - 1 - ops.cast(first, dt.int64))
    place = ops.broadcast_to(place, moved.shape)
    values = ops.gather_elements(moved, -1, place)
    return ops.movedim(values, -1, axis), ops.movedim(place, -1, axis)


def cummax(input: Any, axis: int) -> tuple:
    """(the largest element so far along `axis`, its last Int64 position); nan counts as such.

    ValueError for an axis out of range.  MindSpore: ``ops.cummax``.
    """
    return _running("cummax", input, axis, ops.argmax)


def cummin(input: Any, axis: int) -> tuple:
    """(the smallest element so far along `axis`, its last Int32 position); nan counts as such.

    ValueError for an axis out of range.  MindSpore: ``ops.cummin``.
    """
    values, place = _running("cummin", input, axis, ops.argmin)
    return values, ops.cast(place, dt.int32)


# ------------------------------------------------------------------------------------ products


def _matrix_product(name: str, x: Any, y: Any, dims: tuple[int, int]) -> Any:
    """The matrix product of Tensors that must have these numbers of dimensions."""
    if (len(check_tensor(name, x).shape), len(check_tensor(name, y).shape)) != dims:
        raise ValueError(
            f"{name} multiplies Tensors of {dims[0]} and {dims[1]} dimensions, not of shapes "
            f"{x.shape} and {y.shape}"
        )
    return ops.matmul(x, y)


def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices.  ValueError unless 2-D; errors of sizes as ``matmul``.

    MindSpore: ``ops.mm``.
    """
    return _matrix_product("mm", input, mat2, (2, 2))


def mv(mat: Any, vec: Any) -> Any:
    """The product of a matrix and a vector; errors as in ``mm``.  MindSpore: ``ops.mv``."""
    return _matrix_product("mv", mat, vec, (2, 1))


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * mm(mat1, mat2)``; `input` broadcasts.  MindSpore: ``ops.addmm``."""
    return ops.add(ops.mul(input, beta), ops.mul(mm(mat1, mat2), alpha))


def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * mv(mat, vec)``; `input` broadcasts.  MindSpore: ``ops.addmv``."""
    return ops.add(ops.mul(input, beta), ops.mul(mv(mat, vec), alpha))


def baddbmm(input: Any, batch1: Any, batch2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * bmm(batch1, batch2)``; `input` broadcasts.

    MindSpore: ``ops.baddbmm``.
    """
    return ops.add(ops.mul(input, beta), ops.mul(ops.bmm(batch1, batch2), alpha))


# ----------------------------------------------------------------------------------- positions


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonals of the matrices in axes `dim1` and `dim2`, as a new last axis.

    `offset` is above the main diagonal if positive.  ValueError unless these are two axes of
    `input`.  MindSpore: ``ops.diagonal``.
    """
    ndim = len(check_tensor("diagonal", input).shape)
    first, second = one_axis("diagonal", dim1, ndim), one_axis("diagonal", dim2, ndim)
    if first == second:
        raise ValueError(f"diagonal: dim1 and dim2 are the same axis, {first}")
    offset = as_int("offset", offset)
    x = ops.movedim(input, (first, second), (-2, -1))
    rows, columns = x.shape[-2:]
    down, right = max(-offset, 0), max(offset, 0)
    count = max(0, min(rows - down, columns - right))
    places = [(down + i) * columns + right + i for i in range(count)]
    flat = ops.reshape(x, (*x.shape[:-2], rows * columns))
    return ops.gather(flat, ops.constant(np.array(places, np.int64)), ndim - 2)


def index_fill(x: Any, axis: Any, index: Any, value: Any) -> Any:
    """`x` with `value` in the slices along `axis` at the positions in the 1-D Tensor `index`.

    `value` is cast to the dtype of `x`.  IndexError when the program runs for a position out of
    range.  MindSpore: ``ops.index_fill``.
    """
    axis = one_axis("index_fill", axis, len(check_tensor("index_fill", x).shape))
    places, size = as_index("index_fill", index), x.shape[axis]
    if len(places.shape) > 1:
        raise ValueError(f"index_fill: positions must be 1-D, not of shape {index.shape}")
    check_range("index_fill", places, size)
    places = ops.reshape(ops.floor_mod(places, size), (-1,))
    chosen = ops.any(ops.equal(ops.expand_dims(ops.arange(size), 1), places), 1)
    chosen = ops.reshape(chosen, (size, *(1,) * (len(x.shape) - 1 - axis)))
    return ops.where(chosen, ops.cast(value, x.dtype), x)
