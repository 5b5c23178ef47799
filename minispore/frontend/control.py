"""Control flow that tensors decide: branches, merges and loops.

* A block ends in an *exit*: it goes on, breaks, continues, returns or raises.  An arm or body of
  which several exits are possible carries an exit code, an int known at run time.
* ``branch`` evaluates every arm in a region of its own, rolls it back, and merges what they wrote.
* ``loop`` unrolls what constants decide and keeps what tensors decide as a While whose carry is what
  the body writes, found by evaluating the body until nothing new is written.

What cannot be merged (an int with a Tensor, two dtypes) is a Conflict: an error when it is read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minispore.abstract import Abstract, AbstractScalar, AbstractTensor
from minispore.frontend.heap import (
    UNSET,
    Choice,
    Conflict,
    Env,
    Region,
    RegionNode,
    SwitchNode,
    Unset,
    WhileNode,
    World,
    read_slots,
    write_slots,
)
from minispore.ir.node import CNode, FuncGraph, Node, ParameterNode, ValueNode, toposort
from minispore.primitive import REGISTRY, Primitive, apply
from minispore.symbolic import NeedConstant, Scalar, constant_node, scalar_op, wrap
from minispore.tensor import Tensor
from minispore.tree import Constant, Container, Structure, Text, flatten, unflatten

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

GO_ON, BREAK, CONTINUE, RETURN, RAISE = range(5)
UNROLLED = 16  # iterations of a constant loop before it is tried as a While
LONGEST = 100_000  # iterations of a constant loop that needs its constants

Condition = bool | Node
Arm = Callable[[], "Exit"]


class Exit:
    """How a block ends: `code` (an int, or a Scalar when tensors decide), `may`: all candidates."""

    def __init__(self, code: Any, value: Any = None, may: frozenset[int] | None = None):
        self.code, self.value = code, value
        self.may = may or frozenset({code})


@dataclass
class Raised:
    """An exception made while evaluating; it exists when the graph runs."""

    kind: type[BaseException]
    args: tuple


class Peel(Exception):
    """A loop's carry changes its type in one iteration."""


class Unreachable(Exception):
    """What follows is never run: an expression has raised on every path."""


# ------------------------------------------------------------------------------------ truth


def truth(ev: Evaluator, value: Any) -> Condition:
    """``bool(value)``: a constant, or a node of a bool."""
    if isinstance(value, Tensor):
        if value._abstract.size != 1:
            raise ValueError(
                f"the truth of a Tensor of shape {value.shape} is ambiguous: use .any() or .all()"
            )
        scalar = apply(REGISTRY["TensorToScalar"].bound(kind=bool), value)
        return known(ev, scalar.node)
    if isinstance(value, Scalar):
        return known(ev, value.node if value.kind is bool else scalar_op("ScalarNotEqual", value, 0).node)
    if isinstance(value, (Choice, Conflict)):
        return truth(ev, is_true_choice(ev, value))
    if isinstance(value, Text):
        raise NeedConstant("the truth of a string that is known only at run time")
    method = getattr(type(value), "__bool__", None) or getattr(type(value), "__len__", None)
    if method is not None and hasattr(method, "__code__"):
        return truth(ev, ev.call(method, [value], {}))
    return bool(value)


def is_true_choice(ev: Evaluator, value: Any) -> Any:
    """The truth of a Choice: that of each alternative, chosen in the same way."""
    if isinstance(value, Conflict):
        raise TypeError(value.why)
    return _pick_truth(ev, value, lambda o: _as_value(truth(ev, o)))


def _as_value(condition: Condition) -> Any:
    return Scalar(condition) if isinstance(condition, Node) else condition


def known(ev: Evaluator, node: Node) -> Condition:
    """The truth of a bool node, if constants or the arm we are in decide it."""
    fact = fact_of(ev, node)
    if fact is not None:
        return fact
    value = constant_value(node)
    return node if value is None else bool(value)


def fact_of(ev: Evaluator, node: Node) -> bool | None:
    """What the arms around us say of a condition."""
    plain, flipped = _without_not(node)
    for condition, arm in ev.facts:
        other, flip = _without_not(condition)
        if other is plain and isinstance(condition.abstract, AbstractScalar):
            return (arm == 0) ^ flip ^ flipped
    return None


def _without_not(node: Node) -> tuple[Node, bool]:
    flipped = False
    while isinstance(node, CNode) and isinstance(node.callee, Primitive) and (
        node.callee.name == "ScalarNot"
    ):
        node, flipped = node.inputs[0], not flipped
    return node, flipped


