"""Products of matrices by BLAS: SciPy's routines, called by their addresses.

``matmul`` plans one: the source of a kernel and the words of its argument block.  Transposed and
strided operands and batches of them (the heads of attention) are read where they lie; a result may
be added to what is there.

OpenBLAS multiplies small matrices without packing them first.  For some larger ones a loop over
blocks that are small in this sense is up to half as fast again, for others slower: that depends on
the CPU and the sizes.  It is slowest where B is transposed, as the weights of a Dense layer are:
then B can be turned first, or each element of C be computed as the product of two rows, by a kernel
of our own.  So these ways are timed, once for each size (a few ms), and the choice is kept beside
the kernels.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import numpy as np

from minispore.engine import cache, memory
from minispore.engine.layout import SIZES, View
from minispore.files import write_whole

_HEAD = '''
from minispore.engine.kernels.vector import {kind}, gemm_{kind}, p_{kind}, plus

def kernel(slots, args, lo, hi, worker):
    """Blocks of rows of C = A B, or of each of a batch of them; slots: C, A, B."""
    routine, ta, tb, m, n, k = args[3], args[4], args[5], args[6], args[7], args[8]
    lda, ldb, ldc, mb, nb, kb = args[9], args[10], args[11], args[12], args[13], args[14]
    adds, strips, inner = args[15], args[16], args[17]
    for unit in range(lo, hi):
        x, y, i = unit // strips // inner, unit // strips % inner, unit % strips * mb
        c = slots[args[0]] + {size} * (args[18] + args[19] * x + args[20] * y + i * ldc)
        a = slots[args[1]] + {size} * (args[21] + args[22] * x + args[23] * y)
        b = slots[args[2]] + {size} * (args[24] + args[25] * x + args[26] * y)
'''
_AS_IT_IS = """        turns, step = tb, ldb
"""
_TURNED = """        turned, turns, step = slots[args[27]], 0, n
        if i == 0 or unit == lo:
            for j in range(0, n, 16):
                for p in range(k):
                    x_at = p_{kind}(b + {size} * (j * ldb + p))
                    y_at = p_{kind}(turned + {size} * (p * n + j))
                    for q in range(min(16, n - j)):
                        y_at[q] = x_at[q * ldb]
        b = turned
"""
_BY_BLAS = """        for j in range(0, n, nb):
            for p in range(0, max(k, 1), kb):
                a_at = a + {size} * (p * lda + i if ta != 0 else i * lda + p)
                b_at = b + {size} * (j * step + p if turns != 0 else p * step + j)
                beta = {kind}(1) if p > 0 or adds != 0 else {kind}(0)
                gemm_{kind}(routine, ta, turns, min(mb, m - i), min(nb, n - j), min(kb, k - p),
                            a_at, lda, b_at, step, beta, c + {size} * j, ldc)
