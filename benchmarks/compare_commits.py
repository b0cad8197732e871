"""Compare the command `run --once` with the same command of an earlier commit.

Run: .venv/bin/python benchmarks/compare_commits.py [--commit 5e8f326] [--events N] [--pairs 3]
The earlier commit is checked out and installed under build/ once. Both commits index the same
valid blocks into new databases, in turn, with every proof and without proofs; all other settings
have their defaults.
The time is that of the complete process. A separate process serves the chain and uses part of the
same CPU cores.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

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
from benchmarks.segments import CHAIN_ID  # noqa: E402
from benchmarks.verify import serve_valid_chain  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

NOT_MEASURED = "the network; memory"
TARGET_EVENTS = 200_000
# The last commit before worker processes prepared the history.
BASELINE_COMMIT = "5e8f326"


class Mode(NamedTuple):
    """The settings and the target of a measured run.

    `verify_section` is the section `[verify]` of its configuration. `min_speedup` is the target.
    """

    name: str
    verify_section: str
    min_speedup: float


MODES = (
    Mode("every proof", "", 2.0),
    Mode("no proof", '[verify]\nhead = "seamed"\nhistory = "seamed"\nreceipts = false\n', 1.6),
)


def install_commit(commit: str) -> Path:
    """Install a commit under build/ if necessary, and return the path of its Python."""
    folder = ROOT / "build" / "beside" / commit
    python = folder / ".venv" / "bin" / "python"
    if not (folder / "installed").exists():
        print(f"installing {commit} into {folder.relative_to(ROOT)}", flush=True)
        if not folder.exists():
            add_worktree = ["git", "worktree", "add", "--detach", str(folder), commit]
            subprocess.run(add_worktree, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-m", "venv", folder / ".venv"], check=True)
        subprocess.run(
            [python, "-m", "pip", "-q", "install", "-e", folder],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        (folder / "installed").touch()
    return python


def index_chain(python: Path, chain_url: str, mode: Mode) -> tuple[float, int]:
    """Index the complete chain into a new database; return the seconds and the event count."""
    with tempfile.TemporaryDirectory() as folder_name:
        config = Path(folder_name, "config.toml")
        config.touch(0o600)
        config.write_text(
            f'[database]\nurl = "sqlite:///{folder_name}/oracle.db"\n'
            f'[chain]\nid = {CHAIN_ID}\nendpoints = ["{chain_url}"]\n'
            f'[network]\ncontracts = {{ TaskNetwork = "{NETWORK}" }}\n{mode.verify_section}',
            "utf-8",
        )
        command: list[str | Path] = [python, "-m", "oracle", "run", "--once", "--config", config]
        start = time.perf_counter()
        environment = build_command_environment(ROOT / "build" / "beside" / "bytecode")
        completed_process = subprocess.run(
            command,
            cwd=folder_name,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        elapsed_seconds = time.perf_counter() - start
        assert completed_process.returncode == 0, (
            completed_process.stdout + completed_process.stderr
        )
        return elapsed_seconds, count_stored_events(python, config)


def count_stored_events(python: Path, config: Path) -> int:
    """Return the number of stored events.

    The `export` command of the commit counts them, because tables have other names in other
    commits.
    """
    command: list[str | Path] = [python, "-m", "oracle", "export", "--config", config]
    with subprocess.Popen(command, cwd=config.parent, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        return sum(1 for _ in process.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", default=BASELINE_COMMIT)
    parser.add_argument("--events", type=int, default=TARGET_EVENTS)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    other_python = install_commit(arguments.commit)
    begin_benchmark(NOT_MEASURED)
    outcomes = []
    with serve_valid_chain(arguments.events) as chain_url:
        for mode in MODES:
            microseconds_by_python: dict[Path, list[float]] = {
                other_python: [],
                Path(sys.executable): [],
            }
            counts = set()
            for _ in range(arguments.pairs):
                for python, microseconds in microseconds_by_python.items():
                    seconds, count = index_chain(python, chain_url, mode)
                    counts.add(count)
                    microseconds.append(1e6 * seconds / count)
                    commit_name = "this checkout" if python != other_python else arguments.commit
                    print(
                        f"{mode.name}, {commit_name}: {count / seconds:,.0f} events/s", flush=True
                    )
            assert len(counts) == 1, "the commits stored different numbers of events"
            other_microseconds, microseconds_here = (
                statistics.median(microseconds) for microseconds in microseconds_by_python.values()
            )
            target_size = "" if arguments.events >= TARGET_EVENTS else f"{TARGET_EVENTS:,} events"
            title = f"run --once, {mode.name}"
            outcomes.append(
                Outcome(
                    title,
                    microseconds_here,
                    "µs/event",
                    other_microseconds / mode.min_speedup,
                    other_microseconds,
                    arguments.commit,
                    target_size,
                )
            )
    return finish_benchmark(outcomes)


if __name__ == "__main__":
    sys.exit(main())
