"""Kernels against NumPy: each native primitive alone, and groups of them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graphs import graph_of
from helpers import assert_same
from op_functions import FUNCTIONS
from op_table import ROWS, Case

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import AbstractTensor
from minispore.engine import compile_plan, layout
from minispore.engine.covered import is_native
from minispore.engine.layout import Buffer, View
from minispore.engine.segments import Segment
from minispore.ir.interp import interpret
from minispore.ir.node import CNode, FuncGraph

TYPES = (dt.float32, dt.float64, dt.float16, dt.bfloat16)
CASES = [
    pytest.param(case, id=f"{name}-{i}")
    for name, cases in (*ROWS.items(), *FUNCTIONS.items())
    for i, case in enumerate(cases)
]


def traced(fn: Callable, arrays: list[np.ndarray]) -> FuncGraph:
    return graph_of(fn, *(AbstractTensor(dt.from_numpy(a.dtype), a.shape) for a in arrays))


def agree(graph: FuncGraph, arrays: list[np.ndarray], factor: float = 1.0) -> int:
    """Run the plan twice, compare with the interpreter; how many kernels it has."""
    with np.errstate(all="ignore"):
        expected = interpret(graph, list(arrays))
    plan = compile_plan(graph, "O1")
    for _ in range(2):
        for out, want in zip(plan.run(list(arrays)), expected, strict=True):
            assert_same(out, want, factor)
    steps = [s.function for s in plan.main.instructions if isinstance(s.function, Segment)]
    return sum(len(s.kernels) for s in steps)


@pytest.mark.parametrize("case", CASES)
def test_rows_of_the_op_table(case: Case) -> None:
    """In all float types, and what they give for nan, infinities and zeros of both signs."""
    if not any(x.dtype == np.float64 for x in case.inputs):
        types: tuple[dt.DType, ...] = (dt.float64,)
    else:
        types = tuple(t for t in TYPES if t in case.dtypes)
    for dtype in types:
        arrays = [x.astype(dtype.numpy) if x.dtype == np.float64 else x for x in case.inputs]
        try:
            graph = traced(case.function, arrays)
        except RuntimeError:  # its result's size depends on values
            return
        if not any(is_native(n) for n in graph.nodes()):
            return
        agree(graph, arrays, case.factor)
        for value in (np.nan, np.inf, -np.inf, 0.0, -0.0):
            special = [a.copy() for a in arrays]
            for a in special:
                if a.dtype == dtype.numpy:
                    a.reshape(-1)[:1] = value
            agree(graph, special, case.factor)


# ------------------------------------------------------------------------------- layouts


def elements(view: View, array: np.ndarray) -> np.ndarray:
    size = array.itemsize
    flat = array.reshape(-1)[view.offset :]
    return np.lib.stride_tricks.as_strided(flat, view.shape, [s * size for s in view.steps])


def test_views_are_those_of_numpy() -> None:
    """Random chains of transposing, slicing, broadcasting and reshaping."""
    rng = np.random.default_rng(3)
    for _ in range(500):
        shape = tuple(rng.integers(1, 5, rng.integers(1, 5)).tolist())
        array = np.arange(math.prod(shape)).reshape(shape)
        view, expected = View(Buffer("i8", array.size), shape), array
        for _ in range(4):
            view, expected = moved(view, expected, rng)
            assert view.shape == expected.shape
            np.testing.assert_array_equal(elements(view, array), expected)
            assert not view.is_whole or np.array_equal(expected.reshape(-1), array.reshape(-1))


def moved(view: View, array: np.ndarray, rng: Any) -> tuple[View, np.ndarray]:
    kind = rng.integers(4)
    if kind == 0:
        perm = rng.permutation(array.ndim).tolist()
        return layout.permuted(view, perm), array.transpose(perm)
    if kind == 1:
        starts = [int(rng.integers(n)) for n in array.shape]
        ranges = [(b, n, int(rng.integers(1, 3))) for b, n in zip(starts, array.shape, strict=True)]
        return layout.sliced(view, ranges), array[tuple(slice(*r) for r in ranges)]
    if kind == 2:
        shape = (2, *(3 if n == 1 else n for n in array.shape))
        if math.prod(shape) > 3000:
            return view, array
        return layout.broadcast(view, shape), np.broadcast_to(array, shape)
    axes = sorted(rng.choice(array.size + 1, rng.integers(0, 3)).tolist())
    shape = [array.size]
    for n in axes:  # some other shape of the same size
        if n and shape[-1] % n == 0:
            shape[-1:] = [n, shape[-1] // n]
    if rng.integers(2):
        shape = [n for m in array.shape for n in ((2, m // 2) if m % 2 == 0 else (m,))]
    found = layout.reshaped(view, tuple(shape))
    return (view, array) if found is None else (found, array.reshape(shape))


# ------------------------------------------------------------------------------- groups

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def attention(q, k, v, mask):
    scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * 0.25 + mask
    return ops.matmul(ops.softmax(scores, -1), v)


def heads(x, w, b):
    y = ops.reshape(ops.matmul(ops.reshape(x, (-1, 8)), w) + b, (2, 5, 2, 4))
    y = ops.transpose(y, (0, 2, 1, 3))
    out = attention(y, y * 2, y + 1, ops.zeros((5, 5)))
    return ops.reshape(ops.transpose(out, (0, 2, 1, 3)), (2, 5, 8))


def layer_norm(x, g, b):
    m = ops.mean(x, -1, True)
    d = x - m
    return d * ops.rsqrt(ops.mean(d * d, -1, True) + 1e-5) * g + b


GROUPS: dict[str, tuple[Callable, list[np.ndarray]]] = {
    "attention": (attention, [normal(2, 3, 5, 4), normal(2, 3, 5, 4), normal(2, 3, 5, 4),
                              normal(5, 5)]),
    "heads": (heads, [normal(2, 5, 8), normal(8, 8), normal(8)]),
    "embedding": (
        lambda t, i, p: layer_norm(ops.gather(t, i, 0) + p, p[0], p[1]),
        [normal(7, 4), RNG.integers(-7, 7, (3, 5)), normal(5, 4)],
    ),
    "lookup": (lambda t, i: ops.gather(t, i * 2 - 1, 0) * 2,
               [normal(9), RNG.integers(0, 4, (3, 5)).astype(np.int32)]),
    "middle": (lambda x: ops.reduce_sum(x * 2, (1,)) + ops.reduce_max(x, (1,)), [normal(3, 4, 5)]),
    "some axes": (lambda x: ops.mean(x + 1, (0, 2)), [normal(3, 4, 5, 2)]),
    "blocks": (lambda x, g, b: ops.reduce_sum(layer_norm(x, g, b), (0,)),
               [normal(4, 6, 8), normal(8), normal(8)]),
    "first": (lambda x, g, b: ops.reduce_sum(layer_norm(x, g, b), (0, 1)),
              [normal(40, 6, 8), normal(8), normal(8)]),
    "most of columns": (lambda x: ops.reduce_max(ops.exp(x), (0,)), [normal(7, 5)]),
    "total": (lambda x: ops.reduce_sum(ops.exp(x)) * 2, [normal(30, 5)]),
    "total of rows": (lambda x: ops.reduce_sum(ops.log(ops.reduce_sum(ops.exp(x), -1))),
                      [normal(30, 5)]),
    "gates": (lambda x: ops.tanh(x[:, :4]) * ops.sigmoid(x[:, 4:8]) + x[:, 8:12], [normal(5, 12)]),
    "split": (lambda x: ops.split(ops.tanh(x), 2, 1)[1] * ops.split(x, (1, 2, 2), 1)[1],
              [normal(3, 5)]),
    "tiles": (lambda x: ops.tile(x, (2, 3)) + 1, [normal(3, 2)]),
    "channels": (lambda x, b: ops.bias_add(x * 2, b), [normal(2, 3, 4, 5), normal(3)]),
    "pieces": (lambda x: ops.concat((x[1:], x[:1] * 2, ops.transpose(x, (1, 0))), 0),
               [normal(4, 4)]),
    "padded": (lambda x: ops.pad(x, (1, 2, 0, 3), value=1.5) + 1, [normal(3, 2, 4)]),
    "turned": (lambda x: ops.flip(x, (0,)) - ops.flip(x, (1,)), [normal(3, 4)]),
    "broadcast": (lambda x, y: ops.broadcast_to(x, (2, 3, 4)) * y + ops.broadcast_to(y, (2, 3, 4)),
                  [normal(2, 1, 4), normal(3, 1)]),
    "products": (lambda x, y: ops.matmul(ops.transpose(x, (1, 0)), y[1:, ::2]) + y[:1, :2],
                 [normal(3, 5), normal(4, 4)]),
    "of ints": (lambda x: (ops.abs(x) * 3 - 1, ops.reduce_sum(x, (0,)), ops.maximum(x, 2)),
                [RNG.integers(-9, 9, (4, 5)).astype(np.int32)]),
    "of bools": (lambda x, y: (ops.logical_and(x > 0, y > 0), ops.all(x > -9), ops.any(x > 9)),
                 [normal(4, 5), normal(5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_groups(name: str) -> None:
    fn, arrays = GROUPS[name]
    for dtype in (np.float32, np.float64):
        cast = [a.astype(dtype) if a.dtype == np.float32 else a for a in arrays]
        graph = traced(fn, cast)
        assert all(is_native(n) for n in graph.nodes() if _computes(n))
        agree(graph, cast, 4)


def _computes(node: Any) -> bool:
    callee = getattr(node, "callee", None)
    return isinstance(node, CNode) and getattr(callee, "name", "") not in ("MakeTuple", "Check")


GRADIENTS = ["heads", "embedding", "middle", "some axes", "gates", "pieces", "padded", "products"]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_groups(name: str) -> None:
    """The gradients, whose graphs have scattered sums and other layouts."""
    import minispore as ms
    from minispore.tensor import Tensor

    fn, arrays = GROUPS[name]
    wrt = tuple(i for i, a in enumerate(arrays) if a.dtype == np.float32)
    grad = ms.grad(lambda *xs: ops.reduce_sum(ops.square(fn(*xs))), wrt)
    tensors = [Tensor(a) for a in arrays]
    for got, want in zip(ms.jit(grad)(*tensors), grad(*tensors), strict=True):
        assert_same(got, want, 10)


def test_no_index_leaves_the_operand() -> None:
    """Indices count modulo the size, as the primitives say; what is outside is a Check's matter."""
    table, index = normal(5, 3), np.array([7, -9, 4, 2**31 - 1, -(2**31)], np.int32)
    graph = traced(lambda t, i: ops.gather(t, i, 0), [table, index])
    nodes = [n for n in graph.nodes() if isinstance(n, CNode) and is_native(n)]
    (gather,) = [n for n in nodes if n.callee.name == "Gather"]
    (out,) = Segment([gather], [gather]).run([table, index])
    np.testing.assert_array_equal(out, table[index.astype(np.int64) % 5])


