"""Runs the benchmarks one after the other: all of them, or those named.

Run: .venv/bin/python benchmarks/run.py [--quick] [NAME ...]
Each is a script of its own that compares us with the obvious way in one run; `--quick` makes them
small, as CI does. Exit code: 1 where one failed, 3 where all worked and one was too slow.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The exit code of a script that worked and was too slow.
MISSED = 3
# What `--quick` adds to each; nothing where it is quick anyway.
QUICK: dict[str, list[str]] = {
    "gas": [],
    "decode": ["--events", "10000"],
    "fold": ["--events", "100000"],
    "insert": ["--windows", "15"],
    "writer": ["--events", "20000"],
    "backfill": ["--events", "60000", "--plain-events", "4000"],
    "verify": ["--events", "10000", "--rounds", "2"],
    "calldata": ["--rounds", "1"],
    "rollback": ["--history", "10000"],
    "selection": ["--nodes", "20000"],
    "latency": ["--blocks", "60"],
    "weather": ["--history", "300", "--head", "12"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*QUICK, []])
    asked = parser.parse_args()
    failed, missed = [], []
    for name in asked.names or QUICK:
        print(f"\n== {name}", flush=True)
        options = QUICK[name] if asked.quick else []
        done = subprocess.run([sys.executable, HERE / f"{name}.py", *options], check=False)
        if done.returncode:
            (missed if done.returncode == MISSED else failed).append(name)
    if missed:
        print(f"\nmissed its target: {', '.join(missed)}")
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
        return 1
    return MISSED if missed else 0


if __name__ == "__main__":
    sys.exit(main())
