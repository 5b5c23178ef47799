"""Loops, arms and recursion: constants through them, what every turn computes, equal carries."""

import numpy as np
import pytest
from graphs import BOOL, FLOAT, INT, apply_node, graph_of, parameters, tensor
from helpers import assert_same

import minispore as ms
from minispore import Tensor, ops
from minispore.abstract import TOKEN
from minispore.ir.interp import interpret
from minispore.ir.node import CNode, FuncGraph, Switch, ValueNode, While, make_tuple, tuple_item
from minispore.ir.verify import verify
from minispore.passes import optimize, rewrite
from minispore.passes.control import SWITCH_RULES, TUPLE_RULES
from minispore.passes.dead_code import dead_code
from minispore.passes.loops import LOOP_RULES
from minispore.passes.parameters import parameter_eliminate

T = tensor(2)


def loop_of(cond, body, *types, n_const=1, trip_count=None):
    """A While whose condition and body are Python functions of constants, then the carry."""
    graphs = [graph_of(cond, *types, name="cond"), graph_of(body, *types, name="body")]
    return While(*graphs, n_const, trip_count)


def main(loop, *types, item=None):
    """A graph that runs a loop on its parameters; one item of the result, or all."""
    xs = parameters(*types)
    call = apply_node(loop, *xs)
    n = len(types) - loop.n_const
    items = [tuple_item(call, i) for i in ([item] if item is not None else range(n))]
    return FuncGraph("main", xs, make_tuple(items))


def the_loop(graph):
    """The only While of a graph."""
    (loop,) = (n for n in graph.nodes() if isinstance(n, CNode) and isinstance(n.callee, While))
    return loop


def swept(rules, graph):
    log: list = []
    after = rewrite(graph, rules, log)
    verify(after)
    return after, [f.rule for f in log]


def same(before, after, *inputs):
    for a, b in zip(interpret(before, inputs), interpret(after, inputs), strict=True):
        assert_same(a, b)


# --------------------------------------------------------------------------- loop_invariant

V = np.array([1.5, -2.0], np.float32)


def test_hoist():
    loop = loop_of(
        lambda k, x, i: i < 5, lambda k, x, i: (x + ops.exp(ops.reshape(k * 2, (2,))), i + 1),
        T, T, INT,
    )  # fmt: skip
    before = main(loop, T, T, INT)
    after, fired = swept(LOOP_RULES, before)
    assert fired == ["hoist"]
    new = the_loop(after)
    assert new.callee.n_const == 2 and new.inputs[1].callee.name == "Exp"
    assert new.callee.body.count() == 2  # x + h, i + 1
    for i in (0, 9):
        same(before, after, V, V, i)
    assert rewrite(after, LOOP_RULES) is after


def test_hoist_out_of_a_condition():
    limit = loop_of(
        lambda k, x: (x < ops.abs(k).sum()), lambda k, x: (x + 1,), T, tensor()
    )  # fmt: skip
    before = main(limit, T, tensor())
    after, fired = swept(LOOP_RULES, before)
    assert fired == ["hoist"]
    assert the_loop(after).callee.cond.count() == 1
    same(before, after, V, np.array(0, np.float32))
    same(before, after, V, np.array(9, np.float32))


def test_a_shared_value_is_hoisted_once_and_chains_whole():
    def body(k, x, i):
        e = ops.exp(k)
        return x + e * 2, i + 1

    def cond(k, x, i):
        return i < 3

    before = main(loop_of(cond, body, T, T, INT), T, T, INT)
    after, _ = swept(LOOP_RULES, before)
    assert the_loop(after).callee.n_const == 2
    assert the_loop(after).inputs[1].callee.name == "Mul"


