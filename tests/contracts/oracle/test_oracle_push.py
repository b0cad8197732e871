"""QoSOracle.push: whose turn it is, how a report must look, who may send it."""

from dataclasses import replace

import pytest
from web3 import Web3

from tests.contracts.oracle_driver import (
    LIMITS,
    NO_DIGEST,
    START,
    Oracle,
    deployed,
    full,
)
from tests.contracts.oracle_signing import SIGNERS, word
from tests.support.evm.chain import Chain, RevertedError, encoded

pytestmark = pytest.mark.evm

SIXTEEN = word(*range(2, 18))
FOUR = full(10_002, 1, of=4)


def test_signed_report_writes_words_and_emits_event(oracle: Oracle):
    report = oracle.report((0, SIXTEEN), (1, FOUR))
    event = oracle.push(report).only("RoundAccepted")

    assert oracle.read("wordsAt", 0, 3) == [SIXTEEN, FOUR, 0]
    assert event == {
        "round": 2,
        "asOf": report.as_of,
        "asOfHash": report.as_of_hash,
        "dataHash": bytes(Web3.keccak(report.data)),
        "digest": bytes(oracle.read("lastReport")),
        "config": bytes(oracle.read("configDigest")),
        "signers": 0b011,
        "transmitter": oracle.transmitter,
    }


def test_oracle_head_matches_the_accepted_report(oracle: Oracle):
    report = oracle.report((0, SIXTEEN), (1, FOUR))
    oracle.push(report)
    assert oracle.named("head") == {
        "round": 2,
        "asOf": report.as_of,
        "pushedAt": oracle.chain.time,
        "pausedUntil": 0,
        "heldSeconds": 0,
        "nodeCount": 20,
        "openCount": 19,
        "quorum": 2,
        "kicksPaused": False,
        "configCount": 1,
    }


def test_report_digest_matches_contract_view(oracle: Oracle):
    report = oracle.report((0, SIXTEEN))
    data_hash = Web3.keccak(report.data)
    digest = oracle.read(
        "reportDigest", 2, report.as_of, report.as_of_hash, report.deadline, data_hash
    )
    assert oracle.push(report).only("RoundAccepted")["digest"] == digest


def test_each_report_refers_to_previous_digest(oracle: Oracle):
    first = oracle.reported((0, SIXTEEN)).only("RoundAccepted")
    oracle.chain.mine(2)
    second = oracle.report((0, SIXTEEN))
    assert second.prev == first["digest"] != NO_DIGEST


def test_report_with_wrong_previous_digest_is_rejected(oracle: Oracle):
    report = replace(oracle.report((0, SIXTEEN)), prev=b"\x01" * 32)
    with pytest.raises(RevertedError, match="BadSignature"):
        oracle.push(report)


def test_same_report_cannot_be_accepted_twice(oracle: Oracle):
    report = oracle.report((0, SIXTEEN))
    oracle.push(report)
    with pytest.raises(RevertedError, match=r"WrongRound\(3, 2\)"):
        oracle.push(report)


@pytest.mark.parametrize("number", [0, 1, 3, 2**32 - 1])
def test_wrong_round_number_is_rejected(oracle: Oracle, number: int):
    with pytest.raises(RevertedError, match=rf"WrongRound\(2, {number}\)"):
        oracle.push(oracle.report((0, SIXTEEN), round=number))


@pytest.mark.parametrize("number", [0, 2])
def test_wrong_configuration_number_is_rejected(oracle: Oracle, number: int):
    with pytest.raises(RevertedError, match=rf"WrongConfig\(1, {number}\)"):
        oracle.push(oracle.report((0, SIXTEEN), count=number))


def test_wrong_configuration_digest_is_rejected(
    oracle: Oracle,
):
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(oracle.report((0, SIXTEEN), config=b"\x01" * 32))
    oracle.push(oracle.report((0, SIXTEEN)))
    assert oracle.round == 2


def test_report_signed_under_old_rules_is_rejected(oracle: Oracle):
    report = oracle.report((0, SIXTEEN))
    oracle.do("setRules", b"\x02" * 32, sender=oracle.admin)
    with pytest.raises(RevertedError, match=r"WrongConfig\(2, 1\)"):
        oracle.push(report)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(replace(report, count=2))

    oracle.push(oracle.report((0, SIXTEEN)))
    assert oracle.round == 2


# --- time ---


def test_report_is_accepted_until_deadline(oracle: Oracle):
    now = oracle.chain.time
    report = oracle.report((0, SIXTEEN), deadline=now + 30)
    with oracle.chain.undone():
        oracle.chain.at(now + 30)
        oracle.push(report)
    oracle.chain.at(now + 31)
    with pytest.raises(RevertedError, match=rf"Expired\({now + 30}\)"):
        oracle.push(report)


