"""What no graph can say: refused before anything is evaluated, with place and advice."""

from __future__ import annotations

import ast

from minispore.frontend.errors import UnsupportedError, locate
from minispore.frontend.source import Code
from minispore.ir.node import Location

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Yield: ("yield", "return a list instead of writing a generator"),
    ast.YieldFrom: ("yield from", "return a list instead of writing a generator"),
    ast.Await: ("await", "a graph has no event loop; call the coroutine outside"),
    ast.AsyncFunctionDef: ("async def", "use a plain function"),
    ast.AsyncFor: ("async for", "use a plain for loop"),
    ast.AsyncWith: ("async with", "a graph has no event loop"),
    ast.Import: ("import", "import the module at the top of the file"),
    ast.ImportFrom: ("import", "import the name at the top of the file"),
    ast.ClassDef: ("class", "define the class outside the compiled function"),
    ast.TryStar: ("except*", "test the condition with if, or handle the error around the call"),
}


def location(node: ast.AST, code: Code) -> Location:
    """The place of an AST node in the user's file."""
    line = getattr(node, "lineno", 0)
    end = getattr(node, "end_col_offset", 0) if getattr(node, "end_lineno", line) == line else 0
    return Location(code.file, line, getattr(node, "col_offset", 0), end or 0, code.name)


def check(code: Code) -> None:
    """Raise UnsupportedError for the first construct that a graph cannot hold."""
    if code.is_checked:
        return
    if isinstance(code.node, ast.AsyncFunctionDef):
        _refuse(code.node, code)
    body = code.node.body
    todo: list[ast.AST] = [body] if isinstance(body, ast.AST) else list(reversed(body))
    while todo:
        node = todo.pop()
        if type(node) in _REFUSED:
            _refuse(node, code)
        todo.extend(reversed(list(ast.iter_child_nodes(node))))
    code.is_checked = True


def _refuse(node: ast.AST, code: Code) -> None:
    name, advice = _REFUSED[type(node)]
    error = UnsupportedError(f"'{name}' cannot be part of a compiled graph: {advice}")
    locate(error, [location(node, code)])
    raise error
