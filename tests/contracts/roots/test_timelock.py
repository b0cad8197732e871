"""What the proposer of the admin's timelock can do, and how soon."""

from typing import Any

import pytest

from tests.contracts.oracle_signing import SIGNERS, STRANGER
from tests.contracts.roots.due_leaves import due_leaves
from tests.contracts.roots.root_rounds import make_leaves
from tests.contracts.roots.roots_driver import FLOORS, LIMITS, ZERO
from tests.contracts.roots.timelocked import CANCELLER, DELAY, LockedRoots, deploy_locked
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

SEAT, NODES = 0, 20


@pytest.fixture(scope="module")
def fresh_locked(fresh_chain: Chain) -> LockedRoots:
    fresh_chain.mine(3)
    floors = FLOORS | {"vetoDelay": 600, "kickRounds": 2, "minInterval": 10}
    locked = deploy_locked(fresh_chain, floors=floors)
    locked.oracle.push_leaves(make_leaves(NODES))
    return locked


@pytest.fixture
def locked(chain: Chain, fresh_locked: LockedRoots) -> LockedRoots:
    return fresh_locked.copy()


def plan_takeover(locked: LockedRoots) -> list[Any]:
    """Return the operations that a thief of the proposer's key would schedule:
    other signers, no veto.
    """
    does = locked.oracle.contract.functions
    loosest = LIMITS | {"minOpen": 0}
    return [
        does.setSigners([STRANGER.address], 1),
        does.setVetoer(ZERO),
        does.setLimits(tuple(loosest.values())),
    ]


def test_proposer_cannot_bypass_timelock_delay(locked: LockedRoots):
    for call in plan_takeover(locked):
        with pytest.raises(RevertedError, match="NotAllowed"):
            locked.oracle.send(call, sender=locked.proposer)
    with pytest.raises(RevertedError, match="TimelockInsufficientDelay"):
        locked.schedule(*plan_takeover(locked), delay=DELAY - 1)


def test_signer_takeover_cannot_kick_out_a_node_within_one_block(locked: LockedRoots):
    """After the delay, with every transaction of the attack in one block."""
    oracle, chain = locked.oracle, locked.oracle.chain
    calls = plan_takeover(locked)
    locked.schedule(*calls)
    chain.later(DELAY)
    chain.mine(3)
    # Signed in advance for the future configuration, on the current root.
    with chain.undone():
        locked.carry_out(*calls)
        forged = oracle.make_round(due_leaves(SEAT, count=NODES))
        report = oracle.report(forged.root, as_of=forged.as_of)
        signature = report.signed_by(STRANGER)
    does = oracle.contract.functions
    attack = [
        locked.timelock.functions.executeBatch(*locked.batch(*calls)),
        oracle.call(report, signature),
        does.accuse(*forged.proven(SEAT)),
        does.executeKick(*forged.proven(SEAT), forged.summary_abi),
    ]
    chain.later(20)
    sent = chain.together(*(chain.request(call, sender=locked.proposer) for call in attack))
    done = [chain.rpc("eth_getTransactionReceipt", tx_hash)["status"] == "0x1" for tx_hash in sent]
    # The floors still hold: a kickout waits for seconds and for rounds.
    assert done == [True, True, True, False]
    with pytest.raises(RevertedError, match="KickNotReady"):
        chain.receipt(sent[3])


def test_timelock_cannot_loosen_limits_beyond_floors(locked: LockedRoots):
    does = locked.oracle.contract.functions
    call = does.setLimits(tuple((LIMITS | {"vetoDelay": 599}).values()))
    locked.schedule(call)
    locked.oracle.chain.later(DELAY)
    with pytest.raises(RevertedError, match="BadLimits"):
        locked.carry_out(call)


def test_timelock_can_rotate_signers_during_a_pause(locked: LockedRoots):
    """The emergency procedure: pause, strike, drop the stolen signer,
    schedule new ones, resume.
    """
    oracle, does = locked.oracle, locked.oracle.contract.functions
    new_signers = [STRANGER.address, SIGNERS[1].address, SIGNERS[2].address]
    calls = [does.setSigners(new_signers, 2), does.resume()]
    oracle.do("pauseFor", 7 * 86_400, sender=oracle.pauser)
    oracle.do("strike", oracle.round, sender=oracle.pauser)
    oracle.do("dropSigner", SIGNERS[0].address, sender=oracle.pauser)
    locked.schedule(*calls)
    oracle.chain.later(DELAY)
    names = locked.carry_out(*calls).names
    assert names[:2] == ["SignersSet", "ConfigSet"]
    assert "PausedUntil" in names
    # The scores did not age in the pause, which was longer than their maximum age.
    assert oracle.read("isFresh")
    oracle.signers = [STRANGER, SIGNERS[1]]
    oracle.push_leaves(make_leaves(NODES))
    assert (oracle.round, oracle.read("signers")) == (2, new_signers)


def test_timelock_has_no_admin_but_itself(locked: LockedRoots):
    """Only a scheduled operation changes the timelock's own roles and delay."""
    does = locked.timelock.functions
    default_admin = bytes(32)
    assert does.hasRole(default_admin, locked.timelock.address).call()
    assert not does.hasRole(default_admin, locked.proposer).call()
    with pytest.raises(RevertedError, match="TimelockUnauthorizedCaller"):
        locked.oracle.send(does.updateDelay(0), sender=locked.proposer)
    with pytest.raises(RevertedError, match="AccessControlUnauthorizedAccount"):
        locked.oracle.send(does.grantRole(CANCELLER, locked.proposer), sender=locked.proposer)
