"""The nodes of the graph IR, in MindIR's terms.

    FuncGraph(name, parameters, output)
    Node = ParameterNode | ValueNode | CNode(callee, inputs)
    callee = Primitive | FuncGraph (a call) | Switch | While | Grad

Nodes are immutable, carry their abstract value from birth, and are compared by identity; there is
no hash-consing, so that common-subexpression elimination is a pass one can watch.  Every
sub-graph is closed: what it needs from outside arrives as an operand.  A graph has one output
node; several results are a MakeTuple, taken apart by TupleGetItem.

Calling conventions (operands are a CNode's `inputs`):

* a FuncGraph: one operand per parameter; the CNode's abstract is that of the graph's output;
* ``Switch(graphs)``: inputs[0] is the choice (a bool Tensor or Scalar: index 0 is *true*, 1 is
  *false*; or an int Scalar: the index itself), the rest are the operands that all graphs take;
* ``While(cond, body, n_const)``: the first `n_const` inputs are constants of the loop, the others
  the carry.  Both graphs take constants then carry; `cond` returns one bool, `body` a tuple: the
  next carry.  The CNode's abstract is the tuple of the carry;
* ``Grad(graph, wrt, n_out, with_sens)``: inputs are the graph's operands (and, with_sens, one
  cotangent per differentiable one among the first `n_out` outputs); the CNode's value is the tuple
  of all outputs of the graph, followed by the gradients of (the sum of) the first `n_out` outputs
  with respect to the parameters numbered in `wrt`.  The `grad` stage expands it by J.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minispore.abstract import Abstract, AbstractTuple, at_sizes
from minispore.primitive import REGISTRY, Primitive

_LONGEST_CYCLE = 12  # of calls, in what is shown of a recursion
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source: 1-based line, 0-based columns in bytes, as ``ast`` counts."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""

    @property
    def file_name(self) -> str:
        """The file without its folders; "cell" for a cell of a notebook."""
        folder, name = os.path.split(self.file)
        return "cell" if os.path.basename(folder).startswith("ipykernel_") else name

    def __str__(self) -> str:
        return f"{self.file_name}:{self.line}"

    def shown(self, caret: bool = True) -> str:
        """The place as Python's tracebacks show it; `caret`: with one under the expression."""
        text = f'  File "{self.file}", line {self.line}, in {self.function or "<module>"}'
        line = linecache.getline(self.file, self.line).rstrip("\n")
        if not line.strip():
            return text
        if not caret:
            return f"{text}\n    {line.strip()}"
        indent = len(line) - len(line.lstrip())
        start, end = (
            len(line.encode()[:n].decode(errors="ignore")) for n in (self.column, self.end_column)
        )
        signs = " " * (start - indent) + "^" * max(end - start, 1)
        return f"{text}\n    {line.strip()}\n    {signs}"


def shown_frames(frames: Sequence[Location]) -> list[str]:
    """Calls that led to a place, and the place itself, which alone has a caret.

    The package's own lines are left out, except with MINISPORE_DEBUG=1, or where there are no other
    ones.
    """
    users = [f for f in frames if not f.file.startswith(_PACKAGE)]
    shown = frames if os.environ.get("MINISPORE_DEBUG") == "1" else users or frames
    lines = []
    for i, n, times in _cycles(shown):
        last = i + n * times == len(shown)
        lines += [f.shown(caret=last and f is shown[i + n - 1]) for f in shown[i : i + n]]
        if times > 1:
            calls = "Previous call" if n == 1 else f"Previous {n} calls"
            lines[-1] += f"\n  [{calls} repeated {times - 1} more time{'s' * (times > 2)}]"
    return lines


