"""Walking a plan row by row: what each kernel reads and writes, against NumPy and the plan."""

import numpy as np
import pytest
from helpers import assert_same

import minispore as ms
from minispore import Tensor, ops
from minispore.commands.cli import main


def tensor(*shape):
    return Tensor(np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))


def layer(x, w, b):
    y = ops.matmul(x, w)
    return ops.relu(y + b)


@pytest.fixture
def stepper():
    return ms.explain(layer, tensor(4, 3), tensor(3, 5), tensor(5)).step_plan()


def test_a_reader_can_do_the_plan_by_hand(stepper):
    x, w, b = (tensor(*s).asnumpy() for s in ((4, 3), (3, 5), (5,)))
    assert stepper.place == "0.0"
    assert list(stepper.reads) == ["s0", "s1"]
    assert_same(stepper.reads["s0"], x)
    ((product, value),) = stepper.writes.items()
    assert_same(value, x @ w)
    stepper.forward()
    assert stepper.text == f"s3 = kernel({product}, s2): Add ReLU"
    assert_same(stepper.writes["s3"], np.maximum(x @ w + b, 0))
    assert_same(stepper.find(product), x @ w)
    stepper.forward()
    assert stepper.text == "return s3"
    assert stepper.forward().is_at_end
    assert_same(stepper.outputs[0], np.maximum(x @ w + b, 0))
    assert stepper.back().place == "1"
    assert stepper.to_start().number == 0


def test_rows_have_the_names_and_places_of_the_plan(stepper):
    plan = ms.explain(layer, tensor(4, 3), tensor(3, 5), tensor(5)).plan
    while not stepper.is_at_end:
        assert stepper.text.split(":")[0] in plan
        stepper.forward()


def test_lines_of_source(stepper):
    first = layer.__code__.co_firstlineno
    assert stepper.where.line == first + 1
    stepper.to_line(first + 2)
    assert "Add" in stepper.text
    assert stepper.to_line(first + 1).is_at_end


def halved(x, n):
    i = Tensor(0, ms.int32)
    while i < n:
        x = x * 0.5
        i = i + 1
    return x


def test_loops_in_tables_jump():
    x = np.array([1024, -64, 3], np.float32)
    stepper = ms.explain(halved, Tensor(x), Tensor(3, ms.int32)).step_plan()
    texts, factors = [], []
    while not stepper.is_at_end:
        texts.append(stepper.text)
        if "Mul" in stepper.text:
            (value,) = [v for v in stepper.writes.values() if v.shape == (3,)]
            factors.append(value[0] / 1024)
        stepper.forward()
    assert factors == [0.5, 0.25, 0.125]
    assert sum(t.startswith("unless") for t in texts) == 1
    assert sum(t.startswith("if") for t in texts) == 3
    assert_same(stepper.outputs[0], x / 8)


def test_python_steps_calls_and_returns():
    def fib(n):
        if n < 2:
            return n
        return fib(n - 1) + fib(n - 2)

    stepper = ms.explain(fib, Tensor(5, ms.int32)).step_plan().to_end()
    assert_same(np.asarray(stepper.outputs[0]), np.asarray(5, np.int32))
    places = {step.place for step in stepper._steps}
    assert any(place.startswith("@") for place in places) or len(places) > 3


def test_a_step_that_fails_is_the_last():
    def fn(x):
        y = x * 2
        assert y.sum() > 100
        return y + 1

    stepper = ms.explain(fn, tensor(3)).step_plan().to_end()
    assert isinstance(stepper.error, AssertionError)
    assert "raised AssertionError" in str(stepper)
    assert not stepper.is_at_end


def test_nothing_outside_is_written():
    p = ms.Parameter(tensor(3), name="p")

    def fn(x):
        ms.ops.assign(p, x * 2)
        return x

    ms.explain(fn, tensor(3)).step_plan().to_end()
    assert_same(p.asnumpy(), tensor(3).asnumpy())


def test_over_skips_the_rows_of_a_call(stepper):
    assert stepper.over().place == "1"
    assert stepper.over().is_at_end


def test_texts_keys_and_html(stepper):
    said = []
    keys = iter(["n", "p s2", "", "b", "p", "x", "e", "n", "p nope", "q"])
    stepper.interact(lambda prompt: next(keys), said.append)
    assert said[0].startswith("step 1, at 0.0 of the plan")
    assert said[1].startswith("step 2, at 0.1 of the plan")
    assert said[2] == str(tensor(5).asnumpy())
    assert said[3] == said[2]  # again
    assert "no command 'x'" in said[6] and "next instruction" in said[6]
    assert "is over, after 3 steps" in said[7]
    assert "nope has no value here" in said[9]
    assert "layer" not in stepper.to_start().html().split("<pre>")[0]
    assert "background:#fff3b0" in stepper.html()
    with pytest.raises(IndexError, match="the run is over"):
        _ = stepper.to_end().text


def test_from_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "planned.py").write_text("def f(x):\n    return (x * 2).sum()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    answers = iter(["n", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    assert main(["step", "planned:f", "--shape", "2,3", "--plan"]) == 0
    assert "step 1, at 0.0 of the plan" in capsys.readouterr().out


def counted(x, n, factor):
    i, p = 0, n
    while i < n:
        assert x.sum() > 0
        x, p, i = x * 0.5, p * factor, i + 1
    return x, p


@pytest.mark.parametrize("first, factor, error", [(1, 3, None), (-1, 3, AssertionError),
                                                  (1, 10**18, OverflowError)])  # fmt: skip
def test_where_kernels_cannot_go_on_python_does_the_work(first, factor, error):
    x = Tensor(np.full(3, first, np.float32))
    stepper = ms.explain(counted, x, ms.mutable(4), ms.mutable(factor)).step_plan().to_end()
    assert any("kernel(" in step.text for step in stepper._steps)
    if error is None:
        assert stepper.error is None and stepper.outputs[1] == 4 * 3**4
    else:
        assert isinstance(stepper.error, error) and stepper.outputs is None
