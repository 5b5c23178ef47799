"""Words for pictures: types, constants, attributes and places, each as short as can be."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minispore.abstract import TOKEN, Abstract, AbstractTensor, AbstractTuple
from minispore.dtype import DType
from minispore.ir.literal import write_attribute
from minispore.ir.node import CNode, FuncGraph, Grad, Origin, Switch, ValueNode, While
from minispore.primitive import Primitive

MANY = 4  # operands, values or names that are still listed one by one
SILENT = {"structure", "sep", "end"}  # attributes that say nothing in a picture


def type_text(abstract: Abstract) -> str:
    """``(32, 16) Float32``; nothing for a Token."""
    if isinstance(abstract, AbstractTensor):
        return f"{_shape(abstract.shape)} {abstract.dtype}"
    if isinstance(abstract, AbstractTuple):
        return f"tuple of {len(abstract.items)}"
    return "" if abstract == TOKEN else str(abstract)


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def constant_text(node: ValueNode) -> str:
    """A number, a few numbers, or ``const (3, 4) Float32``."""
    value = node.value
    if value is None:
        return "token" if node.abstract == TOKEN else "empty stack"
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size > MANY or value.ndim > 1:
        return f"const {type_text(node.abstract)}"
    numbers = [str(v) for v in value.reshape(-1)]
    return f"[{', '.join(numbers)}]" if value.ndim else numbers[0]


def attributes_text(prim: Primitive) -> str:
    """``axis=1, transpose_b``: attributes that say something, in brief."""
    parts = []
    for name, value in prim.attrs.items():
        if value is None or value is False or name in SILENT or not _is_brief(value):
            continue
        text = write_attribute(value).replace("'", "")
        parts.append(name if value is True else f"{name}={text}")
    return shortened(", ".join(parts), 40)


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters: its beginning, and a sign that there is more."""
    return text if len(text) <= most else text[: most - 2] + " …"


def _is_brief(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_brief, value))
    return isinstance(value, (bool, int, float, str, DType, type))


def operation_name(node: CNode, names: Mapping[FuncGraph, str]) -> str:
    """What the node calls."""
    callee = node.callee
    if isinstance(callee, FuncGraph):
        return f"call {names[callee]}"
    return callee.name if isinstance(callee, Primitive) else type(callee).__name__


def place_text(origin: Origin) -> str:
    """``model.py:12 in construct; scope net/fc; rule mul_one``, and the line of source."""
    where, parts, source = origin.where, [], ""
    if where is not None:
        parts.append(f"{where} in {where.function}" if where.function else str(where))
        source = linecache.getline(where.file, where.line).strip()
    if origin.scope:
        parts.append(f"scope {origin.scope}")
    if origin.rule:
        parts.append(f"rule {origin.rule}")
    return "\n".join(filter(None, ("; ".join(parts), source)))


def numbers_text(numbers: Iterable[int]) -> str:
    """``0, 2-5``."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}{', ' if b == a + 1 else '-'}{b}" for a, b in runs)


def references(node: CNode) -> list[tuple[str, FuncGraph]]:
    """The graphs that a node refers to, and as what."""
    callee = node.callee
    if isinstance(callee, Switch):
        words = (
            ("true", "false") if len(callee.graphs) == 2 else map(str, range(len(callee.graphs)))
        )
        return list(zip(words, callee.graphs, strict=False))
    if isinstance(callee, While):
        return [("test", callee.cond), ("body", callee.body)]
    if isinstance(callee, Grad):
        return [("gradient of", callee.graph)]
    if isinstance(callee, FuncGraph):
        own = [("gradient", callee.bprop)] if callee.bprop is not None else []
        return [("calls", callee), *own]
    return []


def listed(texts: Sequence[str]) -> str:
    """``a, b, c, … (20)``."""
    if len(texts) <= MANY:
        return ", ".join(texts)
    return ", ".join(texts[: MANY - 1]) + f", … ({len(texts)})"


def listed_lines(texts: Sequence[str]) -> list[str]:
    """The first few texts, and a sign that there are more."""
    return list(texts) if len(texts) <= MANY else [*texts[: MANY - 1], "…"]
