"""Sizes that depend on values, inside graphs: nonzero, masked_select, unique, x[mask].

Each program runs in PyNative mode, in the graph of every stage, and as execution.
"""

import numpy as np
import pytest
from differential import Programs, Refusals, agree
from helpers import assert_same

import minispore as ms
from minispore import Tensor, nn, ops
from minispore.compile import JitFunction

programs, refusals = Programs(), Refusals()
X = np.array([1.0, -2, 3, -4, 5], np.float32)
NONE = np.array([-1.0, -2], np.float32)
ONE = np.array([-1.0, 2, -3], np.float32)
M = np.arange(-4, 8, dtype=np.float32).reshape(3, 4)
W = np.array([[0.5, -1], [2, 1]], np.float32)
VECTORS = (X, NONE, ONE)


# ------------------------------------------------------------------------- sizes as numbers


@programs.on(*VECTORS)
def shapes(x):
    y = x[x > 0]
    return y.shape, y.shape[0], len(y), y.size, y.ndim, y.nbytes, ops.shape(y), y[None].shape


@programs.on(*VECTORS)
def arithmetic(x):
    n = x[x > 0].shape[0]
    return n + 1, 2 * n - n, n * n // 2, (n + 3) % 4, n / 2, n**2, -n, abs(n), float(n), n * 1.5


@programs.on(*VECTORS)
def decides(x):
    n = len(x[x > 0])
    if n > 1:
        return x.sum()
    return x.min() if n else x.max()


@programs.on(*VECTORS)
def compared(x):
    n, k = len(x[x > 0]), x.shape[0]
    same = x[x > 0].shape == x[x > 0].shape
    return n == 1, n != k, n < k, 3 >= n, same, min(n, 2), max(1, n), n in (0, 3), bool(n)


@programs.on(*VECTORS)
def shown(x):
    y = x[x > 0]
    print(y.shape, len(y), f"{len(y):>4} of {x.shape[0]}", y)
    assert len(y) < 4, f"too many: {len(y)}"
    return f"{y.shape}"


@programs.on(*VECTORS)
def numbers_and_tensors(x):
    n = len(x[x > 0])
    return x * n, x / (n + 1), n - x, ops.full((2,), n), Tensor([n, 1]), x[: x.shape[0]] + n


@programs.on(*VECTORS)
def looped_over(x):
    total = x[0]
    for i in range(len(x[x > 0])):
        total = total + i
    for value in x[x > 0]:
        total = total * 2 + value
    return total


@programs.on(X, ONE)
def chosen_by_a_size(x):
    n = len(x[x > 0])
    return [x, x + 1, x * 2, x * 3][n], {1: x, 3: x * 2}[n]


@programs.on(*VECTORS)
def in_arms(x):
    n = len(x[x > 0]) if x[0] > 0 else 0
    return n, x * n


# ------------------------------------------------------------------------- Tensors of such sizes


@programs.on(*VECTORS)
def computed(x):
    y = x[x > 0]
    return y * 2 + 1, y + y, y * x[x > 0], ops.exp(-y), y > 2, ops.where(y > 2, y, 0 * y), -y


@programs.on(*VECTORS)
def reduced(x):
    y = x[x > 0]
    return y.sum(), y.prod(), ops.cumsum(y, 0), y.any(), ops.norm(y), ops.count_nonzero(y)


@programs.on(X, ONE)
def averaged(x):
    y = x[x > 0]
    return y.mean(), y.max(), y.min(), y.argmax(), y.var(), y.std(), ops.softmax(y)


@programs.on(NONE)
def reduced_over_nothing(x):
    return x[x > 0].max()


@programs.on(*VECTORS)
def reshaped(x):
    y = x[x > 0]
    rows = y.reshape(-1, 1)
    return (
        rows,
        rows.T,
        y[None, :],
        rows.squeeze(1),
        rows.reshape(-1),
        y.expand_dims(0),
        y.flatten(),
    )


@programs.on(*VECTORS)
def products(x):
    y = x[x > 0]
    return y @ y, y.reshape(-1, 1) @ y.reshape(1, -1), ops.outer(y, x), y.reshape(-1, 1) * x


