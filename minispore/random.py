"""The seed, the host's generator of initial values, and the generator of the random ops.

``set_seed`` restarts every stream of random numbers: the host's generator, NumPy's global one (as
in MindSpore), and those that other modules announce with ``on_set_seed``.

The random ops (``ops.rand``, ``ops.dropout`` ...) share one counter-based generator, Philox
4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).  It turns a key and a
counter into four words of 32 random bits and has no state of its own: block b of draw n under a
seed is ``philox([b, n], seed)``, whoever computes it, in whatever order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from minispore.dtype import DIGITS, DType, float64

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


@contextmanager
def drawn_again() -> Iterator[None]:
    """What the host draws in a ``with`` block will be drawn again after it."""
    state = _generator.bit_generator.state
    try:
        yield
    finally:
        _generator.bit_generator.state = state


@contextmanager
def drawn_again_if_it_fails() -> Iterator[None]:
    """The same if an exception leaves the block."""
    state = _generator.bit_generator.state
    try:
        yield
    except BaseException:
        _generator.bit_generator.state = state
        raise


def on_set_seed(listener: Callable[[int], None]) -> None:
    """Call ``listener(seed)`` at every ``set_seed``."""
    _listeners.append(listener)


# ------------------------------------------------------------------------- the ops' generator

_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)  # golden ratio, square root of 3
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_CHUNK = 2**14  # blocks at a time, for the cache of the processor


def philox(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Philox 4x32-10: counters (4, n) under one key (2, 1) to blocks of four words (4, n).

    All are arrays of uint64 that hold 32-bit words, since products need the upper half.
    """
    even, odd = counter[0::2], counter[1::2]
    for _ in range(10):
        product = _MULTIPLIERS * even
        even, odd = (product >> _HALF)[::-1] ^ odd ^ key, (product & _LOW)[::-1]
        key = (key + _WEYL) & _LOW
    return np.stack([even[0], odd[0], even[1], odd[1]])


def random_words(state: np.ndarray, n: int) -> np.ndarray:
    """`n` words of 32 random bits: a pure function of the state ``[seed, draw]``."""
    seed, draw = np.stack([state & _LOW, state >> _HALF], 1)
    blocks = np.empty((-(-n // 4), 4), np.uint64)
    for start in range(0, len(blocks), _CHUNK):
        number = np.arange(start, min(start + _CHUNK, len(blocks)), dtype=np.uint64)
        counter = np.empty((4, len(number)), np.uint64)
        counter[0], counter[1], counter[2:] = number & _LOW, number >> _HALF, draw[:, None]
        blocks[start : start + _CHUNK] = philox(counter, seed[:, None]).T
    return blocks.reshape(-1)[:n]


def random_bits(state: np.ndarray, shape: tuple[int, ...], width: int) -> np.ndarray:
    """Random integers of 32 or 64 bits, as uint64."""
    words = random_words(state, math.prod(shape) * width // 32)
    bits = words if width == 32 else words[0::2] | words[1::2] << _HALF
    return bits.reshape(shape)


def random_unit(state: np.ndarray, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Random multiples of 2**-digits in [0, 1): all that `dtype` holds at equal distances."""
    width, digits = 64 if dtype is float64 else 32, DIGITS[dtype]
    exact = random_bits(state, shape, width) >> np.uint64(width - digits)
    return (exact * 2.0**-digits).astype(dtype.numpy)
