"""Which nodes kernels can compute: by their primitive, their dtypes, and sizes that are known.

What is not here stays with the plan, and runs as NumPy or Python does it.
"""

from __future__ import annotations

from typing import Any

from minispore.abstract import TOKEN, Abstract, AbstractTensor, AbstractTuple
from minispore.engine import scalars
from minispore.engine.layout import FLOATS, HALVES, kind_of
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Node,
    Switch,
    ValueNode,
    While,
    graphs_of,
    is_call_of,
    item_index,
)
from minispore.ops.elementwise import Elementwise
from minispore.primitive import REGISTRY, Primitive

_ON_INTS = frozenset(
    "Add Sub Mul Maximum Minimum Neg Abs Square ReLU Equal NotEqual Less LessEqual Greater "
    "GreaterEqual BitwiseAnd BitwiseOr BitwiseXor FloorDiv FloorMod Select Cast".split()
)
_ON_BOOLS = frozenset(
    "LogicalAnd LogicalOr LogicalXor LogicalNot Select Cast Equal NotEqual".split()
)
_MOVES = frozenset(
    "Reshape ExpandDims Squeeze Identity StopGradient Transpose BroadcastTo StridedSlice ReverseV2 "
    "Fill Concat Stack Pad StridedSliceGrad Tile".split()
)


def is_native(node: Node) -> bool:
    """True if kernels can compute a node, and a segment may begin with it."""
    if not isinstance(node, CNode):
        return False
    if isinstance(node.callee, (While, Switch)):
        return _flows(node)
    if item_index(node) is not None:
        return is_native(node.inputs[0])
    if not isinstance(node.callee, Primitive):
        return False
    name, out = node.callee.name, node.abstract
    if REGISTRY.get(name) is not type(node.callee) or node.callee.effect:
        return False
    if node.callee.symbols:  # a size in an attribute is known when it runs
        return False
    if name == "Split":
        return _kind(node.inputs[0]) is not None and 0 not in node.callee.attrs["sizes"]
    kinds = [_kind(i) for i in (node, *node.inputs)]
    if None in kinds or not out.size or any(not i.abstract.size for i in node.inputs):  # type: ignore
        return False
    if isinstance(node.callee, Elementwise) or name == "Cast":
        return _map_is_native(name, kinds)
    test = _TESTS.get(name)
    return name in _MOVES or (test is not None and test(node, kinds))


def is_number(node: Node) -> bool:
    """True if kernels can compute a number; that is worth while beside others only."""
    if not isinstance(node, CNode) or not isinstance(node.callee, Primitive):
        return False
    return scalars.computes(node.callee, [i.abstract for i in node.inputs], node.abstract)


def can_fail(node: Node) -> bool:
    """True for a native node in whose place Python may raise."""
    if not isinstance(node, CNode):
        return False
    if isinstance(node.callee, Primitive):
        return node.callee.effect or (is_number(node) and scalars.can_fail(node))
    return any(can_fail(n) for g in graphs_of(node.callee) for n in g.nodes())


def _kind(node: Node) -> str | None:
    return kind_of(node.abstract) if isinstance(node.abstract, AbstractTensor) else None


def _map_is_native(name: str, kinds: list) -> bool:
    if name == "Cast":  # what a float too large becomes as an integer is NumPy's affair
        rounds_twice = kinds == ["f2", "f8"]
        return not rounds_twice and (kinds[1] not in FLOATS or kinds[0] not in ("i4", "i8"))
    operand = kinds[-1] if name == "Select" else kinds[1]
    if operand in FLOATS:
        return True
    return name in (_ON_BOOLS if operand == "u1" else _ON_INTS)


def _flows(node: CNode) -> bool:
    """True for a loop or branch of Tensors and numbers, all of whose nodes are native."""
    if not all(_passes(i.abstract) for i in (*node.inputs, node)):
        return False
    return all(
        _is_inside(n, g) for g in graphs_of(node.callee) for n in g.nodes() if isinstance(n, CNode)
    )


def _passes(abstract: Abstract) -> bool:
    """True for what may go into and come out of native graphs."""
    if isinstance(abstract, AbstractTuple):
        return all(map(_passes, abstract.items))
    if abstract == TOKEN:
        return True
    if kind_of(abstract) is None:  # of sizes that are not known yet, too
        return False
    return not isinstance(abstract, AbstractTensor) or bool(abstract.size)


