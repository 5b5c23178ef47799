"""Cells around a network: with its loss, with its gradients, with a whole step of training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minispore import ops
from minispore.autodiff.api import GradOperation
from minispore.dtype import float32
from minispore.nn.cell import Cell
from minispore.nn.checks import check_bool
from minispore.parameter import Parameter, ParameterTuple


class WithLossCell(Cell):
    """A network and its loss: (data, label) -> ``loss_fn(backbone(data), label)``.

    Parameters keep the names that they have in the network.
    """

    def __init__(self, backbone: Cell, loss_fn: Cell):
        super().__init__(auto_prefix=False)
        self._backbone = backbone
        self._loss_fn = loss_fn

    def construct(self, data: Any, label: Any) -> Any:
        return self._loss_fn(self._backbone(data), label)

    @property
    def backbone_network(self) -> Cell:
        """The network without its loss."""
        return self._backbone


class WithEvalCell(Cell):
    """A network and its loss, for evaluation: (data, label) -> (loss, outputs, label).

    With `add_cast_fp32` outputs and label become Float32 before the loss.
    """

    def __init__(self, network: Cell, loss_fn: Cell, add_cast_fp32: bool = False):
        super().__init__(auto_prefix=False)
        self._network = network
        self._loss_fn = loss_fn
        self.add_cast_fp32 = check_bool("WithEvalCell", "add_cast_fp32", add_cast_fp32)

    def construct(self, data: Any, label: Any) -> Any:
        outputs = self._network(data)
        if self.add_cast_fp32:
            outputs, label = ops.cast(outputs, float32), ops.cast(label, float32)
        return self._loss_fn(outputs, label), outputs, label


class TrainOneStepCell(Cell):
    """One step of training: inputs -> loss; the optimizer moves the weights.

    Args:
        network: a Cell that returns the loss.
        optimizer: its Parameters are the ones that are trained.
        sens: the loss is multiplied by it before it is differentiated; 1 if None.
        return_grad: return (loss, {name of a Parameter: its gradient}) instead.
    """

    def __init__(
        self, network: Cell, optimizer: Any, sens: float | None = None, return_grad: bool = False
    ):
        super().__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.optimizer = optimizer
        self.weights = optimizer.parameters
        self.grad = GradOperation(get_by_list=True, sens_param=True)
        self.sens = 1.0 if sens is None else sens
        self.return_grad = check_bool("TrainOneStepCell", "return_grad", return_grad)

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        grads = self.grad(self.network, self.weights)(*inputs, ops.full_like(loss, self.sens))
        self.optimizer(grads)
        if self.return_grad:
            return loss, {w.name: g for w, g in zip(self.weights, grads, strict=True)}
        return loss


class ForwardValueAndGrad(Cell):
    """A network and its gradients: inputs -> (outputs, gradients).

    Args:
        weights: the Parameters to differentiate by with `get_by_list`.
        get_all, get_by_list, sens_param: as in ``ops.GradOperation``.

    Raises:
        TypeError: `get_by_list` without weights.
    """

    def __init__(
        self,
        network: Cell,
        weights: Iterable[Parameter] | None = None,
        get_all: bool = False,
        get_by_list: bool = False,
        sens_param: bool = False,
    ):
        super().__init__(auto_prefix=False)
        if get_by_list and weights is None:
            raise TypeError("ForwardValueAndGrad: get_by_list needs weights")
        self.network = network
        self.weights = ParameterTuple(weights) if get_by_list and weights is not None else None
        self.sens_param = check_bool("ForwardValueAndGrad", "sens_param", sens_param)
        self.grad = GradOperation(get_all, get_by_list, sens_param)

    def construct(self, *inputs: Any) -> Any:
        own = inputs[:-1] if self.sens_param else inputs
        return self.network(*own), self.grad(self.network, self.weights)(*inputs)
