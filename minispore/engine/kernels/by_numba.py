"""Kernels compiled by Numba: the way for what compiler.py does not know, and its check in tests.

The words (words.py) become Numba intrinsics, the functions of ours jitted ones with flags of their
own: under a kernel's flags ``(t + 1.5 * 2**23) - 1.5 * 2**23`` would be folded away.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

from minispore.engine.kernels.words import SIGNATURES, Intrinsic

_TYPES: dict[str, Any] = {
    "f4": types.float32, "f8": types.float64, "i2": types.int16, "i4": types.int32,
    "i8": types.intp,
    "u1": types.uint8, "b1": types.boolean, "void": types.void,
}  # fmt: skip
_TYPES |= {f"p_{k}": types.CPointer(_TYPES[k]) for k in ("f4", "f8", "i2", "i4", "i8", "u1")}
_alive: list[Any] = []  # owners of machine code


def compiled(function: Callable, flags: Sequence[str]) -> int:
    """The address of a kernel, in memory only; Numba's errors are raised as they are."""
    result, kinds = SIGNATURES[function.__name__]
    signature = _TYPES[result](*(_TYPES[k] for k in kinds))
    made: Any = numba.cfunc(signature, error_model="numpy", fastmath=set(flags))(_renamed(function))
    _alive.append(made)
    return made.address


def _renamed(function: Any) -> Any:
    """The function with what Numba takes instead of the words and functions that it names."""
    names = {n: function.__globals__.get(n) for n in function.__code__.co_names}
    namespace = {n: _for_numba(v) for n, v in names.items() if v is not None}
    return FunctionType(function.__code__, namespace, function.__name__)


@functools.cache
def _for_numba(value: Any) -> Any:
    if isinstance(value, Intrinsic):
        return _intrinsic(value)
    if inspect.isfunction(value):
        return numba.njit(_renamed(value), error_model="numpy", fastmath={"contract"})
    return value


def _intrinsic(word: Intrinsic) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = word.generate(builder, *args)
        return context.get_dummy_value() if word.result == "void" else value

    def typed(*operands: Any) -> Any:
        double = any(o == types.float64 or isinstance(o, types.Integer) for o in operands)
        own = "f8" if double else "f4"
        kinds = [_TYPES[k] for k in (word.kinds if word.result else (own,) * word.arity)]
        return _TYPES[word.result or own](*kinds), generate

    names = ", ".join(f"a{i}" for i in range(len(word.kinds) if word.result else word.arity))
    namespace = {"typed": typed}
    exec(f"def word(context, {names}): return typed({names})", namespace)
    return intrinsic(namespace["word"])
