"""Cells, functions and other things that an index known at run time picks from a sequence.

One Switch with an arm per item calls what is picked, in both modes alike, with gradients.
"""

import numpy as np
import pytest
from differential import Programs, Refusals, agree, points_at
from helpers import assert_same

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.ir.node import CNode, Switch

PROGRAMS = Programs()
REFUSALS = Refusals()
INDEXES = (0, 1, 2, -1, -3)


def weights(n_out, n_in, seed):
    values = np.random.default_rng(seed).normal(size=(n_out, n_in))
    return Tensor(values, ms.float32)


def layers():
    """Three Cells from two numbers to two; one has no Parameters, one has more."""
    inner = nn.Dense(2, 3, weight_init=weights(3, 2, 0), bias_init="ones")
    outer = nn.Dense(3, 2, weight_init=weights(2, 3, 1), bias_init="zeros")
    first = nn.Dense(2, 2, weight_init=weights(2, 2, 2), bias_init="zeros")
    return [first, nn.SequentialCell(inner, nn.Tanh(), outer), nn.Sigmoid()]


class Picking(nn.Cell):
    """Calls the layer that a Tensor picks."""

    def __init__(self, kind):
        super().__init__()
        self.layers = kind(layers())

    def construct(self, x, index):
        return self.layers[index](x)


def switches(graph):
    """The numbers of arms of all Switches that a graph reaches."""
    nodes = [n for g in graph.graphs() for n in g.nodes() if isinstance(n, CNode)]
    return [len(n.callee.graphs) for n in nodes if isinstance(n.callee, Switch)]


KINDS = [nn.CellList, nn.SequentialCell, list, tuple]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", INDEXES)
def test_cells_picked_by_a_tensor(kind, index):
    net, x = Picking(kind), Tensor([[0.5, -1.0], [2.0, 0.1]], ms.float32)
    trained = ms.ParameterTuple([p for cell in net.layers for p in cell.get_parameters()])
    params = net.trainable_params() or trained

    def first(x, i):
        loss = lambda x, i: (net(x, i) ** 2).sum()  # noqa: E731
        return net(x, i), ms.value_and_grad(loss, 0, params)(x, i)

    def second(x, i):
        def slope(x):
            return (ms.grad(lambda x: (net(x, i) ** 2).sum())(x) ** 2).sum()

        return ms.grad(slope, 0, params)(x)

    found = agree(first, x, Tensor(index))
    agree(second, x, Tensor(index, ms.int32), factor=10)
    assert_same(found[0], net.layers[index](x))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [3, -4, 1000])
def test_an_index_out_of_range_is_an_index_error(kind, index):
    net, x = Picking(kind), Tensor([[0.5, -1.0]], ms.float32)

    def program(x, i):
        print("before")
        out = net(x, i)
        print("not reached")
        return out

    agree(program, x, Tensor(index))
    with pytest.raises(IndexError) as caught:
        ms.jit(program)(x, Tensor(index))
    assert points_at(caught.value, __file__)


@pytest.mark.parametrize("kind", KINDS)
def test_one_switch_calls_what_is_picked(kind):
    net, x = Picking(kind), Tensor([[0.5, -1.0]], ms.float32)
    compiled = ms.jit(lambda x, i: net(x, i % 3))
    compiled(x, Tensor(1))
    assert [n for n in switches(compiled.graph()) if n > 2] == [3]


def test_only_integers_pick():
    net, x = Picking(nn.CellList), Tensor([[0.5, -1.0]], ms.float32)
    for index in (Tensor(1.0), 1.0, "1", True, None, Tensor([0, 1])):
        for run in (net, ms.jit(net.construct)):
            with pytest.raises((TypeError, ValueError)):
                run(x, index)
    assert_same(net.layers[np.int64(2)](x), ops.sigmoid(x))


# ---------------------------------------------------------------------------------- programs


@PROGRAMS.on(*INDEXES, 3)
def functions_in_a_tuple(n):
    functions = (abs, lambda v: v * 2, ops.exp)
    x = n + 0.5
    return functions[n](x), functions[int(n)](x - 3)


@PROGRAMS.on(0, 1, -1, 2)
def one_of_two(n):
    return [ops.exp, ops.sin][n](n * 0.1)


@PROGRAMS.on(0, -1, 1)
def one_of_one(n):
    return [ops.exp][n](n * 0.1)


@PROGRAMS.on(0, 1, 2, 3)
def one_function_at_two_places(n):
    twice = lambda v: v * 2  # noqa: E731
    return [twice, ops.exp, twice, None][n] is None


@PROGRAMS.on(*INDEXES)
def none_among_functions(n):
    f = [None, ops.exp, lambda v: v - 1][n]
    return n * 1.0 if f is None else f(n * 1.0)


@PROGRAMS.on(*INDEXES)
def picked_and_kept(n):
    x = n * 0.5
    f = [ops.sin, ops.cos, lambda v: v * x][n]
    y = f(x)
    for _ in range(3):
        y = f(y) + 1
    return y, f(f(x))


@PROGRAMS.on((0, 1.0), (1, 1.0), (2, 1.0), (0, -1.0), (1, -1.0), (2, -1.0))
def picked_in_an_arm(n, x):
    f = [ops.sin, ops.cos, ops.exp][n]
    if x > 0:
        f = [f, ops.tanh][(n + 1) % 2]
    return f(x)


