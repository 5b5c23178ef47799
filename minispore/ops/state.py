"""Casts, identity and the stop of gradients; writes of Tensors; printing and order.

A Tensor is a cell (see tensor.py): ``assign`` computes the new value and writes the cell, so
that every name of the Tensor sees it, in both modes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor
from minispore.dtype import DType, bool_, float32
from minispore.ops.common import Composite, check_tensor
from minispore.ops.structural import Print
from minispore.primitive import Primitive, TensorLike, apply, as_tensor


class Cast(Primitive):
    """Another element type; attribute `dtype`.  Floats are truncated towards zero by integers."""

    def __call__(self, x: Any, dtype: DType) -> Any:
        return cast(x, dtype)

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        return AbstractTensor(self.attrs["dtype"], x.shape)

    def eval(self, x: np.ndarray) -> Any:
        return x.astype(self.attrs["dtype"].numpy)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        was, now = inputs[0].dtype, self.attrs["dtype"]
        flows = was.is_float and now.is_float or was.is_integer and now is not bool_
        return (cast(dout, was) if flows else None,)


class Identity(Primitive):
    """A copy."""

    def infer(self, x: AbstractTensor) -> AbstractTensor:
        return x

    def eval(self, x: np.ndarray) -> Any:
        return np.array(x, order="C")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (dout,)


class StopGradient(Identity):
    """A copy through which no gradient flows."""

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (None,)


class ZerosLike(Composite):
    """Zeros of the shape and dtype of a Tensor."""

    def __call__(self, x: Any) -> Any:
        return ops.zeros_like(x)


class OnesLike(Composite):
    """Ones of the shape and dtype of a Tensor."""

    def __call__(self, x: Any) -> Any:
        return ops.ones_like(x)


class AddN(Composite):
    """The sum of a tuple or list of Tensors."""

    def __call__(self, tensors: Any) -> Any:
        return addn(tensors)


class Assign(Primitive):
    """Writes a Tensor.

    As a node (of a Parameter) it is what the Parameter holds after a write: the second operand.
    A Parameter is a variable of its own whatever it holds, so the gradient of what is read after
    the write belongs to it, the first operand, as that of what was read before; none flows into
    the value that was written.
    """

    def __call__(self, variable: Any, value: Any) -> Any:
        return assign(variable, value)

    def infer(self, variable: AbstractTensor, value: AbstractTensor) -> AbstractTensor:
        return value

    def eval(self, variable: np.ndarray, value: np.ndarray) -> Any:
        return np.array(value, order="C")

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return dout, None


class AssignAdd(Composite):
    """Adds to a Tensor in place."""

    def __call__(self, variable: Any, value: Any) -> Any:
        return assign_add(variable, value)


class AssignSub(Composite):
    """Subtracts from a Tensor in place."""

    def __call__(self, variable: Any, value: Any) -> Any:
        return assign_sub(variable, value)


# ----------------------------------------------------------------------------------- functions


def cast(input: Any, dtype: DType) -> Any:
    """`input` (a Tensor or number) in another dtype; floats to integers truncate towards zero.

    TypeError unless `dtype` is a minispore type.  MindSpore: ``ops.cast``, ``ops.Cast``.
    """
    if not isinstance(dtype, DType):
        raise TypeError(f"cast takes a minispore type such as ms.float32, not {dtype!r}")
    x = as_tensor(input)
    return x if x.dtype is dtype else apply(Cast.bound(dtype=dtype), x)


def as_float(x: Any) -> Any:
    """The Tensor `x`, of integers or bools as Float32: what averages, roots and losses take."""
    return x if x.dtype.is_float else cast(x, float32)


def identity(x: Any) -> Any:
    """A copy of a Tensor.  MindSpore: ``ops.identity``, ``ops.Identity``."""
    return apply(Identity(), check_tensor("identity", x))


deepcopy = identity


def stop_gradient(value: Any) -> Any:
    """The same value, through which no gradient flows; a number is returned unchanged.

    MindSpore: ``ops.stop_gradient``, ``ops.StopGradient``.
    """
    return apply(StopGradient(), value) if isinstance(value, TensorLike) else value


def write(variable: Any, value: Any, name: str = "assign") -> None:
    """``assign`` without a result: no one copies what is written.

    ValueError if shapes differ, of the function `name`.
    """
    check_tensor(name, variable)
    new = cast(as_tensor(value, variable.dtype), variable.dtype)
    if new.shape != variable.shape:
        raise ValueError(f"{name}: shape {new.shape} does not fit the Tensor's {variable.shape}")
    variable._write(new)


def assign(variable: Any, value: Any) -> Any:
    """Write `value` (cast to its dtype) into the Tensor or Parameter `variable`.

    Returns what it holds then, as a Tensor that no later write changes.  ValueError if shapes
    differ.  MindSpore: ``ops.assign``, ``ops.Assign``.
    """
    write(variable, value)
    return ops.identity(variable)


def assign_add(variable: Any, value: Any) -> Any:
    """Add `value` to the Tensor or Parameter `variable` in place; returns as ``assign``.

    What it returns is the sum for gradients too: they flow to both, although what is read of a
    Parameter afterwards is differentiated as the Parameter alone.  ValueError if the sum has
    another shape.  MindSpore: ``ops.assign_add``, ``ops.AssignAdd``.
    """
    return _moved(variable, ops.add(variable, value), "assign_add")


def assign_sub(variable: Any, value: Any) -> Any:
    """Subtract `value` from the Tensor or Parameter `variable` in place; as ``assign_add``.

    ValueError if the difference has another shape.  MindSpore: ``ops.assign_sub``,
    ``ops.AssignSub``.
    """
    return _moved(variable, ops.sub(variable, value), "assign_sub")


def _moved(variable: Any, value: Any, name: str) -> Any:
    """Write what was computed of a variable, and return it in the variable's dtype."""
    new = ops.cast(value, variable.dtype)
    write(variable, new, name)
    return ops.identity(new)


def depend(value: Any, expr: Any) -> Any:
    """`value`; that `expr` runs before is so anyway, since effects keep program order.

    MindSpore: ``ops.depend``, ``ops.Depend``.
    """
    return value


def addn(x: Any) -> Any:
    """The sum of a tuple or list of Tensors, which broadcast to their common type.

    TypeError unless it is one; ValueError if it is empty.  MindSpore: ``ops.addn``, ``ops.AddN``.
    """
    if not isinstance(x, (tuple, list)):
        raise TypeError(f"addn takes a tuple or list of Tensors, not {type(x).__name__}")
    if not x:
        raise ValueError("addn needs at least one Tensor")
    total = identity(x[0]) if len(x) == 1 else x[0]
    for term in x[1:]:
        total = ops.add(total, term)
    return total


def print_(*input_x: Any, sep: str = " ", end: str = "\n") -> None:
    """Python's ``print``, in program order in both modes.

    MindSpore: ``ops.print_``, ``ops.Print``; there `sep` and `end` are refused.
    """
    Print()(*input_x, sep=sep, end=end)
