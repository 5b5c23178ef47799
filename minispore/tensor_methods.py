"""The operators and methods of Tensor: each is one call of an ops function.

Both modes share them, because ``ops`` functions only call ``apply``.  What needs an ndarray
(``asnumpy``, ``print``, ``bool``) is in tensor.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore import ops
from minispore.dtype import DType, to_dtype
from minispore.primitive import TensorLike, as_tensor, is_number

# ------------------------------------------------------------------------------ operators


def _operand(value: Any) -> Any:
    """The right-hand side of an operator as ops take it, or NotImplemented.

    A NumPy number counts as a Python number, a list, tuple or ndarray as a Tensor.
    """
    if isinstance(value, TensorLike) or is_number(value):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        return as_tensor(value)
    if isinstance(value, (str, bytes)):  # Python would go on to repeat it, as in "ab" * 3
        raise TypeError(
            f"a Tensor and {type(value).__name__} {value!r:.40} have no common operator"
        )
    return NotImplemented


def _operator(name: str, sign: str) -> Any:
    """A binary operator of Tensor that calls ``ops.<name>``."""

    def method(self: Any, other: Any) -> Any:
        other = _operand(other)
        return other if other is NotImplemented else getattr(ops, name)(self, other)

    method.__doc__ = f"``x {sign} other``: see ``ops.{name}``."
    return method


def _reflected(name: str, sign: str) -> Any:
    """The operator for ``other <sign> tensor`` where `other` is no Tensor."""

    def method(self: Any, other: Any) -> Any:
        other = _operand(other)
        return other if other is NotImplemented else getattr(ops, name)(other, self)

    method.__doc__ = f"``other {sign} x``: see ``ops.{name}``."
    return method


def _comparable(value: Any) -> bool:
    """True if ``tensor == value`` compares elements; anything else is plainly unequal."""
    return isinstance(value, (TensorLike, np.generic)) or is_number(value)


class TensorOperators(TensorLike):
    """Python's operators.  ``x += y`` binds the name x to a new Tensor."""

    __slots__ = ()
    __array_priority__ = 1000  # ndarray + Tensor is a Tensor too

    __add__, __radd__ = _operator("add", "+"), _reflected("add", "+")
    __sub__, __rsub__ = _operator("sub", "-"), _reflected("sub", "-")
    __mul__, __rmul__ = _operator("mul", "*"), _reflected("mul", "*")
    __truediv__, __rtruediv__ = _operator("div", "/"), _reflected("div", "/")
    __floordiv__, __rfloordiv__ = _operator("floor_div", "//"), _reflected("floor_div", "//")
    __mod__, __rmod__ = _operator("floor_mod", "%"), _reflected("floor_mod", "%")
    __pow__, __rpow__ = _operator("pow", "**"), _reflected("pow", "**")
    __matmul__, __rmatmul__ = _operator("matmul", "@"), _reflected("matmul", "@")
    __and__, __rand__ = _operator("bitwise_and", "&"), _reflected("bitwise_and", "&")
    __or__, __ror__ = _operator("bitwise_or", "|"), _reflected("bitwise_or", "|")
    __xor__, __rxor__ = _operator("bitwise_xor", "^"), _reflected("bitwise_xor", "^")
    __lt__, __le__ = _operator("less", "<"), _operator("less_equal", "<=")
    __gt__, __ge__ = _operator("greater", ">"), _operator("greater_equal", ">=")
    __hash__ = object.__hash__

    def __eq__(self, other: Any) -> Any:
        """Element by element with a Tensor or number; False with anything else."""
        return ops.equal(self, _operand(other)) if _comparable(other) else False

    def __ne__(self, other: Any) -> Any:
        """Element by element with a Tensor or number; True with anything else."""
        return ops.not_equal(self, _operand(other)) if _comparable(other) else True

    def __neg__(self) -> Any:
        return ops.neg(self)

    def __pos__(self) -> Any:
        return ops.identity(self)

    def __abs__(self) -> Any:
        return ops.abs(self)

    def __invert__(self) -> Any:
        """Logical not, whatever the dtype (as in MindSpore)."""
        return ops.logical_not(self)

    def __round__(self, ndigits: None = None) -> Any:
        return ops.round(self)

    def __getitem__(self, index: Any) -> Any:
        """``x[index]`` as in NumPy, always a copy: see ops.indexing."""
        return ops.getitem(self, index)


# -------------------------------------------------------------------------------- methods


