"""explain's report, save_graphs, and ``minispore draw``."""

import itertools
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import minispore as ms
from minispore import Tensor, nn, ops
from minispore.commands.cli import main
from minispore.ir.compare import same_graph
from minispore.ir.text import parse, to_text

X = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))


def scaled(x):
    """Twice the square root, plus nothing: sugar and laws to see."""
    y: Tensor = ops.sqrt(x) * 1
    return y * 2 if 0 < x.ndim < 3 else y


def loss(x):
    return (scaled(x) ** 2).sum()


@pytest.fixture(scope="module")
def report():
    return ms.explain(ms.grad(loss), X)


def test_source_and_desugared_form():
    report = ms.explain(scaled, X)
    assert "y: Tensor = ops.sqrt(x) * 1" in report.source
    assert "y = ops.sqrt(x) * 1" in report.desugared
    assert "0 < x.ndim and x.ndim < 3" in report.desugared or "(_t0 := x.ndim)" in report.desugared


def test_stages_begin_with_the_source_and_end_with_what_runs(report):
    names = [stage.name for stage in report.stages]
    assert names[:2] == ["evaluate", "grad"]
    assert names[-1] == "optimized"
    assert all(re.fullmatch(r"optimize_\d\d_[a-z_]+", n) for n in names[2:-1])
    assert report.graph("evaluate").count() < report.graph("grad").count()
    assert report.graph().count() < report.graph("grad").count()


def test_every_stage_reads_back(report):
    for stage in report.stages:
        text = to_text(stage.graph, full=True)
        assert same_graph(parse(text), stage.graph)


def test_laws_name_rule_count_and_line(report):
    laws = report.laws()
    assert re.search(r"mul_one \(\dx\): x \* 1 -> x  at test_report\.py:\d+", laws)


def test_unknown_stage(report):
    with pytest.raises(ValueError, match="there is no stage 'nope'; there are evaluate, grad"):
        report.graph("nope")


def test_what_a_pass_made_is_marked(report):
    stage = next(s.name for s in report.stages if s.name.endswith("arithmetic_simplify"))
    marked = report.drawing(stage).dot
    assert marked != report.drawing("optimized").dot
    assert report.difference("grad", "optimized").dot.count("subgraph") >= 2


def test_nothing_runs_when_explained(capsys):
    def shout(x):
        print("it runs")
        return x + 1

    assert "Print" in ms.explain(shout, X).text()
    assert capsys.readouterr().out == ""


class Page(HTMLParser):
    """Counts folds and images, and collects what a page would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.images, self.fetched = 0, [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.open += tag == "details"
        if tag == "img":
            self.images.append(attributes["src"])
        self.fetched += [v for k, v in attrs if k in ("href", "src") and v.startswith("http")]
        assert tag != "script"

    def handle_endtag(self, tag):
        self.open -= tag == "details"


def test_page_is_well_formed_and_self_contained(report):
    page = Page()
    page.feed(report.page())
    assert page.open == 0
    assert not page.fetched
    assert all(src.startswith("data:image/svg+xml;base64,") for src in page.images)


def test_notebooks_get_text_too(report):
    bundle = report._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert "== optimized graph ==" in bundle["text/plain"]
    assert bundle["text/plain"] == str(report)


def test_without_graphviz_the_text_is_there(report, monkeypatch):
    monkeypatch.setattr("minispore.ir.render.find_graphviz", lambda: None)
    fresh = ms.explain(scaled, X)
    assert "<img" not in fresh.html()
    assert "Sqrt" in fresh.html()


def test_save_writes_numbered_files(report, tmp_path):
    folder = report.save(tmp_path / "a" / "b")
    names = sorted(p.name for p in folder.iterdir())
    assert {"00_evaluate.ir", "00_evaluate.dot", "01_grad.ir", "report.html", "report.txt"} <= {
        *names
    }
    assert not [n for n in names if n.startswith(".")]  # nothing half written
    last = max(n for n in names if n.endswith(".ir"))
    assert last.endswith("_optimized.ir")


def test_inputs_are_arguments_then_captured_state():
    net = nn.Dense(3, 2)
    report = ms.explain(lambda x: net(x) * 2, X)
    assert report.inputs == [
        "x: Tensor[Float32, (2, 3)]",
        "weight: Tensor[Float32, (2, 3)]",
        "bias: Tensor[Float32, (2)]",
    ]
    assert "def guard(A):" in report.guards
    assert "MatMul" in report.plan


def test_cells_methods_and_jitted_functions():
    net = nn.Dense(3, 2)
    jitted = ms.jit(net.construct)
    for function in (net, net.construct, jitted):
        assert "MatMul" in ms.explain(function, X).text()
    assert jitted.compile_count == 1


def test_save_graphs(tmp_path):
    folder = tmp_path / "graphs"

    def twice(x):
        return x + x

    with ms.context.using(save_graphs=True, save_graphs_path=str(folder)):
        f = ms.jit(scaled)
        f(X)
        f(X)
        f(X + Tensor([[1.0, 2.0, 3.0]]))
        ms.jit(twice)(X)
        ms.jit(lambda x: x * 3)(X)
    ms.jit(lambda x: x + 1)(X)  # off again
    saved = sorted(p.name for p in folder.iterdir())
    assert [name.partition("_")[2] for name in saved] == ["scaled", "twice", "lambda"]
    first, *_ = numbers = [int(name.partition("_")[0]) for name in saved]
    assert numbers == [first, first + 1, first + 2]
    for name, text in zip(saved, ("Sqrt", "Add", "Mul"), strict=True):
        files = [p.name for p in (folder / name).iterdir()]
        assert "00_evaluate.ir" in files and any(n.endswith("optimized.ir") for n in files)
        assert text in (folder / name / "00_evaluate.ir").read_text()


def test_saved_graphs_replace_those_of_an_earlier_program(tmp_path, monkeypatch):
    monkeypatch.setattr("minispore.views.report._saved", itertools.count(1))
    old = tmp_path / "001_scaled" / "07_older.ir"
    old.parent.mkdir()
    old.write_text("old")
    with ms.context.using(save_graphs=True, save_graphs_path=str(tmp_path)):
        ms.jit(scaled)(X)
    assert not old.exists() and (old.parent / "00_evaluate.ir").exists()


# ------------------------------------------------------------------------------- minispore draw

MODULE = """
import minispore as ms
from minispore import nn, ops

