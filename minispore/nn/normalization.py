"""Normalization: BatchNorm1d, BatchNorm2d, LayerNorm.

Written in ops, so that gradients of any order and both modes follow.  Half floats are normalized in
Float32 and rounded once.
"""

from __future__ import annotations

from typing import Any, ClassVar

from minispore import ops
from minispore.dtype import DType, float32, promote
from minispore.initializer import initializer
from minispore.nn.cell import Cell
from minispore.nn.checks import check_bool, check_int, check_size
from minispore.ops.state import write
from minispore.parameter import Parameter


class _BatchNorm(Cell):
    """``(x - mean) / sqrt(variance + eps) * gamma + beta`` for each channel."""

    dimensions: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones",
        use_batch_statistics: bool | None = None,
        data_format: str = "NCHW",
        dtype: DType = float32,
    ):
        super().__init__()
        name = type(self).__name__
        self.num_features = check_size(name, "num_features", num_features)
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum of {name} must be from 0 to 1, not {momentum!r}")
        check_bool(name, "affine", affine)
        if not (use_batch_statistics is None or isinstance(use_batch_statistics, bool)):
            raise ValueError(
                f"use_batch_statistics of {name} must be a bool or None, not "
                f"{use_batch_statistics!r}"
            )
        if data_format not in ("NCHW", "NHWC"):
            raise ValueError(f"data_format of {name} must be NCHW or NHWC, not {data_format!r}")
        self.eps = eps
        self.momentum = float(momentum)
        self.use_batch_statistics = use_batch_statistics
        self.data_format = data_format
        mean, variance, gamma, beta = (
            initializer(init, num_features, dtype)
            for init in (moving_mean_init, moving_var_init, gamma_init, beta_init)
        )
        self.moving_mean = Parameter(mean, name="mean", requires_grad=False)
        self.moving_variance = Parameter(variance, name="variance", requires_grad=False)
        self.gamma = Parameter(gamma, name="gamma", requires_grad=affine)
        self.beta = Parameter(beta, name="beta", requires_grad=affine)

    def construct(self, x: Any) -> Any:
        channels = self._channel_axis(x)
        others = tuple(axis for axis in range(len(x.shape)) if axis != channels)
        one_each = tuple(-1 if axis == channels else 1 for axis in range(len(x.shape)))
        wide = ops.cast(x, promote(promote(x.dtype, self.gamma.dtype), float32))
        of_batch = self.use_batch_statistics
        if of_batch is None:
            of_batch = self.training
        if of_batch:
            mean = ops.reduce_mean(wide, others, True)
            variance = ops.reduce_mean(ops.square(wide - mean), others, True)
            self._move(mean, variance, ops.size(x) // self.num_features)
        else:
            mean = ops.reshape(self.moving_mean, one_each)
            variance = ops.reshape(self.moving_variance, one_each)
        scale = ops.reshape(self.gamma, one_each) * ops.rsqrt(variance + self.eps)
        out = (wide - mean) * scale + ops.reshape(self.beta, one_each)
        return ops.cast(out, x.dtype)

    def _channel_axis(self, x: Any) -> int:
        """The axis of the channels; the error for an input that does not fit."""
        name, shape = type(self).__name__, x.shape
        if not x.dtype.is_float:
            raise TypeError(f"{name} takes floats, not {x.dtype}")
        if len(shape) not in self.dimensions:
            wanted = " or ".join([str(n) for n in self.dimensions])
            raise ValueError(f"{name} takes {wanted} dimensions, not shape {shape}")
        axis = 1 if self.data_format == "NCHW" else len(shape) - 1
        if shape[axis] != self.num_features:
            raise ValueError(
                f"{name} needs num_features={self.num_features} channels on axis {axis}, "
                f"not shape {shape}"
            )
        return axis

    def _move(self, mean: Any, variance: Any, count: int) -> None:
        """Move the moving statistics towards those of a batch with `count` values per channel."""
        if count < 2:
            raise ValueError(
                f"{type(self).__name__} needs 2 or more values per channel to train, not {count}: "
                "the variance of one value is unknown"
            )
        keep = self.momentum
        unbiased = variance * (count / (count - 1))
        for moving, new in ((self.moving_mean, mean), (self.moving_variance, unbiased)):
            new = ops.stop_gradient(ops.reshape(new, moving.shape))
            write(moving, keep * moving + (1 - keep) * new)

    def extend_repr(self) -> str:
        return (
            f"num_features={self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"gamma={self.gamma}, beta={self.beta}, moving_mean={self.moving_mean}, "
            f"moving_variance={self.moving_variance}"
        )


class BatchNorm1d(_BatchNorm):
    """Each channel to mean `beta` and standard deviation `gamma`, over a batch.

    In training the mean and variance are those of the batch, through which gradients flow, and
    `moving_mean` and `moving_variance` move towards them (the variance: n / (n - 1) times that).
    Otherwise the moving statistics are used.

    Args:
        num_features: the number of channels.
        eps: added to the variance.
        momentum: the share of the old moving statistics that is kept, 0 to 1.
        affine: whether `gamma` and `beta` are trained.
        gamma_init, beta_init, moving_mean_init, moving_var_init: a number, a name, an Initializer
            or a Tensor of shape (num_features,).
        use_batch_statistics: True or False in place of what ``set_train`` says.
        data_format: "NCHW", or "NHWC": channels last.
        dtype: of the Parameters.

    Inputs: x, floats of shape (N, C) or (N, C, L).  Output: of the same shape and dtype.

    Raises:
        TypeError: `num_features` is no int, `affine` no bool, or `x` has no floats.
        ValueError: a setting that is not allowed; an input of another shape; in training, one with
            fewer than two values per channel.
    """

    dimensions = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of images to mean `beta` and standard deviation `gamma`, over a batch.

    Inputs: x, floats of shape (N, C, H, W).  All else as in BatchNorm1d.
    """

    dimensions = (4,)


class LayerNorm(Cell):
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, for each sample on its own.

    Args:
        normalized_shape: the shape of `gamma` and `beta`, a tuple or list.
        begin_norm_axis: mean and variance are over this axis and all that follow.
        begin_params_axis: `gamma` and `beta` are for this axis and all that follow.
        gamma_init, beta_init: a number, a name, an Initializer or a Tensor.
        epsilon: added to the variance.
        dtype: of the Parameters.

    Inputs: x, floats.  Output: of the same shape and dtype.

    Raises:
        TypeError: `normalized_shape` is no tuple or list, an axis no int, or `x` has no floats.
        ValueError: an input that has no such axis, or whose last axes are not `normalized_shape`.
    """

    def __init__(
        self,
        normalized_shape: tuple[int, ...] | list[int],
        begin_norm_axis: int = -1,
        begin_params_axis: int = -1,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        epsilon: float = 1e-7,
        dtype: DType = float32,
    ):
        super().__init__()
        if not isinstance(normalized_shape, (tuple, list)):
            kind = type(normalized_shape).__name__
            raise TypeError(f"normalized_shape of LayerNorm must be a tuple or list, not {kind}")
        if not normalized_shape:
            raise ValueError("normalized_shape of LayerNorm must not be empty")
        self.normalized_shape = normalized_shape
        self.begin_norm_axis = check_int("LayerNorm", "begin_norm_axis", begin_norm_axis)
        self.begin_params_axis = check_int("LayerNorm", "begin_params_axis", begin_params_axis)
        self.epsilon = epsilon
        gamma = initializer(gamma_init, normalized_shape, dtype)
        beta = initializer(beta_init, normalized_shape, dtype)
        self.gamma = Parameter(gamma, name="gamma")
        self.beta = Parameter(beta, name="beta")

    def construct(self, x: Any) -> Any:
        axes = tuple(range(self._first(x.shape, self.begin_norm_axis), len(x.shape)))
        own = x.shape[self._first(x.shape, self.begin_params_axis) :]
        if own != self.gamma.shape:
            raise ValueError(
                f"LayerNorm has gamma and beta of shape {self.gamma.shape}, which does not fit "
                f"the axes from {self.begin_params_axis} on of shape {x.shape}"
            )
        if not x.dtype.is_float:
            raise TypeError(f"LayerNorm takes floats, not {x.dtype}")
        wide = ops.cast(x, promote(promote(x.dtype, self.gamma.dtype), float32))
        centred = wide - ops.reduce_mean(wide, axes, True)
        variance = ops.reduce_mean(ops.square(centred), axes, True)
        out = centred * ops.rsqrt(variance + self.epsilon) * self.gamma + self.beta
        return ops.cast(out, x.dtype)

    def _first(self, shape: tuple[int, ...], axis: int) -> int:
        """`axis`, counted from the front."""
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"LayerNorm: axis {axis} is out of range for shape {shape}")
        return axis % len(shape)

    def extend_repr(self) -> str:
        return (
            f"normalized_shape={self.normalized_shape}, begin_norm_axis={self.begin_norm_axis}, "
            f"begin_params_axis={self.begin_params_axis}, gamma={self.gamma}, beta={self.beta}"
        )
