"""The program: what it prints and leaves behind, and how it tells mistakes."""

import gzip
import os
import re
import signal
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from minispore.commands import bench, cli
from minispore.dataset import load_digits
from minispore.primitive import REGISTRY
from minispore.train import digits as job
from minispore.train.serialization import load_checkpoint

RESULTS = ["checkpoint.ckpt", "curve.svg", "train_step.ir"]


def run(capsys, *arguments):
    """Exit code, stdout and stderr of the program."""
    try:
        code = cli.main([str(a) for a in arguments])
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def assert_one_sentence(code, out, err, *words):
    assert code == 2
    assert err.count("\n") == 1 and err.startswith("minispore")
    assert "Traceback" not in err
    for word in words:
        assert word in err


@pytest.fixture(scope="module")
def few_digits(tmp_path_factory):
    """A folder in MNIST's format: 100 training images and 40 test images."""
    folder = tmp_path_factory.mktemp("mnist")
    shipped = load_digits()
    for part, images, labels in (
        ("train", shipped.train_images[:100], shipped.train_labels[:100]),
        ("t10k", shipped.test_images[:40], shipped.test_labels[:40]),
    ):
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
            content = gzip.compress(header + array.tobytes())
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(content)
    return folder


@pytest.fixture
def quick(few_digits, tmp_path):
    """Options for a short training."""
    return ["train", "--data", few_digits, "--batch-size", 20, "--out", tmp_path / "out"]


# -------------------------------------------------------------------------------------- train


