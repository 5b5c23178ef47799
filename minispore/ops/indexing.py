"""``x[index]`` and ``x[index] = value``, with NumPy's meaning of every index.

An index is taken apart once, into what the graph can see:

    slices     the basic part: one slice per axis (an int is a slice of length 1)     StridedSlice
    view       the shape after that, without the ints' axes and with None's           Reshape
    advanced   lists and int Tensors, each for one axis of the view                   GatherIndex

Reading does these from left to right; writing reads the region, changes it (SetIndex, or Select
for a bool mask), and puts it back (SetSlice).  Results are always new values: a slice that shares
memory, as in MindSpore's PyNative mode, would mean something else in a graph.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from minispore import ops
from minispore.abstract import AbstractTensor, AbstractTuple, Shape, broadcast_shapes
from minispore.dims import Dim, is_born, same, same_shape
from minispore.dtype import bool_, int64
from minispore.ops.common import holds_tensors, require, widened, words
from minispore.ops.shape import StridedSlice, as_slices, resolved_slices, slice_bounds, slice_size
from minispore.primitive import Primitive, ScalarLike, TensorLike, apply, as_tensor
from minispore.tree import NeedConstant

# ------------------------------------------------------------------------------ primitives


class SetSlice(Primitive):
    """The first operand with elements ``range(begin, end, stride)`` of each axis replaced.

    Attributes as in StridedSlice.  The second operand has the shape of the region.
    """

    def infer(self, x: AbstractTensor, value: AbstractTensor) -> AbstractTensor:
        return x

    def eval(self, x: np.ndarray, value: np.ndarray) -> Any:
        out = x.copy()
        out[as_slices(self.attrs)] = value
        return out

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        value = inputs[1]
        dx = apply(self, dout, ops.zeros(value.shape, value.dtype))
        return dx, apply(StridedSlice.bound(**self.attrs), dout)


def _positions(axes: tuple[int, ...], ndim: int, indices: tuple) -> tuple:
    """The NumPy index with `indices` at `axes`, whole slices elsewhere."""
    given = dict(zip(axes, indices, strict=True))
    return tuple(given.get(axis, slice(None)) for axis in range(ndim))


def _gathered_shape(shape: Shape, axes: tuple[int, ...], indices: tuple) -> Shape:
    """The shape of ``x[indices]``: the indices' axes stand where they were, if side by side."""
    common = broadcast_shapes(*(i.shape for i in indices))
    rest = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    first = axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0
    return rest[:first] + common + rest[first:]


class GatherIndex(Primitive):
    """``x[..., i, ..., j, ...]``: int Tensors i, j ... at attribute `axes`, all of the other axes.

    The index operands broadcast together; negative ones count from the end.
    """

    def infer(self, x: AbstractTensor, *indices: AbstractTensor) -> AbstractTensor:
        return AbstractTensor(x.dtype, _gathered_shape(x.shape, self.attrs["axes"], indices))

    def eval(self, x: np.ndarray, *indices: np.ndarray) -> Any:
        out = x[_positions(self.attrs["axes"], x.ndim, indices)]
        return np.array(out, order="C", copy=np.may_share_memory(out, x) or None)

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        x, *indices = inputs
        zeros = ops.zeros(x.shape, x.dtype)
        return apply(AddIndex.bound(**self.attrs), zeros, dout, *indices), *_none(indices)


class AddIndex(Primitive):
    """The first operand with the second added at the positions of GatherIndex, each time anew."""

    def infer(self, x: AbstractTensor, value: AbstractTensor, *i: AbstractTensor) -> AbstractTensor:
        return x

    def eval(self, x: np.ndarray, value: np.ndarray, *indices: np.ndarray) -> Any:
        out = np.array(widened(x))
        np.add.at(out, _positions(self.attrs["axes"], x.ndim, indices), widened(value))
        return out

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        indices = inputs[2:]
        dvalue = apply(GatherIndex.bound(**self.attrs), dout, *indices)
        return dout, dvalue, *_none(indices)