# ------------------------------------------------------------------------------- random groups


def random_step(rng: Any, values: list[Any]) -> Any:
    """One more value, of those that are there."""
    x = values[rng.integers(len(values))]
    n, kind = len(x.shape), rng.integers(10)
    if kind == 0 and n:
        axes = tuple(sorted(rng.choice(n, rng.integers(1, n + 1), replace=False).tolist()))
        kept = bool(rng.integers(2))
        return [ops.reduce_sum, ops.reduce_max, ops.mean][rng.integers(3)](x, axes, kept)
    if kind == 1 and n > 1:
        return ops.transpose(x, tuple(rng.permutation(n).tolist()))
    if kind == 2 and n:
        return ops.reshape(x, (-1, x.shape[-1]) if rng.integers(2) else (-1,))
    if kind == 3 and n:
        cut = tuple(slice(int(rng.integers(2)) if m > 1 else 0, None) for m in x.shape)
        return x[cut]
    if kind == 4 and n:
        return ops.softmax(x, -1)
    if kind == 5 and n > 1:
        return ops.matmul(x, ops.transpose(x, (*range(n - 2), n - 1, n - 2))) * 0.1
    if kind == 6 and n:
        index = rng.integers(-x.shape[0], x.shape[0], (3,)).astype(np.int32)
        return ops.gather(x, ops.constant(index), 0)
    if kind == 7 and n:
        return ops.concat((x, ops.neg(x)), int(rng.integers(n)))
    fits = [y for y in values if _broadcasts(x.shape, y.shape)]
    y = fits[rng.integers(len(fits))]
    return ops.tanh([ops.add, ops.mul, ops.sub, ops.maximum][rng.integers(4)](x, y))


