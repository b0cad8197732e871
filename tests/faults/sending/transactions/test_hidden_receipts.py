"""Endpoints that count a nonce as used but show no receipt: the key need not be stolen."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from oracle.daemon.sending_jobs import update_pause_reasons
from oracle.domain.health import Condition
from oracle.store.outbox.records import PUSH, PauseKind
from oracle.telemetry.txmgr_metrics import WITHOUT_RECEIPT
from oracle.txmgr.attribution import NO_RECEIPT, find_missing_receipt_reason
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.rebuild_from_chain import plan_outbox_rebuild
from tests.support.harness import FINALITY, Harness, create_sending_jobs
from tests.support.sending.background_calls import get_pause_kind
from tests.support.sending.faults import Answer, Fault, Question, return_error, return_null
from tests.support.sending.in_flight import (
    BY_BLOCKS,
    GWEI,
    get_only_intent,
    list_attempts,
    mine_expensive_blocks,
)
from tests.support.sending.old_databases import store_rebuild_plan
from tests.support.sending.proxy import Proxy
from tests.support.sending.stolen_keys import get_payee, send_foreign_transaction

Proxies = tuple[Proxy, Proxy]
RECEIPT = "eth_getTransactionReceipt"
BLOCK = "eth_getBlockByNumber"
COUNT = "eth_getTransactionCount"


def read_without_receipt_metric() -> float:
    return float(WITHOUT_RECEIPT.labels("transmitter")._value.get())


def use_single_endpoint(harness: Harness, proxies: Proxies) -> Proxy:
    """Give the harness a single endpoint."""
    harness.restart(urls=[proxies[0].url])
    return proxies[0]


def mine_push_without_receipt(harness: Harness, *hiding: Proxy) -> None:
    """Mine a push up to its finality, while no endpoint shows its receipt."""
    harness.period()
    harness.tick()
    for proxy in hiding:
        proxy.rule(RECEIPT, return_null())
    harness.mine(FINALITY + 1)


def use_nonce_elsewhere_to_finality(harness: Harness) -> str:
    """Use the push's nonce from a second wallet, up to its finality; return the hash."""
    harness.period()
    harness.tick()
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    foreign_hash = send_foreign_transaction(harness, 50 * GWEI)
    harness.mine(FINALITY + 1)
    return foreign_hash


def check_receipts(harness: Harness) -> list[str]:
    """Return the actions of a check of the receipts before anything new is folded."""
    return [step.action for step in harness.repeat(confirm_transactions) if step.action != "sent"]