@pytest.mark.parametrize("body, types, inputs", [
    (lambda k, x, i: (x + ops.zeros((2,)), i + 1), (T, T, INT), (V, V, 0)),  # free
    (lambda k, x, i: (x + ops.broadcast_to(k, (2,)), i + 1), (tensor(), T, INT),
     (np.array(2, np.float32), V, 0)),
    (lambda k, x, i: (x + k * k, i + 1), (INT, INT, INT), (2**40, 1, 7)),  # k * k overflows
    (lambda k, x, i: (x + 1 / k, i + 1), (INT, FLOAT, INT), (0, 1.0, 7)),  # 1 / 0
    (lambda k, x, i: (x, i + 1), (T, T, INT), (V, V, 0)),
])  # fmt: skip
def test_what_must_stay_in_a_loop(body, types, inputs):
    before = main(loop_of(lambda k, x, i: i < 5, body, *types), *types)
    after = rewrite(before, [r for r in LOOP_RULES if r.name == "hoist"])
    assert after is before
    same(before, optimize(before), *inputs)


def test_effects_and_failing_positions_stay_in_a_loop():
    @ms.jit
    def f(x, index, n):
        i = Tensor(0)
        while i < n:
            print("turn")
            x = x + x[index]
            i = i + 1
        return x

    x = Tensor([1.0, 2.0])
    assert f(x, Tensor(7), Tensor(0)).asnumpy().tolist() == [1, 2]  # no turn, no error
    with pytest.raises(IndexError):
        f(x, Tensor(7), Tensor(1))


def test_carries_that_do_not_change_become_constants():
    loop = loop_of(
        lambda k, x, y, i: i < 3, lambda k, x, y, i: (x + ops.sin(y), y, i + 1), T, T, T, INT
    )
    before = main(loop, T, T, T, INT)
    after, fired = swept(LOOP_RULES, before)
    assert fired == ["carry_to_constant"]  # and then
    after, fired = swept([*TUPLE_RULES, *LOOP_RULES], after)
    assert "hoist" in fired
    new = the_loop(after)
    assert new.callee.n_const == 3 and len(new.inputs) == 5
    same(before, after, V, V, V * 3, 0)
    alone = main(loop_of(lambda k, x: False, lambda k, x: (x,), T, T), T, T)
    assert rewrite(alone, LOOP_RULES) is alone  # a loop has a carry


def test_a_token_stays_in_the_carry():
    loop = loop_of(lambda k, t, i: i < k, lambda k, t, i: (t, i + 1), INT, TOKEN, INT)
    graph = main(While(loop.cond, without_last(loop.body), 1), INT, TOKEN, INT)
    assert rewrite(graph, LOOP_RULES) is graph


def without_last(graph):
    """A graph made by ``graph_of`` without the Token that it adds."""
    return FuncGraph(graph.name, graph.parameters, make_tuple(graph.outputs()[:-1]))


def test_nested_loops_are_left_one_by_one():
    def f(x, n):
        i = Tensor(0)
        while i < n:
            j = Tensor(0)
            while j < n:
                x = x + ops.exp(n.astype(ms.float32)) * 2
                j = j + 1
            i = i + 1
        return x

    jitted = ms.jit(f)
    got = jitted(Tensor(1.0), Tensor(2))
    assert_same(got.asnumpy(), f(Tensor(1.0), Tensor(2)).asnumpy())
    names = [n.callee.name for n in jitted.graph().nodes() if isinstance(n, CNode)
             and not isinstance(n.callee, While)]  # fmt: skip
    assert "Exp" in names and "Mul" in names


# ------------------------------------------------------------------------ parameter_eliminate


def test_a_constant_goes_round_a_loop():
    before = main(
        loop_of(lambda k, x, c, i: i < k, lambda k, x, c, i: (x * c, c, i + 1),
                INT, INT, INT, INT), INT, INT, INT, INT, item=0,
    )  # fmt: skip
    loop = the_loop(before)
    k, x, _, _ = before.parameters
    call = CNode(loop.callee, [k, x, const(3), const(0)], loop.abstract)
    before = FuncGraph("main", [k, x], tuple_item(call, 0))
    log: list = []
    after = dead_code(parameter_eliminate(before, log))
    verify(after)
    assert [f.rule for f in log] == ["same_at_every_call"]
    assert len(the_loop(after).inputs) == 3
    assert interpret(after, [3, 2]) == interpret(before, [3, 2]) == (54,)


