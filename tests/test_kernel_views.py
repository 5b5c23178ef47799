"""What reports tell of kernels: sources, nodes, lines, and counts that are checked by hand."""

import ast
import re

import numpy as np
import pytest

import minispore as ms
from minispore import Tensor, nn, ops
from minispore.ir.text import to_text


def tensor(*shape, dtype=np.float32):
    return Tensor(np.arange(np.prod(shape), dtype=dtype).reshape(shape) / 8)


def layer(x, w, b):
    return ops.relu(ops.matmul(x, w) + b)


@pytest.fixture(scope="module")
def report():
    return ms.explain(layer, tensor(4, 3), tensor(3, 5), tensor(5))


def test_bytes_and_operations_of_a_layer(report):
    product, rest = report.kernels
    assert product.title == "MatMul"
    assert list(product.reads.values()) == [4 * 3 * 4, 3 * 5 * 4]
    assert list(product.writes.values()) == [4 * 5 * 4]
    assert product.operations == 2 * 4 * 3 * 5
    assert rest.title == "Add ReLU"
    assert sorted(rest.reads.values()) == [5 * 4, 4 * 5 * 4]
    assert list(rest.writes.values()) == [4 * 5 * 4]
    assert rest.operations == 2 * 4 * 5
    assert rest.bytes == 4 * (20 + 5 + 20)


def test_nodes_are_those_of_the_text_and_lines_those_of_the_source(report):
    text = to_text(report.graph())
    for info in report.kernels:
        for node, name in zip(info.nodes, info.title.split(), strict=True):  # none is there twice
            assert f"{node}: " in text or f"{node} = " in text or f"{node}(" in text
            assert any(node in line and name in line for line in text.splitlines())
        assert {w.file_name for w in info.lines} == {"test_kernel_views.py"}
        assert f"kernel {info.name}: {info.title}" in str(info)


def test_sources_are_python_that_names_its_arguments(report):
    for info in report.kernels:
        (function,) = [
            n for n in ast.parse(info.source).body if isinstance(n, ast.FunctionDef)
        ]  # fmt: skip
        assert [a.arg for a in function.args.args] == ["slots", "args", "lo", "hi", "worker"]
        assert set(info.reads) | set(info.writes) <= set(info.arguments)


@pytest.mark.parametrize(
    ("fn", "inputs", "reads", "writes", "operations"),
    [
        (lambda x: ops.exp(x) * 2 - 1, [(6, 4)], 96, 96, 3 * 24),
        (lambda x: x.sum(-1), [(6, 4)], 96, 24, 24),
        (lambda x: x - ops.amax(x, -1, keepdims=True), [(6, 4)], 96, 96, 48),
        (lambda x, y: x[:, 1:3] + y, [(6, 4), (6, 2)], 48 + 48, 48, 12),
        (lambda x, y: x + ops.broadcast_to(y, (6, 4)), [(6, 4), (6, 1)], 96 + 24, 96, 24),
    ],
)
def test_counts_of_single_kernels(fn, inputs, reads, writes, operations):
    (info,) = ms.explain(fn, *(tensor(*shape) for shape in inputs)).kernels
    assert sum(info.reads.values()) == reads
    assert sum(info.writes.values()) == writes
    assert info.operations == operations


def test_rows_by_an_index_count_what_is_read():
    table, index = tensor(100, 8), Tensor(np.array([3, 1, 99], np.int32))
    infos = ms.explain(lambda t, i: ops.gather(t, i, 0) * 2, table, index).kernels
    info = next(i for i in infos if "Gather" in i.title)
    assert sum(info.reads.values()) == 3 * 8 * 4 + 3 * 4
    assert sum(info.writes.values()) == 3 * 8 * 4


def test_html_shows_each_source_once():
    net = nn.SequentialCell(nn.Dense(4, 4), nn.ReLU(), nn.Dense(4, 4), nn.ReLU())
    report = ms.explain(net, tensor(2, 4))
    html = report.html()
    assert f"Kernels ({len(report.kernels)})" in html
    sources = [info.source for info in report.kernels]
    assert len(set(sources)) < len(sources)
    assert html.count("def kernel(") == len(set(sources))
    assert f"the source of kernel {report.kernels[0].name}" in html


def test_without_kernels_there_are_none():
    fn = ms.jit(layer, jit_level="O0")
    report = ms.explain(fn, tensor(4, 3), tensor(3, 5), tensor(5))
    assert report.kernels == []
    assert "Kernels" not in report.html()


def test_plan_explains_its_names(report):
    assert "m0 m1 ..." in report.plan
    assert "s0 s1 ..." in report.plan


# ------------------------------------------------------------------------------- fusion drawn


def clusters(dot):
    """The titles of boxes, and how deep each is."""
    found, depth = [], 0
    for line in dot.splitlines():
        depth -= line.strip() == "}"
        if "subgraph cluster_" in line:
            depth += 1
        title = re.match(r'\s*label="(.*?)";? ?', line)
        if title:
            found.append((depth, title.group(1)))
    return found


def test_bytes_before_and_after_fusing(report):
    traffic = report.traffic
    product, add, relu = 4 * (12 + 15 + 20), 4 * (20 + 5 + 20), 4 * (20 + 20)
    assert (traffic.nodes, traffic.kernels) == (3, 2)
    assert traffic.before == product + add + relu
    assert traffic.after == product + 4 * (20 + 5 + 20)
    words = f"3 nodes alone would move {traffic.before} bytes; in 2 kernels they move"
    assert words in str(traffic)
    assert words in report.drawing("kernels").text
    assert words in report.passes()
    assert words in report.table()
    assert "counted once" not in str(traffic)