def constant_value(node: Node) -> Any:
    """The value of a node that depends on constants alone; None if it depends on more."""
    from minispore.ir.interp import interpret

    nodes = toposort([node])
    for n in nodes:
        if isinstance(n, ValueNode):
            continue
        if not (isinstance(n, CNode) and isinstance(n.callee, Primitive)) or n.callee.effect:
            return None
    (value,) = interpret(FuncGraph("constant", (), node), [])
    return value


def negate(ev: Evaluator, value: Any) -> Any:
    """``not value``."""
    condition = value if isinstance(value, Node) else truth(ev, value)
    if isinstance(condition, bool):
        return not condition
    return scalar_op("ScalarNot", Scalar(condition))


def truth_of_all(ev: Evaluator, is_and: bool, nodes: list[ast.expr]) -> Condition:
    """The truth of ``a and b ...`` (or of ``a or b ...``), with short circuit."""
    first = ev.truth_of(nodes[0])
    if len(nodes) == 1 or (isinstance(first, bool) and first is not is_and):
        return first
    rest = lambda: _as_value(truth_of_all(ev, is_and, nodes[1:]))  # noqa: E731
    if isinstance(first, bool):
        return truth(ev, rest())
    arms = [rest, lambda: False] if is_and else [lambda: True, rest]
    return truth(ev, choose(ev, first, arms))


def bool_op(ev: Evaluator, is_and: bool, nodes: list[ast.expr]) -> Any:
    """The value of ``a and b ...`` (or of ``a or b ...``), as Python defines it."""
    value = ev.expression(nodes[0])
    if len(nodes) == 1:
        return value
    rest = lambda: bool_op(ev, is_and, nodes[1:])  # noqa: E731
    ev.at(nodes[0])
    condition = truth(ev, value)
    if isinstance(condition, bool):
        return rest() if condition is is_and else value
    arms = [rest, lambda: value] if is_and else [lambda: value, rest]
    return choose(ev, condition, arms)


def both(ev: Evaluator, first: Any, later: Callable[[], Any]) -> Any:
    """``first and later()``."""
    condition = truth(ev, first)
    if isinstance(condition, bool):
        return later() if condition else first
    return choose(ev, condition, [later, lambda: first])


def is_same(ev: Evaluator, a: Any, b: Any) -> Any:
    """``a is b``."""
    for left, right in ((a, b), (b, a)):
        if isinstance(left, Choice):
            return _pick_truth(ev, left, lambda o, right=right: is_same(ev, o, right))
    return a is b


def _pick_truth(ev: Evaluator, choice: Choice, test: Callable[[Any], Any]) -> Any:
    """A test of a Choice: its own condition, where that decides the test."""
    if [test(o) for o in choice.options] == [True, False]:
        return Scalar(choice.condition)
    if [test(o) for o in choice.options] == [False, True]:
        return scalar_op("ScalarNot", Scalar(choice.condition))
    return choose(ev, choice.condition, [lambda o=o: test(o) for o in choice.options])


def contains(ev: Evaluator, container: Any, item: Any) -> Any:
    """``item in container``."""
    refuse_choice(container, "a container")
    if isinstance(container, (str, bytes, range, dict, set)) and not is_symbolic(item):
        return item in container
    if isinstance(container, Tensor):
        from minispore import ops

        return scalar_bool(ops.equal(container, item).any())
    result: Any = False
    for candidate in ev.iterate(container):
        if candidate is item:
            return True
        equal = ev.operate(_equal, candidate, item)
        if truth(ev, equal) is True:
            return True
        if truth(ev, equal) is not False:
            found = result
            result = choose(
                ev, truth(ev, equal), [lambda: True, lambda found=found: found]
            )
    return result


def _equal(a: Any, b: Any) -> Any:
    return a == b


def scalar_bool(tensor: Any) -> Any:
    """The Python bool in a Tensor of one element."""
    return apply(REGISTRY["TensorToScalar"].bound(kind=bool), tensor)


def is_symbolic(value: Any) -> bool:
    """True if `value` is, or holds, something known only at run time."""
    if isinstance(value, (Tensor, Scalar, Text, Choice)):
        return True
    if isinstance(value, (list, tuple, set)):
        return any(is_symbolic(v) for v in value)
    if isinstance(value, dict):
        return any(is_symbolic(v) for v in value.values())
    return isinstance(value, slice) and any(
        is_symbolic(v) for v in (value.start, value.stop, value.step)
    )


