"""Sinking: what has a gradient in some arms only gets it in those arms.

    u = x / y                                u = x / y
    switch(c, f, g)(u, x)             ->     switch(c, f, g)(u, x, y)
    f(u, x) = u;  g(u, x) = x                f(u, x, y) = known(x, y, u);  g(u, x, y) = x

If g runs, u has no gradient: a tape never comes to the division.  But the backward Switch, which
gives the cotangents of operands, has to give some for u: zeros; and the rule of a division by 0
makes nan of them.  With y and x as operands the rule is part of the arm's own gradient.  `known`
takes the gradient of the division, but not its time: its value is u (``ops.structural.Known``).

J does so to each graph before it differentiates it, and an arm is a graph: from the outside
inwards.  A loop that may make no turn is a Switch here, of the loop or nothing.  Calls of graphs
that hide an arm, or what has to move into one, are inlined.

Zeros still come to what an earlier Switch or loop made, to a Cell with a gradient of its own, and
to what only an arm inside a loop reads: those stay outside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from minispore.abstract import STACK, AbstractTuple
from minispore.autodiff.nodes import Place, Places, items_of, place_of, places_of, type_at
from minispore.autodiff.tape import flowing
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Node,
    ParameterNode,
    Switch,
    ValueNode,
    While,
    copied_parameters,
    inline_call,
    is_call_of,
    is_tuple_plumbing,
    item_index,
    make_tuple,
    tuple_item,
    tuple_parts,
)
from minispore.passes.cse import has_effect
from minispore.passes.inline import Copy
from minispore.passes.rewrite import with_inputs
from minispore.primitive import REGISTRY, Primitive

NAME = "sink"
Quantifier = Callable[[Iterable[bool]], bool]  # all or any
Change = Callable[[CNode, dict[Node, Node]], Node | None]


@dataclass(frozen=True, eq=False)
class Choice:
    """What a Switch, a call, or a loop that may make no turn calls: one of `graphs`."""

    graphs: tuple[FuncGraph, ...]
    operands: Sequence[Node]


def choice_of(node: CNode) -> Choice | None:
    """The graphs of which a node calls one; None for other nodes."""
    callee, inputs = node.callee, node.inputs
    if isinstance(callee, Switch):
        return Choice(callee.graphs, inputs[1:])
    if isinstance(callee, FuncGraph):
        calls_itself = any(callee in g.callees() for g in callee.graphs())
        is_plain = callee.bprop is None and not callee.recompute and not calls_itself
        return Choice((callee,), inputs) if is_plain else None
    if not isinstance(callee, While) or callee.trip_count or node.origin.rule == NAME:
        return None
    turns, no_turn = (copied_parameters(callee.body.parameters) for _ in range(2))
    loop = CNode(callee, turns, node.abstract, node.origin.made_by(NAME))  # it makes a turn
    result = make_tuple(no_turn[callee.n_const :], node.origin)
    arms = [(turns, loop), (no_turn, result)]
    graphs = (FuncGraph(callee.body.name, p, out, node.origin, "arm") for p, out in arms)
    return Choice(tuple(graphs), inputs)


class Sink:
    """The pass, for one graph at a time; it remembers what it found out about graphs."""

    def __init__(self) -> None:
        self.choices: dict[CNode, Choice | None] = {}
        self.known: dict[tuple, set[Place]] = {}

    def __call__(self, graph: FuncGraph, live: Places) -> FuncGraph:
        """The graph with gradients in the arms where they are; itself if they all are.

        Args:
            live: the numbers of the outputs that have a cotangent.
        """
        while True:
            partial = self.reached(graph, live, any) - self.reached(graph, live, all)
            partial = {p for p in partial if isinstance(p.node, CNode)}
            calls = {n for n in graph.nodes() if self.hides(n, partial)} if partial else set()
            if not calls:
                break
            graph = changed(graph, functools.partial(inlined, calls))
        if not partial:
            return graph

        def change(node: CNode, memo: dict[Node, Node]) -> Node | None:
            choice = None if isinstance(node.callee, FuncGraph) else self.choice(node)
            moving = what_sinks(graph, choice, partial) if choice else []
            return switched(node, choice, moving, memo) if choice and moving else None

        return changed(graph, change)

    def hides(self, node: Node, partial: set[Place]) -> bool:
        """True for a call with operands, or results, that have a gradient in some arms only."""
        if not isinstance(node, CNode) or not isinstance(node.callee, FuncGraph):
            return False
        places = [*places_of(node), *map(place_of, node.inputs)]
        return self.choice(node) is not None and not partial.isdisjoint(places)

    def choice(self, node: CNode) -> Choice | None:
        """``choice_of`` a node, found once."""
        if node not in self.choices:
            self.choices[node] = choice_of(node)
        return self.choices[node]

    def reached(self, graph: FuncGraph, live: Places, of: Quantifier) -> set[Place]:
        """The values that a gradient reaches, whichever arms run (`all`), or if some do (`any`)."""
        key = (graph, live, of)
        if key not in self.known:
            self.known[key] = {Place(p, None) for p in graph.parameters}  # while it is open
            results = items_of(graph.output)
            found = {place_of(results[i]) for i in live}
            for node in reversed(graph.nodes()):
                if isinstance(node, CNode) and not is_tuple_plumbing(node):
                    items = tuple(
                        i for i, p in enumerate(places_of(node))
                        if p in found and type_at(p).is_differentiable
                    )  # fmt: skip
                    for x in self.reached_from(node, items, of) if items else ():
                        found.update(map(place_of, items_of(x)))
            self.known[key] = found
        return self.known[key]

    def reached_from(self, node: CNode, items: Places, of: Quantifier) -> Iterable[Node]:
        """The inputs of a node that a gradient reaches through its `items`."""
        choice, callee = self.choice(node), node.callee
        if choice is not None:
            ways, operands = [self.parameters(g, items, of) for g in choice.graphs], choice.operands
        elif isinstance(callee, While):  # after one turn, two, ...
            ways, operands, seen = [], node.inputs, set[Places]()
            while items not in seen:
                seen.add(items)
                ways.append(self.parameters(callee.body, items, of))
                items = tuple(k - callee.n_const for k in sorted(ways[-1]) if k >= callee.n_const)
        else:
            is_primitive = isinstance(callee, Primitive)
            return flowing(callee, node.inputs) if is_primitive else node.inputs
        return [x for k, x in enumerate(operands) if of(k in way for way in ways)]

    def parameters(self, graph: FuncGraph, live: Places, of: Quantifier) -> set[int]:
        """The numbers of the parameters that a gradient reaches."""
        found = self.reached(graph, live, of)
        return {k for k, p in enumerate(graph.parameters) if Place(p, None) in found}


def changed(graph: FuncGraph, change: Change) -> FuncGraph:
    """The graph with what ``change(node, memo)`` makes of nodes; itself if that is nothing."""
    memo: dict[Node, Node] = {}
    for node in graph.nodes():
        memo[node] = node
        if isinstance(node, CNode):
            memo[node] = change(node, memo) or with_inputs(node, memo, {})
            index = item_index(memo[node])
            if index is not None and tuple_parts(memo[node].inputs[0]):
                memo[node] = tuple_item(memo[node].inputs[0], index)
    if memo[graph.output] is graph.output:
        return graph
    new = graph.frame(graph.parameters)
    new.set_output(memo[graph.output])
    return new


def inlined(calls: set[Node], node: CNode, memo: dict[Node, Node]) -> Node | None:
    """The body of what a node calls, if it is one of `calls`."""
    if node not in calls:
        return None
    assert isinstance(node.callee, FuncGraph)
    return Copy(node.origin, None).body(node.callee, tuple(memo[x] for x in node.inputs))


# ---------------------------------------------------------------------------- into the arms


def what_sinks(graph: FuncGraph, choice: Choice, partial: set[Place]) -> list[CNode]:
    """The nodes, inputs first, whose gradient is that of operands of a choice."""
    found: list[CNode] = []
    wanted = set(choice.operands)
    for node in reversed(graph.nodes()):
        if isinstance(node, CNode) and node in wanted and Place(node, None) in partial:
            if may_sink(node):
                found.append(node)
                wanted.update(leaves(node))
    return found[::-1]


def may_sink(node: CNode) -> bool:
    """True for a primitive that Known can stand for: one value of Tensors and numbers."""
    prim = node.callee
    if not isinstance(prim, Primitive) or prim.symbols or has_effect(node):
        return False
    types = [x.abstract for x in (node, *leaves(node))]
    is_ours = REGISTRY.get(prim.name) is type(prim) and flowing(prim, node.inputs) == node.inputs
    is_plain = not any(t == STACK or isinstance(t, AbstractTuple) for t in types)
    return is_plain and (is_ours or prim.name == "Known")


def leaves(node: CNode) -> list[Node]:
    """The inputs of a node, and parts of those that are tuples, that its gradient goes to."""
    inputs = node.inputs[:-1] if is_call_of(node, "Known") else node.inputs
    return [part for x in inputs for part in tuple_parts(x) or (x,)]


def switched(node: CNode, choice: Choice, moving: list[CNode], memo: dict[Node, Node]) -> CNode:
    """The choice as a Switch with all operands that its arms need for the gradients."""
    needed = [*choice.operands, *moving, *(x for m in moving for x in leaves(m))]
    operands = [x for x in dict.fromkeys(needed) if not isinstance(x, ValueNode)]
    graphs = tuple(arm(choice, k, operands, moving) for k in range(len(choice.graphs)))
    test = memo[node.inputs[0]]
    if isinstance(node.callee, While):
        test = inline_call(node.callee.cond, [memo[x] for x in node.inputs])
    inputs = [test, *(memo[x] for x in operands)]
    return CNode(Switch(graphs), inputs, node.abstract, node.origin.made_by(NAME))


def arm(choice: Choice, number: int, operands: list[Node], moving: list[CNode]) -> FuncGraph:
    """A graph of a choice that begins with the gradients of what moves into it."""
    graph = choice.graphs[number]
    names = {x: p.name for x, p in zip(choice.operands, graph.parameters, strict=True)}
    parameters = [
        ParameterNode(names.get(x, f"s{i}"), x.abstract, x.origin) for i, x in enumerate(operands)
    ]
    inside: dict[Node, Node] = dict(zip(operands, parameters, strict=True))
    for m in moving:
        inside[m] = known(m, inside)
    new = graph.frame(parameters)
    new.set_output(inline_call(graph, [inside.get(x, x) for x in choice.operands]))
    return new


def known(node: CNode, inside: dict[Node, Node]) -> CNode:
    """A node of the value that `inside` has for it, with its gradient."""
    prim, value = node.callee, inside[node]
    assert isinstance(prim, Primitive)
    inputs = node.inputs[:-1] if prim.name == "Known" else node.inputs
    if prim.name != "Known":
        prim = REGISTRY["Known"].bound(op=prim.name, **prim.attrs)
    operands = []
    for x in inputs:
        parts = tuple_parts(x)
        new = make_tuple([inside.get(p, p) for p in parts], x.origin) if parts else inside.get(x, x)
        operands.append(new)
    return CNode(prim, [*operands, value], node.abstract, node.origin.made_by(NAME))
