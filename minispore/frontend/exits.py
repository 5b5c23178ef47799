"""How a block of statements ends: by running through, or by an exit that it may take."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from minispore.frontend.errors import locate
from minispore.ir.node import Location, Node

GO_ON, BREAK, CONTINUE, RETURN, RAISE = range(5)

Condition = bool | Node
Arm = Callable[[], "Exit"]


class Exit:
    """How a block ends: `code` (an int, or a Scalar when tensors decide), `may`: all candidates."""

    def __init__(self, code: Any, value: Any = None, may: frozenset[int] | None = None):
        self.code, self.value = code, value
        self.may = may or frozenset({code})

    def without(self, *codes: int) -> Exit:
        """This exit on the paths that end in none of `codes`."""
        may = self.may.difference(codes)
        return Exit(next(iter(may)) if len(may) == 1 else self.code, self.value, may)


@dataclass
class Raised:
    """An exception made while evaluating; it exists when the graph runs."""

    kind: type[BaseException]
    args: tuple
    kwargs: dict

    @property
    def make(self) -> Callable:
        """What makes it of `args`."""
        return partial(self.kind, **self.kwargs) if self.kwargs else self.kind


class Peel(Exception):
    """A loop's carry changes its type in one iteration; `places`: the calls that led to where."""

    def __init__(self, what: str, places: Sequence[Location] = ()):
        super().__init__(what)
        self.places = [*places]

    def refusal(self, who: str) -> TypeError:
        """The error where nothing can be peeled, at the line that is to blame if that is known."""
        error = TypeError(f"{who} changes {self}")
        locate(error, self.places)
        return error


class Unreachable(Exception):
    """What follows is never run: an expression has raised on every path."""


def always_leaves(body: list[ast.stmt]) -> bool:
    """True if every path through a block leaves it (by its form alone)."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return always_leaves(last.body) and always_leaves(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue, ast.Raise))


def has_exit(node: ast.stmt) -> bool:
    """True if a statement contains one that can leave it."""
    return any(
        isinstance(n, (ast.Return, ast.Break, ast.Continue, ast.Raise)) for n in ast.walk(node)
    )


def displayed(node: ast.expr | None, value: Any) -> Iterator[Any]:
    """The lists and dicts that an expression, whose value is given, has made anew."""
    if isinstance(node, (ast.List, ast.ListComp, ast.Dict, ast.DictComp)):
        yield value
    if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == len(value):  # none is spread
        for inner, item in zip(node.elts, value, strict=True):
            yield from displayed(inner, item)


def only_returns(statement: ast.stmt) -> bool:
    """True for a loop that may be left by return, but not by break."""
    if not isinstance(statement, (ast.For, ast.While)):
        return False
    todo: list[ast.AST] = list(statement.body)
    returns = False
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Break):
            return False
        returns = returns or isinstance(node, ast.Return)
        inner = isinstance(node, (ast.FunctionDef, ast.Lambda))
        todo += [] if inner else ast.iter_child_nodes(node)
    return returns
