"""Kernels in float32 against the interpreter in float64: whole training steps, and odd sizes.

A tensor is compared relative to its largest magnitude, and a gradient also to a thousandth of the
largest gradient of the step: some are 0 but for rounding, that of attention's key bias, say.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graphs import graph_of

import minispore as ms
from minispore import Tensor, nn, ops
from minispore import dtype as dt
from minispore.abstract import AbstractTensor
from minispore.engine import compile_plan
from minispore.ir.interp import interpret
from minispore.passes import default_pipeline

LEVELS = ["O1", "O2"]


def exact(fn: Callable, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The results in float64, as the interpreter computes them from the graph before any pass."""
    report = ms.explain(fn, *map(Tensor, arrays))
    return [np.asarray(v) for v in interpret(report.graph("grad"), report.values) if v is not None]


def single(array: np.ndarray) -> Tensor:
    return Tensor(array.astype(np.float32) if array.dtype == np.float64 else array)


def assert_accurate(found: Any, wanted: np.ndarray, least: float = 0.0) -> None:
    """Within 1e-5 of the largest magnitude, or of `least` if that is larger."""
    found = found.asnumpy() if isinstance(found, Tensor) else found
    assert found.shape == wanted.shape and found.dtype != np.float64
    scale = max(np.abs(wanted).max(initial=0), least)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * scale)


def check_step(loss: Callable, data: list[np.ndarray], weights: list[np.ndarray], level: str):
    """Loss, outputs and gradients of one step; weights and float data are float32 numbers."""
    n = len(data)
    places = tuple(range(n, n + len(weights)))
    step = ms.value_and_grad(loss, places, has_aux=True)
    arrays = [a.astype(np.float32).astype(a.dtype) if a.dtype == np.float64 else a
              for a in (*data, *weights)]  # fmt: skip
    value, outputs, *gradients = exact(step, arrays)
    (found_value, found_outputs), found = ms.jit(step, jit_level=level)(*map(single, arrays))
    assert_accurate(found_value, value)
    assert_accurate(found_outputs, outputs)
    largest = max(np.abs(g).max() for g in gradients)
    found = (found,) if isinstance(found, Tensor) else found
    assert len(found) == len(gradients) == len(weights)
    for f, g in zip(found, gradients, strict=True):
        assert_accurate(f, g, 1e-3 * largest)


def normal(*shape, scale=1.0):
    seed = sum(shape) * 31 + len(shape)
    return scale * np.random.default_rng(seed).standard_normal(shape)


def dense(x, w, b):
    return ops.matmul(x, w) + b


def mlp(x, y, w1, b1, w2, b2, w3, b3):
    h = ops.relu(dense(x, w1, b1))
    out = dense(ops.relu(dense(h, w2, b2)), w3, b3)
    return ops.cross_entropy(out, y), out


def layer_norm(x, gamma, beta):
    centred = x - x.mean(-1, keep_dims=True)
    return centred / ops.sqrt(ops.square(centred).mean(-1, keep_dims=True) + 1e-5) * gamma + beta


