"""Fewer kinds of syntax: what can be said with simpler statements is said with them.

    x: int = 3                 ->  x = 3
    a < f() < c                ->  a < (_t0 := f()) and _t0 < c
    @d                             def f(...): ...
    def f(...): ...            ->  f = d(f)
    docstrings, annotations    ->  nothing

Every new node keeps the place of the one it replaces, so errors still point at the user's line.
"""

from __future__ import annotations

import ast
from itertools import count
from typing import TypeVar

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
T = TypeVar("T", bound=ast.AST)


def desugar(node: FunctionNode) -> FunctionNode:
    """A function in simpler syntax; the tree that is given is left as it is."""
    plain = _Desugar({n.id for n in ast.walk(node) if isinstance(n, ast.Name)})
    if isinstance(node, ast.Lambda):
        return _placed(ast.Lambda(node.args, plain.visit(node.body)), node)
    body = _without_docstring(node.body)
    statements = [s for old in body for s in _as_list(plain.visit(old))]
    kind = type(node)
    new = kind(node.name, node.args, statements or [_placed(ast.Pass(), node)], node.decorator_list)
    return _placed(new, node)


def source_of(node: FunctionNode) -> str:
    """The text of a desugared function."""
    return ast.unparse(node)


def _placed(new: T, old: ast.AST) -> T:
    return ast.fix_missing_locations(ast.copy_location(new, old))


def _as_list(statement: ast.stmt | list[ast.stmt] | None) -> list[ast.stmt]:
    if isinstance(statement, list):
        return statement
    return [] if statement is None else [statement]


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_text and isinstance(first.value.value, str) else body  # type: ignore[attr-defined]


class _Desugar(ast.NodeTransformer):
    """Rebuilds what it changes; nodes without sugar inside are shared with the old tree."""

    def __init__(self, names: set[str]) -> None:
        self.fresh = (name for name in map("_t{}".format, count()) if name not in names)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        fields = {}
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                items = [self.visit(v) if isinstance(v, ast.AST) else v for v in value]
                flat = [i for item in items for i in (item if isinstance(item, list) else [item])]
                fields[name] = [i for i in flat if i is not None] if name == "body" else flat
            else:
                fields[name] = self.visit(value) if isinstance(value, ast.AST) else value
        return ast.copy_location(type(node)(**fields), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return _placed(ast.Pass(), node)
        return _placed(ast.Assign([self.visit(node.target)], self.visit(node.value)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left, rights = self.visit(node.left), [self.visit(c) for c in node.comparators]
        pairs: list[ast.expr] = []
        for i, (op, right) in enumerate(zip(node.ops, rights, strict=True)):
            again = right
            if i < len(node.ops) - 1 and not isinstance(right, (ast.Constant, ast.Name)):
                name = next(self.fresh)
                target = ast.Name(name, ast.Store())
                right = _placed(ast.NamedExpr(target, right), right)
                again = _placed(ast.Name(name, ast.Load()), right)
            pairs.append(_placed(ast.Compare(left, [op], [right]), node))
            left = again
        return pairs[0] if len(pairs) == 1 else _placed(ast.BoolOp(ast.And(), pairs), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt | list[ast.stmt]:
        plain = desugar(node)
        assert isinstance(plain, ast.FunctionDef)
        decorators, plain.decorator_list = plain.decorator_list, []
        statements: list[ast.stmt] = [plain]
        for decorator in reversed(decorators):
            function = ast.Name(node.name, ast.Load())
            call = ast.Call(self.visit(decorator), [function], [])
            target = ast.Name(node.name, ast.Store())
            statements.append(_placed(ast.Assign([target], call), decorator))
        return statements

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        args = self.visit(node.args)
        return _placed(ast.Lambda(args, self.visit(node.body)), node)
