"""Python's builtins inside a graph: on constants they are Python's own.

Only what needs a rule of its own stands here: numbers and truth known at run time, lazy iterators
(which become lists), print, and methods that write a list, dict or set.
"""

from __future__ import annotations

import builtins
import decimal
import fractions
import functools
import math
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from minispore.dims import Dim
from minispore.frontend import text
from minispore.frontend.attributes import set_attribute, set_plainly
from minispore.frontend.control import choose, each_text, for_each, pick, truth
from minispore.frontend.errors import UnsupportedError, hidden_state
from minispore.frontend.exits import Raised
from minispore.frontend.heap import END, UNSET, Choice, Closure, Lazy
from minispore.frontend.loops import SymbolicRange
from minispore.frontend.natives import native
from minispore.frontend.objects import iterate, move
from minispore.frontend.values import (
    constant_or_number,
    is_symbolic,
    is_text_choice,
    python_method,
    refuse_choice,
    type_name,
)
from minispore.mutable import mutable
from minispore.parameter import Parameter
from minispore.primitive import REGISTRY, ScalarLike, apply
from minispore.symbolic import NeedConstant, Scalar
from minispore.tensor import Tensor
from minispore.tree import Text

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

Handler = Callable[["Evaluator", list, dict], Any]
BUILTINS: dict[Any, Handler] = {}


def _builtin(function: Any) -> Callable[[Callable], Callable]:
    """Register the meaning of a builtin inside a graph."""

    def decorator(handler: Callable) -> Callable:
        BUILTINS[function] = lambda ev, args, kwargs: each_text(
            ev, args, lambda *now: handler(ev, *now, **kwargs)
        )
        return handler

    return decorator


def _pure(function: Any) -> None:
    """A builtin that is right as it is, given plain arguments."""

    def handler(ev: Evaluator, *args: Any, **kwargs: Any) -> Any:
        for value in [*args, *kwargs.values()]:
            refuse_choice(value, f"an argument of {function.__name__}")
        out = function(*args, **kwargs)
        return ev.born(out) if isinstance(out, (list, dict, set)) else out

    _builtin(function)(handler)


for _name in ("abs", "divmod", "round", "pow", "callable", "hash", "slice", "chr", "ord", "bytes",
              "bin", "hex", "oct", "object", "complex"):  # fmt: skip
    _pure(getattr(builtins, _name))


