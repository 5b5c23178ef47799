"""Products of matrices and vectors.

MatMul and BatchMatMul carry their transposes as attributes, so gradients need no transposed copies:

    out = A B     dA = dout B^T = MatMul(transpose_b)(dout, B)     dB = A^T dout

``ops.matmul`` reduces vectors, batches and broadcasting to the two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor, broadcast_shapes
from minispore.dtype import bool_
from minispore.ops.common import as_int, as_ints, check_tensor, choice, one_axis, widened
from minispore.primitive import Primitive, apply


class _Product(Primitive, register=False):
    """A matrix product over the last two dimensions, batch dimensions broadcast."""

    promotes = True

    def __init__(self, transpose_a: bool = False, transpose_b: bool = False):
        for value in (transpose_a, transpose_b):
            if not isinstance(value, bool):
                raise TypeError(
                    f"{self.name}: transpose_a and transpose_b are bools, not {value!r}"
                )
        super().__init__(transpose_a=transpose_a, transpose_b=transpose_b)

    def __call__(self, x: Any, y: Any) -> Any:
        return apply(self, check_tensor(self.name, x), check_tensor(self.name, y))

    def infer(self, x: AbstractTensor, y: AbstractTensor) -> AbstractTensor:
        if x.dtype is bool_:
            raise TypeError(
                f"{self.name} is not defined for Bool; cast the Tensors to a number type"
            )
        rows, inner = x.shape[-2:][:: -1 if self.attrs["transpose_a"] else 1]
        inner2, columns = y.shape[-2:][:: -1 if self.attrs["transpose_b"] else 1]
        if inner != inner2:
            raise ValueError(
                f"{self.name} of shapes {x.shape} and {y.shape} is impossible: the inner sizes "
                f"{inner} and {inner2} differ ({self._flags()})"
            )
        batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
        return AbstractTensor(x.dtype, (*batch, rows, columns))

    def _flags(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.attrs.items())

    def eval(self, x: np.ndarray, y: np.ndarray) -> Any:
        x, y = widened(x), widened(y)
        x = np.swapaxes(x, -1, -2) if self.attrs["transpose_a"] else x
        y = np.swapaxes(y, -1, -2) if self.attrs["transpose_b"] else y
        return np.matmul(x, y)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        x, y = inputs
        ta, tb = self.attrs["transpose_a"], self.attrs["transpose_b"]
        product = type(self)
        dx = product(tb, True)(y, dout) if ta else product(False, not tb)(dout, y)
        dy = product(True, ta)(dout, x) if tb else product(not ta, False)(x, dout)
        return ops.sum_to(dx, x.shape), ops.sum_to(dy, y.shape)


class MatMul(_Product):
    """The product of two matrices, either of them transposed first."""

    def infer(self, x: AbstractTensor, y: AbstractTensor) -> AbstractTensor:
        if x.ndim != 2 or y.ndim != 2:
            raise ValueError(
                f"MatMul multiplies 2-D Tensors, not shapes {x.shape} and {y.shape}; "
                "use ops.matmul for vectors and batches"
            )
        return super().infer(x, y)


class BatchMatMul(_Product):
    """Products of matrices in the last two dimensions; the dimensions before them broadcast."""

    def infer(self, x: AbstractTensor, y: AbstractTensor) -> AbstractTensor:
        if x.ndim < 2 or y.ndim < 2:
            raise ValueError(
                f"BatchMatMul multiplies matrices, not shapes {x.shape} and {y.shape}; "
                "use ops.matmul for vectors"
            )
        return super().infer(x, y)


class BiasAdd(Primitive):
    """Adds a vector along the channels: the second dimension (NCHW) or the last (NHWC)."""

    promotes = True

    def __init__(self, data_format: str = "NCHW"):
        super().__init__(data_format=choice("data_format", data_format, ("NCHW", "NHWC", "NCDHW")))

    def _axis(self, ndim: int) -> int:
        return ndim - 1 if self.attrs["data_format"] == "NHWC" else 1

    def infer(self, x: AbstractTensor, bias: AbstractTensor) -> AbstractTensor:
        if x.ndim < 2 or bias.ndim != 1 or bias.shape[0] != x.shape[self._axis(x.ndim)]:
            raise ValueError(
                f"BiasAdd needs a Tensor of 2 or more dimensions and one bias per channel, "
                f"not shapes {x.shape} and {bias.shape}"
            )
        return x

    def eval(self, x: np.ndarray, bias: np.ndarray) -> Any:
        axis = self._axis(x.ndim)
        return widened(x) + widened(bias).reshape((-1,) + (1,) * (x.ndim - 1 - axis))

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        ndim = len(inputs[0].shape)
        others = tuple(a for a in range(ndim) if a != self._axis(ndim))
        return dout, ops.reduce_sum(dout, others)


# ----------------------------------------------------------------------------------- functions


def matmul(input: Any, other: Any) -> Any:
    """The matrix product, as NumPy's ``matmul``: of vectors (1-D), matrices and batches.

    Shapes ``(..., n, k)`` and ``(..., k, m)`` give ``(..., n, m)``, batch dimensions broadcast; a
    vector counts as a row on the left and a column on the right, and its dimension is dropped. The
    operands take their common type.  ValueError for 0-d operands; RuntimeError if inner sizes
    differ, as in MindSpore. MindSpore: ``ops.matmul``.
    """
    x, y = check_tensor("matmul", input), check_tensor("matmul", other)
    if not x.shape or not y.shape:
        raise ValueError(f"matmul needs at least 1 dimension, not shapes {x.shape} and {y.shape}")
    inner = y.shape[0] if len(y.shape) == 1 else y.shape[-2]
    if x.shape[-1] != inner:
        raise RuntimeError(
            f"matmul of shapes {x.shape} and {y.shape} is impossible: the last size of the first, "
            f"{x.shape[-1]}, must equal {inner}"
        )
    rows = ops.expand_dims(x, 0) if len(x.shape) == 1 else x
    columns = ops.expand_dims(y, 1) if len(y.shape) == 1 else y
    out = _product(rows, columns)
    if len(y.shape) == 1:
        out = ops.squeeze(out, -1)
    return ops.squeeze(out, -1 if len(y.shape) == 1 else -2) if len(x.shape) == 1 else out


def _product(x: Any, y: Any) -> Any:
    """The product of Tensors of at least 2 dimensions, as one MatMul wherever that is possible."""
    if len(x.shape) == 2 and len(y.shape) == 2:
        return MatMul()(x, y)
    if len(y.shape) == 2:  # the rows of all batches form one matrix
        *batch, n, k = x.shape
        flat = MatMul()(ops.reshape(x, (math.prod(batch) * n, k)), y)
        return ops.reshape(flat, (*batch, n, y.shape[-1]))
    return BatchMatMul()(x, y)


def bmm(input_x: Any, mat2: Any) -> Any:
    """Products of matrices: ``(b, n, k)`` and ``(b, k, m)`` give ``(b, n, m)``.

    ValueError for other shapes.  MindSpore: ``ops.bmm``, ``ops.BatchMatMul``.
    """
    x, y = check_tensor("bmm", input_x), check_tensor("bmm", mat2)
    if len(x.shape) < 3 or len(y.shape) < 3:
        raise ValueError(f"bmm needs at least 3 dimensions, not shapes {x.shape} and {y.shape}")
    return BatchMatMul()(x, y)


def dot(input: Any, other: Any) -> Any:
    """Sums of products over the last axis of `input` and the second last (or only) of `other`.

    Shapes ``(i..., k)`` and ``(j..., k, m)`` give ``(i..., j..., m)``, as NumPy's ``dot``.
    ValueError for 0-d operands; RuntimeError if inner sizes differ.  MindSpore: ``ops.dot``.
    """
    x, y = check_tensor("dot", input), check_tensor("dot", other)
    if len(y.shape) <= 2 or not x.shape:
        return matmul(x, y)
    axis = len(y.shape) - 2
    order = (axis, *(a for a in range(len(y.shape)) if a != axis))
    kept = tuple(y.shape[a] for a in order[1:])
    flat = matmul(x, ops.reshape(ops.transpose(y, order), (y.shape[axis], math.prod(kept))))
    return ops.reshape(flat, (*x.shape[:-1], *kept))


def outer(input: Any, vec2: Any) -> Any:
    """Products of all pairs: vectors ``(n,)`` and ``(m,)`` give ``(n, m)``.

    ValueError unless both are 1-D.  MindSpore: ``ops.outer``.
    """
    x, y = check_tensor("outer", input), check_tensor("outer", vec2)
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise ValueError(f"outer needs two vectors, not shapes {x.shape} and {y.shape}")
    return ops.mul(ops.expand_dims(x, 1), ops.expand_dims(y, 0))


def bias_add(input_x: Any, bias: Any) -> Any:
    """`input_x` of shape ``(n, c, ...)`` plus `bias` of shape ``(c,)`` along the channels.

    ValueError for other shapes.  MindSpore: ``ops.bias_add``, ``ops.BiasAdd``.
    """
    return apply(BiasAdd(), input_x, bias)


def tensor_dot(x1: Any, x2: Any, axes: Any) -> Any:
    """Sums of products over several axes: the last `axes` of `x1` and the first of `x2`.

    Or `axes` is a pair: the axes of `x1` and those of `x2`, ints or tuples.  The result has the
    other axes, those of `x1` first.  ValueError if sizes differ.  MindSpore: ``ops.tensor_dot``.
    """
    x, y = check_tensor("tensor_dot", x1), check_tensor("tensor_dot", x2)
    if isinstance(axes, (tuple, list)):
        left, right = (as_ints("axes", a) for a in axes)
    else:
        n = as_int("axes", axes)
        left, right = tuple(range(-n, 0)), tuple(range(n))
    left = tuple(one_axis("tensor_dot", a, len(x.shape)) for a in left)
    right = tuple(one_axis("tensor_dot", a, len(y.shape)) for a in right)
    if [x.shape[a] for a in left] != [y.shape[a] for a in right]:
        raise ValueError(
            f"tensor_dot of shapes {x.shape} and {y.shape} is impossible: the sizes of axes "
            f"{left} and {right} differ"
        )
    kept = [a for a in range(len(x.shape)) if a not in left]
    kept2 = [a for a in range(len(y.shape)) if a not in right]
    inner = math.prod(x.shape[a] for a in left)
    shape, shape2 = tuple(x.shape[a] for a in kept), tuple(y.shape[a] for a in kept2)
    rows = ops.reshape(ops.transpose(x, (*kept, *left)), (math.prod(shape), inner))
    columns = ops.reshape(ops.transpose(y, (*right, *kept2)), (inner, math.prod(shape2)))
    return ops.reshape(MatMul()(rows, columns), shape + shape2)


def _on_diagonal(rows: int, columns: int) -> Any:
    """A Bool matrix, true on the diagonal."""
    return ops.equal(ops.expand_dims(ops.arange(rows), 1), ops.arange(columns))


def diag(input: Any) -> Any:
    """A matrix with the vector `input` on its diagonal and zeros elsewhere.

    ValueError unless 1-D.  MindSpore: ``ops.diag``, ``ops.Diag``.
    """
    x = check_tensor("diag", input)
    if len(x.shape) != 1:
        raise ValueError(f"diag needs a vector, not shape {x.shape}")
    n = x.shape[0]
    return ops.select(_on_diagonal(n, n), x, ops.zeros_like(x))


def trace(input: Any) -> Any:
    """The sum of a matrix's diagonal.  ValueError unless 2-D.  MindSpore: ``ops.trace``."""
    x = check_tensor("trace", input)
    if len(x.shape) != 2:
        raise ValueError(f"trace needs a matrix, not shape {x.shape}")
    return ops.sum(ops.select(_on_diagonal(*x.shape), x, ops.zeros_like(x)))