def const(value):
    return ms.symbolic.constant_node(value)


def test_a_carry_that_returns_another_constant_is_none():
    loop = loop_of(lambda k, c, i: i < k, lambda k, c, i: (4, i + c), INT, INT, INT)
    (k,) = parameters(INT)
    call = apply_node(loop, k, 3, 0)
    before = FuncGraph("main", [k], tuple_item(call, 1))
    assert parameter_eliminate(before) is before


def test_a_constant_goes_through_recursion():
    n, k = parameters(INT, INT)
    f = FuncGraph("f", [n, k])
    zero = graph_of(lambda n, k: k, INT, INT, name="zero")
    a, b = parameters(INT, INT)
    again = CNode(f, [apply_node("ScalarSub", a, 1), b], INT)
    more = FuncGraph("more", [a, b], apply_node("ScalarMul", again, b))
    f.set_output(CNode(Switch((zero, more)), [apply_node("ScalarEqual", n, 0), n, k], INT))
    (x,) = parameters(INT)
    before = FuncGraph("main", [x], apply_node(f, x, 3))
    after = dead_code(parameter_eliminate(before))
    verify(after)
    assert all(len(g.parameters) == 1 for g in after.graphs())
    assert interpret(after, [2]) == interpret(before, [2]) == (27,)
    y, z = parameters(INT, INT)
    varies = FuncGraph("main", [y, z], apply_node(f, y, z))
    assert parameter_eliminate(varies) is varies


def test_carries_that_are_always_equal():
    def body(k, x, i, j, h):
        return x + i * j + h, i + 1, j + 1, h + 2

    types = (INT, INT, INT, INT, INT)
    loop = loop_of(lambda k, x, i, j, h: i < k, body, *types)
    (k,) = parameters(INT)
    call = apply_node(loop, k, 0, 0, 0, 0)
    before = FuncGraph("main", [k], make_tuple([tuple_item(call, i) for i in (0, 2)]))
    after = optimize(before)
    verify(after)
    assert len(the_loop(after).inputs) == 1 + 3  # k; x, i, h
    for k in (0, 4):
        assert interpret(after, [k]) == interpret(before, [k])
    other = apply_node(loop, const(4), 0, 0, 1, 0)  # starts differ
    graph = FuncGraph("main", [], tuple_item(other, 0))
    assert len(the_loop(optimize(graph)).inputs) == 4  # 4 is in the graph


def test_the_counter_of_a_loop_and_that_of_its_gradient_are_one():
    def f(x, n):
        def power(x):
            for _ in range(n):
                x = x * x
            return x

        return ms.grad(power)(x)

    jitted = ms.jit(lambda x, n: f(x, int(n)))
    got = jitted(Tensor(1.5), Tensor(3))
    np.testing.assert_allclose(got.asnumpy(), 8 * 1.5**7, rtol=1e-6)
    loops = [n for n in jitted.graph().nodes() if isinstance(n, CNode)
             and isinstance(n.callee, While)]  # fmt: skip
    forward = loops[0]
    counters = [
        p for p in forward.callee.body.parameters[forward.callee.n_const :] if p.abstract == INT
    ]
    assert len(counters) == 1


# ------------------------------------------------------------------------- results of calls


def test_known_results():
    x, y = parameters(INT, INT)
    keeps = graph_of(lambda x, y: (x, 7, x + y, y), INT, INT, name="keeps")
    call = apply_node(keeps, x, y)
    before = FuncGraph("main", [x, y], make_tuple([tuple_item(call, i) for i in range(4)]))
    after, fired = swept(TUPLE_RULES, before)
    assert fired == ["known_item"] * 3
    assert [type(i).__name__ for i in after.output.inputs] == [
        "ParameterNode", "ValueNode", "CNode", "ParameterNode",
    ]  # fmt: skip
    same(before, after, 3, 4)


