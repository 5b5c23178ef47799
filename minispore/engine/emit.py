"""A group of steps as the source of one kernel: short Python (compiled by kernels/compiler.py).

    def kernel(slots, args, lo, hi, worker):
        C = args[0]
        a1 = slots[args[1]]                          # x
        a2 = slots[args[2]]                          # softmax
        for r in range(lo, hi):
            x1 = p_f4(a1 + r * C * 4)
            x2 = p_f4(a2 + r * C * 4)
            w3 = f4(-np.inf)
            for j in range(C):                       # loop 0
                w3 = maximum_f4(w3, x1[j])
            ...

Values are computed in loops over the columns.  A reduction ends a loop: what needs it comes in the
next one.  A full value that a later loop needs again is computed again if that is cheap, and kept
in its buffer, or in a row of scratch, if not.  Sizes are arguments (but for very few columns):
kernels serve all sizes.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from minispore.engine.fuse import Group
from minispore.engine.layout import FLOATS, HALVES, SIZES, Buffer, View
from minispore.engine.lower import Step

LONG = 4096  # a sum of more columns is made of partial sums, for accuracy
BLOCK_ROWS = 64  # the same for sums over rows
FEW = 4  # columns: so few are a constant, and their loops straight code
TOGETHER = 2048  # elements of rows that go through one loop, then through the next

_WORDS = {"abs": "fabs", "sqrt": "sqrt"}  # of one name for all floats
_CHEAP = frozenset("abs sqrt maximum minimum floor ceil round trunc sign isinf isfinite".split())
_START = {
    "sum": "0",
    "max": "-np.inf",
    "larger": "-np.inf",
    "min": "np.inf",
    "all": "1",
    "any": "0",
}


@dataclass(eq=False)
class Kernel:
    """A kernel's source, its arguments (sizes, or buffers whose slots they are), its work."""

    source: str
    arguments: list[int | Buffer]
    work: int  # rows, or elements of a flat group
    group: Group
    splits: bool = True  # whether calls for parts of the work, in any order, do the same


@dataclass
class _Loop:
    """A loop over the columns in the making: its lines, and names of values known in it."""

    stage: int
    before: list[str] = field(default_factory=list)  # once for the loop
    lines: list[str] = field(default_factory=list)
    names: dict[object, str] = field(default_factory=dict)


def emit(group: Group, outside: Iterable[Buffer]) -> Kernel:
    """The kernel of a group that writes the buffers needed `outside`."""
    return _Emitter(group, [b for b in group.kinds if b in set(outside)]).kernel()


