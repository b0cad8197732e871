"""Metrics for alerts are set from the contract, the accounts and the pending calls."""

from dataclasses import replace

import pytest

from oracle.daemon.statistics_jobs import update_outbox_metrics
from oracle.domain.ids import Hash
from oracle.queries.outbox_figures import OutboxCounter
from oracle.store.outbox.records import PauseKind
from oracle.telemetry import outbox_metrics
from oracle.telemetry.metrics import REGISTRY
from oracle.txmgr.budget import DAY_SECONDS, HOUR_SECONDS
from tests.support.harness import CAPS, ETHER, SETTINGS, Harness
from tests.support.sending.in_flight import (
    GWEI,
    get_only_intent,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)


@pytest.fixture(autouse=True)
def reset_outbox_metrics():
    yield
    outbox_metrics.publish_outbox_stats(None)


def update_and_read_metric(harness: Harness, name: str, **labels: str) -> float | None:
    """Update the daemon's statistics, and return a metric's value."""
    update_outbox_metrics(
        OutboxCounter(),
        {"transmitter": harness.context},
        harness.source.fetch_heads(),
        harness.contexts,
    )
    return REGISTRY.get_sample_value(name, labels)


def test_contract_state_is_exported_as_metrics(sqlite_harness: Harness):
    harness, testbed = sqlite_harness, sqlite_harness.testbed
    harness.pushed()
    assert (
        update_and_read_metric(harness, "oracle_report_heartbeat_seconds")
        == SETTINGS.heartbeat_seconds
    )
    assert update_and_read_metric(harness, "oracle_kickout_tokens") == 3
    assert update_and_read_metric(harness, "oracle_report_rules_agree") == 1
    assert update_and_read_metric(harness, "oracle_report_contract_paused_until") == 0

    admin, does = testbed.network.admin, testbed.oracle.functions
    for call in (does.setPauser(admin), does.pauseFor(600)):
        # Another test may have left a high base fee.
        testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", "0x0")
        testbed.chain.send(call, sender=admin)
    assert (
        update_and_read_metric(harness, "oracle_report_contract_paused_until")
        == testbed.chain.time + 600
    )
    harness.reporting = replace(harness.reporting, rules_hash=Hash("0x" + 64 * "9"))
    assert update_and_read_metric(harness, "oracle_report_rules_agree") == 0


def test_budget_metrics_are_updated_while_nothing_is_sent(sqlite_harness: Harness):
    harness = sqlite_harness
    caps = replace(CAPS, cost_per_hour=CAPS.cost_per_day // 2)
    harness.restart(caps=caps)
    send_unmined_push(harness)
    (slot,) = list_slots(harness)
    with harness.store.read_transaction() as uow:
        cost = uow.outbox.slots.compute_cost_wei(slot)
    assert cost > 0
    for window, cap in (("day", caps.cost_per_day), ("hour", caps.cost_per_hour)):
        used = update_and_read_metric(
            harness, "oracle_txmgr_budget_used_ratio", account="transmitter", window=window
        )
        assert used == pytest.approx(cost / (cap or 1))
    assert update_and_read_metric(
        harness, "oracle_txmgr_runway_seconds", account="transmitter"
    ) == pytest.approx(ETHER * DAY_SECONDS / cost)
    assert update_and_read_metric(harness, "oracle_txmgr_nonce_gap", account="transmitter") == 0

    # It may land at any time; afterwards the window passes without further action.
    mine_expensive_blocks(harness, GWEI, 2)
    harness.tick()
    assert harness.states() == ["mined"]
    later = harness.testbed.chain.time + HOUR_SECONDS + 1
    harness.context = replace(harness.context, clock=lambda: later)
    used = update_and_read_metric(
        harness, "oracle_txmgr_budget_used_ratio", account="transmitter", window="hour"
    )
    assert used == 0


def test_nonce_gap_is_exported_as_metric(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness)
    with harness.store.transaction() as uow:
        uow.outbox.accounts.allocate_nonce(harness.context.account)
    assert update_and_read_metric(harness, "oracle_txmgr_nonce_gap", account="transmitter") == 1


def test_pause_and_call_age_are_exported_as_metrics(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness)
    since = get_only_intent(harness).created_at
    harness.mine(30)
    waited = update_and_read_metric(
        harness, "oracle_txmgr_intent_age_seconds", kind="push", state="live"
    )
    assert waited == harness.testbed.chain.time - since

    paused = {"account": "transmitter", "kind": "foreign"}
    assert update_and_read_metric(harness, "oracle_txmgr_paused", **paused) is None
    with harness.store.transaction() as uow:
        stamp = harness.context.stamp
        uow.outbox.accounts.pause(harness.context.account, PauseKind.FOREIGN, "why", stamp)
    assert update_and_read_metric(harness, "oracle_txmgr_paused", **paused) == 1
