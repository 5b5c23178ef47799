"""What tests share: comparing results with a reference, and running a function as a graph."""

from collections.abc import Callable
from typing import Any

import numpy as np

import minispore as ms
from minispore import dtype as dt
from minispore import nn
from minispore.abstract import AbstractTensor
from minispore.ir.interp import interpret
from minispore.ir.node import FuncGraph, ParameterNode, make_tuple
from minispore.primitive import handled_by
from minispore.symbolic import GraphBuilder, wrap
from minispore.tensor import Tensor

TOLERANCE = {dt.float64: 1e-10, dt.float32: 1e-5, dt.float16: 2e-3, dt.bfloat16: 2e-2}


def vector(*values: float) -> Tensor:
    """A Float32 vector; of 1, 2, 3 if nothing is said."""
    return Tensor(np.array(values or (1, 2, 3), np.float32))


def assert_same(actual: Any, expected: Any, factor: float = 1.0) -> None:
    """Equal structure, dtype and shape; values within the dtype's tolerance times `factor`.

    The tolerance is relative to the largest magnitude; integers, bools, nan and infinities must be
    equal.  Tensors and ndarrays may be compared with each other.
    """
    if isinstance(expected, (tuple, list)):
        assert type(actual) is type(expected)
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert_same(a, e, factor)
        return
    if not isinstance(expected, (Tensor, np.ndarray, np.generic)):
        assert type(actual) is type(expected)
        actual, expected = np.asarray(actual), np.asarray(expected)
    a, e = (v.asnumpy() if isinstance(v, Tensor) else np.asarray(v) for v in (actual, expected))
    assert a.dtype == e.dtype
    assert a.shape == e.shape
    if a.tobytes() == e.tobytes():
        return
    dtype = dt.from_numpy(e.dtype)
    if not dtype.is_float:
        np.testing.assert_array_equal(a, e)
        return
    a, e = a.astype(np.float64), e.astype(np.float64)
    finite = np.isfinite(e)
    np.testing.assert_array_equal(np.isfinite(a), finite)
    np.testing.assert_array_equal(a[~finite], e[~finite])
    largest = np.abs(e[finite]).max(initial=0)
    np.testing.assert_allclose(
        a[finite], e[finite], rtol=0, atol=TOLERANCE[dtype] * factor * largest
    )


def in_graph(fn: Callable, *arrays: np.ndarray) -> Any:
    """The value of ``fn(*Tensors)`` as the interpreter finds it in fn's graph, checks included."""
    parameters = [
        ParameterNode("x", AbstractTensor(dt.from_numpy(a.dtype), a.shape)) for a in arrays
    ]
    builder = GraphBuilder()
    with handled_by(builder):
        out = fn(*map(wrap, parameters))
        outputs = [builder.node_of(o) for o in (out if isinstance(out, tuple) else (out,))]
    graph = FuncGraph("main", parameters, make_tuple([*outputs, builder.token]))
    values = interpret(graph, list(arrays))[:-1]
    return values if isinstance(out, tuple) else values[0]


def training_step(net, opt):
    """A step of training on cross entropy: f(x, labels) is the loss."""
    loss_fn = nn.CrossEntropyLoss()
    grad_fn = ms.value_and_grad(lambda x, y: loss_fn(net(x), y), None, opt.parameters)

    def step(x, y):
        loss, grads = grad_fn(x, y)
        opt(grads)
        return loss

    return step
