"""Runs the workloads' scripts in turn, each in a process of its own, and makes tables of it.

Every process stays on one core, and uses one thread.  In each round every framework runs once, so
that a drift of the machine hits all alike; a figure is the median over the rounds.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
WORKLOADS = ("mlp_tiny", "mlp_mnist", "gpt", "gelu_1m", "layernorm", "softmax", "while_1000")
STARTS = 5  # new processes for each figure of the table of first results
_ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")
} | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}  # fmt: skip
_FRAMEWORKS = ("jax", "torch", "mindspore")
_FIND = (
    "import importlib.util, importlib.metadata, json\n"
    f"found = [m for m in {_FRAMEWORKS!r} if importlib.util.find_spec(m)]\n"
    "print(json.dumps({m: importlib.metadata.version(m) for m in found}))"
)

Times = dict[str, dict[str, float]]  # workload -> contestant -> figure


@dataclass(frozen=True)
class Contestant:
    """Who runs the workloads: a script, and the Python that has its framework."""

    name: str
    command: tuple[str, ...]
    version: str
    is_ours: bool = False

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables of its processes."""
        found = os.environ | _ONE_THREAD | dict(more or {})
        if self.is_ours:
            found["PYTHONPATH"] = str(HERE.parent.parent)
        return found


def ours(version: str) -> list[Contestant]:
    """This package, in both modes."""
    script = (sys.executable, str(HERE / "in_mindspore.py"), "--mode")
    return [
        Contestant(f"minispore {mode}", (*script, mode), version, is_ours=True)
        for mode in ("graph", "pynative")
    ]


def peers(pythons: Iterable[str]) -> list[Contestant]:
    """The other frameworks that some Pythons have; the first that has one runs it.

    Args:
        pythons: programs, or folders of virtual environments.

    Raises:
        OSError: one cannot be run.
    """
    found: dict[str, Contestant] = {}
    for place in pythons:
        python = str(Path(place) / "bin" / "python") if Path(place).is_dir() else place
        done = subprocess.run([python, "-c", _FIND], capture_output=True, text=True)
        versions = json.loads(done.stdout) if done.returncode == 0 else {}
        for name, version in versions.items():
            found.setdefault(name, _peer(name, python, version))
    return [found[name] for name in _FRAMEWORKS if name in found]


def _peer(name: str, python: str, version: str) -> Contestant:
    if name == "mindspore":
        script = (python, str(HERE / "in_mindspore.py"), "--package", "mindspore")
        return Contestant("mindspore graph", script, version)
    title = {"jax": "jax jit", "torch": "torch eager"}[name]
    return Contestant(title, (python, str(HERE / f"in_{name}.py")), version)


# ------------------------------------------------------------------------------- measuring

Tell = Callable[[str], None]


def times(
    contestants: Sequence[Contestant],
    names: Sequence[str],
    rounds: int,
    seconds: float,
    tell: Tell,
    clock: str = "wall",
) -> tuple[Times, list[str]]:
    """Microseconds of a call, and what could not be measured, in words.

    Args:
        rounds: how often each contestant runs.
        seconds: for each workload in a round.
        tell: takes a line about what is done.
        clock: "wall", or "cpu" for the processor's time, where other programs run beside it.
    """
    found: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    wrong: dict[str, None] = {}
    for number in range(rounds):
        for who in contestants:
            tell(f"round {number + 1} of {rounds}: {who.name}")
            how = ["--only", ",".join(names), "--seconds", str(seconds), "--clock", clock]
            for row in _rows(who, how):
                if "us" in row:
                    found[row["workload"]].setdefault(who.name, []).append(row["us"])
                else:
                    wrong[f"{who.name}, {row['workload']}: {row.get('error')}"] = None
    medians = {name: {who: statistics.median(us) for who, us in cells.items()}
               for name, cells in found.items()}  # fmt: skip
    return medians, list(wrong)


