"""Elementary functions for kernels, written so that LLVM makes vector code of a loop over them.

Each states its largest error in ulp (units in the last place of the result), which
tests/test_vector_math.py checks over the whole range; nan, infinities, signed zeros and subnormal
numbers come out as in NumPy.  They hold no branch: both sides of a choice are computed.  For
float32, functions that are seldom used are computed in float64 and rounded: half as fast, but
exact in almost all cases (0.51 ulp).  For float64, what says "C library" is a call per element.

The coefficients are minimax fits (Remez) of our own.
"""

# ruff: noqa: F403, F405

from __future__ import annotations

from minispore.engine.kernels.half import *  # kernels find all words here
from minispore.engine.kernels.words import *

_INF, _NAN = f4(np.inf), f4(np.nan)
_ONE, _HALF, _TWO = f4(1), f4(0.5), f4(2)
_INF8, _NAN8 = f8(np.inf), f8(np.nan)
_ONE8, _HALF8, _TWO8 = f8(1), f8(0.5), f8(2)

# ------------------------------------------------------------------------------- exponentials

# Adding 1.5 * 2**23 leaves the nearest integer in a float32's last bits.
_ROUND, _ROUND_BITS = f4(1.5 * 2**23), i4(0x4B400000)
_LOG2_E = f4(1.44269504)
_LN2_HIGH, _LN2_LOW = f4(0.693359375), f4(-2.12194440e-4)  # n * high is exact
_EXP = polynomial(
    "f4", 1, 1, 0.49999994, 0.166665167, 0.0416681021, 0.00836919248, 0.00138389017
)  # fmt: skip
_EXPM1 = polynomial(
    "f4", 0.5, 0.166666657, 0.0416664667, 0.0083336439, 0.00139350712, 0.000196634035
)  # fmt: skip

_ROUND8, _ROUND8_BITS = f8(1.5 * 2**52), i8(0x4338000000000000)
_LOG2_E8 = f8(1.4426950408889634)
_LN2_HIGH8, _LN2_LOW8 = f8(0.6931471805592082), f8(7.371002565167799e-13)
_EXP8 = polynomial(
    "f8", 1, 1, 0.5, 0.16666666666661953, 0.041666666666619924, 0.008333333336530602,
    0.0013888888920535734, 0.0001984126266869286, 2.4801516308041746e-05, 2.7563859759751687e-06,
    2.7622246482942e-07, 2.2976210369286242e-08,
)  # fmt: skip
_EXPM18 = polynomial(
    "f8", 0.16666666666666677, 0.0416666666666664, 0.008333333333320925, 0.0013888888888683314,
    0.00019841269889856494, 2.4801588334977624e-05, 2.7557238679909316e-06, 2.7555986844602676e-07,
    2.511146818678177e-08, 2.1416592907013426e-09,
)  # fmt: skip


def _halvings_f4(x):
    """An integer n and the rest r of x = n log(2) + r, x at most 89 and |r| <= log(2) / 2."""
    x = f4(89) if x > f4(89) else x
    t = x * _LOG2_E + _ROUND
    n = t - _ROUND
    r = x - n * _LN2_HIGH
    return bits_f4(t) - _ROUND_BITS, r - n * _LN2_LOW


def _halvings_f8(x):
    """The same for float64, x at most 710."""
    x = f8(710) if x > f8(710) else x
    t = x * _LOG2_E8 + _ROUND8
    n = t - _ROUND8
    r = x - n * _LN2_HIGH8
    return i4(bits_f8(t) - _ROUND8_BITS), r - n * _LN2_LOW8


def exp_f4(x):
    """e**x: 1.2 ulp.

    Where it is 0, 1 is computed: numbers below the smallest slow the CPU down.
    """
    none = x < f4(-103.98)
    n, r = _halvings_f4(f4(0) if none else x)
    return f4(0) if none else scale_f4(_EXP(r), n)


def exp_f8(x):
    """e**x: 1.3 ulp."""
    none = x < f8(-745.14)
    n, r = _halvings_f8(f8(0) if none else x)
    return f8(0) if none else scale_f8(_EXP8(r), n)


