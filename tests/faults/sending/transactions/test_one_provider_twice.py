"""Two endpoints of one provider lie alike beside one of another provider, which is honest.

They are two URLs of one host, so that they are one witness. `liar` answers at both of them. With
no other provider in the settings, each URL is a witness again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from oracle.errors import InputError, TransientError
from oracle.store.outbox.records import PauseKind
from oracle.telemetry.txmgr_metrics import UNDECIDED
from oracle.txmgr.client.l1_fees import GAS_PRICE_ORACLE, L1Fee, fetch_l1_fee
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.fee_bump import prepare_fee_bump
from oracle.txmgr.nonce_sync import find_start_refusal_reason, reconcile_nonces
from oracle.txmgr.rebuild_from_chain import plan_outbox_rebuild
from tests.faults.sending.conftest import OpenProxy
from tests.support.harness import FINALITY, Harness
from tests.support.sending.background_calls import get_pause_kind
from tests.support.sending.faults import (
    Answer,
    Fault,
    Question,
    respond_with,
    return_null,
    return_status,
    shift_number,
)
from tests.support.sending.in_flight import (
    GWEI,
    get_only_intent,
    list_attempt_fees,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.sending.old_databases import get_next_nonce, prepare_empty_store
from tests.support.sending.proxy import SEND, Proxy
from tests.support.sending.rollups import build_price_oracle_code
from tests.support.sending.stolen_keys import send_foreign_transaction
from tests.support.txmgr.stores import NewStore

RECEIPT, COUNT = "eth_getTransactionReceipt", "eth_getTransactionCount"
L1_FEE = 7 * 10**15
Receipt = dict[str, Any]


@pytest.fixture
def liar(open_proxy: OpenProxy) -> Proxy:
    return open_proxy()


@pytest.fixture
def honest(open_proxy: OpenProxy) -> Proxy:
    return open_proxy()


@pytest.fixture
def outnumbered_harness(sqlite_harness: Harness, liar: Proxy, honest: Proxy) -> Harness:
    """Return a harness with two URLs of the liar's provider, and one of the honest provider."""
    sqlite_harness.restart(urls=[*build_two_urls(liar), honest.url])
    return sqlite_harness


def build_two_urls(proxy: Proxy) -> list[str]:
    return [f"{proxy.url}/first-key", f"{proxy.url}/second-key"]


def build_changed_receipt_fault(change: Mapping[str, object]) -> Fault:
    """Return a fault that changes fields of every receipt."""

    def answer(_: Question, response: Answer) -> Answer:
        receipt = response.get("result")
        return {**response, "result": receipt and {**receipt, **change}}

    return Fault(answer=answer)


def read_undecided_nonces() -> float:
    return float(UNDECIDED.labels("transmitter")._value.get())


def claim_reverted(harness: Harness, liar: Proxy) -> None:
    """Have the liar report a push as reverted that succeeded."""
    liar.rule(RECEIPT, build_changed_receipt_fault({"status": "0x0"}))
    harness.period()
    harness.tick()
    harness.mine()


def claim_mined(harness: Harness, liar: Proxy, honest: Proxy) -> None:
    """Have the liar show the receipt of a push, in a real block, that no block holds any more."""
    harness.period()
    harness.tick()
    harness.mine()
    chain = harness.testbed.chain
    receipt = chain.rpc(RECEIPT, list_attempts(harness)[0].signed.tx_hash)
    assert receipt["status"] == "0x1"
    chain.rpc("anvil_reorg", 3, [])
    for proxy in (liar, honest):
        proxy.rule(SEND, respond_with(receipt["transactionHash"]))
    block = chain.rpc("eth_getBlockByNumber", hex(harness.testbed.built_at), False)
    place = {"blockNumber": block["number"], "blockHash": block["hash"]}
    liar.rule(RECEIPT, respond_with({**receipt, **place}))


def claim(lie: str, harness: Harness, liar: Proxy, honest: Proxy) -> None:
    if lie == "reverted":
        claim_reverted(harness, liar)
    else:
        claim_mined(harness, liar, honest)


# --- receipts ---


