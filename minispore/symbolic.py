"""Running ops on graph nodes: the handler that builds graphs, and numbers that vary.

``with handled_by(GraphBuilder()):`` turns every ``apply`` into a node.  J builds backward graphs
with it, passes build replacements, and the front end's evaluator extends it with regions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import (
    TOKEN,
    AbstractScalar,
    AbstractTensor,
    AbstractTuple,
)
from minispore.dtype import DType
from minispore.ir.node import NOWHERE, CNode, Node, Origin, ValueNode, tuple_item
from minispore.primitive import (
    REGISTRY,
    Primitive,
    ScalarLike,
    TensorLike,
    apply,
    handled_by,
)
from minispore.tensor import Tensor, to_array
from minispore.tree import NeedConstant


class Scalar(ScalarLike):
    """A Python bool, int or float that varies at run time: a cell-less node with operators.

    Each is of a subclass named as the number's own type, so that Python's errors name that.
    """

    __slots__ = ("node",)

    def __new__(cls, node: Node) -> Scalar:
        assert isinstance(node.abstract, AbstractScalar)
        return object.__new__(_SCALARS[node.abstract.kind])

    def __init__(self, node: Node):
        self.node = node

    @property
    def kind(self) -> type:  # type: ignore[override]
        assert isinstance(self.node.abstract, AbstractScalar)
        return self.node.abstract.kind

    def __bool__(self) -> bool:
        raise NeedConstant(f"the truth of {_a(self.kind)}")

    def __index__(self) -> int:
        raise NeedConstant(f"{_a(self.kind)} that decides types, shapes or Python objects")

    __int__ = __index__

    def __float__(self) -> float:
        raise NeedConstant(f"{_a(self.kind)} that decides types, shapes or Python objects")

    def __repr__(self) -> str:
        return f"<{self.kind.__name__} known at run time>"

    def __neg__(self) -> Any:
        return scalar_op("ScalarNeg", self)

    def __pos__(self) -> Any:
        return scalar_op("ScalarAdd", self, 0)

    def __abs__(self) -> Any:
        return scalar_op("ScalarAbs", self)

    def __invert__(self) -> Any:
        if self.kind is float:
            raise TypeError("bad operand type for unary ~: 'float'")
        return -self - 1

    def __round__(self, digits: Any = None) -> Any:
        return scalar_op("ScalarRound", self, *(() if digits is None else (digits,)))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __hash__(self) -> int:
        raise NeedConstant(f"{_a(self.kind)} that is a dict key, or in a set,")


_SCALARS: dict[type, type] = {
    k: type(k.__name__, (Scalar,), {"__slots__": ()}) for k in (bool, int, float)
}


def _a(kind: type) -> str:
    return f"an {kind.__name__}" if kind is int else f"a {kind.__name__}"


def scalar_op(name: str, *args: Any) -> Any:
    """A Scalar primitive on Scalars and Python numbers."""
    return apply(REGISTRY[name].bound(), *args)


def _binary(name: str) -> tuple[Callable, Callable]:
    wholes_only = name in ("ScalarAnd", "ScalarOr", "ScalarXor")

    def fits(self: Scalar, other: Any) -> bool:
        if not isinstance(other, (bool, int, float, Scalar)):
            return False
        return not (wholes_only and float in (self.kind, getattr(other, "kind", type(other))))

    def forward(self: Scalar, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            raise NeedConstant("pow() of three numbers")
        return scalar_op(name, self, other) if fits(self, other) else NotImplemented

    def reflected(self: Scalar, other: Any) -> Any:
        return scalar_op(name, other, self) if fits(self, other) else NotImplemented

    return forward, reflected


for _name, _method in (
    ("ScalarAdd", "add"), ("ScalarSub", "sub"), ("ScalarMul", "mul"), ("ScalarDiv", "truediv"),
    ("ScalarFloorDiv", "floordiv"), ("ScalarMod", "mod"), ("ScalarPow", "pow"),
    ("ScalarAnd", "and"), ("ScalarOr", "or"), ("ScalarXor", "xor"),
):  # fmt: skip
    _forward, _reflected = _binary(_name)
    setattr(Scalar, f"__{_method}__", _forward)
    setattr(Scalar, f"__r{_method}__", _reflected)
for _name, _method in (
    ("ScalarEqual", "eq"), ("ScalarNotEqual", "ne"), ("ScalarLess", "lt"),
    ("ScalarLessEqual", "le"), ("ScalarGreater", "gt"), ("ScalarGreaterEqual", "ge"),
):  # fmt: skip
    setattr(Scalar, f"__{_method}__", _binary(_name)[0])


def constant_node(value: Any, origin: Origin = NOWHERE) -> ValueNode:
    """A ValueNode of an ndarray or a Python number."""
    if isinstance(value, np.ndarray):
        return ValueNode(value, AbstractTensor(dt.from_numpy(value.dtype), value.shape), origin)
    if isinstance(value, (bool, int, float)):
        return ValueNode(value, AbstractScalar(type(value)), origin)
    raise TypeError(f"{type(value).__name__} is no value of the graph")


def wrap(node: Node) -> Any:
    """What user code sees of a node: a Tensor, a Scalar, a tuple of them, or the node itself."""
    if isinstance(node.abstract, AbstractTensor):
        return Tensor._of_node(node)
    if isinstance(node.abstract, AbstractScalar):
        return Scalar(node)
    if isinstance(node.abstract, AbstractTuple):
        return tuple(wrap(tuple_item(node, i)) for i in range(len(node.abstract.items)))
    return node


class GraphBuilder:
    """A handler under which ``apply`` makes nodes.

    `token` is the last effect's node; `origin` is put on every node made.
    """

    def __init__(self, origin: Origin = NOWHERE, token: Node | None = None):
        self.origin = origin
        self.token: Node = token or ValueNode(None, TOKEN)

    def bind(self, prim: Primitive, args: tuple) -> Any:
        nodes = [self.node_of(a) for a in args]
        if prim.effect:
            nodes.insert(0, self.token)
        node = self.emit(CNode(prim, nodes, prim.infer(*(n.abstract for n in nodes)), self.origin))
        if prim.effect:
            self.token = node
            return None
        return wrap(node)

    def emit(self, node: CNode) -> CNode:
        """Called with every new node; a subclass may note where it was born."""
        return node

    def node_of(self, value: Any) -> Node:
        """The node of an argument: of a Tensor or Scalar, or of a constant."""
        if isinstance(value, Node):
            return value
        if isinstance(value, Scalar):
            return value.node
        if isinstance(value, TensorLike):
            assert isinstance(value, Tensor)
            return value._node if value._node is not None else self.captured(value)
        return constant_node(value, self.origin)

    def captured(self, tensor: Tensor) -> Node:
        """The node of a Tensor made outside; here its value now, as a constant."""
        return constant_node(tensor._data, self.origin)

    def constant(self, value: Any, dtype: DType | None) -> Tensor:
        if isinstance(value, Tensor) and value._node is not None:
            return value if dtype is None else ops.cast(value, dtype)
        return Tensor._of_node(constant_node(to_array(value, dtype), self.origin))

    def write(self, cell: Tensor, value: Tensor) -> None:
        cell._node = self.node_of(value)

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        raise RuntimeError(
            f"a {type(function).__name__} cannot be called inside a compiled function where no "
            "program is evaluated: in a gradient rule, or in a rule of a pass"
        )


__all__ = [
    "GraphBuilder", "NeedConstant", "Scalar", "constant_node", "handled_by", "scalar_op", "wrap",
]  # fmt: skip
