"""Laws of casts, shapes, reductions and matrix products (also in ``arithmetic_simplify``).

Chains of ops that only move elements become one op, or none: reshapes sink through element-wise ops
until they meet another reshape, what is broadcast is computed on the fewer elements, transposes
become attributes of matrix products.  (MindSpore: ``cast_eliminate``, ``reshape_eliminate``,
``transpose_eliminate``, ``reduce_eliminate`` ...)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import Abstract, AbstractScalar, AbstractTensor, symbols_of
from minispore.dims import is_born, same, same_shape
from minispore.dtype import DType, bool_
from minispore.ir.node import CNode, Node, ValueNode, is_call_of
from minispore.ops import BroadcastTo, Elementwise, Fill, Reshape
from minispore.ops.reduce import reduced
from minispore.passes.pattern import Rule, is_exact, is_lossless, is_number, op
from minispore.passes.rewrite import Function
from minispore.primitive import REGISTRY, Primitive, apply

Shape = tuple[int, ...]
NUMBER = AbstractScalar(float)

# --------------------------------------------------------------------------- what rules ask about


def _same_cast(source: DType, middle: DType, target: DType) -> bool:
    """True if casting by way of `middle` is casting at once.

    An integer that became a float must not become another integer, unless that holds it: out of
    its range the result of a cast is undefined.
    """
    if not is_lossless(source, middle):
        return False
    return target.is_float or target is bool_ or not middle.is_float or is_lossless(source, target)


def _moves_ones_only(shape: Shape, perm: Shape) -> bool:
    moved = [a for a in perm if not same(shape[a], 1)]
    return moved == sorted(moved)


def _adds_ones(old: Shape, new: Shape) -> bool:
    """True if a reshape only puts dimensions of size 1 in front, as broadcasting does."""
    return same_shape(new, _aligned(old, new))


def _swaps_matrices(perm: Shape) -> bool:
    """True for the transpose of the last two dimensions alone."""
    n = len(perm)
    return n >= 2 and perm == (*range(n - 2), n - 1, n - 2)


def _aligned(shape: Shape, new: Shape) -> Shape:
    """A shape with ones in front, as it is broadcast to `new`."""
    return (1,) * (len(new) - len(shape)) + shape


def _were_broadcast(x: Any, shape: Shape, axes: Shape) -> bool:
    """True if all `axes` of `shape`, to which x was broadcast, are repetitions."""
    return all(same(_aligned(x.shape, shape)[a], 1) and shape[a] != 0 for a in axes)


def _unreduced(x: Any, s: Shape, a: Shape, k: bool, out: Any) -> Any:
    """What is left of x, broadcast to `s`, if the repetitions along `a` are dropped again."""
    return ops.broadcast_to(ops.reshape(x, reduced(_aligned(x.shape, s), a, k)), out.shape)


def _joined(axes: Shape, keep_dims: bool, more: Shape) -> Shape:
    """The axes that two reductions reduce, one after the other."""
    if not keep_dims:
        n = len(axes) + max(more, default=-1) + 1
        left = [i for i in range(n) if i not in axes]
        more = tuple(left[i] for i in more)
    return tuple(sorted({*axes, *more}))


def _count(x: Any, shape: Shape, axes: Shape) -> Any:
    """How many elements are reduced into one, as a constant of x's type (integers wrap round)."""
    count = np.asarray(np.prod([shape[a] for a in axes], dtype=np.int64))
    return ops.constant(count.astype(x.dtype.numpy))


# ------------------------------------------------------------------------------------ the tables

