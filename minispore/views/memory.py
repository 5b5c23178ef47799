"""What memory a compiled call needs, and what lies where when: ``ms.explain(fn, x).memory``.

    parameters     Tensors that are Parameters, an optimizer's moments too; they are there before
    other inputs   the other Tensors that the graph takes
    constants      arrays in the plan and in its kernels
    arena          what only kernels see: one block for each call of kernels, kept for the next run;
                   values that never meet share places in it
    outputs        what the graph returns, new values of Parameters too
    between        values that instructions leave for later ones and that are no outputs, at most

All is counted from types and lives, nothing is run: bytes of arrays, without Python's own.
"""

from __future__ import annotations

import html
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minispore.abstract import Abstract, AbstractTuple
from minispore.engine import Executable
from minispore.engine.counts import bytes_of, moves_nothing
from minispore.engine.emit import Kernel
from minispore.engine.layout import Buffer
from minispore.engine.plan import Instruction, Routine, call, compute, kernels, leave, move
from minispore.engine.segments import Segment
from minispore.files import write_whole
from minispore.ir.node import CNode
from minispore.views.kernels import buffer_names, nodes_in, place_name, segments_of


@dataclass(frozen=True)
class Life:
    """A place in memory, from the row that writes it first to the row that reads it last.

    Attributes:
        name: as in the plan: m3, s12.
        kind: ``arena``, ``input``, ``output`` or ``constant``.
        bytes: how large it is.
        first, last: numbers of rows of the table.
        offset: where in the arena; None elsewhere.
        phase: forward, backward or update: of the node that is written there.
        what: the primitive and the line of source of that node.
    """

    name: str
    kind: str
    bytes: int
    first: int
    last: int
    offset: int | None = None
    phase: str = ""
    what: str = ""


