"""Words of a real QoSWords are updated after each round, and nodes are bound to their seats."""

from dataclasses import replace
from typing import Any

import pytest

from oracle.bindings.deployment import WordsSetup
from oracle.bindings.qos_words import CONTRACT
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import LOWEST_SCORE
from oracle.hot_set import hot_set_rounds
from oracle.hot_set.hot_set_context import HotSetContext, HotSetProgress
from oracle.hot_set.hot_set_planner import plan_hot_set_calls
from oracle.indexer.round_leaves import load_round_lanes
from oracle.queries.outbox_figures import add_contract_stats
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import BIND_NODES, UPDATE_WORDS
from oracle.telemetry.outbox_counts import HotSetLag, OutboxStatistics
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.context import TransmitterRank
from tests.support.evm.fixtures import chain
from tests.support.evm.groups import score_nodes_in_order
from tests.support.harness import Harness, run_next_step
from tests.support.sending.in_flight import mine_expensive_blocks
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    sqlite_harness,
    testbed,
)

__all__ = ["chain", "fresh_chain", "fresh_testbed", "sqlite_harness", "testbed"]

pytestmark = [pytest.mark.evm, pytest.mark.slow]

LAG = 2


def keep_hot_set(harness: Harness, max_rounds: int = 120, **equipment: Any) -> Any:
    """Deploy a QoSWords, restart the daemon with it, and return the contract."""
    test_chain = harness.testbed.chain
    code = WordsSetup(max_rounds=max_rounds).build_creation_code(harness.testbed.address)
    words = Address(test_chain.transact(data=code).raw["contractAddress"].lower())
    harness.restart(equipment={"hot_set": words, **equipment})
    return test_chain.contract(CONTRACT, words)


@pytest.fixture
def words(sqlite_harness: Harness) -> Any:
    # An earlier test's base fee persists.
    mine_expensive_blocks(sqlite_harness, 0)
    return keep_hot_set(sqlite_harness)


def lanes_of_last_round(harness: Harness) -> list[int]:
    with harness.store.read_transaction() as uow:
        last_round = uow.rounds.find_last_provable_round()
        assert last_round is not None
        return list(load_round_lanes(uow, harness.hot_set.leaf_cache, last_round))


def lanes_in(words: Any, count: int) -> list[int]:
    return [words.functions.laneAt(seat).call() for seat in range(count)]


def rounds_in(words: Any) -> list[int]:
    return list(words.functions.roundsAt(0, 1).call())


def run_round(harness: Harness) -> None:
    """Run one more round, and send its words."""
    harness.pushed()
    harness.mine()
    harness.tick()


def run_round_without_keeper(harness: Harness) -> None:
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    harness.repeat(run_next_step)
    harness.mine()
    harness.index()
    harness.repeat(confirm_transactions)


def change_a_score(harness: Harness) -> None:
    network = harness.testbed.network
    network.by(network.nodes[2], network.does.pause())


def test_hot_set_scores_are_readable_without_a_proof(sqlite_harness: Harness, words: Any):
    harness = sqlite_harness
    for _ in range(1 + LAG):
        run_round(harness)

    lanes = lanes_of_last_round(harness)
    assert len(lanes) == 3
    assert lanes_in(words, 3) == lanes
    for node in harness.testbed.network.nodes[:3]:
        known, selectable, qos, _, _ = words.functions.scoreOf(node).call()
        lane = lanes[words.functions.indexOf(node).call()]
        assert (known, selectable, qos) == (True, True, lane - LOWEST_SCORE)


def test_only_changed_hot_set_words_are_rewritten(sqlite_harness: Harness, words: Any):
    harness = sqlite_harness
    for _ in range(2 + LAG):
        run_round(harness)
    lanes = lanes_of_last_round(harness)
    brought_before = len(harness.intents(UPDATE_WORDS))
    (round_before,) = rounds_in(words)
    assert lanes_in(words, 3) == lanes
    run_round(harness)
    assert lanes_of_last_round(harness) == lanes
    assert len(harness.intents(UPDATE_WORDS)) == brought_before
    assert rounds_in(words) == [round_before]

    change_a_score(harness)
    run_round(harness)
    assert lanes_of_last_round(harness) != lanes
    assert lanes_in(words, 3) == lanes_of_last_round(harness)
    assert rounds_in(words) == [harness.testbed.round]
    assert len(harness.intents(BIND_NODES)) == 1


