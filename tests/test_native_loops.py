"""Loops and branches that run as kernels: as in Python, at all levels."""

import numpy as np
import pytest
from differential import Programs, agree

import minispore as ms
from minispore import Tensor

PROGRAMS = Programs()
X = np.linspace(-1, 2, 6, dtype=np.float32).reshape(2, 3)
N = np.int32(7)


@PROGRAMS.on((X, N), (X, np.int32(0)))
def each_result_is_used_on_its_own(x, n):
    i, k = Tensor(0, ms.int32), Tensor(1, ms.int32)
    while i < n:
        x = x * 0.5
        i = i + 1
        k = k * 2
    return k * 3 - 1, x + 1, i * 5


@pytest.mark.parametrize("fn, args", PROGRAMS)
def test_programs(fn, args):
    agree(fn, *map(Tensor, args))
