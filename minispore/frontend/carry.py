"""What code that runs again and again writes: the carry of a loop, the state of a recursion.

Such code is evaluated once, but must be right for every time it runs.  So each older slot (a name,
an item, a Tensor's content ...) that it writes becomes a parameter of its region, and a result.
Which those are is found by evaluating until nothing new is written: a constant that changes rises
to a Scalar, which of several strings or functions a name means to a number; what changes its type
raises Peel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from minispore.abstract import Abstract, AbstractScalar, agree
from minispore.dims import Dim, same
from minispore.frontend.choices import chain_of, kind_of, mark, none_first, number_of, numbered
from minispore.frontend.exits import Peel
from minispore.frontend.heap import (
    UNSET,
    Choice,
    Closure,
    Conflict,
    Env,
    Lazy,
    Region,
    Unset,
    World,
    read_slots,
    write_slots,
)
from minispore.frontend.values import type_name, with_place
from minispore.ir.node import Node, ParameterNode
from minispore.primitive import ScalarLike
from minispore.symbolic import Scalar, wrap
from minispore.tensor import Tensor
from minispore.tree import Constant, Container, Leaf, Structure, constant_key, flatten, unflatten

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


@dataclass
class Carried:
    """A slot that is written: its leaves are carried, its structure is fixed."""

    obj: Any
    slot: Any
    structure: Structure
    abstracts: list[Abstract]
    name: str
    raw: bool = False  # the slot holds a node, not a Tensor (a Tensor's content, the Token)
    olds: list[list[Tensor]] = field(default_factory=list)  # per leaf: older Tensors it may be
    options: list[Any] | None = None  # it is one of these, and its only leaf says which


class Carry:
    """The slots that a region writes each time it runs, and the region's parameters for them.

    `what` names the region in errors.  With `settles`, what changes its type is no Peel but a
    Conflict: an error only if it is read.
    """

    def __init__(self, ev: Evaluator, what: str, settles: bool):
        self.ev, self.what, self.settles = ev, what, settles
        self.region: Region = ev.region
        self.slots: dict[tuple[int, Any], Carried] = {}
        self.lost: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}  # what cannot be carried
        self.vanish: dict[tuple[int, Any], tuple[Any, Any]] = {}  # what has no value before

    # ----------------------------------------------------------------- in and out of the region

    def nodes(self) -> list[Node]:
        """What the carried slots hold."""
        out: list[Node] = []
        for c in self.slots.values():
            value = read_slots(c.obj)[c.slot]
            out += [value] if c.raw else map(self.ev.node_of, self.leaves(c, value))
        return out

    def leaves(self, c: Carried, value: Any) -> list[Any]:
        """The leaves of what a slot holds."""
        return leaves_of(value)[0] if c.options is None else [number_of(c.options, value)]

    def content(self, c: Carried, leaves: list[Any]) -> Any:
        """What a slot holds, of its leaves."""
        if c.options is None:
            return unflatten(c.structure, leaves, known=False)
        return numbered(c.options, leaves[0])

    def enter(self, region: Region) -> None:
        """Give the carried slots parameters of the region as their values."""
        self.region = region
        self.fill(wrap(self.parameter(c.name, a)) for c in self.slots.values() for a in c.abstracts)

    def leave(self, outs: Iterator[Any], given: Sequence[Tensor] = ()) -> None:
        """Give the carried slots the region's results, which may be Tensors that it was given."""
        self.fill(outs, given)
        for obj, slot in self.vanish.values():
            self.store(obj, slot, UNSET)

    def fill(self, values: Iterator[Any], given: Sequence[Tensor] = ()) -> None:
        """Give the carried slots new values, leaf by leaf."""
        stored = []
        for c in self.slots.values():
            leaves = [next(values) for _ in c.abstracts]
            if c.raw:
                found: Any = getattr(leaves[0], "_node", None) or getattr(leaves[0], "node", None)
                value = found or leaves[0]
            else:
                cells = self.cells(c, leaves)
                value = self.content(c, cells)
                self.ev.alive.append(value)
                stored.append((c, cells))
            self.store(c.obj, c.slot, value)
        for c, cells in stored:
            self.note_alternatives(c, cells, given)
        for obj, slot, conflict in self.lost.values():
            self.store(obj, slot, conflict)

    def parameter(self, name: str, abstract: Abstract) -> ParameterNode:
        """A new parameter of the region."""
        param = ParameterNode(name, abstract, self.ev.origin)
        self.region.params.append(param)
        self.ev.home[id(param)] = self.region
        return param

    def cells(self, c: Carried, values: list[Any]) -> list[Any]:
        """The leaves of a carried slot; other names may mean its Tensors: they are not written."""
        leaves = []
        for value, olds in zip(values, c.olds, strict=True):
            if isinstance(value, Tensor):
                what = f"is carried round {self.what}"
                value = self.ev.alternatives.one_of(olds, self.ev.born(value), what)
            leaves.append(value)
        return leaves

    def note_alternatives(self, c: Carried, cells: list[Any], given: Sequence[Tensor] = ()) -> None:
        """The Tensors that a carried Tensor may be, apart from new ones; `given`: or of these."""
        for cell, olds in zip(cells, c.olds, strict=True):
            if isinstance(cell, Tensor):
                more = [t for t in given if t._abstract == cell._abstract]
                if olds or more:
                    self.ev.alternatives.note(cell, [*olds, *more])

    def store(self, obj: Any, slot: Any, value: Any) -> None:
        """Write a slot."""
        self.ev.region.touch(obj)
        slots = read_slots(obj)
        slots[slot] = value
        write_slots(obj, slots)

    # ----------------------------------------------------------------- the carry grows

    def grow(self, changes: dict) -> bool:
        """Add what is newly written; True if the carry grew."""
        grew = False
        for i, (obj, old, now) in changes.items():
            if isinstance(obj, (list, dict, set)) and set(old) != set(now):
                why = f"the number of items of a {type(obj).__name__}: give it all of them before"
                raise Peel(why, self.ev.resized.get(i, ()))
            for slot in dict.fromkeys([*old, *now]):
                before, value = old.get(slot, UNSET), now.get(slot, UNSET)
                key = (i, slot)
                if before is UNSET and isinstance(obj, World):
                    raise Peel(f"attribute '{slot[-1]}' from nothing to {type_name(value)}")
                if before is UNSET:
                    self.vanish[key] = (obj, slot)
                elif key not in self.lost:
                    grew |= self.grow_slot(key, obj, before, value)
        return grew

    def grow_slot(self, key: tuple[int, Any], obj: Any, before: Any, value: Any) -> bool:
        """Carry a slot, if it is written; True if that is new."""
        try:
            if key in self.slots:
                return self.check(self.slots[key], value)
            if before is value or _same_constant(before, value):
                return False
            self.slots[key] = self.carried(obj, key[1], before, value)
        except Peel as why:
            if not self.settles or isinstance(before, Node):
                raise
            self.slots.pop(key, None)
            if not isinstance(value, (Unset, Conflict)):
                value = Conflict(f"{self.what} changes {why}")
            self.lost[key] = (obj, key[1], value)
        return True

    def carried(self, obj: Any, slot: Any, before: Any, value: Any) -> Carried:
        """A slot that holds `before` when the region is entered, and `value` at its end."""
        name = slot if isinstance(slot, str) and isinstance(obj, Env) else "state"
        if isinstance(before, Node):
            if not isinstance(value, Node) or not agree(value.abstract, before.abstract):
                raise Peel("the type of a Tensor")
            return Carried(obj, slot, Container(tuple, ()), [before.abstract], name, raw=True)
        if isinstance(value, (Unset, Conflict)):
            raise Peel(f"'{slot}'")
        options = self.options([before, value])
        if options is not None:
            one = AbstractScalar(int)
            return Carried(obj, slot, Leaf(0), [one], name, olds=[[]], options=options)
        old_leaves, old_structure = leaves_of(before)
        leaves, structure = leaves_of(value)
        if structure != old_structure:
            raise Peel(how(slot, with_place(before), value))
        abstracts = []
        for a, b in zip(old_leaves, leaves, strict=True):
            pair = (abstract_of(a), abstract_of(b))
            if not agree(*pair):
                raise Peel(how(slot, with_place(a), b))
            abstracts.append(pair[0])
        olds = [[v] if isinstance(v, Tensor) else [] for v in old_leaves]
        carried = Carried(obj, slot, structure, abstracts, name, olds=olds)
        self.add_olds(carried, leaves)
        return carried

    def options(self, values: list[Any]) -> list[Any] | None:
        """The strings, functions and None that a slot may hold; None if it may hold others."""
        found = {m: a for v in values for m, (a, _) in chain_of(v).items()}
        options = [found[m] for m in none_first(found)]
        for value in options:
            known = value is None or type(value) is str or _is_function(value)
            if not known or self.is_new(value):
                return None
        return options

    def is_new(self, value: Any) -> bool:
        """True for an object made in the region."""
        home = self.ev.births.get(id(value))
        return home is not None and self.region.encloses(home)

    def add_olds(self, c: Carried, leaves: list[Any]) -> bool:
        """Note the older Tensors that a slot is left with; True if some are new."""
        grew = False
        for olds, leaf in zip(c.olds, leaves, strict=True):
            for t in self.ev.alternatives.of(leaf) if isinstance(leaf, Tensor) else ():
                if not self.is_new(t) and all(t is not old for old in olds):
                    olds.append(t)
                    grew = True
        return grew

    def check(self, c: Carried, value: Any) -> bool:
        """Check that a carried slot keeps its type; True if it may be more Tensors than known."""
        if c.raw:
            if not isinstance(value, Node) or not agree(value.abstract, c.abstracts[0]):
                raise Peel("the type of a Tensor")
            return False
        if isinstance(value, (Unset, Conflict)):
            raise Peel(f"'{c.slot}'")
        if c.options is not None:
            options = self.options([*c.options, value])
            if options is None:
                raise Peel(how(c.slot, " or ".join(map(type_name, c.options)), value))
            grew = len(options) > len(c.options)
            c.options = options
            return grew
        leaves, structure = leaves_of(value)
        found = [abstract_of(v) for v in leaves]
        if structure != c.structure or not all(map(agree, found, c.abstracts)):
            alone = isinstance(c.structure, Leaf)
            before = unflatten(c.structure, c.abstracts, known=False)
            raise Peel(how(c.slot, str(before) if alone else type_name(before), value))
        return self.add_olds(c, leaves)


