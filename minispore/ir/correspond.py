"""Which node of a graph after a pass is which node before it.

Nodes are immutable, so a pass that changes one rebuilds everything that depends on it.  To a reader
these are the old nodes still: only what a rule made is new.  Nodes correspond, in this order,

1. if they are one object;
2. if, going down from the outputs, they stand in the same place and have the same *provenance*:
   origin, callee and type;
3. if they have the same provenance, first come, first served;
4. if the same rule (or none) made them, and they call the same on corresponding operands.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable

from minispore.ir.compare import callee_key, constant_key
from minispore.ir.node import CNode, FuncGraph, Node, ParameterNode, ValueNode, graphs_of
from minispore.ir.text import graph_names, node_names


def correspond(before: FuncGraph, after: FuncGraph) -> dict[Node, Node]:
    """A node of `before` for each node of `after` that is an old one; one to one.

    Parameters and operations of all graphs that the two reach; constants have no identity.
    """
    pairs = _Pairs(before, after)
    pairs.identical()
    pairs.by_place()
    pairs.by_provenance()
    pairs.by_structure()
    return pairs.found


def twin_graphs(before: FuncGraph, after: FuncGraph) -> dict[FuncGraph, FuncGraph]:
    """A graph of `before` for each graph of `after` that has one: itself, or that of its name."""
    old = before.graphs(with_bprop=True)
    named = {name: graph for graph, name in graph_names(old).items()}
    twins = {after: before}
    for graph, name in graph_names(after.graphs(with_bprop=True)).items():
        if graph is not after:
            twin = graph if graph in old else named.get(name)
            if twin is not None:
                twins[graph] = twin
    return twins


def numbering(before: FuncGraph, after: FuncGraph, found: dict[Node, Node]) -> dict[Node, str]:
    """Names for the nodes of `after`, in which those that correspond keep their numbers.

    New nodes, and nodes that came from another graph, get numbers that follow.
    """
    twins = twin_graphs(before, after)
    names: dict[Node, str] = {}
    for graph in after.graphs(with_bprop=True):
        own = node_names(graph)
        old = node_names(twins[graph]) if graph in twins else {}
        number = sum(isinstance(n, CNode) for n in old)
        for node, name in own.items():
            if isinstance(node, ParameterNode):
                names[node] = name
            elif found.get(node) in old:
                names[node] = old[found[node]]
            else:
                number += 1
                names[node] = f"%{number}"
    return names


class _Pairs:
    """The correspondence while it is being found."""

    def __init__(self, before: FuncGraph, after: FuncGraph):
        self.twins = twin_graphs(before, after)
        self.old = _nodes(before.graphs(with_bprop=True))
        self.new = _nodes(after.graphs(with_bprop=True))
        self.found: dict[Node, Node] = {}
        self.taken: set[Node] = set()

    def match(self, new: Node, old: Node) -> None:
        self.found[new] = old
        self.taken.add(old)

    def is_free(self, new: Node, old: Node) -> bool:
        return new not in self.found and old not in self.taken

    def identical(self) -> None:
        old = set(self.old)
        for node in self.new:
            if node in old:
                self.match(node, node)

    def by_place(self) -> None:
        todo: deque[tuple[Node, Node]] = deque()
        for new_graph, old_graph in self.twins.items():
            todo.extend(zip(new_graph.parameters, old_graph.parameters, strict=False))
            todo.append((new_graph.output, old_graph.output))
            todo.extend(zip(new_graph.outputs(), old_graph.outputs(), strict=False))
        while todo:
            new, old = todo.popleft()
            key = _provenance(new)
            if key is not None and key == _provenance(old) and self.is_free(new, old):
                self.match(new, old)
                todo.extend(zip(new.inputs, old.inputs, strict=False))

    def by_provenance(self) -> None:
        waiting: dict[Hashable, deque[Node]] = defaultdict(deque)
        for node in self.old:
            if isinstance(node, CNode) and node not in self.taken:
                waiting[_provenance(node)].append(node)
        for node in self.new:
            if isinstance(node, CNode) and node not in self.found:
                same = waiting.get(_provenance(node))
                if same:
                    self.match(node, same.popleft())

    def by_structure(self) -> None:
        waiting: dict[Hashable, deque[Node]] = defaultdict(deque)
        for node in self.old:
            if isinstance(node, CNode) and node not in self.taken:
                waiting[self._structure(node, node.inputs)].append(node)
        for node in self.new:  # operands come before what is computed from them
            if isinstance(node, CNode) and node not in self.found:
                operands = [self.found.get(i, i) for i in node.inputs]
                same = waiting.get(self._structure(node, operands))
                if same:
                    self.match(node, same.popleft())

    def _structure(self, node: CNode, operands: Iterable[Node]) -> Hashable:
        keys = (constant_key(i) if isinstance(i, ValueNode) else i for i in operands)
        return (node.origin.rule, _callee(node), node.abstract, *keys)


def _nodes(graphs: Iterable[FuncGraph]) -> list[Node]:
    """Parameters and operations, in order."""
    found: dict[Node, None] = {}
    for graph in graphs:
        found |= dict.fromkeys(graph.parameters)
        found |= dict.fromkeys(n for n in graph.nodes() if isinstance(n, CNode))
    return list(found)


def _provenance(node: Node) -> Hashable:
    """Where a node comes from and what it is, but for its operands; None for a constant."""
    if isinstance(node, CNode):
        return (node.origin, node.abstract, _callee(node))
    if isinstance(node, ParameterNode):
        return (node.name, node.abstract)
    return None


def _callee(node: CNode) -> Hashable:
    """What a node calls; graphs by name, since a rewritten graph is another object."""
    return (callee_key(node.callee), *(g.name for g in graphs_of(node.callee)))
