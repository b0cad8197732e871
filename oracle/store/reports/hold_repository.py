"""Reports that look wrong and are held for an operator before they are signed.

See docs/explanation/reports.md#when-to-publish.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, insert, select, update

from oracle.store.outbox.journal import Journal
from oracle.store.outbox.records import JournalSubject, Stamp
from oracle.store.reports.report_repository import ReportRepository
from oracle.store.tables.statement_tables import report_hold

# Prefix of the reason of a hold because no quorum is possible for the report.
DISPUTED_PREFIX = "disagreement: "


@dataclass(frozen=True, slots=True)
class ReportHold:
    """Hold of one period's report; `released_at` (unix seconds) is None while it is held."""

    period: int
    reason: str
    facts: dict[str, Any]
    held_at: int
    released_at: int | None
    released_by: str | None

    @property
    def is_disputed(self) -> bool:
        """Return whether the report is held because peers signed a different one."""
        return self.reason.startswith(DISPUTED_PREFIX)


class HoldRepository:
    """The table report_hold, inside one transaction; changes go to the outbox's journal."""

    def __init__(
        self, connection: Connection, journal: Journal, reports: ReportRepository
    ) -> None:
        self._connection = connection
        self._journal = journal
        self._reports = reports

    def hold(self, period: int, reason: str, facts: Mapping[str, object], stamp: Stamp) -> bool:
        """Hold a period's report, with `facts` as JSON; return False if a hold exists already.

        A period that an operator released is never held again.
        """
        if self.get(period) is not None:
            return False
        text = msgspec.json.encode(dict(facts)).decode()
        row = {"period": period, "reason": reason, "facts": text, "held_at": stamp.at}
        self._connection.execute(insert(report_hold).values(row))
        self._journal.write("report held", stamp, JournalSubject(), f"period {period}: {reason}")
        return True

    def list_held(self) -> list[ReportHold]:
        """Return the reports that are held now, by period."""
        query = select(report_hold).where(report_hold.c.released_at.is_(None))
        return [
            _decode_hold_row(row) for row in self._connection.execute(query.order_by("period"))
        ]

    def list_awaiting_operator(self) -> list[ReportHold]:
        """Return the held reports of periods after the newest landed report, by period."""
        holds = self.list_held()
        # Usually nothing is held, and no further query is needed.
        newest_landed = self._reports.get_newest_landed_period() if holds else None
        return [hold for hold in holds if newest_landed is None or hold.period > newest_landed]

    def is_awaiting_operator(self) -> bool:
        """Return whether a held report waits for an operator, so that scores may be wrong."""
        return bool(self.list_awaiting_operator())

    def get(self, period: int) -> ReportHold | None:
        """Return the hold of a period, even if released, or None."""
        query = select(report_hold).where(report_hold.c.period == period)
        row = self._connection.execute(query).one_or_none()
        return None if row is None else _decode_hold_row(row)

    def release(self, period: int, stamp: Stamp) -> bool:
        """Release a held report on behalf of `stamp.actor`; return False if it is not held."""
        result = self._connection.execute(
            update(report_hold)
            .where(report_hold.c.period == period, report_hold.c.released_at.is_(None))
            .values(released_at=stamp.at, released_by=stamp.actor)
        )
        if result.rowcount == 0:
            return False
        self._journal.write("hold released", stamp, JournalSubject(), f"period {period}")
        return True


def _decode_hold_row(row: Row[Any]) -> ReportHold:
    facts = msgspec.json.decode(row.facts, type=dict[str, Any])
    return ReportHold(row.period, row.reason, facts, row.held_at, row.released_at, row.released_by)
