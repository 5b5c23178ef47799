"""Pictures of what a pass did: what it made, and what it removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minispore.ir.correspond import correspond, numbering, twin_graphs
from minispore.ir.labels import constant_text
from minispore.ir.node import CNode, FuncGraph, Node, ValueNode, is_tuple_plumbing
from minispore.ir.picture import Box, Edge, Item, Picture
from minispore.ir.render import Drawing, drawing_of
from minispore.ir.rooms import LIMIT, Plan, Room, check_options, open_rooms
from minispore.ir.sketch import Sketch
from minispore.ir.text import write_node
from minispore.ir.wires import connect


def draw_difference(
    before: FuncGraph,
    after: FuncGraph,
    *,
    side_by_side: bool = False,
    collapse: bool | str = "auto",
    expand: Iterable[str] | str = (),
    legend: bool = False,
    limit: int = LIMIT,
) -> Drawing:
    """A picture of what changed from one graph to another.

    Nodes that are new have a thick border and a ``+``; nodes that are gone are dotted, with a
    minus sign.  A node that was rebuilt only because an operand changed is neither, and
    keeps its number (correspond.py says how old nodes are recognised).  The text of the drawing is
    a listing of `after` with the same signs.

    Args:
        before, after: two graphs, usually around a pass.
        side_by_side: draw both; else only `after`, with what is gone from `before` put in.
        collapse, expand, legend, limit: as for ``draw``; boxes with changes are opened first.

    Raises:
        ValueError: as ``draw``.
    """
    change = _Change(before, after)
    wanted = check_options(collapse, expand, change.old, change.new)
    make = change.two_pictures if side_by_side else change.one_picture
    return drawing_of(make(collapse, wanted, limit), change.text(), legend)


class _Change:
    """What corresponds, what is new and what is gone."""

    def __init__(self, before: FuncGraph, after: FuncGraph):
        found = correspond(before, after)
        self.known = found.keys()
        self.later = {old: new for new, old in found.items()}
        self.graphs = {old: new for new, old in twin_graphs(before, after).items()}
        self.old, self.new = Plan(before), Plan(after)
        self.new.numbers = numbering(before, after, found)
        self.made: dict[Node, str] = {n: "new" for n in self.new.operations() if n not in found}
        self.gone: dict[Node, str] = {
            n: "removed" for n in self.old.operations() if n not in self.later
        }

    def two_pictures(self, collapse: bool | str, expand: set[str], limit: int) -> Picture:
        """Before and after, next to each other."""
        picture = Picture()
        for word, plan, marks in (("before", self.old, self.gone), ("after", self.new, self.made)):
            open_rooms(plan, collapse, expand, limit, [plan.home[node] for node in marks])
            sketch = Sketch(plan, marks, f"{word} ")
            connect(sketch)
            box = Box(f"{word}: {len(list(plan.operations()))} operations", "entry")
            for thing in sketch.picture.content:
                box.add(thing)
            picture.add(box)
            picture.edges += sketch.picture.edges
        return picture

    def one_picture(self, collapse: bool | str, expand: set[str], limit: int) -> Picture:
        """After, with what is gone from before."""
        place = {node: self._room_of_ghost(node) for node in self.gone}
        changed = [*place.values(), *(self.new.home[node] for node in self.made)]
        open_rooms(self.new, collapse, expand, limit, changed)
        sketch = Sketch(self.new, self.made, gone=list(place.values()))
        shadow = Sketch(self.old, self.gone, "before ")
        connect(shadow)
        ghosts = {shadow.items[node]: sketch.boxes.get(room) for node, room in place.items()}
        for item, box in ghosts.items():
            if box is not None:
                box.add(item)
        connect(sketch)
        meaning = _Translation(self, sketch, shadow, {i for i, box in ghosts.items() if box})
        sketch.picture.edges += _ghostly(shadow.picture.edges, meaning)
        return sketch.picture

    def _room_of_ghost(self, node: Node) -> Room:
        graph = self.graphs.get(self.old.home[node].graph, self.new.entry)
        return self.new.room_for(graph, node.origin)

    # ---------------------------------------------------------------------------------- text

    def text(self) -> str:
        """The listing of `after`, with signs, and with the lines that are gone."""
        old_of = {new: old for old, new in self.graphs.items()}
        parts = []
        for graph, name in self.new.names.items():
            inputs = ", ".join(f"{self.new.numbers[p]}: {p.abstract}" for p in graph.parameters)
            sign = " " if graph in old_of else "+"
            lines = [f"{sign} subgraph {name}({inputs}) {{", *self._lines(graph, old_of.get(graph))]
            out = graph.output
            text = constant_text(out) if isinstance(out, ValueNode) else self.new.numbers[out]
            parts.append("\n".join([*lines, f"    return {text}", "  }", ""]))
        parts += [f"- subgraph {n}\n" for g, n in self.old.names.items() if g not in self.graphs]
        return "\n".join(parts)

    def _lines(self, graph: FuncGraph, old: FuncGraph | None) -> Iterator[str]:
        waiting = [] if old is None else [n for n in old.nodes() if isinstance(n, CNode)]
        place = {self.later.get(n): i for i, n in enumerate(waiting)}
        done = 0
        made: list[str] = []  # new lines, which stand after those that they may have replaced
        for node in graph.nodes():
            if not isinstance(node, CNode):
                continue
            line = write_node(node, self.new.numbers, self.new.names)
            if node not in self.known:
                made.append(f"+   {line}")
                continue
            if place.get(node, -1) >= done:
                yield from self._gone_lines(waiting[done : place[node]])
                done = place[node] + 1
            yield from made
            made = []
            yield f"    {line}"
        yield from self._gone_lines(waiting[done:])
        yield from made

    def _gone_lines(self, nodes: Iterable[CNode]) -> Iterator[str]:
        for node in nodes:
            if node not in self.later:
                yield f"-   {write_node(node, self.old.numbers, self.old.names)}"


class _Translation:
    """From the items of the picture before to those of the picture after."""

    def __init__(self, change: _Change, sketch: Sketch, shadow: Sketch, ghosts: set[Item]):
        self.change, self.sketch, self.ghosts = change, sketch, ghosts
        self.nodes = {item: n for n, item in shadow.items.items() if isinstance(n, Node)}
        self.ghost_of = {n: item for item, n in self.nodes.items() if item in ghosts}
        self.nodes |= shadow.inputs
        self.results = {item: node for node, item in shadow.results.items()}
        self.returned = {f"before {item.id}": item for item, _ in sketch.returned}

    def __call__(self, item: Item) -> Item | None:
        """The item in the picture after; None if there is none."""
        if item in self.ghosts:
            return item
        if item in self.results:
            node = self.results[item]
            later = self.change.later.get(node)
            if later is None:
                return self.ghost_of.get(node)
            return self.sketch.results.get(later)
        if item not in self.nodes:
            return self.returned.get(item.id)
        later = self.change.later.get(self.nodes[item])
        source = None if later is None else self.change.new.resolve(later)[0]
        if source is None or isinstance(source, ValueNode) or is_tuple_plumbing(source):
            return None
        found = self.sketch.shown(source)
        return found if found.box is not None else None


def _ghostly(edges: Iterable[Edge], meaning: _Translation) -> Iterator[Edge]:
    """The edges before that touch something gone, as dotted edges of the picture after."""
    found: dict[tuple[Item, Item], list[Edge]] = {}
    for edge in edges:
        tail, head = meaning(edge.tail), meaning(edge.head)
        is_gone = tail in meaning.ghosts or head in meaning.ghosts
        if is_gone and tail is not None and head is not None and "hidden" not in edge.looks:
            found.setdefault((tail, head), []).append(edge)
    for (tail, head), same in found.items():
        labels = [edge.label for edge in same if edge.label]
        label = "".join(labels) if len(labels) < 2 else f"{len(labels)} values"
        yield Edge(tail, head, label, (*same[0].looks, "removed"))
