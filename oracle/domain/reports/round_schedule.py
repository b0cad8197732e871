"""Finds the report to sign for the next round, from on-chain data alone (decision 0088)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from oracle.domain.ids import Hash
from oracle.domain.reports.report import ReportSettings


class ReportHeader(NamedTuple):
    """The values that decide when a report is signed.

    Times are in unix seconds of the chain. `as_of` is the number of the as-of block. A report that
    is not due is not signed.
    """

    period: int
    as_of: int
    as_of_time: int
    head_round: int
    prev: Hash
    deadline: int
    root: Hash
    is_due: bool


@dataclass(frozen=True, slots=True)
class ScheduleMoment:
    """The newest applied block, and the last accepted round.

    The next round must follow this round. `anchor_window` is the number of blocks below the head
    that the contract can still check.
    """

    number: int
    time: int
    head_round: int
    last_root: Hash
    anchor_window: int

    def is_report_expired(self, header: ReportHeader) -> bool:
        """Return whether it is too late for a report to land.

        Its deadline, its block or its round may have passed.
        """
        is_past_deadline = self.time > header.deadline
        is_outside_anchor_window = self.number + 1 - header.as_of > self.anchor_window
        is_on_last_round = (header.head_round, header.prev) == (self.head_round, self.last_root)
        return is_past_deadline or is_outside_anchor_window or not is_on_last_round


def compute_submission_window(settings: ReportSettings) -> int:
    """Return the length of a submission window in periods.

    A report that is signed at the start of a window expires before the end of the window.
    """
    return -(-settings.ttl_seconds // settings.period_seconds)


def find_scheduled_report(
    headers: Sequence[ReportHeader],
    first_complete_period: int,
    moment: ScheduleMoment,
    settings: ReportSettings,
) -> ReportHeader | None:
    """Return the report to sign at this moment, or None if there is none.

    Time is divided into submission windows of `compute_submission_window` periods, numbered from
    the first period. In a window, the first report that is due and follows round r is meant for
    round r + 1. If that report leaves the anchor window before the submission window ends, the
    first report after that succeeds it. The scheduled report is the earliest of these reports that
    can still land, so a successor is scheduled only when its predecessor has expired.

    Every reporter that has seen the window from its start, or has seen round r accepted in it,
    finds the same report. Older history and restarts make no difference. Any other reporter gets
    None for this window, and takes part from the next window on.

    Args:
        headers: every report so far, oldest first, including reports that are not due. Of earlier
            windows, only reports that can still land are needed.
        first_complete_period: the first period since which no report is missing.
        moment: the newest folded block, and the contract's head.
        settings: the settings that are part of the rules id.
    """
    window_seconds = compute_submission_window(settings)
    for window_number, headers_in_window in groupby(
        headers, key=lambda header: header.period // window_seconds
    ):
        window_headers = list(headers_in_window)
        due_headers = [
            header
            for header in window_headers
            if header.is_due and header.head_round == moment.head_round
        ]
        if not due_headers or not _is_submission_window_complete(
            window_headers,
            first_complete_period,
            window_number * window_seconds,
            moment.head_round,
        ):
            continue
        scheduled_header = next(
            (
                header
                for header in _iter_reports_in_signing_order(due_headers, moment)
                if not moment.is_report_expired(header)
            ),
            None,
        )
        if scheduled_header is not None:
            return scheduled_header
    return None


def _is_submission_window_complete(
    headers: Sequence[ReportHeader], complete_from: int, start: int, head_round: int
) -> bool:
    """Return whether all reports of a submission window are known.

    Only reports that follow this round are needed.
    """
    return complete_from <= start or any(
        header.period >= complete_from and header.head_round < head_round for header in headers
    )


def _iter_reports_in_signing_order(
    candidates: Sequence[ReportHeader], moment: ScheduleMoment
) -> Iterable[ReportHeader]:
    """Yield the signable reports of a submission window, in the order of signing."""
    next_free_block = -1
    for header in candidates:
        if header.as_of >= next_free_block:
            yield header
            next_free_block = header.as_of + moment.anchor_window
