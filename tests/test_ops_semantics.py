"""What ops do at the edges: ties, zeros, nan, integer division, types, errors, effects, writes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graphs import FLOAT, INT, graph_of
from graphs import tensor as abstract
from helpers import assert_same, in_graph
from op_table import SCALARS
from test_ops import gradients

import minispore as ms
from minispore import dtype as dt
from minispore import ops
from minispore.abstract import STACK, TOKEN, AbstractScalar, AbstractTensor, AbstractTuple
from minispore.ir.interp import interpret
from minispore.parameter import Parameter
from minispore.primitive import REGISTRY, Primitive
from minispore.tensor import Tensor

NAN, INF = math.nan, math.inf


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def gradient(op: Callable, *values: Any) -> list:
    """The gradients of the sum of ``op(*values)``, as lists of numbers."""
    tensors = [Tensor(v) for v in values]
    out = op(*tensors)
    found = gradients(op, tensors, [ops.ones_like(out)])
    return [g if g is None else g.tolist() for g in found]


# ------------------------------------------------------------------------ ties, zeros, nan


@pytest.mark.parametrize(
    "op,inputs,expected",
    [
        (ops.maximum, ([1.0, 2.0, 2.0], [1.0, 3.0, 1.0]), [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]),
        (ops.minimum, ([1.0, 2.0, 2.0], [1.0, 3.0, 1.0]), [[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]),
        (lambda x: ops.maximum(x, x), ([1.0, 2.0],), [[1.0, 1.0]]),
        (lambda x: ops.amax(x, 1), ([[1.0, 4.0, 4.0], [2.0, 2.0, 2.0]],),
         [[[0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]]]),
        (ops.amin, ([1.0, 1.0, 2.0, 1.0],), [[1 / 3, 1 / 3, 0.0, 1 / 3]]),
        (ops.relu, ([-1.0, 0.0, 2.0],), [[0.0, 0.0, 1.0]]),
        (ops.abs, ([-1.0, 0.0, 2.0],), [[-1.0, 0.0, 1.0]]),
        (ops.sqrt, ([0.0, 4.0],), [[INF, 0.25]]),
        (lambda x: ops.pow(x, 2), ([0.0, -2.0],), [[0.0, -4.0]]),
        (lambda x: ops.pow(x, 0), ([0.0, 2.0],), [[0.0, 0.0]]),
        (lambda x: ops.pow(x, 1), ([0.0],), [[1.0]]),
        (ops.pow, ([0.0, 2.0], [2.0, 0.0]), [[0.0, 0.0], [0.0, math.log(2)]]),
        (lambda x: ops.clamp(x, -1, 1), ([-2.0, -1.0, 1.0, 2.0],), [[0.0, 1.0, 1.0, 0.0]]),
        (lambda x: ops.clip_by_value(x, -1.0, 1.0), ([-2.0, -1.0, 0.0, 1.0],),
         [[0.0, 0.5, 1.0, 0.5]]),
        (ops.leaky_relu, ([0.0],), [[0.6]]),
        (lambda x: ops.elu(x, 2.0), ([0.0],), [[2.0]]),
        (ops.hardswish, ([-3.0, 3.0],), [[-0.5, 1.5]]),
        (ops.relu6, ([0.0, 6.0],), [[0.0, 1.0]]),
        (lambda x: ops.prod(x), ([2.0, 0.0, 3.0],), [[0.0, 6.0, 0.0]]),
        (lambda x: ops.prod(x), ([0.0, 0.0, 3.0],), [[0.0, 0.0, 0.0]]),
        (lambda x: x * x * x, ([2.0],), [[12.0]]),
    ],
)  # fmt: skip
def test_gradient_at_the_edges(op: Callable, inputs: tuple, expected: list) -> None:
    for found, wanted in zip(gradient(op, *inputs), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "op,inputs,expected",
    [
        (ops.maximum, (f32(NAN, 1, -INF), f32(0, NAN, INF)), f32(NAN, NAN, INF)),
        (ops.minimum, (f32(NAN, 1, -INF), f32(0, NAN, INF)), f32(NAN, NAN, -INF)),
        (ops.relu, (f32(NAN, -INF, INF),), f32(NAN, 0, INF)),
        (ops.exp, (f32(-INF, 1000, 0),), f32(0, INF, 1)),
        (ops.log, (f32(0, -1, INF),), f32(-INF, NAN, INF)),
        (ops.div, (f32(1, -1, 0), f32(0, 0, 0)), f32(INF, -INF, NAN)),
        (ops.sigmoid, (f32(-INF, -200, 200, INF, NAN),), f32(0, 0, 1, 1, NAN)),
        (ops.tanh, (f32(-INF, INF),), f32(-1, 1)),
        (ops.softplus, (f32(-INF, -200, 200, INF),), f32(0, 0, 200, INF)),
        (ops.logsigmoid, (f32(-200, 200),), f32(-200, 0)),
        (ops.silu, (f32(-200, 200),), f32(0, 200)),
        (ops.elu, (f32(-200, 200),), f32(-1, 200)),
        (ops.softmax, (f32(1000, 1000, -1000),), f32(0.5, 0.5, 0)),
        (ops.log_softmax, (f32(0, -1000),), f32(0, -1000)),
        (ops.sign, (f32(-2, 0, NAN),), f32(-1, 0, NAN)),
        (lambda x: ops.amax(x), (f32(1, NAN, 3),), np.float32(NAN)),
        (lambda x: ops.cumsum(x, 0), (f32(1, INF, -INF, 1),), f32(1, INF, NAN, NAN)),
        (ops.round, (f32(0.5, 1.5, -0.5, -2.5),), f32(0, 2, 0, -2)),
        (ops.pow, (f32(0, -8, 2), f32(-1, 1 / 3, 0.5)), f32(INF, NAN, math.sqrt(2))),
        (ops.floor_div, (f32(-7, 7, 1), f32(2, -2, 0)), f32(-4, -4, INF)),
        (ops.floor_mod, (f32(-7, 7), f32(3, -3)), f32(2, -2)),
        (ops.fmod, (f32(-7, 7), f32(3, -3)), f32(-1, 1)),
    ],
)  # fmt: skip
def test_special_values(op: Callable, inputs: tuple, expected: np.ndarray) -> None:
    assert_same(op(*map(Tensor, inputs)), np.asarray(expected))


def test_relu_of_minus_zero_is_plain_zero() -> None:
    assert not np.signbit(ops.relu(Tensor([-0.0, 0.0, -1.0])).asnumpy()).any()


def test_sum_of_nothing() -> None:
    x = ops.zeros((0, 2))
    assert ops.sum(x, 0).tolist() == [0, 0]
    assert ops.prod(x, 0).tolist() == [1, 1]
    assert np.isnan(ops.mean(x, 0).asnumpy()).all()
    assert ops.all(x).item() is True and ops.any(x).item() is False
    assert ops.amax(x, 0, initial=1.5).tolist() == [1.5, 1.5]
    for op in (ops.amax, ops.amin, ops.argmax, ops.argmin, ops.max):
        with pytest.raises(ValueError, match="no elements"):
            op(x, 0)


# ------------------------------------------------------------------------------- integers


@pytest.mark.parametrize(
    "op,x,y,expected",
    [
        (ops.floor_div, [-7, 7, -7], [2, -2, -2], [-4, -4, 3]),
        (ops.floor_mod, [-7, 7, -7], [3, -3, -3], [2, -2, -1]),
        (ops.remainder, [-7, 7, -7], [3, -3, -3], [2, -2, -1]),
        (ops.fmod, [-7, 7, -7], [3, -3, -3], [-1, 1, -1]),
        (lambda x, y: ops.div(x, y, rounding_mode="floor"), [-7, 7], [2, 2], [-4, 3]),
        (lambda x, y: ops.div(x, y, rounding_mode="trunc"), [-7, 7], [2, 2], [-3, 3]),
        (ops.pow, [2, -2, 0], [3, 3, 0], [8, -8, 1]),
        (ops.maximum, [1, -2], [0, 5], [1, 5]),
        (ops.bitwise_and, [6, 5], [3, 4], [2, 4]),
        (ops.bitwise_or, [6, 5], [3, 4], [7, 5]),
        (ops.bitwise_xor, [6, 5], [3, 4], [5, 1]),
    ],
)
def test_integers(op: Callable, x: list, y: list, expected: list) -> None:
    for dtype in (dt.int32, dt.int64, dt.int8):
        out = op(Tensor(x, dtype), Tensor(y, dtype))
        assert_same(out, np.array(expected, dtype.numpy))


def test_mean_of_integers_is_rounded_towards_zero() -> None:
    assert_same(ops.mean(Tensor([1, 2, 4])), np.array(2))
    assert_same(ops.mean(Tensor([-1, -2, -4])), np.array(-2))


@pytest.mark.parametrize("op", [ops.floor_div, ops.floor_mod, ops.fmod, ops.floor_divide])
def test_integer_division_by_zero(op: Callable) -> None:
    """An error in both modes, also where the result is not used."""
    x, zero = Tensor([1, 2]), Tensor([1, 0])
    with pytest.raises(ZeroDivisionError, match="use floats"):
        op(x, zero)
    with pytest.raises(ZeroDivisionError):
        op(x, 0)
    graph = graph_of(
        lambda x, y, token: [op(x, y), x][1], *[abstract(2, dtype=dt.int64)] * 2, TOKEN
    )
    with pytest.raises(ZeroDivisionError):
        interpret(graph, [x.asnumpy(), zero.asnumpy(), None])
    interpret(graph, [x.asnumpy(), x.asnumpy(), None])
    assert op(x, 2).dtype is dt.int64  # a constant that is not zero needs no check
    assert graph_of(lambda x, token: op(x, 2), abstract(2, dtype=dt.int64), TOKEN).count() == 1


def test_integer_to_a_negative_power() -> None:
    with pytest.raises(ValueError, match="float"):
        ops.pow(Tensor([2]), Tensor([-1]))
    with pytest.raises(ValueError, match="float"):
        ops.pow(Tensor([2]), -1)
    assert_same(ops.pow(Tensor([2]), -1.0), f32(0.5))
    assert_same(ops.pow(2, Tensor([3])), np.array([8]))


# ---------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    "a,b,common",
    [
        ("int32", "int64", "int64"), ("int64", "float32", "float32"),
        ("int64", "float16", "float16"), ("float16", "float32", "float32"),
        ("float16", "bfloat16", "float32"), ("float32", "float64", "float64"),
        ("uint8", "int8", "int16"), ("uint8", "int32", "int32"), ("bool", "int8", "int8"),
        ("bool", "float16", "float16"), ("bool", "bool", "bool"), ("int64", "bfloat16", "bfloat16"),
    ],
)  # fmt: skip
def test_promotion(a: str, b: str, common: str) -> None:
    one, two = (Tensor([1], getattr(dt, n, dt.bool_)) for n in (a, b))
    wanted = getattr(dt, common, dt.bool_)
    for op in (ops.add, ops.mul, ops.maximum, lambda x, y: ops.select(True, x, y)):
        assert op(one, two).dtype is wanted
        assert op(two, one).dtype is wanted
    assert ops.concat((one, two)).dtype is wanted
    assert ops.stack((one, two)).dtype is wanted


@pytest.mark.parametrize(
    "dtype,number,wanted",
    [
        (dt.int32, 2, dt.int32), (dt.int32, 2.5, dt.float32), (dt.float16, 2.5, dt.float16),
        (dt.bfloat16, 2, dt.bfloat16), (dt.bool_, 1, dt.int64), (dt.bool_, 1.0, dt.float32),
        (dt.int32, True, dt.int32), (dt.float64, 2.5, dt.float64), (dt.bool_, True, dt.bool_),
    ],
)  # fmt: skip
def test_numbers_adapt(dtype: dt.DType, number: Any, wanted: dt.DType) -> None:
    assert ops.add(Tensor([1], dtype), number).dtype is wanted
    assert ops.add(number, Tensor([1], dtype)).dtype is wanted


def test_numbers_alone() -> None:
    assert_same(ops.add(1, 2), np.array(3))
    assert_same(ops.mul(1, 2.5), np.float32(2.5))
    assert_same(ops.exp(0), np.float32(1))


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16])
def test_half_floats_accumulate_in_float32(dtype: dt.DType) -> None:
    x = np.full((3, 4000), 0.1).astype(dtype.numpy)
    wide = x.astype(np.float64)
    t = Tensor(x)
    for found, wanted in (
        (ops.sum(t, 1), wide.sum(1)),
        (ops.mean(t, 1), wide.mean(1)),
        (ops.matmul(t, ops.transpose(t, (1, 0))), wide @ wide.T),
        (ops.softmax(t), np.full(x.shape, 1 / 4000)),
        (ops.cumsum(t, 1), wide.cumsum(1)),
        (ops.var(t), wide.var()),
        (ops.gelu(t), wide * (1 + math.erf(wide[0, 0] / math.sqrt(2))) / 2),
    ):
        assert_same(found, np.asarray(wanted).astype(dtype.numpy))


# --------------------------------------------------------------------------------- errors

X, V = ops.ones((2, 3)), ops.ones(3)


@pytest.mark.parametrize(
    "call,error,words",
    [
        (lambda: ops.add(X, ops.ones((2, 2))), ValueError, r"\(2, 3\) and \(2, 2\)"),
        (lambda: ops.add(X, "a"), TypeError, "str"),
        (lambda: ops.add(X, None), TypeError, "NoneType"),
        (lambda: ops.Add()(X), TypeError, "2 operand"),
        (lambda: ops.neg(Tensor([True])), TypeError, "Bool"),
        (lambda: ops.sub(Tensor([True]), Tensor([True])), TypeError, "Bool"),
        (lambda: ops.bitwise_and(X, X), TypeError, "Float32"),
        (lambda: ops.div(X, X, rounding_mode="up"), ValueError, "rounding_mode"),
        (lambda: ops.clamp(X), ValueError, "min and max"),
        (lambda: ops.clip_by_value(X), ValueError, "bound"),
        (lambda: ops.logical_and(X, "a"), TypeError, "str"),
        (lambda: ops.select(X, X), TypeError, "other"),
        (lambda: ops.sum(X, 5), ValueError, "axis 5 .* 2 dim"),
        (lambda: ops.sum(X, 1.0), TypeError, "float"),
        (lambda: ops.sum(X, True), TypeError, "bool"),
        (lambda: ops.sum(X, (0, -2)), ValueError, "twice"),
        (lambda: ops.sum([1]), TypeError, "list"),
        (lambda: ops.mean(Tensor([True])), TypeError, "Bool"),
        (lambda: ops.ReduceSum(1), TypeError, "keep_dims"),
        (lambda: ops.cumsum(Tensor([True]), 0), TypeError, "Bool"),
        (lambda: ops.cumsum(X, 2), ValueError, "axis 2"),
        (lambda: ops.amax(X, where=X), ValueError, "initial"),
        (lambda: ops.norm(X, "x"), ValueError, "ord"),
        (lambda: ops.norm(X, 2), ValueError, "ord"),
        (lambda: ops.matmul(X, X), RuntimeError, r"\(2, 3\) and \(2, 3\)"),
        (lambda: ops.matmul(X, Tensor(1.0)), ValueError, "dimension"),
        (lambda: ops.matmul(X, [1]), TypeError, "list"),
        (lambda: ops.MatMul()(X, V), ValueError, "2-D"),
        (lambda: ops.MatMul()(X, X), ValueError, "3 and 2 differ"),
        (lambda: ops.MatMul(1), TypeError, "bool"),
        (lambda: ops.MatMul()(Tensor([[True]]), Tensor([[True]])), TypeError, "Bool"),
        (lambda: ops.BatchMatMul()(X, V), ValueError, "matrices"),
        (lambda: ops.bmm(X, X), ValueError, "3 dimensions"),
        (lambda: ops.outer(X, V), ValueError, "two vectors"),
        (lambda: ops.bias_add(X, ops.ones(2)), ValueError, r"\(2,\)"),
        (lambda: ops.BiasAdd("NCWH"), ValueError, "data_format"),
        (lambda: ops.tensor_dot(X, X, 1), ValueError, "differ"),
        (lambda: ops.trace(V), ValueError, "matrix"),
        (lambda: ops.diag(X), ValueError, "vector"),
        (lambda: ops.reshape(X, (4, 2)), ValueError, r"\(2, 3\) to \(4, 2\)"),
        (lambda: ops.reshape(X, (-1, -1)), ValueError, "one size"),
        (lambda: ops.reshape(X, (-1, 4)), ValueError, "6 elements"),
        (lambda: ops.reshape(X, (2.0, 3)), TypeError, "float"),
        (lambda: ops.transpose(X, (0, 0)), ValueError, "permute"),
        (lambda: ops.transpose(X, (0, 2)), ValueError, "axis 2"),
        (lambda: ops.expand_dims(X, 4), ValueError, "axis 4"),
        (lambda: ops.squeeze(X, 0), ValueError, "axis 0"),
        (lambda: ops.flatten(X, "A"), ValueError, "order"),
        (lambda: ops.flatten(X, start_dim=1, end_dim=0), ValueError, "after"),
        (lambda: ops.broadcast_to(X, (3, 3)), ValueError, r"\(3, 3\)"),
        (lambda: ops.broadcast_to(X, (-1, 2, 3)), ValueError, "-1"),
        (lambda: ops.tile(X, -1), ValueError, "negative"),
        (lambda: ops.repeat_interleave(X, -1), ValueError, "repeats"),
        (lambda: ops.repeat_interleave(X, [1, 2], 1), ValueError, "repeats"),
        (lambda: ops.roll(X, (1, 2), 0), ValueError, "one length"),
        (lambda: ops.concat(X), TypeError, "tuple or list"),
        (lambda: ops.concat(()), ValueError, "at least one"),
        (lambda: ops.concat((X, V)), ValueError, r"\(2, 3\) and \(3,\)"),
        (lambda: ops.concat((X, ops.ones((2, 2)))), ValueError, "other sizes"),
        (lambda: ops.stack((X, V)), ValueError, "one shape"),
        (lambda: ops.split(X, [1, 1], 1), ValueError, "add up to 3"),
        (lambda: ops.split(X, 0), ValueError, "positive"),
        (lambda: ops.chunk(X, 0), ValueError, "positive"),
        (lambda: ops.Split(1, 2)(X), ValueError, "equal pieces"),
        (lambda: ops.strided_slice(X, (0,), (1,), (0,)), ValueError, "stride"),
        (lambda: ops.strided_slice(X, (0,), (1, 1), (1,)), ValueError, "one length"),
        (lambda: ops.slice(X, (0, 2), (1, 2)), ValueError, "leave"),
        (lambda: ops.slice(X, (0,), (1,)), ValueError, "2 items"),
        (lambda: ops.narrow(X, 1, 2, 2), ValueError, "leave"),
        (lambda: ops.pad(X, (1,)), ValueError, "pairs"),
        (lambda: ops.pad(X, (3, 0), "reflect"), ValueError, "fit"),
        (lambda: ops.pad(X, (1, 0), "mirror"), ValueError, "mode"),
        (lambda: ops.movedim(X, (0, 1), 0), ValueError, "different axes"),
        (lambda: ops.gather(X, Tensor([0.5]), 0), TypeError, "integers"),
        (lambda: ops.gather(X, Tensor([True]), 0), TypeError, "integers"),
        (lambda: ops.gather(X, Tensor([2]), 0), IndexError, r"\[-2, 2\)"),
        (lambda: ops.gather(X, Tensor([200], dt.uint8), 0), IndexError, "out of range"),
        (lambda: ops.gather(X, Tensor([0]), 2), ValueError, "axis 2"),
        (lambda: ops.gather(X, Tensor([0, 0, 0]), 1, 1), ValueError, "first 1 sizes"),
        (lambda: ops.index_select(X, 0, Tensor([[0]])), ValueError, "1-D"),
        (lambda: ops.index_add(X, Tensor([0]), X, 0), ValueError, r"\(1, 3\)"),
        (lambda: ops.index_fill(X, 0, Tensor([2]), 1.0), IndexError, "out of range"),
        (lambda: ops.index_fill(X, 0, Tensor([[0]]), 1.0), ValueError, "1-D"),
        (lambda: ops.diagonal(X, 0, 1, -1), ValueError, "the same axis"),
        (lambda: ops.mm(X, X[0]), ValueError, "2 and 2 dimensions"),
        (lambda: ops.mv(X, X), ValueError, "2 and 1 dimensions"),
        (lambda: ops.gather_elements(X, 1, Tensor([0])), ValueError, "as many dimensions"),
        (lambda: ops.gather_elements(X, 1, Tensor([[3]])), IndexError, "out of range"),
        (lambda: ops.gather_nd(X, Tensor([[0, 3]])), IndexError, "out of range"),
        (lambda: ops.gather_nd(X, Tensor([[0, 0, 0]])), ValueError, "at most 2"),
        (lambda: ops.tensor_scatter_add(X, Tensor([[0, 0]]), V), ValueError, r"\(1,\)"),
        (lambda: ops.tensor_scatter_elements(X, Tensor([[0]]), V), ValueError, "as many positions"),
        (lambda: ops.tensor_scatter_elements(X, Tensor([[0]]), Tensor([[1.0]]), 1, "mul"),
         ValueError, "reduction"),
        (lambda: ops.unsorted_segment_sum(V, Tensor([0, 1, 2]), 2), IndexError, "less than 2"),
        (lambda: ops.topk(X, 4), ValueError, "k must be"),
        (lambda: ops.one_hot(X, 3), TypeError, "integers"),
        (lambda: ops.softmax(X, 2), ValueError, "axis 2"),
        (lambda: ops.gelu(X, "erf"), ValueError, "approximate"),
        (lambda: ops.prelu(X, ops.ones(2)), ValueError, "3"),
        (lambda: ops.mse_loss(X, X, "avg"), ValueError, "reduction"),
        (lambda: ops.huber_loss(X, X, delta=0), ValueError, "delta"),
        (lambda: ops.cross_entropy(X, V), ValueError, "one shape"),
        (lambda: ops.cross_entropy(X, Tensor([0, 1, 2])), ValueError, r"\(3,\)"),
        (lambda: ops.cross_entropy(X, Tensor([0, 3])), IndexError, "3 classes"),
        (lambda: ops.cross_entropy(X, Tensor([0, -1])), IndexError, "3 classes"),
        (lambda: ops.cross_entropy(X, Tensor([0, 1]), ops.ones(2)), ValueError, "3 classes"),
        (lambda: ops.cross_entropy(X, V, label_smoothing=2.0), ValueError, "one shape"),
        (lambda: ops.cross_entropy(X, X, label_smoothing=2.0), ValueError, "smoothing"),
        (lambda: ops.binary_cross_entropy(2 * X, X), RuntimeError, "BCEWithLogitsLoss"),
        (lambda: ops.binary_cross_entropy(X, V), ValueError, "one shape"),
        (lambda: ops.zeros(-1), ValueError, "negative"),
        (lambda: ops.zeros(2.0), TypeError, "float"),
        (lambda: ops.zeros(2, np.float32), TypeError, "minispore type"),
        (lambda: ops.full(2, "a"), TypeError, "str"),
        (lambda: ops.arange(0, 5, 0), ValueError, "step"),
        (lambda: ops.arange(X), TypeError, "constant"),
        (lambda: ops.range(0, 9, 1, 5), ValueError, "maxlen"),
        (lambda: ops.linspace(0, 1, 0), ValueError, "positive"),
        (lambda: ops.tril(V), ValueError, "2 dimensions"),
        (lambda: ops.meshgrid(V, V, indexing="yx"), ValueError, "indexing"),
        (lambda: ops.meshgrid(X), ValueError, "1-D"),
        (lambda: ops.cast(X, "float32"), TypeError, "minispore type"),
        (lambda: ops.assign(V, X), ValueError, r"\(2, 3\)"),
        (lambda: ops.assign(1, X), TypeError, "int"),
        (lambda: ops.addn(X), TypeError, "tuple or list"),
        (lambda: ops.addn(()), ValueError, "at least one"),
    ],
)  # fmt: skip
def test_errors(call: Callable, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


# ------------------------------------------------------------------ checks at run time, writes


@pytest.mark.parametrize(
    "op,good,bad,error",
    [
        (lambda i: ops.gather(X, i, 0), [0, -2], [0, 2], IndexError),
        (lambda i: ops.gather_elements(X, 1, ops.expand_dims(i, 1)), [0, -3], [0, 3], IndexError),
        (lambda i: ops.cross_entropy(X, i), [0, 2], [0, -1], IndexError),
        (lambda i: ops.pow(i, i), [0, 2], [0, -1], ValueError),
        (lambda i: ops.binary_cross_entropy(i * 0.5, i * 0.5), [0, 2], [0, 3], RuntimeError),
    ],
)
def test_checks_in_a_graph(op: Callable, good: list, bad: list, error: type[Exception]) -> None:
    """The check is an effect: it fires although the value is not used."""
    graph = graph_of(lambda i, token: [op(i), i][1], abstract(2, dtype=dt.int64), TOKEN)
    interpret(graph, [np.array(good), None])
    with pytest.raises(error):
        interpret(graph, [np.array(bad), None])


@pytest.mark.parametrize(
    "op", [ops.nonzero, ops.unique, ops.argwhere, lambda x: ops.masked_select(x, x > 0)]
)
def test_sizes_that_depend_on_values(op: Callable) -> None:
    x = np.array([[0.0, 2.0], [-1.0, 2.0]])
    assert_same(in_graph(op, x), op(Tensor(x)))


def test_masked_select() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert ops.masked_select(x, Tensor([True, False])).tolist() == [1.0, 3.0]
    assert ops.masked_select(Tensor([1.0, 2.0]), Tensor([[True], [False]])).tolist() == [1.0, 2.0]
    assert [t.tolist() for t in ops.nonzero(x - 1, as_tuple=True)] == [[0, 1, 1], [1, 0, 1]]


@pytest.mark.parametrize(
    "write,value",
    [
        (lambda x: ops.assign(x, Tensor([3, 4])), [3.0, 4.0]),
        (lambda x: ops.assign(x, 0 * x + 7), [7.0, 7.0]),
        (lambda x: ops.assign_add(x, 1), [2.0, 3.0]),
        (lambda x: ops.assign_sub(x, Tensor([1.0, 0.5])), [0.0, 1.5]),
        (lambda x: [ops.assign_sub(x, 2), ops.relu(x, inplace=True)][1], [0.0, 0.0]),
    ],
)
def test_writes(write: Callable, value: list) -> None:
    """Every name of the Tensor sees the write, and no other Tensor does; in both modes."""

    def run(x: Any) -> tuple:
        name, copy = x, ops.identity(x)
        result = write(x)
        return name, copy, result

    x = Tensor([1.0, 2.0])
    name, copy, result = run(x)
    assert result.tolist() == name.tolist() == value and copy.tolist() == [1.0, 2.0]
    assert x.dtype is result.dtype is dt.float32
    found = interpret(graph_of(run, abstract(2)), [f32(1, 2)])
    assert [f.tolist() for f in found] == [value, [1.0, 2.0], value]


def test_the_result_of_assign_is_the_value_of_then() -> None:
    def run(x: Any) -> tuple:
        first = ops.assign(x, x + 1)
        second = ops.assign_add(x, first)
        ops.scatter_update(x, Tensor([0]), Tensor([9.0]))
        return first, second, x + 0

    p = Parameter(Tensor([1.0, 2.0]), name="p")
    for compiled in (run, ms.jit(run)):
        p.set_data(Tensor([1.0, 2.0]))
        results = compiled(p)
        assert [type(r) for r in results] == [Tensor] * 3
        ops.assign(p, 0.0 * p)
        assert [r.tolist() for r in results] == [[2.0, 3.0], [4.0, 6.0], [9.0, 6.0]]


def test_print(capsys: pytest.CaptureFixture) -> None:
    def show(x: Any, token: Any) -> Any:
        ops.print_("x is", x, {"twice": 2 * x}, sep="; ")
        ops.Print()(x, end="!\n")
        return ops.depend(x, None)

    show(Tensor([1.0, 2.0]), None)
    eager = capsys.readouterr().out
    assert eager.startswith("x is; [1. 2.]; {'twice': Tensor(") and eager.endswith("[1. 2.]!\n")
    interpret(graph_of(show, abstract(2), TOKEN), [f32(1, 2), None])
    assert capsys.readouterr().out == eager


@pytest.mark.parametrize(
    "op,wanted",
    [
        (lambda x, n, s: x + s, dt.float32),
        (lambda x, n, s: n * x, dt.float32),
        (lambda x, n, s: ops.cast(x, dt.int32) * n, dt.int32),
        (lambda x, n, s: ops.cast(x, dt.int32) * s, dt.float32),
        (lambda x, n, s: ops.pow(ops.cast(x, dt.int64), n), dt.int64),
        (lambda x, n, s: ops.floor_div(ops.cast(x, dt.int64), n), dt.int64),
        (lambda x, n, s: ops.clamp(x, 0, s), dt.float32),
        (lambda x, n, s: ops.full((2,), s), dt.float32),
        (lambda x, n, s: ops.full((2,), n, dtype=dt.float16), dt.float16),
        (lambda x, n, s: ops.masked_fill(x, x > 1, s), dt.float32),
        (lambda x, n, s: ops.cast(s, dt.float64) + ops.cast(x, dt.float64), dt.float64),
    ],
)
def test_numbers_that_vary(op: Callable, wanted: dt.DType) -> None:
    """A Scalar promotes as the Python number does in PyNative mode, to the same value."""
    graph = graph_of(op, abstract(2), INT, FLOAT)
    for n, s in ((2, 1.5), (3, -0.25)):
        found = interpret(graph, [f32(1, 3), n, s])[0]
        eager = op(Tensor(f32(1, 3)), n, s)
        assert eager.dtype is wanted
        assert_same(found, eager.asnumpy())


# --------------------------------------------------------------------------- constants, classes


@pytest.mark.parametrize(
    "made,expected",
    [
        (lambda: ops.zeros(2), np.zeros(2, np.float32)),
        (lambda: ops.zeros((2, 0), dt.int8), np.zeros((2, 0), np.int8)),
        (lambda: ops.ones(5, dt.float32), np.ones(5, np.float32)),
        (lambda: ops.ones([2, 3], dt.bool_), np.ones((2, 3), bool)),
        (lambda: ops.full((2,), 3), np.array([3, 3])),
        (lambda: ops.full((2,), 3.0), f32(3, 3)),
        (lambda: ops.full((2,), True), np.array([True, True])),
        (lambda: ops.full((2,), 3.7, dtype=dt.int32), np.array([3, 3], np.int32)),
        (lambda: ops.full((2,), Tensor(3.5)), f32(3.5, 3.5)),
        (lambda: ops.fill(dt.float16, (2,), 1), np.ones(2, np.float16)),
        (lambda: ops.Fill()(dt.float16, (2,), 1), np.ones(2, np.float16)),
        (lambda: ops.arange(3), np.array([0, 1, 2])),
        (lambda: ops.arange(1, 7, 2), np.array([1, 3, 5])),
        (lambda: ops.arange(5, 1, -2), np.array([5, 3])),
        (lambda: ops.arange(3, 1), np.zeros(0, np.int64)),
        (lambda: ops.arange(0, 1, 0.4), f32(0, 0.4, 0.8)),
        (lambda: ops.arange(3, dtype=dt.float16), np.arange(3).astype(np.float16)),
        (lambda: ops.range(0, 4, 2), np.array([0, 2])),
        (lambda: ops.linspace(0, 1, 3), f32(0, 0.5, 1)),
        (lambda: ops.linspace(Tensor(1.0), 3, 3), f32(1, 2, 3)),
        (lambda: ops.eye(2), np.eye(2, dtype=np.float32)),
        (lambda: ops.eye(2, 3, dt.int32), np.eye(2, 3, dtype=np.int32)),
        (lambda: ops.cast(2.7, dt.int32), np.array(2, np.int32)),
        (lambda: ops.deepcopy(Tensor([1])), np.array([1])),
    ],
)
def test_creation(made: Callable, expected: np.ndarray) -> None:
    assert_same(made(), expected)
    found = interpret(graph_of(lambda: ops.identity(made())), [])
    np.testing.assert_array_equal(found[0], expected)


I = Tensor([1, 0])  # noqa: E741
M = Tensor([[1.0, 2.0], [3.0, 5.0]])


@pytest.mark.parametrize(
    "by_class,by_function",
    [
        (lambda: ops.ReduceSum(True)(M, 0), lambda: ops.sum(M, 0, True)),
        (lambda: ops.ReduceMean()(M), lambda: ops.reduce_mean(M)),
        (lambda: ops.ReduceMax()(M, -1), lambda: ops.reduce_max(M, -1)),
        (lambda: ops.ReduceMin()(M, (0, 1)), lambda: ops.reduce_min(M)),
        (lambda: ops.ReduceSum()(M, ()), lambda: ops.reduce_sum(M)),
        (lambda: ops.CumSum()(M, 0), lambda: ops.cumsum(M, 0)),
        (lambda: ops.Argmax()(M), lambda: ops.cast(ops.argmax(M, -1), dt.int32)),
        (lambda: ops.Argmin(0, dt.int64)(M), lambda: ops.cast(ops.argmin(M, 0), dt.int64)),
        (lambda: ops.MatMul(False, True)(M, M), lambda: ops.matmul(M, ops.swapdims(M, 0, 1))),
        (lambda: ops.RealDiv()(M, 3), lambda: ops.true_divide(M, 3)),
        (lambda: ops.TruncateDiv()(M, 3), lambda: ops.divide(M, 3, rounding_mode="trunc")),
        (lambda: ops.FloorDiv()(M, 3), lambda: ops.floor_div(M, 3)),
        (lambda: ops.Pow()(M, 3), lambda: ops.tensor_pow(M, 3)),
        (lambda: ops.Select()(M > 2, M, I), lambda: ops.where(M > 2, M, I)),
        (lambda: ops.Reshape()(M, (4,)), lambda: ops.reshape(M, (-1,))),
        (lambda: ops.Transpose()(M, (1, 0)), lambda: ops.permute(M, (1, 0))),
        (lambda: ops.ExpandDims()(M, 0), lambda: ops.unsqueeze(M, 0)),
        (lambda: ops.Squeeze(0)(ops.ExpandDims()(M, 0)), lambda: M),
        (lambda: ops.Flatten()(M), lambda: ops.flatten(M)),
        (lambda: ops.Tile()(M, (2, 1)), lambda: ops.tile(M, (2, 1))),
        (lambda: ops.BroadcastTo((2, -1, 2))(M), lambda: ops.broadcast_to(M, (2, 2, 2))),
        (lambda: ops.ReverseV2([0])(M), lambda: ops.flip(M, 0)),
        (lambda: ops.Concat(1)((M, M)), lambda: ops.cat([M, M], 1)),
        (lambda: ops.Stack(1)((M, M)), lambda: ops.stack([M, M], 1)),
        (lambda: ops.Split(0, 2)(M), lambda: ops.split(M, 1)),
        (lambda: ops.StridedSlice()(M, (0, 0), (1, 2), (1, 1)), lambda: ops.narrow(M, 0, 0, 1)),
        (lambda: ops.Pad(((1, 0), (0, 1)))(M), lambda: ops.pad(M, (0, 1, 1, 0))),
        (lambda: ops.Gather()(M, I, 0), lambda: ops.gather(M, I, 0)),
        (lambda: ops.GatherD()(M, 0, Tensor([[1, 0]])),
         lambda: ops.gather_d(M, 0, Tensor([[1, 0]]))),
        (lambda: ops.GatherNd()(M, Tensor([[1]])), lambda: ops.gather_nd(M, Tensor([[1]]))),
        (lambda: ops.IndexAdd(0)(M, I, M), lambda: ops.index_add(M, I, M, 0)),
        (lambda: ops.TensorScatterUpdate()(M, Tensor([[0]]), M[1:]),
         lambda: ops.tensor_scatter_update(M, Tensor([[0]]), M[1:])),
        (lambda: ops.TensorScatterElements(1, "add")(M, Tensor([[1], [0]]), M[:, :1]),
         lambda: ops.tensor_scatter_elements(M, Tensor([[1], [0]]), M[:, :1], 1, "add")),
        (lambda: ops.OneHot()(I, 3, Tensor(1.0), Tensor(0.0)), lambda: ops.one_hot(I, 3, 1.0, 0.0)),
        (lambda: ops.Sort(0, True)(M), lambda: ops.sort(M, 0, True)),
        (lambda: ops.TopK()(M, 1), lambda: ops.topk(M, 1)),
        (lambda: ops.Softmax((0,))(M), lambda: ops.softmax(M, 0)),
        (lambda: ops.LogSoftmax()(M), lambda: ops.log_softmax(M)),
        (lambda: ops.GeLU()(M), lambda: ops.gelu(M, "tanh")),
        (lambda: ops.BiasAdd()(M, M[0]), lambda: ops.bias_add(M, M[0])),
        (lambda: ops.Cast()(M, dt.int32), lambda: ops.cast(M, dt.int32)),
        (lambda: ops.ZerosLike()(M), lambda: ops.zeros_like(M)),
        (lambda: ops.OnesLike()(M), lambda: ops.ones_like(M)),
        (lambda: ops.AddN()((M, M)), lambda: ops.addn([M, M])),
        (lambda: ops.Depend()(M, None), lambda: M),
        (lambda: ops.Assign()(ops.identity(M), 0 * M), lambda: 0 * M),
        (lambda: ops.AssignAdd()(ops.identity(M), M), lambda: M + M),
        (lambda: ops.AssignSub()(ops.identity(M), M), lambda: M - M),
        (lambda: ops.Identity()(M), lambda: M),
        (lambda: ops.argsort(M, 0), lambda: ops.sort(M, 0)[1]),
        (lambda: ops.unbind(M, 1), lambda: ops.unstack(M, 1)),
        (lambda: ops.clip(M, 2, 4), lambda: ops.clamp(M, 2, 4)),
        (lambda: ops.index_select(M, 0, Tensor(1)), lambda: ops.index_select(M, 0, Tensor([1]))),
    ],
)  # fmt: skip
def test_classes(by_class: Callable, by_function: Callable) -> None:
    found, expected = by_class(), by_function()
    both = (found, expected) if isinstance(found, tuple) else ((found,), (expected,))
    for f, e in zip(*both, strict=True):
        assert_same(f, e.asnumpy())


LOGITS = Tensor([[1.0, -2.0, 0.5], [0.0, 1.0, 3.0]])


@pytest.mark.parametrize(
    ("by_class", "by_function"),
    [
        (lambda: ops.TensorAdd()(M, M), lambda: ops.add(M, M)),
        (lambda: ops.Inv()(M), lambda: ops.reciprocal(M)),
        (lambda: ops.Rint()(M / 2), lambda: ops.round(M / 2)),
        (lambda: ops.ReLU6()(M * 3), lambda: ops.relu6(M * 3)),
        (lambda: ops.Elu(2.0)(-M), lambda: ops.elu(-M, 2.0)),
        (lambda: ops.HSwish()(M), lambda: ops.hardswish(M)),
        (lambda: ops.HSigmoid()(M), lambda: ops.hardsigmoid(M)),
        (lambda: ops.Softsign()(M), lambda: ops.softsign(M)),
        (lambda: ops.Mish()(M), lambda: ops.mish(M)),
        (lambda: ops.SeLU()(M), lambda: ops.selu(M)),
        (lambda: ops.PReLU()(-M, M[0]), lambda: ops.prelu(-M, M[0])),
        (lambda: ops.Lerp()(M, -M, 0.25), lambda: ops.lerp(M, -M, 0.25)),
        (lambda: ops.IsClose(atol=5.0)(M, -M), lambda: ops.isclose(M, -M, atol=5.0)),
        (lambda: ops.SquaredDifference()(M, 2), lambda: (M - 2) * (M - 2)),
        (lambda: ops.DivNoNan()(M, M - 2), lambda: ops.select(M == 2, 0.0, M / (M - 2))),
        (lambda: ops.MaskedFill()(M, M > 2, 9.0), lambda: ops.select(M > 2, 9.0, M)),
        (lambda: ops.MaskedSelect()(M, M > 2), lambda: ops.masked_select(M, M > 2)),
        (lambda: ops.ArgMaxWithValue(1, True)(M),
         lambda: (ops.argmax(M, 1, True), ops.amax(M, 1, True))),
        (lambda: ops.ArgMinWithValue()(M),
         lambda: (ops.cast(ops.argmin(M, 0), dt.int64), ops.amin(M, 0))),
        (lambda: ops.L2Loss()(M), lambda: ops.sum(M * M) * 0.5),
        (lambda: ops.L2Normalize(1)(M), lambda: M / ops.norm(M, 2, 1, True)),
        (lambda: ops.L2Normalize(epsilon=100.0)(M), lambda: M / 10),
        (lambda: ops.UnsortedSegmentSum()(M, I, 2), lambda: ops.unsorted_segment_sum(M, I, 2)),
        (lambda: ops.Trace()(M), lambda: ops.trace(M)),
        (lambda: ops.Ger()(M[0], M[1]), lambda: ops.outer(M[0], M[1])),
        (lambda: ops.GatherV2()(M, I, 1), lambda: ops.gather(M, I, 1)),
        (lambda: ops.Slice()(M, (0, 1), (2, 1)), lambda: ops.slice(M, (0, 1), (2, 1))),
        (lambda: ops.Unstack(1)(M), lambda: ops.unstack(M, 1)),
        (lambda: ops.Roll(1, 0)(M), lambda: ops.roll(M, 1, 0)),
        (lambda: ops.Tril(-1)(M), lambda: ops.tril(M, -1)),
        (lambda: ops.Triu()(M), lambda: ops.triu(M)),
        (lambda: ops.Meshgrid("ij")((M[0], M[1])),
         lambda: ops.meshgrid(M[0], M[1], indexing="ij")),
        (lambda: ops.Eye()(2, 3, dt.int32), lambda: ops.eye(2, 3, dt.int32)),
        (lambda: ops.Range()(1, 7, 2), lambda: ops.arange(1, 7, 2)),
        (lambda: ops.LinSpace()(0.0, 1.0, 5), lambda: ops.linspace(0.0, 1.0, 5)),
        (lambda: ops.Zeros()((2, 1), dt.int8), lambda: ops.zeros((2, 1), dt.int8)),
        (lambda: ops.Ones()(2, dt.float16), lambda: ops.ones(2, dt.float16)),
        (lambda: ops.TensorShape()(M[:1]), lambda: Tensor([1, 2])),
        (lambda: ops.TupleToArray()((1, 2)), lambda: Tensor([1, 2], dt.int32)),
        (lambda: ops.tuple_to_array((1, 2.5)), lambda: Tensor([1.0, 2.5])),
        (lambda: ops.ScalarToTensor()(3), lambda: Tensor(3.0)),
        (lambda: ops.scalar_to_tensor(3, dt.int32), lambda: Tensor(3, dt.int32)),
        (lambda: ops.ScatterNd()(Tensor([[1]]), M[:1], (2, 2)),
         lambda: ops.scatter_nd(Tensor([[1]]), M[:1], (2, 2))),
        (lambda: ops.TensorScatterSub()(M, Tensor([[1]]), M[:1]),
         lambda: ops.tensor_scatter_add(M, Tensor([[1]]), -M[:1])),
        (lambda: ops.tensor_scatter_sub(M, Tensor([[1]]), M[:1]),
         lambda: M - Tensor([[0.0], [1.0]]) * M[:1]),
        (lambda: ops.SmoothL1Loss(0.5)(M, 2 * M), lambda: ops.smooth_l1_loss(M, 2 * M, 0.5)),
        (lambda: ops.KLDivLoss("sum")(M, M), lambda: ops.kl_div(M, M, "sum")),
        (lambda: ops.BinaryCrossEntropy()(M / 9, M / 9),
         lambda: ops.binary_cross_entropy(M / 9, M / 9)),
        (lambda: ops.BCEWithLogitsLoss("none")(M, M / 9, M, M),
         lambda: ops.binary_cross_entropy_with_logits(M, M / 9, M, M, "none")),
        (lambda: ops.SigmoidCrossEntropyWithLogits()(M, M / 9),
         lambda: ops.binary_cross_entropy_with_logits(M, M / 9, reduction="none")),
        (lambda: ops.SoftmaxCrossEntropyWithLogits()(LOGITS, ops.eye(2, 3)),
         lambda: (ops.cross_entropy(LOGITS, Tensor([0, 1]), reduction="none"),
                  ops.softmax(LOGITS) - ops.eye(2, 3))),
        (lambda: ops.SparseSoftmaxCrossEntropyWithLogits()(LOGITS, Tensor([2, 0])),
         lambda: ops.cross_entropy(LOGITS, Tensor([2, 0]))),
        (lambda: ops.SparseSoftmaxCrossEntropyWithLogits(True)(LOGITS, Tensor([2, 0])),
         lambda: ops.softmax(LOGITS) - Tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])),
        (lambda: ops.NLLLoss("sum", 1)(LOGITS, Tensor([2, 1]), Tensor([1.0, 2.0, 4.0])),
         lambda: (Tensor(-2.0), Tensor(4.0))),
        (lambda: ops.LayerNorm()(LOGITS, Tensor(2.0), Tensor(1.0))[1:],
         lambda: (ops.mean(LOGITS, 1, True), ops.var(LOGITS, 1, keepdims=True))),
        (lambda: ops.LayerNorm(0, epsilon=4.0)(Tensor([[-3.0, -1.0], [1.0, 3.0]]), 3.0, 1.0)[0],
         lambda: Tensor([[-2.0, 0.0], [2.0, 4.0]])),
    ],
)  # fmt: skip
def test_classes_of_functions(by_class: Callable, by_function: Callable) -> None:
    test_classes(by_class, by_function)


def test_classes_are_constructed_with_what_they_know() -> None:
    assert ops.DType()(M) is dt.float32 and ops.dtype(M) is dt.float32
    assert repr(ops.Elu()) == "Prim[Elu]<alpha=1.0>"
    assert (ops.is_tensor(M), ops.is_tensor(2.0)) == (True, False)
    assert (ops.is_floating_point(M), ops.is_floating_point(I)) == (True, False)
    with pytest.raises(TypeError, match="Elu is constructed with alpha"):
        ops.Elu(beta=1)
    with pytest.raises(TypeError, match="Mish is constructed with nothing"):
        ops.Mish(1)


def test_writes_of_parts() -> None:
    """Each against NumPy; the new value is returned."""
    rows, at = np.array([[1.0, 2], [3, 4], [5, 6]], np.float32), np.array([2, 0, 2])
    for function, name in (
        (np.add.at, "ScatterAdd"), (np.subtract.at, "ScatterSub"), (np.put, "ScatterUpdate"),
    ):  # fmt: skip
        expected = np.arange(6, dtype=np.float32).reshape(3, 2)
        x, nd = Tensor(expected), Tensor(expected)
        if function is np.put:
            expected[at] = rows
        else:
            function(expected, at, rows)
        out = getattr(ops, name)()(x, Tensor(at), Tensor(rows))
        whole = getattr(ops, name.replace("Scatter", "ScatterNd"))()
        out_nd = whole(nd, Tensor(at[:, None]), Tensor(rows))
        assert_same((x, nd, out, out_nd), (expected,) * 4)
    for function in (ops.scatter_update, ops.scatter_add, ops.scatter_sub, ops.scatter_max):
        with pytest.raises(ValueError, match="needs slices of shape"):
            function(M, Tensor([0]), M)
    for function in (ops.scatter_nd_update, ops.scatter_nd_add, ops.scatter_nd_sub):
        with pytest.raises(IndexError):
            function(ops.identity(M), Tensor([[7]]), M[:1])
    velocity, weight = ops.identity(M), ops.identity(M)
    ops.ApplyMomentum()(weight, velocity, 0.5, M, 0.1)
    assert_same((velocity, weight), (1.1 * M.asnumpy(), 0.45 * M.asnumpy()))
    ops.ApplyMomentum(use_nesterov=True)(weight, velocity, 1.0, M, 0.0)
    assert_same(weight, -0.55 * M.asnumpy())


def test_writes_of_extremes() -> None:
    rows, at = np.array([[1.0, 2], [3, 4], [-5, 6]], np.float32), np.array([2, 0, 2])
    for function, write, cls in (
        (np.maximum, ops.scatter_max, ops.ScatterMax),
        (np.minimum, ops.scatter_min, ops.ScatterMin),
    ):
        expected = np.arange(6, dtype=np.float32).reshape(3, 2)
        x, y = Tensor(expected), Tensor(expected)
        function.at(expected, at, rows)
        found = write(x, Tensor(at), Tensor(rows)), cls()(y, Tensor(at), Tensor(rows))
        assert_same((x, y, *found), (expected,) * 4)


def test_clipping_by_norms() -> None:
    x, y = np.array([3.0, 0], np.float32), np.array([[4.0]], np.float32)
    for clip in (ops.clip_by_global_norm, ops.clip_by_norm):
        assert_same(clip((Tensor(x), Tensor(y)), 2.5), (x / 2, y / 2))
        assert_same(clip((Tensor(x), Tensor(y)), 10.0), (x, y))
    assert_same(ops.clip_by_norm(Tensor(x), 1.0), x / 3)
    assert_same(ops.clip_by_norm([Tensor(x), Tensor(y)], 3.5, 1.0), [x / 2, y / 2])
    with pytest.raises(RuntimeError, match="not finite"):
        ops.clip_by_norm(Tensor([math.inf]), 1.0, error_if_nonfinite=True)
    with pytest.raises(ValueError, match="use_norm"):
        ops.clip_by_global_norm([Tensor(x)], 1.0, 2.0)


def test_shapes_are_python_numbers() -> None:
    assert (ops.shape(M), ops.rank(M), ops.size(M), ops.numel(M)) == ((2, 2), 2, 4, 4)
    assert (ops.Shape()(M), ops.Rank()(M), ops.Size()(M)) == ((2, 2), 2, 4)


def test_repr() -> None:
    assert repr(ops.Add()) == "Prim[Add]"
    assert repr(ops.MatMul()) == "Prim[MatMul]<transpose_a=False, transpose_b=False>"
    assert repr(ops.Concat(1)) == "Prim[Concat]<axis=1>"
    assert repr(ops.OneHot()) == "Prim[OneHot]<axis=-1>"


def test_equal_calls_are_equal_primitives() -> None:
    """Spellings of the same attributes give the same primitive; 1, 1.0 and True do not."""

    def prims(*calls: Callable) -> list[Primitive]:
        return [graph_of(call, abstract(2, 3)).output.callee for call in calls]  # type: ignore[attr-defined]

    for a, b in (
        prims(lambda x: ops.sum(x, 1), lambda x: ops.sum(x, (-1,))),
        prims(lambda x: ops.sum(x), lambda x: ops.sum(x, (1, 0))),
        prims(lambda x: ops.reshape(x, (3, -1)), lambda x: ops.reshape(x, [3, 2])),
        prims(lambda x: x[:0], lambda x: ops.slice(x, (2, 0), (0, 3))),
        prims(lambda x: ops.softmax(x), lambda x: ops.softmax(x, 1)),
    ):
        assert a == b and hash(a) == hash(b)
    ones = [ops.full(2, v, dtype=d) for v, d in ((1, dt.int64), (1.0, dt.float32))]
    assert ones[0].dtype is not ones[1].dtype
    fill = REGISTRY["Fill"]
    values = [fill.bound(dtype=dt.float32, shape=(), value=v) for v in (1, 1.0, True, 0.0, -0.0)]
    assert len(set(values)) == 5


# ----------------------------------------------------------------- numbers, tuples and stacks


@pytest.mark.parametrize("name", SCALARS)
def test_scalars(name: str) -> None:
    """Python's own result and type; gradients against central differences."""
    for prim, inputs, expected in SCALARS[name]:
        out = prim.eval(*inputs)
        assert type(out) is type(expected) and out == expected
        promised = prim.infer(*[AbstractScalar(type(v)) for v in inputs])
        assert promised == AbstractScalar(type(expected))
        if type(expected) is float and name != "ScalarCast":
            _check_scalar_gradient(prim, inputs, out)


