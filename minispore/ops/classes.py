"""MindSpore's classes of ops that are functions here: ``ops.ReLU6()(x)`` is ``ops.relu6(x)``.

One row each: the name, what it computes, and the attributes that it is constructed with, in order,
with their defaults; they are passed to the function as keywords.  Classes that are primitives
themselves stand where their mathematics stands (elementwise.py, reduce.py ...).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore import ops
from minispore.ops.common import Composite, check_tensor, require
from minispore.ops.scatter import (
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_nd_add,
    scatter_nd_sub,
    scatter_nd_update,
    scatter_sub,
    scatter_update,
    tensor_scatter_sub,
)
from minispore.primitive import TensorLike, as_tensor


def _class(name: str, function: Callable, **defaults: Any) -> Any:
    """The class of a function; `defaults` are the attributes that it is constructed with."""

    def __init__(self: Composite, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(defaults) or kwargs.keys() - defaults.keys():
            known = ", ".join(defaults) or "nothing"
            raise TypeError(f"{name} is constructed with {known}")
        self.attrs.update({**defaults, **dict(zip(defaults, args, strict=False)), **kwargs})

    def __call__(self: Composite, *args: Any) -> Any:
        return function(*args, **self.attrs)

    doc = (function.__doc__ or "").split("\n")[0]
    body = {"__init__": __init__, "__call__": __call__, "__module__": __name__, "__doc__": doc}
    return type(name, (Composite,), body)


# ---------------------------------------------------- functions without a name of their own


def _squared_difference(x: Any, y: Any) -> Any:
    """The square of the difference."""
    return ops.square(ops.sub(x, y))


def _div_no_nan(x: Any, y: Any) -> Any:
    """The quotient, and 0 where the divisor is 0."""
    zero = ops.equal(y, 0)
    return ops.select(zero, 0, ops.div(x, ops.select(zero, 1, y)))


def _max_with_position(x: Any, axis: int, keep_dims: bool) -> tuple:
    """(Int64 position of the largest element along an axis, that element)."""
    place = ops.argmax(x, axis, keep_dims)
    return ops.cast(place, dt.int64), ops.reduce_max(x, axis, keep_dims)


def _min_with_position(x: Any, axis: int, keep_dims: bool) -> tuple:
    """(Int64 position of the smallest element along an axis, that element)."""
    place = ops.argmin(x, axis, keep_dims)
    return ops.cast(place, dt.int64), ops.reduce_min(x, axis, keep_dims)


def _half_sum_of_squares(x: Any) -> Any:
    """Half the sum of the squares."""
    return ops.sum(ops.square(x)) / 2


def _normalized(x: Any, axis: Any, epsilon: float) -> Any:
    """x divided by its Euclidean length along an axis, or by the root of epsilon if less."""
    return x / ops.sqrt(ops.maximum(ops.reduce_sum(ops.square(x), axis, True), epsilon))


def _roll(x: Any, shift: Any, axis: Any) -> Any:
    """The elements moved along an axis; what leaves at one end comes in at the other."""
    return ops.roll(x, shift, axis)


def _meshgrid(inputs: tuple, indexing: str) -> tuple:
    """Coordinates of a grid, from a tuple of 1-D Tensors."""
    return ops.meshgrid(*inputs, indexing=indexing)


def _shape_tensor(x: Any) -> Any:
    """The shape as an Int64 Tensor."""
    return ops.constant(np.array(check_tensor("TensorShape", x).shape, np.int64))


def _softmax_cross_entropy(logits: Any, labels: Any) -> tuple:
    """(cross entropy of each row, its gradient by the logits), from probabilities as labels."""
    loss = ops.cross_entropy(logits, ops.stop_gradient(labels), reduction="none")
    return loss, ops.stop_gradient(ops.softmax(logits) - labels)


def _sigmoid_cross_entropy(logits: Any, labels: Any) -> Any:
    """The cross entropy of sigmoid(logits) and labels, element by element."""
    return ops.binary_cross_entropy_with_logits(logits, labels, reduction="none")


def _sparse_softmax_cross_entropy(logits: Any, labels: Any, is_grad: bool) -> Any:
    """The mean cross entropy, from numbers of classes; or its gradient by the logits."""
    if not is_grad:
        return ops.cross_entropy(logits, labels)
    ones = ops.one_hot(labels, logits.shape[-1], 1.0, 0.0)
    return ops.softmax(logits) - ops.cast(ones, logits.dtype)


def _nll(logits: Any, labels: Any, weight: Any, reduction: str, ignore_index: int) -> tuple:
    """(negative log likelihood, total weight)."""
    loss = ops.nll_loss(logits, labels, weight, ignore_index=ignore_index, reduction=reduction)
    kept = ops.not_equal(labels, ignore_index)
    each = ops.gather(weight, ops.select(kept, labels, 0), 0)
    return loss, ops.sum(ops.select(kept, each, 0))


def _layer_norm(
    x: Any, gamma: Any, beta: Any, begin_norm_axis: int, begin_params_axis: int, epsilon: float
) -> tuple:
    """(x normalized over its last axes, times gamma, plus beta; the means; the variances)."""
    axes = tuple(range(begin_norm_axis % len(x.shape), len(x.shape)))
    mean, variance = ops.mean(x, axes, True), ops.var(x, axes, keepdims=True)
    return (x - mean) / ops.sqrt(variance + epsilon) * gamma + beta, mean, variance


def _apply_momentum(
    variable: Any, accumulation: Any, learning_rate: Any, gradient: Any, momentum: Any,
    use_nesterov: bool,
) -> Any:  # fmt: skip
    """accumulation = momentum * accumulation + gradient; variable -= learning_rate * that."""
    moved = ops.assign(accumulation, accumulation * momentum + gradient)
    step = gradient + moved * momentum if use_nesterov else moved
    return ops.assign(variable, variable - step * learning_rate)


def _locked(write: Callable) -> Callable:
    """A function that writes, with MindSpore's attribute use_locking, which changes nothing."""

    def written(variable: Any, indices: Any, updates: Any, use_locking: bool) -> Any:
        return write(variable, indices, updates)

    written.__doc__ = write.__doc__
    return written


