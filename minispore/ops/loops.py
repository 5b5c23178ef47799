"""Control flow as functions: WhileLoop, ForiLoop, Scan, and cond.

They are Python's loops, written out.  PyNative mode runs them as they are; in a compiled function
the front end evaluates their source like the user's own, so that a loop becomes a While where a
Tensor decides how often it runs, and has gradients.  What goes round a loop keeps its type; it goes
round as the tuple of its items, for a While has no place for the identity of a list or dict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minispore.ops.carry import (
    check_bool,
    check_bound,
    check_callable,
    checked_pair,
    items_to_scan,
    next_items,
    taken_apart,
)
from minispore.tree import unflatten


def cond(pred: Any, true_func: Callable, false_func: Callable, *operands: Any) -> Any:
    """``true_func(*operands)`` if `pred` is true, else ``false_func(*operands)``.

    Args:
        pred: a bool, number or Tensor of one element.
        true_func, false_func: take the operands; if a Tensor decides, both return one type.

    Raises:
        TypeError: a function cannot be called; in a compiled function, also if they return values
            of two types.

    MindSpore: the ``if`` statement (the name and the arguments are JAX's; MindSpore's ``ops.cond``
    is a matrix's condition number).
    """
    check_callable("cond", true_func=true_func, false_func=false_func)
    if pred:
        return true_func(*operands)
    return false_func(*operands)


def while_loop(cond_func: Callable, loop_func: Callable, init_val: Any) -> Any:
    """Apply a function again and again, as long as another says so.

    Args:
        cond_func: takes the value; returns a bool, number or Tensor of one element.
        loop_func: takes the value; returns the next one, of the same type (dtypes and shapes,
            lengths and keys).
        init_val: the first value: a Tensor, number or string, or a tuple, list or dict of such.

    Returns:
        The last value.  Lists and dicts are new ones.

    Raises:
        TypeError: a function cannot be called, `init_val` is something else, or `loop_func` changes
            the type of the value.

    MindSpore: ``ops.WhileLoop()(cond_func, loop_func, init_val)``.
    """
    check_callable("WhileLoop", cond_func=cond_func, loop_func=loop_func)
    items, structure = taken_apart("WhileLoop", init_val)
    while cond_func(unflatten(structure, items)):
        items = next_items("WhileLoop", structure, items, loop_func(unflatten(structure, items)))
    return unflatten(structure, items)


def fori_loop(
    lower: Any, upper: Any, loop_func: Callable, init_val: Any, unroll: bool = True
) -> Any:
    """Apply a function once for each int from `lower` to below `upper`.

    Args:
        lower, upper: ints, or integer Tensors of one element.
        loop_func: takes the int and the value; returns the next value, of the same type.
        init_val: the first value, as for ``while_loop``.
        unroll: changes nothing, for a compiled function unrolls what needs to be unrolled.

    Returns:
        The last value.  Lists and dicts are new ones.

    Raises:
        TypeError: an argument is of another type, or `loop_func` changes the type of the value.

    MindSpore: ``ops.ForiLoop()(lower, upper, loop_func, init_val, unroll=True)``.
    """
    check_bound("ForiLoop", "lower", lower)
    check_bound("ForiLoop", "upper", upper)
    check_callable("ForiLoop", loop_func=loop_func)
    check_bool("ForiLoop", "unroll", unroll)
    items, structure = taken_apart("ForiLoop", init_val)
    for i in range(lower, upper):
        items = next_items("ForiLoop", structure, items, loop_func(i, unflatten(structure, items)))
    return unflatten(structure, items)


def scan(
    loop_func: Callable, init: Any, xs: Any, length: int | None = None, unroll: bool = True
) -> tuple[Any, list]:
    """Apply a function to a value and each of several items, and keep what it makes of each.

    Args:
        loop_func: takes the value and an item; returns a pair: the next value, of the same type,
            and what is kept.
        init: the first value, as for ``while_loop``.
        xs: a tuple or list of items of any types; or None, for `length` times None.
        length: the number of items.
        unroll: changes nothing, as for ``fori_loop``.

    Returns:
        The last value, and the list of what was kept.

    Raises:
        TypeError: an argument is of another type, or `loop_func` changes the type of the value.
        ValueError: `length` is another than that of `xs`, or `loop_func` returns no pair.

    MindSpore: ``ops.Scan()(loop_func, init, xs, length=None, unroll=True)``.
    """
    check_callable("Scan", loop_func=loop_func)
    check_bool("Scan", "unroll", unroll)
    value, kept = init, []
    for x in items_to_scan(xs, length):
        value, y = checked_pair(value, loop_func(value, x))
        kept.append(y)
    return value, kept


class WhileLoop:
    """``while_loop`` as an object."""

    def __call__(self, cond_func: Callable, loop_func: Callable, init_val: Any) -> Any:
        return while_loop(cond_func, loop_func, init_val)


class ForiLoop:
    """``fori_loop`` as an object."""

    def __call__(
        self, lower: Any, upper: Any, loop_func: Callable, init_val: Any, unroll: bool = True
    ) -> Any:
        return fori_loop(lower, upper, loop_func, init_val, unroll)


class Scan:
    """``scan`` as an object."""

    def __call__(
        self,
        loop_func: Callable,
        init: Any,
        xs: Any,
        length: int | None = None,
        unroll: bool = True,
    ) -> tuple[Any, list]:
        return scan(loop_func, init, xs, length, unroll)
