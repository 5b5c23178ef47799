"""Python's builtins inside a graph: on constants they are Python's own.

Only what needs a rule of its own stands here: numbers and truth known at run time, lazy iterators
(which become lists), print, and methods that write a list, dict or set.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from minispore.frontend import exits
from minispore.frontend.control import for_each, pick, truth
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import is_symbolic
from minispore.frontend.heap import Choice, Closure, Conflict
from minispore.frontend.loops import SymbolicRange
from minispore.parameter import Parameter
from minispore.primitive import REGISTRY, apply
from minispore.symbolic import NeedConstant, Scalar, scalar_op
from minispore.tensor import Tensor
from minispore.tree import Formatted, Text, flatten

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

Handler = Callable[["Evaluator", list, dict], Any]
BUILTINS: dict[Any, Handler] = {}


def _builtin(function: Any) -> Callable[[Callable], Callable]:
    """Register the meaning of a builtin inside a graph."""

    def decorator(handler: Callable) -> Callable:
        BUILTINS[function] = lambda ev, args, kwargs: handler(ev, *args, **kwargs)
        return handler

    return decorator


def _pure(function: Any) -> None:
    """A builtin that is right as it is, given plain arguments."""

    def handler(ev: Evaluator, *args: Any, **kwargs: Any) -> Any:
        for value in [*args, *kwargs.values()]:
            exits.refuse_choice(value, f"an argument of {function.__name__}")
        out = function(*args, **kwargs)
        return ev.born(out) if isinstance(out, (list, dict, set)) else out

    _builtin(function)(handler)


for _name in ("abs", "divmod", "round", "pow", "repr", "callable", "hash", "slice", "chr", "ord",
              "bytes", "iter", "format", "ascii", "bin", "hex", "oct", "object", "frozenset",
              "complex"):  # fmt: skip
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
        if len(args) == 1 and isinstance(args[0], Scalar):
            return args[0] if args[0].kind is kind else apply(
                REGISTRY["ScalarCast"].bound(kind=kind), args[0])  # fmt: skip
        for value in args:
            exits.refuse_choice(value, f"the argument of {kind.__name__}")
        return kind(*args, **kwargs)

    return convert


_builtin(int)(_number(int))
_builtin(float)(_number(float))


@_builtin(bool)
def _bool(ev: Evaluator, value: Any = False) -> Any:
    condition = truth(ev, value)
    return condition if isinstance(condition, bool) else Scalar(condition)


@_builtin(len)
def _len(ev: Evaluator, value: Any) -> Any:
    exits.refuse_choice(value, "the argument of len")
    if isinstance(value, (list, dict, set)):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, Conflict):
                raise TypeError(item.why)
    method = getattr(type(value), "__len__", None)
    if isinstance(method, types.FunctionType) and not isinstance(value, Tensor):
        return ev.call(method, [value], {})
    return len(value)


@_builtin(range)
def _range(ev: Evaluator, *args: Any) -> Any:
    values = [apply(REGISTRY["TensorToScalar"].bound(kind=int), a)
              if isinstance(a, Tensor) else a for a in args]  # fmt: skip
    if not any(isinstance(v, Scalar) for v in values):
        return range(*values)
    start, stop, step = (0, values[0], 1) if len(values) == 1 else (*values, 1)[:3]
    if isinstance(step, Scalar):
        raise NeedConstant("the step of a range")
    return SymbolicRange(start, stop, step)


@_builtin(sum)
def _sum(ev: Evaluator, items: Any, start: Any = 0) -> Any:
    total = start
    for item in ev.iterate(items):
        total = ev.operate(_add, total, item)
    return total


def _add(a: Any, b: Any) -> Any:
    """``a + b``, named so that user classes' own __add__ is found."""
    return a + b


_add.__name__ = "add"


def _extreme(function: Any, is_max: bool) -> None:
    def handler(ev: Evaluator, *args: Any, **kwargs: Any) -> Any:
        items = ev.iterate(args[0]) if len(args) == 1 else list(args)
        if not any(is_symbolic(v) for v in items):
            return function(*args, **kwargs)
        key = kwargs.get("key", lambda v: v)
        best = items[0]
        for item in items[1:]:
            a, b = ev.call(key, [item], {}), ev.call(key, [best], {})
            better = truth(ev, a > b if is_max else a < b)
            best = pick(ev, better, item, best)
        return best

    _builtin(function)(handler)


_extreme(max, True)
_extreme(min, False)


