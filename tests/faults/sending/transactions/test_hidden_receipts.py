"""Endpoints that count a nonce as used but show no receipt: the key need not be stolen."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from oracle.reporting.reporting_context import PUSH
from oracle.store.outbox.records import PauseKind
from oracle.telemetry.txmgr_metrics import WITHOUT_RECEIPT
from oracle.txmgr.attribution import NO_RECEIPT, find_missing_receipt_reason
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.rebuild_from_chain import plan_outbox_rebuild
from tests.support.office import FINALITY, Office
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
RECEIPT, BLOCK, COUNT = (
    "eth_getTransactionReceipt",
    "eth_getBlockByNumber",
    "eth_getTransactionCount",
)


def without_receipt() -> float:
    return float(WITHOUT_RECEIPT.labels("transmitter")._value.get())


def alone(office: Office, proxies: Proxies) -> Proxy:
    """Give the office a single endpoint."""
    office.restart(urls=[proxies[0].url])
    return proxies[0]


def mine_push_without_receipt(office: Office, *hiding: Proxy) -> None:
    """Mine a push up to its finality, while no endpoint shows its receipt."""
    office.period()
    office.tick()
    for proxy in hiding:
        proxy.rule(RECEIPT, return_null())
    office.mine(FINALITY + 1)


def use_nonce_elsewhere_to_finality(office: Office) -> str:
    """Use the push's nonce from a second wallet, up to its finality; return the hash."""
    office.period()
    office.tick()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    foreign_hash = send_foreign_transaction(office, 50 * GWEI)
    office.mine(FINALITY + 1)
    return foreign_hash


def check_receipts(office: Office) -> list[str]:
    """Return the actions of a check of the receipts before anything new is folded."""
    return [step.action for step in office.repeat(confirm_transactions) if step.action != "sent"]


