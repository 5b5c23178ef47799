"""Which box of a picture a node belongs to, and which boxes are open.

A picture of a graph is a tree of rooms.  A room is a sub-graph, or a Cell's scope inside a graph
(one per phase, so that what runs backward does not stand among what ran forward).  A graph that is
called in one place only is drawn in place of the call: its parameters are the call's operands.
Other graphs (arms, loops, what is differentiated, what is called twice or calls itself) have rooms
of their own, next to the node that refers to them if there is only one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from minispore.ir.node import (
    LATE,
    CNode,
    FuncGraph,
    Node,
    Origin,
    While,
    graphs_of,
    is_call_of,
    is_tuple_plumbing,
    tuple_parts,
)
from minispore.ir.text import graph_names, node_names

Value = tuple[Node, tuple[int, ...]]  # a node, and which item of its value, inner index first
ScopePath = tuple[str, ...]
LIMIT = 60  # with more operations a picture is collapsed


@dataclass(eq=False)
class Room:
    """A graph, or a scope in a graph (then `path` is not empty)."""

    title: str
    graph: FuncGraph
    parent: Room | None = None
    phase: str = ""
    path: ScopePath = ()
    names: frozenset[str] = frozenset()  # what `expand` may call it
    content: list[Room | CNode] = field(default_factory=list)
    is_open: bool = True

    def rooms(self) -> Iterator[Room]:
        """The rooms directly inside."""
        return (thing for thing in self.content if isinstance(thing, Room))

    def operations(self) -> Iterator[CNode]:
        """All operations in it and in the rooms inside (which may be nested deeply)."""
        waiting: list[Room | CNode] = [self]
        while waiting:
            thing = waiting.pop()
            if isinstance(thing, Room):
                waiting.extend(reversed(thing.content))
            else:
                yield thing

    def chain(self) -> Iterator[Room]:
        """This room and those around it."""
        room: Room | None = self
        while room is not None:
            yield room
            room = room.parent

    def outermost_closed(self) -> Room | None:
        """The room that hides what is in this one; None if it can be seen."""
        closed = [room for room in self.chain() if not room.is_open]
        return closed[-1] if closed else None


class Plan:
    """The rooms of a graph and of all it reaches, and where each node lives.

    `roots`: the entry's room, then those of graphs with several users.  `home` is the room of
    every CNode and every parameter that is drawn.
    """

    def __init__(self, entry: FuncGraph):
        graphs = entry.graphs(with_bprop=True)
        self.entry = entry
        self.names = graph_names(graphs)
        self.numbers: dict[Node, str] = {}
        self.room_of: dict[FuncGraph, Room] = {}
        self.home: dict[Node, Room] = {}
        self.roots: list[Room] = []
        self.expanded: set[FuncGraph] = set()  # graphs drawn in place of their call
        self._alias: dict[Node, Node] = {}  # parameter -> operand, call -> output of its graph
        self._users: dict[FuncGraph, list[CNode]] = {g: [] for g in graphs}
        for g in graphs:
            self.numbers |= node_names(g)
            for node in g.nodes():
                for used in dict.fromkeys(referred(node)):
                    self._users[used].append(node)  # type: ignore[arg-type]
        self._seen = {entry}
        todo: list[tuple[FuncGraph, Room | None]] = [(entry, None)]
        while todo:
            todo.extend(self._furnish(*todo.pop(0)))
        self._fold_small_scopes()

    # ------------------------------------------------------------------------------ questions

    def is_expanded(self, node: Node) -> bool:
        """True for a call that is drawn as its graph's body."""
        return node in self._alias and isinstance(node, CNode)

    def owns_graphs(self, node: CNode) -> bool:
        """True if no other node refers to the graphs of a Switch or While, nor it twice."""
        graphs = referred(node)
        return len(set(graphs)) == len(graphs) and all(len(self._users[g]) == 1 for g in graphs)

    def resolve(self, node: Node) -> Value:
        """The drawn node that a value comes from, through tuples and expanded calls."""
        path: tuple[int, ...] = ()
        while True:
            parts = tuple_parts(node)
            if node in self._alias:
                node = self._alias[node]
            elif is_call_of(node, "TupleGetItem"):
                path = (*path, node.callee.attrs["index"])  # type: ignore[attr-defined]
                node = node.inputs[0]
            elif parts is not None and path:
                node, path = parts[path[-1]], path[:-1]
            else:
                return node, path

    def loop_of_body(self, graph: FuncGraph) -> While | None:
        """The loop of which a graph is the body, if it is nothing else."""
        users = [node.callee for node in self._users[graph]]
        loop = users[0] if len(users) == 1 else None
        return loop if isinstance(loop, While) and loop.body is graph else None

    def first_operation(self, graph: FuncGraph) -> CNode | None:
        """What a graph computes first, as it is drawn."""
        waiting = [graph]
        while waiting:
            for node in waiting.pop().nodes():
                if isinstance(node, CNode) and not is_tuple_plumbing(node):
                    if not self.is_expanded(node):
                        return node
                    assert isinstance(node.callee, FuncGraph)
                    waiting.append(node.callee)
                    break
        return None

    def rooms(self) -> list[Room]:
        """All rooms, outer ones first, level by level."""
        found = list(self.roots)
        for room in found:
            found.extend(room.rooms())
        return found

    def operations(self) -> Iterator[CNode]:
        """All operations that are drawn if every room is open."""
        return (n for room in self.rooms() for n in room.content if isinstance(n, CNode))

    def room_for(self, graph: FuncGraph, origin: Origin) -> Room:
        """Where a node of `graph` with this origin would live."""
        path = tuple(origin.scope.split("/"))

        def fits(room: Room) -> bool:
            is_scope = room.path and room.phase == origin.phase
            return bool(is_scope and room.path == path[: len(room.path)])

        room = self.room_of[graph]
        while True:
            inner = next(filter(fits, room.rooms()), None)
            if inner is None:
                return room
            room = inner

    # ------------------------------------------------------------------------------- building

    def _furnish(
        self, graph: FuncGraph, parent: Room | None
    ) -> list[tuple[FuncGraph, Room | None]]:
        """Fill the room of a graph; returns the graphs whose rooms come next, with parents."""
        operations = [n for n in graph.nodes() if isinstance(n, CNode)]
        prefix = common_scope(operations)
        room = self._enter(graph, parent, prefix, operations)
        scopes: dict[tuple[str, ScopePath], Room] = {}
        later: list[tuple[FuncGraph, Room | None]] = []
        self.home |= dict.fromkeys(graph.parameters, room)
        for node in operations:
            if is_tuple_plumbing(node):
                self.home[node] = room
                continue
            path = scope_of(node)
            home = self.home[node] = self._scope(room, scopes, node.origin.phase, path, len(prefix))
            if self._is_sole_call(node):
                callee = node.callee
                assert isinstance(callee, FuncGraph)
                self.expanded.add(callee)
                self._alias[node] = callee.output
                self._alias |= dict(zip(callee.parameters, node.inputs, strict=True))
            else:
                home.content.append(node)
            for g in referred(node):
                if g not in self._seen:
                    self._seen.add(g)
                    later.append((g, home if len(self._users[g]) == 1 else None))
        return later

    def _is_sole_call(self, node: CNode) -> bool:
        graph = node.callee
        return (
            isinstance(graph, FuncGraph)
            and graph is not self.entry
            and graph.bprop is None
            and len(self._users[graph]) == 1
        )

    def _enter(
        self, graph: FuncGraph, parent: Room | None, prefix: ScopePath, operations: list[CNode]
    ) -> Room:
        name = self.names[graph]
        is_bprop = any(graph is g.bprop for g in self.names)
        title, names = name, {name, name[1:], graph.name}
        if graph.scope_kind in ("cell", LATE) and prefix and parent is not None and not is_bprop:
            names |= {prefix[-1], "/".join(prefix)}
            title = name if prefix[-1] == graph.name else f"{prefix[-1]} · {name}"
        call = next((n for n in self._users[graph] if self._is_sole_call(n)), None)
        if call is not None:
            title = f"{self.numbers[call]}  {title}"
        phases = {n.origin.phase for n in operations if not is_tuple_plumbing(n)}
        phase = phases.pop() if len(phases) == 1 and graph.scope_kind in ("cell", LATE) else ""
        room = self.room_of[graph] = Room(title, graph, parent, phase, (), frozenset(names))
        (self.roots if parent is None else parent.content).append(room)
        return room

    def _scope(
        self, room: Room, scopes: dict[tuple[str, ScopePath], Room], phase: str,
        path: ScopePath, skip: int,
    ) -> Room:  # fmt: skip
        """The room of a node's scope; `skip`: how much of the path the graph's room stands for."""
        for end in range(skip + 1, len(path) + 1):
            key = (phase, path[:end])
            if key not in scopes:
                title = path[end - 1]
                if phase != "forward" and end == skip + 1:
                    title += f" · {phase}"
                names = frozenset({path[end - 1], "/".join(path[:end]), title})
                scopes[key] = Room(title, room.graph, room, phase, path[:end], names)
                room.content.append(scopes[key])
            room = scopes[key]
        return room

    def _fold_small_scopes(self) -> None:
        """A scope with one operation needs no box; one that holds but a scope shares its box."""
        for room in reversed(self.rooms()):
            outer = room.parent
            if not room.path or outer is None or len(room.content) > 1:
                continue
            for thing in room.content:
                if isinstance(thing, CNode):
                    self.home[thing] = outer
                elif thing.path:
                    name, dot, phase = room.title.partition(" · ")
                    thing.title = f"{name}/{thing.title}{dot}{phase}"
                    thing.names |= room.names
                    thing.parent = outer
            if not any(isinstance(thing, Room) and not thing.path for thing in room.content):
                place = outer.content.index(room)
                outer.content[place : place + 1] = room.content


