"""The rules that every graph keeps, checked: valid graph in, valid graph out, for every pass.

    typed     every node has an abstract, and inferring it again gives the same
    constant  a constant's value is what its abstract says
    closed    a graph uses its own parameters and its own nodes only
    call      operands fit the parameters; a Switch's graphs take and return the same;
              a While's carry keeps its types
    linear    the Token has one use and one beginning in a graph
    tuple     a tuple is taken apart or returned; parameters and items of tuples are no tuples
    bprop     the graph of a Cell's own gradient takes and returns what J relies on
    stage     no Grad is left after the `grad` stage

The table of what each stage may hold is STAGES.  (MindSpore has one such check, ``validate``, at
the end of its pipeline.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from minispore.abstract import TOKEN, Abstract, AbstractScalar, AbstractTensor, AbstractTuple
from minispore.dims import same
from minispore.ir.interp import check_value
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Node,
    ParameterNode,
    Switch,
    ValueNode,
    While,
    graphs_of,
    is_call_of,
    item_index,
)
from minispore.ir.text import graph_names, node_names, write_node
from minispore.primitive import Primitive
from minispore.tree import NeedConstant

_CALLEES: tuple[type, ...] = (Primitive, FuncGraph, Switch, While)

STAGES: dict[str, tuple[type, ...]] = {  # the callees that may exist after each stage
    "any": (*_CALLEES, Grad),
    "evaluate": (*_CALLEES, Grad),
    "grad": _CALLEES,
    "optimize": _CALLEES,
    "execute": _CALLEES,
}


class IRError(Exception):
    """A graph that breaks a rule: the rule, the graph, the node, and what is wrong."""

    def __init__(self, rule: str, graph: FuncGraph, node: Node | None, message: str):
        self.rule, self.graph, self.node = rule, graph, node
        text = f"graph @{graph.name}: {message} (rule '{rule}')"
        if node is not None:
            text += f"\n    {describe(graph, node)}"
            if node.origin.where is not None:
                text += f"\n    at {node.origin.where}"
        super().__init__(text)


def verify(graph: FuncGraph, stage: str = "any") -> None:
    """Check a graph and all that it reaches, bprop graphs included.

    `stage` is a key of STAGES: what has been done to the graph so far.  Raises IRError where a
    rule is broken, ValueError for an unknown stage.
    """
    if stage not in STAGES:
        raise ValueError(f"'{stage}' is no stage; the stages are {', '.join(STAGES)}")
    graphs = _complete_graphs(graph)
    owner: dict[Node, FuncGraph] = {}
    for g in graphs:
        for parameter in g.parameters:
            if owner.setdefault(parameter, g) is not g or g.parameters.count(parameter) > 1:
                raise IRError("closed", g, parameter, "a parameter is listed twice")
    for g in graphs:
        _Checker(g, STAGES[stage], owner).check()


def describe(graph: FuncGraph, node: Node) -> str:
    """A node as the text form shows it."""
    names = node_names(graph)
    if isinstance(node, CNode):
        return write_node(node, names, graph_names(graphs_of(node.callee)))
    if isinstance(node, ParameterNode):
        return f"%{node.name}: {node.abstract}"
    return f"a constant: {node.abstract}"


def _complete_graphs(graph: FuncGraph) -> list[FuncGraph]:
    try:
        return graph.graphs(with_bprop=True)
    except ValueError as error:  # a graph without an output
        raise IRError("closed", graph, None, str(error)) from None


class _Checker:
    """Checks one graph."""

    def __init__(self, graph: FuncGraph, callees: tuple[type, ...], owner: dict[Node, FuncGraph]):
        self.graph, self.callees, self.owner = graph, callees, owner
        self.nodes = graph.nodes()

    def check(self) -> None:
        for node in self.nodes:
            if not isinstance(node.abstract, Abstract):
                self.fail("typed", node, f"the node has no type but {node.abstract!r}")
            if isinstance(node, ParameterNode):
                self.check_parameter(node)
            elif isinstance(node, ValueNode):
                self.check_constant(node)
            elif isinstance(node, CNode):
                self.check_tuples(node)
                self.check_callee(node)
        for parameter in self.graph.parameters:
            if isinstance(parameter.abstract, AbstractTuple):
                self.fail("tuple", parameter, "a parameter must not be a tuple")
        self.check_linear()
        if self.graph.bprop is not None:
            self.check_bprop(self.graph.bprop)

    def fail(self, rule: str, node: Node | None, message: str) -> None:
        raise IRError(rule, self.graph, node, message)

    def expect_type(self, rule: str, node: Node, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.fail(rule, node, f"{what} is {found}, and must be {wanted}")

    def check_parameter(self, node: ParameterNode) -> None:
        home = self.owner.get(node)
        if home is not self.graph:
            whose = f"the parameter %{node.name} of @{home.name}" if home else f"%{node.name}"
            self.fail("closed", node, f"the graph uses {whose}, which is none of its parameters")

    def check_constant(self, node: ValueNode) -> None:
        try:
            check_value(node.value, node.abstract)
        except TypeError as error:
            self.fail("constant", node, str(error))

    def check_tuples(self, node: CNode) -> None:
        """Tuples are flat, and only TupleGetItem takes one."""
        if isinstance(node.abstract, AbstractTuple):
            if any(isinstance(item, AbstractTuple) for item in node.abstract.items):
                self.fail("tuple", node, "an item of a tuple must not be a tuple")
        if not is_call_of(node, "TupleGetItem") and any(map(_is_tuple, node.inputs)):
            self.fail("tuple", node, "only TupleGetItem takes a tuple as operand")

    def check_callee(self, node: CNode) -> None:
        callee = node.callee
        if not isinstance(callee, self.callees):
            kind = type(callee).__name__
            self.fail("stage", node, f"a {kind} must not be in a graph at this stage")
        if isinstance(callee, Primitive):
            self.check_primitive(node, callee)
        elif isinstance(callee, FuncGraph):
            self.check_operands(node, callee, node.inputs)
            self.expect_type(
                "typed", node, "the type of the call", node.abstract, callee.output.abstract
            )
        elif isinstance(callee, Switch):
            self.check_switch(node, callee)
        elif isinstance(callee, While):
            self.check_while(node, callee)
        elif isinstance(callee, Grad):
            self.check_grad(node, callee)

    def check_primitive(self, node: CNode, primitive: Primitive) -> None:
        arity = getattr(primitive, "arity", None)
        if arity is not None and arity != len(node.inputs) - len(primitive.needs):
            self.fail("typed", node, f"{primitive.name} takes {arity} operands")
        try:
            inferred = primitive.type_of(*(i.abstract for i in node.inputs))
        except NeedConstant:  # it follows from what was decided about a size, by the call at hand
            inferred = node.abstract
        except Exception as error:
            message = f"its operands do not fit: {type(error).__name__}: {error}"
            raise IRError("typed", self.graph, node, message) from error
        self.expect_type("typed", node, "the node's type", node.abstract, inferred)
        if primitive.effect and not (node.inputs and node.inputs[0].abstract == TOKEN):
            self.fail("linear", node, "an effect must take the Token first")

    def check_operands(self, node: CNode, graph: FuncGraph, operands: Sequence[Node]) -> None:
        """The operands of a call fit the parameters of a graph."""
        found, wanted = ([x.abstract for x in xs] for xs in (operands, graph.parameters))
        if len(found) != len(wanted):
            self.fail("call", node, f"@{graph.name} takes {len(wanted)} operands, not {len(found)}")
        for number, (f, w) in enumerate(zip(found, wanted, strict=True)):
            self.expect_type("call", node, f"operand {number} of @{graph.name}", f, w)

    def check_switch(self, node: CNode, switch: Switch) -> None:
        if not switch.graphs or not node.inputs:
            self.fail("call", node, "a Switch needs a choice and at least one graph")
        choice = node.inputs[0].abstract
        if _is_truth(choice):
            if len(switch.graphs) != 2:
                self.fail(
                    "call", node, f"a bool chooses between 2 graphs, not {len(switch.graphs)}"
                )
        elif choice != AbstractScalar(int):
            self.fail("call", node, f"the choice is {choice}, and must be a bool or an int")
        for graph in switch.graphs:
            self.check_operands(node, graph, node.inputs[1:])
            what = f"the type of the Switch, which calls @{graph.name},"
            self.expect_type("call", node, what, node.abstract, graph.output.abstract)

    def check_while(self, node: CNode, loop: While) -> None:
        if not 0 <= loop.n_const <= len(node.inputs):
            self.fail("call", node, f"there are {len(node.inputs)} operands, n_const is too large")
        if loop.trip_count is not None and loop.trip_count < 0:
            self.fail("call", node, f"the trip count {loop.trip_count} is negative")
        self.check_operands(node, loop.cond, node.inputs)
        self.check_operands(node, loop.body, node.inputs)
        carry = AbstractTuple(tuple(i.abstract for i in node.inputs[loop.n_const :]))
        test = loop.cond.output.abstract
        if not _is_truth(test):
            self.fail("call", node, f"the condition @{loop.cond.name} gives {test}, and not a bool")
        what = f"the next carry, from @{loop.body.name},"
        self.expect_type("call", node, what, loop.body.output.abstract, carry)
        self.expect_type("typed", node, "the type of the While", node.abstract, carry)

    def check_grad(self, node: CNode, grad: Grad) -> None:
        parameters, outputs = grad.graph.parameters, _items(grad.graph.output.abstract)
        if not 0 <= grad.n_out <= len(outputs):
            self.fail("call", node, f"@{grad.graph.name} has {len(outputs)} outputs: check n_out")
        if any(not 0 <= i < len(parameters) for i in grad.wrt):
            self.fail("call", node, f"@{grad.graph.name} has {len(parameters)} inputs: check wrt")
        self.check_operands(node, grad.graph, node.inputs[: len(parameters)])
        found = [i.abstract for i in node.inputs[len(parameters) :]]
        sens = [a for a in outputs[: grad.n_out] if a.has_cotangent and grad.with_sens]
        if found != sens:
            self.fail("call", node, f"the cotangents are {_list(found)}, and must be {_list(sens)}")
        wanted = AbstractTuple((*outputs, *(parameters[i].abstract for i in grad.wrt)))
        self.expect_type("typed", node, "the type of the Grad", node.abstract, wanted)

    def check_bprop(self, bprop: FuncGraph) -> None:
        """A bprop takes parameters, outputs, cotangents and returns a tuple of cotangents."""
        parameters = [p.abstract for p in self.graph.parameters]
        outputs = _items(self.graph.output.abstract)
        wanted = [*parameters, *outputs, *(a for a in outputs if a.has_cotangent)]
        found = [p.abstract for p in bprop.parameters]
        if found != wanted:
            self.fail("bprop", None, f"bprop takes {_list(found)}, and must take {_list(wanted)}")
        result = AbstractTuple(tuple(a for a in parameters if a.has_cotangent))
        if bprop.output.abstract != result:
            given = bprop.output.abstract
            self.fail("bprop", None, f"bprop returns {given}, and must return {result}")

    def check_linear(self) -> None:
        """Each Token has one use."""
        nodes = dict.fromkeys((*self.graph.parameters, *self.nodes))
        uses: Counter[tuple[Node, int | None]] = Counter({(self.graph.output, None): 1})
        for node in self.nodes:
            uses.update((operand, item_index(node)) for operand in node.inputs)
        for node in nodes:
            for index, item in enumerate(_items(node.abstract)):
                count = uses[node, None] + (uses[node, index] if _is_tuple(node) else 0)
                if count > 1 and item == TOKEN:
                    self.fail("linear", node, f"the Token has {count} uses")
        first = [n for n in nodes if n.abstract == TOKEN and not isinstance(n, CNode)]
        if len(first) > 1:
            self.fail("linear", first[1], "the order of effects has two beginnings")


def _items(abstract: Abstract) -> tuple[Abstract, ...]:
    """The items of a tuple; any other value is the only item."""
    return abstract.items if isinstance(abstract, AbstractTuple) else (abstract,)


def _is_truth(abstract: Abstract) -> bool:
    """True for what can decide: a bool, or a Bool Tensor of one element."""
    if isinstance(abstract, AbstractTensor):
        return abstract.dtype.kind == "bool" and same(abstract.size, 1)
    return abstract == AbstractScalar(bool)


def _is_tuple(node: Node) -> bool:
    return isinstance(node.abstract, AbstractTuple)


def _list(abstracts: Sequence[Abstract]) -> str:
    return f"({', '.join(map(str, abstracts))})"