class Returned:
    """What such code returns: of what type, and which older Tensors it may be.

    `who` returns it, in errors.
    """

    def __init__(self, carry: Carry, who: str):
        self.carry, self.who = carry, who
        self.slot: Carried | None = None

    @property
    def abstracts(self) -> list[Abstract]:
        """The types of the leaves; none as long as nothing is known."""
        return self.slot.abstracts if self.slot else []

    def note(self, value: Any, given: Any = ()) -> bool:
        """Learn from what was returned, and what was given; True if that is new."""
        self.refuse_shared(value, given)
        known, carry = self.slot, self.carry
        options = carry.options([value, *((known and known.options) or ())])
        if options is not None and len(options) > 1:
            self.slot = _result(Leaf(0), [AbstractScalar(int)], options)
            return known is None or len(options) != len(known.options or ())
        leaves, structure = flatten(value, is_leaf)
        self.check(structure)
        types = list(map(abstract_of, leaves))
        if known is None or (structure, types) != (known.structure, known.abstracts):
            self.slot = _result(structure, types)
        assert self.slot is not None
        return carry.add_olds(self.slot, leaves) or self.slot is not known

    def leaves(self, value: Any) -> list[Any]:
        """The leaves of what is returned."""
        assert self.slot is not None
        if self.slot.options:
            return self.carry.leaves(self.slot, value)
        return flatten(value, is_leaf)[0]

    def value(self, outs: list[Any], given: Sequence[Tensor] = ()) -> Any:
        """What is returned, of its leaves; it may be one of the Tensors that were given."""
        assert self.slot is not None
        cells = self.carry.cells(self.slot, outs)
        self.carry.note_alternatives(self.slot, cells, given)
        value = self.carry.content(self.slot, cells)
        for item in mutable(value):
            self.carry.ev.born(item)
        return value

    def check(self, structure: Structure) -> None:
        """Refuse an object that is another one each time."""
        if isinstance(structure, Constant):
            value = structure.value
            if isinstance(value, Conflict):
                raise TypeError(value.why)
            if isinstance(value, (Unset, Lazy)) or self.carry.is_new(value):
                raise TypeError(
                    f"what {self.who} returns ({type_name(value)}) depends on how often it runs: "
                    "return Tensors and numbers, or tuples, lists and dicts of them"
                )
        elif isinstance(structure, Container):
            for item in structure.items:
                self.check(item)

    def refuse_shared(self, value: Any, given: Any) -> None:
        """Refuse lists and dicts that other names mean too: what is returned is a new one."""
        seen = {id(v) for v in mutable(given)}
        for item in mutable(value):
            if id(item) in seen or not self.carry.is_new(item):
                raise TypeError(
                    f"{self.who} returns a {type(item).__name__} that other names mean too: "
                    "return a copy of it"
                )
            seen.add(id(item))