def _broadcasts(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    pairs = zip(reversed(one), reversed(two), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


@pytest.mark.parametrize("seed", range(60))
def test_random_groups(seed: int) -> None:
    """Random graphs of what is native, small enough for all ways of reading operands to occur."""
    rng = np.random.default_rng(seed)
    shapes = [(4, 3, 6), (3, 6), (6,), (4, 3, 1), (3, 1), (1, 6), ()]
    arrays = [rng.normal(size=s) for s in shapes]

    def fn(*tensors: Any) -> tuple:
        values = list(tensors)
        for _ in range(14):
            made = random_step(rng, values)
            if math.prod(made.shape) < 4000:
                values.append(made)
        return tuple(values[-4:])

    graph = traced(fn, arrays)
    found = compile_plan(graph, "O1").run(arrays)
    for out, want in zip(found, interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-10, atol=1e-12)  # terms may cancel


def test_memory_of_large_results_is_used_again_when_no_one_has_it() -> None:
    plan = compile_plan(traced(lambda x: ops.exp(x) * 2, [np.zeros((300, 300))]), "O1")

    def run(value: float) -> np.ndarray:
        return plan.run([np.full((300, 300), float(value))])[0]

    kept = [run(i) for i in range(5)]
    part = run(7.0)[3:]  # a view holds all
    seen = {run(9.0).ctypes.data for _ in range(6)}
    assert len(seen) <= 2
    for i, array in enumerate(kept):
        np.testing.assert_allclose(array, np.exp(i) * 2)
    np.testing.assert_allclose(part, np.exp(7.0) * 2)


def test_results_of_threads_are_their_own() -> None:
    plan = compile_plan(traced(lambda x: x + 1, [np.zeros((300, 300))]), "O1")
    wrong = []

    def work(start: int) -> None:
        for i in range(start, start + 100):
            (found,) = plan.run([np.full((300, 300), float(i))])
            wrong.extend([i] * bool((found != i + 1).any()))

    threads = [threading.Thread(target=work, args=(k * 1000,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_only_sums_are_computed_in_any_order(axis: Any) -> None:
    """Adding and subtracting a large number is how someone rounds: it stays so beside a sum."""
    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    agree(traced(lambda x: ops.reduce_sum((x + 1e6) - 1e6, axis), [x]), [x])
    agree(traced(lambda x: ((x + 1e6) - 1e6) + ops.sum(ops.sum(x, axis)), [x]), [x])


@pytest.mark.parametrize("shape", [(37, 100), (130, 3), (1, 50), (5, 3000), (65, 64), (200, 1)])
def test_rows_in_blocks(shape: tuple[int, int]) -> None:
    """Rows of any number and length, with sums along both axes and a value of each row."""
    rng = np.random.default_rng(0)
    x, row = (rng.standard_normal(s).astype(np.float32) for s in (shape, (shape[0], 1)))

    def fn(x: Any, row: Any) -> tuple:
        e = ops.exp(x - ops.amax(x, -1, keepdims=True))
        share = e / e.sum(-1, keepdims=True)
        d = (share + row) - (share * x).mean(-1, keep_dims=True)
        return share, d / row, d.sum(0), ops.log(e.sum(-1)).sum()

    assert agree(traced(fn, [x, row]), [x, row]) <= 2


def test_single_numbers_share_a_kernel() -> None:
    a, b = np.array(0.3, np.float32), np.array([2.0], np.float32)
    graph = traced(lambda a, b: (1 - a * 0.9, ops.sqrt(b) / 3, a + 2), [a, b])
    assert agree(graph, [a, b]) == 1
