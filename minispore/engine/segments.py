"""Segments: pieces of a graph that run as kernels, in one native call.

``split`` orders the nodes of a graph so that what kernels can compute is in as few segments as
possible; all else is left to the plan.  A Segment holds its kernels' table, and frames: the arena
and the table of addresses of one running call.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Any

import numpy as np

from minispore.abstract import AbstractTuple
from minispore.engine import cache, memory, native, own
from minispore.engine.covered import is_native
from minispore.engine.emit import Kernel, emit
from minispore.engine.fuse import Group, group
from minispore.engine.layout import SIZES, Buffer, View
from minispore.engine.lower import Lowering, Step
from minispore.engine.order import ordered
from minispore.ir.node import CNode, Node, ParameterNode, ValueNode, is_call_of, item_index
from minispore.primitive import Primitive

LONG_RUN = 2**16  # bytes: with more (or loops) a run lets other Python threads go on
LARGE = 2**16  # bytes: of outputs whose memory is used again


def split(order: Sequence[Node], output: Node) -> list[Node | Segment]:
    """The nodes of a graph in an order in which they can run, kernels' nodes in segments.

    All others keep their order: what fails first is what fails first in Python.
    """
    phase: dict[int, int] = {}
    latest = 1  # phase of such a node
    phases: dict[int, list[Node]] = {}
    whole = {id(i) for n in order if item_index(n) is None for i in n.inputs} | {id(output)}
    for node in order:
        loop = node if item_index(node) is None else node.inputs[0]
        # a tuple has no array of its own: a loop's must be taken apart
        fast = is_native(node) and not (
            isinstance(loop.abstract, AbstractTuple) and id(loop) in whole
        )
        own = max((phase.get(id(i), 0) for i in node.inputs), default=0)
        own += own % 2 if fast else 1 - own % 2  # even phases are native
        if isinstance(node, (ParameterNode, ValueNode)):
            own = 0
        elif not fast and item_index(node) is None and not is_call_of(node, "MakeTuple"):
            latest = own = max(own, latest)
        phase[id(node)] = own
        phases.setdefault(own if isinstance(node, CNode) else -1, []).append(node)
    users: dict[int, set[int]] = {}
    for node in order:
        for i in node.inputs:
            users.setdefault(id(i), set()).add(phase[id(node)])
    users.setdefault(id(output), set()).add(-1)
    found: list[Node | Segment] = []
    for number in sorted(phases):
        nodes = phases[number]
        if number % 2 or number < 0:
            found += nodes
            continue
        outputs = [n for n in nodes if users.get(id(n), {number}) - {number}]
        try:
            found.append(Segment([n for n in nodes if isinstance(n, CNode)], outputs))
        except cache.NoKernel as error:
            warn_without_kernels(str(error))
            found += nodes
    return found


@functools.cache
def warn_without_kernels(reason: str) -> None:
    """Say, once for each reason, that NumPy does the work of kernels."""
    warnings.warn(
        f"no machine code can be made here ({reason}); NumPy computes instead, which is slower. "
        "Installing llvmlite again may help",
        RuntimeWarning,
        stacklevel=2,
    )


class _Frame:
    """What one running call needs for itself."""

    def __init__(self, segment: Segment):
        self.arena = np.empty(segment.arena_bytes + memory.ALIGN, np.uint8)
        base = -self.arena.ctypes.data % memory.ALIGN + self.arena.ctypes.data
        self.slots = segment.slots.copy()
        first = segment.n_arrays + len(segment.constants)
        for i, offset in enumerate(segment.offsets):
            self.slots[first + i] = base + offset
        self.table = segment.table
        self.run = native.bound(segment.table, len(segment.rows), self.slots, segment.is_long)
        self.spare: dict[int, list[np.ndarray]] = {i: [] for i in segment.large}

    def large(self, i: int, kind: tuple) -> np.ndarray:
        """An array for a large output: one of the last two, if no one has it any more.

        Fresh memory costs a page fault every 4 kB.
        """
        spare = self.spare[i]
        for array in spare:
            if getrefcount(array) <= 3:  # the list's, the loop's and that of the question
                return array
        spare[:-1] = [memory.new(*kind)]
        return spare[0]


@dataclass
class _Row:
    """A row of the table: a kernel, or a jump past a loop or back (to a row known later)."""

    kernel: Kernel | None = None
    target: int = 0
    flag: Buffer | None = None
    part: tuple[int, int] = (0, 1)  # of the kernel's work: number, of how many


class Segment:
    """Nodes that run as kernels: ``run(values)`` of its `inputs` gives arrays for its `outputs`."""

    def __init__(self, nodes: list[CNode], outputs: list[Node]):
        self.nodes, self.outputs = nodes, outputs
        lowering = Lowering(nodes, outputs)
        inside = {id(n) for n in nodes}
        self.inputs: list[Node] = []
        known: set[int] = set()
        for node in nodes:
            for i in node.inputs:
                if id(i) not in inside and id(i) not in known:
                    known.add(id(i))
                    lowering.input(i)
                    if not isinstance(i, ValueNode):
                        self.inputs.append(i)
            lowering.add(node)
        inputs = [lowering.views[id(n)].buffer for n in self.inputs]
        outs = self.own_buffers(lowering, inputs)
        self.rows: list[_Row] = []
        self.add_rows(lowering, set(outs))
        self.lay_out(inputs, outs)
        types = [n.abstract for n in outputs]
        self.kinds = [(t.shape, t.dtype.numpy) for t in types]  # type: ignore[attr-defined]
        self.large = {i for i, b in enumerate(outs) if b.size * SIZES[b.dtype] >= LARGE}
        self.frames: list[_Frame] = []

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, in the order of the table."""
        return list(dict.fromkeys(row.kernel for row in self.rows if row.kernel is not None))

    def own_buffers(self, lowering: Lowering, inputs: list[Buffer]) -> list[Buffer]:
        """A buffer of its own for each output; what is only another view of one is copied."""
        taken = set(inputs)
        outs = []
        for node in self.outputs:
            view = lowering.whole(lowering.views[id(node)])
            if view.buffer in taken or view.buffer.value is not None:
                view = _copy(lowering, view)
            taken.add(view.buffer)
            outs.append(view.buffer)
        return outs

    # ----------------------------------------------------------------- the table

    def add_rows(self, lowering: Lowering, needed: set[Buffer]) -> None:
        """The rows for some steps, of which the buffers `needed` are used elsewhere."""
        groups = group(lowering.steps, needed)
        home = {b: g for g in groups for b in g.kinds}
        for g in groups:
            for step in g.steps:
                needed |= {v.buffer for v in step.inputs if home.get(v.buffer, g) is not g}
        for bundle, parts in ordered(groups):
            (first, *_) = bundle[0].steps
            if first.kind == "while":
                self.add_loop(first)
                continue
            made = [self.kernel_of(g, needed) for g in bundle]
            self.rows += [_Row(k, part=(i, parts)) for i in range(parts) for k in made]

    def kernel_of(self, g: Group, needed: set[Buffer]) -> Kernel:
        if g.steps[0].gives == "own":
            return own.kernel(g)
        return emit(g, needed)

    def add_loop(self, step: Step) -> None:
        """A While: start values, then condition, leave or go on, body, next values, back."""
        carry, cond, body = (step.more[k] for k in ("carry", "cond", "body"))
        starts = step.inputs[len(step.inputs) - len(carry) :]
        moves = Lowering()
        for view, start in zip(carry, starts, strict=True):
            _copy(moves, start, view.buffer)
        self.add_rows(moves, {v.buffer for v in carry})
        again = len(self.rows)
        self.add_rows(cond, {step.more["flag"]})
        leave = _Row(flag=step.more["flag"])
        self.rows.append(leave)
        back = Lowering()
        in_place = _settle(body, carry, step.more["nexts"])
        for view, following in zip(carry, step.more["nexts"], strict=True):
            if following.buffer not in in_place and following.buffer is not view.buffer:
                _copy(back, following, Buffer(view.buffer.dtype, view.buffer.size))
        nexts = [v.buffer for v in step.more["nexts"]]
        self.add_rows(body, set(nexts))
        out = [s.out for s in back.steps]
        self.add_rows(back, set(out))
        last = Lowering()
        moved = [c for c, f in zip(carry, step.more["nexts"], strict=True)
                 if f.buffer not in in_place and f.buffer is not c.buffer]  # fmt: skip
        for view, buffer in zip(moved, out, strict=True):
            _copy(last, View(buffer, (buffer.size,)), view.buffer)
        self.add_rows(last, {v.buffer for v in moved})
        self.rows.append(_Row(target=again))
        leave.target = len(self.rows)
        step.more["span"] = (again, len(self.rows))

    def lay_out(self, inputs: list[Buffer], outs: list[Buffer]) -> None:
        """Number all buffers as slots, place the arena's, and fill the table."""
        arrays = [*inputs, *outs]
        self.n_arrays = len(arrays)
        lives: dict[Buffer, list[int]] = {}
        constants: dict[Buffer, None] = {}
        loops = [(r.target, n) for n, r in enumerate(self.rows)
                 if r.kernel is None and r.flag is None]  # fmt: skip
        for number, row in enumerate(self.rows):
            around = [i for span in loops if span[0] <= number <= span[1] for i in span]
            used = [row.flag] if row.flag else row.kernel.arguments if row.kernel else []
            for b in used:
                if isinstance(b, Buffer) and b.home.value is not None:
                    constants[b.home] = None
                elif isinstance(b, Buffer):
                    lives.setdefault(b.home, []).extend([number, *around])
        own = [b for b in lives if b not in set(arrays)]
        self.lives = {b: (min(rows), max(rows)) for b, rows in lives.items()}
        places, self.arena_bytes = memory.place((b, *self.lives[b]) for b in own)
        self.constants = list(constants)
        self.offsets = [places[b] for b in own]
        self.slot = slot = {b: i for i, b in enumerate([*arrays, *self.constants, *own])}
        self.slots = np.zeros(max(len(slot), 1), np.int64)
        for b in self.constants:
            assert b.value is not None
            self.slots[slot[b]] = b.value.ctypes.data
        self.blocks: list[np.ndarray] = []
        words: list[int] = []
        for row in self.rows:
            if row.kernel is None:
                op, flag = (1, 0) if row.flag is None else (2, slot[row.flag.home])
                words += [op, 5 * row.target, flag, 0, 0]
                continue
            block = [slot[a.home] if isinstance(a, Buffer) else a for a in row.kernel.arguments]
            self.blocks.append(np.array(block or [0], np.int64))
            address = cache.kernel(row.kernel.source)
            (i, n), work = row.part, row.kernel.work
            words += [0, address, self.blocks[-1].ctypes.data, work * i // n, work * (i + 1) // n]
        self.table = np.array(words or [0], np.int64)
        bytes_used = sum(b.size * SIZES[b.dtype] for b in slot)
        self.is_long = bytes_used > LONG_RUN or any(row.kernel is None for row in self.rows)

    def named(self, names: Sequence[str]) -> dict[Buffer, str]:
        """What listings call each buffer: c0, c1 ... are constants, m0 ... places in the arena.

        Args:
            names: of the inputs and outputs.
        """
        first = self.n_arrays
        kept = [f"c{i}" for i in range(len(self.constants))]
        own = [f"m{i}" for i in range(len(self.slot) - first - len(kept))]
        return dict(zip(self.slot, [*names, *kept, *own], strict=True))

    def listing(self, names: Sequence[str]) -> list[str]:
        """A line for each row: what a kernel writes, what it reads, the nodes that it computes.

        Args:
            names: of the inputs and outputs.
        """
        known = self.named(names)
        lines = []
        for number, row in enumerate(self.rows):
            if row.kernel is None:
                test = f"unless {known[row.flag.home]} " if row.flag else ""
                lines.append(f"{number:4}  {test}jump {row.target}")
            elif row.part[0] == 0:
                lines.append(f"{number:4}  {_row_text(row, known)}")
        return lines

    def frame(self) -> _Frame:
        """A frame that no running call has."""
        return self.frames.pop() if self.frames else _Frame(self)

    def run(self, values: Sequence[Any]) -> list[np.ndarray]:
        """The outputs, as new arrays."""
        frame = self.frame()
        large = self.large
        outs = [
            frame.large(i, kind) if i in large else memory.new(*kind)
            for i, kind in enumerate(self.kinds)
        ]
        arrays = [*values, *outs]
        while status := frame.run(*arrays):
            if status < 0:
                arrays[-1 - status] = np.array(arrays[-1 - status], order="C")
        self.frames.append(frame)
        return outs


def _row_text(row: _Row, names: dict[Buffer, str]) -> str:
    """Such as ``m0 = kernel(s0, s1): MatMul``; of a kernel that runs in parts, how many."""
    assert row.kernel is not None
    group = row.kernel.group
    made = {b.home for b in group.kinds}
    used = [b.home for b in row.kernel.arguments if isinstance(b, Buffer)]
    writes, reads = (
        ", ".join(dict.fromkeys(names[b] for b in used if (b in made) is wanted))
        for wanted in (True, False)
    )
    nodes = [s.node for s in group.steps if isinstance(s.node, CNode)]
    does = " ".join(n.callee.name for n in dict.fromkeys(nodes) if isinstance(n.callee, Primitive))
    times = f" in {row.part[1]} parts" if row.part[1] > 1 else ""
    where = nodes[-1].origin.where if nodes else None
    return f"{writes} = kernel({reads}){times}: {does or 'copy'}" + (
        f"  # {where}" if where else ""
    )


def _copy(lowering: Lowering, view: View, into: Buffer | None = None) -> View:
    """A step that copies a view, into a buffer if that is given."""
    flat = View(view.buffer, (view.buffer.size,))
    out = into or Buffer(view.buffer.dtype, view.buffer.size)
    step = Step("map", [flat], out, 1, out.size, ways=[("full",)], text="{0}", is_flat=True)
    if out.size == 1:
        step.ways = [("scalar",)]
    lowering.steps.append(step)
    return View(out, flat.shape)


def _settle(body: Lowering, carry: list[View], nexts: list[View]) -> set[Buffer]:
    """Let next values of a loop take over the memory of those that they replace, where they may.

    The step that makes such a value reads the old one element by element, and no step after it
    reads the old one at all.
    """
    found: set[Buffer] = set()
    order = {s.out: i for i, s in enumerate(body.steps)}
    last = [v.buffer for v in nexts]
    for old, new in zip(carry, nexts, strict=True):
        step = new.buffer.step
        readers = [s for s in body.steps for v in s.inputs if v.buffer is old.buffer]
        if (
            step is None or step.kind != "map" or not step.is_flat
            or new.buffer not in order or last.count(new.buffer) > 1 or old.buffer in last
            or any(s is not step for s in readers)
            or any(v.buffer is new.buffer for s in body.steps for v in s.inputs)
        ):  # fmt: skip
            continue
        new.buffer.at = old.buffer
        found.add(new.buffer)
    return found
