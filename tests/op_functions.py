"""Rows of the op table for functions that are composed of primitives (see op_table.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from op_table import Case, bools, distinct, floats, gelu_tanh, ints, sigmoid

from minispore import dtype as dt
from minispore import ops

FUNCTIONS: dict[str, list[Case]] = {}
WIDE = (dt.float64, dt.float32)


def row(
    name: str, inputs: tuple, reference: Callable, order: int = 2, result: dt.DType | None = None,
    call: Callable | None = None, **keywords: Any,
) -> None:  # fmt: skip
    """A row of ``ops.<name>``, called with keywords; or of `call`, if that is not how."""
    op = getattr(ops, name)
    function = call or (lambda *tensors: op(*tensors, **keywords))
    case = Case(function, inputs, reference, order, WIDE, result, factor=8)
    FUNCTIONS.setdefault(name, []).append(case)


# fmt: off
# ------------------------------------------------------------------ element-wise, activations

row("lerp", (floats(2, 3), floats(3), floats()), lambda x, y, w: x + w * (y - x))
row("subtract", (floats(3), floats(3)), lambda x, y: x - 2 * y, alpha=2)
row("div", (floats(3), floats(3, low=0.5)), lambda x, y: np.floor(x / y), 0, rounding_mode="floor")
row("div", (floats(3), floats(3, low=0.5)), lambda x, y: np.trunc(x / y), 0, rounding_mode="trunc")
row("clamp", (floats(2, 3),), lambda x: np.clip(x, -0.7, 0.8), 1, min=-0.7, max=0.8)
row("clamp", (floats(2, 3), floats(3)), lambda x, y: np.minimum(x, y), 1,
    call=lambda x, y: ops.clamp(x, max=y))
row("clip_by_value", (floats(2, 3),), lambda x: np.clip(x, -0.7, 0.8), 1,
    clip_value_min=-0.7, clip_value_max=0.8)
row("isclose", (np.array([1.0, 1.0, np.nan, np.inf, np.inf]),
                np.array([1.0, 1.1, np.nan, np.inf, 1.0])),
    lambda x, y: np.isclose(x, y, 0.2, 1e-3), 0, dt.bool_, rtol=0.2, atol=1e-3)
row("isclose", (np.array([np.nan, 1.0]), np.array([np.nan, np.nan])),
    lambda x, y: np.isclose(x, y, equal_nan=True), 0, dt.bool_, equal_nan=True)
row("round", (np.array([1.25, -0.68, 2.5]),), lambda x: np.round(x, 1), 0, decimals=1)
row("relu", (floats(2, 3),), lambda x: np.maximum(x, 0), 1)
row("relu6", (floats(2, 3, low=-8, high=8),), lambda x: np.clip(x, 0, 6), 1)
row("sigmoid", (floats(2, 3),), sigmoid)
row("tanh", (floats(2, 3),), np.tanh)
row("silu", (floats(2, 3),), lambda x: x * sigmoid(x))
row("gelu", (floats(2, 3),), gelu_tanh, approximate="tanh")
row("gelu", (floats(2, 3),), lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2)
row("softplus", (floats(2, 3),), lambda x: np.log(1 + np.exp(3 * x)) / 3, beta=3)
row("softplus", (floats(2, 3),),
    lambda x: np.where(x > 0.75, x, np.log(1 + np.exp(x))), threshold=0.75)
row("leaky_relu", (floats(2, 3),), lambda x: np.where(x > 0, x, 0.2 * x), 1)
row("leaky_relu", (floats(2, 3),), lambda x: np.where(x > 0, x, 1.5 * x), 1, alpha=1.5)
row("elu", (floats(2, 3),), lambda x: np.where(x > 0, x, 1.5 * (np.exp(x) - 1)), 1, alpha=1.5)
row("selu", (floats(2, 3),),
    lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)), 1)
row("hardswish", (floats(2, 3, low=-5, high=5),), lambda x: x * np.clip(x + 3, 0, 6) / 6, 1)
row("hardsigmoid", (floats(2, 3, low=-5, high=5),), lambda x: np.clip(x + 3, 0, 6) / 6, 1)
row("mish", (floats(2, 3),), lambda x: x * np.tanh(np.log(1 + np.exp(x))))
row("logsigmoid", (floats(2, 3),), lambda x: np.log(sigmoid(x)))
row("softsign", (floats(2, 3),), lambda x: x / (1 + np.abs(x)), 1)
row("prelu", (floats(2, 3, 2), floats(3)),
    lambda x, w: np.where(x > 0, x, w[:, None] * x), 1)
row("prelu", (floats(2, 3), floats(1)), lambda x, w: np.where(x > 0, x, w * x), 1)
row("softmax", (floats(2, 3),), lambda x: np.exp(x) / np.exp(x).sum(0), axis=0)
row("log_softmax", (floats(2, 3),), lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)))
row("masked_fill", (floats(2, 3), bools(2, 1)), lambda x, m: np.where(m, 1.5, x),
    call=lambda x, m: ops.masked_fill(x, m, 1.5))

# ---------------------------------------------------------------------------------- reductions

row("sum", (floats(2, 3),), lambda x: x.sum())
row("sum", (floats(2, 3, 2),), lambda x: x.sum((0, 2), keepdims=True), dim=(0, -1), keepdim=True)
row("sum", (ints(2, 3).astype(np.int8),), lambda x: x.sum(0), 0, dt.int64, dim=0)
row("sum", (ints(2, 3),), lambda x: x.sum(), 0, dt.float32, dtype=dt.float32)
row("mean", (floats(2, 3),), lambda x: x.mean(1), axis=-1)
row("prod", (floats(2, 3),), lambda x: x.prod(0), axis=0)
row("prod", (ints(2, 3, low=1).astype(np.int32),), lambda x: x.prod(), 0, dt.int64)
row("all", (ints(2, 3),), lambda x: x.all(1), 0, axis=1)
row("any", (bools(2, 3),), lambda x: x.any(1, keepdims=True), 0, axis=1, keep_dims=True)
row("amax", (distinct(2, 3),), lambda x: x.max(1), 1, axis=1)
row("amax", (distinct(2, 3), bools(2, 3)), lambda x, m: np.maximum(np.where(m, x, 0.3).max(1), 0.3),
    1, call=lambda x, m: ops.amax(x, 1, initial=0.3, where=m))
row("amin", (distinct(2, 3),), lambda x: x.min(0, keepdims=True), 1, axis=0, keepdims=True)
row("max", (distinct(2, 3),), lambda x: x.max(1), 1, call=lambda x: ops.max(x, 1)[0])
row("argmax", (distinct(2, 3),), lambda x: np.array(x.argmax()), 0, dt.int64)
row("argmax", (distinct(2, 3),), lambda x: x.argmax(1)[:, None], 0, dt.int64, dim=1, keepdim=True)
row("argmin", (distinct(2, 3),), lambda x: x.argmin(0), 0, dt.int32, axis=0)
row("var", (floats(2, 3),), lambda x: x.var())
row("var", (floats(2, 3),), lambda x: x.var(1, ddof=1), axis=1, ddof=1)
row("var", (floats(2, 3),), lambda x: x.var(0, keepdims=True), axis=0, keepdims=True)
row("var", (ints(2, 3),), lambda x: x.var(), 0, dt.float32)
row("std", (floats(2, 3),), lambda x: x.std(1), axis=1)
row("logsumexp", (floats(2, 3),), lambda x: np.log(np.exp(x).sum(1)), dim=1)
row("logsumexp", (floats(2, 3) + 1000.0,), lambda x: 1000 + np.log(np.exp(x - 1000).sum((0, 1))),
    1, dim=(0, 1))
row("logsumexp", (np.array([[-np.inf, -np.inf], [0.0, np.inf]]),),
    lambda x: np.array([-np.inf, np.inf]), 0, dim=1)
for _ord in (None, 1, 2, 3, 0.5, np.inf, -np.inf):
    row("norm", (floats(2, 4),), lambda x, o=_ord: np.linalg.norm(x, o, 1),
        2 if _ord in (None, 2) else 1, ord=_ord, dim=1)
for _ord in (1, -1, np.inf, -np.inf, "fro"):
    row("norm", (floats(2, 4),), lambda x, o=_ord: np.linalg.norm(x, o), 1, ord=_ord)
row("norm", (np.array([[0.0, 1.5, 0.0]]),), lambda x: np.array([1.0]), 0, ord=0, dim=1)
row("norm", (floats(2, 3),), lambda x: np.linalg.norm(x.ravel()))
row("norm", (floats(2, 3, 2),), lambda x: np.linalg.norm(x, 1, (2, 0), keepdims=True), 1,
    ord=1, dim=(2, 0), keepdim=True)
row("cumsum", (floats(2, 3),), lambda x: x.cumsum(1), axis=1)
for _size in (1, 2, 5, 8):
    row("cumprod", (floats(2, _size),), lambda x: np.cumprod(x, 1), dim=1)
row("cumprod", (np.array([2.0, 0.0, 3.0, 0.0, 1.5]),), lambda x: np.cumprod(x), dim=0)
row("count_nonzero", (np.array([[1.0, 0], [0, 0]]),), lambda x: np.array([1, 0]), 0, dt.int32,
    axis=1)

# -------------------------------------------------------------------------------------- linalg

for _one, _two in (
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)), ((4, 2, 3), (3, 5)),
    ((4, 2, 3), (4, 3, 5)), ((4, 1, 2, 3), (6, 3, 5)), ((3,), (4, 3, 2)), ((4, 2, 3), (3,)),
    ((0, 3), (3, 2)), ((2, 0), (0,)), ((4, 2, 0), (0, 3)),
):
    row("matmul", (floats(*_one), floats(*_two)), np.matmul)
for _one, _two in (((2, 3), (3, 2)), ((3,), (3,)), ((2, 3), (4, 3, 2)), ((5, 2, 3), (4, 3, 2))):
    row("dot", (floats(*_one), floats(*_two)), np.dot)
row("bmm", (floats(2, 3, 4), floats(2, 4, 1)), np.matmul)
row("outer", (floats(2), floats(3)), np.outer)
row("bias_add", (floats(2, 3), floats(3)), np.add)
row("tensor_dot", (floats(2, 3, 4), floats(4, 3, 5)),
    lambda x, y: np.tensordot(x, y, ((2, 1), (0, 1))), axes=((2, 1), (0, 1)))
row("tensor_dot", (floats(2, 3), floats(3, 4)), lambda x, y: np.tensordot(x, y, 1), axes=1)
row("tensor_dot", (floats(2), floats(3)), lambda x, y: np.tensordot(x, y, 0), axes=0)
row("trace", (floats(2, 3),), np.trace)
row("mm", (floats(2, 3), floats(3, 4)), np.matmul)
row("mv", (floats(2, 3), floats(3)), np.matmul)
row("addmm", (floats(4), floats(2, 3), floats(3, 4)),
    lambda c, x, y: 0.5 * c + 2 * x @ y, beta=0.5, alpha=2)
row("addmv", (floats(2), floats(2, 3), floats(3)), lambda c, x, y: c + x @ y)
row("baddbmm", (floats(5, 2, 1), floats(5, 2, 3), floats(5, 3, 4)),
    lambda c, x, y: 0.5 * c + 2 * x @ y, beta=0.5, alpha=2)
row("addcmul", (floats(2, 3), floats(3), floats(2, 1)), lambda x, y, z: x + 2.5 * y * z, value=2.5)
row("addcdiv", (floats(2, 3), floats(3), floats(2, 1)), lambda x, y, z: x + 2.5 * y / z, value=2.5)
row("frac", (floats(2, 3),), lambda x: x - np.trunc(x))
row("exp2", (floats(2, 3),), np.exp2)
row("deg2rad", (floats(2, 3),), np.deg2rad)
row("rad2deg", (floats(2, 3),), np.rad2deg)
for _offset in (0, 1, -1, 3, -9):
    row("diagonal", (floats(2, 3),), lambda x, k=_offset: np.diagonal(x, k), offset=_offset)
row("diagonal", (floats(2, 3, 4),), lambda x: np.diagonal(x, 1, 2, 0), offset=1, dim1=-1, dim2=0)
row("diag", (floats(3),), np.diag)

# --------------------------------------------------------------------------------------- shape

row("reshape", (floats(2, 6),), lambda x: x.reshape(3, -1, 2), shape=(3, -1, 2))
row("permute", (floats(2, 3, 4),), lambda x: x.transpose(1, 2, 0), axis=(1, -1, 0))
row("swapaxes", (floats(2, 3, 4),), lambda x: x.swapaxes(0, -1), axis0=0, axis1=-1)
row("movedim", (floats(2, 3, 4),), lambda x: np.moveaxis(x, (0, 1), (-1, 0)), source=(0, 1),
    destination=(-1, 0))
row("expand_dims", (floats(2, 3),), lambda x: x[..., None], axis=-1)
row("unsqueeze", (floats(2, 3),), lambda x: x[:, None], dim=1)
row("squeeze", (floats(1, 2, 1),), np.squeeze)
row("squeeze", (floats(1, 2, 1),), lambda x: x[0], axis=0)
row("flatten", (floats(2, 3, 4),), lambda x: x.reshape(2, 12))
row("flatten", (floats(2, 3, 4),), lambda x: x.reshape(6, 4), start_dim=0, end_dim=1)
row("flatten", (floats(2, 3, 4),), lambda x: x.T.reshape(4, 6),
    call=lambda x: ops.flatten(x, "F"))
row("flatten", (floats(),), lambda x: x.reshape(1))
row("broadcast_to", (floats(2, 1),), lambda x: np.broadcast_to(x, (4, 2, 3)), shape=(4, -1, 3))
row("tile", (floats(2, 3),), lambda x: np.tile(x, (2, 1, 2)), dims=(2, 1, 2))
row("tile", (floats(2, 3),), lambda x: np.tile(x, 2), dims=2)
row("repeat_interleave", (floats(2, 3),), lambda x: np.repeat(x, 2), repeats=2)
row("repeat_interleave", (floats(2, 3),), lambda x: np.repeat(x, 2, 1), repeats=2, axis=1)
row("repeat_interleave", (floats(2, 3),), lambda x: np.repeat(x, [2, 0, 1], 1),
    repeats=[2, 0, 1], axis=-1)
row("flip", (floats(2, 3),), lambda x: np.flip(x, (0, 1)), dims=(0, 1))
row("roll", (floats(2, 3),), lambda x: np.roll(x, 4), shifts=4)
row("roll", (floats(2, 3),), lambda x: np.roll(x, (1, -2), (0, 1)), shifts=(1, -2), dims=(0, 1))
row("concat", (floats(2, 3), floats(1, 3)), lambda *x: np.concatenate(x),
    call=lambda *x: ops.concat(x))
row("cat", (floats(2, 3), ints(2, 1)), lambda *x: np.concatenate(x, -1),
    call=lambda *x: ops.cat(x, -1))
row("stack", (floats(2, 3), floats(2, 3)), lambda *x: np.stack(x, -1),
    call=lambda *x: ops.stack(x, -1))
row("unstack", (floats(2, 3),), lambda x: tuple(x.T), axis=1)
row("split", (floats(5, 2),), lambda x: (x[:2], x[2:4], x[4:]), split_size_or_sections=2)
row("split", (floats(2, 5),), lambda x: (x[:, :1], x[:, 1:]), split_size_or_sections=[1, 4], axis=1)
row("chunk", (floats(5, 2),), lambda x: (x[:2], x[2:4], x[4:]), chunks=3)
row("strided_slice", (floats(4, 5),), lambda x: x[1:-1, ::-2],
    begin=(1, 4), end=(-1, -6), strides=(1, -2))
row("slice", (floats(4, 5),), lambda x: x[1:, 2:4], begin=(1, 2), size=(-1, 2))
row("narrow", (floats(4, 5),), lambda x: x[:, 1:3], axis=1, start=1, length=2)
row("pad", (floats(2, 3),), lambda x: np.pad(x, ((0, 0), (1, 2)), constant_values=0.5),
    padding=(1, 2), value=0.5)
row("pad", (floats(2, 3),), lambda x: np.pad(x[:, 1:], ((1, 0), (0, 2))), padding=(-1, 2, 1, 0))
for _mode, _theirs in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
    row("pad", (floats(3, 4),), lambda x, m=_theirs: np.pad(x, ((2, 0), (1, 3)), m),
        padding=(1, 3, 2, 0), mode=_mode)
row("tril", (floats(2, 3, 4),), lambda x: np.tril(x, 1), diagonal=1)
row("triu", (floats(3, 3),), np.triu)
row("meshgrid", (floats(2), floats(3), floats(1)),
    lambda *x: tuple(np.array(g) for g in np.meshgrid(*x)))
row("meshgrid", (floats(2), floats(3)), lambda *x: tuple(np.meshgrid(*x, indexing="ij")),
    indexing="ij")
row("linspace", (), lambda: np.linspace(-1, 1, 5), 0, dt.float32,
    call=lambda: ops.linspace(-1, 1, 5))
row("addn", (floats(2, 3), floats(2, 3), floats(3)), lambda x, y, z: x + y + z,
    call=lambda *x: ops.addn(x))
row("zeros_like", (floats(2, 3),), np.zeros_like, 0)
row("ones_like", (floats(2, 3),), np.ones_like, 0)
row("full_like", (floats(2, 3),), lambda x: np.full(x.shape, 7), 0, dt.int8, fill_value=7,
    dtype=dt.int8)

# -------------------------------------------------------------------------- gather and scatter

row("gather", (floats(4, 3), np.array([[1, -1], [0, 0]])), lambda x, i: x[i], axis=0)


def _gather_of_batches(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    return np.stack([np.take(a, i, axis - 1) for a, i in zip(x, index, strict=True)])


row("gather", (floats(2, 3, 4), np.array([[1, 0], [2, -1]])),
    lambda x, i: _gather_of_batches(x, i, 1), axis=1, batch_dims=1)
row("gather", (floats(2, 3, 4, 2), np.array([[[1], [0]], [[2], [3]]])),
    lambda x, i: _gather_of_batches(x, i, 2), axis=2, batch_dims=1)
row("gather", (floats(2, 3), np.array([1, -1])),
    lambda x, i: _gather_of_batches(x, i, 1), axis=1, batch_dims=1)
row("index_select", (floats(4, 3), np.array([2, 0], np.uint8)), lambda x, i: x[:, i],
    axis=1, call=lambda x, i: ops.index_select(x, 1, i))
row("index_fill", (floats(2, 3, 2), np.array([-1, 0, -1])),
    lambda x, i: np.stack([x[:, 0] * 0 + 7, x[:, 1], x[:, 2] * 0 + 7], 1),
    call=lambda x, i: ops.index_fill(x, -2, i, 7))
row("index_add", (floats(3, 2), np.array([1, 1]), floats(2, 2)),
    lambda x, i, y: x + np.array([[0, 0], [1, 1], [0, 0]]) * y.sum(0), axis=0)
row("gather_elements", (floats(2, 3), np.array([[0, -1], [2, 2]])),
    lambda x, i: np.take_along_axis(x, i, 1), call=lambda x, i: ops.gather_elements(x, 1, i))
row("gather_nd", (floats(2, 3), np.array([[0, 2], [1, 1]])), lambda x, i: x[i[:, 0], i[:, 1]])
row("scatter_nd", (np.array([[1], [1]]), floats(2, 2)),
    lambda i, y: np.stack([np.zeros(2), y.sum(0), np.zeros(2)]), shape=(3, 2))
row("unsorted_segment_sum", (floats(4, 2), np.array([1, -1, 1, 0])),
    lambda x, i: np.stack([x[3], x[0] + x[2], np.zeros(2)]), num_segments=3)
row("unsorted_segment_sum", (floats(2, 2), np.array([[1, 0], [0, 0]])),
    lambda x, i: np.array([x.sum() - x[0, 0], x[0, 0]]), num_segments=2)
row("sort", (distinct(2, 4),), lambda x: (np.sort(x, 0)[::-1], np.argsort(-x, 0).astype(np.int32)),
    0, axis=0, descending=True)
row("sort", (distinct(2, 4),), lambda x: np.sort(x, 1), 1, call=lambda x: ops.sort(x)[0])
row("topk", (distinct(2, 4),), lambda x: -np.sort(-x, 1)[:, :2], 1,
    call=lambda x: ops.topk(x, 2)[0])
row("topk", (distinct(2, 4),),
    lambda x: (np.sort(x, 0)[:1], np.argsort(x, 0)[:1].astype(np.int32)), 0,
    k=1, dim=0, largest=False)
row("max", (distinct(2, 4),), lambda x: (x.max(1), x.argmax(1)), 0, axis=1)
row("min", (distinct(2, 4),), lambda x: (np.array([x.min()]), np.array([x.argmin()])), 0,
    call=lambda x: tuple(ops.reshape(v, (1,)) for v in ops.min(x)))
for _axis in (0, 1, -1):
    row("one_hot", (np.array([[0, 2, 5]]),),
        lambda i, a=_axis: np.moveaxis(np.where(i[..., None] == np.arange(3), 1.5, -1), -1, a),
        0, dt.float32, depth=3, on_value=1.5, off_value=-1.0, axis=_axis)
row("one_hot", (np.array([0, 1]), floats(), floats()),
    lambda i, on, off: np.where(np.eye(3)[i] == 1, on, off),
    call=lambda i, on, off: ops.one_hot(i, 3, on, off))

# -------------------------------------------------------------------------------------- losses

for _reduction, _reduce in (("none", lambda x: x), ("mean", np.mean), ("sum", np.sum)):
    row("mse_loss", (floats(2, 3), floats(2, 3)),
        lambda x, y, r=_reduce: r((x - y) ** 2), reduction=_reduction)
    row("l1_loss", (floats(2, 3), floats(2, 3)),
        lambda x, y, r=_reduce: r(np.abs(x - y)), 1, reduction=_reduction)
    row("huber_loss", (floats(2, 3), floats(2, 3)),
        lambda x, y, r=_reduce: r(np.where(np.abs(x - y) < 0.9, (x - y) ** 2 / 2,
                                           0.9 * (np.abs(x - y) - 0.45))), 1,
        reduction=_reduction, delta=0.9)
    row("smooth_l1_loss", (floats(2, 3), floats(2, 3)),
        lambda x, y, r=_reduce: r(np.where(np.abs(x - y) < 0.5, (x - y) ** 2,
                                           np.abs(x - y) - 0.25)), 1,
        reduction=_reduction, beta=0.5)
    row("kl_div", (floats(2, 3), floats(2, 3, low=0.1)),
        lambda x, y, r=_reduce: r(y * (np.log(y) - x)), reduction=_reduction)
    row("binary_cross_entropy", (floats(2, 3, low=0.3, high=0.7), floats(2, 3, low=0, high=1),
                                 floats(3)),
        lambda p, y, w, r=_reduce: r(-w * (y * np.log(p) + (1 - y) * np.log(1 - p))),
        reduction=_reduction)
    row("binary_cross_entropy_with_logits",
        (floats(2, 3), floats(2, 3, low=0, high=1), floats(3), floats(3, low=0.5)),
        lambda x, y, w, p, r=_reduce: r(-w * (p * y * np.log(sigmoid(x))
                                              + (1 - y) * np.log(sigmoid(-x)))),
        reduction=_reduction)
row("mse_loss", (ints(2), ints(2)), lambda x, y: np.mean((x - y) ** 2.0), 0, dt.float32)
row("kl_div", (floats(2, 3), np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])),
    lambda x, y: np.sum(np.where(y > 0, y * (np.log(np.where(y > 0, y, 1)) - x), 0)) / 2,
    0, reduction="batchmean")


def cross_entropy(
    scores: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None,
    reduction: str = "mean", label_smoothing: float = 0.0, ignore_index: int = -100,
) -> np.ndarray:
    """Class by class and place by place: scores (n, c, ...), target (n, ...) or (n, c, ...)."""
    scores = np.moveaxis(scores, 1, -1)
    c = scores.shape[-1]
    w = np.ones(c) if weight is None else weight
    given = np.moveaxis(target, 1, -1) if target.dtype.kind == "f" else None
    losses, shares = np.zeros(scores.shape[:-1]), np.zeros(scores.shape[:-1])
    for place in np.ndindex(*losses.shape):
        x = scores[place]
        logp = x - math.log(sum(math.exp(v) for v in x))
        if given is None and target[place] == ignore_index:
            continue
        t = given[place] if given is not None else np.eye(c)[target[place]]
        share = float(t @ w) if given is None else 1.0
        t = t * (1 - label_smoothing) + label_smoothing / c
        losses[place], shares[place] = -sum(w * t * logp), share
    if reduction == "none":
        return losses
    return np.sum(losses) / (np.sum(shares) if reduction == "mean" else 1)


_labels = np.array([0, 2, -100, 1], np.int32)
for _how in (
    {}, {"reduction": "sum"}, {"reduction": "none"}, {"label_smoothing": 0.3},
    {"label_smoothing": 0.3, "reduction": "none"}, {"ignore_index": 2},
):
    for _scores, _target in (
        (floats(4, 3), _labels), (floats(2, 3, 2), _labels.reshape(2, 2).astype(np.int64)),
        (floats(4, 3), floats(4, 3, low=0.1, high=0.9)),
        (floats(2, 3, 2), floats(2, 3, 2, low=0.1, high=0.9)),
    ):
        if "ignore_index" in _how and _target.dtype.kind == "i":
            _target = np.where(_target == -100, 1, _target)
        row("cross_entropy", (_scores, _target),
            lambda x, t, how=_how: cross_entropy(x, t, **how), **_how)
        row("cross_entropy", (_scores, _target, floats(3, low=0.5)),
            lambda x, t, w, how=_how: cross_entropy(x, t, w, **how), **_how)
row("cross_entropy", (floats(3), np.array(1)), lambda x, t: cross_entropy(x[None], t[None]))
row("nll_loss", (floats(4, 3), _labels, floats(3, low=0.5)),
    lambda x, t, w: -sum(w[c] * x[n, c] for n, c in enumerate(t) if c >= 0)
    / sum(w[c] for c in t if c >= 0))
# New rows come last, so that the numbers of the others stay what they are.
row("hypot", (floats(2, 3), floats(3)), np.hypot)
row("logaddexp", (floats(2, 3), floats(3)), np.logaddexp)
row("xlogy", (floats(2, 3), floats(3, low=0.5)), lambda x, y: x * np.log(y))
row("median", (distinct(2, 4),),
    lambda x: (np.sort(x, 0)[0], np.argsort(x, 0)[0]), 0, axis=0)
row("median", (distinct(2, 5),), lambda x: np.median(x, 1), 1,
    call=lambda x: ops.median(x)[0])
row("cummax", (distinct(2, 5),), lambda x: np.maximum.accumulate(x, 1), 1,
    call=lambda x: ops.cummax(x, -1)[0])
row("cummin", (distinct(4, 2),), lambda x: np.minimum.accumulate(x, 0), 1,
    call=lambda x: ops.cummin(x, 0)[0])
row("tensor_scatter_max", (distinct(4), np.array([[1], [2]]), 0.9 * distinct(2)),
    lambda x, i, y: np.concatenate([x[:1], np.maximum(x[1:3], y), x[3:]]), 1)
row("tensor_scatter_min", (distinct(4), np.array([[1], [2]]), 0.9 * distinct(2)),
    lambda x, i, y: np.concatenate([x[:1], np.minimum(x[1:3], y), x[3:]]), 1)
row("scatter", (floats(2, 3), np.array([[0], [2]]), floats(2, 1)),
    lambda x, i, y: np.array([[y[0, 0], x[0, 1], x[0, 2]], [x[1, 0], x[1, 1], y[1, 0]]]),
    call=lambda x, i, y: ops.scatter(x, 1, i, y))
