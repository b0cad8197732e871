"""Judges what a relay says of a node's reliability H, and of being excluded by it."""

from oracle.domain.fixed_point import UNIT
from oracle.queries.relay_audit.own_figures import OwnNode
from oracle.queries.relay_audit.partings import Parting, health_parting
from oracle.queries.relay_audit.relay_watch import Poll
from oracle.queries.relay_audit.separation import Separated
from oracle.systems.crynux.crynux_rule_sets import RELAY

# A timeout may be a poll earlier than we saw it, and the relay counts fractions of seconds.
_SEEN_LATE_SECONDS = 4.0
_HEALTH_SLACK = 0.002
# What the relay calls excluded is not judged so near to a line of H.
_NEAR_LINE = 0.01
_LINES = (0.2, 0.8)


def health_slack(health: float) -> float:
    """Return by how much two readers' H may differ: rows were seen later than they happened."""
    return _HEALTH_SLACK + (1 - health) * _SEEN_LATE_SECONDS / RELAY.tau_seconds


def judged_health(node: OwnNode, told: Separated, health: float, poll: Poll) -> Parting | None:
    """Return where H, or being excluded, parts; `health` is ours at the poll; None: nowhere."""
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
    """Tell whether it hangs by a hair whether the node is excluded.

    Between the two lines it is what it was before: so the last H on either side of them decides,
    and any between that is so near to one that the relay's may be beyond it.
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
