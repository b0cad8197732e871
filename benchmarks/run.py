"""Run all benchmarks, or the named ones, one after the other.

Run: .venv/bin/python benchmarks/run.py [--quick] [NAME ...]
Each benchmark is a script that compares the product with a simple way to do the same. `--quick`
makes the benchmarks small, as CI does. At the end, a table lists targets, figures and verdicts.
The exit code is 1 if a benchmark failed, and 3 if all succeeded but a target was missed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).resolve().parent
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(FOLDER.parent))

from benchmarks.outcome import MISSED_EXIT_CODE, RESULTS_VARIABLE, describe_machine  # noqa: E402

# Options that `--quick` adds to each benchmark. Some benchmarks are quick without any option.
QUICK_OPTIONS: dict[str, list[str]] = {
    "gas": [],
    "decode": ["--events", "10000"],
    "fold": ["--events", "30000"],
    "incidents": ["--tasks", "100000"],
    "advice": ["--nodes", "1000"],
    "insert": ["--windows", "5"],
    "writer": ["--events", "20000"],
    "backfill": ["--events", "20000", "--plain-events", "1500"],
    "verify": ["--events", "6000", "--rounds", "1"],
    "segments": ["--events", "10000"],
    "calldata": ["--rounds", "1"],
    "rollback": ["--history", "4000"],
    "selection": ["--nodes", "5000", "--more", "0"],
    "waiting": ["--nodes", "2000", "--blocks", "10"],
    "kickout_planning": ["--due", "400", "--accused", "100", "--ticks", "5"],
    "round_cut": ["--nodes", "20000"],
    "startup": ["--times", "1"],
    "latency": ["--blocks", "60"],
    "head_delays": ["--blocks", "4"],
    "parquet": ["--events", "10000"],
    "snapshots": ["--events", "8000", "--blocks", "5"],
    "rebuild": ["--events", "10000"],
    "weather": ["--history", "100", "--head", "5"],
    "gateway": ["--seconds", "4"],
    "browser_check": ["--events", "3000"],
    "pages": ["--nodes", "1000"],
    "viewers": ["--events", "8000", "--viewers", "30", "--pairs", "1"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*QUICK_OPTIONS, []])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.jsonl")
        exit_code_by_name = {
            name: run_benchmark(name, QUICK_OPTIONS[name] if arguments.quick else [], results)
            for name in arguments.names or QUICK_OPTIONS
        }
        print_table(results, exit_code_by_name)
    if any(exit_code not in {0, MISSED_EXIT_CODE} for exit_code in exit_code_by_name.values()):
        return 1
    return MISSED_EXIT_CODE if MISSED_EXIT_CODE in exit_code_by_name.values() else 0


def run_benchmark(name: str, options: Sequence[str], results: Path) -> int:
    """Run one benchmark script, and return its exit code."""
    print(f"\n== {name}", flush=True)
    return subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", *options],
        check=False,
        env={**os.environ, RESULTS_VARIABLE: str(results)},
    ).returncode


def print_table(results: Path, exit_code_by_name: dict[str, int]) -> None:
    """Print a table of all figures in `results`, and of the exit status of each script."""
    table = Table(title=f"benchmarks; {describe_machine()}")
    for title in ("benchmark", "target", "result", "unit", "speedup", "verdict"):
        table.add_column(title, justify="left" if title in {"benchmark", "verdict"} else "right")
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    for title, value, unit, target, ratio, verdict in map(json.loads, lines):
        target_text = "-" if target is None else f"{target:g}"
        table.add_row(title, target_text, f"{value:.4g}", unit, f"{ratio:.3g}", verdict)
    table.add_section()
    verdict_by_code = {0: "succeeded", MISSED_EXIT_CODE: "MISSED"}
    for name, exit_code in exit_code_by_name.items():
        table.add_row(
            f"{name}.py",
            "-",
            "-",
            "-",
            "-",
            verdict_by_code.get(exit_code, f"FAILED ({exit_code})"),
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
