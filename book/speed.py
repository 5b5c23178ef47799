"""Puts figures that ``minispore bench`` has measured into the page on speed.

    minispore bench --first --memory --json speed.json
    python book/speed.py speed.json

Between two marks of ``speed.md`` everything is written anew; what is around them stays.
"""

import json
import math
import sys
from pathlib import Path

from minispore.bench import compare

PAGE = Path(__file__).parent / "speed.md"
GRAPH = "minispore graph"
# How many times faster than the best of the others graph mode should be; 95 % of it is enough.
RATIOS = {
    "mlp_tiny": 10, "mlp_mnist": 1.15, "gpt": 1.8, "gelu_1m": 1.45, "layernorm": 1.8,
    "softmax": 1.7, "while_1000": 1.15,
}  # fmt: skip
STEPS = ("mlp_tiny", "mlp_mnist", "gpt")  # of training; the others are single functions
AIMS = (
    "Targets of graph mode, as times faster than the best of the others (from 95 % on one is met): "
    + ", ".join(f"`{name}` {ratio}" for name, ratio in RATIOS.items())
    + ". The first result, with no kernel in the cache: in twice JAX's time for a training step, "
    "in one second for a single function. No more memory than PyTorch."
)
BEGIN, END = "<!-- figures: written by book/speed.py -->", "<!-- end of figures -->"


def contestants(found: dict) -> list[compare.Contestant]:
    """Who ran, as far as tables need it."""
    return [
        compare.Contestant(name, (), version, name.startswith("minispore"))
        for name, version in found["versions"].items()
    ]


def figures(found: dict) -> str:
    """The tables as Markdown."""
    who, machine = contestants(found), found["machine"]
    versions = ", ".join(f"{c.name} {c.version}" for c in who if not c.is_ours)
    parts = [
        f"Measured on {machine['cpu']}, one core, {machine['system']}, Python {machine['python']}, "
        f"{found['clock']} time" + (f"; {versions}." if versions else "."),
        "Microseconds of a call:",
        markdown(compare.times_table(found["times"], who)),
    ]
    mean = compare.geometric_mean(found["times"], who)
    if mean is not None:
        parts.append(f"Geometric mean of the last column: {mean:.2f}.")
    parts += [f"Not measured: {line}." for line in found["errors"]]
    if "first" in found:
        parts += ["Seconds from the start of a new process to its first result, compiling included "
                  "(cold: no kernel is in the cache):",
                  markdown(compare.first_table(found["first"]))]  # fmt: skip
    if "memory" in found:
        rows = [["", "bytes"], *([name, f"{size:,}"] for name, size in found["memory"].items())]
        parts += ["Bytes of tensors at the worst moment of the step of `gpt`:", markdown(rows)]
    return "\n\n".join([*parts, targets(found)])


def targets(found: dict) -> str:
    """What is aimed at, and what of it these figures miss."""
    missed = []
    for name, cells in found["times"].items():
        others = [t for who, t in cells.items() if not who.startswith("minispore")]
        if others and cells.get(GRAPH) and name in RATIOS:
            ratio = min(others) / cells[GRAPH]
            if ratio < 0.95 * RATIOS[name]:
                missed.append(f"`{name}` is {ratio:.2f} times as fast as the best of the others")
    for name, cells in found.get("first", {}).items():
        cold = cells.get(f"{GRAPH}, cold", 0.0)
        most = 2 * cells.get("jax jit", math.inf) if name in STEPS else 1.0
        if cold > most:
            missed.append(f"the first result of `{name}` takes {cold:.2f} s")
    memory = found.get("memory", {})
    ours, torch = memory.get(GRAPH, 0), memory.get("torch eager", math.inf)
    if ours > torch:
        missed.append(f"`gpt` needs {ours / torch:.2f} times the memory")
    return f"{AIMS}\n\n{'Missed: ' + '; '.join(missed) if missed else 'None is missed'}."


def markdown(rows: list[list[str]]) -> str:
    """A table; figures to the right."""
    head, *body = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def refreshed(page: str, found: dict) -> str:
    """The page with other figures; ValueError if it has no marks."""
    before, after = page.index(BEGIN) + len(BEGIN), page.index(END)
    return f"{page[:before]}\n\n{figures(found)}\n\n{page[after:]}"


if __name__ == "__main__":
    measured = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8"), measured), encoding="utf-8")
