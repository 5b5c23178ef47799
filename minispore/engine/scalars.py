"""Python's numbers in kernels: int as 64 bits, float as float64, bool; each a buffer of one.

A kernel cannot raise.  Wherever Python would raise (a division by zero, an int beyond 64 bits, a
Check that fails), or where the result might differ, it goes on with any value, and `holds`, a bool
of the segment, becomes false.  Loops stop then, and whoever runs the segment drops all it made and
lets Python do the same work, which gives the exact value or the error (plan.py).

Of floats nothing is rounded in another way than in Python: how often a loop turns may depend on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minispore.abstract import TOKEN, Abstract
from minispore.engine.layout import DTYPES, FLOATS, HALVES, NUMBERS, Buffer, View, kind_of
from minispore.engine.lower import Lowering
from minispore.ir.node import CNode, Node
from minispore.primitive import REGISTRY, Primitive

_LEAST_BUT_ONE = "-9223372036854775807"  # the least int has no negative
_WHOLE = "9007199254740992"  # up to here all ints are floats
_IN_RANGE = "abs({0}) < 9.2e18"  # of what becomes an int

# name: of ints, what must hold ({2} is the result), of floats
_ARITHMETIC = {
    "ScalarAdd": ("{0} + {1}", "(({0} ^ {2}) & ({1} ^ {2})) >= 0", "exact_add({0}, {1})"),
    "ScalarSub": ("{0} - {1}", "(({0} ^ {1}) & ({0} ^ {2})) >= 0", "exact_sub({0}, {1})"),
    "ScalarMul": ("{0} * {1}", "abs(f8({0}) * f8({1})) < 9.2e18", "exact_mul({0}, {1})"),
    "ScalarNeg": ("-{0}", f"{{0}} >= {_LEAST_BUT_ONE}", "-{0}"),
    "ScalarAbs": ("abs({0})", f"{{0}} >= {_LEAST_BUT_ONE}", "abs({0})"),
    "ScalarFloorDiv": ("{0} // {1}", f"{{1}} != 0 and {{0}} >= {_LEAST_BUT_ONE}", ""),
    "ScalarMod": ("{0} % {1}", f"{{1}} != 0 and {{0}} >= {_LEAST_BUT_ONE}", ""),
}
_COMPARISONS = {
    "ScalarEqual": "{0} == {1}", "ScalarNotEqual": "{0} != {1}", "ScalarLess": "{0} < {1}",
    "ScalarLessEqual": "{0} <= {1}", "ScalarGreater": "{0} > {1}",
    "ScalarGreaterEqual": "{0} >= {1}",
}  # fmt: skip
_BITS = {  # of bools, of ints
    "ScalarAnd": ("{0} and {1}", "{0} & {1}"),
    "ScalarOr": ("{0} or {1}", "{0} | {1}"),
    "ScalarXor": ("{0} != {1}", "{0} ^ {1}"),
}
_OTHERS = frozenset(
    "ScalarDiv ScalarNot ScalarCast ScalarPick ScalarToTensor TensorToScalar".split()
)


def computes(prim: Primitive, inputs: list[Abstract], out: Abstract) -> bool:
    """True if kernels can compute a primitive on numbers."""
    name, kinds = prim.name, [kind_of(a) for a in inputs]
    if {None, *HALVES} & {*kinds, kind_of(out)} or REGISTRY.get(name) is not type(prim):
        return False
    if name in _ARITHMETIC:
        return bool(_ARITHMETIC[name][2]) or "f8" not in kinds
    if name == "ScalarPick":
        return len(set(kinds[1:])) == 1
    if name == "ScalarToTensor":
        return kind_of(out) is not None and not ("f8" in kinds and kind_of(out) in ("i4", "i8"))
    return name in _COMPARISONS or name in _BITS or name in _OTHERS


def can_fail(node: CNode) -> bool:
    """True if `holds` may depend on a primitive of those above."""
    name = node.callee.name  # type: ignore[union-attr]
    if name in _COMPARISONS or name in ("ScalarDiv", "ScalarPick"):
        return True
    if name in ("ScalarCast", "TensorToScalar"):
        return kind_of(node.abstract) == "i8" and kind_of(node.inputs[0].abstract) in FLOATS
    return name in _ARITHMETIC and kind_of(node.abstract) == "i8"


class ScalarLowering(Lowering):
    """The steps of nodes some of which are numbers; `holds` is None where nothing can fail."""

    holds: View | None = None

    def input(self, node: Node) -> Buffer:
        if node.abstract == TOKEN:  # it has no value
            return self.place(node, self.known_bool(False))
        return super().input(node)

    def known_bool(self, value: bool) -> View:
        """A constant."""
        return View(self.constant(np.array(value)), ())

    def place(self, node: Node, view: View) -> Buffer:
        self.views[id(node)] = view
        return view.buffer

    def add(self, node: CNode) -> None:
        name = getattr(node.callee, "name", "")
        if name.startswith("Scalar") or name == "TensorToScalar":
            assert isinstance(node.callee, Primitive)
            operands = [self.whole(self.view(i)) for i in node.inputs]
            self.views[id(node)] = self.number(node, node.callee, operands)
        elif name == "Attempt":
            self.attempt(node, node.callee)
        elif name == "Check":
            token, test = (self.view(i) for i in node.inputs[:2])
            self.require("cast_u1({0})", self.whole(test))
            self.views[id(node)] = token
        else:
            super().add(node)

    def attempt(self, node: CNode, callee: Any) -> None:
        """What is computed for its failures only."""
        op, operands = attempted(callee), callee.split(node.inputs[1:])[0]
        self.number(node, op, [self.whole(self.view(i)) for i in operands])
        self.views[id(node)] = self.view(node.inputs[0])

    def one(self, text: str, kind: str, *operands: View, node: Node | None = None) -> View:
        """A step on numbers."""
        views = [View(v.buffer, ()) for v in operands]
        ways = [("full",)] * len(views)
        return self.emit(node, "map", views, kind, (), 1, 1, ways=ways, text=text, is_flat=True)

    def require(self, text: str, *operands: View) -> None:
        """What must hold."""
        test = self.one(text, "u1", *operands)
        self.holds = test if self.holds is None else self.one("{0} and {1}", "u1", self.holds, test)

    def cast(self, view: View, kind: str) -> View:
        """A number as another kind."""
        same = view.buffer.dtype == kind
        return View(view.buffer, ()) if same else self.one(f"cast_{kind}({{0}})", kind, view)

    # ----------------------------------------------------------------- the primitives

    def number(self, node: CNode, prim: Primitive, operands: list[View]) -> View:
        """The value of a primitive of numbers."""
        name, kinds = prim.name, [v.buffer.dtype for v in operands]
        if name in _ARITHMETIC:
            return self.arithmetic(node, name, operands)
        if name in _COMPARISONS:
            return self.one(_COMPARISONS[name], "u1", *self.compared(operands), node=node)
        if name in _BITS:
            of_bools, of_ints = _BITS[name]
            if set(kinds) == {"u1"}:
                return self.one(of_bools, "u1", *operands, node=node)
            return self.one(of_ints, "i8", *(self.cast(v, "i8") for v in operands), node=node)
        if name == "ScalarDiv":
            if "f8" not in kinds:
                operands = self.compared(operands, as_floats=True)
            x, y = (self.cast(v, "f8") for v in operands)
            self.require("{0} != 0", y)
            return self.one("exact_div({0}, {1})", "f8", x, y, node=node)
        if name == "ScalarNot":
            return self.one("{0} == 0" if kinds[0] != "u1" else "not {0}", "u1", *operands)
        if name == "ScalarPick":
            return self.pick(node, *operands)
        to = DTYPES[prim.attrs["dtype"].numpy.name] if "dtype" in prim.attrs else (
            NUMBERS[prim.attrs["kind"]])  # fmt: skip
        if to == "i8" and kinds[0] in FLOATS:
            self.require(_IN_RANGE, operands[0])
        return self.cast(operands[0], to)

    def arithmetic(self, node: CNode, name: str, operands: list[View]) -> View:
        of_ints, test, of_floats = _ARITHMETIC[name]
        if any(v.buffer.dtype == "f8" for v in operands):
            return self.one(of_floats, "f8", *(self.cast(v, "f8") for v in operands), node=node)
        operands = [self.cast(v, "i8") for v in operands]
        out = self.one(of_ints, "i8", *operands, node=node)
        spare = operands[: 2 - len(operands)]  # so that the result is number 2
        self.require(test, *operands, *spare, out)
        return out

    def compared(self, operands: list[View], as_floats: bool = False) -> list[View]:
        """Operands as one kind; an int beside a float must be exact as a float."""
        if not as_floats and all(v.buffer.dtype != "f8" for v in operands):
            return [self.cast(v, "i8") for v in operands]
        for v in operands:
            if v.buffer.dtype == "i8":
                self.require(f"{{0}} >= -{_WHOLE} and {{0}} <= {_WHOLE}", v)
        return [self.cast(v, "f8") for v in operands]

    def pick(self, node: CNode, index: View, *items: View) -> View:
        index = self.cast(index, "i8")
        self.require(f"{{0}} >= 0 and {{0}} < {len(items)}", index)
        value = items[-1]
        for i in reversed(range(len(items) - 1)):
            test = self.one(f"{{0}} == {i}", "u1", index)
            kind = value.buffer.dtype
            value = self.one("({1} if {0} else {2})", kind, test, items[i], value, node=node)
        return View(value.buffer, ())


def attempted(callee: Any) -> Primitive:
    """The primitive that an Attempt tries."""
    attrs = {k: v for k, v in callee.attrs.items() if k not in ("op", "written")}
    return REGISTRY[callee.attrs["op"]].bound(**attrs)


__all__ = ["ScalarLowering", "attempted", "can_fail", "computes"]
