"""The script that measures both modes still runs; its times are not tested."""

import os
import subprocess
import sys

from notebook_tool import NOTEBOOKS


def test_measure_modes_prints_its_table():
    done = subprocess.run(
        [sys.executable, str(NOTEBOOKS / "measure_modes.py"), "--rounds", "2"],
        env={**os.environ, "PYTHONPATH": str(NOTEBOOKS.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 8
    assert {row.count("|") for row in rows} == {7}
    assert sum("never" in row for row in rows) >= 2
