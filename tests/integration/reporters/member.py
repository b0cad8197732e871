"""One reporter: configuration, keys, database, door, and the process that works with them."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from devnet.demo.show import DemoKey, create_keys
from oracle.domain.ids import Address
from oracle.domain.reports.report import Report
from oracle.store.database import Store
from oracle.store.outbox.records import Intent, SignedStatement
from oracle.telemetry.log_events import LOG_EVENTS
from tests.integration.reporters.held_ports import held_port
from tests.integration.reporters.waiting import PATIENCE_SECONDS, until
from tests.support.cli.local_network import Settings, write_config

PROGRAM = ("-m", "oracle")
# Requests of the other reporters.
_SHOWN = "/v1/report"


@dataclass
class Member:
    """A reporter that is started, paused and killed by its process's id; `log` is of its last run.

    `peers` and everything else in `settings` may be changed while it is down.
    """

    name: str
    folder: Path
    settings: Settings
    program: Sequence[str] = PROGRAM
    keys: Mapping[str, DemoKey] = field(default_factory=dict)
    is_paused: bool = False
    _process: "subprocess.Popen[bytes] | None" = None
    _runs: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.keys = self.keys or create_keys(self.folder)
        # Reserved, so that no other program gets them while the daemon is down.
        self._doors = [held_port() for _ in range(2)]
        self.port, self._shows_at = (door.getsockname()[1] for door in self._doors)

    @property
    def url(self) -> str:
        """Where it shows the others what it signed, in every one of its lives."""
        return f"http://127.0.0.1:{self._shows_at}"

    @property
    def signer(self) -> Address:
        return self.keys["signer"].address

    @property
    def transmitter(self) -> Address:
        return self.keys["transmitter"].address

    # --- the process ---

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        return self.folder / f"run{self._runs}.log"

    def start(self, *options: str) -> None:
        """Start it, and do not wait."""
        assert not self.is_up
        self._runs += 1
        config = write_config(self._written(), self.folder / "config.toml")
        command = [sys.executable, "-X", "faulthandler", *self.program, "run", "--publish"]
        command += [*options, "--config", str(config)]
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)

    def _written(self) -> Settings:
        keys = {
            f"{role}_{part}": str(getattr(self.keys[role], part))
            for role in ("signer", "transmitter")
            for part in ("keystore", "password_file")
        }
        doors = {
            # Checked as often as the machine permits.
            section: {"port": port, "requests_per_second": 10_000}
            for section, port in (("web", self.port), ("statements", self._shows_at))
        }
        return {**self.settings, "keys": keys, **doors}

    def pause(self) -> None:
        """Let it stand still where it is, as on a machine that is suspended."""
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def resume_or_restart(self) -> None:
        """Let it go on; where its lease ran out while it stood, systemd starts it again.

        How long it stood in its own time is for the machine to say: both are right.
        """
        lease_ends = {self._lease_until()}

        def renewed_or_ended() -> bool:
            lease_ends.add(self._lease_until() or min(lease_ends))
            # One that gives up may have one renewal on its way; it does no other.
            return not self.is_up or len(lease_ends) > 2

        self.resume()
        until(renewed_or_ended, "a renewed lease", self.tail)
        assert self._process is not None
        if self._process.poll() is not None:
            # "could not renew the lease for 20 s": a stalled leader ends by itself.
            assert self._process.returncode == 1, self.tail()
            self.restart_after_a_kill()

    def _lease_until(self) -> int:
        """When its lease is over, in milliseconds of the database's clock; 0: given back."""
        with Store.open(self.database) as store, store.read_transaction() as uow:
            query = text("SELECT until_ms FROM lease WHERE holder IS NOT NULL")
            return uow.lease._connection.execute(query).scalar() or 0

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Let it die at once, as by `kill -9`; nothing of it is left when this returns."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)

    def restart_after_a_kill(self) -> None:
        """Start it as systemd does, standing by until the lease of its last life is over.

        That is half a minute, which passes here on the database's clock alone.
        """
        with Store.open(self.database) as store, store.transaction() as uow:
            uow.lease._connection.execute(text("UPDATE lease SET until_ms = 0"))
        self.start("--standby")
        self.until_started()

    def stop(self) -> int:
        """End it as systemd does; its exit code."""
        assert self._process is not None
        self._signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self.kill()
        for door in self._doors:
            door.close()

    # --- its log ---

    def lines(self, event: str | None = None, **facts: Any) -> list[dict[str, Any]]:
        """Its log since it was started last, one document a line; those with these facts."""
        assert event is None or event in LOG_EVENTS
        if not self.log.exists():
            return []
        # The line that is being written is incomplete.
        written = self.log.read_text("utf-8", errors="replace").split("\n")[:-1]
        entries = [json.loads(line) for line in written if line.startswith("{")]
        return [
            entry
            for entry in entries
            if (event is None or entry["event"] == event) and facts.items() <= entry.items()
        ]

    def until_said(self, event: str, **facts: Any) -> dict[str, Any]:
        """Its first line with these facts, waited for."""
        self.until(lambda: self.lines(event, **facts), f"the line {event} {facts}")
        return self.lines(event, **facts)[0]

    def windows(self) -> tuple[str, ...]:
        """The blocks that it took in at once, in order."""
        return tuple(entry["blocks"] for entry in self.lines("step_completed", did="indexed"))

    def get(self, path: str) -> requests.Response:
        port = self._shows_at if path.startswith(_SHOWN) else self.port
        return requests.get(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_SECONDS)

    def readiness(self) -> dict[str, Any]:
        return dict(self.get("/readyz").json())

    def why_waiting(self) -> str:
        """Why its reports wait, as `/readyz` has it; empty: they do not."""
        return "; ".join(
            reason for reason in self.readiness()["reasons"] if reason.startswith("HELD: ")
        )

    def statements(self, number: int) -> list[dict[str, Any]]:
        """What it shows for a round, the newest first; nothing where it shows nothing."""
        answered = self.get(f"/v1/report/{number}")
        assert answered.status_code in {200, 404}, answered.text
        return list(answered.json()["statements"]) if answered.status_code == 200 else []

    def digests(self, number: int) -> set[str]:
        return {str(statement["digest"]) for statement in self.statements(number)}

    def signature(self, number: int) -> str:
        """Its own for a round, in hex."""
        return str(self.statements(number)[0]["signature"])[2:]

    def metric(self, name: str, **labels: str) -> float:
        """A sample of `/metrics`; 0 where there is none yet."""
        for family in text_string_to_metric_families(self.get("/metrics").text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return 0.0

    # --- waiting ---

    def until(self, is_so: Any, what: str) -> None:
        """Wait for something of its own; it has to live meanwhile."""

        def looked() -> bool:
            assert self.is_up, f"{self.name} ended\n{self.tail()}"
            return bool(is_so())

        until(looked, f"{what} of {self.name}", self.tail)

    def until_started(self) -> None:
        self.until_said("daemon_started")

    def until_at(self, block: int) -> None:
        """It has folded a block."""
        self.until(lambda: (self.readiness()["folded"] or 0) >= block, f"block {block}")

    def until_signed(self, number: int) -> None:
        self.until(lambda: self.statements(number), f"a statement of round {number}")

    def until_counted(self, min_count: float, name: str, **labels: str) -> None:
        self.until(
            lambda: self.metric(name, **labels) >= min_count, f"{name} {labels} {min_count}"
        )

    def until_held(self, min_count: int) -> None:
        """It has held so many reports."""
        self.until(
            lambda: len(self.lines("report_held")) >= min_count, f"{min_count} held reports"
        )

    def until_told_to_wait(self, number: int) -> None:
        """It says that it has too few signatures for a round."""
        self.until(
            lambda: any(
                f"round {number} " in line["reason"] for line in self.lines("report_deferred")
            ),
            f"word that round {number} waits",
        )

    def until_ready(self) -> None:
        self.until(lambda: self.get("/readyz").status_code == 200, "200 at /readyz")

    def tail(self) -> str:
        """Return the end of the log, for a failed test."""
        last_lines = self.log.read_text("utf-8").splitlines()[-25:] if self.log.exists() else []
        return "\n".join([f"--- {self.name}, up: {self.is_up}", *last_lines])

    # --- its database ---

    @property
    def database(self) -> str:
        return str(self.settings["database"]["url"])

    def reports(self) -> dict[int, Report]:
        """Every report that it cut, by period."""
        with Store.open(self.database) as store, store.read_transaction() as uow:
            return {
                stored_report.report.period: stored_report.report
                for stored_report in uow.reports.list_latest(1000)
            }

    def states(self) -> dict[int, tuple[str, str | None]]:
        """What became of every report, by period: its state, and why."""
        with Store.open(self.database) as store, store.read_transaction() as uow:
            stored_reports = uow.reports.list_latest(1000)
            return {
                stored_report.report.period: (stored_report.state.value, stored_report.reason)
                for stored_report in stored_reports
            }

    def signed(self, contract: Address, number: int) -> list[SignedStatement]:
        """What it signed for a round, the newest first, buried ones too."""
        with Store.open(self.database) as store, store.read_transaction() as uow:
            return uow.statements.list_for_round(contract, number)

    def intents(self) -> list[Intent]:
        """Everything that it wanted to send, oldest first."""
        with Store.open(self.database) as store, store.read_transaction() as uow:
            return uow.outbox.intents.list_newest(1000)[::-1]
