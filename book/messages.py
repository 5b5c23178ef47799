"""The page of error messages: found in the source, shown by programs that raise them.

``templates`` reads the source for every message that the compiler and the gradients can raise; the
programs in tests/error_programs raise them.  A test fails if a message has no program, or if a
program shows none of the source; so the page, which is made of the programs, is complete.
"""

import ast
import contextlib
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from error_programs import CHAPTERS, PROGRAMS, Chapter, Program, catalogue
from structure import MODULES, PACKAGE

# Where messages about compiling and differentiating the user's program are written.
SOURCES = (
    "frontend/", "program.py", "compile.py", "graph_function.py", "symbolic.py", "tree.py",
    "dims.py", "inputs.py", "mutable.py", "tensor.py", "ops/structural.py", "autodiff/",
    "jit_options.py", "decorators.py", "ir/finite.py",
)  # fmt: skip
# What becomes a message besides errors, and how it is put into words.
WORDS = {
    "NeedConstant": "{} cannot be known when the graph is compiled",
    "Conflict": "{}",
    "Peel": "changes {}",
}


@dataclass(frozen=True)
class Template:
    """A message in the source: its text, with ``{...}`` where something is filled in."""

    text: str
    place: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """What matches the message wherever it stands in an error's text."""
        parts = re.split(r"\{[^{}]*\}", self.text)
        return re.compile(".*".join(map(re.escape, parts)), re.DOTALL)


@cache
def templates() -> tuple[Template, ...]:
    """All messages, each once."""
    found: dict[str, Template] = {}
    for path in MODULES.values():
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(SOURCES):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for value, words in _messages(node):
                for text in _texts(value):
                    text = words.replace("{}", text)
                    found.setdefault(text, Template(text, f"{name}:{value.lineno}"))
    return tuple(found.values())


