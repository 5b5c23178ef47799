"""Reductions: sums, means, extremes and counts over axes.

A class is constructed with ``keep_dims`` and called with the axis, as in MindSpore; in a graph both
are attributes, the axis a sorted tuple of non-negative ints.  No axis, None or () means all.  Half
floats accumulate in float32.

    ops.sum(x, 1)  ->  ReduceSum.bound(axis=(1,), keep_dims=False)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor, Shape
from minispore.dims import larger
from minispore.dtype import DType, bool_, int32, int64
from minispore.ops.common import all_axes, as_int, check_tensor, one_axis, require_sizes, widened
from minispore.ops.state import as_float
from minispore.primitive import Primitive, apply, as_tensor


class Reduction(Primitive, register=False):
    """Reduces `axis`; attributes `axis` and `keep_dims`."""

    numpy: ClassVar[Callable]
    takes_bool: ClassVar[bool] = False

    def __init__(self, keep_dims: bool = False):
        if not isinstance(keep_dims, bool):
            raise TypeError(f"{self.name}: keep_dims must be a bool, not {keep_dims!r}")
        super().__init__(keep_dims=keep_dims)

    def __call__(self, x: Any, axis: Any = ()) -> Any:
        return self._over(x, axis, self.attrs["keep_dims"])

    @classmethod
    def _over(cls, x: Any, axis: Any, keep_dims: bool) -> Any:
        check_tensor(cls.name, x)
        axes = all_axes(cls.name, axis, len(x.shape))
        return apply(cls.bound(axis=axes, keep_dims=bool(keep_dims)), x)

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        if x.dtype is bool_ and not self.takes_bool:
            raise TypeError(
                f"{self.name} is not defined for Bool; cast the Tensor to a number type"
            )
        axes = self.attrs["axis"]
        return AbstractTensor(x.dtype, reduced(x.shape, axes, self.attrs["keep_dims"]))

    def eval(self, x: np.ndarray) -> Any:
        numpy = type(self).numpy
        return numpy(widened(x), axis=self.attrs["axis"], keepdims=self.attrs["keep_dims"])

    def spread(self, value: Any, shape: Shape) -> Any:
        """`value`, shaped like the result, made broadcastable against the operand's shape."""
        return ops.reshape(value, reduced(shape, self.attrs["axis"], True))


def reduced(shape: Shape, axes: tuple[int, ...], keep_dims: bool) -> Shape:
    """The shape that is left when `axes` are reduced."""
    if keep_dims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def count(shape: Shape, axes: tuple[int, ...]) -> int:
    """How many elements are reduced into one."""
    return math.prod(shape[a] for a in axes)


class ReduceSum(Reduction):
    """The sum.  Of bools it is Int64; integers keep their type (``ops.sum`` widens them)."""

    def prepare(self, args: tuple) -> tuple:
        (x,) = super().prepare(args)
        return (ops.cast(x, int64) if x.dtype is bool_ else x,)

    def eval(self, x: np.ndarray) -> Any:
        axes, keep = self.attrs["axis"], self.attrs["keep_dims"]
        wide = widened(x)
        return np.add.reduce(wide, axis=axes, dtype=wide.dtype, keepdims=keep)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        shape = inputs[0].shape
        return (ops.broadcast_to(self.spread(dout, shape), shape),)


