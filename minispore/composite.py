"""Functions of functions, in MindSpore's names.

``HyperMap`` and ``Map`` call a function on the items of tuples and lists, ``MultitypeFuncGraph``
is one function of several, chosen by the types of its arguments.  They are written so that the
front end evaluates them like a user's functions; there is nothing of them in a graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minispore.dtype import dtype_to_pytype, to_dtype
from minispore.tensor import Tensor

KINDS: dict[str, type | tuple[type, ...]] = {
    "Tensor": Tensor,
    "Number": (bool, int, float),
    "Bool": bool,
    "Int": int,
    "Float": float,
    "String": str,
    "Tuple": tuple,
    "List": list,
    "Dict": dict,
    "Dictionary": dict,
    "None": type(None),
    "Function": Callable,  # type: ignore[dict-item]
    "Slice": slice,
    "Ellipsis": type(...),
}


class MultitypeFuncGraph:
    """A function that is one of several, chosen by the types of its arguments.

        add = MultitypeFuncGraph("add")

        @add.register("Tensor", "Number")
        def _(x, y): ...

    `read_value` is kept for MindSpore's signature.  (MindSpore: ``ops.MultitypeFuncGraph``.)
    """

    def __init__(self, name: str, read_value: bool = False):
        self.name = name
        self.entries: list[tuple[tuple[Any, ...], Callable]] = []

    def kind(self, name: Any) -> Any:
        """What a name in ``KINDS`` stands for, or an element type: Python's type of an element."""
        if str(name) in KINDS:
            return KINDS[str(name)]
        try:
            return dtype_to_pytype(to_dtype(name))
        except TypeError:
            known = ", ".join(KINDS)
            raise ValueError(f"'{name}' is no type of {self.name}; there are {known}") from None

    def register(self, *type_names: Any) -> Callable[[Callable], Callable]:
        """A decorator: the function for arguments of these types, by the names in ``KINDS``.

        ``mstype.tensor_type`` and its kin stand for these too, and an element type for numbers:
        ``mstype.int32`` or "Float32".  ValueError for another name.
        """
        kinds = tuple([self.kind(name) for name in type_names])

        def decorator(function: Callable) -> Callable:
            self.entries.append((kinds, function))
            return function

        return decorator

    def __call__(self, *args: Any) -> Any:
        """The result of the first function that takes such arguments; ValueError without one."""
        for kinds, function in self.entries:
            if len(kinds) == len(args):
                if all([isinstance(a, k) for a, k in zip(args, kinds)]):  # noqa: B905
                    return function(*args)
        given = ", ".join([type(a).__name__ for a in args])
        raise ValueError(f"{self.name} has no function for ({given})")


def _mapped(function: Callable, args: tuple, deep: bool) -> Any:
    """A function on the items of the first argument; others are items alike, or taken whole."""
    first = args[0]
    if not isinstance(first, (tuple, list)):
        return function(*args)
    items = []
    for i in range(len(first)):
        row = []
        for a in args:
            if isinstance(a, (tuple, list)):
                if len(a) != len(first):
                    raise ValueError(f"cannot map over {len(first)} and {len(a)} items")
                row.append(a[i])
            else:
                row.append(a)
        nested = deep and isinstance(row[0], (tuple, list))
        items.append(_mapped(function, tuple(row), deep) if nested else function(*row))
    return items if isinstance(first, list) else tuple(items)


class HyperMap:
    """Calls a function on the items of tuples and lists, nested ones too; gives the like.

    ``HyperMap(function)(xs, ys)`` or ``HyperMap()(function, xs, ys)``.  What is no tuple or list is
    passed to every call.  `reverse` changes nothing.  (MindSpore: ``ops.HyperMap``.)

    Raises:
        ValueError: from a call: tuples of different lengths.
    """

    deep = True

    def __init__(self, ops: Callable | None = None, reverse: bool = False):
        self.ops = ops

    def __call__(self, *args: Any) -> Any:
        if self.ops is None:
            return _mapped(args[0], args[1:], self.deep)
        return _mapped(self.ops, args, self.deep)


class Map(HyperMap):
    """Calls a function on the items of tuples and lists, one level deep (MindSpore: ``Map``)."""

    deep = False


partial = functools.partial


def Partial() -> type[functools.partial]:
    """What binds the first arguments of a function: ``Partial()(function, x)``."""
    return functools.partial