def test_unchanged_hot_set_word_is_rewritten_before_it_becomes_stale(sqlite_harness: Harness):
    harness = sqlite_harness
    words = keep_hot_set(harness, max_rounds=LAG + 1)
    for _ in range(4):
        run_round(harness)
        assert rounds_in(words) == [harness.testbed.round]


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_hot_set_update_is_sent_once_despite_a_restart_before_mining(
    sqlite_harness: Harness, words: Any, steps: int
):
    harness = sqlite_harness
    harness.period()
    harness.tick()
    harness.mine()
    harness.index()
    harness.repeat(confirm_transactions)
    nonce = harness.testbed.nonce
    harness.repeat(plan_hot_set_calls)
    for _ in range(steps - 1):
        run_next_step(harness.context, harness.source.fetch_heads())
    harness.restart()
    harness.tick()
    harness.mine()
    harness.tick()
    harness.mine()
    harness.tick()

    assert harness.testbed.nonce == nonce + 1
    assert len(harness.intents(UPDATE_WORDS)) == 1
    assert lanes_in(words, 3) == lanes_of_last_round(harness)


def test_mass_drop_is_written_to_the_hot_set_only_after_the_lag(
    sqlite_harness: Harness, words: Any
):
    harness, network = sqlite_harness, sqlite_harness.testbed.network
    many = network.nodes[:6]
    for node in many[3:]:
        network.join(node)
    for turn in range(3):
        score_nodes_in_order(network, [*many[3 + turn :], *many[3 : 3 + turn]], 10 + turn)
    for _ in range(2):
        run_round(harness)
    lanes = lanes_in(words, len(many))
    assert lanes == lanes_of_last_round(harness)

    for node in many:
        network.by(node, network.does.pause())
    fallen_round = harness.testbed.round + 1
    for _ in range(LAG):
        run_round(harness)
        assert lanes_of_last_round(harness) == [1] * len(many)
        assert lanes_in(words, len(many)) == lanes
    run_round(harness)
    assert lanes_in(words, len(many)) == [1] * len(many)
    assert rounds_in(words) == [fallen_round]


def test_unsent_hot_set_words_of_a_reorged_round_expire(sqlite_harness: Harness, words: Any):
    harness, test_chain = sqlite_harness, sqlite_harness.testbed.chain
    harness.period()
    harness.tick()
    snapshot = test_chain.rpc("evm_snapshot")
    harness.mine()
    harness.index()
    harness.repeat(confirm_transactions)
    harness.repeat(plan_hot_set_calls)
    assert harness.states(UPDATE_WORDS) == ["planned"]

    test_chain.rpcs(("anvil_dropAllTransactions",), ("evm_revert", snapshot))
    harness.mine(3)
    harness.index()
    assert harness.states(UPDATE_WORDS) == ["expired"]
    harness.tick()
    harness.mine()
    harness.tick()
    harness.mine()
    harness.tick()
    assert lanes_in(words, 3) == lanes_of_last_round(harness)


def test_hot_set_lag_is_measured_in_rounds_and_words(
    sqlite_harness: Harness, words: Any, monkeypatch: pytest.MonkeyPatch
):
    harness = sqlite_harness

    def measure() -> HotSetLag | None:
        stats = add_contract_stats(OutboxStatistics(), harness.reporting, harness.hot_set)
        assert stats.contract is not None
        return stats.contract.hot_set_lag

    # Nothing was sent yet: every round counts, up to the limit.
    for number in (1, 2):
        run_round_without_keeper(harness)
        assert measure() == HotSetLag(number, 1)
    monkeypatch.setattr(hot_set_rounds, "MAX_LAG_ROUNDS", 1)
    assert measure() == HotSetLag(1, 1)
    monkeypatch.undo()
    harness.tick()
    harness.mine()
    harness.tick()
    assert measure() == HotSetLag(0, 0)
    # A round without a change needs no word.
    run_round_without_keeper(harness)
    assert measure() == HotSetLag(0, 0)
    change_a_score(harness)
    run_round_without_keeper(harness)
    assert measure() == HotSetLag(1, 1)


def test_hot_set_words_of_an_older_round_are_not_sent(sqlite_harness: Harness, words: Any):
    harness = sqlite_harness
    run_round_without_keeper(harness)
    harness.repeat(plan_hot_set_calls)
    run_round_without_keeper(harness)
    harness.repeat(run_next_step)
    (void,) = harness.intents(UPDATE_WORDS)
    # The call ends without a simulation, because an endpoint may lag behind.
    assert (void.state.value, void.error_text) == (
        "superseded",
        "round 1 is no longer the last one, or was struck",
    )
    assert rounds_in(words) == [0]