class SetIndex(Primitive):
    """The first operand with the second written at the positions of GatherIndex.

    Of several values for one position the last stays, and only that one gets a gradient.
    """

    def infer(self, x: AbstractTensor, value: AbstractTensor, *i: AbstractTensor) -> AbstractTensor:
        return x

    def eval(self, x: np.ndarray, value: np.ndarray, *indices: np.ndarray) -> Any:
        out = x.copy()
        out[_positions(self.attrs["axes"], x.ndim, indices)] = value
        return out

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        x, value, *indices = inputs
        dx = apply(self, dout, ops.zeros(value.shape, value.dtype), *indices)
        dvalue = apply(GatherIndex.bound(**self.attrs), dout, *indices)
        if not same(prod(broadcast_shapes(*(i.shape for i in indices))), 1):
            dvalue = ops.where(self._stayed(x, value, indices), dvalue, ops.zeros_like(dvalue))
        return dx, dvalue, *_none(indices)

    def _stayed(self, x: Any, value: Any, indices: list) -> Any:
        """True where an element of `value` was not overwritten by a later one."""
        number = ops.reshape(ops.arange(prod(value.shape)), value.shape)
        written = apply(self, ops.zeros(x.shape, int64), number, *indices)
        return ops.equal(apply(GatherIndex.bound(**self.attrs), written, *indices), number)


def _none(indices: Any) -> tuple[None, ...]:
    return (None,) * len(indices)


class IndexInRange(Primitive):
    """True if all elements of an int Tensor are positions of an axis of attribute `size`."""

    def infer(self, index: AbstractTensor) -> AbstractTensor:
        return AbstractTensor(bool_, ())

    def eval(self, index: np.ndarray) -> Any:
        size = self.attrs["size"]
        return np.all((index >= -size) & (index < size))

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (None,)


class MaskPositions(Primitive):
    """The positions of True in a bool Tensor: one int Tensor per axis (NumPy's ``nonzero``).

    `count` is how many there are (dims.py).
    """

    gives_sizes = True

    def infer(self, mask: AbstractTensor) -> AbstractTuple:
        return AbstractTuple((AbstractTensor(int64, (self.attrs.get("count", 0),)),) * mask.ndim)

    def eval(self, mask: np.ndarray) -> Any:
        return tuple(np.array(axis) for axis in np.nonzero(mask))

    def vjp(self, inputs: tuple, out: Any, dout: Any) -> tuple:
        return (None,)


# ------------------------------------------------------------------- taking an index apart


