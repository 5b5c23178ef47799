"""Drawings: what the DOT text says.  Only one test needs the program that lays graphs out."""

import os
import random
import re
import subprocess
import sys
import sysconfig
import xml.dom.minidom
from dataclasses import dataclass, field
from pathlib import Path

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

import minispore as ms
from minispore import nn, ops
from minispore.abstract import TOKEN
from minispore.autodiff.tape import Tape, record_custom
from minispore.ir import render
from minispore.ir.correspond import correspond, numbering
from minispore.ir.draw import Drawing, draw, draw_difference, draw_tape
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Location,
    Node,
    Origin,
    ParameterNode,
    Rebuilder,
    Switch,
    ValueNode,
    is_call_of,
    is_tuple_plumbing,
    make_tuple,
    tuple_item,
)
from minispore.ir.text import node_names, parse, to_text
from minispore.passes.rewrite import Function, rewrite
from minispore.primitive import REGISTRY, handled_by
from minispore.symbolic import GraphBuilder, wrap

# -------------------------------------------------------------------------------- reading DOT


@dataclass
class Dot:
    """A DOT text taken apart: what is drawn, in which boxes, and the edges."""

    nodes: dict[str, str] = field(default_factory=dict)  # id -> attributes
    boxes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # id -> titles around it
    clusters: dict[str, str] = field(default_factory=dict)  # number -> title
    members: dict[str, set[str]] = field(default_factory=dict)  # number of a cluster -> ids
    edges: list[tuple[str, str, str]] = field(default_factory=list)

    def label(self, name: str) -> str:
        """The words of an item, without mark-up."""
        text = re.search(r"label=<(.*?)>(?:, \w+=|\])", self.nodes[name])[1]
        return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text).replace("&#160;", " ")).strip()

    def tooltip(self, name: str) -> str:
        return re.search(r'tooltip="((?:[^"\\]|\\.)*)"', self.nodes[name])[1]

    def labels(self) -> set[str]:
        return {self.label(name) for name in self.nodes}

    def between(self, tail: str, head: str) -> list[str]:
        """The attributes of the visible edges from one item to another."""
        return [a for t, h, a in self.edges if (t, h) == (tail, head) and "invis" not in a]

    def operations(self) -> set[str]:
        return {n for n in self.nodes if re.search(r" %\d+$", n)}


def read(drawing: Drawing) -> Dot:
    """Read what picture.py writes, and check that it is consistent."""
    dot = Dot()
    around: list[tuple[str, str]] = []  # number, title
    for line in drawing.dot.split("\n")[7:]:
        text = line.strip()
        if match := re.match(r"subgraph cluster_(\d+) \{", text):
            around.append((match[1], ""))
        elif match := re.match(r'label="(.*?)"; ', text):
            around[-1] = (around[-1][0], match[1])
            dot.clusters[around[-1][0]] = match[1]
        elif match := re.match(r'"(.*?)" -> "(.*?)" \[(.*)\];$', text):
            dot.edges.append((match[1], match[2], match[3]))
        elif match := re.match(r'"(.*?)" (\[label=<.*\]);$', text):
            assert match[1] not in dot.nodes, f"{match[1]} is drawn twice"
            dot.nodes[match[1]] = match[2]
            dot.boxes[match[1]] = tuple(title for _, title in around)
            for number, _ in around:
                dot.members.setdefault(number, set()).add(match[1])
        elif text == "}" and around:
            around.pop()
    for tail, head, attributes in dot.edges:
        assert tail in dot.nodes and head in dot.nodes
        for end, name in (("lhead", head), ("ltail", tail)):
            match = re.search(end + r"=cluster_(\d+)", attributes)
            assert match is None or name in dot.members[match[1]]
    return dot


def two_layers(phase: str = "") -> FuncGraph:
    """A small graph with scopes and phases, as the passes leave them."""
    return parse("""
subgraph @step(%x: Tensor[Float32, (2, 4)], %fc1.weight: Tensor[Float32, (3, 4)]) {
  %1 = MatMul(%x, %fc1.weight) {transpose_a: False, transpose_b: True} : Tensor[Float32, (2, 3)]  # net.py:4 in construct; scope Net/fc1
  %2 = ReLU(%1) : Tensor[Float32, (2, 3)]  # net.py:5 in construct; scope Net/fc1
  %3 = ReduceSum(%2) {axis: (0, 1), keep_dims: False} : Tensor[Float32, ()]  # net.py:9 in f; scope Loss
  %4 = Greater(%2, Tensor[Float32, ()](0.0)) : Tensor[Bool, (2, 3)]  # net.py:5 in construct; scope Net/fc1; phase backward; rule grad
  %5 = Cast(%4) {dtype: Float32} : Tensor[Float32, (2, 3)]  # net.py:5 in construct; scope Net/fc1; phase backward; rule grad
  %6 = MatMul(%5, %x) {transpose_a: True, transpose_b: False} : Tensor[Float32, (3, 4)]  # net.py:4 in construct; scope Net/fc1; phase backward; rule grad
  %7 = Mul(%6, Tensor[Float32, ()](0.1)) : Tensor[Float32, (3, 4)]  # opt.py:3 in construct; scope SGD; phase update
  %8 = Sub(%fc1.weight, %7) : Tensor[Float32, (3, 4)]  # opt.py:3 in construct; scope SGD; phase update
  %9 = MakeTuple(%3, %8) : Tuple[Tensor[Float32, ()], Tensor[Float32, (3, 4)]]
  return %9
}
""")  # noqa: E501


