"""The workloads in PyTorch, eagerly."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clock
import torch
import torch.nn.functional as F
from torch import nn

TOKENS, LENGTH, BATCH, WIDE, HEADS, BLOCKS = 65, 64, 8, 64, 4, 2


def floats(*shape: int) -> Any:
    """Small random numbers."""
    return 0.05 * torch.randn(*shape)


def classes(count: int, *shape: int) -> Any:
    """Random whole numbers below `count`."""
    return torch.randint(0, count, shape)


def mlp(*widths: int) -> Any:
    """Linear layers with ReLU between them."""
    layers: list = []
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Block(nn.Module):
    """Attention and a perceptron, each after a layer norm, each added to what was there."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDE), nn.LayerNorm(WIDE)
        self.query, self.key = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)
        self.value, self.out = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)
        self.up, self.down = nn.Linear(WIDE, 4 * WIDE), nn.Linear(4 * WIDE, WIDE)
        self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), -1e9), 1))

    def attention(self, x: Any) -> Any:
        """Causal attention with several heads."""
        q, k, v = (
            f(x).reshape(BATCH, LENGTH, HEADS, WIDE // HEADS).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) * (WIDE // HEADS) ** -0.5
        seen = torch.softmax(scores + self.mask, -1) @ v
        return self.out(seen.transpose(1, 2).reshape(BATCH, LENGTH, WIDE))

    def forward(self, x: Any) -> Any:
        """One block."""
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Tokens in, scores of the next ones out."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, WIDE), nn.Parameter(floats(LENGTH, WIDE))
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm, self.head = nn.LayerNorm(WIDE), nn.Linear(WIDE, TOKENS)

    def forward(self, tokens: Any) -> Any:
        """Scores, a row for each token."""
        x = self.blocks(self.tokens(tokens) + self.places)
        return self.head(self.norm(x)).reshape(BATCH * LENGTH, TOKENS)


def step_of(net: Any, x: Any, y: Any) -> Callable:
    """A training step: loss, gradients, Adam."""
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)

    def call() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return call


def called(fn: Callable, *inputs: Any) -> Callable:
    """A call of a function, without gradients."""

    def call() -> Any:
        with torch.no_grad():
            return fn(*inputs).numpy()

    return call


def gelu(x: Any) -> Any:
    """By tanh."""
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def layernorm(x: Any) -> Any:
    """Of each row."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)


def softmax(x: Any) -> Any:
    """Of each row."""
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def root(x: Any, y: Any) -> Any:
    """Newton's method, started far away."""
    i = torch.tensor(0, dtype=torch.int32)
    while i < 1000:
        y = 0.5 * (y + x / y)
        i = i + 1
    return y


def gpt_call() -> Callable:
    """The step of gpt."""
    return step_of(Gpt(), classes(TOKENS, BATCH, LENGTH), classes(TOKENS, BATCH * LENGTH))


def memory() -> int:
    """The most that the allocator held in some steps of gpt: the profiler's "Total Allocated".

    The net, its inputs and the optimizer's state are made under the profiler, so that they count.
    """
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        call = gpt_call()
        for _ in range(3):
            call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return max(e["args"]["Total Allocated"] for e in events if e.get("name") == "[memory]")


WORKLOADS: clock.Workloads = {
    "mlp_tiny": lambda: step_of(mlp(2, 16, 16, 2), floats(32, 2), classes(2, 32)),
    "mlp_mnist": lambda: step_of(mlp(784, 512, 512, 10), floats(64, 784), classes(10, 64)),
    "gpt": gpt_call,
    "gelu_1m": lambda: called(gelu, floats(1_000_000)),
    "layernorm": lambda: called(layernorm, floats(4096, 256)),
    "softmax": lambda: called(softmax, floats(4096, 256)),
    "while_1000": lambda: called(root, torch.full((64,), 2.0), torch.full((64,), 1e9)),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    clock.run(clock.options(), WORKLOADS, memory)
