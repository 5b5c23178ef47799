"""vjp, jvp, jacrev and jacfwd inside graphs: the same as by tapes, and as central differences."""

import numpy as np
import pytest
from differential import Programs, Refusals, agree, assert_result
from helpers import assert_same, vector

import minispore as ms
from minispore import Parameter, ParameterTuple, Tensor, nn, ops

X, Y = vector(), vector(4, 5, 6)
PROGRAMS, REFUSALS = Programs(), Refusals()


def f64(*values):
    return Tensor(np.array(values, np.float64))


def product(a, b):
    return a * b * b


def two(a, b):
    return a * b, a + b


def nested(a, b):
    return a * b, [a + b, {"k": ops.sin(a)}], (3, None, "text")


def cube(a):
    return a * a * a


def powers(a):
    i = 0
    while a.sum() < 100:
        a = a * a + 1
        i = i + 1
    return a * i


def counted(a):
    for _ in range(20):
        a = ops.sin(a) + a
    return a


def branches(a):
    for _ in range(3):
        a = a * a if a.sum() > 3 else a * 5
    return a


def early(a):
    for i in range(50):
        a = a * 1.5
        if a.sum() > 20:
            return a * i
    return a


def waves(a):
    return ops.sin(a) * a[0] * a


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(vector(2, 3, 4), name="w")
        self.b = Parameter(vector(1, 1, 1), name="b")
        self.frozen = Parameter(vector(5, 5, 5), name="frozen", requires_grad=False)

    def construct(self, x):
        return ops.tanh(x * self.w + self.b) * self.frozen


class Tenfold(nn.Cell):
    """a ** 3 with a made-up gradient, which gives itself away at every order."""

    def construct(self, a):
        return a * a * a

    def bprop(self, a, out, dout):
        return (dout * a * a * 10,)


NET, OWN = Net(), Tenfold()
FUNCTIONS = [waves, powers, branches, NET, OWN, ops.sin, ms.jit(cube)]


def names(function):
    return getattr(function, "__name__", type(function).__name__)


# ------------------------------------------------------------------------------- vjp


@PROGRAMS.on((X, Y))
def vjp_of_several(a, b):
    value, pull = ms.vjp(two, a, b)
    first = pull(a, b)
    second = pull((first[0], first[1]))
    return value, first, second, pull([a, a])


@PROGRAMS.on((X, Y))
def vjp_of_a_tree(a, b):
    value, pull = ms.vjp(nested, a, b)
    return value, pull(a, [b, {"k": a}])


@PROGRAMS.on((X, Y))
def vjp_has_aux(a, b):
    value, pull, aux = ms.vjp(lambda a, b: (a * b, b, [a, 2]), a, b, has_aux=True)
    other, back, bare = ms.vjp(lambda a, b: ((a * b, a), b * 2), a, b, has_aux=True)
    return value, pull(a), aux, other, back(a, b), bare


@PROGRAMS.on((X, Y))
def vjp_of_one_tensor_twice(a, b):
    return ms.vjp(product, a, a)[1](b), ms.vjp(lambda x: x * a, a)[1](b)


@PROGRAMS.on((X, Y))
def vjp_of_what_is_handed_through(a, b):
    value, pull = ms.vjp(lambda x, y: (x, y, x), a, b)
    return value, pull(a, b, b), ms.vjp(lambda x: b, a)[1](a), ms.vjp(lambda x: x, a)[0]


@PROGRAMS.on((X, Y))
def vjp_of_integers(a, b):
    n = a.astype(ms.int32)
    value, pull = ms.vjp(lambda x, n: (x * n, n * 2), b, n)
    return value, pull(a), pull(a, n)


@PROGRAMS.on((X, Y))
def vjp_without_inputs(a, b):
    value, pull = ms.vjp(lambda: a * b)
    return value, pull(a)


@PROGRAMS.on((X, Y))
def cotangents_that_are_numbers(a, b):
    return ms.vjp(lambda x: x.sum(), a)[1](2.0), ms.vjp(lambda x: x.sum(), a)[1](b.sum().item())


