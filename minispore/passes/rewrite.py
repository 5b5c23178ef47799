"""The driver of all passes: one bottom-up sweep over every graph, and the log of what fired.

Nodes are immutable, so a sweep makes a new graph where something changed and keeps the old one,
object and all, where nothing did: "did this pass do anything" is ``after is not before``.  A node
that is rebuilt only because an operand changed keeps its origin; one that a rule made says so
(``origin.rule``).  Every graph is rewritten once per sweep, however many nodes call it; graphs that
call each other in a circle are rebuilt together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from minispore.abstract import at_sizes
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Location,
    Node,
    ParameterNode,
    Rebuilder,
    copied_parameters,
    graphs_of,
    with_graphs,
)
from minispore.passes.pattern import Rule, hints
from minispore.primitive import Primitive
from minispore.tree import NeedConstant

MAX_FIRES_AT_A_NODE = 20  # a rule's result is tried again, but not for ever


@dataclass(frozen=True, slots=True)
class Fire:
    """One rewrite: the rule and its law, the node before and after, in which graph."""

    rule: str
    law: str
    before: Node
    after: Node
    graph: FuncGraph
    pass_name: str = ""
    round: int = 0

    @property
    def where(self) -> Location | None:
        """The user's line."""
        return self.before.origin.where

    def __str__(self) -> str:
        where = f" at {self.where}" if self.where else ""
        return f"{self.rule}: {self.law} in @{self.graph.name}{where}"


Log = list[Fire]


@dataclass(frozen=True)
class Function:
    """A rule where no pattern can say it: a function of the node, or None if it does not fire.

    `primitives`: the callees at which it is tried: names, "Switch", "While", "call", "*" for all.
    """

    name: str
    law: str
    primitives: tuple[str, ...]
    apply: Callable[[CNode], Node | None]


NodeRule = Rule | Function


def rewrite(graph: FuncGraph, rules: Iterable[NodeRule], log: Log | None = None) -> FuncGraph:
    """One sweep of rules over a graph and all that it reaches.

    Operands first; at each node the rules are tried in order until none fires.  A replacement of
    another type is refused.  Returns `graph` itself if no rule fired.
    """
    table: dict[str, list[NodeRule]] = {"*": []}
    for rule in rules:
        for name in rule.primitives:
            table.setdefault(name, []).append(rule)
    for name in table:
        table[name] += table["*"] if name != "*" else []

    def sweep(g: FuncGraph, nodes: list[Node], new: GraphMap) -> Parts:
        memo: dict[Node, Node] = {}
        before, after = use_counts(g), Counter[Node]()
        for node in nodes:
            now = node
            if isinstance(node, CNode):
                now = _rewrite_node(with_inputs(node, memo, new), table, after, g, log)
            memo[node] = now
            after[now] += before[node]
        return g.parameters, memo[g.output]

    return rebuild_graphs(graph, sweep)


def use_counts(graph: FuncGraph) -> Counter[Node]:
    """How often each node of a graph is an operand, or the output."""
    counts = Counter([i for node in graph.nodes() for i in node.inputs])
    counts[graph.output] += 1
    return counts


def _rewrite_node(
    node: CNode, table: dict[str, list[NodeRule]], uses: Counter[Node], graph: FuncGraph,
    log: Log | None,
) -> Node:  # fmt: skip
    current: Node = node
    for _ in range(MAX_FIRES_AT_A_NODE):
        fired = _first_fire(current, table, uses)
        if fired is None:
            break
        rule, new = fired
        if log is not None:
            log.append(Fire(rule.name, tagged_law(rule), current, new, graph))
        current = new
    return current


def tagged_law(rule: NodeRule) -> str:
    """A rule's law; one that is not exact says so."""
    return f"{rule.law} [fastmath]" if isinstance(rule, Rule) and rule.fastmath else rule.law


def _first_fire(
    node: Node, table: dict[str, list[NodeRule]], uses: Counter[Node]
) -> tuple[NodeRule, Node] | None:
    """The first rule that fires at a node, and what it makes of it."""
    if isinstance(node, CNode):
        rules = table.get(callee_name(node), table["*"])
        present = hints(node) if rules else frozenset()
        for rule in rules:
            if isinstance(rule, Rule) and not rule.hints <= present:
                continue
            try:
                new = rule.apply(node, uses) if isinstance(rule, Rule) else rule.apply(node)
            except NeedConstant:  # about a size that is not known: then the law does not help
                continue
            if new is not None and new is not node and new.abstract == node.abstract:
                return rule, new
    return None


def callee_name(node: CNode) -> str:
    """A primitive's name, or "call", "Switch", "While", "Grad"."""
    if isinstance(node.callee, Primitive):
        return node.callee.name
    return "call" if isinstance(node.callee, FuncGraph) else type(node.callee).__name__


# -------------------------------------------------------------------- rebuilding many graphs

GraphMap = dict[FuncGraph, FuncGraph]
Parts = tuple[Sequence[ParameterNode], Node]  # the parameters and the output of a graph
Rebuild = Callable[[FuncGraph, list[Node], GraphMap], Parts]


def with_inputs(node: CNode, memo: dict[Node, Node], graphs: GraphMap) -> CNode:
    """The node on rewritten operands and graphs; the node itself if none changed."""
    inputs = tuple([memo[i] for i in node.inputs])
    callee = node.callee
    if not isinstance(callee, Primitive):
        callee = with_graphs(callee, tuple(graphs.get(g, g) for g in graphs_of(callee)))
    if inputs == node.inputs and callee is node.callee:
        return node
    return CNode(callee, inputs, node.abstract, node.origin)


