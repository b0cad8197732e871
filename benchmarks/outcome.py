"""The results that a benchmark prints: figure, target, verdict, and a baseline.

`begin_benchmark` prints the machine, its load, the versions, and what the benchmark does not
measure. `finish_benchmark` prints the figures, passes them to `run.py`, which prints one table of
all benchmarks, and returns the exit code.
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

# Exit code of a script that succeeded but missed a target.
MISSED_EXIT_CODE = 3
# Environment variable with the path of a file, to which a JSON line is appended for each figure.
RESULTS_VARIABLE = "QOS_ORACLE_BENCH_RESULTS"
_LISTED_LIBRARIES = ("sqlalchemy", "typer", "pydantic", "web3")
_started_at = [(0.0, 0.0, 0.0)]


class Outcome(NamedTuple):
    """One figure of one run: `value` in `unit`; a smaller value is better.

    `target`: the maximum, or None without a target. `target_size`: the size to which the target
    applies, if the run had a different size, else "". `baseline`: the figure of the simple code
    that `baseline_name` names, in the same run.
    """

    title: str
    value: float
    unit: str
    target: float | None
    baseline: float
    baseline_name: str
    target_size: str = ""

    @property
    def verdict(self) -> str:
        """Whether the target was `reached` or `MISSED`, or why it does not apply."""
        if self.target is None:
            return "no target"
        if self.target_size:
            return f"counts at {self.target_size}"
        return "reached" if self.value <= self.target else "MISSED"

    @property
    def ratio(self) -> float:
        """The baseline divided by the figure."""
        return self.baseline / self.value if self.value else 0.0


def describe_machine() -> str:
    """Return a description of the machine: processors, load, Python, SQLite and libraries."""
    load_average = "/".join(f"{average:.1f}" for average in os.getloadavg())
    versions = ", ".join(f"{name} {version(name)}" for name in _LISTED_LIBRARIES)
    return (
        f"{os.cpu_count()} processors, load {load_average}, {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {versions}"
    )


def build_command_environment(bytecode_folder: Path) -> dict[str, str]:
    """Return environment variables that make Python cache bytecode in this folder.

    An installed command is compiled already. If the environment forbids bytecode, as in a
    container image, each process of a checkout would compile all modules again.
    """
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(bytecode_folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def begin_benchmark(not_measured: str) -> None:
    """Print the machine and what is not measured; start measuring the load of other programs."""
    print(f"machine: {describe_machine()}")
    print(f"not measured: {not_measured}", flush=True)
    _started_at[0] = (time.monotonic(), *_read_cpu_seconds())


def finish_benchmark(outcomes: Sequence[Outcome]) -> int:
    """Print the figures; return 0, or `MISSED_EXIT_CODE` if a figure misses its target."""
    for outcome in outcomes:
        target_text = "" if outcome.target is None else f", target {outcome.target:g}"
        print(
            f"{outcome.title}: {outcome.value:.4g} {outcome.unit}{target_text}: "
            f"{outcome.verdict}; {outcome.ratio:.3g} times faster than {outcome.baseline_name} "
            f"({outcome.baseline:.4g} {outcome.unit})"
        )
    print(
        f"other programs used {compute_foreign_cpu_share():.0%} of the processors "
        "during the benchmark"
    )
    results_path = os.environ.get(RESULTS_VARIABLE)
    if results_path:
        with Path(results_path).open("a", encoding="utf-8") as file:
            for outcome in outcomes:
                row = [
                    outcome.title,
                    outcome.value,
                    outcome.unit,
                    outcome.target,
                    outcome.ratio,
                    outcome.verdict,
                ]
                file.write(json.dumps(row) + "\n")
    return MISSED_EXIT_CODE if any(outcome.verdict == "MISSED" for outcome in outcomes) else 0


def compute_foreign_cpu_share() -> float:
    """Return the share of all CPU time that other programs have used since `begin_benchmark`."""
    start, start_busy_seconds, start_own_seconds = _started_at[0]
    busy_seconds, own_seconds = _read_cpu_seconds()
    available_seconds = (time.monotonic() - start) * (os.cpu_count() or 1)
    if available_seconds:
        return (
            max(0.0, (busy_seconds - start_busy_seconds) - (own_seconds - start_own_seconds))
            / available_seconds
        )
    return 0.0


def _read_cpu_seconds() -> tuple[float, float]:
    """Return the CPU seconds of all programs, and those of this process and its children."""
    process_times = os.times()
    own_seconds = (
        process_times.user
        + process_times.system
        + process_times.children_user
        + process_times.children_system
    )
    stat = Path("/proc/stat")
    if sys.platform != "linux" or not stat.exists():
        return own_seconds, own_seconds
    user, nice, system = map(int, stat.read_text("ascii").split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK"), own_seconds
