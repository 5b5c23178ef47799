"""J against truncated Taylor arithmetic, to third order, through every kind of control flow.

Each program is written once, as a Python function of a number `x` and of what says what sin, a loop,
a choice and a recursive function are: `OnJets` runs it in Python on Taylor polynomials, `OnNodes`
builds a graph of it.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from graphs import FLOAT, INT, apply_node, graph_of, parameters, tensor
from helpers import assert_same

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import STACK, TOKEN, AbstractTensor, AbstractTuple
from minispore.autodiff import transform
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
    ValueNode,
    While,
    graphs_of,
    is_call_of,
    make_tuple,
    tuple_item,
)
from minispore.ir.verify import verify
from minispore.primitive import Primitive, bprop_getters, handled_by
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


def gradient_graph(graph: FuncGraph, wrt=(0,), n_out=1) -> FuncGraph:
    """A graph with one Grad node that returns the gradients of another graph."""
    nodes = parameters(*[p.abstract for p in graph.parameters])
    outputs = transform.items_of(graph.output)
    types = (*(o.abstract for o in outputs), *(graph.parameters[i].abstract for i in wrt))
    grad = CNode(Grad(graph, wrt, n_out), nodes, AbstractTuple(types))
    gradients = [tuple_item(grad, len(outputs) + i) for i in range(len(wrt))]
    output = gradients[0] if len(wrt) == 1 else make_tuple(gradients)
    return FuncGraph("gradient", nodes, output)


def run(graph: FuncGraph, *inputs):
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
