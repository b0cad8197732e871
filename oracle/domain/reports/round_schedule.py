"""Schedules which report becomes round r + 1, as a function of the chain alone (decision 0088)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from oracle.domain.ids import Hash
from oracle.domain.reports.report import Report, ReportSettings


class ReportHeader(NamedTuple):
    """A report that was cut, without its words; times in unix seconds of the chain.

    `as_of` is the number of its block, `has_records` whether it has anything to send.
    """

    period: int
    as_of: int
    as_of_time: int
    head_round: int
    prev: Hash
    deadline: int
    has_records: bool

    @classmethod
    def from_report(cls, report: Report) -> "ReportHeader":
        """Return the header of a report."""
        return cls(
            period=report.period,
            as_of=report.as_of.number,
            as_of_time=report.as_of.time,
            head_round=report.head_round,
            prev=report.prev,
            deadline=report.deadline,
            has_records=bool(report.records),
        )


@dataclass(frozen=True, slots=True)
class ScheduleMoment:
    """The newest folded block, and the contract's head, on top of which the next round is due.

    `anchor_window`: how many blocks under the head the contract can still check.
    """

    number: int
    time: int
    head_round: int
    last_report: Hash
    anchor_window: int

    def is_expired(self, header: ReportHeader) -> bool:
        """Return whether a report can no longer land: its time, block or round has passed."""
        is_late = self.time > header.deadline
        is_deep = self.number + 1 - header.as_of > self.anchor_window
        is_on_top = (header.head_round, header.prev) == (self.head_round, self.last_report)
        return is_late or is_deep or not is_on_top


def compute_submission_window(settings: ReportSettings) -> int:
    """Return the periods of a shift, so that a report signed at its start expires by its end."""
    return -(-settings.ttl_seconds // settings.period_seconds)


def find_scheduled_report(
    headers: Sequence[ReportHeader],
    complete_from: int,
    moment: ScheduleMoment,
    settings: ReportSettings,
) -> ReportHeader | None:
    """Return the report that is signed at this moment, or None.

    Time is divided into shifts of `compute_submission_window` periods, numbered from the first
    period. In a shift, the first report that has something to send and was cut on top of round r
    is the one for round r + 1; if it leaves the anchor window before the shift ends, the first
    that was cut after that follows it. The earliest of these that can still land is scheduled, so
    that a second one is scheduled only when the first has expired.

    Every reporter that has seen the shift from its start, or the acceptance of round r in it,
    finds the same report, whatever it saw before, in whichever windows, and however often it
    restarted. Any other reporter gets None for that shift, and joins in the next.

    Args:
        headers: every report that was cut since, oldest first, including those without records; of
            earlier shifts only those that can still land are needed.
        complete_from: the first period from which on none of them is missing.
        moment: the block that was folded last, and the contract's head.
        settings: the numbers of the rules id.
    """
    length = compute_submission_window(settings)
    for shift, group in groupby(headers, key=lambda header: header.period // length):
        shift_headers = list(group)
        candidates = [
            header
            for header in shift_headers
            if header.has_records and header.head_round == moment.head_round
        ]
        if not candidates or not _is_complete(
            shift_headers, complete_from, shift * length, moment.head_round
        ):
            continue
        scheduled = next(
            (
                header
                for header in _iter_signing_order(candidates, moment)
                if not moment.is_expired(header)
            ),
            None,
        )
        if scheduled is not None:
            return scheduled
    return None


def _is_complete(
    headers: Sequence[ReportHeader], complete_from: int, start: int, head_round: int
) -> bool:
    """Return whether no report on top of this round is missing from a shift's start."""
    return complete_from <= start or any(
        header.period >= complete_from and header.head_round < head_round for header in headers
    )


def _iter_signing_order(
    candidates: Sequence[ReportHeader], moment: ScheduleMoment
) -> Iterable[ReportHeader]:
    """Yield the reports of one shift that are signed one after another."""
    free_from = -1
    for header in candidates:
        if header.as_of >= free_from:
            yield header
            free_from = header.as_of + moment.anchor_window
