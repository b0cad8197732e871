"""Who gets which index: a function of the chain, whatever order things became known in."""

from dataclasses import replace

from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import TaskTimedOut
from oracle.domain.events.oracle_events import IndexReuse, KickProposed, LimitsSet, Registrations
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import ZERO_HASH
from oracle.domain.reports.lanes import DO_NOT_SELECT, replace_lane
from oracle.domain.reports.registration import (
    FirstEvents,
    Newcomer,
    choose_registrations,
    find_reusable_indexes,
    is_reportable,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History
from tests.support.rounds import accepted, address, registered, take

NOW = 1_000
MANY = 1_024
A, B, C, D = map(address, (0xA, 0xB, 0xC, 0xD))
positions = st.builds(Position, *4 * [st.integers(0, 3)])
newcomers = st.lists(
    st.builds(Newcomer, positions, st.integers(0, 2), st.integers(1, 9).map(address)),
    unique_by=lambda one: one.node,
)


def closed(*indexes: int) -> dict[int, int]:
    """The first word with these lanes closed and the others open."""
    word = 0
    for index in range(4):
        word = replace_lane(word, index, DO_NOT_SELECT if index in indexes else 5002)
    return {0: word}


def nobody_is_a_member(_):
    return set()


def with_limit(rounds, max_registrations: int):
    rounds.fold_block(
        1, [LimitsSet(Position(1, 5, 0), 0, max_registrations, 1000, 2500)], journal=False
    )
    return rounds


@given(newcomers, st.randoms(use_true_random=False), st.integers(0, 4))
def test_registration_is_independent_of_newcomer_order(drawn_newcomers, shuffler, free):
    rounds = registered(*map(address, range(100, 104)), words=closed(0, 1, 2, 3))
    mixed = list(drawn_newcomers)
    shuffler.shuffle(mixed)

    registrations = choose_registrations(rounds, mixed, list(range(free)), MANY)

    assert registrations == choose_registrations(rounds, drawn_newcomers, list(range(free)), MANY)
    assert list(registrations.new_nodes) == [newcomer.node for newcomer in sorted(drawn_newcomers)]


@given(newcomers, st.integers(0, 4), st.integers(0, 5))
def test_newcomers_take_free_indexes_before_new_ones_are_appended(
    drawn_newcomers, free, max_registrations
):
    rounds = with_limit(
        registered(*map(address, range(100, 104)), words=closed()), max_registrations
    )

    registrations = choose_registrations(rounds, drawn_newcomers, list(range(free)), MANY)
    indexes = registrations.compute_assigned_indexes(rounds.index_by_node, rounds.node_count)

    chosen = [newcomer.node for newcomer in sorted(drawn_newcomers)[:max_registrations]]
    assert list(registrations.new_nodes) == chosen
    assert list(indexes) == [*range(free)][: len(chosen)] + [
        4 + place for place in range(max(0, len(chosen) - free))
    ]


@given(newcomers, st.integers(0, 40), st.sets(st.integers(0, 39)), st.integers(1, 4))
def test_registered_newcomers_fit_within_max_words(drawn_newcomers, holder_count, free, max_words):
    holders = [address(100 + place) for place in range(holder_count)]
    rounds = registered(*holders, words={})
    free = sorted(index for index in free if index < holder_count)

    registrations = choose_registrations(rounds, drawn_newcomers, free, max_words)

    every = list(registrations.compute_assigned_indexes(rounds.index_by_node, rounds.node_count))
    new = range(holder_count, holder_count + len(drawn_newcomers))
    following = (
        [*free, *new][len(every) : len(every) + 1] if len(every) < len(drawn_newcomers) else []
    )
    word_indexes = {index // 16 for index in every}
    assert len(word_indexes) <= max_words
    # One more, and they would not do.
    assert all(len(word_indexes | {index // 16}) > max_words for index in following)


def test_newcomers_of_same_group_follow_group_order_then_address():
    at = Position(5, 1, 2)
    arrivals = [Newcomer(at, 1, A), Newcomer(at, 0, C), Newcomer(at, 1, B)]

    assert choose_registrations(registered(), arrivals, [], MANY).new_nodes == (C, A, B)


def test_newcomers_beyond_the_limit_come_first_in_the_next_round():
    rounds = with_limit(registered(), 2)
    arrivals = [Newcomer(Position(number, 0, 0), 0, address(number)) for number in (3, 1, 2)]

    first = choose_registrations(rounds, arrivals, [], MANY)
    take(rounds, accepted(2, closed(), first))
    remaining = [newcomer for newcomer in arrivals if newcomer.node not in rounds.index_by_node]

    assert first.appended == (address(1), address(2))
    assert choose_registrations(rounds, remaining, [], MANY).appended == (address(3),)


def test_index_is_free_after_two_rounds_with_closed_lane():
    rounds = registered(A, B, words=closed(0))
    assert find_reusable_indexes(rounds, NOW, nobody_is_a_member) == []

    take(rounds, accepted(2, {}))
    assert find_reusable_indexes(rounds, NOW, nobody_is_a_member) == [0]


def test_reopened_lane_restarts_count_of_closed_rounds():
    rounds = registered(A, words=closed(0))
    take(rounds, accepted(2, closed()))
    take(rounds, accepted(3, closed(0)))
    assert find_reusable_indexes(rounds, NOW, nobody_is_a_member) == []

    take(rounds, accepted(4, {}))
    assert find_reusable_indexes(rounds, NOW, nobody_is_a_member) == [0]


def test_index_of_member_is_never_free():
    rounds = registered(A, B, words=closed(0, 1))
    take(rounds, accepted(2, {}))

    assert find_reusable_indexes(rounds, NOW, lambda nodes: {A} & set(nodes)) == [1]


def test_index_of_node_with_pending_kick_is_not_free():
    rounds = registered(A, words=closed(0))
    take(rounds, accepted(2, {}))
    kick = KickProposed(Position(3, 0, 0), 0, A, 2, ZERO_HASH, ready_at=NOW, dies_at=NOW + 10)
    rounds.fold_block(3, [kick], journal=False)

    assert find_reusable_indexes(rounds, NOW + 10, nobody_is_a_member) == []
    assert find_reusable_indexes(rounds, NOW + 11, nobody_is_a_member) == [0]


def test_reused_index_belongs_to_new_node():
    rounds = registered(A, words=closed(0))
    take(rounds, accepted(2, {}))
    take(rounds, accepted(3, closed(), Registrations((IndexReuse(B, A),))))

    assert (rounds.index_by_node, rounds.indexes[0].node) == ({B: 0}, B)
    assert rounds.get_node_lane(A) == 0
    assert find_reusable_indexes(rounds, NOW, nobody_is_a_member) == []


def folded(history: History):
    fold, first = Fold(CRYNUX), FirstEvents(1)
    fold.fold_events(history.events)
    first.record_changes(fold.drain_changes())
    return fold.ledger.nodes, first


def test_node_without_tasks_is_not_registered():
    nodes, first = folded(History().joins("A").pauses("A"))
    (node,) = nodes.values()

    assert not is_reportable(node, 10**9, CRYNUX, 1)
    assert first.find_newcomer(node.address) is None


def test_excluded_node_is_registered_at_its_first_timeout():
    history = History().joins("A")
    for task in "12345":
        history.starts(task, "A").after(60).times_out(task)
    nodes, _ = folded(history)
    (node,) = nodes.values()
    fold, first = Fold(CRYNUX), FirstEvents(99)
    fold.fold_events(history.events)
    first.record_changes(fold.drain_changes())
    timeouts = [event.at for event in history.events if isinstance(event, TaskTimedOut)]

    assert is_reportable(node, history.events[-1].time, CRYNUX, 99)
    assert first.find_newcomer(node.address) == Newcomer(timeouts[0], 0, node.address)


def test_departed_node_is_not_a_newcomer():
    nodes, _ = folded(History().joins("A").starts("1", "A").after(60).times_out("1").quits("A"))
    (node,) = nodes.values()

    assert not is_reportable(node, 0, CRYNUX, 1)


@given(st.integers(0, 4), st.integers(1, 4))
def test_registration_requires_min_scores(scored, needed):
    nodes, _ = folded(History().joins("A"))
    (node,) = nodes.values()

    assert is_reportable(replace(node, scored=scored), 0, CRYNUX, needed) is (scored >= needed)