# fmt: off
CASTS = (
    Rule("cast_same", "cast(x, x.dtype) -> x", lambda x, a: op.Cast(x, dtype=a), lambda x: x),
    Rule("merge_casts", "cast(cast(x, a), b) -> cast(x, b), if a holds x",
         lambda x, a, b: op.Cast(op.Cast(x, dtype=a), dtype=b),
         lambda x, b: ops.cast(x, b), lambda x, a, b: _same_cast(x.dtype, a, b)),
    Rule("scalar_cast_same", "float(x) -> x, for a float", lambda x, k: op.ScalarCast(x, kind=k),
         lambda x: x, sample=NUMBER),
)
RESHAPES = (
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
    Rule("tile_once", "tile(x, (1, 1)) -> x", lambda x, r: op.Tile(x, reps=r), lambda x: x,
         lambda r: same_shape(r, (1,) * len(r))),
    Rule("flip_nothing", "flip(x, ()) -> x", lambda x: op.ReverseV2(x, axis=()), lambda x: x),
    Rule("slice_all", "x[:] -> x",
         lambda x, b, e, s: op.StridedSlice(x, begin=b, end=e, strides=s), lambda x: x,
         lambda s: set(s) <= {1}),
    Rule("concat_one", "concat((x,)) -> x", lambda x, a: op.Concat(x, axis=a), lambda x: x),
)
BROADCASTS = (
    Rule("broadcast_same", "broadcast_to(x, x.shape) -> x",
         lambda x, s: op.BroadcastTo(x, shape=s), lambda x: x),
    Rule("merge_broadcasts", "broadcast_to(broadcast_to(x, s), t) -> broadcast_to(x, t)",
         lambda x, s, t: op.BroadcastTo(op.BroadcastTo(x, shape=s), shape=t),
         lambda x, t: ops.broadcast_to(x, t)),
    Rule("broadcast_of_ones", "broadcast_to(reshape(x, (1, *x.shape)), s) -> broadcast_to(x, s)",
         lambda x, s, t: op.BroadcastTo(op.Reshape(x, shape=s), shape=t),
         lambda x, t: ops.broadcast_to(x, t), lambda x, s: _adds_ones(x.shape, s)),
)
# fmt: on


def _product(name: str) -> tuple[Rule, ...]:
    """A transpose before or after a matrix product is an attribute of the product.

    (BLAS may add in another order then: equal but for rounding, as its results are anyway.)
    """
    made, traced = REGISTRY[name].bound, getattr(op, name)
    short = name.lower()

    def of(x: Any, y: Any, ta: bool, tb: bool) -> Any:
        return traced(x, y, transpose_a=ta, transpose_b=tb)

    return (
        Rule(f"{short}_of_transposed", "x.T @ y -> matmul(x, y, transpose_a)",
             lambda x, y, p, ta, tb: of(op.Transpose(x, perm=p), y, ta, tb),
             lambda x, y, ta, tb: made(transpose_a=not ta, transpose_b=tb)(x, y),
             lambda p: _swaps_matrices(p)),
        Rule(f"{short}_by_transposed", "x @ y.T -> matmul(x, y, transpose_b)",
             lambda x, y, p, ta, tb: of(x, op.Transpose(y, perm=p), ta, tb),
             lambda x, y, ta, tb: made(transpose_a=ta, transpose_b=not tb)(x, y),
             lambda p: _swaps_matrices(p)),
        Rule(f"transposed_{short}", "(x @ y).T -> matmul(y, x, transpose_a, transpose_b)",
             lambda x, y, p, ta, tb: op.Transpose(of(x, y, ta, tb), perm=p),
             lambda x, y, ta, tb: made(transpose_a=not tb, transpose_b=not ta)(y, x),
             lambda p: _swaps_matrices(p), alone=True),
    )  # fmt: skip


PRODUCTS = (*_product("MatMul"), *_product("BatchMatMul"))


def of_one(name: str, when: Callable, suffix: str = "", fastmath: bool = False) -> Rule:
    """A reduction over axes of size 1 only moves elements (a sum turns -0.0 into 0)."""
    reduce = getattr(op, name)
    return Rule(
        f"{name.lower()}_of_one{suffix}", f"{name}(x) -> reshape(x), over sizes of 1",
        lambda x, a, k: reduce(x, axis=a, keep_dims=k),
        lambda x, out: ops.reshape(x, out.shape),
        lambda x, a: when(x) and all(same(x.shape[i], 1) for i in a), fastmath,
    )  # fmt: skip


