"""From regions to closed graphs.

While evaluating, a node of any region may be used in any other.  Lowering finds out, from the
outputs backwards, which values each region must be given and which it must give:

* a value of an enclosing region is *imported*: it becomes a parameter, and an operand of the call;
* a value of a region that is closed is *exported*: it becomes one more output of that region.

Nothing that is not needed is ever lowered, so a list built in a called function, a closure over a
local Tensor or a write to an object's attribute need no bookkeeping while the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from minispore.abstract import Abstract, AbstractTuple
from minispore.autodiff.nodes import unread_node, zero_node
from minispore.autodiff.transform import expand_grad, without_effects
from minispore.frontend.heap import (
    AgainNode,
    CallNode,
    GradNode,
    OutNode,
    RecursionNode,
    Region,
    RegionNode,
    SwitchNode,
    WhileNode,
)
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Node,
    ParameterNode,
    Switch,
    ValueNode,
    While,
    copied_parameters,
    make_tuple,
    tuple_item,
)

_ESCAPES: dict[type, str] = {
    WhileNode: "a value made inside a loop that runs in the graph is used after the loop: give its "
    "name a value of the same type before the loop",
    RecursionNode: "a value made inside a function that calls itself as Tensors decide is used "
    "after the call: return it",
}


class Lowering:
    """Lowers the regions below one root; `home` tells where each node was born."""

    def __init__(self, home: dict[int, Region], names: dict[int, str]):
        self.home, self.names = home, names
        self.seen: set[tuple[int, int]] = set()
        self.active: set[int] = set()
        self.imports: dict[int, dict[int, Node]] = {}
        self.exports: dict[int, dict[int, Node]] = {}
        self.wanted: dict[int, set[int]] = {}  # SwitchNode -> numbers of its outs
        self.made: list[Node] = []
        self.again: dict[int, list[AgainNode]] = {}  # RecursionNode -> the calls within it
        self.top: Region | None = None  # whose imports are its caller's concern; see ``inner``

    def inner(self, region: Region, outputs: list[Node]) -> tuple[FuncGraph, list[Node]]:
        """The graph of a complete region, while those around it are not; and what it imports."""
        self.top = region
        self._demand([(n, region) for n in outputs])
        imports = self.imported(region)
        graph = self.close(region, region.params, imports, outputs, region.kind, as_tuple=True)
        return graph, imports

    def graph(self, root: Region, outputs: list[Node]) -> FuncGraph:
        """The closed graph of `root`; its output is the tuple of `outputs`."""
        self._demand([(n, root) for n in outputs])
        build = _Builder(self, root, {id(p): p for p in root.params})
        nodes = [build(n) for n in outputs]
        return FuncGraph(root.name, root.params, make_tuple(nodes, root.origin), root.origin)

    def home_of(self, node: Node) -> Region:
        """The region of a node; of a node made beside the evaluator, that of its inputs."""
        if isinstance(node, OutNode):
            return node.owner.parent
        found = self.home.get(id(node))
        if found is None:
            homes = [self.home_of(i) for i in node.inputs if not isinstance(i, ValueNode)]
            found = homes[0]
            for h in homes[1:]:
                found = h if found.encloses(h) else found
            self.home[id(node)] = found
        return found

    def is_in(self, node: Node, region: Region) -> bool:
        """True for a node of a region, or of one inside it."""
        return not isinstance(node, ValueNode) and region.encloses(self.home_of(node))

    # ------------------------------------------------------------------ first: who needs what

    def _demand(self, todo: list[tuple[Node, Region]]) -> None:
        while todo:
            node, region = todo.pop()
            key = (id(node), id(region))
            if isinstance(node, ValueNode) or key in self.seen:
                continue
            self.seen.add(key)
            home = self.home_of(node)
            if home is region:
                todo.extend(self._inputs(node, region))
                continue
            closed = self._closed_child(home, region)
            if closed is not None:
                self.exports.setdefault(id(closed), {})[id(node)] = node
                assert closed.owner is not None
                if isinstance(closed.owner, (WhileNode, RecursionNode)):
                    raise TypeError(_ESCAPES[type(closed.owner)])
                todo.append((node, closed))
                todo.extend(self._activate(closed.owner))
                continue
            assert region.parent is not None, f"{node} is not reachable from {region.name}"
            self.imports.setdefault(id(region), {})[id(node)] = node
            if region is not self.top:
                todo.append((node, region.parent))
                todo += [(node, a.parent) for a in self.again.get(id(region.owner), ())]

    def _closed_child(self, home: Region, region: Region) -> Region | None:
        """The region directly inside `region` that holds `home`, if there is one."""
        below = None
        for r in home.ancestors():
            if r is region:
                return below
            below = r
        return None

    def _inputs(self, node: Node, region: Region) -> list[tuple[Node, Region]]:
        if not isinstance(node, OutNode):
            return [(i, region) for i in node.inputs]
        todo = self._activate(node.owner)
        if isinstance(node.owner, SwitchNode):
            self.wanted.setdefault(id(node.owner), set()).add(node.index)
            arms = zip(node.owner.outs[node.index], node.owner.regions, strict=True)
            todo += [(value, arm) for value, arm in arms if value is not None]
        return todo

    def _activate(self, owner: RegionNode) -> list[tuple[Node, Region]]:
        """What a RegionNode needs as soon as any of its values is needed."""
        if id(owner) in self.active:
            return []
        self.active.add(id(owner))
        outside = [(n, owner.parent) for n in (*owner.operands, *owner.more)]
        inside = [(n, owner.region) for n in owner.results]
        if isinstance(owner, AgainNode):
            if self.top is not None and not self.top.encloses(owner.region):
                name = owner.region.name
                raise RecursionError(
                    f"{name} takes the gradient of a function that calls {name}: its gradient "
                    "would contain its own gradient"
                )
            self.again.setdefault(id(owner.recursion), []).append(owner)
            return outside + [(n, owner.parent) for n in self.imported(owner.region)]
        if isinstance(owner, CallNode) and owner.custom is not None:
            cotangents = [(n, owner.custom.region) for n in owner.custom.cotangents]
            return outside + inside + cotangents
        if isinstance(owner, WhileNode):
            assert owner.condition is not None
            inside.insert(0, (owner.condition, owner.region))
        return inside + outside

    def imported(self, *regions: Region) -> list[Node]:
        """The values of outside that any of the regions uses, each once, in order of use."""
        union: dict[int, Node] = {}
        for region in regions:
            union.update(self.imports.get(id(region), {}))
        return list(union.values())

    def exported(self, region: Region) -> list[Node]:
        return list(self.exports.get(id(region), {}).values())

    def zero(self, abstract: Abstract, region: Region) -> Node:
        """A zero, made in a region."""
        node = zero_node(abstract)
        self.home[id(node)] = region
        self.made.append(node)  # so that its id stays valid
        return node

    # ------------------------------------------------------------------ then: build the graphs

    def close(
        self,
        region: Region,
        explicit: list[ParameterNode],
        imports: list[Node],
        outputs: Iterable[Node],
        kind: str,
        name: str = "",
        as_tuple: bool = False,
    ) -> FuncGraph:
        """A graph with explicit parameters first, then one for each imported value."""
        params = copied_parameters(explicit)
        memo: dict[int, Node] = {id(p): q for p, q in zip(explicit, params, strict=True)}
        for i, node in enumerate(imports):
            param = ParameterNode(self._name(node, i), node.abstract, node.origin)
            params.append(param)
            memo[id(node)] = param
        graph = FuncGraph(name or region.name, params, None, region.origin, kind)
        if isinstance(region.owner, RecursionNode):
            region.owner.graph = graph  # the calls within it refer to it
        build = _Builder(self, region, memo)
        nodes = [build(n) for n in outputs]
        single = len(nodes) == 1 and not as_tuple
        graph.set_output(nodes[0] if single else make_tuple(nodes, region.origin))
        return graph

    def _name(self, node: Node, index: int) -> str:
        own = node.name if isinstance(node, ParameterNode) else f"v{index}"
        return self.names.get(id(node), own)


class _Builder:
    """Builds the nodes of one region; `memo` starts with the region's parameters."""

    def __init__(self, lowering: Lowering, region: Region, memo: dict[int, Node]):
        self.lowering, self.region, self.memo = lowering, region, memo
        self.owners: dict[int, tuple[Node, dict[int, int]]] = {}

    def __call__(self, output: Node) -> Node:
        """The final node of `output`, after those of all it needs (no recursion over nodes)."""
        stack = [output]
        while stack:
            node = stack[-1]
            if id(node) in self.memo or isinstance(node, ValueNode):
                stack.pop()
                continue
            waiting = [m for m in self._needs(node) if self._waits(m)]
            if waiting:
                stack.extend(waiting)
            else:
                stack.pop()
                self.memo[id(node)] = self._make(node)
        return self._final(output)

    def _waits(self, node: Node) -> bool:
        return id(node) not in self.memo and not isinstance(node, ValueNode)

    def _final(self, node: Node) -> Node:
        return node if isinstance(node, ValueNode) else self.memo[id(node)]

    def _owner(self, node: Node) -> RegionNode | None:
        """The RegionNode whose value `node` is here, or None for a node of this region."""
        if self.lowering.home_of(node) is not self.region:
            child = self.lowering._closed_child(self.lowering.home_of(node), self.region)
            assert child is not None and child.owner is not None
            return child.owner
        return node.owner if isinstance(node, OutNode) else None

    def _needs(self, node: Node) -> list[Node]:
        owner = self._owner(node)
        if owner is None:
            return list(node.inputs)
        return [] if id(owner) in self.owners else self._operands(owner)

    def _make(self, node: Node) -> Node:
        owner = self._owner(node)
        if owner is None:
            assert isinstance(node, CNode), f"a parameter of another region: {node}"
            inputs = [self._final(i) for i in node.inputs]
            return CNode(node.callee, inputs, node.abstract, node.origin)
        if id(owner) not in self.owners:
            self.owners[id(owner)] = self._make_owner(owner)
        call, places = self.owners[id(owner)]
        key = ("out", node.index) if isinstance(node, OutNode) and node.owner is owner else id(node)
        place = places[key]  # type: ignore[index]
        return call if place < 0 else tuple_item(call, place, node.origin)

    def _operands(self, owner: RegionNode) -> list[Node]:
        return [*owner.operands, *self.lowering.imported(*owner.regions), *owner.more]

    def _make_owner(self, owner: RegionNode) -> tuple[Node, dict]:
        """The CNode of a region, and where each of its values lies in it (-1: it is the value)."""
        make = {
            SwitchNode: self._switch,
            WhileNode: self._while,
            RecursionNode: self._recursion,
            AgainNode: self._again,
            GradNode: self._grad,
            CallNode: self._call,
        }[type(owner)]
        callee, abstract, places = make(owner)  # type: ignore[operator]
        operands = [self._final(n) for n in self._operands(owner)]
        return CNode(callee, operands, abstract, owner.origin), places

    def _call(self, owner: CallNode) -> tuple:
        if owner.custom is not None:
            return self._custom_call(owner)
        outputs = self.lowering.exported(owner.region)
        imports = self.lowering.imported(owner.region)
        graph = self.lowering.close(owner.region, [], imports, outputs, owner.region.kind)
        graph.recompute = owner.region.recompute
        return graph, graph.abstract, _places(outputs)

    def _custom_call(self, owner: CallNode) -> tuple:
        custom, lowering = owner.custom, self.lowering
        assert custom is not None
        imports = lowering.imported(*owner.regions)
        extra = [n for n in lowering.exported(owner.region) if n not in owner.results]
        outputs = owner.results + extra
        explicit = list(owner.region.params)
        graph = lowering.close(
            owner.region, explicit, imports, outputs, "cell", as_tuple=len(outputs) != 1
        )
        n_args = len(owner.operands)
        # bprop's own parameters, with the imported values after the arguments, and unused
        # ones for outputs that are no results of construct (writes, effects).
        args, rest = custom.params[:n_args], custom.params[n_args:]
        outs, douts = rest[: len(owner.results)], rest[len(owner.results) :]
        spare = [ParameterNode("unused", n.abstract) for n in extra]
        dspare = [ParameterNode("unused", n.abstract) for n in extra if n.abstract.has_cotangent]
        inner = lowering.close(
            custom.region, [*args, *outs, *spare, *douts, *dspare], imports,
            [*custom.cotangents, *(lowering.zero(n.abstract, custom.region) for n in imports
                                   if n.abstract.has_cotangent)],
            "cell", custom.region.name, as_tuple=True,
        )  # fmt: skip
        n_imports, n = len(imports), len(inner.parameters)
        params = list(inner.parameters)
        ordered = params[:n_args] + params[n - n_imports :] + params[n_args : n - n_imports]
        graph.bprop = FuncGraph(inner.name, ordered, inner.output, inner.origin, "cell")
        return graph, graph.abstract, _places(outputs)

    def _switch(self, owner: SwitchNode) -> tuple:
        lowering = self.lowering
        wanted = sorted(lowering.wanted.get(id(owner), ()))
        imports = lowering.imported(*owner.regions)
        exports = [lowering.exported(r) for r in owner.regions]
        graphs = []
        for k, region in enumerate(owner.regions):
            outputs: list[Node] = []
            for j in wanted:
                value = owner.outs[j][k]
                template = next(v for v in owner.outs[j] if v is not None)
                outputs.append(unread_node(template.abstract) if value is None else value)
            for j, others in enumerate(exports):
                outputs += others if j == k else [unread_node(n.abstract) for n in others]
            graphs.append(lowering.close(region, [], imports, outputs, "arm"))
        names = [("out", j) for j in wanted] + [id(n) for e in exports for n in e]
        places = {n: -1 if len(names) == 1 else i for i, n in enumerate(names)}
        return Switch(tuple(graphs)), graphs[0].abstract, places

    def _while(self, owner: WhileNode) -> tuple:
        lowering, region = self.lowering, owner.region
        imports = lowering.imported(region)
        assert owner.condition is not None

        def close(outputs: list[Node], name: str, as_tuple: bool) -> FuncGraph:
            graph = lowering.close(
                region, region.params, imports, outputs, "loop", name, as_tuple=as_tuple
            )
            n = len(region.params)  # constants of the loop come first, then the carry
            ordered = graph.parameters[n:] + graph.parameters[:n]
            return FuncGraph(graph.name, ordered, graph.output, graph.origin, "loop")

        cond = close([owner.condition], f"{region.name}_cond", False)
        body = close(owner.results, f"{region.name}_body", True)
        callee = While(cond, body, len(imports), owner.trip_count)
        return callee, body.abstract, {("out", i): i for i in range(len(owner.results))}

    def _recursion(self, owner: RecursionNode) -> tuple:
        region = owner.region
        imports = self.lowering.imported(region)
        graph = self.lowering.close(
            region, region.params, imports, owner.results, "function", as_tuple=True
        )
        return graph, graph.abstract, {("out", i): i for i in range(len(owner.results))}

    def _again(self, owner: AgainNode) -> tuple:
        """A call of a graph that is being built."""
        graph, results = owner.recursion.graph, owner.recursion.results
        assert graph is not None
        abstract = AbstractTuple(tuple(n.abstract for n in results))
        return graph, abstract, {("out", i): i for i in range(len(results))}

    def _grad(self, owner: GradNode) -> tuple:
        lowering, region = self.lowering, owner.region
        imports = lowering.imported(region)
        exports = [n for n in lowering.exported(region) if all(n is not o for o in owner.results)]
        outputs = owner.results + exports
        graph = lowering.close(region, region.params, imports, outputs, "function", as_tuple=True)
        if owner.is_linearised:
            values = without_effects(expand_grad(graph))
            return values, values.abstract, {id(n): i for i, n in enumerate(outputs)}
        wrt = tuple(range(len(region.params)))
        callee = Grad(graph, wrt, len(owner.results), owner.has_sens)
        items = [n.abstract for n in outputs] + [p.abstract for p in region.params]
        places: dict = {id(n): i for i, n in enumerate(outputs)}
        places |= {("out", i): len(outputs) + i for i in range(len(region.params))}
        return callee, AbstractTuple(tuple(items)), places


def _places(outputs: list[Node]) -> dict:
    return {id(n): -1 if len(outputs) == 1 else i for i, n in enumerate(outputs)}
