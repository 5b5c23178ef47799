"""Checkpoints: the file format byte by byte, loading into nets, damaged files; whole outputs."""

import numpy as np
import pytest

from minispore import dtype as dt
from minispore import nn
from minispore.parameter import Parameter
from minispore.tensor import Tensor
from minispore.train.outputs import OutputError, whole_files
from minispore.train.serialization import (
    CheckpointError,
    load_checkpoint,
    load_param_into_net,
    save_checkpoint,
)

# Written by MindSpore 2.10: a 0-d Float32 called "scalar", an Int64 (2,), a Bool (2,), a BFloat16.
MINDSPORE_FILE = (
    b"\n\x19\n\x06scalar\x12\x0f\x12\x07Float32\x1a\x04\x00\x00 @"
    b"\n \n\x01l\x12\x1b\x08\x02\x12\x05Int64\x1a\x10" + b"\x01\0\0\0\0\0\0\0" * 2 +
    b"\n\x11\n\x01o\x12\x0c\x08\x02\x12\x04Bool\x1a\x02\x01\x01"
    b"\n\x17\n\x01b\x12\x12\x08\x02\x12\x08BFloat16\x1a\x04\x80?\x80?"
)  # fmt: skip
ITEMS = [
    {"name": "scalar", "data": Tensor(2.5)},
    {"name": "l", "data": Tensor([1, 1])},
    {"name": "o", "data": Tensor([True, True])},
    {"name": "b", "data": Tensor([1.0, 1.0], dt.bfloat16)},
]


def test_writes_what_mindspore_writes(tmp_path):
    save_checkpoint(ITEMS, tmp_path / "a.ckpt")
    assert (tmp_path / "a.ckpt").read_bytes() == MINDSPORE_FILE


def test_reads_what_mindspore_wrote(tmp_path):
    (tmp_path / "a.ckpt").write_bytes(MINDSPORE_FILE)
    loaded = load_checkpoint(tmp_path / "a.ckpt")
    assert list(loaded) == ["scalar", "l", "o", "b"]
    for item in ITEMS:
        parameter = loaded[item["name"]]
        assert isinstance(parameter, Parameter) and parameter.name == item["name"]
        assert parameter.dtype is item["data"].dtype and parameter.shape == item["data"].shape
        np.testing.assert_array_equal(parameter.asnumpy(), item["data"].asnumpy())


@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (200, 3)], ids=str)
def test_round_trip(tmp_path, dtype, shape):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype.numpy)
    save_checkpoint([{"name": "sub.wärme", "data": Tensor(array)}], tmp_path / "a.ckpt")
    back = load_checkpoint(str(tmp_path / "a.ckpt"))["sub.wärme"]
    assert back.dtype is dtype and back.shape == shape
    assert back.asnumpy().tobytes() == array.tobytes()


def test_the_suffix_is_added(tmp_path):
    save_checkpoint(ITEMS, tmp_path / "net.v1")
    assert [p.name for p in tmp_path.iterdir()] == ["net.v1.ckpt"]
    assert len(load_checkpoint(tmp_path / "net.v1.ckpt")) == len(ITEMS)


def test_cell_to_cell(tmp_path):
    first, second = nn.Dense(3, 2), nn.Dense(3, 2)
    save_checkpoint(first, tmp_path / "a")
    load_checkpoint(tmp_path / "a.ckpt", second)
    for a, b in zip(first.get_parameters(), second.get_parameters(), strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_loading_reports_what_was_left_over():
    net = nn.Dense(3, 2)
    bias = net.bias.asnumpy().copy()
    new = {
        "weight": Parameter(Tensor(np.ones((2, 3)), dt.float16), name="weight"),
        "other": Parameter(Tensor([1.0]), name="other"),
    }
    assert load_param_into_net(net, new) == (["bias"], ["other"])
    assert net.weight.dtype is dt.float32
    np.testing.assert_array_equal(net.weight.asnumpy(), np.ones((2, 3)))
    np.testing.assert_array_equal(net.bias.asnumpy(), bias)
    with pytest.raises(RuntimeError, match="Float32 in the net, Float16 in the checkpoint"):
        load_param_into_net(net, new, strict_load=True)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (Parameter(Tensor(np.zeros(3, np.float32))), RuntimeError, r"shape \(2,\) in the net"),
        (Parameter(Tensor(np.zeros(2, np.int32))), RuntimeError, "Float32 in the net, Int32 in"),
        (np.zeros(2), TypeError, r"parameter_dict\['bias'\] is a ndarray"),
    ],
)
def test_what_does_not_fit_changes_nothing(value, error, message):
    net = nn.Dense(3, 2)
    weight = net.weight.asnumpy().copy()
    good = Parameter(Tensor(np.ones((2, 3), np.float32)))
    with pytest.raises(error, match=message):
        load_param_into_net(net, {"weight": good, "bias": value})
    np.testing.assert_array_equal(net.weight.asnumpy(), weight)


def test_damaged_files(tmp_path):
    path = tmp_path / "a.ckpt"
    with pytest.raises(CheckpointError, match="there is no checkpoint file"):
        load_checkpoint(path)
    fields = (27, 61, 80)  # the ends of the first three values: what remains is a whole file
    for end in range(1, len(MINDSPORE_FILE)):
        path.write_bytes(MINDSPORE_FILE[:end])
        if end in fields:
            assert load_checkpoint(path)
            continue
        with pytest.raises(CheckpointError, match="no checkpoint, or it is damaged"):
            load_checkpoint(path)
    for content in (b"\x89PNG\r\n", b"\n\x03abc", MINDSPORE_FILE.replace(b"Int64", b"Int65")):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="no checkpoint, or it is damaged"):
            load_checkpoint(path)


def test_only_tensors_are_saved_and_an_old_file_survives_an_error(tmp_path):
    save_checkpoint(ITEMS, tmp_path / "a.ckpt")
    with pytest.raises(TypeError, match="the data of 'x' is a list"):
        save_checkpoint([{"name": "x", "data": [1.0]}], tmp_path / "a.ckpt")
    assert (tmp_path / "a.ckpt").read_bytes() == MINDSPORE_FILE
    with pytest.raises(OSError):
        save_checkpoint(ITEMS, tmp_path / "nowhere" / "a.ckpt")
    assert [p.name for p in tmp_path.iterdir()] == ["a.ckpt"]


# ------------------------------------------------------------------------------ whole outputs


def test_files_move_when_the_block_ends(tmp_path):
    folder = tmp_path / "deep" / "er"
    with whole_files(folder) as scratch:
        (scratch / "a").write_text("one")
        assert not (folder / "a").exists()
    assert [p.name for p in folder.iterdir()] == ["a"]
    with whole_files(folder) as scratch:
        (scratch / "a").write_text("two")
    assert (folder / "a").read_text() == "two"


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_error_leaves_everything_as_it_was(tmp_path, error):
    with pytest.raises(error), whole_files(tmp_path / "deep" / "er") as scratch:
        (scratch / "a").write_text("half")
        raise error
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "b").write_text("old")
    with pytest.raises(error), whole_files(tmp_path) as scratch:
        (scratch / "b").write_text("half")
        raise error
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("b", "old")]


def test_folders_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    for folder, message in (
        (tmp_path / "file", "is a file"),
        (tmp_path / "file/x", "cannot write"),
    ):
        with pytest.raises(OutputError, match=message), whole_files(folder):
            raise AssertionError("the block must not run")
    (tmp_path / "out" / "a").mkdir(parents=True)
    with pytest.raises(OutputError, match="cannot write '.*a'"), whole_files(tmp_path / "out") as s:
        (s / "a").write_text("new")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a"]
