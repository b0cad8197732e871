"""Words of a real QoSWords are updated after each round, and nodes are bound to their seats."""

from dataclasses import replace
from typing import Any

import pytest

from oracle.bindings.deployment import WordsSetup
from oracle.bindings.qos_words import CONTRACT
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import LOWEST_SCORE
from oracle.hot_set import hot_set_rounds
from oracle.hot_set.hot_set_context import (
    BIND_NODES,
    BRING_WORDS,
    HotSetContext,
    HotSetProgress,
)
from oracle.hot_set.hot_set_planner import plan_hot_set_calls
from oracle.indexer.round_leaves import load_round_lanes
from oracle.queries.outbox_figures import add_contract_stats
from oracle.reporting.report_planner import plan_push
from oracle.telemetry.outbox_counts import HotSetLag, OutboxStatistics
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.context import TransmitterRank
from tests.support.evm.fixtures import chain
from tests.support.evm.groups import score_nodes_in_order
from tests.support.office import Office, next_step
from tests.support.txmgr.office_fixtures import (
    fresh_chain,
    fresh_premises,
    premises,
    sqlite_office,
)

__all__ = ["chain", "fresh_chain", "fresh_premises", "premises", "sqlite_office"]

pytestmark = [pytest.mark.evm, pytest.mark.slow]

LAG = 2


def keep_hot_set(office: Office, max_rounds: int = 120, **equipment: Any) -> Any:
    """Deploy a QoSWords, restart the daemon with it, and return the contract."""
    test_chain = office.premises.chain
    code = WordsSetup(max_rounds=max_rounds).build_creation_code(office.premises.address)
    words = Address(test_chain.transact(data=code).raw["contractAddress"].lower())
    office.restart(equipment={"hot_set": words, **equipment})
    return test_chain.contract(CONTRACT, words)


@pytest.fixture
def words(sqlite_office: Office) -> Any:
    return keep_hot_set(sqlite_office)


def lanes_of_last_round(office: Office) -> list[int]:
    with office.store.read_transaction() as uow:
        last_round = uow.rounds.get_last_provable_round()
        assert last_round is not None
        return list(load_round_lanes(uow, office.hot_set.leaf_cache, last_round))


def lanes_in(words: Any, count: int) -> list[int]:
    return [words.functions.laneAt(seat).call() for seat in range(count)]


def rounds_in(words: Any) -> list[int]:
    return list(words.functions.roundsAt(0, 1).call())


def run_round(office: Office) -> None:
    """Run one more round, and send its words."""
    office.pushed()
    office.mine()
    office.tick()


def run_round_without_keeper(office: Office) -> None:
    office.period()
    office.index()
    office.repeat(plan_push)
    office.repeat(next_step)
    office.mine()
    office.index()
    office.repeat(confirm_transactions)


def change_a_score(office: Office) -> None:
    network = office.premises.network
    network.by(network.nodes[2], network.does.pause())


def test_scores_of_a_round_are_read_without_a_proof(sqlite_office: Office, words: Any):
    office = sqlite_office
    for _ in range(1 + LAG):
        run_round(office)

    lanes = lanes_of_last_round(office)
    assert len(lanes) == 3
    assert lanes_in(words, 3) == lanes
    for node in office.premises.network.nodes[:3]:
        known, selectable, qos, _, _ = words.functions.scoreOf(node).call()
        lane = lanes[words.functions.indexOf(node).call()]
        assert (known, selectable, qos) == (True, True, lane - LOWEST_SCORE)


def test_only_changed_words_are_brought_again(sqlite_office: Office, words: Any):
    office = sqlite_office
    for _ in range(2 + LAG):
        run_round(office)
    lanes = lanes_of_last_round(office)
    brought_before, (round_before,) = len(office.intents(BRING_WORDS)), rounds_in(words)
    assert lanes_in(words, 3) == lanes
    run_round(office)
    assert lanes_of_last_round(office) == lanes
    assert len(office.intents(BRING_WORDS)) == brought_before
    assert rounds_in(words) == [round_before]

    change_a_score(office)
    run_round(office)
    assert lanes_of_last_round(office) != lanes
    assert lanes_in(words, 3) == lanes_of_last_round(office)
    assert rounds_in(words) == [office.premises.round]
    assert len(office.intents(BIND_NODES)) == 1


def test_word_is_renewed_before_it_is_stale(sqlite_office: Office):
    office = sqlite_office
    words = keep_hot_set(office, max_rounds=LAG + 1)
    for _ in range(4):
        run_round(office)
        assert rounds_in(words) == [office.premises.round]


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_restart_before_words_land_sends_nothing_twice(
    sqlite_office: Office, words: Any, steps: int
):
    office = sqlite_office
    office.period()
    office.tick()
    office.mine()
    office.index()
    office.repeat(confirm_transactions)
    nonce = office.premises.nonce
    office.repeat(plan_hot_set_calls)
    for _ in range(steps - 1):
        next_step(office.context, office.source.fetch_heads())
    office.restart()
    office.tick()
    office.mine()
    office.tick()
    office.mine()
    office.tick()

    assert office.premises.nonce == nonce + 1
    assert len(office.intents(BRING_WORDS)) == 1
    assert lanes_in(words, 3) == lanes_of_last_round(office)


