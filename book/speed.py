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
GRAPH, TINY = "minispore graph", 3.0  # us
AIMS = (
    f"Targets of graph mode: a step of `mlp_tiny` in {TINY:.0f} us; no workload slower than in the "
    "fastest of the others; the first result before JAX's, even if no kernel is in the cache; no "
    "more memory than PyTorch."
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
        us = cells.get(GRAPH, 0.0)
        if name == "mlp_tiny" and us > TINY:
            missed.append(f"a step of `mlp_tiny` takes {us:.1f} us")
        others = {who: t for who, t in cells.items() if not who.startswith("minispore")}
        best = min(others, key=lambda who: others[who], default=GRAPH)
        if us > others.get(best, us):
            missed.append(f"`{name}` takes {us / others[best]:.2f} times as long as in {best}")
    for name, cells in found.get("first", {}).items():
        cold, jax = cells.get(f"{GRAPH}, cold", 0.0), cells.get("jax jit", math.inf)
        if cold > jax:
            missed.append(f"the first result of `{name}` takes {cold / jax:.2f} times as long")
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