def test_known_results_of_arms():
    arms = [graph_of(lambda x, y, n=n: (y, x * n, 5, x * n), INT, INT, name="arm") for n in (1, 2)]
    c, x, y = parameters(BOOL, INT, INT)
    call = apply_node(Switch(tuple(arms)), c, x, y)
    before = FuncGraph("main", [c, x, y], make_tuple([tuple_item(call, i) for i in range(4)]))
    after, fired = swept(TUPLE_RULES, before)
    assert fired == ["known_item", "known_item"]
    assert after.output.inputs[0] is y and isinstance(after.output.inputs[2], ValueNode)
    for choice in (True, False):
        same(before, after, choice, 3, 4)


def test_equal_items_are_one():
    def body(k, x, y, i):
        z = x * k
        return z, z, i + 1

    loop = loop_of(lambda k, x, y, i: i < 3, body, INT, INT, INT, INT)
    k, x = parameters(INT, INT)
    call = apply_node(loop, k, x, x, 0)
    before = FuncGraph("main", [k, x], make_tuple([tuple_item(call, i) for i in (0, 1)]))
    after, fired = swept(TUPLE_RULES, before)
    assert fired == ["known_item"]
    assert [i.callee.attrs["index"] for i in after.output.inputs] == [0, 0]
    same(before, after, 2, 3)
    y = parameters(INT)[0]
    differ = apply_node(loop, k, x, y, 0)
    graph = FuncGraph("main", [k, x, y], make_tuple([tuple_item(differ, i) for i in (0, 1)]))
    assert rewrite(graph, TUPLE_RULES) is graph


def test_a_token_that_a_call_hands_on_stays_where_it_is():
    keeps = graph_of(lambda t, x: (t, x), TOKEN, INT)
    keeps = FuncGraph("keeps", keeps.parameters, make_tuple(keeps.outputs()[:2]))
    t, x = parameters(TOKEN, INT)
    call = apply_node(keeps, t, x)
    graph = FuncGraph("f", [t, x], make_tuple([tuple_item(call, i) for i in range(2)]))
    after, fired = swept(TUPLE_RULES, graph)
    assert fired == ["known_item"] and after.output.inputs[1] is x
    arms = tuple(graph_of(lambda t: t, TOKEN) for _ in "ab")
    arms = tuple(FuncGraph("a", a.parameters, a.parameters[0]) for a in arms)
    c, t = parameters(BOOL, TOKEN)
    graph = FuncGraph("f", [c, t], apply_node(Switch(arms), c, t))
    assert optimize(graph).output is t


def test_known_results_of_single_outputs():
    c, x = parameters(BOOL, INT)
    arms = tuple(graph_of(lambda x: x, INT, name=n) for n in "ab")
    graph = FuncGraph("f", [c, x], apply_node(Switch(arms), c, x))
    rules = [r for r in SWITCH_RULES if r.name == "known_result"]
    assert swept(rules, graph)[0].output is x
    many = graph_of(lambda x: 5, INT, name="five")
    graph = FuncGraph("f", [x], apply_node(many, x))
    assert isinstance(swept(rules, graph)[0].output, ValueNode)
    n, x = parameters(INT, INT)
    choose = FuncGraph("f", [n, x], apply_node(Switch(arms), n, x))
    assert rewrite(choose, rules) is choose  # an int may be out of range
    other = (arms[0], graph_of(lambda x: 1, INT))
    graph = FuncGraph("f", [c, x], apply_node(Switch(other), c, x))
    assert rewrite(graph, rules) is graph


def test_graphs_with_a_gradient_of_their_own_keep_their_results():
    own = graph_of(lambda x, out, d: (d * 3,), FLOAT, FLOAT, FLOAT)
    (x,) = parameters(FLOAT)
    cell = FuncGraph("cell", [x], x, bprop=own)
    (y,) = parameters(FLOAT)
    graph = FuncGraph("f", [y], apply_node(cell, y))
    assert rewrite(graph, SWITCH_RULES) is graph
