"""dead_code: outputs, carries, operands and parameters that no one reads are gone.

Within a graph, what the output does not need is no part of it anyway.  Between graphs it takes a
search: from the outputs of the entry backwards, through calls, arms and loops.

    an output of a graph   is needed if some call's item is; then so is what it is made of
    a parameter            is needed if its graph reads it; then so is the operand, at every call
    a carry                is needed if it is read after the loop, by the condition or by the body

The graphs that one Switch or While calls keep the same parameters.  Whatever a graph under a Grad
or with a gradient of its own takes and gives is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from minispore.abstract import AbstractTuple
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Node,
    ParameterNode,
    Switch,
    While,
    graphs_of,
    item_index,
    make_tuple,
    tuple_item,
    tuple_parts,
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

NAME, LAW = "drop_unread", "f(x, y)[0] -> f(x)[0], if no one reads the rest"


def dead_code(graph: FuncGraph, log: Log | None = None) -> FuncGraph:
    """Remove what is never read; the entry keeps its parameters and outputs."""
    needs = _Needs(graph)

    def rebuild(g: FuncGraph, nodes: list[Node], new: GraphMap) -> Parts:
        if g not in needs.outputs:  # called only by nodes that are gone
            return g.parameters, g.output
        return _Rebuild(needs, g, new, log).parts(nodes)

    return rebuild_graphs(graph, rebuild)


@dataclass(frozen=True, eq=False)
class _Site:
    """A node that calls graphs, in its graph; operand number k + offset is their parameter k."""

    caller: FuncGraph
    node: CNode
    graphs: tuple[FuncGraph, ...]
    offset: int


class _Needs:
    """What is needed: parameters and outputs of graphs by number, and nodes."""

    def __init__(self, entry: FuncGraph):
        self.parameters: dict[FuncGraph, set[int]] = {}
        self.outputs: dict[FuncGraph, set[int]] = {}
        self.nodes: set[Node] = set()
        self.site_of: dict[Node, _Site] = {}
        self.sites: dict[FuncGraph, list[_Site]] = {}  # where a graph is called
        self.operands: set[tuple[_Site, int]] = set()
        self.results: set[tuple[_Site, int]] = set()
        self.todo: list[tuple] = []  # a method and its arguments: no recursion over graphs
        self.numbers = {
            p: k for group in call_groups(entry) for g in group for k, p in enumerate(g.parameters)
        }
        self.keep_whole(entry)
        while self.todo:
            method, *arguments = self.todo.pop()
            method(*arguments)

    def keep_whole(self, graph: FuncGraph) -> None:
        """Need all that a graph takes and gives."""
        if graph.bprop is not None and graph.bprop not in self.outputs:
            self.todo.append((self.keep_whole, graph.bprop))
        self.outputs.setdefault(graph, set())
        self.parameters.setdefault(graph, set())
        self.todo += [(self.parameter, graph, k) for k in range(len(graph.parameters))]
        self.todo += [(self.output, graph, i) for i in range(_count(graph.output))]

    def output(self, graph: FuncGraph, index: int) -> None:
        """Need an output of a graph: at all its calls, and of the graphs called there with it."""
        known = self.outputs.setdefault(graph, set())
        self.parameters.setdefault(graph, set())
        if index in known:
            return
        known.add(index)
        parts = tuple_parts(graph.output)
        if parts is not None:
            self.todo.append((self.node, graph, parts[index], None))
        else:
            is_tuple = isinstance(graph.output.abstract, AbstractTuple)
            self.todo.append((self.node, graph, graph.output, index if is_tuple else None))
        for site in self.sites.get(graph, ()):
            if not isinstance(site.node.callee, While) or graph is site.graphs[1]:
                self.result(site, index)

    def parameter(self, graph: FuncGraph, number: int) -> None:
        """Need a parameter of a graph: at all its calls, and of the graphs called there with it."""
        known = self.parameters.setdefault(graph, set())
        if number in known:
            return
        known.add(number)
        for site in self.sites.get(graph, ()):
            self.operand(site, number)

    def operand(self, site: _Site, number: int) -> None:
        """Need an operand of a call; of a loop, if it is a carry, also its next value."""
        if (site, number) in self.operands:
            return
        self.operands.add((site, number))
        operand = site.node.inputs[number + site.offset]
        self.todo.append((self.node, site.caller, operand, None))
        self.todo += [(self.parameter, g, number) for g in site.graphs]
        loop = site.node.callee
        if isinstance(loop, While) and number >= loop.n_const:
            self.todo.append((self.output, loop.body, number - loop.n_const))

    def result(self, site: _Site, index: int) -> None:
        """Need an item of the result of a call."""
        if (site, index) in self.results:
            return
        self.results.add((site, index))
        loop = site.node.callee
        if isinstance(loop, While):
            self.operand(site, loop.n_const + index)
        else:
            self.todo += [(self.output, g, index) for g in site.graphs]

    def node(self, graph: FuncGraph, node: Node, index: int | None) -> None:
        """Need a node of a graph; `index`: only that item of the tuple."""
        if isinstance(node, CNode) and isinstance(node.callee, (FuncGraph, Switch, While)):
            site = self.site(graph, node)
            for i in range(_count(node)) if index is None else (index,):
                self.result(site, i)
            return
        if node in self.nodes:
            return
        self.nodes.add(node)
        if isinstance(node, ParameterNode):
            self.todo.append((self.parameter, graph, self.numbers[node]))
        elif isinstance(node, CNode):
            if isinstance(node.callee, Grad):
                self.keep_whole(node.callee.graph)
            self.todo += [(self.node, graph, i, item_index(node)) for i in node.inputs]

    def site(self, graph: FuncGraph, node: CNode) -> _Site:
        """The site of a call; when it is met first, what its graphs need is passed on to it."""
        if node in self.site_of:
            return self.site_of[node]
        self.nodes.add(node)
        graphs = graphs_of(node.callee)
        site = _Site(graph, node, graphs, 1 if isinstance(node.callee, Switch) else 0)
        self.site_of[node] = site
        if site.offset:
            self.todo.append((self.node, graph, node.inputs[0], None))
        for g in dict.fromkeys(graphs):
            self.sites.setdefault(g, []).append(site)
            if g.bprop is not None:
                self.keep_whole(g)
            for number in self.parameters.get(g, ()):
                self.operand(site, number)
            for index in self.outputs.get(g, ()):
                if not isinstance(node.callee, While) or g is graphs[1]:
                    self.result(site, index)
        if isinstance(node.callee, While):
            self.todo.append((self.output, node.callee.cond, 0))
        return site


class _Rebuild:
    """Rebuilds one graph with what is needed of it."""

    def __init__(self, needs: _Needs, graph: FuncGraph, new: GraphMap, log: Log | None):
        self.needs, self.graph, self.new, self.log = needs, graph, new, log
        self.memo: dict[Node, Node] = {}

    def parts(self, nodes: list[Node]) -> Parts:
        """The parameters and the output that are left."""
        for node in nodes:
            self.memo[node] = node
            if node not in self.needs.nodes or not isinstance(node, CNode):
                continue
            if node in self.needs.site_of:
                self.memo[node] = self.call(node)
            else:
                self.memo[node] = self.item(node) or with_inputs(node, self.memo, self.new)
        numbers = self.needs.parameters[self.graph]
        parameters = [p for k, p in enumerate(self.graph.parameters) if k in numbers]
        return parameters, self.output()

    def call(self, node: CNode) -> CNode:
        """A call on the operands, and with the results, that are needed."""
        site = self.needs.site_of[node]
        numbers, items = sorted(self.needs.parameters[site.graphs[0]]), self.items(node)
        if len(numbers) + site.offset == len(node.inputs) and len(items) == _count(node):
            return with_inputs(node, self.memo, self.new)
        operands = (*node.inputs[: site.offset], *(node.inputs[k + site.offset] for k in numbers))
        callee = with_graphs(node.callee, tuple(self.new.get(g, g) for g in site.graphs))
        if isinstance(callee, While):
            callee = replace(callee, n_const=sum(k < callee.n_const for k in numbers))
        abstract = node.abstract
        if isinstance(abstract, AbstractTuple):
            abstract = AbstractTuple(tuple(abstract.items[i] for i in items))
        made = CNode(callee, [self.memo[i] for i in operands], abstract, node.origin.made_by(NAME))
        if self.log is not None:
            self.log.append(Fire(NAME, LAW, node, made, self.graph))
        return made

    def items(self, node: Node) -> list[int]:
        """The numbers of the items that are left of a tuple."""
        site = self.needs.site_of.get(node)
        if site is None or not isinstance(node.abstract, AbstractTuple):
            return list(range(_count(node)))
        loop = site.node.callee
        if isinstance(loop, While):
            numbers = self.needs.parameters[loop.body]
            return sorted(k - loop.n_const for k in numbers if k >= loop.n_const)
        return sorted(self.needs.outputs[site.graphs[0]])

    def item(self, node: CNode) -> Node | None:
        """A TupleGetItem with the number that its item has now; None if that is the old one."""
        index = item_index(node)
        if index is None:
            return None
        position = self.items(node.inputs[0]).index(index)
        if position == index:
            return None
        return tuple_item(self.memo[node.inputs[0]], position, node.origin)

    def output(self) -> Node:
        """The graph's output, or what is left of it."""
        output, wanted = self.graph.output, sorted(self.needs.outputs[self.graph])
        parts = tuple_parts(output)
        if len(wanted) == _count(output):
            if isinstance(output, CNode) and parts is not None:
                return with_inputs(output, self.memo, self.new)
            return self.memo[output]
        if parts is not None:
            return make_tuple([self.memo[parts[i]] for i in wanted], output.origin)
        items = self.items(output)
        if items == wanted:
            return self.memo[output]
        return make_tuple(
            [tuple_item(self.memo[output], items.index(i)) for i in wanted], output.origin
        )


def _count(node: Node) -> int:
    """How many values a node has."""
    return len(node.abstract.items) if isinstance(node.abstract, AbstractTuple) else 1