def _is_inside(node: CNode, graph: FuncGraph) -> bool:
    """True if a node of a loop or branch is native."""
    if node is graph.output and is_call_of(node, "MakeTuple"):
        return all(_passes(i.abstract) for i in node.inputs)
    if item_index(node) is not None:
        return isinstance(node.inputs[0], CNode)  # which is asked about by itself
    if is_call_of(node, "Check"):
        return kind_of(node.inputs[1].abstract) is not None
    if is_call_of(node, "Attempt"):
        callee: Any = node.callee
        op, operands = scalars.attempted(callee), callee.split(node.inputs[1:])[0]
        return scalars.computes(op, [i.abstract for i in operands], operands[0].abstract)
    return is_native(node) or is_number(node)


def _reduces(node: CNode, kinds: list) -> bool:
    return kinds[1] in FLOATS and bool(node.callee.attrs["axis"])  # type: ignore[union-attr]


def _sums(node: CNode, kinds: list) -> bool:
    return kinds[1] != "u1" and bool(node.callee.attrs["axis"])  # type: ignore[union-attr]


def _tests_all(node: CNode, kinds: list) -> bool:
    axes = node.callee.attrs["axis"]  # type: ignore[union-attr]
    ndim = len(node.inputs[0].abstract.shape)  # type: ignore[attr-defined]
    return bool(axes) and axes == tuple(range(ndim - len(axes), ndim))


def _on_last_axis(node: CNode, kinds: list) -> bool:
    axis = node.callee.attrs["axis"]  # type: ignore[union-attr]
    return kinds[1] in FLOATS and axis == len(node.inputs[0].abstract.shape) - 1  # type: ignore


def _picks(node: CNode, kinds: list) -> bool:
    x, index = (i.abstract.shape for i in node.inputs)  # type: ignore[attr-defined]
    return _on_last_axis(node, kinds) and index == (*x[:-1], 1)


def _puts(node: CNode, kinds: list) -> bool:
    base, index, update = node.inputs
    x = base.abstract.shape  # type: ignore[attr-defined]
    one = (*x[:-1], 1)
    zeros = getattr(getattr(base, "callee", None), "name", "") == "Fill"
    zeros = base.callee.attrs["value"] == 0 if zeros else (  # type: ignore[attr-defined]
        isinstance(base, ValueNode) and not base.value.any())  # fmt: skip
    shapes = index.abstract.shape == update.abstract.shape == one  # type: ignore[attr-defined]
    attrs = node.callee.attrs  # type: ignore[union-attr]
    return zeros and shapes and attrs["axis"] == len(x) - 1 and attrs["reduction"] == "add"


def _along_first(node: CNode, kinds: list) -> bool:
    numbers = kinds[0] != "u1" and kinds[0] not in HALVES
    return node.callee.attrs["axis"] == 0 and numbers  # type: ignore[union-attr]


def _gathers(node: CNode, kinds: list) -> bool:
    return node.callee.attrs["axis"] == 0  # type: ignore[union-attr]


def _at_first_axes(node: CNode, kinds: list) -> bool:
    axes = node.callee.attrs["axes"]  # type: ignore[union-attr]
    ints = all(k in ("i4", "i8") for k in kinds[len(kinds) - len(axes) :])
    return ints and axes == tuple(range(len(axes)))


def _puts_one_row(node: CNode, kinds: list) -> bool:
    one = all(i.abstract.size == 1 for i in node.inputs[2:])  # type: ignore[attr-defined]
    return one and kinds[0] == kinds[1] == kinds[2] and _at_first_axes(node, kinds)


def _multiplies(node: CNode, kinds: list) -> bool:
    return kinds[0] in FLOATS


_TESTS: dict[str, Any] = {
    "ReduceSum": _sums, "ReduceMean": _reduces, "ReduceMax": _reduces, "ReduceMin": _reduces,
    "ReduceAll": _tests_all, "ReduceAny": _tests_all, "Softmax": _on_last_axis,
    "LogSoftmax": _on_last_axis, "GatherD": _picks, "TensorScatterElements": _puts,
    "MatMul": _multiplies, "BatchMatMul": _multiplies, "Gather": _gathers, "IndexAdd": _along_first,
    "BiasAdd": _multiplies, "IndexInRange": lambda node, kinds: True,
    "SetSlice": lambda node, kinds: kinds[1] == kinds[2],
    "GatherIndex": _at_first_axes, "SetIndex": _puts_one_row,
    "AddIndex": lambda node, kinds: kinds[0] != "u1" and _puts_one_row(node, kinds),
}  # fmt: skip