def test_receipts_hidden_by_the_only_endpoint_do_not_make_nonce_foreign(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    only_one = alone(office, proxies)
    mine_push_without_receipt(office, only_one)
    for _ in range(4):
        office.mine()
        office.tick()
    intent = get_only_intent(office)
    assert (intent.state.value, intent.error_class, get_pause_kind(office)) == (
        "live",
        NO_RECEIPT,
        None,
    )
    assert "nonce 1 is used by an own transaction with a log in block" in (intent.error_text or "")
    assert (
        find_missing_receipt_reason(office.context)
        == f"{office.context.account.address}: {intent.error_text}"
    )
    assert without_receipt() == 1
    # No fee bump is sent for a used nonce.
    assert len(list_attempts(office)) == 1

    only_one.heal()
    office.until_final()
    assert (office.states()[0], get_only_intent(office).error_text) == ("final", None)
    assert (without_receipt(), find_missing_receipt_reason(office.context)) == (0, None)


def test_used_nonce_is_not_foreign_when_a_block_contains_own_transaction(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    mine_push_without_receipt(office, alone(office, proxies))
    (sent,) = list_attempts(office)
    assert check_receipts(office) == ["push without a receipt"]
    assert f"own transaction {sent.signed.tx_hash} of block" in (
        get_only_intent(office).error_text or ""
    )
    assert (office.states(), get_pause_kind(office)) == (["live"], None)


def test_used_nonce_is_not_bumped_while_receipts_are_hidden(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.context = replace(office.context, send_settings=BY_BLOCKS)
    mine_push_without_receipt(office, *proxies)
    # Blocks that would be too expensive for the transaction if it were not mined already.
    mine_expensive_blocks(office, 50 * GWEI, 12)
    office.tick()
    assert (office.states()[0], len(list_attempts(office))) == ("live", 1)


def test_receipts_hidden_randomly_by_two_endpoints_do_not_make_nonce_foreign(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    for seed, proxy in enumerate(proxies):
        proxy.rule(RECEIPT, return_null(), when=_by_luck(seed))
    for _ in range(6):
        office.period()
        office.tick()
        office.mine(FINALITY + 1)
        office.tick()
        assert get_pause_kind(office) is None
    for proxy in proxies:
        proxy.heal()
    office.until_final()
    assert set(office.states()) == {"final"}
    assert office.premises.round == len(office.states())


def test_push_whose_receipt_is_hidden_stays_mined_while_block_has_its_transaction(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.pushed()
    assert office.states() == ["mined"]
    for proxy in proxies:
        proxy.rule(RECEIPT, return_null())
    office.mine(FINALITY + 2)
    office.tick()
    office.tick()
    assert (office.states(), get_pause_kind(office)) == (["mined"], None)
    assert "reorged" not in office.journal()

    for proxy in proxies:
        proxy.heal()
    office.until_final()
    assert office.states() == ["final"]
    assert "landed" in [state for state, _ in office.reports()]


def test_foreign_transaction_is_reported_with_block_and_target(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    foreign_hash = use_nonce_elsewhere_to_finality(office)
    for proxy in proxies:
        proxy.rule(RECEIPT, return_null())
    office.tick()
    assert (office.states(), get_pause_kind(office)) == (["held"], PauseKind.FOREIGN)
    with office.store.read_transaction() as uow:
        pause = uow.outbox.accounts.get_pause(office.context.account)
    assert pause is not None
    block = int(
        office.premises.chain.rpc("eth_getTransactionByHash", foreign_hash)["blockNumber"], 16
    )
    for fragment in (
        foreign_hash,
        f"block {block}",
        get_payee(office),
        "outbox rebuild",
        "rotate the key",
    ):
        assert fragment in pause.reason
    assert get_only_intent(office).error_text == pause.reason


def test_rebuild_resolves_foreign_nonce_and_sender_can_be_resumed(
    sqlite_office: Office,
):
    office = sqlite_office
    use_nonce_elsewhere_to_finality(office)
    office.tick()
    assert get_pause_kind(office) is PauseKind.FOREIGN
    comparison = plan_outbox_rebuild(office.context, 1000)
    assert (list(comparison.nonces_ahead), list(comparison.nonces)) == ([1], [])
    store_rebuild_plan(office, office.context, comparison)
    assert plan_outbox_rebuild(office.context, 1000).is_empty
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.resume(office.context.account, office.context.stamp)
    assert (office.states(PUSH), get_pause_kind(office)) == (["superseded"], None)


def test_foreign_transaction_is_detected_without_historical_state(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    only_one = alone(office, proxies)
    foreign_hash = use_nonce_elsewhere_to_finality(office)
    office.mine(30)
    final = office.premises.chain.block - FINALITY
    only_one.rule(COUNT, return_error("missing trie node"), when=_below(final - 3))
    office.tick()
    assert get_pause_kind(office) is PauseKind.FOREIGN
    assert foreign_hash in (get_only_intent(office).error_text or "")


@pytest.mark.parametrize("reported", ["of another", "of no key", "without it"])
def test_transaction_not_shown_by_second_endpoint_does_not_pause_sender(
    proxied_office: Office, proxies: Proxies, reported: str
):
    office = proxied_office
    foreign_hash = use_nonce_elsewhere_to_finality(office)
    forged: dict[str, Callable[[Answer], None]] = {
        "of another": lambda transaction: transaction.update(value="0x1"),
        "of no key": lambda transaction: transaction.update(r="0x1", s="0x1"),
        "without it": lambda transaction: transaction.update({"from": "0x" + "11" * 20}),
    }
    proxies[1].rule(BLOCK, change_transaction_in_blocks(foreign_hash, forged[reported]))
    for _ in range(3):
        office.mine()
        office.tick()
    assert (office.states(), get_pause_kind(office)) == (["live"], None)
    assert foreign_hash in (get_only_intent(office).error_text or "")
    assert "but too few witnesses confirm it" in (get_only_intent(office).error_text or "")

    proxies[1].heal()
    office.mine(8)
    office.tick()
    assert get_pause_kind(office) is PauseKind.FOREIGN


def test_transaction_fabricated_by_the_only_endpoint_does_not_pause_sender(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    only_one = alone(office, proxies)
    office.period()
    office.tick()
    (sent,) = list_attempts(office)
    only_one.rule(RECEIPT, return_null())
    # The daemon's transaction with another value.
    only_one.rule(
        BLOCK,
        change_transaction_in_blocks(
            sent.signed.tx_hash, lambda transaction: transaction.update(value="0x1")
        ),
    )
    office.mine(FINALITY + 1)
    assert check_receipts(office) == ["push without a receipt"]
    assert (office.states(), get_pause_kind(office)) == (["live"], None)
    assert "by a transaction that no endpoint shows" in (get_only_intent(office).error_text or "")


def _by_luck(seed: int) -> Callable[[Question], bool]:
    chance = random.Random(seed)  # noqa: S311  luck that is the same each time
    return lambda _: chance.random() < 0.5


def _below(number: int) -> Callable[[Question], bool]:
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
