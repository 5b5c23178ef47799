"""Optimizer: what all update rules share: parameters, learning rates, weight decay, the step.

An optimizer is a Cell: ``optimizer(gradients)`` runs its construct, which is plain Python over ops
and so compiles like any other: it computes the new values of parameters and state from the old ones
and the gradients, and writes them in the dtype of what is stored to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from minispore import ops
from minispore.dtype import float32, int32
from minispore.nn.cell import Cell
from minispore.nn.learning_rate_schedule import LearningRateSchedule, RatePerStep
from minispore.parameter import Parameter, ParameterTuple
from minispore.tensor import Tensor

_GROUP_KEYS = ("params", "lr", "weight_decay", "order_params")


class _Member(NamedTuple):
    """A Parameter with its own learning rate and weight decay."""

    param: Parameter
    rate: Parameter | LearningRateSchedule
    decay: float


class Optimizer(Cell):
    """The base of optimizers.

    ``optimizer(gradients)`` takes one gradient per parameter, in the order of `parameters`, and
    returns a tuple with True for each.

    Args:
        learning_rate: a number; a Tensor or iterable with one rate per step; or a
            LearningRateSchedule.
        parameters: Parameters; or dicts of "params" with an "lr" or "weight_decay" of their own.
            One more dict may hold "order_params": all Parameters, in the order of the gradients.
        weight_decay: how much of a parameter is added to its gradient.  Unless there are dicts,
            Parameters with beta or gamma in their names are spared.
        loss_scale: what the loss was multiplied by; gradients are divided by it.

    Attributes:
        parameters: a ParameterTuple.
        learning_rate: a Parameter, which ``set_data`` changes, or a schedule.
        global_step: the number of steps taken: an Int32 Parameter of shape (1,).

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: no parameters, or two of one name; a negative rate or decay; when called:
            gradients that do not fit the parameters.
        KeyError: a dict with an unknown key, or without "params".
    """

    _phase: ClassVar[str] = "update"  # the phase of the nodes that it makes in a graph

    def __init__(
        self,
        learning_rate: Any,
        parameters: Iterable[Any],
        weight_decay: float = 0.0,
        loss_scale: float = 1.0,
    ):
        super().__init__(auto_prefix=False)
        self.loss_scale = non_negative("loss_scale", loss_scale)
        if self.loss_scale == 0.0:
            raise ValueError("loss_scale must be positive, not 0")
        self.weight_decay = non_negative("weight_decay", weight_decay)
        self.global_step = Parameter(Tensor(np.zeros(1), int32), name="global_step")
        self.learning_rate = _rate("learning_rate", learning_rate)
        items = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        if not items:
            raise ValueError("an optimizer needs at least one Parameter")
        self.is_group = any(isinstance(item, dict) for item in items)
        self.is_group_lr = self.is_group and any("lr" in item for item in items)
        members = self._grouped(items) if self.is_group else self._ungrouped(items)
        self.parameters = ParameterTuple(_with_unique_names([m.param for m in members]))
        self._rates = tuple(m.rate for m in members)
        self._decays = tuple(m.decay for m in members)
        self._done = (True,) * len(members)

    def _ungrouped(self, params: list) -> list[_Member]:
        return [
            _Member(p, self.learning_rate, 0.0 if _is_spared(p) else self.weight_decay)
            for p in _checked(params)
        ]

    def _grouped(self, groups: list) -> list[_Member]:
        """The members of all groups, in the order of the gradients."""
        members: list[_Member] = []
        order = None
        for index, group in enumerate(groups):
            _check_group(group)
            if "order_params" in group:
                order = _checked(group["order_params"])
                continue
            rate, decay = self.learning_rate, self.weight_decay
            if "lr" in group:
                rate = _rate(f"learning_rate_group_{index}", group["lr"])
                setattr(self, f"learning_rate_group_{index}", rate)
            if "weight_decay" in group:
                decay = non_negative("weight_decay", group["weight_decay"])
            members += [_Member(p, rate, decay) for p in _checked(group["params"])]
        return members if order is None else _reordered(members, order)

    # ---------------------------------------------------------- what constructs are made of

    def get_lr(self) -> Any:
        """The learning rate of the coming step: 0-d; a tuple of them if groups have their own."""
        if self.is_group_lr:
            return tuple([_rate_at(rate, self.global_step) for rate in self._rates])
        return _rate_at(self.learning_rate, self.global_step)

    def begin(self, gradients: Any, decay: bool = True) -> Any:
        """Start a step: count it, and return the gradients and the learning rates, as sequences.

        The gradients are unscaled and, if `decay`, the weights' decay is added to them.
        """
        rates = self.get_lr()
        if not self.is_group_lr:
            rates = (rates,) * len(self.parameters)
        _check_gradients(gradients, self.parameters)
        ready = []
        for p, g, weight in zip(self.parameters, gradients, self._decays, strict=True):
            if self.loss_scale != 1.0:
                g = g * (1.0 / self.loss_scale)
            if decay and weight != 0.0:
                g = g + weight * p
            ready.append(g)
        ops.assign_add(self.global_step, 1)
        return ready, rates

    def construct(self, gradients: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define construct(gradients)")


def _rate_at(rate: Any, global_step: Parameter) -> Any:
    return rate(global_step).reshape(()) if isinstance(rate, Cell) else rate


def _check_gradients(gradients: Any, params: ParameterTuple) -> None:
    if not isinstance(gradients, (tuple, list)):
        raise TypeError(
            "an optimizer takes a tuple with one gradient per parameter, not "
            f"{type(gradients).__name__}"
        )
    if len(gradients) != len(params):
        raise ValueError(f"there are {len(gradients)} gradients for {len(params)} parameters")
    for g, p in zip(gradients, params, strict=True):
        if g.shape != p.shape:
            raise ValueError(f"the gradient of {p.name} has shape {g.shape}, it has {p.shape}")


# ----------------------------------------------------------------------- checks of arguments


def non_negative(name: str, value: Any) -> float:
    """`value` as a float; TypeError if it is no number, ValueError if it is negative."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not value >= 0:
        raise ValueError(f"{name} must not be negative: {value}")
    return float(value)


