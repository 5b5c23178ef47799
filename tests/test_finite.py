"""find_nan, and check_finite in both modes."""

import math

import numpy as np
import pytest
from differential import points_at
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.ir.finite import born

INF, NAN = math.inf, math.nan
X = Tensor([1.0, 2.0])


def log_of(x):
    return ops.log(x)


LOG = log_of.__code__.co_firstlineno + 1


def loop(x, n):
    i = 0
    while i < n:
        if x.min() > 0.5:
            x = x - 0.5
        else:
            x = log_of(x) + x
        i = i + 1
    return x.sum()


def power(x, n):
    if n == 0:
        return x * 0 + 1
    return x * power(x, n - 1)


def recursive(x, n):
    if n <= 0:
        return ops.log(x)
    return recursive(x - 1, n - 1)


def find(fn, *args, **options):
    return ms.explain(fn, *args).find_nan(**options)


@pytest.mark.parametrize(
    ("values", "operands", "expected"),
    [
        ([[1.0, NAN]], [[1.0]], ("nan", (1,))),
        ([[1.0, NAN]], [[1.0], [NAN]], None),
        ([[NAN]], [[INF]], ("nan", (0,))),
        ([[INF, 1.0]], [[2.0]], ("inf", (0,))),
        ([[-INF]], [[INF]], None),
        ([[-INF]], [[NAN]], None),
        ([[INF, NAN]], [[1.0]], ("nan", (1,))),
        ([[1.0], [[1.0, 2.0], [3.0, INF]]], [[1.0]], ("inf", (1, 1))),
        ([[INF]], [], None),
        ([[1, 2]], [[1]], None),
        ([[True]], [[NAN]], None),
    ],
)
def test_what_is_made(values, operands, expected):
    found = born(map(np.array, values), [np.array(o) for o in operands])
    assert found is expected or (found[0], found[2]) == expected


def test_floats_and_half_precision():
    assert born([INF], [2.0, 3])[0] == "inf"
    assert born([NAN], [INF])[0] == "nan"
    assert born([INF], [INF]) is None
    low = ms.bfloat16.numpy
    assert born([np.array([INF], low)], [np.array([1.0], low)])[0] == "inf"


# ------------------------------------------------------------------------------------- find_nan


def test_nothing_is_found():
    assert find(loop, X, Tensor(1)) is None
    assert find(ms.grad(power), X, 3) is None


def test_through_while_switch_and_calls():
    found = find(loop, X, Tensor(4))
    assert (found.kind, found.name, found.index, found.line) == ("nan", "Log", (0,), LOG)
    assert found.phase == "forward"
    assert found.path == ("@loop", "@while_body turn 3", "@if_false", "@log_of")
    text = str(found)
    assert text.startswith(
        "Log made nan at [0] out of finite numbers, in the forward pass, in @loop > @while_body "
        "turn 3 > @if_false > @log_of\n"
    )
    assert "return ops.log(x)" in text and "^^^" in text and "(there -0.19" in text
    assert text.endswith("clamp first")
    assert repr(found) == text


def test_recursion():
    found = find(recursive, X, Tensor(2))
    assert (found.kind, found.path[0], len(found.path) > 4) == ("nan", "@recursive", True)
    assert "return ops.log(x)" in str(found)


def test_backward():
    def root(x):
        return ops.sqrt(x).sum()

    for gradient, phase in ((root, None), (ms.grad(root), "backward")):
        found = find(gradient, Tensor([1.0, 0.0]))
        assert (found and found.phase) == phase
    assert (found.kind, found.index, found.line) == ("inf", (1,), root.__code__.co_firstlineno + 1)
    assert "made inf at [1] out of finite numbers, in the backward pass" in str(found)
    assert "keep away from 0" in found.hint


def test_a_meant_inf_is_no_fault_but_a_nan_made_of_it_is():
    def masked(x, scale):
        hidden = ops.where(x > 1, x, Tensor(-INF, ms.float32))
        return ops.softmax(hidden) * scale, hidden * scale

    assert find(masked, X, Tensor(2.0)) is None
    found = find(masked, X, Tensor(0.0))
    assert (found.kind, found.name) == ("nan", "Mul")
    assert "made nan at [0] out of an inf, in the forward pass" in str(found)


def test_only_nan():
    def f(x):
        return ops.exp(x) * 0.0

    assert find(f, X * 1000).kind == "inf"
    found = find(f, X * 1000, inf=False)
    assert (found.kind, found.name) == ("nan", "Mul")
    assert find(ops.exp, X * 1000, inf=False) is None


