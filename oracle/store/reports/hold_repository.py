"""Reports that look wrong, and wait for a human before they are signed.

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

# How the reason begins where no quorum can be had for a report.
DISPUTED = "disagreement: "


@dataclass(frozen=True, slots=True)
class ReportHold:
    """One period's report that was held; `released_at` None: it still is. Unix seconds."""

    period: int
    reason: str
    facts: dict[str, Any]
    held_at: int
    released_at: int | None
    released_by: str | None

    @property
    def is_disputed(self) -> bool:
        """Tell whether it waits because others signed otherwise, not because it looks wrong."""
        return self.reason.startswith(DISPUTED)


class HoldRepository:
    """The table report_hold, inside one transaction; its changes are in the outbox's journal."""

    def __init__(
        self, connection: Connection, journal: Journal, reports: ReportRepository
    ) -> None:
        self._connection = connection
        self._journal = journal
        self._reports = reports

    def hold(self, period: int, why: str, facts: Mapping[str, object], stamp: Stamp) -> bool:
        """Hold a period's report; `facts` go to JSON. False: it is held, or was let go, already.

        A period that a human let go is never held again.
        """
        if self.at(period) is not None:
            return False
        text = msgspec.json.encode(dict(facts)).decode()
        row = {"period": period, "reason": why, "facts": text, "held_at": stamp.at}
        self._connection.execute(insert(report_hold).values(row))
        self._journal.write("report held", stamp, JournalSubject(), f"period {period}: {why}")
        return True

    def held(self) -> list[ReportHold]:
        """Return what waits for a human, by period."""
        chosen = select(report_hold).where(report_hold.c.released_at.is_(None))
        return [_hold_of(row) for row in self._connection.execute(chosen.order_by("period"))]

    def waiting(self) -> list[ReportHold]:
        """Return those of them that no landed report followed."""
        held = self.held()
        # Mostly there is none, and nothing else is read.
        newest = self._reports.newest_landed() if held else None
        return [hold for hold in held if newest is None or hold.period > newest]

    def is_any(self) -> bool:
        """Tell whether a report waits for a human: scores may be wrong."""
        return bool(self.waiting())

    def at(self, period: int) -> ReportHold | None:
        """Return the hold of a period, released ones too."""
        chosen = select(report_hold).where(report_hold.c.period == period)
        row = self._connection.execute(chosen).one_or_none()
        return None if row is None else _hold_of(row)

    def release(self, period: int, stamp: Stamp) -> bool:
        """Let a held report go; `stamp.actor` says who did. False: nothing of it is held."""
        opened = self._connection.execute(
            update(report_hold)
            .where(report_hold.c.period == period, report_hold.c.released_at.is_(None))
            .values(released_at=stamp.at, released_by=stamp.actor)
        )
        if opened.rowcount == 0:
            return False
        self._journal.write("hold released", stamp, JournalSubject(), f"period {period}")
        return True


def _hold_of(row: Row[Any]) -> ReportHold:
    facts = msgspec.json.decode(row.facts, type=dict[str, Any])
    return ReportHold(row.period, row.reason, facts, row.held_at, row.released_at, row.released_by)
