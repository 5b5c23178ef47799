"""Writes of parts of Parameters: the functions that MindSpore calls scatter.

Each computes the new value with its functional twin (``tensor_scatter_update`` and the like, in
gather.py) and writes the Tensor's cell, as ``assign`` does (state.py).
"""

from __future__ import annotations

from typing import Any

from minispore import ops
from minispore.ops.common import check_tensor


def _rows(name: str, variable: Any, indices: Any, updates: Any) -> tuple[Any, Any]:
    """Positions along the first axis as ``gather_nd`` takes them, and the slices to put there."""
    x, index = check_tensor(name, variable), check_tensor(name, indices)
    y = ops.cast(check_tensor(name, updates), x.dtype)
    expected = (*index.shape, *x.shape[1:])
    if not x.shape or y.shape != expected:
        raise ValueError(
            f"{name} into shape {x.shape} at positions of shape {index.shape} needs slices of "
            f"shape {expected}, not {y.shape}"
        )
    return ops.expand_dims(index, -1), y


def scatter_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """Write `updates` in place of the slices of `input_x` along its first axis at `indices`.

    `updates` has the shape of `indices` and then that of a slice (ValueError); of equal positions
    the last wins.  IndexError when the program runs for a position out of range.  Returns the
    new value, as ``assign``.  MindSpore: ``ops.scatter_update``, ``ops.ScatterUpdate``.
    """
    index, rows = _rows("scatter_update", input_x, indices, updates)
    return ops.assign(input_x, ops.tensor_scatter_update(input_x, index, rows))


def scatter_add(input_x: Any, indices: Any, updates: Any) -> Any:
    """Add `updates` to the slices of `input_x` along its first axis at `indices`, in place.

    Equal positions add up.  Shapes, errors and result as in ``scatter_update``.
    MindSpore: ``ops.scatter_add``, ``ops.ScatterAdd``.
    """
    index, rows = _rows("scatter_add", input_x, indices, updates)
    return ops.assign(input_x, ops.tensor_scatter_add(input_x, index, rows))


def scatter_sub(input_x: Any, indices: Any, updates: Any) -> Any:
    """Subtract `updates` from the slices of `input_x` along its first axis at `indices`, in place.

    As ``scatter_add``.  MindSpore: ``ops.scatter_sub``, ``ops.ScatterSub``.
    """
    index, rows = _rows("scatter_sub", input_x, indices, updates)
    return ops.assign(input_x, ops.tensor_scatter_add(input_x, index, -rows))


def scatter_nd_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """Write `updates` into `input_x` at `indices`, whose rows name slices as in ``gather_nd``.

    Errors as in ``tensor_scatter_update``.  Returns the new value, as ``assign``.
    MindSpore: ``ops.scatter_nd_update``, ``ops.ScatterNdUpdate``.
    """
    return ops.assign(input_x, ops.tensor_scatter_update(input_x, indices, updates))


def scatter_nd_add(input_x: Any, indices: Any, updates: Any) -> Any:
    """Add `updates` to `input_x` at `indices`, in place; otherwise as ``scatter_nd_update``.

    MindSpore: ``ops.scatter_nd_add``, ``ops.ScatterNdAdd``.
    """
    return ops.assign(input_x, ops.tensor_scatter_add(input_x, indices, updates))


def scatter_nd_sub(input_x: Any, indices: Any, updates: Any) -> Any:
    """Subtract `updates` from `input_x` at `indices`, in place; as ``scatter_nd_update``.

    MindSpore: ``ops.scatter_nd_sub``, ``ops.ScatterNdSub``.
    """
    return ops.assign(input_x, tensor_scatter_sub(input_x, indices, updates))


def tensor_scatter_sub(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` less `updates` at the positions in `indices`, as ``tensor_scatter_add``.

    MindSpore: ``ops.tensor_scatter_sub``, ``ops.TensorScatterSub``.
    """
    return ops.tensor_scatter_add(input_x, indices, -check_tensor("tensor_scatter_sub", updates))


def scatter_max(input_x: Any, indices: Any, updates: Any) -> Any:
    """Keep the larger of the slices of `input_x` along its first axis at `indices` and `updates`.

    In place; shapes, errors and result as in ``scatter_update``.
    MindSpore: ``ops.scatter_max``, ``ops.ScatterMax``.
    """
    index, rows = _rows("scatter_max", input_x, indices, updates)
    return ops.assign(input_x, ops.tensor_scatter_max(input_x, index, rows))


def scatter_min(input_x: Any, indices: Any, updates: Any) -> Any:
    """Keep the smaller; as ``scatter_max``.  MindSpore: ``ops.scatter_min``, ``ops.ScatterMin``."""
    index, rows = _rows("scatter_min", input_x, indices, updates)
    return ops.assign(input_x, ops.tensor_scatter_min(input_x, index, rows))


def scatter(input: Any, axis: int, index: Any, src: Any) -> Any:
    """`input` with the elements of `src` at the positions `index` along `axis`; writes nothing.

    As ``tensor_scatter_elements``.  MindSpore: ``ops.scatter``.
    """
    return ops.tensor_scatter_elements(input, index, src, axis)
