"""Gradients inside graphs: grad and its kin give the same by a tape, under jit and in GRAPH_MODE.

Jitted functions under a tape are here too: each is one entry, differentiable to any order.
"""

import numpy as np
import pytest
from differential import assert_result
from helpers import assert_same, vector

import minispore as ms
from minispore import Parameter, ParameterTuple, Tensor, nn, ops

X, Y = vector(), vector(4, 5, 6)


def outcome(run):
    try:
        return run()
    except Exception as error:
        return type(error), str(error)


def gradients_alike(make, *args, state=lambda *made: (), factor=10.0):
    """Assert that a gradient is the same by a tape, under jit and in GRAPH_MODE, twice.

    `make` makes the function that is called, and what its ``state`` is looked at afterwards.
    Returns what the tape gave.
    """
    results = []
    for mode, jitted in (
        (ms.PYNATIVE_MODE, False),
        (ms.PYNATIVE_MODE, True),
        (ms.GRAPH_MODE, False),
    ):
        made = make()
        function, *more = made if isinstance(made, tuple) else (made,)
        call = ms.jit(lambda *a, function=function: function(*a)) if jitted else function
        with ms.context.using(mode=mode):
            found = [outcome(lambda call=call: call(*args)) for _ in range(2)]
        results.append((found, [t.asnumpy() for t in state(*more)]))
        if jitted and not isinstance(found[0], tuple):
            assert call.compile_count == 1
    for found, left in results[1:]:
        for a, e in zip(found, results[0][0], strict=True):
            if isinstance(e, tuple) and e and isinstance(e[0], type):
                assert a == e
            else:
                assert_result(a, e, factor)
        assert_same(left, results[0][1], factor)
    return results[0][0][0]


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(vector(2, 3, 4), name="w")
        self.b = Parameter(vector(1, 1, 1), name="b")
        self.frozen = Parameter(vector(5, 5, 5), name="frozen", requires_grad=False)

    def construct(self, x):
        return ops.tanh(x * self.w + self.b) * self.frozen


def product(a, b):
    return a * b * b


def cube(a):
    return a**3


# ------------------------------------------------------------------------------- what is asked for


@pytest.mark.parametrize(
    ("position", "expected"),
    [(0, "a"), (1, "b"), ((0,), "a"), ((0, 1), "ab"), ((1, 0), "ba")],
)
def test_positions(position, expected):
    found = gradients_alike(lambda: ms.grad(product, position), X, Y)
    right = {"a": np.array([16, 25, 36]), "b": np.array([8, 20, 36])}
    found = found if isinstance(found, tuple) else (found,)
    for gradient, name in zip(found, expected, strict=True):
        assert_same(gradient, right[name].astype(np.float32))


def test_one_tensor_given_twice_has_partial_derivatives():
    a, b = gradients_alike(lambda: ms.grad(product, (0, 1)), X, X)
    assert_same(a, np.array([1, 4, 9], np.float32))  # b * b
    assert_same(b, np.array([2, 8, 18], np.float32))  # 2 a b
    assert_same(gradients_alike(lambda: ms.grad(product), X, X), a)
    captured = gradients_alike(lambda: ms.grad(lambda a: a * a * X), X)
    assert_same(captured, np.array([2, 8, 18], np.float32))  # the captured X is a constant


@pytest.mark.parametrize(
    "make",
    [
        lambda net: ms.grad(net, 0, net.trainable_params()),
        lambda net: ms.grad(net, None, net.trainable_params()),
        lambda net: ms.value_and_grad(net, None, net.w),
        lambda net: ms.value_and_grad(net, 0, [net.frozen, net.b]),
        lambda net: ms.value_and_grad(net, (0,), ParameterTuple([net.w, net.w])),
        lambda net: ms.value_and_grad(net, 0, [Parameter(vector(), name="unused"), net.w]),
        lambda net: ms.grad(net, (0,), [net.w, net.b], return_ids=True),
        lambda net: ops.GradOperation()(net),
        lambda net: ops.GradOperation(get_by_list=True)(net),
        lambda net: ops.GradOperation(get_by_list=True)(net, ParameterTuple([net.w])),
        lambda net: ops.GradOperation(get_all=True, get_by_list=True)(net),
        lambda net: ops.GradOperation()(ops.GradOperation()(net)),
        lambda net: lambda x: ops.GradOperation(get_by_list=True)(net)(x),
        lambda net: lambda x: ms.get_grad(ms.grad(net, 0, [net.w], return_ids=True)(x), net.w),
        lambda net: lambda x: ms.grad(net, None, net.trainable_params())(x),
    ],
)
def test_weights(make):
    net = Net()
    gradients_alike(lambda: make(net), X)


