"""Finds the first row at which the relay's score of a node diverges from the derived score.

Two scores do not show which row caused their difference, so hypotheses are tested. Each hypothesis
is a single change of the relay's records that yields exactly the relay's score. The kinds of
changes and the evidence for them are in docs/reference/crynux-relay.md#kinds-of-differences.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from oracle.chain.feed.relay_groups import MAX_ID_GAP
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ReliabilityChange, ScoreEntry
from oracle.domain.scoring.node_scores import (
    compute_pool_mean,
    heal_reliability,
    is_below_kickout_threshold,
    reseed_pool,
)
from oracle.domain.scoring.reliability import ReliabilityCause, change_reliability
from oracle.queries.relay_audit.own_figures import DerivedNode
from oracle.systems.crynux.crynux_rule_sets import RELAY

_PENALTIES = (ReliabilityCause.TIMED_OUT, ReliabilityCause.TIMEOUT_VOID)


@dataclass(frozen=True, slots=True)
class Divergence:
    """The row at which two scores diverge (0 if unknown), and the reason as a sentence."""

    kind: str
    row: int
    why: str


@dataclass(frozen=True, slots=True)
class RelayClaim:
    """The Q_long / 10 that the relay reports for a node after `after_row`, with a tolerance."""

    long_term: float
    slack: float
    after_row: int = 0

    def matches_scores(self, scores: Sequence[int]) -> bool:
        """Return whether the mean of these scores (oldest first) equals the relay's."""
        pool = bytes(scores[-RELAY.pool_size :])
        return abs(compute_pool_mean(pool, None, RELAY) / UNIT - self.long_term) <= self.slack


def find_kickout_divergence(node: DerivedNode) -> Divergence | None:
    """Return the first kickout that is missing or has no cause, or None if there is none."""
    divergences = [*_find_unjustified_kickouts(node), *_find_missed_kickouts(node)]
    return min(divergences, key=lambda divergence: divergence.row, default=None)


def _find_unjustified_kickouts(node: DerivedNode) -> Iterator[Divergence]:
    for row in node.kicked_at:
        # A group's scores have the position of the group's first row. Even this row may come after
        # the kickout.
        scores = [entry.score for entry in node.scores if entry.at.log <= row + MAX_ID_GAP]
        pool = scores[-RELAY.pool_size :]
        if len(pool) < RELAY.pool_size or not is_below_kickout_threshold(sum(pool), RELAY):
            mean_text = f"{sum(pool) / len(pool):.2f}" if pool else "none"
            divergence_reason = f"kicked out with {len(pool)} scores and a mean of {mean_text}"
            yield Divergence("kick_without_cause", row, divergence_reason)


def _find_missed_kickouts(node: DerivedNode) -> Iterator[Divergence]:
    for interval in node.due_intervals:
        first_due_row = interval.opened_at.log
        last_due_row = None if interval.closed_at is None else interval.closed_at.log
        for end_row in node.ended_at:
            if end_row > first_due_row + MAX_ID_GAP and (
                last_due_row is None or end_row < last_due_row - MAX_ID_GAP
            ):
                divergence_reason = (
                    f"due to be kicked out from row {first_due_row} on, but ended a task as a "
                    "member"
                )
                yield Divergence("no_kick_with_cause", end_row, divergence_reason)
                break


def find_score_divergence(
    node: DerivedNode, claim: RelayClaim, scores_by_group: Mapping[int, Sequence[ScoreEntry]]
) -> Divergence:
    """Return the likeliest divergence that explains the relay's score.

    Of several divergences of the likeliest kind, the earliest is returned.
    """
    for find_divergences in (
        _find_missing_zeros,
        find_swapped_scores,
        _find_changed_scores,
        _find_unseen_scores,
    ):
        divergences = [
            divergence
            for divergence in find_divergences(node, claim, scores_by_group)
            if divergence.row > claim.after_row
        ]
        if divergences:
            first_divergence = min(divergences, key=lambda divergence: divergence.row)
            row_count = len({divergence.row for divergence in divergences})
            return replace(
                first_divergence,
                why=f"{first_divergence.why}; the first of {row_count} rows that would explain it",
            )
    divergence_reason = f"no single score explains {claim.long_term:.4f}"
    return Divergence("unexplained_jump", 0, divergence_reason)


_ScoresByGroup = Mapping[int, Sequence[ScoreEntry]]


def find_swapped_scores(
    node: DerivedNode, claim: RelayClaim, scores_by_group: _ScoresByGroup
) -> Iterator[Divergence]:
    """Yield the groups in which two members' scores may have been swapped."""
    scores = [score_entry.score for score_entry in node.scores]
    for index, entry in enumerate(node.scores):
        for other_entry in scores_by_group.get(entry.at.log, ()):
            if entry.rank is None or other_entry.rank is None or other_entry.score == entry.score:
                continue
            if claim.matches_scores([*scores[:index], other_entry.score, *scores[index + 1 :]]):
                divergence_reason = (
                    f"rank {other_entry.rank} ({other_entry.score}) instead of {entry.rank} "
                    f"({entry.score})"
                )
                yield Divergence(
                    "rank", entry.at.log, f"{divergence_reason}, task {entry.task[:10]}"
                )