def first_results(
    contestants: Sequence[Contestant], names: Sequence[str], tell: Tell, clock: str = "wall"
) -> Times:
    """Seconds from the start of a new process to the first result: medians of some starts.

    This package runs with an empty cache of kernels, and with one that has them.
    """
    found: Times = {name: {} for name in names}
    for name in names:
        for who in contestants:
            tell(f"first results: {name}, {who.name}")
            if not who.is_ours:
                found[name][who.name] = statistics.median(
                    first_result(who, name, clock) for _ in range(STARTS)
                )
                continue
            cold, warm = [], []
            for _ in range(STARTS):
                with tempfile.TemporaryDirectory() as cache:
                    kept = {"MINISPORE_CACHE_DIR": cache}
                    cold.append(first_result(who, name, clock, kept))
                    warm.append(first_result(who, name, clock, kept))
            found[name][f"{who.name}, cold"] = statistics.median(cold)
            found[name][f"{who.name}, warm"] = statistics.median(warm)
    return found


def first_result(
    who: Contestant, name: str, clock: str = "wall", more: Mapping[str, str] | None = None
) -> float:
    """Seconds until a new process has its first result; infinite if it never has."""
    start = time.perf_counter()
    with subprocess.Popen(
        [*who.command, "--what", "first", "--only", name], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=who.environment(more),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            row = json.loads(line) if line.startswith("{") else {}
            if row.get("first"):
                return row["cpu_s"] if clock == "cpu" else time.perf_counter() - start
    return float("inf")


def memory(contestants: Sequence[Contestant], tell: Tell) -> dict[str, int]:
    """Bytes of tensors at the worst moment of gpt's step, of those who count them."""
    found = {}
    for who in contestants:
        tell(f"memory: {who.name}")
        for row in _rows(who, ["--what", "memory", "--only", "gpt"]):
            if "bytes" in row:
                found[who.name] = row["bytes"]
    return found


def _rows(who: Contestant, arguments: list[str]) -> list[dict]:
    """The lines of JSON that a script prints; an error in place of them if it dies."""
    done = subprocess.run(
        [*who.command, *arguments], capture_output=True, text=True, env=who.environment()
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode and not rows:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        return [{"workload": "all", "error": last[0]}]
    return rows


def machine() -> dict[str, str]:
    """What ran it."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux, or a CPU that does not say
    return {"cpu": name, "system": platform.system(), "python": platform.python_version()}


# ------------------------------------------------------------------------------- tables


def times_table(found: Times, contestants: Sequence[Contestant]) -> list[list[str]]:
    """A row for each workload: microseconds, and the best peer's over those of graph mode."""
    names = [who.name for who in contestants]
    others = [who.name for who in contestants if not who.is_ours]
    rows = [["workload", *names, *(["best peer / graph"] if others else [])]]
    for workload, cells in found.items():
        row = [workload, *(_number(cells.get(name)) for name in names)]
        best = min((cells[name] for name in others if name in cells), default=None)
        graph = cells.get("minispore graph")
        if others:
            row.append(f"{best / graph:.2f}x" if best and graph else "-")
        rows.append(row)
    return rows


def geometric_mean(found: Times, contestants: Sequence[Contestant]) -> float | None:
    """Of the ratios in the last column; None if there are none."""
    others = [who.name for who in contestants if not who.is_ours]
    ratios = [
        min(cells[n] for n in others if n in cells) / cells["minispore graph"]
        for cells in found.values()
        if "minispore graph" in cells and any(n in cells for n in others)
    ]
    return statistics.geometric_mean(ratios) if ratios else None


def first_table(found: Times) -> list[list[str]]:
    """A row for each workload: seconds to the first result."""
    names = list(dict.fromkeys(name for cells in found.values() for name in cells))
    rows = [["workload", *names]]
    for workload, cells in found.items():
        rows.append([workload, *(f"{cells[n]:.2f}" if n in cells else "-" for n in names)])
    return rows


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table for a terminal: the first column to the left, all others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:],
                                                                        strict=True))])
        for row in rows
    )  # fmt: skip


def _number(us: float | None) -> str:
    if us is None:
        return "-"
    return f"{us:,.1f}" if us < 1000 else f"{us:,.0f}"