def _messages(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """The expressions of messages at a node, and the words around each."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        kind = node.func.id
        if kind.endswith("Error") or kind in WORDS:
            yield node.args[0], WORDS.get(kind, "{}")
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
        target = target.value if isinstance(target, ast.Subscript) else target
        if (getattr(target, "attr", "") or getattr(target, "id", "")) in ("why", "aliased"):
            yield node.value, "{}"
    elif isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "_ESCAPES":
        yield from ((value, "{}") for value in node.value.values)  # type: ignore[union-attr]


def _texts(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may give; nothing for a message from elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        pieces = [
            v.value if isinstance(v, ast.Constant) else "{" + _plain(v.value) + "}"  # type: ignore[attr-defined]
            for v in node.values
        ]
        yield "".join(map(str, pieces))
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.Call) and len(node.args) == 3:  # getattr(x, "why", default)
        yield from _texts(node.args[2])


def _plain(node: ast.expr) -> str:
    return re.sub(r"[{}]", "", ast.unparse(node))


def unmatched(messages: list[str]) -> list[Template]:
    """The templates that none of some messages shows."""
    return [t for t in templates() if not any(t.pattern.search(m) for m in messages)]


# ------------------------------------------------------------------------------------ the page


@cache
def errors() -> dict[str, Exception]:
    """The errors of all programs, by the programs' names."""
    found: dict[str, Exception] = {}
    for program in PROGRAMS:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                program.run()
        except Exception as error:  # what the page is about
            found[program.name] = error
    return found


def raised() -> list[str]:
    """The texts of these errors."""
    return [str(error) for error in errors().values()]


def page() -> str:
    """The page's text, in Markdown."""
    return "\n".join(line for chapter in CHAPTERS for line in _chapter(chapter))


def _chapter(chapter: Chapter) -> Iterator[str]:
    """A chapter: first what this package says, then what Python says."""
    yield from ["", f"## {chapter.title}", "", chapter.text, ""]
    for program in chapter.programs:
        if program.advice:
            yield from _entry(program)
    own = [program for program in chapter.programs if not program.advice]
    if own:
        yield from ["Errors that are as in Python:", ""]
    for program in own:
        yield from _entry(program)


def _entry(program: Program) -> Iterator[str]:
    listing = Listing(program)
    error = errors()[program.name]
    message = listing.located(str(error))
    yield from [f"**{type(error).__name__}**: `` {message} ``", ""]  # searched for as it is
    yield from ["```python", listing.text, "```", ""]
    if program.advice:
        yield from [f"*What to do:* {program.advice}", ""]


# -------------------------------------------------------------------------------- the programs


class Listing:
    """A program as the page shows it: without decorator and docstring, after what it refers to."""

    def __init__(self, program: Program):
        module = sys.modules[program.function.__module__]
        name = program.function.__qualname__.partition(".")[0]  # a factory, for a closure
        self.places: dict[tuple[str, int], int] = {}  # file and line -> line shown
        lines: list[str] = []
        before: ast.stmt | None = None
        for scope, statement in _needed(module, name):
            if before is not None and not (_is_short(before) and _is_short(statement)):
                lines += ["", ""]
            file = Path(scope.__file__ or "")
            source = file.read_text(encoding="utf-8").split("\n")
            hidden = _docstring_lines(statement)
            is_program = (scope, name) == (module, getattr(statement, "name", ""))
            for number in range(_first_line(statement, is_program), statement.end_lineno + 1):  # type: ignore[operator]
                if number not in hidden:
                    lines.append(source[number - 1].split("  # noqa")[0])
                    self.places[file.name, number] = len(lines)
            before = statement
        self.text = "\n".join(lines)

    def located(self, message: str) -> str:
        """A message without folders, its lines counted in the text."""

        def place(match: re.Match[str]) -> str:
            return f"line {self.places.get((match[1], int(match[2])), '?')}"

        message = re.sub(r"(\w+\.py):(\d+)", place, message)
        return re.sub(r"\S*/error_programs/\w+\.py", "program.py", message)


@cache
def _statements(module: ModuleType) -> dict[str, list[ast.stmt]]:
    """The top-level statements of a module by the names that they define or act on."""
    found: dict[str, list[ast.stmt]] = {}
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            names = [statement.name]
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            names = [n.id for n in ast.walk(statement) if _is_stored(n)]  # type: ignore[attr-defined]
        else:  # NAME.method(...)
            owner = getattr(getattr(getattr(statement, "value", None), "func", None), "value", None)
            names = [owner.id] if isinstance(owner, ast.Name) else []
        for name in names:
            found.setdefault(name, []).append(statement)
    return found


def _needed(module: ModuleType, name: str) -> list[tuple[ModuleType, ast.stmt]]:
    """A function's statement, after those that define what it names."""
    found: dict[tuple[bool, int], tuple[ModuleType, ast.stmt]] = {}
    todo = [(module, name)]
    while todo:
        scope, wanted = todo.pop()
        if wanted not in _statements(scope) and hasattr(scope, wanted):
            scope = catalogue
        for statement in _statements(scope).get(wanted, ()):
            key = (scope is not catalogue, statement.lineno)
            if key not in found:
                found[key] = (scope, statement)
                todo += [(scope, n) for n in _names(statement)]
    last = _statements(module)[name][0]
    ordered = [found[key] for key in sorted(found)]
    return [pair for pair in ordered if pair[1] is not last] + [(module, last)]


def _names(statement: ast.stmt) -> set[str]:
    """The names that a statement reads, and has not from itself."""
    parts = [n for n in ast.iter_child_nodes(statement) if n not in _decorators(statement)]
    nodes = [n for part in parts for n in ast.walk(part)]
    own = {n.id for n in nodes if _is_stored(n)}  # type: ignore[attr-defined]
    own |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    shared = {x for n in nodes if isinstance(n, ast.Global) for x in n.names}
    return {n.id for n in nodes if isinstance(n, ast.Name)} - (own - shared)


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_short(statement: ast.stmt) -> bool:
    return not isinstance(statement, (ast.FunctionDef, ast.ClassDef))


def _decorators(statement: ast.stmt) -> list[ast.expr]:
    return getattr(statement, "decorator_list", [])


def _first_line(statement: ast.stmt, is_program: bool) -> int:
    """Where a statement begins: a program after its decorator."""
    decorators = [] if is_program else _decorators(statement)
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _docstring_lines(statement: ast.stmt) -> set[int]:
    """The lines of the docstrings of functions, and blank lines after them."""
    hidden: set[int] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            end = node.body[1].lineno if len(node.body) > 1 else node.body[0].lineno + 1
            end = min([end, *(d.lineno for d in _decorators(node.body[-1]))])
            hidden.update(range(node.body[0].lineno, end))
    return hidden
