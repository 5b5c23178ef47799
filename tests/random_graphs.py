"""Random graphs: Tensors of many shapes, arms, loops, shared graphs, written with ops.

    make(seed) -> (graph, inputs)

What the rules of the passes look for is likely: negations, zeros and ones, reshapes, transposes,
broadcasts, casts, reductions; carries that do not change or are equal; constants handed on.
"""

import random
from collections.abc import Sequence

import numpy as np
from graphs import INT, apply_node, tensor

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import Abstract, AbstractScalar, AbstractTensor
from minispore.ir.node import FuncGraph, ParameterNode, Switch, While, make_tuple, tuple_item
from minispore.primitive import apply, handled_by
from minispore.symbolic import GraphBuilder, Scalar, wrap
from minispore.tensor import Tensor

SHAPES = [(2, 3), (3,), (1, 3), (6,), (3, 2), (), (2, 1, 3), (4, 2, 3), (60, 50)]
DTYPES = [dt.float32, dt.float32, dt.float32, dt.float16, dt.int32, dt.int8, dt.bool_]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, float("nan"), float("inf"), float("-inf"), 1e-40]
NUMBERS = [0, 1, -1, 2, 0.5, -0.0, 3.0]
MOST_ELEMENTS = 5000


class Graphs:
    """Makes one program; the same seed makes the same."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.made: list[FuncGraph] = []
        self.count = 0

    def pick(self, *options):
        return self.random.choice(options)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    # ------------------------------------------------------------------------------------ graphs

    def types(self, least: int, most: int) -> list[Abstract]:
        n = self.random.randint(least, most)
        return [INT if self.chance(0.2) else tensor(*self.pick(*SHAPES), dtype=self.pick(*DTYPES))
                for _ in range(n)]  # fmt: skip

    def graph(self, takes: Sequence[Abstract], gives: Sequence[Abstract], depth: int) -> FuncGraph:
        """A graph of these types."""
        nodes = [ParameterNode(f"p{i}", t) for i, t in enumerate(takes)]
        self.count += 1
        with handled_by(GraphBuilder()):
            pool = [wrap(n) for n in nodes] or [self.constant()]
            for _ in range(self.random.randint(2, 5) + 6 * depth):
                pool.append(self.step(pool, depth))
            results = [self.fitting(pool, t) for t in gives]
            found = [GraphBuilder().node_of(r) for r in results]
        return FuncGraph(f"g{self.count}", nodes, make_tuple(found))

    def fitting(self, pool: list, abstract: Abstract):
        """A value of a type: one that is there, or one made of one."""
        same = [v for v in pool if type_of(v) == abstract]
        if same and self.chance(0.9):
            return self.pick(*same[-3:])
        if abstract == INT:
            return self.pick(0, 1, 3)
        assert isinstance(abstract, AbstractTensor)
        if self.chance(0.15):
            return self.filled(abstract)
        value = self.pick(*pool)
        if isinstance(value, Scalar):
            value = apply(ops.ScalarToTensor.bound(dtype=dt.float32), value)
        value = ops.reduce_max(value) if value.shape != () else value
        if value.dtype.is_float and not abstract.dtype.is_float:
            value = value > 0  # a nan has no integer
        return ops.broadcast_to(ops.cast(value, abstract.dtype), abstract.shape)

    def filled(self, abstract: AbstractTensor) -> Tensor:
        value = self.pick(*NUMBERS) if abstract.dtype.is_float else self.pick(0, 1)
        if self.chance(0.5):
            return ops.full(abstract.shape, value, dtype=abstract.dtype)
        return ops.constant(np.full(abstract.shape, value).astype(abstract.dtype.numpy))

    def constant(self) -> Tensor:
        return self.filled(tensor(*self.pick(*SHAPES), dtype=self.pick(*DTYPES)))

    # ------------------------------------------------------------------------------------- steps

    def step(self, pool: list, depth: int):
        if depth and self.chance(0.2):
            return self.pick(self.called, self.switched, self.looped)(pool, depth - 1)
        tensors = [v for v in pool if isinstance(v, Tensor)]
        if not tensors or self.chance(0.05):
            return self.constant()
        x = self.pick(*tensors[-4:], *tensors[:2])
        kinds = [self.unary, self.binary, self.moved, self.moved, self.reduced, self.product]
        for _ in range(10):
            try:
                out = self.pick(*kinds)(x, tensors)
            except (TypeError, ValueError, RuntimeError):
                continue  # these shapes or types do not fit
            if 0 < np.prod(out.shape) <= MOST_ELEMENTS:
                return out
        return x

    def unary(self, x, tensors):
        if x.dtype is dt.bool_:
            return ops.logical_not(x)
        f = self.pick(ops.neg, ops.neg, ops.abs, ops.square, ops.relu, ops.floor, ops.sign,
                      ops.identity, ops.stop_gradient)  # fmt: skip
        return f(x)

    def binary(self, x, tensors):
        y = self.pick(x, *tensors, self.pick(*NUMBERS), self.pick(*NUMBERS))
        if x.dtype is dt.bool_:
            return self.pick(ops.logical_and, ops.logical_or)(x, y)
        kind = self.random.randint(0, 7)
        if kind == 7:
            return ops.select(x > 0, x, y if isinstance(y, Tensor) else -x)
        f = [ops.add, ops.mul, ops.sub, ops.maximum, ops.div, ops.add, ops.mul][kind]
        return f(y, x) if self.chance(0.4) else f(x, y)

    def moved(self, x, tensors):
        kind = self.random.randint(0, 6)
        size, shape = int(np.prod(x.shape)), x.shape
        if kind < 2:
            fits = [s for s in SHAPES if int(np.prod(s)) == size]
            return ops.reshape(x, self.pick(*fits, (1, *shape), (*shape, 1), (size,)))
        if kind == 2:
            perm = list(range(len(shape)))
            self.random.shuffle(perm)
            return ops.transpose(x, tuple(perm))
        if kind == 3:
            return ops.broadcast_to(x, self.pick((2, *shape), *SHAPES))
        if kind == 4:
            return ops.expand_dims(x, 0) if self.chance(0.5) else ops.squeeze(x)
        if kind == 5 and not x.dtype.is_float:
            return ops.cast(x, self.pick(*DTYPES))
        return ops.cast(x, self.pick(dt.float32, dt.float64, dt.float16))

    def reduced(self, x, tensors):
        axes = tuple(a for a in range(len(x.shape)) if self.chance(0.5))
        if x.dtype is dt.bool_:
            return self.pick(ops.all, ops.any)(x, axes or None, self.chance(0.5))
        f = self.pick(ops.reduce_sum, ops.reduce_max, ops.reduce_min, ops.reduce_sum, ops.prod)
        if f is ops.prod and x.dtype.is_float:
            f = ops.reduce_mean
        return f(x, axes, self.chance(0.5))

    def product(self, x, tensors):
        y = self.pick(*tensors)
        whole = [ops.cast(v > 0, dt.int32) for v in (x, y)]  # no rounding
        n = min(len(v.shape) for v in whole)
        if n < 2:
            raise ValueError("no matrices")
        if self.chance(0.5):
            whole = [ops.swapaxes(v, -1, -2) for v in whole]
        made = ops.MatMul if n == max(len(v.shape) for v in whole) == 2 else ops.BatchMatMul
        return made(self.chance(0.3), self.chance(0.3))(*whole)

    # ------------------------------------------------------------------------------ other graphs

    def called(self, pool: list, depth: int):
        if not self.made or self.chance(0.4):
            self.made.append(self.graph(self.types(1, 3), self.types(1, 3), depth))
        graph = self.pick(*self.made)
        operands = [self.fitting(pool, p.abstract) for p in graph.parameters]
        return self.item(apply_node(graph, *map(node_of, operands)))

    def switched(self, pool: list, depth: int):
        takes, gives = self.types(1, 3), self.types(1, 3)
        arms = tuple(self.graph(takes, gives, depth) for _ in range(2))
        if self.chance(0.15):
            arms = (arms[0], arms[0])
        operands = [self.fitting(pool, t) for t in takes]
        choice = self.condition(pool)
        return self.item(apply_node(Switch(arms), choice, *map(node_of, operands)))

    def condition(self, pool: list):
        tensors = [v for v in pool if isinstance(v, Tensor)]
        if not tensors or self.chance(0.15):
            return node_of(self.pick(True, False))
        x = self.pick(*tensors)
        x = x if x.dtype is dt.bool_ else x > 0
        x = ops.any(x) if x.shape != () else x
        return node_of(ops.logical_not(x) if self.chance(0.2) else x)

    def looped(self, pool: list, depth: int):
        """A loop of at most four turns: constants, a counter, carries."""
        constants, carry = self.types(0, 2), [INT, *self.types(1, 3)]
        if self.chance(0.4):
            carry.append(self.pick(*carry))  # perhaps one that is always equal
        takes, n = [*constants, *carry], len(constants)
        turns = self.pick(0, 1, 3, 4)
        nodes = [ParameterNode(f"c{i}", t) for i, t in enumerate(takes)]
        cond = FuncGraph("cond", nodes, apply_node("ScalarLess", nodes[n], turns))
        body = self.graph(takes, carry, depth)
        items = list(body.outputs())
        items[0] = apply_node("ScalarAdd", body.parameters[n], 1)
        for k in range(1, len(items)):
            if self.chance(0.25):
                items[k] = body.parameters[n + k]
            elif self.chance(0.2) and carry[k] == carry[k - 1]:
                items[k] = items[k - 1]
        body = FuncGraph("body", body.parameters, make_tuple(items))
        operands = [node_of(self.fitting(pool, t)) for t in takes]
        operands[n] = node_of(0)
        for k in range(n + 2, len(operands)):
            if takes[k] == takes[k - 1] and self.chance(0.5):
                operands[k] = operands[k - 1]
        count = turns if self.chance(0.3) else None
        return self.item(apply_node(While(cond, body, n, count), *operands))

    def item(self, call):
        return wrap(tuple_item(call, self.random.randrange(len(call.abstract.items))))

    # ------------------------------------------------------------------------------------ inputs

    def value(self, abstract: Abstract):
        if isinstance(abstract, AbstractScalar):
            return self.pick(0, 1, 3, -2)
        assert isinstance(abstract, AbstractTensor)
        pool = {"float": SPECIAL, "bool": [True, False]}.get(abstract.dtype.kind, [0, 1, -1, 7])
        flat = np.array([self.pick(*pool) for _ in range(abstract.size)])
        with np.errstate(all="ignore"):
            return flat.astype(abstract.dtype.numpy).reshape(abstract.shape)


def type_of(value) -> Abstract:
    return node_of(value).abstract


def node_of(value):
    return GraphBuilder().node_of(value)


def make(seed: int) -> tuple[FuncGraph, list]:
    """A program and inputs for it."""
    graphs = Graphs(seed)
    takes = graphs.types(1, 4)
    gives = graphs.types(2, 5)
    graph = graphs.graph(takes, gives, depth=2)
    return graph, [graphs.value(t) for t in takes]