@PROGRAMS.on((X, Y))
def half_cotangents(a, b):
    return ms.vjp(lambda x: (x * x).astype(ms.float16), a)[1](b)


@PROGRAMS.on((X, Y), (-X, Y))
def pulls_in_arms(a, b):
    _, pull = ms.vjp(cube, a)
    if a.sum() > 0:
        found = pull(b)[0]
        found = found + pull(found)[0]
    else:
        found = pull(b * 2)[0]
    return found, pull(found)


@PROGRAMS.on((X, Y), (-X, Y))
def pulls_that_a_tensor_chooses(a, b):
    if a.sum() > 0:
        value, pull = ms.vjp(ops.sin, a)
    else:
        value, pull = ms.vjp(cube, a)
    return value, pull(b), pull(a)


@PROGRAMS.on((X, Y))
def pulls_in_loops(a, b):
    _, pull = ms.vjp(ops.sin, a)
    while b.sum() < 100:
        b = pull(b)[0] + b * 2
    return b, pull(b)


@PROGRAMS.on((X, Y))
def pulls_made_in_loops(a, b):
    n = 0
    while b.sum() < 1000:
        value, pull = ms.vjp(cube, b)
        b = pull(value)[0]
        n += 1
    for _ in range(3):
        value, pull = ms.vjp(cube, a)
        a = pull(value * 0.01)[0]
    return b, n, a


@PROGRAMS.on((X, Y))
def power_iteration(a, b):
    for _ in range(30):
        _, pull = ms.vjp(waves, a)
        b = pull(b)[0]
        b = b / ops.sqrt((b * b).sum())
    return b


@PROGRAMS.on((X, Y))
def pulls_in_called_functions(a, b):
    def make(x):
        return ms.vjp(powers, x)[1]

    def use(pull, v):
        return pull(v)[0] * 2

    pull = make(a)
    return use(pull, b), use(pull, a), list(map(make(b), [a, b]))


# ------------------------------------------------------------------------------- jvp, jacobians


@PROGRAMS.on((X, Y))
def jvp_forms(a, b):
    return (
        ms.jvp(cube, a, b),
        ms.jvp(cube, (a,), [b]),
        ms.jvp(two, [a, b], (b, a)),
        ms.jvp(nested, (a, b), (b, a)),
        ms.jvp(lambda a, b: (a * b, b, 3), (a, b), (b, a), has_aux=True),
        ms.jvp(lambda a, b: ((a * b, a), b), (a, b), (b, a), has_aux=True),
        ms.jvp(product, (a, a), (b, a)),
        ms.jvp(lambda x: b, a, b),
        ms.jvp(lambda x: x, a, b),
        ms.jvp(lambda x: (x.astype(ms.int32), x * x), a, b),
    )


@PROGRAMS.on((X, Y))
def jacobian_forms(a, b):
    def all_of(jacobian):
        return (
            jacobian(product)(a, b),
            jacobian(product, 1)(a, b),
            jacobian(product, (0,))(a, b),
            jacobian(product, (1, 0))(a, b),
            jacobian(two)(a, b),
            jacobian(two, (0, 1))(a, b),
            jacobian(nested)(a, b),
            jacobian(lambda a, b: (a * b, b), has_aux=True)(a, b),
            jacobian(lambda a, b: ((a * b, a), b, 2), (0, 1), has_aux=True)(a, b),
            jacobian(product)(a.sum(), b),
            jacobian(lambda x: x.sum())(a),
            jacobian(lambda x: x.reshape(3, 1) * b)(a),
            jacobian(product)(a, a),
            jacobian(lambda x: x)(a),
            jacobian(lambda x: b)(a),
            jacobian(lambda x: x[1:1] * 2)(a),
            jacobian(cube)(a[1:1]),
            jacobian(lambda x: x.astype(ms.int32))(a),
            jacobian(lambda x: x.astype(ms.float64))(a),
        )

    return all_of(ms.jacrev), all_of(ms.jacfwd)


