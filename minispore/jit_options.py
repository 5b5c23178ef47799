"""The options of jit and of Cells: what they may be, and what each does here.

    capture_mode      "ast": the source is read; "trace": Python runs it on symbolic Tensors
    jit_level         "O0": NumPy calls; "O1": kernels, whose results may be rounded otherwise;
                      "O2": also laws that hold for finite numbers only (passes/fastmath.py)
    fullgraph         accepted; a graph is all there ever is: Python never steps in at run time
    dynamic           1: sizes that have differed between calls are no part of a graph
    backend           "" or "ms_backend": there is one
    input_signature   Tensors that say what the arguments must look like; a size of None is any
    passes            rules and passes to add, or the Pipeline to run (minispore.passes)
    check_finite      stop at the first node that makes a nan or inf out of finite numbers
    debug_level       "RELEASE"; "DEBUG": stages are verified, and errors show our own frames
    exc_mode, jit_syntax_level, infer_boost
                      accepted: they tell MindSpore's devices and its fallback to Python what to do

(MindSpore: the arguments of ``mindspore.jit`` and ``mindspore.JitConfig``.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from minispore import context
from minispore.context import JIT_LEVELS
from minispore.inputs import Axes, described_shape, free_axes
from minispore.passes import Pipeline, pipeline_of
from minispore.tensor import Tensor, is_tensor
from minispore.tree import flatten

_CHOICES: dict[str, tuple] = {
    "capture_mode": ("ast", "trace"),
    "jit_level": JIT_LEVELS,
    "backend": ("", "ms_backend"),
    "exc_mode": ("auto", "sink", "no_sink"),
    "jit_syntax_level": ("", "STRICT", "LAX"),
    "debug_level": ("RELEASE", "DEBUG"),
    "infer_boost": ("off", "on"),
}


def _check_choice(name: str, value: Any, allowed: tuple) -> None:
    if value not in allowed:
        choices = ", ".join(map(repr, allowed))
        raise ValueError(f"jit's {name} must be one of {choices}, not {value!r}")


@dataclass(frozen=True)
class Options:
    """The options of one compiled function, checked."""

    capture_mode: str = "ast"
    jit_level: str = "O1"
    dynamic: int = 0
    fullgraph: bool = False
    backend: str = ""
    input_signature: Any = None
    check_finite: bool = False
    exc_mode: str = "auto"
    jit_syntax_level: str = ""
    debug_level: str = "RELEASE"
    infer_boost: str = "off"
    passes: Any = None

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            _check_choice(name, getattr(self, name), allowed)
        if type(self.dynamic) is not int:
            raise TypeError(f"jit's dynamic must be an int, not {type(self.dynamic).__name__}")
        _check_choice("dynamic", self.dynamic, (0, 1))
        for name in ("fullgraph", "check_finite"):
            if not isinstance(getattr(self, name), bool):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"jit's {name} must be a bool, not {kind}")
        if self.input_signature is not None:
            for _ in _wanted(self.input_signature):
                pass
        pipeline_of(self.passes)  # its errors

    @property
    def pipeline(self) -> Pipeline:
        """The passes that optimise a graph."""
        return pipeline_of(self.passes, fastmath=self.jit_level == "O2")


DEFAULTS = Options()


def options_of(given: dict[str, Any]) -> Options:
    """The Options for what `jit` was given.

    Raises:
        ValueError: an unknown option, or a value that is not allowed.
        TypeError: a value of the wrong type.
    """
    known = [f.name for f in fields(Options)]
    for name in given:
        if name not in known:
            raise ValueError(f"jit has no option '{name}'; it knows {', '.join(known)}")
    return Options(**given)


# --------------------------------------------------------------------------- input_signature


def _wanted(signature: Any) -> Iterator[Tensor]:
    """The Tensors of an input_signature; TypeError for anything else."""
    for item in signature if isinstance(signature, (tuple, list)) else (signature,):
        if isinstance(item, (tuple, list)):
            yield from _wanted(item)
        elif isinstance(item, Tensor):
            yield item
        else:
            raise TypeError(
                "jit's input_signature must be a Tensor, or (nested) tuples of them, not "
                f"{type(item).__name__}"
            )


def check_signature(signature: Any, name: str, args: tuple, kwargs: dict) -> Axes:
    """Refuse arguments that are not what an input_signature says; the axes that may vary.

    Raises:
        TypeError: keywords, another number of arguments, what is no Tensor, or another dtype.
        ValueError: another shape.
    """
    if kwargs:
        raise TypeError(f"{name} has an input_signature, so it takes arguments by position only")
    wanted = list(_wanted(signature))
    given = flatten(args, is_tensor)[0]
    if len(wanted) != len(given):
        raise TypeError(f"{name} takes {len(wanted)} Tensors (input_signature), not {len(given)}")
    axes: Axes = {}
    for i, (want, have) in enumerate(zip(wanted, given, strict=True), 1):
        if want.dtype != have.dtype:
            raise TypeError(
                f"Tensor {i} given to {name} is {have.dtype}, but its input_signature says "
                f"{want.dtype}"
            )
        free = free_axes(want, have)
        if free is None:
            raise ValueError(
                f"Tensor {i} given to {name} has shape {have.shape}, but its input_signature says "
                f"{described_shape(want)}"
            )
        axes.setdefault(id(have), set()).update(free)
    return axes


# --------------------------------------------------------------------------------- JitConfig


class JitConfig:
    """How a Cell is compiled in GRAPH_MODE: ``net.set_jit_config(ms.JitConfig(jit_level="O1"))``.

    Args:
        jit_level: "O0", "O1" or "O2"; "" leaves it to ``set_context(jit_level=...)``.
        exc_mode, jit_syntax_level, debug_level, infer_boost: as in ``jit``.
        kwargs: other options of ``jit``.

    Raises:
        ValueError, TypeError: as ``jit``.

    MindSpore: ``mindspore.JitConfig``.
    """

    def __init__(
        self,
        jit_level: str = "",
        exc_mode: str = "auto",
        jit_syntax_level: str = "",
        debug_level: str = "RELEASE",
        infer_boost: str = "off",
        **kwargs: Any,
    ):
        self.jit_config_dict: dict[str, Any] = dict(
            jit_level=jit_level, exc_mode=exc_mode, jit_syntax_level=jit_syntax_level,
            debug_level=debug_level, infer_boost=infer_boost, **kwargs,
        )  # fmt: skip
        self.options()  # its errors

    def options(self) -> Options:
        """The Options that a Cell with this configuration is compiled with now."""
        level = self.jit_config_dict["jit_level"] or context_level()
        return options_of({**self.jit_config_dict, "jit_level": level})

    def __repr__(self) -> str:
        changed = {k: v for k, v in self.jit_config_dict.items() if v != asdict(DEFAULTS).get(k)}
        return f"JitConfig({', '.join(f'{k}={v!r}' for k, v in changed.items() if v != '')})"


def context_level() -> str:
    """The level that ``set_context`` asks for."""
    return context.get_context("jit_level") or DEFAULTS.jit_level


def options_of_cell(cell: Any) -> Options:
    """How a Cell is compiled: by its JitConfig, else as ``set_context`` says."""
    config = getattr(cell, "_jit_config", None)
    if config is not None:
        return config.options()
    level = context_level()
    return DEFAULTS if level == DEFAULTS.jit_level else replace(DEFAULTS, jit_level=level)
