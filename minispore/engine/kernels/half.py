"""Half floats: float16 (f2) and bfloat16 (b2), which kernels compute as float32.

    load_f2(bits)     the float32 of what is in memory: exact
    store_f2(x)       its bits in memory: rounded to the nearest, ties to even
    round_f2(x)       a float32 that a half float can hold

As in NumPy: too large is inf, too small is subnormal or 0 with its sign, and nan stays nan.
"""

# ruff: noqa: F403, F405

from __future__ import annotations

from minispore.engine import cpu
from minispore.engine.kernels.words import *

_INF_BITS = i4(0x7F800000)


def load_b2(bits):
    """A bfloat16 is the upper half of a float32."""
    return from_bits_f4(i4(bits) << i4(16))


def store_b2(x):
    """Half of the last place is added, less one bit if that place is even; a nan becomes quiet."""
    b = bits_f4(x)
    even = b if x != x else b + (i4(0x7FFF) + ((b >> i4(16)) & i4(1)))
    return i2((even >> i4(16)) | (i4(0x40) if x != x else i4(0)))


def round_b2(x):
    """The bfloat16 nearest to x."""
    return load_b2(store_b2(x))


def load_f2_by_integers(bits):
    """Exponent and mantissa are moved, then 2**112 makes up for the exponents' other bias."""
    b = i4(bits)
    size = b & i4(0x7FFF)
    scaled = bits_f4(from_bits_f4(size << i4(13)) * f4(2.0**112))
    special = (size << i4(13)) | _INF_BITS
    return from_bits_f4((special if size >= i4(0x7C00) else scaled) | ((b & i4(0x8000)) << i4(16)))


def store_f2_by_integers(x):
    """Adding 1/2 rounds what becomes subnormal; half of the last place rounds all else."""
    b = bits_f4(x) & i4(0x7FFFFFFF)
    small = bits_f4(from_bits_f4(b) + f4(0.5)) - i4(0x3F000000)
    normal = (b - i4(0x37FFF001) + ((b >> i4(13)) & i4(1))) >> i4(13)
    size = small if b < i4(0x38800000) else normal
    size = i4(0x7C00) if b >= i4(0x47800000) else size
    size = i4(0x7E00) if x != x else size
    return i2(size | ((bits_f4(x) >> i4(16)) & i4(0x8000)))


load_f2 = extended_f2 if cpu.has_float16() else load_f2_by_integers
store_f2 = truncated_f2 if cpu.has_float16() else store_f2_by_integers


def round_f2(x):
    """The float16 nearest to x."""
    return load_f2(store_f2(x))