@pytest.mark.parametrize(
    ("function", "options", "args"),
    [
        (lambda a: (a * a, a + 1, a * 3), {"has_aux": True}, (X,)),
        (lambda a: (a * a, a + 1, [a * 3, {"k": 2}]), {"has_aux": True}, (X,)),
        (lambda a: (a * a, a * 3), {}, (X,)),
        (lambda a: {"p": a * a, "q": (a * 3, 2, None)}, {}, (X,)),
        (lambda a: a * a, {"sens_param": True}, (X, Y)),
        (lambda a: (a * a, a * 3), {"sens_param": True}, (X, (Y, X))),
        (lambda a, b: a * b, {"grad_position": (0, 1)}, (X, Tensor([1, 2, 3]))),
        (lambda a: a * a, {}, (Tensor([1, 2, 3]),)),
        (lambda a, b: a * 1, {"grad_position": (0, 1)}, (X, Y)),
        (lambda a, b: a * b, {"grad_position": (0, 1)}, (X, 3.0)),
        (lambda a, b: a * b, {"grad_position": 1}, (X, 3.0)),
        (lambda a: a[0] * 2, {}, ([X],)),
        (lambda a: None, {}, (X,)),
        (lambda a: a.astype(ms.int32), {}, (X,)),
        (lambda a: (a * a).astype(ms.float32), {}, (X.astype(ms.float16),)),
        (lambda a: ops.stop_gradient(a * a) * a, {}, (X,)),
        (lambda a: a, {}, (X,)),
        (lambda a: Y, {}, (X,)),
        (lambda a: a * a.sum().item(), {}, (X,)),
        (lambda a: a * a if a.sum() > 3 else a * 5, {}, (X,)),
        (lambda a: a, {"grad_position": 2}, (X,)),
        (lambda a: a, {"has_aux": True}, (X,)),
        (lambda a: a * a, {"sens_param": True}, (X, Tensor([1.0]))),
    ],
)
def test_values_of_every_kind(function, options, args):
    gradients_alike(lambda: ms.grad(function, **options), *args)
    gradients_alike(lambda: ms.value_and_grad(function, **options), *args)


@pytest.mark.parametrize(
    "options", [{}, {"get_all": True}, {"sens_param": True}, {"get_all": True, "sens_param": True}]
)
def test_grad_operation(options):
    sens = (vector(1, 0, 2),) if "sens_param" in options else ()
    gradients_alike(lambda: ops.GradOperation(**options)(product), X, Y, *sens)
    gradients_alike(lambda: ops.GradOperation(**options)(Net()), X, *sens)


def test_keywords():
    gradients_alike(lambda: lambda a, b: ms.grad(product, (0, 1))(a, b=b), X, Y)
    gradients_alike(lambda: lambda a, b: ms.grad(product, 1)(b=b, a=a), X, Y)
    gradients_alike(lambda: lambda a, b: ms.grad(product, sens_param=True)(a, b, sens=Y), X, Y)


def test_parameters_as_arguments():
    net = Net()
    gradients_alike(lambda: ms.grad(lambda a: a * a), net.w)
    gradients_alike(lambda: ms.grad(lambda a: a * net.w, 0, net.w), net.w)
    gradients_alike(lambda: ms.grad(lambda a: a * a), net.frozen)
    gradients_alike(lambda: ms.grad(lambda a, b: a * b * net.w, 0, net.w), X, net.w)


# ------------------------------------------------------------------------------- higher orders


def powers(a):
    i = 0
    while a.sum() < 100:
        a = a * a
        i = i + 1
    return a * i


def branches(a):
    for _ in range(3):
        a = a * a if a.sum() > 3 else a * 5
    return a


