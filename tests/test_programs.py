"""Random programs with calls, arms, loops, gradients: all ways to run them agree to the last bit.

The interpreter on the graph as it was made is compared with the interpreter on the optimised graph,
with plans of both, and with the graph that its text describes.
"""

import random

import numpy as np
import pytest
from graphs import BOOL, INT, apply_node, parameters, tensor

from minispore.abstract import Abstract, AbstractTuple
from minispore.autodiff.transform import expand_grad
from minispore.engine import compile_plan
from minispore.ir.compare import same_graph
from minispore.ir.interp import interpret
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Node,
    Switch,
    While,
    make_tuple,
    tuple_item,
)
from minispore.ir.text import parse, to_text
from minispore.ir.verify import verify
from minispore.passes import optimize
from minispore.symbolic import constant_node

X = tensor(2)
CONSTANTS = {X: [0.0, -0.0, 1.0, -1.0, 2.0, 0.3], INT: [0, 1, -1, 3], BOOL: [True, False]}
OPS = {
    X: ["Add", "Sub", "Mul", "Maximum", "Neg", "Tanh", "Abs", "Square", "Identity"],
    INT: ["ScalarAdd", "ScalarSub", "ScalarNeg", "ScalarPick"],
    BOOL: ["ScalarLess", "ScalarEqual", "ScalarNot"],
}
ARITY = {"Neg": 1, "Tanh": 1, "Abs": 1, "Square": 1, "Identity": 1, "ScalarNeg": 1, "ScalarNot": 1}


class Program:
    """Makes random graphs, smaller ones inside."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.graphs: list[FuncGraph] = []

    def graph(self, types: list[Abstract], results: list[Abstract], depth: int) -> FuncGraph:
        nodes = parameters(*types)
        values: dict[Abstract, list[Node]] = {X: [], INT: [], BOOL: []}
        for p in nodes:
            values[p.abstract].append(p)
        for _ in range(self.random.randint(2, 6)):
            for node in self.step(values, depth):
                values[node.abstract].append(node)
        output = make_tuple([self.value(values, t) for t in results])
        self.graphs.append(FuncGraph(f"g{len(self.graphs)}", nodes, output))
        return self.graphs[-1]

    def value(self, values: dict[Abstract, list[Node]], kind: Abstract) -> Node:
        if values[kind] and self.random.random() < 0.85:
            return self.random.choice(values[kind])
        number = self.random.choice(CONSTANTS[kind])
        shape = self.random.choice([(), (2,)]) if kind == X else None
        node = constant_node(number if shape is None else np.full(shape, number, np.float32))
        return node if node.abstract == kind else apply_node("BroadcastTo", node, shape=(2,))

    def step(self, values: dict[Abstract, list[Node]], depth: int) -> list[Node]:
        kind = self.random.choice(["op"] * 4 + ["call", "switch", "while", "again"] * (depth > 0))
        if kind == "op":
            return [self.op(values)]
        types = [self.random.choice([X, X, INT, BOOL]) for _ in range(self.random.randint(0, 3))]
        results = [self.random.choice([X, INT, BOOL]) for _ in range(self.random.randint(1, 3))]
        if kind == "call":
            node = self.call(self.graph(types, results, depth - 1), values)
        elif kind == "again" and self.graphs:
            node = self.call(self.random.choice(self.graphs), values)
        elif kind == "switch":
            arms = tuple(self.graph(types, results, depth - 1) for _ in range(2))
            operands = [self.value(values, t) for t in types]
            node = apply_node(Switch(arms), self.value(values, BOOL), *operands)
        else:
            node = self.loop(values, types, results, depth)
        return [tuple_item(node, i) for i in range(len(node.abstract.items))]

    def op(self, values: dict[Abstract, list[Node]]) -> Node:
        kind = self.random.choice([X, X, INT, BOOL])
        name = self.random.choice(OPS[kind])
        operand = INT if name in ("ScalarLess", "ScalarEqual") else kind
        if name == "ScalarPick":
            items = [self.value(values, INT) for _ in range(2)]
            return apply_node(name, constant_node(self.random.randrange(2)), *items)
        return apply_node(name, *(self.value(values, operand) for _ in range(ARITY.get(name, 2))))

    def call(self, graph: FuncGraph, values: dict[Abstract, list[Node]]) -> CNode:
        return apply_node(graph, *(self.value(values, p.abstract) for p in graph.parameters))

    def loop(self, values, types, carry, depth) -> CNode:
        """A loop of at most 3 turns: its last carry counts them."""
        inner = self.graph([*types, *carry], carry, depth - 1)
        c, b = (parameters(*types, *carry, INT) for _ in range(2))
        cond = FuncGraph("cond", c, apply_node("ScalarLess", c[-1], self.random.randrange(4)))
        call = apply_node(inner, *b[:-1])
        items = [tuple_item(call, i) for i in range(len(carry))]
        body = FuncGraph("body", b, make_tuple([*items, apply_node("ScalarAdd", b[-1], 1)]))
        operands = [self.value(values, t) for t in (*types, *carry)]
        return apply_node(While(cond, body, len(types)), *operands, 0)


def with_gradients(graph: FuncGraph) -> FuncGraph:
    """The outputs of a graph and the gradients of their sum."""
    wrt = tuple(i for i, p in enumerate(graph.parameters) if p.abstract == X)
    nodes = parameters(*(p.abstract for p in graph.parameters))
    outputs = graph.output.abstract.items
    result = AbstractTuple((*outputs, *(X for _ in wrt)))
    call = CNode(Grad(graph, wrt, len(outputs)), nodes, result)
    return FuncGraph("main", nodes, call)


def assert_same_bits(actual: tuple, expected: tuple) -> None:
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert type(a) is type(e)
        if isinstance(e, np.ndarray):
            assert a.dtype == e.dtype
            np.testing.assert_array_equal(a, e)
            numbers = ~np.isnan(e)
            np.testing.assert_array_equal(np.signbit(a)[numbers], np.signbit(e)[numbers])
        else:
            assert a == e


INPUTS = [
    [np.array(x, np.float32) for x in ([0.5, -1.5], [3.0, 0.0])] + [2, True],
    [np.array(x, np.float32) for x in ([-0.0, 0.0], [np.nan, np.inf])] + [-1, False],
]


def check_all_ways(graph: FuncGraph) -> None:
    verify(graph)
    optimised = optimize(graph)
    again = parse(to_text(graph, full=True))
    assert same_graph(again, graph)
    plans = [compile_plan(graph), compile_plan(optimised)]
    for inputs in INPUTS:
        expected = interpret(graph, inputs)
        assert_same_bits(interpret(optimised, inputs), expected)
        assert_same_bits(interpret(again, inputs), expected)
        for plan in plans:
            assert_same_bits(plan.run(inputs), expected)


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed):
    check_all_ways(Program(seed).graph([X, X, INT, BOOL], [X, X, INT, BOOL], 3))


@pytest.mark.parametrize("seed", range(100, 130))
def test_random_gradient(seed):
    graph = with_gradients(Program(seed).graph([X, X, INT, BOOL], [X, X, INT], 2))
    verify(graph, "evaluate")
    before_grad = optimize(graph)
    expanded = expand_grad(graph)
    verify(expanded, "grad")
    check_all_ways(expanded)
    for inputs in INPUTS:
        assert_same_bits(
            interpret(expand_grad(before_grad), inputs)[:3], interpret(expanded, inputs)[:3]
        )
