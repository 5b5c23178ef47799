"""Normalization, Dropout, Embedding: figures of MindSpore, both modes, gradients, training.

The reference figures were made by tests/data/make_mindspore_figures.py.
"""

from pathlib import Path

import numpy as np
import pytest
from differential import agree
from helpers import assert_same

import minispore as ms
from minispore import dtype as dt
from minispore import nn, ops
from minispore.ops.random import random_state
from minispore.tensor import Tensor

FIGURES = np.load(Path(__file__).parent / "data" / "mindspore_norm.npz")
NORMS = [key.removesuffix(" dx") for key in FIGURES if key.endswith(" dx")]
EMBEDDINGS = [key.removesuffix(" ids") for key in FIGURES if key.endswith(" ids")]


def floats(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def joined(params):
    return np.concatenate([p.asnumpy().ravel() for p in params])


# ----------------------------------------------------------------------- figures of MindSpore


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("name", NORMS)
def test_normalization_agrees_with_mindspore(name, mode):
    """A call and then gradients with another input; in training both move the statistics."""
    text, training = name.rsplit(" ", 1)
    cell = eval(f"nn.{text}", {"nn": nn}).set_train(training == "True")
    values = iter(FIGURES[f"{name} start"])
    for p in cell.get_parameters():
        filled = np.array([next(values) for _ in range(p.size)]).reshape(p.shape)
        p.set_data(Tensor(filled))
    x1, x2, sens = (Tensor(FIGURES[f"{name} {key}"]) for key in ("x1", "x2", "sens"))

    def both(x1, x2, sens):
        grad_fn = ops.GradOperation(get_all=True, get_by_list=True, sens_param=True)
        output = cell(x1)
        return output, grad_fn(cell, cell.trainable_params())(x2, sens)

    output, ((dx,), (dgamma, dbeta)) = (ms.jit(both) if mode == "graph" else both)(x1, x2, sens)
    for found, key in ((output, "output"), (dgamma, "dgamma"), (dbeta, "dbeta"), (dx, "dx")):
        assert_same(found, FIGURES[f"{name} {key}"], 2)
    assert_same(joined(cell.get_parameters()), FIGURES[f"{name} end"])


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("text", EMBEDDINGS)
def test_embedding_agrees_with_mindspore(text, mode):
    cell = eval(f"nn.{text}", {"nn": nn})
    ids, table, sens = (Tensor(FIGURES[f"{text} {key}"]) for key in ("ids", "table", "sens"))
    cell.embedding_table.set_data(table)

    def both(ids, sens):
        grad_fn = ops.GradOperation(get_by_list=True, sens_param=True)
        return cell(ids), grad_fn(cell, cell.trainable_params())(ids, sens)

    output, (gradient,) = (ms.jit(both) if mode == "graph" else both)(ids, sens)
    assert_same(output, FIGURES[f"{text} output"])
    assert_same(gradient, FIGURES[f"{text} gradient"])


class Trained:
    """The net of the figures, and one step of its training."""

    def __init__(self):
        layers = [nn.Dense(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.LayerNorm((8,)), nn.Dense(8, 3)]
        self.net = nn.SequentialCell(layers).set_train()
        for p in self.net.trainable_params():
            p.set_data(Tensor(FIGURES[f"start {p.name}"]))
        self.loss_fn = nn.CrossEntropyLoss()
        self.optimizer = nn.Momentum(self.net.trainable_params(), 0.05, 0.9)
        self.grad_fn = ms.value_and_grad(self.forward, None, self.optimizer.parameters)

    def forward(self, x, labels):
        return self.loss_fn(self.net(x), labels)

    def step(self, x, labels):
        loss, grads = self.grad_fn(x, labels)
        self.optimizer(grads)
        return loss


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_training_agrees_with_mindspore(mode):
    trained = Trained()
    step = ms.jit(trained.step) if mode == "graph" else trained.step
    batches = zip(FIGURES["x"], FIGURES["labels"], strict=True)
    losses = [step(Tensor(x), Tensor(labels)).asnumpy() for x, labels in batches]
    assert_same(np.array(losses), FIGURES["losses"], 4)
    for p in trained.net.untrainable_params():
        assert_same(p, FIGURES[f"end {p.name}"], 4)
    net = trained.net.set_train(False)
    predict = ms.jit(net) if mode == "graph" else net
    assert_same(predict(Tensor(FIGURES["x"][0])), FIGURES["predicted"], 20)


# ------------------------------------------------------------------------------------ BatchNorm


def test_moving_statistics():
    """0.9 of the old is kept; the variance is that of the population the batch is from."""
    layer = nn.BatchNorm1d(2)
    x = Tensor([[1.0, 2.0], [3.0, 6.0]])
    assert_same(layer(x), x.asnumpy() / np.sqrt(1 + 1e-5).astype(np.float32))  # not in training
    assert_same(layer.moving_mean, np.zeros(2, np.float32))
    layer.set_train()(x)
    assert_same(layer.moving_mean, np.array([0.2, 0.4], np.float32))
    assert_same(layer.moving_variance, np.array([1.1, 1.7], np.float32))


@pytest.mark.parametrize("make", [nn.BatchNorm1d, nn.BatchNorm2d])
def test_a_batch_is_normalized(make):
    x = 3 + 2 * floats(*((64, 3) if make is nn.BatchNorm1d else (8, 3, 4, 5)))
    axes = tuple(a for a in range(x.ndim) if a != 1)
    y = make(3, gamma_init=2, beta_init=5).set_train()(Tensor(x)).asnumpy()
    np.testing.assert_allclose(y.mean(axes), 5, rtol=1e-5)
    np.testing.assert_allclose(y.std(axes), 2, rtol=1e-4)


def test_which_statistics():
    x = Tensor(floats(8, 3))
    for setting in (None, True, False):
        for training in (True, False):
            layer = nn.BatchNorm1d(3, use_batch_statistics=setting).set_train(training)
            layer(x)
            moved = bool((layer.moving_mean != 0).any())
            assert moved == (training if setting is None else setting)


def test_names_and_flags():
    net = nn.SequentialCell(nn.BatchNorm1d(3))
    names = ["0.moving_mean", "0.moving_variance", "0.gamma", "0.beta"]
    assert [p.name for p in net.get_parameters()] == names
    assert [p.name for p in net.trainable_params()] == names[2:]
    fixed = nn.BatchNorm2d(3, affine=False)
    assert fixed.trainable_params() == []
    assert [p.name for p in nn.LayerNorm((3,)).get_parameters()] == ["gamma", "beta"]


def test_initial_values_of_batch_norm():
    layer = nn.BatchNorm1d(2, 1e-3, 0.5, True, Tensor([2.0, 3.0]), 1, "ones", 4.0, dtype=dt.float64)
    assert layer.gamma.asnumpy().tolist() == [2, 3] and layer.beta.asnumpy().tolist() == [1, 1]
    assert layer.moving_mean.asnumpy().tolist() == [1, 1]
    assert layer.moving_variance.asnumpy().tolist() == [4, 4]
    assert layer.moving_variance.dtype is dt.float64


def test_channels_last():
    x = floats(2, 4, 5, 3)
    first, last = nn.BatchNorm2d(3), nn.BatchNorm2d(3, data_format="NHWC")
    for training in (True, False):
        y = first.set_train(training)(Tensor(x.transpose(0, 3, 1, 2))).asnumpy()
        assert_same(last.set_train(training)(Tensor(x)), y.transpose(0, 2, 3, 1))
    assert_same(last.moving_mean, first.moving_mean.asnumpy())


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16, dt.float64], ids=str)
@pytest.mark.parametrize("own", [dt.float32, None], ids=["mixed", "own"])
def test_other_dtypes(dtype, own):
    """The output has the input's dtype; half floats are computed in Float32."""
    x = Tensor(floats(16, 4) * 3 + 1, dtype)
    wide = x.asnumpy().astype(np.float64)
    for layer, axis in (
        (nn.BatchNorm1d(4, dtype=own or dtype).set_train(), 0),
        (nn.LayerNorm((4,), dtype=own or dtype), 1),
    ):
        variance = wide.var(axis, keepdims=True) + (1e-5 if axis == 0 else 1e-7)
        expected = (wide - wide.mean(axis, keepdims=True)) / np.sqrt(variance)
        assert_same(layer(x), expected.astype(dtype.numpy))
        assert layer.gamma.dtype is (own or dtype)


