"""WhileLoop, ForiLoop and Scan: like the loops that they stand for, in both modes, with gradients.

The reference is the loop written out in Python, on NumPy values.
"""

from collections import namedtuple

import numpy as np
import pytest
from differential import Programs, agree, points_at
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.compile import JitFunction
from minispore.inputs import Inputs

PROGRAMS = Programs()
SIZES = (1.0, 10.0, 100.0)
State = namedtuple("State", "x n")
while_loop, fori_loop, scan = ops.WhileLoop(), ops.ForiLoop(), ops.Scan()


# --------------------------------------------------------------------- against Python's loops


def python_while(cond_func, loop_func, value):
    while cond_func(value):
        value = loop_func(value)
    return value


def python_for(lower, upper, loop_func, value):
    for i in range(lower, upper):
        value = loop_func(i, value)
    return value


def python_scan(loop_func, value, xs):
    kept = []
    for x in xs:
        value, y = loop_func(value, x)
        kept.append(y)
    return value, kept


class Picky(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor(3.0), name="weight")

    def construct(self, x, y):
        def both(a, b):
            self.weight += a
            return a * self.weight, b

        return ops.cond(x > y, both, lambda a, b: (b - a, a), x, y)


@pytest.mark.parametrize("x, y", [(2.0, 1.0), (1.0, 2.0)])
def test_cond_is_an_if(x, y):
    net = Picky()
    agree(lambda a, b: net(a, b), Tensor(x), Tensor(y), state=[net.weight])
    gradients = ms.grad(lambda u, v: net(u, v)[0], (0, 1))
    agree(lambda a, b: gradients(a, b), Tensor(x), Tensor(y), state=[net.weight])
    assert ops.cond(x > y, lambda: 1, lambda: 2) == (1 if x > y else 2)
    with pytest.raises(TypeError, match="false_func must be a function, not int"):
        ops.cond(True, lambda: 1, 2)


@pytest.mark.parametrize("start", [0.5, 3.0, 50.0])
def test_while_loop_is_pythons(start):
    def small(pair):
        return pair[0].sum() < 40

    def double(pair):
        return pair[0] * 2, pair[1] + 1

    def program(x):
        return ops.while_loop(small, double, (x, 0))

    x = np.array([start, -0.25])
    assert_same(agree(program, Tensor(x)), python_while(small, double, (x, 0)))


@pytest.mark.parametrize("bounds", [(0, 5), (2, 4), (-3, 2), (4, 4), (5, 2), (0, 40)])
@pytest.mark.parametrize("unroll", [True, False])
def test_fori_loop_is_pythons(bounds, unroll):
    def step(i, x):
        return x * 0.9 + i

    def program(x):
        return ops.fori_loop(*bounds, step, x, unroll)

    def program_of_tensors(x, lower, upper):
        return ops.fori_loop(lower, upper, step, x, unroll=unroll)

    x = np.array([1.0, -2.0])
    expected = python_for(*bounds, step, x)
    assert_same(agree(program, Tensor(x)), expected)
    assert_same(agree(program_of_tensors, Tensor(x), *map(Tensor, bounds)), expected)


@pytest.mark.parametrize("n", [0, 1, 5, 40])
def test_scan_is_pythons(n):
    def step(total, x):
        return total + x * total, total * x

    def program(x):
        return ops.scan(step, x, [x * i for i in range(n)])

    x = np.array([0.1, -0.2])
    total, kept = python_scan(step, x, [x * i for i in range(n)])
    found = agree(program, Tensor(x), factor=10)
    assert_same([found[0], *found[1]], [total, *kept])


# ------------------------------------------------------------------------ kinds of carries


@PROGRAMS.on(*SIZES)
def carry_of_a_list(x):
    return while_loop(lambda v: v[0] < 50, lambda v: [v[0] * 2, v[1] + 1], [x, 0])


@PROGRAMS.on(*SIZES)
def carry_of_a_dict(x):
    def step(state):
        return {"x": state["x"] * 2, "seen": [state["seen"][0] + 1, state["x"]]}

    return while_loop(lambda s: s["x"] < 50, step, {"x": x, "seen": [0, x]})


