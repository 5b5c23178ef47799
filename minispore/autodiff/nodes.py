"""Values of a graph, and small pieces of new ones: what the files of J share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from minispore import ops
from minispore.abstract import (
    Abstract,
    AbstractScalar,
    AbstractStack,
    AbstractTensor,
    AbstractTuple,
    symbols_of,
)
from minispore.dims import Dim
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Node,
    Origin,
    ParameterNode,
    Switch,
    ValueNode,
    While,
    inline_call,
    is_call_of,
    prim_node,
    tuple_item,
    tuple_parts,
)
from minispore.ops.structural import zero_value
from minispore.primitive import handled_by
from minispore.symbolic import GraphBuilder

Places = tuple[int, ...]  # numbers of parameters or outputs, in ascending order


@dataclass(frozen=True)
class Adjoint:
    """What J makes of a graph, for some of its parameters and outputs.

    fwd takes the graph's parameters and returns its outputs and then the residuals; bwd takes the
    residuals and one cotangent per output asked for, and returns one per parameter in `grads`;
    the cotangents of the others are zero.
    """

    fwd: FuncGraph
    bwd: FuncGraph
    residuals: tuple[Abstract, ...]
    grads: Places


# -------------------------------------------------------------------------------- values


class Place(NamedTuple):
    """A value that is no tuple: a node, or an item of a node that is one."""

    node: Node
    item: int | None


def place_of(node: Node) -> Place:
    """Where a value comes from, through MakeTuple and TupleGetItem."""
    while is_call_of(node, "TupleGetItem"):
        source, index = node.inputs[0], node.callee.attrs["index"]  # type: ignore[attr-defined]
        parts = tuple_parts(source)
        if parts is None:
            return Place(source, index)
        node = parts[index]
    return Place(node, None)


def places_of(node: Node) -> list[Place]:
    """One place per item of a node's value."""
    if isinstance(node.abstract, AbstractTuple):
        return [Place(node, i) for i in range(len(node.abstract.items))]
    return [Place(node, None)]


def type_at(place: Place) -> Abstract:
    """The type of the value in a place."""
    if place.item is None:
        return place.node.abstract
    assert isinstance(place.node.abstract, AbstractTuple)
    return place.node.abstract.items[place.item]


def items_of(node: Node) -> list[Node]:
    """The items of a tuple node; any other node alone."""
    if isinstance(node.abstract, AbstractTuple):
        return [tuple_item(node, i) for i in range(len(node.abstract.items))]
    return [node]


def types_of(nodes: Iterable[Node]) -> tuple[Abstract, ...]:
    """The nodes' types."""
    return tuple(n.abstract for n in nodes)


def differentiable(nodes: Iterable[Node], whole: bool = False) -> Places:
    """The numbers of the nodes that have a cotangent; with `whole` integers too."""
    return tuple(
        i
        for i, n in enumerate(nodes)
        if n.abstract.is_differentiable or (whole and n.abstract.is_whole)
    )


def spread(n: int, where: Places, values: Sequence[Node]) -> list[Node | None]:
    """A list of `n` with `values` in the places `where`."""
    found = dict(zip(where, values, strict=True))
    return [found.get(i) for i in range(n)]


# ----------------------------------------------------------------------------- new nodes


def backward(origin: Origin) -> Origin:
    """The origin of what is computed backward for a node: its place in the source and scope."""
    return replace(origin, phase="backward", rule="grad")


def zero_node(abstract: Abstract, sized: Sequence[Node] = ()) -> Node:
    """A zero; of a Stack the empty one, which is its zero cotangent.

    It is a constant, unless its size is not known: one that is born is read off the nodes `sized`.
    A constant Tensor takes no memory for its elements.
    """
    return _filled(abstract, 0, sized) if any(symbols_of(abstract)) else unread_node(abstract)


def unread_node(abstract: Abstract) -> ValueNode:
    """A constant zero that stands where no value is ever read; it is of any size."""
    if isinstance(abstract, AbstractTensor):
        shape = [0 if isinstance(size, Dim) else size for size in abstract.shape]
        return ValueNode(np.broadcast_to(np.zeros((), abstract.dtype.numpy), shape), abstract)
    return ValueNode(zero_value(abstract), abstract)


def one_node(abstract: Abstract, sized: Sequence[Node] = ()) -> Node:
    """Ones: the cotangent that gradients start from; `sized` as in ``zero_node``."""
    if any(symbols_of(abstract)):
        return _filled(abstract, 1, sized)
    if isinstance(abstract, AbstractTensor):
        return ValueNode(np.ones(abstract.shape, abstract.dtype.numpy), abstract)
    assert isinstance(abstract, AbstractScalar)
    return ValueNode(abstract.kind(1), abstract)


def _filled(abstract: Abstract, value: int, sized: Sequence[Node]) -> Node:
    assert isinstance(abstract, AbstractTensor)
    builder = GraphBuilder(sized=sized)
    with handled_by(builder):
        return builder.node_of(ops.full(abstract.shape, value, dtype=abstract.dtype))


def fresh_parameters(types: Iterable[Abstract], prefix: str) -> list[ParameterNode]:
    """New parameters of these types, named by number."""
    return [ParameterNode(f"{prefix}{i}", t) for i, t in enumerate(types)]


def cotangent_sum(a: Node | None, b: Node) -> Node:
    """The sum of two cotangents of one value, of which the first may be absent."""
    if a is None:
        return b
    kinds = {AbstractTensor: "Add", AbstractScalar: "ScalarAdd", AbstractStack: "StackAdd"}
    return prim_node(kinds[type(a.abstract)], a, b, origin=b.origin)


def call_node(
    callee: FuncGraph | Switch | While,
    operands: Iterable[Node],
    types: Iterable[Abstract],
    origin: Origin,
) -> list[Node]:
    """The items of a call whose result is a tuple of `types`."""
    return items_of(CNode(callee, operands, AbstractTuple(tuple(types)), origin))


def spliced(
    graph: FuncGraph, operands: Sequence[Node], types: Iterable[Abstract], origin: Origin
) -> list[Node]:
    """The results of a graph on operands: its body, or a call if it is still being built."""
    if not graph.is_complete:
        return call_node(graph, operands, types, origin)
    return items_of(inline_call(graph, operands))
