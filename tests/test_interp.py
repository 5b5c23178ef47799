"""The interpreter against Python and NumPy."""

import math

import numpy as np
import pytest
from graphs import (
    BOOL,
    FLOAT,
    INT,
    apply_node,
    echo,
    factorial,
    graph_of,
    parameters,
    power_loop,
    tensor,
)

from minispore import context, ops
from minispore.abstract import STACK, TOKEN, AbstractTensor, AbstractTuple
from minispore.dtype import bool_, float32, int32
from minispore.ir import interp
from minispore.ir.interp import execution_order, interpret
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Location,
    Origin,
    ParameterNode,
    Switch,
    ValueNode,
    make_tuple,
    tuple_item,
)
from minispore.primitive import Primitive
from minispore.symbolic import constant_node


class Lying(Primitive, register=False):
    """Promises one type and gives another."""

    name = "Lying"

    def infer(self, x):
        return x

    def eval(self, x):
        return self.attrs["value"]


def test_expression_is_numpy():
    g = graph_of(lambda x, y: ops.exp(x) * y - 1, tensor(2, 3), tensor(3))
    x, y = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), np.array([1, 2, 3], np.float32)
    (out,) = interpret(g, [x, y])
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, np.exp(x) * y - 1, rtol=1e-6)


def test_zero_dimensional_results_are_arrays():
    (out,) = interpret(graph_of(lambda x: x + 1, tensor()), [np.array(2, np.float32)])
    assert isinstance(out, np.ndarray) and out.shape == () and out == 3


def test_outputs_are_a_tuple_and_may_be_none_at_all():
    assert interpret(graph_of(lambda x: (x + 1, 2.5, x), INT), [4]) == (5, 2.5, 4)
    assert interpret(FuncGraph("nothing", [], make_tuple([])), []) == ()


def test_wrong_number_of_inputs():
    with pytest.raises(TypeError, match="main takes 1 inputs, not 2"):
        interpret(graph_of(lambda x: x, INT), [1, 2])


def test_recursion_deeper_than_pythons_stack():
    assert interpret(factorial(), [20]) == (math.factorial(20),)
    (x,) = parameters(INT)
    down = FuncGraph("down", [x])
    stop = graph_of(lambda x: x, INT)
    (y,) = parameters(INT)
    where = Origin(where=Location("f.py", 2))
    call = CNode(down, [apply_node("ScalarSub", y, 1)], INT, where)
    more = FuncGraph("more", [y], call)
    zero = apply_node("ScalarEqual", x, 0)
    down.set_output(CNode(Switch((stop, more)), [zero, x], INT, where))
    with context.using(max_call_depth=5000):
        assert interpret(down, [4999]) == (0,)
    with pytest.raises(RecursionError, match="max_call_depth") as caught:
        interpret(down, [1001])
    assert caught.value.__notes__ == [
        'While running the graph:\n  File "f.py", line 2, in <module>'
    ]


def test_while():
    x = np.array([1.5, -2], np.float32)
    product, steps = interpret(power_loop(), [x, 5])
    np.testing.assert_allclose(product, x**5)
    assert steps == 5
    assert interpret(power_loop(), [x, 0])[1] == 0


@pytest.mark.parametrize("choice, abstract, expected", [
    (True, BOOL, 1), (False, BOOL, 2), (0, INT, 1), (1, INT, 2),
    (np.array(True), tensor(dtype=bool_), 1),
    (np.array([False]), tensor(1, dtype=bool_), 2),
])  # fmt: skip
def test_switch(choice, abstract, expected):
    arms = tuple(graph_of(lambda x, n=n: n, INT) for n in (1, 2))
    c, x = parameters(abstract, INT)
    assert interpret(FuncGraph("f", [c, x], apply_node(Switch(arms), c, x)), [choice, 0]) == (
        expected,
    )


@pytest.mark.parametrize("index", [-1, 2])
def test_switch_index_out_of_range(index):
    arms = tuple(graph_of(lambda x: x, INT) for _ in range(2))
    (i,) = parameters(INT)
    with pytest.raises(IndexError, match="Switch has 2 graphs"):
        interpret(FuncGraph("f", [i], apply_node(Switch(arms), i, i)), [index])


