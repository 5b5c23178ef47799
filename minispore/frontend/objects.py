"""Items and iteration, on objects of the Python world and on objects made here."""

from __future__ import annotations

import operator
import types
from collections import defaultdict
from collections.abc import MappingView
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from minispore.dims import Dim
from minispore.frontend.control import as_value, branch, check, choose, each_text, for_each, truth
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import GO_ON, RAISE, Exit, Unreachable
from minispore.frontend.heap import END, Choice, Lazy
from minispore.frontend.loops import SymbolicRange
from minispore.frontend.values import (
    constant_or_number,
    is_text_choice,
    python_method,
    refuse_choice,
)
from minispore.ir.node import Node, ValueNode, is_call_of
from minispore.symbolic import NeedConstant, Scalar
from minispore.tensor import Tensor

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


def get_item(ev: Evaluator, obj: Any, index: Any) -> Any:
    """``obj[index]``."""
    if is_text_choice(obj) or is_text_choice(index):
        return each_text(ev, [obj, index], lambda o, i: get_item(ev, o, i))
    if isinstance(obj, Choice):
        return for_each(ev, obj, lambda o: get_item(ev, o, index))
    refuse_choice(obj, "what is indexed")
    refuse_choice(index, "an index")
    if isinstance(index, Dim) and not isinstance(obj, Tensor):
        index = constant_or_number(index)
    if method := python_method(obj, "__getitem__"):
        return ev.call(method, [obj, index], {})
    if isinstance(obj, (list, tuple, dict)) and _varies(obj, index):
        return _pick_item(ev, obj, index)
    factory = obj.default_factory if isinstance(obj, defaultdict) else None
    if factory is not None and index not in obj:
        set_item(ev, obj, index, ev.call(factory, [], {}))
    out = obj[index]
    if isinstance(obj, (list, tuple, dict)):
        return ev.born(out) if isinstance(index, slice) else ev.readable(out, "the item")
    return out


def set_item(ev: Evaluator, obj: Any, index: Any, value: Any) -> None:
    """``obj[index] = value``."""
    refuse_choice(obj, "what is indexed")
    refuse_choice(index, "an index")
    if isinstance(index, Dim) and not isinstance(obj, Tensor):
        index = constant_or_number(index)
    if isinstance(obj, Tensor):
        obj[index] = value
    elif method := python_method(obj, "__setitem__"):
        ev.call(method, [obj, index, value], {})
    elif hasattr(type(obj), "__setitem__") and not isinstance(obj, (list, dict)):
        ev.check_writable(obj)
        raise UnsupportedError(
            f"the items of a {type(obj).__name__} cannot be written in a compiled graph: "
            "use a list, dict or Tensor"
        )
    else:
        if isinstance(index, slice):
            value = ev.iterate(value)
        ev.touch_items(obj)
        if isinstance(obj, list) and _varies(obj, index):
            place = _place(ev, obj, index, "list assignment")
            branch(ev, place, [partial(_write_item, ev, obj, k, value) for k in range(len(obj))])
        else:
            obj[index] = value


def _write_item(ev: Evaluator, items: list, k: int, value: Any) -> Exit:
    ev.region.touch(items)
    items[k] = value
    return Exit(GO_ON)


def _varies(obj: Any, index: Any) -> bool:
    """True for an index known at run time (a Tensor is a dict key by its identity)."""
    return isinstance(index, Scalar) or (isinstance(index, Tensor) and not isinstance(obj, dict))


def _pick_item(ev: Evaluator, obj: Any, index: Any) -> Any:
    """``obj[index]`` with an index or key known at run time."""
    if isinstance(obj, dict):
        return _pick_by_key(ev, obj, index)
    place = _place(ev, obj, index, type(obj).__name__)
    return choose(ev, place, [partial(ev.readable, v, "the item") for v in obj])


def _place(ev: Evaluator, items: list | tuple, index: Any, name: str) -> Node:
    """An index known at run time, counted from the front; a Check says that it is in range."""
    if ev.keeping:
        raise NeedConstant("an index")  # a loop that needs it is unrolled
    n = len(items)
    index = ev.call(operator.index, [index], {})
    if not _is_below(index.node, n):
        inside = truth(ev, (index >= -n) & (index < n)) if n else False
        if check(ev, inside, IndexError, [f"{name} index out of range"]).may == {RAISE}:
            raise Unreachable
        index = index % n
    return index.node


def _is_below(node: Node, n: int) -> bool:
    """True if an int is certainly one of ``range(n)``: ``i % n`` is."""
    divisor = node.inputs[1] if is_call_of(node, "ScalarMod") else None
    return isinstance(divisor, ValueNode) and 0 < divisor.value <= n


def _pick_by_key(ev: Evaluator, obj: dict, key: Any) -> Any:
    """``obj[key]`` with a number known at run time."""
    keys = list(obj)
    if ev.keeping or not all(isinstance(k, (bool, int, float)) for k in keys):
        raise NeedConstant("a key", "use numbers as keys, or an if for each")  # see _place
    found = [truth(ev, key == k) for k in keys]
    some = reduce(operator.or_, map(as_value, found), False)
    if check(ev, truth(ev, some), KeyError, [key]).may == {RAISE}:
        raise Unreachable

    def item(n: int) -> Any:
        value = lambda: ev.readable(obj[keys[n]], "the item")  # noqa: E731
        last = n == len(keys) - 1
        return value() if last else choose(ev, found[n], [value, lambda: item(n + 1)])

    return item(0)


# ------------------------------------------------------------------------------- iteration


def iterate(ev: Evaluator, value: Any) -> Lazy:
    """``iter(value)``, for an iterable whose length is known."""
    refuse_choice(value, "what is iterated over")
    if isinstance(value, Lazy):
        return value
    if isinstance(value, SymbolicRange):
        raise NeedConstant(
            "the length of a range that depends on a Tensor", "loop over it with a for statement"
        )
    method = python_method(value, "__iter__")
    if isinstance(value, types.GeneratorType) or (method and hasattr(type(value), "__next__")):
        raise UnsupportedError(
            "a generator or iterator of one's own cannot be part of a compiled graph: use a list"
        )
    if method:
        return iterate(ev, ev.call(method, [value], {}))
    live = isinstance(value, (list, Tensor, range))  # a list may grow while it is iterated over
    items = value if live and iter(value) else tuple(value)
    size = len(value) if isinstance(value, (dict, set, MappingView)) else None

    def advance(it: Lazy) -> Any:
        if size is not None and len(value) != size:
            kind = "Set" if isinstance(value, set) else "dictionary"
            raise RuntimeError(f"{kind} changed size during iteration")
        i = it.slots["at"]
        if isinstance(i, Scalar):
            raise NeedConstant("the position of an iterator", "go through the items by an index")
        if i >= len(items):
            return END
        move(ev, it, at=i + 1)
        return ev.readable(items[i], "an item")

    return ev.born(Lazy(advance, at=0))


def move(ev: Evaluator, it: Lazy, **slots: Any) -> None:
    """Change the position of an iterator."""
    ev.region.touch(it)
    it.slots = it.slots | slots