def expm1_f4(x):
    """e**x - 1: 1.5 ulp.

    2**n p + (2**n - 1) with p = e**r - 1, computed in halves lest 2**128 overflows.
    """
    n, r = _halvings_f4(f4(-20) if x < f4(-20) else x)
    p = r * r * _EXPM1(r) + r
    h = scale_f4(_HALF, n)
    return x if x == f4(0) else _TWO * (h * p + (h - _HALF))


def expm1_f8(x):
    """e**x - 1: 2 ulp."""
    n, r = _halvings_f8(f8(-40) if x < f8(-40) else x)
    s = r * r
    p = s * (r * _EXPM18(r) + _HALF8) + r
    h = scale_f8(_HALF8, n)
    return x if x == f8(0) else _TWO8 * (h * p + (h - _HALF8))


def sigmoid_f4(x):
    """1 / (1 + e**-x): 2.5 ulp.  For x < 0 it is e**x / (1 + e**x), which does not overflow."""
    e = exp_f4(-fabs(x))
    return (e if x < f4(0) else _ONE) / (_ONE + e)


def sigmoid_f8(x):
    """1 / (1 + e**-x): 2.5 ulp."""
    e = exp_f8(-fabs(x))
    return (e if x < f8(0) else _ONE8) / (_ONE8 + e)


def sinh_f4(x):
    """sinh(x): 0.51 ulp."""
    a = f8(fabs(x))
    e = expm1_f8(f8(100) if a > f8(100) else a)
    return copysign(f4(_HALF8 * (e + e / (e + _ONE8))), x)


def cosh_f4(x):
    """cosh(x): 0.51 ulp."""
    e = exp_f8(f8(x))
    return f4(_HALF8 * (e + _ONE8 / e))


def sinh_f8(x):
    """sinh(x) by the C library."""
    return c_sinh(x)


def cosh_f8(x):
    """cosh(x) by the C library."""
    return c_cosh(x)


_TANH_P = polynomial(
    "f4", 0.9999999772026478, 0.13374470957673076, 3.487806034113982e-3, 2.0481105663988836e-5,
    1.3177414978511323e-8,
)  # fmt: skip
_TANH_Q = polynomial(
    "f4", 1, 0.4670778473870301, 2.584736946506971e-2, 3.272912035882283e-4, 7.704001019156192e-7
)  # fmt: skip


def tanh_f4(x):
    """tanh(x): 5.5 ulp, at most 1; a quotient of polynomials in x**2.

    From 9.3 on it is exactly 1: there the quotient is above 1, however it is rounded.
    """
    c = f4(-9.3) if x < f4(-9.3) else x
    c = f4(9.3) if c > f4(9.3) else c
    s = c * c
    y = c * _TANH_P(s) / _TANH_Q(s)
    y = _ONE if y > _ONE else y
    return -_ONE if y < -_ONE else y


def tanh_f8(x):
    """tanh(x): 3 ulp."""
    a = fabs(x)
    t = expm1_f8(_TWO8 * (f8(22) if a > f8(22) else a))
    return copysign(t / (t + _TWO8), x)


# ------------------------------------------------------------------------------- logarithms

_SQRT_HALF_BITS, _SQRT_HALF_BITS8 = i4(0x3F3504F3), i8(0x3FE6A09E667F3BCD)
_LN2_HIGH_LOG, _LN2_LOW_LOG = f4(0.693359375), f4(-2.12194440e-4)
_LOG = polynomial(
    "f4", 0.333333135, -0.250001669, 0.200022221, -0.16659373, 0.142096385, -0.12549679,
    0.121072873, -0.109163694, 0.053470064,
)  # fmt: skip
_LOG8 = polynomial(
    "f8", 0.6666666666666666, 0.4000000000000492, 0.28571428569412033, 0.22222222606889067,
    0.18181778356841397, 0.1538698898183173, 0.13252141348077576, 0.13234868030775046,
)  # fmt: skip


def _parts_f4(x):
    """n and m with x = 2**n m and m from sqrt(1/2) to sqrt(2), of a normal x > 0."""
    n = (bits_f4(x) - _SQRT_HALF_BITS) >> i4(23)
    return n, from_bits_f4(bits_f4(x) - (n << i4(23)))


