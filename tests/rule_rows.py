"""Rows of tests for rules: three functions each, before, after and where it must not fire."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from graphs import FLOAT, INT, tensor

from minispore import dtype as dt
from minispore import ops
from minispore.passes.pattern import op
from minispore.primitive import apply

T = tensor(2, 3)
I32 = tensor(2, 3, dtype=dt.int32)
B = tensor(2, 3, dtype=dt.bool_)


class Row(NamedTuple):
    """One rule: before, after, and where it must not fire."""

    before: Callable
    after: Callable
    noop: Callable
    types: tuple = (T,)


def half(x):
    return x * ops.constant(np.float32(0.5).reshape(()))


def as_tensor(x, dtype):
    return apply(ops.ScalarToTensor.bound(dtype=dtype), x)


def as_number(x, kind):
    return apply(ops.TensorToScalar.bound(kind=kind), x)


def idempotent(name):
    f = getattr(ops, name)()
    return Row(lambda x: f(f(x)), lambda x: f(x), lambda x: f(x))


def of_one(function, dtype=dt.float32):
    return Row(
        lambda x: function(x, 0),
        lambda x: ops.reshape(x, (3,)),
        lambda x: function(x, 1),
        (tensor(1, 3, dtype=dtype),),
    )


def cast(*names):
    def chain(x):
        for name in names:
            x = ops.cast(x, getattr(dt, name))
        return x

    return chain


def number(value):
    return ops.constant(np.array(value, np.float32))


def two():
    return ops.constant(np.array(2, np.float32))


def two_int():
    return ops.constant(np.array(2, np.int32))


def minus_three():
    return ops.constant(np.array(-3, np.float32))


def of_broadcast(function, dtype):
    return Row(
        lambda x: function(ops.broadcast_to(x, (2, 3)), 0),
        lambda x: ops.broadcast_to(ops.reshape(x, (3,)), (3,)),
        lambda x: function(ops.broadcast_to(x, (2, 3)), 1),
        (tensor(3, dtype=dtype),),
    )


def keep_dims(function, dtype):
    return Row(
        lambda x: ops.reshape(function(x, 0), (1, 3)),
        lambda x: function(x, 0, True),
        lambda x: ops.reshape(function(x, 0), (3, 1)),
        (tensor(2, 3, dtype=dtype),),
    )


def twice(function, dtype):
    return Row(
        lambda x: function(function(x, 1), 0),
        lambda x: ops.reshape(function(x, (0, 1)), ()),
        lambda x: function(-function(x, 1) if dtype is not dt.bool_ else x == x, 0),
        (tensor(2, 3, dtype=dtype),),
    )


PICKS = (
    ("max", ops.reduce_max, dt.float32), ("min", ops.reduce_min, dt.float32),
    ("all", ops.all, dt.bool_), ("any", ops.any, dt.bool_),
)  # fmt: skip
SUMS = (
    ("sum", ops.reduce_sum, dt.float32), ("mean", ops.reduce_mean, dt.float32),
    ("prod", ops.prod, dt.float32),
)  # fmt: skip


ROWS = {
    "mul_one": Row(lambda x: 1 * x, lambda x: x, lambda x: x * 2),
    "div_one": Row(lambda x: x / 1, lambda x: x, lambda x: 1 / x),
    "sub_zero": Row(lambda x: x - 0, lambda x: x, lambda x: 0 - x),
    "add_zero": Row(lambda x: 0 + x, lambda x: x, lambda x: x + 1, (I32,)),
    "pow_one": Row(lambda x: x**1, lambda x: x, lambda x: 1**x),
    "scalar_mul_one": Row(lambda x: x * 1, lambda x: x, lambda x: x * 2, (INT,)),
    "scalar_div_one": Row(lambda x: x / 1, lambda x: x, lambda x: x / 2, (FLOAT,)),
    "scalar_sub_zero": Row(lambda x: x - 0, lambda x: x, lambda x: x - (-0.0), (FLOAT,)),
    "scalar_add_zero": Row(lambda x: 0 + x, lambda x: x, lambda x: x + 0.0, (INT,)),
    "scalar_pow_one": Row(lambda x: x**1, lambda x: x, lambda x: x**2, (FLOAT,)),
    "add_minus_zero": Row(lambda x: x + -0.0, lambda x: x, lambda x: x + 0.0),
    "mul_minus_one": Row(lambda x: -1 * x, lambda x: -x, lambda x: x * -2),
    "div_minus_one": Row(lambda x: x / -1, lambda x: -x, lambda x: -1 / x),
    "neg_neg": Row(lambda x: ops.neg(-x), lambda x: x, lambda x: -ops.abs(x)),
    "add_neg": Row(lambda x, y: -y + x, lambda x, y: x - y, lambda x, y: x + y, (T, T)),
    "sub_neg": Row(lambda x, y: x - (-y), lambda x, y: x + y, lambda x, y: -(x - y), (T, T)),
    "mul_neg_neg": Row(lambda x, y: (-x) * (-y), lambda x, y: x * y, lambda x, y: -x * y, (T, T)),
    "div_neg_neg": Row(lambda x, y: (-x) / (-y), lambda x, y: x / y, lambda x, y: -x / y, (T, T)),
    "square_neg": Row(lambda x: ops.square(-x), lambda x: ops.square(x), lambda x: -ops.square(x)),
    "abs_neg": Row(lambda x: ops.abs(-x), lambda x: ops.abs(x), lambda x: -ops.abs(x)),
    "sub_self": Row(lambda x: x - x, ops.zeros_like, lambda x: x - (x + 1), (I32,)),
    "mul_zero": Row(lambda x: x * 0, ops.zeros_like, lambda x: x * 1, (I32,)),
    "div_power_of_two": Row(lambda x: x / 2, half, lambda x: x / 3),
    "max_self": Row(lambda x: ops.maximum(x, x), lambda x: x, lambda x: ops.maximum(x, -x)),
    "min_self": Row(lambda x: ops.minimum(x, x), lambda x: x, lambda x: ops.minimum(x, -x)),
    "and_self": Row(
        lambda x, y: ops.logical_and(x, x), lambda x, y: x, lambda x, y: ops.logical_and(x, y),
        (B, B),
    ),
    "or_self": Row(
        lambda x, y: ops.logical_or(x, x), lambda x, y: x, lambda x, y: ops.logical_or(x, y),
        (B, B),
    ),
    "and_true": Row(
        lambda x: ops.logical_and(True, x), lambda x: x, lambda x: ops.logical_and(x, False), (B,)
    ),
    "or_false": Row(
        lambda x: ops.logical_or(x, False), lambda x: x, lambda x: ops.logical_or(x, True), (B,)
    ),
    "not_not": Row(
        lambda x: ops.logical_not(ops.logical_not(x)), lambda x: x, lambda x: ops.logical_not(x),
        (B,),
    ),
    "not_equal": Row(
        lambda x, y: ops.logical_not(x == y), lambda x, y: x != y,
        lambda x, y: ops.logical_not(x < y),
        (T, T),
    ),
    "select_same": Row(
        lambda c, x: ops.select(c, x, x), lambda c, x: x, lambda c, x: ops.select(c, x, -x), (B, T)
    ),
    "select_true": Row(
        lambda x, y: ops.select(True, x, y), lambda x, y: x,
        lambda x, y: ops.select(x > 0, x, y), (T, T),
    ),
    "select_false": Row(
        lambda x, y: ops.select(False, x, y), lambda x, y: y,
        lambda x, y: ops.select(x > 0, x, y), (T, T),
    ),
    "select_not": Row(
        lambda c, x, y: ops.select(ops.logical_not(c), x, y), lambda c, x, y: ops.select(c, y, x),
        lambda c, x, y: ops.select(c, x, y), (B, T, T),
    ),
    "drop_identity": Row(lambda x: ops.identity(x), lambda x: x, lambda x: ops.stop_gradient(x)),
    "cast_same": Row(lambda x: op.Cast(x, dtype=x.dtype), lambda x: x, cast("float16")),
    "merge_casts": Row(cast("float64", "float16"), cast("float16"), cast("float16", "float64")),
    "reshape_same": Row(
        lambda x: ops.reshape(x, (2, 3)), lambda x: x, lambda x: ops.reshape(x, (3, 2))
    ),
    "merge_reshapes": Row(
        lambda x: ops.reshape(ops.reshape(x, (6,)), (3, 2)), lambda x: ops.reshape(x, (3, 2)),
        lambda x: ops.reshape(-ops.reshape(x, (6,)), (3, 2)),
    ),
    "expand_dims": Row(
        lambda x: ops.expand_dims(x, 1), lambda x: ops.reshape(x, (2, 1, 3)), lambda x: x + 1
    ),
    "squeeze": Row(
        lambda x: ops.squeeze(x), lambda x: ops.reshape(x, (3,)), lambda x: x + 1, (tensor(1, 3),)
    ),
    "transpose_ones": Row(
        lambda x: ops.transpose(x, (1, 0, 2)), lambda x: ops.reshape(x, (1, 2, 3)),
        lambda x: ops.transpose(x, (2, 1, 0)), (tensor(2, 1, 3),),
    ),
    "merge_transposes": Row(
        lambda x: ops.transpose(ops.transpose(x, (1, 2, 0)), (1, 2, 0)),
        lambda x: ops.transpose(x, (2, 0, 1)), lambda x: ops.transpose(x, (1, 2, 0)),
        (tensor(2, 3, 4),),
    ),
    "broadcast_same": Row(
        lambda x: ops.broadcast_to(x, (2, 3)), lambda x: x, lambda x: ops.broadcast_to(x, (4, 2, 3))
    ),
    "merge_broadcasts": Row(
        lambda x: ops.broadcast_to(ops.broadcast_to(x, (4, 2, 3)), (5, 4, 2, 3)),
        lambda x: ops.broadcast_to(x, (5, 4, 2, 3)), lambda x: ops.broadcast_to(x, (5, 4, 2, 3)),
    ),
    "tile_once": Row(lambda x: ops.tile(x, (1, 1)), lambda x: x, lambda x: ops.tile(x, (1, 2))),
    "flip_nothing": Row(lambda x: ops.flip(x, ()), lambda x: x, lambda x: ops.flip(x, (0,))),
    "slice_all": Row(
        lambda x: op.StridedSlice(x, begin=(0, 0), end=(2, 3), strides=(1, 1)), lambda x: x,
        lambda x: ops.strided_slice(x, (1, 2), (-3, -4), (-1, -1)),
    ),
    "concat_one": Row(lambda x: ops.concat((x,), 1), lambda x: x, lambda x: ops.concat((x, x), 1)),
    "reducemax_of_one": of_one(ops.reduce_max),
    "reducemin_of_one": of_one(ops.reduce_min),
    "reduceprod_of_one": of_one(ops.prod),
    "reducesum_of_one": of_one(ops.reduce_sum, dt.int32),
    "reducemean_of_one": of_one(ops.reduce_mean, dt.int32),
    **{
        f"{name.lower()}_twice": idempotent(name)
        for name in ("Abs", "Floor", "Ceil", "Round", "Trunc", "Sign", "ReLU")
    },
    "scalar_cast_same": Row(
        lambda x: apply(ops.ScalarCast.bound(kind=float), x), lambda x: x,
        lambda x: apply(ops.ScalarCast.bound(kind=int), x * 0 + 1), (FLOAT,),
    ),
    "broadcast_of_ones": Row(
        lambda x: ops.broadcast_to(ops.reshape(x, (1, 2, 3)), (4, 2, 3)),
        lambda x: ops.broadcast_to(x, (4, 2, 3)),
        lambda x: ops.broadcast_to(ops.reshape(x, (2, 1, 3)), (2, 4, 3)),
    ),
    "sink_broadcast": Row(
        lambda x: -ops.broadcast_to(x, (4, 2, 3)), lambda x: ops.broadcast_to(-x, (4, 2, 3)),
        lambda x: ops.broadcast_to(-x, (4, 2, 3)),
    ),
    "sink_reshape": Row(
        lambda x: -ops.reshape(x, (6,)), lambda x: ops.reshape(-x, (6,)),
        lambda x: ops.reshape(-x, (6,)),
    ),
    "move_fill": Row(
        lambda: ops.reshape(ops.ones((2, 3)), (6,)), lambda: ops.ones((6,)),
        lambda: ops.ones((6,)) + 1, (),
    ),
    "minus_zero_sub": Row(lambda x: -0.0 - x, lambda x: -x, lambda x: 0.0 - x),
    "mul_neg_constant": Row(
        lambda x: -x * 3, lambda x: x * minus_three(), lambda x: -x * x
    ),
    "neg_mul_constant": Row(
        lambda x: ops.neg(x * 3), lambda x: x * minus_three(), lambda x: ops.neg(x * x)
    ),
    "mul_neg": Row(
        lambda x, y: -x * y, lambda x, y: -(x * y),
        lambda x, y: -x * ops.broadcast_to(y, (4, 2, 3)), (T, T),
    ),
    "div_neg": Row(lambda x, y: -x / y, lambda x, y: -(x / y), lambda x, y: -(x / y), (T, T)),
    "div_by_neg": Row(lambda x, y: x / -y, lambda x, y: -(x / y), lambda x, y: -(x / y), (T, T)),
    "neg_sub": Row(
        lambda x, y: ops.neg(x - y), lambda x, y: y - x, lambda x, y: ops.neg(x + y), (I32, I32)
    ),
    "mul_ones": Row(
        lambda x: x * ops.ones((2, 3)), lambda x: ops.broadcast_to(x, (2, 3)),
        lambda x: x * ops.ones((3,)), (tensor(3),),
    ),
    "add_zeros": Row(
        lambda x: x + ops.zeros((2, 3), dt.int32), lambda x: ops.broadcast_to(x, (2, 3)),
        lambda x: x + ops.zeros((3,), dt.int32), (tensor(3, dtype=dt.int32),),
    ),
    **{f"reduce{name}_of_broadcast": of_broadcast(f, dtype) for name, f, dtype in PICKS},
    "reducesum_of_broadcast": Row(
        lambda x: ops.reduce_sum(ops.broadcast_to(x, (2, 3)), 0),
        lambda x: ops.broadcast_to(ops.reshape(x * two_int(), (3,)), (3,)),
        lambda x: ops.reduce_sum(ops.broadcast_to(x, (2, 3)), 1), (tensor(3, dtype=dt.int32),),
    ),
    **{f"reduce{name}_keep_dims": keep_dims(f, dtype) for name, f, dtype in (*PICKS, *SUMS)},
    **{f"reduce{name}_twice": twice(f, dtype) for name, f, dtype in PICKS},
    "reducesum_twice": twice(ops.reduce_sum, dt.int32),
    "reduceprod_twice": twice(ops.prod, dt.int32),
    "drop_broadcast": Row(
        lambda x, y: x * ops.broadcast_to(y, (2, 3)), lambda x, y: x * y,
        lambda x, y: y * ops.broadcast_to(y, (2, 3)), (T, tensor(3)),
    ),
}  # fmt: skip


def products(product, *batch):
    """The rules of a matrix product; `batch`: the dimensions before those of the matrices."""
    n = len(batch)
    swap = (*range(n), n + 1, n)
    x, xt, y, yt = (tensor(*batch, *s) for s in ((2, 3), (3, 2), (3, 4), (4, 3)))
    short = product.name.lower()
    return {
        f"{short}_of_transposed": Row(
            lambda x, y: product()(ops.transpose(x, swap), y),
            lambda x, y: product(transpose_a=True)(x, y),
            lambda x, y: product(transpose_a=True)(x, y), (xt, y),
        ),
        f"{short}_by_transposed": Row(
            lambda x, y: product()(x, ops.transpose(y, swap)),
            lambda x, y: product(transpose_b=True)(x, y),
            lambda x, y: product(transpose_b=True)(x, y), (x, yt),
        ),
        f"transposed_{short}": Row(
            lambda x, y: ops.transpose(product(transpose_a=True)(x, y), swap),
            lambda x, y: product(transpose_a=True)(y, x),
            lambda x, y: used_twice(product()(ops.transpose(x, swap), y), swap), (xt, y),
        ),
    }  # fmt: skip


def used_twice(x, perm):
    return ops.transpose(x, perm), x


PRODUCT_ROWS = products(ops.MatMul) | products(ops.BatchMatMul, 5)
AFTER_GRAD_ROWS = {
    "drop_stop_gradient": Row(ops.stop_gradient, lambda x: x, ops.identity),
    "drop_assign": Row(
        lambda x, y: op.Assign(x, y), lambda x, y: y, lambda x, y: ops.select(x > 0, x, y), (T, T)
    ),
    "number_and_back": Row(
        lambda x: as_number(as_tensor(x, dt.float64), float), lambda x: x,
        lambda x: as_number(as_tensor(x, dt.float32), float), (FLOAT,),
    ),
    "tensor_and_back": Row(
        lambda x: as_tensor(as_number(x, float), dt.float32), lambda x: x,
        lambda x: as_tensor(as_number(x, int), dt.float32), (tensor(),),
    ),
}  # fmt: skip
FAST_ROWS = {
    "add_zero_fast": Row(lambda x: x + 0, lambda x: x, lambda x: x + 1),
    "zero_sub": Row(lambda x: 0 - x, lambda x: -x, lambda x: x - 0),
    "neg_sub_fast": Row(
        lambda x, y: ops.neg(x - y), lambda x, y: y - x, lambda x, y: ops.neg(x + y), (T, T)
    ),
    "reducesum_of_broadcast_fast": Row(
        lambda x: ops.reduce_sum(ops.broadcast_to(x, (2, 3)), 0),
        lambda x: ops.broadcast_to(ops.reshape(x * two(), (3,)), (3,)),
        lambda x: ops.reduce_sum(ops.broadcast_to(x, (2, 3)), 1), (tensor(3),),
    ),
    "reducemean_of_broadcast_fast": of_broadcast(ops.reduce_mean, dt.float32),
    "mul_zero_fast": Row(lambda x: x * 0, lambda x: ops.zeros_like(x), lambda x: x * 2),
    "sub_self_fast": Row(lambda x: x - x, lambda x: ops.zeros_like(x), lambda x: x - 1),
    "div_self": Row(lambda x: x / x, lambda x: ops.ones_like(x), lambda x: x / 3),
    "pow_two": Row(lambda x: x**2, lambda x: ops.square(x), lambda x: x**3),
    "merge_factors": Row(
        lambda x: (x * 3) * 5, lambda x: x * (ops.constant(np.float32(3)) * 5),
        lambda x: (x * 3) * x,
    ),
    "merge_terms": Row(
        lambda x: (x + 3) + 5, lambda x: x + (ops.constant(np.float32(3)) + 5),
        lambda x: (x + 3) + number(-5),
    ),
    "div_constant": Row(lambda x: x / 3, lambda x: x * number(1 / 3), lambda x: x / number(1e-39)),
    "div_by_fewer": Row(
        lambda x, y: x / y, lambda x, y: x * (1 / y), lambda x, y: y / x, (T, tensor(2, 1))
    ),
    "sub_constant": Row(lambda x: x - 3, lambda x: x + minus_three(), lambda x: 3 - x),
    "pow_three": Row(lambda x: x**3, lambda x: ops.square(x) * x, lambda x: x**2),
    "pow_four": Row(
        lambda x: x**4, lambda x: ops.square(ops.square(x)), lambda x: x**x
    ),
    "pow_minus_one": Row(lambda x: x**-1, lambda x: 1 / x, lambda x: x**-3),
    "pow_minus_two": Row(lambda x: x**-2, lambda x: 1 / ops.square(x), lambda x: x**-3),
    "pow_half": Row(lambda x: x**0.5, ops.sqrt, lambda x: x**1.5),
    "pow_minus_half": Row(lambda x: x**-0.5, ops.rsqrt, lambda x: x**-1.5),
    "sqrt_times_sqrt": Row(
        lambda x: ops.sqrt(x) * ops.sqrt(x), lambda x: x, lambda x: ops.sqrt(x) * x
    ),
    "square_of_sqrt": Row(
        lambda x: ops.square(ops.sqrt(x)), lambda x: x, lambda x: ops.square(ops.exp(x))
    ),
    "sqrt_of_square": Row(
        lambda x: ops.sqrt(ops.square(x)), ops.abs, lambda x: ops.sqrt(ops.exp(x))
    ),
    "log_of_exp": Row(
        lambda x: ops.log(ops.exp(x)), lambda x: x, lambda x: ops.log(ops.square(x))
    ),
    "exp_of_log": Row(
        lambda x: ops.exp(ops.log(x)), lambda x: x, lambda x: ops.exp(ops.square(x))
    ),
    "log_of_softmax": Row(
        lambda x: ops.log(ops.softmax(x, 0)), lambda x: ops.log_softmax(x, 0),
        lambda x: ops.log(ops.log_softmax(x, 0)),
    ),
    "exp_times_exp": Row(
        lambda x, y: ops.exp(x) * ops.exp(y), lambda x, y: ops.exp(x + y),
        lambda x, y: ops.exp(x) * y, (T, T),
    ),
    "exp_over_exp": Row(
        lambda x, y: ops.exp(x) / ops.exp(y), lambda x, y: ops.exp(x - y),
        lambda x, y: ops.exp(x) / y, (T, T),
    ),
    "reducesum_of_one_fast": of_one(ops.reduce_sum),
    "reducemean_of_one_fast": of_one(ops.reduce_mean),
    "reducesum_twice_fast": twice(ops.reduce_sum, dt.float32),
    "reducemean_twice_fast": twice(ops.reduce_mean, dt.float32),
}  # fmt: skip
