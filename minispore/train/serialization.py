"""Checkpoints: parameters in a file, in MindSpore's own format, which either side can read.

A checkpoint is a protocol buffer.  Each field is a tag byte (``number << 3 | kind``) and a value:
kind 0 is a variable-length integer of 7 bits a byte, kind 2 a length and as many bytes.

    Checkpoint: 1 Value, for each parameter
    Value:      1 name, 2 Tensor
    Tensor:     1 dimension, for each; 2 dtype ("Float32"); 3 the elements' bytes, little-endian

A str is a Tensor of dtype "str" with the dimension 0, in UTF-32.  MindSpore cuts a very large
Tensor into several Values of one name, whose bytes are joined again here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minispore import nn
from minispore.dtype import BY_TEXT
from minispore.files import write_whole
from minispore.parameter import Parameter
from minispore.tensor import Tensor

_INTEGER, _BYTES = 0, 2
Field = tuple[int, Any]  # a field's number and its value, an int or bytes


class CheckpointError(ValueError):
    """A file is no checkpoint, or is damaged."""


def save_checkpoint(
    save_obj: nn.Cell | Mapping[str, Tensor] | Iterable[dict],
    ckpt_file_name: str | Path,
    *,
    append_dict: Mapping[str, Any] | None = None,
    choice_func: Callable[[str], bool] | None = None,
) -> None:
    """Write parameters to a file, which appears whole or not at all.

    Args:
        save_obj: a Cell, a dict of Tensors by name, or a list of ``{"name": str, "data": Tensor}``.
        ckpt_file_name: ``.ckpt`` is added to it if it is not there.
        append_dict: more to save, by name: numbers, bools, strings and Tensors.
        choice_func: called with the name of each parameter; only those for which it is true are
            saved.

    Raises:
        TypeError: something that cannot be saved.
        ValueError: two parameters of one name.
        OSError: the file cannot be written.
    """
    items = [(n, d) for n, d in _items(save_obj) if choice_func is None or choice_func(n)]
    for name, value in (append_dict or {}).items():
        number = isinstance(value, (bool, int, float))
        items.append((name, Tensor(value) if number else value))
    names = [name for name, _ in items]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two parameters are called '{twice}'; only one of them could be loaded")
    if not isinstance(ckpt_file_name, (str, os.PathLike)):
        raise TypeError(f"the name of a file is a str, not {type(ckpt_file_name).__name__}")
    path = Path(ckpt_file_name)
    if path.suffix != ".ckpt":
        path = path.with_name(path.name + ".ckpt")
    content = _pack((1, _pack(_value(name, data))) for name, data in items)
    write_whole(path, content, sync=True)


def _items(save_obj: Any) -> list[tuple[str, Any]]:
    """The names and Tensors of what ``save_checkpoint`` was given."""
    if isinstance(save_obj, nn.Cell):
        return [(p.name, p) for p in save_obj.get_parameters()]
    if isinstance(save_obj, Mapping):
        return list(save_obj.items())
    if not isinstance(save_obj, Iterable):
        raise TypeError(
            "save_checkpoint takes a Cell, a dict of Tensors or a list of dicts, "
            f"not {type(save_obj).__name__}"
        )
    items = []
    for item in save_obj:
        if not (isinstance(item, dict) and "name" in item and "data" in item):
            raise TypeError(f'an item to save is {{"name": str, "data": Tensor}}, not {item!r:.60}')
        items.append((item["name"], item["data"]))
    return items


def load_checkpoint(
    ckpt_file_name: str | Path,
    net: nn.Cell | None = None,
    strict_load: bool = False,
    *,
    choice_func: Callable[[str], bool] | None = None,
) -> dict[str, Any]:
    """What a checkpoint file holds, by name: Parameters, and strings from ``append_dict``.

    Args:
        ckpt_file_name: the whole name of the file.
        net: load the Parameters into this Cell too.
        strict_load: for ``load_param_into_net``.
        choice_func: called with each name; only those for which it is true are loaded.

    Raises:
        TypeError: a name that is no str.
        CheckpointError: the file does not exist, is no checkpoint or is damaged, or holds nothing
            that is chosen.  It is a ValueError.
    """
    if not isinstance(ckpt_file_name, (str, os.PathLike)):
        raise TypeError(f"the name of a file is a str, not {type(ckpt_file_name).__name__}")
    path = Path(ckpt_file_name)
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint file '{path}'")
    try:
        loaded = _parameters(path.read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"'{path}' is no checkpoint, or it is damaged ({error})") from error
    if choice_func is not None:
        loaded = {name: value for name, value in loaded.items() if choice_func(name)}
    if not loaded:
        raise CheckpointError(f"there are no parameters to load in '{path}'")
    if net is not None:
        parameters = {n: v for n, v in loaded.items() if isinstance(v, Parameter)}
        load_param_into_net(net, parameters, strict_load)
    return loaded


def load_param_into_net(
    net: nn.Cell, parameter_dict: dict[str, Parameter], strict_load: bool = False
) -> tuple[list[str], list[str]]:
    """Give the parameters of `net` the values of those of the same name.

    Nothing is changed if one of them does not fit.

    Args:
        net: the Cell to be changed.
        parameter_dict: what ``load_checkpoint`` returns.
        strict_load: refuse another dtype than the net's; else floats are cast to the net's.

    Returns:
        The names of the net's parameters that were not loaded, and of those loaded into none.

    Raises:
        TypeError: an item of the dict is no Parameter.
        RuntimeError: a shape or dtype differs.
    """
    if not isinstance(net, nn.Cell):
        raise TypeError(f"parameters are loaded into a Cell, not {type(net).__name__}")
    if not isinstance(parameter_dict, dict):
        raise TypeError(f"parameter_dict is a dict, not {type(parameter_dict).__name__}")
    for name, new in parameter_dict.items():
        if not isinstance(new, Parameter):
            raise TypeError(f"parameter_dict['{name}'] is a {type(new).__name__}, no Parameter")
    own = {p.name: p for p in net.get_parameters()}
    missing = [name for name in own if name not in parameter_dict]
    pairs = [(p, parameter_dict[name]) for name, p in own.items() if name in parameter_dict]
    for old, new in pairs:
        _check_fit(old, new, strict_load)
    for old, new in pairs:
        old.set_data(Tensor(new.asnumpy(), old.dtype))
    return missing, [name for name in parameter_dict if name not in own]


def _check_fit(old: Parameter, new: Parameter, strict: bool) -> None:
    if old.shape != new.shape:
        raise RuntimeError(
            f"parameter {old.name} has shape {old.shape} in the net, {new.shape} in the checkpoint"
        )
    castable = old.dtype.is_float and new.dtype.is_float and not strict
    if old.dtype is not new.dtype and not castable:
        raise RuntimeError(
            f"parameter {old.name} is {old.dtype} in the net, {new.dtype} in the checkpoint"
        )


# ------------------------------------------------------------------------- to and from bytes


def _value(name: str, data: Any) -> list[Field]:
    """The fields of a Value."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a parameter is a str, not {type(name).__name__}")
    if isinstance(data, str):
        tensor: list[Field] = [(1, 0), (2, b"str"), (3, data.encode("utf-32-le"))]
    elif isinstance(data, Tensor):
        tensor = [(1, size) for size in data.shape]
        tensor += [(2, str(data.dtype).encode()), (3, data.asnumpy().tobytes())]
    else:
        raise TypeError(f"the data of '{name}' is a {type(data).__name__}, no Tensor")
    return [(1, name.encode()), (2, _pack(tensor))]


