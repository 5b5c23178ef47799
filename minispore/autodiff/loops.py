"""J of a While: a loop that keeps what its body's bwd will read, and a loop that goes back.

    constants, carry: those of the While;  r1 ... rk: the residuals of its body

    fwd   n = 0;  S1 ... Sk = empty              bwd   dconstants = 0
          while cond(carry):                           while n > 0:
              carry, r = body.fwd(carry)                   rj, Sj = Pop(Sj)
              Sj = Push(Sj, rj)                            dk, dcarry = body.bwd(r, dcarry)
              n += 1                                       dconstants += dk
                                                           n -= 1

Residuals that are the same in every turn are passed, not stacked.  If the number of turns is known,
nothing is counted forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minispore.abstract import STACK, Abstract, AbstractScalar, AbstractTensor
from minispore.autodiff.nodes import (
    Adjoint,
    backward,
    call_node,
    cotangent_sum,
    fresh_parameters,
    items_of,
    places_of,
    spliced,
    spread,
    type_at,
    types_of,
    zero_node,
)
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Node,
    ParameterNode,
    Rebuilder,
    While,
    inline_call,
    make_tuple,
    prim_node,
    toposort,
)
from minispore.primitive import Primitive
from minispore.symbolic import constant_node

INT = AbstractScalar(int)


class LoopAdjoint:
    """The two loops of one While.

    `adjoint` is J of its body, `live` the carried values that have a cotangent in some turn.
    `residuals` stand in bwd for what fwd keeps: passed values, the number of turns, Stacks.
    """

    def __init__(self, node: CNode, adjoint: Adjoint, live: list[int]):
        assert isinstance(node.callee, While)
        self.node, self.loop, self.adjoint, self.live = node, node.callee, adjoint, live
        self.n_const = self.loop.n_const
        self.constants = types_of(node.inputs[: self.n_const])
        self.carry = types_of(items_of(node))
        self.counted = self.loop.trip_count is None
        everywhere = range(len(adjoint.residuals))
        self.passed = [j for j in everywhere if self.is_passed(j)]
        self.stacked = [j for j in everywhere if j not in self.passed]
        kept = [adjoint.residuals[j] for j in self.passed]
        self.residuals = fresh_parameters([*kept, *self.counter_and_stacks()], "r")

    def is_passed(self, j: int) -> bool:
        fwd = self.adjoint.fwd
        return fwd.is_complete and is_loop_constant(
            self.residual(j), fwd.parameters[: self.n_const]
        )

    def residual(self, j: int) -> Node:
        """Residual `j` in the body's fwd."""
        return items_of(self.adjoint.fwd.output)[len(self.carry) + j]

    def counter_and_stacks(self) -> list[Abstract]:
        """The types of what fwd's loop carries in addition."""
        return [*([INT] if self.counted else []), *(STACK for _ in self.stacked)]

    # -------------------------------------------------------------------------------- forward

    def forward(self, inputs: list[Node]) -> tuple[list[Node], list[Node]]:
        """The carry at the end, and the values of `residuals`."""
        constants, carry = inputs[: self.n_const], inputs[self.n_const :]
        extra: list[Node] = [zero_node(t) for t in self.counter_and_stacks()]
        loop = While(self.forward_cond(), self.forward_body(), self.n_const, self.loop.trip_count)
        types = [*types_of(extra), *self.carry]
        items = call_node(loop, [*constants, *extra, *carry], types, self.node.origin)
        before_the_loop = Rebuilder()
        for parameter, constant in zip(self.adjoint.fwd.parameters, constants, strict=False):
            before_the_loop.substitute(parameter, constant)
        passed = [before_the_loop(self.residual(j)) for j in self.passed]
        return items[len(extra) :], [*passed, *items[: len(extra)]]

    def forward_parameters(self) -> tuple[list[ParameterNode], ...]:
        """New parameters for a graph of fwd's loop: constants; counter and Stacks; carry."""
        groups = (self.constants, self.counter_and_stacks(), self.carry)
        return tuple(fresh_parameters(g, p) for g, p in zip(groups, "ksx", strict=True))

    def forward_cond(self) -> FuncGraph:
        constants, extra, carry = self.forward_parameters()
        cond = self.loop.cond
        output = inline_call(cond, [*constants, *carry])
        parameters = [*constants, *extra, *carry]
        return FuncGraph(f"{cond.name}_fwd", parameters, output, cond.origin, cond.scope_kind)

    def forward_body(self) -> FuncGraph:
        constants, extra, carry = self.forward_parameters()
        body, origin = self.loop.body, self.node.origin.made_by("grad")
        types = [*self.carry, *self.adjoint.residuals]
        items = spliced(self.adjoint.fwd, [*constants, *carry], types, origin)
        next_carry, residuals = items[: len(carry)], items[len(carry) :]
        counter, stacks = (extra[:1], extra[1:]) if self.counted else ([], extra)
        more = [prim_node("ScalarAdd", n, constant_node(1), origin=origin) for n in counter]
        for stack, j in zip(stacks, self.stacked, strict=True):
            more.append(prim_node("Push", stack, residuals[j], origin=origin))
        parameters = [*constants, *extra, *carry]
        output = make_tuple([*more, *next_carry])
        return FuncGraph(f"{body.name}_fwd", parameters, output, body.origin, body.scope_kind)

    # ------------------------------------------------------------------------------- backward

    def backward(self, douts: list[Node | None]) -> list[Node | None]:
        """The cotangents of the While's inputs, from those of its carry at the end."""
        passed = self.residuals[: len(self.passed)]
        turns = [] if self.counted else [constant_node(self.loop.trip_count)]
        items = items_of(self.node)
        seeds = [douts[i] or zero_node(self.carry[i], [items[i]]) for i in self.live]
        into_constants = tuple(i for i in self.adjoint.grads if i < self.n_const)
        sums = [zero_node(self.constants[i], [self.node.inputs[i]]) for i in into_constants]
        carry = [*turns, *self.residuals[len(passed) :], *seeds, *sums]
        cond, body = self.backward_cond(passed, carry), self.backward_body(passed, carry)
        loop = While(cond, body, len(passed), self.loop.trip_count)
        origin = backward(self.node.origin)
        items = call_node(loop, [*passed, *carry], types_of(carry), origin)
        where = (*(self.n_const + i for i in self.live), *into_constants)
        return spread(len(self.node.inputs), where, items[1 + len(self.stacked) :])

    def backward_cond(self, passed: Sequence[Node], carry: Sequence[Node]) -> FuncGraph:
        constants = fresh_parameters(types_of(passed), "k")
        parameters = fresh_parameters(types_of(carry), "x")
        origin, cond = backward(self.node.origin), self.loop.cond
        more = prim_node("ScalarGreater", parameters[0], constant_node(0), origin=origin)
        graph_parameters = [*constants, *parameters]
        return FuncGraph(f"{cond.name}_bwd", graph_parameters, more, origin, cond.scope_kind)

    def backward_body(self, passed: Sequence[Node], carry: Sequence[Node]) -> FuncGraph:
        constants = fresh_parameters(types_of(passed), "k")
        parameters = fresh_parameters(types_of(carry), "x")
        origin, body = backward(self.node.origin), self.loop.body
        rest = iter(parameters)
        fewer = prim_node("ScalarSub", next(rest), constant_node(1), origin=origin)
        residuals: dict[int, Node] = dict(zip(self.passed, constants, strict=True))
        below = []
        for j in self.stacked:
            kind = self.adjoint.residuals[j]
            pop = prim_node("Pop", next(rest), origin=origin, abstract=kind)
            residuals[j], stack = items_of(pop)
            below.append(stack)
        douts = [next(rest) for _ in self.live]
        operands = [*(residuals[j] for j in sorted(residuals)), *douts]
        grads = self.adjoint.grads
        types = [self.node.inputs[i].abstract for i in grads]
        cotangents = spliced(self.adjoint.bwd, operands, types, origin)
        found = dict(zip(grads, cotangents, strict=True))
        back = [
            found.get(self.n_const + i) or zero_node(self.carry[i], parameters) for i in self.live
        ]
        sums = [cotangent_sum(next(rest), found[i]) for i in grads if i < self.n_const]
        output = make_tuple([fewer, *below, *back, *sums])
        graph_parameters = [*constants, *parameters]
        return FuncGraph(f"{body.name}_bwd", graph_parameters, output, origin, body.scope_kind)


def is_loop_constant(value: Node, constants: Iterable[Node]) -> bool:
    """True if a node of a loop's body is the same in every turn, and may be computed before it.

    Only primitives on Tensors qualify: those cannot fail (their checks are effects), so that it
    does no harm if the loop makes no turn.
    """
    allowed = set(constants)
    for node in toposort([value]):
        if isinstance(node, ParameterNode) and node not in allowed:
            return False
        if isinstance(node, CNode):
            is_tensor = all(isinstance(type_at(p), AbstractTensor) for p in places_of(node))
            if not isinstance(node.callee, Primitive) or not (
                is_tensor or node.callee.name == "DimSize"
            ):
                return False
    return True
