"""Plain questions about evaluated values, and what errors call them."""

from __future__ import annotations

import ast
import operator
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from minispore.dims import Dim, as_number
from minispore.frontend.choices import chain_of
from minispore.frontend.errors import note_operands
from minispore.frontend.heap import Choice, Conflict
from minispore.ir.node import Node
from minispore.primitive import ScalarLike
from minispore.symbolic import NeedConstant
from minispore.tensor import Tensor
from minispore.tree import Text


def is_symbolic(value: Any) -> bool:
    """True if `value` is, or holds, something known only at run time."""
    if isinstance(value, (Tensor, ScalarLike, Text, Choice)):
        return True
    if isinstance(value, (list, tuple, set)):
        return any(is_symbolic(v) for v in value)
    if isinstance(value, dict):
        return any(is_symbolic(v) for v in value.values())
    return isinstance(value, slice) and any(
        is_symbolic(v) for v in (value.start, value.stop, value.step)
    )


def constant_or_number(size: Any, kind: Callable = operator.index) -> Any:
    """A size as the constant that the call at hand gives; if it is born, as a number."""
    try:
        return kind(size)
    except NeedConstant:
        return as_number(size)


def refuse_size(value: Any) -> None:
    """Raise if a container has different sizes in different arms."""
    if isinstance(value, (list, dict, set)) and value:
        item = next(iter(value.values() if isinstance(value, dict) else value))
        if isinstance(item, Conflict) and item.of_size:
            raise TypeError(item.why)


def refuse_choice(value: Any, role: str) -> None:
    """Raise if a value has different types, or a container different sizes, in different arms."""
    refuse_size(value)
    if isinstance(value, Conflict):
        raise TypeError(value.why)
    if isinstance(value, Choice):
        raise TypeError(
            f"{role} is {type_name(value)}, depending on a Tensor: make it the same in every arm"
        )


def is_text_choice(value: Any) -> bool:
    """True for a Choice of strings: what is done with it is done with each of them."""
    return isinstance(value, Choice) and all(
        isinstance(o, (str, Text)) or is_text_choice(o) for o in value.options
    )


def python_method(value: Any, name: str) -> types.FunctionType | None:
    """A special method of an object, if Python source defines it; None for a Tensor's."""
    method = None if isinstance(value, Tensor) else getattr(type(value), name, None)
    return method if isinstance(method, types.FunctionType) else None


def type_name(value: Any) -> str:
    """The type of a value in an error's words."""
    if isinstance(value, Tensor):
        return str(value._abstract)
    if isinstance(value, Choice):
        return " or ".join(dict.fromkeys(type_name(a) for a, _ in chain_of(value).values()))
    return "None" if value is None else "int" if isinstance(value, Dim) else type(value).__name__


def with_place(value: Any) -> str:
    """The type of a value, and the line that made it, in an error's words."""
    node = value._node if isinstance(value, Tensor) else getattr(value, "node", None)
    where = node.origin.where if isinstance(node, Node) else None
    return f"{type_name(value)} ({where})" if where else type_name(value)


@contextmanager
def working_on(operands: Mapping[Any, Any]) -> Iterator[None]:
    """What fails inside is said to fail on these operands; see ``described``."""
    try:
        yield
    except Exception as error:
        note_operands(error, described(operands))
        raise


def described(operands: Mapping[Any, Any]) -> list[str]:
    """``x is Tensor[Float32, (2)] (m.py:3)`` for each operand, if one is known at run time only.

    They are named by an expression of the source, or by a string.
    """
    if not any(map(is_symbolic, operands.values())):
        return []
    lines: dict[str, None] = {}  # each once
    for name, value in operands.items():
        if isinstance(name, ast.Constant):
            continue
        text = name if isinstance(name, str) else ast.unparse(name)
        if isinstance(value, (list, tuple)):
            what = f"a {type_name(value)} of {', '.join(map(with_place, value))}"
        elif value is None or is_symbolic(value):
            what = with_place(value)
        else:
            what = f"{type_name(value)} {value!r:.40}"
        lines[f"{text:.40} is {what}"] = None
    return list(lines)
