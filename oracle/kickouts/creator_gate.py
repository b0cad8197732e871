"""Holds a kickout for an operator if it depends on one creator's tasks or on derived zeros.

The gate only decides who proposes the kickout. No score and no report depends on the gate. See
docs/explanation/kickouts.md#held-for-a-person.
"""

from collections.abc import Sequence

from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.ids import Address, TaskKey
from oracle.domain.reports.kickout_evidence import (
    KickoutEvidence,
    compute_creator_spread,
    find_derived_zeros_reason,
)
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.scoring.rules import Rules
from oracle.store.database import UnitOfWork


def load_creators(
    uow: UnitOfWork, interval: KickoutDue, entries: Sequence[ScoreEntry]
) -> dict[TaskKey, Address]:
    """Return the creators of the scored tasks that were known when the interval opened, by task.

    A chain may emit the creator after the score. Such a creator must not change the evidence.
    """
    tasks = uow.tasks.get_many([entry.task for entry in entries]).values()
    return {
        task.key: task.creator
        for task in tasks
        if task.creator is not None
        and task.created_at is not None
        and task.created_at <= interval.opened_at
    }


def find_hold_reason(
    evidence: KickoutEvidence | None,
    kick: Kick | None,
    entries: Sequence[ScoreEntry],
    rules: Rules,
) -> str | None:
    """Return why only an operator may propose the kickout, or None if the daemon may do so."""
    is_live = kick is not None and kick.state is KickState.LIVE
    if evidence is None or is_live:
        return None
    return evidence.spread.find_hold_reason(rules) or find_derived_zeros_reason(entries, rules)


def is_operator_required(
    uow: UnitOfWork, interval: KickoutDue, entries: Sequence[ScoreEntry], rules: Rules
) -> bool:
    """Return whether only an operator could propose a kickout on these scores."""
    creators = load_creators(uow, interval, entries)
    spread = compute_creator_spread(
        ((creators.get(entry.task), entry.score) for entry in entries), rules
    )
    return (
        spread.find_hold_reason(rules) or find_derived_zeros_reason(entries, rules)
    ) is not None
