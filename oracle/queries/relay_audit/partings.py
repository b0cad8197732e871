"""Finds the first row at which a relay's figure of a node diverges from the derived one.

Two figures do not show what happened between the rows, so hypotheses are tested: a single change
of the relay's records that yields exactly its figure. The kinds and their evidence:
docs/explanation/relay-audit.md#kinds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from oracle.chain.feed.relay_groups import NEAR
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ReliabilityCause, ReliabilityChange, ScoreEntry
from oracle.domain.scoring.node_scores import is_below_line
from oracle.domain.scoring.reliability import (
    boosted_reliability,
    healed_reliability,
    penalized_reliability,
)
from oracle.domain.scoring.score_window import mean_of, reseeded_pool
from oracle.queries.relay_audit.own_figures import OwnNode
from oracle.systems.crynux.crynux_rule_sets import RELAY

_PENALTIES = (ReliabilityCause.TIMED_OUT, ReliabilityCause.TIMEOUT_VOID)


@dataclass(frozen=True, slots=True)
class Parting:
    """The row at which two figures diverge, 0 if no row explains it; `why` is a sentence."""

    kind: str
    row: int
    why: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A relay's value of a node's Q_long / 10, within `slack`, as of a row after `after_row`."""

    long_term: float
    slack: float
    since: int = 0

    def matches(self, scores: Sequence[int]) -> bool:
        """Return whether a pool of these scores, the oldest first, has the claimed mean."""
        pool = bytes(scores[-RELAY.pool_size :])
        return abs(mean_of(pool, None, RELAY) / UNIT - self.long_term) <= self.slack


def kick_parting(node: OwnNode) -> Parting | None:
    """Return the first kickout without a cause, or task end without the kickout that was due."""
    found = [*_causeless(node), *_missed(node)]
    return min(found, key=lambda one: one.row, default=None)


def _causeless(node: OwnNode) -> Iterator[Parting]:
    for row in node.kicked_at:
        # A group's scores have the position of its first row, which may come after the kickout.
        given = [one.score for one in node.scores if one.at.log <= row + NEAR]
        pool = given[-RELAY.pool_size :]
        if len(pool) < RELAY.pool_size or not is_below_line(sum(pool), RELAY):
            mean = f"{sum(pool) / len(pool):.2f}" if pool else "none"
            why = f"kicked out with {len(pool)} scores and a mean of {mean}"
            yield Parting("kick_without_cause", row, why)


def _missed(node: OwnNode) -> Iterator[Parting]:
    for interval in node.due:
        opened = interval.opened_at.log
        closed = None if interval.closed_at is None else interval.closed_at.log
        for end in node.ended_at:
            if end > opened + NEAR and (closed is None or end < closed - NEAR):
                why = f"was due to be kicked out from row {opened} on, ended a task, and was not"
                yield Parting("no_kick_with_cause", end, why)
                break


def score_parting(
    node: OwnNode, claim: Claim, groups: Mapping[int, Sequence[ScoreEntry]]
) -> Parting:
    """Return the earliest score change that yields the relay's figure, best evidence first."""
    for tried in (_missing_zero, swapped, _other_score, _unseen):
        found = [one for one in tried(node, claim, groups) if one.row > claim.since]
        if found:
            first = min(found, key=lambda one: one.row)
            rows = len({one.row for one in found})
            return replace(first, why=f"{first.why}; the first of {rows} rows that would do")
    why = f"no single score explains {claim.long_term:.4f}"
    return Parting("unexplained_jump", 0, why)


_Groups = Mapping[int, Sequence[ScoreEntry]]


