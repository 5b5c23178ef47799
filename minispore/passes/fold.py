"""constant_folding: a primitive of constants becomes its value, as the interpreter computes it.

Not where the value would be larger than FOLD_LIMIT elements and than the constants it is made of,
so that ``zeros((1000, 1000))`` stays one small node.
"""

from __future__ import annotations

import numpy as np

from minispore.abstract import STACK, Abstract, AbstractTensor, AbstractTuple
from minispore.ir.interp import as_abstract
from minispore.ir.node import CNode, Node, ValueNode, make_tuple
from minispore.passes.cse import has_effect, holds
from minispore.passes.rewrite import Function
from minispore.primitive import Primitive

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


FOLD_RULES = (Function(_NAME, "op(constants) -> constant", ("*",), fold),)
