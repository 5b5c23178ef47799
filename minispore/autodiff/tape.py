"""The tape: how PyNative mode finds gradients.

While a Tape records, every primitive that touches a value it watches (or one computed from it)
leaves an entry: what was called, on which values, with which result.  ``backward`` walks the
entries from the last to the first and hands each its outputs' cotangents; the primitive's vjp rule
answers with those of its inputs.

    with Tape() as tape:
        key = tape.watch(x)
        y = ops.sin(x) * x         %2 = Sin(%1)
                                   %3 = Mul(%2, %1)
    (dx,) = tape.backward([y], [ones], [key])

A Tensor is a cell that can be written, so the tape does not speak of Tensors but of *values*: each
has a number (``Tensor._key``), and a write gives the cell another one.  What an entry saves is the
value at that time, by reference; arrays are never changed in place, so no later write spoils it.

The rules are written with ops, and while one tape goes backward the tapes around it still
record: gradients of gradients need nothing more.  (MindSpore: the grad executor of PyNative mode.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from minispore import ops
from minispore.dtype import bool_
from minispore.primitive import Primitive, ScalarLike, TensorLike, bprop_getters
from minispore.tensor import Tensor, is_tensor, tapes
from minispore.tree import flatten

T = TypeVar("T")


class Differentiable(Protocol):
    """What a tape can record: a Primitive, or anything else with a name and a gradient rule."""

    name: str

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        """One cotangent (or None) per input."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One call on a tape: `out` is a Tensor, or a tuple where there are several outputs."""

    rule: Differentiable
    inputs: tuple
    out: Any

    @property
    def name(self) -> str:
        """The name of what was called."""
        return self.rule.name

    @property
    def outputs(self) -> tuple:
        """The outputs as a tuple."""
        return self.out if isinstance(self.out, tuple) else (self.out,)


class StandIns:
    """The arguments that a function is differentiated by, and the cells that it is given instead.

    A write to such a stand-in is one to the argument, which gets the value when the function has
    returned (``hand_back``).  Between the two its other names would show an old value: RuntimeError
    for whoever uses them.
    """

    def __init__(self, pairs: Sequence[tuple[Tensor, Tensor]] = ()):
        self.pairs = list(pairs)
        self.moved: dict[int, tuple[Tensor, Tensor]] = {}  # by id of an argument: it, its stand-in

    def written(self, cell: Tensor) -> None:
        """Called before a write to a cell."""
        mine = [(x, own) for own, x in self.pairs if own is cell or x is cell]
        if not mine:
            return
        argument, own = mine[0]
        if own is not cell or len([x for _, x in self.pairs if x is argument]) > 1:
            self.refuse()
        self.moved[id(argument)] = argument, own

    def read(self, tensor: Tensor) -> None:
        """Called before a Tensor is used."""
        if id(tensor) in self.moved:
            self.refuse()

    def refuse(self) -> None:
        """Raise the RuntimeError."""
        raise RuntimeError(
            "an argument of the differentiated function is written in place; "
            "copy it first, for example x = x * 1"
        )

    def hand_back(self) -> None:
        """Write the arguments whose stand-ins were written."""
        moved, self.moved = self.moved, {}
        for argument, own in moved.values():
            argument._write(own)


