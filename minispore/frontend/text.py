"""Strings and what is printed: text that depends on run-time values is made when the graph runs.

Such a string is a Text (tree.py): its parts, and methods of strings that wait for their operands.
What user classes define (``__str__``, ``__repr__``, ``__format__``) is evaluated from source.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minispore.frontend import control
from minispore.frontend.capture import is_trusted
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import Raised
from minispore.frontend.heap import Choice, Closure
from minispore.frontend.values import is_symbolic, python_method, refuse_choice
from minispore.parameter import Parameter
from minispore.primitive import REGISTRY, ScalarLike, apply
from minispore.symbolic import NeedConstant, is_run_time
from minispore.tensor import Tensor
from minispore.tree import Formatted, Method, Text, flatten

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type)
_GIVES_STR = frozenset(
    "upper lower title strip lstrip rstrip replace format join center ljust rjust zfill capitalize "
    "casefold swapcase expandtabs removeprefix removesuffix __add__ __mod__ __mul__".split()
)


def method_of_text(text: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """``text.name(...)`` of strings or operands that are known only at run time."""
    if not hasattr(str, name):
        raise AttributeError(f"'str' object has no attribute '{name}'")
    if name not in _GIVES_STR:
        raise NeedConstant(
            f"what str.{name} gives for a string that depends on a Tensor",
            "use its parts before they are joined",
        )
    if any(map(_has_own_text, [*args, *kwargs.values()])):
        raise UnsupportedError(
            "an object whose class says how it is printed cannot be formatted by % or str.format "
            "in a compiled graph: use an f-string"
        )
    if not is_symbolic([text, *args, *kwargs.values()]):
        return getattr(text, name)(*args, **kwargs)
    return Text((Method(name, text, args, kwargs),))


def _has_own_text(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_own_text, value))
    if isinstance(value, Parameter):  # its name and flags, not its value
        return True
    return any(_own_method(value, name) for name in ("__str__", "__repr__", "__format__"))


def _own_method(value: Any, name: str) -> types.FunctionType | None:
    """The method that says how an object of a user's class is printed."""
    method = python_method(value, name)
    return None if method is None or is_trusted(method.__module__) else method


def operate_on_text(function: Callable, left: Any, right: Any) -> Any:
    """``left + right``, ``left * right`` or ``left % right`` where one is a string."""
    name = function.__name__.strip("_").removeprefix("i")
    if name == "add" and isinstance(left, (str, Text)) and isinstance(right, (str, Text)):
        return joined([left, right])
    if name in ("mod", "mul") and isinstance(left, (str, Text)):
        return method_of_text(left, f"__{name}__", right)
    if name == "mul":
        return method_of_text(right, "__mul__", left)
    return function(*("" if isinstance(v, Text) else v for v in (left, right)))  # Python's error


def joined(parts: list[Any]) -> Any:
    """The parts of a string as one: a str if all are constant."""
    if all(isinstance(p, str) for p in parts):
        return "".join(parts)
    return Text(tuple(q for p in parts for q in (p.parts if isinstance(p, Text) else (p,))))


def formatted(ev: Evaluator, value: Any, conversion: int = -1, spec: Any = "") -> Any:
    """A piece of an f-string; `conversion` is -1, or ord of s, r or a."""
    value = ev.facts.resolve(value)
    if isinstance(value, Choice):
        return control.for_each(ev, value, lambda v: formatted(ev, v, conversion, spec))
    if _is_leaf(value):
        return Text((Formatted(value, conversion, spec),))
    if conversion < 0 and (method := _own_method(value, "__format__")):
        return ev.call(method, [value, spec], {})
    if conversion in (ord("r"), ord("a")):
        value = repr_of(ev, value)
        if conversion == ord("a") and isinstance(value, str):
            value = value.encode("ascii", "backslashreplace").decode()
    elif conversion == ord("s") or (type(spec) is str and spec == ""):
        value = str_of(ev, value)
    if isinstance(value, Text) or isinstance(spec, Text):
        return Text((Formatted(value, -1, spec),))
    return format(value, spec)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (Tensor, ScalarLike, Text)) and not isinstance(value, Parameter)


