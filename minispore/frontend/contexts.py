"""``with``: contexts whose ``__enter__`` and ``__exit__`` are plain Python.

Both are evaluated around the body, on every path through it, and ``__exit__`` gets the errors of
constant code as a handler does (handlers.py).  But what fails when the graph runs ends it, so a
context that has something to do in the end cannot hold what may fail.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from minispore.frontend import handlers
from minispore.frontend.control import truth
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import GO_ON, Exit
from minispore.frontend.heap import Trial
from minispore.frontend.values import refuse_choice, type_name

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator


def run(ev: Evaluator, items: list[ast.withitem], body: list[ast.stmt]) -> Exit:
    """Run a body in the contexts of ``with a as x, b as y``."""
    if not items:
        return ev.block(body)
    item, *rest = items
    manager = ev.expression(item.context_expr)
    ev.at(item.context_expr)
    refuse_choice(manager, "the object of with")
    enter, leave = (_method(manager, name) for name in ("__enter__", "__exit__"))
    value = ev.call(enter, [manager], {})
    if item.optional_vars is not None:
        ev.assign(item.optional_vars, value)
    before = len(ev.failures)
    error: BaseException | None = None
    exit = Exit(GO_ON)
    try:
        with handlers.in_try(ev):
            exit = run(ev, rest, body)
    except Exception as found:
        error = handlers.own(ev, found)
    ev.at(item.context_expr)
    may_fail = len(ev.failures) > before
    about = [None, None, None] if error is None else [type(error), error, None]
    with Trial(ev.region, kept=True):
        silences = truth(ev, ev.call(leave, [manager, *about], {}))
        lasts = any(i not in ev.births for i in ev.region.journal)  # when the call has ended
    if may_fail and (silences is not False or lasts):
        raise UnsupportedError(
            f"__exit__ of {type_name(manager)} would have to run if the body of 'with' fails: use "
            "the context manager around the call of the compiled function"
        )
    return exit if error is None or silences is True else handlers.throw_again(ev, error)


def _method(manager: Any, name: str) -> Any:
    method = getattr(type(manager), name, None)
    if method is None:
        raise TypeError(
            f"'{type_name(manager)}' object does not support the context manager protocol"
        )
    return method
