"""The global settings: which of the two modes runs, where compiled graphs are saved.

``set_context(mode=GRAPH_MODE)`` is the one line that switches modes (MindSpore:
``mindspore.set_context``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

GRAPH_MODE = 0
PYNATIVE_MODE = 1
STRICT, COMPATIBLE, LAX = 0, 1, 2  # for jit_syntax_level
JIT_LEVELS = ("O0", "O1", "O2")

_DEFAULTS: dict[str, Any] = {
    "mode": PYNATIVE_MODE,
    "device_target": "CPU",
    "device_id": 0,
    "save_graphs": 0,
    "save_graphs_path": ".",
    "jit_level": "",
    "jit_syntax_level": 0,
    "check_finite": False,
    "max_call_depth": 1000,
    "deterministic": "ON",
}
# Settings of MindSpore's for speed, memory and devices: kept, and without effect.
_DEFAULTS |= dict.fromkeys(
    (
        "check_bprop", "compile_cache_path", "debug_level", "enable_compile_cache",
        "enable_graph_kernel", "exec_order", "graph_kernel_flags", "inter_op_parallel_num",
        "max_device_memory", "memory_optimize_level",
        "mempool_block_size", "op_timeout", "pynative_synchronize", "runtime_num_threads",
    )
)  # fmt: skip
_settings = dict(_DEFAULTS)


def _check(key: str, value: Any) -> Any:
    """The value to store for `key`, or the error that tells what is allowed."""
    if key not in _DEFAULTS:
        known = ", ".join(sorted(_DEFAULTS))
        raise ValueError(f"set_context has no key '{key}'; it knows {known}")
    if key == "mode" and value not in (GRAPH_MODE, PYNATIVE_MODE):
        raise ValueError(f"mode must be GRAPH_MODE (0) or PYNATIVE_MODE (1), not {value!r}")
    if key == "device_target" and value != "CPU":
        raise ValueError(f"device_target must be 'CPU', not {value!r}")
    if key == "save_graphs":
        if value not in (False, True, 0, 1, 2, 3):
            raise ValueError(f"save_graphs must be a bool or 0 to 3, not {value!r}")
        return int(value)
    if key == "save_graphs_path" and not isinstance(value, str):
        raise TypeError(f"save_graphs_path must be a str, not {type(value).__name__}")
    if key == "max_call_depth" and (not isinstance(value, int) or value < 1):
        raise ValueError(f"max_call_depth must be a positive int, not {value!r}")
    if key == "jit_level" and value not in ("", *JIT_LEVELS):
        raise ValueError(f"jit_level must be one of {', '.join(JIT_LEVELS)}, not {value!r}")
    if key == "check_finite" and not isinstance(value, bool):
        raise TypeError(f"check_finite must be a bool, not {type(value).__name__}")
    return value


def _without_jit_config(settings: dict[str, Any]) -> dict[str, Any]:
    """``jit_config={"jit_level": "O1"}`` is another way to say ``jit_level="O1"``."""
    config = settings.pop("jit_config", {})
    if not isinstance(config, dict):
        raise TypeError(f"jit_config must be a dict, not {type(config).__name__}")
    for key in config:
        if key not in ("jit_level", "infer_boost"):
            raise ValueError(f"jit_config has no key {key!r}; it knows 'jit_level', 'infer_boost'")
    level = {"jit_level": config["jit_level"]} if "jit_level" in config else {}
    return {**settings, **level}


def set_context(**settings: Any) -> None:
    """Change global settings; all of them are checked before any is changed.

    Args:
        mode: GRAPH_MODE (0) or PYNATIVE_MODE (1, the default).
        save_graphs: 0 or False (nothing), 1 to 3 or True: write each stage of every compilation.
        save_graphs_path: the folder for them; each compilation gets one in it, such as ``001_f``.
        device_target: "CPU".
        jit_level: "O0", "O1" or "O2", of Cells in GRAPH_MODE; or ``jit_config={"jit_level": ...}``.
        check_finite: True: in both modes, the first operation that makes a nan or inf out of finite
            numbers is a FloatingPointError which names the line.  Compiled functions are slow then.
        max_call_depth: how deep functions may call each other; see ``set_recursion_limit``.
        pynative_synchronize ...: MindSpore's settings for speed, memory and devices are kept, and
            have no effect.

    Raises:
        ValueError: an unknown key, or a value that is not allowed.
        TypeError: a value of the wrong type.
    """
    checked = {key: _check(key, value) for key, value in _without_jit_config(settings).items()}
    _settings.update(checked)


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Choose the device: "CPU" (ValueError for others); `device_id` changes nothing."""
    set_context(device_target=device_target, device_id=device_id or 0)


def set_recursion_limit(recursion_limit: int = 1000) -> None:
    """How many calls deep a compiled function may be, while it is compiled and while it runs.

    The same as ``set_context(max_call_depth=...)``.  (MindSpore: ``set_recursion_limit``.)

    Raises:
        TypeError: no int.
        ValueError: not positive.
    """
    if type(recursion_limit) is not int:
        raise TypeError(f"the recursion limit is an int, not {type(recursion_limit).__name__}")
    set_context(max_call_depth=recursion_limit)


def get_context(key: str) -> Any:
    """The present value of a setting; ValueError for an unknown key."""
    if key == "jit_config":
        return {"jit_level": _settings["jit_level"]} if _settings["jit_level"] else {}
    if key not in _settings:
        raise ValueError(f"get_context has no key '{key}'; it knows {', '.join(sorted(_settings))}")
    return _settings[key]


def checks_finite() -> bool:
    """Whether operations that make a nan or inf out of finite numbers are errors."""
    return _settings["check_finite"]


def reset() -> None:
    """Restore the defaults."""
    _settings.update(_DEFAULTS)


@contextlib.contextmanager
def using(**settings: Any) -> Iterator[None]:
    """Settings for the length of a ``with`` block."""
    before = {key: get_context(key) for key in settings}
    set_context(**settings)
    try:
        yield
    finally:
        set_context(**before)
