"""Adam and its variant with decoupled weight decay."""

from __future__ import annotations

from typing import Any

import numpy as np

from minispore import ops
from minispore.dtype import float32
from minispore.nn.checks import check_bool
from minispore.nn.optim.optimizer import Optimizer, non_negative
from minispore.ops.state import write
from minispore.parameter import Parameter
from minispore.tensor import Tensor


class _AdamBase(Optimizer):
    """The arguments and moving averages that Adam and AdamWeightDecay share."""

    def _set_betas(self, beta1: float, beta2: float, eps: float) -> None:
        for name, beta in (("beta1", beta1), ("beta2", beta2)):
            if not 0.0 < non_negative(name, beta) < 1.0:
                raise ValueError(f"{name} must be between 0 and 1, not {beta}")
        if non_negative("eps", eps) == 0.0:
            raise ValueError("eps must be positive, not 0")
        self.beta1, self.beta2, self.eps = float(beta1), float(beta2), float(eps)
        # As Float32, so that 1 - beta2 below is what Float32 makes of 1 - beta2**t at t = 1.
        self._beta1, self._beta2 = float(np.float32(beta1)), float(np.float32(beta2))

    def averages(self, g: Any, m: Any, v: Any) -> Any:
        """The moving averages of a gradient and of its square, one step on."""
        new_m = self._beta1 * m + (1.0 - self._beta1) * g
        return new_m, self._beta2 * v + (1.0 - self._beta2) * g * g


class Adam(_AdamBase):
    """Adam: steps of a size that the gradients' own moving averages set.

        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        w = w - lr * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + eps)       (step t)

    The state of a Parameter w is ``moment1.w`` and ``moment2.w`` (and ``vhat.w``, the largest v so
    far, with `use_amsgrad`); `beta1_power` and `beta2_power` hold the powers.

    Args:
        params: Parameters, or dicts of them, as in Optimizer.
        learning_rate: as in Optimizer.
        beta1, beta2: numbers between 0 and 1, without these.
        eps: a positive number.
        use_locking: changes nothing; updates are never torn.
        use_nesterov: m is replaced by beta1 * m + (1 - beta1) * g in the last line.
        weight_decay, loss_scale: as in Optimizer.
        use_amsgrad: v is replaced by the largest v so far in the last line.

    Raises:
        As Optimizer; ValueError also for a beta or eps outside its range.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        use_locking: bool = False,
        use_nesterov: bool = False,
        weight_decay: float = 0.0,
        loss_scale: float = 1.0,
        use_amsgrad: bool = False,
    ):
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self._set_betas(beta1, beta2, eps)
        self.use_nesterov = check_bool("Adam", "use_nesterov", use_nesterov)
        self.use_amsgrad = check_bool("Adam", "use_amsgrad", use_amsgrad)
        self.beta1_power = Parameter(Tensor(np.ones(()), float32), name="beta1_power")
        self.beta2_power = Parameter(Tensor(np.ones(()), float32), name="beta2_power")
        self.moment1 = self.parameters.clone(prefix="moment1", init="zeros")
        self.moment2 = self.parameters.clone(prefix="moment2", init="zeros")
        self.vhat = self.parameters.clone(prefix="vhat", init="zeros") if use_amsgrad else ()

    def construct(self, gradients: Any) -> Any:
        gradients, rates = self.begin(gradients)
        power1 = self.beta1_power * self._beta1
        power2 = self.beta2_power * self._beta2
        write(self.beta1_power, power1)
        write(self.beta2_power, power2)
        correction = ops.sqrt(1.0 - power2) / (1.0 - power1)
        for i in range(len(self.parameters)):
            p, g = self.parameters[i], gradients[i]
            m, v = self.averages(g, self.moment1[i], self.moment2[i])
            write(self.moment1[i], m)
            write(self.moment2[i], v)
            if self.use_nesterov:
                m = self._beta1 * m + (1.0 - self._beta1) * g
            if self.use_amsgrad:
                v = ops.maximum(self.vhat[i], v)
                write(self.vhat[i], v)
            write(p, p - rates[i] * correction * m / (ops.sqrt(v) + self.eps))
        return self._done


class AdamWeightDecay(_AdamBase):
    """Adam with weight decay apart from the gradient, and without correction of the first steps.

        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        w = w - lr * (m / (sqrt(v) + eps) + weight_decay * w)

    The state of a Parameter w is ``adam_m.w`` and ``adam_v.w``.

    Args:
        params: Parameters, or dicts of them, as in Optimizer.
        learning_rate, weight_decay: as in Optimizer.
        beta1, beta2: numbers between 0 and 1, without these.
        eps: a positive number.

    Raises:
        As Optimizer; ValueError also for a beta or eps outside its range.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ):
        super().__init__(learning_rate, params, weight_decay)
        self._set_betas(beta1, beta2, eps)
        self.moments1 = self.parameters.clone(prefix="adam_m", init="zeros")
        self.moments2 = self.parameters.clone(prefix="adam_v", init="zeros")

    def construct(self, gradients: Any) -> Any:
        gradients, rates = self.begin(gradients, decay=False)
        for i in range(len(self.parameters)):
            p = self.parameters[i]
            m, v = self.averages(gradients[i], self.moments1[i], self.moments2[i])
            write(self.moments1[i], m)
            write(self.moments2[i], v)
            change = m / (ops.sqrt(v) + self.eps)
            if self._decays[i] != 0.0:
                change = change + self._decays[i] * p
            write(p, p - rates[i] * change)
        return self._done
