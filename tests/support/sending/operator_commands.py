"""Runs an operator's commands on the database of a harness whose daemon has stopped."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oracle.cli.main import run
from tests.support.cli.local_network import Settings, write_config
from tests.support.harness import CHAIN_ID, FINALITY, SETTINGS, Harness


@dataclass(frozen=True)
class CommandOutput:
    """The output of a command: its exit code, its JSON if there is any, and its error."""

    code: int
    answer: dict[str, Any]
    complaint: str

    @property
    def promise(self) -> dict[str, Any]:
        """The output without the parts that differ between a dry run and a real run."""
        return {k: v for k, v in self.answer.items() if k not in {"dry_run", "detail", "steps"}}


@dataclass
class Operator:
    """Runs commands on the harness's database; `urls` are the configured endpoints."""

    harness: Harness
    database: Path
    folder: Path
    capsys: pytest.CaptureFixture[str]
    urls: Sequence[str] = ()

    def settings(self) -> Settings:
        harness, keys = self.harness, self.harness.testbed.key_folder
        return {
            "database": {"url": f"sqlite:///{self.database}"},
            "chain": {
                "id": CHAIN_ID,
                "endpoints": list(self.urls or [harness.testbed.chain.url]),
                "finality_depth": FINALITY,
            },
            "network": {"contracts": {"TaskNetwork": harness.testbed.network.contract.address}},
            "oracle": {
                "address": harness.testbed.address,
                "heartbeat_seconds": SETTINGS.heartbeat_seconds,
                "evidence_folder": str(self.folder / "by-hand"),
            },
            "keys": {
                f"{role}_{part}": str(keys / f"{role}.{ending}")
                for role in ("signer", "transmitter")
                for part, ending in (("keystore", "json"), ("password_file", "password"))
            },
            "limits": {
                "max_fee_per_gas_wei": harness.caps.fee_per_gas,
                "max_cost_per_transaction_wei": harness.caps.cost_per_transaction,
                "max_cost_per_day_wei": harness.caps.cost_per_day,
            },
        }

    def release_lease(self) -> None:
        """Release the daemon's lease, so that another process can use the database."""
        with self.harness.store.transaction() as uow:
            uow.lease.release(self.harness.epoch)

    def does(self, *arguments: object) -> CommandOutput:
        config = write_config(self.settings(), self.folder / "by-hand.toml")
        self.capsys.readouterr()
        code = run([*map(str, arguments), "--json", "--config", str(config)])
        captured = self.capsys.readouterr()
        return CommandOutput(code, json.loads(captured.out) if captured.out else {}, captured.err)

    def rows(self) -> list[str]:
        """Return all rows of the database."""
        return list_database_rows(f"sqlite:///{self.database}")


def list_database_rows(url: str) -> list[str]:
    """Return all rows of a SQLite database."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return list(connection.iterdump())
