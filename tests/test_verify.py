"""Every rule of the verifier, kept once and broken on purpose once."""

import re
import sys
from pathlib import Path

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
    tensor,
)

import minispore as ms
from minispore import graph_function, program
from minispore.abstract import STACK, TOKEN, AbstractTuple
from minispore.dtype import bool_, float32, int32
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Location,
    Origin,
    ParameterNode,
    Switch,
    ValueNode,
    While,
    make_tuple,
    tuple_item,
)
from minispore.ir.verify import STAGES, IRError, verify
from minispore.passes import pipeline
from minispore.symbolic import constant_node

EMPTY = ValueNode(None, STACK)


def broken(rule, graph, message, stage="any"):
    with pytest.raises(IRError, match=message) as caught:
        verify(graph, stage)
    assert caught.value.rule == rule
    assert f"graph @{caught.value.graph.name}" in str(caught.value)


def identity(*abstracts, name="g"):
    return graph_of(lambda *xs: xs if len(xs) > 1 else xs[0], *abstracts, name=name)


def counter(carry=INT, step=1, cond_kind="ScalarLess"):
    """(cond, body) of a loop with one constant and one carry."""
    c, b = parameters(INT, INT), parameters(INT, INT)
    cond = FuncGraph("cond", c, apply_node(cond_kind, c[1], c[0]))
    return cond, FuncGraph("body", b, make_tuple([apply_node("ScalarAdd", b[1], step)]))


# --------------------------------------------------------------------------------- kept rules


@pytest.mark.parametrize("stage", STAGES)
def test_valid_graphs(stage):
    verify(factorial(), stage)
    verify(graph_of(lambda t, x: echo(x) or x + 1, TOKEN, INT), stage)
    n, start = parameters(INT, INT)
    verify(FuncGraph("loop", [n], apply_node(While(*counter(), 1, 4), n, 0)), stage)


def test_valid_grad_bprop_and_stack():
    g = identity(FLOAT, INT)
    x, n, d = parameters(FLOAT, INT, FLOAT)
    call = CNode(Grad(g, (0,), 1), [x, n], AbstractTuple((FLOAT, INT, FLOAT)))
    verify(FuncGraph("f", [x, n], call), "evaluate")
    call = CNode(Grad(g, (0, 1), 2, True), [x, n, d], AbstractTuple((FLOAT, INT, FLOAT, INT)))
    verify(FuncGraph("f", [x, n, d], call))
    own = graph_of(lambda x, n, y, d: (d,), FLOAT, INT, FLOAT, FLOAT)
    verify(FuncGraph("cell", [x, n], x, bprop=own))
    twice = make_tuple([apply_node("Push", EMPTY, x), apply_node("Push", EMPTY, x)])
    verify(FuncGraph("f", [x], twice))


def test_unknown_stage():
    with pytest.raises(ValueError, match="'late' is no stage; the stages are any"):
        verify(factorial(), "late")


# ------------------------------------------------------------------------------- broken rules


def test_typed():
    (x,) = parameters(INT)
    broken(
        "typed", FuncGraph("f", [x], CNode(factorial(), [x], FLOAT)), "type of the call is float"
    )
    node = CNode(apply_node("ScalarAdd", x, 1).callee, [x, constant_node(1)], FLOAT)
    broken("typed", FuncGraph("f", [x], node), "the node's type is float, and must be int")
    node.abstract = None
    broken("typed", FuncGraph("f", [x], node), "the node has no type")


def test_typed_by_the_number_of_operands():
    (x,) = parameters(tensor(2))
    add = apply_node("Add", x, x).callee
    broken("typed", FuncGraph("f", [x], CNode(add, [x], x.abstract)), "Add takes 2 operands")


def test_typed_when_infer_fails():
    (x,) = parameters(tensor(2))
    node = CNode(apply_node("TensorToScalar", np.zeros(1), kind=float).callee, [x], FLOAT)
    broken(
        "typed", FuncGraph("f", [x], node), "operands do not fit: ValueError: only a Tensor of one"
    )


@pytest.mark.parametrize("value, abstract", [
    (1, FLOAT), (True, INT), (1.0, BOOL), (np.zeros(2), tensor(2)),
    (np.zeros((2, 1), np.float32), tensor(2)), (1.0, tensor()), (3, TOKEN), (3, STACK),
])  # fmt: skip
def test_constant(value, abstract):
    broken("constant", FuncGraph("f", [], ValueNode(value, abstract)), "no")


def test_closed_foreign_parameter():
    (x,) = parameters(INT)
    (y,) = parameters(INT)
    inner = FuncGraph("inner", [y], apply_node("ScalarAdd", y, x))
    outer = FuncGraph("outer", [x], apply_node(inner, x))
    broken("closed", outer, "graph @inner: the graph uses the parameter %x of @outer")


