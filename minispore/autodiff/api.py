"""What users call for gradients: grad, value_and_grad, GradOperation, vjp, jvp, jacrev, jacfwd.

All of the first three make a GradFunction.  It keeps two questions apart:

* which Tensors a call is differentiated with respect to, and how MindSpore packs the answer
  (``select`` and ``package``), which the compiler's front end asks as well;
* how the gradients are found: here by a tape; in GRAPH_MODE, or inside a compiled function, by J.

What is differentiated is the sum of all float Tensors that the function returns (with ``has_aux``:
of the first thing it returns).  Each argument is a variable of its own, also where one Tensor is
given twice, or is reached through a closure as well.  (So it is in MindSpore's graph mode; its
PyNative mode gives each the total.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minispore import ops
from minispore.autodiff.tape import Tape
from minispore.context import GRAPH_MODE, get_context
from minispore.ops import stop_gradient
from minispore.parameter import Parameter
from minispore.primitive import is_number, is_tracing
from minispore.tensor import Tensor, is_tensor, tapes
from minispore.tree import flatten, unflatten

ALL = "all"  # as grad_position: every Tensor among the arguments, always as a tuple

Weights = Parameter | tuple | list | None

# Set by the compiler: runs a GradFunction on (args, kwargs) as a graph.
graph_runner: Callable[[GradFunction, tuple, dict], Any] | None = None


@dataclass(frozen=True)
class Selection:
    """What one call is differentiated with respect to.

    `numbers` are the positions of `inputs` among the arguments; `weights` are Parameters, of which
    those with ``requires_grad=False`` get zeros.
    """

    numbers: tuple[int, ...]
    inputs: tuple[Tensor, ...]
    weights: tuple[Parameter, ...]

    @property
    def variables(self) -> tuple[Tensor, ...]:
        """Inputs and weights, in the order of their gradients."""
        return (*self.inputs, *self.weights)


class GradFunction:
    """The gradient of a function: called like it, returns gradients (and, if asked, its value).

    Attributes:
        fn: a function, Cell, compiled function or other GradFunction.
        positions: None, an int, a tuple of ints, or ALL.
        weights: None, a Parameter, or a tuple or list of them.
        has_aux: only the first of several outputs is differentiated.
        return_ids: each gradient comes as (position or name, gradient).
        with_value: results are (value, gradients).
        with_sens: the last argument (or ``sens=``) is the cotangent of the output.

    Two of them are equal if all that is equal.
    """

    def __init__(
        self,
        fn: Callable,
        positions: int | tuple | str | None,
        weights: Weights = None,
        *,
        has_aux: bool = False,
        return_ids: bool = False,
        with_value: bool = False,
        with_sens: bool = False,
    ):
        if not callable(fn):
            raise TypeError(f"only a function or Cell has a gradient, not {type(fn).__name__}")
        self.fn = fn
        self.positions = positions
        self.weights = weights
        self.has_aux = has_aux
        self.return_ids = return_ids
        self.with_value = with_value
        self.with_sens = with_sens
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self.__doc__ = getattr(fn, "__doc__", None)

    def _key(self) -> tuple:
        several = isinstance(self.weights, (tuple, list))
        weights = tuple(self.weights) if several else (self.weights,)  # type: ignore[arg-type]
        return (
            self.fn, self.positions, several, *map(id, weights), self.has_aux, self.return_ids,
            self.with_value, self.with_sens,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFunction) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<gradient of {self.__name__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if graph_runner is not None and get_context("mode") == GRAPH_MODE and not is_tracing():
            return graph_runner(self, args, kwargs)
        refuse_tracing(f"the gradient of {self.__name__}")
        args, kwargs, sens = self.split_sens(args, kwargs)
        selection = self.select(args, kwargs)
        tape, keys, value = taped(self.fn, args, kwargs, selection)
        outputs = self.differentiated(value)
        cotangents = cotangents_of(outputs, sens) if self.with_sens else map(ops.ones_like, outputs)
        found = gradients(tape, outputs, list(cotangents), keys, selection.variables)
        return self.package(value, selection, found)

    # ------------------------------------------------- what is differentiated, and the answer

    def split_sens(self, args: tuple, kwargs: dict) -> tuple[tuple, dict, Any]:
        """The function's own arguments, and the cotangent of its output (None without sens)."""
        if not self.with_sens:
            return args, kwargs, None
        if "sens" in kwargs:
            return args, {k: v for k, v in kwargs.items() if k != "sens"}, kwargs["sens"]
        if not args:
            raise TypeError(
                f"the gradient of {self.__name__} takes the cotangent of the output last"
            )
        return args[:-1], kwargs, args[-1]

    def select(self, args: tuple, kwargs: dict) -> Selection:
        """The Tensors that a call is differentiated with respect to.

        Arguments that are no Tensors have no gradient and are left out.

        Raises:
            RuntimeError: there is no argument at a position asked for.
        """
        given = (*args, *kwargs.values())
        wanted: Any
        if self.positions is None:
            wanted = ()
        elif self.positions == ALL:
            wanted = range(len(given))
        else:
            wanted = self.positions if isinstance(self.positions, tuple) else (self.positions,)
        for i in wanted:
            if i >= len(given):
                raise RuntimeError(
                    f"grad_position {i} is out of range: {self.__name__} was called with "
                    f"{len(given)} argument(s)"
                )
        numbers = tuple(i for i in wanted if isinstance(given[i], Tensor))
        weights = self.weights
        if weights is None or isinstance(weights, Tensor):
            weights = () if weights is None else (weights,)
        return Selection(numbers, tuple(given[i] for i in numbers), tuple(weights))

    def differentiated(self, value: Any) -> list[Tensor]:
        """The float Tensors, in what the function returned, whose sum is differentiated.

        Raises:
            ValueError: ``has_aux``, and the function did not return a tuple of two or more.
        """
        if self.has_aux:
            if not isinstance(value, tuple) or len(value) < 2:
                raise ValueError(
                    f"has_aux=True, but {self.__name__} does not return several outputs: "
                    "return (what to differentiate, aux...)"
                )
            value = value[0]
        return [t for t in flatten(value, is_tensor)[0] if t.dtype.is_float]

    def package(self, value: Any, selection: Selection, found: Sequence[Any]) -> Any:
        """MindSpore's result: value, gradients and aux in their structure.

        Args:
            value: what the function returned.
            selection: what ``select`` gave for the call.
            found: a gradient for each of ``selection.variables``.

        The result is (value, gradients), or the gradients, with has_aux (gradients, aux).
        """
        result = self.package_gradients(selection, found)
        if self.with_value:
            return value, result
        return (result, value[1:]) if self.has_aux else result

    def package_gradients(self, selection: Selection, found: Sequence[Any]) -> Any:
        """The gradients in MindSpore's structure.

        grad_position an int gives a bare gradient (() if that argument is no Tensor); a tuple gives
        a bare one for one Tensor and a tuple otherwise; a Parameter as weights a bare one, a tuple
        or list of them a tuple; inputs and weights a pair.
        """
        names = [w.name for w in selection.weights]
        if self.return_ids:
            found = list(zip((*selection.numbers, *names), found, strict=True))
        n = len(selection.numbers)
        inputs, weights = tuple(found[:n]), tuple(found[n:])
        parts: list[Any] = []
        if self.positions is not None:
            parts.append(inputs[0] if n == 1 and self.positions != ALL else inputs)
        if self.weights is not None:
            parts.append(weights[0] if isinstance(self.weights, Tensor) else weights)
        return parts[0] if len(parts) == 1 else tuple(parts)


