"""Loops as recursive graphs mean what While means."""

import numpy as np
import pytest
from helpers import assert_same

import minispore as ms
from minispore import Tensor
from minispore.ir.compare import same_graph
from minispore.ir.interp import interpret
from minispore.ir.node import CNode, While
from minispore.ir.text import parse, to_text
from minispore.ir.verify import verify
from minispore.passes.recursive_loops import recursive_loops


def halvings(x, n):
    while x > 1.0:
        x = x / 2.0
        n = n + 1
    return x, n


def nested(x, n):
    while x < 50.0:
        y = x
        while y < x * 3.0:
            y = y + n
        x = y if n > 1.0 else y * 2.0
    return x


def loops_in(graph):
    nodes = (n for g in graph.graphs() for n in g.nodes())
    return [n for n in nodes if isinstance(n, CNode) and isinstance(n.callee, While)]


@pytest.mark.parametrize("fn", [halvings, nested])
@pytest.mark.parametrize("x", [0.5, 3.0, 40.0])
def test_same_value_without_a_while(fn, x):
    args = Tensor(x), Tensor(1.5)
    graph = ms.explain(fn, *args).graph()
    assert loops_in(graph)
    log = []
    recursive = recursive_loops(graph, log)
    assert len(log) == len(loops_in(graph)) and not loops_in(recursive)
    verify(recursive)
    inputs = [a.asnumpy() for a in args]
    assert_same(interpret(recursive, inputs), interpret(graph, inputs))


def test_gradient_of_a_loop_as_recursion():
    graph = ms.explain(ms.grad(lambda x: halvings(x, x * 0.0)[0]), Tensor(np.float64(11.0))).graph()
    recursive = recursive_loops(graph)
    assert not loops_in(recursive)
    (value,) = interpret(recursive, [np.array(11.0)])
    assert_same(value, np.array(1 / 16))


def test_it_reads_back():
    graph = recursive_loops(ms.explain(halvings, Tensor(9.0), Tensor(0.0)).graph())
    assert same_graph(parse(to_text(graph, full=True)), graph)
    assert "call @while_header" in to_text(graph)


def test_no_loop_no_change():
    graph = ms.explain(lambda x: x + 1, Tensor(1.0)).graph()
    assert recursive_loops(graph) is graph


def test_deep_recursion_is_an_error():
    graph = recursive_loops(ms.explain(halvings, Tensor(1e30), Tensor(0.0)).graph())
    with ms.context.using(max_call_depth=20), pytest.raises(RecursionError, match="20 calls deep"):
        interpret(graph, [np.array(1e30, np.float32), np.array(0.0, np.float32)])
