"""Puts figures that ``minispore bench`` has measured into the page on speed.

    minispore bench --first --memory --json speed.json
    python book/speed.py speed.json

Between two marks of ``speed.md`` everything is written anew; what is around them stays.
"""

import json
import sys
from pathlib import Path

from minispore.bench import compare

PAGE = Path(__file__).parent / "speed.md"
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
    return "\n\n".join(parts)


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
