"""``minispore draw module:function --shape 2,3 ...``: how a function of yours is compiled."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minispore.dtype import DType, to_dtype
from minispore.report import Report, explain
from minispore.tensor import Tensor


class DrawError(Exception):
    """What was asked for cannot be drawn; one sentence."""


def find(name: str) -> Any:
    """The object called ``module:function`` (``module:Class.method``, ``module:net``).

    The current folder is importable.

    Raises:
        DrawError: there is no such module or object, or it is no callable.
    """
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise DrawError(f"'{name}' is no module:function, for example train:loss")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.startswith(error.name):
            raise DrawError(f"there is no module '{module_name}' here") from error
        raise DrawError(f"module '{module_name}' needs '{error.name}'") from error
    except Exception as error:  # whatever the user's module raises
        raise DrawError(f"importing '{module_name}': {type(error).__name__}: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise DrawError(f"'{module_name}' has no '{path}'")
        found = getattr(found, part)
    if isinstance(found, type):
        found = _instance(found)
    if not callable(found):
        raise DrawError(f"'{name}' is no function or Cell, but a {type(found).__name__}")
    return found


def _instance(cls: type) -> Any:
    """A Cell of a class that needs no arguments."""
    try:
        return cls()
    except Exception as error:  # whatever the user's constructor raises
        raise DrawError(f"{cls.__name__}() raised {type(error).__name__}: {error}") from error


def arguments(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]) -> list[Tensor]:
    """A random Tensor per shape; one dtype for all, or one for each (float32 by default).

    Raises:
        DrawError: not as many dtypes as shapes.
    """
    names = list(dtypes) or ["float32"]
    if len(names) == 1:
        names *= len(shapes)
    if len(names) != len(shapes):
        raise DrawError(f"{len(shapes)} --shape, but {len(names)} --dtype: give one, or one each")
    rng = np.random.default_rng(0)
    return [_random(rng, s, to_dtype(n)) for s, n in zip(shapes, names, strict=True)]


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Tensor:
    if dtype.is_float:
        return Tensor(rng.standard_normal(shape).astype(np.float32), dtype)
    high = 2 if dtype.kind == "bool" else 3
    return Tensor(rng.integers(0, high, shape).astype(dtype.numpy))


def draw_to(name: str, tensors: Sequence[Tensor], out: Path) -> Report:
    """Compile the named function for these arguments and save the report.

    Raises:
        DrawError: it cannot be found, compiled or saved.
    """
    function = find(name)
    try:
        report = explain(function, *tensors)
    except Exception as error:  # whatever the user's function raises while it is compiled
        place = "\n".join(getattr(error, "__notes__", ()))
        place = f"\n{place}" if place else ""
        raise DrawError(f"{type(error).__name__}: {error}{place}") from error
    try:
        report.save(out)
    except OSError as error:
        raise DrawError(f"cannot write to '{out}': {error.strerror}") from error
    return report
