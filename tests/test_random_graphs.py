"""Random graphs: every pass alone, and all together, keep every value to the last bit.

MINISPORE_GRAPHS=1000 in the environment tries that many, or =5000-6000 those seeds.
"""

import os
from collections import Counter

import numpy as np
import pytest
from random_graphs import make

from minispore.ir.interp import interpret
from minispore.ir.text import parse, to_text
from minispore.ir.verify import verify
from minispore.passes import default_pipeline
from minispore.passes.combine import combine_like_graphs

TRIED = os.environ.get("MINISPORE_GRAPHS", "40")
FIRST, _, LAST = TRIED.rpartition("-")
SEEDS = range(int(FIRST or 0), int(LAST))


def assert_same_bits(actual, expected, what):
    for a, e in zip(actual, expected, strict=True):
        if not isinstance(e, np.ndarray):
            assert repr(a) == repr(e), what
            continue
        assert a.dtype == e.dtype and a.shape == e.shape, what
        a, e = a.astype(np.float64), e.astype(np.float64)
        is_number = ~np.isnan(e)
        np.testing.assert_array_equal(a, e, what)
        np.testing.assert_array_equal(np.signbit(a)[is_number], np.signbit(e)[is_number], what)


@pytest.mark.parametrize("seed", SEEDS)
def test_passes_keep_every_bit(seed):
    graph, inputs = make(seed)
    verify(graph)
    expected = interpret(graph, inputs)
    for step in default_pipeline().passes:
        alone = step.run(graph, [])
        verify(alone)
        assert_same_bits(interpret(alone, inputs), expected, f"{step.name} alone, seed {seed}")

    def check(name, before, after):
        if after is not before:
            verify(after)
            what = f"{name} in the pipeline, seed {seed}"
            assert_same_bits(interpret(after, inputs), expected, what)

    log: list = []
    after = default_pipeline().run(combine_like_graphs(graph), log, check)
    assert default_pipeline().run(after) is after, f"no fixed point, seed {seed}"
    assert after.count() <= graph.count() * 3


def test_graphs_can_be_written_and_read():
    graph, inputs = make(3)
    again = parse(to_text(graph, full=True))
    assert_same_bits(interpret(again, inputs), interpret(graph, inputs), "read again")


def test_graphs_are_not_trivial():
    """Most of the rules fire, and there are arms, loops and calls."""
    log: list = []
    for seed in range(60):
        default_pipeline().run(combine_like_graphs(make(seed)[0]), log)
    fired = Counter(f.rule for f in log)
    assert len(fired) > 40, sorted(fired)
    for name in ("hoist", "carry_to_constant", "same_at_every_call", "known_item", "drop_unread",
                 "sink_reshape", "sink_broadcast"):  # fmt: skip
        assert fired[name] > 0, name
