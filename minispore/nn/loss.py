"""Losses as Cells; by default the mean over all elements.

Each keeps its options and calls the function of the same name in ``minispore.ops``, where the
formulas, shapes and errors are documented.
"""

from __future__ import annotations

from typing import Any

from minispore import ops
from minispore.nn.cell import Cell
from minispore.nn.checks import check_bool


class LossBase(Cell):
    """The base of losses: keeps `reduction`, and reduces with ``get_loss``.

    Args:
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: any other reduction.
    """

    def __init__(self, reduction: str = "mean"):
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
        self.reduction = reduction

    def get_loss(self, x: Any, weights: Any = 1.0) -> Any:
        """`x`, weighted and reduced over all its axes.

        Args:
            x: a Tensor of losses.
            weights: a number, or a Tensor that broadcasts with `x`.
        """
        x = x * weights
        if self.reduction == "mean":
            return x.mean()
        if self.reduction == "sum":
            return x.sum()
        return x

    def construct(self, logits: Any, labels: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define construct")


class MSELoss(LossBase):
    """``(logits - labels) ** 2``.  Inputs: two Tensors whose shapes broadcast."""

    def construct(self, logits: Any, labels: Any) -> Any:
        return ops.mse_loss(logits, labels, self.reduction)


class L1Loss(LossBase):
    """``|logits - labels|``.  Inputs: two Tensors whose shapes broadcast."""

    def construct(self, logits: Any, labels: Any) -> Any:
        return ops.l1_loss(logits, labels, self.reduction)


class SmoothL1Loss(LossBase):
    """``ops.smooth_l1_loss``: a square where the difference is less than `beta`, else a line.

    By default nothing is reduced.  Inputs: two Tensors of one shape.
    """

    def __init__(self, beta: float = 1.0, reduction: str = "none"):
        super().__init__(reduction)
        self.beta = beta

    def construct(self, logits: Any, labels: Any) -> Any:
        return ops.smooth_l1_loss(logits, labels, self.beta, self.reduction)


class SoftmaxCrossEntropyWithLogits(LossBase):
    """Cross entropy between logits and probabilities of classes, or classes.

    Args:
        sparse: labels are integer classes (N,), and not probabilities (N, C).
        reduction: "none" (the default), "mean" or "sum".

    Inputs: logits (N, C); labels.
    """

    def __init__(self, sparse: bool = False, reduction: str = "none"):
        super().__init__(reduction)
        self.sparse = check_bool("SoftmaxCrossEntropyWithLogits", "sparse", sparse)

    def construct(self, logits: Any, labels: Any) -> Any:
        if labels.dtype.is_float == self.sparse:
            wanted = "integer classes" if self.sparse else "probabilities, which are floats"
            raise TypeError(f"with sparse={self.sparse} labels are {wanted}, not {labels.dtype}")
        return ops.cross_entropy(logits, labels, reduction=self.reduction)


class CrossEntropyLoss(LossBase):
    """Cross entropy between logits and classes, or probabilities of classes.

    Args:
        weight: a Tensor (C,) of weights of the classes, or None.
        ignore_index: a label that does not count.
        reduction: "mean" (weighted), "sum" or "none".
        label_smoothing: how much of each label's probability all classes share, 0.0 to 1.0.

    Inputs: logits (N, C, ...) or (C,); labels: integer classes (N, ...), or floats like the logits.
    """

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__(reduction)
        self.weight = weight
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def construct(self, logits: Any, labels: Any) -> Any:
        return ops.cross_entropy(
            logits, labels, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


class NLLLoss(LossBase):
    """The negative log likelihood of classes, given their log probabilities.

    Args:
        weight: a Tensor (C,) of weights of the classes, or None.
        ignore_index: a label that does not count.
        reduction: "mean" (weighted), "sum" or "none".

    Inputs: log probabilities (N, C, ...) or (C,); labels: integer classes (N, ...).
    """

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"):
        super().__init__(reduction)
        self.weight = weight
        self.ignore_index = ignore_index

    def construct(self, logits: Any, labels: Any) -> Any:
        return ops.nll_loss(logits, labels, self.weight, self.ignore_index, self.reduction)


class BCELoss(LossBase):
    """Binary cross entropy between probabilities and labels of one shape.

    Args:
        weight: a Tensor of weights that broadcasts, or None.
        reduction: "mean", "sum" or "none".
    """

    def __init__(self, weight: Any = None, reduction: str = "mean"):
        super().__init__(reduction)
        self.weight = weight

    def construct(self, logits: Any, labels: Any) -> Any:
        return ops.binary_cross_entropy(logits, labels, self.weight, self.reduction)


class BCEWithLogitsLoss(LossBase):
    """Binary cross entropy between ``sigmoid(logits)`` and labels of one shape.

    Args:
        reduction: "mean", "sum" or "none".
        weight: a Tensor of weights that broadcasts, or None.
        pos_weight: a Tensor of weights of the positive labels that broadcasts, or None.
    """

    def __init__(self, reduction: str = "mean", weight: Any = None, pos_weight: Any = None):
        super().__init__(reduction)
        self.weight = weight
        self.pos_weight = pos_weight

    def construct(self, logits: Any, labels: Any) -> Any:
        return ops.binary_cross_entropy_with_logits(
            logits, labels, self.weight, self.pos_weight, self.reduction
        )
