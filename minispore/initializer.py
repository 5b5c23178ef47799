"""Initial values of Parameters: distributions by name or object, drawn from random.py.

As in MindSpore, `fan_in` and `fan_out` of a weight are read off its shape: a Dense weight is
(out, in), a convolution's (out, in, *kernel).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore.dtype import DType
from minispore.primitive import is_number
from minispore.random import generator
from minispore.tensor import Tensor


class Initializer:
    """Fills an ndarray with initial values.

    A subclass overrides ``_initialize(arr)``, which writes ``arr[...]``, or ``draw(shape)``.
    """

    def __call__(self, arr: np.ndarray) -> None:
        self._initialize(arr)

    def _initialize(self, arr: np.ndarray) -> None:
        arr[...] = np.asarray(self.draw(arr.shape)).astype(arr.dtype)

    def draw(self, shape: tuple[int, ...]) -> Any:
        """Values in float64 for an array of `shape`."""
        raise NotImplementedError(f"{type(self).__name__} needs a method _initialize(arr)")

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in vars(self).items())
        return f"{type(self).__name__}({settings})"


class Zero(Initializer):
    """Zeros."""

    def draw(self, shape: tuple[int, ...]) -> Any:
        return 0.0


class One(Initializer):
    """Ones."""

    def draw(self, shape: tuple[int, ...]) -> Any:
        return 1.0


class Constant(Initializer):
    """One number everywhere, or an array of the right shape."""

    def __init__(self, value: Any):
        self.value = value

    def draw(self, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(np.asarray(self.value), shape)


class Normal(Initializer):
    """The normal distribution with standard deviation `sigma` around `mean`."""

    def __init__(self, sigma: float = 0.01, mean: float = 0.0):
        self.sigma, self.mean = sigma, mean

    def draw(self, shape: tuple[int, ...]) -> Any:
        return generator().normal(self.mean, self.sigma, shape)


class TruncatedNormal(Initializer):
    """The normal distribution, limited to the values between `a` and `b`."""

    def __init__(self, sigma: float = 0.01, mean: float = 0.0, a: float = -2.0, b: float = 2.0):
        self.sigma, self.mean, self.a, self.b = sigma, mean, a, b

    def draw(self, shape: tuple[int, ...]) -> Any:
        from scipy.special import ndtr, ndtri  # SciPy takes 0.2 s to import

        low, high = (ndtr((edge - self.mean) / self.sigma) for edge in (self.a, self.b))
        drawn = self.mean + self.sigma * ndtri(generator().uniform(low, high, shape))
        return np.clip(drawn, self.a, self.b)


class Uniform(Initializer):
    """The uniform distribution between -`scale` and `scale`."""

    def __init__(self, scale: float = 0.07):
        self.scale = scale

    def draw(self, shape: tuple[int, ...]) -> Any:
        return generator().uniform(-self.scale, self.scale, shape)


class XavierUniform(Initializer):
    """Uniform with variance ``gain**2 * 2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010)."""

    def __init__(self, gain: float = 1):
        self.gain = gain

    def draw(self, shape: tuple[int, ...]) -> Any:
        limit = self.gain * math.sqrt(6 / sum(fans(shape)))
        return generator().uniform(-limit, limit, shape)


class XavierNormal(Initializer):
    """Normal with variance ``gain**2 * 2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010)."""

    def __init__(self, gain: float = 1):
        self.gain = gain

    def draw(self, shape: tuple[int, ...]) -> Any:
        return generator().normal(0, self.gain * math.sqrt(2 / sum(fans(shape))), shape)


class _He(Initializer):
    """The standard deviation of He et al., 2015: ``gain / sqrt(fan)``."""

    def __init__(
        self, negative_slope: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
    ):
        self.negative_slope, self.mode, self.nonlinearity = negative_slope, mode, nonlinearity

    def sigma(self, shape: tuple[int, ...]) -> float:
        """The standard deviation for a weight of this shape."""
        if self.mode not in ("fan_in", "fan_out"):
            raise ValueError(f"mode must be 'fan_in' or 'fan_out', not {self.mode!r}")
        return self._gain() / math.sqrt(fans(shape)[self.mode == "fan_out"])

    def _gain(self) -> float:
        gains = {
            "sigmoid": 1.0,
            "tanh": 5 / 3,
            "relu": math.sqrt(2),
            "leaky_relu": math.sqrt(2 / (1 + self.negative_slope**2)),
        }
        if self.nonlinearity not in gains:
            raise ValueError(
                f"nonlinearity must be one of {', '.join(gains)}, not {self.nonlinearity!r}"
            )
        return gains[self.nonlinearity]


class HeUniform(_He):
    """Uniform with the standard deviation ``gain / sqrt(fan)`` (He et al., 2015)."""

    def draw(self, shape: tuple[int, ...]) -> Any:
        limit = math.sqrt(3) * self.sigma(shape)
        return generator().uniform(-limit, limit, shape)


class HeNormal(_He):
    """Normal with the standard deviation ``gain / sqrt(fan)`` (He et al., 2015)."""

    def draw(self, shape: tuple[int, ...]) -> Any:
        return generator().normal(0, self.sigma(shape), shape)


class Identity(Initializer):
    """The identity matrix."""

    def draw(self, shape: tuple[int, ...]) -> Any:
        if len(shape) != 2:
            raise ValueError(f"Identity fills 2-d Tensors only, not shape {shape}")
        return np.eye(*shape)


class Orthogonal(Initializer):
    """A matrix with orthonormal rows or columns (whichever are fewer), times `gain`."""

    def __init__(self, gain: float = 1.0):
        self.gain = gain

    def draw(self, shape: tuple[int, ...]) -> Any:
        if len(shape) < 2:
            raise ValueError(f"Orthogonal fills Tensors of 2 or more axes, not shape {shape}")
        rows, columns = shape[0], math.prod(shape[1:])
        long, short = max(rows, columns), min(rows, columns)
        q, r = np.linalg.qr(generator().normal(size=(long, short)))
        q = q * np.sign(np.diag(r))  # makes the distribution uniform
        return self.gain * (q if rows >= columns else q.T).reshape(shape)


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight: how many inputs an output has, and the reverse."""
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


