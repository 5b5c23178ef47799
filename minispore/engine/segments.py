"""Segments: pieces of a graph that run as kernels, in one native call.

``split`` orders the nodes of a graph so that what kernels can compute is in as few segments as
possible; all else is left to the plan.  A Segment holds its kernels' table, and frames: the arena
and the table of addresses of one running call.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from minispore.abstract import AbstractTuple
from minispore.engine import cache, memory, native
from minispore.engine.control import Flow
from minispore.engine.covered import is_native
from minispore.engine.emit import Kernel
from minispore.engine.layout import SIZES, Buffer, View
from minispore.engine.rows import Row, Rows, copy_step
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
            if memory.is_free(array, 2):  # the list's and the loop's
                return array
        spare[:-1] = [memory.new(*kind)]
        return spare[0]


class Segment:
    """Nodes that run as kernels: ``run(values)`` of its `inputs` gives arrays for its `outputs`.

    Args:
        nodes: in an order in which they can run.
        outputs: those of them that are used elsewhere.
        replaced: of outputs, the inputs in whose memory they may be written, from when on all of
            the outputs `first` are known.

    Attributes:
        in_place: the numbers of the outputs that are written so.
        safe_rows: how many rows of the table come before that.
    """

    def __init__(
        self, nodes: list[CNode], outputs: list[Node], replaced: Mapping[Node, Node] | None = None,
        first: Collection[Node] = (),
    ):  # fmt: skip
        self.nodes, self.outputs = nodes, outputs
        lowering = Flow(nodes, outputs)
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
        table = Rows()
        buffer = dict(zip([*self.inputs, *outputs], [*inputs, *outs], strict=True))
        pairs = [(buffer[old], buffer[new]) for new, old in (replaced or {}).items()]
        table.add(lowering.steps, set(outs), pairs, [buffer[n] for n in first])
        self.rows = table.rows
        self.in_place = {i for i, b in enumerate(outs) if b.home in inputs}
        over = {outs[i] for i in self.in_place}
        self.safe_rows = next(
            (
                i
                for i, row in enumerate(self.rows)
                if row.kernel and over & row.kernel.group.kinds.keys()
            ),
            len(self.rows),
        )
        self.lay_out(inputs, outs)
        types = [n.abstract for n in outputs]
        self.kinds = [(t.shape, t.dtype.numpy) for t in types]  # type: ignore[attr-defined]
        self.large = {i for i, b in enumerate(outs) if b.size * SIZES[b.dtype] >= LARGE}
        self.frames: list[_Frame] = []

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, in the order of the table."""
        return list(dict.fromkeys(row.kernel for row in self.rows if row.kernel is not None))

    def own_buffers(self, lowering: Flow, inputs: list[Buffer]) -> list[Buffer]:
        """A buffer of its own for each output; what is only another view of one is copied."""
        taken = set(inputs)
        outs = []
        for node in self.outputs:
            view = lowering.whole(lowering.views[id(node)])
            if view.buffer in taken or view.buffer.value is not None:
                own = Buffer(view.buffer.dtype, view.buffer.size)
                lowering.steps.append(copy_step(view.buffer, own))
                view = View(own, view.shape)
            taken.add(view.buffer)
            outs.append(view.buffer)
        return outs

    # ----------------------------------------------------------------- the table

    def lay_out(self, inputs: list[Buffer], outs: list[Buffer]) -> None:
        """Number all buffers as slots, place the arena's, and fill the table."""
        arrays = [*inputs, *outs]
        self.n_arrays = len(arrays)
        lives: dict[Buffer, list[int]] = {}
        constants: dict[Buffer, None] = {}
        loops = [
            (r.target, n) for n, r in enumerate(self.rows) if r.kernel is None and r.target <= n
        ]
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
                op, flag = (1, 0) if row.flag is None else (2 + row.when, slot[row.flag.home])
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
                word = "if" if row.when else "unless"
                test = f"{word} {known[row.flag.home]} " if row.flag else ""
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


def _row_text(row: Row, names: dict[Buffer, str]) -> str:
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