def resolve(ev: Evaluator, value: Any) -> Any:
    """A Choice becomes its alternative inside an arm of its own condition."""
    while isinstance(value, Choice):
        fact = fact_of(ev, value.condition)
        if fact is None:
            return value
        value = value.options[0 if fact else 1]
    return value


def refuse_choice(value: Any, role: str) -> None:
    """Raise if a value has different types in different arms."""
    if isinstance(value, Conflict):
        raise TypeError(value.why)
    if isinstance(value, Choice):
        kinds = " or ".join(dict.fromkeys(_type_name(o) for o in value.options))
        raise TypeError(f"{role} is {kinds}, depending on a Tensor: make it the same in every arm")


def _type_name(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(value._abstract)
    if isinstance(value, Scalar):
        return value.kind.__name__
    return "None" if value is None else type(value).__name__


# ------------------------------------------------------------------------------------ branches


def always_leaves(body: list[ast.stmt]) -> bool:
    """True if every path through a block leaves it (by its form alone)."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return always_leaves(last.body) and always_leaves(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue, ast.Raise))


def has_exit(node: ast.stmt) -> bool:
    """True if a statement contains one that can leave it."""
    return any(
        isinstance(n, (ast.Return, ast.Break, ast.Continue, ast.Raise)) for n in ast.walk(node)
    )


def check(ev: Evaluator, condition: Condition, kind: type, args: tuple) -> Exit:
    """Emit a Check; one that always fails ends the block."""
    leaves, structure = flatten(args, lambda v: isinstance(v, (Tensor, Scalar)))
    prim = REGISTRY["Check"].bound(exception=kind, structure=structure)
    apply(prim, _as_value(condition), *leaves)
    return Exit(RAISE) if condition is False else Exit(GO_ON)


def choose(ev: Evaluator, condition: Condition, arms: list[Callable[[], Any]]) -> Any:
    """The value of one of several expressions."""
    if isinstance(condition, bool):
        return arms[0 if condition else 1]()
    exit = branch(ev, condition, [lambda arm=arm: Exit(RETURN, arm()) for arm in arms])
    if exit.may == {RAISE}:
        raise Unreachable
    return ev.readable(exit.value, "the value of this expression")


def select(
    ev: Evaluator, condition: Node, if_true: Callable[[], Any], if_false: Callable[[], Any]
) -> Any:
    """``a if condition else b``."""
    return choose(ev, condition, [if_true, if_false])


def branch(ev: Evaluator, condition: Node, arms: list[Arm]) -> Exit:
    """Evaluate all arms, merge what they wrote, and return the common exit."""
    fact = known(ev, condition) if isinstance(condition.abstract, AbstractScalar) else condition
    if isinstance(fact, bool):
        return arms[0 if fact else 1]()
    origin = ev.origin
    results = [_evaluate_arm(ev, condition, k, arm) for k, arm in enumerate(arms)]
    regions = [r for r, _, _ in results]
    ev.origin = origin
    owner = SwitchNode(ev.region, origin, condition, regions)
    for region in regions:
        region.owner = owner
    return _Merge(ev, owner, results).run()


def _evaluate_arm(ev: Evaluator, condition: Node, k: int, arm: Arm) -> tuple[Region, Exit, dict]:
    name = ("if_true", "if_false")[k] if k < 2 else f"arm_{k}"
    region = Region(ev.region, "arm", name, ev.origin)
    where = ev.frame.where
    ev.facts.append((condition, k))
    ev.region = region
    try:
        try:
            exit = arm()
        except Unreachable:
            exit = Exit(RAISE)
        changes = region.changes(ev.births)
    finally:
        ev.region = region.parent  # type: ignore[assignment]
        ev.facts.pop()
        region.roll_back(ev.births)
    ev.frame.where = where
    return region, exit, changes


class _Merge:
    """Merges what the arms of one Switch wrote and returned."""

    def __init__(self, ev: Evaluator, owner: SwitchNode, results: list[tuple[Region, Exit, dict]]):
        self.ev, self.owner, self.results = ev, owner, results
        self.pairs: dict[tuple[int, ...], Any] = {}
        self.partner: list[dict[int, tuple]] = [{} for _ in results]

    def run(self) -> Exit:
        ev = self.ev
        changed: dict[int, Any] = {}
        for _, _, changes in self.results:
            changed.update({i: c[0] for i, c in changes.items()})
        for i, obj in changed.items():
            old = read_slots(obj)
            now = [c[i][2] if i in c else old for _, _, c in self.results]
            ev.region.touch(obj)
            write_slots(obj, self.slots(obj, old, now))
        return self.exit()

    def slots(self, obj: Any, old: dict, now: list[dict]) -> dict:
        """The merged slots of an object that some arm wrote."""
        alive = [k for k in range(len(now)) if not self.dead(k, obj)]
        if len(alive) <= 1:
            return now[alive[0]] if alive else old
        keys = list(dict.fromkeys(key for k in alive for key in now[k]))
        if isinstance(obj, (list, dict, set)) and any(set(now[k]) != set(keys) for k in alive):
            sizes = " or ".join(str(len(now[k])) for k in alive)
            what = f"a {type(obj).__name__} has {sizes} items, depending on a Tensor"
            return {key: Conflict(what) for key in keys} if keys else {}
        values = {}
        for key in keys:
            values[key] = self.value([now[k].get(key, UNSET) for k in alive], alive)
        return {k: v for k, v in values.items() if v is not UNSET or isinstance(obj, Env)}

    def dead(self, k: int, obj: Any) -> bool:
        """True if nobody will see what arm `k` did to `obj`."""
        exit = self.results[k][1]
        if isinstance(obj, World):
            return False  # the token of an arm that raises carries its effects
        return exit.may == {RAISE} or (exit.may == {RETURN} and obj is self.ev.frame.env)

    # -------------------------------------------------------------------------- values

    def value(self, values: list[Any], arms: list[int]) -> Any:
        """One value from those of several arms; `arms` are their numbers."""
        first = values[0]
        if all(v is first for v in values[1:]):
            return first
        if any(isinstance(v, Unset) for v in values):
            return UNSET
        for v in values:
            if isinstance(v, Conflict):
                return v
        if all(isinstance(v, Node) for v in values):
            return self.nodes(values, arms, raw=True)
        if all(isinstance(v, Tensor) for v in values):
            return self.tensors(values, arms)
        if all(_is_number(v) for v in values):
            return self.numbers(values, arms)
        if all(_is_number(v) or isinstance(v, Tensor) for v in values):
            return self.mixed(values, arms)
        if all(isinstance(v, tuple) for v in values):
            return self.tuples(values, arms)
        if all(isinstance(v, (list, dict)) for v in values):
            return self.containers(values, arms)
        if all(_can_be_chosen(v) for v in values):
            return self.choice(values, arms)
        return self.conflict(values)

    def conflict(self, values: list[Any]) -> Conflict:
        kinds = ", ".join(_type_name(v) for v in values)
        where = self.owner.origin.where
        return Conflict(
            f"its type depends on a Tensor ({kinds}; branch at {where}): "
            "make the arms agree in type, dtype and shape"
        )

    def nodes(self, values: list[Node], arms: list[int], raw: bool = False) -> Any:
        """A new output of the Switch."""
        abstract = values[0].abstract
        if any(v.abstract != abstract for v in values):
            return self.conflict([wrap(v) for v in values])
        out: list[Node | None] = [None] * len(self.results)
        for k, v in zip(arms, values, strict=True):
            out[k] = v
        self.owner.outs.append(tuple(out))
        made = self.ev.wrap_out(self.owner, len(self.owner.outs) - 1, abstract)
        if raw:
            return made._node if isinstance(made, Tensor) else getattr(made, "node", made)
        return made

    def tensors(self, values: list[Tensor], arms: list[int]) -> Any:
        key = tuple(map(id, values))
        if key not in self.pairs:
            made = self.nodes([v._node for v in values], arms)  # type: ignore[misc]
            self.pairs[key] = made
            self.ev.alive.extend(values)
            if isinstance(made, Tensor) and not self.paired(values, arms):
                where = self.owner.origin.where
                self.ev.aliased[id(made)] = (
                    f"this Tensor is one of two, depending on a Tensor (branch at {where}), so it "
                    "cannot be written in place: write a .copy() of it"
                )
        return self.pairs[key]

    def paired(self, values: list[Any], arms: list[int]) -> bool:
        """True if each value is new in its arm, and always meets the same partners."""
        key = tuple(map(id, values))
        one_to_one = all(
            self.partner[k].setdefault(id(v), key) == key for k, v in zip(arms, values, strict=True)
        )
        new = all(
            id(v) in self.ev.births and self.results[k][0].encloses(self.ev.births[id(v)])
            for k, v in zip(arms, values, strict=True)
        )
        return one_to_one and new

    def numbers(self, values: list[Any], arms: list[int]) -> Any:
        kinds = {_kind(v) for v in values}
        if len(kinds) > 1:
            return self.conflict(values)
        constants = [v for v in values if not isinstance(v, Scalar)]
        if len(constants) == len(values) and len({repr(v) for v in constants}) == 1:
            return values[0]
        return self.nodes([self.ev.node_of(v) for v in values], arms)

    def mixed(self, values: list[Any], arms: list[int]) -> Any:
        """A bool beside a 0-d Bool Tensor is a Tensor; other numbers beside Tensors conflict."""
        from minispore.dtype import bool_

        for v in values:
            ok = _kind(v) is bool if _is_number(v) else v._abstract == AbstractTensor(bool_, ())
            if not ok:
                return self.conflict(values)
        nodes = []
        for v in values:
            if isinstance(v, Tensor):
                nodes.append(v._node)
            elif isinstance(v, Scalar):
                return self.conflict(values)
            else:
                nodes.append(self.ev.constant(v, bool_)._node)
        return self.nodes(nodes, arms)  # type: ignore[arg-type]

    def tuples(self, values: list[tuple], arms: list[int]) -> Any:
        if len({(type(v), len(v)) for v in values}) > 1:
            return self.conflict(values)
        items = [self.value(list(column), arms) for column in zip(*values, strict=True)]
        kind: Any = type(values[0])
        return kind(*items) if hasattr(kind, "_fields") else kind(items)

    def containers(self, values: list[Any], arms: list[int]) -> Any:
        """Lists or dicts that are all new in their arms, item by item."""
        kinds = {(type(v), tuple(v) if isinstance(v, dict) else len(v)) for v in values}
        if len(kinds) > 1 or not self.paired(values, arms):
            return self.conflict(values)
        key = tuple(map(id, values))
        if key not in self.pairs:
            made: Any = self.ev.born(type(values[0])())
            self.pairs[key] = made
            columns = (
                [(k, [v[k] for v in values]) for k in values[0]]
                if isinstance(made, dict)
                else list(enumerate(zip(*values, strict=True)))
            )
            write_slots(made, {k: self.value(list(column), arms) for k, column in columns})
        return self.pairs[key]

    def choice(self, values: list[Any], arms: list[int]) -> Any:
        if all(type(v) is str for v in values) and len(set(values)) == 1:
            return values[0]
        if len(values) != len(self.results):
            return self.conflict(values)
        return Choice(self.owner.condition, tuple(values))

    # -------------------------------------------------------------------------- exits

    def exit(self) -> Exit:
        exits = [e for _, e, _ in self.results]
        alive = [k for k, e in enumerate(exits) if e.may != {RAISE}]
        if not alive:
            return Exit(RAISE)
        may = frozenset().union(*(exits[k].may for k in alive))
        returning = [k for k in alive if RETURN in exits[k].may]
        value = self.value([exits[k].value for k in returning], returning) if returning else None
        if len(may) == 1:
            return Exit(next(iter(may)), value)
        codes = [exits[k].code for k in alive]
        code = codes[0] if len(codes) == 1 else self.numbers(codes, alive)
        return Exit(code, value, may)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, Scalar))


def _kind(value: Any) -> type:
    return value.kind if isinstance(value, Scalar) else type(value)


def _can_be_chosen(value: Any) -> bool:
    return value is None or isinstance(value, (str, Choice, Tensor)) or callable(value)


def is_code(ev: Evaluator, code: Any, value: int) -> Condition:
    """The condition ``code == value``."""
    if isinstance(code, Scalar):
        return known(ev, scalar_op("ScalarEqual", code, value).node)
    return code == value


def go_on_if(ev: Evaluator, exit: Exit, rest: Arm) -> Exit:
    """Run the rest of a block on those paths that go on."""
    may = exit.may - {GO_ON}
    left = Exit(next(iter(may)) if len(may) == 1 else exit.code, exit.value, may)
    condition = is_code(ev, exit.code, GO_ON)
    if isinstance(condition, bool):
        return rest() if condition else left
    return branch(ev, condition, [rest, lambda: left])


# ------------------------------------------------------------------------------------ loops


@dataclass
class Loop:
    """A loop: the test before each iteration, what binds its target, its body, its else block."""

    test: Callable[[], Condition]
    step: Callable[[], None]
    body: Arm
    orelse: Arm
    name: str
    trip_count: Callable[[], int | None] = lambda: None


def while_loop(ev: Evaluator, node: ast.While) -> Exit:
    """A ``while`` statement."""
    return run_loop(
        ev,
        Loop(
            lambda: ev.truth_of(node.test), lambda: None, lambda: ev.block(node.body),
            lambda: ev.block(node.orelse), "while",
        ),
    )  # fmt: skip


@dataclass
class SymbolicRange:
    """A ``range`` of which a bound is known only at run time."""

    start: Any
    stop: Any
    step: int


def for_loop(ev: Evaluator, node: ast.For, iterable: Any) -> Exit:
    """A ``for`` statement: over a range it counts, over anything else it is unrolled."""
    counter = ev.born(Env())
    body, orelse = (lambda: ev.block(node.body)), (lambda: ev.block(node.orelse))
    if isinstance(iterable, (range, SymbolicRange)):
        start, stop, step = iterable.start, iterable.stop, iterable.step
        counter.slots["i"] = start

        def test() -> Condition:
            i = counter.slots["i"]
            return truth(ev, i < stop if step > 0 else i > stop)

        def bind() -> None:
            ev.assign(node.target, counter.slots["i"])
            ev.region.touch(counter)
            counter.slots["i"] = counter.slots["i"] + step

        def trip_count() -> int | None:
            i = counter.slots["i"]
            whole = isinstance(i, int) and isinstance(stop, int)
            return len(range(i, stop, step)) if whole else None

        return run_loop(ev, Loop(test, bind, body, orelse, "for", trip_count))
    refuse_choice(iterable, "what 'for' runs over")
    counter.slots["i"] = 0
    growing = isinstance(iterable, list)
    items = iterable if growing else ev.iterate(iterable)

    def bind_item() -> None:
        i = counter.slots["i"]
        ev.assign(node.target, ev.readable(items[i], "an item"))
        ev.region.touch(counter)
        counter.slots["i"] = i + 1

    more = lambda: counter.slots["i"] < len(items)  # noqa: E731
    return unroll(ev, Loop(more, bind_item, body, orelse, "for"))


def unroll(ev: Evaluator, loop: Loop) -> Exit:
    """Run a loop whose iterations are all known."""
    while True:
        if not loop.test():
            return loop.orelse()
        loop.step()
        exit = loop.body()
        if not exit.may <= {GO_ON, CONTINUE}:
            return after(ev, exit, lambda: unroll(ev, loop))


def run_loop(ev: Evaluator, loop: Loop, count: int = 0, peeled: bool = False) -> Exit:
    """Run a loop: unrolled while constants decide, kept as a While where tensors do."""
    while True:
        with _Trial(ev) as trial:
            condition = loop.test()
            if isinstance(condition, bool):
                trial.keep()
        if condition is False:
            return loop.orelse()
        if isinstance(condition, Node):
            try:
                return _keep_loop(ev, loop)
            except Peel as why:
                if peeled:
                    raise TypeError(f"a loop that a Tensor decides changes {why}") from None
                again = loop.test()
                assert isinstance(again, Node)
                first = lambda: _iterate_once(ev, loop, count, True)  # noqa: E731
                return branch(ev, again, [first, loop.orelse])
        if count >= UNROLLED and count & (count - 1) == 0:
            try:
                return _keep_loop(ev, loop)
            except (NeedConstant, Peel) as why:
                if count > LONGEST:
                    raise NeedConstant(f"a loop is too long to unroll: {why}") from None
        loop.step()
        exit = loop.body()
        count += 1
        if not exit.may <= {GO_ON, CONTINUE}:
            return after(ev, exit, lambda count=count: run_loop(ev, loop, count, peeled))


def _iterate_once(ev: Evaluator, loop: Loop, count: int, peeled: bool) -> Exit:
    loop.step()
    return after(ev, loop.body(), lambda: run_loop(ev, loop, count + 1, peeled))


def after(ev: Evaluator, exit: Exit, go: Arm) -> Exit:
    """What follows one iteration: the next one, unless the body left the loop."""
    if exit.may <= {GO_ON, CONTINUE}:
        return go()
    if not exit.may & {GO_ON, CONTINUE}:
        return _end_break(ev, exit)
    may = exit.may - {GO_ON, CONTINUE}
    left = Exit(next(iter(may)) if len(may) == 1 else exit.code, exit.value, may)
    return branch(ev, _runs_on(ev, exit), [go, lambda: _end_break(ev, left)])


def _runs_on(ev: Evaluator, exit: Exit) -> Node:
    """The condition that the loop goes on after an iteration with this exit."""
    picks = [code in (GO_ON, CONTINUE) for code in range(5)]
    node = scalar_op("ScalarPick", exit.code, *picks).node
    return node


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


def _keep_loop(ev: Evaluator, loop: Loop) -> Exit:
    return _LoopBuilder(ev, loop).run()


class _LoopBuilder:
    """Turns a loop into a WhileNode: evaluates the body until the carry is stable."""

    def __init__(self, ev: Evaluator, loop: Loop):
        self.ev, self.loop = ev, loop
        self.carry: dict[tuple[int, Any], _Carried] = {}
        self.code_carried = False
        self.result: _Carried | None = None  # the returned value, if the body returns
        self.vanish: dict[tuple[int, Any], tuple[Any, Any]] = {}
        self.flag: Env | None = None  # holds the condition of a rotated loop

    def run(self) -> Exit:
        while True:
            owner, exit = self.evaluate()
            if exit is not None:
                return self.finish(owner, exit)

    # ----------------------------------------------------------------- one evaluation

    def evaluate(self) -> tuple[WhileNode, Exit | None]:
        """Evaluate condition and body once; the exit, or None if the carry was not stable yet."""
        ev = self.ev
        region = Region(ev.region, "loop", self.loop.name, ev.origin)
        owner = WhileNode(ev.region, ev.origin, region)
        region.owner = owner
        owner.trip_count = self.loop.trip_count()
        for c in self.carry.values():
            value = read_slots(c.obj)[c.slot]
            owner.init += [value] if c.raw else [ev.node_of(v) for v in _leaves(value)[0]]
        ev.region = region
        try:
            for c in self.carry.values():
                self.enter(region, c)
            code = self.enter_code(region, owner)
            condition = self.condition(region, code)
            if condition is None:
                return owner, None
            owner.condition = ev.node_of(_as_value(condition))
            self.loop.step()
            exit = self.body()
            grew = self.grow(region.changes(ev.births))
            if self.leaves(exit) or grew:
                return owner, None
            owner.next = self.next_carry(exit)
        finally:
            ev.region = region.parent  # type: ignore[assignment]
            region.roll_back(ev.births)
        return owner, exit

    def enter(self, region: Region, c: _Carried) -> None:
        """Give a carried slot the loop's parameters as its value."""
        params = [self.parameter(region, c.name, a) for a in c.abstracts]
        ev = self.ev
        region.touch(c.obj)
        if c.raw:
            value: Any = params[0]
        else:
            value = unflatten(c.structure, [self.cell(wrap(p)) for p in params])
        slots = read_slots(c.obj)
        slots[c.slot] = value
        write_slots(c.obj, slots)
        ev.alive.append(value)

    def cell(self, value: Any) -> Any:
        """A carried Tensor: another name may mean the same one, so it is not written in place."""
        if isinstance(value, Tensor):
            self.ev.born(value)
            self.ev.aliased[id(value)] = (
                "this Tensor is carried round a loop that a Tensor decides, so it cannot be written "
                "in place: write a .copy() of it"
            )
        return value

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
            from minispore.frontend.lower import zero_node

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
                self.ev, choose(self.ev, go, [lambda: _as_value(test()), lambda: False])
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
        carried = {c.slot for c in self.carry.values() if c.obj is obj}
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
        self.flag.slots["go"] = _as_value(first)
        self.ev.region = region
        self.carry.clear()

    def body(self) -> Exit:
        exit = self.loop.body()
        if self.flag is None or not exit.may & {GO_ON, CONTINUE}:
            return exit

        def again() -> Exit:
            assert self.flag is not None
            value = _as_value(self.loop.test())
            self.ev.region.touch(self.flag)
            self.flag.slots["go"] = value
            return Exit(GO_ON)

        if exit.may <= {GO_ON, CONTINUE}:
            return again()
        may = exit.may - {GO_ON, CONTINUE}
        left = Exit(next(iter(may)) if len(may) == 1 else exit.code, exit.value, may)
        return branch(self.ev, _runs_on(self.ev, exit), [again, lambda: left])

    # ----------------------------------------------------------------- the carry grows

    def grow(self, changes: dict) -> bool:
        """Add to the carry what the body newly writes; True if it grew.  May raise Peel."""
        grew = False
        for i, (obj, old, now) in changes.items():
            if isinstance(obj, (list, dict, set)) and set(old) != set(now):
                raise Peel(f"the number of items of a {type(obj).__name__}")
            for slot in dict.fromkeys([*old, *now]):
                before, value = old.get(slot, UNSET), now.get(slot, UNSET)
                key = (i, slot)
                if key in self.carry:
                    grew |= self.check_carried(self.carry[key], value)
                elif before is UNSET:
                    self.vanish[key] = (obj, slot)
                elif before is not value and not _same_constant(before, value):
                    self.carry[key] = self.carried(obj, slot, before, value)
                    grew = True
        return grew

    def carried(self, obj: Any, slot: Any, before: Any, value: Any) -> _Carried:
        name = slot if isinstance(slot, str) and isinstance(obj, Env) else "state"
        if isinstance(before, Node):
            if not isinstance(value, Node) or value.abstract != before.abstract:
                raise Peel("the type of a Tensor")
            return _Carried(obj, slot, Container(tuple, ()), [before.abstract], name, raw=True)
        old_leaves, old_structure = _leaves(before)
        leaves, structure = _leaves(value)
        if structure != old_structure:
            raise Peel(f"'{slot}' from {_type_name(before)} to {_type_name(value)}")
        abstracts = []
        for a, b in zip(old_leaves, leaves, strict=True):
            pair = (_abstract(a), _abstract(b))
            if pair[0] != pair[1]:
                raise Peel(f"'{slot}' from {pair[0]} to {pair[1]}")
            abstracts.append(pair[0])
        return _Carried(obj, slot, structure, abstracts, name)

    def check_carried(self, c: _Carried, value: Any) -> bool:
        if c.raw:
            if not isinstance(value, Node) or value.abstract != c.abstracts[0]:
                raise Peel("the type of a Tensor")
            return False
        if isinstance(value, (Unset, Conflict)):
            raise Peel(f"'{c.slot}': {getattr(value, 'why', 'it has no value in one arm')}")
        leaves, structure = _leaves(value)
        found = [_abstract(v) for v in leaves]
        if structure != c.structure or found != c.abstracts:
            kinds = ", ".join(map(str, c.abstracts))
            raise Peel(f"'{c.slot}' from {kinds} to {_type_name(value)}")
        return False

    def leaves(self, exit: Exit) -> bool:
        """Carry an exit code, and the returned value, if the body can leave; True if that is new."""
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

    def finish(self, owner: WhileNode, exit: Exit) -> Exit:
        """Give the carried slots the loop's results, and say how the loop was left."""
        ev = self.ev
        if self.code_carried or self.flag is not None:
            owner.trip_count = None
        k = 0
        for c in self.carry.values():
            outs = [ev.wrap_out(owner, k + i, a) for i, a in enumerate(c.abstracts)]
            k += len(outs)
            if c.raw:
                value: Any = getattr(outs[0], "_node", None) or getattr(outs[0], "node", outs[0])
            else:
                value = unflatten(c.structure, [self.cell(o) for o in outs])
            self.store(c.obj, c.slot, value)
        for obj, slot in self.vanish.values():
            if isinstance(obj, Env):
                self.store(obj, slot, UNSET)
        if not self.code_carried:
            return self.loop.orelse()
        return self.left(owner, exit, k)

    def store(self, obj: Any, slot: Any, value: Any) -> None:
        self.ev.region.touch(obj)
        slots = read_slots(obj)
        slots[slot] = value
        write_slots(obj, slots)

    def left(self, owner: WhileNode, exit: Exit, k: int) -> Exit:
        ev = self.ev
        code = ev.wrap_out(owner, k, AbstractScalar(int))
        value = None
        if self.result is not None:
            outs = [ev.wrap_out(owner, k + 1 + i, a) for i, a in enumerate(self.result.abstracts)]
            value = unflatten(self.result.structure, outs)
        ended = is_code(ev, code, GO_ON)  # the condition became false: the else block runs
        may = (exit.may & {BREAK, RETURN}) - {GO_ON}
        if not may:
            return self.loop.orelse()
        broken = Exit(next(iter(may)) if len(may) == 1 else code, value, may)
        if isinstance(owner.condition, ValueNode) or self.endless(owner):
            return _end_break(ev, broken)
        assert isinstance(ended, Node)
        return branch(ev, ended, [self.loop.orelse, lambda: _end_break(ev, broken)])

    def endless(self, owner: WhileNode) -> bool:
        """True for ``while True``: it ends by break or return only."""
        with _Trial(self.ev):
            return self.loop.test() is True and self.loop.trip_count() is None


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
    return AbstractScalar(_kind(value))


def _same_constant(a: Any, b: Any) -> bool:
    from minispore.frontend.capture import same_constant

    plain = (bool, int, float, str, type(None))
    return isinstance(a, plain) and isinstance(b, plain) and same_constant(a, b)


__all__ = [
    "BREAK", "CONTINUE", "GO_ON", "RAISE", "RETURN", "Choice", "Exit", "Loop", "Raised",
    "RegionNode", "SymbolicRange", "World", "branch", "choose", "for_loop", "truth", "while_loop",
]  # fmt: skip
