"""Polling without news is cheap, however many calls are pending: requests and journal entries."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from oracle.store.outbox.records import NonceState
from oracle.telemetry.metrics import REGISTRY
from oracle.txmgr.confirmer import confirm_transactions
from tests.support.evm.fixtures import chain
from tests.support.harness import CAPS, FINALITY
from tests.support.sending.faults import Fault, Reply
from tests.support.sending.proxy import Proxy
from tests.support.txmgr.dispatch_harness import (
    DispatchHarness,
    fresh_stage,
    harness,
    make_gas_expensive,
    testbed,
)
from tests.support.txmgr.harness_fixtures import fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_stage", "harness", "make_gas_expensive", "testbed"]

RECEIPT = "eth_getTransactionReceipt"
AT_ONCE = 4
DOWN = Fault(forwards=False, wire=lambda _request: Reply(None))


def mine_starts(harness: DispatchHarness, many: int) -> None:
    """Mine `many` calls of the dispatcher up to finality, without polling."""
    for _ in range(many):
        harness.testbed.network.create()
        harness.block()
        harness.block()
    harness.mine(FINALITY + 1)
    harness.index()


def count_requests_of_poll(harness: DispatchHarness, proxy: Proxy) -> tuple[int, int]:
    """Return (receipt requests, all requests) that an endpoint gets in a poll without news."""
    proxy.forget()
    assert confirm_transactions(harness.starts, harness.source.fetch_heads()) is None
    return proxy.count(RECEIPT), len(proxy.received_requests)


def read_nonces_without_agreement() -> float | None:
    return REGISTRY.get_sample_value(
        "oracle_txmgr_nonces_without_agreement", {"account": "dispatcher"}
    )


def list_mined_nonces(harness: DispatchHarness) -> list[int]:
    with harness.store.read_transaction() as uow:
        watched = uow.outbox.slots.list_unfinished(harness.starts.account)
    assert {slot.state for slot in watched} <= {NonceState.MINED}
    return [slot.nonce for slot in watched]


@pytest.fixture
def harness_with_silent_endpoint(
    harness: DispatchHarness, proxies: tuple[Proxy, Proxy], monkeypatch: pytest.MonkeyPatch
) -> tuple[DispatchHarness, Proxy, Proxy]:
    """Return a harness with one silent endpoint, so that nothing can be decided."""
    monkeypatch.setattr("oracle.txmgr.confirmer.MAX_DECISIONS_PER_PASS", AT_ONCE)
    harness.restart(urls=[proxy.url for proxy in proxies])
    up, down = proxies
    down.rule(RECEIPT, DOWN)
    return harness, up, down


def test_requests_per_tick_are_bounded_while_an_endpoint_is_down(
    harness_with_silent_endpoint: tuple[DispatchHarness, Proxy, Proxy],
):
    harness, up, down = harness_with_silent_endpoint
    mine_starts(harness, AT_ONCE)
    few = len(list_mined_nonces(harness))
    counts_before = count_requests_of_poll(harness, up)
    assert few >= AT_ONCE

    mine_starts(harness, AT_ONCE)
    many = list_mined_nonces(harness)
    assert len(many) > few
    # Receipts and their blocks, and the few questions of every look.
    receipts, requests = count_requests_of_poll(harness, up)
    assert (receipts, requests) <= (AT_ONCE, counts_before[1])
    assert read_nonces_without_agreement() == len(many)

    down.heal()
    while harness.turn():
        pass
    assert list_mined_nonces(harness) == []
    assert read_nonces_without_agreement() == 0


def test_every_tick_checks_the_lowest_nonces_and_some_others(
    harness_with_silent_endpoint: tuple[DispatchHarness, Proxy, Proxy],
):
    harness, up, _ = harness_with_silent_endpoint
    mine_starts(harness, 2 * AT_ONCE)
    waiting = list_mined_nonces(harness)
    with harness.store.read_transaction() as uow:
        slots = uow.outbox.slots.list_unfinished(harness.starts.account)
        hash_of = {
            uow.outbox.slots.list_attempts(slot)[0].signed.tx_hash: slot.nonce for slot in slots
        }
    checked_nonces: set[int] = set()
    for _ in waiting:
        count_requests_of_poll(harness, up)
        now = {
            hash_of[request["params"][0]]
            for request in up.received_requests
            if request["method"] == RECEIPT
        }
        assert set(waiting[: AT_ONCE // 2]) <= now
        checked_nonces |= now
        harness.mine()
        harness.index()
    assert checked_nonces == set(waiting)


def test_exhausted_daily_cap_is_logged_once(
    harness: DispatchHarness, make_gas_expensive: Callable[[], None]
):
    for _ in range(3):
        harness.testbed.network.create()
    harness.restart(caps=replace(CAPS, cost_per_day=1))
    make_gas_expensive()
    harness.block()
    harness.block()
    before = harness.journal()
    assert {intent.error_class for intent in harness.intents()} == {"day_cap"}
    for _ in range(5):
        harness.block()
    assert harness.journal() == before
