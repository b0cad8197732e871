"""Which role may make which call, and how two of the three roles replace the third."""

from typing import Any

import pytest

from tests.contracts.oracle_signing import SIGNERS, STRANGER
from tests.contracts.roots.due_leaves import due_leaves
from tests.contracts.roots.roots_driver import KICK_LIMITS, LIMITS, ZERO, RootsOracle, deploy_roots
from tests.contracts.roots.timelocked import DAY, DELAY, LockedRoots, deploy_locked
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

HASH = b"\x02" * 32
ADMIN_CALLS: dict[str, tuple[Any, ...]] = {
    "transferAdmin": (STRANGER.address,),
    "setPauser": (STRANGER.address,),
    "setVetoer": (STRANGER.address,),
    "resume": (),
    "resumeKicks": (),
    "setSigners": ([STRANGER.address], 1),
    "setLimits": (tuple(LIMITS.values()),),
    "setKickLimits": (tuple(KICK_LIMITS.values()),),
    "setRules": (HASH,),
    "setTarget": (ZERO,),
    "readmit": (STRANGER.address,),
}
PAUSER_CALLS: dict[str, tuple[Any, ...]] = {
    "dropSigner": (SIGNERS[0].address,),
    "tightenLimits": (tuple(LIMITS.values()),),
    "pauseFor": (60,),
    "pauseKicks": (),
    "strike": (1,),
}
VETOER_CALLS: dict[str, tuple[Any, ...]] = {
    "veto": (STRANGER.address, HASH),
    "allow": (STRANGER.address, 1),
    "cancelOperation": (HASH,),
}
CALLS = {
    name: (role, arguments)
    for role, calls in (
        ("admin", ADMIN_CALLS),
        ("pauser", PAUSER_CALLS),
        ("vetoer", VETOER_CALLS),
    )
    for name, arguments in calls.items()
}


def role_name(name: str) -> bytes:
    return name.encode().ljust(32, b"\0")


# --- roles ---


@pytest.mark.parametrize("name", CALLS)
def test_role_call_from_another_account_is_rejected(roots: RootsOracle, name: str):
    role, arguments = CALLS[name]
    for other in {"admin", "pauser", "vetoer", "transmitter"} - {role}:
        sender = getattr(roots, other)
        with pytest.raises(RevertedError, match=rf"NotAllowed\({sender.lower()}\)"):
            roots.do(name, *arguments, sender=sender)


def test_admin_transfer_requires_two_steps(roots: RootsOracle):
    heir = roots.chain.accounts[8]
    offered = roots.do("transferAdmin", heir, sender=roots.admin)
    assert offered.only("AdminOffered") == {"to": heir}
    for who in (roots.transmitter, roots.admin):
        with pytest.raises(RevertedError, match="NotAllowed"):
            roots.do("acceptAdmin", sender=who)
    accepted = roots.do("acceptAdmin", sender=heir)
    assert accepted.only("RoleSet") == {"role": role_name("admin"), "who": heir}
    assert (roots.read("admin"), roots.read("pendingAdmin")) == (heir, ZERO)
    with pytest.raises(RevertedError, match="NotAllowed"):
        roots.do("setVetoer", heir, sender=roots.admin)


def test_withdrawn_admin_offer_cannot_be_accepted(roots: RootsOracle):
    roots.do("transferAdmin", roots.chain.accounts[8], sender=roots.admin)
    roots.do("transferAdmin", ZERO, sender=roots.admin)
    with pytest.raises(RevertedError, match="NotAllowed"):
        roots.do("acceptAdmin", sender=roots.chain.accounts[8])


@pytest.mark.parametrize("name", ["pauser", "vetoer"])
def test_admin_can_set_pauser_and_vetoer(roots: RootsOracle, name: str):
    who = roots.chain.accounts[8]
    event = roots.do(f"set{name.title()}", who, sender=roots.admin).only("RoleSet")
    assert event == {"role": role_name(name), "who": who}
    assert roots.read(name) == who


def test_oracle_without_admin_is_rejected(chain: Chain):
    with pytest.raises(RevertedError, match="NotAllowed"):
        deploy_roots(chain, admin=ZERO)


def test_no_role_can_push_or_kick_without_a_proof(roots: RootsOracle):
    roots.push_leaves(due_leaves(4))
    roots.chain.later(LIMITS["minInterval"])
    roots.chain.mine(2)
    report = roots.report(HASH)
    for sender in (roots.admin, roots.pauser, roots.vetoer):
        with pytest.raises(RevertedError, match="BadSignatureLength"):
            roots.send(roots.call(report, b""), sender=sender)
        with pytest.raises(RevertedError, match="NoKick"):
            roots.send(roots.execution(4), sender=sender)


def test_offering_the_vetoer_role_requires_a_timelock_as_admin(roots: RootsOracle):
    """An admin without a timelock replaces the vetoer directly."""
    with pytest.raises(RevertedError):
        roots.do("offerVetoer", STRANGER.address, sender=roots.admin)


# --- two of three ---

OFFER_DELAY = 7 * DAY


@pytest.fixture(scope="module")
def fresh_locked(fresh_chain: Chain) -> LockedRoots:
    return deploy_locked(fresh_chain)


@pytest.fixture
def locked(chain: Chain, fresh_locked: LockedRoots) -> LockedRoots:
    return fresh_locked.copy()


