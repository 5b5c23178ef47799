"""Equal blocks are one graph until late: combined, differentiated and optimised once."""

from collections import Counter

import numpy as np
import pytest
from graphs import INT, apply_node, graph_of, parameters, tensor

import minispore as ms
from minispore import Tensor, nn, ops
from minispore.ir.compare import same_graph
from minispore.ir.interp import interpret
from minispore.ir.node import CNode, FuncGraph, Location, Switch, make_tuple
from minispore.ir.verify import verify
from minispore.passes.combine import combine_like_graphs
from minispore.passes.inline import SMALL, inline, lazy_inline

X = Tensor(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32))


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Dense(4, 8), nn.LayerNorm((8,)), nn.Dense(8, 4)

    def construct(self, x):
        return x + self.down(ops.tanh(self.norm(self.up(x))))


def step_of(layers):
    net = nn.SequentialCell(*(Block() for _ in range(layers)))
    step = ms.jit(ms.value_and_grad(lambda x: net(x).sum(), 0, net.trainable_params()))
    step(X)
    return step


def large(x, k):
    for _ in range(SMALL):
        x = x * k + 1
    return x


# ------------------------------------------------------------------------------------- combine


def test_equal_graphs_become_one():
    f, g, other = (graph_of(lambda x, n=n: large(x, n), INT, name="f") for n in (2, 2, 3))
    (x,) = parameters(INT)
    call = apply_node(f, apply_node(g, apply_node(other, x)))
    before = FuncGraph("main", [x], call)
    log: list = []
    after = combine_like_graphs(before, log)
    verify(after)
    assert [h.name for h in after.graphs()] == ["main", "f", "f"] and len(log) == 1
    assert after.output.callee is after.output.inputs[0].callee
    assert interpret(after, [2]) == interpret(before, [2])
    assert combine_like_graphs(after) is after


def test_graphs_are_told_apart():
    def pair(a, b):
        (x,) = parameters(INT)
        return FuncGraph("main", [x], make_tuple([apply_node(a, x), apply_node(b, x)]))

    def at(line):
        (x,) = parameters(INT)
        return FuncGraph("f", [x], apply_node("ScalarNeg", x, at=Location("a.py", line)))

    same = combine_like_graphs(pair(at(1), at(1)))
    assert len(same.graphs()) == 2
    for a, b in [
        (at(1), at(2)),  # other lines
        (graph_of(lambda x: x * 2, INT, name="f"), graph_of(lambda x: x * 2.0, INT, name="f")),
        (graph_of(lambda x: x * 2, INT, name="f"), graph_of(lambda x: x * 2, INT, name="g")),
    ]:
        before = pair(a, b)
        assert combine_like_graphs(before) is before
    recomputed = at(1)
    recomputed.recompute = True
    before = pair(at(1), recomputed)
    assert combine_like_graphs(before) is before


def test_graphs_of_equal_graphs_are_equal():
    def outer():
        inner = graph_of(lambda x: large(x, 2), INT, name="inner")
        (x,) = parameters(INT)
        return FuncGraph("outer", [x], apply_node("ScalarNeg", apply_node(inner, x)))

    def chosen():
        arms = tuple(graph_of(lambda x, n=n: x + n, INT, name="arm") for n in (1, 2))
        (x,) = parameters(INT)
        test = apply_node("ScalarLess", x, 3)
        return FuncGraph("chosen", [x], apply_node(Switch(arms), test, x))

    for make, names in ((outer, ["outer", "inner"]), (chosen, ["chosen", "arm", "arm"])):
        (x,) = parameters(INT)
        before = FuncGraph("main", [x], apply_node(make(), apply_node(make(), x)))
        after = combine_like_graphs(before)
        verify(after)
        assert [h.name for h in after.graphs()] == ["main", *names]
        assert interpret(after, [5]) == interpret(before, [5])


# -------------------------------------------------------------------------------------- inline


def test_large_graphs_that_are_called_twice_are_inlined_late():
    f = graph_of(lambda x: large(x, 2), INT, name="f")
    once = graph_of(lambda x: large(x, 3), INT, name="once")
    small = graph_of(lambda x: x + 1, INT, name="small")
    (x,) = parameters(INT)
    value = apply_node(f, apply_node(f, apply_node(once, apply_node(small, apply_node(small, x)))))
    before = FuncGraph("main", [x], value)
    early = inline(before)
    verify(early)
    assert [h.name for h in early.graphs()] == ["main", "f"]
    late = lazy_inline(early)
    verify(late)
    assert late.graphs() == [late] and inline(early) is early
    assert interpret(late, [1]) == interpret(before, [1])


def test_arms_of_an_inlined_graph_are_copied():
    arms = tuple(graph_of(lambda x, n=n: large(x, n), INT, name="arm") for n in (2, 3))
    (x,) = parameters(INT)
    f = FuncGraph("f", [x], apply_node(Switch(arms), apply_node("ScalarLess", x, 3), x))
    (y,) = parameters(INT)
    before = FuncGraph("main", [y], apply_node(f, apply_node(f, y)))
    after = lazy_inline(before)
    verify(after)
    uses = Counter(g for n in after.nodes() if isinstance(n, CNode)
                   for g in getattr(n.callee, "graphs", ()))  # fmt: skip
    assert list(uses.values()) == [1] * 4
    assert interpret(after, [1]) == interpret(before, [1])


def test_inlined_nodes_stand_where_the_call_stands():
    step = step_of(3)
    scopes = {n.origin.scope for n in step.graph().nodes() if isinstance(n, CNode)}
    for i in range(3):
        assert {f"SequentialCell/{i}/{part}" for part in ("up", "norm", "down")} <= scopes
    called = [g.name for g in step.graph("grad").graphs()]
    assert called.count("Block_fwd") == 1 and called.count("Block_bwd") == 1


# ------------------------------------------------------------------------------------ networks


def fires_of(step):
    """Which rules of arithmetic fired in the graph, while blocks were shared."""
    runs = step.last.runs
    late = [run.name for run in runs].index("lazy_inline")
    shared = [f.rule for run in runs[:late] if run.name == "arithmetic_simplify"
              for f in run.fires]  # fmt: skip
    return Counter(shared)


def test_equal_blocks_are_optimised_once():
    few, many = step_of(2), step_of(8)
    assert fires_of(few) == fires_of(many) and fires_of(few)
    grad = [step.graph("grad").count() for step in (few, many)]
    assert grad[1] - grad[0] == 6 * 2  # the calls, forward and backward
    assert many.graph().graphs() == [many.graph()]


def test_the_result_is_that_of_no_sharing():
    step = step_of(3)
    pipeline = ms.passes.default_pipeline()
    alone = lazy_inline(step.graph("grad"))
    assert same_graph(pipeline.run(alone), step.graph())


@pytest.mark.parametrize("layers", [1, 4])
def test_shared_blocks_mean_what_they_did(layers):
    step = step_of(layers)
    compiled, inputs = step.find((X,), {})
    arrays = [t.asnumpy() for t in inputs]
    expected = interpret(step.graph("evaluate"), arrays)
    for graph in compiled.stages.values():
        verify(graph)
        for a, b in zip(interpret(graph, arrays), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_a_tensor_type_in_the_key():
    f, g = (graph_of(lambda x: x * 2, tensor(*s), name="f") for s in ((2,), (3,)))
    x, y = parameters(tensor(2), tensor(3))
    before = FuncGraph("main", [x, y], make_tuple([apply_node(f, x), apply_node(g, y)]))
    assert combine_like_graphs(before) is before
