"""Layers and losses: against figures of MindSpore, initial values, shapes, printing, errors.

The reference figures were made by tests/data/make_mindspore_figures.py.
"""

from pathlib import Path

import numpy as np
import pytest
from helpers import assert_same

import minispore as ms
from minispore import nn, ops
from minispore.autodiff.tape import Tape
from minispore.dtype import bfloat16, float16, float32, float64, int64
from minispore.initializer import One
from minispore.random import set_seed
from minispore.tensor import Tensor

FIGURES = np.load(Path(__file__).parent / "data" / "mindspore_layers.npz")
CASES = [key.removesuffix(" output") for key in FIGURES if key.endswith(" output")]


def floats(*shape):
    return Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


# ------------------------------------------------------------------------ values and gradients


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("text", CASES)
def test_values_and_gradients_agree_with_mindspore(text, mode):
    cell = eval(f"nn.{text}", {"nn": nn, "weight": Tensor(FIGURES["class_weight"])})
    count = sum(key.startswith(f"{text} input") for key in FIGURES)
    inputs = [Tensor(FIGURES[f"{text} input {i}"]) for i in range(count)]
    sens = Tensor(FIGURES[f"{text} sens"])

    def both(*inputs):
        return cell(*inputs), ops.GradOperation(sens_param=True)(cell)(*inputs, sens)

    out, gradient = (ms.jit(both) if mode == "graph" else both)(*inputs)
    assert_same(out, FIGURES[f"{text} output"])
    assert_same(gradient, FIGURES[f"{text} gradient"])


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 4), (0, 4), (2, 1, 3, 4)], ids=str)
@pytest.mark.parametrize("has_bias", [True, False])
def test_dense_is_a_product_along_the_last_axis(shape, has_bias):
    layer = nn.Dense(4, 3, has_bias=has_bias)
    x = floats(*shape)
    expected = x.asnumpy() @ layer.weight.asnumpy().T
    if has_bias:
        expected = expected + layer.bias.asnumpy()
    assert_same(layer(x), expected)


@pytest.mark.parametrize("dtype", [float16, bfloat16, float64], ids=str)
def test_dense_in_other_dtypes(dtype):
    layer = nn.Dense(4, 3, dtype=dtype)
    assert layer.weight.dtype is dtype and layer.bias.dtype is dtype
    x = ops.cast(floats(2, 4), dtype)
    wide = [t.asnumpy().astype(np.float64) for t in (x, layer.weight, layer.bias)]
    assert_same(layer(x), (wide[0] @ wide[1].T + wide[2]).astype(dtype.numpy))


def test_gradients_of_dense():
    layer = nn.Dense(4, 3, activation="sigmoid")
    x, sens = floats(5, 4), floats(5, 3)
    with Tape() as tape:
        keys = [tape.watch(t) for t in (x, layer.weight, layer.bias)]
        out = layer(x)
    dx, dw, db = (t.asnumpy() for t in tape.backward([out], [sens], keys))
    y = out.asnumpy()
    dz = sens.asnumpy() * y * (1 - y)
    np.testing.assert_allclose(dx, dz @ layer.weight.asnumpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dw, dz.T @ x.asnumpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(db, dz.sum(0), rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------ initial values


def test_initial_values_of_dense():
    set_seed(1)
    layer = nn.Dense(1000, 500)
    bound = 1 / np.sqrt(1000)
    for p, shape in ((layer.weight, (500, 1000)), (layer.bias, (500,))):
        values = p.asnumpy()
        assert p.shape == shape and p.dtype is float32 and p.requires_grad
        assert np.abs(values).max() <= bound * (1 + 1e-6)
        assert np.abs(values).max() > 0.98 * bound
        assert abs(values.std() - bound / np.sqrt(3)) < 0.05 * bound
        assert abs(values.mean()) < 0.1 * bound
    assert (layer.weight.name, layer.bias.name) == ("weight", "bias")


def test_the_same_seed_gives_the_same_layer():
    set_seed(7)
    first = nn.Dense(3, 2)
    set_seed(7)
    assert_same(nn.Dense(3, 2).weight, first.weight)


def test_given_initial_values():
    ones = np.ones((3, 2), np.float32)
    for init in ("ones", One(), 1, 1.0, Tensor(ones)):
        layer = nn.Dense(2, 3, weight_init=init, bias_init="zeros")
        assert_same(layer.weight, ones)
        assert_same(layer.bias, np.zeros(3, np.float32))
    layer = nn.Dense(2, 3, weight_init=Tensor(ones, float64))
    assert layer.weight.dtype is float64  # a Tensor keeps its dtype
    source = Tensor(ones)
    layer = nn.Dense(2, 3, weight_init=source)
    layer.weight.set_data(Tensor(2 * ones))
    assert_same(source, ones)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: nn.Dense(-1, 5), ValueError),
        (lambda: nn.Dense(5, 0), ValueError),
        (lambda: nn.Dense(1.0, 5), TypeError),
        (lambda: nn.Dense(5, True), TypeError),
        (lambda: nn.Dense(1, 5, has_bias=1), TypeError),
        (lambda: nn.Dense(1, 5, activation="nothing"), KeyError),
        (lambda: nn.Dense(1, 5, activation=3), TypeError),
        (lambda: nn.Dense(1, 5, weight_init="nothing"), ValueError),
        (lambda: nn.Dense(1, 5, weight_init=Tensor(np.ones((1, 5)))), ValueError),
        (lambda: nn.Dense(1, 5, bias_init=Tensor(np.ones((5, 1)))), ValueError),
        (lambda: nn.Flatten(1.0), TypeError),
        (lambda: nn.Flatten(True), TypeError),
        (lambda: nn.GELU(3), TypeError),
        (lambda: nn.Softmax(1.0), TypeError),
        (lambda: nn.LogSoftmax(None), TypeError),
        (lambda: nn.LeakyReLU("a"), TypeError),
        (lambda: nn.ELU("a"), TypeError),
        (lambda: nn.MSELoss("average"), ValueError),
        (lambda: nn.CrossEntropyLoss(reduction=None), ValueError),
    ],
)
def test_wrong_arguments(make, error):
    with pytest.raises(error):
        make()


