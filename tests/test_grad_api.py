"""grad, value_and_grad, GradOperation, vjp, jvp, jacrev, jacfwd: structures, values, errors.

Expected structures and values are those of MindSpore 2.10 for the same calls, except where a
comment says so.
"""

import numpy as np
import pytest
from helpers import assert_same

from minispore import context, ops
from minispore import dtype as dt
from minispore.autodiff import api
from minispore.autodiff.api import GradFunction, GradOperation, get_grad, grad, value_and_grad
from minispore.autodiff.jacobian import jacfwd, jacrev, jvp, vjp
from minispore.nn.cell import Cell
from minispore.parameter import Parameter, ParameterTuple
from minispore.primitive import handled_by
from minispore.symbolic import GraphBuilder
from minispore.tensor import Tensor

X, Y = Tensor(2.0), Tensor(3.0)
V, U = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])


def plain(value):
    """A result with Tensors as Python numbers or lists: structure and values at a glance."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return type(value)(plain(v) for v in value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


@pytest.fixture
def weights():
    return Parameter(Tensor(5.0), name="w"), Parameter(Tensor(7.0), name="b")


class Net(Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(5.0), name="w")
        self.b = Parameter(Tensor(7.0), name="b")
        self.c = Parameter(Tensor(1.0), name="c", requires_grad=False)

    def construct(self, x, y):
        return x * y * self.w + self.b * self.c


# ---------------------------------------------------------------------- structures (45 - 50)

POSITIONS = {0: 15.0, (0,): 15.0, (0, 1): (15.0, 10.0), (1, 0): (10.0, 15.0), None: None}
WEIGHTS = {
    "w": (lambda w, b: w, 6.0),
    "[w]": (lambda w, b: [w], (6.0,)),
    "(w, b)": (lambda w, b: (w, b), (6.0, 1.0)),
    "tuple": (lambda w, b: ParameterTuple([w, b]), (6.0, 1.0)),
    "[]": (lambda w, b: [], ()),
    "None": (lambda w, b: None, None),
}


@pytest.mark.parametrize("form", WEIGHTS)
@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_structure_of_positions_and_weights(position, form, weights):
    w, b = weights
    select, by_weight = WEIGHTS[form]
    by_position = POSITIONS[position]
    given = select(w, b)

    def f(x, y):
        return x * y * w + b

    if position is None and given is None:
        with pytest.raises(ValueError, match="must not both be None"):
            grad(f, position, given)
        return
    expected = (
        by_weight
        if position is None
        else by_position
        if given is None
        else (by_position, by_weight)
    )
    assert plain(grad(f, position, given)(X, Y)) == expected
    assert plain(value_and_grad(f, position, given)(X, Y)) == (37.0, expected)


@pytest.mark.parametrize(
    ("position", "select", "expected"),
    [
        (0, lambda w, b: None, (0, 15.0)),
        (1, lambda w, b: None, (1, 10.0)),
        ((0, 1), lambda w, b: None, ((0, 15.0), (1, 10.0))),
        (None, lambda w, b: w, ("w", 6.0)),
        (None, lambda w, b: [w], (("w", 6.0),)),
        (0, lambda w, b: w, ((0, 15.0), ("w", 6.0))),
        (0, lambda w, b: [w, b], ((0, 15.0), (("w", 6.0), ("b", 1.0)))),
        ((0, 1), lambda w, b: [w], (((0, 15.0), (1, 10.0)), (("w", 6.0),))),
    ],
)
def test_return_ids_and_get_grad(position, select, expected, weights):
    w, b = weights
    result = grad(lambda x, y: x * y * w + b, position, select(w, b), return_ids=True)(X, Y)
    assert plain(result) == expected
    for number in (position,) if isinstance(position, int) else position or ():
        assert plain(get_grad(result, number)) == {0: 15.0, 1: 10.0}[number]
    if select(w, b) is not None:
        assert plain(get_grad(result, w)) == 6.0


def test_get_grad_errors(weights):
    result = grad(lambda x, y: x * y, (0, 1), return_ids=True)(X, Y)
    with pytest.raises(TypeError, match="a position or a Parameter, not str"):
        get_grad(result, "w")
    with pytest.raises(RuntimeError, match="no gradient for 5"):
        get_grad(result, 5)
    with pytest.raises(RuntimeError, match="no gradient for Parameter"):
        get_grad(result, weights[0])
    with pytest.raises(RuntimeError, match="return_ids"):
        get_grad(X, 0)


def test_ids_of_an_argument_that_is_no_tensor():
    # MindSpore fails here: it iterates over the Tensor.
    assert plain(grad(lambda a, b: a * b, (0, 1), return_ids=True)(2.0, Y)) == (1, 2.0)


OPERATIONS = [  # get_all, get_by_list, weights, expected without sens
    (False, False, None, 15.0),
    (False, False, "w", 15.0),
    (False, True, None, (6.0, 1.0)),
    (False, True, "w", 6.0),
    (False, True, "[w]", (6.0,)),
    (False, True, "(w, c)", (6.0, 0.0)),
    (True, False, None, (15.0, 10.0)),
    (True, True, None, ((15.0, 10.0), (6.0, 1.0))),
    (True, True, "w", ((15.0, 10.0), 6.0)),
    (True, True, "(w, c)", ((15.0, 10.0), (6.0, 0.0))),
]


def scaled(value, factor):
    return tuple(scaled(v, factor) for v in value) if isinstance(value, tuple) else value * factor


@pytest.mark.parametrize(("get_all", "get_by_list", "form", "expected"), OPERATIONS)
def test_grad_operation(get_all, get_by_list, form, expected):
    net = Net()
    chosen = {None: None, "w": net.w, "[w]": [net.w], "(w, c)": ParameterTuple([net.w, net.c])}
    make = GradOperation(get_all, get_by_list)
    assert plain(make(net, chosen[form])(X, Y)) == expected
    make = GradOperation(get_all, get_by_list, sens_param=True)
    assert plain(make(net, chosen[form])(X, Y, Tensor(10.0))) == scaled(expected, 10)


def test_grad_operation_of_functions():
    def f(x, y):
        return x * y

    assert plain(GradOperation(get_all=True)(f)(X, Y)) == (3.0, 2.0)
    assert plain(GradOperation(get_all=True)(lambda a: a * a)(X)) == (4.0,)
    assert plain(GradOperation(get_all=True)(f)(X, 2.0)) == (2.0,)
    assert plain(GradOperation(get_all=True)(lambda a: X * a)(2.0)) == ()
    assert plain(GradOperation()(f)(2.0, X)) == ()
    assert plain(GradOperation(get_by_list=True)(f)(X, Y)) == ()
    assert plain(GradOperation(True, True)(f)(X, Y)) == ((3.0, 2.0), ())
    with pytest.raises(TypeError, match="get_all must be a bool, not int"):
        GradOperation(get_all=1)
    with pytest.raises(TypeError, match="only a function or Cell has a gradient, not int"):
        GradOperation()(3)


# -------------------------------------------------------------------------- outputs (47)


def test_outputs_are_summed():
    def f(x, y):
        return x * y, x + y

    assert plain(grad(f)(X, Y)) == 4.0
    assert plain(value_and_grad(f)(X, Y)) == ((6.0, 5.0), 4.0)

    def nested(x, y):
        return x * y, [x + y, (x,)], {"k": x}

    assert plain(value_and_grad(nested)(X, Y)) == ((6.0, [5.0, (2.0,)], {"k": 2.0}), 6.0)
    assert plain(grad(lambda x: (x * x).broadcast_to((3,)))(X)) == 12.0
    assert plain(grad(lambda x: (x * 3, x * 3, "text", None, 2.5))(X)) == 6.0

    def twice(x):
        y = x * x
        return y, y

    assert plain(grad(twice)(X)) == 8.0


def test_aux_is_not_differentiated():
    def f(x, y):
        return x * y, x + y

    assert plain(grad(f, has_aux=True)(X, Y)) == (3.0, (5.0,))
    assert plain(value_and_grad(f, has_aux=True)(X, Y)) == ((6.0, 5.0), 3.0)

    def g(x, y):
        return x * y, ops.sqrt(x - x), [x, {"k": y}]

    assert plain(grad(g, (0, 1), has_aux=True)(X, Y)) == ((3.0, 2.0), (0.0, [2.0, {"k": 3.0}]))


@pytest.mark.parametrize("fn", [lambda x: x * x, lambda x: (x * x,), lambda x: [x, x]])
def test_aux_needs_several_outputs(fn):
    with pytest.raises(ValueError, match="does not return several outputs"):
        grad(fn, has_aux=True)(X)


@pytest.mark.parametrize("result", [3.0, None, "text", Tensor(3.0), Tensor(3)])
def test_outputs_that_do_not_depend_on_the_argument(result):
    assert_same(grad(lambda a: result)(X), np.array(0.0, np.float32))
    value, gradient = value_and_grad(lambda a: result)(X)
    assert value is result
    assert plain(gradient) == 0.0


# ------------------------------------------------------------------------- arguments (50)


def test_arguments_that_are_no_tensors_have_no_gradient():
    def f(a, b):
        return b * a

    assert grad(f)(2.0, Y) == ()
    assert plain(grad(f, 1)(2.0, Y)) == 2.0
    assert plain(grad(f, (0, 1))(2.0, Y)) == 2.0
    assert plain(value_and_grad(f)(2.0, Y)) == (6.0, ())
    assert grad(lambda t, b: t[0] * b)((X, Y), Y) == ()
    assert grad(lambda t, b: t["a"] * b)({"a": X}, Y) == ()
    assert grad(lambda t, b: b * 2)(None, Y) == ()


def test_keyword_arguments_count_in_order():
    def f(a, b):
        return a * b

    assert plain(grad(f)(X, b=Y)) == 3.0
    assert plain(grad(f, 1)(X, b=Y)) == 2.0
    assert plain(grad(f)(a=X, b=Y)) == 3.0
    assert plain(grad(lambda *a: a[0] * a[1], (0, 1))(X, Y)) == (3.0, 2.0)


def test_integers_have_gradients_of_their_type():
    n = Tensor([1, 2])
    assert_same(grad(lambda n: n * n * 3)(n), np.array([6, 12]))
    assert_same(grad(grad(lambda n: n**3))(n), np.array([6, 12]))
    found = grad(lambda n, v: n * v * 1.25, (0, 1))(n, V)  # 1.25 and 2.5, towards zero
    assert_same(found, (np.array([1, 2]), np.array([1.25, 2.5], np.float32)))
    flags = Tensor([True, False])
    assert_same(grad(lambda b, x: x * 2)(flags, X), np.array([False, False]))
    assert_same(grad(lambda x: x.astype(dt.int32))(V), np.zeros(2, np.float32))


def test_unused_arguments_and_weights_get_zeros(weights):
    w, _ = weights
    assert plain(grad(lambda a, b: a * 1, 1)(X, Y)) == 0.0
    unused = Parameter(Tensor([1.0, 2.0]), name="unused")
    assert_same(grad(lambda a: a * w, None, [unused])(X), (np.zeros(2, np.float32),))


def test_frozen_parameters_get_zeros():
    net = Net()
    assert plain(grad(net, None, [net.c])(X, Y)) == (0.0,)
    assert plain(grad(net, None, net.c)(X, Y)) == 0.0
    assert plain(grad(net, 0, [net.w, net.c])(X, Y)) == (15.0, (6.0, 0.0))
    assert plain(grad(net, None, net.trainable_params())(X, Y)) == (6.0, 1.0)


def test_each_argument_is_a_variable_of_its_own(weights):
    # As in MindSpore's graph mode; its PyNative mode gives the total to each.
    w, _ = weights
    assert plain(grad(lambda a, b: a * a * b, (0, 1))(X, X)) == (8.0, 4.0)
    assert plain(grad(lambda a: a * X)(X)) == 2.0
    assert plain(grad(lambda a: a * w * w, 0, w)(w)) == (25.0, 50.0)
    assert plain(grad(lambda x: grad(lambda a: a * a * x)(x))(X)) == 8.0  # of 2 x x


def test_an_argument_that_is_returned():
    value, gradient = value_and_grad(lambda a: a)(V)
    assert (value.tolist(), gradient.tolist()) == ([1.0, 2.0], [1.0, 1.0])
    value.asnumpy()[0] = 9.0
    assert V.tolist() == [1.0, 2.0]


def test_position_errors():
    def f(x, y):
        return x * y

    for position in (2, (0, 2), 5):
        with pytest.raises(RuntimeError, match="is out of range: f was called with 2 argument"):
            grad(f, position)(X, Y)
    with pytest.raises(RuntimeError, match="out of range"):
        grad(lambda a, b=Y: a * b, 1)(X)  # a default is no argument of the call
    for position, error in (
        (-1, ValueError), ((0, 0), ValueError), ((), ValueError), ([0], TypeError),
        ("a", TypeError), (1.0, TypeError), ((0, "a"), TypeError),
    ):  # fmt: skip
        with pytest.raises(error, match="grad_position"):
            grad(f, position)


@pytest.mark.parametrize("make", [grad, value_and_grad])
def test_argument_errors(make):
    for fn in (3, "a", None):
        with pytest.raises(TypeError, match="only a function or Cell has a gradient"):
            make(fn)
    with pytest.raises(TypeError, match="weights must be a Parameter"):
        make(lambda x: x, 0, 3)
    with pytest.raises(TypeError, match="weights must be Parameters, not Tensor"):
        make(lambda x: x, 0, [X])
    for flag in ("has_aux", "return_ids", "sens_param"):
        with pytest.raises(TypeError, match=f"{flag} must be a bool, not int"):
            make(lambda x: x, **{flag: 1})


# -------------------------------------------------------------------------------- sens


def test_sens_is_the_cotangent_of_the_output():
    def f(x, y):
        return x * y

    def two(x, y):
        return x * y, x + y

    make = GradOperation(sens_param=True)
    assert plain(make(two)(X, Y, (Tensor(10.0), Tensor(1.0)))) == 31.0
    assert plain(make(f)(X, Y, 10.0)) == 30.0
    assert plain(make(f)(X, Y, sens=Tensor(10.0))) == 30.0
    assert_same(make(f)(X, Y, Tensor(10.0, dt.float16)), np.array(30.0, np.float32))
    assert plain(grad(f, (0, 1), sens_param=True)(X, Y, Tensor(10.0))) == (30.0, 20.0)
    with pytest.raises(RuntimeError, match=r"1 cotangent\(s\) for 2 output"):
        make(two)(X, Y, Tensor(10.0))
    with pytest.raises(RuntimeError, match=r"shape \(\), and its output \(2,\)"):
        make(f)(V, U, Tensor(1.0))
    with pytest.raises(TypeError, match="takes the cotangent of the output last"):
        make(f)()


# ------------------------------------------------------------------------ order, writes


def test_higher_order():
    assert plain(grad(grad(lambda x: x * x * x))(X)) == 12.0
    third = grad(grad(grad(ops.sin)))(Tensor(0.5))
    assert_same(third, np.array(-np.cos(0.5), np.float32))

    class Cube(Cell):
        def construct(self, x):
            return x * x * x

    assert plain(GradOperation()(GradOperation()(Cube()))(X)) == 12.0
    mixed = grad(lambda x, y: grad(lambda x: x * x * y)(x), 1)
    assert plain(mixed(X, Y)) == 4.0


@pytest.mark.parametrize("dtype", [dt.float64, dt.float32, dt.float16])
def test_powers_of_exponent_zero(dtype):
    """The derivative of y x^(y-1) by y is 1/x there, and all is finite at 0 and next to it."""
    x, y = Tensor([2.0, 0.0, 1e-7], dtype), Tensor([0.0, 0.0, 0.0], dtype)
    assert plain(grad(ops.pow)(x, y)) == [0.0, 0.0, 0.0]
    mixed = grad(lambda x, y: grad(ops.pow)(x, y), 1)(x, y)
    assert mixed.tolist()[0] == 0.5 and np.isfinite(mixed.asnumpy()).all()
    series = grad(lambda x: sum(x**i for i in range(4)))
    assert_same(series(x), (1 + 2 * x + 3 * x * x).asnumpy())


def test_loops_and_branches_are_python():
    def power(x):
        y = x
        while y < 20.0:
            y = y * x * x
        return y

    assert plain(grad(power)(X)) == 80.0  # x ** 5
    assert plain(grad(grad(power))(X)) == 160.0


def test_an_argument_is_written():
    def write(x):
        x[0] = x[0] * 3.0
        x[1] = x[0] * x[1]
        return 2.0 * x.sum()

    v = Tensor([2.0, 5.0])
    assert grad(write)(v).tolist() == [36.0, 12.0]  # by what it was at first
    assert v.tolist() == [6.0, 30.0]
    assert grad(lambda x: x.add_(1.0) * x)(v).tolist() == [14.0, 62.0]
    assert v.tolist() == [7.0, 31.0]


def test_an_argument_with_another_name_is_not_written():
    def write(x):
        x[0] = 5.0
        return x * x

    v = Tensor([1.0, 2.0])
    for f in (lambda a, b: write(a) * b, lambda a, b: write(b) * a, lambda a, b: write(a) * v):
        with pytest.raises(RuntimeError, match="written in place; copy it first"):
            grad(f)(v, v)
    with pytest.raises(RuntimeError, match="written in place; copy it first"):
        grad(lambda a: write(v) * a)(v)
    assert v.tolist() == [1.0, 2.0]
    v[0] = 3.0

    def copy(x):
        x = x * 1
        x[0] = 5.0
        return x * x

    assert grad(copy)(Tensor([1.0, 2.0])).tolist() == [0.0, 4.0]


def test_parameters_may_be_written(weights):
    w, _ = weights

    def f(a):
        ops.assign(w, a * 2)
        return w * a

    assert plain(grad(f, 0, w)(X)) == (4.0, 2.0)  # a weight is a variable, whatever it holds
    assert w.tolist() == 4.0


def test_gradients_are_tensors_of_their_own():
    a, b = grad(lambda x, y: x + y, (0, 1))(V, U)
    a[0] = 9.0
    a.asnumpy()[1] = 9.0
    assert b.tolist() == [1.0, 1.0]
    seed = Tensor([1.0, 2.0])
    (back,) = vjp(lambda x: x, V)[1](seed)
    back.asnumpy()[:] = 0.0
    assert seed.tolist() == [1.0, 2.0]


def test_stop_gradient():
    assert plain(grad(lambda a: api.stop_gradient(a) * a)(X)) == 2.0


# ------------------------------------------------------------------------- Cells with bprop


class Custom(Cell):
    def __init__(self, result):
        super().__init__()
        self.result = result
        self.w = Parameter(Tensor(5.0), name="w")

    def construct(self, x, y):
        return x * y * self.w

    def bprop(self, x, y, out, dout):
        return self.result(x, y, dout)


def test_bprop_of_a_cell_is_used_as_written():
    net = Custom(lambda x, y, dout: (dout * 100, dout * 200))
    assert plain(grad(net, (0, 1))(X, Y)) == (100.0, 200.0)
    assert plain(grad(net, (0, 1), [net.w])(X, Y)) == ((100.0, 200.0), (0.0,))
    net = Custom(lambda x, y, dout: (None, dout * 2))
    assert plain(grad(net, (0, 1))(X, Y)) == (0.0, 2.0)
    net = Custom(lambda x, y, dout: (dout * x * x * 10, None))
    assert plain(grad(grad(net))(X, Y)) == 40.0


def test_bprop_with_a_missing_gradient_or_argument():
    net = Custom(lambda x, y, dout: (dout,))
    with pytest.raises(RuntimeError, match=r"returned 1 gradient\(s\) for 2 input"):
        grad(net)(X, Y)

    class Short(Cell):
        def construct(self, x):
            return x * x

        def bprop(self, x, dout):
            return (dout,)

    with pytest.raises(TypeError, match="positional argument"):
        grad(Short())(X)


# ------------------------------------------------------------------------ vjp, jvp, jacobians


def two(a, b):
    return a * b, a + b


def one(a, b):
    return a * b * b


def with_aux(a, b):
    return a * b, b


def test_vjp(weights):
    out, back = vjp(lambda x, y: x * y, X, Y)
    assert plain((out, back(Tensor(1.0)), back(Tensor(2.0)))) == (6.0, (3.0, 2.0), (6.0, 4.0))
    assert plain(vjp(lambda x: x * x, X)[1](Tensor(1.0))) == (4.0,)
    out, back = vjp(two, X, Y)
    assert plain((out, back(Tensor(1.0), Tensor(2.0)))) == ((6.0, 5.0), (5.0, 4.0))
    assert plain(back((Tensor(1.0), Tensor(2.0)))) == (5.0, 4.0)
    out, back, aux = vjp(with_aux, X, Y, has_aux=True)
    assert plain((out, back(Tensor(1.0)), aux)) == (6.0, (3.0, 2.0), 3.0)
    aux = vjp(lambda a, b: (a * b, b, (a, b)), X, Y, has_aux=True)[2]
    assert plain(aux) == (3.0, (2.0, 3.0))
    net = Net()
    assert plain(vjp(net, X, Y, weights=net.w)[1](Tensor(1.0))) == ((15.0, 10.0), 6.0)
    both = vjp(net, X, Y, weights=(net.w, net.b))[1](Tensor(1.0))
    assert plain(both) == ((15.0, 10.0), (6.0, 1.0))


def test_jvp():
    ones = (Tensor(1.0), Tensor(1.0))
    assert plain(jvp(lambda x, y: x * y, (X, Y), ones)) == (6.0, 5.0)
    assert plain(jvp(lambda x: x * x, X, Tensor(1.0))) == (4.0, 4.0)
    assert plain(jvp(two, [X, Y], list(ones))) == ((6.0, 5.0), (5.0, 2.0))
    assert plain(jvp(with_aux, (V, U), (V, U), has_aux=True)) == (
        [3.0, 8.0], [6.0, 16.0], [3.0, 4.0],
    )  # fmt: skip
    out, tangent = jvp(lambda a, b: [a * b, {"s": a + b}], (V, U), (V, U))
    assert plain(tangent) == [[6.0, 16.0], {"s": [4.0, 6.0]}]
    with pytest.raises(ValueError, match=r"1 direction\(s\) for 2 input"):
        jvp(two, (X, Y), (Tensor(1.0),))
    with pytest.raises(TypeError, match="inputs must be Tensors, not float"):
        jvp(two, (X, 2.0), ones)
    with pytest.raises(TypeError, match="inputs must be Tensors, not float"):
        vjp(two, X, 2.0)


def test_a_tensor_given_twice_is_two_variables():
    assert plain(vjp(one, X, X)[1](Tensor(1.0))) == (4.0, 8.0)
    assert plain(jvp(one, (X, X), (Tensor(1.0), Tensor(0.0)))) == (8.0, 4.0)
    assert plain(grad(lambda x: vjp(one, x, x)[1](Tensor(1.0))[0])(X)) == 4.0  # of x * x


def test_what_vjp_returned_may_be_written_before_it_is_pulled():
    v, u = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    value, back = vjp(lambda x: [x * x, {"k": x}], v)
    value[0].mul_(5)
    value[1]["k"].add_(1.0)
    value.append(u)
    v.mul_(2)
    assert plain(back(u, u)) == ([9.0, 20.0],)


def test_cotangents_of_integers_are_left_out():
    value, back = vjp(lambda a: (a * a, a.astype(dt.int32)), V)
    assert plain(back(U)) == plain(back(U, Tensor([7, 7]))) == ([6.0, 16.0],)


def test_jvp_agrees_with_vjp_and_differences():
    rng = np.random.default_rng(0)
    x, v = (Tensor(rng.normal(size=(3, 2))) for _ in range(2))

    def f(x):
        return ops.tanh(ops.matmul(x, Tensor(np.array([[1.0, 2.0], [3.0, -1.0]])))) * x

    out, tangent = jvp(f, x, v)
    h = 1e-6
    numeric = (f(x + h * v).asnumpy() - f(x - h * v).asnumpy()) / (2 * h)
    np.testing.assert_allclose(tangent.asnumpy(), numeric, atol=1e-7)
    u = Tensor(rng.normal(size=(3, 2)))
    (pulled,) = vjp(f, x)[1](u)
    assert_same((pulled * v).sum(), np.sum(u.asnumpy() * tangent.asnumpy()))


@pytest.mark.parametrize("jac", [jacrev, jacfwd])
def test_jacobians(jac):
    assert plain(jac(one)(V, V)) == [[1.0, 0.0], [0.0, 4.0]]
    both = ([[9.0, 0.0], [0.0, 16.0]], [[6.0, 0.0], [0.0, 16.0]])
    assert plain(jac(one, (0, 1))(V, U)) == both
    assert plain(jac(one, (0,))(V, U)) == both[0]
    eye = [[1.0, 0.0], [0.0, 1.0]]
    assert plain(jac(two)(V, U)) == ([[3.0, 0.0], [0.0, 4.0]], eye)
    by_output = (([[3.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]]), (eye, eye))
    assert plain(jac(two, (0, 1))(V, U)) == by_output
    assert plain(jac(with_aux, has_aux=True)(V, U)) == ([[3.0, 0.0], [0.0, 4.0]], [3.0, 4.0])
    assert plain(jac(one)(X, V)) == [1.0, 4.0]
    assert plain(jac(one)(X, Y)) == 9.0
    matrix = Tensor(np.ones((3, 4), np.float32))
    assert jac(lambda a: ops.matmul(a, matrix))(Tensor(np.ones((2, 3), np.float32))).shape == (
        2, 4, 2, 3,
    )  # fmt: skip
    empty = Tensor(np.zeros((0, 2), np.float32))
    assert jac(one)(empty, empty).shape == (0, 2, 0, 2)
    with pytest.raises(ValueError, match=r"grad_position 2, but 2 argument"):
        jac(one, 2)(V, V)
    with pytest.raises(TypeError, match="grad_position"):
        jac(one, None)


@pytest.mark.parametrize("outer", [jacrev, jacfwd])
@pytest.mark.parametrize("inner", [jacrev, jacfwd])
def test_hessians(outer, inner):
    def f(x):
        return ops.sin(x[0]) * x[1] * x[1]

    a, b = 0.5, 2.0
    hessian = outer(inner(f))(Tensor(np.array([a, b])))
    expected = [[-np.sin(a) * b * b, 2 * b * np.cos(a)], [2 * b * np.cos(a), 2 * np.sin(a)]]
    assert_same(hessian, np.array(expected), factor=10)


# ------------------------------------------------------------------------------ the object


def test_names_and_equality(weights):
    def f(x):
        """Doc."""
        return x

    assert grad(f).__name__ == value_and_grad(f).__name__ == jacrev(f).__name__ == "f"
    assert grad(f).__doc__ == "Doc."
    assert grad(Net()).__name__ == "Net"
    assert repr(grad(f)) == "<gradient of f>"
    w, b = weights
    assert grad(f) == grad(f) and hash(grad(f)) == hash(grad(f))
    assert grad(f, None, [w]) == grad(f, None, (w,))
    different = [
        grad(f), grad(f, 1), grad(f, (0,)), grad(f, 0, w), grad(f, 0, [w]), grad(f, 0, b),
        grad(f, has_aux=True), grad(f, return_ids=True), value_and_grad(f), grad(grad(f)),
        GradOperation(get_all=True)(f), grad(f, sens_param=True), grad(lambda x: x),
    ]  # fmt: skip
    assert len(set(different)) == len(different)


def test_graph_mode_hands_over_to_the_compiler(monkeypatch):
    seen = []

    def runner(gradient, args, kwargs):
        seen.append((gradient, args, kwargs))
        return "compiled"

    monkeypatch.setattr(api, "graph_runner", runner)
    gradient = grad(lambda x, y: x * y)
    assert plain(gradient(X, y=Y)) == 3.0
    with context.using(mode=context.GRAPH_MODE):
        assert gradient(X, y=Y) == "compiled"
    assert seen == [(gradient, (X,), {"y": Y})]


def test_tapes_are_refused_inside_a_graph():
    gradient = grad(lambda x: x * x)
    assert isinstance(gradient, GradFunction)
    with handled_by(GraphBuilder()):
        for run in (lambda: gradient(X), lambda: vjp(ops.sin, X), lambda: jvp(ops.sin, X, X)):
            with pytest.raises(RuntimeError, match="inside a compiled function"):
                run()
