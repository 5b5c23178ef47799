"""Where the time of a compiled call goes: ``ms.explain(fn, x).profile()``.

Every kernel, and every operation that NumPy does, is timed by itself on the call's own values, many
times; the plan as a whole is timed as it runs.  What is left is Python: the loop over instructions,
taking arrays in and out.  To each time belongs what was moved and computed in it (engine/counts.py)
and how much of what this machine can do at most that is (engine/peak.py).

    p = ms.explain(step, x, y).profile()
    print(p)                      # the slowest first
    p.trace("step.json")          # opens in chrome://tracing and ui.perfetto.dev

Nothing outside is written: no Parameter changes, and what the graph prints is not shown.  So the
plan is timed as Python runs it; a call may take a shortcut past that (shortcut.py), and the profile
says if it can.  (MindSpore: ``mindspore.Profiler``.)
"""

from __future__ import annotations

import html
import io
import json
import os
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from minispore.engine import Executable, counts, native, peak
from minispore.engine.emit import Kernel
from minispore.engine.layout import DTYPES
from minispore.engine.plan import compute, resize, unpack
from minispore.engine.replay import Moment, Rows, replay
from minispore.engine.segments import Segment
from minispore.files import write_whole
from minispore.ir.node import CNode, Location
from minispore.primitive import Primitive
from minispore.random import drawn_again
from minispore.views.kernels import NodeNames, nodes_in, place_name, title_of

SHORT = 2_000  # ns: rows below are timed in batches, for a clock takes 50 ns itself
TINY = 1e-6  # seconds: of rows below, shares of what the machine can do mean nothing
BATCH = 64
MOST_EVENTS = 20_000  # of a run, in a trace
_NUMPY = (compute, unpack, resize)