def gpt(mask_size, heads, layers):
    mask = np.triu(np.full((mask_size, mask_size), -1e9), 1)

    def split_heads(x):
        batch, length, width = x.shape
        return x.reshape((batch, length, heads, width // heads)).transpose((0, 2, 1, 3))

    def block(x, w):
        g1, b1, wq, bq, wk, bk, wv, bv, wo, bo, g2, b2, wu, bu, wd, bd = w
        y = layer_norm(x, g1, b1)
        q, k, v = (split_heads(dense(y, *p)) for p in ((wq, bq), (wk, bk), (wv, bv)))
        scores = ops.matmul(q, k.transpose((0, 1, 3, 2))) * q.shape[-1] ** -0.5
        a = ops.softmax(scores + ops.cast(Tensor(mask), x.dtype), -1)
        x = x + dense(ops.matmul(a, v).transpose((0, 2, 1, 3)).reshape(x.shape), wo, bo)
        y = layer_norm(x, g2, b2)
        return x + dense(ops.gelu(dense(y, wu, bu), approximate="tanh"), wd, bd)

    def loss(ids, labels, embed, pos, *w):
        x = ops.gather(embed, ids, 0) + pos
        for i in range(layers):
            x = block(x, w[16 * i : 16 * i + 16])
        g, b, head, bias = w[16 * layers :]
        out = dense(layer_norm(x, g, b), head, bias).reshape((-1, embed.shape[0]))
        return ops.cross_entropy(out, labels), out

    return loss


def gpt_weights(vocab, length, d, layers):
    ones, zeros = np.ones(d), np.zeros
    block = [ones, zeros(d), normal(d, d, scale=0.05), normal(d, scale=0.05)]
    block += [*block[2:], *block[2:], *block[2:], ones, zeros(d)]
    block += [normal(d, 4 * d, scale=0.05), zeros(4 * d), normal(4 * d, d, scale=0.05), zeros(d)]
    ends = [normal(d) + 2, normal(d + 1)[:d], normal(d, vocab, scale=0.1), zeros(vocab)]
    varied = [w + normal(*w.shape, scale=0.02) for w in block * layers]
    return [normal(vocab, d, scale=0.5), normal(length, d, scale=0.1), *varied, *ends]


@pytest.mark.parametrize("level", LEVELS)
def test_a_step_of_a_perceptron(level):
    labels = np.random.default_rng(0).integers(0, 2, 32).astype(np.int32)
    sizes = [(2, 16), (16,), (16, 16), (17,), (16, 2), (2,)]
    weights = [normal(*s, scale=0.5) for s in sizes]
    weights[3] = weights[3][:16]
    check_step(mlp, [normal(32, 2), labels], weights, level)


@pytest.mark.parametrize("level", LEVELS)
def test_a_step_of_a_transformer(level):
    random = np.random.default_rng(0)
    ids, labels = (random.integers(0, 65, s).astype(np.int32) for s in ((4, 32), (128,)))
    check_step(gpt(32, 4, 2), [ids, labels], gpt_weights(65, 32, 32, 2), level)


def softmax(x):
    e = ops.exp(x - ops.amax(x, -1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + ops.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


ROWS = {
    "softmax": softmax,
    "softmax of the library": lambda x: ops.softmax(x, -1),
    "log of softmax": lambda x: ops.log(ops.softmax(x, -1)),
    "layernorm": lambda x: layer_norm(x, x[0] * 0.1 + 1, x[-1]),
    "gelu": gelu,
    "gelu of the library": lambda x: ops.gelu(x, approximate="tanh"),
    "powers": lambda x: (x / 3 + 2) ** 3 + (x * x + 1) ** -0.5,
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [(64, 256), (3, 1), (1, 7), (5, 4099)])
def test_functions_of_rows_and_their_gradients(name, level, shape):
    def loss(weight, x):
        y = ROWS[name](x)
        return (y * weight).mean(), y

    check_step(loss, [normal(*shape)], [1.5 * normal(*shape)], level)


# ------------------------------------------------------------------------------- optimizers


@pytest.mark.parametrize("level", LEVELS)
def test_adam_from_equal_gradients_and_state(level):
    """Three updates; each starts from the state that the one before left."""
    random = np.random.default_rng(0)
    shapes = [(7, 33), (1000,), ()]
    weights = [ms.Parameter(single(np.asarray(random.standard_normal(s))), name=f"p{i}")
               for i, s in enumerate(shapes)]  # fmt: skip
    optimizer = nn.Adam(weights, 1e-2, beta1=0.9, beta2=0.99, eps=1e-6, weight_decay=0.01)
    update = ms.jit(lambda *grads: optimizer(grads), jit_level=level)
    moments = [[np.zeros(s) for s in shapes] for _ in range(2)]
    for turn in range(1, 4):
        before = [p.asnumpy().astype(np.float64) for p in weights]
        grads = [single(np.asarray(random.standard_normal(s) * 10.0 ** random.integers(-4, 4)))
                 for s in shapes]  # fmt: skip
        update(*grads)
        for i, (p, grad) in enumerate(zip(before, grads, strict=True)):
            g = grad.asnumpy().astype(np.float64) + 0.01 * p
            m = moments[0][i] = 0.9 * moments[0][i] + 0.1 * g
            v = moments[1][i] = 0.99 * moments[1][i] + 0.01 * g * g
            rate = 1e-2 * np.sqrt(1 - 0.99**turn) / (1 - 0.9**turn)
            assert_accurate(weights[i], p - rate * m / (np.sqrt(v) + 1e-6))


# ------------------------------------------------------------------------------- sizes

SIZES = [1, 2, 3, 15, 16, 17, 31, 33, 1_000_003]
FLAT = {
    "map": lambda x, y: (ops.exp(-x * x) + y / 3, x > y),
    "sum": lambda x, y: ((x * x + y * y).sum(), ops.amax(x), ops.abs(y).mean()),
    "softmax": lambda x, y: ops.softmax(x + y),
    "moves": lambda x, y: (x[::-1] - y, ops.concat((y, x)), x[x.shape[0] // 2 :] * 2),
}


def agree(fn, arrays):
    """Both levels against float64, in a plan that takes the arrays as they are laid out."""
    arrays = [np.asarray(a) for a in arrays]
    wide = [a.astype(np.float64) for a in arrays]
    graph, reference = (
        graph_of(fn, *(AbstractTensor(dt.from_numpy(a.dtype), a.shape) for a in group))
        for group in (arrays, wide)
    )
    wanted = interpret(reference, wide)
    for level in LEVELS:
        ready = default_pipeline(fastmath=level == "O2").run(graph)
        plan = compile_plan(ready, level)
        copies = [a.copy() for a in arrays]
        for _ in range(2):
            for found, want in zip(plan.run(arrays), wanted, strict=True):
                assert_accurate(np.asarray(found), np.asarray(want))
                assert not any(np.shares_memory(found, a) for a in arrays)
        for a, before in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(a, before)


def pair(n, seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(n).astype(np.float32) for _ in range(2)]


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("size", SIZES)
def test_odd_sizes(name, size):
    agree(FLAT[name], pair(size))


def by_rows(x, y):
    sums = ops.softmax(x, -1) + y.sum(0), (x * y).sum(-1), x.mean(0), ops.amax(y, 1, keepdims=True)
    return (*sums, ops.matmul(x, y.T), ops.matmul(x.T, y))


@pytest.mark.parametrize("rows", [1, 2, 3, 17, 65])
@pytest.mark.parametrize("columns", [1, 2, 15, 16, 33])
def test_odd_rows(rows, columns):
    agree(by_rows, pair((rows, columns)))


def unaligned(array):
    room = np.zeros(array.nbytes + 1, np.uint8)
    other = np.ndarray(array.shape, array.dtype, room, 1)
    other[...] = array
    assert not other.flags.aligned
    return other


LAYOUTS: dict[str, Callable] = {
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "every second": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "a row for all": lambda a: np.broadcast_to(a[:1], a.shape),
    "unaligned": unaligned,
    "part of another": lambda a: np.pad(a, 2)[2:-2, 2:-2],
    "read only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "big endian": lambda a: a.astype(">f4").astype("=f4"),
    "Fortran": np.asfortranarray,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_laid_out_in_any_way(layout):
    x, y = pair((17, 33))
    agree(by_rows, [LAYOUTS[layout](x), y])
    agree(by_rows, [LAYOUTS[layout](x), LAYOUTS[layout](y)])


def test_no_elements_and_no_axes():
    zero = np.zeros((0, 3), np.float32)
    agree(lambda x, y: (x + y, ops.exp(x).sum(0), x.sum(), ops.matmul(y.T, x)), [zero, zero])
    agree(lambda x, y: (x * y, ops.exp(x).sum(), ops.maximum(x, y)), pair(()))
    agree(lambda x, y: (x * y.sum(), y + x, y * 2), [pair(())[0], pair(5)[0]])
