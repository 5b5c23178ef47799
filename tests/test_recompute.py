"""``Cell.recompute``: the same values and gradients from fewer residuals."""

import numpy as np
import pytest
from differential import agree
from graphs import graph_of, tensor
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.autodiff.transform import J
from minispore.ir.interp import interpret
from minispore.ir.node import CNode, FuncGraph, is_call_of
from minispore.ir.verify import verify
from minispore.passes.cse import cse
from minispore.passes.inline import lazy_inline

X = Tensor(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))


class Block(nn.Cell):
    """Layers, dropout and batch normalisation; prints how often it runs."""

    def __init__(self, prints=False):
        super().__init__()
        self.up, self.down = nn.Dense(4, 8), nn.Dense(8, 4)
        self.drop, self.norm = nn.Dropout(p=0.5), nn.BatchNorm1d(8)
        self.prints = prints

    def construct(self, x):
        if self.prints:
            print("block")
        return x + self.down(self.drop(ops.tanh(self.norm(self.up(x)))))


class Loop(nn.Cell):
    """A loop and a choice that Tensors decide."""

    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor([0.5, -0.25, 1.0, 2.0]), name="weight")

    def construct(self, x):
        i = Tensor(0)
        while i < 3:
            x = ops.tanh(x * self.weight)
            i = i + 1
        if x.sum() > 0:
            x = ops.exp(x)
        return x * x


class Swish(nn.Cell):
    """A gradient of its own, inside what is recomputed."""

    def construct(self, x):
        return x * ops.sigmoid(x)

    def bprop(self, x, out, dout):
        return (dout * 3 * x,)


def trained(block, cells, train=True):
    """One gradient of a network, and what it left in its Parameters."""
    ms.set_seed(5)
    rng = np.random.default_rng(1)
    for p in cells.get_parameters():
        if p.requires_grad:
            p.set_data(Tensor(rng.normal(size=p.shape).astype(np.float32)))
    cells.set_train(train)
    step = ms.jit(ms.value_and_grad(lambda x: (cells(x) ** 2).sum(), 0, cells.trainable_params()))
    loss, (dx, grads) = step(X)
    return step, [v.asnumpy() for v in (loss, dx, *grads, *cells.get_parameters())]


def network(make, recomputed, layers=2):
    blocks = [make() for _ in range(layers)]
    for block in blocks:
        if recomputed:
            block.recompute()
    return nn.SequentialCell(*blocks)


def residuals(step):
    """How many values each block's fwd returns besides its outputs."""
    found = {}
    for graph in step.graph("grad").graphs():
        if graph.name.endswith("_fwd") and graph.name[:-4] in ("Block", "Loop", "Swish"):
            found[graph.name] = len(graph.outputs())
    return found


@pytest.mark.parametrize("make", [Block, Loop, Swish])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_same_gradients_and_statistics(make, layers):
    plain, expected = trained(make, network(make, False, layers))
    again, found = trained(make, network(make, True, layers))
    # The exact gradient of a bias before batch norm is 0: what is left there is rounding.
    largest = max(np.abs(b).max() for b in expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * max(np.abs(b).max(), 1e-3 * largest))
    for graph in again.stages.values():
        verify(graph)


def test_fewer_residuals():
    """Random state, its new value, moving statistics are outputs; the rest are residuals."""
    plain, _ = trained(Block, network(Block, False))
    again, _ = trained(Block, network(Block, True))
    (many,), (few,) = residuals(plain).values(), residuals(again).values()
    n_outputs = 1 + 1 + 2  # the value, the random state, two statistics
    n_arguments = 1 + 1 + 6  # x, the random state, weights and biases
    assert few <= n_outputs + n_arguments < many


