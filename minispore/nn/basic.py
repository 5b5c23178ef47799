"""Dense, Flatten, Identity: the layers of fully connected networks."""

from __future__ import annotations

import math
from typing import Any

from minispore import ops
from minispore.dtype import DType, float32
from minispore.initializer import HeUniform, Uniform, initializer
from minispore.nn.activation import get_activation
from minispore.nn.cell import Cell
from minispore.nn.checks import check_bool, check_int, check_size
from minispore.parameter import Parameter
from minispore.primitive import Primitive
from minispore.tensor import Tensor


class Dense(Cell):
    """A fully connected layer: ``y = x W^T + b``, followed by an activation if one is given.

    `weight` has shape (out_channels, in_channels), `bias` (out_channels,).

    Args:
        in_channels, out_channels: the size of the last axis of input and output.
        weight_init, bias_init: a number, a name, an Initializer or a Tensor; by default both
            are uniform within 1/sqrt(in_channels).
        has_bias: whether there is a bias.
        activation: a name such as "relu", a Cell or a primitive.
        dtype: of weight and bias.

    Inputs: x, of shape (..., in_channels).  Output: shape (..., out_channels).

    Raises:
        TypeError: a size that is no int, `has_bias` that is no bool, an impossible activation.
        ValueError: a size that is not positive; a Tensor of the wrong shape as initial value; an
            input whose last axis is not in_channels.
        KeyError: an unknown name of an activation.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Any = None,
        bias_init: Any = None,
        has_bias: bool = True,
        activation: Any = None,
        dtype: DType = float32,
    ):
        super().__init__()
        self.in_channels = check_size("Dense", "in_channels", in_channels)
        self.out_channels = check_size("Dense", "out_channels", out_channels)
        self.has_bias = check_bool("Dense", "has_bias", has_bias)
        if weight_init is None:
            weight_init = HeUniform(math.sqrt(5))
        shape = (out_channels, in_channels)
        self.weight = Parameter(_initial("weight_init", weight_init, shape, dtype), name="weight")
        self.bias = None
        if has_bias:
            if bias_init is None:
                bias_init = Uniform(1 / math.sqrt(in_channels))
            value = _initial("bias_init", bias_init, (out_channels,), dtype)
            self.bias = Parameter(value, name="bias")
        self.matmul = ops.MatMul(transpose_b=True)
        self.activation = _activation(activation)

    def construct(self, x: Any) -> Any:
        shape = x.shape
        if len(shape) == 0 or shape[-1] != self.in_channels:
            raise ValueError(
                f"the last axis of a Dense layer's input must be in_channels={self.in_channels}, "
                f"but its shape is {shape}"
            )
        if len(shape) != 2:
            x = x.reshape((-1, self.in_channels))
        x = self.matmul(x, self.weight)
        if self.has_bias:
            x = x + self.bias
        if self.activation is not None:
            x = self.activation(x)
        if len(shape) != 2:
            x = x.reshape(shape[:-1] + (self.out_channels,))
        return x

    def extend_repr(self) -> str:
        text = f"input_channels={self.in_channels}, output_channels={self.out_channels}"
        if self.has_bias:
            text += ", has_bias=True"
        if self.activation is not None:
            text += f", activation={self.activation}"
        return text


def _initial(name: str, init: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """The first value of a Parameter; a Tensor keeps its own dtype."""
    if not isinstance(init, Tensor):
        return initializer(init, shape, dtype)
    if init.shape != shape:
        raise ValueError(f"{name} of Dense must have shape {shape}, not {init.shape}")
    return init


def _activation(activation: Any) -> Any:
    """The activation of a name; a Cell, a primitive or None as it is."""
    if isinstance(activation, str):
        return get_activation(activation)
    if activation is None or isinstance(activation, (Cell, Primitive)):
        return activation
    raise TypeError(
        "activation of Dense must be a name, a Cell or a primitive, "
        f"not {type(activation).__name__}"
    )


class Flatten(Cell):
    """Joins the axes from `start_dim` to `end_dim` into one; by default all but the first.

    Inputs: x of at least two axes, such as (N, C, H, W).  Output: (N, C*H*W).

    Raises:
        TypeError: `start_dim` or `end_dim` is no int.
        ValueError: `x` has no such axis, or `start_dim` comes after `end_dim`.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim = check_int("Flatten", "start_dim", start_dim)
        self.end_dim = check_int("Flatten", "end_dim", end_dim)

    def construct(self, x: Any) -> Any:
        shape = x.shape
        ndim = len(shape)
        if not (-ndim <= self.start_dim < ndim and -ndim <= self.end_dim < ndim):
            raise ValueError(
                f"Flatten({self.start_dim}, {self.end_dim}) needs axes that a Tensor of shape "
                f"{shape} does not have"
            )
        start, end = self.start_dim % ndim, self.end_dim % ndim
        if start > end:
            raise ValueError(f"start_dim={self.start_dim} comes after end_dim={self.end_dim}")
        joined = math.prod(shape[start : end + 1])
        return x.reshape((*shape[:start], joined, *shape[end + 1 :]))


class Identity(Cell):
    """Returns its input unchanged; it takes and ignores any arguments when it is made."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def construct(self, x: Any) -> Any:
        return x
