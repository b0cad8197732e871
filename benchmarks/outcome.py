"""The results that a benchmark prints: figure, target, verdict, and a baseline.

`begin` prints the machine, its load, the versions, and what the benchmark leaves out. `end` prints
the figures, passes them to `run.py`, which prints one table of all benchmarks, and returns the
exit code.
"""

import json
import os
import platform
import sqlite3
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

# The exit code of a script that succeeded but missed a target.
MISSED = 3
# The environment variable with the file to which `end` appends a JSON line for each figure.
RESULTS = "QOS_ORACLE_BENCH_RESULTS"
_LIBRARIES = ("sqlalchemy", "typer", "pydantic", "web3")
_begun = [(0.0, 0.0, 0.0)]


class Outcome(NamedTuple):
    """One figure of one run: the value `got` in `unit`; a smaller value is better.

    `target`: the maximum, or None without a target. `target_at`: the size to which the target
    applies, if the run had a different size, else "". `baseline`: the figure of the simple code in
    the same run, described by `source`.
    """

    what: str
    got: float
    unit: str
    target: float | None
    baseline: float
    source: str
    target_at: str = ""

    @property
    def verdict(self) -> str:
        """Whether the target was `reached` or `MISSED`, or why it does not apply."""
        if self.target is None:
            return "no target"
        if self.target_at:
            return f"counts at {self.target_at}"
        return "reached" if self.got <= self.target else "MISSED"

    @property
    def ratio(self) -> float:
        """The baseline divided by the figure."""
        return self.baseline / self.got if self.got else 0.0


def machine() -> str:
    """Return a description of the machine: processors, load, Python, SQLite and libraries."""
    load = "/".join(f"{part:.1f}" for part in os.getloadavg())
    named = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    return (
        f"{os.cpu_count()} processors, load {load}, {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {named}"
    )


def begin(leaves_out: str) -> None:
    """Print the machine and what the benchmark leaves out, and start measuring other programs."""
    print(f"machine: {machine()}")
    print(f"not measured: {leaves_out}", flush=True)
    _begun[0] = (time.monotonic(), *_busy())


def end(outcomes: Sequence[Outcome]) -> int:
    """Print the figures; return 0, or `MISSED` if a figure misses its target."""
    for outcome in outcomes:
        target_text = "" if outcome.target is None else f", target {outcome.target:g}"
        print(
            f"{outcome.what}: {outcome.got:.4g} {outcome.unit}{target_text}: {outcome.verdict}; "
            f"{outcome.ratio:.3g} times faster than {outcome.source} "
            f"({outcome.baseline:.4g} {outcome.unit})"
        )
    print(
        f"other programs used {compute_foreign_cpu_share():.0%} of the processors "
        "during the benchmark"
    )
    written = os.environ.get(RESULTS)
    if written:
        with Path(written).open("a", encoding="utf-8") as file:
            for outcome in outcomes:
                row = [
                    outcome.what,
                    outcome.got,
                    outcome.unit,
                    outcome.target,
                    outcome.ratio,
                    outcome.verdict,
                ]
                file.write(json.dumps(row) + "\n")
    return MISSED if any(outcome.verdict == "MISSED" for outcome in outcomes) else 0


def compute_foreign_cpu_share() -> float:
    """Return the share of all CPU time that other programs have used since `begin`."""
    began, busy, our_seconds = _begun[0]
    now, mine = _busy()
    passed = (time.monotonic() - began) * (os.cpu_count() or 1)
    return max(0.0, (now - busy) - (mine - our_seconds)) / passed if passed else 0.0


def _busy() -> tuple[float, float]:
    """Return the CPU seconds of all programs, and of this process with its children."""
    used = os.times()
    mine = used.user + used.system + used.children_user + used.children_system
    stat = Path("/proc/stat")
    if sys.platform != "linux" or not stat.exists():
        return mine, mine
    user, nice, system = map(int, stat.read_text("ascii").split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK"), mine
