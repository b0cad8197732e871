"""Who can be proposed for a kickout, by whom, and how it is called off."""

import pytest
from eth_account.signers.local import LocalAccount

from tests.contracts.oracle_driver import EVIDENCE, LIMITS, SIGNERS, STRANGER, Oracle, node
from tests.contracts.oracle_kickouts import BAD, DELAY, GOOD, WHY, WINDOW, ready, worded
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm


@pytest.fixture
def oracle(oracle: Oracle) -> Oracle:
    """One round is in: node 0 is bad, 1 good enough, 2 not to be selected, 3 unknown."""
    return worded(oracle)


# --- proposing ---


def test_a_proposal_says_whom_and_when(oracle: Oracle):
    said = oracle.propose(0).only("KickProposed")
    at = oracle.chain.time + DELAY
    assert said == {
        "index": 0,
        "node": node(0),
        "round": 1,
        "lane": BAD,
        "evidence": EVIDENCE,
        "readyAt": at,
    }
    assert oracle.read("kickOf", 0) == (at, at + WINDOW, 1, True, EVIDENCE)


def test_a_node_that_is_not_to_be_selected_can_be_proposed(oracle: Oracle):
    assert oracle.propose(2).only("KickProposed")["lane"] == 1


@pytest.mark.parametrize(("index", "lane"), [(1, GOOD), (3, 0)], ids=["good enough", "unreported"])
def test_only_a_node_below_the_threshold_can_be_proposed(oracle: Oracle, index: int, lane: int):
    with pytest.raises(RevertedError, match=rf"NotBelowThreshold\({lane}\)"):
        oracle.propose(index)


@pytest.mark.parametrize("round_", [0, 2])
def test_a_proposal_is_signed_on_a_round_that_was_accepted(oracle: Oracle, round_: int):
    with pytest.raises(RevertedError, match=rf"WrongRound\(1, {round_}\)"):
        oracle.propose(0, round=round_, report=bytes(32))


def test_a_proposal_outlives_fifteen_rounds_and_not_sixteen(oracle: Oracle):
    call = oracle.signed_kick(0, deadline=oracle.chain.time + 86_400)
    for _ in range(15):
        worded(oracle)
    with oracle.chain.undone():
        # What it says is told of the round it was proposed in: the veto's rounds count from there.
        assert oracle.send(call).only("KickProposed")["round"] == 16
        assert oracle.read("kickOf", 0)[2] == 16
    worded(oracle)
    with pytest.raises(RevertedError, match=r"WrongRound\(17, 1\)"):
        oracle.send(call)


def test_a_proposal_on_a_round_with_another_report_is_nobodys(oracle: Oracle):
    right, wrong = bytes(oracle.read("lastReport")), b"\x07" * 32
    with pytest.raises(RevertedError, match="WrongReport") as caught:
        oracle.propose(0, report=wrong)
    assert caught.value.values == (right, wrong)


def test_a_proposal_signed_before_is_refused_once_the_node_has_recovered(oracle: Oracle):
    call = oracle.signed_kick(0)
    worded(oracle, GOOD)
    with pytest.raises(RevertedError, match=rf"NotBelowThreshold\({GOOD}\)"):
        oracle.send(call)
    # It is low again: the same signatures are still good.
    worded(oracle)
    assert oracle.send(call).names == ["KickProposed"]


def test_the_digests_of_sixteen_rounds_are_kept_and_each_report_builds_on_the_last(
    oracle: Oracle,
):
    digests = [bytes(oracle.read("lastReport"))]
    for _ in range(17):
        worded(oracle)
        digests.append(bytes(oracle.read("lastReport")))
    assert len(set(digests)) == 18
    for round_, digest in list(enumerate(digests, 1))[2:]:
        with oracle.chain.undone():
            said = oracle.propose(0, round=round_, report=digest)
            assert said.names == ["KickProposed"]


def test_a_proposal_keeps_its_deadline_to_the_second(oracle: Oracle):
    now = oracle.chain.time
    call = oracle.signed_kick(0, deadline=now + 5)
    with oracle.chain.undone():
        oracle.chain.at(now + 6)
        with pytest.raises(RevertedError, match=rf"Expired\({now + 5}\)"):
            oracle.send(call)
    oracle.chain.at(now + 5)
    assert oracle.send(call).names == ["KickProposed"]


def test_a_kickout_has_evidence(oracle: Oracle):
    with pytest.raises(RevertedError, match="NoEvidence"):
        oracle.propose(0, evidence=bytes(32))


def test_an_index_that_was_never_given_cannot_be_proposed(oracle: Oracle):
    with pytest.raises(RevertedError, match=r"NotMember\(20\)"):
        oracle.propose(20)


def test_a_kickout_is_proposed_once(oracle: Oracle):
    oracle.propose(0)
    with pytest.raises(RevertedError, match=r"AlreadyProposed\(0, 1\)"):
        oracle.propose(0, evidence=b"\x07" * 32)
    worded(oracle)
    with pytest.raises(RevertedError, match=r"KickLive\(0\)"):
        oracle.propose(0)


def test_a_round_has_so_many_proposals_and_no_more(oracle: Oracle):
    for index in (0, 2):
        oracle.propose(index)
    with pytest.raises(RevertedError, match=r"KickLimit\(2\)"):
        oracle.propose(4)
    worded(oracle)
    assert oracle.propose(4).names == ["KickProposed"]