STEPS = ("ScalarFloorDiv", "ScalarRound")  # constant, but for steps


def _check_scalar_gradient(prim: Primitive, inputs: tuple, out: float) -> None:
    step = 1e-6
    for i, cotangent in enumerate(prim.vjp(inputs, out, 1.0)):
        if type(inputs[i]) is not float:
            continue
        up, down = (
            prim.eval(*[v + s if j == i else v for j, v in enumerate(inputs)])
            for s in (step, -step)
        )
        slope = 0.0 if prim.name in STEPS else (up - down) / (2 * step)
        assert (0.0 if cotangent is None else cotangent) == pytest.approx(slope, rel=1e-6)


def test_numbers_and_tensors() -> None:
    to_tensor = REGISTRY["ScalarToTensor"].bound(dtype=dt.float16)
    assert to_tensor.infer(FLOAT) == AbstractTensor(dt.float16, ())
    assert_same(to_tensor.eval(1.5), np.array(1.5, np.float16))
    to_number = REGISTRY["TensorToScalar"].bound(kind=float)
    assert to_number.eval(np.array([[1.5]], np.float32)) == 1.5
    with pytest.raises(ValueError, match="one element"):
        to_number.infer(AbstractTensor(dt.float32, (2,)))


def test_tuples_and_stacks() -> None:
    pair, second = REGISTRY["MakeTuple"].bound(), REGISTRY["TupleGetItem"].bound(index=1)
    kinds = AbstractTuple((FLOAT, abstract(2)))
    assert pair.infer(FLOAT, abstract(2)) == kinds and second.infer(kinds) == abstract(2)
    assert second.eval(pair.eval(1.0, 2.0)) == 2.0
    push, pop = REGISTRY["Push"].bound(), REGISTRY["Pop"].bound(abstract=FLOAT)
    stack = push.eval(push.eval(None, 1.0), 2.0)
    assert push.infer(STACK, FLOAT) == STACK and pop.infer(STACK) == AbstractTuple((FLOAT, STACK))
    top, below = pop.eval(stack)
    assert (top, pop.eval(below)[0], pop.eval(None)) == (2.0, 1.0, (0.0, None))