_BY_NAME: dict[str, type[Initializer]] = {
    "zero": Zero, "zeros": Zero, "one": One, "ones": One, "normal": Normal, "uniform": Uniform,
    "xavier_uniform": XavierUniform, "xavieruniform": XavierUniform,
    "xavier_normal": XavierNormal, "xaviernormal": XavierNormal,
    "he_uniform": HeUniform, "heuniform": HeUniform, "he_normal": HeNormal, "henormal": HeNormal,
    "truncatednormal": TruncatedNormal, "truncated_normal": TruncatedNormal,
    "identity": Identity, "orthogonal": Orthogonal,
}  # fmt: skip


def initializer(init: Any, shape: Any = None, dtype: DType = dt.float32) -> Tensor:
    """A Tensor of initial values.

    Args:
        init: an Initializer, its name ("normal", "he_uniform" ...), a number, or a Tensor of the
            right shape, which is returned.
        shape: an int or a sequence of ints.
        dtype: a DType.

    Raises:
        TypeError: `init` is of another type.
        ValueError: an unknown name, a bad shape, or a Tensor of another shape.
    """
    if shape is None:
        raise ValueError("initializer needs a shape")
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not all(isinstance(n, int) and n > 0 for n in sizes):
        raise ValueError(f"a shape consists of positive ints, not {shape}")
    if isinstance(init, Tensor):
        if init.shape != sizes:
            raise ValueError(f"the given Tensor has shape {init.shape}, but {sizes} is needed")
        return init
    if isinstance(init, str):
        if init.lower() not in _BY_NAME:
            raise ValueError(f"no initializer is called '{init}'; known: {', '.join(_BY_NAME)}")
        init = _BY_NAME[init.lower()]()
    elif is_number(init):
        init = Constant(init)
    elif not isinstance(init, Initializer):
        raise TypeError(
            "init must be an Initializer, its name, a number or a Tensor, not "
            f"{type(init).__name__}"
        )
    return Tensor(shape=sizes, dtype=dtype, init=init)


__all__ = [
    "Constant", "HeNormal", "HeUniform", "Identity", "Initializer", "Normal", "One", "Orthogonal",
    "TruncatedNormal", "Uniform", "XavierNormal", "XavierUniform", "Zero", "fans", "initializer",
]  # fmt: skip
