"""Random numbers: draws from the counter-based generator, in program order.

The generator (``minispore.random``) has no state of its own: draw n under a seed is a function of
the two.  What is left of a state is a Tensor ``[seed, n]``, read and written like any other:

    %1 = UniformReal(%random) {shape=(2, 3), dtype=Float32}
    %2 = Add(%random, [0, 1])                                  the state for the next draw

So a compiled graph takes the state in and gives it back, arms and loops carry it, both modes draw
the same numbers in the same order, ``set_seed`` reaches compiled graphs, and no two draws are
alike enough to be merged.  An op that is given a seed of its own draws from a stream of its own.
(MindSpore: each kernel keeps a generator, which ``set_seed`` does not reach once it is compiled.)
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor, broadcast_shapes
from minispore.dtype import DType, float32, float64, int32, int64
from minispore.ops.common import Composite, as_int, as_shape, check_tensor, require
from minispore.ops.creation import check_dtype
from minispore.primitive import (
    HIDDEN,
    Primitive,
    TensorLike,
    apply,
    as_tensor,
    eager_handler,
    is_number,
)
from minispore.random import get_seed, on_set_seed, random_bits, random_unit

# ------------------------------------------------------------------------------ the hidden state

_streams: dict[tuple[int, int], Any] = {}  # an op's own seeds, or zeros -> the state
_entropy = int.from_bytes(os.urandom(8), "little")


def _beginning(own: tuple[int, int], seed: int | None) -> Any:
    """The first state of a stream under the program's seed."""
    key = _entropy if seed is None and own == (0, 0) else (seed or 0) % 2**64
    for number in own if any(own) else ():
        key = int(random_bits(np.array([key, number], np.uint64), (), 64))
    return eager_handler().constant(np.array([key, 0], np.uint64), None)


def random_state(seed: Any = None) -> Any:
    """The Tensor ``[seed, draw]`` that ops with this seed (or pair of seeds) of their own share.

    It stays the same as long as the program runs: compiled graphs refer to it.  TypeError for
    seeds that are no ints, ValueError for negative ones.
    """
    pair = seed if isinstance(seed, tuple) else (seed or 0, 0)
    own = as_int("the seed", pair[0]), as_int("the seed", pair[1])
    if min(own) < 0 or max(own) >= 2**64:
        raise ValueError(f"a seed must be an int from 0 to 2**64 - 1, not {seed}")
    if own not in _streams:
        state = _streams.setdefault(own, _beginning(own, get_seed()))
        HIDDEN[id(state)] = "random"
    return _streams[own]


def _restart(seed: int) -> None:
    for own, state in _streams.items():
        eager_handler().write(state, _beginning(own, seed))


on_set_seed(_restart)


class _Draw(Primitive, register=False):
    """A function of the state alone (or of bounds too); attributes `shape`, `dtype`."""

    def __init__(self, seed: int = 0, seed2: int = 0):
        super().__init__(seed=seed, seed2=seed2)

    @classmethod
    def drawn(cls, shape: Any, dtype: DType, seed: Any, *bounds: Any) -> Any:
        """The next draw of a stream."""
        state = random_state(seed)
        out = apply(cls.bound(shape=as_shape(cls.name, shape), dtype=dtype), state, *bounds)
        state._write(ops.add(state, ops.constant(np.array([0, 1], np.uint64))))
        return out

    def infer(self, state: AbstractTensor, *bounds: AbstractTensor) -> AbstractTensor:
        shape = broadcast_shapes(self.attrs["shape"], *(b.shape for b in bounds))
        return AbstractTensor(self.attrs["dtype"], shape)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (None,) * len(inputs)


class UniformReal(_Draw):
    """Numbers in [0, 1), uniformly distributed; attributes `shape`, `dtype`."""

    def __call__(self, shape: Any) -> Any:
        return self.drawn(shape, float32, tuple(self.attrs.values()))

    def eval(self, state: np.ndarray) -> Any:
        return random_unit(state, self.attrs["shape"], self.attrs["dtype"])


