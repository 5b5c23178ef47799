"""Functions of functions, marks for the compiler, hooks on gradients, Cells around networks."""

import numpy as np
import pytest
from differential import agree, refuses
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore import dtype as mstype
from minispore.nn.hooks import HookBackward, InsertGradientOf

X, Y = Tensor([1.0, 2.0]), Tensor([3.0, 5.0])

# ---------------------------------------------------------------------- functions of functions

combine = ops.MultitypeFuncGraph("combine")


@combine.register("Tensor", "Tensor")
def _(x, y):
    if (x > y).all():
        return x - y
    return x + y


@combine.register("Tensor", "Number")
def _(x, k):
    return x * k


@combine.register("Number", "Number")
def _(k, m):
    return k + 10 * m


def test_a_function_of_several_is_chosen_by_types():
    def program(x, y):
        return combine(x, y), combine(y, x), combine(x, 3), combine(1, 2)

    found = agree(program, X, Y)
    assert_same(found[:3], (np.array([4, 7], np.float32), np.array([2, 3], np.float32), 3 * X))
    assert found[3] == 21
    for run in (lambda x: combine(x, "a"), ms.jit(lambda x: combine(x, "a"))):
        with pytest.raises(ValueError, match=r"combine has no function for \(Tensor, str\)"):
            run(X)
    with pytest.raises(ValueError, match="'Thing' is no type of combine"):
        combine.register("Thing")


def test_kinds_of_arguments():
    kind = ops.MultitypeFuncGraph("kind")
    names = (
        "Tuple", "List", "Dictionary", "String", "None", "Slice", "Ellipsis", "Bool", "int32",
        mstype.float32, mstype.tensor_type, mstype.function,
    )  # fmt: skip
    for i, name in enumerate(names):
        kind.register(name)(lambda x, i=i: i)

    def program(x):
        given = ((x,), [x], {}, "a", None, slice(1), ..., True, 3, 2.5, x, program)
        return [kind(v) for v in given]

    assert agree(program, X) == list(range(12))
    assert str(mstype.tensor_type) == "Tensor" and repr(mstype.number) == "minispore.number"


def test_calls_on_slices():
    def scaled(x, y, k=2):
        return (x * y).sum() * k, [x, y]

    rows = Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def program(a, b):
        whole = ms.vmap(scaled, (0, None), (0, [None, 1]))(a, b)
        columns = ops.vmap(lambda x: x + 1, in_axes=1, out_axes=1)(a)
        pairs = ops.vmap(lambda t, c: t[0] * c + t[1], ((0, None), None))((a, b), 2)
        twice = ops.vmap(ops.vmap(lambda x, y: x * y), (None, 0))(b, a)
        return whole, columns, pairs, twice

    whole, columns, pairs, twice = agree(program, rows, X)
    r, x = rows.asnumpy(), X.asnumpy()
    assert_same(whole, (2 * r @ x, (r[0], np.stack([x] * 3, 1))))
    assert_same((columns, pairs, twice), (r + 1, 2 * r + x, r * x))
    by = ms.jit(ms.grad(lambda a: ops.vmap(lambda row: (row * row).sum())(a)))(rows)
    assert_same(by, 2 * r)
    for axes, match in (
        (None, "must have one size"),
        ((0, 1, 0), "3 axes for 2"),
        (0, r"\[3, 2\]"),
    ):
        with pytest.raises(ValueError, match=match):
            ops.vmap(scaled, axes)(rows, X)


def test_a_primitive_that_says_shapes():
    class Doubled(ops.PrimitiveWithInfer):
        @ops.prim_attr_register
        def __init__(self, k, axis=0):
            self.init_prim_io_names(["x"], ["y"])
            self.add_prim_attr("more", 1)

        def infer_shape(self, shape):
            return (2 * shape[0],)

        def infer_dtype(self, dtype):
            return dtype

        def eval(self, x):
            return np.concatenate([x, x * self.k])

    double = Doubled(3)
    assert (double.k, double.axis, double.more) == (3, 0, 1)
    assert_same(agree(lambda x: double(x), X), np.array([1, 2, 3, 6], np.float32))


def test_maps():
    every, one_level = ops.HyperMap(combine), ops.Map(combine)

    def program(x, y):
        nested = every((x, [y, 2]), (y, (x, 3)))
        bound = ops.HyperMap()(ops.partial(combine, x), [x, y])
        return nested, bound, one_level((x, y), 2), ops.Map()(ops.square, (x, y)), every(x, y)

    found = agree(program, X, Y)
    assert_same(found[0][0], X + Y)
    assert found[0][1][1] == 32 and type(found[0][1]) is list
    assert_same(found[1], [X + X, X + Y])
    assert_same(found[2], (2 * X, 2 * Y))
    assert_same(found[3], (X * X, Y * Y))
    with pytest.raises(ValueError, match="2 and 1 items"):
        every((X, X), (Y,))
    clipped = ops.HyperMap()(ops.partial(ops.clip_by_norm, max_norm=1.0), (Y,))
    assert_same(clipped, (Y / 34**0.5,), 10)
    assert_same(ops.Partial()(ops.sub, X)(Y), X - Y)