@pytest.mark.parametrize("call", [lambda f, *a: f(*a), lambda f, *a: ms.jit(f)(*a)])
def test_order_and_formulas_at_the_edges(call):
    nan, inf = np.nan, np.inf

    def formulas(a, b):
        return ops.hypot(a, b), ops.logaddexp(a, b), ops.xlogy(b, a), ops.erfc(b)

    def order(a, k):
        return ops.median(a), ops.cummax(a, 0), ops.cummin(k, -1), ops.median(k, 0, True)

    a, b = np.array([3e38, 0, inf, nan, 0], np.float32), np.array([1e38, 0, 1, 0, 5], np.float32)
    hypot, added, product, rest = call(formulas, Tensor(a), Tensor(b))
    assert_same(hypot, np.hypot(a, b))
    with np.errstate(invalid="ignore"):
        assert_same(added, np.logaddexp(a, b))
    assert_same(product, np.array([inf, 0, inf, nan, -inf], np.float32))
    assert_same(rest[4], np.float32(1.5374597944280347e-12))
    a = Tensor([1.0, 3.0, 3.0, 2.0, nan, 5.0])
    of_a, largest, smallest, of_k = call(order, a, Tensor([[3, 1, 1], [1, 2, 0]]))
    assert_same(of_a, (Tensor(nan), Tensor(4)))
    assert_same(largest, (Tensor([1.0, 3, 3, 3, nan, nan]), Tensor([0, 1, 2, 2, 4, 4])))
    places = Tensor([[0, 1, 2], [0, 0, 2]], dt.int32)
    assert_same(smallest, (Tensor([[3, 1, 1], [1, 1, 0]]), places))
    assert_same(of_k, (Tensor([[1, 1, 0]]), Tensor([[1, 0, 1]])))


def test_gradients_of_equal_extremes_are_shared():
    x, i, y = Tensor([1.0, 2.0, 3.0]), Tensor([[0], [0], [2]]), Tensor([1.0, 1.0, 4.0])
    by_x, by_y = ms.grad(ops.tensor_scatter_max, (0, 2))(x, i, y)
    assert_same(by_x, Tensor([1 / 3, 1.0, 0.0]))
    assert_same(by_y, Tensor([1 / 3, 1 / 3, 1.0]))


@pytest.mark.parametrize("run", [lambda f: f, ms.jit])
def test_derivatives_of_an_order(run):
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 5.0])
    third = run(lambda x: ops.derivative(ops.sin, x, 3))(x)
    assert_same(third, (ops.sin(x), -ops.cos(x)), 10.0)
    found = run(lambda x, y: ops.derivative(lambda x, y: x * x * y, (x, y), 2))(x, y)
    assert_same(found, (x * x * y, 2 * y + 4 * x), 10.0)
    for order, error in ((0, ValueError), (True, TypeError)):
        with pytest.raises(error, match="derivative: order"):
            ops.derivative(ops.sin, x, order)
