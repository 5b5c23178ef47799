"""Element-wise primitives: one row each.

A row says everything about an op in one place: its name in MindSpore's spelling, its value in
NumPy, the scalar expression from which kernels are generated, its gradient written in ops, and one
of five type rules:

* ANY: operands are promoted to a common type, which is the result's;
* NUMBER: the same, but not for Bool (TypeError);
* FLOAT: the same, but integers and bools become Float32 first;
* INTEGER: as ANY, but not for floats (TypeError);
* BOOL: operands become Bool first.

``gives_bool`` rows (comparisons) have a Bool result.  Half floats are computed in float32 and
rounded once.  Gradients are those of the broadcast operands; ``Elementwise.vjp`` undoes
broadcasting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor, broadcast_shapes
from minispore.dims import same_shape
from minispore.dtype import bool_, float32
from minispore.ops.common import as_int, choice, functional, is_half, require
from minispore.primitive import Primitive, TensorLike, apply, as_tensor, is_number, promoted

ANY, NUMBER, FLOAT, INTEGER, BOOL = "any", "number", "float", "integer", "bool"

Function = Callable[..., Any]


class Elementwise(Primitive, register=False):
    """An op that computes each element of the result from one element of each operand."""

    arity: ClassVar[int]
    takes: ClassVar[str]
    gives_bool: ClassVar[bool]
    numpy: ClassVar[Callable]
    gradient: ClassVar[Callable | None]

    def prepare(self, args: tuple) -> tuple:
        if len(args) != self.arity:
            raise TypeError(f"{self.name} takes {self.arity} operand(s), not {len(args)}")
        if self.takes == BOOL:
            return tuple(ops.cast(as_operand(self.name, a), bool_) for a in args)
        tensors = promoted(self.name, args)
        if self.takes == FLOAT and not tensors[0].dtype.is_float:
            return tuple(ops.cast(t, float32) for t in tensors)
        return tensors

    def infer(self, *operands: AbstractTensor) -> AbstractTensor:
        first = operands[0]
        if self.takes == NUMBER and first.dtype is bool_:
            raise TypeError(f"{self.name} is not defined for Bool; cast to a number type first")
        if self.takes == INTEGER and first.dtype.is_float:
            raise TypeError(f"{self.name} takes integers and bools, not {first.dtype}")
        shape = first.shape
        if self.arity > 1 and not same_shape(operands[1].shape, shape):
            shape = broadcast_shapes(shape, operands[1].shape)
        return AbstractTensor(bool_ if self.gives_bool else first.dtype, shape)

    def eval(self, *arrays: np.ndarray) -> Any:
        if is_half(arrays[0]):
            arrays = tuple(a.astype(np.float32) for a in arrays)
        return type(self).numpy(*arrays)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        if self.gradient is None:
            return (None,) * self.arity
        grads = type(self).gradient(*inputs, out, dout)  # type: ignore[misc]
        if self.arity == 1:
            return (grads,)
        return tuple(ops.sum_to(g, x.shape) for g, x in zip(grads, inputs, strict=True))


def as_operand(name: str, value: Any) -> Any:
    """A Tensor from a Tensor or a number; TypeError for anything else."""
    if isinstance(value, TensorLike) or is_number(value):
        return as_tensor(value)
    raise TypeError(f"{name} takes Tensors and numbers, not {type(value).__name__} ({value!r:.40})")


def row(
    name: str,
    arity: int,
    takes: str,
    numpy: Callable,
    expr: str,
    gradient: Callable | None = None,
    gives_bool: bool = False,
) -> type[Elementwise]:
    """Define a row of the table.  Without a gradient, none flows to any operand."""
    body = {
        "arity": arity, "takes": takes, "numpy": staticmethod(numpy), "expr": expr,
        "gradient": gradient and staticmethod(gradient), "gives_bool": gives_bool,
        "__doc__": f"Element by element: ``{expr.format('x', 'y')}``.", "__module__": __name__,
    }  # fmt: skip
    return type(name, (Elementwise,), body)


# ------------------------------------------------------------------------ NumPy where it lacks


def _integers_kept(function: Callable) -> Callable:
    """A rounding function that leaves integers as they are."""
    return lambda x: x.copy() if x.dtype.kind in "iub" else function(x)


def _relu(x: np.ndarray) -> Any:
    return np.maximum(x, x.dtype.type(0)) + x.dtype.type(0)  # + 0 makes -0.0 a plain zero


def _power(x: np.ndarray, y: np.ndarray) -> Any:
    """x ** y; a negative int exponent is refused by a Check before, and must not raise here."""
    return np.power(x, np.maximum(y, 0) if y.dtype.kind == "i" else y)


def _truncated_div(x: np.ndarray, y: np.ndarray) -> Any:
    if x.dtype.kind == "f":
        return np.trunc(x / y)
    return (x - np.fmod(x, y)) // y


def _erf(x: np.ndarray) -> Any:
    from scipy.special import erf  # 0.2 s to import: paid by those who use it

    return erf(x)


def _erfc(x: np.ndarray) -> Any:
    from scipy.special import erfc

    return erfc(x)


def _sigmoid(x: np.ndarray) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu_tanh(x: np.ndarray) -> Any:
    return 0.5 * x * (1 + np.tanh(_GELU_SCALE * (x + _GELU_CUBE * x * x * x)))


_GELU_SCALE, _GELU_CUBE = math.sqrt(2 / math.pi), 0.044715  # of the approximation by tanh
_SQRT_HALF = math.sqrt(0.5)
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_LOG2, _LOG10 = math.log(2), math.log(10)

# ------------------------------------------------------------------------ gradients of many lines


def _share(wins: Callable, mine: Any, other: Any, dout: Any) -> Any:
    """The cotangent where `mine` wins, half of it at ties: the gradient of Maximum, Minimum."""
    tied = ops.select(ops.equal(mine, other), 0.5 * dout, ops.zeros_like(dout))
    return ops.select(wins(mine, other), dout, tied)


def _pow_gradient(x: Any, y: Any, out: Any, dout: Any) -> tuple:
    """d/dx = y x^(y-1), which is 0 for y = 0 (also at x = 0); d/dy = out log(x), 0 at x = 0."""
    one = ops.ones_like(x)
    safe = ops.select(ops.isinf(one / x), one, x)
    base = ops.select(ops.equal(y, ops.zeros_like(y)), safe, x)
    slope = y * ops.pow(base, y - 1)
    log = ops.log(ops.select(ops.equal(x, ops.zeros_like(x)), one, x))
    return dout * slope, dout * out * log


def _atan2_gradient(y: Any, x: Any, out: Any, dout: Any) -> tuple:
    scaled = dout / (x * x + y * y)
    return scaled * x, -(scaled * y)


def _silu_gradient(x: Any, out: Any, dout: Any) -> Any:
    sigmoid = ops.sigmoid(x)
    return dout * (sigmoid + out * (1 - sigmoid))


def _gelu_tanh_gradient(x: Any, out: Any, dout: Any) -> Any:
    t = ops.tanh(_GELU_SCALE * (x + _GELU_CUBE * x * x * x))
    inner = _GELU_SCALE * (1 + 3 * _GELU_CUBE * x * x)
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)


def _gelu_gradient(x: Any, out: Any, dout: Any) -> Any:
    density = _SQRT_HALF / math.sqrt(math.pi) * ops.exp(-0.5 * x * x)
    return dout * (0.5 * (1 + ops.erf(_SQRT_HALF * x)) + x * density)


# ---------------------------------------------------------------------------------- the table
# gradients: lambda operands..., out, d: one cotangent (or, of two operands, a pair of them)

# fmt: off
Add = row("Add", 2, ANY, np.add, "{0} + {1}", lambda x, y, out, d: (d, d))
Sub = row("Sub", 2, NUMBER, np.subtract, "{0} - {1}", lambda x, y, out, d: (d, -d))
Mul = row("Mul", 2, ANY, np.multiply, "{0} * {1}", lambda x, y, out, d: (d * y, d * x))
Div = row("Div", 2, FLOAT, np.true_divide, "{0} / {1}",
          lambda x, y, out, d: (d / y, -(d * out) / y))
Maximum = row("Maximum", 2, ANY, np.maximum, "({0} if {0} > {1} or {0} != {0} else {1})",
              lambda x, y, out, d: (_share(greater, x, y, d), _share(greater, y, x, d)))
Minimum = row("Minimum", 2, ANY, np.minimum, "({0} if {0} < {1} or {0} != {0} else {1})",
              lambda x, y, out, d: (_share(less, x, y, d), _share(less, y, x, d)))
Atan2 = row("Atan2", 2, FLOAT, np.arctan2, "atan2({0}, {1})", _atan2_gradient)
TruncateDiv = row("TruncateDiv", 2, NUMBER, _truncated_div, "trunc({0} / {1})")

Neg = row("Neg", 1, NUMBER, np.negative, "-{0}", lambda x, out, d: -d)
Abs = row("Abs", 1, ANY, np.abs, "abs({0})", lambda x, out, d: d * ops.sign(x))
Sign = row("Sign", 1, NUMBER, np.sign, "sign({0})")
Square = row("Square", 1, NUMBER, np.square, "{0} * {0}", lambda x, out, d: 2 * d * x)
Sqrt = row("Sqrt", 1, FLOAT, np.sqrt, "sqrt({0})", lambda x, out, d: 0.5 * d / out)
Rsqrt = row("Rsqrt", 1, FLOAT, lambda x: 1 / np.sqrt(x), "1 / sqrt({0})",
            lambda x, out, d: -0.5 * d * out * out * out)
Reciprocal = row("Reciprocal", 1, FLOAT, lambda x: 1 / x, "1 / {0}",
                 lambda x, out, d: -(d * out * out))
Exp = row("Exp", 1, FLOAT, np.exp, "exp({0})", lambda x, out, d: d * out)
Expm1 = row("Expm1", 1, FLOAT, np.expm1, "expm1({0})", lambda x, out, d: d * (out + 1))
Log = row("Log", 1, FLOAT, np.log, "log({0})", lambda x, out, d: d / x)
Log1p = row("Log1p", 1, FLOAT, np.log1p, "log1p({0})", lambda x, out, d: d / (1 + x))
Log2 = row("Log2", 1, FLOAT, np.log2, "log2({0})", lambda x, out, d: d / (_LOG2 * x))
Log10 = row("Log10", 1, FLOAT, np.log10, "log10({0})", lambda x, out, d: d / (_LOG10 * x))
Sin = row("Sin", 1, FLOAT, np.sin, "sin({0})", lambda x, out, d: d * ops.cos(x))
Cos = row("Cos", 1, FLOAT, np.cos, "cos({0})", lambda x, out, d: -(d * ops.sin(x)))
Tan = row("Tan", 1, FLOAT, np.tan, "tan({0})", lambda x, out, d: d * (1 + out * out))
Asin = row("Asin", 1, FLOAT, np.arcsin, "asin({0})", lambda x, out, d: d * ops.rsqrt(1 - x * x))
Acos = row("Acos", 1, FLOAT, np.arccos, "acos({0})", lambda x, out, d: -(d * ops.rsqrt(1 - x * x)))
Atan = row("Atan", 1, FLOAT, np.arctan, "atan({0})", lambda x, out, d: d / (1 + x * x))
Sinh = row("Sinh", 1, FLOAT, np.sinh, "sinh({0})", lambda x, out, d: d * ops.cosh(x))
Cosh = row("Cosh", 1, FLOAT, np.cosh, "cosh({0})", lambda x, out, d: d * ops.sinh(x))
Asinh = row("Asinh", 1, FLOAT, np.arcsinh, "asinh({0})", lambda x, out, d: d * ops.rsqrt(x * x + 1))
Acosh = row("Acosh", 1, FLOAT, np.arccosh, "acosh({0})", lambda x, out, d: d * ops.rsqrt(x * x - 1))
Atanh = row("Atanh", 1, FLOAT, np.arctanh, "atanh({0})", lambda x, out, d: d / (1 - x * x))
Floor = row("Floor", 1, NUMBER, _integers_kept(np.floor), "floor({0})")
Ceil = row("Ceil", 1, NUMBER, _integers_kept(np.ceil), "ceil({0})")
Round = row("Round", 1, NUMBER, _integers_kept(np.round), "round({0})")  # half to even
Trunc = row("Trunc", 1, NUMBER, _integers_kept(np.trunc), "trunc({0})")
Erf = row("Erf", 1, FLOAT, _erf, "erf({0})",
          lambda x, out, d: _TWO_OVER_SQRT_PI * d * ops.exp(-(x * x)))
Erfc = row("Erfc", 1, FLOAT, _erfc, "erfc({0})",
           lambda x, out, d: -_TWO_OVER_SQRT_PI * d * ops.exp(-(x * x)))
Tanh = row("Tanh", 1, FLOAT, np.tanh, "tanh({0})", lambda x, out, d: d * (1 - out * out))
Sigmoid = row("Sigmoid", 1, FLOAT, _sigmoid, "1 / (1 + exp(-{0}))",
              lambda x, out, d: d * out * (1 - out))
ReLU = row("ReLU", 1, NUMBER, _relu, "(0 if {0} <= 0 else {0})",
           lambda x, out, d: ops.select(greater(out, 0), d, ops.zeros_like(d)))
SiLU = row("SiLU", 1, FLOAT, lambda x: x * _sigmoid(x), "{0} / (1 + exp(-{0}))", _silu_gradient)
Softplus = row("Softplus", 1, FLOAT, lambda x: np.logaddexp(x, x.dtype.type(0)),
               "({0} if {0} > 0 else 0) + log1p(exp(-abs({0})))",
               lambda x, out, d: d * ops.sigmoid(x))
GeLU = row("GeLU", 1, FLOAT, _gelu_tanh,
           "0.5 * {0} * (1 + tanh(0.7978845608028654 * ({0} + 0.044715 * {0} * {0} * {0})))",
           _gelu_tanh_gradient)
GeLUExact = row("GeLUExact", 1, FLOAT, lambda x: 0.5 * x * (1 + _erf(_SQRT_HALF * x)),
                "0.5 * {0} * (1 + erf(0.7071067811865476 * {0}))", _gelu_gradient)

Equal = row("Equal", 2, ANY, np.equal, "{0} == {1}", gives_bool=True)
NotEqual = row("NotEqual", 2, ANY, np.not_equal, "{0} != {1}", gives_bool=True)
Less = row("Less", 2, ANY, np.less, "{0} < {1}", gives_bool=True)
LessEqual = row("LessEqual", 2, ANY, np.less_equal, "{0} <= {1}", gives_bool=True)
Greater = row("Greater", 2, ANY, np.greater, "{0} > {1}", gives_bool=True)
GreaterEqual = row("GreaterEqual", 2, ANY, np.greater_equal, "{0} >= {1}", gives_bool=True)
IsNan = row("IsNan", 1, ANY, np.isnan, "{0} != {0}", gives_bool=True)
IsInf = row("IsInf", 1, ANY, np.isinf, "isinf({0})", gives_bool=True)
IsFinite = row("IsFinite", 1, ANY, np.isfinite, "isfinite({0})", gives_bool=True)
LogicalAnd = row("LogicalAnd", 2, BOOL, np.logical_and, "{0} and {1}", gives_bool=True)
LogicalOr = row("LogicalOr", 2, BOOL, np.logical_or, "{0} or {1}", gives_bool=True)
LogicalXor = row("LogicalXor", 2, BOOL, np.logical_xor, "{0} != {1}", gives_bool=True)
LogicalNot = row("LogicalNot", 1, BOOL, np.logical_not, "not {0}", gives_bool=True)
BitwiseAnd = row("BitwiseAnd", 2, INTEGER, np.bitwise_and, "{0} & {1}")
BitwiseOr = row("BitwiseOr", 2, INTEGER, np.bitwise_or, "{0} | {1}")
BitwiseXor = row("BitwiseXor", 2, INTEGER, np.bitwise_xor, "{0} ^ {1}")
# fmt: on

RealDiv = Div  # in MindSpore RealDiv keeps integers; here both are true division


class _ByInteger(Elementwise, register=False):
    """Division of integers, and their powers: the class whose call checks the second operand."""

    arity = 2
    takes = NUMBER
    gives_bool = False

    def __call__(self, *args: Any) -> Any:
        tensors = self.prepare(args)
        if tensors[0].dtype.is_integer:
            self.check(args[1], tensors[1])
        return apply(self, *tensors)

    def check(self, given: Any, divisor: Any) -> None:
        """Raise ZeroDivisionError at run time if a divisor is zero; a constant is known now."""
        if isinstance(given, int) and given:
            return
        message = f"integer division by zero in {self.name}; use floats to get inf or nan"
        require(ops.all(ops.not_equal(divisor, 0)), ZeroDivisionError, message)


class FloorDiv(_ByInteger):
    """``x // y`` as in Python: the quotient rounded down.  No gradient flows."""

    expr = "{0} // {1}"
    numpy = staticmethod(np.floor_divide)
    gradient = None


