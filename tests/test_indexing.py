"""Indexing: every kind of index against NumPy, in both modes; gradients; errors."""

import contextlib

import numpy as np
import pytest
from helpers import assert_same, in_graph
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import AbstractTensor
from minispore.autodiff.tape import Tape
from minispore.ir.node import CNode, FuncGraph, ParameterNode
from minispore.primitive import handled_by
from minispore.symbolic import GraphBuilder, Scalar, wrap
from minispore.tensor import Tensor
from minispore.tree import NeedConstant

fuzz = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def tensors(index):
    """An index with its ndarrays as Tensors."""
    if isinstance(index, tuple):
        return tuple(map(tensors, index))
    return Tensor(index) if isinstance(index, np.ndarray) else index


def has_mask(index):
    items = index if isinstance(index, tuple) else (index,)
    return any(isinstance(i, np.ndarray) and i.dtype == bool for i in items)


def has_list(index):
    return isinstance(index, tuple) and any(isinstance(i, list) for i in index)


# ------------------------------------------------------------------------------------- cases

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
MASK = X % 5 < 2
CASES = [
    0, -1, (1, 2), (1, 2, 3), (-2, -3, -4), slice(None), slice(1, None), slice(None, None, -1),
    slice(5, 0, -2), slice(3, 1), (slice(None), slice(0, 3, 2)), (0, slice(None, None, -1)), (),
    ..., (..., 0), (0, ...), (..., slice(1, 3)), None, (None, 0), (0, None), (..., None),
    (slice(None), None, 1), True, False, (True, 0), (0, False), np.True_, np.int64(1),
    [0, 1, 1], [-1], [], [[0, 1], [1, 0]], ([0, 1], [2, 0]), (slice(None), [2, 0]), (..., [3, 3]),
    (0, slice(None), [1, 2]), ([0], slice(None), [[1], [2]]), (0, [1, 2]), (None, [1, 0]),
    (0, None, [1, 2]), ([0], ..., [1]), (slice(None), [0], ..., [1]), (slice(None), [0], [1]),
    [True, False], ([True, False], 0), (slice(None), [True, False, True]), (True, [0, 1]),
    ([1], True), (slice(0, 1), [1, -1], slice(None, None, -1)),
    np.array(1), np.array([1, 0]), np.array([[1, -1]]), (np.array([1, 0]), np.array([2, 2])),
    (slice(None), np.array([0, 2]), slice(1, 3)), (np.array(1), slice(None), np.array([3, 0])),
    (np.array([1], np.int32), 0), (np.array([[0], [1]], np.uint8), [0, 2, 1]),
    MASK, MASK[:, :, 0], MASK[:, 0, 0], (slice(None), MASK[0]), (0, MASK[0]),
    (MASK[:, 0, 0], slice(None), [1]), (slice(None), MASK[0, :, 0], slice(1, 3)),
    (MASK[:, :, 0], 1), (None, MASK), (..., MASK[0, 0]), np.array(True), np.array(False),
    (np.zeros((2, 3), bool),), (MASK[:, 0, 0], MASK[0, :, 0] | True)[0:1],
]  # fmt: skip
IDS = [str(i) for i in range(len(CASES))]


@pytest.mark.parametrize("index", CASES, ids=IDS)
def test_reading_equals_numpy(index):
    expected = np.asarray(X[index])
    assert_same(Tensor(X)[tensors(index)], expected)
    if not has_mask(index):
        assert_same(in_graph(lambda x: x[tensors(index)], X), expected)


@pytest.mark.parametrize("index", CASES, ids=IDS)
def test_writing_equals_numpy(index):
    region = np.asarray(X[index])
    for value in (
        np.float32(7),
        100 + np.arange(region.size, dtype=np.float32).reshape(region.shape),
    ):
        expected = X.copy()
        expected[index] = value
        x = Tensor(X)
        x[tensors(index)] = Tensor(value)
        assert_same(x, expected)
        if not (has_mask(index) and (value.ndim or has_list(index))):
            assert_same(in_graph(written(index), X, np.asarray(value)), expected)


