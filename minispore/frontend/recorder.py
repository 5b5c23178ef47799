"""What evaluating leaves: nodes in regions, objects with a birthplace, writes in journals.

The Recorder is the handler under which ``apply`` makes nodes.  It knows where each node belongs,
which objects the program has made and where, which come from outside, and where in the user's
source we are; evaluate.py walks the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from minispore.abstract import symbols_of
from minispore.autodiff.tape import StandIns
from minispore.dims import Dim, is_born
from minispore.frontend.alternatives import Alternatives
from minispore.frontend.capture import Opaque, Outside
from minispore.frontend.commits import Commits
from minispore.frontend.errors import UnsupportedError, locate
from minispore.frontend.facts import Facts
from minispore.frontend.heap import Conflict, Frame, OutNode, Region, Unset, World
from minispore.ir.node import NOWHERE, CNode, Location, Node, ValueNode
from minispore.ops.structural import Attempt, Fallible
from minispore.primitive import HIDDEN, Primitive, apply
from minispore.symbolic import GraphBuilder, NeedConstant, wrap
from minispore.tensor import Tensor


class Recorder(GraphBuilder):
    """Takes down one evaluation: as a handler each primitive as a node of the current `region`."""

    def __init__(self, name: str):
        super().__init__(NOWHERE)
        self.home: dict[int, Region] = {}
        self.region = Region(None, "function", name, NOWHERE)
        self.root = self.region
        self.world = World(self.token)
        self.outside = Outside(lambda: self.origin.where)
        self.commits = Commits(self)
        self.alternatives = Alternatives(self)
        self.stand_ins: list[StandIns] = []  # of the functions under grad, outermost first
        self.facts = Facts()
        self.frames: list[Frame] = []
        self.births: dict[int, Region] = {}  # id of an object made here -> its region
        self.fixed: set[int] = set()  # ids of nodes that depend on constants alone
        self.objects: set[int] = set()  # ids of instances of user classes made here
        self.overlays: dict[tuple[int, str], tuple[Any, list[Location]]] = {}  # see _set_on_old
        self.alive: list[Any] = []  # keeps ids valid
        self.sized_by: dict[str, list[Node]] = {}  # a size that is born -> Tensors that have it
        self.counts: list[tuple[Primitive, list[Node], Dim]] = []  # what gave such sizes
        self.resized: dict[int, list[Location]] = {}  # where a container was written last
        self.failures: list[list[Location]] = []  # where effects are that may fail
        self.undecided: BaseException | None = None  # the last error where a Tensor decides

    # ---------------------------------------------------------------------- nodes

    def bind(self, prim: Primitive, args: tuple) -> Any:
        if prim.can_fail(*args):
            apply(Attempt.bound(op=prim.name, **prim.attrs), *args)
        if isinstance(prim, Fallible):
            written, values = self.commits.so_far()
            if written:
                prim, args = prim.bound(**prim.attrs, written=written), (*args, *values)
        if prim.effect:
            if isinstance(prim, Fallible):
                self.failures.append(self.places())
            self.token = self.world.slots["token"]
            self.origin = replace(self.origin, callers=self.callers())
        out = super().bind(prim, args)
        if prim.effect:
            self.region.touch(self.world)
            self.world.slots["token"] = self.token
        for item in out if isinstance(out, tuple) else (out,):
            if isinstance(item, Tensor):
                self.born(item)
        return out

    def emit(self, node: CNode) -> CNode:
        self.home[id(node)] = self.region
        self.alive.append(node)
        prim = node.callee
        if isinstance(prim, Primitive) and not prim.effect and not prim.symbols:
            if all(isinstance(i, ValueNode) or id(i) in self.fixed for i in node.inputs):
                self.fixed.add(id(node))
        return node

    def count(self, prim: Primitive, inputs: list[Node]) -> Dim:
        """One size for primitives that give it, if they have the same operands."""
        for known, nodes, size in self.counts:
            if known == prim and self.facts.alike(nodes, inputs):
                return size
        self.counts.append((prim, inputs, super().count(prim, inputs)))
        return self.counts[-1][2]

    def size(self, symbol: str, operands: Sequence[Node] = ()) -> Node:
        known = reversed(self.sized_by.get(symbol, []))
        for node in (*operands, *filter(self.is_reached, known)):
            found = self.size_in(node, symbol)
            if found is not None:
                return found
        raise NeedConstant(f"the size {symbol} outside of the arm or loop where it is born")

    def is_reached(self, node: Node) -> bool:
        """True for a node that exists wherever the region exists that is evaluated."""
        while not isinstance(node, OutNode) and id(node) not in self.home:  # an item of a tuple
            node = node.inputs[0]
        home = node.owner.parent if isinstance(node, OutNode) else self.home[id(node)]
        for region in home.ancestors():
            if region.encloses(self.region):
                return True
            if region.is_conditional:
                return False
        return False

    def note_sizes(self, node: Node) -> None:
        """Remember a node that may tell a size that is born."""
        for symbol in filter(is_born, symbols_of(node.abstract)):
            self.sized_by.setdefault(symbol, []).append(node)

    def constant(self, value: Any, dtype: Any) -> Tensor:
        return self.born(super().constant(value, dtype))

    def node_of(self, value: Any) -> Node:
        if isinstance(value, Tensor):
            self.alternatives.read(value)
            for stand_ins in self.stand_ins:
                stand_ins.read(value)
        return super().node_of(value)

    def captured(self, tensor: Tensor) -> Node:
        node = self.seen(tensor)._node
        assert node is not None
        return node

    def write(self, cell: Tensor, value: Tensor) -> None:
        node = self.node_of(value)
        cell = self.seen(cell)
        self.alternatives.write(cell)
        self.touch_tensor(cell)
        cell._node = node

    def touch_tensor(self, cell: Tensor) -> None:
        """Journal a write to a Tensor."""
        for stand_ins in self.stand_ins:
            stand_ins.written(cell)
        self.alternatives.written.add(id(cell))
        self.region.touch(cell)

    def wrap_out(self, owner: Any, index: int, abstract: Any) -> Any:
        """Output `index` of a region, as user code sees it."""
        node = OutNode(owner, index, abstract, self.origin)
        self.alive.append(node)
        value = wrap(node)
        return self.born(value) if isinstance(value, Tensor) else value

    # ---------------------------------------------------------------------- objects and regions

    def born(self, obj: Any) -> Any:
        """Note in which region an object (Tensor, list, dict, Env ...) was made, if it is new."""
        if id(obj) not in self.births and id(obj) not in self.outside.old:
            self.births[id(obj)] = self.region
            self.alive.append(obj)
            if isinstance(obj, Tensor) and obj._node is not None:
                self.note_sizes(obj._node)
        return obj

    def new_object(self, cls: type) -> Any:
        """An instance of a user's class, before its ``__init__``."""
        obj = self.born(object.__new__(cls))
        self.objects.add(id(obj))
        return obj

    def is_new(self, value: Any) -> bool:
        """True if a call made this object, so that it has no place outside the graph."""
        return id(value) in self.births

    def seen(self, tensor: Tensor) -> Tensor:
        """What the program sees of a Tensor from outside that it reached by no path."""
        if tensor._node is not None:
            return tensor
        code, name = self.outside.constant(tensor), HIDDEN.get(id(tensor), "a Tensor from outside")
        return self.homed(self.outside.capture(tensor, code, False, name))

    def homed(self, value: Any) -> Any:
        """A value from outside; its Tensors' nodes are parameters of the root region."""
        for param in self.outside.params[len(self.root.params) :]:
            self.root.params.append(param)
            self.home[id(param)] = self.root
        if isinstance(value, Opaque):
            raise UnsupportedError(value.why)
        return value

    def readable(self, value: Any, name: str) -> Any:
        """A slot's content, or the error that its emptiness or conflict means."""
        if isinstance(value, Unset):
            raise UnboundLocalError(
                f"cannot access local variable '{name}': it has no value here, or in one arm of an "
                "if, or if the loop does not run; give it a value before"
            )
        if isinstance(value, Conflict):
            what = name if " " in name else f"'{name}'"
            raise TypeError(f"{what} cannot be used: {value.why}")
        if isinstance(value, Opaque):
            raise UnsupportedError(value.why)
        return self.facts.resolve(value)

    def check_writable(self, obj: Any) -> None:
        """Refuse to change a container that is older than the call and cannot be found again."""
        if id(obj) in self.outside.old and id(obj) not in self.outside.older:
            raise TypeError(
                f"'{self.outside.old[id(obj)]}' is older than the compiled call, so the graph "
                "cannot change it: copy it first, or return the new value"
            )

    def touch_items(self, obj: Any) -> None:
        """Journal a write to the items of a container, and where it is made."""
        self.check_writable(obj)
        self.region.touch(obj)
        self.resized[id(obj)] = self.places()

    def touch_new(self, obj: Any) -> None:
        """Journal a write to an object; refuse one that is older than the call."""
        if id(obj) not in self.births:
            raise TypeError(f"a {type(obj).__name__} older than the compiled call is written")
        self.region.touch(obj)

    def is_marked(self, value: Any) -> bool:
        """True for a container that ``mutable`` gave."""
        return id(value) in self.outside.marked

    def is_conditional(self) -> bool:
        """True where a Tensor decides whether, or how often, what is evaluated will run."""
        return any(region.is_conditional for region in self.region.ancestors())

    @contextmanager
    def within(self, region: Region, keeps: bool = True) -> Iterator[None]:
        """Evaluate in a region; what it writes becomes written around it, or is undone again."""
        around, self.region = self.region, region
        try:
            yield
        except Exception as error:
            if region.is_conditional:
                self.undecided = error
            raise
        finally:
            self.region = around
            if keeps:
                region.hand_up()
            else:
                region.roll_back(self.births)

    # ---------------------------------------------------------------------- where we are

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def places(self) -> list[Location]:
        """The calls that led to where we are, outermost first, and where we are."""
        return [frame.where for frame in self.frames]

    def callers(self) -> tuple[Location, ...]:
        """The calls that led to where we are, outermost first."""
        return tuple(frame.where for frame in self.frames[:-1])

    def is_outermost(self) -> bool:
        """True before the function is entered that is compiled."""
        return not self.frames and self.region is self.root

    def failed(self, error: BaseException) -> None:
        """Put the user's frames on an error that is passing by."""
        locate(error, self.places())
