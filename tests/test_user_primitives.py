"""Primitives that users write: attributes, definitions that are run again, and their mistakes."""

import numpy as np
import pytest
from differential import agree
from helpers import assert_same

import minispore as ms
from minispore import Tensor, ops
from minispore.ir.compare import same_graph
from minispore.ir.text import parse
from minispore.primitive import REGISTRY, Primitive


@pytest.fixture(autouse=True)
def forget_primitives():
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def define_scale():
    class Scale(Primitive):
        """x * k, with an attribute kept in the plainest way."""

        def __init__(self, k):
            super().__init__()
            self.k = k

        def infer(self, x):
            return x

        def eval(self, x):
            return x * np.asarray(self.k, x.dtype)

        def vjp(self, inputs, out, dout):
            return (self(dout),)

    return Scale


def test_an_attribute_set_on_self_tells_primitives_apart():
    Scale = define_scale()
    two, three = Scale(2.0), Scale(3.0)
    assert two != three and two == Scale(2.0) and two.k == two.attrs["k"] == 2.0
    x = Tensor([1.0, 2.0])
    assert_same(agree(lambda x: two(x) + three(x), x), np.array([5, 10], np.float32))
    graph = ms.explain(lambda x: two(x) + three(x), x).graph()
    assert same_graph(parse(str(graph)), graph) and "{k: 3.0}" in str(graph)
    assert_same(ms.grad(three)(x), np.array([3, 3], np.float32))


def test_a_definition_may_be_run_again():
    first, second = define_scale(), define_scale()
    assert first is not second and REGISTRY["Scale"] is second


def test_another_primitive_of_the_name_is_refused():
    with pytest.raises(ValueError, match="a primitive named Tanh is registered already"):
        type("Tanh", (Primitive,), {})


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="'Scale' has no attribute 'q'"):
        _ = define_scale()(1.0).q


def test_eval_that_breaks_the_promise_of_infer():
    class FirstHalf(Primitive):
        def infer(self, x):
            return x

        def eval(self, x):
            return x[: len(x) // 2]

    with pytest.raises(ValueError, match=r"eval gave shape \(2,\), but infer promised \(4,\)"):
        FirstHalf()(Tensor([1.0, 2.0, 3.0, 4.0]))


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_vjp_of_the_wrong_shape(mode):
    class Wrong(Primitive):
        def infer(self, x):
            return x

        def eval(self, x):
            return x.copy()

        def vjp(self, inputs, out, dout):
            return (ops.sum(dout),)

    with ms.context.using(mode=mode), pytest.raises(ValueError, match="has shape"):
        ms.grad(Wrong())(Tensor([1.0, 2.0]))
