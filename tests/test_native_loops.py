"""Loops and branches that run as kernels: as in Python, at all levels."""

import signal
import threading

import numpy as np
import pytest
from differential import Programs, agree

import minispore as ms
from minispore import Tensor, ops
from minispore.engine import compile_plan
from minispore.engine.plan import choose, jump, unless

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


# ------------------------------------------------------------------------------- numbers

NUMBERS = Programs()


@NUMBERS.on((X, 20), (X, 0), (X, -3))
def counted(x, n):
    for i in range(n):
        x = x * 0.5 + i
    return x


@NUMBERS.on((X, 20), (X, 1))
def sums_of_all_kinds(x, n):
    i, total, product, odd = 0, 0.0, 1, False
    while i < n:
        total += 1.5 * i - i / 7
        product = (product * 31 + i) % 1009
        odd = odd != (product % 2 == 1)
        i += 1
    return x + total, total, product, odd, i, -i, abs(-total)


@NUMBERS.on((X, 9), (X, -9))
def floors_and_remainders(x, n):
    a, b = 0, 0
    for i in range(12):
        a += (n * i + 1) // (2 * i - 11)
        b += (n * i + 1) % (2 * i - 11)
    return a, b, x


@NUMBERS.on((X, 12))
def numbers_from_tensors(x, n):
    i, s = 0, 0.0
    while i < n and float(x.sum()) < 30:
        s += x[0, 1].item() * 0.5
        x = x + s * 0.25
        i += int(x[1, 2] > 0) + 1
    return x, s, i


@NUMBERS.on((X, 3), (X, 30))
def division_by_zero(x, n):
    s = 0.0
    for i in range(n):
        s += 1 / (i - 20)
    return s, x


@NUMBERS.on((X, 3), (X, 30))
def floor_division_by_zero(x, n):
    s = 0
    for i in range(n):
        s += 100 // (i - 20)
    return s, x


@NUMBERS.on((X, 30), (X, 2))
def an_error_in_a_loop(x, n):
    for _ in range(n):
        x = x * 1.5
        if x.sum() > 100:
            raise ValueError("too large")
    return x


@NUMBERS.on((X, 30), (X, 2))
def writes_before_an_error_stay(x, n):
    for i in range(n):
        x[0, 0] = i
        if i == 7:
            raise ValueError(i)
    return x


