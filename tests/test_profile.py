"""Profiles: what is timed and how often, against counts by hand; nothing outside changes.

Times themselves are never tested, only that they are there.
"""

import json

import numpy as np
import pytest
from helpers import assert_same, training_step

import minispore as ms
from minispore import Tensor, nn, ops
from minispore.engine import peak
from minispore.engine.replay import Rows, replay
from minispore.engine.segments import Segment
from minispore.watch import dicts_tell


@pytest.fixture(autouse=True)
def known_peaks(monkeypatch):
    """So that no test waits for them to be measured; one below does."""
    monkeypatch.setattr(peak, "bandwidth", lambda size: 1e10)
    monkeypatch.setattr(peak, "operations", lambda kind: 1e11)


def tensor(*shape):
    values = np.random.default_rng(0).standard_normal(shape)
    return Tensor(values.astype(np.float32))


def halved(x, n):
    i = Tensor(0, ms.int32)
    while i < n:
        x = x * 0.5
        i = i + 1
    return x


def step_of(net):
    opt = nn.Adam(net.trainable_params(), 0.1)
    return training_step(net, opt), opt


def test_kernels_and_what_they_move():
    x, w = tensor(8, 4), tensor(4, 6)
    report = ms.explain(lambda x, w: ops.relu(ops.matmul(x, w) + 1), x, w)
    profile = report.profile(runs=2)
    rows = {row.name: row for row in profile.rows}
    assert {info.name for info in report.kernels} == set(rows)
    for info in report.kernels:
        row = rows[info.name]
        assert (row.kind, row.title, row.nodes) == ("kernel", info.title, info.nodes)
        assert (row.bytes, row.operations, row.runs) == (info.bytes, info.operations, 1)
        assert row.seconds >= 0
        assert row.share_of_copy == pytest.approx(row.bandwidth / 1e10)
        assert row.share_of_blas == pytest.approx(row.speed / 1e11)
    assert profile.seconds > 0
    assert profile.guards is not None and profile.guards > 0
    shares = [profile.share(kind) for kind in ("kernel", "numpy", "python")]
    assert sum(shares) == pytest.approx(1)
    assert shares[1] == 0 <= min(shares)


def test_loops_count_their_rounds():
    x = tensor(32)
    profile = ms.explain(halved, x, Tensor(100, ms.int32)).profile(runs=2)
    halving = [row for row in profile.rows if "Mul" in row.title.split()]
    assert sum(row.runs for row in halving) == 100
    assert sum(row.operations for row in halving) == 100 * (32 + 2)  # it counts and compares, too
    tests = [row for row in profile.rows if "Less" in row.title.split()]
    assert sum(row.runs for row in tests) == 101


def test_numpy_does_what_kernels_do_not():
    x = tensor(5, 5)
    report = ms.explain(lambda x: ops.cumsum(x * 2, 0), x)
    rows = {row.title: row for row in report.profile(runs=2).rows}
    assert rows["Mul"].kind == "kernel"
    assert rows["CumSum"].kind == "numpy"
    assert rows["CumSum"].bytes == 2 * 5 * 5 * 4
    assert rows["CumSum"].operations is None
    assert "CumSum" in str(report.profile(runs=1))


def test_it_says_whether_calls_take_a_shortcut():
    net = nn.Dense(4, 3)
    step, _ = step_of(net)
    step = ms.jit(step)
    x, y = tensor(6, 4), Tensor(np.array([0, 1, 2, 0, 1, 2], np.int32))
    before = net.weight.asnumpy().copy()
    profile = ms.explain(step, x, y).profile(1)
    assert np.array_equal(before, net.weight.asnumpy())
    assert step.last.shortcuts.shortcut is None  # that of the profile is its own
    for _ in range(3):
        step(x, y)
    made = step.last.shortcuts.shortcut
    assert (made is not None) == dicts_tell() == (profile.compared is not None)
    if made is not None:
        assert made.direct.hits == 1
        assert profile.compared == made.compared
        assert f"which checks {len(made.watch.words)} words of memory" in str(profile)


@pytest.mark.parametrize("options", [{"jit_level": "O0"}, {}])
def test_it_says_that_there_is_no_shortcut(options):
    fn = ms.jit(lambda x: ops.cumsum(x * 2, 0), **options)
    profile = ms.explain(fn, tensor(5, 5)).profile(1)
    assert profile.compared is None and "no shortcut" in str(profile)


def test_at_o0_all_is_numpy():
    fn = ms.jit(lambda x, y: ops.matmul(x, y) * 2, jit_level="O0")
    rows = {row.title: row for row in ms.explain(fn, tensor(3, 4), tensor(4, 5)).profile(2).rows}
    assert {row.kind for row in rows.values()} == {"numpy"}
    assert rows["MatMul"].operations == 2 * 3 * 4 * 5
    assert rows["Mul"].operations == 15
    assert rows["Mul"].bytes == 2 * 15 * 4 + 4


