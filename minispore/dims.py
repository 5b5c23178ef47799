"""Sizes that are not known when a graph is compiled: integers with a name.

A dimension of a Tensor is an int or a Dim, a polynomial in symbols and parts that are none:

    n1, n2 ...     the sizes of inputs that are declared with None; a call tells what they are
    m1, m2 ...     sizes that are born when the graph runs: how many elements ``x[mask]`` has
    div(a, b)      a // b, where it does not come out even
    max(a, 0)

``+ - * // %`` give a Dim, or an int where all symbols drop out, in a normal form: equal forms are
equal sizes, whatever the symbols are.  All other questions are *decisions*.  While a graph is
compiled the call at hand decides those about inputs: ``n1 > 3`` is what it is for this call, and
one more condition for using the graph again.  That ``n2 == n1``, or ``n1 == 3``, is more than a
condition: compiling begins anew with one symbol less, so that equality shows in the form.  About a
size that is born nothing can be decided (NeedConstant): in the user's program a comparison is
made when the graph runs, and what needs a constant is an error.

(MindSpore: dynamic shapes, -1 in a shape, and the symbolic shapes of its SymbolEngine.)
"""

from __future__ import annotations

import operator
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from minispore.tree import NeedConstant

# A part of a product: a symbol's name, ("div", a, b) or ("max", a, 0).
Atom = str | tuple
Form = tuple[tuple[tuple[Atom, ...], int], ...]  # of each product its parts, in order, and factor

NO_PARTS: tuple[Atom, ...] = ()


class ScalarLike:
    """A Python number that varies at run time (inside a graph).  See symbolic.py."""

    __slots__ = ()
    kind: type

    def __getattr__(self, name: str) -> Any:
        """Of what only a number itself has (``n.bit_length``): a constant's, or NeedConstant."""
        if name.startswith("__") or not hasattr(self.kind, name):
            kind = self.kind.__name__
            raise AttributeError(f"'{kind}' object has no attribute '{name}'", name=name, obj=self)
        return getattr(self.kind(self), name)


# ----------------------------------------------------------------------------------- forms


def form(size: Any) -> Form:
    """The normal form of an int or a Dim."""
    if isinstance(size, Dim):
        return size.form
    return ((NO_PARTS, int(size)),) if size else ()


def sized(form: Form) -> Any:
    """The Dim of a form, or the int if it is constant."""
    if not form:
        return 0
    return form[0][1] if form[0][0] == NO_PARTS and len(form) == 1 else Dim(form)


def _of_terms(terms: Mapping[tuple[Atom, ...], int]) -> Form:
    kept = [(parts, factor) for parts, factor in terms.items() if factor]
    return tuple(sorted(kept, key=lambda term: (not term[0], repr(term[0]))))  # the constant last


def _sum(a: Form, b: Form, sign: int = 1) -> Form:
    terms = Counter(dict(a))
    for parts, factor in b:
        terms[parts] += sign * factor
    return _of_terms(terms)


def _product(a: Form, b: Form) -> Form:
    terms: Counter[tuple[Atom, ...]] = Counter()
    for p, f in a:
        for q, g in b:
            terms[tuple(sorted((*p, *q), key=repr))] += f * g
    return _of_terms(terms)


def _without(parts: tuple[Atom, ...], others: tuple[Atom, ...]) -> tuple[Atom, ...] | None:
    """A product divided by another; None if it cannot be."""
    left = Counter(parts)
    left.subtract(others)
    if min(left.values(), default=0) < 0:
        return None
    return tuple(sorted(left.elements(), key=repr))