@NUMBERS.on((X, 6))
def positions_that_may_not_be_there(x, n):
    s = Tensor(0.0)
    for i in range(n):
        s = s + x[i // 3, i % 3] * i
    return s


@NUMBERS.on((X, 9007199254740993))
def large_ints_beside_floats(x, n):
    k = 0
    for i in range(3):
        k += int(n > 9007199254740992.0) + int(n / 3)
        n += i
    return k, x


@NUMBERS.on((X, 6), (X, 0))
def rows_are_written(x, n):
    y = x * 2
    for i in range(n):
        y[i % 2] = y[(i + 1) % 2] * 0.5 + i
        y[-1] = y[0] - x[-2]
    return y, x


@NUMBERS.on((X, 6))
def elements_are_written(x, n):
    y = x * 1
    for i in range(n):
        y[i // 3, -1 - i % 3] = y[0, 1] + i
        x = y * 2
        y[i // 3] = y[i // 3] + 3
    return x, y


@NUMBERS.on((X, 6))
def what_is_written_is_read_elsewhere(x, n):
    y, z, w = x * 2, x * 3, x * 1
    for i in range(n):
        z = z + y[i % 2]
        w = y.copy()
        w[i % 2] = z[1]
        y[1 - i % 2] = w[i % 2] * 0.5 + y.sum()
    return y, z, w


@NUMBERS.on((X, 6), (-X, 6))
def what_only_an_error_tells(x, n):
    y = x * 2
    for i in range(n):
        if x.sum() > 1:
            y[0] = y[0] + i
            if i > 4:
                y[1] = 7
                raise ValueError("late")
    return y


# ------------------------------------------------------------------------------- branches


@NUMBERS.on((X, 12), (-X, 12), (X, 0))
def branches(x, n):
    up = 0
    for i in range(n):
        if x.sum() > 4:
            x = x * 0.5
        elif i % 3 == 1:
            x = x + i
            up += 1
        else:
            x = ops.tanh(x) + 0.25
    return x, up


@NUMBERS.on((X, 12), (-X, 12))
def loops_in_branches(x, n):
    y = x
    if x.sum() > 0:
        while y.sum() < 50:
            y = y * 1.25
            if y[0, 0] < -5:
                break
    else:
        for i in range(n):
            if i == 5:
                continue
            y = y - i
    return y, x


@NUMBERS.on((X, 12), (X, 1))
def only_the_arm_that_is_taken_runs(x, n):
    k = 0
    for i in range(n):
        if i > 5:
            k += 10 // (i - 5)
        else:
            k += 1
    return k, x * k


@NUMBERS.on((X, 7))
def several_functions(x, n):
    for i in range(n):
        x = [ops.sin, ops.cos, ops.tanh][i % 3](x)
    return x


@NUMBERS.on((X, 30))
def returns_from_inside(x, n):
    for i in range(n):
        x = x + 0.5
        if x.sum() > 20:
            return x, i
    return x, -1


@NUMBERS.on((X, 5))
def values_change_places_in_arms(x, n):
    a, b = x, x * 2
    for i in range(n):
        if i % 2 == 0:
            a, b = b, a
        else:
            a = a + b
    return a, b


@NUMBERS.on((X, 3), (X, 30))
def effects_keep_their_order(x, n):
    print("first", n)
    s = 0
    for i in range(n):
        s += 100 // (i - 20)
    print("then", s)
    k = n
    while k > 0:
        k -= 1 + 7 // (k - 2) * 0
    y = x
    while y.sum() < 10:
        y = y + 1
    print("last", k)
    return s, k, y


@NUMBERS.on((X, 4))
def one_of_two_values(x, n):
    y, z = x * 2, x + 1
    a, b = (y, z) if x.sum() > 0 else (z, y)
    return a, b, y


@NUMBERS.on((X, 30))
def no_end_after_a_failure(x, n):
    k = 5
    for i in range(n):
        step = 10 // (7 - i)
        while k > 0:
            k -= step
        k = k + 12
    return k, x


@pytest.mark.parametrize("fn, args", NUMBERS)
def test_numbers(fn, args):
    agree(fn, *(ms.mutable(a) if isinstance(a, int) else Tensor(a) for a in args))


@pytest.mark.parametrize("level", ("O0", "O1"))
def test_positions_are_checked(level):
    with pytest.raises(IndexError, match="out of range") as caught:
        ms.jit(positions_that_may_not_be_there, jit_level=level)(Tensor(X), ms.mutable(7))
    assert "x[i // 3, i % 3]" in "\n".join(caught.value.__notes__)


def powers(x, n):
    k = 1
    for i in range(n):
        k = k * 3 - i
    return x * 2, k


def sums(x, n):
    k = n
    for i in range(2 + int(x.max())):
        k = k + n - i
    return k


@pytest.mark.parametrize("level", ("O0", "O1"))
@pytest.mark.parametrize("fn, n", ((powers, 50), (powers, 10**6), (sums, 2**62), (sums, -(2**62))))
def test_ints_beyond_64_bits_are_refused(level, fn, n):
    run = ms.jit(fn, jit_level=level)
    x = Tensor(X)
    assert run(x, ms.mutable(3)) == fn(x, 3) if fn is sums else True
    with pytest.raises(OverflowError, match="64-bit ints"):
        run(x, ms.mutable(n))


@pytest.mark.parametrize(
    "fn", (counted, sums_of_all_kinds, numbers_from_tensors, branches, loops_in_branches,
           several_functions, an_error_in_a_loop, positions_that_may_not_be_there, rows_are_written,
           elements_are_written)
)  # fmt: skip
def test_all_of_it_is_native(fn):
    plan = compile_plan(ms.explain(fn, Tensor(X), ms.mutable(3)).stages[-1].graph, "O1")
    assert not {step.do for step in plan.main.instructions} & {jump, unless, choose}


def endless(n):
    i = 0
    while n > 0:
        i = (i + n) % 1000
    return i


def test_an_endless_loop_can_be_interrupted(interrupts):
    run = ms.jit(endless)
    assert run(ms.mutable(0)) == 0
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(ms.mutable(1))
    timer.join()
    assert run(ms.mutable(-1)) == 0
