"""Example networks: forward, gradients and training are the same in both modes.

A whole training step (forward, backward, update) is one graph, which is read from its text.
"""

import re

import numpy as np
import pytest
from differential import agree
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.passes.inline import lazy_inline

RNG = np.random.default_rng(7)
DATA = Tensor(RNG.normal(size=(16, 6)).astype(np.float32))
CLASSES = Tensor(RNG.integers(0, 3, 16).astype(np.int32))
TARGETS = Tensor((RNG.random((16, 1)) > 0.5).astype(np.float32))
VALUES = Tensor(RNG.normal(size=(16, 3)).astype(np.float32))


def mlp(activation=nn.ReLU):
    return nn.SequentialCell(
        nn.Dense(6, 16), activation(), nn.Dense(16, 16), activation(), nn.Dense(16, 3)
    )


class Digits(nn.Cell):
    """The documents' network, with smaller layers."""

    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(
            nn.Dense(6, 32), nn.ReLU(), nn.Dense(32, 32), nn.ReLU(), nn.Dense(32, 3)
        )

    def construct(self, x):
        x = self.flatten(x.reshape(-1, 1, 2, 3))
        return self.dense_relu_sequential(x)


class Nested(nn.Cell):
    """SequentialCells in a CellList in a Cell."""

    def __init__(self):
        super().__init__()
        sizes = [(6, 8), (8, 8), (8, 3)]
        blocks = [nn.SequentialCell(nn.SequentialCell(nn.Dense(*s)), nn.Tanh()) for s in sizes]
        self.blocks = nn.CellList(blocks)

    def construct(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Shared(nn.Cell):
    """One layer used three times, and one weight used by two layers."""

    def __init__(self):
        super().__init__()
        self.first = nn.Dense(6, 6)
        self.again = self.first
        self.head = nn.Dense(6, 3)

    def construct(self, x):
        x = ops.tanh(self.first(x))
        x = ops.tanh(self.again(x) + self.first(x))
        return self.head(ops.matmul(x, self.first.weight))


class Residual(nn.Cell):
    def __init__(self, n):
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(n, n), nn.ReLU(), nn.Dense(n, n))

    def construct(self, x):
        return x + self.body(x)


class ResNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.blocks = nn.SequentialCell(*[Residual(6) for _ in range(3)])
        self.head = nn.Dense(6, 3)

    def construct(self, x):
        return self.head(self.blocks(x))


class TwoHeads(nn.Cell):
    """A dict of outputs."""

    def __init__(self):
        super().__init__()
        self.body = nn.Dense(6, 8)
        self.heads = {"scores": nn.Dense(8, 3), "value": nn.Dense(8, 1)}
        self.scores, self.value = self.heads.values()

    def construct(self, x):
        hidden = ops.sigmoid(self.body(x))
        return {name: head(hidden) for name, head in self.heads.items()}


class Swish(nn.Cell):
    """x sigmoid(x), with a gradient of its own."""

    def construct(self, x):
        return x * ops.sigmoid(x)

    def bprop(self, x, out, dout):
        s = ops.sigmoid(x)
        return (dout * (s + out * (1 - s)),)


