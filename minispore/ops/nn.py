"""Activations, softmax and losses.

Losses are functions composed from primitives: their gradients follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor
from minispore.dtype import DType, float32
from minispore.ops.common import as_int, check_tensor, choice, one_axis, require, widened
from minispore.ops.elementwise import GeLU, GeLUExact, ReLU, Sigmoid, SiLU, Softplus, Tanh
from minispore.ops.gather import Gather, as_index
from minispore.ops.state import as_float, write
from minispore.primitive import Primitive, apply


class _SoftmaxOf(Primitive, register=False):
    """A function of all elements along attribute `axis`; integers become Float32 first."""

    def __init__(self, axis: Any = -1):
        if isinstance(axis, (tuple, list)) and len(axis) == 1:
            (axis,) = axis
        super().__init__(axis=as_int("axis", axis))

    def __call__(self, x: Any) -> Any:
        check_tensor(self.name, x)
        axis = one_axis(self.name, self.attrs["axis"], len(x.shape))
        return apply(self.bound(axis=axis), x)

    def prepare(self, args: tuple) -> tuple:
        (x,) = super().prepare(args)
        return (as_float(x),)

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        return x

    def sum(self, x: Any) -> Any:
        """The sum along the axis, which is kept."""
        return ops.reduce_sum(x, self.attrs["axis"], True)


def _shifted(x: np.ndarray, axis: int) -> np.ndarray:
    """Elements less the largest along the axis, in float32 or float64: exp of them is at most 1."""
    wide = widened(x)
    return wide - np.max(wide, axis, keepdims=True, initial=-np.inf)


class Softmax(_SoftmaxOf):
    """exp(x) over its sum along attribute `axis`."""

    def eval(self, x: np.ndarray) -> Any:
        e = np.exp(_shifted(x, self.attrs["axis"]))
        return e / np.sum(e, self.attrs["axis"], keepdims=True)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (out * (dout - self.sum(dout * out)),)


class LogSoftmax(_SoftmaxOf):
    """The logarithm of Softmax, without the loss of small values."""

    def eval(self, x: np.ndarray) -> Any:
        shifted = _shifted(x, self.attrs["axis"])
        return shifted - np.log(np.sum(np.exp(shifted), self.attrs["axis"], keepdims=True))

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (dout - ops.exp(out) * self.sum(dout),)


# --------------------------------------------------------------------------------- activations


def softmax(input: Any, axis: int = -1, *, dtype: DType | None = None) -> Any:
    """exp(x) over its sum along `axis`; `dtype` casts first.

    ValueError for an axis out of range.  MindSpore: ``ops.softmax``, ``ops.Softmax``.
    """
    return Softmax(axis)(input if dtype is None else ops.cast(input, dtype))


def log_softmax(logits: Any, axis: int = -1) -> Any:
    """The logarithm of ``softmax`` along `axis`, exact also where that is tiny.

    ValueError for an axis out of range.  MindSpore: ``ops.log_softmax``, ``ops.LogSoftmax``.
    """
    return LogSoftmax(axis)(logits)


def relu(input: Any, inplace: bool = False) -> Any:
    """max(x, 0) of each element; its gradient at 0 is 0.  With `inplace` the Tensor is written.

    Bool is a TypeError.  MindSpore: ``ops.relu``, ``ops.ReLU``.
    """
    out = apply(ReLU(), input)
    if not inplace:
        return out
    write(input, out)
    return input


def relu6(x: Any) -> Any:
    """Each element between 0 and 6.  MindSpore: ``ops.relu6``."""
    return ops.select(ops.greater(x, 6), 6, relu(x))


def sigmoid(input: Any) -> Any:
    """1 / (1 + exp(-x)) of each element.  MindSpore: ``ops.sigmoid``, ``ops.Sigmoid``."""
    return apply(Sigmoid(), input)


def tanh(input: Any) -> Any:
    """The hyperbolic tangent of each element.  MindSpore: ``ops.tanh``, ``ops.Tanh``."""
    return apply(Tanh(), input)


def gelu(input: Any, approximate: str = "none") -> Any:
    """x times the normal distribution function of x; "tanh" is an approximation of it.

    ValueError for another `approximate`.  MindSpore: ``ops.gelu``; ``ops.GeLU`` is the
    approximation.
    """
    choice("approximate", approximate, ("none", "tanh"))
    return apply(GeLU() if approximate == "tanh" else GeLUExact(), input)


def silu(input: Any) -> Any:
    """x * sigmoid(x) of each element.  MindSpore: ``ops.silu``, ``ops.SiLU``."""
    return apply(SiLU(), input)


def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Any:
    """log(1 + exp(beta * x)) / beta of each element; x itself where beta * x > threshold.

    MindSpore: ``ops.softplus``.
    """
    x = check_tensor("softplus", input)
    scaled = x if beta == 1 else x * beta
    soft = apply(Softplus(), scaled)
    return ops.select(ops.greater(scaled, threshold), x, soft if beta == 1 else soft / beta)


def leaky_relu(input: Any, alpha: float = 0.2) -> Any:
    """x where it is positive, else alpha * x.

    At 0 the gradient is the mean of 1 and alpha.  MindSpore: ``ops.leaky_relu``.
    """
    x = check_tensor("leaky_relu", input)
    return (ops.maximum if alpha <= 1 else ops.minimum)(x * alpha, x)


def elu(input_x: Any, alpha: float = 1.0) -> Any:
    """x where it is positive, else alpha * (exp(x) - 1); at 0 the gradient is alpha.

    MindSpore: ``ops.elu``.
    """
    x = check_tensor("elu", input_x)
    positive = ops.greater(x, 0)
    negative = ops.select(positive, ops.zeros_like(x), x)  # no overflow where it is not taken
    return ops.select(positive, x, alpha * ops.expm1(negative))


def selu(input_x: Any) -> Any:
    """elu with the constants of self-normalising networks.  MindSpore: ``ops.selu``."""
    return 1.0507009873554805 * elu(input_x, 1.6732632423543772)


def hardswish(input: Any) -> Any:
    """x * relu6(x + 3) / 6 of each element.  MindSpore: ``ops.hardswish``."""
    x = check_tensor("hardswish", input)
    return x * ops.clamp(x + 3, 0, 6) / 6


def hardsigmoid(input: Any) -> Any:
    """relu6(x + 3) / 6 of each element.  MindSpore: ``ops.hardsigmoid``."""
    return ops.clamp(check_tensor("hardsigmoid", input) + 3, 0, 6) / 6


def mish(x: Any) -> Any:
    """x * tanh(softplus(x)) of each element.  MindSpore: ``ops.mish``."""
    return x * tanh(apply(Softplus(), check_tensor("mish", x)))


def logsigmoid(x: Any) -> Any:
    """log(sigmoid(x)) of each element, without overflow.  MindSpore: ``ops.logsigmoid``."""
    return -apply(Softplus(), -check_tensor("logsigmoid", x))


def softsign(x: Any) -> Any:
    """x / (1 + |x|) of each element.  MindSpore: ``ops.softsign``."""
    return x / (1 + ops.abs(check_tensor("softsign", x)))


def prelu(input: Any, weight: Any) -> Any:
    """x where it is positive, else weight * x: one weight, or one for each channel (axis 1).

    ValueError if `weight` is of another shape.  MindSpore: ``ops.prelu``.
    """
    x, w = check_tensor("prelu", input), check_tensor("prelu", weight)
    channels = x.shape[1] if len(x.shape) > 1 else 1
    if len(w.shape) > 1 or ops.size(w) not in (1, channels):
        raise ValueError(f"prelu: one weight, or {channels}, not {w.shape} for shape {x.shape}")
    if ops.size(w) > 1:
        w = ops.reshape(w, (-1, *(1,) * (len(x.shape) - 2)))
    return ops.select(ops.greater(x, 0), x, w * x)


# -------------------------------------------------------------------------------------- losses

_REDUCTIONS = ("none", "mean", "sum")


def _reduced(loss: Any, reduction: str) -> Any:
    """The loss of each element, their mean, or their sum."""
    choice("reduction", reduction, _REDUCTIONS)
    if reduction == "none":
        return loss
    return ops.mean(loss) if reduction == "mean" else ops.sum(loss)


def _floats(name: str, *tensors: Any) -> tuple:
    """The Tensors, integers and bools as Float32."""
    return tuple(as_float(check_tensor(name, t)) for t in tensors)


def _same_shape(name: str, x: Any, y: Any) -> None:
    if x.shape != y.shape:
        raise ValueError(
            f"{name}: input and target must have one shape, not {x.shape} and {y.shape}"
        )


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """The squared differences: of each element ("none"), their "mean" or "sum".

    The operands broadcast (ValueError); integers become Float32.  MindSpore: ``ops.mse_loss``.
    """
    x, y = _floats("mse_loss", input, target)
    return _reduced(ops.square(x - y), reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """The absolute differences: of each element ("none"), their "mean" or "sum".

    The operands broadcast (ValueError); integers become Float32.  MindSpore: ``ops.l1_loss``.
    """
    x, y = _floats("l1_loss", input, target)
    return _reduced(ops.abs(x - y), reduction)


def smooth_l1_loss(input: Any, target: Any, beta: float = 1.0, reduction: str = "none") -> Any:
    """d² / (2 beta) for differences d below `beta`, else |d| - beta / 2.

    ValueError unless `beta` is positive.  MindSpore: ``ops.smooth_l1_loss`` (reduction "none").
    """
    if not beta > 0:
        raise ValueError(f"smooth_l1_loss: beta must be positive, not {beta!r}")
    return huber_loss(input, target, reduction, beta) / beta


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """d² / 2 for differences d below `delta`, else delta * (|d| - delta / 2).

    ValueError unless `delta` is positive.  MindSpore: ``ops.huber_loss``.
    """
    if not delta > 0:
        raise ValueError(f"huber_loss: delta must be positive, not {delta!r}")
    x, y = _floats("huber_loss", input, target)
    size = ops.abs(x - y)
    far = delta * (size - 0.5 * delta)
    return _reduced(ops.select(ops.less(size, delta), 0.5 * ops.square(size), far), reduction)


def kl_div(logits: Any, labels: Any, reduction: str = "mean") -> Any:
    """The divergence ``labels * (log(labels) - logits)``, 0 where a label is 0.

    `logits` are logarithms of probabilities.  "batchmean" is the sum over the first size.
    ValueError for another reduction.  MindSpore: ``ops.kl_div``.
    """
    choice("reduction", reduction, (*_REDUCTIONS, "batchmean"))
    x, y = _floats("kl_div", logits, labels)
    positive = ops.greater(y, 0)
    safe = ops.select(positive, y, ops.ones_like(y))
    loss = ops.select(positive, safe * (ops.log(safe) - x), ops.zeros_like(y))
    if reduction == "batchmean":
        return ops.sum(loss) / (loss.shape[0] if loss.shape else 1)
    return _reduced(loss, reduction)


def binary_cross_entropy(
    logits: Any, labels: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """``-(y log(p) + (1 - y) log(1 - p))`` of probabilities p (`logits`) and labels y.

    Logarithms are taken of p + 1e-12.  ValueError if shapes differ.  RuntimeError when the program
    runs if a p is outside [0, 1].  MindSpore: ``ops.binary_cross_entropy``.
    """
    p, y = _floats("binary_cross_entropy", logits, labels)
    _same_shape("binary_cross_entropy", p, y)
    inside = ops.logical_and(ops.greater_equal(p, 0), ops.less_equal(p, 1))
    require(
        ops.all(ops.logical_or(inside, ops.isnan(p))),
        RuntimeError,
        "binary_cross_entropy: logits must be probabilities in [0, 1]; "
        "use BCEWithLogitsLoss for raw scores",
    )
    wide = p if p.dtype.itemsize > 2 else ops.cast(p, float32)  # 1e-12 is 0 in Float16
    loss = -(y * ops.log(wide + 1e-12) + (1 - y) * ops.log(1 - wide + 1e-12))
    loss = loss if weight is None else loss * weight
    return ops.cast(_reduced(loss, reduction), p.dtype)


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Any:
    """``binary_cross_entropy`` of sigmoid(input), without overflow.

    `weight` scales each loss, `pos_weight` those of positive labels; both broadcast.  ValueError if
    shapes differ.  MindSpore: ``ops.binary_cross_entropy_with_logits``.
    """
    x, y = _floats("binary_cross_entropy_with_logits", input, target)
    _same_shape("binary_cross_entropy_with_logits", x, y)
    # -log(sigmoid(x)) = softplus(-x);  -log(1 - sigmoid(x)) = x + softplus(-x)
    scale = 1 if pos_weight is None else 1 + (pos_weight - 1) * y
    loss = (1 - y) * x + scale * apply(Softplus(), -x)
    return _reduced(loss if weight is None else loss * weight, reduction)


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The cross entropy of softmax(input) and labels.

    Args:
        input: scores of shape ``(n, c)``, ``(n, c, d1, ...)`` or ``(c,)`` for c classes.
        target: class numbers (any integer type) of that shape without c, or probabilities (floats)
            of the same shape.
        weight: one factor for each class.
        ignore_index: targets of this number do not count.
        reduction: "none", "sum" or "mean": over the sum of the weights of the targets that
            count; of probabilities over n, d1, ...
        label_smoothing: this share of each label is spread over all classes.

    ValueError for other shapes or options; IndexError when the program runs for a class number
    outside [0, c).  MindSpore: ``ops.cross_entropy``.
    """
    (x,) = _floats("cross_entropy", input)
    axis = 0 if len(x.shape) == 1 else 1
    logp = log_softmax(x, axis)
    if check_tensor("cross_entropy", target).dtype.is_float:
        _same_shape("cross_entropy (class numbers are integers, probabilities floats)", x, target)
        return _with_probabilities(logp, target, weight, axis, reduction, label_smoothing)
    return nll_loss(logp, target, weight, ignore_index, reduction, label_smoothing)


