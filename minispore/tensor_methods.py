"""The operators and methods of Tensor: each is one call of an ops function.

Both modes share them, because ``ops`` functions only call ``apply``.  What needs an ndarray
(``asnumpy``, ``print``, ``bool``) is in tensor.py.
"""

from __future__ import annotations

import functools
import inspect
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


_ALIKE = (("axis", "dim"), ("keepdims", "keepdim", "keep_dims"))  # what MindSpore calls the same


def _by_either_name(method: Callable) -> Any:
    """Let a method take its keywords under each of their names."""
    known = inspect.signature(method).parameters
    names = {other: n for alike in _ALIKE for n in alike if n in known for other in alike}
    if not names:
        return method

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *args, **{names.get(k, k): v for k, v in kwargs.items()})

    return wrapper


def _method(name: str) -> Any:
    """``ops.<name>`` as a method."""
    function = getattr(ops, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"``ops.{name}`` of this Tensor.\n\n{inspect.getdoc(function)}"
    signature = inspect.signature(function)
    first, *rest = signature.parameters.values()
    here = signature.replace(parameters=[first.replace(name="self"), *rest])
    method.__signature__ = here  # type: ignore[attr-defined]
    return _by_either_name(method)


def _sizes(args: tuple) -> tuple:
    """The ints of ``f(2, 3)`` or ``f((2, 3))``."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        return tuple(args[0])
    return args


def _cast(x: Any, dtype: DType) -> Any:
    """`x` in `dtype`, as a new Tensor also where it has that dtype already."""
    return ops.identity(x) if x.dtype is dtype else ops.cast(x, dtype)


def _casting(dtype: DType) -> Any:
    """A method that casts to a dtype."""

    def method(self: Any) -> Any:
        return _cast(self, dtype)

    method.__doc__ = f"Cast to {dtype}."
    return method


class ElementMethods(TensorLike):
    """Methods that work element by element."""

    __slots__ = ()

    abs, exp, log, sqrt, square = map(_method, ("abs", "exp", "log", "sqrt", "square"))
    rsqrt, reciprocal, sign, neg = map(_method, ("rsqrt", "reciprocal", "sign", "neg"))
    negative, absolute, inv = map(_method, ("neg", "abs", "reciprocal"))
    sin, cos, tan, atan = map(_method, ("sin", "cos", "tan", "atan"))
    asin, acos, sinh, cosh = map(_method, ("asin", "acos", "sinh", "cosh"))
    asinh, acosh, atanh = map(_method, ("asinh", "acosh", "atanh"))
    log2, log10 = map(_method, ("log2", "log10"))
    tanh, sigmoid, relu, erf = map(_method, ("tanh", "sigmoid", "relu", "erf"))
    log1p, expm1, floor, ceil = map(_method, ("log1p", "expm1", "floor", "ceil"))
    round, trunc, logical_not = map(_method, ("round", "trunc", "logical_not"))
    isnan, isinf, isfinite = map(_method, ("isnan", "isinf", "isfinite"))

    add, sub, mul, div = map(_method, ("add", "sub", "mul", "div"))
    subtract, multiply, divide = map(_method, ("sub", "mul", "div"))
    true_divide, floor_divide = map(_method, ("div", "floor_div"))
    pow, matmul, dot = map(_method, ("pow", "matmul", "dot"))
    mm, bmm = map(_method, ("matmul", "bmm"))
    maximum, minimum = map(_method, ("maximum", "minimum"))
    eq, ne, lt, le = map(_method, ("equal", "not_equal", "less", "less_equal"))
    gt, ge = map(_method, ("greater", "greater_equal"))
    equal, not_equal, less, less_equal = eq, ne, lt, le
    greater, greater_equal = gt, ge
    logical_and, logical_or = map(_method, ("logical_and", "logical_or"))
    logical_xor, atan2 = map(_method, ("logical_xor", "atan2"))
    bitwise_and, bitwise_or = map(_method, ("bitwise_and", "bitwise_or"))
    bitwise_xor = _method("bitwise_xor")
    fmod, remainder = map(_method, ("fmod", "remainder"))
    addcmul, addcdiv, addmm = map(_method, ("addcmul", "addcdiv", "addmm"))
    isclose, clamp, clip = map(_method, ("isclose", "clamp", "clip"))
    masked_fill, softmax = map(_method, ("masked_fill", "softmax"))

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

    short, int, long = map(_casting, (dt.int16, dt.int32, dt.int64))
    half, float, double = map(_casting, (dt.float16, dt.float32, dt.float64))
    bool = _casting(dt.bool_)

    def new_zeros(self, size: Any, *, dtype: DType | None = None) -> Any:
        """Zeros of the shape `size` and of this dtype, unless another is given."""
        return ops.zeros(size, dtype or self.dtype)

    def new_ones(self, size: Any, *, dtype: DType | None = None) -> Any:
        """Ones of the shape `size` and of this dtype, unless another is given."""
        return ops.ones(size, dtype or self.dtype)

    def select(self, condition: Any, y: Any) -> Any:
        """This Tensor where `condition` is True, else `y`."""
        return ops.select(condition, self, y)

    def where(self, condition: Any, y: Any) -> Any:
        """This Tensor where `condition` is True, else `y`."""
        return ops.where(condition, self, y)

    def copy(self) -> Any:
        """A Tensor of the same values that is written independently."""
        return ops.identity(self)

    clone = copy


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

    def flatten(self, start_dim: Any = 0, end_dim: int = -1, *, order: str = "C") -> Any:
        """The axes from `start_dim` to `end_dim` as one; by default, all: a 1-d Tensor.

        `order` "F" takes the first axis fastest; it may also be the only positional argument.
        """
        if isinstance(start_dim, str):
            start_dim, order = 0, start_dim
        return ops.flatten(self, order, start_dim=start_dim, end_dim=end_dim)

    diag, trace, unique = map(_method, ("diag", "trace", "unique"))
    expand_dims, unsqueeze, unbind = map(_method, ("expand_dims", "unsqueeze", "unbind"))
    swapaxes, swapdims, movedim = map(_method, ("swapaxes", "swapdims", "movedim"))
    flip, roll, tril, triu = map(_method, ("flip", "roll", "tril", "triu"))
    topk, narrow = map(_method, ("topk", "narrow"))
    gather_nd, gather_elements = map(_method, ("gather_nd", "gather_elements"))
    index_select, index_fill = map(_method, ("index_select", "index_fill"))
    nonzero, masked_select = map(_method, ("nonzero", "masked_select"))
    squeeze, repeat_interleave = map(_method, ("squeeze", "repeat_interleave"))
    split, chunk, sort, argsort = map(_method, ("split", "chunk", "sort", "argsort"))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """See ``ops.diagonal``."""
        return ops.diagonal(self, offset, axis1, axis2)

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

    @_by_either_name
    def gather(self, input_indices: Any, axis: Any) -> Any:
        """Slices at an index Tensor: ``x.gather(indices, axis)``.

        With the int first, ``x.gather(dim, index)``, it picks elements: ``ops.gather_elements``.
        """
        if isinstance(input_indices, int):
            return ops.gather_elements(self, input_indices, axis)
        return ops.gather(self, input_indices, axis)


class ReduceMethods(TensorLike):
    """Methods that reduce axes: `axis` is an int, a tuple of ints, or None for all."""

    __slots__ = ()

    mean, prod, all, any = map(_method, ("mean", "prod", "all", "any"))
    amax, amin, argmax, argmin = map(_method, ("amax", "amin", "argmax", "argmin"))
    std, var, norm = map(_method, ("std", "var", "norm"))
    logsumexp, cumprod = map(_method, ("logsumexp", "cumprod"))

    @_by_either_name
    def sum(self, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
        """The sum; of bool and integers it is an Int64.  ``x.sum(0, True)`` keeps dimensions."""
        if isinstance(dtype, bool):
            dtype, keepdims = None, dtype
        return ops.sum(self, axis, keepdims, dtype=dtype)

    def max(self, dim: Any = None, keepdim: Any = False, **keywords: Any) -> Any:
        """The largest element.

        ``x.max()`` and ``x.max(axis=1, keepdims=False)`` give values, ``x.max(1, keepdim)`` a
        tuple of values and indices (as in MindSpore).
        """
        return _extreme(ops.amax, ops.max, self, dim, keepdim, **keywords)

    def min(self, dim: Any = None, keepdim: Any = False, **keywords: Any) -> Any:
        """The smallest element; arguments as in ``max``."""
        return _extreme(ops.amin, ops.min, self, dim, keepdim, **keywords)

    @_by_either_name
    def ptp(self, axis: Any = None, keepdims: Any = False) -> Any:
        """The distance from the smallest to the largest element."""
        return ops.sub(ops.amax(self, axis, keepdims), ops.amin(self, axis, keepdims))

    @_by_either_name
    def cumsum(self, axis: Any = None, dtype: Any = None) -> Any:
        """The running sum along `axis`; None: of the flattened Tensor."""
        x = ops.reshape(self, (-1,)) if axis is None else self
        return ops.cumsum(x, axis or 0, dtype)


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
