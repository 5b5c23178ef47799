"""Rules, passes and pipelines of users: a few lines, given to jit, seen in explain."""

import numpy as np
import pytest
from graphs import graph_of, tensor

import minispore as ms
from minispore import Tensor, nn, ops
from minispore.ir.compare import same_graph
from minispore.ir.node import CNode
from minispore.ir.verify import IRError
from minispore.passes import (
    Function,
    Pass,
    Pipeline,
    Rule,
    default_pipeline,
    op,
    pipeline_of,
    rewrite,
    rule_pass,
)

X = Tensor([1.0, -2.0, 3.0])
TWICE = Rule("twice", "x + x -> x * 2", lambda x: x + x, lambda x: x * 2)


def doubled(x):
    return x + x


def names_of(graph):
    return [n.callee.name for n in graph.nodes() if isinstance(n, CNode) and n.inputs][:-1]


def test_a_rule():
    @ms.jit(passes=TWICE)
    def f(x):
        return x + x

    assert f(X).asnumpy().tolist() == [2, -4, 6]
    assert names_of(f.graph()) == ["Mul"]
    report = ms.explain(f, X)
    assert "twice (1x): x + x -> x * 2" in report.laws()
    assert any(stage.endswith("_twice") for stage in report.compiled.stages)
    assert "x + x -&gt; x * 2" in report.html()
    (stage,) = (s.name for s in report.stages if s.name.endswith("_twice"))
    assert "twice" in report.drawing(stage).dot


def test_the_default_does_without():
    f = ms.jit(doubled)
    f(X)
    assert names_of(f.graph()) == ["Add"]


def test_a_rule_reaches_gradients_and_their_tape():
    f = ms.jit(lambda x: (x * x).sum(), passes=[TWICE])
    g = ms.jit(ms.grad(lambda x: (x * x).sum()), passes=[TWICE])
    np.testing.assert_allclose(g(X).asnumpy(), 2 * X.asnumpy())
    np.testing.assert_allclose(ms.grad(f)(X).asnumpy(), 2 * X.asnumpy())
    assert "Mul" in names_of(g.graph()) and "Add" not in names_of(g.graph())


def test_a_function_rule_and_a_pass():
    def shallow(node):
        inner = node.inputs[0]
        is_tanh = isinstance(inner, CNode) and inner.callee == node.callee
        return inner if is_tanh else None  # not what tanh(tanh(x)) is: a user may decide so

    rule = Function("shallow", "tanh(tanh(x)) -> tanh(x)", ("Tanh",), shallow)
    seen: list = []

    def look(graph, log):
        seen.append(graph.count())
        return graph

    f = ms.jit(lambda x: ops.tanh(ops.tanh(x)), passes=[rule, Pass("look", "counts", look)])
    np.testing.assert_allclose(f(X).asnumpy(), np.tanh(X.asnumpy()), rtol=1e-6)
    assert 1 in seen


def test_pipelines_are_changed_not_mutated():
    default = default_pipeline()
    names = [p.name for p in default.passes]
    more = default.with_pass(rule_pass("mine", "twice", (TWICE,)), after="cse")
    assert str(more).count("mine") == 2 and "mine" not in str(default)
    lines = [line.split()[0] for line in str(more).splitlines()]
    assert lines[lines.index("mine") - 1] == "cse"
    fewer = default.without("cse", "inline", "lazy_inline")
    assert set(names) - {p.name for p in fewer.passes} == {"cse", "inline", "lazy_inline"}
    assert [s.name for s in default.with_rules(TWICE).steps] == ["opt_a", "opt_b"]
    assert [p.name for p in default.with_rules(TWICE).passes].count("user_rules") == 1
    for wrong in (lambda: default.without("csee"), lambda: default.with_pass(more.passes[0], "x")):
        with pytest.raises(ValueError, match="there is no pass"):
            wrong()