# ------------------------------------------------------------------------------- compositions


@PROGRAMS.on((X, Y))
def hessians(a, b):
    def f(x):
        return (ops.sin(x) * x * b).sum() * x[0]

    return (
        ms.jacfwd(ms.jacrev(f))(a),
        ms.jacrev(ms.jacfwd(f))(a),
        ms.jacfwd(ms.grad(f))(a),
        ms.jacrev(ms.grad(f))(a),
        ms.jacrev(ms.jacrev(lambda x, y: (x * y * y).sum(), (0, 1)), (0, 1))(a, b),
        ms.jvp(ms.grad(f), a, b),
        ms.jvp(lambda x: ms.vjp(f, x)[1](ops.ones((), ms.float32))[0], a, b),
        ms.grad(lambda x: ms.jvp(f, x, b)[1])(a),
        ms.grad(lambda x: ms.vjp(cube, x)[1](b)[0].sum())(a),
        ms.grad(lambda v: ms.vjp(waves, a)[1](v)[0].sum())(b),
        ms.grad(lambda x: ms.jacrev(waves)(x).sum())(a),
        ms.grad(lambda x: ms.jacfwd(waves)(x).sum())(a),
        ms.vjp(lambda x: ms.jvp(waves, x, b)[1], a)[1](b),
    )


@PROGRAMS.on((X * 0.3, Y))
def third_order(a, b):
    def f(x):
        return (ops.sin(x) * x * b).sum()

    return (
        ms.jacfwd(ms.jacfwd(ms.jacrev(f)))(a),
        ms.jacrev(ms.jacrev(ms.jacrev(f)))(a),
        ms.jvp(lambda x: ms.jvp(lambda y: ms.jvp(f, y, b)[1], x, b)[1], a, b)[1],
        ms.grad(lambda x: ms.jvp(ms.grad(f), x, b)[1].sum())(a),
    )


@PROGRAMS.on((X * 0.3, Y * 0.2))
def second_order_of_loops(a, b):
    def f(x):
        return (early(x) * powers(b)).sum() + counted(x).sum()

    return (
        ms.jacfwd(ms.jacrev(f))(a),
        ms.jacrev(ms.jacfwd(f))(a),
        ms.jvp(ms.grad(f), a, b),
        ms.grad(lambda x: ms.vjp(powers, x)[1](b)[0].sum())(a),
        ms.grad(lambda x: ms.jvp(counted, x, b)[1].sum())(a),
    )


@PROGRAMS.on((X, Y))
def pulls_are_functions(a, b):
    _, pull = ms.vjp(cube, a)
    value, back = ms.vjp(pull, b)
    all_of = [ms.vjp(f, a)[1] for f in (ops.sin, ops.cos, cube)]
    return (
        value,
        back((b,)),
        ms.jvp(pull, b, a),
        ms.grad(lambda v: pull(v)[0].sum())(b),
        ms.jacrev(lambda v: pull(v)[0])(b),
        ms.vjp(ms.value_and_grad(lambda x: cube(x).sum()), a)[1](a.sum(), b),
        [pull(b)[0] for pull in all_of],
    )


@PROGRAMS.on((X * 0.1, Y))
def recursion(a, b):
    def grow(x):
        return x if x.sum() > 20 else grow(x * x + 2) * 2

    def by_pulls(x):
        if x.sum() > 20:
            return x
        value, pull = ms.vjp(cube, x)
        return by_pulls(pull(b)[0] + value)

    scalar = lambda x: grow(x).sum()  # noqa: E731
    return (
        ms.vjp(grow, a)[1](b), ms.jvp(grow, a, b), ms.jacrev(grow)(a),
        ms.jacfwd(ms.jacrev(scalar))(a), by_pulls(a), ms.jvp(by_pulls, a, b),
        ms.grad(lambda x: by_pulls(x).sum())(a),
    )  # fmt: skip


