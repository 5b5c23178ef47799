"""Recursion that Tensors decide: PyNative == every stage of the graph == execution."""

import numpy as np
import pytest
from differential import Programs, Refusals, agree
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.tree import Container

PROGRAMS = Programs()
REFUSALS = Refusals()


@PROGRAMS.on(0.0, 1.0, 5.0)
def factorial(n):
    if n <= 1:
        return Tensor(1.0)
    return n * factorial(n - 1)


@PROGRAMS.on(0, 1, 9)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


@PROGRAMS.on(0, 7, 8)
def mutual(n):
    return is_even(n), is_odd(n), [is_even(n + 1)]


@PROGRAMS.on(90, 101)
def nested_in_its_argument(n):
    if n > 100:
        return n - 10
    return nested_in_its_argument(nested_in_its_argument(n + 11))


@PROGRAMS.on((0, 3), (2, 2))
def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, ops.ones_like(n))
    return ackermann(m - 1, ackermann(m, n - 1))


def stairs(n, x):
    while x > n:
        x = stairs(n + 1, x - 1)
    return x


@PROGRAMS.on(0.0, 3.0, 6.5)
def called_in_the_body_of_its_loop(x):
    return stairs(0, x)


def doublings(x, count):
    return count if x > 100 else doublings(x * 2, count + 1)


@PROGRAMS.on(1.0, 99.0, 1000.0)
def number_that_each_call_changes(x):
    return doublings(x, 0), doublings(x, 2.5)


def limited(x, left, factor):
    if left == 0 or x.sum() > 1000:
        return x, left
    return limited(x * factor, left - 1, factor)


@PROGRAMS.on([1.0, 2.0], [0.01, 0.1], [600.0, 600.0])
def number_that_ends_it_too(x):
    return limited(x, 20, 2), limited(x, 3, 2)


def reshaped(x, rows):
    if rows == 1 or x.sum() > 100:
        return x.sum()
    return reshaped(x.reshape(rows, -1) * 2, rows - 1)


@PROGRAMS.on([1.0] * 60, [2.0] * 60)
def number_that_must_be_a_constant(x):
    return reshaped(x[:12], 4) + reshaped(x, 3)


def halved(x, found):
    if x < 1:
        return found, {"last": x, "all": [x, x * 2]}
    return halved(x / 2, (found[0] + x, found[1] * x))


@PROGRAMS.on(0.5, 9.0)
def tuples_and_dicts(x):
    return halved(x, (Tensor(0.0), Tensor(1.0)))


def sign_of_the_end(x):
    if x > 10:
        return "large"
    return "negative" if x < 0 else sign_of_the_end(x * 3 - 2)


@PROGRAMS.on(0.9, 2.0)
def strings(x):
    return sign_of_the_end(x), sign_of_the_end(x - 0.1) == "large"


@PROGRAMS.on((1.0, 2.0), (50.0, 2.0))
def closure_over_a_tensor(x, y):
    w = y * 3

    def go(v):
        return v if v > 30 else go(v + w) + w

    return go(x)


@PROGRAMS.on(1.0, 50.0)
def names_of_the_function_around(x):
    calls, last, path = 0, x, {"sum": x * 0}

    def go(v):
        nonlocal calls, last
        calls += 1
        path["sum"] = path["sum"] + v
        if v > 30:
            last = v
            return v
        out = go(v * 2)
        path["sum"] = path["sum"] - 1
        return out

    return go(x), calls, last, path


@PROGRAMS.on(1.0, 50.0)
def depth_that_is_restored(x):
    depth = 0
    deepest = 0

    def go(v):
        nonlocal depth, deepest
        depth += 1
        deepest = max(depth, deepest)
        out = v if v > 30 else go(v * 2) + depth
        depth -= 1
        return out

    return go(x), depth, deepest


@PROGRAMS.on(1.0, 50.0)
def in_a_loop_of_its_own(x):
    total = x
    for _ in range(2):
        if total < 20:
            total = total + in_a_loop_of_its_own(total * 2)
    return total


@PROGRAMS.on(1.0, 50.0)
def in_a_while_of_its_own(x):
    while x < 20:
        x = in_a_while_of_its_own(x * 2) + 1
    return x


@PROGRAMS.on(3.0, 30.0)
def effects_in_order(x):
    print("enter", x)
    assert x < 1000, "too large"
    if x < 20:
        effects_in_order(x * 3)
        print("between")
        effects_in_order(x * 5)
    print("leave", x)


@PROGRAMS.on(1.0, -1.0)
def error_in_the_deepest_call(x):
    if x > 20:
        raise ValueError(f"too far: {x}")
    if x < 0:
        return x
    return error_in_the_deepest_call(x * 2)


@PROGRAMS.on(1.0, 7.0)
def function_as_an_argument(x):
    def repeat(f, v):
        return v if v > 50 else repeat(f, f(v))

    return repeat(lambda v: v * 3, x), repeat(ops.square, x + 1)


@PROGRAMS.on(4.0, 30.0)
def returned_argument_is_read_after_a_write(x):
    def last(v):
        return v if v > 20 else last(v * 2)

    y = x * 1
    z = last(y)
    total = z + 1
    return total, y


@PROGRAMS.on(1.0, 8.0)
def older_tensor_that_each_call_writes(x):
    sums = ops.zeros((16,))

    def go(v, i):
        sums[i] = sums[i] + v
        if v > 5:
            return v
        return go(v * 2, i + 1)

    return go(x, 0), sums