def refuse_tracing(what: str) -> None:
    """RuntimeError inside a graph, where a tape would see nothing."""
    if is_tracing():
        raise RuntimeError(
            f"{what} cannot be run inside a compiled function; there, call grad or "
            "value_and_grad of a function (sens_param=True gives it a cotangent)"
        )


def taped(
    fn: Callable, args: tuple, kwargs: dict, selection: Selection
) -> tuple[Tape, list[int], Any]:
    """A call on a tape: the tape, the keys of the selection's variables, and the value."""
    given = [*args, *kwargs.values()]
    inputs = [as_variable(x) for x in selection.inputs]
    for i, x in zip(selection.numbers, inputs, strict=True):
        given[i] = x
    for w in {id(w): w for w in selection.weights}.values():
        w._key = as_variable(w)._key  # another Tensor may have been assigned from it
    with Tape() as tape:
        keys = [tape.watch(x) for x in inputs]
        keys += [tape.watch(w) if w.requires_grad else 0 for w in selection.weights]
        tape.guard([x for x in given if isinstance(x, Tensor)])
        value = fn(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))
    for leaf in flatten(value, is_tensor)[0]:
        if any(leaf is x for x in inputs):
            leaf._data = leaf._data.copy()  # results share no memory with arguments
    return tape, keys, value


