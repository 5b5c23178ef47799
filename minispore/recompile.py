"""Why a function was compiled again: ``fn.explain_recompile()``, and the warning of repetition.

A graph is kept for the dtypes, shapes and constants of the arguments, and under a guard for what it
reads from outside.  When no graph fits a call, the call is compared with the graphs that there are:
with those kept for such arguments by the condition of their guard that does not hold, else with
the one whose arguments are the most alike.  (MindSpore says at most that a function is compiled.)
"""

from __future__ import annotations

import inspect
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minispore.frontend.capture import is_trusted
from minispore.frontend.guards import Failure
from minispore.inputs import Axes
from minispore.ir.node import Location
from minispore.mutable import Mutable
from minispore.parameter import Parameter
from minispore.primitive import HIDDEN
from minispore.program import Compiled
from minispore.tensor import Tensor

MANY = 8  # graphs that differ in one thing: then a warning names it
_SHOWN = 60  # characters of a value

_PLAIN = (int, float, complex, str, bytes, type(None), slice, range)
_ADVICE = {
    "shape": "each shape has a graph of its own: let sizes vary (jit(dynamic=1), input_signature, "
    "or set_inputs of a Cell), or pad to one size",
    "dtype": "each dtype has a graph of its own: cast before the call",
    "number": "a Python number is a constant of the graph: pass a Tensor, or mutable({name})",
    "constant": "a constant is part of the graph: pass what varies as a Tensor",
    "kind": "a Tensor, a number and other values have graphs of their own: pass always one kind",
    "size": "each length and each set of keys has a graph of its own: pass containers of one form, "
    "and append outside of the compiled function",
    "object": "a graph holds for one object: pass the same one, or what varies in it as a Tensor",
    "captured number": "a number from outside is a constant of the graph: make it a Tensor or "
    "Parameter, or pass it as an argument, mutable(...)",
    "captured": "what is read from outside is part of the graph: what varies should be a Tensor",
    "sizes": "a graph holds for all sizes that decide this in the same way",
    "same": "which of the Tensors are one object is part of the graph",
    "options": "the options are part of the key",
}


@dataclass(frozen=True)
class Cause:
    """One thing that differs from a graph: what it is, what it is now, what it was.

    `kind` is a key of the table of advice.  `where` is the line of the user's program that reads
    what is captured from outside.
    """

    what: str
    kind: str
    now: str
    before: str
    where: Location | None = None

    @property
    def advice(self) -> str:
        """What to do."""
        return _ADVICE[self.kind].replace("{name}", self.what)

    @property
    def sentence(self) -> str:
        """The difference in words."""
        if not self.before:
            return f"{self.what} {self.now}"
        if self.now == self.before:
            return f"{self.what} is another {self.now}"
        return f"{self.what} is {self.now}, and was {self.before}"

    def __str__(self) -> str:
        place = [] if self.where is None else self.where.shown().split("\n")
        return "\n".join([self.sentence, *place, f"  {self.advice}"])


@dataclass(frozen=True)
class Recompilation:
    """Why the last graph of a function was compiled.

    Attributes:
        name: of the function.
        number: of the graph, from 1.
        compared: the number of the graph that is the most like it; 0 if there was none.
        causes: what differs from that one.
        others: of other graphs kept for such arguments, their numbers and causes.
    """

    name: str
    number: int
    compared: int = 0
    causes: tuple[Cause, ...] = ()
    others: tuple[tuple[int, Cause], ...] = ()

    def __str__(self) -> str:
        if not self.compared:
            return f"{self.name}: graph {self.number} is the first one for this function or object"
        lines = [
            f"{self.name}: graph {self.number} was compiled, because this call differs from "
            f"graph {self.compared}:"
        ]
        lines += [f"  {line}" for cause in self.causes for line in str(cause).split("\n")]
        lines += [f"and from graph {n}: {cause.sentence}" for n, cause in self.others]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


# -------------------------------------------------------------------------------- arguments

# What a call was given, in words: name -> aspect -> (kind, text, what tells it apart).
Arguments = dict[str, dict[str, tuple[str, str, Any]]]


def describe(function: Callable, args: tuple, kwargs: dict, level: str, axes: Axes) -> Arguments:
    """The arguments of a call by the names of the parameters, and what it was compiled with.

    Sizes along `axes` do not count.
    """
    found: Arguments = {"jit_level": {"": ("options", level, level)}}
    tensors: dict[int, str] = {}
    for name, value in _named(function, args, kwargs).items():
        _add(found, name, value, tensors, axes)
    return found


