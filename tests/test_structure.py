"""The shape of the project: imports that go one way, line budgets, documented public names.

These tests turn growth and new dependencies into decisions: whoever needs one edits a table
here or in structure.py.
"""

import inspect
import re
import subprocess
from types import ModuleType

import pytest
from structure import MODULES, PACKAGE, ROOT, code_lines, imports_of, layer_of

# ------------------------------------------------------------------------------- import order

# (importing module, imported module): why this edge is needed although it goes upwards.
EXCEPTIONS: dict[tuple[str, str], str] = {}


def test_every_module_has_a_layer():
    for module in MODULES:
        layer_of(module)


def test_imports_go_one_way():
    wrong = []
    for module in MODULES:
        for imported in sorted(imports_of(module)):
            if layer_of(imported) > layer_of(module) and (module, imported) not in EXCEPTIONS:
                wrong.append(f"{module} imports {imported}")
    assert not wrong, "imports that go upwards:\n" + "\n".join(wrong)


def test_every_exception_is_still_needed():
    stale = [edge for edge in EXCEPTIONS if edge[1] not in imports_of(edge[0])]
    assert not stale


def test_the_import_test_can_fail():
    assert layer_of("minispore.nn.layer") > layer_of("minispore.ops.math")
    assert layer_of("minispore.autodiff.api") > layer_of("minispore.autodiff.tape")
    assert layer_of("minispore") > layer_of("minispore.aliases")
    assert "minispore.ir.text" in imports_of("minispore.ir.node")  # also inside functions


# -------------------------------------------------------------------------------- line budget

PASS_DRIVER = ("passes/__init__.py", "passes/pattern.py", "passes/rewrite.py", "passes/pipeline.py")
PLAN = ("engine/__init__.py", "engine/plan.py")
ENGINE_VIEWS = tuple(f"engine/{m}.py" for m in ("counts", "replay", "peak"))  # for reports
IR = tuple(
    f"ir/{m}.py" for m in "__init__ node text literal verify interp compare finite values".split()
)  # without its drawings
OUTSIDE = (  # rooms without a budget: built on top of the spine
    "nn/", "dataset/", "train/", "parallel/", "views/", "commands/", "bench/", "__main__.py",
    "__init__.py", "aliases.py", "random.py", "files.py", "initializer.py", "composite.py",
    "spelling.py",
)  # fmt: skip
BUDGETS = {
    # Typed code at 100 columns, and a front end that holds all of control flow: what was measured
    # when it was complete, with little room to grow.
    "spine": 13910,
    "of it, frontend": 6110,
    "drawings": 1400,
    "ops": 3760,
    "rule tables": 1580,
    "kernels": 2500,
    "other engine": 2940,
    "views of the engine": 400,
    "shortcuts": 580,
}


def room_of(name: str) -> str:
    """The budget that a file of the package counts on."""
    if name.startswith(OUTSIDE):
        return "outside"
    if name.startswith("ops/"):
        return "ops"
    if name in ("shortcut.py", "watch.py", "engine/direct.py"):
        return "shortcuts"
    if name.startswith("passes/") and name not in PASS_DRIVER:
        return "rule tables"
    if name.startswith("ir/") and name not in IR:
        return "drawings"
    if name in ENGINE_VIEWS:
        return "views of the engine"
    if name.startswith("engine/kernels/"):
        return "kernels"
    if name.startswith("engine/") and name not in PLAN:
        return "other engine"
    return "spine"


def test_line_budgets():
    used = dict.fromkeys([*BUDGETS, "outside"], 0)
    for path in MODULES.values():
        name = path.relative_to(PACKAGE).as_posix()
        lines = code_lines(path)
        used[room_of(name)] += lines
        if name.startswith("frontend/"):
            used["of it, frontend"] += lines
    over = {room: used[room] for room, budget in BUDGETS.items() if used[room] >= budget}
    assert not over, f"over budget: {over}"


def test_code_lines_counts_code_only(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(
        '"""Prose.\n\nMore."""\n\n# comment\nx = 1  # one\n\n\n'
        'def f():\n    """Prose."""\n    return """two\n    lines"""\n'
    )
    assert code_lines(path) == 4


# ---------------------------------------------------------------------------- tracked files

DESIGN = {"notebooks", "minispore", "tests", "book", "pyproject.toml", "README.md", "LICENSE"}
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|opt|tmp|work|farm|Users|mnt)/\w")
FOREIGN_WORD = re.compile(r"py[p]i\.org|python[h]osted|npm[j]s|deb\.debi[a]n|sub[a]gent")


def tracked_files() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listing.stdout.split("\0") if name]


def in_clone() -> bool:
    return (ROOT / ".git").exists()


def test_top_level_entries():
    """Only what the design has (and dot files) is at the top of the repository."""
    if in_clone():
        tops = {name.split("/")[0] for name in tracked_files()}
        assert {name for name in tops - DESIGN if not name.startswith(".")} == set()


def test_no_machine_specific_text():
    names = tracked_files() if in_clone() else [str(p.relative_to(ROOT)) for p in MODULES.values()]
    found = []
    for name in names:
        path = ROOT / name
        if not path.is_file() or path.suffix in (".npz", ".png"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            if ABSOLUTE_PATH.search(line) or FOREIGN_WORD.search(line):
                found.append(f"{name}:{number}: {line[:80]}")
    assert not found, "\n".join(found[:20])


def test_the_text_patterns_find_what_they_should():
    for text in ("open('/ro" + "ot/x')", "see /ho" + "me/me/file", "/wo" + "rk/main"):
        assert ABSOLUTE_PATH.search(text), text
    for text in ("#!/usr/bin/env bash", "https://a.b/tmp/x", "a/opt/x", "w /opt"):
        assert not ABSOLUTE_PATH.search(text), text
    assert FOREIGN_WORD.search("https://py" + "pi.org/simple")


# ---------------------------------------------------------------------------------- docstrings


@pytest.mark.parametrize("name", ["minispore", "minispore.ops", "minispore.nn"])
def test_public_names_have_docstrings(name):
    module = __import__(name, fromlist=["_"])
    public = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
    assert len(public) > 20
    silent = []
    for public_name in public:
        value = getattr(module, public_name)
        if isinstance(value, type):
            doc = vars(value).get("__doc__")
        elif isinstance(value, ModuleType) or inspect.isroutine(value):
            doc = value.__doc__
        else:
            continue  # a dtype, a number: documented where it is defined
        if not (doc and doc.strip()):
            silent.append(public_name)
    assert not silent, f"{name}: no docstring on {', '.join(silent)}"