# ----------------------------------------------------------------------- marks for the compiler


@ops.constexpr
def half(shape):
    return tuple(n // 2 for n in shape)


@ops.constexpr(check=False)
def doubled(n):
    return 2 * n


@ms.no_inline
def product(x, y):
    return x * y


@ms.jit_class
class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


class Late(nn.Cell):
    @ms.lazy_inline
    def __init__(self):
        super().__init__(flags={"early": False})

    def construct(self, x):
        return x + 1 if self.early else x + 2


def test_marks_change_nothing():
    cell = Late()

    def program(x):
        shaped = ops.reshape(product(x, x), (*half((2, 4)), doubled(1) - 1))
        return shaped, Scaled(3)(x), cell(x)

    found = agree(program, X)
    assert found[0].shape == (1, 2, 1)
    assert_same(found[1:], (3 * X, X + 2))
    for wrong in (3, Late):
        with pytest.raises(TypeError, match="jit_class"):
            ms.jit_class(wrong)


def test_settings_of_a_cell():
    cell = nn.SequentialCell(Late(), Late())
    cell.add_flags_recursive(early=True)
    assert cell[1].early and cell[1].get_flags() == {"early": True}
    assert cell.add_flags(a=1) is cell and cell.get_flags() == {"early": True, "a": 1}
    cell.recompute(mp_comm_recompute=True)
    cell.set_jit_config(ms.JitConfig("O1", jit_syntax_level="STRICT", fullgraph=True))
    assert cell.cls_name == "SequentialCell"
    assert_same(cell(X), X + 2)
    assert ms.JitConfig().jit_config_dict["exc_mode"] == "auto"
    with pytest.raises(ValueError, match="jit_level must be one of"):
        ms.JitConfig("O5")
    with pytest.raises(TypeError, match="takes a JitConfig"):
        cell.set_jit_config({"jit_level": "O1"})


# ------------------------------------------------------------------------------ hooks on gradients


def tripled(g):
    return g * 3 if (g > 0).all() else g


def test_a_function_on_the_way_of_a_gradient():
    triple, keep = InsertGradientOf(tripled), ops.InsertGradientOf(lambda g: None)
    hook = HookBackward(lambda grads: (grads[0] * 10,))

    def program(x, y):
        return keep(hook(triple(x * y) * y)) * x

    for run in (program, ms.jit(program)):
        dx, dy = ms.grad(run, (0, 1))(X, Y)
        assert_same(dx, (X * Y * Y) + 30 * X * Y * Y)
        assert_same(dy, 10 * X * X * Y + 30 * X * X * Y)
    agree(program, X, Y)
    with pytest.raises(TypeError, match="takes a function"):
        ops.HookBackward(3)


def test_hooks_of_tensors():
    def program(x, y):
        z = x * y
        z.register_hook(tripled)
        if (x > 0).all():
            y.sum().register_hook(lambda g: None)
            z.register_hook(hook_fn=lambda g: g + 1)
        return z * y

    for x in (X, -X):
        expected = ms.grad(
            lambda x, y, more=x[0] > 0: ops.InsertGradientOf(
                lambda g: tripled(g + 1 if more else g)
            )(x * y) * y,
            (0, 1),
        )(x, Y)  # fmt: skip
        for run in (ms.grad(program, (0, 1)), ms.jit(ms.grad(program, (0, 1)))):
            assert_same(run(x, Y), expected)
    with pytest.raises(RuntimeError, match="while nothing is differentiated"):
        X.register_hook(tripled)


def test_backward_hooks_of_a_cell():
    seen = []

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.inner = nn.ReLU()

        def construct(self, x):
            return self.inner(x * 2) * 5

    def watch(cell, grad_inputs, grad_outputs):
        seen.append((cell, grad_inputs, grad_outputs))

    net = Net()
    gradient = ms.grad(net)
    first = net.inner.register_backward_hook(watch)
    assert_same(gradient(X), 10 * ops.ones_like(X))
    ((cell, inputs, outputs),) = seen
    assert cell is net.inner
    assert_same((inputs, outputs), ((5 * ops.ones_like(X),), (5 * ops.ones_like(X),)))
    first.remove()
    second = net.inner.register_backward_hook(lambda cell, inputs, outputs: inputs[0] * 2)
    third = net.inner.register_backward_pre_hook(lambda cell, outputs: (outputs[0] - 1,))
    assert_same(gradient(X), 16 * ops.ones_like(X))
    assert_same(net(X), 10 * X)  # no tape, no hook
    refuses(lambda x: net(x), X, error=RuntimeError, match="backward hooks of ReLU are called in")
    second.remove()
    third.remove()
    assert_same(ms.grad(ms.jit(lambda x: net(x)))(X), 10 * ops.ones_like(X))


# ---------------------------------------------------------------------------- around a network


def network():
    net = nn.Dense(2, 1, weight_init=Tensor([[0.5, -1.0]]), bias_init="zeros")
    return net, nn.WithLossCell(net, nn.MSELoss())


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_one_step_of_training(mode):
    x, y = np.array([[1.0, 2.0]], np.float32), np.array([[1.0]], np.float32)
    error = x @ np.array([[0.5], [-1.0]], np.float32) - y
    gradient = 2 * error * x
    with ms.context.using(mode=mode):
        for sens, scale in ((None, 1), (3.0, 3)):
            net, with_loss = network()
            assert with_loss.backbone_network is net
            step = nn.TrainOneStepCell(with_loss, nn.SGD(net.trainable_params(), 0.1), sens)
            assert_same(step(Tensor(x), Tensor(y)), (error**2).sum())
            assert_same(net.weight, np.array([[0.5, -1.0]], np.float32) - 0.1 * scale * gradient)
        net, with_loss = network()
        step = nn.TrainOneStepCell(with_loss, nn.SGD(net.trainable_params(), 0.1), return_grad=True)
        loss, grads = step(Tensor(x), Tensor(y))
        assert_same((loss, grads["weight"]), ((error**2).sum(), gradient))
        outputs = nn.WithEvalCell(net, nn.MSELoss(), True)(Tensor(x, ms.float16), Tensor([[1]]))
        assert [t.dtype for t in outputs] == [ms.float32] * 3


def test_a_network_and_its_gradients():
    net, _ = network()
    x = Tensor([[1.0, 2.0]])
    weight, bias = net.weight.value(), Tensor([1.0])
    for options, extra, expected in (
        ({}, (), weight),
        ({"get_all": True}, (), (weight,)),
        ({"sens_param": True}, (Tensor([[3.0]]),), weight * 3),
        ({"get_by_list": True, "weights": net.trainable_params()}, (), (x, bias)),
        ({"get_all": True, "get_by_list": True, "weights": net.trainable_params()}, (),
         ((weight,), (x, bias))),
    ):  # fmt: skip
        cell = nn.ForwardValueAndGrad(net, **options)
        for run in (cell, ms.jit(lambda *args, cell=cell: cell(*args))):
            value, found = run(x, *extra)
            assert_same(value, Tensor([[-1.5]]))
            flat = [t for part in (found if isinstance(found, tuple) else (found,))
                    for t in (part if isinstance(part, tuple) else (part,))]  # fmt: skip
            wanted = [t for part in (expected if isinstance(expected, tuple) else (expected,))
                      for t in (part if isinstance(part, tuple) else (part,))]  # fmt: skip
            assert_same(flat, wanted)
    with pytest.raises(TypeError, match="needs weights"):
        nn.ForwardValueAndGrad(net, get_by_list=True)


def test_losses_and_activations():
    x, y = Tensor([[1.0, -2.0, 0.5]]), Tensor([[0.0, 1.0, 0.0]])
    cases = (
        (nn.SmoothL1Loss(0.5), (x, y), ops.smooth_l1_loss(x, y, 0.5)),
        (nn.SoftmaxCrossEntropyWithLogits(), (x, y), ops.cross_entropy(x, y, reduction="none")),
        (nn.SoftmaxCrossEntropyWithLogits(True, "mean"), (x, Tensor([1])), ops.cross_entropy(x, y)),
        (nn.ReLU6(), (4 * x,), ops.relu6(4 * x)),
        (nn.HSigmoid(), (x,), ops.hardsigmoid(x)),
        (nn.HSwish(), (x,), ops.hardswish(x)),
        (nn.Mish(), (x,), ops.mish(x)),
        (nn.Softsign(), (x,), ops.softsign(x)),
        (nn.LogSigmoid(), (x,), ops.logsigmoid(x)),
    )
    for cell, inputs, expected in cases:
        assert_same(agree(lambda *a, cell=cell: cell(*a), *inputs), expected)
    for sparse, labels in ((True, y), (False, Tensor([1]))):
        with pytest.raises(TypeError, match=f"with sparse={sparse}"):
            nn.SoftmaxCrossEntropyWithLogits(sparse)(x, labels)


def test_writes_of_parts_in_graphs():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.p = Parameter(ops.zeros((3, 2)), name="p")
            self.update = ops.ScatterUpdate()

        def construct(self, i, x):
            before = self.update(self.p, i, x) * 1
            if x[0, 0] > 0:
                ops.scatter_add(self.p, i, x)
            return before + self.p

    net = Net()
    agree(net.construct, Tensor([0, 2]), Tensor([[1.0, 2.0], [3.0, 4.0]]), state=[net.p])


def test_settings_for_speed_and_devices_are_kept():
    with ms.context.using(jit_level="", device_id=0, max_call_depth=1000):
        ms.set_context(jit_level="O0", pynative_synchronize=True)
        ms.set_device("CPU", 2)
        ms.set_recursion_limit(50)
        keys = ("jit_level", "device_id", "max_call_depth")
        assert [ms.get_context(k) for k in keys] == ["O0", 2, 50]
    ms.set_context(pynative_synchronize=None, jit_syntax_level=ms.STRICT)
    with pytest.raises(ValueError, match="device_target must be 'CPU', not 'GPU'"):
        ms.set_device("GPU")
    with pytest.raises(ValueError, match="no key 'nothing'"):
        ms.set_context(nothing=1)
