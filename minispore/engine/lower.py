"""From the nodes of a segment to steps on buffers.

A *segment* is a piece of a graph that kernels can compute.  Its nodes become a few kinds of steps:
element-wise maps, reductions, and steps with kernels of their own (own.py): products, copies, sums
by index.  What only moves elements without need becomes a view (layout.py), not a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from minispore.abstract import AbstractTensor, Shape
from minispore.dtype import float32, int32, int64
from minispore.engine import layout
from minispore.engine.layout import DTYPES, FLOATS, HALVES, Buffer, View, kind_of, strided
from minispore.ir.node import CNode, Node, ValueNode, is_call_of, item_index
from minispore.primitive import Primitive

_OF_FLOATS = {"FloorDiv": "floordiv({0}, {1})", "FloorMod": "floormod({0}, {1})"}


@dataclass(eq=False)
class Step:
    """One computation: `kind` is map, pick, a reduction, or that of a kernel of its own (own.py).

    Reductions are sum, max, min, all, any, and larger: max where a nan shows elsewhere.
    `text` is a map's scalar expression; `rows`, `columns` its domain; `ways` how it reads each
    operand.  A map that reads all its operands whole fits every domain of its size (`is_flat`).
    `gives`: what it makes in its domain: full, row, sum, or own.  A sum of rows adds row r to row
    ``r // more["each"] % more["period"]`` of the result.
    """

    kind: str
    inputs: list[View]
    out: Buffer
    rows: int
    columns: int
    ways: list[tuple] = field(default_factory=list)
    text: str = ""
    is_flat: bool = False
    gives: str = "full"
    node: Node | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.rows * self.columns

    @property
    def outs(self) -> list[Buffer]:
        """All that it writes: loops have several results."""
        return self.more.get("outs", [self.out])


class Lowering:
    """The steps of a segment's nodes; `views` tells where each node's value is."""

    def __init__(self, nodes: Iterable[CNode] = (), outputs: Iterable[Node] = ()) -> None:
        self.steps: list[Step] = []
        self.views: dict[int, View] = {}
        self.items: dict[int, list[View]] = {}  # of values that are tuples
        self.copies: dict[View, View] = {}
        self.known: dict[tuple, Buffer] = {}  # steps that are there already, or constants
        self.users: dict[int, list[Node | None]] = {}
        self.look_at(nodes, outputs)

    def look_at(self, nodes: Iterable[CNode], outputs: Iterable[Node]) -> None:
        """Learn who reads which value, before the nodes are added."""
        for node in nodes:
            for i in node.inputs:
                self.users.setdefault(id(i), []).append(node)
        for output in outputs:
            self.users.setdefault(id(output), []).append(None)

    def input(self, node: Node) -> Buffer:
        """A buffer for a value from outside the segment."""
        abstract = node.abstract
        shape = abstract.shape if isinstance(abstract, AbstractTensor) else ()
        kind = kind_of(abstract)
        assert kind is not None
        value = node.value if isinstance(node, ValueNode) else None
        if value is not None:
            value = np.ascontiguousarray(value)
        buffer = Buffer(kind, math.prod(shape), value)
        if value is not None and value.size == 1:
            buffer = self.constant(value)
        self.views[id(node)] = View(buffer, shape)
        return buffer

    def constant(self, value: np.ndarray) -> Buffer:
        """The buffer of a constant of one element; equal ones share it."""
        key = (value.dtype, value.tobytes())
        if key not in self.known:
            self.known[key] = Buffer(DTYPES[value.dtype.name], 1, value)
        return self.known[key]

    def view(self, node: Node) -> View:
        if id(node) not in self.views:
            self.input(node)
        return self.views[id(node)]

    def add(self, node: CNode) -> None:
        """The steps of a node."""
        index = item_index(node)
        if index is not None:
            self.views[id(node)] = self.items[id(node.inputs[0])][index]
            return
        assert isinstance(node.callee, Primitive)
        name = node.callee.name
        operands = [self.view(i) for i in node.inputs]
        made = getattr(self, f"lower_{name}", None)
        if made is None:
            text = node.callee.expr or ""
            if operands[0].buffer.dtype in FLOATS:
                text = _OF_FLOATS.get(name, text)
            view = self.map(node, operands, text, node.abstract)
        elif name in _ACCUMULATING and operands[0].buffer.dtype in HALVES:
            view = self.widened(node, made, operands)
        elif name in _READ_VIEWS:
            view = made(node, *operands)
        else:
            view = made(node, *map(self.whole, operands))
        self.views[id(node)] = view

    # ----------------------------------------------------------------- steps

    def emit(self, node: Node | None, kind: str, inputs: list[View], dtype: str, shape: Shape,
             rows: int, columns: int, **more: Any) -> View:  # fmt: skip
        parts = (kind, *inputs, dtype, rows, columns, *map(str, more.items()))
        if parts not in self.known:
            out = self.known[parts] = Buffer(dtype, math.prod(shape))
            out.step = Step(kind, inputs, out, rows, columns, node=node, **more)
            self.steps.append(out.step)
        return View(self.known[parts], shape)

    def map(self, node: Node, operands: Sequence[View], text: str, abstract: Any,
            dtype: str = "") -> View:  # fmt: skip
        """An element-wise step."""
        shape, operands = merged(abstract.shape, operands)
        columns = shape[-1] if shape else 1
        rows = math.prod(shape[:-1])
        operands = [self.readable(v, shape) for v in operands]
        ways = [way(v, shape) for v in operands]
        flat = all(w[0] in ("full", "scalar") for w in ways)
        return self.emit(
            node, "map", operands, dtype or DTYPES[abstract.dtype.numpy.name], abstract.shape, rows,
            columns, ways=ways, text=text, is_flat=flat,
        )  # fmt: skip

    def widened(self, node: CNode, made: Any, operands: list[View]) -> View:
        """A node of half floats: computed as float32 by `made`, and rounded once."""
        types = [AbstractTensor(float32, (v.buffer.size,)) for v in operands]
        wholes = [View(v.buffer, t.shape) for v, t in zip(operands, types, strict=True)]
        wide = [self.map(node, [v], "{0}", t) for v, t in zip(wholes, types, strict=True)]
        views = [replace(v, buffer=w.buffer) for v, w in zip(operands, wide, strict=True)]
        result = AbstractTensor(float32, node.abstract.shape)  # type: ignore[attr-defined]
        twin = CNode(node.callee, node.inputs, result, node.origin)
        read = views if node.callee.name in _READ_VIEWS else map(self.whole, views)  # type: ignore
        first = len(self.steps)
        value = made(twin, *read)
        for step in self.steps[first:]:
            step.node = node if step.node is twin else step.node
        return self.map(node, [value], "{0}", node.abstract)

    def readable(self, view: View, shape: Shape) -> View:
        """A view that a map of a shape can read: itself, or a copy."""
        if way(view, shape):
            return view
        once = self.whole(layout.unbroadcast(view))
        return once if way(once, shape) else self.whole(layout.broadcast(once, shape))

    def whole(self, view: View) -> View:
        """The elements of a view in row-major order."""
        if view.is_whole:
            return view
        if view not in self.copies:
            self.copies[view] = self.copy([view], view.shape, [View(view.buffer, view.shape)])
        return self.copies[view]

    def copy(self, parts: list[View], shape: Shape, places: list[View], fill: Any = None) -> View:
        """A new value made of copies: each part goes to its place, a view of the whole."""
        dtype = parts[0].buffer.dtype
        return self.emit(None, "copy", parts, dtype, shape, 1, math.prod(shape), gives="own",
                         more={"places": places, "fill": fill})  # fmt: skip

    def reduce(self, node: Node, kind: str, x: View, axes: tuple[int, ...], shape: Shape,
               dtype: str = "") -> View:  # fmt: skip
        """A reduction over any axes: over the last ones, then over others that are side by side."""
        dtype = dtype or x.buffer.dtype
        axes = tuple(a for a in axes if x.shape[a] != 1)
        run = [a for i, a in enumerate(axes) if axes[i:] == tuple(range(a, axes[-1] + 1))]
        if not axes:
            return View(x.buffer, shape)
        before, n = math.prod(x.shape[: run[0]]), math.prod(x.shape[a] for a in run)
        after = math.prod(x.shape[run[-1] + 1 :])
        rest = tuple(1 if a in run else m for a, m in enumerate(x.shape))
        left = tuple(a for a in axes if a not in run)
        if after == 1:
            rows, columns, gives, more = before, n, "row", {}
        else:
            rows, columns, gives = before * n, after, "sum"
            more = {"each": n if before > 1 else 1, "period": before}
        out = self.emit(node, kind, [x], dtype, rest if left else shape, rows, columns,
                        gives=gives, ways=[("full",)], more=more)  # fmt: skip
        return self.reduce(node, kind, out, left, shape, dtype) if left else out

    # ----------------------------------------------------------------- the same elements elsewhere

    def lower_Reshape(self, node: CNode, x: View) -> View:
        shape = node.abstract.shape  # type: ignore[attr-defined]
        found = layout.reshaped(x, shape)
        return View(self.whole(x).buffer, shape) if found is None else found

    lower_ExpandDims = lower_Squeeze = lower_Identity = lower_StopGradient = lower_Reshape

    def lower_Transpose(self, node: CNode, x: View) -> View:
        return layout.permuted(x, node.callee.attrs["perm"])  # type: ignore[union-attr]

    def lower_BroadcastTo(self, node: CNode, x: View) -> View:
        return layout.broadcast(x, node.abstract.shape)  # type: ignore[attr-defined]

    def lower_StridedSlice(self, node: CNode, x: View) -> View:
        attrs = node.callee.attrs  # type: ignore[union-attr]
        ranges = zip(attrs["begin"], attrs["end"], attrs["strides"], strict=True)
        return layout.sliced(x, list(ranges))

    def lower_ReverseV2(self, node: CNode, x: View) -> View:
        axes = node.callee.attrs["axis"]  # type: ignore[union-attr]
        return layout.sliced(
            x, [(n - 1, -1, -1) if a in axes else (0, n, 1) for a, n in enumerate(x.shape)]
        )

    def lower_Tile(self, node: CNode, x: View) -> View:
        pairs = list(zip(node.callee.attrs["reps"], x.shape, strict=True))  # type: ignore[union-attr]
        strides = [s for step in x.steps for s in (0, step)]
        tiled = strided(x.buffer, [n for pair in pairs for n in pair], strides, x.offset)
        return View(self.whole(tiled).buffer, node.abstract.shape)  # type: ignore[attr-defined]

    def lower_Split(self, node: CNode, x: View) -> View:
        axis, start = node.callee.attrs["axis"], 0  # type: ignore[union-attr]
        pieces = self.items[id(node)] = []
        for n in node.callee.attrs["sizes"]:  # type: ignore[union-attr]
            ranges = [
                (start, start + n, 1) if a == axis else (0, m, 1) for a, m in enumerate(x.shape)
            ]
            pieces.append(layout.sliced(x, ranges))
            start += n
        return pieces[0]

    def lower_Fill(self, node: CNode) -> View:
        attrs, abstract = node.callee.attrs, node.abstract  # type: ignore[union-attr]
        one = np.full(1, attrs["value"], abstract.dtype.numpy)  # type: ignore[attr-defined]
        buffer = self.constant(one)
        shape = abstract.shape  # type: ignore[attr-defined]
        return strided(buffer, shape, (0,) * len(shape), 0)

    def lower_Concat(self, node: CNode, *parts: View) -> View:
        axis = node.callee.attrs["axis"]  # type: ignore[union-attr]
        return self.joined(node, parts, axis, [p.shape[axis] for p in parts])

    def lower_Stack(self, node: CNode, *parts: View) -> View:
        axis = node.callee.attrs["axis"]  # type: ignore[union-attr]
        flat = []
        for p in parts:
            shape, steps = ((*s[:axis], 1, *s[axis:]) for s in (p.shape, p.steps))
            flat.append(strided(p.buffer, shape, steps, p.offset))
        return self.joined(node, flat, axis, [1] * len(parts))

    def joined(self, node: CNode, parts: Sequence[View], axis: int, sizes: list[int]) -> View:
        """Views one after the other along an axis."""
        shape = node.abstract.shape  # type: ignore[attr-defined]
        whole = View(Buffer(parts[0].buffer.dtype, math.prod(shape)), shape)
        places, start = [], 0
        for n in sizes:
            ranges = [
                (start, start + n, 1) if a == axis else (0, m, 1) for a, m in enumerate(shape)
            ]
            places.append(layout.sliced(whole, ranges))
            start += n
        return self.copy(list(parts), shape, places)

    def lower_Pad(self, node: CNode, x: View) -> View:
        attrs = node.callee.attrs  # type: ignore[union-attr]
        shape = node.abstract.shape  # type: ignore[attr-defined]
        whole = View(Buffer(x.buffer.dtype, math.prod(shape)), shape)
        pads = zip(attrs["paddings"], x.shape, strict=True)
        place = layout.sliced(whole, [(before, before + n, 1) for (before, _), n in pads])
        return self.copy([x], shape, [place], attrs["value"])

    def lower_StridedSliceGrad(self, node: CNode, x: View) -> View:
        attrs = node.callee.attrs  # type: ignore[union-attr]
        shape = node.abstract.shape  # type: ignore[attr-defined]
        whole = View(Buffer(x.buffer.dtype, math.prod(shape)), shape)
        ranges = zip(attrs["begin"], attrs["end"], attrs["strides"], strict=True)
        return self.copy([x], shape, [layout.sliced(whole, list(ranges))], 0)

    def lower_SetSlice(self, node: CNode, x: View, value: View) -> View:
        attrs = node.callee.attrs  # type: ignore[union-attr]
        whole = View(Buffer(x.buffer.dtype, x.size), x.shape)
        ranges = zip(attrs["begin"], attrs["end"], attrs["strides"], strict=True)
        places = [whole, layout.sliced(whole, list(ranges))]  # one after the other
        return self.copy([x, value], x.shape, places)

    # ----------------------------------------------------------------- element by element

    def lower_Cast(self, node: CNode, x: View) -> View:
        to = DTYPES[node.abstract.dtype.numpy.name]  # type: ignore[attr-defined]
        return self.map(node, [x], f"cast_{to}({{0}})", node.abstract)

    def lower_ReduceSum(self, node: CNode, x: View) -> View:
        return self.reduce(node, "sum", x, node.callee.attrs["axis"], node.abstract.shape)  # type: ignore

    def lower_ReduceMax(self, node: CNode, x: View) -> View:
        return self.reduce(node, "max", x, node.callee.attrs["axis"], node.abstract.shape)  # type: ignore

    def lower_ReduceMin(self, node: CNode, x: View) -> View:
        return self.reduce(node, "min", x, node.callee.attrs["axis"], node.abstract.shape)  # type: ignore

    def lower_ReduceAll(self, node: CNode, x: View) -> View:
        return self.reduce(node, "all", x, node.callee.attrs["axis"], node.abstract.shape)  # type: ignore

    def lower_ReduceAny(self, node: CNode, x: View) -> View:
        return self.reduce(node, "any", x, node.callee.attrs["axis"], node.abstract.shape)  # type: ignore

    def lower_IndexInRange(self, node: CNode, x: View) -> View:
        size = node.callee.attrs["size"]  # type: ignore[union-attr]
        inside = AbstractTensor(node.abstract.dtype, x.shape)  # type: ignore[attr-defined]
        test = self.map(node, [x], f"{{0}} >= {-size} and {{0}} < {size}", inside)
        return self.reduce(node, "all", test, tuple(range(len(x.shape))), ())

    def lower_ReduceMean(self, node: CNode, x: View) -> View:
        total = self.lower_ReduceSum(node, x)
        share = total.size / x.size
        return self.map(node, [total], f"{{0}} * {share!r}", node.abstract)

    def _shifted(self, node: CNode, x: View) -> tuple[View, Shape]:
        """x - max(x) along the last axis, and the shape of what is left of it.

        The largest need not be nan where one is: then exp(x - max(x)) and its sum are.
        """
        shape = (*x.shape[:-1], 1)
        top = self.reduce(node, "larger", x, (len(x.shape) - 1,), shape)
        return self.map(node, [x, top], "{0} - {1}", node.abstract), shape

    def lower_Softmax(self, node: CNode, x: View) -> View:
        shifted, shape = self._shifted(node, x)
        e = self.map(node, [shifted], "exp({0})", node.abstract)
        total = self.reduce(node, "sum", e, (len(x.shape) - 1,), shape)
        return self.map(node, [e, total], "{0} / {1}", node.abstract)

    def lower_LogSoftmax(self, node: CNode, x: View) -> View:
        shifted, shape = self._shifted(node, x)
        e = self.map(node, [shifted], "exp({0})", node.abstract)
        total = self.reduce(node, "sum", e, (len(x.shape) - 1,), shape)
        log = self.map(node, [total], "log({0})", AbstractTensor(node.abstract.dtype, shape))  # type: ignore
        return self.map(node, [shifted, log], "{0} - {1}", node.abstract)

    def lower_GeLU(self, node: CNode, x: View) -> View:
        """As its gradient computes it, so that the tanh is computed once for both."""
        abstract: Any = node.abstract

        def one(text: str, *operands: View | float) -> View:
            dtype = abstract.dtype.numpy
            views = [v if isinstance(v, View) else View(self.constant(np.array(v, dtype)), ())
                     for v in operands]  # fmt: skip
            return self.map(node, views, text, abstract)

        cube = one("{0} * {1}", one("{0} * {1}", one("{0} * {1}", 0.044715, x), x), x)
        inner = one("{0} * {1}", 0.7978845608028654, one("{0} + {1}", x, cube))
        share = one("{0} + {1}", 1, one("tanh({0})", inner))
        return one("{0} * {1}", one("{0} * {1}", 0.5, x), share)

    def lower_BiasAdd(self, node: CNode, x: View, bias: View) -> View:
        last = node.callee.attrs["data_format"] == "NHWC"  # type: ignore[union-attr]
        ones = (1,) * (0 if last else len(x.shape) - 2)
        return self.map(
            node, [x, View(bias.buffer, (bias.size, *ones))], "{0} + {1}", node.abstract
        )

    # ----------------------------------------------------------------- by index

    def lower_GatherD(self, node: CNode, x: View, index: View) -> View:
        """One element of each row."""
        shape = node.abstract.shape  # type: ignore[attr-defined]
        return self.emit(node, "pick", [x, index], x.buffer.dtype, shape, math.prod(shape),
                         x.shape[-1], gives="row", ways=[("full",), ("row",)])  # fmt: skip

    def lower_TensorScatterElements(self, node: CNode, x: View, index: View, update: View) -> View:
        """Zeros but for one element of each row."""
        whole = self.whole(index)
        place = self.map(node, [whole], f"cast_i4({{0}} % {x.shape[-1]})",
                         AbstractTensor(int32, whole.shape))  # fmt: skip
        return self.map(node, [place, update], "({1} if i4(j) == {0} else 0)", node.abstract)

    def lower_Gather(self, node: CNode, x: View, index: View) -> View:
        """Row r of the result is a row of the operand: a map that reads it there."""
        shape = node.abstract.shape  # type: ignore[attr-defined]
        rows, columns = index.size, x.size // x.shape[0]
        ways: list[tuple] = [("index",), ("gather", x.shape[0])]
        if columns == 1:
            rows, columns, ways = 1, rows, [("full",), ("lookup", x.shape[0])]
        return self.emit(node, "map", [index, x], x.buffer.dtype, shape, rows, columns, ways=ways,
                         text="{1}")  # fmt: skip

    def lower_GatherIndex(self, node: CNode, x: View, *indices: View) -> View:
        return self.lower_Gather(node, *self.by_one_index(node, x, indices))

    def lower_SetIndex(self, node: CNode, x: View, value: View, *indices: View) -> View:
        """A value with one row replaced."""
        rows, index = self.by_one_index(node, x, indices)
        row = self.whole(layout.broadcast(value, rows.shape[1:]))
        n, columns = rows.shape[0], rows.size // rows.shape[0]
        return self.emit(node, "put", [rows, row, index], x.buffer.dtype, x.shape, n, columns,
                         gives="own", more={"adds": is_call_of(node, "AddIndex")})  # fmt: skip

    lower_AddIndex = lower_SetIndex

    def by_one_index(self, node: CNode, x: View, indices: Sequence[View]) -> tuple[View, View]:
        """Rows of the first axes, and which of them: several indices as one."""
        n = len(indices)
        rows = View(x.buffer, (math.prod(x.shape[:n]), *x.shape[n:]))
        if n == 1:
            return rows, indices[0]
        shape = np.broadcast_shapes(*(i.shape for i in indices))
        text = "0"
        for i, size in enumerate(x.shape[:n]):
            text = f"({text}) * {size} + {{{i}}} % {size}"
        return rows, self.map(node, indices, text, AbstractTensor(int64, shape))

    def lower_IndexAdd(self, node: CNode, x: View, index: View, y: View) -> View:
        zero = _is_zero(x)
        inputs = [self.whole(index), self.whole(y), *([] if zero else [self.whole(x)])]
        return self.emit(node, "index add", inputs, x.buffer.dtype, x.shape, x.shape[0],
                         x.size // x.shape[0], gives="own")  # fmt: skip

    # ----------------------------------------------------------------- products

    def lower_Add(self, node: CNode, x: View, y: View) -> View:
        """A bias is what a product starts from, if only products read the sum."""
        for one, other, source in ((x, y, node.inputs[0]), (y, x, node.inputs[1])):
            step = one.buffer.step
            if (
                step is not None and step.kind == "matmul" and len(step.inputs) == 2
                and one.is_whole and way(other, one.shape) == ("column",)
                and one.shape == node.abstract.shape  # type: ignore[attr-defined]
                and other.buffer.step is None and len(self.users[id(source)]) == 1
                and step.node is source and step.more["result"].is_whole
                and self.is_only_multiplied(node)
            ):  # fmt: skip
                start = layout.broadcast(other, one.shape)
                base = self.copy([start], one.shape, [View(other.buffer, one.shape)])
                self.steps.insert(self.steps.index(step), self.steps.pop())
                step.inputs.append(base)
                step.out.at = base.buffer
                return one
        return self.map(node, [x, y], "{0} + {1}", node.abstract)

    def is_only_multiplied(self, node: Node) -> bool:
        """True if only products read a value, if need be by strides."""
        users = self.users.get(id(node), [])
        return bool(users) and all(
            isinstance(u, CNode) and (
                is_call_of(u, "MatMul") or is_call_of(u, "BatchMatMul")
                or (is_call_of(u, "Reshape") or is_call_of(u, "Transpose"))
                and self.is_only_multiplied(u)
            ) for u in users
        )  # fmt: skip

    def lower_MatMul(self, node: CNode, a: View, b: View) -> View:
        attrs = node.callee.attrs  # type: ignore[union-attr]
        if attrs["transpose_a"]:
            a = _turned(a)
        if attrs["transpose_b"]:
            b = _turned(b)
        shape = node.abstract.shape  # type: ignore[attr-defined]
        perm = self.wanted_order(node, len(shape))
        stored = tuple(shape[p] for p in perm)
        out = Buffer(a.buffer.dtype, math.prod(shape))
        view = layout.permuted(View(out, stored), [perm.index(i) for i in range(len(perm))])
        a, b = (self.multiplicable(v) for v in (a, b))
        out.step = Step("matmul", [a, b], out, 1, out.size, node=node, gives="own",
                        more={"result": view})  # fmt: skip
        self.steps.append(out.step)
        return view

    lower_BatchMatMul = lower_MatMul

    def wanted_order(self, node: Node, ndim: int) -> tuple[int, ...]:
        """In which order to store the axes of a product: as the Transpose that alone reads it."""
        users = self.users.get(id(node), [])
        (user,) = users if len(users) == 1 else (None,)
        if isinstance(user, CNode) and getattr(user.callee, "name", "") == "Transpose":
            perm = user.callee.attrs["perm"]  # type: ignore[union-attr]
            if perm[-1] in (ndim - 1, ndim - 2):  # rows or columns stay contiguous
                return perm
        return tuple(range(ndim))

    def multiplicable(self, view: View) -> View:
        """Matrices as BLAS can read them: rows or columns contiguous, the others apart."""
        m, n, row, column = view.matrix
        fits = (n == 1 or column == 1) and (m == 1 or row >= n)
        turned = (m == 1 or row == 1) and (n == 1 or column >= m)
        return view if fits or turned else self.whole(view)


_READ_VIEWS = frozenset(
    "Reshape ExpandDims Squeeze Identity StopGradient Transpose BroadcastTo StridedSlice ReverseV2 "
    "Fill Concat Stack Pad StridedSliceGrad Tile Split Add Cast TensorScatterElements IndexAdd "
    "MatMul BatchMatMul SetSlice".split()
)


_ACCUMULATING = frozenset(  # of half floats, in float32
    "ReduceSum ReduceMean ReduceMax ReduceMin Softmax LogSoftmax GeLU MatMul BatchMatMul".split()
)


def merged(shape: Shape, operands: Sequence[View]) -> tuple[Shape, list[View]]:
    """Fewer axes, if some operand needs that to be readable: a bias of channels, for example."""
    if all(way(v, shape) for v in operands):
        return shape, list(operands)
    wide = [layout.broadcast(v, shape) for v in operands]
    sizes, (_, *steps) = layout.collapsed(shape, layout.row_major(shape), *(v.steps for v in wide))
    views = [strided(v.buffer, sizes, s, v.offset) for v, s in zip(wide, steps, strict=True)]
    fits = all(way(v, tuple(sizes)) for v in views)
    return (tuple(sizes), views) if fits else (shape, list(operands))


def _turned(view: View) -> View:
    """Matrices transposed."""
    n = len(view.shape)
    return layout.permuted(view, [*range(n - 2), n - 1, n - 2])


def _is_zero(view: View) -> bool:
    return view.buffer.value is not None and not view.buffer.value.any()


def way(view: View, shape: Shape) -> tuple:
    """How a step of a shape reads an operand; () if it cannot."""
    if view.buffer.size == 1:
        return ("full",) if math.prod(shape) == 1 else ("scalar",)
    once = layout.unbroadcast(view)
    own = (1,) * (len(shape) - len(view.shape)) + once.shape
    if not once.is_whole:
        rows = layout.rows_of(layout.broadcast(view, shape))
        return ("strided", *rows) if rows and shape[-1] != 1 else ()
    if own == shape:
        return ("full",)
    if own[:-1] == shape[:-1]:
        return ("row",) if own[-1] == 1 else ()
    lead = next(i for i, n in enumerate(own) if n != 1)
    if own[lead:-1] != shape[lead:-1]:
        return ()
    if own[-1] == shape[-1]:
        period = math.prod(own[lead:-1])
        return ("column",) if period == 1 else ("cyclic", period)
    return ("cyclic row", math.prod(own[lead:-1])) if own[-1] == 1 else ()


__all__ = ["Buffer", "Lowering", "Step", "View", "way"]