def test_stacks_are_last_in_first_out_and_end_in_zeros():
    x = ParameterNode("x", tensor(2))
    empty = ValueNode(None, STACK)
    pushed = apply_node("Push", apply_node("Push", empty, x), apply_node("Neg", x))
    pops = []
    stack = pushed
    for _ in range(3):
        pop = apply_node("Pop", stack, abstract=tensor(2))
        pops.append(tuple_item(pop, 0))
        stack = tuple_item(pop, 1)
    values = interpret(FuncGraph("f", [x], make_tuple(pops)), [np.array([1, 2], np.float32)])
    assert [v.tolist() for v in values] == [[-1, -2], [1, 2], [0, 0]]


def test_effects_run_in_order_before_pure_nodes_that_may_fail(capsys):
    def f(token, x):
        quotient = 1 // x
        echo("first")
        echo("second", x)
        return quotient

    g = graph_of(f, TOKEN, INT)
    with pytest.raises(ZeroDivisionError):
        interpret(g, [None, 0])
    assert capsys.readouterr().out == "first\nsecond 0\n"
    assert interpret(g, [None, 1]) == (1, None)


def test_execution_order_puts_each_effect_after_what_it_needs_only():
    def f(token, x):
        late = x * 2
        echo(x + 1)
        return late

    names = [n.callee.name for n in execution_order(graph_of(f, TOKEN, INT)) if n.inputs]
    assert names == ["ScalarAdd", "Print", "ScalarMul", "MakeTuple"]


def test_exception_names_the_users_line_once():
    where = Location("model.py", 12, function="construct")
    (x,) = parameters(INT)
    inner = FuncGraph("inner", [x], apply_node("ScalarDiv", 1, x, at=where))
    (y,) = parameters(INT)
    outer = FuncGraph("outer", [y], apply_node(inner, y, at=Location("other.py", 3)))
    with pytest.raises(ZeroDivisionError) as caught:
        interpret(outer, [0])
    assert caught.value.__notes__ == [
        'While running the graph:\n  File "model.py", line 12, in construct'
    ]
    nowhere = FuncGraph("f", [x], apply_node("ScalarDiv", 1, x))
    with pytest.raises(ZeroDivisionError) as caught:
        interpret(nowhere, [0])
    assert not hasattr(caught.value, "__notes__")


def test_trace_sees_every_node_in_order():
    seen = []
    interpret(graph_of(lambda x: (x + 1) * 2, INT), [3], lambda node, value: seen.append(value))
    assert sorted(seen) == [1, 2, 3, 4, 8] and seen[-1] == 8


def test_grad_needs_the_expander(monkeypatch):
    g = graph_of(lambda x: x * x, FLOAT)
    (x,) = parameters(FLOAT)
    call = CNode(Grad(g, (0,), 1), [x], AbstractTuple((FLOAT, FLOAT)), Origin())
    f = FuncGraph("f", [x], call)
    monkeypatch.setattr(interp, "_grad_expander", [])
    with pytest.raises(NotImplementedError, match="autodiff.transform"):
        interpret(f, [3.0])

    def expand(graph, sizes):
        assert isinstance(graph.output.callee, Grad) and sizes == {}
        return graph_of(lambda x: (x * x, 2 * x), FLOAT)

    interp.register_grad_expander(expand)
    assert interpret(f, [3.0]) == (9.0, 6.0)


@pytest.mark.parametrize("shape", [(3,), (2, 1), ()])
def test_results_are_checked_against_their_types(shape, monkeypatch):
    x = ParameterNode("x", AbstractTensor(float32, (2,)))
    g = FuncGraph("f", [x], CNode(Lying.bound(value=np.zeros(shape)), [x], x.abstract))
    with pytest.raises(TypeError, match="no Tensor"):
        interpret(g, [np.zeros(2, np.float32)])
    monkeypatch.setenv("MINISPORE_DEBUG", "0")
    assert interpret(g, [np.zeros(2, np.float32)])[0].shape == shape


def test_a_float_result_never_becomes_an_int_silently():
    x = ParameterNode("x", tensor(2, dtype=int32))
    g = FuncGraph("f", [x], CNode(Lying.bound(value=np.array([0.5, 1])), [x], x.abstract))
    with pytest.raises(TypeError, match="Cannot cast"):
        interpret(g, [np.zeros(2, np.int32)])


def test_inputs_are_checked():
    with pytest.raises(TypeError, match="no int"):
        interpret(graph_of(lambda x: x + 1, INT), [1.5])


def test_deep_chain_needs_no_python_stack():
    node = constant_node(0)
    for _ in range(20_000):
        node = apply_node("ScalarAdd", node, 1)
    assert interpret(FuncGraph("deep", [], node), []) == (20_000,)
