"""The kernels of a plan, for readers: ``ms.explain(fn, x).kernels``.

Each has the source that is compiled, which is short Python, the nodes that it computes, the lines
of the user's source that made them, and what it moves and computes (engine/counts.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from minispore.engine import Executable, counts
from minispore.engine.emit import Kernel
from minispore.engine.layout import Buffer
from minispore.engine.plan import Instruction, Routine
from minispore.engine.segments import Segment
from minispore.ir.node import CNode, FuncGraph, Location, Node
from minispore.ir.text import graph_names, node_names
from minispore.primitive import Primitive


@dataclass(frozen=True)
class KernelInfo:
    """A kernel, as a reader sees it.

    Attributes:
        name: its place in the plan, ``0.12``: row 12 of instruction 0; of other routines than the
            first ``@body 0.12``.
        title: the primitives that it computes.
        source: what is compiled: a Python function over raw memory.
        nodes: the numbers that the text of the optimized graph gives the nodes that it computes.
        lines: the places in the user's source that made them.
        reads, writes: names of values as in the plan, and how many bytes.
        operations: how many it does on elements.
        arguments: what ``args[0]``, ``args[1]`` ... in its source are: sizes, and the values whose
            addresses are in ``slots``.
        parts: in how many calls its work is done.
        kernel: the kernel itself, for who goes deeper.
    """

    name: str
    title: str
    source: str
    nodes: tuple[str, ...]
    lines: tuple[Location, ...]
    reads: dict[str, int]
    writes: dict[str, int]
    operations: int
    arguments: tuple[str, ...]
    parts: int
    kernel: Kernel

    @property
    def bytes(self) -> int:
        """The bytes that it must move."""
        return sum(self.reads.values()) + sum(self.writes.values())

    def __str__(self) -> str:
        places = ", ".join(dict.fromkeys(map(str, self.lines)))
        words = [f"kernel {self.name}: {self.title}", f"  {self.moves()}"]
        words += [f"  nodes {', '.join(self.nodes)}"] * bool(self.nodes)
        words += [f"  lines {places}"] * bool(places)
        words += [f"  args {', '.join(self.arguments)}"]
        return "\n".join([*words, "", self.source.rstrip()])

    __repr__ = __str__

    def moves(self) -> str:
        """What it reads and writes, in words."""
        reads, writes = (_amounts(found) for found in (self.reads, self.writes))
        return f"reads {reads}; writes {writes}; {self.operations:,} operations"


def _amounts(found: dict[str, int]) -> str:
    return ", ".join(f"{name} {size:,} B" for name, size in found.items()) or "nothing"


def _argument(value: int | Buffer, known: dict[Buffer, str]) -> str:
    """A size, the name of a value, or "BLAS" for the address of a routine."""
    if isinstance(value, Buffer):
        return known[value.home]
    return str(value) if value < 2**32 else "BLAS"


def kernels_of(plan: Executable) -> list[KernelInfo]:
    """The kernels of a plan, in the order in which they run first."""
    names = NodeNames(plan.graph)
    found: list[KernelInfo] = []
    for routine, number, step in segments_of(plan):
        known = buffer_names(step)
        seen: set[int] = set()
        for at, row in enumerate(step.function.rows):
            if row.kernel is not None and id(row.kernel) not in seen:
                seen.add(id(row.kernel))
                name = f"{place_name(plan, routine, number)}.{at}"
                found.append(_info(name, row.kernel, row.part[1], names, known))
    return found


def segments_of(plan: Executable) -> Iterator[tuple[Routine, int, Instruction]]:
    """The instructions that run kernels: their routines, their numbers in these, themselves."""
    for routine in plan.routines.values():
        for number, step in enumerate(routine.instructions):
            if isinstance(step.function, Segment):
                yield routine, number, step


def place_name(plan: Executable, routine: Routine, number: int) -> str:
    """``3``, or ``@body 3`` for instructions of other routines than the first."""
    return str(number) if routine is plan.main else f"@{routine.graph.name} {number}"


def buffer_names(step: Instruction) -> dict[Buffer, str]:
    """What the plan's listing calls the buffers of a segment."""
    return step.function.named([f"s{i}" for i in (*step.inputs, *step.outputs)])


class NodeNames:
    """The numbers that the text form gives the nodes of all graphs: ``%3``, ``@body %2``."""

    def __init__(self, graph: FuncGraph):
        graphs = graph.graphs()
        titles = graph_names(graphs)
        self._names: dict[Node, str] = {}
        for g in graphs:
            before = "" if g is graph else f"{titles[g]} "
            self._names |= {node: before + name for node, name in node_names(g).items()}

    def of(self, node: Node) -> str:
        """A node's number; nothing for nodes that only the engine has."""
        return self._names.get(node, "")


def nodes_in(kernel: Kernel) -> list[CNode]:
    """The nodes that a kernel computes, wholly or in part."""
    nodes = (s.node for s in kernel.group.steps)
    return list(dict.fromkeys(n for n in nodes if isinstance(n, CNode)))


def title_of(kernel: Kernel) -> str:
    """The primitives of its nodes, such as ``Mul×3 Add``; "copy" where it only copies."""
    callees = [n.callee for n in nodes_in(kernel)]
    runs = groupby(c.name for c in callees if isinstance(c, Primitive))
    counted = ((name, len(list(run))) for name, run in runs)
    return " ".join(f"{name}×{n}" if n > 1 else name for name, n in counted) or "copy"


def _info(
    name: str, kernel: Kernel, parts: int, names: NodeNames, known: dict[Buffer, str]
) -> KernelInfo:
    nodes = nodes_in(kernel)
    lines = dict.fromkeys(n.origin.where for n in nodes)
    return KernelInfo(
        name, title_of(kernel), kernel.source,
        nodes=tuple(filter(None, map(names.of, nodes))),
        lines=tuple(where for where in lines if where is not None),
        reads={known[b]: size for b, size in counts.reads(kernel).items()},
        writes={known[b]: size for b, size in counts.writes(kernel).items()},
        operations=counts.operations(kernel),
        arguments=tuple(_argument(a, known) for a in kernel.arguments),
        parts=parts,
        kernel=kernel,
    )  # fmt: skip