def _result(
    structure: Structure, types: list[Abstract], options: list[Any] | None = None
) -> Carried:
    olds: list[list[Tensor]] = [[] for _ in types]
    return Carried(None, "the result", structure, types, "result", olds=olds, options=options)


def mutable(value: Any) -> Iterator[Any]:
    """The lists and dicts in a value."""
    if isinstance(value, (list, dict)):
        yield value
    if isinstance(value, (list, dict, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from mutable(item)


def _is_function(value: Any) -> bool:
    """True for what is called and nothing else: functions, classes, primitives, Cells."""
    return callable(value) and not isinstance(value, (Tensor, Scalar, Choice, Conflict, Lazy))


def how(slot: Any, was: str, value: Any) -> str:
    """How the type of a carried value changes, in an error's words."""
    now = type_name(value)
    if was != now:
        return f"'{slot}' from {was} to {with_place(value)}: keep its type, dtype and shape"
    advice = ": write its items in place, or use a tuple" if now in ("list", "dict") else ""
    return f"which {now} '{slot}' is{advice}"


def is_leaf(value: Any) -> bool:
    """True for what can be carried by itself: Tensors and numbers."""
    return isinstance(value, (Tensor, ScalarLike)) or type(value) in (bool, int, float)


def leaves_of(value: Any) -> tuple[list[Any], Structure]:
    """The numbers and Tensors in a slot; lists and dicts count as they are (they have identity)."""
    return flatten(value, is_leaf, whole=(list, dict))


def abstract_of(value: Any) -> Abstract:
    """The type of a leaf."""
    if isinstance(value, Tensor):
        return value._abstract
    return AbstractScalar(kind_of(value))


def _same_constant(a: Any, b: Any) -> bool:
    if isinstance(a, Closure) and isinstance(b, Closure):
        return bool(mark(a) == mark(b))
    if isinstance(a, Dim) or isinstance(b, Dim):
        return isinstance(a, (int, Dim)) and isinstance(b, (int, Dim)) and same(a, b)
    return isinstance(a, (bool, int, float, str)) and constant_key(a) == constant_key(b)
