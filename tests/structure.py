"""What the package is made of: its modules, their layers, what they import, how long they are.

The tests of the structure and the book's tour of the house read the same facts.
"""

import ast
import tokenize
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "minispore"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

# Low to high: a module may import from its own layer and from lower ones.
LAYERS = (
    ("context", "dtype", "abstract", "dims", "tree", "random", "files", "spelling"),
    ("primitive",),
    ("ops",),
    ("ir",),
    ("tensor", "tensor_methods", "tensor_text", "parameter", "symbolic", "initializer",
     "autodiff.tape", "inputs", "mutable"),
    ("passes",),
    ("autodiff.transform", "autodiff.sweep", "autodiff.loops", "autodiff.nodes", "autodiff.sink"),
    ("frontend",),
    ("engine",),
    ("jit_options", "graph_function", "program", "recompile", "compile", "decorators", "composite",
     "autodiff.api", "autodiff.jacobian", "shortcut", "watch"),
    ("views",),
    ("nn", "dataset", "parallel"),
    ("train",),
    ("aliases",),
    ("bench",),
)  # fmt: skip
# The public names of the package, and the program: they see everything.
TOP = ("", "commands", "__main__")


def layer_of(module: str) -> int:
    """The layer of a module of the package; the longest name in the table wins."""
    name = module.removeprefix("minispore").removeprefix(".")
    if name.partition(".")[0] in TOP:
        return len(LAYERS)
    found = [
        (len(room), level)
        for level, rooms in enumerate(LAYERS)
        for room in rooms
        if name == room or name.startswith(room + ".")
    ]
    if name == "autodiff":  # its __init__ only re-exports
        return layer_of("minispore.autodiff.api")
    assert found, f"{module} has no layer: add it to LAYERS"
    return max(found)[1]


def imports_of(module: str) -> set[str]:
    """The modules of the package that a module imports, anywhere in its text."""
    path = MODULES[module]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            names = {f"{base}.{alias.name}" for alias in node.names}
            submodules = names & MODULES.keys()
            found |= submodules
            if len(submodules) < len(names):
                found.add(base)
    return {name for name in found if name.split(".")[0] == "minispore"} - {module}


def code_lines(path: Path) -> int:
    """The lines of a file that hold code: no docstrings, comments or blank lines."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            text = node.body[0]
            prose.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    silent = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENCODING, tokenize.ENDMARKER,
    }  # fmt: skip
    lines: set[int] = set()
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type not in silent:
                lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - prose)