@pytest.mark.parametrize("function", [cube, ops.sin, powers, branches, Net()])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_order(function, order):
    def make():
        gradient = function
        for _ in range(order):
            gradient = ms.grad(gradient)
        return gradient

    gradients_alike(make, vector(1.5, 0.5, 1), factor=100.0)


@pytest.mark.parametrize("function", [cube, powers, branches, Net()])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_jitted_functions_under_a_tape(function, order):
    def make(jitted):
        gradient = ms.jit(function) if jitted else function
        for _ in range(order):
            gradient = ms.grad(gradient)
        return gradient

    x = vector(1.5, 0.5, 1)
    assert_same(make(True)(x), make(False)(x), 100.0)
    gradients_alike(lambda: make(True), x, factor=100.0)


def test_gradients_of_gradients_of_several_variables():
    inner = lambda u, v: u * u * v * v  # noqa: E731
    gradients_alike(lambda: ms.grad(lambda a, b: ms.grad(inner, (0, 1))(a, b), (0, 1)), X, Y)
    gradients_alike(lambda: ms.grad(lambda a: ms.grad(lambda u: u * u * a)(a)), X)
    gradients_alike(lambda: ms.grad(lambda a: ms.grad(lambda u, v: u * v)(a, a)), X)
    net = Net()
    gradients_alike(lambda: ms.grad(lambda a: ms.grad(net, None, [net.w])(a)), X)
    gradients_alike(lambda: ms.grad(ms.grad(net, None, net.w), None, net.b), X)


def test_a_gradient_that_is_jitted_can_be_differentiated():
    second = ms.grad(ms.jit(ms.grad(cube)))
    assert_same(second(X), np.array([6, 12, 18], np.float32))


# ------------------------------------------------------------------------------- under a tape


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a,
        lambda a, b: (a, a * 2, {"k": a * b}),
        lambda a, b: Y,
        lambda a, b: (a * b, a.sum().item() * 2.0),
        lambda a, b: (a * b, 3, "text", None),
        lambda a, b: a * Tensor([1, 2, 3]) + b,
        lambda a, b: a.astype(ms.float16),
        lambda a, b: ops.stop_gradient(a) * b,
    ],
)
def test_results_of_every_kind_under_a_tape(function):
    gradients_alike(lambda: ms.grad(ms.jit(function), (0, 1)), X, Y)
    gradients_alike(lambda: ms.grad(lambda a, b: ms.jit(function)(a * b, b), (0, 1)), X, Y)
    assert_result(ms.grad(ms.jit(function), (0, 1))(X, Y), ms.grad(function, (0, 1))(X, Y), 10.0)
    for args in ((X, X), (X, Tensor([1, 2, 3]))):
        a, e = (ms.grad(f, (0, 1))(*args) for f in (ms.jit(function), function))
        assert_result(a, e, 10.0)


def test_jitted_weights_and_captured_tensors():
    net = Net()
    jitted = ms.jit(lambda a: net(a) * a)
    plain = lambda a: net(a) * a  # noqa: E731
    for weights in (None, net.trainable_params()):
        assert_result(ms.grad(jitted, 0, weights)(X), ms.grad(plain, 0, weights)(X), 10.0)
    z = vector(1, 1, 1)
    captured = ms.jit(lambda a: a * z)

    def outer(z_):
        nonlocal z
        z = z_ * z_
        return captured(X)

    assert_same(ms.grad(outer)(Y), np.array([8, 20, 36], np.float32))


def test_writes_of_jitted_functions_are_seen_by_the_tape():
    @ms.jit
    def square_in_place(a):
        a *= a  # rebinds: a Tensor, not a Parameter
        return a

    @ms.jit
    def double_in_place(a):
        a.mul_(2)

    def function(a):
        b = a * 1
        double_in_place(b)
        return square_in_place(b)

    assert_same(ms.grad(function)(X), np.array([8, 16, 24], np.float32))
    p = Parameter(vector(), name="p")

    @ms.jit
    def store(a):
        ops.assign(p, a * a)

    def through_a_parameter(a):
        store(a)
        return p * 1

    assert_same(ms.grad(through_a_parameter)(X), np.zeros(3, np.float32))
    assert_same(ms.grad(through_a_parameter, None, p)(X), np.ones(3, np.float32))