def _refuse(function: Any, advice: str) -> None:
    def handler(ev: Evaluator, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(
            f"'{function.__name__}' cannot be part of a compiled graph: {advice}"
        )

    _builtin(function)(handler)


for _name in ("open", "input", "exec", "eval", "compile", "__import__", "id", "globals", "locals",
              "vars", "dir", "breakpoint", "delattr"):  # fmt: skip
    _refuse(getattr(builtins, _name), "call it outside the compiled function")


# ------------------------------------------------------------------------------- numbers


def _number(kind: type) -> Handler:
    def convert(ev: Evaluator, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Tensor):
            return apply(REGISTRY["TensorToScalar"].bound(kind=kind), args[0])
        if len(args) == 1 and isinstance(args[0], ScalarLike):
            cast = REGISTRY["ScalarCast"].bound(kind=kind)
            return args[0] if args[0].kind is kind else apply(cast, args[0])
        for value in args:
            refuse_choice(value, f"the argument of {kind.__name__}")
            if isinstance(value, Text):
                raise NeedConstant(
                    "the number in a string that depends on a Tensor", "keep the number, too"
                )
        return kind(*args, **kwargs)

    return convert


@_builtin(operator.index)
def _index(ev: Evaluator, value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype.is_float:
        raise TypeError(f"only an integer Tensor can be used as an index, not {value.dtype}")
    if isinstance(value, Scalar) and value.kind is float:
        raise TypeError("'float' object cannot be interpreted as an integer")
    if isinstance(value, (Tensor, Scalar)):
        return ev.call(int, [value], {})
    return constant_or_number(value)


_builtin(int)(_number(int))
_builtin(float)(_number(float))


@_builtin(bool)
def _bool(ev: Evaluator, value: Any = False) -> Any:
    condition = truth(ev, value)
    return condition if isinstance(condition, bool) else Scalar(condition)


@_builtin(mutable)
def _mutable(ev: Evaluator, value: Any, dynamic_len: bool = False) -> Any:
    mutable(value, dynamic_len)  # for its errors: here a constant is one
    return value


@_builtin(len)
def _len(ev: Evaluator, value: Any) -> Any:
    refuse_choice(value, "the argument of len")
    if method := python_method(value, "__len__"):
        return ev.call(method, [value], {})
    return value.shape[0] if isinstance(value, Tensor) and value.shape else len(value)


@_builtin(range)
def _range(ev: Evaluator, *args: Any) -> Any:
    values = [_index(ev, a) for a in args]
    if not any(isinstance(v, Scalar) for v in values):
        return range(*values)
    start, stop, step = (0, values[0], 1) if len(values) == 1 else (*values, 1)[:3]
    if isinstance(step, Scalar):
        raise NeedConstant("the step of a range", "make it a constant, or count with while")
    return SymbolicRange(start, stop, step)


def _total(ev: Evaluator, function: Callable, items: Any, start: Any) -> Any:
    for item in iterate(ev, items):
        start = ev.operate(function, start, item)
    return start


_builtin(sum)(lambda ev, items, start=0: _total(ev, operator.add, items, start))
_builtin(math.prod)(lambda ev, items, *, start=1: _total(ev, operator.mul, items, start))


def _extreme(function: Any, is_max: bool) -> None:
    def handler(ev: Evaluator, *args: Any, key: Any = None, **default: Any) -> Any:
        items = list(iterate(ev, args[0])) if len(args) == 1 else list(args)
        if not items or not (key or any(is_symbolic(v) for v in items)):
            return function(*args, **default) if len(args) > 1 else function(items, **default)
        keys = [ev.call(key, [v], {}) if key else v for v in items]
        best, best_key = items[0], keys[0]
        for item, k in zip(items[1:], keys[1:], strict=True):
            better = truth(ev, ev.operate(operator.gt if is_max else operator.lt, k, best_key))
            best = pick(ev, better, item, best)
            best_key = best if key is None else pick(ev, better, k, best_key)
        return best

    _builtin(function)(handler)


_extreme(max, True)
_extreme(min, False)


def _quantifier(function: Any, is_and: bool) -> None:
    def handler(ev: Evaluator, items: Any) -> Any:
        it = iterate(ev, items)

        def rest() -> Any:
            for item in it:
                condition = truth(ev, item)
                if not isinstance(condition, bool):
                    arms = [rest, lambda: False] if is_and else [lambda: True, rest]
                    return choose(ev, condition, arms)
                if condition is not is_and:
                    return condition
            return is_and

        return rest()

    _builtin(function)(handler)


_quantifier(all, True)
_quantifier(any, False)


# ------------------------------------------------------------------------------- iterables


for _kind in (list, set, frozenset):
    _builtin(_kind)(lambda ev, items=(), kind=_kind: ev.born(kind(iterate(ev, items))))


@_builtin(tuple)
def _tuple(ev: Evaluator, items: Any = ()) -> Any:
    return items if type(items) is tuple else tuple(iterate(ev, items))


@_builtin(dict)
def _dict(ev: Evaluator, items: Any = (), **more: Any) -> Any:
    pairs = items if isinstance(items, dict) else [tuple(p) for p in iterate(ev, items)]
    refuse_choice(pairs, "the argument of dict")
    return ev.born(dict(pairs, **more))


@_builtin(functools.partial)
def _partial(ev: Evaluator, function: Any, *args: Any, **kwargs: Any) -> Any:
    return ev.born(functools.partial(function, *args, **kwargs))


@_builtin(functools.update_wrapper)
def _update_wrapper(ev: Evaluator, wrapper: Any, wrapped: Any, *_: Any, **__: Any) -> Any:
    """The wrapper itself: of what Python copies to it, a graph sees the name alone."""
    if isinstance(wrapper, Closure):
        wrapper.__name__ = getattr(wrapped, "__name__", wrapper.__name__)
    return wrapper


@_builtin(functools.wraps)
def _wraps(ev: Evaluator, wrapped: Any, *_: Any, **__: Any) -> Any:
    return ev.born(functools.partial(functools.update_wrapper, wrapped=wrapped))


_builtin(iter)(iterate)


@_builtin(next)
def _next(ev: Evaluator, it: Any, *default: Any) -> Any:
    if not isinstance(it, Lazy):
        raise TypeError(f"'{type_name(it)}' object is not an iterator")
    item = it.advance()
    if item is END and not default:
        raise StopIteration
    return default[0] if item is END else item


@_builtin(zip)
def _zip(ev: Evaluator, *items: Any, strict: bool = False) -> Any:
    sources = [iterate(ev, i) for i in items]

    def advance(_: Lazy) -> Any:
        row: list[Any] = []
        for source in sources:
            item = source.advance()
            if item is END and not (strict and row):
                break
            row.append(item)
        if not strict:
            return tuple(row) if row and len(row) == len(sources) else END
        short = [i for i, item in enumerate(row) if item is END]
        if not row or (not short and len(row) == len(sources)):
            return tuple(row) if row else END
        raise ValueError(f"zip() argument {short[0] + 1} is shorter than argument {short[0]}")

    return ev.born(Lazy(advance))


@_builtin(enumerate)
def _enumerate(ev: Evaluator, items: Any, start: int = 0) -> Any:
    source = iterate(ev, items)

    def advance(it: Lazy) -> Any:
        item, number = source.advance(), it.slots["number"]
        move(ev, it, number=number + 1)
        return END if item is END else (number, item)

    return ev.born(Lazy(advance, number=start))


@_builtin(reversed)
def _reversed(ev: Evaluator, items: Any) -> Any:
    if isinstance(items, (set, Lazy)):
        raise TypeError(f"'{type_name(items)}' object is not reversible")
    return iterate(ev, tuple(iterate(ev, items))[::-1])


@_builtin(map)
def _map(ev: Evaluator, function: Any, *items: Any) -> Any:
    rows = _zip(ev, *items)

    def advance(_: Lazy) -> Any:
        row = rows.advance()
        return END if row is END else ev.call(function, list(row), {})

    return ev.born(Lazy(advance))


@_builtin(filter)
def _filter(ev: Evaluator, function: Any, items: Any) -> Any:
    source = iterate(ev, items)

    def advance(_: Lazy) -> Any:
        for item in source:
            kept = truth(ev, item if function is None else ev.call(function, [item], {}))
            if not isinstance(kept, bool):
                raise NeedConstant(
                    "which items a filter keeps", "multiply by a mask, or choose with ops.where"
                )
            if kept:
                return item
        return END

    return ev.born(Lazy(advance))


@_builtin(sorted)
def _sorted(ev: Evaluator, items: Any, key: Any = None, reverse: bool = False) -> Any:
    values = list(iterate(ev, items))
    keys = values if key is None else [ev.call(key, [v], {}) for v in values]
    if any(is_symbolic(k) for k in keys if not isinstance(k, Dim)):
        raise NeedConstant(
            "the order of a list that is sorted by Tensors", "stack them, and sort with ops.sort"
        )
    order = sorted(range(len(values)), key=keys.__getitem__, reverse=reverse)
    return ev.born([values[i] for i in order])


# ------------------------------------------------------------------------------- types, objects


@_builtin(isinstance)
def _isinstance(ev: Evaluator, value: Any, kind: Any) -> Any:
    if isinstance(value, Choice):
        return for_each(ev, value, lambda o: _isinstance(ev, o, kind))
    refuse_choice(value, "the argument of isinstance")
    if isinstance(value, Parameter) and not issubclass(Tensor, kind):
        _refuse_perhaps(ev, value, "isinstance")
    if isinstance(value, ScalarLike):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return any(issubclass(value.kind, k) for k in kinds)
    if isinstance(value, (Text, Raised)):
        return issubclass(str if isinstance(value, Text) else value.kind, kind)
    return isinstance(value, types.FunctionType if kind is Closure else kind)


def _refuse_perhaps(ev: Evaluator, value: Any, name: str) -> None:
    """Refuse to tell a Parameter from a Tensor where another Tensor decides which it is."""
    if id(value) in ev.alternatives.perhaps_parameters:
        raise TypeError(f"{name}: whether this is a Parameter depends on a Tensor: copy it first")


_builtin(issubclass)(lambda ev, kind, base: issubclass(kind, base))


@_builtin(type)
def _type(ev: Evaluator, value: Any) -> Any:
    refuse_choice(value, "the argument of type")
    _refuse_perhaps(ev, value, "type")
    if isinstance(value, ScalarLike):
        return value.kind
    if isinstance(value, (Text, Raised)):
        return str if isinstance(value, Text) else value.kind
    return types.FunctionType if isinstance(value, Closure) else type(value)


@_builtin(getattr)
def _getattr(ev: Evaluator, obj: Any, name: str, *default: Any) -> Any:
    if not default:
        return ev.get_attribute(obj, name)
    return ev.get_attribute(obj, name) if _has(ev, obj, name) else default[0]


@_builtin(hasattr)
def _has(ev: Evaluator, obj: Any, name: str) -> bool:
    """Whether an attribute exists, which is guarded."""
    if ("attribute", id(obj), name) in ev.world.slots:
        return True
    found = hasattr(obj, name)
    if getattr(obj, "__dict__", {}).get(name) is UNSET:
        raise NeedConstant(
            f"whether a {type(obj).__name__} has the attribute '{name}'",
            "give it a value in every case",
        )
    if id(obj) not in ev.births and not isinstance(obj, (Tensor, type)):
        code, fresh, text = ev.outside.source(obj)
        ev.outside.require(f"hasattr({code}, {name!r}) is {found}", f"{text}.{name}", fresh)
    return found


_builtin(setattr)(set_attribute)


@_builtin(super)
def _super(ev: Evaluator, *args: Any) -> Any:
    if args:
        return super(*args)
    frame = ev.frame
    if "__class__" not in frame.owner.__code__.co_freevars:
        raise RuntimeError("super(): __class__ cell not found")
    cls = ev.load_name("__class__")
    first = frame.code.node.args.args[0].arg
    return super(cls, frame.env.slots[first])


# ------------------------------------------------------------------------------- text, print


@_builtin(str)
def _str(ev: Evaluator, value: Any = "", *rest: Any) -> Any:
    return str(value, *rest) if rest else text.str_of(ev, value)


_builtin(repr)(text.repr_of)
_builtin(ascii)(lambda ev, value: text.formatted(ev, value, ord("a")))
_builtin(format)(lambda ev, value, spec="": text.formatted(ev, value, -1, spec))


def _print(ev: Evaluator, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Python's print, in program order with all other effects."""
    if kwargs.get("file") is not None:
        raise UnsupportedError(
            "print to a file cannot be part of a compiled graph: return what is to be written"
        )
    ends = {"sep": " ", "end": "\n"}
    for name in kwargs.keys() - ends.keys() - {"file", "flush"}:
        raise TypeError(f"'{name}' is an invalid keyword argument for print()")
    ends |= {k: v for k, v in kwargs.items() if k in ends and v is not None}
    for name, value in ends.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be None or a string, not {type_name(value)}")
    text.emit_print(ev, args, **ends)


BUILTINS[print] = _print


# ------------------------------------------------------------------------------- methods

_WRITES = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update",
     "setdefault", "popitem", "add", "discard", "__setitem__", "__delitem__", "__iadd__",
     "difference_update", "intersection_update", "symmetric_difference_update"}
)  # fmt: skip


# Types written in C whose methods may run while compiling: they change nothing but their object.
_KNOWN = (str, bytes, int, float, complex, tuple, frozenset, range, slice, type, np.ndarray,
          np.generic, np.dtype, fractions.Fraction, decimal.Decimal)  # fmt: skip
_KEEPS = frozenset({"append", "insert", "extend", "setdefault", "update", "__setitem__"})


def call_container_method(ev: Evaluator, method: Any, args: list[Any], kwargs: dict) -> Any:
    """A method of a builtin type: journaled if it writes, in Python's own words otherwise."""
    obj, name = getattr(method, "__self__", None), method.__name__
    if isinstance(obj, types.ModuleType) or obj is None:
        return native(ev, method, args, kwargs)
    refuse_choice(obj, "the object")
    if name not in _KEEPS:
        if any(is_text_choice(a) for a in args):
            call = lambda *now: call_container_method(ev, method, list(now), kwargs)  # noqa: E731
            return each_text(ev, args, call)
        for value in args:
            refuse_choice(value, f"an argument of {name}")
    if isinstance(obj, str):
        args = [list(iterate(ev, args[0]))] if name == "join" else args
        if any(is_symbolic(a) for a in [*args, *kwargs.values()]) or name == "format":
            return text.method_of_text(obj, name, *args, **kwargs)
    if isinstance(obj, (list, dict, set)):
        out = _call_journaled(ev, obj, method, args, kwargs)
    elif name == "__setattr__":
        set_plainly(ev, obj, *args)
        out = None
    elif name == "__delattr__":
        ev.touch_new(obj)
        out = method(*args, **kwargs)
    elif isinstance(obj, _KNOWN) or name.startswith("__"):
        out = method(*args, **kwargs)
    else:
        raise hidden_state(f"{type(obj).__name__}.{name}")
    return ev.born(out) if isinstance(out, (list, dict, set)) else ev.readable(out, f"{name}()")


def _call_journaled(ev: Evaluator, obj: Any, method: Any, args: list[Any], kwargs: dict) -> Any:
    """A method of a list, dict or set."""
    name = method.__name__
    if name in _WRITES:
        ev.touch_items(obj)
    if name in ("extend", "update"):
        args = [a if isinstance(a, dict) else list(iterate(ev, a)) for a in args]
    if not isinstance(obj, list):
        return method(*args, **kwargs)
    if name == "sort":
        obj[:] = _sorted(ev, list(obj), **kwargs)
        return None
    if name in ("index", "count", "remove"):
        return _search(ev, obj, name, *args)
    return method(*args, **kwargs)


def _search(ev: Evaluator, items: list, name: str, wanted: Any, *bounds: int) -> Any:
    """``items.index(wanted)``, ``count`` or ``remove``, by the items' own equality."""
    found = []
    start, stop = (*bounds, None, None)[:2]
    for i in range(len(items))[start:stop]:
        same = items[i] is wanted or truth(ev, ev.operate(operator.eq, items[i], wanted))
        if not isinstance(same, bool):
            raise NeedConstant(
                f"what list.{name} finds among Tensors", "stack them, and compare with =="
            )
        found += [i] if same else []
        if found and name != "count":
            break
    if name == "count":
        return len(found)
    if not found:
        shown = type_name(wanted) if is_symbolic(wanted) else repr(wanted)
        raise ValueError(
            "list.remove(x): x not in list" if name == "remove" else f"{shown} is not in list"
        )
    if name == "index":
        return found[0]
    del items[found[0]]
    return None


__all__ = ["BUILTINS", "call_container_method"]
