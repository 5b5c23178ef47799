"""A teaching pass: loops as MindSpore draws them, recursive header and body graphs.

    While[cond=@c, body=@b](x)  ->  call @header(x)

    header(x):  Switch[@b_then_again, @after](call @c(x), x)
    b_then_again(x):  call @header(call @b(x))
    after(x):  x

minispore keeps loops as While, whose carry can be seen and whose gradient is a loop again;
MindSpore has no such node.  Both forms mean the same: the interpreter runs either.  No pipeline
contains this pass; a recursion is as deep as the loop is long (``max_call_depth``).
"""

from __future__ import annotations

from collections.abc import Sequence

from minispore.ir.node import (
    CNode,
    FuncGraph,
    Node,
    Switch,
    While,
    copied_parameters,
    make_tuple,
    tuple_item,
)
from minispore.passes.rewrite import Function, Log, rewrite

LAW = "while c(x): x = b(x)  ->  header(x)"


def recursive_loops(graph: FuncGraph, log: Log | None = None) -> FuncGraph:
    """The graph with every While as recursive graphs."""
    rule = Function("loop_to_recursion", LAW, ("While",), call_of_header)
    return rewrite(graph, [rule], log)


def call_of_header(node: CNode) -> Node:
    """A call of the recursive header graph that means the same as a While node."""
    loop = node.callee
    assert isinstance(loop, While)
    origin = node.origin
    name = loop.body.name.removesuffix("_body")
    header = FuncGraph(
        f"{name}_header", copied_parameters(loop.cond.parameters), None, origin, "loop"
    )
    again = _again(loop, header, node, f"{name}_body_then_again")
    after = _after(loop, f"{name}_after")
    condition = CNode(loop.cond, header.parameters, loop.cond.abstract, origin)
    choice = Switch((again, after))
    header.set_output(CNode(choice, [condition, *header.parameters], node.abstract, origin))
    return CNode(header, node.inputs, node.abstract, origin)


def _again(loop: While, header: FuncGraph, node: CNode, name: str) -> FuncGraph:
    """One more iteration: the body, then the header with the next carry."""
    params = copied_parameters(loop.body.parameters)
    carry = CNode(loop.body, params, loop.body.abstract, node.origin)
    next_carry = [tuple_item(carry, i) for i in range(len(params) - loop.n_const)]
    operands: Sequence[Node] = [*params[: loop.n_const], *next_carry]
    call = CNode(header, operands, node.abstract, node.origin)
    return FuncGraph(name, params, call, node.origin, "loop")


def _after(loop: While, name: str) -> FuncGraph:
    """The end of the loop: the carry as it is."""
    params = copied_parameters(loop.body.parameters)
    origin = loop.body.origin
    return FuncGraph(name, params, make_tuple(params[loop.n_const :], origin), origin, "loop")
