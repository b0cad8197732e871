"""Stores the daemon's last health report in one row; the database measures its age."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, select, update

from oracle.domain.health import Condition, HealthFinding
from oracle.store.bulk import upsert_rows
from oracle.store.lease_repository import MS_PER_SECOND, build_now_ms_expression
from oracle.store.tables.outbox_tables import daemon_health

_ROW_ID = 1
# Maximum age of the last report. The daemon reports every few seconds, so with an older report it
# is stuck or gone.
STALE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ReportedHealth:
    """A daemon's last health report, which is `age_seconds` old.

    `process` is the daemon's name in the lease. `ended_at` is the time of its shutdown (unix
    seconds by the database's clock), or None while it runs or if it was killed. `failure` is the
    cause of the shutdown, or None if an operator stopped it.
    """

    process: str
    age_seconds: float
    reported_at: int
    findings: tuple[HealthFinding, ...]
    ended_at: int | None = None
    failure: str | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether the daemon is running and its report is recent."""
        return self.ended_at is None and self.age_seconds <= STALE_SECONDS


class HealthRepository:
    """Access to the single row of `daemon_health`.

    Only the process that holds the lease writes this row.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> ReportedHealth | None:
        """Return the last report, or None if no daemon has ever reported."""
        table = daemon_health
        query = select(table, build_now_ms_expression(self._connection).label("now_ms"))
        row = self._connection.execute(query).one_or_none()
        if row is None:
            return None
        finding_pairs = msgspec.json.decode(row.findings, type=list[tuple[str, str]])
        return ReportedHealth(
            process=row.process,
            age_seconds=(row.now_ms - row.reported_ms) / MS_PER_SECOND,
            reported_at=row.reported_ms // MS_PER_SECOND,
            # Skip unknown conditions, because a later release may define new ones.
            findings=tuple(
                HealthFinding(Condition[key.upper()], detail)
                for key, detail in finding_pairs
                if key.upper() in Condition.__members__
            ),
            ended_at=None if row.ended_ms is None else row.ended_ms // MS_PER_SECOND,
            failure=row.failure,
        )

    def save_report(self, process: str, findings: Iterable[HealthFinding]) -> None:
        """Save the health findings of a running daemon."""
        findings_json = msgspec.json.encode(
            [(finding.condition.key, finding.detail) for finding in findings]
        ).decode()
        now_value_ms = self._connection.execute(
            select(build_now_ms_expression(self._connection))
        ).scalar_one()
        upsert_rows(
            self._connection,
            daemon_health,
            [(_ROW_ID, process, now_value_ms, findings_json, None, None)],
        )

    def record_shutdown(self, process: str, failure: str | None) -> None:
        """Record the shutdown of this daemon.

        `failure` is None if an operator stopped the daemon.
        """
        is_own_row = daemon_health.c.process == process
        values = {"ended_ms": build_now_ms_expression(self._connection), "failure": failure}
        self._connection.execute(update(daemon_health).where(is_own_row).values(values))