def as_variable(x: Tensor) -> Tensor:
    """The value of a Tensor as a value of its own, which tapes know to be equal to it."""
    variable = Tensor._wrap(x._data)
    for tape in tapes.active:
        tape.record(ops.Identity.bound(), (x,), variable)
    return variable


def gradients(
    tape: Tape,
    outputs: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    keys: Sequence[int],
    variables: Sequence[Tensor],
) -> list[Tensor]:
    """The gradients of watched values, zeros where there is none, as Tensors of their own."""
    shared = {id(t._data) for t in (*outputs, *cotangents, *variables)}
    results = []
    for gradient, variable in zip(tape.backward(outputs, cotangents, keys), variables, strict=True):
        if gradient is None:
            results.append(ops.zeros_like(variable))
            continue
        own = Tensor._wrap(
            gradient._data.copy() if id(gradient._data) in shared else gradient._data
        )
        own._key = gradient._key  # the same value, for the tapes around this one
        shared.add(id(own._data))
        results.append(own)
    return results


def cotangents_of(outputs: Sequence[Tensor], sens: Any) -> list[Tensor]:
    """What the caller gave as the outputs' cotangents: one Tensor or number per output.

    Raises:
        RuntimeError: their number, or the shape of one, is not that of the outputs.
    """
    given = flatten(sens, lambda v: isinstance(v, Tensor) or is_number(v))[0]
    if len(given) != len(outputs):
        raise RuntimeError(
            f"{len(given)} cotangent(s) for {len(outputs)} float output(s): give one for each"
        )
    results = []
    for output, cotangent in zip(outputs, given, strict=True):
        tensor = ops.cast(cotangent if isinstance(cotangent, Tensor) else Tensor(cotangent),
                          output.dtype)  # fmt: skip
        if tensor.shape != output.shape:
            raise RuntimeError(
                f"a cotangent has shape {tensor.shape}, and its output {output.shape}: "
                "they must be equal"
            )
        results.append(tensor)
    return results


# ------------------------------------------------------------------------- grad and its kin


def _checked_flags(name: str, **flags: Any) -> None:
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name}: {flag} must be a bool, not {type(value).__name__}")


def _checked_positions(name: str, positions: Any) -> int | tuple[int, ...]:
    if isinstance(positions, int):
        numbers: tuple = (positions,)
    elif isinstance(positions, tuple) and all(isinstance(p, int) for p in positions):
        numbers = positions
    else:
        raise TypeError(
            f"{name}: grad_position must be an int or a tuple of ints, not {positions!r}"
        )
    if not numbers:
        raise ValueError(f"{name}: grad_position must not be empty; None is for weights only")
    if any(p < 0 for p in numbers):
        raise ValueError(f"{name}: grad_position must not be negative: {positions}")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{name}: grad_position has duplicates: {positions}")
    return positions


