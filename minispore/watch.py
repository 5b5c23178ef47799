"""Whether what a guard has found can have changed: words of memory, in place of Python's look-ups.

A guard (frontend/guards.py) reads hundreds of attributes to know that a graph still holds, 50 ns
each.  Most of them stand in a few objects, and CPython keeps a number with every dict that each
change of it renews.  So a guard that has held holds as long as some words of memory, at addresses
known to be alive, are what they were; machine code compares them in no time (shortcut.py).

    not (K1.cell_contents is K2)      the word in the cell
    'bprop' not in K14.__dict__       the version of that dict, and that it is the object's dict
    len(v8) == 5, v8[0] is K15        a list's length, where its items are, and the items

Where this Python keeps no such numbers, or a line reads what may change without one, the line stays
Python: `Watch.rest`.
"""

from __future__ import annotations

import ast
import functools
import gc
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from minispore.dtype import DType
from minispore.engine.native import word
from minispore.frontend.attributes import lookup
from minispore.frontend.capture import is_trusted
from minispore.frontend.guards import Guarded, Line
from minispore.frontend.heap import UNSET

# Of a CPython object: where its type is; a cell's content; the size, and the address of the items,
# of a list; a dict's version.  Where an object's dict is, before it.
_TYPE, _CELL, _SIZE, _ITEMS, _VERSION, _DICT = 8, 16, 16, 24, 24, -24
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), DType, np.generic, np.dtype)
_IMMUTABLE = 1 << 8  # among the flags of a class
_COMPARE: dict[type, Callable] = {
    ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le,
}  # fmt: skip


class Unwatched(Exception):
    """No word tells whether what is read here has changed."""


