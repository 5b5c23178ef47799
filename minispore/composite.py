"""Functions of functions, in MindSpore's names.

``HyperMap`` and ``Map`` call a function on the items of tuples and lists, ``MultitypeFuncGraph``
is one function of several, chosen by the types of its arguments.  They are written so that the
front end evaluates them like a user's functions; there is nothing of them in a graph.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from minispore import ops
from minispore.abstract import AbstractTensor
from minispore.dtype import dtype_to_pytype, to_dtype
from minispore.primitive import Primitive
from minispore.tensor import Tensor

KINDS: dict[str, type | tuple[type, ...]] = {
    "Tensor": Tensor,
    "Number": (bool, int, float),
    "Bool": bool,
    "Int": int,
    "Float": float,
    "String": str,
    "Tuple": tuple,
    "List": list,
    "Dict": dict,
    "Dictionary": dict,
    "None": type(None),
    "Function": Callable,  # type: ignore[dict-item]
    "Slice": slice,
    "Ellipsis": type(...),
}


class MultitypeFuncGraph:
    """A function that is one of several, chosen by the types of its arguments.

        add = MultitypeFuncGraph("add")

        @add.register("Tensor", "Number")
        def _(x, y): ...

    `read_value` is kept for MindSpore's signature.  (MindSpore: ``ops.MultitypeFuncGraph``.)
    """

    def __init__(self, name: str, read_value: bool = False):
        self.name = name
        self.entries: list[tuple[tuple[Any, ...], Callable]] = []

    def kind(self, name: Any) -> Any:
        """What a name in ``KINDS`` stands for, or an element type: Python's type of an element."""
        if str(name) in KINDS:
            return KINDS[str(name)]
        try:
            return dtype_to_pytype(to_dtype(name))
        except TypeError:
            known = ", ".join(KINDS)
            raise ValueError(f"'{name}' is no type of {self.name}; there are {known}") from None

    def register(self, *type_names: Any) -> Callable[[Callable], Callable]:
        """A decorator: the function for arguments of these types, by the names in ``KINDS``.

        ``mstype.tensor_type`` and its kin stand for these too, and an element type for numbers:
        ``mstype.int32`` or "Float32".  ValueError for another name.
        """
        kinds = tuple([self.kind(name) for name in type_names])

        def decorator(function: Callable) -> Callable:
            self.entries.append((kinds, function))
            return function

        return decorator

    def __call__(self, *args: Any) -> Any:
        """The result of the first function that takes such arguments; ValueError without one."""
        for kinds, function in self.entries:
            if len(kinds) == len(args):
                if all([isinstance(a, k) for a, k in zip(args, kinds)]):  # noqa: B905
                    return function(*args)
        given = ", ".join([type(a).__name__ for a in args])
        raise ValueError(f"{self.name} has no function for ({given})")


def _mapped(function: Callable, args: tuple, deep: bool) -> Any:
    """A function on the items of the first argument; others are items alike, or taken whole."""
    first = args[0]
    if not isinstance(first, (tuple, list)):
        return function(*args)
    items = []
    for i in range(len(first)):
        row = []
        for a in args:
            if isinstance(a, (tuple, list)):
                if len(a) != len(first):
                    raise ValueError(f"cannot map over {len(first)} and {len(a)} items")
                row.append(a[i])
            else:
                row.append(a)
        nested = deep and isinstance(row[0], (tuple, list))
        items.append(_mapped(function, tuple(row), deep) if nested else function(*row))
    return items if isinstance(first, list) else tuple(items)


class HyperMap:
    """Calls a function on the items of tuples and lists, nested ones too; gives the like.

    ``HyperMap(function)(xs, ys)`` or ``HyperMap()(function, xs, ys)``.  What is no tuple or list is
    passed to every call.  `reverse` changes nothing.  (MindSpore: ``ops.HyperMap``.)

    Raises:
        ValueError: from a call: tuples of different lengths.
    """

    deep = True

    def __init__(self, ops: Callable | None = None, reverse: bool = False):
        self.ops = ops

    def __call__(self, *args: Any) -> Any:
        if self.ops is None:
            return _mapped(args[0], args[1:], self.deep)
        return _mapped(self.ops, args, self.deep)


class Map(HyperMap):
    """Calls a function on the items of tuples and lists, one level deep (MindSpore: ``Map``)."""

    deep = False


def vmap(fn: Callable, in_axes: Any = 0, out_axes: Any = 0) -> Callable:
    """A function that calls `fn` on each slice of its arguments, and stacks what it returns.

    There is one call for each slice, in order; a graph holds them all.

    Args:
        in_axes: the axis along which every argument is sliced, None for one that is passed whole;
            or a tuple or list of these, one for each argument (and within it, if that is a tuple
            or list).
        out_axes: the axis along which every result is stacked, None for the first call's alone; or
            a tuple or list of these, one for each result.

    Raises:
        ValueError: from a call: there is no axis, or their sizes differ; axes that do not fit.

    (MindSpore: ``mindspore.vmap``, which makes one call of batched operations.)
    """

    def mapped(*args: Any) -> Any:
        axes = _axes_like(in_axes, args)
        sizes = _sizes(args, axes)
        if not sizes or min(sizes) < max(sizes):
            raise ValueError(f"vmap: the axes must have one size, not {sizes}")
        rows = [fn(*_sliced(args, axes, i)) for i in range(sizes[0])]
        return _stacked(rows, out_axes)

    return mapped