@programs.on((M, W))
def rows(x, w):
    y = x[x.sum(1) > 0]
    return y, y[:, :2] @ w, y.sum(0), y.mean(1), y.T, y[:, 1], y.reshape(-1), y.reshape(-1, 2) @ w


@programs.on(*VECTORS)
def joined(x):
    y = x[x > 0]
    both = ops.concat((y, x, y))
    return both, both.shape, both.sum(), ops.stack((y, y * 2)), ops.concat((y, y)) + 1


@programs.on(*VECTORS)
def sliced(x):
    y = x[x > 0]
    return y[1:], y[:-1], y[:2], y[::2], y[::-1], y[-2:], y[1:] + y[:-1], y[5:], y[1:].shape


@programs.on(X, ONE)
def indexed(x):
    y = x[x > 0]
    return y[0], y[-1], y[[0, -1]], y[ops.argmax(y)], y[len(y) - 1]


@programs.on(NONE, (ONE,))
def indexed_too_far(x):
    return x[x > 0][1]


@programs.on(*VECTORS)
def made(x):
    y = x[x > 0]
    n = y.shape[0]
    return ops.zeros_like(y), ops.ones((n, 2)), ops.arange(n) * 2, ops.full((n,), 3), ops.zeros(n)


@programs.on(*VECTORS)
def repeated(x):
    y = x[x > 0]
    return ops.broadcast_to(y, (2, y.shape[0])), y.tile((2,)), ops.broadcast_to(x[:1], y.shape)


@programs.on(*VECTORS)
def selected_again(x):
    y = x[x > 0]
    z = y[y > 2]
    return z, z.sum() / (len(y) + 1), y[y < 100] - y[y < 100]


@programs.on(*VECTORS)
def written(x):
    y = x[x > 0]
    y[y > 2] = 0
    z = x * 1
    z[z > 0] = z[z > 0] * 2
    z[z < 0] += 1
    return y, z


@programs.on(*VECTORS)
def of_ops(x):
    mask = x > 0
    return (
        ops.nonzero(mask), ops.nonzero(x.reshape(1, -1) > 0, as_tuple=True), ops.argwhere(mask),
        ops.masked_select(x, mask), x.masked_select(mask), ops.unique(x * x % 3), x.nonzero(),
    )  # fmt: skip


@programs.on(M)
def gathered(x):
    places = ops.nonzero(x > 2)
    i = ops.unique(x.astype(ms.int64) % 3)[0]
    return (
        ops.gather_nd(x, places),
        x[i],
        ops.gather(x, i, 1),
        ops.one_hot(i, 3),
        ops.sort(i * -1.0),
    )


@programs.on(M)
def masks_of_two_axes(x):
    return x[x > 1], x[x[:, 0] > -1, 1:], x[:, x[0] > -3], x[x > 1].shape, x[None, x > 2]


@programs.on((M, X))
def two_sizes(x, y):
    a, b = x[x > 0], y[y > 0]
    return a.reshape(-1, 1) * b, (a.reshape(-1, 1) * b).sum(0), ops.concat((a, b)), len(a) - len(b)


# ------------------------------------------------------------------------- control flow


@programs.on(*VECTORS)
def in_an_if(x):
    if x.sum() > 0:
        y = x[x > 0].sum()
    else:
        y = x[x < 0].mean()
    return y


@programs.on(*VECTORS)
def of_a_mask_made_before(x):
    mask = x > 0
    if x.sum() > 0:
        y = x[mask] * 2
    else:
        y = x[mask] - 1
    return y, y.sum(), y + x[mask]


@programs.on(*VECTORS)
def in_a_while(x):
    i = Tensor(0)
    total = x[0] * 0
    while i < 4:
        y = x[x > i]
        if len(y) > 1:
            total = total + y.sum() / len(y)
        i = i + 1
    return total, x[x > 0]


@programs.on(*VECTORS)
def carried(x):
    y = x[x > 0]
    i = Tensor(0)
    while i < 3:
        y = y * 2 - x.sum()
        i = i + 1
    return y


