"""Elementary functions of kernels: their error in ulp over the whole range, and special values.

All are also compiled for a CPU with AVX2 only, which takes other paths.
"""

import math
import platform
import re

import numpy as np
import pytest
from kernels import call, evaluate, forget, loop_source

from minispore.engine import cache
from minispore.engine.kernels import vector

BOUND = re.compile(r"(\d+\.\d+|\d+) ulp")
C_LIBRARY = 4.0  # ulp: more than what C libraries promise


def erf(x):
    from scipy.special import erf

    return erf(x.astype(np.float64))


def erfc(x):
    """By the C library: SciPy's is hundreds of ulp away where it is small."""
    return np.vectorize(math.erfc)(x.astype(np.float64))


REFERENCES = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2,
    "log10": np.log10, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": erf, "erfc": erfc,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
PAIRS = {"pow": np.power, "atan2": np.arctan2}
EXACT = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "isinf": np.isinf,
    "isfinite": np.isfinite, "sign": np.sign,
}  # fmt: skip
EXACT_PAIRS = {
    "maximum": np.maximum, "minimum": np.minimum, "fmod": np.fmod, "floormod": np.mod,
    "floordiv": np.floor_divide,
}  # fmt: skip
DTYPES = {"f4": np.float32, "f8": np.float64}
BITS = {"f4": (8, 23, np.uint32), "f8": (11, 52, np.uint64)}


@pytest.fixture(params=["this CPU", "haswell"], autouse=True)
def cpu(request, monkeypatch, tmp_path_factory):
    """Kernels for this CPU, and for one without AVX-512."""
    if request.param != "this CPU":
        if platform.machine() not in ("x86_64", "AMD64"):
            pytest.skip("no such CPU")
        monkeypatch.setenv("MINISPORE_CPU", request.param)
    forget()
    yield request.param
    monkeypatch.undo()
    forget()


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def numbers(kind, per_exponent):
    """Floats of every exponent and sign with random digits, many near 1, and all special ones."""
    exponent, digits, unsigned = BITS[kind]
    rng = np.random.default_rng(0)
    high = np.arange(2 ** (exponent + 1), dtype=unsigned) << unsigned(digits)
    low = rng.integers(0, 2**digits, (per_exponent, high.size), dtype=unsigned)
    near = [rng.uniform(-s, s, 30_000) for s in (1e-3, 0.7, 1.5, 10, 100, 1000)]
    special = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2]
    parts = [(high + low).view(DTYPES[kind]).ravel(), *near, special]
    return np.concatenate([np.asarray(p, DTYPES[kind]) for p in parts])


def errors(actual, expected):
    """The distance from values of higher precision, in ulp; kinds of values must agree."""
    dtype = actual.dtype
    rounded = expected.astype(dtype)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(rounded))
    finite = np.isfinite(rounded) & np.isfinite(actual)
    other = ~finite & ~np.isnan(rounded)
    # at the edge of overflow a neighbour of the largest number is as good
    edge = np.abs(expected[other]) / np.finfo(dtype).max
    agree = (actual[other] == rounded[other]) | (np.abs(edge - 1) < 4 * np.finfo(dtype).eps)
    assert agree.all()
    zero = finite & (actual == 0) & (rounded == 0)
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(rounded[zero]))
    true = expected[finite]
    info = np.finfo(dtype)
    exponent = np.maximum(np.frexp(np.abs(true))[1] - 1, info.minexp)
    ulp = np.ldexp(np.ones_like(true), exponent - info.nmant)
    return np.abs(actual[finite].astype(true.dtype) - true) / ulp


def stated_bound(name):
    function = getattr(vector, name)
    found = BOUND.search(function.__doc__)
    return float(found[1]) if found else C_LIBRARY


