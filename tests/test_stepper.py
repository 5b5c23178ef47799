"""Walking a graph: the interpreter's steps, and the Stepper on them."""

import numpy as np
import pytest
from graphs import FLOAT, factorial, graph_of, tensor

import minispore as ms
from minispore import Parameter, Tensor, nn, ops
from minispore.ir.interp import interpret, steps
from minispore.ir.node import is_tuple_plumbing
from minispore.primitive import Primitive

X = Tensor([1.0, 2.0])


def helper(x):
    return ops.tanh(x)


def program(x, n):
    y = x * 3
    i = 0
    while i < n:
        if y.sum() > 1:
            y = helper(y)
        else:
            y = y + 1
        i = i + 1
    return (y * y).sum()


LINES = {
    name: program.__code__.co_firstlineno + offset
    for name, offset in {"times": 1, "while": 3, "if": 4, "call": 5, "plus": 7, "return": 9}.items()
}
TANH = helper.__code__.co_firstlineno + 1


@pytest.fixture
def stepper():
    return ms.explain(program, X, Tensor(2)).step()


# ------------------------------------------------------------------------- the interpreter's steps


def run(graph, inputs):
    found, walk = [], steps(graph, inputs)
    while True:
        try:
            found.append(next(walk))
        except StopIteration as end:
            return found, end.value


@pytest.mark.parametrize("stage", ["evaluate", "grad", "optimized"])
def test_steps_are_the_run_that_interpret_makes(stage):
    report = ms.explain(ms.grad(program), X, Tensor(3))
    traced = []
    graph = report.graph(stage)
    expected = interpret(graph, report.values, lambda node, value: traced.append(node))
    found, outputs = run(graph, report.values)
    for a, b in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert all(s.is_done for s in found)
    computed = [n for n in traced if n.inputs and not is_tuple_plumbing(n)]
    assert len(found) == len(computed)
    if stage != "evaluate":  # its gradient is expanded anew by each run
        assert {s.node for s in found} == {*computed}
        plain = [n for n in computed if isinstance(n.callee, Primitive)]
        assert [s.node for s in found if not s.is_call] == plain


def test_calls_come_before_their_steps_and_have_values_after():
    graph = factorial()
    walk = steps(graph, [2])
    seen = []
    for step in walk:
        seen.append((step.is_call, step.is_done, len(step.callers)))
    assert any(call and not done for call, done, _ in seen)
    assert all(done for call, done, _ in seen if not call)
    assert max(depth for *_, depth in seen) > 2


def test_a_failing_node_is_a_step_then_raises():
    graph = graph_of(lambda x: ops.exp(x) @ x, tensor(2))
    walk = steps(graph, [np.ones(2, np.float32)])
    assert next(walk).is_done
    bad = graph_of(lambda x: 1 / x, FLOAT)
    walk = steps(bad, [0.0])
    step = next(walk)
    assert isinstance(step.error, ZeroDivisionError) and not step.is_done
    with pytest.raises(ZeroDivisionError):
        next(walk)


def test_the_wrong_number_of_inputs():
    with pytest.raises(TypeError, match="takes 2 inputs, not 1"):
        next(steps(graph_of(lambda x, y: x + y, tensor(2), tensor(2)), [1]))


# --------------------------------------------------------------------------------------- moving


def test_forward_passes_over_calls(stepper):
    assert (stepper.line, stepper.phase, stepper.depth) == (LINES["times"], "forward", 0)
    np.testing.assert_array_equal(stepper.value, [3, 6])
    assert list(stepper.operands) == ["x"] and stepper.text.startswith("%1 = Mul(%para1_x, Tensor")
    lines = []
    while not stepper.forward().is_at_end:
        lines.append(stepper.line)
    assert set(lines) == {LINES["while"], LINES["return"]}
    expected = float(program(X, Tensor(2)))
    assert float(stepper.outputs[0]) == pytest.approx(expected, rel=1e-6)
    assert "program is over, after" in str(stepper)
    assert stepper.forward().is_at_end and stepper.into().is_at_end and stepper.up().is_at_end
    with pytest.raises(IndexError, match="the run is over"):
        _ = stepper.value


