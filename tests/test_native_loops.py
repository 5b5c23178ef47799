"""Loops and branches that run as kernels: as in Python, at all levels."""

import numpy as np
import pytest
from differential import Programs, agree

import minispore as ms
from minispore import Tensor, ops

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


@PROGRAMS.on((X, N), (X, np.int32(1)))
def values_that_change_places(x, n):
    i, a, b, c = Tensor(0, ms.int32), x, x * 2, x - 1
    while i < n:
        a, b, c, i = b, c, a, i + 1
    return a, b, c


@PROGRAMS.on((X, N))
def fibonacci(x, n):
    i, a, b = Tensor(0, ms.int32), x, x
    while i < n:
        a, b, i = b, a + b, i + 1
    return a, b


@PROGRAMS.on((X, N))
def old_values_are_read_late(x, n):
    i, a, b = Tensor(0, ms.int32), x, x * 0.5
    while i < n:
        c = b * 2 - 1
        b = a.sum() * 0.01 + b  # old a, after which a may go
        a = c  # does not read old a
        i = i + 1
    return a, b


@PROGRAMS.on((X, N))
def one_value_goes_on_twice(x, n):
    i, a, b = Tensor(0, ms.int32), x, x
    while i < n:
        a = a * 0.5 + 1
        b = a
        i = i + 1
    return a, b


@PROGRAMS.on((X, N))
def products(x, n):
    i, w = Tensor(0, ms.int32), ops.ones((3, 3), ms.float32) * 0.3
    while i < n:
        x = ops.tanh(ops.matmul(x, w) + x)
        i = i + 1
    return x, i


@PROGRAMS.on((X, N))
def rows_that_read_all_of_the_old(x, n):
    i = Tensor(0, ms.int32)
    while i < n:
        x = ops.softmax(x, -1) + x
        i = i + 1
    return x


@PROGRAMS.on((X, N), (X, np.int32(0)))
def loops_in_loops(x, n):
    i, total = Tensor(0, ms.int32), x
    while i < n:
        j, y = i, x
        while j < n:
            y = y * 0.5 + total
            j = j + 1
        while y.sum() > 3:
            y = y * 0.25
        total = total + y
        i = i + 1
    return total, i


@PROGRAMS.on((X, N))
def an_inner_loop_makes_the_next_value(x, n):
    i, j = Tensor(0, ms.int32), Tensor(0, ms.int32)
    while i < n:
        j = i
        while j < n * 2:
            x = x * 0.75 + 0.5
            j = j + 1
        i = i + 1
    return x, j


@PROGRAMS.on((X, N))
def a_condition_of_large_values(x, n):
    while (x * x).sum() > 0.5 and x.max() > 0.01:
        x = x * 0.9
    return x


@pytest.mark.parametrize("fn, args", PROGRAMS)
def test_programs(fn, args):
    agree(fn, *map(Tensor, args))
