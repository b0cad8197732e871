"""What a benchmark says in the end: target, figure, and whether it was reached, beside a baseline.

`begin` prints the machine, its load and the versions, and what is left out; `end` prints the
figures, hands them to `run.py`, which makes one table of all, and returns the exit code.
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

# The exit code of a script that worked and was too slow.
MISSED = 3
# Where `run.py` wants the figures, a JSON line each.
RESULTS = "QOS_ORACLE_BENCH_RESULTS"
_LIBRARIES = ("sqlalchemy", "typer", "pydantic", "web3")
_begun = [(0.0, 0.0, 0.0)]


class Outcome(NamedTuple):
    """One figure of one run; smaller is better, in `unit`.

    `target` None: held to none. `target_at` says at which size the target counts, where another
    one ran; `baseline` is the obvious way's figure in the same run, `source` what that is.
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
        """`reached`, `MISSED`, or why it is neither."""
        if self.target is None:
            return "no target"
        if self.target_at:
            return f"counts at {self.target_at}"
        return "reached" if self.got <= self.target else "MISSED"

    @property
    def ratio(self) -> float:
        """How many times the baseline takes."""
        return self.baseline / self.got if self.got else 0.0


def machine() -> str:
    """Say on what is measured: processors, load, Python, SQLite and libraries."""
    load = "/".join(f"{part:.1f}" for part in os.getloadavg())
    named = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    return (
        f"{os.cpu_count()} processors, load {load}, {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {named}"
    )


def begin(leaves_out: str) -> None:
    """Print the machine and what the benchmark leaves out; from here on others' work is seen."""
    print(f"machine: {machine()}")
    print(f"leaves out: {leaves_out}", flush=True)
    _begun[0] = (time.monotonic(), *_busy())


def end(outcomes: Sequence[Outcome]) -> int:
    """Print the figures; return 0, or `MISSED` where one is too slow."""
    for outcome in outcomes:
        target_text = "" if outcome.target is None else f", target {outcome.target:g}"
        print(
            f"{outcome.what}: {outcome.got:.4g} {outcome.unit}{target_text}: {outcome.verdict}; "
            f"{outcome.ratio:.3g} times faster than {outcome.source} "
            f"({outcome.baseline:.4g} {outcome.unit})"
        )
    print(f"others used {others():.0%} of the processors meanwhile")
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


def others() -> float:
    """Return the share of all processors that other programs have used since `begin`."""
    began, busy, our_seconds = _begun[0]
    now, mine = _busy()
    passed = (time.monotonic() - began) * (os.cpu_count() or 1)
    return max(0.0, (now - busy) - (mine - our_seconds)) / passed if passed else 0.0


def _busy() -> tuple[float, float]:
    """Return the seconds that all processors have worked, and that we and our children have."""
    used = os.times()
    mine = used.user + used.system + used.children_user + used.children_system
    stat = Path("/proc/stat")
    if sys.platform != "linux" or not stat.exists():
        return mine, mine
    user, nice, system = map(int, stat.read_text("ascii").split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK"), mine
