"""switch_simplify and tuple_transform: control flow whose way is known, tuples taken apart again.

These rules look at graphs, which no pattern can say; each is a function of one node.
"""

from __future__ import annotations

from minispore.abstract import TOKEN, AbstractScalar
from minispore.ir.compare import constant_key, same_graph
from minispore.ir.interp import chosen
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Node,
    Origin,
    ParameterNode,
    Switch,
    ValueNode,
    While,
    graphs_of,
    is_call_of,
    item_index,
    make_tuple,
    prim_node,
    tuple_item,
    tuple_parts,
)
from minispore.passes.fold import fold
from minispore.passes.pattern import same_value
from minispore.passes.rewrite import Function
from minispore.primitive import REGISTRY, Primitive

BOOL = AbstractScalar(bool)


def choose_constant(node: CNode) -> Node | None:
    """The call of the graph that a constant chooses; an index out of range is left to fail."""
    switch, choice = node.callee, node.inputs[0]
    assert isinstance(switch, Switch)
    if not isinstance(choice, ValueNode):
        return None
    try:
        graph = switch.graphs[chosen(switch, choice.value)]
    except IndexError:
        return None
    return CNode(graph, node.inputs[1:], node.abstract, node.origin.made_by("choose_constant"))


def merge_equal_arms(node: CNode) -> Node | None:
    """The call of an arm, if both are the same (an int may be out of range: that must fail)."""
    switch = node.callee
    assert isinstance(switch, Switch)
    if node.inputs[0].abstract == AbstractScalar(int) or not same_graph(*switch.graphs):
        return None
    origin = node.origin.made_by("merge_equal_arms")
    return CNode(switch.graphs[0], node.inputs[1:], node.abstract, origin)


def swap_arms(node: CNode) -> Node | None:
    """The arms the other way round, without the `not` of the condition."""
    switch, choice = node.callee, node.inputs[0]
    assert isinstance(switch, Switch)
    if not (is_call_of(choice, "LogicalNot") or is_call_of(choice, "ScalarNot")):
        return None
    if choice.inputs[0].abstract != choice.abstract:
        return None  # `not` of a number is not a choice of graphs
    inputs = (choice.inputs[0], *node.inputs[1:])
    origin = node.origin.made_by("swap_arms")
    return CNode(Switch(switch.graphs[::-1]), inputs, node.abstract, origin)


def constants_of_arms(node: CNode) -> Node | None:
    """The number that each arm of a Switch returns, picked without calling an arm."""
    index = item_index(node)
    call = node if index is None else node.inputs[0]
    if not isinstance(call, CNode) or not isinstance(call.callee, Switch):
        return None
    outputs = [
        g.output if index is None else tuple_item(g.output, index) for g in call.callee.graphs
    ]
    numbers = [o for o in outputs if isinstance(o, ValueNode)]
    choice = call.inputs[0]
    is_number = isinstance(node.abstract, AbstractScalar)
    if not is_number or len(numbers) < len(outputs):
        return None
    if choice.abstract == AbstractScalar(int):
        return _pick(choice, numbers, node.origin)
    if choice.abstract != BOOL:
        return None
    return _pick(prim_node("ScalarCast", choice, kind=int), numbers[::-1], node.origin)


def pick_of_op(node: CNode) -> Node | None:
    """An operation on a picked constant: picked from the results on each of them."""
    prim = node.callee
    assert isinstance(prim, Primitive)
    picks = [i for i, x in enumerate(node.inputs) if not isinstance(x, ValueNode)]
    if len(picks) != 1 or not is_call_of(node.inputs[picks[0]], "ScalarPick"):
        return None
    where, (index, *items) = picks[0], node.inputs[picks[0]].inputs
    results = []
    for item in items:
        inputs = (*node.inputs[:where], item, *node.inputs[where + 1 :])
        result = fold(CNode(prim, inputs, node.abstract, node.origin))
        if not isinstance(result, ValueNode):
            return None
        results.append(result)
    return _pick(index, results, node.origin)


