"""loop_invariant: what a loop computes in every turn alike is computed once, before it.

    carry_to_constant   a carry that the body returns as it is becomes a constant of the loop
    hoist               what depends on constants of the loop only moves out of body and condition

The loop may make no turn, so only what cannot fail is moved: primitives that are no effects, on
Tensors, and on Python numbers where no int may overflow and nothing is divided by zero.  What costs
nothing but memory, as a Fill or a reshape, is moved only along with what is computed from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minispore.abstract import (
    STACK,
    TOKEN,
    AbstractScalar,
    AbstractTensor,
    AbstractTuple,
    symbols_of,
)
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Node,
    ParameterNode,
    Rebuilder,
    ValueNode,
    While,
    copied_parameters,
    inline_call,
    is_call_of,
    make_tuple,
    tuple_item,
    tuple_parts,
)
from minispore.passes.cse import has_effect, holds
from minispore.passes.rewrite import Function
from minispore.primitive import Primitive
from minispore.symbolic import wrap

_FREE = frozenset({"Fill", "BroadcastTo", "Reshape", "ExpandDims", "Squeeze", "Identity"})


def carry_to_constant(node: CNode) -> Node | None:
    """The loop in which carries that do not change are constants, and its results."""
    loop = node.callee
    assert isinstance(loop, While)
    parts, n = tuple_parts(loop.body.output), loop.n_const
    if parts is None:
        return None
    kept = [n + i for i, part in enumerate(parts) if _changes(part, loop.body.parameters[n + i])]
    fixed = [k for k in range(n, len(node.inputs)) if k not in kept]
    if not fixed or not kept:
        return None
    order = [*range(n), *fixed, *kept]
    body = _with_parameters(loop.body, order, make_tuple([parts[k - n] for k in kept]))
    cond = _with_parameters(loop.cond, order, loop.cond.output)
    new = replace(loop, cond=cond, body=body, n_const=n + len(fixed))
    origin = node.origin.made_by("carry_to_constant")
    call = CNode(new, [node.inputs[k] for k in order], body.abstract, origin)
    items = {k: tuple_item(call, i) for i, k in enumerate(kept)}
    return make_tuple([items.get(k, node.inputs[k]) for k in range(n, len(node.inputs))], origin)


def _changes(part: Node, parameter: Node) -> bool:
    return part is not parameter or part.abstract == TOKEN


def _with_parameters(graph: FuncGraph, order: Sequence[int], output: Node) -> FuncGraph:
    """A graph with this output whose parameters are in another order."""
    parameters = copied_parameters(graph.parameters[k] for k in order)
    old = [graph.parameters[k] for k in order]
    new = graph.frame(parameters)
    new.set_output(inline_call(FuncGraph("", old, output), parameters))
    return new


def hoist(node: CNode) -> Node | None:
    """The loop with more constants: what its graphs computed from constants alone."""
    loop = node.callee
    assert isinstance(loop, While)
    found = [_worth_hoisting(g, loop.n_const) for g in (loop.cond, loop.body)]
    if not any(found):
        return None
    graphs = [_with_constants(loop, number, found) for number in (0, 1)]
    operands = list(node.inputs[: loop.n_const])
    for graph, values in zip((loop.cond, loop.body), found, strict=True):
        outside = Rebuilder()
        for parameter, operand in zip(graph.parameters, node.inputs, strict=True):
            outside.substitute(parameter, operand)
        operands += map(outside, values)
    new = replace(loop, cond=graphs[0], body=graphs[1], n_const=len(operands))
    operands += node.inputs[loop.n_const :]
    return CNode(new, operands, node.abstract, node.origin.made_by("hoist"))


def _with_constants(loop: While, number: int, found: list[list[Node]]) -> FuncGraph:
    """The condition (number 0) or body with a parameter for each value of both that is hoisted."""
    graph = (loop.cond, loop.body)[number]
    old = copied_parameters(graph.parameters)
    more = [[ParameterNode(f"h{i}", v.abstract, v.origin) for i, v in enumerate(values)]
            for values in found]  # fmt: skip
    rebuild = Rebuilder()
    before = [*graph.parameters, *found[number]]
    for node, parameter in zip(before, [*old, *more[number]], strict=True):
        rebuild.substitute(node, parameter)
    new = graph.frame([*old[: loop.n_const], *more[0], *more[1], *old[loop.n_const :]])
    new.set_output(rebuild(graph.output))
    return new


def _worth_hoisting(graph: FuncGraph, n_const: int) -> list[Node]:
    """The nodes that depend on the first parameters alone, and that other nodes need."""
    fixed: set[Node] = set(graph.parameters[:n_const])
    moving: dict[Node, None] = {}
    for node in graph.nodes():
        if isinstance(node, ValueNode):
            fixed.add(node)
        elif isinstance(node, CNode) and fixed.issuperset(node.inputs) and _cannot_fail(node):
            fixed.add(node)
            moving[node] = None
    users: dict[Node, list[Node]] = {node: [] for node in moving}
    for node in graph.nodes():
        for operand in node.inputs:
            if operand in users:
                users[operand].append(node)
    wanted = []
    for node in list(moving)[::-1]:
        if node is graph.output or not all(user in moving for user in users[node]):
            if _is_worth(node):
                wanted.append(node)
            else:
                del moving[node]
    return wanted[::-1]


def _is_worth(node: Node) -> bool:
    """True for a value that takes time, and that a parameter can hold."""
    assert isinstance(node, CNode) and isinstance(node.callee, Primitive)
    return node.callee.name not in _FREE and not isinstance(node.abstract, AbstractTuple)


def _cannot_fail(node: CNode) -> bool:
    """True for a primitive without effect that has a value whatever its operands are.

    Arithmetic on ints may overflow, and a Tensor that may be empty has no element to pick.
    """
    prim = node.callee
    if not isinstance(prim, Primitive) or prim.is_users or has_effect(node):
        return False
    if is_call_of(node, "TupleGetItem"):
        return not isinstance(node.inputs[0], ParameterNode)
    types = [i.abstract for i in node.inputs]
    if prim.name in ("MakeTuple", "ScalarPick") or node.abstract == AbstractScalar(int):
        return False
    if holds(node.abstract, STACK):
        return False
    if any(isinstance(t, AbstractTensor) and (any(symbols_of(t)) or t.size == 0) for t in types):
        return False
    return not prim.can_fail(*map(_operand, node.inputs[: len(types) - len(prim.needs)]))


def _operand(node: Node) -> Any:
    """What ``can_fail`` asks about: a Tensor, or a number."""
    is_number = isinstance(node, ValueNode) and isinstance(node.abstract, AbstractScalar)
    return node.value if is_number else wrap(node)  # type: ignore[attr-defined]


LOOP_RULES = (
    Function("carry_to_constant", "while(k)(x, y) -> while(k, y)(x), if the body keeps y",
             ("While",), carry_to_constant),
    Function("hoist", "while: x = x + f(k)  ->  h = f(k); while: x = x + h", ("While",), hoist),
)  # fmt: skip
