"""Errors that point at the user's line.

The front end raises Python's own classes; the place is added as a note, in the form in which
Python prints frames: file, line, function, the source line, a caret.
"""

from __future__ import annotations

from minispore.ir.node import Location

_MARK = "_minispore_located"


class UnsupportedError(RuntimeError):
    """A construct that no graph can hold (MindSpore raises RuntimeError for these)."""


def locate(error: BaseException, frames: list[Location]) -> None:
    """Add the user's frames to an error, once: the innermost place last, as Python does."""
    if getattr(error, _MARK, False) or not frames:
        return
    try:
        setattr(error, _MARK, True)
    except AttributeError:  # an exception class with __slots__
        return
    note = "While compiling the graph:\n" + "\n".join(f.shown() for f in frames)
    error.add_note(note)
