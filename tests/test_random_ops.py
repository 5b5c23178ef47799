"""Random ops: the generator, its statistics, its hidden state in both modes, gradients, errors."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import random_reference
from differential import agree
from helpers import assert_same
from scipy import stats

import minispore as ms
from minispore import dtype as dt
from minispore import nn, ops
from minispore.ops.random import random_state
from minispore.primitive import REGISTRY
from minispore.random import philox, random_bits, random_unit, random_words
from minispore.tensor import Tensor

ROOT = Path(__file__).parent.parent
ONES = np.ones((2, 6), np.float32)


def state(seed, draw):
    return np.array([seed, draw], np.uint64)


def drawn(fn, *args, seed=1):
    """The result of fn from a fresh seed on, as an ndarray."""
    ms.set_seed(seed)
    return fn(*args).asnumpy()


def position():
    """How many draws there were since set_seed."""
    return random_state().tolist()[1]


# ------------------------------------------------------------------------------- the generator

ANSWERS = [  # counter, key, result: published with Random123, the authors' library
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "expected"), ANSWERS)
def test_known_answers(counter, key, expected):
    numbers = [[int(word, 16) for word in text.split()] for text in (counter, key, expected)]
    assert random_reference.philox(numbers[0], numbers[1]) == numbers[2]
    columns = [np.array([[n, n] for n in column], np.uint64) for column in numbers]
    assert_same(philox(columns[0], columns[1][:, :1]), columns[2])


@pytest.mark.parametrize("seed", [0, 7, 2**32, 2**64 - 1])
@pytest.mark.parametrize("draw", [0, 3, 2**32 + 1, 2**64 - 1])
def test_words_are_those_of_the_reference(seed, draw):
    for n in (0, 1, 4, 7):
        assert random_words(state(seed, draw), n).tolist() == random_reference.words(
            state(seed, draw), n
        )
    assert random_bits(state(seed, draw), (3,), 64).tolist() == random_reference.bits64(
        state(seed, draw), 3
    )


def test_a_long_draw_begins_like_a_short_one():
    """Words do not depend on how many are drawn, nor on the chunks in which they are computed."""
    long = random_words(state(5, 2), 200_001)
    assert_same(random_words(state(5, 2), 1000), long[:1000])
    for block in (2**14 - 1, 2**14, 2**15 + 3):
        counter = [block, 0, 2, 0]
        assert long[4 * block : 4 * block + 4].tolist() == random_reference.philox(counter, [5, 0])


@pytest.mark.parametrize(
    ("dtype", "digits"), [(dt.float16, 11), (dt.bfloat16, 8), (dt.float32, 24), (dt.float64, 53)]
)
def test_numbers_below_one_are_exact(dtype, digits):
    """No rounding, so that 1 is never reached, and every multiple is as likely as any other."""
    values = random_unit(state(1, 0), (20_000,), dtype).astype(np.float64)
    assert values.min() >= 0 and values.max() < 1
    assert_same(values * 2**digits, np.floor(values * 2**digits))
    if digits <= 11:
        counts = np.bincount((values * 2**digits).astype(int), minlength=2**digits)
        assert stats.chisquare(counts).pvalue > 1e-3


# ---------------------------------------------------------------------------------- statistics


@pytest.mark.parametrize("dtype", [dt.float16, dt.float32, dt.float64], ids=str)
@pytest.mark.parametrize(
    ("draw", "distribution", "moments"),
    [(ops.rand, "uniform", (1 / 2, 1 / 12, 0, -1.2)), (ops.randn, "norm", (0, 1, 0, 0))],
    ids=["rand", "randn"],
)
def test_distributions(dtype, draw, distribution, moments):
    values = draw(200, 251, dtype=dtype).asnumpy()
    assert values.dtype == dtype.numpy and values.shape == (200, 251)
    x = values.astype(np.float64).ravel()
    found = x.mean(), x.var(), stats.skew(x), stats.kurtosis(x)
    np.testing.assert_allclose(found, moments, rtol=0, atol=0.05)
    assert stats.kstest(x[:2000], distribution).pvalue > 1e-3
    if dtype is not dt.float16:  # which has too few values for this
        assert stats.kstest(x, distribution).pvalue > 1e-3
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 4 / math.sqrt(x.size)


def test_normal_numbers_have_tails():
    x = np.abs(ops.randn(400_000).asnumpy())
    expected = 2 * stats.norm.sf(4) * x.size
    assert abs(np.sum(x > 4) - expected) < 4 * math.sqrt(expected)


def test_every_bit_is_fair():
    words = random_words(state(3, 4), 10_000)
    ones = (words[:, None] >> np.arange(32, dtype=np.uint64) & np.uint64(1)).astype(float)
    assert np.abs(ones.mean(0) - 0.5).max() < 4.5 * 0.5 / 100
    pairs = np.corrcoef(ones.T) - np.eye(32)
    assert np.abs(pairs).max() < 5 / 100


def test_draws_and_streams_are_independent():
    ms.set_seed(1)
    rows = [ops.rand(10_000).asnumpy() for _ in range(4)]
    rows += [ops.rand(10_000, seed=s).asnumpy() for s in (1, 2, 2)]
    rows += [ops.UniformReal(s, t)((10_000,)).asnumpy() for s, t in ((0, 2), (2, 1))]
    for seed in (2, 2**32 + 1, 2**63):
        rows.append(drawn(ops.rand, 10_000, seed=seed))
    correlations = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(correlations).max() < 4.5 / 100


def test_integers():
    x = ops.randint(-3, 5, (40, 200)).asnumpy()
    assert x.dtype == np.int64 and x.shape == (40, 200)
    assert stats.chisquare(np.bincount(x.ravel() + 3, minlength=8)).pvalue > 1e-3
    assert x.min() == -3 and x.max() == 4
    assert set(ops.randint(7, 8, (5,)).tolist()) == {7}
    widest = ops.randint(-(2**63), 2**63, (1000,)).asnumpy().astype(np.float64)
    assert stats.kstest(widest / 2**64 + 0.5, "uniform").pvalue > 1e-3
    widest = ops.randint(0, 2**64, (1000,), dtype=dt.uint64).asnumpy().astype(np.float64)
    assert stats.kstest(widest / 2**64, "uniform").pvalue > 1e-3
    for dtype, low in ((dt.int8, -128), (dt.uint8, 0)):
        found = ops.randint(low, low + 256, (5000,), dtype=dtype)
        assert found.dtype is dtype and set(found.tolist()) == set(range(low, low + 256))


def test_permutations():
    order = ops.randperm(1000).asnumpy()
    assert order.dtype == np.int64
    assert_same(np.sort(order), np.arange(1000))
    assert np.sum(order == np.arange(1000)) < 8
    seen = [tuple(ops.randperm(3).tolist()) for _ in range(600)]
    counts = [seen.count(p) for p in sorted(set(seen))]
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > 1e-3
    assert ops.randperm(4, dtype=dt.float32).dtype is dt.float32
    assert ops.randperm(0).shape == (0,)


def test_shuffle_moves_rows():
    x = Tensor(np.arange(60).reshape(20, 3))
    y = ops.shuffle(x).asnumpy()
    assert not np.array_equal(y, x.asnumpy())
    assert_same(y[np.argsort(y[:, 0])], x.asnumpy())
    assert_same(ops.shuffle(Tensor(5)), np.array(5))


def test_bernoulli():
    p = np.tile([0.0, 0.25, 1.0], (5000, 1))
    for x in (Tensor(p.astype(np.int64)), Tensor(p), Tensor(p, dt.float16), Tensor(p > 2)):
        for given in (Tensor(p), Tensor(p[:1], dt.float32)):
            found = ops.bernoulli(x, given)
            assert found.dtype is x.dtype and found.shape == x.shape
            zero, some, one = found.asnumpy().astype(float).mean(0)
            assert (zero, one) == (0, 1) and abs(some - 0.25) < 0.03
    assert abs(ops.bernoulli(Tensor(p)).asnumpy().mean() - 0.5) < 0.02
    assert ops.bernoulli(Tensor(p), 1).asnumpy().all()
    assert not ops.bernoulli(Tensor(p), 0.0).asnumpy().any()


def test_multinomial_with_replacement():
    weights = np.array([[0, 1, 3, 0, 4], [2, 0, 0, 6, 0]])
    for w in (Tensor(weights), Tensor(weights, dt.float32), Tensor(weights, dt.float64)):
        found = ops.multinomial(w, 4000)
        assert found.dtype is dt.int32 and found.shape == (2, 4000)
        for row, sample in zip(weights, found.asnumpy(), strict=True):
            counts = np.bincount(sample, minlength=5)
            assert not counts[row == 0].any()
            expected = row[row > 0] / row.sum() * 4000
            assert stats.chisquare(counts[row > 0], expected).pvalue > 1e-3
    assert ops.multinomial(Tensor([1.0, 2.0]), 0).shape == (0,)


def test_multinomial_without_replacement():
    weights = Tensor([1.0, 0.0, 3.0, 6.0])
    samples = np.array([ops.multinomial(weights, 3, False).tolist() for _ in range(1500)])
    assert all(set(sample) == {0, 2, 3} for sample in samples.tolist())
    assert stats.chisquare(np.bincount(samples[:, 0])[[0, 2, 3]], [150, 450, 900]).pvalue > 1e-3
    after_3 = samples[samples[:, 0] == 3, 1]  # the others, with weights 1 and 3
    shares = np.bincount(after_3)[[0, 2]]
    assert stats.chisquare(shares, shares.sum() * np.array([0.25, 0.75])).pvalue > 1e-3
    assert ops.multinomial(Tensor([[1.0, 2], [3, 4]]), 2, False).shape == (2, 2)


def test_between_bounds():
    low, high = Tensor([[1.0], [2.0]]), Tensor([3.0, 9.0])
    x = ops.uniform((1000, 2, 2), low, high).asnumpy()
    for i, j in np.ndindex(2, 2):
        a, b = [1, 2][i], [3, 9][j]
        assert stats.kstest(x[:, i, j], "uniform", (a, b - a)).pvalue > 1e-3
    whole = ops.uniform((3000,), Tensor(2, dt.int32), Tensor(6, dt.int32), dtype=dt.int32)
    assert whole.dtype is dt.int32
    assert stats.chisquare(np.bincount(whole.asnumpy())[2:]).pvalue > 1e-3
    rows = ops.uniform((500, 2), Tensor([0, 10]), Tensor([3, 12]), dtype=dt.int64).asnumpy()
    assert set(rows[:, 0]) == {0, 1, 2} and set(rows[:, 1]) == {10, 11}
    assert ops.uniform((2,), -1, 1, dtype=dt.float64).dtype is dt.float64
    z = ops.normal((4000, 2), Tensor([-1.0, 5.0]), 2.0).asnumpy()
    for column, mean in zip(z.T, (-1, 5), strict=True):
        assert stats.kstest((column - mean) / 2, "norm").pvalue > 1e-3


def test_shapes_and_types():
    x = Tensor(ONES, dt.float16)
    for found, shape, dtype in (
        (ops.rand(), (1,), dt.float32),
        (ops.rand(2, 3), (2, 3), dt.float32),
        (ops.rand((2, 3)), (2, 3), dt.float32),
        (ops.randn([2], dtype=dt.bfloat16), (2,), dt.bfloat16),
        (ops.rand(2, 0), (2, 0), dt.float32),
        (ops.rand(()), (), dt.float32),
        (ops.rand_like(x), (2, 6), dt.float16),
        (ops.randn_like(x, dtype=dt.float64), (2, 6), dt.float64),
        (ops.randint_like(Tensor([1, 2]), 0, 4), (2,), dt.int64),
        (ops.randint_like(x, 0, 4, dtype=dt.uint8), (2, 6), dt.uint8),
        (ops.standard_normal((3, 1)), (3, 1), dt.float32),
        (ops.normal((2,), Tensor([[1], [2]]), 1), (2, 2), dt.float32),
        (ops.StandardNormal(seed=3)((2, 3)), (2, 3), dt.float32),
        (ops.UniformReal()((2,)), (2,), dt.float32),
        (ops.UniformInt(3, 4)((2,), Tensor(1), Tensor(5)), (2,), dt.int32),
    ):
        assert (found.shape, found.dtype) == (shape, dtype)


def test_printing():
    assert repr(ops.Dropout(0.3)) == "Prim[Dropout]<keep_prob=0.3, Seed0=0, Seed1=0>"
    assert repr(ops.StandardNormal()) == "Prim[StandardNormal]<seed=0, seed2=0>"
    assert repr(ops.UniformReal(seed=3, seed2=4)) == "Prim[UniformReal]<seed=3, seed2=4>"
    assert repr(ops.UniformInt(1)) == "Prim[UniformInt]<seed=1, seed2=0>"


# ------------------------------------------------------------------------------------- dropout


def test_dropout():
    x = Tensor(np.arange(1.0, 20_001).astype(np.float32))
    for p in (0.1, 0.5, 0.9):
        y = ops.dropout(x, p).asnumpy()
        kept = y != 0
        assert abs(kept.mean() - (1 - p)) < 0.02
        assert_same(y[kept], x.asnumpy()[kept] / np.float32(1 - p))
    assert_same(ops.dropout(x, 0.0), x.asnumpy())
    assert ops.dropout(x, 0.5, training=False) is x
    special = ops.dropout(Tensor(np.tile([np.inf, np.nan], 50)), 0.5).asnumpy()
    assert set(map(str, special)) == {"inf", "nan", "0.0"}  # what is dropped does not count


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16, dt.float32, dt.float64], ids=str)
def test_the_primitive_gives_its_mask(dtype):
    x = Tensor(np.full((40, 50), 3), dtype)
    y, mask = ops.Dropout(keep_prob=0.8)(x)
    assert y.dtype is dtype and mask.dtype is dtype
    assert set(mask.asnumpy().astype(float).ravel()) == {0.0, 1.0}
    assert_same(y, (mask.asnumpy().astype(np.float64) * 3.75).astype(dtype.numpy))
    assert abs(mask.asnumpy().astype(float).mean() - 0.8) < 0.04


# ------------------------------------------------------------------------------ seeds and state


def test_a_seed_repeats_everything():
    def sample():
        return [ops.rand(3), ops.randint(0, 9, (4,)), ops.dropout(Tensor(ONES)), ops.randperm(5)]

    ms.set_seed(11)
    first = sample()
    second = sample()
    ms.set_seed(11)
    assert_same(sample(), first)
    assert not np.array_equal(first[0].asnumpy(), second[0].asnumpy())
    ms.set_seed(12)
    assert not np.array_equal(sample()[0].asnumpy(), first[0].asnumpy())
    big = 2**64 + 5
    assert_same(drawn(ops.rand, 3, seed=big), drawn(ops.rand, 3, seed=5))


def test_initial_values_and_draws_restart_together():
    def both():
        return nn.Dense(2, 3).weight.asnumpy(), ops.rand(4).asnumpy()

    ms.set_seed(4)
    first = both()
    ms.set_seed(4)
    assert_same(both(), first)


def test_the_state_counts_draws():
    ms.set_seed(6)
    assert random_state().tolist() == [6, 0]
    assert_same(ops.rand(3), random_unit(state(6, 0), (3,), dt.float32))
    assert_same(ops.rand(2), random_unit(state(6, 1), (2,), dt.float32))
    assert random_state().tolist() == [6, 2] and random_state().dtype is dt.uint64


def test_a_seed_of_its_own_is_a_stream_of_its_own():
    ms.set_seed(3)
    plain = [ops.rand(3).asnumpy() for _ in range(2)]
    ms.set_seed(3)
    own = [ops.rand(3, seed=5).asnumpy() for _ in range(2)]
    assert not np.array_equal(own[0], own[1])
    assert_same([ops.rand(3).asnumpy() for _ in range(2)], plain)
    ms.set_seed(3)
    assert_same([ops.UniformReal(5)((3,)).asnumpy() for _ in range(2)], own)
    ms.set_seed(4)
    assert not np.array_equal(ops.rand(3, seed=5).asnumpy(), own[0])


UNSEEDED = """
import minispore as ms
from minispore import ops
own = ops.rand(2, seed=3).tolist()
first = ops.rand(2).tolist()
ms.set_seed(1)
print(first, "|", own, ops.rand(2).tolist())
"""


def test_without_a_seed_each_program_draws_its_own():
    runs = [
        subprocess.run(
            [sys.executable, "-c", UNSEEDED], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    (first, rest), (other, same) = (run.stdout.split("|") for run in runs)
    assert first != other and rest == same


# --------------------------------------------------------------------------------- both modes


class Blocks(nn.Cell):
    def __init__(self):
        super().__init__()
        self.blocks = nn.CellList([nn.Dropout(0.5), nn.Dropout(p=0.2)]).set_train()

    def construct(self, x):
        for block in self.blocks:
            x = block(x) + ops.rand(1)
        return x


def in_arms(x):
    y = ops.rand(2)
    if x.sum() > 0:
        y = y + ops.randn(2)
    elif x.sum() < -100:
        y = ops.rand(2) + ops.rand(2)
    return y, ops.rand(3)


def in_a_loop(x):
    total = ops.zeros((2,))
    while total.sum() < 4 + x.sum():
        total = total + ops.rand(2)
        if total[0] > total[1]:
            continue
        total = total + ops.rand(2)
    return total, ops.rand(1)


def in_a_long_loop(x):
    for _ in range(40):
        x = ops.dropout(x, 0.1) + ops.rand_like(x)
    return x


def helper(x, p):
    return ops.dropout(x, p), ops.randint(0, 100, (3,))


def in_functions(x):
    return helper(x, 0.5), [helper(x, p) for p in (0.25, 0.5)], (lambda: ops.rand(2))()


def with_seeds(x):
    return ops.rand(2, seed=3), ops.rand(2), ops.rand(2, seed=3), ops.rand(2, seed=4)


def everything(x):
    return (
        ops.rand(2), ops.randn(3), ops.randint(0, 9, (4,)), ops.uniform((2,), x.mean(), 9),
        ops.uniform((2,), Tensor(0), Tensor(7), dtype=dt.int32), ops.normal((2,), x[0], x[1]),
        ops.standard_normal((2,)), ops.bernoulli(x, ops.sigmoid(x)), ops.randperm(6),
        ops.multinomial(ops.abs(x), 3), ops.multinomial(ops.abs(x) + 1, 3, False),
        ops.shuffle(x), ops.rand_like(x), ops.randn_like(x), ops.randint_like(x, 1, 5,
        dtype=dt.int32), ops.dropout(x, 0.3), ops.Dropout(0.5)(x),
    )  # fmt: skip


PROGRAMS = [in_arms, in_a_loop, in_a_long_loop, in_functions, with_seeds, everything, Blocks()]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: getattr(p, "__name__", "blocks"))
@pytest.mark.parametrize("sign", [1, -1])
def test_both_modes_draw_the_same(program, sign):
    x = Tensor(sign * np.arange(0.5, 4.5).astype(np.float32))
    states = [random_state(s) for s in (None, 3, 4)]
    fn = (lambda x: program(x)) if isinstance(program, nn.Cell) else program
    agree(fn, x, state=states)


def test_a_draw_in_an_arm_that_is_not_taken_does_not_count():
    compiled = ms.jit(in_arms)
    for value, draws in ((1.0, 3), (-1.0, 2), (-200.0, 4), (1.0, 3)):
        x = Tensor([value])
        expected = drawn(lambda x: in_arms(x)[1], x)
        assert position() == draws
        assert_same(drawn(lambda x: compiled(x)[1], x), expected)
        assert position() == draws
    assert compiled.compile_count == 1


def test_set_seed_reaches_compiled_functions():
    compiled = ms.jit(lambda: ops.rand(3))
    found = [drawn(compiled, seed=seed) for seed in (1, 2, 1)]
    found.append(compiled().asnumpy())
    assert_same(found[2], found[0])
    assert len({tuple(f.tolist()) for f in found}) == 3
    assert compiled.compile_count == 1


def test_a_compiled_and_a_plain_function_share_the_stream():
    compiled = ms.jit(lambda: ops.rand(2))
    ms.set_seed(8)
    plain = [ops.rand(2).asnumpy() for _ in range(4)]
    ms.set_seed(8)
    mixed = [compiled(), ops.rand(2), compiled(), ops.rand(2)]
    assert_same([m.asnumpy() for m in mixed], plain)


def test_no_two_draws_are_merged():
    compiled = ms.jit(lambda: (ops.rand(2), ops.rand(2), ops.rand(2)))
    values = [tuple(v.tolist()) for v in compiled()]
    assert len(set(values)) == 3
    assert names_of(compiled.graph()).count("UniformReal") == 3
    assert [p.name for p in compiled.graph().parameters] == ["random"]


def test_a_draw_that_no_one_reads_still_counts():
    def unread():
        ops.rand(5)
        return ops.rand(2)

    compiled = ms.jit(unread)
    assert_same(drawn(compiled), drawn(unread))
    assert position() == 2
    assert names_of(compiled.graph()).count("UniformReal") == 1


def names_of(graph):
    return [getattr(getattr(n, "callee", None), "name", "") for n in graph.nodes()]


def test_set_seed_is_refused_inside():
    @ms.jit
    def inside(x):
        ms.set_seed(3)
        return x + ops.rand(1)

    ms.set_seed(9)
    with pytest.raises(RuntimeError, match="set_seed"):
        inside(Tensor(1.0))
    assert ms.get_seed() == 9 and random_state().tolist() == [9, 0]


# ----------------------------------------------------------------------------------- gradients


def squares(x):
    return (ops.dropout(x * x, 0.5) * x).sum()


def looped(x):
    y = x
    while y.sum() < 40:
        y = y + ops.dropout(x, 0.5) * y
    if x.sum() > 0:
        y = ops.dropout(y, 0.2)
    return y.sum()


WAYS = {
    "tape": lambda f: ms.grad(f),
    "graph": lambda f: ms.jit(ms.grad(f)),
    "graph under a tape": lambda f: ms.grad(ms.jit(f)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fn", [squares, looped])
def test_a_gradient_sees_the_mask_of_its_forward(fn, way):
    x = Tensor(np.linspace(0.5, 1.5, 12).reshape(2, 6).astype(np.float32))
    expected = drawn(WAYS["tape"](fn), x)
    draws = position()
    fn_of = WAYS[way](fn)
    for _ in range(2):
        assert_same(drawn(fn_of, x), expected)
        assert position() == draws  # the forward's: a gradient draws nothing


def test_the_gradient_of_dropout_is_its_scale():
    x = Tensor(np.linspace(1, 2, 12).astype(np.float32))
    y = drawn(lambda x: ops.dropout(x, 0.25), x)
    gradient = drawn(ms.grad(lambda x: ops.dropout(x, 0.25)), x)
    assert_same(gradient, y / x.asnumpy())


@pytest.mark.parametrize(
    "second",
    [
        lambda f: ms.grad(ms.grad(f)),
        lambda f: ms.jit(ms.grad(ms.grad(f))),
        lambda f: ms.grad(ms.jit(ms.grad(f))),
        lambda f: ms.grad(ms.grad(ms.jit(f))),
    ],
    ids=["tapes", "graph", "graph under a tape", "graph under tapes"],
)
def test_second_order(second):
    x = Tensor(np.linspace(1, 2, 12).astype(np.float32))
    kept = drawn(lambda x: ops.dropout(x, 0.5), Tensor(np.ones(12, np.float32)))
    assert_same(drawn(second(squares), x), 6 * x.asnumpy() * kept)


def test_gradients_of_bounds():
    low, high = Tensor([1.0, 2.0]), Tensor([5.0, 9.0])
    u = drawn(lambda: ops.rand(3, 2))
    gradients = ms.grad(lambda a, b: ops.uniform((3, 2), a, b), (0, 1))
    ms.set_seed(1)
    assert_same(gradients(low, high), (Tensor((1 - u).sum(0)), Tensor(u.sum(0))))
    z = drawn(lambda: ops.randn(3, 2))
    gradients = ms.grad(lambda m, s: ops.normal((3, 2), m, s), (0, 1))
    ms.set_seed(1)
    assert_same(gradients(low, high), (Tensor(np.full(2, 3, np.float32)), Tensor(z.sum(0))))


def test_no_gradient_flows_to_what_is_not_read():
    x = Tensor(np.ones(3, np.float32))
    for fn in (ops.rand_like, ops.bernoulli, lambda x: ops.multinomial(x, 2)):
        assert_same(ms.grad(lambda x, fn=fn: fn(x).sum() * 1.0 + x.sum())(x), x.asnumpy())
    order = drawn(ops.shuffle, Tensor([0, 1, 2]))
    weights = Tensor([1.0, 2.0, 3.0])
    gradient = drawn(ms.grad(lambda x: (ops.shuffle(x) * weights).sum()), x)
    assert_same(gradient[order], weights.asnumpy())


# -------------------------------------------------------------------------------------- errors

X = Tensor(ONES)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.rand(2, dtype=dt.int32), ValueError, "float type"),
        (lambda: ops.rand(2, dtype="float32"), TypeError, "minispore type"),
        (lambda: ops.randn_like(Tensor([1])), ValueError, "float type"),
        (lambda: ops.rand_like(3), TypeError, "Tensor"),
        (lambda: ops.rand(-1), ValueError, "negative sizes"),
        (lambda: ops.rand(1.5), TypeError, "int"),
        (lambda: ops.rand(2, seed=-3), ValueError, "a seed must be"),
        (lambda: ops.rand(2, seed=2**64), ValueError, "a seed must be"),
        (lambda: ops.rand(2, seed=1.5), TypeError, "the seed must be an int"),
        (lambda: ops.StandardNormal(seed2=-1)((2,)), ValueError, "a seed must be"),
        (lambda: ops.randint(5, 5, (3,)), ValueError, "no Int64 is from 5"),
        (lambda: ops.randint(0, 257, (3,), dtype=dt.uint8), ValueError, "no UInt8 is from 0"),
        (lambda: ops.randint(-1, 3, (3,), dtype=dt.uint8), ValueError, "no UInt8 is from -1"),
        (lambda: ops.randint(0.5, 5, (3,)), TypeError, "low must be an int"),
        (lambda: ops.randint(0, 5, (3,), dtype=dt.float32), ValueError, "integer type"),
        (lambda: ops.randint_like(X, 0, 5), ValueError, "integer type"),
        (lambda: ops.uniform((2,), Tensor(9), Tensor(1), dtype=dt.int32), ValueError, "below"),
        (lambda: ops.uniform((2,), 0.5, 1, dtype=dt.int32), TypeError, "integer bounds"),
        (lambda: ops.uniform((2,), 0, 1, dtype=dt.bool_), TypeError, "integer bounds"),
        (lambda: ops.normal((2,), "a", 1), TypeError, "operator"),
        (lambda: ops.bernoulli(X, 1.5), ValueError, "p must be from 0 to 1"),
        (lambda: ops.bernoulli(X, Tensor([-0.5])), ValueError, "p must be from 0 to 1"),
        (lambda: ops.bernoulli(X, Tensor([0.5, 0.5])), ValueError, "broadcast"),
        (lambda: ops.multinomial(Tensor(1.0), 1), ValueError, "1 or 2 dimensions"),
        (lambda: ops.multinomial(X, -1), ValueError, "-1 samples"),
        (lambda: ops.multinomial(X, 7, False), ValueError, "7 samples of 6 classes"),
        (lambda: ops.multinomial(ops.zeros((2, 0)), 1), ValueError, "1 samples of 0 classes"),
        (lambda: ops.multinomial(Tensor([-1.0, 2.0]), 1), ValueError, "negative"),
        (lambda: ops.multinomial(Tensor([0.0, 0.0]), 1), ValueError, "all 0"),
        (lambda: ops.multinomial(Tensor([np.nan, 1.0]), 1), ValueError, "negative"),
        (lambda: ops.randperm(-1), ValueError, "negative sizes"),
        (lambda: ops.dropout(X, 1.0), ValueError, r"p must be in \[0, 1\)"),
        (lambda: ops.dropout(X, -0.1), ValueError, r"p must be in \[0, 1\)"),
        (lambda: ops.dropout(X, "a"), ValueError, r"p must be in \[0, 1\)"),
        (lambda: ops.dropout(Tensor([1, 2])), TypeError, "floats"),
        (lambda: ops.dropout(3.0), TypeError, "Tensor"),
        (lambda: ops.Dropout(0.0), ValueError, "keep_prob"),
        (lambda: ops.Dropout(1.1), ValueError, "keep_prob"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: ops.multinomial(x, 2),
        lambda x: ops.bernoulli(x, x),
        lambda x: ops.uniform((2,), ops.cast(x[0], dt.int32), 0, dtype=dt.int32),
    ],
)
def test_checks_of_values_in_both_modes(fn):
    agree(fn, Tensor([2.0, -3.0]), state=[random_state()])


def test_draws_are_pure_primitives():
    """What a pass may assume: no effect, and the state is an operand like any other."""
    for name in ("UniformReal", "StandardNormal", "UniformInt"):
        assert not REGISTRY[name].effect