def _cycles(places: Sequence[Location]) -> Iterator[tuple[int, int, int]]:
    """Parts of a sequence that come several times in turn: start, length, how often."""
    i = 0
    while i < len(places):
        length = times = 1
        for n in range(1, _LONGEST_CYCLE + 1):
            k = 1
            while places[i + k * n : i + (k + 1) * n] == places[i : i + n]:
                k += 1
            if k > 1 and k * n > length * times:
                length, times = n, k
        yield i, length, times
        i += length * times


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node comes from; no part of its identity, and kept by rewrites.

    `scope` is the path of Cells (``seq.0``); `phase` is "forward", "backward" or "update"; `rule`
    names the rewrite rule or pass that made the node.  `callers` are the calls that led to an
    effect, outermost first: what it raises shows them.
    """

    where: Location | None = None
    scope: str = ""
    phase: str = "forward"
    rule: str = ""
    callers: tuple[Location, ...] = ()

    def made_by(self, rule: str) -> Origin:
        return replace(self, rule=rule)


NOWHERE = Origin()


class Node:
    """A value in a graph."""

    __slots__ = ("abstract", "origin", "__weakref__")
    inputs: tuple[Node, ...] = ()

    def __init__(self, abstract: Abstract, origin: Origin = NOWHERE):
        self.abstract = abstract
        self.origin = origin


class ParameterNode(Node):
    """An input of a graph."""

    __slots__ = ("name",)

    def __init__(self, name: str, abstract: Abstract, origin: Origin = NOWHERE):
        super().__init__(abstract, origin)
        self.name = name


class ValueNode(Node):
    """A constant: an ndarray (Tensor), a Python number (Scalar), or None (Token, empty Stack)."""

    __slots__ = ("value",)

    def __init__(self, value: Any, abstract: Abstract, origin: Origin = NOWHERE):
        super().__init__(abstract, origin)
        self.value = value


class CNode(Node):
    """A call of a primitive, of a graph, of Switch, While or Grad."""

    __slots__ = ("callee", "inputs")

    def __init__(
        self, callee: Callee, inputs: Iterable[Node], abstract: Abstract, origin: Origin = NOWHERE
    ):
        super().__init__(abstract, origin)
        self.callee = callee
        self.inputs = tuple(inputs)


LATE = "late cell"  # the scope_kind of a Cell's graph that is inlined at the end


class FuncGraph:
    """A function of the IR: parameters and one output.

    `output` is set once, by the constructor or (for graphs that are referred to before they
    are complete) by ``set_output``.  `scope_kind` says what the user wrote: "function", "cell",
    "arm", "loop", "" ...; it serves drawing.  `bprop`, if given, is the graph of a Cell's own
    gradient: it takes (parameters, outputs, one cotangent per differentiable output) and returns
    a tuple, one cotangent per differentiable parameter; J uses it instead of the chain rule.
    `recompute`: J keeps the parameters only, and its backward graph runs this one again.

    The scope in the `origin` of a Cell's graph, and of calls of it, is that of the Cell itself.
    """

    __slots__ = (
        "name", "parameters", "_output", "_nodes", "_callees", "origin", "scope_kind", "bprop",
        "recompute", "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        parameters: Iterable[ParameterNode],
        output: Node | None = None,
        origin: Origin = NOWHERE,
        scope_kind: str = "function",
        bprop: FuncGraph | None = None,
        recompute: bool = False,
    ):
        self.name = name
        self.parameters = tuple(parameters)
        self._output = output
        self._nodes: list[Node] | None = None
        self._callees: tuple[FuncGraph, ...] | None = None
        self.origin = origin
        self.scope_kind = scope_kind
        self.bprop = bprop
        self.recompute = recompute

    def frame(self, parameters: Iterable[ParameterNode]) -> FuncGraph:
        """A graph like this one with other parameters, no output yet and no bprop."""
        return FuncGraph(
            self.name, parameters, None, self.origin, self.scope_kind, recompute=self.recompute
        )

    @property
    def output(self) -> Node:
        if self._output is None:
            raise ValueError(f"graph {self.name} is not complete")
        return self._output

    @property
    def is_complete(self) -> bool:
        """True once the output is set."""
        return self._output is not None

    def set_output(self, output: Node) -> None:
        if self._output is not None:
            raise ValueError(f"graph {self.name} has an output already")
        self._output = output

    @property
    def abstract(self) -> Abstract:
        return self.output.abstract

    def outputs(self) -> tuple[Node, ...]:
        """The output's parts if it is a MakeTuple, else the output alone."""
        return tuple_parts(self.output) or (self.output,)

    def nodes(self) -> list[Node]:
        """The nodes that the output needs, inputs first (parameters that are unused are absent).

        The list is kept, since a graph never changes: do not write to it.
        """
        if self._nodes is None:
            self._nodes = toposort([self.output])
        return self._nodes

    def callees(self, with_bprop: bool = False) -> list[FuncGraph]:
        """The graphs that this one refers to directly, each once, in order of use.

        `with_bprop`: also, at the end, the graph of its own gradient.
        """
        if self._callees is None:
            nodes = (n for n in self.nodes() if isinstance(n, CNode))
            self._callees = tuple(dict.fromkeys(g for n in nodes for g in graphs_of(n.callee)))
        found = list(self._callees)
        if with_bprop and self.bprop is not None and self.bprop not in found:
            found.append(self.bprop)
        return found

    def graphs(self, with_bprop: bool = False) -> list[FuncGraph]:
        """This graph and every graph reachable from it, each once, callers first.

        `with_bprop`: also the graphs of Cells' own gradients, and what they reach.
        """
        seen: dict[int, FuncGraph] = {}
        todo = [self]
        while todo:
            g = todo.pop()
            if id(g) in seen:
                continue
            seen[id(g)] = g
            todo.extend(reversed(g.callees(with_bprop)))
        return list(seen.values())

    def has_grad(self) -> bool:
        """True if a Grad is still to be expanded in this graph or one that it reaches."""
        nodes = (n for g in self.graphs(with_bprop=True) for n in g.nodes())
        return any(isinstance(n, CNode) and isinstance(n.callee, Grad) for n in nodes)

    def count(self) -> int:
        """The number of CNodes in this graph and all it reaches (tuples' parts not counted)."""
        return sum(
            isinstance(n, CNode) and not is_tuple_plumbing(n)
            for g in self.graphs()
            for n in g.nodes()
        )

    def __str__(self) -> str:
        from minispore.ir.text import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return f"FuncGraph({self.name})"


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """Calls one of several graphs (MindSpore: Switch and SwitchLayer)."""

    graphs: tuple[FuncGraph, ...]


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """Calls `body` on the carry as long as `cond` is true.  `trip_count`: known, or None."""

    cond: FuncGraph
    body: FuncGraph
    n_const: int = 0
    trip_count: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Grad:
    """Outputs and gradients of a graph; what J will expand."""

    graph: FuncGraph
    wrt: tuple[int, ...]
    n_out: int
    with_sens: bool = False


