"""What the documents show: every example, in our own words, in both modes where it makes sense."""

import contextlib
import io

import numpy as np
import pytest
from helpers import assert_same

import minispore as ms
import minispore.context as context
from minispore import Parameter, Tensor, nn, ops
from minispore.ops._grad.grad_base import P, binop_grad_common, bprop_getters

MODES = [ms.PYNATIVE_MODE, ms.GRAPH_MODE]


@pytest.fixture(params=MODES, ids=["pynative", "graph"])
def mode(request):
    ms.set_context(mode=request.param)
    yield request.param
    ms.set_context(mode=ms.PYNATIVE_MODE)


def printed(run) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run()
    return out.getvalue()


# ------------------------------------------------------------------- the two modes, introduced


class Affine(nn.Cell):
    """x W + b, and it prints what it computes on the way."""

    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(3)
        self.w = Parameter(Tensor(rng.normal(size=(5, 3)), ms.float32), name="w")
        self.b = Parameter(Tensor(rng.normal(size=(3,)), ms.float32), name="b")

    def construct(self, x):
        out = ops.matmul(x, self.w)
        print("matmul: ", out)
        out = out + self.b
        print("add bias: ", out)
        return out


def test_pynative_is_the_default():
    assert ms.get_context("mode") == ms.PYNATIVE_MODE


def test_intermediate_results_are_printed_in_order(mode):
    net, x = Affine(), ops.ones(5, ms.float32)
    product = x.asnumpy() @ net.w.asnumpy()
    text = printed(lambda: print("out: ", net(x)))
    expected = f"matmul:  {product}\nadd bias:  {product + net.b.asnumpy()}\n"
    assert text == expected + f"out:  {product + net.b.asnumpy()}\n"


def test_printing_construct_under_jit_in_pynative_mode():
    net, x = Affine(), ops.ones(5, ms.float32)
    compiled = ms.jit(net.construct)
    assert printed(lambda: compiled(x)) == printed(lambda: net(x))
    assert printed(lambda: compiled(x)) == printed(lambda: net(x))  # the cached graph prints too


def test_compile_then_call():
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        net, x = Affine(), ops.ones(5, ms.float32)
        assert printed(lambda: net.compile(x)) == ""  # compiling runs nothing
        assert net.compile(x) is None
        out = net(x)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert_same(out, x.asnumpy() @ net.w.asnumpy() + net.b.asnumpy())


class OneLayer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(10, 1)

    @ms.jit
    def construct(self, x):
        return self.fc(x)


def test_jit_on_construct(mode):
    net = OneLayer()
    x = Tensor(np.random.default_rng(0).normal(size=(4, 10)).astype(np.float32))
    expected = x.asnumpy() @ net.fc.weight.asnumpy().T + net.fc.bias.asnumpy()
    assert_same(net(x), expected)


@ms.jit
def multiply(x, y):
    return x * y


def test_jit_on_a_function(mode):
    x, y = Tensor([1.0, 2.0, 3.0]), Tensor([4.0, 5.0, 6.0])
    assert_same(multiply(x, y), np.array([4, 10, 18], np.float32))


def training_step(seed: int):
    """The whole-graph example: sigmoid probabilities, since BCELoss takes no raw scores."""
    ms.set_seed(seed)
    network = nn.Dense(10, 1)
    loss_fn = nn.BCELoss()
    optimizer = nn.Adam(network.trainable_params(), 0.01)

    def forward_fn(data, label):
        return loss_fn(ops.sigmoid(network(data)), label)

    grad_fn = ms.value_and_grad(forward_fn, None, optimizer.parameters)

    def train_step(data, label):
        loss, grads = grad_fn(data, label)
        optimizer(grads)
        return loss

    return network, train_step


