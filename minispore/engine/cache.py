"""Compiled kernels, kept in memory and on disk: source text -> address.

A kernel is compiled once (kernels/compiler.py); its machine code is written to a file of our own,
named by the hash of all that it depends on: its source, the functions that it may call, the
compiler and this module, LLVM's version, the system and the CPU.  Later processes load it in
0.1 ms.  Whatever is wrong with a file (truncated, garbage, of another machine) is a miss; whatever
is wrong with the disk leaves the kernel in memory.  Of too many files the least recently used ones
go.  Where no machine code can be made at all, the plan lets NumPy do the work.

MINISPORE_CACHE_DIR says where the files are (default: ``minispore`` in XDG_CACHE_HOME, or in
``~/.cache``), MINISPORE_CACHE_SIZE how many bytes they may take, about (default: 64 MB, some 20,000
kernels; 0 keeps none).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import itertools
import os
import threading
import time
from pathlib import Path
from typing import Any

from minispore.files import write_whole

_MAGIC = b"minispore kernel 1\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
_SIZE = 64 * 1024**2
_DAY = 24 * 60 * 60
_lock = threading.RLock()
_addresses: dict[str, int] = {}  # source -> address
_stores = itertools.count()


class NoKernel(RuntimeError):
    """No machine code can be made here: llvmlite is missing, or not as it is expected."""


def kernel(source: str) -> int:
    """The address of the function that the source defines: ``kernel`` or ``run``.

    Its signature is that of kernels/words.py.  With a line ``ROUNDS = True`` in its source each
    product is rounded before it is added to something.

    Raises:
        NoKernel: the compiler does not work here.
    """
    with _lock:
        if source not in _addresses:
            try:
                _addresses[source] = _made(source)
            except (ImportError, AttributeError, TypeError, OSError, RuntimeError) as error:
                raise NoKernel(f"{type(error).__name__}: {error}") from error
        return _addresses[source]


def folder() -> Path | None:
    """Where kernels are kept; None if there is no home."""
    own = os.environ.get("MINISPORE_CACHE_DIR")
    if own:
        return Path(own)
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:  # by that standard, a path that is not absolute does not count
        return (caches if caches.is_absolute() else Path.home() / ".cache") / "minispore"
    except RuntimeError:
        return None


def size() -> int:
    """How many bytes kernels may take on disk, about.

    Raises:
        ValueError: MINISPORE_CACHE_SIZE is no whole number.
    """
    text = os.environ.get("MINISPORE_CACHE_SIZE", str(_SIZE))
    if not text.isdecimal():
        raise ValueError(f"MINISPORE_CACHE_SIZE must be a number of bytes, not {text!r}")
    return int(text)


def files(place: Path) -> list[tuple[float, int, Path]]:
    """The kernels in a folder, least recently used first: when that was, the size, the file."""
    found = []
    for path in [*place.glob("k*.kernel"), *place.glob(".k*.kernel.*")]:  # these: unfinished
        try:
            facts = path.stat()
        except OSError:  # another process has just removed it
            continue
        found.append((facts.st_mtime, facts.st_size, path))
    return sorted(found)


def trim(place: Path, most: int) -> None:
    """Remove the least recently used kernels until the others fit into so many bytes."""
    found = files(place)
    total = sum(n for _, n, _ in found)
    for _, n, path in found:
        if total <= most:
            return
        path.unlink(missing_ok=True)
        total -= n


def _made(source: str) -> int:
    """The address of a kernel that this process has not used before."""
    name = f"k{key(source)}"
    place = folder()
    path = place and place / f"{name}.kernel"
    code = path and _load(path)
    if code:
        return _link(name, code)
    made = _compile(source, name)
    if isinstance(made, int):  # Numba has it in memory
        return made
    if path:
        _store(path, made)
    return _link(name, made)


# ------------------------------------------------------------------------------- the key


@functools.cache
def _surroundings() -> Any:
    """The hash of what all kernels depend on."""
    import llvmlite
    from llvmlite.binding import get_default_triple

    from minispore.engine import cpu

    digest = hashlib.sha256(_MAGIC)
    for text in (get_default_triple(), *cpu.target(), llvmlite.__version__):
        digest.update(text.encode() + b"\0")
    own, kernels = Path(__file__), sorted((Path(__file__).parent / "kernels").glob("*.py"))
    for path in (own, own.with_name("cpu.py"), *kernels):
        digest.update(path.read_bytes() + b"\0")
    return digest


def key(text: str) -> str:
    """The hash of a text, and of all that compiled kernels depend on."""
    digest = _surroundings().copy()
    digest.update(text.encode())
    return digest.hexdigest()[:40]


# ------------------------------------------------------------------------------- files


def _load(path: Path) -> bytes | None:
    """The machine code in a file; None if there is no such file, or it is broken."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    code = data[_HEAD:]
    if data[:_HEAD] != _MAGIC + hashlib.sha256(code).digest():
        return None
    with contextlib.suppress(OSError):  # a folder to read only
        if time.time() - path.stat().st_mtime > _DAY:
            os.utime(path)  # used again: the last to go
    return code


def _store(path: Path, code: bytes) -> None:
    """Write a kernel's file, whole or not at all; a disk that refuses costs only the next start."""
    most = size()
    try:
        if most:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, _MAGIC + hashlib.sha256(code).digest() + code)
        if next(_stores) % 64 == 0:  # to look at all files takes a while
            trim(path.parent, most)
    except OSError:
        return


# ------------------------------------------------------------------------------- machine code


def _compile(source: str, name: str) -> bytes | int:
    """Compile a kernel: its machine code, or its address if only Numba can do it."""
    from minispore.engine.kernels.compiler import Unsupported, machine_code

    text = ast.parse(source, f"<{name}>")
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<{name}>", "exec"), namespace)
    tree = next(n for n in text.body if isinstance(n, ast.FunctionDef))
    flags = [] if namespace.get("ROUNDS") else ["contract"]
    try:
        return machine_code(namespace[tree.name], tree, name, flags)
    except Unsupported:
        from minispore.engine.kernels.by_numba import compiled

        return compiled(namespace[tree.name], flags)


@functools.cache
def _linker() -> Any:
    """LLVM's linker; it keeps the code for the life of the process."""
    import llvmlite.binding as llvm

    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _link(name: str, code: bytes) -> int:
    """Load machine code; the address of its function."""
    import llvmlite.binding as llvm

    linker = _linker()
    linker.add_object_file(llvm.ObjectFileRef.from_data(code))
    linker.finalize_object()
    return linker.get_function_address(name)
