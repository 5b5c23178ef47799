"""Segments: pieces of a graph that run as kernels, in one native call.

A Segment holds its kernels' table, and frames: the arena and the table of addresses of one running
call.  Which nodes are one, split.py says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from minispore.abstract import TOKEN, Abstract, AbstractScalar, AbstractTensor
from minispore.engine import cache, memory, native
from minispore.engine.control import Flow
from minispore.engine.emit import Kernel
from minispore.engine.layout import SIZES, Buffer, View
from minispore.engine.rows import Row, Rows, copy_step
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Node,
    ParameterNode,
    ValueNode,
    make_tuple,
)
from minispore.primitive import Primitive

LONG_RUN = 2**16  # bytes: with more (or loops) a run lets other Python threads go on
REUSED = 2**16  # bytes: from here on the memory of outputs is used again


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
        self.spare: dict[int, list[np.ndarray]] = {i: [] for i in segment.reused}

    def array(self, i: int, kind: tuple) -> np.ndarray:
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
        self.nodes = nodes
        self.outputs, self.tokens = ([n for n in outputs if (n.abstract == TOKEN) is kind]
                                     for kind in (False, True))  # fmt: skip
        lowering = Flow(nodes, outputs)
        inside = {id(n) for n in nodes}
        self.inputs: list[Node] = []
        known: set[int] = set()
        for node in nodes:
            for i in node.inputs:
                if id(i) not in inside and id(i) not in known:
                    known.add(id(i))
                    lowering.input(i)
                    if not isinstance(i, ValueNode) and i.abstract != TOKEN:
                        self.inputs.append(i)
            lowering.add(node)
        inputs = [lowering.views[id(n)].buffer for n in self.inputs]
        results = [lowering.views[id(n)] for n in self.outputs]
        self.kinds = [_array_kind(n.abstract) for n in self.outputs]
        if lowering.holds is not None:
            results.append(lowering.holds)
            self.kinds.append(((), np.dtype(bool)))
        outs = self.own_buffers(lowering, inputs, results)
        table = Rows()
        buffer = dict(zip([*self.inputs, *self.outputs], [*inputs, *outs], strict=False))
        pairs = [(buffer[old], buffer[new]) for new, old in (replaced or {}).items()]
        table.add(lowering.steps, set(outs), pairs, [buffer[n] for n in first])
        self.rows = table.rows
        self.in_place = {i for i, b in enumerate(outs) if b.home in inputs}
        over = {outs[i] for i in self.in_place}
        writers = [r.kernel is not None and not over.isdisjoint(r.kernel.group.kinds)
                   for r in self.rows]  # fmt: skip
        self.safe_rows = [*writers, True].index(True)
        self.lay_out(inputs, outs)
        self.reused = {i for i, b in enumerate(outs) if b.size * SIZES[b.dtype] >= REUSED}
        self.frames: list[_Frame] = []

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, in the order of the table."""
        return list(dict.fromkeys(row.kernel for row in self.rows if row.kernel is not None))

    def own_buffers(
        self, lowering: Flow, inputs: list[Buffer], results: list[View]
    ) -> list[Buffer]:
        """A buffer of its own for each output; what is only another view of one is copied."""
        taken = set(inputs)
        outs = []
        for result in results:
            view = lowering.whole(result)
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
        """What listings call each buffer: c0, c1 ... are constants, m0 ... places in the arena,
        and "fine" is whether nothing has failed.

        Args:
            names: of the inputs and outputs.
        """
        first = self.n_arrays
        kept = [f"c{i}" for i in range(len(self.constants))]
        own = [f"m{i}" for i in range(len(self.slot) - first - len(kept))]
        names = [*names, *["fine"] * (first - len(names))]
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

    @property
    def can_fail(self) -> bool:
        """True if the last array is a bool that says whether all is well."""
        return len(self.kinds) > len(self.outputs)

    def results(self, arrays: list[np.ndarray]) -> list[Any]:
        """The values of the outputs, which are in these arrays."""
        return arrays

    def run(self, values: Sequence[Any]) -> list[np.ndarray]:
        """The outputs, as new arrays."""
        frame = self.frame()
        reused = self.reused
        outs = [
            frame.array(i, kind) if i in reused else memory.new(*kind)
            for i, kind in enumerate(self.kinds)
        ]
        arrays = [*values, *outs]
        while status := frame.run(*arrays):
            if status < 0:
                arrays[-1 - status] = np.array(arrays[-1 - status], order="C")
        self.frames.append(frame)
        return outs


class MixedSegment(Segment):
    """A segment with numbers among its inputs and outputs, or one of whose nodes can fail.

    ``run`` gives None if one has (scalars.py): then `graph` is to be run in another way.
    """

    host: Any = None  # the plan of `graph`, once it was needed

    def run(self, values: Sequence[Any]) -> list[Any] | None:  # type: ignore[override]
        given = zip(values, self.inputs, strict=True)
        outs = super().run([
            v if isinstance(v, np.ndarray) else np.array(v, _array_kind(n.abstract)[1])
            for v, n in given
        ])  # fmt: skip
        return self.results(outs) if not self.can_fail or outs[-1] else None

    def results(self, arrays: list[np.ndarray]) -> list[Any]:
        return [
            a.item() if isinstance(n.abstract, AbstractScalar) else a
            for a, n in zip(arrays, self.outputs, strict=False)
        ]

    def graph(self) -> FuncGraph:
        """The nodes as a graph of their own: of the inputs, and the Token."""
        parameters = [ParameterNode(f"x{i}", n.abstract) for i, n in enumerate(self.inputs)]
        token = ParameterNode("token", TOKEN)
        made: dict[int, Node] = {id(n): p for n, p in zip(self.inputs, parameters, strict=True)}

        def now(node: Node) -> Node:
            if node.abstract == TOKEN and id(node) not in made:
                return token
            return node if isinstance(node, ValueNode) else made[id(node)]

        for node in self.nodes:
            inputs = [now(i) for i in node.inputs]
            made[id(node)] = CNode(node.callee, inputs, node.abstract, node.origin)
        output = make_tuple([made[id(n)] for n in (*self.outputs, *self.tokens)])
        return FuncGraph("segment", [*parameters, token], output)


def _array_kind(abstract: Abstract) -> tuple[tuple, np.dtype]:
    """The shape and dtype of the array of a value."""
    if isinstance(abstract, AbstractTensor):
        return abstract.shape, abstract.dtype.numpy
    assert isinstance(abstract, AbstractScalar)
    return (), np.dtype(abstract.kind)


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