def test_whole_graph_compilation():
    rng = np.random.default_rng(1)
    data = Tensor(rng.normal(size=(8, 10)).astype(np.float32))
    label = Tensor((rng.random((8, 1)) > 0.5).astype(np.float32))
    network, step = training_step(5)
    eager = [float(step(data, label)) for _ in range(50)]
    compiled_network, compiled_step = training_step(5)
    compiled_step = ms.jit(compiled_step)
    losses = [float(compiled_step(data, label)) for _ in range(50)]
    np.testing.assert_allclose(losses, eager, rtol=1e-5)
    assert losses[-1] < losses[0]
    assert compiled_step.compile_count == 1
    for a, b in zip(network.get_parameters(), compiled_network.get_parameters(), strict=True):
        assert_same(b, a)


def test_bce_loss_of_raw_scores_says_what_to_do(mode):
    network, loss_fn = nn.Dense(10, 1), nn.BCELoss()
    x = Tensor(np.full((4, 10), 100.0, np.float32))
    network.weight.set_data(ops.ones((1, 10), ms.float32))
    with pytest.raises((RuntimeError, ValueError), match="BCEWithLogits"):
        ms.jit(lambda x, y: loss_fn(network(x), y))(x, ops.ones((4, 1), ms.float32))


# ------------------------------------------------------------------- digits-shaped network