def blocks(n: int = 12) -> FuncGraph:
    """`n` layers of 17 operations, in the scopes that Cells give them."""
    x = ParameterNode("x", tensor(8, 16))
    weights = [ParameterNode(f"blocks.{i}.w", tensor(16, 16)) for i in range(n)]
    builder = GraphBuilder()

    def at(scope: str, line: int) -> None:
        builder.origin = Origin(Location("net.py", line), f"Net/{scope}")

    with handled_by(builder):
        h = wrap(x)
        for i, weight in enumerate(map(wrap, weights)):
            at(f"blocks.{i}/norm", 3)
            mean = h.mean(1, True)
            z = (h - mean) / ops.sqrt(((h - mean) * (h - mean)).mean(1, True) + 1e-5)
            at(f"blocks.{i}/attention", 4)
            a = ops.matmul(ops.softmax(ops.matmul(z, weight), 1), weight)
            at(f"blocks.{i}/mlp", 5)
            u = ops.matmul(h + a, weight)
            u = u * ops.sigmoid(u)
            at(f"blocks.{i}", 6)
            h = h + u
        out = builder.node_of(h)
    return FuncGraph("net", [x, *weights], out)


# ----------------------------------------------------------------------- what a picture shows


def test_operations_have_the_numbers_and_lines_of_the_text_form():
    graph = two_layers()
    dot = read(draw(graph))
    lines = re.findall(r"^  (%\d+) = (.*?)  #", to_text(graph), re.MULTILINE)
    for number, rest in lines:
        name = f"@step {number}"
        assert dot.label(name).startswith(f"{number} {rest.split('(')[0]}")
        assert dot.tooltip(name).replace(r"\"", '"').startswith(f"{number} = {rest}"[:200])
    assert dot.operations() == {f"@step {number}" for number, _ in lines}  # MakeTuple is folded
    assert "net.py:4 in construct; scope Net/fc1" in dot.tooltip("@step %1")


def test_constants_and_attributes_stand_in_labels():
    def fn(x):
        y = ops.reduce_sum(x * 2.0, 1, True)
        return y + np_constant(3, 4) + ops.ReduceSum()(x, 0)

    dot = read(draw(graph_of(fn, tensor(3, 4))))
    assert "%1 Mul (x, 2.0)" in dot.labels()
    assert "%2 ReduceSum axis=(1,), keep_dims" in dot.labels()  # False is not worth a word
    assert any("const (3, 4) Float32" in label for label in dot.labels())
    kinds = {label.split()[1] for label in dot.labels() if label.startswith("%")}
    assert kinds == {"Mul", "ReduceSum", "Add"}


def np_constant(*shape: int) -> ms.Tensor:
    return ms.Tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def test_small_arrays_show_their_values():
    def fn(x):
        return x + ms.Tensor([1.5, float("nan")]) + ms.Tensor(7, ms.float16).astype(ms.float32)

    labels = read(draw(graph_of(fn, tensor(2)))).labels()
    assert any("[1.5, nan]" in label for label in labels)


def test_edges_carry_types_once_and_inputs_their_own():
    def fn(x):
        y = ops.exp(x)
        return y * y + ops.sin(y)

    dot = read(draw(graph_of(fn, tensor(3, 4))))
    assert dot.label("@main %para1_x") == "x (3, 4) Float32"
    assert dot.between("@main %para1_x", "@main %1") == [""]
    from_y = [attrs for tail, _, attrs in dot.edges if tail == "@main %1"]
    assert sorted("Float32" in attrs for attrs in from_y) == [False, True]
    assert any(r"(3, 4) \n Float32" in attrs for attrs in from_y)


def test_phases_differ_by_shape_and_border_not_only_colour():
    dot = read(draw(two_layers()))
    forward, backward, update = (dot.nodes[f"@step %{n}"] for n in (1, 6, 8))
    assert 'style="rounded,filled"' in forward and "dashed" not in forward
    assert 'style="filled,dashed"' in backward
    assert 'peripheries="2"' in update
    assert dot.boxes["@step %1"] == ("@step", "Net/fc1")  # fc1 is all there is of Net
    assert dot.boxes["@step %6"] == ("@step", "Net/fc1 · backward")
    assert dot.boxes["@step %7"] == ("@step", "SGD · update")
    assert dot.boxes["@step %3"] == ("@step",)  # one operation needs no box
    assert "#0072b2" in dot.between("@step %2", "@step %4")[0]  # saved for backward


def test_scopes_are_boxes_in_boxes():
    dot = read(draw(blocks(1), expand="all"))
    assert dot.boxes["@net %1"] == ("@net", "norm")  # Net and blocks.0 are all there is
    dot = read(draw(blocks(2), expand="all"))
    assert dot.boxes["@net %1"] == ("@net", "blocks.0", "norm")
    assert dot.boxes["@net %17"] == ("@net", "blocks.0")