@PROGRAMS.on(*SIZES)
def carry_of_a_named_tuple(x):
    last = while_loop(lambda s: s.x < 50, lambda s: State(s.x * 2, s.n + 1), State(x, 0))
    return last.x, last.n


@PROGRAMS.on(*SIZES)
def carry_whose_lists_are_written(x):
    first = [x, [1, 2.0]]

    def step(state):
        state[0] = state[0] * 2
        state[1][0] += 1
        return state

    return while_loop(lambda s: s[0] < 50, step, first), first


@PROGRAMS.on(*SIZES)
def carry_of_numbers_and_strings(x):
    def step(i, carry):
        count, half, flag, text = carry
        return count + i, half / 2, not flag, text

    return fori_loop(0, x.astype(ms.int64), step, (0, 1.0, False, "same"))


@PROGRAMS.on(*SIZES)
def carry_of_a_number_that_constants_decide(x):
    return x * while_loop(lambda i: i * i < 500, lambda i: i + 1, 0)


@PROGRAMS.on(*SIZES)
def no_iteration(x):
    return while_loop(lambda v: v < 0, lambda v: v * 2, x), fori_loop(3, 3, lambda i, v: v * i, x)


@PROGRAMS.on(*SIZES)
def scan_over_nothing_but_a_length(x):
    return scan(lambda v, _: (v * 2, {"v": v}), x, None, 3)


@PROGRAMS.on(*SIZES)
def scan_over_pairs_and_texts(x):
    def step(carry, item):
        name, weight = item
        return (carry[0] + weight, carry[1] + 1), f"{name}{carry[1]}"

    return scan(step, (x, 0), (("a", 1.0), ("b", x), ("c", 2)), length=3)


@pytest.mark.parametrize("first", [lambda x: x, lambda x: [x, 1], lambda x: {"x": x, "n": 0}])
def test_a_long_loop_stays_one_in_the_graph(first):
    def step(i, value):
        if isinstance(value, list):
            return [value[0] * 0.9 + i, value[1] + 1]
        if isinstance(value, dict):
            return {"x": value["x"] * 0.9 + i, "n": value["n"] + i}
        return value * 0.9 + i

    def program(x):
        return ops.fori_loop(0, 400, step, first(x))

    x = Tensor([1.0, 2.0])
    agree(program, x, factor=10)
    compiled = ms.jit(program)
    compiled(x)
    assert compiled.graph().count() < 100


# ------------------------------------------------------------------- loops in programs


@PROGRAMS.on(*SIZES)
def loops_in_loops(x):
    def grow(v):
        return fori_loop(0, 3, lambda i, w: w + i, v) * 1.5

    def step(carry, factor):
        carry = while_loop(lambda v: v < factor * 10, grow, carry)
        return carry / 2, carry

    return scan(step, x, [1, 2, x])


@PROGRAMS.on(*SIZES)
def closure_that_reads_and_prints(x):
    scale = x * 0.5 + 1

    def step(i, v):
        print("at", i, v)
        if v > 60:
            return v - scale
        return v * scale

    return ops.ForiLoop()(0, 3, step, x)


@PROGRAMS.on(*SIZES)
def in_an_arm(x):
    if x > 5:
        x = while_loop(lambda v: v > 3, lambda v: v / 2, x)
    else:
        x = x + 1
    return x


@PROGRAMS.on(*SIZES)
def function_that_fails(x):
    def step(i, v):
        if v > 150:
            raise ValueError(f"too large: {v}")
        return v * 2

    return fori_loop(0, 3, step, x)


@PROGRAMS.on(*SIZES)
def gradient_inside(x):
    def cubed(v):
        return v * v * v

    return fori_loop(0, 2, lambda i, v: v + 0.01 * ms.grad(cubed)(v), x)


@pytest.mark.parametrize("program, args", PROGRAMS)
def test_program(program, args):
    PROGRAMS.run(program, args)


class Recurrent(nn.Cell):
    """Applies one layer as often as a Tensor says, and until its result is small."""

    def __init__(self):
        super().__init__()
        weight = Tensor([[0.5, 0.1], [-0.2, 0.4]], ms.float32)
        self.layer = nn.Dense(2, 2, weight_init=weight, has_bias=False)
        self.repeat = ops.ForiLoop()

    def step(self, index, x):
        return self.layer(x) + index

    def construct(self, x, times):
        x = self.repeat(0, times, self.step, x)
        return ops.while_loop(lambda v: ops.abs(v).sum() > 1, self.layer, x)


