"""``minispore bench``: processes, tables and files; times themselves are never tested."""

import importlib.util
import json
import sys

import pytest
from structure import PACKAGE

from minispore.bench import compare
from minispore.commands.cli import main

OURS = compare.ours("1")


def script(tmp_path, name, text):
    """A contestant that prints some lines."""
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    return compare.Contestant(name, (sys.executable, str(path)), "9")


def say(**rows):
    lines = [f"print('{json.dumps({'workload': w, **row})}')" for w, row in rows.items()]
    return "\n".join(["print('noise')", *lines])


def test_our_workloads_run(tmp_path, capsys):
    path = tmp_path / "found.json"
    arguments = ["bench", "--only", "mlp_tiny,while_1000", "--seconds", "0.01", "--rounds", "1"]
    assert main([*arguments, "--json", str(path), "--cpu"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[1].split()[:5] == ["workload", "minispore", "graph", "minispore", "pynative"]
    assert [line.split()[0] for line in lines[2:4]] == ["mlp_tiny", "while_1000"]
    found = json.loads(path.read_text())
    assert set(found["times"]) == {"mlp_tiny", "while_1000"}
    for cells in found["times"].values():
        assert cells["minispore graph"] > 0 < cells["minispore pynative"]
    assert found["errors"] == []
    assert found["machine"]["python"] == sys.version.split()[0]


def test_bytes_of_gpt_are_those_of_its_report():
    found = compare.memory([OURS[0]], lambda line: None)
    weights = 65 * 64 + 64 * 64 + 2 * (4 * 64 * 65 + 2 * 2 * 64 + 64 * 256 + 256 + 256 * 64 + 64)
    weights += 2 * 64 + 64 * 65 + 65
    least = 4 * 3 * weights  # weights and moments
    assert least < found["minispore graph"] < 8 * least


def test_the_first_result_of_a_new_process(tmp_path):
    seen = script(
        tmp_path, "seen", say(gpt={"first": True, "cpu_s": 7.5}) + "\nimport time; time.sleep(0)"
    )
    assert 0 < compare.first_result(seen, "gpt") < 60
    assert compare.first_result(seen, "gpt", "cpu") == 7.5
    dead = script(tmp_path, "dead", "raise SystemExit(3)")
    assert compare.first_result(dead, "gpt") == float("inf")
    found = compare.first_results([seen], ["gpt"], lambda line: None)
    assert set(found["gpt"]) == {"seen"}
    assert compare.first_table(found)[0] == ["workload", "seen"]


def test_kernels_are_cold_and_warm(monkeypatch):
    calls = []

    def first(who, name, clock, more):
        calls.append(more["MINISPORE_CACHE_DIR"])
        return float(len(calls))

    monkeypatch.setattr(compare, "first_result", first)
    found = compare.first_results([OURS[0]], ["gpt"], lambda line: None)
    assert len(calls) == 2 * compare.STARTS
    assert calls[0] == calls[1] and len(set(calls)) == compare.STARTS
    assert found["gpt"] == {"minispore graph, cold": 5.0, "minispore graph, warm": 6.0}


def test_medians_ratios_and_what_fails(tmp_path):
    mine = script(tmp_path, "minispore graph", say(gpt={"us": 10.0}, softmax={"us": 40.0}))
    graph = compare.Contestant(mine.name, mine.command, "1", is_ours=True)
    fast = script(tmp_path, "fast", say(gpt={"us": 20.0}, softmax={"error": "no"}))
    slow = script(tmp_path, "slow", say(gpt={"us": 90.0}, softmax={"us": 20.0}))
    dead = script(tmp_path, "dead", "raise ValueError('oh')")
    told = []
    everyone = [graph, fast, slow, dead]
    found, wrong = compare.times(everyone, ["gpt", "softmax"], 2, 0.1, told.append)
    assert len(told) == 8
    assert found["gpt"] == {"minispore graph": 10.0, "fast": 20.0, "slow": 90.0}
    assert wrong == ["fast, softmax: no", "dead, all: ValueError: oh"]
    table = compare.times_table(found, everyone)
    assert table[0] == ["workload", "minispore graph", "fast", "slow", "dead", "best peer / graph"]
    assert table[1] == ["gpt", "10.0", "20.0", "90.0", "-", "2.00x"]
    assert table[2] == ["softmax", "40.0", "-", "20.0", "-", "0.50x"]
    assert compare.geometric_mean(found, everyone) == pytest.approx(1.0)
    assert len({len(line) for line in compare.aligned(table).splitlines()}) == 1


def test_wrong_options(capsys):
    assert main(["bench", "--only", "nope"]) == 2
    assert "there is no workload 'nope'; there are mlp_tiny" in capsys.readouterr().err
    assert main(["bench", "--rounds", "0"]) == 2
    assert main(["bench", "--python", "no-such-python"]) == 2
    assert "cannot run 'no-such-python'" in capsys.readouterr().err


def test_peers_are_found_where_they_are(tmp_path):
    fake = tmp_path / "venv" / "bin"
    fake.mkdir(parents=True)
    python = fake / "python"
    python.write_text('#!/bin/sh\necho \'{"jax": "1.2", "mindspore": "2.0"}\'\n')
    python.chmod(0o755)
    found = compare.peers([str(tmp_path / "venv")])
    assert [who.name for who in found] == ["jax jit", "mindspore graph"]
    assert found[0].command == (str(python), str(PACKAGE / "bench" / "in_jax.py"))
    assert found[1].command[2:] == ("--package", "mindspore")
    assert [who.version for who in found] == ["1.2", "2.0"]


@pytest.mark.parametrize("name", ["jax", "torch", "mindspore"])
def test_scripts_of_peers_that_are_installed_here(name):
    installed = [w for w in compare.peers([sys.executable]) if w.name.startswith(name)]
    if not installed:
        pytest.skip(f"{name} is not installed")
    (who,) = installed
    found, wrong = compare.times([who], ["mlp_tiny"], 1, 0.01, lambda line: None)
    assert not wrong
    assert found["mlp_tiny"][who.name] > 0


# ------------------------------------------------------------------------------- the book's page


def book_speed():
    spec = importlib.util.spec_from_file_location("speed", PACKAGE.parent / "book" / "speed.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures_on_the_page_are_replaced():
    speed = book_speed()
    found = {
        "machine": {"cpu": "a CPU", "system": "Linux", "python": "3.11"},
        "versions": {"minispore graph": "1", "jax jit": "0.9"},
        "times": {"gpt": {"minispore graph": 2000.0, "jax jit": 3000.0}},
        "errors": ["jax jit, softmax: no"],
        "clock": "cpu",
        "first": {"gpt": {"minispore graph, cold": 2.0, "jax jit": 3.0}},
        "memory": {"minispore graph": 1000, "torch eager": 900},
    }
    page = speed.PAGE.read_text(encoding="utf-8")
    once = speed.refreshed(page, found)
    assert "| gpt | 2,000 | 3,000 | 1.50x |" in once
    assert "| gpt | 2.00 | 3.00 |" in once
    assert "| torch eager | 900 |" in once
    assert "Missed: `gpt` is 1.50 times as fast as the best of the others; `gpt` needs 1.11" in once
    assert "Not measured: jax jit, softmax: no." in once
    assert "Measured on a CPU, one core, Linux, Python 3.11, cpu time; jax jit 0.9." in once
    assert speed.refreshed(once, found) == once
    found["memory"]["minispore graph"] = 800
    found["times"]["gpt"]["minispore graph"] = 1750.0  # 95 % of the target is enough
    assert speed.figures(found).endswith("than PyTorch.\n\nNone is missed.")
    found["times"] = {"mlp_tiny": {"minispore graph": 5.0, "jax jit": 4.0}}
    found["first"] = {
        "gpt": {"minispore graph, cold": 5.0, "jax jit": 2.0},
        "softmax": {"minispore graph, cold": 1.5, "jax jit": 2.0},
    }
    told = speed.figures(found)
    assert "Missed: `mlp_tiny` is 0.80 times as fast as the best of the others; " in told
    assert "the first result of `gpt` takes 5.00 s; the first result of `softmax`" in told
    assert once.split(speed.BEGIN)[0] == page.split(speed.BEGIN)[0]
    assert once.split(speed.END)[1] == page.split(speed.END)[1]
