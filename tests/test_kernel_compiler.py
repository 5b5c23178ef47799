"""The compiler of kernels: the same text as plain Python, by our compiler and by Numba."""

import ast

import numpy as np
import pytest
from kernels import HEAD, KINDS, call

from minispore.engine import cache
from minispore.engine.kernels.by_numba import compiled
from minispore.engine.kernels.compiler import Unsupported, llvm_module

# Each kernel reads a, b (float32), i, j (int32) and writes f (float32) and n (int64).
BODIES = {
    "arithmetic": """
    for k in range(lo, hi):
        f[k] = -a[k] * b[k] + a[k] / b[k] - f4(0.5) + abs(b[k])
        n[k] = i8(i[k]) * i[k] + (i[k] - j[k]) * 3 + (~i[k] ^ j[k] & 6 | 1)
        n[k] += (j[k] << 2) + (i[k] >> 1) - (+i[k])
""",
    "floor division": """
    for k in range(lo, hi):
        n[k] = i[k] // j[k] * 100 + i[k] % j[k]
        f[k] = f4(i[k] / (j[k] * 0 + 4))
""",
    "kinds": """
    for k in range(lo, hi):
        x = f8(a[k]) * 3
        f[k] = x
        n[k] = i4(b[k]) + (a[k] < b[k]) + u1(i[k] & 1) + i8(a[k] > 0)
""",
    "choices": """
    for k in range(lo, hi):
        f[k] = a[k] if a[k] > b[k] and not i[k] == 3 else (b[k] if i[k] < j[k] or b[k] < 0 else 1)
        n[k] = 5 if -2 < i[k] <= 4 else min(i8(i[k]), 7) + max(j[k], i[k])
""",
    "guards": """
    for k in range(lo, hi):
        f[k] = a[k + 2] if k + 2 < hi else f4(-1)
        n[k] = 1 if k >= 3 and i[k - 3] > 0 else (2 if k < 3 or j[k - 3] > 0 else 3)
""",
    "branches": """
    for k in range(lo, hi):
        f[k] = 0
        if i[k] > 2:
            f[k] += a[k]
            n[k] = 1
        elif i[k] > 0:
            n[k] = 2
        else:
            n[k] = 3
        if j[k] > 0:
            f[k] *= b[k]
""",
    "loops": """
    total, count = f4(0), 0
    for k in range(hi - 1, lo - 1, -1):
        total = total + a[k]
        f[k] = total
    step = 3
    for k in range(lo, hi):
        n[k] = 0
    for k in range(lo, hi, step):
        count += 1
        n[k] = count
    k = lo
    while k < hi:
        if i[k] < 0:
            k += 1
            continue
        if count > 40:
            break
        count = count + i[k]
        n[k] += count
        k += 1
""",
    "functions": """
    for k in range(lo, hi):
        f[k] = maximum(fabs(a[k]), sqrt(abs(b[k]))) + floor(a[k]) - ceil(b[k]) + trunc(a[k])
        f[k] += np.sqrt(np.abs(a[k])) + maximum(a[k], b[k]) - minimum(a[k], b[k]) * rint(b[k])
        n[k] = i8(copysign(2, b[k])) + i8(np.floor(a[k])) + (isfinite_f4(a[k]) and exp_f4(b[k]) > 1)
""",
    "early return": """
    for k in range(lo, hi):
        f[k] = a[k]
        n[k] = worker
        if k == 5:
            return
""",
}
START = "".join(
    f"    {name} = p_{kind}(slots[{slot}])\n"
    for slot, (name, kind) in enumerate({"a": "f4", "b": "f4", "i": "i4", "j": "i4", "f": "f4",
                                         "n": "i8"}.items())
)  # fmt: skip


def source_of(body):
    return f"{HEAD}def kernel(slots, args, lo, hi, worker):\n    '''Text.'''\n{START}{body}"


def made(source):
    """The function that a text defines, and its syntax tree."""
    tree = ast.parse(source)
    namespace = {}
    exec(compile(tree, "<test>", "exec"), namespace)
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef))
    return namespace[function.name], function


