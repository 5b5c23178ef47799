"""The text forms of a Tensor: ``repr`` as MindSpore writes it, ``str`` as NumPy does."""

from __future__ import annotations

from typing import Any

import numpy as np

from minispore.abstract import AbstractTensor


def repr_of(abstract: AbstractTensor, data: np.ndarray | None) -> str:
    """``Tensor(shape=[2], dtype=Float32, value= [ 1.00000000e+00,  2.00000000e+00])``."""
    return f"Tensor(shape={list(abstract.shape)}, dtype={abstract.dtype}, value= {data})"


def str_of(abstract: AbstractTensor, data: Any) -> str:
    """NumPy's text of the elements."""
    return str(data)
