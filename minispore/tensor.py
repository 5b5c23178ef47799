"""Tensor, and the eager handler that gives primitives their meaning in PyNative mode.

A Tensor is a *cell*: a name for a value that can be written (``x[0] = v``, ``x.add_(y)``).  Outside
a graph the value is an ndarray (`_data`); while a graph is being built it is a node (`_node`).
Results never alias operands: a write gives the cell a new value and leaves every other
Tensor, and what the tape has saved, as it was.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore.abstract import AbstractTensor
from minispore.dtype import DType
from minispore.ir.node import Node
from minispore.primitive import (
    Primitive,
    TensorLike,
    current_handler,
    is_tracing,
    register_eager,
)

_new_key = itertools.count(1).__next__


class Tensor(TensorLike):
    """An n-dimensional array of one dtype."""

    __slots__ = ("_data", "_node", "_key", "__weakref__")
    _data: Any
    _node: Node | None

    def __init__(self, input_data: Any = None, dtype: DType | None = None):
        source = current_handler().constant(input_data, dtype)
        self._data, self._node, self._key = source._data, source._node, source._key

    @classmethod
    def _wrap(cls, data: np.ndarray) -> Tensor:
        """A Tensor that owns `data` (no copy)."""
        self = Tensor.__new__(Tensor)
        self._data, self._node, self._key = data, None, _new_key()
        return self

    @classmethod
    def _of_node(cls, node: Node) -> Tensor:
        """A Tensor inside a graph that is being built."""
        self = Tensor.__new__(Tensor)
        self._data, self._node, self._key = None, node, 0
        return self

    @property
    def _abstract(self) -> AbstractTensor:
        if self._node is not None:
            assert isinstance(self._node.abstract, AbstractTensor)
            return self._node.abstract
        return AbstractTensor(dt.from_numpy(self._data.dtype), self._data.shape)

    def _write(self, value: Tensor) -> None:
        """Give this cell the value of another Tensor of the same dtype and shape."""
        current_handler().write(self, value)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self._data.shape if self._node is None else self._abstract.shape

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return dt.from_numpy(self._data.dtype) if self._node is None else self._abstract.dtype


class _Tapes(threading.local):
    def __init__(self) -> None:
        self.active: list = []


tapes = _Tapes()  # the recording tapes of this thread, outermost first (autodiff/tape.py)


class EagerHandler:
    """Evaluates a primitive at once, in NumPy, and tells the tapes."""

    def bind(self, prim: Primitive, args: tuple) -> Any:
        arrays = [a._data if isinstance(a, TensorLike) else a for a in args]
        abstracts = [a._abstract if isinstance(a, TensorLike) else a for a in args]
        if prim.effect:
            prim.eval(None, *arrays)
            return None
        expected = prim.infer(*abstracts)
        with np.errstate(all="ignore"):
            value = prim.eval(*arrays)
        if isinstance(value, tuple):
            out: Any = tuple(_result(v, e) for v, e in zip(value, expected.items, strict=True))
        else:
            out = _result(value, expected)
        for tape in tapes.active:
            tape.record(prim, args, out)
        return out

    def constant(self, value: Any, dtype: DType | None) -> Tensor:
        return Tensor._wrap(to_array(value, dtype))

    def write(self, cell: Tensor, value: Tensor) -> None:
        cell._data, cell._key = value._data, value._key


def _result(value: Any, expected: AbstractTensor) -> Tensor:
    return Tensor._wrap(np.asarray(value, expected.dtype.numpy))


def to_array(value: Any, dtype: DType | None) -> np.ndarray:
    """A new ndarray from a number, nested sequence, ndarray or Tensor, with MindSpore's dtypes."""
    if isinstance(value, Tensor):
        value = value._data
    default = {bool: np.bool_, int: np.int64, float: np.float32}.get(type(value))
    array = np.array(value, dtype.numpy if dtype else default)
    if array.dtype == np.float64 and not isinstance(value, (np.ndarray, np.generic)) and not dtype:
        array = array.astype(np.float32)
    dt.from_numpy(array.dtype)
    return array


register_eager(EagerHandler())

__all__ = ["Tensor", "EagerHandler", "tapes", "to_array", "is_tracing"]