def test_closed_free_parameter():
    x, y = parameters(INT, INT)
    broken("closed", FuncGraph("f", [x], y), "uses %y, which is none of its parameters")


def test_closed_parameter_listed_twice():
    (x,) = parameters(INT)
    broken("closed", FuncGraph("f", [x, x], x), "listed twice")
    inner = FuncGraph("inner", [x], x)
    broken("closed", FuncGraph("f", [x], apply_node(inner, x)), "listed twice")


def test_closed_incomplete_graph():
    (x,) = parameters(INT)
    call = CNode(FuncGraph("later", parameters(INT)), [x], INT)
    broken("closed", FuncGraph("f", [x], call), "graph later is not complete")


def test_call_operands():
    g = identity(INT, FLOAT)
    x, y = parameters(INT, FLOAT)
    broken("call", FuncGraph("f", [x], apply_node(g, x)), "@g takes 2 operands, not 1")
    swapped = FuncGraph("f", [x, y], apply_node(g, y, x))
    broken("call", swapped, "operand 0 of @g is float, and must be int")


def test_call_switch():
    c, i, x = parameters(BOOL, INT, INT)
    g, h = identity(INT), identity(INT, name="h")
    three = FuncGraph("f", [c, x], apply_node(Switch((g, h, g)), c, x))
    broken("call", three, "a bool chooses between 2 graphs, not 3")
    verify(FuncGraph("f", [i, x], apply_node(Switch((g, h, g)), i, x)))
    no_choice = FuncGraph("f", [x], CNode(Switch((g, h)), [], INT))
    broken("call", no_choice, "needs a choice")
    two_operands = FuncGraph("f", [c, x], apply_node(Switch((g, h)), c, x, x))
    broken("call", two_operands, "@g takes 1 operands, not 2")
    other = graph_of(lambda x: 0.5, INT, name="other")
    arms = FuncGraph("f", [c, x], apply_node(Switch((g, other)), c, x))
    broken("call", arms, "type of the Switch, which calls @other, is int, and must be float")


@pytest.mark.parametrize("choice", [FLOAT, tensor(2, dtype=bool_), tensor(dtype=int32)])
def test_call_switch_choice(choice):
    c, x = parameters(choice, INT)
    graph = FuncGraph("f", [c, x], apply_node(Switch((identity(INT), identity(INT))), c, x))
    broken("call", graph, "must be a bool or an int")


def test_call_while():
    n, y = parameters(INT, FLOAT)
    cond, body = counter()
    broken("call", FuncGraph("f", [n], apply_node(While(cond, body, 3), n, 0)), "n_const is too")
    broken("call", FuncGraph("f", [n], apply_node(While(cond, body, 1, -1), n, 0)), "negative")
    broken("call", FuncGraph("f", [n], apply_node(While(cond, body, 1), n)), "takes 2 operands")
    broken(
        "call", FuncGraph("f", [y], apply_node(While(cond, body, 1), y, 0)), "operand 0 of @cond"
    )
    widens = counter(step=0.5)[1]
    graph = FuncGraph(
        "f", [n], CNode(While(cond, widens, 1), [n, constant_node(0)], AbstractTuple((INT,)))
    )
    broken("call", graph, r"next carry, from @body, is Tuple\[float\], and must be Tuple\[int\]")
    no_bool = counter(cond_kind="ScalarAdd")[0]
    broken(
        "call", FuncGraph("f", [n], apply_node(While(no_bool, body, 1), n, 0)), "gives int, and not"
    )
    graph = FuncGraph("f", [n], CNode(While(cond, body, 1), [n, constant_node(0)], INT))
    broken("typed", graph, "the type of the While is int")


def test_call_grad():
    x, d = parameters(FLOAT, FLOAT)
    g = identity(FLOAT)

    def with_grad(inputs, *args, result=(FLOAT, FLOAT)):
        return FuncGraph("f", [x, d], CNode(Grad(g, *args), inputs, AbstractTuple(result)))

    broken("call", with_grad([x], (0,), 2), "has 1 outputs: check n_out")
    broken("call", with_grad([x], (1,), 1), "has 1 inputs: check wrt")
    broken("call", with_grad([], (0,), 1), "takes 1 operands")
    broken("call", with_grad([x], (0,), 1, True), r"cotangents are \(\), and must be \(float\)")
    broken("call", with_grad([x, d], (0,), 1), r"cotangents are \(float\), and must be \(\)")
    broken("typed", with_grad([x], (0,), 1, result=(FLOAT,)), "type of the Grad")


