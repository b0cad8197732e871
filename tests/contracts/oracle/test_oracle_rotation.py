"""What becomes of a kickout when those who signed it are signers no more."""

import pytest
from eth_account.signers.local import LocalAccount

from tests.contracts.oracle_driver import SIGNERS, STRANGER, Oracle, word
from tests.contracts.oracle_kickouts import DELAY, GOOD, ROUNDS, WHY, worded
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm


@pytest.fixture
def replaced(oracle: Oracle) -> Oracle:
    """Node 0 is bad and proposed; then a stranger alone becomes signer."""
    worded(oracle).propose(0)
    oracle.do("setSigners", [STRANGER.address], 1, sender=oracle.admin)
    return oracle


def reported(oracle: Oracle, lane: int, signer: LocalAccount = STRANGER) -> None:
    """One more round, by the new signer."""
    oracle.chain.mine(2)
    oracle.chain.later(DELAY)
    report = oracle.report((0, word(lane, GOOD, 1, 0, 2, 2, 2)))
    oracle.push(report, report.signed_by(signer))


def test_a_kickout_is_executed_where_the_new_signers_find_the_node_as_low(replaced: Oracle):
    for _ in range(ROUNDS):
        reported(replaced, 1)
    assert replaced.execute(0).names == ["KickExecuted", "KickedOut"]


def test_a_sound_report_of_the_new_signers_ends_a_kickout_of_the_old(replaced: Oracle):
    for _ in range(ROUNDS):
        reported(replaced, GOOD)
    with pytest.raises(RevertedError, match="NotBelowThreshold"):
        replaced.execute(0)
    assert replaced.do("cancelKick", 0, WHY, sender=replaced.transmitter).names == [
        "KickCancelled"
    ]


def test_the_old_signers_propose_nothing_more(replaced: Oracle):
    with pytest.raises(RevertedError, match="BadSignature"):
        replaced.chain.send(replaced.signed_kick(2, SIGNERS[:1]), sender=replaced.transmitter)
