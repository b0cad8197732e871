"""A receipt counts only while its block is on the chain, and finally if two endpoints agree."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from oracle.queries.outbox_figures import OutboxCounter
from oracle.store.outbox.records import NonceState
from oracle.telemetry.txmgr_metrics import TAKEN_BACK, UNDECIDED, WITHOUT_EFFECT
from oracle.txmgr.context import SendSettings
from tests.support.harness import FINALITY, Harness
from tests.support.sending.background_calls import send_rival_push
from tests.support.sending.faults import Answer, Fault, Question, return_null, show_other_fork
from tests.support.sending.in_flight import list_attempts, list_slots
from tests.support.sending.proxy import SEND, Proxy

Proxies = tuple[Proxy, Proxy]
RECEIPT = "eth_getTransactionReceipt"


def get_push_calldata(harness: Harness) -> str:
    """Return the calldata of the first push."""
    return harness.intents()[0].request.calldata


def count_outcomes(harness: Harness) -> dict[tuple[str, str], int]:
    """Return the outcomes of settled nonces, as in `/metrics`."""
    counted = OutboxCounter().compute_outbox_stats(harness.store, int(harness.testbed.chain.time))
    return {end: many for end, many in counted.outcomes.items() if many}


def mine_push_after_rival(harness: Harness) -> None:
    """Mine the push one block after an unseen identical push of a rival."""
    raw = "0x" + list_attempts(harness)[0].signed.raw.hex()
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    send_rival_push(harness, get_push_calldata(harness))
    harness.mine()
    assert harness.testbed.round == 1
    harness.testbed.chain.rpc("eth_sendRawTransaction", raw)
    harness.mine()
    assert harness.testbed.nonce == 2


def test_case_f25_final_revert_is_reported_with_its_error(
    harness: Harness,
):
    harness.period()
    harness.tick()
    mine_push_after_rival(harness)
    harness.tick()
    assert (harness.states()[0], list_slots(harness)[0].succeeded) == ("mined", False)

    harness.until_final()
    reverted = harness.intents()[0]
    assert (reverted.state.value, reverted.error_class) == ("reverted", "WrongRound")
    assert reverted.error_text == "WrongRound(2, 1)"
    # The rival pushed the same report, so it is on chain.
    assert ("landed", None) in harness.reports()


def test_case_f30_push_removed_by_a_reorg_is_resent_and_mined(harness: Harness):
    before = TAKEN_BACK._value.get()
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()
    sent = list_attempts(harness)[0].signed.tx_hash
    assert harness.states() == ["mined"]

    harness.testbed.chain.rpc("anvil_reorg", 3, [])
    assert harness.testbed.round == 0
    harness.tick()
    assert (harness.states(), TAKEN_BACK._value.get()) == (["live"], before + 1)

    harness.mine(2)
    harness.tick()
    harness.mine()
    harness.until_final()
    assert (harness.states(), harness.testbed.round, harness.testbed.nonce) == (["final"], 1, 2)
    assert [attempt.signed.tx_hash for attempt in list_attempts(harness)] == [sent]


def test_case_f31_outcome_after_a_reorg_comes_from_canonical_block(harness: Harness):
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()
    before = list_slots(harness)[0]
    assert (before.succeeded, harness.states()) == (True, ["mined"])

    harness.testbed.chain.rpc("anvil_reorg", 1, [])
    mine_push_after_rival(harness)
    harness.tick()
    after = list_slots(harness)[0]
    assert (after.succeeded, after.block_hash != before.block_hash) == (False, True)
    harness.until_final()
    assert harness.intents()[0].state.value == "reverted"
    assert list_slots(harness)[0].state is NonceState.FINAL


def test_case_f36_pushes_continue_without_finality_and_stay_mined(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.context = replace(harness.context, send_settings=SendSettings(max_in_flight=2))
    stopped = harness.testbed.chain.rpc("eth_getBlockByNumber", "finalized", False)["number"]
    for proxy in proxies:
        proxy.rule(
            "eth_getBlockByNumber",
            Fault(ask=build_block_rewrite(stopped)),
            when=is_finalized_request,
        )
    harness.pushed()
    harness.mine(3 * FINALITY)
    harness.pushed()
    harness.mine(3 * FINALITY)
    harness.tick()
    assert harness.states() == ["mined", "mined"]
    assert count_outcomes(harness) == {}

    # As many as may be under way are: the third has to wait for an end.
    harness.period()
    harness.tick()
    harness.mine(FINALITY)
    harness.tick()
    assert (harness.states(), harness.testbed.round) == (["mined", "mined", "ready"], 2)

    for proxy in proxies:
        proxy.heal()
    harness.until_final()
    assert (harness.states(), harness.testbed.round) == (["final"] * 3, 3)
    assert count_outcomes(harness) == {("push", "success"): 3}


def test_block_missing_at_an_endpoint_delays_receipt_finality(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.pushed()
    lacking = hex(list_slots(harness)[0].block_number or 0)
    rule = proxies[0].rule(
        "eth_getBlockByNumber",
        return_null(),
        times=1,
        when=lambda question: question["params"][0] == lacking,
    )

    harness.tick()

    assert (rule.hit, harness.states()) == (1, ["mined"])
    harness.until_final()
    assert harness.states() == ["final"]


def is_finalized_request(question: Question) -> bool:
    return bool(question["params"][0] == "finalized")


def build_block_rewrite(number: str) -> Callable[[Question], Question]:
    def ask(question: Question) -> Question:
        return {**question, "params": [number, False]}

    return ask


@pytest.mark.parametrize("fault", [return_null(), show_other_fork(0)], ids=["stale", "on a fork"])
def test_case_f37_receipt_is_not_final_while_endpoints_disagree(
    proxied_harness: Harness, proxies: Proxies, fault: Fault
):
    harness, (_, odd) = proxied_harness, proxies
    odd.rule(RECEIPT, fault)
    harness.period()
    harness.tick()
    harness.mine()
    harness.until_final()
    assert (harness.testbed.round, harness.states()) == (1, ["mined"])
    assert UNDECIDED.labels("transmitter")._value.get() == 1

    odd.heal()
    harness.tick()
    assert (harness.states(), UNDECIDED.labels("transmitter")._value.get()) == (["final"], 0)


@pytest.mark.parametrize("place", [0, 1])
def test_case_f38_push_stays_mined_if_one_endpoint_lacks_receipt(
    proxied_harness: Harness, proxies: Proxies, place: int
):
    harness = proxied_harness
    lacking = proxies[place]
    lacking.rule(RECEIPT, return_null())
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()
    assert harness.states() == ["mined"]

    # The other endpoint is down for a while: one is silent and one returns null.
    proxies[1 - place].rule(RECEIPT, Fault(answer=build_overloaded_response))
    harness.mine(3)
    harness.tick()
    assert (harness.states(), lacking.count(SEND)) == (["mined"], 1)
    lacking.heal()
    proxies[1 - place].heal()
    harness.until_final()
    assert harness.states() == ["final"]


def build_overloaded_response(question: Question, _: Answer) -> Answer:
    return {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32603, "message": "busy"}}


def test_successful_push_without_a_new_round_is_held(harness: Harness):
    before = WITHOUT_EFFECT._value.get()
    chain = harness.testbed.chain
    harness.period()
    harness.tick()
    code = chain.rpc("eth_getCode", harness.testbed.address, "latest")
    # STOP: every call succeeds, and does nothing.
    chain.rpc("anvil_setCode", harness.testbed.address, "0x00")
    harness.mine()
    chain.rpc("anvil_setCode", harness.testbed.address, code)
    harness.until_final()
    (held,) = [intent for intent in harness.intents() if intent.state.value == "held"]
    assert (held.error_class, list_slots(harness)[0].succeeded) == ("missing_effect", True)
    assert WITHOUT_EFFECT._value.get() == before + 1
