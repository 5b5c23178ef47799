"""Random functions with branches, loops and writes: a graph does what Python does, or is refused.

MINISPORE_FUNCTIONS=1000 in the environment tries that many, or =5000-6000 those seeds.
"""

import os
import sys

import numpy as np
import pytest
from differential import Outcome
from helpers import assert_same
from random_functions import Source

import minispore as ms
from minispore import Parameter, Tensor, nn

TRIED = os.environ.get("MINISPORE_FUNCTIONS", "60")
SEEDS = range(*map(int, TRIED.split("-"))) if "-" in TRIED else range(int(TRIED))
# What a graph may answer instead: it must say so while it is compiled.
REFUSALS = (TypeError, RuntimeError, UnboundLocalError)


class State(nn.Cell):
    def __init__(self):
        super().__init__()
        self.p = Parameter(Tensor([0.1, 0.2, 0.3]), name="p")
        self.q = Parameter(Tensor([0.3, 0.1, 0.2]), name="q")
        self.h = Tensor([0.0, 0.5, 1.0])
        self.k = Tensor([0.2, 0.2, 0.2])


class Run:
    """A function made from text, with the state that it writes."""

    def __init__(self, make, x, jitted, wrap):
        self.net, self.x = State(), Tensor(x)
        self.function = wrap(make(self.net), self.net)
        if jitted:
            self.function = ms.jit(self.function)

    def __call__(self):
        outcome = Outcome(lambda: self.function(self.x), ())
        tensors = (self.x, self.net.p, self.net.q, self.net.h, self.net.k)
        outcome.state = [t.asnumpy().copy() for t in tensors]
        return outcome


def itself(function, net):
    return function


def gradient(function, net):
    """Value and gradients of the sum of all results, by a copy of x and by Parameters."""

    def total(v):
        a, b, c, items, m, last = function(v * 1)
        return sum(t.sum() * k for k, t in enumerate([a, b, c, *items, m, last], 1))

    return ms.value_and_grad(total, 0, [net.p, net.q])


def agrees(make, x, wrap):
    """Compare two calls; False if the function is refused."""
    plain, compiled = Run(make, x, False, wrap), Run(make, x, True, wrap)
    for _ in range(2):
        before = compiled.function.compile_count
        actual, expected = compiled(), plain()
        refused = compiled.function.compile_count == before and isinstance(actual.error, REFUSALS)
        if refused and type(actual.error) is not type(expected.error):
            return False
        actual.assert_like(expected, 100.0)
        assert_same(actual.state, expected.state)
    return True


@pytest.mark.parametrize(("wrap", "share"), [(itself, 1), (gradient, 4)])
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_random_functions(wrap, share, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    seeds = SEEDS[::share]
    agreed = 0
    for seed in seeds:
        name = f"random_function_{seed}"
        text = Source(seed).text()
        (tmp_path / f"{name}.py").write_text(text)
        make = __import__(name).make
        try:
            agreed += all(
                agrees(make, np.array(x, np.float32), wrap)
                for x in ([0.1, 0.4, 0.2], [-0.3, 0.2, -0.1], [1.0, 0.8, 0.6])
            )
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n{text}") from error
        del sys.modules[name]
    assert agreed > 0.3 * len(seeds), f"only {agreed} of {len(seeds)} were not refused"
