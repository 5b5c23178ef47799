"""Random programs of the whole language: Graph mode does what Python does, or refuses at once.

``python tests/nightly.py`` tries as many as one likes.
"""

import json
import warnings
from collections import Counter

import differential
import nightly
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program_generator import Program
from program_shrink import shrink
from program_trial import Verdict, try_program

from minispore.frontend import loops
from minispore.program import Compiled

CHUNKS, CHUNK = 6, 25


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        nightly.quiet()
        yield


@pytest.mark.parametrize("part", range(CHUNKS))
def test_programs(part):
    kinds: Counter[str] = Counter()
    for seed in range(part * CHUNK, (part + 1) * CHUNK):
        text = nightly.program(seed)
        verdict = try_program(text)
        assert verdict.kind != "failed", f"seed {seed}: {verdict.message}\n{text}"
        kinds[verdict.kind] += 1
    assert kinds["refused"] < CHUNK * 0.6, kinds  # one in eight is written to be hostile


@settings(max_examples=10, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_programs_of_hypothesis(rng):
    """Hypothesis chooses: other programs, and it finds a smaller one of those that fail."""
    text = Program(rng).text()
    verdict = try_program(text)
    assert verdict.kind != "failed", f"{verdict.message}\n{text}"


# --------------------------------------------------------------------------- the tools themselves


def test_one_seed_is_one_program():
    assert nightly.program(5) == nightly.program(5) != nightly.program(6)


def test_programs_are_of_all_that_there_is():
    text = "".join(map(nightly.program, range(150)))
    for words in (
        "while", "for", "else:", "elif", "break", "continue", "return", "lambda", "nonlocal", "def",
        "match", "try:", "finally:", "with", "raise", "assert", "print(", ":=", "f'", "is None",
        "[0] = ", ".append(", "ops.assign(", "+= ", ".add_(", "ops.rand", "ms.grad", "self.p",
        "net.h = ", "next(iter(", "enumerate(", "zip(", "reversed(", "for v in", "** ", "*_",
    ):  # fmt: skip
        assert words in text.replace("**{", "** {"), words


FAULTY = """
INPUTS = [0, 1]
from minispore import Tensor, nn

class Net:
    h = e = Tensor(0.0)

def arguments(i):
    return (Tensor(1.0 + i),)

def assert_positive(x):
    assert x > 0, "no"
    return x

def make():
    def f(x):
        unused = 3
        for i in range(2):
            y = x * i
            if x > 5:
                print("large")
        return BODY
    return f, Net(), []
"""


@pytest.mark.parametrize(
    "body, kind, message",
    [
        ("y + 1", "agreed", ""),
        ("y + (1 if x > 1 else 0.5)", "refused", "TypeError: the value of this expression"),
        ("1 // 0 + y", "raised", "while compiling: ZeroDivisionError"),
        ("y if x > 0 else x.new", "refused", "AttributeError"),
        ("assert_positive(x - 1)", "raised", "AssertionError: no"),
    ],
)
def test_verdicts(body, kind, message):
    verdict = try_program(FAULTY.replace("BODY", body))
    assert verdict.kind == kind and verdict.message.startswith(message), verdict


def test_faults_are_found(monkeypatch):
    text = FAULTY.replace("BODY", "y")
    with monkeypatch.context() as patch:
        patch.setattr(Compiled, "run", lambda self, inputs, *_: inputs[0])
        assert try_program(text).message.startswith("AssertionError")
    with monkeypatch.context() as patch:
        patch.setattr(loops, "Loop", None)
        assert try_program(text).message.startswith("internal error in for_loop: TypeError")
    with monkeypatch.context() as patch:
        patch.setattr(differential, "interpret", lambda *_: [None])
        assert try_program(text).kind == "failed"
    assert try_program(text).kind == "agreed"


def test_a_program_that_does_not_end():
    text = FAULTY.replace("return BODY", "while True: pass")
    assert try_program(text, seconds=0.5) == Verdict("failed", "runs longer than 0.5 s")


def test_shrinking():
    text = FAULTY.replace("BODY", "[y, x.no_such_thing + 1][1]")
    verdict = try_program(text)

    def fails(candidate):
        return try_program(candidate, seconds=5) == verdict

    small = shrink(text, fails)
    assert fails(small) and "x.no_such_thing" in small
    assert "large" not in small and "unused" not in small and "[1]" not in small
    assert len(small) < 0.7 * len(text)


def test_counts_add_up(tmp_path, capsys):
    state = tmp_path / "counts.json"
    for seeds in ("0:2", "0:4", "8:9"):
        assert nightly.main(["--seeds", seeds, "--state", str(state)]) == 0
    assert "5 programs" in capsys.readouterr().out.split("\n\n")[-1]
    known = json.loads(state.read_text())
    assert known["done"] == [[0, 4], [8, 9]] and sum(known["kinds"].values()) == 5