def test_deadline_over_60_minutes_ahead_is_rejected(oracle: Oracle):
    now = oracle.chain.time
    report = oracle.report((0, SIXTEEN), deadline=now + 10 + 3_600)
    with oracle.chain.undone():
        oracle.chain.at(now + 9)
        with pytest.raises(RevertedError, match=rf"DeadlineTooFar\({report.deadline}\)"):
            oracle.push(report)
    oracle.chain.at(now + 10)
    oracle.push(report)
    assert oracle.round == 2


def test_min_interval_is_exact_to_the_second(oracle: Oracle):
    oracle.push(oracle.report((0, SIXTEEN)))
    pushed = oracle.chain.time
    oracle.chain.at(pushed)
    oracle.chain.mine(2)
    report = oracle.report((0, SIXTEEN))
    turn = pushed + LIMITS["minInterval"]
    with oracle.chain.undone():
        oracle.chain.at(turn - 1)
        with pytest.raises(RevertedError, match=rf"TooSoon\({turn}\)"):
            oracle.push(report)
    oracle.chain.at(turn)
    oracle.push(report)
    assert oracle.round == 3


# --- who sends ---


def test_contract_cannot_forward_report(oracle: Oracle):
    with pytest.raises(RevertedError, match="NotDirect"):
        oracle.forwarded(oracle.call(oracle.report((0, SIXTEEN))))


def test_constructor_cannot_forward_report(oracle: Oracle):
    call = oracle.call(oracle.report((0, SIXTEEN)))
    with pytest.raises(RevertedError, match="NotDirect"):
        oracle.chain.deploy("testing/ConstructorCaller", call.address, encoded(call))


def test_account_with_delegated_code_cannot_push_report(oracle: Oracle):
    delegation = "0xef0100" + oracle.network.address[2:]
    oracle.chain.rpc("anvil_setCode", oracle.transmitter, delegation)
    with pytest.raises(RevertedError, match="NotDirect"):
        oracle.push(oracle.report((0, SIXTEEN)))


def test_self_call_by_an_account_with_delegated_code_cannot_push_report(oracle: Oracle):
    """Sender and origin are one there, and the input that readers see is not the report's."""
    sender, call = oracle.transmitter, oracle.call(oracle.report((0, SIXTEEN)))
    oracle.chain.rpc("anvil_setCode", sender, "0xef0100" + oracle.network.address[2:])
    itself = oracle.chain.contract("testing/PlainNetwork", sender)
    passed_on = itself.functions.forward(call.address, encoded(call))
    with pytest.raises(RevertedError, match="NotDirect"):
        oracle.chain.send(passed_on, sender=sender)


def test_any_account_may_transmit_a_signed_report(oracle: Oracle):
    outsider = oracle.chain.accounts[9]
    receipt = oracle.send(oracle.call(oracle.report((0, SIXTEEN))), sender=outsider)
    assert receipt.only("RoundAccepted")["transmitter"] == outsider


def test_second_transmission_of_the_same_report_reverts_with_wrong_round(oracle: Oracle):
    call = oracle.call(oracle.report((0, SIXTEEN)))
    chain = oracle.chain
    senders = (oracle.transmitter, chain.accounts[9])
    first, second = chain.together(*(chain.request(call, sender=who) for who in senders))
    assert chain.receipt(first).only("RoundAccepted")["round"] == 2
    with pytest.raises(RevertedError, match=r"WrongRound\(3, 2\)"):
        chain.receipt(second)


# --- whose signature ---


def test_signature_for_wrong_domain_is_rejected(oracle: Oracle):
    other_oracle = deployed(oracle.chain)
    oracle.chain.mine(2)
    report = oracle.report((0, SIXTEEN))
    chain_id, here = report.domain
    for wrong in ((chain_id, other_oracle.contract.address), (1, here)):
        with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
            oracle.push(report, replace(report, domain=wrong).signed_by(*SIGNERS[:2]))


def test_report_signed_for_old_chain_id_is_rejected_after_a_fork(chain: Chain, oracle: Oracle):
    report = oracle.report((0, SIXTEEN))
    old, _ = report.domain
    chain.rpc("anvil_impersonateAccount", oracle.transmitter)  # Anvil's keys stay with the old id
    chain.rpc("anvil_setChainId", 4242)
    try:
        with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
            oracle.push(report)
        oracle.push(oracle.report((0, SIXTEEN)))
    finally:
        chain.rpc("anvil_setChainId", old)
        chain.rpc("anvil_stopImpersonatingAccount", oracle.transmitter)
    assert oracle.round == 2
    assert oracle.lane(19) == START