def test_into_up_and_back(stepper):
    while "While" not in stepper.text:
        stepper.forward()
    loop = stepper.number
    assert not stepper.step.is_done
    assert "is running: step into it" in str(stepper)
    stepper.into()
    assert stepper.depth == 1 and stepper.path == ["@program", "@while_cond turn 1"]
    assert stepper.up().number == loop and stepper.up().number == loop
    stepper.to_line(TANH)
    assert stepper.line == TANH and stepper.source == "return ops.tanh(x)"
    assert stepper.path == [
        "@program", "@while_body turn 1", "@if_true", "@helper",
    ]  # fmt: skip
    inner = stepper.value
    stepper.to_line(TANH)
    assert stepper.path[1] == "@while_body turn 2"
    np.testing.assert_allclose(stepper.value, np.tanh(inner), rtol=1e-6)
    assert stepper.up().up().up().number == loop
    assert not stepper.step.is_done  # the run goes only as far as it is asked to
    stepper.back()
    assert stepper.depth == 0 and stepper.number < loop
    assert stepper.to_start().number == 0 and stepper.back().number == 0
    assert stepper.to_end().back().depth == 0


def test_the_value_of_a_call_runs_it(stepper):
    while "While" not in stepper.text:
        stepper.forward()
    value = stepper.value
    assert isinstance(value, tuple) and stepper.step.is_done
    assert "-> (" in str(stepper)


def test_a_line_that_made_nothing_is_the_end(stepper):
    assert stepper.to_line(1).is_at_end
    assert (
        stepper.back().to_start().to_line(LINES["return"], "test_stepper").line == LINES["return"]
    )
    assert stepper.to_start().to_line(LINES["return"], "other").is_at_end


def test_backward_nodes_have_lines_too():
    stepper = ms.explain(ms.grad(program), X, Tensor(1)).step()
    phases = []
    while not stepper.is_at_end:
        phases.append((stepper.phase, stepper.line))
        stepper.into()
    assert ("forward", TANH) in phases and ("backward", TANH) in phases
    expected = ms.grad(program)(X, Tensor(1))
    np.testing.assert_allclose(stepper.outputs[0], expected.asnumpy(), rtol=1e-6)


def test_gradients_that_are_not_expanded_are_stepped_into():
    stepper = ms.explain(ms.grad(lambda x: (x * x).sum()), X).step("evaluate")
    while not stepper.text.count("Grad["):
        stepper.into()
    assert stepper.into().depth == 1
    np.testing.assert_array_equal(stepper.to_end().outputs[0], [2, 4])


def test_find(stepper):
    stepper.to_line(TANH)
    assert stepper.find("n") == 2  # of the entry
    np.testing.assert_array_equal(stepper.find("x"), [3, 6])  # that of the helper hides it
    (name,) = stepper.operands
    np.testing.assert_array_equal(stepper.find(name), stepper.operands[name])
    np.testing.assert_array_equal(stepper.find("%1"), stepper.value)
    with pytest.raises(KeyError, match="%99 has no value here; there are x, n"):
        stepper.find("%99")


# --------------------------------------------------------------------------------------- errors


def fails(x, n):
    y = x * 2
    assert (y < n).all(), "too large"
    return y + 1


def test_the_failing_node():
    stepper = ms.explain(fails, X, Tensor(3.0)).step()
    stepper.to_end()
    assert not stepper.is_at_end
    assert stepper.line == fails.__code__.co_firstlineno + 2
    assert isinstance(stepper.error, AssertionError)
    text = str(stepper)
    assert "raised AssertionError: too large" in text and "assert (y < n).all()" in text
    assert "bool False" in text
    with pytest.raises(AssertionError, match="too large"):
        _ = stepper.value
    assert stepper.forward().number == stepper.number  # there is nothing after it
    np.testing.assert_array_equal(stepper.to_start().value, [2, 4])


def test_a_call_that_fails_stops_at_the_node_inside():
    def outer(x, n):
        return fails(x, n) * 2

    stepper = ms.explain(outer, X, Tensor(3.0)).step()
    assert stepper.text.startswith("%1 = call @fails")
    with pytest.raises(AssertionError):
        _ = stepper.value
    stepper.forward()
    assert stepper.path == ["@outer", "@fails"] and stepper.step.error is stepper.error


