"""Guards: the generated function by which a later call knows that a graph still holds.

    def guard(A):                  # A: the Tensors among the arguments
        v1 = G1['net']
        if not (v1 is K1): return None  # net
        ...
        return [A[0], v7, v9]      # the Tensors to feed, in the order of the graph's parameters

What is *fresh* is made anew by every call (a Cell that a compiled function builds); its lines come
last, so that nothing is built for a graph that does not hold.

``Guarded.failure`` runs the same lines one by one, to tell which does not hold (recompile.py).
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minispore.dtype import DType
from minispore.ir.node import Location
from minispore.tree import constant_key

Guard = Callable[[list], list | None]

_EASY = frozenset((int, str, bytes, bool, type(None)))  # equal if == and of one type
# What is raised where the path to a captured value does not exist any more.
_GONE = (AttributeError, IndexError, KeyError, TypeError, ValueError)


@dataclass(frozen=True)
class Line:
    """A line of a guard: a statement, or (with a reason) a condition that must, or must not, hold.

    `where` is the place in the user's program that it guards.  One that `tells_apart` says only
    that the arguments are other Tensors than the captured ones.
    """

    code: str
    reason: str = ""
    holds: bool = True
    where: Location | None = None
    tells_apart: bool = False

    @property
    def text(self) -> str:
        """The line as Python."""
        if not self.reason:
            return self.code
        test = f"not ({self.code})" if self.holds else self.code
        return f"if {test}: return None  # {self.reason}"


@dataclass(frozen=True)
class Failure:
    """What does not hold any more: its description; what was found, and what the graph is for.

    `values` are these two, None where the condition compares no two values.
    """

    what: str
    values: tuple[Any, Any] | None
    where: Location | None


@dataclass(frozen=True)
class Guarded:
    """The lines of a guard, and the objects that they name; `keyed`: the constants behind keys.

    One that `builds` makes fresh objects, for the call that follows.
    """

    lines: list[Line]
    result: str
    scope: dict[str, Any]
    keyed: dict[str, Any]
    builds: bool = False

    @property
    def source(self) -> str:
        """The guard as Python."""
        lines = [*(line.text for line in self.lines), f"return {self.result}"]
        gone = ", ".join(kind.__name__ for kind in _GONE)
        return (
            "def guard(A):\n    try:\n        " + "\n        ".join(lines) + "\n"
            f"    except ({gone}):\n"
            "        return None  # the path to a captured value does not exist any more\n"
        )

    def function(self) -> Guard:
        """The guard."""
        scope = dict(self.scope)
        exec(compile(self.source, "<guards>", "exec"), scope)
        return scope["guard"]

    def failure(self, tensors: list) -> Failure | None:
        """The first condition that does not hold for these arguments; None if all do."""
        scope = {**self.scope, "A": tensors}
        for number, line in enumerate(self.lines):
            try:
                if not line.reason:
                    exec(line.code, scope)
                elif bool(eval(line.code, scope)) is not line.holds:
                    return Failure(line.reason, self._compared(line.code, scope), line.where)
            except _GONE:
                test = next(t for t in self.lines[number:] if t.reason)
                return Failure(f"the path to {test.reason}", None, test.where)
        return None

    def _compared(self, condition: str, scope: dict[str, Any]) -> tuple[Any, Any] | None:
        """The two values that a condition compares."""
        node: Any = ast.parse(condition, mode="eval").body
        if isinstance(node, ast.BoolOp):  # the values, and their types
            first, second = node.values[:2]
            node = second if isinstance(first.left, ast.Call) else first  # type: ignore[attr-defined]
        if not (isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.Eq))):
            return None
        found, expected = ast.unparse(node.left), ast.unparse(node.comparators[0])
        if expected in self.keyed:
            found = re.sub(r"^constant_key\((.*)\)$", r"\1", found)
            return eval(found, scope), self.keyed[expected]
        return eval(found, scope), eval(expected, scope)


class Guards:
    """The guard of one graph in the making.

    `where` tells the place in the user's program that is being evaluated.
    """

    def __init__(self, where: Callable[[], Location | None]) -> None:
        self.where = where
        self._lines: list[Line] = []
        self._fresh_lines: list[Line] = []
        self._known: set[tuple[str, str, bool]] = set()
        self._scope: dict[str, Any] = {"constant_key": constant_key, "div": operator.floordiv}
        self._keyed: dict[str, Any] = {}
        self._constants: dict[int, str] = {}
        self._variables = 0

    def constant(self, obj: Any) -> str:
        """A name for an object."""
        name = self._constants.get(id(obj))
        if name is None:
            name = f"K{len(self._constants)}"
            self._constants[id(obj)] = name
            self._scope[name] = obj
        return name

    def variable(self, code: str, fresh: bool) -> str:
        """A name for what an expression gives."""
        self._variables += 1
        var = f"v{self._variables}"
        (self._fresh_lines if fresh else self._lines).append(Line(f"{var} = {code}"))
        return var

    def require(self, condition: str, reason: str, fresh: bool = False) -> None:
        """The graph holds only if the condition does; each is tested once."""
        if (condition, reason, fresh) not in self._known:
            self._known.add((condition, reason, fresh))
            line = Line(condition, reason, where=self.where())
            (self._fresh_lines if fresh else self._lines).append(line)

    def require_constant(self, code: str, value: Any, reason: str, fresh: bool = False) -> None:
        """`code` must give a constant of the same type and bits."""
        kind = type(value)
        if value is None or kind is bool:
            test = f"{code} is {value}"
        elif kind in (int, str, bytes) or (kind is float and 0 < abs(value) < math.inf):
            test = f"type(x := {code}) is {kind.__name__} and x == {value!r}"
        elif kind is DType:
            test = f"{code} is {self.constant(value)}"
        else:
            key = self.constant(constant_key(value))
            self._keyed[key] = value
            test = f"constant_key({code}) == {key}"
        self.require(test, reason, fresh)

    def require_constants(self, code: str, values: list, reason: str, fresh: bool) -> None:
        """`code` must give a list of equal constants."""
        types = [*map(type, values)]
        if not _EASY.issuperset(types):
            self.require_constant(code, values, reason, fresh)
            return
        equal = f"{code} == {self.constant(values)}"
        self.require(f"{equal} and [*map(type, {code})] == {self.constant(types)}", reason, fresh)

    def guarded(self, codes: list[str], first: list[Line], last: list[Line]) -> Guarded:
        """The guard: lines to begin and to end with, around those noted; `codes`: the Tensors."""
        lines = [*first, *self._lines, *self._fresh_lines, *last]
        result = f"[{', '.join(codes)}]"
        return Guarded(lines, result, self._scope, self._keyed, bool(self._fresh_lines))
