"""What goes round the loops of loops.py: values that keep their type."""

from __future__ import annotations

import operator
from typing import Any

from minispore.abstract import AbstractTensor
from minispore.dims import same_shape
from minispore.primitive import ScalarLike, TensorLike
from minispore.tree import PLAIN, NeedConstant, Structure, Text, flatten, unflatten

_ITEMS = (TensorLike, ScalarLike, bool, int, float, str, Text, type(None))


def check_callable(op: str, **functions: Any) -> None:
    """TypeError unless all of these can be called."""
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"{op}'s {name} must be a function, not {type(function).__name__}")


def check_bound(op: str, name: str, value: Any) -> None:
    """TypeError unless a value is an int or a Tensor."""
    if kind_of(value) is not int and not isinstance(value, TensorLike):
        kind = kind_of(value).__name__
        raise TypeError(f"{op}'s {name} must be an int or a Tensor, not {kind}")


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
    if kind_of(length) is not int:
        raise TypeError(f"Scan's length must be an int, not {kind_of(length).__name__}")
    length = operator.index(length)  # of a size of an input, the constant
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
    if not _of_one_type(before, after):
        raise TypeError(
            f"{op}'s loop_func was given {type_text(before)} and returned {type_text(after)}: what "
            "goes round a loop must keep its type"
        )


def _of_one_type(a: Any, b: Any) -> bool:
    """True for Tensors of one dtype and shape, numbers of one kind, and containers of such."""
    if isinstance(a, TensorLike) and isinstance(b, TensorLike):
        return a.dtype is b.dtype and _of_one_shape(a.shape, b.shape)
    if kind_of(a) is not kind_of(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(_of_one_type, a.values(), b.values()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_of_one_type, a, b))
    return True


def _of_one_shape(a: tuple, b: tuple) -> bool:
    """True for equal sizes; of two that are not known, if that is so for the call at hand."""
    try:
        return len(a) == len(b) and all(m == n for m, n in zip(a, b, strict=True))
    except NeedConstant:  # a size depends on values
        return same_shape(a, b)


def kind_of(value: Any) -> type:
    """The type of a value; of a number that is marked, or known at run time only, the number's."""
    if isinstance(value, ScalarLike):
        return value.kind
    kind = PLAIN.get(type(value), type(value))
    return next((kind for kind in (bool, int, float) if isinstance(value, kind)), kind)


def type_text(value: Any) -> str:
    """The type of a value in words: of a Tensor with dtype and shape, of a container with items."""
    if isinstance(value, TensorLike):
        return str(AbstractTensor(value.dtype, value.shape))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {type_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(type_text, value))})"
    return "None" if value is None else kind_of(value).__name__


def _is_item(value: Any) -> bool:
    named = isinstance(value, tuple) and hasattr(value, "_fields")
    return not named and type(value) not in (list, tuple, dict)
