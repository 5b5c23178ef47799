"""The edges of a picture: flows of values, and control.

A value flows from the item that gives it to each that takes it.  Its type stands at one of the
edges, the shortest.  So that edges do not cross the whole picture, an input that is read
forward, backward and in the update is drawn once for each, near its readers, and many inputs of
one closed box are one item.
"""

from __future__ import annotations

from typing import NamedTuple

from minispore.abstract import TOKEN, Abstract
from minispore.ir.labels import listed_lines, references, type_text
from minispore.ir.node import CNode, FuncGraph, Node, ParameterNode, ValueNode, While, is_call_of
from minispore.ir.picture import PHASES, Box, Edge, Item, lines, plain
from minispore.ir.rooms import Value
from minispore.ir.sketch import Sketch

REPEAT_INPUTS = 16  # from so many items on, an input is drawn again for each phase that reads it


def connect(sketch: Sketch) -> None:
    """Add all edges to the picture of a sketch."""
    flows = Flows(sketch)
    if len(sketch.items) > REPEAT_INPUTS:
        flows.repeat_inputs()
    flows.group_inputs()
    flows.settle()
    flows.draw()
    Control(sketch).draw()


def phase_of(item: Item) -> str:
    """The phase of an operation or a closed box; "forward" for other items."""
    return item.looks[0] if item.looks[0] in PHASES else "forward"


class Flows:
    """The flows of values between items: (from, to) -> the values, with their types."""

    def __init__(self, sketch: Sketch):
        self.sketch = sketch
        self.flows: dict[tuple[Item, Item], dict[Value, Abstract]] = {}
        self._tuples: set[Node] = set()
        for node in sketch.plan.operations():
            self._into(node)
        for item, outputs in sketch.returned:
            for output in outputs:
                self._flow(output, item)

    def _into(self, node: CNode) -> None:
        head = self.sketch.shown(node)
        for operand in node.inputs:
            self._flow(operand, head)

    def _flow(self, value: Node, head: Item) -> None:
        """Note a flow from where a value comes from; nothing flows from a constant."""
        source, path = self.sketch.plan.resolve(value)
        if isinstance(source, ValueNode):
            return
        if is_call_of(source, "MakeTuple") and source not in self._tuples:
            self._tuples.add(source)
            self._into(source)  # type: ignore[arg-type]
        tail = self.sketch.results.get(source) or self.sketch.shown(source)
        if tail is not head:
            self.flows.setdefault((tail, head), {})[source, path] = value.abstract

    # --------------------------------------------------------------------------------- inputs

    def repeat_inputs(self) -> None:
        """Draw an input once more for each further phase that reads it."""
        sketch = self.sketch
        heads: dict[tuple[Item, str], list[Item]] = {}
        for tail, head in self.flows:
            if tail in sketch.inputs:
                heads.setdefault((tail, phase_of(head)), []).append(head)
        first: dict[Item, str] = {}
        for item, phase in sorted(heads, key=lambda place: PHASES.index(place[1])):
            if first.setdefault(item, phase) == phase:
                continue
            node = sketch.inputs[item]
            looks = ("parameter", "again")
            again = Item(f"{item.id} {phase}", plain(node.name), looks, item.tooltip)
            sketch.inputs[again] = node
            sketch.boxes[sketch.plan.home[node]].add(again)
            for head in heads[item, phase]:
                self.flows[again, head] = self.flows.pop((item, head))

    def group_inputs(self) -> None:
        """Let many inputs of one closed box be one item."""
        groups: dict[tuple[FuncGraph, Item], list[Item]] = {}
        for item, heads in self._heads().items():
            node = self.sketch.inputs.get(item)
            if node is not None and len(heads) == 1 and heads[0] in self.sketch.closed:
                groups.setdefault((self.sketch.plan.home[node].graph, heads[0]), []).append(item)
        for (graph, head), items in groups.items():
            if len(items) > 2:
                items.sort(key=lambda item: graph.parameters.index(self.sketch.inputs[item]))
                self._merge(items, head)

    def _merge(self, items: list[Item], head: Item) -> None:
        names = [self.sketch.inputs[item].name for item in items]
        label = lines(f"{len(names)} inputs", *map(plain, listed_lines(names)))
        tooltip = "\n".join(item.tooltip for item in items)
        merged = Item(f"{items[0].id} ...", label, ("parameter", "inputs"), tooltip)
        box = items[0].box
        assert box is not None
        box.add(merged)
        values: dict[Value, Abstract] = {}
        for item in items:
            box.remove(item)
            values |= self.flows.pop((item, head))
        self.flows[merged, head] = values

    def settle(self) -> None:
        """Move the inputs that belong to a Cell (``fc.weight``), or to a later phase, into its box.

        What the update returns moves likewise.
        """
        for item, heads in self._heads().items():
            node = self.sketch.inputs.get(item)
            inner = node is not None and ("." in node.name or phase_of(heads[0]) != "forward")
            if inner:
                _move(item, _common_box([head.box for head in heads]))
                if "again" not in item.looks:
                    self._stack(item, heads)
        for tail, head in self.flows:
            if "return" in head.looks and phase_of(tail) == "update":
                _move(head, tail.box)

    def _stack(self, item: Item, heads: list[Item]) -> None:
        """Keep an input below what comes into its box, so that boxes stand below each other."""
        inside = set(item.box.items()) if item.box is not None else set()
        for tail, head in self.flows:
            if head in heads and tail not in inside and tail not in self.sketch.inputs:
                self.sketch.picture.edges.append(Edge(tail, item, looks=("hidden",)))

    def _heads(self) -> dict[Item, list[Item]]:
        heads: dict[Item, list[Item]] = {}
        for tail, head in self.flows:
            heads.setdefault(tail, []).append(head)
        return heads

    # ------------------------------------------------------------------------------- drawing

    def draw(self) -> None:
        """Turn flows into edges; those within a box come first, so that they get the types."""
        labelled: set[Value] = set()
        near_first = sorted(
            self.flows.items(), key=lambda flow: flow[0][0].box is not flow[0][1].box
        )
        for (tail, head), values in near_first:
            looks = self._looks(tail, head)
            if len(values) > 1 and self._is_bundle(tail, head):
                text = f"{len(values)} values"
                self.sketch.picture.edges.append(Edge(tail, head, text, looks))
                continue
            for value, abstract in values.items():
                text = "" if value in labelled else _value_text(value, abstract)
                labelled.add(value)
                own = ("token",) if abstract == TOKEN else looks
                self.sketch.picture.edges.append(Edge(tail, head, text, own))

    def _is_bundle(self, tail: Item, head: Item) -> bool:
        closed = self.sketch.closed
        return tail in closed or head in closed or "return" in head.looks

    def _looks(self, tail: Item, head: Item) -> tuple[str, ...]:
        is_operation = phase_of(tail) == "forward" and tail.looks[0] != "parameter"
        return ("saved",) if is_operation and phase_of(head) == "backward" else ("flow",)


