"""mutable: numbers among the arguments that are inputs of a graph, not constants of it."""

import collections

import numpy as np
import pytest
from differential import agree, assert_result, refuses
from helpers import assert_same, vector

import minispore as ms
from minispore import Tensor, nn, ops
from minispore.compile import JitFunction

Pair = collections.namedtuple("Pair", "a b")


def counted(fn):
    return JitFunction(fn)


def test_other_numbers_do_not_compile_again():
    f = counted(lambda x, k: x * k + k)
    for k in (3, 4, -1, 0):
        assert_same(f(vector(), ms.mutable(k)), vector() * k + k)
    assert f.compile_count == 1
    assert_same(f(vector(), ms.mutable(0.5)), vector() * 0.5 + 0.5)
    assert_same(f(vector(), ms.mutable(2.5)), vector() * 2.5 + 2.5)
    assert f.compile_count == 2
    f(vector(), 3), f(vector(), 4)
    assert f.compile_count == 4


def test_containers():
    f = counted(lambda k: (k[0] + 1, k[1] * 2, len(k)))
    for k in ((1, 2.0), (5, -0.5)):
        assert f(ms.mutable(k)) == (k[0] + 1, k[1] * 2, 2)
    assert f.compile_count == 1
    x = vector()
    g = counted(lambda k: k[0] * k[1])
    for n in (3, 4):
        assert_same(g(ms.mutable([x, n])), x * n)
    assert g.compile_count == 1
    h = counted(lambda k: k["a"][0].b - k["c"])
    for n in (3, 4):
        assert h(ms.mutable({"a": (Pair(1, n),), "c": 2.5})) == n - 2.5
    assert h.compile_count == 1


def test_a_mutable_number_is_a_number():
    k = ms.mutable(3)
    assert (k, k + 1, type(k + 1), str(k), isinstance(k, int)) == (3, 4, int, "3", True)
    assert ms.mutable((1, 2.5, [True, {"a": 0}])) == (1, 2.5, [True, {"a": 0}])
    assert ms.mutable(True) is True
    x = vector()
    assert ms.mutable(x) is x
    assert_same(x * ms.mutable(2), x * 2)
    items = [1, 2]
    assert ms.mutable(items) is not items


@pytest.mark.parametrize(
    ("value", "dynamic_len", "match"),
    [("a", False, "not str"), (None, False, "NoneType"), ((1, "a"), False, "not str"),
     (np.ones(2), False, "ndarray"), (3, True, "int"), ({"a": 1}, True, "dict")],
)  # fmt: skip
def test_errors(value, dynamic_len, match):
    with pytest.raises(TypeError, match=match):
        ms.mutable(value, dynamic_len)


def test_a_length_is_part_of_the_graph():
    f = counted(lambda k: sum(k))
    assert [f(ms.mutable([1] * n, True)) for n in (2, 3, 2, 3)] == [2, 3, 2, 3]
    assert f.compile_count == 2


def loop(x, k):
    for _ in range(k):
        x = x * 2
    return x, k


def decides(x, k):
    return x + 1 if k > 2 else x - 1


def printed(x, k):
    print(k, f"{k:>4}", [k, x])
    return str(k)


def returned(x, k):
    return k, -k, k / 2, k


@pytest.mark.parametrize("fn", [loop, decides, printed, returned])
@pytest.mark.parametrize("k", [0, 3])
def test_agrees(fn, k):
    agree(fn, vector(), ms.mutable(k))


def test_numbers_that_are_equal_are_not_one():
    f = counted(lambda a, b: (a - b, a, b))
    assert f(ms.mutable(3), ms.mutable(3)) == (0, 3, 3)
    assert f(ms.mutable(3), ms.mutable(4)) == (-1, 3, 4)
    assert f.compile_count == 1
    k = ms.mutable(3)  # one object given twice: another signature
    assert f(k, k) == (0, 3, 3)
    assert f.compile_count == 2


