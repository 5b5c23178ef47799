"""Half floats in kernels: computed as float32, rounded by each operation, as NumPy does."""

import numpy as np
import pytest
from helpers import assert_same
from kernels import HEAD, call

import minispore as ms
from minispore import Tensor, ops
from minispore import dtype as dt
from minispore.engine import cache

HALVES = [dt.float16, dt.bfloat16]
SPECIAL = [
    0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 6e-8, -3e-8, 65504, -65504, 2.5, 3.5, 1e-5, 300, -7,
]  # fmt: skip


def convert(function, x, source, target, out):
    """A function of half.py, of all elements."""
    result = np.empty(x.size, out)
    text = f"""{HEAD}
from minispore.engine.kernels.half import *
def kernel(slots, args, lo, hi, worker):
    x, out = p_{source}(slots[0]), p_{target}(slots[1])
    for i in range(lo, hi):
        out[i] = {function}(x[i])
"""
    call(cache.kernel(text), [x, result], hi=x.size)
    return result


def assert_same_bits(actual, expected):
    """Equal, signs of zeros included; a nan is a nan."""
    with np.errstate(invalid="ignore"):  # signalling nans
        a, e = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(a, e)
    numbers = ~np.isnan(e)
    np.testing.assert_array_equal(np.signbit(a)[numbers], np.signbit(e)[numbers])


BITS = np.arange(2**16).astype(np.uint16).view(np.int16)
CONVERSIONS = [("f2", "", dt.float16), ("f2", "_by_integers", dt.float16), ("b2", "", dt.bfloat16)]


@pytest.mark.parametrize(("kind", "way", "dtype"), CONVERSIONS)
def test_all_half_floats_are_loaded(kind, way, dtype):
    expected = BITS.view(dtype.numpy).astype(np.float32)
    assert_same_bits(convert(f"load_{kind}{way}", BITS, "i2", "f4", np.float32), expected)


@pytest.mark.parametrize(("kind", "way", "dtype"), CONVERSIONS)
def test_floats_are_rounded_to_the_nearest_half_float(kind, way, dtype):
    """Any bits, all half floats, what lies in the middle between two, and what is next to that."""
    known = np.sort(BITS.view(dtype.numpy).astype(np.float32))
    known = known[np.isfinite(known)]
    middle = known[1:] / 2 + known[:-1] / 2
    around = [np.nextafter(middle, np.float32(s * np.inf)) for s in (1, -1)]
    bits = np.random.default_rng(0).integers(-(2**31), 2**31, 100_000).astype(np.int32)
    x = np.concatenate([bits.view(np.float32), known, middle, *around, np.float32(SPECIAL)])
    with np.errstate(all="ignore"):
        expected = x.astype(dtype.numpy)
    found = convert(f"store_{kind}{way}", x, "f4", "i2", np.int16).view(dtype.numpy)
    assert_same_bits(found, expected)


INDEX = np.zeros((2, 1), np.int32)
PROGRAMS = {
    "chain": lambda x, y: (x * y + x) * 0.1 - y,
    "exp": lambda x, y: ops.exp(x) / (1 + ops.exp(y)),
    "erf": lambda x, y: ops.erf(x) + ops.sin(y) * ops.log(ops.abs(x)),
    "powers": lambda x, y: ops.abs(x) ** y,
    "floor": lambda x, y: (x // y, x % y),
    "choices": lambda x, y: ops.where(x > y, ops.relu(x), -y) + ops.maximum(x, y),
    "compare": lambda x, y: (x > y, x == y, ops.isnan(x)),
    "sums": lambda x, y: (x.sum(0), (x * y).sum(-1), x.sum()),
    "means": lambda x, y: x.mean(-1, keep_dims=True) + y,
    "extremes": lambda x, y: (ops.amax(x, 0), ops.amin(y, -1)),
    "softmax": lambda x, y: (ops.softmax(x, -1) * y, ops.log_softmax(x, -1)),
    "gelu": lambda x, y: ops.gelu(x, approximate="tanh"),
    "product": lambda x, y: (ops.matmul(x, y.T) + 1, x.T @ y),
    "casts": lambda x, y: ops.cast(ops.cast(x, ms.float32) * 1.001, x.dtype) + (y > 0),
    "moves": lambda x, y: ops.concat((x.T, y.T), 0)[1:, ::2] * 2,
    "pad": lambda x, y: ops.pad(x, (1, 2), value=1.5),
    "gather": lambda x, y: ops.gather(x, Tensor([1, 0, 1]), 0) * 2,
    "pick": lambda x, y: ops.gather_elements(x, -1, Tensor(INDEX)),
    "gradients": lambda x, y: ms.grad(
        lambda x, y: (ops.tanh(x @ y.T) * 0.3 + (ops.softmax(x, -1) * y).sum()).sum(), (0, 1)
    )(x, y),
}  # fmt: skip


def pair(dtype, special):
    random = np.random.default_rng(0)
    x = np.resize(SPECIAL, (2, 16)) if special else random.standard_normal((2, 16))
    y = random.permutation(x.ravel()).reshape(x.shape)
    return [Tensor(v.astype(np.float32)).astype(dtype) for v in (x, y)]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_round_as_numpy_does(name, dtype):
    for special in (False, True):
        x, y = pair(dtype, special)
        expected = ms.jit(PROGRAMS[name], jit_level="O0")(x, y)
        jitted = ms.jit(PROGRAMS[name])
        assert_same(jitted(x, y), expected)
        assert "kernel(" in ms.explain(jitted, x, y).plan
        if not special:
            continue
        for a, e in zip(leaves(jitted(x, y)), leaves(expected), strict=True):
            assert_same_bits(a * (a != 0), e * (e != 0))


def leaves(value):
    return [v.asnumpy() for v in value] if isinstance(value, tuple) else [value.asnumpy()]


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_of_many_are_made_in_float32(dtype):
    x = Tensor(np.full((3000, 5), 0.1, np.float32)).astype(dtype)
    value = float(x[0, 0])
    for axis in (0, 1):
        found = ms.jit(lambda x, axis=axis: x.sum(axis))(x).asnumpy().astype(np.float64)
        expected = np.full(found.shape, value * x.shape[axis])
        np.testing.assert_allclose(found, expected, rtol=2e-3 if dtype is dt.float16 else 1e-2)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_network_of_mixed_precision_runs_in_kernels(dtype):
    """Products and activations of half floats; parameters and the loss are float32."""
    random = np.random.default_rng(0)
    x, *weights = (
        Tensor(random.standard_normal(s).astype(np.float32)) for s in ((32, 6), (6, 16), (16, 3))
    )
    y = Tensor(random.integers(0, 3, 32).astype(np.int32))

    def forward(x, y, first, second):
        h = ops.relu(ops.cast(x, dtype) @ ops.cast(first, dtype))
        return ops.cross_entropy(ops.cast(h @ ops.cast(second, dtype), ms.float32), y)

    step = ms.value_and_grad(forward, (2, 3))
    compiled, exact = ms.jit(step), ms.jit(step, jit_level="O0")
    found, expected = compiled(x, y, *weights), exact(x, y, *weights)
    assert_same(found[0], expected[0])
    assert [g.dtype for g in found[1]] == [dt.float32] * 2
    assert_same(*(tuple(g.astype(dtype) for g in r[1]) for r in (found, expected)))
    lines = ms.explain(compiled, x, y, *weights).plan.splitlines()
    computed = [n for n in lines if " = " in n and "(" in n and "Tensor[" not in n]
    assert computed and all("kernel" in line for line in computed), computed