@pytest.mark.parametrize(
    ("fn", "x", "name", "made"),
    [
        (lambda x: ops.log(x), 0.0, "Log", "-inf"),
        (lambda x: 1 / x, 0.0, "Div", "inf"),
        (lambda x: ops.exp(x), 100.0, "Exp", "inf"),
        (lambda x: x ** 0.5, -1.0, "Pow", "nan"),
        (lambda x: ops.sqrt(x), -1.0, "Sqrt", "nan"),
        (lambda x: ops.rsqrt(x), 0.0, "Rsqrt", "inf"),
        (lambda x: x * 1e38, 100.0, "Mul", "inf"),
    ],
)  # fmt: skip
def test_operations(fn, x, name, made):
    found = find(fn, Tensor([x]))
    assert found.sentence == f"{name} made {made} at [0] out of finite numbers, in the forward pass"
    assert bool(found.hint) == (name != "Mul")
    scalar = find(lambda x: fn(x) * 1, Tensor(x))
    assert scalar.sentence.startswith(f"{name} made {made} out of finite")


def test_inputs_and_parameters():
    w = Parameter(Tensor([1.0, NAN]), name="w")
    found = find(lambda x: x * w, X)
    assert (found.name, found.index, found.line) == ("w", (1,), None)
    assert str(found).startswith("input w has a nan at [1]\n")
    assert find(lambda x: x + 1, Tensor([INF])) is None


def test_numbers_that_vary():
    found = find(lambda x: float(x.sum()) * 1e308 * 10.0, X)
    assert (found.kind, found.name) == ("inf", "ScalarMul")


def test_what_the_graph_raises_is_raised():
    def f(x):
        assert (x < 0).all(), "positive"
        return x

    with pytest.raises(AssertionError, match="positive"):
        find(f, X)


# --------------------------------------------------------------------------------- check_finite


def refused(run, *args, match):
    with pytest.raises(FloatingPointError, match=match) as caught:
        run(*args)
    return caught.value


def test_a_jitted_function_that_checks():
    checked = ms.jit(loop, check_finite=True)
    assert_same(checked(X, Tensor(1)), loop(X, Tensor(1)))
    error = refused(
        checked, X, Tensor(4), match=r"Log made nan .*turn 3.*\(check_finite\); the log"
    )
    assert points_at(error, __file__) and "return ops.log(x)" in error.__notes__[0]
    assert checked.compile_count == 1


def test_gradients_of_a_function_that_checks():
    checked = ms.jit(lambda x: ops.sqrt(x).sum(), check_finite=True)
    error = refused(ms.grad(checked), Tensor([0.0]), match="made inf .* in the backward pass")
    assert points_at(error, __file__)


def test_the_context_checks_both_modes():
    def f(x):
        return ops.log(x).sum()

    zero = Tensor([1.0, 0.0])
    assert float(f(zero)) == float(f(Tensor(0.0))) == -INF
    with ms.context.using(check_finite=True):
        assert_same(f(X), ms.jit(f)(X))
        for run in (f, ms.jit(f)):
            refused(run, Tensor(0.0), match="Log made -inf out of finite")
        eager = refused(f, zero, match=r"Log made -inf at \[1\] out of finite numbers \(check")
        assert "return ops.log(x).sum()" in str(traceback_lines(eager))
        compiled = refused(ms.jit(f), zero, match="Log made -inf at .* in the forward pass")
        assert points_at(compiled, __file__)
        with ms.context.using(mode=ms.GRAPH_MODE):
            refused(nn.SequentialCell(nn.ReLU(), Logarithm()), zero, match="Log made -inf")
        error = refused(ms.grad(lambda x: ops.sqrt(x).sum()), zero, match="Div made inf")
        assert error.__notes__ == ["In the gradient of Sqrt."]
    assert float(ms.jit(f)(zero)) == -INF


def traceback_lines(error):
    import traceback

    return traceback.format_exception(error)


class Logarithm(nn.Cell):
    def construct(self, x):
        return ops.log(x)


def test_results_of_a_checked_run_are_the_caller_s_own():
    constant = Tensor([1.0, 2.0])
    checked = ms.jit(lambda x: (x, x.reshape(1, 2), constant, Tensor([3.0])), check_finite=True)
    for _ in range(2):
        for result in checked(X)[1:]:
            result.asnumpy()[...] = 7
        assert_same(X, np.array([1, 2], np.float32))


def test_effects_happen_once(capsys):
    w = Parameter(Tensor([1.0]), name="w")

    @ms.jit(check_finite=True)
    def f(x):
        ops.assign_add(w, x)
        print("now", w.value())
        return w * 2

    assert float(f(Tensor([2.0]))) == 6
    assert capsys.readouterr().out == "now [3.]\n"
    assert float(w) == 3
