"""Whether the network contract is called again to end the membership of an expelled node."""

from dataclasses import replace

import pytest

from oracle.domain.blocks import Position
from oracle.domain.ids import Address
from oracle.domain.reports.node_kicks import (
    MAX_SAME_REFUSALS,
    NEVER_EXPIRES,
    NO_TARGET,
    Expulsion,
    KickState,
    NodeKick,
)
from oracle.kickouts.kick_calls import is_kick_retry_due
from oracle.store.database import Store
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address

TARGET = Address("0x" + "7a" * 20)


def build_expelled(at: Position, target: Address = TARGET, expires_at: int = NEVER_EXPIRES):
    expulsion = Expulsion(at, 3, expires_at, target, 3, at)
    return NodeKick(make_node_address("A"), KickState.EXPELLED, expulsion=expulsion)


def build_refused(at: Position, refusals: int) -> NodeKick:
    expulsion = Expulsion(at, 3, NEVER_EXPIRES, TARGET, 3, at, refusals=refusals)
    return NodeKick(make_node_address("A"), KickState.REFUSED, expulsion=expulsion)


def is_due(store: Store, history: History, kick: NodeKick) -> bool:
    indexed = IndexedHistory(store).whole(history)
    with indexed.store.read_transaction() as uow:
        return is_kick_retry_due(uow, kick)


@pytest.mark.parametrize("timeouts", [0, 60])
def test_retry_is_due_for_a_rejoined_node_with_any_later_scores(store, timeouts):
    history = History().joins("A").quits("A").after(60)
    kick = build_expelled(history.joins("B").events[-1].at)
    history.after(60).joins("A")
    history.scores("A", *[0] * timeouts)
    assert is_due(store, history, kick)


def test_retry_is_not_due_for_node_that_never_left(store):
    history = History().joins("A", "B")
    assert not is_due(store, history, build_expelled(history.events[-1].at))


def test_retry_is_not_due_without_a_kick_target(store):
    history = History().joins("A").quits("A")
    kick = build_expelled(history.joins("B").events[-1].at, NO_TARGET)
    history.after(60).joins("A")
    assert not is_due(store, history, kick)


@pytest.mark.parametrize("change", [{"state": KickState.READMITTED}, {"expulsion": None}])
def test_retry_is_not_due_for_readmitted_node(store, change):
    history = History().joins("A").quits("A").after(60)
    kick = build_expelled(history.joins("B").events[-1].at)
    history.after(60).joins("A")
    assert not is_due(store, history, replace(kick, **change))


def test_retry_is_not_due_after_the_end_of_the_expulsion(store):
    history = History().joins("A").quits("A").after(60)
    kick = build_expelled(history.joins("B").events[-1].at, expires_at=history.time + 1)
    history.after(60).joins("A")
    assert not is_due(store, history, kick)


@pytest.mark.parametrize("refusals", range(1, MAX_SAME_REFUSALS + 2))
def test_rejected_kickout_is_retried_until_the_same_error_repeats(store, refusals):
    history = History().joins("A")
    kick = build_refused(history.events[-1].at, refusals)
    assert is_due(store, history, kick) is (refusals < MAX_SAME_REFUSALS)


def test_rejected_kickout_is_not_retried_after_node_quit(store):
    history = History().joins("A", "B").quits("A")
    assert not is_due(store, history, build_refused(history.events[0].at, 1))
