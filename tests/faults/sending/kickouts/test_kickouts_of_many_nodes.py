"""If the kickouts of many nodes are due at once, all nodes are accused by the same round."""

from collections.abc import Iterator

import pytest

from oracle.kickouts.kickout_cases import load_kickout_cases
from oracle.store.outbox.records import ACCUSE
from tests.integration.evm.test_kickout_on_chain import (
    ACCUSED,
    POOL,
    group,
    push_without_kickouts,
)
from tests.support.evm.anvil import FREE_BY_HAND, run_anvil
from tests.support.evm.chain import Chain
from tests.support.harness import Harness

NODES = 20
# Nodes 0 and 1 are the good ones.
BAD = range(2, 2 + NODES)


@pytest.fixture(scope="module")
def fresh_chain() -> Iterator[Chain]:
    """Yield a chain as for the other harnesses, with an account for every node."""
    with run_anvil(*FREE_BY_HAND, "--slots-in-an-epoch", "1", "--accounts", "30") as url:
        chain = Chain(url)
        try:
            yield chain
        finally:
            chain.close()


def rank_bad_nodes_last(harness: Harness) -> None:
    """Rank every bad node last in as many groups as its pool has scores."""
    network = harness.testbed.network
    for place in BAD[1:]:
        network.join(network.nodes[place])
    for number in range(POOL * NODES):
        group(harness, number + 1, (0, 1, BAD[number % NODES]))


def count_accusable_nodes(harness: Harness) -> int:
    kickouts = harness.kickouts
    with harness.store.read_transaction() as uow:
        cases = load_kickout_cases(
            uow, kickouts.leaf_cache, kickouts.policy, kickouts.report_settings
        )
    return sum(case.obstacle is None for case in cases)


def test_one_round_can_accuse_twenty_nodes(sqlite_harness: Harness):
    harness, testbed = sqlite_harness, sqlite_harness.testbed
    rank_bad_nodes_last(harness)
    harness.index()
    while count_accusable_nodes(harness) < NODES:
        push_without_kickouts(harness)
    due_in = testbed.round
    for _ in range(6):
        harness.tick()
        harness.mine()
    harness.until_final()
    kicks = [testbed.oracle.functions.kickOf(testbed.network.nodes[place]).call() for place in BAD]
    assert [state for state, *_ in kicks] == NODES * [ACCUSED]
    assert {round_number for *_, round_number in kicks} == {due_in}
    assert set(harness.states(ACCUSE)) == {"final"}
