"""Random straight-line programs over the op table, and every row of it, in all ways to run.

A program takes rows of the table one after the other; the operands of each are earlier values (of
the same size; reshaped and cast), or the row's own samples.  Between them it prints, and writes
earlier values in place.  MINISPORE_PROGRAMS=1000 in the environment tries that many programs.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from differential import EXACT, Outcome, agree, found_for, may_differ
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from op_functions import FUNCTIONS
from op_table import ROWS, Case

import minispore as ms
from minispore import Tensor, ops
from minispore.compile import JitFunction

# The size of their results depends on values, which no graph can express: refused, with a test.
DATA_DEPENDENT = {"NonZero", "Unique", "MaskPositions", "nonzero", "unique", "masked_select"}


def table() -> list[tuple[str, Case]]:
    rows = ROWS | FUNCTIONS
    return [(n, c) for n, cases in rows.items() if n not in DATA_DEPENDENT for c in cases]


CASES = table()


def cast(array: np.ndarray, dtype: ms.dtype.DType) -> np.ndarray:
    return array.astype(dtype.numpy) if array.dtype == np.float64 else array


def weigh(value: Tensor) -> Tensor:
    """Times weights: a sum whose gradient is exactly 0 (Softmax's) leaves nothing but rounding."""
    weights = np.resize([0.7, -1.3, 0.4, 1.1, -0.6], value.shape)
    return value * Tensor(weights, value.dtype)


def weighted(function: Callable) -> Callable:
    """The sum of a function's float results, weighed."""

    def sums(*args: Tensor) -> Tensor:
        out = function(*args)
        items = out if isinstance(out, tuple) else (out,)
        return sum((weigh(v).sum() for v in items if v.dtype.is_float), Tensor(0.0))

    return sums


@pytest.mark.parametrize("name", sorted({n for n, _ in CASES}))
def test_every_row(name):
    """PyNative == the interpreter after every pass == execution, for values and gradients."""
    for case in (c for n, c in CASES if n == name):
        function = case.function
        for dtype in case.dtypes:
            args = [Tensor(cast(a, dtype)) for a in case.inputs]
            factor = 10 * case.factor
            agree(lambda *a, f=function: f(*a), *args, factor=factor)
            floats = tuple(i for i, a in enumerate(args) if a.dtype.is_float)
            if case.order and floats and dtype is case.dtypes[0]:
                gradient = ms.grad(weighted(function), floats)
                agree(lambda *a, g=gradient: g(*a), *args, factor=factor)


# ------------------------------------------------------------------------------- programs


@dataclass
class Use:
    """An operand: value number `index`, reshaped and cast to what a row expects."""

    index: int
    shape: tuple[int, ...]
    dtype: ms.dtype.DType

    def of(self, pool: list[Any]) -> Any:
        return ops.cast(ops.reshape(pool[self.index], self.shape), self.dtype)


@dataclass
class Step:
    """A row on operands; or a write (`function` is None) of the second operand into the first."""

    name: str
    function: Callable | None
    operands: list[Any]
    printed: bool = False

    def run(self, pool: list[Any]) -> None:
        if self.function is None:
            target, source = self.operands
            pool[target].copy_(source.of(pool))
            return
        out = self.function(*[v.of(pool) if isinstance(v, Use) else v for v in self.operands])
        for value in out if isinstance(out, tuple) else (out,):
            pool.append(value)
        if self.printed:
            print(self.name, pool[-1])


class Program:
    """Steps, and the Tensors that they start from."""

    def __init__(self, steps: list[Step], inputs: list[Tensor]):
        self.steps, self.inputs = steps, inputs

    def __repr__(self) -> str:
        lines = [f"{s.name}({', '.join(map(str, s.operands))})" for s in self.steps]
        return "\n".join([f"inputs {self.inputs}", *lines])

    def run(self, *args: Tensor) -> list[Tensor]:
        """The values of all steps."""
        pool = list(args)
        for step in self.steps:
            step.run(pool)
        return pool[len(args) :]

    def summed(self, *args: Tensor) -> Tensor:
        """The sum of all float values."""
        floats = [weigh(v.astype(ms.float64)).sum() for v in self.run(*args) if v.dtype.is_float]
        return sum(floats, Tensor(0.0, ms.float64))


def operand(draw: Callable, sample: np.ndarray, pool: list[Tensor]) -> Any:
    """An earlier value in the place of a sample: floats for floats, bools for bools."""
    kinds = [v.dtype.is_float if sample.dtype.kind == "f" else v.dtype is ms.bool_ for v in pool]
    fitting = [
        i
        for i, (v, alike) in enumerate(zip(pool, kinds, strict=True))
        if alike and v.size == sample.size and sample.dtype.kind in "fb"
    ]
    if not fitting or draw(st.integers(0, 4)) == 0:
        return Tensor(sample)
    return Use(draw(st.sampled_from(fitting)), sample.shape, ms.dtype.from_numpy(sample.dtype))


def write(draw: Callable, pool: list[Tensor]) -> Step | None:
    target = draw(st.integers(0, len(pool) - 1))
    sources = [i for i, v in enumerate(pool) if v.size == pool[target].size]
    use = Use(draw(st.sampled_from(sources)), pool[target].shape, pool[target].dtype)
    return Step("write", None, [target, use])


@st.composite
def programs(draw: Callable) -> Program:
    """3 to 12 steps whose operands fit."""
    steps: list[Step] = []
    inputs: list[Tensor] = []
    pool: list[Tensor] = []
    for _ in range(draw(st.integers(3, 12))):
        if pool and draw(st.integers(0, 5)) == 0:
            step = write(draw, pool)
        else:
            name, case = draw(st.sampled_from(CASES))
            dtype = draw(st.sampled_from(case.dtypes))
            samples = [cast(a, dtype) for a in case.inputs]
            operands = [operand(draw, a, pool) for a in samples]
            step = Step(name, case.function, operands, draw(st.booleans()))
        before = len(pool)
        try:
            step.run(pool)
        except (ArithmeticError, IndexError, ValueError, RuntimeError, TypeError):
            del pool[before:]  # such as a probability outside 0 .. 1: not this step
            continue
        steps.append(step)
    # The samples become inputs, numbered before the values of steps.
    for step in steps:
        for k, v in enumerate(step.operands):
            if isinstance(v, Tensor):
                inputs.append(v)
                step.operands[k] = Use(len(inputs) - 1, v.shape, v.dtype)
            elif isinstance(v, Use):
                v.index = -1 - v.index
    for step in steps:
        for k, v in enumerate(step.operands):
            if isinstance(v, Use) and v.index < 0:
                v.index = -1 - v.index + len(inputs)
            elif isinstance(v, int):
                step.operands[k] = v + len(inputs)
    return Program(steps, inputs)


several = settings(
    max_examples=int(os.environ.get("MINISPORE_PROGRAMS", 30)),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@several
@given(programs())
def test_random_programs(program):
    agree(program.run, *program.inputs, factor=10, is_random=True)


@several
@given(programs())
def test_gradients_of_random_programs(program):
    floats = tuple(i for i, x in enumerate(program.inputs) if x.dtype.is_float)
    if floats:
        gradient = ms.value_and_grad(program.summed, floats)
        agree(gradient, *program.inputs, factor=100, is_random=True)


def test_programs_are_not_trivial():
    """The strategy makes what it should: long programs that reuse values, write and print."""
    found: list[Program] = []

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(programs())
    def collect(program: Program) -> None:
        found.append(program)

    collect()
    uses = [v.index >= len(p.inputs) for p in found for s in p.steps for v in s.operands
            if isinstance(v, Use)]  # fmt: skip
    assert sum(uses) > 20
    assert max(len(p.steps) for p in found) > 6
    assert any(s.function is None for p in found for s in p.steps)
    assert len({s.name for p in found for s in p.steps}) > 30


def test_rounding_excuses_no_wrong_value():
    """Where float32 rounds on the way to float64: a difference of its size, and no larger one."""
    x = Tensor(np.array([1.1, 2.3, -0.7]))
    jitted = JitFunction(lambda x: ops.exp(x.astype(ms.float32)).astype(ms.float64) + x, EXACT)
    right = jitted(x)
    compiled, arrays = found_for(jitted, (x,))

    def excused(result: Tensor) -> bool:
        outcomes = [Outcome(lambda value=value: value, ()) for value in (result, right)]
        return may_differ(outcomes[0], compiled, arrays, outcomes[1], 10)

    assert excused(right * (1 + 1e-7))
    assert not excused(right * 1.01) and not excused(-right) and not excused(right[:2])


def test_rounding_excuses_nothing_where_it_is_not_magnified():
    x = Tensor([1.0, 2.0])
    jitted = JitFunction(lambda x: x > 1.5, EXACT)
    right = jitted(x)
    compiled, arrays = found_for(jitted, (x,))
    other = Outcome(lambda: ops.logical_not(right), ())
    assert not may_differ(other, compiled, arrays, Outcome(lambda: right, ()), 10)
