"""Words for the values of a run: a Tensor's type and elements, a number, the depth of a Stack."""

from __future__ import annotations

from typing import Any

import numpy as np

from minispore.abstract import STACK, TOKEN, Abstract, AbstractTensor, AbstractTuple
from minispore.dtype import bfloat16, from_numpy

MOST = 24  # elements of a Tensor that are still shown one by one


def value_text(value: Any, abstract: Abstract, full: bool = False) -> str:
    """A value with its type; `full`: with all elements."""
    if abstract == TOKEN:
        return "the Token"
    if abstract == STACK:
        depth = 0
        while value is not None:
            depth, value = depth + 1, value[1]
        return f"a Stack of {depth}"
    if isinstance(abstract, AbstractTuple):
        items = zip(value, abstract.items, strict=True)
        return f"({', '.join(value_text(v, a, full) for v, a in items)})"
    if isinstance(value, np.ndarray):
        return f"{array_type(value)} {elements(value, full)}"
    return f"{type(value).__name__} {value!r}"


def array_type(value: np.ndarray) -> str:
    """``Tensor[Float32, (2, 3)]``."""
    return str(AbstractTensor(from_numpy(value.dtype), value.shape))


def elements(value: np.ndarray, full: bool = False) -> str:
    """The elements on one line; those in the middle of a large array are left out."""
    if value.dtype == bfloat16.numpy:
        value = value.astype(np.float32)
    most = value.size if full else MOST
    text = np.array2string(value, threshold=most, edgeitems=2, max_line_width=10**9, precision=6)
    return text if full else " ".join(text.split())
