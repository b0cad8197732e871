"""Indexers in processes of their own, killed where a test wants it."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Life:
    """One process: what killed it and where, or the points that it came through and its steps."""

    died_at: str | None
    points: list[str]
    steps: list[str]


@dataclass
class Nursery:
    """Forks one indexer after another."""

    process: "subprocess.Popen[str]"

    def live(self, urls: Sequence[str], url: str, die_at: int | None = None) -> Life:
        """Index the chain behind `urls` into the database; die before its n-th point, from 0."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        job = {"urls": list(urls), "url": url, "die_at": die_at}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "fault" not in told, told["fault"]
        # Whoever says where it dies died there, by nothing else; the others ended well.
        assert (told["killed_by"] == signal.SIGKILL) == ("died_at" in told), told
        assert told["killed_by"] in {None, signal.SIGKILL}, told
        return Life(told.get("died_at"), told.get("points", []), told.get("steps", []))


@contextmanager
def nursery() -> Iterator[Nursery]:
    """One nursery, until the block ends."""
    command = [sys.executable, "-m", "tests.machine.nursery"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Nursery(process)
        finally:
            process.kill()