def test_tuples_are_folded_into_edges():
    dot = read(draw(power_loop()))
    assert not any("Tuple" in label for label in dot.labels())
    assert "2 values" in dot.between("@power %1 result", "@power return 0, 1")[0]

    x = parameters(tensor(2))
    pair = make_tuple([apply_node("Exp", x[0]), x[0]])
    inner = graph_of(lambda p: p[0] + p[1], pair.abstract, name="add")
    outer = FuncGraph("main", x, apply_node("Neg", CNode(inner, [pair], tensor(2))))
    assert "Tuple" not in "".join(read(draw(outer)).labels())
    twice = apply_node("Add", CNode(inner, [pair], tensor(2)), CNode(inner, [pair], tensor(2)))
    assert any("MakeTuple" in label for label in read(draw(FuncGraph("main", x, twice))).labels())


def test_unused_inputs_of_the_entry_are_drawn():
    x, y = parameters(tensor(2), INT)
    dot = read(draw(FuncGraph("main", [x, y], apply_node("Exp", x))))
    assert dot.label("@main %para2_y") == "y int"


# ----------------------------------------------------------------------------- sub-graphs


def test_a_graph_called_once_is_drawn_in_place_of_the_call():
    inner = graph_of(lambda x, y: ops.exp(x) - y, tensor(2), tensor(2), name="inner")
    x, y = parameters(tensor(2), tensor(2))
    call = CNode(inner, [apply_node("Sin", x), y], tensor(2))
    dot = read(draw(FuncGraph("main", [x, y], apply_node("Neg", call))))
    assert dot.boxes["@inner %1"] == ("@main", "%2  @inner")
    assert dot.between("@main %1", "@inner %1")
    assert dot.between("@main %para2_y", "@inner %2")
    assert dot.between("@inner %2", "@main %3")
    assert not any("call" in label for label in dot.labels())


def test_a_graph_called_twice_is_drawn_once():
    inner = graph_of(ops.exp, tensor(2), name="inner")
    (x,) = parameters(tensor(2))
    first = CNode(inner, [x], tensor(2))
    dot = read(draw(FuncGraph("main", [x], CNode(inner, [first], tensor(2)))))
    assert dot.label("@main %1") == "%1 call @inner"
    assert dot.boxes["@inner %1"] == ("@inner",)
    calls = [(t, a) for t, h, a in dot.edges if h == "@inner %para1_x" and "calls" in a]
    assert [tail for tail, _ in calls] == ["@main %1", "@main %2"]
    assert all("lhead=cluster_" in attributes for _, attributes in calls)


def test_cells_are_called_by_their_attribute():
    inner = graph_of(ops.exp, tensor(2), name="Dense")
    (x,) = parameters(tensor(2))
    origin = Origin(scope="Net/fc1")
    exp = CNode(REGISTRY["Exp"].bound(), inner.parameters, tensor(2), origin)
    cell = FuncGraph("Dense", inner.parameters, exp, scope_kind="cell")
    graph = FuncGraph("Net", [x], CNode(cell, [x], tensor(2), Origin(scope="Net")))
    assert read(draw(graph)).boxes["@Dense %1"] == ("@Net", "%1  fc1 · @Dense")
    assert "@Dense %1" not in draw(graph, collapse=True).dot
    for name in ("fc1", "Net/fc1", "@Dense", "Dense"):
        assert "@Dense %1" in draw(graph, collapse=True, expand=name).dot


def test_switch_arms_meet_again():
    yes, no = (graph_of(f, tensor(2), name=f.__name__) for f in (ops.exp, ops.neg))
    c, x = parameters(BOOL, tensor(2))
    switch = CNode(Switch((yes, no)), [c, x], tensor(2))
    dot = read(draw(FuncGraph("main", [c, x], apply_node("Sin", switch))))
    assert 'shape="diamond"' in dot.nodes["@main %1"]
    assert 'label=" true "' in dot.between("@main %1", "@exp %para1_x")[0]
    assert 'label=" false "' in dot.between("@main %1", "@neg %para1_x")[0]
    assert dot.boxes["@exp %1"] == ("@main", "@exp")
    assert dot.between("@exp return", "@main %1 result")
    assert dot.between("@neg return", "@main %1 result")
    assert dot.between("@main %1 result", "@main %2")


def test_a_switch_of_many_arms_numbers_them():
    arms = [graph_of(lambda x, k=k: x * float(k), tensor(2), name=f"arm{k}") for k in range(3)]
    i, x = parameters(INT, tensor(2))
    dot = read(draw(FuncGraph("main", [i, x], CNode(Switch(tuple(arms)), [i, x], tensor(2)))))
    labels = [dot.between("@main %1", f"@arm{k} %para1_x")[0] for k in range(3)]
    assert [re.search(r'label=" (.*?) "', text)[1] for text in labels] == ["0", "1", "2"]


