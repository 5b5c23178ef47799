"""A call of a compiled function in one step: checks, kernels and writes, without Python between.

For graphs that are one segment.  The Tensors' own slots are read and written; a Tensor that is
written and the call swap arrays, so that a run needs no new memory, and one that fails has changed
nothing.  The machine code is kernels/direct.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minispore.abstract import AbstractScalar
from minispore.engine import memory, native
from minispore.engine.kernels import direct as block
from minispore.engine.kernels.direct import AXES
from minispore.engine.native import word
from minispore.engine.plan import Executable, kernels
from minispore.engine.segments import Segment
from minispore.ir.node import is_call_of
from minispore.tensor import Tensor

_SOURCE = '''
from minispore.engine.kernels.direct import many_calls, one_call
from minispore.engine.kernels.words import python_int

def call(itself, arguments, count):
    """The built-in function, bound to a block of words."""
    return python_int({}(itself, arguments, count))
'''


@dataclass(frozen=True)
class Parts:
    """A graph that is one segment, and checks of what that finds.

    Of each input of the segment `inputs` has the number of the graph's; of each output `outputs`
    has the number of the graph's, or None; `checks` are the outputs that must be true.
    """

    segment: Segment
    inputs: list[int]
    outputs: list[int | None]
    checks: list[int]


def parts_of(plan: Executable) -> Parts | None:
    """The parts of a plan that is one segment, then perhaps checks; None if it is more."""
    first, *more = plan.main.instructions
    *rest, last = more or [first]
    if first.do is not kernels or plan.is_sized or any(
        isinstance(n.abstract, AbstractScalar)
        for n in (*first.function.inputs, *first.function.outputs)
    ):  # fmt: skip
        return None
    made = {slot: i for i, slot in enumerate(first.outputs)}
    kinds = first.function.kinds
    checks = []
    for step in rest:
        if step.node is None:
            return None
        read = step.inputs[-1:] if is_call_of(step.node, "TensorToScalar") else step.inputs[1:2]
        if not read or read[0] not in made or kinds[made[read[0]]] != ((), np.dtype(bool)):
            return None
        if is_call_of(step.node, "Check"):
            checks.append(made[read[0]])
        elif is_call_of(step.node, "TensorToScalar"):
            made[step.outputs[0]] = made[read[0]]
        else:
            return None
    if any(i >= len(plan.graph.parameters) for i in first.inputs):
        return None
    numbers = {slot: n for n, slot in enumerate(last.inputs)}
    outputs = [numbers.get(i) for i in first.outputs]
    if first.function.can_fail:
        checks.append(len(outputs))
        outputs.append(None)
    return Parts(first.function, list(first.inputs), outputs, checks)


def in_place(parts: Parts, cells: Mapping[int, int]) -> Parts:
    """The same, with large outputs written where inputs are: output number -> input number.

    Adam reads four arrays and writes three: in place it moves 28 bytes a number, else 40.
    """
    whole, segment = parts.segment, parts.segment
    if any(row.kernel is None for row in whole.rows) or whole.can_fail:
        return parts  # what may be stopped half-way, or fail, must have changed nothing
    replaced = {
        whole.outputs[i]: whole.inputs[parts.inputs.index(cells[number])]
        for i, number in enumerate(parts.outputs)
        if number is not None
        and cells.get(number) in parts.inputs
        and _bytes(whole.kinds[i]) >= memory.LARGE
    }
    if replaced:
        checks = [whole.outputs[i] for i in parts.checks]
        segment = Segment(whole.nodes, whole.outputs, replaced, checks)
        assert segment.inputs == whole.inputs
    return replace(parts, segment=segment)


class DirectCall:
    """A call that is made in one step, ``call(*args)``, or not at all.

    ``calls(*args, *args ...)`` makes several, one after the other, and tells how many.

    Args:
        parts: what is run.
        args: like those of the calls: Tensors, or objects which must be the same.
        captured: the Tensors that follow those of `args` among the graph's inputs.
        written: the Tensors that get outputs of the graph, by the output's number.
        watched: address -> word: what must not have changed.
    """

    def __init__(
        self, parts: Parts, args: Sequence[Any], captured: Sequence[Tensor],
        written: Mapping[int, Tensor], watched: Mapping[int, int],
    ):  # fmt: skip
        self.segment = segment = parts.segment
        self.kinds = segment.kinds
        self.frame = segment.frame()
        # no other thread may look at an array that is half written
        self.unlocks = segment.is_long and not segment.in_place
        self.make_arrays(parts, written)
        first, flags = len(parts.inputs), [len(parts.inputs) + i for i in parts.checks]
        items = word(id(self.arrays) + 24)  # where a list has them
        slot_of = {number: slot for slot, number in enumerate(parts.inputs)}
        tensors = [a for a in args if type(a) is Tensor]
        self.table = _table(segment, flags)
        self.kept: list[Any] = [segment, args, captured, dict(written)]
        self.block = np.zeros(block.SIZE, np.int64)
        self.fill({
            block.WATCHED: [*watched.items()],
            block.ARGUMENTS: [_facts(a, slot_of, tensors) for a in args],
            block.CAPTURED: [
                (slot_of[i], id(t)) for i, t in enumerate(captured, len(tensors)) if i in slot_of
            ],
            block.OUTPUTS: [
                (first + i, items + 8 * self.cells[i], _written(number, written))
                for i, number in enumerate(parts.outputs) if i not in segment.in_place
            ],
            block.FLAGS_OF_CHECKS: [(flag,) for flag in flags],
            block.OWNED: [(id(tensor),) for tensor in self.owned],
        })  # fmt: skip
        self.call = native.built_in(_SOURCE.format("one_call"), self.block)
        self.calls = native.built_in(_SOURCE.format("many_calls"), self.block)

    def make_arrays(self, parts: Parts, written: Mapping[int, Tensor]) -> None:
        """An array for each output that a Tensor gets, two for a result: one may be in use."""
        self.places: dict[int, int] = {}  # graph's output -> where in `arrays` the call puts it
        self.arrays: list[np.ndarray] = []
        self.cells: list[int] = []  # of each output, its place in `arrays`
        self.owned: list[Tensor] = []  # which are written where they are
        for i, (number, kind) in enumerate(zip(parts.outputs, self.kinds, strict=True)):
            self.cells.append(len(self.arrays))
            if number is not None and i in self.segment.in_place:
                self.owned.append(written[number])
                continue
            if number is not None and number not in written:
                self.places[number] = len(self.arrays)
            self.arrays += [memory.new(*kind) for _ in range(1 if number in written else 2)]

    def fill(self, tables: Mapping[int, Sequence[Sequence[int]]]) -> None:
        """Fill the block: of each table its address, and then how many rows it has."""
        for place, rows in tables.items():
            self.block[place] = self.address([w for row in rows for w in row])
            self.block[place + 1] = len(rows)
        held = self.block[block.N_ARGUMENTS] + self.block[block.N_CAPTURED]
        facts = {
            block.TABLE: self.table.ctypes.data, block.ROWS: len(self.table) // 5,
            block.SLOTS: self.frame.slots.ctypes.data, block.UNLOCKS: self.unlocks,
            block.HELD: self.address([0] * int(held)),
            block.TENSOR: id(Tensor), block.NDARRAY: id(np.ndarray), block.ROOM: id(memory.Room),
            block.NONE: id(None), block.IN_DATA: _offset("_data"),
            block.IN_KEY: _offset("_key_or_none"),
        }  # fmt: skip
        for place, found in facts.items():
            self.block[place] = found

    def address(self, words: Sequence[int]) -> int:
        """Where some words stand as long as this object lives."""
        self.kept.append(np.array(words or [0], np.int64))
        return self.kept[-1].ctypes.data

    @property
    def hits(self) -> int:
        """How many calls have been made so."""
        return int(self.block[block.HITS])

    def go_on(self, args: Sequence[Any], status: int) -> int:
        """What is left of a call that is not DONE; MISS if it is to be made in another way."""
        while status == block.AGAIN:  # Python has seen to Ctrl-C
            status = self.call(self.block)
        if status == block.RENEW:
            self.renew()
            status = self.call(*args)
            return block.MISS if status == block.RENEW else self.go_on(args, status)
        return status

    def give_up(self) -> None:
        """Ctrl-C, say, has come: a call that has begun is not finished."""
        self.call(self.block, self.block)

    def renew(self) -> None:
        """New arrays in place of those that someone else has."""
        for i, (kind, cell) in enumerate(zip(self.kinds, self.cells, strict=True)):
            if i in self.segment.in_place:
                continue
            if not memory.is_free(self.arrays[cell], 1):  # the list's
                self.arrays[cell] = memory.new(*kind)
        for tensor in self.owned:
            if not memory.is_free(tensor._data, 1):  # the Tensor's
                tensor._data = memory.copied(tensor._data)


def _table(segment: Segment, flags: Sequence[int]) -> np.ndarray:
    """The table; before anything is written in place it ends if one of the flags is not true."""
    if not segment.in_place:
        return segment.table
    end = 5 * (len(segment.rows) + len(flags))
    stops = [word for flag in flags for word in (2, end, flag, 0, 0)]
    return np.insert(segment.table, 5 * segment.safe_rows, stops)


def _written(number: int | None, written: Mapping[int, Tensor]) -> int:
    """The address of the Tensor that gets an output; 0 if none does."""
    return id(written[number]) if number is not None and number in written else 0


def _facts(argument: Any, slot_of: Mapping[int, int], tensors: Sequence[Tensor]) -> list[int]:
    """What kernels/direct.py wants to know of an argument."""
    if type(argument) is not Tensor:
        return [-1, id(argument)] + [0] * (block.FACTS - 2)
    array = argument._data
    number = next(i for i, t in enumerate(tensors) if t is argument)
    sizes = [*array.shape, *[0] * (AXES - array.ndim)]
    return [slot_of.get(number, -1), 0, id(array.dtype), array.ndim, *sizes]


def _offset(slot: str) -> int:
    """Where a Tensor has one of its slots."""
    tensor, marker = Tensor._wrap(None), object()
    setattr(tensor, slot, marker)
    places = range(16, Tensor.__basicsize__, 8)
    return next(p for p in places if word(id(tensor) + p) == id(marker))


def _bytes(kind: tuple) -> int:
    """The bytes of an array of such a shape and dtype."""
    return int(math.prod(kind[0])) * int(kind[1].itemsize)