def _item(item: Any) -> Any:
    """An item of an index as int, slice, None, Ellipsis, constant ndarray, or Tensor."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return np.array(item)
    if isinstance(item, ScalarLike) and item.kind is int:
        return as_tensor(item, int64)
    if isinstance(item, TensorLike) and not item.dtype.is_float:
        return item
    if isinstance(item, (list, tuple)):
        return _sequence(item)
    if isinstance(item, (int, np.integer)):
        return operator.index(item)
    what = f"a {item.dtype} Tensor" if isinstance(item, TensorLike) else type(item).__name__
    raise IndexError(
        "a Tensor is indexed by ints, slices, None, ..., bools, lists, and int or bool Tensors, "
        f"not by {what}"
    )


def _sequence(items: Any) -> Any:
    """A list as an index: a constant ndarray, or a Tensor if it holds Tensors."""
    if holds_tensors(items):
        return _item(_stacked(items))
    try:
        array = np.array(items)
    except ValueError:
        raise IndexError(f"an index list must not be ragged: {items!r:.60}") from None
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise IndexError(f"an index list holds ints or bools, not {items!r:.60}")
    return array


def _stacked(items: Any) -> Any:
    """Nested lists that hold Tensors as one Tensor."""
    if isinstance(items, (list, tuple)):
        return ops.stack([_stacked(i) for i in items])
    return as_tensor(items)


def _is_array(item: Any) -> bool:
    return isinstance(item, (np.ndarray, TensorLike))


def _is_mask(item: Any) -> bool:
    """True for a bool Tensor: its positions are known only at run time."""
    return isinstance(item, TensorLike) and item.dtype is bool_


def _axes_taken(item: Any) -> int:
    """How many axes of the Tensor an item is for."""
    if item is None or item is Ellipsis or item is _GAP:
        return 0
    if isinstance(item, np.ndarray):
        return item.ndim if item.dtype == bool else 1
    return len(item.shape) if _is_mask(item) else 1


def _items(index: Any, ndim: int) -> list:
    """The items of an index, with the Ellipsis replaced: together they take `ndim` axes."""
    items = [_item(i) for i in (index if isinstance(index, tuple) else (index,))]
    dots = [place for place, item in enumerate(items) if item is Ellipsis]
    taken = sum(_axes_taken(item) for item in items)
    if len(dots) > 1:
        raise IndexError("an index can have only one Ellipsis ('...')")
    if taken > ndim:
        raise IndexError(f"too many indices: {taken} for a Tensor of {ndim} axes")
    place = dots[0] if dots else len(items)
    before, after = items[:place], items[place + 1 :]
    rest: list = [slice(None)] * (ndim - taken)
    if not rest and any(map(_is_array, items)) and _places(before) and _places(after):
        rest = [_GAP]
    return before + rest + after


def _places(items: list) -> bool:
    """True if some of the items are arrays or ints, which are alike if there is an array."""
    return any(_is_array(item) or isinstance(item, int) for item in items)


_GAP = object()  # an Ellipsis for no axis at all, which still parts indices (as in NumPy)


def _checked(position: int, size: int, axis: int) -> int:
    """`position` counted from the front; IndexError if the axis has none such."""
    if not -size <= position < size:
        raise IndexError(f"index {position} is out of range for axis {axis} of size {size}")
    return position + size if position < 0 else position


def _is_born(size: Any) -> bool:
    """True for a size that depends on values."""
    return isinstance(size, Dim) and any(map(is_born, size.symbols))


def _is_one(size: Any) -> bool:
    """True for a size of 1; one that is born is none."""
    try:
        return bool(size == 1)
    except NeedConstant:
        return False


@dataclass
class _Plan:
    """An index taken apart, for a Tensor of `shape`; see the head of this module."""

    shape: Shape
    ints_are_basic: bool
    slices: list[slice] = field(default_factory=list)
    view: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    indices: list[Any] = field(default_factory=list)  # one int Tensor per axis in `axes`
    gap: int | None = None  # an axis of the view, of size 1, that the result does not have
    mask: tuple[int, Any] | None = None  # (axis of the view, bool Tensor), if it is not resolved

    @classmethod
    def of(cls, index: Any, shape: Shape, keep_mask: bool = False) -> _Plan:
        """The plan of an index; with `keep_mask` the (only) bool Tensor stays as it is."""
        items = _items(index, len(shape))
        plan = cls(shape, keep_mask or not any(map(_is_array, items)))
        for item in items:
            if _is_mask(item) and keep_mask:
                plan.keep(plan.checked_mask(item))
            else:
                plan.add(item)
        return plan

    def keep(self, mask: Any) -> None:
        """Append a bool Tensor, unresolved; one without axes is for a new axis."""
        if mask.shape:
            self.mask = (len(self.view), mask)
            self.whole(len(mask.shape))
        else:
            self.mask = (len(self.view), ops.reshape(mask, (1,)))
            self.view.append(1)

    def add(self, item: Any) -> None:
        """Append one item."""
        axis = len(self.slices)
        if item is None or item is _GAP:
            self.gap = len(self.view) if item is _GAP else self.gap
            self.view.append(1)
        elif isinstance(item, slice):
            self.slices.append(item)
            self.view.append(slice_size(*slice_bounds(item, self.shape[axis])))
        elif isinstance(item, int) and _is_born(self.shape[axis]):
            self.at_run(as_tensor(np.array(item)), f"index {item}")
        elif isinstance(item, int):
            position = _checked(item, self.shape[axis], axis)
            if self.ints_are_basic:
                self.slices.append(slice(position, position + 1))
            else:
                self.advanced(as_tensor(np.array(position)))
        elif _axes_taken(item) == 0:  # a bool: a new axis, of which one or no element is taken
            self.view.append(1)
            self.axes.append(len(self.view) - 1)
            self.indices += self.positions_of(ops.reshape(as_tensor(item), (1,)), item)
        elif isinstance(item, np.ndarray):
            self.constant(item)
        elif _is_mask(item):
            for positions in apply(MaskPositions.bound(), self.checked_mask(item)):
                self.advanced(positions)
        else:
            self.at_run(item, "an index")

    def at_run(self, positions: Any, what: str) -> None:
        """Append an int Tensor: whether it is in range shows when the program runs."""
        axis, size = len(self.slices), self.shape[len(self.slices)]
        message = words(f"{what} is out of range for axis {axis} of size ", size)
        require(apply(IndexInRange.bound(size=size), positions), IndexError, message)
        self.advanced(positions)

    def positions_of(self, mask: Any, item: Any) -> list:
        """The positions of True in a 1-d mask, known now if `item` is a constant."""
        if isinstance(item, np.ndarray):
            return [as_tensor(np.arange(int(item)))]
        return list(apply(MaskPositions.bound(), mask))

    def constant(self, item: np.ndarray) -> None:
        """Append a list of ints or bools."""
        axis = len(self.slices)
        if item.dtype == bool:
            for positions in np.nonzero(self.checked_mask(item)):
                self.advanced(as_tensor(positions))
            return
        size = self.shape[axis]
        if isinstance(size, Dim):
            self.at_run(as_tensor(item), "an index")
            return
        for extreme in (item.min(), item.max()) if item.size else ():
            _checked(int(extreme), size, axis)
        self.advanced(as_tensor(np.where(item < 0, item + size, item).astype(np.int64)))

    def checked_mask(self, mask: Any) -> Any:
        """`mask`; IndexError if the axes that it is for have another shape."""
        axis = len(self.slices)
        shape = self.shape[axis : axis + len(mask.shape)]
        if mask.shape != shape:
            raise IndexError(f"a bool index of shape {mask.shape} does not match axes of {shape}")
        return mask

    def whole(self, count: int) -> None:
        """Append `count` axes that are taken whole."""
        for _ in range(count):
            self.add(slice(None))

    def advanced(self, positions: Any) -> None:
        """Append an axis of which `positions` are taken."""
        self.whole(1)
        self.axes.append(len(self.view) - 1)
        self.indices.append(positions)

    @property
    def bounds(self) -> dict:
        """The attributes of StridedSlice and SetSlice."""
        return resolved_slices(self.slices, self.shape)

    @property
    def region(self) -> Shape:
        """The shape of the basic part before axes are dropped and added."""
        bounds = map(slice_bounds, self.slices, self.shape)
        return tuple(slice_size(*b) for b in bounds)

    @property
    def takes_all(self) -> bool:
        """True if the slices leave the Tensor as it is."""
        return same_shape(self.region, self.shape) and set(self.bounds["strides"]) <= {1}

    @property
    def gathered(self) -> Shape:
        """The shape of GatherIndex' result; it has the gap, which ``x[index]`` does not have."""
        return _gathered_shape(tuple(self.view), tuple(self.axes), tuple(self.indices))

    @property
    def result(self) -> Shape:
        """The shape of ``x[index]``."""
        if not self.axes:
            return tuple(self.view)
        shape = self.gathered
        if self.gap is None:
            return shape
        # the indices on both sides of the gap are parted by it, so their common axes come first
        indexed = len(self.axes)
        place = len(shape) - (len(self.view) - indexed) + self.gap
        place -= sum(axis < self.gap for axis in self.axes)
        return shape[:place] + shape[place + 1 :]

    def read(self, x: Any) -> Any:
        """The basic part of `x`, in the shape `view`."""
        base = x if self.takes_all else apply(StridedSlice.bound(**self.bounds), x)
        view = tuple(self.view)
        return base if same_shape(base.shape, view) else ops.reshape(base, view)

    def put_back(self, x: Any, base: Any) -> Any:
        """`x` with its basic part replaced by `base`, which has the shape `view`."""
        if not same_shape(base.shape, self.region):
            base = ops.reshape(base, self.region)
        return base if self.takes_all else apply(SetSlice.bound(**self.bounds), x, base)


