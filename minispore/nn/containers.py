"""Cells that hold other cells in order: SequentialCell, CellList, CellDict.

The children's names are their places (``0``, ``1`` ...) or, for an OrderedDict and a CellDict, the
keys; so a Parameter is called ``seq.0.weight``.  `cell_list` is the tuple of the children.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, TypeVar

from minispore.nn.cell import Cell

Self = TypeVar("Self", bound="_OrderedCells")


class _OrderedCells(Cell):
    """Children numbered by place; what SequentialCell and CellList share."""

    cell_list: tuple[Cell, ...]

    def __init__(self, children: Iterable[tuple[str, Cell]] = ()):
        super().__init__()
        self.cell_list = ()
        for name, cell in children:
            self._add(name, cell)

    def _add(self, name: str, cell: Cell) -> None:
        """Put a child under a name, and name its Parameters after it."""
        self.insert_child_to_cell(name, cell)
        cell.update_parameters_name(f"{self._prefix}{name}.")

    def _children_changed(self) -> None:
        self.cell_list = tuple(self._cells.values())

    def _place(self, index: Any) -> int:
        """An int or integer Tensor counted from the front; IndexError if there is no such child."""
        if isinstance(index, bool) or not hasattr(index, "__index__"):
            raise TypeError(
                f"the index of a {type(self).__name__} is an int or a slice, "
                f"not {type(index).__name__}"
            )
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no index {index} in a {type(self).__name__} of {len(self)}")
        return index % len(self)

    def _check_cell(self, cell: Any) -> Cell:
        if not isinstance(cell, Cell):
            raise TypeError(f"a {type(self).__name__} holds Cells, not {type(cell).__name__}")
        return cell

    def _replace_all(self, children: Iterable[tuple[str, Cell]]) -> None:
        """Hold these children and no others; a numbered name becomes the new place."""
        for name in self._cells:
            del self.__dict__[name]
        self._cells.clear()
        for place, (name, cell) in enumerate(children):
            self._add(str(place) if name.isdigit() else name, cell)
        self._children_changed()

    def __len__(self) -> int:
        return len(self.cell_list)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cell_list)

    def __getitem__(self: Self, index: int | slice) -> Cell | Self:
        if not isinstance(index, slice):
            return self.cell_list[self._place(index)]
        part = type(self)()
        for name, cell in list(self._cells.items())[index]:
            part.insert_child_to_cell(name, cell)  # the Parameters keep their names
        return part

    def __setitem__(self, index: int, cell: Cell) -> None:
        name = list(self._cells)[self._place(index)]
        setattr(self, name, self._check_cell(cell))

    def __delitem__(self, index: int | slice) -> None:
        children = list(self._cells.items())
        del children[index if isinstance(index, slice) else self._place(index)]
        self._replace_all(children)

    def append(self: Self, cell: Cell) -> Self:
        """Add a cell at the end; returns the container."""
        self._add(str(len(self)), self._check_cell(cell))
        return self

    def insert(self, index: int, cell: Cell) -> None:
        """Add a cell before place `index`; the later ones move up by one."""
        place = index if index == len(self) else self._place(index)
        children = list(self._cells.items())
        children.insert(place, ("0", self._check_cell(cell)))
        self._replace_all(children)

    def extend(self: Self, cells: Iterable[Cell]) -> Self:
        """Add several cells at the end; returns the container."""
        if not isinstance(cells, (list, tuple, _OrderedCells)):
            raise TypeError(f"extend takes a list of Cells, not {type(cells).__name__}")
        for cell in cells:
            self.append(cell)
        return self

    __iadd__ = extend


def _numbered(cells: Iterable[Cell]) -> Iterable[tuple[str, Cell]]:
    return ((str(i), cell) for i, cell in enumerate(cells))


class SequentialCell(_OrderedCells):
    """Calls its cells one after the other: the output of each is the input of the next.

    Args:
        *args: Cells; or one list of Cells; or one OrderedDict of named Cells.

    Raises:
        TypeError: something else than a Cell is given.
    """

    def __init__(self, *args: Any):
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            super().__init__(args[0].items())
        elif len(args) == 1 and isinstance(args[0], list):
            super().__init__(_numbered(args[0]))
        else:
            super().__init__(_numbered(args))

    def construct(self, input_data: Any) -> Any:
        for cell in self.cell_list:
            input_data = cell(input_data)
        return input_data


class CellList(_OrderedCells):
    """A list of cells that a construct loops over; it cannot be called itself.

    Args:
        *args: one list of Cells, or nothing.
    """

    def __init__(self, *args: Any):
        if len(args) > 1 or (args and not isinstance(args[0], (list, tuple, CellList))):
            raise TypeError("CellList takes one list of Cells")
        super().__init__(_numbered(args[0]) if args else ())

    def construct(self, *inputs: Any) -> Any:
        raise NotImplementedError("a CellList is not called: loop over its cells")


class CellDict(Cell):
    """A dict of cells by name; it cannot be called itself.

    Args:
        *args: one mapping, or iterable of (key, Cell) pairs; or nothing.
    """

    def __init__(self, *args: Any):
        super().__init__()
        if len(args) > 1:
            raise TypeError("CellDict takes one mapping of Cells")
        if args:
            self.update(args[0])

    def __getitem__(self, key: str) -> Cell:
        return self._cells[key]

    def __setitem__(self, key: str, cell: Cell) -> None:
        if not isinstance(key, str):
            raise TypeError(f"a key of a CellDict is a str, not {type(key).__name__}")
        if not isinstance(cell, Cell):
            raise TypeError(f"a CellDict holds Cells, not {type(cell).__name__}")
        if not key or "." in key:
            raise KeyError(f"'{key}' cannot name a cell: it is empty or has a dot")
        if key not in self._cells and hasattr(self, key):
            raise KeyError(f"'{key}' cannot name a cell: it is an attribute of CellDict")
        setattr(self, key, cell)

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __contains__(self, key: object) -> bool:
        return key in self._cells

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._cells.keys()

    def values(self) -> ValuesView[Cell]:
        """The cells."""
        return self._cells.values()

    def items(self) -> ItemsView[str, Cell]:
        """(name, cell) pairs."""
        return self._cells.items()

    def pop(self, key: str) -> Cell:
        """Take a cell out; KeyError if there is none of that name."""
        cell = self._cells[key]
        delattr(self, key)
        return cell

    def clear(self) -> None:
        """Take all cells out."""
        for key in list(self._cells):
            self.pop(key)

    def update(self, cells: Mapping[str, Cell] | CellDict | Iterable[Sequence]) -> None:
        """Add or replace cells from a mapping, or from (key, Cell) pairs."""
        if not isinstance(cells, Iterable):
            raise TypeError(f"update takes a mapping or pairs, not {type(cells).__name__}")
        pairs: Any = cells.items() if isinstance(cells, (Mapping, CellDict)) else cells
        for key, cell in pairs:
            self[key] = cell

    def construct(self, *inputs: Any) -> Any:
        raise NotImplementedError("a CellDict is not called: call its cells")