Callee = Primitive | FuncGraph | Switch | While | Grad


def graphs_of(callee: Callee) -> tuple[FuncGraph, ...]:
    """The graphs that a callee refers to."""
    if isinstance(callee, Primitive):  # as most are
        return ()
    if isinstance(callee, FuncGraph):
        return (callee,)
    if isinstance(callee, Switch):
        return callee.graphs
    if isinstance(callee, While):
        return (callee.cond, callee.body)
    return (callee.graph,) if isinstance(callee, Grad) else ()


def with_graphs(callee: Callee, graphs: tuple[FuncGraph, ...]) -> Callee:
    """The callee with its graphs (in the order of ``graphs_of``) replaced."""
    if graphs == graphs_of(callee):
        return callee
    if isinstance(callee, FuncGraph):
        return graphs[0]
    if isinstance(callee, Switch):
        return Switch(graphs)
    if isinstance(callee, While):
        return replace(callee, cond=graphs[0], body=graphs[1])
    if isinstance(callee, Grad):
        return replace(callee, graph=graphs[0])
    return callee


def is_call_of(node: Node, name: str) -> bool:
    """True for a CNode of the primitive called `name`."""
    return (
        isinstance(node, CNode) and isinstance(node.callee, Primitive) and node.callee.name == name
    )


def is_tuple_plumbing(node: Node) -> bool:
    """True for MakeTuple and TupleGetItem, which name values and compute nothing."""
    return is_call_of(node, "MakeTuple") or is_call_of(node, "TupleGetItem")