class FloorMod(_ByInteger):
    """``x % y`` as in Python: the remainder has the sign of `y`."""

    expr = "{0} % {1}"
    numpy = staticmethod(np.remainder)
    gradient = staticmethod(lambda x, y, out, d: (d, -(d * ops.floor_div(x, y))))


class Mod(_ByInteger):
    """The remainder of truncated division: it has the sign of `x` (C's ``fmod``)."""

    expr = "fmod({0}, {1})"
    numpy = staticmethod(np.fmod)
    gradient = staticmethod(lambda x, y, out, d: (d, -(d * ops.trunc(x / y))))


class Pow(_ByInteger):
    """``x ** y``."""

    expr = "pow({0}, {1})"
    numpy = staticmethod(_power)
    gradient = staticmethod(_pow_gradient)

    def check(self, given: Any, divisor: Any) -> None:
        """Raise ValueError at run time if there is a negative exponent."""
        if isinstance(given, int) and given >= 0:
            return
        message = "integers to negative integer powers are not integers; make one operand a float"
        require(ops.all(ops.greater_equal(divisor, 0)), ValueError, message)


class Select(Elementwise):
    """Elements of the second operand where the first (Bool) is true, else of the third."""

    arity = 3
    takes = ANY
    gives_bool = False
    expr = "({1} if {0} else {2})"

    def prepare(self, args: tuple) -> tuple:
        if len(args) != 3:
            raise TypeError(f"Select takes 3 operands, not {len(args)}")
        return (ops.cast(as_operand("Select", args[0]), bool_), *promoted("Select", args[1:]))

    def infer(self, *operands: AbstractTensor) -> AbstractTensor:
        condition, x, y = operands
        return AbstractTensor(x.dtype, broadcast_shapes(condition.shape, x.shape, y.shape))

    def eval(self, *arrays: np.ndarray) -> Any:
        return np.where(*arrays)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        condition, x, y = inputs
        zero = ops.zeros_like(dout)
        return (
            None,
            ops.sum_to(ops.select(condition, dout, zero), x.shape),
            ops.sum_to(ops.select(condition, zero, dout), y.shape),
        )