def _check_loss_options(reduction: str, label_smoothing: float) -> None:
    choice("reduction", reduction, _REDUCTIONS)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing must be between 0 and 1, not {label_smoothing!r}")


def _class_weights(weight: Any, logp: Any, axis: int) -> Any:
    """The weights of classes, broadcastable against `logp`; ValueError unless one for each."""
    classes = logp.shape[axis]
    if check_tensor("the weight of classes", weight).shape != (classes,):
        raise ValueError(
            f"weight needs one factor for each of {classes} classes, not {weight.shape}"
        )
    return ops.reshape(weight, (classes, *(1,) * (len(logp.shape) - axis - 1)))


def _with_probabilities(
    logp: Any, target: Any, weight: Any, axis: int, reduction: str, label_smoothing: float
) -> Any:
    _check_loss_options(reduction, label_smoothing)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / logp.shape[axis]
    terms = logp * target if weight is None else logp * target * _class_weights(weight, logp, axis)
    return _reduced(-ops.reduce_sum(terms, axis), reduction)


def nll_loss(
    inputs: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The negative of the logarithms of probabilities (`inputs`) at the class numbers `target`.

    Arguments and errors as in ``cross_entropy``, without its softmax.  MindSpore: ``ops.nll_loss``.
    """
    _check_loss_options(reduction, label_smoothing)
    (logp,) = _floats("nll_loss", inputs)
    labels = as_index("nll_loss", target)
    axis = 0 if len(logp.shape) == 1 else 1
    if not logp.shape or labels.shape != (*logp.shape[:axis], *logp.shape[axis + 1 :]):
        raise ValueError(f"nll_loss: class numbers of shape {labels.shape} do not fit {logp.shape}")
    counted = ops.not_equal(labels, ignore_index)
    labels = ops.select(counted, labels, 0)
    _check_labels(labels, logp.shape[axis])

    shares = ops.cast(counted, logp.dtype)
    if weight is not None:
        weights = _class_weights(weight, logp, axis)
        shares = shares * apply(Gather.bound(axis=0), weight, labels)
    places = ops.expand_dims(labels, axis)
    picked = ops.squeeze(apply(ops.GatherD.bound(axis=axis), logp, places), axis)
    loss = -(shares * ops.select(counted, picked, ops.zeros_like(picked)))
    if label_smoothing:
        spread = -ops.reduce_sum(logp if weight is None else logp * weights, axis)
        spread = ops.select(counted, spread, ops.zeros_like(spread)) / logp.shape[axis]
        loss = (1 - label_smoothing) * loss + label_smoothing * spread
    if reduction == "mean":
        return ops.sum(loss) / ops.sum(shares)
    return _reduced(loss, reduction)


def _check_labels(labels: Any, classes: int) -> None:
    inside = ops.logical_and(ops.greater_equal(labels, 0), ops.less(labels, classes))
    message = f"a class number is out of range: there are {classes} classes, 0 to {classes - 1}"
    require(ops.all(inside), IndexError, message)
