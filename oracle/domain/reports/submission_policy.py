"""Decides when a report is worth its transaction, and the maximum fee for it.

Each transmitter decides for itself. The decision changes neither the content nor the signers of a
report. See docs/explanation/reports.md#when-to-publish.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oracle.domain.reports.lanes import get_band, unpack_lanes


@dataclass(frozen=True, slots=True)
class SubmissionPolicy:
    """The transmitter's limits for ordinary changes, which may wait for a cheaper block.

    `cheap_fee_wei` is the fee in wei per gas that is paid at once; None means up to the cap. A
    report with fewer than `min_words` words waits for the heartbeat, unless its lanes change by
    `min_change` steps in total; None disables that exception.
    """

    cheap_fee_wei: int | None = None
    min_words: int = 1
    min_change: int | None = None


@dataclass(frozen=True, slots=True)
class ReportChange:
    """The effect of a report on-chain.

    `words` counts the words that the report writes, and `change` is the sum of the steps by which
    lanes change. `is_urgent` means that a lane changes its band (the kickout line, selectable or
    not, the first report of a node). `age` is the time in seconds since the oldest of the words
    was written or, if that is longer, since the last round.
    """

    words: int
    change: int
    is_urgent: bool
    age: int


@dataclass(frozen=True, slots=True)
class SubmissionDecision:
    """The decision whether to send a report, the reason, and the maximum fee in wei per gas."""

    should_send: bool
    reason: str
    max_fee_per_gas: int


def measure_change(
    on_chain_words: Mapping[int, int], records: Iterable[tuple[int, int]], kick_line: int
) -> tuple[int, bool]:
    """Return the sum of steps by which lanes change, and whether a lane changes its band.

    Args:
        on_chain_words: words by word number; a missing word was never written.
        records: the records of a report.
        kick_line: the kickout line as a lane (`ReportSettings.kick_line`).
    """
    total, crosses = 0, False
    for number, word in records:
        before = on_chain_words.get(number, 0)
        if before == word:
            continue
        for old_lane, new_lane in zip(unpack_lanes(before), unpack_lanes(word), strict=True):
            total += abs(new_lane - old_lane)
            crosses = crosses or get_band(old_lane, kick_line) != get_band(new_lane, kick_line)
    return total, crosses


def compute_max_fee(
    age_seconds: int, submission_policy: SubmissionPolicy, *, heartbeat: int, cap: int
) -> int:
    """Return the maximum fee for ordinary changes of this age, in wei per gas.

    The fee rises with the age and reaches `cap`, in wei per gas, when the age reaches `heartbeat`,
    in seconds, so that nothing waits longer for a cheaper block.
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
    """Decide whether to send a report now, and the maximum fee for it."""
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
        reason = f"{change.words} words, {change.change} steps: too few before the heartbeat"
        return SubmissionDecision(should_send=False, reason=reason, max_fee_per_gas=max_fee)
    return SubmissionDecision(
        should_send=True, reason="scores have changed enough", max_fee_per_gas=max_fee
    )
