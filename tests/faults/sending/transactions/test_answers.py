"""Responses of endpoints to sent bytes, and who has to resolve them."""

from dataclasses import replace

import pytest

from oracle.domain.health import Condition
from oracle.errors import FatalError, TransientError
from oracle.queries.health import build_health_report
from oracle.store.outbox.records import PauseKind
from oracle.txmgr.client.l1_fees import ARB_GAS_INFO, GAS_PRICE_ORACLE, L1Fee, fetch_l1_fee
from oracle.txmgr.context import SendSettings
from tests.support.harness import ETHER, Harness
from tests.support.sending.faults import drop_request, return_error
from tests.support.sending.in_flight import get_only_intent, list_attempts
from tests.support.sending.proxy import SEND, Proxy
from tests.support.sending.rollups import build_price_oracle_code


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", PauseKind.CONFIG),
        ("oversized data", PauseKind.MALFORMED),
    ],
)
def test_permanent_send_error_pauses_the_sender(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], text: str, kind: PauseKind
):
    harness = proxied_harness
    for proxy in proxies:
        proxy.rule(SEND, return_error(text), times=1)
    harness.period()
    harness.tick()
    with harness.store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(harness.context.account)

    assert pause is not None
    assert (pause.kind, text in pause.reason) == (kind, True)
    assert (harness.states(), len(list_attempts(harness))) == (["live"], 1)


def test_transaction_accepted_by_only_one_endpoint_is_mined(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    proxies[0].rule(
        SEND, return_error("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)")
    )
    harness.period()
    harness.tick()
    with harness.store.read_transaction() as uow:
        assert uow.outbox.accounts.find_pause(harness.context.account) is None
    harness.mine()
    assert harness.testbed.round == 1


def test_endpoint_that_forbids_sends_does_not_pause_the_sender(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    proxies[0].rule(SEND, return_error("eth_sendRawTransaction is forbidden for this key"))
    proxies[1].rule(SEND, drop_request(), times=1)
    harness.period()
    harness.tick()
    (first,) = list_attempts(harness)
    assert first.last_error_class == "ambiguous"
    assert "forbidden for this key" in (first.last_error_text or "")
    harness.mine(2)
    harness.tick()
    harness.mine()
    assert harness.testbed.round == 1


def test_wrong_chain_send_error_stops_the_daemon_and_is_recorded(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    for proxy in proxies:
        proxy.rule(SEND, return_error("invalid chain id for signer"))
    harness.period()
    with pytest.raises(FatalError, match="belonging to another chain: invalid chain id"):
        harness.tick()

    with harness.store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(harness.context.account)
        health = build_health_report(uow, lambda _lease: None)
    assert pause is not None
    assert pause.kind is PauseKind.CHAIN
    (finding,) = (
        finding for finding in health.findings if finding.condition is Condition.PAUSED_SENDER
    )
    assert "invalid chain id for signer (chain)" in finding.detail
    assert "ether" not in finding.detail
    assert (list_attempts(harness)[0].sends, list_attempts(harness)[0].last_error_class) == (
        1,
        "chain",
    )


def test_reserved_cost_includes_the_rollup_data_fee(sqlite_harness: Harness):
    harness, chain = sqlite_harness, sqlite_harness.testbed.chain
    fee = ETHER // 10**6
    chain.rpc("anvil_setCode", GAS_PRICE_ORACLE, build_price_oracle_code(fee))
    harness.context = replace(harness.context, send_settings=SendSettings(l1_fee=L1Fee.OPTIMISM))
    harness.period()
    harness.tick()
    assert get_only_intent(harness).max_cost_wei == fee

    sender = harness.context.account.address
    chain.rpc("anvil_setBalance", sender, hex(fee - 1))
    harness.mine()
    harness.tick()
    harness.until_final()
    # Gas is free here; the remaining balance does not pay for the next call's data.
    harness.period()
    harness.tick()
    assert harness.intents()[-1].error_class == "funds"


def test_arbitrum_l1_fee_is_computed_from_price_per_byte(sqlite_harness: Harness):
    harness, chain = sqlite_harness, sqlite_harness.testbed.chain
    lines = harness.context.sender_account.pool_view
    with pytest.raises(TransientError, match=r"check limits[.]l1_fee"):
        fetch_l1_fee(lines, L1Fee.ARBITRUM, "0x1122", 5)
    chain.rpc("anvil_setCode", ARB_GAS_INFO, f"0x7f{77:064x}60205260c05ff3")

    assert fetch_l1_fee(lines, L1Fee.ARBITRUM, "0x1122", 5) == 77 * (2 + 180)
    assert fetch_l1_fee(lines, L1Fee.NONE, "0x1122", 5) == 0
