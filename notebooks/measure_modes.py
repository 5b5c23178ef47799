"""When does a static graph pay?  Times the same functions in both modes, on one core.

    python notebooks/measure_modes.py              a Markdown table; about a minute
    python notebooks/measure_modes.py --rounds 5   quicker and rougher

A row is one function.  Its first results in both modes are compared; then the modes take turns, so
that what else the machine does hits both alike.  Times are the processor's, per call: medians over
the rounds, ± half the distance between the quartiles.  "compile" is what the first call costs
extra, "pays after" the number of calls that win it back.  Imports are not counted.
"""

import argparse
import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from math import ceil
from pathlib import Path
from statistics import median, quantiles
from time import process_time
from typing import Any

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"  # before NumPy is imported

import numpy as np

import minispore as ms
from minispore import Tensor, nn, ops
from minispore.train.digits import Network, make_step
from minispore.tree import flatten

SAME = 0.05  # times closer than this are called equal


@dataclass
class Case:
    """A function in both modes.

    `compiling` makes a new compiled function and its arguments; None where every call of `graph`
    compiles anyway.
    """

    name: str
    pynative: Callable[[], Any]
    graph: Callable[[], Any]
    calls: int  # per round
    compiling: Callable[[], tuple] | None = None


def training_step(name: str, make_net: Callable, shape: tuple, classes: int, calls: int) -> Case:
    """Forward, backward and Adam's update; both modes start from the same weights."""
    rng = np.random.default_rng(0)
    X = Tensor(rng.normal(size=shape).astype(np.float32))
    y = Tensor(rng.integers(0, classes, shape[0]).astype(np.int32))

    def step() -> Callable:
        ms.set_seed(0)
        return make_step(make_net(), 0.001)

    eager, graph = step(), ms.jit(step())
    return Case(
        name, lambda: eager(X, y), lambda: graph(X, y), calls, lambda: (ms.jit(step()), (X, y))
    )


def tiny_net() -> nn.Cell:
    """2-16-16-2: so small that nearly all time is Python's."""
    return nn.SequentialCell(
        nn.Dense(2, 16), nn.ReLU(), nn.Dense(16, 16), nn.ReLU(), nn.Dense(16, 2)
    )


def curve(x: Any) -> Any:
    """One element-wise function."""
    return ops.tanh(2.0 * x + 1.0) * x


def halvings(x: Any) -> Any:
    """A loop that a Tensor ends: about 60 rounds of little work."""
    n = 0
    while x.sum() > 1e-15:
        x = x * 0.5
        n = n + 1
    return x, n


def function(name: str, fn: Callable, args: tuple, calls: int) -> Case:
    """A function that is compiled once and called often."""
    graph = ms.jit(fn)
    return Case(name, lambda: fn(*args), lambda: graph(*args), calls, lambda: (ms.jit(fn), args))


def once(name: str, fn: Callable, inputs: list) -> Case:
    """A function that is called once per input, with a new shape each time."""

    def graph() -> list:
        compiled = ms.jit(fn)
        return [compiled(x) for x in inputs]

    return Case(name, lambda: [fn(x) for x in inputs], graph, 1)


def cases() -> list[Case]:
    """The rows of the table."""

    def numbers(*shape: int) -> Tensor:
        return Tensor(np.random.default_rng(1).random(shape, np.float32))

    square = numbers(512, 512)
    return [
        training_step("tiny MLP, training step", tiny_net, (32, 2), 2, 10),
        training_step("digits MLP, training step", Network, (50, 1, 28, 28), 10, 3),
        function("element-wise, 100 numbers", curve, (numbers(100),), 100),
        function("element-wise, 1,000,000 numbers", curve, (numbers(1_000_000),), 3),
        function("a product of 512 x 512 matrices", ops.matmul, (square, square), 3),
        function("a loop that a Tensor ends", halvings, (numbers(4),), 10),
        once("element-wise, 1,000 numbers, called once", curve, [numbers(1000)]),
        once("element-wise, eight sizes, once each", curve, [numbers(n) for n in range(100, 108)]),
    ]


def per_call(run: Callable[[], Any], calls: int) -> float:
    """Milliseconds per call."""
    start = process_time()
    for _ in range(calls):
        run()
    return (process_time() - start) / calls * 1e3


def measure(case: Case, rounds: int) -> str:
    """A row of the table."""
    assert_same(case.pynative(), case.graph(), case.name)
    times = [
        (per_call(case.pynative, case.calls), per_call(case.graph, case.calls))
        for _ in range(rounds)
    ]
    pynative, graph = ([t[i] for t in times] for i in (0, 1))
    saved = median(pynative) - median(graph)
    ratio = median(pynative) / median(graph)
    compiled, after = "in each call", "never"
    if case.compiling is not None:
        cost = median(compile_time(case) for _ in range(5))
        compiled = f"{cost:.1f}"
        if ratio > 1 + SAME:
            after = f"{ceil(cost / saved):,} calls"
    cells = (case.name, spread(pynative), spread(graph), f"{ratio:.2f}", compiled, after)
    return f"| {' | '.join(cells)} |"


def compile_time(case: Case) -> float:
    """Milliseconds to compile the function anew."""
    assert case.compiling is not None
    compiled, args = case.compiling()
    return per_call(lambda: compiled.compile(*args), 1)


def spread(times: list[float]) -> str:
    """The median, and half the distance between the quartiles."""
    low, _, high = quantiles(times, n=4)
    return f"{median(times):.3f} ± {(high - low) / 2:.3f}"


def assert_same(a: Any, b: Any, name: str) -> None:
    """Both modes must compute the same."""
    tensors = (flatten(result, is_tensor)[0] for result in (a, b))
    for x, y in zip(*tensors, strict=True):
        np.testing.assert_allclose(x.asnumpy(), y.asnumpy(), rtol=1e-5, err_msg=name)


def is_tensor(value: Any) -> bool:
    """What is compared."""
    return isinstance(value, Tensor)


def processor() -> str:
    """The model of the processor, in words."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    found = re.search(r"model name\s*:\s*(.*)", text)
    words = found[1] if found else platform.processor() or platform.machine()
    return " ".join(re.sub(r"\(\w+\)|@.*", " ", words).split())


def one_core() -> None:
    """Stay on one core, where the system lets a process choose."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41)
    rounds = parser.parse_args().rounds
    one_core()
    ms.jit(curve)(Tensor([1.0]))  # what the first compilation of a process costs more
    print(
        f"{date.today()}, {processor()}, one core, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, minispore {ms.__version__}, medians of {rounds} rounds\n"
    )
    print("| function | PyNative (ms) | Graph (ms) | ratio | compile (ms) | pays after |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for case in cases():
        print(measure(case, rounds), flush=True)


if __name__ == "__main__":
    main()
