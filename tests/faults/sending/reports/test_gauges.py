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
from tests.support.office import CAPS, ETHER, SETTINGS, Office
from tests.support.sending.in_flight import (
    GWEI,
    get_only_intent,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)


@pytest.fixture(autouse=True)
def forgotten():
    yield
    outbox_metrics.publish_outbox_stats(None)


def update_and_read_metric(office: Office, name: str, **labels: str) -> float | None:
    """Update the daemon's statistics, and return a metric's value."""
    update_outbox_metrics(
        OutboxCounter(),
        {"transmitter": office.context},
        office.source.fetch_heads(),
        office.contexts,
    )
    return REGISTRY.get_sample_value(name, labels)


def test_contract_state_is_exported_as_metrics(sqlite_office: Office):
    office, premises = sqlite_office, sqlite_office.premises
    office.pushed()
    assert (
        update_and_read_metric(office, "oracle_report_heartbeat_seconds")
        == SETTINGS.heartbeat_seconds
    )
    assert update_and_read_metric(office, "oracle_kickout_tokens") == 3
    assert update_and_read_metric(office, "oracle_report_rules_agree") == 1
    assert update_and_read_metric(office, "oracle_report_contract_paused_until") == 0

    admin, does = premises.network.admin, premises.oracle.functions
    for call in (does.setPauser(admin), does.pauseFor(600)):
        # Another test may have left a high base fee.
        premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", "0x0")
        premises.chain.send(call, sender=admin)
    assert (
        update_and_read_metric(office, "oracle_report_contract_paused_until")
        == premises.chain.time + 600
    )
    office.reporting = replace(office.reporting, rules_hash=Hash("0x" + 64 * "9"))
    assert update_and_read_metric(office, "oracle_report_rules_agree") == 0


def test_budget_metrics_are_updated_while_nothing_is_sent(sqlite_office: Office):
    office = sqlite_office
    caps = replace(CAPS, cost_per_hour=CAPS.cost_per_day // 2)
    office.restart(caps=caps)
    send_unmined_push(office)
    (slot,) = list_slots(office)
    with office.store.read_transaction() as uow:
        cost = uow.outbox.slots.compute_cost_wei(slot)
    assert cost > 0
    for window, cap in (("day", caps.cost_per_day), ("hour", caps.cost_per_hour)):
        used = update_and_read_metric(
            office, "oracle_txmgr_budget_used_ratio", account="transmitter", window=window
        )
        assert used == pytest.approx(cost / (cap or 1))
    assert update_and_read_metric(
        office, "oracle_txmgr_runway_seconds", account="transmitter"
    ) == pytest.approx(ETHER * DAY_SECONDS / cost)
    assert update_and_read_metric(office, "oracle_txmgr_nonce_gap", account="transmitter") == 0

    # It may land at any time; afterwards the window passes without further action.
    mine_expensive_blocks(office, GWEI, 2)
    office.tick()
    assert office.states() == ["mined"]
    later = office.premises.chain.time + HOUR_SECONDS + 1
    office.context = replace(office.context, clock=lambda: later)
    used = update_and_read_metric(
        office, "oracle_txmgr_budget_used_ratio", account="transmitter", window="hour"
    )
    assert used == 0


def test_nonce_gap_is_exported_as_metric(sqlite_office: Office):
    office = sqlite_office
    send_unmined_push(office)
    with office.store.transaction() as uow:
        uow.outbox.accounts.allocate_nonce(office.context.account)
    assert update_and_read_metric(office, "oracle_txmgr_nonce_gap", account="transmitter") == 1


def test_pause_and_call_age_are_exported_as_metrics(sqlite_office: Office):
    office = sqlite_office
    send_unmined_push(office)
    since = get_only_intent(office).created_at
    office.mine(30)
    waited = update_and_read_metric(
        office, "oracle_txmgr_intent_age_seconds", kind="push", state="live"
    )
    assert waited == office.premises.chain.time - since

    paused = {"account": "transmitter", "kind": "foreign"}
    assert update_and_read_metric(office, "oracle_txmgr_paused", **paused) is None
    with office.store.transaction() as uow:
        stamp = office.context.stamp
        uow.outbox.accounts.pause(office.context.account, PauseKind.FOREIGN, "why", stamp)
    assert update_and_read_metric(office, "oracle_txmgr_paused", **paused) == 1