def _parts_f8(x):
    """The same for float64."""
    n = (bits_f8(x) - _SQRT_HALF_BITS8) >> i8(52)
    return i4(n), from_bits_f8(bits_f8(x) - (n << i8(52)))


def _log_sum_f4(n, f):
    """n log(2) + log(1 + f)."""
    s = f * f
    p = f * s * _LOG(f) + n * _LN2_LOW
    p = p - _HALF * s
    return (f + p) + n * _LN2_HIGH


def _log_sum_f8(n, f):
    """n log(2) + log(1 + f): log(1 + f) = 2 atanh(s) = f - s (f - R(s**2))."""
    s = f / (_TWO8 + f)
    z = s * s
    h = _HALF8 * f * f
    p = s * (h + z * _LOG8(z)) + n * _LN2_LOW8
    return n * _LN2_HIGH8 + (f - (h - p))


def log_f4(x):
    """log(x): 1 ulp; -inf at 0, nan below."""
    small = x < f4(1.17549435e-38)  # a subnormal number is scaled up first
    n, m = _parts_f4(x * f4(2**24) if small else x)
    y = _log_sum_f4(f4(n) - (f4(24) if small else f4(0)), m - _ONE)
    y = _INF if x == _INF else y
    y = -_INF if x == f4(0) else y
    return y if x >= f4(0) else _NAN


def log_f8(x):
    """log(x): 1 ulp; -inf at 0, nan below."""
    small = x < f8(2.2250738585072014e-308)
    n, m = _parts_f8(x * f8(2**54) if small else x)
    y = _log_sum_f8(f8(n) - (f8(54) if small else f8(0)), m - _ONE8)
    y = _INF8 if x == _INF8 else y
    y = -_INF8 if x == f8(0) else y
    return y if x >= f8(0) else _NAN8


def log1p_f4(x):
    """log(1 + x): 1.5 ulp.  What 1 + x loses by rounding goes into f of 2**n (1 + f)."""
    u = _ONE + x
    n, m = _parts_f4(u)
    f = (m - _ONE) + scale_f4(x - (u - _ONE), -n)
    y = _log_sum_f4(f4(n), f)
    y = x if x == f4(0) or x == _INF else y
    y = -_INF if x == -_ONE else y
    return y if x >= -_ONE else _NAN


def log1p_f8(x):
    """log(1 + x): 1.5 ulp."""
    u = _ONE8 + x
    n, m = _parts_f8(u)
    f = (m - _ONE8) + scale_f8(x - (u - _ONE8), -n)
    y = _log_sum_f8(f8(n), f)
    y = x if x == f8(0) or x == _INF8 else y
    y = -_INF8 if x == -_ONE8 else y
    return y if x >= -_ONE8 else _NAN8


def log2_f4(x):
    """The base-2 logarithm: 0.51 ulp."""
    return f4(log_f8(f8(x)) * _LOG2_E8)


def log10_f4(x):
    """The base-10 logarithm: 0.51 ulp."""
    return f4(log_f8(f8(x)) * f8(0.4342944819032518))


def log2_f8(x):
    """The base-2 logarithm by the C library."""
    return c_log2(x)


def log10_f8(x):
    """The base-10 logarithm by the C library."""
    return c_log10(x)


def asinh_f4(x):
    """The inverse of sinh: 0.51 ulp."""
    a = f8(fabs(x))
    s = a * a
    y = log1p_f8(a + s / (_ONE8 + sqrt(_ONE8 + s)))
    return copysign(f4(a if a == _INF8 else y), x)


def acosh_f4(x):
    """The inverse of cosh: 0.51 ulp; nan below 1."""
    t = f8(x) - _ONE8 if x >= _ONE else _NAN8
    return f4(log1p_f8(t + sqrt(t * (t + _TWO8))))


def atanh_f4(x):
    """The inverse of tanh: 0.51 ulp; nan beyond -1 and 1."""
    a = f8(fabs(x))
    return copysign(f4(_HALF8 * log1p_f8(_TWO8 * a / (_ONE8 - a))), x)


def asinh_f8(x):
    """The inverse of sinh by the C library."""
    return c_asinh(x)


def acosh_f8(x):
    """The inverse of cosh by the C library."""
    return c_acosh(x)