def _parameters(content: bytes) -> dict[str, Any]:
    """The Parameters (and strings) of a Checkpoint, by name."""
    tensors: dict[str, dict[int, Any]] = {}
    for _, value in _unpack(content):
        fields = dict(_unpack(value))
        name, tensor = fields[1].decode(), list(_unpack(fields[2]))
        parts = tensors.setdefault(name, {3: b""})
        parts[1] = tuple(item for number, item in tensor if number == 1)
        parts[2] = dict(tensor)[2].decode()
        parts[3] += dict(tensor).get(3, b"")
    return {name: _loaded(name, *(t[i] for i in (1, 2, 3))) for name, t in tensors.items()}


def _loaded(name: str, shape: tuple[int, ...], dtype: str, elements: bytes) -> Any:
    """The Parameter (or str) that the fields of a Tensor describe."""
    if dtype == "str":
        return elements.decode("utf-32-le")
    array = np.frombuffer(elements, BY_TEXT[dtype].numpy).reshape(shape)
    return Parameter(Tensor(array, BY_TEXT[dtype]), name=name)


def _pack(fields: Iterable[Field]) -> bytes:
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [bytes((number << 3 | _INTEGER,)), _varint(value)]
        else:
            parts += [bytes((number << 3 | _BYTES,)), _varint(len(value)), value]
    return b"".join(parts)


def _unpack(content: bytes) -> Iterator[Field]:
    """The fields of a message; ValueError if it does not end where its last field does."""
    at = 0
    while at < len(content):
        number, kind = content[at] >> 3, content[at] & 7
        value, at = _read_varint(content, at + 1)
        if kind == _INTEGER:
            yield number, value
        elif kind == _BYTES and at + value <= len(content):
            yield number, content[at : at + value]
            at += value
        else:
            raise ValueError(f"no field ends at byte {at}")


def _varint(value: int) -> bytes:
    """A non-negative integer, 7 bits a byte, lowest first; the top bit says that more follow."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    """The integer that starts at byte `at`, and the place after it."""
    value = shift = 0
    while at < len(content):
        value |= (content[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if content[at - 1] < 128:
            return value, at
    raise ValueError("it ends inside a number")