def tuple_parts(node: Node) -> tuple[Node, ...] | None:
    """The inputs of a MakeTuple; None for any other node."""
    return node.inputs if is_call_of(node, "MakeTuple") else None


def item_index(node: Node) -> int | None:
    """The index of a TupleGetItem; None for any other node."""
    if isinstance(node, CNode) and isinstance(node.callee, Primitive):
        return node.callee.attrs["index"] if node.callee.name == "TupleGetItem" else None
    return None


def toposort(outputs: Iterable[Node], stop: Callable[[Node], bool] | None = None) -> list[Node]:
    """All nodes that `outputs` need, each after its inputs; nodes where `stop` holds are left out.

    Without recursion, so that deep graphs are no problem; the order depends on structure alone.
    """
    order: list[Node] = []
    seen: set[int] = set()
    for out in outputs:
        if id(out) in seen or (stop and stop(out)):
            continue
        seen.add(id(out))
        stack: list[tuple[Node, Iterator[Node]]] = [(out, iter(out.inputs))]
        while stack:
            node, rest = stack[-1]
            for child in rest:
                if id(child) not in seen and not (stop and stop(child)):
                    seen.add(id(child))
                    stack.append((child, iter(child.inputs)))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


@dataclass
class Rebuilder:
    """Copies nodes under a substitution: ``old -> new``; unchanged nodes are kept, not copied.

    `memo` maps id(old) to new, and starts with the substitution (for example parameter -> operand).
    `keep` holds the old nodes alive so that ids stay valid.
    """

    memo: dict[int, Node] = field(default_factory=dict)
    keep: list[Node] = field(default_factory=list)

    def substitute(self, old: Node, new: Node) -> None:
        self.memo[id(old)] = new
        self.keep.append(old)

    def __call__(self, output: Node) -> Node:
        memo = self.memo
        for node in toposort([output], stop=lambda n: id(n) in memo):
            new = node
            if isinstance(node, CNode):
                inputs = tuple(memo[id(i)] for i in node.inputs)
                if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
                    new = CNode(node.callee, inputs, node.abstract, node.origin)
            self.substitute(node, new)
        return memo[id(output)]


def make_tuple(items: Iterable[Node], origin: Origin = NOWHERE) -> CNode:
    """A MakeTuple node."""
    parts = tuple(items)
    abstract = AbstractTuple(tuple(p.abstract for p in parts))
    return CNode(REGISTRY["MakeTuple"].bound(), parts, abstract, origin)


def tuple_item(node: Node, index: int, origin: Origin | None = None) -> Node:
    """Item `index` of a tuple node: its part if it is a MakeTuple, else a TupleGetItem."""
    parts = tuple_parts(node)
    if parts is not None:
        return parts[index]
    assert isinstance(node.abstract, AbstractTuple)
    prim = REGISTRY["TupleGetItem"].bound(index=index)
    return CNode(prim, (node,), node.abstract.items[index], origin or node.origin)


def prim_node(name: str, *inputs: Node, origin: Origin = NOWHERE, **attrs: Any) -> CNode:
    """A call of the primitive called `name`, of the type that it infers."""
    prim = REGISTRY[name].bound(**attrs)
    return CNode(prim, inputs, prim.type_of(*(i.abstract for i in inputs)), origin)


def copied_parameters(
    parameters: Iterable[ParameterNode], sizes: Mapping[str, int] | None = None
) -> list[ParameterNode]:
    """New parameters like those of another graph: no two graphs share one.

    `sizes` take the place of their symbols.
    """
    return [ParameterNode(p.name, at_sizes(p.abstract, sizes or {}), p.origin) for p in parameters]


def inline_call(graph: FuncGraph, operands: Iterable[Node]) -> Node:
    """The output of `graph` with its parameters replaced by operands."""
    rebuild = Rebuilder()
    for p, a in zip(graph.parameters, operands, strict=True):
        rebuild.substitute(p, a)
    return rebuild(graph.output)
