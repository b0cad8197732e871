"""Signers, quorum and rules are one configuration: what was signed under another is nobody's."""

from dataclasses import replace

import pytest

from tests.contracts.oracle_driver import RULES_HASH, Oracle, full, node
from tests.contracts.oracle_kickouts import DELAY, ROUNDS, pending, ready, worded
from tests.contracts.oracle_signing import SIGNERS, STRANGER, config_digest
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

THREE: list[str] = [signer.address for signer in SIGNERS]
WORDS = (0, full())


def replaced(oracle: Oracle, signers: list[str], quorum: int) -> None:
    oracle.do("setSigners", signers, quorum, sender=oracle.admin)


def test_config_event_contains_the_configuration_digest(oracle: Oracle):
    rotations: list[tuple[list[str], int]] = [([STRANGER.address], 1), (THREE, 2)]
    for count, (signers, quorum) in enumerate(rotations, 2):
        receipt = oracle.do("setSigners", signers, quorum, sender=oracle.admin)
        assert receipt.names == ["SignersSet", "ConfigSet"]
        config = config_digest(oracle.domain, count, signers, quorum, RULES_HASH)
        assert receipt.only("ConfigSet") == {"count": count, "config": config}
        assert oracle.read("configDigest") == config
        assert oracle.head("configCount") == count


def test_changing_the_rules_creates_a_new_configuration(oracle: Oracle):
    rules = b"\x02" * 32
    receipt = oracle.do("setRules", rules, sender=oracle.admin)
    assert receipt.names == ["RulesSet", "ConfigSet"]
    assert receipt.only("RulesSet") == {"rulesHash": rules}
    assert oracle.read("rulesHash") == rules
    assert oracle.read("configDigest") == config_digest(oracle.domain, 2, THREE, 2, rules)


def test_zero_rules_hash_is_rejected(oracle: Oracle):
    with pytest.raises(RevertedError, match="BadRules"):
        oracle.do("setRules", bytes(32), sender=oracle.admin)


def test_restoring_the_old_signers_does_not_revive_their_old_signatures(oracle: Oracle):
    """The same signers, quorum and rules again, after two rotations: another configuration."""
    worded(oracle)
    report, kick = oracle.report(WORDS), oracle.signed_kick(0)
    replaced(oracle, [STRANGER.address], 1)
    replaced(oracle, THREE, 2)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.send(kick)
    oracle.chain.later(10)
    with oracle.chain.undone(), pytest.raises(RevertedError, match=r"WrongConfig\(3, 1\)"):
        oracle.push(report)
    oracle.chain.later(10)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(replace(report, count=3), report.signed_by(*SIGNERS[:2]))
    assert oracle.propose(0).names == ["KickProposed"]


def test_signer_rotation_invalidates_pending_kick_proposals(oracle: Oracle):
    worded(oracle)
    ready(oracle)
    assert pending(oracle)
    replaced(oracle, [STRANGER.address], 1)
    assert not pending(oracle)
    with pytest.raises(RevertedError, match=rf"NoKick\({node(0).lower()}\)"):
        oracle.execute(0)
    # Not even when the old ones are back, whatever the rounds since then say.
    replaced(oracle, THREE, 2)
    worded(oracle)
    with pytest.raises(RevertedError, match="NoKick"):
        oracle.execute(0)


def test_new_signers_can_repropose_a_kick_of_the_old_signers(oracle: Oracle):
    worded(oracle).propose(0)
    replaced(oracle, [STRANGER.address], 1)
    oracle.reported((0, full(1)), signers=[STRANGER])
    receipt = oracle.send(oracle.signed_kick(0, [STRANGER]))
    assert receipt.names == ["KickCancelled", "KickProposed"]
    for _ in range(ROUNDS):
        oracle.reported((0, full(1)), signers=[STRANGER])
    oracle.chain.later(DELAY)
    assert "KickExecuted" in oracle.execute(0).names


# --- a signer is dropped ---


def test_dropping_a_signer_keeps_the_order_of_the_others(oracle: Oracle):
    receipt = oracle.do("dropSigner", THREE[1], sender=oracle.pauser)
    left = [THREE[0], THREE[2]]
    assert receipt.only("SignersSet") == {"signers": left, "quorum": 2}
    assert oracle.read("signers") == left
    assert oracle.read("configDigest") == config_digest(oracle.domain, 2, left, 2, RULES_HASH)
    report = oracle.report(WORDS)
    with oracle.chain.undone(), pytest.raises(RevertedError, match=r"BadSignature\(1\)"):
        oracle.push(report, report.signed_by(SIGNERS[0], SIGNERS[1]))
    event = oracle.push(report, report.signed_by(SIGNERS[2], SIGNERS[0])).only("RoundAccepted")
    assert event["signers"] == 0b11


def test_dropping_a_signer_invalidates_pending_kick_proposals(oracle: Oracle):
    ready(worded(oracle))
    oracle.do("dropSigner", THREE[2], sender=oracle.pauser)
    assert not pending(oracle)
    with pytest.raises(RevertedError, match="NoKick"):
        oracle.execute(0)


def test_dropping_a_signer_below_the_quorum_is_rejected(oracle: Oracle):
    oracle.do("dropSigner", THREE[0], sender=oracle.pauser)
    with pytest.raises(RevertedError, match="BadSigners"):
        oracle.do("dropSigner", THREE[1], sender=oracle.pauser)
    assert oracle.read("signers") == THREE[1:]


@pytest.mark.parametrize("who", [STRANGER.address, "0x" + 40 * "0"])
def test_dropping_an_account_that_is_no_signer_is_rejected(oracle: Oracle, who: str):
    with pytest.raises(RevertedError, match="BadSigners"):
        oracle.do("dropSigner", who, sender=oracle.pauser)


def test_dropping_the_only_signer_is_rejected(oracle: Oracle):
    replaced(oracle, THREE[:1], 1)
    with pytest.raises(RevertedError, match="BadSigners"):
        oracle.do("dropSigner", THREE[0], sender=oracle.pauser)