def test_a_graph_keeps_its_arguments_only():
    def f(x):
        for _ in range(4):
            x = ops.exp(ops.sin(x))
        return (x,)

    graph = graph_of(f, tensor(3))
    fwd, bwd, plain = J(graph)
    marked = FuncGraph("f", graph.parameters, graph.output, recompute=True)
    fwd2, bwd2, kept = J(marked)
    assert plain >= 4 and kept == 1
    for g in (fwd2, bwd2):
        verify(g)
    x, dout = np.array([0.5, -1, 2], np.float32), np.ones(3, np.float32)
    value, *saved = interpret(fwd, [x])
    value2, *saved2 = interpret(fwd2, [x])
    assert_same(value2, value)
    assert len(saved2) == 1
    assert_same(interpret(bwd2, [*saved2, dout]), interpret(bwd, [*saved, dout]))


def test_the_copy_is_not_merged_with_the_original():
    cell = nn.SequentialCell(nn.Dense(4, 4), nn.Tanh())
    cell.recompute()
    step = ms.jit(ms.grad(lambda x: cell(x).sum()))
    step(X)
    flat = cse(lazy_inline(step.graph("grad")))
    forward = [n for n in flat.nodes() if is_call_of(n, "Tanh")]
    assert len(forward) == 2  # the original and the copy
    assert any(is_call_of(n, "Depend") for n in step.graph().nodes())
    phases = {n.origin.phase for n in step.graph().nodes() if is_call_of(n, "MatMul")}
    assert "backward" in phases


def test_effects_happen_once(capsys):
    block = Block(prints=True)
    block.recompute()
    trained(Block, nn.SequentialCell(block))
    assert capsys.readouterr().out == "block\n"


def test_second_order():
    def build(recomputed):
        ms.set_seed(3)
        cell = nn.SequentialCell(nn.Dense(4, 4), nn.Tanh())
        if recomputed:
            cell.recompute()
        return ms.jit(ms.grad(lambda x: ms.grad(lambda y: (cell(y) ** 2).sum())(x).sum()))

    assert_same(build(True)(X).asnumpy(), build(False)(X).asnumpy())


def test_both_modes_agree():
    loop = Loop()
    loop.recompute()
    agree(ms.value_and_grad(lambda x: loop(x).sum(), 0, loop.trainable_params()), X, factor=10)


def test_a_cell_that_is_marked_later_is_compiled_again():
    cell = nn.Dense(4, 4)
    step = ms.jit(ms.grad(lambda x: ops.tanh(cell(x)).sum()))
    step(X)
    cell.recompute()
    step(X)
    assert step.compile_count == 2
    step(X)
    assert step.compile_count == 2


def test_nested_and_repeated_marks():
    inner = Block()
    inner.recompute()
    outer = nn.SequentialCell(inner, nn.Dense(4, 4))
    outer.recompute()
    outer.recompute()  # says it again
    step, found = trained(Block, outer)
    expected = trained(Block, nn.SequentialCell(Block(), nn.Dense(4, 4)))[1]
    for a, b in zip(found, expected, strict=True):
        assert_same(a, b)


def test_a_recursive_cell_keeps_its_values():
    class Down(nn.Cell):
        def construct(self, x, n):
            if n > 0:
                x = self(ops.sin(x), n - 1)
            return x

    cell = Down()
    cell.recompute()
    step = ms.jit(ms.grad(lambda x, n: cell(x, n).sum()))
    np.testing.assert_allclose(
        step(Tensor([0.5]), Tensor(2)).asnumpy(), [np.cos(np.sin(0.5)) * np.cos(0.5)], rtol=1e-6
    )


def test_options():
    cell = nn.Dense(2, 2)
    assert cell.recompute(mp_comm_recompute=False) is None
    with pytest.raises(ValueError, match="no option 'foo'"):
        cell.recompute(foo=1)


def test_without_gradients_nothing_is_computed_twice():
    cell = nn.SequentialCell(nn.Dense(4, 4), nn.Tanh())
    cell.recompute()
    run = ms.jit(cell)
    run(X)
    assert sum(isinstance(n, CNode) and n.callee.name == "Tanh" for n in run.graph().nodes()) == 1
