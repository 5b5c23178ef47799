"""J: from a graph to the graphs that run it forward and backward.

    J(g) = (fwd, bwd)    fwd: parameters -> outputs, residuals
                         bwd: residuals, cotangents of outputs -> cotangents of parameters

The backward graph is built first: the nodes of `g` are visited from the output to the parameters,
and each turns the cotangents of its outputs into those of its inputs (sweep.py).  The values of `g`
that this reads are the residuals, and fwd is `g` that also returns them; nothing else is kept.

    primitive   its vjp rule, run on nodes; a user's rule if one is registered
    call of f   fwd calls f.fwd, bwd calls f.bwd
    Switch      what has a gradient in some arms only is taken into them (sink.py).  Then fwd's
                arms return the residuals of all arms, zeros for those of the others; bwd is a
                Switch of the arms' bwd on the same choice
    While       fwd's loop pushes each residual of its body on a Stack and counts its turns; bwd's
                loop pops them and counts down.  What depends on loop constants only is passed, not
                stacked
    Push, Pop   each is the gradient of the other, so what J makes, J can differentiate again
    recursion   the residuals of a graph that can reach itself would contain themselves: they are
                packed in one Stack
    Cell.bprop  bwd is the user's own graph
    recompute   of a Cell's graph only the arguments are kept: bwd begins with a pure copy of fwd

A cotangent that is zero is absent: nothing is computed for it, and no 0 * inf spoils a gradient.
So J is asked for the parameters that matter (`wrt`) and the outputs that have a cotangent (`live`),
and tells which parameters got one (`Adjoint.grads`).  Bools and the Token have none; integers only
where the gradient of an integer is asked for: theirs is computed in integers.

MindSpore expands J into closures that return closures, and keeps gradients of free variables in
"environments"; here residuals are plain values, which can be drawn, and order is no limit.
"""

from __future__ import annotations

from collections.abc import Iterable

from minispore.abstract import STACK, TOKEN
from minispore.autodiff.nodes import (
    Adjoint,
    Places,
    backward,
    call_node,
    differentiable,
    fresh_parameters,
    items_of,
    one_node,
    types_of,
    zero_node,
)
from minispore.autodiff.sink import Sink
from minispore.autodiff.sweep import Sweep, set_evaluator
from minispore.ir.interp import register_grad_expander
from minispore.ir.node import (
    CNode,
    FuncGraph,
    Grad,
    Node,
    ParameterNode,
    Rebuilder,
    While,
    copied_parameters,
    graphs_of,
    make_tuple,
    prim_node,
    with_graphs,
)
from minispore.passes.dead_code import dead_code
from minispore.passes.rewrite import Function, copy_graphs, rewrite
from minispore.primitive import Primitive, bprop_getters


