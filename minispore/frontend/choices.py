"""Choices: a value that is one of several, as Tensors decide, and what tells these apart.

A Choice is a chain: a, if it is a; else b, if it is b; else c.  Where it is carried round a loop or
returned by a recursion it is a number, that of one of its options.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from minispore.frontend.heap import Choice, Closure, Lazy
from minispore.ir.node import Node
from minispore.primitive import ScalarLike, is_number
from minispore.symbolic import Scalar, scalar_op
from minispore.tensor import Tensor


def chain_of(value: Any) -> dict[Any, tuple[Any, Node | None]]:
    """The alternatives of a value, by what tells them apart, and the conditions that pick them."""
    chain: dict[Any, tuple[Any, Node | None]] = {}
    while isinstance(value, Choice):
        option, rest = value.options
        chain[mark(option)] = (option, value.condition)
        value = rest
    chain[mark(value)] = (value, None)
    return chain


def mark(value: Any) -> Any:
    """What tells alternatives apart; functions of one text and scope are the same."""
    if isinstance(value, Closure):
        defaults = [*value.defaults, *value.kw_defaults.values()]
        return (id(value.code.node), id(value.env), *map(id, defaults))
    if isinstance(value, Tensor):
        return value._abstract
    if is_number(value):
        return kind_of(value)
    if isinstance(value, tuple):
        return (type(value), *map(mark, value))
    return value if type(value) is str else id(value)


def kind_of(value: Any) -> type:
    """bool, int or float, for a number."""
    return value.kind if isinstance(value, ScalarLike) else type(value)


def can_be_chosen(values: list[Any]) -> bool:
    """True if a Choice may be of these values: of numbers and containers only beside None."""
    alternatives = [a for v in values for a, _ in chain_of(v).values()]
    if any(map(is_number, alternatives)) and any(isinstance(a, Tensor) for a in alternatives):
        return False
    if any(
        isinstance(a, (Lazy, ScalarLike, bool, int, float, list, dict, set)) for a in alternatives
    ):
        return any(a is None for a in alternatives)
    return True


def none_first(marks: Iterable[Any]) -> list[Any]:
    """Marks in an order in which None is picked first, so that ``is None`` decides a Choice."""
    return sorted(marks, key=lambda m: m != mark(None))


def chained(conditions: Sequence[Any], options: Sequence[Any]) -> Any:
    """The first option whose condition, a bool or a Scalar, holds; the last one has none."""
    *firsts, value = options
    for condition, option in zip(reversed(conditions), reversed(firsts), strict=True):
        value = Choice(condition, option, value) if isinstance(condition, Scalar) else option
    return value


def numbered(options: Sequence[Any], number: Any) -> Any:
    """The option of a number that is known at run time."""
    conditions = [scalar_op("ScalarEqual", number, i) for i in range(len(options) - 1)]
    return chained(conditions, options)


def number_of(options: Sequence[Any], value: Any) -> Any:
    """The number of the option that a value is."""
    if isinstance(value, Choice):
        first, second = (number_of(options, o) for o in value.options)
        return scalar_op("ScalarPick", Scalar(value.condition), second, first)
    return [mark(o) for o in options].index(mark(value))
