"""J against truncated Taylor arithmetic, to third order, through every kind of control flow.

Each program is written once, as a Python function of a number `x` and of `m`, which says what sin,
a loop, a choice and a recursive function are: `OnJets` runs it in Python on Taylor polynomials,
`OnNodes` builds a graph of it.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from graphs import FLOAT, INT, apply_node, echo, graph_of, parameters, tensor
from helpers import assert_same
from op_table import SCALARS

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import STACK, TOKEN, AbstractScalar, AbstractTensor, AbstractTuple
from minispore.autodiff import sweep, transform
from minispore.autodiff.api import GradOperation
from minispore.autodiff.transform import Adjoints, J, expand_grad, set_evaluator
from minispore.ir.interp import interpret
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Location,
    Node,
    Origin,
    ParameterNode,
    Switch,
    While,
    is_call_of,
    make_tuple,
    tuple_item,
)
from minispore.ir.verify import verify
from minispore.primitive import Primitive, apply, bprop_getters, handled_by
from minispore.symbolic import GraphBuilder, constant_node, wrap
from minispore.tensor import Tensor

F64 = AbstractTensor(dt.float64, ())


class Jet:
    """A polynomial a0 + a1 t + ... + a4 t^4: the Taylor series of what is computed from x0 + t."""

    N = 5

    def __init__(self, *coefficients: float):
        self.c = (list(coefficients) + [0.0] * Jet.N)[: Jet.N]

    def __add__(self, other):
        other = other if isinstance(other, Jet) else Jet(other)
        return Jet(*(a + b for a, b in zip(self.c, other.c, strict=True)))

    def __mul__(self, other):
        other = other if isinstance(other, Jet) else Jet(other)
        rows = range(Jet.N)
        return Jet(*(sum(self.c[j] * other.c[i - j] for j in range(i + 1)) for i in rows))

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other):
        return self.c[0] < (other.c[0] if isinstance(other, Jet) else other)


class OnJets:
    """Programs run in Python."""

    def sin(self, x: Jet) -> Jet:
        s, c = [math.sin(x.c[0])], [math.cos(x.c[0])]
        for k in range(1, Jet.N):
            s.append(sum(j * x.c[j] * c[k - j] for j in range(1, k + 1)) / k)
            c.append(-sum(j * x.c[j] * s[k - j] for j in range(1, k + 1)) / k)
        return Jet(*s)

    def loop(self, cond, body, constants, carry, trip_count=None):
        while cond(*constants, *carry):
            carry = body(*constants, *carry)
        return carry

    def choose(self, condition, true, false, *operands):
        return (true if condition else false)(*operands)

    def recursive(self, name, fn):
        def f(*args):
            return fn(f, *args)

        return f

    def call(self, fn, *operands):
        return fn(*operands)


def node_of(value) -> Node:
    return value._node if isinstance(value, Tensor) else constant_node(value)


class OnNodes:
    """Programs become graphs."""

    sin = staticmethod(ops.sin)

    def loop(self, cond, body, constants, carry, trip_count=None):
        nodes = [node_of(v) for v in (*constants, *carry)]
        types = [n.abstract for n in nodes]
        callee = While(
            graph_of(cond, *types, name="cond"),
            graph_of(body, *types, name="body"),
            len(constants),
            trip_count,
        )
        return wrap(apply_node(callee, *nodes))

    def choose(self, condition, true, false, *operands):
        nodes = [node_of(v) for v in operands]
        types = [n.abstract for n in nodes]
        arms = graph_of(true, *types, name="true"), graph_of(false, *types, name="false")
        return wrap(apply_node(Switch(arms), node_of(condition), *nodes))

    def recursive(self, name, fn, n_args=2):
        graph = FuncGraph(name, parameters(*[F64] * n_args))

        def f(*args):
            return wrap(CNode(graph, [node_of(a) for a in args], F64))

        builder = GraphBuilder()
        with handled_by(builder):
            graph.set_output(node_of(fn(f, *map(wrap, graph.parameters))))
        return f

    def call(self, fn, *operands):
        nodes = [node_of(v) for v in operands]
        graph = graph_of(fn, *[n.abstract for n in nodes], name=fn.__name__)
        return wrap(apply_node(graph, *nodes))


# ----------------------------------------------------------------------------------- programs


def chain(x, m):
    y = m.sin(x * x) * 0.5
    return m.sin(y) * y + x * 2.0


def data_dependent_while(x, m):
    k = x * x
    (y,) = m.loop(
        lambda k, y: y < 30.0,
        lambda k, y: (y * (m.sin(y) * (k * 0.1) + 1.3),),
        (k,),
        (x,),
    )
    return m.sin(y * x)


def fixed_while(x, m):
    def body(k, n, y):
        return n + 1.0, m.sin(y * k) + y * 0.3

    n, y = m.loop(lambda k, n, y: n < 5.0, body, (x,), (x * 0.0, x), trip_count=5)
    return y * y


def no_turns(x, m):
    (y,) = m.loop(lambda k, y: y < -100.0, lambda k, y: (y * k,), (x,), (m.sin(x),))
    return y * x


def switch(x, m):
    def true(a, b):
        return m.sin(a) * b, a

    def false(a, b):
        return a * a * 3.0, m.sin(b * a)

    p, q = m.choose(x < 1.0, true, false, x * 2.0, m.sin(x))
    return p * q


def nested(x, m):
    """A Switch in a While in a While in a Switch."""

    def inner(y, k, z):
        return (
            m.choose(
                z < 4.0,
                lambda a, b: a * 1.5 * (m.sin(b) * 0.1 + 1.0),
                lambda a, b: a + m.sin(a) * 0.3 + b,
                z,
                k,
            ),
        )

    def outer(k, u):
        (z,) = m.loop(lambda y, k, z: z < y * 3.0, inner, (u, k), (u,))
        return (z * (m.sin(u * k) * 0.05 + 1.0),)

    def looping(p, q):
        return m.loop(lambda k, u: u < 200.0, outer, (p,), (q,))[0]

    s = m.choose(x < 5.0, looping, lambda p, q: p * m.sin(q), x, x * 0.7)
    return m.sin(s * 0.01) * x


def double_recursion(x, m):
    def step(f, x, y):
        def base(x, y):
            return y

        def more(x, y):
            a = f(x, y * 1.6 + x)
            b = f(x, (y + 2.0) * (m.sin(y) + 1.9))
            return m.sin(a * 0.01) * b + x * y

        return m.choose(y < 40.0, more, base, x, y)

    return m.recursive("f", step)(x, x * 2.0)


def recursion_in_a_loop(x, m):
    def step(f, x, y):
        return m.choose(
            y < 3.0, lambda x, y: f(x, y * 1.5 + x) * m.sin(y), lambda x, y: y * x, x, y
        )

    f = m.recursive("g", step)
    (y,) = m.loop(lambda k, y: y < 9.0, lambda k, y: (f(k, y) * 0.1 + y * 1.7,), (x,), (x,))
    return y * m.sin(x)


def shared_block(x, m):
    def block(a, b):
        return m.sin(a * b) + a

    return m.call(block, m.call(block, x, x * 0.5), m.sin(x))


PROGRAMS = [
    chain, data_dependent_while, fixed_while, no_turns, switch, nested, double_recursion,
    recursion_in_a_loop, shared_block,
]  # fmt: skip


def gradient_graph(graph: FuncGraph, wrt=(0,), n_out=1, with_sens=False, all_results=False):
    """A graph with one Grad node that returns the gradients of another graph."""
    outputs = transform.items_of(graph.output)
    sens = [o.abstract for o in outputs[:n_out] if o.abstract.is_differentiable and with_sens]
    nodes = parameters(*[p.abstract for p in graph.parameters], *sens)
    types = (*(o.abstract for o in outputs), *(graph.parameters[i].abstract for i in wrt))
    grad = CNode(Grad(graph, wrt, n_out, with_sens), nodes, AbstractTuple(types))
    items = [tuple_item(grad, i) for i in range(len(types))]
    results = items if all_results else items[len(outputs) :]
    return FuncGraph("gradient", nodes, results[0] if len(results) == 1 else make_tuple(results))


def run(graph: FuncGraph, *inputs):
    """The outputs of a graph after `expand_grad`, verified."""
    expanded = expand_grad(graph)
    verify(expanded, "grad")
    return interpret(expanded, list(inputs))


@pytest.mark.parametrize("x0", [0.8, 1.7, 6.0])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_gradients_to_third_order(program: Callable, x0: float):
    jet = program(Jet(x0, 1.0), OnJets())
    graph = graph_of(lambda x: program(x, OnNodes()), F64)
    for order in range(4):
        (value,) = run(graph, np.array(x0))
        expected = jet.c[order] * math.factorial(order)
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-11)
        graph = gradient_graph(graph)


def random_program(rng: np.random.Generator, depth: int) -> Callable:
    """A random function of two numbers: sums, products, sines, choices and loops, nested."""
    kinds = ["leaf"] if depth == 0 else ["add", "mul", "sin", "choose", "loop", "fixed"]
    kind = kinds[rng.integers(len(kinds))]
    a, b, c = (random_program(rng, depth - 1) if depth else None for _ in range(3))
    k = float(rng.uniform(0.3, 1.2))
    if kind == "leaf":
        return [lambda m, x, y: x, lambda m, x, y: y * k, lambda m, x, y: x * y * k][
            rng.integers(3)
        ]
    if kind == "add":
        return lambda m, x, y: a(m, x, y) * k + b(m, x, y)
    if kind == "mul":
        return lambda m, x, y: m.sin(a(m, x, y)) * b(m, x, y)
    if kind == "sin":
        return lambda m, x, y: m.sin(a(m, y, x * k))
    if kind == "choose":
        arms = (lambda m: lambda x, y: b(m, x, y)), (lambda m: lambda x, y: c(m, y, x))
        return lambda m, x, y: m.choose(a(m, x, y) < k, arms[0](m), arms[1](m), x, y)
    trips = int(rng.integers(0, 4)) if kind == "fixed" else None
    limit = 3.0 if trips is None else float(trips)

    def loop(m, x, y):
        def body(x, n, u, v):
            return n + 1.0, m.sin(a(m, u, x)) + v * k, b(m, x, v * 0.3) * 0.2 + u

        return m.loop(
            lambda x, n, u, v: n < limit, body, (x,), (x * 0.0, y, m.sin(y)), trip_count=trips
        )[1]

    return loop


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_to_second_order(seed: int):
    rng = np.random.default_rng(seed)
    program, x0 = random_program(rng, 3), float(rng.uniform(0.2, 1.5))
    jet = program(OnJets(), Jet(x0, 1.0), Jet(x0, 1.0) * 0.7)
    graph = graph_of(lambda x: program(OnNodes(), x, x * 0.7), F64)
    for order in range(3):
        (value,) = run(graph, np.array(x0))
        expected = jet.c[order] * math.factorial(order)
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-10)
        graph = gradient_graph(graph)


# ------------------------------------------------------------- values, shapes, several inputs


def differences(fn: Callable, inputs: list[np.ndarray], h: float = 1e-6) -> list[np.ndarray]:
    """Central differences of the sum of a function's output, for each element of each input."""
    found = []
    for x in inputs:
        slope = np.zeros_like(x)
        for index in np.ndindex(x.shape):
            keep = x[index]
            x[index] = keep + h
            above = fn(*inputs).sum()
            x[index] = keep - h
            slope[index] = (above - fn(*inputs).sum()) / (2 * h)
            x[index] = keep
        found.append(slope)
    return found


