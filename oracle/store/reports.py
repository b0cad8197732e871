"""The reports: one row a period, never rebuilt at another block (decision 8)."""

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection

from oracle.domain.ids import Hash
from oracle.domain.report import Report


class ReportState(StrEnum):
    DUE = "due"
    SKIPPED = "skipped"
    MISSED = "missed"
    LANDED = "landed"


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report and what became of it.

    `reason` says why it was skipped or missed. `round` and `digest` are bound when it is signed.
    """

    report: Report
    state: ReportState
    reason: str | None
    round: int | None
    digest: Hash | None


class ReportRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, report: Report) -> None:
        """Write a new report down: due, or skipped where it has nothing to send."""
        raise NotImplementedError

    def newest_period(self) -> int | None:
        """Return the highest period that has a row."""
        raise NotImplementedError

    def at(self, period: int) -> StoredReport | None:
        """Return the report of one period."""
        raise NotImplementedError

    def due(self) -> list[StoredReport]:
        """Return the reports that wait for being sent or for landing, oldest first."""
        raise NotImplementedError

    def latest(self, last: int = 20) -> list[StoredReport]:
        """Return the newest reports, oldest first."""
        raise NotImplementedError

    def above(self, block: int) -> list[StoredReport]:
        """Return the reports whose as-of block lies above `block`, oldest first."""
        raise NotImplementedError

    def bind(self, period: int, number: int, digest: Hash) -> None:
        """Write down the round that the report is signed for, and the digest signed."""
        raise NotImplementedError

    def mark(self, period: int, state: ReportState, reason: str | None = None) -> None:
        """Write down what became of a report."""
        raise NotImplementedError

    def miss_above(self, block: int, reason: str) -> int:
        """Mark due and skipped reports with an as-of block above `block` as missed.

        Landed ones are left to whoever watches their transaction. Returns how many.
        """
        raise NotImplementedError
