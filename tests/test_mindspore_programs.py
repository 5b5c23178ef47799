"""Programs as MindSpore's users write them, with MindSpore's imports, in both modes.

What they must return was worked out by hand.
"""

# ruff: noqa: I001, E402, UP008
import mindspore_names  # noqa: F401

import numpy as np
import pytest
from helpers import assert_same

import mindspore as ms
import mindspore.nn as nn
import mindspore.ops as ops
from mindspore import Parameter, ParameterTuple, Tensor, context, jit
from mindspore.common import dtype as mstype
from mindspore.common.initializer import initializer
from mindspore.ops import composite as C
from mindspore.ops import functional as F
from mindspore.ops import operations as P
from mindspore.ops.composite import GradOperation


@pytest.fixture(params=[context.GRAPH_MODE, context.PYNATIVE_MODE], ids=["graph", "pynative"])
def mode(request):
    with ms.context.using(mode=request.param):
        context.set_context(device_target="CPU", save_graphs=False, pynative_synchronize=True)
        yield


pytestmark = pytest.mark.usefixtures("mode")


def f32(*values):
    return np.array(values[0] if len(values) == 1 else values, np.float32)


def int32(*values):
    return Tensor(values[0] if len(values) == 1 else values, mstype.int32)


class GradNet(nn.Cell):
    """The gradients of a net: by its inputs and by its Parameters."""

    def __init__(self, net):
        super(GradNet, self).__init__()
        self.net = net
        self.weights = ParameterTuple(net.trainable_params())
        self.grad = C.GradOperation(get_all=True, get_by_list=True)

    def construct(self, *inputs):
        return self.grad(self.net, self.weights)(*inputs)


# ------------------------------------------------------------------------------- control flow


def test_if_by_if():
    class Net(nn.Cell):
        def __init__(self):
            super(Net, self).__init__()
            self.relu = P.ReLU()
            self.add = P.Add()
            self.sub = P.Sub()

        def construct(self, x, y, z):
            if x > y:
                out = self.add(x, z)
            elif x == y:
                out = self.sub(x, z)
            else:
                out = self.relu(z)
            if out > 3:
                out = out * 2
            return out

    net = Net()
    for x, y, expected in ((1, 2, 0), (2, 1, -1), (2, 2, 10)):
        found = net(*(Tensor(v, mstype.float32) for v in (x, y, -3)))
        assert_same(found, f32(expected))


def test_while_with_a_parameter_as_counter():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.i = Parameter(Tensor(1, mstype.int32), name="i")
            self.n = Parameter(Tensor(5, mstype.int32), name="n", requires_grad=False)
            self.mul = P.Mul()

        def construct(self, x):
            while self.i < self.n:
                x = self.mul(x, self.i)
                self.i += 1
            return x

    net = Net()
    assert_same(net(int32(2)), np.array(48, np.int32))  # 2 * 4!
    assert_same((net(int32(2)), net.i), (np.array(2, np.int32), np.array(5, np.int32)))


def test_integers_in_loops_and_their_gradients():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.a = Parameter(Tensor(5, mstype.int32), name="a")
            self.b = Parameter(Tensor(7, mstype.int32), name="b")

        def construct(self, x):
            out = self.a
            while self.a > self.b:
                x *= 2
                self.b = self.b + 1
            if self.b > 5:
                self.b -= 3
                for _ in range(3):
                    x = x * self.a
                    x += self.b
            return x + out

    # x -> 5 x + 4, three times: 2, 14, 74, 374
    assert_same(Net()(int32([2])), np.array([379], np.int32))
    (dx,), (da, db) = GradNet(Net())(int32([2]))
    assert_same(dx, np.array([125], np.int32))
    assert_same(da, np.array(1 + 74 + 5 * 14 + 25 * 2, np.int32))
    assert_same(db, np.array(25 + 5 + 1, np.int32))


def test_recursion_with_a_return_in_every_arm():
    class Net(nn.Cell):
        def power(self, x, n):
            if n == 0:
                return x
            return x * self.power(x, n - 1)

        def construct(self, x, n):
            return self.power(x, n)

    net, x, n = Net(), Tensor(2.0), int32(3)
    assert_same(net(x, n), f32(16))
    assert_same(C.GradOperation(get_all=True)(net)(x, n), (f32(32), np.array(0, np.int32)))


