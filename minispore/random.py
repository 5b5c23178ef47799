"""The seed, and the host's generator of initial values.

``set_seed`` restarts every stream of random numbers: this generator, NumPy's global one (as in
MindSpore), and those that other modules announce with ``on_set_seed``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_seed: int | None = None
_generator = np.random.Generator(np.random.Philox())
_listeners: list[Callable[[int], None]] = []


def set_seed(seed: int) -> None:
    """Make all random numbers from here on a function of `seed`.

    Raises:
        TypeError: `seed` is no int.
        ValueError: `seed` is negative.
    """
    global _seed, _generator
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"the seed must be an int, not {type(seed).__name__}")
    if seed < 0:
        raise ValueError(f"the seed must not be negative, but is {seed}")
    _seed = seed
    _generator = np.random.Generator(np.random.Philox(seed))
    np.random.seed(seed % 2**32)
    for listener in _listeners:
        listener(seed)


def get_seed() -> int | None:
    """The seed that was set last, or None."""
    return _seed


def generator() -> np.random.Generator:
    """The generator from which initial values are drawn."""
    return _generator


def on_set_seed(listener: Callable[[int], None]) -> None:
    """Call ``listener(seed)`` at every ``set_seed``."""
    _listeners.append(listener)