def test_dense_names_the_axis_that_does_not_fit():
    for shape in ((2, 5), (5,), ()):
        with pytest.raises(ValueError, match="last axis .* in_channels=4"):
            nn.Dense(4, 3)(floats(*shape))


# ------------------------------------------------------------------------- printing, activations


def test_printing():
    assert repr(nn.Dense(4, 3)) == "Dense(input_channels=4, output_channels=3, has_bias=True)"
    assert repr(nn.Dense(4, 3, has_bias=False)) == "Dense(input_channels=4, output_channels=3)"
    assert repr(nn.Dense(4, 3, activation=nn.Tanh())) == (
        "Dense(\n"
        "  input_channels=4, output_channels=3, has_bias=True, activation=Tanh()\n"
        "  (activation): Tanh()\n"
        ")"
    )
    assert repr(nn.Dense(4, 3, activation=ops.ReLU())) == (
        "Dense(input_channels=4, output_channels=3, has_bias=True, activation=Prim[ReLU])"
    )
    for cell in (nn.GELU(), nn.LeakyReLU(0.1), nn.Softmax(0), nn.Flatten(), nn.Identity(1, a=2)):
        assert repr(cell) == f"{type(cell).__name__}()"
    assert repr(nn.CrossEntropyLoss()) == "CrossEntropyLoss()"


def test_activations_of_dense():
    x = floats(2, 4)
    plain = nn.Dense(4, 3)
    expected = np.maximum(plain(x).asnumpy(), 0)
    for activation in ("relu", nn.ReLU(), ops.ReLU()):
        layer = nn.Dense(4, 3, plain.weight, plain.bias, activation=activation)
        assert_same(layer(x), expected)


def test_get_activation():
    names = ["elu", "gelu", "leakyrelu", "logsoftmax", "relu", "sigmoid", "silu", "softmax", "tanh"]
    for name in names:
        activation = nn.get_activation(name)
        assert type(activation).__name__.lower() == name
        assert nn.get_activation(name) is not activation
    assert nn.get_activation(None) is None
    for name in ("", "Relu", "swish"):
        with pytest.raises(KeyError, match="the names are elu, gelu"):
            nn.get_activation(name)


# --------------------------------------------------------------------------- shapes and losses


@pytest.mark.parametrize(
    ("dims", "expected"),
    [((), (2, 12)), ((0, 1), (6, 4)), ((2, 2), (2, 3, 4)), ((-2, -1), (2, 12)), ((0,), (24,))],
)
def test_flatten(dims, expected):
    x = floats(2, 3, 4)
    assert_same(nn.Flatten(*dims)(x), x.asnumpy().reshape(expected))


def test_flatten_keeps_empty_axes():
    assert nn.Flatten()(floats(0, 3, 4)).shape == (0, 12)
    assert nn.Flatten()(floats(2, 0, 4)).shape == (2, 0)


@pytest.mark.parametrize(
    ("dims", "shape"), [((), (4,)), ((), ()), ((2, 1), (2, 3, 4)), ((5,), (2, 3))]
)
def test_flatten_needs_its_axes(dims, shape):
    with pytest.raises(ValueError, match="does not have|comes after"):
        nn.Flatten(*dims)(floats(*shape))


def test_identity():
    x = floats(2)
    assert nn.Identity(3, name="unused")(x) is x


def test_integers():
    assert_same(nn.ReLU()(Tensor([-1, 2])), np.array([0, 2]))
    assert nn.ReLU()(Tensor([-1, 2])).dtype is int64


class Absolute(nn.LossBase):
    def construct(self, logits, labels):
        return self.get_loss(ops.abs(logits - labels), Tensor([1.0, 3.0]))


@pytest.mark.parametrize(
    ("reduction", "expected"), [("mean", 3.5), ("sum", 7.0), ("none", [1.0, 6.0])]
)
def test_a_loss_of_ones_own(reduction, expected):
    loss = Absolute(reduction)(Tensor([1.0, 2.0]), Tensor([2.0, 4.0]))
    assert_same(loss, np.array(expected, np.float32))


def test_the_base_of_losses_has_no_formula():
    with pytest.raises(NotImplementedError):
        nn.LossBase()(floats(2), floats(2))


def test_reduction_is_mean_by_default():
    for loss in (nn.LossBase, nn.MSELoss, nn.L1Loss, nn.CrossEntropyLoss, nn.NLLLoss, nn.BCELoss):
        assert loss().reduction == "mean"
    assert nn.BCEWithLogitsLoss().reduction == "mean"