def test_a_loop_is_a_circle_of_test_and_body():
    dot = read(draw(power_loop(trip_count=3)))
    assert "3 trips" in dot.label("@power %1") and "hexagon" in dot.nodes["@power %1"]
    assert dot.boxes["@cond %1"] == ("@power", "@cond")
    assert 'label=" true "' in next(a for t, _, a in dot.edges if t == "@cond return")
    assert 'label=" false "' in dot.between("@cond return", "@power %1 result")[0]
    again = dot.between("@power %1", "@body next u")
    assert len(again) == 1 and 'label=" again "' in again[0] and 'dir="back"' in again[0]
    assert {"next z", "next u"} <= dot.labels()  # what the body returns is the next carry


def test_recursion_is_an_edge_back():
    dot = read(draw(factorial()))
    (calls,) = [a for t, h, a in dot.edges if (t, h) == ("@more %2", "@factorial %para1_x")]
    assert "calls" in calls and 'constraint="false"' in calls


def test_grad_points_at_its_graph():
    inner = graph_of(lambda x, w: ops.reduce_sum(x * w), tensor(2), tensor(2), name="loss")
    x, w = parameters(tensor(2), tensor(2))
    inner.parameters[1].name = "w"
    abstract = make_tuple([inner.output, inner.parameters[1]]).abstract
    node = CNode(Grad(inner, (1,), 1), [x, w], abstract)
    dot = read(draw(FuncGraph("main", [x, w], tuple_item(node, 1))))
    assert dot.label("@main %1") == "%1 Grad by w"
    edges = [a for t, h, a in dot.edges if t == "@main %1" and h.startswith("@loss")]
    assert any("gradient of" in a and "lhead" in a for a in edges)
    assert any("[1]" in a for a in dot.between("@main %1", "@main return"))


def test_a_cell_with_its_own_gradient_shows_both():
    cell = graph_of(ops.exp, tensor(2), name="Cell")
    cell.bprop = graph_of(lambda x, out, dout: (dout * out,), *[tensor(2)] * 3, name="bprop")
    (x,) = parameters(tensor(2))
    dot = read(draw(FuncGraph("main", [x], CNode(cell, [x], tensor(2)))))
    words = " ".join(a for t, _, a in dot.edges if t == "@main %1")
    assert '" calls "' in words and '" gradient "' in words


def test_effects_are_in_order_along_dashed_edges():
    def fn(x, token):
        echo(x)
        echo(x * 2.0)
        return x

    dot = read(draw(graph_of(fn, tensor(2), TOKEN)))
    prints = [name for name in dot.nodes if "Print" in dot.label(name)]
    between = [a for t, h, a in dot.edges if t in prints and h in prints]
    assert len(between) == 1 and 'style="dashed"' in between[0]
    assert not any("tree(" in label for label in dot.labels())


def test_a_token_is_not_called_a_stack():
    start = ValueNode(None, TOKEN)
    assert "return token" in draw(FuncGraph("arm", (), start)).dot


def test_names_are_escaped():
    x = ParameterNode('a"<b>&\\', tensor(2))
    graph = FuncGraph('f "<&>"', [x], apply_node("Exp", x))
    text = draw(graph, legend=True).dot
    assert "a&quot;" not in text and 'a"&lt;b&gt;&amp;\\' in text
    assert r"\"<&>\"" in text


# ------------------------------------------------------------------------------- collapsing


def test_a_large_graph_is_collapsed_by_scope():
    graph = blocks()
    assert graph.count() == 12 * 17 > 200
    dot = read(draw(graph))
    assert len(dot.operations()) == 0
    closed = [label for label in dot.labels() if "nodes" in label]
    assert sorted(closed) == sorted(f"blocks.{i} 17 nodes" for i in range(12))
    assert dot.between("@net Net/blocks.0 forward", "@net Net/blocks.1 forward")
    assert "%1" in draw(blocks(3)).text  # the text is not shortened


def test_closed_boxes_open_by_name():
    graph = blocks()
    dot = read(draw(graph, expand=("blocks.3",)))
    assert len(dot.operations()) + closed_nodes(dot) == graph.count()
    assert {dot.boxes[n][1] for n in dot.operations()} == {"blocks.3"}
    assert len(read(draw(graph, expand="all")).operations()) == graph.count()
    assert len(read(draw(graph, collapse=False)).operations()) == graph.count()
    dot = read(draw(blocks(2), collapse=True))
    assert closed_nodes(dot) == 34 and not dot.operations()
    with pytest.raises(ValueError, match="nothing called 'fc9' to expand; there are .*blocks.0"):
        draw(graph, expand=("fc9",))
    with pytest.raises(ValueError, match="collapse must be"):
        draw(graph, collapse="no")


def closed_nodes(dot: Dot) -> int:
    return sum(int(m[1]) for m in (re.search(r"(\d+) node", t) for t in dot.labels()) if m)


def test_small_boxes_are_opened_as_long_as_they_fit():
    graph = two_layers()
    assert len(read(draw(graph, limit=8)).operations()) == 8
    dot = read(draw(graph, limit=6))
    assert closed_nodes(dot) + len(dot.operations()) == 8
    assert len(dot.operations()) < 8


