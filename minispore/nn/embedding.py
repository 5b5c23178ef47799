"""Embedding: a vector for each number of a vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np

from minispore import ops
from minispore.dtype import DType, float32
from minispore.initializer import initializer
from minispore.nn.cell import Cell
from minispore.nn.checks import check_bool, check_int, check_size
from minispore.parameter import Parameter
from minispore.tensor import Tensor


class Embedding(Cell):
    """Looks numbers up in a table of vectors, `embedding_table`.

    Args:
        vocab_size: how many vectors there are.
        embedding_size: the length of each.
        use_one_hot: whether to multiply one-hot vectors with the table instead: numbers outside
            the table then give zeros, and not an error.
        embedding_table: its initial values: a name, an Initializer, a number or a Tensor; by
            default normal with standard deviation 0.01.
        dtype: of the table.
        padding_idx: a number whose vector is 0 at first.

    Inputs: x, integers of any shape.  Output: shape (*x.shape, embedding_size).

    Raises:
        TypeError: a size or `padding_idx` that is no int, `use_one_hot` that is no bool, `x` that
            has no integers.
        ValueError: a size that is not positive, `padding_idx` outside the table.
        IndexError: when the program runs, a number outside the table (without `use_one_hot`).
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        use_one_hot: bool = False,
        embedding_table: Any = "normal",
        dtype: DType = float32,
        padding_idx: int | None = None,
    ):
        super().__init__()
        self.vocab_size = check_size("Embedding", "vocab_size", vocab_size)
        self.embedding_size = check_size("Embedding", "embedding_size", embedding_size)
        self.use_one_hot = check_bool("Embedding", "use_one_hot", use_one_hot)
        self.dtype = dtype
        self.padding_idx = padding_idx
        table = initializer(embedding_table, (vocab_size, embedding_size), dtype)
        if padding_idx is not None:
            table = _without(table, padding_idx)
        self.embedding_table = Parameter(table, name="embedding_table")

    def construct(self, ids: Any) -> Any:
        if not ids.dtype.is_integer:
            raise TypeError(f"Embedding takes integers, not {ids.dtype}")
        if not self.use_one_hot:
            return ops.gather(self.embedding_table, ids, 0)
        rows = ops.one_hot(ids.reshape((-1,)), self.vocab_size)
        found = ops.matmul(ops.cast(rows, self.embedding_table.dtype), self.embedding_table)
        return found.reshape((*ids.shape, self.embedding_size))

    def extend_repr(self) -> str:
        return (
            f"vocab_size={self.vocab_size}, embedding_size={self.embedding_size}, "
            f"use_one_hot={self.use_one_hot}, embedding_table={self.embedding_table}, "
            f"dtype={self.dtype}, padding_idx={self.padding_idx}"
        )


def _without(table: Tensor, row: int) -> Tensor:
    """The table with zeros in one row."""
    if not 0 <= check_int("Embedding", "padding_idx", row) < table.shape[0]:
        raise ValueError(
            f"padding_idx of Embedding must be from 0 to {table.shape[0] - 1}, not {row}"
        )
    values = np.array(table.asnumpy())
    values[row] = 0
    return Tensor(values)
