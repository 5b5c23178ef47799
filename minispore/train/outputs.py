"""A folder of results whose files are always whole.

A job writes its files into a scratch folder inside the target; only when all of them are complete
are they moved to their names, each in one step.  An error or Ctrl-C leaves what was there before.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class OutputError(ValueError):
    """Results cannot be written where they should go."""


@contextmanager
def whole_files(folder: Path) -> Iterator[Path]:
    """A scratch folder whose files move into `folder` when the block ends without an error.

    `folder` is made if needed (and removed again if nothing came of it); files of the same names in
    it are replaced.

    Raises:
        OutputError: `folder` cannot be made or written; before the block where that can be known.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with _scratch(folder) as scratch:
            yield Path(scratch)
            _move(Path(scratch), folder)
    finally:
        with suppress(OSError):  # the first that is not empty, or that was never made, stays
            for path in made:
                path.rmdir()


def _scratch(folder: Path) -> tempfile.TemporaryDirectory:
    """A temporary folder inside `folder`, on the same disk, so that a move is one step."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder)
    except FileExistsError as error:
        raise OutputError(f"'{folder}' is a file; results need a folder") from error
    except OSError as error:
        raise OutputError(f"cannot write into folder '{folder}': {error.strerror}") from error


def _move(scratch: Path, folder: Path) -> None:
    for path in sorted(scratch.iterdir()):
        target = folder / path.name
        try:
            os.replace(path, target)
        except OSError as error:
            raise OutputError(f"cannot write '{target}': {error.strerror}") from error
