"""Decides when to send a report, and how much its transaction may cost.

Each transmitter decides independently. The decision changes neither the content nor the signers of
a report. See docs/explanation/reports.md#when-to-publish.
"""

from dataclasses import dataclass

from oracle.domain.reports.report import ReportChange


@dataclass(frozen=True, slots=True)
class SubmissionPolicy:
    """The transmitter's limits for ordinary changes.

    Ordinary changes may wait for a cheaper block. `cheap_fee_wei` is the fee in wei per gas that
    is paid at once, or None for any fee up to the cap. A report that changes fewer than
    `min_nodes` nodes waits for the heartbeat, unless its lanes change by at least `min_change`
    steps in total. If `min_change` is None, there is no such exception.
    """

    cheap_fee_wei: int | None = None
    min_nodes: int = 1
    min_change: int | None = None


@dataclass(frozen=True, slots=True)
class SubmissionDecision:
    """Whether to send a report now, with the reason and the maximum fee per gas in wei."""

    should_send: bool
    reason: str
    max_fee_per_gas: int


def compute_max_fee(
    age_seconds: int, submission_policy: SubmissionPolicy, *, heartbeat_seconds: int, fee_cap: int
) -> int:
    """Return the maximum fee for ordinary changes of a given age, in wei per gas.

    The fee rises with the age. It reaches `fee_cap` (wei per gas) when the age reaches
    `heartbeat_seconds`, so that no report waits longer for a cheaper block.
    """
    cheap_fee = (
        fee_cap
        if submission_policy.cheap_fee_wei is None
        else min(submission_policy.cheap_fee_wei, fee_cap)
    )
    waited_seconds = min(max(age_seconds, 0), heartbeat_seconds)
    return cheap_fee + (fee_cap - cheap_fee) * waited_seconds // heartbeat_seconds


def decide_submission(
    change: ReportChange,
    age_seconds: int,
    submission_policy: SubmissionPolicy,
    *,
    heartbeat_seconds: int,
    fee_cap: int,
) -> SubmissionDecision:
    """Decide whether to send a report now, and at which maximum fee.

    `age_seconds` is the time since the last round.
    """
    if change.crosses_band:
        return SubmissionDecision(
            should_send=True, reason="a node crosses a band", max_fee_per_gas=fee_cap
        )
    if age_seconds >= heartbeat_seconds:
        return SubmissionDecision(
            should_send=True, reason="the heartbeat is reached", max_fee_per_gas=fee_cap
        )
    max_fee = compute_max_fee(
        age_seconds, submission_policy, heartbeat_seconds=heartbeat_seconds, fee_cap=fee_cap
    )
    is_change_large_enough = change.node_count >= submission_policy.min_nodes or (
        submission_policy.min_change is not None and change.steps >= submission_policy.min_change
    )
    if not is_change_large_enough:
        reason = f"{change.node_count} nodes, {change.steps} steps: too few before the heartbeat"
        return SubmissionDecision(should_send=False, reason=reason, max_fee_per_gas=max_fee)
    return SubmissionDecision(
        should_send=True, reason="scores have changed enough", max_fee_per_gas=max_fee
    )
