"""Products of matrices by BLAS, against NumPy in float64."""

import json
import subprocess
import sys

import numpy as np
import pytest
from kernels import call

from minispore.engine import blas, cache
from minispore.engine.blas import Operand, matmul, stored

TOLERANCE = {"f4": 2e-6, "f8": 1e-14}
DTYPES = {"f4": np.float32, "f8": np.float64}


@pytest.fixture(params=range(3), ids=["whole", "blocks, turned", "wide blocks, by rows"])
def way(request, monkeypatch):
    """Each way to multiply, whatever the sizes; the second name is that if B is transposed."""
    monkeypatch.setattr(blas, "_SMALL", 0)
    monkeypatch.setattr(blas, "_choice", lambda _, ways, dtype: min(request.param, len(ways) - 1))


def matrices(kind, *shapes):
    rng = np.random.default_rng(len(shapes))
    return [rng.standard_normal(shape).astype(DTYPES[kind]) for shape in shapes]


def run(made, c, a, b):
    part(made, c, a, b, 0, made.work)
    return c


def part(made, c, a, b, lo, hi):
    scratch = np.full(made.scratch, np.nan, c.dtype)
    call(cache.kernel(made.source), [c, a, b, scratch], [0, 1, 2, *made.words, 3], lo, hi)


def assert_close(kind, actual, expected, terms):
    scale = max(np.abs(expected).max(initial=0), 1) * max(terms, 1) ** 0.5
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE[kind] * scale)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_transposes_and_sizes(way, kind, ta, tb):
    sizes = [(1, 1, 1), (1, 5, 3), (4, 1, 7), (3, 4, 1), (64, 64, 64), (65, 129, 193)]
    for m, n, k in [*sizes, (130, 70, 300)]:
        a, b = matrices(kind, (k, m) if ta else (m, k), (n, k) if tb else (k, n))
        c = np.full((m, n), np.nan, DTYPES[kind])
        made = matmul(kind, (m, n, k), stored(a.shape, ta), stored(b.shape, tb), stored(c.shape))
        expected = (a.T if ta else a).astype(float) @ (b.T if tb else b)
        assert_close(kind, run(made, c, a, b), expected, k)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("tb", [False, True])
def test_adding_to_what_is_there(way, kind, tb):
    a, b, c = matrices(kind, (70, 200), (90, 200) if tb else (200, 90), (70, 90))
    expected = c + a.astype(float) @ (b.T if tb else b)
    lies = stored(a.shape), stored(b.shape, tb), stored(c.shape)
    made = matmul(kind, (70, 90, 200), *lies, adds=True)
    assert_close(kind, run(made, c, a, b), expected, 200)


def test_nothing_to_add_up_gives_zeros(way):
    for m, n, k in [(3, 4, 0), (0, 4, 2), (3, 0, 2)]:
        a, b = np.zeros((m, k), np.float32), np.zeros((k, n), np.float32)
        c = np.full((m, n), np.nan, np.float32)
        made = matmul("f4", (m, n, k), *map(stored, (a.shape, b.shape, c.shape)))
        assert (run(made, c, a, b) == 0).all()


def test_the_heads_of_attention(way):
    """q k' and then a v for each head of each sequence, as they lie in (batch, time, head, d)."""
    batch, time, heads, d = 3, 33, 4, 16
    q, k, v = matrices("f4", *[(batch, time, heads, d)] * 3)
    row, sequence = heads * d, time * heads * d
    scores = np.zeros((batch, heads, time, time), np.float32)
    lies = Operand((row, 1), batch=(sequence, d))
    there = Operand((time, 1), batch=(heads * time * time, time * time))
    turned = Operand((1, row), batch=(sequence, d))
    made = matmul("f4", (time, time, d), lies, turned, there, (batch, heads))
    run(made, scores, q, k)
    expected = np.einsum("bihd,bjhd->bhij", q.astype(float), k)
    assert_close("f4", scores, expected, d)
    out = np.zeros((batch, time, heads, d), np.float32)
    run(matmul("f4", (time, d, time), there, lies, lies, (batch, heads)), out, scores, v)
    assert_close("f4", out, np.einsum("bhij,bjhd->bihd", expected, v), time)


