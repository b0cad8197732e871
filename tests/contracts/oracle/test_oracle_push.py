"""QoSOracle.push: whose turn it is, how a report must look, who may send it."""

from dataclasses import replace

import pytest
from web3 import Web3

from tests.contracts.oracle_driver import (
    LIMITS,
    NO_DIGEST,
    SIGNERS,
    Oracle,
    deployed,
    records,
    word,
)
from tests.support.evm.chain import Chain, RevertedError, encoded

pytestmark = pytest.mark.evm

SIXTEEN = word(*range(2, 18))


def test_a_signed_report_writes_its_words_and_says_so(oracle: Oracle):
    report = oracle.report((0, SIXTEEN), (1, word(10_002, 1)))
    said = oracle.push(report).only("RoundAccepted")

    assert oracle.read("wordsAt", 0, 3) == [SIXTEEN, word(10_002, 1), 0]
    digest = bytes(oracle.read("lastReport"))
    assert said == {
        "round": 1,
        "asOf": report.as_of,
        "asOfHash": report.as_of_hash,
        "dataHash": bytes(Web3.keccak(report.records)),
        "digest": digest,
        "rules": 1,
        "signers": 0b011,
        "transmitter": oracle.transmitter,
    }


def test_the_head_is_what_was_accepted(oracle: Oracle):
    report = oracle.report((0, SIXTEEN))
    oracle.push(report)
    assert oracle.read("head") == (1, report.as_of, oracle.chain.time, 0, 20, 2, 3, 1, False)


def test_the_digest_is_the_one_the_contract_foretells(oracle: Oracle):
    report = oracle.report((0, SIXTEEN))
    data_hash = Web3.keccak(report.records)
    told = oracle.read(
        "reportDigest", 1, 1, report.as_of, report.as_of_hash, report.deadline, data_hash
    )
    assert oracle.push(report).only("RoundAccepted")["digest"] == told


def test_each_report_builds_on_the_one_before(oracle: Oracle):
    first = oracle.reported((0, SIXTEEN)).only("RoundAccepted")
    oracle.chain.mine(2)
    second = oracle.report((0, word(7)))
    assert second.prev == first["digest"] != NO_DIGEST


def test_a_report_on_top_of_another_one_is_nobodys(oracle: Oracle):
    report = replace(oracle.report((0, SIXTEEN)), prev=b"\x01" * 32)
    with pytest.raises(RevertedError, match="BadSignature"):
        oracle.push(report)


def test_the_same_report_is_not_accepted_twice(oracle: Oracle):
    report = oracle.report((0, SIXTEEN))
    oracle.push(report)
    with pytest.raises(RevertedError, match=r"WrongRound\(2, 1\)"):
        oracle.push(report)


@pytest.mark.parametrize("number", [0, 2, 2**32 - 1])
def test_a_round_is_the_last_one_and_one(oracle: Oracle, number: int):
    with pytest.raises(RevertedError, match=rf"WrongRound\(1, {number}\)"):
        oracle.push(oracle.report((0, SIXTEEN), round=number))


def test_a_report_under_other_rules_is_refused(oracle: Oracle):
    with pytest.raises(RevertedError, match=r"WrongRules\(1, 2\)"):
        oracle.push(oracle.report((0, SIXTEEN), rules=2))


def test_a_report_with_the_counter_of_the_rules_but_another_hash_is_refused(oracle: Oracle):
    with pytest.raises(RevertedError, match="BadSignature"):
        oracle.push(oracle.report((0, SIXTEEN), rules_hash=b"\x01" * 32))
    oracle.push(oracle.report((0, SIXTEEN)))
    assert oracle.round == 1


def test_new_rules_stop_the_old_daemon(oracle: Oracle):
    report = oracle.report((0, SIXTEEN))
    oracle.do("setRules", 2, b"\x02" * 32, sender=oracle.admin)
    with pytest.raises(RevertedError, match=r"WrongRules\(2, 1\)"):
        oracle.push(report)

    oracle.push(oracle.report((0, SIXTEEN), rules=2, rules_hash=b"\x02" * 32))
    assert oracle.round == 1


