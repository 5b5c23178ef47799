"""Plans: equal to the interpreter, to Python and NumPy; slots are freed; who owns results."""

import gc
import math
import weakref

import numpy as np
import pytest
from graphs import (
    BOOL,
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
from minispore.abstract import STACK, TOKEN, AbstractTuple
from minispore.dtype import float16
from minispore.engine import compile_plan
from minispore.engine.plan import forget
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
    make_tuple,
    tuple_item,
)
from minispore.primitive import Primitive
from minispore.symbolic import constant_node


class Shared(Primitive, register=False):
    """A broken promise: a view of its operand."""

    name = "Shared"

    def infer(self, x):
        return x

    def eval(self, x):
        return x[:]


def check(graph, *inputs):
    """Run a plan twice, compare with the interpreter to the last bit; the outputs."""
    kept = [np.array(x) if isinstance(x, np.ndarray) else x for x in inputs]
    expected = interpret(graph, list(inputs))
    plan = compile_plan(graph)
    for _ in range(2):
        outputs = plan.run(list(inputs))
        assert len(outputs) == len(expected)
        for out, want in zip(outputs, expected, strict=True):
            assert type(out) is type(want)
            if isinstance(out, np.ndarray):
                assert out.dtype == want.dtype and out.shape == want.shape
                assert out.tobytes() == want.tobytes()
            else:
                assert repr(out) == repr(want)
    for x, before in zip(inputs, kept, strict=True):
        assert not isinstance(x, np.ndarray) or x.tobytes() == before.tobytes()
    return outputs


X = np.array([[1.5, -2, 0], [3, 4, -0.0]], np.float32)


def test_straight_line():
    (out,) = check(graph_of(lambda x, y: ops.exp(x) * y - 1, tensor(2, 3), tensor(3)), X, X[0])
    np.testing.assert_allclose(out, np.exp(X) * X[0] - 1, rtol=1e-6)


def test_several_outputs_and_tuple_primitives():
    g = graph_of(lambda x: (ops.split(x, 1)[1] + ops.split(x, 1)[0], 3, x.shape[0]), tensor(2, 3))
    out = check(g, X)
    np.testing.assert_array_equal(out[0], X[1:] + X[:1])
    assert out[1:] == (3, 2)
    assert check(FuncGraph("nothing", [], make_tuple([]))) == ()


def test_half_floats_and_zero_dimensions_have_the_type_of_their_node():
    x = np.array([1.5, 2.5], np.float16)
    (out,) = check(graph_of(lambda x: ops.exp(x).sum(), tensor(2, dtype=float16)), x)
    assert out.dtype == np.float16 and out.shape == ()


@pytest.mark.parametrize("n", [0, 1, 5])
def test_loop(n):
    x = np.array([1.5, -2], np.float32)
    product, steps = check(power_loop(), x, n)
    assert steps == n
    np.testing.assert_array_equal(product, x**n)


def test_carries_may_change_places():
    c, b = parameters(INT, INT, INT, INT), parameters(INT, INT, INT, INT)
    cond = FuncGraph("cond", c, apply_node("ScalarLess", c[1], c[0]))
    swap = make_tuple([apply_node("ScalarAdd", b[1], 1), b[3], b[2]])
    n, x, y = parameters(INT, INT, INT)
    loop = apply_node(While(cond, FuncGraph("body", b, swap), 1), n, 0, x, y)
    assert check(FuncGraph("f", [n, x, y], loop), 3, 10, 20) == (3, 20, 10)


def nested_loops():
    """sum over i < n of sum over j < i of j, one While in another."""
    c, b = parameters(INT, INT, INT), parameters(INT, INT, INT)
    cond = FuncGraph("inner_cond", c, apply_node("ScalarLess", c[1], c[0]))
    step = [apply_node("ScalarAdd", b[1], 1), apply_node("ScalarAdd", b[2], b[1])]
    inner = While(cond, FuncGraph("inner_body", b, make_tuple(step)), 1)
    c, b = parameters(INT, INT, INT), parameters(INT, INT, INT)
    cond = FuncGraph("cond", c, apply_node("ScalarLess", c[1], c[0]))
    loop = apply_node(inner, b[1], 0, b[2])
    step = [apply_node("ScalarAdd", b[1], 1), tuple_item(loop, 1)]
    (n,) = parameters(INT)
    outer = apply_node(While(cond, FuncGraph("body", b, make_tuple(step)), 1), n, 0, 0)
    return FuncGraph("f", [n], tuple_item(outer, 1))


def test_loops_in_loops():
    assert check(nested_loops(), 6) == (sum(sum(range(i)) for i in range(6)),)