def _value_text(value: Value, abstract: Abstract) -> str:
    source, path = value
    if isinstance(source, ParameterNode) and not path:
        return ""  # its type stands in the item
    index = "".join(f"[{i}]" for i in reversed(path))
    text = type_text(abstract).replace(") ", ")\n")  # two short lines keep the edge straight
    return f"{index} {text}".strip()


def _common_box(boxes: list[Box | None]) -> Box | None:
    """The innermost box around all."""
    chains = [_chain(box) for box in boxes]
    return next((box for box in chains[0] if all(box in chain for chain in chains)), None)


def _chain(box: Box | None) -> list[Box]:
    found = []
    while box is not None:
        found.append(box)
        box = box.parent
    return found


def _move(item: Item, box: Box | None) -> None:
    if box is not None and item.box is not None and box is not item.box:
        item.box.remove(item)
        box.add(item)


# ------------------------------------------------------------------------------------ control


class _Ends(NamedTuple):
    """Where control enters an item or a box, and where it leaves."""

    first: Item
    last: Item
    box: Box | None = None


def _both(item: Item) -> _Ends:
    return _Ends(item, item)


class Control:
    """Edges from nodes to the graphs they refer to, and back from arms and loops."""

    def __init__(self, sketch: Sketch):
        self.sketch = sketch

    def draw(self) -> None:
        """Add the edges to the picture."""
        edges = self.sketch.picture.edges
        seen: set[tuple] = set()
        for node in self.sketch.plan.operations():
            for edge in self._edges(node):
                key = (edge.tail, edge.head, edge.label)
                if edge.tail is not edge.head and key not in seen:
                    seen.add(key)
                    edges.append(edge)
                    edges.extend(self._below(edge))

    def _edges(self, node: CNode) -> list[Edge]:
        own = _both(self.sketch.shown(node))
        graphs = [(word, self._ends(graph)) for word, graph in references(node)]
        if node not in self.sketch.results:
            return [_edge(own, graph, word) for word, graph in graphs]
        result = _both(self.sketch.results[node])
        if isinstance(node.callee, While):
            (_, test), (_, body) = graphs
            again = Edge(own.last, body.last, "again", ("graph", "back"), into=body.box)
            ways = ((own, test, ""), (test, body, "true"), (test, result, "false"))
            return [again, *(_edge(*way) for way in ways)]
        into = [_edge(own, graph, word) for word, graph in graphs]
        return [*into, *(_edge(graph, result) for _, graph in graphs)]

    def _ends(self, graph: FuncGraph) -> _Ends:
        room = self.sketch.plan.room_of[graph]
        closed = room.outermost_closed()
        if closed is not None:
            return _both(self.sketch.items[closed])
        box = self.sketch.boxes[room]
        items = list(box.items())
        last = next((i for i in reversed(items) if "return" in i.looks), items[-1])
        return _Ends(self._top(graph, items), last, box)

    def _top(self, graph: FuncGraph, items: list[Item]) -> Item:
        """The uppermost of an open graph's items: an input of its first operation, if any."""
        first = self.sketch.plan.first_operation(graph)
        if first is None:
            return items[0]
        sources = [self.sketch.plan.resolve(i)[0] for i in first.inputs]
        inputs = [self.sketch.shown(p) for p in sources if p in graph.parameters]
        return next((i for i in inputs if i in items), self.sketch.shown(first))

    def _below(self, edge: Edge) -> list[Edge]:
        """Hidden edges that keep all of a graph's box below the node that refers to it."""
        box = edge.into
        if box is None or edge.out_of is not None or edge.tail in box.items():
            return []
        entered = {edge.head, *(e.head for e in self.sketch.picture.edges)}
        return [
            Edge(edge.tail, item, looks=("hidden",)) for item in box.items() if item not in entered
        ]


def _edge(tail: _Ends, head: _Ends, label: str = "") -> Edge:
    recursive = head.box is not None and tail.last in head.box.items()
    looks = ("graph", "loose") if recursive else ("graph",)
    return Edge(tail.last, head.first, label, looks, into=head.box, out_of=tail.box)
