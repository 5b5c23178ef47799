"""Files that are whole or absent: written beside their place, and moved there in one step."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_whole(path: Path, content: str | bytes, sync: bool = False) -> None:
    """Write a file (a text in UTF-8); if that fails, what was there before stays.

    Args:
        path: where it goes; an older file of that name is replaced.
        content: all of it.
        sync: wait until it is safe on the disk, so that not even a power cut leaves half of it.

    Raises:
        OSError: it cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(unfinished, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        if error.filename == os.fspath(unfinished):  # the caller knows nothing of that one
            error.filename, error.filename2 = os.fspath(path), None
        raise
    finally:
        unfinished.unlink(missing_ok=True)
