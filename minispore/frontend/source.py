"""Finding the source of a function: its AST, in the file's own line numbers and columns.

The whole file is parsed once and searched by position, so that decorated functions, lambdas inside
calls and several lambdas on one line are found, and every node points at the user's file.
"""

from __future__ import annotations

import ast
import linecache
import types
from dataclasses import dataclass, field

from minispore.frontend.desugar import FunctionNode, desugar


@dataclass(slots=True)
class Code:
    """The AST of one function, with the scope of its names."""

    node: FunctionNode
    file: str
    name: str
    local: frozenset[str] = field(default_factory=frozenset)
    nonlocal_: frozenset[str] = field(default_factory=frozenset)
    global_: frozenset[str] = field(default_factory=frozenset)


_modules: dict[str, tuple[tuple[str, ...], ast.Module]] = {}
_codes: dict[types.CodeType, Code] = {}


def module_ast(file: str) -> ast.Module:
    """The parsed file (or notebook cell); OSError if Python cannot show its source."""
    linecache.checkcache(file)
    lines = tuple(linecache.getlines(file))
    if not lines:
        raise OSError(
            f"the source of {file} cannot be found: a graph is compiled from source, so define the "
            "function in a file or a notebook cell"
        )
    known = _modules.get(file)
    if known is None or known[0] != lines:
        known = (lines, ast.parse("".join(lines), file))
        _modules[file] = known
    return known[1]


def code_of(fn: types.FunctionType) -> Code:
    """The source of a Python function; OSError if there is none."""
    code = fn.__code__
    found = _codes.get(code)
    if found is None:
        node = desugar(_find(module_ast(code.co_filename), code))
        found = analyse(node, code.co_filename, code.co_name)
        _codes[code] = found
    return found


def _find(tree: ast.Module, code: types.CodeType) -> FunctionNode:
    is_lambda = code.co_name == "<lambda>"
    found: list[FunctionNode] = []
    for node in ast.walk(tree):
        if is_lambda and isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            found.append(node)
        elif (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name
        ):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                found.append(node)  # type: ignore[arg-type]
    if len(found) > 1:
        found = [n for n in found if _contains_code(n, code)]
    if not found:
        raise OSError(
            f"{code.co_name} is not in {code.co_filename} at line {code.co_firstlineno}: "
            "was the file changed after it was imported?"
        )
    return found[0]


def _contains_code(node: FunctionNode, code: types.CodeType) -> bool:
    """True if the byte code's own columns lie in the body of a lambda."""
    assert isinstance(node, ast.Lambda)
    body = node.body
    places = [(line, col) for line, _, col, _ in code.co_positions() if line and col is not None]
    start = (body.lineno, body.col_offset)
    end = (body.end_lineno or body.lineno, body.end_col_offset or body.col_offset)
    inside = [p for p in places if start <= p < end]
    nested = [n for n in ast.walk(body) if isinstance(n, ast.Lambda)]
    return len(inside) == len([p for p in places if p[1] > 0 or p[0] != node.lineno]) and not any(
        _contains_code(n, code) for n in nested
    )


def analyse(node: FunctionNode, file: str, name: str) -> Code:
    """Which names of a function are its own, as Python's compiler decides it."""
    nonlocal_: set[str] = set()
    global_: set[str] = set()
    a = node.args
    local = {arg.arg for arg in [*a.posonlyargs, *a.args, *a.kwonlyargs]}
    local |= {arg.arg for arg in (a.vararg, a.kwarg) if arg}
    body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    while body:
        n = body.pop()
        if isinstance(n, ast.Nonlocal):
            nonlocal_.update(n.names)
        elif isinstance(n, ast.Global):
            global_.update(n.names)
        elif isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)):
            local.add(n.id)
        elif isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            local.add(n.name)
            body.extend(n.decorator_list)
            continue
        elif isinstance(n, ast.Lambda):
            continue
        elif isinstance(n, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            local.update(w.target.id for w in ast.walk(n) if isinstance(w, ast.NamedExpr))
            continue
        elif isinstance(n, ast.ExceptHandler) and n.name:
            local.add(n.name)
        elif isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name:
            local.add(n.name)
        body.extend(ast.iter_child_nodes(n))
    return Code(
        node, file, name,
        frozenset(local - nonlocal_ - global_), frozenset(nonlocal_), frozenset(global_),
    )  # fmt: skip