def test_cells_by_index():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layers = nn.CellList([nn.ReLU(), nn.Sigmoid()])

        def construct(self, i, x):
            if i > 1:
                return x
            return self.layers[0](x) if i == 0 else self.layers[1](x)

    net, x = Net(), Tensor([-1.0, 0.0])
    sigmoid = 1 / (1 + np.exp(f32(1, 0)))
    for i, expected in ((0, f32(0, 0)), (1, sigmoid), (2, f32(-1, 0))):
        assert_same(net(int32(i), x), expected)


def test_errors_are_python_s():
    class Net(nn.Cell):
        def construct(self, x, k):
            if k == 0:
                raise ValueError(f"k is {k}")
            while x < 100:
                if x > 40:
                    raise RuntimeError("x is too large")
                x = x * k
            assert x.shape == (), "a scalar"
            return x

    net = Net()
    assert_same(net(Tensor(200), 3), np.array(200))
    with pytest.raises(ValueError, match="k is 0"):
        net(Tensor(1), 0)
    with pytest.raises(RuntimeError, match="too large"):
        net(Tensor(5), 3)


# ------------------------------------------------------------------------ Parameters, gradients


def test_a_parameter_is_a_variable_whatever_it_holds():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.p = Parameter(initializer("ones", [1], mstype.float32), name="p")
            self.assign = P.Assign()

        def construct(self, x):
            y = self.p * x
            update = self.assign(self.p, x * 3)
            x = F.depend(x, update)
            return y + self.p * x

    net = Net()
    # 1 x + (3 x) x with 3 x = 15 held by p: dx = 1 + 15, dp = x + x
    assert_same(GradNet(net)(Tensor([5.0])), ((f32([16]),), (f32([10]),)))
    assert_same(net.p, f32([15]))


def test_parameters_assigned_in_loops_and_arms():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.a = Parameter(Tensor([2.0]), name="a")
            self.b = Parameter(Tensor([3.0]), name="b")

        def construct(self, x):
            i = Tensor(0)
            while i < 3:
                self.b = self.a * x + self.b
                i = i + 1
            if x > 1:
                ops.assign_add(self.b, x)
            return self.b * x

    net = Net()
    held = 3 + 3 * 2 * 5 + 5  # by b when it is read
    assert_same(GradNet(net)(Tensor([5.0])), ((f32([held]),), (f32([0]), f32([5]))))
    assert_same(net.b, f32([held]))


def test_a_parameter_that_is_returned_in_one_arm():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.w = Parameter(Tensor([2.0, 3.0]), name="w")

        def construct(self, x):
            out = self.w
            while x > 0:
                out = out * x
                x = x - 2
            return out

    net = Net()
    assert_same(net(Tensor(3.0)), f32(6, 9))
    assert_same(net(Tensor(-3.0)), f32(2, 3))
    assert_same(GradNet(net)(Tensor(3.0)), ((f32(4 * 5),), (f32(3, 3),)))
    assert_same(GradNet(net)(Tensor(-3.0)), ((f32(0),), (f32(1, 1),)))


def test_gradients_of_every_kind():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.w = Parameter(Tensor([2.0]), name="w")

        def construct(self, x, y):
            if x > y:
                return x * y * self.w
            return x + self.w

    net, x, y = Net(), Tensor([3.0]), Tensor([2.0])
    w, sens = ParameterTuple(net.trainable_params()), Tensor([10.0])
    assert_same(GradOperation()(net)(x, y), f32([4]))
    assert_same(GradOperation(get_all=True)(net)(x, y), (f32([4]), f32([6])))
    assert_same(GradOperation(get_by_list=True)(net, w)(x, y), (f32([6]),))
    assert_same(GradOperation(sens_param=True)(net)(x, y, sens), f32([40]))
    assert_same(ms.grad(net, (0, 1), net.w)(y, x), ((f32([1]), f32([0])), f32([1])))
    value, found = ms.value_and_grad(net, None, net.trainable_params())(x, y)
    assert_same((value, found), (f32([12]), (f32([6]),)))
    second = ms.grad(ms.grad(lambda v: v * v * v))(x)
    assert_same(second, f32([18]))
    out, pull = ops.vjp(net, x, y)
    assert_same((out, pull(sens)), (f32([12]), (f32([40]), f32([60]))))
    assert_same(ms.ops.jvp(net, (x, y), (x, y))[1], f32([24]))


