"""Loops: unrolled where constants decide, kept as a While where tensors do.

The carry of a While is what the loop's body writes.  It is found by evaluating the body until
nothing new is written: a constant that changes rises to a Scalar, a value whose type changes once
peels one iteration.  A body that may break or return carries an exit code too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from minispore.abstract import Abstract, AbstractScalar
from minispore.autodiff.nodes import zero_node
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
    kind_of,
    mark,
    type_name,
)
from minispore.frontend.heap import (
    END,
    UNSET,
    Closure,
    Conflict,
    Env,
    Region,
    Unset,
    WhileNode,
    World,
    read_slots,
    write_slots,
)
from minispore.ir.node import Node, Origin, ParameterNode, ValueNode
from minispore.symbolic import Scalar, constant_node, scalar_op, wrap
from minispore.tensor import Tensor
from minispore.tree import (
    Constant,
    Container,
    Leaf,
    Structure,
    constant_key,
    flatten,
    unflatten,
)

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

LONGEST = 100_000  # iterations of a constant loop that needs its constants
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
    return run_loop(
        ev,
        Loop(
            lambda: ev.truth_of(node.test), lambda: None, lambda: ev.block(node.body),
            lambda: ev.block(node.orelse), rest, "while", id(node), ev.origin,
        ),
    )  # fmt: skip


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
    over = range(len(iterable)) if isinstance(iterable, Tensor) else iterable
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
        with _Trial(ev) as trial:
            condition = loop.test()
            if isinstance(condition, bool):
                trial.keep()
        if condition is False:
            return loop.end(ev)
        if isinstance(condition, Node):
            try:
                with _Trial(ev) as trial:  # a loop with effects in its condition begins before it
                    end = _keep_loop(ev, loop, peeled)
                    trial.keep()
                return end()
            except Peel as why:
                if peeled:
                    raise TypeError(f"a loop that a Tensor decides changes {why}") from None
                return _peel(ev, loop, count)
        if _is_worth_keeping(ev, loop, count, left, len(ev.home) > nodes):
            try:
                with _Trial(ev) as trial, ev.keeping_loop():
                    end = _keep_loop(ev, loop)
                    trial.keep()
            except Exception as why:  # an error of the program's own is found when unrolling
                if count > (ENDLESS if left and loop.trip_count() is None else LONGEST):
                    raise _too_long(why) from None
            else:
                ev.kept.add(loop.key)
                return end()
        loop.step()
        exit = loop.body()
        count += 1
        if not exit.may <= {GO_ON, CONTINUE}:
            return after(ev, exit, partial(run_loop, ev, loop, count, peeled, True))


def _is_worth_keeping(ev: Evaluator, loop: Loop, count: int, left: bool, computes: bool) -> bool:
    """Whether to try a loop, of which constants decide the next iteration, as a While."""
    if count & (count - 1):
        return False
    if not (computes or left):
        return count >= LONGEST // 16
    return count >= (1 if left else 2 if loop.key in ev.kept else ev.unrolled)


def _too_long(why: Exception) -> Exception:
    return (
        TypeError(f"a loop that a Tensor decides changes {why}") if isinstance(why, Peel) else why
    )


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
        return _end_break(ev, exit)
    left = exit.without(GO_ON, CONTINUE)
    return branch(ev, _runs_on(ev, exit), [go, lambda: _end_break(ev, left)])


def _runs_on(ev: Evaluator, exit: Exit) -> Node:
    """The condition that the loop goes on after an iteration with this exit."""
    picks = [code in (GO_ON, CONTINUE) for code in range(5)]
    return scalar_op("ScalarPick", exit.code, *picks).node


def _end_break(ev: Evaluator, exit: Exit) -> Exit:
    """An exit seen from outside the loop: break is over."""
    if BREAK not in exit.may:
        return exit
    may = (exit.may - {BREAK}) | {GO_ON}
    if len(may) == 1:
        return Exit(GO_ON)
    codes = [GO_ON, GO_ON, CONTINUE, RETURN, RAISE]
    return Exit(scalar_op("ScalarPick", exit.code, *codes), exit.value, may)


class _Trial:
    """Evaluates something whose writes may have to be undone, in the same region."""

    def __init__(self, ev: Evaluator):
        self.ev, self.kept = ev, False

    def __enter__(self) -> _Trial:
        self.region = self.ev.region
        self.saved, self.region.journal = self.region.journal, {}
        return self

    def keep(self) -> None:
        self.kept = True

    def __exit__(self, *error: Any) -> None:
        new = self.region.journal
        if not self.kept:
            for obj, slots in new.values():
                write_slots(obj, slots)
        else:
            for i, entry in new.items():
                self.saved.setdefault(i, entry)
        self.region.journal = self.saved


@dataclass
class _Carried:
    """A slot that the loop's body writes: its leaves are carried, its structure is fixed."""

    obj: Any
    slot: Any
    structure: Structure
    abstracts: list[Abstract]
    name: str
    raw: bool = False  # the slot holds a node, not a Tensor (a Tensor's content, the Token)
    olds: list[list[Tensor]] = field(default_factory=list)  # per leaf: older Tensors it may be