def test_a_pipeline_in_place_of_the_default():
    only = Pipeline((rule_pass("only", "twice", (TWICE,)),))
    f = ms.jit(doubled, passes=only)
    f(X)
    assert [run.name for run in f.last.runs] == ["combine_like_graphs", "only", "only"]
    fast = ms.jit(lambda x: x * 0 + 1, passes=default_pipeline(fastmath=True))
    assert fast(Tensor([float("nan")])).asnumpy().tolist() == [1]
    exact = ms.jit(lambda x: x * 0 + 1)
    assert np.isnan(exact(Tensor([float("nan")])).asnumpy())


def test_cells_and_methods_take_passes():
    class Net(nn.Cell):
        @ms.jit(passes=TWICE)
        def construct(self, x):
            return x + x

    net = Net()
    net(X)
    assert names_of(Net.construct.graph()) == ["Mul"]
    cell = ms.jit(nn.ReLU(), passes=[])
    assert cell(X).asnumpy().tolist() == [1, 0, 3]


def test_what_is_no_pass():
    for wrong in ("cse", [TWICE, 3], lambda g: g):
        with pytest.raises(TypeError, match="passes are a Pipeline, or rules and passes to add"):
            ms.jit(doubled, passes=wrong)
    assert same_graph(graph_of(doubled, tensor(2)), graph_of(doubled, tensor(2)))
    assert str(pipeline_of(None)) == str(default_pipeline())
    with pytest.raises(ValueError, match="it knows .*, passes"):
        ms.jit(doubled, pass_=1)


def test_a_pass_that_breaks_the_graph_is_caught(monkeypatch):
    monkeypatch.setenv("MINISPORE_DEBUG", "0")
    wrong = graph_of(lambda x: (x,), tensor(3))
    wrong.output.inputs[0].abstract = tensor(4)
    broken = Pass("broken", "changes types", lambda graph, log: wrong)
    with pytest.raises(IRError) as caught:
        ms.jit(doubled, passes=broken)(X)
    assert "The pass broken made this graph." in caught.value.__notes__


def test_a_rule_on_attributes():
    rule = Rule("row_sums", "sum(x, -1) of a square -> sum of it",
                lambda x, a, k: op.ReduceSum(op.Square(x), axis=a, keep_dims=k),
                lambda x, a, k: ops.reduce_sum(x * x, a, k),
                lambda x: len(x.shape) == 1)  # fmt: skip
    graph = graph_of(lambda x: ops.reduce_sum(ops.square(x)), tensor(3))
    assert names_of(rewrite(graph, [rule]))[0] == "Mul"
    wide = graph_of(lambda x: ops.reduce_sum(ops.square(x), 1), tensor(3, 2))
    assert rewrite(wide, [rule]) is wide


def test_the_table_of_passes():
    net = nn.SequentialCell(nn.Dense(3, 3), nn.ReLU(), nn.Dense(3, 3))
    report = ms.explain(ms.grad(lambda x: net(x).sum()), Tensor(np.ones((2, 3), np.float32)))
    lines = report.passes().splitlines()
    evaluated, with_gradients, optimized = (int(w) for w in lines[0].split() if w.isdigit())
    assert report.graph("evaluate").count() == evaluated
    assert report.graph("grad").count() == with_gradients
    assert report.graph().count() == optimized
    middle = next(i for i, line in enumerate(lines) if line.startswith("rule "))
    rows = {line.split()[0]: line.split()[1:] for line in lines[3 : middle - 1]}
    assert set(rows) == {run.name for run in report.compiled.runs}
    assert int(rows["inline"][0]) >= 1 and int(rows["arithmetic_simplify"][2]) > 0
    by_passes = sum(int(row[3]) for row in rows.values())
    by_grad = with_gradients - report.graph("combine_like_graphs").count()
    assert evaluated + by_grad + by_passes == optimized
    rules = {line.split()[0] for line in lines[middle + 1 :]}
    assert rules == {f.rule for run in report.compiled.runs for f in run.fires}