class Gated(nn.Cell):
    """Its data decide which layer runs, and how often."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Dense(6, 6), nn.Dense(6, 6), nn.Dense(6, 3)
        self.calls = Parameter(Tensor(0.0), name="calls", requires_grad=False)

    def construct(self, x):
        self.calls += 1
        if x.mean() > 0:
            x = self.a(x)
        else:
            x = ops.tanh(self.b(x))
        steps = 0
        while ops.abs(x).max() > 1 and steps < 4:
            x = x * 0.5
            steps = steps + 1
        return self.head(x)


def cross_entropy(out):
    return nn.CrossEntropyLoss()(out, CLASSES)


def squared(out):
    return ((out - VALUES) ** 2).mean()


def two_losses(out):
    return cross_entropy(out["scores"]) + nn.MSELoss()(out["value"], TARGETS)


def binary(out):
    return nn.BCELoss()(ops.sigmoid(out), TARGETS)


NETWORKS = {
    "documents": (Digits, cross_entropy),
    "logistic regression": (lambda: nn.Dense(6, 1), binary),
    "softmax regression": (lambda: nn.Dense(6, 3), cross_entropy),
    "relu": (mlp, cross_entropy),
    "sigmoid": (lambda: mlp(nn.Sigmoid), squared),
    "tanh": (lambda: mlp(nn.Tanh), squared),
    "gelu": (lambda: mlp(nn.GELU), cross_entropy),
    "nested": (Nested, squared),
    "shared": (Shared, squared),
    "residual": (ResNet, cross_entropy),
    "two heads": (TwoHeads, two_losses),
    "own gradient": (lambda: mlp(Swish), cross_entropy),
    "gated": (Gated, squared),
}
OPTIMIZERS = {
    "sgd": lambda params: nn.SGD(params, 0.1),
    "momentum": lambda params: nn.Momentum(params, 0.05, 0.9),
    "adam": lambda params: nn.Adam(params, 0.01),
}


def made(name):
    ms.set_seed(3)
    make, loss_fn = NETWORKS[name]
    return make().set_train(), loss_fn


@pytest.mark.parametrize("name", NETWORKS)
def test_forward_and_gradients(name):
    net, loss_fn = made(name)
    params = net.trainable_params()
    state = list(net.get_parameters())
    agree(lambda x: net(x), DATA, state=state)
    agree(lambda x: ms.value_and_grad(lambda v: loss_fn(net(v)), 0, params)(x), DATA, state=state)
    with ms.context.using(mode=ms.GRAPH_MODE):
        in_graph_mode = net(DATA)
    expected = net(DATA)
    leaves = expected.values() if isinstance(expected, dict) else [expected]
    found = in_graph_mode.values() if isinstance(expected, dict) else [in_graph_mode]
    assert_same(list(found), list(leaves))


def training_step(name, optimizer):
    net, loss_fn = made(name)
    update = OPTIMIZERS[optimizer](net.trainable_params())
    grad_fn = ms.value_and_grad(lambda x: loss_fn(net(x)), None, update.parameters)

    def step(x):
        loss, grads = grad_fn(x)
        update(grads)
        return loss

    return net, step


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_fifty_steps_of_training(name, optimizer):
    net, step = training_step(name, optimizer)
    eager = [float(step(DATA)) for _ in range(50)]
    compiled_net, step = training_step(name, optimizer)
    step = ms.jit(step)
    compiled = [float(step(DATA)) for _ in range(50)]
    np.testing.assert_allclose(compiled, eager, rtol=0, atol=1e-5 * max(eager))
    assert eager[-1] < eager[0]
    assert step.compile_count == 1
    for p, q in zip(net.get_parameters(), compiled_net.get_parameters(), strict=True):
        assert p.name == q.name
        assert_same(q, p, 10.0)


def sub_graphs(text):
    """The names of the graphs in a text."""
    return re.findall(r"^subgraph @(\S+?)\(", text, re.MULTILINE)


@pytest.mark.parametrize("name", [n for n in NETWORKS if n != "gated"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_whole_step_is_one_graph(name, optimizer):
    _, step = training_step(name, optimizer)
    step = ms.jit(step)
    step(DATA)
    before, after = step.graph("grad"), step.graph()
    assert len(before.graphs()) > 5
    assert len(after.graphs()) == 1
    assert after.count() < lazy_inline(before).count()
    assert sub_graphs(str(after)) == ["step"], str(after)[:400]
    assert len(sub_graphs(str(before))) == len(before.graphs(with_bprop=True))


def test_what_tensors_decide_stays_in_the_graph_of_a_step():
    _, step = training_step("gated", "momentum")
    step = ms.jit(step)
    step(DATA)
    graph = step.graph()
    assert 1 < len(graph.graphs()) < len(step.graph("grad").graphs())
    text = str(graph)
    assert "Switch" in text and "While" in text


def test_all_of_an_example_is_in_the_text():
    """A step of logistic regression, small enough to read: forward, backward, update."""
    net = nn.Dense(2, 1)
    update = nn.SGD(net.trainable_params(), 0.5)
    x, y = Tensor([[1.0, 2.0]]), Tensor([[1.0]])
    grad_fn = ms.value_and_grad(
        lambda x, y: ((net(x) - y) ** 2).sum(), None, net.trainable_params()
    )

    @ms.jit
    def step(x, y):
        loss, grads = grad_fn(x, y)
        update(grads)
        return loss

    w, b = (p.asnumpy().copy() for p in net.trainable_params())
    loss = step(x, y)
    error = x.asnumpy() @ w.T + b - y.asnumpy()
    assert_same(loss, np.float32(error[0, 0] ** 2).reshape(()))
    assert_same(net.weight, w - 0.5 * 2 * error.T @ x.asnumpy())
    assert_same(net.bias, b - 0.5 * 2 * error[0])
    text = str(step.graph())
    assert text.count("MatMul") == 2  # forward; the weight's gradient
    assert "weight" in text and "bias" in text


# ------------------------------------------------------------------------------- whole programs


def normalized():
    return nn.SequentialCell(
        nn.Dense(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(p=0.3), nn.LayerNorm((8,)),
        nn.Dense(8, 3),
    )  # fmt: skip


def in_both_modes(make, *args, calls=10):
    """What a made function returns, call by call, eagerly and jitted; with the function."""
    results = []
    for jitted in (False, True):
        ms.set_seed(4)
        function = make()
        # O0: Adam makes steps of a gradient that is 0 but for rounding (biases before BatchNorm)
        function = ms.jit(function, jit_level="O0") if jitted else function
        results.append([function(*args) for _ in range(calls)])
    return (*results, function)


def test_random_numbers_and_moving_averages_are_the_same_in_both_modes():
    nets = []

    def make():
        nets.append(normalized().set_train())
        update = nn.Adam(nets[-1].trainable_params(), 0.01)
        grad_fn = ms.value_and_grad(lambda x: cross_entropy(nets[-1](x)), None, update.parameters)

        def step(x):
            loss, grads = grad_fn(x)
            update(grads)
            return loss

        return step

    eager, compiled, step = in_both_modes(make, DATA, calls=20)
    assert_same(compiled, eager)
    assert (step.compile_count, len(step.graph().graphs())) == (1, 1)
    for net in nets:
        net.set_train(False)
    assert_same(ms.jit(nets[1])(DATA), nets[0](DATA))
    step(DATA)
    assert step.compile_count == 2  # another graph for evaluation
    nets[1].set_train()
    step(DATA)
    assert step.compile_count == 2


class Accumulating(nn.Cell):
    """Updates with the mean of three gradients, at every third call."""

    def __init__(self):
        super().__init__()
        self.net = nn.Dense(6, 3)
        weights = self.net.trainable_params()
        zeros = [Parameter(ops.zeros_like(w), name=f"sum.{w.name}") for w in weights]
        self.sums = ms.ParameterTuple(zeros)
        self.calls = Parameter(Tensor(0, ms.int32), name="calls", requires_grad=False)
        self.update = nn.SGD(weights, 0.1)
        self.grad_fn = ms.value_and_grad(self.forward, None, self.update.parameters)

    def forward(self, x):
        return cross_entropy(self.net(x))

    def construct(self, x):
        loss, grads = self.grad_fn(x)
        for total, g in zip(self.sums, grads, strict=True):
            total += g
        self.calls += 1
        if self.calls % 3 == 0:
            self.update(tuple(total / 3 for total in self.sums))
            for total in self.sums:
                ops.assign(total, ops.zeros_like(total))
        return loss


def test_gradients_are_accumulated_over_calls():
    eager, compiled, step = in_both_modes(Accumulating, DATA)
    assert_same(compiled, eager)
    assert step.compile_count == 1
    losses = [float(x) for x in eager]
    assert losses[0] == losses[2] > losses[3] == losses[5] > losses[6]


def test_training_as_one_cell_in_graph_mode():
    eager, _, _ = in_both_modes(Accumulating, DATA)
    ms.set_seed(4)
    net = Accumulating()
    with ms.context.using(mode=ms.GRAPH_MODE):
        compiled = [net(DATA) for _ in range(10)]
    assert_same(compiled, eager)


def whole_training(stop):
    """A function that trains until ``stop(number of steps, loss)``."""
    net, loss_fn = nn.Dense(6, 3), nn.CrossEntropyLoss()
    update = nn.Momentum(
        [{"params": [net.weight], "weight_decay": 0.01}, {"params": [net.bias]}], 0.1, 0.9
    )
    grad_fn = ms.value_and_grad(lambda x: loss_fn(net(x), CLASSES), None, update.parameters)

    def run(x):
        loss, steps = Tensor(10.0), 0
        while not stop(steps, loss):
            loss, grads = grad_fn(x)
            update(grads)
            steps = steps + 1
        return loss, steps, net.weight * 1

    return run


@pytest.mark.parametrize(
    "stop", [lambda steps, loss: steps == 40, lambda steps, loss: (loss < 1.05) or (steps == 60)]
)
def test_a_whole_training_in_one_call(stop):
    eager, compiled, run = in_both_modes(lambda: whole_training(stop), DATA, calls=2)
    for a, e in zip(compiled, eager, strict=True):
        assert_same(a, e, 10.0)
    assert run.compile_count == 1