def test_a_cell_with_its_own_gradient_in_a_loop():
    class Double(nn.Cell):
        def construct(self, x):
            return x * 2

        def bprop(self, x, out, dout):
            return (dout * 3,)

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.double = Double()

        def construct(self, x, n):
            while n > 0:
                x = self.double(x)
                n = n - 1
            return P.Mul()(F.stop_gradient(x), x)

    grad = C.GradOperation(get_all=True)(Net())
    assert_same(grad(Tensor(1.0), Tensor(2)), (f32(4 * 9), np.array(0)))


def test_a_step_of_training_with_an_overflow_check():
    unscale = C.MultitypeFuncGraph("unscale")

    @unscale.register("Tensor", "Tensor")
    def divided(scale, grad):
        return grad * P.Reciprocal()(scale)

    class Train(nn.Cell):
        def __init__(self, net):
            super().__init__(auto_prefix=False)
            self.net = net
            self.net.set_grad()
            self.net.add_flags(defer_inline=True)
            self.weights = ParameterTuple(net.trainable_params())
            self.optimizer = nn.SGD(self.weights, 0.5)
            self.grad = C.GradOperation(get_by_list=True, sens_param=True)
            self.scale = Parameter(Tensor(8.0), name="scale", requires_grad=False)
            self.hyper_map = C.HyperMap()

        def construct(self, x):
            loss = self.net(x)
            sens = P.Fill()(P.DType()(loss), P.Shape()(loss), 1.0) * self.scale
            grads = self.hyper_map(
                F.partial(unscale, self.scale), self.grad(self.net, self.weights)(x, sens)
            )
            if P.IsNan()(loss).any():
                self.scale = self.scale / 2
            else:
                loss = F.depend(loss, self.optimizer(grads))
            return loss

    net = nn.Dense(2, 1, weight_init=Tensor([[1.0, 2.0]]), has_bias=False)
    train = Train(net)
    assert_same(train(Tensor([[1.0, 0.5]])), f32([[2]]))
    assert_same(net.weight, f32([[0.5, 1.75]]))
    train(Tensor([[np.nan, 0.5]]))
    assert_same((net.weight, train.scale), (f32([[0.5, 1.75]]), f32(4)))


@jit(backend="ms_backend", jit_level="O0", fullgraph=True)
def scattered(x, rows):
    zeros = P.ZerosLike()(x)
    for i, row in enumerate(rows):
        zeros[i] += P.ReduceSum(keep_dims=False)(row, 0)
    shape = P.Shape()(zeros)
    if len(shape) == 1 and shape[0] in (2, 3):
        zeros = P.TensorScatterUpdate()(zeros, Tensor([[0]]), P.ExpandDims()(zeros[1], 0))
    return P.Concat()((zeros, P.Cast()(x, mstype.float32))), P.Stack(axis=1)([x, zeros])


def test_classes_of_operations():
    x, rows = Tensor([1.0, 2.0]), (Tensor([1.0, 1.0]), Tensor([2.0, 3.0]))
    assert_same(scattered(x, rows), (f32(5, 5, 1, 2), f32([[1, 5], [2, 5]])))


@jit
def facts(x):
    return P.DType()(x), F.dtype(x), x.dtype, P.Shape()(x), P.Rank()(x), P.Size()(x)


def test_facts_are_returned():
    assert facts(Tensor([[1, 2]])) == (ms.int64, ms.int64, ms.int64, (1, 2), 2, 2)


class Averages(nn.Cell):
    """Returns what assign returns: the value of then."""

    def __init__(self):
        super().__init__()
        self.mean = Parameter(Tensor([0.0, 0.0]), name="mean")
        self.assign = P.Assign()

    def construct(self, x):
        return self.assign(self.mean, (self.mean + x) / 2)


def test_what_assign_returns_is_not_written_later():
    net = Averages()
    first = net(Tensor([2.0, 4.0]))
    second = net(Tensor([3.0, 0.0]))
    assert_same((first, second, net.mean), (f32(1, 2), f32(2, 1), f32(2, 1)))


def test_what_is_not_there_is_named():
    with pytest.raises(AttributeError, match="Conv2d"):
        nn.Conv2d(1, 2, 3)
    with pytest.raises(AttributeError, match="LSTM"):
        jit(lambda x: P.LSTM(1, 2)(x))(Tensor([1.0]))
    with pytest.raises(ImportError, match="'Model' from 'minispore.train'"):
        exec("from mindspore.train import Model")
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        exec("import mindspore.numpy")
