"""The table of a segment: from steps to kernels, and jumps between them.

A step that is a loop (control.py) becomes

       0  carry = kernel(...)              its start values
       1  unless enter jump 4
       2  carry again = kernel(carry ...)  its body, and the test for the next turn
       3  if again jump 2
       4  ...

Next values are written where the old ones were, if nothing needs these any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from minispore.engine import own
from minispore.engine.emit import Kernel, emit
from minispore.engine.fuse import Group, group
from minispore.engine.join import joined
from minispore.engine.layout import Buffer, View
from minispore.engine.lower import Step
from minispore.engine.order import Bundle, ordered

Pair = tuple[Buffer, Buffer]  # a value that goes round a loop, and the next one


@dataclass
class Row:
    """A row of the table: a kernel, or a jump to the row `target`.

    A jump with a `flag` is taken if that is `when`.
    """

    kernel: Kernel | None = None
    target: int = 0
    flag: Buffer | None = None
    when: bool = False
    part: tuple[int, int] = (0, 1)  # of the kernel's work: number, of how many


def copy_step(source: Buffer, target: Buffer) -> Step:
    """A step that copies a buffer."""
    view = View(source, (source.size,))
    return Step("map", [view], target, 1, target.size, ways=[("full",)], text="{0}", is_flat=True)


class Rows:
    """A table in the making: its `rows` so far."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.loops = 0  # that are open
        self.start = 0  # jumps lead here: what follows is not joined to what was before

    def add(
        self, steps: Iterable[Step], needed: set[Buffer], pairs: Sequence[Pair] = (),
        first: Collection[Buffer] = (),
    ) -> None:  # fmt: skip
        """The rows of steps, of which the buffers `needed` are used elsewhere; those of `pairs`
        share memory where they may, and where all of `first` are known before.
        """
        outside = set(needed)
        groups = group(_used(steps, needed), needed)
        home = {b: g for g in groups for b in g.kinds}
        for g in groups:
            for step in g.steps:
                needed |= {v.buffer for v in step.inputs if home.get(v.buffer, g) is not g}
        order = ordered(groups, _wishes(groups, pairs, first))
        settle(order, pairs, first)
        if not self.loops:
            take_over(order, outside)
        for bundle, parts in order:
            head = bundle[0].steps[0]
            if head.kind in ("while", "switch"):
                self.loop(head) if head.kind == "while" else self.branch(head)
                continue
            made = [_kernel(g, needed) for g in bundle]
            if parts == 1:
                for kernel in made:
                    self.call(kernel)
            else:
                self.rows += [Row(k, part=(i, parts)) for i in range(parts) for k in made]
                self.start = len(self.rows)

    def call(self, kernel: Kernel) -> None:
        """A row for a kernel; in a loop it may be one with the row before."""
        if self.loops and len(self.rows) > self.start:
            before = self.rows[-1].kernel
            both = before and joined(before, kernel)
            if both:
                self.rows[-1] = Row(both)
                return
        self.rows.append(Row(kernel))

    def jump(self, **more: object) -> Row:
        """A jump; its target may be set later."""
        self.rows.append(Row(**more))  # type: ignore[arg-type]
        return self.rows[-1]

    def here(self) -> int:
        """The number of the next row, to which jumps lead."""
        self.start = len(self.rows)
        return self.start

    def loop(self, step: Step) -> None:
        """A While."""
        carry, nexts, again = (step.more[k] for k in ("outs", "nexts", "again"))
        self.move(list(zip(carry, step.more["starts"], strict=False)))
        leave = self.jump(flag=step.more["enter"])
        turn = self.here()
        self.loops += 1
        pairs = list(zip(carry, nexts, strict=False))  # a loop that carries nothing has one `out`
        self.add(step.more["turn"], {*nexts, again}, pairs)
        self.move(pairs)
        self.loops -= 1
        self.jump(flag=again, when=True, target=turn)
        leave.target = self.here()

    def branch(self, step: Step) -> None:
        """A Switch: the graphs one after the other, each behind its test."""
        tests, arms, outs = (step.more[k] for k in ("tests", "arms", "outs"))
        ends = []
        for number, (steps, results) in enumerate(zip(arms, step.more["results"], strict=True)):
            skip = self.jump(flag=tests[number]) if number < len(tests) else None
            made = {b for s in steps for b in s.outs if b.at is None}
            for out, result in zip(outs, results, strict=False):
                if result in made and results.count(result) == 1:
                    result.at = out
            self.add(steps, set(results))
            self.move(list(zip(outs, results, strict=False)))
            if skip is not None:
                ends.append(self.jump())
                skip.target = self.here()
        for row in ends:
            row.target = self.here()

    def move(self, pairs: Sequence[Pair]) -> None:
        """Copies, as if all were made at once: to the first of each pair from the second."""
        for target, source in _in_turn([p for p in pairs if p[0].home is not p[1].home]):
            self.add([copy_step(source, target)], {target})


