"""Items and iteration, on objects of the Python world and on objects made here."""

from __future__ import annotations

import types
from collections import defaultdict
from collections.abc import MappingView
from typing import TYPE_CHECKING, Any

from minispore.frontend.control import each_text
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import is_text_choice, refuse_choice
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
    if isinstance(obj, dict) and isinstance(index, Scalar):
        raise NeedConstant("a dict key")
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
        obj[index] = value


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
