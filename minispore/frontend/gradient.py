"""A function under grad, while evaluating: its region, and the gradients asked for.

The function is evaluated in a region whose explicit parameters are the values to differentiate
by: the chosen arguments, in cells of their own, and the weights, whose cells hold the parameters as
long as the function runs.

For ``grad``, lowering makes a Grad of the region, which the `grad` stage expands by J.  What
``vjp`` and its kin ask for (autodiff/jacobian.py) is J itself, made at once: the forward graph is
called in place of the region, and the backward graph as often as the program likes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minispore import ops
from minispore.abstract import STACK, AbstractScalar
from minispore.autodiff.nodes import backward, items_of, zero_node
from minispore.autodiff.tape import StandIns
from minispore.autodiff.transform import J
from minispore.frontend.carry import mutable
from minispore.frontend.choices import chain_of
from minispore.frontend.heap import Choice, Conflict, GradNode, OutNode, Region, WhileNode, World
from minispore.frontend.lower import Lowering
from minispore.frontend.values import refuse_choice
from minispore.ir.node import CNode, Node, ParameterNode
from minispore.primitive import REGISTRY, apply
from minispore.symbolic import Scalar, scalar_op, wrap
from minispore.tensor import Tensor
from minispore.tree import flatten

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


def call_gradient(
    cotangents_of: Callable, ev: Evaluator, gradient: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """A call of a GradFunction, which selects the variables and packs the result.

    autodiff/api.py is an upper room: its `cotangents_of`, which checks what the caller gave as the
    outputs' cotangents, is passed in.
    """
    own_args, own_kwargs, sens = gradient.split_sens(tuple(args), kwargs)
    function = ev.get_attribute(gradient, "fn")
    ev.get_attribute(gradient, "weights")  # a guard: the same weights at the next call
    run = UnderGrad(ev, function, gradient, own_args, own_kwargs)
    owner = run.owner
    owner.results = run.outs
    if sens is not None:
        owner.has_sens = True
        owner.more = [ev.node_of(c) for c in cotangents_of(gradient.tensors(run.value), sens)]
    found = [ev.wrap_out(owner, k, p.abstract) for k, p in enumerate(run.region.params)]
    return gradient.package(run.value, run.selection, run.by_variable(found))


class UnderGrad:
    """A function that was evaluated in a region of its own, to be differentiated.

    Attributes:
        selection: what it is differentiated with respect to.
        region, owner: the region, and the GradNode that stands for it.
        value: what the function returned.
        outs: the nodes of what is differentiated of it.
    """

    def __init__(
        self, ev: Evaluator, function: Any, gradient: Any, args: tuple, kwargs: dict,
        writes: bool = True,
    ):  # fmt: skip
        self.ev, self.gradient = ev, gradient
        self.selection = gradient.select(args, kwargs)
        weights = [_seen(ev, w) for w in self.selection.weights]
        if gradient.return_ids:
            for w in weights:
                ev.get_attribute(w, "name")
        name = getattr(function, "__name__", type(function).__name__)
        self.region = Region(ev.region, "function", f"grad_{name}", ev.origin)
        self.region.owner = self.owner = GradNode(ev.region, ev.origin, self.region)
        given = [*args, *kwargs.values()]
        self.variables = [*self.selection.inputs, *weights]
        self.params: list[ParameterNode | None] = []
        with ev.within(self.region):
            own = []
            for i, x in enumerate(self.selection.inputs):
                self.params.append(self.parameter(x, f"x{i}"))
                own.append(ev.born(Tensor._of_node(self.params[-1] or ev.node_of(x))))
            self.selection.put(given, own)
            for part in mutable(tuple(given[i] for i in self.selection.numbers)):
                ev.outside.old[id(part)] = "an argument of the differentiated function"
                ev.alive.append(part)
            before = self.enter_weights(weights)
            keywords = dict(zip(kwargs, given[len(args) :], strict=True))
            stand_ins = StandIns([*zip(own, self.selection.inputs, strict=True)])
            ev.stand_ins.append(stand_ins)
            try:
                self.value = ev.call(function, given[: len(args)], keywords)
            finally:
                ev.stand_ins.pop()
            if stand_ins.moved and not writes:
                stand_ins.refuse()
            stand_ins.hand_back()
            self.outs = self.outputs()  # a weight among them is still the variable
        self.leave_weights(weights, before)

    def parameter(self, value: Any, name: str) -> ParameterNode | None:
        """A parameter of the region for a value to differentiate by; None if it has no gradient."""
        if not value._abstract.has_cotangent:
            return None
        param = ParameterNode(name, value._abstract, self.ev.origin)
        self.region.params.append(param)
        self.owner.operands.append(self.ev.node_of(value))
        self.ev.home[id(param)] = self.region
        return param

    def enter_weights(self, weights: list[Any]) -> dict[int, tuple[Node, ParameterNode]]:
        """Put a parameter into each weight's cell: id of the weight -> (node before, parameter)."""
        before: dict[int, tuple[Node, ParameterNode]] = {}
        for w in weights:
            if id(w) not in before and w.requires_grad and w._abstract.has_cotangent:
                self.ev.touch_tensor(w)
                old, param = w._node, self.parameter(w, w.name)
                assert param is not None
                w._node = param
                self.ev.commits.variables[id(param)] = old
                before[id(w)] = (old, param)
        return before

    def leave_weights(
        self, weights: list[Any], before: dict[int, tuple[Node, ParameterNode]]
    ) -> None:
        """Give the weights that were not written their own nodes again; note their parameters."""
        for w in weights:
            old, param = before.get(id(w), (None, None))
            if param is not None and w._node is param:
                w._node = old
            self.params.append(param)

    def outputs(self) -> list[Node]:
        """The nodes of what is differentiated, which no Tensor must choose."""
        found = self.gradient.differentiated(self.value)
        value = self.value[0] if self.gradient.has_aux else self.value
        for part in flatten(value, lambda v: isinstance(v, (Choice, Conflict)))[0]:
            if any(isinstance(v, (Tensor, Conflict)) for v, _ in chain_of(part).values()):
                refuse_choice(part, "what is differentiated")
        return [self.ev.node_of(v) for v in found]

    def by_variable(self, found: Sequence[Tensor]) -> list[Tensor]:
        """One gradient per variable, from those of the region's parameters; else zeros."""
        place = {id(p): gradient for p, gradient in zip(self.region.params, found, strict=True)}
        return [
            ops.zeros_like(v) if p is None else place[id(p)]
            for v, p in zip(self.variables, self.params, strict=True)
        ]

    def seen_outside(self) -> list[Tensor | Scalar | World]:
        """What holds a value of the region and is seen outside: in what the function returned, or
        older and written; the World has the Token.  (There may be more, in lists or objects.)"""
        found = flatten(self.value, lambda v: isinstance(v, (Tensor, Scalar)))[0]
        older = [obj for obj, _, _ in self.region.changes(self.ev.births).values()]
        found += [obj for obj in older if isinstance(obj, (Tensor, World))]
        homes = Lowering(self.ev.home, self.ev.names)
        return [obj for obj in found if homes.is_in(_held(obj), self.region)]