class Tape:
    """Records what happens to the values it watches, inside a ``with`` block.

    `entries` are the calls so far, in order; ``print(tape)`` shows them.  `walks` are the stretches
    of them that were recorded while another tape went backward, as ranges of indices.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.walks: list[range] = []
        self._live: set[int] = set()  # watched values, and what has a gradient to hand to them
        self.stand_ins = StandIns()
        self._outside: list[Tape] = []

    def __enter__(self) -> Tape:
        self._outside = tapes.active
        tapes.active = [*self._outside, self]
        return self

    def __exit__(self, *exception: object) -> None:
        tapes.active = self._outside

    def __str__(self) -> str:
        numbers: dict[int, int] = {}

        def text(values: tuple) -> str:
            return ", ".join(map(name, values))

        def name(value: Any) -> str:
            if not isinstance(value, Tensor):
                return repr(value)
            if value._key in self._live:
                return f"%{numbers.setdefault(value._key, len(numbers) + 1)}"
            return str(value._abstract) if value.shape else str(value)

        lines = ((text(e.inputs), text(e.outputs), e.name) for e in self.entries)
        return "\n".join(f"{outputs} = {called}({inputs})" for inputs, outputs, called in lines)

    def watch(self, tensor: Tensor) -> int:
        """Follow the present value of a Tensor of numbers; its key, to ask for its cotangent."""
        if tensor._abstract.has_cotangent:
            self._live.add(tensor._key)
        return tensor._key

    def follows(self, tensor: Tensor) -> bool:
        """True for a watched value, and for one computed from it that has a cotangent."""
        return tensor._key in self._live

    def record(self, rule: Differentiable, inputs: tuple, out: Any) -> None:
        """Note a call, if a gradient can flow through it."""
        live = self._live
        if self.stand_ins.moved:
            for x in inputs:
                self.stand_ins.read(x)
        felt = [x for x in flowing(rule, inputs) if isinstance(x, Tensor) and x._key in live]
        if not felt:
            return
        whole = any(x.dtype.is_integer for x in felt)  # integers hand gradients to integers only
        outputs = [o for o in (out if isinstance(out, tuple) else (out,)) if isinstance(o, Tensor)]
        keys = [o._key for o in outputs if o.dtype.is_float or (whole and o.dtype.is_integer)]
        if keys:
            live.update(keys)
            saved_out = tuple(map(saved, out)) if isinstance(out, tuple) else saved(out)
            self.entries.append(Entry(rule, tuple(map(saved, inputs)), saved_out))

    def backward(
        self, outputs: Sequence[Tensor], cotangents: Sequence[Tensor], wrt: Sequence[int]
    ) -> list[Tensor | None]:
        """The cotangents of watched values.

        Args:
            outputs: Tensors computed while the tape recorded.
            cotangents: one per output, of its shape and dtype.
            wrt: keys from ``watch``.

        Returns:
            One per key; None where the outputs do not depend on the value.
        """
        found: dict[int, Tensor] = {}
        for output, cotangent in zip(outputs, cotangents, strict=True):
            _accumulate(found, output, cotangent)
        wanted = set(wrt)
        around = [tape for tape in tapes.active if tape is not self]
        before = [len(tape.entries) for tape in around]
        with _recording(around):
            for entry in reversed(self.entries):
                self._backward_through(entry, found, wanted)
        for tape, start in zip(around, before, strict=True):
            tape.walks.append(range(start, len(tape.entries)))
        return [found.get(key) for key in wrt]

    def _backward_through(self, entry: Entry, found: dict[int, Tensor], wanted: set[int]) -> None:
        """Turn the cotangents of an entry's outputs into those of its inputs."""
        keys = [o._key if isinstance(o, Tensor) else 0 for o in entry.outputs]
        douts = tuple(found.get(k) if k in wanted else found.pop(k, None) for k in keys)
        if all(d is None for d in douts):
            return
        dout = douts if isinstance(entry.out, tuple) else douts[0]
        try:
            cotangents = vjp_of(entry.rule, entry.inputs, entry.out, dout)
        except FloatingPointError as error:  # check_finite: the line is that of the whole gradient
            error.add_note(f"In the gradient of {entry.rule.name}.")
            raise
        for x, cotangent in zip(entry.inputs, cotangents, strict=True):
            if cotangent is not None and isinstance(x, Tensor) and x._key in self._live:
                if x.dtype.is_integer:
                    cotangent = ops.cast(cotangent, x.dtype)
                _accumulate(found, x, cotangent)


def _accumulate(found: dict[int, Tensor], value: Tensor, cotangent: Tensor) -> None:
    before = found.get(value._key)
    found[value._key] = cotangent if before is None else ops.add(before, cotangent)


def saved(value: Any) -> Any:
    """The present value of a Tensor, by reference, under its own key."""
    if not isinstance(value, Tensor):
        return value
    twin = Tensor._wrap(value._data)
    twin._key = value._key
    return twin


def record_custom(rule: Differentiable, inputs: tuple, out: Any) -> Any:
    """Put a call on all recording tapes whose inside was hidden from them (``pause_tapes``).

    Args:
        rule: its ``vjp(inputs, out, dout)`` must return one cotangent or None per input; each
            missing dout is given as zeros.
        inputs: all arguments; those that are no Tensors get no cotangent.
        out: a Tensor, or a tuple.

    Returns:
        `out`, to be used in its place: its Tensors are new ones, so that an input that is handed
        through is not mistaken for the input.
    """
    if not tapes.active:
        return out
    fresh = tuple(map(_renamed, out)) if isinstance(out, tuple) else _renamed(out)
    for tape in tapes.active:
        tape.record(rule, inputs, fresh)
    return fresh


def _renamed(value: Any) -> Any:
    return Tensor._wrap(value._data) if isinstance(value, Tensor) else value


@contextlib.contextmanager
def _recording(active: list[Tape]) -> Iterator[None]:
    """Let only these tapes record."""
    before = tapes.active
    tapes.active = active
    try:
        yield
    finally:
        tapes.active = before


def innermost() -> tuple[Tape, contextlib.AbstractContextManager[None]]:
    """The innermost of the tapes that record, and a context in which only those around it do."""
    *around, tape = tapes.active
    return tape, _recording(around)