def test_a_part_of_a_matrix():
    a, b = matrices("f8", (10, 20), (6, 30))
    c = np.zeros((12, 12))
    made = matmul(
        "f8", (4, 5, 6), Operand((20, 1), 3 * 20 + 7), Operand((30, 1), 11), Operand((12, 1), 25)
    )
    run(made, c, a, b)
    expected = np.zeros((12, 12))
    expected[2:6, 1:6] = a[3:7, 7:13] @ b[:, 11:16]
    np.testing.assert_allclose(c, expected, rtol=1e-12)


@pytest.mark.parametrize("tb", [False, True])
def test_units_of_work_are_independent(way, tb):
    a, b = matrices("f4", (200, 64), (80, 64) if tb else (64, 80))
    c = np.zeros((200, 80), np.float32)
    made = matmul("f4", (200, 80, 64), stored(a.shape), stored(b.shape, tb), stored(c.shape))
    for unit in reversed(range(made.work)):
        part(made, c, a, b, unit, unit + 1)
    assert_close("f4", c, a.astype(float) @ (b.T if tb else b), 64)


@pytest.mark.parametrize(
    ("operand", "error"),
    [
        (Operand((8, 2)), ValueError),  # every second column
        (Operand((2, 1)), ValueError),  # rows that overlap
        (Operand((0, 1)), ValueError),  # one row again and again
        (Operand((2**31, 1)), OverflowError),
    ],
)
def test_what_blas_cannot_read(operand, error):
    with pytest.raises(error, match="BLAS"):
        matmul("f4", (4, 4, 4), operand, stored((4, 4)), stored((4, 4)))
    with pytest.raises(ValueError, match="transposed"):
        matmul("f4", (4, 4, 4), stored((4, 4)), stored((4, 4)), Operand((1, 4)))


# ------------------------------------------------------------------------------- the choice


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("MINISPORE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(blas, "_choices", {})
    return tmp_path


def planned():
    return matmul("f4", (128, 128, 128), *[stored((128, 128))] * 3)


def test_the_choice_is_made_once_and_kept(place, monkeypatch):
    planned()
    (file,) = place.glob("products-*.json")
    (number,) = json.loads(file.read_text()).values()
    monkeypatch.setattr(blas, "_fastest", lambda *_: pytest.fail("timed again"))
    assert planned() == planned()
    monkeypatch.setattr(blas, "_choices", {})
    for other in range(len(blas._BLOCKS) + 1):  # the file decides
        file.write_text(file.read_text().replace(f": {number}", f": {other}"))
        number = other
        blas._choices.clear()
        assert planned().words[9:12] == ((128, 128, 128), *blas._BLOCKS)[other]


@pytest.mark.parametrize("text", ["", "{", "[]", "\0", '{"f4": 7}'])
def test_a_broken_file_of_choices(place, text):
    blas._file().write_text(text)
    planned()
    assert len(json.loads(blas._file().read_text())) == 1


def test_without_a_place_to_keep_choices(monkeypatch):
    monkeypatch.setattr(blas, "_choices", {})
    monkeypatch.setattr(cache, "folder", lambda: None)
    assert planned() == planned()


def test_small_and_large_products_are_not_timed(monkeypatch):
    monkeypatch.setattr(blas, "_choice", lambda *_: pytest.fail("timed"))
    for n in (64, 2000):
        matmul("f4", (n, n, n), *[stored((n, n))] * 3)
    matmul("f4", (2000, 2000, 2000), stored((2000, 2000)), stored((2000, 2000), True),
           stored((2000, 2000)))  # fmt: skip


def test_scipy_is_whole_for_others():
    """Its BLAS is loaded without scipy.linalg, which can be imported later."""
    code = """
import sys
from minispore.engine import blas
assert blas.address("sgemm") != blas.address("dgemm") and "scipy.linalg" not in sys.modules
import numpy, scipy.linalg.cython_blas
assert scipy.linalg.cython_blas.__pyx_capi__ and scipy.linalg.inv(numpy.eye(2))[1, 1] == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)
