"""inline and lazy_inline: a call of a graph becomes the graph's body.

``inline`` does so early where the body is small or called once.  Larger graphs that are called
several times, as the equal layers of a network, stay calls: what the other passes do to one is done
to all.  ``lazy_inline`` then makes one graph of everything, which is optimised as a whole.  (Cells
that ask for it by MindSpore's ``@lazy_inline`` stay calls until then in any case.)

Never inlined: graphs that call themselves, graphs with a gradient of their own (or that are to be
recomputed) while a Grad is still to be expanded, and calls that would make a graph larger than
MAX_NODES.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace

from minispore.ir.node import (
    LATE,
    CNode,
    FuncGraph,
    Node,
    Origin,
    Switch,
    While,
    copied_parameters,
    graphs_of,
    with_graphs,
)
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
SMALL = 12  # nodes; about as much as a call and its results take
LAW = "a call of a graph -> its body"


def inline(graph: FuncGraph, log: Log | None = None, shared: int = SMALL) -> FuncGraph:
    """Replace calls by the bodies of the graphs called.

    Graphs of more than `shared` nodes stay calls if they are called more than once.
    """
    kept = _not_to_inline(graph, shared)
    calls = Counter(
        n.callee
        for g in graph.graphs(with_bprop=True)
        for n in g.nodes()
        if isinstance(n, CNode) and isinstance(n.callee, FuncGraph)
    )
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
                is_large = sizes[callee] > shared and calls[callee] > 1
                if is_large or size + sizes[callee] > MAX_NODES:
                    continue
                size += sizes[callee]
                copy = Copy(call.origin, kept if calls[callee] > 1 else None)
                memo[node] = copy.body(new.get(callee, callee), call.inputs)
                if log is not None:
                    log.append(Fire("inline", LAW, call, memo[node], g))
        sizes[g] = size
        return g.parameters, memo[g.output]

    return rebuild_graphs(graph, rebuild)


lazy_inline = functools.partial(inline, shared=MAX_NODES)


class Copy:
    """Copies of graphs whose nodes stand where a call stands: in its scope, in its phase.

    A copy also of what depends on no parameter: no two graphs share a node.  `kept`:
    if it is given, arms and loops are copied too, but for these graphs.
    """

    def __init__(self, call: Origin, kept: set[FuncGraph] | None):
        self.call, self.kept = call, kept
        self.origins: dict[Origin, Origin] = {}
        self.base = call

    def body(self, graph: FuncGraph, operands: tuple[Node, ...]) -> Node:
        """The output of a copy of all nodes, on `operands`."""
        self.base = graph.origin
        return self.output(graph, operands)

    def output(self, graph: FuncGraph, operands: tuple[Node, ...]) -> Node:
        memo: dict[Node, Node] = dict(zip(graph.parameters, operands, strict=True))
        for node in graph.nodes():
            if isinstance(node, CNode):
                callee = node.callee
                if self.kept is not None and isinstance(callee, (Switch, While)):
                    callee = with_graphs(callee, tuple(map(self.graph, graphs_of(callee))))
                inputs = [memo[i] for i in node.inputs]
                memo[node] = CNode(callee, inputs, node.abstract, self.origin(node.origin))
            else:
                memo.setdefault(node, node)
        return memo[graph.output]

    def graph(self, graph: FuncGraph) -> FuncGraph:
        """A copy of an arm, or of a graph of a loop."""
        if self.kept is None or graph in self.kept:
            return graph
        parameters = copied_parameters(graph.parameters)
        copy = graph.frame(parameters)
        copy.set_output(self.output(graph, copy.parameters))
        return copy

    def origin(self, origin: Origin) -> Origin:
        """The origin of a copied node."""
        if origin not in self.origins:
            scope, phase = origin.scope, origin.phase
            if scope.startswith(self.base.scope):
                scope = self.call.scope + scope.removeprefix(self.base.scope)
            if phase == self.base.phase:
                phase = self.call.phase
            self.origins[origin] = replace(origin, scope=scope, phase=phase)
        return self.origins[origin]


def _not_to_inline(entry: FuncGraph, shared: int) -> set[FuncGraph]:
    """Recursive graphs; before J those with a bprop or to be recomputed; early, lazy Cells."""
    kept: set[FuncGraph] = set()
    before_grad = entry.has_grad()
    for group in call_groups(entry):
        for g, nodes in group.items():
            calls = {h for n in nodes if isinstance(n, CNode) for h in graphs_of(n.callee)}
            is_js = before_grad and (g.bprop is not None or g.recompute)
            waits = g.scope_kind == LATE and shared < MAX_NODES
            if is_js or waits or not calls.isdisjoint(group):
                kept.add(g)
    return kept