def _checked_weights(name: str, weights: Any) -> Weights:
    if weights is None or isinstance(weights, Parameter):
        return weights
    if not isinstance(weights, (tuple, list)):
        raise TypeError(
            f"{name}: weights must be a Parameter or a tuple or list of them, "
            f"not {type(weights).__name__}"
        )
    for w in weights:
        if not isinstance(w, Parameter):
            raise TypeError(
                f"{name}: weights must be Parameters, not {type(w).__name__}; a Tensor can be an "
                "argument of the function, with its number in grad_position"
            )
    return tuple(weights)


def _gradient(
    name: str, fn: Any, grad_position: Any, weights: Any, flags: dict[str, bool], with_value: bool
) -> GradFunction:
    """The GradFunction for checked arguments of grad and value_and_grad."""
    if grad_position is None and weights is None:
        raise ValueError(f"{name}: grad_position and weights must not both be None")
    _checked_flags(name, **flags)
    positions = None if grad_position is None else _checked_positions(name, grad_position)
    return GradFunction(
        fn,
        positions,
        _checked_weights(name, weights),
        has_aux=flags["has_aux"],
        return_ids=flags["return_ids"],
        with_sens=flags["sens_param"],
        with_value=with_value,
    )


def grad(
    fn: Callable,
    grad_position: int | tuple[int, ...] | None = 0,
    weights: Weights = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: bool = False,
) -> GradFunction:
    """A function that returns the gradients of `fn` (MindSpore: ``mindspore.grad``).

    Args:
        fn: a function or Cell; the sum of its float outputs is differentiated.
        grad_position: the arguments to differentiate: a number, a tuple of them, or None.
        weights: Parameters to differentiate: one, a tuple or list, or None.
        has_aux: `fn` returns (what to differentiate, aux...); the result is (gradients, aux).
        return_ids: give each gradient as (position or name, gradient), for ``get_grad``.
        sens_param: the last argument of a call is the cotangent of the output.

    Returns:
        A function with the arguments of `fn`.  It returns a bare Tensor for one position or one
        Parameter, else a tuple; for both kinds a pair (of inputs, of weights).  A gradient
        has its variable's dtype and shape; it is zeros for integers and for what `fn` does not use.

    Raises:
        TypeError, ValueError: arguments that are none of the above.
        RuntimeError: when it is called: a position out of range, or an argument that is written
            in place.
    """
    flags = {"has_aux": has_aux, "return_ids": return_ids, "sens_param": sens_param}
    return _gradient("grad", fn, grad_position, weights, flags, with_value=False)


def value_and_grad(
    fn: Callable,
    grad_position: int | tuple[int, ...] | None = 0,
    weights: Weights = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: bool = False,
) -> GradFunction:
    """A function that returns (value, gradients) of `fn`: see ``grad``.

    With has_aux the value is all that `fn` returned.  (MindSpore: ``mindspore.value_and_grad``)
    """
    flags = {"has_aux": has_aux, "return_ids": return_ids, "sens_param": sens_param}
    return _gradient("value_and_grad", fn, grad_position, weights, flags, with_value=True)


class GradOperation:
    """Makes gradient functions: ``GradOperation(...)(net, weights)(x)``.

    Args:
        get_all: the gradients of all Tensors among the arguments, as a tuple; else of the first.
        get_by_list: those of `weights` (by default the Cell's trainable Parameters), and not of
            arguments unless get_all.
        sens_param: the last argument of a call is the cotangent of the output.
    """

    def __init__(self, get_all: bool = False, get_by_list: bool = False, sens_param: bool = False):
        _checked_flags(
            "GradOperation", get_all=get_all, get_by_list=get_by_list, sens_param=sens_param
        )
        self.get_all, self.get_by_list, self.sens_param = get_all, get_by_list, sens_param

    def __call__(self, fn: Callable, weights: Weights = None) -> GradFunction:
        positions = ALL if self.get_all else None if self.get_by_list else 0
        if not self.get_by_list:
            weights = None
        elif weights is None:
            trainable = getattr(fn, "trainable_params", tuple)
            weights = tuple(trainable())
        weights = _checked_weights("GradOperation", weights)
        return GradFunction(fn, positions, weights, with_sens=self.sens_param)


