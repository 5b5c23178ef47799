"""The text forms of a Tensor: ``repr`` as MindSpore writes it, ``str`` as NumPy does.

repr: Tensor(shape=[2], dtype=Float32, value= [ 1.00000000e+00,  2.00000000e+00])
str:  [1. 2.]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore.abstract import AbstractTensor
from minispore.dtype import DType

_UNKNOWN = "<known when the graph runs>"
_MOST = 1000  # a 1-d Tensor of more elements is elided
_EDGE = 3  # so many elements (rows, ...) are shown at each end of an axis that is elided


def repr_of(abstract: AbstractTensor, data: np.ndarray | None) -> str:
    """MindSpore's ``repr``; `data` is None inside a graph."""
    head = f"Tensor(shape={list(abstract.shape)}, dtype={abstract.dtype}, value="
    if data is None:
        return f"{head}{_UNKNOWN})"
    separator = "\n" if data.ndim > 1 else " "
    return f"{head}{separator}{_elements(data, abstract.dtype)})"


def str_of(abstract: AbstractTensor, data: np.ndarray | None) -> str:
    """NumPy's text of the elements; inside a graph, what is known of them."""
    if data is None:
        return repr_of(abstract, None)
    if abstract.dtype is dt.bfloat16:  # MindSpore prints these with six decimals
        wide = data.astype(np.float32)
        return np.array2string(wide, formatter={"float_kind": lambda v: f"{v:f}"})
    if data.ndim == 0 and abstract.dtype.is_float:
        return _one_float(data[()])
    return str(data)


def _one_float(value: Any) -> str:
    """The shortest text of a number; NumPy's own differs between versions."""
    if value == 0 or 1e-4 <= abs(float(value)) < 1e16:
        return np.format_float_positional(value, trim="0")
    return np.format_float_scientific(value, trim="-")


def _elements(data: np.ndarray, dtype: DType) -> str:
    if data.size == 0:
        return ""
    if data.ndim == 0:
        value = data.item()
        return f"{value:g}" if dtype.is_float else str(value)
    shown = data[np.ix_(*(_shown(n, data.ndim) for n in data.shape))]
    items = [_item(value, dtype) for value in shown.ravel().tolist()]
    width = _width(items, dtype)
    return _nested(iter([item.rjust(width) for item in items]), data.shape, dtype)


def _shown(size: int, ndim: int) -> list[int]:
    """The positions of an axis that are printed."""
    if size <= (_MOST if ndim == 1 else 2 * _EDGE):
        return list(range(size))
    return [*range(_EDGE), *range(size - _EDGE, size)]


def _item(value: bool | int | float, dtype: DType) -> str:
    if not dtype.is_float:
        return str(value)
    if dtype is dt.bfloat16:
        return f"{value:g}"
    return f"{value:.4e}" if dtype is dt.float16 else f"{value:.8e}"


def _width(items: list[str], dtype: DType) -> int:
    """The column width: fixed for bools and floats, else that of the longest item."""
    fixed = {dt.bool_: 5, dt.float16: 11, dt.float32: 15, dt.float64: 15}
    return fixed.get(dtype) or max(map(len, items))


def _nested(items: Iterator[str], shape: tuple[int, ...], dtype: DType, level: int = 1) -> str:
    """The items in brackets, each row indented by its depth."""
    positions = _shown(shape[0], len(shape) + level - 1)
    elided = len(positions) < shape[0]
    if len(shape) > 1:
        rows = [_nested(items, shape[1:], dtype, level + 1) for _ in positions]
        indent = "\n" + " " * level
        if elided:
            head, tail = rows[:_EDGE], rows[_EDGE:]
            return f"[{f',{indent}'.join(head)},{indent}...{indent}{f',{indent}'.join(tail)}]"
        return f"[{f',{indent}'.join(rows)}]"
    row = [next(items) for _ in positions]
    if elided:
        return f"[{', '.join(row[:_EDGE])} ... {', '.join(row[_EDGE:])}]"
    return f"[{_wrapped(row, 12 if dtype in (dt.bool_, *_WIDE) else 24)}]"


_WIDE = (dt.float16, dt.float32, dt.float64)


def _wrapped(row: list[str], per_line: int) -> str:
    """The items of a row in lines of `per_line`; MindSpore also ends a full last line."""
    text = ""
    for count, item in enumerate(row, 1):
        text += item if count == len(row) else item + ", "
        text += "\n " if count % per_line == 0 else ""
    return text