def pick_known(node: CNode) -> Node | None:
    """The item of a constant index; a choice of True or False by a condition is the condition."""
    index, *items = node.inputs
    if isinstance(index, ValueNode):
        return items[index.value] if 0 <= index.value < len(items) else None
    if not is_call_of(index, "ScalarCast") or index.inputs[0].abstract != BOOL:
        return None
    condition, constants = index.inputs[0], [i for i in items if isinstance(i, ValueNode)]
    if len(constants) != 2 or len(items) != 2:
        return None
    no, yes = constants
    if constant_key(no) == constant_key(yes):
        return no
    if node.abstract != BOOL:
        return None
    return condition if yes.value else prim_node("ScalarNot", condition, origin=node.origin)


def _pick(index: Node, items: list[ValueNode], origin: Origin) -> Node:
    return prim_node("ScalarPick", index, *items, origin=origin.made_by("pick"))


def drop_check(node: CNode) -> Node | None:
    """A Check that holds is only the Token it was given."""
    token, holds = node.inputs[:2]
    return token if isinstance(holds, ValueNode) and bool(holds.value) else None


def known_value(node: CNode) -> Node | None:
    """The value of a node that was there for its gradient."""
    return node.inputs[-1]


def skip_loop(node: CNode) -> Node | None:
    """The first carry, where the loop is never entered."""
    loop = node.callee
    assert isinstance(loop, While)
    test = loop.cond.output
    if loop.trip_count != 0 and not (isinstance(test, ValueNode) and not test.value):
        return None
    return make_tuple(node.inputs[loop.n_const :], node.origin.made_by("skip_loop"))


def unroll_single_trip(node: CNode) -> Node | None:
    """The call of the body, where the loop runs once."""
    loop = node.callee
    assert isinstance(loop, While)
    if loop.trip_count != 1:
        return None
    origin = node.origin.made_by("unroll_single_trip")
    return CNode(loop.body, node.inputs, node.abstract, origin)


def item_of_tuple(node: CNode) -> Node | None:
    """The part of a MakeTuple that a TupleGetItem takes."""
    parts, index = tuple_parts(node.inputs[0]), item_index(node)
    return None if parts is None or index is None else parts[index]


def invariant_carry(node: CNode) -> Node | None:
    """What a While was given, where its body returns the item as it is.

    Not of the Token: the loop still takes it, and it has one use.
    """
    loop_node, index = node.inputs[0], item_index(node)
    if not (isinstance(loop_node, CNode) and isinstance(loop_node.callee, While)):
        return None
    if node.abstract == TOKEN:
        return None
    assert index is not None
    loop = loop_node.callee
    position = loop.n_const + index
    if tuple_item(loop.body.output, index) is not loop.body.parameters[position]:
        return None
    return loop_node.inputs[position]


def known_result(node: CNode) -> Node | None:
    """What a call returns in any case: a constant, or one of its operands."""
    return _known_result(node, None)


def known_item(node: CNode) -> Node | None:
    """The same of one item of what a call returns; of two equal items, the first.

    Not of the Token: the call still takes it, and it has one use.
    """
    call, index = node.inputs[0], item_index(node)
    assert index is not None
    if not isinstance(call, CNode) or isinstance(call.callee, Primitive) or node.abstract == TOKEN:
        return None
    return _known_result(call, index) or _equal_item(call, index)


def _known_result(call: CNode, index: int | None) -> Node | None:
    operands = _operands(call)
    if operands is None or isinstance(call.callee, While):
        return None
    numbers, constants = set(), []
    for graph in graphs_of(call.callee):
        result = graph.output if index is None else _item(graph, index)
        if isinstance(result, ParameterNode):
            numbers.add(graph.parameters.index(result))
        elif isinstance(result, ValueNode) and result.abstract != TOKEN:
            constants.append(result)
        else:
            return None
    if len(numbers) == 1 and not constants:
        return operands[numbers.pop()]
    same = not numbers and len({constant_key(c) for c in constants}) == 1
    return constants[0] if same else None


