"""Data types: names, conversions, and promotion as MindSpore 2.10 does it."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from minispore import dtype as dt
from minispore.dtype import promote, promote_scalar

ORDER = ["bool_", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32",
         "float64"]  # fmt: skip
# What MindSpore gives for each pair in that order, by its first letters (b i1 i2 ... f8, bf).
PROMOTED = """
    b   i1  i2  i4  i8  u1  f2  bf  f4  f8
    i1  i1  i2  i4  i8  i2  f2  bf  f4  f8
    i2  i2  i2  i4  i8  i2  f2  bf  f4  f8
    i4  i4  i4  i4  i8  i4  f2  bf  f4  f8
    i8  i8  i8  i8  i8  i8  f2  bf  f4  f8
    u1  i2  i2  i4  i8  u1  f2  bf  f4  f8
    f2  f2  f2  f2  f2  f2  f2  f4  f4  f8
    bf  bf  bf  bf  bf  bf  f4  bf  f4  f8
    f4  f4  f4  f4  f4  f4  f4  f4  f4  f8
    f8  f8  f8  f8  f8  f8  f8  f8  f8  f8
"""
SHORT = dict(zip(["b", "i1", "i2", "i4", "i8", "u1", "f2", "bf", "f4", "f8"], ORDER, strict=True))


def test_promotion_of_tensors():
    for a, line in zip(ORDER, PROMOTED.split("\n")[1:], strict=False):
        for b, short in zip(ORDER, line.split(), strict=True):
            assert promote(getattr(dt, a), getattr(dt, b)) is getattr(dt, SHORT[short]), (a, b)


def test_promotion_of_wide_unsigned_integers():
    assert promote(dt.uint16, dt.int8) is dt.int32
    assert promote(dt.uint32, dt.int32) is dt.int64
    assert promote(dt.uint32, dt.uint8) is dt.uint32
    for signed in (dt.int8, dt.int64):
        assert promote(dt.uint64, signed) is dt.int64
        assert promote(signed, dt.uint64) is dt.int64
    assert promote(dt.uint64, dt.uint16) is dt.uint64
    assert promote(dt.uint64, dt.float16) is dt.float16
    assert promote(dt.bool_, dt.uint64) is dt.uint64


@pytest.mark.parametrize("dtype", dt.ALL)
def test_promotion_with_python_numbers(dtype):
    assert promote_scalar(dtype, bool) is dtype
    assert promote_scalar(dtype, int) is (dt.int64 if dtype is dt.bool_ else dtype)
    assert promote_scalar(dtype, float) is (dtype if dtype.is_float else dt.float32)


def test_names():
    names = {
        dt.bool_: ("bool", "Bool"), dt.int8: ("int8", "Int8"), dt.uint64: ("uint64", "UInt64"),
        dt.float16: ("float16", "Float16"), dt.bfloat16: ("bfloat16", "BFloat16"),
    }  # fmt: skip
    for dtype, (name, text) in names.items():
        assert repr(dtype) == f"minispore.{name}"
        assert str(dtype) == text
        assert dt.to_dtype(name) is dt.to_dtype(text) is dtype
    assert dt.int_ is dt.long is dt.int64
    assert dt.float32 != "float32"


@pytest.mark.parametrize("dtype", dt.ALL)
def test_one_object_per_type(dtype):
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert dt.from_numpy(dtype.numpy) is dtype
    assert dt.from_numpy(dtype.numpy.newbyteorder(">")) is dtype
    assert dt.to_dtype(dtype) is dt.to_dtype(dt.dtype_to_nptype(dtype)) is dtype
    assert dtype.itemsize == np.zeros(1, dtype.numpy).nbytes
    assert dtype.is_integer == (dtype in dt.int_type + dt.uint_type)
    assert dtype.is_float == (dtype in dt.float_type)
    assert (dtype in dt.number_type) == (dtype is not dt.bool_)


def test_python_and_numpy_types():
    assert dt.pytype_to_dtype(float) is dt.float64
    assert dt.pytype_to_dtype(int) is dt.int64
    assert dt.pytype_to_dtype(bool) is dt.bool_
    assert dt.pytype_to_dtype(np.float32) is dt.float32
    assert dt.of_python(float) is dt.float32
    assert dt.dtype_to_nptype(dt.bfloat16) is ml_dtypes.bfloat16
    assert [dt.dtype_to_pytype(d) for d in (dt.bool_, dt.uint8, dt.bfloat16)] == [bool, int, float]
    for wrong in (complex, str, object):
        with pytest.raises(TypeError, match="cannot hold"):
            dt.from_numpy(np.dtype(wrong))
    with pytest.raises(TypeError, match="'float31' is no dtype"):
        dt.to_dtype("float31")