def higher(kind):
    """A dtype of higher precision."""
    if kind == "f4":
        return np.float64
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("there is no extended precision here")
    return np.longdouble


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("name", REFERENCES)
def test_functions_of_one_operand(name, kind):
    x = numbers(kind, 400 if kind == "f4" else 60)
    actual = evaluate(f"vector.{name}_{kind}(a[i])", x)
    expected = np.asarray(REFERENCES[name](x.astype(higher(kind))))
    bound = (
        C_LIBRARY if name in ("erf", "erfc") and kind == "f8" else stated_bound(f"{name}_{kind}")
    )
    assert errors(actual, expected).max() <= bound


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("name", [*PAIRS, *EXACT_PAIRS])
def test_functions_of_two_operands(name, kind):
    dtype, rng = DTYPES[kind], np.random.default_rng(1)
    special = [0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 2.5, np.inf, -np.inf, np.nan, 1e-30, -1e30]
    x, y = (g.ravel() for g in np.meshgrid(special, special))
    spread = np.exp(rng.uniform(-12, 12, (2, 100_000))) * rng.choice([1, 1, -1], (2, 100_000))
    near = np.array([rng.uniform(0, 3, 100_000), rng.uniform(-30, 30, 100_000)])
    whole = rng.integers(-20, 20, (2, 20_000))
    x, y = np.concatenate([[x, y], spread, near, whole], axis=1).astype(dtype)
    actual = evaluate(f"vector.{name}_{kind}(a[i], b[i])", x, y)
    if name in EXACT_PAIRS:
        expected = EXACT_PAIRS[name](x, y)
        np.testing.assert_array_equal(actual, expected)
        zero = (expected == 0) & (name not in ("maximum", "minimum"))  # of 0 and -0 any will do
        np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]))
        return
    expected = PAIRS[name](x.astype(higher(kind)), y.astype(higher(kind)))
    assert errors(actual, expected).max() <= stated_bound(f"{name}_{kind}")


def test_every_function_is_tested():
    made = {n[:-3] for n in vars(vector) if re.fullmatch(r"[a-z][a-z0-9]*_f[48]", n)}
    words = {"p", "bits", "scale", "gemm"}  # of words.py
    assert made - words - {"divisor", "quotient"} == {*REFERENCES, *PAIRS, *EXACT, *EXACT_PAIRS}


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions(name, kind):
    x = numbers(kind, 2)
    actual, expected = evaluate(f"vector.{name}_{kind}(a[i])", x), EXACT[name](x)
    np.testing.assert_array_equal(actual, expected)
    if expected.dtype == x.dtype:
        finite = ~np.isnan(x)
        np.testing.assert_array_equal(np.signbit(actual)[finite], np.signbit(expected)[finite])


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_quotients_by_reciprocals_are_exact(kind):
    """As a division rounds them, but for what is too small for an exact remainder."""
    rng = np.random.default_rng(2)
    w = numbers(kind, 1)
    x = rng.permutation(numbers(kind, 1))
    special = x[-10:]
    x, w = (np.concatenate(p) for p in ([x, x, np.tile(special, 10)], [w, x, special.repeat(10)]))
    source = loop_source(f"quotient_{kind}(a[i], b[i], s, v, r)", (kind, kind), kind)
    divisor = f"        s, v, r = divisor_{kind}(b[i])\n"
    source = source.replace("        out[i]", f"{divisor}        out[i]")
    actual, expected = np.empty_like(x), x / w
    call(cache.kernel(source), [x, w, actual], hi=x.size)
    tiny = np.finfo(x.dtype).tiny / np.finfo(x.dtype).eps
    inexact = (np.abs(x) < tiny) | (np.abs(expected) < tiny)
    np.testing.assert_array_equal(actual[~inexact], expected[~inexact])
    assert errors(actual[inexact], expected[inexact]).max() <= 1
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]))


def test_integers_divide_as_in_python():
    x, y = (g.ravel() for g in np.meshgrid(np.arange(-9, 10), np.arange(-4, 5)))
    least = np.iinfo(np.int32).min
    for dtype, kind in ((np.int32, "i4"), (np.int64, "i8")):
        a = np.concatenate([x, [least, np.iinfo(dtype).min]]).astype(dtype)
        b = np.concatenate([y, [-1, -1]]).astype(dtype)
        np.testing.assert_array_equal(evaluate("a[i] // b[i]", a, b), a // b, kind)
        np.testing.assert_array_equal(evaluate("a[i] % b[i]", a, b), a % b, kind)


def test_as_plain_python():
    """The same functions run on NumPy's scalars: for the debugger."""
    x = np.array([-3.7, -0.2, 0.0, 1e-3, 0.9, 4.2, 30, np.inf, np.nan], np.float32)
    for name in REFERENCES:
        plain = np.array([getattr(vector, f"{name}_f4")(v) for v in x], np.float32)
        np.testing.assert_allclose(evaluate(f"vector.{name}_f4(a[i])", x), plain, rtol=4e-7)
    assert math.isnan(vector.sin_f4(np.float32(np.inf)))