def test_the_main_job(tmp_path):
    """The shipped digits, default settings, as a program of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "minispore", "train"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "%|" not in done.stderr  # no bar where there is no terminal
    assert "4000 training and 1000 test images" in done.stdout
    epochs = re.findall(r"epoch (\d+)/10  loss (\d\.\d+)  accuracy (\d+\.\d+)%", done.stdout)
    assert [int(number) for number, _, _ in epochs] == list(range(1, 11))
    assert float(epochs[-1][1]) < 0.1 < float(epochs[0][1])
    assert float(epochs[-1][2]) >= 93
    assert [p.name for p in tmp_path.iterdir()] == ["minispore-train"]
    out = tmp_path / "minispore-train"
    assert sorted(p.name for p in out.iterdir()) == RESULTS
    assert ElementTree.parse(out / "curve.svg").getroot().tag.endswith("svg")
    weights = load_checkpoint(out / "checkpoint.ckpt")
    assert [p.shape for p in weights.values()] == [
        (512, 784), (512,), (512, 512), (512,), (10, 512), (10,)
    ]  # fmt: skip
    assert accuracy(weights) == pytest.approx(float(epochs[-1][2]) / 100)


def accuracy(weights):
    """Of the network with these parameters, on the shipped test images, in NumPy."""
    w1, b1, w2, b2, w3, b3 = (p.asnumpy() for p in weights.values())
    shipped = load_digits()
    x = shipped.test_images.reshape(1000, -1) / np.float32(255)
    logits = np.maximum(np.maximum(x @ w1.T + b1, 0) @ w2.T + b2, 0) @ w3.T + b3
    return (logits.argmax(1) == shipped.test_labels).mean()


def test_same_seed_same_losses_and_another_seed_others(capsys, quick):
    lines = [run(capsys, *quick, "--epochs", 2, "--seed", seed)[1] for seed in (3, 3, 4)]
    assert lines[0] == lines[1] != lines[2]


def test_both_modes_train_alike(capsys, quick, tmp_path):
    losses, steps = {}, []
    for mode in ("graph", "pynative"):
        out_folder = tmp_path / mode
        code, out, err = run(capsys, *quick, "--epochs", 2, "--mode", mode, "--out", out_folder)
        assert (code, err) == (0, "")
        losses[mode] = [float(x) for x in re.findall(r"loss (\S+)", out)]
        assert f"{mode} mode" in out
        assert sorted(p.name for p in out_folder.iterdir()) == RESULTS
        steps.append((out_folder / "train_step.ir").read_text())
    assert steps[0] == steps[1]
    assert losses["graph"] == pytest.approx(losses["pynative"], rel=1e-3)


def test_a_batch_that_does_not_divide_the_data(capsys, quick):
    code, out, _ = run(capsys, *quick, "--batch-size", 30, "--epochs", 1)
    assert code == 0 and "epoch 1/1" in out


def test_results_replace_older_ones_and_leave_other_files(capsys, quick, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "curve.svg").write_text("old")
    (out / "notes").write_text("mine")
    assert run(capsys, *quick, "--epochs", 1)[0] == 0
    assert (out / "curve.svg").read_text().startswith("<?xml")
    assert (out / "notes").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epochs", "-3"], ["--epochs", "at least 1", "'-3'"]),
        (["--epochs", "0"], ["--epochs", "at least 1"]),
        (["--epochs", "two"], ["--epochs", "whole number", "'two'"]),
        (["--batch-size", "0"], ["--batch-size", "at least 1"]),
        (["--batch-size", "1.5"], ["--batch-size", "whole number"]),
        (["--batch-size", "101"], ["101", "100 training images"]),
        (["--lr", "nan"], ["--lr", "positive number", "'nan'"]),
        (["--lr", "inf"], ["--lr", "positive number"]),
        (["--lr", "0"], ["--lr", "positive number"]),
        (["--lr", "-0.5"], ["--lr", "positive number"]),
        (["--seed", "-1"], ["--seed", "from 0"]),
        (["--mode", "static"], ["--mode", "static", "graph"]),
        (["--speed", "9"], ["--speed"]),
        (["--lr", "1e30"], ["the loss became", "epoch 1", "smaller --lr"]),
    ],
)
def test_wrong_values(capsys, quick, tmp_path, options, words):
    assert_one_sentence(*run(capsys, *quick, *options), *words)
    assert list(tmp_path.iterdir()) == []


def test_wrong_folders(capsys, quick, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    assert_one_sentence(*run(capsys, *quick, "--out", file), "is a file")
    assert_one_sentence(*run(capsys, *quick, "--out", file / "x"), "cannot write into folder")
    assert_one_sentence(*run(capsys, *quick, "--data", file), "there is no folder")
    assert_one_sentence(*run(capsys, *quick, "--data", tmp_path), "has no file 'train-images")
    assert file.read_text() == "mine" and list(tmp_path.iterdir()) == [file]


def test_a_damaged_data_file(capsys, quick, few_digits, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for path in few_digits.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"\x1f\x8b")
    assert_one_sentence(*run(capsys, *quick, "--data", folder), "t10k-labels", "is damaged")


def test_ctrl_c_leaves_nothing(capsys, quick, tmp_path, monkeypatch):
    def interrupted(*_):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(job, "draw_curve", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of a shell ignore it
    try:
        code, out, err = run(capsys, *quick, "--epochs", 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, err) == (130, "minispore: interrupted; nothing was written\n")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------- run

GRAPH = """
subgraph @main(%x: Tensor[Float32, (2, 3)], %n: int) {
  %1 = ReduceSum(%x) {axis: (1,), keep_dims: False} : Tensor[Float32, (2)]
  %2 = ScalarFloorDiv(7, %n) : int
  %3 = MakeTuple(%1, %2) : Tuple[Tensor[Float32, (2)], int]
  return %3
}
"""


@pytest.fixture
def graph_file(tmp_path):
    path = tmp_path / "g.ir"
    path.write_text(GRAPH)
    return path


def save(path, array):
    np.save(path, array)
    return path


def test_run_with_inputs(capsys, graph_file, tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    files = [save(tmp_path / "x.npy", x), save(tmp_path / "n.npy", np.int64(2))]
    code, out, err = run(capsys, "run", graph_file, "--input", *files)
    assert (code, err) == (0, "")
    assert out == "output 0: Tensor[Float32, (2)]\n[ 3. 12.]\noutput 1: int\n3\n"


def test_run_with_an_option_for_each_input(capsys, graph_file, tmp_path):
    x = save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    n = save(tmp_path / "n.npy", np.int64(2))
    together = run(capsys, "run", graph_file, "--input", x, n)
    assert together[0] == 0
    assert run(capsys, "run", graph_file, "--input", x, "--input", n) == together


def test_run_with_random_inputs(capsys, tmp_path):
    path = tmp_path / "g.ir"
    path.write_text(
        "subgraph @main(%a: Tensor[Float32, (3)], %b: Tensor[Int8, (3)], %c: Tensor[Bool, ()],"
        " %d: float, %e: bool, %f: Tensor[BFloat16, (2)]) {\n"
        "  %1 = MakeTuple(%a, %b, %c, %d, %e, %f) : Tuple[Tensor[Float32, (3)], Tensor[Int8, (3)],"
        " Tensor[Bool, ()], float, bool, Tensor[BFloat16, (2)]]\n  return %1\n}\n"
    )
    first, again, other = (run(capsys, "run", path, "--seed", s)[:2] for s in (1, 1, 2))
    assert first == again != other
    assert first[0] == 0 and first[1].count("output") == 6


def test_run_reads_bfloat16(capsys, tmp_path):
    path = tmp_path / "g.ir"
    path.write_text("subgraph @main(%x: Tensor[BFloat16, (2)]) {\n  return %x\n}\n")
    from minispore.dtype import bfloat16

    array = save(tmp_path / "x.npy", np.array([1.5, -2], bfloat16.numpy))
    assert run(capsys, "run", path, "--input", array)[1] == (
        "output 0: Tensor[BFloat16, (2)]\n[1.5 -2]\n"
    )


def test_run_prints_the_optimized_graph_which_runs_again(capsys, graph_file, tmp_path):
    code, text, err = run(capsys, "run", graph_file, "--optimized")
    assert (code, err) == (0, "") and "subgraph @main" in text
    (tmp_path / "h.ir").write_text(text)
    assert run(capsys, "run", tmp_path / "h.ir") == run(capsys, "run", graph_file)


def test_run_a_trained_step(capsys, quick, tmp_path):
    """The graph that training leaves behind is a program."""
    assert run(capsys, *quick, "--epochs", 1)[0] == 0
    code, out, err = run(capsys, "run", tmp_path / "out" / "train_step.ir")
    assert (code, err) == (0, "") and out.startswith("output 0: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["line 1", "expected 'subgraph'"]),
        (GRAPH.replace("ReduceSum", "ReduceSun"), ["line 3", "expected a primitive"]),
        (GRAPH.replace("(2)]\n  %2", "(3)]\n  %2"), ["typed"]),
        (GRAPH.replace("axis: (1,)", "axis: (5,)"), ["is no graph"]),
        (GRAPH.replace("axis: (1,)", "sum: 1"), ["is no graph"]),
        (GRAPH.replace("%3\n}", "%4\n}"), ["%4"]),
    ],
)
def test_run_texts_that_are_no_graph(capsys, tmp_path, text, words):
    path = tmp_path / "g.ir"
    path.write_text(text)
    code, out, err = run(capsys, "run", path)
    assert (code, out) == (2, "") and "Traceback" not in err
    for word in ["minispore run: ", *words]:
        assert word in err


def test_run_wrong_files(capsys, graph_file, tmp_path):
    x = save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    one, zero = save(tmp_path / "1.npy", np.int64(1)), save(tmp_path / "0.npy", np.int64(0))
    double = save(tmp_path / "d.npy", np.zeros((2, 3)))
    objects = save(tmp_path / "o.npy", np.array([[1], None], object))
    binary = tmp_path / "b.ir"
    binary.write_bytes(b"\xff\xfe")
    for arguments, words in (
        ([tmp_path / "none.ir"], ["cannot read", "No such file"]),
        ([tmp_path], ["cannot read", "directory"]),
        ([binary], ["is no graph"]),
        ([graph_file, "--input", x], ["2 inputs", "1 files"]),
        ([graph_file, "--input", double, one], ["float64", "x is a Tensor[Float32, (2, 3)]"]),
        ([graph_file, "--input", one, x], ["int64 of shape ()"]),
        ([graph_file, "--input", x, x], ["n is a int"]),
        ([graph_file, "--input", graph_file, one], ["is no .npy file"]),
        ([graph_file, "--input", objects, one], ["is no .npy file"]),
        ([graph_file, "--input", tmp_path / "none.npy", one], ["cannot read", "none.npy"]),
        ([graph_file, "--input", x, zero], ["raised ZeroDivisionError"]),
    ):
        assert_one_sentence(*run(capsys, "run", *arguments), *words)


OWN = """
import numpy as np
from minispore.primitive import Primitive