def test_receipts_hidden_by_the_only_endpoint_do_not_pause_sender(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    only_one = use_single_endpoint(harness, proxies)
    mine_push_without_receipt(harness, only_one)
    for _ in range(4):
        harness.mine()
        harness.tick()
    intent = get_only_intent(harness)
    assert (intent.state.value, intent.error_class, get_pause_kind(harness)) == (
        "live",
        NO_RECEIPT,
        None,
    )
    assert "nonce 1 is used by an own transaction with a log in block" in (intent.error_text or "")
    assert (
        find_missing_receipt_reason(harness.context)
        == f"{harness.context.account.address}: {intent.error_text}"
    )
    assert read_without_receipt_metric() == 1
    jobs = create_sending_jobs(harness)
    update_pause_reasons(jobs.senders, jobs.health)
    conditions = {finding.condition for finding in jobs.health.build_report().findings}
    assert Condition.UNPROVEN in conditions
    assert Condition.PAUSED_SENDER not in conditions
    # No fee bump is sent for a used nonce.
    assert len(list_attempts(harness)) == 1

    only_one.heal()
    harness.until_final()
    assert (harness.states()[0], get_only_intent(harness).error_text) == ("final", None)
    assert (read_without_receipt_metric(), find_missing_receipt_reason(harness.context)) == (
        0,
        None,
    )


def test_sender_is_not_paused_if_its_own_transaction_is_in_a_block(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    mine_push_without_receipt(harness, use_single_endpoint(harness, proxies))
    (sent,) = list_attempts(harness)
    assert check_receipts(harness) == ["push without a receipt"]
    assert f"own transaction {sent.signed.tx_hash} of block" in (
        get_only_intent(harness).error_text or ""
    )
    assert (harness.states(), get_pause_kind(harness)) == (["live"], None)


def test_used_nonce_is_not_bumped_while_receipts_are_missing(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.context = replace(harness.context, send_settings=BY_BLOCKS)
    mine_push_without_receipt(harness, *proxies)
    # Blocks that would be too expensive for the transaction if it were not mined already.
    mine_expensive_blocks(harness, 50 * GWEI, 12)
    harness.tick()
    assert (harness.states()[0], len(list_attempts(harness))) == ("live", 1)


def test_randomly_missing_receipts_do_not_pause_the_sender(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    for seed, proxy in enumerate(proxies):
        proxy.rule(RECEIPT, return_null(), when=_build_random_matcher(seed))
    for _ in range(6):
        harness.period()
        harness.tick()
        harness.mine(FINALITY + 1)
        harness.tick()
        assert get_pause_kind(harness) is None
    for proxy in proxies:
        proxy.heal()
    harness.until_final()
    assert set(harness.states()) == {"final"}
    assert harness.testbed.round == len(harness.states())


def test_mined_push_stays_mined_while_its_receipt_is_missing(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.pushed()
    assert harness.states() == ["mined"]
    for proxy in proxies:
        proxy.rule(RECEIPT, return_null())
    harness.mine(FINALITY + 2)
    harness.tick()
    harness.tick()
    assert (harness.states(), get_pause_kind(harness)) == (["mined"], None)
    assert "reorged" not in harness.journal()

    for proxy in proxies:
        proxy.heal()
    harness.until_final()
    assert harness.states() == ["final"]
    assert "landed" in [state for state, _ in harness.reports()]


def test_foreign_transaction_is_reported_with_its_block_and_target(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    foreign_hash = use_nonce_elsewhere_to_finality(harness)
    for proxy in proxies:
        proxy.rule(RECEIPT, return_null())
    harness.tick()
    assert (harness.states(), get_pause_kind(harness)) == (["held"], PauseKind.FOREIGN)
    with harness.store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(harness.context.account)
    assert pause is not None
    block = int(
        harness.testbed.chain.rpc("eth_getTransactionByHash", foreign_hash)["blockNumber"], 16
    )
    for fragment in (
        foreign_hash,
        f"block {block}",
        get_payee(harness),
        "outbox rebuild",
        "rotate the key",
    ):
        assert fragment in pause.reason
    assert get_only_intent(harness).error_text == pause.reason


def test_sender_resumes_after_a_rebuild_resolves_the_nonce(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    use_nonce_elsewhere_to_finality(harness)
    harness.tick()
    assert get_pause_kind(harness) is PauseKind.FOREIGN
    comparison = plan_outbox_rebuild(harness.context, 1000)
    assert (list(comparison.nonces_ahead), list(comparison.nonces)) == ([1], [])
    store_rebuild_plan(harness, harness.context, comparison)
    assert plan_outbox_rebuild(harness.context, 1000).is_empty
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.resume(harness.context.account, harness.context.stamp)
    assert (harness.states(PUSH), get_pause_kind(harness)) == (["superseded"], None)


def test_foreign_transaction_is_detected_without_historical_state(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    only_one = use_single_endpoint(harness, proxies)
    foreign_hash = use_nonce_elsewhere_to_finality(harness)
    harness.mine(30)
    final = harness.testbed.chain.block - FINALITY
    only_one.rule(
        COUNT, return_error("missing trie node"), when=_build_block_below_matcher(final - 3)
    )
    harness.tick()
    assert get_pause_kind(harness) is PauseKind.FOREIGN
    assert foreign_hash in (get_only_intent(harness).error_text or "")


@pytest.mark.parametrize("reported", ["other fields", "invalid signature", "other sender"])
def test_transaction_unknown_to_one_endpoint_does_not_pause_sender(
    proxied_harness: Harness, proxies: Proxies, reported: str
):
    harness = proxied_harness
    foreign_hash = use_nonce_elsewhere_to_finality(harness)
    forged: dict[str, Callable[[Answer], None]] = {
        "other fields": lambda transaction: transaction.update(value="0x1"),
        "invalid signature": lambda transaction: transaction.update(r="0x1", s="0x1"),
        "other sender": lambda transaction: transaction.update({"from": "0x" + "11" * 20}),
    }
    proxies[1].rule(BLOCK, change_transaction_in_blocks(foreign_hash, forged[reported]))
    for _ in range(3):
        harness.mine()
        harness.tick()
    assert (harness.states(), get_pause_kind(harness)) == (["live"], None)
    assert foreign_hash in (get_only_intent(harness).error_text or "")
    assert "but too few witnesses confirm it" in (get_only_intent(harness).error_text or "")

    proxies[1].heal()
    harness.mine(8)
    harness.tick()
    assert get_pause_kind(harness) is PauseKind.FOREIGN


def test_fabricated_transaction_does_not_pause_the_sender(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    only_one = use_single_endpoint(harness, proxies)
    harness.period()
    harness.tick()
    (sent,) = list_attempts(harness)
    only_one.rule(RECEIPT, return_null())
    # The daemon's transaction with another value.
    only_one.rule(
        BLOCK,
        change_transaction_in_blocks(
            sent.signed.tx_hash, lambda transaction: transaction.update(value="0x1")
        ),
    )
    harness.mine(FINALITY + 1)
    assert check_receipts(harness) == ["push without a receipt"]
    assert (harness.states(), get_pause_kind(harness)) == (["live"], None)
    assert "by a transaction that no endpoint shows" in (get_only_intent(harness).error_text or "")


def _build_random_matcher(seed: int) -> Callable[[Question], bool]:
    chance = random.Random(seed)  # noqa: S311  luck that is the same each time
    return lambda _: chance.random() < 0.5


def _build_block_below_matcher(number: int) -> Callable[[Question], bool]:
    def asks(request: Question) -> bool:
        at = request["params"][1]
        return at.startswith("0x") and int(at, 16) < number

    return asks


def change_transaction_in_blocks(tx_hash: str, change: Callable[[Answer], None]) -> Fault:
    """Return a fault that changes this transaction in whole blocks."""

    def answer(_: Question, response: Answer) -> Answer:
        block: Any = response.get("result")
        for transaction in block["transactions"] if block else []:
            if isinstance(transaction, dict) and transaction["hash"] == tx_hash:
                change(transaction)
        return response

    return Fault(answer=answer)
