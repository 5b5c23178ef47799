"""Optimizers: update rules against formulas in float64 and against MindSpore; groups; training.

The reference figures were made by tests/data/make_mindspore_figures.py.
"""

import ast
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_same

import minispore as ms
from minispore import nn, ops
from minispore.dtype import bfloat16, float16, float32, float64, int32
from minispore.nn.learning_rate_schedule import LearningRateSchedule
from minispore.parameter import Parameter, ParameterTuple
from minispore.tensor import Tensor

DATA = Path(__file__).parent / "data"
FIGURES = np.load(DATA / "mindspore_optim.npz")
MLP = np.load(DATA / "mindspore_mlp.npz")


MODES = ["pynative", "graph"]


def in_mode(mode, function):
    """A function or Cell, compiled in mode "graph"."""
    return ms.jit(function) if mode == "graph" else function


def param(name="w", values=(1.0, 2.0), dtype=float32):
    return Parameter(Tensor(np.array(values), dtype), name=name)


def grad(*values, dtype=float32):
    return Tensor(np.array(values or (0.5, 0.25)), dtype)


# ------------------------------------------------------------------------------- update rules


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", range(len(FIGURES["settings"])), ids=FIGURES["settings"])
def test_every_setting_agrees_with_mindspore(index, mode):
    name, settings = ast.literal_eval(str(FIGURES["settings"][index]))
    w = Parameter(Tensor(FIGURES["start"]), name="w")
    optimizer = in_mode(mode, getattr(nn, name)([w], learning_rate=0.1, **settings))
    for g, expected in zip(FIGURES["g"], FIGURES["w"][index], strict=True):
        assert optimizer((Tensor(g),)) == (True,)
        assert_same(w, expected)


def sgd(w, gs, lr, momentum=0.0, dampening=0.0, decay=0.0, nesterov=False):
    m = None
    for g in gs:
        g = g + decay * w
        m = g if m is None else momentum * m + (1 - dampening) * g
        w = w - lr * (g + momentum * m if nesterov else m if momentum else g)
    return w


BETA1, BETA2 = np.float64(np.float32(0.9)), np.float64(np.float32(0.999))  # Float32, like rates