class Adjoints:
    """J of each graph, made once: a block that is called twice is differentiated once."""

    def __init__(self) -> None:
        self.known: dict[tuple, Adjoint] = {}
        self.sink = Sink()
        self.callees: dict[FuncGraph, list[FuncGraph]] = {}

    def of(self, graph: FuncGraph, wrt: Places, live: Places) -> Adjoint:
        """J of a graph for these parameters and outputs (numbers in ascending order)."""
        key = (graph, bprop_getters.version, wrt, live)
        if key not in self.known:
            if graph.bprop is not None:
                self.known[key] = custom_adjoint(graph, wrt, live)
            elif self.is_recursive(graph):
                self.pack(key)
            elif graph.recompute:
                self.known[key] = recomputed(graph, live, self.plain(graph, wrt, live))
            else:
                self.known[key] = self.plain(graph, wrt, live)
        return self.known[key]

    def plain(self, graph: FuncGraph, wrt: Places, live: Places) -> Adjoint:
        fwd, douts = fwd_of(graph), douts_of(graph, live)
        sweep = Sweep(self, self.sink(graph, live), wrt, live, fwd.parameters, douts)
        residuals = [p for p, _ in sweep.residuals]
        fwd.set_output(make_tuple([*sweep.results, *(value for _, value in sweep.residuals)]))
        bwd = bwd_of(graph, [*residuals, *douts], make_tuple(sweep.cotangents.values()))
        return Adjoint(fwd, bwd, types_of(residuals), tuple(sweep.cotangents))

    def pack(self, key: tuple) -> None:
        """J of a graph that can reach itself: announced before it is made, residuals in a Stack."""
        graph, _, wrt, live = key
        residuals, douts = ParameterNode("residuals", STACK), douts_of(graph, live)
        fwd, bwd = fwd_of(graph), bwd_of(graph, [residuals, *douts])
        self.known[key] = Adjoint(fwd, bwd, (STACK,), wrt)
        sweep = Sweep(self, self.sink(graph, live), wrt, live, fwd.parameters, douts)
        stack: Node = zero_node(STACK)
        for _, value in sweep.residuals:
            stack = prim_node("Push", stack, value, origin=graph.origin)
        fwd.set_output(make_tuple([*sweep.results, stack]))
        rebuild, stack = Rebuilder(), residuals
        for parameter, _ in reversed(sweep.residuals):
            pop = prim_node("Pop", stack, origin=bwd.origin, abstract=parameter.abstract)
            top, stack = items_of(pop)
            rebuild.substitute(parameter, top)
        found = {i: rebuild(node) for i, node in sweep.cotangents.items()}
        zeros = {i: zero_node(graph.parameters[i].abstract) for i in wrt if i not in found}
        bwd.set_output(make_tuple((found | zeros)[i] for i in wrt))

    def is_recursive(self, graph: FuncGraph) -> bool:
        """True if J of the graph needs J of the graph."""
        seen: set[FuncGraph] = set()
        todo = list(self.differentiated_in(graph))
        while todo:
            g = todo.pop()
            if g is graph:
                return True
            if g not in seen:
                seen.add(g)
                todo += self.differentiated_in(g)
        return False

    def differentiated_in(self, graph: FuncGraph) -> list[FuncGraph]:
        """The graphs whose J the J of this graph needs."""
        if graph not in self.callees:
            found: list[FuncGraph] = []
            for node in graph.nodes() if graph.bprop is None else []:
                if isinstance(node, CNode):
                    callee = node.callee
                    found += [callee.body] if isinstance(callee, While) else graphs_of(callee)
            self.callees[graph] = found
        return self.callees[graph]


def fwd_of(graph: FuncGraph, output: Node | None = None) -> FuncGraph:
    """The frame of a graph's fwd, with parameters of its own."""
    parameters = copied_parameters(graph.parameters)
    return FuncGraph(f"{graph.name}_fwd", parameters, output, graph.origin, graph.scope_kind)


def bwd_of(
    graph: FuncGraph, parameters: Iterable[ParameterNode], output: Node | None = None
) -> FuncGraph:
    """The frame of a graph's bwd."""
    name, origin = f"{graph.name}_bwd", backward(graph.origin)
    return FuncGraph(name, parameters, output, origin, graph.scope_kind)


def douts_of(graph: FuncGraph, live: Places) -> list[ParameterNode]:
    """The parameters of a graph's bwd that take the cotangents of outputs."""
    results = items_of(graph.output)
    return [ParameterNode(f"dout{i}", results[i].abstract) for i in live]


def custom_adjoint(graph: FuncGraph, wrt: Places, live: Places) -> Adjoint:
    """J of a Cell that defines its own bprop: bwd is that graph.

    fwd calls the graph as it is, so that J of fwd uses the bprop again.
    """
    bprop = graph.bprop
    assert bprop is not None
    fwd, douts = fwd_of(graph), douts_of(graph, live)
    outputs = items_of(CNode(graph, fwd.parameters, graph.abstract, graph.origin))
    values = [*fwd.parameters, *outputs]
    read, given = set(bprop.nodes()), dict(zip(live, douts, strict=True))
    rebuild = Rebuilder()
    residuals: list[tuple[ParameterNode, Node]] = []
    for parameter, value in zip(bprop.parameters, values, strict=False):
        if parameter in read:
            stand_in = ParameterNode(f"r{len(residuals)}", value.abstract)
            residuals.append((stand_in, value))
            rebuild.substitute(parameter, stand_in)
    seeds = bprop.parameters[len(values) :]
    for i, parameter in zip(differentiable(outputs, whole=True), seeds, strict=True):
        dout = given.get(i) or zero_node(parameter.abstract, list(given.values()))
        rebuild.substitute(parameter, dout)
    returned = items_of(rebuild(bprop.output))
    cotangents = dict(zip(differentiable(graph.parameters, whole=True), returned, strict=True))
    parameters = [p for p, _ in residuals]
    fwd.set_output(make_tuple([*outputs, *(value for _, value in residuals)]))
    bwd = bwd_of(graph, [*parameters, *douts], make_tuple(cotangents[i] for i in wrt))
    return Adjoint(fwd, bwd, types_of(parameters), wrt)