def test_arms_of_arms():
    def sign(x):
        (a,) = parameters(INT)
        zero, minus = (graph_of(lambda x, n=n: n, INT, name=str(n)) for n in (0, -1))
        negative = apply_node(Switch((minus, zero)), apply_node("ScalarLess", a, 0), a)
        plus = graph_of(lambda x: 1, INT)
        other = FuncGraph("other", [a], negative)
        return apply_node(Switch((plus, other)), apply_node("ScalarGreater", x, 0), x)

    (x,) = parameters(INT)
    g = FuncGraph("sign", [x], sign(x))
    assert [check(g, v)[0] for v in (7, 0, -7)] == [1, 0, -1]


def test_switch_of_many():
    i, x = parameters(INT, INT)
    arms = tuple(graph_of(lambda x, n=n: (x * n, n), INT) for n in range(4))
    g = FuncGraph("f", [i, x], apply_node(Switch(arms), i, x))
    assert [check(g, n, 5) for n in range(4)] == [(5 * n, n) for n in range(4)]
    with pytest.raises(IndexError, match="Switch has 4 graphs"):
        compile_plan(g).run([4, 5])


def test_an_arm_used_twice_is_a_routine():
    c, x = parameters(BOOL, INT)
    double = graph_of(lambda x: x * 2, INT, name="double")
    other = graph_of(lambda x: x + 1, INT, name="other")
    one = apply_node(Switch((double, other)), c, x)
    two = apply_node(Switch((other, double)), c, one)
    g = FuncGraph("f", [c, x], two)
    assert check(g, True, 5) == (11,) and check(g, False, 5) == (12,)
    assert compile_plan(g).listing().count("routine @double") == 1


def test_condition_and_body_used_twice():
    g = power_loop()
    loop = g.output.inputs[0].inputs[0]
    x, n = g.parameters
    again = apply_node(loop.callee, tuple_item(loop, 0), n, tuple_item(loop, 0), 1)
    h = FuncGraph("f", g.parameters, make_tuple([tuple_item(again, 0), tuple_item(again, 1)]))
    x = np.array([1.5, -2], np.float32)
    product, _ = check(h, x, 3)
    np.testing.assert_array_equal(product, (x**3) ** 3)


def test_recursion():
    assert check(factorial(), 20) == (math.factorial(20),)
    (x,) = parameters(INT)
    down = FuncGraph("down", [x])
    (y,) = parameters(INT)
    where = Origin(where=Location("f.py", 2))
    call = CNode(down, [apply_node("ScalarSub", y, 1)], INT, where)
    more = FuncGraph("more", [y], call)
    arms = (graph_of(lambda x: x, INT), more)
    down.set_output(CNode(Switch(arms), [apply_node("ScalarEqual", x, 0), x], INT))
    with context.using(max_call_depth=3000):
        assert check(down, 2999) == (0,)
    with pytest.raises(RecursionError, match="max_call_depth") as caught:
        compile_plan(down).run([1001])
    assert caught.value.__notes__ == [
        'While running the graph:\n  File "f.py", line 2, in <module>'
    ]


def test_recursion_through_arms_only():
    """f: an arm of f's own Switch is f."""
    n, total = parameters(INT, INT)
    f = FuncGraph("f", [n, total])
    done = graph_of(lambda n, total: total, INT, INT, name="done")
    is_zero = apply_node("ScalarEqual", n, 0)
    less = apply_node("ScalarSub", n, apply_node("ScalarNotEqual", n, 0))
    more = apply_node("ScalarAdd", total, n)
    f.set_output(CNode(Switch((done, f)), [is_zero, less, more], INT))
    assert check(f, 10, 0) == (55,)
    for run in (lambda: interpret(f, [1002, 0]), lambda: compile_plan(f).run([1002, 0])):
        with pytest.raises(RecursionError, match="f calls itself more than 1000 calls deep"):
            run()


def test_stacks():
    (x,) = parameters(tensor(2))
    stack = apply_node("Push", apply_node("Push", ValueNode(None, STACK), x), apply_node("Neg", x))
    values = []
    for _ in range(3):
        pop = apply_node("Pop", stack, abstract=tensor(2))
        values.append(tuple_item(pop, 0))
        stack = tuple_item(pop, 1)
    out = check(FuncGraph("f", [x], make_tuple(values)), np.array([1, 2], np.float32))
    assert [v.tolist() for v in out] == [[-1, -2], [1, 2], [0, 0]]


def test_effects_are_in_order(capsys):
    def f(token, x):
        quotient = 1 // x
        echo("first")
        echo("second", x)
        return quotient

    g = graph_of(f, TOKEN, INT)
    with pytest.raises(ZeroDivisionError):
        compile_plan(g).run([None, 0])
    assert capsys.readouterr().out == "first\nsecond 0\n"


def test_exception_names_the_users_line_once():
    where = Location("model.py", 12, function="construct")
    (x,) = parameters(INT)
    inner = FuncGraph("inner", [x], apply_node("ScalarDiv", 1, x, at=where))
    (y,) = parameters(INT)
    outer = FuncGraph("outer", [y], apply_node(inner, y, at=Location("other.py", 3)))
    with pytest.raises(ZeroDivisionError) as caught:
        compile_plan(outer).run([0])
    assert caught.value.__notes__ == [
        'While running the graph:\n  File "model.py", line 12, in construct'
    ]