def atanh_f8(x):
    """The inverse of tanh by the C library."""
    return c_atanh(x)


def pow_f4(x, y):
    """x**y: 0.51 ulp; all cases of nan, inf, 0 and negative x as in C."""
    a, b = f8(fabs(x)), f8(y)
    whole = rint(b) == b
    odd = whole and fabs(b) < f8(2**24) and rint(_HALF8 * b) != _HALF8 * b
    r = exp_f8(b * log_f8(a))
    r = -r if odd and copysign(_ONE, x) < f4(0) else r
    r = _NAN8 if x < f4(0) and not whole and a != _INF8 else r
    r = _ONE8 if fabs(b) == _INF8 and a == _ONE8 else r
    return f4(_ONE8 if x == _ONE or y == f4(0) else r)


def pow_f8(x, y):
    """x**y by the C library."""
    return c_pow(x, y)


# ------------------------------------------------------------------------------- angles

# 1 / (2 pi) in pieces of 29 bits: with the 24 bits of a float32 each product is exact.
_TURNS_0, _TURNS_1, _TURNS_2, _TURNS_3, _TURNS_4, _TURNS_5, _TURNS_6 = map(
    f8,
    (0.15915494272485375, 3.6704158115630214e-10, 5.690025167992954e-19, 1.4703036846932608e-27,
     2.5867171752090537e-36, 9.458140956031951e-46, 1.4708218444195795e-54),
)  # fmt: skip
_SIN = polynomial(
    "f8", -0.16666666640775812, 0.008333329302365586, -0.00019839311470186538,
    2.7181139875662228e-06,
)  # fmt: skip
_COS = polynomial(
    "f8", 1, -0.5, 0.04166666661945336, -0.001388888349683567, 2.479945930451802e-05,
    -2.720568419738049e-07,
)  # fmt: skip


def _but_whole(turns):
    return turns - rint(turns)


def _sin_and_cos(x):
    """sin(r), cos(r) in float64 and n, where x is n quarter turns and r, but for whole turns.

    Exact for all float32: each piece of the turns in x is, and whole turns are taken off each.
    """
    x = f8(x)
    a = _but_whole(x * _TURNS_0)
    b = _but_whole(x * _TURNS_1)
    c = _but_whole(x * _TURNS_2)
    d = _but_whole(x * _TURNS_3)
    e = _but_whole(x * _TURNS_4)
    g = _but_whole(x * _TURNS_5)
    h = _but_whole(x * _TURNS_6)
    n = rint(f8(4) * (a + b + c + d + e + g + h))
    r = f8(6.283185307179586) * ((a - f8(0.25) * n) + b + c + d + e + g + h)
    s = r * r
    return r * s * _SIN(s) + r, _COS(s), i4(n if n == n else f8(0))


def sin_f4(x):
    """sin(x): 0.51 ulp, however large x is."""
    s, c, n = _sin_and_cos(x)
    y = s if n & i4(1) == i4(0) else c
    y = y if n & i4(2) == i4(0) else -y
    return x if fabs(x) < f4(1e-4) else f4(y)


def cos_f4(x):
    """cos(x): 0.51 ulp, however large x is."""
    s, c, n = _sin_and_cos(x)
    y = c if n & i4(1) == i4(0) else s
    return f4(y if (n + i4(1)) & i4(2) == i4(0) else -y)


def tan_f4(x):
    """tan(x): 0.51 ulp, however large x is."""
    s, c, n = _sin_and_cos(x)
    even = n & i4(1) == i4(0)
    y = (s if even else -c) / (c if even else s)
    return x if fabs(x) < f4(1e-4) else f4(y)


def sin_f8(x):
    """sin(x) by the C library."""
    return c_sin(x)


def cos_f8(x):
    """cos(x) by the C library."""
    return c_cos(x)


def tan_f8(x):
    """tan(x) by the C library."""
    return c_tan(x)


