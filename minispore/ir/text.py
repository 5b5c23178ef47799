"""The text form of graphs, close to MindSpore's dumps; it can be read back.

    # IR entry: @main
    # Total subgraphs: 2

    subgraph @main(%para1_x: Tensor[Float32, (2, 3)], %para2_n: int) {
      %1 = ReduceSum(%para1_x) {axis: (0,), keep_dims: False} : Tensor[Float32, (3)]  # m.py:4
      %2 = While[cond=@c, body=@b, const=1](%1, %para2_n, 0) : Tuple[int, int]  # m.py:5
      %3 = TupleGetItem(%2) {index: 1} : int
      return %3
    }

The first graph is the entry.  A callee is ``Primitive``, ``call @graph``, ``Switch[@yes, @no]``,
``While[...]`` or ``Grad[@graph, wrt=(0,), n_out=1]``.  Constants stand where they are used
(literal.py lists how values are written).  ``{`` may be preceded by ``kind 'cell'`` and
``bprop @graph``.  The comment at the end of a line is where the node comes from: ``m.py:4 in
construct; scope net.fc; phase backward; rule mul_one``.  Comments may be left out or edited.

Nodes are numbered in the order of execution, graphs that share a name get ``.1``, ``.2``: the same
graph has the same text, and ``same_graph(parse(to_text(g, full=True)), g)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from minispore.ir.literal import (
    ParseError,
    Scanner,
    read_abstract,
    read_attribute,
    read_constant,
    read_list,
    write_attribute,
    write_constant,
)
from minispore.ir.node import (
    NOWHERE,
    Callee,
    CNode,
    FuncGraph,
    Grad,
    Location,
    Node,
    Origin,
    ParameterNode,
    Switch,
    ValueNode,
    While,
)
from minispore.primitive import REGISTRY, Primitive

__all__ = ["ParseError", "graph_names", "node_names", "parse", "to_text", "write_node"]


# ------------------------------------------------------------------------------------ writing


def to_text(graph: FuncGraph, locations: bool = True, full: bool = False) -> str:
    """The text of a graph and of all that it reaches.

    Args:
        graph: the entry.
        locations: end lines with where their node comes from.
        full: give large constants exactly (``parse`` needs them); else their digest.
    """
    graphs = graph.graphs(with_bprop=True)
    names = graph_names(graphs)
    parts = [f"# IR entry: {names[graph]}\n# Total subgraphs: {len(graphs)}\n"]
    parts += [_write_graph(g, names, locations, full) for g in graphs]
    return "\n".join(parts)


def graph_names(graphs: Iterable[FuncGraph]) -> dict[FuncGraph, str]:
    """A name of its own for each graph, with its ``@``."""
    names: dict[FuncGraph, str] = {}
    taken: set[str] = set()
    for g in graphs:
        name, number = g.name, 0
        while name in taken:
            number += 1
            name = f"{g.name}.{number}"
        taken.add(name)
        names[g] = "@" + _name(name)
    return names


def node_names(graph: FuncGraph) -> dict[Node, str]:
    """``%para1_x`` for parameters, ``%1``, ``%2`` ... for CNodes in the order of ``nodes()``."""
    names: dict[Node, str] = {
        p: f"%para{i}_{_name(p.name)}" for i, p in enumerate(graph.parameters, 1)
    }
    for node in graph.nodes():
        if isinstance(node, CNode):
            names[node] = f"%{len(names) - len(graph.parameters) + 1}"
    return names


def _name(text: str) -> str:
    """A name as it is if it is one word, else in quotes."""
    return text if re.fullmatch(r"[^\s()\[\]{},:=<>#*'\"%@]+", text) else repr(text)


def _write_graph(g: FuncGraph, names: dict[FuncGraph, str], locations: bool, full: bool) -> str:
    nodes = node_names(g)
    parameters = ", ".join(f"{nodes[p]}: {p.abstract}" for p in g.parameters)
    head = f"subgraph {names[g]}({parameters})"
    if g.scope_kind != "function":
        head += f" kind {g.scope_kind!r}"
    if g.recompute:
        head += " recompute"
    if g.bprop is not None:
        head += f" bprop {names[g.bprop]}"
    lines = [head + " {" + _write_origin(g.origin, locations)]
    for node in g.nodes():
        if isinstance(node, CNode):
            text = write_node(node, nodes, names, full)
            lines.append(f"  {text}{_write_origin(node.origin, locations)}")
    lines += [f"  return {_write_operand(g.output, nodes, full)}", "}\n"]
    return "\n".join(lines)


def write_node(
    node: CNode, nodes: dict[Node, str], graphs: dict[FuncGraph, str], full: bool = False
) -> str:
    """The line of a CNode, given the names of nodes and graphs."""
    operands = ", ".join(_write_operand(i, nodes, full) for i in node.inputs)
    attributes = ""
    if isinstance(node.callee, Primitive) and node.callee.attrs:
        items = (f"{k}: {write_attribute(v)}" for k, v in node.callee.attrs.items())
        attributes = f" {{{', '.join(items)}}}"
    callee = _write_callee(node.callee, graphs)
    return f"{nodes.get(node, '%?')} = {callee}({operands}){attributes} : {node.abstract}"


def _write_operand(node: Node, nodes: dict[Node, str], full: bool) -> str:
    if isinstance(node, ValueNode):
        return write_constant(node.value, node.abstract, full)
    return nodes.get(node, "%?")  # only an invalid graph has such a node


def _write_callee(callee: Callee, names: dict[FuncGraph, str]) -> str:
    if isinstance(callee, FuncGraph):
        return f"call {names[callee]}"
    if isinstance(callee, Switch):
        return f"Switch[{', '.join(names[g] for g in callee.graphs)}]"
    if isinstance(callee, While):
        trips = "" if callee.trip_count is None else f", trips={callee.trip_count}"
        parts = f"cond={names[callee.cond]}, body={names[callee.body]}, const={callee.n_const}"
        return f"While[{parts}{trips}]"
    if isinstance(callee, Grad):
        sens = ", sens=True" if callee.with_sens else ""
        wrt = write_attribute(callee.wrt)
        return f"Grad[{names[callee.graph]}, wrt={wrt}, n_out={callee.n_out}{sens}]"
    if isinstance(callee, Primitive):
        return _name(callee.name)
    return write_attribute(callee)  # only an invalid graph has such a callee


def _write_origin(origin: Origin, wanted: bool) -> str:
    where = origin.where
    parts = []
    if where is not None:
        parts.append(f"{where} in {where.function}" if where.function else str(where))
    if origin.scope:
        parts.append(f"scope {origin.scope}")
    if origin.phase != "forward":
        parts.append(f"phase {origin.phase}")
    if origin.rule:
        parts.append(f"rule {origin.rule}")
    return f"  # {'; '.join(parts)}" if wanted and parts else ""


# ------------------------------------------------------------------------------------ reading


def parse(text: str, primitives: Iterable[type[Primitive]] = ()) -> FuncGraph:
    """The graph that a text describes; its first sub-graph is the entry.

    Args:
        text: what ``to_text(graph, full=True)`` writes, or what a person wrote in that form.
        primitives: primitives that are not in the registry.

    Raises:
        ParseError: with the line and a caret.  Types are not checked: ``verify`` does.
    """
    return _Parser(text, {**REGISTRY, **{p.name: p for p in primitives}}).entry()


class _Parser:
    """Reads sub-graphs; a graph that is used before it is read is completed later."""

    def __init__(self, text: str, primitives: dict[str, type[Primitive]]):
        self.scanner = Scanner(text)
        self.primitives = primitives
        self.graphs: dict[str, FuncGraph] = {}
        self.first_use: dict[str, int] = {}  # name -> offset
        self.done: set[str] = set()
        self.nodes: dict[str, Node] = {}  # of the sub-graph that is being read

    def entry(self) -> FuncGraph:
        graph = self.subgraph()
        while self.scanner.kind != "end":
            self.subgraph()
        for name, offset in self.first_use.items():
            if name not in self.done:
                self.scanner.error(f"a sub-graph @{name} somewhere in the text", offset)
        return graph

    def subgraph(self) -> FuncGraph:
        scanner = self.scanner
        scanner.expect("subgraph")
        offset = scanner.offset
        name = self.name("@")
        if name in self.done:
            scanner.error(f"another name: @{name} is the name of an earlier sub-graph", offset)
        graph = self.graph(name, offset)
        self.done.add(name)
        self.nodes = {}
        scanner.expect("(")
        graph.parameters = tuple(read_list(scanner, ")", self.parameter))
        if scanner.found("kind"):
            graph.scope_kind = scanner.string("the kind of scope, in quotes")
        graph.recompute = bool(scanner.found("recompute"))
        if scanner.found("bprop"):
            graph.bprop = self.graph_reference()
        scanner.expect("{")
        graph.origin = self.origin()
        while not scanner.found("return"):
            self.node()
        graph.set_output(self.operand())
        scanner.expect("}")
        return graph

    def parameter(self) -> ParameterNode:
        scanner = self.scanner
        offset = scanner.offset
        name = self.name("%")
        match = re.fullmatch(r"para(\d+)_(.*)", name, re.DOTALL)
        scanner.expect(":")
        node = ParameterNode(match.group(2) if match else name, read_abstract(scanner))
        self.define(name, node, offset)
        return node

    def node(self) -> None:
        scanner = self.scanner
        offset = scanner.offset
        name = self.name("%")
        scanner.expect("=")
        make = self.callee()
        scanner.expect("(")
        operands = read_list(scanner, ")", self.operand)
        attributes = {}
        if scanner.found("{"):
            attributes = dict(read_list(scanner, "}", self.attribute))
        callee = make(attributes)
        scanner.expect(":")
        abstract = read_abstract(scanner)
        self.define(name, CNode(callee, operands, abstract, self.origin()), offset)

    def attribute(self) -> tuple:
        name = self.scanner.word("the name of an attribute")
        self.scanner.expect(":")
        return name, read_attribute(self.scanner)

    def callee(self) -> Callable[[dict], Callee]:
        """Reads a callee; what comes back makes it when the attributes are known."""
        scanner = self.scanner
        kinds: dict[str, Callable[[], Callee]] = {
            "call": self.graph_reference, "Switch": self.switch, "While": self.loop,
            "Grad": self.grad,
        }  # fmt: skip
        for kind, read in kinds.items():
            if scanner.found(kind):
                callee = read()
                return lambda _: callee
        name = scanner.next
        if scanner.kind != "word" or name not in self.primitives:
            scanner.error("a primitive, 'call', 'Switch', 'While' or 'Grad'")
        scanner.take()
        return lambda attributes: self.primitives[name].bound(**attributes)

    def switch(self) -> Switch:
        self.scanner.expect("[")
        return Switch(tuple(read_list(self.scanner, "]", self.graph_reference)))

    def loop(self) -> While:
        cond = self.option("[cond", self.graph_reference)
        body = self.option(",body", self.graph_reference)
        n_const = self.option(",const", lambda: self.scanner.integer("a number"))
        trips = None
        if self.scanner.next == ",":
            trips = self.option(",trips", lambda: self.scanner.integer("a number"))
        self.scanner.expect("]")
        return While(cond, body, n_const, trips)

    def grad(self) -> Grad:
        self.scanner.expect("[")
        graph = self.graph_reference()
        wrt = self.option(",wrt", lambda: read_attribute(self.scanner))
        n_out = self.option(",n_out", lambda: self.scanner.integer("a number"))
        sens = False
        if self.scanner.next == ",":
            sens = self.option(",sens", lambda: read_attribute(self.scanner))
        self.scanner.expect("]")
        return Grad(graph, wrt, n_out, sens)

    def option(self, start: str, read: Callable[[], Any]) -> Any:
        """Reads ``, name=value``; `start` is its mark and its name."""
        self.scanner.expect(start[0])
        self.scanner.expect(start[1:])
        self.scanner.expect("=")
        return read()

    def operand(self) -> Node:
        if not self.scanner.next.startswith("%"):
            value, abstract = read_constant(self.scanner)
            return ValueNode(value, abstract)
        offset = self.scanner.offset
        name = self.name("%")
        if name not in self.nodes:
            self.scanner.error(f"a node that is defined above; %{name} is not", offset)
        return self.nodes[name]

    def define(self, name: str, node: Node, offset: int) -> None:
        if name in self.nodes:
            self.scanner.error(f"a new name; %{name} is defined above", offset)
        self.nodes[name] = node

    def graph_reference(self) -> FuncGraph:
        offset = self.scanner.offset
        return self.graph(self.name("@"), offset)

    def graph(self, name: str, offset: int) -> FuncGraph:
        self.first_use.setdefault(name, offset)
        return self.graphs.setdefault(name, FuncGraph(name, ()))

    def name(self, sigil: str) -> str:
        """A name after its ``%`` or ``@``; the part in quotes may hold anything."""
        scanner = self.scanner
        if not scanner.next.startswith(sigil):
            scanner.error(f"a name with {sigil}")
        offset = scanner.offset
        name = scanner.take()[1:]
        if scanner.kind == "string" and scanner.offset == offset + 1 + len(name):
            name += scanner.string("a name")
        return name

    def origin(self) -> Origin:
        """The origin in the comment that ends this line, if it is one."""
        comment = self.scanner.comments.get(self.scanner.line, "")[1:].strip()
        fields: dict[str, Any] = {}
        for part in comment.split("; "):
            key, _, value = part.partition(" ")
            place = re.fullmatch(r"(.+):(\d+)(?: in (.+))?", part)
            if key in ("scope", "phase", "rule") and value:
                fields[key] = value
            elif place:
                fields["where"] = Location(place[1], int(place[2]), function=place[3] or "")
        return Origin(**fields) if fields else NOWHERE