def test_a_jitted_function_prints_once_under_a_tape(capsys):
    @ms.jit
    def f(a):
        print("a is", a)
        return a * a

    ms.grad(ms.grad(f))(X)
    assert capsys.readouterr().out == f"a is {X}\n"


# ------------------------------------------------------------------------------- effects, state


class Counting(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(vector(2, 2, 2), name="w")
        self.n = Parameter(Tensor(0.0), name="n", requires_grad=False)
        self.last = vector()

    def construct(self, a):
        self.n += 1
        self.last = a * self.n
        return a * self.w * self.n


def count_states(net):
    return net.w, net.n, net.last


def of_counting(make):
    def made():
        net = Counting()
        return make(net), net

    return made


def test_a_cell_with_state_under_grad():
    for make in (
        lambda net: ms.value_and_grad(net, 0, [net.w]),
        lambda net: ms.value_and_grad(ms.jit(net), 0, [net.w]),
        lambda net: ms.grad(ms.grad(net)),
        lambda net: lambda a: (net(a), ms.grad(net, None, net.w)(a), net(a)),
    ):
        gradients_alike(of_counting(make), X, state=count_states)


def test_weights_written_under_grad():
    def overwrites(net):
        def function(a):
            ops.assign(net.w, a * 2)
            return net.w * net.w

        return ms.value_and_grad(function, 0, [net.w])

    def reads_and_writes(net):
        def function(a):
            before = net.w * a
            net.w += 1
            return before * net.w

        return ms.value_and_grad(function, 0, [net.w])

    def written_before(net):
        def function(a):
            net.w *= 2
            found = ms.grad(lambda v: v * net.w * net.w, 0, net.w)(a)
            net.w -= found[1]
            return found

        return function

    def takes_another_s_value(net):
        h = vector(4, 5, 6)

        def function(a):
            before = net.w * a  # at the second call w has the value of h, and is not h
            ops.assign(net.w, h)
            return before + net.w * a + h

        return ms.value_and_grad(function, 0, [net.w])

    for make in (overwrites, reads_and_writes, written_before, takes_another_s_value):
        gradients_alike(of_counting(make), X, state=count_states)


def test_a_weight_that_is_returned():
    def of_the_weight(net):
        return ms.value_and_grad(lambda a: net.w, 0, [net.w])

    def of_one_of_two(net):
        return ms.value_and_grad(lambda a: net.w if a[0] > 0 else net.w * a, 0, [net.w])

    def after_a_loop(net):
        def function(a, n):
            out = net.w
            while n > 0:
                out, n = out * a, n - 1
            return out

        return ms.value_and_grad(function, 0, [net.w])

    for make in (of_the_weight, of_one_of_two):
        for x in (X, -X):
            gradients_alike(of_counting(make), x, state=count_states)
    for n in (0, 2):
        gradients_alike(of_counting(after_a_loop), X, Tensor(n), state=count_states)


def test_gradients_of_integers():
    """In integers on the way through integers: in loops, arms, calls, recursion and bprops."""

    class Twice(nn.Cell):
        def construct(self, n, x):
            return n * 2, n * x

        def bprop(self, n, x, out, dout):
            return dout[0] * 5, dout[1] * n

    twice, weight = Twice(), Parameter(Tensor([2, 3]), name="w")

    def power(n, k):
        return n if k == 0 else n * power(n, k - 1)

    def polynomial(n, x):
        while n < 40:
            n = n * n + 1 if n > 3 else n * 3
        return n * x, n // 2

    def calls(n, x):
        m, y = twice(n, x)
        return m * power(m, Tensor(2)) + power(n, Tensor(1)), y * weight

    def squared(n):
        return n * n * n

    def by_weight(n):
        return ms.grad(lambda v: v * weight * weight, 0, weight)(n)

    def cubed(n):
        return (ms.grad(ms.grad(squared))(n), ms.grad(ms.jit(squared))(n))

    n, x = Tensor(2), Tensor([1.5, 2.5])
    gradients_alike(lambda: ms.grad(polynomial, (0, 1)), n, x)
    gradients_alike(lambda: ms.grad(ms.jit(polynomial), (0, 1)), n, x)
    gradients_alike(lambda: ms.grad(calls, (0, 1)), n, x)
    by_both = gradients_alike(lambda: by_weight, n)
    assert_same(by_both, (np.array(13), np.array([8, 12])))
    assert_same(gradients_alike(lambda: cubed, n), (np.array(12), np.array(12)))


def test_printing_under_grad(capsys):
    def inner(a):
        print("inside", a)
        return a * a

    def function(a):
        print("before")
        found = ms.grad(inner)(a)
        print("after", found)
        return found

    texts = []
    for call in (function, ms.jit(function)):
        call(X)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != ""
    ms.jit(lambda a: ms.grad(ms.grad(inner))(a))(X)
    assert capsys.readouterr().out == f"inside {X}\n"


def test_copies_and_captured_tensors_may_be_written_under_grad():
    def of_copy(a):
        b = a * 1
        b[0] = 5.0
        b.add_(1)
        return a * b

    gradients_alike(lambda: ms.grad(of_copy), X)

    def make():
        z = vector(4, 5, 6)

        def function(a):
            z[0] = 7.0
            z.mul_(2)
            return a * z

        return ms.grad(function), z

    gradients_alike(make, X, state=lambda z: (z,))


# ------------------------------------------------------------------------------- bprop of Cells


class Tenfold(nn.Cell):
    """a ** 3 with a made-up gradient, which gives itself away at every order."""

    def construct(self, a):
        return a * a * a

    def bprop(self, a, out, dout):
        return (dout * a * a * 10,)


class WithWeight(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(vector(2, 2, 2), name="w")

    def construct(self, a):
        return a * self.w

    def bprop(self, a, out, dout):
        return (dout * self.w * 5,)


class TwoOutputs(nn.Cell):
    def construct(self, a, b):
        return a * b, a + b

    def bprop(self, a, b, out, dout):
        return dout[0] * b * 2 + dout[1], out[0] * dout[0]


class TooFew(nn.Cell):
    def construct(self, a, b):
        return a * b

    def bprop(self, a, b, out, dout):
        return (dout,)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("jitted", [False, True])
def test_a_cell_s_own_gradient_at_every_order(order, jitted):
    def make():
        gradient = ms.jit(Tenfold()) if jitted else Tenfold()
        for _ in range(order):
            gradient = ms.grad(gradient)
        return gradient

    found = gradients_alike(make, X)
    right = {1: [10, 40, 90], 2: [20, 40, 60], 3: [20, 20, 20]}[order]
    assert_same(found, np.array(right, np.float32))


def test_a_cell_s_own_gradient_inside_a_function():
    net, two, weighted = Tenfold(), TwoOutputs(), WithWeight()
    gradients_alike(lambda: ms.grad(ms.grad(lambda a: net(a * 2) * a)), X)
    gradients_alike(lambda: ms.grad(two, (0, 1)), X, Y)
    gradients_alike(lambda: ms.grad(lambda a, b: two(a, b)[0] * a, (0, 1)), X, Y)
    gradients_alike(lambda: ms.grad(weighted, 0, [weighted.w]), X)
    error, text = gradients_alike(lambda: ms.grad(TooFew(), (0, 1)), X, Y)
    assert error is RuntimeError
    assert "1 gradient(s) for 2 input(s)" in text


# ------------------------------------------------------------------------------- residuals


@pytest.fixture
def tanhs(monkeypatch):
    """How often tanh was computed so far."""
    counts, evaluate = [], ops.Tanh.eval

    def counted(self, x):
        counts.append(1)
        return evaluate(self, x)

    monkeypatch.setattr(ops.Tanh, "eval", counted)
    return counts


def test_the_backward_pass_of_a_jitted_function_does_not_run_it_again(tanhs):
    def plain(a, w):
        return ops.tanh(a * w) * w, ops.tanh(a) + 1

    f = ms.jit(plain, jit_level="O0")  # so that tanh is NumPy's
    f(X, Y)
    assert len(tanhs) == 2
    del tanhs[:]
    both = ms.grad(f, (0, 1))
    first = ms.grad(lambda a, w: f(a, w)[0], (0, 1))
    for _ in range(2):
        assert_result(both(X, Y), ms.grad(plain, (0, 1))(X, Y), 10.0)
    assert len(tanhs) == 2 * (2 + 2)
    del tanhs[:]
    for times in (3, 2, 2):  # the first call expects that both results are differentiated
        first(X, Y)
        assert len(tanhs) == times
        del tanhs[:]
    ms.grad(lambda a: f(X, Y)[0] * a)(X)  # a tape that does not follow the inputs
    assert len(tanhs) == 2


def test_results_without_a_cotangent_spoil_no_gradient():
    zero = vector(0, 0, 0)
    jitted = ms.jit(lambda a: (a * 2, ops.sqrt(a)))
    for _ in range(2):
        assert_same(ms.grad(lambda a: jitted(a)[0])(zero), np.full(3, 2, np.float32))


class HandedThrough(nn.Cell):
    """x itself, with another gradient."""

    def construct(self, x):
        return x

    def bprop(self, x, out, dout):
        return (dout * 10,)


def recursive(a):
    return a if a.sum() > 100 else recursive(a * a + 1) * a


@pytest.mark.parametrize(
    "function",
    [
        lambda a: ops.stop_gradient(a) * a * a + a * ops.stop_gradient(a * a),
        lambda a: HANDED(a) * HANDED(a) * a,
        lambda a: (ops.exp(a), a, ops.exp(a) * a),
        lambda a: NESTED(a, a * a)[0] * a,
        recursive,
    ],
)
def test_what_is_kept_has_gradients_too(function):
    """Residuals that are inputs or results, through Cells with a gradient of their own, ..."""
    plain, jitted = function, ms.jit(function)
    for _ in range(3):
        plain, jitted = ms.grad(plain), ms.grad(jitted)
        assert_result(jitted(X), plain(X), 100.0)


HANDED, NESTED = HandedThrough(), TwoOutputs()


def writes_in_a_loop(a, n):
    i = n * 0
    while i < n:
        a[i] = a[i] * a[i + 1]
        if a[i] > 3:
            a[2] = a[2] + a[i]
        i = i + 1
    return (a * a).sum()


def gradient_then_use(a):
    g = ms.grad(writes_in_a_loop)(a, Tensor(2))
    return (g * a).sum()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ms.grad(lambda a: writes_in_a_loop(a, Tensor(2))),
        lambda: gradient_then_use,
        lambda: ms.grad(gradient_then_use),
        lambda: ms.grad(lambda a: ms.jit(writes_in_a_loop)(a, Tensor(2))),
    ],
)
def test_arguments_that_are_written(make):
    """They are differentiated by what they were at first, and written for the caller."""
    x = vector(1.1, 2, 3)
    start = x.copy()

    def call():
        ops.assign(x, start)
        return make()(x), x

    results = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with ms.context.using(mode=mode):
            results.append(call())
    ops.assign(x, start)
    results.append((ms.jit(make())(x), x))
    for found in results[1:]:
        assert_result(found, results[0], 10.0)