# ---------------------------------------------------------------------------------- nothing else


def test_nothing_is_written_and_what_is_printed_is(capsys):
    w = Parameter(Tensor([1.0]), name="w")

    def writes(x):
        ops.assign_add(w, x)
        print("w is", w.value())
        return w * 2

    stepper = ms.explain(writes, Tensor([2.0])).step()
    assert capsys.readouterr().out == ""
    assert stepper.to_end().is_at_end
    assert capsys.readouterr().out == "w is [3.]\n"
    assert float(w) == 1
    np.testing.assert_array_equal(stepper.outputs[0], [6])


def test_the_values_are_those_of_the_call_that_was_explained():
    w = Parameter(Tensor([1.0]), name="w")
    report = ms.explain(lambda x: x * w, Tensor([2.0]))
    w.set_data(Tensor([50.0]))
    np.testing.assert_array_equal(report.step().value, [2])


def test_cells_built_inside_and_random_numbers():
    def f(x):
        return nn.Dense(2, 2)(x) * ops.rand(2)

    ms.set_seed(5)
    stepper = ms.explain(f, X.reshape(1, 2)).step().to_end()
    ms.set_seed(5)
    np.testing.assert_allclose(stepper.outputs[0], f(X.reshape(1, 2)).asnumpy(), rtol=1e-6)


def test_an_endless_loop_can_be_stepped():
    def endless(x):
        while x.sum() > 0:
            x = x + 1
        return x

    stepper = ms.explain(endless, X).step()
    for _ in range(50):
        stepper.into()
    assert stepper.depth == 1 and int(stepper.path[1].split()[-1]) > 5


def test_a_graph_without_nodes():
    stepper = ms.explain(lambda x: (x, 2), X).step()
    assert stepper.is_at_end and "over, after 0 steps" in str(stepper)


# ---------------------------------------------------------------------------------- interfaces


def test_keys(stepper):
    asked = iter(
        ["", "s", "", f"l {TANH}", "p", "p %1", "p zz", "u", "b", "h", "x 3", "e", "p", "q"]
    )
    shown = []
    prompts = []

    def ask(prompt):
        prompts.append(prompt)
        return next(asked)

    assert stepper.interact(ask, shown.append) is stepper
    assert set(prompts) == {"(step) "}
    assert shown[0].startswith("step 1, forward, in @program")
    assert shown[1].startswith("step 2") and "in @program > @while_cond turn 1" in shown[2]
    assert "Tanh" in shown[4]
    np.testing.assert_allclose(np.array(shown[5].strip("[]").split(), float), np.tanh([3, 6]), 1e-5)
    assert shown[5] == shown[6] and shown[7].startswith("zz has no value here; there are")
    assert "Switch" in shown[8] or "call @helper" in shown[8]
    assert shown[10].startswith("n  next node") and shown[11].startswith("no command 'x 3'")
    assert "is over" in shown[12] and shown[13].startswith("the run is over")

    def closed(prompt):
        raise EOFError

    assert stepper.interact(closed, shown.append) is stepper


def test_printing_what_failed():
    stepper = ms.explain(fails, X, Tensor(3.0)).step().to_end()
    assert stepper.do("p") == "raised AssertionError: too large"


def test_html_marks_the_line(stepper):
    bundle = stepper._repr_mimebundle_()
    assert bundle["text/plain"] == str(stepper) == repr(stepper)
    page = bundle["text/html"]
    assert page.count("<span") == 5 and page.count("background") == 1
    marked = page.split("background:#fff3b0")[1].split("</span>")[0]
    assert "y = x * 3" in marked and "script" not in page
    assert stepper.to_end().html().startswith("<pre>program is over")


def test_large_values_are_abridged_and_printed_in_full():
    stepper = ms.explain(lambda x: x + 1, Tensor(np.arange(100.0))).step()
    assert "..." in str(stepper) and len(str(stepper).split("\n")[-1]) < 100
    assert "99." in stepper.do("p") and "50." in stepper.do("p")
    half = ms.explain(lambda x: x + 1, Tensor([1.5, 2.5], ms.bfloat16)).step()
    assert "-> Tensor[BFloat16, (2)] [2.5 3.5]" in str(half)
