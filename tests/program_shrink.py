"""Makes a program that fails smaller, as long as it fails: by statements, then by expressions.

Delta debugging (Zeller and Hildebrandt, 2002) on the syntax tree: pieces of a block are left out,
large ones first; a compound statement becomes its body; an expression becomes a part of itself, or
a constant.  What no edit makes smaller is the result.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

BLOCKS = ("body", "orelse")
CONSTANTS = ("0", "1", "0.5", "True", "None", "x")


def shrink(text: str, fails: Callable[[str], bool], most: int = 5000) -> str:
    """The smallest module found that still `fails`, which is asked `most` times or less."""
    shrinker = _Shrinker(ast.parse(text), fails, most)
    while shrinker.run():
        pass
    return ast.unparse(shrinker.tree) + "\n"


class _Shrinker:
    def __init__(self, tree: ast.Module, fails: Callable[[str], bool], most: int):
        self.tree, self.fails, self.left = tree, fails, most
        self.known: set[str] = {ast.unparse(tree)}

    def run(self) -> bool:
        """Try all edits once; True if one was kept."""
        steps = (self.statements, self.unwrapped, self.expressions, self.items)
        return any([step() for step in steps])

    def attempt(self, node: ast.AST, field: str, value: Any) -> bool:
        """Set a field; True if the program still fails, otherwise the field is set back."""
        old = getattr(node, field)
        size = len(ast.unparse(self.tree))
        setattr(node, field, value)
        try:
            text = ast.unparse(ast.fix_missing_locations(self.tree))
            if text not in self.known and len(text) < size and self.left > 0:
                self.known.add(text)
                self.left -= 1
                compile(text, "<shrunk>", "exec")
                if self.fails(text + "\n"):
                    return True
        except (SyntaxError, ValueError, TypeError, AttributeError, IndexError):
            pass  # no program at all
        setattr(node, field, old)
        return False

    def statements(self) -> bool:
        """Leave out pieces of blocks."""
        kept = False
        for node in list(ast.walk(self.tree)):
            for field in BLOCKS:
                block = getattr(node, field, None)
                size = len(block) if isinstance(block, list) else 0
                while size:
                    for start in range(len(block) - size, -1, -size):
                        rest = block[:start] + block[start + size :]
                        if self.attempt(node, field, rest or self.nothing(field)):
                            block, kept = rest, True
                    size //= 2
        return kept

    def nothing(self, field: str) -> list[ast.stmt]:
        return [ast.Pass()] if field == "body" else []

    def unwrapped(self) -> bool:
        """Replace compound statements by their blocks."""
        kept = False
        for node in list(ast.walk(self.tree)):
            for field in BLOCKS:
                i = 0
                while isinstance(block := getattr(node, field, None), list) and i < len(block):
                    inner = [getattr(block[i], f, None) for f in BLOCKS]
                    inner = [b for b in inner if isinstance(b, list) and b]
                    done = any(
                        self.attempt(node, field, block[:i] + b + block[i + 1 :]) for b in inner
                    )
                    kept |= done
                    i += not done
        return kept

    def expressions(self) -> bool:
        """Replace expressions by parts of themselves, or by constants."""
        kept = False
        for node in list(ast.walk(self.tree)):
            for field, value in ast.iter_fields(node):
                if isinstance(value, ast.expr):
                    kept |= any(self.attempt(node, field, e) for e in smaller(value))
                elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                    for i in range(len(value)):
                        kept |= self.item(node, field, i)
        return kept

    def item(self, node: ast.AST, field: str, i: int) -> bool:
        values = getattr(node, field)
        if i >= len(values):
            return False
        options = [[*values[:i], e, *values[i + 1 :]] for e in smaller(values[i])]
        return any(self.attempt(node, field, option) for option in options)

    def items(self) -> bool:
        """Leave out arguments, operands, keys and elements."""
        kept = False
        for node in list(ast.walk(self.tree)):
            for field, value in ast.iter_fields(node):
                if isinstance(value, list) and not isinstance(node, ast.Module):
                    for i in range(len(value) - 1, -1, -1):
                        now = getattr(node, field)
                        kept |= self.attempt(node, field, now[:i] + now[i + 1 :])
        return kept


def smaller(node: ast.expr) -> Iterator[ast.expr]:
    """What could stand in the place of an expression."""
    yield from (n for n in ast.walk(node) if isinstance(n, ast.expr) and n is not node)
    for text in CONSTANTS:
        yield ast.parse(text, mode="eval").body
