"""Cells: attributes, names, registries, printing, hooks, gradients of their own, containers.

The expected names, orders, texts and error classes were read off MindSpore 2.10.
"""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest
from helpers import assert_same

import minispore as ms
from minispore import context, nn
from minispore.dtype import float32, int64
from minispore.nn import cell as cell_module
from minispore.parameter import Parameter, ParameterTuple
from minispore.tensor import Tensor


def dense(has_bias=True):
    return nn.Dense(1, 1, has_bias=has_bias)


def param(name=None):
    return Parameter(Tensor([1.0, 2.0]), name=name)


def names(cell):
    return [p.name for p in cell.get_parameters()]


class Layer(nn.Cell):
    """A parameter with a name, one without, and a tuple of them."""

    def __init__(self):
        super().__init__()
        self.given = param("explicit")
        self.unnamed = param()
        self.pair = ParameterTuple([param("a"), param("b")])

    def construct(self, x, y=1):
        return x * y


class Net(nn.Cell):
    """A Parameter that is registered after the children."""

    def __init__(self):
        super().__init__()
        self.layer = Layer()
        self.seq = nn.SequentialCell(dense(), nn.ReLU(), dense(has_bias=False))
        self.scale = param()

    def construct(self, x):
        return x


@pytest.fixture(params=["pynative", "graph"])
def gradient(request):
    """A function that gives the output of f and the gradients of its sum, in one of the modes."""

    def run(f, *inputs):
        step = ms.value_and_grad(f, tuple(range(len(inputs))))
        out, grads = (ms.jit(step) if request.param == "graph" else step)(*inputs)
        return out, grads if len(inputs) > 1 else (grads,)

    return run


# ---------------------------------------------------------------------------- construction


@pytest.mark.parametrize("value", [param("w"), dense(), ParameterTuple([param("w")])])
def test_init_of_the_base_comes_first(value):
    class Early(nn.Cell):
        def __init__(self):
            self.early = value
            super().__init__()

    with pytest.raises(AttributeError, match=r"Early.__init__ must call super\(\).__init__\(\)"):
        Early()


def test_plain_attributes_may_come_before_init_but_a_call_may_not():
    class Never(nn.Cell):
        def __init__(self):
            self.k = 3

        def construct(self, x):
            return x

    cell = Never()
    assert cell.k == 3
    for use in (lambda: cell(1), lambda: repr(cell)):
        with pytest.raises(AttributeError, match="must call super"):
            use()


def test_construct_is_needed_when_called():
    class Empty(nn.Cell):
        pass

    assert repr(Empty()) == "Empty()"
    with pytest.raises(AttributeError, match="Empty does not define construct"):
        Empty()(Tensor([1.0]))


def test_wrong_arguments_are_type_errors_of_python():
    layer = Layer()
    for args, kwargs in (((1, 2, 3), {}), ((), {}), ((1,), {"z": 1})):
        with pytest.raises(TypeError, match=r"construct\(\)"):
            layer(*args, **kwargs)
    assert layer(2, y=3) == 6


# ----------------------------------------------------------------------------------- names


def test_names_are_paths():
    net = Net()
    expected = [
        "scale", "layer.given", "layer.unnamed", "layer.a", "layer.b",
        "seq.0.weight", "seq.0.bias", "seq.2.weight",
    ]  # fmt: skip
    assert names(net) == expected
    assert [path for path, _ in net.parameters_and_names()] == expected
    assert list(net.parameters_dict()) == expected
    assert names(nn.SequentialCell(net)) == [f"0.{name}" for name in expected]


def test_own_names_of_a_cell_that_stands_alone():
    assert names(Layer()) == ["explicit", "unnamed", "a", "b"]
    paths = [path for path, _ in Layer().parameters_and_names("p")]
    assert paths == ["p.given", "p.unnamed", "p.a", "p.b"]
    assert [p.name for p in Net().get_parameters(expand=False)] == ["scale"]


def test_a_shared_cell_takes_the_later_name():
    class Shared(nn.Cell):
        def __init__(self):
            super().__init__()
            self.first = self.second = dense()

    class SharedTwice(nn.Cell):
        def __init__(self):
            super().__init__()
            shared = dense()
            self.first = shared
            self.second = shared

    for cell in (Shared(), SharedTwice()):
        assert names(cell) == ["second.weight", "second.bias"]
        assert list(cell.name_cells()) == ["first"]
        assert [path for path, _ in cell.cells_and_names()] == ["", "first"]
        assert [path for path, _ in cell.parameters_and_names()] == ["first.weight", "first.bias"]
        assert repr(cell).count("Dense") == 2


