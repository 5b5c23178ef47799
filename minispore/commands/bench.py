"""``minispore bench``: how fast the workloads of ``minispore/bench`` are on your machine.

Other frameworks are timed too if this Python has them, or one that is named by ``--python``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from minispore.bench import compare
from minispore.files import write_whole


def add_to(commands: argparse._SubParsersAction, version: str) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "bench",
        help="time the workloads here, and in JAX, PyTorch and MindSpore where they are",
        description="Time the same workloads in both modes, and in JAX, PyTorch and MindSpore if "
        "this Python has them, or one that is named. Each runs in a process of its own, on one "
        "core, with one thread; figures are medians.",
    )
    add = parser.add_argument
    # fmt: off
    add("--only", default=",".join(compare.WORKLOADS), metavar="NAME,NAME",
        help="workloads (default: %(default)s)")
    add("--python", action="append", default=[], metavar="PROGRAM",
        help="a Python, or a virtual environment's folder, that has other frameworks; may be "
             "given several times")
    add("--rounds", type=int, default=3, metavar="N",
        help="how often every framework runs (default: %(default)s)")
    add("--seconds", type=float, default=1.0, metavar="S",
        help="for each workload in a round (default: %(default)s)")
    add("--cpu", action="store_true",
        help="processor time, where other programs keep the machine busy (default: wall time)")
    add("--first", action="store_true",
        help="also the seconds from the start of a new process to the first result, beside JAX")
    add("--memory", action="store_true",
        help="also the bytes of tensors at the worst moment of the step of gpt, beside PyTorch")
    add("--json", type=Path, metavar="FILE", help="write all figures to a file")
    # fmt: on
    parser.set_defaults(command=_bench, parser=parser, version=version)


def _bench(options: argparse.Namespace) -> int:
    names = [name for name in options.only.split(",") if name]
    unknown = [name for name in names if name not in compare.WORKLOADS]
    if unknown or not names:
        known = ", ".join(compare.WORKLOADS)
        return _fail(f"there is no workload '{', '.join(unknown)}'; there are {known}")
    if options.rounds < 1 or options.seconds <= 0:
        return _fail("--rounds and --seconds must be positive")
    problem = None if options.json is None else _unwritable(options.json)
    if problem is not None:
        return _fail(f"cannot write '{options.json}': {problem}")
    try:
        others = compare.peers([sys.executable, *options.python])
    except OSError as error:
        return _fail(f"cannot run '{error.filename}': {error.strerror}")
    found = _measured(options, compare.ours(options.version) + others, names)
    if options.json is not None:
        write_whole(options.json, json.dumps(found, indent=1) + "\n")
    return 0


def _unwritable(path: Path) -> str | None:
    """Why a file cannot be written, found out before minutes of measuring; None if it can."""
    if path.is_dir():
        return "it is a folder"
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        return error.strerror
    return None


def _measured(
    options: argparse.Namespace, contestants: list[compare.Contestant], names: list[str]
) -> dict[str, Any]:
    """Measure and print what is asked for; all figures."""
    versions = {who.name: who.version for who in contestants}
    clock = "cpu" if options.cpu else "wall"
    found: dict[str, Any] = {
        "machine": compare.machine(), "versions": versions, "clock": clock,
    }  # fmt: skip
    times, wrong = compare.times(contestants, names, options.rounds, options.seconds, _tell, clock)
    found["times"], found["errors"] = times, wrong
    print(f"microseconds of a call, one core, {clock} time")
    print(compare.aligned(compare.times_table(times, contestants)))
    mean = compare.geometric_mean(times, contestants)
    if mean is not None:
        print(f"geometric mean of the last column: {mean:.2f}x")
    for line in wrong:
        print(f"not measured: {line}")
    if options.first:
        starting = [c for c in contestants if c.name in ("minispore graph", "jax jit")]
        found["first"] = compare.first_results(starting, names, _tell, clock)
        print("\nseconds from the start of a new process to the first result; cold: no kernel is "
              "in the cache")  # fmt: skip
        print(compare.aligned(compare.first_table(found["first"])))
    if options.memory:
        counting = [c for c in contestants if c.name in ("minispore graph", "torch eager")]
        found["memory"] = compare.memory(counting, _tell)
        print("\nbytes of tensors at the worst moment of gpt's step")
        rows = [["", "bytes"], *([k, f"{v:,}"] for k, v in found["memory"].items())]
        print(compare.aligned(rows))
    return found


def _tell(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _fail(sentence: str) -> int:
    print(f"minispore bench: {sentence}", file=sys.stderr)
    return 2
