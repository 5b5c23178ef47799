"""Running a plan under someone's eyes: instruction by instruction, and kernels row by row.

``replay`` is the plan's own loop, opened: before each instruction it yields a Moment, and whoever
looks on has it done, looks at values, or takes times.  Instructions that run kernels have Rows: the
rows of their table on memory of their own, so that nothing outside is written.  Where kernels can
not go on, the instruction is to be done as a whole (scalars.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minispore.abstract import sizes_of
from minispore.engine import memory, native
from minispore.engine.layout import Buffer
from minispore.engine.plan import Executable, Instruction, Routine, _Run
from minispore.engine.segments import Segment


class Rows:
    """The rows of a segment's table on arrays of their own; `load` gives them values."""

    def __init__(self, segment: Segment, values: Sequence[np.ndarray]):
        self.segment = segment
        self.inputs = [np.array(v, order="C") for v in values]
        self.outputs = [np.empty(*kind) for kind in segment.kinds]
        self._arena = np.zeros(segment.arena_bytes + memory.ALIGN, np.uint8)
        start = self._arena.ctypes.data
        start += -start % memory.ALIGN
        self._calls: dict[tuple[int, int], Callable[[], int]] = {}
        self._slots = segment.slots.copy()
        addresses = [a.ctypes.data for a in (*self.inputs, *self.outputs)]
        self._slots[: len(addresses)] = addresses
        first = segment.n_arrays + len(segment.constants)
        for i, offset in enumerate(segment.offsets, first):
            self._slots[i] = start + offset

    def load(self, values: Sequence[np.ndarray]) -> None:
        """Take other inputs, of the same types."""
        for own, value in zip(self.inputs, values, strict=True):
            own[...] = value

    def call(self, number: int, times: int = 1) -> Callable[[], int]:
        """A function that runs the kernel of a row so many times, in one native call."""
        if (number, times) not in self._calls:
            words = np.tile(self.segment.table[5 * number : 5 * number + 5], times)
            self._calls[number, times] = native.bound(words, times, self._slots)
        return self._calls[number, times]

    def following(self, number: int) -> int:
        """The row that comes after one that is done; a jump is followed, and may ask its flag."""
        row = self.segment.rows[number]
        jumps = row.kernel is None and (
            row.flag is None or bool(self.array(row.flag)[0]) == row.when
        )
        return row.target if jumps else number + 1

    def array(self, buffer: Buffer) -> np.ndarray:
        """The elements of a buffer: its memory itself, not a copy."""
        address = int(self._slots[self.segment.slot[buffer.home]])
        memory_of: Any = (ctypes.c_char * max(buffer.bytes, 1)).from_address(address)
        dtype = np.dtype(bool if buffer.dtype == "u1" else buffer.dtype)
        return np.ndarray(buffer.size, dtype, memory_of)


@dataclass
class Moment:
    """A plan before one of its instructions.  Whoever sees it calls `do`, or `take`."""

    run: _Run
    routine: Routine
    number: int
    step: Instruction

    @property
    def operands(self) -> list[Any]:
        """The values that the instruction works on."""
        return [self.run.slots[i] for i in self.step.inputs]

    def do(self) -> None:
        """What the instruction does."""
        self.step.do(self.run, self.step)

    def take(self, rows: Rows) -> bool:
        """The outputs are what its rows have made; not if these tell that something has failed."""
        segment, arrays = rows.segment, [a.copy() for a in rows.outputs]
        if segment.can_fail and not arrays[-1]:
            return False
        for i, value in zip(self.step.outputs, segment.results(arrays), strict=True):
            self.run.slots[i] = value
        return True


def replay(plan: Executable, inputs: Sequence[Any]) -> Iterator[Moment]:
    """The moments of a run on these inputs, which are not changed; it goes on when asked again.

    What an instruction raises comes out of ``Moment.do``.
    """
    run = _Run(plan.main, inputs, sizes_of(plan.types, inputs) if plan.is_sized else {})
    while run.result is None:
        routine, number, slots = run.routine, run.pc, run.slots
        step = routine.instructions[number]
        run.pc += 1
        yield Moment(run, routine, number, step)
        for i in step.free:
            slots[i] = None