def test_mass_fall_is_brought_from_a_round_that_could_have_been_struck(
    sqlite_office: Office, words: Any
):
    office, network = sqlite_office, sqlite_office.premises.network
    many = network.nodes[:6]
    for node in many[3:]:
        network.join(node)
    for turn in range(3):
        score_nodes_in_order(network, [*many[3 + turn :], *many[3 : 3 + turn]], 10 + turn)
    for _ in range(2):
        run_round(office)
    lanes = lanes_in(words, len(many))
    assert lanes == lanes_of_last_round(office)

    for node in many:
        network.by(node, network.does.pause())
    fallen_round = office.premises.round + 1
    for _ in range(LAG):
        run_round(office)
        assert lanes_of_last_round(office) == [1] * len(many)
        assert lanes_in(words, len(many)) == lanes
    run_round(office)
    assert lanes_in(words, len(many)) == [1] * len(many)
    assert rounds_in(words) == [fallen_round]


def test_unsent_words_of_a_round_that_a_fork_removes_are_void(sqlite_office: Office, words: Any):
    office, test_chain = sqlite_office, sqlite_office.premises.chain
    office.period()
    office.tick()
    snapshot = test_chain.rpc("evm_snapshot")
    office.mine()
    office.index()
    office.repeat(confirm_transactions)
    office.repeat(plan_hot_set_calls)
    assert office.states(BRING_WORDS) == ["planned"]

    test_chain.rpcs(("anvil_dropAllTransactions",), ("evm_revert", snapshot))
    office.mine(3)
    office.index()
    assert office.states(BRING_WORDS) == ["expired"]
    office.tick()
    office.mine()
    office.tick()
    office.mine()
    office.tick()
    assert lanes_in(words, 3) == lanes_of_last_round(office)


def test_lag_of_the_hot_set_counts_rounds_and_words(
    sqlite_office: Office, words: Any, monkeypatch: pytest.MonkeyPatch
):
    office = sqlite_office

    def measure() -> HotSetLag | None:
        stats = add_contract_stats(OutboxStatistics(), office.reporting, office.hot_set)
        assert stats.contract is not None
        return stats.contract.hot_set_lag

    # Nothing was sent yet: every round counts, up to the limit.
    for number in (1, 2):
        run_round_without_keeper(office)
        assert measure() == HotSetLag(number, 1)
    monkeypatch.setattr(hot_set_rounds, "MAX_LAG_ROUNDS", 1)
    assert measure() == HotSetLag(1, 1)
    monkeypatch.undo()
    office.tick()
    office.mine()
    office.tick()
    assert measure() == HotSetLag(0, 0)
    # A round without a change needs no word.
    run_round_without_keeper(office)
    assert measure() == HotSetLag(0, 0)
    change_a_score(office)
    run_round_without_keeper(office)
    assert measure() == HotSetLag(1, 1)


def test_words_of_an_older_round_are_not_sent(sqlite_office: Office, words: Any):
    office = sqlite_office
    run_round_without_keeper(office)
    office.repeat(plan_hot_set_calls)
    run_round_without_keeper(office)
    office.repeat(next_step)
    (void,) = office.intents(BRING_WORDS)
    # The call ends without a simulation, because an endpoint may lag behind.
    assert (void.state.value, void.error_text) == (
        "superseded",
        "round 1 is no longer the last one, or was struck",
    )
    assert rounds_in(words) == [0]


def test_transmitter_of_higher_rank_leaves_words_to_the_others(sqlite_office: Office, words: Any):
    office = sqlite_office
    run_round_without_keeper(office)
    office.restart(equipment={**office.equipment, "head_start": 30})
    assert office.repeat(plan_hot_set_calls) == []
    office.premises.chain.later(30)
    office.premises.chain.mine()
    office.index()
    assert office.repeat(plan_hot_set_calls) != []


def ranked_second(office: Office, head_start_seconds: int) -> HotSetContext:
    """Return a keeper that leaves the transmitter of the lowest rank a head start."""
    rank = TransmitterRank(has_others=True, head_start_seconds=head_start_seconds)
    quorum = replace(office.quorum, account_context=replace(office.context, rank=rank))
    return replace(office.hot_set, quorum=quorum, progress=HotSetProgress())


def test_head_start_ends_although_rounds_come_faster(sqlite_office: Office, words: Any):
    """The transmitters of a lower rank are down."""
    office = sqlite_office
    head_start = 4 * office.settings.period_seconds
    keeper = ranked_second(office, head_start)
    run_round_without_keeper(office)
    first_time = office.premises.chain.time
    while office.premises.chain.time < first_time + head_start:
        assert plan_hot_set_calls(keeper, office.source.fetch_heads()) is None
        run_round_without_keeper(office)
    assert office.premises.round > 1

    assert plan_hot_set_calls(keeper, office.source.fetch_heads()) is not None
    office.repeat(next_step)
    office.mine()
    assert lanes_in(words, 3) == lanes_of_last_round(office)
    assert rounds_in(words) == [office.premises.round]


def test_words_that_lower_ranks_bring_in_time_are_not_brought_again(
    sqlite_office: Office, words: Any
):
    """Rounds come faster than the head start, and each changes the word."""
    office, network = sqlite_office, sqlite_office.premises.network
    keeper = ranked_second(office, 2 * office.settings.period_seconds)
    for turn in range(3):
        does = network.does.resume if turn % 2 else network.does.pause
        network.by(network.nodes[2], does())
        run_round_without_keeper(office)
        assert plan_hot_set_calls(keeper, office.source.fetch_heads()) is None
        office.tick()
        office.mine()
        office.tick()
        assert rounds_in(words) == [office.premises.round]
    assert {intent.request.round for intent in office.intents(BRING_WORDS)} == {1, 2, 3}


def test_nothing_is_brought_while_fees_are_too_high(sqlite_office: Office, words: Any):
    office = sqlite_office
    run_round_without_keeper(office)
    office.premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(2))
    office.mine()
    office.index()
    heads = office.source.fetch_heads()
    assert plan_hot_set_calls(replace(office.hot_set, max_fee=1), heads) is None
    assert plan_hot_set_calls(office.hot_set, heads) is not None