@pytest.mark.parametrize("lie", ["reverted", "mined"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["one process", "restarted"])
def test_false_receipt_from_two_urls_of_one_provider_is_not_final(
    outnumbered_harness: Harness, liar: Proxy, honest: Proxy, lie: str, *, is_restarted: bool
):
    harness = outnumbered_harness
    claim(lie, harness, liar, honest)
    for _ in range(3):
        harness.mine(FINALITY + 1)
        harness.tick()
        if is_restarted:
            harness.restart()
    harness.repeat(confirm_transactions)

    assert (harness.states()[0], read_undecided_nonces()) == ("mined", 1)
    assert (harness.testbed.round, harness.testbed.nonce) == (
        (1, 2) if lie == "reverted" else (0, 1)
    )

    liar.heal()
    honest.heal()
    harness.until_final()
    harness.mine()
    harness.until_final()
    assert (harness.states()[0], harness.testbed.round > 0) == ("final", True)
    assert read_undecided_nonces() == 0


def test_false_receipt_from_two_urls_of_the_only_provider_is_final(
    sqlite_harness: Harness, liar: Proxy
):
    harness = sqlite_harness
    harness.restart(urls=build_two_urls(liar))
    claim_reverted(harness, liar)
    harness.until_final()
    harness.restart()
    assert harness.states()[0] == "reverted"


@pytest.mark.parametrize("fault", [return_null(), build_changed_receipt_fault({"status": "0x0"})])
def test_nothing_is_final_while_endpoints_of_one_provider_disagree(
    sqlite_harness: Harness, open_proxy: OpenProxy, fault: Fault
):
    harness = sqlite_harness
    first = open_proxy()
    odd = open_proxy()
    hosts = {"127.0.0.1": "shared", "localhost": "shared"}
    urls = [first.url, odd.url.replace("127.0.0.1", "localhost")]
    harness.restart(urls=urls, providers=hosts)
    odd.rule(RECEIPT, fault)
    harness.period()
    harness.tick()
    harness.mine()
    harness.until_final()
    harness.restart()
    harness.repeat(confirm_transactions)
    assert (harness.states(), read_undecided_nonces()) == (["mined"], 1)

    odd.heal()
    harness.tick()
    assert harness.states() == ["final"]


def test_hosts_of_one_provider_do_not_outvote_an_honest_endpoint(
    sqlite_harness: Harness, open_proxy: OpenProxy, liar: Proxy
):
    harness = sqlite_harness
    honest_proxy = open_proxy()
    # A host of its own that leads to the same machine.
    honest_url = honest_proxy.url.replace("127.0.0.1", "127.1")
    urls = [liar.url, liar.url.replace("127.0.0.1", "localhost"), honest_url]
    harness.restart(urls=urls, providers={"127.0.0.1": "shared", "localhost": "shared"})
    claim_reverted(harness, liar)
    harness.until_final()
    assert (harness.states(), read_undecided_nonces()) == (["mined"], 1)


def test_gas_price_reported_twice_by_one_provider_is_not_booked(
    outnumbered_harness: Harness, liar: Proxy
):
    harness = outnumbered_harness
    send_unmined_push(harness)
    liar.rule(RECEIPT, build_changed_receipt_fault({"effectiveGasPrice": hex(10**24)}))
    mine_expensive_blocks(harness, GWEI)
    harness.tick()

    (slot,) = list_slots(harness)
    assert GWEI <= (slot.gas_price_wei or 0) < list_attempt_fees(harness)[0][0]


def test_l1_fee_reported_twice_by_one_provider_counts_once(
    outnumbered_harness: Harness, liar: Proxy
):
    harness, lines = outnumbered_harness, outnumbered_harness.context.sender_account.pool_view
    code = build_price_oracle_code(L1_FEE, None)
    harness.testbed.chain.rpc("anvil_setCode", GAS_PRICE_ORACLE, code)
    liar.rule("eth_call", respond_with("0x" + (1000 * L1_FEE).to_bytes(32, "big").hex()))
    assert fetch_l1_fee(lines, L1Fee.OPTIMISM, "0x", 21_000) == L1_FEE


# --- nonces ---


def is_latest(question: Question) -> bool:
    return bool(question["params"][1] == "latest")


def test_bump_is_allowed_if_one_of_two_providers_reports_the_nonce_used(
    outnumbered_harness: Harness, liar: Proxy
):
    harness = outnumbered_harness
    send_unmined_push(harness)
    liar.rule(COUNT, shift_number(1), when=is_latest)
    prepare_fee_bump(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)

    mine_expensive_blocks(harness, 5 * GWEI, 3)
    harness.tick()
    assert (harness.states(), len(list_attempts(harness))) == (["live"], 2)


def test_bump_is_rejected_if_the_only_provider_reports_the_nonce_used(
    sqlite_harness: Harness, liar: Proxy
):
    harness = sqlite_harness
    harness.restart(urls=build_two_urls(liar))
    send_unmined_push(harness)
    liar.rule(COUNT, shift_number(1), when=is_latest)
    with pytest.raises(InputError, match="already in a block"):
        prepare_fee_bump(
            harness.context, harness.source.fetch_heads(), get_only_intent(harness).id
        )


@pytest.mark.parametrize("is_restarted", [False, True], ids=["one process", "restarted"])
def test_foreign_transaction_at_one_provider_does_not_pause_sender(
    outnumbered_harness: Harness, honest: Proxy, *, is_restarted: bool
):
    harness = outnumbered_harness
    harness.period()
    harness.tick()
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    foreign = send_foreign_transaction(harness, 50 * GWEI)
    harness.mine(FINALITY + 1)
    harness.index()
    honest.rule(COUNT, return_status(503))
    harness.repeat(confirm_transactions)
    if is_restarted:
        harness.restart()
        harness.repeat(confirm_transactions)

    assert (harness.states(), get_pause_kind(harness)) == (["live"], None)
    assert f"by {foreign}" in (get_only_intent(harness).error_text or "")
    assert "but too few witnesses confirm it" in (get_only_intent(harness).error_text or "")

    honest.heal()
    harness.mine(8)
    harness.tick()
    assert get_pause_kind(harness) is PauseKind.FOREIGN


def test_foreign_transaction_at_the_only_provider_pauses_sender(
    sqlite_harness: Harness, liar: Proxy
):
    harness = sqlite_harness
    harness.restart(urls=build_two_urls(liar))
    harness.period()
    harness.tick()
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    send_foreign_transaction(harness, 50 * GWEI)
    harness.mine(FINALITY + 1)
    harness.tick()
    assert get_pause_kind(harness) is PauseKind.FOREIGN


def test_higher_nonce_count_at_one_provider_prevents_startup(
    outnumbered_harness: Harness, liar: Proxy
):
    harness = outnumbered_harness
    liar.rule(COUNT, shift_number(5))
    context = harness.context
    with pytest.raises(TransientError, match="no sender starts until another"):
        reconcile_nonces(context)
    assert (
        find_start_refusal_reason(context.store, context.sender_account.pool_view, context.account)
        is None
    )
    with pytest.raises(TransientError, match="no sender starts until another"):
        harness.restart()
    assert get_pause_kind(harness) is None

    liar.heal()
    harness.restart()
    harness.pushed()


def test_database_is_rejected_if_the_only_provider_reports_a_higher_nonce(
    sqlite_harness: Harness, liar: Proxy
):
    harness = sqlite_harness
    harness.restart(urls=build_two_urls(liar))
    liar.rule(COUNT, shift_number(5))
    context = harness.context
    with pytest.raises(InputError, match="outbox rebuild --from-chain"):
        reconcile_nonces(context)
    assert (
        find_start_refusal_reason(context.store, context.sender_account.pool_view, context.account)
        is not None
    )


def test_new_account_is_not_enrolled_until_two_providers_agree(
    outnumbered_harness: Harness, liar: Proxy, honest: Proxy, new_sqlite_store: NewStore
):
    harness = outnumbered_harness
    liar.rule(COUNT, respond_with("0x0"))
    honest.rule(COUNT, return_status(503))
    with new_sqlite_store() as fresh:
        context = replace(harness.context, store=prepare_empty_store(harness, fresh))
        with pytest.raises(TransientError, match="until another provider reports the same"):
            reconcile_nonces(context)
        assert get_next_nonce(context) is None

        honest.heal()
        with pytest.raises(TransientError, match="no sender starts until another"):
            reconcile_nonces(context)
        assert get_next_nonce(context) is None


def test_new_account_is_enrolled_by_two_endpoints_of_the_only_provider(
    sqlite_harness: Harness, liar: Proxy, new_sqlite_store: NewStore
):
    harness = sqlite_harness
    harness.restart(urls=build_two_urls(liar))
    liar.rule(COUNT, respond_with("0x0"))
    with new_sqlite_store() as fresh:
        context = replace(harness.context, store=prepare_empty_store(harness, fresh))
        reconcile_nonces(context)
        assert get_next_nonce(context) == 0


def test_rebuild_rejects_a_nonce_count_from_one_of_two_providers(
    outnumbered_harness: Harness, liar: Proxy
):
    harness = outnumbered_harness
    liar.rule(COUNT, shift_number(3))
    with pytest.raises(TransientError, match="two providers must agree"):
        plan_outbox_rebuild(harness.context, 1000)

    liar.heal()
    assert plan_outbox_rebuild(harness.context, 1000).is_empty


def test_rebuild_accepts_a_nonce_count_from_the_only_provider(
    sqlite_harness: Harness, liar: Proxy
):
    harness = sqlite_harness
    harness.restart(urls=build_two_urls(liar))
    liar.rule(COUNT, shift_number(3))
    assert plan_outbox_rebuild(harness.context, 1000).mined == harness.testbed.nonce + 3


def build_hidden_transactions_fault() -> Fault:
    """Return a fault that takes all transactions out of whole blocks."""

    def answer(_: Question, response: Answer) -> Answer:
        block = response.get("result")
        return {**response, "result": block and {**block, "transactions": []}}

    return Fault(answer=answer)


def build_moved_transactions_fault() -> Fault:
    """Return a fault that shows another transaction of the same sender with each nonce."""

    def answer(_: Question, response: Answer) -> Answer:
        block = response.get("result")
        sent = [
            {**transaction, "input": "0x12345678"}
            for transaction in (block or {}).get("transactions", ())
        ]
        return {**response, "result": block and {**block, "transactions": sent}}

    return Fault(answer=answer)


LIES_ABOUT_NONCES = {
    "reverted": (RECEIPT, build_changed_receipt_fault({"status": "0x0"})),
    "hidden": ("eth_getBlockByNumber", build_hidden_transactions_fault()),
    "another call": ("eth_getBlockByNumber", build_moved_transactions_fault()),
    "no receipt": (RECEIPT, return_null()),
}


@pytest.mark.parametrize("lie", LIES_ABOUT_NONCES)
def test_nonces_are_not_rebuilt_from_one_of_two_providers(
    outnumbered_harness: Harness, liar: Proxy, new_sqlite_store: NewStore, lie: str
):
    harness = outnumbered_harness
    harness.pushed()
    with new_sqlite_store() as fresh:
        context = replace(harness.context, store=prepare_empty_store(harness, fresh))
        honest = plan_outbox_rebuild(context, 1000)
        assert honest.transaction_by_nonce
        liar.rule(*LIES_ABOUT_NONCES[lie])
        with pytest.raises(TransientError, match="two providers must show the same"):
            plan_outbox_rebuild(context, 1000)

        liar.heal()
        assert plan_outbox_rebuild(context, 1000) == honest


@pytest.mark.parametrize("lie", LIES_ABOUT_NONCES)
def test_nonces_are_rebuilt_from_two_agreeing_providers(
    sqlite_harness: Harness,
    liar: Proxy,
    honest: Proxy,
    open_proxy: OpenProxy,
    new_sqlite_store: NewStore,
    lie: str,
):
    harness = sqlite_harness
    harness.restart(urls=[*build_two_urls(liar), honest.url, open_proxy().url])
    harness.pushed()
    with new_sqlite_store() as fresh:
        context = replace(harness.context, store=prepare_empty_store(harness, fresh))
        findings = plan_outbox_rebuild(context, 1000)
        assert findings.transaction_by_nonce
        liar.rule(*LIES_ABOUT_NONCES[lie])
        assert plan_outbox_rebuild(context, 1000) == findings


def test_nonces_are_not_rebuilt_without_blocks_of_a_second_provider(
    outnumbered_harness: Harness, honest: Proxy, new_sqlite_store: NewStore
):
    harness = outnumbered_harness
    harness.pushed()
    with new_sqlite_store() as fresh:
        context = replace(harness.context, store=prepare_empty_store(harness, fresh))
        honest.rule("eth_getBlockByNumber", return_status(503))
        with pytest.raises(TransientError, match="two providers must show which transactions"):
            plan_outbox_rebuild(context, 1000)


def test_rebuilt_nonce_gets_the_lowest_reported_gas_price(
    outnumbered_harness: Harness, liar: Proxy, new_sqlite_store: NewStore
):
    harness = outnumbered_harness
    harness.pushed()
    with new_sqlite_store() as fresh:
        context = replace(harness.context, store=prepare_empty_store(harness, fresh))
        spent = plan_outbox_rebuild(context, 1000).transaction_by_nonce
        liar.rule(RECEIPT, build_changed_receipt_fault({"effectiveGasPrice": hex(10**24)}))
        assert plan_outbox_rebuild(context, 1000).transaction_by_nonce == spent
