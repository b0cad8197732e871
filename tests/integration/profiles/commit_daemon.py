"""Lets the daemon index a network with commit and disclosure, and reads its database."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oracle.cli.main import run
from tests.integration.profiles.commit_network import CHAIN_ID, CommitNetwork
from tests.support.cli.local_network import write_config

Row = dict[str, Any]
# What `tests.integration.profiles.commit_reference` counts with.
LEGACY = {
    "vram_weight": "0.25",
    "timeout_weight": "0.25",
    "speed_weight": "0.5",
    "least_timeout_seconds": 60,
    "kickout_below": "7",
    "kickout_tasks": 3,
}


@dataclass
class CommitDaemon:
    """A daemon that starts, catches up and exits, as often as requested."""

    network: CommitNetwork
    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def config(self) -> str:
        url = self.network.chain.url
        settings: dict[str, dict[str, Any]] = {
            "database": {"url": f"sqlite:///{self.database}"},
            "chain": {
                "id": CHAIN_ID,
                # Two names of one node, because a fork needs two endpoints that report it.
                "endpoints": [url, url.replace("127.0.0.1", "localhost")],
                "providers": {"localhost": "second"},
                "finality_depth": 4,
            },
            "network": {"profile": "crynux-commit", "contracts": self.network.contracts},
            "rules": {"set": "legacy", "change": {"legacy": LEGACY}},
            "log": {"format": "json"},
        }
        return str(write_config(settings, self.folder / "config.toml"))

    @property
    def database(self) -> Path:
        return self.folder / "oracle.sqlite"

    def catch_up(self) -> None:
        """Index to the head."""
        assert run(["run", "--once", "--config", self.config]) == 0
        self.capsys.readouterr()

    def read_output(self, *command: str) -> str:
        """Return the output of a command."""
        self.capsys.readouterr()
        assert run([*command, "--config", self.config]) == 0
        return self.capsys.readouterr().out

    def rows(self, table: str) -> list[Row]:
        with closing(sqlite3.connect(self.database)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]  # noqa: S608 - our own names

    def events(self) -> list[Row]:
        """Return all events of the chain, as `export` writes them."""
        return [json.loads(line) for line in self.read_output("export").splitlines()]
