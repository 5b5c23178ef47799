"""Checkpoints: parameters in a file, in MindSpore's own format, which either side can read.

A checkpoint is a protocol buffer.  Each field is a tag byte (``number << 3 | kind``) and a value:
kind 0 is a variable-length integer of 7 bits a byte, kind 2 a length and as many bytes.

    Checkpoint: 1 Value, for each parameter
    Value:      1 name, 2 Tensor
    Tensor:     1 dimension, for each; 2 dtype ("Float32"); 3 the elements' bytes, little-endian
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore import nn
from minispore.parameter import Parameter
from minispore.tensor import Tensor

_DTYPES = {str(d): d for d in dt.ALL}
_INTEGER, _BYTES = 0, 2
Field = tuple[int, Any]  # a field's number and its value, an int or bytes


class CheckpointError(ValueError):
    """A file is no checkpoint, or is damaged."""


def save_checkpoint(save_obj: nn.Cell | Iterable[dict], ckpt_file_name: str | Path) -> None:
    """Write the parameters of a Cell, or a list of ``{"name": str, "data": Tensor}``, to a file.

    ``.ckpt`` is added to the name if it is not there.  The file appears whole or not at all.

    Raises:
        TypeError: an item's data is no Tensor.
        OSError: the file cannot be written.
    """
    if isinstance(save_obj, nn.Cell):
        save_obj = [{"name": p.name, "data": p} for p in save_obj.get_parameters()]
    values = [(1, _pack(_value(item["name"], item["data"]))) for item in save_obj]
    path = Path(ckpt_file_name)
    if path.suffix != ".ckpt":
        path = path.with_name(path.name + ".ckpt")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(_pack(values))
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def load_checkpoint(ckpt_file_name: str | Path, net: nn.Cell | None = None) -> dict[str, Parameter]:
    """The Parameters in a checkpoint file, by name; with `net`, they are also loaded into it.

    Raises:
        CheckpointError: the file does not exist, or is no checkpoint.
    """
    path = Path(ckpt_file_name)
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint file '{path}'")
    try:
        loaded = dict(_parameter(value) for _, value in _unpack(path.read_bytes()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"'{path}' is no checkpoint, or it is damaged ({error})") from error
    if net is not None:
        load_param_into_net(net, loaded)
    return loaded


def load_param_into_net(
    net: nn.Cell, parameter_dict: dict[str, Parameter], strict_load: bool = False
) -> tuple[list[str], list[str]]:
    """Give the parameters of `net` the values of those of the same name.

    A float dtype is cast to the net's.  Nothing is changed if one of them does not fit.

    Returns:
        The names of the net's parameters that were not loaded, and of those loaded into none.

    Raises:
        TypeError: an item of the dict is no Parameter.
        RuntimeError: a shape or kind of dtype differs; with `strict_load`, also a missing one.
    """
    for name, new in parameter_dict.items():
        if not isinstance(new, Parameter):
            raise TypeError(f"parameter_dict['{name}'] is a {type(new).__name__}, no Parameter")
    own = {p.name: p for p in net.get_parameters()}
    missing = [name for name in own if name not in parameter_dict]
    if missing and strict_load:
        raise RuntimeError(f"the checkpoint lacks {', '.join(missing)}")
    pairs = [(p, parameter_dict[name]) for name, p in own.items() if name in parameter_dict]
    for old, new in pairs:
        _check_fit(old, new)
    for old, new in pairs:
        old.set_data(Tensor(new.asnumpy(), old.dtype))
    return missing, [name for name in parameter_dict if name not in own]


def _check_fit(old: Parameter, new: Parameter) -> None:
    if old.shape != new.shape:
        raise RuntimeError(
            f"parameter {old.name} has shape {old.shape} in the net, {new.shape} in the checkpoint"
        )
    if old.dtype is not new.dtype and not (old.dtype.is_float and new.dtype.is_float):
        raise RuntimeError(
            f"parameter {old.name} is {old.dtype} in the net, {new.dtype} in the checkpoint"
        )


# ------------------------------------------------------------------------- to and from bytes


def _value(name: str, data: Tensor) -> list[Field]:
    """The fields of a Value."""
    if not isinstance(data, Tensor):
        raise TypeError(f"the data of '{name}' is a {type(data).__name__}, no Tensor")
    tensor: list[Field] = [(1, size) for size in data.shape]
    tensor += [(2, str(data.dtype).encode()), (3, data.asnumpy().tobytes())]
    return [(1, name.encode()), (2, _pack(tensor))]


def _parameter(content: bytes) -> tuple[str, Parameter]:
    """The name and the Parameter of a Value."""
    value = dict(_unpack(content))
    name = value[1].decode()
    fields = list(_unpack(value[2]))
    shape = tuple(item for number, item in fields if number == 1)
    others = dict(fields)
    dtype = _DTYPES[others[2].decode()]
    elements = np.frombuffer(others.get(3, b""), dtype.numpy).reshape(shape)
    return name, Parameter(Tensor(elements, dtype), name=name)


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
