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
from tests.support.office import FINALITY, Office
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
from tests.support.sending.old_databases import next_nonce, prepare_empty_store
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
def outnumbered_office(sqlite_office: Office, liar: Proxy, honest: Proxy) -> Office:
    """Return an office with two URLs of the liar's provider, and one of the honest provider."""
    sqlite_office.restart(urls=[*two_urls_of(liar), honest.url])
    return sqlite_office


def two_urls_of(proxy: Proxy) -> list[str]:
    return [f"{proxy.url}/first-key", f"{proxy.url}/second-key"]


def changed_receipt(change: Mapping[str, object]) -> Fault:
    """Return a fault that changes fields of every receipt."""

    def answer(_: Question, response: Answer) -> Answer:
        receipt = response.get("result")
        return {**response, "result": receipt and {**receipt, **change}}

    return Fault(answer=answer)


def undecided_nonces() -> float:
    return float(UNDECIDED.labels("transmitter")._value.get())


def claim_reverted(office: Office, liar: Proxy) -> None:
    """Have the liar report a push as reverted that succeeded."""
    liar.rule(RECEIPT, changed_receipt({"status": "0x0"}))
    office.period()
    office.tick()
    office.mine()


def claim_mined(office: Office, liar: Proxy, honest: Proxy) -> None:
    """Have the liar show the receipt of a push, in a real block, that no block holds any more."""
    office.period()
    office.tick()
    office.mine()
    chain = office.premises.chain
    receipt = chain.rpc(RECEIPT, list_attempts(office)[0].signed.tx_hash)
    assert receipt["status"] == "0x1"
    chain.rpc("anvil_reorg", 3, [])
    for proxy in (liar, honest):
        proxy.rule(SEND, respond_with(receipt["transactionHash"]))
    block = chain.rpc("eth_getBlockByNumber", hex(office.premises.built_at), False)
    place = {"blockNumber": block["number"], "blockHash": block["hash"]}
    liar.rule(RECEIPT, respond_with({**receipt, **place}))


def claim(lie: str, office: Office, liar: Proxy, honest: Proxy) -> None:
    if lie == "reverted":
        claim_reverted(office, liar)
    else:
        claim_mined(office, liar, honest)


# --- receipts ---


@pytest.mark.parametrize("lie", ["reverted", "mined"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["one process", "restarted"])
def test_false_receipt_from_two_endpoints_of_one_provider_is_not_final(
    outnumbered_office: Office, liar: Proxy, honest: Proxy, lie: str, *, is_restarted: bool
):
    office = outnumbered_office
    claim(lie, office, liar, honest)
    for _ in range(3):
        office.mine(FINALITY + 1)
        office.tick()
        if is_restarted:
            office.restart()
    office.repeat(confirm_transactions)

    assert (office.states()[0], undecided_nonces()) == ("mined", 1)
    assert (office.premises.round, office.premises.nonce) == (
        (1, 2) if lie == "reverted" else (0, 1)
    )

    liar.heal()
    honest.heal()
    office.until_final()
    office.mine()
    office.until_final()
    assert (office.states()[0], office.premises.round > 0) == ("final", True)
    assert undecided_nonces() == 0


def test_false_receipt_from_both_endpoints_of_the_only_provider_is_final(
    sqlite_office: Office, liar: Proxy
):
    office = sqlite_office
    office.restart(urls=two_urls_of(liar))
    claim_reverted(office, liar)
    office.until_final()
    office.restart()
    assert office.states()[0] == "reverted"


@pytest.mark.parametrize("fault", [return_null(), changed_receipt({"status": "0x0"})])
def test_nothing_is_final_while_endpoints_of_the_only_provider_disagree(
    sqlite_office: Office, open_proxy: OpenProxy, fault: Fault
):
    office, first, odd = sqlite_office, open_proxy(), open_proxy()
    hosts = {"127.0.0.1": "shared", "localhost": "shared"}
    urls = [first.url, odd.url.replace("127.0.0.1", "localhost")]
    office.restart(urls=urls, providers=hosts)
    odd.rule(RECEIPT, fault)
    office.period()
    office.tick()
    office.mine()
    office.until_final()
    office.restart()
    office.repeat(confirm_transactions)
    assert (office.states(), undecided_nonces()) == (["mined"], 1)

    odd.heal()
    office.tick()
    assert office.states() == ["final"]


def test_honest_endpoint_is_not_outvoted_by_hosts_configured_as_one_provider(
    sqlite_office: Office, open_proxy: OpenProxy, liar: Proxy
):
    office, honest_proxy = sqlite_office, open_proxy()
    # A host of its own that leads to the same machine.
    honest_url = honest_proxy.url.replace("127.0.0.1", "127.1")
    urls = [liar.url, liar.url.replace("127.0.0.1", "localhost"), honest_url]
    office.restart(urls=urls, providers={"127.0.0.1": "shared", "localhost": "shared"})
    claim_reverted(office, liar)
    office.until_final()
    assert (office.states(), undecided_nonces()) == (["mined"], 1)


def test_gas_price_reported_twice_by_one_provider_is_not_booked(
    outnumbered_office: Office, liar: Proxy
):
    office = outnumbered_office
    send_unmined_push(office)
    liar.rule(RECEIPT, changed_receipt({"effectiveGasPrice": hex(10**24)}))
    mine_expensive_blocks(office, GWEI)
    office.tick()

    (slot,) = list_slots(office)
    assert GWEI <= (slot.gas_price_wei or 0) < list_attempt_fees(office)[0][0]


def test_l1_fee_reported_twice_by_one_provider_is_not_taken_as_median(
    outnumbered_office: Office, liar: Proxy
):
    office, lines = outnumbered_office, outnumbered_office.context.sender_account.pool_view
    code = build_price_oracle_code(L1_FEE, None)
    office.premises.chain.rpc("anvil_setCode", GAS_PRICE_ORACLE, code)
    liar.rule("eth_call", respond_with("0x" + (1000 * L1_FEE).to_bytes(32, "big").hex()))
    assert fetch_l1_fee(lines, L1Fee.OPTIMISM, "0x", 21_000) == L1_FEE


# --- nonces ---


def is_latest(question: Question) -> bool:
    return bool(question["params"][1] == "latest")


def test_nonce_reported_as_used_by_one_of_two_providers_is_still_bumped(
    outnumbered_office: Office, liar: Proxy
):
    office = outnumbered_office
    send_unmined_push(office)
    liar.rule(COUNT, shift_number(1), when=is_latest)
    prepare_fee_bump(office.context, office.source.fetch_heads(), get_only_intent(office).id)

    mine_expensive_blocks(office, 5 * GWEI, 3)
    office.tick()
    assert (office.states(), len(list_attempts(office))) == (["live"], 2)


def test_nonce_reported_as_used_by_the_only_provider_is_not_bumped(
    sqlite_office: Office, liar: Proxy
):
    office = sqlite_office
    office.restart(urls=two_urls_of(liar))
    send_unmined_push(office)
    liar.rule(COUNT, shift_number(1), when=is_latest)
    with pytest.raises(InputError, match="already in a block"):
        prepare_fee_bump(office.context, office.source.fetch_heads(), get_only_intent(office).id)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["one process", "restarted"])
