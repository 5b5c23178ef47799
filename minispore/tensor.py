"""Tensor, and the eager handler that gives primitives their meaning in PyNative mode.

A Tensor is a *cell*: a name for a value that can be written (``x[0] = v``, ``x.add_(y)``).  Outside
a graph the value is an ndarray (`_data`); while a graph is being built it is a node (`_node`).
Results never alias operands: a write gives the cell a new value and leaves every other
Tensor, and what the tape has saved, as it was.  (In MindSpore's PyNative mode a basic slice is a
view, in its graph mode a copy; here it is a copy in both.)

Operators and methods are in tensor_methods.py, the text forms in tensor_text.py.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from minispore import dtype as dt
from minispore import ops
from minispore.abstract import AbstractScalar, AbstractTensor
from minispore.context import checks_finite
from minispore.dtype import DType
from minispore.ir.finite import NonFinite, born, error_of
from minispore.ir.node import Node
from minispore.mutable import Mutable
from minispore.ops.common import holds_tensors
from minispore.primitive import (
    REGISTRY,
    Primitive,
    ScalarLike,
    TensorLike,
    apply,
    as_tensor,
    current_handler,
    is_tracing,
    register_eager,
)
from minispore.tensor_methods import (
    ElementMethods,
    ReduceMethods,
    ShapeMethods,
    TensorOperators,
    WriteMethods,
)
from minispore.tensor_text import repr_of, str_of
from minispore.tree import NeedConstant

_new_key = itertools.count(1).__next__
_numbering = threading.Lock()


class Tensor(TensorOperators, ElementMethods, ShapeMethods, ReduceMethods, WriteMethods):
    """An n-dimensional array of one dtype.

    Args:
        input_data: a number, a nested list or tuple of numbers and Tensors, an ndarray, or a
            Tensor.  It is copied.
        dtype: a DType such as ``minispore.float32``; by default int gives Int64, float
            Float32, bool Bool, and an ndarray keeps its own.
        shape, init: in place of `input_data`: values from an Initializer (zeros without one).  A
            Tensor with None among its sizes has no values: it describes inputs (inputs.py).
        const_arg: kept for MindSpore's signature.

    Raises:
        TypeError: data that no Tensor can hold, or a `dtype` that is no DType.
        ValueError: nested lists of unequal length, or both `input_data` and `shape`.
    """

    __slots__ = ("_data", "_node", "_key_or_none", "_init", "__weakref__")
    _data: Any
    _node: Node | None
    _key_or_none: int | None

    def __init__(
        self,
        input_data: Any = None,
        dtype: DType | None = None,
        shape: Any = None,
        init: Any = None,
        const_arg: bool = False,
    ):
        if dtype is not None and not isinstance(dtype, DType):
            raise TypeError(
                f"dtype must be a DType such as minispore.float32, not {dtype!r}; "
                "minispore.dtype.to_dtype turns a name or NumPy type into one"
            )
        if shape is not None:
            source = _initialised(input_data, dtype, shape, init)
            self._init = init
        elif isinstance(input_data, TensorLike):
            source = ops.identity(input_data)
            source = source if dtype is None else ops.cast(source, dtype)
        elif isinstance(input_data, ScalarLike):
            source = as_tensor(input_data, dtype)
        else:
            source = current_handler().constant(input_data, dtype)
        self._data, self._node, self._key = source._data, source._node, source._key

    @property
    def _key(self) -> int:
        """The number of the value, for tapes; given when one first asks."""
        if self._key_or_none is None:
            with _numbering:
                if self._key_or_none is None:
                    self._key_or_none = _new_key()
        return self._key_or_none

    @_key.setter
    def _key(self, number: int | None) -> None:
        self._key_or_none = number

    # ------------------------------------------------------------------- the cell's protocol

    @classmethod
    def _wrap(cls, data: Any) -> Tensor:
        """A Tensor that owns `data` (no copy)."""
        self = Tensor.__new__(Tensor)
        self._data, self._node, self._key_or_none = data, None, None
        return self

    @classmethod
    def _of_node(cls, node: Node) -> Tensor:
        """A Tensor inside a graph that is being built."""
        self = Tensor.__new__(Tensor)
        self._data, self._node, self._key = None, node, 0
        return self

    @property
    def _abstract(self) -> AbstractTensor:
        if self._node is not None:
            assert isinstance(self._node.abstract, AbstractTensor)
            return self._node.abstract
        return AbstractTensor(dt.from_numpy(self._data.dtype), self._data.shape)

    def _write(self, value: Tensor) -> None:
        """Give this cell the value of another Tensor of the same dtype and shape."""
        current_handler().write(self, value)

    def _held(self, value: Tensor) -> Tensor:
        """What the cell holds after a write of `value`, for tapes: a copy of its own."""
        return ops.identity(value)

    def register_hook(self, hook_fn: Callable[[Any], Any]) -> None:
        """Call ``hook_fn(g)`` with the gradient g of what is made of this Tensor from here on.

        It may return another gradient, or None.  In a graph it must not print or write anything.

        Raises:
            RuntimeError: nothing is differentiated now, so that it would never be called.
        """
        hook_registrar[0](self, hook_fn)

    def _take(self, value: Tensor) -> None:
        """Take over the memory and key of a Tensor that no one else has."""
        self._data, self._key = value._data, value._key

    def _take_array(self, data: np.ndarray) -> None:
        """Take over an array that no one else has, as a new value."""
        self._data, self._key_or_none = data, None

    @property
    def _is_unknown(self) -> bool:
        """True if there is no value yet, or one that the graph in the making must not see."""
        return self._node is not None or getattr(current_handler(), "hides_values", False)

    def _array(self, wanted: str) -> np.ndarray:
        """The ndarray; RuntimeError inside a graph, where there is none yet."""
        if self._is_unknown:
            raise RuntimeError(
                f"{wanted} of this Tensor is known only when the graph runs; compute with "
                "minispore ops instead, or do it outside the compiled function"
            )
        if isinstance(self._data, NoElements):
            raise self._data.refusal
        return self._data

    # ------------------------------------------------------------------------- what is known

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The sizes of the axes."""
        return self._data.shape if self._node is None else self._abstract.shape

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The element type."""
        return dt.from_numpy(self._data.dtype) if self._node is None else self._abstract.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._abstract.size

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from one element to the next along each axis; always those of C order."""
        return tuple(self.itemsize * prod(self.shape[axis + 1 :]) for axis in range(self.ndim))

    def dim(self) -> int:
        """The number of axes."""
        return self.ndim

    def numel(self) -> int:
        """The number of elements."""
        return self.size

    def is_contiguous(self) -> bool:
        """True: every Tensor is stored in C order."""
        return True

    def value(self) -> Tensor:
        """This Tensor itself."""
        return self

    contiguous = value

    @property
    def data(self) -> Tensor:
        """This Tensor itself."""
        return self

    @property
    def has_init(self) -> bool:
        """True for ``Tensor(shape=..., dtype=..., init=...)``."""
        return getattr(self, "_init", None) is not None

    def init_data(self) -> Tensor:
        """The initial values as a Tensor of its own."""
        return ops.identity(self)

    # ------------------------------------------------------------------------ out to Python

    def asnumpy(self) -> np.ndarray:
        """The elements as an ndarray that shares memory with this Tensor.

        It is an object of its own: who sets its shape or flags does not change the Tensor.
        """
        return self._array("asnumpy()").view()

    numpy = asnumpy

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers (a number if there are no axes)."""
        return self._array("tolist()").tolist()

    def item(self) -> Any:
        """The only element as a Python number; ValueError if there is more than one."""
        self._one_element("item()")
        if self._is_unknown:
            kind = dt.dtype_to_pytype(self.dtype)
            return apply(REGISTRY["TensorToScalar"].bound(kind=kind), self)
        return self._data.item()

    def _one_element(self, wanted: str) -> None:
        if self.size != 1:
            raise ValueError(
                f"{wanted} needs a Tensor with one element, not {self.size} (shape {self.shape})"
            )

    def _number(self, wanted: str) -> Any:
        """The only element, for Python's conversions, which cannot wait until a graph runs."""
        self._one_element(wanted)
        if self._is_unknown:
            raise NeedConstant(f"{wanted} of a Tensor that is known only at run time")
        return self._data.item()

    def __bool__(self) -> bool:
        return bool(self._number("the truth"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __index__(self) -> int:
        """For ``range(t)`` and ``items[t]``."""
        if self.dtype.is_float:
            raise TypeError(f"only an integer Tensor can be used as an index, not {self.dtype}")
        return int(self._number("the index"))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a Tensor without axes has no len()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("a Tensor without axes cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        same = self == value
        return same if isinstance(same, bool) else bool(ops.any(same))

    def __repr__(self) -> str:
        return repr_of(self._abstract, self._data)

    def __str__(self) -> str:
        return str_of(self._abstract, self._data)

    # -------------------------------------------------------------------- other libraries

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """For ``np.asarray(t)``: shares memory unless a copy is asked for or needed."""
        data = self._array("the NumPy array").view()
        if dtype is not None and np.dtype(dtype) != data.dtype:
            if copy is False:
                raise ValueError(f"a copy is needed to turn {self.dtype} into {np.dtype(dtype)}")
            return data.astype(dtype)
        return data.copy() if copy else data

    def __dlpack__(self, **options: Any) -> Any:
        return self._array("the DLPack capsule").__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array("the DLPack device").__dlpack_device__()

    @staticmethod
    def from_numpy(array: np.ndarray) -> Tensor:
        """A Tensor that shares memory with an ndarray (a copy if that is not in C order)."""
        if not isinstance(array, np.ndarray):
            raise TypeError(f"from_numpy takes an ndarray, not {type(array).__name__}")
        dtype = dt.from_numpy(array.dtype)
        if array.dtype is not dtype.numpy or not array.flags.carray:
            array = np.require(array, dtype.numpy, ["C", "A"])
        return Tensor._wrap(array.view(np.ndarray))

    @staticmethod
    def from_dlpack(source: Any) -> Tensor:
        """A Tensor that shares memory with an array of another library."""
        return Tensor.from_numpy(np.from_dlpack(source))

    def __reduce__(self) -> tuple:
        if isinstance(self._data, NoElements):
            return Tensor._wrap, (self._data,)
        return Tensor.from_numpy, (self._array("the pickled form"),)

    def __copy__(self) -> Tensor:
        return self.copy()


def is_tensor(value: Any) -> bool:
    """True for a Tensor: the leaves of a tree of arguments or results."""
    return isinstance(value, Tensor)


def is_variable(value: Any) -> bool:
    """True for an argument that is an input of a compiled graph: a Tensor, a mutable number."""
    return isinstance(value, (Tensor, Mutable))


def tensor(
    input_data: Any = None, dtype: DType | None = None, shape: Any = None, init: Any = None
) -> Tensor:
    """The same as ``Tensor(...)``."""
    return Tensor(input_data, dtype, shape, init)


from_numpy, from_dlpack = Tensor.from_numpy, Tensor.from_dlpack
hook_registrar: list[Callable[[Tensor, Callable], None]] = []  # one, set by nn/hooks.py


# --------------------------------------------------------------------------- eager handler


class _Tapes(threading.local):
    def __init__(self) -> None:
        self.active: list = []


tapes = _Tapes()  # the recording tapes of this thread, outermost first (autodiff/tape.py)


class EagerHandler:
    """Evaluates a primitive at once, in NumPy, and tells the tapes."""

    def bind(self, prim: Primitive, args: tuple) -> Any:
        arrays = [a._data if isinstance(a, Tensor) else a for a in args]
        abstracts = [a._abstract if isinstance(a, Tensor) else a for a in args]
        if prim.effect:
            prim.eval(None, *arrays)
            return None
        expected: Any = prim.infer(*abstracts)
        with np.errstate(all="ignore"):
            value = prim.eval(*arrays)
        if isinstance(value, tuple):
            out: Any = tuple(_result(v, e) for v, e in zip(value, expected.items, strict=True))
        else:
            out = _result(value, expected)
        if prim.is_users:
            check_promise(prim, out, expected)
        if checks_finite():
            refuse_non_finite(prim, value, arrays)
        for tape in tapes.active:
            tape.record(prim, args, out)
        return out

    def constant(self, value: Any, dtype: DType | None) -> Tensor:
        stacked = assembled(value, dtype)
        return Tensor._wrap(to_array(value, dtype)) if stacked is None else stacked

    def write(self, cell: Tensor, value: Tensor) -> None:
        """Memory and key are the cell's own: a tape in any thread tells it from `value`."""
        for tape in tapes.active:
            tape.stand_ins.written(cell)
        if tapes.active:
            cell._take(cell._held(value))
        else:
            cell._take_array(value._data.copy())

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return function(*args, **kwargs)


def refuse_non_finite(prim: Primitive, value: Any, arrays: list[Any]) -> None:
    """FloatingPointError if an operation made a nan or inf out of finite numbers."""
    made = born(value if isinstance(value, tuple) else (value,), arrays)
    if made is not None:
        operands = {f"operand {i}": operand for i, operand in enumerate(arrays, 1)}
        raise error_of(NonFinite(*made, prim.name, operands, phase="", path=("",)))


def check_promise(prim: Primitive, out: Any, expected: Any) -> None:
    """ValueError if a user's primitive has not the shapes that its infer promised."""
    outputs = zip(out, expected.items, strict=True) if isinstance(out, tuple) else [(out, expected)]
    for value, abstract in outputs:
        if isinstance(value, Tensor) and value.shape != abstract.shape:
            raise ValueError(
                f"{prim.name}.eval gave shape {value.shape}, but infer promised {abstract.shape}"
            )


def _result(value: Any, expected: Any) -> Any:
    """An output of a primitive as the user's value: a Tensor, or a Python number as it is."""
    if isinstance(expected, AbstractScalar):
        return value
    dtype = expected.dtype.numpy
    if getattr(value, "dtype", None) is not dtype:  # half floats are computed in wider ones
        with np.errstate(all="ignore"):
            value = np.asarray(value, dtype)
    return Tensor._wrap(np.asarray(value))


# ------------------------------------------------------------------------- into a Tensor

_DEFAULT = {"bool": dt.bool_, "int": dt.int64, "uint": dt.uint64, "float": dt.float32}


def to_array(value: Any, dtype: DType | None) -> np.ndarray:
    """A new ndarray from a number, nested sequence, ndarray or Tensor, with MindSpore's dtypes.

    Numbers that the dtype cannot hold wrap around, as in MindSpore.
    """
    if isinstance(value, Tensor):
        value = value._array("the value")
    if not isinstance(value, (bool, int, float, list, tuple, np.ndarray, np.generic)):
        raise TypeError(
            f"a Tensor is made from a number, a nested list, an ndarray or a Tensor, not "
            f"{type(value).__name__} ({value!r:.40})"
        )
    array = _parsed(value)
    own = dt.from_numpy(array.dtype)
    if dtype is None:
        keeps = isinstance(value, (np.ndarray, np.generic)) and type(value) is not float
        dtype = own if keeps else _DEFAULT[own.kind]
    with np.errstate(all="ignore"):
        return np.array(array.astype(dtype.numpy, copy=False), order="C")


def _parsed(value: Any) -> np.ndarray:
    """NumPy's reading of the data, with errors in our words."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"nested lists of unequal length make no Tensor: {value!r:.60}") from error
    if array.dtype == object and not isinstance(value, np.ndarray):
        if isinstance(value, int):
            raise OverflowError(f"{value} does not fit an integer Tensor of 64 bits")
        raise TypeError(f"a Tensor holds numbers only, not what is in {value!r:.60}")
    return array


def assembled(value: Any, dtype: DType | None) -> Tensor | None:
    """A Tensor stacked from nested lists, differentiable in both modes; None if they hold none."""
    if not isinstance(value, (list, tuple)) or not holds_tensors(value):
        return None
    if dtype is None:
        dtype = _DEFAULT[_common_dtype(value).kind]

    def stacked(v: Any) -> Any:
        if isinstance(v, (list, tuple)):
            return ops.stack([stacked(item) for item in v])
        return ops.cast(as_tensor(v), dtype)

    return stacked(value)


def _common_dtype(value: Any) -> DType:
    if isinstance(value, (list, tuple)):
        kinds = [_common_dtype(v) for v in value] or [dt.float32]
        return list(itertools.accumulate(kinds, dt.promote))[-1]
    return as_tensor(value).dtype


def _initialised(data: Any, dtype: DType | None, shape: Any, init: Any) -> Tensor:
    """The Tensor of ``Tensor(shape=..., dtype=..., init=...)``."""
    if data is not None:
        raise ValueError("give a Tensor its data, or shape and init, not both")
    if dtype is None:
        raise TypeError("Tensor(shape=...) needs a dtype")
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    if None in sizes or -1 in sizes:
        if init is not None:
            raise ValueError("a Tensor with sizes of None describes inputs: it has no init")
        known = tuple(-1 if n is None else operator.index(n) for n in sizes)
        if min(known) < -1:
            raise ValueError(f"a size is None or not negative, not as in {list(sizes)}")
        return Tensor._wrap(NoElements(dtype, known))
    array = np.zeros(shape, dtype.numpy)
    if init is not None:
        init(array)
    return current_handler().constant(array, dtype)


class NoElements:
    """Stands in place of the ndarray of a Tensor that describes inputs: it has no elements.

    In its shape -1 is a size that may be any, as MindSpore shows it.
    """

    def __init__(self, dtype: DType, shape: tuple[int, ...]):
        self.dtype, self.shape, self.ndim, self.size = dtype.numpy, shape, len(shape), 0

    def __repr__(self) -> str:
        return "<no elements>"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self.refusal

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else self.refusal

    @property
    def refusal(self) -> ValueError:
        """The error for whoever needs the elements."""
        shape = [None if n < 0 else n for n in self.shape]
        return ValueError(f"a Tensor of shape {shape} describes inputs: it has no elements")


register_eager(EagerHandler())

__all__ = [
    "Tensor", "EagerHandler", "from_dlpack", "from_numpy", "is_tensor", "is_tracing",
    "is_variable", "tapes", "tensor", "to_array",
]  # fmt: skip
