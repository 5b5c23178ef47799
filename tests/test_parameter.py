"""Parameter and ParameterTuple."""

import copy
import pickle

import numpy as np
import pytest
from helpers import assert_same

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import AbstractTensor
from minispore.initializer import Normal, initializer
from minispore.ir.node import ParameterNode
from minispore.parameter import Parameter, ParameterTuple
from minispore.primitive import handled_by
from minispore.symbolic import GraphBuilder
from minispore.tensor import Tensor

W = np.array([1.5, 2.5], np.float32)


def weight(**options):
    return Parameter(Tensor(W), name="w", **options)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Tensor(W), W),
        (1.0, np.array(1, np.float32)),
        (3, np.array(3, np.int32)),
        ([1, 2], np.array([1, 2])),
        (np.ones(2), np.ones(2)),
        (initializer("ones", (2, 1), dt.float16), np.ones((2, 1), np.float16)),
    ],
)
def test_initial_values(value, expected):
    p = Parameter(value, "a")
    assert isinstance(p, Tensor)
    assert_same(p, expected)
    assert not p.has_init


def test_the_initial_value_is_copied():
    x = Tensor(W)
    p = Parameter(x, "w")
    x.zero_()
    assert_same(p, W)


def test_text():
    text = "Parameter (name=w, shape=(2,), dtype=Float32, requires_grad=True)"
    assert repr(weight()) == str(weight()) == text
    assert "requires_grad=False" in repr(weight(requires_grad=False))
    assert str((weight(),)) == f"({text},)"


def test_names():
    first, second = Parameter(1.0), Parameter(1.0, name="")
    number = int(first.name.removeprefix("Parameter#"))
    assert second.name == f"Parameter#{number + 1}"
    p = weight()
    p.name = "v"
    assert p.name == "v"
    for action in (lambda: Parameter(1.0, name=3), lambda: setattr(p, "name", 3)):
        with pytest.raises(ValueError, match="str or None"):
            action()


def test_flags():
    p = weight()
    p.requires_grad = False
    assert p.requires_grad is False
    for action in (lambda: weight(requires_grad=1), lambda: setattr(p, "requires_grad", 1)):
        with pytest.raises(TypeError, match="must be a bool"):
            action()
    assert (p.layerwise_parallel, p.parallel_optimizer) == (False, True)
    for wrong in ("a", None):
        with pytest.raises(TypeError):
            Parameter(wrong)


def test_arithmetic_gives_plain_tensors():
    p = weight()
    for result in (
        p + 1,
        2 * p,
        -p,
        p[0],
        p.T,
        p.copy(),
        p.astype(dt.int32),
        ops.exp(p),
        Tensor(p),
    ):
        assert type(result) is Tensor
    assert hash(p) == id(p) or hash(p) == object.__hash__(p)


IN_PLACE = [
    (lambda p: p.__iadd__(1), W + 1), (lambda p: p.__isub__(Tensor(W)), W - W),
    (lambda p: p.__imul__(2), W * 2), (lambda p: p.__itruediv__(2), W / 2),
    (lambda p: p.__ifloordiv__(1), W // 1), (lambda p: p.__imod__(2), W % 2),
    (lambda p: p.__ipow__(2), W**2),
]  # fmt: skip


@pytest.mark.parametrize(("write", "expected"), IN_PLACE, ids=range(len(IN_PLACE)))
def test_augmented_assignment_writes(write, expected):
    p = weight()
    assert write(p) is p
    assert_same(p, expected)


def test_augmented_assignment_keeps_dtype_and_shape():
    p = Parameter([1, 2], "n")
    q = p
    p += 1.7
    assert p is q
    assert_same(q, np.array([2, 3]))
    with pytest.raises(ValueError):
        p += Tensor([[1, 2], [3, 4]])


def test_set_data():
    p = weight()
    assert p.set_data(Tensor([1, 2])) is p
    assert_same(p, np.array([1, 2], np.float32))
    source = Tensor([5.0, 6.0])
    p.set_data(source)
    source.zero_()
    assert_same(p, np.array([5, 6], np.float32))
    p.data = Tensor([7.0, 8.0])
    assert_same(p, np.array([7, 8], np.float32))
    p.set_data(initializer("ones", (2,)))
    assert_same(p, np.ones(2, np.float32))
    n = Parameter(1.0, "n")
    n.set_data(2)
    assert_same(n, np.array(2, np.float32))
    with pytest.raises(ValueError, match="shape"):
        p.set_data(Tensor([1.0, 2.0, 3.0]))
    with pytest.raises(TypeError, match="not list"):
        p.set_data([1, 2])


def test_values_are_plain_and_independent():
    p = weight()
    for value in (p.value(), p.data):
        assert type(value) is Tensor
        value.zero_()
        assert_same(p, W)


def test_clone():
    p = weight(requires_grad=False)
    twin = p.clone()
    assert (twin.name, twin.requires_grad) == ("w", False)
    twin.zero_()
    assert_same(p, W)
    assert_same(p.clone(init="zeros"), np.zeros(2, np.float32))
    assert_same(p.clone(init=2), np.full(2, 2, np.float32))
    assert np.abs(p.clone(init=Normal(1e-3)).asnumpy()).max() < 0.1


@pytest.mark.parametrize("copied", [lambda p: pickle.loads(pickle.dumps(p)), copy.deepcopy])
def test_pickle_and_deepcopy(copied):
    p = weight(requires_grad=False)
    p.note = "extra"
    twin = copied(p)
    assert type(twin) is Parameter
    assert (twin.name, twin.requires_grad, twin.note) == ("w", False, "extra")
    twin.zero_()
    assert_same(p, W)


def test_stand_in_of_a_graph():
    p = weight(requires_grad=False)
    node = ParameterNode("w", AbstractTensor(dt.float32, (2,)))
    shadow = Parameter._shadow(p, node)
    assert isinstance(shadow, Parameter)
    assert repr(shadow) == repr(p)
    with handled_by(GraphBuilder()):
        shadow += 1
        assert type(shadow.value()) is Tensor
    assert shadow._node is not node
    assert shadow.shape == (2,)
    assert_same(p, W)


def test_tuples():
    p, q = weight(), Parameter(2.0, "q")
    both = ParameterTuple([p, q])
    assert isinstance(both, tuple)
    assert both[1] is q
    assert ParameterTuple(x for x in both) == both
    state = both.clone("moments", "zeros")
    assert type(state) is ParameterTuple
    assert [s.name for s in state] == ["moments.w", "moments.q"]
    assert_same(state[0], np.zeros(2, np.float32))
    assert_same(both.clone("m")[0], W)
    for wrong in ([p, Tensor(1.0)], p, [1]):
        with pytest.raises(TypeError, match="ParameterTuple takes"):
            ParameterTuple(wrong)
    for prefix in ("", "a b", 3):
        with pytest.raises(ValueError, match="prefix"):
            both.clone(prefix)