def _axes_like(axes: Any, args: Any) -> Any:
    """One axis for each argument."""
    if not isinstance(args, (tuple, list)):
        return axes
    if not isinstance(axes, (tuple, list)):
        return [_axes_like(axes, a) for a in args]
    if len(axes) != len(args):
        raise ValueError(f"vmap: {len(axes)} axes for {len(args)} values")
    return [_axes_like(axes[i], args[i]) for i in range(len(args))]


def _sizes(args: Any, axes: Any) -> list[int]:
    """The sizes of the axes."""
    if isinstance(args, (tuple, list)):
        found = []
        for i in range(len(args)):
            found += _sizes(args[i], axes[i])
        return found
    return [] if axes is None else [args.shape[axes]]


def _sliced(args: Any, axes: Any, i: int) -> Any:
    """Slice number `i` of all arguments."""
    if isinstance(args, (tuple, list)):
        return tuple([_sliced(args[k], axes[k], i) for k in range(len(args))])
    return args if axes is None else ops.squeeze(ops.narrow(args, axes, i, 1), axes)


def _stacked(rows: list[Any], axes: Any) -> Any:
    """The results of all calls, as one result."""
    first = rows[0]
    if not isinstance(first, (tuple, list)):
        return first if axes is None else ops.stack(rows, axes)
    axes = _axes_like(axes, first)
    return tuple([_stacked([row[k] for row in rows], axes[k]) for k in range(len(first))])


# ------------------------------------------- what MindSpore's graphs call; here Python does it


def make_tuple(*items: Any) -> tuple:
    """A tuple of its arguments (MindSpore: ``ops.functional.make_tuple``)."""
    return items


def make_list(*items: Any) -> list:
    """A list of its arguments (MindSpore: ``ops.functional.make_list``)."""
    return list(items)


def tuple_getitem(data: Any, index: Any) -> Any:
    """``data[index]`` (MindSpore: ``ops.functional.tuple_getitem``)."""
    return data[index]


def tuple_setitem(data: tuple, index: int, value: Any) -> tuple:
    """A tuple with another item (MindSpore: ``ops.functional.tuple_setitem``)."""
    return (*data[:index], value, *data[index + 1 :])


def tuple_len(data: Any) -> int:
    """``len(data)`` (MindSpore: ``ops.functional.tuple_len``)."""
    return len(data)


def scalar_add(x: Any, y: Any) -> Any:
    """``x + y`` of numbers (MindSpore: ``ops.functional.scalar_add``)."""
    return x + y


def scalar_sub(x: Any, y: Any) -> Any:
    """``x - y`` of numbers (MindSpore: ``ops.functional.scalar_sub``)."""
    return x - y


def scalar_mul(x: Any, y: Any) -> Any:
    """``x * y`` of numbers (MindSpore: ``ops.functional.scalar_mul``)."""
    return x * y


def scalar_div(x: Any, y: Any) -> Any:
    """``x / y`` of numbers (MindSpore: ``ops.functional.scalar_div``)."""
    return x / y


def scalar_floordiv(x: Any, y: Any) -> Any:
    """``x // y`` of numbers (MindSpore: ``ops.functional.scalar_floordiv``)."""
    return x // y


def scalar_mod(x: Any, y: Any) -> Any:
    """``x % y`` of numbers (MindSpore: ``ops.functional.scalar_mod``)."""
    return x % y


def scalar_eq(x: Any, y: Any) -> Any:
    """``x == y`` of numbers (MindSpore: ``ops.functional.scalar_eq``)."""
    return x == y


def scalar_lt(x: Any, y: Any) -> Any:
    """``x < y`` of numbers (MindSpore: ``ops.functional.scalar_lt``)."""
    return x < y


def scalar_gt(x: Any, y: Any) -> Any:
    """``x > y`` of numbers (MindSpore: ``ops.functional.scalar_gt``)."""
    return x > y


def bool_not(x: Any) -> Any:
    """``not x`` (MindSpore: ``ops.functional.bool_not``)."""
    return not x


class PrimitiveWithInfer(Primitive, register=False):
    """A primitive of the user's that says ``infer_shape`` and ``infer_dtype`` of its operands.

    They get the operands' shapes and element types.  To be run it needs ``eval`` too, as
    ``ops.Primitive`` describes.  (MindSpore: ``ops.PrimitiveWithInfer``.)
    """

    def infer(self, *operands: Any) -> AbstractTensor:
        shape = self.infer_shape(*[x.shape for x in operands])
        return AbstractTensor(self.infer_dtype(*[x.dtype for x in operands]), tuple(shape))

    def init_prim_io_names(self, inputs: list[str], outputs: list[str]) -> None:
        """Accepted: operands have no names here."""

    def add_prim_attr(self, name: str, value: Any) -> Primitive:
        """Set an attribute; returns the primitive."""
        setattr(self, name, value)
        return self


def prim_attr_register(init: Callable) -> Callable:
    """For ``__init__`` of a primitive: what it is constructed with are its attributes.

    (MindSpore: ``ops.prim_attr_register``.)
    """
    signature = inspect.signature(init)

    @functools.wraps(init)
    def constructed(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        self.attrs.update(list(bound.arguments.items())[1:])
        init(self, *args, **kwargs)

    return constructed


list_getitem = dict_getitem = tuple_getitem
list_len = tuple_len
partial = functools.partial


def Partial() -> type[functools.partial]:
    """What binds the first arguments of a function: ``Partial()(function, x)``."""
    return functools.partial
