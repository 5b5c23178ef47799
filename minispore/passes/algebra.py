"""arithmetic_simplify: laws of arithmetic, one line each (those of shapes are in shapes.py).

They hold to the last bit for every value, nan, inf and -0.0 included (of a nan, the sign and
payload may change), and are always on.  Those that do not are in fastmath.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import AbstractScalar
from minispore.dtype import bool_, float64, int64
from minispore.ir.node import CNode, ValueNode
from minispore.passes.pattern import Rule, is_exact, op, scalar_twin
from minispore.passes.rewrite import Function
from minispore.passes.shapes import SHAPES
from minispore.primitive import REGISTRY, Primitive
from minispore.symbolic import Scalar


def value_of(c: Any) -> np.ndarray | None:
    """The array of a constant Tensor; None if it is none."""
    return c._node.value if isinstance(c._node, ValueNode) else None


def constants(*tensors: Any) -> bool:
    """True if the values of all these Tensors are known."""
    return all(isinstance(t._node, ValueNode) for t in tensors)


def _is_power_of_two(c: Any) -> bool:
    """True for a float constant of powers of two whose inverses are exact, neither 0 nor inf."""
    value = value_of(c)
    if value is None or not c.dtype.is_float:
        return False
    mantissa, exponent = np.frexp(value.astype(np.float64))
    limit = 10 if c.dtype.itemsize == 2 else 100  # well inside the exponents that the type has
    return bool(np.all((np.abs(mantissa) == 0.5) & (np.abs(exponent) < limit)))


def negative(c: Any) -> Any:
    """The constant -c."""
    value = value_of(c)
    assert value is not None
    return ops.constant(np.negative(value))


def inverse(c: Any) -> Any:
    """The constant 1 / c, rounded once."""
    value = value_of(c)
    assert value is not None
    return ops.constant((1 / value.astype(np.float64)).astype(value.dtype))


_POSITIVE_ZERO = (  # never -0.0, whatever their operands are
    "ReduceSum", "Abs", "Square", "Exp", "Sigmoid", "Softmax", "Cosh", "ScalarAbs",
)  # fmt: skip
_MOVING = ("Reshape", "BroadcastTo", "Transpose")


def _is_never_minus_zero(x: Any) -> bool:
    """True if no element can be -0.0: then adding zero changes nothing.

    A sum is -0.0 only if both its terms are.
    """
    todo, seen = [x.node if isinstance(x, Scalar) else x._node], 0
    while todo:
        node, seen = todo.pop(), seen + 1
        if seen > 20:
            return False
        if isinstance(node, ValueNode):
            if np.any((value := np.asarray(node.value)) == 0) and np.any(np.signbit(value)):
                return False
        elif not isinstance(node, CNode) or not isinstance(node.callee, Primitive):
            return False
        elif node.callee.name == "Fill":
            if math.copysign(1.0, node.callee.attrs["value"]) < 0:
                return False
        elif node.callee.name in _MOVING:
            todo.append(node.inputs[0])
        elif node.callee.name not in _POSITIVE_ZERO:
            return False
    return True


NUMBER = AbstractScalar(float)

# fmt: off
NUMBERS = (
    Rule("mul_one", "x * 1 -> x", lambda x: x * 1, lambda x: x),
    Rule("div_one", "x / 1 -> x", lambda x: x / 1, lambda x: x),
    Rule("sub_zero", "x - 0 -> x", lambda x: x - 0, lambda x: x),
    Rule("add_zero", "x + 0 -> x, if x is never -0.0", lambda x: x + 0, lambda x: x,
         lambda x: is_exact(x) or _is_never_minus_zero(x)),
    Rule("pow_one", "x ** 1 -> x", lambda x: x**1, lambda x: x),
)
SIGNS = (
    Rule("add_minus_zero", "x + -0.0 -> x", lambda x: x + -0.0, lambda x: x),
    Rule("minus_zero_sub", "-0.0 - x -> -x", lambda x: -0.0 - x, lambda x: -x),
    Rule("mul_minus_one", "x * -1 -> -x", lambda x: x * -1, lambda x: -x),
    Rule("div_minus_one", "x / -1 -> -x", lambda x: x / -1, lambda x: -x),
    Rule("neg_neg", "-(-x) -> x", lambda x: ops.neg(-x), lambda x: x),
    Rule("add_neg", "x + (-y) -> x - y", lambda x, y: x + (-y), lambda x, y: x - y),
    Rule("sub_neg", "x - (-y) -> x + y", lambda x, y: x - (-y), lambda x, y: x + y),
    Rule("mul_neg_neg", "(-x) * (-y) -> x * y", lambda x, y: (-x) * (-y), lambda x, y: x * y),
    Rule("div_neg_neg", "(-x) / (-y) -> x / y", lambda x, y: (-x) / (-y), lambda x, y: x / y),
    Rule("mul_neg_constant", "(-x) * c -> x * (-c)", lambda x, c: (-x) * c,
         lambda x, c: x * negative(c), lambda c: constants(c)),
    Rule("neg_mul_constant", "-(x * c) -> x * (-c)", lambda x, c: ops.neg(x * c),
         lambda x, c: x * negative(c), lambda c: constants(c), alone=True),
    Rule("mul_neg", "(-x) * y -> -(x * y)", lambda x, y: (-x) * y, lambda x, y: -(x * y),
         lambda x, out: x.shape == out.shape, alone=True),
    Rule("div_neg", "(-x) / y -> -(x / y)", lambda x, y: (-x) / y, lambda x, y: -(x / y),
         lambda x, out: x.shape == out.shape, alone=True),
    Rule("div_by_neg", "x / (-y) -> -(x / y)", lambda x, y: x / (-y), lambda x, y: -(x / y),
         lambda y, out: y.shape == out.shape, alone=True),
    Rule("neg_sub", "-(x - y) -> y - x (integers)", lambda x, y: ops.neg(x - y),
         lambda x, y: y - x, is_exact),
    Rule("square_neg", "square(-x) -> square(x)", lambda x: ops.square(-x),
         lambda x: ops.square(x)),
    Rule("abs_neg", "abs(-x) -> abs(x)", lambda x: ops.abs(-x), lambda x: ops.abs(x)),
)
TENSORS = (
    Rule("mul_ones", "x * ones -> broadcast_to(x)", lambda x: x * 1,
         lambda x, out: ops.broadcast_to(x, out.shape), lambda x, out: x.shape != out.shape),
    Rule("add_zeros", "x + zeros -> broadcast_to(x), if x is never -0.0", lambda x: x + 0,
         lambda x, out: ops.broadcast_to(x, out.shape),
         lambda x, out: x.shape != out.shape and (is_exact(x) or _is_never_minus_zero(x))),
    Rule("sub_self", "x - x -> 0 (integers)", lambda x: x - x, lambda x: ops.zeros_like(x),
         is_exact),
    Rule("mul_zero", "x * 0 -> 0 (integers)", lambda x: x * 0, lambda out: ops.zeros_like(out),
         is_exact),
    Rule("div_power_of_two", "x / 2**k -> x * 2**-k", lambda x, c: x / c,
         lambda x, c: x * inverse(c), lambda c: _is_power_of_two(c)),
    Rule("max_self", "maximum(x, x) -> x", lambda x: ops.maximum(x, x), lambda x: x),
    Rule("min_self", "minimum(x, x) -> x", lambda x: ops.minimum(x, x), lambda x: x),
    Rule("and_self", "x and x -> x", lambda x: op.LogicalAnd(x, x), lambda x: x),
    Rule("or_self", "x or x -> x", lambda x: op.LogicalOr(x, x), lambda x: x),
    Rule("and_true", "x and True -> x", lambda x: op.LogicalAnd(x, True), lambda x: x),
    Rule("or_false", "x or False -> x", lambda x: op.LogicalOr(x, False), lambda x: x),
    Rule("not_not", "not not x -> x", lambda x: op.LogicalNot(op.LogicalNot(x)), lambda x: x),
    Rule("not_equal", "not (x == y) -> x != y", lambda x, y: op.LogicalNot(op.Equal(x, y)),
         lambda x, y: ops.not_equal(x, y)),
    Rule("select_same", "select(c, x, x) -> x", lambda c, x: op.Select(c, x, x), lambda x: x),
    Rule("select_true", "select(True, x, y) -> x", lambda x, y: op.Select(True, x, y),
         lambda x: x),
    Rule("select_false", "select(False, x, y) -> y", lambda x, y: op.Select(False, x, y),
         lambda y: y),
    Rule("select_not", "select(not c, x, y) -> select(c, y, x)",
         lambda c, x, y: op.Select(op.LogicalNot(c), x, y),
         lambda c, x, y: ops.select(c, y, x)),
    Rule("drop_identity", "identity(x) -> x", lambda x: op.Identity(x), lambda x: x),
)
# fmt: on


def _twice(name: str) -> Rule:
    prim = REGISTRY[name].bound()
    law = f"{name}({name}(x)) -> {name}(x)"
    return Rule(f"{name.lower()}_twice", law, lambda x: prim(prim(x)), lambda x: prim(x))


IDEMPOTENT = tuple(map(_twice, ("Abs", "Floor", "Ceil", "Round", "Trunc", "Sign", "ReLU")))


# fmt: off
AFTER_GRAD = (
    Rule("drop_stop_gradient", "stop_gradient(x) -> x", lambda x: op.StopGradient(x), lambda x: x),
    Rule("drop_assign", "assign(p, x) -> x", lambda p, x: op.Assign(p, x), lambda x: x),
    Rule("number_and_back", "number(tensor(x)) -> x, if the dtype holds x",
         lambda x, a, k: op.TensorToScalar(op.ScalarToTensor(x, dtype=a), kind=k), lambda x: x,
         lambda x, a: a is {bool: bool_, int: int64, float: float64}[x.kind], sample=NUMBER),
    Rule("tensor_and_back", "tensor(number(x)) -> x, if the number holds x",
         lambda x, k, a: op.ScalarToTensor(op.TensorToScalar(x, kind=k), dtype=a), lambda x: x,
         lambda x, k: k is {"bool": bool, "int": int, "float": float}.get(x.dtype.kind)),
)
# fmt: on

EXACT: tuple[Rule | Function, ...] = (
    *NUMBERS, *map(scalar_twin, NUMBERS), *SIGNS, *TENSORS, *IDEMPOTENT, *SHAPES,
)  # fmt: skip
