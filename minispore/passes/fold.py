"""constant_folding: a primitive of constants becomes its value, as the interpreter computes it.

Not where the value would be larger than FOLD_LIMIT elements and than the constants it is made of,
so that ``zeros((1000, 1000))`` stays one small node.  Of such Fills other rules make Fills.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minispore.abstract import STACK, Abstract, AbstractTensor, AbstractTuple, symbols_of
from minispore.dtype import DIGITS
from minispore.ir.interp import as_abstract
from minispore.ir.node import CNode, Node, ValueNode, make_tuple
from minispore.ops import Cast, Elementwise, Fill
from minispore.ops.reduce import Reduction, count
from minispore.passes.cse import has_effect, holds
from minispore.passes.rewrite import Function
from minispore.primitive import REGISTRY, Primitive

FOLD_LIMIT = 256
_NAME = "fold_constants"


def fold(node: CNode) -> Node | None:
    """The constant that a node is, or a tuple of them."""
    callee = node.callee
    if (
        not isinstance(callee, Primitive)
        or callee.name in ("MakeTuple", "TupleGetItem")
        or not all(isinstance(i, ValueNode) for i in node.inputs)
        or has_effect(node)
        or holds(node.abstract, STACK)
        or callee.symbols
        or any(symbols_of([n.abstract for n in (node, *node.inputs)]))
        or _size(node.abstract) > max(FOLD_LIMIT, sum(_size(i.abstract) for i in node.inputs))
    ):
        return None
    values = [i.value for i in node.inputs if isinstance(i, ValueNode)]
    try:
        with np.errstate(all="ignore"):
            value = as_abstract(callee.eval(*values), node.abstract)
    except Exception:
        return None  # it fails when the program runs, if it runs: the error is not for now
    origin = node.origin.made_by(_NAME)
    if isinstance(node.abstract, AbstractTuple):
        items = zip(value, node.abstract.items, strict=True)
        return make_tuple([ValueNode(v, a, origin) for v, a in items], origin)
    return ValueNode(value, node.abstract, origin)


def _size(abstract: Abstract) -> int:
    if isinstance(abstract, AbstractTuple):
        return sum(map(_size, abstract.items))
    return abstract.size if isinstance(abstract, AbstractTensor) else 1


def fold_fills(node: CNode) -> Node | None:
    """An element-wise op of Fills and single numbers: one Fill."""
    numbers = [_number(i) for i in node.inputs]
    if any(n is None for n in numbers) or not any(isinstance(i, CNode) for i in node.inputs):
        return None
    assert isinstance(node.callee, (Elementwise, Cast))
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(node.callee.eval(*numbers))
    except Exception:
        return None
    return _fill(node, value, "fold_fills")


def fold_reduction(node: CNode) -> Node | None:
    """A reduction of a Fill: a Fill.  Of a sum only where no addition would round."""
    fill, prim = node.inputs[0], node.callee
    number = _number(fill)
    if number is None or not isinstance(fill, CNode) or not isinstance(prim, Reduction):
        return None
    assert isinstance(fill.abstract, AbstractTensor)
    n, dtype = count(fill.abstract.shape, prim.attrs["axis"]), fill.abstract.dtype
    if prim.name in ("ReduceSum", "ReduceMean"):
        if dtype.is_float and not _sums_exactly(float(number), n, DIGITS[dtype]):
            return None
        if prim.name == "ReduceMean":
            return _fill(node, number, "fold_reduction") if n and dtype.is_float else None
        with np.errstate(all="ignore"):
            total = np.multiply(number, np.asarray(n).astype(number.dtype))
        return _fill(node, total + number.dtype.type(0), "fold_reduction")  # a sum is never -0.0
    return _fill(node, number, "fold_reduction") if n else None


def _sums_exactly(value: float, n: int, digits: int) -> bool:
    """True if n times `value` has no more binary digits than its type."""
    if not math.isfinite(value):
        return False
    odd = int(math.frexp(value)[0] * 2.0**53)
    while odd and odd % 2 == 0:
        odd //= 2
    return abs(odd) * n <= 2**digits


def _number(node: Node) -> Any:
    """What all elements of a Fill are, or the one of a constant, as a 0-d array; else None."""
    if isinstance(node, CNode) and isinstance(node.callee, Fill):
        attrs = node.callee.attrs
        return np.full((), attrs["value"], attrs["dtype"].numpy)
    is_one = isinstance(node, ValueNode) and isinstance(node.value, np.ndarray)
    return node.value.reshape(()) if is_one and node.value.size == 1 else None  # type: ignore


def _fill(node: CNode, value: np.ndarray, rule: str) -> Node | None:
    assert isinstance(node.abstract, AbstractTensor)
    dtype = node.abstract.dtype
    number = value.astype(dtype.numpy).item()
    prim = Fill.bound(dtype=dtype, shape=node.abstract.shape, value=number)
    if prim.needs:  # sizes as operands
        return None
    return CNode(prim, (), node.abstract, node.origin.made_by(rule))


_ELEMENTWISE = (*(n for n, p in REGISTRY.items() if issubclass(p, Elementwise)), "Cast")
_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceAll", "ReduceAny",
)  # fmt: skip
FOLD_RULES = (
    Function(_NAME, "op(constants) -> constant", ("*",), fold),
    Function("fold_fills", "fill(a) + fill(b) -> fill(a + b)", _ELEMENTWISE, fold_fills),
    Function("fold_reduction", "sum(fill(a)) -> fill(n * a), where that is exact", _REDUCTIONS,
             fold_reduction),
)  # fmt: skip
