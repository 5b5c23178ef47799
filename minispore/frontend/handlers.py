"""``try``: what fails while compiling is handled while compiling.

The errors of constant code (a missing key, a division by zero, ``raise``) are Python's own objects,
and so are their handlers' choices.  What may fail only when the graph runs cannot be handled there:
a body that holds such a thing is refused.  So is an error of the front end's own, which says that a
graph is too small for the program, not that the program is wrong.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from minispore.frontend import control
from minispore.frontend.errors import UnsupportedError, locate
from minispore.frontend.exits import GO_ON, Exit
from minispore.frontend.heap import UNSET, Trial
from minispore.frontend.values import is_symbolic
from minispore.ir.node import Location
from minispore.tree import NeedConstant

if TYPE_CHECKING:
    from minispore.frontend.evaluate import Evaluator

# Rooms whose explicit errors may be about the graph; what ops raise, they raise in both modes.
_OF_THE_GRAPH = ("minispore.frontend.", "minispore.symbolic", "minispore.tree", "minispore.program")
# What operations on constants raise; a TypeError may be about a value known at run time.
_PLAIN = (LookupError, ArithmeticError, ValueError, AttributeError, StopIteration)


class Thrown(Exception):
    """An exception that constant code raised, on its way to a handler."""

    def __init__(self, error: BaseException):
        super().__init__(error)
        self.error = error


def throw(ev: Evaluator, kind: Callable, args: Sequence[Any]) -> None:
    """Raise ``kind(*args)`` to the handlers of an open ``try``, if constants lead there."""
    if not ev.tries:
        return
    for region in ev.region.ancestors():
        if region is ev.tries[-1]:
            if is_symbolic(list(args)):
                raise UnsupportedError(
                    "an error of run-time values cannot be handled in a graph: raise it with "
                    "constants, or handle it outside of the compiled function"
                )
            raise Thrown(kind(*args))
        if region.is_conditional:
            return


def run(ev: Evaluator, node: ast.Try) -> Exit:
    """A ``try`` statement."""
    before = len(ev.failures)
    error: BaseException | None = None
    exit = Exit(GO_ON)
    try:
        try:
            with in_try(ev):
                exit = ev.block(node.body)
        except Exception as found:
            error = own(ev, found)
        if node.handlers and len(ev.failures) > before:
            raise _refusal(ev.failures[before])
        if error is None:
            exit = control.go_on_if(ev, exit, partial(ev.block, node.orelse))
        else:
            error, exit = _handle(ev, node.handlers, error)
    except Exception as found:  # of a handler or the else block
        error = own(ev, found)
    exit = _finally(ev, node, exit, len(ev.failures) > before)
    return exit if error is None or GO_ON not in exit.may else throw_again(ev, error)


def _refusal(places: list[Location]) -> UnsupportedError:
    """The error for what may fail at run time in a ``try``, at the place of that."""
    error = UnsupportedError(
        "what may fail when the graph runs cannot be handled there: test the condition with if, or "
        "put try around the call of the compiled function"
    )
    locate(error, places)
    return error


@contextmanager
def in_try(ev: Evaluator) -> Iterator[None]:
    """Around a body whose errors are handled: they come as ``own`` tells."""
    ev.tries.append(ev.region)
    try:
        yield
    finally:
        ev.tries.pop()


def throw_again(ev: Evaluator, error: BaseException) -> Exit:
    """Raise an error that no handler has taken."""
    return control.check(ev, False, partial(type(error), *error.args), [])


def own(ev: Evaluator, found: Exception) -> BaseException:
    """The program's own error; any other is raised again."""
    if isinstance(found, Thrown):
        return found.error
    if isinstance(found, NeedConstant):
        raise found
    trace = found.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    opcode = trace.tb_frame.f_code.co_code[trace.tb_lasti]
    explicit = dis.opname[opcode] in ("RAISE_VARARGS", "RERAISE")
    name = trace.tb_frame.f_globals["__name__"]
    of_an_op = explicit and not name.startswith(_OF_THE_GRAPH)
    if found is ev.undecided or not (of_an_op or (not explicit and isinstance(found, _PLAIN))):
        raise found
    return found


def _handle(
    ev: Evaluator, handlers: list[ast.ExceptHandler], error: BaseException
) -> tuple[BaseException | None, Exit]:
    """The error if no handler takes it, and how the one that does ends."""
    for handler in handlers:
        kinds = BaseException if handler.type is None else ev.expression(handler.type)
        if isinstance(error, kinds):
            break
    else:
        return error, Exit(GO_ON)
    if handler.name:
        ev.store_name(handler.name, error)
    ev.handled.append(error)
    try:
        exit = ev.block(handler.body)
    finally:
        ev.handled.pop()
        if handler.name:
            ev.store_name(handler.name, UNSET)
    return None, exit


def _finally(ev: Evaluator, node: ast.Try, exit: Exit, may_fail: bool) -> Exit:
    """The end of the statement: that of the ``finally`` block, if it leaves."""
    with Trial(ev.region, kept=True):
        final = ev.block(node.finalbody)
        lasts = any(i not in ev.births for i in ev.region.journal)
    if (may_fail and lasts) or (len(final.may) > 1):
        ev.at(node)
        raise UnsupportedError(
            "'finally' would have to run if the graph fails, or leaves as a Tensor decides: put "
            "try around the call of the compiled function"
        )
    return exit if final.may == {GO_ON} else final
