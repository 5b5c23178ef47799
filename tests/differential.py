"""The differential harness: PyNative == the interpreter after every stage == execution.

``agree(fn, *args)`` runs a function in PyNative mode, compiles it, interprets the graph of every
stage of the compilation, executes it, and compares results, printed text, raised errors and what
was written to the given Parameters and arguments.
"""

import contextlib
import copy
import io
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from helpers import assert_same
from ml_dtypes import finfo

import minispore as ms
from minispore import dtype as dt
from minispore.abstract import AbstractTensor
from minispore.compile import JitFunction
from minispore.engine import compile_plan
from minispore.ir.interp import interpret
from minispore.ir.node import FuncGraph
from minispore.jit_options import Options
from minispore.mutable import Mutable
from minispore.passes import default_pipeline
from minispore.program import Compiled
from minispore.tensor import is_variable
from minispore.tree import flatten, unflatten

NUMBER = r"[-+]?\d+(?:\.\d*)?(?:e[-+]\d+)?"
EXACT = Options(jit_level="O0")  # the level whose results are PyNative's to the last bit


class Outcome:
    """What a run did: its result or error, what it printed, what it left in the state."""

    def __init__(self, run: Callable[[], Any], state: Sequence[ms.Tensor]):
        out = io.StringIO()
        self.result: Any = None
        self.error: BaseException | None = None
        with contextlib.redirect_stdout(out):
            try:
                self.result = snapshot(run())
            except Exception as error:  # compared with the other run's
                self.error = error
        self.printed = out.getvalue()
        self.state = [t.asnumpy().copy() for t in state]

    def assert_like(self, other: "Outcome", factor: float) -> None:
        if other.error is not None:
            assert self.error is not None, f"no error, where {other.error!r} was expected"
            assert type(self.error) is type(other.error), (self.error, other.error)
            assert str(self.error) == str(other.error)
        elif self.error is not None:
            raise self.error
        assert_printed(self.printed, other.printed)
        assert_result(self.result, other.result, factor)
        if other.error is None:
            assert_same(self.state, other.state, factor)


def assert_printed(actual: str, expected: str) -> None:
    """The same text, and the same numbers but for rounding (of bfloat16, the coarsest dtype)."""
    if actual == expected:
        return
    assert re.sub(NUMBER, "#", actual).split() == re.sub(NUMBER, "#", expected).split()
    values = [np.array(re.findall(NUMBER, text), float) for text in (actual, expected)]
    np.testing.assert_allclose(*values, rtol=2e-2, atol=1e-5)


def _array(value: Any) -> Any:
    """An input of a graph: a copy of a Tensor's array, or a number."""
    return value.asnumpy().copy() if isinstance(value, ms.Tensor) else value


def snapshot(value: Any) -> Any:
    """A result whose Tensors are copies, numbers unmarked: an argument may be among them."""
    leaves, structure = flatten(value, is_variable)
    return unflatten(
        structure,
        [t.plain() if isinstance(t, Mutable) else ms.Tensor(t.asnumpy().copy()) for t in leaves],
    )


def assert_result(actual: Any, expected: Any, factor: float) -> None:
    """``assert_same`` for results that may also hold dicts (order counts), None and strings."""
    if isinstance(expected, dict):
        assert type(actual) is type(expected)
        assert list(actual) == list(expected)
        actual, expected = list(actual.values()), list(expected.values())
    if isinstance(expected, (list, tuple)):
        assert type(actual) is type(expected)
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert_result(a, e, factor)
    elif expected is None or isinstance(expected, str):
        assert actual == expected
    else:
        assert_same(actual, expected, factor)


def agree(
    fn: Callable,
    *args: Any,
    state: Sequence[ms.Parameter] = (),
    factor: float = 1.0,
    stages: bool = True,
    is_random: bool = False,
) -> Any:
    """Assert that all ways to run ``fn(*args)`` agree; returns PyNative's result.

    A function that `is_random` may be one whose result depends on rounding (see _Check).
    """
    tensors = [a for a in args if isinstance(a, ms.Tensor)]
    watched = [*state, *tensors]
    before = [t.asnumpy().copy() for t in watched]

    def reset() -> None:
        for t, b in zip(watched, before, strict=True):
            t._data = b.copy()

    with ms.context.using(mode=ms.PYNATIVE_MODE):
        expected = Outcome(lambda: fn(*args), watched)
        reset()
        jitted = JitFunction(fn, EXACT)
        first = Outcome(lambda: jitted(*args), watched)
        if expected.error is not None and first.error is not None and not jitted.compile_count:
            assert_refused_as(first.error, expected.error, fn)
            return None
        try:
            first.assert_like(expected, factor)
        except AssertionError:
            reset()
            if not is_random or not may_differ(first, *found_for(jitted, args), expected, factor):
                raise
            return expected.result
        reset()
        Outcome(lambda: jitted(*args), watched).assert_like(expected, factor)
        assert jitted.compile_count == 1
        reset()
        if stages:
            compiled, inputs = found_for(jitted, args)
            check_stages(compiled, inputs, expected, factor)
    return expected.result


