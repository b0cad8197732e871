"""An oracle whose admin is OpenZeppelin's timelock: what one key can do, and how soon."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from web3 import Web3
from web3.contract import Contract

from tests.contracts.oracle_driver import FLOORS, LIMITS, ZERO, Oracle, deployed, full
from tests.contracts.oracle_kickouts import worded
from tests.contracts.oracle_signing import SIGNERS, STRANGER
from tests.support.evm.chain import Chain, Receipt, RevertedError, encoded

pytestmark = pytest.mark.evm

DELAY = 2 * 86_400
NONE, SALT = bytes(32), b"\x05" * 32
CANCELLER = bytes(Web3.keccak(text="CANCELLER_ROLE"))


@dataclass(frozen=True)
class Locked:
    """An oracle with twenty nodes.

    `owner` schedules and cancels, the vetoer cancels too, anyone executes.
    """

    oracle: Oracle
    timelock: Contract
    owner: str

    def batch(self, *calls: Any) -> tuple[Any, ...]:
        """The calls as the timelock takes them, after no other batch."""
        inputs = [encoded(call) for call in calls]
        return [call.address for call in calls], [0] * len(calls), inputs, NONE, SALT

    def schedule(self, *calls: Any, delay: int = DELAY, sender: str = "") -> Receipt:
        call = self.timelock.functions.scheduleBatch(*self.batch(*calls), delay)
        return self.oracle.send(call, sender=sender or self.owner)

    def carry_out(self, *calls: Any) -> Receipt:
        """Sent by the transmitter, who has no rights."""
        return self.oracle.send(self.timelock.functions.executeBatch(*self.batch(*calls)))


@pytest.fixture(scope="module")
def fresh_locked(fresh_chain: Chain) -> Locked:
    owner, vetoer = fresh_chain.accounts[6], fresh_chain.accounts[3]
    timelock = fresh_chain.deploy("TimelockController", DELAY, [owner], [ZERO], ZERO)
    floors = FLOORS | {"vetoDelay": 600, "kickRounds": 2, "minInterval": 10}
    oracle = deployed(fresh_chain, admin=timelock.address, floors=floors)
    oracle.by_network("joinMany", 1, 20)
    oracle.registered(20)
    locked = Locked(replace(oracle, admin=timelock.address), timelock, owner)
    # The vetoer becomes a canceller as everything is done here: scheduled by the owner.
    grant = timelock.functions.grantRole(CANCELLER, vetoer)
    locked.schedule(grant)
    fresh_chain.later(DELAY)
    locked.carry_out(grant)
    worded(oracle)
    return locked


@pytest.fixture
def locked(chain: Chain, fresh_locked: Locked) -> Locked:
    return fresh_locked


def taking_over(locked: Locked) -> list[Any]:
    """What a stolen key of the owner would want: signers of its own, and no veto."""
    does = locked.oracle.contract.functions
    loose = LIMITS | {"maxKicksPerRound": 255}
    return [
        does.setSigners([STRANGER.address], 1),
        does.setVetoer(ZERO),
        does.setLimits(tuple(loose.values())),
    ]


def test_owner_cannot_bypass_timelock_delay(locked: Locked):
    for call in taking_over(locked):
        with pytest.raises(RevertedError, match="NotAllowed"):
            locked.oracle.send(call, sender=locked.owner)
    with pytest.raises(RevertedError, match="TimelockInsufficientDelay"):
        locked.schedule(*taking_over(locked), delay=DELAY - 1)


def test_signer_takeover_and_kick_do_not_fit_in_one_block(locked: Locked):
    """With the delay over, and every transaction of the attack in one block."""
    oracle, chain = locked.oracle, locked.oracle.chain
    calls = taking_over(locked)
    locked.schedule(*calls)
    chain.later(DELAY)
    chain.mine(3)
    # Signed in advance for the configuration that will be, on the round that will be.
    with chain.undone():
        locked.carry_out(*calls)
        report = oracle.report((0, full(1)))
        signature = report.signed_by(STRANGER)
        chain.later(10)
        oracle.push(report, signature)
        kick = oracle.signed_kick(0, [STRANGER])
    execution = oracle.contract.functions.executeKick(kick.arguments[2])
    open_up = locked.timelock.functions.executeBatch(*locked.batch(*calls))
    ordered_calls = [open_up, oracle.call(report, signature), kick, execution]
    chain.later(20)
    sent = chain.together(*(chain.request(call, sender=locked.owner) for call in ordered_calls))
    done = [chain.rpc("eth_getTransactionReceipt", tx_hash)["status"] == "0x1" for tx_hash in sent]
    # The floors hold in between: a kickout waits for seconds and for rounds all the same.
    assert done == [True, True, True, False]
    with pytest.raises(RevertedError, match="KickNotReady"):
        chain.receipt(sent[3])


def test_timelock_cannot_loosen_limits_beyond_floors(locked: Locked):
    does = locked.oracle.contract.functions
    call = does.setLimits(tuple((LIMITS | {"vetoDelay": 599}).values()))
    locked.schedule(call)
    locked.oracle.chain.later(DELAY)
    with pytest.raises(RevertedError, match="BadLimits"):
        locked.carry_out(call)


def test_vetoer_can_cancel_a_scheduled_batch(locked: Locked):
    calls = taking_over(locked)
    receipt = locked.schedule(*calls)
    assert receipt.names == ["CallScheduled"] * 3 + ["CallSalt"]
    batch = receipt.events[0].args["id"]
    cancelled = locked.oracle.send(
        locked.timelock.functions.cancel(batch), sender=locked.oracle.vetoer
    )
    assert cancelled.names == ["Cancelled"]
    locked.oracle.chain.later(DELAY)
    with pytest.raises(RevertedError, match="TimelockUnexpectedOperationState"):
        locked.carry_out(*calls)


def test_signer_rotation_through_the_timelock_fits_within_a_pause(locked: Locked):
    """The emergency order: pause, drop the stolen signer, schedule new ones, execute, resume."""
    oracle, does = locked.oracle, locked.oracle.contract.functions
    new = [STRANGER.address, SIGNERS[1].address, SIGNERS[2].address]
    calls = [does.setSigners(new, 2), does.resume()]
    oracle.do("pauseFor", 7 * 86_400, sender=oracle.pauser)
    oracle.do("dropSigner", SIGNERS[0].address, sender=oracle.pauser)
    locked.schedule(*calls)
    oracle.chain.later(DELAY)
    names = locked.carry_out(*calls).names
    assert names[:2] == ["SignersSet", "ConfigSet"]
    assert "PausedUntil" in names
    # The scores held over the whole pause, which was longer than their age.
    assert oracle.read("isFresh")
    oracle.reported((0, full(1)), signers=[STRANGER, SIGNERS[1]])
    assert oracle.read("signers") == new


def test_timelock_has_no_other_admin(locked: Locked):
    """Only what is scheduled changes its own roles and delay."""
    does = locked.timelock.functions
    root = bytes(32)
    assert does.hasRole(root, locked.timelock.address).call()
    assert not does.hasRole(root, locked.owner).call()
    with pytest.raises(RevertedError, match="TimelockUnauthorizedCaller"):
        locked.oracle.send(does.updateDelay(0), sender=locked.owner)
    with pytest.raises(RevertedError, match="AccessControlUnauthorizedAccount"):
        locked.oracle.send(does.grantRole(CANCELLER, locked.owner), sender=locked.owner)
