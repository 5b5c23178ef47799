"""Sinking: a value has no gradient where the arm that ran did not use it, as on a tape."""

import numpy as np
import pytest
from differential import assert_result
from graphs import BOOL, INT, apply_node, graph_of, parameters, tensor
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.autodiff.sink import Sink
from minispore.autodiff.transform import J
from minispore.ir.compare import same_graph
from minispore.ir.interp import interpret
from minispore.ir.node import (
    CNode,
    FuncGraph,
    ParameterNode,
    Switch,
    While,
    is_call_of,
    make_tuple,
    tuple_item,
)
from minispore.ir.verify import verify
from minispore.passes import default_pipeline, optimize
from minispore.primitive import REGISTRY

# ----------------------------------------------------------------- as a tape, at y = 0


def returned(x, y, c):
    u = x / y
    if c > 0:
        return u
    return x * 2


def by_its_value(x, y, c):
    u = x / y
    if ops.isfinite(u).all():
        return u
    return x * 2


def chain(x, y, c):
    u = ops.sqrt(x / y)
    v = ops.concat((u, ops.exp(u) * u))
    if c > 0:
        return v.sum() * x
    return x * 2


def merged(x, y, c):
    u, a = x / y, x * 2
    if c > 0:
        a = a + u
    return a * x


def elifs(x, y, c):
    u = x / y
    v = ops.sqrt(u)
    if c > 2:
        return u * v
    elif c > 1:
        return v
    elif c > 0:
        return u + x
    return x * 3


def nested(x, y, c):
    u = x / y
    v = ops.log(u) * u
    if c < 1:
        if c > 0:
            return v * u
        return x * 3
    return v


def two_ifs(x, y, c):
    u, a = x / y, x * 2
    if c > 0:
        a = a + u
    if c > 1:
        a = a * u
    return a


def not_differentiably(x, y, c):
    u = x / y
    if c > 0:
        return u
    return x * (u > 0)


def loop(x, y, c):
    u, a = x / y, x * 2
    while c > 0:
        a = a + u
        c = c - 1
    return a


def loop_in_arm(x, y, c):
    u, a = x / y, x * 2
    if c > 0:
        while c > 0:
            a = a * u
            c = c - 1
    return a


def arm_in_loop(x, y, c):
    a = x * 2
    for _ in range(20):
        u = a / y
        if c > 0:
            a = a + u
    return a


def numbers(x, y, c):
    k = float(c)
    u = x * k**0.5
    if k > 0.0:
        return u
    return x * 2


def choose(u, v, c):
    if c > 0:
        return u
    return v


def called(x, y, c):
    return choose(x / y, x * 2, c) * x


def ratio_and_double(x, y):
    return x / y, x * 2


def of_a_call(x, y, c):
    u, a = ratio_and_double(x, y)
    if c > 0:
        return u
    return a


def layered(x, y, c):
    def deeper(u, v):
        return choose(ops.sqrt(u), v, c)

    return deeper(ratio_and_double(x, y)[0], x)


def by_cond(x, y, c):
    u = x / y
    return ops.cond(c > 0, lambda v: v * u, lambda v: v * v, x)


def by_loop_op(x, y, c):
    u = x / y
    return ops.WhileLoop()(lambda s: s[1] > 0, lambda s: (s[0] + u, s[1] - 1), (x * 2, c))[0]


PROGRAMS = [
    returned, by_its_value, chain, merged, elifs, nested, two_ifs, not_differentiably, loop,
    loop_in_arm, arm_in_loop, numbers, called, of_a_call, layered, by_cond, by_loop_op,
]  # fmt: skip
X, ZERO = Tensor([0.0, 0.5, 2.0]), Tensor(0.0)


def first(f, x, y, c):
    return ms.grad(f, (0, 1))(x, y, c)


def with_value(f, x, y, c):
    return ms.value_and_grad(f, (0, 1))(x, y, c)


