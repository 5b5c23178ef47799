"""``minispore draw``, ``step`` and ``passes``: how a function of yours is compiled, and runs."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from minispore.dtype import DType, to_dtype
from minispore.ir.interp import add_location, interpret
from minispore.ir.node import CNode, FuncGraph, Node, Switch, ValueNode, is_call_of
from minispore.spelling import similar
from minispore.tensor import Tensor
from minispore.views.report import Report, explain


class DrawError(Exception):
    """What was asked for cannot be drawn; one sentence."""


def load(name: str) -> ModuleType:
    """The module called `name`; those of the current folder are found.

    Raises:
        DrawError: there is none, or it cannot be imported.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise DrawError(f"there is no module '{name}' here{_spelling(name)}") from error
        raise DrawError(f"module '{name}' needs '{error.name}'") from error
    except Exception as error:  # whatever the user's module raises
        raise DrawError(f"importing '{name}': {type(error).__name__}: {error}") from error


def _spelling(name: str) -> str:
    """A hint for who named a file in place of a module."""
    module = re.sub(r"[\\/]", ".", name.removesuffix(".py")).strip(".")
    return f"; a module is named without .py and slashes: {module}" if module != name else ""


def find(name: str) -> Any:
    """The object called ``module:function`` (``module:Class.method``, ``module:net``).

    The current folder is importable.

    Raises:
        DrawError: there is no such module or object, or it is no callable.
    """
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise DrawError(f"'{name}' is no module:function, for example train:loss")
    found: Any = load(module_name)
    for part in path.split("."):
        if not hasattr(found, part):
            raise DrawError(f"'{module_name}' has no '{path}'{similar(part, found)}")
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


def explained(name: str, tensors: Sequence[Tensor]) -> Report:
    """How the named function is compiled for these arguments.

    Raises:
        DrawError: it cannot be found or compiled, or does nothing but raise an error.
    """
    function = find(name)
    try:
        report = explain(function, *tensors)
        refuse_failing(report.graph())
        return report
    except Exception as error:  # whatever the user's function raises while it is compiled
        place = "\n".join(getattr(error, "__notes__", ()))
        place = f"\n{place}" if place else ""
        hint = ""
        if not place and "missing required argument" in str(error):  # of the call that is ours
            hint = "; say what it takes by --shape, once for each argument"
        raise DrawError(f"{type(error).__name__}: {error}{hint}{place}") from error


def refuse_failing(graph: FuncGraph) -> None:
    """Raise the error of a graph that fails whatever it is given, as for shapes that are wrong."""
    check = _failing(graph)
    if check is not None:
        error = _error_of(check)
        add_location(error, check)
        raise error


def _failing(graph: FuncGraph) -> Node | None:
    """A Check that fails in every run: of all arms of a Switch, that of the last."""
    for node in graph.nodes():
        if is_call_of(node, "Check"):
            condition = node.inputs[1]
            if isinstance(condition, ValueNode) and not condition.value:
                return node
        elif isinstance(node, CNode) and isinstance(node.callee, Switch):
            checks = [_failing(arm) for arm in node.callee.graphs]
            if all(checks):
                return checks[-1]
    return None


def _error_of(check: Node) -> Exception:
    """What a Check that fails raises; if its text needs values of a run, a RuntimeError says so."""
    kind = check.callee.attrs["exception"]  # type: ignore[attr-defined]
    if all(isinstance(i, ValueNode) for i in check.inputs):
        try:
            interpret(FuncGraph("check", (), check), ())
        except Exception as error:  # whatever the user raises
            return error
    name = getattr(kind, "__name__", "an error")
    return RuntimeError(f"for these arguments it does nothing but raise {name}")


def draw_to(name: str, tensors: Sequence[Tensor], out: Path) -> Report:
    """Compile the named function for these arguments and save the report.

    Raises:
        DrawError: it cannot be found, compiled or saved.
    """
    report = explained(name, tensors)
    try:
        report.save(out)
    except OSError as error:
        raise DrawError(f"cannot write to '{out}': {error.strerror}") from error
    return report