def _held(obj: Tensor | Scalar | World) -> Node:
    """The node that an object holds."""
    if isinstance(obj, World):
        return obj.slots["token"]
    node = obj.node if isinstance(obj, Scalar) else obj._node
    assert node is not None
    return node


def _hold(obj: Tensor | Scalar | World, node: Node) -> None:
    """Give an object another node of the same value."""
    if isinstance(obj, World):
        obj.slots["token"] = node
    elif isinstance(obj, Scalar):
        obj.node = node
    else:
        obj._node = node


def _seen(ev: Evaluator, weight: Any) -> Any:
    """A weight as the evaluated program sees it, its flag guarded."""
    weight = ev.seen(weight)
    if ev.outside.number(weight) is None:
        raise TypeError("which Parameter to differentiate by depends on a Tensor: choose outside")
    ev.get_attribute(weight, "requires_grad")
    return weight


# ---------------------------------------------------------------------- vjp, jvp, jacobians


def linearise(ev: Evaluator, gradient: Any, args: tuple) -> tuple[Any, Callable]:
    """The value of a function at a point, and its pull there: see autodiff/jacobian.py."""
    run = UnderGrad(ev, gradient.fn, gradient, args, {}, writes=False)
    outs = run.outs
    seen = [(obj, _held(obj)) for obj in run.seen_outside()]
    others = {id(n): n for _, n in seen if n not in outs}
    nodes = [*outs, *others.values()]
    run.owner.is_linearised = True
    graph, imports = Lowering(ev.home, ev.names).inner(run.region, nodes)
    fwd, bwd, _ = J(graph, tuple(range(len(run.region.params))), tuple(range(len(outs))))
    ev.outside.gradient_rules()
    items = _called(ev, fwd, [*run.owner.operands, *imports])
    residuals = items[len(nodes) :]
    called = {id(n): item for n, item in zip(nodes, items, strict=False)}
    for obj, node in seen:
        _hold(obj, called[id(node)])
    ev.alive += [*nodes, *items]

    def pull(cotangents: Sequence[Tensor]) -> list[Tensor]:
        origin, ev.origin = ev.origin, backward(ev.origin)
        found = _called(ev, bwd, [*residuals, *map(ev.node_of, cotangents)])
        ev.origin = origin
        return run.by_variable([ev.born(wrap(node)) for node in found])

    return run.value, pull


def _called(ev: Evaluator, graph: Any, operands: list[Node]) -> list[Node]:
    """The results of a graph that is complete, called here."""
    items = items_of(ev.emit(CNode(graph, operands, graph.abstract, ev.origin)))
    for item in items:
        ev.note_sizes(item)
    return items


def stacked(ev: Evaluator, count: int, row: Callable, likes: Sequence[Tensor]) -> list[Tensor]:
    """``row(0) ... row(count - 1)``: a loop that pushes rows on Stacks, which become Tensors."""
    region = Region(ev.region, "loop", "rows", ev.origin)
    region.owner = owner = WhileNode(ev.region, ev.origin, region)
    owner.trip_count = count if isinstance(count, int) else None
    types = [AbstractScalar(int), *(STACK for _ in likes)]
    owner.more = [zero_node(t) for t in types]
    region.params = [ParameterNode("is"[t is STACK], t, ev.origin) for t in types]
    ev.home.update({id(p): region for p in region.params})
    with ev.within(region):
        i, *stacks = region.params
        owner.condition = scalar_op("ScalarLess", Scalar(i), count).node
        rows = row(Scalar(i))
        pushed = [apply(REGISTRY["Push"].bound(), s, r) for s, r in zip(stacks, rows, strict=True)]
        owner.results = [scalar_op("ScalarAdd", Scalar(i), 1).node, *pushed]
    outs = [OutNode(owner, 1 + k, STACK, ev.origin) for k in range(len(likes))]
    return [
        apply(REGISTRY["StackToTensor"].bound(abstract=t._abstract, size=count), out)
        for t, out in zip(likes, outs, strict=True)
    ]
