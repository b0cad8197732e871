"""Compares a relay's figures with derived ones, node by node, and reports where they diverge.

See docs/reference/crynux-relay.md#audit-of-the-relay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.queries.relay_audit.contradictions import RowContradictions
from oracle.queries.relay_audit.own_figures import (
    OwnFigures,
    OwnNode,
    by_group,
    compute_figures_from_rows,
)
from oracle.queries.relay_audit.partings import (
    Claim,
    Parting,
    common_restart,
    health_parting,
    kick_parting,
    restart_spans,
    score_parting,
    swapped,
)
from oracle.queries.relay_audit.relay_watch import Poll, RelayWatch
from oracle.queries.relay_audit.separation import Separated, separated
from oracle.systems.crynux.crynux_rule_sets import RELAY

# A timeout may be one poll older than its row, and the relay counts fractions of seconds.
_SEEN_LATE_SECONDS = 4.0
_HEALTH_SLACK = 0.002
# The relay's exclusions are not checked this close to a threshold of H.
_NEAR_LINE = 0.01
_LINES = (0.2, 0.8)


def health_slack(health: float) -> float:
    """Return the tolerated difference of two readers' H, because rows are observed with a delay."""
    return _HEALTH_SLACK + (1 - health) * _SEEN_LATE_SECONDS / RELAY.tau_seconds


def judged_health(node: OwnNode, told: Separated, health: float, poll: Poll) -> Parting | None:
    """Return where H or the exclusion diverges, or None; `health` is the derived H at the poll."""
    now, figure = poll.relay_now, poll.figures[node.address]
    theirs = told.health_at(figure.at)
    slack = health_slack(health) + told.slack / told.long_term
    if abs(health - theirs) > slack:
        return health_parting(node, theirs, slack, now)
    if _is_exclusion_doubted(node, health) or figure.stake_score == 0:
        return None
    if node.is_member and figure.is_excluded != node.is_excluded_at(now):
        said = "excluded" if figure.is_excluded else "not excluded"
        return Parting("exclusion", node.changes[-1].at.log, f"the relay has it {said}")
    return None


def _is_exclusion_doubted(node: OwnNode, health: float) -> bool:
    """Return whether the node is too close to an exclusion threshold for a verdict.

    Between the two thresholds the state stays as it was. The last H outside of them decides, and
    any later H close to a threshold may have crossed it at the relay.
    """
    passed = [health]
    for change in reversed(node.changes):
        passed += (change.after / UNIT, change.before / UNIT)
    low, high = _LINES
    for value in passed:
        if min(abs(value - low), abs(value - high)) <= _NEAR_LINE:
            return True
        if not low < value < high:
            return False
    return False


_OF_SCORES = ("rank", "missing_zero", "unexplained_jump")
_OF_KICKS = ("kick_without_cause", "no_kick_with_cause")