def second(f, x, y, c):
    return ms.grad(lambda x, y: sum(g.sum() for g in first(f, x, y, c)), (0, 1))(x, y)


def forward(f, x, y, c):
    return ms.jvp(lambda x, y: f(x, y, c), (x, y), (ops.ones_like(x), ops.ones_like(y)))


def alike(function, *args):
    expected = function(*args)
    jitted = ms.jit(function)
    assert_result(jitted(*args), expected, 100.0)
    return expected, jitted


@pytest.mark.parametrize("c", [0.0, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("way", [first, with_value, second, forward])
@pytest.mark.parametrize("f", PROGRAMS)
def test_arms_that_are_not_taken(f, way, c, monkeypatch):
    monkeypatch.setenv("MINISPORE_DEBUG", "1")  # verify every graph
    ys = [ZERO] if c == 0 else [ZERO, Tensor(0.7)]
    for y in ys:
        expected, jitted = alike(lambda x, y, c: way(f, x, y, c), X, y, Tensor(c))
        if c == 0 and way is first:
            assert all(np.isfinite(g.asnumpy()).all() for g in expected)
            arrays = [X.asnumpy(), y.asnumpy(), np.array(c, np.float32)]
            found = interpret(jitted.last.graph("evaluate"), arrays)
            assert_same(found[: len(expected)], tuple(g.asnumpy() for g in expected))


@pytest.mark.parametrize("f", PROGRAMS)
def test_a_jitted_function_under_a_tape(f):
    for way in (first, second):
        expected = way(f, X, ZERO, Tensor(0.0))
        assert_result(way(ms.jit(f), X, ZERO, Tensor(0.0)), expected, 100.0)


def test_layers_and_what_they_write():
    class Layer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.w = Parameter(Tensor([0.0, 0.5, 2.0]), name="w")
            self.seen = Parameter(Tensor([1.0, 1.0, 1.0]), name="seen", requires_grad=False)

        def construct(self, x):
            u = ops.log(x / self.w)
            self.seen = u
            if ops.isnan(u).any():
                return x
            return u

    x = Tensor([0.0, 0.5, 2.0])
    results = []
    for wrap in (lambda f: f, ms.jit):
        layers = [Layer(), Layer()]

        def net(x, layers=layers):
            return layers[1](layers[0](x))

        weights = [layer.w for layer in layers]
        step = ms.value_and_grad(net, 0, weights)
        results.append((wrap(lambda x, step=step: step(x))(x), [p.seen for p in layers]))
    assert_result(results[1][0], results[0][0], 10.0)
    assert_same([p.asnumpy() for p in results[1][1]], [p.asnumpy() for p in results[0][1]])
    assert all(np.isfinite(g.asnumpy()).all() for g in results[0][0][1][1])


# ------------------------------------------------------------------------- before and after

T, C = tensor(3), BOOL


def switch(test, arms, *operands):
    return CNode(Switch(tuple(arms)), [test, *operands], arms[0].abstract)


def known(op, *inputs):
    prim = REGISTRY["Known"].bound(op=op)
    return CNode(prim, inputs, inputs[-1].abstract)


def passed(names, function, *types):
    """An arm: its graph's parameters have these names."""
    nodes = [ParameterNode(n, t) for n, t in zip(names, types, strict=True)]
    return FuncGraph("arm", nodes, function(*nodes))


def sunk(graph, *live):
    verify(graph)
    after = Sink()(graph, live or (0,))
    verify(after)
    return after


def test_a_chain_goes_into_the_arm():
    x, y, c = parameters(T, T, C)
    u = apply_node("Exp", apply_node("Div", x, y))
    used = passed("ux", lambda u, x: u, T, T)
    other = passed("ux", lambda u, x: x, T, T)
    before = FuncGraph("f", [x, y, c], switch(c, [used, other], u, x))

    x, y, c = parameters(T, T, C)
    v = apply_node("Div", x, y)
    u = apply_node("Exp", v)
    types = (T, T, T, T)
    used = passed("uxvy", lambda u, x, v, y: known("Exp", known("Div", x, y, v), u), *types)
    other = passed("uxvy", lambda u, x, v, y: x, *types)
    after = FuncGraph("f", [x, y, c], switch(c, [used, other], u, x, v, y))
    assert same_graph(sunk(before), after), str(sunk(before))
    fwd, bwd, _ = J(before)
    verify(fwd)
    verify(bwd)
    found = optimize(fwd)
    verify(found)
    names = {n.callee.name for g in found.graphs() for n in g.nodes()
             if isinstance(n, CNode) and not isinstance(n.callee, Switch)}  # fmt: skip
    assert "Known" not in names and "Div" in names


def test_a_loop_that_may_make_no_turn():
    x, y, n = parameters(T, T, INT)
    u = apply_node("Div", x, y)
    k = parameters(T, T, INT)
    cond = FuncGraph("cond", k, apply_node("ScalarGreater", k[2], 0))
    k = parameters(T, T, INT)
    turn = [apply_node("Add", k[1], k[0]), apply_node("ScalarSub", k[2], 1)]
    body = FuncGraph("body", k, make_tuple(turn))
    for trips, moves in ((None, True), (3, False)):
        loop = apply_node(While(cond, body, 1, trips), u, x, n)
        before = FuncGraph("f", [x, y, n], make_tuple([tuple_item(loop, 0)]))
        after = sunk(before)
        assert (after is not before) is moves
        assert moves is any(is_call_of(n, "Known") for g in after.graphs() for n in g.nodes())
        assert sunk(after) is after or moves  # an arm is another graph
        for count in (0, 2) if moves else (3,):
            inputs = [np.array(v, np.float32) for v in ([1, 2, 3], [2, 4, 4])] + [count]
            assert_same(interpret(after, inputs), interpret(before, inputs))


def noops():
    def made(name, used, other, *operands_of):
        x, y, c = parameters(T, T, C)
        operands = [f(x, y) for f in operands_of]
        names = "uvw"[: len(operands)]
        arms = [passed(names, f, *(T for _ in operands)) for f in (used, other)]
        graph = FuncGraph("f", [x, y, c], switch(c, arms, *operands))
        return pytest.param(graph, id=name)

    def div(x, y):
        return apply_node("Div", x, y)

    def stopped(x, y):
        return apply_node("StopGradient", div(x, y))

    def first(x, y):
        return x

    yield made("both arms", lambda u: u, lambda u: apply_node("Neg", u), div)
    yield made("no gradient", lambda u, v: v, lambda u, v: u, stopped, first)
    yield made("parameters", lambda u, v: v, lambda u, v: u, first, lambda x, y: y)
    x, y, c = parameters(T, T, C)
    u = div(x, y)
    arms = [passed("ux", lambda u, x: u, T, T), passed("ux", lambda u, x: x, T, T)]
    outputs = make_tuple([switch(c, arms, u, x), u])
    yield pytest.param(FuncGraph("f", [x, y, c], outputs), id="an output")
    yield pytest.param(graph_of(lambda x, y: x / y * x, T, T), id="no arms")


@pytest.mark.parametrize("graph", list(noops()))
def test_what_stays(graph):
    live = tuple(range(len(graph.outputs())))
    assert sunk(graph, *live) is graph


def test_known_runs_where_no_pass_took_it_out():
    pipeline = default_pipeline().without("switch_simplify")
    run = ms.jit(lambda x, y, c: first(chain, x, y, c), passes=pipeline)
    for c in (0.0, 1.0):
        y = Tensor(0.7)
        assert_result(run(X, y, Tensor(c)), first(chain, X, y, Tensor(c)), 10.0)
    assert any(is_call_of(n, "Known") for g in run.last.graph().graphs() for n in g.nodes())
