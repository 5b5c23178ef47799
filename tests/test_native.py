"""Running tables of kernels by one call."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest
from kernels import HEAD

from minispore.engine import cache, native

ADD = f"""{HEAD}
def kernel(slots, args, lo, hi, worker):
    x, y, out = p_f4(slots[args[0]]), p_f4(slots[args[1]]), p_f4(slots[args[2]])
    for i in range(lo, hi):
        out[i] = x[i] + y[i]
"""
LESS = f"""{HEAD}
def kernel(slots, args, lo, hi, worker):
    p_u1(slots[args[2]])[0] = p_f4(slots[args[0]])[0] < p_f4(slots[args[1]])[0]
"""


class Table:
    """Rows of a table, and what they refer to."""

    def __init__(self, *rows, slots=4):
        self.blocks = [np.array(r[2], np.int64) if r[0] == 0 else None for r in rows]
        words = [
            (0, r[1], b.ctypes.data, *r[3:]) if r[0] == 0 else (*r, 0, 0, 0)[:5]
            for r, b in zip(rows, self.blocks, strict=True)
        ]
        self.words = np.array(words, np.int64).ravel()
        self.rows = len(rows)
        self.slots = np.zeros(slots, np.int64)


WAYS = ["built-in", "built-in, unlocked", "ctypes"]


def runs(table, way):
    if way == "ctypes":
        return native._bound_by_ctypes(table.words, table.rows, table.slots)
    return native.bound(table.words, table.rows, table.slots, unlocks="unlocked" in way)


@pytest.fixture
def table():
    return Table(
        (0, cache.kernel(ADD), [0, 1, 2], 0, 6), (0, cache.kernel(ADD), [2, 1, 2], 0, 6), slots=3
    )


def arrays():
    x = np.arange(6, dtype=np.float32)
    return [x, np.full((2, 3), 10, np.float32), np.zeros(6, np.float32)]


def test_this_python_is_known():
    assert native.layout_is_known() == (sys.implementation.name == "cpython")


@pytest.mark.parametrize("way", WAYS)
def test_rows_run_in_order(table, way):
    run = runs(table, way)
    for _ in range(3):
        x, y, out = arrays()
        assert run(x, y, out) == 0
        np.testing.assert_array_equal(out, x + 20)


@pytest.mark.parametrize("way", WAYS)
def test_arrays_that_are_laid_out_otherwise(table, way):
    run = runs(table, way)
    x, y, out = arrays()
    odd = np.ndarray(6, np.float32, bytearray(32), offset=1)
    for wrong in (np.zeros((6, 2), np.float32)[:, 0], np.zeros((3, 2), np.float32).T, odd, x[::-1]):
        assert run(wrong, y, out) == -1
        assert run(x, wrong, out) == -2
        assert run(x, y, wrong) == -3
    assert (out == 0).all()
    assert run(np.zeros(12, np.float32)[6:], y, out) == 0  # a part is as good


@pytest.mark.parametrize("way", WAYS)
def test_loops(way):
    """while out < limit: out += x."""
    table = Table(
        (0, cache.kernel(LESS), [1, 2, 3], 0, 1),
        (2, 4 * 5, 3),  # leave
        (0, cache.kernel(ADD), [0, 1, 1], 0, 1),
        (1, 0),
    )
    flag = np.zeros(1, np.bool_)
    table.slots[3] = flag.ctypes.data
    out = np.zeros(1, np.float32)
    assert runs(table, way)(np.float32([3]), out, np.float32([1000])) == 0
    assert out[0] == 1002 and not flag[0]
    run, out = runs(table, way), np.zeros(1, np.float32)
    for _ in range(2):  # it stops after many jumps, and goes on
        out[0], calls = 0, 1
        while run(np.float32([1]), out, np.float32([30000])):
            calls += 1
        assert (out[0], calls) == (30000, 4)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_leaks_and_nothing_is_freed_too_early(table, way):
    run = runs(table, way)
    x, y, out = arrays()
    before = [sys.getrefcount(v) for v in (x, y, out, None, 0)]
    for _ in range(2000):
        run(x, y, out)
        run(x[::2], y, out)
    after = [sys.getrefcount(v) for v in (x, y, out, None, 0)]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 50
    words = weakref.ref(table.words)
    slots = weakref.ref(table.slots)
    table.words = table.slots = None
    gc.collect()
    if way != "ctypes":
        assert words() is not None and slots() is not None  # the function needs them
    assert run(x, y, out) == 0
    del run
    gc.collect()
    assert words() is None and slots() is None


def test_a_function_that_does_not_know_the_layout(table, monkeypatch):
    monkeypatch.setattr(native, "layout_is_known", lambda: False)
    x, y, out = arrays()
    assert runs(table, "built-in")(x, y, out) == 0
    assert out[1] == 21


def test_other_threads_run_meanwhile():
    """A long run that lets go of the interpreter's lock ends when another thread says so."""
    wait = f"""{HEAD}
def kernel(slots, args, lo, hi, worker):
    p_i4(slots[0])[0] = 1
"""
    test = f"""{HEAD}
def kernel(slots, args, lo, hi, worker):
    p_u1(slots[2])[0] = p_i4(slots[1])[0] == 0
"""
    start = (0, cache.kernel(wait), [0], 0, 1)
    table = Table(start, (0, cache.kernel(test), [0], 0, 1), (2, 4 * 5, 2), (1, 5))
    started, stop = np.zeros(1, np.int32), np.zeros(1, np.int32)
    flag = np.zeros(1, np.bool_)
    table.slots[2] = flag.ctypes.data
    run = native.bound(table.words, table.rows, table.slots, unlocks=True)

    def until_it_ends():
        while run(started, stop):
            pass

    thread = threading.Thread(target=until_it_ends)
    thread.start()
    while not started[0]:
        pass
    stop[0] = 1
    thread.join(60)
    assert not thread.is_alive()