@PROGRAMS.on(1.0, 8.0)
def two_functions_of_one_text(x):
    def maker(step):
        def go(v):
            return v if v > 9 else go(v + step) * step

        return go

    return maker(2)(x), maker(3.0)(x), maker(x)(x)


@pytest.mark.parametrize("fn, args", PROGRAMS)
def test_program(fn, args):
    PROGRAMS.run(fn, args)


# ----------------------------------------------------------------------------------- refusals


@REFUSALS.on(TypeError, "list that other names mean too", 1.0)
def list_that_is_passed_on(x):
    def go(v, items):
        return items if v > 9 else go(v * 2, [items[0] + v])

    return go(x, [x])


@REFUSALS.on(TypeError, "the number of items of a list", 1.0)
def list_that_grows(x):
    seen = []

    def go(v):
        seen.append(v)
        return v if v > 9 else go(v * 2)

    return go(x), seen


@REFUSALS.on(TypeError, "cannot be written in place", 1.0)
def argument_written_in_place(x):
    def go(v):
        v.add_(1)
        return v if v > 9 else go(v * 2)

    return go(x * 1)


@REFUSALS.on(TypeError, "which has been written in place since", 1.0)
def argument_that_may_be_the_result(x):
    def last(v):
        return v if v > 20 else last(v * 2)

    y = x * 1
    z = last(y)
    y.add_(1)
    return z


@REFUSALS.on(TypeError, "function.*depends on how often", 1.0)
def returned_function(x):
    def go(v):
        return (lambda u: u + v) if v > 9 else go(v * 2)

    return go(x)(x)


@REFUSALS.on(TypeError, "its type depends on a Tensor", 1.0)
def shape_that_grows(x):
    def go(v):
        return v if v.sum() > 9 else ops.concat([go(v * 2), v])

    return go(x.reshape(1))


@REFUSALS.on(RecursionError, "nothing ends the recursion", 1.0)
def no_path_without_a_call(x):
    if x > 0:
        return no_path_without_a_call(x - 1)
    return no_path_without_a_call(x + 1)


@pytest.mark.parametrize("fn, args, error, match", REFUSALS)
def test_refusal(fn, args, error, match):
    REFUSALS.run(fn, args, error, match)


# ------------------------------------------------------------------------- Cells and gradients


class Growing(nn.Cell):
    """Calls itself until its input is large; counts its calls."""

    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor(1.5), name="weight")
        self.calls = Parameter(Tensor(0), name="calls", requires_grad=False)

    def construct(self, x):
        self.calls += 1
        if x.sum() > 50:
            return x
        print("call", self.calls)
        return self(x * self.weight) + ops.sin(x)


def test_a_cell_that_calls_itself():
    net = Growing()
    for value in ([1.0, 2.0], [30.0, 40.0]):
        agree(lambda x: net(x), Tensor(value), state=[net.weight, net.calls])
    net.set_grad()

    def gradients(x):
        return ms.value_and_grad(net, 0, [net.weight])(x)

    agree(gradients, Tensor([1.0, 2.0]), state=[net.weight, net.calls], factor=10)


def scaled_powers(x):
    """x * x/2 * x/4 ... down to 1."""
    return x.sum() if x.sum() < 1 else (x * scaled_powers(x * 0.5)).sum()


def by_hand(x, order):
    """The value and the derivatives of scaled_powers at a number, as a power of it."""
    factor, power = 1.0, 1
    while x * 0.5 ** (power - 1) >= 1:
        factor *= 0.5 ** (power - 1)
        power += 1
    factor *= 0.5 ** (power - 1)
    for _ in range(order):
        factor, power = factor * power, power - 1
    return factor * x**power


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives(order):
    f = scaled_powers
    for _ in range(order):
        f = ms.grad(f)
    for value in (0.5, 3.0, 9.0):
        x = Tensor(value, ms.float64)
        got = agree(lambda x: f(x), x, factor=10)  # noqa: B023
        assert_same(got, np.float64(by_hand(value, order)))


def test_one_graph_whatever_the_depth():
    compiled = ms.jit(fibonacci)
    found = [int(compiled(Tensor(n))) for n in range(12)]
    assert found == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    assert compiled.compile_count == 1


def test_endless_recursion_ends_in_an_error():
    with pytest.raises(RecursionError, match="calls deep"):
        ms.jit(fibonacci)(Tensor(float("nan")))


def endless(n):
    return endless(n + 1)


def endless_in_a_try(n):
    try:
        return endless_in_a_try(n + 1)
    except ValueError:
        return n


def endless_in_a_with(n):
    with Context():
        return endless_in_a_with(n + 1)


class Context:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class Endless(nn.Cell):
    def construct(self, n):
        return [self(n + 1) for _ in range(2)]


@pytest.mark.parametrize("function", [endless, endless_in_a_try, endless_in_a_with, Endless()])
def test_recursion_on_constants_may_be_deep(function):
    """Python's own limits, of which some count calls through C, are further away."""
    with pytest.raises(RecursionError, match="deep while compiling"):
        ms.jit(function)(0)


def test_lists_that_nest_at_each_call_are_told_apart_at_once(monkeypatch):
    """Structures that differ only deep inside are not compared down to there."""
    compared = 0
    equal = Container.__eq__

    def counted(self, other):
        nonlocal compared
        compared += 1
        return equal(self, other)

    monkeypatch.setattr(Container, "__eq__", counted)

    def nest(x, items):
        return items if x <= 0 else nest(x - 1, [items])

    calls = 60
    with ms.context.using(max_call_depth=calls), pytest.raises(RecursionError, match="60 deep"):
        ms.jit(nest)(Tensor(3.0), Tensor(1.0))
    assert compared < calls**2
