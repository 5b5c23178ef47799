"""The primitives of the graph itself: tuples, Python numbers, stacks, effects.

Users rarely call these: the front end makes them for Python's own constructs, J for its stacks.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from minispore.abstract import (
    STACK,
    TOKEN,
    Abstract,
    AbstractScalar,
    AbstractTensor,
    AbstractTuple,
    symbols_of,
)
from minispore.dtype import DType, float32
from minispore.primitive import (
    REGISTRY,
    Primitive,
    ScalarLike,
    TensorLike,
    apply,
    as_tensor,
    eager_handler,
)
from minispore.tree import flatten, unflatten


class Structural(Primitive, register=False):
    """A primitive whose arguments are taken as they are: nodes, Scalars, Python numbers."""

    def prepare(self, args: tuple) -> tuple:
        return args


# ------------------------------------------------------------------------------------- tuples


class MakeTuple(Structural):
    """Several values as one."""

    def infer(self, *items: Abstract) -> Abstract:
        return AbstractTuple(items)

    def eval(self, *items: Any) -> Any:
        return items


class TupleGetItem(Structural):
    """Item `index` of a tuple."""

    def infer(self, items: AbstractTuple) -> Abstract:
        return items.items[self.attrs["index"]]

    def eval(self, items: tuple) -> Any:
        return items[self.attrs["index"]]


class Depend(Structural):
    """The first operand, which is not there before the second.

    To the passes it is another value than the first operand: what is recomputed from it is not
    merged with what was computed before.  (MindSpore: ``ops.Depend``.  There it also orders
    effects; here these keep program order by themselves, and a user's call is the first operand.)
    """

    def __call__(self, value: Any, expr: Any) -> Any:
        return value

    def infer(self, value: Abstract, expr: Abstract) -> Abstract:
        return value

    def eval(self, value: Any, expr: Any) -> Any:
        return value

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return dout, None


class Known(Structural):
    """The last operand: what the primitive `op` makes of the others, whose gradient it has.

    Attributes: `op`, and its own.  J makes it and knows its rule (autodiff/sink.py); no pass before
    J takes it for the last operand, and one after J does.
    """

    @property
    def op(self) -> Primitive:
        """The primitive `op` itself."""
        attrs = {k: v for k, v in self.attrs.items() if k != "op"}
        return REGISTRY[self.attrs["op"]].bound(**attrs)

    def infer(self, *operands: Abstract) -> Abstract:
        return operands[-1]

    def eval(self, *operands: Any) -> Any:
        return operands[-1]


# ------------------------------------------------------------ numbers that vary at run time

_INT64 = range(-(2**63), 2**63)


def checked_int(value: Any) -> Any:
    """`value`, if a 64-bit integer can hold it; a graph's ints have 64 bits."""
    if type(value) is int and value not in _INT64:
        raise OverflowError(
            f"{value} does not fit the 64-bit ints of a graph; use float or a constant"
        )
    return value


class ScalarPrimitive(Structural, register=False):
    """An operation on Python numbers, with Python's own semantics.

    `rule` names the result's kind: "number" (int unless an operand is a float), "float", "bool",
    "bits" (bool of bools, else int), "round" (int, but float with digits of a float).
    """

    python: Callable
    rule = "number"

    def infer(self, *operands: AbstractScalar) -> Abstract:
        kinds = [o.kind for o in operands]
        if self.rule == "bool" or (self.rule == "bits" and set(kinds) == {bool}):
            return AbstractScalar(bool)
        if self.rule == "round" and len(kinds) == 1:
            return AbstractScalar(int)
        is_float = self.rule == "float" or float in kinds
        return AbstractScalar(float if is_float else int)

    def eval(self, *operands: Any) -> Any:
        return checked_int(type(self).python(*operands))


def _is_float(value: Any) -> bool:
    return getattr(value, "kind", type(value)) is float


def _may_divide_by_zero(self: Primitive, x: Any, y: Any) -> bool:
    return isinstance(y, ScalarLike) or y == 0


def _may_overflow(self: Primitive, x: Any, y: Any) -> bool:
    return isinstance(y, ScalarLike) or y < 0 or _is_float(x) or _is_float(y)


def _may_be_no_int(self: Primitive, x: Any, *digits: Any) -> bool:
    return _is_float(x) and not digits


def _scalar(
    name: str,
    python: Callable,
    rule: str = "number",
    vjp: Callable | None = None,
    can_fail: Callable[..., bool] = Primitive.can_fail,
) -> None:
    """Define a row of the table of scalar operations."""

    def rule_of_gradient(self: Primitive, inputs: tuple, out: Any, dout: Any) -> tuple:
        assert vjp is not None
        return vjp(*inputs, out, dout)

    body: dict[str, Any] = {"python": staticmethod(python), "rule": rule, "can_fail": can_fail}
    if vjp is not None:
        body["vjp"] = rule_of_gradient
    type(name, (ScalarPrimitive,), body)


def _power(x: Any, y: Any) -> Any:
    value = x**y
    if isinstance(value, complex):
        raise ValueError(f"{x!r} ** {y!r} is complex; a graph has real numbers only")
    return int(value) if isinstance(x, int) and isinstance(y, int) else value


def _int_power_guard(x: Any, y: Any) -> Any:
    if type(x) in (int, bool) and type(y) in (int, bool) and y < 0:
        raise ValueError("int ** negative int that is known only at run time: make one a float")
    return _power(x, y)


def _power_gradient(x: Any, y: Any, out: Any, d: Any) -> tuple:
    """As for Tensors (elementwise.py): d/dx = y x^(y-1), d/dy = out log(x)."""
    slope = y * x ** _pick((y == 0) & (abs(x) < 1e-300), 1.0, y - 1.0)
    log = apply(REGISTRY["ScalarLog"].bound(), x) if isinstance(x, ScalarLike) else _log(x)
    return d * slope, d * out * log


def _log(x: float) -> float:
    """The logarithm of a number, as the gradient of a power needs it: 0 at 0, nan below."""
    return math.log(x) if x > 0 else x * math.nan if x else 0.0


def _pick(condition: Any, if_true: Any, if_false: Any) -> Any:
    """One of two numbers."""
    if isinstance(condition, bool):
        return if_true if condition else if_false
    index = apply(ScalarCast.bound(kind=int), condition)
    return apply(ScalarPick.bound(), index, if_false, if_true)


_scalar("ScalarAdd", operator.add, vjp=lambda x, y, out, d: (d, d))
_scalar("ScalarSub", operator.sub, vjp=lambda x, y, out, d: (d, -d))
_scalar("ScalarMul", operator.mul, vjp=lambda x, y, out, d: (d * y, d * x))
_scalar(
    "ScalarDiv",
    operator.truediv,
    "float",
    lambda x, y, out, d: (d / y, -(d * out) / y),
    can_fail=_may_divide_by_zero,
)
_scalar(
    "ScalarFloorDiv",
    operator.floordiv,
    vjp=lambda x, y, out, d: (None, None),  # it is constant, but for its steps
    can_fail=_may_divide_by_zero,
)
_scalar(
    "ScalarMod",
    operator.mod,
    vjp=lambda x, y, out, d: (d, -(d * (x // y))),
    can_fail=_may_divide_by_zero,
)
_scalar("ScalarNeg", operator.neg, vjp=lambda x, out, d: (-d,))
_scalar("ScalarAbs", abs, vjp=lambda x, out, d: (d * ((x > 0) * 1.0 - (x < 0) * 1.0),))
_scalar("ScalarPow", _int_power_guard, vjp=_power_gradient, can_fail=_may_overflow)
_scalar("ScalarLog", _log, "float", lambda x, out, d: (d / x,))
_scalar(
    "ScalarRound",
    round,
    "round",
    lambda *operands: (None,) * (len(operands) - 2),
    can_fail=_may_be_no_int,
)
_scalar("ScalarAnd", operator.and_, "bits")
_scalar("ScalarOr", operator.or_, "bits")
_scalar("ScalarXor", operator.xor, "bits")
_scalar("ScalarEqual", operator.eq, "bool")
_scalar("ScalarNotEqual", operator.ne, "bool")
_scalar("ScalarLess", operator.lt, "bool")
_scalar("ScalarLessEqual", operator.le, "bool")
_scalar("ScalarGreater", operator.gt, "bool")
_scalar("ScalarGreaterEqual", operator.ge, "bool")
_scalar("ScalarNot", operator.not_, "bool")


class ScalarCast(Structural):
    """``int(x)``, ``float(x)`` or ``bool(x)`` of a number; attribute `kind`."""

    def infer(self, x: AbstractScalar) -> Abstract:
        return AbstractScalar(self.attrs["kind"])

    def eval(self, x: Any) -> Any:
        return checked_int(self.attrs["kind"](x))

    def can_fail(self, x: Any) -> bool:  # type: ignore[override]
        return self.attrs["kind"] is int and _is_float(x)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (dout,)  # asked for only where input and output are floats


class ScalarPick(Structural):
    """``items[index]`` of numbers: the first input is the index, an int."""

    def infer(self, index: Abstract, *items: AbstractScalar) -> Abstract:
        return items[0]

    def eval(self, index: int, *items: Any) -> Any:
        if index < 0:
            raise IndexError(f"there is no item {index}")
        return items[index]

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        index, *items = inputs
        return None, *(_pick(index == i, dout, 0.0) for i in range(len(items)))


class ScalarToTensor(Structural):
    """A 0-d Tensor of `dtype` from a number."""

    def __call__(self, input_x: Any, dtype: DType = float32) -> Any:
        return as_tensor(input_x, dtype)

    def infer(self, x: AbstractScalar) -> Abstract:
        return AbstractTensor(self.attrs["dtype"], ())

    def eval(self, x: Any) -> Any:
        dtype: DType = self.attrs["dtype"]
        return np.asarray(x).astype(dtype.numpy)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (apply(TensorToScalar.bound(kind=float), dout),)


class TensorToScalar(Structural):
    """The number in a Tensor of one element (``x.item()``); attribute `kind`."""

    def infer(self, x: AbstractTensor) -> Abstract:
        if x.size != 1:
            raise ValueError(
                f"only a Tensor of one element can become a Python number, not shape {x.shape}"
            )
        return AbstractScalar(self.attrs["kind"])

    def eval(self, x: np.ndarray) -> Any:
        return checked_int(self.attrs["kind"](x.reshape(())[()]))

    def can_fail(self, x: Any) -> bool:  # type: ignore[override]
        return self.attrs["kind"] is int and x.dtype.is_float

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (None,)  # a number read from a Tensor carries no gradient, as in PyNative mode


# -------------------------------------------------------------------------------------- sizes


class DimSize(Structural):
    """The size of a Tensor's dimension, an int; attribute `axis`."""

    def infer(self, x: AbstractTensor) -> Abstract:
        return AbstractScalar(int)

    def eval(self, x: np.ndarray) -> Any:
        return x.shape[self.attrs["axis"]]


class DimValue(Structural):
    """The int that attribute `size` is when the graph runs."""

    def infer(self) -> Abstract:
        return AbstractScalar(int)

    def eval(self) -> Any:
        return self.attrs["size"]


# ------------------------------------------------------------------------------------- stacks


class Push(Structural):
    """A stack with one more value on top.  Its gradient is Pop."""

    def infer(self, stack: Abstract, value: Abstract) -> Abstract:
        return STACK

    def eval(self, stack: Any, value: Any) -> Any:
        return (value, stack)


class Pop(Structural):
    """(top value, the stack below); of an empty stack: (zeros, empty).  Its gradient is Push.

    Attribute `abstract`: the type of the value.
    """

    needs = ()  # type: ignore[assignment]  # the value has the sizes of its type

    def infer(self, stack: Abstract) -> Abstract:
        return AbstractTuple((self.attrs["abstract"], STACK))

    def eval(self, stack: Any) -> Any:
        if stack is not None:
            return stack
        if any(symbols_of(self.attrs["abstract"])):
            raise RuntimeError(
                "a gradient of higher order needs zeros in a loop, of a size that depends on values"
            )
        return zero_value(self.attrs["abstract"]), None


class StackAdd(Structural):
    """The sum of two stacks, value by value from the top; values that one has not are zeros.

    It adds up the cotangents of a stack with two uses.
    """

    def infer(self, a: Abstract, b: Abstract) -> Abstract:
        return STACK

    def eval(self, a: Any, b: Any) -> Any:
        values = []
        while a is not None and b is not None:
            (top, a), (other, b) = a, b
            values.append(self.added(top, other))
        total = a if b is None else b
        for value in reversed(values):
            total = (value, total)
        return total

    def added(self, a: Any, b: Any) -> Any:
        """The sum of two values; a stack is a pair, or None."""
        if isinstance(a, np.ndarray):
            return np.asarray(a + b)
        return type(a)(a + b) if isinstance(a, (bool, int, float)) else self.eval(a, b)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return dout, dout


class StackToTensor(Structural):
    """The Tensors on a stack as the rows of one, the top last.  Its gradient is TensorToStack.

    Attributes: `abstract`, the type of a row; `size`, their number.  Rows that are not there are
    zeros, as in Pop.
    """

    def infer(self, stack: Abstract) -> Abstract:
        row = self.attrs["abstract"]
        return AbstractTensor(row.dtype, (self.attrs["size"], *row.shape))

    def eval(self, stack: Any) -> Any:
        row = self.attrs["abstract"]
        rows = np.zeros((self.attrs["size"], *row.shape), row.dtype.numpy)
        for i in reversed(range(len(rows))):
            if stack is None:
                break
            rows[i], stack = stack
        return rows

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (apply(TensorToStack.bound(), dout),)


class TensorToStack(Structural):
    """A stack of a Tensor's rows, the last on top.  Its gradient is StackToTensor."""

    def infer(self, rows: AbstractTensor) -> Abstract:
        return STACK

    def eval(self, rows: np.ndarray) -> Any:
        stack: Any = None
        for row in rows:
            stack = (np.array(row), stack)
        return stack

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        (rows,) = inputs
        row = AbstractTensor(rows.dtype, rows.shape[1:])
        return (apply(StackToTensor.bound(abstract=row, size=rows.shape[0]), dout),)


def zero_value(abstract: Abstract) -> Any:
    """The zero of an abstract value, as the interpreter holds it."""
    if isinstance(abstract, AbstractTensor):
        return np.zeros(abstract.shape, abstract.dtype.numpy)
    if isinstance(abstract, AbstractScalar):
        return abstract.kind(0)
    if isinstance(abstract, AbstractTuple):
        return tuple(zero_value(item) for item in abstract.items)
    return None  # a Stack, the Token


# ------------------------------------------------------------------------------------- effects


class Effect(Structural, register=False):
    """Takes the Token first and returns it: effects happen in program order."""

    effect = True

    def infer(self, *operands: Abstract) -> Abstract:
        return TOKEN


def as_python(value: Any) -> Any:
    """What the user sees of a run-time value: a Tensor for an array, a number as it is."""
    return eager_handler().constant(value, None) if isinstance(value, np.ndarray) else value


class Print(Effect):
    """Python's ``print``.  Attributes: `structure` of the arguments (a tuple), `sep`, `end`."""

    def __call__(self, *args: Any, sep: str = " ", end: str = "\n") -> None:
        leaves, structure = flatten(args, lambda v: isinstance(v, (TensorLike, ScalarLike)))
        apply(Print.bound(structure=structure, sep=sep, end=end), *leaves)

    def eval(self, token: Any, *values: Any) -> Any:
        args = unflatten(self.attrs["structure"], [as_python(v) for v in values])
        print(*args, sep=self.attrs["sep"], end=self.attrs["end"])
        return token


class Fallible(Effect, register=False):
    """An effect that may raise.

    Attribute `written`: numbers of what was written before it (frontend/commits.py); the values are
    the last operands.  They go with the exception, so that they are kept.
    """

    def split(self, operands: tuple) -> tuple[tuple, dict[int, Any]]:
        """The effect's own operands, and the values written by number."""
        numbers = self.attrs.get("written", ())
        own = len(operands) - len(numbers)
        return operands[:own], dict(zip(numbers, operands[own:], strict=True))


_WRITTEN = "_minispore_written"


def failed(error: Exception, written: dict[int, Any]) -> Exception:
    """The error, which says what was written before it."""
    setattr(error, _WRITTEN, written)
    return error


def written_before(error: BaseException) -> dict[int, Any]:
    """What was written before an effect failed with this error, by number."""
    return error.__dict__.pop(_WRITTEN, {})


class Check(Fallible):
    """Raises ``exception(*args)`` unless its first operand holds.

    It serves assert, raise, and the ops that can fail.  Attributes: `exception`, a class;
    `structure` of its arguments (a tuple), whose leaves are the operands that follow.
    """

    def eval(self, token: Any, holds: Any, *operands: Any) -> Any:
        if not holds:
            values, written = self.split(operands)
            args = unflatten(self.attrs["structure"], [as_python(v) for v in values])
            raise failed(self.attrs["exception"](*args), written)
        return token


class Attempt(Fallible):
    """Raises what the primitive `op` raises on these operands; another node gives its value.

    Thus a value that no one needs still fails, in program order.  Attributes: `op`, and its own.
    """

    def eval(self, token: Any, *operands: Any) -> Any:
        values, written = self.split(operands)
        attrs = {k: v for k, v in self.attrs.items() if k not in ("op", "written")}
        try:
            REGISTRY[self.attrs["op"]].bound(**attrs).eval(*values)
        except Exception as error:
            raise failed(error, written)  # noqa: B904  # it is the same error
        return token