_PI_HALF, _PI_HALF_LOW = f4(1.5707963705062866), f4(-4.371139e-08)
_PI, _PI_LOW = f4(3.1415927410125732), f4(-8.742278e-08)
_ATAN = polynomial(
    "f4", -0.333332986, 0.199985296, -0.142640144, 0.109508611, -0.0839920864, 0.0578789115,
    -0.031093616, 0.010866343, -0.00178216747,
)  # fmt: skip
_ASIN = polynomial(
    "f4", 0.166667521, 0.0749530941, 0.0454691537, 0.0241847411, 0.0421583988
)  # fmt: skip


def _atan_below_1(t):
    z = t * t
    return t * z * _ATAN(z) + t


def atan_f4(x):
    """The inverse of tan: 1.5 ulp."""
    a = fabs(x)
    p = _atan_below_1(_ONE / a if a > _ONE else a)
    p = _PI_HALF - (p - _PI_HALF_LOW) if a > _ONE else p
    return copysign(p, x)


def atan2_f4(y, x):
    """The angle of the point (x, y), from -pi to pi: 2.5 ulp."""
    a, b = fabs(x), fabs(y)
    steep = b > a
    t = (a if steep else b) / (b if steep else a)
    t = f4(0) if a == f4(0) and b == f4(0) else t
    t = _ONE if a == _INF and b == _INF else t
    p = _atan_below_1(t)
    p = _PI_HALF - (p - _PI_HALF_LOW) if steep else p
    p = _PI - (p - _PI_LOW) if copysign(_ONE, x) < f4(0) else p
    return copysign(p, y)


def _asin_parts(x):
    """asin(x) for |x| <= 1/2; (pi/2 - asin(|x|)) / 2 above."""
    a = fabs(x)
    z = _HALF * (_ONE - a) if a > _HALF else a * a
    s = sqrt(z) if a > _HALF else a
    return s * z * _ASIN(z) + s


def asin_f4(x):
    """The inverse of sin: 2.5 ulp; nan beyond -1 and 1."""
    p = _asin_parts(x)
    p = _PI_HALF - (_TWO * p - _PI_HALF_LOW) if fabs(x) > _HALF else p
    return copysign(p, x)


def acos_f4(x):
    """The inverse of cos: 1.5 ulp; nan beyond -1 and 1."""
    p = _asin_parts(x)
    inner = _PI_HALF - (copysign(p, x) - _PI_HALF_LOW)
    outer = _TWO * p if x > f4(0) else _PI - (_TWO * p - _PI_LOW)
    return outer if fabs(x) > _HALF else inner


def asin_f8(x):
    """The inverse of sin by the C library."""
    return c_asin(x)


def acos_f8(x):
    """The inverse of cos by the C library."""
    return c_acos(x)


def atan_f8(x):
    """The inverse of tan by the C library."""
    return c_atan(x)


def atan2_f8(y, x):
    """The angle of the point (x, y) by the C library."""
    return c_atan2(y, x)


# ------------------------------------------------------------------------------- division


def divisor_f4(w):
    """What quotient_f4 wants to know of w: a power of 2 with its sign, |w| times it, 1 / that."""
    a = fabs(w)
    s = f4(2**64) if a < f4(2**-64) else _ONE
    s = f4(2**-64) if a > f4(2**64) else s
    v = a * s
    return copysign(s, w), f4(0) if v == _INF else v, _ONE / v


def divisor_f8(w):
    """The same for float64."""
    a = fabs(w)
    s = f8(2.0**512) if a < f8(2.0**-512) else _ONE8
    s = f8(2.0**-512) if a > f8(2.0**512) else s
    v = a * s
    return copysign(s, w), f8(0) if v == _INF8 else v, _ONE8 / v


def quotient_f4(x, w, s, v, r):
    """x / w, rounded as a division is: the product with 1 / w, and what it leaves, divided again.

    For a w that is the same all through a loop: a division takes the time of 20 products.
    """
    y = x * s
    q = y * r
    better = fma(-fma(q, v, -y), r, q)
    q = better if fabs(q) < _INF else q
    return q if has_fma() else x / w


def quotient_f8(x, w, s, v, r):
    """The same for float64."""
    y = x * s
    q = y * r
    better = fma(-fma(q, v, -y), r, q)
    q = better if fabs(q) < _INF8 else q
    return q if has_fma() else x / w


# ------------------------------------------------------------------------------- others