def test_a_shared_parameter_appears_once():
    cell = nn.Cell()
    cell.a = cell.b = param()
    assert [(path, p.name) for path, p in cell.parameters_and_names()] == [("a", "a")]


def test_parameters_in_lists_are_not_registered():
    cell = nn.Cell()
    cell.items = [param("p"), dense()]
    cell.table = {"a": param("q")}
    assert names(cell) == [] and list(cell.cells()) == []


def test_a_tuple_does_not_hide_a_parameter():
    cell = nn.Cell()
    cell.a = param()
    with pytest.raises(KeyError, match="has a Parameter 'a' already"):
        cell.pair = ParameterTuple([param("a")])
    cell.again = ParameterTuple([cell.a])
    assert names(cell) == ["a"]


def test_without_auto_prefix_names_stay():
    cell = nn.Cell(auto_prefix=False)
    cell.a = dense()
    assert names(cell) == ["weight", "bias"]


def test_update_parameters_name():
    net = Net()
    net.update_parameters_name("pre.")
    assert names(net)[:2] == ["pre.scale", "pre.layer.given"]
    net.seq.append(dense(has_bias=False))
    assert net.seq[3].weight.name == "pre.seq.3.weight"
    net.layer.update_parameters_name("q.", recurse=False)
    assert net.layer.given.name == "q.given"
    with pytest.raises(TypeError, match="prefix must be a str"):
        net.update_parameters_name(3)


# ------------------------------------------------------------------------------ attributes


def test_children_and_parameters_are_plain_attributes():
    net = Net()
    assert vars(net)["layer"] is net._cells["layer"]
    assert vars(net)["scale"] is net._params["scale"]
    assert vars(net.seq)["0"] is net.seq[0]
    assert "__getattr__" not in dir(nn.Cell)
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'missing'"):
        _ = net.missing


def test_a_tensor_changes_the_value_of_a_parameter():
    cell = Layer()
    before = cell.given
    cell.given = Tensor([5, 6], int64)
    assert cell.given is before and cell.given.name == "explicit" and cell.given.dtype is float32
    np.testing.assert_array_equal(cell.given.asnumpy(), [5.0, 6.0])
    with pytest.raises(ValueError, match="shape"):
        cell.given = Tensor([1.0])
    with pytest.raises(TypeError, match="'given' of Layer is a Parameter"):
        cell.given = 3


def test_none_removes():
    net = Net()
    net.scale = None
    net.seq = None
    assert net.scale is None and net.seq is None
    assert names(net) == ["layer.given", "layer.unnamed", "layer.a", "layer.b"]
    assert list(net.name_cells()) == ["layer"]
    net.scale = param("new")
    net.seq = nn.ReLU()
    assert names(net)[0] == "new"
    assert list(net.name_cells()) == ["layer", "seq"]


def test_replacing():
    cell = nn.Cell()
    cell.x = 3
    cell.x = dense()
    cell.x = nn.ReLU()
    assert repr(cell) == "Cell(\n  (x): ReLU()\n)"
    cell.w = 3
    cell.w = param("first")
    cell.w = param("second")
    assert names(cell) == ["second"]
    with pytest.raises(TypeError, match="'x' of Cell is a Cell"):
        cell.x = 3
    with pytest.raises(KeyError):
        cell.x = param()
    with pytest.raises(KeyError):
        cell.w = dense()


def test_delete():
    net = Net()
    del net.scale
    del net.layer
    assert names(net) == ["seq.0.weight", "seq.0.bias", "seq.2.weight"]
    assert list(net.name_cells()) == ["seq"]
    for name in ("scale", "layer", "missing"):
        with pytest.raises(AttributeError):
            delattr(net, name)


def test_insert_child_to_cell():
    cell = Layer()
    child = dense()
    cell.insert_child_to_cell("child", child)
    assert cell.child is child and child.weight.name == "weight"
    cell.insert_child_to_cell("child", nn.ReLU())
    with pytest.raises(TypeError, match="must be a Cell"):
        cell.insert_child_to_cell("other", 3)
    with pytest.raises(TypeError, match="name is a str"):
        cell.insert_child_to_cell(3, dense())
    with pytest.raises(KeyError, match="attribute 'given' already"):
        cell.insert_child_to_cell("given", dense())


