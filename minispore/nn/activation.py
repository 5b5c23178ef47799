"""Activation functions as Cells, and ``get_activation``, which finds them by name.

Each is one op; the formulas are in the docstrings of ``minispore.ops``.
"""

from __future__ import annotations

from typing import Any

from minispore import ops
from minispore.nn.cell import Cell
from minispore.nn.checks import check_bool, check_int


class ReLU(Cell):
    """``max(x, 0)``; the gradient at 0 is 0."""

    def construct(self, x: Any) -> Any:
        return ops.relu(x)


class Sigmoid(Cell):
    """``1 / (1 + exp(-x))``."""

    def construct(self, x: Any) -> Any:
        return ops.sigmoid(x)


class Tanh(Cell):
    """The hyperbolic tangent."""

    def construct(self, x: Any) -> Any:
        return ops.tanh(x)


class ReLU6(Cell):
    """``min(max(x, 0), 6)``."""

    def construct(self, x: Any) -> Any:
        return ops.relu6(x)


class HSigmoid(Cell):
    """``min(max(x + 3, 0), 6) / 6``."""

    def construct(self, x: Any) -> Any:
        return ops.hardsigmoid(x)


class HSwish(Cell):
    """``x * min(max(x + 3, 0), 6) / 6``."""

    def construct(self, x: Any) -> Any:
        return ops.hardswish(x)


class Mish(Cell):
    """``x * tanh(log(1 + exp(x)))``."""

    def construct(self, x: Any) -> Any:
        return ops.mish(x)


class Softsign(Cell):
    """``x / (1 + |x|)``."""

    def construct(self, x: Any) -> Any:
        return ops.softsign(x)


class LogSigmoid(Cell):
    """``log(1 / (1 + exp(-x)))``."""

    def construct(self, x: Any) -> Any:
        return ops.logsigmoid(x)


class GELU(Cell):
    """``x * P(X <= x)`` for a standard normal X; by default its approximation with tanh.

    Raises:
        TypeError: `approximate` is no bool.
    """

    def __init__(self, approximate: bool = True):
        super().__init__()
        self.approximate = check_bool("GELU", "approximate", approximate)

    def construct(self, x: Any) -> Any:
        return ops.gelu(x, approximate="tanh" if self.approximate else "none")


class SiLU(Cell):
    """``x * sigmoid(x)``."""

    def construct(self, x: Any) -> Any:
        return ops.silu(x)


class LeakyReLU(Cell):
    """``x`` where it is positive, else ``alpha * x``."""

    def __init__(self, alpha: float = 0.2):
        super().__init__()
        self.alpha = _number("LeakyReLU", alpha)

    def construct(self, x: Any) -> Any:
        return ops.leaky_relu(x, self.alpha)


class ELU(Cell):
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``."""

    def __init__(self, alpha: float = 1.0):
        super().__init__()
        self.alpha = _number("ELU", alpha)

    def construct(self, x: Any) -> Any:
        return ops.elu(x, self.alpha)


class Softmax(Cell):
    """``exp(x) / sum(exp(x))`` along an axis.

    Raises:
        TypeError: `axis` is no int.
    """

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = check_int("Softmax", "axis", axis)

    def construct(self, x: Any) -> Any:
        return ops.softmax(x, self.axis)


class LogSoftmax(Cell):
    """``x - log(sum(exp(x)))`` along an axis: the logarithm of ``Softmax``, exact for large x.

    Raises:
        TypeError: `axis` is no int.
    """

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = check_int("LogSoftmax", "axis", axis)

    def construct(self, x: Any) -> Any:
        return ops.log_softmax(x, self.axis)


def _number(name: str, alpha: Any) -> float:
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)):
        raise TypeError(f"alpha of {name} must be a number, not {type(alpha).__name__}")
    return alpha


_BY_NAME: dict[str, type[Cell]] = {
    "elu": ELU,
    "gelu": GELU,
    "hsigmoid": HSigmoid,
    "hswish": HSwish,
    "leakyrelu": LeakyReLU,
    "logsigmoid": LogSigmoid,
    "logsoftmax": LogSoftmax,
    "mish": Mish,
    "relu": ReLU,
    "relu6": ReLU6,
    "sigmoid": Sigmoid,
    "silu": SiLU,
    "softmax": Softmax,
    "softsign": Softsign,
    "tanh": Tanh,
}


def get_activation(name: str | None) -> Cell | None:
    """A new activation Cell by its name, such as "relu"; None for None.

    Raises:
        KeyError: there is no activation of that name.
    """
    if name is None:
        return None
    if name not in _BY_NAME:
        raise KeyError(f"there is no activation '{name}'; the names are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]()
