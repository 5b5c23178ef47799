"""The workloads in JAX: steps are jitted, and give their Parameters away (donate) to be reused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import clock
import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
TOKENS, LENGTH, BATCH, WIDE, HEADS, BLOCKS = 65, 64, 8, 64, 4, 2


def floats(*shape: int) -> Any:
    """Small random numbers."""
    return jnp.asarray((0.05 * rng.standard_normal(shape)).astype(np.float32))


def classes(count: int, *shape: int) -> Any:
    """Random whole numbers below `count`."""
    return jnp.asarray(rng.integers(0, count, shape).astype(np.int32))


def dense(before: int, after: int) -> dict[str, Any]:
    """Weights of a layer."""
    return {"w": floats(before, after), "b": floats(after)}


def applied(layer: dict[str, Any], x: Any) -> Any:
    """A Dense layer."""
    return x @ layer["w"] + layer["b"]


def mlp(layers: list[dict[str, Any]], x: Any) -> Any:
    """Dense layers with ReLU between them."""
    for layer in layers[:-1]:
        x = jax.nn.relu(applied(layer, x))
    return applied(layers[-1], x)


def mlp_weights(*widths: int) -> list[dict[str, Any]]:
    """Weights of `mlp`."""
    return [dense(a, b) for a, b in zip(widths, widths[1:], strict=False)]


def normed(layer: dict[str, Any], x: Any) -> Any:
    """Layer norm."""
    return layernorm(x) * layer["gain"] + layer["shift"]


def attention(p: dict[str, Any], x: Any) -> Any:
    """Causal attention with several heads."""

    def heads(layer: dict[str, Any]) -> Any:
        split = applied(layer, x).reshape(BATCH, LENGTH, HEADS, WIDE // HEADS)
        return split.transpose(0, 2, 1, 3)

    q, k, v = heads(p["query"]), heads(p["key"]), heads(p["value"])
    mask = jnp.triu(jnp.full((LENGTH, LENGTH), -1e9, jnp.float32), 1)
    scores = q @ k.swapaxes(-1, -2) * (WIDE // HEADS) ** -0.5
    seen = jax.nn.softmax(scores + mask, -1) @ v
    return applied(p["out"], seen.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDE))


def gpt(p: dict[str, Any], tokens: Any) -> Any:
    """Tokens in, scores of the next ones out."""
    x = p["tokens"][tokens] + p["places"]
    for block in p["blocks"]:
        x = x + attention(block, normed(block["norm1"], x))
        wide = jax.nn.gelu(applied(block["up"], normed(block["norm2"], x)), approximate=True)
        x = x + applied(block["down"], wide)
    return applied(p["head"], normed(p["norm"], x)).reshape(BATCH * LENGTH, TOKENS)


def gpt_weights() -> dict[str, Any]:
    """Weights of `gpt`."""

    def norm() -> dict[str, Any]:
        return {"gain": jnp.ones(WIDE, jnp.float32), "shift": jnp.zeros(WIDE, jnp.float32)}

    def block() -> dict[str, Any]:
        projections = {n: dense(WIDE, WIDE) for n in ("query", "key", "value", "out")}
        return {"norm1": norm(), "norm2": norm(), **projections,
                "up": dense(WIDE, 4 * WIDE), "down": dense(4 * WIDE, WIDE)}  # fmt: skip

    return {"tokens": floats(TOKENS, WIDE), "places": floats(LENGTH, WIDE), "norm": norm(),
            "blocks": [block() for _ in range(BLOCKS)], "head": dense(WIDE, TOKENS)}  # fmt: skip


def step_of(net: Callable, weights: Any, x: Any, y: Any) -> Callable:
    """A training step: loss, gradients, Adam; weights and moments are donated."""

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        logs = jax.nn.log_softmax(net(weights, x))
        return -jnp.take_along_axis(logs, y[:, None], 1).mean()

    def step(weights: Any, first: Any, second: Any, time: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        time = time + 1
        rate = 1e-3 * jnp.sqrt(1 - 0.999**time) / (1 - 0.9**time)
        first = jax.tree.map(lambda m, g: m + (g - m) * 0.1, first, gradients)
        second = jax.tree.map(lambda v, g: v + (g * g - v) * 0.001, second, gradients)
        weights = jax.tree.map(
            lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), weights, first, second
        )
        return loss, weights, first, second, time

    compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    state = [weights, *(jax.tree.map(jnp.zeros_like, weights) for _ in range(2)), jnp.zeros(())]

    def call() -> Any:
        loss, *state[:] = compiled(*state, x, y)
        jax.block_until_ready(state)
        return np.asarray(loss)

    return call


def called(fn: Callable, *inputs: Any) -> Callable:
    """A call of a compiled function."""
    compiled = jax.jit(fn)
    return lambda: np.asarray(compiled(*inputs))


def gelu(x: Any) -> Any:
    """By tanh."""
    return 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def layernorm(x: Any) -> Any:
    """Of each row."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def softmax(x: Any) -> Any:
    """Of each row."""
    powers = jnp.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def root(x: Any, y: Any) -> Any:
    """Newton's method, started far away."""
    return jax.lax.fori_loop(0, 1000, lambda i, y: 0.5 * (y + x / y), y)


def everywhere(value: float) -> Any:
    """64 times the same number."""
    return jnp.full(64, value, jnp.float32)


WORKLOADS: clock.Workloads = {
    "mlp_tiny": lambda: step_of(mlp, mlp_weights(2, 16, 16, 2), floats(32, 2), classes(2, 32)),
    "mlp_mnist": lambda: step_of(
        mlp, mlp_weights(784, 512, 512, 10), floats(64, 784), classes(10, 64)
    ),
    "gpt": lambda: step_of(
        gpt, gpt_weights(), classes(TOKENS, BATCH, LENGTH), classes(TOKENS, BATCH * LENGTH)
    ),
    "gelu_1m": lambda: called(gelu, floats(1_000_000)),
    "layernorm": lambda: called(layernorm, floats(4096, 256)),
    "softmax": lambda: called(softmax, floats(4096, 256)),
    "while_1000": lambda: called(root, everywhere(2), everywhere(1e9)),
}

if __name__ == "__main__":
    clock.run(clock.options(), WORKLOADS)
