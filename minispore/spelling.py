"""What may be meant by a name that is not there."""

from __future__ import annotations

import difflib
from types import ModuleType
from typing import Any

_CLOSE = 0.7  # how much of two names must be alike


def similar(name: str, owner: Any) -> str:
    """The public names of an object that are nearly `name`: ``"; did you mean matmul?"``, or ""."""
    names = [n for n in dir(owner) if n[0] != "_"]
    near = [n for n in names if n.lower() == name.lower()]
    near = near or difflib.get_close_matches(name, names, 3, _CLOSE)
    return f"; did you mean {', '.join(near)}?" if near else ""


def missing(module: ModuleType, name: str) -> AttributeError:
    """The error for a name that a module does not have."""
    hint = "" if name.startswith("_") else similar(name, module)
    # the name and the object are kept from Python, which would make a hint of its own of them
    text = f"module '{module.__name__}' has no attribute '{name}'{hint}"
    return AttributeError(text, name="", obj=None)