def test_errors_of_values_come_when_the_graph_runs():
    f = counted(lambda k: 1 // k)
    assert f(ms.mutable(1)) == 1
    with pytest.raises(ZeroDivisionError):
        f(ms.mutable(0))
    assert f.compile_count == 1
    with pytest.raises(OverflowError, match="64-bit"):
        f(ms.mutable(2**63))


def sized(x, k):
    return x.reshape((k, 1))


def test_a_number_that_decides_a_shape_is_refused():
    refuses(sized, vector(), ms.mutable(3), error=TypeError, match="when the graph is compiled")


def inside(x):
    k = ms.mutable(3)
    return x * k, k


def test_inside_a_graph():
    agree(inside, vector())


def test_cells_keywords_and_gradients():
    class Net(nn.Cell):
        def construct(self, x, k=1):
            return ops.sum(x * x * k)

    net = Net()
    with ms.context.using(mode=ms.GRAPH_MODE):
        for k in (2, 3):
            assert_same(net(vector(), k=ms.mutable(k)), Tensor(14.0 * k))
            assert_same(ms.grad(net)(vector(), ms.mutable(k)), vector() * 2 * k)
    f = counted(net)
    for k in (2.0, 3.0):  # under a tape: the cotangent of the number is not asked for
        assert_same(ms.grad(f)(vector(), ms.mutable(k)), vector() * 2 * k)
    assert f.compile_count == 1


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_gradients_by_containers_have_their_structure(mode):
    def product(t, d, x):
        return t[0] * t[1][0] * d["k"] * d["n"] * x

    a, b, c, x = (Tensor(v) for v in (2.0, 3.0, 5.0, 7.0))
    t, d = ms.mutable((a, [b])), ms.mutable({"k": c, "n": 2})
    expected = (Tensor(210.0), [Tensor(140.0)]), {"k": Tensor(84.0), "n": 0}, Tensor(60.0)
    with ms.context.using(mode=mode):
        assert_result(ms.grad(product, (0, 1, 2))(t, d, x), expected, 1.0)
        assert_result(ops.GradOperation(get_all=True)(product)(t, d, x), expected, 1.0)
        assert_result(ms.grad(product, 0)(t, d, x), expected[0], 1.0)
        ids = ms.grad(product, (1, 2), return_ids=True)(t, d, x)
        assert_result(ids, ((1, expected[1]), (2, expected[2])), 1.0)
        assert_result(ms.jit(lambda x: ms.grad(product, (0, 1, 2))(t, d, x))(x), expected, 1.0)
        assert ms.grad(product, 0)((a, [b]), d, x) == ()  # without mutable it is a constant
        assert_result(ms.grad(product, (0, 2))((a, [b]), {"k": c, "n": 2}, x), expected[2], 1.0)


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_writes_to_containers_under_grad(mode):
    def of_tensor(t):
        t[0].mul_(3)
        return t[0] * t[1]

    def of_item(t):
        t[0] = t[1] * 3
        return t[0]

    t = ms.mutable([Tensor(2.0), Tensor(5.0)])
    with ms.context.using(mode=mode):
        assert_result(ms.grad(of_tensor)(t), [Tensor(15.0), Tensor(6.0)], 1.0)
        assert_result(t[0], Tensor(6.0), 1.0)
        with pytest.raises((RuntimeError, TypeError), match="copy it first"):
            ms.grad(of_item)(t)
    assert_result(t[0], Tensor(6.0), 1.0)


def test_marked_containers_go_round_loops_and_stay_what_they_are():
    def loop(t, n):
        while n > 0:
            t = (t[1], t[0] + t[1])
            n = n - 1
        return t

    agree(loop, ms.mutable((Tensor(1.0), Tensor(1.0))), Tensor(4))
    marked = ms.mutable([1, (2,), {"a": 3}])
    assert marked == [1, (2,), {"a": 3}]
    assert isinstance(marked, list)
    assert str(marked) == "[1, (2,), {'a': 3}]"
