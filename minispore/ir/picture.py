"""Pictures of graphs as DOT text: items in nested boxes, and edges between them.

Nothing here knows what a FuncGraph is (sketch.py does) or how to run Graphviz (render.py does).
Colours are those of Okabe and Ito, which colour-blind readers tell apart; each kind of item has a
shape or border of its own as well, so that a print in grey says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

Attributes = dict[str, str]

PHASES = ("forward", "backward", "update")
INK, GREY, LINE = "#222222", "#666666", "#555555"

# What an item looks like: by phase for operations, by kind for the others.
LOOKS: dict[str, Attributes] = {
    "forward": {"shape": "box", "style": "rounded,filled", "color": "#0072b2",
                "fillcolor": "#e6f1fa"},
    "backward": {"shape": "box", "style": "filled,dashed", "color": "#c04f00",
                 "fillcolor": "#fce6d6", "penwidth": "1.4"},
    "update": {"shape": "box", "style": "filled", "color": "#007a59", "fillcolor": "#dcf2e9",
               "peripheries": "2"},
    "parameter": {"shape": "ellipse", "style": "filled", "color": "#8a7a3a",
                  "fillcolor": "#fffbe6", "margin": "0.06,0.02"},
    "again": {"style": "filled,dotted", "height": "0.2"},
    "inputs": {"shape": "box", "style": "rounded,filled"},
    "return": {"shape": "box", "style": "rounded,filled", "color": INK, "fillcolor": "white",
               "penwidth": "1.4", "height": "0.2", "margin": "0.07,0.02", "fontsize": "9.5"},
    "result": {"shape": "circle", "style": "filled", "color": INK, "fillcolor": "white",
               "margin": "0.01,0.01", "width": "0.2", "height": "0.2", "fontsize": "8.5"},
    "point": {"shape": "point", "width": "0.05", "height": "0.05"},
    "closed": {"shape": "box3d", "style": "filled", "peripheries": "1", "penwidth": "1.3",
               "margin": "0.13,0.09"},
    "switch": {"shape": "diamond", "style": "filled", "margin": "0.0,0.0", "height": "0.65",
               "width": "1.7"},
    "while": {"shape": "hexagon", "style": "filled", "margin": "0.03,0.05"},
    "grad": {"shape": "octagon", "style": "filled", "margin": "0.06,0.05"},
    "call": {"shape": "component"},
    "new": {"color": "#a8327e", "fillcolor": "#f8dcee", "penwidth": "3"},
    "removed": {"style": "dotted", "color": "#8c8c8c", "fontcolor": "#8c8c8c", "penwidth": "1.2"},
}  # fmt: skip

EDGES: dict[str, Attributes] = {
    "flow": {},
    "saved": {"color": "#0072b2", "arrowhead": "onormal"},
    "token": {"style": "dashed", "arrowhead": "open"},
    "graph": {"color": INK, "fontcolor": INK, "penwidth": "1.6", "arrowhead": "vee",
              "fontname": "Helvetica-Bold"},
    "back": {"dir": "back", "arrowtail": "vee"},  # against the flow: laid out from head to tail
    "new": {"color": "#a8327e", "penwidth": "1.6"},
    "removed": {"style": "dotted", "color": "#8c8c8c", "fontcolor": "#8c8c8c"},
    "loose": {"constraint": "false"},  # does not pull at the layout
    "hidden": {"style": "invis"},
}  # fmt: skip

BOXES: dict[str, Attributes] = {
    "entry": {"style": "rounded", "color": "#bfbfbf"},
    "legend": {"style": "dotted", "color": "#7f7f7f"},
    "graph": {"style": "rounded,filled", "fillcolor": "#00000008", "color": "#7f7f7f"},
    "forward": {"style": "rounded,filled", "fillcolor": "#0072b20a", "color": "#8fbfe0"},
    "backward": {"style": "filled,dashed", "fillcolor": "#d55e000c", "color": "#d9935f"},
    "update": {"style": "filled", "fillcolor": "#009e730d", "color": "#5fb398"},
}

_HEAD = f"""\
digraph {{
  graph [compound=true, rankdir=TB, ranksep=0.32, nodesep=0.22, pad=0.15, fontname="Helvetica",
         fontsize=11, fontcolor="{INK}", labeljust=l];
  node [fontname="Helvetica", fontsize=11, fontcolor="{INK}", height=0.3, width=0.3,
        margin="0.1,0.045"];
  edge [fontname="Helvetica", fontsize=7.5, fontcolor="{GREY}", color="{LINE}", penwidth=0.9,
        arrowsize=0.55];"""


@dataclass(eq=False)
class Item:
    """Something drawn: its lines of text (HTML-like, made by ``lines``), and its looks by name."""

    id: str
    label: str
    looks: tuple[str, ...]
    tooltip: str = ""
    box: Box | None = None


@dataclass(eq=False)
class Edge:
    """An arrow; `into` and `out_of`: boxes at whose border it ends and begins."""

    tail: Item
    head: Item
    label: str = ""
    looks: tuple[str, ...] = ("flow",)
    tooltip: str = ""
    into: Box | None = None
    out_of: Box | None = None


@dataclass(eq=False)
class Box:
    """A cluster: a graph or a scope."""

    title: str
    look: str = "graph"
    parent: Box | None = None
    content: list[Box | Item] = field(default_factory=list)

    def add(self, thing: Box | Item) -> None:
        """Put a box or an item into this box."""
        if isinstance(thing, Box):
            thing.parent = self
        else:
            thing.box = self
        self.content.append(thing)

    def remove(self, item: Item) -> None:
        """Take an item out of this box."""
        self.content.remove(item)
        item.box = None

    def items(self) -> Iterator[Item]:
        """The items in this box, and in the boxes in it."""
        waiting: list[Box | Item] = [self]
        while waiting:
            thing = waiting.pop()
            if isinstance(thing, Item):
                yield thing
            else:
                waiting.extend(reversed(thing.content))


@dataclass(eq=False)
class Picture:
    """Boxes at the top, and all edges."""

    content: list[Box | Item] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def add(self, thing: Box | Item) -> None:
        """Put a box or an item at the top."""
        self.content.append(thing)

    def dot(self) -> str:
        """The DOT text: the same picture has the same text."""
        numbers: dict[Box, int] = {}
        boxes = list(_write(self.content, numbers))
        edges = [_write_edge(e, numbers) for e in self.edges]
        return "\n".join([_HEAD, *boxes, *edges, "}", ""])


def lines(*texts: str) -> str:
    """A label: the first text as it is, the others small; all made by ``strong`` or ``plain``."""
    small = [f'<FONT POINT-SIZE="8.5" COLOR="{GREY}">{t}</FONT>' for t in texts[1:] if t]
    if not small:
        return texts[0]
    rows = "".join(f"<TR><TD>{t}</TD></TR>" for t in [texts[0], *small])
    return f'<TABLE BORDER="0" CELLPADDING="0" CELLSPACING="0">{rows}</TABLE>'


def strong(text: str, number: str = "") -> str:
    """A text in bold, after a number in small."""
    before = f'<FONT POINT-SIZE="8.5" COLOR="{GREY}">{plain(number)}&#160;&#160;</FONT>'
    return f"{before if number else ''}<B>{plain(text)}</B>"


def plain(text: str) -> str:
    """A text that stands for itself."""
    return escape(text, quote=False)


def quoted(text: str) -> str:
    """A DOT string."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def _write(content: list[Box | Item], numbers: dict[Box, int]) -> Iterator[str]:
    """The lines of boxes and items; `numbers` learns the numbers of the clusters."""
    open_boxes = [iter(content)]
    while open_boxes:
        indent = "  " * len(open_boxes)
        thing = next(open_boxes[-1], None)
        if thing is None:
            open_boxes.pop()
            if open_boxes:
                yield indent[2:] + "}"
        elif isinstance(thing, Item):
            yield f"{indent}{quoted(thing.id)} [label=<{thing.label}>{_looks(thing, LOOKS)}];"
        elif next(thing.items(), None) is not None:
            numbers[thing] = len(numbers)
            yield f"{indent}subgraph cluster_{numbers[thing]} {{"
            yield f"{indent}  label={quoted(thing.title)}{_list(BOXES[thing.look], ';')};"
            open_boxes.append(iter(thing.content))


def _write_edge(edge: Edge, numbers: dict[Box, int]) -> str:
    own = [f"label={quoted(_spaced(edge.label))}"] if edge.label else []
    if edge.into in numbers:
        own.append(f"lhead=cluster_{numbers[edge.into]}")
    if edge.out_of in numbers:
        own.append(f"ltail=cluster_{numbers[edge.out_of]}")
    text = ", ".join(own) + _looks(edge, EDGES)
    return f"  {quoted(edge.tail.id)} -> {quoted(edge.head.id)} [{text.removeprefix(', ')}];"


def _spaced(label: str) -> str:
    """A label that keeps its distance from the line."""
    return "\n".join(f" {line} " for line in label.split("\n"))


def _looks(thing: Item | Edge, table: dict[str, Attributes]) -> str:
    """The attributes of all looks of a thing; the last one wins."""
    merged: Attributes = {}
    for look in thing.looks:
        merged |= table[look]
    if thing.tooltip:
        merged["tooltip"] = thing.tooltip
    return _list(merged, ",")


def _list(attributes: Attributes, separator: str) -> str:
    return "".join(f"{separator} {k}={quoted(v)}" for k, v in attributes.items())


LEGEND = {
    "parameter": "input", "again": "input, once more", "inputs": "several inputs",
    "forward": "forward", "backward": "backward", "update": "update", "closed": "closed box",
    "return": "return", "result": "result", "new": "new", "removed": "removed",
}  # fmt: skip
BASE = {"again": ("parameter",), "inputs": ("parameter",), "closed": ("forward",),
        "new": ("forward",), "removed": ("forward",)}  # fmt: skip
ROW = 6  # items of a legend side by side
EDGE_LEGEND = {
    "flow": "value", "saved": "saved for backward", "token": "order of effects",
    "graph": "control", "removed": "removed",
}  # fmt: skip


def add_legend(picture: Picture) -> None:
    """Put a box above a picture that explains what occurs in it."""
    items = [item for thing in picture.content for item in _items_of(thing)]
    entered = {edge.head for edge in picture.edges}
    box = Box("legend", "legend")
    samples = [
        Item(f"legend {look}", plain(text), (*BASE.get(look, ()), look))
        for look, text in _in_use(items, LEGEND)
    ]
    lines = [_sample_edge(look, text) for look, text in _in_use(picture.edges, EDGE_LEGEND)]
    rows = [samples[i : i + ROW] for i in range(0, len(samples), ROW)]
    rows += [[line.tail for line in lines], [line.head for line in lines]]
    for row in rows:
        for item in row:
            box.add(item)
    below = [item for item in items if item not in entered]
    hidden = [(row[0], item) for row, after in pairwise([*rows, below]) for item in after if row]
    picture.edges += [*lines, *(Edge(a, b, looks=("hidden",)) for a, b in hidden)]
    picture.content.insert(0, box)


def _sample_edge(look: str, text: str) -> Edge:
    tail, head = (Item(f"legend {look} {end}", "", ("point",)) for end in ("from", "to"))
    return Edge(tail, head, text, (look,))


def _in_use(things: Iterable[Item | Edge], table: Mapping[str, str]) -> list[tuple[str, str]]:
    used = {look for thing in things for look in thing.looks}
    return [(look, text) for look, text in table.items() if look in used]


def _items_of(thing: Box | Item) -> Iterable[Item]:
    return thing.items() if isinstance(thing, Box) else [thing]