@pytest.mark.parametrize("times", [0, 1, 4])
def test_in_a_cell(times):
    net = Recurrent()
    x = Tensor([[1.0, -2.0]], ms.float32)
    weights = net.trainable_params()

    def program(x, n):
        out = net(x, n)
        grads = ms.grad(lambda v, m: net(v, m).sum(), 0, weights)(x, n)
        return out, grads

    agree(program, x, Tensor(times))


# ------------------------------------------------------------------------------- gradients


def doubled_until_large(x):
    return while_loop(lambda v: v.sum() < 30, lambda v: v * 2 + v * v * 0.1, x)


def powers(x, n):
    return fori_loop(0, n, lambda i, c: (c[0] * x, c[1] + c[0] / (i + 1)), (x, x * 0))[1]


def scanned(x):
    last, kept = scan(lambda c, w: (c * w, c + w), x, [x, x * 2, ops.sin(x)])
    return last + sum(kept)


@pytest.mark.parametrize("values", [(0.5, 1.5), (4.0, -3.0), (20.0, 30.0)])
def test_gradients(values):
    x, n = Tensor(list(values), ms.float64), Tensor(4)

    def first(x, n):
        def loss(x):
            return doubled_until_large(x).sum() + powers(x, n).sum() + scanned(x).sum()

        return ms.value_and_grad(loss)(x)

    def second(x, n):
        def slope(x):
            return (ms.grad(lambda v: powers(v, n).sum() + scanned(v).sum())(x) * x).sum()

        return ms.grad(slope)(x), ms.grad(lambda v: doubled_until_large(v).sum())(x)

    def written_out(x, n):
        def loss(x):
            v = python_while(lambda v: v.sum() < 30, lambda v: v * 2 + v * v * 0.1, x)
            c = python_for(0, n, lambda i, c: (c[0] * x, c[1] + c[0] / (i + 1)), (x, x * 0))
            last, kept = python_scan(lambda c, w: (c * w, c + w), x, [x, x * 2, ops.sin(x)])
            return v.sum() + c[1].sum() + (last + sum(kept)).sum()

        return ms.value_and_grad(loss)(x)

    found = agree(first, x, n)
    assert_same(found, written_out(x, n))
    agree(second, x, n, factor=10)


# -------------------------------------------------------------------------------- refusals


def fails(error, match, program, *args):
    """Assert that a program fails so in both modes, and points at its line when compiled."""
    with pytest.raises(error, match=match):
        program(*args)
    with pytest.raises(error, match=match) as caught:
        ms.jit(program)(*args)
    assert points_at(caught.value, __file__)


X = Tensor([1.0, 2.0], ms.float32)
CHANGES = [
    (lambda v: v.astype(ms.float16), X, r"Tensor\[Float32, \(2\)\] and returned Tensor\[Float16"),
    (lambda v: ops.concat([v, v]), X, r"Tensor\[Float32, \(2\)\] and .* Tensor\[Float32, \(4\)\]"),
    (lambda v: v + 0.5, 1, "int and returned float"),
    (lambda v: X, 1.0, "float and returned Tensor"),
    (lambda v: [v[0], v[1]], (X, 1), r"tuple\(.*, int\) and returned list\(.*, int\)"),
    (lambda v: (*v, 1), (X, 1), r"int\) and returned tuple\(.*, int, int\)"),
    (lambda v: {"b": v["a"]}, {"a": 1}, "{'a': int} and returned {'b': int}"),
    (lambda v: None, 2, "int and returned None"),
]


@pytest.mark.parametrize("step, first, match", CHANGES)
def test_the_carry_keeps_its_type(step, first, match):
    def by_while(x):
        return while_loop(lambda v: x.sum() > 0, step, first)

    def by_for(x, n):
        return fori_loop(0, n, lambda i, v: step(v), first)

    def by_scan(x):
        return scan(lambda v, _: (step(v), 0), first, [1, 2])

    fails(TypeError, f"WhileLoop's loop_func was given .*{match}", by_while, X)
    fails(TypeError, f"ForiLoop's loop_func was given .*{match}", by_for, X, Tensor(3))
    fails(TypeError, f"Scan's loop_func was given .*{match}", by_scan, X)