"""
_TILE = (4, 6)  # elements of C that are computed at once, in registers
_ROUTINES = {"f4": "sgemm", "f8": "dgemm"}
_BLOCKS = ((64, 64, 192), (64, 512, 64))  # of rows, columns and terms
_SMALL, _LARGE = 1e6, 3e7  # multiplications: blocks are tried in between
_GAIN = 1.08  # that is worth them


def _by_rows() -> str:
    """The rest of a kernel that computes elements of C as products of rows of A and of B.

    At the edges a tile computes its last row or column again.
    """
    rows, columns = map(range, _TILE)
    tile = [(i, j) for i in rows for j in columns]
    lines = [f"for j in range(0, n, {len(columns)}):"]
    lines += [f"    j{j} = min(j + {j}, n - 1)" for j in columns]
    lines += [f"    b{j} = p_{{kind}}(b + {{size}} * j{j} * ldb)" for j in columns]
    lines += [f"    for r in range(0, min(mb, m - i), {len(rows)}):"]
    lines += [f"        r{i} = min(r + {i}, m - i - 1)" for i in rows]
    lines += [f"        a{i} = p_{{kind}}(a + {{size}} * (i + r{i}) * lda)" for i in rows]
    lines += [f"        s{i}{j} = {{kind}}(0)" for i, j in tile]
    lines += ["        for p in range(k):"]
    lines += [f"            s{i}{j} = plus(s{i}{j}, a{i}[p] * b{j}[p])" for i, j in tile]
    lines += [f"        p_{{kind}}(c + {{size}} * r{i} * ldc)[j{j}] = s{i}{j}" for i, j in tile]
    return "".join(f"        {line}\n" for line in lines)


_SOURCES = {
    "as it is": _HEAD + _AS_IT_IS + _BY_BLAS,
    "turned": _HEAD + _TURNED + _BY_BLAS,
    "by rows": _HEAD + _by_rows(),
}


@dataclass(frozen=True)
class Operand:
    """A matrix in a buffer, or a batch of them: steps in elements, from row to row and so on."""

    strides: tuple[int, int]
    start: int = 0
    batch: tuple[int, int] = (0, 0)

    def layout(self, rows: int, columns: int) -> tuple[bool, int]:
        """Whether BLAS must transpose it, and from where to where its rows (or columns) step.

        Raises:
            ValueError: neither rows nor columns are contiguous, or they overlap.
        """
        down, right = self.strides
        if (right == 1 or columns <= 1) and (down >= columns or rows <= 1):
            return False, max(down if rows > 1 else 1, columns, 1)
        if (down == 1 or rows <= 1) and right >= rows:
            return True, right
        raise ValueError(f"BLAS cannot read a matrix with steps {self.strides}")


def stored(shape: Sequence[int], transposed: bool = False) -> Operand:
    """A matrix that is stored row by row, or its transpose."""
    return Operand((1, shape[1]) if transposed else (shape[1], 1))


def operand(view: View) -> Operand:
    """The matrices of a view, without the steps of its batch."""
    return Operand(view.matrix[2:], view.offset)


@dataclass(frozen=True)
class Matmul:
    """A kernel's source, its argument block after the slots of C, A and B, its units of work.

    `scratch`: elements of a buffer whose slot is the block's last word.
    """

    source: str
    words: tuple[int, ...]
    work: int
    scratch: int = 0


def matmul(kind: str, sizes: tuple[int, int, int], a: Operand, b: Operand, c: Operand,
           batch: tuple[int, int] = (1, 1), adds: bool = False) -> Matmul:  # fmt: skip
    """C = A B, or C += A B if it `adds`.

    Args:
        kind: f4 or f8.
        sizes: m, n, k: A is m x k, B is k x n, C is m x n.
        a, b, c: where they lie; `c` must not be transposed.
        batch: how many, in two dimensions.

    Raises:
        ValueError: BLAS cannot read an operand as it lies.
        OverflowError: a size does not fit into 32 bits.
    """
    m, n, k = sizes
    (ta, lda), (tb, ldb), (tc, ldc) = a.layout(m, k), b.layout(k, n), c.layout(m, n)
    if tc:
        raise ValueError("BLAS cannot write a transposed matrix")
    if max(m, n, k, lda, ldb, ldc) >= 2**31:
        raise OverflowError("BLAS takes matrices of fewer than 2**31 rows and columns")

    def planned(way: str, blocks: tuple[int, int, int]) -> Matmul:
        mb, nb, kb = (max(size, 1) for size in blocks)
        strips = -(-m // mb)
        words = (
            address(_ROUTINES[kind]), ta, tb, m, n, k, lda, ldb, ldc, mb, nb, kb, adds,
            max(strips, 1), batch[1], c.start, *c.batch, a.start, *a.batch, b.start, *b.batch,
        )  # fmt: skip
        source = _SOURCES[way].format(kind=kind, size=SIZES[kind])
        work, scratch = strips * batch[0] * batch[1], n * k if way == "turned" else 0
        return Matmul(source, tuple(map(int, words)), work, scratch)

    ways = [planned("as it is", sizes)]
    space = lda * (k if ta else m) + ldb * (n if tb else k) + ldc * m
    if not (1 if tb else _SMALL) < m * n * k < _LARGE or space > _LARGE:
        return ways[0]
    if not tb:
        ways += [planned("as it is", blocks) for blocks in _BLOCKS]
    else:
        ways.append(planned("turned", _BLOCKS[0]))
        if not (ta or adds):
            ways.append(planned("by rows", (64, n, k)))
    key = " ".join(map(str, (kind, int(ta), int(tb), int(adds), *sizes, lda, ldb, ldc)))
    return ways[_choice(key, tuple(ways), np.dtype(f"f{SIZES[kind]}"))]


@functools.cache
def address(name: str) -> int:
    """The address of a BLAS routine, such as sgemm."""
    capsule = _routines()[name]
    get, name_of = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return int(get(capsule, name_of(capsule)))


@functools.cache
def _routines() -> dict[str, Any]:
    """SciPy's BLAS routines, without the rest of scipy.linalg (0.15 s) if that is not there yet."""
    import scipy

    name = "scipy.linalg.cython_blas"
    spec = PathFinder.find_spec(name, [str(Path(scipy.__file__).parent / "linalg")])
    if "scipy.linalg" in sys.modules or spec is None or spec.loader is None:
        return import_module(name).__pyx_capi__
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(name, None)  # who imports it later gets it as a part of its package
    return module.__pyx_capi__