def test_wrong_number_of_inputs():
    with pytest.raises(TypeError, match="main takes 1 inputs, not 0"):
        compile_plan(graph_of(lambda x: x, INT)).run([])


def test_grad_must_be_expanded():
    g = graph_of(lambda x: x, INT)
    (x,) = parameters(INT)
    call = CNode(Grad(g, (), 1), [x], AbstractTuple((INT,)))
    with pytest.raises(ValueError, match="main has a Grad: expand it"):
        compile_plan(FuncGraph("main", [x], call))


# --------------------------------------------------------------------------------- ownership


def test_outputs_are_the_callers():
    x = ParameterNode("x", tensor(2))
    constant = constant_node(np.ones(2, np.float32))
    y = apply_node("Neg", x)
    view = CNode(Shared.bound(), [x], x.abstract)
    c = constant_node(True)
    arm = graph_of(lambda x: x, x.abstract)
    through = apply_node(Switch((arm, graph_of(lambda x: -x, x.abstract))), c, x)
    plan = compile_plan(FuncGraph("f", [x], make_tuple([x, constant, y, y, view, through, x])))
    array = np.array([1, 2], np.float32)
    first = plan.run([array])
    arrays = [array, *first]
    for i, a in enumerate(arrays):
        for b in arrays[i + 1 :]:
            assert not np.shares_memory(a, b)
    for a in first:
        a[:] = 99
    again = plan.run([array])
    negative = [[-1, -2], [-1, -2]]
    assert [v.tolist() for v in again] == [[1, 2], [1, 1], *negative, *[[1, 2]] * 3]


def test_arrays_in_stacks_are_not_shared_with_outputs():
    x, s = ParameterNode("x", tensor(2)), ParameterNode("s", STACK)
    pop = apply_node("Pop", s, abstract=tensor(2))
    y = apply_node("Neg", x)
    pushed = apply_node("Push", tuple_item(pop, 1), y)
    plan = compile_plan(FuncGraph("f", [x, s], make_tuple([tuple_item(pop, 0), y, pushed])))
    array, below = np.zeros(2, np.float32), np.ones(2, np.float32)
    top, y_out, stack = plan.run([array, (below, None)])
    assert not np.shares_memory(top, below) and not np.shares_memory(y_out, stack[0])


def test_slots_are_freed_after_their_last_use():
    alive = []

    class Watch(Primitive, register=False):
        name = "Watch"

        def infer(self, x):
            return x

        def eval(self, x):
            gc.collect()
            alive.append(sum(r() is not None for r in refs))
            out = x + 1
            refs.append(weakref.ref(out))
            return out

    refs: list = []
    node: Node = ParameterNode("x", tensor(2))
    x = node
    for _ in range(5):
        node = CNode(Watch.bound(), [node], node.abstract)
    compile_plan(FuncGraph("f", [x], node)).run([np.zeros(2, np.float32)])
    assert alive == [0, 1, 1, 1, 1]  # the operand only


def test_every_slot_of_a_routine_is_freed_once():
    for g in (power_loop(), factorial(), nested_loops()):
        plan = compile_plan(g)
        for routine in plan.routines.values():
            freed = [i for step in routine.instructions for i in step.free]
            assert len(freed) == len(set(freed))
            variable = {i for i, v in enumerate(routine.slots) if v is None}
            assert set(freed) == variable


# ----------------------------------------------------------------------------------- listing


def test_listing():
    text = compile_plan(power_loop()).listing()
    assert (
        text
        == """\
routine @power(s0 x, s1 y): 10 slots
  s2 = Tensor[Float32, (2)]([1.0, 1.0])
  s3 = 0
  s8 = 1
   0  move s4, s5 = s2, s3
   1  s6 = ScalarLess(s5, s1)
   2  unless s6 jump 7  free s6
   3  s7 = Mul(s4, s0)
   4  s9 = ScalarAdd(s5, s8)
   5  move s4, s5 = s7, s9  free s7, s9
   6  jump 1
   7  free s0, s1
   8  return s4, s5  free s4, s5"""
    )
    lines = compile_plan(factorial()).listing().splitlines()
    assert "   1  choose s2: 2, 4" in lines and "   5  s6 = call @factorial(s5)  free s5" in lines
    where = Location("m.py", 3)
    (x,) = parameters(INT)
    g = FuncGraph("f", [x], apply_node("ScalarNeg", x, at=where))
    assert "   0  s1 = ScalarNeg(s0)  free s0  # m.py:3\n" in compile_plan(g).listing()


def test_jumps_stay_inside():
    for g in (power_loop(), factorial(), nested_loops()):
        for routine in compile_plan(g).routines.values():
            for step in routine.instructions:
                assert all(0 < t < len(routine.instructions) for t in step.targets)
            assert routine.instructions[-1].do is not forget