def test_a_limit_of_no_kickouts_is_none(oracle: Oracle):
    limits = LIMITS | {"maxKicksPerRound": 0}
    oracle.do("setLimits", tuple(limits.values()), sender=oracle.admin)
    with pytest.raises(RevertedError, match=r"KickLimit\(0\)"):
        oracle.propose(0)


@pytest.mark.parametrize(
    ("signers", "error"),
    [
        ((SIGNERS[0],), r"BadSignatureLength\(130, 65\)"),
        ((SIGNERS[0], SIGNERS[0]), r"BadSignature\(1\)"),
        ((STRANGER, SIGNERS[0]), r"BadSignature\(0\)"),
    ],
    ids=["too few", "twice", "stranger"],
)
def test_a_quorum_proposes(oracle: Oracle, signers: tuple[LocalAccount, ...], error: str):
    with pytest.raises(RevertedError, match=error):
        oracle.send(oracle.signed_kick(0, signers))


def test_a_signature_for_one_node_is_none_for_another(oracle: Oracle):
    round_, report, _, *rest = oracle.signed_kick(0).arguments
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.do("proposeKick", round_, report, 2, *rest)


def test_the_digest_is_the_one_the_contract_foretells(oracle: Oracle):
    *said, signatures = oracle.signed_kick(0).arguments
    told = oracle.read("kickDigest", *said)
    recovered = oracle.chain.web3.eth.account._recover_hash(told, signature=signatures[:65])
    assert recovered == SIGNERS[0].address


def test_a_contract_may_pass_a_proposal_on(oracle: Oracle):
    assert oracle.forwarded(oracle.signed_kick(0)).names == ["KickProposed"]


# --- cancelling ---


def test_the_vetoer_cancels_at_any_time(oracle: Oracle):
    ready(oracle)
    said = oracle.do("cancelKick", 0, WHY, sender=oracle.vetoer).only("KickCancelled")
    assert said == {"index": 0, "by": oracle.vetoer, "why": WHY}
    with pytest.raises(RevertedError, match=r"NoKick\(0\)"):
        oracle.execute(0)


@pytest.mark.parametrize("role", ["admin", "pauser", "transmitter"])
def test_nobody_else_cancels_what_is_right(oracle: Oracle, role: str):
    oracle.propose(0)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("cancelKick", 0, WHY, sender=getattr(oracle, role))


def test_anyone_cancels_when_the_node_has_recovered(oracle: Oracle):
    oracle.propose(0)
    worded(oracle, GOOD)
    assert oracle.do("cancelKick", 0, WHY).only("KickCancelled")["by"] == oracle.transmitter


def test_anyone_cancels_when_the_node_has_left(oracle: Oracle):
    oracle.propose(0)
    oracle.by_network("quit", node(0))
    assert oracle.do("cancelKick", 0, WHY).names == ["KickCancelled"]


def test_anyone_cancels_when_it_is_too_late(oracle: Oracle):
    oracle.propose(0)
    oracle.chain.later(DELAY + WINDOW + 1)
    assert oracle.do("cancelKick", 0, WHY).names == ["KickCancelled"]


def test_there_must_be_something_to_cancel(oracle: Oracle):
    with pytest.raises(RevertedError, match=r"NoKick\(0\)"):
        oracle.do("cancelKick", 0, WHY, sender=oracle.vetoer)


def test_a_cancelled_kickout_can_be_proposed_again_on_a_newer_round_only(oracle: Oracle):
    first = oracle.signed_kick(0)
    worded(oracle)
    second = oracle.signed_kick(0)
    oracle.send(first)
    oracle.do("cancelKick", 0, WHY, sender=oracle.vetoer)
    # What was signed before the first landed is over with it, in this round and later.
    for _ in range(2):
        for number, call in ((1, first), (2, second)):
            with pytest.raises(RevertedError, match=rf"AlreadyProposed\(0, {number}\)"):
                oracle.send(call)
        worded(oracle)
    assert oracle.propose(0).names == ["KickProposed"]


# --- coming back ---


def test_a_node_that_joins_again_leaves_the_kickout_behind(oracle: Oracle):
    ready(oracle)
    oracle.by_network("quit", node(0))
    receipt = oracle.by_network("join", node(0))
    assert receipt.names == ["KickCancelled", "NodeIndexRetired", "NodeRegistered"]
    assert receipt.only("KickCancelled")["why"] == b"rejoined".ljust(32, b"\0")
    with pytest.raises(RevertedError, match=r"NoKick\(0\)"):
        oracle.execute(0)


def test_a_kickout_signed_before_the_node_left_does_not_reach_its_new_index(oracle: Oracle):
    late = oracle.signed_kick(0)
    oracle.by_network("quit", node(0))
    oracle.by_network("join", node(0))
    with pytest.raises(RevertedError, match=r"NotMember\(0\)"):
        oracle.send(late)
    with pytest.raises(RevertedError, match=r"NotBelowThreshold\(0\)"):
        oracle.propose(20)


def test_a_retired_index_can_keep_any_lane_and_harms_nobody(oracle: Oracle):
    oracle.by_network("quit", node(0))
    oracle.by_network("join", node(0))
    worded(oracle, 1)
    assert oracle.score(node(0)) == (False, True, 0)
    with pytest.raises(RevertedError, match=r"NotMember\(0\)"):
        oracle.propose(0)