def _quantifier(function: Any, is_and: bool) -> None:
    def handler(ev: Evaluator, items: Any) -> Any:
        result: Any = is_and
        for item in reversed(ev.iterate(items)):
            condition = truth(ev, item)
            if isinstance(condition, bool):
                result = result if condition is is_and else not is_and
                continue
            rest = result
            result = pick(ev, condition, rest, False) if is_and else pick(ev, condition, True, rest)
        return result

    _builtin(function)(handler)


_quantifier(all, True)
_quantifier(any, False)


# ------------------------------------------------------------------------------- iterables


@_builtin(list)
def _list(ev: Evaluator, items: Any = ()) -> Any:
    return ev.born(ev.iterate(items))


@_builtin(tuple)
def _tuple(ev: Evaluator, items: Any = ()) -> Any:
    return tuple(ev.iterate(items))


@_builtin(set)
def _set(ev: Evaluator, items: Any = ()) -> Any:
    return ev.born(set(ev.iterate(items)))


@_builtin(dict)
def _dict(ev: Evaluator, items: Any = (), **more: Any) -> Any:
    pairs = items if isinstance(items, dict) else [tuple(p) for p in ev.iterate(items)]
    return ev.born(dict(pairs, **more))


@_builtin(zip)
def _zip(ev: Evaluator, *items: Any, strict: bool = False) -> Any:
    return ev.born(list(zip(*map(ev.iterate, items), strict=strict)))


@_builtin(enumerate)
def _enumerate(ev: Evaluator, items: Any, start: int = 0) -> Any:
    return ev.born(list(enumerate(ev.iterate(items), start)))


@_builtin(reversed)
def _reversed(ev: Evaluator, items: Any) -> Any:
    return ev.born(ev.iterate(items)[::-1])


@_builtin(map)
def _map(ev: Evaluator, function: Any, *items: Any) -> Any:
    rows = zip(*map(ev.iterate, items), strict=False)
    return ev.born([ev.call(function, list(row), {}) for row in rows])


@_builtin(filter)
def _filter(ev: Evaluator, function: Any, items: Any) -> Any:
    kept = []
    for item in ev.iterate(items):
        condition = truth(ev, item if function is None else ev.call(function, [item], {}))
        if not isinstance(condition, bool):
            raise NeedConstant("the length of a list that a Tensor decides")
        if condition:
            kept.append(item)
    return ev.born(kept)


@_builtin(sorted)
def _sorted(ev: Evaluator, items: Any, key: Any = None, reverse: bool = False) -> Any:
    values = ev.iterate(items)
    keys = values if key is None else [ev.call(key, [v], {}) for v in values]
    if any(is_symbolic(k) for k in keys):
        raise NeedConstant("the order of a list that a Tensor decides")
    order = sorted(range(len(values)), key=keys.__getitem__, reverse=reverse)
    return ev.born([values[i] for i in order])


# ------------------------------------------------------------------------------- types, objects


@_builtin(isinstance)
def _isinstance(ev: Evaluator, value: Any, kind: Any) -> Any:
    if isinstance(value, Choice):
        return for_each(ev, value, lambda o: _isinstance(ev, o, kind))
    exits.refuse_choice(value, "the argument of isinstance")
    if isinstance(value, Scalar):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return any(issubclass(value.kind, k) for k in kinds)
    if isinstance(value, Text):
        return isinstance("", kind)
    return isinstance(value, kind)


@_builtin(issubclass)
def _issubclass(ev: Evaluator, kind: Any, base: Any) -> Any:
    return issubclass(kind, base)


@_builtin(type)
def _type(ev: Evaluator, value: Any) -> Any:
    exits.refuse_choice(value, "the argument of type")
    if isinstance(value, Scalar):
        return value.kind
    if isinstance(value, Text):
        return str
    return types.FunctionType if isinstance(value, Closure) else type(value)


@_builtin(getattr)
def _getattr(ev: Evaluator, obj: Any, name: str, *default: Any) -> Any:
    if not default:
        return ev.get_attribute(obj, name)
    return ev.get_attribute(obj, name) if _has(ev, obj, name) else default[0]


@_builtin(hasattr)
def _hasattr(ev: Evaluator, obj: Any, name: str) -> Any:
    return _has(ev, obj, name)


def _has(ev: Evaluator, obj: Any, name: str) -> bool:
    """Whether an attribute exists; its absence is a guard too."""
    if hasattr(obj, name) or ("attribute", id(obj), name) in ev.world.slots:
        return True
    if id(obj) not in ev.births and not isinstance(obj, (Tensor, type)):
        code, fresh, text = ev.outside.source(obj)
        if not fresh:
            ev.outside.require(f"not hasattr({code}, {name!r})", f"{text} has no {name}")
    return False


