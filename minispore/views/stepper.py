"""Walking a compiled graph node by node, forward and back in time: ``ms.explain(fn, x).step()``.

The Stepper asks the interpreter (ir/interp.py) for one step after the other, and keeps them; going
back is looking at what is kept.  Nothing outside is written, but what the graph prints is printed.

    s = ms.explain(loss, w, x).step()
    s.forward()             # the next node; a call of a graph counts as one
    s.into()                # the first node of the graph that is called
    s.to_line(12)           # on to what line 12 made
    s.value, s.operands, s.line, s.phase
    s.interact()            # the same by keys, in a terminal

(MindSpore has no such thing for compiled graphs.)
"""

from __future__ import annotations

import html
import linecache
from collections.abc import Callable, Sequence
from typing import Any

from minispore.ir.finite import path_of
from minispore.ir.interp import Step, steps
from minispore.ir.node import CNode, FuncGraph, Location, Node, ParameterNode, ValueNode
from minispore.ir.text import graph_names, node_names, write_node
from minispore.ir.values import value_text

_AROUND = 2  # lines of source shown before and after
_HELP = """\
n  next node (a call counts as one)     s  step into the graph that is called
b  back                                 u  up, to the call that led here
l LINE  on to what that line made       p [NAME]  print a value in full: p, p %3, p x
e  to the end                           q  quit
An empty line repeats the last command."""


class ByKeys:
    """Moving by keys in a terminal: what Steppers of graphs and of plans have in common."""

    help = ""

    def moves(self) -> dict[str, Callable[[], Any]]:
        """Key -> what it does."""
        raise NotImplementedError

    def to_line(self, line: int) -> Any:
        """On to what a line of source made."""
        raise NotImplementedError

    def _printed(self, name: str) -> str:
        raise NotImplementedError

    def interact(
        self, ask: Callable[[str], str] | None = None, show: Callable[[str], Any] = print
    ) -> Any:
        """Ask for commands until ``q`` or the end of input; ``h`` lists them.

        Args:
            ask: in place of Python's ``input``.
            show: in place of ``print``.
        """
        ask = ask or input
        show(str(self))
        last = "n"
        while True:
            try:
                command = ask("(step) ").strip() or last
            except (EOFError, KeyboardInterrupt):
                return self
            if command == "q":
                return self
            last = command
            show(self.do(command))

    def do(self, command: str) -> str:
        """Follow one command of ``interact``; what it shows."""
        key, _, argument = command.strip().partition(" ")
        moves = self.moves()
        if key in moves and not argument:
            return str(moves[key]())
        if key == "l" and argument.isdigit():
            return str(self.to_line(int(argument)))
        if key == "p":
            return self._printed(argument.strip())
        return self.help if key == "h" else f"no command '{command}'\n{self.help}"


