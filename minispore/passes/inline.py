"""inline: a call of a graph becomes the graph's body.

Until here the user's functions and Cells are calls, so that equal blocks are evaluated and
differentiated once; from here on there is one graph to optimise.  Not inlined: graphs that call
themselves, graphs with a gradient of their own while a Grad is still to be expanded, calls that
would make a graph larger than MAX_NODES, and, unless `late`, Cells that ask for it (lazy_inline).
"""

from __future__ import annotations

from collections.abc import Sequence

from minispore.ir.node import LATE, CNode, FuncGraph, Node, graphs_of
from minispore.passes.rewrite import (
    Fire,
    GraphMap,
    Log,
    Parts,
    call_groups,
    rebuild_graphs,
    with_inputs,
)

MAX_NODES = 100_000
LAW = "a call of a graph -> its body"


def inline(graph: FuncGraph, log: Log | None = None, late: bool = False) -> FuncGraph:
    """Replace calls by the bodies of the graphs called."""
    kept = _not_to_inline(graph, late)
    sizes: dict[FuncGraph, int] = {}

    def rebuild(g: FuncGraph, nodes: list[Node], new: GraphMap) -> Parts:
        memo: dict[Node, Node] = {}
        size = len(nodes)
        for node in nodes:
            memo[node] = node
            if not isinstance(node, CNode):
                continue
            call = memo[node] = with_inputs(node, memo, new)
            callee = node.callee
            if isinstance(callee, FuncGraph) and callee not in kept:
                size += sizes[callee]
                if size > MAX_NODES:
                    size -= sizes[callee]
                    continue
                memo[node] = copy_body(new.get(callee, callee), call.inputs)
                if log is not None:
                    log.append(Fire("inline", LAW, call, memo[node], g))
        sizes[g] = size
        return g.parameters, memo[g.output]

    return rebuild_graphs(graph, rebuild)


def copy_body(graph: FuncGraph, operands: Sequence[Node]) -> Node:
    """The output of a copy of all nodes, on `operands`.

    A copy also of what depends on no parameter: no two graphs share a node.
    """
    memo: dict[Node, Node] = dict(zip(graph.parameters, operands, strict=True))
    for node in graph.nodes():
        if isinstance(node, CNode):
            inputs = [memo[i] for i in node.inputs]
            memo[node] = CNode(node.callee, inputs, node.abstract, node.origin)
        else:
            memo.setdefault(node, node)
    return memo[graph.output]


def has_late(graph: FuncGraph) -> bool:
    """True if a graph has calls that are inlined late."""
    return any(g.scope_kind == LATE for g in graph.graphs()[1:])


def _not_to_inline(entry: FuncGraph, late: bool) -> set[FuncGraph]:
    """Recursive graphs; those with a bprop, before J; those of lazy_inline, unless `late`."""
    kept: set[FuncGraph] = set()
    before_grad = entry.has_grad()
    for group in call_groups(entry):
        for g, nodes in group.items():
            calls = {h for n in nodes if isinstance(n, CNode) for h in graphs_of(n.callee)}
            waits = (before_grad and g.bprop is not None) or (g.scope_kind == LATE and not late)
            if waits or not calls.isdisjoint(group):
                kept.add(g)
    return kept
