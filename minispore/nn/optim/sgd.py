"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from typing import Any

from minispore import ops
from minispore.nn.checks import check_bool
from minispore.nn.optim.optimizer import Optimizer, non_negative
from minispore.ops.state import write


class SGD(Optimizer):
    """Stochastic gradient descent.

        m = momentum * m + (1 - dampening) * g        (m = g at the first step)
        w = w - lr * m                                (nesterov: lr * (g + momentum * m))

    The state of a Parameter w is ``accum.w``, which holds m, and ``stat.w``: 1 until the first step
    with dampening, then 0.

    Args:
        params: Parameters, or dicts of them, as in Optimizer.
        learning_rate: as in Optimizer.
        momentum, dampening: numbers that are not negative.
        weight_decay: as in Optimizer.
        nesterov: needs momentum and no dampening.
        loss_scale: as in Optimizer.

    Raises:
        As Optimizer; ValueError also for a negative momentum or dampening.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        loss_scale: float = 1.0,
    ):
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.momentum = non_negative("momentum", momentum)
        self.dampening = non_negative("dampening", dampening)
        self.nesterov = check_bool("SGD", "nesterov", nesterov)
        if nesterov and (self.momentum == 0.0 or self.dampening != 0.0):
            raise ValueError("nesterov needs a positive momentum and dampening=0")
        self.accum = self.parameters.clone(prefix="accum", init="zeros")
        self.stat = self.parameters.clone(prefix="stat", init="ones")

    def construct(self, gradients: Any) -> Any:
        gradients, rates = self.begin(gradients)
        for p, g, lr, accum, stat in zip(
            self.parameters, gradients, rates, self.accum, self.stat, strict=True
        ):
            if self.momentum > 0.0:
                m = self.momentum * accum + (1.0 - self.dampening) * g
                if self.dampening > 0.0:
                    m = ops.select(stat > 0, g, m)
                    write(stat, ops.zeros_like(stat))
                write(accum, m)
                g = g + self.momentum * m if self.nesterov else m
            write(p, p - lr * g)
        return self._done


class Momentum(Optimizer):
    """Gradient descent with momentum.

        m = momentum * m + g
        w = w - lr * m

    The state of a Parameter w is ``moments.w``, which holds m.

    Args:
        params: Parameters, or dicts of them, as in Optimizer.
        learning_rate: as in Optimizer.
        momentum: a number that is not negative.
        weight_decay, loss_scale: as in Optimizer.
        use_nesterov: changes nothing, as in MindSpore on a CPU; SGD has nesterov.

    Raises:
        As Optimizer; ValueError also for a negative momentum.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any,
        momentum: float,
        weight_decay: float = 0.0,
        loss_scale: float = 1.0,
        use_nesterov: bool = False,
    ):
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.momentum = non_negative("momentum", momentum)
        self.use_nesterov = check_bool("Momentum", "use_nesterov", use_nesterov)
        self.moments = self.parameters.clone(prefix="moments", init="zeros")

    def construct(self, gradients: Any) -> Any:
        gradients, rates = self.begin(gradients)
        for p, g, lr, moment in zip(self.parameters, gradients, rates, self.moments, strict=True):
            m = self.momentum * moment + g
            write(moment, m)
            write(p, p - lr * m)
        return self._done