def _exact(a: Form, b: Form) -> Form | None:
    """``a / b``, term by term; None if that does not come out even."""
    whole: Form = ()
    for _ in range(len(a) * len(b) + 1):
        if not a:
            return whole
        parts = _without(a[0][0], b[0][0])
        if parts is None or a[0][1] % b[0][1]:
            return None
        term = ((parts, a[0][1] // b[0][1]),)
        whole, a = _sum(whole, term), _sum(a, _product(term, b), -1)
    return None


def _quotient(a: Form, b: Form) -> Form:
    """``a // b``: what comes out even, and a part for the rest."""
    whole = _exact(a, b)
    if whole is not None:
        return whole
    whole = ()
    if b[0][0] == NO_PARTS:
        number = b[0][1]
        whole = _of_terms({parts: factor // number for parts, factor in a})
        a = _of_terms({parts: factor % number for parts, factor in a})
        if a[0][0] == NO_PARTS:  # less than the number
            return whole
    return _sum(whole, (((("div", a, b),), 1),))


def least(form: Form) -> int | None:
    """A number that the size is never below; None if its form tells none.

    No symbol is negative: they are sizes of dimensions.
    """
    total = 0
    for parts, factor in form:
        if factor < 0 and len(parts) == 1 and parts[0][0] == "max":
            rest = _sum(form, ((parts, factor),), -1)
            cases = [least(_sum(rest, side, factor)) for side in parts[0][1:]]  # type: ignore[arg-type]
            return None if None in cases else min(cases)  # type: ignore[type-var]
        if parts and (factor < 0 or not all(map(_is_natural, parts))):
            return None
        total += 0 if parts else factor
    return total


def most(form: Form) -> int | None:
    """A number that the size is never above; None if its form tells none."""
    lowest = least(_sum((), form, -1))
    return None if lowest is None else -lowest


def _is_natural(atom: Atom) -> bool:
    """True if a part is never negative."""
    if isinstance(atom, tuple) and atom[0] == "div":
        return all((least(side) or 0) >= 0 and least(side) is not None for side in atom[1:])
    return True


def _symbols(form: Form) -> set[str]:
    found: set[str] = set()
    for parts, _ in form:
        for atom in parts:
            if isinstance(atom, str):
                found.add(atom)
            else:
                found.update(*(map(_symbols, atom[1:])))
    return found


def split(form: Form, symbol: str) -> tuple[int, Any]:
    """``factor * symbol + rest``; the factor is 0 if the size is not of that kind."""
    terms = tuple((p, f) for p, f in form if symbol in _symbols(((p, f),)))
    if len(terms) != 1 or terms[0][0] != (symbol,):
        return 0, sized(form)
    return terms[0][1], sized(_sum(form, terms, -1))


def _evaluate(form: Form, sizes: Mapping[str, Any]) -> Any:
    """The value of a form, given sizes (ints or Dims) of its symbols."""

    def value(atom: Atom) -> Any:
        if isinstance(atom, str):
            return sizes[atom] if atom in sizes else Dim.of(atom)
        a, b = (_evaluate(side, sizes) for side in atom[1:])
        return a // b if atom[0] == "div" else larger(a, b)

    return sum(factor * prod(map(value, parts)) for parts, factor in form)


def _text(form: Form) -> str:
    """A form as Python (and ``ir.literal``) reads it."""

    def part(atom: Atom) -> str:
        if isinstance(atom, str):
            return atom
        return f"{atom[0]}({', '.join(map(_text, atom[1:]))})"

    def term(parts: tuple[Atom, ...], factor: int) -> str:
        factors = [part(atom) for atom in parts]
        return "*".join(factors if factor == 1 and parts else [str(factor), *factors])

    text = ""
    for parts, factor in form:
        sign = "" if not text else " + " if factor > 0 else " - "
        text += sign + term(parts, abs(factor) if sign else factor)
    return text or "0"


# ----------------------------------------------------------------------------------- decisions


class Agreed(BaseException):
    """Two sizes are equal: compiling must begin anew with `size` in place of `symbol`.

    No Exception, so that nothing that handles a program's errors handles it.
    """

    def __init__(self, symbol: str, size: Any):
        self.symbol, self.size = symbol, size


class Decisions:
    """What compiling decides by the sizes of the call at hand.

    `agreed` are the symbols that have been found equal to other sizes, `codes` what gives each
    symbol's size in a guard (guards.py), `conditions` what must hold of them.
    """

    def __init__(self, agreed: dict[str, Any] | None = None):
        self.agreed = agreed or {}
        self.codes: dict[str, str] = {}
        self.hints: dict[str, int] = {}
        self.conditions: dict[str, None] = {}
        self.born = 0

    def input(self, hint: int, code: str) -> Any:
        """The size of a declared dimension of an input: a Dim, or what it has agreed to be."""
        name = f"n{len(self.codes) + 1}"
        self.codes[name] = code
        if name not in self.agreed:
            self.hints[name] = hint
            return Dim.of(name)
        size = self.agreed[name]
        while isinstance(size, Dim) and not size.symbols.isdisjoint(self.agreed):
            size = size.at(self.agreed)
        self.conditions[f"{name} == {size}"] = None
        return size

    def is_positive(self, form: Form) -> bool:
        """Whether a size that inputs decide is positive for this call."""
        answer = _evaluate(form, self.hints) > 0
        self.conditions[f"{_text(form)} {'>' if answer else '<='} 0"] = None
        return answer

    def is_zero(self, form: Form) -> bool:
        """Whether it is zero; Agreed if it is, and that tells what a symbol is."""
        answer = _evaluate(form, self.hints) == 0
        for symbol in sorted(_symbols(form), key=lambda s: -int(s[1:])) if answer else ():
            factor, rest = split(form, symbol)
            if factor in (1, -1):
                raise Agreed(symbol, -factor * rest)
        self.conditions[f"{_text(form)} {'==' if answer else '!='} 0"] = None
        return answer

    def tell(self, error: BaseException) -> None:
        """Add to an error that names sizes by their symbols what these are for this call."""
        words = set(re.findall(r"\w+", "\n".join([str(error), *getattr(error, "__notes__", ())])))
        named = [f"{symbol} is {size}" for symbol, size in self.hints.items() if symbol in words]
        if named:
            error.add_note(f"In this call {', '.join(named)}.")

    def constant(self, form: Form) -> Agreed:
        """That a symbol is the number which it is for this call."""
        symbol = min(_symbols(form), key=lambda s: int(s[1:]))
        return Agreed(symbol, self.hints[symbol])


class _Active(threading.local):
    def __init__(self) -> None:
        self.stack: list[Decisions] = []


_active = _Active()
_alone = Decisions()  # names sizes that are born beside compilations, as no compilation does
_alone.born = 10**6


@contextmanager
def deciding(decisions: Decisions) -> Iterator[None]:
    """Decide by these, in this thread, for the length of the block."""
    _active.stack.append(decisions)
    try:
        yield
    finally:
        _active.stack.pop()


def born() -> Dim:
    """A new size that is known only when the graph has run so far."""
    decisions = _active.stack[-1] if _active.stack else _alone
    decisions.born += 1
    return Dim.of(f"m{decisions.born}")


def is_born(symbol: str) -> bool:
    """True for the symbol of a size that depends on values."""
    return symbol[0] == "m"


def _decider(form: Form) -> Decisions:
    """What decides about a form; NeedConstant if nothing does."""
    if _active.stack and _active.stack[-1].hints.keys() >= _symbols(form):
        return _active.stack[-1]
    raise NeedConstant(
        f"the size {_text(form)}, where something is decided by it,",
        "it depends on values, so use a mask in place of choosing items",
    )


def is_positive(size: Any) -> bool:
    """``size > 0``: by the form if that tells, else by the call at hand."""
    terms = form(size)
    lowest, highest = least(terms), most(terms)
    if lowest is not None and lowest > 0:
        return True
    if highest is not None and highest <= 0:
        return False
    return _decider(terms).is_positive(terms)


def is_zero(size: Any, shows: bool = False) -> bool:
    """``size == 0``: by the form if that tells, else by the call at hand.

    With `shows` it is zero only where the form tells: else compiling begins anew, so that it does.
    """
    terms = form(size)
    lowest, highest = least(terms), most(terms)
    if lowest == highest == 0:
        return True
    if (lowest is not None and lowest > 0) or (highest is not None and highest < 0):
        return False
    answer = _decider(terms).is_zero(terms)
    if answer and shows:
        raise _decider(terms).constant(terms)
    return answer


def equal(a: Any, b: Any) -> Any:
    """``a == b`` for the call at hand: all that a program's ``if`` asks, and that Reshape needs.

    Dims that are ``==`` are equal by their form, as other shapes must be.
    """
    if isinstance(a, Dim) or isinstance(b, Dim):
        return same(a, b) or is_zero(a - b)
    return a == b


def same(a: Any, b: Any) -> bool:
    """True if two sizes are equal by their form: nothing is decided."""
    if isinstance(a, Dim) or isinstance(b, Dim):
        return a is b or form(a) == form(b)
    return bool(a == b)


def same_shape(a: tuple, b: tuple) -> bool:
    """True if two shapes are equal by their form."""
    return a is b or (
        len(a) == len(b) and all([m is n or same(m, n) for m, n in zip(a, b, strict=True)])
    )


def larger(a: Any, b: Any, decides: bool = False) -> Any:
    """``max(a, b)`` of sizes, by their form; with `decides` the call at hand says which, if it can.

    So ``x[:3]`` has size 3, or all of an input; of what is born, ``m1 - max(m1 - 3, 0)``.
    """
    terms = form(a - b)
    lowest, highest = least(terms), most(terms)
    if lowest is not None and lowest >= 0:
        return a
    if highest is not None and highest <= 0:
        return b
    if decides and not any(map(is_born, _symbols(terms))):
        return a if _decider(terms).is_positive(terms) else b
    if terms[0][1] > 0:
        return b + Dim((((("max", terms, ()),), 1),))
    return a + Dim((((("max", _sum((), terms, -1), ()),), 1),))


def smaller(a: Any, b: Any, decides: bool = False) -> Any:
    """``min(a, b)`` of sizes, as ``larger``."""
    return -larger(-a, -b, decides)


# ----------------------------------------------------------------------------------- the class

_number: list[Callable[[Dim], Any]] = []  # one: makes a node of a Dim


def register_number(make: Callable[[Dim], Any]) -> None:
    """Say what a Dim is among numbers that vary at run time (symbolic.py does)."""
    _number[:] = [make]


def as_number(size: Any) -> Any:
    """A Dim as a number that varies at run time; an int as it is."""
    return _number[0](size) if isinstance(size, Dim) else size


_WHOLE = (int, np.integer)


class Dim(ScalarLike):
    """A size that is known when the graph runs; see the head of this module.

    Operators with ints and other sizes keep the form; all else makes a number of it that varies at
    run time.  What must have an int (``range``, an index of a list) makes the size of an input a
    constant.
    """

    __slots__ = ("form",)
    kind = int

    def __init__(self, form: Form):
        self.form = form

    @staticmethod
    def of(symbol: str) -> Dim:
        """The size of a name."""
        return Dim((((symbol,), 1),))

    @property
    def symbols(self) -> set[str]:
        """The names of the sizes on which this one depends."""
        return _symbols(self.form)

    @property
    def symbol(self) -> str | None:
        """The name of the size that this one is, if it is no more than that."""
        ((parts, factor), *more) = self.form
        alone = factor == 1 and not more and len(parts) == 1
        return parts[0] if alone and isinstance(parts[0], str) else None

    def at(self, sizes: Mapping[str, Any]) -> Any:
        """The size, given those of (some of) its symbols."""
        return _evaluate(self.form, sizes)

    def __repr__(self) -> str:
        return _text(self.form)

    def _constant(self) -> Any:
        raise _decider(self.form).constant(self.form)

    __index__ = __int__ = __float__ = __hash__ = _constant  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return not is_zero(self)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, float):
            other = int(other) if other.is_integer() else None
        if isinstance(other, (*_WHOLE, Dim)):
            return same(self, other) or is_zero(_RING["sub"](self, other), shows=True)
        return as_number(self) == other if isinstance(other, ScalarLike) else NotImplemented

    def __neg__(self) -> Any:
        return sized(_sum((), self.form, -1))

    def __pos__(self) -> Dim:
        return self

    def __abs__(self) -> Any:
        return larger(self, -self)

    def __round__(self, digits: int | None = None) -> Any:
        return self

    def __invert__(self) -> Any:
        return -self - 1


def _divided(a: Any, b: Any, function: Callable) -> Any:
    """``a // b`` or ``a % b`` of sizes."""
    try:
        if is_zero(b):
            raise ZeroDivisionError("integer division or modulo by zero")
        whole = divided(a, b) if is_positive(b) else divided(-a, -b)
    except NeedConstant:
        return function(as_number(a), as_number(b))
    return whole if function is operator.floordiv else a - b * whole


def divided(a: Any, b: Any) -> Any:
    """``a // b``, where b is positive, or the result does not matter."""
    return sized(_quotient(form(a), form(b)))


_RING: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: sized(_sum(form(a), form(b))),
    "sub": lambda a, b: sized(_sum(form(a), form(b), -1)),
    "mul": lambda a, b: sized(_product(form(a), form(b))),
    "floordiv": lambda a, b: _divided(a, b, operator.floordiv),
    "mod": lambda a, b: _divided(a, b, operator.mod),
    "divmod": lambda a, b: (a // b, a % b),
    "lshift": lambda a, b: a * (1 << operator.index(b)),
    "rshift": lambda a, b: a // (1 << operator.index(b)),
    "lt": lambda a, b: is_positive(b - a),
    "le": lambda a, b: not is_positive(a - b),
    "gt": lambda a, b: is_positive(a - b),
    "ge": lambda a, b: not is_positive(b - a),
}
_OTHERS = ("truediv", "pow", "and", "or", "xor")


def _operator(name: str) -> tuple[Callable, Callable]:
    ring = _RING.get(name)
    plain = divmod if name == "divmod" else getattr(operator, f"__{name}__")

    def method(a: Any, b: Any, other: Any) -> Any:
        if isinstance(other, (*_WHOLE, Dim)) and ring is not None:
            return ring(a, b)
        if isinstance(other, (int, float, ScalarLike)):
            return plain(as_number(a), as_number(b))
        return NotImplemented

    return (lambda self, x: method(self, x, x)), (lambda self, x: method(x, self, x))


for _name in (*_RING, *_OTHERS):
    _forward, _reflected = _operator(_name)
    setattr(Dim, f"__{_name}__", _forward)
    if _name not in ("lt", "le", "gt", "ge"):
        setattr(Dim, f"__r{_name}__", _reflected)

Dim.__name__ = "int"  # in Python's own errors