def test_foreign_transaction_shown_by_one_of_two_providers_does_not_pause_sender(
    outnumbered_office: Office, honest: Proxy, *, is_restarted: bool
):
    office = outnumbered_office
    office.period()
    office.tick()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    foreign = send_foreign_transaction(office, 50 * GWEI)
    office.mine(FINALITY + 1)
    office.index()
    honest.rule(COUNT, return_status(503))
    office.repeat(confirm_transactions)
    if is_restarted:
        office.restart()
        office.repeat(confirm_transactions)

    assert (office.states(), get_pause_kind(office)) == (["live"], None)
    assert f"by {foreign}" in (get_only_intent(office).error_text or "")
    assert "but too few witnesses confirm it" in (get_only_intent(office).error_text or "")

    honest.heal()
    office.mine(8)
    office.tick()
    assert get_pause_kind(office) is PauseKind.FOREIGN


def test_foreign_transaction_shown_twice_by_the_only_provider_pauses_sender(
    sqlite_office: Office, liar: Proxy
):
    office = sqlite_office
    office.restart(urls=two_urls_of(liar))
    office.period()
    office.tick()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    send_foreign_transaction(office, 50 * GWEI)
    office.mine(FINALITY + 1)
    office.tick()
    assert get_pause_kind(office) is PauseKind.FOREIGN


def test_higher_nonce_count_at_one_of_two_providers_stops_start_but_database_is_not_refused(
    outnumbered_office: Office, liar: Proxy
):
    office = outnumbered_office
    liar.rule(COUNT, shift_number(5))
    context = office.context
    with pytest.raises(TransientError, match="no sender starts until another"):
        reconcile_nonces(context)
    assert (
        find_start_refusal_reason(context.store, context.sender_account.pool_view, context.account)
        is None
    )
    with pytest.raises(TransientError, match="no sender starts until another"):
        office.restart()
    assert get_pause_kind(office) is None

    liar.heal()
    office.restart()
    office.pushed()


def test_database_is_refused_when_the_only_provider_reports_a_higher_nonce_count(
    sqlite_office: Office, liar: Proxy
):
    office = sqlite_office
    office.restart(urls=two_urls_of(liar))
    liar.rule(COUNT, shift_number(5))
    context = office.context
    with pytest.raises(InputError, match="outbox rebuild --from-chain"):
        reconcile_nonces(context)
    assert (
        find_start_refusal_reason(context.store, context.sender_account.pool_view, context.account)
        is not None
    )