class UniformInt(_Draw):
    """Integers from `low` up to and without `high`; attributes `shape`, `dtype`."""

    def __call__(self, shape: Any, minval: Any, maxval: Any) -> Any:
        return uniform(shape, minval, maxval, tuple(self.attrs.values()), int32)

    def eval(self, state: np.ndarray, low: np.ndarray, high: np.ndarray) -> Any:
        bits = random_bits(state, self.attrs["shape"], 64)
        first = low.astype(np.uint64)  # all is modulo 2**64
        span = high.astype(np.uint64) - first
        offset = np.where(span == 0, bits, bits % np.maximum(span, 1))  # 0 stands for 2**64
        return (first + offset).astype(self.attrs["dtype"].numpy)


class StandardNormal(_Draw):
    """Numbers of mean 0 and variance 1, normally distributed; attributes `shape`, `dtype`."""

    def __call__(self, shape: Any) -> Any:
        return self.drawn(shape, float32, tuple(self.attrs.values()))

    def eval(self, state: np.ndarray) -> Any:
        """Box and Muller: a pair of uniform numbers, as radius and angle, makes a pair of normal
        ones.
        """
        shape, dtype = self.attrs["shape"], self.attrs["dtype"]
        n = math.prod(shape)
        pairs = random_unit(state, (n + n % 2,), float64 if dtype is float64 else float32)
        u, v = pairs[0::2], pairs[1::2] * pairs.dtype.type(2 * math.pi)
        radius = np.sqrt(-2 * np.log(1 - u))
        pairs = np.stack([radius * np.cos(v), radius * np.sin(v)], 1)
        return pairs.reshape(-1)[:n].reshape(shape)


class Dropout(Composite):
    """x with elements at random set to 0, the others scaled by 1 / keep_prob; and 1 where kept."""

    def __init__(self, keep_prob: float = 0.5, Seed0: int = 0, Seed1: int = 0):
        if not 0 < keep_prob <= 1:
            raise ValueError(f"Dropout: keep_prob must be in (0, 1], not {keep_prob!r}")
        super().__init__(keep_prob=keep_prob, Seed0=Seed0, Seed1=Seed1)

    def __call__(self, x: Any) -> Any:
        if not check_tensor("Dropout", x).dtype.is_float:
            raise TypeError(f"Dropout takes floats, not {x.dtype}")
        keep, *seeds = self.attrs.values()
        kept = ops.less(UniformReal.drawn(x.shape, float32, tuple(seeds)), keep)
        return ops.select(kept, x * (1 / keep), ops.zeros_like(x)), ops.cast(kept, x.dtype)


# ------------------------------------------------------------------------------------- functions


def _dtype(name: str, dtype: Any, default: DType, is_float: bool) -> DType:
    """The dtype of a draw: `dtype`, or the default; ValueError for one of the wrong kind."""
    found = check_dtype(name, dtype, default)
    if not (found.is_float if is_float else found.is_integer):
        kind = "a float" if is_float else "an integer"
        raise ValueError(f"the dtype of {name} must be {kind} type, not {found}")
    return found


def _sizes(size: tuple) -> Any:
    """The shape that ``rand(2, 3)``, ``rand((2, 3))`` and ``rand()`` ask for."""
    return size[0] if len(size) == 1 else size or (1,)


def rand(*size: Any, dtype: DType | None = None, seed: int | None = None) -> Any:
    """Numbers in [0, 1) of shape `size` (ints, or one tuple), Float32 by default.

    ValueError for a dtype that is no float, and for a negative seed.  MindSpore: ``ops.rand``,
    ``ops.UniformReal``.
    """
    return UniformReal.drawn(_sizes(size), _dtype("rand", dtype, float32, True), seed)