# ----------------------------------------------------------------------------------- functions
# Shapes: operands broadcast as in NumPy (ValueError if they cannot).  Types: see the type rules.

_TYPES = {
    ANY: "The result has the operands' common type.",
    NUMBER: "The result has the operands' common type; Bool is a TypeError.",
    FLOAT: "Integers and bools become Float32 first.",
    INTEGER: "The result has the operands' common type; floats are a TypeError.",
    BOOL: "Operands become Bool first.",
}


def _function(prim: type[Elementwise], name: str, doc: str) -> Function:
    """The function of a row, with a docstring that states its shapes and types."""
    shapes = "Operands broadcast; ValueError if they cannot. " if prim.arity == 2 else ""
    types = "The result is Bool." if prim.gives_bool else _TYPES[prim.takes]
    return functional(prim, name, f"{doc}\n\n{shapes}{types}", binary=prim.arity == 2)


add: Function = _function(Add, "add", "The sum, element by element (of bools: or).")
sub: Function = _function(Sub, "sub", "The difference, element by element.")
mul: Function = _function(Mul, "mul", "The product, element by element (of bools: and).")
maximum: Function = _function(
    Maximum, "maximum", "The larger element; nan if either is; ties share the gradient."
)
minimum: Function = _function(
    Minimum, "minimum", "The smaller element; nan if either is; ties share the gradient."
)
atan2: Function = _function(
    Atan2, "atan2", "The angle of the point (other, input), from -pi to pi."
)
neg: Function = _function(Neg, "neg", "The negative of each element.")
abs: Function = _function(Abs, "abs", "The absolute value of each element; its gradient at 0 is 0.")
sign: Function = _function(
    Sign, "sign", "-1, 0 or 1 by each element's sign (nan stays nan); no gradient."
)
square: Function = _function(Square, "square", "The square of each element.")
rsqrt: Function = _function(Rsqrt, "rsqrt", "1 / sqrt(x) of each element.")
reciprocal: Function = _function(Reciprocal, "reciprocal", "1 / x of each element.")
exp: Function = _function(Exp, "exp", "e to the power of each element.")
expm1: Function = _function(Expm1, "expm1", "exp(x) - 1, exact for small x.")
log: Function = _function(Log, "log", "The natural logarithm of each element.")
log1p: Function = _function(Log1p, "log1p", "log(1 + x), exact for small x.")
log2: Function = _function(Log2, "log2", "The base-2 logarithm of each element.")
log10: Function = _function(Log10, "log10", "The base-10 logarithm of each element.")
sin: Function = _function(Sin, "sin", "The sine of each element.")
cos: Function = _function(Cos, "cos", "The cosine of each element.")
tan: Function = _function(Tan, "tan", "The tangent of each element.")
asin: Function = _function(Asin, "asin", "The inverse sine of each element, nan outside [-1, 1].")
acos: Function = _function(Acos, "acos", "The inverse cosine of each element, nan outside [-1, 1].")
atan: Function = _function(Atan, "atan", "The inverse tangent of each element.")
sinh: Function = _function(Sinh, "sinh", "The hyperbolic sine of each element.")
cosh: Function = _function(Cosh, "cosh", "The hyperbolic cosine of each element.")
asinh: Function = _function(Asinh, "asinh", "The inverse hyperbolic sine of each element.")
acosh: Function = _function(Acosh, "acosh", "The inverse hyperbolic cosine of each element.")
atanh: Function = _function(Atanh, "atanh", "The inverse hyperbolic tangent of each element.")
floor: Function = _function(Floor, "floor", "Each element rounded down; no gradient.")
ceil: Function = _function(Ceil, "ceil", "Each element rounded up; no gradient.")
trunc: Function = _function(Trunc, "trunc", "Each element rounded towards zero; no gradient.")
erf: Function = _function(Erf, "erf", "The error function of each element.")
erfc: Function = _function(Erfc, "erfc", "1 less the error function of each element.")
equal: Function = _function(Equal, "equal", "Where the operands are equal.")
not_equal: Function = _function(NotEqual, "not_equal", "Where the operands differ.")
less: Function = _function(Less, "less", "Where the first operand is less than the second.")
less_equal: Function = _function(
    LessEqual, "less_equal", "Where the first operand is at most the second."
)
greater: Function = _function(
    Greater, "greater", "Where the first operand is greater than the second."
)
greater_equal: Function = _function(
    GreaterEqual, "greater_equal", "Where the first operand is at least the second."
)
isnan: Function = _function(IsNan, "isnan", "Where an element is nan.")
isinf: Function = _function(IsInf, "isinf", "Where an element is inf or -inf.")
isfinite: Function = _function(
    IsFinite, "isfinite", "Where an element is neither nan nor infinite."
)
logical_and: Function = _function(
    LogicalAnd, "logical_and", "Where both operands are true (not zero)."
)
logical_or: Function = _function(
    LogicalOr, "logical_or", "Where at least one operand is true (not zero)."
)
logical_xor: Function = _function(
    LogicalXor, "logical_xor", "Where exactly one operand is true (not zero)."
)
logical_not: Function = _function(LogicalNot, "logical_not", "Where an element is false (zero).")