@pytest.fixture
def arrays():
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 4, (2, 37)).astype(np.float32)
    i, j = rng.integers(-6, 7, (2, 37)).astype(np.int32)
    j[j == 0] = 5
    return [a, b, i, j, np.zeros(37, np.float32), np.zeros(37, np.int64)]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_kernel_is_what_python_does(body, arrays):
    source = source_of(body)
    function, _ = made(source)
    ways = {
        "python": lambda slots, args: function(slots, args, 0, 37, 2),
        "own": cache.kernel(source),
        "numba": compiled(function, ["contract"]),
    }
    results = {}
    for name, way in ways.items():
        for out in arrays[4:]:
            out[:] = 0
        if callable(way):
            way(np.array([x.ctypes.data for x in arrays]), np.zeros(1, np.int64))
        else:
            call(way, arrays, [0], 0, 37, worker=2)
        results[name] = [x.copy() for x in arrays[4:]]
    for name in ("own", "numba"):
        np.testing.assert_allclose(results[name][0], results["python"][0], rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(results[name][1], results["python"][1])


def test_integers_wrap_around_and_do_not_trap():
    least = np.iinfo(np.int32).min
    arrays = [np.array([least, 7, 2**30], np.int32), np.array([-1, 0, 4], np.int32)]
    out = np.zeros((3, 3), np.int32)
    call(
        cache.kernel(f"""{HEAD}
def kernel(slots, args, lo, hi, worker):
    i, j, out = p_i4(slots[0]), p_i4(slots[1]), p_i4(slots[2])
    for k in range(3):
        out[k] = i[k] // j[k]
        out[3 + k] = i[k] % j[k]
        out[6 + k] = i[k] * j[k]
"""),
        [*arrays, out],
    )
    assert out.tolist() == [[least, 0, 2**28], [0, 0, 0], [least, 0, 0]]


def test_sums_become_vector_code_if_their_order_is_free():
    x = np.random.default_rng(0).random(10_000).astype(np.float32)
    for line in ("s += x[i]", "s = plus(s, x[i])"):
        out = np.zeros(1, np.float32)
        call(cache.kernel(f"""{HEAD}
def kernel(slots, args, lo, hi, worker):
    x, out = p_f4(slots[0]), p_f4(slots[1])
    s = f4(0)
    for i in range(lo, hi):
        {line}
    out[0] = s
"""), [x, out], hi=x.size)  # fmt: skip
        assert out[0] == pytest.approx(x.astype(float).sum(), rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_pointers_read_and_write(kind):
    x = np.arange(5).astype(KINDS[kind])
    out = np.zeros_like(x)
    source = f"""{HEAD}
def kernel(slots, args, lo, hi, worker):
    x, out = p_{kind}(slots[0]), p_{kind}(slots[1])
    for i in range(args[0]):
        out[args[0] - 1 - i] = x[i]
"""
    call(cache.kernel(source), [x, out], [5])
    assert out.tolist() == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("x = [1, 2]", "List"),
        ("x = nowhere + 1", "nowhere"),
        ("x = f4(1)\n    if lo > 0:\n        x = f8(2)", "'x' is a f4 and then a f8"),
        ("x = f4(1) // f4(2)", "FloorDiv of f4"),
        ("x = slots + 1", "do not mix"),
        ("x = lo[0]", "no pointer"),
        ("x = scale_f4(f4(1))", "nowhere"),
        ("x = vector.scale_f4(f4(1))", "2 arguments"),
        ("x = vector.exp_f4(f4(1), f4(2))", "1 arguments"),
        ("x = max(lo, hi, worker)", "call"),
        ("x = f4(x=1)", "keywords"),
        ("for x in (1, 2):\n        pass", "range"),
        ("while lo < hi:\n        pass\n    else:\n        pass", "else"),
        ("x = lo is hi", "Is"),
        ("x = f8(1) ** lo", "Pow"),
        ("x = vector", "no number"),
        ("lo.x = 1", "Attribute"),
        ("with lo:\n        pass", "With"),
    ],
)
def test_what_is_not_in_the_language(body, words):
    function, tree = made(f"{HEAD}def kernel(slots, args, lo, hi, worker):\n    {body}\n")
    with pytest.raises(Unsupported) as error:
        llvm_module(function, tree, "k", ())
    assert words == "nowhere" or words in str(error.value)


def test_what_is_not_in_the_language_goes_to_numba():
    out = np.zeros(3, np.int64)
    source = f"""{HEAD}
def kernel(slots, args, lo, hi, worker):
    out = p_i8(slots[0])
    for i in (0, 1, 2):
        out[i] = 5 * i
"""
    call(cache.kernel(source), [out])
    assert out.tolist() == [0, 5, 10]
