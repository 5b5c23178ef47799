"""When two constants, or two graphs, are the same.

Nodes are compared by identity everywhere else; tests of passes, and of printing and parsing, ask
whether two graphs are equal up to the names of their nodes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from minispore.abstract import Abstract
from minispore.ir.node import (
    Callee,
    CNode,
    FuncGraph,
    Grad,
    Node,
    ParameterNode,
    ValueNode,
    While,
    graphs_of,
)
from minispore.primitive import Primitive


def value_key(value: Any) -> Hashable:
    """A key that two constants share if they are equal to the last bit.

    It tells 1, 1.0 and True apart, 0.0 and -0.0, and arrays of other dtypes or shapes.
    """
    if isinstance(value, np.ndarray):
        return (value.dtype, value.shape, value.tobytes())
    return (type(value).__name__, repr(value))


def constant_key(node: ValueNode) -> tuple[Abstract, Hashable]:
    """The key of a constant node: its type and its value's bits."""
    return (node.abstract, value_key(node.value))


def same_graph(a: FuncGraph, b: FuncGraph) -> bool:
    """True if two graphs, and all they reach, are equal up to names and origins.

    Which nodes and graphs are shared counts (an expression computed twice is not one used twice),
    but constants have no identity: they are equal by type and bits.
    """
    pairs = {a: b}
    todo = [(a, b)]
    while todo:
        g, h = todo.pop()
        found = _graph_pairs(g, h)
        if found is None:
            return False
        for old, new in found:
            if old not in pairs:
                pairs[old] = new
                todo.append((old, new))
            elif pairs[old] is not new:
                return False
    return len(set(pairs.values())) == len(pairs)


GraphPairs = list[tuple[FuncGraph, FuncGraph]]


def _graph_pairs(a: FuncGraph, b: FuncGraph) -> GraphPairs | None:
    """The pairs of graphs that must be equal for `a` and `b` to be; None if they are not.

    The order of ``nodes()`` depends on structure alone, so equal graphs list equal nodes.
    """
    if [p.abstract for p in a.parameters] != [p.abstract for p in b.parameters]:
        return None
    twin: dict[Node, Node] = dict(zip(a.parameters, b.parameters, strict=True))
    nodes_a, nodes_b = ([n for n in g.nodes() if isinstance(n, CNode)] for g in (a, b))
    if len(nodes_a) != len(nodes_b) or (a.bprop is None) != (b.bprop is None):
        return None
    if a.recompute != b.recompute:
        return None
    found: GraphPairs = []
    if a.bprop is not None and b.bprop is not None:
        found.append((a.bprop, b.bprop))
    for x, y in zip(nodes_a, nodes_b, strict=True):
        if not (
            x.abstract == y.abstract
            and callee_key(x.callee) == callee_key(y.callee)
            and len(x.inputs) == len(y.inputs)
            and all(_same_node(i, j, twin) for i, j in zip(x.inputs, y.inputs, strict=True))
        ):
            return None
        found += zip(graphs_of(x.callee), graphs_of(y.callee), strict=True)
        twin[x] = y
    return found if _same_node(a.output, b.output, twin) else None


def _same_node(a: Node, b: Node, twin: dict[Node, Node]) -> bool:
    if isinstance(a, ValueNode):
        return isinstance(b, ValueNode) and constant_key(a) == constant_key(b)
    if isinstance(a, ParameterNode) and a not in twin:
        return False  # it belongs to another graph: no valid graph uses it
    return twin[a] is b


def callee_key(callee: Callee) -> Hashable:
    """What callees must have in common, their graphs aside."""
    if isinstance(callee, Primitive):
        return callee
    details: tuple = ()
    if isinstance(callee, While):
        details = (callee.n_const, callee.trip_count)
    elif isinstance(callee, Grad):
        details = (callee.wrt, callee.n_out, callee.with_sens)
    return (type(callee), len(graphs_of(callee)), details)
