"""Many random programs: counts of what came of them, and small programs of what failed.

    python tests/nightly.py --seeds 0:10000 [--jobs 2] [--state counts.json]

Program i depends on seed i alone.  With ``--state`` counts are kept in a file: seeds that it knows
are left out, so that a range can be run in parts, and counts add up.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ["MINISPORE_DEBUG"] = "1"  # verify graphs after every pass, values against types
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from program_generator import Program  # noqa: E402
from program_shrink import shrink  # noqa: E402
from program_trial import Verdict, try_program  # noqa: E402

CHUNK = 25  # seeds between two writes of the state


def program(seed: int) -> str:
    """The text of program number `seed`."""
    return Program(random.Random(seed)).text()


def quiet() -> None:
    """Warnings are errors, except that Python finds some programs odd."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", SyntaxWarning)


def same_failure(verdict: Verdict) -> str:
    """What two programs that fail for one reason have in common."""
    return re.sub(r"[-+.e\d]+", "N", verdict.message)[:50]


def run(task: tuple[int, bool]) -> tuple[int, Verdict, str]:
    """One trial: seed, verdict, and the program if it fails."""
    seed, smaller = task
    quiet()
    text = program(seed)
    verdict = try_program(text)
    if verdict.kind != "failed":
        return seed, verdict, ""

    def fails(candidate: str) -> bool:
        other = try_program(candidate, seconds=5)
        return other.kind == "failed" and same_failure(other) == same_failure(verdict)

    return seed, verdict, shrink(text, fails) if smaller else text


class Counts:
    """What came of the seeds so far."""

    def __init__(self, file: Path | None):
        self.file = file
        known = json.loads(file.read_text()) if file and file.exists() else {}
        self.done: list[list[int]] = known.get("done", [])
        self.kinds: Counter[str] = Counter(known.get("kinds", {}))
        self.messages: Counter[str] = Counter(known.get("messages", {}))
        self.failures: dict[str, dict[str, str]] = known.get("failures", {})

    def knows(self, seed: int) -> bool:
        return any(first <= seed < last for first, last in self.done)

    def add(self, seed: int, verdict: Verdict, text: str) -> None:
        self.kinds[verdict.kind] += 1
        if verdict.kind in ("raised", "refused"):
            self.messages[f"{verdict.kind}: {verdict.message}"] += 1
        if verdict.kind == "failed":
            self.failures[str(seed)] = {"message": verdict.message, "program": text}
        self.mark(seed)

    def mark(self, seed: int) -> None:
        """Note a seed as done; neighbours are one range."""
        ranges = sorted([*self.done, [seed, seed + 1]])
        self.done = ranges[:1]
        for first, last in ranges[1:]:
            if first <= self.done[-1][1]:
                self.done[-1][1] = max(last, self.done[-1][1])
            else:
                self.done.append([first, last])

    def save(self) -> None:
        if self.file:
            fresh = self.file.with_suffix(".new")
            fresh.write_text(json.dumps(vars(self) | {"file": None}, indent=1))
            fresh.replace(self.file)

    def report(self) -> str:
        """The counts, what was refused or raised by message, and the failures."""
        total = sum(self.kinds.values())
        lines = [f"{total} programs: " + ", ".join(f"{n} {k}" for k, n in self.kinds.items())]
        lines += [f"{n:6}  {text}" for text, n in self.messages.most_common()]
        for seed, failure in self.failures.items():
            lines += [f"\nseed {seed}: {failure['message']}", failure["program"]]
        return "\n".join(lines)


def outcomes(tasks: list, jobs: int) -> Iterable[tuple[int, Verdict, str]]:
    if jobs == 1:
        yield from map(run, tasks)
        return
    with multiprocessing.Pool(jobs, maxtasksperchild=500) as pool:
        yield from pool.imap_unordered(run, tasks)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", default="0:1000", help="first:last, the last one left out")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--state", type=Path, help="file of the counts so far")
    parser.add_argument("--whole", action="store_true", help="do not make failures smaller")
    options = parser.parse_args(arguments)
    counts = Counts(options.state)
    seeds = [s for s in range(*map(int, options.seeds.split(":"))) if not counts.knows(s)]
    tasks: list[Any] = [(s, not options.whole) for s in seeds]
    for number, (seed, verdict, text) in enumerate(outcomes(tasks, options.jobs), 1):
        counts.add(seed, verdict, text)
        if number % CHUNK == 0:
            counts.save()
        if verdict.kind == "failed":
            print(f"seed {seed}: {verdict.message}\n{text}", flush=True)
    counts.save()
    print(counts.report())
    return 1 if counts.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