def _keep_loop(ev: Evaluator, loop: Loop, peeled: bool = False) -> Arm:
    return _LoopBuilder(ev, loop, peeled).run()


class _LoopBuilder:
    """Turns a loop into a WhileNode: evaluates the body until the carry is stable."""

    def __init__(self, ev: Evaluator, loop: Loop, peeled: bool):
        self.ev, self.loop, self.peeled = ev, loop, peeled
        self.carry: dict[tuple[int, Any], _Carried] = {}
        self.lost: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}  # what cannot be carried
        self.code_carried = False
        self.result: _Carried | None = None  # the returned value, if the body returns
        self.vanish: dict[tuple[int, Any], tuple[Any, Any]] = {}
        self.flag: Env | None = None  # holds the condition of a rotated loop

    def run(self) -> Arm:
        """Build the loop; what is returned runs what follows it."""
        while True:
            owner, exit = self.evaluate()
            if exit is not None:
                return self.finish(owner, exit)

    # ----------------------------------------------------------------- one evaluation

    def evaluate(self) -> tuple[WhileNode, Exit | None]:
        """Evaluate condition and body once; the exit, or None if the carry was not stable yet."""
        ev = self.ev
        ev.origin = self.loop.origin
        region = Region(ev.region, "loop", self.loop.name, ev.origin)
        owner = WhileNode(ev.region, ev.origin, region)
        region.owner = owner
        owner.trip_count = self.loop.trip_count()
        for c in self.carry.values():
            value = read_slots(c.obj)[c.slot]
            owner.init += [value] if c.raw else [ev.node_of(v) for v in _leaves(value)[0]]
        with ev.within(region, keeps=False):
            self.region = region
            entered = [(c, self.enter(region, c)) for c in self.carry.values()]
            for c, value in entered:
                self.note_alternatives(c, value)
            for obj, slot, conflict in self.lost.values():
                self.store(obj, slot, conflict)
            code = self.enter_code(region, owner)
            condition = self.condition(region, code)
            if condition is None:
                return owner, None
            owner.condition = ev.node_of(as_value(condition))
            self.loop.step()
            exit = self.body()
            grew = self.grow(region.changes(ev.births))
            if self.leaves(exit) or grew:
                return owner, None
            owner.next = self.next_carry(exit)
        return owner, exit

    def note_alternatives(self, c: _Carried, value: Any) -> None:
        """The Tensors that a carried Tensor may be, apart from new ones."""
        if not c.raw:
            for cell, olds in zip(_leaves(value)[0], c.olds, strict=True):
                if olds:
                    self.ev.note_alternatives(cell, olds)

    def enter(self, region: Region, c: _Carried) -> Any:
        """Give a carried slot the loop's parameters as its value."""
        params = [self.parameter(region, c.name, a) for a in c.abstracts]
        ev = self.ev
        region.touch(c.obj)
        if c.raw:
            value: Any = params[0]
        else:
            value = self.cells(c, [wrap(p) for p in params])
        slots = read_slots(c.obj)
        slots[c.slot] = value
        write_slots(c.obj, slots)
        ev.alive.append(value)
        return value

    def cells(self, c: _Carried, values: list[Any]) -> Any:
        """A carried slot's content; other names may mean its Tensors: they are not written."""
        leaves = []
        for value, olds in zip(values, c.olds, strict=True):
            if isinstance(value, Tensor):
                value = self.ev.like_parameters(self.ev.born(value), olds)
                self.ev.aliased[id(value)] = (
                    "this Tensor is carried round a loop that a Tensor decides, so it cannot be "
                    "written in place: write a .copy() of it"
                )
            leaves.append(value)
        return unflatten(c.structure, leaves, known=False)

    def parameter(self, region: Region, name: str, abstract: Abstract) -> ParameterNode:
        param = ParameterNode(name, abstract, self.ev.origin)
        region.params.append(param)
        self.ev.home[id(param)] = region
        return param

    def enter_code(self, region: Region, owner: WhileNode) -> Scalar | None:
        """The exit code and the returned value are carried too, if the body can leave."""
        if not self.code_carried:
            return None
        owner.init.append(constant_node(GO_ON))
        code = self.parameter(region, "exit", AbstractScalar(int))
        if self.result is not None:
            for a in self.result.abstracts:
                owner.init.append(zero_node(a))
                self.parameter(region, "result", a)
        return Scalar(code)

    def condition(self, region: Region, code: Scalar | None) -> Condition | None:
        """The loop's condition; None if it has effects and the loop must be rotated first."""
        test = self.test
        if code is not None:
            go = is_code(self.ev, code, GO_ON)
            condition = truth(
                self.ev, choose(self.ev, go, [lambda: as_value(test()), lambda: False])
            )
        else:
            condition = test()
        wrote = [
            i
            for i, (obj, old, now) in region.changes(self.ev.births).items()
            if any(now.get(k) is not v for k, v in self.entered(obj, old).items())
        ]
        if wrote and self.flag is None:
            self.rotate()
            return None
        return condition

    def entered(self, obj: Any, old: dict) -> dict:
        """What a carried object held when the condition was evaluated."""
        carried = {slot for i, slot in [*self.carry, *self.lost] if i == id(obj)}
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
        self.carry.clear()

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
        return branch(self.ev, _runs_on(self.ev, exit), [again, lambda: left])

    # ----------------------------------------------------------------- the carry grows

    def grow(self, changes: dict) -> bool:
        """Add to the carry what the body newly writes; True if it grew.

        What changes its type in each iteration raises Peel; once one is peeled it becomes a
        Conflict, an error only if an iteration reads what the one before it left.
        """
        grew = False
        for i, (obj, old, now) in changes.items():
            if isinstance(obj, (list, dict, set)) and set(old) != set(now):
                raise Peel(f"the number of items of a {type(obj).__name__}")
            for slot in dict.fromkeys([*old, *now]):
                before, value = old.get(slot, UNSET), now.get(slot, UNSET)
                key = (i, slot)
                if before is UNSET and isinstance(obj, World):
                    raise Peel(f"attribute '{slot[-1]}' from nothing to {type_name(value)}")
                if before is UNSET:
                    self.vanish[key] = (obj, slot)
                elif key not in self.lost:
                    grew |= self.grow_slot(key, obj, before, value)
        return grew

    def grow_slot(self, key: tuple[int, Any], obj: Any, before: Any, value: Any) -> bool:
        try:
            if key in self.carry:
                return self.check_carried(self.carry[key], value)
            if before is value or _same_constant(before, value):
                return False
            self.carry[key] = self.carried(obj, key[1], before, value)
        except Peel as why:
            if not self.peeled or isinstance(before, Node):
                raise
            self.carry.pop(key, None)
            if not isinstance(value, (Unset, Conflict)):
                value = Conflict(f"a loop that a Tensor decides changes {why}")
            self.lost[key] = (obj, key[1], value)
        return True

    def carried(self, obj: Any, slot: Any, before: Any, value: Any) -> _Carried:
        name = slot if isinstance(slot, str) and isinstance(obj, Env) else "state"
        if isinstance(before, Node):
            if not isinstance(value, Node) or value.abstract != before.abstract:
                raise Peel("the type of a Tensor")
            return _Carried(obj, slot, Container(tuple, ()), [before.abstract], name, raw=True)
        if isinstance(value, (Unset, Conflict)):
            raise Peel(f"'{slot}'")
        old_leaves, old_structure = _leaves(before)
        leaves, structure = _leaves(value)
        if structure != old_structure:
            raise Peel(_how(slot, type_name(before), value))
        abstracts = []
        for a, b in zip(old_leaves, leaves, strict=True):
            pair = (_abstract(a), _abstract(b))
            if pair[0] != pair[1]:
                raise Peel(f"'{slot}' from {pair[0]} to {pair[1]}")
            abstracts.append(pair[0])
        olds = [[v] if isinstance(v, Tensor) else [] for v in old_leaves]
        carried = _Carried(obj, slot, structure, abstracts, name, olds=olds)
        self.add_olds(carried, leaves)
        return carried

    def add_olds(self, c: _Carried, leaves: list[Any]) -> bool:
        """Note the older Tensors that the body leaves in a slot; True if some are new."""
        births, grew = self.ev.births, False
        for olds, leaf in zip(c.olds, leaves, strict=True):
            for t in self.ev.may_be(leaf) if isinstance(leaf, Tensor) else ():
                is_older = id(t) not in births or not self.region.encloses(births[id(t)])
                if is_older and all(t is not old for old in olds):
                    olds.append(t)
                    grew = True
        return grew

    def check_carried(self, c: _Carried, value: Any) -> bool:
        if c.raw:
            if not isinstance(value, Node) or value.abstract != c.abstracts[0]:
                raise Peel("the type of a Tensor")
            return False
        if isinstance(value, (Unset, Conflict)):
            raise Peel(f"'{c.slot}'")
        leaves, structure = _leaves(value)
        found = [_abstract(v) for v in leaves]
        if structure != c.structure or found != c.abstracts:
            alone = isinstance(c.structure, Leaf)
            before = unflatten(c.structure, c.abstracts, known=False)
            raise Peel(_how(c.slot, str(before) if alone else type_name(before), value))
        return self.add_olds(c, leaves)

    def leaves(self, exit: Exit) -> bool:
        """Carry an exit code, and the result, if the body can leave; True if that is new."""
        if exit.may <= {GO_ON, CONTINUE}:
            return False
        new = not self.code_carried
        self.code_carried = True
        if RETURN in exit.may and self.result is None:
            if isinstance(exit.value, (Unset, Conflict)):
                raise TypeError(getattr(exit.value, "why", "the returned value has no type"))
            leaves, structure = flatten(exit.value, _is_leaf)
            abstracts = [_abstract(v) for v in leaves]
            self.result = _Carried(None, None, structure, abstracts, "result")
            new = True
        return new

    def next_carry(self, exit: Exit) -> list[Node]:
        ev = self.ev
        out: list[Node] = []
        for c in self.carry.values():
            value = read_slots(c.obj)[c.slot]
            if c.raw:
                out.append(value)
            else:
                out += [ev.node_of(v) for v in _leaves(value)[0]]
        if not self.code_carried:
            return out
        codes = [GO_ON, BREAK, GO_ON, RETURN, RAISE]
        code = exit.code
        code = scalar_op("ScalarPick", code, *codes) if isinstance(code, Scalar) else codes[code]
        out.append(ev.node_of(code))
        if self.result is not None:
            out += [ev.node_of(v) for v in flatten(exit.value, _is_leaf)[0]]
        return out

    # ----------------------------------------------------------------- after the loop

    def finish(self, owner: WhileNode, exit: Exit) -> Arm:
        """Give the carried slots the loop's results, and say how the loop was left."""
        ev = self.ev
        ev.origin = self.loop.origin
        if self.code_carried or self.flag is not None:
            owner.trip_count = None
        k = 0
        stored = []
        for c in self.carry.values():
            outs = [ev.wrap_out(owner, k + i, a) for i, a in enumerate(c.abstracts)]
            k += len(outs)
            if c.raw:
                value: Any = getattr(outs[0], "_node", None) or getattr(outs[0], "node", outs[0])
            else:
                value = self.cells(c, outs)
            self.store(c.obj, c.slot, value)
            stored.append((c, value))
        for c, value in stored:
            self.note_alternatives(c, value)
        for obj, slot in self.vanish.values():
            self.store(obj, slot, UNSET)
        for obj, slot, conflict in self.lost.values():
            self.store(obj, slot, conflict)
        end = partial(self.loop.end, self.ev)
        return partial(self.left, owner, exit, k, end) if self.code_carried else end

    def store(self, obj: Any, slot: Any, value: Any) -> None:
        self.ev.region.touch(obj)
        slots = read_slots(obj)
        slots[slot] = value
        write_slots(obj, slots)

    def left(self, owner: WhileNode, exit: Exit, k: int, end: Arm) -> Exit:
        """Tell by the exit code how the loop was left."""
        ev = self.ev
        code = ev.wrap_out(owner, k, AbstractScalar(int))
        value = None
        if self.result is not None:
            outs = [ev.wrap_out(owner, k + 1 + i, a) for i, a in enumerate(self.result.abstracts)]
            value = unflatten(self.result.structure, outs, known=False)
        ended = is_code(ev, code, GO_ON)  # the condition became false: the else block runs
        may = (exit.may & {BREAK, RETURN}) - {GO_ON}
        if not may:
            return end()
        broken = Exit(next(iter(may)) if len(may) == 1 else code, value, may)
        if isinstance(owner.condition, ValueNode) or self.endless(owner):
            return _end_break(ev, broken)
        assert isinstance(ended, Node)
        return branch(ev, ended, [end, lambda: _end_break(ev, broken)])

    def endless(self, owner: WhileNode) -> bool:
        """True for ``while True``: it ends by break or return only."""
        with _Trial(self.ev):
            return self.loop.test() is True and self.loop.trip_count() is None


def _how(slot: Any, was: str, value: Any) -> str:
    """How the type of a carried value changes, in an error's words."""
    now = type_name(value)
    advice = ": write its items in place, or use a tuple" if now in ("list", "dict") else ""
    return f"'{slot}' from {was} to {now}" if was != now else f"which {now} '{slot}' is{advice}"


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (Tensor, Scalar)) or type(value) in (bool, int, float)


def _leaves(value: Any) -> tuple[list[Any], Structure]:
    """The numbers and Tensors in a slot; lists and dicts count as they are (they have identity)."""

    if isinstance(value, (list, dict)):
        return [], Constant(value, (type(value), id(value)))
    return flatten(value, _is_leaf)


def _abstract(value: Any) -> Abstract:
    if isinstance(value, Tensor):
        return value._abstract
    return AbstractScalar(kind_of(value))


def _same_constant(a: Any, b: Any) -> bool:
    if isinstance(a, Closure) and isinstance(b, Closure):
        return bool(mark(a) == mark(b))
    return isinstance(a, (bool, int, float, str)) and constant_key(a) == constant_key(b)
