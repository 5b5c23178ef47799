"""Functions that run as they are while compiling: ops on nodes, pure functions on constants.

Ops functions and Tensor methods only call ``apply``.  Any other function without Python source runs
on constants alone, and only if it is known to have no hidden state.
"""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import types
from collections.abc import Iterator, MutableMapping, MutableSequence, MutableSet
from typing import TYPE_CHECKING, Any

from minispore.context import get_context
from minispore.dims import Dim
from minispore.dtype import DType
from minispore.frontend import control
from minispore.frontend.capture import is_trusted, module_of
from minispore.frontend.errors import UnsupportedError, hidden_state
from minispore.frontend.values import is_symbolic, is_text_choice, refuse_choice
from minispore.tensor import Tensor

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

# Modules of this package whose functions are evaluated from source, like a user's.
_EVALUATED = ("minispore.nn", "minispore.train", "minispore.composite", "minispore.ops.loops")
# Modules whose functions may run while compiling, on constants: they have no hidden state.
PURE = frozenset(
    "math operator numpy functools itertools collections typing copy _operator ml_dtypes builtins "
    "_functools fractions decimal string".split()
)
# Of these, the functions only move values, and may be given run-time ones.
_MOVES = frozenset("collections itertools functools _functools".split())
# Mutable types whose changes are journaled.
_UNDONE = (list, dict, set, collections.OrderedDict, collections.defaultdict)
# Modules of this package whose functions act on the program: they must not run while compiling.
_HOST = frozenset(
    f"minispore.{m}" for m in ("context", "random", "initializer", "report", "cli", "dataset.mnist")
)


def is_native(module: str) -> bool:
    """True for code of this package that runs as it is while compiling."""
    return is_trusted(module) and not module.startswith(_EVALUATED)


def native(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Run a function as it is: an op on nodes, or a pure function on constants."""
    if any(is_text_choice(a) for a in args):
        return control.each_text(ev, args, lambda *now: native(ev, function, list(now), kwargs))
    for value in [*args, *kwargs.values()]:
        _refuse_deep(value)
    module = module_of(function) or type(function).__module__
    if module in _HOST:
        return _host(ev, function, args, kwargs)
    if is_trusted(module):
        out = function(*args, **kwargs)
        is_value = isinstance(out, (type, types.FunctionType, DType, str, int, float, type(None)))
        is_old = isinstance(out, Tensor) and ev.outside.number(out) is not None
        return out if is_value or is_old else _new(ev, out)
    name = getattr(function, "__qualname__", repr(function))
    if module.split(".")[0] not in PURE or module.startswith("numpy.random"):
        raise hidden_state(f"{module}.{name}")
    args, kwargs = with_constants(args), with_constants(kwargs)
    if module not in _MOVES and any(is_symbolic(v) for v in [*args, *kwargs.values()]):
        raise UnsupportedError(
            f"'{module}.{name}' needs values that are known only at run time: use the function "
            "of minispore.ops in its place"
        )
    evaluated = [functools.partial(_invoke, ev, a) if _has_source(a) else a for a in args]
    return _made_here(ev, function(*evaluated, **kwargs))


def _new(ev: Evaluator, value: Any) -> Any:
    """Note that a native function made an object, and the containers in it."""
    if id(value) in ev.births or id(value) in ev.outside.old:
        return value  # it was there before
    parts = value.values() if isinstance(value, dict) else value
    for item in parts if isinstance(value, (list, tuple, dict)) else ():
        if isinstance(item, (list, tuple, dict)):
            _new(ev, item)
    return ev.born(value)


def _host(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A function of the package that acts on the program, not on Tensors."""
    if function is get_context:
        code = f"{ev.outside.constant(function)}({args[0]!r})"
        return ev.outside.capture(function(*args, **kwargs), code, False, f"context {args[0]!r}")
    raise UnsupportedError(
        f"'{function.__name__}' acts on the program, not on Tensors, and would do so only while "
        "compiling: call it outside the compiled function"
    )


def _refuse_deep(value: Any) -> None:
    """Refuse what differs between arms, also inside containers."""
    refuse_choice(value, "an argument")
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            _refuse_deep(item)


def with_constants(value: Any) -> Any:
    """A value in which the sizes of inputs are the constants that the call at hand gives."""
    if isinstance(value, Dim):
        return operator.index(value)
    if isinstance(value, dict):
        return {k: with_constants(v) for k, v in value.items()}
    return type(value)(map(with_constants, value)) if type(value) in (list, tuple) else value


def _has_source(value: Any) -> bool:
    function = getattr(value, "__func__", value)
    return isinstance(function, types.FunctionType) and not is_trusted(module_of(function))


def _invoke(ev: Evaluator, function: Any, *args: Any, **kwargs: Any) -> Any:
    """A user's function, called back by a native one."""
    return ev.call(function, list(args), kwargs)


def _made_here(ev: Evaluator, out: Any) -> Any:
    """What a native function returned, if it can be undone and merged as Python's own types can."""
    if isinstance(out, Iterator):
        if isinstance(out, (itertools.count, itertools.cycle, itertools.repeat)):
            raise UnsupportedError(
                f"an endless iterator ({type(out).__name__}) cannot be part of a compiled graph: "
                "count with while, or go over a range"
            )
        return ev.iterator(tuple(out))
    if isinstance(out, (MutableSequence, MutableMapping, MutableSet)) and type(out) not in _UNDONE:
        raise UnsupportedError(
            f"a {type(out).__name__} cannot be part of a compiled graph: use a list, dict or set"
        )
    return ev.born(out) if isinstance(out, (list, dict, set)) else out
