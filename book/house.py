"""Facts of the tour of the house, read from the code: rooms, their sizes, who imports whom.

``tests/structure.py`` knows modules, layers and imports; here modules become rooms.
"""

from functools import cache

from structure import MODULES, code_lines, imports_of, layer_of

from minispore.ir.render import render_svg

# Room: the modules in it; a package stands for all of its modules, longer names win.
ROOMS = {
    "foundations": ("context", "dtype", "abstract", "dims", "tree", "random", "files", "spelling"),
    "primitive": ("primitive",),
    "ops": ("ops",),
    "ir": ("ir",),
    "tensor": (
        "tensor", "tensor_methods", "tensor_text", "parameter", "initializer", "inputs", "mutable",
        "symbolic",
    ),
    "tape": ("autodiff.tape",),
    "passes": ("passes",),
    "J": ("autodiff.transform", "autodiff.sink", "autodiff.sweep", "autodiff.loops",
          "autodiff.nodes"),
    "frontend": ("frontend",),
    "engine": ("engine",),
    "compile": (
        "compile", "program", "graph_function", "composite", "jit_options", "decorators",
        "recompile", "shortcut", "watch",
    ),
    "grad": ("autodiff", "autodiff.api", "autodiff.jacobian"),
    "views": ("views",),
    "nn": ("nn",),
    "dataset": ("dataset",),
    "train": ("train",),
    "bench": ("bench",),
    "door": ("", "aliases", "commands", "__main__"),
}  # fmt: skip


def room_of(module: str) -> str:
    """The room of a module such as ``minispore.ops.shape``."""
    name = module.removeprefix("minispore").removeprefix(".")
    found = [
        (len(member), room)
        for room, members in ROOMS.items()
        for member in members
        if name == member or (member and name.startswith(member + "."))
    ]
    if not found:
        raise LookupError(f"{module} is in no room: add it to ROOMS in book/house.py")
    return max(found)[1]


@cache
def sizes() -> dict[str, tuple[int, int]]:
    """Of each room: lines of code (no docstrings, comments or blank lines), and files."""
    found = dict.fromkeys(ROOMS, (0, 0))
    for module, path in MODULES.items():
        lines, files = found[room_of(module)]
        found[room_of(module)] = (lines + code_lines(path), files + 1)
    return found


def described(room: str) -> str:
    """The size of a room in words."""
    lines, files = sizes()[room]
    return f"{lines:,} lines of code in {files} file{'s' if files > 1 else ''}"


@cache
def imports() -> dict[str, set[str]]:
    """Of each room: the other rooms that it imports from."""
    found: dict[str, set[str]] = {room: set() for room in ROOMS}
    for module in MODULES:
        room = room_of(module)
        found[room] |= {room_of(imported) for imported in imports_of(module)} - {room}
    return found


def direct_imports() -> dict[str, set[str]]:
    """``imports()`` without those that also lead over another imported room."""
    edges = imports()

    def below(room: str) -> set[str]:
        return edges[room].union(*map(below, edges[room]))

    return {
        room: rooms - set().union(*(below(other) for other in rooms))
        for room, rooms in edges.items()
    }


def floor(room: str) -> int:
    """How high a room lies: the highest layer of its modules."""
    return max(layer_of(module) for module in MODULES if room_of(module) == room)


def dot() -> str:
    """The picture in Graphviz's language: rooms by floor, an arrow for each direct import."""
    rooms = [room for room, (_, files) in sizes().items() if files]
    lines = [
        "digraph house {",
        '  graph [rankdir=TB, nodesep=0.25, ranksep=0.35, bgcolor="white"]',
        '  node [shape=box, style="rounded,filled", fillcolor="#eef3fa", color="#4a6fa5",'
        ' fontname="Helvetica", fontsize=12, margin="0.15,0.06"]',
        '  edge [color="#8a99ad", arrowsize=0.6]',
    ]
    for room in rooms:
        size = f"{sizes()[room][0]:,} lines"
        label = f'<b>{room}</b><br/><font point-size="10">{size}</font>'
        lines.append(f'  "{room}" [label=<{label}>, URL="#{room.lower()}"]')
    for level in sorted({floor(room) for room in rooms}):
        same = "; ".join(f'"{room}"' for room in rooms if floor(room) == level)
        lines.append(f"  {{ rank=same; {same} }}")
    for room, others in direct_imports().items():
        lines += [f'  "{room}" -> "{other}"' for other in sorted(others)]
    return "\n".join([*lines, "}"])


def text() -> str:
    """The same in words, for a machine without Graphviz."""
    rows = [(room, sorted(others)) for room, others in direct_imports().items()]
    return "\n".join(f"{room:12} imports {', '.join(others) or 'nothing'}" for room, others in rows)


def svg() -> str | None:
    """The picture; None where Graphviz is missing."""
    return render_svg(dot())
