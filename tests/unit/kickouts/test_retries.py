"""Whether the network is asked once more to end the membership of who is expelled."""

import pytest

from oracle.domain.blocks import Position
from oracle.domain.ids import ZERO_HASH, Address
from oracle.domain.reports.expulsions import NEVER_EXPIRES, NO_TARGET, Expulsion
from oracle.domain.reports.kicks import Kick, KickState
from oracle.kickouts.kick_calls import is_retry_due
from oracle.store.database import Store
from tests.support.api import IndexedHistory
from tests.support.histories import History, node

TARGET = Address("0x" + "7a" * 20)


def kick_at(at: Position, target: Address = TARGET) -> Kick:
    expulsion = Expulsion(at, 3, NEVER_EXPIRES, target, 3, at)
    return Kick(node("A"), 3, ZERO_HASH, 0, NEVER_EXPIRES, at, KickState.EXECUTED, expulsion)


def is_due(store: Store, history: History, kick: Kick) -> bool:
    indexed = IndexedHistory(store).whole(history)
    with indexed.store.read_transaction() as uow:
        return is_retry_due(uow, kick)


@pytest.mark.parametrize("timeouts", [0, 60])
def test_retry_is_due_for_rejoined_node_regardless_of_later_scores(store, timeouts):
    history = History().joins("A").quits("A").after(60)
    kick = kick_at(history.joins("B").events[-1].at)
    history.after(60).joins("A")
    # However much happened since.
    history.scores("A", *[0] * timeouts)
    assert is_due(store, history, kick)


def test_retry_is_not_due_for_node_that_never_left(store):
    history = History().joins("A", "B")
    assert not is_due(store, history, kick_at(history.events[-1].at))


def test_retry_is_not_due_without_kick_target(store):
    history = History().joins("A").quits("A")
    kick = kick_at(history.joins("B").events[-1].at, NO_TARGET)
    history.after(60).joins("A")
    assert not is_due(store, history, kick)