@_builtin(setattr)
def _setattr(ev: Evaluator, obj: Any, name: str, value: Any) -> None:
    ev.set_attribute(obj, name, value)


@_builtin(super)
def _super(ev: Evaluator, *args: Any) -> Any:
    if args:
        return super(*args)
    frame = ev.frame
    cls = ev.load_name("__class__")
    first = frame.code.node.args.args[0].arg
    return super(cls, frame.env.slots[first])


# ------------------------------------------------------------------------------- text, print


@_builtin(str)
def _str(ev: Evaluator, value: Any = "", *rest: Any) -> Any:
    if isinstance(value, Text):
        return value
    if is_symbolic(value):
        exits.refuse_choice(value, "the argument of str")
        return Text((Formatted(value, 115, ""),))
    return str(value, *rest)


def _print_with(ev: Evaluator, args: tuple, choice: Choice, sep: Any, end: Any, value: Any) -> None:
    """Print with one alternative in the place of a Choice."""
    _print(ev, *[value if v is choice else v for v in args], sep=sep, end=end)


@_builtin(print)
def _print(
    ev: Evaluator, *args: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False
) -> None:
    """Python's print, in program order with all other effects."""
    if file is not None:
        raise UnsupportedError("print to a file cannot be part of a compiled graph")
    for value in args:
        if isinstance(value, Choice):
            for_each(ev, value, partial(_print_with, ev, args, value, sep, end))
            return
        exits.refuse_choice(value, "an argument of print")
    is_leaf = lambda v: isinstance(v, (Tensor, Scalar)) and not isinstance(v, Parameter)  # noqa: E731
    leaves, structure = flatten(args, is_leaf)
    sep, end = " " if sep is None else sep, "\n" if end is None else end
    apply(REGISTRY["Print"].bound(structure=structure, sep=sep, end=end), *leaves)


# ------------------------------------------------------------------------------- methods

_WRITES = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update",
     "setdefault", "popitem", "add", "discard", "__setitem__", "__delitem__", "__iadd__",
     "difference_update", "intersection_update", "symmetric_difference_update"}
)  # fmt: skip


def call_container_method(ev: Evaluator, method: Any, args: list[Any], kwargs: dict) -> Any:
    """A method of a builtin type: journaled if it writes, in Python's own words otherwise."""
    obj, name = getattr(method, "__self__", None), method.__name__
    if isinstance(obj, types.ModuleType) or obj is None:
        from minispore.frontend.calls import native

        return native(ev, method, args, kwargs)
    for value in args:
        exits.refuse_choice(value, f"an argument of {name}")
    if isinstance(obj, (list, dict, set)) and name in _WRITES:
        ev.check_writable(obj)
        ev.region.touch(obj)
        args = [ev.iterate(a) if name == "extend" else a for a in args]
        if isinstance(obj, list) and name == "sort" and (is_symbolic(obj) or kwargs.get("key")):
            obj[:] = _sorted(ev, list(obj), **kwargs)
            return None
    if isinstance(obj, str):
        if name == "join":
            args = [ev.iterate(args[0])]
        if any(is_symbolic(a) for a in [*args, *kwargs.values()]):
            return _symbolic_text(obj, name, args, kwargs)
    if (
        isinstance(obj, list)
        and name in ("index", "count", "remove")
        and (is_symbolic(obj) or is_symbolic(args))
    ):
        raise NeedConstant(f"list.{name} compares Tensors, which")
    if isinstance(obj, super) or name in ("__init__", "__init_subclass__"):
        return method(*args, **kwargs)
    out = method(*args, **kwargs)
    if isinstance(out, (list, dict, set)):
        return ev.born(out)
    return ev.readable(out, f"the result of {name}")


def _symbolic_text(text: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``"{} {x:.2f}".format(...)`` of values known only at run time."""
    if name == "join":
        parts: list[Any] = []
        for i, item in enumerate(args[0]):
            parts += ([text] if i else []) + (
                list(item.parts) if isinstance(item, Text) else [item]
            )
        return Text(tuple(parts))
    if name != "format":
        raise NeedConstant(f"str.{name} needs a value that")
    import string

    out: list[Any] = []
    number = 0
    for literal, field, spec, conversion in string.Formatter().parse(text):
        out.append(literal)
        if field is None:
            continue
        if field == "":
            field, number = str(number), number + 1
        value = args[int(field)] if field.isdigit() else kwargs[field]
        out.append(Formatted(value, ord(conversion) if conversion else -1, spec or ""))
    return Text(tuple(out))


__all__ = ["BUILTINS", "call_container_method", "scalar_op"]
