"""Errors that point at the user's line.

The front end raises Python's own classes; the place is added as a note, in the form in which
Python prints frames: file, line, function, the source line, a caret.
"""

from __future__ import annotations

import linecache

from minispore.ir.node import Location

_MARK = "_minispore_located"


class UnsupportedError(RuntimeError):
    """A construct that no graph can hold (MindSpore raises RuntimeError for these)."""


def describe(where: Location) -> str:
    """The place as Python's tracebacks show it, with a caret under the expression."""
    text = f'  File "{where.file}", line {where.line}, in {where.function or "<module>"}'
    line = linecache.getline(where.file, where.line).rstrip("\n")
    if not line.strip():
        return text
    indent = len(line) - len(line.lstrip())
    end = max(where.end_column, where.column + 1)
    caret = " " * (where.column - indent) + "^" * (min(end, len(line)) - where.column)
    return f"{text}\n    {line.strip()}\n    {caret}"


def locate(error: BaseException, frames: list[Location]) -> None:
    """Add the user's frames to an error, once: the innermost place last, as Python does."""
    if getattr(error, _MARK, False) or not frames:
        return
    try:
        setattr(error, _MARK, True)
    except AttributeError:  # an exception class with __slots__
        return
    note = "While compiling the graph:\n" + "\n".join(describe(f) for f in frames)
    error.add_note(note)