# ------------------------------------------------------------------------ reading and writing


def getitem(x: Any, index: Any) -> Any:
    """``x[index]``, a new Tensor.

    Args:
        index: an int (also one that varies), slice, None, ..., bool, list, int or bool Tensor,
            or a tuple of them.

    Raises:
        IndexError: a position out of range, too many indices, or an index of another type.
    """
    plan = _Plan.of(index, x.shape)
    base = plan.read(x)
    if not plan.axes:
        return ops.identity(x) if base is x else base
    out = apply(GatherIndex.bound(axes=_common(plan)), base, *plan.indices)
    return out if plan.gap is None else ops.reshape(out, plan.result)


def setitem(x: Any, index: Any, value: Any) -> Any:
    """`x` with ``x[index]`` replaced by `value`, which is cast and broadcast; a new Tensor.

    Raises:
        IndexError: as in ``getitem``.
        ValueError: `value` cannot be broadcast to the shape of ``x[index]``.
        TypeError: in a graph, a bool Tensor as index and a value of which it is not known that it
            has one element per True.
    """
    value = _value(value, x.dtype)
    masked = _masked(x, index, value)
    if masked is not None:
        return masked
    plan = _Plan.of(index, x.shape)
    if not plan.axes:
        return plan.put_back(x, _fitted(value, plan.result))
    axes = _common(plan)
    value = _fitted(value, plan.result)
    if plan.gap is not None:
        value = ops.reshape(value, plan.gathered)
    base = apply(SetIndex.bound(axes=axes), plan.read(x), value, *plan.indices)
    return plan.put_back(x, base)


