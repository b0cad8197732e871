"""The state of the oracle contract of roots is stored, loaded and undone."""

from itertools import groupby

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    ConfigSet,
    ContractEvent,
    KickAccused,
    KickAllowed,
    KickExecuted,
    KickRefused,
    RoundsStruck,
    SignersSet,
)
from oracle.domain.ids import ZERO_HASH
from oracle.domain.reports.contract_state import ContractSettings, ContractState
from oracle.domain.reports.node_kicks import NodeKick
from oracle.store.database import Store, UnitOfWork
from oracle.store.state import round_repository
from tests.support.contract_histories import (
    AT,
    CONFIG,
    KEPT,
    MAX_EVENTS,
    NEXT_CONFIG,
    SIGNERS,
    TIME,
    ContractView,
    build_accepted_round,
    contract_histories,
)
from tests.support.examples import examples
from tests.unit.store.folding import forget_everything
from tests.unit.store.samples import address, block

_LAST_BLOCK = MAX_EVENTS + 1
thorough = examples(50)


@pytest.fixture(autouse=True)
def _contract_that_keeps_few_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_repository, "KEPT_ROUNDS", KEPT)


def fold_into(uow: UnitOfWork, events: list[ContractEvent], *, final: int = 0) -> ContractState:
    """Fold on from the stored state, with a journal of the blocks above `final`."""
    state = uow.rounds.load_contract_state()
    for number, in_block in groupby(events, key=lambda event: event.at.block):
        state.fold_block(number, list(in_block), journal=number > final)
        uow.rounds.save_changes(state.drain_changes())
    uow.undo.prune_journal_to(final)
    uow.cursor.clear()
    uow.cursor.move_to(block(_LAST_BLOCK), None, 0)
    return state


def up_to(events: list[ContractEvent], last: int) -> list[ContractEvent]:
    return [event for event in events if event.at.block <= last]


@thorough
@given(
    events=contract_histories(),
    ancestor=st.integers(0, _LAST_BLOCK),
    final=st.integers(0, _LAST_BLOCK),
)
def test_rollback_to_block_equals_state_at_block(
    store: Store, events: list[ContractEvent], ancestor: int, final: int
):
    with store.transaction() as uow:
        forget_everything(uow)
        fold_into(uow, events, final=min(final, ancestor))
        uow.undo.rollback_to(ancestor)
        after = [*uow.projections.iterate_dump_lines()]
        view = ContractView.of(uow.rounds.load_contract_state())

        forget_everything(uow)
        state = fold_into(uow, up_to(events, ancestor))
        assert after == [*uow.projections.iterate_dump_lines()]
        assert view == ContractView.of(state)


@thorough
@given(events=contract_histories(), stop=st.integers(0, _LAST_BLOCK))
def test_reloaded_contract_state_folds_to_the_same_state(
    store: Store, events: list[ContractEvent], stop: int
):
    with store.transaction() as uow:
        forget_everything(uow)
        state = fold_into(uow, events)
        whole = [*uow.projections.iterate_dump_lines()]

        forget_everything(uow)
        earlier = up_to(events, stop)
        fold_into(uow, earlier)
        reloaded = fold_into(uow, events[len(earlier) :])
        assert [*uow.projections.iterate_dump_lines()] == whole
        assert ContractView.of(reloaded) == ContractView.of(state)
        assert ContractView.of(uow.rounds.load_contract_state()) == ContractView.of(state)


def test_empty_contract_state_has_no_round(store: Store):
    with store.read_transaction() as uow:
        state = uow.rounds.load_contract_state()
        assert (state.head, state.kicks, state.settings) == (None, {}, ContractSettings())
        assert uow.rounds.find_accepted_round(1) is None


def test_accepted_rounds_are_listed_up_to_a_block_or_round(store: Store):
    highest_bits = build_accepted_round(9, bitmap=2**256 - 1)
    events = [*map(build_accepted_round, range(1, 9)), highest_bits]
    with store.transaction() as uow:
        fold_into(uow, [*events])
        rounds = uow.rounds
        assert rounds.list_accepted(2) == events[-2:]
        assert rounds.list_accepted(2, up_to_block=5) == events[3:5]
        assert rounds.list_accepted_below(4, 2) == [events[2], events[1]]
        assert rounds.list_accepted_below(None, 1) == [highest_bits]
        assert rounds.list_accepted_since(40, 3, 2) == events[3:5]
        assert rounds.list_accepted_between(3, 5) == events[2:5]
        assert rounds.find_accepted_round(9) == highest_bits


def test_struck_rounds_are_listed_separately(store: Store):
    strikes = [
        RoundsStruck(Position(6, 0, 0), 60, 2, 3),
        RoundsStruck(Position(7, 0, 0), 70, 5, 5),
    ]
    with store.transaction() as uow:
        fold_into(
            uow,
            [
                *map(build_accepted_round, (1, 2, 3)),
                strikes[0],
                build_accepted_round(4),
                build_accepted_round(5),
                strikes[1],
            ],
        )
        assert [uow.rounds.is_struck(number) for number in range(1, 7)] == [
            *(False, True, True),
            *(False, True, False),
        ]
        assert uow.rounds.list_strikes(4) == strikes[1:]


def test_kickouts_are_listed_by_state(store: Store):
    accused, expelled, refused, allowed = (address(number) for number in (4, 3, 2, 1))
    events: list[ContractEvent] = [
        KickAccused(AT, TIME, accused, 1, 100, ZERO_HASH, 230),
        KickAccused(AT, TIME, expelled, 1, 100, ZERO_HASH, 220),
        KickAccused(AT, TIME, refused, 1, 100, ZERO_HASH, 210),
        KickExecuted(AT, TIME, expelled, ZERO_HASH, address(9)),
        KickExecuted(AT, TIME, refused, ZERO_HASH, address(9)),
        KickRefused(AT, TIME, refused, address(9), ZERO_HASH),
        KickAllowed(AT, TIME, allowed, 50),
    ]
    with store.transaction() as uow:
        kicks = fold_into(uow, events).kicks
        contract = uow.rounds
        assert contract.list_kicks() == [
            kicks[node] for node in (allowed, refused, expelled, accused)
        ]
        assert contract.list_accusations() == [kicks[accused]]
        assert contract.list_expulsions() == [kicks[refused], kicks[expelled]]
        assert contract.list_newest_kicks(2) == [kicks[expelled], kicks[accused]]
        assert contract.get_kick_by_node([allowed, address(8)]) == {
            allowed: NodeKick(allowed, allowed=50)
        }


@pytest.mark.parametrize(("up_to_block", "config"), [(None, NEXT_CONFIG), (2, CONFIG), (0, None)])
def test_contract_settings_as_of_block_are_loaded(
    store: Store, up_to_block: int | None, config: str | None
):
    events: list[ContractEvent] = [
        SignersSet(Position(1, 0, 0), 10, SIGNERS, 2),
        ConfigSet(Position(1, 0, 1), 10, 1, CONFIG),
        ConfigSet(Position(3, 0, 1), 10, 2, NEXT_CONFIG),
    ]
    with store.transaction() as uow:
        fold_into(uow, events)
        settings = uow.rounds.get_contract_settings(up_to_block=up_to_block)
    assert (settings.config.digest if settings.config else None) == config
