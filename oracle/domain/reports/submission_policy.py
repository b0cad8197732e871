"""Decides when a report is worth its transaction, and the maximum fee for it.

The decision is the transmitter's own: it changes neither the content nor the signers of a report.
See docs/explanation/reports.md#when-to-publish.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oracle.domain.reports.lanes import band_of, lanes_of


@dataclass(frozen=True, slots=True)
class SubmissionPolicy:
    """The transmitter's limits for ordinary changes, which may wait for a cheaper block.

    `cheap_fee_wei`: wei per gas that are paid at once; None: up to the cap. Fewer than `min_words`
    words wait for the heartbeat, unless their lanes change by `min_change` steps in sum; None: the
    sum is ignored.
    """

    cheap: int | None = None
    min_words: int = 1
    min_change: int | None = None


@dataclass(frozen=True, slots=True)
class ReportChange:
    """The on-chain effect of a report.

    `words` it writes; `change`: sum of the steps by which its lanes change; `is_urgent`: a lane
    crosses a band (the kickout line, selectable or not, the first report of a node); `age`:
    seconds since the last round, or since the oldest of its words was written.
    """

    words: int
    change: int
    is_urgent: bool
    age: int


@dataclass(frozen=True, slots=True)
class SubmissionValue:
    """Whether to send a report, the reason, and the maximum fee in wei per gas."""

    now: bool
    why: str
    most_per_gas: int


def change_between(
    on_chain: Mapping[int, int], wanted: Iterable[tuple[int, int]], kick_line: int
) -> tuple[int, bool]:
    """Return the sum of steps by which lanes change, and whether one crosses a band.

    Args:
        on_chain: word number to word; a missing word was never written.
        records: the records of a report.
        kick_line: the kickout line as a lane (`ReportSettings.kick_line`).
    """
    total, crosses = 0, False
    for number, word in wanted:
        before = on_chain.get(number, 0)
        if before == word:
            continue
        for old, new in zip(lanes_of(before), lanes_of(word), strict=True):
            total += abs(new - old)
            crosses = crosses or band_of(old, kick_line) != band_of(new, kick_line)
    return total, crosses


def max_fee_for_age(
    age: int, submission_policy: SubmissionPolicy, *, heartbeat: int, cap: int
) -> int:
    """Return the maximum wei per gas for ordinary changes of this age; it rises to the cap.

    `cap` is in wei per gas, `heartbeat` in seconds: at that age the result is the cap, so that
    nothing waits longer for a cheaper block.
    """
    cheap = cap if submission_policy.cheap is None else min(submission_policy.cheap, cap)
    waited = min(max(age, 0), heartbeat)
    return cheap + (cap - cheap) * waited // heartbeat


def submission_value_of(
    news: ReportChange, submission_policy: SubmissionPolicy, *, heartbeat: int, cap: int
) -> SubmissionValue:
    """Return whether a report may be sent now and its maximum fee."""
    if news.is_urgent:
        return SubmissionValue(now=True, why="a node crosses a band", most_per_gas=cap)
    if news.age >= heartbeat:
        return SubmissionValue(now=True, why="the heartbeat is reached", most_per_gas=cap)
    most = max_fee_for_age(news.age, submission_policy, heartbeat=heartbeat, cap=cap)
    is_enough = news.words >= submission_policy.min_words or (
        submission_policy.min_change is not None and news.change >= submission_policy.min_change
    )
    if not is_enough:
        why = f"{news.words} words, {news.change} steps: too little before the heartbeat"
        return SubmissionValue(now=False, why=why, most_per_gas=most)
    return SubmissionValue(now=True, why="scores have moved", most_per_gas=most)
