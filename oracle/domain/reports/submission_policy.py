"""Decides when a report is worth its transaction, and the maximum fee for it.

The decision is the transmitter's own: it changes neither the content nor the signers of a report.
See docs/explanation/reports.md#when-to-publish.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oracle.domain.reports.lanes import get_band, unpack_lanes


@dataclass(frozen=True, slots=True)
class SubmissionPolicy:
    """The transmitter's limits for ordinary changes, which may wait for a cheaper block.

    `cheap_fee_wei`: wei per gas that are paid at once; None: up to the cap. Fewer than `min_words`
    words wait for the heartbeat, unless their lanes change by `min_change` steps in sum; None: the
    sum is ignored.
    """

    cheap_fee_wei: int | None = None
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
class SubmissionDecision:
    """Whether to send a report, the reason, and the maximum fee in wei per gas."""

    should_send: bool
    reason: str
    max_fee_per_gas: int


def measure_change(
    on_chain: Mapping[int, int], records: Iterable[tuple[int, int]], kick_line: int
) -> tuple[int, bool]:
    """Return the sum of steps by which lanes change, and whether one crosses a band.

    Args:
        on_chain: word number to word; a missing word was never written.
        records: the records of a report.
        kick_line: the kickout line as a lane (`ReportSettings.kick_line`).
    """
    total, crosses = 0, False
    for number, word in records:
        before = on_chain.get(number, 0)
        if before == word:
            continue
        for old_lane, new_lane in zip(unpack_lanes(before), unpack_lanes(word), strict=True):
            total += abs(new_lane - old_lane)
            crosses = crosses or get_band(old_lane, kick_line) != get_band(new_lane, kick_line)
    return total, crosses


def compute_max_fee(
    age_seconds: int, submission_policy: SubmissionPolicy, *, heartbeat: int, cap: int
) -> int:
    """Return the maximum wei per gas for ordinary changes of this age; it rises to the cap.

    `cap` is in wei per gas, `heartbeat` in seconds: at that age the result is the cap, so that
    nothing waits longer for a cheaper block.
    """
    cheap_fee = (
        cap
        if submission_policy.cheap_fee_wei is None
        else min(submission_policy.cheap_fee_wei, cap)
    )
    waited_seconds = min(max(age_seconds, 0), heartbeat)
    return cheap_fee + (cap - cheap_fee) * waited_seconds // heartbeat


def decide_submission(
    change: ReportChange, submission_policy: SubmissionPolicy, *, heartbeat: int, cap: int
) -> SubmissionDecision:
    """Return whether a report may be sent now and its maximum fee."""
    if change.is_urgent:
        return SubmissionDecision(
            should_send=True, reason="a node crosses a band", max_fee_per_gas=cap
        )
    if change.age >= heartbeat:
        return SubmissionDecision(
            should_send=True, reason="the heartbeat is reached", max_fee_per_gas=cap
        )
    max_fee = compute_max_fee(change.age, submission_policy, heartbeat=heartbeat, cap=cap)
    is_enough = change.words >= submission_policy.min_words or (
        submission_policy.min_change is not None and change.change >= submission_policy.min_change
    )
    if not is_enough:
        reason = f"{change.words} words, {change.change} steps: too little before the heartbeat"
        return SubmissionDecision(should_send=False, reason=reason, max_fee_per_gas=max_fee)
    return SubmissionDecision(
        should_send=True, reason="scores have moved", max_fee_per_gas=max_fee
    )
