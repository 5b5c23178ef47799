"""Initial values: their distributions, their seeds, and what is refused."""

import numpy as np
import pytest
from helpers import assert_same

from minispore import dtype as dt
from minispore.initializer import (
    Constant,
    HeNormal,
    HeUniform,
    Identity,
    Initializer,
    Normal,
    One,
    Orthogonal,
    TruncatedNormal,
    Uniform,
    XavierNormal,
    XavierUniform,
    Zero,
    initializer,
)
from minispore.random import generator, get_seed, on_set_seed, set_seed
from minispore.tensor import Tensor

SHAPE = (1000, 500)
# standard deviation and largest magnitude (None: no bound), as measured in MindSpore 2.10
DISTRIBUTIONS = [
    (Normal(), 0.01, None),
    (Normal(0.5, 2.0), 0.5, None),
    (Uniform(), 0.07 / 3**0.5, 0.07),
    (TruncatedNormal(), 0.01, None),
    (TruncatedNormal(sigma=1), 0.8796, 2),
    (TruncatedNormal(1, 0, -1, 3), 0.7859, 3),
    (TruncatedNormal(0.5, 1.0), 0.4710, 2),
    (XavierUniform(), (2 / 1500) ** 0.5, (6 / 1500) ** 0.5),
    (XavierNormal(2), 2 * (2 / 1500) ** 0.5, None),
    (HeUniform(), (2 / 500) ** 0.5, (6 / 500) ** 0.5),
    (HeUniform(5**0.5), (1 / 1500) ** 0.5, 500**-0.5),
    (HeNormal(mode="fan_out"), (2 / 1000) ** 0.5, None),
    (HeNormal(nonlinearity="tanh"), 5 / 3 / 500**0.5, None),
    (HeNormal(nonlinearity="sigmoid"), 500**-0.5, None),
    (HeNormal(1.0, nonlinearity="relu"), (2 / 500) ** 0.5, None),
]


@pytest.mark.parametrize(("init", "std", "bound"), DISTRIBUTIONS, ids=lambda v: repr(v))
def test_distributions(init, std, bound):
    set_seed(0)
    x = initializer(init, SHAPE).asnumpy()
    assert x.dtype == np.float32
    assert abs(x.std() / std - 1) < 0.01
    if not isinstance(init, (TruncatedNormal, Normal)):
        assert abs(x.mean()) < 0.01 * std + 3e-4
    if bound is not None:
        assert bound * 0.98 < np.abs(x).max() <= bound * 1.0000001


def test_means():
    set_seed(0)
    assert abs(initializer(Normal(0.5, 2.0), SHAPE).asnumpy().mean() - 2) < 0.005
    assert abs(initializer(TruncatedNormal(1, 0, -1, 3), SHAPE).asnumpy().mean() - 0.284) < 0.005
    assert abs(initializer(TruncatedNormal(0.5, 1.0), SHAPE).asnumpy().mean() - 0.972) < 0.005


def test_fans_of_convolutions():
    set_seed(0)
    shape = (200, 30, 5, 5)
    for init, fan in ((HeNormal(), 30 * 25), (HeNormal(mode="fan_out"), 200 * 25)):
        assert abs(initializer(init, shape).asnumpy().std() / (2 / fan) ** 0.5 - 1) < 0.01
    x = initializer(XavierUniform(), shape).asnumpy()
    assert abs(x.std() / (2 / (230 * 25)) ** 0.5 - 1) < 0.01
    for shape in ((), (7,)):
        assert initializer("xavier_uniform", shape).shape == shape


def test_exact_values():
    assert_same(initializer(Zero(), (2, 3)), np.zeros((2, 3), np.float32))
    assert_same(initializer(One(), 2, dt.int8), np.ones(2, np.int8))
    assert_same(initializer(Constant(0.5), [2], dt.float16), np.full(2, 0.5, np.float16))
    assert_same(initializer(Constant([1, 2]), [2]), np.array([1, 2], np.float32))
    assert_same(initializer(3, [2]), np.array([3, 3], np.float32))
    assert_same(initializer(True, []), np.array(1, np.float32))
    assert_same(initializer(Identity(), (2, 3)), np.eye(2, 3, dtype=np.float32))
    given = Tensor([1.0, 2.0])
    assert initializer(given, [2]) is given


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (3, 2, 4)])
def test_orthogonal(shape):
    x = initializer(Orthogonal(2.0), shape, dt.float64).asnumpy().reshape(shape[0], -1)
    rows, columns = x.shape
    product = x @ x.T if rows <= columns else x.T @ x
    np.testing.assert_allclose(product, 4 * np.eye(min(rows, columns)), atol=1e-12)


@pytest.mark.parametrize(
    "name",
    ["zeros", "ones", "normal", "uniform", "xavier_uniform", "XavierNormal", "he_uniform",
     "HeNormal", "truncatedNormal", "identity", "orthogonal"],
)  # fmt: skip
def test_names(name):
    x = initializer(name, (4, 3), dt.float16)
    assert x.has_init
    assert (x.shape, x.dtype) == ((4, 3), dt.float16)
    assert np.isfinite(x.asnumpy()).all()


REFUSED = [
    ("foo", [2], ValueError, "no initializer is called 'foo'"),
    ("normal", [2, -1], ValueError, "positive ints"),
    ("normal", [2, 0], ValueError, "positive ints"),
    ("normal", [2.0], ValueError, "positive ints"),
    ("normal", None, ValueError, "needs a shape"),
    (None, [2], TypeError, "not NoneType"),
    (Normal, [2], TypeError, "not type"),
    (Tensor([1.0, 2.0]), [3], ValueError, "shape"),
    (Identity(), [2, 2, 2], ValueError, "2-d"),
    (Orthogonal(), [2], ValueError, "2 or more axes"),
    (HeNormal(mode="x"), [2, 2], ValueError, "mode must be"),
    (HeNormal(nonlinearity="x"), [2, 2], ValueError, "nonlinearity must be"),
    (Initializer(), [2], NotImplementedError, "_initialize"),
]


@pytest.mark.parametrize(("init", "shape", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(init, shape, error, message):
    with pytest.raises(error, match=message):
        initializer(init, shape)


def test_own_initializers():
    class Ramp(Initializer):
        def _initialize(self, arr):
            arr[...] = np.arange(arr.size).reshape(arr.shape)

    assert_same(initializer(Ramp(), (2, 2)), np.array([[0, 1], [2, 3]], np.float32))


def test_seeds():
    drawn = []
    for seed in (7, 7, 8):
        set_seed(seed)
        assert get_seed() == seed
        drawn.append((initializer("normal", 3).tolist(), np.random.rand()))
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[2][0]
    first = initializer("normal", 3).tolist()
    assert first != initializer("normal", 3).tolist()
    assert 0 <= generator().random() < 1


def test_what_is_no_seed():
    for seed, error in ((-1, ValueError), (1.5, TypeError), ("a", TypeError), (True, TypeError)):
        with pytest.raises(error):
            set_seed(seed)


def test_other_streams_hear_of_the_seed():
    heard = []
    on_set_seed(heard.append)
    set_seed(3)
    assert heard == [3]