class Watch:
    """The words that a guard depends on, for one state of the world.

    Attributes:
        words: address -> word, in an order in which each makes sure that the next may be read.
        values: what the variables of the guard are, where words watch over them.
        rest: the lines that stay Python.
        kept: what must stay alive for the addresses to be valid.
    """

    def __init__(self, guarded: Guarded):
        self.words: dict[int, int] = {}
        self.kept: list[Any] = [guarded.scope]
        self.values: dict[str, Any] = dict(guarded.scope)
        self.rest: list[Line] = []
        for line in guarded.lines:
            if line.tells_apart:  # which the caller sees to
                continue
            before = dict(self.words)
            try:
                self.line(line, _tree(line.code))
            except Unwatched:
                self.words = before
                self.rest.append(line)

    def line(self, line: Line, tree: ast.AST) -> None:
        """Watch over what a line of the guard reads."""
        if isinstance(tree, ast.Assign):
            (target,) = tree.targets
            assert isinstance(target, ast.Name)
            self.values[target.id] = self.value(tree.value)
        elif bool(self.value(tree)) is not line.holds:
            raise Unwatched

    def watch(self, address: int) -> int:
        """This word must stay what it is."""
        return self.words.setdefault(address, word(address))

    def watch_dict(self, content: dict) -> None:
        """Nothing in this dict may change.  (The globals of a module change all the time.)"""
        if "__builtins__" in content:
            raise Unwatched
        self.kept.append(content)
        self.watch(id(content) + _VERSION)

    # ----------------------------------------------------------------------- expressions

    def value(self, tree: Any) -> Any:
        """The value of an expression; what it reads is watched."""
        method: Any = getattr(self, f"of_{type(tree).__name__}", None)
        if method is None:
            raise Unwatched
        return method(tree)

    def of_Constant(self, tree: ast.Constant) -> Any:
        return tree.value

    def of_Name(self, tree: ast.Name) -> Any:
        if tree.id in self.values:
            return self.values[tree.id]
        known = {kind.__name__: kind for kind in (bool, int, float, str, bytes)}
        if tree.id not in known:
            raise Unwatched
        return known[tree.id]

    def of_NamedExpr(self, tree: ast.NamedExpr) -> Any:
        found = self.values[tree.target.id] = self.value(tree.value)
        return found

    def of_UnaryOp(self, tree: ast.UnaryOp) -> Any:
        found = self.content(self.value(tree.operand))
        if not isinstance(tree.op, (ast.Not, ast.USub)):
            raise Unwatched
        return not found if isinstance(tree.op, ast.Not) else -found

    def of_BoolOp(self, tree: ast.BoolOp) -> Any:
        found = None
        for part in tree.values:
            found = self.value(part)
            if bool(found) is not isinstance(tree.op, ast.And):
                break
        return found

    def of_Compare(self, tree: ast.Compare) -> Any:
        left, (op,), right = self.value(tree.left), tree.ops, self.value(tree.comparators[0])
        if isinstance(op, (ast.In, ast.NotIn)):
            if type(right) not in (dict, tuple, frozenset):
                raise Unwatched
            return (left in self.content(right)) is isinstance(op, ast.In)
        if not isinstance(op, (ast.Is, ast.IsNot)):
            left, right = _unchanging(left), _unchanging(right)
        return _COMPARE[type(op)](left, right)

    def of_Subscript(self, tree: ast.Subscript) -> Any:
        base, key = self.value(tree.value), self.value(tree.slice)
        return self.content(base)[_unchanging(key)]

    def of_Call(self, tree: ast.Call) -> Any:
        if not isinstance(tree.func, ast.Name) or tree.keywords:
            raise Unwatched
        name, args = tree.func.id, [self.value(a) for a in tree.args]
        if name == "type":
            return self.type_of(args[0])
        if name in ("len", "tuple", "list"):
            builtin: Any = {"len": len, "tuple": tuple, "list": list}[name]
            return builtin(self.content(args[0]))
        if name == "constant_key":
            return self.values[name](_unchanging(args[0]))
        if name == "hasattr" and isinstance(args[0], type):
            self.watch_class(args[0])
            return hasattr(args[0], args[1])
        if name == "getattr" and args[1] == "__dict__":
            return self.dict_of(args[0])
        raise Unwatched

    def content(self, value: Any) -> Any:
        """A value whose content is read: what it contains is watched (not what that contains)."""
        if type(value) is dict:
            self.watch_dict(value)
        elif type(value) is list:
            self.kept += [value, *value]  # of an item, another one must not get its address
            self.watch(id(value) + _SIZE)
            items = self.watch(id(value) + _ITEMS)
            for i in range(len(value)):
                self.watch(items + 8 * i)
        elif isinstance(value, tuple):
            if type(value).__getitem__ is not tuple.__getitem__:
                raise Unwatched
        elif not isinstance(value, (frozenset, *_PLAIN)):
            raise Unwatched
        return value

    # ----------------------------------------------------------------------- attributes

    def of_Attribute(self, tree: ast.Attribute) -> Any:
        obj, name = self.value(tree.value), tree.attr
        self.kept.append(obj)
        if isinstance(obj, types.CellType) and name == "cell_contents":
            self.watch(id(obj) + _CELL)
            self.kept.append(obj.cell_contents)
            return obj.cell_contents
        if isinstance(obj, types.MethodType) and name in ("__func__", "__self__"):
            return getattr(obj, name)
        if isinstance(obj, types.FunctionType) and name == "__code__":
            self.watch(id(obj) + _where(word, word.__code__))
            return obj.__code__
        if isinstance(obj, type):
            return self.of_class(obj, name)
        if name == "__dict__":
            return self.dict_of(obj)
        return self.attribute(obj, name)

    def of_class(self, kind: type, name: str) -> Any:
        """What a class has, which neither a descriptor nor its metaclass makes anew."""
        meta, given = type(kind), lookup(kind, name)
        if meta.__getattribute__ is not type.__getattribute__ or lookup(meta, name) is not UNSET:
            raise Unwatched
        inner = given.__func__ if isinstance(given, (staticmethod, classmethod)) else given
        makes = hasattr(type(inner), "__get__") and not is_trusted(type(inner).__module__)
        if given is UNSET or (makes and not isinstance(inner, types.FunctionType)):
            raise Unwatched
        self.type_of(kind)
        self.watch_class(meta)
        self.watch_class(kind)
        return getattr(kind, name)

    def attribute(self, obj: Any, name: str) -> Any:
        """An attribute that an object has itself, or its class."""
        kind = type(obj)
        if kind.__getattribute__ is not object.__getattribute__:
            raise Unwatched
        own = self.dict_of(obj)
        self.watch_class(kind)
        given = lookup(kind, name)
        if hasattr(type(given), "__set__") or hasattr(type(given), "__delete__"):
            raise Unwatched  # a property, a slot
        if name not in own and not isinstance(given, (types.FunctionType, type, *_PLAIN)):
            raise Unwatched
        return getattr(obj, name)

    def dict_of(self, obj: Any) -> dict:
        """The dict of an object, which must stay its dict, as it is."""
        if isinstance(obj, (type, types.ModuleType)) or not dicts_tell():
            raise Unwatched
        found = getattr(obj, "__dict__", None)
        if type(found) is not dict or word(id(obj) + _DICT) != id(found):
            raise Unwatched
        self.type_of(obj)
        self.watch(id(obj) + _DICT)
        self.watch_dict(found)
        return found

    def type_of(self, obj: Any) -> type:
        """The type of an object, which must stay its type."""
        self.kept += [obj, type(obj)]
        self.watch(id(obj) + _TYPE)
        return type(obj)

    def watch_class(self, kind: type) -> None:
        """A class and its bases stay as they are, which ours and those in C always do."""
        for base in kind.__mro__:
            if not is_trusted(base.__module__) and not base.__flags__ & _IMMUTABLE:
                self.kept += [base, base.__mro__]
                self.watch(id(base) + _where(Unwatched, Unwatched.__mro__))
                (content,) = gc.get_referents(base.__dict__)  # a proxy of the dict
                self.watch_dict(content)