def referred(node: Node) -> tuple[FuncGraph, ...]:
    """The graphs that a node refers to, a Cell's own gradient included."""
    graphs = graphs_of(node.callee) if isinstance(node, CNode) else ()
    return (*graphs, *(g.bprop for g in graphs if g.bprop is not None))


def common_scope(nodes: Iterable[CNode]) -> ScopePath:
    """The scope that all operations share."""
    paths = [scope_of(n) for n in nodes if not is_tuple_plumbing(n)]
    return tuple(os.path.commonprefix(paths)) if paths else ()  # of tuples, item by item


def scope_of(node: CNode) -> ScopePath:
    """The scope that a node stands in; the call of a Cell in the one around the Cell."""
    path = tuple(node.origin.scope.split("/")) if node.origin.scope else ()
    is_cell = isinstance(node.callee, FuncGraph) and node.callee.scope_kind in ("cell", LATE)
    return path[:-1] if is_cell else path


# -------------------------------------------------------------------------------- open or closed


def check_options(collapse: bool | str, expand: Iterable[str] | str, *plans: Plan) -> set[str]:
    """The names in `expand`; ValueError for one that is no room's, or an unknown `collapse`."""
    if collapse not in ("auto", True, False):
        raise ValueError(f"collapse must be 'auto', True or False, not {collapse!r}")
    wanted = {expand} if isinstance(expand, str) else set(expand)
    rooms = [room for plan in plans for room in plan.rooms()]
    known = {name for room in rooms for name in room.names}
    unknown = wanted - known - {"all"}
    if unknown:
        short = ", ".join(sorted({min(room.names, key=len) for room in rooms if room.names}))
        raise ValueError(f"there is nothing called '{min(unknown)}' to expand; there are {short}")
    return wanted