@REFUSALS.on(RecursionError, "contain its own gradient", X)
def the_gradient_of_itself(a):
    def f(x):
        if x.sum() > 20:
            return x
        return f(f(x * 3) + ms.vjp(f, x * 2)[0])

    return f(a)


@REFUSALS.on(RecursionError, "contain its own gradient", X)
def the_gradient_of_itself_by_grad(a):
    def f(x):
        if x.sum() > 20:
            return x
        return f(f(x * 3) + ms.grad(f)(x * 2))

    return f(a)


@REFUSALS.on(TypeError, "what is differentiated is None or Tensor", X)
def what_a_tensor_chooses(a):
    return ms.grad(lambda x: {"k": x if x.sum() > 0 else None})(a)


# ------------------------------------------------------------------------------- weights, state


@PROGRAMS.on((X, Y))
def vjp_with_weights(a, b):
    w, net = NET.w, NET
    return (
        ms.vjp(net, a, weights=w)[1](b),
        ms.vjp(net, a, weights=(w, net.b))[1](b),
        ms.vjp(net, a, weights=[net.frozen, w, w])[1](b),
        ms.vjp(net, a, weights=net.trainable_params())[1](b),
        ms.vjp(lambda x: (net(x) * w, x), a, weights=ParameterTuple([w]), has_aux=True)[1](b),
        ms.vjp(lambda: net(a), weights=w)[1](b),
    )


@PROGRAMS.on((X, Y))
def parameters_as_inputs(a, b):
    w = NET.w
    return (
        ms.vjp(cube, w)[1](b),
        ms.vjp(lambda x: x * w, w, weights=w)[1](b),
        ms.jvp(cube, w, a),
        ms.jacrev(product, (0, 1))(w, w),
        ms.jacfwd(lambda x: x * w * NET.w)(w),
    )


@PROGRAMS.on((X, Y))
def a_parameter_captured_twice(a, b):
    first, second = NET.w, NET.w
    grad = ms.grad(lambda x: x * first * second * NET.w, (0,), [first, NET.b])
    return grad(a), ms.vjp(lambda x: x * first * second, a, weights=second)[1](b)


@PROGRAMS.on((X, Y))
def cells_of_their_own_gradient(a, b):
    return (
        ms.vjp(OWN, a)[1](b),
        ms.jvp(OWN, a, b),
        ms.jacrev(OWN)(a),
        ms.jacfwd(OWN)(a),
        ms.jacfwd(ms.jacrev(lambda x: OWN(x * 2).sum()))(a),
    )


@PROGRAMS.on((X, Y))
def what_is_printed(a, b):
    def f(x):
        print("inside", x)
        assert x.sum() < 100, "too large"
        return x * x

    value, pull = ms.vjp(f, a)
    print("pull")
    found = pull(b), pull(a)
    print("others")
    return found, ms.jvp(f, a, b), ms.jacrev(f)(a), ms.jacfwd(f)(b), ms.jacfwd(ms.jacrev(f))(a)


@PROGRAMS.on((X, Y), (X * 10, Y))
def what_fails(a, b):
    print("begin")
    value, pull = ms.vjp(lambda x: x * x if x.sum() < 20 else fail(x), a)
    print("end")
    return value, pull(b)


def fail(x):
    print("failing")
    if x.sum() > 0:
        raise ValueError("too large", x)
    return x


@PROGRAMS.on((X, Y))
def what_is_written_under_vjp(a, b):
    seen = []
    memory = a * 1

    def f(x):
        seen.append(x * 2)
        memory.add_(x)
        return x * memory

    value, pull = ms.vjp(f, a)
    after = memory * 1
    return value, pull(b), after, seen[0], ms.jvp(f, a, b), memory, len(seen)


class Box:
    pass


@PROGRAMS.on((X, Y))
def what_functions_leave_behind(a, b):
    box, found, calls, memory = Box(), {}, 0, a * 1

    def f(x):
        nonlocal calls
        calls += 1
        box.value = x * x
        found["k"] = x * calls
        found["n"] = x.sum().item()
        memory.add_(x)
        return box.value, memory, x

    value, pull = ms.vjp(f, a)
    same = value[0] is box.value, value[1] is memory, value[2] is a
    memory.mul_(2)
    value[0].add_(1)
    return value, pull(b, b, a), box.value, found, calls, memory, same, ms.jvp(f, a, b), calls