# ------------------------------------------------------------------------------- blocks or not

_choices: dict[str, int] = {}


def _file() -> Path | None:
    """Where this machine's choices are kept."""
    import scipy

    place = cache.folder()
    machine = cache.key(f"{scipy.__version__} {os.environ.get('OPENBLAS_CORETYPE')}")
    return place and place / f"products-{machine}.json"


def _choice(key: str, ways: tuple[Matmul, ...], dtype: np.dtype) -> int:
    """Which way is the fastest for these sizes: timed once, and remembered."""
    path = _file()
    if key not in _choices:
        _choices.update(_read(path))
    if key not in _choices:
        _choices[key] = _fastest(ways, dtype)
        if path:
            _write(path, _read(path) | _choices)
    return _choices[key]


def _read(path: Path | None) -> dict[str, int]:
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError):
        return {}
    usable = range(len(_BLOCKS) + 1)
    return {k: v for k, v in found.items() if v in usable} if isinstance(found, dict) else {}


def _write(path: Path, choices: dict[str, int]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(choices, indent=0, sort_keys=True))
    except OSError:
        return


def _fastest(ways: tuple[Matmul, ...], dtype: np.dtype) -> int:
    """The number of the fastest way; the first, if others are hardly better."""
    _, ta, tb, m, n, k, lda, ldb, ldc, *_ = ways[0].words
    shapes = ((m, ldc), (k if ta else m, lda), (n if tb else k, ldb), (n, k))
    arrays = [memory.new(shape, dtype) for shape in shapes]  # as they lie in runs
    for array in arrays:
        array[...] = 1
    slots = np.array([x.ctypes.data for x in arrays], np.int64)
    word = ctypes.c_ssize_t
    kind = ctypes.CFUNCTYPE(None, word, word, word, word, word)
    calls = [kind(cache.kernel(way.source)) for way in ways]
    best = [float("inf")] * len(ways)
    blocks = [np.array([0, 1, 2, *w.words[:15], *[0] * 9, 3], np.int64) for w in ways]
    times = 1 + int(_SMALL / (m * n * k))  # a batch of the same ones
    for _ in range(12):
        for i, (way, block) in enumerate(zip(ways, blocks, strict=True)):
            start = time.perf_counter()
            calls[i](slots.ctypes.data, block.ctypes.data, 0, way.words[13] * times, 0)
            best[i] = min(best[i], time.perf_counter() - start)
    fastest = min(range(len(ways)), key=best.__getitem__)
    return fastest if best[0] > _GAIN * best[fastest] else 0
