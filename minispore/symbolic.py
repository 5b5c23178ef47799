"""Running ops on graph nodes: the handler that builds graphs, and numbers that vary.

``with handled_by(GraphBuilder()):`` turns every ``apply`` into a node.  J builds backward graphs
with it, passes build replacements, and the front end's evaluator extends it with regions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import TOKEN, AbstractScalar, AbstractTensor, AbstractTuple
from minispore.dims import Dim, born, form, is_born, register_number, split
from minispore.dtype import DType
from minispore.ir.node import NOWHERE, CNode, Node, Origin, ValueNode, tuple_item
from minispore.primitive import (
    REGISTRY,
    Primitive,
    ScalarLike,
    TensorLike,
    apply,
    current_handler,
    handled_by,
)
from minispore.tensor import Tensor, assembled, to_array
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
        what = f"{_a(self.kind)} that decides types, shapes or Python objects"
        raise NeedConstant(what, "make it a constant, or compute with a mask")

    __int__ = __float__ = __index__

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

    def __lshift__(self, places: Any) -> Any:
        return self * (1 << places) if self.kind is not float else NotImplemented

    def __rshift__(self, places: Any) -> Any:
        return self // (1 << places) if self.kind is not float else NotImplemented

    def __rlshift__(self, other: Any) -> Any:
        raise NeedConstant("by how many places a number is shifted", "multiply by 2 ** n")

    __rrshift__ = __rlshift__

    def __round__(self, digits: Any = None) -> Any:
        return scalar_op("ScalarRound", self, *(() if digits is None else (digits,)))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __hash__(self) -> int:
        raise NeedConstant(
            f"{_a(self.kind)} that is a dict key, or in a set,", "use a list of pairs"
        )


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
            raise NeedConstant("pow() of three numbers", "write a ** b % c")
        if name == "ScalarPow" and type(other) is int and other < 0:
            other = float(other)  # an int to such a power is a float
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


def _number(size: Dim) -> Scalar:
    """What a Dim is among numbers that vary at run time, in the graph that is being built."""
    return Scalar(current_handler().node_of(size))  # type: ignore[attr-defined]


register_number(_number)


def is_run_time(value: Any) -> bool:
    """True for a Tensor, Scalar or size inside a graph: what is known when it runs."""
    return isinstance(value, (TensorLike, ScalarLike))


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

    `token` is the last effect's node; `origin` is put on every node made; `sized` are nodes off
    which sizes can be read that are known only when the graph runs.
    """

    def __init__(
        self, origin: Origin = NOWHERE, token: Node | None = None, sized: Sequence[Node] = ()
    ):
        self.origin = origin
        self.token: Node = token or ValueNode(None, TOKEN)
        self.sized = sized

    def bind(self, prim: Primitive, args: tuple) -> Any:
        nodes = [self.node_of(a) for a in args]
        if prim.gives_sizes and "count" not in prim.attrs:
            prim = prim.bound(**prim.attrs, count=self.count(prim, nodes))
        nodes += [self.size(symbol, nodes) for symbol in prim.needs]
        if prim.effect:
            nodes.insert(0, self.token)
        abstract = prim.type_of(*(n.abstract for n in nodes))
        node = self.emit(CNode(prim, nodes, abstract, self.origin))
        if prim.effect:
            self.token = node
            return None
        return wrap(node)

    def emit(self, node: CNode) -> CNode:
        """Called with every new node; a subclass may note where it was born."""
        return node

    def count(self, prim: Primitive, inputs: list[Node]) -> Dim:
        """The size that a primitive gives to its result when it runs."""
        return born()

    def size(self, symbol: str, operands: Sequence[Node] = ()) -> Node:
        """An int: a size that is born, read off a node that has it; NeedConstant if none does."""
        for node in (*operands, *self.sized):
            found = self.size_in(node, symbol)
            if found is not None:
                return found
        raise NeedConstant(f"the size {symbol}")

    def size_in(self, node: Node, symbol: str) -> Node | None:
        """The size of a symbol, if a node has it: as an operand, or in a dimension."""
        if isinstance(node, CNode) and isinstance(node.callee, Primitive):
            needs = node.callee.needs
            if symbol in needs:
                return node.inputs[len(node.inputs) - len(needs) + needs.index(symbol)]
        for axis, dim in enumerate(getattr(node.abstract, "shape", ())):
            factor, rest = split(dim.form, symbol) if isinstance(dim, Dim) else (0, 0)
            if factor and not any(map(is_born, getattr(rest, "symbols", ()))):
                number = apply(REGISTRY["DimSize"].bound(axis=axis), node)
                number = number - rest if form(rest) else number
                return self.node_of(number if factor == 1 else number // factor)
        return None

    def node_of(self, value: Any) -> Node:
        """The node of an argument: of a Tensor, Scalar or size, or of a constant."""
        if isinstance(value, Node):
            return value
        if isinstance(value, Scalar):
            return value.node
        if isinstance(value, Dim):
            if value.symbol is not None and is_born(value.symbol):
                return self.size(value.symbol)
            number = apply(REGISTRY["DimValue"].bound(size=value))
            return number.node
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
        stacked = assembled(value, dtype)
        if stacked is not None:
            return stacked
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
