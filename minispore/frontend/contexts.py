"""``with``: contexts whose ``__enter__`` and ``__exit__`` are plain Python.

Both are evaluated around the body, on every path through it.  What leaves the body by an error
would run ``__exit__`` too, and might be silenced there; a graph only ends.  So a context that has
something to do in the end cannot hold what may fail when the graph runs.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from minispore.frontend.control import truth
from minispore.frontend.errors import UnsupportedError
from minispore.frontend.exits import Exit, refuse_choice, type_name
from minispore.frontend.heap import Trial

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
    before = ev.failures
    exit = run(ev, rest, body)
    ev.at(item.context_expr)
    may_fail = ev.failures > before
    with Trial(ev.region, kept=True):
        silences = truth(ev, ev.call(leave, [manager, None, None, None], {}))
        lasts = any(i not in ev.births for i in ev.region.journal)  # when the call has ended
    if may_fail and (silences is not False or lasts):
        raise UnsupportedError(
            f"__exit__ of {type_name(manager)} would have to run if the body of 'with' fails: use "
            "the context manager around the call of the compiled function"
        )
    return exit


def _method(manager: Any, name: str) -> Any:
    method = getattr(type(manager), name, None)
    if method is None:
        raise TypeError(
            f"'{type_name(manager)}' object does not support the context manager protocol"
        )
    return method
