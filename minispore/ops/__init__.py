"""Operations on Tensors: primitives (``ops.MatMul()``) and functions (``ops.matmul``).

Functions take Tensors (numbers too, where operands promote) and work in both modes: they only call
``apply`` and other functions.  Names, arguments and defaults are MindSpore's (``mindspore.ops``).
"""

# ruff: noqa: F401, I001
import sys as _sys

from minispore import spelling as _spelling

# fmt: off
from minispore.ops.structural import (
    Check, Depend, DimSize, DimValue, MakeTuple, Pop, Print, Push, ScalarCast, ScalarPick,
    ScalarToTensor,
    TensorToScalar, TupleGetItem,
)
from minispore.ops.elementwise import (
    Abs, Acos, Acosh, Add, Asin, Asinh, Atan, Atan2, Atanh, BitwiseAnd, BitwiseOr, BitwiseXor,
    Ceil, Cos, Cosh, Div, Elementwise, Equal, Erf, Erfc, Exp, Expm1, Floor, FloorDiv, FloorMod,
    GeLU, GeLUExact, Greater, GreaterEqual, IsFinite, IsInf, IsNan, Less, LessEqual, Log,
    Log10, Log1p, Log2, LogicalAnd, LogicalNot, LogicalOr, LogicalXor, Maximum, Minimum, Mod,
    Mul, Neg, NotEqual, Pow, ReLU, RealDiv, Reciprocal, Round, Rsqrt, Select, SiLU, Sigmoid,
    Sign, Sin, Sinh, Softplus, Sqrt, Square, Sub, Tan, Tanh, Trunc, TruncateDiv, abs,
    absolute, acos, acosh, add, arctan, arctan2, asin, asinh, atan, atan2, atanh, bitwise_and,
    bitwise_or, bitwise_xor, ceil, clamp, clip, clip_by_value, cos, cosh, div, divide, eq,
    equal, erf, erfc, exp, expm1, floor, floor_div, floor_divide, floor_mod, fmod, ge, greater,
    greater_equal, gt, isclose, isfinite, isinf, isnan, le, lerp, less, less_equal, log,
    log10, log1p, log2, logical_and, logical_not, logical_or, logical_xor, lt, maximum,
    minimum, mod, mul, multiply, ne, neg, negative, not_equal, pow, reciprocal, remainder,
    round, rsqrt, select, sign, sin, sinh, sqrt, square, sub, subtract, tan, tensor_pow,
    tensor_add, tensor_div, tensor_exp, tensor_floordiv, tensor_ge, tensor_gt, tensor_le,
    tensor_lt, tensor_mod, tensor_mul, tensor_sub, true_divide, trunc, where,
)
from minispore.ops.reduce import (
    Argmax, Argmin, CumSum, ReduceAll, ReduceAny, ReduceMax, ReduceMean, ReduceMin,
    ReduceProd, ReduceSum, all, amax, amin, any, argmax, argmin, count_nonzero, cumprod,
    cumsum, logsumexp, max, mean, min, norm, prod, reduce_max, reduce_mean, reduce_min,
    reduce_sum, std, sum, var,
)
from minispore.ops.linalg import (
    BatchMatMul, BiasAdd, MatMul, bias_add, bmm, diag, dot, matmul, outer, tensor_dot, trace,
)
from minispore.ops.shape import (
    BroadcastTo, Concat, ExpandDims, Flatten, Pad, Rank, Reshape, ReverseV2, Shape, Size,
    Split, Squeeze, Stack, StridedSlice, StridedSliceGrad, Tile, Transpose,
)
from minispore.ops.shape_functions import (
    broadcast_to, cat, chunk, concat, expand_dims, flatten, flip, movedim, narrow, numel, pad,
    permute, rank, repeat_interleave, reshape, roll, shape, size, slice, split, squeeze, stack,
    strided_slice, sum_to, swapaxes, swapdims, tile, transpose, unbind, unsqueeze, unstack,
)
from minispore.ops.creation import (
    Arange, Fill, arange, constant, eye, fill, full, full_like, linspace, meshgrid, ones, ones_like,
    range, tril, triu, zeros, zeros_like,
)
from minispore.ops.gather import (
    ArgSort, Gather, GatherD, GatherNd, IndexAdd, NonZero, OneHot, Sort, TensorScatterAdd,
    TensorScatterElements, TensorScatterMax, TensorScatterMin, TensorScatterUpdate, TopK, Unique,
)
from minispore.ops.gather_functions import (
    argsort, argwhere, gather, gather_d, gather_elements, gather_nd, index_add, index_select,
    masked_fill, masked_select, nonzero, one_hot, scatter_nd, sort, tensor_scatter_add,
    tensor_scatter_elements, tensor_scatter_max, tensor_scatter_min,
    tensor_scatter_update, topk, unique, unsorted_segment_sum,
)
from minispore.ops.state import (
    AddN, Assign, AssignAdd, AssignSub, Cast, Identity, OnesLike, StopGradient,
    ZerosLike, addn, assign, assign_add, assign_sub, cast, deepcopy, depend, identity, print_,
    stop_gradient,
)
from minispore.ops.nn import (
    LogSoftmax, Softmax, binary_cross_entropy, binary_cross_entropy_with_logits,
    cross_entropy, elu, gelu, hardsigmoid, hardswish, huber_loss, kl_div, l1_loss, leaky_relu,
    log_softmax, logsigmoid, mish, mse_loss, nll_loss, prelu, relu, relu6, selu, sigmoid,
    silu, smooth_l1_loss, softmax, softplus, softsign, tanh,
)
from minispore.ops.indexing import (
    AddIndex, GatherIndex, IndexInRange, MaskPositions, SetIndex, SetSlice, getitem, setitem,
)
from minispore.ops.loops import ForiLoop, Scan, WhileLoop, cond, fori_loop, scan, while_loop
from minispore.ops.random import (
    Dropout, StandardNormal, UniformInt, UniformReal, bernoulli, dropout, multinomial, normal,
    rand, rand_like, randint, randint_like, randn, randn_like, randperm, shuffle,
    standard_normal, uniform,
)
from minispore.ops.scatter import (
    scatter, scatter_add, scatter_max, scatter_min, scatter_nd_add, scatter_nd_sub,
    scatter_nd_update, scatter_sub, scatter_update, tensor_scatter_sub,
)
from minispore.ops.classes import (
    ApplyMomentum, ArgMaxWithValue, ArgMinWithValue, BCEWithLogitsLoss, BinaryCrossEntropy,
    DType, DivNoNan, Elu, Eye, GatherV2, Ger, HSigmoid, HSwish, Inv, IsClose, KLDivLoss, L2Loss,
    L2Normalize, LayerNorm, Lerp, LinSpace, MaskedFill, MaskedSelect, Meshgrid, Mish, NLLLoss,
    Ones, PReLU, Pack, Range, ReLU6, Rint, Roll, ScatterAdd, ScatterMax, ScatterMin, ScatterNd,
    ScatterNdAdd, ScatterNdSub, ScatterNdUpdate, ScatterSub, ScatterUpdate, SeLU,
    SigmoidCrossEntropyWithLogits, Slice, SmoothL1Loss, SoftmaxCrossEntropyWithLogits, Softsign,
    SparseSoftmaxCrossEntropyWithLogits, SquaredDifference, TensorAdd, TensorScatterSub,
    TensorShape, Trace, Tril, Triu, TupleToArray, Unpack, UnsortedSegmentSum, Unstack, Zeros,
    clip_by_global_norm, clip_by_norm, dtype, is_floating_point, is_tensor, scalar_to_tensor,
    tuple_to_array,
)
from minispore.ops.formulas import (
    addcdiv, addcmul, addmm, addmv, baddbmm, cummax, cummin, deg2rad, diagonal, exp2, frac, hypot,
    index_fill, logaddexp, median, mm, mv, rad2deg, xlogy,
)
# fmt: on


def __getattr__(name: str) -> object:
    raise _spelling.missing(_sys.modules[__name__], name)