def get_grad(gradients: Any, identifier: int | Parameter) -> Tensor:
    """One gradient out of what ``grad(..., return_ids=True)`` returned.

    Args:
        gradients: that result.
        identifier: an argument's position, or a Parameter.

    Raises:
        TypeError: the identifier is neither an int nor a Parameter.
        RuntimeError: there is no gradient for it.
    """
    if not isinstance(identifier, (int, Parameter)):
        raise TypeError(
            f"get_grad takes a position or a Parameter, not {type(identifier).__name__}"
        )
    wanted = identifier.name if isinstance(identifier, Parameter) else identifier
    for name, gradient in _pairs(gradients):
        if type(name) is type(wanted) and name == wanted:
            return gradient
    raise RuntimeError(f"there is no gradient for {identifier!r}: was return_ids=True given?")


def _pairs(tree: Any) -> Iterator[tuple]:
    """The (id, gradient) pairs in a result."""
    if not isinstance(tree, tuple):
        return
    if len(tree) == 2 and isinstance(tree[0], (int, str)):
        yield tree
        return
    for item in tree:
        yield from _pairs(item)


# ------------------------------------------------------------------- products with a Jacobian


class _Linearised:
    """A function at a point: its value, and products with its Jacobian in both directions."""

    def __init__(self, name: str, fn: Callable, inputs: Any, weights: Weights, has_aux: bool):
        refuse_tracing(name)
        _checked_flags(name, has_aux=has_aux)
        for x in inputs:
            if not isinstance(x, Tensor):
                raise TypeError(f"{name}: inputs must be Tensors, not {type(x).__name__}")
        self.gradient = GradFunction(fn, ALL, _checked_weights(name, weights), has_aux=has_aux)
        self.selection = self.gradient.select(tuple(inputs), {})
        self.tape, self.keys, value = taped(fn, tuple(inputs), {}, self.selection)
        self.outputs = self.gradient.differentiated(value)
        self.value = value[0] if has_aux else value
        self.aux: tuple = ()  # one more result: the aux, bare if it is one
        if has_aux:
            self.aux = (value[1] if len(value) == 2 else value[1:],)

    def pull(self, cotangents: Any) -> list[Tensor]:
        """cotangents^T J: one Tensor per variable."""
        given = cotangents_of(self.outputs, cotangents)
        return gradients(self.tape, self.outputs, given, self.keys, self.selection.variables)

    @functools.cached_property
    def pulled(self) -> tuple[Tape, list[Tensor], list[int]]:
        """``pull`` of some u, on a tape that watches u.

        It is linear in u, and its own pull is J: forward products need no second table of rules.
        """
        with Tape() as tape:
            seeds = [ops.zeros_like(o) for o in self.outputs]
            keys = [tape.watch(u) for u in seeds]
            results = self.pull(seeds)
        return tape, results, keys

    def push(self, tangents: Sequence[Tensor]) -> Any:
        """J tangents, in the structure of the value."""
        tape, results, keys = self.pulled
        floats = [(r, t) for r, t in zip(results, tangents, strict=True) if r.dtype.is_float]
        given = cotangents_of([r for r, _ in floats], [t for _, t in floats])
        found = gradients(tape, [r for r, _ in floats], given, keys, self.outputs)
        leaves, structure = flatten(self.value, is_tensor)
        pushed = iter(found)
        return unflatten(
            structure, [next(pushed) if t.dtype.is_float else ops.zeros_like(t) for t in leaves]
        )


