"""Ops that are a formula of other ops: nothing here has a primitive, a type rule or a gradient.

Angles, fractions, products that are added to something, diagonals, filled positions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minispore import ops
from minispore.ops.common import as_int, check_tensor, one_axis
from minispore.ops.gather import as_index, check_range


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