def test_many_inputs_of_a_closed_box_are_one_item():
    def fn(*xs):
        total = xs[0]
        for x in xs[1:]:
            total = total + x
        return total

    inner = graph_of(fn, *[tensor(2)] * 6, name="inner")
    xs = parameters(*[tensor(2)] * 6)
    dot = read(draw(FuncGraph("main", xs, CNode(inner, xs, tensor(2))), collapse=True))
    assert "6 inputs x y z …" in dot.labels()
    assert len(dot.nodes) == 3


def test_an_input_is_repeated_for_each_phase_of_a_large_picture():
    x, w = ParameterNode("x", tensor(2)), ParameterNode("w", tensor(2))
    node: Node = x
    for phase in ("forward", "backward", "update"):
        for _ in range(8):
            prim = REGISTRY["Mul"].bound()
            node = CNode(prim, [node, w], tensor(2), Origin(phase=phase))
    dot = read(draw(FuncGraph("main", [x, w], node)))
    assert [n for n in dot.nodes if "para2_w" in n] == [
        "@main %para2_w", "@main %para2_w backward", "@main %para2_w update",
    ]  # fmt: skip


# ------------------------------------------------------------------------------ differences


def remove_mul_one(node: CNode) -> Node | None:
    constant = getattr(node.inputs[1], "value", None)
    return node.inputs[0] if constant is not None and np.all(constant == 1) else None


def square_to_mul(node: CNode) -> Node:
    (x,) = node.inputs
    return CNode(REGISTRY["Mul"].bound(), [x, x], node.abstract, node.origin.made_by("square"))


RULES = (
    Function("mul_one", "x * 1 -> x", ("Mul",), remove_mul_one),
    Function("square", "x ** 2 -> x * x", ("Square",), square_to_mul),
)


def before_and_after() -> tuple[FuncGraph, FuncGraph]:
    def fn(x, y):
        return ops.sin(ops.square(ops.exp(x * 1.0)) + y) * y

    before = graph_of(fn, tensor(2), tensor(2))
    return before, rewrite(before, RULES)


def test_only_what_a_rule_made_is_new():
    before, after = before_and_after()
    dot = read(draw_difference(before, after))
    assert [n for n in dot.nodes if 'penwidth="3"' in dot.nodes[n]] == ["@main %7"]
    assert dot.label("@main %7").startswith("+ %7 Mul")
    gone = {dot.label(n) for n in dot.nodes if 'style="dotted"' in dot.nodes[n]}
    assert gone == {"\N{MINUS SIGN} %1 Mul (x, 1.0)", "\N{MINUS SIGN} %3 Square"}
    assert dot.label("@main %2") == "%2 Exp"  # rebuilt, and the same to the reader
    assert dot.label("@main %4") == "%4 Add (%7, y)"
    assert 'style="dotted"' in dot.between("@main %para1_x", "before @main %1")[0]
    assert 'style="dotted"' in dot.between("before @main %1", "@main %2")[0]
    assert dot.between("@main %para1_x", "@main %2")


def test_the_text_of_a_difference_has_signs():
    before, after = before_and_after()
    lines = draw_difference(before, after).text.split("\n")
    signs = [(line[0], line.split("=")[0].strip(" +-")) for line in lines if " = " in line]
    assert signs == [
        ("-", "%1"), (" ", "%2"), ("-", "%3"), ("+", "%7"), (" ", "%4"), (" ", "%5"), (" ", "%6"),
    ]  # fmt: skip
    assert lines[0].startswith("  subgraph @main(%para1_x: Tensor")
    assert "return %6" in lines[-3]


def test_side_by_side():
    before, after = before_and_after()
    dot = read(draw_difference(before, after, side_by_side=True))
    assert dot.boxes["before @main %1"][0] == "before: 6 operations"
    assert dot.boxes["after @main %7"][0] == "after: 5 operations"
    assert 'style="dotted"' in dot.nodes["before @main %1"]
    assert 'penwidth="3"' in dot.nodes["after @main %7"]
    assert not [e for e in dot.edges if e[0].startswith("before") != e[1].startswith("before")]


def test_no_change_is_no_difference():
    for graph in (two_layers(), power_loop(), factorial()):
        dot = draw_difference(graph, graph).dot
        assert dot == draw(graph).dot
        assert not re.search(r"^[+-]", draw_difference(graph, graph).text, re.MULTILINE)


def test_a_switch_that_is_gone_leaves_a_ghost():
    yes, no = (graph_of(f, tensor(2), name=f.__name__) for f in (ops.exp, ops.neg))
    c, x = parameters(BOOL, tensor(2))
    switch = CNode(Switch((yes, no)), [c, x], tensor(2))
    before = FuncGraph("main", [c, x], apply_node("Sin", switch))
    after = FuncGraph("main", [c, x], apply_node("Sin", CNode(yes, [x], tensor(2))))
    drawing = draw_difference(before, after)
    dot = read(drawing)
    assert "Switch" in dot.label("before @main %1")
    for source in ("@main %para1_x", "@main %para2_y"):
        assert 'style="dotted"' in dot.between(source, "before @main %1")[0]
    assert 'style="dotted"' in dot.between("before @main %1", "@main %2")[0]
    assert "- subgraph @neg" in drawing.text


