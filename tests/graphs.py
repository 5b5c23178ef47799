"""Small graphs for tests: by tracing a Python function, or node by node."""

from collections.abc import Callable
from typing import Any

import numpy as np

import minispore.ops.structural  # noqa: F401  (registers the primitives)
from minispore import dtype as dt
from minispore import tree
from minispore.abstract import TOKEN, Abstract, AbstractScalar, AbstractTensor
from minispore.ir.node import (
    NOWHERE,
    Callee,
    CNode,
    FuncGraph,
    Location,
    Node,
    Origin,
    ParameterNode,
    Switch,
    While,
    make_tuple,
    tuple_item,
)
from minispore.primitive import REGISTRY, Primitive, apply, handled_by
from minispore.symbolic import GraphBuilder, Scalar, constant_node, wrap
from minispore.tensor import Tensor

INT, FLOAT, BOOL = (AbstractScalar(kind) for kind in (int, float, bool))


def tensor(*shape: int, dtype: dt.DType = dt.float32) -> AbstractTensor:
    return AbstractTensor(dtype, shape)


def parameters(*abstracts: Abstract) -> list[ParameterNode]:
    return [ParameterNode("xyzuvw"[i % 6], a) for i, a in enumerate(abstracts)]


def graph_of(fn: Callable, *abstracts: Abstract, name: str = "main") -> FuncGraph:
    """The graph of a Python function on Tensors, Scalars and nodes, by running it once.

    A parameter of type Token starts the effects; then the last Token is the last output.
    """
    nodes = parameters(*abstracts)
    token = next((p for p in nodes if p.abstract == TOKEN), None)
    builder = GraphBuilder(token=token)
    with handled_by(builder):
        result = fn(*[wrap(p) for p in nodes])
        values = () if result is None else result if isinstance(result, tuple) else (result,)
        outputs = [builder.node_of(v) for v in values]
    if token is not None:
        outputs.append(builder.token)
    single = len(outputs) == 1 and not isinstance(result, tuple)
    return FuncGraph(name, nodes, outputs[0] if single else make_tuple(outputs))


def apply_node(
    callee: Callee | str, *inputs: Any, at: Location | None = None, **attrs: Any
) -> CNode:
    """A CNode with its inferred type; inputs may be constants."""
    nodes = [x if isinstance(x, Node) else constant_node(x) for x in inputs]
    if isinstance(callee, str):
        callee = REGISTRY[callee].bound(**attrs)
    if isinstance(callee, Primitive):
        abstract = callee.infer(*(n.abstract for n in nodes))
    elif isinstance(callee, FuncGraph):
        abstract = callee.output.abstract
    elif isinstance(callee, While):
        abstract = callee.body.output.abstract
    else:
        abstract = callee.graphs[0].output.abstract
    return CNode(callee, nodes, abstract, Origin(where=at) if at else NOWHERE)


def factorial() -> FuncGraph:
    """A recursive graph: n! of an int."""
    (n,) = parameters(INT)
    graph = FuncGraph("factorial", [n])
    one = graph_of(lambda x: 1, INT, name="one")
    (m,) = parameters(INT)
    call = CNode(graph, [apply_node("ScalarSub", m, 1)], INT)
    more = FuncGraph("more", [m], apply_node("ScalarMul", m, call))
    is_zero = apply_node("ScalarLessEqual", n, 0)
    graph.set_output(CNode(Switch((one, more)), [is_zero, n], INT))
    return graph


def power_loop(trip_count: int | None = None) -> FuncGraph:
    """(x ** n, n steps) by a While: constant x; carry: the product, a counter."""
    x, n = parameters(tensor(2), INT)
    c = parameters(tensor(2), INT, tensor(2), INT)
    cond = FuncGraph("cond", c, apply_node("ScalarLess", c[3], c[1]))
    b = parameters(tensor(2), INT, tensor(2), INT)
    step = [apply_node("Mul", b[2], b[0]), apply_node("ScalarAdd", b[3], 1)]
    body = FuncGraph("body", b, make_tuple(step))
    ones = np.ones(2, np.float32)
    loop = apply_node(While(cond, body, 2, trip_count), x, n, ones, 0)
    outputs = make_tuple([tuple_item(loop, 0), tuple_item(loop, 1)])
    return FuncGraph("power", [x, n], outputs)


def echo(*args: Any) -> None:
    """``print`` inside ``graph_of``."""
    leaves, structure = tree.flatten(args, lambda v: isinstance(v, (Tensor, Scalar)))
    apply(REGISTRY["Print"].bound(structure=structure, sep=" ", end="\n"), *leaves)
