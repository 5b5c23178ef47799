"""The evaluator's heap: environments, regions and the journal.

One mechanism, the Region, serves an arm of an `if`, the body of a loop, a called function, a
function under grad, and the jitted function itself.  Every write to a name, list, dict, attribute
or Tensor is journaled in the innermost region, so that a region can be rolled back, and what it
changed can be compared with what another region changed.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from minispore.abstract import Abstract
from minispore.frontend.source import Code
from minispore.ir.node import FuncGraph, Location, Node, Origin, ParameterNode
from minispore.symbolic import Scalar
from minispore.tensor import Tensor
from minispore.tree import Picked


class Unset:
    """The content of a slot that has none: reading it is an UnboundLocalError."""

    def __repr__(self) -> str:
        return "<unset>"


UNSET = Unset()


class Conflict:
    """Two arms left values that no graph can merge: reading it is a TypeError.

    With `of_size` it is every item of a list, dict or set that has not the same size (or keys) in
    all arms: then nothing can be done with the container either.
    """

    def __init__(self, why: str, of_size: bool = False):
        self.why, self.of_size = why, of_size

    def __eq__(self, other: object) -> bool:
        raise TypeError(self.why)

    __hash__ = object.__hash__


class Choice(Picked):
    """A value that is one of several, picked at run time by a bool Scalar.

    Alternatives are functions, Cells, strings, None, objects, or a Tensor beside them; `options` is
    (value if true, value if false).  The second may be a Choice again: each condition says that the
    value is the first option, whatever the conditions around it say.  Where an index picks among
    many, `table` holds it and them: one Switch serves all.
    """

    def __init__(self, which: Scalar, if_true: Any, if_false: Any):
        super().__init__(which, if_true, if_false)
        self.table: tuple[Node, tuple[Any, ...]] | None = None

    @property
    def condition(self) -> Node:
        return self.which.node

    @property
    def options(self) -> tuple[Any, Any]:
        return self.if_true, self.if_false

    def pickers(self) -> list[tuple[Node, tuple[Any, ...]]]:
        """The nodes that pick, the best one first, each with what it picks from."""
        chain = (self.condition, self.options)
        return [chain] if self.table is None else [self.table, chain]

    def __eq__(self, other: object) -> bool:
        raise TypeError(
            "a value that depends on a Tensor is compared inside a container: compare it alone"
        )

    def __hash__(self) -> int:
        raise TypeError(
            "a value that depends on a Tensor cannot be a dict key or in a set: use each key in an "
            "arm of its own"
        )


class Env:
    """The names of one activation of a function; `parent` is where its closure was made.

    `local` are the names that Python's compiler gives this scope, whether they have a value or not.
    """

    __slots__ = ("slots", "parent", "local")

    def __init__(self, parent: Env | None = None, local: frozenset[str] = frozenset()):
        self.slots: dict[str, Any] = {}
        self.parent, self.local = parent, local


END: Any = object()  # what an exhausted Lazy gives


class Lazy:
    """A Python iterator: `advance` gives the next item, or END.

    Its position is in `slots`, so that it is journaled; it runs lazily, as Python's own do.
    """

    __slots__ = ("slots", "advance")

    def __init__(self, advance: Callable[[Lazy], Any], **slots: Any):
        self.slots: dict[Any, Any] = slots
        self.advance = lambda: advance(self)

    def __iter__(self) -> Lazy:
        return self

    def __next__(self) -> Any:
        item = self.advance()
        if item is END:
            raise StopIteration
        return item


@dataclass(slots=True)
class Frame:
    """One activation of a user's function; `owner` is the real function whose globals it sees.

    `call` says of what (see recursion.py), `region` where, `recursion` whether it calls itself as
    Tensors decide.  `pending` are the ids of lists and dicts that its return statements have just
    made: no name means them yet.
    """

    code: Code
    env: Env
    owner: types.FunctionType
    where: Location
    call: Any
    region: Region
    recursion: Any = None
    pending: set[int] = field(default_factory=set)


class Closure:
    """A function made while evaluating: its AST and the environment where it was made."""

    def __init__(
        self, evaluator: Any, code: Code, env: Env, owner: types.FunctionType,
        defaults: list[Any], kw_defaults: dict[str, Any],
    ):  # fmt: skip
        self.evaluator, self.code, self.env, self.owner = evaluator, code, env, owner
        self.defaults, self.kw_defaults = defaults, kw_defaults
        self.__name__ = code.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.evaluator.call(self, list(args), kwargs)


Lazy.__name__, Closure.__name__ = "iterator", "function"  # in Python's own errors


class World:
    """What belongs to no object made here: the Token, and attributes of older objects.

    `base` is what such attributes were before they were written in an arm or a loop.
    """

    __slots__ = ("slots", "base")

    def __init__(self, token: Node):
        self.slots: dict[Any, Any] = {"token": token}
        self.base: dict[Any, Any] = {}


Heap = Any  # what has slots: Env, World, Lazy, list, dict, set, Tensor, any with __dict__
Journal = dict[int, tuple[Heap, dict[Any, Any]]]  # id -> an object, and what it held


def read_slots(obj: Heap) -> dict[Any, Any]:
    """A copy of what `obj` holds: slot -> value."""
    if isinstance(obj, World):
        return obj.base | obj.slots
    if isinstance(obj, (Env, Lazy)):
        return dict(obj.slots)
    if isinstance(obj, list):
        return dict(enumerate(obj))
    if isinstance(obj, dict):
        return dict(obj)
    if isinstance(obj, set):
        return dict.fromkeys(obj)
    if isinstance(obj, Tensor):
        return {"value": obj._node}
    return dict(getattr(obj, "__dict__", {})) | {n: getattr(obj, n) for n in _slot_names(obj)}


def _slot_names(obj: Any) -> list[str]:
    """The names in ``__slots__`` of an object's class that have a value."""
    places = [k.__dict__.get("__slots__", ()) for k in type(obj).__mro__]
    names = [n for p in places for n in ((p,) if isinstance(p, str) else p)]
    return [n for n in names if not n.startswith("__") and hasattr(obj, n)]