def test_closed_boxes_tell_how_much_changed():
    before = blocks()

    def neg_twice(node: CNode) -> Node:
        inner = CNode(REGISTRY["Neg"].bound(), node.inputs, node.abstract, node.origin.made_by("n"))
        return CNode(node.callee, [inner], node.abstract, node.origin.made_by("n"))

    sqrt = next(n for n in before.nodes() if is_call_of(n, "Sqrt"))
    rebuild = Rebuilder()
    rebuild.substitute(sqrt, neg_twice(sqrt))
    after = FuncGraph("net", before.parameters, rebuild(before.output))
    labels = read(draw_difference(before, after, collapse=True)).labels()
    assert "blocks.0 18 nodes, 2 new, 1 removed" in labels
    opened = read(draw_difference(before, after))
    assert len([n for n in opened.nodes if 'penwidth="3"' in opened.nodes[n]]) == 2


# --------------------------------------------------------------------------- correspondence


def test_identical_nodes_correspond():
    graph = blocks(2)
    found = correspond(graph, graph)
    assert all(new is old for new, old in found.items())
    assert {n for n in graph.nodes() if isinstance(n, CNode)} <= found.keys()


@pytest.mark.parametrize("make", [two_layers, power_loop, factorial, lambda: blocks(2)])
def test_a_graph_read_back_corresponds_node_by_node(make):
    before = make()
    after = parse(to_text(before, full=True))
    found = correspond(before, after)
    assert len(set(found.values())) == len(found)
    numbers = numbering(before, after, found)
    for graph in after.graphs():
        names = node_names(graph)
        assert names.items() <= numbers.items()
        assert all(n in found for n in names)


def test_equal_lines_correspond_by_their_place():
    """Of several nodes of one origin, a removed one does not push the others along."""
    at = Origin(Location("net.py", 3))

    def chain(*factors):
        (x,) = parameters(tensor(2))
        node: Node = x
        for f in factors:
            node = CNode(REGISTRY["Mul"].bound(), [node, constant(f)], tensor(2), at)
        return FuncGraph("main", [x], node)

    before = chain(1.0, 2.0, 3.0)
    after = rewrite(before, RULES)
    found = correspond(before, after)
    old, new = ([n for n in g.nodes() if isinstance(n, CNode)] for g in (before, after))
    assert [found[n] for n in new] == old[1:]


def constant(number: float) -> Node:
    return GraphBuilder().node_of(ms.Tensor(number, ms.float32))


def test_without_origins_structure_decides():
    before = parse(
        "subgraph @f(%x: int) {\n %1 = ScalarAdd(%x, 1) : int  # a.py:1\n"
        " %2 = ScalarMul(%1, %1) : int  # a.py:2\n return %2\n}"
    )
    after = parse(
        "subgraph @f(%x: int) {\n %1 = ScalarAdd(%x, 1) : int\n %2 = ScalarMul(%1, 3) : int\n"
        " %3 = ScalarMul(%1, %1) : int\n %4 = ScalarAdd(%2, %3) : int\n return %4\n}"
    )
    found = correspond(before, after)
    names, old_names = node_names(after), node_names(before)
    pairs = {names[n]: old_names[o] for n, o in found.items() if isinstance(n, CNode)}
    assert pairs == {"%1": "%1", "%3": "%2"}
    numbers = numbering(before, after, found)
    assert {names[n]: numbers[n] for n in names if isinstance(n, CNode)} == {
        "%1": "%1", "%3": "%2", "%2": "%3", "%4": "%4",
    }  # fmt: skip


def test_a_node_made_by_a_rule_is_new_even_where_an_equal_one_was():
    made = Origin(Location("a.py", 1), rule="twin")
    (x,) = parameters(tensor(2))
    before = FuncGraph("f", [x], apply_node("Exp", x))
    after = FuncGraph("f", [x], CNode(REGISTRY["Exp"].bound(), [x], tensor(2), made))
    assert [type(n) for n in correspond(before, after)] == [ParameterNode]


# -------------------------------------------------------------------------------------- tapes


def record() -> tuple[Tape, dict[str, ms.Tensor]]:
    x, w = ms.Tensor(np.ones((2, 4), np.float32)), ms.Tensor(np.ones((4, 4), np.float32))
    with Tape() as tape:
        tape.watch(x)
        tape.watch(w)
        a, b = ops.split(ops.matmul(x, w), 2, 1)
        _ = ops.reduce_sum(a * b + 2.0)
    return tape, {"x": x, "w": w}


def test_a_tape_is_drawn_with_its_own_numbers():
    tape, names = record()
    drawing = draw_tape(tape)
    called = [line.split("(")[0] for line in str(tape).split("\n")]
    assert [line.split("(")[0] for line in drawing.text.split("\n")] == called
    dot = read(drawing)
    assert dot.label("@tape %3") == "%3 MatMul (%1, %2)"
    assert dot.label("@tape %4, %5").startswith("%4, %5 Split")
    assert "%6 Mul (%4, %5)" in dot.labels()
    assert "%7 Add (%6, 2.0)" in dot.labels()
    assert not any("return" in label for label in dot.labels())
    named = read(draw_tape(tape, names=names))
    assert "x (2, 4) Float32" in named.labels() and "%3 MatMul (x, w)" in named.labels()


