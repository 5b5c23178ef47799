"""Checkpoints against a file that MindSpore wrote, and what else may go into one.

The format, damaged files and loading into nets are tested in test_checkpoint.py.
"""

from pathlib import Path

import numpy as np
import pytest
from helpers import assert_same

from minispore import dtype as dt
from minispore import nn
from minispore.parameter import Parameter
from minispore.tensor import Tensor
from minispore.train.serialization import (
    CheckpointError,
    load_checkpoint,
    load_param_into_net,
    save_checkpoint,
)

MINDSPORE = np.load(Path(__file__).parent / "data" / "mindspore_ckpt.npz")["content"].tobytes()
SETTINGS = {"epoch": 3, "rate": 0.5, "done": True, "note": "abc"}
ORDER = ("float16", "float32", "float64", "bfloat16", "bool_", "int8", "int16", "int32", "int64",
         "uint8", "uint16", "uint32", "uint64")  # fmt: skip


def rows():
    """What the file of MindSpore holds, apart from the settings."""
    named = {name: Tensor([[0, 1, 2], [3, 4, 5]], getattr(dt, name)) for name in ORDER}
    return {**named, "scalar": Tensor(1.5)}


def test_reads_every_dtype_and_setting_of_mindspore(tmp_path):
    path = tmp_path / "a.ckpt"
    path.write_bytes(MINDSPORE)
    loaded = load_checkpoint(path)
    assert list(loaded) == [*ORDER, "scalar", *SETTINGS]
    for name, tensor in rows().items():
        assert_same(loaded[name], tensor)
    assert loaded["note"] == "abc"
    assert_same(loaded["epoch"], np.int64(3))
    assert_same(loaded["rate"], np.float32(0.5))
    assert_same(loaded["done"], np.bool_(True))


def test_writes_the_bytes_of_mindspore(tmp_path):
    save_checkpoint(rows(), tmp_path / "a.ckpt", append_dict=SETTINGS)
    assert (tmp_path / "a.ckpt").read_bytes() == MINDSPORE


def test_a_tensor_in_several_values_is_joined(tmp_path):
    """MindSpore cuts large Tensors: each Value has the name, the whole shape and some bytes."""

    def part(elements):
        tensor = b"\x08\x02\x12\x05Int32\x1a" + bytes([len(elements)]) + elements
        value = b"\n\x01w\x12" + bytes([len(tensor)]) + tensor
        return b"\n" + bytes([len(value)]) + value

    path = tmp_path / "a.ckpt"
    path.write_bytes(part(b"\x01\0\0\0") + part(b"\x02\0\0\0"))
    assert_same(load_checkpoint(path)["w"], np.array([1, 2], np.int32))


@pytest.mark.parametrize("values", [[], [0.0], [1.5, -2.0]])
def test_dicts_lists_and_cells_give_the_same_file(tmp_path, values):
    cell = nn.Cell()
    cell.w = Parameter(Tensor(np.array(values, np.float32)))
    forms = (cell, {"w": cell.w}, [{"name": "w", "data": cell.w}])
    for number, form in enumerate(forms):
        save_checkpoint(form, str(tmp_path / str(number)))
    files = {(tmp_path / f"{number}.ckpt").read_bytes() for number in range(3)}
    assert len(files) == 1
    assert_same(load_checkpoint(tmp_path / "0.ckpt")["w"], cell.w)


def test_choosing(tmp_path):
    path = tmp_path / "a.ckpt"
    net = nn.SequentialCell(nn.Dense(2, 3), nn.Dense(3, 1))
    save_checkpoint(net, path, choice_func=lambda name: name.startswith("0."), append_dict={"x": 1})
    assert list(load_checkpoint(path)) == ["0.weight", "0.bias", "x"]
    assert list(load_checkpoint(path, choice_func=lambda name: "bias" in name)) == ["0.bias"]
    with pytest.raises(CheckpointError, match="no parameters to load"):
        load_checkpoint(path, choice_func=lambda name: False)


def test_an_empty_file_is_no_checkpoint(tmp_path):
    (tmp_path / "a.ckpt").write_bytes(b"")
    with pytest.raises(CheckpointError, match="no parameters to load"):
        load_checkpoint(tmp_path / "a.ckpt")


def test_loading_with_settings_into_a_net(tmp_path):
    net, other = nn.Dense(2, 3), nn.Dense(2, 3)
    save_checkpoint(net, tmp_path / "a.ckpt", append_dict=SETTINGS)
    loaded = load_checkpoint(tmp_path / "a.ckpt", other, strict_load=True)
    assert_same(other.weight, net.weight)
    with pytest.raises(TypeError, match=r"parameter_dict\['note'\] is a str"):
        load_param_into_net(other, loaded)


def test_an_optimizer_continues_from_its_checkpoint(tmp_path):
    def fresh():
        w = Parameter(Tensor(np.arange(3, dtype=np.float32)), name="w")
        return w, nn.Adam([w], 0.1)

    gradients = [Tensor(np.array(g, np.float32)) for g in ([1, 2, 3], [3, -1, 0], [0, 0.5, 1])]
    w, optimizer = fresh()
    for g in gradients[:2]:
        optimizer((g,))
    save_checkpoint(optimizer, tmp_path / "a.ckpt")
    optimizer((gradients[2],))
    again, restored = fresh()
    left = load_param_into_net(restored, load_checkpoint(tmp_path / "a.ckpt"))
    assert left == ([], [])
    restored((gradients[2],))
    np.testing.assert_array_equal(again.asnumpy(), w.asnumpy())
    assert restored.global_step.asnumpy() == [3]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, "a"), TypeError, "takes a Cell, a dict of Tensors or a list"),
        (([3], "a"), TypeError, "an item to save is"),
        (([{"name": "a"}], "a"), TypeError, "an item to save is"),
        (({3: Tensor(1.0)}, "a"), TypeError, "name of a parameter is a str"),
        (({"a": Tensor(1.0)}, 3), TypeError, "name of a file is a str"),
        (([{"name": "a", "data": Tensor(1.0)}] * 2, "a"), ValueError, "two parameters are called"),
    ],
)
def test_what_cannot_be_saved(tmp_path, monkeypatch, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        save_checkpoint(*arguments)
    with pytest.raises(ValueError, match="two parameters are called 'a'"):
        save_checkpoint({"a": Tensor(1.0)}, "a", append_dict={"a": 1})
    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments_of_loading():
    for use in (
        lambda: load_checkpoint(3),
        lambda: load_param_into_net(3, {}),
        lambda: load_param_into_net(nn.Dense(1, 1), [1]),
    ):
        with pytest.raises(TypeError):
            use()