def adam(w, gs, lr, b1=BETA1, b2=BETA2, eps=1e-8):
    m = v = 0.0
    for t, g in enumerate(gs, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        w = w - lr * np.sqrt(1 - b2**t) / (1 - b1**t) * m / (np.sqrt(v) + eps)
    return w


def adam_weight_decay(w, gs, lr, decay, b1=BETA1, b2=BETA2, eps=1e-6):
    m = v = 0.0
    for g in gs:
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        w = w - lr * (m / (np.sqrt(v) + eps) + decay * w)
    return w


RULES = {
    "sgd": (lambda p, lr: nn.SGD(p, lr), sgd),
    "sgd momentum dampening": (
        lambda p, lr: nn.SGD(p, lr, 0.9, 0.5, 0.1),
        lambda w, gs, lr: sgd(w, gs, lr, 0.9, 0.5, 0.1),
    ),
    "sgd nesterov": (
        lambda p, lr: nn.SGD(p, lr, 0.9, nesterov=True),
        lambda w, gs, lr: sgd(w, gs, lr, 0.9, nesterov=True),
    ),
    "momentum": (lambda p, lr: nn.Momentum(p, lr, 0.9), lambda w, gs, lr: sgd(w, gs, lr, 0.9)),
    "adam": (lambda p, lr: nn.Adam(p, lr), adam),
    "adam weight decay": (
        lambda p, lr: nn.AdamWeightDecay(p, lr, weight_decay=0.1),
        lambda w, gs, lr: adam_weight_decay(w, gs, lr, 0.1),
    ),
}


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_formulas_in_every_float_dtype(rule, dtype):
    make, formula = RULES[rule]
    rng = np.random.default_rng(1)
    start = rng.standard_normal((3, 2)).astype(dtype.numpy)
    gradients = [rng.standard_normal((3, 2)).astype(dtype.numpy) for _ in range(5)]
    w = Parameter(Tensor(start), name="w")
    optimizer = make([w], 0.125)
    for g in gradients:
        optimizer((Tensor(g),))
    gs = [g.astype(np.float64) for g in gradients]
    expected = formula(start.astype(np.float64), gs, 0.125)
    assert w.dtype is dtype
    tolerance = {float16: 2e-2, bfloat16: 6e-2}.get(dtype, 5e-6)  # the powers of beta: Float32
    np.testing.assert_allclose(w.asnumpy().astype(np.float64), expected, atol=tolerance)


def test_several_parameters_are_updated_and_counted():
    a, b = param("a"), param("b", [[1.0], [2.0]])
    optimizer = nn.SGD([a, b], 0.5)
    assert optimizer((grad(), Tensor([[1.0], [0.0]]))) == (True, True)
    assert optimizer([grad(), Tensor([[1.0], [0.0]])]) == (True, True)
    np.testing.assert_array_equal(a.asnumpy(), [0.5, 1.75])
    np.testing.assert_array_equal(b.asnumpy(), [[0.0], [2.0]])
    assert_same(optimizer.global_step, np.array([2], np.int32))


def test_updates_leave_no_mark_on_gradients():
    g = grad()
    nn.Momentum([param()], 0.1, 0.9, weight_decay=0.5, loss_scale=4.0)((g,))
    np.testing.assert_array_equal(g.asnumpy(), [0.5, 0.25])


# --------------------------------------------------------------------------------------- state


def states(optimizer):
    return [p.name for p in optimizer.get_parameters()]


def test_names_of_state():
    common = ["global_step", "learning_rate", "w"]
    assert states(nn.SGD([param()])) == [*common, "accum.w", "stat.w"]
    assert states(nn.Momentum([param()], 0.1, 0.9)) == [*common, "moments.w"]
    powers = ["beta1_power", "beta2_power"]
    assert states(nn.Adam([param()])) == [*common, *powers, "moment1.w", "moment2.w"]
    assert states(nn.Adam([param()], use_amsgrad=True))[-1] == "vhat.w"
    assert states(nn.AdamWeightDecay([param()])) == [*common, "adam_m.w", "adam_v.w"]


def test_attributes():
    a, b = param("a"), param("b")
    optimizer = nn.Adam([a, b], 0.01)
    assert isinstance(optimizer.parameters, ParameterTuple) and optimizer.parameters == (a, b)
    assert optimizer.global_step.shape == (1,) and optimizer.global_step.dtype is int32
    assert repr(optimizer) == "Adam()"
    assert [p.name for p in optimizer.moment1] == ["moment1.a", "moment1.b"]
    assert (optimizer.beta1, optimizer.beta2, optimizer.eps) == (0.9, 0.999, 1e-8)


def test_names_of_the_net_are_kept():
    net = nn.SequentialCell(nn.Dense(1, 1))
    optimizer = nn.Adam(net.get_parameters())  # any iterable
    assert [p.name for p in optimizer.parameters] == ["0.weight", "0.bias"]
    assert optimizer.parameters[0] is net[0].weight


# ------------------------------------------------------------------------------ learning rates


@pytest.mark.parametrize("mode", MODES)
def test_learning_rate_is_a_parameter(mode):
    p = param()
    optimizer = nn.SGD([p], 0.25)
    assert_same(optimizer.get_lr(), np.float32(0.25))
    update = in_mode(mode, optimizer)
    update((grad(),))
    optimizer.learning_rate.set_data(Tensor(0.5))
    update((grad(),))
    np.testing.assert_array_equal(p.asnumpy(), [0.625, 1.8125])


@pytest.mark.parametrize(
    "rates",
    [[0.5, 1], (0.5, 1.0), iter([0.5, 1.0]), Tensor([0.5, 1.0]), np.array([0.5, 1.0])],
    ids=["list", "tuple", "iterator", "Tensor", "ndarray"],
)
def test_kinds_of_a_rate_per_step(rates):
    assert_same(nn.SGD([param()], rates).get_lr(), np.float32(0.5))


@pytest.mark.parametrize("mode", MODES)
def test_a_rate_per_step(mode):
    p = param()
    optimizer = nn.SGD([p], [0.5, 1.0])
    update = in_mode(mode, optimizer)
    assert_same(optimizer.get_lr(), np.float32(0.5))
    assert_same(optimizer.get_lr(), np.float32(0.5))  # asking changes nothing
    update((grad(),))
    assert_same(optimizer.get_lr(), np.float32(1.0))
    update((grad(),))
    np.testing.assert_array_equal(p.asnumpy(), [0.25, 1.625])
    with pytest.raises(IndexError):
        update((grad(),))
    np.testing.assert_array_equal(p.asnumpy(), [0.25, 1.625])


@pytest.mark.parametrize("rate", [Tensor(0.5), Tensor(0.5, float64), 0.5, np.float64(0.5)])
def test_a_single_rate(rate):
    assert_same(nn.SGD([param()], rate).get_lr(), np.float32(0.5))
    assert_same(nn.SGD([param()], 1).get_lr(), np.float32(1.0))
    assert_same(nn.SGD([param()], 0.0).get_lr(), np.float32(0.0))


class Halving(LearningRateSchedule):
    def construct(self, global_step):
        return ops.pow(0.5, ops.cast(global_step, float32))


@pytest.mark.parametrize("mode", MODES)
def test_a_schedule(mode):
    p = param()
    optimizer = nn.SGD([p], Halving())
    update = in_mode(mode, optimizer)
    assert repr(optimizer) == "SGD(\n  (learning_rate): Halving()\n)"
    for expected in (1.0, 0.5, 0.25):
        assert_same(optimizer.get_lr(), np.float32(expected))
        update((grad(1.0, 0.0),))
    np.testing.assert_array_equal(p.asnumpy(), [1 - 1.75, 2.0])
    with pytest.raises(NotImplementedError):
        LearningRateSchedule()(optimizer.global_step)


@pytest.mark.parametrize(
    ("rate", "error"),
    [
        (-0.1, ValueError), ([0.1, -1.0], ValueError), (Tensor(-0.1), ValueError),
        ([], ValueError), (Tensor([[0.1]]), ValueError), (float("nan"), ValueError),
        (None, TypeError), ("0.1", TypeError), (nn.ReLU(), TypeError),
    ],
)  # fmt: skip
def test_wrong_rates(rate, error):
    with pytest.raises(error, match="learning_rate"):
        nn.SGD([param()], rate)
    with pytest.raises(error, match="learning_rate_group_0"):
        nn.SGD([{"params": [param()], "lr": rate}])


# -------------------------------------------------------------------------------------- groups


def test_groups_have_rates_and_decays_of_their_own():
    a, b, c = param("a"), param("b"), param("c.beta")
    groups = [{"params": [a], "lr": 0.5}, {"params": iter([b, c]), "weight_decay": 0.25}]
    optimizer = nn.Momentum(groups, 0.25, 0.0)
    assert [p.name for p in optimizer.parameters] == ["a", "b", "c.beta"]
    assert [r.asnumpy() for r in optimizer.get_lr()] == [0.5, 0.25, 0.25]
    assert "learning_rate_group_0" in states(optimizer)
    optimizer((grad(), grad(), grad()))
    np.testing.assert_array_equal(a.asnumpy(), [0.75, 1.875])
    for p in (b, c):  # in groups, decay is for all
        np.testing.assert_array_equal(p.asnumpy(), [1 - 0.25 * 0.75, 2 - 0.25 * 0.75])


@pytest.mark.parametrize("mode", MODES)
def test_schedules_and_lists_in_groups(mode):
    a, b, c = param("a"), param("b"), param("c")
    groups = [
        {"params": [a], "lr": Halving()},
        {"params": [b], "lr": [0.25, 0.75]},
        {"params": [c]},
    ]
    optimizer = nn.SGD(groups, 0.125)
    optimizer((grad(), grad(), grad()))
    assert [r.asnumpy() for r in optimizer.get_lr()] == [0.5, 0.75, 0.125]
    assert [p.asnumpy()[0] for p in (a, b, c)] == [0.5, 0.875, 0.9375]


def test_order_params():
    a, b, c = param("a"), param("b"), param("c")
    order = {"order_params": [c, a, b]}
    for groups in ([{"params": [a, b]}, {"params": [c]}, order], [order, {"params": [a, b, c]}]):
        optimizer = nn.SGD(groups, 0.1)
        assert [p.name for p in optimizer.parameters] == ["c", "a", "b"]


def test_decay_spares_beta_and_gamma():
    params = [param("bn.gamma"), param("bn.beta"), param("w")]
    optimizer = nn.SGD(params, 0.5, weight_decay=0.5)
    optimizer((grad(0.0, 0.0),) * 3)
    assert [p.asnumpy().tolist() for p in params] == [[1, 2], [1, 2], [0.75, 1.5]]


@pytest.mark.parametrize(
    ("groups", "error"),
    [
        ([{"params": [param()], "rate": 1}], KeyError),
        ([{"lr": 1.0}], KeyError),
        ([{"params": []}], ValueError),
        ([{"params": param()}], TypeError),
        ([{"params": [3]}], TypeError),
        ([param("b"), {"params": [param()]}], TypeError),
        ([{"params": [param()], "weight_decay": -1.0}], ValueError),
        ([{"params": [param()]}, {"params": [param()]}], ValueError),
        ([{"params": [param()]}, {"order_params": [param("b")]}], ValueError),
        ([{"params": [param()]}, {"order_params": [param()], "lr": 1.0}], ValueError),
        ([{"order_params": [param()]}], ValueError),
    ],
)
def test_wrong_groups(groups, error):
    with pytest.raises(error):
        nn.SGD(groups)


# -------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: nn.SGD([]), ValueError),
        (lambda: nn.SGD([3]), TypeError),
        (lambda: nn.SGD([Tensor([1.0])]), TypeError),
        (lambda: nn.SGD(Tensor([1.0])), TypeError),
        (lambda: nn.SGD(3), TypeError),
        (lambda: nn.SGD([param(), param()]), ValueError),
        (lambda: nn.SGD([param()], weight_decay=-1.0), ValueError),
        (lambda: nn.SGD([param()], weight_decay="1"), TypeError),
        (lambda: nn.SGD([param()], loss_scale=0.0), ValueError),
        (lambda: nn.SGD([param()], momentum=-0.1), ValueError),
        (lambda: nn.SGD([param()], dampening=-0.1), ValueError),
        (lambda: nn.SGD([param()], nesterov=1), TypeError),
        (lambda: nn.SGD([param()], nesterov=True), ValueError),
        (lambda: nn.SGD([param()], momentum=0.9, dampening=0.1, nesterov=True), ValueError),
        (lambda: nn.Momentum([param()], 0.1, -0.1), ValueError),
        (lambda: nn.Momentum([param()], 0.1, 0.9, use_nesterov=3), TypeError),
        (lambda: nn.Adam([param()], beta1=1.0), ValueError),
        (lambda: nn.Adam([param()], beta2=0.0), ValueError),
        (lambda: nn.Adam([param()], eps=0.0), ValueError),
        (lambda: nn.Adam([param()], use_nesterov=1), TypeError),
        (lambda: nn.AdamWeightDecay([param()], beta1=2.0), ValueError),
    ],
)
def test_wrong_arguments(make, error):
    with pytest.raises(error):
        make()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("gradients", "error"),
    [
        (grad(), TypeError),
        ((grad(),), ValueError),
        ((grad(), grad(), grad()), ValueError),
        ((grad(1.0), grad()), ValueError),  # would broadcast
    ],
)
def test_gradients_that_do_not_fit(gradients, error, mode):
    params = [param("a"), param("b")]
    optimizer = nn.SGD(params, 0.1)
    with pytest.raises(error):
        in_mode(mode, optimizer)(gradients)
    assert [p.asnumpy().tolist() for p in params] == [[1, 2], [1, 2]]
    assert optimizer.global_step.asnumpy() == [0]