def str_of(ev: Evaluator, value: Any) -> Any:
    """``str(value)``: a str or a Text."""
    value = ev.facts.resolve(value)
    if isinstance(value, Choice):
        return control.for_each(ev, value, lambda v: str_of(ev, v))
    if isinstance(value, (str, Text)):
        return value
    if _is_leaf(value):
        return Text((Formatted(value, ord("s"), ""),))
    if isinstance(value, Raised):
        if value.kind.__str__ is not BaseException.__str__:
            raise UnsupportedError(
                f"the text of a {value.kind.__name__} that is not raised cannot be part of a "
                "compiled graph: print its arguments"
            )
        return str_of(ev, value.args[0] if len(value.args) == 1 else value.args or "")
    if method := _own_method(value, "__str__"):
        return ev.call(method, [value], {})
    is_repr = type(value).__str__ is object.__str__
    return repr_of(ev, value) if is_repr else _native(ev, str, value)


def repr_of(ev: Evaluator, value: Any) -> Any:
    """``repr(value)``: a str or a Text."""
    value = ev.facts.resolve(value)
    refuse_choice(value, "what is printed")
    if _is_leaf(value):
        return Text((Formatted(value, ord("r"), ""),))
    if isinstance(value, Closure):
        return f"<function {value.__name__}>"
    if isinstance(value, Raised):
        return _listed(ev, f"{value.kind.__name__}(", value.args, ")")
    if isinstance(value, Parameter):
        return _native(ev, repr, value)
    if method := _own_method(value, "__repr__"):
        fields = _generated(value, method)
        return ev.call(method, [value], {}) if fields is None else _of_fields(ev, value, fields)
    if type(value) is list:
        return _listed(ev, "[", value, "]")
    if type(value) is tuple:
        return _listed(ev, "(", value, ",)" if len(value) == 1 else ")")
    if type(value) is dict:
        items = [joined([repr_of(ev, k), ": ", repr_of(ev, v)]) for k, v in value.items()]
        return joined(["{", *_commas(items), "}"])
    if is_symbolic(value):
        raise UnsupportedError(
            f"a {type(value).__name__} that holds Tensors cannot be printed in a compiled graph: "
            "print a list of its items"
        )
    return _native(ev, repr, value)


def _native(ev: Evaluator, function: Callable, value: Any) -> str:
    """The text of a constant; of an object or Parameter from outside it is guarded."""
    if isinstance(value, Parameter) and ev.outside.number(value) is None:
        raise UnsupportedError(
            "which Parameter is printed depends on a Tensor: print a .copy() of it"
        )
    text = function(value)
    if id(value) in ev.births or not hasattr(value, "__dict__"):
        return text
    code, fresh, name = ev.outside.source(value)
    return ev.outside.capture(text, f"{function.__name__}({code})", fresh, f"text of {name}")


def _generated(value: Any, method: types.FunctionType) -> list[str] | None:
    """The fields that a generated ``__repr__`` shows: of a named tuple or a dataclass."""
    if method.__module__ == "collections":
        return list(value._fields)
    if dataclasses.is_dataclass(value) and hasattr(method, "__wrapped__"):
        return [f.name for f in dataclasses.fields(value) if f.repr]
    return None


def _listed(ev: Evaluator, start: str, items: Any, end: str) -> Any:
    return joined([start, *_commas([repr_of(ev, v) for v in items]), end])


def _commas(items: list[Any]) -> list[Any]:
    return [part for i, item in enumerate(items) for part in ((", ", item) if i else (item,))]


def _of_fields(ev: Evaluator, value: Any, fields: list[str]) -> Any:
    items = [joined([f"{n}=", repr_of(ev, ev.get_attribute(value, n))]) for n in fields]
    return joined([f"{type(value).__qualname__}(", *_commas(items), ")"])


def _is_simple(value: Any) -> bool:
    """True if the value is shown by Print, when the graph runs, as Python shows it now."""
    if type(value) in (list, tuple):
        return all(map(_is_simple, value))
    if type(value) is dict:
        return all(map(_is_simple, value)) and all(map(_is_simple, value.values()))
    return _is_leaf(value) or type(value) in _PLAIN


def emit_print(ev: Evaluator, args: list[Any], sep: str, end: str) -> None:
    """Python's print, in program order with all other effects."""

    def emit(settled: list[Any]) -> None:
        shown = tuple(v if _is_simple(v) else str_of(ev, v) for v in settled)
        leaves, structure = flatten(shown, is_run_time)
        apply(REGISTRY["Print"].bound(structure=structure, sep=sep, end=end), *leaves)

    control.settled(ev, args, emit)