@dataclass
class Timed:
    """One kernel, or one operation of NumPy: a row of the table.

    Attributes:
        name: its place in the plan, as in ``report.plan``: ``0.12`` is row 12 of instruction 0.
        kind: ``kernel`` or ``numpy``.
        title: the primitives that it computes.
        nodes: their numbers in the text of the optimized graph.
        lines: the places in the user's source that made them.
        runs: how often it runs in one run of the plan, as in a loop.
        seconds: what all these runs take together.
        bytes: how many all these runs must move.
        operations: how many they do on elements; None where that is not known.
        dtype: of the result.
    """

    name: str
    kind: str
    title: str
    nodes: tuple[str, ...]
    lines: tuple[Location, ...]
    runs: int
    seconds: float
    bytes: int
    operations: int | None
    dtype: str

    @property
    def bandwidth(self) -> float:
        """Bytes moved in a second."""
        return self.bytes / max(self.seconds, 1e-9)

    @property
    def speed(self) -> float:
        """Operations in a second."""
        return (self.operations or 0) / max(self.seconds, 1e-9)

    @property
    def share_of_copy(self) -> float:
        """Its bandwidth, over that of copies of as many bytes in a run."""
        return self.bandwidth / peak.bandwidth(self.bytes // max(self.runs, 1))

    @property
    def share_of_blas(self) -> float:
        """Its operations in a second, over those of a product of large matrices of its dtype."""
        return self.speed / peak.operations("f8" if self.dtype == "f8" else "f4")


@dataclass
class _Samples:
    """What was measured of one row or instruction: in its place in a run, and in batches.

    `name` is that of the row of the table that it counts on, `about` makes that row.
    """

    name: str
    about: Callable[[int], Timed]
    runs: int = 0
    in_place: list[int] = field(default_factory=list)
    in_batches: list[float] = field(default_factory=list)

    @property
    def once(self) -> float:
        """Nanoseconds of one execution."""
        if self.in_batches:
            return statistics.median(self.in_batches)
        return statistics.median(self.in_place)


class Profile:
    """Times of a plan; print it, or see `rows`.

    Attributes:
        rows: kernels and NumPy's operations, the slowest first.
        seconds: a whole run of the plan: the median of several.
        guards: what finding the compiled graph for a call takes, which comes before that; None if
            it is not known.
        compared: what a call looks at instead, if it takes the shortcut: how many words of memory,
            and how many lines of the guard; None if calls like this one have no shortcut.
    """

    def __init__(self, name: str, rows: list[Timed], events: list[tuple[str, float]],
                 seconds: float, guards: float | None,
                 compared: tuple[int, int] | None = None):  # fmt: skip
        self.name = name
        self.rows = sorted(rows, key=lambda row: -row.seconds)
        self.seconds, self.guards, self.compared = seconds, guards, compared
        self._events = events  # (name of a row, seconds), in the order of a run

    def share(self, kind: str) -> float:
        """How much of the run is spent in ``kernel``, in ``numpy``, or in ``python``: the rest."""
        measured = {k: sum(r.seconds for r in self.rows if r.kind == k)
                    for k in ("kernel", "numpy")}  # fmt: skip
        return measured.get(kind, self._whole - sum(measured.values())) / self._whole

    @property
    def _whole(self) -> float:
        """The whole, of which shares are told: rows by themselves may take longer than together."""
        return max(self.seconds, sum(r.seconds for r in self.rows), 1e-12)

    def table(self, most: int = 40) -> str:
        """The slowest rows as text, then the totals."""
        lines = [f"{'step':<10}{'runs':>6}{'us':>10}{'%':>7}{'kB':>10}{'GB/s':>8}{'of copy':>9}"
                 f"{'Gop/s':>8}{'of BLAS':>9}  what"]  # fmt: skip
        whole, unknown = self._whole, f"{'-':>8}{'-':>9}"
        for row in self.rows[:most]:
            is_tiny = row.seconds < TINY * max(row.runs, 1)
            of_copy, of_blas = (f"{'-' if is_tiny else format(share, '.1%'):>9}"
                                for share in (row.share_of_copy, row.share_of_blas))  # fmt: skip
            speed = f"{row.speed / 1e9:>8.1f}{of_blas}"
            lines.append(
                f"{row.name:<10}{row.runs:>6}{row.seconds * 1e6:>10.2f}{row.seconds / whole:>7.1%}"
                f"{row.bytes / 1e3:>10.1f}{row.bandwidth / 1e9:>8.1f}{of_copy}"
                f"{unknown if row.operations is None else speed}  {_what(row)}"
            )
        if more := self.rows[most:]:
            total = sum(r.seconds for r in more)
            lines.append(f"{len(more)} more {total * 1e6:>19.2f}{total / whole:>7.1%}")
        return "\n".join([*lines, "", *self._totals()])

    def _totals(self) -> list[str]:
        shares = ", ".join(f"{title} {self.share(kind):.1%}" for kind, title in (
            ("kernel", "kernels"), ("numpy", "NumPy"), ("python", "Python")))  # fmt: skip
        moved = sum(r.bytes for r in self.rows)
        known = sum(r.operations or 0 for r in self.rows)
        lines = [
            f"a run of the plan: {self.seconds * 1e6:.1f} us, of it {shares}",
            f"moved {moved:,} bytes, done {known:,} operations",
            "most here: " + "; ".join([
                f"copies of {_size(min(peak.SETS))} to {_size(max(peak.SETS))}, "
                f"{peak.bandwidth(min(peak.SETS)) / 1e9:.0f} to "
                f"{peak.bandwidth(max(peak.SETS)) / 1e9:.0f} GB/s (small ones stay in the cache)",
                f"products of float32 matrices, {peak.operations('f4') / 1e9:.0f} Gop/s",
            ]),
        ]  # fmt: skip
        if self.guards is not None:
            finds = f"before it, a call finds its graph in {self.guards * 1e6:.1f} us"
            lines[1:1] = [finds, self._way_past()]
        return lines

    def _way_past(self) -> str:
        """Whether a call takes the shortcut."""
        if self.compared is None:
            return "calls like this one have no shortcut past that"
        words, lines = self.compared
        checks = _counted(words, "word") + " of memory"
        if lines:
            checks += f" and {_counted(lines, 'line')} of the guard"
        return (
            "from the third on, such calls take a shortcut past that and Python, which checks "
            f"{checks}"
        )

    def trace(self, path: str | os.PathLike[str]) -> Path:
        """Write one run as JSON in Chrome's trace format: each step as long as it takes.

        It opens in chrome://tracing and at ui.perfetto.dev.  Kernels and NumPy have a line each;
        Python's share stands at the end, because it is known as a whole.

        Raises:
            OSError: the file cannot be written.
        """
        target = Path(path)
        write_whole(target, json.dumps(self.trace_events(), indent=1) + "\n")
        return target

    def trace_events(self) -> dict[str, Any]:
        """The same as a dict."""
        known = {row.name: row for row in self.rows}
        lanes = {"kernel": 1, "numpy": 2, "python": 3}
        found = [_named("process_name", 0, self.name)]
        found += [_named("thread_name", n, t) for t, n in
                  zip(("kernels", "NumPy", "Python"), lanes.values(), strict=True)]  # fmt: skip
        at = 0.0
        for name, seconds in self._events[:MOST_EVENTS]:
            row = known[name]
            details = {"step": name, "nodes": " ".join(row.nodes), "lines": _places(row.lines),
                       "bytes": row.bytes // max(row.runs, 1)}  # fmt: skip
            found.append(_slice(row.title, row.kind, lanes[row.kind], at, seconds, details))
            at += seconds
        python = self.share("python") * self.seconds
        found.append(_slice("Python", "python", lanes["python"], at, python, {}))
        left_out = max(len(self._events) - MOST_EVENTS, 0)
        return {"traceEvents": found, "displayTimeUnit": "ns", "otherData": {"left out": left_out}}

    def html(self) -> str:
        """The table as plain HTML."""
        return f"<pre>{html.escape(self.table())}</pre>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": str(self)}

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__


def _named(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}


def _slice(name: str, kind: str, thread: int, at: float, seconds: float, args: dict) -> dict:
    times = {"ts": round(at * 1e6, 4), "dur": round(seconds * 1e6, 4)}
    return {"name": name, "cat": kind, "ph": "X", "pid": 1, "tid": thread, **times, "args": args}


def _what(row: Timed) -> str:
    nodes = f"{' '.join(row.nodes[:3])}{' ...' if len(row.nodes) > 3 else ''}"
    words = row.title if len(row.title) <= 40 else row.title[:38] + " ..."
    return "  ".join(filter(None, (words, nodes, _places(row.lines[:2]))))


def _places(lines: Iterable[Location]) -> str:
    return ", ".join(dict.fromkeys(map(str, lines)))


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _size(n: int) -> str:
    return f"{n // 2**20} MB" if n >= 2**20 else f"{n // 2**10} kB"


# ------------------------------------------------------------------------------- measuring


def profile_plan(
    plan: Executable,
    inputs: Sequence[Any],
    name: str,
    runs: int = 20,
    find: Callable[[], Any] | None = None,
    compared: tuple[int, int] | None = None,
) -> Profile:
    """Time a plan on these inputs.

    Args:
        runs: how often the plan runs as a whole, and each of its steps by itself.
        find: what finds the plan for a call, which is timed too.
        compared: see Profile.

    Raises:
        TypeError: `runs` is no int.
        ValueError: `runs` is less than 1.
        What the graph raises on these inputs.
    """
    if not isinstance(runs, int):
        raise TypeError(f"runs must be an int, not {runs!r}")
    if runs < 1:
        raise ValueError(f"runs must be at least 1, not {runs}")
    with redirect_stdout(io.StringIO()), drawn_again(), np.errstate(all="ignore"):
        plan.run(inputs)
        seconds = statistics.median(peak.seconds(lambda: plan.run(inputs)) for _ in range(runs))
        guards = None
        if find is not None:
            guards = statistics.median(peak.seconds(find) for _ in range(runs))
        watch = _Watch(plan)
        for _ in range(runs):
            watch.run(inputs)
    return Profile(name, watch.rows(), watch.order(), seconds, guards, compared)


class _Watch:
    """Takes the times of all steps of a plan, in one run after the other."""

    def __init__(self, plan: Executable):
        self.plan = plan
        self.names = NodeNames(plan.graph)
        self.samples: dict[Hashable, _Samples] = {}
        self.memory: dict[int, Rows] = {}  # of each instruction that runs kernels
        self.first: dict[Hashable, str] = {}  # row -> the name of its kernel's first row
        self.events: list[Hashable] = []
        self.is_first = True
        nothing = native.bound(np.zeros(5, np.int64), 0, np.zeros(1, np.int64))
        self.overhead = min(self.clock(nothing) for _ in range(50))

    def clock(self, run: Callable[[], Any]) -> int:
        start = perf_counter_ns()
        run()
        return perf_counter_ns() - start

    def run(self, inputs: Sequence[Any]) -> None:
        """Run the plan once."""
        batched: set[Hashable] = set()
        for moment in replay(self.plan, inputs):
            place = place_name(self.plan, moment.routine, moment.number)
            if isinstance(moment.step.function, Segment):
                self.kernels(moment, place, batched)
            elif moment.step.do in _NUMPY:
                self.numpy(moment, place)
            else:
                moment.do()
        self.is_first = False

    def numpy(self, moment: Moment, place: str) -> None:
        node = moment.step.node
        assert isinstance(node, CNode)
        took = self.clock(moment.do)
        self.note(place, took, place, lambda runs: self.about_node(place, node, runs))

    def kernels(self, moment: Moment, place: str, batched: set[Hashable]) -> None:
        """All rows of a call of kernels, each by itself."""
        segment, operands = moment.step.function, moment.operands
        rows = self.memory.get(id(moment.step))
        if rows is None:
            rows = self.memory[id(moment.step)] = Rows(segment, operands)
        rows.load(operands)
        number = 0
        while number < len(segment.rows):
            kernel = segment.rows[number].kernel
            if kernel is not None:
                self.row(rows, number, kernel, place, batched)
            number = rows.following(number)
        if not moment.take(rows):
            moment.do()

    def row(
        self, rows: Rows, number: int, kernel: Kernel, place: str, batched: set[Hashable]
    ) -> None:
        took = self.clock(rows.call(number)) - self.overhead
        key = (place, number)
        if key not in self.samples:
            first = next(n for n, r in enumerate(rows.segment.rows) if r.kernel is kernel)
            self.first[key] = f"{place}.{first}"
        name, parts = self.first[key], rows.segment.rows[number].part[1]
        samples = self.note(
            key, max(took, 0), name, lambda runs: self.about(name, kernel, runs, parts)
        )
        if not self.is_first and key not in batched and min(samples.in_place) < SHORT:
            batched.add(key)
            samples.in_batches.append(self.batch(rows, number, kernel))

    def batch(self, rows: Rows, number: int, kernel: Kernel) -> float:
        """Nanoseconds of a short row, from many in one call; it leaves all as it was."""
        written = [rows.array(b) for b in counts.writes(kernel)]
        before = [array.copy() for array in written]
        took = self.clock(rows.call(number, BATCH)) - self.overhead
        for array, values in zip(written, before, strict=True):
            array[...] = values
        return max(took / BATCH, 0.0)

    def note(self, key: Hashable, took: int, name: str, about: Callable[[int], Timed]) -> _Samples:
        if key not in self.samples:
            self.samples[key] = _Samples(name, about)
        samples = self.samples[key]
        samples.in_place.append(took)
        if self.is_first:
            samples.runs += 1
            self.events.append(key)
        return samples

    # ----------------------------------------------------------------- what is told

    def about_node(self, place: str, node: CNode, runs: int) -> Timed:
        """A row of the table for an operation of NumPy."""
        callee, where = node.callee, node.origin.where
        assert isinstance(callee, Primitive)
        done = counts.operations_alone(node)
        dtype = getattr(node.abstract, "dtype", None)
        return Timed(
            place, "numpy", callee.name, (self.names.of(node),), (where,) if where else (), runs,
            0.0, runs * counts.bytes_alone(node), None if done is None else runs * done,
            DTYPES.get(dtype.numpy.name, "") if dtype else "",
        )  # fmt: skip

    def about(self, name: str, kernel: Kernel, runs: int, parts: int) -> Timed:
        """A row of the table for a kernel, of which so many calls are made (for all parts)."""
        nodes = nodes_in(kernel)
        lines = dict.fromkeys(n.origin.where for n in nodes)
        moved = sum(counts.reads(kernel).values()) + sum(counts.writes(kernel).values())
        whole = runs // parts
        return Timed(
            name, "kernel", title_of(kernel), tuple(filter(None, map(self.names.of, nodes))),
            tuple(where for where in lines if where is not None), runs, 0.0,
            whole * moved, whole * counts.operations(kernel), kernel.group.steps[0].out.dtype,
        )  # fmt: skip

    def rows(self) -> list[Timed]:
        """A row for each kernel (of one that runs in parts, for all of them) and operation."""
        parts: dict[str, list[_Samples]] = {}
        for samples in self.samples.values():
            parts.setdefault(samples.name, []).append(samples)
        found = []
        for same in parts.values():
            row = same[0].about(sum(s.runs for s in same))
            row.seconds = sum(s.runs * s.once for s in same) * 1e-9
            found.append(row)
        return found

    def order(self) -> list[tuple[str, float]]:
        """The steps of the first run: the name of a row of the table, and what it takes."""
        return [(self.samples[k].name, self.samples[k].once * 1e-9) for k in self.events]


__all__ = ["Profile", "Timed", "profile_plan"]
