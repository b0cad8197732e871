"""Who can be proposed for a kickout, by whom, and how it is called off."""

import pytest
from eth_account.signers.local import LocalAccount

from tests.contracts.oracle_driver import EVIDENCE, Oracle, node
from tests.contracts.oracle_kickouts import BAD, DELAY, GOOD, WINDOW, pending, worded
from tests.contracts.oracle_signing import SIGNERS, STRANGER
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

NODE = node(0).lower()


@pytest.fixture
def oracle(oracle: Oracle) -> Oracle:
    """Round 2 is in: node 0 is bad, 1 good enough, 2 not to be selected, 3 as at the start."""
    return worded(oracle)


# --- proposing ---


def test_kick_proposal_event_contains_node_and_times(oracle: Oracle):
    event = oracle.propose(0).only("KickProposed")
    at = oracle.chain.time + DELAY
    assert event == {
        "node": node(0),
        "round": 2,
        "lane": BAD,
        "evidence": EVIDENCE,
        "readyAt": at,
        "diesAt": at + WINDOW,
    }
    assert oracle.held(0) == {
        "indexPlusOne": 1,
        "kick": 1,
        "readyAt": at,
        "diesAt": at + WINDOW,
        "expelledUntil": 0,
        "round": 2,
        "config": 1,
    }
    assert (oracle.read("evidenceOf", node(0)), pending(oracle)) == (EVIDENCE, True)


def test_node_marked_do_not_select_can_be_proposed(oracle: Oracle):
    assert oracle.propose(2).only("KickProposed")["lane"] == 1


def test_node_with_score_above_kick_threshold_cannot_be_proposed(oracle: Oracle):
    with pytest.raises(RevertedError, match=rf"NotBelowThreshold\({GOOD}\)"):
        oracle.propose(1)


def test_unregistered_node_cannot_be_proposed(oracle: Oracle):
    with pytest.raises(RevertedError, match=rf"NotRegistered\({node(99).lower()}\)"):
        oracle.propose(99)


def test_kick_without_evidence_is_rejected(oracle: Oracle):
    with pytest.raises(RevertedError, match="NoEvidence"):
        oracle.propose(0, evidence=bytes(32))


def test_duplicate_proposal_is_rejected(oracle: Oracle):
    oracle.propose(0)
    worded(oracle)
    with pytest.raises(RevertedError, match=rf"KickLive\({NODE}\)"):
        oracle.propose(0, evidence=b"\x07" * 32)


def test_number_of_proposals_per_round_is_limited(oracle: Oracle):
    for who in (0, 2):
        oracle.propose(who)
    with pytest.raises(RevertedError, match=r"KickLimit\(2\)"):
        oracle.propose(4)
    worded(oracle)
    assert oracle.propose(4).names == ["KickProposed"]


def test_proposals_are_rejected_when_the_kick_limit_is_zero(oracle: Oracle):
    oracle.limited(maxKicksPerRound=0)
    with pytest.raises(RevertedError, match=r"KickLimit\(0\)"):
        oracle.propose(0)


def test_proposal_may_be_sent_through_a_contract(oracle: Oracle):
    assert oracle.forwarded(oracle.signed_kick(0)).names == ["KickProposed"]


# --- what it is signed on ---


@pytest.mark.parametrize("round_", [0, 3])
def test_proposal_for_a_round_that_was_not_accepted_is_rejected(oracle: Oracle, round_: int):
    with pytest.raises(RevertedError, match=rf"WrongRound\(2, {round_}\)"):
        oracle.propose(0, round=round_, report=bytes(32))


def test_proposal_is_valid_for_fifteen_rounds(oracle: Oracle):
    call = oracle.signed_kick(0)
    for _ in range(15):
        worded(oracle)
    with oracle.chain.undone():
        # What it says is told of the round it was proposed in: the veto's rounds count from there.
        assert oracle.send(call).only("KickProposed")["round"] == 17
        assert oracle.held(0)["round"] == 17
    worded(oracle)
    with pytest.raises(RevertedError, match=r"WrongRound\(18, 2\)"):
        oracle.send(call)