def written(index):
    def fn(x, v):
        x[tensors(index)] = v
        return x

    return fn


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (0, (4,)), (0, (1, 3, 4)), (0, (1, 1, 1, 1, 1)), (slice(None), (3, 1)), ([1, 0], (3, 4)),
        ([[0, 1]], (1, 2, 1, 1)), (MASK, (1,)), (MASK[:, :, 0], (4,)), (MASK[:, :, 0], (1, 4)),
        (MASK[:, 0, 0], (3, 1)), ((slice(None), MASK[0, :, 0]), (2, 1, 4)), ((0, MASK[0]), ()),
        ((slice(None), MASK[0]), (2, 1)), ((MASK[:, 0, 0], 0), (1, 1)),
    ],
)  # fmt: skip
def test_a_value_is_broadcast(index, shape):
    value = np.arange(100, 100 + np.prod(shape, dtype=int)).reshape(shape).astype(np.float32)
    expected = X.copy()
    expected[index] = value
    x = Tensor(X)
    x[tensors(index)] = Tensor(value)
    assert_same(x, expected)
    assert_same(in_graph(written(index), X, value), expected)


@st.composite
def arrays_and_indices(draw):
    """An array of up to four axes, and an index of up to five items that may be out of range."""
    shape = draw(st.lists(st.integers(0, 3), max_size=4))
    near = st.integers(-4, 3)
    positions = st.integers(-3, 2)
    step = st.sampled_from([None, 1, 2, -1, -2])
    index_array = st.one_of(
        st.lists(positions, max_size=3),
        st.lists(st.lists(positions, min_size=2, max_size=2), min_size=1, max_size=2),
        st.booleans(),
        st.lists(st.booleans(), min_size=1, max_size=3),
        st.lists(positions, min_size=1, max_size=3).map(np.array),
        positions.map(np.array),
        st.lists(st.booleans(), min_size=1, max_size=3).map(np.array),
    )
    basic = st.one_of(
        positions, st.none(), st.just(Ellipsis),
        st.builds(slice, st.none() | near, st.none() | near, step),
    )  # fmt: skip
    items = draw(st.lists(st.one_of(basic, basic, index_array), max_size=5))
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)
    return x, tuple(items)


@fuzz
@given(arrays_and_indices())
def test_reading_any_index_equals_numpy(case):
    x, index = case
    try:
        expected = np.asarray(x[index])
    except IndexError:
        with pytest.raises(IndexError):
            Tensor(x)[tensors(index)]
        return
    with allowing_strictness(expected):
        assert_same(Tensor(x)[tensors(index)], expected)
        if not has_mask(index):
            assert_same(in_graph(lambda x: x[tensors(index)], x), expected)


@contextlib.contextmanager
def allowing_strictness(region):
    """NumPy does not look for bad positions where nothing is taken; here they are an error."""
    try:
        yield
    except IndexError:
        assert np.size(region) == 0


@fuzz
@given(arrays_and_indices(), st.booleans())
def test_writing_any_index_equals_numpy(case, one_value):
    x, index = case
    try:
        region = x[index]
    except IndexError:
        return
    value = np.array(-1.0)
    if not one_value:
        value = np.arange(100.0, 100 + np.size(region)).reshape(np.shape(region))
    expected = x.copy()
    expected[index] = value
    tensor = Tensor(x)
    with allowing_strictness(region):
        tensor[tensors(index)] = Tensor(value)
        assert_same(tensor, expected)
        if not has_mask(index):
            assert_same(in_graph(written(index), x, value), expected)


# ---------------------------------------------------------------------------------- gradients

GRAD_CASES = [
    0, (slice(None, None, -2), None, 1), [1, 1, 0], (..., [0, 0, 3]), np.array([1, 1, 0]),
    (np.array([1, 1]), slice(1), np.array([-1, 3])), MASK, MASK[:, :, 0], np.array(-1),
    (slice(None), [0], ..., [1, 1]),
]  # fmt: skip