def rand_like(input: Any, seed: int | None = None, *, dtype: DType | None = None) -> Any:
    """``rand`` of the shape and (unless given) dtype of `input`.  MindSpore: ``ops.rand_like``."""
    x = check_tensor("rand_like", input)
    return rand(x.shape, dtype=dtype or x.dtype, seed=seed)


def randn(*size: Any, dtype: DType | None = None, seed: int | None = None) -> Any:
    """Normally distributed numbers of mean 0 and variance 1; arguments as for ``rand``.

    MindSpore: ``ops.randn``, ``ops.StandardNormal``.
    """
    return StandardNormal.drawn(_sizes(size), _dtype("randn", dtype, float32, True), seed)


def randn_like(input: Any, seed: int | None = None, *, dtype: DType | None = None) -> Any:
    """``randn`` of the shape and (unless given) dtype of `input`.

    MindSpore: ``ops.randn_like``.
    """
    x = check_tensor("randn_like", input)
    return randn(x.shape, dtype=dtype or x.dtype, seed=seed)


def randint(
    low: int, high: int, size: Any, seed: int | None = None, *, dtype: DType | None = None
) -> Any:
    """Integers from `low` up to and without `high`, of shape `size`, Int64 by default.

    ValueError unless low < high, for a dtype that is no integer or does not hold all that may be
    drawn, and for a negative seed; TypeError for bounds that are no ints.  MindSpore:
    ``ops.randint``.
    """
    found = _dtype("randint", dtype, int64, False)
    held = np.iinfo(found.numpy)
    low, high = as_int("low", low), as_int("high", high)
    if not held.min <= low < high <= held.max + 1:
        raise ValueError(f"randint: no {found} is from {low} up to and without {high}")
    bounds = (ops.constant(np.array(v % 2**64, np.uint64)) for v in (low, high))
    return UniformInt.drawn(size, found, seed, *bounds)


def randint_like(
    input: Any, low: int, high: int, seed: int | None = None, *, dtype: DType | None = None
) -> Any:
    """``randint`` of the shape and (unless given) dtype of `input`.

    MindSpore: ``ops.randint_like``.
    """
    x = check_tensor("randint_like", input)
    return randint(low, high, x.shape, seed, dtype=dtype or x.dtype)


def standard_normal(shape: Any, seed: int | None = None) -> Any:
    """Float32 numbers of mean 0 and variance 1, normally distributed.

    ValueError for a negative seed.  MindSpore: ``ops.standard_normal``.
    """
    return StandardNormal.drawn(shape, float32, seed)


def normal(shape: Any, mean: Any, stddev: Any, seed: int | None = None) -> Any:
    """Normally distributed numbers; `mean` and `stddev` are Tensors or numbers and broadcast.

    They get gradients.  ValueError for a negative seed.  MindSpore: ``ops.normal``.
    """
    return standard_normal(shape, seed) * stddev + mean


def uniform(shape: Any, minval: Any, maxval: Any, seed: Any = None, dtype: DType = float32) -> Any:
    """Numbers from `minval` up to and without `maxval`, of any float or integer dtype.

    The bounds are Tensors or numbers and broadcast; those of floats get gradients.  TypeError for
    integers between floats; ValueError, when the program runs, unless minval < maxval for
    integers.  MindSpore: ``ops.uniform`` (Float32 and Int32), ``ops.UniformInt``.
    """
    if check_dtype("uniform", dtype).is_float:
        low, high = (ops.cast(as_tensor(v, dtype), dtype) for v in (minval, maxval))
        return UniformReal.drawn(shape, dtype, seed) * (high - low) + low
    low, high = as_tensor(minval), as_tensor(maxval)
    if not (dtype.is_integer and low.dtype.is_integer and high.dtype.is_integer):
        raise TypeError(f"uniform: {dtype} needs integer bounds, not {low.dtype}, {high.dtype}")
    require(ops.all(ops.less(low, high)), ValueError, "uniform: minval must be below maxval")
    return UniformInt.drawn(shape, dtype, seed, low, high)


