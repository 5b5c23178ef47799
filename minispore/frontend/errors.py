"""Errors that point at the user's line.

The front end raises Python's own classes; the place is added as a note, in the form in which
Python prints frames: file, line, function, the source line, and a caret under the expression that
fails; where an operation on Tensors fails, its operands follow, with types and the lines that made
them.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from minispore.ir.node import Location, shown_frames

_MARK, _OPERANDS = "_minispore_located", "_minispore_operands"
_PER_CALL, _SPARE = 60, 3000  # Python's own calls for one of the user's, and for all else
_MOST, _FIRST, _LAST = 20, 5, 10  # of more calls than that, the outer and the inner ones are shown


class UnsupportedError(RuntimeError):
    """A construct that no graph can hold (MindSpore raises RuntimeError for these)."""


def hidden_state(name: str) -> UnsupportedError:
    """The error for a function or method that nothing is known of."""
    return UnsupportedError(
        f"'{name}' has no Python source and may have hidden state, so it cannot be part of a "
        "compiled graph: call it outside and pass its result in"
    )


_deep = threading.Lock()
_deepened: list[int] = []  # the limits before, one for each thread that needs more


@contextmanager
def deep_stack(depth: int) -> Iterator[None]:
    """Room on Python's stack for evaluating `depth` nested calls of the user's functions.

    The limit is that of all threads: the last one that leaves sets back what the first one found.
    """
    with _deep:
        _deepened.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(_deepened[-1], _PER_CALL * depth + _SPARE))
    try:
        yield
    finally:
        with _deep:
            last = _deepened.pop()
            if not _deepened:
                sys.setrecursionlimit(last)


def locate(error: BaseException, frames: list[Location]) -> None:
    """Add the user's frames to an error, once: the innermost place last, as Python does."""
    if getattr(error, _MARK, False) or not frames:
        return
    try:
        setattr(error, _MARK, True)
    except AttributeError:  # an exception class with __slots__
        return
    lines = shown_frames(frames)
    if len(lines) > _MOST:
        lines[_FIRST:-_LAST] = [f"  ... {len(lines) - _FIRST - _LAST} more calls ..."]
    lines += getattr(error, _OPERANDS, [])
    error.add_note("While compiling the graph:\n" + "\n".join(lines))


def note_operands(error: BaseException, operands: Iterable[str]) -> None:
    """Say on what an operation failed, if no one has said so yet: ``x is Tensor[...]``."""
    if not hasattr(error, _MARK) and not hasattr(error, _OPERANDS):
        with contextlib.suppress(AttributeError):  # an exception class with __slots__
            setattr(error, _OPERANDS, [f"  {text}" for text in operands])
