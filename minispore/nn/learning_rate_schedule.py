"""Learning rates that depend on the step."""

from __future__ import annotations

from typing import Any

from minispore import ops
from minispore.dtype import float32
from minispore.nn.cell import Cell
from minispore.parameter import Parameter
from minispore.tensor import Tensor


class LearningRateSchedule(Cell):
    """The base of schedules: ``construct(global_step)`` returns the learning rate of a step.

    `global_step` is an Int32 Tensor of shape (1,), 0 at the first step; the result has one element.
    """

    def construct(self, global_step: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define construct(global_step)")


class RatePerStep(LearningRateSchedule):
    """A learning rate for each step, from a list; IndexError after the last.

    Args:
        rates: one number per step.
        name: of the Parameter that holds them.
    """

    def __init__(self, rates: list[float], name: str):
        super().__init__()
        self.rates = Parameter(Tensor(rates, float32), name=name)

    def construct(self, global_step: Any) -> Any:
        return ops.gather(self.rates, global_step, 0)
