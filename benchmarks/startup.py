"""What it costs to start a command: CPU seconds of whole processes, user and system.

Run: .venv/bin/python benchmarks/startup.py [--times 7]
The obvious way is one list of imports: every command pays for all of them. It is played by a
process that imports every command's module and then asks for the same.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A checkout that is not installed runs it too; so the imports below cannot stand above (E402).
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
    """Return the least CPU seconds of so many processes: what others disturb only adds."""
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
    begin("the shell, the disk's first read of the files, writing bytecode; an empty database")
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
                    f"qos-oracle {command}", cpu_seconds, "s CPU", target, obvious, "all imports"
                )
            )
    return end(outcomes)


if __name__ == "__main__":
    sys.exit(main())