def test_the_deadline_is_the_last_second(oracle: Oracle):
    now = oracle.chain.time
    report = oracle.report((0, SIXTEEN), deadline=now + 30)
    with oracle.chain.undone():
        oracle.chain.at(now + 30)
        oracle.push(report)
    oracle.chain.at(now + 31)
    with pytest.raises(RevertedError, match=rf"Expired\({now + 30}\)"):
        oracle.push(report)


def test_rounds_keep_their_interval_to_the_second(oracle: Oracle):
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
    assert oracle.round == 2


def test_a_contract_cannot_pass_on_a_report(oracle: Oracle):
    with pytest.raises(RevertedError, match="NotDirect"):
        oracle.forwarded(oracle.call(oracle.report((0, SIXTEEN))))


def test_a_contract_that_has_no_code_yet_cannot_pass_on_a_report(oracle: Oracle):
    call = oracle.call(oracle.report((0, SIXTEEN)))
    with pytest.raises(RevertedError, match="NotDirect"):
        oracle.chain.deploy("testing/ConstructorCaller", call.address, encoded(call))


def test_an_account_with_delegated_code_cannot_send_a_report(oracle: Oracle):
    delegation = "0xef0100" + oracle.network.address[2:]
    oracle.chain.rpc("anvil_setCode", oracle.transmitter, delegation)
    with pytest.raises(RevertedError, match="NotDirect"):
        oracle.push(oracle.report((0, SIXTEEN)))


def test_anyone_may_transmit(oracle: Oracle):
    outsider = oracle.chain.accounts[9]
    receipt = oracle.send(oracle.call(oracle.report((0, SIXTEEN))), sender=outsider)
    assert receipt.only("RoundAccepted")["transmitter"] == outsider


def test_of_two_transmitters_of_one_report_the_second_is_told_the_round_is_taken(oracle: Oracle):
    call = oracle.call(oracle.report((0, SIXTEEN)))
    chain = oracle.chain
    senders = (oracle.transmitter, chain.accounts[9])
    first, second = chain.together(*(chain.request(call, sender=who) for who in senders))
    assert chain.receipt(first).only("RoundAccepted")["round"] == 1
    with pytest.raises(RevertedError, match=r"WrongRound\(2, 1\)"):
        chain.receipt(second)


WHOLE = records((0, SIXTEEN), (1, word(5, 5)))


@pytest.mark.parametrize(
    "broken",
    [b"", WHOLE[:-1], WHOLE + b"\0", WHOLE[:34], WHOLE[:36], b"\0"],
    ids=["none", "one short", "one over", "34", "36", "1"],
)
def test_records_are_some_and_whole(oracle: Oracle, broken: bytes):
    with pytest.raises(RevertedError, match=rf"BadLength\({len(broken)}\)"):
        oracle.push(oracle.report(records=broken))


def test_a_report_has_no_more_words_than_the_limit(oracle: Oracle):
    limits = LIMITS | {"maxWords": 1}
    oracle.do("setLimits", tuple(limits.values()), sender=oracle.admin)
    with pytest.raises(RevertedError, match=r"BadLength\(70\)"):
        oracle.push(oracle.report(records=WHOLE))
    oracle.push(oracle.report((0, SIXTEEN)))
    assert oracle.round == 1


@pytest.mark.parametrize("second", [0, 1])
def test_word_indexes_rise(oracle: Oracle, second: int):
    report = oracle.report((1, word(5)), (second, word(6)))
    with pytest.raises(RevertedError, match=rf"NotAscending\({second}\)"):
        oracle.push(report)


@pytest.mark.parametrize(
    ("index", "lanes"),
    [(1, word(l4=5)), (1, word(l15=5)), (2, 0), (2, word(5)), (2**24 - 1, word(5))],
    ids=["next lane", "last lane", "empty word past the end", "next word", "last word"],
)
def test_no_lane_is_written_that_is_not_given(oracle: Oracle, index: int, lanes: int):
    with pytest.raises(RevertedError, match=rf"UnknownNode\({index}\)"):
        oracle.push(oracle.report((index, lanes)))


