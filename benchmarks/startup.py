"""Measure the start of a command: user and system CPU seconds of complete processes.

Run: .venv/bin/python benchmarks/startup.py [--times 7]
The baseline has one list of imports, so every command imports the modules of all commands. It is
simulated by a process that first imports all of these modules and then runs the same command.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin, end  # noqa: E402
from oracle.store.database import Store  # noqa: E402

SETTINGS = """
[database]
url = "sqlite:///{file}"
[chain]
id = 31337
endpoints = ["http://127.0.0.1:1"]
[network]
contracts = {{ TaskNetwork = "0x0000000000000000000000000000000000000001" }}
"""
OURS = "import sys; from oracle.cli.main import main; main()"
OBVIOUS = """
from oracle.cli.command_index import COMMANDS, load_commands
for modules in COMMANDS.values():
    load_commands(modules)
"""
TARGETS = {"--version": 0.25, "nodes": 0.6}


def seconds(code: str, arguments: list[str], times: int) -> float:
    """Return the CPU seconds of the fastest of several processes; other programs only add time."""
    min_seconds = float("inf")
    for _ in range(times):
        before = os.times()
        subprocess.run(
            [sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL
        )
        after = os.times()
        used = after.children_user + after.children_system
        min_seconds = min(min_seconds, used - before.children_user - before.children_system)
    return min_seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=7)
    times = parser.parse_args().times
    begin("the shell, the first read of the files from disk, writing bytecode, a filled database")
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        config, file = Path(folder, "config.toml"), Path(folder, "bench.sqlite")
        config.write_text(SETTINGS.format(file=file), "utf-8")
        with Store.open(f"sqlite:///{file}", create=True):
            pass
        for command, target in TARGETS.items():
            arguments = (
                [command] if command.startswith("-") else [command, "--config", str(config)]
            )
            cpu_seconds = seconds(OURS, arguments, times)
            obvious = seconds(OBVIOUS + OURS, arguments, max(1, times // 2))
            outcomes.append(
                Outcome(
                    f"qos-oracle {command}",
                    cpu_seconds,
                    "s CPU",
                    target,
                    obvious,
                    "importing all commands",
                )
            )
    return end(outcomes)


if __name__ == "__main__":
    sys.exit(main())