def vjp(fn: Callable, *inputs: Tensor, weights: Weights = None, has_aux: bool = False) -> tuple:
    """(value, vjp_fn[, aux]) of a function at a point (MindSpore: ``mindspore.vjp``).

    ``vjp_fn(v)``, with one cotangent per output, returns a tuple of one gradient per input, and a
    pair (of inputs, of weights) if weights are given.  It may be called again.

    Raises:
        TypeError: inputs that are no Tensors.
        RuntimeError: from vjp_fn: cotangents that do not fit the outputs.
    """
    point = _Linearised("vjp", fn, inputs, weights, has_aux)

    def vjp_fn(*cotangents: Any) -> Any:
        return point.gradient.package_gradients(point.selection, point.pull(cotangents))

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
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    v = tuple(v) if isinstance(v, (tuple, list)) else (v,)
    if len(v) != len(inputs):
        raise ValueError(f"jvp: {len(v)} direction(s) for {len(inputs)} input(s)")
    point = _Linearised("jvp", fn, inputs, None, has_aux)
    return (point.value, point.push(v), *point.aux)


def jacrev(
    fn: Callable, grad_position: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable:
    """A function that returns the Jacobian, found row by row, of shape (output, input).

    For several outputs or several positions it returns tuples (of tuples): by output, then by
    position.  With has_aux: (Jacobian, aux).  (MindSpore: ``mindspore.jacrev``)
    """

    def rows(point: _Linearised, numbers: tuple[int, ...]) -> list[list[Tensor]]:
        jacobians = []
        for k, output in enumerate(point.outputs):
            found = []
            for unit in units(output):
                cotangents = [ops.zeros_like(o) for o in point.outputs]
                cotangents[k] = unit
                found.append(point.pull(cotangents))
            jacobians.append(
                [
                    ops.reshape(
                        ops.stack([row[i] for row in found]),
                        output.shape + point.selection.inputs[i].shape,
                    )
                    for i in numbers
                ]
            )
        return jacobians

    return _jacobian("jacrev", fn, grad_position, has_aux, rows)


def jacfwd(
    fn: Callable, grad_position: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable:
    """A function that returns the Jacobian, found column by column: see ``jacrev``."""

    def columns(point: _Linearised, numbers: tuple[int, ...]) -> list[list[Tensor]]:
        by_input = []
        for i in numbers:
            found = []
            for unit in units(point.selection.inputs[i]):
                tangents = [ops.zeros_like(x) for x in point.selection.inputs]
                tangents[i] = unit
                pushed = flatten(point.push(tangents), is_tensor)[0]
                found.append([t for t in pushed if t.dtype.is_float])
            by_input.append(found)
        return [
            [
                ops.reshape(
                    ops.stack([column[k] for column in found], axis=-1),
                    output.shape + point.selection.inputs[i].shape,
                )
                for i, found in zip(numbers, by_input, strict=True)
            ]
            for k, output in enumerate(point.outputs)
        ]

    return _jacobian("jacfwd", fn, grad_position, has_aux, columns)


def units(like: Tensor) -> Iterator[Tensor]:
    """The unit Tensors of a shape: a single 1, in each place in turn."""
    for i in range(like.size):
        unit = np.zeros(like.size, like.dtype.numpy)
        unit[i] = 1
        yield Tensor(unit.reshape(like.shape))


def _jacobian(
    name: str, fn: Callable, grad_position: Any, has_aux: bool, find: Callable
) -> Callable:
    """What jacrev and jacfwd return; `find` gives the Jacobians by output and position."""
    positions = _checked_positions(name, grad_position)
    numbers = positions if isinstance(positions, tuple) else (positions,)

    @functools.wraps(fn, updated=())
    def jacobian(*inputs: Any) -> Any:
        if max(numbers) >= len(inputs):
            raise ValueError(f"{name}: grad_position {positions}, but {len(inputs)} argument(s)")
        point = _Linearised(name, fn, inputs, None, has_aux)
        rows = [row[0] if len(row) == 1 else tuple(row) for row in find(point, numbers)]
        result = rows[0] if len(rows) == 1 else tuple(rows)
        return (result, *point.aux) if has_aux else result

    return jacobian


__all__ = [
    "GradFunction", "GradOperation", "Selection", "get_grad", "grad", "jacfwd", "jacrev", "jvp",
    "stop_gradient", "value_and_grad", "vjp",
]  # fmt: skip