def _used(steps: Iterable[Step], needed: set[Buffer]) -> list[Step]:
    """Steps without those that only a Check would tell of, if it failed."""
    read, kept = set(needed), list[Step]()
    for step in reversed([*steps]):
        if step.kind in ("while", "switch") or not read.isdisjoint(step.outs):
            kept.append(step)
            read |= {v.buffer for v in step.inputs}
    return kept[::-1]


def _in_turn(pairs: list[Pair]) -> Iterator[Pair]:
    """Copies in an order in which none destroys what another one reads."""
    while pairs:
        read = [source.home for _, source in pairs]
        free = next((p for p in pairs if p[0].home not in read), None)
        if free is None:  # they go round: one is put aside
            target, source = pairs.pop()
            aside = Buffer(source.dtype, source.size)
            yield aside, source
            pairs.append((target, aside))
        else:
            pairs.remove(free)
            yield free


def _kernel(g: Group, needed: set[Buffer]) -> Kernel:
    return own.kernel(g) if g.steps[0].gives == "own" else emit(g, needed)


# ------------------------------------------------------------------------------- in place


def _wishes(
    groups: Sequence[Group], pairs: Sequence[Pair], first: Collection[Buffer]
) -> Iterator[tuple[Group, Group]]:
    """What makes a new value should come after all that read the old one, and what is `first`."""
    writer = {b: g for g in groups for b in g.kinds}
    for old, new in pairs:
        for g in groups if new in writer else ():
            reads = any(v.buffer is old for s in g.steps for v in s.inputs)
            if g is not writer[new] and (reads or not g.kinds.keys().isdisjoint(first)):
                yield writer[new], g


def settle(
    order: Sequence[tuple[Bundle, int]], pairs: Sequence[Pair], first: Collection[Buffer] = ()
) -> None:
    """Let new values take over the memory of those that they replace, where they may: where all
    that read the old one have run, or are the very elements that make the new one.
    """
    number = {g: i for i, (bundle, _) in enumerate(order) for g in bundle}
    writer = {b: g for g in number for b in g.kinds}
    news = [new for _, new in pairs]
    for old, new in pairs:
        g = writer.get(new)
        if g is None or new.at is not None or news.count(new) > 1 or old in news:
            continue
        readers = {h for h in number for s in h.steps for v in s.inputs if v.buffer is old}
        before = (readers - {g}) | {writer[b] for b in first}
        if any(number[h] >= number[g] for h in before):
            continue
        if g not in readers or _reads_before_writing(g, old, new):
            new.at = old


def take_over(order: Sequence[tuple[Bundle, int]], outside: Collection[Buffer]) -> None:
    """Let values be written over others that are read for the last time where they are made: less
    memory, and fewer caches' lines.  What is used `outside` has memory of its own.
    """
    last = {
        v.buffer: i
        for i, (bundle, _) in enumerate(order)
        for g in bundle for s in g.steps for v in s.inputs
    }  # fmt: skip
    made: set[Buffer] = set()  # here, and not written over yet
    for i, (bundle, _) in enumerate(order):
        g = bundle[0]
        read = [v.buffer for s in g.steps for v in s.inputs if v.buffer in made]
        for new in g.kinds if len(bundle) == 1 and g.steps[0].gives != "own" else ():
            if new in outside or new.at is not None or last.get(new, i) == i:
                continue  # it needs no memory, or has some
            ends = (b for b in read if last[b] == i and b in made)
            old = next((b for b in ends if _reads_before_writing(g, b, new)), None)
            if old is not None:
                new.at = old
                made.remove(old)
        made |= {b for h in bundle for b in h.kinds if b not in outside}


def _reads_before_writing(g: Group, old: Buffer, new: Buffer) -> bool:
    """True if each element of `new` is written after that of `old` was read for the last time."""
    head = g.steps[0]
    if head.kind == "put":
        return all(v.buffer is not old for v in head.inputs[1:])
    ends = any(s.kind != "map" and g.kinds[s.out] == "row" for s in g.steps)  # a loop; see emit
    if ends or g.kinds[new] != "full" or (old.size, old.dtype) != (new.size, new.dtype):
        return False
    reads = [
        how[0] for s in g.steps for v, how in zip(s.inputs, s.ways, strict=True) if v.buffer is old
    ]
    if not {"full", "scalar"}.issuperset(reads) or ("scalar" in reads and g.size > 1):
        return False
    # what makes the new value reads the old one itself: then it is in a register from there on
    makers = {s.out: s for s in g.steps}
    todo, seen = [new], {new}
    while todo:
        for view in makers[todo.pop()].inputs:
            if view.buffer is old:
                return True
            if view.buffer in makers and view.buffer not in seen:
                seen.add(view.buffer)
                todo.append(view.buffer)
    return False


__all__ = ["Row", "Rows", "copy_step"]