def test_linear_token():
    t, x = parameters(TOKEN, INT)
    effect = graph_of(lambda t, x: echo(x), TOKEN, INT).output
    printing = effect.callee
    once = CNode(printing, [t, x], TOKEN)
    again = CNode(printing, [t, x], TOKEN)
    broken("linear", FuncGraph("f", [t, x], make_tuple([once, again])), "the Token has 2 uses")
    start = CNode(printing, [ValueNode(None, TOKEN), x], TOKEN)
    broken("linear", FuncGraph("f", [t, x], make_tuple([once, start])), "two beginnings")
    s, y = parameters(TOKEN, INT)
    call = apply_node(FuncGraph("same", [s, y], s), t, x)
    twice = make_tuple([call, CNode(printing, [call, x], TOKEN)])
    broken("linear", FuncGraph("f", [t, x], twice), "the Token has 2 uses")
    broken("linear", FuncGraph("f", [x], CNode(printing, [x], TOKEN)), "must take the Token first")


def test_tuple():
    x, p = parameters(INT, AbstractTuple((INT,)))
    broken("tuple", FuncGraph("f", [p], x and tuple_item(p, 0)), "a parameter must not be a tuple")
    broken("tuple", FuncGraph("f", [p], constant_node(0)), "a parameter must not be a tuple")
    pair = make_tuple([x, x])
    broken("tuple", FuncGraph("f", [x], make_tuple([pair, x])), "item of a tuple must not be")
    inner = identity(AbstractTuple((INT, INT)))
    broken("tuple", FuncGraph("f", [x], apply_node(inner, pair)), "only TupleGetItem takes a tuple")


def test_bprop():
    x, n = parameters(FLOAT, INT)

    def cell(own):
        return FuncGraph("cell", [x, n], x, bprop=own)

    short = graph_of(lambda x, y, d: (d,), FLOAT, FLOAT, FLOAT)
    broken("bprop", cell(short), r"must take \(float, int, float, float\)")
    both = graph_of(lambda x, n, y, d: (d, n), FLOAT, INT, FLOAT, FLOAT)
    broken("bprop", cell(both), r"returns Tuple\[float, int\], and must return Tuple\[float\]")
    _, y = parameters(INT, FLOAT)
    free = FuncGraph("own", parameters(FLOAT, INT, FLOAT, FLOAT), make_tuple([y]))
    broken("closed", cell(free), "graph @own: the graph uses %y")


def test_stage():
    (x,) = parameters(FLOAT)
    call = CNode(Grad(identity(FLOAT), (0,), 1), [x], AbstractTuple((FLOAT, FLOAT)))
    broken("stage", FuncGraph("f", [x], call), "a Grad must not be", "grad")
    broken("stage", FuncGraph("f", [x], CNode(print, [x], FLOAT)), "a builtin_function")


def test_every_rule_is_broken_here():
    rules = re.findall(r"^    (\w+)  ", sys.modules[IRError.__module__].__doc__, re.MULTILINE)
    text = Path(__file__).read_text(encoding="utf-8")
    assert len(rules) == 8 and set(rules) == set(re.findall(r'broken\(\s*"(\w+)"', text))


# ------------------------------------------------------------------------------------ when


@pytest.mark.parametrize("debug", ["1", "0"])
def test_every_stage_is_verified_by_request(monkeypatch, debug):
    """With MINISPORE_DEBUG=1: what the front end, J and each pass made, and what tapes run."""
    seen: list[FuncGraph] = []
    for module in (program, graph_function, pipeline):
        monkeypatch.setattr(module, "verify", lambda graph, stage="any": seen.append(graph))
    monkeypatch.setenv("MINISPORE_DEBUG", debug)

    def cubed(x):
        return x**3 if x > 0 else x

    jitted, traced = ms.jit(ms.grad(cubed)), ms.jit(cubed)
    jitted(ms.Tensor(2.0)), ms.grad(traced)(ms.Tensor(2.0))
    (pair,) = traced.last.function._pairs.values()
    stages = [*jitted.stages.values(), pair.forward.graph, pair.backward.graph]
    assert len(stages) > 5
    assert all(any(graph is s for s in seen) is (debug == "1") for graph in stages)


# ---------------------------------------------------------------------------------- messages


def test_message_shows_the_node_and_the_users_line():
    x = ParameterNode("x", tensor(2))
    where = Origin(where=Location("net.py", 7))
    cast = apply_node("ScalarToTensor", 1, dtype=float32).callee
    node = CNode(cast, [constant_node(1)], x.abstract, where)
    with pytest.raises(IRError) as caught:
        verify(FuncGraph("f", [x], node))
    assert str(caught.value) == (
        "graph @f: the node's type is Tensor[Float32, (2)], and must be Tensor[Float32, ()] "
        "(rule 'typed')\n"
        "    %1 = ScalarToTensor(1) {dtype: Float32} : Tensor[Float32, (2)]\n"
        "    at net.py:7"
    )