def swapped(node: OwnNode, claim: Claim, groups: _Groups) -> Iterator[Parting]:
    """Yield the groups in which two members may have got each other's score."""
    scores = [one.score for one in node.scores]
    for place, entry in enumerate(node.scores):
        for other in groups.get(entry.at.log, ()):
            if entry.rank is None or other.rank is None or other.score == entry.score:
                continue
            if claim.matches([*scores[:place], other.score, *scores[place + 1 :]]):
                why = f"rank {other.rank} ({other.score}) instead of {entry.rank} ({entry.score})"
                yield Parting("rank", entry.at.log, f"{why}, task {entry.task[:10]}")


def _missing_zero(node: OwnNode, claim: Claim, groups: _Groups) -> Iterator[Parting]:
    """Yield the groups in which a member that timed out may have got no 0."""
    del groups
    scores = [one.score for one in node.scores]
    for place, entry in enumerate(node.scores):
        if entry.rank is None and claim.matches([*scores[:place], *scores[place + 1 :]]):
            why = f"no 0 for the member that timed out, task {entry.task[:10]}"
            yield Parting("missing_zero", entry.at.log, why)


def _other_score(node: OwnNode, claim: Claim, groups: _Groups) -> Iterator[Parting]:
    del groups
    scores = [one.score for one in node.scores]
    for place, entry in enumerate(node.scores):
        for score in (*RELAY.rank_scores, RELAY.absent_score):
            if claim.matches([*scores[:place], score, *scores[place + 1 :]]):
                yield Parting("rank", entry.at.log, f"{score} instead of {entry.score}")


def _unseen(node: OwnNode, claim: Claim, groups: _Groups) -> Iterator[Parting]:
    """Yield one score more than the rows give, usually a 0 of a group that is not in the rows."""
    del groups
    scores = [one.score for one in node.scores]
    for score in (RELAY.absent_score, *RELAY.rank_scores):
        if claim.matches([*scores, score]):
            why = f"a score of {score} more than the rows give"
            yield Parting("unexplained_jump", node.rows[-1], why)


def restart_spans(node: OwnNode, claim: Claim) -> list[tuple[int, int]]:
    """Return the row ranges `(after, until)` in which a restart yields the relay's figure."""
    scores, spans = [one.score for one in node.scores], []
    for place in range(1, len(scores) + 1):
        lost = reseeded_pool(bytes(scores[:place][-RELAY.pool_size :]), RELAY)
        if claim.matches([*lost, *scores[place:]]):
            until = node.scores[place].at.log if place < len(scores) else 1 << 62
            spans.append((max(node.scores[place - 1].at.log, claim.since), until))
    return [span for span in spans if span[0] < span[1]]


def common_restart(spans: Sequence[Sequence[tuple[int, int]]]) -> Parting | None:
    """Return the restart that explains several nodes at once, or None if no row fits them all."""
    starts = sorted({above for each in spans for above, _ in each})
    for start in starts:
        if all(any(above <= start < until for above, until in each) for each in spans):
            why = f"{len(spans)} nodes fit pools that were lost after this row, and reseeded"
            return Parting("restart", start, why)
    return None


def health_parting(node: OwnNode, health: float, slack: float, time: int) -> Parting:
    """Return the earliest change of H without which the derived H equals the relay's."""
    changes = [one for one in node.changes if one.at.log >= node.joined_at]
    for place, change in enumerate(changes):
        without = [*changes[:place], *changes[place + 1 :]]
        if change.task is not None and abs(_replayed(without, time) / UNIT - health) <= slack:
            kind = "penalty" if change.cause in _PENALTIES else "boost"
            why = f"H is as without this {kind}, task {change.task[:10]}"
            return Parting(kind, change.at.log, why)
    return Parting("penalty", 0, f"no single penalty or boost explains H {health:.4f}")


def _replayed(changes: Sequence[ReliabilityChange], time: int) -> int:
    base, since = UNIT, 0
    for change in changes:
        base, since = healed_reliability(base, since, change.time, RELAY), change.time
        if change.task is not None:
            happened = penalized_reliability if change.cause in _PENALTIES else boosted_reliability
            base = happened(base, RELAY)
    return healed_reliability(base, since, time, RELAY)
