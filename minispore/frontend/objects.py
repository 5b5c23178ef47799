"""Items and iteration, on objects of the Python world and on objects made here."""

from __future__ import annotations

import operator
import types
from collections import defaultdict
from collections.abc import MappingView
from functools import reduce
from typing import TYPE_CHECKING, Any

from minispore.frontend.control import as_value, check, choose, each_text, pick, truth
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import Condition, Unreachable, is_text_choice, refuse_choice
from minispore.frontend.heap import END, Lazy
from minispore.frontend.loops import SymbolicRange
from minispore.symbolic import NeedConstant, Scalar
from minispore.tensor import Tensor

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


def get_item(ev: Evaluator, obj: Any, index: Any) -> Any:
    """``obj[index]``."""
    if is_text_choice(obj) or is_text_choice(index):
        return each_text(ev, [obj, index], lambda o, i: get_item(ev, o, i))
    refuse_choice(obj, "what is indexed")
    refuse_choice(index, "an index")
    method = getattr(type(obj), "__getitem__", None)
    if isinstance(method, types.FunctionType) and not isinstance(obj, Tensor):
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
    method = getattr(type(obj), "__setitem__", None)
    if isinstance(obj, Tensor):
        obj[index] = value
    elif isinstance(method, types.FunctionType):
        ev.call(method, [obj, index, value], {})
    elif method is not None and not isinstance(obj, (list, dict)):
        ev.check_writable(obj)
        raise UnsupportedError(
            f"the items of a {type(obj).__name__} cannot be written in a compiled graph: "
            "use a list, dict or Tensor"
        )
    else:
        ev.check_writable(obj)
        if isinstance(index, slice):
            value = ev.iterate(value)
        ev.region.touch(obj)
        if isinstance(obj, list) and _varies(obj, index):
            for k, chosen in _positions(ev, obj, index):
                obj[k] = pick(ev, chosen, value, obj[k])
        else:
            obj[index] = value


def _varies(obj: Any, index: Any) -> bool:
    """True for an index known at run time (a Tensor is a dict key by its identity)."""
    return isinstance(index, Scalar) or (isinstance(index, Tensor) and not isinstance(obj, dict))


def _positions(ev: Evaluator, obj: Any, index: Any) -> list[tuple[Any, Condition]]:
    """The keys of a list, tuple or dict, each with the condition that it is the index."""
    keys = list(obj) if isinstance(obj, dict) else list(range(len(obj)))
    if ev.keeping or not all(isinstance(k, (bool, int, float)) for k in keys):
        raise NeedConstant("an index or key")  # a loop that needs it is unrolled
    error: BaseException = KeyError(index)
    if not isinstance(obj, dict):
        error = IndexError(f"{type(obj).__name__} index out of range")
        index = ev.call(operator.index, [index], {})
        negative = truth(ev, index < 0)
        index = pick(ev, negative, index + len(obj), index)
    found = [truth(ev, index == k) for k in keys]
    some = reduce(operator.or_, map(as_value, found), False)
    check(ev, truth(ev, some), type(error), error.args)
    return list(zip(keys, found, strict=True))


def _pick_item(ev: Evaluator, obj: Any, index: Any) -> Any:
    """``obj[index]`` with an index known at run time."""
    places = _positions(ev, obj, index)

    def item(n: int) -> Any:
        key, chosen = places[n]
        if n == len(places) - 1:
            return ev.readable(obj[key], "the item")
        return choose(ev, chosen, [lambda: ev.readable(obj[key], "the item"), lambda: item(n + 1)])

    if not places:
        raise Unreachable  # the check has failed
    return item(0)


# ------------------------------------------------------------------------------- iteration


def iterate(ev: Evaluator, value: Any) -> Lazy:
    """``iter(value)``, for an iterable whose length is known."""
    refuse_choice(value, "what is iterated over")
    if isinstance(value, Lazy):
        return value
    if isinstance(value, SymbolicRange):
        raise NeedConstant("the length of a range that depends on a Tensor")
    method = getattr(type(value), "__iter__", None)
    own = isinstance(method, types.FunctionType) and not isinstance(value, Tensor)
    if isinstance(value, types.GeneratorType) or (own and hasattr(type(value), "__next__")):
        raise UnsupportedError(
            "a generator or iterator of one's own cannot be part of a compiled graph: use a list"
        )
    if own:
        return iterate(ev, ev.call(method, [value], {}))
    live = isinstance(value, (list, Tensor, range))  # a list may grow while it is iterated over
    items = value if live and iter(value) else tuple(value)
    size = len(value) if isinstance(value, (dict, set, MappingView)) else None

    def advance(it: Lazy) -> Any:
        if size is not None and len(value) != size:
            raise RuntimeError(f"{_kind_of_view(value)} changed size during iteration")
        i = it.slots["at"]
        if isinstance(i, Scalar):
            raise NeedConstant("the position of an iterator")
        if i >= len(items):
            return END
        move(ev, it, at=i + 1)
        return ev.readable(items[i], "an item")

    return ev.born(Lazy(advance, at=0))


def _kind_of_view(value: Any) -> str:
    return "Set" if isinstance(value, set) else "dictionary"


def move(ev: Evaluator, it: Lazy, **slots: Any) -> None:
    """Change the position of an iterator."""
    ev.region.touch(it)
    it.slots = it.slots | slots
