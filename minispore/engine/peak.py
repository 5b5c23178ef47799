"""What this machine can do at most, measured: bytes moved and operations done in a second.

Both are measured as kernels run: a kernel that copies, and a product of matrices by the same BLAS
in the same process, with as many threads as it has there.  How fast memory is depends on which
cache holds it, so copies of several sizes are measured.  It takes some 50 ms, once in a process.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np

from minispore.engine import blas, cache, native
from minispore.engine.layout import SIZES

SETS = tuple(2**n for n in (14, 17, 20, 23, 26))  # bytes that a copy reads and writes, together
_MATRIX = 384
_COPY = """
from minispore.engine.kernels.vector import *

def kernel(slots, args, lo, hi, worker):
    x = p_f4(slots[0])
    y = p_f4(slots[1])
    for j in range(lo, hi):
        y[j] = x[j]
"""


def bandwidth(size: int) -> float:
    """Bytes a second of a copy that reads and writes `size` bytes in all, or a little more."""
    return _copy_speed(next((s for s in SETS if s >= size), SETS[-1]))


@functools.cache
def _copy_speed(size: int) -> float:
    n = size // 8
    arrays = [np.ones(n, np.float32), np.zeros(n, np.float32)]
    return size / _fastest([cache.kernel(_COPY), 0, 0, n], arrays, max(2**20 // size, 1))


@functools.cache
def operations(kind: str) -> float:
    """Operations a second of a product of square matrices; `kind`: f4 or f8."""
    n = _MATRIX
    whole = blas.stored((n, n))
    made = blas.matmul(kind, (n, n, n), whole, whole, whole)
    block = np.array([0, 1, 2, *made.words], np.int64)
    arrays = [np.ones((n, n), np.dtype(f"f{SIZES[kind]}")) for _ in range(3)]
    row = [cache.kernel(made.source), block.ctypes.data, 0, made.work]
    return 2 * n**3 / _fastest(row, arrays, 1)


def _fastest(row: list[int], arrays: list[np.ndarray], times: int) -> float:
    """Seconds that a row of a table takes: the least of some runs, each of so many calls."""
    table = np.array([0, *row] * times, np.int64)
    slots = np.array([a.ctypes.data for a in arrays], np.int64)
    run = native.bound(table, times, slots)
    run()
    return min(seconds(run) for _ in range(7)) / times


def seconds(run: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