def test_boxes_are_kernels_and_items_their_nodes(report):
    dot = report.drawing("kernels").dot
    titles = clusters(dot)
    assert [depth for depth, _ in titles] == [1, 2, 3, 3]
    assert titles[2][1].startswith("0.0: 188 B moved, 188 B alone")
    assert titles[3][1].startswith("0.1: 180 B moved, 340 B alone")
    for info in report.kernels:
        for node in info.nodes:
            assert f'"{info.name} {node}"' in dot
    assert '"0.0 %1" -> "0.1 %2" [label=" 80 B "]' in dot
    assert '"0.1 %2" -> "0.1 %3" []' in dot  # stays inside: no memory
    assert dot == ms.explain(layer, tensor(4, 3), tensor(3, 5), tensor(5)).drawing("kernels").dot
    assert report.drawing("kernels").svg().startswith("<svg")


def big_step():
    net = nn.SequentialCell(*(nn.Dense(4, 4, activation="relu") for _ in range(12)))
    loss_fn, opt = nn.MSELoss(), nn.Adam(net.trainable_params(), 0.1)
    grad_fn = ms.value_and_grad(lambda x, y: loss_fn(net(x), y), None, opt.parameters)

    def step(x, y):
        loss, grads = grad_fn(x, y)
        opt(grads)
        return loss

    return ms.explain(step, tensor(3, 4), tensor(3, 4))


def test_large_plans_are_drawn_by_cells():
    report = big_step()
    items = re.findall(r'^ +"kernel [^"]*" \[', report.drawing("kernels").dot, re.M)
    assert len(items) <= 60 < len(report.kernels)
    closed = report.drawing("kernels", collapse=True).dot
    assert len(re.findall(r'^ +"kernel [^"]*" \[', closed, re.M)) == len(report.kernels)
    name = report.kernels[-1].name
    opened = report.drawing("kernels", expand=(name,)).dot
    assert all(f'"{name} {node}"' in opened for node in report.kernels[-1].nodes)
    every = report.drawing("kernels", expand="all").dot
    assert '"kernel ' not in every


def test_options_that_mean_nothing(report):
    with pytest.raises(ValueError, match=r"there is no kernel 7\.7; there are 0\.0, 0\.1"):
        report.drawing("kernels", expand="7.7")
    with pytest.raises(ValueError, match="collapse must be"):
        report.drawing("kernels", collapse="no")


def test_loops_calls_and_what_python_does_are_drawn():
    def fn(x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            x = ops.cumsum(x, 0) + i
            i = i + 1
        return x.sum() * 2

    dot = ms.explain(fn, tensor(3, 4), Tensor(3, ms.int32)).drawing("kernels").dot
    assert "CumSum" in dot and "in Python" in dot and "in one call" in dot

    def native(x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            x = x * 0.5 + 1
            i = i + 1
        return x

    drawing = ms.explain(native, tensor(8), Tensor(300, ms.int32)).drawing("kernels", legend=True)
    assert 'constraint="false"' in drawing.dot  # the round before
    assert drawing.svg().startswith("<svg")


def edges(report):
    """Which primitives feed which in the picture of kernels."""
    dot = report.drawing("kernels").dot
    title = dict(re.findall(r'^ +"([^"]+)" \[label=<.*?<B>(\w+)</B>', dot, re.M))
    found = re.findall(r'^ +"([^"]+)" -> "([^"]+)"', dot, re.M)
    return [(title.get(a, "copy"), title.get(b, "copy")) for a, b in found]


def test_both_arms_of_a_branch_feed_what_follows():
    def fn(x):
        y = x @ x
        if y.mean() > 0:
            y = ops.exp(y)
        else:
            y = ops.tanh(y)
        return y @ x

    report = ms.explain(fn, tensor(8, 8))
    found = edges(report)
    assert ("Exp", "MatMul") in found and ("Tanh", "MatMul") in found
    assert ("Exp", "Tanh") not in found and ("Tanh", "Exp") not in found
    assert "arms and rounds counted once" in str(report.traffic)


def test_arms_in_python_feed_what_follows():
    def fn(x):
        if x.mean() > 0:
            y = ops.cumsum(x, 0)
        else:
            y = ops.cumsum(ops.exp(x), 0)
        return ops.cumsum(y, 1)

    found = edges(ms.explain(fn, tensor(8, 8)))
    assert found.count(("CumSum", "CumSum")) == 2, found


def test_what_was_before_a_loop_feeds_what_follows():
    def fn(x, n):
        x = ops.exp(x @ x)
        i = Tensor(0, ms.int32)
        while i < n:
            x = ops.tanh(x)
            i = i + 1
        return x @ x

    found = edges(ms.explain(fn, tensor(8, 8), Tensor(3, ms.int32)))
    assert ("Tanh", "MatMul") in found
    assert ("Exp", "MatMul") in found or ("copy", "MatMul") in found, found


def test_files_of_the_report(report, tmp_path):
    report.save(tmp_path)
    number = len(report.stages)
    assert (tmp_path / f"{number:02d}_kernels.svg").read_text().startswith("<svg")
    html = (tmp_path / "report.html").read_text()
    assert "Nodes in kernels" in html and "bytes of each kernel" in html