@PROGRAMS.on((X, Y))
def strings_have_no_gradient(a, b):
    return ms.grad(lambda x: (x * 2, f"{x} {x.sum().item():.1f}"))(a), ms.jvp(
        lambda x: (x * 2, f"{x}", "large" if x.sum() > 3 else None, x * x), a, b
    )


@pytest.mark.parametrize(("function", "args"), PROGRAMS)
def test_programs(function, args):
    agree(function, *args, factor=100.0)


# ------------------------------------------------------------------------------- refused


@REFUSALS.on(RuntimeError, "cannot return a function", X)
def returned(a):
    return ms.vjp(cube, a)


@REFUSALS.on(RuntimeError, "cannot return a function", X)
def returned_by_choice(a):
    return ms.vjp(cube, a)[1] if a.sum() > 0 else ms.vjp(ops.sin, a)[1]


@REFUSALS.on(TypeError, "changes which function 'pull' is", X)
def made_in_a_loop(a):
    pull = None
    while a.sum() < 50:
        a, pull = ms.vjp(cube, a)
    return pull(a)


@REFUSALS.on(TypeError, "vjp: inputs must be Tensors, not tuple", X)
def a_tuple_as_input(a):
    return ms.vjp(cube, (a, a))[0]


@REFUSALS.on(TypeError, "jacrev: inputs must be Tensors, not float", X)
def a_number_as_input(a):
    return ms.jacrev(product)(a, 2.0)


@REFUSALS.on(ValueError, r"jvp: 1 direction\(s\) for 2 input", X)
def too_few_directions(a):
    return ms.jvp(product, (a, a), a)


@REFUSALS.on(RuntimeError, r"1 cotangent\(s\) for 2 output", X)
def too_few_cotangents(a):
    return ms.vjp(two, a, a)[1](a)


@REFUSALS.on(RuntimeError, "they must be equal", X)
def another_shape(a):
    return ms.vjp(cube, a)[1](a[0])


@REFUSALS.on(ValueError, "grad_position 2, but 2 argument", X)
def no_such_position(a):
    return ms.jacfwd(product, 2)(a, a)


@REFUSALS.on(ValueError, "does not return several outputs", X)
def no_aux(a):
    return ms.vjp(cube, a, has_aux=True)[0]


@REFUSALS.on(TypeError, "has_aux must be a bool", X)
def no_flag(a):
    return ms.jacrev(cube, 0, 1)(a)


@REFUSALS.on(TypeError, "weights must be Parameters", X)
def no_weights(a):
    return ms.vjp(cube, a, weights=(a,))[0]


@REFUSALS.on(RuntimeError, "written in place; copy it first", X)
def writes_its_argument(a):
    def f(x):
        x[0] = 1.0
        return x * x

    return ms.jvp(f, a, a)


@pytest.mark.parametrize(("function", "args", "error", "match"), REFUSALS)
def test_refusals(function, args, error, match):
    REFUSALS.run(function, args, error, match)
    if "function" not in match and error is not RecursionError and "differentiated" not in match:
        with pytest.raises(error, match=match):
            function(*map(Tensor, args))


# ------------------------------------------------------------------------------- against numbers


def numeric_jacobian(function, x, step=1e-6):
    """Central differences of a function of a float64 Tensor: output axes, then those of x."""
    columns = []
    for i in range(x.size):
        unit = np.zeros(x.size)
        unit[i] = step
        unit = unit.reshape(x.shape)
        up, down = (function(Tensor(x.asnumpy() + s * unit)).asnumpy() for s in (1, -1))
        columns.append((up - down) / (2 * step))
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


