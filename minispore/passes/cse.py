"""cse: nodes that compute the same thing become one (common-subexpression elimination).

Two nodes are the same if they have one callee and the same operands: nodes by identity, constants
by type and bits, in any order where the primitive commutes.  Effects are told apart by their Token
and never merged.  Draws of random numbers differ in their counter.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from minispore.abstract import TOKEN, Abstract, AbstractScalar, AbstractTensor, AbstractTuple
from minispore.ir.compare import callee_key, constant_key
from minispore.ir.node import CNode, FuncGraph, Node, ValueNode, graphs_of
from minispore.passes.pattern import COMMUTATIVE
from minispore.passes.rewrite import (
    Fire,
    GraphMap,
    Log,
    Parts,
    callee_name,
    rebuild_graphs,
    with_inputs,
)

LAW = "the same node twice -> once"


def cse(graph: FuncGraph, log: Log | None = None) -> FuncGraph:
    """Merge equal nodes of each graph."""

    def rebuild(g: FuncGraph, nodes: list[Node], new: GraphMap) -> Parts:
        memo: dict[Node, Node] = {}
        first: dict[Hashable, Node] = {}
        constants: dict[Node, Hashable] = {}
        for node in nodes:
            memo[node] = node
            if isinstance(node, ValueNode):
                constants[node] = constant_key(node)
            elif isinstance(node, CNode):
                rebuilt = memo[node] = with_inputs(node, memo, new)
                if has_effect(rebuilt):
                    continue
                memo[node] = first.setdefault(node_key(rebuilt, constants), rebuilt)
                if memo[node] is not rebuilt and log is not None:
                    log.append(Fire("merge_equal_nodes", LAW, rebuilt, memo[node], g))
        return g.parameters, memo[g.output]

    return rebuild_graphs(graph, rebuild)


def has_effect(node: CNode) -> bool:
    """True for nodes that take or give a Token: each is one event, not one value."""
    return any(holds(n.abstract, TOKEN) for n in (node, *node.inputs))


def holds(abstract: Abstract, kind: Abstract) -> bool:
    """True for a kind of value, and for tuples that hold one."""
    if isinstance(abstract, (AbstractTensor, AbstractScalar)):  # as most are
        return abstract == kind
    if isinstance(abstract, AbstractTuple):
        return any(holds(item, kind) for item in abstract.items)
    return abstract == kind


def node_key(node: CNode, numbers: Mapping[Node, Hashable]) -> Hashable:
    """What nodes that compute the same have in common; operands count by their number, or as
    themselves."""
    operands = [numbers.get(i, id(i)) for i in node.inputs]
    if callee_name(node) in COMMUTATIVE:
        operands.sort(key=hash)
    return (callee_key(node.callee), graphs_of(node.callee), *operands)