def rebuild_graphs(entry: FuncGraph, rebuild: Rebuild) -> FuncGraph:
    """Apply `rebuild` to every graph that `entry` reaches, callees first; returns the new entry.

    ``rebuild(graph, nodes, new)`` gives the new parameters and output; `nodes` is
    ``graph.nodes()``, `new` maps the graphs that have been rebuilt.  A graph of which nothing
    changed is kept.
    """
    new: GraphMap = {}
    for group in call_groups(entry):
        parts = {g: rebuild(g, nodes, new) for g, nodes in group.items()}
        changed = [
            g
            for g, (parameters, output) in parts.items()
            if output is not g.output or tuple(parameters) != g.parameters or g.bprop in new
        ]
        if not changed:
            continue
        is_circle = len(group) > 1 or any(g in g.callees() for g in group)
        if is_circle:
            parts |= _made_in_circle(parts)
        for g, (parameters, _) in parts.items():
            new[g] = g.frame(parameters)
        for g, (_, output) in parts.items():
            if is_circle:
                output = _with_callees(output, new)
            new[g].set_output(output)
            new[g].bprop = new.get(g.bprop, g.bprop) if g.bprop else None
    return new.get(entry, entry)


def copy_graphs(entry: FuncGraph, sizes: Mapping[str, int] | None = None) -> FuncGraph:
    """A copy of a graph and all that it reaches, with parameters of their own.

    A pass keeps the parameters of what it rebuilds: where the old graph is used on, copy it before.
    `sizes` take the place of their symbols (dims.py).
    """

    def rebuild(g: FuncGraph, nodes: list[Node], new: GraphMap) -> Parts:
        parameters = copied_parameters(g.parameters, sizes)
        memo: dict[Node, Node] = dict(zip(g.parameters, parameters, strict=True))
        for node in nodes:
            if isinstance(node, CNode):
                copy = with_inputs(node, memo, new)
                memo[node] = _sized(copy, sizes) if sizes else copy
            else:
                memo.setdefault(node, node)
        return parameters, memo[g.output]

    return rebuild_graphs(entry, rebuild)


def _sized(node: CNode, sizes: Mapping[str, int]) -> CNode:
    """The node with sizes in place of their symbols."""
    callee, inputs = node.callee, node.inputs
    if isinstance(callee, Primitive) and not sizes.keys().isdisjoint(callee.symbols):
        n_own = len(inputs) - len(callee.needs)
        born = dict(zip(callee.needs, inputs[n_own:], strict=True))
        callee = callee.bound(**{k: at_sizes(v, sizes) for k, v in callee.attrs.items()})
        inputs = (*inputs[:n_own], *(born[symbol] for symbol in callee.needs))
    return CNode(callee, inputs, at_sizes(node.abstract, sizes), node.origin)


def _made_in_circle(parts: Mapping[FuncGraph, Parts]) -> dict[FuncGraph, Parts]:
    """The graphs that rules have made which call graphs of the circle: they are part of it now.

    Such is a loop in a function if its body calls the function.
    """
    made: dict[FuncGraph, Parts] = {}
    todo = [g for _, output in parts.values() for g in FuncGraph("", (), output).callees()]
    while todo:
        g = todo.pop()
        if g not in parts and g not in made and not parts.keys().isdisjoint(g.graphs()):
            made[g] = g.parameters, g.output
            todo += g.callees()
    return made


def _with_callees(output: Node, new: GraphMap) -> Node:
    """The node with old graphs replaced by new ones, where graphs call each other in a circle."""
    rebuild = Rebuilder()
    for node in FuncGraph("", (), output).nodes():
        if isinstance(node, CNode):
            memo = {i: rebuild.memo[id(i)] for i in node.inputs}
            rebuild.substitute(node, with_inputs(node, memo, new))
        else:
            rebuild.substitute(node, node)
    return rebuild.memo[id(output)]


def call_groups(entry: FuncGraph) -> Iterator[dict[FuncGraph, list[Node]]]:
    """The graphs that `entry` reaches with their nodes, callees first.

    Graphs that call each other in a circle are one group (Tarjan's algorithm, on a stack of its
    own: calls may be nested deeper than Python's).
    """
    nodes: dict[FuncGraph, list[Node]] = {}
    low: dict[FuncGraph, int] = {}  # the earliest graph of the open ones that it reaches
    open_graphs: list[FuncGraph] = []
    work: list[tuple[FuncGraph, int, Iterator[FuncGraph]]] = []

    def enter(g: FuncGraph) -> None:
        nodes[g] = g.nodes()
        low[g] = len(low)
        open_graphs.append(g)
        work.append((g, low[g], iter(g.callees(with_bprop=True))))

    enter(entry)
    closed: set[FuncGraph] = set()
    while work:
        graph, number, rest = work[-1]
        for callee in rest:
            if callee not in low:
                enter(callee)
                break
            if callee not in closed:
                low[graph] = min(low[graph], low[callee])
        else:
            work.pop()
            if work:
                caller = work[-1][0]
                low[caller] = min(low[caller], low[graph])
            if low[graph] == number:
                group = open_graphs[open_graphs.index(graph) :]
                del open_graphs[-len(group) :]
                closed.update(group)
                yield {g: nodes[g] for g in group}