@dataclass(frozen=True)
class Timeline:
    """The lives of the places that one call of kernels uses; in a notebook it draws itself.

    `name` is that of the instruction, `rows` the number of rows of its table.
    """

    name: str
    rows: int
    arena: int
    lives: tuple[Life, ...]

    def svg(self) -> str:
        """The arena: rows of the table to the right, addresses upwards."""
        return "\n".join(_drawn(self)) + "\n"

    @property
    def text(self) -> str:
        """The same as a table."""
        lines = [f"{'place':<7}{'kind':<9}{'bytes':>11}{'rows':>11}{'offset':>11}  what"]
        for life in self.lives:
            offset = "" if life.offset is None else f"{life.offset:,}"
            span = f"{life.first}-{life.last}"
            lines.append(f"{life.name:<7}{life.kind:<9}{life.bytes:>11,}{span:>11}{offset:>11}"
                         f"  {life.what}".rstrip())  # fmt: skip
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture (``.svg``) or the table (``.txt``); the file is whole or absent.

        Raises:
            ValueError: another ending.
            OSError: the file cannot be written.
        """
        target = Path(path)
        if target.suffix not in (".svg", ".txt"):
            raise ValueError(f"a timeline is saved as .svg or .txt, not '{target.name}'")
        write_whole(target, self.svg() if target.suffix == ".svg" else self.text + "\n")
        return target

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": self.text}

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Memory:
    """Bytes of a compiled call, each described above; print it.

    Attributes:
        in_place: of the outputs, those that a call by the shortcut writes where the Parameters are
            that they replace.
        steady: what is held, at most, when calls take the shortcut, one after the other.
        unknown: how many values have sizes that vary; they are not counted.
        timelines: one for each call of kernels.
    """

    parameters: int
    other_inputs: int
    constants: int
    arena: int
    outputs: int
    between: int
    in_place: int
    steady: int
    unknown: int
    timelines: tuple[Timeline, ...]

    @property
    def peak(self) -> int:
        """All of it: what a run of the plan holds at the worst moment."""
        return (self.parameters + self.other_inputs + self.constants + self.arena + self.outputs
                + self.between)  # fmt: skip

    def __str__(self) -> str:
        parts = ("parameters", "other_inputs", "constants", "arena", "outputs", "between", "peak")
        lines = [f"{p.replace('_', ' '):<13}{getattr(self, p):>14,} bytes" for p in parts]
        if self.arena:
            apart = sum(x.bytes for t in self.timelines for x in t.lives if x.kind == "arena")
            lines[3] += f"   (without sharing places: {apart:,})"
        if self.in_place:
            lines.append(f"by the shortcut, which writes {self.in_place:,} bytes of outputs in "
                         f"place of inputs: {self.steady:,} bytes")  # fmt: skip
        if self.unknown:
            lines.append(f"{self.unknown} values have sizes that vary: they are not counted")
        return "\n".join(lines)

    __repr__ = __str__


def memory_of(
    plan: Executable, inputs: Sequence[Any], parameters: Collection[int],
    shortcut: Segment | None = None,
) -> Memory:  # fmt: skip
    """The memory that a plan needs.

    Args:
        inputs: what it is given: arrays and numbers.
        parameters: which of them are Parameters, by number.
        shortcut: what runs in its place when a call takes the shortcut.
    """
    sizes = [v.nbytes if isinstance(v, np.ndarray) else 0 for v in inputs]
    owned = sum(size for i, size in enumerate(sizes) if i in parameters)
    steps = [step.function for _, _, step in segments_of(plan)]
    kept = {id(v): v.nbytes for r in plan.routines.values() for v in r.slots
            if isinstance(v, np.ndarray)}  # fmt: skip
    kept |= {id(b.value): b.value.nbytes for s in steps for b in s.constants if b.value is not None}
    live = _Live(plan)
    arena, held = sum(s.arena_bytes for s in steps), sum(sizes) + sum(kept.values())
    steady, in_place = held + arena + live.most, 0
    if shortcut is not None:
        outputs = [bytes_of(node.abstract) for node in shortcut.outputs]
        in_place = sum(outputs[i] for i in shortcut.in_place)
        steady = held + shortcut.arena_bytes + sum(outputs) - in_place
    return Memory(
        owned, sum(sizes) - owned, sum(kept.values()), arena,
        live.outputs, max(live.most - live.outputs, 0), in_place, steady, len(live.unknown),
        tuple(_timeline(place_name(plan, r, n), step) for r, n, step in segments_of(plan)),
    )  # fmt: skip


# ------------------------------------------------------------------------------- between


class _Live:
    """How much the values in a plan's slots take at most, but for inputs and constants.

    Instructions are gone through in order, loops once, both arms of a Switch one after the other.
    """

    def __init__(self, plan: Executable):
        self.plan = plan
        self.unknown: set[int] = set()
        self.outputs = 0
        self._open: list[Routine] = []
        self.most = self.routine(plan.main)

    def routine(self, routine: Routine) -> int:
        """The most that a routine holds; of one that calls itself, one level."""
        if routine in self._open:
            return 0
        self._open.append(routine)
        values: dict[int, tuple[int, int]] = {}  # slot -> number of the value in it, its bytes
        most, count = 0, 0
        for step in routine.instructions:
            inner = self.routine(step.function) if step.do is call else 0
            if step.do is leave and routine is self.plan.main:
                self.outputs = sum(dict(values[i] for i in step.inputs if i in values).values())
            for slot, value in self.made(step, values, count):
                values[slot] = value
            count += len(step.outputs)
            most = max(most, inner + sum(dict(values.values()).values()))
            for slot in step.free:
                values.pop(slot, None)
        self._open.pop()
        return most

    def made(
        self, step: Instruction, values: dict[int, tuple[int, int]], count: int
    ) -> list[tuple[int, tuple[int, int]]]:
        """What an instruction puts into its slots: new values, or those of other slots."""
        if step.do is move:
            return [(o, values[i]) for i, o in zip(step.inputs, step.outputs, strict=True)
                    if i in values]  # fmt: skip
        if step.do is compute and isinstance(step.node, CNode) and moves_nothing(step.node):
            return [(o, values[step.inputs[0]]) for o in step.outputs if step.inputs[0] in values]
        found = []
        for n, (slot, kind) in enumerate(zip(step.outputs, _types(step), strict=True)):
            if any(type(size) is not int for size in getattr(kind, "shape", ())):
                self.unknown.add(slot)
            found.append((slot, (count + n, bytes_of(kind))))
        return found


def _types(step: Instruction) -> Sequence[Abstract]:
    """The types of what an instruction gives."""
    if step.do is kernels:
        return [node.abstract for node in step.function.outputs]
    if step.node is None or not step.outputs:
        return ()
    kind = step.node.abstract
    return kind.items if isinstance(kind, AbstractTuple) else (kind,)


# ------------------------------------------------------------------------------- timelines


def _timeline(name: str, step: Instruction) -> Timeline:
    segment, known = step.function, buffer_names(step)
    makers: dict[Buffer, Kernel] = {}
    for row in segment.rows:
        for buffer in row.kernel.group.kinds if row.kernel is not None else ():
            makers.setdefault(buffer.home, row.kernel)
    buffers = list(segment.slot)
    n_inputs, n_arrays = len(segment.inputs), segment.n_arrays
    first_own = n_arrays + len(segment.constants)
    last = len(segment.rows) - 1
    lives = []
    for i, buffer in enumerate(buffers):
        begin, end = segment.lives.get(buffer, (0, last))
        kind = "input" if i < n_inputs else "output" if i < n_arrays else "constant"
        kind = "arena" if i >= first_own else kind
        offset = segment.offsets[i - first_own] if kind == "arena" else None
        phase, what = _made_by(makers.get(buffer), buffer)
        if kind == "arena" and buffer not in makers:
            what = "scratch"
        if kind != "arena":
            begin, end = (begin, last) if kind == "output" else (0, last)
        lives.append(Life(known[buffer], kind, buffer.bytes, begin, end, offset, phase, what))
    return Timeline(name, len(segment.rows), segment.arena_bytes, tuple(lives))


def _made_by(kernel: Kernel | None, buffer: Buffer) -> tuple[str, str]:
    """The phase and the name of the node whose value is in a buffer."""
    if kernel is None:
        return "", ""
    own = [s.node for s in kernel.group.steps if s.out.home is buffer and s.node is not None]
    node = own[-1] if own else next(iter(nodes_in(kernel)), None)
    if node is None:
        return "", "copy"
    name = getattr(getattr(node, "callee", None), "name", "")
    return node.origin.phase, f"{name} {node.origin.where or ''}".strip()


_WIDTH, _HEIGHT, _LEFT, _TOP = 900, 360, 70, 34
_COLOURS = {"forward": ("#0072b2", "#e6f1fa"), "backward": ("#c04f00", "#fce6d6"),
            "update": ("#007a59", "#dcf2e9"), "": ("#666666", "#eeeeee")}  # fmt: skip


def _drawn(timeline: Timeline) -> Iterator[str]:
    """The lines of an SVG."""
    width, height = _LEFT + _WIDTH + 20, _TOP + _HEIGHT + 50
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'width="{width}" height="{height}" font-family="Helvetica, sans-serif" '
           f'font-size="10" fill="#222222">')  # fmt: skip
    yield f'<rect width="{width}" height="{height}" fill="white"/>'
    title = f"instruction {timeline.name}: an arena of {timeline.arena:,} bytes, by rows"
    yield f'<text x="{_LEFT}" y="18" font-size="12" font-weight="bold">{title}</text>'
    yield from _legend(width)
    rows, arena = max(timeline.rows, 1), max(timeline.arena, 1)
    for n in _ticks(rows):
        x = _LEFT + _WIDTH * n / rows
        yield f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">{n}</text>'
        yield f'<path d="M{x:.1f} {_TOP}V{_TOP + _HEIGHT + 4}" stroke="#dddddd"/>'
    for size in _ticks(arena):
        y = _TOP + _HEIGHT * (1 - size / arena)
        yield f'<text x="{_LEFT - 6}" y="{y + 3:.1f}" text-anchor="end">{_short(size)}</text>'
        yield f'<path d="M{_LEFT} {y:.1f}H{_LEFT + _WIDTH}" stroke="#dddddd"/>'
    for life in timeline.lives:
        if life.offset is not None:
            yield _box(life, rows, arena)
    where = f'x="{_LEFT + _WIDTH / 2:.1f}" y="{_TOP + _HEIGHT + 34}"'
    yield f'<text {where} text-anchor="middle">row of the table</text>'
    yield "</svg>"


def _legend(width: int) -> Iterator[str]:
    x = width - 350
    for phase, (line, fill) in _COLOURS.items():
        yield f'<rect x="{x}" y="9" width="11" height="11" fill="{fill}" stroke="{line}"/>'
        yield f'<text x="{x + 16}" y="18">{phase or "copy, scratch"}</text>'
        x += 80


def _box(life: Life, rows: int, arena: int) -> str:
    """A life as a rectangle, with its name where there is room for it."""
    assert life.offset is not None
    x, w = (_WIDTH * n / rows for n in (life.first, life.last + 1 - life.first))
    h = max(_HEIGHT * life.bytes / arena, 0.6)
    y = _TOP + _HEIGHT * (1 - life.offset / arena) - h
    line, fill = _COLOURS.get(life.phase, _COLOURS[""])
    shape = f'x="{_LEFT + x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"'
    span = f"rows {life.first} to {life.last}"
    words = f"{life.name}: {life.what}, {life.bytes:,} bytes at {life.offset:,}, {span}"
    title = f"<title>{html.escape(words)}</title>"
    label = ""
    if h >= 11 and w >= 7 * len(life.name):
        place = f'x="{_LEFT + x + w / 2:.1f}" y="{y + h / 2 + 3.5:.1f}"'
        label = f'<text {place} text-anchor="middle">{life.name}</text>'
    style = f'fill="{fill}" stroke="{line}" stroke-width="0.7"'
    return f"<g>{title}<rect {shape} {style}/>{label}</g>"


def _ticks(end: int) -> list[int]:
    """At most nine numbers from 0 to the end, in steps of a power of two."""
    step = 1
    while end / step > 8:
        step *= 2
    return list(range(0, end + 1, step))


def _short(size: int) -> str:
    if size >= 2**20:
        return f"{size / 2**20:.1f} MB"
    return f"{size / 2**10:.1f} kB" if size >= 2**10 else f"{size} B"


__all__ = ["Life", "Memory", "Timeline", "memory_of"]
