"""How a proposed kickout is called off, dies, or stays where its node hoped that it would not."""

import pytest

from tests.contracts.oracle_driver import Oracle, full, node
from tests.contracts.oracle_kickouts import BAD, GOOD, WHY, pending, ready, worded
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

NODE = node(0).lower()


@pytest.fixture
def oracle(oracle: Oracle) -> Oracle:
    """Round 2 is in: node 0 is bad, 1 good enough, 2 not to be selected, 3 as at the start."""
    return worded(oracle)


# --- cancelling ---


def test_vetoer_can_cancel_a_kick_at_any_time(oracle: Oracle):
    ready(oracle)
    event = oracle.cancel(0, WHY).only("KickCancelled")
    assert event == {"node": node(0), "by": oracle.vetoer, "why": WHY}
    assert (pending(oracle), oracle.read("evidenceOf", node(0))) == (False, bytes(32))
    with pytest.raises(RevertedError, match=rf"NoKick\({NODE}\)"):
        oracle.execute(0)


@pytest.mark.parametrize("role", ["admin", "pauser", "transmitter"])
def test_other_roles_cannot_cancel_valid_kick(oracle: Oracle, role: str):
    oracle.propose(0)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.cancel(0, WHY, getattr(oracle, role))


def test_any_account_can_cancel_the_kick_of_a_recovered_node(oracle: Oracle):
    oracle.propose(0)
    worded(oracle, GOOD)
    event = oracle.cancel(0, WHY, oracle.transmitter).only("KickCancelled")
    assert event["by"] == oracle.transmitter


def test_any_account_can_cancel_an_expired_kick(oracle: Oracle):
    oracle.propose(0)
    oracle.chain.at(oracle.held(0)["diesAt"] + 1)
    assert oracle.cancel(0, WHY, oracle.transmitter).names == ["KickCancelled"]


def test_any_account_can_cancel_a_kick_of_a_replaced_configuration(oracle: Oracle):
    oracle.propose(0)
    oracle.do("setRules", b"\x02" * 32, sender=oracle.admin)
    assert oracle.cancel(0, WHY, oracle.transmitter).names == ["KickCancelled"]


def test_cancelling_without_a_pending_kick_is_rejected(oracle: Oracle):
    with pytest.raises(RevertedError, match=rf"NoKick\({NODE}\)"):
        oracle.cancel(0)


def test_veto_invalidates_kick_signatures_given_before_it(oracle: Oracle):
    first = oracle.signed_kick(0)
    worded(oracle)
    second = oracle.signed_kick(0)
    oracle.send(first)
    worded(oracle)
    third = oracle.signed_kick(0)
    oracle.cancel(0, WHY)
    # In this round and later: signatures given before the veto are no answer to it.
    for _ in range(2):
        for call in (first, second, third):
            with pytest.raises(RevertedError, match=rf"AlreadyProposed\({NODE}, 4\)"):
                oracle.send(call)
        worded(oracle)
    assert oracle.propose(0).names == ["KickProposed"]


# --- what died ---


def test_expired_kick_is_replaced_by_a_new_proposal(oracle: Oracle):
    ready(oracle)
    oracle.chain.at(oracle.held(0)["diesAt"] + 1)
    oracle.chain.mine()
    assert not pending(oracle)
    receipt = oracle.propose(0, evidence=b"\x07" * 32)
    assert receipt.names == ["KickCancelled", "KickProposed"]
    assert receipt.only("KickCancelled")["why"] == b"died".ljust(32, b"\0")
    assert oracle.read("evidenceOf", node(0)) == b"\x07" * 32


def test_expelled_node_cannot_be_proposed_again(oracle: Oracle):
    ready(oracle)
    oracle.execute(0)
    worded(oracle)
    with pytest.raises(RevertedError, match=rf"AlreadyExpelled\({NODE}\)"):
        oracle.propose(0)


def test_kick_proposal_stays_pending_when_its_node_quits_and_rejoins(oracle: Oracle):
    """A kickout is of an address: leaving in the hours of the veto is no escape."""
    ready(oracle)
    oracle.by_network("quit", node(0))
    oracle.by_network("join", node(0))
    assert pending(oracle)
    assert oracle.execute(0).names == ["KickExecuted", "KickedOut"]


def test_readmission_invalidates_kick_signatures_given_before_it(oracle: Oracle):
    ready(oracle)
    oracle.execute(0)
    worded(oracle)
    late = oracle.signed_kick(0)
    worded(oracle)
    oracle.do("readmit", node(0), sender=oracle.admin)
    with pytest.raises(RevertedError, match=rf"AlreadyProposed\({NODE}, 6\)"):
        oracle.send(late)
    oracle.reported((0, full(BAD, l2=1)))
    assert oracle.propose(0).names == ["KickProposed"]
