"""Parameter: a Tensor with a name that training changes; ParameterTuple: several of them."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore import ops
from minispore.initializer import Initializer, initializer
from minispore.ir.node import Node
from minispore.primitive import apply, is_number, is_tracing
from minispore.tensor import Tensor

_number = itertools.count(2).__next__  # MindSpore's first automatic name is Parameter#2


def _writing(name: str) -> Any:
    """The operator of ``p += x``: computes, and writes the result into the Parameter."""
    compute = getattr(operator, name)

    def method(self: Parameter, other: Any) -> Parameter:
        return self._store(compute(self, other))

    method.__doc__ = f"operator.{name}, in place."
    return method


class Parameter(Tensor):
    """A Tensor with a name, that an optimizer may change.

    Arithmetic on it gives plain Tensors; ``p += x`` writes it in place.

    Args:
        default_input: the initial value: a Tensor, number, ndarray or list.
        name: None or "" gives an automatic name, which a Cell replaces by the attribute's.
        requires_grad: False keeps it out of ``trainable_params``.
        layerwise_parallel, parallel_optimizer: kept for MindSpore's signature.

    Raises:
        TypeError: a value that no Tensor can hold, or flags that are no bool.
        ValueError: a name that is no str.
    """

    def __init__(
        self,
        default_input: Any,
        name: str | None = None,
        requires_grad: bool = True,
        layerwise_parallel: bool = False,
        parallel_optimizer: bool = True,
    ):
        if type(default_input) is int:
            super().__init__(default_input, dt.int32)  # MindSpore: Int32, unlike Tensor(3)
        else:
            super().__init__(default_input)
        self.name = name  # type: ignore[assignment]
        self.requires_grad = requires_grad
        self.layerwise_parallel = layerwise_parallel
        self.parallel_optimizer = parallel_optimizer

    @classmethod
    def _shadow(cls, real: Parameter, node: Node | None = None) -> Parameter:
        """A stand-in for `real` inside a graph: its name and flags, and a node for its value."""
        self = cls.__new__(cls)
        self.__dict__.update(real.__dict__)
        self._data, self._node, self._key = None, node, 0
        return self

    @property
    def name(self) -> str:
        """The name: unique in a Cell, and the key of checkpoints."""
        return self._name

    @name.setter
    def name(self, value: str | None) -> None:
        if value is not None and not isinstance(value, str):
            raise ValueError(f"a Parameter's name is a str or None, not {type(value).__name__}")
        self.has_given_name = bool(value)
        self._name = value or f"Parameter#{_number()}"

    @property
    def requires_grad(self) -> bool:
        """True if training may change it."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"requires_grad must be a bool, not {type(value).__name__}")
        self._requires_grad = value

    def __repr__(self) -> str:
        return (
            f"Parameter (name={self.name}, shape={self.shape}, dtype={self.dtype}, "
            f"requires_grad={self.requires_grad})"
        )

    __str__ = __repr__

    # ------------------------------------------------------------------------------- values

    def _write(self, value: Tensor) -> None:
        super()._write(self._held(value) if is_tracing() else value)

    def _held(self, value: Tensor) -> Tensor:
        """After a write it stays a variable of its own, as ``ops.Assign`` says."""
        return apply(ops.Assign.bound(), self, value)

    def value(self) -> Tensor:
        """The value as a plain Tensor, which is written independently."""
        return ops.identity(self)

    @property
    def data(self) -> Tensor:
        """The value as a plain Tensor; assigning to it is ``set_data``."""
        return ops.identity(self)

    @data.setter
    def data(self, value: Any) -> None:
        self.set_data(value)

    def set_data(self, data: Any, slice_shape: bool = False) -> Parameter:
        """Write a new value, cast to this dtype; returns this Parameter.

        `slice_shape` is kept for MindSpore's signature.

        Raises:
            TypeError: `data` is neither Tensor nor number.
            ValueError: its shape differs.
        """
        if isinstance(data, Initializer):
            data = initializer(data, self.shape, self.dtype)
        if not (isinstance(data, Tensor) or is_number(data)):
            raise TypeError(f"set_data takes a Tensor or a number, not {type(data).__name__}")
        source = data if isinstance(data, Tensor) else Tensor(data)
        if source.shape != self.shape:
            raise ValueError(
                f"Parameter {self.name} has shape {self.shape}, the new data {source.shape}"
            )
        self._write(ops.cast(source, self.dtype))
        return self

    def clone(self, init: Any = "same") -> Parameter:
        """A new Parameter of the same name and flags.

        Args:
            init: "same" copies the value; else an Initializer, its name, or a number.
        """
        value = ops.identity(self) if _is_same(init) else initializer(init, self.shape, self.dtype)
        twin = Parameter(
            value, self.name, self.requires_grad, self.layerwise_parallel, self.parallel_optimizer
        )
        twin.has_given_name = self.has_given_name
        return twin

    __iadd__, __isub__, __imul__ = map(_writing, ("add", "sub", "mul"))
    __itruediv__, __ifloordiv__ = map(_writing, ("truediv", "floordiv"))
    __imod__, __ipow__ = map(_writing, ("mod", "pow"))

    def __reduce__(self) -> tuple:
        return _restored, (self._array("the pickled form"), dict(self.__dict__))


def _is_same(init: Any) -> bool:
    return isinstance(init, str) and init == "same"


def _restored(data: np.ndarray, attributes: dict) -> Parameter:
    """A Parameter from what pickle kept of it."""
    self = Parameter(Tensor.from_numpy(data), "restored")
    self.__dict__.update(attributes)
    return self


class ParameterTuple(tuple):
    """A tuple of Parameters, such as those that an optimizer changes."""

    def __new__(cls, iterable: Iterable[Parameter]) -> ParameterTuple:
        items = tuple(iterable) if not isinstance(iterable, Parameter) else (None,)
        for item in items:
            if not isinstance(item, Parameter):
                raise TypeError(
                    "ParameterTuple takes an iterable of Parameters, not "
                    f"{type(iterable if item is None else item).__name__}"
                )
        return tuple.__new__(cls, items)

    def clone(self, prefix: str, init: Any = "same") -> ParameterTuple:
        """New Parameters named ``prefix.name``: an optimizer's state.

        Args:
            prefix: a name of letters, digits, ``_`` and ``.``; else ValueError.
            init: as in ``Parameter.clone``.
        """
        if not isinstance(prefix, str) or not re.fullmatch(r"\w+[\w.]*", prefix, re.ASCII):
            raise ValueError(f"a prefix is a name of letters, digits, _ and ., not {prefix!r}")
        twins = []
        for p in self:
            twin = p.clone(init)
            twin.name = f"{prefix}.{p.name}"
            twins.append(twin)
        return ParameterTuple(twins)


__all__ = ["Parameter", "ParameterTuple"]
