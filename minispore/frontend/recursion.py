"""Recursion that Tensors decide: a graph that calls itself.

A function that is called again with arguments like those of an open call, where a Tensor decides
whether, would be evaluated for ever.  So the open call is undone and evaluated anew as a Recursion:
its Tensors and numbers become parameters of a region, and a call like it becomes a call of that
region.  What such a call returns is found as for a loop's carry: at first nothing is known of it,
and only paths without it give the result its type; then the function is evaluated until the
result, and what it writes of older objects (carry.py), are stable.

Constants stay constants.  But where eight nested calls differ in numbers, those are parameters too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minispore.frontend.carry import Carried, Carry, Returned, abstract_of, is_leaf, mutable
from minispore.frontend.exits import Peel, Unreachable
from minispore.frontend.heap import AgainNode, Frame, GradNode, RecursionNode, Region, RegionNode
from minispore.frontend.source import Code
from minispore.frontend.values import is_symbolic
from minispore.ir.node import Node
from minispore.symbolic import wrap
from minispore.tensor import Tensor
from minispore.tree import constant_key, flatten, unflatten

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

NESTED = 8  # calls that differ in numbers only, before these become parameters
MOST_ALIKE = 30  # calls alike that are evaluated one in the other, if no graph can call itself
ROUNDS = 20  # evaluations until the result's type must be stable


class Call:
    """A function and its arguments, and what tells the call from others."""

    def __init__(self, code: Code, scope: Any, args: list[Any], kwargs: dict[str, Any]):
        self.code, self.scope, self.args, self.kwargs = code, scope, args, kwargs
        self.leaves, self.structure = flatten((args, kwargs), is_leaf)
        self.types = [abstract_of(v) for v in self.leaves]
        self.constants = [None if is_symbolic(v) else constant_key(v) for v in self.leaves]
        self.kind = (id(code.node), id(scope), self.structure, tuple(self.types))

    def names(self) -> list[str]:
        """A name for each leaf: its parameter's."""
        a = self.code.node.args
        positional = [p.arg for p in [*a.posonlyargs, *a.args]]
        more = [a.vararg.arg] * (len(self.args) - len(positional)) if a.vararg else []
        found = [*zip(positional + more, self.args, strict=False), *self.kwargs.items()]
        return [name for name, value in found for _ in flatten(value, is_leaf)[0]]

    def differs(self, other: Call) -> frozenset[int]:
        """The numbers of the leaves that are other constants, or constant in one call only."""
        pairs = enumerate(zip(self.constants, other.constants, strict=True))
        return frozenset(i for i, (a, b) in pairs if a != b)


class Recurs(BaseException):
    """A call of a function leads to one like it: `frame` is to be evaluated as a Recursion.

    No Exception, so that nothing that handles a program's errors handles it.
    """

    def __init__(self, frame: Frame, varied: frozenset[int]):
        self.frame, self.varied = frame, varied


def open_recursion(ev: Evaluator, call: Call) -> Recursion | None:
    """The Recursion that a call belongs to.

    Raises:
        Recurs: an open call must become one.
        RecursionError: nothing that is known while compiling ends the recursion.
    """
    found = [f for f in ev.frames if f.call is not None and f.call.kind == call.kind]
    for frame in found:
        if frame.recursion is not None and frame.recursion.takes(call):
            return frame.recursion
    alike = [f for f in found if f.recursion is None]
    refusal = ev.refused_recursions.get(call.kind)
    same = [f for f in alike if not f.call.differs(call)]
    if refusal is None:
        if same and _is_decided(ev, same[0].region):
            raise Recurs(same[0], frozenset())
        if len(alike) >= NESTED and _is_decided(ev, alike[0].region):
            varied: frozenset[int] = frozenset().union(*(f.call.differs(call) for f in alike))
            raise Recurs(alike[0], varied)
    elif len(same) >= MOST_ALIKE:
        raise refusal
    return None


def _is_decided(ev: Evaluator, outer: Region) -> bool:
    """True if a Tensor decides, within an open region, whether we are here; not within a grad."""
    decided = False
    for region in ev.region.ancestors():
        if region is outer:
            break
        if isinstance(region.owner, GradNode):
            return False
        decided |= region.kind in ("arm", "loop")
    return decided