def _unchanging(value: Any) -> Any:
    """A value that cannot change as long as it is the same object."""
    if isinstance(value, (tuple, frozenset)):
        for item in value:
            _unchanging(item)
    elif not isinstance(value, (type, *_PLAIN)):
        raise Unwatched
    return value


@functools.cache
def _where(obj: Any, content: Any) -> int:
    """Where objects of this type have what this one has there: it is the same in all."""
    places = range(_TYPE + 8, object.__sizeof__(obj), 8)
    return next(p for p in places if word(id(obj) + p) == id(content))


@functools.cache
def dicts_tell() -> bool:
    """True if this Python renews the version of an object's dict whenever an attribute changes."""

    class Plain:
        def __init__(self) -> None:
            self.x = self.y = 0

    class Slots:
        __slots__ = ("z", "__weakref__")

    class Mixed(Slots):  # as a Parameter is
        __init__ = Plain.__init__  # type: ignore[assignment]

    def write(obj: Any, value: Any) -> None:
        obj.x = value

    for kind in (Plain, Mixed):
        objects: list[Any] = [kind() for _ in range(8)]
        first, own = objects[0], objects[0].__dict__
        for turn in range(1000):  # until the interpreter has its quick ways for this
            for obj in objects:
                write(obj, turn)
        versions = {word(id(own) + _VERSION)}
        write(first, "new")
        versions.add(word(id(own) + _VERSION))
        del first.y
        versions.add(word(id(own) + _VERSION))
        if word(id(first) + _DICT) != id(own) or len(versions) < 3:
            return False
    cell: Any = types.CellType(math)
    return word(id(cell) + _CELL) == id(math)


@functools.lru_cache(512)
def _tree(code: str) -> ast.AST:
    """A line of a guard, as syntax."""
    (statement,) = ast.parse(code).body
    return statement.value if isinstance(statement, ast.Expr) else statement
