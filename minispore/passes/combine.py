"""combine_like_graphs: calls of equal graphs become calls of one graph.

Every call of a function or Cell was evaluated to a graph of its own.  The layers of a network are
often equal but for their operands; J and the passes then work on one of them (MindSpore:
``combine_like_graphs``).  Graphs are equal if they have the same nodes, from the same lines of
source; effects also from the same calls, for an error shows those.
"""

from __future__ import annotations

from collections.abc import Hashable

from minispore.ir.compare import callee_key, constant_key
from minispore.ir.node import CNode, FuncGraph, Node, ValueNode, graphs_of
from minispore.passes.rewrite import (
    Fire,
    GraphMap,
    Log,
    Parts,
    call_groups,
    rebuild_graphs,
    with_inputs,
)
from minispore.primitive import Primitive

NAME, LAW = "combine_like_graphs", "f(x), g(y) -> f(x), f(y), if g is equal to f"


def combine_like_graphs(graph: FuncGraph, log: Log | None = None) -> FuncGraph:
    """The graph with one of each set of equal graphs."""
    twins = _twins(graph)

    def rebuild(g: FuncGraph, nodes: list[Node], new: GraphMap) -> Parts:
        memo: dict[Node, Node] = {}
        for node in nodes:
            memo[node] = node
            if isinstance(node, CNode):
                call = with_inputs(node, memo, new)
                twin = twins.get(node.callee) if isinstance(node.callee, FuncGraph) else None
                if twin is not None:
                    twin = new.get(twin, twin)
                    call = CNode(twin, call.inputs, node.abstract, node.origin)
                    if log is not None:
                        log.append(Fire(NAME, LAW, node, call, g))
                memo[node] = call
        return g.parameters, memo[g.output]

    return rebuild_graphs(graph, rebuild)


def _twins(entry: FuncGraph) -> dict[FuncGraph, FuncGraph]:
    """For a graph that is equal to an earlier one: that one."""
    first: dict[Hashable, FuncGraph] = {}
    twins: dict[FuncGraph, FuncGraph] = {}
    for group in call_groups(entry):
        for g, nodes in group.items():
            if len(group) == 1 and g not in g.callees():  # recursive graphs are equal to no other
                found = first.setdefault(_key(g, nodes, twins), g)
                if found is not g:
                    twins[g] = found
    return twins


def _key(graph: FuncGraph, nodes: list[Node], twins: dict[FuncGraph, FuncGraph]) -> Hashable:
    """What equal graphs have in common; graphs that it refers to are known by their twins."""
    numbers: dict[Node, Hashable] = {p: k for k, p in enumerate(graph.parameters)}
    keys: list[Hashable] = [p.abstract for p in graph.parameters]
    for node in nodes:
        if isinstance(node, ValueNode):
            numbers[node] = constant_key(node)
        elif isinstance(node, CNode):
            numbers[node] = len(numbers)
            origin = node.origin
            is_effect = isinstance(node.callee, Primitive) and node.callee.effect
            callers = origin.callers if is_effect else ()
            graphs = tuple(twins.get(g, g) for g in graphs_of(node.callee))
            operands = tuple(numbers[i] for i in node.inputs)
            place = (origin.where, origin.phase, callers)
            keys.append((callee_key(node.callee), graphs, operands, node.abstract, place))
    bprop = twins.get(graph.bprop, graph.bprop) if graph.bprop else None
    kind = (graph.name, graph.scope_kind, graph.recompute, bprop)
    return (kind, numbers[graph.output], tuple(keys))