class Stepper(ByKeys):
    """A place in the run of a graph.  Moving returns the Stepper, which displays itself.

    Attributes:
        graph: the graph that runs.
        error: what the run failed with, once that is known.
        outputs: the results, once they are known.
    """

    help = _HELP

    def __init__(self, graph: FuncGraph, inputs: Sequence[Any], name: str):
        self.graph, self.name = graph, name
        self.error: Exception | None = None
        self.outputs: tuple | None = None
        self._inputs = inputs
        self._run = steps(graph, inputs)
        self._steps: list[Step] = []
        self._number = 0
        self._graph_names = graph_names(graph.graphs(with_bprop=True))
        self._node_names: dict[FuncGraph, dict[Node, str]] = {}
        self._reach(0)

    # -------------------------------------------------------------------------------- the run

    def _reach(self, number: int) -> bool:
        """Run until there is a step of this number; False if the run is over before."""
        while len(self._steps) <= number and not self._is_over:
            try:
                self._steps.append(next(self._run))
            except StopIteration as end:
                self.outputs = end.value
            except Exception as error:  # the run's own, told where it is asked for
                self.error = error
        return len(self._steps) > number

    @property
    def _is_over(self) -> bool:
        return self.outputs is not None or self.error is not None

    def _go(self, number: int) -> Stepper:
        """Go to a step; if the run fails before it, to the one that fails."""
        if self._reach(number):
            self._number = number
        elif self.error is not None:
            failed = next((i for i, s in enumerate(self._steps) if s.error is self.error), None)
            self._number = len(self._steps) if failed is None else failed
        else:
            self._number = len(self._steps)
        return self

    # ---------------------------------------------------------------------------------- moving

    def forward(self) -> Stepper:
        """On to the next node of this graph, or of the one that called it, past calls."""
        if self.is_at_end:
            return self
        depth, number = self.depth, self._number + 1
        while self._reach(number) and len(self._steps[number].callers) > depth:
            number += 1
        return self._go(number)

    def back(self) -> Stepper:
        """Back to the node before, past calls; the first node stays."""
        depth = 0 if self.is_at_end else self.depth
        number = self._number - 1
        while number > 0 and len(self._steps[number].callers) > depth:
            number -= 1
        self._number = max(number, 0)
        return self

    def into(self) -> Stepper:
        """On to the node that runs next, also within the graph that is called."""
        return self if self.is_at_end else self._go(self._number + 1)

    def up(self) -> Stepper:
        """Back to the call that led here; outermost nodes stay."""
        if not self.is_at_end and self.step.caller is not None:
            self._number = self._steps.index(self.step.caller)
        return self

    def to_line(self, line: int, file: str = "") -> Stepper:
        """On to the next node that a line of source made, or to the end.

        Args:
            file: part of the file's name, if the line is not in that of the first node.
        """
        file = file or next((s.node.origin.where.file for s in self._steps
                             if s.node.origin.where), "")  # fmt: skip
        number = self._number + 1
        while self._reach(number):
            where = self._steps[number].node.origin.where
            if where is not None and where.line == line and file in where.file:
                break
            number += 1
        return self._go(number)

    def to_start(self) -> Stepper:
        """Back to the first node."""
        self._number = 0
        return self

    def to_end(self) -> Stepper:
        """On to the end, or to the node that fails."""
        while self._reach(len(self._steps)):
            pass
        return self._go(len(self._steps))

    # ---------------------------------------------------------------------------- what is here

    @property
    def is_at_end(self) -> bool:
        """True after the last node, where `outputs` are known."""
        return self._number >= len(self._steps)

    @property
    def step(self) -> Step:
        """The step of the interpreter; IndexError at the end."""
        if self.is_at_end:
            raise IndexError("the run is over: go back() to a node")
        return self._steps[self._number]

    @property
    def number(self) -> int:
        """How many steps were taken before this one, those inside calls too."""
        return self._number

    @property
    def node(self) -> CNode:
        """The node."""
        return self.step.node

    @property
    def text(self) -> str:
        """The node as the graph's text has it."""
        return write_node(self.node, self._names(self.step.graph), self._names_of_graphs())

    @property
    def value(self) -> Any:
        """The node's value: an ndarray, number or tuple.  A call runs to its end.

        Raises:
            What the node raised.
        """
        step, number = self.step, len(self._steps)
        while not step.is_done and step.error is None and self._reach(number):
            number += 1
        if not step.is_done:
            assert self.error is not None
            raise self.error
        return step.value

    @property
    def operands(self) -> dict[str, Any]:
        """The values that the node works on, by name: ``%1``, ``x``; constants are left out."""
        return {name: value for name, (_, value) in self._named(self.step).items()}

    @property
    def where(self) -> Location | None:
        """The place in the user's source that made the node."""
        return self.node.origin.where

    @property
    def line(self) -> int | None:
        """Its line."""
        return None if self.where is None else self.where.line

    @property
    def source(self) -> str:
        """The text of that line."""
        return linecache.getline(self.where.file, self.where.line).strip() if self.where else ""

    @property
    def phase(self) -> str:
        """``forward``, ``backward`` or ``update``."""
        return self.node.origin.phase

    @property
    def depth(self) -> int:
        """How many calls lead here."""
        return len(self.step.callers)

    @property
    def path(self) -> list[str]:
        """The graphs from the entry to this node's, with the turns of loops: ``@body turn 2``."""
        return list(path_of(self.step))

    def find(self, name: str) -> Any:
        """A value by name: a node (``%3``) or parameter (``x``) of this graph, or an input.

        Raises:
            KeyError: there is none of that name, or it has no value yet.
        """
        inputs = zip(self.graph.parameters, self._inputs, strict=True)
        known: dict[str, Any] = {p.name: value for p, value in inputs}
        if not self.is_at_end:
            here = (self.step.caller, self.step.graph, self.step.turn)
            for step in self._steps[: self._number + 1]:
                if (step.caller, step.graph, step.turn) == here:
                    known |= {name: value for name, (_, value) in self._named(step).items()}
                    if step.is_done:
                        known[self._name(step.node, step.graph)] = step.value
        if name not in known:
            raise KeyError(f"{name} has no value here; there are {', '.join(known)}")
        return known[name]

    # ------------------------------------------------------------------------------- as text

    def _names(self, graph: FuncGraph) -> dict[Node, str]:
        if graph not in self._node_names:
            self._node_names[graph] = node_names(graph)
        return self._node_names[graph]

    def _named(self, step: Step) -> dict[str, tuple[Node, Any]]:
        """The operands of a step, by name; constants are left out."""
        return {
            self._name(node, step.graph): (node, value)
            for node, value in zip(step.node.inputs, step.operands, strict=True)
            if not isinstance(node, ValueNode)
        }

    def _name(self, node: Node, graph: FuncGraph) -> str:
        return node.name if isinstance(node, ParameterNode) else self._names(graph).get(node, "%?")

    def _names_of_graphs(self) -> dict[FuncGraph, str]:
        """Names of the graphs, also of those that the expansion of a gradient has made."""
        for graph in self.step.graph.graphs(with_bprop=True):
            self._graph_names.setdefault(graph, f"@{graph.name}")
        return self._graph_names

    def __str__(self) -> str:
        if self.is_at_end:
            return self._end()
        lines = [f"step {self.number + 1}, {self.phase}, in {' > '.join(self.path)}"]
        if self.where is not None:
            lines.append(self.where.shown())
        lines.append(f"  {self.text}")
        for name, (node, value) in self._named(self.step).items():
            lines.append(f"    {name} = {value_text(value, node.abstract)}")
        return "\n".join([*lines, f"  {self._result()}"])

    def _result(self) -> str:
        step = self.step
        if step.error is not None:
            return f"raised {type(step.error).__name__}: {step.error}"
        if not step.is_done:
            return "is running: step into it, or go on to the next node"
        return f"-> {value_text(step.value, step.node.abstract)}"

    def _end(self) -> str:
        if self.error is not None:
            return f"{self.name} failed: {type(self.error).__name__}: {self.error}"
        lines = [f"{self.name} is over, after {len(self._steps)} steps"]
        for node, value in zip(self.graph.outputs(), self.outputs or (), strict=True):
            lines.append(f"  -> {value_text(value, node.abstract)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": str(self)}

    def html(self) -> str:
        """The place as a fragment of plain HTML: the source with its line marked, then the text."""
        return page_of(str(self), None if self.is_at_end else self.where)

    # ----------------------------------------------------------------------------- by keys

    def moves(self) -> dict[str, Callable[[], Any]]:
        """What the keys of ``interact`` do."""
        return {"n": self.forward, "b": self.back, "s": self.into, "u": self.up, "e": self.to_end}

    def _printed(self, name: str) -> str:
        try:
            value = self.find(name) if name else self.value
        except (KeyError, IndexError) as error:
            return str(error.args[0])
        except Exception as error:  # what the node raised
            return f"raised {type(error).__name__}: {error}"
        return str(value)


def page_of(text: str, where: Location | None) -> str:
    """A text as plain HTML, below the lines of source around a place."""
    lines = []
    if where is not None:
        for number in range(max(where.line - _AROUND, 1), where.line + _AROUND + 1):
            source = linecache.getline(where.file, number).rstrip("\n")
            style = ' style="background:#fff3b0"' if number == where.line else ""
            lines.append(f"<span{style}>{number:4} {html.escape(source)}</span>\n")
    body = html.escape(text)
    return f"<pre>{''.join(lines)}</pre><pre>{body}</pre>" if lines else f"<pre>{body}</pre>"
