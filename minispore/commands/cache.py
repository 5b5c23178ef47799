"""``minispore cache info`` and ``minispore cache clear``: the compiled kernels on disk."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from minispore.engine import cache


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "cache",
        help="show or remove compiled kernels",
        description="Compiled kernels are kept, so that later runs start at once. `info` says "
        "where, how many and how large; `clear` removes them: they are compiled again when needed.",
    )
    parser.add_argument("what", choices=("info", "clear"))
    parser.set_defaults(command=_cache)


def _cache(options: argparse.Namespace) -> int:
    place = cache.folder()
    if place is None:
        print("minispore cache: there is no home folder to keep kernels in", file=sys.stderr)
        return 2
    try:
        text = info(place) if options.what == "info" else clear(place)
    except (ValueError, _Unusable) as error:
        print(f"minispore cache: {error}", file=sys.stderr)
        return 2
    print(text)
    return 0


class _Unusable(Exception):
    """The folder or a file in it refuses; one sentence."""


def info(place: Path) -> str:
    """Where kernels are, how many and how large.

    Raises:
        ValueError: MINISPORE_CACHE_SIZE is no whole number.
        _Unusable: no kernel can be kept there.
    """
    _check(place)
    sizes = [size for _, size, _ in cache.files(place)]
    most = cache.size()
    return f"{place}\n{len(sizes)} kernels, {_bytes(sum(sizes))} (at most {_bytes(most)})"


def clear(place: Path) -> str:
    """Remove the kernels; other files stay.  Returns what was done.

    Raises:
        _Unusable: the folder cannot be read, or a kernel not be removed.
    """
    _check(place)
    found = cache.files(place)
    try:
        cache.trim(place, -1)
    except OSError as error:
        raise _Unusable(f"cannot remove kernels in '{place}': {error.strerror}") from error
    return f"{place}\n{len(found)} kernels removed, {_bytes(sum(size for _, size, _ in found))}"


def _check(place: Path) -> None:
    """Raise _Unusable for what is no folder, or may not be read; it need not be there yet."""
    try:
        os.scandir(place).close()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _Unusable(
            f"cannot keep kernels in '{place}': {error.strerror}; MINISPORE_CACHE_DIR can name "
            "another folder"
        ) from error


def _bytes(count: int) -> str:
    return f"{count / 1024**2:.1f} MB"
