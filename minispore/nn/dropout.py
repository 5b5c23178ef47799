"""Dropout: training with a part of a layer's elements left out at random."""

from __future__ import annotations

from typing import Any

from minispore import ops
from minispore.dtype import DType, float32
from minispore.nn.cell import Cell


class Dropout(Cell):
    """In training, each element is set to 0 at random, and else scaled by 1 / (share kept).

    Otherwise the input is returned unchanged: as if each element were kept, on average.

    Args:
        keep_prob: the probability that an element is kept, in (0, 1]; not used where `p` is given.
        p: the probability that it is dropped, in [0, 1).
        dtype: kept for MindSpore's signature; the output has the input's.

    Inputs: x, floats of any shape.  Output: of the same shape and dtype.

    Raises:
        TypeError: a probability that is no number, or, in training, `x` has no floats.
        ValueError: a probability out of range.
    """

    def __init__(self, keep_prob: float = 0.5, p: float | None = None, dtype: DType = float32):
        super().__init__()
        name, value = ("keep_prob", keep_prob) if p is None else ("p", p)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name} of Dropout must be a float, not {type(value).__name__}")
        self.keep_prob = value if p is None else 1 - value
        if not 0 < self.keep_prob <= 1:
            allowed = "(0, 1]" if p is None else "[0, 1)"
            raise ValueError(f"{name} of Dropout must be in {allowed}, not {value}")
        self.p = p
        self.dropout = ops.Dropout(self.keep_prob)

    def construct(self, x: Any) -> Any:
        if not self.training or self.keep_prob == 1:
            return x
        return self.dropout(x)[0]

    def extend_repr(self) -> str:
        return f"keep_prob={self.keep_prob}" if self.p is None else f"p={self.p}"
