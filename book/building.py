"""What the book adds to Sphinx: a search that knows Chinese, two directives, plainer docstrings.

.. public:: minispore.ops.reduce     the public names of ``ops`` that live in this module
```{house-map}```                    the rooms of the package and their imports, as a picture
"""

import importlib
import inspect
import itertools
import re
import shutil
from pathlib import Path
from typing import Any, ClassVar

import error_programs
import house
import messages
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.directives.other import TocTree
from sphinx.search.en import SearchEnglish
from sphinx.util.docutils import SphinxDirective
from structure import MODULES

from minispore import ops


def copy_notebooks(source: Path, target: Path) -> None:
    """Make `target` hold the notebooks of `source`; files that are equal are left alone."""
    target.mkdir(exist_ok=True)
    wanted = {path.name: path for path in source.glob("*.ipynb")}
    for path in target.iterdir():
        if path.is_file() and path.name not in wanted:
            path.unlink()
    for name, path in wanted.items():
        copy = target / name
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            shutil.copyfile(path, copy)


def fill_in_facts(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace what a page leaves to the code: ``{{ ops }}`` by the size of a room, messages."""
    if page == "house":
        source[0] = re.sub(r"\{\{ (\w+) \}\}", lambda m: house.described(m[1]), source[0])
    if page == "errors":
        source[0] = source[0].replace("```{messages}\n```\n", messages.page())
        programs = Path(error_programs.__file__).parent.glob("*.py")
        for path in (*MODULES.values(), Path(messages.__file__), *programs):
            app.env.note_dependency(str(path))


# ------------------------------------------------------------------------------------- search


class SearchEnglishAndChinese(SearchEnglish):
    """English by words, Chinese by pairs of characters, as it has no spaces to split at.

    A text is indexed under its single characters too, so that a query of one is found.
    """

    lang = "en"
    js_splitter_code = """
function splitQuery(query) {
  const parts = query.match(/[\\u4e00-\\u9fff]+|(?:(?![\\u4e00-\\u9fff])[\\p{L}\\p{N}_])+/gu) || [];
  return parts.flatMap((part) => {
    if (!/^[\\u4e00-\\u9fff]/.test(part) || part.length === 1) return [part];
    return Array.from({ length: part.length - 1 }, (_, i) => part.slice(i, i + 2));
  });
}
"""
    _parts = re.compile(r"[\u4e00-\u9fff]+|[^\W\u4e00-\u9fff]+")

    def split(self, input: str) -> list[str]:
        """The words of a text."""
        found: list[str] = []
        for part in self._parts.findall(input):
            if "\u4e00" <= part[0] <= "\u9fff":
                found += part
                found += (part[i : i + 2] for i in range(len(part) - 1))
            else:
                found.append(part)
        return found


# ---------------------------------------------------------------------------------- directives


class HouseMap(SphinxDirective):
    """The import graph of the package, drawn from its code when the page is built."""

    def run(self) -> list[nodes.Node]:
        for path in MODULES.values():
            self.env.note_dependency(str(path))
        svg = house.svg()
        if svg is None:
            return [nodes.literal_block(house.text(), house.text())]
        return [nodes.raw("", f'<div class="house-map">{svg}</div>', format="html")]


class Chapters(TocTree):
    """A toctree that may match nothing."""

    def run(self) -> list[nodes.Node]:
        if any((Path(self.env.srcdir) / "notebooks").glob("*.ipynb")):
            return super().run()
        return [nodes.paragraph("", "(none yet)")]


class Public(SphinxDirective):
    """The public names of ``ops`` that live in one module: functions, then primitives."""

    required_arguments = 1
    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        module = importlib.import_module(self.arguments[0])
        self.env.note_dependency(str(MODULES[module.__name__]))
        functions, classes, aliases = names_of(module.__name__)
        lines = [f".. autofunction:: minispore.ops.{name}" for name in functions]
        if aliases:
            lines += ["", "Second names: " + ", ".join(f"``{a}`` = ``{b}``" for a, b in aliases)]
        if classes:
            lines += ["", ".. rubric:: Primitives", ""]
            lines += [f".. autoclass:: minispore.ops.{name}" for name in classes]
        return self.parse_text_to_nodes("\n".join(lines))


def names_of(module: str) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Names of ``ops`` that live in a module: functions, classes, and (second name, name)."""
    functions, classes, aliases = [], [], []
    for name, value in sorted(vars(ops).items()):
        if name.startswith("_") or getattr(value, "__module__", None) != module:
            continue
        if value.__name__ != name and value.__name__ in vars(ops):
            aliases.append((name, value.__name__))
        else:
            (classes if inspect.isclass(value) else functions).append(name)
    return functions, classes, aliases


# ---------------------------------------------------------------------------------- docstrings


COLON = "\ufdd0"  # in place of a colon; no text has this character


def plain_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: an indented block is code, and ``|x|`` or ``*x`` mean themselves.

    So code gets the ``::`` that reStructuredText wants before it, and signs get a backslash.  In a
    property's text what stands before a colon would be taken for its type.
    """
    out: list[str] = []
    deepest, in_code = 0, False  # how far the text before is indented
    for written, block in itertools.groupby(lines, key=lambda line: bool(line.strip())):
        part = list(block)
        if written:
            indents = [len(line) - len(line.lstrip()) for line in part]
            if out and min(indents) > deepest:
                out += [] if in_code else [" " * deepest + "::", ""]
                in_code = True
            else:
                deepest, in_code = max(indents), False
                part = _escaped("\n".join(part)).split("\n")
        out += part
    if what in ("property", "attribute"):
        out = [line.replace(":", COLON) for line in out]
    lines[:] = out


def restore_colons(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Undo what ``plain_text`` hid, after napoleon has read the text."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


def _escaped(text: str) -> str:
    """A text with a backslash before signs that are not between backticks."""
    parts = re.split(r"(`+[^`]+`+)", text)
    parts[::2] = [re.sub(r"\||\*(?=\S)", r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def shorten_names(app: Any, domain: str, kind: str, content: nodes.Element) -> None:
    """Show names as programs write them: ``ops.matmul``, ``ms.grad``."""
    for prefix in content.parent.findall(addnodes.desc_addname):
        text = prefix.astext()
        if text.startswith("minispore."):
            prefix[:] = [nodes.Text(text.removeprefix("minispore.") or "ms.")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_search_language(SearchEnglishAndChinese)
    app.add_directive("chapters", Chapters)
    app.add_directive("house-map", HouseMap)
    app.add_directive("public", Public)
    app.connect("source-read", fill_in_facts)
    app.connect("autodoc-process-docstring", plain_text, priority=400)  # napoleon has 500
    app.connect("autodoc-process-docstring", restore_colons, priority=600)
    app.connect("object-description-transform", shorten_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