def test_the_last_given_lane_can_be_written(oracle: Oracle):
    oracle.push(oracle.report((1, word(l3=9_000))))
    assert oracle.lane(19) == 9_000


@pytest.mark.parametrize("lane", [10_003, 0x7FFF, 0x8000, 0xFFFF])
@pytest.mark.parametrize("place", [0, 7, 15])
def test_no_lane_is_above_the_best_score(oracle: Oracle, lane: int, place: int):
    lanes = SIXTEEN | 0xFFFF << 16 * place
    lanes ^= (0xFFFF ^ lane) << 16 * place
    with pytest.raises(RevertedError, match=r"ScoreTooHigh\(0\)"):
        oracle.push(oracle.report((0, lanes)))


def test_a_lane_once_written_is_never_empty_again(oracle: Oracle):
    oracle.reported((0, SIXTEEN))
    oracle.chain.mine(2)
    oracle.chain.later(10)
    with pytest.raises(RevertedError, match=r"ScoreErased\(0\)"):
        oracle.push(oracle.report((0, SIXTEEN & ~0xFFFF)))


def test_a_refused_word_undoes_the_words_before_it(oracle: Oracle):
    with pytest.raises(RevertedError, match=r"ScoreTooHigh\(1\)"):
        oracle.push(oracle.report((0, SIXTEEN), (1, word(10_003))))
    assert oracle.read("wordsAt", 0, 2) == [0, 0]
    assert oracle.round == 0


def test_by_default_a_score_may_fall_from_the_best_to_the_worst_at_once(oracle: Oracle):
    oracle.reported((0, word(10_002, 2)))
    oracle.reported((0, word(2, 10_002)))
    assert (oracle.lane(0), oracle.lane(1)) == (2, 10_002)


@pytest.mark.parametrize(
    ("before", "after", "taken"),
    [
        (5_000, 5_100, True),
        (5_000, 4_900, True),
        (5_000, 5_101, False),
        (5_000, 4_899, False),
        (0, 10_002, True),
        (10_002, 1, True),
        (1, 10_002, True),
    ],
    ids=["up", "down", "too far up", "too far down", "first score", "exclusion", "return"],
)
def test_a_step_limit_holds_scores_and_nothing_else(
    oracle: Oracle, before: int, after: int, *, taken: bool
):
    if before:
        oracle.reported((0, word(before)))
    limits = LIMITS | {"maxStep": 100}
    oracle.do("setLimits", tuple(limits.values()), sender=oracle.admin)
    if taken:
        oracle.reported((0, word(after)))
    else:
        with pytest.raises(RevertedError, match=r"StepTooLarge\(0\)"):
            oracle.reported((0, word(after)))
    assert oracle.lane(0) == (after if taken else before)


def test_a_node_that_joins_between_signing_and_sending_changes_nothing(oracle: Oracle):
    report = oracle.report((0, SIXTEEN))
    oracle.by_network("joinMany", 100, 1)
    oracle.push(report)
    assert oracle.round == 1


def test_the_wrong_domain_is_nobodys_signature(oracle: Oracle):
    other = deployed(oracle.chain)
    oracle.chain.mine(2)
    report = oracle.report((0, SIXTEEN))
    for wrong in (replace(report, contract=other.contract.address), replace(report, chain_id=1)):
        with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
            oracle.push(wrong, wrong.signed_by(*SIGNERS[:2]))


def test_after_a_fork_of_the_chain_the_old_chains_reports_are_nobodys(
    chain: Chain, oracle: Oracle
):
    report = oracle.report((0, SIXTEEN))
    old = report.chain_id
    chain.rpc("anvil_impersonateAccount", oracle.transmitter)  # Anvil's keys stay with the old id
    chain.rpc("anvil_setChainId", 4242)
    try:
        with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
            oracle.push(report)
        oracle.push(oracle.report((0, SIXTEEN)))
    finally:
        chain.rpc("anvil_setChainId", old)
        chain.rpc("anvil_stopImpersonatingAccount", oracle.transmitter)
    assert oracle.round == 1
