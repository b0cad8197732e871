"""The contract's state folded from its events: rounds, strikes, signers, kickouts, undo."""

from dataclasses import replace

import pytest

from oracle.domain.events.oracle_events import (
    ConfigSet,
    ContractEvent,
    ContractKickLimits,
    KickAccused,
    KickAllowed,
    KickExecuted,
    KickLimitsSet,
    RoundsStruck,
    SignersSet,
)
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address
from oracle.domain.reports.contract_state import ContractState
from oracle.errors import FatalError
from tests.support.contract_histories import (
    AT,
    CONFIG,
    KEPT,
    NEXT_CONFIG,
    SIGNERS,
    TIME,
    build_accepted_round,
    get_root,
    make_root,
)
from tests.support.rounds import make_address


def fold_events(*events: ContractEvent) -> ContractState:
    state = ContractState(KEPT)
    state.fold_block(1, list(events), journal=False)
    return state


def rounds(last: int) -> list[ContractEvent]:
    return [build_accepted_round(number) for number in range(1, last + 1)]


# --- rounds ---


def test_state_before_first_round_has_no_root():
    state = ContractState(KEPT)

    assert (state.head, state.head_round) == (None, 0)
    assert (state.previous_root, get_root(state, 0)) == (ZERO_HASH, None)


def test_only_roots_of_kept_rounds_are_returned():
    state = fold_events(*rounds(6))

    assert state.head == build_accepted_round(6)
    assert state.previous_root == make_root(6)
    roots = [get_root(state, number) for number in range(8)]
    assert roots == [
        None,
        None,
        None,
        make_root(3),
        make_root(4),
        make_root(5),
        make_root(6),
        None,
    ]


def test_struck_rounds_have_no_root_and_no_successor_refers_to_them():
    state = fold_events(*rounds(5), RoundsStruck(AT, TIME, 4, 5))

    assert state.head_round == 5
    assert state.previous_root == ZERO_HASH
    assert [get_root(state, number) for number in (3, 4, 5)] == [make_root(3), None, None]


def test_next_report_refers_to_the_round_after_the_struck_ones():
    state = fold_events(*rounds(5), RoundsStruck(AT, TIME, 4, 5), build_accepted_round(6))

    assert state.previous_root == make_root(6)
    assert [get_root(state, number) for number in (4, 5, 6)] == [None, None, make_root(6)]


def test_struck_round_stays_struck_after_loading():
    strike = RoundsStruck(AT, TIME, 5, 5)
    state = ContractState(
        KEPT, accepted_rounds=map(build_accepted_round, range(1, 6)), strikes=[strike]
    )

    assert state.previous_root == ZERO_HASH
    assert [get_root(state, number) for number in (1, 4)] == [None, make_root(4)]


@pytest.mark.parametrize(
    "event", [build_accepted_round(5), build_accepted_round(3), RoundsStruck(AT, TIME, 2, 4)]
)
def test_event_that_skips_a_round_raises_fatal_error(event: ContractEvent):
    with pytest.raises(FatalError, match=r"does not follow round 3; a log is missing"):
        fold_events(*rounds(3), event)


def test_first_indexed_round_can_have_any_number():
    assert fold_events(build_accepted_round(9)).head_round == 9


# --- signers ---


def test_signer_bitmap_is_resolved_by_round_configuration():
    state = fold_events(
        SignersSet(AT, TIME, SIGNERS, 2),
        ConfigSet(AT, TIME, 1, CONFIG),
        SignersSet(AT, TIME, SIGNERS[1:], 2),
        ConfigSet(AT, TIME, 2, NEXT_CONFIG),
    )

    before = build_accepted_round(1, bitmap=0b101)
    after = build_accepted_round(2, config=NEXT_CONFIG, bitmap=0b11)
    assert state.settings.find_round_signers(before) == (SIGNERS[0], SIGNERS[2])
    assert state.settings.find_round_signers(after) == SIGNERS[1:]


def test_new_rules_configuration_keeps_signers():
    state = fold_events(
        SignersSet(AT, TIME, SIGNERS, 2),
        ConfigSet(AT, TIME, 1, CONFIG),
        ConfigSet(AT, TIME, 2, NEXT_CONFIG),
    )

    signers = state.settings.find_round_signers(
        build_accepted_round(1, config=NEXT_CONFIG, bitmap=0b10)
    )
    assert signers == (SIGNERS[1],)


def test_signers_set_before_the_first_indexed_block_are_unknown():
    assert (
        fold_events(ConfigSet(AT, TIME, 2, CONFIG)).settings.find_round_signers(
            build_accepted_round(1)
        )
        is None
    )


def test_signer_bit_beyond_the_last_signer_is_rejected():
    state = fold_events(SignersSet(AT, TIME, SIGNERS, 2), ConfigSet(AT, TIME, 1, CONFIG))

    with pytest.raises(ValueError, match="has a bit beyond the 3 signers"):
        state.settings.find_round_signers(build_accepted_round(1, bitmap=0b1000))


def test_accusation_survives_change_of_signers():
    node = make_address(1)
    state = fold_events(
        KickAccused(AT, TIME, node, 1, 100, ZERO_HASH, 200), ConfigSet(AT, TIME, 2, CONFIG)
    )

    assert state.kicks[node].is_accused


def test_changed_cooldown_does_not_affect_a_running_expulsion():
    node = make_address(1)
    limits = ContractKickLimits(1, 50, 1, 1, 1)
    state = fold_events(
        KickLimitsSet(AT, TIME, limits),
        KickAccused(AT, TIME, node, 1, 100, ZERO_HASH, 200),
        KickExecuted(AT, 300, node, ZERO_HASH, ZERO_ADDRESS),
        KickLimitsSet(AT, TIME, replace(limits, kick_cooldown=99)),
    )

    assert state.kicks[node].is_expelled(349)
    assert not state.kicks[node].is_expelled(350)


# --- pre-images ---


def test_block_without_kickouts_has_no_pre_image():
    state = ContractState(KEPT)
    state.fold_block(1, [build_accepted_round(1), SignersSet(AT, TIME, SIGNERS, 2)], journal=True)

    assert state.drain_changes().pre_images == []
    assert state.drain_changes().accepted == []


def test_pre_image_of_a_kickout_is_its_state_before_the_block():
    node: Address = make_address(1)
    state = ContractState(KEPT)
    state.fold_block(4, [KickAllowed(AT, TIME, node, 5)], journal=True)
    before = state.kicks[node]
    state.fold_block(
        5, [KickAllowed(AT, TIME, node, 6), KickAllowed(AT, TIME, node, 7)], journal=True
    )

    images = state.drain_changes().pre_images
    assert [(image.block, image.kicks) for image in images] == [
        (4, {node: None}),
        (5, {node: before}),
    ]
