"""The daemon's last reported health, in one row; its age follows the database's clock."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, select, update

from oracle.domain.health import Condition, HealthFinding
from oracle.store.bulk import upsert
from oracle.store.ops.database_clock import now_ms
from oracle.store.tables.outbox_tables import daemon_health

_ROW = 1
_SECOND = 1000
# An older report means that the daemon is stuck or gone: it reports every few seconds.
STALE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ReportedHealth:
    """The last health report of a daemon, `age_seconds` ago.

    `process` is the name in the lease. `ended_at` is the time of its shutdown (unix seconds of the
    database), or None while it runs or if it was killed. `failure` is the cause of the shutdown,
    or None if an operator stopped it.
    """

    process: str
    age_seconds: float
    reported_at: int
    findings: tuple[HealthFinding, ...]
    ended_at: int | None = None
    failure: str | None = None

    @property
    def is_fresh(self) -> bool:
        """Return whether the report is recent enough to describe the present."""
        return self.ended_at is None and self.age_seconds <= STALE_SECONDS


class HealthRepository:
    """The one row of `daemon_health`; only the process that holds the lease writes it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> ReportedHealth | None:
        """Return the last report, or None if no daemon ever reported."""
        table = daemon_health
        columns = select(table, now_ms(self._connection).label("now_ms"))
        row = self._connection.execute(columns).one_or_none()
        if row is None:
            return None
        pairs = msgspec.json.decode(row.findings, type=list[tuple[str, str]])
        return ReportedHealth(
            process=row.process,
            age_seconds=(row.now_ms - row.beaten_ms) / _SECOND,
            reported_at=row.beaten_ms // _SECOND,
            # A later release may define more conditions than this one.
            findings=tuple(
                HealthFinding(Condition[key.upper()], detail)
                for key, detail in pairs
                if key.upper() in Condition.__members__
            ),
            ended_at=None if row.ended_ms is None else row.ended_ms // _SECOND,
            failure=row.failure,
        )

    def report(self, process: str, findings: Iterable[HealthFinding]) -> None:
        """Save the findings of a running daemon about itself."""
        text = msgspec.json.encode([(one.condition.key, one.detail) for one in findings]).decode()
        now = self._connection.execute(select(now_ms(self._connection))).scalar_one()
        upsert(self._connection, daemon_health, [(_ROW, process, now, text, None, None)])

    def end(self, process: str, failure: str | None) -> None:
        """Record that this daemon ended, and the failure, or None if an operator stopped it."""
        mine = daemon_health.c.process == process
        ended = {"ended_ms": now_ms(self._connection), "failure": failure}
        self._connection.execute(update(daemon_health).where(mine).values(ended))