bitwise_and: Function = _function(
    BitwiseAnd, "bitwise_and", "Bits that are set in both operands; of bools, and."
)
bitwise_or: Function = _function(
    BitwiseOr, "bitwise_or", "Bits that are set in any operand; of bools, or."
)
bitwise_xor: Function = _function(
    BitwiseXor, "bitwise_xor", "Bits that are set in one operand only; of bools, exclusive or."
)

eq, ne, lt, le, gt, ge = equal, not_equal, less, less_equal, greater, greater_equal
negative, absolute, multiply, arctan2, arctan = neg, abs, mul, atan2, atan
tensor_add, tensor_sub, tensor_mul, tensor_exp = add, sub, mul, exp
tensor_lt, tensor_le, tensor_gt, tensor_ge = lt, le, gt, ge


def sqrt(x: Any) -> Any:
    """The square root of each element; nan for negative ones; its gradient at 0 is inf.

    Integers and bools become Float32 first.  MindSpore: ``ops.sqrt``, ``ops.Sqrt``.
    """
    return apply(Sqrt(), x)


def round(input: Any, *, decimals: int = 0) -> Any:
    """Each element rounded to the nearest integer (half to even), or to `decimals` digits.

    The result has the operand's type; no gradient flows.  MindSpore: ``ops.round``, ``ops.Round``.
    """
    if as_int("decimals", decimals) == 0:
        return apply(Round(), input)
    scale = 10.0**decimals
    return ops.cast(apply(Round(), input * scale) / scale, input.dtype)


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """The quotient, element by element: of integers it is Float32; x / 0 is inf or nan.

    `rounding_mode` "floor" rounds it down (``floor_div``), "trunc" towards zero; both keep
    integers.  Operands broadcast; ValueError if they cannot, or for another mode.
    MindSpore: ``ops.div``, ``ops.Div``.
    """
    choice("rounding_mode", rounding_mode, (None, "floor", "trunc"))
    if rounding_mode == "floor":
        return FloorDiv()(input, other)
    return apply(TruncateDiv() if rounding_mode == "trunc" else Div(), input, other)