class Verdict(StrEnum):
    """The verdict on one node."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class NodeAudit:
    """The audit of one node: derived and relay's figures, Q_long / 10 and H; None if not known.

    `ours` and `our_health` are derived, `theirs` and `their_health` are the relay's. `groups` is
    the number of scores that the rows give the node, `zeros` how many of them are derived for
    silent members. `lowest` and `highest` bound `ours` over all scores that the rows leave open.
    `why` states what is missing if nothing is proven.
    """

    node: Address
    verdict: Verdict
    ours: float
    theirs: float | None
    our_health: float | None
    their_health: float | None
    excluded: bool
    groups: int
    zeros: int
    lowest: float
    highest: float
    # The maximum error of `theirs`.
    slack: float = 0.0
    parting: Parting | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class RelayAudit:
    """The audit of a relay; nodes by address. `headless`: tasks that started before the first row.

    `contradictions`: rows that contradict other rows, or the chain.
    """

    nodes: list[NodeAudit]
    rows: int
    first_id: int
    last_id: int
    headless: int
    polls: int
    running: int
    changed: list[int]
    contradictions: RowContradictions

    def count(self, verdict: Verdict) -> int:
        """Return the number of nodes with a verdict."""
        return sum(one.verdict is verdict for one in self.nodes)


@dataclass(frozen=True, slots=True)
class _PollComparison:
    """A poll, the previous one, and the figures derived from the rows up to it."""

    before: Poll | None
    poll: Poll
    own: OwnFigures

    def by_two(self, node: OwnNode) -> Separated | None:
        """Return the factors of a figure from two polls, or None if a row came between."""
        earlier = None if self.before is None else self.before.figures.get(node.address)
        figure = self.poll.figures.get(node.address)
        if self.before is None or earlier is None or figure is None:
            return None
        busy = node.has_rows_in(self.before.before, self.poll.after)
        return None if busy else separated(earlier, figure)

    def by_one(self, node: OwnNode) -> Separated | None:
        """Return the factors from this poll and the derived H, or None if H is not known."""
        figure = self.poll.figures.get(node.address)
        busy = node.has_rows_in(self.poll.before, self.poll.after)
        if figure is None or busy or not node.has_known_times:
            return None
        health = node.health_at(self.poll.relay_now)
        least = health - health_slack(health)
        if least <= 0:
            return None
        long_term = figure.quality / health
        return Separated(long_term, health, figure.at, figure.quality / least - long_term)


def audited(watch: RelayWatch, contradictions: RowContradictions) -> RelayAudit:
    """Judge the nodes of a watched relay, from at least two polls."""
    rows = [watch.rows[number] for number in sorted(watch.rows)]
    looks = []
    for before, poll in zip([None, *watch.polls], watch.polls, strict=False):
        known = [row for row in rows if row.id <= poll.after]
        looks.append(_PollComparison(before, poll, compute_figures_from_rows(known, watch.times)))
    own = looks[-1].own
    judged = [_judged(own.nodes[address], looks) for address in sorted(own.nodes)]
    starts = sum(row.kind == "TaskStarted" for row in rows)
    ends = sum(row.kind.startswith("TaskEnd") for row in rows)
    return RelayAudit(
        nodes=_together(judged, own),
        rows=own.rows,
        first_id=own.first_id,
        last_id=own.last_id,
        headless=own.headless,
        polls=len(watch.polls),
        running=starts - ends,
        changed=watch.changed,
        contradictions=contradictions,
    )


# The audit of a node, and the node as derived at the deciding poll.
_Judged = tuple[NodeAudit, OwnNode]


def _judged(node: OwnNode, looks: Sequence[_PollComparison]) -> _Judged:
    """Judge a node by pairs of polls, or by single polls if it had rows between all of them."""
    found = _by(_PollComparison.by_two, node, looks) or _by(_PollComparison.by_one, node, looks)
    verdict, decided = found or (_beginning(node), node)
    return _with_kicks(verdict, node, looks[-1].own), decided


def _by(
    taken_apart: Callable[[_PollComparison, OwnNode], Separated | None],
    node: OwnNode,
    looks: Sequence[_PollComparison],
) -> _Judged | None:
    """Return the judgement over the polls in order; the first difference decides."""
    agreed, found = 0, None
    for look in looks:
        known = look.own.nodes.get(node.address)
        told = None if known is None else taken_apart(look, known)
        if known is None or told is None:
            continue
        verdict = _compared(known, told, look, agreed)
        found = verdict, known
        if verdict.verdict is Verdict.DIFFERS:
            break
        agreed = look.poll.before if verdict.verdict is Verdict.AGREES else agreed
    return found


def _beginning(node: OwnNode) -> NodeAudit:
    lowest, highest = node.long_term_bounds()
    return NodeAudit(
        node=node.address,
        verdict=Verdict.UNPROVEN,
        ours=node.long_term(),
        theirs=None,
        our_health=None,
        their_health=None,
        excluded=False,
        groups=len(node.scores),
        zeros=node.derived,
        lowest=lowest,
        highest=highest,
        why="it worked between all polls, or is not listed",
    )


def _compared(node: OwnNode, told: Separated, look: _PollComparison, agreed: int) -> NodeAudit:
    now = look.poll.relay_now
    health = node.health_at(now) if node.has_known_times else None
    line = replace(
        _beginning(node),
        theirs=told.long_term,
        slack=told.slack,
        our_health=health,
        their_health=told.health_at(look.poll.figures[node.address].at),
        excluded=look.poll.figures[node.address].is_excluded,
        why="",
    )
    if not _is_known(node, look.own):
        why = f"{len(node.scores)} of {RELAY.pool_size} scores since row {look.own.first_id}"
        return replace(line, why=why)
    if abs(line.ours - told.long_term) > told.slack:
        if line.lowest - told.slack <= told.long_term <= line.highest + told.slack:
            between = f"{line.lowest:.4f} and {line.highest:.4f}"
            return replace(line, why=f"rows cannot tell some scores: between {between}")
        if _is_doubted(node):
            return replace(line, why=f"groups beside row {node.doubted_at} are ambiguous")
        claim = Claim(told.long_term, told.slack, agreed)
        parting = score_parting(node, claim, by_group(look.own.nodes))
        return replace(line, verdict=Verdict.DIFFERS, parting=parting)
    if health is not None:
        parted = judged_health(node, told, health, look.poll)
        if parted is not None:
            return replace(line, verdict=Verdict.DIFFERS, parting=parted)
    return replace(line, verdict=Verdict.AGREES)


def _is_known(node: OwnNode, own: OwnFigures) -> bool:
    """Return whether the rows have every score of the pool."""
    return own.first_id == 1 or len(node.scores) >= RELAY.pool_size


def _is_doubted(node: OwnNode) -> bool:
    """Return whether one of the counted scores may belong to a group that was left out."""
    window = node.scores[-RELAY.pool_size :]
    oldest = window[0].at.log if len(node.scores) >= RELAY.pool_size else 0
    return node.doubted_at > oldest


def _with_kicks(line: NodeAudit, node: OwnNode, own: OwnFigures) -> NodeAudit:
    """Return the audit, with the verdict DIFFERS if a kickout had no cause."""
    if not _is_known(node, own) or _is_doubted(node) or line.lowest < line.highest:
        return line
    parting = kick_parting(node)
    if parting is None or (line.parting is not None and 0 < line.parting.row <= parting.row):
        return line
    return replace(line, verdict=Verdict.DIFFERS, parting=parting, why="")


def _together(judged: Sequence[_Judged], own: OwnFigures) -> list[NodeAudit]:
    """Replace the divergences of several nodes by a single cause that explains them all."""
    found = [one for one, _ in judged]
    claims = [
        (node, Claim(one.theirs, one.slack))
        for one, node in judged
        if one.verdict is Verdict.DIFFERS and one.parting is not None
        if one.theirs is not None and one.parting.kind in _OF_SCORES
    ]
    shared = _shared_swap(claims, own)
    if shared:
        return [replace(one, parting=shared.get(one.node, one.parting)) for one in found]
    spans = [restart_spans(node, claim) for node, claim in claims]
    restart = common_restart(spans) if len(spans) > 1 else None
    if restart is None:
        return found
    of_scores = {node.address for node, _ in claims}
    return [
        replace(one, parting=restart)
        if one.node in of_scores or _is_next_row(one, restart)
        else one
        for one in found
    ]


def _is_next_row(one: NodeAudit, restart: Parting) -> bool:
    """Return whether a kickout followed from a pool that a restart had filled."""
    return (
        one.parting is not None
        and one.parting.kind in _OF_KICKS
        and (one.parting.row > restart.row)
    )


def _shared_swap(
    claims: Sequence[tuple[OwnNode, Claim]], own: OwnFigures
) -> dict[Address, Parting]:
    """Return the first group in which two of these nodes may have each other's score."""
    groups, fitting = by_group(own.nodes), dict[int, dict[Address, Parting]]()
    for node, claim in claims:
        for parting in swapped(node, claim, groups):
            fitting.setdefault(parting.row, {})[node.address] = parting
    shared = [row for row, nodes in fitting.items() if len(nodes) > 1]
    return fitting[min(shared)] if shared else {}