def pause_tapes() -> contextlib.AbstractContextManager[None]:
    """No tape of this thread records for the length of a ``with`` block."""
    return _recording([])


# -------------------------------------------------------------------------- rules of gradients


def flowing(rule: Any, inputs: tuple[T, ...]) -> tuple[T, ...]:
    """The inputs of a call that gradients may flow to, whatever its rule says."""
    n = {"StopGradient": 0, "Assign": 1, "Known": -1}.get(rule.name)
    return inputs[:n]


def vjp_of(
    rule: Differentiable,
    inputs: tuple,
    out: Any,
    dout: Any,
    call: Callable[[Callable, tuple], Any] | None = None,
) -> tuple:
    """One cotangent, or None, per input: by the user's rule if there is one, else by its own.

    The tape and J share it.

    Args:
        rule: a Primitive, or an object with ``name`` and ``vjp``; if it `knows_none`, it is given
            a dout of None, as a Primitive is, else zeros in its place.
        inputs, out, dout: Tensors; with several outputs `out` and `dout` are tuples, in which
            a dout of None means zero.
        call: how to call a user's rule, ``call(bprop, arguments)``; plainly by default.

    Raises:
        RuntimeError: a user's rule gives the wrong number of cotangents.
        TypeError, ValueError: it gives one of another dtype or shape than the input's.
    """
    if not isinstance(rule, Primitive):
        douts = dout if getattr(rule, "knows_none", False) else filled(out, dout)
        return checked(rule.name, rule.vjp(inputs, out, douts), inputs)
    bprop = bprop_getters.get(rule)
    if bprop is None:
        cotangents = rule.vjp(inputs, out, dout)
        return checked(f"{rule.name}.vjp", cotangents, inputs) if rule.is_users else cotangents
    arguments = (*inputs, out, filled(out, dout))
    result = bprop(*arguments) if call is None else call(bprop, arguments)
    return checked(f"the bprop of {rule.name}", result, inputs)


def filled(out: Any, dout: Any) -> Any:
    """`dout` with zeros in the places of None, for rules that do not know of absent cotangents."""
    if isinstance(out, tuple):
        missing = (None,) * len(out) if dout is None else dout
        return tuple(filled(o, d) for o, d in zip(out, missing, strict=True))
    if dout is not None:
        return dout
    if isinstance(out, ScalarLike):
        return out.kind(0)
    return ops.zeros_like(out) if isinstance(out, TensorLike) else None


def refuse_containers(name: str, values: Sequence[Any]) -> None:
    """TypeError if Tensors are in a tuple, list or dict, where a bprop's gradients do not reach."""
    for value in values:
        if not isinstance(value, Tensor) and flatten(value, is_tensor)[0]:
            raise TypeError(
                f"{name} has a bprop, which knows of single Tensors only: pass and return Tensors, "
                f"not a {type(value).__name__} of them"
            )


def checked(name: str, cotangents: Any, inputs: tuple) -> tuple:
    """What a user's rule returned as a tuple with one cotangent per input, or the user's error."""
    if cotangents is None:
        raise TypeError(f"{name} returned None; return a tuple with one gradient per input")
    if not isinstance(cotangents, (tuple, list)):
        cotangents = (cotangents,)
    if len(cotangents) != len(inputs):
        raise RuntimeError(
            f"{name} returned {len(cotangents)} gradient(s) for {len(inputs)} input(s); "
            "return one per input, None where there is none"
        )
    return tuple(
        _checked_one(f"gradient {i} of {name}", c, x)
        for i, (c, x) in enumerate(zip(cotangents, inputs, strict=True))
    )


def _checked_one(what: str, cotangent: Any, x: Any) -> Any:
    if cotangent is None or not isinstance(x, TensorLike) or x.dtype is bool_:
        return cotangent if isinstance(x, ScalarLike) else None
    if x.dtype.is_integer and not isinstance(cotangent, TensorLike):
        return None
    if not isinstance(cotangent, TensorLike):
        raise TypeError(f"{what} must be a Tensor or None, not {type(cotangent).__name__}")
    if x.dtype.is_integer:
        cotangent = ops.cast(cotangent, x.dtype)
    if cotangent.dtype is not x.dtype:
        raise TypeError(f"{what} is {cotangent.dtype}, its input {x.dtype}; cast it")
    if cotangent.shape != x.shape:
        raise ValueError(
            f"{what} has shape {cotangent.shape}, its input {x.shape}; "
            "sum over the axes that were broadcast"
        )
    return cotangent


__all__ = [
    "Differentiable", "Entry", "Tape", "innermost", "pause_tapes", "record_custom", "vjp_of",
]  # fmt: skip
