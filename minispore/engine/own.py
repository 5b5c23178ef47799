"""Steps that are kernels of their own: products of matrices, copies, sums and writes by index.

All follow strides.  Sizes and strides are arguments, so that a few kernels serve all shapes.
"""

from __future__ import annotations

import numpy as np

from minispore.engine import blas
from minispore.engine.emit import Kernel
from minispore.engine.fuse import Group
from minispore.engine.layout import NUMPY, SIZES, Buffer, View, broadcast, collapsed, permuted
from minispore.engine.lower import Step

_IMPORTS = "from minispore.engine.kernels.vector import *\n\n"
_HEAD = "def kernel(slots, args, lo, hi, worker):"


def kernel(group: Group) -> Kernel:
    """The kernel of a group of one such step."""
    (step,) = group.steps
    makers = {"matmul": _product, "copy": _copy, "index add": _index_add, "put": _put}
    return makers[step.kind](step, group)


class _Arguments:
    """The arguments of a kernel in the making, and the texts that read them."""

    def __init__(self) -> None:
        self.values: list[int | Buffer] = []

    def number(self, value: int) -> str:
        self.values.append(value)
        return f"args[{len(self.values) - 1}]"

    def address(self, buffer: Buffer) -> str:
        self.values.append(buffer)
        return f"slots[args[{len(self.values) - 1}]]"


def _source(lines: list[str]) -> str:
    return _IMPORTS + _HEAD + "\n    " + "\n    ".join(lines) + "\n"


# ------------------------------------------------------------------------------- products


def _product(step: Step, group: Group) -> Kernel:
    """A product of matrices for each index of the batch axes, onto a third operand if given."""
    a, b, *base = step.inputs
    c: View = step.more["result"]
    if blas.operand(c).layout(*c.matrix[:2])[0]:
        a, b, c = (_turned(v) for v in (b, a, c))  # C' = B' A'
    a, b = (broadcast(v, (*c.shape[:-2], *v.shape[-2:])) for v in (a, b))
    sizes, strides = collapsed(c.shape[:-2], *(v.steps[:-2] for v in (c, a, b)))
    sizes, strides = [1, 1, *sizes], [[0, 0, *s] for s in strides]
    onto, left, right = (
        blas.Operand(v.matrix[2:], v.offset, (s[-2], s[-1]))
        for v, s in zip((c, a, b), strides, strict=True)
    )
    (m, n, *_), k = c.matrix, a.shape[-1]
    batch = (sizes[-2], sizes[-1])
    made = blas.matmul(step.out.dtype, (m, n, k), left, right, onto, batch, adds=bool(base))
    arguments: list[int | Buffer] = [step.out, a.buffer, b.buffer, *made.words]
    if made.scratch:
        arguments.append(Buffer(step.out.dtype, made.scratch))
    return Kernel(made.source, arguments, made.work, group)


def _turned(view: View) -> View:
    n = len(view.shape)
    return permuted(view, [*range(n - 2), n - 1, n - 2])


# ------------------------------------------------------------------------------- copies


def _copy(step: Step, group: Group) -> Kernel:
    """Parts of a value copied to their places; `fill` is what is elsewhere."""
    arguments = _Arguments()
    dtype = step.out.dtype
    lines = [f"out = {arguments.address(step.out)}"]
    fill = step.more["fill"]
    if fill is not None:
        value = np.array([fill]).astype(NUMPY[dtype])
        one, n = arguments.address(Buffer(dtype, 1, value)), arguments.number(step.out.size)
        lines += [f"o = p_{dtype}(out)", f"v = p_{dtype}({one})[0]"]
        lines += [f"for j in range({n}):", "    o[j] = v"]
    for view, place in zip(step.inputs, step.more["places"], strict=True):
        lines += _copied(view, place, dtype, arguments)
    return Kernel(_source(lines), arguments.values, 1, group)