@pytest.mark.parametrize(
    "function", [cube, waves, powers, counted, branches, early, lambda a: ops.matmul(a * a, M)],
    ids=["cube", "waves", "powers", "counted", "branches", "early", "matmul"],
)  # fmt: skip
@pytest.mark.parametrize("inner", [ms.jacrev, ms.jacfwd])
def test_jacobians_and_their_jacobians_are_those_of_differences(function, inner):
    x, u, v = f64(0.5, 0.4, 0.3), f64(1, 2, -1), f64(0.3, -0.2, 0.5)
    expected = numeric_jacobian(function, x)
    found = ms.jit(inner(function))(x)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6, atol=1e-8)
    (pulled,) = ms.jit(lambda x, u: ms.vjp(function, x)[1](u))(x, u[: expected.shape[0]])
    np.testing.assert_allclose(pulled.asnumpy(), u.asnumpy()[: len(expected)] @ expected, rtol=1e-6)
    pushed = ms.jit(lambda x, v: ms.jvp(function, x, v)[1])(x, v)
    np.testing.assert_allclose(pushed.asnumpy(), expected @ v.asnumpy(), rtol=1e-6)
    second = numeric_jacobian(ms.jit(inner(function)), x)
    for outer in (ms.jacrev, ms.jacfwd):
        found = ms.jit(outer(inner(function)))(x)
        np.testing.assert_allclose(found.asnumpy(), second, rtol=1e-5, atol=1e-6)


M = Tensor(np.arange(6.0).reshape(3, 2) / 5)


def test_a_large_jacobian_is_a_loop():
    """100 x 100: as many nodes as for 3 x 3."""
    jacobian = ms.jit(ms.jacrev(lambda x: ops.sin(ops.matmul(x, ops.cos(x * w)))))
    counts = []
    for n in (3, 100):
        w = Tensor(np.linspace(0, 1, n * n).reshape(n, n))
        x = Tensor(np.linspace(0, 1, n))
        found = jacobian(x)
        counts.append(jacobian.graph().count())
        assert found.shape == (n, n)
    assert counts[0] == counts[1]
    numeric = numeric_jacobian(lambda x: ops.sin(ops.matmul(x, ops.cos(x * w))), x)
    np.testing.assert_allclose(found.asnumpy(), numeric, atol=1e-7)


# ------------------------------------------------------------------------------- modes, tapes


CALLS = [
    lambda f, x, y: ms.vjp(f, x)[1](y),
    lambda f, x, y: ms.vjp(f, x)[0],
    lambda f, x, y: ms.jvp(f, (x,), (y,)),
    lambda f, x, y: ms.jacrev(f)(x),
    lambda f, x, y: ms.jacfwd(f)(x),
    lambda f, x, y: ms.jacfwd(ms.jacrev(f))(x),
    lambda f, x, y: ms.jvp(ms.grad(f), x, y),
    lambda f, x, y: ms.grad(lambda x: ms.vjp(f, x)[1](y)[0].sum())(x),
    lambda f, x, y: ms.grad(lambda x: ms.jvp(f, x, y)[1].sum())(x),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=names)
def test_every_way_to_run_it(function, call):
    """By tapes, of a compiled function, compiled as a whole, in GRAPH_MODE, and under a tape."""
    x, y = vector(0.5, 0.25, 1), vector(1, -1, 0.5)
    expected = call(function, x, y)
    assert_result(call(ms.jit(function), x, y), expected, 100.0)
    whole = ms.jit(lambda x, y: call(function, x, y))
    assert_result(whole(x, y), expected, 100.0)
    with ms.context.using(mode=ms.GRAPH_MODE):
        for _ in range(2):
            assert_result(call(function, x, y), expected, 100.0)
    tensors = ms.grad(lambda x: call(function, x, y), 0)
    assert_result(ms.grad(lambda x: whole(x, y), 0)(x), tensors(x), 1000.0)


