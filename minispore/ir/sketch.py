"""From a graph to a picture: the boxes and the items in them.

rooms.py says where things are and labels.py how they are called; here they become items; wires.py
connects them.  Numbers and names are those of the text form, so that picture and text can be read
side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from minispore.abstract import TOKEN
from minispore.ir.labels import (
    attributes_text,
    constant_text,
    listed,
    numbers_text,
    operation_name,
    place_text,
    shortened,
    type_text,
)
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Node,
    ParameterNode,
    Switch,
    ValueNode,
    While,
    is_call_of,
)
from minispore.ir.picture import Box, Item, Picture, lines, plain, strong
from minispore.ir.rooms import Plan, Room
from minispore.ir.text import write_node
from minispore.primitive import Primitive

SHAPES = {Switch: "switch", While: "while", Grad: "grad", FuncGraph: "call"}
SIGNS = {"new": "+ ", "removed": "\N{MINUS SIGN} "}


class Sketch:
    """The items and boxes of a plan, the rooms of which are open or closed by now.

    `items`: what stands for an operation, a parameter, or a closed room; `results`: where what a
    Switch or While gives comes out; `boxes`: of the rooms that are open; `returned`: what each
    "return" shows; `inputs`: what parameter an item is.

    Args:
        plan: where things are.
        marks: looks of nodes on top of their own: "new", "removed".
        prefix: what the ids of all items begin with.
        returns: whether to show what graphs return.
        gone: a room for each node that is no more; closed boxes tell their number.
    """

    def __init__(
        self,
        plan: Plan,
        marks: Mapping[Node, str] | None = None,
        prefix: str = "",
        returns: bool = True,
        gone: Sequence[Room] = (),
    ):
        self.plan = plan
        self.marks = marks or {}
        self.prefix = prefix
        self.gone = gone
        self.picture = Picture()
        self.boxes: dict[Room, Box] = {}
        self.items: dict[Node | Room, Item] = {}
        self.results: dict[Node, Item] = {}
        self.closed: set[Item] = set()
        self.inputs: dict[Item, ParameterNode] = {}
        self.returned: list[tuple[Item, list[Node]]] = []
        self._place_all()
        for room in list(self.boxes):
            if returns and not room.path and room.graph not in plan.expanded:
                self._place_returns(room)
        for param in plan.entry.parameters:
            self.shown(param)

    def shown(self, node: Node) -> Item:
        """The item that stands for a node: its own, or that of the closed room it is in."""
        home = self.plan.home[node]
        closed = home.outermost_closed()
        key = closed or node
        if key not in self.items:  # what no room lists is made when an edge needs it
            item = self._item(node)
            self.items[node] = item
            self.boxes[home].add(item)
            if isinstance(node, ParameterNode):
                self.inputs[item] = node
        return self.items[key]

    def number(self, node: Node) -> str:
        """The node's number or name in the text form."""
        return self.plan.numbers[node]

    # -------------------------------------------------------------------------------- placing

    def _place_all(self) -> None:
        """Put everything into its box."""
        waiting = [(room, self._place(room, self.picture)) for room in self.plan.roots]
        while waiting:
            room, box = waiting.pop()
            if not isinstance(box, Box):
                continue
            for inner in room.content:
                if isinstance(inner, Room):
                    waiting.append((inner, self._place(inner, box)))
                else:
                    self.shown(inner)
                    self._place_result(inner, box)

    def _place(self, room: Room, around: Box | Picture) -> Box | Item:
        """A box for an open room, an item for a closed one."""
        thing: Box | Item
        if not room.is_open:
            thing = self.items[room] = self._closed_item(room)
            self.closed.add(thing)
        else:
            look = "entry" if room is self.plan.roots[0] else room.phase or "graph"
            thing = self.boxes[room] = Box(room.title, look)
        around.add(thing)
        return thing

    def _place_result(self, node: CNode, box: Box) -> None:
        """A circle where the arms of a Switch meet, or a loop is left."""
        if isinstance(node.callee, (Switch, While)) and self.plan.owns_graphs(node):
            result = Item(f"{self._id(node)} result", plain(self.number(node)), ("result",))
            self.results[node] = result
            box.add(result)

    def _place_returns(self, room: Room) -> None:
        """What a graph returns: one item for all that comes from one place."""
        outputs = room.graph.outputs()
        groups: dict[Node | Item, list[int]] = {}
        for i, output in enumerate(outputs):
            source, _ = self.plan.resolve(output)
            is_known = isinstance(source, ValueNode)
            groups.setdefault(source if is_known else self.shown(source), []).append(i)
        for place, numbers in groups.items():
            text = self._return_text(room.graph, numbers)
            value = f" {constant_text(place)}" if isinstance(place, ValueNode) else ""
            name = f"{self.prefix}{self.plan.names[room.graph]} {text}"
            item = Item(name, plain(text + value), ("return",))
            self.boxes[room].add(item)
            self.returned.append((item, [outputs[i] for i in numbers]))

    def _return_text(self, graph: FuncGraph, numbers: list[int]) -> str:
        """``return``, ``return 0, 2``, or in the body of a loop ``next x``."""
        loop = self.plan.loop_of_body(graph)
        if loop is not None:
            return f"next {listed([graph.parameters[loop.n_const + i].name for i in numbers])}"
        return "return" if len(graph.outputs()) == 1 else f"return {numbers_text(numbers)}"

    # --------------------------------------------------------------------------------- items

    def _id(self, node: Node) -> str:
        return f"{self.prefix}{self.plan.names[self.plan.home[node].graph]} {self.number(node)}"

    def _item(self, node: Node) -> Item:
        mark = self.marks.get(node)
        if isinstance(node, CNode):
            kind = SHAPES.get(type(node.callee))
            looks = (node.origin.phase, kind, mark)
            name = strong(operation_name(node, self.plan.names), self._signed(node))
            label = lines(name, plain(self._arguments(node)), plain(self._details(node)))
            tooltip = self._tooltip(node)
        else:
            assert isinstance(node, ParameterNode)
            looks = ("parameter", None, mark)
            label = lines(plain(node.name), plain(type_text(node.abstract) or str(node.abstract)))
            tooltip = f"{self.number(node)}: {node.abstract}"
        return Item(self._id(node), label, tuple(filter(None, looks)), tooltip)

    def _signed(self, node: Node) -> str:
        return SIGNS.get(self.marks.get(node, ""), "") + self.number(node)

    def _closed_item(self, room: Room) -> Item:
        nodes = list(room.operations())
        count = Counter(operation_name(n, self.plan.names) for n in nodes)
        phases = {n.origin.phase for n in nodes}
        phase = phases.pop() if len(phases) == 1 else "forward"
        text = f"{len(nodes)} node{'s' * (len(nodes) != 1)}"
        marks = [self.marks[n] for n in nodes if n in self.marks]
        marks += ["removed" for other in self.gone if room in other.chain()]
        for mark, number in Counter(marks).items():
            text += f", {number} {mark}"
        name = f"{self.prefix}{self.plan.names[room.graph]} {'/'.join(room.path)} {room.phase}"
        tooltip = "\n".join(f"{n} {name}" for name, n in count.most_common(12))
        return Item(name.strip(), lines(strong(room.title), text), (phase, "closed"), tooltip)

    def _details(self, node: CNode) -> str:
        callee = node.callee
        if isinstance(callee, Primitive):
            return attributes_text(callee)
        if isinstance(callee, While) and callee.trip_count is not None:
            return f"{callee.trip_count} trips"
        if isinstance(callee, Grad):
            return "by " + listed([callee.graph.parameters[i].name for i in callee.wrt])
        return ""

    def _arguments(self, node: CNode) -> str:
        """``(x, 2.0)``: where one of several operands is meant, or a constant."""
        operands = [i for i in node.inputs if i.abstract != TOKEN]
        if isinstance(node.callee, Grad):
            return ""
        if len(operands) < 2 and not any(isinstance(i, ValueNode) for i in operands):
            return ""
        return f"({listed([self._operand(i) for i in operands])})"

    def _operand(self, node: Node) -> str:
        """An operand as the text form has it, but for what is folded away."""
        if isinstance(node, ValueNode):
            return constant_text(node)
        if isinstance(node, ParameterNode):
            return node.name
        if is_call_of(node, "TupleGetItem"):
            whole, index = self._operand(node.inputs[0]), node.callee.attrs["index"]  # type: ignore[attr-defined]
            return self.number(node) if "," in whole else f"{whole}[{index}]"
        return self.number(node)

    def _tooltip(self, node: CNode) -> str:
        text = shortened(write_node(node, self.plan.numbers, self.plan.names), 300)
        return "\n".join(filter(None, (text, place_text(node.origin))))