def test_a_tape_grows_entry_by_entry():
    tape, _ = record()
    sizes = []
    for n in range(len(tape.entries) + 1):
        dot = read(draw_tape(tape, n))
        new = [name for name in dot.nodes if 'penwidth="3"' in dot.nodes[name]]
        sizes.append(sum('shape="box"' in attributes for attributes in dot.nodes.values()))
        assert len(new) == min(n, 1)
    assert sizes == list(range(len(tape.entries) + 1))


def test_a_custom_rule_on_a_tape_is_drawn_by_its_name():
    class Rule:
        name = "MyCell"

        def vjp(self, inputs, out, dout):
            return (dout, None)

    x = ms.Tensor([1.0, 2.0])
    with Tape() as tape:
        tape.watch(x)
        record_custom(Rule(), (x, 3), ms.Tensor([1.0, 2.0]))
    assert "%2 MyCell (%1, 3)" in read(draw_tape(tape)).labels()


# ---------------------------------------------------------------------------------- whole steps


def train_step() -> dict[str, FuncGraph]:
    """All stages of a training step."""

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Dense(4, 8, activation="relu")
            self.fc2 = nn.Dense(8, 3)

        def construct(self, x):
            return self.fc2(self.fc1(x))

    net, loss = Net(), nn.MSELoss()
    optimizer = nn.Adam(net.trainable_params(), 1e-2)
    gradient = ms.value_and_grad(lambda x, y: loss(net(x), y), None, net.trainable_params())

    @ms.jit
    def step(x, y):
        value, grads = gradient(x, y)
        optimizer(grads)
        return value

    rng = np.random.default_rng(0)
    step(*(ms.Tensor(rng.normal(size=(5, n)).astype(np.float32)) for n in (4, 3)))
    return step.stages


def test_every_stage_of_a_training_step_can_be_drawn():
    stages = train_step()
    previous = None
    for graph in stages.values():
        drawing = draw(graph)
        dot = read(drawing)
        assert len(dot.operations()) <= 60
        everything = read(draw(graph, collapse=False))
        nodes = [n for g in graph.graphs() for n in g.nodes() if isinstance(n, CNode)]
        drawn = sum(not is_tuple_plumbing(n) and not isinstance(n.callee, FuncGraph) for n in nodes)
        calls = sum("call @" in label for label in everything.labels())
        assert len(everything.operations()) == drawn + calls
        if previous is not None:
            read(draw_difference(previous, graph))
            read(draw_difference(previous, graph, side_by_side=True, legend=True))
        previous = graph
    optimized = read(draw(stages["optimized"]))
    titles = set(optimized.clusters.values())
    assert {"Net", "fc1", "Net · backward"} <= titles
    assert any(label.startswith("Adam · update") for label in optimized.labels())


def test_drawings_are_deterministic_and_know_no_folders():
    texts = {draw(blocks(2), legend=True).dot for _ in range(2)}
    assert len(texts) == 1
    first, second = (draw(train_step()["optimized"]) for _ in range(2))
    assert first.dot == second.dot
    assert os.path.dirname(__file__) not in first.dot
    assert "basic.py" in first.dot  # in tooltips


def random_graph(rng: random.Random, pool: list[FuncGraph], depth: int = 0) -> FuncGraph:
    """A graph of calls, arms, loops and shared sub-graphs, in random scopes and phases."""
    inputs = parameters(BOOL, tensor(2), tensor(2))
    values: list[Node] = inputs[1:]
    for _ in range(rng.randrange(1, 8)):
        a, b = rng.choice(values), rng.choice(values)
        phase = rng.choice(["forward", "backward", "update"])
        origin = Origin(scope=rng.choice(["", "A", "A/b", "A/b/c", "C"]), phase=phase)
        kind = rng.random() if depth < 3 else 0.0
        if kind < 0.5:
            values.append(CNode(REGISTRY["Add"].bound(), [a, b], tensor(2), origin))
            continue
        if not pool or kind < 0.8:
            pool.append(random_graph(rng, pool, depth + 1))
        callee: FuncGraph | Switch = rng.choice(pool)
        operands = [inputs[0], a, b]
        if kind > 0.65:
            callee = Switch((rng.choice(pool), rng.choice(pool)))
            operands.insert(0, inputs[0])
        values.append(CNode(callee, operands, tensor(2), origin))
    name, scope_kind = rng.choice("fgh"), rng.choice(["function", "cell", "arm"])
    return FuncGraph(name, inputs, values[-1], scope_kind=scope_kind)


def test_any_graph_can_be_drawn():
    previous = power_loop()
    for seed in range(60):
        graph = random_graph(random.Random(seed), [])
        for options in ({}, {"collapse": True}, {"limit": 5, "legend": True}, {"collapse": False}):
            read(draw(graph, **options))
        read(draw_difference(previous, graph))
        read(draw_difference(previous, graph, side_by_side=True, limit=5))
        found = correspond(previous, graph)
        assert len(set(found.values())) == len(found)
        previous = graph


