"""What the arms around us say of conditions: ``if x > 0:`` within ``if x > 0:`` is decided.

So is a Choice by that condition: within the arm it is one of its alternatives.

A condition that is computed again is another node; what counts is its form: nodes of one form, made
of the same operands by the same pure primitives, have one number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minispore.abstract import AbstractScalar
from minispore.frontend.heap import Choice
from minispore.ir.compare import constant_key
from minispore.ir.node import CNode, Node, ValueNode, is_call_of
from minispore.primitive import Primitive


class Facts:
    """The conditions of the arms that we are in, by their forms."""

    def __init__(self) -> None:
        self.arms: dict[int, int] = {}  # number of a condition's form -> the arm we are in
        self.numbers: dict[Node, int] = {}  # of the forms of nodes
        self.forms: dict[Hashable, int] = {}

    @contextmanager
    def within(self, condition: Node, arm: int) -> Iterator[None]:
        """Know that a Switch by a condition, a bool or an int, took an arm."""
        if not isinstance(condition.abstract, AbstractScalar):
            yield
            return
        plain, flipped = _without_not(condition)
        number = self.number(plain)
        self.arms[number] = arm ^ flipped
        try:
            yield
        finally:
            del self.arms[number]

    def arm(self, condition: Node) -> int | None:
        """The arm that a Switch by a condition takes, if the arms around us say it."""
        if not self.arms:
            return None
        plain, flipped = _without_not(condition)
        arm = self.arms.get(self.number(plain))
        return None if arm is None else arm ^ flipped

    def resolve(self, value: Any) -> Any:
        """A value; of a Choice that these arms decide, what it is in them."""
        while isinstance(value, Choice):
            for picker, options in value.pickers():
                arm = self.arm(picker)
                if arm is not None:
                    value = options[arm]
                    break
            else:
                return value
        return value

    def alike(self, some: Sequence[Node], others: Sequence[Node]) -> bool:
        """True if nodes are, one by one, the same values by their form."""
        return [*map(self.number, some)] == [*map(self.number, others)]

    def number(self, node: Node) -> int:
        """The number of a node's form, found after those of its operands."""
        todo = [node]
        while todo:
            top = todo[-1]
            if top not in self.numbers:
                operands = top.inputs if _is_pure(top) else ()
                waiting = [i for i in operands if i not in self.numbers]
                if waiting:
                    todo += waiting
                    continue
                self.numbers[top] = self.forms.setdefault(self._form(top), len(self.forms))
            todo.pop()
        return self.numbers[node]

    def _form(self, node: Node) -> Hashable:
        if isinstance(node, ValueNode):
            return constant_key(node)
        if isinstance(node, CNode) and _is_pure(node):
            return (node.callee, *(self.numbers[i] for i in node.inputs))
        return node  # it is like itself only


def _is_pure(node: Node) -> bool:
    callee = node.callee if isinstance(node, CNode) else None
    return isinstance(callee, Primitive) and not callee.effect


def _without_not(node: Node) -> tuple[Node, bool]:
    flipped = False
    while is_call_of(node, "ScalarNot"):
        node, flipped = node.inputs[0], not flipped
    return node, flipped
