"""What a compiled graph writes of the Python world.

Tensors and attributes that are older than the call are written when the graph has run: until then
their values are nodes.  If an effect fails (an assert, an index out of range) what was written
before it in the program must stay, so such an effect takes the values written so far along, and
hands them over with its exception (``written`` in ops/structural.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minispore.frontend.capture import is_trusted
from minispore.frontend.errors import locate
from minispore.frontend.heap import UNSET
from minispore.ir.node import Node
from minispore.parameter import Parameter
from minispore.primitive import is_number
from minispore.symbolic import Scalar
from minispore.tensor import Tensor
from minispore.tree import Structure, unflatten

if TYPE_CHECKING:
    from minispore.frontend.recorder import Recorder


NEW, CHOSEN = -1, -2  # what an attribute gets, if it is not an input


@dataclass(frozen=True)
class Target:
    """A place that a graph writes: the Tensor that is input number `cell`, or ``obj.name``.

    An attribute gets input number `cell` itself, or a new Tensor where that is NEW.  Where a Tensor
    decides, it gets a new one first, and then, as the value of target CHOSEN tells, an input.
    """

    cell: int
    obj: Any = None
    name: str = ""

    def write(self, inputs: list[Tensor], value: Any) -> None:
        """Write a value that the graph found."""
        if not self.name:
            inputs[self.cell]._write(value)
            return
        cell = value if self.cell == CHOSEN else self.cell
        if self.cell == CHOSEN and cell == NEW:
            return
        # A class of the user's may define __setattr__: that has been evaluated, and led to this.
        own = is_trusted(getattr(type(self.obj).__setattr__, "__module__", None))
        write = setattr if own else object.__setattr__
        write(self.obj, self.name, value if cell == NEW else inputs[cell])


@dataclass(frozen=True)
class Store:
    """What a container that is older than the call holds in the end; see ``Compiled.places``."""

    place: int
    structure: Structure
    places: list[int]

    def write(self, found: Callable[[int], Any]) -> None:
        """Fill the container; `found` gives the value at a place."""
        real = found(self.place)
        items = unflatten(self.structure, [found(p) for p in self.places])
        if isinstance(real, list):
            list.__setitem__(real, slice(None), items)
        else:
            real.clear()
            real.update(items)


class Commits:
    """The targets of one graph in the making; their numbers are what effects refer to."""

    def __init__(self, ev: Recorder):
        self.ev = ev
        self.targets: list[Target] = []
        self._numbers: dict[tuple, int] = {}
        self.variables: dict[int, Node] = {}  # id of a parameter of grad -> what it stands for

    def number(self, target: Target) -> int:
        """The number of a target."""
        key = (target.cell, id(target.obj), target.name)
        if key not in self._numbers:
            self._numbers[key] = len(self.targets)
            self.targets.append(target)
        return self._numbers[key]

    def settled(self, node: Any) -> Any:
        """A node, or what stands outside for a variable of grad."""
        while id(node) in self.variables:
            node = self.variables[id(node)]
        return node

    def tensors(self) -> Iterator[tuple[int, Node]]:
        """The Tensors written so far: number, value."""
        outside = self.ev.outside
        for i, shadow in enumerate(outside.shadows):
            node = self.settled(shadow._node) if isinstance(shadow, Tensor) else None
            if node is not None and node is not outside.params[i]:
                yield self.number(Target(i)), node

    def attributes(self) -> Iterator[tuple[int, Any]]:
        """The attributes written so far: number, value."""
        ev = self.ev
        holders: dict[int, Tensor] = {}
        for (owner, name), (obj, places) in ev.overlays.items():
            key = ("attribute", owner, name)
            value = ev.world.slots.get(key, UNSET)
            if value is UNSET or value is ev.world.base.get(key) or ev.outside.source(obj)[1]:
                continue  # not written after all, or an object that no one has when we are done
            cell = ev.world.slots["cell", owner, name]
            try:
                value = self.settled_attribute(obj, name, value, cell)
                if isinstance(value, Tensor):
                    self.refuse_alias(value, holders, name)
            except TypeError as error:
                locate(error, places)
                raise
            if isinstance(cell, Scalar):
                yield self.number(Target(NEW, obj, name)), value
                yield self.number(Target(CHOSEN, obj, name)), cell
            else:
                yield self.number(Target(cell, obj, name)), value

    def settled_attribute(self, obj: Any, name: str, value: Any, cell: Any) -> Any:
        """The Tensor or number that an attribute is in the end.

        Refused if it may be neither, or a Parameter.
        """
        kind = type(obj).__name__
        value = self.ev.readable(value, f"{kind}.{name}")
        if is_number(value):
            return value
        if not isinstance(value, Tensor):
            raise TypeError(
                f"'{name}' of {kind} is a Tensor or not, depending on a Tensor: "
                "write a Tensor in every case, or a number in every case"
            )
        if isinstance(cell, Scalar) and isinstance(value, Parameter):
            raise TypeError(f"which Parameter '{name}' is depends on a Tensor: use set_data")
        return value

    def cell(self, value: Tensor, real: Any) -> int:
        """The number of the input that an attribute becomes, or NEW; before it was `real`."""
        outside = self.ev.outside
        number, own = outside.number(value), outside.number(real)
        for other in self.ev.alternatives.of(value)[1:]:
            n = outside.number(other)
            if n is not None and (n != own or n in outside.shared):
                raise TypeError(
                    "whether this Tensor is one that is older than the compiled call depends on a "
                    "Tensor: give the attribute a .copy() of it"
                )
        return NEW if number is None else number

    def refuse_alias(self, value: Tensor, holders: dict[int, Tensor], name: str) -> None:
        """Refuse that two attributes, depending on a Tensor, are one new Tensor.

        `holders` are the values of attributes, by the ids of the Tensors that they may be.
        """
        for other in self.ev.alternatives.of(value):
            is_new = self.ev.outside.number(other) is None
            if is_new and holders.setdefault(id(other), value) is not value:
                raise TypeError(
                    f"whether the attribute '{name}' is the Tensor that another one is, too, "
                    "depends on a Tensor: give it a .copy()"
                )

    def so_far(self) -> tuple[tuple[int, ...], list[Node]]:
        """The numbers and values of all that has been written so far."""
        found = [*self.tensors(), *((n, self.ev.node_of(v)) for n, v in self.attributes())]
        return tuple(n for n, _ in found), [node for _, node in found]
