"""Neural networks: Cells, containers, layers, losses and optimizers."""

from minispore.nn import learning_rate_schedule
from minispore.nn.activation import (
    ELU,
    GELU,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
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
)
from minispore.nn.normalization import BatchNorm1d, BatchNorm2d, LayerNorm
from minispore.nn.optim import SGD, Adam, AdamWeightDecay, Momentum, Optimizer

__all__ = [
    "Cell", "SequentialCell", "CellList", "CellDict",
    "Dense", "Flatten", "Identity", "Dropout", "Embedding",
    "BatchNorm1d", "BatchNorm2d", "LayerNorm",
    "ELU", "GELU", "LeakyReLU", "LogSoftmax", "ReLU", "SiLU", "Sigmoid", "Softmax", "Tanh",
    "get_activation",
    "LossBase", "MSELoss", "L1Loss", "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss",
    "Optimizer", "SGD", "Momentum", "Adam", "AdamWeightDecay", "learning_rate_schedule",
]  # fmt: skip