def test_statistics_move_once_in_a_jitted_step():
    layer = nn.BatchNorm1d(3).set_train()
    x = Tensor(floats(8, 3))

    def step(x):
        return ms.value_and_grad(lambda x: (layer(x) ** 2).sum())(x)

    agree(step, x, state=list(layer.get_parameters()))
    compiled, start = ms.jit(step), layer.moving_mean.asnumpy()
    assert_same(start, np.zeros(3, np.float32))
    for share in (0.1, 0.19):
        compiled(x)
        assert_same(layer.moving_mean, np.float32(share) * x.asnumpy().mean(0))


def test_no_gradient_flows_through_moving_statistics():
    layer = nn.BatchNorm1d(3)

    def both(x):
        layer.set_train()(x)
        layer.set_train(False)
        return (layer(x) ** 2).sum()

    x = Tensor(floats(8, 3))
    gradient = ms.grad(both)(x).asnumpy()
    mean, variance = layer.moving_mean.asnumpy(), layer.moving_variance.asnumpy()
    assert_same(gradient, 2 * (x.asnumpy() - mean) / (variance + np.float32(1e-5)))


# ------------------------------------------------------------------------------------ LayerNorm


def test_each_sample_on_its_own():
    x = 3 + 2 * floats(5, 4, 6)
    y = nn.LayerNorm((6,))(Tensor(x)).asnumpy()
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(y.std(-1), 1, rtol=1e-5)
    for axes in ((1, 1), (-2, -2)):
        z = nn.LayerNorm((4, 6), *axes, gamma_init=2, beta_init=1)(Tensor(x)).asnumpy()
        np.testing.assert_allclose(z.mean((1, 2)), 1, rtol=1e-5)
        np.testing.assert_allclose(z.std((1, 2)), 2, rtol=1e-5)


