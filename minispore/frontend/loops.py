"""Loops: unrolled where constants decide, kept as a While where tensors do.

The carry of a While is what the loop's body writes (carry.py).  A value whose type changes once
peels one iteration.  A body that may break or return carries an exit code too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from minispore.abstract import AbstractScalar
from minispore.autodiff.nodes import unread_node
from minispore.frontend.carry import Carry, Returned, mutable
from minispore.frontend.control import as_value, branch, choose, go_on_if, is_code, truth
from minispore.frontend.exits import (
    BREAK,
    CONTINUE,
    GO_ON,
    RAISE,
    RETURN,
    Arm,
    Condition,
    Exit,
    Peel,
)
from minispore.frontend.heap import END, Env, Region, Trial, WhileNode
from minispore.ir.node import Node, Origin, ValueNode
from minispore.symbolic import Scalar, constant_node, scalar_op
from minispore.tensor import Tensor

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

LONGEST = 100_000  # iterations of a constant loop that needs its constants
ROUNDS = 200  # evaluations of a body until what it writes must be stable
_LOOP = "a loop that a Tensor decides"
ENDLESS = 200  # the same of a `while` that ends only if a Tensor says so


@dataclass
class Loop:
    """A loop: the test before each iteration, what binds its target, its body, its else block."""

    test: Callable[[], Condition]
    step: Callable[[], None]
    body: Arm
    orelse: Arm
    rest: Arm | None  # the rest of the block, if it is run where the loop ends; see end
    name: str
    key: int  # which statement it is
    origin: Origin
    trip_count: Callable[[], int | None] = lambda: None

    def end(self, ev: Evaluator) -> Exit:
        """The loop has come to its end: its else block, and the rest of the block around it."""
        exit = self.orelse()
        return exit if self.rest is None else go_on_if(ev, exit, self.rest)


def while_loop(ev: Evaluator, node: ast.While, rest: Arm | None) -> Exit:
    """A ``while`` statement, and the rest of the block if that is given."""
    blocks = (lambda: ev.block(node.body)), (lambda: ev.block(node.orelse)), rest
    test, step = (lambda: ev.truth_of(node.test)), (lambda: None)
    return run_loop(ev, Loop(test, step, *blocks, "while", id(node), ev.origin))


@dataclass
class SymbolicRange:
    """A ``range`` of which a bound is known only at run time."""

    start: Any
    stop: Any
    step: int


def for_loop(ev: Evaluator, node: ast.For, iterable: Any, rest: Arm | None) -> Exit:
    """A ``for`` statement: over a range or Tensor it counts, over anything else it is unrolled."""
    counter = ev.born(Env())
    blocks = (lambda: ev.block(node.body)), (lambda: ev.block(node.orelse)), rest
    if not isinstance(iterable, (range, SymbolicRange, Tensor)):
        return _over_items(ev, node, iterable, blocks)
    over = iterable
    if isinstance(over, Tensor):
        over = ev.call(range, [ev.call(len, [over], {})], {})
    start, stop, step = over.start, over.stop, over.step
    counter.slots["i"] = start

    def test() -> Condition:
        i = counter.slots["i"]
        return truth(ev, i < stop if step > 0 else i > stop)

    def bind() -> None:
        i = counter.slots["i"]
        ev.assign(node.target, iterable[i] if isinstance(iterable, Tensor) else i)
        ev.region.touch(counter)
        counter.slots["i"] = i + step

    def trip_count() -> int | None:
        i = counter.slots["i"]
        whole = isinstance(i, int) and isinstance(stop, int)
        return len(range(i, stop, step)) if whole else None

    return run_loop(ev, Loop(test, bind, *blocks, "for", id(node), ev.origin, trip_count))


def _over_items(
    ev: Evaluator, node: ast.For, iterable: Any, blocks: tuple[Arm, Arm, Arm | None]
) -> Exit:
    """A ``for`` statement over items that are known one by one."""
    it = ev.iterator(iterable)
    found = ev.born(Env())

    def more() -> bool:
        ev.at(node.iter)
        ev.region.touch(found)
        found.slots["item"] = it.advance()
        return found.slots["item"] is not END

    bind = lambda: ev.assign(node.target, found.slots["item"])  # noqa: E731
    return unroll(ev, Loop(more, bind, *blocks, "for", id(node), ev.origin))


def unroll(ev: Evaluator, loop: Loop) -> Exit:
    """Run a loop whose iterations are all known."""
    while True:
        if not loop.test():
            return loop.end(ev)
        loop.step()
        exit = loop.body()
        if not exit.may <= {GO_ON, CONTINUE}:
            return after(ev, exit, lambda: unroll(ev, loop))


def run_loop(
    ev: Evaluator, loop: Loop, count: int = 0, peeled: bool = False, left: bool = False
) -> Exit:
    """Run a loop: unrolled while constants decide, kept as a While where tensors do.

    `count` iterations are done; `peeled`: one because the carry changed its type; `left`: a Tensor
    could leave the loop in one.
    """
    nodes = len(ev.home)
    while True:
        with Trial(ev.region) as trial:
            condition = loop.test()
            if isinstance(condition, bool):
                trial.kept = True
        if condition is False:
            return loop.end(ev)
        if isinstance(condition, Node):
            return _keep(ev, loop, count, peeled)
        if _is_worth_keeping(ev, loop, count, left, len(ev.home) > nodes):
            try:
                with Trial(ev.region) as trial, ev.keeping_loop():
                    end = _LoopBuilder(ev, loop).run()
                    trial.kept = True
            except Exception as why:  # an error of the program's own is found when unrolling
                if count > (ENDLESS if left and loop.trip_count() is None else LONGEST):
                    raise _refusal(why) from None
            else:
                ev.kept.add(loop.key)
                return end()
        loop.step()
        exit = loop.body()
        count += 1
        if not exit.may <= {GO_ON, CONTINUE}:
            return after(ev, exit, partial(run_loop, ev, loop, count, peeled, True))


def _keep(ev: Evaluator, loop: Loop, count: int, peeled: bool) -> Exit:
    """Run a loop of which a Tensor decides the next iteration: as a While, or after peeling one."""
    try:
        with Trial(ev.region) as trial:  # effects in its condition come before the loop
            end = _LoopBuilder(ev, loop, peeled).run()
            trial.kept = True
        return end()
    except Peel as why:
        if peeled:
            ev.frame.where = loop.origin.where or ev.frame.where
            raise _refusal(why) from None
        return _peel(ev, loop, count)


def _is_worth_keeping(ev: Evaluator, loop: Loop, count: int, left: bool, computes: bool) -> bool:
    """Whether to try a loop, of which constants decide the next iteration, as a While."""
    if count & (count - 1):
        return False
    if not (computes or left):
        return count >= LONGEST // 16
    return count >= (1 if left else 2 if loop.key in ev.kept else ev.unrolled)


def _refusal(why: Exception) -> Exception:
    return why.refusal(_LOOP) if isinstance(why, Peel) else why


def _peel(ev: Evaluator, loop: Loop, count: int) -> Exit:
    """Run one iteration before the loop; the rest may not need peeling again."""
    inner, condition = replace(loop, rest=None), loop.test()
    assert isinstance(condition, Node)

    def once() -> Exit:
        loop.step()
        return after(ev, loop.body(), lambda: run_loop(ev, inner, count + 1, True))

    exit = branch(ev, condition, [once, loop.orelse])
    return exit if loop.rest is None else go_on_if(ev, exit, loop.rest)


def after(ev: Evaluator, exit: Exit, go: Arm) -> Exit:
    """What follows one iteration: the next one, unless the body left the loop."""
    if exit.may <= {GO_ON, CONTINUE}:
        return go()
    if not exit.may & {GO_ON, CONTINUE}:
        return _end_break(exit)
    left = exit.without(GO_ON, CONTINUE)
    return branch(ev, _runs_on(exit), [go, lambda: _end_break(left)])


def _runs_on(exit: Exit) -> Node:
    """The condition that the loop goes on after an iteration with this exit."""
    picks = [code in (GO_ON, CONTINUE) for code in range(5)]
    return scalar_op("ScalarPick", exit.code, *picks).node


def _end_break(exit: Exit) -> Exit:
    """An exit seen from outside the loop: break is over."""
    if BREAK not in exit.may:
        return exit
    may = (exit.may - {BREAK}) | {GO_ON}
    if len(may) == 1:
        return Exit(GO_ON)
    codes = [GO_ON, GO_ON, CONTINUE, RETURN, RAISE]
    return Exit(scalar_op("ScalarPick", exit.code, *codes), exit.value, may)


class _LoopBuilder:
    """Turns a loop into a WhileNode: evaluates the body until the carry is stable."""

    def __init__(self, ev: Evaluator, loop: Loop, peeled: bool = False):
        self.ev, self.loop = ev, loop
        self.carry = Carry(ev, _LOOP, peeled)
        self.code_carried = False
        self.result = Returned(self.carry, _LOOP)  # if the body returns
        self.flag: Env | None = None  # holds the condition of a rotated loop

    def run(self) -> Arm:
        """Build the loop; what is returned runs what follows it."""
        for _ in range(ROUNDS):
            owner, exit = self.evaluate()
            if exit is not None:
                return self.finish(owner, exit)
        raise TypeError(f"the types of what {self.carry.what} writes do not settle")

    # ----------------------------------------------------------------- one evaluation

    def evaluate(self) -> tuple[WhileNode, Exit | None]:
        """Evaluate condition and body once; the exit, or None if the carry was not stable yet."""
        ev = self.ev
        ev.origin = self.loop.origin
        region = Region(ev.region, "loop", self.loop.name, ev.origin)
        owner = WhileNode(ev.region, ev.origin, region)
        region.owner = owner
        owner.trip_count = self.loop.trip_count()
        owner.more = self.carry.nodes()
        with ev.within(region, keeps=False):
            self.carry.enter(region)
            code = self.enter_code(owner)
            condition = self.condition(region, code)
            if condition is None:
                return owner, None
            owner.condition = ev.node_of(as_value(condition))
            self.loop.step()
            exit = self.body()
            grew = self.carry.grow(region.changes(ev.births))
            if self.leaves(exit) or grew:
                return owner, None
            owner.results = self.next_carry(exit)
        return owner, exit

    def enter_code(self, owner: WhileNode) -> Scalar | None:
        """The exit code and the returned value are carried too, if the body can leave."""
        if not self.code_carried:
            return None
        owner.more.append(constant_node(GO_ON))
        code = self.carry.parameter("exit", AbstractScalar(int))
        for a in self.result.abstracts:
            owner.more.append(unread_node(a))
            self.carry.parameter("result", a)
        return Scalar(code)

    def condition(self, region: Region, code: Scalar | None) -> Condition | None:
        """The loop's condition; None if it has effects and the loop must be rotated first."""
        test = self.test
        if code is None:
            condition = test()
        else:
            go = is_code(self.ev, code, GO_ON)
            arms = [lambda: as_value(test()), lambda: False]
            condition = truth(self.ev, choose(self.ev, go, arms))
        wrote = [
            i
            for i, (obj, old, now) in region.changes(self.ev.births).items()
            if any(now.get(k) is not v for k, v in self.entered(obj, old).items())
            or now.keys() - old.keys()  # a name that := makes
        ]
        if wrote and self.flag is None:
            self.rotate()
            return None
        return condition

    def entered(self, obj: Any, old: dict) -> dict:
        """What a carried object held when the condition was evaluated."""
        carried = {slot for i, slot in [*self.carry.slots, *self.carry.lost] if i == id(obj)}
        return {k: v for k, v in old.items() if k not in carried}

    def test(self) -> Condition:
        if self.flag is None:
            return self.loop.test()
        return truth(self.ev, self.flag.slots["go"])

    def rotate(self) -> None:
        """A condition with effects: evaluate it before the loop, and at the end of the body."""
        region, self.ev.region = self.ev.region, self.ev.region.parent  # type: ignore[assignment]
        region.roll_back(self.ev.births)
        region.journal.clear()
        self.flag = self.ev.born(Env())
        first = self.loop.test()
        self.flag.slots["go"] = as_value(first)
        self.ev.region = region
        self.carry.slots.clear()

    def body(self) -> Exit:
        exit = self.loop.body()
        if self.flag is None or not exit.may & {GO_ON, CONTINUE}:
            return exit

        def again() -> Exit:
            assert self.flag is not None
            value = as_value(self.loop.test())
            self.ev.region.touch(self.flag)
            self.flag.slots["go"] = value
            return Exit(GO_ON)

        if exit.may <= {GO_ON, CONTINUE}:
            return again()
        left = exit.without(GO_ON, CONTINUE)
        return branch(self.ev, _runs_on(exit), [again, lambda: left])

    def leaves(self, exit: Exit) -> bool:
        """Carry an exit code, and the result, if the body can leave; True if that is new."""
        if exit.may <= {GO_ON, CONTINUE}:
            return False
        new = not self.code_carried
        self.code_carried = True
        return (RETURN in exit.may and self.result.note(exit.value)) or new

    def next_carry(self, exit: Exit) -> list[Node]:
        ev = self.ev
        out = self.carry.nodes()
        if not self.code_carried:
            return out
        codes = [GO_ON, BREAK, GO_ON, RETURN, RAISE]
        code = exit.code
        code = scalar_op("ScalarPick", code, *codes) if isinstance(code, Scalar) else codes[code]
        out.append(ev.node_of(code))
        if RETURN in exit.may:
            out += map(ev.node_of, self.result.leaves(exit.value))
        return out

    # ----------------------------------------------------------------- after the loop

    def finish(self, owner: WhileNode, exit: Exit) -> Arm:
        """Give the carried slots the loop's results, and say how the loop was left."""
        ev = self.ev
        ev.origin = self.loop.origin
        if self.code_carried or self.flag is not None:
            owner.trip_count = None
        abstracts = [a for c in self.carry.slots.values() for a in c.abstracts]
        self.carry.leave(ev.wrap_out(owner, k, a) for k, a in enumerate(abstracts))
        end = partial(self.loop.end, self.ev)
        return partial(self.left, owner, exit, len(abstracts), end) if self.code_carried else end

    def left(self, owner: WhileNode, exit: Exit, k: int, end: Arm) -> Exit:
        """Tell by the exit code how the loop was left."""
        ev = self.ev
        code = ev.wrap_out(owner, k, AbstractScalar(int))
        outs = [ev.wrap_out(owner, k + 1 + i, a) for i, a in enumerate(self.result.abstracts)]
        value = self.result.value(outs) if RETURN in exit.may else None
        ev.frame.pending.update(map(id, mutable(value)))
        ended = is_code(ev, code, GO_ON)  # the condition became false: the else block runs
        may = (exit.may & {BREAK, RETURN}) - {GO_ON}
        if not may:
            return end()
        broken = Exit(next(iter(may)) if len(may) == 1 else code, value, may)
        if isinstance(owner.condition, ValueNode) or self.endless(owner):
            return _end_break(broken)
        assert isinstance(ended, Node)
        return branch(ev, ended, [end, lambda: _end_break(broken)])

    def endless(self, owner: WhileNode) -> bool:
        """True for ``while True``: it ends by break or return only."""
        with Trial(self.ev.region):
            return self.loop.test() is True and self.loop.trip_count() is None
