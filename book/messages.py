"""The page of error messages: found in the source, shown by programs that raise them.

``templates`` reads the source of the front end for every message that it can raise; the programs in
tests/error_programs.py raise them.  A test fails if a message has no program, or if a program shows
none of the source; so the page, which is made of the programs, is complete.
"""

import ast
import contextlib
import inspect
import io
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

from error_programs import PROGRAMS, Program
from structure import MODULES, PACKAGE

# Where messages about the user's program are written.
SOURCES = (
    "frontend/", "program.py", "compile.py", "symbolic.py", "jit_options.py", "decorators.py",
    "ops/structural.py", "dims.py", "mutable.py", "inputs.py",
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
        named = getattr(target, "attr", "") or getattr(getattr(target, "value", None), "attr", "")
        if named in ("why", "aliased"):
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
    """The errors of all programs, by the names of their functions."""
    found: dict[str, Exception] = {}
    for program in chain(*PROGRAMS.values()):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                program.run()
        except Exception as error:  # what the page is about
            found[program.function.__name__] = error
    return found


def raised() -> list[str]:
    """The texts of these errors."""
    return [str(error) for error in errors().values()]


def advice(program: Program) -> str:
    """What a program says to do."""
    return inspect.cleandoc(program.function.__doc__ or "")


def page() -> str:
    """The page's text, in Markdown."""
    lines: list[str] = []
    for title, programs in PROGRAMS.items():
        lines += ["", f"## {title}", ""]
        for program in programs:
            code = Code(program.function)
            error = errors()[program.function.__name__]
            message = re.sub(r"([\\`*_<>|])", r"\\\1", code.located(str(error)))
            lines += [f"**{type(error).__name__}**: {message}", ""]
            todo = advice(program)
            lines += ["```python", code.text, "```", ""]
            lines += [todo if todo.startswith("Python's own") else f"*What to do:* {todo}", ""]
    return "\n".join(lines)


class Code:
    """A program as the page shows it: without decorator and docstring, after what it refers to."""

    def __init__(self, function: Callable):
        lines, first = inspect.getsourcelines(function)
        dedented = textwrap.dedent("".join(lines)).rstrip().split("\n")
        node = ast.parse("\n".join(dedented)).body[0]
        assert isinstance(node, ast.FunctionDef)
        start, removed = node.lineno - 1, 0
        if ast.get_docstring(node) is not None:
            removed = (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            del dedented[node.body[0].lineno - 1 : node.body[0].end_lineno]
            while not dedented[node.body[0].lineno - 1].strip():
                del dedented[node.body[0].lineno - 1]
                removed += 1
        above = _referred(function)
        self.text = "\n\n\n".join([*above, "\n".join(dedented[start:])])
        self.first, self.last = first + start, first + len(lines) - 1
        self.shift = len("\n\n\n".join([*above, ""]).split("\n")) - self.first - removed

    def located(self, message: str) -> str:
        """A message without folders, its lines counted in the text."""

        def place(match: re.Match[str]) -> str:
            number = int(match[1])
            inside = self.first <= number <= self.last
            return f"line {number + self.shift}" if inside else "elsewhere"

        message = re.sub(r"error_programs\.py:(\d+)", place, message)
        return re.sub(r"\S*/error_programs\.py", "program.py", message)


def _referred(function: Callable) -> list[str]:
    """The sources of the functions and classes that a program names."""
    scope, found = function.__globals__, {}
    for name in function.__code__.co_names:
        value = scope.get(name)
        kind = value if inspect.isfunction(value) or inspect.isclass(value) else type(value)
        if getattr(kind, "__module__", "") == scope["__name__"] and kind is not function:
            found[name] = inspect.getsource(kind).rstrip()
            if kind is not value:
                found[name] += f"\n\n\n{name} = {kind.__name__}()"
    return list(dict.fromkeys(found.values()))
