"""Where a nan or inf comes from: the first node that makes it out of finite numbers.

A node *makes* a nan if its value has one and no operand has; it makes an inf if its value has one
and all its operands are finite.  So an inf that is meant (a mask of -inf) is no one's fault, but
what becomes nan by it is.  ``find_nan`` of a report looks for such a node in a run of the
interpreter; with ``check_finite`` a run is stopped by it, in both modes.

(MindSpore has overflow detection on its devices, none for compiled graphs on a CPU.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minispore.abstract import STACK
from minispore.dtype import from_numpy
from minispore.ir.interp import Step, add_location, steps
from minispore.ir.node import FuncGraph, Location, Node, ParameterNode, ValueNode, While
from minispore.ir.text import node_names
from minispore.ir.values import array_type, elements

_HINTS = {
    "Log": "the logarithm of 0 is -inf, that of less is nan: ops.log(x + 1e-8), or clamp first",
    "Div": "division by 0: add a small number to the divisor, or ops.where around it",
    "Reciprocal": "division by 0: add a small number",
    "Rsqrt": "1 / sqrt(0) is inf: add a small number",
    "Sqrt": "the root of less than 0 is nan: clamp first",
    "Exp": "exp overflows beyond 88 in Float32: subtract the maximum first, or ops.log_softmax",
    "Pow": "0 to a negative power is inf, less than 0 to a fraction nan; large powers overflow",
}
_IN_BACKWARD = (
    "the derivative is infinite here, as that of sqrt, log or a power at 0: keep away from 0"
)


@dataclass(frozen=True)
class NonFinite:
    """A nan or inf that was made out of finite numbers, or came in as nan.

    Attributes:
        kind: "nan" or "inf".
        value: the ndarray or number that has it.
        index: its position in the ndarray.
        name: of the primitive, or of the input.
        operands: what the node works on, by name.
        where: the place in the user's source; None for an input.
        phase: "forward", "backward" or "update"; empty where it is not known.
        path: the calls that lead there, with the turns of loops.
    """

    kind: str
    value: Any
    index: tuple[int, ...]
    name: str
    operands: dict[str, Any]
    where: Location | None = None
    phase: str = "forward"
    path: tuple[str, ...] = ()

    @property
    def line(self) -> int | None:
        """The line of the user's source."""
        return None if self.where is None else self.where.line

    @property
    def sentence(self) -> str:
        """What happened, on one line."""
        if not self.path:
            return f"input {self.name} has a nan{_at(self.index)}"
        made = "-inf" if self.kind == "inf" and _item(self.value, self.index) < 0 else self.kind
        is_finite = all(_bad(value) is None for value in self.operands.values())
        source = "finite numbers" if is_finite else "an inf"
        phase = f", in the {self.phase} pass" if self.phase else ""
        inside = f", in {' > '.join(self.path)}" if len(self.path) > 1 else ""
        return f"{self.name} made {made}{_at(self.index)} out of {source}{phase}{inside}"

    @property
    def hint(self) -> str:
        """What to do about it; empty if nothing is known."""
        if self.phase == "backward":
            return _IN_BACKWARD
        return _HINTS.get(self.name, "")

    def __str__(self) -> str:
        lines = [self.sentence]
        if self.where is not None:
            lines.append(self.where.shown())
        for name, value in self.operands.items():
            lines.append(f"  {name}{_element(value, self.value, self.index)} = {_shown(value)}")
        lines.append(f"  -> {_shown(self.value)}")
        return "\n".join([*lines, *([self.hint] if self.hint else [])])

    def __repr__(self) -> str:
        return str(self)


def _at(index: tuple[int, ...]) -> str:
    return f" at {list(index)}" if index else ""


def _item(value: Any, index: tuple[int, ...]) -> float:
    return float(value[index] if isinstance(value, np.ndarray) else value)


def _element(operand: Any, value: Any, index: tuple[int, ...]) -> str:
    """``[0, 2]: 0.0,``: the operand's element where the value is not finite."""
    if not (isinstance(operand, np.ndarray) and isinstance(value, np.ndarray) and index):
        return ""
    try:
        item = np.broadcast_to(operand, value.shape)[index]
    except ValueError:  # no element-wise node
        return ""
    return f" (there {item})"


