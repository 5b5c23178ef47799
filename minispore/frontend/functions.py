"""Calls of Python functions: each is evaluated in a region, which becomes a sub-graph."""

from __future__ import annotations

import ast
import dataclasses
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minispore.frontend import control, fence
from minispore.frontend.capture import is_trusted, module_of
from minispore.frontend.exits import RAISE, RETURN, Peel, Unreachable
from minispore.frontend.heap import CallNode, Env, Frame, Region, Trial
from minispore.frontend.recursion import Call, Recurs, Recursion, open_recursion
from minispore.frontend.source import Code, code_of
from minispore.ir.node import LATE

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


def call_python(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Evaluate a function in a region of its own: it becomes a graph, and a call of it."""
    return in_region(ev, "function", "", function, args, kwargs)


def in_region(
    ev: Evaluator, kind: str, name: str, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """The value of a function; if Tensors decide how often it calls itself, of its Recursion."""
    runner = ev.runner_of(function)
    if runner is not None:
        name = name or function.__name__
        return run_region(ev, kind, name, lambda: runner(args, kwargs))[1]
    code, owner, parent = parts(function)
    name = name or code.name
    call = Call(code, owner if parent is None else parent, args, kwargs)
    recursion = open_recursion(ev, call)
    if recursion is not None:
        return recursion.again(call)

    def run(*call: Any) -> Any:  # no functools.partial: some Pythons allow few calls through C
        return activate(ev, function, code, owner, parent, *call)

    with Trial(ev.region, kept=True) as trial:
        try:
            return run_region(ev, kind, name, lambda: run(args, kwargs, call))[1]
        except Recurs as found:
            if found.frame.call is not call:
                raise
            trial.kept, varied = False, found.varied
    try:
        return Recursion(ev, name, call, varied, run).evaluate()
    except Exception as why:  # constants may end it all the same
        ev.refused_recursions[call.kind] = why
    return in_region(ev, kind, name, function, args, kwargs)


def run_region(ev: Evaluator, kind: str, name: str, run: Callable[[], Any]) -> tuple[Region, Any]:
    """Run something in a new region whose writes are kept; it becomes a called graph.

    The outermost function is the graph itself.
    """
    if ev.is_outermost():
        return ev.region, run()
    region = called_region(ev, kind, name)
    with ev.within(region):
        value = run()
    return region, value


def called_region(ev: Evaluator, kind: str, name: str) -> Region:
    """A region that becomes a called graph; the call of a Cell has the Cell's own scope."""
    is_cell = kind in ("cell", LATE)
    scope = "/".join(ev.scopes) if is_cell else ev.origin.scope
    region = Region(ev.region, kind, name, dataclasses.replace(ev.origin, scope=scope))
    region.recompute = is_cell and _is_recomputed(ev, ev.cells[-1])
    region.owner = CallNode(region.parent, region.origin, region)
    return region


def _is_recomputed(ev: Evaluator, cell: Any) -> bool:
    """Whether ``recompute()`` was called on a Cell."""
    flag = getattr(cell, "_recompute", None)  # what has a construct need not be a Cell
    code, fresh, text = ev.outside.source(cell)
    if flag is not None and not fresh:
        ev.outside.require(f"{'' if flag else 'not '}{code}._recompute", f"recompute of {text}")
    return bool(flag)


def parts(function: Any) -> tuple[Code, types.FunctionType, Env | None]:
    """A function's code, the real function whose globals it sees, and a closure's environment."""
    if isinstance(function, types.FunctionType):
        code = code_of(function)
        fence.check(code)
        return code, function, None
    return function.code, function.owner, function.env


def activate(
    ev: Evaluator, function: Any, code: Code, owner: types.FunctionType, parent: Env | None,
    args: list[Any], kwargs: dict[str, Any], call: Call | None = None,
    recursion: Recursion | None = None,
) -> Any:  # fmt: skip
    """Run a function's body in a new frame; returns its value."""
    if len(ev.frames) >= ev.max_depth:
        raise RecursionError(
            f"{code.name} is called {ev.max_depth} deep while compiling: a recursion must be "
            "ended by a constant (set_context(max_call_depth=...) allows more)"
        )
    env = ev.born(Env(parent, code.local))
    env.slots.update(bind(ev, function, code, args, kwargs))
    for name, value in env.slots.items():
        ev.remember_name(value, name)
    origin = ev.origin
    where = fence.location(code.node, code)
    ev.frames.append(Frame(code, env, owner, where, call, ev.region, recursion))
    try:
        value = _body(ev, code)
    except (Peel, Unreachable):
        raise
    except Exception as error:
        ev.failed(error)
        raise
    finally:
        ev.frames.pop()
        ev.origin = origin
    return value


def _body(ev: Evaluator, code: Code) -> Any:
    if isinstance(code.node, ast.Lambda):
        value = ev.expression(code.node.body)
        ev.at(code.node.body)
        ev.returned = ev.frame.where
        return value
    exit = ev.block(code.node.body)
    if exit.may == {RAISE}:
        raise Unreachable
    if RETURN not in exit.may:
        return None
    value = exit.value
    if exit.may != {RETURN}:
        returned = control.is_code(ev, exit.code, RETURN)
        value = control.choose(ev, returned, [lambda: exit.value, lambda: None])
    return ev.readable(value, f"the result of {code.name}")


def bind(
    ev: Evaluator, function: Any, code: Code, args: list[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Parameter names to values, by Python's rules."""
    a = code.node.args
    positional = [p.arg for p in [*a.posonlyargs, *a.args]]
    keyword_only = [p.arg for p in a.kwonlyargs]
    slots = dict(zip(positional, args, strict=False))
    extra = args[len(positional) :]
    if extra and a.vararg is None:
        takes = f"{len(positional)} positional argument{'s' * (len(positional) != 1)}"
        given = f"{len(args)} {'was' if len(args) == 1 else 'were'} given"
        raise TypeError(f"{code.name}() takes {takes} but {given}")
    if a.vararg is not None:
        slots[a.vararg.arg] = tuple(extra)
    rest: dict[str, Any] = {}
    by_position_only = {p.arg for p in a.posonlyargs}
    for name, value in kwargs.items():
        if name in slots and name not in by_position_only:
            raise TypeError(f"{code.name}() got multiple values for argument '{name}'")
        if name in keyword_only or (name in positional and name not in by_position_only):
            slots[name] = value
        elif a.kwarg is not None:
            rest[name] = value
        else:
            raise TypeError(f"{code.name}() got an unexpected keyword argument '{name}'")
    if a.kwarg is not None:
        slots[a.kwarg.arg] = ev.born(rest)
    for name, value in defaults(ev, function, positional).items():
        slots.setdefault(name, value)
    missing = [n for n in [*positional, *keyword_only] if n not in slots]
    if missing:
        names = ", ".join(f"'{n}'" for n in missing)
        raise TypeError(f"{code.name}() is missing required argument(s): {names}")
    return slots


def defaults(ev: Evaluator, function: Any, positional: list[str]) -> dict[str, Any]:
    """What a function's parameters are if they are not given.

    (For what that is, and its code, a graph holds: notebooks put new code into old functions.)
    """
    if not isinstance(function, types.FunctionType):
        names = positional[len(positional) - len(function.defaults) :]
        return dict(zip(names, function.defaults, strict=True)) | function.kw_defaults
    defaults = function.__defaults__ or ()
    names = positional[len(positional) - len(defaults) :]
    found = dict(zip(names, defaults, strict=True)) | (function.__kwdefaults__ or {})
    if is_trusted(module_of(function)):
        return found
    code = ev.outside.constant(function)
    same = f"{code}.__code__ is {ev.outside.constant(function.__code__)}"
    ev.outside.require(same, f"the code of {function.__name__}")
    paths = [f"{code}.__defaults__[{i}]" for i in range(len(names))]
    paths += [f"{code}.__kwdefaults__[{name!r}]" for name in function.__kwdefaults__ or {}]
    return {
        name: ev.homed(ev.outside.capture(value, path, False, name))
        for path, (name, value) in zip(paths, found.items(), strict=True)
    }