def recomputed(graph: FuncGraph, live: Places, plain: Adjoint) -> Adjoint:
    """J of a graph that keeps its arguments only (``Cell.recompute``), from J that keeps values.

    The copy in bwd gets the arguments through a Depend on a cotangent: it runs no earlier than
    that, and is not merged with the original.  fwd calls the graph as it is.  A graph whose effects
    cannot be taken out of the copy keeps its values.
    """
    numbers, copy = copy_for_backward(graph, plain)
    types = types_of(copy.parameters)
    if TOKEN in types or not live:
        return plain
    fwd, douts = fwd_of(graph), douts_of(graph, live)
    outputs = items_of(CNode(graph, fwd.parameters, graph.abstract, graph.origin))
    fwd.set_output(make_tuple([*outputs, *(fwd.parameters[k] for k in numbers)]))
    arguments, origin = fresh_parameters(types, "r"), backward(graph.origin)
    later = [prim_node("Depend", a, douts[0], origin=origin) for a in arguments]
    residuals = call_node(copy, later, plain.residuals, origin.made_by("recompute"))
    kinds = [graph.parameters[i].abstract for i in plain.grads]
    cotangents = call_node(plain.bwd, [*residuals, *douts], kinds, origin)
    bwd = bwd_of(graph, [*arguments, *douts], make_tuple(cotangents))
    return Adjoint(fwd, bwd, types, plain.grads)


def copy_for_backward(graph: FuncGraph, adjoint: Adjoint) -> tuple[list[int], FuncGraph]:
    """fwd without its outputs and effects: which arguments it needs, and a graph of those that
    returns the residuals.
    """
    fwd, n = copy_graphs(adjoint.fwd), len(adjoint.residuals)
    values = items_of(fwd.output)
    name, output = f"{graph.name}_recomputed", make_tuple(values[len(values) - n :])
    whole = FuncGraph(name, fwd.parameters, output, graph.origin, graph.scope_kind)
    pure = without_effects(whole)
    read = set(pure.nodes())
    numbers = [k for k, p in enumerate(pure.parameters) if p in read]
    parameters = [pure.parameters[k] for k in numbers]
    return numbers, FuncGraph(name, parameters, pure.output, graph.origin, graph.scope_kind)


def _token_before(node: CNode) -> Node | None:
    """The Token that an effect was given."""
    return node.inputs[0] if isinstance(node.callee, Primitive) and node.callee.effect else None


NO_EFFECTS = Function("no_effects", "an effect -> the Token before it", ("*",), _token_before)


def without_effects(graph: FuncGraph) -> FuncGraph:
    """A graph of the same values that has no effects, for where another one has them."""
    return dead_code(rewrite(graph, [NO_EFFECTS]))


def J(
    graph: FuncGraph,
    wrt: Places | None = None,
    live: Places | None = None,
    adjoints: Adjoints | None = None,
) -> tuple[FuncGraph, FuncGraph, int]:
    """(fwd, bwd, number of residuals) of a graph.

    Args:
        wrt: the parameters whose cotangents bwd returns, in ascending order; all float ones by
            default.
        live: the outputs whose cotangents bwd takes; all float ones by default.
        adjoints: what is known of other graphs.

    fwd takes what the graph takes and returns a tuple: its outputs, then the residuals.  bwd takes
    the residuals and the cotangents of outputs, and returns those of parameters; zeros where there
    is none.
    """
    graph = expand_grad(graph)
    wrt = differentiable(graph.parameters) if wrt is None else wrt
    live = differentiable(items_of(graph.output)) if live is None else live
    adjoint = (adjoints or Adjoints()).of(graph, wrt, live)
    bwd = adjoint.bwd
    if adjoint.grads != wrt:
        found = dict(zip(adjoint.grads, items_of(bwd.output), strict=True))
        dense = [found.get(i) or zero_node(graph.parameters[i].abstract) for i in wrt]
        bwd = bwd_of(graph, bwd.parameters, make_tuple(dense))
    return adjoint.fwd, bwd, len(adjoint.residuals)


# ------------------------------------------------------------------------------- expand_grad


def expand_grad(graph: FuncGraph, adjoints: Adjoints | None = None) -> FuncGraph:
    """A graph of the same value without Grad nodes: each becomes a call of fwd and one of bwd.

    Those inside the graphs that are differentiated come first, so gradients of gradients are J of
    what J made.  The graph itself is returned if there are none.

    Raises:
        RecursionError: a function takes the gradient of itself.
    """
    return GradExpander(graph, adjoints or Adjoints()).result


