"""Products with a Jacobian, and Jacobians: vjp, jvp, jacrev, jacfwd.

All of them rest on one building block, ``linearise``: it runs a function once and gives its value
and `pull`, which goes backward as often as it is called.  Here that is a walk over a tape; inside a
graph J makes the function a forward and a backward graph, and `pull` is a call of the second
(frontend/gradient.py).  The rest is the same in both modes:

    vjp      pull itself:  u -> u J
    jvp      v -> J v.  pull is linear in u, and *its* pull is this: no second table of rules
    jacrev   J, one row for each unit vector u
    jacfwd   J, one column for each unit vector v
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from minispore import ops
from minispore.autodiff import api
from minispore.autodiff.api import GradFunction, Weights, cotangents_of, gradients, taped
from minispore.autodiff.tape import saved
from minispore.primitive import current_handler, is_tracing
from minispore.tensor import Tensor, is_tensor
from minispore.tree import flatten, unflatten

Pull = Callable[[Sequence[Tensor]], list[Tensor]]


def linearise(gradient: GradFunction, inputs: tuple) -> tuple[Any, Pull]:
    """The value of a function at a point, and its pull there.

    Args:
        gradient: says what is differentiated, and with respect to what.
        inputs: the arguments.

    Returns:
        The value, and a function from one cotangent for each of ``gradient.differentiated(value)``
        to one for each of ``gradient.select(inputs, {}).variables``.
    """
    if is_tracing():
        handler: Any = current_handler()
        if not hasattr(handler, "linearise"):
            api.refuse_tracing(f"the gradient of {gradient.__name__}")
        return handler.linearise(gradient, inputs)
    selection = gradient.select(inputs, {})
    run, fn = api.runner(), gradient.fn
    if run is not None:
        fn = lambda *args: run(gradient.fn, args, {})  # noqa: E731
    tape, keys, value = taped(fn, inputs, {}, selection)
    if tape.stand_ins.moved:
        tape.stand_ins.refuse()
    outputs = [saved(o) for o in gradient.differentiated(value)]  # they may be written later

    def pull(cotangents: Sequence[Tensor]) -> list[Tensor]:
        return gradients(tape, outputs, cotangents, keys, selection.variables)

    return value, pull


def stacked(
    count: int, row: Callable[[Any], list[Tensor]], likes: Sequence[Tensor]
) -> list[Tensor]:
    """The results of ``row(0) ... row(count - 1)``, stacked along a new first axis.

    `row` returns one Tensor like each of `likes`; in a graph `row` is the body of a loop.
    """
    if count == 0:
        return [ops.zeros((0, *t.shape), t.dtype) for t in likes]
    if is_tracing():
        handler: Any = current_handler()
        return handler.stacked(count, row, likes)
    return [ops.stack(column) for column in zip(*map(row, range(count)), strict=True)]


class Point:
    """A function at a point: its value, and products with its Jacobian in both directions.

    Attributes:
        value: what the function returned, without the aux.
        aux: () or, with has_aux, one more result: the aux, bare if it is one.
        tensors, outputs: the Tensors in `value`, and those of numbers among them.
        variables: the Tensors to differentiate by.
    """

    def __init__(
        self,
        name: str,
        fn: Callable,
        inputs: Sequence[Any],
        positions: Any = api.ALL,
        weights: Weights = None,
        has_aux: bool = False,
    ):
        for x in inputs:
            if not isinstance(x, Tensor):
                raise TypeError(f"{name}: inputs must be Tensors, not {type(x).__name__}")
        self.name = name
        self.gradient = GradFunction(fn, positions, weights, has_aux=has_aux)
        self.selection = self.gradient.select(tuple(inputs), {})
        self.variables = self.selection.variables
        self.value, self.pull = linearise(self.gradient, tuple(inputs))
        self.tensors = self.gradient.tensors(self.value)
        self.outputs = [t for t in self.tensors if t._abstract.has_cotangent]
        self.aux: tuple = ()
        if has_aux:
            self.value, *more = self.value
            self.aux = (more[0] if len(more) == 1 else tuple(more),)

    def turned(self) -> Pull:
        """From one tangent for each variable to one for each output."""
        seeds = [ops.zeros_like(o) for o in self.outputs]
        around = Point(self.name, lambda *u: tuple(self.pull(u)), seeds)

        def push(tangents: Sequence[Tensor]) -> list[Tensor]:
            return around.pull(cotangents_of(around.tensors, tuple(tangents)))

        return push


def vjp(fn: Callable, *inputs: Tensor, weights: Weights = None, has_aux: bool = False) -> tuple:
    """(value, vjp_fn[, aux]) of a function at a point (MindSpore: ``mindspore.vjp``).

    ``vjp_fn(v)``, with one cotangent per output, returns a tuple of one gradient per input, and a
    pair (of inputs, of weights) if weights are given.  It may be called again.

    Raises:
        TypeError: inputs that are no Tensors.
        RuntimeError: from vjp_fn: cotangents that do not fit the outputs.
    """
    api.checked_flags("vjp", has_aux=has_aux)
    weights = api.checked_weights("vjp", weights)
    point = Point("vjp", fn, inputs, weights=weights, has_aux=has_aux)

    def vjp_fn(*cotangents: Any) -> Any:
        found = point.pull(cotangents_of(point.tensors, cotangents))
        return point.gradient.package_gradients(point.selection, found)

    return (point.value, vjp_fn, *point.aux)


def jvp(fn: Callable, inputs: Any, v: Any, has_aux: bool = False) -> tuple:
    """(value, directional derivative[, aux]) of a function (MindSpore: ``mindspore.jvp``).

    Args:
        inputs: a Tensor, or a tuple or list of them: the point.
        v: Tensors like them: the direction.

    Raises:
        TypeError: inputs or directions that are no Tensors.
        ValueError: not as many directions as inputs.
    """
    api.checked_flags("jvp", has_aux=has_aux)
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    v = tuple(v) if isinstance(v, (tuple, list)) else (v,)
    if len(v) != len(inputs):
        raise ValueError(f"jvp: {len(v)} direction(s) for {len(inputs)} input(s)")
    return DirectionalDerivative(fn, has_aux)(*inputs, *v)


def derivative(fn: Callable, primals: Any, order: int) -> tuple:
    """(value, derivative of an order) of a function, where all inputs move alike.

    For one input and element-wise functions that is the ordinary derivative: ``ops.sin``, order 2,
    gives ``-sin``.  (MindSpore: ``mindspore.ops.derivative``, of fewer functions.)

    Args:
        primals: a Tensor, or a tuple or list of them: the point.
        order: 1 or more.

    Raises:
        TypeError: inputs that are no Tensors, or an order that is no int.
        ValueError: an order below 1.
    """
    if not isinstance(order, int) or isinstance(order, bool):
        raise TypeError(f"derivative: order must be an int, not {type(order).__name__}")
    if order < 1:
        raise ValueError(f"derivative: order must be 1 or more, not {order}")
    inputs = tuple(primals) if isinstance(primals, (tuple, list)) else (primals,)
    ones = tuple(map(ops.ones_like, inputs))
    value, found = jvp(fn, inputs, ones)
    for _ in range(order - 1):
        fn = _along_ones(fn)
        found = jvp(fn, inputs, ones)[1]
    return value, found


def _along_ones(fn: Callable) -> Callable:
    """The function that gives the derivative of `fn` where all inputs move alike."""
    return lambda *inputs: jvp(fn, inputs, tuple(map(ops.ones_like, inputs)))[1]


@dataclass(frozen=True)
class DirectionalDerivative:
    """``jvp`` of a function, as a function of the inputs and then as many directions."""

    fn: Callable
    has_aux: bool

    def __call__(self, *given: Any) -> tuple:
        if (run := api.runner()) is not None:
            return run(self, given, {})
        n = len(given) // 2
        point = Point("jvp", self.fn, given[:n], has_aux=self.has_aux)
        pushed = iter(point.turned()(given[n:]))
        leaves, structure = flatten(point.value, api.is_part)
        tangents = list(leaves)
        for i, v in enumerate(leaves):
            if is_tensor(v):
                tangents[i] = next(pushed) if v._abstract.has_cotangent else ops.zeros_like(v)
        return (point.value, unflatten(structure, tangents), *point.aux)


def jacrev(
    fn: Callable, grad_position: int | tuple[int, ...] = 0, has_aux: bool = False
) -> JacobianFunction:
    """A function that returns the Jacobian, found row by row, of shape (output, input).

    For several outputs or several positions it returns tuples (of tuples): by output, then by
    position.  With has_aux: (Jacobian, aux).  (MindSpore: ``mindspore.jacrev``)
    """
    return _jacobian("jacrev", fn, grad_position, has_aux)


def jacfwd(
    fn: Callable, grad_position: int | tuple[int, ...] = 0, has_aux: bool = False
) -> JacobianFunction:
    """A function that returns the Jacobian, found column by column: see ``jacrev``."""
    return _jacobian("jacfwd", fn, grad_position, has_aux)


def _jacobian(name: str, fn: Any, grad_position: Any, has_aux: Any) -> JacobianFunction:
    positions = api.checked_positions(name, grad_position)
    api.checked_flags(name, has_aux=has_aux)
    numbers = positions if isinstance(positions, tuple) else (positions,)
    return JacobianFunction(name, fn, numbers, has_aux)


@dataclass(frozen=True)
class JacobianFunction:
    """What jacrev and jacfwd (`name`) return; equal ones have one function and equal options."""

    name: str
    fn: Callable
    positions: tuple[int, ...]
    has_aux: bool

    def __post_init__(self) -> None:
        name = getattr(self.fn, "__name__", type(self.fn).__name__)
        object.__setattr__(self, "__name__", name)
        object.__setattr__(self, "__doc__", getattr(self.fn, "__doc__", None))

    def __call__(self, *inputs: Any) -> Any:
        if (run := api.runner()) is not None:
            return run(self, inputs, {})
        if max(self.positions) >= len(inputs):
            raise ValueError(
                f"{self.name}: grad_position {max(self.positions)}, but {len(inputs)} argument(s)"
            )
        point = Point(self.name, self.fn, inputs, self.positions, has_aux=self.has_aux)
        table = rows_of(point) if self.name == "jacrev" else columns_of(point)
        by_output = [row[0] if len(row) == 1 else tuple(row) for row in table]
        result = by_output[0] if len(by_output) == 1 else tuple(by_output)
        return (result, *point.aux) if self.has_aux else result


def rows_of(point: Point) -> list[list[Tensor]]:
    """The Jacobians of each output by each variable: a pull gives a row of all variables'."""
    table = []
    for k, output in enumerate(point.outputs):

        def row(i: Any, k: int = k) -> list[Tensor]:
            return point.pull(_unit(point.outputs, k, i))

        found = zip(stacked(output.size, row, point.variables), point.variables, strict=True)
        table.append([ops.reshape(rows, output.shape + x.shape) for rows, x in found])
    return table


def columns_of(point: Point) -> list[list[Tensor]]:
    """The same, where a push gives a column of all outputs'."""
    push = point.turned()
    by_variable = []
    for k, x in enumerate(point.variables):

        def column(i: Any, k: int = k) -> list[Tensor]:
            return push(_unit(point.variables, k, i))

        found = zip(stacked(x.size, column, point.outputs), point.outputs, strict=True)
        by_variable.append(
            [ops.reshape(ops.movedim(columns, 0, -1), y.shape + x.shape) for columns, y in found]
        )
    return [list(jacobians) for jacobians in zip(*by_variable, strict=True)]


def _unit(likes: Sequence[Tensor], which: int, i: Any) -> list[Tensor]:
    """Zeros like some Tensors, but for a single 1: element `i` of Tensor number `which`."""
    found = [ops.zeros_like(t) for t in likes]
    like = likes[which]
    one = ops.cast(ops.equal(ops.arange(prod(like.shape)), i), like.dtype)
    found[which] = ops.reshape(one, like.shape)
    return found


__all__ = [
    "JacobianFunction", "Point", "derivative", "jacfwd", "jacrev", "jvp", "linearise", "stacked",
    "vjp",
]  # fmt: skip
