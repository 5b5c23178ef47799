"""parameter_eliminate: what is the same at every call of a graph moves into the graph.

    a constant operand               the graph has the constant, and can fold it
    two operands that are one node   the graph has one parameter
    the choice of a Switch           in the arm for True it is True
    a carry that never changes       its body returns the constant with which the loop starts
    two carries that are equal       as a counter of the user's and one of J's

Constants are followed through parameters that are handed on, round loops and recursion (MindSpore:
``parameter_eliminate``; elsewhere: interprocedural constant propagation).  The operands that are
then unread go with dead_code.  Graphs under a Grad or with a gradient of their own are left alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from minispore.abstract import TOKEN, AbstractScalar, AbstractTensor
from minispore.ir.compare import constant_key
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Node,
    ParameterNode,
    Switch,
    ValueNode,
    While,
    graphs_of,
    tuple_item,
)
from minispore.passes.cse import has_effect, node_key
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
    loop: While | None = None

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

    def sources(self, k: int) -> list[Node]:
        """All that parameter `k` is given by this call: of a carry, also its next value."""
        if self.loop is None or k < self.fixed:
            return [self.operand(k)]
        return [self.operand(k), tuple_item(self.loop.body.output, k - self.fixed)]


def parameter_eliminate(graph: FuncGraph, log: Log | None = None) -> FuncGraph:
    """Replace parameters by constants, and by each other."""
    calls = _calls(graph)
    constants = _constants(calls)

    def rebuild(g: FuncGraph, nodes: list[Node], new: GraphMap) -> Parts:
        memo: dict[Node, Node] = {}
        for parameter, known in _known(g, calls.get(g, []), constants).items():
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
    if isinstance(node.callee, While):
        return _Call(node.inputs, node.callee.n_const, loop=node.callee)
    return _Call(node.inputs, len(node.inputs))


class _Varies:
    """Of a parameter: not the same constant everywhere."""


Constants = dict[Node, ValueNode | type[_Varies]]


def _constants(calls: dict[FuncGraph, list[_Call]]) -> Constants:
    """What each parameter is everywhere: a constant, or _Varies.

    Each is taken for the constant that it is first given, until something else reaches it.
    """
    given: dict[Node, list[Node]] = {}
    for graph, found in calls.items():
        for k, parameter in enumerate(graph.parameters):
            given[parameter] = [n for call in found for n in call.sources(k)]
    readers: dict[Node, list[Node]] = {}
    for reader, sources in given.items():
        for source in sources:
            if source in given:
                readers.setdefault(source, []).append(reader)
    known: Constants = {}
    todo = list(given)
    while todo:
        node = todo.pop()
        value = known.get(node)
        for source in given[node]:
            value = _meet(value, _of(source, given, known))
        if value is not None and value is not known.get(node):
            known[node] = value
            todo += readers.get(node, ())
    return known


def _of(node: Node, given: dict[Node, list[Node]], known: Constants) -> ValueNode | type | None:
    """What is known of an operand; None if nothing has reached it yet."""
    if isinstance(node, ValueNode) and node.abstract != TOKEN:
        return node
    return known.get(node) if isinstance(node, ParameterNode) and node in given else _Varies


def _meet(a: ValueNode | type | None, b: ValueNode | type | None) -> ValueNode | type | None:
    if a is None or b is None:
        return a or b
    if isinstance(a, ValueNode) and isinstance(b, ValueNode):
        return a if a is b or constant_key(a) == constant_key(b) else _Varies
    return _Varies


def _known(graph: FuncGraph, calls: list[_Call], constants: Constants) -> dict[Node, Node]:
    """Parameters that are read, and what they are at every call."""
    known: dict[Node, Node] = {}
    first: dict[Hashable, Node] = {}
    classes = [_equal_carries(call) for call in calls]
    read = set(graph.nodes())
    for k, parameter in enumerate(graph.parameters):
        if not calls or parameter.abstract == TOKEN:
            continue
        twin = first.setdefault(tuple(keys[k] for keys in classes), parameter)
        if parameter not in read:
            continue
        constant = constants.get(parameter)
        if isinstance(constant, ValueNode):
            known[parameter] = constant
        elif twin is not parameter:
            known[parameter] = twin
    return known


def _equal_carries(call: _Call) -> list[Hashable]:
    """A key per operand; those of one key are equal, carries in every turn.

    Carries that start equal are taken for equal, until their next values differ.
    """
    nodes = [call.operand(k) for k in range(len(call.operands))]
    keys: list[Hashable] = [constant_key(n) if isinstance(n, ValueNode) else id(n) for n in nodes]
    if call.loop is None:
        return keys
    start = keys[: call.fixed] + [("carry", key) for key in keys[call.fixed :]]
    while True:
        numbers = _numbered(call.loop.body, start)
        n_carry = len(start) - call.fixed
        items = [tuple_item(call.loop.body.output, i) for i in range(n_carry)]
        ends = [numbers.get(item, id(item)) for item in items]
        split: dict[Hashable, int] = {}
        new: list[Hashable] = list(start[: call.fixed])
        for key, end in zip(start[call.fixed :], ends, strict=True):
            new.append(("carry", split.setdefault((key, end), len(split))))
        if len(set(new)) == len(set(start)):
            return new
        start = new


def _numbered(graph: FuncGraph, keys: Sequence[Hashable]) -> dict[Node, Hashable]:
    """A number per node; nodes of one number are equal if parameters of one key are."""
    numbers: dict[Node, Hashable] = dict(zip(graph.parameters, keys, strict=True))
    known: dict[Hashable, int] = {}
    for node in graph.nodes():
        if isinstance(node, ValueNode):
            numbers[node] = constant_key(node)
        elif isinstance(node, CNode):
            same = id(node) if has_effect(node) else node_key(node, numbers)
            numbers[node] = ("node", known.setdefault(same, len(known)))
    return numbers
