"""The text form: it shows what a graph is, and can be read back."""

import re

import ml_dtypes
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

from minispore import dtype as dt
from minispore import tree
from minispore.abstract import STACK, TOKEN, AbstractTensor, AbstractTuple
from minispore.ir.compare import same_graph
from minispore.ir.interp import interpret
from minispore.ir.literal import Scanner, read_attribute, write_attribute
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
)
from minispore.ir.text import ParseError, parse, to_text
from minispore.ir.verify import verify
from minispore.primitive import Primitive
from minispore.symbolic import constant_node


class Attributed(Primitive, register=False):
    """Takes any attributes."""

    name = "Attributed"

    def infer(self, *inputs):
        return INT


def round_trip(graph):
    """Parse what is printed, and compare."""
    text = to_text(graph, full=True)
    again = parse(text, [Attributed])
    assert same_graph(again, graph)
    assert to_text(again, full=True) == text
    return text


def loop():
    """A loop, n steps, that adds 1 to the second carry."""
    c, b, (n,) = parameters(INT, STACK, INT), parameters(INT, STACK, INT), parameters(INT)
    cond = FuncGraph("loop", c, apply_node("ScalarLess", c[2], c[0]))
    push = apply_node("Push", b[1], apply_node("ScalarToTensor", b[2], dtype=dt.float32))
    body = FuncGraph("loop", b, make_tuple([push, apply_node("ScalarAdd", b[2], 1)]))
    while_node = apply_node(While(cond, body, 1, 7), n, ValueNode(None, STACK), 0)
    return FuncGraph("main", [n], while_node)


def test_the_text_of_a_graph():
    x, y = ParameterNode("x", tensor(2, 3)), ParameterNode("net.w", tensor(3))
    where = Location("model.py", 12, 4, 9, "construct")
    add = CNode(
        Attributed.bound(axis=(0,), keep_dims=True),
        [x, y],
        tensor(2),
        Origin(where, "net", "backward"),
    )
    g = FuncGraph("main", [x, y], make_tuple([add, constant_node(np.zeros(2, np.float32))]))
    assert (
        to_text(g)
        == """\
# IR entry: @main
# Total subgraphs: 1

subgraph @main(%para1_x: Tensor[Float32, (2, 3)], %para2_net.w: Tensor[Float32, (3)]) {
  %1 = Attributed(%para1_x, %para2_net.w) {axis: (0,), keep_dims: True} : \
Tensor[Float32, (2)]  # model.py:12 in construct; scope net; phase backward
  %2 = MakeTuple(%1, Tensor[Float32, (2)]([0.0, 0.0])) : \
Tuple[Tensor[Float32, (2)], Tensor[Float32, (2)]]
  return %2
}
"""
    )
    assert "#" not in to_text(g, locations=False).split("\n", 2)[2]
    assert str(g) == to_text(g)


def test_round_trip_of_callees():
    round_trip(factorial())
    text = round_trip(loop())
    assert "While[cond=@loop, body=@loop.1, const=1, trips=7](%para1_x, stack, 0)" in text
    (x,) = parameters(FLOAT)
    g = FuncGraph("g", [x], x)
    call = CNode(Grad(g, (0,), 1), [x], AbstractTuple((FLOAT, FLOAT)))
    assert "Grad[@g, wrt=(0,), n_out=1](%para1_x)" in round_trip(FuncGraph("f", [x], call))
    call = CNode(Grad(g, (0,), 1, True), [x, x], AbstractTuple((FLOAT, FLOAT)))
    assert "n_out=1, sens=True](" in round_trip(FuncGraph("f", [x], call))