_ERF_SMALL = polynomial(
    "f4", 0.128379166, -0.376126289, 0.112836257, -0.0268557314, 0.00519240508, -0.000804976968,
    7.99664995e-05,
)  # fmt: skip
_ERF_LARGE = polynomial(
    "f4", 0.12864849, 0.635151327, 0.106236845, -0.0237620194, 0.00364242983, -0.000322794251,
    1.12300695e-05,
)  # fmt: skip


def erf_f4(x):
    """The error function: 1.5 ulp; 1 - exp(-(a + a G(a))) for a = |x| from 0.93."""
    a = fabs(x)
    a = f4(3.95) if a > f4(3.95) else a
    large = copysign(_ONE - exp_f4(-(a * _ERF_LARGE(a) + a)), x)
    return x * _ERF_SMALL(a * a) + x if a < f4(0.93) else large


def erf_f8(x):
    """The error function by the C library."""
    return c_erf(x)


def erfc_f4(x):
    """1 less the error function by the C library, in Float64."""
    return f4(c_erfc(f8(x)))


def erfc_f8(x):
    """1 less the error function by the C library."""
    return c_erfc(x)


def rsqrt_f4(x):
    """1 / sqrt(x): 1.5 ulp."""
    return _ONE / sqrt(x)


def rsqrt_f8(x):
    """1 / sqrt(x): 1.5 ulp."""
    return _ONE8 / sqrt(x)


maximum_f4 = maximum_f8 = maximum
minimum_f4 = minimum_f8 = minimum
floor_f4 = floor_f8 = floor
ceil_f4 = ceil_f8 = ceil
trunc_f4 = trunc_f8 = trunc
round_f4 = round_f8 = rint


def sign_f4(x):
    """-1, 0 or 1; nan stays nan."""
    return copysign(_ONE, x) if fabs(x) > f4(0) else x + f4(0)


def sign_f8(x):
    """-1, 0 or 1; nan stays nan."""
    return copysign(_ONE8, x) if fabs(x) > f8(0) else x + f8(0)


def fmod_f4(x, y):
    """The remainder of x / y rounded towards 0, by the C library: exact."""
    return f4(c_fmod(f8(x), f8(y)))


def fmod_f8(x, y):
    """The remainder of x / y rounded towards 0, by the C library: exact."""
    return c_fmod(x, y)


def floormod_f8(x, y):
    """The remainder of x / y rounded down: it has the sign of y."""
    r = c_fmod(x, y)
    r = r + y if r != f8(0) and (r < f8(0)) != (y < f8(0)) else r
    return copysign(r, y) if r == f8(0) else r


def floormod_f4(x, y):
    """The remainder of x / y rounded down: it has the sign of y."""
    r = fmod_f4(x, y)
    r = r + y if r != f4(0) and (r < f4(0)) != (y < f4(0)) else r
    return copysign(r, y) if r == f4(0) else r


def floordiv_f8(x, y):
    """x / y rounded down, exactly; inf or nan if y is 0."""
    r = c_fmod(x, y)
    q = (x - r) / y - (_ONE8 if r != f8(0) and (r < f8(0)) != (y < f8(0)) else f8(0))
    whole = floor(q)
    whole = whole + _ONE8 if q - whole > _HALF8 else whole
    whole = whole if q != f8(0) else copysign(f8(0), x / y)
    return x / y if y == f8(0) else whole


def floordiv_f4(x, y):
    """x / y rounded down, exactly; inf or nan if y is 0."""
    r = fmod_f4(x, y)
    q = (x - r) / y - (_ONE if r != f4(0) and (r < f4(0)) != (y < f4(0)) else f4(0))
    whole = floor(q)
    whole = whole + _ONE if q - whole > _HALF else whole
    whole = whole if q != f4(0) else copysign(f4(0), x / y)
    return x / y if y == f4(0) else whole


def isinf_f4(x):
    """Whether x is inf or -inf."""
    return fabs(x) == _INF


def isinf_f8(x):
    """Whether x is inf or -inf."""
    return fabs(x) == _INF8


def isfinite_f4(x):
    """Whether x is neither nan nor infinite."""
    return fabs(x) < _INF


def isfinite_f8(x):
    """Whether x is neither nan nor infinite."""
    return fabs(x) < _INF8