def _common(plan: _Plan) -> tuple[int, ...]:
    """The advanced axes of a plan; IndexError if the indices do not broadcast together."""
    shapes = [i.shape for i in plan.indices]
    try:
        broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(
            f"index Tensors of shapes {' and '.join(map(str, shapes))} do not broadcast together"
        ) from None
    return tuple(plan.axes)


def _value(value: Any, dtype: Any) -> Any:
    """The right-hand side of an assignment as a Tensor of `dtype`."""
    if isinstance(value, (list, tuple)) and holds_tensors(value):
        value = _stacked(value)
    return ops.cast(as_tensor(value, dtype), dtype)


def _fitted(value: Any, shape: Shape) -> Any:
    """`value` broadcast to `shape`; surplus leading axes of size 1 are dropped, as in NumPy."""
    value = _without_leading(value, len(shape))
    if same_shape(value.shape, shape):
        return value
    try:
        fits = _broadcasts(value.shape, shape)
    except NeedConstant:
        what = f"whether a value of shape {value.shape} fits x[index] of shape {shape}"
        raise NeedConstant(what) from None
    if fits:
        return ops.broadcast_to(value, shape)
    raise ValueError(f"a value of shape {value.shape} does not fit the indexed shape {shape}")


def _without_leading(value: Any, ndim: int) -> Any:
    surplus = max(0, len(value.shape) - ndim)
    if surplus and all(map(_is_one, value.shape[:surplus])):
        return ops.reshape(value, value.shape[surplus:])
    return value


def _broadcasts(shape: Shape, target: Shape) -> bool:
    try:
        return same_shape(broadcast_shapes(shape, target), target)
    except ValueError:
        return False


def _masked(x: Any, index: Any, value: Any) -> Any:
    """``x[mask] = value`` by Select, if `value` does not depend on the number of True; else None.

    The mask may stand among slices, and (for a value of one element) ints.
    """
    items = _items(index, len(x.shape))
    arrays = [item for item in items if _is_array(item)]
    if len(arrays) != 1 or not _is_mask(arrays[0]):
        return None
    if any(isinstance(item, int) for item in items) and not _is_one(prod(value.shape)):
        return None
    plan = _Plan.of(index, x.shape, keep_mask=True)
    assert plan.mask is not None
    axis, mask = plan.mask
    depth, after = len(mask.shape), len(plan.view) - len(mask.shape) - axis
    ndim = axis + 1 + after  # of x[mask]: the mask's axes become one
    value = _without_leading(value, ndim)
    sizes = (1,) * (ndim - len(value.shape)) + value.shape
    if len(sizes) > ndim or not _is_one(sizes[axis]):
        return None
    spread = sizes[:axis] + (1,) * depth + sizes[axis + 1 :]
    base = plan.read(x)
    if not _broadcasts(spread, base.shape):
        raise ValueError(f"a value of shape {value.shape} does not fit x[mask] of x {x.shape}")
    mask = ops.reshape(mask, (1,) * axis + mask.shape + (1,) * after)
    return plan.put_back(x, ops.where(mask, ops.reshape(value, spread), base))
