"""Data types and the promotion table.

A :class:`DType` names the element type of a Tensor.  There is one object per type, so types
are compared with ``is`` or ``==``; ``str`` prints MindSpore's form (``Float32``).

Promotion follows MindSpore (``mindspore.ops`` operators, checked on 2.10): bool < integers <
floats; two integers of mixed sign widen; an integer with a float takes the float's type, and a
Python number adapts to the Tensor's type inside its class.  MindSpore refuses most mixes with
UInt16 and wider; here they follow the same rules.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

__all__ = [
    "DType", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "bfloat16", "from_numpy", "of_python", "promote",
    "promote_scalar", "dtype_to_nptype", "dtype_to_pytype", "pytype_to_dtype", "to_dtype", "int_",
    "float_", "half", "single", "double", "byte", "short", "intc", "intp", "long", "ubyte",
    "ushort", "uintc", "uintp", "uint", "Type", "number_type", "float_type", "int_type",
    "uint_type", "tensor_type", "number", "string", "list_", "tuple_", "type_none", "function",
]  # fmt: skip


class DType:
    """An element type: its name, its NumPy dtype, its kind ('bool', 'int', 'uint' or 'float')."""

    __slots__ = ("name", "numpy", "kind", "itemsize")

    def __init__(self, name: str, numpy: np.dtype, kind: str):
        self.name, self.numpy, self.kind = name, numpy, kind
        self.itemsize = numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in ("int", "uint")

    def __str__(self) -> str:
        word = self.name.rstrip("0123456789")
        return {"uint": "UInt", "bfloat": "BFloat"}.get(word, word.title()) + self.name[len(word) :]

    def __repr__(self) -> str:
        return f"minispore.{self.name}"

    def __reduce__(self):
        return _by_name, (self.name,)

    def __deepcopy__(self, memo):
        return self


bool_ = DType("bool", np.dtype(np.bool_), "bool")
int8, int16, int32, int64 = (DType(f"int{b}", np.dtype(f"int{b}"), "int") for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (
    DType(f"uint{b}", np.dtype(f"uint{b}"), "uint") for b in (8, 16, 32, 64)
)
float16, float32, float64 = (
    DType(f"float{b}", np.dtype(f"float{b}"), "float") for b in (16, 32, 64)
)
bfloat16 = DType("bfloat16", np.dtype(ml_dtypes.bfloat16), "float")

int_, float_, half, single, double = int64, float32, float16, float32, float64
byte, short, intc, intp, long = int8, int16, int32, int64, int64
ubyte, ushort, uintc, uintp, uint = uint8, uint16, uint32, uint64, uint64

ALL = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, float32, float64, bfloat16,
)  # fmt: skip


class Kind:
    """What a function may be registered for (``MultitypeFuncGraph``) that is no element type."""

    def __init__(self, name: str, spelling: str):
        self.name, self.spelling = name, spelling

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"minispore.{self.spelling}"


tensor_type, number, string = (
    Kind("Tensor", "tensor"), Kind("Number", "number"), Kind("String", "string_")
)  # fmt: skip
list_, tuple_, type_none = Kind("List", "list_"), Kind("Tuple", "tuple_"), Kind("None", "type_none")
function = Kind("Function", "function")
int_type, uint_type = (int8, int16, int32, int64), (uint8, uint16, uint32, uint64)
float_type = (float16, float32, float64, bfloat16)
number_type = int_type + uint_type + float_type
Type = DType
# The binary digits of a float: all integers of so many bits are held exactly.
DIGITS = {float16: 11, bfloat16: 8, float32: 24, float64: 53}
_BY_NUMPY = {d.numpy: d for d in ALL}
_NAMES = {d.name: d for d in ALL}
BY_TEXT = {str(d): d for d in ALL}  # by MindSpore's form, as texts and checkpoints have it


def _by_name(name: str) -> DType:
    return _NAMES[name]


def from_numpy(dtype: np.dtype) -> DType:
    """The DType of a NumPy dtype; TypeError for what no Tensor can hold (complex, str, object)."""
    found = _BY_NUMPY.get(dtype) or _BY_NUMPY.get(np.dtype(dtype).newbyteorder("="))
    if found is None:
        raise TypeError(
            f"a Tensor cannot hold NumPy type '{dtype}'; use bool, an integer or a float type"
        )
    return found


def of_python(kind: type) -> DType:
    """The DType of a Python number's type: bool -> Bool, int -> Int64, float -> Float32."""
    return {bool: bool_, int: int64, float: float32}[kind]


def dtype_to_nptype(dtype: DType) -> type:
    """The NumPy scalar type of a DType, as in ``mindspore.dtype_to_nptype``."""
    return dtype.numpy.type


def dtype_to_pytype(dtype: DType) -> type:
    """bool, int or float: the Python type of an element, as in ``mindspore.dtype_to_pytype``."""
    return bool if dtype is bool_ else float if dtype.is_float else int


def pytype_to_dtype(kind: type) -> DType:
    """The DType that holds all of a Python or NumPy type, as in ``mindspore.pytype_to_dtype``.

    A Python float is Float64 here, although ``Tensor(1.5)`` is Float32.
    """
    return from_numpy(np.dtype(kind))


def to_dtype(value: Any) -> DType:
    """The DType that a DType, a name ("float32"), or a Python or NumPy type stands for."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        if value.lower() in _NAMES:
            return _NAMES[value.lower()]
        raise TypeError(f"'{value}' is no dtype; known are {', '.join(_NAMES)}")
    return from_numpy(np.dtype(value))


def promote(a: DType, b: DType) -> DType:
    """The type of an operation on two Tensors of types `a` and `b`."""
    if a is b:
        return a
    if a.is_float or b.is_float:
        if not (a.is_float and b.is_float):
            return a if a.is_float else b
        if a.itemsize == b.itemsize:  # float16 with bfloat16: neither holds the other
            return float32
        return a if a.itemsize > b.itemsize else b
    if a is bool_ or b is bool_:
        return b if a is bool_ else a
    wide = np.promote_types(a.numpy, b.numpy)
    return int64 if wide.kind == "f" else from_numpy(wide)  # uint64 with a signed type


def promote_scalar(dtype: DType, kind: type) -> DType:
    """The type of an operation on a Tensor of type `dtype` and a Python bool, int or float."""
    if kind is bool or (kind is int and dtype is not bool_):
        return dtype
    if kind is int:
        return int64
    return dtype if dtype.is_float else float32
