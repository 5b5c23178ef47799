"""Python containers as trees: flatten into leaves and a hashable structure, and back.

A structure is what the compiler remembers of a tuple, list or dict around Tensors: it keys
compiled graphs, rebuilds results, and lets ``print`` see the same objects in both modes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class NeedConstant(Exception):
    """A value known only at run time was used where a graph needs a constant; what to do instead.

    Its text is what cannot be known.
    """

    def __init__(self, what: str, advice: str = ""):
        super().__init__(what)
        self.advice = advice


class Marked:
    """A tuple, list or dict that ``mutable`` gave: gradients by it have its structure."""


class MarkedTuple(tuple, Marked):
    """Such a tuple."""


class MarkedList(list, Marked):
    """Such a list."""


class MarkedDict(dict, Marked):
    """Such a dict."""


PLAIN: dict[type, type] = {MarkedTuple: tuple, MarkedList: list, MarkedDict: dict}


def unmarked(value: Any) -> Any:
    """Such a container as a plain one."""
    return PLAIN[type(value)](value)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place for leaf number `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is part of the structure; compared by type and representation."""

    value: Any
    key: Hashable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True)
class Container:
    """A tuple, named tuple, list or dict; `keys` are the dict's keys in order.

    What differs deep inside differs at once, by the hash.
    """

    kind: type
    items: tuple[Structure, ...]
    keys: tuple[Constant, ...] = ()
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.kind, self.items, self.keys)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Container) or self._hash != other._hash:
            return False
        return self is other or (self.kind, self.items, self.keys) == (
            other.kind, other.items, other.keys
        )  # fmt: skip


Structure = Leaf | Constant | Container


@dataclass(frozen=True, slots=True)
class Formatted:
    """A piece of an f-string whose value is known only at run time."""

    value: Any
    conversion: int
    spec: Any  # a str, or a Text

    def __str__(self) -> str:
        convert: dict[int, Callable[[Any], Any]] = {115: str, 114: repr, 97: ascii}  # !s, !r, !a
        value = convert[self.conversion](self.value) if self.conversion >= 0 else self.value
        return format(value, self.spec)


@dataclass(frozen=True, slots=True)
class Method:
    """What a method of a string gives, where the string or an operand is known only at run time."""

    name: str
    text: Any
    args: tuple
    kwargs: dict

    def __str__(self) -> str:
        return getattr(self.text, self.name)(*self.args, **self.kwargs)


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A string known only at run time: the parts, each a str, Formatted or Method, joined."""

    parts: tuple[Any, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.parts))

    def _refuse(self, *_: Any) -> Any:
        raise NeedConstant(
            "the content of a string that depends on a Tensor", "test the number that it is made of"
        )

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse  # type: ignore[assignment]
    __len__ = __bool__ = __iter__ = __contains__ = __getitem__ = _refuse


Text.__name__ = "str"  # in Python's own errors


@dataclass(frozen=True)
class Picked:
    """One of two values: `which`, a bool known only at run time, says whether it is the first."""

    which: Any
    if_true: Any
    if_false: Any


def constant(value: Any) -> Constant:
    """A Constant that tells 1, 1.0 and True (and 0.0 and -0.0) apart."""
    return Constant(value, constant_key(value))


def constant_key(value: Any) -> Hashable:
    """What makes constants equal: type and value, to the bit; else the identity of the object."""
    kind = type(value)
    if kind in (str, bytes, int, bool, type(None)):
        return kind, value
    if isinstance(value, np.generic):
        return kind, value.tobytes()
    if isinstance(value, (bool, int, float, complex, str, bytes)):
        return kind, repr(value)
    if kind in (tuple, list):
        return kind, tuple(map(constant_key, value))
    if kind in (set, frozenset):
        return kind, frozenset(map(constant_key, value))
    if kind in (slice, range):
        return kind, tuple(map(constant_key, (value.start, value.stop, value.step)))
    if kind is np.ndarray:
        return kind, value.dtype.str, value.shape, value.tobytes()
    return kind, id(value)


_ROWS = (list, tuple, MarkedList, MarkedTuple)


def flatten(
    value: Any, is_leaf: Callable[[Any], bool], whole: tuple[type, ...] = ()
) -> tuple[list[Any], Structure]:
    """The leaves of a tree in order, and its structure; what is no leaf is a Constant.

    Objects of the types `whole` are Constants too, told apart by their identity.
    """
    leaves: list[Any] = []

    def walk(v: Any) -> Structure:
        if is_leaf(v):
            leaves.append(v)
            return Leaf(len(leaves) - 1)
        if isinstance(v, whole):
            return Constant(v, (type(v), id(v)))
        if type(v) in _ROWS or (isinstance(v, tuple) and hasattr(v, "_fields")):
            return Container(type(v), tuple(walk(item) for item in v))
        if isinstance(v, Text):
            return Container(Text, tuple(walk(part) for part in v.parts))
        if isinstance(v, Formatted):
            return Container(Formatted, (walk(v.value), constant(v.conversion), walk(v.spec)))
        if isinstance(v, Picked):
            return Container(type(v), tuple(map(walk, (v.which, v.if_true, v.if_false))))
        if isinstance(v, Method):
            parts = (constant(v.name), walk(v.text), walk(v.args), walk(v.kwargs))
            return Container(Method, parts)
        if type(v) in (dict, MarkedDict):
            return Container(type(v), tuple(map(walk, v.values())), tuple(map(constant, v)))
        return constant(v)

    structure = walk(value)
    return leaves, structure


def unflatten(structure: Structure, leaves: Sequence[Any], known: bool = True) -> Any:
    """The tree of a structure, with `leaves` in their places.

    A Text or Picked stays one unless the leaves are `known`.
    """
    if isinstance(structure, Leaf):
        return leaves[structure.index]
    if isinstance(structure, Constant):
        return structure.value
    items = [unflatten(item, leaves, known) for item in structure.items]
    kind: Any = structure.kind
    if issubclass(kind, dict):
        return kind(zip((k.value for k in structure.keys), items, strict=True))
    if issubclass(kind, Picked):
        return kind(*items) if not known else items[1] if items[0] else items[2]
    if kind is Text:
        return "".join(map(str, items)) if known else Text(tuple(items))
    if kind in (Formatted, Method) or hasattr(kind, "_fields"):
        return kind(*items)
    return kind(items)