def of_broadcast(name: str, when: Callable, value: Callable, law: str, fastmath: bool) -> Rule:
    """A reduction of repetitions; `value` is that of `n` elements equal to x."""
    reduce = getattr(op, name)
    suffix = "_fast" if fastmath else ""
    return Rule(
        f"{name.lower()}_of_broadcast{suffix}", f"{name}(broadcast_to(x)) -> broadcast_to({law})",
        lambda x, s, a, k: reduce(op.BroadcastTo(x, shape=s), axis=a, keep_dims=k),
        lambda x, s, a, k, out: _unreduced(value(x, _count(x, s, a)), s, a, k, out),
        lambda x, s, a: when(x) and _were_broadcast(x, s, a), fastmath,
    )  # fmt: skip


def _with_dims(name: str) -> Rule:
    """A reshape that only adds or drops what a reduction reduced is its `keep_dims`."""
    reduce, made = getattr(op, name), REGISTRY[name].bound
    return Rule(
        f"{name.lower()}_keep_dims", f"reshape({name}(x)) -> {name}(x, keep_dims)",
        lambda x, a, k, s: op.Reshape(reduce(x, axis=a, keep_dims=k), shape=s),
        lambda x, a, k: apply(made(axis=a, keep_dims=not k), x),
        lambda x, a, k, s: same_shape(s, reduced(x.shape, a, not k)), alone=True,
    )  # fmt: skip


def _twice(name: str, when: Callable, suffix: str = "", fastmath: bool = False) -> Rule:
    """A reduction of a reduction reduces over the axes of both."""
    reduce, made = getattr(op, name), REGISTRY[name].bound
    return Rule(
        f"{name.lower()}_twice{suffix}", f"{name}({name}(x, a), b) -> {name}(x, (a, b))",
        lambda x, a, k, b, j: reduce(reduce(x, axis=a, keep_dims=k), axis=b, keep_dims=j),
        lambda x, a, k, b, out: ops.reshape(
            apply(made(axis=_joined(a, k, b), keep_dims=False), x), out.shape
        ),
        lambda x: when(x), fastmath, alone=True,
    )  # fmt: skip


def _always(x: Any) -> bool:
    return True


_PICKS = ("ReduceMax", "ReduceMin", "ReduceAll", "ReduceAny")  # the value of one element
REDUCTIONS = (
    *(of_one(name, _always) for name in ("ReduceMax", "ReduceMin", "ReduceProd")),
    *(of_one(name, is_exact) for name in ("ReduceSum", "ReduceMean")),
    *(of_broadcast(name, _always, lambda x, n: x, "x", False) for name in _PICKS),
    of_broadcast("ReduceSum", is_exact, lambda x, n: x * n, "x * n", False),
    *map(_with_dims, (*_PICKS, "ReduceSum", "ReduceMean", "ReduceProd")),
    *(_twice(name, _always) for name in _PICKS),
    *(_twice(name, is_exact) for name in ("ReduceSum", "ReduceProd")),
)


# --------------------------------------------------------------- rules for all element-wise ops


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
    return prim.type_of(*(x.abstract for x in inputs))


def _before_broadcast(node: Node) -> Node | None:
    if is_call_of(node, "BroadcastTo"):
        return node.inputs[0]
    if isinstance(node, CNode) and isinstance(node.callee, Reshape):
        return node.inputs[0] if _adds_ones(_shape(node.inputs[0]), _shape(node)) else None
    if isinstance(node, CNode) and isinstance(node.callee, Fill) and node.callee.attrs["shape"]:
        prim = Fill.bound(**{**node.callee.attrs, "shape": ()})
        return CNode(prim, (), prim.infer(), node.origin.made_by("drop_broadcast"))
    is_array = isinstance(node, ValueNode) and node.value.ndim > 0 and node.value.size > 0
    if is_array and is_number(node, node.value.flat[0]):  # type: ignore[attr-defined]
        assert isinstance(node, ValueNode)
        assert isinstance(node.abstract, AbstractTensor)
        abstract = AbstractTensor(node.abstract.dtype, ())
        return ValueNode(node.value.flat[:1].reshape(()), abstract, node.origin)
    return None


def _shape(node: Node) -> Shape:
    assert isinstance(node.abstract, AbstractTensor)
    return node.abstract.shape