FUNCTIONS = {
    "broadcast": (lambda x, y: ops.sin(x) * y + x, [(2, 3), (3,)]),
    "repeated": (lambda x: x * x * ops.tanh(x), [(4,)]),
    "matmul": (lambda x, w, b: ops.tanh(ops.matmul(x, w) + b), [(2, 3), (3, 4), (4,)]),
    "reduce": (lambda x: ops.log(ops.sum(ops.exp(x), -1)), [(3, 2)]),
    "several outputs": (lambda x: ops.split(x, 2)[0] * ops.split(x, 2)[1], [(4, 2)]),
    "one of several outputs": (lambda x: ops.split(x, 1)[2] * 3, [(4,)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_against_differences(name: str):
    fn, shapes = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=s) for s in shapes]
    graph = graph_of(fn, *[tensor(*s, dtype=dt.float64) for s in shapes])
    gradient = gradient_graph(graph, tuple(range(len(shapes))))
    expected = differences(lambda *xs: interpret(graph, list(xs))[0], inputs)
    found = run(gradient, *inputs)
    for value, slope in zip(found, expected, strict=True):
        assert value.dtype == slope.dtype and value.shape == slope.shape
        np.testing.assert_allclose(value, slope, atol=1e-7)
    by_tape = GradOperation(get_all=True)(fn)(*map(Tensor, inputs))
    assert_same(by_tape, found)  # one set of rules serves both


def test_results_of_a_grad_node():
    """All outputs, then gradients: in the order of wrt, zeros for ints and what is unused."""
    graph = graph_of(
        lambda x, n, y: (x * x, n + 1, x * 5), F64, tensor(2, dtype=dt.int32), tensor(3), name="f"
    )
    gradient = gradient_graph(graph, (2, 1, 0), n_out=1, all_results=True)
    n = np.array([1, 2], np.int32)
    out = run(gradient, np.array(3.0), n, np.ones(3, np.float32))
    assert_same(out[:3], (np.array(9.0), n + 1, np.array(15.0)))
    assert_same(out[3:], (np.zeros(3, np.float32), n * 0, np.array(6.0)))
    (summed,) = run(gradient_graph(graph, (0,), n_out=3), np.array(3.0), n, np.ones(3, np.float32))
    assert_same(summed, np.array(11.0))


def test_given_cotangents():
    graph = graph_of(lambda x: (x * x, ops.greater(x, 0), x * 5), F64)
    gradient = gradient_graph(graph, n_out=3, with_sens=True)
    (value,) = run(gradient, np.array(3.0), np.array(10.0), np.array(2.0))
    assert_same(value, np.array(70.0))


def test_numbers():
    def fn(s, n, x):
        return (s * s + n) / (1.0 + s) * x, s * n

    graph = graph_of(fn, FLOAT, INT, F64)
    (ds, dx) = run(gradient_graph(graph, (0, 2), n_out=2), 2.0, 3, np.array(5.0))
    h = 1e-6
    f = lambda s: (s * s + 3) / (1 + s) * 5.0 + s * 3  # noqa: E731
    assert type(ds) is float
    np.testing.assert_allclose(ds, (f(2 + h) - f(2 - h)) / (2 * h), rtol=1e-8)
    np.testing.assert_allclose(dx, 7 / 3)


def test_a_switch_of_three():
    x, i = ParameterNode("x", F64), ParameterNode("i", INT)
    arms = [lambda x: x * x, lambda x: ops.sin(x), lambda x: ops.stop_gradient(x) * x]
    node = CNode(Switch(tuple(graph_of(a, F64, name="arm") for a in arms)), [i, x], F64)
    gradient = gradient_graph(FuncGraph("pick", [x, i], node))
    found = [run(gradient, np.array(2.0), i)[0] for i in range(3)]
    assert_same(found, [np.array(4.0), np.array(np.cos(2.0)), np.array(2.0)])
    second = gradient_graph(gradient)
    found = [run(second, np.array(2.0), i)[0] for i in range(3)]
    assert_same(found, [np.array(2.0), np.array(-np.sin(2.0)), np.array(0.0)])


# --------------------------------------------------------------------- what J keeps and skips


@pytest.mark.parametrize(
    ("fn", "kept"),
    [
        (lambda x, y: x + y, []),
        (lambda x, y: x * 3.0, []),
        (lambda x, y: ops.exp(x), ["Exp"]),
        (lambda x, y: ops.sin(x), ["x"]),
        (lambda x, y: x * y, ["x", "y"]),
        (lambda x, y: x * x * x, ["Mul", "x"]),
        (lambda x, y: ops.stop_gradient(ops.exp(x)) * y, ["StopGradient"]),
        (lambda x, y: ops.sin(ops.exp(x)), ["Exp"]),
    ],
)
def test_residuals_are_what_bwd_reads(fn, kept):
    graph = graph_of(fn, F64, F64)
    fwd, bwd, n = J(graph)
    verify(fwd, "grad")
    verify(bwd, "grad")
    residuals = fwd.outputs()[1:]
    names = [r.callee.name if isinstance(r, CNode) else r.name for r in residuals]
    assert sorted(names) == sorted(kept)
    assert n == len(kept) == len(bwd.parameters) - 1
    assert set(bwd.parameters[:n]) <= set(bwd.nodes())


def test_j_for_some_inputs_and_outputs():
    graph = graph_of(lambda x, y: (x * y, ops.sin(y)), F64, F64)
    fwd, bwd, n = J(graph, wrt=(0,), live=(0,))
    assert n == 1 and len(bwd.parameters) == 2  # y; one cotangent
    assert_same(interpret(bwd, [np.array(3.0), np.array(10.0)]), (np.array(30.0),))
    fwd, bwd, n = J(graph, live=(1,))
    (y, dout) = bwd.parameters
    found = interpret(bwd, [np.array(2.0), np.array(1.0)])
    assert_same(found, (np.array(0.0), np.array(np.cos(2.0))))  # zeros for x


def test_unused_outputs_spoil_nothing():
    """sqrt has an infinite slope at 0; where its cotangent is absent nothing is multiplied."""

    def roots(x):
        return x * 2.0, ops.sqrt(x)

    def body(k, a, b):
        return a * k + 1.0, ops.sqrt(b)

    zero = np.array(0.0)
    graph = graph_of(roots, F64)
    assert_same(run(gradient_graph(graph, n_out=1), zero), (np.array(2.0),))
    m = OnNodes()
    called = graph_of(lambda x: m.call(roots, x)[0], F64)
    assert_same(run(gradient_graph(called), zero), (np.array(2.0),))
    looped = graph_of(lambda x: m.loop(lambda k, a, b: a < 5.0, body, (x + 1.0,), (x, x))[0], F64)
    (value,) = run(gradient_graph(looped), zero)
    assert np.isfinite(value)
    chosen = graph_of(lambda x: m.choose(x < 1.0, roots, roots, x)[0], F64)
    assert_same(run(gradient_graph(chosen), zero), (np.array(2.0),))


class Opaque(Primitive, register=False):
    """An op without gradient."""

    name = "Opaque"

    def infer(self, x):
        return x

    def eval(self, x):
        return x + 1


def test_ops_without_gradient_matter_only_where_one_flows():
    def fn(x, w):
        return apply(Opaque(), x) * w

    def body(x, a, w):
        return apply(Opaque(), a) + x, w * a

    m = OnNodes()
    graph = graph_of(fn, F64, F64)
    assert_same(run(gradient_graph(graph, (1,)), np.array(2.0), np.array(5.0)), (np.array(3.0),))
    with pytest.raises(TypeError, match="Opaque has no gradient"):
        run(gradient_graph(graph, (0,)), np.array(2.0), np.array(5.0))
    loop = graph_of(lambda x, w: m.loop(lambda x, a, w: a < 6.0, body, (x,), (x, w))[1], F64, F64)
    # a: 1, 3, 5, 7 while below 6; w * 1 * 3 * 5
    assert_same(run(gradient_graph(loop, (1,)), np.array(1.0), np.array(5.0)), (np.array(15.0),))


def test_loop_constants_are_passed_and_not_stacked():
    """k, sin(k) and their like are read by every turn, and kept once."""

    def body(k, y):
        return (y * ops.sin(k * k) + k,)

    m = OnNodes()
    graph = graph_of(lambda k, y: m.loop(lambda k, y: y < 9.0, body, (k,), (y,))[0], F64, F64)
    fwd, _, _ = J(graph)
    (loop,) = [n for n in fwd.nodes() if isinstance(n, CNode) and isinstance(n.callee, While)]
    assert [n.abstract for n in loop.inputs] == [F64, INT, STACK, F64]  # one Stack: of y
    inside = loop.callee.body.nodes()
    assert sum(is_call_of(n, "Push") for n in inside) == 1


def test_static_trip_counts_stay_and_nothing_is_counted_forward():
    graph = graph_of(lambda x: fixed_while(x, OnNodes()), F64)
    fwd, bwd, _ = J(graph)
    loops = [
        n.callee
        for g in (fwd, bwd)
        for n in g.nodes()
        if isinstance(n, CNode) and isinstance(n.callee, While)
    ]
    assert [loop.trip_count for loop in loops] == [5, 5]
    assert not any(is_call_of(n, "ScalarAdd") for n in loops[0].body.nodes())


def test_a_shared_block_is_differentiated_once():
    block = graph_of(lambda a: ops.sin(a) * a, F64, name="block")
    (x,) = parameters(F64)
    twice = CNode(block, [CNode(block, [x], F64)], F64)
    graph = expand_grad(gradient_graph(FuncGraph("main", [x], twice)))
    names = [g.name for g in graph.graphs()]
    assert names.count("block_fwd") == names.count("block_bwd") == 1


def test_deep_graphs_and_deep_calls():
    graph = graph_of(lambda x: chain_of(x, 5000), F64)
    assert_same(run(gradient_graph(graph), np.array(1.0)), (np.array(1.0001**5000),))
    inner = graph_of(lambda x: x * 1.01, F64, name="f0")
    for i in range(1, 120):
        (x,) = parameters(F64)
        body = apply_node("Mul", CNode(inner, [x], F64), np.array(1.01))
        inner = FuncGraph(f"f{i}", [x], body)
    assert_same(run(gradient_graph(inner), np.array(1.0)), (np.array(1.01**120),))


def chain_of(x, n):
    for _ in range(n):
        x = x * 1.0001
    return x


def test_origins_of_backward_nodes():
    place = Location("model.py", 12, function="forward")
    (x,) = parameters(F64)
    node = CNode(ops.Sin(), [x], F64, Origin(where=place, scope="seq.0"))
    _, bwd, _ = J(FuncGraph("f", [x], node))
    made = [n for n in bwd.nodes() if isinstance(n, CNode) and not is_call_of(n, "MakeTuple")]
    assert {n.callee.name for n in made} == {"Cos", "Mul"}
    assert {n.origin for n in made} == {Origin(place, "seq.0", "backward", "grad")}


# --------------------------------------------------------------------------- effects


def test_effects_happen_once_and_in_forward_order(capsys):
    def fn(x, token):
        echo("before", x)
        y = x * x
        echo("after", y)
        return y

    graph = graph_of(fn, F64, TOKEN)
    out = run(gradient_graph(graph, n_out=1, all_results=True), np.array(3.0), None)
    assert capsys.readouterr().out == "before 3.0\nafter 9.0\n"
    assert_same(out[0], np.array(9.0))
    assert out[1] is None and float(out[2]) == 6.0


def test_effects_in_a_loop_happen_once(capsys):
    def body(k, y, token):
        echo("y", y)
        return y * k

    types = [F64, F64, TOKEN]
    inside = parameters(*types)
    cond = FuncGraph("cond", inside, apply_node("Less", inside[1], np.array(20.0)))
    x, token = parameters(F64, TOKEN)
    loop = apply_node(While(cond, graph_of(body, *types), 1), x, x, token)
    output = make_tuple([tuple_item(loop, 0), tuple_item(loop, 1)])
    out = run(gradient_graph(FuncGraph("main", [x, token], output)), np.array(2.0), None)
    assert capsys.readouterr().out == "y 2.0\ny 4.0\ny 8.0\ny 16.0\n"
    assert_same(out, (np.array(5 * 2.0**4),))


# ------------------------------------------------------------------- users' own gradients


def with_bprop(bprop: Callable) -> FuncGraph:
    """x * x * y as a Cell's graph with its own gradient."""
    graph = graph_of(lambda x, y: x * x * y, F64, F64, name="cell")
    graph.bprop = graph_of(bprop, F64, F64, F64, F64, name="cell_bprop")
    return graph


def test_bprop_of_a_cell_is_used_to_any_order():
    graph = with_bprop(lambda x, y, out, dout: (dout * x * 10, dout * out))
    x, y = np.array(3.0), np.array(2.0)
    assert_same(run(gradient_graph(graph, (0, 1)), x, y), (np.array(30.0), np.array(18.0)))
    # the derivative of the second is that of `out`, again by the bprop
    second = gradient_graph(gradient_graph(graph, (1,)))
    assert_same(run(second, x, y), (np.array(30.0),))
    caller = graph_of(lambda x, y: wrap(CNode(graph, [x._node, y._node], F64)) * x, F64, F64)
    assert_same(run(gradient_graph(caller), x, y), (np.array(18.0 + 3.0 * 30.0),))


def test_bprop_gets_zeros_for_absent_cotangents():
    graph = graph_of(lambda x: (x * x, x + 1, ops.greater(x, 0)), F64, name="cell")
    types = [F64, F64, F64, tensor(dtype=dt.bool_), F64, F64]
    graph.bprop = graph_of(lambda x, a, b, c, da, db: (da * 7 + db,), *types)
    gradient = gradient_graph(graph, n_out=1)
    assert_same(run(gradient, np.array(3.0)), (np.array(7.0),))
    assert_same(run(gradient_graph(graph, n_out=3), np.array(3.0)), (np.array(8.0),))


@pytest.fixture
def mul_rule():
    """Registers a rule for Mul, and undoes it."""

    def register(bprop):
        bprop_getters.register(ops.Mul)(lambda prim: bprop)

    yield register
    bprop_getters.unregister(ops.Mul)


def test_registered_rules_are_traced_without_an_evaluator(mul_rule):
    mul_rule(lambda x, y, out, dout: (dout * 100, None))
    graph = gradient_graph(graph_of(lambda x, y: ops.mul(x, y), F64, F64), (0, 1))
    found = run(graph, np.array(3.0), np.array(2.0))
    assert_same(found, (np.array(100.0), np.array(0.0)))


def test_registered_rules_go_through_the_evaluator(mul_rule, monkeypatch):
    monkeypatch.setattr(sweep, "_evaluator", [])
    seen = []

    def evaluator(bprop, abstracts):
        seen.append((bprop, abstracts))
        return graph_of(lambda x, y, out, dout: (dout * out, ops.greater(x, y)), *abstracts)

    set_evaluator(evaluator)
    mul_rule(rule := lambda x, y, out, dout: None)
    graph = gradient_graph(graph_of(lambda x, y: ops.mul(x, y), F64, F64), (0, 1))
    found = run(graph, np.array(3.0), np.array(2.0))
    assert_same(found, (np.array(6.0), np.array(0.0)))
    assert seen == [(rule, [F64] * 4)]


def test_errors_of_registered_rules(mul_rule, monkeypatch):
    monkeypatch.setattr(sweep, "_evaluator", [])
    graph = gradient_graph(graph_of(lambda x, y: ops.mul(x, y), F64, F64), (0, 1))
    mul_rule(lambda x, y, out, dout: (dout,))
    with pytest.raises(RuntimeError, match=r"bprop of Mul returned 1 gradient\(s\) for 2"):
        expand_grad(graph)
    mul_rule(lambda x, y, out, dout: (dout, ops.cast(dout, dt.float32)))
    with pytest.raises(TypeError, match="gradient 1 of the bprop of Mul is Float32"):
        expand_grad(graph)
    mul_rule(lambda x, y, out, dout: (dout, dout, echo("seen", x))[:2])
    with pytest.raises(RuntimeError, match="has an effect"):
        expand_grad(graph)


# -------------------------------------------------------------------------- expand_grad


def test_graphs_without_grad_are_returned_unchanged():
    graph = graph_of(lambda x: nested(x, OnNodes()), F64)
    assert expand_grad(graph) is graph


def test_grad_inside_other_graphs():
    """Grad in a loop's body, in an arm and in a called graph."""
    inner = gradient_graph(graph_of(lambda y: y * y * y, F64, name="cube"))  # 3 y y
    m = OnNodes()

    def slope(y):
        return wrap(CNode(inner, [y._node], F64))

    def program(x):
        (y,) = m.loop(lambda k, y: y < 50.0, lambda k, y: (slope(y) * k,), (x,), (x,))
        return m.choose(y < 0.0, lambda y: y, lambda y: slope(y) * 0.5, y)

    graph = graph_of(program, F64)
    y = 2.0
    while y < 50.0:
        y = 3 * y * y * 2.0
    assert_same(run(graph, np.array(2.0)), (np.array(1.5 * y * y),))
    gradient = run(gradient_graph(graph), np.array(2.0))[0]
    h = 1e-6
    values = [run(graph, np.array(2.0 + d))[0] for d in (h, -h)]
    np.testing.assert_allclose(gradient, (values[0] - values[1]) / (2 * h), rtol=1e-6)


def test_grad_inside_a_bprop():
    inner = gradient_graph(graph_of(lambda y: y * y * y, F64))
    graph = with_bprop(lambda x, y, out, dout: (wrap(CNode(inner, [x._node], F64)) * dout, dout))
    assert_same(run(gradient_graph(graph), np.array(3.0), np.array(2.0)), (np.array(27.0),))


def test_a_function_cannot_take_the_gradient_of_itself():
    graph = FuncGraph("f", [x := ParameterNode("x", F64)])
    call = CNode(Grad(graph, (0,), 1), [x], AbstractTuple((F64, F64)))
    graph.set_output(tuple_item(call, 1))
    with pytest.raises(RecursionError, match="f takes the gradient of a function that calls f"):
        expand_grad(graph)


def test_the_interpreter_expands_grad_nodes():
    graph = gradient_graph(graph_of(lambda x: x * x, F64))
    assert_same(interpret(graph, [np.array(3.0)]), (np.array(6.0),))


def test_adjoints_can_be_shared():
    graph, adjoints = graph_of(lambda x: x * x, F64), Adjoints()
    first = J(graph, adjoints=adjoints)
    assert J(graph, adjoints=adjoints)[0] is first[0]
    assert J(graph)[0] is not first[0]


@pytest.mark.parametrize("name", [n for n, rows in SCALARS.items() if n != "ScalarCast"])
def test_gradients_of_numbers_have_gradients(name):
    """d(dy/dx) of the operations on Python floats, against central differences of dy/dx."""
    step = 1e-6
    for prim, inputs, expected in SCALARS[name]:
        floats = [i for i, x in enumerate(inputs) if type(x) is float]
        if type(expected) is not float or not floats or name == "ScalarRound":
            continue
        types = [AbstractScalar(type(x)) for x in inputs]
        first = gradient_graph(graph_of(lambda *x, p=prim: apply(p, *x), *types), tuple(floats))
        second = gradient_graph(first, tuple(floats), len(floats))
        found = run(second, *inputs)
        for i, slope in zip(floats, found, strict=True):
            sums = [
                sum(run(first, *[x + h if j == i else x for j, x in enumerate(inputs)]))
                for h in (step, -step)
            ]
            assert slope == pytest.approx((sums[0] - sums[1]) / (2 * step), rel=1e-5, abs=1e-9)


def test_powers_of_numbers_at_zero():
    graph = gradient_graph(graph_of(lambda x, y: x**y, FLOAT, FLOAT), (0, 1))
    assert run(graph, 0.0, 2.0) == (0.0, 0.0)
    assert run(graph, 0.0, 0.0) == (0.0, 0.0)
    assert run(graph, 0.0, 1.0) == (1.0, 0.0)
    slope, none = run(graph, -2.0, 3.0)
    assert slope == 12.0 and math.isnan(none)
