"""Rules changes of the contract: scheduled in its timelock, cancelled or in force."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from oracle.domain.events.oracle_events import (
    OperationCancelled,
    OperationSalted,
    RulesEvent,
    RulesExecuted,
    RulesScheduled,
    RulesSet,
)
from oracle.domain.ids import ZERO_HASH, Hash


class RulesState(StrEnum):
    """The state of a rules change.

    SCHEDULED means that the delay has not passed, and READY that anyone may execute the change.
    """

    SCHEDULED = "scheduled"
    READY = "ready"
    CANCELLED = "cancelled"
    SET = "set"


@dataclass(frozen=True, slots=True)
class RulesChange:
    """A rules change, from its scheduling in the timelock to the RulesSet event.

    `scheduled` is None if the change was made without the timelock, for example by the
    constructor. `set_by` is None until the change is made. `salt` is the salt of the timelock's
    operation, which is the hash of the reason if the operation was made by `rules announce`.
    """

    rules_hash: Hash
    scheduled: RulesScheduled | None = None
    salt: Hash = ZERO_HASH
    cancelled: OperationCancelled | None = None
    set_by: RulesSet | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the change was announced, but neither cancelled nor made."""
        return self.set_by is None and self.cancelled is None

    def get_state(self, time: int) -> RulesState:
        """Return the state of the change at a given block time."""
        if self.set_by is not None:
            return RulesState.SET
        if self.cancelled is not None:
            return RulesState.CANCELLED
        is_ready = self.scheduled is not None and self.scheduled.ready_at <= time
        return RulesState.READY if is_ready else RulesState.SCHEDULED


# Changes are ordered from oldest to newest. An announced change keeps the position of its
# announcement.
RulesChanges = tuple[RulesChange, ...]


def apply_rules_event(changes: RulesChanges, event: RulesEvent) -> RulesChanges:
    """Return the rules changes after an event.

    The result is `changes` itself if the event is about no change.
    """
    match event:
        case RulesSet():
            return (*changes, RulesChange(event.rules_hash, set_by=event))
        case RulesScheduled():
            return (*changes, RulesChange(event.rules_hash, scheduled=event))
        case OperationSalted():
            return _update_announced_changes(
                changes, event.operation, lambda change: replace(change, salt=event.salt)
            )
        case OperationCancelled():
            return _update_announced_changes(
                changes, event.operation, lambda change: replace(change, cancelled=event)
            )
        case RulesExecuted():
            return _join_announcement_with_rules_set(changes, event)


def _update_announced_changes(
    changes: RulesChanges, operation: Hash, update: Callable[[RulesChange], RulesChange]
) -> RulesChanges:
    """Apply `update` to the changes that an operation announced, and return all changes."""
    if not any(_is_scheduled_by(change, operation) for change in changes):
        return changes
    return tuple(
        update(change) if _is_scheduled_by(change, operation) else change for change in changes
    )


def _join_announcement_with_rules_set(changes: RulesChanges, event: RulesExecuted) -> RulesChanges:
    """Merge an announcement with the RulesSet event emitted when it was executed.

    The RulesSet event comes just before the event of the execution.
    """
    newest_change = changes[-1] if changes else None
    if (
        newest_change is None
        or newest_change.set_by is None
        or newest_change.set_by.rules_hash != event.rules_hash
    ):
        return changes
    for index, change in enumerate(changes):
        if _is_scheduled_by(change, event.operation) and change.rules_hash == event.rules_hash:
            joined_change = replace(change, set_by=newest_change.set_by)
            return (*changes[:index], joined_change, *changes[index + 1 : -1])
    return changes


def _is_scheduled_by(change: RulesChange, operation_id: Hash) -> bool:
    return (
        change.is_pending
        and change.scheduled is not None
        and change.scheduled.operation == operation_id
    )


def list_changes_in_force(changes: RulesChanges) -> list[RulesChange]:
    """Return the changes that took effect, oldest first."""
    effective_changes = [change for change in changes if change.set_by is not None]
    return sorted(effective_changes, key=lambda change: change.set_by.at if change.set_by else ())


def get_rules_in_force(changes: RulesChanges) -> RulesChange | None:
    """Return the newest rules change in force, or None if there is none.

    A change is in force once the contract emitted RulesSet.
    """
    effective_changes = list_changes_in_force(changes)
    return effective_changes[-1] if effective_changes else None


def list_pending_changes(changes: RulesChanges) -> list[RulesChange]:
    """Return the changes that are announced but not yet made, oldest first."""
    return [change for change in changes if change.is_pending]