def test_graphs_are_kept_in_graph_mode():
    def waves(a):
        return ops.sin(a) * a[0]

    compiled = []
    listener = lambda function, graph: compiled.append(function)  # noqa: E731
    ms.compile.after_compiling.append(listener)
    try:
        with ms.context.using(mode=ms.GRAPH_MODE):
            for _ in range(3):
                ms.vjp(waves, X)[1](Y)
                ms.jvp(waves, X, Y)
                ms.jacrev(waves)(X)
                ms.jacfwd(waves)(X)
    finally:
        ms.compile.after_compiling.remove(listener)
    assert len(compiled) == 4


def test_a_registered_rule_is_used_and_compiled_again():
    call = ms.jit(lambda x, y: (ms.vjp(ops.tan, x)[1](y), ms.jacrev(ops.tan)(x)))
    before = call(X, Y)
    try:

        @ms.ops.gradient.bprop_getters.register(ops.Tan)
        def getter(self):
            return lambda x, out, dout: (dout * 10,)

        ((pulled,), jacobian) = call(X, Y)
        assert_same(pulled, Y.asnumpy() * 10)
        assert_same(jacobian, 10 * np.eye(3, dtype=np.float32))
    finally:
        ms.ops.gradient.bprop_getters.unregister(ops.Tan)
    assert_result(call(X, Y), before, 1.0)


class Noisy(nn.Cell):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(p=0.5)
        self.n = Parameter(Tensor(0.0), name="n", requires_grad=False)
        self.last = vector()

    def construct(self, a):
        self.n += 1
        self.last = self.drop(a) * self.n
        return self.last * a


def test_state_and_random_numbers():
    """The same draws, writes and results; a pull draws nothing anew."""
    results = []
    for jitted in (False, True):
        net = Noisy().set_train()

        def call(a, b, net=net):
            value, pull = ms.vjp(net, a)
            more = ops.dropout(a, 0.5)
            return value, pull(b), pull(a), more, net(a), ms.jvp(net, a, b), ms.jacrev(net)(a)

        run = ms.jit(call) if jitted else call
        ms.set_seed(3)
        found = [run(X, Y) for _ in range(2)]
        results.append((found, (net.n, net.last)))
    assert_result(results[1], results[0], 10.0)


class Raising(nn.Cell):
    """Writes an attribute, prints or raises, in a loop and in an arm, as Tensors decide."""

    def __init__(self):
        super().__init__()
        self.h, self.g, self.turns = vector(), vector(4, 5, 6), Tensor(2)

    def looped(self, v):
        while self.turns > 5:
            self.h = self.g
            raise ValueError("looped")
        return v * v

    def printed(self, v):
        print("printed", v)
        self.h = v * 2
        return v * v

    def chosen(self, v):
        if v > 2:
            self.h = self.g * v
            raise ValueError("chosen")
        return v * v

    def construct(self, x, choose, wrap):
        function = wrap(getattr(self, choose))
        found = ms.jvp(function, x, x) if x > 0 else None
        return found, self.h


class OwnRule(Raising):
    def looped(self, v):
        return self.inner(v)

    def __init__(self):
        super().__init__()
        net = self

        class Inner(nn.Cell):
            def construct(self, v):
                return Raising.looped(net, v)

            def bprop(self, v, out, dout):
                return (dout * 3,)

        self.inner = Inner()


WRAPS = {
    "function": lambda f: f,
    "grad": lambda f: ms.grad(f),
    "jvp": lambda f: lambda v: ms.jvp(f, v, v),
    "grad of jvp": lambda f: ms.grad(lambda v: ms.jvp(f, v, v)[1]),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("cell, method", [(Raising, "looped"), (Raising, "printed"),
                                          (Raising, "chosen"), (OwnRule, "looped")])  # fmt: skip
def test_what_a_linearised_function_writes_has_no_second_effect(monkeypatch, cell, method, wrap):
    """The graph that gives the values written has none: all effects are in J's forward graph."""
    monkeypatch.setenv("MINISPORE_DEBUG", "1")  # verify every graph
    for turns in (2, 7):
        for x in (1.0, 3.0):
            net = cell()
            net.turns = Tensor(turns)
            agree(net, Tensor(x), method, wrap)
