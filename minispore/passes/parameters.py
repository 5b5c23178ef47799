"""parameter_eliminate: what is the same at every call of a graph moves into the graph.

    a constant operand               the graph has the constant, and can fold it
    two operands that are one node   the graph has one parameter
    the choice of a Switch           in the arm for True it is True

The operands that are then unread go with dead_code.  Carries of loops change from trip to trip and
are left alone, and so are graphs under a Grad or with a gradient of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from minispore.abstract import TOKEN, AbstractScalar, AbstractTensor
from minispore.ir.compare import constant_key
from minispore.ir.node import CNode, FuncGraph, Grad, Node, Switch, ValueNode, While, graphs_of
from minispore.passes.rewrite import (
    Fire,
    GraphMap,
    Log,
    Parts,
    call_groups,
    rebuild_graphs,
    with_inputs,
)

NAME, LAW = "same_at_every_call", "f(x, 2) -> f(x), if all calls of f pass 2"


@dataclass(frozen=True)
class _Call:
    """What a node passes to the parameters of a graph; the first `fixed` are no carries."""

    operands: Sequence[Node]
    fixed: int
    choice: Node | None = None
    number: int = 0  # which graph of a Switch this is

    def operand(self, k: int) -> Node:
        """Operand `k`: in an arm, the choice is known."""
        node = self.operands[k]
        if node is not self.choice:
            return node
        abstract = node.abstract
        if abstract == AbstractScalar(int):
            return ValueNode(self.number, abstract, node.origin)
        truth = self.number == 0
        value = np.full(abstract.shape, truth) if isinstance(abstract, AbstractTensor) else truth
        return ValueNode(value, abstract, node.origin)


def parameter_eliminate(graph: FuncGraph, log: Log | None = None) -> FuncGraph:
    """Replace parameters by constants, and by each other."""
    calls = _calls(graph)

    def rebuild(g: FuncGraph, nodes: list[Node], new: GraphMap) -> Parts:
        memo: dict[Node, Node] = {}
        for parameter, known in _known(g, calls.get(g, [])).items():
            memo[parameter] = known
            if log is not None:
                log.append(Fire(NAME, LAW, parameter, known, g))
        for node in nodes:
            if isinstance(node, CNode):
                memo[node] = with_inputs(node, memo, new)
            else:
                memo.setdefault(node, node)
        return g.parameters, memo[g.output]

    return rebuild_graphs(graph, rebuild)


def _calls(entry: FuncGraph) -> dict[FuncGraph, list[_Call]]:
    """All calls of each graph; none for graphs that must stay as they are."""
    calls: dict[FuncGraph, list[_Call]] = {}
    kept = {entry}
    for group in call_groups(entry):
        for g, nodes in group.items():
            if g.bprop is not None:
                kept |= {g, g.bprop}
            for node in nodes:
                if isinstance(node, CNode):
                    if isinstance(node.callee, Grad):
                        kept.add(node.callee.graph)
                    for number, callee in enumerate(graphs_of(node.callee)):
                        calls.setdefault(callee, []).append(_call(node, number))
    return {g: found for g, found in calls.items() if g not in kept}


def _call(node: CNode, number: int) -> _Call:
    if isinstance(node.callee, Switch):
        return _Call(node.inputs[1:], len(node.inputs) - 1, node.inputs[0], number)
    fixed = node.callee.n_const if isinstance(node.callee, While) else len(node.inputs)
    return _Call(node.inputs, fixed)


def _known(graph: FuncGraph, calls: list[_Call]) -> dict[Node, Node]:
    """Parameters that are read, and what they are at every call."""
    known: dict[Node, Node] = {}
    first: dict[tuple[Hashable, ...], Node] = {}
    read = set(graph.nodes())
    for k, parameter in enumerate(graph.parameters):
        if not calls or parameter not in read or parameter.abstract == TOKEN:
            continue
        if any(k >= call.fixed for call in calls):
            continue
        operands = [call.operand(k) for call in calls]
        keys = [constant_key(o) if isinstance(o, ValueNode) else id(o) for o in operands]
        twin = first.setdefault(tuple(keys), parameter)
        if len(set(keys)) == 1 and isinstance(operands[0], ValueNode):
            known[parameter] = operands[0]
        elif twin is not parameter:
            known[parameter] = twin
    return known
