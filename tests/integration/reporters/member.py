"""One reporter: configuration, keys, database, listener, and its process."""

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
from tests.integration.reporters.waiting import PATIENCE_SECONDS, wait_until
from tests.support.cli.local_network import Settings, write_config

PROGRAM = ("-m", "oracle")
# Requests of the other reporters.
_SHOWN = "/v1/report"


@dataclass
class Member:
    """A reporter that is started, paused and killed by its process id; `log` is that of its last
    run.

    `peers` and everything else in `settings` may be changed while it is down.
    """

    name: str
    folder: Path
    settings: Settings
    program: Sequence[str] = PROGRAM
    python: str = sys.executable
    keys: Mapping[str, DemoKey] = field(default_factory=dict)
    is_paused: bool = False
    _process: "subprocess.Popen[bytes] | None" = None
    _runs: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.keys = self.keys or create_keys(self.folder)
        # Reserved, so that no other program gets them while the daemon is down.
        self._port_sockets = [held_port() for _ in range(2)]
        self.port, self._statements_port = (
            port_socket.getsockname()[1] for port_socket in self._port_sockets
        )

    @property
    def url(self) -> str:
        """Return the URL at which it shows its signatures, the same after every restart."""
        return f"http://127.0.0.1:{self._statements_port}"

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
        """Start the process without waiting."""
        assert not self.is_up
        self._runs += 1
        config = write_config(self._written(), self.folder / "config.toml")
        command = [self.python, "-X", "faulthandler", *self.program, "run", "--publish"]
        command += [*options, "--config", str(config)]
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)

    def _written(self) -> Settings:
        keys = {
            f"{role}_{part}": str(getattr(self.keys[role], part))
            for role in ("signer", "transmitter")
            for part in ("keystore", "password_file")
        }
        listeners = {
            # Checked as often as the machine permits.
            section: {"port": port, "requests_per_second": 10_000}
            for section, port in (("web", self.port), ("statements", self._statements_port))
        }
        return {**self.settings, "keys": keys, **listeners}

    def pause(self) -> None:
        """Suspend the process (SIGSTOP)."""
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def resume_or_restart(self) -> None:
        """Resume the process; if its lease expired meanwhile, start it again like systemd.

        The machine decides how long it was suspended by its own clock: both outcomes are right.
        """
        lease_ends = {self._lease_until()}

        def renewed_or_ended() -> bool:
            lease_ends.add(self._lease_until() or min(lease_ends))
            # A process that gives up may complete one renewal, but no other.
            return not self.is_up or len(lease_ends) > 2

        self.resume()
        wait_until(renewed_or_ended, "a renewed lease", self.tail)
        assert self._process is not None
        if self._process.poll() is not None:
            # "could not renew the lease for 20 s": a stalled leader exits.
            assert self._process.returncode == 1, self.tail()
            self.restart_after_a_kill()

    def _lease_until(self) -> int:
        """Return when its lease expires, in milliseconds of the database's clock; 0: released."""
        with Store.open(self.database) as store, store.read_transaction() as uow:
            query = text("SELECT until_ms FROM lease WHERE holder IS NOT NULL")
            return uow.lease._connection.execute(query).scalar() or 0

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process (SIGKILL), and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)

    def restart_after_a_kill(self) -> None:
        """Start it like systemd; it stands by until the lease of its last run expires.

        That is half a minute, which passes here only on the database's clock.
        """
        with Store.open(self.database) as store, store.transaction() as uow:
            uow.lease._connection.execute(text("UPDATE lease SET until_ms = 0"))
        self.start("--standby")
        self.until_started()

    def stop(self) -> int:
        """Stop it like systemd; return its exit code."""
        assert self._process is not None
        self._signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self.kill()
        for port_socket in self._port_sockets:
            port_socket.close()

    # --- its log ---

    def lines(self, event: str | None = None, **facts: Any) -> list[dict[str, Any]]:
        """Return the log lines since its last start that have these fields."""
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

    def wait_for_line(self, event: str, **facts: Any) -> dict[str, Any]:
        """Wait for its first line with these fields, and return the line."""
        self.until(lambda: self.lines(event, **facts), f"the line {event} {facts}")
        return self.lines(event, **facts)[0]

    def windows(self) -> tuple[str, ...]:
        """Return the blocks of each ingested window, in order."""
        return tuple(entry["blocks"] for entry in self.lines("step_completed", did="indexed"))

    def get(self, path: str) -> requests.Response:
        port = self._statements_port if path.startswith(_SHOWN) else self.port
        return requests.get(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_SECONDS)

    def readiness(self) -> dict[str, Any]:
        return dict(self.get("/readyz").json())

    def why_waiting(self) -> str:
        """Return why its reports wait, from `/readyz`; empty if they do not."""
        return "; ".join(
            reason for reason in self.readiness()["reasons"] if reason.startswith("HELD: ")
        )

    def statements(self, number: int) -> list[dict[str, Any]]:
        """Return the statements that it shows for a round, newest first."""
        answered = self.get(f"/v1/report/{number}")
        assert answered.status_code in {200, 404}, answered.text
        return list(answered.json()["statements"]) if answered.status_code == 200 else []

    def digests(self, number: int) -> set[str]:
        return {str(statement["digest"]) for statement in self.statements(number)}

    def signature(self, number: int) -> str:
        """Return its own signature of a round, in hex."""
        return str(self.statements(number)[0]["signature"])[2:]

    def metric(self, name: str, **labels: str) -> float:
        """Return a sample of `/metrics`; 0 if there is none yet."""
        for family in text_string_to_metric_families(self.get("/metrics").text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return 0.0

    # --- waiting ---

    def until(self, is_so: Any, what: str) -> None:
        """Wait for a condition; the process must stay alive meanwhile."""

        def looked() -> bool:
            assert self.is_up, f"{self.name} ended\n{self.tail()}"
            return bool(is_so())

        wait_until(looked, f"{what} of {self.name}", self.tail)

    def until_started(self) -> None:
        self.wait_for_line("daemon_started")

    def until_at(self, block: int) -> None:
        """Wait until it has folded a block."""
        self.until(lambda: (self.readiness()["folded"] or 0) >= block, f"block {block}")

    def until_signed(self, number: int) -> None:
        self.until(lambda: self.statements(number), f"a statement of round {number}")

    def until_counted(self, min_count: float, name: str, **labels: str) -> None:
        self.until(
            lambda: self.metric(name, **labels) >= min_count, f"{name} {labels} {min_count}"
        )

    def until_held(self, min_count: int) -> None:
        """Wait until it holds this number of reports."""
        self.until(
            lambda: len(self.lines("report_held")) >= min_count, f"{min_count} held reports"
        )

    def until_lacking_signatures(self, number: int) -> None:
        """Wait until it logs that a round lacks signatures."""
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
        """Return the reports that it cut, by period."""
        with Store.open(self.database) as store, store.read_transaction() as uow:
            return {
                stored_report.report.period: stored_report.report
                for stored_report in uow.reports.list_newest(1000)
            }

    def states(self) -> dict[int, tuple[str, str | None]]:
        """Return the state and the reason of every report, by period."""
        with Store.open(self.database) as store, store.read_transaction() as uow:
            stored_reports = uow.reports.list_newest(1000)
            return {
                stored_report.report.period: (stored_report.state.value, stored_report.reason)
                for stored_report in stored_reports
            }

    def signed(self, contract: Address, number: int) -> list[SignedStatement]:
        """Return its signatures of a round, newest first, including superseded ones."""
        with Store.open(self.database) as store, store.read_transaction() as uow:
            return uow.statements.list_for_round(contract, number)

    def intents(self) -> list[Intent]:
        """Return all its intents, oldest first."""
        with Store.open(self.database) as store, store.read_transaction() as uow:
            return uow.outbox.intents.list_newest(1000)[::-1]
