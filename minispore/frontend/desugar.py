"""Fewer kinds of syntax: what can be said with simpler statements is said with them.

    x: int = 3                 ->  x = 3
    a < f() < c                ->  a < (_t0 := f()) and _t0 < c
    @d                             def f(...): ...
    def f(...): ...            ->  f = d(f)
    match x: case [1, y]: ...  ->  if isinstance(x, (list, tuple)) and len(x) == 2 and ...: ...
    docstrings, annotations    ->  nothing

Every new node keeps the place of the one it replaces, so errors still point at the user's line.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, TypeVar

Value = Callable[[], ast.expr]  # makes an expression anew each time
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

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        name = next(self.fresh)
        assign = ast.Assign([ast.Name(name, ast.Store())], self.visit(node.subject))
        chain: list[ast.stmt] = []
        for case in reversed(node.cases):
            test = self.matches(case.pattern, lambda: ast.Name(name, ast.Load()))
            if case.guard is not None:
                test = ast.BoolOp(ast.And(), [test, self.visit(case.guard)])
            body = [s for old in case.body for s in _as_list(self.visit(old))]
            chain = [_placed(ast.If(test, body, chain), case.pattern)]
        return [_placed(assign, node), *chain]

    def matches(self, pattern: ast.pattern, value: Value) -> ast.expr:
        """Whether a value matches a pattern; the names in it are bound on the way."""
        return getattr(self, f"matches_{type(pattern).__name__}")(pattern, value)

    def matches_MatchValue(self, pattern: ast.MatchValue, value: Value) -> ast.expr:
        return ast.Compare(value(), [ast.Eq()], [self.visit(pattern.value)])

    def matches_MatchSingleton(self, pattern: ast.MatchSingleton, value: Value) -> ast.expr:
        return ast.Compare(value(), [ast.Is()], [ast.Constant(pattern.value)])

    def matches_MatchOr(self, pattern: ast.MatchOr, value: Value) -> ast.expr:
        return ast.BoolOp(ast.Or(), [self.matches(p, value) for p in pattern.patterns])

    def matches_MatchAs(self, pattern: ast.MatchAs, value: Value) -> ast.expr:
        inner = [] if pattern.pattern is None else [self.matches(pattern.pattern, value)]
        return _all([*inner, *_bind(pattern.name, value)])

    def matches_MatchSequence(self, pattern: ast.MatchSequence, value: Value) -> ast.expr:
        parts = pattern.patterns
        stars = [i for i, p in enumerate(parts) if isinstance(p, ast.MatchStar)]
        before, n = (stars or [len(parts)])[0], len(parts) - len(stars)
        length = ast.Compare(_call(len, value()), [ast.GtE() if stars else ast.Eq()],
                             [ast.Constant(n)])  # fmt: skip
        tests = [_call(isinstance, value(), _constant((list, tuple, range))), length]
        for i, part in enumerate(parts):
            place = i if i < before else i - len(parts)
            if isinstance(part, ast.MatchStar):
                last = ast.Constant(None if place == -1 else place + 1)
                middle = ast.Slice(ast.Constant(before), last)
                tests += _bind(part.name, partial(_list_of_items, value, middle))
            else:
                tests.append(self.matches(part, partial(_item, value, place)))
        return _all(tests)

    def matches_MatchMapping(self, pattern: ast.MatchMapping, value: Value) -> ast.expr:
        keys = [self.visit(k) for k in pattern.keys]
        tests = [_call(isinstance, value(), _constant(dict))]
        for key, part in zip(keys, pattern.patterns, strict=True):
            tests.append(ast.Compare(key, [ast.In()], [value()]))
            tests.append(self.matches(part, partial(_item, value, key)))
        return _all([*tests, *_bind(pattern.rest, lambda: _call(_without, value(), *keys))])

    def matches_MatchClass(self, pattern: ast.MatchClass, value: Value) -> ast.expr:
        cls = lambda: self.visit(pattern.cls)  # noqa: E731
        tests = [_call(isinstance, value(), cls())]

        def position(i: int) -> ast.expr:
            name = _call(_match_argument, cls(), ast.Constant(i))
            return ast.IfExp(_call(_is_whole, cls()), value(), _call(getattr, value(), name))

        for i, part in enumerate(pattern.patterns):
            tests.append(self.matches(part, partial(position, i)))
        for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            tests.append(self.matches(part, partial(_attribute, value, name)))
        return _all(tests)


# ------------------------------------------------------------------------------- patterns

_WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def _constant(value: Any) -> ast.expr:
    """An expression that is an object itself."""
    return ast.Constant(value)


def _call(function: Any, *args: ast.expr) -> ast.expr:
    """A call of a function itself, whatever its name means to the user."""
    return ast.Call(_constant(function), list(args), [])


def _list_of_items(value: Value, middle: ast.expr) -> ast.expr:
    return _call(list, _item(value, middle))


def _attribute(value: Value, name: str) -> ast.expr:
    return ast.Attribute(value(), name, ast.Load())


def _item(value: Value, place: Any) -> ast.expr:
    place = place if isinstance(place, ast.expr) else ast.Constant(place)
    return ast.Subscript(value(), place, ast.Load())


def _all(tests: list[ast.expr]) -> ast.expr:
    return ast.BoolOp(ast.And(), tests) if len(tests) > 1 else (tests or [ast.Constant(True)])[0]


def _bind(name: str | None, value: Value) -> list[ast.expr]:
    """A test that is true and binds a name, if there is one."""
    if name is None:
        return []
    bound = ast.NamedExpr(ast.Name(name, ast.Store()), value())
    pair = ast.Tuple([bound, ast.Constant(True)], ast.Load())
    return [ast.Subscript(pair, ast.Constant(1), ast.Load())]


def _without(mapping: dict, *keys: Any) -> dict:
    """What is left of a mapping."""
    return {k: v for k, v in mapping.items() if k not in keys}


def _is_whole(cls: type) -> bool:
    """True for a class whose one positional pattern is matched with the object itself."""
    return cls in _WHOLE


def _match_argument(cls: Any, position: int) -> str:
    """The attribute that a class's positional pattern is matched with."""
    names: tuple[str, ...] = getattr(cls, "__match_args__", ())
    if position >= len(names):
        raise TypeError(
            f"{cls.__name__}() accepts {len(names)} positional sub-patterns ({position + 1} given)"
        )
    return names[position]