def f(x, w):
    return ops.relu(x @ w).sum()

def bad(x):
    return x @ x

def three(x):
    if x.shape[0] != 3:
        raise ValueError(f"three rows, please, not {x.shape[0]}")
    return x

def some(x):
    if x.sum() > 0:
        raise ValueError(x)
    assert x.ndim == 1, "a vector, please"
    return x

def told(x):
    if x.ndim != 1:
        raise ValueError(f"a vector, please, not {x}")
    return x

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 2)

    def construct(self, x):
        return self.fc(x)

net = Net()
number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "drawn_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "drawn_module"
    sys.modules.pop("drawn_module", None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["f", "--shape", "2,3", "--shape", "3,4"],
        ["f", "--shape", "2,3", "--shape", "3,4", "--dtype", "float16"],
        ["Net", "--shape", "5,4"],
        ["net", "--shape", "(5, 4)"],
        ["net.construct", "--shape", "5,4"],
    ],
    ids=" ".join,
)
def test_draw(module, tmp_path, capsys, arguments):
    assert main(["draw", f"{module}:{arguments[0]}", *arguments[1:], "--out", "out"]) == 0
    assert "optimized" in capsys.readouterr().out
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["f"], "missing required argument(s): 'x', 'w'; say what it takes by --shape, once"),
        (["f", "--shape", "2,3", "--shape", "4,4"], "impossible"),
        (["bad", "--shape", "2,3"], "drawn_module.py"),
        (["net", "--shape", "2,3"], "the last axis of a Dense layer's input must be in_channels=4"),
        (["net", "--shape", "2,3"], "return self.fc(x)"),
        (["three", "--shape", "2"], "ValueError: three rows, please, not 2\n"),
        (["some", "--shape", "2,3"], "AssertionError: a vector, please\n"),
        (["told", "--shape", "2,3"], "for these arguments it does nothing but raise ValueError\n"),
        (["nothing"], "has no 'nothing'\n"),
        (["net.constuct"], "has no 'net.constuct'; did you mean construct?"),
        (["Nets"], "has no 'Nets'; did you mean Net?"),
        (["number"], "is no function or Cell, but a int"),
        (["f", "--shape", "2,3", "--dtype", "int8", "--dtype", "int8"], "give one, or one each"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
@pytest.mark.parametrize("command", ["draw", "passes"])
def test_draw_says_what_is_wrong(module, capsys, command, arguments, sentence):
    assert main([command, f"{module}:{arguments[0]}", *arguments[1:]]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"minispore {command}: ") and sentence in error
    assert "Traceback" not in error


@pytest.mark.parametrize("function", ["three", "some", "told"])
def test_draw_of_what_may_raise(module, capsys, function):
    assert main(["draw", f"{module}:{function}", "--shape", "3"]) == 0


@pytest.mark.parametrize(
    ("name", "hint"),
    [("drawn_module.py:f", "drawn_module"), ("a/drawn_module.py:f", "a.drawn_module")],
)
def test_a_file_in_place_of_a_module(module, capsys, name, hint):
    assert main(["draw", name]) == 2
    assert f"a module is named without .py and slashes: {hint}\n" in capsys.readouterr().err


def test_step(module, capsys, monkeypatch):
    asked = iter(["n", "p", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(asked))
    code = main(["step", f"{module}:f", "--shape", "2,3", "--shape", "3,4"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert "MatMul(%para1_x, %para2_w)" in out and "return ops.relu(x @ w).sum()" in out
    assert "step 2, forward, in @f" in out and next(asked, None) is None
    assert main(["step", f"{module}:nothing"]) == 2
    assert capsys.readouterr().err.startswith("minispore step: ")


@pytest.mark.parametrize("name", ["f", "drawn:", ":f", "no_such_module:f"])
def test_draw_of_what_is_not_there(name, capsys):
    assert main(["draw", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_passes_prints_a_table(module, capsys):
    assert main(["passes", f"{module}:net", "--shape", "1,4"]) == 0
    assert "nodes evaluated" in (out := capsys.readouterr().out) and "rule " in out
    assert main(["passes"]) == 0
    assert "combine_like_graphs" in capsys.readouterr().out
    assert main(["passes", f"{module}:nothing"]) == 2
    assert capsys.readouterr().err.startswith("minispore passes: ")


def test_the_module_is_the_same_program(module):
    command = [sys.executable, "-m", "minispore", "draw", f"{module}:net", "--shape", "1,4"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "report.html" in run.stdout


def test_time_of_the_plan_is_that_of_kernels(report):
    compiled = report.compiled
    optimized, planning = compiled.history[-1], compiled.function.planning
    assert optimized.name == "optimized"
    row = report.table().splitlines()[-1].split()
    assert row[0] == "kernels" and row[2] == f"{planning * 1e3:.2f}"
    assert 0 < planning and optimized.seconds < planning


def test_an_unknown_drawing_is_told_all_stages(report):
    with pytest.raises(ValueError, match="there are evaluate, .*optimized, kernels$"):
        report.drawing("nope")
