"""Operators, by Python's protocol: what user classes define is evaluated from source."""

from __future__ import annotations

import ast
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minispore.dims import Dim, as_number, equal
from minispore.frontend import control
from minispore.frontend.text import operate_on_text
from minispore.frontend.values import is_text_choice, refuse_choice, type_name
from minispore.primitive import ScalarLike
from minispore.symbolic import NeedConstant
from minispore.tensor import Tensor
from minispore.tree import Text

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

BINARY: dict[type[ast.AST], Callable] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.MatMult: operator.matmul, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
INPLACE: dict[type[ast.AST], Callable] = {
    kind: getattr(operator, f"i{binary.__name__.strip('_')}") for kind, binary in BINARY.items()
}
COMPARE: dict[type[ast.AST], Callable] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
UNARY: dict[type[ast.AST], Callable] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
_SIZES = (int, Dim)
_REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def operate(ev: Evaluator, function: Callable, *operands: Any) -> Any:
    """An operator on values."""
    if any(is_text_choice(v) for v in operands):
        return control.each_text(ev, list(operands), lambda *now: operate(ev, function, *now))
    for v in operands:
        refuse_choice(v, "an operand")
    if len(operands) == 2 and function.__name__ not in _REFLECTED:
        formats = function in (operator.mod, operator.imod) and isinstance(operands[0], str)
        if formats or any(isinstance(v, Text) for v in operands):
            return operate_on_text(function, *operands)
    if any(isinstance(v, Dim) for v in operands):
        try:
            if function in (operator.eq, operator.ne) and all(
                isinstance(v, _SIZES) for v in operands
            ):
                return equal(*operands) is (function is operator.eq)
            return function(*operands)
        except NeedConstant:  # about a size that is born
            operands = tuple(map(as_number, operands))
    if any(map(_is_own, operands)):
        return _by_protocol(ev, function, *operands)
    out = function(*operands)
    return ev.born(out) if isinstance(out, (list, dict, set)) else out


def _is_own(value: Any) -> bool:
    """True for an object of a class that Python source defines."""
    kind = type(value)
    builtin = kind.__module__ == "builtins" or isinstance(value, (Tensor, ScalarLike, Text))
    return not builtin and bool(kind.__flags__ & (1 << 9))  # a heap type: made by `class`


def _by_protocol(ev: Evaluator, function: Callable, *operands: Any) -> Any:
    """Try the methods that Python tries, in its order."""
    if function is operator.ne and all(type(v).__ne__ is object.__ne__ for v in operands):
        return control.negate(ev, operate(ev, operator.eq, *operands))
    for obj, name, args in _candidates(function, *operands):
        method = getattr(type(obj), f"__{name}__", None)
        if method is not None:
            bound = method.__get__(obj, type(obj))
            evaluated = isinstance(method, types.FunctionType)
            out = ev.call(bound, args, {}) if evaluated else bound(*args)
            if out is not NotImplemented:
                return out
    if function in (operator.eq, operator.ne):
        return (operands[0] is operands[1]) is (function is operator.eq)
    return function(*(type(type_name(v), (), {})() for v in operands))  # Python's error


def _candidates(function: Callable, left: Any, *more: Any) -> list[tuple[Any, str, list[Any]]]:
    """(object, method, arguments) in the order in which Python asks them."""
    name = function.__name__.strip("_")
    if not more:
        return [(left, name, [])]
    (right,) = more
    inplace = [(left, name, [right])] if function in INPLACE.values() else []
    name = name[1:] if inplace else name
    forward = (left, name, [right])
    backward = (right, _REFLECTED.get(name, f"r{name}"), [left])
    if type(left) is type(right) and name not in _REFLECTED:
        return [*inplace, forward]
    sub = type(right) is not type(left) and issubclass(type(right), type(left))
    if isinstance(left, (list, tuple, str, bytes)) and name in ("add", "mul"):
        return [backward, *inplace, forward]  # these are no numbers, whose operators come first
    return [*inplace, *([backward, forward] if sub else [forward, backward])]