def write_slots(obj: Heap, slots: dict[Any, Any]) -> None:
    """Make `obj` hold exactly `slots`."""
    if isinstance(obj, (Env, World, Lazy)):
        obj.slots = dict(slots)
    elif isinstance(obj, list):
        obj[:] = slots.values()
    elif isinstance(obj, Tensor):
        obj._node = slots["value"]
    elif isinstance(obj, (dict, set)):
        obj.clear()
        obj.update(slots)
    else:
        for name in [*getattr(obj, "__dict__", ()), *_slot_names(obj)]:
            object.__delattr__(obj, name)
        for name, value in slots.items():
            object.__setattr__(obj, name, value)


class Region:
    """A piece of program that becomes a graph of its own.

    `params` are its explicit parameters (a loop's carry, the variables of a gradient).  Values of
    enclosing regions are used freely while evaluating; lowering turns them into operands.
    """

    def __init__(
        self, parent: Region | None, kind: str, name: str, origin: Origin, owner: Any = None
    ):
        self.parent, self.kind, self.name, self.origin = parent, kind, name, origin
        self.owner: RegionNode | None = owner
        self.recompute = False  # the graph's `recompute`
        self.params: list[ParameterNode] = []
        self.journal: Journal = {}
        self.outer_journals: list[Journal] = []  # of the trials that are open, outermost first
        # A Tensor decides whether, or how often, it runs.
        self.is_conditional = kind in ("arm", "loop", "recursion")

    def ancestors(self) -> Iterator[Region]:
        """This region and those around it, innermost first."""
        region: Region | None = self
        while region is not None:
            yield region
            region = region.parent

    def encloses(self, other: Region) -> bool:
        """True if `other` is this region or lies within it."""
        return any(r is self for r in other.ancestors())

    def touch(self, obj: Heap) -> None:
        """Remember what `obj` holds, before it is written for the first time in this region."""
        if id(obj) not in self.journal:
            self.journal[id(obj)] = (obj, read_slots(obj))

    def older(
        self, births: dict[int, Region], journal: Journal | None = None
    ) -> list[tuple[Heap, dict[Any, Any]]]:
        """The journal without the objects that were made in this region."""
        return [
            (obj, slots)
            for i, (obj, slots) in (self.journal if journal is None else journal).items()
            if i not in births or not self.encloses(births[i])
        ]

    def changes(
        self, births: dict[int, Region], until: Region | None = None
    ) -> dict[int, tuple[Heap, dict, dict]]:
        """What was written of older objects: id -> (object, slots before, slots now).

        `until`: a region within this one that is still open: what was written before and in it.
        """
        journal: Journal = {}
        for region in (until or self).ancestors():  # the outermost knows what there was at first
            for entries in [region.journal, *reversed(region.outer_journals)]:
                journal |= entries
            if region is self:
                break
        changes = {}
        for obj, old in self.older(births, journal):
            before = obj.base | old if isinstance(obj, World) else old
            changes[id(obj)] = (obj, before, read_slots(obj))
        return changes

    def roll_back(self, births: dict[int, Region]) -> None:
        """Undo every write of this region to older objects."""
        for obj, slots in self.older(births):
            write_slots(obj, slots)

    def hand_up(self) -> None:
        """Keep the writes, as writes of the enclosing region."""
        if self.parent is not None:
            for i, entry in self.journal.items():
                self.parent.journal.setdefault(i, entry)


