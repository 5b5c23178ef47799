"""What a kernel moves and computes, counted from its steps: bytes and operations.

Bytes are those that must move at least once: what a kernel reads from outside and what it writes,
each element once, however often its loops pass over it.  An operation is one arithmetic operation,
comparison or function (``exp`` counts as one) on one element; a product of matrices of m x k and
k x n has 2 m n k.  Conversions, copies and choices by a condition are none.
"""

from __future__ import annotations

import ast
import functools
import math

from minispore.abstract import Abstract, AbstractTensor, AbstractTuple
from minispore.engine.emit import Kernel
from minispore.engine.layout import SIZES, Buffer, View, unbroadcast
from minispore.engine.lower import Step
from minispore.ir.node import CNode
from minispore.ops.elementwise import Elementwise
from minispore.primitive import Primitive

_CONVERSIONS = ("f4", "f8", "i4", "i8", "u1", "cast_")
_REDUCTIONS = frozenset("sum max min larger all any".split())
_VIEWS = frozenset("Reshape ExpandDims Squeeze Identity StopGradient TensorToScalar".split())


def writes(kernel: Kernel) -> dict[Buffer, int]:
    """The buffers that a kernel writes, and how many bytes."""
    made = {b.home for b in kernel.group.kinds}
    return {b: b.bytes for b in _arguments(kernel) if b in made}


def reads(kernel: Kernel) -> dict[Buffer, int]:
    """The buffers that a kernel reads and does not make itself, and how many bytes."""
    found: dict[Buffer, int] = {}
    known = set(_arguments(kernel))
    for step in kernel.group.steps:
        for number, view in enumerate(step.inputs):
            home = view.buffer.home
            if view.buffer not in kernel.group.kinds and home in known:
                size = _elements(step, number) * SIZES[home.dtype]
                found[home] = min(found.get(home, 0) + size, home.bytes)
    return found


def operations(kernel: Kernel) -> int:
    """How many operations a kernel does."""
    return sum(map(_of_step, kernel.group.steps))


def _arguments(kernel: Kernel) -> list[Buffer]:
    return list(dict.fromkeys(a.home for a in kernel.arguments if isinstance(a, Buffer)))


def _elements(step: Step, number: int) -> int:
    """How many elements a step reads of an operand."""
    view = step.inputs[number]
    how = step.ways[number][0] if step.ways else ""
    if how == "gather":
        return step.size
    if how == "lookup" or step.kind == "pick":
        return step.inputs[1 if step.kind == "pick" else 0].size
    return _distinct(view)


def _distinct(view: View) -> int:
    """The elements of a view, those that are repeated counted once."""
    return math.prod(unbroadcast(view).shape)


def _of_step(step: Step) -> int:
    if step.kind == "map":
        return step.out.size * _in_text(step.text)
    if step.kind == "matmul":
        return 2 * step.out.size * step.inputs[0].shape[-1]
    if step.kind == "index add":
        return step.inputs[1].size
    return step.size if step.kind in _REDUCTIONS else 0


@functools.cache
def _in_text(text: str) -> int:
    """The operations in a scalar expression, such as ``exp({0}) * 2``."""
    found = 0
    for node in ast.walk(ast.parse(text.replace("{", "x").replace("}", ""), mode="eval")):
        if isinstance(node, ast.Call):
            found += not (isinstance(node.func, ast.Name) and node.func.id.startswith(_CONVERSIONS))
        elif isinstance(node, ast.Compare):
            found += len(node.ops)
        elif isinstance(node, ast.UnaryOp):
            found += not isinstance(node.operand, ast.Constant)
        elif isinstance(node, (ast.BinOp, ast.BoolOp)):
            found += 1
    return found


# ------------------------------------------------------------------------------- nodes alone


def bytes_of(abstract: Abstract) -> int:
    """What a value takes; sizes that vary, numbers, Tokens and Stacks count as nothing."""
    if isinstance(abstract, AbstractTuple):
        return sum(map(bytes_of, abstract.items))
    if not isinstance(abstract, AbstractTensor):
        return 0
    known = all(type(n) is int and n >= 0 for n in abstract.shape)
    return math.prod(abstract.shape) * abstract.dtype.numpy.itemsize if known else 0


def moves_nothing(node: CNode) -> bool:
    """True if a node only gives a value another shape."""
    return isinstance(node.callee, Primitive) and node.callee.name in _VIEWS


def bytes_alone(node: CNode) -> int:
    """What a node moves if it is computed alone: its operands in, its value out.

    What only gives a value another shape moves nothing.
    """
    if moves_nothing(node):
        return 0
    operands = {id(i): bytes_of(i.abstract) for i in node.inputs}
    return sum(operands.values()) + bytes_of(node.abstract)


def operations_alone(node: CNode) -> int | None:
    """How many operations a node does; None for primitives of which that is not known."""
    if not isinstance(node.callee, Primitive) or not isinstance(node.abstract, AbstractTensor):
        return None
    if not bytes_of(node.abstract):
        return None
    if isinstance(node.callee, Elementwise) and node.callee.expr:
        return node.abstract.size * _in_text(node.callee.expr)
    if node.callee.name in ("MatMul", "BatchMatMul"):
        shape = node.inputs[0].abstract.shape  # type: ignore[attr-defined]
        return 2 * node.abstract.size * shape[-2 if node.callee.attrs["transpose_a"] else -1]
    return None