divide = tensor_div = div


def true_divide(dividend: Any, divisor: Any) -> Any:
    """The quotient, element by element, as ``div``.  MindSpore: ``ops.true_divide``."""
    return apply(Div(), dividend, divisor)


def subtract(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``input - alpha * other``, element by element.  MindSpore: ``ops.subtract``."""
    return sub(input, other if isinstance(alpha, int) and alpha == 1 else other * alpha)


def floor_div(x: Any, y: Any) -> Any:
    """``x // y``: the quotient rounded down, in the operands' common type; no gradient flows.

    Operands broadcast (ValueError).  An integer divided by 0 raises ZeroDivisionError when the
    program runs; MindSpore gives 2147483647.  MindSpore: ``ops.floor_div``, ``ops.FloorDiv``.
    """
    return FloorDiv()(x, y)


tensor_floordiv = floor_div


def floor_divide(input: Any, other: Any) -> Any:
    """``input // other``, as ``floor_div``.  MindSpore: ``ops.floor_divide``."""
    return FloorDiv()(input, other)


def floor_mod(x: Any, y: Any) -> Any:
    """``x % y`` as in Python: the remainder has the sign of `y`.

    Operands broadcast (ValueError).  An integer modulo 0 raises ZeroDivisionError when the program
    runs. MindSpore: ``ops.floor_mod``, ``ops.FloorMod``.
    """
    return FloorMod()(x, y)


def remainder(input: Any, other: Any) -> Any:
    """``input % other``, as ``floor_mod``.  MindSpore: ``ops.remainder``."""
    return FloorMod()(input, other)


mod = tensor_mod = remainder


def fmod(input: Any, other: Any) -> Any:
    """The remainder of truncated division: it has the sign of `input`.

    Operands broadcast (ValueError).  An integer modulo 0 raises ZeroDivisionError when the program
    runs. MindSpore: ``ops.fmod``, ``ops.Mod``.
    """
    return Mod()(input, other)


def pow(input: Any, exponent: Any) -> Any:
    """``input ** exponent``, element by element, in the operands' common type.

    Operands broadcast (ValueError).  An integer to a negative integer power raises ValueError when
    the program runs.  The gradient to `exponent` is 0 where `input` is 0 and nan where it is
    negative.  MindSpore: ``ops.pow``, ``ops.Pow``.
    """
    return Pow()(input, exponent)


tensor_pow = pow


def select(condition: Any, input: Any, other: Any) -> Any:
    """Elements of `input` where `condition` is true, else of `other`; all three broadcast.

    `input` and `other` (Tensors or numbers) take their common type; `condition` becomes Bool.
    MindSpore: ``ops.select``, ``ops.Select``.
    """
    return apply(Select(), condition, input, other)


def where(condition: Any, input: Any, other: Any) -> Any:
    """The same as ``select``.  MindSpore: ``ops.where``."""
    return apply(Select(), condition, input, other)


def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Each element, raised to `min` and lowered to `max` (Tensors or numbers that broadcast).

    The gradient flows where ``min <= input <= max``, bounds included.  ValueError if both bounds
    are None. MindSpore: ``ops.clamp``.
    """
    if min is None and max is None:
        raise ValueError("clamp needs at least one of min and max")
    return _clipped(_clipped(input, min, Less), max, Greater)


def _clipped(x: Any, bound: Any, beyond: type[Elementwise]) -> Any:
    if bound is None:
        return x
    return select(apply(beyond(), x, bound), bound, x)


def clip_by_value(x: Any, clip_value_min: Any = None, clip_value_max: Any = None) -> Any:
    """Each element, raised to `clip_value_min` and lowered to `clip_value_max`.

    At a bound, x and the bound share the gradient, as in ``maximum`` (``clamp`` gives it to x).
    ValueError if both bounds are None.  MindSpore: ``ops.clip_by_value``.
    """
    if clip_value_min is None and clip_value_max is None:
        raise ValueError("clip_by_value needs at least one bound")
    raised = x if clip_value_min is None else maximum(x, clip_value_min)
    return raised if clip_value_max is None else minimum(raised, clip_value_max)


clip = clamp


def lerp(input: Any, end: Any, weight: Any) -> Any:
    """``input + weight * (end - input)``; all three broadcast.  MindSpore: ``ops.lerp``."""
    return input + weight * (end - input)


def isclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Where ``|input - other| <= atol + rtol * |other|``; infinities are close to themselves.

    Two nans are close only with `equal_nan`.  The operands broadcast; the result is Bool.
    MindSpore: ``ops.isclose``.
    """
    near = less_equal(abs(input - other), atol + rtol * abs(other))
    finite = logical_and(isfinite(input), isfinite(other))
    close = logical_or(equal(input, other), logical_and(near, finite))
    return logical_or(close, logical_and(isnan(input), isnan(other))) if equal_nan else close
