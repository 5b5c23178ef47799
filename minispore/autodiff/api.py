"""What users call for gradients: grad, value_and_grad, GradOperation.

All of them make a GradFunction.  It keeps two questions apart:

* which Tensors a call is differentiated with respect to, and how MindSpore packs the answer
  (``select`` and ``package``), which the compiler's front end asks as well;
* how the gradients are found: here by a tape; in GRAPH_MODE, or inside a compiled function, by J.

What is differentiated is the sum of all Tensors that the function returns but Bool ones (with
``has_aux``: of the first thing it returns).  Each argument is a variable of its own, also where
one Tensor is given twice, or is reached through a closure as well.  (So it is in MindSpore's graph
mode; its PyNative mode gives each the total.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from minispore import ops
from minispore.autodiff.tape import StandIns, Tape
from minispore.context import GRAPH_MODE, get_context
from minispore.ops import stop_gradient
from minispore.parameter import Parameter
from minispore.primitive import ScalarLike, current_handler, is_number, is_tracing
from minispore.tensor import Tensor, is_tensor, tapes
from minispore.tree import (
    PLAIN,
    Constant,
    Container,
    Marked,
    Picked,
    Structure,
    Text,
    constant,
    flatten,
    unflatten,
)  # fmt: skip

ALL = "all"  # as grad_position: every Tensor among the arguments, always as a tuple

Weights = Parameter | tuple | list | None

# Set by the compiler: runs a function, or what differentiates one, on (args, kwargs) as a graph.
graph_runner: Callable[[Callable, tuple, dict], Any] | None = None


def runner() -> Callable[[Callable, tuple, dict], Any] | None:
    """The graph_runner in GRAPH_MODE, unless a graph is being built; else None."""
    return graph_runner if get_context("mode") == GRAPH_MODE and not is_tracing() else None


@dataclass(frozen=True)
class Selection:
    """What one call is differentiated with respect to.

    `numbers` are positions among the arguments.  At each is a Tensor, or a container that
    ``mutable`` gave: `structure` is that of all these, `inputs` are the Tensors in them.  `weights`
    are Parameters, of which those with ``requires_grad=False`` get zeros.
    """

    numbers: tuple[int, ...]
    structure: Structure
    inputs: tuple[Tensor, ...]
    weights: tuple[Parameter, ...]

    @property
    def variables(self) -> tuple[Tensor, ...]:
        """Inputs and weights, in the order of their gradients."""
        return (*self.inputs, *self.weights)

    def put(self, given: list[Any], inputs: Sequence[Tensor]) -> None:
        """Replace the Tensors in the arguments."""
        for i, value in zip(self.numbers, unflatten(self.structure, inputs), strict=True):
            given[i] = value

    def check(self, given: list[Any], inputs: Sequence[Tensor]) -> None:
        """RuntimeError if the function has changed the containers that ``put`` made."""
        now, structure = flatten(tuple(given[i] for i in self.numbers), is_tensor)
        if structure != self.structure or any(map(operator.is_not, now, inputs)):
            raise RuntimeError(
                "a container that the function is differentiated by is changed: copy it first"
            )

    def gathered(self, gradients: Sequence[Any]) -> tuple:
        """One gradient per number, from one per input."""
        return unflatten(_of_gradients(self.structure), gradients)


def _of_gradients(structure: Structure) -> Structure:
    """The structure of gradients by values of a structure: plain containers, 0 for numbers."""
    if isinstance(structure, Container):
        items = tuple(map(_of_gradients, structure.items))
        kind = PLAIN.get(structure.kind, structure.kind)
        return Container(kind, items, structure.keys)
    if isinstance(structure, Constant):
        value = structure.value
        kind = value.kind if isinstance(value, ScalarLike) else type(value)
        return constant(0.0 if issubclass(kind, float) else 0)
    return structure


@dataclass(eq=False, repr=False)
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

    fn: Callable
    positions: int | tuple | str | None
    weights: Weights = None
    has_aux: bool = False
    return_ids: bool = False
    with_value: bool = False
    with_sens: bool = False

    def __post_init__(self) -> None:
        fn = self.fn
        if not callable(fn):
            raise TypeError(f"only a function or Cell has a gradient, not {type(fn).__name__}")
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
        if is_tracing():
            return current_handler().call(self, list(args), kwargs)
        if (run := runner()) is not None:
            return run(self, args, kwargs)
        args, kwargs, sens = self.split_sens(args, kwargs)
        selection = self.select(args, kwargs)
        tape, keys, value = taped(self.fn, args, kwargs, selection)
        tape.stand_ins.hand_back()
        outputs = self.differentiated(value)
        seeds = [*map(ops.ones_like, outputs)]
        if self.with_sens:
            seeds = cotangents_of(self.tensors(value), sens)
        found = gradients(tape, outputs, seeds, keys, selection.variables)
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

        Arguments that are neither Tensors nor containers from ``mutable`` have no gradient and are
        left out.

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
        numbers = tuple(i for i in wanted if _has_gradient(given[i]))
        inputs, structure = flatten(tuple(given[i] for i in numbers), is_tensor)
        weights = self.weights
        if weights is None or isinstance(weights, Tensor):
            weights = () if weights is None else (weights,)
        return Selection(numbers, structure, tuple(inputs), tuple(weights))

    def differentiated(self, value: Any) -> list[Tensor]:
        """The Tensors of numbers, in what the function returned, whose sum is differentiated.

        Raises:
            ValueError: ``has_aux``, and the function did not return a tuple of two or more.
        """
        return [t for t in self.tensors(value) if t._abstract.has_cotangent]

    def tensors(self, value: Any) -> list[Tensor]:
        """All Tensors in what is differentiated of a value; ValueError as ``differentiated``."""
        if self.has_aux:
            if not isinstance(value, tuple) or len(value) < 2:
                raise ValueError(
                    f"has_aux=True, but {self.__name__} does not return several outputs: "
                    "return (what to differentiate, aux...)"
                )
            value = value[0]
        return [v for v in flatten(value, is_part)[0] if is_tensor(v)]

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
        n = len(selection.inputs)
        inputs, weights = selection.gathered(found[:n]), tuple(found[n:])
        if self.return_ids:
            inputs = tuple(zip(selection.numbers, inputs, strict=True))
            weights = tuple(zip(names, weights, strict=True))
        parts: list[Any] = []
        if self.positions is not None:
            parts.append(inputs[0] if len(inputs) == 1 and self.positions != ALL else inputs)
        if self.weights is not None:
            parts.append(weights[0] if isinstance(self.weights, Tensor) else weights)
        return parts[0] if len(parts) == 1 else tuple(parts)


def _has_gradient(value: Any) -> bool:
    """True for a Tensor, and for a container that ``mutable`` gave."""
    marked = getattr(current_handler(), "is_marked", lambda v: isinstance(v, Marked))
    return isinstance(value, Tensor) or marked(value)


def is_part(value: Any) -> bool:
    """True for a Tensor, and for what is known only at run time and has no gradient: strings (the
    Tensors in them are text) and choices of strings or functions."""
    return is_tensor(value) or isinstance(value, (Text, Picked))


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
    selection.put(given, inputs)
    with Tape() as tape:
        keys = [tape.watch(x) for x in inputs]
        keys += [tape.watch(w) if w.requires_grad else 0 for w in selection.weights]
        tape.stand_ins = StandIns([*zip(inputs, selection.inputs, strict=True)])
        value = fn(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))
    selection.check(given, inputs)
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


def cotangents_of(tensors: Sequence[Tensor], sens: Any) -> list[Tensor]:
    """What the caller gave as the cotangents of the Tensors of numbers among some.

    That is one Tensor or number for each of these; or for all, Bool ones too, whose are left out;
    or for the float ones only: then integers get zeros.

    Raises:
        RuntimeError: their number, or the shape of one, is not that of the outputs.
    """
    outputs = [t for t in tensors if t._abstract.has_cotangent]
    given = flatten(sens, lambda v: isinstance(v, Tensor) or is_number(v))[0]
    if len(given) == len(tensors):
        given = [c for c, t in zip(given, tensors, strict=True) if t._abstract.has_cotangent]
    elif len(given) == len([t for t in outputs if t.dtype.is_float]):
        floats = iter(given)
        given = [next(floats) if t.dtype.is_float else ops.zeros_like(t) for t in outputs]
    if len(given) != len(outputs):
        raise RuntimeError(
            f"{len(given)} cotangent(s) for {len(outputs)} output(s): give one for each"
        )
    return [_cotangent_of(output, c) for output, c in zip(outputs, given, strict=True)]


def _cotangent_of(output: Tensor, given: Any) -> Tensor:
    """A Tensor or number that the caller gave for an output, in its dtype."""
    cotangent = ops.cast(given if isinstance(given, Tensor) else Tensor(given), output.dtype)
    if cotangent.shape != output.shape:
        raise RuntimeError(
            f"a cotangent has shape {cotangent.shape}, and its output {output.shape}: "
            "they must be equal"
        )
    return cotangent


# ------------------------------------------------------------------------- grad and its kin


def checked_flags(name: str, **flags: Any) -> None:
    """TypeError for a flag that is no bool; `name` is whose."""
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name}: {flag} must be a bool, not {type(value).__name__}")


def checked_positions(name: str, positions: Any) -> int | tuple[int, ...]:
    """Positions as given, if they are one or several different ones; else TypeError, ValueError."""
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


def checked_weights(name: str, weights: Any) -> Weights:
    """None, a Parameter, or a tuple of several; TypeError for anything else."""
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
    checked_flags(name, **flags)
    positions = None if grad_position is None else checked_positions(name, grad_position)
    has_aux, return_ids, with_sens = flags.values()
    weights = checked_weights(name, weights)
    return GradFunction(fn, positions, weights, has_aux, return_ids, with_value, with_sens)


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
        fn: a function or Cell; the sum of its outputs is differentiated.
        grad_position: the arguments to differentiate: a number, a tuple of them, or None.
        weights: Parameters to differentiate: one, a tuple or list, or None.
        has_aux: `fn` returns (what to differentiate, aux...); the result is (gradients, aux).
        return_ids: give each gradient as (position or name, gradient), for ``get_grad``.
        sens_param: the last argument of a call is the cotangent of the output.

    Returns:
        A function with the arguments of `fn`.  It returns a bare Tensor for one position or one
        Parameter, else a tuple; for both kinds a pair (of inputs, of weights).  A gradient
        has its variable's dtype and shape; it is zeros for Bool and for what `fn` does not use.

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
        checked_flags(
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
        weights = checked_weights("GradOperation", weights)
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


__all__ = [
    "GradFunction", "GradOperation", "Selection", "get_grad", "grad", "stop_gradient",
    "value_and_grad",
]  # fmt: skip
