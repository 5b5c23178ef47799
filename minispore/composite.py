"""Functions of functions, and marks for the compiler, in MindSpore's names.

``HyperMap`` and ``Map`` call a function on the items of tuples and lists, ``MultitypeFuncGraph``
is one function of several, chosen by the types of its arguments.  They are written so that the
front end evaluates them like a user's functions; there is nothing of them in a graph.

``constexpr``, ``no_inline``, ``lazy_inline`` and ``jit_class`` tell MindSpore's compiler what to do
with a function or class.  Here it needs no telling: functions of constants run while compiling,
what is inlined and when is the business of passes, and classes are evaluated as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

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
    "None": type(None),
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

    def register(self, *type_names: str) -> Callable[[Callable], Callable]:
        """A decorator: the function for arguments of these types, by the names in ``KINDS``.

        ValueError for another name.
        """
        for name in type_names:
            if name not in KINDS:
                known = ", ".join(KINDS)
                raise ValueError(f"'{name}' is no type of {self.name}; there are {known}")
        kinds = tuple(KINDS[name] for name in type_names)

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
    return tuple(items)


class HyperMap:
    """Calls a function on the items of tuples and lists, nested ones too; gives tuples.

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


# ------------------------------------------------------------------------ marks for the compiler


def constexpr(fn: Callable | None = None, **options: Any) -> Callable:
    """Mark a function of constants, whose result is a constant of the graph: it stays as it is.

    `options` are MindSpore's and change nothing.  (MindSpore: ``ops.constexpr``.)
    """
    return (lambda function: function) if fn is None else fn


def no_inline(fn: Callable) -> Callable:
    """Mark a function that is not to be inlined: it stays as it is.  MindSpore: ``no_inline``."""
    return fn


def lazy_inline(fn: Callable | None = None, attrs: Any = None, policy: Any = None) -> Callable:
    """Mark the ``__init__`` of a Cell that is to be inlined late: it stays as it is.

    (MindSpore: ``lazy_inline``.)
    """
    return (lambda function: function) if fn is None else fn


def jit_class(cls: type) -> type:
    """Mark a class that compiled functions use: it stays as it is.  (MindSpore: ``jit_class``.)

    TypeError for what is no class, and for a Cell.
    """
    if not isinstance(cls, type):
        raise TypeError(f"jit_class is for classes, not {type(cls).__name__}")
    if hasattr(cls, "construct"):
        raise TypeError(f"jit_class is not for Cells such as {cls.__name__}")
    return cls


class JitConfig:
    """Settings of the compiler for one Cell: checked and kept, they change nothing here.

    Args:
        jit_level: "O0", "O1" or "O2".
        exc_mode: "auto", "sink" or "no_sink".
        jit_syntax_level: "STRICT" or "LAX".
        options: any others.

    (MindSpore: ``JitConfig``.)
    """

    ALLOWED = {
        "jit_level": ("", "O0", "O1", "O2"),
        "exc_mode": ("auto", "sink", "no_sink"),
        "jit_syntax_level": ("", "STRICT", "LAX"),
        "debug_level": ("RELEASE", "DEBUG"),
        "infer_boost": ("off", "on"),
    }

    def __init__(self, jit_level: str = "", exc_mode: str = "auto", **options: Any):
        given = {"jit_level": jit_level, "exc_mode": exc_mode, **options}
        for key, allowed in self.ALLOWED.items():
            if given.setdefault(key, allowed[0]) not in allowed:
                raise ValueError(f"JitConfig: {key} must be one of {allowed}, not {given[key]!r}")
        self.jit_config_dict = given
