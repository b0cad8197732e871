"""Changes of the contract's rules, from their announcement until they are in force."""

from dataclasses import replace

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    OperationCancelled,
    OperationSalted,
    RulesEvent,
    RulesExecuted,
    RulesScheduled,
    RulesSet,
)
from oracle.domain.ids import Hash
from oracle.domain.reports.rules_changes import (
    RulesChanges,
    RulesState,
    apply_rules_event,
    list_changes_in_force,
    list_pending_changes,
)

OLD, NEW, OTHER = (Hash(f"0x{digit * 64}") for digit in "abc")
OPERATION, OTHER_OPERATION = (Hash(f"0x{digit * 64}") for digit in "12")
SALT = Hash("0x" + "5" * 64)
READY_AT = 700


def at(block: int, log: int = 0) -> Position:
    return Position(block, 0, log)


DEPLOYED = RulesSet(at(1), 10, OLD)
SCHEDULED = RulesScheduled(at(10), 100, OPERATION, NEW, READY_AT)
SALTED = OperationSalted(at(10, 1), 100, OPERATION, SALT)
CANCELLED = OperationCancelled(at(20), 200, OPERATION)
EXECUTED = (RulesSet(at(80, 0), 800, NEW), RulesExecuted(at(80, 2), 800, OPERATION, NEW))


def fold(*events: RulesEvent) -> RulesChanges:
    changes: RulesChanges = ()
    for event in events:
        changes = apply_rules_event(changes, event)
    return changes


def test_scheduled_change_is_ready_after_delay():
    _, change = fold(DEPLOYED, SCHEDULED, SALTED)

    assert (change.rules_hash, change.salt) == (NEW, SALT)
    assert change.get_state(READY_AT - 1) is RulesState.SCHEDULED
    assert change.get_state(READY_AT) is RulesState.READY


def test_cancelled_change_is_not_pending():
    changes = fold(DEPLOYED, SCHEDULED, CANCELLED)

    assert not list_pending_changes(changes)
    assert changes[-1].get_state(READY_AT) is RulesState.CANCELLED


def test_rescheduled_change_is_listed_separately():
    again = replace(SCHEDULED, at=at(30), time=300, ready_at=900)
    changes = fold(SCHEDULED, CANCELLED, again)

    assert [change.get_state(400) for change in changes] == [
        RulesState.CANCELLED,
        RulesState.SCHEDULED,
    ]
    assert changes[1].scheduled == again


def test_executed_change_is_merged_with_its_announcement():
    changes = fold(DEPLOYED, SCHEDULED, SALTED, *EXECUTED)

    assert len(changes) == 2
    assert (changes[1].scheduled, changes[1].set_by) == (SCHEDULED, EXECUTED[0])
    assert changes[1].get_state(800) is RulesState.SET
    assert [change.rules_hash for change in list_changes_in_force(changes)] == [OLD, NEW]


def test_direct_rules_change_leaves_the_announcement_pending():
    changes = fold(SCHEDULED, RulesSet(at(50), 500, NEW))

    assert [change.is_pending for change in changes] == [True, False]


def test_effective_changes_are_sorted_by_effective_time():
    later = RulesScheduled(at(11), 110, OTHER_OPERATION, OTHER, READY_AT)
    executed_first = (
        RulesSet(at(70), 700, OTHER),
        RulesExecuted(at(70, 1), 700, OTHER_OPERATION, OTHER),
    )
    changes = fold(DEPLOYED, SCHEDULED, later, *executed_first, *EXECUTED)

    assert [change.rules_hash for change in list_changes_in_force(changes)] == [OLD, OTHER, NEW]


def test_unrelated_timelock_operation_is_ignored():
    changes = fold(DEPLOYED, SCHEDULED)

    for event in (
        OperationCancelled(at(20), 200, OTHER_OPERATION),
        OperationSalted(at(20), 200, OTHER_OPERATION, SALT),
        RulesExecuted(at(20), 200, OTHER_OPERATION, OTHER),
    ):
        assert apply_rules_event(changes, event) is changes
