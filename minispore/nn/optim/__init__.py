"""Optimizers: Cells that take the gradients and change the parameters."""

from minispore.nn.optim.adam import Adam, AdamWeightDecay
from minispore.nn.optim.optimizer import Optimizer
from minispore.nn.optim.sgd import SGD, Momentum

__all__ = ["Optimizer", "SGD", "Momentum", "Adam", "AdamWeightDecay"]
