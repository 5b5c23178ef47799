"""One way to time a workload, for the scripts beside it; standard library only.

A workload is a function that makes a function: what it makes is called again and again, and ends
with a result that is on the host.  A script prints a line of JSON for each workload.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

WARM_UP, FEWEST = 5, 10  # calls
LEAST = 2e-4  # seconds between two looks at the clock
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
Workloads = dict[str, Callable[[], Callable[[], object]]]


def options() -> argparse.Namespace:
    """What compare.py asks a script for; the process stays on one core from now on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", default="minispore")
    parser.add_argument("--mode", default="graph", choices=("graph", "pynative"))
    parser.add_argument("--what", default="time", choices=("time", "first", "memory"))
    parser.add_argument("--only", default="", help="names of workloads, comma separated")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each workload")
    parser.add_argument("--clock", default="wall", choices=sorted(CLOCKS))
    found = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return found


def run(
    asked: argparse.Namespace, workloads: Workloads, memory: Callable[[], int] | None = None
) -> None:
    """Do what was asked for, and print a line for each workload.

    Args:
        memory: gives the bytes of tensors at the worst moment of the step of gpt.
    """
    for name in filter(None, asked.only.split(",") if asked.only else workloads):
        found: dict[str, Any] = {}
        try:
            if asked.what == "memory":
                found = {"bytes": memory()} if memory is not None else found
            elif asked.what == "first":
                workloads[name]()()
                found = {"first": True, "cpu_s": time.process_time()}  # since the process began
            else:
                found = timed(workloads[name], asked.seconds, CLOCKS[asked.clock])
        except Exception as error:  # a framework that cannot do it: that is a result, too
            found = {"error": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
        print(json.dumps({"workload": name, **found}), flush=True)


def timed(
    make: Callable[[], Callable[[], object]], seconds: float, clock: Callable[[], float]
) -> dict[str, float]:
    """Microseconds of a call: the median of all calls in so many seconds, after some to warm up.

    Very short calls are timed several at once.
    """
    call = make()
    first = _seconds(call, 1, clock)
    for _ in range(WARM_UP):
        call()
    at_once = max(int(LEAST / max(_seconds(call, 1, clock), 1e-9)), 1)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < FEWEST:
        times.append(_seconds(call, at_once, clock))
    calls = len(times) * at_once
    return {"us": statistics.median(times) * 1e6, "first_call_s": first, "calls": calls}


def _seconds(call: Callable[[], object], times: int, clock: Callable[[], float]) -> float:
    """Seconds of one of so many calls."""
    start = clock()
    for _ in range(times):
        call()
    return (clock() - start) / times
