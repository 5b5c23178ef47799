"""One row for every primitive and public op: sample inputs, a reference in NumPy, its smoothness.

    ROWS[name] = list of Case(function on Tensors, inputs, reference on arrays, order)

Float inputs are float64 arrays, which tests cast to each float type; the reference gets them as
float64.  `order` says how often the op is differentiated: 2 where it is smooth around the inputs, 1
where only the gradient is checked, 0 where there is none.  A row of the primitives on Python
numbers (SCALARS) has numbers as inputs.  Functions that are composed of primitives are in
op_functions.py.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import random_reference

from minispore import dtype as dt
from minispore.primitive import REGISTRY, Primitive, apply

FLOATS = (dt.float64, dt.float32, dt.float16, dt.bfloat16)
_rng = np.random.default_rng(2024)


@dataclass
class Case:
    """One use of an op.

    `dtypes` are the float types to try; `result` is the dtype where it is not that of the floats.
    """

    function: Callable
    inputs: tuple[np.ndarray, ...]
    reference: Callable
    order: int = 2
    dtypes: tuple[dt.DType, ...] = FLOATS
    result: dt.DType | None = None
    factor: float = field(default=1.0)  # of the tolerance, for chains of roundings


ROWS: dict[str, list[Case]] = {}
SCALARS: dict[str, list[tuple[Primitive, tuple, Any]]] = {}


def row(name: str, *cases: Case) -> None:
    ROWS.setdefault(name, []).extend(cases)


def prim(name: str, **attrs: Any) -> Callable:
    """The primitive with these attributes, as a function on Tensors."""
    bound = REGISTRY[name].bound(**attrs)
    return lambda *tensors: apply(bound, *tensors)


def floats(*shape: int, low: float = -2, high: float = 2) -> np.ndarray:
    """Numbers between `low` and `high`, none within 0.05 of 0 and of a half or whole number."""
    x = _rng.uniform(low, high, shape)
    near = np.abs(x * 2 - np.round(x * 2)) < 0.1
    return np.where(near & (low < 0 < high), x + 0.2, x)


def distinct(*shape: int) -> np.ndarray:
    """Different numbers from -2 to 2, in random order, at equal distances."""
    n = math.prod(shape)
    return _rng.permutation(np.linspace(-2, 2, n)).reshape(shape)


def ints(*shape: int, low: int = 0, high: int = 5) -> np.ndarray:
    return _rng.integers(low, high, shape)


def bools(*shape: int) -> np.ndarray:
    return _rng.integers(0, 2, shape).astype(bool)


# fmt: off
# -------------------------------------------------------------------------------- element-wise

UNARY_SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 1, 3), (0, 2))
BINARY_SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((0, 3), (1,)), ((), ()),
)


def unary(
    name: str,
    reference: Callable,
    low: float = -2,
    high: float = 2,
    order: int = 2,
    result: dt.DType | None = None,
) -> None:
    for shape in UNARY_SHAPES:
        row(name, Case(prim(name), (floats(*shape, low=low, high=high),), reference, order,
                       result=result))


def binary(
    name: str,
    reference: Callable,
    low: float = -2,
    high: float = 2,
    order: int = 2,
    result: dt.DType | None = None,
) -> None:
    for one, two in BINARY_SHAPES:
        x, y = floats(*one, low=low, high=high), floats(*two, low=low, high=high)
        row(name, Case(prim(name), (x, y), reference, order, result=result))
    repeated = prim(name)
    row(name, Case(lambda x: repeated(x, x), (floats(3, low=low, high=high),),
                   lambda x: reference(x, x), 0 if order == 1 else order, result=result))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(x / 2))


_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


binary("Add", np.add)
binary("Sub", np.subtract)
binary("Mul", np.multiply)
binary("Div", np.divide, 0.5, 2)
binary("Pow", np.power, 0.5, 2)
binary("Maximum", np.maximum, order=1)
binary("Minimum", np.minimum, order=1)
binary("Atan2", np.arctan2, 0.5, 2)
binary("FloorDiv", np.floor_divide, 0.5, 2, order=0)
binary("TruncateDiv", lambda x, y: np.trunc(x / y), order=0)
row("FloorMod",
    Case(prim("FloorMod"), (np.array([5.3, -5.3, 5.3, -5.3]), np.array([2.0, 2.0, -2.0, -2.0])),
         lambda x, y: x - y * np.floor(x / y), factor=4),
    Case(prim("FloorMod"), (np.array([[5.3], [-4.2]]), np.array(1.5)),
         lambda x, y: x - y * np.floor(x / y), factor=4))
row("Mod",
    Case(prim("Mod"), (np.array([5.3, -5.3, 5.3, -5.3]), np.array([2.0, 2.0, -2.0, -2.0])),
         lambda x, y: x - y * np.trunc(x / y), factor=4),
    Case(prim("Mod"), (np.array([[5.3], [-4.2]]), np.array(1.5)),
         lambda x, y: x - y * np.trunc(x / y), factor=4))
for _name, _compare in (
    ("Equal", operator.eq), ("NotEqual", operator.ne), ("Less", operator.lt),
    ("LessEqual", operator.le), ("Greater", operator.gt), ("GreaterEqual", operator.ge),
):
    binary(_name, _compare, order=0, result=dt.bool_)
    _special = np.array([1.0, 2, np.nan, np.inf]), np.array([2.0, 2, np.nan, 1])
    row(_name, Case(prim(_name), _special, _compare, 0, result=dt.bool_))

unary("Neg", operator.neg)
unary("Abs", np.abs, order=1)
unary("Sign", np.sign, order=0)
unary("Square", lambda x: x * x)
unary("Sqrt", np.sqrt, 0.2, 3)
unary("Rsqrt", lambda x: x**-0.5, 0.2, 3)
unary("Reciprocal", lambda x: x**-1.0, 0.3, 3)
unary("Exp", np.exp)
unary("Expm1", np.expm1)
unary("Log", np.log, 0.2, 3)
unary("Log1p", np.log1p, -0.5, 2)
unary("Log2", np.log2, 0.2, 3)
unary("Log10", np.log10, 0.2, 3)
unary("Sin", np.sin)
unary("Cos", np.cos)
unary("Tan", np.tan, -1, 1)
unary("Asin", np.arcsin, -0.8, 0.6)
unary("Acos", np.arccos, -0.8, 0.6)
unary("Atan", np.arctan)
unary("Sinh", np.sinh)
unary("Cosh", np.cosh)
unary("Asinh", np.arcsinh)
unary("Acosh", np.arccosh, 1.3, 3)
unary("Atanh", np.arctanh, -0.8, 0.6)
unary("Floor", np.floor, order=0)
unary("Ceil", np.ceil, order=0)
unary("Round", np.round, order=0)
unary("Trunc", np.trunc, order=0)
unary("Erf", _erf)
unary("Tanh", np.tanh)
unary("Sigmoid", sigmoid)
unary("ReLU", lambda x: np.where(x > 0, x, 0), order=1)
unary("SiLU", lambda x: x * sigmoid(x))
unary("Softplus", lambda x: np.log(1 + np.exp(x)))
unary("GeLU", gelu_tanh)
unary("GeLUExact", lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2)
_SPECIAL = np.array([0.0, -0.0, 1.5, np.nan, np.inf, -np.inf])
for _name, _test in (("IsNan", np.isnan), ("IsInf", np.isinf), ("IsFinite", np.isfinite)):
    row(_name, Case(prim(_name), (_SPECIAL,), _test, 0, result=dt.bool_))

_pair = (np.array([True, True, False, False]), np.array([[True], [False]]))
row("LogicalAnd", Case(prim("LogicalAnd"), _pair, operator.and_, 0),
    Case(prim("LogicalAnd"), (np.array([0, 3, 2]), np.array(2)), lambda x, y: x * y != 0, 0))
row("LogicalOr", Case(prim("LogicalOr"), _pair, operator.or_, 0),
    Case(prim("LogicalOr"), (np.array([0, 3]), np.array(0)), lambda x, y: x + y != 0, 0))
row("LogicalXor", Case(prim("LogicalXor"), _pair, lambda x, y: x ^ y, 0))
row("LogicalNot", Case(prim("LogicalNot"), (_pair[0],), lambda x: ~x, 0),
    Case(prim("LogicalNot"), (np.array([0.0, 0.5]),), lambda x: x == 0, 0, result=dt.bool_))
for _name, _bitwise in (
    ("BitwiseAnd", operator.and_), ("BitwiseOr", operator.or_), ("BitwiseXor", operator.xor),
):
    row(_name, Case(prim(_name), (ints(2, 3), ints(3)), _bitwise, 0),
        Case(prim(_name), _pair, _bitwise, 0))

row("Select",
    Case(prim("Select"), (bools(2, 3), floats(2, 3), floats(2, 3)), np.where),
    Case(prim("Select"), (bools(2, 1), floats(3), floats()), np.where),
    Case(prim("Select"), (bools(0, 1), floats(2), floats(1)), np.where),
    Case(prim("Select"), (np.array([0, 2]), ints(2), ints(2, 2)), np.where, 0))

# Integer and Bool operands: "same" keeps the type, "float" gives Float32, "bool" gives Bool, and
# so does "logical", of operands turned into Bool; "number" is "same" but refuses Bool, "int" is for
# integers and Bool alone.
RULES = {
    "Add": "same", "Mul": "same", "Maximum": "same", "Minimum": "same", "Abs": "same",
    "Sub": "number", "Neg": "number", "Sign": "number", "Square": "number", "ReLU": "number",
    "Floor": "number", "Ceil": "number", "Round": "number", "Trunc": "number",
    "FloorDiv": "number", "FloorMod": "number", "Mod": "number", "TruncateDiv": "number",
    "Pow": "number", "BitwiseAnd": "int", "BitwiseOr": "int", "BitwiseXor": "int",
} | {name: "float" for name in (
    "Div", "Atan2", "Sqrt", "Rsqrt", "Reciprocal", "Exp", "Expm1", "Log", "Log1p", "Log2", "Log10",
    "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf",
    "Erfc", "Tanh", "Sigmoid", "SiLU", "Softplus", "GeLU", "GeLUExact",
)} | {name: "bool" for name in (
    "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "IsNan", "IsInf",
    "IsFinite",
)} | {name: "logical" for name in (
    "LogicalAnd", "LogicalOr", "LogicalXor", "LogicalNot",
)}

# ---------------------------------------------------------------------------------- reductions

AXES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (0,)), ((2, 3), (0, 1)), ((2, 1, 3), (1, 2)), ((), ()), ((2, 3), ()), ((3,), (0,)),
)


def reduction(
    name: str, reference: Callable, make: Callable = floats, order: int = 2,
    empty: bool = True, result: dt.DType | None = None,
) -> None:
    for shape, axis in (*AXES, *([((0, 2), (0,)), ((2, 0), (0,))] if empty else ())):
        undefined = reference is _mean and 0 in [shape[a] for a in axis]
        for keep in (False, True):
            row(name, Case(
                prim(name, axis=axis, keep_dims=keep), (make(*shape),),
                lambda x, axis=axis, keep=keep: reference(x, axis=axis, keepdims=keep),
                0 if undefined else order, result=result, factor=4,
            ))


def _mean(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    total = np.sum(x, axis=axis, keepdims=keepdims)
    with np.errstate(all="ignore"):
        return total / math.prod(x.shape[a] for a in axis)


reduction("ReduceSum", np.sum)
reduction("ReduceMean", _mean)
reduction("ReduceMax", np.max, distinct, 1, empty=False)
reduction("ReduceMin", np.min, distinct, 1, empty=False)
reduction("ReduceProd", np.prod)
reduction("ReduceAll", np.all, bools, 0)
reduction("ReduceAny", np.any, bools, 0)
row("ReduceSum", Case(prim("ReduceSum", axis=(0,), keep_dims=False), (bools(3, 2),),
                      lambda x: x.astype(np.int64).sum(0), 0))
row("ReduceMean", Case(prim("ReduceMean", axis=(0,), keep_dims=False), (np.array([-1, -2, -4]),),
                       lambda x: np.array(-2), 0))
row("ReduceProd",
    Case(prim("ReduceProd", axis=(1,), keep_dims=False),
         (np.array([[2.0, 0, 3, 1.5, -1], [0, 1, 0, 2, 3]]),), lambda x: x.prod(1)),
    Case(prim("ReduceProd", axis=(0, 2), keep_dims=True), (floats(2, 3, 3),),
         lambda x: x.prod((0, 2), keepdims=True), factor=4))
for _name, _position in (("Argmax", np.argmax), ("Argmin", np.argmin)):
    for _axis in (0, 1):
        for _type in (dt.int32, dt.int64):
            row(_name, Case(
                prim(_name, axis=_axis, output_type=_type), (distinct(2, 3),),
                lambda x, a=_axis, p=_position: p(x, a), 0, result=_type,
            ))
    _of_nans = prim(_name, axis=0, output_type=dt.int32)
    row(_name, Case(_of_nans, (np.array([1.0, np.nan, 2, np.nan]),), lambda x: np.array(1), 0,
                    result=dt.int32))


def _cumsum(x: np.ndarray, axis: int, exclusive: bool, reverse: bool) -> np.ndarray:
    n = x.shape[axis]
    matrix = np.tri(n, k=-1 if exclusive else 0)
    return np.moveaxis(np.tensordot(matrix.T if reverse else matrix, x, (1, axis)), 0, axis)


for _exclusive in (False, True):
    for _reverse in (False, True):
        _how = {"exclusive": _exclusive, "reverse": _reverse}
        row("CumSum", Case(prim("CumSum", axis=1, **_how), (floats(2, 3),),
                           lambda x, how=_how: _cumsum(x, 1, **how), factor=4),
            Case(prim("CumSum", axis=0, **_how), (floats(0, 3),),
                 lambda x, how=_how: _cumsum(x, 0, **how)))

# -------------------------------------------------------------------------------------- linalg


def _matmul(x: np.ndarray, y: np.ndarray, transpose_a: bool, transpose_b: bool) -> np.ndarray:
    x = np.swapaxes(x, -1, -2) if transpose_a else x
    y = np.swapaxes(y, -1, -2) if transpose_b else y
    return np.einsum("...ij,...jk->...ik", x, y)


def _flipped(shape: tuple[int, ...], flip: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if flip else shape


for _ta in (False, True):
    for _tb in (False, True):
        _how = {"transpose_a": _ta, "transpose_b": _tb}
        for _name, _one, _two in (
            ("MatMul", (2, 3), (3, 4)), ("MatMul", (2, 0), (0, 4)), ("MatMul", (1, 1), (1, 1)),
            ("BatchMatMul", (5, 2, 3), (5, 3, 4)), ("BatchMatMul", (5, 1, 2, 3), (2, 3, 4)),
        ):
            row(_name, Case(
                prim(_name, **_how), (floats(*_flipped(_one, _ta)), floats(*_flipped(_two, _tb))),
                lambda x, y, how=_how: _matmul(x, y, **how), factor=4,
            ))
row("MatMul", Case(prim("MatMul", transpose_a=False, transpose_b=False), (ints(2, 3), ints(3, 2)),
                   np.matmul, 0))
row("BiasAdd",
    Case(prim("BiasAdd", data_format="NCHW"), (floats(2, 3), floats(3)), lambda x, b: x + b),
    Case(prim("BiasAdd", data_format="NCHW"), (floats(2, 3, 2, 2), floats(3)),
         lambda x, b: x + b[:, None, None]),
    Case(prim("BiasAdd", data_format="NHWC"), (floats(2, 2, 3), floats(3)), lambda x, b: x + b))

# --------------------------------------------------------------------------------------- shape

for _x in (floats(2, 3), ints(2, 3), bools(2, 3)):
    _order = 2 if _x.dtype == np.float64 else 0
    row(
        "Reshape",
        Case(prim("Reshape", shape=(3, 1, 2)), (_x,), lambda x: x.reshape(3, 1, 2), _order),
    )
    row("Transpose", Case(prim("Transpose", perm=(1, 0)), (_x,), lambda x: x.T, _order))
row("Reshape", Case(prim("Reshape", shape=()), (floats(1),), lambda x: x.reshape(())),
    Case(prim("Reshape", shape=(3, 0)), (floats(0, 2),), lambda x: x.reshape(3, 0)))
row("ExpandDims", Case(prim("ExpandDims", axis=1), (floats(2, 3),), lambda x: x[:, None]),
    Case(prim("ExpandDims", axis=0), (floats(),), lambda x: x[None]))
row("Squeeze", Case(prim("Squeeze", axis=(0, 2)), (floats(1, 3, 1),), lambda x: x[0, :, 0]),
    Case(prim("Squeeze", axis=()), (floats(2),), lambda x: x))
row("Transpose", Case(prim("Transpose", perm=(2, 0, 1)), (floats(2, 3, 4),),
                      lambda x: np.moveaxis(x, 2, 0)),
    Case(prim("Transpose", perm=()), (floats(),), lambda x: x))
for _one, _two in (((3,), (2, 3)), ((2, 1), (2, 3)), ((), (2,)), ((1, 0), (2, 0)), ((2,), (2,))):
    row("BroadcastTo", Case(prim("BroadcastTo", shape=_two), (floats(*_one),),
                            lambda x, s=_two: np.broadcast_to(x, s)))
row("Tile", Case(prim("Tile", reps=(2, 3)), (floats(2, 1),), lambda x: np.tile(x, (2, 3))),
    Case(prim("Tile", reps=(0, 1)), (floats(2, 1),), lambda x: np.tile(x, (0, 1))),
    Case(prim("Tile", reps=()), (floats(),), lambda x: x))
row("ReverseV2", Case(prim("ReverseV2", axis=(0, 1)), (floats(2, 3),), lambda x: x[::-1, ::-1]),
    Case(prim("ReverseV2", axis=()), (floats(2),), lambda x: x))
row("Concat",
    Case(prim("Concat", axis=1), (floats(2, 1), floats(2, 3)), lambda *x: np.concatenate(x, 1)),
    Case(prim("Concat", axis=0), (floats(0, 2), floats(1, 2), floats(2, 2)),
         lambda *x: np.concatenate(x)),
    Case(lambda x: prim("Concat", axis=0)(x, x), (floats(2),), lambda x: np.concatenate((x, x))))
row("Stack", Case(prim("Stack", axis=1), (floats(2, 3), floats(2, 3)), lambda *x: np.stack(x, 1)),
    Case(prim("Stack", axis=0), (floats(),), lambda x: x[None]))
row("Split",
    Case(prim("Split", axis=1, sizes=(1, 0, 2)), (floats(2, 3),),
         lambda x: (x[:, :1], x[:, 1:1], x[:, 1:])),
    Case(lambda x: prim("Split", axis=0, sizes=(2, 1))(x)[1], (floats(3),), lambda x: x[2:]))
_SLICES: tuple[tuple[tuple[int, ...], tuple, Callable], ...] = (
    ((4, 3), ((1, 0), (4, 3), (2, 1)), lambda x: x[1:4:2]),
    ((4, 3), ((3, 2), (-1, 0), (-2, -1)), lambda x: x[::-2, 2:0:-1]),
    ((4,), ((0,), (0,), (1,)), lambda x: x[:0]),
    ((), ((), (), ()), lambda x: x),
)
for _shape, (_begin, _end, _strides), _sliced in _SLICES:
    _bounds = {"begin": _begin, "end": _end, "strides": _strides}
    row("StridedSlice", Case(prim("StridedSlice", **_bounds), (floats(*_shape),), _sliced))
    _region = _sliced(floats(*_shape))

    def _placed(x: np.ndarray, shape: Any = _shape, where: Callable = _sliced) -> np.ndarray:
        out = np.zeros(shape)
        where(out)[...] = x
        return out

    def _replaced(x: np.ndarray, value: np.ndarray, where: Callable = _sliced) -> np.ndarray:
        out = x.copy()
        where(out)[...] = value
        return out

    row("StridedSliceGrad", Case(prim("StridedSliceGrad", shape=_shape, **_bounds),
                                 (floats(*_region.shape),), _placed))
    row("SetSlice", Case(prim("SetSlice", **_bounds), (floats(*_shape), floats(*_region.shape)),
                         _replaced))
row("Pad", Case(prim("Pad", paddings=((1, 0), (0, 2)), value=0.5), (floats(2, 3),),
                lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=0.5)),
    Case(prim("Pad", paddings=((1, 1),), value=0), (floats(0),), lambda x: np.zeros(2)))

# ------------------------------------------------------------------------- gather and scatter


def _add_rows(x: np.ndarray, index: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = x.copy()
    for i, r in zip(index, y, strict=True):
        out[i] += r
    return out


_repeats = np.array([1, 0, 1, -1])
row("Gather",
    Case(prim("Gather", axis=0), (floats(3, 2), _repeats), lambda x, i: x[i]),
    Case(prim("Gather", axis=1), (floats(2, 3, 2), np.array([[0, 2], [2, 2]])),
         lambda x, i: x[:, i]),
    Case(prim("Gather", axis=0), (floats(3), np.array(-1)), lambda x, i: x[i]),
    Case(prim("Gather", axis=0), (floats(3, 2), np.zeros((0, 2), np.int64)), lambda x, i: x[i]),
    Case(prim("Gather", axis=0), (ints(3), ints(2, high=3).astype(np.int32)), lambda x, i: x[i], 0))
row("IndexAdd",
    Case(prim("IndexAdd", axis=0), (floats(3, 2), _repeats, floats(4, 2)), _add_rows),
    Case(prim("IndexAdd", axis=0), (floats(3), _repeats, floats(4)), _add_rows),
    Case(prim("IndexAdd", axis=1), (floats(2, 3), np.array([2, 2]), floats(2, 2)),
         lambda x, i, y: _add_rows(x.T, i, y.T).T),
    Case(prim("IndexAdd", axis=0), (floats(3, 2), np.zeros(0, np.int64), floats(0, 2)),
         lambda x, i, y: x))


def _elements(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    out = np.zeros(index.shape, x.dtype)
    for place in np.ndindex(*index.shape):
        out[place] = x[tuple(index[place] if a == axis else p for a, p in enumerate(place))]
    return out


def _put(x: np.ndarray, index: np.ndarray, y: np.ndarray, axis: int, add: bool) -> np.ndarray:
    out = x.copy()
    for place in np.ndindex(*index.shape):
        target = tuple(index[place] if a == axis else p for a, p in enumerate(place))
        out[target] = out[target] + y[place] if add else y[place]
    return out


for _axis, _index in ((1, np.array([[0, -1], [2, 2]])), (0, np.array([[1, 0, 1]])),
                      (0, np.zeros((0, 3), np.int64))):
    row("GatherD", Case(prim("GatherD", axis=_axis), (floats(2, 3), _index),
                        lambda x, i, a=_axis: _elements(x, i, a)))
    row("TensorScatterElements", Case(
        prim("TensorScatterElements", axis=_axis, reduction="add"),
        (floats(2, 3), _index, floats(*_index.shape)),
        lambda x, i, y, a=_axis: _put(x, i, y, a, True),
    ))
row("TensorScatterElements", Case(
    prim("TensorScatterElements", axis=1, reduction="none"),
    (floats(2, 3), np.array([[0, -1], [2, 1]]), floats(2, 2)),
    lambda x, i, y: _put(x, i, y, 1, False),
))


def _put_rows(x: np.ndarray, index: np.ndarray, y: np.ndarray, add: bool) -> np.ndarray:
    out = x.copy()
    for place in np.ndindex(*index.shape[:-1]):
        target = tuple(index[place])
        out[target] = out[target] + y[place] if add else y[place]
    return out


for _shape, _index in (((2, 3), np.array([[0, 2], [1, -1]])), ((3, 2), np.array([[0], [-1]])),
                       ((3,), np.zeros((0, 1), np.int64)), ((2, 3), np.array([1, 2]))):
    _updates = (*_index.shape[:-1], *_shape[_index.shape[-1] :])
    row("GatherNd", Case(prim("GatherNd"), (floats(*_shape), _index),
                         lambda x, i: x[tuple(np.moveaxis(i, -1, 0))]))
    for _name, _add in (("TensorScatterAdd", True), ("TensorScatterUpdate", False)):
        row(_name, Case(prim(_name), (floats(*_shape), _index, floats(*_updates)),
                        lambda x, i, y, add=_add: _put_rows(x, i, y, add)))
row("TensorScatterAdd", Case(prim("TensorScatterAdd"), (floats(3), np.array([[1], [1]]), floats(2)),
                             lambda x, i, y: _put_rows(x, i, y, True)))
for _axis in (0, 1):
    for _descending in (False, True):
        row("ArgSort", Case(
            prim("ArgSort", axis=_axis, descending=_descending), (distinct(2, 3),),
            lambda x, a=_axis, d=_descending: np.argsort(-x if d else x, a), 0, result=dt.int32,
        ))
row("ArgSort", Case(prim("ArgSort", axis=0, descending=True), (np.array([1, 3, 1, 3]),),
                    lambda x: np.array([1, 3, 0, 2]), 0, result=dt.int32))
row("NonZero", Case(prim("NonZero"), (np.array([[1.0, 0], [0, 2]]),),
                    lambda x: np.argwhere(x), 0, result=dt.int64))
row("Unique", Case(prim("Unique"), (np.array([[3, 1], [3, 2]]),),
                   lambda x: (np.array([3, 1, 2]), np.array([[0, 1], [0, 2]])), 0))

# ------------------------------------------------------------------------------------ indexing


def _whole(axes: tuple[int, ...], ndim: int, index: tuple) -> tuple:
    given = dict(zip(axes, index, strict=True))
    return tuple(given.get(a, slice(None)) for a in range(ndim))


for _shape, _axes, _index_tensors in (
    ((3, 2), (0,), (np.array([2, 0, -3]),)),
    ((2, 3, 4), (1, 2), (np.array([0, 2]), np.array([1, 1]))),
    ((2, 3, 2), (0, 2), (np.array([[0], [1]]), np.array([1, 0]))),
):
    _taken = np.zeros(_shape)[_whole(_axes, len(_shape), _index_tensors)]

    def _set(x: Any, y: Any, *i: Any, axes: Any = _axes) -> np.ndarray:
        out = x.copy()
        out[_whole(axes, x.ndim, i)] = y
        return out

    def _added(x: Any, y: Any, *i: Any, axes: Any = _axes) -> np.ndarray:
        out = x.copy()
        np.add.at(out, _whole(axes, x.ndim, i), y)
        return out

    row("GatherIndex", Case(prim("GatherIndex", axes=_axes), (floats(*_shape), *_index_tensors),
                            lambda x, *i, axes=_axes: x[_whole(axes, x.ndim, i)]))
    row("AddIndex", Case(prim("AddIndex", axes=_axes),
                         (floats(*_shape), floats(*_taken.shape), *_index_tensors), _added))
    row("SetIndex", Case(prim("SetIndex", axes=_axes),
                         (floats(*_shape), floats(*_taken.shape), *_index_tensors), _set))
row("SetIndex", Case(prim("SetIndex", axes=(0,)), (floats(3), floats(3), np.array([1, 1, 0])),
                     lambda x, y, i: np.array([y[2], y[1], x[2]])))
row("AddIndex", Case(prim("AddIndex", axes=(0,)), (floats(3), floats(3), np.array([1, 1, 0])),
                     lambda x, y, i: _add_rows(x, i, y)))
row("IndexInRange",
    Case(prim("IndexInRange", size=3), (np.array([-3, 2]),), lambda i: np.array(True), 0),
    Case(prim("IndexInRange", size=3), (np.array([0, 3]),), lambda i: np.array(False), 0))
row("MaskPositions", Case(prim("MaskPositions"), (np.array([[True, False], [True, True]]),),
                          lambda m: tuple(np.nonzero(m)), 0))

# ------------------------------------------------------------------- constants, casts, softmax

row("Arange", Case(prim("Arange", start=2, step=-3, size=4, dtype=dt.int32), (),
                  lambda: np.arange(2, -10, -3), 0, result=dt.int32))
for _dtype, _value in ((dt.float32, 1.5), (dt.int8, 3), (dt.bool_, True), (dt.bfloat16, -0.0)):
    row("Fill", Case(prim("Fill", dtype=_dtype, shape=(2, 0, 3), value=_value), (),
                     lambda v=_value: np.full((2, 0, 3), v), 0, result=_dtype),
        Case(prim("Fill", dtype=_dtype, shape=(2,), value=_value), (),
             lambda v=_value: np.full(2, v), 0, result=_dtype))
row("Cast",
    Case(prim("Cast", dtype=dt.float64), (floats(2, 3),), lambda x: x, result=dt.float64,
         dtypes=(dt.float64, dt.float32)),
    Case(prim("Cast", dtype=dt.int32), (np.array([-1.7, 1.7, 0.0]),), np.trunc, 0, result=dt.int32),
    Case(prim("Cast", dtype=dt.bool_), (np.array([-1.7, 0.0]),), lambda x: x != 0, 0,
         result=dt.bool_),
    Case(prim("Cast", dtype=dt.bfloat16), (ints(2, 3),), lambda x: x, 0, result=dt.bfloat16))
row("Identity", Case(prim("Identity"), (floats(2, 3),), lambda x: x),
    Case(prim("Identity"), (bools(3),), lambda x: x, 0))
row("Assign", Case(prim("Assign"), (np.zeros(2), np.array([0.5, -2.0])), lambda x, y: y, 0))
row("StopGradient", Case(prim("StopGradient"), (floats(2),), lambda x: x, 0))


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(axis, keepdims=True)


for _shape, _axis in (((2, 3), 1), ((2, 3), 0), ((3,), 0), ((2, 1), 1), ((0, 3), 1)):
    row("Softmax", Case(prim("Softmax", axis=_axis), (floats(*_shape),),
                        lambda x, a=_axis: _softmax(x, a), factor=2))
    row("LogSoftmax", Case(prim("LogSoftmax", axis=_axis), (floats(*_shape),),
                           lambda x, a=_axis: np.log(_softmax(x, a)), factor=4))

# ------------------------------------------------------------------------------ random numbers

_state = np.array([2**40 + 7, 2**33 + 5], np.uint64)
for _dtype, _digits in ((dt.float16, 11), (dt.bfloat16, 8), (dt.float32, 24), (dt.float64, 53)):
    _wide = 53 if _dtype is dt.float64 else 24
    for _shape in ((), (5,), (2, 3), (0, 2)):
        row("UniformReal", Case(
            prim("UniformReal", shape=_shape, dtype=_dtype), (_state,),
            lambda s, n=_shape, d=_digits: random_reference.unit(s, n, d), 0, result=_dtype,
        ))
        row("StandardNormal", Case(
            prim("StandardNormal", shape=_shape, dtype=_dtype), (_state,),
            lambda s, n=_shape, d=_wide: random_reference.normal(s, n, d), 0,
            result=_dtype,
        ))
for _dtype, _low, _high in ((dt.int64, -3, 10), (dt.int8, -128, 127), (dt.uint8, 0, 255)):
    row("UniformInt", Case(
        prim("UniformInt", shape=(2, 5), dtype=_dtype),
        (_state, np.array(_low, _dtype.numpy), np.array(_high, _dtype.numpy)),
        lambda s, low, high: random_reference.integers(s, (2, 5), int(low), int(high)), 0,
        result=_dtype,
    ))

# -------------------------------------------------------------------- numbers and the graph's own


def scalar(name: str, reference: Callable, *inputs: tuple) -> None:
    SCALARS[name] = [(REGISTRY[name].bound(), i, reference(*i)) for i in inputs]


_numbers = ((3, 2), (-7, 2), (2.5, 3), (3, 2.5), (-2.5, 1.5))
for _name, _op in (
    ("ScalarAdd", operator.add), ("ScalarSub", operator.sub), ("ScalarMul", operator.mul),
    ("ScalarDiv", operator.truediv), ("ScalarFloorDiv", operator.floordiv),
    ("ScalarMod", operator.mod), ("ScalarEqual", operator.eq), ("ScalarNotEqual", operator.ne),
    ("ScalarLess", operator.lt), ("ScalarLessEqual", operator.le), ("ScalarGreater", operator.gt),
    ("ScalarGreaterEqual", operator.ge),
):
    scalar(_name, _op, *_numbers)
scalar("ScalarPow", operator.pow, (3, 2), (2.5, 3), (2.5, 1.5), (2.0, -1), (2.5, 0.0), (3, 1.5))
scalar("ScalarLog", math.log, (2.5,), (0.5,), (3,))
scalar("ScalarNeg", operator.neg, (3,), (-2.5,))
scalar("ScalarAbs", abs, (-3,), (-2.5,), (2.5,))
scalar("ScalarNot", operator.not_, (True,), (0,), (2.5,))
for _name, _op in (
    ("ScalarAnd", operator.and_), ("ScalarOr", operator.or_), ("ScalarXor", operator.xor),
):
    scalar(_name, _op, (6, 3), (-6, 3), (True, False), (True, True), (True, 2))
scalar("ScalarRound", round, (2.5,), (-3.5,), (7,), (2.675, 2), (1250, -2))
scalar("ScalarPick", lambda i, *x: x[i], (1, 5, 6), (0, 5, 6), (1, 0.5, 1.5), (2, 0.5, 1.5, 2.5))
SCALARS["ScalarCast"] = [
    (REGISTRY["ScalarCast"].bound(kind=k), (v,), k(v))
    for k, v in ((int, -2.7), (float, 3), (bool, 0.5))
]

# New rows come last, so that the numbers of the others stay what they are.
unary("Erfc", np.vectorize(math.erfc, otypes=[np.float64]))
for _name, _extreme in (("TensorScatterMax", np.maximum), ("TensorScatterMin", np.minimum)):
    row(_name,
        Case(prim(_name), (distinct(3, 2), np.array([[1], [-2]]), 0.9 * distinct(2, 2)),
             lambda x, i, y, extreme=_extreme: np.stack([x[0], extreme(x[1], extreme(*y)), x[2]]),
             1),
        Case(prim(_name), (floats(3), np.zeros((0, 1), np.int64), floats(0)), lambda x, i, y: x, 1))

# Tuples, stacks and the passage between numbers and Tensors: tests of their own in test_ops.py.
STRUCTURAL = {
    "MakeTuple", "TupleGetItem", "DimSize", "DimValue", "Push", "Pop", "StackAdd", "StackToTensor",
    "TensorToStack", "ScalarToTensor", "TensorToScalar", "Print", "Check", "Attempt", "Depend",
    "Known",
}
