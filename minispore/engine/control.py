"""Loops in a segment: steps that hold steps, of which rows.py makes jumps.

A loop keeps what it carries in buffers of its own.  Its condition is computed twice: on the start
values, among the steps around the loop, and on the next values, at the end of each turn, where it
shares kernels with what made them:

    carry = start values
    enter = condition(start values)           unless enter: jump behind the loop
    next values = body(carry)                 turn:
    again = condition(next values)
    carry = next values                       if again: jump to turn
"""

from __future__ import annotations

from minispore.engine.layout import Buffer, View
from minispore.engine.lower import Lowering, Step
from minispore.ir.node import CNode, FuncGraph, While, is_call_of


class Flow(Lowering):
    """The steps of nodes among which there may be loops."""

    def add(self, node: CNode) -> None:
        if isinstance(node.callee, While):
            self.loop(node, node.callee)
        else:
            super().add(node)

    def add_graph(self, graph: FuncGraph, operands: list[View]) -> list[View]:
        """The steps of a closed graph; where its outputs are."""
        nodes = [n for n in graph.nodes() if isinstance(n, CNode)]
        own = [n for n in nodes if not is_call_of(n, "MakeTuple")]
        self.look_at(own, graph.outputs())
        self.views |= {id(p): v for p, v in zip(graph.parameters, operands, strict=True)}
        for node in own:
            self.add(node)
        items = self.items.get(id(graph.output))  # its output may be the tuple of another loop
        return [self.whole(v) for v in items or map(self.view, graph.outputs())]

    def loop(self, node: CNode, loop: While) -> None:
        operands = [self.whole(self.view(i)) for i in node.inputs]
        fixed, starts = operands[: loop.n_const], operands[loop.n_const :]
        (enter,) = self.add_graph(loop.cond, operands)
        carry = [View(Buffer(v.buffer.dtype, v.buffer.size), v.shape) for v in starts]
        turn = Flow()
        nexts = turn.add_graph(loop.body, [*fixed, *carry])
        (again,) = turn.add_graph(loop.cond, [*fixed, *nexts])
        step = Step("while", [*operands, enter], carry[0].buffer, 1, 1, gives="own", node=node)
        step.more = {
            "outs": [v.buffer for v in carry], "starts": starts, "enter": enter.buffer,
            "turn": turn.steps, "nexts": nexts, "again": again.buffer,
        }  # fmt: skip
        for view in carry:
            view.buffer.step = step
        self.steps.append(step)
        self.views[id(node)] = carry[0]
        self.items[id(node)] = carry


__all__ = ["Flow"]