def _rate(name: str, rate: Any) -> Parameter | LearningRateSchedule:
    """What gives a learning rate: a Parameter of shape (), or a schedule."""
    if isinstance(rate, LearningRateSchedule):
        return rate
    if isinstance(rate, (int, float)):
        return Parameter(Tensor(non_negative(name, rate), float32), name=name)
    if isinstance(rate, Tensor) and rate.ndim == 0:
        return Parameter(Tensor(non_negative(name, rate.item()), float32), name=name)
    if isinstance(rate, Tensor) and rate.ndim > 1:
        raise ValueError(f"{name} must have one axis at most, not shape {rate.shape}")
    if not isinstance(rate, Iterable) or isinstance(rate, (str, Cell)):
        raise TypeError(
            f"{name} must be a number, a Tensor, an iterable of numbers or a "
            f"LearningRateSchedule, not {type(rate).__name__}"
        )
    values = rate.asnumpy().tolist() if isinstance(rate, Tensor) else list(rate)
    if not values:
        raise ValueError(f"{name} is an empty list")
    return RatePerStep([non_negative(name, float(value)) for value in values], name)


def _is_spared(param: Parameter) -> bool:
    """True for the Parameters of normalisation layers, which weight decay leaves alone."""
    return "beta" in param.name or "gamma" in param.name


def _checked(params: Any) -> list[Parameter]:
    """The Parameters of a list, which must hold at least one and nothing else."""
    if isinstance(params, Tensor) or not isinstance(params, Iterable):
        raise TypeError(f"an optimizer takes a list of Parameters, not {type(params).__name__}")
    items = list(params)
    if not items:
        raise ValueError("a group of an optimizer has no Parameters")
    for item in items:
        if not isinstance(item, Parameter):
            raise TypeError(
                "an optimizer takes Parameters, or dicts of them with 'params', "
                f"not {type(item).__name__}"
            )
    return items


def _check_group(group: Any) -> None:
    if not isinstance(group, dict):
        raise TypeError(f"dicts of Parameters cannot be mixed with {type(group).__name__}")
    unknown = sorted(set(group) - set(_GROUP_KEYS))
    if unknown:
        raise KeyError(f"a group of Parameters has {', '.join(_GROUP_KEYS)}, but no {unknown}")
    if "order_params" in group and len(group) > 1:
        raise ValueError("the dict with 'order_params' must have no other key")
    if "order_params" not in group and "params" not in group:
        raise KeyError("a group of Parameters needs the key 'params'")


def _reordered(members: list[_Member], order: list[Parameter]) -> list[_Member]:
    by_id = {id(m.param): m for m in members}
    if sorted(map(id, order)) != sorted(id(m.param) for m in members):
        raise ValueError("'order_params' must hold each Parameter of the groups exactly once")
    return [by_id[id(p)] for p in order]


def _with_unique_names(params: list[Parameter]) -> list[Parameter]:
    seen: set[str] = set()
    for p in params:
        if p.name in seen:
            raise ValueError(
                f"two Parameters are called '{p.name}'; give each a name of its own, or put their "
                "Cells into one Cell, whose attributes prefix the names"
            )
        seen.add(p.name)
    return params