def dtype(input: Any) -> dt.DType:
    """The element type of a Tensor.  MindSpore: ``ops.dtype``, ``ops.DType``."""
    return check_tensor("dtype", input).dtype


def tuple_to_array(input_x: Any) -> Any:
    """A 1-D Tensor of a tuple of numbers: Int32 of ints, Float32 of floats.

    MindSpore: ``ops.tuple_to_array``, ``ops.TupleToArray``.
    """
    whole = all(isinstance(v, int) for v in input_x)
    return ops.constant(np.array(input_x, np.int32 if whole else np.float32))


def scalar_to_tensor(input_x: Any, dtype: dt.DType = dt.float32) -> Any:
    """A 0-d Tensor of a number.  MindSpore: ``ops.scalar_to_tensor``, ``ops.ScalarToTensor``."""
    return as_tensor(input_x, dtype)


def is_tensor(obj: Any) -> bool:
    """True for a Tensor.  MindSpore: ``ops.is_tensor``."""
    return isinstance(obj, TensorLike)


def is_floating_point(input: Any) -> bool:
    """True for a Tensor of floats.  MindSpore: ``ops.is_floating_point``."""
    return dtype(input).is_float


def clip_by_norm(
    x: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Any:
    """`x` (a Tensor, or a tuple or list of them) scaled down so that its norm is `max_norm`.

    What is shorter stays as it is.  The norm is that of all elements together.  RuntimeError when
    the program runs for a norm that is not finite, if `error_if_nonfinite`.
    MindSpore: ``ops.clip_by_norm``.
    """
    tensors = list(x) if isinstance(x, (tuple, list)) else [x]
    norms = ops.stack([ops.norm(ops.reshape(t, (-1,)), norm_type) for t in tensors])
    total = ops.norm(norms, norm_type)
    if error_if_nonfinite:
        require(ops.isfinite(total), RuntimeError, "clip_by_norm: the norm is not finite")
    scale = ops.minimum(max_norm / (total + 1e-6), 1.0)
    clipped = [t * ops.cast(scale, t.dtype) for t in tensors]
    return type(x)(clipped) if isinstance(x, (tuple, list)) else clipped[0]


def clip_by_global_norm(x: Any, clip_norm: float = 1.0, use_norm: None = None) -> tuple:
    """The Tensors of a tuple or list, scaled down so that the norm of all together is `clip_norm`.

    What is shorter stays as it is.  ValueError for a `use_norm`.
    MindSpore: ``ops.clip_by_global_norm``.
    """
    if use_norm is not None:
        raise ValueError("clip_by_global_norm: use_norm must be None")
    total = ops.sqrt(ops.addn([ops.sum(ops.square(ops.cast(t, dt.float32))) for t in x]))
    scale = clip_norm / ops.maximum(total, clip_norm)
    return tuple(t * ops.cast(scale, t.dtype) for t in x)


# ---------------------------------------------------------------------------------- the classes

# fmt: off
TensorAdd, Inv, Rint, GatherV2, Pack = ops.Add, ops.Reciprocal, ops.Round, ops.Gather, ops.Stack

ReLU6 = _class("ReLU6", ops.relu6)
Elu = _class("Elu", ops.elu, alpha=1.0)
HSwish = _class("HSwish", ops.hardswish)
HSigmoid = _class("HSigmoid", ops.hardsigmoid)
Softsign = _class("Softsign", ops.softsign)
Mish = _class("Mish", ops.mish)
SeLU = _class("SeLU", ops.selu)
PReLU = _class("PReLU", ops.prelu)
Lerp = _class("Lerp", ops.lerp)
IsClose = _class("IsClose", ops.isclose, rtol=1e-05, atol=1e-08, equal_nan=True)
SquaredDifference = _class("SquaredDifference", _squared_difference)
DivNoNan = _class("DivNoNan", _div_no_nan)
MaskedFill = _class("MaskedFill", ops.masked_fill)
MaskedSelect = _class("MaskedSelect", ops.masked_select)

ArgMaxWithValue = _class("ArgMaxWithValue", _max_with_position, axis=0, keep_dims=False)
ArgMinWithValue = _class("ArgMinWithValue", _min_with_position, axis=0, keep_dims=False)
L2Loss = _class("L2Loss", _half_sum_of_squares)
L2Normalize = _class("L2Normalize", _normalized, axis=0, epsilon=1e-4)
UnsortedSegmentSum = _class("UnsortedSegmentSum", ops.unsorted_segment_sum)
Trace = _class("Trace", ops.trace)
Ger = _class("Ger", ops.outer)

Slice = _class("Slice", ops.slice)
Unstack = Unpack = _class("Unstack", ops.unstack, axis=0)
Roll = _class("Roll", _roll, shift=0, axis=0)
Tril = _class("Tril", ops.tril, diagonal=0)
Triu = _class("Triu", ops.triu, diagonal=0)
Meshgrid = _class("Meshgrid", _meshgrid, indexing="xy")
Eye = _class("Eye", ops.eye)
Range = _class("Range", ops.range, maxlen=1000000)
LinSpace = _class("LinSpace", ops.linspace)
Zeros = _class("Zeros", ops.zeros)
Ones = _class("Ones", ops.ones)
DType = _class("DType", dtype)
TensorShape = _class("TensorShape", _shape_tensor)
TupleToArray = _class("TupleToArray", tuple_to_array)

ScatterNd = _class("ScatterNd", ops.scatter_nd)
TensorScatterSub = _class("TensorScatterSub", tensor_scatter_sub)
ScatterUpdate = _class("ScatterUpdate", _locked(scatter_update), use_locking=True)
ScatterAdd = _class("ScatterAdd", _locked(scatter_add), use_locking=False)
ScatterSub = _class("ScatterSub", _locked(scatter_sub), use_locking=False)
ScatterMax = _class("ScatterMax", _locked(scatter_max), use_locking=False)
ScatterMin = _class("ScatterMin", _locked(scatter_min), use_locking=False)
ScatterNdUpdate = _class("ScatterNdUpdate", _locked(scatter_nd_update), use_locking=True)
ScatterNdAdd = _class("ScatterNdAdd", _locked(scatter_nd_add), use_locking=False)
ScatterNdSub = _class("ScatterNdSub", _locked(scatter_nd_sub), use_locking=False)

SmoothL1Loss = _class("SmoothL1Loss", ops.smooth_l1_loss, beta=1.0, reduction="none")
KLDivLoss = _class("KLDivLoss", ops.kl_div, reduction="mean")
BinaryCrossEntropy = _class("BinaryCrossEntropy", ops.binary_cross_entropy, reduction="mean")
BCEWithLogitsLoss = _class(
    "BCEWithLogitsLoss", ops.binary_cross_entropy_with_logits, reduction="mean")
SigmoidCrossEntropyWithLogits = _class(
    "SigmoidCrossEntropyWithLogits", _sigmoid_cross_entropy)
SoftmaxCrossEntropyWithLogits = _class("SoftmaxCrossEntropyWithLogits", _softmax_cross_entropy)
SparseSoftmaxCrossEntropyWithLogits = _class(
    "SparseSoftmaxCrossEntropyWithLogits", _sparse_softmax_cross_entropy, is_grad=False)
NLLLoss = _class("NLLLoss", _nll, reduction="mean", ignore_index=-100)
LayerNorm = _class(
    "LayerNorm", _layer_norm, begin_norm_axis=1, begin_params_axis=1, epsilon=1e-7)
ApplyMomentum = _class("ApplyMomentum", _apply_momentum, use_nesterov=False)
# fmt: on
