"""Where values live that only kernels see: places in one arena, shared by those that never meet."""

from __future__ import annotations

import math
from collections.abc import Iterable
from sys import getrefcount

import numpy as np

from minispore.abstract import Shape
from minispore.engine.layout import Buffer

ALIGN = 64  # bytes: a cache line
LARGE = 4096  # bytes: arrays from here on start at one, and are written in place if they may be


class Room(np.ndarray):
    """The memory of one array.

    A view of that array holds the array itself: of a plain array it would hold this memory, and no
    one could tell from the array that someone still has it.
    """


def new(shape: Shape, dtype: np.dtype) -> np.ndarray:
    """An array for an output.

    A large one starts at a cache line: what is read or written across two takes twice the time.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    room = Room(size + ALIGN, np.uint8)
    return np.ndarray(shape, dtype, room, -room.ctypes.data % ALIGN)


def is_free(array: np.ndarray, known: int) -> bool:
    """True if an array may be written: no one has it, or a view of its memory, beside `known`
    references.
    """
    owner = array.base
    if getrefcount(array) > known + 2:  # our parameter's, and that of the question
        return False
    if not array.flags.writeable:
        return False
    return owner is None or (
        type(owner) in (np.ndarray, Room) and owner.base is None and getrefcount(owner) <= 3
    )


def copied(array: np.ndarray) -> np.ndarray:
    """A copy of an array, in C order."""
    copy = new(array.shape, array.dtype)
    copy[...] = array
    return copy


def place(lives: Iterable[tuple[Buffer, int, int]]) -> tuple[dict[Buffer, int], int]:
    """An offset for each buffer, and the bytes of the arena.

    Args:
        lives: (buffer, first kernel, last kernel).  Buffers whose lives meet do not overlap.

    Large buffers are placed first, each at the lowest place that is free for its whole life.
    """
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last)
    offsets: dict[Buffer, int] = {}
    for buffer, first, last in sorted(lives, key=lambda item: -item[0].bytes):
        size = -(-buffer.bytes // ALIGN) * ALIGN
        offset = 0
        for start, end, begins, ends in sorted(placed):
            if begins <= last and first <= ends and start < offset + size and offset < end:
                offset = end
        offsets[buffer] = offset
        placed.append((offset, offset + size, first, last))
    return offsets, max((end for _, end, _, _ in placed), default=0)