# ------------------------------------------------------------------------------------- gradients


def central_difference(f, x, direction, step=1e-5):
    return (f(x + step * direction) - f(x - step * direction)) / (2 * step)


LAYERS = {
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3, dtype=dt.float64).set_train(), (6, 3)),
    "BatchNorm1d of moving statistics": (lambda: nn.BatchNorm1d(3, dtype=dt.float64), (6, 3)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(2, dtype=dt.float64).set_train(), (3, 2, 2, 2)),
    "LayerNorm": (lambda: nn.LayerNorm((4,), dtype=dt.float64), (3, 4)),
    "LayerNorm of two axes": (lambda: nn.LayerNorm((3, 4), 1, 1, dtype=dt.float64), (2, 3, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_to_second_order(name):
    make, shape = LAYERS[name]
    layer = make()
    weights = Tensor(floats(*shape, seed=1, dtype=np.float64))
    x, direction = floats(*shape, seed=2, dtype=np.float64), floats(*shape, seed=3).astype(float)

    def loss(x):
        return (ops.sin(layer(x)) * weights).sum()

    def slope(x):
        return (ms.grad(loss)(x) * Tensor(direction)).sum()

    for f in (loss, slope):
        numeric = central_difference(lambda a, f=f: float(f(Tensor(a)).asnumpy()), x, direction)
        for gradient in (ms.grad(f), ms.jit(ms.grad(f))):
            analytic = float((gradient(Tensor(x)).asnumpy() * direction).sum())
            assert abs(analytic - numeric) < 1e-6 * max(1, abs(numeric))


# --------------------------------------------------------------------------------------- Dropout


def test_dropout_only_in_training():
    x = Tensor(np.ones((50, 40), np.float32))
    layer = nn.Dropout(p=0.25)
    assert layer(x) is x
    y = layer.set_train()(x).asnumpy()
    assert set(np.unique(y)) == {0, np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.04
    assert not np.array_equal(layer(x).asnumpy(), y)
    assert layer.set_train(False)(x) is x
    for all_kept in (nn.Dropout(1.0), nn.Dropout(p=0), nn.Dropout(p=0.0)):
        assert all_kept.set_train()(x) is x


def test_p_wins_over_keep_prob():
    assert nn.Dropout().keep_prob == 0.5
    assert nn.Dropout(0.3).keep_prob == 0.3
    assert nn.Dropout(0.3, p=0.2).keep_prob == 0.8
    assert nn.Dropout(p=0.2, dtype=dt.float16).set_train()(Tensor(floats(2))).dtype is dt.float32


# ------------------------------------------------------------------------------------- Embedding


def test_embedding():
    layer = nn.Embedding(1000, 50)
    table = layer.embedding_table.asnumpy()
    assert table.shape == (1000, 50) and abs(table.std() - 0.01) < 2e-4
    for ids in ([[1, 999], [0, 1]], [], 3, [[[2]]]):
        ids = np.array(ids, np.int64)
        expected = table[ids]
        for kind in (np.int32, np.int64, np.uint8):
            if ids.max(initial=0) < 256 or kind is not np.uint8:
                assert_same(layer(Tensor(ids.astype(kind))), expected)
    with pytest.raises(IndexError):
        layer(Tensor([1000]))


def test_padding():
    layer = nn.Embedding(4, 2, embedding_table="ones", padding_idx=2, dtype=dt.float16)
    assert layer.embedding_table.asnumpy().tolist() == [[1, 1], [1, 1], [0, 0], [1, 1]]
    assert layer.embedding_table.dtype is dt.float16
    given = Tensor([[1.0, 2.0], [3.0, 4.0]])
    layer = nn.Embedding(2, 2, embedding_table=given, padding_idx=0)
    assert layer(Tensor([0, 1])).tolist() == [[0, 0], [3, 4]]
    assert given.tolist() == [[1, 2], [3, 4]]


def test_one_hot_vectors_give_zeros_outside():
    layer = nn.Embedding(3, 2, True, "ones")
    assert layer(Tensor([3, 0])).tolist() == [[0, 0], [1, 1]]


# --------------------------------------------------------------------------------------- printing


def test_printing():
    def parameter(name, shape, trained=True):
        return f"Parameter (name={name}, shape={shape}, dtype=Float32, requires_grad={trained})"

    assert repr(nn.BatchNorm1d(3)) == (
        f"BatchNorm1d(num_features=3, eps=1e-05, momentum=0.9, gamma={parameter('gamma', (3,))}, "
        f"beta={parameter('beta', (3,))}, moving_mean={parameter('mean', (3,), False)}, "
        f"moving_variance={parameter('variance', (3,), False)})"
    )
    assert repr(nn.BatchNorm2d(3, 0.001, 1)).startswith(
        "BatchNorm2d(num_features=3, eps=0.001, momentum=1.0, "
    )
    assert repr(nn.LayerNorm([3])) == (
        "LayerNorm(normalized_shape=[3], begin_norm_axis=-1, begin_params_axis=-1, "
        f"gamma={parameter('gamma', (3,))}, beta={parameter('beta', (3,))})"
    )
    assert repr(nn.Embedding(10, 4, padding_idx=3)) == (
        "Embedding(vocab_size=10, embedding_size=4, use_one_hot=False, "
        f"embedding_table={parameter('embedding_table', (10, 4))}, dtype=Float32, padding_idx=3)"
    )
    assert repr(nn.Dropout()) == "Dropout(keep_prob=0.5)"
    assert repr(nn.Dropout(p=0.3)) == "Dropout(p=0.3)"


# ----------------------------------------------------------------------------- both modes, training


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.first = nn.SequentialCell(nn.Dense(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout())
        self.norm = nn.LayerNorm((8,))
        self.drop = nn.Dropout(p=0.2)
        self.last = nn.Dense(8, 3)

    def construct(self, ids):
        x = self.embedding(ids).mean(1)
        x = self.first(x)
        if x.sum() > 20:
            x = self.drop(x)
        return self.last(self.drop(self.norm(x)))


def test_a_net_trains_alike_in_all_modes():
    ids = np.random.default_rng(0).integers(0, 7, (12, 16, 5)).astype(np.int32)
    labels = ids[:, :, 0] % 3

    def run(mode):
        ms.set_seed(3)
        net, loss_fn = Net().set_train(), nn.CrossEntropyLoss()
        optimizer = nn.Adam(net.trainable_params(), 0.02)
        grad_fn = ms.value_and_grad(lambda x, y: loss_fn(net(x), y), None, optimizer.parameters)

        def step(x, y):
            loss, grads = grad_fn(x, y)
            optimizer(grads)
            return loss

        # O0: Adam makes steps of a gradient that is 0 but for rounding (biases before BatchNorm)
        step = ms.jit(step, jit_level="O0") if mode == "jit" else step
        graph_mode = ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE
        with ms.context.using(mode=graph_mode, jit_level="O0"):
            losses = [step(Tensor(x), Tensor(y)) for x, y in zip(ids, labels, strict=True)]
        if mode == "jit":
            assert step.compile_count == 1
        return np.array([v.asnumpy() for v in losses]), joined(net.get_parameters()), random_state()

    expected = run("pynative")
    draws = expected[2].tolist()
    for mode in ("jit", "graph"):
        losses, parameters, state = run(mode)
        assert_same(losses, expected[0])
        assert_same(parameters, expected[1], 10)
        assert state.tolist() == draws
    assert draws[1] > 24


def test_all_stages_of_a_step_agree():
    ms.set_seed(3)
    net = Net().set_train()
    weights = ms.ParameterTuple(net.trainable_params())

    def step(ids):
        loss, grads = ms.value_and_grad(lambda x: (net(x) ** 2).mean(), None, weights)(ids)
        return loss, [g.sum() for g in grads]

    ids = Tensor(np.arange(20).reshape(4, 5) % 7)
    agree(step, ids, state=[random_state(), *net.get_parameters()], factor=100)


# ---------------------------------------------------------------------------------------- errors

X = Tensor(np.ones((4, 3), np.float32))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.BatchNorm1d(0), ValueError, "num_features of BatchNorm1d must be positive"),
        (lambda: nn.BatchNorm2d(3.0), TypeError, "num_features of BatchNorm2d must be an int"),
        (lambda: nn.BatchNorm1d(3, momentum=1.5), ValueError, "momentum"),
        (lambda: nn.BatchNorm1d(3, affine=1), TypeError, "affine"),
        (lambda: nn.BatchNorm1d(3, use_batch_statistics=1), ValueError, "use_batch_statistics"),
        (lambda: nn.BatchNorm2d(3, data_format="X"), ValueError, "NCHW or NHWC"),
        (lambda: nn.BatchNorm1d(3, gamma_init=Tensor([1.0])), ValueError, "shape"),
        (lambda: nn.BatchNorm1d(3)(X[0]), ValueError, "2 or 3 dimensions"),
        (lambda: nn.BatchNorm2d(3)(X), ValueError, "takes 4 dimensions"),
        (lambda: nn.BatchNorm1d(2)(X), ValueError, "num_features=2 channels on axis 1"),
        (lambda: nn.BatchNorm1d(3)(ops.cast(X, dt.int32)), TypeError, "floats"),
        (lambda: nn.BatchNorm1d(3).set_train()(X[:1]), ValueError, "2 or more values"),
        (lambda: nn.LayerNorm(3), TypeError, "tuple or list"),
        (lambda: nn.LayerNorm(()), ValueError, "empty"),
        (lambda: nn.LayerNorm((3,), -2.0), TypeError, "begin_norm_axis of LayerNorm"),
        (lambda: nn.LayerNorm((4,))(X), ValueError, "does not fit"),
        (lambda: nn.LayerNorm((3,), 5)(X), ValueError, "axis 5 is out of range"),
        (lambda: nn.LayerNorm((3,))(ops.cast(X, dt.int32)), TypeError, "floats"),
        (lambda: nn.Dropout(0.0), ValueError, r"keep_prob of Dropout must be in \(0, 1\]"),
        (lambda: nn.Dropout(2), ValueError, "keep_prob"),
        (lambda: nn.Dropout(float("nan")), ValueError, "keep_prob"),
        (lambda: nn.Dropout(p=1.0), ValueError, r"p of Dropout must be in \[0, 1\)"),
        (lambda: nn.Dropout(p=-1.0), ValueError, "p of Dropout"),
        (lambda: nn.Dropout(p="a"), TypeError, "p of Dropout must be a float"),
        (lambda: nn.Dropout(True), TypeError, "keep_prob"),
        (lambda: nn.Dropout().set_train()(Tensor([1, 2])), TypeError, "floats"),
        (lambda: nn.Embedding(-10, 4), ValueError, "vocab_size"),
        (lambda: nn.Embedding(10, 4.0), TypeError, "embedding_size"),
        (lambda: nn.Embedding(10, 4, 1), TypeError, "use_one_hot"),
        (lambda: nn.Embedding(10, 4, padding_idx=10), ValueError, "padding_idx"),
        (lambda: nn.Embedding(10, 4, padding_idx=-1), ValueError, "padding_idx"),
        (lambda: nn.Embedding(10, 4, padding_idx=1.0), TypeError, "padding_idx"),
        (lambda: nn.Embedding(3, 2, False, X), ValueError, "shape"),
        (lambda: nn.Embedding(10, 4)(Tensor([1.0])), TypeError, "integers"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("cell", "x"),
    [(nn.BatchNorm1d(2), X), (nn.LayerNorm((4,)), X), (nn.BatchNorm1d(3).set_train(), X[:1])],
    ids=["channels", "shape", "one value"],
)
def test_errors_are_the_same_in_both_modes(cell, x):
    with pytest.raises(ValueError) as plain:
        cell(x)
    with pytest.raises(ValueError) as compiled:
        ms.jit(cell)(x)
    assert str(compiled.value) == str(plain.value)
