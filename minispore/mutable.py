"""Numbers that a compiled graph takes as inputs: another number is no reason to compile again."""

from __future__ import annotations

from typing import Any

from minispore.ops.structural import checked_int
from minispore.primitive import ScalarLike, TensorLike
from minispore.tree import MarkedDict, MarkedList, MarkedTuple


class Mutable:
    """What `mutable` makes of a number: it still is one, and `plain` gives it without the mark."""

    def plain(self) -> int | float:
        """The number alone; OverflowError for an int that no graph can hold."""
        raise NotImplementedError


class MutableInt(int, Mutable):
    """An int that varies."""

    def plain(self) -> int:
        return checked_int(int(self))


class MutableFloat(float, Mutable):
    """A float that varies."""

    def plain(self) -> float:
        return float(self)


def mutable(input_data: Any, dynamic_len: bool = False) -> Any:
    """The same value, in which ints and floats are inputs of a compiled graph, not constants.

    Such a number is known only when the graph runs, like a Tensor: ``f(x, mutable(3))`` and
    ``f(x, mutable(4))`` share a graph.  Tensors are inputs anyway, and a bool stays a constant: of
    True and False each gets a graph.  So does each length of a tuple, list or dict, whatever
    `dynamic_len` says.

    ``grad`` by a tuple, list or dict that this function gave (outside of graphs) returns gradients
    in its structure, with 0 for numbers.  Any other has no gradient.

    Args:
        input_data: a Tensor, a number, or (nested) tuples, lists and dicts of them.

    Raises:
        TypeError: anything else is in `input_data`; or `dynamic_len` is True, and it is no tuple or
            list.

    MindSpore: ``mindspore.mutable``.
    """
    if dynamic_len and not isinstance(input_data, (tuple, list)):
        kind = type(input_data).__name__
        raise TypeError(f"mutable: dynamic_len=True is for a tuple or list, not {kind}")
    return _marked(input_data)


def _marked(value: Any) -> Any:
    if isinstance(value, (TensorLike, ScalarLike, bool)):
        return value
    if isinstance(value, (int, float)):
        return MutableInt(value) if isinstance(value, int) else MutableFloat(value)
    if type(value) in (dict, MarkedDict):
        return MarkedDict({k: _marked(v) for k, v in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_marked, value))
    if type(value) in (tuple, MarkedTuple):
        return MarkedTuple(map(_marked, value))
    if type(value) in (list, MarkedList):
        return MarkedList(map(_marked, value))
    raise TypeError(
        "mutable takes Tensors, numbers, and tuples, lists and dicts of them, not "
        f"{type(value).__name__} ({value!r:.40})"
    )