REFUSED = [
    (lambda x: while_loop(3, ops.abs, x), TypeError, "cond_func must be a function, not int"),
    (lambda x: while_loop(ops.abs, x, x), TypeError, "loop_func must be a function, not Tensor"),
    (lambda x: while_loop(lambda v: False, ops.abs, {1, 2}), TypeError, "not set"),
    (lambda x: while_loop(lambda v: False, ops.abs, [ops.abs]), TypeError, "not function"),
    (lambda x: fori_loop(0.0, 1, ops.add, x), TypeError, "lower must be an int or a Tensor"),
    (lambda x: fori_loop(0, True, ops.add, x), TypeError, "upper must be .* not bool"),
    (lambda x: fori_loop(0, x[0], ops.add, x), TypeError, "integer Tensor"),
    (lambda x: fori_loop(0, 2, None, x), TypeError, "loop_func must be a function"),
    (lambda x: fori_loop(0, 2, ops.add, x, 1), TypeError, "unroll must be a bool, not int"),
    (lambda x: scan(1, x, []), TypeError, "loop_func must be a function"),
    (lambda x: scan(ops.add, x, x), TypeError, "xs must be a tuple, a list or None, not Tensor"),
    (lambda x: scan(ops.add, x, None), TypeError, "length must be an int, not NoneType"),
    (lambda x: scan(ops.add, x, [x], 1.0), TypeError, "length must be an int, not float"),
    (lambda x: scan(ops.add, x, [x], 2), ValueError, "length is 2"),
    (lambda x: scan(ops.add, x, None, -1), ValueError, "length is -1"),
    (lambda x: scan(ops.add, x, [x], 1, 0), TypeError, "unroll must be a bool"),
    (lambda x: scan(ops.add, x, [x]), ValueError, r"return a pair, not Tensor\[Float32, \(2\)\]"),
]


@pytest.mark.parametrize("program, error, match", REFUSED)
def test_refused(program, error, match):
    fails(error, match, program, X)


# ------------------------------------------------------------------------- sizes and numbers


def swaps(x, y):
    looped = while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, v[2], v[1]), (Tensor(0), x, y))
    return looped, fori_loop(0, x.shape[0], lambda i, v: y + i, x), scan(
        lambda c, v: (v, c), x, [x, y], 2
    )  # fmt: skip


def test_sizes_that_are_equal_at_a_call_go_round():
    f = JitFunction(swaps)
    f.described = Inputs((Tensor(shape=[None], dtype=ms.float32),) * 2)
    for n in (3, 5, 1):
        x, y = Tensor(np.arange(n, dtype=np.float32)), Tensor(np.ones(n, np.float32))
        assert_same(f(x, y), swaps(x, y))
    with pytest.raises(TypeError, match="keep its type") as caught:
        f(x, Tensor([1.0, 2.0]))
    assert points_at(caught.value, __file__)
    assert "Leaf" not in "".join(caught.value.__notes__)  # a value of ours


def with_a_number(x, n):
    counted = while_loop(lambda v: v[0] < 9, lambda v: (v[0] + n, v[1] * 2), (n, x))
    return counted, fori_loop(0, n, lambda i, v: v + i, x), scan(lambda c, v: (c + v, c), n, [n, 2])


def test_mutable_numbers_go_round():
    f = ms.jit(with_a_number)
    for n in (2, 4):
        found, wanted = f(Tensor([1.0]), ms.mutable(n)), with_a_number(Tensor([1.0]), n)
        assert_same(found, wanted)
        assert_same(with_a_number(Tensor([1.0]), ms.mutable(n))[:2], wanted[:2])
    assert f.compile_count == 1


def test_scan_as_often_as_a_size():
    f = JitFunction(lambda x: scan(lambda c, v: (c + 1, c), x, None, x.shape[0]))
    f.described = Inputs((Tensor(shape=[None], dtype=ms.float32),))
    for n in (3, 0):
        x = Tensor(np.ones(n, np.float32))
        assert_same(f(x), (x + n, [x + i for i in range(n)]))