@PROGRAMS.on(0, 1, 5, 20)
def picked_in_a_loop(n):
    steps, x, i = (lambda v: v * 2, lambda v: v + 1, ops.sin), n * 0.1, 0
    while i < n:
        x = steps[i % 3](x)
        i += 1
    return x, i


@PROGRAMS.on(*INDEXES)
def effects_and_results_of_many_kinds(n):
    seen = [0, 0]

    def first(v):
        print("first", v)
        seen[0] += 1
        return v, {"k": 1}

    def second(v):
        seen[1] = 7
        return v * 2, {"k": 2}

    out, extra = [first, second, lambda v: (v, {"k": seen[0]})][n](n * 3)
    return out, extra, seen, n


class Scaled:
    def __init__(self, factor, name):
        self.factor, self.name = factor, name

    def __call__(self, v):
        return v * self.factor

    def shifted(self, v, by=1):
        return v * self.factor + by


class Offset:
    def __init__(self, by):
        self.by, self.name = by, "offset"

    def __call__(self, v):
        return v + self.by

    def shifted(self, v, by=2):
        return v + self.by + by


@PROGRAMS.on(*INDEXES)
def objects_and_their_attributes(n):
    things = [Scaled(2, "double"), Offset(3), Scaled(4, "fourfold")]
    thing = things[n]
    print(thing.name)
    return thing(n), thing.shifted(n), isinstance(thing, Offset), things[n].shifted(n, by=7)


@PROGRAMS.on(*INDEXES)
def numbers_strings_and_tensors(n):
    names, sizes, tensors = ("a", "bb", "c"), [1, 2.0, 3][::2], [n, n * 2, n * 3]
    print(names[n], names[n].upper(), f"<{names[n]}>")
    return names[n], [10, 20, 30][n], [0.5, 1.5, 2.5][n] * n, tensors[n], sizes[int(n) % 2]


@PROGRAMS.on((0, 0), (0, -1), (1, 1), (1, 2))
def lists_in_a_cell_list(i, k):
    cells = BLOCKS[i][k]
    return cells(i * 0.5 - 1), BLOCKS[i][-1](k - 0.5)


BLOCKS = nn.CellList(
    [nn.CellList([nn.ReLU(), nn.Sigmoid()]), nn.SequentialCell(nn.Tanh(), nn.ReLU())]
)


@PROGRAMS.on(*INDEXES, 3)
def written_at_an_index(n):
    counts, tensors = [0, 0, 0], [n, n, n * 2]
    counts[n] += 5
    counts[int(n)] = counts[n] * 2
    tensors[n] = tensors[n] + 100
    return counts, tensors


@PROGRAMS.on(*INDEXES)
def the_index_is_known_in_an_arm(n):
    f = [ops.sin, ops.cos, ops.exp][n]
    k = int(n)
    if k == 1:
        return f(n * 0.5) + [1, 2, 3][k]
    return f(n * 0.25) + k


@pytest.mark.parametrize("program, args", PROGRAMS)
def test_program(program, args):
    PROGRAMS.run(program, args)


@pytest.mark.parametrize("index", INDEXES)
def test_parameters_picked_by_a_tensor(index):
    rows = ms.ParameterTuple([Parameter(Tensor([float(i), i + 0.5]), f"p{i}") for i in range(3)])

    def program(x, i):
        return ms.value_and_grad(lambda x: (rows[i] * x).sum(), 0, rows)(x)

    agree(program, Tensor([2.0, 3.0]), Tensor(index))


@pytest.mark.parametrize("times", [0, 1, 5])
def test_gradients_of_layers_picked_in_a_loop(times):
    cells = nn.CellList(layers())

    def forward(x, n):
        i = 0
        while i < n:
            x = cells[i % 3](x) + x
            i += 1
        return (x * x).sum()

    def program(x, n):
        return ms.value_and_grad(forward, 0, cells.trainable_params())(x, n)

    agree(program, Tensor([[0.5, -1.0]], ms.float32), Tensor(times), factor=10)


# ---------------------------------------------------------------------------------- refusals


@REFUSALS.on(TypeError, "depends on a Tensor", 1)
def results_of_different_shapes(n):
    return [lambda v: v * 1.0, lambda v: ops.stack([v, v])][n](n)


@REFUSALS.on(TypeError, "depends on a Tensor", 1)
def results_of_different_dtypes(n):
    return [lambda v: v, lambda v: v * 0.5, lambda v: v][n](n)


@REFUSALS.on(TypeError, "depends on a Tensor", 1)
def number_or_tensor(n):
    return [1, n, 2][n]


@REFUSALS.on(TypeError, "takes 0 positional arguments", 1)
def another_number_of_arguments(n):
    return [lambda v: v, lambda: 1][n](n)


@REFUSALS.on(TypeError, "which list it is depends on a Tensor", 1)
def lists_in_a_list(n):
    return [[n, 1], [n, 2], [n, 3]][n]


@pytest.mark.parametrize("fn, args, error, match", REFUSALS)
def test_refused(fn, args, error, match):
    REFUSALS.run(fn, args, error, match)
