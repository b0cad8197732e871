"""Compare the command `run --once` with the same command of an earlier commit.

Run: .venv/bin/python benchmarks/beside_commit.py [--commit 5e8f326] [--events 200000] [--pairs 3]
The earlier commit is checked out and installed under build/ once. Both index the same valid blocks
into new databases, in turn, with default settings: once with every proof, and once without proofs.
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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin, end  # noqa: E402
from benchmarks.segments import CHAIN_ID  # noqa: E402
from benchmarks.verify import served  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

LEAVES_OUT = "the network; memory"
EVENTS = 200_000
# The last commit before workers prepared the history.
COMMIT = "5e8f326"


class Way(NamedTuple):
    """A kind of run.

    `verify` is the section `[verify]` of its configuration, and `times` the target speedup.
    """

    name: str
    verify: str
    times: float


WAYS = (
    Way("every proof", "", 2.0),
    Way("no proof", '[verify]\nhead = "seamed"\nhistory = "seamed"\nreceipts = false\n', 1.6),
)


def installed(commit: str) -> Path:
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


def indexed(python: Path, chain: str, mode: Way) -> tuple[float, int]:
    """Index the complete chain into a new database; return the seconds and the event count."""
    with tempfile.TemporaryDirectory() as folder_name:
        config = Path(folder_name, "config.toml")
        config.touch(0o600)
        config.write_text(
            f'[database]\nurl = "sqlite:///{folder_name}/oracle.db"\n'
            f'[chain]\nid = {CHAIN_ID}\nendpoints = ["{chain}"]\n'
            f'[network]\ncontracts = {{ TaskNetwork = "{NETWORK}" }}\n{mode.verify}',
            "utf-8",
        )
        command: list[str | Path] = [python, "-m", "oracle", "run", "--once", "--config", config]
        began = time.perf_counter()
        ended = subprocess.run(
            command, cwd=folder_name, capture_output=True, text=True, check=False
        )
        took = time.perf_counter() - began
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return took, stored(python, config)


def stored(python: Path, config: Path) -> int:
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
    parser.add_argument("--commit", default=COMMIT)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    other_python = installed(arguments.commit)
    begin(LEAVES_OUT)
    outcomes = []
    with served(arguments.events) as chain:
        for mode in WAYS:
            figures_by_python: dict[Path, list[float]] = {
                other_python: [],
                Path(sys.executable): [],
            }
            counts = set()
            for _ in range(arguments.pairs):
                for python, figures in figures_by_python.items():
                    seconds, count = indexed(python, chain, mode)
                    counts.add(count)
                    figures.append(1e6 * seconds / count)
                    name = "this checkout" if python != other_python else arguments.commit
                    print(f"{mode.name}, {name}: {count / seconds:,.0f} events/s", flush=True)
            assert len(counts) == 1, "the commits stored different numbers of events"
            baseline, measured = (
                statistics.median(figures) for figures in figures_by_python.values()
            )
            size = "" if arguments.events >= EVENTS else f"{EVENTS:,} events"
            what = f"run --once, {mode.name}"
            outcomes.append(
                Outcome(
                    what,
                    measured,
                    "µs/event",
                    baseline / mode.times,
                    baseline,
                    arguments.commit,
                    size,
                )
            )
    return end(outcomes)


if __name__ == "__main__":
    sys.exit(main())
