"""Loops and branches in a segment: steps that hold steps, of which rows.py makes jumps.

A loop keeps what it carries in buffers of its own.  Its condition is computed twice: on the start
values, among the steps around the loop, and on the next values, at the end of each turn, where it
shares kernels with what made them:

    carry = start values
    enter = condition(start values)           unless enter: jump behind the loop
    next values = body(carry)                 turn:
    again = condition(next values)
    carry = next values                       if again: jump to turn

Of a Switch only the graph that is chosen runs; the results of all go to the same buffers.  What
must hold (scalars.py) goes round a loop as one more value, and comes out of a Switch as one more
result.
"""

from __future__ import annotations

from minispore.abstract import TOKEN, AbstractScalar, AbstractTuple
from minispore.engine.layout import Buffer, View
from minispore.engine.lower import Step
from minispore.engine.scalars import ScalarLowering
from minispore.ir.node import CNode, FuncGraph, Switch, While, is_call_of


class Flow(ScalarLowering):
    """The steps of nodes among which there may be loops and branches."""

    def add(self, node: CNode) -> None:
        if isinstance(node.callee, While):
            self.loop(node, node.callee)
        elif isinstance(node.callee, Switch):
            self.branch(node, node.callee)
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
        carried = node.inputs[loop.n_const :]
        carry = [
            v if i.abstract == TOKEN else fresh(v) for i, v in zip(carried, starts, strict=True)
        ]
        turn = Flow()
        nexts = turn.add_graph(loop.body, [*fixed, *carry])
        (again,) = turn.add_graph(loop.cond, [*fixed, *nexts])
        places = [(c, s, n) for c, s, n in zip(carry, starts, nexts, strict=True) if c is not s]
        if turn.holds is not None:
            start = self.holds or self.known_bool(True)
            places.append((fresh(start), start, turn.holds))
            again = turn.one("{0} and {1}", "u1", again, turn.holds)
        if self.holds is not None:  # else a loop may not end that Python does not come to
            enter = self.one("{0} and {1}", "u1", enter, self.holds)
        outs = [c.buffer for c, _, _ in places]
        self.control(node, "while", [*fixed, *(s for _, s, _ in places), enter], outs, {
            "starts": [s.buffer for _, s, _ in places], "enter": enter.buffer, "turn": turn.steps,
            "nexts": [n.buffer for _, _, n in places], "again": again.buffer,
        })  # fmt: skip
        if turn.holds is not None:
            self.holds = places[-1][0]
        self.give(node, carry)

    def branch(self, node: CNode, switch: Switch) -> None:
        choice, *operands = [self.whole(self.view(i)) for i in node.inputs]
        tests = self.tests(node, switch, choice)
        arms = [Flow() for _ in switch.graphs]
        results = []
        for arm, graph in zip(arms, switch.graphs, strict=True):
            arm.holds = self.holds
            results.append(arm.add_graph(graph, operands))
        kinds = node.abstract.items if isinstance(node.abstract, AbstractTuple) else [node.abstract]
        values = [
            v if kind == TOKEN else fresh(v) for kind, v in zip(kinds, results[0], strict=True)
        ]
        kept = [n for n, kind in enumerate(kinds) if kind != TOKEN]
        outs = [values[n].buffer for n in kept]
        sources = [[found[n].buffer for n in kept] for found in results]
        before = [] if self.holds is None else [self.holds]
        if any(arm.holds is not self.holds for arm in arms):
            self.holds = fresh(self.known_bool(True))
            outs.append(self.holds.buffer)
            for arm, found in zip(arms, sources, strict=True):
                found.append((arm.holds or self.known_bool(True)).buffer)
        self.control(node, "switch", [*tests, *operands, *before], outs, {
            "tests": [t.buffer for t in tests], "arms": [a.steps for a in arms], "results": sources,
        })  # fmt: skip
        self.give(node, values)

    def tests(self, node: CNode, switch: Switch, choice: View) -> list[View]:
        """Of each graph but the last: whether it is chosen, if none before it is."""
        kind = node.inputs[0].abstract
        if not (isinstance(kind, AbstractScalar) and kind.kind is int):
            return [self.cast(choice, "u1")]
        count = len(switch.graphs)
        self.require(f"{{0}} >= 0 and {{0}} < {count}", choice)
        return [self.one(f"{{0}} == {i}", "u1", choice) for i in range(count - 1)]

    def control(
        self, node: CNode, kind: str, inputs: list[View], outs: list[Buffer], more: dict
    ) -> None:
        """A step that holds steps."""
        outs = outs or [Buffer("u1", 1)]
        step = Step(kind, inputs, outs[0], 1, 1, gives="own", node=node)
        step.more = {"outs": outs, **more}
        for buffer in outs:
            buffer.step = step
        self.steps.append(step)

    def give(self, node: CNode, values: list[View]) -> None:
        """Where the results of a loop or branch are."""
        self.items[id(node)] = values
        if not isinstance(node.abstract, AbstractTuple):
            (self.views[id(node)],) = values


def fresh(view: View) -> View:
    """A buffer of its own for another value like this one."""
    return View(Buffer(view.buffer.dtype, view.size), view.shape)


__all__ = ["Flow"]
