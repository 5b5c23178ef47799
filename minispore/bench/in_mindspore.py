"""The workloads in MindSpore's API: ``--package minispore`` or ``mindspore``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import clock
import numpy as np

ASKED = clock.options()
ms: Any = importlib.import_module(ASKED.package)
nn: Any = importlib.import_module(f"{ASKED.package}.nn")
ops: Any = importlib.import_module(f"{ASKED.package}.ops")
rng = np.random.default_rng(0)

GRAPH = ASKED.mode == "graph"
TOKENS, LENGTH, BATCH, WIDE, HEADS, BLOCKS = 65, 64, 8, 64, 4, 2


def floats(*shape: int) -> Any:
    """Small random numbers."""
    return ms.Tensor((0.05 * rng.standard_normal(shape)).astype(np.float32))


def classes(count: int, *shape: int) -> Any:
    """Random whole numbers below `count`."""
    return ms.Tensor(rng.integers(0, count, shape).astype(np.int32))


def mlp(*widths: int) -> Any:
    """Dense layers with ReLU between them."""
    layers: list = []
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [nn.Dense(before, after), nn.ReLU()]
    return nn.SequentialCell(*layers[:-1])


class Attention(nn.Cell):
    """Causal attention with several heads."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Dense(WIDE, WIDE), nn.Dense(WIDE, WIDE)
        self.value, self.out = nn.Dense(WIDE, WIDE), nn.Dense(WIDE, WIDE)
        self.mask = ms.Tensor(np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))

    def heads(self, x: Any) -> Any:
        """(batch, length, wide) -> (batch, heads, length, a share of wide)"""
        return x.reshape((BATCH, LENGTH, HEADS, WIDE // HEADS)).transpose((0, 2, 1, 3))

    def construct(self, x: Any) -> Any:
        """Attend."""
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        scores = ops.matmul(q, k.transpose((0, 1, 3, 2))) * (WIDE // HEADS) ** -0.5
        seen = ops.matmul(ops.softmax(scores + self.mask, -1), v)
        return self.out(seen.transpose((0, 2, 1, 3)).reshape((BATCH, LENGTH, WIDE)))


class Block(nn.Cell):
    """Attention and a perceptron, each after a layer norm, each added to what was there."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((WIDE,)), nn.LayerNorm((WIDE,))
        self.attention = Attention()
        self.up, self.down = nn.Dense(WIDE, 4 * WIDE), nn.Dense(4 * WIDE, WIDE)

    def construct(self, x: Any) -> Any:
        """One block."""
        x = x + self.attention(self.norm1(x))
        return x + self.down(ops.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Cell):
    """Tokens in, scores of the next ones out."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDE)
        self.places = ms.Parameter(ms.Tensor(np.zeros((LENGTH, WIDE), np.float32)), name="places")
        self.blocks = nn.SequentialCell(*(Block() for _ in range(BLOCKS)))
        self.norm, self.head = nn.LayerNorm((WIDE,)), nn.Dense(WIDE, TOKENS)

    def construct(self, tokens: Any) -> Any:
        """Scores, a row for each token."""
        x = self.blocks(self.tokens(tokens) + self.places)
        return self.head(self.norm(x)).reshape((BATCH * LENGTH, TOKENS))


def step_of(net: Any) -> Callable:
    """A training step: loss, gradients, Adam."""
    loss_of = nn.CrossEntropyLoss()
    optimizer = nn.Adam(net.trainable_params(), 1e-3)
    net.set_train()

    def forward(x: Any, y: Any) -> Any:
        return loss_of(net(x), y)

    gradient = ms.value_and_grad(forward, None, optimizer.parameters)

    def step(x: Any, y: Any) -> Any:
        loss, gradients = gradient(x, y)
        optimizer(gradients)
        return loss

    return step


def called(fn: Callable, *inputs: Any) -> Callable:
    """A call of a function, compiled in graph mode."""
    compiled = ms.jit(fn) if GRAPH else fn
    return lambda: compiled(*inputs).asnumpy()


def gelu(x: Any) -> Any:
    """By tanh."""
    return 0.5 * x * (1 + ops.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def layernorm(x: Any) -> Any:
    """Of each row."""
    centred = x - x.mean(-1, keep_dims=True)
    return centred / ops.sqrt((centred * centred).mean(-1, keep_dims=True) + 1e-5)


def softmax(x: Any) -> Any:
    """Of each row."""
    powers = ops.exp(x - ops.amax(x, -1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def root(x: Any, y: Any) -> Any:
    """Newton's method, started far away."""
    i = ms.Tensor(0, ms.int32)
    while i < 1000:
        y = 0.5 * (y + x / y)
        i = i + 1
    return y


def everywhere(value: float) -> Any:
    """64 times the same number."""
    return ms.Tensor(np.full(64, value, np.float32))


def gpt_call() -> tuple[Callable, Any, Any]:
    """The step of gpt and its arguments."""
    return step_of(Gpt()), classes(TOKENS, BATCH, LENGTH), classes(TOKENS, BATCH * LENGTH)


def memory() -> int:
    """What report.memory says of steps by the shortcut: inputs, Parameters, arena, outputs."""
    if ASKED.package != "minispore":
        raise NotImplementedError("only minispore counts its bytes")
    return ms.explain(*gpt_call()).memory.steady


WORKLOADS: clock.Workloads = {
    "mlp_tiny": lambda: called(step_of(mlp(2, 16, 16, 2)), floats(32, 2), classes(2, 32)),
    "mlp_mnist": lambda: called(step_of(mlp(784, 512, 512, 10)), floats(64, 784), classes(10, 64)),
    "gpt": lambda: called(*gpt_call()),
    "gelu_1m": lambda: called(gelu, floats(1_000_000)),
    "layernorm": lambda: called(layernorm, floats(4096, 256)),
    "softmax": lambda: called(softmax, floats(4096, 256)),
    "while_1000": lambda: called(root, everywhere(2), everywhere(1e9)),
}

if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE if GRAPH else ms.PYNATIVE_MODE)
    clock.run(ASKED, WORKLOADS, memory)