def _unary(name: str) -> Any:
    """A method without arguments that calls ``ops.<name>``."""

    def method(self: Any) -> Any:
        return getattr(ops, name)(self)

    method.__name__, method.__doc__ = name, f"See ``ops.{name}``."
    return method


def _with_other(name: str) -> Any:
    """A method with one operand that calls ``ops.<name>``."""

    def method(self: Any, other: Any) -> Any:
        return getattr(ops, name)(self, other)

    method.__name__, method.__doc__ = name, f"See ``ops.{name}``."
    return method


def _also(**names: str) -> Callable[[Callable], Any]:
    """Let a method take keywords under a second name, as MindSpore does: ``_also(dim="axis")``."""

    def decorator(method: Callable) -> Any:
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            return method(self, *args, **{names.get(k, k): v for k, v in kwargs.items()})

        wrapper.__name__, wrapper.__doc__ = method.__name__, method.__doc__
        wrapper.__wrapped__ = method  # type: ignore[attr-defined]
        return wrapper

    return decorator


def _sizes(args: tuple) -> tuple:
    """The ints of ``f(2, 3)`` or ``f((2, 3))``."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        return tuple(args[0])
    return args


def _cast(x: Any, dtype: DType) -> Any:
    """`x` in `dtype`, as a new Tensor also where it has that dtype already."""
    return ops.identity(x) if x.dtype is dtype else ops.cast(x, dtype)


class ElementMethods(TensorLike):
    """Methods that work element by element."""

    __slots__ = ()

    abs, exp, log, sqrt, square = map(_unary, ("abs", "exp", "log", "sqrt", "square"))
    rsqrt, reciprocal, sign, neg = map(_unary, ("rsqrt", "reciprocal", "sign", "neg"))
    negative, absolute, inv = map(_unary, ("neg", "abs", "reciprocal"))
    sin, cos, tan, atan = map(_unary, ("sin", "cos", "tan", "atan"))
    asin, acos, sinh, cosh = map(_unary, ("asin", "acos", "sinh", "cosh"))
    asinh, acosh, atanh = map(_unary, ("asinh", "acosh", "atanh"))
    log2, log10 = map(_unary, ("log2", "log10"))
    tanh, sigmoid, relu, erf = map(_unary, ("tanh", "sigmoid", "relu", "erf"))
    log1p, expm1, floor, ceil = map(_unary, ("log1p", "expm1", "floor", "ceil"))
    round, trunc, logical_not = map(_unary, ("round", "trunc", "logical_not"))
    isnan, isinf, isfinite = map(_unary, ("isnan", "isinf", "isfinite"))

    add, sub, mul, div = map(_with_other, ("add", "sub", "mul", "div"))
    subtract, multiply, divide = map(_with_other, ("sub", "mul", "div"))
    true_divide, floor_divide = map(_with_other, ("div", "floor_div"))
    pow, matmul, dot = map(_with_other, ("pow", "matmul", "dot"))
    mm, bmm = map(_with_other, ("matmul", "bmm"))
    maximum, minimum = map(_with_other, ("maximum", "minimum"))
    eq, ne, lt, le = map(_with_other, ("equal", "not_equal", "less", "less_equal"))
    gt, ge = map(_with_other, ("greater", "greater_equal"))
    equal, not_equal, less, less_equal = eq, ne, lt, le
    greater, greater_equal = gt, ge
    logical_and, logical_or = map(_with_other, ("logical_and", "logical_or"))
    logical_xor, atan2 = map(_with_other, ("logical_xor", "atan2"))
    bitwise_and, bitwise_or = map(_with_other, ("bitwise_and", "bitwise_or"))
    bitwise_xor = _with_other("bitwise_xor")
    fmod, remainder = map(_with_other, ("fmod", "remainder"))

    def addcmul(self, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
        """See ``ops.addcmul``."""
        return ops.addcmul(self, tensor1, tensor2, value)

    def addcdiv(self, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
        """See ``ops.addcdiv``."""
        return ops.addcdiv(self, tensor1, tensor2, value)

    def addmm(self, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """See ``ops.addmm``."""
        return ops.addmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def isclose(
        self, other: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False
    ) -> Any:
        """See ``ops.isclose``."""
        return ops.isclose(self, other, rtol, atol, equal_nan)

    def is_floating_point(self) -> Any:
        """True for floats."""
        return self.dtype.is_float

    def is_signed(self) -> Any:
        """True for floats and signed integers."""
        return self.dtype.kind in ("int", "float")

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """This Tensor cast to `dtype`: a DType, its name, or a Python or NumPy type."""
        return _cast(self, to_dtype(dtype))

    def to(self, dtype: Any) -> Any:
        """The same as ``astype``."""
        return self.astype(dtype)

    def type_as(self, other: TensorLike) -> Any:
        """This Tensor cast to the dtype of `other`."""
        return _cast(self, other.dtype)

    def int(self) -> Any:
        """Cast to Int32."""
        return _cast(self, dt.int32)

    def long(self) -> Any:
        """Cast to Int64."""
        return _cast(self, dt.int64)

    def half(self) -> Any:
        """Cast to Float16."""
        return _cast(self, dt.float16)

    def float(self) -> Any:
        """Cast to Float32."""
        return _cast(self, dt.float32)

    def bool(self) -> Any:
        """Cast to Bool."""
        return _cast(self, dt.bool_)

    def short(self) -> Any:
        """Cast to Int16."""
        return _cast(self, dt.int16)

    def double(self) -> Any:
        """Cast to Float64."""
        return _cast(self, dt.float64)

    def new_zeros(self, size: Any, *, dtype: DType | None = None) -> Any:
        """Zeros of the shape `size` and of this dtype, unless another is given."""
        return ops.zeros(size, dtype or self.dtype)

    def new_ones(self, size: Any, *, dtype: DType | None = None) -> Any:
        """Ones of the shape `size` and of this dtype, unless another is given."""
        return ops.ones(size, dtype or self.dtype)

    def select(self, condition: Any, y: Any) -> Any:
        """This Tensor where `condition` is True, else `y`."""
        return ops.select(condition, self, y)

    def clamp(self, min: Any = None, max: Any = None) -> Any:
        """The elements limited to the range from `min` to `max`; None means no limit."""
        return ops.clamp(self, min, max)

    clip = clamp

    def masked_fill(self, mask: Any, value: Any) -> Any:
        """`value` where `mask` is True, else this Tensor."""
        return ops.masked_fill(self, mask, value)

    def where(self, condition: Any, y: Any) -> Any:
        """This Tensor where `condition` is True, else `y`."""
        return ops.where(condition, self, y)

    def copy(self) -> Any:
        """A Tensor of the same values that is written independently."""
        return ops.identity(self)

    clone = copy

    def softmax(self, axis: Any = -1) -> Any:
        """See ``ops.softmax``."""
        return ops.softmax(self, axis)


class ShapeMethods(TensorLike):
    """Methods that rearrange elements."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Any:
        """The elements in another shape, one size of which may be -1: ``x.reshape(2, -1)``."""
        return ops.reshape(self, _sizes(shape))

    view = reshape

    def reshape_as(self, other: TensorLike) -> Any:
        """The elements in the shape of `other`."""
        return ops.reshape(self, other.shape)

    view_as = reshape_as

    @_also(dim="axis")
    def squeeze(self, axis: Any = None) -> Any:
        """Without the axes of size 1 (all of them, or those in `axis`)."""
        return ops.squeeze(self) if axis is None else ops.squeeze(self, axis)

    def expand_dims(self, axis: int) -> Any:
        """With a new axis of size 1 at `axis`."""
        return ops.expand_dims(self, axis)

    def unsqueeze(self, dim: int) -> Any:
        """The same as ``expand_dims``."""
        return ops.expand_dims(self, dim)

    def flatten(self, start_dim: Any = 0, end_dim: int = -1, *, order: str = "C") -> Any:
        """The axes from `start_dim` to `end_dim` as one; by default, all: a 1-d Tensor.

        `order` "F" takes the first axis fastest; it may also be the only positional argument.
        """
        if isinstance(start_dim, str):
            start_dim, order = 0, start_dim
        return ops.flatten(self, order, start_dim=start_dim, end_dim=end_dim)

    def narrow(self, axis: int, start: int, length: int) -> Any:
        """The `length` elements of an axis from `start` on."""
        return ops.narrow(self, axis, start, length)

    def gather_nd(self, indices: TensorLike) -> Any:
        """See ``ops.gather_nd``."""
        return ops.gather_nd(self, indices)

    diag, trace, unique = map(_unary, ("diag", "trace", "unique"))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """See ``ops.diagonal``."""
        return ops.diagonal(self, offset, axis1, axis2)

    def movedim(self, source: Any, destination: Any) -> Any:
        """See ``ops.movedim``."""
        return ops.movedim(self, source, destination)

    def take(self, indices: Any, axis: Any = None, mode: str = "clip") -> Any:
        """The slices along `axis` at an index Tensor; None: the elements of the flattened Tensor.

        Positions out of range are moved to the nearest ("clip"), go round ("wrap"), or are an
        IndexError ("raise").
        """
        x, axis = (ops.reshape(self, (-1,)), 0) if axis is None else (self, axis)
        n = x.shape[axis]
        if mode == "clip":
            indices = ops.clamp(indices, 0, n - 1)
        elif mode == "wrap":
            indices = ops.floor_mod(indices, n)
        elif mode != "raise":
            raise ValueError(f"take: mode must be 'clip', 'wrap' or 'raise', not {mode!r}")
        return ops.gather(x, indices, axis)

    def index_add(self, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
        """``alpha * source`` added to the slices along `dim` at the positions in `index`."""
        return ops.index_add(self, index, ops.mul(source, alpha), dim)

    def index_fill(self, axis: int, index: Any, value: Any) -> Any:
        """See ``ops.index_fill``."""
        return ops.index_fill(self, axis, index, value)

    def ravel(self) -> Any:
        """All elements as a 1-d Tensor."""
        return ops.reshape(self, (-1,))

    def transpose(self, *axes: Any) -> Any:
        """Axes in another order: ``x.transpose(0, 2, 1)``, also as one tuple.

        Two ints swap those two axes (as in MindSpore); without arguments the order is reversed.
        """
        if len(axes) == 2:
            return ops.swapaxes(self, *axes)
        return ops.transpose(self, _sizes(axes) or tuple(reversed(range(len(self.shape)))))

    def permute(self, *axes: Any) -> Any:
        """Axes in another order: ``x.permute(2, 0, 1)``, also as one tuple."""
        return ops.transpose(self, _sizes(axes))

    @property
    def T(self) -> Any:
        """The Tensor with its axes reversed."""
        return ops.transpose(self, tuple(reversed(range(len(self.shape)))))

    def t(self) -> Any:
        """The transpose of a Tensor of at most two axes."""
        return self.T

    def swapaxes(self, axis0: int, axis1: int) -> Any:
        """With two axes exchanged."""
        return ops.swapaxes(self, axis0, axis1)

    swapdims = swapaxes

    def broadcast_to(self, *shape: Any) -> Any:
        """Repeated along axes of size 1 until it has `shape`; -1 keeps a size."""
        return ops.broadcast_to(self, _sizes(shape))

    expand = broadcast_to

    def expand_as(self, other: TensorLike) -> Any:
        """Broadcast to the shape of `other`."""
        return ops.broadcast_to(self, other.shape)

    def tile(self, *reps: Any) -> Any:
        """The whole Tensor repeated ``reps[i]`` times along axis i."""
        return ops.tile(self, _sizes(reps))

    def repeat(self, *repeats: Any) -> Any:
        """The whole Tensor repeated, as ``tile``: one number per axis, or more for new axes.

        ``repeat_interleave`` repeats elements.
        """
        times = _sizes(repeats)
        if len(times) < len(self.shape):
            raise ValueError(
                f"repeat needs a number for each of the {len(self.shape)} axes, not {len(times)}; "
                "repeat_interleave repeats the elements"
            )
        return ops.tile(self, times)

    @_also(dim="axis")
    def repeat_interleave(self, repeats: Any, axis: Any = None) -> Any:
        """Each element repeated, along `axis` or (None) of the flattened Tensor."""
        x = self if axis is not None else self.ravel()
        return ops.repeat_interleave(x, repeats, 0 if axis is None else axis)

    @_also(dim="axis")
    def split(self, split_size_or_sections: Any, axis: int = 0) -> Any:
        """A tuple of parts: of an int size each (the last may be smaller), or of listed sizes."""
        return ops.split(self, split_size_or_sections, axis)

    @_also(dim="axis")
    def chunk(self, chunks: int, axis: int = 0) -> Any:
        """A tuple of at most `chunks` parts of equal size; the last may be smaller."""
        return ops.chunk(self, chunks, axis)

    def unbind(self, dim: int = 0) -> Any:
        """A tuple of the slices along an axis."""
        return ops.unstack(self, dim)

    @_also(dim="axis")
    def gather(self, input_indices: Any, axis: Any) -> Any:
        """Slices at an index Tensor: ``x.gather(indices, axis)``.

        With the int first, ``x.gather(dim, index)``, it picks elements: ``ops.gather_elements``.
        """
        if isinstance(input_indices, int):
            return ops.gather_elements(self, input_indices, axis)
        return ops.gather(self, input_indices, axis)

    def gather_elements(self, dim: int, index: Any) -> Any:
        """See ``ops.gather_elements``."""
        return ops.gather_elements(self, dim, index)

    def index_select(self, axis: int, index: Any) -> Any:
        """The slices along `axis` at the positions in a 1-d int Tensor."""
        return ops.index_select(self, axis, index)

    @_also(dim="axis")
    def sort(self, axis: int = -1, descending: bool = False) -> Any:
        """(values in order, their indices) along `axis`."""
        return ops.sort(self, axis, descending)

    @_also(dim="axis")
    def argsort(self, axis: int = -1, descending: bool = False) -> Any:
        """The indices that sort along `axis`."""
        return ops.argsort(self, axis, descending)

    @_also(axis="dim")
    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """(the `k` largest values, their indices) along `dim`."""
        return ops.topk(self, k, dim, largest, sorted)

    def flip(self, dims: Any) -> Any:
        """In reversed order along `dims`."""
        return ops.flip(self, dims)

    def roll(self, shifts: Any, dims: Any) -> Any:
        """With elements moved round along `dims`."""
        return ops.roll(self, shifts, dims)

    def tril(self, diagonal: int = 0) -> Any:
        """The lower triangle, zeros above."""
        return ops.tril(self, diagonal)

    def triu(self, diagonal: int = 0) -> Any:
        """The upper triangle, zeros below."""
        return ops.triu(self, diagonal)

    def nonzero(self) -> Any:
        """The positions of the non-zero elements, an Int64 Tensor of shape (count, ndim)."""
        return ops.nonzero(self)

    def masked_select(self, mask: Any) -> Any:
        """The elements where `mask` is True, as a 1-d Tensor."""
        return ops.masked_select(self, mask)


_reduction = _also(dim="axis", keepdim="keepdims", keep_dims="keepdims")


class ReduceMethods(TensorLike):
    """Methods that reduce axes: `axis` is an int, a tuple of ints, or None for all."""

    __slots__ = ()

    @_reduction
    def sum(self, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
        """The sum; of bool and integers it is an Int64.  ``x.sum(0, True)`` keeps dimensions."""
        if isinstance(dtype, bool):
            dtype, keepdims = None, dtype
        return ops.sum(self, axis, keepdims, dtype=dtype)

    @_reduction
    def mean(self, axis: Any = None, keepdims: Any = False) -> Any:
        """The mean, in the Tensor's own dtype."""
        return ops.mean(self, axis, keepdims)

    @_reduction
    def prod(self, axis: Any = None, keepdims: Any = False, dtype: Any = None) -> Any:
        """The product; of bool and integers it is an Int64."""
        return ops.prod(self, axis, keepdims, dtype)

    def max(self, dim: Any = None, keepdim: Any = False, **keywords: Any) -> Any:
        """The largest element.

        ``x.max()`` and ``x.max(axis=1, keepdims=False)`` give values, ``x.max(1, keepdim)`` a
        tuple of values and indices (as in MindSpore).
        """
        return _extreme(ops.amax, ops.max, self, dim, keepdim, **keywords)

    def min(self, dim: Any = None, keepdim: Any = False, **keywords: Any) -> Any:
        """The smallest element; arguments as in ``max``."""
        return _extreme(ops.amin, ops.min, self, dim, keepdim, **keywords)

    @_reduction
    def amax(self, axis: Any = None, keepdims: Any = False) -> Any:
        """The largest element; gradients are split equally among ties."""
        return ops.amax(self, axis, keepdims)

    @_reduction
    def amin(self, axis: Any = None, keepdims: Any = False) -> Any:
        """The smallest element; gradients are split equally among ties."""
        return ops.amin(self, axis, keepdims)

    @_reduction
    def ptp(self, axis: Any = None, keepdims: Any = False) -> Any:
        """The distance from the smallest to the largest element."""
        return ops.sub(ops.amax(self, axis, keepdims), ops.amin(self, axis, keepdims))

    @_reduction
    def argmax(self, axis: Any = None, keepdims: Any = False) -> Any:
        """The index of the first largest element; None: in the flattened Tensor."""
        return ops.argmax(self, axis, keepdims)

    @_reduction
    def argmin(self, axis: Any = None, keepdims: Any = False) -> Any:
        """The index of the first smallest element; None: in the flattened Tensor."""
        return ops.argmin(self, axis, keepdims)

    @_reduction
    def std(self, axis: Any = None, ddof: Any = 0, keepdims: Any = False) -> Any:
        """The standard deviation, of the population unless `ddof` is 1."""
        return ops.std(self, axis, ddof, keepdims)

    @_reduction
    def var(self, axis: Any = None, ddof: Any = 0, keepdims: Any = False) -> Any:
        """The variance, of the population unless `ddof` is 1."""
        return ops.var(self, axis, ddof, keepdims)

    @_reduction
    def all(self, axis: Any = None, keepdims: Any = False) -> Any:
        """True if all elements are true."""
        return ops.all(self, axis, keepdims)

    @_reduction
    def any(self, axis: Any = None, keepdims: Any = False) -> Any:
        """True if any element is true."""
        return ops.any(self, axis, keepdims)

    @_also(axis="dim", keepdims="keepdim", keep_dims="keepdim")
    def norm(self, ord: Any = None, dim: Any = None, keepdim: Any = False) -> Any:
        """The norm of order `ord` (None: the square root of the sum of squares)."""
        return ops.norm(self, ord, dim, keepdim)

    @_reduction
    def logsumexp(self, axis: Any, keepdims: Any = False) -> Any:
        """log(sum(exp(x))), without overflow."""
        return ops.logsumexp(self, axis, keepdims)

    @_reduction
    def cumsum(self, axis: Any = None, dtype: Any = None) -> Any:
        """The running sum along `axis`; None: of the flattened Tensor."""
        x = ops.reshape(self, (-1,)) if axis is None else self
        return ops.cumsum(x, axis or 0, dtype)

    @_reduction
    def cumprod(self, axis: Any, dtype: Any = None) -> Any:
        """The running product along `axis`."""
        return ops.cumprod(self, axis, dtype)


def _extreme(
    values: Callable, with_indices: Callable, x: Any, dim: Any, keepdim: Any,
    axis: Any = None, keepdims: Any = False, return_indices: Any = False,
) -> Any:  # fmt: skip
    """Tensor.max or Tensor.min: by position (values, indices), by keyword `axis` values alone."""
    if dim is not None:
        return with_indices(x, dim, keepdim)
    if return_indices:
        return with_indices(x, axis, keepdims)
    return values(x, axis, keepdims or keepdim)


# ----------------------------------------------------------------------- methods that write


class WriteMethods(TensorLike):
    """Methods that write the Tensor's cell: every name of it sees the new value."""

    __slots__ = ()

    def _store(self, value: Any) -> Any:
        """Write `value`, cast to this dtype and broadcast to this shape; returns this Tensor."""
        value = ops.cast(as_tensor(value, self.dtype), self.dtype)
        if value.shape != self.shape:
            value = ops.broadcast_to(value, self.shape)
        self._write(value)  # type: ignore[attr-defined]
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        """``x[index] = value``: `value` is cast and broadcast."""
        self._store(ops.setitem(self, index, value))

    def add_(self, other: Any, *, alpha: Any = 1) -> Any:
        """``x = x + alpha * other`` in place."""
        return self._store(ops.add(self, other if alpha == 1 else ops.mul(other, alpha)))

    def sub_(self, other: Any, *, alpha: Any = 1) -> Any:
        """``x = x - alpha * other`` in place."""
        return self._store(ops.sub(self, other if alpha == 1 else ops.mul(other, alpha)))

    def mul_(self, other: Any) -> Any:
        """``x = x * other`` in place."""
        return self._store(ops.mul(self, other))

    def div_(self, other: Any) -> Any:
        """``x = x / other`` in place."""
        return self._store(ops.div(self, other))

    def copy_(self, src: Any) -> Any:
        """Write the values of `src`."""
        return self._store(src)

    def fill_(self, value: Any) -> Any:
        """Write one number into every element."""
        return self._store(value)

    def zero_(self) -> Any:
        """Write zeros."""
        return self._store(0)

    def masked_fill_(self, mask: Any, value: Any) -> Any:
        """Write `value` where `mask` is True."""
        return self._store(ops.masked_fill(self, mask, value))