def gradient(fn, xs, seed):
    """The gradients of sum(seed * fn(*xs)) by the tape."""
    with Tape() as tape:
        keys = [tape.watch(x) for x in xs]
        out = fn(*xs)
    return tape.backward([out], [Tensor(seed(out.shape))], keys)


def check_gradients(fn, *arrays):
    """First and second order, by projection on random directions, in float64."""

    def seed(shape):
        return np.random.default_rng(1).normal(size=shape)

    def first_order(*xs):
        return ops.concat([ops.reshape(g, (-1,)) for g in gradient(fn, xs, seed)])

    for function in (fn, first_order):
        directions = [seed(a.shape) for a in arrays]
        gradients = gradient(function, [Tensor(a) for a in arrays], seed)
        slope = sum(np.sum(g.asnumpy() * d) for g, d in zip(gradients, directions, strict=True))
        expected = central_difference(function, arrays, directions, seed)
        np.testing.assert_allclose(slope, expected, rtol=1e-6)


def central_difference(fn, arrays, directions, seed, h=1e-6):
    """The slope of sum(seed * fn(*arrays)) along the directions."""

    def loss(step):
        out = fn(*(Tensor(a + step * d) for a, d in zip(arrays, directions, strict=True)))
        return np.sum(out.asnumpy() * seed(out.shape))

    return (loss(h) - loss(-h)) / (2 * h)


@pytest.mark.parametrize("index", GRAD_CASES, ids=range(len(GRAD_CASES)))
def test_gradients(index):
    index = tensors(index)

    def read(x):
        return (x * x * x)[index] * x[index]

    def write(x, v):
        y = x * x
        y[index] = v * v
        return y * y

    def write_number(x):
        y = x * x
        y[index] = 2.0
        return y * x

    x = np.random.default_rng(2).uniform(0.5, 1.5, X.shape)
    v = np.random.default_rng(3).uniform(0.5, 1.5, Tensor(X)[index].shape)
    check_gradients(read, x)
    check_gradients(write, x, v)
    check_gradients(write_number, x)


def test_a_value_that_is_overwritten_gets_no_gradient():
    x = Tensor(np.zeros(3))
    with Tape() as tape:
        v = Tensor(np.array([1.0, 2.0, 3.0]))
        keys = [tape.watch(v)]
        y = x * 1
        y[[0, 0, 2]] = v
    assert_same(y, np.array([2.0, 0.0, 3.0]))
    (dv,) = tape.backward([y], [Tensor(np.array([10.0, 20.0, 30.0]))], keys)
    assert_same(dv, np.array([0.0, 10.0, 30.0]))


def test_a_position_read_twice_gets_both_gradients():
    for dtype in (dt.float16, dt.bfloat16, dt.float32):
        x = Tensor([1.0, 2.0], dtype)
        with Tape() as tape:
            keys = [tape.watch(x)]
            y = x[[1, 1, 0]]
        (dx,) = tape.backward([y], [ops.ones_like(y)], keys)
        assert_same(dx, Tensor([1.0, 2.0], dtype))


# --------------------------------------------------------------------------- values and cells


def test_results_are_copies():
    x = Tensor(X)
    row, same = x[0], x[...]
    x[0] = 9
    assert_same(row, X[0])
    assert_same(same, X)
    row[0] = 1
    assert_same(x[0], np.full((3, 4), 9, np.float32))


def test_a_write_is_seen_through_every_name():
    x = Tensor([1, 2, 3])
    y = x
    x[1] = 9.7
    assert_same(y, np.array([1, 9, 3]))
    with pytest.raises(ValueError, match="does not fit"):
        x[:2] = [1, 2, 3]
    with pytest.raises(TypeError):
        x[0] = None
    assert_same(x, np.array([1, 9, 3]))


def test_lists_that_hold_tensors():
    x = Tensor(X)
    assert_same(x[[Tensor(1), 0]], X[[1, 0]])
    assert_same(in_graph(lambda x, i: x[[i, 0]], X, np.array(1)), X[[1, 0]])
    y = Tensor([0.0, 0.0])
    y[:] = [Tensor(1.5), 2]
    assert_same(y, np.array([1.5, 2.0], np.float32))


