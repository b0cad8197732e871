"""Indexers in separate processes, which a test kills at chosen points."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Life:
    """One process: where it was killed, or the points that it passed and its steps."""

    died_at: str | None
    points: list[str]
    steps: list[str]


@dataclass
class Nursery:
    """Forks one indexer after another."""

    process: "subprocess.Popen[str]"

    def index(self, urls: Sequence[str], url: str, die_at: int | str | None = None) -> Life:
        """Index the chain behind `urls` into the database.

        `die_at`: before its n-th point, from 0, or before the first point of this name.

        `die_at`: before its n-th point, from 0, or before the first point of this name.
        """
        return self._do({"deed": "index", "urls": list(urls), "url": url, "die_at": die_at})

    def migrate(self, url: str, die_at: int | None = None, migrations: Path | None = None) -> Life:
        """Migrate the schema, with `migrations` of a later release; die before a statement."""
        where = None if migrations is None else str(migrations)
        return self._do({"deed": "migrate", "url": url, "die_at": die_at, "migrations": where})

    def _do(self, job: dict[str, object]) -> Life:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        response: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "fault" not in response, response["fault"]
        # A child with a `die_at` died there and for no other reason; the others
        # succeeded.
        assert (response["killed_by"] == signal.SIGKILL) == ("died_at" in response), response
        assert response["killed_by"] in {None, signal.SIGKILL}, response
        return Life(response.get("died_at"), response.get("points", []), response.get("steps", []))


@contextmanager
def nursery() -> Iterator[Nursery]:
    """Yield a nursery within the context."""
    command = [sys.executable, "-m", "tests.properties.machine.nursery"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Nursery(process)
        finally:
            process.kill()