def test_nothing_outside_changes(capsys):
    net = nn.Dense(4, 3)
    step, opt = step_of(net)

    def loud(x, y):
        loss = step(x, y)
        print("loss", loss)
        return loss

    x, y = tensor(6, 4), Tensor(np.array([0, 1, 2, 0, 1, 2], np.int32))
    before = [p.asnumpy().copy() for p in opt.get_parameters()]
    seed = ops.rand(2).asnumpy()
    ms.set_seed(3)
    expected = ops.rand(2).asnumpy()
    ms.set_seed(3)
    assert ms.explain(loud, x, y).profile(runs=3).rows
    assert_same(ops.rand(2).asnumpy(), expected)
    assert seed.shape == expected.shape
    for p, old in zip(opt.get_parameters(), before, strict=True):
        assert np.array_equal(p.asnumpy(), old)
    assert capsys.readouterr().out == ""


def test_a_failing_graph_fails():
    def fn(x):
        assert x.sum() > 100
        return x

    with pytest.raises(AssertionError):
        ms.explain(fn, tensor(2)).profile()
    with pytest.raises(ValueError, match="runs must be at least 1"):
        ms.explain(lambda x: x + 1, tensor(2)).profile(runs=0)


def test_trace_is_chromes_format(tmp_path):
    step, _ = step_of(nn.Dense(4, 3))
    x, y = tensor(6, 4), Tensor(np.array([0, 1, 2, 0, 1, 2], np.int32))
    profile = ms.explain(step, x, y).profile(runs=2)
    events = json.loads(profile.trace(tmp_path / "t.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert {e["ph"] for e in events} == {"M", "X"}
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name"] == [
        "kernels", "NumPy", "Python"]  # fmt: skip
    for e in slices:
        assert {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"} == set(e)
        assert e["ts"] >= 0 and e["dur"] >= 0
    ends = [round(e["ts"] + e["dur"], 2) for e in slices]
    assert all(a <= e["ts"] + 0.02 for a, e in zip(ends, slices[1:], strict=False))
    done = [e for e in slices if e["cat"] != "python"]
    assert len(done) == sum(row.runs for row in profile.rows)
    assert {e["args"]["step"] for e in done} == {row.name for row in profile.rows}


def test_long_traces_are_cut(monkeypatch):
    monkeypatch.setattr("minispore.views.profile.MOST_EVENTS", 50)
    profile = ms.explain(halved, tensor(8), Tensor(100, ms.int32)).profile(runs=1)
    events = profile.trace_events()
    assert sum(e["cat"] == "kernel" for e in events["traceEvents"] if e["ph"] == "X") == 50
    assert events["otherData"]["left out"] == sum(row.runs for row in profile.rows) - 50


def test_the_table_is_cut_and_sorted():
    step, _ = step_of(nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 3)))
    x, y = tensor(6, 4), Tensor(np.array([0, 1, 2, 0, 1, 2], np.int32))
    profile = ms.explain(step, x, y).profile(runs=1)
    times = [row.seconds for row in profile.rows]
    assert times == sorted(times, reverse=True)
    text = profile.table(most=3)
    assert f"{len(times) - 3} more" in text
    assert "Python" in text and "a run of the plan" in text
    assert profile.html().startswith("<pre>")


def softmax(x):
    return ops.softmax(x * 3, -1).sum(0)


@pytest.mark.parametrize(
    "fn",
    [
        softmax,
        lambda x: halved(x, Tensor(30, ms.int32) + x.astype(ms.int32).sum() * 0),
        lambda x: x @ x.T + 1,
    ],
)
def test_rows_one_by_one_give_what_the_plan_gives(fn):
    x = tensor(70, 40)
    arrays, plan = [x.asnumpy()], ms.explain(fn, x).compiled.function.plan
    expected = plan.run(arrays)
    found = None
    for moment in replay(plan, arrays):
        if isinstance(moment.step.function, Segment):
            rows = Rows(moment.step.function, moment.operands)
            number = 0
            while number < len(rows.segment.rows):
                if rows.segment.rows[number].kernel is not None:
                    assert rows.call(number)() == 0
                number = rows.following(number)
            assert moment.take(rows)
        else:
            found = moment.operands
            moment.do()
    assert found is not None
    for out, want in zip(found, expected, strict=True):
        assert np.array_equal(out, want)


def test_peaks_are_measured(monkeypatch):
    monkeypatch.undo()
    assert peak.bandwidth(1) == peak.bandwidth(peak.SETS[0]) > 0
    assert peak.bandwidth(10**12) == peak.bandwidth(peak.SETS[-1]) > 0
    assert peak.operations("f4") > 0
    assert peak.operations("f8") > 0


def test_words_of_a_profile(tmp_path):
    profile = ms.explain(lambda x: x + 1, tensor(2)).profile(1)
    row = profile.rows[0]
    row.runs, row.seconds = 1, 1e-8  # as tiny as one could be
    line = next(t for t in profile.table().splitlines() if t.startswith(row.name))
    assert line.split("Add")[0].count(" - ") == 2 and "%" in line
    assert "small ones stay in the cache" in str(profile)
    profile.guards, profile.compared = 1e-6, (2, 1)
    assert "checks 2 words of memory and 1 line of the guard" in str(profile)
    with pytest.raises(TypeError, match="runs must be an int, not 'x'"):
        ms.explain(lambda x: x + 1, tensor(2)).profile("x")
    missing = tmp_path / "missing" / "step.json"
    with pytest.raises(FileNotFoundError) as error:
        profile.trace(missing)
    assert error.value.filename == str(missing)