def _named(function: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Arguments by name, those of ``*args`` numbered."""
    while hasattr(function, "construct") or hasattr(function, "fn"):  # a Cell, a gradient
        function = getattr(function, "construct", None) or function.fn
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function without a signature
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    names += [f"{rest}[{i}]" for i in range(len(args) - len(names))]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _add(found: Arguments, name: str, value: Any, tensors: dict[int, str], axes: Axes) -> None:
    """Describe an argument and what is in it; `tensors`: the names of those that were met."""
    key: Any = None
    if isinstance(value, (Tensor, Mutable)):
        first = tensors.setdefault(id(value), name)
        identity = "its own" if first == name else f"that of {first}"
        found[name] = {"identity": ("same", identity, None)}
    if isinstance(value, Tensor):
        kind, text = "object", f"a {type(value).__name__}"
        shape = _shape(value, axes.get(id(value), ()))
        found[name]["dtype"] = ("dtype", str(value.dtype), None)
        found[name]["shape"] = ("shape", str(shape), None)
    elif isinstance(value, (list, tuple, dict)):
        size = f"the keys {list(value)}" if isinstance(value, dict) else f"length {len(value)}"
        kind, text = "size", f"a {type(value).__name__} with {size}"
    elif isinstance(value, Mutable):
        kind, text = "kind", f"a mutable {type(value.plain()).__name__}"
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        kind, text = "number", _text(value)
    elif isinstance(value, _PLAIN):
        kind, text = "constant", _text(value)
    else:
        kind, text, key = "object", _text(value), id(value)
    found.setdefault(name, {})[""] = (kind, text, key)
    if isinstance(value, (list, tuple, dict)):
        for place, item in value.items() if isinstance(value, dict) else enumerate(value):
            _add(found, f"{name}[{place!r}]", item, tensors, axes)


def _shape(value: Tensor, axes: Collection[int]) -> tuple:
    """The shape of a Tensor, without the sizes of some axes."""
    return tuple(None if axis in axes else n for axis, n in enumerate(value.shape))


def differences(new: Arguments, old: Arguments) -> list[Cause]:
    """How a call differs from one that a graph was compiled for."""
    causes: list[Cause] = []
    told: list[str] = []  # names of containers of which more need not be said
    for name in dict.fromkeys([*old, *new]):
        if any(name.startswith(f"{t}[") for t in told):
            continue
        ours, theirs = new.get(name), old.get(name)
        if ours is None or theirs is None:
            kind = (ours or theirs or {})[""][0]
            now, before = (side[""][1] if side else "not given" for side in (ours, theirs))
            causes.append(Cause(name, kind, now, before))
        elif ours[""] != theirs[""]:
            kind = ours[""][0] if ours[""][0] == theirs[""][0] else "kind"
            causes.append(Cause(name, kind, ours[""][1], theirs[""][1]))
        else:
            aspects = (k for k in ours if ours[k] != theirs.get(k))
            causes += [Cause(f"the {k} of {name}", *ours[k][:2], theirs[k][1]) for k in aspects]
            continue
        told.append(name)
    return causes


def _text(value: Any) -> str:
    """A value in words; two objects that are told apart by identity may have the same."""
    if isinstance(value, Parameter):
        return f"Parameter {value.name}"
    if isinstance(value, Tensor):
        return HIDDEN.get(id(value), f"Tensor of {value.dtype} {tuple(value.shape)}")
    if isinstance(value, types.FunctionType):
        place = Location(value.__code__.co_filename, value.__code__.co_firstlineno)
        return f"function {value.__name__} ({place})"
    if isinstance(value, (type, np.dtype)):
        return getattr(value, "__name__", str(value))
    if (
        isinstance(value, (*_PLAIN, list, tuple, dict, set))
        or type(value).__repr__ is not object.__repr__
    ):
        text = repr(value)
        if "\n" not in text and " at 0x" not in text:
            kind = f" ({type(value).__name__})" if type(value) in (int, float) else ""
            return (text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...") + kind
    return type(value).__name__


def _of_guard(failure: Failure) -> Cause:
    """A guard that does not hold, as a cause."""
    what, where = failure.what, failure.where
    if what.startswith("sizes of "):
        return Cause(what, "sizes", "does not hold", "")
    if failure.values is None:
        return Cause(what, "captured", "is not as it was", "", where)
    found, expected = failure.values
    kinds = {"shape": "shape", "dtype": "dtype", "length": "size", "keys": "size"}
    kind = kinds.get(what.partition(" of ")[0], "")
    if not kind and {type(found), type(expected)} <= {int, float}:
        kind = "captured number"
    elif not kind:
        kind = "captured" if isinstance(expected, _PLAIN) else "object"
    return Cause(what, kind, _text(found), _text(expected), where)


# ------------------------------------------------------------------------------ compilations


@dataclass
class History:
    """The compilations of one function."""

    last: Recompilation | None = None
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    is_warned: bool = False

    def note(
        self, name: str, number: int, arguments: Arguments, tensors: list,
        known: list[Compiled], others: list[Compiled],
    ) -> None:  # fmt: skip
        """Note that graph `number` is compiled, as none of those that there are fits a call.

        `known` are those kept for such arguments (of which a guard does not hold), `others` all.
        """
        failures = [(g.number, g.guarded.failure(tensors)) for g in reversed(known)]
        pairs = [(n, _of_guard(failure)) for n, failure in failures if failure is not None]
        if pairs:
            (compared, cause), *more = pairs
            self.last = Recompilation(name, number, compared, (cause,), tuple(more[:3]))
        elif others:
            found = [
                (g.number, differences(arguments, g.arguments))
                for g in sorted(others, key=lambda g: -g.number)
            ]
            compared, causes = min(found, key=lambda pair: len(pair[1]))
            self.last = Recompilation(name, number, compared, tuple(causes))
        else:
            self.last = Recompilation(name, number)
        if len(self.last.causes) == 1:
            self.counts[self.last.causes[0].what, self.last.causes[0].kind] += 1

    def warn(self) -> None:
        """Warn once if the function keeps being compiled for one and the same reason."""
        if self.is_warned or self.last is None or len(self.last.causes) != 1:
            return
        name, cause = self.last.name, self.last.causes[0]
        if self.counts[cause.what, cause.kind] + 1 >= MANY:
            self.is_warned = True
            warnings.warn(
                f"{name} has been compiled {MANY} times because of {cause.what}: now "
                f"{cause.sentence}; {cause.advice}. {name}.explain_recompile() tells more",
                RuntimeWarning,
                stacklevel=_level_of_user(),
            )


def _level_of_user() -> int:
    """For ``warn``, called by our caller: the first frame that is not the package's."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_trusted(frame.f_globals.get("__name__")):
        frame, level = frame.f_back, level + 1
    return level