def sink_broadcast(node: CNode) -> Node | None:
    """A function of fewer elements, then the BroadcastTo."""
    return _sunk(node, BroadcastTo, "sink_broadcast")


def sink_reshape(node: CNode) -> Node | None:
    """A function of the elements as they were, then the Reshape."""
    return _sunk(node, Reshape, "sink_reshape")


def _sunk(node: CNode, mover: type[Primitive], name: str) -> Node | None:
    """An element-wise op before the ops that move elements in place of after them.

    Every operand is moved by the same op from the same shape, or is a single number.
    """
    prim = node.callee
    assert isinstance(prim, Elementwise)
    moved = [i for i in node.inputs if isinstance(i, CNode) and isinstance(i.callee, mover)]
    if not moved or any(m.abstract != moved[0].abstract for m in moved[1:]):
        return None
    source, sizes = _shape(moved[0].inputs[0]), moved[0].inputs[1:]
    if not all(same_shape(_shape(m.inputs[0]), source) for m in moved):
        return None
    if not same_shape(_shape(moved[0]), _shape(node)):
        return None
    for operand in node.inputs:
        shape = _shape(operand)
        alone = same_shape(shape, (1,) * len(shape)) and len(shape) <= len(source)
        if operand not in moved and not alone:
            return None
    inputs = tuple(i.inputs[0] if i in moved else i for i in node.inputs)
    small = _inferred(prim, inputs)
    assert isinstance(small, AbstractTensor)
    if not same_shape(small.shape, source):
        return None
    origin = node.origin.made_by(name)
    inner = CNode(prim, inputs, small, origin)
    return CNode(moved[0].callee, (inner, *sizes), node.abstract, origin)


_ELEMENTWISE = tuple(n for n, p in REGISTRY.items() if issubclass(p, Elementwise))
_SEVERAL = tuple(n for n in _ELEMENTWISE if REGISTRY[n].arity > 1)  # type: ignore[attr-defined]
_MOVERS = ("Reshape", "Transpose", "BroadcastTo", "Tile", "ReverseV2", "StridedSlice")


def move_fill(node: CNode) -> Node | None:
    """A Fill of the shape to which one is moved, or to which a number is broadcast."""
    operand = node.inputs[0]
    if any(map(is_born, symbols_of(node.abstract))):
        return None  # a Fill of that shape has the sizes as operands
    if isinstance(operand, CNode) and isinstance(operand.callee, Fill):
        attrs = operand.callee.attrs
    elif is_call_of(node, "BroadcastTo") and isinstance(operand, ValueNode):
        if operand.value.size != 1:
            return None
        assert isinstance(operand.abstract, AbstractTensor)
        attrs = {"dtype": operand.abstract.dtype, "value": operand.value.item()}
    else:
        return None
    prim = Fill.bound(dtype=attrs["dtype"], shape=_shape(node), value=attrs["value"])
    return CNode(prim, (), node.abstract, node.origin.made_by("move_fill"))


MOVES = (
    Function("move_fill", "reshape(fill(v), s) -> fill(v, s)", _MOVERS, move_fill),
    Function("drop_broadcast", "broadcast_to(x) + y -> x + y, if y has that shape", _SEVERAL,
             drop_broadcast),
    Function("sink_broadcast", "f(broadcast_to(x)) -> broadcast_to(f(x))", _ELEMENTWISE,
             sink_broadcast),
    Function("sink_reshape", "f(reshape(x)) -> reshape(f(x))", _ELEMENTWISE, sink_reshape),
)  # fmt: skip

SHAPES: tuple[Rule | Function, ...] = (
    *CASTS, *RESHAPES, *BROADCASTS, *PRODUCTS, *REDUCTIONS, *MOVES,
)  # fmt: skip
FAST_SHAPES = (  # on only where fastmath.py's are
    *(of_one(name, _always, "_fast", True) for name in ("ReduceSum", "ReduceMean")),
    of_broadcast("ReduceSum", _always, lambda x, n: x * n, "x * n", True),
    of_broadcast("ReduceMean", _always, lambda x, n: x, "x", True),
    *(_twice(name, _always, "_fast", True) for name in ("ReduceSum", "ReduceMean")),
)