def test_insert_param_to_cell():
    cell = Net()
    cell.insert_param_to_cell("w", param())
    assert cell.w.name == "w"
    cell.insert_param_to_cell("w", param("other"))
    assert cell.w.name == "other"
    for name in ("", "a.b", "seq", "construct"):
        with pytest.raises(KeyError):
            cell.insert_param_to_cell(name, param())
    with pytest.raises(TypeError, match="must be a Parameter"):
        cell.insert_param_to_cell("v", 3)


# ------------------------------------------------------------------------- flags and walks


def test_flags():
    net = Net()
    assert (net.training, net.phase, net.requires_grad) == (False, "train", False)
    assert net.set_train() is net
    assert net.training and net.layer.training and net.seq[1].training and net.phase == "train"
    net.seq.set_train(False)
    assert net.training and not net.seq[0].training
    assert net.set_train(False).phase == "predict" and not net.layer.training
    assert net.set_grad() is net and net.requires_grad and net.seq[0].requires_grad
    assert not net.set_grad(False).seq.requires_grad


def test_trainable_params():
    net = Net()
    net.scale.requires_grad = False
    assert [p.name for p in net.untrainable_params()] == ["scale"]
    assert [p.name for p in net.trainable_params()] == names(net)[1:]
    assert net.trainable_params(recurse=False) == []


def test_cells():
    net = Net()
    assert [type(c) for c in net.cells()] == [Layer, nn.SequentialCell]
    paths = ["", "layer", "seq", "seq.0", "seq.1", "seq.2"]
    assert [path for path, _ in net.cells_and_names()] == paths
    assert [path for path, _ in net.cells_and_names("p")] == [f"p.{x}".rstrip(".") for x in paths]
    seen = []
    assert net.apply(seen.append) is net
    assert [type(c).__name__ for c in seen] == [
        "Layer", "Dense", "ReLU", "Dense", "SequentialCell", "Net",
    ]  # fmt: skip
    assert net.init_parameters_data() == {}


def test_deep_cells_are_no_problem():
    chain = nn.ReLU()
    for _ in range(300):
        outer = nn.Cell()
        outer.inner = chain
        chain = outer
    assert len(list(chain.cells_and_names())) == 301


def test_set_inputs():
    cell = Layer()
    assert cell.get_inputs() is None
    x = Tensor([1.0])
    cell.set_inputs(x)
    assert cell.get_inputs()[0] is x


# -------------------------------------------------------------------------------- printing


def test_print():
    net = Net()
    net.seq[2] = nn.Dense(2, 2, activation="tanh", has_bias=False)
    assert str(net) == repr(net)
    assert repr(net) == (
        "Net(\n"
        "  (layer): Layer()\n"
        "  (seq): SequentialCell(\n"
        "    (0): Dense(input_channels=1, output_channels=1, has_bias=True)\n"
        "    (1): ReLU()\n"
        "    (2): Dense(\n"
        "      input_channels=2, output_channels=2, activation=Tanh()\n"
        "      (activation): Tanh()\n"
        "    )\n"
        "  )\n"
        ")"
    )


# ------------------------------------------------------------------------ copies and pickles


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_are_complete_and_independent(copied):
    net = Net()
    net.set_train()
    twin = copied(net)
    assert names(twin) == names(net) and repr(twin) == repr(net) and twin.training
    assert twin.seq.cell_list[0] is twin.seq[0] and twin.scale is twin._params["scale"]
    twin.scale = Tensor([7.0, 8.0])
    np.testing.assert_array_equal(net.scale.asnumpy(), [1.0, 2.0])
    np.testing.assert_array_equal(twin.seq[0].weight.asnumpy(), net.seq[0].weight.asnumpy())


# ------------------------------------------------------------------------------------ hooks


def test_forward_hooks():
    layer, seen = Layer(), []
    first = layer.register_forward_pre_hook(lambda cell, args: (args[0] + 1, *args[1:]))
    second = layer.register_forward_pre_hook(lambda cell, args: seen.append((cell, args)))
    third = layer.register_forward_hook(lambda cell, args, out: seen.append((args, out)))
    fourth = layer.register_forward_hook(lambda cell, args, out: -out)
    assert layer(2, 10) == -30
    assert seen == [(layer, (3, 10)), ((3, 10), 30)]
    for handle in (first, second, third, fourth, first):
        handle.remove()
    assert layer(2, 10) == 20
    layer.register_forward_pre_hook(lambda cell, args: 7)  # a single argument need be no tuple
    assert layer(2) == 7
    for register in (layer.register_forward_hook, layer.register_forward_pre_hook):
        with pytest.raises(TypeError, match="a hook is a function"):
            register(3)