def bernoulli(input: Any, p: Any = 0.5, seed: int | None = None) -> Any:
    """1 with probability `p` (a number, or a Tensor that broadcasts), else 0: like `input`.

    The result has the shape and dtype of `input`, whose values do not matter.  ValueError for
    another p than from 0 to 1.  MindSpore: ``ops.bernoulli``.
    """
    x = check_tensor("bernoulli", input)
    if isinstance(p, TensorLike):
        fits = ops.logical_and(ops.greater_equal(p, 0), ops.less_equal(p, 1))
        require(ops.all(fits), ValueError, "bernoulli: p must be from 0 to 1")
        p = ops.broadcast_to(p, x.shape)
    elif not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p must be from 0 to 1, not {p!r}")
    return ops.cast(ops.less(UniformReal.drawn(x.shape, float32, seed), p), x.dtype)


def multinomial(
    input: Any, num_samples: int, replacement: bool = True, seed: int | None = None
) -> Any:
    """Int32 indices, each as likely as its weight in `input`, of shape (n,) or (batch, n).

    Args:
        input: weights, of shape (classes,) or (batch, classes).
        num_samples: how many to draw from each row.
        replacement: whether an index may be drawn again.

    ValueError for other shapes, more samples than classes without replacement, and, when the
    program runs, weights that are negative or all 0.  MindSpore: ``ops.multinomial``.
    """
    weights = ops.cast(check_tensor("multinomial", input), float64)
    n = as_int("num_samples", num_samples)
    if len(weights.shape) not in (1, 2):
        raise ValueError(f"multinomial takes 1 or 2 dimensions, not shape {weights.shape}")
    if n < 0 or weights.shape[-1] < (1 if replacement else n):
        raise ValueError(f"multinomial: {n} samples of {weights.shape[-1]} classes")
    sums = ops.cumsum(weights, -1)
    total = sums[..., -1:]
    fits = ops.logical_and(ops.all(ops.greater_equal(weights, 0)), ops.all(ops.greater(total, 0)))
    require(fits, ValueError, "multinomial: weights must not be negative, nor all 0")
    if not replacement:  # the n largest u ** (1 / weight), by their logarithms
        u = UniformReal.drawn(weights.shape, float64, seed)
        return ops.topk(ops.log(u) / weights, n)[1]
    u = UniformReal.drawn((*weights.shape[:-1], n, 1), float64, seed)
    reached = ops.expand_dims(sums / total, -2)
    return ops.cast(ops.sum(ops.greater_equal(u, reached), -1), int32)


def randperm(n: int, seed: int = 0, offset: int = 0, dtype: DType = int64) -> Any:
    """The numbers 0 to n - 1 in random order; a seed or offset other than 0 is a stream of its own.

    ValueError for a negative `n`.  MindSpore: ``ops.randperm``, which gives one order for each
    seed and offset, again and again.
    """
    order = UniformReal.drawn((as_int("n", n),), float64, (seed, offset))
    return ops.cast(ops.argsort(order), check_dtype("randperm", dtype))


def shuffle(x: Any, seed: int | None = None) -> Any:
    """A Tensor with its rows in random order.  MindSpore: ``ops.shuffle``."""
    if not check_tensor("shuffle", x).shape:
        return ops.identity(x)
    order = ops.argsort(UniformReal.drawn(x.shape[:1], float64, seed))
    return apply(ops.Gather.bound(axis=0), x, order)


def dropout(input: Any, p: float = 0.5, training: bool = True, seed: int | None = None) -> Any:
    """`input` with each element 0 with probability `p`, and else scaled by 1 / (1 - p).

    Unless `training`, `input` itself.  ValueError unless 0 <= p < 1; TypeError for integers.
    MindSpore: ``ops.dropout``, ``ops.Dropout``.
    """
    if not is_number(p) or not 0 <= p < 1:
        raise ValueError(f"dropout: p must be in [0, 1), not {p!r}")
    return Dropout(1 - p, seed or 0)(input)[0] if training else check_tensor("dropout", input)