def helper(x, low):
    return x[x > low]


@programs.on(*VECTORS)
def in_functions(x):
    y = helper(x, 0)
    return y, helper(y, 2), helper(x, x[0]).sum() + len(y), [helper(x, k) for k in range(2)]


# ------------------------------------------------------------------------- gradients


def graded(f):
    """A decorator: the function's value and gradient, of vectors."""

    def run(x):
        return ms.value_and_grad(f)(x)

    run.__name__ = f.__name__
    return programs.on(*VECTORS)(run)


@graded
def grad_of_a_sum(x):
    return (x[x > 0] ** 2).sum()


@graded
def grad_of_masked_select(x):
    return ops.masked_select(x, x > 0).sum() * x.sum()


@graded
def grad_of_sizes(x):
    y = x[x > 0]
    return (y * y).sum() / (y.shape[0] + 1) * len(x[x > 2])


@graded
def grad_of_a_softmax(x):
    y = x[x > 0]
    return (ops.softmax(y) * y).sum() + (y.reshape(-1, 1) @ y.reshape(1, -1)).sum()


@graded
def grad_of_slices(x):
    y = x[x > 0]
    return (y[1:] * y[:-1]).sum() + (y[::2] ** 2).sum() + y[:2].sum()


@graded
def grad_of_joins(x):
    y = x[x > 0]
    z = ops.concat((y, x * 2, y * y))
    return (z * z).sum() + ops.stack((y, y * y)).sum() + (y.reshape(-1, 1) * x).sum()


@graded
def grad_of_positions(x):
    places = ops.nonzero(x > 0).reshape(-1)
    return (ops.gather(x, places, 0) ** 3).sum() + x[places].sum()


@graded
def grad_of_unique(x):
    values, inverse = ops.unique(ops.stop_gradient(x))
    return (values[inverse] * x).sum()


@graded
def grad_in_an_if(x):
    y = x[x > 0]
    if x.sum() > 2:
        return (y * y).sum()
    return x.sum() + x[x < 0].sum() ** 2


@graded
def grad_in_both_arms(x):
    mask = x > 0
    y = x[mask] * 2 if x.sum() > 2 else x[mask] * x[mask]
    return (y * y).sum() * x[0]


@graded
def grad_in_a_while(x):
    i = Tensor(0)
    total = x.sum()
    while i < 3:
        y = x[x > i]
        total = total + (y * y).sum() / (len(y) + 1)
        i = i + 1
    return total


@graded
def grad_round_a_while(x):
    y = x[x > 0]
    i = Tensor(0)
    while i < 3:
        y = y * y * 0.5
        i = i + 1
    return y.sum()


@graded
def grad_of_writes(x):
    y = x * 2
    y[y > 2] = y[y > 2] * y[y > 2]
    return y.sum()


@programs.on(X, ONE)
def grad_of_means(x):
    def f(x):
        y = x[x > 0]
        return y.mean() + y.max() * y.min() + y.var() + y[0] * y[-1]

    return ms.value_and_grad(f)(x)


@programs.on(*VECTORS)
def of_the_selected(x):
    return ms.grad(lambda y: (y**3).sum())(x[x > 0]), ms.grad(lambda y, z: z.sum())(x[x > 0], x)


@programs.on(*VECTORS)
def second_order(x):
    def f(x):
        return (x[x > 0] ** 3).sum()

    return ms.grad(lambda x: (ms.grad(f)(x) * x).sum())(x)


@programs.on(*VECTORS)
def with_cotangents(x):
    y = x[x > 0]
    return ms.grad(lambda y: y * y, sens_param=True)(y, y + 1)


@programs.on(*VECTORS)
def pulled_back(x):
    def f(x):
        return x[x > 0] * x.sum()

    y, pull = ms.vjp(f, x)
    return y, pull(y * 2), pull(y), y.sum(), ms.jvp(f, (x,), (x + 1,)), y.reshape(-1, 1) * x