def test_vetoer_can_cancel_a_scheduled_operation(locked: LockedRoots):
    """A thief of the proposer's key gains nothing while the vetoer cancels."""
    takeover = locked.oracle.contract.functions.setSigners([STRANGER.address], 1)
    locked.schedule(takeover)
    with pytest.raises(RevertedError, match="NotAllowed"):
        locked.cancel(takeover, sender=locked.proposer)
    directly = locked.timelock.functions.cancel(locked.operation(takeover))
    with pytest.raises(RevertedError, match="AccessControlUnauthorizedAccount"):
        locked.oracle.send(directly, sender=locked.proposer)
    assert locked.cancel(takeover).names == ["Cancelled"]
    locked.oracle.chain.later(DELAY)
    with pytest.raises(RevertedError, match="TimelockUnexpectedOperationState"):
        locked.carry_out(takeover)


def test_compromised_vetoer_can_be_replaced_after_the_offer_delay(locked: LockedRoots):
    """It cancels every operation that would replace it, but cannot cancel the offer."""
    oracle, chain = locked.oracle, locked.oracle.chain
    replacement = oracle.contract.functions.setVetoer(locked.new_vetoer)
    event = locked.offer().only("VetoerOffered")
    accept_from = chain.time + OFFER_DELAY
    assert event == {"to": locked.new_vetoer, "from": accept_from, "by": locked.proposer}
    for _ in range(3):
        locked.schedule(replacement)
        locked.cancel(replacement)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("withdrawVetoerOffer", sender=oracle.vetoer)
    with chain.undone():
        chain.at(accept_from - 1)
        with pytest.raises(RevertedError, match=rf"OfferTooRecent\({accept_from}\)"):
            oracle.do("acceptVetoer", sender=locked.new_vetoer)
    chain.at(accept_from)
    receipt = oracle.do("acceptVetoer", sender=locked.new_vetoer)
    assert receipt.only("RoleSet") == {"role": role_name("vetoer"), "who": locked.new_vetoer}
    assert (oracle.read("pendingVetoer"), oracle.read("vetoerOfferedFrom")) == (ZERO, 0)

    other = oracle.contract.functions.setPauser(STRANGER.address)
    locked.schedule(other)
    with pytest.raises(RevertedError, match="NotAllowed"):
        locked.cancel(other)
    chain.later(DELAY)
    assert "RoleSet" in locked.carry_out(other).names


def test_timelock_can_replace_a_compromised_pauser(locked: LockedRoots):
    oracle, chain = locked.oracle, locked.oracle.chain
    does = oracle.contract.functions
    calls = [does.setPauser(locked.new_vetoer), does.resumeKicks()]
    oracle.do("pauseKicks", sender=oracle.pauser)
    locked.schedule(*calls)
    with pytest.raises(RevertedError, match="NotAllowed"):
        locked.cancel(*calls, sender=oracle.pauser)
    chain.later(DELAY)
    assert locked.carry_out(*calls).names.count("RoleSet") == 1
    assert oracle.read("pauser") == locked.new_vetoer
    assert not oracle.head("kicksPaused")


def test_pauser_can_block_an_offer_by_a_compromised_proposer(
    locked: LockedRoots,
):
    oracle, chain = locked.oracle, locked.oracle.chain
    locked.offer(STRANGER.address)
    event = oracle.do("withdrawVetoerOffer", sender=oracle.pauser).only("VetoerOffered")
    assert event == {"to": ZERO, "from": 0, "by": oracle.pauser}
    locked.offer(locked.new_vetoer)
    chain.later(OFFER_DELAY - 10)
    chain.mine()
    # A new offer starts a new delay.
    locked.offer(locked.new_vetoer)
    chain.later(11)
    with pytest.raises(RevertedError, match="OfferTooRecent"):
        oracle.do("acceptVetoer", sender=locked.new_vetoer)
    oracle.do("withdrawVetoerOffer", sender=oracle.pauser)
    chain.later(OFFER_DELAY)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("acceptVetoer", sender=locked.new_vetoer)


def test_pauser_with_vetoer_role_cannot_withdraw_offer(locked: LockedRoots):
    oracle, chain = locked.oracle, locked.oracle.chain
    both = oracle.contract.functions.setPauser(oracle.vetoer)
    locked.schedule(both)
    chain.later(DELAY)
    locked.carry_out(both)
    locked.offer()
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("withdrawVetoerOffer", sender=oracle.vetoer)


def test_admin_can_withdraw_or_override_a_vetoer_offer(locked: LockedRoots):
    oracle, chain = locked.oracle, locked.oracle.chain
    does = oracle.contract.functions
    for call in (does.withdrawVetoerOffer(), does.setVetoer(STRANGER.address)):
        with chain.undone():
            locked.offer()
            locked.schedule(call)
            chain.later(OFFER_DELAY)
            locked.carry_out(call)
            assert oracle.read("pendingVetoer") == ZERO
            with pytest.raises(RevertedError, match="NotAllowed"):
                oracle.do("acceptVetoer", sender=locked.new_vetoer)


def test_only_proposer_can_offer_and_only_pending_vetoer_can_accept(locked: LockedRoots):
    oracle, chain = locked.oracle, locked.oracle.chain
    for sender in (oracle.pauser, oracle.vetoer, oracle.transmitter):
        with pytest.raises(RevertedError, match="NotAllowed"):
            oracle.do("offerVetoer", sender, sender=sender)
    locked.offer()
    chain.later(OFFER_DELAY)
    for sender in (oracle.pauser, oracle.vetoer, oracle.transmitter, locked.proposer):
        with pytest.raises(RevertedError, match="NotAllowed"):
            oracle.do("acceptVetoer", sender=sender)
    for sender in (oracle.transmitter, locked.proposer):
        with pytest.raises(RevertedError, match="NotAllowed"):
            oracle.do("withdrawVetoerOffer", sender=sender)
