"""Running kernels in tests: from their text, on arrays."""

import ctypes

import numpy as np

from minispore.engine import cache, cpu

HEAD = (
    "from minispore.engine.kernels.vector import *\nfrom minispore.engine.kernels import vector\n"
)
KINDS = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "i8": np.int64, "u1": np.uint8}
CALL = ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 5)


def forget():
    """Forget all kernels and the CPU, so that another environment counts."""
    cache._addresses.clear()
    for known in (cache._surroundings, cpu.target, cpu.machine, cpu.has_fma):
        known.cache_clear()


def call(address, arrays, args=(0,), lo=0, hi=1, worker=0):
    """Run the kernel at an address; its slots are the arrays."""
    slots = np.array([a.ctypes.data for a in arrays], np.int64)
    block = np.array(args, np.int64)
    CALL(address)(slots.ctypes.data, block.ctypes.data, lo, hi, worker)


def loop_source(body, kinds, out):
    """A kernel that computes `out[i]` from a, b, c ... by an expression."""
    names = "abcde"[: len(kinds)]
    lines = [
        f"    {n} = p_{k}(slots[{i}])" for i, (n, k) in enumerate(zip(names, kinds, strict=True))
    ]
    lines += [f"    out = p_{out}(slots[{len(kinds)}])", "    for i in range(lo, hi):"]
    return HEAD + "\n".join(
        ["def kernel(slots, args, lo, hi, worker):", *lines, f"        out[i] = {body}", ""]
    )


def evaluate(body, *arrays, out=None):
    """An expression of a[i], b[i] ..., computed by a kernel for all i."""
    kinds = [next(k for k, t in KINDS.items() if a.dtype == t) for a in arrays]
    out = out or kinds[0]
    result = np.empty(arrays[0].size, KINDS[out])
    call(cache.kernel(loop_source(body, kinds, out)), [*arrays, result], hi=result.size)
    return result
