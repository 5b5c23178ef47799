"""A trial of a program: does Graph mode do what Python does, or say at once that it cannot?

``try_program(text)`` makes two worlds of a module (see program_generator.py) and calls its function
in both, one after the other: as it is, and compiled.  After each call they must agree in result,
printed text, error, in what was written, and in which Tensors are the same object; so must the
interpreter on every stage of the compiled graph.  A graph may refuse a program while it is
compiled, by an error of a class that the documents name, which points at a line of the program;
nothing may have been written then.
"""

from __future__ import annotations

import dis
import itertools
import linecache
import re
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from differential import EXACT, Outcome, check_stages, found_for, may_differ, points_at
from helpers import assert_same

import minispore as ms
from minispore import Tensor
from minispore.compile import JitFunction
from minispore.frontend import source
from minispore.tree import flatten

FILE = "<program>"
FACTOR = 100.0  # of the tolerances: gradients of gradients round more than once

# The classes of what a graph may answer: its own, and what Python raises for faulty programs.
DOCUMENTED = (
    TypeError, RuntimeError, NameError, AttributeError, LookupError, ArithmeticError,
    ValueError,
)  # fmt: skip
# Where the front end lets Python (or an op) find the program's own faults.
PYTHONS_OWN = {
    "operate", "get_item", "set_item", "get_attribute", "convert", "handler", "native",
    "call_container_method", "iterate", "_call_journaled", "_of_tensor", "_of_instance", "_missing",
    "expression_Dict", "expression_Slice", "statement_Delete", "instantiate", "_of_class",
}  # fmt: skip


class TooLong(BaseException):
    """A program has run longer than it may (an error that no program handles)."""


@dataclass
class Verdict:
    """What came of a trial: "agreed", "raised" (both, in the end), "refused" or "failed"."""

    kind: str
    message: str = ""


class Run(Outcome):
    """What a call did, the Tensors in its result, and those that it may have written."""

    def __init__(self, world: World, args: tuple):
        ms.set_seed(7)
        results: list[Any] = []
        super().__init__(lambda: results.append(world.function(*args)) or results[0], ())
        self.results = flatten(results, lambda v: isinstance(v, Tensor))[0]
        self.watched = world.watched(args)
        self.state = [t.asnumpy().copy() for t in self.watched]
        self.state.append(ms.ops.rand(2).asnumpy())  # the generator's state


class World:
    """A module made from text, and its function, as it is or compiled."""

    def __init__(self, code: Any, is_compiled: bool):
        self.module: dict[str, Any] = {"__name__": "program", "__file__": FILE}
        exec(code, self.module)
        function, self.net, self.state = self.module["make"]()
        self.jitted = JitFunction(function, EXACT) if is_compiled else None
        self.function = self.jitted or function

    def watched(self, args: tuple) -> list[Tensor]:
        """The Tensors that a call may write: their order is that of the other world."""
        mine = [getattr(self.net, n) for n in ("h", "g", "e", "new") if hasattr(self.net, n)]
        return [*(a for a in args if isinstance(a, Tensor)), *self.state, *mine]


def try_program(text: str, seconds: float = 60) -> Verdict:
    """Compare all ways to run a program."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(True), FILE)
    code = compile(text, FILE, "exec")
    try:
        with limited(seconds):
            return _compare(code)
    except TooLong:
        return Verdict("failed", f"runs longer than {seconds} s")
    except Exception as error:
        return Verdict("failed", f"{type(error).__name__}: {error}")
    finally:
        source._codes.clear()  # or it keeps every program


def _compare(code: Any) -> Verdict:
    plain, compiled = World(code, False), World(code, True)
    verdict, known = Verdict("agreed"), set()
    for i in range(len(plain.module["INPUTS"])):
        args, others = (w.module["arguments"](i) for w in (plain, compiled))
        before = [t.asnumpy().copy() for t in compiled.watched(others)]
        expected = Run(plain, args)
        ms.set_seed(7)
        try:
            found, arrays = found_for(compiled.jitted, others)
        except Exception as error:
            assert_same([t.asnumpy() for t in compiled.watched(others)], before)
            return _refused(error, expected.error)
        actual = Run(compiled, others)
        try:
            actual.assert_like(expected, FACTOR)
            assert_same(actual.state, expected.state, FACTOR)
        except AssertionError:
            if not may_differ(actual, found, arrays, expected, FACTOR):
                raise
            return Verdict("agreed", "rounding decides")  # and what follows depends on it
        _compare_objects(actual, expected)
        check_stages(found, arrays, expected, FACTOR, id(found) not in known)
        known.add(id(found))
        if expected.error is not None:
            verdict = Verdict("raised", described(expected.error))
    return verdict


def _compare_objects(actual: Run, expected: Run) -> None:
    """What was written are the same objects; a result may be a copy of what Tensors choose."""
    for mine, others, exact in (
        (actual.watched, expected.watched, True),
        (actual.watched + actual.results, expected.watched + expected.results, False),
    ):
        for i, j in itertools.combinations(range(len(mine)), 2):
            same, wanted = mine[i] is mine[j], others[i] is others[j]
            assert same == wanted or (wanted and not exact), f"Tensors {i} and {j} are one: {same}"


def _refused(error: Exception, expected: BaseException | None) -> Verdict:
    """The verdict on an error that was found while compiling."""
    text = described(error)
    if not isinstance(error, DOCUMENTED) or is_internal(error):
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Verdict("failed", f"internal error in {where.name}: {text}")
    if not points_at(error, FILE):
        return Verdict("failed", f"no line of the program: {text}")
    if expected is not None and type(error) is type(expected):
        return Verdict("raised", f"while compiling: {text}")
    return Verdict("refused", text)


def is_internal(error: BaseException) -> bool:
    """True for an error that the package did not mean to raise."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    ours = Path(ms.__file__).parent in Path(code.co_filename).parents
    explicit = dis.opname[code.co_code[trace.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")
    return ours and not explicit and code.co_name not in PYTHONS_OWN


def described(error: BaseException) -> str:
    """An error's class and message, without what differs from program to program."""
    text = re.sub(r"<program>:\d+(:\d+)?", "LINE", str(error))
    text = re.sub(r"'[^' ]*'", "'NAME'", text)
    text = re.sub(r"-?\d+(\.\d+)?", "N", text)
    return f"{type(error).__name__}: {text}"


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TooLong in a ``with`` block that takes longer."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
