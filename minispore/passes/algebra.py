"""arithmetic_simplify: laws of arithmetic and of shapes, one line each.

Rules that hold to the last bit for every value, nan, inf and -0.0 included, are always on (of a
nan, the sign and payload may change).  FAST rules do not hold so, and are on only where asked for:
for floats ``x * 0 -> 0`` is wrong for nan, inf and -0.0, ``x + 0 -> x`` for -0.0, ``x - x -> 0``
for nan and inf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import Abstract, AbstractScalar, AbstractTensor
from minispore.dtype import DType, bool_, float64, int64
from minispore.ir.node import CNode, Node, ValueNode, is_call_of
from minispore.ops import BroadcastTo, Elementwise, Fill, Reshape
from minispore.passes.pattern import Rule, is_exact, is_lossless, op, scalar_twin
from minispore.passes.rewrite import Function
from minispore.primitive import REGISTRY, Primitive


def _same_cast(source: DType, middle: DType, target: DType) -> bool:
    """True if casting by way of `middle` is casting at once.

    An integer that became a float must not become another integer, unless that holds it: out of
    its range the result of a cast is undefined.
    """
    if not is_lossless(source, middle):
        return False
    return target.is_float or target is bool_ or not middle.is_float or is_lossless(source, target)


def _moves_ones_only(shape: tuple[int, ...], perm: tuple[int, ...]) -> bool:
    moved = [a for a in perm if shape[a] != 1]
    return moved == sorted(moved)


def _adds_ones(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """True if a reshape only puts dimensions of size 1 in front, as broadcasting does."""
    return new == (1,) * (len(new) - len(old)) + old


def _value(c: Any) -> np.ndarray | None:
    """The array of a constant Tensor; None if it is none."""
    return c._node.value if isinstance(c._node, ValueNode) else None


def _constants(*tensors: Any) -> bool:
    return all(isinstance(t._node, ValueNode) for t in tensors)


def _is_power_of_two(c: Any) -> bool:
    """True for a float constant of powers of two whose inverses are exact, neither 0 nor inf."""
    value = _value(c)
    if value is None or not c.dtype.is_float:
        return False
    mantissa, exponent = np.frexp(value.astype(np.float64))
    limit = 10 if c.dtype.itemsize == 2 else 100  # well inside the exponents that the type has
    return bool(np.all((np.abs(mantissa) == 0.5) & (np.abs(exponent) < limit)))


def _inverse(c: Any) -> Any:
    value = _value(c)
    assert value is not None
    return ops.constant((1 / value.astype(np.float64)).astype(value.dtype))


NUMBER = AbstractScalar(float)

# fmt: off
NUMBERS = (
    Rule("mul_one", "x * 1 -> x", lambda x: x * 1, lambda x: x),
    Rule("div_one", "x / 1 -> x", lambda x: x / 1, lambda x: x),
    Rule("sub_zero", "x - 0 -> x", lambda x: x - 0, lambda x: x),
    Rule("add_zero", "x + 0 -> x (integers)", lambda x: x + 0, lambda x: x, is_exact),
    Rule("pow_one", "x ** 1 -> x", lambda x: x**1, lambda x: x),
)
SIGNS = (
    Rule("add_minus_zero", "x + -0.0 -> x", lambda x: x + -0.0, lambda x: x),
    Rule("mul_minus_one", "x * -1 -> -x", lambda x: x * -1, lambda x: -x),
    Rule("div_minus_one", "x / -1 -> -x", lambda x: x / -1, lambda x: -x),
    Rule("neg_neg", "-(-x) -> x", lambda x: ops.neg(-x), lambda x: x),
    Rule("add_neg", "x + (-y) -> x - y", lambda x, y: x + (-y), lambda x, y: x - y),
    Rule("sub_neg", "x - (-y) -> x + y", lambda x, y: x - (-y), lambda x, y: x + y),
    Rule("mul_neg_neg", "(-x) * (-y) -> x * y", lambda x, y: (-x) * (-y), lambda x, y: x * y),
    Rule("div_neg_neg", "(-x) / (-y) -> x / y", lambda x, y: (-x) / (-y), lambda x, y: x / y),
    Rule("square_neg", "square(-x) -> square(x)", lambda x: ops.square(-x),
         lambda x: ops.square(x)),
    Rule("abs_neg", "abs(-x) -> abs(x)", lambda x: ops.abs(-x), lambda x: ops.abs(x)),
)
TENSORS = (
    Rule("sub_self", "x - x -> 0 (integers)", lambda x: x - x, lambda x: ops.zeros_like(x),
         is_exact),
    Rule("mul_zero", "x * 0 -> 0 (integers)", lambda x: x * 0, lambda out: ops.zeros_like(out),
         is_exact),
    Rule("div_power_of_two", "x / 2**k -> x * 2**-k", lambda x, c: x / c,
         lambda x, c: x * _inverse(c), lambda c: _is_power_of_two(c)),
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
SHAPES = (
    Rule("cast_same", "cast(x, x.dtype) -> x", lambda x, a: op.Cast(x, dtype=a), lambda x: x),
    Rule("merge_casts", "cast(cast(x, a), b) -> cast(x, b), if a holds x",
         lambda x, a, b: op.Cast(op.Cast(x, dtype=a), dtype=b),
         lambda x, b: ops.cast(x, b), lambda x, a, b: _same_cast(x.dtype, a, b)),
    Rule("reshape_same", "reshape(x, x.shape) -> x", lambda x, s: op.Reshape(x, shape=s),
         lambda x: x),
    Rule("merge_reshapes", "reshape(reshape(x, s), t) -> reshape(x, t)",
         lambda x, s, t: op.Reshape(op.Reshape(x, shape=s), shape=t),
         lambda x, t: ops.reshape(x, t)),
    Rule("expand_dims", "expand_dims(x) -> reshape(x)", lambda x, a: op.ExpandDims(x, axis=a),
         lambda x, out: ops.reshape(x, out.shape)),
    Rule("squeeze", "squeeze(x) -> reshape(x)", lambda x, a: op.Squeeze(x, axis=a),
         lambda x, out: ops.reshape(x, out.shape)),
    Rule("transpose_ones", "transpose(x) -> reshape(x), if sizes of 1 move",
         lambda x, p: op.Transpose(x, perm=p), lambda x, out: ops.reshape(x, out.shape),
         lambda x, p: _moves_ones_only(x.shape, p)),
    Rule("merge_transposes", "transpose(transpose(x, p), q) -> transpose(x, p[q])",
         lambda x, p, q: op.Transpose(op.Transpose(x, perm=p), perm=q),
         lambda x, p, q: ops.transpose(x, tuple(p[a] for a in q))),
    Rule("broadcast_same", "broadcast_to(x, x.shape) -> x",
         lambda x, s: op.BroadcastTo(x, shape=s), lambda x: x),
    Rule("merge_broadcasts", "broadcast_to(broadcast_to(x, s), t) -> broadcast_to(x, t)",
         lambda x, s, t: op.BroadcastTo(op.BroadcastTo(x, shape=s), shape=t),
         lambda x, t: ops.broadcast_to(x, t)),
    Rule("broadcast_of_ones", "broadcast_to(reshape(x, (1, *x.shape)), s) -> broadcast_to(x, s)",
         lambda x, s, t: op.BroadcastTo(op.Reshape(x, shape=s), shape=t),
         lambda x, t: ops.broadcast_to(x, t), lambda x, s: _adds_ones(x.shape, s)),
    Rule("tile_once", "tile(x, (1, 1)) -> x", lambda x, r: op.Tile(x, reps=r), lambda x: x,
         lambda r: set(r) <= {1}),
    Rule("flip_nothing", "flip(x, ()) -> x", lambda x: op.ReverseV2(x, axis=()), lambda x: x),
    Rule("slice_all", "x[:] -> x",
         lambda x, b, e, s: op.StridedSlice(x, begin=b, end=e, strides=s), lambda x: x,
         lambda s: set(s) <= {1}),
    Rule("concat_one", "concat((x,)) -> x", lambda x, a: op.Concat(x, axis=a), lambda x: x),
    Rule("scalar_cast_same", "float(x) -> x, for a float", lambda x, k: op.ScalarCast(x, kind=k),
         lambda x: x, sample=NUMBER),
)
# fmt: on


def _of_one(name: str, when: Callable, suffix: str = "", fastmath: bool = False) -> Rule:
    """A reduction over axes of size 1 only moves elements (a sum turns -0.0 into 0)."""
    reduce = getattr(op, name)
    return Rule(
        f"{name.lower()}_of_one{suffix}", f"{name}(x) -> reshape(x), over sizes of 1",
        lambda x, a, k: reduce(x, axis=a, keep_dims=k),
        lambda x, out: ops.reshape(x, out.shape),
        lambda x, a: when(x) and all(x.shape[i] == 1 for i in a), fastmath,
    )  # fmt: skip


def _twice(name: str) -> Rule:
    prim = REGISTRY[name].bound()
    law = f"{name}({name}(x)) -> {name}(x)"
    return Rule(f"{name.lower()}_twice", law, lambda x: prim(prim(x)), lambda x: prim(x))


REDUCTIONS = (
    *(_of_one(name, lambda x: True) for name in ("ReduceMax", "ReduceMin", "ReduceProd")),
    *(_of_one(name, is_exact) for name in ("ReduceSum", "ReduceMean")),
)
IDEMPOTENT = tuple(map(_twice, ("Abs", "Floor", "Ceil", "Round", "Trunc", "Sign", "ReLU")))


def drop_broadcast(node: CNode) -> Node | None:
    """An element-wise op without the BroadcastTo (or the shape of a Fill) that it does itself."""
    prim = node.callee
    assert isinstance(prim, Elementwise)
    for i, operand in enumerate(node.inputs):
        small = _before_broadcast(operand)
        if small is not None:
            inputs = (*node.inputs[:i], small, *node.inputs[i + 1 :])
            if _inferred(prim, inputs) == node.abstract:
                return CNode(prim, inputs, node.abstract, node.origin.made_by("drop_broadcast"))
    return None


def _inferred(prim: Primitive, inputs: tuple[Node, ...]) -> Abstract:
    return prim.infer(*(x.abstract for x in inputs))


def _before_broadcast(node: Node) -> Node | None:
    if is_call_of(node, "BroadcastTo"):
        return node.inputs[0]
    if isinstance(node, CNode) and isinstance(node.callee, Reshape):
        return node.inputs[0] if _adds_ones(_shape(node.inputs[0]), _shape(node)) else None
    if isinstance(node, CNode) and isinstance(node.callee, Fill) and node.callee.attrs["shape"]:
        prim = Fill.bound(**{**node.callee.attrs, "shape": ()})
        return CNode(prim, (), prim.infer(), node.origin.made_by("drop_broadcast"))
    return None


def _shape(node: Node) -> tuple[int, ...]:
    assert isinstance(node.abstract, AbstractTensor)
    return node.abstract.shape


def sink_broadcast(node: CNode) -> Node | None:
    """A function of fewer elements, then the BroadcastTo."""
    prim, operand = node.callee, node.inputs[0]
    if not (isinstance(operand, CNode) and isinstance(operand.callee, BroadcastTo)):
        return None
    assert isinstance(prim, Elementwise)
    origin = node.origin.made_by("sink_broadcast")
    small = CNode(prim, operand.inputs, _inferred(prim, operand.inputs), origin)
    return CNode(operand.callee, (small,), node.abstract, origin)


_BY_ARITY = {
    many: tuple(
        n for n, p in REGISTRY.items() if issubclass(p, Elementwise) and (p.arity > 1) == many
    )
    for many in (False, True)
}
BROADCASTS = (
    Function("drop_broadcast", "broadcast_to(x) + y -> x + y, if y has that shape",
             _BY_ARITY[True], drop_broadcast),
    Function("sink_broadcast", "f(broadcast_to(x)) -> broadcast_to(f(x))", _BY_ARITY[False],
             sink_broadcast),
)  # fmt: skip

# fmt: off
FAST = (
    Rule("add_zero_fast", "x + 0 -> x", lambda x: x + 0, lambda x: x, fastmath=True),
    Rule("mul_zero_fast", "x * 0 -> 0", lambda x: x * 0, lambda out: ops.zeros_like(out),
         fastmath=True),
    Rule("sub_self_fast", "x - x -> 0", lambda x: x - x, lambda x: ops.zeros_like(x),
         fastmath=True),
    Rule("div_self", "x / x -> 1", lambda x: x / x, lambda x: ops.ones_like(x), fastmath=True),
    Rule("pow_two", "x ** 2 -> square(x)", lambda x: x**2, lambda x: ops.square(x), fastmath=True),
    Rule("merge_factors", "(x * c) * d -> x * (c * d)", lambda x, c, d: (x * c) * d,
         lambda x, c, d: x * (c * d), lambda c, d: _constants(c, d), fastmath=True),
    Rule("merge_terms", "(x + c) + d -> x + (c + d)", lambda x, c, d: (x + c) + d,
         lambda x, c, d: x + (c + d), lambda c, d: _constants(c, d), fastmath=True),
    *(_of_one(name, lambda x: True, "_fast", True) for name in ("ReduceSum", "ReduceMean")),
)
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
    *NUMBERS, *map(scalar_twin, NUMBERS), *SIGNS, *TENSORS, *SHAPES, *REDUCTIONS, *IDEMPOTENT,
    *BROADCASTS,
)  # fmt: skip
