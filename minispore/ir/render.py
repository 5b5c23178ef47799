"""From DOT text to SVG, and what is shown where that is not possible.

Graphviz is a program; ``graphviz-pure`` (one of our dependencies) brings it along.  Tried in turn:
$MINISPORE_DOT, the graphviz-pure beside this Python, one on the PATH, ``dot`` on the PATH.
graphviz-pure is preferred to ``dot`` because it writes the same bytes everywhere.  Layout can take
minutes for an unlucky graph: after 20 seconds it is tried again with straight lines and less
effort, and if that fails too there is no SVG, and the text is shown.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from functools import cached_property
from pathlib import Path
from typing import Any

from minispore.files import write_whole
from minispore.ir.picture import Picture, add_legend

TIMEOUT = 20  # seconds
LESS_EFFORT = ("-Gsplines=line", "-Gnslimit=1")


def find_graphviz() -> str | None:
    """The program that lays graphs out; None if there is none."""
    chosen = os.environ.get("MINISPORE_DOT")
    if chosen:
        return chosen
    beside = shutil.which("graphviz-pure", path=sysconfig.get_path("scripts"))
    return beside or shutil.which("graphviz-pure") or shutil.which("dot")


def render_svg(dot: str) -> str | None:
    """The SVG of a DOT text; None if there is no Graphviz, or it fails or takes too long."""
    program = find_graphviz()
    if program is None:
        return None
    for flags in ((), LESS_EFFORT):
        svg = _run([program, "-Kdot", "-Tsvg", *flags], dot)
        if svg is not None:
            return svg
    return None


def _run(command: list[str], dot: str) -> str | None:
    try:
        done = subprocess.run(command, input=dot.encode(), capture_output=True, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return None  # the next flags are tried, or the text is shown: a picture is never essential
    text = done.stdout.decode(errors="replace")
    start = text.find("<svg")
    return text[start:] if done.returncode == 0 and start >= 0 else None


class Drawing:
    """A picture of a graph; in a notebook it shows itself.

    `dot` is its DOT text, `text` says the same in words (what is shown where no SVG can be).
    """

    def __init__(self, dot: str, text: str):
        self.dot = dot
        self.text = text

    @cached_property
    def _svg(self) -> str | None:
        return render_svg(self.dot)

    def svg(self) -> str | None:
        """The SVG; None where Graphviz is missing or fails."""
        return self._svg

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture; the file is whole or absent.

        Args:
            path: ends in ``.svg``, ``.dot`` or ``.txt``.

        Returns:
            The path written: where no SVG can be made, that of the DOT text, ending in ``.dot``.

        Raises:
            ValueError: another ending.
            OSError: the file cannot be written.
        """
        target = Path(path)
        content = {".svg": self.svg, ".dot": lambda: self.dot, ".txt": lambda: self.text}
        if target.suffix not in content:
            raise ValueError(f"a drawing is saved as .svg, .dot or .txt, not '{target.name}'")
        text = content[target.suffix]()
        if text is None:
            target, text = target.with_suffix(".dot"), self.dot
        write_whole(target, text)
        return target

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        svg = self.svg()
        return {"text/plain": self.text} | ({} if svg is None else {"image/svg+xml": svg})

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def drawing_of(picture: Picture, text: str, legend: bool) -> Drawing:
    """A picture as a Drawing, with a legend if asked for."""
    if legend:
        add_legend(picture)
    return Drawing(picture.dot(), text)
