"""The generator once more, number by number in Python's ints: the reference of its tests.

Philox 4x32-10 as Salmon et al. define it (2011), and the draws that are made of its words.
"""

import math

import numpy as np

LOW = 0xFFFFFFFF


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Four words of 32 bits from a counter of four and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & LOW, p0 >> 32 ^ c3 ^ k1, p0 & LOW
        k0, k1 = k0 + 0x9E3779B9 & LOW, k1 + 0xBB67AE85 & LOW
    return [c0, c1, c2, c3]


def words(state: np.ndarray, n: int) -> list[int]:
    """The first n words of a draw."""
    seed, draw = map(int, state)
    found: list[int] = []
    while len(found) < n:
        block = len(found) // 4
        counter = [block & LOW, block >> 32, draw & LOW, draw >> 32]
        found += philox(counter, [seed & LOW, seed >> 32])
    return found[:n]


def bits64(state: np.ndarray, n: int) -> list[int]:
    """The first n integers of 64 bits of a draw, the low word of each first."""
    halves = words(state, 2 * n)
    return [low | high << 32 for low, high in zip(halves[0::2], halves[1::2], strict=True)]


def unit(state: np.ndarray, shape: tuple[int, ...], digits: int) -> np.ndarray:
    """Numbers in [0, 1) of so many binary digits."""
    n = math.prod(shape)
    source, width = (words(state, n), 32) if digits <= 32 else (bits64(state, n), 64)
    return np.array([(v >> width - digits) / 2**digits for v in source]).reshape(shape)


def normal(state: np.ndarray, shape: tuple[int, ...], digits: int) -> np.ndarray:
    """Box and Muller's transformation of pairs of numbers in [0, 1)."""
    n = math.prod(shape)
    u = unit(state, (n + n % 2,), digits).tolist()
    found = []
    for a, b in zip(u[0::2], u[1::2], strict=True):
        radius = math.sqrt(-2 * math.log(1 - a))
        found += [radius * math.cos(2 * math.pi * b), radius * math.sin(2 * math.pi * b)]
    return np.array(found[:n]).reshape(shape)


def integers(state: np.ndarray, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    """Integers from low up to and without high."""
    found = [low + v % (high - low) for v in bits64(state, math.prod(shape))]
    return np.array(found, np.int64).reshape(shape)
