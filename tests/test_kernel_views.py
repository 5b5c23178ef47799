"""What reports tell of kernels: sources, nodes, lines, and counts that are checked by hand."""

import ast

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
        for node, name in zip(info.nodes, info.title.split(), strict=True):
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