def _find_missing_zeros(
    node: DerivedNode, claim: RelayClaim, scores_by_group: _ScoresByGroup
) -> Iterator[Divergence]:
    """Yield the groups in which a member may not have received the 0 for its timeout."""
    del scores_by_group
    scores = [score_entry.score for score_entry in node.scores]
    for index, entry in enumerate(node.scores):
        if entry.rank is None and claim.matches_scores([*scores[:index], *scores[index + 1 :]]):
            divergence_reason = f"no 0 for the member that timed out, task {entry.task[:10]}"
            yield Divergence("missing_zero", entry.at.log, divergence_reason)


def _find_changed_scores(
    node: DerivedNode, claim: RelayClaim, scores_by_group: _ScoresByGroup
) -> Iterator[Divergence]:
    del scores_by_group
    scores = [score_entry.score for score_entry in node.scores]
    for index, entry in enumerate(node.scores):
        for score in (*RELAY.rank_scores, RELAY.absent_score):
            if claim.matches_scores([*scores[:index], score, *scores[index + 1 :]]):
                yield Divergence("rank", entry.at.log, f"{score} instead of {entry.score}")


def _find_unseen_scores(
    node: DerivedNode, claim: RelayClaim, scores_by_group: _ScoresByGroup
) -> Iterator[Divergence]:
    """Yield scores that no row contains; such a score is usually the 0 of a missing group."""
    del scores_by_group
    scores = [entry.score for entry in node.scores]
    for score in (RELAY.absent_score, *RELAY.rank_scores):
        if claim.matches_scores([*scores, score]):
            divergence_reason = f"one more score of {score}, which no row gives"
            yield Divergence("unexplained_jump", node.rows[-1], divergence_reason)


def find_restart_spans(node: DerivedNode, claim: RelayClaim) -> list[tuple[int, int]]:
    """Return the row ranges in which a restart of the relay would explain its score.

    Each range is a pair `(after, until)`.
    """
    scores = [entry.score for entry in node.scores]
    spans = []
    for index in range(1, len(scores) + 1):
        reseeded_pool = reseed_pool(bytes(scores[:index][-RELAY.pool_size :]), RELAY)
        if claim.matches_scores([*reseeded_pool, *scores[index:]]):
            next_row = node.scores[index].at.log if index < len(scores) else 1 << 62
            spans.append((max(node.scores[index - 1].at.log, claim.after_row), next_row))
    return [span for span in spans if span[0] < span[1]]


def find_common_restart(spans: Sequence[Sequence[tuple[int, int]]]) -> Divergence | None:
    """Return a restart that explains the divergences of all given nodes, or None."""
    start_rows = sorted({after_row for node_spans in spans for after_row, _ in node_spans})
    for start_row in start_rows:
        if all(
            any(after_row <= start_row < until_row for after_row, until_row in node_spans)
            for node_spans in spans
        ):
            divergence_reason = (
                f"{len(spans)} nodes fit pools that were lost after this row, and reseeded"
            )
            return Divergence("restart", start_row, divergence_reason)
    return None


def find_reliability_divergence(
    node: DerivedNode, health: float, slack: float, time: int
) -> Divergence:
    """Return the earliest change that the relay may have omitted from its reliability."""
    member_changes = [
        stored_change for stored_change in node.changes if stored_change.at.log >= node.joined_at
    ]
    for index, change in enumerate(member_changes):
        other_changes = [*member_changes[:index], *member_changes[index + 1 :]]
        if (
            change.task is not None
            and abs(_replay_reliability(other_changes, time) / UNIT - health) <= slack
        ):
            change_kind = "penalty" if change.cause in _PENALTIES else "boost"
            reason = f"H equals the relay's without this {change_kind}, task {change.task[:10]}"
            return Divergence(change_kind, change.at.log, reason)
    return Divergence("penalty", 0, f"no single penalty or boost explains H {health:.4f}")


def _replay_reliability(changes: Sequence[ReliabilityChange], time: int) -> int:
    base, since = UNIT, 0
    for change in changes:
        base = heal_reliability(base, since, change.time, RELAY)
        since = change.time
        if change.task is not None:
            # The relay lowers H at every timeout, even at one that is void under our rules.
            is_void = change.cause is ReliabilityCause.TIMEOUT_VOID
            cause = ReliabilityCause.TIMED_OUT if is_void else change.cause
            base = change_reliability(cause, base, RELAY)
    return heal_reliability(base, since, time, RELAY)