def _shown(value: Any) -> str:
    return (
        f"{array_type(value)} {elements(value)}" if isinstance(value, np.ndarray) else repr(value)
    )


# ------------------------------------------------------------------------------------ finding


def _bad(value: Any, nan_only: bool = False) -> tuple[int, ...] | None:
    """The position of the first nan (or, unless nan_only, inf) of an ndarray or float."""
    if isinstance(value, np.generic):  # what NumPy gives for an array without axes
        value = np.asarray(value)
    if isinstance(value, float):
        is_bad = math.isnan(value) or (not nan_only and math.isinf(value))
        return () if is_bad else None
    if not isinstance(value, np.ndarray) or not from_numpy(value.dtype).is_float:
        return None
    bad = np.isnan(value) if nan_only else ~np.isfinite(value)
    if not bad.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))


def born(values: Iterable[Any], operands: Sequence[Any]) -> tuple[str, Any, tuple] | None:
    """A nan or inf that is in `values` and was made of `operands`: kind, value, position."""
    if not operands:
        return None  # a constant is meant as it is
    for value in values:
        index = _bad(value)
        if index is None:
            continue
        nan = _bad(value, nan_only=True)
        if nan is not None and all(_bad(o, nan_only=True) is None for o in operands):
            return "nan", value, nan
        if nan is None and all(_bad(o) is None for o in operands):
            return "inf", value, index
    return None


def find_non_finite(graph: FuncGraph, inputs: Sequence[Any], inf: bool = True) -> NonFinite | None:
    """The first node of a run that makes a nan or inf out of finite numbers; None if none does.

    Args:
        inf: False looks for nan only.

    A nan among the inputs is found first.  What the graph raises is raised.
    """
    for parameter, value in zip(graph.parameters, inputs, strict=True):
        index = _bad(value, nan_only=True)
        if index is not None:
            return NonFinite("nan", value, index, parameter.name, {})
    for step in steps(graph, inputs):
        found = in_step(step)
        if found is not None and (inf or found.kind == "nan"):
            return found
    return None


def run_checked(graph: FuncGraph, inputs: Sequence[Any]) -> tuple:
    """What ``interpret`` gives, as arrays of their own.

    Raises:
        FloatingPointError: a node made a nan or inf out of finite numbers.
    """
    run = steps(graph, inputs)
    while True:
        try:
            step = next(run)
        except StopIteration as end:
            return tuple(v.copy() if isinstance(v, np.ndarray) else v for v in end.value)
        found = in_step(step)
        if found is not None:
            error = error_of(found)
            add_location(error, step.node)
            raise error


def error_of(found: NonFinite) -> FloatingPointError:
    """The error that tells of it."""
    hint = f"; {found.hint}" if found.hint else ""
    return FloatingPointError(f"{found.sentence} (check_finite){hint}")


def in_step(step: Step) -> NonFinite | None:
    """What a step makes."""
    if step.is_call or not step.is_done:
        return None
    value = step.value
    if step.node.abstract == STACK:
        return None
    made = born(value if isinstance(value, tuple) else (value,), step.operands)
    if made is None:
        return None
    names = node_names(step.graph)
    operands = {
        _operand_name(node, names, i): operand
        for i, (node, operand) in enumerate(zip(step.node.inputs, step.operands, strict=True), 1)
    }
    origin = step.node.origin
    name = step.node.callee.name  # type: ignore[union-attr]
    return NonFinite(*made, name, operands, origin.where, origin.phase, path_of(step))


def _operand_name(node: Node, names: dict[Node, str], number: int) -> str:
    if isinstance(node, ValueNode):
        return f"constant {number}"
    return node.name if isinstance(node, ParameterNode) else names[node]


def path_of(step: Step) -> tuple[str, ...]:
    """The graphs that lead to a step, outermost first, with the turns of loops."""
    found = []
    current: Step | None = step
    while current is not None:
        is_loop = current.caller is not None and isinstance(current.caller.node.callee, While)
        found.append(f"@{current.graph.name}" + (f" turn {current.turn + 1}" if is_loop else ""))
        current = current.caller
    return tuple(found[::-1])
