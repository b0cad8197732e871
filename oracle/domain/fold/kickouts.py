"""Opens and closes the spells in which a kickout is due (decision 10, scoring.md 5)."""

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import KickoutDue, WorkingSet
from oracle.domain.scoring.legacy_tally import tally_of
from oracle.domain.state.node import Membership, Node


def judge(ledger: WorkingSet, node: Node, at: Position) -> None:
    """Look at a node whose pool, window or membership has just changed."""
    rules = ledger.rules
    due = (
        node.membership is Membership.MEMBER
        and len(node.pool) == rules.pool_size
        and node.pool_sum < rules.kickout_below * rules.pool_size
    )
    opened = node.kickout_due_since
    if rules.legacy is not None:
        low = tally_of(node).is_too_low(rules.legacy)
        due = low and node.membership is Membership.MEMBER
    if due and opened is None:
        node.kickout_due_since = at
        ledger.changes.kickouts.append(KickoutDue(node.address, at, None))
    elif not due and opened is not None:
        node.kickout_due_since = None
        ledger.changes.kickouts.append(KickoutDue(node.address, opened, at))
