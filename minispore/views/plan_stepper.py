"""Walking a plan as it runs, kernels row by row: ``ms.explain(fn, x).step_plan()``.

A step is an instruction, or a row of a table: one kernel, or a jump.  What it read and what it
wrote is kept as it was then, so that going back is looking at what is kept, and a reader can do the
whole plan by hand.

    s = ms.explain(loss, w, x).step_plan()
    s.text                  # m0 = kernel(s0, s1): MatMul
    s.reads, s.writes       # {"s0": array, "s1": array}, {"m0": array}
    s.forward()
    s.interact()            # the same by keys, in a terminal

Nothing outside is written, but what the graph prints is printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minispore.abstract import AbstractTensor
from minispore.engine import Executable, counts
from minispore.engine.layout import Buffer
from minispore.engine.plan import step_text
from minispore.engine.replay import Moment, Rows, replay
from minispore.engine.segments import Segment
from minispore.ir.node import Location
from minispore.ir.values import array_type, elements
from minispore.views.kernels import buffer_names, nodes_in, place_name, title_of
from minispore.views.stepper import ByKeys, page_of

_HELP = """\
n  next instruction or row                 o  on, past the rows of this call of kernels
b  back                                    e  to the end
l LINE  on to what that line made          p [NAME]  print a value in full: p, p m3, p s0
q  quit
An empty line repeats the last command."""


@dataclass
class PlanStep:
    """One step: its place (``0.12``), what it is, the source behind it, values by name."""

    place: str
    text: str
    lines: tuple[Location, ...] = ()
    reads: dict[str, Any] = field(default_factory=dict)
    writes: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    error: Exception | None = None


class PlanStepper(ByKeys):
    """A place in the run of a plan.  Moving returns the PlanStepper, which displays itself.

    Attributes:
        error: what the run failed with, once that is known.
        outputs: the results, once they are known.
    """

    help = _HELP

    def __init__(self, plan: Executable, inputs: Sequence[Any], name: str):
        self.name = name
        self.error: Exception | None = None
        self.outputs: list[Any] | None = None
        self._run = _steps(plan, inputs)
        self._steps: list[PlanStep] = []
        self._number = 0
        self._reach(0)

    def _reach(self, number: int) -> bool:
        """Run until there is a step of this number; False if the run is over before."""
        while len(self._steps) <= number and self.outputs is None and self.error is None:
            try:
                self._steps.append(next(self._run))
                self.error = self._steps[-1].error
            except StopIteration as end:
                self.outputs = end.value
        return len(self._steps) > number

    def _go(self, number: int) -> PlanStepper:
        self._number = number if self._reach(number) else len(self._steps)
        return self

    # ---------------------------------------------------------------------------------- moving

    def forward(self) -> PlanStepper:
        """On to the next instruction or row."""
        return self if self.is_at_end else self._go(self._number + 1)

    def over(self) -> PlanStepper:
        """On to the next instruction, past the rows of this one."""
        number = self._number + 1
        here = None if self.is_at_end else self._instruction(self._number)
        while self._reach(number) and self._instruction(number) == here:
            number += 1
        return self._go(number)

    def _instruction(self, number: int) -> str:
        return self._steps[number].place.split(".")[0]

    def back(self) -> PlanStepper:
        """Back to the step before; the first one stays."""
        self._number = max(self._number - 1, 0)
        return self

    def to_line(self, line: int, file: str = "") -> PlanStepper:
        """On to the next step that a line of source made, or to the end.

        Args:
            file: part of the file's name, where lines of several files have this number.
        """
        number = self._number + 1
        while self._reach(number) and not any(
            w.line == line and file in w.file for w in self._steps[number].lines
        ):
            number += 1
        return self._go(number)

    def to_start(self) -> PlanStepper:
        """Back to the first step."""
        self._number = 0
        return self

    def to_end(self) -> PlanStepper:
        """On to the end, or to the step that fails."""
        while self._reach(len(self._steps)):
            pass
        return self._go(len(self._steps) - (self.error is not None))

    # ---------------------------------------------------------------------------- what is here

    @property
    def is_at_end(self) -> bool:
        """True after the last step, where `outputs` are known."""
        return self._number >= len(self._steps)

    @property
    def number(self) -> int:
        """How many steps were taken before this one."""
        return self._number

    @property
    def step(self) -> PlanStep:
        """The step; IndexError at the end."""
        if self.is_at_end:
            raise IndexError("the run is over: go back() to a step")
        return self._steps[self._number]

    @property
    def place(self) -> str:
        """Where it stands in the plan: ``0.12`` is row 12 of instruction 0."""
        return self.step.place

    @property
    def text(self) -> str:
        """The instruction, or the row, as the plan's listing has it."""
        return self.step.text

    @property
    def reads(self) -> dict[str, Any]:
        """The values that it reads, by the names of the plan."""
        return self.step.reads

    @property
    def writes(self) -> dict[str, Any]:
        """The values that it writes."""
        return self.step.writes

    @property
    def where(self) -> Location | None:
        """The place in the user's source that made it; of a kernel its last node's."""
        return self.step.lines[-1] if self.step.lines else None

    def find(self, name: str) -> Any:
        """The latest value of a name such as ``m3``, as far as the walk has come.

        Raises:
            KeyError: there is none of that name, or it has no value yet.
        """
        known: dict[str, Any] = {}
        for step in self._steps[: self._number + 1]:
            known |= step.reads | step.writes
        if name not in known:
            raise KeyError(f"{name} has no value here; there are {', '.join(known)}")
        return known[name]

    # ------------------------------------------------------------------------------- as text

    def __str__(self) -> str:
        if self.is_at_end:
            lines = [f"{self.name} is over, after {len(self._steps)} steps"]
            return "\n".join([*lines, *(f"  -> {_shown(v)}" for v in self.outputs or ())])
        step = self.step
        lines = [f"step {self.number + 1}, at {step.place} of the plan"]
        if self.where is not None:
            lines.append(self.where.shown())
        lines.append(f"  {step.text}")
        lines += [f"    {name} = {_shown(value)}" for name, value in step.reads.items()]
        lines += [f"  -> {name} = {_shown(value)}" for name, value in step.writes.items()]
        lines += [f"  {step.note}"] * bool(step.note)
        if step.error is not None:
            lines.append(f"  raised {type(step.error).__name__}: {step.error}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": str(self)}

    def html(self) -> str:
        """The place as a fragment of plain HTML: the source with its line marked, then the text."""
        return page_of(str(self), None if self.is_at_end else self.where)

    def moves(self) -> dict[str, Callable[[], Any]]:
        """What the keys of ``interact`` do."""
        return {"n": self.forward, "b": self.back, "o": self.over, "e": self.to_end}

    def _printed(self, name: str) -> str:
        try:
            if name:
                return str(self.find(name))
            return "\n".join(f"{n} =\n{v}" for n, v in self.step.writes.items())
        except (KeyError, IndexError) as error:
            return str(error.args[0])


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{array_type(value)} {elements(value)}"
    return "None" if value is None else f"{type(value).__name__} {value!r}"


