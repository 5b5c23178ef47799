"""``minispore book`` and ``minispore notebooks``: the book as pages, its chapters to run.

Both live in a clone of the repository: an installed package has neither.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import webbrowser
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
INSTALL = 'python -m pip install -e ".[dev,book]"'


class BookError(Exception):
    """The book or the notebooks cannot be shown, in one sentence."""


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add both commands to the program."""
    book = commands.add_parser(
        "book",
        help="build the book and open it",
        description="Build what changed of the book, print where its first page is, and open it.",
    )
    book.set_defaults(command=_book, parser=book)
    notebooks = commands.add_parser(
        "notebooks",
        help="start Jupyter in the folder of the chapters",
        description="Trust the chapters, so that their pictures show, and start Jupyter there. All "
        "other options and arguments are Jupyter's.",
    )
    notebooks.set_defaults(command=_notebooks, more=[])  # what the parser does not know
    for parser in (book, notebooks):
        parser.add_argument("--no-open", action="store_true", help="open no browser")


def _book(options: argparse.Namespace) -> int:
    try:
        page = build_book()
    except BookError as error:
        return _fail("book", error)
    print(page, flush=True)
    if not options.no_open:
        open_page(page)
    return 0


def _notebooks(options: argparse.Namespace) -> int:
    try:
        start_notebooks(options.more, not options.no_open)
    except BookError as error:
        return _fail("notebooks", error)


def _fail(command: str, error: BookError) -> int:
    print(f"minispore {command}: {error}", file=sys.stderr)
    return 2


def build_book() -> Path:
    """Build what changed since the last time; returns the book's first page.

    Raises:
        BookError: this is no clone, Sphinx is not installed, or it fails.
    """
    source = _folder("book", "conf.py")
    _require("sphinx", "myst_nb", "sphinx_book_theme")
    target = source / "_build" / "html"
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(source), str(target)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    page = target / "index.html"
    if done.returncode != 0 or not page.is_file():
        said = [line for line in done.stderr.splitlines() if line.strip()]
        named = [line for line in said if re.match(r"(\w+\.)*\w*(Error|WARNING|ERROR)\b.*: ", line)]
        reason = (named or said or ["no reason"])[-1]
        raise BookError(f"Sphinx could not build the book: {reason.strip()}")
    return page


def open_page(page: Path) -> bool:
    """Show a page in a browser, if there is a screen to show it on; returns whether it is shown."""
    return _has_screen(os.environ) and webbrowser.open(page.as_uri())


def start_notebooks(extra: Sequence[str], open_browser: bool) -> NoReturn:
    """Trust the notebooks, so that their pictures show, and become Jupyter.

    Args:
        extra: more arguments for ``jupyter notebook``.
        open_browser: whether Jupyter may open a browser.

    Raises:
        BookError: this is no clone, Jupyter is not installed, or the notebooks cannot be trusted.
    """
    folder = _folder("notebooks", "conftest.py")
    _require("notebook", "nbformat")
    files = sorted(str(path) for path in folder.glob("*.ipynb"))
    if files:
        done = subprocess.run(
            [sys.executable, "-m", "nbformat.sign", *files], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise BookError(f"Jupyter cannot trust the notebooks: {done.stderr.strip()[-200:]}")
    print("No pictures in a chapter? Then it is not trusted any more: File > Trust Notebook.")
    silent = [] if open_browser and _has_screen(os.environ) else ["--no-browser"]
    os.chdir(folder)
    _become([sys.executable, "-m", "notebook", *silent, *extra])


def _become(command: list[str]) -> NoReturn:
    """Run a program in place of this one, so that Ctrl-C and questions are its own."""
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(command[0], command)
    sys.exit(subprocess.call(command))  # elsewhere the caller would not wait for it


def _folder(name: str, file: str) -> Path:
    if not (ROOT / name / file).is_file():
        raise BookError(
            f"there is no folder {name}/ beside the package: clone the repository, and run "
            f"{INSTALL} there"
        )
    return ROOT / name


def _require(*modules: str) -> None:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise BookError(f"this needs {', '.join(missing)}: run {INSTALL} in {ROOT}")


def _has_screen(environment: Mapping[str, str]) -> bool:
    """False on a server, where a browser would fail or take over the terminal."""
    named = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or any(environment.get(name) for name in named)