def test_the_gradient_by_an_argument_that_is_written_is_right():
    def f(a):
        a[0] = a[0] * 3
        a[1] = a[0] * a[1]
        return 2 * a.sum()

    x = vector(2, 5)
    assert_same(ms.jit(ms.grad(f))(x), np.array([36, 12], np.float32))
    assert_same(x, np.array([6, 30], np.float32))


def test_an_argument_with_another_name_is_not_written():
    def write(a):
        a[0] = 5.0
        return a * a

    for f in (lambda a, b: write(a) * b, lambda a, b: write(b) * a, lambda a, b: write(a) * X):
        with pytest.raises(RuntimeError, match="written in place; copy it first"):
            ms.jit(ms.grad(f))(X, X)


def test_what_assign_add_returns_is_the_sum_for_gradients():
    net = Net()

    def returned(a):
        return ops.assign_add(net.w, a) * a

    def read(a):
        ops.assign_sub(net.w, a)
        return net.w * a

    for f, by_a, by_w in ((returned, 2 * X + net.w, X), (read, net.w + 0, X)):
        for run in (
            lambda f=f: ms.grad(f, 0, net.w)(X),
            lambda f=f: ms.jit(ms.grad(f, 0, net.w))(X),
        ):
            before = net.w.copy()
            found = run()
            assert_same(found, (by_a if f is returned else before - X, by_w))
            net.w.set_data(before)