def test_proposal_with_wrong_report_digest_is_rejected(oracle: Oracle):
    right, wrong = bytes(oracle.read("lastReport")), b"\x07" * 32
    with pytest.raises(RevertedError, match="WrongReport") as caught:
        oracle.propose(0, report=wrong)
    assert caught.value.values == (right, wrong)


def test_proposal_signed_for_another_report_is_rejected(oracle: Oracle):
    _, _, *later_arguments = oracle.signed_kick(0).arguments
    worded(oracle)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.do("proposeKick", oracle.round, oracle.read("lastReport"), *later_arguments)


def test_signed_proposal_is_rejected_while_node_is_above_threshold(oracle: Oracle):
    call = oracle.signed_kick(0)
    worded(oracle, GOOD)
    with pytest.raises(RevertedError, match=rf"NotBelowThreshold\({GOOD}\)"):
        oracle.send(call)
    # It is low again: the same signatures are still good.
    worded(oracle)
    assert oracle.send(call).names == ["KickProposed"]


def test_report_digests_of_the_last_sixteen_rounds_are_kept(
    oracle: Oracle,
):
    digests = [bytes(oracle.read("lastReport"))]
    for _ in range(17):
        worded(oracle)
        digests.append(bytes(oracle.read("lastReport")))
    assert len(set(digests)) == 18
    for round_, digest in list(enumerate(digests, 2))[2:]:
        with oracle.chain.undone():
            receipt = oracle.propose(0, round=round_, report=digest)
            assert receipt.names == ["KickProposed"]


# --- until when ---


def test_proposal_deadline_is_exact_to_the_second(oracle: Oracle):
    now = oracle.chain.time
    call = oracle.signed_kick(0, deadline=now + 5)
    with oracle.chain.undone():
        oracle.chain.at(now + 6)
        with pytest.raises(RevertedError, match=rf"Expired\({now + 5}\)"):
            oracle.send(call)
    oracle.chain.at(now + 5)
    assert oracle.send(call).names == ["KickProposed"]


def test_deadline_over_60_minutes_ahead_is_rejected(oracle: Oracle):
    end = oracle.chain.time + 10 + 3_600
    call = oracle.signed_kick(0, deadline=end)
    with oracle.chain.undone():
        oracle.chain.at(end - 3_601)
        with pytest.raises(RevertedError, match=rf"DeadlineTooFar\({end}\)"):
            oracle.send(call)
    oracle.chain.at(end - 3_600)
    assert oracle.send(call).names == ["KickProposed"]


# --- by whom ---


@pytest.mark.parametrize(
    ("signers", "error"),
    [
        ((SIGNERS[0],), r"BadSignatureLength\(130, 65\)"),
        ((SIGNERS[0], SIGNERS[0]), r"BadSignature\(1\)"),
        ((STRANGER, SIGNERS[0]), r"BadSignature\(0\)"),
    ],
    ids=["too few", "twice", "stranger"],
)
def test_proposal_without_valid_quorum_is_rejected(
    oracle: Oracle, signers: tuple[LocalAccount, ...], error: str
):
    with pytest.raises(RevertedError, match=error):
        oracle.send(oracle.signed_kick(0, signers))


def test_signature_for_another_node_is_rejected(oracle: Oracle):
    round_, report, _, *later_arguments = oracle.signed_kick(0).arguments
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.do("proposeKick", round_, report, node(2), *later_arguments)


def test_kick_digest_matches_contract_view(oracle: Oracle):
    _, *kick_fields, signatures = oracle.signed_kick(0).arguments
    digest = oracle.read("kickDigest", *kick_fields)
    recovered = oracle.chain.web3.eth.account._recover_hash(digest, signature=signatures[:65])
    assert recovered == SIGNERS[0].address