# ---------------------------------------------------------------------------------- the run


def _steps(plan: Executable, inputs: Sequence[Any]) -> Generator[PlanStep, None, list[Any]]:
    """The steps of a run; its value: the results."""
    results: list[Any] = []
    with np.errstate(all="ignore"):
        for moment in replay(plan, inputs):
            place = place_name(plan, moment.routine, moment.number)
            if isinstance(moment.step.function, Segment):
                rows = Rows(moment.step.function, moment.operands)
                yield from _rows(moment, rows, place)
                if moment.take(rows):
                    continue
            step = _instruction(moment, place)
            results = list(step.reads.values())
            yield step
            if step.error is not None:
                return results
    return results


def _instruction(moment: Moment, place: str) -> PlanStep:
    """Do an instruction; what it read and wrote."""
    step = moment.step
    where = step.node.origin.where if step.node is not None else None
    found = PlanStep(place, step_text(step), (where,) if where else ())
    found.reads = {f"s{i}": v for i, v in zip(step.inputs, moment.operands, strict=True)}
    slots = moment.run.slots
    try:
        moment.do()
    except Exception as error:  # the run's own, told where it is asked for
        found.error = error
        return found
    if moment.run.slots is slots:  # a call and a return have the slots of another routine
        found.writes = {f"s{i}": slots[i] for i in step.outputs}
    return found


def _rows(moment: Moment, rows: Rows, place: str) -> Iterator[PlanStep]:
    """Run the rows of a call of kernels one by one."""
    names, shapes = buffer_names(moment.step), _shapes(rows)
    number, table = 0, rows.segment.rows
    latest: dict[Buffer, np.ndarray] = {}

    def value(buffer: Buffer) -> np.ndarray:
        array = rows.array(buffer).copy()
        shape = shapes.get(buffer, (buffer.size,))
        return array.reshape(shape) if math.prod(shape) == array.size else array

    while number < len(table):
        row, at = table[number], f"{place}.{number}"
        if row.kernel is None:
            after = rows.following(number)
            step = PlanStep(at, f"jump to row {row.target}")
            if row.flag is not None:
                step.text = f"{'if' if row.when else 'unless'} {names[row.flag.home]} {step.text}"
                step.reads = {names[row.flag.home]: value(row.flag.home)}
            step.note = f"row {after} is next"
        else:
            reads, writes = counts.reads(row.kernel), counts.writes(row.kernel)
            latest |= {b: value(b) for b in reads if b not in latest}
            before = {names[b]: latest[b] for b in reads}
            rows.call(number)()
            latest |= {b: value(b) for b in writes}
            after = number + 1
            text = f"{', '.join(names[b] for b in writes)} = kernel({', '.join(before)})"
            part, parts = row.part
            text += f", part {part + 1} of {parts}" if parts > 1 else ""
            where = dict.fromkeys(n.origin.where for n in nodes_in(row.kernel))
            step = PlanStep(at, f"{text}: {title_of(row.kernel)}", tuple(filter(None, where)),
                            before, {names[b]: latest[b] for b in writes})  # fmt: skip
        yield step
        number = after


def _shapes(rows: Rows) -> dict[Buffer, tuple[int, ...]]:
    """The shapes of a segment's values; the table knows only how many elements they have."""
    segment = rows.segment
    arrays = [a.shape for a in (*rows.inputs, *rows.outputs)]
    found = dict(zip(segment.slot, arrays, strict=False))
    for kernel in segment.kernels:
        for step in kernel.group.steps:
            abstract = getattr(step.node, "abstract", None)
            if isinstance(abstract, AbstractTensor):
                found.setdefault(step.out.home, abstract.shape)
    return found


__all__ = ["PlanStep", "PlanStepper"]
