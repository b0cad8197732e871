"""Who may set, stop and veto; and that nobody of them can write a score."""

from typing import Any

import pytest

from tests.contracts.oracle_driver import KICK_LIMITS, LIMITS, ZERO, Oracle, full, node
from tests.contracts.oracle_kickouts import ready, worded
from tests.contracts.oracle_signing import SIGNERS, STRANGER
from tests.support.evm.chain import RevertedError

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
}


def role(name: str) -> bytes:
    return name.encode().ljust(32, b"\0")


@pytest.mark.parametrize("name", ADMIN_CALLS)
@pytest.mark.parametrize("who", ["pauser", "vetoer", "transmitter"])
def test_only_admin_may_change_settings(oracle: Oracle, name: str, who: str):
    sender = getattr(oracle, who)
    with pytest.raises(RevertedError, match=rf"NotAllowed\({sender.lower()}\)"):
        oracle.do(name, *ADMIN_CALLS[name], sender=sender)


@pytest.mark.parametrize("name", PAUSER_CALLS)
@pytest.mark.parametrize("who", ["admin", "vetoer", "transmitter"])
def test_only_pauser_may_tighten_limits(oracle: Oracle, name: str, who: str):
    """The admin can do the same by setting; at once only the pauser can."""
    sender = getattr(oracle, who)
    with pytest.raises(RevertedError, match=rf"NotAllowed\({sender.lower()}\)"):
        oracle.do(name, *PAUSER_CALLS[name], sender=sender)


def test_admin_transfer_requires_two_steps(oracle: Oracle):
    heir = oracle.chain.accounts[8]
    offered = oracle.do("transferAdmin", heir, sender=oracle.admin)
    assert offered.only("AdminOffered") == {"to": heir}
    assert (oracle.read("admin"), oracle.read("pendingAdmin")) == (oracle.admin, heir)

    accepted = oracle.do("acceptAdmin", sender=heir)
    assert accepted.only("RoleSet") == {"role": role("admin"), "who": heir}
    assert (oracle.read("admin"), oracle.read("pendingAdmin")) == (heir, ZERO)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("setVetoer", heir, sender=oracle.admin)
    oracle.do("setVetoer", heir, sender=heir)


def test_only_the_offered_account_can_accept_the_admin_role(oracle: Oracle):
    oracle.do("transferAdmin", oracle.chain.accounts[8], sender=oracle.admin)
    for who in (oracle.transmitter, oracle.admin):
        with pytest.raises(RevertedError, match="NotAllowed"):
            oracle.do("acceptAdmin", sender=who)


def test_admin_offer_can_be_withdrawn(oracle: Oracle):
    oracle.do("transferAdmin", oracle.chain.accounts[8], sender=oracle.admin)
    oracle.do("transferAdmin", ZERO, sender=oracle.admin)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("acceptAdmin", sender=oracle.chain.accounts[8])


@pytest.mark.slow
def test_admin_offer_can_be_accepted_only_once(oracle: Oracle):
    new, newer = oracle.chain.accounts[7:9]
    oracle.do("transferAdmin", new, sender=oracle.admin)
    oracle.do("acceptAdmin", sender=new)
    assert oracle.read("pendingAdmin") == ZERO
    oracle.do("transferAdmin", newer, sender=new)
    oracle.do("acceptAdmin", sender=newer)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("acceptAdmin", sender=new)


def test_admin_cannot_push_unsigned_report(oracle: Oracle):
    report = oracle.report((0, full()))
    with pytest.raises(RevertedError, match=r"BadSignatureLength\(130, 0\)"):
        oracle.send(oracle.call(report, b""), sender=oracle.admin)


def test_admin_cannot_kick_or_veto(oracle: Oracle):
    worded(oracle)
    with pytest.raises(RevertedError, match="NoKick"):
        oracle.do("executeKick", node(0), sender=oracle.admin)
    oracle.propose(0)
    with pytest.raises(RevertedError, match="KickNotReady"):
        oracle.do("executeKick", node(0), sender=oracle.admin)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.cancel(0, HASH, oracle.admin)


@pytest.mark.parametrize("name", ["pauser", "vetoer"])
def test_admin_can_set_pauser_and_vetoer(oracle: Oracle, name: str):
    who = oracle.chain.accounts[8]
    event = oracle.do(f"set{name.title()}", who, sender=oracle.admin).only("RoleSet")
    assert event == {"role": role(name), "who": who}
    assert oracle.read(name) == who


def test_new_vetoer_replaces_the_old_one(oracle: Oracle):
    heir = oracle.chain.accounts[8]
    ready(worded(oracle))
    oracle.do("setVetoer", heir, sender=oracle.admin)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.cancel(0, HASH, oracle.vetoer)
    assert oracle.cancel(0, HASH, heir).names == ["KickCancelled"]


def test_signers_are_not_admin_pauser_or_vetoer(oracle: Oracle):
    signers = {signer.address for signer in SIGNERS}
    assert not signers & {oracle.read(name) for name in ("admin", "pauser", "vetoer")}