class Recursion:
    """The evaluation of a function whose calls of itself a Tensor ends.

    `run(args, kwargs, call, self)` evaluates its body; `varied` are the numbers of the constants
    that are parameters, as its Tensors are: all these are the leaves at `places`.
    """

    def __init__(self, ev: Evaluator, name: str, call: Call, varied: frozenset[int], run: Callable):
        self.ev, self.name, self.call, self.run = ev, name, call, run
        self.carry = Carry(ev, f"the recursion of {name}", settles=True)
        self.places = [i for i, key in enumerate(call.constants) if i in varied or key is None]
        leaves = [call.leaves[i] for i in self.places]
        olds = [[v] if isinstance(v, Tensor) else [] for v in leaves]
        types = [call.types[i] for i in self.places]
        self.given = Carried(None, "an argument", call.structure, types, "x", olds=olds)
        self.result = Returned(self.carry, name)
        self.grew = False

    def takes(self, call: Call) -> bool:
        """True if a call of the same kind has the same constants where they are not varied."""
        return call.differs(self.call) <= set(self.places)

    def evaluate(self) -> Any:
        """The value of the call, which has become a call of a graph that calls itself."""
        for _ in range(ROUNDS):
            self.grew = False
            node = self.once()
            if not self.grew:
                return self.finish(node, self.call)
        raise TypeError(f"the type of what {self.name} returns does not settle")

    def once(self) -> RecursionNode:
        """Evaluate the function's body once."""
        ev = self.ev
        region = Region(ev.region, "recursion", self.name, ev.origin)
        self.node = RecursionNode(ev.region, ev.origin, region)
        region.owner = self.node
        self.node.operands = self.operands(self.call)
        with ev.within(region, keeps=False):
            args, kwargs = self.enter(region)
            try:
                value = self.run(
                    args, kwargs, Call(self.call.code, self.call.scope, args, kwargs), self
                )
            except Unreachable:
                raise RecursionError(
                    f"{self.name} calls itself on every path: nothing ends the recursion"
                ) from None
            self.refuse_written((args, kwargs))
            self.grow(region.changes(ev.births))
            self.grew |= self.result.note(value, (args, kwargs))
            if not self.grew:
                leaves = self.result.leaves(value)
                self.node.results = [*map(ev.node_of, leaves), *self.carry.nodes()]
        return self.node

    def enter(self, region: Region) -> tuple[list, dict]:
        """The arguments as the body sees them, and the carried slots."""
        carry, given = self.carry, self.given
        carry.region = region
        names = self.call.names()
        places = zip(self.places, given.abstracts, strict=True)
        params = [wrap(carry.parameter(names[i], a)) for i, a in places]
        carry.enter(region)
        cells = carry.cells(given, params)
        carry.note_alternatives(given, cells)
        leaves = list(self.call.leaves)
        for place, cell in zip(self.places, cells, strict=True):
            leaves[place] = cell
        args, kwargs = unflatten(self.call.structure, leaves, known=False)
        for item in mutable((args, kwargs)):
            self.ev.born(item)
        return args, kwargs

    def again(self, call: Call) -> Any:
        """The value of a call that belongs to this Recursion."""
        ev = self.ev
        self.grow(self.node.region.changes(ev.births, ev.region))
        self.grew |= self.carry.add_olds(self.given, [call.leaves[i] for i in self.places])
        if self.result.slot is None:
            self.grew = True
            raise Unreachable
        node = AgainNode(ev.region, ev.origin, self.node)
        node.operands = self.operands(call)
        return self.finish(node, call)

    def operands(self, call: Call) -> list[Node]:
        """What a call gives to the region: varying arguments, then what the carried slots hold."""
        return [*(self.ev.node_of(call.leaves[i]) for i in self.places), *self.carry.nodes()]

    def finish(self, node: RegionNode, call: Call) -> Any:
        """The value of a call, which `node` gives; the carried slots get what it left there."""
        slots = self.carry.slots.values()
        abstracts = [*self.result.abstracts, *(a for c in slots for a in c.abstracts)]
        outs = [self.ev.wrap_out(node, i, a) for i, a in enumerate(abstracts)]
        n = len(self.result.abstracts)
        given = [v for v in call.leaves if isinstance(v, Tensor)]  # any may be what is returned
        self.carry.leave(iter(outs[n:]), given)
        return self.result.value(outs[:n], given)

    # ----------------------------------------------------------------- until it is stable

    def grow(self, changes: dict) -> None:
        """Carry what is newly written."""
        try:
            self.grew |= self.carry.grow(changes)
        except Peel as why:
            raise why.refusal(self.carry.what) from None

    def refuse_written(self, arguments: Any) -> None:
        """Refuse writes to lists and dicts among the arguments."""
        if any(id(v) in self.node.region.journal for v in mutable(arguments)):
            raise TypeError(f"{self.carry.what} writes a list or dict that it was given: copy it")
