"""fastmath: laws of real numbers that floats keep only roughly (``jit(jit_level="O2")``).

Each is right, but for rounding, as long as all values, on the way too, are normal numbers or 0.
What is nan, inf or smaller than that may become anything, and -0.0 may become 0: ``x * 0 -> 0`` and
``x - x -> 0`` are wrong for nan and inf, ``x + 0 -> x`` for -0.0, ``sqrt(x)**2 -> x`` below 0.

Laws that make much of rounding are not here: ``(x + c) - c`` is how someone rounds x, so sums of
constants are merged only if they have one sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minispore import ops
from minispore.dims import same_shape
from minispore.passes.algebra import constants, inverse, negative, value_of
from minispore.passes.pattern import Rule, op
from minispore.passes.shapes import FAST_SHAPES


def _is_normal(values: np.ndarray) -> bool:
    """True if floats are neither 0 nor nan, inf, or so small that they lose digits."""
    if values.dtype.kind in "iu":
        return True
    wide = np.abs(values.astype(np.float64))
    half = values.dtype.itemsize == 2  # of both kinds, well inside
    return bool(np.all((wide > (6.2e-5 if half else 1.2e-38)) & (wide < (65504 if half else 3e38))))


def _is_invertible(c: Any) -> bool:
    """True for a float constant that is a normal number, as is its inverse."""
    value = value_of(c)
    with np.errstate(all="ignore"):
        return (
            value is not None and c.dtype.is_float and _is_normal(value) and _is_normal(1 / value)
        )


def _multiply(c: Any, d: Any) -> bool:
    """True for constants whose product is a normal number."""
    x, y = value_of(c), value_of(d)
    with np.errstate(all="ignore"):
        return x is not None and y is not None and _is_normal(x * y)


def _have_one_sign(c: Any, d: Any) -> bool:
    """True for constants whose sum is no smaller than each of them."""
    x, y = value_of(c), value_of(d)
    return x is not None and y is not None and bool(np.all((x < 0) == (y < 0)))


def _is_float(x: Any) -> bool:
    return x.dtype.is_float


def _is_precise(x: Any) -> bool:
    """True for floats of which a sum of exponents keeps enough digits for exp."""
    return x.dtype.is_float and x.dtype.itemsize > 2


def _is_spread(x: Any, y: Any, out: Any) -> bool:
    """True if x has the shape of the quotient, and y does not."""
    return (
        x.dtype.is_float and same_shape(x.shape, out.shape) and not same_shape(y.shape, out.shape)
    )


def _rule(
    name: str, law: str, pattern: Callable, replacement: Callable, when: Callable | None = None,
    alone: bool = False,
) -> Rule:  # fmt: skip
    return Rule(name, law, pattern, replacement, when, fastmath=True, alone=alone)


# fmt: off
ZEROS = (
    _rule("add_zero_fast", "x + 0 -> x", lambda x: x + 0, lambda x: x),
    _rule("zero_sub", "0 - x -> -x", lambda x: 0 - x, lambda x: -x),
    _rule("mul_zero_fast", "x * 0 -> 0", lambda x: x * 0, lambda out: ops.zeros_like(out)),
    _rule("sub_self_fast", "x - x -> 0", lambda x: x - x, lambda x: ops.zeros_like(x)),
    _rule("div_self", "x / x -> 1", lambda x: x / x, lambda x: ops.ones_like(x)),
    _rule("neg_sub_fast", "-(x - y) -> y - x", lambda x, y: ops.neg(x - y), lambda x, y: y - x),
)
CONSTANTS = (
    _rule("div_constant", "x / c -> x * (1 / c)", lambda x, c: x / c,
          lambda x, c: x * inverse(c), lambda c: _is_invertible(c)),
    _rule("div_by_fewer", "x / y -> x * (1 / y), if y is broadcast", lambda x, y: x / y,
          lambda x, y: x * (1 / y), _is_spread),
    _rule("sub_constant", "x - c -> x + (-c)", lambda x, c: x - c, lambda x, c: x + negative(c),
          lambda c: constants(c)),
    _rule("merge_factors", "(x * c) * d -> x * (c * d)", lambda x, c, d: (x * c) * d,
          lambda x, c, d: x * (c * d), _multiply),
    _rule("merge_terms", "(x + c) + d -> x + (c + d), if c and d have one sign",
          lambda x, c, d: (x + c) + d, lambda x, c, d: x + (c + d), _have_one_sign),
)
POWERS = (
    _rule("pow_two", "x ** 2 -> square(x)", lambda x: x**2, lambda x: ops.square(x)),
    _rule("pow_three", "x ** 3 -> square(x) * x", lambda x: x**3, lambda x: ops.square(x) * x),
    _rule("pow_four", "x ** 4 -> square(square(x))", lambda x: x**4,
          lambda x: ops.square(ops.square(x))),
    _rule("pow_minus_one", "x ** -1 -> 1 / x", lambda x: x**-1, lambda x: 1 / x, _is_float),
    _rule("pow_minus_two", "x ** -2 -> 1 / square(x)", lambda x: x**-2,
          lambda x: 1 / ops.square(x), _is_float),
    _rule("pow_half", "x ** 0.5 -> sqrt(x)", lambda x: x**0.5, lambda x: ops.sqrt(x)),
    _rule("pow_minus_half", "x ** -0.5 -> rsqrt(x)", lambda x: x**-0.5, lambda x: ops.rsqrt(x)),
)
INVERSES = (
    _rule("sqrt_times_sqrt", "sqrt(x) * sqrt(x) -> x", lambda x: ops.sqrt(x) * ops.sqrt(x),
          lambda x: x),
    _rule("square_of_sqrt", "square(sqrt(x)) -> x", lambda x: ops.square(ops.sqrt(x)),
          lambda x: x),
    _rule("sqrt_of_square", "sqrt(square(x)) -> abs(x)", lambda x: ops.sqrt(ops.square(x)),
          lambda x: ops.abs(x)),
    _rule("log_of_exp", "log(exp(x)) -> x", lambda x: ops.log(ops.exp(x)), lambda x: x),
    _rule("exp_of_log", "exp(log(x)) -> x", lambda x: ops.exp(ops.log(x)), lambda x: x),
    _rule("log_of_softmax", "log(softmax(x)) -> log_softmax(x)",
          lambda x, a: ops.log(op.Softmax(x, axis=a)), lambda x, a: ops.log_softmax(x, a)),
)
EXPONENTS = (
    _rule("exp_times_exp", "exp(x) * exp(y) -> exp(x + y)", lambda x, y: ops.exp(x) * ops.exp(y),
          lambda x, y: ops.exp(x + y), _is_precise, alone=True),
    _rule("exp_over_exp", "exp(x) / exp(y) -> exp(x - y)", lambda x, y: ops.exp(x) / ops.exp(y),
          lambda x, y: ops.exp(x - y), _is_precise, alone=True),
)
# fmt: on

FAST = (*ZEROS, *CONSTANTS, *POWERS, *INVERSES, *EXPONENTS, *FAST_SHAPES)
