"""Finding the source of a function: its AST, in the file's own line numbers and columns.

The whole file is parsed once and searched by position, so that decorated functions, lambdas inside
calls and several lambdas on one line are found, and every node points at the user's file.
"""

from __future__ import annotations

import ast
import inspect
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
    is_checked: bool = False  # see fence.py


_modules: dict[str, tuple[tuple[str, ...], list[FunctionNode]]] = {}
_codes: dict[types.CodeType, Code] = {}


def module_functions(file: str, name: str) -> list[FunctionNode]:
    """The functions in a file (or notebook cell), which `name` is one of.

    Raises:
        OSError: Python cannot show the file's source.
    """
    linecache.checkcache(file)
    lines = tuple(linecache.getlines(file))
    if not lines:
        raise OSError(
            f"the source of {name} cannot be found in {file}, and a graph is compiled from source: "
            "define the function in a file or a notebook cell (not by exec or python -c), or trace "
            "it with capture_mode='trace'"
        )
    known = _modules.get(file)
    if known is None or known[0] != lines:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        nodes = ast.walk(ast.parse("".join(lines), file))
        known = (lines, [node for node in nodes if isinstance(node, kinds)])
        _modules[file] = known
    return known[1]


def code_of(fn: types.FunctionType) -> Code:
    """The source of a Python function; OSError if there is none."""
    code = fn.__code__
    found = _codes.get(code)
    if found is None:
        node = desugar(_find(module_functions(code.co_filename, code.co_name), code))
        found = analyse(node, code.co_filename, code.co_name)
        _codes[code] = found
    return found


def _find(functions: list[FunctionNode], code: types.CodeType) -> FunctionNode:
    is_lambda = code.co_name == "<lambda>"
    found: list[FunctionNode] = []
    for node in functions:
        if is_lambda and isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            found.append(node)
        elif (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name
        ):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                found.append(node)  # type: ignore[arg-type]
    if is_lambda and len(found) > 1:
        found = [*_same_lambda(found, code)]  # type: ignore[arg-type]
    if not found:
        raise OSError(
            f"{code.co_name} is not in {code.co_filename} at line {code.co_firstlineno}: if the "
            "file was changed after it was imported, import it again"
        )
    return found[0]


def _same_lambda(found: list[ast.Lambda], code: types.CodeType) -> list[ast.Lambda]:
    """Which of several lambdas on one line was compiled to `code`.

    Its instructions lie in the innermost body that holds them all.  (Python 3.12 does not say where
    a lambda's constant is: then the constant tells.)

    Raises:
        OSError: it cannot be told.
    """
    found = [node for node in found if _arguments(node) == _argument_names(code)]
    places = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if None not in (line, end_line, column, end_column)
    ]
    places = [(start, end) for start, end in places if end > start]  # type: ignore[operator]
    if places:
        found = [n for n in found if all(_holds(n.body, start, end) for start, end in places)]
        found = sorted(found, key=lambda n: (n.lineno, n.col_offset))[-1:]
    else:
        found = [
            n for n in found if isinstance(n.body, ast.Constant) and _is_constant(n.body, code)
        ]
    if len({ast.dump(node) for node in found}) > 1:
        raise OSError(
            f"several lambdas like this stand in line {code.co_firstlineno} of {code.co_filename}: "
            "give each a line of its own"
        )
    return found


def _arguments(node: FunctionNode) -> list[str]:
    a = node.args
    last = [arg.arg for arg in (a.vararg, a.kwarg) if arg]
    return [arg.arg for arg in [*a.posonlyargs, *a.args, *a.kwonlyargs]] + last


def _argument_names(code: types.CodeType) -> list[str]:
    has_rest = bool(code.co_flags & inspect.CO_VARARGS) + bool(
        code.co_flags & inspect.CO_VARKEYWORDS
    )
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + has_rest])


def _holds(body: ast.expr, start: tuple, end: tuple) -> bool:
    last = (body.end_lineno or body.lineno, body.end_col_offset or body.col_offset)
    return (body.lineno, body.col_offset) <= start and end <= last


def _is_constant(body: ast.Constant, code: types.CodeType) -> bool:
    wanted = (type(body.value), repr(body.value))
    return any((type(c), repr(c)) == wanted for c in code.co_consts)


def analyse(node: FunctionNode, file: str, name: str) -> Code:
    """Which names of a function are its own, as Python's compiler decides it."""
    nonlocal_: set[str] = set()
    global_: set[str] = set()
    local = set(_arguments(node))
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
        body.extend(ast.iter_child_nodes(n))
    return Code(
        node, file, name,
        frozenset(local - nonlocal_ - global_), frozenset(nonlocal_), frozenset(global_),
    )  # fmt: skip
