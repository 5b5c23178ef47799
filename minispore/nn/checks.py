"""Checks of what layers and optimizers are given; an error names the owner and the argument."""

from __future__ import annotations

from typing import Any


def check_bool(owner: str, name: str, value: Any) -> bool:
    """`value`, which must be a bool: TypeError."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} of {owner} must be a bool, not {type(value).__name__}")
    return value


def check_int(owner: str, name: str, value: Any) -> int:
    """`value`, which must be an int, and no bool: TypeError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} of {owner} must be an int, not {type(value).__name__}")
    return value


def check_size(owner: str, name: str, value: Any) -> int:
    """`value`, which must be a positive int: TypeError, ValueError."""
    if check_int(owner, name, value) <= 0:
        raise ValueError(f"{name} of {owner} must be positive, not {value}")
    return value