def test_round_trip_of_effects(capsys):
    def f(token, x):
        echo("loss", [x, {"a": x, 3: (1, -0.0)}], None, 2j, ())

    g = graph_of(f, TOKEN, INT)
    text = round_trip(g)
    expected = "tree(('loss', [*0, {'a': *1, 3: (1, -0.0)}], None, complex(0.0, 2.0), ()))"
    assert expected in text
    interpret(parse(text), [None, 5])
    assert capsys.readouterr().out == "loss [5, {'a': 5, 3: (1, -0.0)}] None 2j ()\n"
    spec = tree.Formatted(g.parameters[1], -1, ".3f")
    leaves, f_string = tree.flatten((tree.Text(("loss ", spec)),), lambda v: v is g.parameters[1])
    check = apply_node(
        "Check", ValueNode(None, TOKEN), False, 0.5, exception=ValueError, structure=f_string
    )
    text = round_trip(FuncGraph("f", [], check))
    assert "tree((Text('loss ', Formatted(*0, -1, '.3f')),))" in text
    with pytest.raises(ValueError, match="loss 0.500"):
        interpret(parse(text), [])
    check = apply_node(
        "Check", ValueNode(None, TOKEN), True, exception=IndexError, structure=tree.constant("no")
    )
    assert "{exception: IndexError, structure: tree('no')}" in round_trip(FuncGraph("f", [], check))


def test_round_trip_of_cells_and_bprop():
    (x,) = parameters(FLOAT)
    own = graph_of(lambda x, y, d: (d,), FLOAT, FLOAT, FLOAT, name="own")
    where = Origin(Location("net.py", 3), "fc")
    cell = FuncGraph("Dense", [x], x, where, "cell", own)
    (y,) = parameters(FLOAT)
    text = round_trip(FuncGraph("main", [y], apply_node(cell, y)))
    assert "subgraph @Dense(%para1_x: float) kind 'cell' bprop @own {  # net.py:3; scope fc" in text
    copy = parse(text).graphs()[1]
    assert copy.scope_kind == "cell" and copy.origin == where


def test_graphs_of_one_name_are_numbered():
    (x,) = parameters(INT)
    node = x
    for name in ("f", "f", "f.1", "main"):
        (p,) = parameters(INT)
        node = apply_node(FuncGraph(name, [p], apply_node("ScalarNeg", p)), node)
    text = round_trip(FuncGraph("main", [x], node))
    names = re.findall(r"subgraph @(\S+)\(", text)
    assert names[0] == "main" and len(set(names)) == 5
    assert "main.1" in names


@pytest.mark.parametrize("name", ["✓f", "▸grad", "a b", "", "x)", "naïve", "'", "%@", "a.b-c"])
def test_any_name_is_safe(name):
    x = ParameterNode(name, INT)
    (y,) = parameters(INT)
    callee = FuncGraph(name, [x], x)
    g = FuncGraph(name, [y], apply_node(callee, y))
    copy = parse(round_trip(g))
    assert copy.name == name and copy.graphs()[1].parameters[0].name == name


# ----------------------------------------------------------------------------------- values

ATTRIBUTES = [
    0, -3, 2**70, 1.5, -0.0, float("inf"), float("-inf"), 1e-300, 1e22, True, False, None, ...,
    "text", "it's # \"quoted\"\n{", "✓", b"\x00'", (), (1,), (1, (2.0, "a")), [1, []], 1 + 2j,
    dt.float32, dt.bfloat16, dt.bool_, int, float, bool, ValueError, ZeroDivisionError, complex,
    INT, BOOL, TOKEN, STACK, tensor(), tensor(2, 0), AbstractTuple((INT, BOOL)),
    AbstractTuple(()),
    tree.Leaf(3), tree.constant("x"), tree.constant(dt.int8), tree.flatten((), bool)[1],
]  # fmt: skip


@pytest.mark.parametrize("value", ATTRIBUTES, ids=lambda v: type(v).__name__)
def test_round_trip_of_attributes(value):
    text = write_attribute(value)
    scanner = Scanner(text)
    back = read_attribute(scanner)
    assert scanner.kind == "end"
    assert type(back) is type(value) and repr(back) == repr(value)
    round_trip(FuncGraph("f", [], CNode(Attributed.bound(v=value, w=(value,)), [], INT)))


def test_nan_attribute():
    assert np.isnan(read_attribute(Scanner(write_attribute(float("nan")))))


