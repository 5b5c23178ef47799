"""Tensors that are one of several, as Tensors decide: what arms merge, what a loop carries.

Such a Tensor has a node of its own.  So a write to it would reach none of those that it may be, and
a write to one of those does not reach it: the first is refused, and so is to read it after the
second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minispore.ir.node import Node
from minispore.parameter import Parameter
from minispore.tensor import Tensor

if TYPE_CHECKING:
    from minispore.frontend.recorder import Recorder


class Alternatives:
    """What is known of such Tensors.  They are told by their ids, which the evaluator keeps valid.

    Attributes:
        aliased: why a Tensor may not be written, by its id.
        perhaps_parameters: ids of those that are a Parameter or none.
    """

    def __init__(self, ev: Recorder):
        self.ev = ev
        self.aliased: dict[int, str] = {}
        self.perhaps_parameters: set[int] = set()
        # id of a Tensor: those that it may be, and what they held when it was made
        self.others: dict[int, list[tuple[Tensor, Node | None]]] = {}
        self.written: set[int] = set()  # ids of Tensors that are written in place somewhere

    def one_of(self, values: Sequence[Tensor], made: Tensor, what: str) -> Tensor:
        """A new Tensor that may be one of others; `what` it is, in the error of a write.

        If one of them is a Parameter it is a Parameter too, so that ``+=`` writes it.
        """
        parameters = [v for v in values if isinstance(v, Parameter)]
        if parameters:
            twin = Parameter._shadow(parameters[0], made._node)
            if len(parameters) < len(values):
                self.perhaps_parameters.add(id(twin))
            for name, value in [*vars(twin).items()]:
                if any(getattr(v, "__dict__", {}).get(name) != value for v in values):
                    delattr(twin, name)  # it depends on which one it is
            made = self.ev.born(twin)
        self.aliased[id(made)] = (
            f"this Tensor {what}, so it cannot be written in place: write a .copy() of it"
        )
        return made

    def note(self, made: Tensor, olds: Sequence[Tensor]) -> None:
        """Note which Tensors a new one may be."""
        found = {id(t): t for old in olds for t in self.of(old)}.values()
        self.others[id(made)] = [(t, self.ev.seen(t)._node) for t in found]
        self.ev.alive += found

    def of(self, tensor: Tensor) -> list[Tensor]:
        """A Tensor, and those that it may be."""
        return [tensor, *(t for t, _ in self.others.get(id(tensor), ()))]

    def is_one_of(self, tensor: Any) -> bool:
        """True for a Tensor that may be one of others."""
        return id(tensor) in self.aliased

    def write(self, tensor: Tensor) -> None:
        """Refuse to write a Tensor that may be one of others."""
        if id(tensor) in self.aliased:
            raise TypeError(self.aliased[id(tensor)])

    def read(self, tensor: Tensor, held: Callable[[Tensor], Any] = lambda t: t._node) -> None:
        """Refuse to read a Tensor that may be one which has been written since it was made.

        `held` tells what those hold, in the arm that is asked about.
        """
        if not self.written or id(tensor) not in self.others:
            return
        settled = self.ev.commits.settled
        for other, node in self.others[id(tensor)]:
            if id(other) in self.written and held(other) not in (node, settled(node)):
                raise TypeError(
                    "this Tensor may be another one, depending on a Tensor, which has been written "
                    "in place since (or which grad differentiates by): give this one a .copy()"
                )
