"""The outcome of a send is unknown: the same bytes are sent again, without a new nonce."""

import contextlib
from dataclasses import replace

import pytest
import requests
import urllib3

from oracle.errors import TransientError
from oracle.store.outbox.records import NOOP, CallRequest, IntentState, NonceState
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.context import SendSettings
from tests.support.harness import CAPS, Harness, run_next_step
from tests.support.sending.background_calls import (
    Clock,
    lower_base_fee,
    send_background_call,
    set_backoff_clock,
)
from tests.support.sending.faults import (
    Fault,
    cut_response,
    drop_request,
    drop_response,
    return_empty_body,
    return_error,
    return_status,
    return_web_page,
    return_wrong_id,
    truncate_json,
)
from tests.support.sending.in_flight import (
    BY_BLOCKS,
    GWEI,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.sending.proxy import EVERY, SEND, Proxy

Proxies = tuple[Proxy, Proxy]


def add_fault_to_all(
    proxies: Proxies, method: str, fault: Fault, times: int | None = None
) -> None:
    """Add the same fault to both endpoints."""
    for proxy in proxies:
        proxy.rule(method, fault, times=times)


def land_waiting_transactions(harness: Harness) -> None:
    """Lower the base fee, so that waiting transactions are sent again, mined and final.

    Anvil drops transactions that are too cheap, so they have to be sent again.
    """
    # An answer that came twice doubles the wait.
    mine_expensive_blocks(harness, GWEI, 4)
    harness.tick()
    mine_expensive_blocks(harness, GWEI)
    harness.until_final()


def test_case_f03_resend_after_a_lost_response_is_no_duplicate(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    add_fault_to_all(proxies, SEND, drop_response(), times=1)
    send_unmined_push(harness, SendSettings(bump_seconds=600))
    assert list_attempts(harness)[0].last_error_class == "ambiguous"

    add_fault_to_all(proxies, SEND, return_error("already known"))
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    harness.tick()
    (again,) = list_attempts(harness)
    assert (again.sends, again.last_error_class) == (2, None)
    for proxy in proxies:
        proxy.heal()
    land_waiting_transactions(harness)
    assert len(set(proxies[0].sent)) == 1
    assert (harness.testbed.round, harness.testbed.nonce) == (1, 2)
    assert harness.states() == ["final"]


def test_case_f04_lost_send_is_repeated_with_the_same_bytes(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    add_fault_to_all(proxies, SEND, drop_request(), times=1)
    harness.period()
    harness.tick()
    harness.mine(2)
    assert harness.testbed.round == 0

    harness.tick()
    assert len(set(proxies[0].sent)) == 1
    harness.mine()
    harness.until_final()
    assert (harness.testbed.round, harness.testbed.nonce, harness.states()) == (1, 2, ["final"])


def test_case_f05_library_retry_sends_no_second_transaction(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    add_fault_to_all(proxies, SEND, drop_response())
    harness.period()
    harness.tick()
    assert [proxy.count(SEND) for proxy in proxies] == [1, 1]

    # A library that retries: the bytes are the same, and the pool reports a known transaction.
    for proxy in proxies:
        proxy.heal()
        proxy.rule(SEND, drop_response(), times=1)
        proxy.rule(SEND, return_error("already known"))
    for endpoint in harness.context.sender_account.pool:
        forced = requests.adapters.HTTPAdapter(max_retries=urllib3.Retry(3, allowed_methods=None))
        endpoint.client._wire.http._session.mount("http://", forced)
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    harness.tick()
    (once,) = list_attempts(harness)
    assert proxies[0].count(SEND) == 3
    assert (once.last_error_class, len(set(proxies[0].sent))) == (None, 1)


def test_case_f06_outage_of_all_endpoints_does_not_change_outbox(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.context = replace(harness.context, send_settings=BY_BLOCKS)
    send_background_call(harness, "mined")
    harness.mine()
    harness.tick()
    lower_base_fee(harness)
    send_background_call(harness, "live")
    mine_expensive_blocks(harness, 5 * GWEI)
    # And an untried call, which must get no nonce meanwhile.
    request = CallRequest(
        harness.context.account, harness.context.account.address, NOOP, "third", "0x"
    )
    with harness.context.write_transaction() as uow:
        uow.outbox.intents.add(request, harness.context.stamp)
    before = (
        harness.states(),
        [list_attempts(harness, slot.nonce) for slot in list_slots(harness)],
    )
    assert harness.states() == ["mined", "live", "planned"]

    heads = harness.source.fetch_heads()
    add_fault_to_all(proxies, EVERY, drop_request())
    for _ in range(10):
        harness.testbed.chain.later(180)
        with pytest.raises(TransientError):
            confirm_transactions(harness.context, heads)
        with contextlib.suppress(TransientError):
            run_next_step(harness.context, heads)
    assert (
        harness.states(),
        [list_attempts(harness, slot.nonce) for slot in list_slots(harness)],
    ) == before

    for proxy in proxies:
        proxy.heal()
    harness.restart()
    mine_expensive_blocks(harness, GWEI)
    harness.until_final()
    # A period may have ended meanwhile, and its report be on its way.
    assert harness.states()[:2] == ["final", "final"]
    assert [slot.nonce for slot in list_slots(harness)][:2] == [1, 2]


@pytest.mark.parametrize(
    "fault",
    [
        return_status(500),
        return_status(503),
        return_web_page(),
        return_empty_body(),
        return_wrong_id(),
        truncate_json(),
        cut_response(),
    ],
    ids=["500", "503", "html", "empty", "wrong id", "truncated", "cut off"],
)
def test_case_f26_malformed_send_response_is_not_resent_in_loop(
    proxied_harness: Harness, proxies: Proxies, fault: Fault
):
    harness = proxied_harness
    add_fault_to_all(proxies, SEND, fault)
    send_unmined_push(harness)
    for _ in range(3):
        harness.tick()
    assert [proxy.count(SEND) for proxy in proxies] == [1, 1]
    assert list_attempts(harness)[0].last_error_class == "ambiguous"
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    for _ in range(3):
        harness.tick()
    assert [proxy.count(SEND) for proxy in proxies] == [2, 2]

    for proxy in proxies:
        proxy.heal()
    mine_expensive_blocks(harness, GWEI)
    harness.tick()
    mine_expensive_blocks(harness, GWEI)
    harness.tick()
    assert (harness.testbed.round, harness.testbed.nonce) == (1, 2)


def test_case_f26_retry_after_of_an_endpoint_is_respected(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    clock = Clock()
    set_backoff_clock(harness, clock)
    send_unmined_push(harness)
    first, second_proxy = proxies
    first.rule(SEND, return_status(429, retry_after=30))
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    harness.tick()
    request_count = first.count("eth_getTransactionReceipt")
    clock.now += 29
    harness.tick()
    assert first.count("eth_getTransactionReceipt") == request_count
    # The other endpoint is queried meanwhile.
    assert second_proxy.count("eth_getTransactionReceipt") > 0

    clock.now += 2
    first.heal()
    harness.tick()
    assert first.count("eth_getTransactionReceipt") > request_count


def test_case_f26_backoff_without_retry_after_doubles_up_to_one_minute(
    proxied_harness: Harness, proxies: Proxies
):
    clock = Clock()
    set_backoff_clock(proxied_harness, clock)
    (line, _), (first, _) = proxied_harness.context.sender_account.pool_view.callers, proxies
    first.rule("eth_blockNumber", return_error("rate limit exceeded", -32005))
    rests = []
    for _ in range(9):
        with contextlib.suppress(TransientError):
            line.request("eth_blockNumber")
        rests.append(line.endpoint.health.backoff.get_remaining_seconds())
        clock.now += line.endpoint.health.backoff.get_remaining_seconds()
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    first.heal()
    line.request("eth_blockNumber")
    assert line.endpoint.health.backoff.get_remaining_seconds() == 0


def test_case_f27_transaction_reported_as_failed_by_a_relay_keeps_its_nonce(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.restart(caps=replace(CAPS, cost_per_day=10**18))
    lower_base_fee(harness)
    add_fault_to_all(proxies, SEND, return_error("transaction failed", forwards=True))
    sent = send_background_call(harness, "by a relay")
    assert list_attempts(harness)[0].last_error_class == "unknown"

    harness.testbed.chain.later(90 * 60)
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    harness.tick()
    # A period may end meanwhile, and its push takes the next nonce.
    assert [intent.state for intent in harness.intents(NOOP)] == [IntentState.LIVE]
    assert {"0x" + attempt.signed.raw.hex() for attempt in list_attempts(harness)} == {sent}

    land_waiting_transactions(harness)
    slot = list_slots(harness)[0]
    (only,) = list_attempts(harness)
    assert (slot.state, slot.succeeded, slot.won_attempt) == (NonceState.FINAL, True, only.id)
    assert [one.nonce for one in harness.intents(NOOP)] == [slot.nonce]