CONSTANTS = [
    3, -(2**63), 2.5, float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, True, False,
    np.array(0.1, np.float32), np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32),
    np.array([[True, False]]), np.zeros((0, 3), np.int8), np.array([2**64 - 1], np.uint64),
    np.arange(40, dtype=np.float64).reshape(5, 8), np.zeros((2, 2, 2), np.int32),
    np.array([0.1, 3e38, -0.0, np.nan], ml_dtypes.bfloat16), np.array([0.1, 65504], np.float16),
    np.array([0x7FC00001, 0xFFC00000], np.uint32).view(np.float32),
]  # fmt: skip


@pytest.mark.parametrize("value", CONSTANTS, ids=lambda v: type(v).__name__)
def test_round_trip_of_constants(value):
    g = FuncGraph("f", [], make_tuple([constant_node(value)]))
    round_trip(g)
    back = parse(to_text(g, full=True)).output.inputs[0].value
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype and back.tobytes() == value.tobytes()
        verify(parse(to_text(g, full=True)))
    else:
        assert type(back) is type(value) and repr(back) == repr(value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_floats_read_back_exactly(dtype):
    bits = np.random.default_rng(0).bytes(200 * 16 * np.dtype(dtype).itemsize)
    for values in np.frombuffer(bits, dtype).reshape(200, 16):
        g = FuncGraph("f", [], constant_node(values))
        assert same_graph(parse(to_text(g, full=True)), g)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_half_float_reads_back_exactly(dtype):
    values = np.arange(65536, dtype=np.uint16).view(dtype)
    for start in range(0, 65536, 16):
        g = FuncGraph("f", [], constant_node(values[start : start + 16]))
        assert same_graph(parse(to_text(g, full=True)), g)


def test_large_constants_are_summarised_unless_asked_for():
    g = FuncGraph("f", [], constant_node(np.arange(20, dtype=np.int32)))
    assert re.search(r"Tensor\[Int32, \(20\)\]\(\.\.\. 20 values, sha256 [0-9a-f]{8}\)", to_text(g))
    with pytest.raises(ParseError, match="full=True"):
        parse(to_text(g))
    round_trip(g)


def test_what_has_no_text_form_is_shown_and_refused():
    class Own(Exception):
        pass

    for value in (Own, object(), len):
        g = FuncGraph("f", [], CNode(Attributed.bound(v=value), [], INT))
        text = to_text(g)
        assert "0x" not in text
        with pytest.raises(ParseError, match="has no text form"):
            parse(text, [Attributed])


# ----------------------------------------------------------------------------------- reading


def test_origin_is_read_back_and_other_comments_are_free():
    where = Location("my model.py", 3, function="f.<locals>.g")
    x = ParameterNode("x", INT)
    g = FuncGraph("f", [x], apply_node("ScalarNeg", x))
    g.output.origin = Origin(where, "a.0", "update", "cse")
    assert parse(to_text(g)).output.origin == g.output.origin
    text = to_text(g, locations=False).replace(" : int\n", " : int  # here\n")
    assert parse(text).output.origin == Origin()


def test_a_person_may_write_it_freely():
    g = parse("""
        subgraph @f(%a: int, %b: int,) {   # comments, spaces and names are free
          %sum = ScalarAdd(%a,
                           %b) : int
          %out = call @double(%sum) : int return %out }
        subgraph @double(%para1_x: int) { %1 = ScalarMul(%para1_x, 2) : int return %1 }
    """)
    verify(g)
    assert interpret(g, [3, 4]) == (14,)
    assert [p.name for p in g.parameters] == ["a", "b"]


GOOD = "subgraph @f(%x: int) {\n  %1 = ScalarNeg(%x) : int\n  return %1\n}\n"


@pytest.mark.parametrize("old, new, line, expected", [
    ("subgraph", "graph", 1, "'subgraph'"),
    ("@f", "f", 1, "a name with @"),
    (": int)", ": int32)", 1, "a type"),
    ("ScalarNeg", "Scalarneg", 2, "a primitive, 'call'"),
    ("(%x) :", "(%y) :", 2, "defined above; %y is not"),
    ("%1 =", "%x =", 2, "a new name"),
    (") : int\n", ")\n", 3, "':'"),
    ("return %1", "return %1 %1", 3, "'}'"),
    ("return %1", "%2 = call @g(%1) : int return %2", 3, "a sub-graph @g"),
    ("(%x) :", "('x) :", 2, "a closing quote"),
    ("(%x) :", "(Tensor[Float33, ()](1)) :", 2, "a dtype: Bool"),
    ("(%x) :", "(Tensor[Float32, (2)]([1])) :", 2, "2 values"),
    ("(%x) :", "(Tensor[UInt8, (1)]([-1])) :", 2, "values of UInt8"),
    ("(%x) :", "(Tensor[Int32, (3)](bytes 'AAAA')) :", 2, "12 bytes"),
    ("(%x) :", "(%x) {a 1} :", 2, "':'"),
    ("(%x) :", "(%x) {a: @} :", 2, "a value"),
    ("}\n", "}\nsubgraph @f() { return 1 }", 5, "another name"),
    ("}\n", "", 4, "'}'"),
    ("ScalarNeg", "While[cond=@f, body=@f]", 2, "','"),
    ("ScalarNeg", "Grad[@f, wrt=(0,), n_out=one]", 2, "a number"),
])  # fmt: skip
def test_errors_show_the_place(old, new, line, expected):
    assert old in GOOD
    with pytest.raises(ParseError, match=re.escape(expected)) as caught:
        parse(GOOD.replace(old, new, 1))
    first, shown, caret = str(caught.value).split("\n")
    assert first.startswith(f"line {line}: expected ")
    assert shown[4:] == (GOOD.replace(old, new, 1) + "\n").split("\n")[line - 1]
    assert caret.strip() == "^"


# -------------------------------------------------------------------------------- same_graph


def test_same_graph_sees_differences():
    base = graph_of(lambda x, y: (x + 1) * y, INT, INT)
    assert same_graph(base, graph_of(lambda a, b: (a + 1) * b, INT, INT, name="other"))
    functions = [
        lambda x, y: (x + 1) * x, lambda x, y: (x + True) * y, lambda x, y: (x + 1.0) * y,
        lambda x, y: (1 + x) * y, lambda x, y: (x - 1) * y, lambda x, y: ((x + 1) * y,),
        lambda x, y: x,
    ]  # fmt: skip
    assert not same_graph(base, graph_of(lambda x, y: (x + 1) * y, INT, FLOAT))
    for function in functions:
        other = graph_of(function, INT, INT)
        assert not same_graph(base, other) and not same_graph(other, base)


def test_same_graph_counts_what_is_shared():
    def twice(x):
        y = x + 1
        return y * y

    shared, computed = graph_of(twice, INT), graph_of(lambda x: (x + 1) * (x + 1), INT)
    assert not same_graph(shared, computed)
    one, two = (graph_of(lambda x: x + 1, INT) for _ in range(2))
    (x,) = parameters(INT)
    same, different = ([x, apply_node(g, apply_node(one, x))] for g in (one, two))
    a, b = (FuncGraph("f", [x], nodes[1]) for nodes in (same, different))
    assert not same_graph(a, b) and not same_graph(b, a) and same_graph(a, a)


def test_same_graph_compares_sub_graphs_and_loops():
    c, x = parameters(BOOL, INT)
    arms = [graph_of(lambda x, n=n: x + n, INT) for n in range(2)]

    def switch(*graphs):
        return FuncGraph("f", [c, x], apply_node(Switch(graphs), c, x))

    assert same_graph(switch(*arms), switch(*arms))
    assert not same_graph(switch(*arms), switch(*arms[::-1]))
    assert same_graph(loop(), loop())
    other = parse(to_text(loop()).replace("trips=7", "trips=8"))
    assert not same_graph(loop(), other)
    assert same_graph(factorial(), factorial())


def test_a_long_text_round_trips():
    node = ParameterNode("x", AbstractTensor(dt.int32, (2,)))
    g_input = node
    for _ in range(3000):
        node = CNode(Attributed.bound(), [node], node.abstract)
    round_trip(FuncGraph("f", [g_input], node))
