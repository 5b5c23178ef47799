"""What goes round the loops of loops.py: values that keep their type."""

from __future__ import annotations

from typing import Any

from minispore.abstract import AbstractTensor
from minispore.primitive import ScalarLike, TensorLike
from minispore.tree import Structure, Text, flatten, unflatten

_ITEMS = (TensorLike, ScalarLike, bool, int, float, str, Text, type(None))


def check_callable(op: str, **functions: Any) -> None:
    """TypeError unless all of these can be called."""
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"{op}'s {name} must be a function, not {type(function).__name__}")


def check_bound(op: str, name: str, value: Any) -> None:
    """TypeError unless a value is an int or a Tensor."""
    kind = value.kind if isinstance(value, ScalarLike) else type(value)
    if kind is not int and not isinstance(value, TensorLike):
        raise TypeError(f"{op}'s {name} must be an int or a Tensor, not {kind.__name__}")


def check_bool(op: str, name: str, value: Any) -> None:
    """TypeError unless a value is a bool."""
    if type(value) is not bool:
        raise TypeError(f"{op}'s {name} must be a bool, not {type(value).__name__}")


def taken_apart(op: str, value: Any) -> tuple[tuple, Structure]:
    """The items of a value, with what ``unflatten`` needs to put them together again.

    Raises:
        TypeError: an item is no Tensor, number, string or None.
    """
    items, structure = flatten(value, _is_item)
    for item in items:
        if not isinstance(item, _ITEMS):
            raise TypeError(
                f"what goes round {op} is a Tensor, number or string, or a tuple, list or dict of "
                f"such, not {type(item).__name__}"
            )
    return tuple(items), structure


def next_items(op: str, structure: Structure, items: tuple, value: Any) -> tuple:
    """The items of the next value, of which the last one had `items`.

    Raises:
        TypeError: it is of another type.
    """
    check_type(op, unflatten(structure, items), value)
    return taken_apart(op, value)[0]


def items_to_scan(xs: Any, length: Any) -> list:
    """What Scan goes over: the items of `xs`, or `length` times None."""
    if not isinstance(xs, (list, tuple, type(None))):
        raise TypeError(f"Scan's xs must be a tuple, a list or None, not {type(xs).__name__}")
    if length is None and xs is not None:
        return list(xs)
    if type(length) is not int:
        raise TypeError(f"Scan's length must be an int, not {type(length).__name__}")
    items = [None] * length if xs is None else list(xs)
    if len(items) != length:
        raise ValueError(f"Scan's length is {length}, which is not the number of items of xs")
    return items


def checked_pair(value: Any, result: Any) -> tuple:
    """What Scan's function returned for `value`: the next value, and what is kept."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise ValueError(f"Scan's loop_func must return a pair, not {type_text(result)}")
    check_type("Scan", value, result[0])
    return result


def check_type(op: str, before: Any, after: Any) -> None:
    """TypeError unless two values are of one type."""
    was, now = type_text(before), type_text(after)
    if was != now:
        raise TypeError(
            f"{op}'s loop_func was given {was} and returned {now}: what goes round a loop must "
            "keep its type"
        )


def type_text(value: Any) -> str:
    """The type of a value in words: of a Tensor with dtype and shape, of a container with items."""
    if isinstance(value, TensorLike):
        return str(AbstractTensor(value.dtype, value.shape))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {type_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(type_text, value))})"
    return "None" if value is None else type(value).__name__


def _is_item(value: Any) -> bool:
    named = isinstance(value, tuple) and hasattr(value, "_fields")
    return not named and type(value) not in (list, tuple, dict)