class Digits(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(
            nn.Dense(28 * 28, 512), nn.ReLU(), nn.Dense(512, 512), nn.ReLU(), nn.Dense(512, 10)
        )

    def construct(self, x):
        x = self.flatten(x)
        logits = self.dense_relu_sequential(x)
        return logits


def forward_in_numpy(net, images):
    x = images.reshape(len(images), -1)
    layers = [cell for cell in net.dense_relu_sequential if isinstance(cell, nn.Dense)]
    for i, layer in enumerate(layers):
        x = x @ layer.weight.asnumpy().T + layer.bias.asnumpy()
        x = np.maximum(x, 0) if i < 2 else x
    return x


IMAGES = np.ones([64, 1, 28, 28], np.float32)


def test_digits_network(mode):
    net = Digits()
    out = net(Tensor(IMAGES))
    assert_same(out, forward_in_numpy(net, IMAGES))
    text = str(out)
    assert text.startswith("[[") and text.endswith("]]") and text.count("\n") >= 63


def test_a_cell_built_inside_a_jitted_function():
    made = []

    class Watched(Digits):
        def __init__(self):
            super().__init__()
            made.append(self)

    def run(x):
        model = Watched()
        return model(x)

    for compiled in (ms.jit(run), ms.jit(run)):  # as decorator and as a call of jit
        made.clear()
        first = compiled(Tensor(IMAGES))
        assert len(made) == 1
        assert_same(first, forward_in_numpy(made[-1], IMAGES))
        second = compiled(Tensor(IMAGES))
        assert len(made) == 2  # built at every call, weights never frozen
        assert_same(second, forward_in_numpy(made[-1], IMAGES))
        assert compiled.compile_count == 1


def test_a_cell_built_inside_gives_the_weights_of_pynative_mode():
    def run(x):
        return Digits()(x)

    ms.set_seed(11)
    eager = [run(Tensor(IMAGES)), run(Tensor(IMAGES))]
    ms.set_seed(11)
    compiled = ms.jit(run)
    assert_same([compiled(Tensor(IMAGES)), compiled(Tensor(IMAGES))], eager)


def test_jit_decorator_and_call_agree():
    net = Digits()

    @ms.jit
    def decorated(x):
        return net(x)

    called = ms.jit(lambda x: net(x))
    x = Tensor(IMAGES)
    assert_same(decorated(x), net(x))
    assert_same(called(x), net(x))


# ------------------------------------------------------------------- one line switches modes


class AnyNet(nn.Cell):
    """A net for images of shape (1, 1, 4, 1024)."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(1024, 8)

    def construct(self, x):
        return ops.tanh(self.fc(x))


def test_context_module_switches_modes():
    net = AnyNet()
    x = Tensor(np.random.default_rng(0).random((1, 1, 4, 1024)).astype(np.float32))
    out = net(x)
    try:
        context.set_context(mode=context.GRAPH_MODE)
        assert_same(net(x), out)
    finally:
        context.set_context(mode=context.PYNATIVE_MODE)
    assert out.shape == (1, 1, 4, 8) and out.dtype is ms.float32


# ------------------------------------------------------------------- the notebook


class AddNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.add = ops.Add()

    def construct(self, x, y):
        return self.add(x, y)


class MulNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.mul = ops.Mul()

    def construct(self, x, y):
        return self.mul(x, y)


def vectors():
    return (Tensor(np.array(v).astype(np.float32)) for v in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))


def test_sum_and_product_print_as_in_the_notebook(mode):
    x, y = vectors()
    assert printed(lambda: print(AddNet()(x, y))) == "[5. 7. 9.]\n"
    assert printed(lambda: print(MulNet()(x, y))) == "[ 4. 10. 18.]\n"
    assert printed(lambda: print(ops.mul(x, y).asnumpy())) == "[ 4. 10. 18.]\n"


class ScaledProduct(nn.Cell):
    """(x * z) @ y with a parameter z."""

    def __init__(self):
        super().__init__()
        self.matmul = ops.MatMul()
        self.z = Parameter(Tensor(np.array([1.0], np.float32)), name="z")

    def construct(self, x, y):
        x = x * self.z
        return self.matmul(x, y)


class GradientByX(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.grad_op = ops.GradOperation()

    def construct(self, x, y):
        gradient_function = self.grad_op(self.net)
        return gradient_function(x, y)


X = [[0.8, 0.6, 0.2], [1.8, 1.3, 1.1]]
Y = [[0.11, 3.3, 1.1], [1.1, 0.2, 1.4], [1.1, 2.2, 0.3]]
PRINTED = "[[4.5099998 2.7       3.6000001]\n [4.5099998 2.7       3.6000001]]\n"


def gradient_of_product():
    x, y = Tensor(X, dtype=ms.float32), Tensor(Y, dtype=ms.float32)
    return GradientByX(ScaledProduct())(x, y)


def test_matrix_gradient_prints_as_in_the_notebook(mode):
    assert printed(lambda: print(gradient_of_product())) == PRINTED


def test_a_registered_bprop_is_used_can_be_undone_and_recompiles(mode):
    factor = Tensor(np.float32(1.0))
    net = GradientByX(ScaledProduct())
    x, y = Tensor(X, dtype=ms.float32), Tensor(Y, dtype=ms.float32)
    plain = net(x, y).asnumpy()

    @bprop_getters.register(ops.Mul)
    def tripled(self):
        mul = P.Mul()

        def bprop(x, y, out, dout):
            dx = mul(mul(y, dout), 3.0)
            dy = mul(mul(x, dout), 3.0)
            return binop_grad_common(x, y, dx, dy)

        return bprop

    try:
        assert_same(net(x, y), 3 * plain)
    finally:
        bprop_getters.unregister(ops.Mul)
    assert_same(net(x, y), plain)
    assert factor.shape == ()


def test_the_documents_own_bprop_of_mul(mode):
    @bprop_getters.register(ops.Mul)
    def get_bprop_mul(self):
        mul_func = P.Mul()

        def bprop(x, y, out, dout):
            bc_dx = mul_func(y, dout)
            bc_dy = mul_func(x, dout)
            return binop_grad_common(x, y, bc_dx, bc_dy)

        return bprop

    try:
        assert printed(lambda: print(gradient_of_product())) == PRINTED
    finally:
        bprop_getters.unregister(ops.Mul)


class AddThrice(nn.Cell):
    def __init__(self):
        super().__init__()
        self.z = Parameter(Tensor(np.array([1.0], np.float32)), name="z")

    def construct(self, x):
        for _ in range(3):
            x = x + self.z
        return x


def test_a_python_loop(mode):
    x, _ = vectors()
    assert printed(lambda: print(AddThrice()(x))) == "[4. 5. 6.]\n"
