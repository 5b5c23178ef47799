"""What fusing did, as a picture: nodes in the kernels that compute them, bytes before and after.

Before: each node alone reads its operands and writes its value.  After: a kernel reads and writes
what others need; values that stay inside it move nothing.  Within the box of a kernel edges are
such values; edges between boxes are values in memory, with their size.

    report.drawing("kernels")                      a large plan is drawn by kernels, or by Cells
    report.drawing("kernels", expand=("0.12",))    with kernel 0.12 open
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from minispore.engine import Executable, counts
from minispore.engine.emit import Kernel
from minispore.engine.layout import Buffer
from minispore.engine.lower import Step
from minispore.engine.plan import (
    Instruction,
    Routine,
    call,
    choose,
    compute,
    jump,
    leave,
    move,
    resize,
    unpack,
)
from minispore.engine.segments import Segment
from minispore.ir.labels import listed, place_text, shortened, type_text
from minispore.ir.node import CNode, Node, While, is_call_of, item_index
from minispore.ir.picture import PHASES, Box, Edge, Item, Picture, lines, plain, strong
from minispore.ir.render import Drawing, drawing_of
from minispore.ir.rooms import LIMIT
from minispore.primitive import Primitive
from minispore.views.kernels import KernelInfo, NodeNames, kernels_of, nodes_in, place_name
from minispore.views.reach import START, Reach

_BY_PYTHON = (compute, unpack, resize, call, choose)


@dataclass(frozen=True)
class Traffic:
    """Bytes that nodes would move one by one, and that their kernels move.

    With `jumps` both arms of a branch count, and a loop counts as one round.
    """

    nodes: int
    kernels: int
    before: int
    after: int
    jumps: bool = False

    def __str__(self) -> str:
        if not self.kernels:
            return "no kernels"
        less = f": {self.before / self.after:.1f} times less" if self.before > self.after else ""
        kernels = "1 kernel" if self.kernels == 1 else f"{self.kernels} kernels"
        once = " (arms and rounds counted once)" if self.jumps else ""
        return (f"{self.nodes} nodes alone would move {self.before:,} bytes; in {kernels} they "
                f"move {self.after:,}{less}{once}")  # fmt: skip


def traffic_of(plan: Executable) -> Traffic:
    """What fusing saves in a plan."""
    infos = kernels_of(plan)
    steps = [s.function for r in plan.routines.values() for s in r.instructions]
    nodes = [n for s in steps if isinstance(s, Segment) for n in _inside(s.nodes)]
    jumps = any(s.targets for r in plan.routines.values() for s in r.instructions) or any(
        row.kernel is None for s in steps if isinstance(s, Segment) for row in s.rows
    )
    before, after = sum(map(counts.bytes_alone, nodes)), sum(i.bytes for i in infos)
    return Traffic(len(nodes), len(infos), before, after, jumps)


def _inside(nodes: Iterable[Node]) -> Iterator[CNode]:
    """The nodes that compute something, those of loops too."""
    for node in nodes:
        if not isinstance(node, CNode) or item_index(node) is not None:
            continue
        if isinstance(node.callee, While):
            for graph in (node.callee.cond, node.callee.body):
                yield from _inside(graph.nodes())
        elif not is_call_of(node, "MakeTuple"):
            yield node


def traffic_text(plan: Executable) -> str:
    """A line for each kernel: what its nodes would move alone, and what it moves."""
    infos = kernels_of(plan)
    found = [f"{'kernel':<12}{'nodes':>6}{'alone':>14}{'moves':>14}  what"] if infos else []
    for info in infos:
        nodes = nodes_in(info.kernel)
        alone = sum(map(counts.bytes_alone, nodes))
        found.append(f"{info.name:<12}{len(nodes):>6}{alone:>14,}{info.bytes:>14,}"
                     f"  {shortened(info.title, 60)}")  # fmt: skip
    return "\n".join([*found, str(traffic_of(plan))])


def draw_kernels(
    plan: Executable,
    *,
    collapse: bool | str = "auto",
    expand: Iterable[str] | str = (),
    legend: bool = False,
    limit: int = LIMIT,
) -> Drawing:
    """A picture of the kernels of a plan, and of what else it runs.

    Args:
        collapse: True closes the boxes of all kernels, False none; "auto" closes them if there are
            more than `limit` nodes, and draws one item for each Cell and phase if there are more
            than `limit` kernels.
        expand: names of kernels (``0.12``) whose nodes are drawn in any case; or "all".
        legend: explain shapes and lines in a box above.
        limit: see `collapse`.

    Raises:
        ValueError: `expand` names no kernel, or `collapse` is none of these.
    """
    names = {expand} if isinstance(expand, str) else set(expand)
    if collapse not in (True, False, "auto"):
        raise ValueError(f"collapse must be True, False or 'auto', not {collapse!r}")
    sketch = _Sketch(plan, collapse, names, limit)
    return drawing_of(sketch.picture, traffic_text(plan), legend)


@dataclass
class _Group:
    """Kernels that one closed item stands for."""

    title: str
    phase: str
    infos: list[KernelInfo] = field(default_factory=list)


class _Sketch:
    """The picture of a plan's kernels in the making.

    `writers`: for each buffer, the rows of the table that write it, and their items.
    """

    def __init__(self, plan: Executable, collapse: bool | str, expand: set[str], limit: int):
        self.plan, self.names = plan, NodeNames(plan.graph)
        self.infos = {info.kernel: info for info in kernels_of(plan)}
        known = {info.name for info in self.infos.values()}
        if expand - known - {"all"}:
            wrong = ", ".join(sorted(expand - known))
            raise ValueError(f"there is no kernel {wrong}; there are {', '.join(sorted(known))}")
        self.open = self._opened(collapse, expand, limit)
        self.groups = self._grouped(limit if collapse == "auto" else 0)
        self.picture = Picture()
        self.items: dict[object, Item] = {}
        self.writers: dict[Buffer, dict[int, Item]] = {}
        self.edges: dict[tuple[Item, Item, str], dict[int, int]] = {}  # sizes of values by id
        for routine in plan.routines.values():
            self._routine(routine)
        for (tail, head, look), sizes in self.edges.items():
            label = _size(sum(sizes.values())) if sizes else ""
            self.picture.edges.append(Edge(tail, head, label, tuple(look.split())))

    # ----------------------------------------------------------------- what is open

    def _opened(self, collapse: bool | str, expand: set[str], limit: int) -> set[Kernel]:
        total = sum(max(len(nodes_in(k)), 1) for k in self.infos)
        if "all" in expand or collapse is False or (collapse == "auto" and total <= limit):
            return set(self.infos)
        return {k for k, info in self.infos.items() if info.name in expand}

    def _grouped(self, limit: int) -> dict[Kernel, _Group]:
        """Kernels by Cell and phase, as finely as the limit allows; none if it allows them all."""
        closed = [k for k in self.infos if k not in self.open]
        if not limit or len(closed) <= limit:
            return {}
        places = {k: _place(k) for k in closed}
        for depth in range(max(len(scope) for scope, _ in places.values()), -1, -1):
            found: dict[tuple, _Group] = {}
            for kernel, (scope, phase) in places.items():
                title = "/".join(scope[:depth]) or phase
                group = found.setdefault((scope[:depth], phase), _Group(title, phase))
                group.infos.append(self.infos[kernel])
            if len(found) <= limit:
                break
        return {info.kernel: group for group in found.values() for info in group.infos}

    # ----------------------------------------------------------------- routines

    def _routine(self, routine: Routine) -> None:
        """All items first: where a loop goes round, edges lead to earlier ones."""
        box = Box(self._title(routine), "entry")
        self.picture.add(box)
        slots = _Slots(routine)
        heads: dict[int, Item] = {}
        for number, step in enumerate(routine.instructions):
            place = place_name(self.plan, routine, number)
            if isinstance(step.function, Segment):
                slots.made |= self._segment(box, place, number, step)
            elif step.do in _BY_PYTHON:
                item = heads[number] = self._instruction(box, place, step)
                slots.made |= {(number, slot): [item] for slot in step.outputs}
        for number, step in enumerate(routine.instructions):
            from_slot = functools.partial(self._from_slot, slots, number, box)
            if isinstance(step.function, Segment):
                self._segment_edges(step, from_slot)
            elif number in heads:
                assert isinstance(step.node, CNode)
                for slot, operand in zip(step.inputs, step.node.inputs, strict=False):
                    from_slot(slot, counts.bytes_of(operand.abstract), heads[number])

    def _title(self, routine: Routine) -> str:
        title = f"@{routine.graph.name}"
        return f"{title}: {traffic_of(self.plan)}" if routine is self.plan.main else title

    def _instruction(self, box: Box, place: str, step: Instruction) -> Item:
        """What Python does: an item of its own."""
        node = step.node
        assert isinstance(node, CNode)
        callee = node.callee
        name = callee.name if isinstance(callee, Primitive) else type(callee).__name__
        kind = ["call"] * (step.do is call) + ["switch"] * (step.do is choose)
        looks = (node.origin.phase, *kind)
        item = Item(f"step {place}", lines(strong(name, self.names.of(node)), "in Python"), looks,
                    place_text(node.origin))  # fmt: skip
        box.add(item)
        return item

    def _from_slot(
        self, slots: _Slots, number: int, box: Box, slot: int, size: int, head: Item
    ) -> None:
        """The edges from what an instruction finds in a slot; parameters are named beside it."""
        for at, source in slots.sources(number, slot):
            if isinstance(source, Item):
                look = "flow" if at < number else "flow loose"
                self._edge(source, head, look, id(source), size)
            elif source:
                self._from_parameter(source, head, box)

    def _from_parameter(self, source: str, head: Item, box: Box) -> None:
        key = ("inputs", head)
        if key not in self.items:
            self.items[key] = item = Item(f"inputs of {head.id}", "", ("parameter", "inputs"))
            (head.box or box).add(item)
            self._edge(item, head, "flow")
        read = self.items[key].tooltip.split("\n") if self.items[key].tooltip else []
        if source not in read:
            read.append(source)
        self.items[key].tooltip = "\n".join(read)
        self.items[key].label = plain(listed(read))

    def _edge(self, tail: Item, head: Item, look: str, value: int = 0, size: int = 0) -> None:
        if tail is not head:
            sizes = self.edges.setdefault((tail, head, look), {})
            if size:
                sizes[value] = size

    # ----------------------------------------------------------------- kernels

    def _segment(
        self, around: Box, place: str, number: int, step: Instruction
    ) -> dict[tuple[int, int], list[Item]]:
        """One native call: a box of kernels; what makes the value of each slot that it fills."""
        segment = step.function
        box = Box(f"{place}: {len(segment.kernels)} kernels in one call")
        around.add(box)
        for kernel in segment.kernels:
            self._kernel(box, kernel)
        for at, row in enumerate(segment.rows):
            for s in row.kernel.group.steps if row.kernel is not None else ():
                self.writers.setdefault(s.out.home, {})[at] = self._item_of(row.kernel, s)
        outputs = list(segment.slot)[len(step.inputs) : segment.n_arrays]
        reach = _reach_of_rows(segment)
        made = {}
        for buffer, slot in zip(outputs, step.outputs, strict=False):  # not whether all is well
            writers = self.writers.get(buffer.home, {})
            made[number, slot] = [writers[at] for at in reach.found(len(segment.rows), writers)]
        return made

    def _segment_edges(
        self, step: Instruction, from_slot: Callable[[int, int, Item], None]
    ) -> None:
        segment = step.function
        outside = {b: slot for b, slot in zip(segment.slot, step.inputs, strict=False)}
        reach = _reach_of_rows(segment)
        firsts = {row.kernel: n for n, row in reversed([*enumerate(segment.rows)]) if row.kernel}
        for kernel, number in firsts.items():
            for s in kernel.group.steps:
                head = self._item_of(kernel, s)
                for buffer in (view.buffer for view in s.inputs):
                    if buffer in outside:
                        from_slot(outside[buffer], buffer.bytes, head)
                    else:
                        self._operand(kernel, number, head, buffer, reach)

    def _operand(
        self, kernel: Kernel, number: int, head: Item, buffer: Buffer, reach: Reach
    ) -> None:
        """The edges into a step for one operand that kernels of the same call write."""
        writers = self.writers.get(buffer.home, {})
        if buffer in kernel.group.kinds and number in writers:
            self._edge(writers[number], head, "flow", id(buffer))
            return
        for at in reach.found(number, writers):
            look = "flow" if at < number else "flow loose"  # of the round before
            self._edge(writers[at], head, look, id(buffer), buffer.bytes)

    def _kernel(self, box: Box, kernel: Kernel) -> None:
        info, group = self.infos[kernel], self.groups.get(kernel)
        nodes = nodes_in(kernel)
        moved = f"{_size(info.bytes)} moved, {_size(sum(map(counts.bytes_alone, nodes)))} alone"
        if kernel in self.open:
            inner = Box(f"{info.name}: {moved}", _place(kernel)[1])
            box.add(inner)
            for step in kernel.group.steps:
                if (kernel, step.node) not in self.items:
                    self.items[kernel, step.node] = item = self._node(info, step.node)
                    inner.add(item)
            return
        key: object = id(group) if group is not None else kernel
        if key not in self.items:
            label = lines(strong(shortened(info.title, 34), info.name),
                          f"{len(nodes)} node{'s' * (len(nodes) != 1)}", moved)  # fmt: skip
            name, phase = info.name, _place(kernel)[1]
            if group is not None:
                label, phase = self._sum(group), group.phase
            self.items[key] = Item(f"kernel {name}", label, (phase, "closed"), info.title)
            box.add(self.items[key])
        self.items[kernel] = self.items[key]

    def _sum(self, group: _Group) -> str:
        """The label of several kernels."""
        nodes = [n for info in group.infos for n in nodes_in(info.kernel)]
        alone = sum(map(counts.bytes_alone, dict.fromkeys(nodes)))
        moved = sum(info.bytes for info in group.infos)
        count = f"{len(group.infos)} kernel{'s' * (len(group.infos) != 1)}, {len(nodes)} nodes"
        return lines(strong(group.title), count, f"{_size(moved)} moved, {_size(alone)} alone")

    def _node(self, info: KernelInfo, node: Node | None) -> Item:
        name = f"{info.name} {self.names.of(node) if node is not None else 'copy'}"
        if not isinstance(node, CNode):
            return Item(name, plain("copy"), ("return",))
        callee = node.callee
        title = callee.name if isinstance(callee, Primitive) else type(callee).__name__
        label = lines(strong(title, self.names.of(node)), plain(type_text(node.abstract)))
        return Item(name, label, (node.origin.phase,), place_text(node.origin))

    def _item_of(self, kernel: Kernel, step: Step) -> Item:
        return self.items[(kernel, step.node) if kernel in self.open else kernel]


class _Slots:
    """What made the values in the slots of a routine.

    `made`: the items that did, by the number of the instruction and the slot.
    """

    def __init__(self, routine: Routine):
        self.steps, self.made = routine.instructions, dict[tuple[int, int], list[Item]]()
        self.names = [p.name for p in routine.graph.parameters]
        self.reach = Reach((s.targets, s.do not in (jump, choose, leave)) for s in self.steps)
        self.writers: dict[int, dict[int, None]] = {
            i: {START: None} for i in range(len(self.names))
        }
        for number, step in enumerate(self.steps):
            for slot in step.outputs:
                self.writers.setdefault(slot, {})[number] = None

    def sources(self, number: int, slot: int) -> list[tuple[int, Item | str]]:
        """The items, and names of parameters, whose value an instruction may find in a slot.

        Each with the number of the instruction that put it there: moves are looked through.
        """
        found: dict[tuple[int, Item | str], None] = {}
        seen, todo = set(), [(number, slot)]
        while todo:
            place = todo.pop(0)
            if place in seen:
                continue
            seen.add(place)
            for at in self.reach.found(place[0], self.writers.get(place[1], {})):
                if at == START:
                    found[at, self.names[place[1]]] = None
                elif self.steps[at].do is move:
                    step = self.steps[at]
                    todo.append((at, step.inputs[step.outputs.index(place[1])]))
                else:
                    found |= {(at, item): None for item in self.made.get((at, place[1]), [])}
        return list(found)


def _reach_of_rows(segment: Segment) -> Reach:
    return Reach(
        ((), True) if row.kernel is not None else ((row.target,), row.flag is not None)
        for row in segment.rows
    )


def _place(kernel: Kernel) -> tuple[tuple[str, ...], str]:
    """The phase of most nodes of a kernel, and the Cell of their last; of a copy: forward."""
    phases = Counter(n.origin.phase for n in nodes_in(kernel))
    if not phases:
        return (), PHASES[0]
    phase = max(phases, key=lambda p: phases[p])
    last = [n for n in nodes_in(kernel) if n.origin.phase == phase][-1]
    return tuple(filter(None, last.origin.scope.split("/"))), phase


def _size(n: int) -> str:
    if n >= 10 * 2**20:
        return f"{n / 2**20:.0f} MB"
    if n >= 2**20:
        return f"{n / 2**20:.1f} MB"
    return f"{n / 2**10:.1f} kB" if n >= 2**10 else f"{n} B"