def test_account_is_not_enrolled_when_only_one_of_two_providers_reports_no_sends(
    outnumbered_office: Office, liar: Proxy, honest: Proxy, new_sqlite_store: NewStore
):
    office = outnumbered_office
    liar.rule(COUNT, respond_with("0x0"))
    honest.rule(COUNT, return_status(503))
    with new_sqlite_store() as fresh:
        context = replace(office.context, store=prepare_empty_store(office, fresh))
        with pytest.raises(TransientError, match="until another provider reports the same"):
            reconcile_nonces(context)
        assert next_nonce(context) is None

        honest.heal()
        with pytest.raises(TransientError, match="no sender starts until another"):
            reconcile_nonces(context)
        assert next_nonce(context) is None


def test_account_is_enrolled_when_both_endpoints_of_the_only_provider_report_no_sends(
    sqlite_office: Office, liar: Proxy, new_sqlite_store: NewStore
):
    office = sqlite_office
    office.restart(urls=two_urls_of(liar))
    liar.rule(COUNT, respond_with("0x0"))
    with new_sqlite_store() as fresh:
        context = replace(office.context, store=prepare_empty_store(office, fresh))
        reconcile_nonces(context)
        assert next_nonce(context) == 0


def test_rebuild_rejects_nonce_count_reported_by_only_one_of_two_providers(
    outnumbered_office: Office, liar: Proxy
):
    office = outnumbered_office
    liar.rule(COUNT, shift_number(3))
    with pytest.raises(TransientError, match="two providers must agree"):
        plan_outbox_rebuild(office.context, 1000)

    liar.heal()
    assert plan_outbox_rebuild(office.context, 1000).is_empty


def test_rebuild_accepts_nonce_count_of_both_endpoints_of_the_only_provider(
    sqlite_office: Office, liar: Proxy
):
    office = sqlite_office
    office.restart(urls=two_urls_of(liar))
    liar.rule(COUNT, shift_number(3))
    assert plan_outbox_rebuild(office.context, 1000).mined == office.premises.nonce + 3


def hidden_transactions() -> Fault:
    """Return a fault that takes all transactions out of whole blocks."""

    def answer(_: Question, response: Answer) -> Answer:
        block = response.get("result")
        return {**response, "result": block and {**block, "transactions": []}}

    return Fault(answer=answer)


def moved_transactions() -> Fault:
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
    "reverted": (RECEIPT, changed_receipt({"status": "0x0"})),
    "hidden": ("eth_getBlockByNumber", hidden_transactions()),
    "another call": ("eth_getBlockByNumber", moved_transactions()),
    "no receipt": (RECEIPT, return_null()),
}


@pytest.mark.parametrize("lie", LIES_ABOUT_NONCES)
def test_nonces_are_not_rebuilt_from_transactions_of_only_one_provider(
    outnumbered_office: Office, liar: Proxy, new_sqlite_store: NewStore, lie: str
):
    office = outnumbered_office
    office.pushed()
    with new_sqlite_store() as fresh:
        context = replace(office.context, store=prepare_empty_store(office, fresh))
        honest = plan_outbox_rebuild(context, 1000)
        assert honest.transaction_by_nonce
        liar.rule(*LIES_ABOUT_NONCES[lie])
        with pytest.raises(TransientError, match="two providers must show the same"):
            plan_outbox_rebuild(context, 1000)

        liar.heal()
        assert plan_outbox_rebuild(context, 1000) == honest


@pytest.mark.parametrize("lie", LIES_ABOUT_NONCES)
def test_nonces_are_rebuilt_from_two_agreeing_providers_despite_false_responses(
    sqlite_office: Office,
    liar: Proxy,
    honest: Proxy,
    open_proxy: OpenProxy,
    new_sqlite_store: NewStore,
    lie: str,
):
    office = sqlite_office
    office.restart(urls=[*two_urls_of(liar), honest.url, open_proxy().url])
    office.pushed()
    with new_sqlite_store() as fresh:
        context = replace(office.context, store=prepare_empty_store(office, fresh))
        findings = plan_outbox_rebuild(context, 1000)
        assert findings.transaction_by_nonce
        liar.rule(*LIES_ABOUT_NONCES[lie])
        assert plan_outbox_rebuild(context, 1000) == findings


def test_nonces_are_not_rebuilt_while_only_one_of_two_providers_returns_blocks(
    outnumbered_office: Office, honest: Proxy, new_sqlite_store: NewStore
):
    office = outnumbered_office
    office.pushed()
    with new_sqlite_store() as fresh:
        context = replace(office.context, store=prepare_empty_store(office, fresh))
        honest.rule("eth_getBlockByNumber", return_status(503))
        with pytest.raises(TransientError, match="two providers must show which transactions"):
            plan_outbox_rebuild(context, 1000)


def test_rebuilt_nonce_gets_the_lowest_reported_gas_price(
    outnumbered_office: Office, liar: Proxy, new_sqlite_store: NewStore
):
    office = outnumbered_office
    office.pushed()
    with new_sqlite_store() as fresh:
        context = replace(office.context, store=prepare_empty_store(office, fresh))
        spent = plan_outbox_rebuild(context, 1000).transaction_by_nonce
        liar.rule(RECEIPT, changed_receipt({"effectiveGasPrice": hex(10**24)}))
        assert plan_outbox_rebuild(context, 1000).transaction_by_nonce == spent