def test_a_number_that_varies_is_an_index():
    def fn(x, i):
        n = i.item()
        assert isinstance(n, Scalar)
        return x[n, ..., n + 1]

    assert_same(in_graph(fn, X, np.array(1)), X[1, :, 2])
    assert_same(in_graph(fn, X, np.array(-2)), X[-2, :, -1])
    with pytest.raises(IndexError, match="out of range for axis 0 of size 2"):
        in_graph(fn, X, np.array(2))

    def write(x, i):
        x[i.item()] = 5
        return x

    expected = X.copy()
    expected[-1] = 5
    assert_same(in_graph(write, X, np.array(-1)), expected)
    with pytest.raises(IndexError):
        in_graph(write, X, np.array(-3))


# ------------------------------------------------------------------------------------- errors

BAD = [
    (2, "index 2 is out of range for axis 0 of size 2"),
    ((0, -4), "index -4 is out of range for axis 1 of size 3"),
    ([0, 5], "index 5 is out of range for axis 0"),
    ((0, 0, 0, 0), "too many indices: 4 for a Tensor of 3 axes"),
    ((..., ...), "only one Ellipsis"),
    (1.0, "not by float"),
    ("a", "not by str"),
    ([1.5], "holds ints or bools"),
    ([[1], [1, 2]], "ragged"),
    (([0, 1], [0, 1, 2]), "do not broadcast"),
    ([True, False, True], "does not match"),
    (np.array([2]), "out of range for axis 0 of size 2"),
    (np.array([1.0], np.float32), "not by a Float32 Tensor"),
    (np.zeros((2, 2), bool), "does not match"),
]


@pytest.mark.parametrize(("index", "message"), BAD)
def test_errors(index, message):
    for action in (lambda x: x[tensors(index)], lambda x: x.__setitem__(tensors(index), 1)):
        with pytest.raises(IndexError, match=message):
            action(Tensor(X))

    def both(x):
        x[tensors(index)] = 1
        return x

    for fn in (lambda x: x[tensors(index)], both):
        with pytest.raises(IndexError, match=message):
            in_graph(fn, X)


def test_an_ndarray_is_no_index():
    with pytest.raises(IndexError, match="not by ndarray"):
        Tensor(X)[np.array([0])]


def test_an_index_tensor_is_checked_when_the_graph_runs():
    def unused(x, i):
        x[i]
        return x

    assert_same(in_graph(unused, X, np.array([0, -2])), X)
    with pytest.raises(IndexError, match="out of range for axis 0 of size 2"):
        in_graph(unused, X, np.array([0, -3]))


def test_a_mask_in_a_graph():
    assert_same(in_graph(lambda x: x[x > 3], X), X[X > 3])
    with pytest.raises(NeedConstant, match="whether a value of shape"):
        in_graph(lambda x, v: written(x > 0)(x, v), X, np.ones(3, np.float32))
    expected = np.where(X > 3, np.float32(1), X)
    assert_same(in_graph(lambda x: written(x > 3)(x, 1), X), expected)


def test_basic_indexing_makes_few_nodes():
    def nodes(fn):
        parameter = ParameterNode("x", AbstractTensor(dt.float32, (2, 3, 4)))
        builder = GraphBuilder()
        with handled_by(builder):
            out = builder.node_of(fn(wrap(parameter)))
        graph = FuncGraph("main", [parameter], out)
        return [n.callee.name for n in graph.nodes() if isinstance(n, CNode)]

    assert nodes(lambda x: x[:, 1:]) == ["StridedSlice"]
    assert nodes(lambda x: x[0]) == ["StridedSlice", "Reshape"]
    assert nodes(lambda x: x[None]) == ["Reshape"]
    assert nodes(lambda x: x[[1, 0]]) == ["GatherIndex"]
    assert nodes(lambda x: written(slice(1, None))(x, 0)) == ["BroadcastTo", "SetSlice"]
    assert nodes(lambda x: written([0])(x, 0)) == ["BroadcastTo", "SetIndex"]
