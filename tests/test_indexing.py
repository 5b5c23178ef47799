"""Indexing: every kind of index against NumPy, in both modes; gradients; errors."""

import contextlib

import numpy as np
import pytest
from helpers import assert_same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import AbstractTensor
from minispore.autodiff.tape import Tape
from minispore.ir.interp import interpret
from minispore.ir.node import CNode, FuncGraph, ParameterNode, make_tuple
from minispore.primitive import handled_by
from minispore.symbolic import GraphBuilder, Scalar, wrap
from minispore.tensor import Tensor

fuzz = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def in_graph(fn, *arrays):
    """The value of ``fn(*Tensors)`` as the interpreter finds it, checks included."""
    parameters = [ParameterNode("x", AbstractTensor(dt.from_numpy(a.dtype), a.shape)) for a in arrays]
    builder = GraphBuilder()
    with handled_by(builder):
        out = builder.node_of(fn(*map(wrap, parameters)))
    graph = FuncGraph("main", parameters, make_tuple([out, builder.token]))
    return interpret(graph, list(arrays))[0]


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
    slice(5, 0, -2), slice(3, 1), (slice(None), slice(0, 3, 2)), (0, slice(None, None, -1)), (), ...,
    (..., 0), (0, ...), (..., slice(1, 3)), None, (None, 0), (0, None), (..., None),
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
    for value in (np.float32(7), 100 + np.arange(region.size, dtype=np.float32).reshape(region.shape)):
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
