"""The primitives of the graph itself: tuples, Python numbers, stacks, effects.

Users rarely call these: the front end makes them for Python's own constructs, J for its stacks.
"""

from __future__ import annotations

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
)
from minispore.dtype import DType
from minispore.primitive import Primitive, ScalarLike, TensorLike, apply, eager_handler
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


def _scalar(name: str, python: Callable, rule: str = "number", vjp: Callable | None = None) -> None:
    """Define a row of the table of scalar operations."""

    def rule_of_gradient(self: Primitive, inputs: tuple, out: Any, dout: Any) -> tuple:
        assert vjp is not None
        return vjp(*inputs, out, dout)

    body: dict[str, Any] = {"python": staticmethod(python), "rule": rule}
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


_scalar("ScalarAdd", operator.add, vjp=lambda x, y, out, d: (d, d))
_scalar("ScalarSub", operator.sub, vjp=lambda x, y, out, d: (d, -d))
_scalar("ScalarMul", operator.mul, vjp=lambda x, y, out, d: (d * y, d * x))
_scalar("ScalarDiv", operator.truediv, "float", lambda x, y, out, d: (d / y, -(d * out) / y))
_scalar("ScalarFloorDiv", operator.floordiv)
_scalar("ScalarMod", operator.mod, vjp=lambda x, y, out, d: (d, -(d * (x // y))))
_scalar("ScalarNeg", operator.neg, vjp=lambda x, out, d: (-d,))
_scalar("ScalarAbs", abs, vjp=lambda x, out, d: (d * ((x > 0) * 1.0 - (x < 0) * 1.0),))
_scalar("ScalarPow", _int_power_guard, vjp=lambda x, y, out, d: (d * y * x ** (y - 1), None))
_scalar("ScalarRound", round, "round", lambda *operands: (None,) * (len(operands) - 2))
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

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (dout,)  # asked for only where input and output are floats


class ScalarPick(Structural):
    """``items[index]`` of numbers: the first input is the index, an int."""

    def infer(self, index: Abstract, *items: AbstractScalar) -> Abstract:
        return items[0]

    def eval(self, index: int, *items: Any) -> Any:
        return items[index]


class ScalarToTensor(Structural):
    """A 0-d Tensor of `dtype` from a number."""

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
        return self.attrs["kind"](x.reshape(())[()])

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (None,)  # a number read from a Tensor carries no gradient, as in PyNative mode


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

    def infer(self, stack: Abstract) -> Abstract:
        return AbstractTuple((self.attrs["abstract"], STACK))

    def eval(self, stack: Any) -> Any:
        return (zero_value(self.attrs["abstract"]), None) if stack is None else stack


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


class Check(Effect):
    """Raises ``exception(*args)`` unless its first operand holds.

    It serves assert, raise, and the ops that can fail.  Attributes: `exception`, a class;
    `structure` of its arguments (a tuple), whose leaves are the other operands.
    """

    def eval(self, token: Any, holds: Any, *values: Any) -> Any:
        if not holds:
            args = unflatten(self.attrs["structure"], [as_python(v) for v in values])
            raise self.attrs["exception"](*args)
        return token
