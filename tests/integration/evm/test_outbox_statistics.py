"""The outbox statistics are counted from rows, so that they are the same after every restart."""

from collections.abc import Mapping
from dataclasses import fields

import pytest

from oracle.queries.outbox_figures import OutboxCounter, add_account_stats, add_contract_stats
from oracle.store.outbox.records import CALL_KINDS
from oracle.telemetry.outbox_counts import BucketCounts, OutboxStatistics
from tests.support.evm.fixtures import chain
from tests.support.harness import Harness
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    sqlite_harness,
    testbed,
)

__all__ = ["chain", "fresh_chain", "fresh_testbed", "sqlite_harness", "testbed"]

pytestmark = [pytest.mark.evm, pytest.mark.slow]

SUCCESS = ("push", "success")


def count_outbox(statistics, harness):
    return statistics.compute_outbox_stats(harness.store, int(harness.testbed.chain.time))


def plain(figure):
    """Return the comparable part of the figures."""
    if isinstance(figure, OutboxStatistics):
        return {field.name: plain(getattr(figure, field.name)) for field in fields(figure)}
    if isinstance(figure, Mapping):
        return {key: plain(value) for key, value in figure.items()}
    if isinstance(figure, BucketCounts):
        return list(figure.iterate_cumulative_buckets())
    return figure


def test_incremental_statistics_equal_a_recount_after_restart(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    watching = OutboxCounter()
    for _ in range(3):
        harness.pushed()
        harness.until_final()
        count_outbox(watching, harness)

    assert plain(count_outbox(watching, harness)) == plain(count_outbox(OutboxCounter(), harness))
    assert count_outbox(watching, harness).outcomes[SUCCESS] == harness.testbed.round


def test_outcome_counters_are_initialised_to_zero(sqlite_harness: Harness):
    """A series that starts at 1 shows no increase, so an alert would miss it."""
    outcomes = count_outbox(OutboxCounter(), sqlite_harness).outcomes
    kinds = {kind for kind, _ in outcomes}
    assert kinds == set(CALL_KINDS)
    for outcome in ("success", "reverted", "superseded", "foreign"):
        assert {outcomes[kind, outcome] for kind in kinds} == {0}


def test_recorded_spending_equals_the_decrease_of_the_balance(sqlite_harness: Harness):
    harness = sqlite_harness
    chain, sender = harness.testbed.chain, harness.context.account.address
    before = int(chain.rpc("eth_getBalance", sender, "latest"), 16)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(10**9))
    harness.pushed()
    harness.until_final()

    lost = before - int(chain.rpc("eth_getBalance", sender, "latest"), 16)
    totals = count_outbox(OutboxCounter(), harness)
    assert totals.wei["push"] == lost
    assert totals.gas["push"] > 21_000


def test_account_and_contract_figures_are_added_to_statistics(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.pushed()
    stats = add_account_stats(
        count_outbox(OutboxCounter(), harness),
        {"transmitter": harness.context},
        harness.source.fetch_heads(),
    )
    account = stats.accounts["transmitter"]
    assert (account.latest_chain_nonce, account.nonce_gap) == (account.next_nonce, 0)
    assert account.open_nonces == 1  # mined, not final yet
    assert account.balance_wei is not None
    assert account.balance_wei > account.reserved_wei

    with_contract = add_contract_stats(stats, harness.reporting)
    contract = with_contract.contract
    assert contract is not None
    assert (contract.round, with_contract.rules_agree) == (harness.testbed.round, True)
    assert contract.kick_tokens == 3
