"""A receipt counts only while its block is on the chain, and finally if two endpoints agree."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from oracle.queries.outbox_figures import OutboxCounter
from oracle.store.outbox.records import NonceState
from oracle.telemetry.txmgr_metrics import TAKEN_BACK, UNDECIDED, WITHOUT_EFFECT
from oracle.txmgr.context import SendSettings
from tests.support.office import FINALITY, Office
from tests.support.sending.background_calls import send_rival_push
from tests.support.sending.faults import Answer, Fault, Question, return_null, show_other_fork
from tests.support.sending.in_flight import list_attempts, list_slots
from tests.support.sending.proxy import SEND, Proxy

Proxies = tuple[Proxy, Proxy]
RECEIPT = "eth_getTransactionReceipt"


def calldata(office: Office) -> str:
    """Return the calldata of the first push."""
    return office.intents()[0].request.calldata


def outcomes(office: Office) -> dict[tuple[str, str], int]:
    """Return the outcomes of settled nonces, as in `/metrics`."""
    counted = OutboxCounter().compute_outbox_stats(office.store, int(office.premises.chain.time))
    return {end: many for end, many in counted.outcomes.items() if many}


def mine_push_after_rival(office: Office) -> None:
    """Mine the push one block after an unseen identical push of a rival."""
    raw = "0x" + list_attempts(office)[0].signed.raw.hex()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    send_rival_push(office, calldata(office))
    office.mine()
    assert office.premises.round == 1
    office.premises.chain.rpc("eth_sendRawTransaction", raw)
    office.mine()
    assert office.premises.nonce == 2


def test_case_f25_revert_is_reported_with_contract_error_once_final(
    office: Office,
):
    office.period()
    office.tick()
    mine_push_after_rival(office)
    office.tick()
    assert (office.states()[0], list_slots(office)[0].succeeded) == ("mined", False)

    office.until_final()
    reverted = office.intents()[0]
    assert (reverted.state.value, reverted.error_class) == ("reverted", "WrongRound")
    assert reverted.error_text == "WrongRound(2, 1)"
    # The rival pushed the same report, so it is on chain.
    assert ("landed", None) in office.reports()


def test_case_f30_push_removed_by_three_block_reorg_is_resent_and_mined_again(office: Office):
    before = TAKEN_BACK._value.get()
    office.period()
    office.tick()
    office.mine()
    office.tick()
    sent = list_attempts(office)[0].signed.tx_hash
    assert office.states() == ["mined"]

    office.premises.chain.rpc("anvil_reorg", 3, [])
    assert office.premises.round == 0
    office.tick()
    assert (office.states(), TAKEN_BACK._value.get()) == (["live"], before + 1)

    office.mine(2)
    office.tick()
    office.mine()
    office.until_final()
    assert (office.states(), office.premises.round, office.premises.nonce) == (["final"], 1, 2)
    assert [attempt.signed.tx_hash for attempt in list_attempts(office)] == [sent]


def test_case_f31_outcome_comes_from_canonical_block_after_reorg(office: Office):
    office.period()
    office.tick()
    office.mine()
    office.tick()
    before = list_slots(office)[0]
    assert (before.succeeded, office.states()) == (True, ["mined"])

    office.premises.chain.rpc("anvil_reorg", 1, [])
    mine_push_after_rival(office)
    office.tick()
    after = list_slots(office)[0]
    assert (after.succeeded, after.block_hash != before.block_hash) == (False, True)
    office.until_final()
    assert office.intents()[0].state.value == "reverted"
    assert list_slots(office)[0].state is NonceState.FINAL


def test_case_f36_pushes_continue_without_finality_and_stay_mined(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.context = replace(office.context, send_settings=SendSettings(max_in_flight=2))
    stopped = office.premises.chain.rpc("eth_getBlockByNumber", "finalized", False)["number"]
    for proxy in proxies:
        proxy.rule("eth_getBlockByNumber", Fault(ask=standing_at(stopped)), when=asks_for_final)
    office.pushed()
    office.mine(3 * FINALITY)
    office.pushed()
    office.mine(3 * FINALITY)
    office.tick()
    assert office.states() == ["mined", "mined"]
    assert outcomes(office) == {}

    # As many as may be under way are: the third has to wait for an end.
    office.period()
    office.tick()
    office.mine(FINALITY)
    office.tick()
    assert (office.states(), office.premises.round) == (["mined", "mined", "ready"], 2)

    for proxy in proxies:
        proxy.heal()
    office.until_final()
    assert (office.states(), office.premises.round) == (["final"] * 3, 3)
    assert outcomes(office) == {("push", "success"): 3}


def test_block_missing_once_at_endpoint_delays_finality_of_receipt(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.pushed()
    lacking = hex(list_slots(office)[0].block_number or 0)
    rule = proxies[0].rule(
        "eth_getBlockByNumber",
        return_null(),
        times=1,
        when=lambda question: question["params"][0] == lacking,
    )

    office.tick()

    assert (rule.hit, office.states()) == (1, ["mined"])
    office.until_final()
    assert office.states() == ["final"]


def asks_for_final(question: Question) -> bool:
    return bool(question["params"][0] == "finalized")


def standing_at(number: str) -> Callable[[Question], Question]:
    def ask(question: Question) -> Question:
        return {**question, "params": [number, False]}

    return ask


@pytest.mark.parametrize("fault", [return_null(), show_other_fork(0)], ids=["stale", "on a fork"])
def test_case_f37_nothing_is_final_while_two_endpoints_disagree_on_a_receipt(
    proxied_office: Office, proxies: Proxies, fault: Fault
):
    office, (_, odd) = proxied_office, proxies
    odd.rule(RECEIPT, fault)
    office.period()
    office.tick()
    office.mine()
    office.until_final()
    assert (office.premises.round, office.states()) == (1, ["mined"])
    assert UNDECIDED.labels("transmitter")._value.get() == 1

    odd.heal()
    office.tick()
    assert (office.states(), UNDECIDED.labels("transmitter")._value.get()) == (["final"], 0)


@pytest.mark.parametrize("place", [0, 1])
def test_case_f38_push_stays_mined_when_its_receipt_is_missing_at_a_single_endpoint(
    proxied_office: Office, proxies: Proxies, place: int
):
    office, lacking = proxied_office, proxies[place]
    lacking.rule(RECEIPT, return_null())
    office.period()
    office.tick()
    office.mine()
    office.tick()
    assert office.states() == ["mined"]

    # The other endpoint is down for a while: one is silent and one returns null.
    proxies[1 - place].rule(RECEIPT, Fault(answer=build_overloaded_response))
    office.mine(3)
    office.tick()
    assert (office.states(), lacking.count(SEND)) == (["mined"], 1)
    lacking.heal()
    proxies[1 - place].heal()
    office.until_final()
    assert office.states() == ["final"]


def build_overloaded_response(question: Question, _: Answer) -> Answer:
    return {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32603, "message": "busy"}}


def test_successful_push_without_new_round_is_held(office: Office):
    before, chain = WITHOUT_EFFECT._value.get(), office.premises.chain
    office.period()
    office.tick()
    code = chain.rpc("eth_getCode", office.premises.address, "latest")
    # STOP: every call succeeds, and does nothing.
    chain.rpc("anvil_setCode", office.premises.address, "0x00")
    office.mine()
    chain.rpc("anvil_setCode", office.premises.address, code)
    office.until_final()
    (held,) = [intent for intent in office.intents() if intent.state.value == "held"]
    assert (held.error_class, list_slots(office)[0].succeeded) == ("missing_effect", True)
    assert WITHOUT_EFFECT._value.get() == before + 1
