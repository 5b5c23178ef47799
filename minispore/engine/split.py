"""Which nodes of a graph run as kernels, and in which order: as few segments as possible.

All else is left to the plan (plan.py).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence

from minispore.abstract import AbstractScalar, AbstractTuple
from minispore.engine import cache
from minispore.engine.covered import can_fail, is_native, is_number
from minispore.engine.segments import MixedSegment, Segment
from minispore.ir.node import (
    CNode,
    Node,
    ParameterNode,
    Switch,
    ValueNode,
    is_call_of,
    is_tuple_plumbing,
    item_index,
)


def split(order: Sequence[Node], output: Node) -> list[Node | Segment]:
    """The nodes of a graph in an order in which they can run, kernels' nodes in segments.

    All others keep their order, and so do kernels that can fail: what fails first is what fails
    first in Python.
    """
    fast = _fast(order, output)
    phase: dict[int, int] = {}
    latest = 0  # phase of what must not come later than what follows
    phases: dict[int, list[Node]] = {}
    for node in order:
        own = max((phase.get(id(i), 0) for i in node.inputs), default=0)
        keeps_order = item_index(node) is None and (
            can_fail(node) if id(node) in fast else not is_call_of(node, "MakeTuple")
        )
        if keeps_order and isinstance(node, CNode):
            own = max(own, latest)
        own += own % 2 if id(node) in fast else 1 - own % 2  # even phases are native
        if isinstance(node, (ParameterNode, ValueNode)):
            own = 0
        elif keeps_order:
            latest = own
        phase[id(node)] = own
        phases.setdefault(own if isinstance(node, CNode) else -1, []).append(node)
    users: dict[int, set[int]] = {}
    for node in order:
        for i in node.inputs:
            users.setdefault(id(i), set()).add(phase[id(node)])
    users.setdefault(id(output), set()).add(-1)
    found: list[Node | Segment] = []
    for number in sorted(phases):
        nodes = phases[number]
        if number % 2 or number < 0:
            found += nodes
            continue
        outputs = [n for n in nodes if users.get(id(n), {number}) - {number}]
        try:
            found.append(segment([n for n in nodes if isinstance(n, CNode)], outputs))
        except cache.NoKernel as error:
            warn_without_kernels(str(error))
            found += nodes
    return found


def _fast(order: Sequence[Node], output: Node) -> set[int]:
    """The nodes that kernels compute: all they can, and numbers between such nodes."""
    whole = {id(i) for n in order if item_index(n) is None for i in n.inputs} | {id(output)}
    fast: set[int] = set()
    numbers: dict[int, Node] = {}
    for node in order:
        index = item_index(node)
        # a tuple has no array of its own: a loop's must be taken apart
        call = node if index is None else node.inputs[0]
        if isinstance(call.abstract, AbstractTuple) and id(call) in whole:
            continue
        if id(call) in fast if index is not None else is_native(node) and not _only_picks(node):
            fast.add(id(node))
        elif any(id(i) in fast or id(i) in numbers for i in node.inputs) and is_number(node):
            numbers[id(node)] = node
    wanted = {id(i) for n in order if id(n) in fast for i in n.inputs}
    for key, node in reversed(numbers.items()):
        if key in wanted:
            fast.add(key)
            wanted |= {id(i) for i in node.inputs}
    return fast


def _only_picks(node: Node) -> bool:
    """True for a Switch that chooses between values: the plan does that without copying them."""
    return isinstance(node, CNode) and isinstance(node.callee, Switch) and all(
        is_tuple_plumbing(n)
        for g in node.callee.graphs for n in g.nodes() if isinstance(n, CNode)
    )  # fmt: skip


@functools.cache
def warn_without_kernels(reason: str) -> None:
    """Say, once for each reason, that NumPy does the work of kernels."""
    warnings.warn(
        f"no machine code can be made here ({reason}); NumPy computes instead, which is slower. "
        "Installing llvmlite again may help",
        RuntimeWarning,
        stacklevel=2,
    )


def segment(nodes: list[CNode], outputs: list[Node]) -> Segment:
    """The segment of some nodes, of which `outputs` are used elsewhere."""
    around = [*outputs, *(i for n in nodes for i in n.inputs)]
    numbers = any(isinstance(n.abstract, AbstractScalar) for n in around)
    mixed = numbers or any(map(can_fail, nodes))
    return (MixedSegment if mixed else Segment)(nodes, outputs)
