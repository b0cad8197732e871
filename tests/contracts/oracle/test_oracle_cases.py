"""The fault cases that the oracle contract answers for (tests/faults/sending/cases.toml)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from oracle.domain.reports.lanes import replace_lane
from oracle.domain.reports.round_data import encode_records
from tests.contracts.oracle_driver import LIMITS, Oracle, deployed, full, node
from tests.contracts.oracle_kickouts import BAD, GOOD, KICKED, pending, ready, worded
from tests.contracts.oracle_signing import SIGNERS, Report, data, word
from tests.support.evm.chain import RevertedError

pytestmark = [pytest.mark.evm, pytest.mark.slow]

BEST = 10_002


def refused(oracle: Oracle, report: Report, error: str) -> None:
    """By this name, and nothing is written."""
    before = oracle.read("head"), oracle.read("wordsAt", 0, 3)
    with pytest.raises(RevertedError, match=error):
        oracle.push(report)
    assert (oracle.read("head"), oracle.read("wordsAt", 0, 3)) == before


# --- f53: what a report may not hold ---


@pytest.mark.parametrize("second", [1, 0], ids=["twice", "descending"])
def test_case_f53_duplicate_or_descending_word_reverts_not_ascending(oracle: Oracle, second: int):
    report = oracle.report((1, full(of=4)), (second, full(of=4)))
    refused(oracle, report, rf"NotAscending\({second}\)")


@pytest.mark.parametrize(("at", "lanes"), [(1, full(of=4) | word(l4=5)), (2, word(5)), (2, 0)])
def test_case_f53_lane_of_unregistered_node_reverts_unknown_node(
    oracle: Oracle, at: int, lanes: int
):
    refused(oracle, oracle.report((at, lanes)), rf"UnknownNode\({at}\)")


@pytest.mark.parametrize("lane", [BEST + 1, 0xFFFF])
def test_case_f53_score_above_maximum_reverts_score_too_high(oracle: Oracle, lane: int):
    refused(oracle, oracle.report((0, full(5, lane))), r"ScoreTooHigh\(0\)")


def test_case_f53_erased_score_reverts_score_erased(oracle: Oracle):
    refused(oracle, oracle.report((0, full(5, 0))), r"ScoreErased\(0\)")


@pytest.mark.parametrize("broken", [b"", bytes(4), bytes(4 + 34), bytes(4 + 36)])
def test_case_f53_empty_or_truncated_data_reverts_bad_length(oracle: Oracle, broken: bytes):
    refused(oracle, oracle.report(data=broken), "BadLength")


@given(st.dictionaries(st.integers(0, 19), st.integers(1, BEST), min_size=1))
@settings(max_examples=200)
def test_case_f53_encoder_output_follows_the_rules_of_the_contract(lanes: dict[int, int]):
    """By the rules as the fuzzer's model has them: no lane here is on chain yet."""
    words: dict[int, int] = {}
    for index, lane in lanes.items():
        words[index // 16] = replace_lane(words.get(index // 16, 0), index, lane)
    written = encode_records(sorted(words.items()))
    last = -1
    assert len(written) == 35 * len(words) > 0
    for at in range(0, len(written), 35):
        number, held = int.from_bytes(written[at : at + 3]), written[at + 3 : at + 35]
        assert number > last
        last = number
        for place in range(16):
            lane = int.from_bytes(held[30 - 2 * place : 32 - 2 * place])
            assert lane == lanes.get(16 * number + place, 0) <= BEST


# --- f55, f57, f59: kickouts ---


@pytest.fixture
def proposed(oracle: Oracle) -> Oracle:
    """Node 0 can be kicked out now."""
    worded(oracle)
    ready(oracle)
    return oracle


def test_case_f55_kick_stays_with_node_after_rejoin(proposed: Oracle):
    """Leaving in the hours of the veto is no escape: a kickout is of an address."""
    proposed.by_network("quit", node(0))
    assert proposed.by_network("join", node(0)).names == []
    assert pending(proposed)
    assert proposed.execute(0).names == KICKED


def test_case_f55_new_node_on_a_reused_index_has_no_pending_kick(oracle: Oracle):
    worded(oracle, 1)
    late = oracle.signed_kick(0)
    heir = node(100)
    oracle.reported((0, full(BAD)), reused=[(heir, node(0))])
    with pytest.raises(RevertedError, match="NotRegistered"):
        oracle.send(late)
    assert not pending(oracle, heir)


def test_case_f55_index_with_pending_kick_is_not_reusable(proposed: Oracle):
    """It would be a way out of a kickout for whoever makes reports."""
    proposed.reported((0, full(1, GOOD, 1, l4=2)))
    report = proposed.report((0, full(BAD)), reused=[(node(100), node(0))])
    proposed.chain.later(LIMITS["minInterval"])
    refused(proposed, report, "NotReleasable")
    assert proposed.execute(0).names == KICKED


def test_case_f57_unscored_node_cannot_be_proposed(oracle: Oracle):
    worded(oracle)
    oracle.by_network("joinMany", 101, 1)
    with pytest.raises(RevertedError, match="NotRegistered"):
        oracle.propose(100)


def test_case_f59_node_stays_expelled_when_the_network_reverts_its_kick(proposed: Oracle):
    proposed.by_network("setRefuses", True)
    assert proposed.execute(0).names == ["KickExecuted", "KickRefused"]
    assert (proposed.read("weightOf", node(0)), proposed.read("bucket")[0]) == (0, 1)

    proposed.by_network("setRefuses", False)
    assert proposed.retry(0).names == KICKED


def test_case_f59_low_gas_limit_does_not_consume_kick(proposed: Oracle):
    """A caller may choose the gas so that the network's part of it alone runs out."""
    chain = proposed.chain
    call = chain.request(proposed.contract.functions.executeKick(node(0)))
    with chain.undone():
        enough = proposed.execute(0).gas
    for gas in range(enough // 2, 10 * enough, enough // 10):
        (sent,) = chain.together(call | {"gas": hex(gas)})
        receipt = chain.rpc("eth_getTransactionReceipt", sent)
        # Whoever gives enough executes it, the network's part too; nobody ends it otherwise.
        assert pending(proposed) == (receipt["status"] == "0x0")
        if receipt["status"] == "0x1":
            break
    assert (proposed.held(0)["kick"], pending(proposed)) == (2, False)
    assert not proposed.network.functions.isMember(node(0)).call()


# --- f60: the same statement, elsewhere and later ---


@pytest.fixture
def report(oracle: Oracle) -> Report:
    return oracle.report((0, full(BAD, GOOD)))


def test_case_f60_report_signed_for_another_chain_is_rejected(oracle: Oracle, report: Report):
    elsewhere = replace(report, domain=(1, report.domain[1]))
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(report, elsewhere.signed_by(*SIGNERS[:2]))
    oracle.push(report)
    assert oracle.round == 2


def test_case_f60_report_is_rejected_on_a_copy_of_the_chain(oracle: Oracle, report: Report):
    chain, (old, _) = oracle.chain, report.domain
    chain.rpc("anvil_impersonateAccount", oracle.transmitter)
    chain.rpc("anvil_setChainId", 4242)
    try:
        with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
            oracle.push(report)
    finally:
        chain.rpc("anvil_setChainId", old)
        chain.rpc("anvil_stopImpersonatingAccount", oracle.transmitter)


def test_case_f60_report_signed_for_another_contract_is_rejected(oracle: Oracle, report: Report):
    other_oracle = deployed(oracle.chain)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        other_oracle.push(
            other_oracle.report((0, word(BAD)), fresh=[node(0)]), report.signed_by(*SIGNERS[:2])
        )
    lent = replace(report, domain=(report.domain[0], other_oracle.contract.address))
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(report, lent.signed_by(*SIGNERS[:2]))
    # The same report, signed for this contract, is good.
    oracle.push(report)
    assert oracle.round == 2


def test_case_f60_report_after_deadline_is_rejected(oracle: Oracle, report: Report):
    oracle.chain.at(report.deadline + 1)
    with pytest.raises(RevertedError, match=rf"Expired\({report.deadline}\)"):
        oracle.push(report)


def test_case_f60_second_report_for_the_same_round_is_rejected(oracle: Oracle, report: Report):
    rival = replace(report, data=data((0, full(BAD, BAD))))
    oracle.push(report)
    oracle.chain.later(LIMITS["minInterval"])
    for again in (report, rival):
        with pytest.raises(RevertedError, match=r"WrongRound\(3, 2\)"):
            oracle.push(again)


def test_case_f60_report_on_another_history_is_rejected(oracle: Oracle):
    oracle.reported((0, full(BAD)))
    oracle.chain.mine(2)
    stray = oracle.report((0, full(GOOD)), prev=b"\x01" * 32)
    oracle.chain.later(LIMITS["minInterval"])
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(stray)
    # On top of what was accepted the same report is good.
    oracle.push(replace(stray, prev=bytes(oracle.read("lastReport"))))
    assert oracle.round == 3


def test_case_f60_kick_signed_for_an_old_round_is_rejected(oracle: Oracle):
    worded(oracle)
    late = oracle.signed_kick(0)
    for _ in range(16):
        worded(oracle)
    with pytest.raises(RevertedError, match=r"WrongRound\(18, 2\)"):
        oracle.send(late)


def test_case_f60_proposal_after_deadline_is_rejected(oracle: Oracle):
    worded(oracle)
    end = oracle.chain.time + 30
    call = oracle.signed_kick(0, deadline=end)
    oracle.chain.at(end + 1)
    with pytest.raises(RevertedError, match=rf"Expired\({end}\)"):
        oracle.send(call)