class _Emitter:
    """Writes the source of one kernel."""

    def __init__(self, group: Group, outputs: list[Buffer]):
        self.group, self.outputs = group, outputs
        self.steps = {s.out: s for s in group.steps}
        self.arguments: list[int | Buffer] = []
        self.top: list[str] = []  # once a call
        self.at_row: list[str] = []  # once a row
        self.names: dict[object, str] = {}
        self.stage: dict[Buffer, int] = {}
        for step in group.steps:
            self.stage[step.out] = self.stage_of(step)
        self.first: dict[Buffer, int] = {}  # the loop that computes a full value first
        # full values that later loops load again, and where from
        self.kept: dict[Buffer, Buffer] = {}
        self.together = max(1, min(32, TOGETHER // group.columns))  # rows at a time
        self.count = 0

    # ----------------------------------------------------------------- stages

    def stage_of(self, step: Step) -> int:
        """The loop in which a step's value is known (for a row's: before which)."""
        inside = [self.stage[v.buffer] for v in step.inputs if v.buffer in self.stage]
        after = step.kind != "map" and self.group.kinds[step.out] == "row"
        return max(inside, default=0) + after

    def is_full(self, buffer: Buffer) -> bool:
        return self.group.kinds.get(buffer) == "full"

    def targets(self, stage: int) -> list[Step]:
        """What loop `stage` is there for: reductions of values known in it, and outputs."""
        found = []
        for step in self.group.steps:
            kind = self.group.kinds[step.out]
            if kind == "full" and step.out in self.outputs and self.stage[step.out] == stage:
                found.append(step)
            elif step.kind not in ("map", "pick") and self.last_input(step) == stage:
                if self.group.kinds.get(step.inputs[0].buffer) != "row":
                    found.append(step)
        return found

    def last_input(self, step: Step) -> int:
        return max((self.stage[v.buffer] for v in step.inputs if v.buffer in self.stage), default=0)

    def keep_what_is_dear(self, n_stages: int) -> None:
        """Decide which full values are kept for later loops."""
        for stage in range(n_stages):
            walked: set[Buffer] = set()
            for target in self.targets(stage):
                for view in [View(target.out, ())] if self.is_full(target.out) else target.inputs:
                    self.walk(view.buffer, stage, walked)

    def walk(self, buffer: Buffer, stage: int, walked: set[Buffer]) -> None:
        if not self.is_full(buffer) or buffer in self.kept or buffer in walked:
            return
        walked.add(buffer)
        if self.first.setdefault(buffer, stage) < stage:
            if self.is_dear(buffer) or buffer in self.outputs:
                rows = self.together * self.group.columns
                own = buffer in self.outputs
                self.kept[buffer] = buffer if own else Buffer(buffer.dtype, rows)
                return
        for view in self.steps[buffer].inputs:
            self.walk(view.buffer, stage, walked)

    def is_dear(self, buffer: Buffer) -> bool:
        """True if computing a value again takes a function."""
        todo, seen = [buffer], {buffer}
        while todo:
            value = todo.pop()
            if not self.is_full(value) or value in self.kept:
                continue
            step = self.steps[value]
            if _calls_functions(step.text):
                return True
            fresh = [v.buffer for v in step.inputs if v.buffer not in seen]
            todo += fresh
            seen.update(fresh)
        return False

    # ----------------------------------------------------------------- names

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def argument(self, value: int | Buffer) -> str:
        """The text of an argument: a number, or the address of a buffer."""
        for i, known in enumerate(self.arguments):
            if known is value or (isinstance(value, int) and known == value):
                place = f"args[{i}]"
                break
        else:
            self.arguments.append(value)
            place = f"args[{len(self.arguments) - 1}]"
        return place if isinstance(value, int) else f"slots[{place}]"

    def address(self, buffer: Buffer) -> str:
        buffer = buffer.home
        key = ("address", buffer)
        if key not in self.names:
            self.names[key] = name = self.fresh("a")
            self.top.append(f"{name} = {self.argument(buffer)}")
        return self.names[key]

    def pointer(self, buffer: Buffer, how: tuple) -> str:
        """A pointer to the elements of this row."""
        buffer = buffer.home
        key = ("pointer", buffer, how)
        if key in self.names:
            return self.names[key]
        size, place = SIZES[buffer.dtype], self.address(buffer)
        self.names[key] = name = self.fresh("x")
        if self.group.is_flat or how[0] in ("column", "lookup"):
            self.top.append(f"{name} = p_{buffer.dtype}({place})")
        elif how[0] == "kept":
            row = " + (r - b) * C * {size}" if self.in_blocks else ""
            self.at_row.append(f"{name} = p_{buffer.dtype}({place}{row.format(size=size)})")
        elif how[0] == "cyclic":
            period = self.argument(how[1])
            self.at_row.append(f"{name} = p_{buffer.dtype}({place} + r % {period} * C * {size})")
        elif how[0] == "strided":
            offset, step = self.argument(how[1] * size), self.argument(how[2] * size)
            self.at_row.append(f"{name} = p_{buffer.dtype}({place} + {offset} + r * {step})")
        elif how[0] == "gather":
            row = f"i8({how[2]}) % {self.argument(how[1])}"  # never outside, whatever the index
            self.at_row.append(f"{name} = p_{buffer.dtype}({place} + {row} * C * {size})")
        elif how[0] == "sum":
            row = f"r // {self.argument(how[1])} % {self.argument(how[2])}"
            self.at_row.append(f"{name} = p_{buffer.dtype}({place} + {row} * C * {size})")
        else:
            self.at_row.append(f"{name} = p_{buffer.dtype}({place} + r * C * {size})")
        return name

    # ----------------------------------------------------------------- values

    def operand(self, view: View, how: tuple, loop: _Loop | None) -> str:
        """The name of an operand, where a step of the group reads it."""
        buffer = view.buffer
        kind = self.group.kinds.get(buffer)
        if kind == "full":
            assert loop is not None
            return self.full(buffer, loop)
        if kind == "row":
            return self.names[buffer]
        if buffer.value is not None and buffer.size == 1:
            return _literal(buffer.dtype, buffer.value.reshape(()).item())
        if how[0] == "scalar" or (loop is None and how[0] == "full"):
            return self.single(buffer, how)
        if how[0] in ("row", "cyclic row", "index"):
            return self.single(buffer, how)
        assert loop is not None
        key = (buffer, how)
        if key not in loop.names:
            pointer = self.pointer(buffer, how)
            loop.names[key] = name = self.fresh("t")
            loop.lines.append(f"{name} = {_loaded(f'{pointer}[j]', buffer.dtype)}")
        return loop.names[key]

    def single(self, buffer: Buffer, how: tuple) -> str:
        """An operand that is one number for the whole row, or for all."""
        key = ("single", buffer, how)
        if key not in self.names:
            self.names[key] = name = self.fresh("s")
            place = f"p_{buffer.dtype}({self.address(buffer)})"
            if how[0] == "scalar":
                self.top.append(f"{name} = {_loaded(f'{place}[0]', buffer.dtype)}")
            else:
                row = f"r % {self.argument(how[1])}" if how[0] == "cyclic row" else "r"
                self.at_row.append(f"{name} = {_loaded(f'{place}[{row}]', buffer.dtype)}")
        return self.names[key]

    def full(self, buffer: Buffer, loop: _Loop) -> str:
        """A value of the group at column j."""
        if buffer in loop.names:
            return loop.names[buffer]
        if buffer in self.kept and self.first[buffer] < loop.stage:
            loop.names[buffer] = name = self.fresh("t")
            loaded = _loaded(f"{self.kept_in(buffer)}[j]", buffer.dtype)
            loop.lines.append(f"{name} = {loaded}")
            return name
        step = self.steps[buffer]
        text = self.text(step, loop)
        loop.names[buffer] = name = self.fresh("t")
        loop.lines.append(f"{name} = {text}")
        if buffer in self.kept and buffer not in self.outputs:
            loop.lines.append(f"{self.kept_in(buffer)}[j] = {_stored(name, buffer.dtype)}")
        return name

    def kept_in(self, buffer: Buffer) -> str:
        return self.pointer(self.kept[buffer], ("full",) if buffer in self.outputs else ("kept",))

    def text(self, step: Step, loop: _Loop | None) -> str:
        """The expression of a map."""
        pairs = zip(step.inputs, step.ways, strict=True)
        names: list[str] = []
        for view, how in pairs:
            if how[0] == "lookup":
                pointer = self.pointer(view.buffer, how)
                place = f"{pointer}[i8({names[0]}) % {self.argument(how[1])}]"
                assert loop is not None
                names.append(self.fresh("t"))
                loop.lines.append(f"{names[-1]} = {_loaded(place, view.buffer.dtype)}")
            else:
                how = (*how, names[0]) if how[0] == "gather" else how
                names.append(self.operand(view, how, loop))
        dtype = step.out.dtype
        if loop is not None and self.divides_by_one_number(step):
            return self.quotient(dtype, names[0], names[1], loop)
        if dtype == "u1" and step.inputs:
            dtype = step.inputs[0].buffer.dtype
        text = _Typed(_wide(dtype)).text(step.text.format(*names))
        if step.out.dtype in HALVES and not _keeps_halves(step):
            return f"round_{dtype}({text})"
        return f"{dtype}({text})" if dtype in ("i4", "i8") and step.out.dtype == dtype else text

    def divides_by_one_number(self, step: Step) -> bool:
        """True for x / w with a w that is the same all through the loop."""
        if step.text != "{0} / {1}" or step.out.dtype not in ("f4", "f8"):
            return False
        kinds = self.group.kinds
        inside, how = (kinds.get(step.inputs[1].buffer), step.ways[1])
        one = how[0] in ("scalar", "row", "cyclic row") if inside is None else inside == "row"
        return one and self.is_full(step.out)

    def quotient(self, dtype: str, x: str, w: str, loop: _Loop) -> str:
        """Such a quotient, by what is found out about w before the loop."""
        key = ("divisor", w)
        if key not in loop.names:
            loop.names[key] = parts = ", ".join(self.fresh("d") for _ in range(3))
            loop.before.append(f"{parts} = divisor_{dtype}({w})")
        return f"quotient_{dtype}({x}, {w}, {loop.names[key]})"

    # ----------------------------------------------------------------- the parts of the kernel

    def row_values(self, stage: int) -> list[str]:
        """What is computed once a row before loop `stage`."""
        lines = []
        for step in self.group.steps:
            if self.stage[step.out] != stage:
                continue
            if self.is_total_of_rows(step):
                lines.append(self.added(step, self.names[step.inputs[0].buffer]))
            if self.group.kinds[step.out] != "row":
                continue
            if step.kind == "map":
                self.names[step.out] = name = self.fresh("w")
                lines.append(f"{name} = {self.text(step, None)}")
            elif step.kind == "pick":
                lines += self.pick(step)
            if step.out in self.outputs and step.kind in ("map", "pick"):
                lines.append(self.store_row(step.out))
        return lines

    def is_total_of_rows(self, step: Step) -> bool:
        kinds = self.group.kinds
        return kinds[step.out] == "total" and kinds.get(step.inputs[0].buffer) == "row"

    def added(self, step: Step, value: str) -> str:
        """Add the value of a row to a total."""
        if step.out not in self.names:
            self.names[step.out] = name = self.fresh("w")
            self.top.append(f"{name} = {_literal(step.out.dtype, _START[step.kind], plain=True)}")
        name = self.names[step.out]
        return f"{name} = {_accumulate(step.kind, step.out.dtype, name, value)}"

    def store_row(self, buffer: Buffer) -> str:
        place = f"p_{buffer.dtype}({self.address(buffer)})[r]"
        return f"{place} = {_stored(self.names[buffer], buffer.dtype)}"

    def pick(self, step: Step) -> list[str]:
        """The element of a full value at this row's index: a loop of one column."""
        index = self.operand(step.inputs[1], step.ways[1], None)
        place, self.names[step.out] = self.fresh("k"), (name := self.fresh("w"))
        loop = _Loop(self.stage[step.out])
        value = self.operand(step.inputs[0], step.ways[0], loop)
        return [
            f"{place} = i8({index}) % C",
            f"{name} = {_literal(step.out.dtype, 0)}",
            *loop.before,
            f"for j in range({place}, {place} + 1):",
            *(f"    {line}" for line in loop.lines),
            f"    {name} = {value}",
        ]

    def column_loop(self, stage: int) -> list[str]:
        """Loop `stage`, with what starts and ends its reductions."""
        loop, before, after, ends = _Loop(stage), list[str](), list[str](), list[str]()
        inner_before: list[str] = []
        long = self.is_long()
        for step in self.targets(stage):
            kind = self.group.kinds[step.out]
            if kind == "full":
                name = self.full(step.out, loop)
                pointer = self.pointer(step.out, ("full",))
                loop.lines.append(f"{pointer}[j] = {_stored(name, step.out.dtype)}")
                continue
            value = self.operand(step.inputs[0], step.ways[0], loop)
            if kind == "sum":
                part = self.column_sum(step)
                sum_ = _accumulate(step.kind, step.out.dtype, f"{part}[j]", value)
                loop.lines.append(f"{part}[j] = {sum_}")
                continue
            total = self.fresh("w")
            if kind == "row":
                self.names[step.out] = total
            start = _literal(step.out.dtype, _START[step.kind], plain=True)
            before.append(f"{total} = {start}")
            if long and step.kind == "sum":
                part = self.fresh("w")
                inner_before.append(f"{part} = {start}")
                after.append(f"{total} = {_accumulate(step.kind, step.out.dtype, total, part)}")
            else:
                part = total
            if step.kind in ("max", "min") and step.out.dtype in ("f4", "f8"):
                loop.lines += self.extreme(step, total, value, before, ends)
            else:
                loop.lines.append(f"{part} = {_accumulate(step.kind, step.out.dtype, part, value)}")
            if kind == "total":
                ends.append(self.added(step, total))
        if not loop.lines:
            return []
        before += loop.before
        if self.group.is_flat:
            return [*before, "for j in range(lo, hi):", *_indented(loop.lines)]
        if not long:
            return [*before, "for j in range(C):", *_indented(loop.lines), *after, *ends]
        inner = [
            *inner_before,
            f"for j in range(b, min(b + {LONG}, C)):",
            *_indented(loop.lines),
            *after,
        ]
        return [*before, f"for b in range(0, C, {LONG}):", *_indented(inner), *ends]

    def extreme(
        self, step: Step, total: str, value: str, before: list[str], ends: list[str]
    ) -> list[str]:
        """An extreme that is nan if one element is: nans are counted, for that is vector code."""
        dtype, count = step.out.dtype, self.fresh("n")
        sign = "-" if step.kind == "min" else ""
        before[-1] = f"{total} = {dtype}(-np.inf)"
        before.append(f"{count} = {dtype}(0)")
        ends.append(f"{total} = {sign}{total} if {count} == {dtype}(0) else {dtype}(np.nan)")
        return [
            f"{total} = larger({total}, {sign}{value})",
            f"{count} = plus({count}, {dtype}(0) if {value} == {value} else {dtype}(1))",
        ]

    def is_long(self) -> bool:
        kinds = self.group.kinds
        sums = any(s.kind == "sum" and kinds[s.out] in ("row", "total") for s in self.group.steps)
        return sums and self.group.columns > LONG

    def column_sum(self, step: Step) -> str:
        """The pointer to the sums of this block of rows, or to the result."""
        if not self.is_blocked(step):
            return self.pointer(step.out, ("sum", step.more["each"], step.more["period"]))
        name = self.pointer(Buffer(step.out.dtype, step.out.size), ("column",))
        self.names["part", step.out] = name
        return name

    def is_blocked(self, step: Step) -> bool:
        """True if sums of blocks of rows are added up, for accuracy."""
        return step.kind == "sum" and step.more["period"] == 1

    def kernel(self) -> Kernel:
        group = self.group
        if not group.is_flat:
            self.arguments.append(group.columns)
            few = group.columns if group.columns <= FEW else "args[0]"
            self.top.append(f"C = {few}")
        n_stages = max(self.stage.values()) + 1
        self.keep_what_is_dear(n_stages)
        stages = [self.stage_lines(stage) for stage in range(n_stages)]
        stages[-1] += self.row_values(n_stages)
        rows = self.over_rows(stages)
        lines = [*self.top, *rows]
        head = "def kernel(slots, args, lo, hi, worker):\n    "
        # else LLVM adds exact products of float16, as it computes those in float16
        flag = "ROUNDS = True\n" if any(b.dtype == "f2" for b in group.kinds) else ""
        source = f"{_IMPORTS}\n{flag}\n{head}" + "\n    ".join(lines) + "\n"
        work = group.size if group.is_flat else group.rows
        splits = not {"sum", "total"} & set(group.kinds.values())
        return Kernel(source, self.arguments, work, group, splits)

    def stage_lines(self, stage: int) -> list[str]:
        """What is done with a row from one loop to the next."""
        lines = [*self.row_values(stage), *self.column_loop(stage)]
        for step in self.group.steps:  # reductions that are complete now
            ends = step.kind not in ("map", "pick") and self.group.kinds[step.out] == "row"
            if ends and self.stage[step.out] == stage + 1 and step.out in self.outputs:
                lines.append(self.store_row(step.out))
        return lines

    def over_rows(self, stages: list[list[str]]) -> list[str]:
        """The loop over the rows; sums over rows are made block by block."""
        if self.group.is_flat:
            return [line for lines in stages for line in lines]
        sums = [s for s in self.group.steps if self.group.kinds[s.out] == "sum"]
        before, zero, add = [], [], []
        for step in sums:
            out, total = step.out, self.pointer(step.out, ("column",))
            start = _literal(out.dtype, _START[step.kind], plain=True)
            n = f"{self.argument(step.more['period'])} * C" if step.more["period"] != 1 else "C"
            before += [f"for j in range({n}):", f"    {total}[j] = {_stored(start, out.dtype)}"]
            if self.is_blocked(step):
                part = self.names["part", out]
                zero.append(f"{part}[j] = {start}")
                add.append(f"{total}[j] += {part}[j]")
        after = [
            f"p_{s.out.dtype}({self.address(s.out)})[0] = {_stored(self.names[s.out], s.out.dtype)}"
            for s in self.group.steps if self.group.kinds[s.out] == "total"
        ]  # fmt: skip
        if not zero:
            return [*before, *self.rows_between("lo", "hi", stages), *after]
        block = [
            "for j in range(C):", *_indented(zero),
            *self.rows_between("q", f"min(q + {BLOCK_ROWS}, hi)", stages),
            "for j in range(C):", *_indented(add),
        ]  # fmt: skip
        return [*before, f"for q in range(lo, hi, {BLOCK_ROWS}):", *_indented(block), *after]

    @property
    def in_blocks(self) -> bool:
        """True if some rows go through one loop, then through the next.

        A loop over a short row takes as long as its longest chain of operations; those of several
        rows overlap.
        """
        loops = sum(bool(self.targets(stage)) for stage in set(self.stage.values()))
        return self.together > 1 and self.group.rows > 1 and loops > 1

    def rows_between(self, first: str, last: str, stages: list[list[str]]) -> list[str]:
        """The loops over these rows."""
        if not self.in_blocks:
            body = [line for lines in stages for line in lines]
            return [f"for r in range({first}, {last}):", *_indented([*self.at_row, *body])]
        self.top.append(f"n = {self.argument(self.together)}")
        parts = [stages[0]]
        for lines in stages[1:]:
            if any("for j" in line for line in lines):
                parts.append(lines)
            else:  # only values of rows
                parts[-1] = parts[-1] + lines
        lines = [f"end = min(b + n, {last})"]
        for i, part in enumerate(parts):
            loads, saves = self.carried(parts[:i], part, parts[i + 1 :])
            fetched = self.fetched(parts[0]) if i == 1 else []
            rows = [*self.at_row, *loads, *fetched, *part, *saves]
            lines += ["for r in range(b, end):", *_indented(rows)]
        return [f"for b in range({first}, {last}, n):", *_indented(lines)]

    def carried(
        self, before: list[list[str]], part: list[str], after: list[list[str]]
    ) -> tuple[list[str], list[str]]:
        """How the rows' values come into a loop over rows, and what is kept for later ones."""
        loads, saves = [], []
        made, used, later = (_words(parts) for parts in (before, [part], after))
        for buffer, kind in self.group.kinds.items():
            name = self.names.get(buffer, "")
            if kind != "row" or name not in used or name not in made | later:
                continue
            key = ("carried", buffer)
            if key not in self.names:
                self.names[key] = self.pointer(Buffer(buffer.dtype, self.together), ("column",))
            place = f"{self.names[key]}[r - b]"
            if name in made:
                loads.append(f"{name} = {_loaded(place, buffer.dtype)}")
            else:
                saves.append(f"{place} = {_stored(name, buffer.dtype)}")
        return loads, saves

    def fetched(self, first: list[str]) -> list[str]:
        """Meanwhile the next rows that the first loop reads are brought into the cache."""
        lines = []
        for key, name in list(self.names.items()):
            if not (isinstance(key, tuple) and key[0] == "pointer" and key[2] == ("full",)):
                continue
            buffer = key[1]
            if buffer not in self.group.kinds and name in _words([first]):
                size = SIZES[buffer.dtype]
                row = f"{self.address(buffer)} + (r + n) * C * {size}"
                lines.append(f"for j in range(0, C, {64 // size}):")
                lines.append(f"    prefetch({row} + j * {size})")
        return lines


_IMPORTS = "import numpy as np\nfrom minispore.engine.kernels.vector import *"


def _words(bodies: list[list[str]]) -> set[str]:
    """The names in some lines."""
    return set(re.findall(r"\w+", "\n".join(line for lines in bodies for line in lines)))


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@functools.cache
def _calls_functions(text: str) -> bool:
    """True if a map's expression calls a function that takes time."""
    tree = ast.walk(ast.parse(text.format("a", "b", "c"), mode="eval"))
    called = {n.func.id for n in tree if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return any(not name.startswith(("cast_", "i4")) for name in called - _CHEAP)


def _wide(dtype: str) -> str:
    """The type in which values of a type are computed."""
    return "f4" if dtype in HALVES else dtype


def _keeps_halves(step: Step) -> bool:
    """True if a step gives one of its operands, or its negative: it needs no rounding."""
    same = all(v.buffer.dtype in (step.out.dtype, "u1") for v in step.inputs)
    return same and not _calculates(step.text)


@functools.cache
def _calculates(text: str) -> bool:
    """True if an expression does more than choose and change signs."""
    tree = [*ast.walk(ast.parse(text.format("a", "b", "c"), mode="eval"))]
    called = {getattr(n.func, "id", "") for n in tree if isinstance(n, ast.Call)}
    operators = any(isinstance(n, ast.BinOp) for n in tree)
    return operators or not called <= {"abs", "maximum", "minimum"}


def _loaded(text: str, dtype: str) -> str:
    if dtype in HALVES:
        return f"load_{dtype}({text})"
    return f"{text} != 0" if dtype == "u1" else text


def _stored(text: str, dtype: str) -> str:
    if dtype in HALVES:
        return f"store_{dtype}({text})"
    return f"u1({text})" if dtype == "u1" else text


def _literal(dtype: str, value: object, plain: bool = False) -> str:
    """A constant of a type."""
    dtype = _wide(dtype)
    if dtype == "u1":
        return repr(bool(int(value)))  # type: ignore[call-overload]
    text = str(value) if plain else repr(value)
    if text in ("inf", "-inf", "nan"):
        text = f"np.{text}" if not text.startswith("-") else "-np.inf"
    return f"{dtype}({text})"


def _accumulate(kind: str, dtype: str, total: str, value: str) -> str:
    if kind == "sum":  # of floats in any order, without which it does not become vector code
        return f"plus({total}, {value})" if dtype in FLOATS else f"{total} + {value}"
    if kind in ("all", "any"):
        return f"{total} {'and' if kind == 'all' else 'or'} {value}"
    name = "larger" if kind == "larger" else f"{kind}imum_{dtype}"
    return f"{name}({total}, {value})"


class _Typed(ast.NodeTransformer):
    """An expression of the op table with constants and functions of one type."""

    def __init__(self, dtype: str):
        self.dtype = dtype

    def text(self, text: str) -> str:
        return ast.unparse(self.visit(ast.parse(text, mode="eval")).body)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, bool) or self.dtype == "u1":
            return ast.Constant(bool(node.value))
        return ast.parse(f"{self.dtype}({node.value!r})", mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in ("f4", "f8", "i4", "i8"):
            return node
        args = [self.visit(a) for a in node.args]
        if name == "cast_u1":
            return ast.Compare(args[0], [ast.NotEq()], [ast.Constant(0)])
        if name.startswith("cast_"):
            return ast.Call(ast.Name(_wide(name.removeprefix("cast_"))), args, [])
        known = _WORDS.get(name, f"{name}_{self.dtype}")
        if name == "abs" and self.dtype not in ("f4", "f8"):
            known = "abs"
        return ast.Call(ast.Name(known), args, [])


__all__ = ["Kernel", "emit"]