def test_a_hook_may_remove_itself():
    layer = Layer()
    handle = layer.register_forward_hook(lambda cell, args, out: handle.remove())
    assert layer(2) == 2 and layer(3) == 3


# --------------------------------------------------------------------------- graph mode


def test_an_outermost_call_in_graph_mode_goes_to_the_compiler(monkeypatch):
    calls = []

    class Compiler:
        def __init__(self, cell):
            self.cell = cell

        def run(self, args, kwargs):
            calls.append((self.cell, args, kwargs))
            return 42

        def compile(self, *args, **kwargs):
            return self.run(args, kwargs)

    monkeypatch.setattr(cell_module, "jit_of_cell", Compiler)
    layer = Layer()
    assert layer(2) == 2 and not calls
    with context.using(mode=context.GRAPH_MODE):
        assert layer(2, y=3) == 42
    assert layer.compile(5) is None
    assert calls == [(layer, (2,), {"y": 3}), (layer, (5,), {})]


class Branches(nn.Cell):
    """Containers, a state that is written, and a flag: what a compiled construct must follow."""

    def __init__(self):
        super().__init__()
        self.cells_ = nn.CellList([nn.Dense(4, 4, activation="relu"), nn.Dense(4, 4)])
        self.table = nn.CellDict({"out": nn.Dense(4, 2)})
        self.seq = nn.SequentialCell(OrderedDict([("act", nn.Tanh()), ("same", nn.Identity())]))
        self.calls = Parameter(Tensor(0), name="calls")

    def construct(self, x, scale=2.0):
        self.calls += 1
        for cell in self.cells_:
            x = cell(x)
        if self.training:
            x = x * scale
        for _, cell in self.table.items():
            x = cell(x)
        return self.seq(x) + self.cells_[-1].bias.sum() * len(self.seq)


def test_both_modes_agree():
    net, x = Branches(), Tensor(np.random.default_rng(0).standard_normal((3, 4)), float32)

    def results():
        return [net.set_train(mode)(x, *more) for mode in (True, False) for more in ((), (3.0,))]

    expected = results()
    with context.using(mode=context.GRAPH_MODE):
        net.compile(x)
        assert net.calls.asnumpy() == 4  # compiling runs nothing
        actual = results()
        assert net.calls.asnumpy() == 8
        net.cells_[0] = nn.Dense(4, 4, "zeros", "zeros")  # another child is seen at once
        changed = net(x)
    assert_same(tuple(actual), tuple(expected))
    assert_same(changed, net(x))
    assert np.abs(changed.asnumpy() - actual[-1].asnumpy()).max() > 1e-3


def test_hooks_in_graph_mode():
    layer = Layer()
    x = Tensor([2.0])
    with context.using(mode=context.GRAPH_MODE):
        assert layer(x, 10).item() == 20
        first = layer.register_forward_pre_hook(lambda cell, args: (args[0] + 1, *args[1:]))
        second = layer.register_forward_hook(lambda cell, args, out: -out)
        assert layer(x, 10).item() == -30
        first.remove()
        second.remove()
        assert layer(x, 10).item() == 20


# --------------------------------------------------------------------- gradients of one's own


class TimesTen(nn.Cell):
    """x * y, with gradients that the chain rule would not give."""

    def construct(self, x, y):
        return x * y

    def bprop(self, x, y, out, dout):
        return dout * 10, dout * out


def test_bprop_replaces_the_chain_rule(gradient):
    x, y = Tensor([2.0]), Tensor([3.0])
    out, (dx, dy) = gradient(lambda x, y: TimesTen()(x, y) * 2, x, y)
    assert (out.item(), dx.item(), dy.item()) == (12.0, 20.0, 12.0)
    assert TimesTen()(x, y).item() == 6.0


def test_second_order_through_a_bprop(gradient):
    class Cube(TimesTen):
        def bprop(self, x, y, out, dout):
            return x * x * x * dout, dout

    cube, three = Cube(), Tensor([3.0])
    dx, (ddx,) = gradient(ms.grad(lambda x: cube(x, three)), Tensor([2.0]))
    assert (dx.item(), ddx.item()) == (8.0, 12.0)


