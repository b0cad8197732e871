"""Stores reports, one for each period, and holds of reports that may be wrong.

A stored report is never built again as of another block
(docs/explanation/reports.md#cut-at-period-end). A held report is not signed until an operator
releases it (docs/explanation/reports.md#when-to-publish).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.domain.reports.report import Report, ReportChange
from oracle.domain.reports.round_schedule import ReportHeader
from oracle.store.bookmarks import Bookmarks
from oracle.store.bulk import upsert_rows
from oracle.store.encoding import decode_hex, encode_hex
from oracle.store.outbox.journal import Journal
from oracle.store.outbox.records import Stamp
from oracle.store.tables.round_tables import report
from oracle.store.tables.statement_tables import report_hold

# First period from which on no report is missing. Earlier periods ended during the backfill.
_COMPLETE_FROM_BOOKMARK = "reports_complete_from"


# Reason for which a report was not sent although nothing is wrong. Another round was accepted
# before it.
SUPERSEDED_REASON = "another round came before it"


_REPORTS_BETWEEN = (
    select(report)
    .where(report.c.as_of_number.between(bindparam("first_block"), bindparam("last_block")))
    .order_by(report.c.period)
)


class ReportState(StrEnum):
    DUE = "due"
    SKIPPED = "skipped"
    MISSED = "missed"
    LANDED = "landed"


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report and its outcome.

    `reason` is why the report was skipped or missed. `round` and `digest` are set when the report
    is signed.
    """

    report: Report
    state: ReportState
    reason: str | None
    round: int | None
    digest: Hash | None

    @property
    def outcome(self) -> str:
        """The state, or `superseded` if another round was accepted first.

        A superseded report is no failure, because the next report contains all of its changes
        (docs/explanation/reports.md#cut-at-period-end).
        """
        is_superseded = self.state is ReportState.MISSED and self.reason == SUPERSEDED_REASON
        return "superseded" if is_superseded else self.state.value


class StoredReportHeader(NamedTuple):
    """The period, the blocks and the outcome of a report, without its content."""

    header: ReportHeader
    state: ReportState
    round: int | None
    digest: Hash | None


class ReportRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bookmarks = Bookmarks(connection)

    def add(self, new_report: Report) -> None:
        """Insert a new report, which is due or skipped.

        A report is skipped if too little has changed.
        """
        self._connection.execute(
            insert(report).values(
                period=new_report.period,
                as_of_number=new_report.as_of.number,
                as_of_hash=decode_hex(new_report.as_of.hash),
                as_of_parent=decode_hex(new_report.as_of.parent_hash),
                as_of_time=new_report.as_of.time,
                head_round=new_report.head_round,
                prev=decode_hex(new_report.prev),
                deadline=new_report.deadline,
                root=decode_hex(new_report.root),
                changed_nodes=new_report.change.node_count,
                changed_steps=new_report.change.steps,
                max_changed_steps=new_report.change.max_steps,
                crosses_band=new_report.change.crosses_band,
                fingerprint=decode_hex(new_report.fingerprint),
                state=ReportState.DUE if new_report.is_due else ReportState.SKIPPED,
                reason=None if new_report.is_due else "too little has changed",
            )
        )

    def find_newest_period(self) -> int | None:
        """Return the highest stored period, or None if there is none."""
        newest_query = select(report.c.period).order_by(report.c.period.desc()).limit(1)
        return self._connection.execute(newest_query).scalar_one_or_none()

    def find_newest_landed_period(self) -> int | None:
        """Return the highest period with an accepted report, or None if there is none."""
        landed_query = select(report.c.period).where(report.c.state == ReportState.LANDED)
        newest_query = landed_query.order_by(report.c.period.desc()).limit(1)
        return self._connection.execute(newest_query).scalar_one_or_none()

    def find_first_due_period(self) -> int | None:
        """Return the lowest period whose report is due, or None if there is none.

        A due report is still to be sent or accepted.
        """
        due_query = select(report.c.period).where(report.c.state == ReportState.DUE)
        lowest_query = due_query.order_by(report.c.period).limit(1)
        return self._connection.execute(lowest_query).scalar_one_or_none()

    def get(self, period: int) -> StoredReport | None:
        reports = self._select_reports(report.c.period == period)
        return reports[0] if reports else None

    def list_due(self) -> list[StoredReport]:
        """Return the reports that are due, oldest first.

        A due report is still to be sent or accepted.
        """
        return self._select_reports(report.c.state == ReportState.DUE)

    def list_newest(self, limit: int = 20) -> list[StoredReport]:
        """Return the newest reports, oldest first."""
        query = select(report).order_by(report.c.period.desc()).limit(limit)
        return [_decode_report_row(row) for row in reversed(self._connection.execute(query).all())]

    def list_between(self, first_block: int, last_block: int) -> list[StoredReport]:
        """Return the reports as of a block in this range, oldest first.

        The range includes both ends.
        """
        rows = self._connection.execute(
            _REPORTS_BETWEEN, {"first_block": first_block, "last_block": last_block}
        )
        return [_decode_report_row(row) for row in rows]

    def set_signed_round(self, period: int, round_number: int, digest: Hash) -> None:
        """Store the signed digest of a report and the round for which it was signed.

        Raises:
            ValueError: there is no report of this period.
        """
        self._update_report(period, round=round_number, digest=decode_hex(digest))

    def set_state(self, period: int, state: ReportState, reason: str | None = None) -> None:
        """Store the outcome of a report.

        Raises:
            ValueError: there is no report of this period.
        """
        self._update_report(period, state=state, reason=reason)

    def delete_from_block(self, block: int) -> int:
        """Delete the reports as of `block` or later, and return how many of them were due.

        The report as of `block` is deleted as well, because the next block determines whether a
        period ends with `block`. Accepted reports are kept, because final blocks do not change.
        """
        is_dropped = (report.c.as_of_number >= block) & (report.c.state != ReportState.LANDED)
        count_query = select(func.count()).where(is_dropped, report.c.state == ReportState.DUE)
        due_count = int(self._connection.execute(count_query).scalar_one())
        self._connection.execute(delete(report).where(is_dropped))
        return due_count

    def get_newest_time_up_to(self, block: int) -> int:
        """Return the as-of time of the newest report up to a block, or 0 if there is none."""
        query = select(report.c.as_of_time).where(report.c.as_of_number <= block)
        newest_query = query.order_by(report.c.as_of_number.desc()).limit(1)
        return self._connection.execute(newest_query).scalar_one_or_none() or 0

    def list_headers_since(self, period: int) -> list[StoredReportHeader]:
        """Return the schedule and outcome of each report from `period` on, oldest first.

        Skipped reports are included.
        """
        columns = [
            report.c[name]
            for name in (
                *("period", "as_of_number", "as_of_time", "head_round", "prev", "deadline"),
                *("root", "state", "round", "digest"),
            )
        ]
        query = select(*columns)
        rows = self._connection.execute(
            query.where(report.c.period >= period).order_by(report.c.period)
        )
        return [_decode_header_row(row) for row in rows]

    def get_first_complete_period(self) -> int:
        """Return the first period since which no report is missing, or 0 if never recorded."""
        return self._bookmarks.get_number(_COMPLETE_FROM_BOOKMARK) or 0

    def raise_first_complete_period(self, period: int) -> None:
        """Record that the earlier periods ended during the backfill and have no report."""
        if period > self.get_first_complete_period():
            self._bookmarks.set(_COMPLETE_FROM_BOOKMARK, period)

    def mark_unsigned_missed_below(self, block: int, reason: str) -> None:
        """Mark unsigned reports as missed if they are as of a block lower than `block`.

        Only due reports are marked.
        """
        is_unsigned_due = (
            (report.c.state == ReportState.DUE)
            & (report.c.as_of_number < block)
            & report.c.digest.is_(None)
        )
        self._connection.execute(
            update(report).where(is_unsigned_due).values(state=ReportState.MISSED, reason=reason)
        )

    def _select_reports(self, condition: ColumnElement[bool]) -> list[StoredReport]:
        rows = self._connection.execute(
            select(report).where(condition).order_by(report.c.period)
        ).all()
        return [_decode_report_row(row) for row in rows]

    def _update_report(self, period: int, **values: object) -> None:
        update_statement = update(report).where(report.c.period == period).values(**values)
        if self._connection.execute(update_statement).rowcount != 1:
            raise ValueError(f"there is no report of period {period}")


def _decode_header_row(row: Any) -> StoredReportHeader:  # noqa: ANN401  a row of any driver
    return StoredReportHeader(
        header=ReportHeader(
            period=row.period,
            as_of=row.as_of_number,
            as_of_time=row.as_of_time,
            head_round=row.head_round,
            prev=Hash(encode_hex(row.prev)),
            deadline=row.deadline,
            root=Hash(encode_hex(row.root)),
            is_due=row.state != ReportState.SKIPPED,
        ),
        state=ReportState(row.state),
        round=row.round,
        digest=None if row.digest is None else Hash(encode_hex(row.digest)),
    )