def found_for(jitted: JitFunction, args: Sequence) -> tuple[Compiled, list]:
    """The graph for a call, and its inputs: arrays, numbers, older containers."""
    compiled, inputs = jitted.find(tuple(args), {})
    if compiled.containers is not None:
        inputs = compiled.with_containers(inputs, tuple(args), {})
    return compiled, [copy.copy(_array(v)) for v in inputs]


def assert_refused_as(error: BaseException, expected: BaseException, fn: Callable) -> None:
    """An error found while compiling is of Python's class, and points at a line of fn's file."""
    assert type(error) is type(expected), (error, expected)
    assert points_at(error, fn.__code__.co_filename), error


def points_at(error: BaseException, file: str) -> bool:
    """True if the notes of an error show a line of this file, with a caret."""
    notes = "\n".join(getattr(error, "__notes__", ()))
    return f'File "{file}"' in notes and "^" in notes


def check_stages(
    compiled: Compiled,
    arrays: Sequence[np.ndarray],
    expected: Outcome,
    factor: float,
    all_of_them: bool = True,
) -> None:
    """Interpret the graph of each stage (or of the first and the last only): all give the same
    outputs, and the expected result.  So do the plans of all levels; that of "O2", whose laws are
    for normal numbers, if the run has no others.
    """
    stages = [*compiled.stages.items()]
    final = stages[-1][1]
    runs = {
        n: partial(interpret, g) for n, g in (stages if all_of_them else stages[:: len(stages) - 1])
    }
    runs |= {level: compile_plan(final, level).run for level in ("O0", "O1")}
    if is_normal(compiled, arrays):
        fast = default_pipeline(fastmath=True).run(compiled.stages["grad"])
        runs["O2"] = compile_plan(fast, "O2").run
    check = _Check(compiled, arrays, expected, factor)
    for name, execute in runs.items():
        try:
            check.agrees(execute)
        except AssertionError as error:
            if not check.may_differ(check.last):
                raise AssertionError(f"stage {name}: {error}") from error


def is_normal(compiled: Compiled, arrays: Sequence) -> bool:
    """True if all floats of a run, on the way too, are normal numbers or 0."""
    seen: list[Any] = [*arrays]
    graph = compiled.stages["grad"]
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        interpret(graph, list(arrays[: compiled.containers]), lambda _, value: seen.append(value))
    for value in seen:
        if isinstance(value, np.ndarray) and dt.from_numpy(value.dtype).is_float:
            size, least = np.abs(value.astype(np.float64)), float(finfo(value.dtype).tiny)
            if not np.all((size == 0) | (size >= least) & np.isfinite(size)):
                return False
        elif isinstance(value, float) and not math.isfinite(value):
            return False
    return True


def may_differ(
    actual: Outcome, compiled: Compiled, arrays: Sequence, expected: Outcome, factor: float
) -> bool:
    """Whether what differs from the expected result may: see _Check."""
    return _Check(compiled, arrays, expected, factor).may_differ(actual)


class _Check:
    """What all ways to run a graph are compared with."""

    def __init__(self, compiled: Compiled, arrays: Sequence, expected: Outcome, factor: float):
        self.compiled, self.arrays, self.factor = compiled, arrays, factor
        self.expected = expected
        self.outputs: tuple | None = None  # those of the first way

    def agrees(self, execute: Callable[[list], tuple]) -> None:
        """Assert that one way gives the expected result, and the outputs that the first gave."""
        found: list[tuple] = []
        outcome = Outcome(lambda: self.result(execute, self.arrays, found), ())
        outcome.state = self.expected.state
        self.last = outcome
        outcome.assert_like(self.expected, self.factor)
        if found:
            self.outputs = self.outputs or found[0]
            assert_same(found[0], self.outputs, self.factor)

    def result(self, execute: Callable, inputs: Sequence, found: list[tuple]) -> Any:
        """What a call returns; the graph's outputs, but for the Token, are added to `found`."""
        values = execute(list(inputs[: self.compiled.containers]))
        found.append(tuple(v for v in values if v is not None))
        after = [copy.copy(v) for v in inputs]
        for number, place in self.compiled.writes:
            if not self.compiled.targets[number].name:
                after[self.compiled.targets[number].cell] = values[~place]

        def leaf(place: int) -> Any:
            value = after[place] if place >= 0 else values[~place]
            return ms.Tensor(value) if isinstance(value, np.ndarray) else value

        for store in self.compiled.stores:
            store.write(leaf)
        return unflatten(self.compiled.structure, [leaf(p) for p in self.compiled.places])

    def may_differ(self, actual: Outcome) -> bool:
        """True if what differs from the expected result is rounding that the program magnifies.

        Passes and kernels sum in another order.  That shows where all but rounding cancels (the
        gradient of a bias before BatchNorm is 0), and where a branch turns on a float that is
        within rounding of its threshold: either side is right.  So: inputs moved by some ulps
        change the first graph's own result in kind, or by a thousandth of the difference at least.
        """
        graph = next(iter(self.compiled.stages.values()))
        eps, random = coarsest(graph), np.random.default_rng(0)

        def outcome(inputs: Sequence) -> tuple[tuple, list[np.ndarray]]:
            found: list[tuple] = []
            made = Outcome(lambda: self.result(partial(interpret, graph), inputs, found), ())
            return kind_of(made), floats_of(found)

        kind, unmoved = outcome(self.arrays)
        spread = 0.0
        for _ in range(8):
            other, moved = outcome([_moved(v, eps, random) for v in self.arrays])
            if other != kind:
                return True
            spread = max([spread, *map(largest_difference, moved, unmoved)])
        if spread == 0 or kind_of(actual) != kind_of(self.expected):
            return False
        pairs = [floats_of([o.result, o.state]) for o in (actual, self.expected)]
        return max(map(largest_difference, *pairs), default=0.0) <= 1000 * spread