def test_bprop_takes_defaults_and_numbers(gradient):
    class Power(nn.Cell):
        def construct(self, x, n=2):
            return x**n

        def bprop(self, x, n, out, dout):
            return dout * n, 0

    x = Tensor([3.0])
    assert gradient(Power(), x)[1][0].item() == 2.0
    assert gradient(lambda x: Power()(x, n=5), x)[1][0].item() == 5.0


def test_bprop_with_two_outputs(gradient):
    class Both(nn.Cell):
        def construct(self, x):
            return x * 2, x * 3

        def bprop(self, x, out, dout):
            return (dout[0] * 100 + dout[1],)

    assert gradient(lambda x: Both()(x)[0], Tensor([1.0]))[1][0].item() == 100.0


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_inside_a_bprop_cell_no_other_gradient_flows(mode):
    class Weighted(TimesTen):
        def __init__(self):
            super().__init__()
            self.w = Parameter(Tensor([2.0]), name="w")

        def construct(self, x, y):
            return x * y * self.w

    cell = Weighted()
    grad_fn = ms.grad(cell, 0, [cell.w])
    dx, (dw,) = (ms.jit(grad_fn) if mode == "graph" else grad_fn)(Tensor([2.0]), Tensor([3.0]))
    assert (dx.item(), dw.item()) == (10.0, 0.0)


class Packs(nn.Cell):
    def __init__(self, pack):
        super().__init__()
        self.pack = pack

    def construct(self, x, n=(1, 2)):
        return [x] if self.pack else x

    def bprop(self, x, n, out, dout):
        return dout, None


def test_a_bprop_knows_of_single_tensors_only(gradient):
    x, plain, packs = Tensor([1.0]), Packs(False), Packs(True)
    assert gradient(plain, x)[1][0].item() == 1.0  # n is a tuple of constants: no matter
    for wrong in (packs, lambda x: plain([x]), lambda x: plain((x, x))):
        with pytest.raises(TypeError, match="Packs has a bprop, which knows of single Tensors"):
            gradient(wrong, x)


@pytest.mark.parametrize(
    ("bprop", "error"),
    [
        (lambda self, x, y, out, dout: (dout,), RuntimeError),
        (lambda self, x, y, out, dout: dout, RuntimeError),
        (lambda self, x, dout: dout, TypeError),
    ],
)
def test_a_wrong_bprop_is_an_error(gradient, bprop, error):
    class Wrong(TimesTen):
        pass

    Wrong.bprop = bprop
    with pytest.raises(error):
        gradient(Wrong(), Tensor([2.0]), Tensor([3.0]))


# ------------------------------------------------------------------------------- containers


def kinds(cells):
    return [type(c).__name__ for c in cells]


def test_sequential_runs_in_order():
    class Plus(nn.Cell):
        def construct(self, x):
            return x + 1

    class Double(nn.Cell):
        def construct(self, x):
            return x * 2

    assert nn.SequentialCell(Plus(), Double())(3) == 8
    assert nn.SequentialCell([Double(), Plus()])(3) == 7
    assert nn.SequentialCell()(3) == 3 and nn.SequentialCell([])(3) == 3


def test_sequential_of_an_ordered_dict():
    cells = OrderedDict([("fc1", dense()), ("act", nn.ReLU()), ("fc2", dense(False))])
    seq = nn.SequentialCell(cells)
    assert names(seq) == ["fc1.weight", "fc1.bias", "fc2.weight"]
    assert seq.fc1 is seq[0] is cells["fc1"]
    del seq[0]
    seq.append(nn.Tanh())
    assert list(seq.name_cells()) == ["act", "fc2", "2"]
    assert not hasattr(seq, "fc1")
    seq.act = nn.Tanh()
    assert kinds(seq) == ["Tanh", "Dense", "Tanh"]


def test_sequential_refuses_what_is_no_cell():
    for args in ((3,), (nn.ReLU(), 3), ([nn.ReLU()], nn.ReLU()), ((nn.ReLU(),),)):
        with pytest.raises(TypeError, match="must be a Cell"):
            nn.SequentialCell(*args)


@pytest.mark.parametrize("kind", [nn.SequentialCell, nn.CellList])
def test_indexing(kind):
    a, b, c = dense(), nn.ReLU(), dense(False)
    cells = kind([a, b, c])
    assert len(cells) == 3 and list(cells) == [a, b, c] == list(cells.cell_list)
    assert cells[0] is a and cells[-1] is c and b in cells
    assert list(reversed(cells)) == [c, b, a]
    part = cells[1:]
    assert type(part) is kind and list(part) == [b, c]
    assert names(part) == ["2.weight"]  # slicing renames nothing
    for index, error in ((3, IndexError), (-4, IndexError), ("a", TypeError), (True, TypeError)):
        with pytest.raises(error):
            cells[index]
        with pytest.raises(error):
            del cells[index]