def test_hot_set_update_waits_for_the_head_start_of_others(sqlite_harness: Harness, words: Any):
    harness = sqlite_harness
    run_round_without_keeper(harness)
    harness.restart(equipment={**harness.equipment, "head_start": 30})
    assert harness.repeat(plan_hot_set_calls) == []
    harness.testbed.chain.later(30)
    harness.testbed.chain.mine()
    harness.index()
    assert harness.repeat(plan_hot_set_calls) != []


def ranked_second(harness: Harness, head_start_seconds: int) -> HotSetContext:
    """Return a keeper that leaves the transmitter of the lowest rank a head start."""
    rank = TransmitterRank(has_others=True, head_start_seconds=head_start_seconds)
    quorum = replace(harness.quorum, account_context=replace(harness.context, rank=rank))
    return replace(harness.hot_set, quorum=quorum, progress=HotSetProgress())


def test_head_start_ends_on_time_even_if_rounds_are_faster(sqlite_harness: Harness, words: Any):
    """The transmitters of a lower rank are down."""
    harness = sqlite_harness
    head_start = 4 * harness.settings.period_seconds
    keeper = ranked_second(harness, head_start)
    run_round_without_keeper(harness)
    first_time = harness.testbed.chain.time
    while harness.testbed.chain.time < first_time + head_start:
        assert plan_hot_set_calls(keeper, harness.source.fetch_heads()) is None
        run_round_without_keeper(harness)
    assert harness.testbed.round > 1

    assert plan_hot_set_calls(keeper, harness.source.fetch_heads()) is not None
    harness.repeat(run_next_step)
    harness.mine()
    assert lanes_in(words, 3) == lanes_of_last_round(harness)
    assert rounds_in(words) == [harness.testbed.round]


def test_hot_set_words_written_by_another_transmitter_are_not_sent(
    sqlite_harness: Harness, words: Any
):
    """Rounds come faster than the head start, and each changes the word."""
    harness, network = sqlite_harness, sqlite_harness.testbed.network
    keeper = ranked_second(harness, 2 * harness.settings.period_seconds)
    for turn in range(3):
        does = network.does.resume if turn % 2 else network.does.pause
        network.by(network.nodes[2], does())
        run_round_without_keeper(harness)
        assert plan_hot_set_calls(keeper, harness.source.fetch_heads()) is None
        harness.tick()
        harness.mine()
        harness.tick()
        assert rounds_in(words) == [harness.testbed.round]
    assert {intent.request.round for intent in harness.intents(UPDATE_WORDS)} == {1, 2, 3}


def test_hot_set_is_not_updated_while_fees_are_too_high(sqlite_harness: Harness, words: Any):
    harness = sqlite_harness
    run_round_without_keeper(harness)
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(2))
    harness.mine()
    harness.index()
    heads = harness.source.fetch_heads()
    assert plan_hot_set_calls(replace(harness.hot_set, max_fee=1), heads) is None
    assert plan_hot_set_calls(harness.hot_set, heads) is not None


@pytest.mark.parametrize("is_replaced", [False, True])
def test_planned_words_are_not_sent_after_the_hot_set_is_removed_or_replaced(
    sqlite_harness: Harness, words: Any, *, is_replaced: bool
):
    harness = sqlite_harness
    run_round_without_keeper(harness)
    harness.repeat(plan_hot_set_calls)
    if is_replaced:
        keep_hot_set(harness)
    else:
        harness.restart(equipment={})
    harness.repeat(run_next_step)
    (call,) = harness.intents(UPDATE_WORDS)
    assert (call.state.value, call.error_text) == (
        "superseded",
        "hot_set.address was changed or removed",
    )
    assert rounds_in(words) == [0]


def test_planned_words_wait_if_the_fee_rises_before_they_are_signed(
    sqlite_harness: Harness, words: Any
):
    harness = sqlite_harness
    run_round_without_keeper(harness)
    harness.contexts = replace(
        harness.contexts, hot_set=replace(harness.hot_set, max_fee=10**9)
    ).with_account(harness.context)
    mine_expensive_blocks(harness, 1000)
    harness.index()
    harness.repeat(plan_hot_set_calls)
    mine_expensive_blocks(harness, 50 * 10**9)
    harness.index()
    harness.repeat(run_next_step)
    (call,) = harness.intents(UPDATE_WORDS)
    assert (call.state.value, call.error_class) == ("planned", "not_worth")
    assert rounds_in(words) == [0]

    mine_expensive_blocks(harness, 1000)
    harness.index()
    harness.repeat(run_next_step)
    harness.mine()
    assert rounds_in(words) == [1]
