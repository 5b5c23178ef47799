"""Neural networks: Cells, containers, layers, losses and optimizers."""

import sys as _sys

from minispore import spelling as _spelling
from minispore.nn import learning_rate_schedule
from minispore.nn.activation import (
    ELU,
    GELU,
    HSigmoid,
    HSwish,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softsign,
    Tanh,
    get_activation,
)
from minispore.nn.basic import Dense, Flatten, Identity
from minispore.nn.cell import Cell
from minispore.nn.containers import CellDict, CellList, SequentialCell
from minispore.nn.dropout import Dropout
from minispore.nn.embedding import Embedding
from minispore.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    L1Loss,
    LossBase,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
    SoftmaxCrossEntropyWithLogits,
)
from minispore.nn.normalization import BatchNorm1d, BatchNorm2d, LayerNorm
from minispore.nn.optim import SGD, Adam, AdamWeightDecay, Momentum, Optimizer
from minispore.nn.wrap import ForwardValueAndGrad, TrainOneStepCell, WithEvalCell, WithLossCell

__all__ = [
    "Cell", "SequentialCell", "CellList", "CellDict",
    "Dense", "Flatten", "Identity", "Dropout", "Embedding",
    "BatchNorm1d", "BatchNorm2d", "LayerNorm",
    "ELU", "GELU", "HSigmoid", "HSwish", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "ReLU",
    "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softsign", "Tanh", "get_activation",
    "LossBase", "MSELoss", "L1Loss", "SmoothL1Loss", "CrossEntropyLoss",
    "SoftmaxCrossEntropyWithLogits", "NLLLoss", "BCELoss", "BCEWithLogitsLoss",
    "WithLossCell", "WithEvalCell", "TrainOneStepCell", "ForwardValueAndGrad",
    "Optimizer", "SGD", "Momentum", "Adam", "AdamWeightDecay", "learning_rate_schedule",
]  # fmt: skip


def __getattr__(name: str) -> object:
    raise _spelling.missing(_sys.modules[__name__], name)
