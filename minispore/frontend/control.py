"""Control flow that tensors decide: truth, short circuit, and branches.

``branch`` evaluates every arm in a region of its own, rolls it back, and merges what they wrote
(merge.py).  A block of which several exits are possible carries an exit code, an int known at run
time (exits.py).  Loops are in loops.py.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from minispore import ops
from minispore.abstract import AbstractScalar
from minispore.dims import Dim
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import GO_ON, RAISE, RETURN, Arm, Condition, Exit, Unreachable
from minispore.frontend.heap import Choice, Conflict, Region, SwitchNode
from minispore.frontend.merge import Merge
from minispore.frontend.values import (
    constant_or_number,
    is_symbolic,
    is_text_choice,
    python_method,
    refuse_choice,
    refuse_size,
)
from minispore.ir.interp import interpret
from minispore.ir.node import FuncGraph, Node, ValueNode
from minispore.parameter import Parameter
from minispore.primitive import REGISTRY, apply
from minispore.symbolic import Scalar, is_run_time, scalar_op
from minispore.tensor import Tensor
from minispore.tree import Text, flatten

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


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
        number = value if value.kind is bool else scalar_op("ScalarNotEqual", value, 0)
        return known(ev, number.node)
    if isinstance(value, Dim):
        size = constant_or_number(value, bool)
        return size if isinstance(size, bool) else truth(ev, size)
    if isinstance(value, (Choice, Conflict)):
        return truth(ev, is_true_choice(ev, value))
    refuse_size(value)
    method = getattr(type(value), "__bool__", None) or getattr(type(value), "__len__", None)
    if method is not None and hasattr(method, "__code__"):
        found = ev.call(method, [value], {})
        if isinstance(found, Tensor):
            raise TypeError(f"{method.__name__} should return a Python number, returned Tensor")
        return truth(ev, found)
    return bool(value)


def is_true_choice(ev: Evaluator, value: Any) -> Any:
    """The truth of a Choice: that of each alternative, chosen in the same way."""
    if isinstance(value, Conflict):
        raise TypeError(value.why)
    return _pick_truth(ev, value, lambda o: as_value(truth(ev, o)))


def as_value(condition: Condition) -> Any:
    """A condition as the evaluated program sees it: a bool, constant or known at run time."""
    return Scalar(condition) if isinstance(condition, Node) else condition


def known(ev: Evaluator, node: Node) -> Condition:
    """The truth of a bool node, if constants or the arm we are in decide it."""
    arm = arm_taken(ev, node)
    return node if arm is None else arm == 0


def arm_taken(ev: Evaluator, node: Node) -> int | None:
    """The arm of a Switch by a bool or int, if constants or the arm we are in decide it."""
    fact = ev.facts.arm(node)
    if fact is None and (isinstance(node, ValueNode) or id(node) in ev.fixed):
        value = interpret(FuncGraph("constant", (), node), [])[0]
        return value if type(value) is int else int(not value)
    return fact


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

    def rest() -> Any:
        return as_value(truth_of_all(ev, is_and, nodes[1:]))

    if isinstance(first, bool):
        return truth(ev, rest())
    arms = [rest, lambda: False] if is_and else [lambda: True, rest]
    return truth(ev, choose(ev, first, arms))


def bool_op(ev: Evaluator, is_and: bool, nodes: list[ast.expr]) -> Any:
    """The value of ``a and b ...`` (or of ``a or b ...``), as Python defines it."""
    value = ev.expression(nodes[0])
    if len(nodes) == 1:
        return value
    rest: Callable[[], Any] = partial(bool_op, ev, is_and, nodes[1:])
    ev.at(nodes[0])
    condition = truth(ev, value)
    if isinstance(condition, bool):
        return rest() if condition is is_and else value
    return choose(ev, condition, [rest, lambda: value] if is_and else [lambda: value, rest])


def is_same(ev: Evaluator, a: Any, b: Any) -> Any:
    """``a is b``."""
    if isinstance(a, Choice):
        return _pick_truth(ev, a, lambda o: is_same(ev, o, b))
    if isinstance(b, Choice):
        return is_same(ev, b, a)
    two = isinstance(a, Tensor) and isinstance(b, Tensor) and a is not b
    if two and (ev.alternatives.is_one_of(a) or ev.alternatives.is_one_of(b)):
        raise TypeError(
            "whether these are the same Tensor is known only when the graph runs: keep a flag that "
            "tells"
        )
    return a is b


def _pick_truth(ev: Evaluator, choice: Choice, test: Callable[[Any], Any]) -> Any:
    """A test of a Choice: its own condition, where that decides the test."""
    answers = [test(o) for o in choice.options]
    if isinstance(answers[0], bool) and answers[0] is answers[1]:
        return answers[0]
    if answers[0] is True and answers[1] is False:
        return Scalar(choice.condition)
    if answers[0] is False and answers[1] is True:
        return scalar_op("ScalarNot", Scalar(choice.condition))
    return for_each(ev, choice, test)


def for_each(ev: Evaluator, choice: Choice, function: Callable[[Any], Any]) -> Any:
    """``function`` of whichever alternative is picked when the graph runs."""
    picker, options = choice.pickers()[0]
    return choose(ev, picker, [partial(function, o) for o in options])


def each_text(ev: Evaluator, values: list[Any], run: Callable[..., Any]) -> Any:
    """``run(*values)``, with each alternative of the strings among them that Tensors choose."""
    values = [ev.facts.resolve(v) for v in values]
    found = next((i for i, v in enumerate(values) if is_text_choice(v)), None)
    if found is None:
        return run(*values)
    before, rest = values[:found], values[found + 1 :]
    return for_each(ev, values[found], lambda o: each_text(ev, [*before, o, *rest], run))


def settled(ev: Evaluator, values: list[Any], run: Callable[[list[Any]], Any]) -> Any:
    """``run(values)``, in arms that resolve each Choice in them, also within containers."""
    pending: list[Choice] = []

    def walk(value: Any) -> Any:
        value = ev.facts.resolve(value)
        refuse_size(value)
        if isinstance(value, Choice):
            pending.append(value)
        if type(value) in (list, tuple):
            return type(value)(map(walk, value))
        return {k: walk(v) for k, v in value.items()} if type(value) is dict else value

    copy = walk(values)
    if not pending:
        return run(copy)
    picker, options = pending[0].pickers()[0]
    return choose(ev, picker, [partial(settled, ev, values, run)] * len(options))


def pick(ev: Evaluator, condition: Condition, if_true: Any, if_false: Any) -> Any:
    """One of two values."""
    return choose(ev, condition, [lambda: if_true, lambda: if_false])


def contains(ev: Evaluator, container: Any, item: Any) -> Any:
    """``item in container``."""
    if is_text_choice(container) or is_text_choice(item):
        return each_text(ev, [container, item], lambda c, i: contains(ev, c, i))
    refuse_choice(container, "a container")
    if isinstance(container, Tensor):
        found = ops.equal(container, item).any()
        return apply(REGISTRY["TensorToScalar"].bound(kind=bool), found)
    if method := python_method(container, "__contains__"):
        return as_value(truth(ev, ev.call(method, [container, item], {})))
    plain = isinstance(container, (bytes, range, dict, set)) and not is_symbolic(item)
    if plain or (isinstance(container, str) and not isinstance(item, Text)):
        return item in container
    if isinstance(container, (dict, set)) and isinstance(item, Tensor):
        return any(is_same(ev, item, key) for key in container)  # Tensors hash by identity
    it = ev.iterator(container)

    def rest() -> Any:
        for candidate in it:
            if candidate is item:
                return True
            equal = truth(ev, ev.operate(operator.eq, candidate, item))
            if isinstance(equal, Node):
                return choose(ev, equal, [lambda: True, rest])
            if equal:
                return True
        return False

    return rest()


def check(ev: Evaluator, condition: Condition, kind: Callable, args: Sequence[Any]) -> Exit:
    """Emit a Check, which raises ``kind(*args)``; one that always fails ends the block."""
    if condition is False:
        ev.throw(kind, args)
    if any(isinstance(v, Parameter) for v in args):
        raise UnsupportedError(
            "a Parameter cannot be part of an error in a compiled graph: use its value()"
        )

    def emit(values: list[Any]) -> None:
        leaves, structure = flatten(tuple(values), is_run_time)
        prim = REGISTRY["Check"].bound(exception=kind, structure=structure)
        apply(prim, as_value(condition), *leaves)

    settled(ev, list(args), emit)
    return Exit(RAISE) if condition is False else Exit(GO_ON)


def choose(ev: Evaluator, condition: Condition, arms: list[Callable[[], Any]]) -> Any:
    """The value of one of several expressions."""
    if isinstance(condition, bool):
        return arms[0 if condition else 1]()
    exit = branch(ev, condition, [partial(_returning, arm) for arm in arms])
    if exit.may == {RAISE}:
        raise Unreachable
    return ev.readable(exit.value, "the value of this expression")


def _returning(expression: Callable[[], Any]) -> Exit:
    return Exit(RETURN, expression())


def branch(ev: Evaluator, condition: Node, arms: list[Arm]) -> Exit:
    """Evaluate all arms, merge what they wrote, and return the common exit.

    A bool condition picks one of two arms, an int the arm of that number.
    """
    arm = arm_taken(ev, condition) if isinstance(condition.abstract, AbstractScalar) else None
    if arm is not None:
        return arms[arm]()
    results = [_evaluate_arm(ev, condition, k, arm) for k, arm in enumerate(arms)]
    regions = [r for r, _, _ in results]
    owner = SwitchNode(ev.region, ev.origin, condition, regions)
    for region in regions:
        region.owner = owner
    return Merge(ev, owner, results).run()


def _evaluate_arm(ev: Evaluator, condition: Node, k: int, arm: Arm) -> tuple[Region, Exit, dict]:
    is_index = condition.abstract == AbstractScalar(int)
    name = f"item_{k}" if is_index else ("if_true", "if_false")[k]
    origin, where = ev.origin, ev.frame.where
    region = Region(ev.region, "arm", name, origin)
    with ev.facts.within(condition, k), ev.within(region, keeps=False):
        try:
            exit = arm()
        except Unreachable:
            exit = Exit(RAISE)
        changes = region.changes(ev.births)
    ev.origin, ev.frame.where = origin, where
    return region, exit, changes


def is_code(ev: Evaluator, code: Any, value: int) -> Condition:
    """The condition ``code == value``."""
    if isinstance(code, Scalar):
        return known(ev, scalar_op("ScalarEqual", code, value).node)
    return code == value


def go_on_if(ev: Evaluator, exit: Exit, rest: Arm) -> Exit:
    """Run the rest of a block on those paths that go on."""
    if GO_ON not in exit.may:
        return exit
    left = exit.without(GO_ON)
    condition = is_code(ev, exit.code, GO_ON)
    if isinstance(condition, bool):
        return rest() if condition else left
    return branch(ev, condition, [rest, lambda: left])
