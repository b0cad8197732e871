"""Measure a command's start: user and system CPU seconds of complete processes.

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
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import (  # noqa: E402
    Outcome,
    begin_benchmark,
    build_command_environment,
    finish_benchmark,
)
from oracle.domain.blocks import BlockRef  # noqa: E402
from oracle.domain.ids import ZERO_HASH, Address, Hash  # noqa: E402
from oracle.domain.state import create_node  # noqa: E402
from oracle.store.database import Store  # noqa: E402

SETTINGS = """
[database]
url = "sqlite:///{database}"
[chain]
id = 31337
endpoints = ["http://127.0.0.1:1"]
[network]
contracts = {{ TaskNetwork = "0x0000000000000000000000000000000000000001" }}
"""
RUN_COMMAND = "import sys; from oracle.cli.main import main; main()"
IMPORT_ALL_COMMANDS = """
from oracle.cli.command_index import COMMANDS, load_module_commands
for command in COMMANDS.values():
    load_module_commands(command.module)
"""
NODE = Address("0x" + "0a" * 20)
TARGETS = {
    ("--version",): 0.25,
    ("nodes",): 0.6,
    ("explain", NODE): 0.6,
    ("status",): 0.6,
}


def measure_cpu_seconds(
    code: str, arguments: list[str], process_count: int, bytecode_folder: Path
) -> float:
    """Return the CPU seconds of the fastest of several processes; other programs only add time.

    The first process, which compiles the modules, never is the fastest.
    """
    environment = build_command_environment(bytecode_folder)
    min_seconds = float("inf")
    for _ in range(process_count + 1):
        times_before = os.times()
        completed_process = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            check=False,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        # `status` exits with 1 or 2 here, because no daemon holds the lease.
        if completed_process.returncode != 0 and arguments[0] != "status":
            sys.exit(f"qos-oracle {' '.join(arguments)}: exit code {completed_process.returncode}")
        times_after = os.times()
        cpu_seconds = times_after.children_user + times_after.children_system
        min_seconds = min(
            min_seconds, cpu_seconds - times_before.children_user - times_before.children_system
        )
    return min_seconds


def fill_database(store: Store) -> None:
    """Store one node and the block that was folded last."""
    with store.transaction() as uow:
        uow.nodes.save([create_node(NODE, 0, 0, 0)])
        block = BlockRef(1, Hash("0x" + "01" * 32), ZERO_HASH, 1_800_000_000)
        uow.blocks.save([block])
        uow.cursor.move_to(block, None, 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=7)
    process_count = parser.parse_args().times
    begin_benchmark(
        "the shell, the first read of the files from disk, compiling, a filled database"
    )
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.toml")
        database = Path(folder, "bench.sqlite")
        config.write_text(SETTINGS.format(database=database), "utf-8")
        with Store.open(f"sqlite:///{database}", create=True) as store:
            fill_database(store)
        for command, target in TARGETS.items():
            arguments = (
                [*command] if command[0].startswith("-") else [*command, "--config", str(config)]
            )
            cpu_seconds = measure_cpu_seconds(
                RUN_COMMAND, arguments, process_count, Path(folder, "bytecode")
            )
            baseline_seconds = measure_cpu_seconds(
                IMPORT_ALL_COMMANDS + RUN_COMMAND,
                arguments,
                max(1, process_count // 2),
                Path(folder, "bytecode"),
            )
            outcomes.append(
                Outcome(
                    f"qos-oracle {command[0]}",
                    cpu_seconds,
                    "s CPU",
                    target,
                    baseline_seconds,
                    "importing all commands",
                )
            )
    return finish_benchmark(outcomes)


if __name__ == "__main__":
    sys.exit(main())