def kind_of(outcome: Outcome) -> tuple:
    """What rounding alone cannot change: the error, the words printed, integers, forms, nans."""
    leaves = [np.asarray(v) for v in flatten([outcome.result], is_variable)[0]]
    exact = [v if v.dtype.kind in "iub" else np.isfinite(v.astype(np.float64)) for v in leaves]
    words = re.sub(NUMBER, "#", outcome.printed).split()
    return type(outcome.error), words, [(v.dtype, v.shape, e.tolist()) for v, e in
                                        zip(leaves, exact, strict=True)]  # fmt: skip


def floats_of(values: Any) -> list[np.ndarray]:
    """The arrays of floats among some values."""
    leaves = [np.asarray(v) for v in flatten(values, lambda v: isinstance(v, np.ndarray)
              or is_variable(v))[0]]  # fmt: skip
    return [v.astype(np.float64) for v in leaves if v.dtype.kind not in "iub"]


def largest_difference(a: np.ndarray, b: np.ndarray) -> float:
    """Between finite elements."""
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(a[both] - b[both]).max(initial=0))


def coarsest(graph: FuncGraph) -> float:
    """The largest eps of the float dtypes in a graph: how values are rounded on the way."""
    kinds = {n.abstract.dtype for g in graph.graphs() for n in [*g.parameters, *g.nodes()]
             if isinstance(n.abstract, AbstractTensor)}  # fmt: skip
    return max((float(finfo(k.numpy).eps) for k in kinds if k.is_float), default=0.0)


def _moved(value: Any, eps: float, random: np.random.Generator) -> Any:
    """A float, or an array of floats, moved by some eps; of half precision by one."""
    if isinstance(value, float):
        return value * (1 + eps * random.uniform(-1, 1))
    if not isinstance(value, np.ndarray) or not dt.from_numpy(value.dtype).is_float:
        return value
    steps = random.uniform(-1, 1, value.shape) * (8 if eps < 1e-6 else 1)
    return (value.astype(np.float64) * (1 + eps * steps)).astype(value.dtype)


def refuses(fn: Callable, *args: Any, error: type[Exception], match: str) -> None:
    """Assert that compiling is refused with this error, which points at a line of this file."""
    with pytest.raises(error, match=match) as caught:
        ms.jit(fn)(*args)
    assert points_at(caught.value, fn.__code__.co_filename), caught.value.__notes__


class Programs(list):
    """Functions to run with ``agree``, each with the arguments to try: numbers become Tensors."""

    def on(self, *inputs: Any) -> Callable[[Callable], Callable]:
        """A decorator; each input is an argument, or the tuple of all arguments."""

        def register(fn: Callable) -> Callable:
            for i, given in enumerate(inputs):
                args = given if isinstance(given, tuple) else (given,)
                self.append(pytest.param(fn, args, id=f"{fn.__name__}-{i}"))
            return fn

        return register

    def run(self, fn: Callable, args: tuple) -> Any:
        """``agree``, on new Tensors."""
        return agree(fn, *map(ms.Tensor, args))


class Refusals(list):
    """Functions that a graph cannot hold, each with the error that says so."""

    def on(self, error: type[Exception], match: str, *args: Any) -> Callable[[Callable], Callable]:
        """A decorator; `args` become Tensors."""

        def register(fn: Callable) -> Callable:
            self.append(pytest.param(fn, args, error, match, id=fn.__name__))
            return fn

        return register

    def run(self, fn: Callable, args: tuple, error: type[Exception], match: str) -> None:
        """``refuses``, on new Tensors."""
        refuses(fn, *map(ms.Tensor, args), error=error, match=match)