def _decode_report_row(row: Any) -> StoredReport:  # noqa: ANN401  a row of any driver
    as_of = BlockRef(
        number=row.as_of_number,
        hash=Hash(encode_hex(row.as_of_hash)),
        parent_hash=Hash(encode_hex(row.as_of_parent)),
        time=row.as_of_time,
    )
    return StoredReport(
        report=Report(
            period=row.period,
            as_of=as_of,
            head_round=row.head_round,
            prev=Hash(encode_hex(row.prev)),
            deadline=row.deadline,
            root=Hash(encode_hex(row.root)),
            change=ReportChange(
                node_count=row.changed_nodes,
                steps=row.changed_steps,
                max_steps=row.max_changed_steps,
                crosses_band=row.crosses_band,
            ),
            is_due=row.state != ReportState.SKIPPED,
        ),
        state=ReportState(row.state),
        reason=row.reason,
        round=row.round,
        digest=None if row.digest is None else Hash(encode_hex(row.digest)),
    )


# Prefix of the reason of a hold if the report cannot get a quorum.
DISPUTED_PREFIX = "disagreement: "
# Suffix of the reason of a hold if the leaves of the report are wrong.
WRONG_LEAVES_SUFFIX = " of its leaves differ from the nodes; it is never signed"


@dataclass(frozen=True, slots=True)
class ReportHold:
    """The hold of one period's report.

    `released_at` (unix seconds) is None while the report is held.
    """

    period: int
    reason: str
    facts: dict[str, Any]
    held_at: int
    released_at: int | None
    released_by: str | None

    @property
    def is_disputed(self) -> bool:
        """Whether the report is held because peers signed a different report."""
        return self.reason.startswith(DISPUTED_PREFIX)

    @property
    def has_wrong_leaves(self) -> bool:
        """Whether the report has wrong leaves, so that it cannot be released."""
        return self.reason.endswith(WRONG_LEAVES_SUFFIX)


class HoldRepository:
    """Access to the table report_hold, whose changes are journalled in the outbox."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._journal = Journal(connection)
        self._reports = ReportRepository(connection)

    def can_hold(self, period: int, reason: str) -> bool:
        """Return whether `hold` would store a hold for this reason."""
        old_hold = self.get(period)
        return old_hold is None or (
            reason.endswith(WRONG_LEAVES_SUFFIX) and not old_hold.has_wrong_leaves
        )

    def hold(self, period: int, reason: str, facts: Mapping[str, object], stamp: Stamp) -> bool:
        """Hold a period's report, or return False if its stored hold is kept.

        `facts` is stored as JSON. A period that an operator released is held again only if its
        leaves are wrong, because the operator did not know this. This hold also replaces a hold
        for another reason.
        """
        if not self.can_hold(period, reason):
            return False
        facts_json = msgspec.json.encode(dict(facts)).decode()
        row = (period, reason, facts_json, stamp.at, None, None)
        upsert_rows(self._connection, report_hold, [row])
        self._journal.write("report held", stamp, f"period {period}: {reason}")
        return True

    def list_held(self) -> list[ReportHold]:
        """Return the holds that were not released, ordered by period."""
        query = select(report_hold).where(report_hold.c.released_at.is_(None))
        return [
            _decode_hold_row(row) for row in self._connection.execute(query.order_by("period"))
        ]

    def list_awaiting_operator(self) -> list[ReportHold]:
        """Return the held reports after the newest accepted report, ordered by period."""
        held_reports = self.list_held()
        # Usually no report is held. The query is then skipped.
        newest_landed_period = self._reports.find_newest_landed_period() if held_reports else None
        return [
            hold
            for hold in held_reports
            if newest_landed_period is None or hold.period > newest_landed_period
        ]

    def is_awaiting_operator(self) -> bool:
        """Return whether any held report waits for an operator's decision."""
        return bool(self.list_awaiting_operator())

    def find_newest_released_period(self) -> int | None:
        """Return the newest period that an operator released, or None if none was."""
        released_query = select(report_hold.c.period).where(report_hold.c.released_at.is_not(None))
        newest_query = released_query.order_by(report_hold.c.period.desc()).limit(1)
        return self._connection.execute(newest_query).scalar_one_or_none()

    def get(self, period: int) -> ReportHold | None:
        """Return the hold of a period, even if it was released, or None without a hold."""
        query = select(report_hold).where(report_hold.c.period == period)
        row = self._connection.execute(query).one_or_none()
        return None if row is None else _decode_hold_row(row)

    def release(self, period: int, stamp: Stamp) -> bool:
        """Release a held report, or return False if it is not held.

        `stamp.actor` is stored as the person who released it.
        """
        result = self._connection.execute(
            update(report_hold)
            .where(report_hold.c.period == period, report_hold.c.released_at.is_(None))
            .values(released_at=stamp.at, released_by=stamp.actor)
        )
        if result.rowcount == 0:
            return False
        self._journal.write("hold released", stamp, f"period {period}")
        return True


def _decode_hold_row(row: Row[Any]) -> ReportHold:
    facts = msgspec.json.decode(row.facts, type=dict[str, Any])
    return ReportHold(row.period, row.reason, facts, row.held_at, row.released_at, row.released_by)