def test_the_base_has_no_rule():
    with pytest.raises(NotImplementedError, match="does not define construct"):
        nn.Optimizer(0.1, [param()])((grad(),))


# ------------------------------------------------------------------------------------ training

TRAINERS = {
    "sgd": lambda p: nn.SGD(p, 0.1),
    "momentum": lambda p: nn.Momentum(p, 0.05, 0.9),
    "adam": lambda p: nn.Adam(p, 0.01),
}


def mlp():
    """The network of the figures, with their initial weights."""
    sizes = [MLP[f"{i}.weight"].shape[::-1] for i in (0, 2, 4)]
    a, b, c = (nn.Dense(*size) for size in sizes)
    net = nn.SequentialCell(a, nn.ReLU(), b, nn.ReLU(), c)
    for p in net.get_parameters():
        p.set_data(Tensor(MLP[p.name]))
    return net


def train_step(net, optimizer):
    """One training step as users write it."""
    loss_fn = nn.CrossEntropyLoss()

    def forward(x, labels):
        return loss_fn(net(x), labels)

    grad_fn = ms.value_and_grad(forward, None, optimizer.parameters)

    def step(x, labels):
        loss, grads = grad_fn(x, labels)
        optimizer(grads)
        return loss

    return step


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TRAINERS)
def test_an_mlp_trains_as_in_mindspore(name, mode):
    net = mlp().set_train()
    optimizer = TRAINERS[name](net.trainable_params())
    step = in_mode(mode, train_step(net, optimizer))
    x, labels = MLP["x"], MLP["labels"]
    for i, expected in enumerate(MLP[f"losses.{name}"]):
        loss = step(Tensor(x[i % len(x)]), Tensor(labels[i % len(x)]))
        np.testing.assert_allclose(loss.asnumpy(), expected, rtol=1e-4)
    assert optimizer.global_step.asnumpy() == [50]