def _copied(view: View, place: View, dtype: str, arguments: _Arguments) -> list[str]:
    """Loops over the axes, that with the shortest steps of the place inside."""
    size = SIZES[dtype]
    sizes, (source, target) = collapsed(view.shape, view.steps, place.steps)
    order = sorted(range(len(sizes)), key=lambda d: -abs(target[d]))
    *outer, inner = order or [0]
    n, s, t = (sizes[inner], source[inner], target[inner]) if order else (1, 1, 1)
    x = f"{arguments.address(view.buffer)} + {arguments.number(view.offset * size)}"
    y = f"out + {arguments.number(place.offset * size)}"
    number = arguments.number
    lines = [f"x = {x}", f"y = {y}", f"n = {number(n)}"]
    lines += [f"s = {number(s)}"] * (s not in (0, 1)) + [f"t = {number(t)}"] * (t != 1)
    loops = []
    for d in outer:
        lines.append(f"n{d} = {number(sizes[d])}")
        lines += [f"s{d} = {number(source[d] * size)}", f"t{d} = {number(target[d] * size)}"]
        loops.append(f"for i{d} in range(n{d}):")
    start = [" + ".join([m, *(f"i{d} * {k}{d}" for d in outer)]) for m, k in ("xs", "yt")]
    at, to = {0: "0", 1: "j"}.get(s, "j * s"), "j" if t == 1 else "j * t"
    body = [f"a = p_{dtype}({start[0]})", f"b = p_{dtype}({start[1]})"]
    body += ["for j in range(n):", f"    b[{to}] = a[{at}]"]
    for depth, loop in enumerate(loops):
        lines.append("    " * depth + loop)
    return [*lines, *("    " * len(loops) + line for line in body)]


# ------------------------------------------------------------------------------- sums by index


def _index_add(step: Step, group: Group) -> Kernel:
    """Rows added to the rows of a value (or of zeros) that an index tells."""
    index, rows, *base = step.inputs
    dtype, arguments = step.out.dtype, _Arguments()
    lines = [f"C = {arguments.number(step.columns)}", f"n = {arguments.number(step.rows)}",
             f"out = {arguments.address(step.out)}", f"o = p_{dtype}(out)"]  # fmt: skip
    if base:
        lines.append(f"x = p_{dtype}({arguments.address(base[0].buffer)})")
    lines += ["for j in range(n * C):", f"    o[j] = {'x[j]' if base else f'{dtype}(0)'}",
              f"i = p_{index.buffer.dtype}({arguments.address(index.buffer)})",
              f"y = {arguments.address(rows.buffer)}",
              f"for r in range({arguments.number(index.size)}):",
              f"    a = p_{dtype}(out + i8(i[r]) % n * C * {SIZES[dtype]})",
              f"    b = p_{dtype}(y + r * C * {SIZES[dtype]})",
              "    for j in range(C):", "        a[j] = a[j] + b[j]"]  # fmt: skip
    return Kernel(_source(lines), arguments.values, 1, group)


def _put(step: Step, group: Group) -> Kernel:
    """One row written into a value (or added to it), which is copied unless it is in place."""
    x, row, index = step.inputs
    dtype, arguments = step.out.dtype, _Arguments()
    lines = [f"C = {arguments.number(step.columns)}", f"n = {arguments.number(step.rows)}",
             f"out = {arguments.address(step.out)}", f"old = {arguments.address(x.buffer)}",
             f"i = p_{index.buffer.dtype}({arguments.address(index.buffer)})",
             f"y = p_{dtype}({arguments.address(row.buffer)})",
             f"o, x = p_{dtype}(out), p_{dtype}(old)",
             "if old != out:", "    for j in range(n * C):", "        o[j] = x[j]",
             f"r = p_{dtype}(out + i8(i[0]) % n * C * {SIZES[dtype]})",
             "for j in range(C):", f"    r[j] = {'r[j] + ' * step.more['adds']}y[j]"]  # fmt: skip
    return Kernel(_source(lines), arguments.values, 1, group)