class Cube(Primitive):
    def infer(self, x):
        return x

    def eval(self, x):
        return x**3

    def vjp(self, inputs, out, dout):
        return (3 * inputs[0] * inputs[0] * dout,)
"""


def test_run_with_primitives_of_the_user(capsys, tmp_path, monkeypatch):
    (tmp_path / "own_primitives.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    graph = tmp_path / "g.ir"
    graph.write_text(
        "subgraph @main(%x: Tensor[Float32, (2)]) {\n  %1 = Cube(%x) : Tensor[Float32, (2)]\n"
        "  return %1\n}\n"
    )
    x = save(tmp_path / "x.npy", np.array([2, 3], np.float32))
    code, out, err = run(capsys, "run", graph)
    assert (code, out) == (2, "")
    assert err.endswith(
        "A primitive of your own is known with --import MODULE, which defines it.\n"
    )
    try:
        given = ("run", graph, "--import", "own_primitives")
        assert run(capsys, *given, "--input", x)[1] == "output 0: Tensor[Float32, (2)]\n[ 8. 27.]\n"
        assert "Cube(" in run(capsys, *given, "--optimized")[1]
    finally:
        REGISTRY.pop("Cube", None)
        sys.modules.pop("own_primitives", None)
    assert_one_sentence(*run(capsys, "run", graph, "--import", "no_such"), "no module 'no_such'")


def test_run_a_program_is_a_mistake(capsys, tmp_path):
    (tmp_path / "train.py").write_text("import numpy")
    err = run(capsys, "run", tmp_path / "train.py")[2]
    assert err.endswith("To see how a function is compiled: minispore draw train:FUNCTION.\n")


# ------------------------------------------------------------------------------- the program


def test_help_and_version(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0 and "train" in out and "run" in out
    code, out, _ = run(capsys, "train", "--help")
    assert code == 0 and "default: 10" in out and "default: minispore-train" in out
    code, out, _ = run(capsys, "--version")
    assert code == 0 and re.fullmatch(r"minispore \d+\.\d+\.\d+\n", out)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["run", "g.ir", "--inputs", "x"], "--inputs x; did you mean --input? (see minispore run"),
        (["train", "--epoch-s=3"], "did you mean --epochs?"),
        (["draw", "m:f", "--shape", "2", "3"], "arguments: 3; sizes are joined by commas, --shape"),
        (["draw", "m:f", "--color"], "unrecognized arguments: --color (see minispore draw --help)"),
        (["book", "--opn"], "minispore book: unrecognized arguments: --opn"),
    ],
)  # fmt: skip
def test_unknown_arguments(capsys, arguments, hint):
    assert_one_sentence(*run(capsys, *arguments), hint)


@pytest.mark.parametrize("arguments", [[], ["sail"], ["run"]])
def test_wrong_commands(capsys, arguments):
    assert_one_sentence(*run(capsys, *arguments), "--help")


def test_sizes_that_are_none(capsys):
    for text in ("-3,2", "3,-2", "-1"):
        for given in (["--shape", text], [f"--shape={text}"]):
            found = run(capsys, "draw", "m:f", *given)
            assert_one_sentence(
                *found, f"argument --shape: a size cannot be negative, as in '{text}'"
            )
    assert_one_sentence(*run(capsys, "draw", "m:f", "--shape", "a"), "must be sizes like 2,3")
    assert_one_sentence(*run(capsys, "draw", "m:f", "--shape", "--out"), "expected one argument")


def test_a_shape_that_is_missing(capsys, tmp_path, monkeypatch):
    (tmp_path / "takes_two.py").write_text(
        "def f(x, w):\n    return x @ w\n\ndef g(x):\n    return f(x)\n"
    )
    monkeypatch.chdir(tmp_path)
    found = run(capsys, "draw", "takes_two:f", "--shape", "3,2")
    assert_one_sentence(*found, "'w'; say what it takes by --shape, once for each argument")
    code, _, err = run(capsys, "draw", "takes_two:g", "--shape", "3,2")
    assert code == 2 and "'w'\n" in err and "--shape" not in err  # a call of the user's own


def test_bench_says_at_once_that_its_file_cannot_be_written(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "_measured", lambda *_: pytest.fail("measured"))
    for path, why in ((tmp_path / "none" / "x.json", "No such file"), (tmp_path, "is a folder")):
        assert_one_sentence(*run(capsys, "bench", "--json", path), f"cannot write '{path}': ", why)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_used(capsys, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "below"):
        monkeypatch.setenv("MINISPORE_CACHE_DIR", str(place))
        for what in ("info", "clear"):
            found = run(capsys, "cache", what)
            assert_one_sentence(*found, f"cannot keep kernels in '{place}': Not a directory")
    monkeypatch.setenv("MINISPORE_CACHE_DIR", str(tmp_path / "later"))
    assert run(capsys, "cache", "info")[0] == 0


def test_kernels_that_cannot_be_removed(capsys, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "k0.kernel").write_bytes(b"")
    monkeypatch.setenv("MINISPORE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "unlink", refuse)
    found = run(capsys, "cache", "clear")
    assert_one_sentence(*found, f"cannot remove kernels in '{tmp_path}': Permission denied")