@pytest.mark.parametrize("kind", [nn.SequentialCell, nn.CellList])
def test_changing_a_container(kind):
    class Holder(nn.Cell):
        def __init__(self):
            super().__init__()
            self.cells_ = kind([dense(False)])

    cells = Holder().cells_
    assert cells.append(nn.ReLU()) is cells
    cells.insert(0, nn.Tanh())
    cells.insert(3, dense(False))
    cells.insert(-1, nn.Sigmoid())
    assert kinds(cells) == ["Tanh", "Dense", "ReLU", "Sigmoid", "Dense"]
    assert names(cells) == ["cells_.1.weight", "cells_.4.weight"]
    assert list(cells.name_cells()) == list("01234")
    del cells[0]
    assert names(cells) == ["cells_.0.weight", "cells_.3.weight"]
    del cells[1:3]
    assert kinds(cells) == ["Dense", "Dense"] and names(cells)[1] == "cells_.1.weight"
    cells[0] = nn.ReLU()
    cells += [dense(False), nn.ReLU()]
    assert kinds(cells) == ["ReLU", "Dense", "Dense", "ReLU"]
    assert kinds(cells) == kinds(cells.cell_list)
    for wrong in (lambda: cells.append(3), lambda: cells.insert(0, 3), lambda: cells.extend([3])):
        with pytest.raises(TypeError, match="holds Cells"):
            wrong()
    with pytest.raises(TypeError, match="holds Cells"):
        cells[0] = 3
    with pytest.raises(TypeError, match="list of Cells"):
        cells.extend(dense())
    with pytest.raises(IndexError):
        cells.insert(9, dense())
    assert len(cells) == 4


def test_a_container_filled_later_has_full_names():
    """MindSpore names these 0.weight while the list was empty; two such lists would collide."""
    holder = nn.Cell()
    holder.list = nn.CellList()
    holder.seq = nn.SequentialCell()
    holder.dict = nn.CellDict()
    holder.list.append(dense(False))
    holder.seq.append(dense(False))
    holder.dict["k"] = dense(False)
    assert names(holder) == ["list.0.weight", "seq.0.weight", "dict.k.weight"]


def test_cell_list_is_not_called():
    with pytest.raises(NotImplementedError, match="loop over its cells"):
        nn.CellList([nn.ReLU()])(Tensor([1.0]))
    for args in ((3,), (nn.ReLU(),), ([nn.ReLU()], [nn.ReLU()])):
        with pytest.raises(TypeError):
            nn.CellList(*args)
    assert len(nn.CellList()) == 0 and repr(nn.CellList()) == "CellList()"


def test_cell_dict():
    a, b = dense(False), nn.ReLU()
    cells = nn.CellDict([("a", a), ["b", b]])
    assert list(cells) == list(cells.keys()) == ["a", "b"]
    assert list(cells.values()) == [a, b] and list(cells.items()) == [("a", a), ("b", b)]
    assert cells["a"] is cells.a is a and "a" in cells and "c" not in cells and len(cells) == 2
    cells.update({"c": dense(False)})
    cells.update(nn.CellDict({"d": dense(False)}))
    assert names(cells) == ["a.weight", "c.weight", "d.weight"]
    assert cells.pop("b") is b
    del cells["a"]
    assert list(cells) == ["c", "d"] and not hasattr(cells, "a")
    cells.clear()
    assert len(cells) == 0
    with pytest.raises(NotImplementedError):
        cells(1)


def test_cell_dict_refuses():
    cells = nn.CellDict()
    for key, cell, error in (
        (3, nn.ReLU(), TypeError), ("a", 3, TypeError), ("keys", nn.ReLU(), KeyError),
        ("", nn.ReLU(), KeyError), ("a.b", nn.ReLU(), KeyError),
    ):  # fmt: skip
        with pytest.raises(error):
            cells[key] = cell
    for use in (lambda: cells["x"], lambda: cells.pop("x"), lambda: cells.__delitem__("x")):
        with pytest.raises(KeyError):
            use()
    with pytest.raises(TypeError, match="mapping or pairs"):
        cells.update(3)
    with pytest.raises(TypeError, match="one mapping"):
        nn.CellDict({}, {})
