"""Guards: the generated function by which a later call knows that a graph still holds.

    def guard(A):                  # A: the Tensors among the arguments
        v1 = G1['net']
        if not (v1 is K1): return None  # net
        ...
        return [A[0], v7, v9]      # the Tensors to feed, in the order of the graph's parameters

What is *fresh* is made anew by every call (a Cell that a compiled function builds); its lines come
last, so that nothing is built for a graph that does not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minispore.tree import constant_key

Guard = Callable[[list], list | None]

_EASY = frozenset((int, str, bytes, bool, type(None)))  # equal if == and of one type


class Guards:
    """The lines of one guard function, and the objects that they name."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._fresh_lines: list[str] = []
        self._scope: dict[str, Any] = {"constant_key": constant_key}
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
        (self._fresh_lines if fresh else self._lines).append(f"{var} = {code}")
        return var

    def require(self, condition: str, reason: str, fresh: bool = False) -> None:
        """The graph holds only if the condition does; each is tested once."""
        lines = self._fresh_lines if fresh else self._lines
        line = f"if not ({condition}): return None  # {reason}"
        if line not in lines:
            lines.append(line)

    def require_constant(self, code: str, value: Any, reason: str, fresh: bool = False) -> None:
        """`code` must give a constant of the same type and bits."""
        kind = type(value)
        if value is None or kind is bool:
            test = f"{code} is {value}"
        elif kind in (int, str, bytes):
            test = f"type(x := {code}) is {kind.__name__} and x == {value!r}"
        else:
            test = f"constant_key({code}) == {self.constant(constant_key(value))}"
        self.require(test, reason, fresh)

    def require_constants(self, code: str, values: list, reason: str, fresh: bool) -> None:
        """`code` must give a list of equal constants."""
        types = [*map(type, values)]
        if not _EASY.issuperset(types):
            self.require_constant(code, values, reason, fresh)
            return
        equal = f"{code} == {self.constant(values)}"
        self.require(f"{equal} and [*map(type, {code})] == {self.constant(types)}", reason, fresh)

    def function(self, codes: list[str], more: list[tuple[str, str]]) -> tuple[Guard, str]:
        """The function and its source.

        `codes` give the Tensors; `more` are conditions that must not hold, with reasons.
        """
        last = [f"if {condition}: return None  # {reason}" for condition, reason in more]
        lines = [*self._lines, *self._fresh_lines, *last, f"return [{', '.join(codes)}]"]
        source = (
            "def guard(A):\n    try:\n        " + "\n        ".join(lines) + "\n"
            "    except (AttributeError, IndexError, KeyError, TypeError, ValueError):\n"
            "        return None  # the path to a captured value does not exist any more\n"
        )
        scope = dict(self._scope)
        exec(compile(source, "<guards>", "exec"), scope)
        return scope["guard"], source