def _equal_item(call: CNode, index: int) -> Node | None:
    """An earlier item of a call that is the same; of a loop, if it also started the same."""
    operands = _operands(call)
    if operands is None or call.abstract.items[index] == TOKEN:  # type: ignore[attr-defined]
        return None
    loop = call.callee if isinstance(call.callee, While) else None
    graphs = (loop.body,) if loop else graphs_of(call.callee)
    for i in range(index):
        same = all(_item(g, i) is _item(g, index) is not None for g in graphs)
        if same and loop:
            same = same_value(*(operands[loop.n_const + k] for k in (i, index)))
        if same:
            return tuple_item(call, i)
    return None


def _operands(call: CNode) -> tuple[Node, ...] | None:
    """What the graphs of a call get; None for a call that must stay as it is."""
    if isinstance(call.callee, Grad) or any(g.bprop for g in graphs_of(call.callee)):
        return None
    if isinstance(call.callee, Switch):  # an int choice may be out of range: that must fail
        is_int = call.inputs[0].abstract == AbstractScalar(int)
        return None if is_int else call.inputs[1:]
    return call.inputs


def _item(graph: FuncGraph, index: int) -> Node | None:
    """Item `index` of a graph's output, if that is put together there."""
    parts = tuple_parts(graph.output)
    return None if parts is None else parts[index]


def same_tuple(node: CNode) -> Node | None:
    """A tuple, where all its items are put together again."""
    if not node.inputs or item_index(node.inputs[0]) is None:
        return None
    whole = node.inputs[0].inputs[0]
    for i, part in enumerate(node.inputs):
        if item_index(part) != i or part.inputs[0] is not whole:
            return None
    return whole


SCALAR_OPS = tuple(n for n in REGISTRY if n.startswith("Scalar") and n != "ScalarToTensor")

SWITCH_RULES = (
    Function("choose_constant", "switch(True, f, g) -> f", ("Switch",), choose_constant),
    Function("merge_equal_arms", "switch(c, f, f) -> f", ("Switch",), merge_equal_arms),
    Function("swap_arms", "switch(not c, f, g) -> switch(c, g, f)", ("Switch",), swap_arms),
    Function("constants_of_arms", "switch(c, 1, 0) -> pick(int(c), 0, 1); switch(i, 1, 2) -> "
             "pick(i, 1, 2)", ("Switch", "TupleGetItem"), constants_of_arms),
    Function("pick_known", "pick(1, x, y) -> y; pick(int(c), False, True) -> c", ("ScalarPick",),
             pick_known),
    Function("pick_of_op", "op(pick(i, 1, 2)) -> pick(i, op(1), op(2))", SCALAR_OPS, pick_of_op),
    Function("known_result", "f(x, y) -> x, if f returns x", ("call", "Switch"), known_result),
    Function("drop_check", "check(True) -> nothing", ("Check",), drop_check),
    Function("known_value", "known(x, u) -> u", ("Known",), known_value),
    Function("skip_loop", "while(False, body)(x) -> x", ("While",), skip_loop),
    Function("unroll_single_trip", "while, once -> body", ("While",), unroll_single_trip),
)  # fmt: skip

TUPLE_RULES = (
    Function("item_of_tuple", "(x, y)[0] -> x", ("TupleGetItem",), item_of_tuple),
    Function("invariant_carry", "while(x)[0] -> x, if the body keeps x", ("TupleGetItem",),
             invariant_carry),
    Function("known_item", "f(x, y)[0] -> x, if f returns (x, ...)", ("TupleGetItem",), known_item),
    Function("same_tuple", "(t[0], t[1]) -> t", ("MakeTuple",), same_tuple),
)  # fmt: skip