class GradExpander:
    """Rebuilds the graphs that contain Grad nodes, callees first."""

    def __init__(self, graph: FuncGraph, adjoints: Adjoints):
        self.adjoints = adjoints
        order = callees_first(graph)
        self.new: dict[FuncGraph, FuncGraph] = {}
        for g in reaching_grad(order):
            self.new[g] = g.frame(g.parameters)
        for g in order:
            if g in self.new:
                if g.bprop is not None:
                    self.new[g].bprop = self.new.get(g.bprop, g.bprop)
                self.new[g].set_output(self.rebuilt(g))
        self.result = self.new.get(graph, graph)

    def rebuilt(self, graph: FuncGraph) -> Node:
        """The output of a graph with its Grad nodes expanded, its callees replaced."""
        rebuild = Rebuilder()
        for node in graph.nodes():
            if not isinstance(node, CNode):
                rebuild(node)
                continue
            inputs = [rebuild.memo[id(x)] for x in node.inputs]
            if isinstance(node.callee, Grad):
                if graph in callees_first(node.callee.graph):
                    raise _endless(node)
                rebuild.substitute(node, self.expanded(node, inputs))
                continue
            graphs = tuple(self.new.get(g, g) for g in graphs_of(node.callee))
            callee = with_graphs(node.callee, graphs)
            if callee is node.callee:
                rebuild(node)
            else:
                rebuild.substitute(node, CNode(callee, inputs, node.abstract, node.origin))
        return rebuild(graph.output)

    def expanded(self, node: CNode, inputs: list[Node]) -> Node:
        """The value of a Grad node: the graph's outputs, then the gradients."""
        grad = node.callee
        assert isinstance(grad, Grad)
        graph = self.new.get(grad.graph, grad.graph)
        operands, sens = inputs[: len(graph.parameters)], inputs[len(graph.parameters) :]
        results = items_of(graph.output)
        live = differentiable(results[: grad.n_out], whole=True)
        wrt = tuple(i for i in differentiable(graph.parameters, whole=True) if i in grad.wrt)
        adjoint = self.adjoints.of(graph, wrt, live)
        types = (*types_of(results), *adjoint.residuals)
        items = call_node(adjoint.fwd, operands, types, node.origin.made_by("grad"))
        outputs, residuals = items[: len(results)], items[len(results) :]
        ones = [one_node(results[i].abstract, [outputs[i]]) for i in live if not grad.with_sens]
        douts = sens if grad.with_sens else ones
        kinds = [graph.parameters[i].abstract for i in adjoint.grads]
        cotangents = call_node(adjoint.bwd, [*residuals, *douts], kinds, backward(node.origin))
        found = dict(zip(adjoint.grads, cotangents, strict=True))
        zeros = {i: zero_node(graph.parameters[i].abstract, operands) for i in grad.wrt
                 if i not in found}  # fmt: skip
        return make_tuple([*outputs, *((found | zeros)[i] for i in grad.wrt)], node.origin)


def _endless(node: CNode) -> RecursionError:
    """The error of a Grad node inside the graph that it differentiates."""
    name = node.callee.graph.name.removeprefix("grad_")  # type: ignore[union-attr]
    error = RecursionError(
        f"{name} takes the gradient of a function that calls {name}: its gradient would contain "
        "its own gradient"
    )
    if node.origin.where is not None:
        error.add_note(f"While compiling the graph:\n{node.origin.where.shown()}")
    return error


def callees_first(graph: FuncGraph) -> list[FuncGraph]:
    """All graphs that a graph reaches, each after those it refers to (but for cycles)."""
    order: list[FuncGraph] = []
    seen = {graph}
    stack = [(graph, iter(graph.callees(with_bprop=True)))]
    while stack:
        current, rest = stack[-1]
        for callee in rest:
            if callee not in seen:
                seen.add(callee)
                stack.append((callee, iter(callee.callees(with_bprop=True))))
                break
        else:
            order.append(current)
            stack.pop()
    return order


def reaching_grad(graphs: list[FuncGraph]) -> set[FuncGraph]:
    """Those of the graphs that contain a Grad node or refer to one that does."""
    calls = {g: (n.callee for n in g.nodes() if isinstance(n, CNode)) for g in graphs}
    own = {g for g, callees in calls.items() if any(isinstance(c, Grad) for c in callees)}
    return {g for g in graphs if not own.isdisjoint(g.graphs(with_bprop=True))}


register_grad_expander(lambda graph, sizes: expand_grad(copy_graphs(graph, sizes)))

__all__ = ["Adjoint", "Adjoints", "J", "expand_grad", "set_evaluator", "without_effects"]