@programs.on(*VECTORS)
def all_derivatives(x):
    return ms.jacrev(lambda x: x[x > 0].sum() * x)(x), ms.jacfwd(lambda x: x[x > 0] * 2)(x)


@pytest.mark.parametrize(("fn", "args"), programs)
def test_program(fn, args):
    programs.run(fn, args)


# ------------------------------------------------------------------------- refused


@refusals.on(TypeError, "the size .*m1.* cannot be known when the graph is compiled", X)
def needs_a_constant(x):
    return x.split(len(x[x > 0]))


@refusals.on(TypeError, "cannot be known", X)
def two_sizes_that_may_differ(x):
    return x[x > 0] + x[x > 1]


@refusals.on(TypeError, "cannot be known", X)
def no_error_to_handle(x):
    try:
        return x.split(len(x[x > 0]))
    except Exception:
        return x


@refusals.on(TypeError, "whether a value of shape", X)
def a_value_of_another_size(x):
    x = x * 1
    x[x > 0] = Tensor([1.0, 2, 3])
    return x


@refusals.on(TypeError, r"from Tensor\[Float32, \(2\*m1\)\].* to Tensor\[Float32, \(4\*m1", X)
def grows_in_a_loop(x):
    y = x[x > 0]
    while y.sum() < 100:
        y = ops.concat((y, y * 2))
    return y


@refusals.on(TypeError, "its type depends on a Tensor", X)
def arms_differ(x):
    y = x[x > 0] if x.sum() > 0 else x[x > 1]
    return y


@refusals.on(TypeError, "m1 - m2", X)
def a_cotangent_of_a_size_that_may_differ(x):
    return ms.grad(lambda x: x[x > 0] * 3, sens_param=True)(x, x[x > 0])


@refusals.on(TypeError, "Unique has no gradient", X)
def no_gradient(x):
    return ms.grad(lambda x: ops.unique(x)[0].sum())(x)


@pytest.mark.parametrize(("fn", "args", "error", "match"), refusals)
def test_refused(fn, args, error, match):
    refusals.run(fn, args, error, match)


# ------------------------------------------------------------------------- cells and reuse


def test_one_graph_for_all_counts():
    f = JitFunction(lambda x: (x[x > 0].sum(), ops.nonzero(x), len(x[x > 0])))
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = Tensor(rng.normal(size=6).astype(np.float32))
        assert_same(f(x), (x[x > 0].sum(), ops.nonzero(x), len(x[x > 0])))
    assert f.compile_count == 1


def test_training_on_what_a_mask_selects():
    net = nn.Dense(4, 2)
    start = [p.asnumpy().copy() for p in net.trainable_params()]
    x, y = (
        Tensor(np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)),
        Tensor(M[:2, :2]),
    )

    def train(compiled):
        for p, value in zip(net.trainable_params(), start, strict=True):
            p.set_data(Tensor(value))
        optimizer = nn.SGD(net.trainable_params(), 0.1)

        def loss(x):
            kept = x[x[:, 0] > 0]
            return ops.square(net(kept) - y.sum()).mean()

        def step(x):
            value, gradients = ms.value_and_grad(loss, None, optimizer.parameters)(x)
            optimizer(gradients)
            return value

        run = ms.jit(step) if compiled else step
        return [run(x * k) for k in (1, -1, 2)]

    assert_same(train(True), train(False), 10)


def test_under_a_tape():
    f = JitFunction(lambda x: (x[x > 0] ** 2).sum())
    for x in VECTORS:
        assert_same(ms.grad(f)(Tensor(x)), np.where(x > 0, 2 * x, np.float32(0)))
    g = JitFunction(lambda x: x[x > 0] * 3)  # its result has the size
    assert_same(ms.grad(lambda x: (g(x) ** 2).sum())(Tensor(X)), np.where(X > 0, 18 * X, 0 * X))


def random_program(x):
    y = x[x > 0]
    return ops.dropout(y, 0.5).shape[0] - ops.rand_like(y).shape[0]


def test_random_numbers_of_such_a_size():
    agree(random_program, Tensor(X))