def open_rooms(
    plan: Plan, collapse: bool | str, expand: set[str], limit: int, first: Iterable[Room] = ()
) -> None:
    """Decide which rooms are open.

    Args:
        collapse: False opens all; True the entry's only; "auto" all if there are at most `limit`
            operations, else the outer ones, until half of `limit` is to be seen.
        expand: names of rooms that are open in any case, or "all".
        limit: see above.
        first: rooms that are opened before others, up to `limit`.
    """
    visible = sum(1 for room in plan.roots for _ in room.operations())
    if collapse is False or "all" in expand or (collapse == "auto" and visible <= limit):
        return
    rooms = plan.rooms()
    wanted = _with_parents(room for room in rooms if room.names & expand)
    for room in rooms:
        room.is_open = room is plan.roots[0] or room in wanted
    if collapse == "auto":
        _open_what_fits(plan, rooms, limit, _with_parents(first))


def _with_parents(rooms: Iterable[Room]) -> set[Room]:
    found: set[Room] = set()
    for room in rooms:
        found.update(room.chain())
    return found


def _open_what_fits(plan: Plan, rooms: list[Room], limit: int, first: set[Room]) -> None:
    """Open rooms, outer and smaller ones first, as long as what they show fits.

    Rooms of one depth and size, such as the layers of a stack, are opened together or not at all.
    """
    groups: dict[tuple, list[Room]] = {}
    for room in rooms:
        size = sum(1 for _ in room.operations())
        groups.setdefault((room not in first, len(list(room.chain())), size), []).append(room)
    visible = sum(map(_visible, plan.roots))
    for (is_other, *_), group in sorted(groups.items(), key=lambda pair: pair[0]):
        closed = [r for r in group if not r.is_open and r.outermost_closed() is r]
        more = sum(len(room.content) - 1 for room in closed)
        if visible + more <= (limit // 2 if is_other else limit):
            visible += more
            for room in closed:
                room.is_open = True


def _visible(room: Room) -> int:
    """How many items a room shows."""
    if not room.is_open:
        return 1
    return sum(_visible(thing) if isinstance(thing, Room) else 1 for thing in room.content)
