"""Contradictions between a relay's rows and the chain's stakes are listed, and nothing else is."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from devnet.relay.relay_nodes import RELAY_NODES, RelayLies
from oracle.domain.feed_rows import FeedRow
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.queries.relay_audit.contradictions import ChainStakes, find_contradictions
from tests.integration.relay.watched_relay import START, history_of, rows_of
from tests.support.examples import examples

PATIENCE = 600
POLL = 5
NODE = Address("0x" + "ab" * 20)
LATE = START + 10**6
STAKES = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 9)), min_size=1, max_size=8)


def add_arrival_times(rows: list[FeedRow], times: list[float]) -> list[FeedRow]:
    """Return the rows with the times at which a reader that polls every few seconds has them."""
    return [
        replace(row, seen_from=int(time), seen_to=int(time) + POLL)
        for row, time in zip(rows, times, strict=True)
    ]


def row(number: int, kind: str, **args: object) -> FeedRow:
    row_args = {"node_address": NODE, "network": "base", **args}
    return FeedRow(number, kind, NODE, "", json.dumps(row_args))


def staking(number: int, stake: int, network: str = "base") -> FeedRow:
    return row(number, "NodeStaking", staking_amount=str(stake), network=network)


def kinds(rows: list[FeedRow], chain: ChainStakes | None) -> list[tuple[int, str]]:
    contradictions = find_contradictions(rows, chain, PATIENCE).found
    return [(contradiction.row, contradiction.kind) for contradiction in contradictions]


def test_no_contradiction_is_found_in_the_rows_of_an_honest_relay():
    assert kinds(rows_of(history_of(3600)), None) == []


@given(place=st.integers(0, 400))
@examples(25)
def test_answer_by_a_node_that_does_not_have_the_task_is_reported(place: int):
    rows = rows_of(history_of(3600))
    answers = [at for at, feed_row in enumerate(rows) if feed_row.kind == "TaskScoreReady"]
    at = answers[place % len(answers)]
    forged = {**json.loads(rows[at].args), "selected_node": NODE}
    rows[at] = replace(rows[at], node=NODE, args=json.dumps(forged))

    assert kinds(rows, None) == [(rows[at].id, "other_node")]


@given(steps=STAKES, lag=st.integers(0, PATIENCE))
@examples(100)
def test_no_contradiction_is_found_if_the_relay_follows_the_chain_in_time(
    steps: list[tuple[int, int]], lag: int
):
    changes, time = [], START
    for gap, stake in steps:
        time += gap
        changes.append((time, stake * 10**18))
    rows = add_arrival_times(
        [staking(number, stake) for number, (_, stake) in enumerate(changes, 1)],
        [at + lag for at, _ in changes],
    )

    assert kinds(rows, ChainStakes(LATE, {NODE: changes})) == []


@given(steps=STAKES, place=st.integers(0, 7))
@examples(100)
def test_stake_that_never_existed_on_chain_is_reported(steps: list[tuple[int, int]], place: int):
    changes = [(START + 700 * at, stake) for at, (_, stake) in enumerate(steps)]
    rows = [staking(number, stake) for number, (_, stake) in enumerate(changes, 1)]
    lie = place % len(rows)
    rows[lie] = staking(lie + 1, 10)

    contradictions = kinds(
        add_arrival_times(rows, [at for at, _ in changes]), ChainStakes(LATE, {NODE: changes})
    )

    assert contradictions == [(lie + 1, "stake")]


@pytest.mark.parametrize(
    ("unstaked", "expected"),
    [
        ([], [(1, "kick_without_unstake")]),
        ([(START + 100 + PATIENCE // 2, 0)], []),
        ([(START + 99, 0)], []),
        ([(START + 200 + 2 * PATIENCE, 0)], [(1, "kick_without_unstake")]),
        # It left before, and joined again.
        ([(START - 900, 0), (START - 800, 5)], [(1, "kick_without_unstake")]),
    ],
)
def test_kicked_out_node_must_unstake_within_the_deadline(
    unstaked: list[tuple[int, int]], expected: list[tuple[int, str]]
):
    kick = add_arrival_times([row(1, "NodeKickedOut")], [START + 100])
    chain = ChainStakes(LATE, {NODE: sorted([(START - 1000, 5), *unstaked])})

    assert kinds(kick, chain) == expected


def test_kickout_before_the_first_poll_is_checked_against_all_stakes():
    kick = [replace(row(1, "NodeKickedOut"), seen_from=LATE - 5000, seen_to=LATE - 5000)]

    assert kinds(kick, ChainStakes(LATE, {NODE: [(START, 5)]})) == [(1, "kick_without_unstake")]
    stakes = [(START, 5), (START + 1, 0), (START + 2, 7)]
    assert kinds(kick, ChainStakes(LATE, {NODE: stakes})) == []
    # A node that never had a stake on this chain has none to lose.
    assert kinds(kick, ChainStakes(LATE, {})) == []


def test_rows_later_than_the_indexed_chain_are_not_checked():
    kick = add_arrival_times([row(1, "NodeKickedOut")], [START + 100])
    early = ChainStakes(START + 100 + PATIENCE, {NODE: [(START, 5)]})

    assert find_contradictions(kick, early, PATIENCE).unjudged == 1
    unseen = [row(1, "NodeKickedOut"), staking(2, 8)]
    report = find_contradictions(unseen, ChainStakes(LATE, {NODE: [(START, 5)]}), PATIENCE)
    assert (report.found, report.unjudged) == ([], 2)


def test_rows_of_other_networks_are_ignored():
    rows = add_arrival_times([staking(1, 5), staking(2, 6, "near")], [START + 1, START + 2])
    stakes = {NODE: [(START, 5)]}

    with pytest.raises(InputError, match="base, near"):
        find_contradictions(rows, ChainStakes(LATE, stakes), PATIENCE)
    assert kinds(rows, ChainStakes(LATE, stakes, "base")) == []
    assert kinds(rows, ChainStakes(LATE, stakes, "near")) == [(2, "stake")]


def test_fabricated_kickout_without_unstaking_is_reported():
    history = history_of(3600, RelayLies(early_kick=20))
    (kick,) = [timed_row for timed_row in history.rows if timed_row.row.type == "NodeKickedOut"]
    rows = add_arrival_times(rows_of(history), [timed_row.time for timed_row in history.rows])
    stakes = {
        Address(node): [(START, relay_node.stake)]
        for node, relay_node in history.node_by_address.items()
    }

    assert len(stakes) == len(RELAY_NODES)
    assert kinds(rows, ChainStakes(LATE, stakes)) == [(kick.row.id, "kick_without_unstake")]