class Trial:
    """Evaluates something in a region that is open, whose writes may have to be undone."""

    def __init__(self, region: Region, kept: bool = False):
        self.region, self.kept = region, kept

    def __enter__(self) -> Trial:
        self.region.outer_journals.append(self.region.journal)
        self.region.journal = {}
        return self

    def __exit__(self, *error: Any) -> None:
        new, saved = self.region.journal, self.region.outer_journals.pop()
        if not self.kept:
            for obj, slots in new.values():
                write_slots(obj, slots)
        else:
            for i, entry in new.items():
                saved.setdefault(i, entry)
        self.region.journal = saved


# ------------------------------------------------------- nodes that stand for regions
#
# While a program is evaluated, the results of its regions are OutNodes of RegionNodes.  Lowering
# (lower.py) replaces them by CNodes whose callees are closed graphs.


class RegionNode(Node):
    """What regions are to the one around them, which is `parent`.

    `operands` and `more` are what it is given before and after the values that its regions import;
    `results` are nodes of its region: what it is needed for.
    """

    def __init__(self, parent: Region | None, origin: Origin, *regions: Region):
        super().__init__(None, origin)  # type: ignore[arg-type]  # it has no value of its own
        assert parent is not None
        self.parent, self.regions = parent, regions
        self.operands: list[Node] = []
        self.more: list[Node] = []
        self.results: list[Node] = []

    @property
    def region(self) -> Region:
        """Its first region, which for most is the only one."""
        return self.regions[0]


class OutNode(Node):
    """Output number `index` of a RegionNode."""

    __slots__ = ("owner", "index")

    def __init__(self, owner: RegionNode, index: int, abstract: Abstract, origin: Origin):
        super().__init__(abstract, origin)
        self.owner, self.index = owner, index


class CallNode(RegionNode):
    """A call of a user's function or Cell.  Its results are used directly, by demand.

    `custom` is the gradient of a Cell that defines its own; then arguments and results are
    explicit, and its region is the second one.
    """

    custom: CustomGradient | None = None


@dataclass
class CustomGradient:
    """The bprop of a Cell: the backward region, of (arguments, results, cotangents)."""

    region: Region
    params: list[ParameterNode] = field(default_factory=list)
    cotangents: list[Node] = field(default_factory=list)  # one per differentiable argument


class SwitchNode(RegionNode):
    """An `if` that a tensor decides: one region per arm, and pairs of merged values."""

    def __init__(self, parent: Region, origin: Origin, condition: Node, regions: list[Region]):
        super().__init__(parent, origin, *regions)
        self.condition, self.operands = condition, [condition]
        self.outs: list[tuple[Node | None, ...]] = []  # None: this arm has no such value


class WhileNode(RegionNode):
    """A loop that a tensor decides: its region evaluates the condition, then the body.

    The carry is at first `more`, and then the `results`.
    """

    condition: Node | None = None
    trip_count: int | None = None


class RecursionNode(RegionNode):
    """A call of a function that calls itself as Tensors decide: its graph refers to itself.

    Lowering sets the `graph`.
    """

    graph: FuncGraph | None = None


class AgainNode(RegionNode):
    """A call within the region of a RecursionNode, of that region."""

    def __init__(self, parent: Region, origin: Origin, recursion: RecursionNode):
        super().__init__(parent, origin, recursion.region)
        self.recursion = recursion


class GradNode(RegionNode):
    """A function under grad: its `results` are differentiated; `more` are their cotangents."""

    has_sens = False  # whether these are given
    is_linearised = False  # J has made its forward graph, which has the effects; this gives values