def test_depth_is_no_problem():
    graph = graph_of(ops.exp, tensor(2), name="leaf")
    for i in range(1100):
        (x,) = parameters(tensor(2))
        call = CNode(graph, [apply_node("Sin", x)], tensor(2))
        graph = FuncGraph(f"f{i}", [x], call, scope_kind="cell")
    assert closed_nodes(read(draw(graph))) > 1000
    assert len(read(draw(graph, collapse=False)).operations()) == 1101


# ----------------------------------------------------------------------------------- rendering


@pytest.fixture
def no_program(monkeypatch, tmp_path):
    monkeypatch.setenv("MINISPORE_DOT", str(tmp_path / "missing"))


def test_without_graphviz_the_text_is_shown(no_program):
    drawing = draw(power_loop())
    assert drawing.svg() is None
    assert drawing._repr_mimebundle_() == {"text/plain": to_text(power_loop())}
    assert repr(drawing) == str(drawing) == drawing.text


def run_as(monkeypatch, answer):
    """Replace the program by a function of its flags; returns the commands run."""
    commands = []

    def run(command, input, capture_output, timeout):
        commands.append(command)
        assert capture_output and timeout == render.TIMEOUT and input.startswith(b"digraph")
        return answer(command)

    monkeypatch.setattr(render.subprocess, "run", run)
    return commands


def finished(code: int, out: bytes) -> subprocess.CompletedProcess:
    return subprocess.CompletedProcess([], code, out, b"")


def test_layout_is_tried_again_with_less_effort(monkeypatch):
    def slow(command):
        if "-Gnslimit=1" not in command:
            raise subprocess.TimeoutExpired(command, render.TIMEOUT)
        return finished(0, b'<?xml version="1.0"?>\n<!-- x -->\n<svg>ok</svg>\n')

    monkeypatch.setenv("MINISPORE_DOT", "layout")
    commands = run_as(monkeypatch, slow)
    assert draw(power_loop()).svg() == "<svg>ok</svg>\n"
    assert commands == [
        ["layout", "-Kdot", "-Tsvg"],
        ["layout", "-Kdot", "-Tsvg", "-Gsplines=line", "-Gnslimit=1"],
    ]


@pytest.mark.parametrize("code, out", [(1, b"<svg/>"), (0, b"nothing"), (0, b"")])
def test_a_failing_program_is_no_error(monkeypatch, code, out):
    monkeypatch.setenv("MINISPORE_DOT", "layout")
    commands = run_as(monkeypatch, lambda command: finished(code, out))
    drawing = draw(power_loop())
    assert drawing.svg() is None and drawing.svg() is None
    assert len(commands) == 2  # and it is not asked a second time
    assert list(drawing._repr_mimebundle_()) == ["text/plain"]


def test_where_the_program_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.delenv("MINISPORE_DOT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    assert render.find_graphviz() is None
    assert render.render_svg("digraph {}") is None
    suffix = ".exe" if sys.platform == "win32" else ""
    for name in ("dot", "graphviz-pure", "scripts/graphviz-pure"):  # the last is the best
        program = tmp_path / f"{name}{suffix}"
        program.parent.mkdir(exist_ok=True)
        program.write_text("")
        program.chmod(0o755)
        assert Path(render.find_graphviz()) == program
    monkeypatch.setenv("MINISPORE_DOT", "mine")
    assert render.find_graphviz() == "mine"


def test_saving(monkeypatch, tmp_path, no_program):
    drawing = draw(power_loop())
    assert drawing.save(tmp_path / "a.dot").read_text(encoding="utf-8") == drawing.dot
    assert drawing.save(tmp_path / "a.txt").read_text(encoding="utf-8") == drawing.text
    assert drawing.save(str(tmp_path / "b.svg")) == tmp_path / "b.dot"  # no program: the DOT text
    with pytest.raises(ValueError, match=r"\.svg, \.dot or \.txt, not 'a.png'"):
        drawing.save(tmp_path / "a.png")

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(render.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        draw(factorial()).save(tmp_path / "a.dot")
    assert (tmp_path / "a.dot").read_text(encoding="utf-8") == drawing.dot
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.dot", "a.txt", "b.dot"]


def bundled() -> str | None:
    return render.shutil.which("graphviz-pure", path=sysconfig.get_path("scripts"))


@pytest.mark.skipif(bundled() is None, reason="the bundled graphviz-pure is not installed")
def test_the_bundled_program_draws_it(monkeypatch, tmp_path):
    monkeypatch.delenv("MINISPORE_DOT", raising=False)
    tape, _ = record()
    drawings = [
        draw(blocks(), legend=True), draw(factorial()), draw(power_loop()), draw_tape(tape),
        draw_difference(*before_and_after(), legend=True), draw(FuncGraph("f", [], constant(1.0))),
    ]  # fmt: skip
    for drawing in drawings:
        svg = drawing.svg()
        assert svg is not None and svg.startswith("<svg")
        xml.dom.minidom.parseString(svg)
        assert render.render_svg(drawing.dot) == svg
        assert drawing._repr_mimebundle_() == {"text/plain": drawing.text, "image/svg+xml": svg}
    path = drawings[0].save(tmp_path / "a.svg")
    assert path.read_text(encoding="utf-8") == drawings[0].svg()
