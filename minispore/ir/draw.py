"""Pictures of graphs, of what a pass did to one, and of PyNative's tape.

    draw(graph)                          the graph; in a notebook it shows itself
    draw(graph).save("step.svg")
    draw(graph, expand=("fc1",))         a large graph, with the box of fc1 open
    draw_difference(before, after)       what a pass made (+) and what it removed (-)
    draw_tape(tape, upto=3)              the first three operations that a tape recorded

Each sub-graph and each Cell's scope is a box.  Forward is rounded and blue, backward dashed and
orange, the update framed twice and green.  Ovals are inputs; constants stand in the labels, shapes
and dtypes at the edges; dashed edges are the order of effects, bold ones control.  Every operation
has the number that the text form gives it, and its line of text and of source as a tooltip.

The steps: rooms.py (what goes into which box), sketch.py (items), wires.py (edges), picture.py
(DOT), render.py (SVG).  (MindSpore: the .dot files of ``save_graphs``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from minispore.abstract import AbstractScalar, AbstractTuple
from minispore.ir.difference import draw_difference
from minispore.ir.node import (
    NOWHERE,
    CNode,
    FuncGraph,
    Node,
    Origin,
    ParameterNode,
    ValueNode,
    make_tuple,
    tuple_item,
)
from minispore.ir.render import Drawing, drawing_of
from minispore.ir.rooms import LIMIT, Plan, check_options, open_rooms
from minispore.ir.sketch import Sketch
from minispore.ir.text import to_text, write_node
from minispore.ir.wires import connect
from minispore.primitive import Primitive, TensorLike


def draw(
    graph: FuncGraph,
    *,
    collapse: bool | str = "auto",
    expand: Iterable[str] | str = (),
    legend: bool = False,
    limit: int = LIMIT,
) -> Drawing:
    """A picture of a graph and of all that it reaches.

    Args:
        graph: what to draw.
        collapse: True closes the box of every scope and sub-graph, False none; "auto" closes
            boxes if there are more than `limit` operations, the inner and larger ones first.
        expand: names of boxes that are open in any case: a Cell's attribute ("fc1"), a path of
            them ("net/fc1"), a sub-graph ("@forward"); or "all".
        legend: explain shapes and lines in a box above.
        limit: see `collapse`.

    Returns:
        A Drawing, which shows itself in notebooks; ``.dot``, ``.svg()``, ``.save(path)``.

    Raises:
        ValueError: `expand` names no box, or `collapse` is none of these.
    """
    plan = Plan(graph)
    open_rooms(plan, collapse, check_options(collapse, expand, plan), limit)
    sketch = Sketch(plan)
    connect(sketch)
    return drawing_of(sketch.picture, to_text(graph), legend)


# --------------------------------------------------------------------------------------- tapes

BACKWARD = Origin(phase="backward")


def draw_tape(
    tape: Any,
    upto: int | None = None,
    *,
    names: Mapping[str, Any] | None = None,
    legend: bool = False,
) -> Drawing:
    """A picture of what a tape of PyNative mode recorded, with the numbers of ``print(tape)``.

    What it recorded while another tape went backward looks as backward does in other pictures.

    Args:
        tape: a Tape (autodiff/tape.py); what it watches are the inputs.
        upto: draw only so many entries, and mark the last: the tape as it grows.
        names: what to call inputs: name -> Tensor.
        legend: explain shapes and lines in a box above.
    """
    recorded = _Recorded(tape, upto, names or {})
    plan = Plan(recorded.graph)
    plan.numbers |= recorded.numbers
    last = recorded.operations[-1:] if upto is not None else []
    sketch = Sketch(plan, dict.fromkeys(last, "new"), returns=False)
    connect(sketch)
    text = "\n".join(write_node(n, plan.numbers, plan.names) for n in recorded.operations)
    return drawing_of(sketch.picture, text, legend)


class _Recorded:
    """A tape's entries as a graph, which returns all values that no entry reads.

    `operations` are the entries' nodes in order.
    """

    def __init__(self, tape: Any, upto: int | None, names: Mapping[str, Any]):
        self.tape = tape
        self.called = {tensor._key: name for name, tensor in names.items()}
        self.operations: list[CNode] = []
        self.numbers: dict[Node, str] = {}
        self._nodes: dict[int, Node] = {}  # key of a value -> its node
        self._inputs: list[ParameterNode] = []
        self._count = 0
        unread: dict[Node, None] = {}
        for i, entry in enumerate(tape.entries[:upto]):
            goes_back = any(i in walk for walk in tape.walks)
            for node in self._enter(entry, BACKWARD if goes_back else NOWHERE):
                unread[node] = None
            for operand in self.operations[-1].inputs:
                unread.pop(operand, None)
        self.graph = FuncGraph("tape", self._inputs, make_tuple(unread))

    def _enter(self, entry: Any, origin: Origin) -> list[Node]:
        """Add the node of an entry; returns the nodes of its outputs."""
        inputs = [self._operand(value) for value in entry.inputs]
        types = [value._abstract for value in entry.outputs]
        is_tuple = isinstance(entry.out, tuple)
        abstract = AbstractTuple(tuple(types)) if is_tuple else types[0]
        node = CNode(_as_primitive(entry.rule), inputs, abstract, origin)
        items: list[Node] = [node]
        if is_tuple:
            items = [tuple_item(node, i) for i in range(len(types))]
        for value, item in zip(entry.outputs, items, strict=True):
            self._nodes[value._key] = item
            self.numbers[item] = self._next_number() if self.tape.follows(value) else "_"
        self.numbers[node] = ", ".join(self.numbers[item] for item in items)
        self.operations.append(node)
        return items

    def _operand(self, value: Any) -> Node:
        """The node of an entry's input: an earlier output, an input of the tape, or a constant."""
        if not isinstance(value, TensorLike):
            return ValueNode(value, AbstractScalar(type(value)))
        tensor: Any = value
        if tensor._key in self._nodes:
            return self._nodes[tensor._key]
        if not self.tape.follows(tensor):
            return ValueNode(tensor._data, tensor._abstract)
        number = self._next_number()
        node = ParameterNode(self.called.get(tensor._key, number), tensor._abstract)
        self.numbers[node] = number
        self._nodes[tensor._key] = node
        self._inputs.append(node)
        return node

    def _next_number(self) -> str:
        self._count += 1
        return f"%{self._count}"


def _as_primitive(rule: Any) -> Primitive:
    """What was called; a custom rule stands in as a primitive of its name."""
    if isinstance(rule, Primitive):
        return rule
    kind: Any = type(rule.name, (Primitive,), {"name": rule.name}, register=False)
    return kind.bound()


__all__ = ["Drawing", "draw", "draw_difference", "draw_tape"]