class ReduceMean(Reduction):
    """The mean.  Of integers it is an integer, rounded towards zero, as in MindSpore."""

    def eval(self, x: np.ndarray) -> Any:
        axes, keep = self.attrs["axis"], self.attrs["keep_dims"]
        wide = widened(x)
        total = np.add.reduce(wide, axis=axes, dtype=wide.dtype, keepdims=keep)
        n = count(x.shape, axes)
        if x.dtype.kind in "iu":
            return np.sign(total) * (np.abs(total) // (n or 1))
        return np.true_divide(total, wide.dtype.type(n))

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        shape = inputs[0].shape
        share = self.spread(dout, shape) / larger(count(shape, self.attrs["axis"]), 1)
        return (ops.broadcast_to(share, shape),)


def _need_elements(name: str, shape: Shape, axes: tuple[int, ...]) -> None:
    """ValueError if there is nothing to reduce along some axis."""
    message = (f"{name} of no elements is undefined: shape ", shape, f", axis {axes}")
    require_sizes(lambda n: n > 0, (count(shape, axes),), ValueError, *message)


class _Extreme(Reduction, register=False):
    """The gradient of the largest or smallest element is split equally among ties."""

    takes_bool = True

    def prepare(self, args: tuple) -> tuple:
        (x,) = super().prepare(args)
        _need_elements(self.name, x.shape, self.attrs["axis"])
        return (x,)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        (x,) = inputs
        is_extreme = ops.equal(x, self.spread(out, x.shape))
        ties = ReduceSum.bound(axis=self.attrs["axis"], keep_dims=True)
        share = self.spread(dout, x.shape) / apply(ties, ops.cast(is_extreme, x.dtype))
        return (ops.select(is_extreme, share, ops.zeros_like(x)),)


class ReduceMax(_Extreme):
    """The largest element; nan if there is one.  ValueError if there are no elements."""

    numpy = staticmethod(np.max)


class ReduceMin(_Extreme):
    """The smallest element; nan if there is one.  ValueError if there are no elements."""

    numpy = staticmethod(np.min)


class ReduceProd(Reduction):
    """The product; of no elements it is 1."""

    def eval(self, x: np.ndarray) -> Any:
        axes, keep = self.attrs["axis"], self.attrs["keep_dims"]
        wide = widened(x)
        return np.multiply.reduce(wide, axis=axes, dtype=wide.dtype, keepdims=keep)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        (x,) = inputs
        axes = self.attrs["axis"]
        kept = tuple(a for a in range(len(x.shape)) if a not in axes)
        perm = kept + axes
        kept_shape = tuple(x.shape[a] for a in kept)
        rows = ops.reshape(ops.transpose(x, perm), (*kept_shape, count(x.shape, axes)))
        others = ops.reshape(product_of_others(rows), tuple(x.shape[a] for a in perm))
        others = ops.transpose(others, inverse_permutation(perm))
        return (self.spread(dout, x.shape) * others,)


def inverse_permutation(perm: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `perm`."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def product_of_others(x: Any) -> Any:
    """For each element the product of all others along the last axis, without dividing.

    Elements are multiplied in pairs, recursively; on the way back the other of each pair is
    multiplied in.  So zeros are right to any order, in O(n) work and O(log n) nodes.
    """
    *rest, n = x.shape
    if n <= 1:
        return ops.ones_like(x)
    if n % 2:
        one = ops.ones((*rest, 1), x.dtype)
        return ops.slice(product_of_others(ops.concat((x, one), -1)), (0,) * len(x.shape), x.shape)
    pairs = ops.reshape(x, (*rest, n // 2, 2))
    products = _products_of_pairs(pairs)
    above = product_of_others(products)
    return ops.reshape(ops.expand_dims(above, -1) * ops.flip(pairs, (-1,)), x.shape)


def _products_of_pairs(pairs: Any) -> Any:
    """The products along a last axis of size 2."""
    left, right = ops.unstack(pairs, -1)
    return left * right


class ReduceAll(Reduction):
    """True where all elements are true (not zero)."""

    takes_bool = True
    numpy = staticmethod(np.all)

    def prepare(self, args: tuple) -> tuple:
        (x,) = super().prepare(args)
        return (ops.cast(x, bool_),)


class ReduceAny(Reduction):
    """True where any element is true (not zero)."""

    takes_bool = True
    numpy = staticmethod(np.any)

    def prepare(self, args: tuple) -> tuple:
        (x,) = super().prepare(args)
        return (ops.cast(x, bool_),)


class _Position(Primitive, register=False):
    """The position of an extreme along one axis: the first of equals; the first nan, if any."""

    numpy: ClassVar[Callable]

    def __init__(self, axis: int = -1, output_type: DType = int32):
        super().__init__(axis=as_int("axis", axis), output_type=output_type)

    def __call__(self, x: Any) -> Any:
        return self._along(x, self.attrs["axis"], False, self.attrs["output_type"])

    @classmethod
    def _along(cls, x: Any, axis: Any, keep_dims: bool, output_type: DType) -> Any:
        check_tensor(cls.name, x)
        if axis is None or not x.shape:  # over the flattened Tensor
            flat = apply(cls.bound(axis=0, output_type=output_type), ops.reshape(x, (-1,)))
            return ops.reshape(flat, (1,) * len(x.shape)) if keep_dims else flat
        axis = one_axis(cls.name, axis, len(x.shape))
        out = apply(cls.bound(axis=axis, output_type=output_type), x)
        return ops.expand_dims(out, axis) if keep_dims else out

    def prepare(self, args: tuple) -> tuple:
        (x,) = super().prepare(args)
        _need_elements(self.name, x.shape, (self.attrs["axis"],))
        return (x,)

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        axis = self.attrs["axis"]
        return AbstractTensor(self.attrs["output_type"], reduced(x.shape, (axis,), False))

    def eval(self, x: np.ndarray) -> Any:
        return type(self).numpy(widened(x), axis=self.attrs["axis"])


class Argmax(_Position):
    """The position of the largest element along `axis`; Int32 by default."""

    numpy = staticmethod(np.argmax)


class Argmin(_Position):
    """The position of the smallest element along `axis`; Int32 by default."""

    numpy = staticmethod(np.argmin)


class CumSum(Primitive):
    """Running sums along an axis.

    With `exclusive` each element is left out of its own sum; with `reverse` sums run from the end.
    """

    def __init__(self, exclusive: bool = False, reverse: bool = False):
        super().__init__(exclusive=bool(exclusive), reverse=bool(reverse))

    def __call__(self, x: Any, axis: Any) -> Any:
        check_tensor("CumSum", x)
        axis = one_axis("CumSum", axis, len(x.shape))
        return apply(CumSum.bound(axis=axis, **self.attrs), x)

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        if x.dtype is bool_:
            raise TypeError("CumSum is not defined for Bool; cast the Tensor to a number type")
        return x

    def eval(self, x: np.ndarray) -> Any:
        axis, wide = self.attrs["axis"], widened(x)
        if self.attrs["reverse"]:
            wide = np.flip(wide, axis)
        total = np.add.accumulate(wide, axis, dtype=wide.dtype)
        if self.attrs["exclusive"]:
            total = total - wide
        return np.array(np.flip(total, axis) if self.attrs["reverse"] else total, order="C")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        attrs = {**self.attrs, "reverse": not self.attrs["reverse"]}
        return (apply(CumSum.bound(**attrs), dout),)


# ----------------------------------------------------------------------------------- functions


def _widened_integers(x: Any) -> Any:
    """Bools and integers as Int64, so that sums and products of them do not wrap early."""
    return x if x.dtype.is_float or x.dtype is int64 else ops.cast(x, int64)


def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None) -> Any:
    """The sum over `dim` (None: all; an int or a tuple), of shape without them or, kept, with 1s.

    Bools and integers give Int64; `dtype` casts first.  ValueError for an axis out of range or
    given twice.  MindSpore: ``ops.sum``, ``ops.ReduceSum``.
    """
    check_tensor("sum", input)
    x = _widened_integers(input) if dtype is None else ops.cast(input, dtype)
    return ReduceSum._over(x, dim, keepdim)


def reduce_sum(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """The sum over `axis`; integers keep their type.  MindSpore: ``ops.ReduceSum``."""
    return ReduceSum._over(x, axis, keep_dims)


def mean(x: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """The mean over `axis` (None: all; an int or a tuple).

    The mean of integers is an integer, rounded towards zero; Bool is a TypeError; an axis out of
    range a ValueError.  MindSpore: ``ops.mean``, ``ops.ReduceMean``.
    """
    return ReduceMean._over(x, axis, keep_dims)


def reduce_mean(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """The mean over `axis`, as ``mean``.  MindSpore: ``ops.ReduceMean``."""
    return ReduceMean._over(x, axis, keep_dims)


def reduce_max(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """The largest elements over `axis`, as ``amax``.  MindSpore: ``ops.ReduceMax``."""
    return ReduceMax._over(x, axis, keep_dims)


def reduce_min(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """The smallest elements over `axis`, as ``amin``.  MindSpore: ``ops.ReduceMin``."""
    return ReduceMin._over(x, axis, keep_dims)


def _extreme(
    prim: type[_Extreme], x: Any, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    """``amax`` or ``amin`` with NumPy's `initial` and `where`."""
    pair = ops.maximum if prim is ReduceMax else ops.minimum
    if where is not None:
        if initial is None:
            raise ValueError("`where` needs `initial`, the value where nothing is selected")
        x = ops.select(where, x, as_tensor(initial, x.dtype))
    if initial is not None and 0 in x.shape:  # nothing to reduce on some axis
        axes = all_axes(prim.name, axis, len(x.shape))
        return ops.full(reduced(x.shape, axes, keepdims), initial, dtype=x.dtype)
    out = prim._over(x, axis, keepdims)
    return out if initial is None else pair(out, initial)


def amax(
    input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
) -> Any:
    """The largest elements over `axis` (None: all; an int or a tuple); nan if there is one.

    The gradient is split equally among ties.  `initial` is the least value of the result; `where`
    selects elements.  ValueError if there are no elements, or for an axis out of range.
    MindSpore: ``ops.amax``, ``ops.ReduceMax``.
    """
    check_tensor("amax", input)
    return _extreme(ReduceMax, input, axis, keepdims, initial, where)


def amin(
    input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
) -> Any:
    """The smallest elements over `axis`, as ``amax``.

    MindSpore: ``ops.amin``, ``ops.ReduceMin``.
    """
    check_tensor("amin", input)
    return _extreme(ReduceMin, input, axis, keepdims, initial, where)


def max(
    input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
) -> tuple:
    """The pair (largest elements along one `axis`, their Int64 positions); axis None flattens.

    See ``amax`` for the errors and the gradient.  MindSpore: ``ops.max``.
    """
    check_tensor("max", input)
    values = _extreme(ReduceMax, input, axis, keepdims, initial, where)
    return values, Argmax._along(input, axis, keepdims, int64)


def min(
    input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
) -> tuple:
    """The pair (smallest elements along one `axis`, their Int64 positions); axis None flattens.

    See ``amax`` for the errors and the gradient.  MindSpore: ``ops.min``.
    """
    check_tensor("min", input)
    values = _extreme(ReduceMin, input, axis, keepdims, initial, where)
    return values, Argmin._along(input, axis, keepdims, int64)


def prod(input: Any, axis: Any = None, keep_dims: bool = False, dtype: DType | None = None) -> Any:
    """The product over `axis` (None: all; an int or a tuple); of no elements it is 1.

    Bools and integers give Int64; `dtype` casts first.  MindSpore: ``ops.prod``,
    ``ops.ReduceProd``.
    """
    check_tensor("prod", input)
    x = _widened_integers(input) if dtype is None else ops.cast(input, dtype)
    return ReduceProd._over(x, axis, keep_dims)


def all(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Where all elements over `axis` are true (not zero); of no elements it is True.

    MindSpore: ``ops.all``, ``ops.ReduceAll``.
    """
    return ReduceAll._over(input, axis, keep_dims)


def any(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Where any element over `axis` is true (not zero); of no elements it is False.

    MindSpore: ``ops.any``, ``ops.ReduceAny``.
    """
    return ReduceAny._over(input, axis, keep_dims)


def argmax(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The Int64 positions of the largest elements along `dim` (None: in the flattened Tensor).

    The first of equals.  ValueError if there are no elements, or for an axis out of range.
    MindSpore: ``ops.argmax``.
    """
    return Argmax._along(input, dim, keepdim, int64)


def argmin(input: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The Int32 positions of the smallest elements along `axis` (None: in the flattened Tensor).

    The first of equals.  ValueError if there are no elements, or for an axis out of range.
    MindSpore: ``ops.argmin`` (Int32, unlike ``ops.argmax``).
    """
    return Argmin._along(input, axis, keepdims, int32)


def cumsum(x: Any, axis: Any, dtype: DType | None = None) -> Any:
    """Running sums along `axis`; `dtype` casts first.

    TypeError for Bool; ValueError for an axis out of range.
    MindSpore: ``ops.cumsum``, ``ops.CumSum``.
    """
    return CumSum()(x if dtype is None else ops.cast(x, dtype), axis)


def var(input: Any, axis: Any = None, ddof: Any = 0, keepdims: bool = False) -> Any:
    """The variance over `axis`: the squares of the deviations, summed, over ``n - ddof``.

    `ddof` is 0 (the population's) by default; True means 1.  Integers become Float32 first.
    MindSpore: ``ops.var``.
    """
    x = as_float(check_tensor("var", input))
    axes = all_axes("var", axis, len(x.shape))
    n = count(x.shape, axes)
    deviation = x - ReduceMean._over(x, axes, True)
    total = ReduceSum._over(ops.square(deviation), axes, keepdims)
    return ops.div(total, (n - int(ddof)) * 1.0)


def std(input: Any, axis: Any = None, ddof: Any = 0, keepdims: bool = False) -> Any:
    """The standard deviation over `axis`: the square root of ``var``.  MindSpore: ``ops.std``."""
    return ops.sqrt(var(input, axis, ddof, keepdims))


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """The logarithm of the sum of exponentials over `dim`, without overflow.

    Integers become Float32 first.  MindSpore: ``ops.logsumexp``.
    """
    x = as_float(check_tensor("logsumexp", input))
    axes = all_axes("logsumexp", dim, len(x.shape))
    top = ops.stop_gradient(ReduceMax._over(x, axes, True))
    top = ops.select(ops.isfinite(top), top, ops.zeros_like(top))  # inf - inf would be nan
    out = ops.log(ReduceSum._over(ops.exp(x - top), axes, keepdim))
    return out + ops.reshape(top, out.shape)


def norm(
    A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Any:
    """The norm of vectors along `dim` (None: of all elements; an int or a tuple).

    `ord`: None, 2 or 'fro' (root of the squares' sum), inf, -inf, 0 (how many are not zero), or a
    number p.  Over two axes 1, -1, inf and -inf are the matrix norms: extremes of the sums of
    columns (1) or rows (inf).  Integers become Float32 first.  ValueError for another `ord`.
    MindSpore: ``ops.norm``.
    """
    check_tensor("norm", A)
    x = ops.cast(A, dtype) if dtype is not None else A
    x = as_float(x)
    axes = all_axes("norm", dim, len(x.shape))
    matrix = ord is not None and len(axes) == 2 and (dim is not None or len(x.shape) == 2)
    if ord in (None, "fro") or (ord == 2 and not matrix):
        return ops.sqrt(ReduceSum._over(ops.square(x), axes, keepdim))
    if isinstance(ord, str) or (matrix and ord not in (1, -1, math.inf, -math.inf)):
        raise ValueError(f"norm knows no ord {ord!r} over {len(axes)} axes")
    return _matrix_norm(x, ord, dim, keepdim) if matrix else _vector_norm(x, ord, axes, keepdim)


def _vector_norm(x: Any, ord: float, axes: tuple[int, ...], keepdim: bool) -> Any:
    size = ops.abs(x)
    if ord in (math.inf, -math.inf):
        return (ReduceMax if ord > 0 else ReduceMin)._over(size, axes, keepdim)
    if ord == 0:
        return ReduceSum._over(ops.cast(ops.not_equal(x, 0), x.dtype), axes, keepdim)
    if ord == 1:
        return ReduceSum._over(size, axes, keepdim)
    return ops.pow(ReduceSum._over(ops.pow(size, ord), axes, keepdim), 1 / ord)


def _matrix_norm(x: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    rows, columns = (0, 1) if dim is None else (one_axis("norm", d, len(x.shape)) for d in dim)
    summed, kept = (rows, columns) if ord in (1, -1) else (columns, rows)
    totals = ReduceSum._over(ops.abs(x), summed, True)
    out = (ReduceMax if ord > 0 else ReduceMin)._over(totals, kept, True)
    return out if keepdim else ops.squeeze(out, (rows, columns))


def count_nonzero(x: Any, axis: Any = (), keep_dims: bool = False, dtype: DType = int32) -> Any:
    """How many elements over `axis` are not zero, in `dtype`.  MindSpore: ``ops.count_nonzero``."""
    return ReduceSum._over(ops.cast(ops.not_equal(x, 0), dtype), axis, keep_dims)


def cumprod(input: Any, dim: Any, dtype: DType | None = None) -> Any:
    """Running products along `dim`; `dtype` casts first.

    Products of 1, 2, 4 ... neighbours are multiplied, in O(log n) steps: so gradients are right at
    zeros too.  ValueError for an axis out of range.  MindSpore: ``ops.cumprod``.
    """
    x = check_tensor("cumprod", input) if dtype is None else ops.cast(input, dtype)
    axis = one_axis("cumprod", dim, len(x.shape))
    size, span = x.shape[axis], 1
    while span < size:
        head = ops.narrow(x, axis, 0, span)
        tail = ops.narrow(x, axis, span, size - span) * ops.narrow(x, axis, 0, size - span)
        x = ops.concat((head, tail), axis)
        span *= 2
    return ops.identity(x) if x is input else x
