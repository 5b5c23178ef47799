"""Memory that is used again, and never while someone has it: results, arguments, state, threads.

Small results are new arrays, large ones (300 by 300) come from memory of earlier calls; after a few
calls a function takes its shortcut.
"""

import sys
import threading

import numpy as np
import pytest

import minispore as ms
from minispore import Parameter, Tensor, ops

LEVELS = ["O0", "O1", "O2"]
SIZES = [3, 300]


def normal(n, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal((n, n)).astype(np.float32))


def number(value):
    return Tensor(np.float32(value))


KEEP = {
    "Tensors": lambda t: t,
    "arrays": lambda t: t.asnumpy(),
    "parts": lambda t: t.asnumpy()[1:],
    "turned": lambda t: t.asnumpy().T,
    "every second": lambda t: t.asnumpy().reshape(-1)[::2],
    "views": lambda t: memoryview(t.asnumpy()),
    "imports": lambda t: np.from_dlpack(t.asnumpy()),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kept", KEEP)
def test_results_of_earlier_calls_do_not_change(kept, n, level):
    f = ms.jit(lambda a, c: (ops.exp(a * c), (a + c).sum(0), a.T * c), jit_level=level)
    x, held = normal(n), []
    for i in range(8):
        results = f(x, number(i * 0.1))
        for t in results:
            part = KEEP[kept](t)
            held.append((part, np.array(part if not isinstance(part, Tensor) else part.asnumpy())))
        del results, t
    for part, before in held:
        now = part.asnumpy() if isinstance(part, Tensor) else np.asarray(part)
        np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", SIZES)
def test_the_same_tensor_twice_and_views_of_the_callers_arrays(n, level):
    twice = ms.jit(lambda a, b: (a + b, a - b), jit_level=level)
    room = np.random.default_rng(0).standard_normal((n, 2 * n)).astype(np.float32)
    f = ms.jit(lambda a: ops.exp(a) - a.T, jit_level=level)
    for _ in range(4):
        x = normal(n)
        total, none = twice(x, x)
        np.testing.assert_array_equal(total.asnumpy(), 2 * x.asnumpy())
        assert not none.asnumpy().any()
        part = Tensor(room[:, ::2])
        want = np.exp(room[:, ::2]) - room[:, ::2].T
        np.testing.assert_allclose(f(part).asnumpy(), want, rtol=1e-4, atol=1e-5)
        part[0, 0] = 3.0
        changed = part.asnumpy()
        want = np.exp(changed) - changed.T
        np.testing.assert_allclose(f(part).asnumpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", SIZES)
def test_parameters_share_no_memory_with_what_they_were_set_to(n, level):
    p, q = (Parameter(Tensor(np.zeros((n, n), np.float32)), name=name) for name in "pq")

    @ms.jit(jit_level=level)
    def step(a):
        old = p * 1
        ops.assign(p, p + a)
        ops.assign(q, q * a - p)
        return old, p + q

    x = normal(n)
    before, results = x.asnumpy().copy(), []
    p.set_data(x)
    q.set_data(x)
    want_p, want_q = before.astype(np.float64), before.astype(np.float64)
    for i in range(6):
        array = p.asnumpy()
        results.append((step(number(i)), want_p, array, array.copy()))
        want_p = want_p + i
        want_q = want_q * i - want_p
        np.testing.assert_allclose(p.asnumpy(), want_p, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(q.asnumpy(), want_q, rtol=1e-5, atol=1e-2)
    np.testing.assert_array_equal(x.asnumpy(), before)
    for (old, _), want, array, copy in results:
        np.testing.assert_allclose(old.asnumpy(), want, rtol=1e-5, atol=1e-4)
        np.testing.assert_array_equal(array, copy)
    (_, last), *_ = results[-1]
    kept = last.asnumpy().copy()
    p.set_data(last)  # a result becomes state
    step(number(1))
    step(number(1))
    np.testing.assert_array_equal(last.asnumpy(), kept)
    np.testing.assert_allclose(p.asnumpy(), kept + 2, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", SIZES)
def test_what_fails_in_the_middle_leaves_the_state_of_python(n, level):
    """An index that is out of range: the assignment before it has happened, those after it not."""
    p = Parameter(Tensor(np.zeros((n, n), np.float32)), name="p")

    def f(a, index):
        ops.assign(p, p + ops.exp(a))
        picked = ops.gather(a, index, 0)
        ops.assign(p, p * 2)
        return picked.sum()

    def run(function, x, *indices):
        p.set_data(Tensor(np.ones((n, n), np.float32)))
        errors = []
        for i in indices:
            try:
                function(x, Tensor(np.array([0, i], np.int32)))
            except Exception as error:
                errors.append((type(error), str(error)))
        return errors, p.asnumpy().copy()

    x = Tensor(normal(n).asnumpy() * 0.1)
    indices = [1, n + 5, 1, 1, n + 7, 1, -n, n]
    errors, state = run(f, x, *indices)
    found = run(ms.jit(f, jit_level=level), x, *indices)
    assert found[0] == errors and len(errors) == 3
    np.testing.assert_allclose(found[1], state, rtol=1e-5)


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("n", [3, 100])
def test_threads_that_call_one_function_get_their_own_results(n, level):
    f = ms.jit(lambda a, c: (ops.exp(a * 0.01) * c, (a * c).sum(0), ops.matmul(a, a)),
               jit_level=level)  # fmt: skip
    total = Parameter(Tensor(np.zeros(4, np.float32)), name="total")

    @ms.jit(jit_level=level)
    def count(a):
        ops.assign(total, total + a)
        return total * 1

    wrong = []

    def work(i):
        a, ones, held = Tensor(np.full((n, n), i, np.float32)), Tensor(np.ones(4, np.float32)), []
        for j in range(60):
            held = [*held[-4:], (j, f(a, number(j)))]
            count(ones)
            for number_, found in held:
                want = (np.exp(0.01 * i) * number_, i * number_ * n, i * i * n)
                for t, w in zip(found, want, strict=True):
                    if not np.allclose(t.asnumpy(), w, rtol=1e-5):
                        wrong.append((i, number_, t.asnumpy().flat[0], w))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert total.asnumpy().tolist() == [240.0] * 4
