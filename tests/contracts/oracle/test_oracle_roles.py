"""Who may set, stop and veto; and that nobody of them can write a score."""

from typing import Any

import pytest

from tests.contracts.oracle_driver import LIMITS, SIGNERS, STRANGER, ZERO, Oracle, node, word
from tests.contracts.oracle_kickouts import ready, worded
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

DAY = 86_400
HASH = b"\x02" * 32
ADMIN_CALLS: dict[str, tuple[Any, ...]] = {
    "transferAdmin": (STRANGER.address,),
    "setPauser": (STRANGER.address,),
    "setVetoer": (STRANGER.address,),
    "resume": (),
    "resumeKicks": (),
    "setSigners": ([STRANGER.address], 1),
    "setLimits": (tuple(LIMITS.values()),),
    "setBucket": (1, 1, 1),
    "setRules": (2, HASH),
}


def role(name: str) -> bytes:
    return name.encode().ljust(32, b"\0")


# --- the admin ---


@pytest.mark.parametrize("name", ADMIN_CALLS)
@pytest.mark.parametrize("who", ["pauser", "vetoer", "transmitter"])
def test_only_the_admin_sets(oracle: Oracle, name: str, who: str):
    sender = getattr(oracle, who)
    with pytest.raises(RevertedError, match=rf"NotAllowed\({sender.lower()}\)"):
        oracle.do(name, *ADMIN_CALLS[name], sender=sender)


def test_the_admin_role_is_offered_and_taken(oracle: Oracle):
    heir = oracle.chain.accounts[8]
    offered = oracle.do("transferAdmin", heir, sender=oracle.admin)
    assert offered.only("AdminOffered") == {"to": heir}
    assert (oracle.read("admin"), oracle.read("pendingAdmin")) == (oracle.admin, heir)

    taken = oracle.do("acceptAdmin", sender=heir)
    assert taken.only("RoleSet") == {"role": role("admin"), "who": heir}
    assert (oracle.read("admin"), oracle.read("pendingAdmin")) == (heir, ZERO)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("setVetoer", heir, sender=oracle.admin)
    oracle.do("setVetoer", heir, sender=heir)


def test_only_whom_it_was_offered_takes_it(oracle: Oracle):
    oracle.do("transferAdmin", oracle.chain.accounts[8], sender=oracle.admin)
    for who in (oracle.transmitter, oracle.admin):
        with pytest.raises(RevertedError, match="NotAllowed"):
            oracle.do("acceptAdmin", sender=who)


def test_an_offer_can_be_withdrawn(oracle: Oracle):
    oracle.do("transferAdmin", oracle.chain.accounts[8], sender=oracle.admin)
    oracle.do("transferAdmin", ZERO, sender=oracle.admin)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("acceptAdmin", sender=oracle.chain.accounts[8])


@pytest.mark.slow
def test_an_offer_is_taken_once(oracle: Oracle):
    new, newer = oracle.chain.accounts[7:9]
    oracle.do("transferAdmin", new, sender=oracle.admin)
    oracle.do("acceptAdmin", sender=new)
    assert oracle.read("pendingAdmin") == ZERO
    oracle.do("transferAdmin", newer, sender=new)
    oracle.do("acceptAdmin", sender=newer)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("acceptAdmin", sender=new)


def test_the_admin_cannot_sign_a_report(oracle: Oracle):
    report = oracle.report((0, word(5)))
    with pytest.raises(RevertedError, match=r"BadSignatureLength\(130, 0\)"):
        oracle.send(oracle.call(report, b""), sender=oracle.admin)


def test_the_admin_cannot_kick_or_veto(oracle: Oracle):
    worded(oracle)
    with pytest.raises(RevertedError, match=r"NoKick\(0\)"):
        oracle.do("executeKick", 0, sender=oracle.admin)
    oracle.propose(0)
    with pytest.raises(RevertedError, match=r"KickNotReady"):
        oracle.do("executeKick", 0, sender=oracle.admin)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("cancelKick", 0, HASH, sender=oracle.admin)


@pytest.mark.parametrize("name", ["pauser", "vetoer"])
def test_pauser_and_vetoer_are_named(oracle: Oracle, name: str):
    who = oracle.chain.accounts[8]
    said = oracle.do(f"set{name.title()}", who, sender=oracle.admin).only("RoleSet")
    assert said == {"role": role(name), "who": who}
    assert oracle.read(name) == who


def test_a_new_vetoer_takes_over(oracle: Oracle):
    heir = oracle.chain.accounts[8]
    worded(oracle)
    oracle.propose(0)
    oracle.do("setVetoer", heir, sender=oracle.admin)
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do("cancelKick", 0, HASH, sender=oracle.vetoer)
    assert oracle.do("cancelKick", 0, HASH, sender=heir).names == ["KickCancelled"]


# --- limits and rules ---


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("maxStep", 0),
        ("maxStep", 10_001),
        ("maxWords", 0),
        ("anchorWindow", 0),
        ("anchorWindow", 1),
        ("anchorWindow", 8_192),
        ("maxAgeSeconds", 0),
        ("kickBelow", 10_001),
        ("kickWindow", 0),
    ],
)
def test_limits_have_their_own_limits(oracle: Oracle, name: str, wrong: int):
    with pytest.raises(RevertedError, match="BadLimits"):
        oracle.do("setLimits", tuple((LIMITS | {name: wrong}).values()), sender=oracle.admin)
    assert oracle.read("limits") == tuple(LIMITS.values())


@pytest.mark.parametrize(
    ("name", "edge"),
    [
        ("maxStep", 1),
        ("maxWords", 1),
        ("anchorWindow", 2),
        ("anchorWindow", 8_191),
        ("maxAgeSeconds", 1),
        ("kickBelow", 10_000),
        ("kickBelow", 0),
        ("kickWindow", 1),
    ],
)
def test_limits_can_be_at_their_edges(oracle: Oracle, name: str, edge: int):
    limits = LIMITS | {name: edge}
    said = oracle.do("setLimits", tuple(limits.values()), sender=oracle.admin).only("LimitsSet")
    assert dict(said["limits"]) == limits
    assert oracle.read("limits") == tuple(limits.values())


def test_a_bucket_has_a_frame(oracle: Oracle):
    with pytest.raises(RevertedError, match="BadLimits"):
        oracle.do("setBucket", 1, 1, 0, sender=oracle.admin)


def test_rules_are_counted_up(oracle: Oracle):
    said = oracle.do("setRules", 7, HASH, sender=oracle.admin).only("RulesSet")
    assert said == {"rules": 7, "rulesHash": HASH}
    assert (oracle.read("head")[7], oracle.read("rulesHash")) == (7, HASH)


@pytest.mark.parametrize(("counter", "digest"), [(0, HASH), (1, HASH), (2, bytes(32))])
def test_rules_that_do_not_rise_or_have_no_hash_are_refused(
    oracle: Oracle, counter: int, digest: bytes
):
    with pytest.raises(RevertedError, match=rf"BadRules\({counter}\)"):
        oracle.do("setRules", counter, digest, sender=oracle.admin)


# --- the pauser ---


def paused(oracle: Oracle, seconds: int) -> int:
    said = oracle.do("pauseFor", seconds, sender=oracle.pauser).only("PausedUntil")
    assert said == {"until": oracle.chain.time + seconds, "by": oracle.pauser}
    return int(said["until"])


def test_a_pause_stops_rounds_until_it_ends_by_itself(oracle: Oracle):
    report = oracle.report((0, word(5)), deadline=oracle.chain.time + DAY)
    until = paused(oracle, 3_600)
    with pytest.raises(RevertedError, match=rf"Paused\({until}\)"):
        oracle.push(report)
    oracle.chain.at(until)
    oracle.push(report)
    assert oracle.round == 1


def test_a_pause_stops_kickouts_but_not_a_veto(oracle: Oracle):
    worded(oracle)
    oracle.propose(0)
    call = oracle.signed_kick(2)
    until = paused(oracle, 3_600)
    for refused in (call, oracle.contract.functions.executeKick(0)):
        with pytest.raises(RevertedError, match=rf"Paused\({until}\)"):
            oracle.send(refused)
    assert oracle.do("cancelKick", 0, HASH, sender=oracle.vetoer).names == ["KickCancelled"]


def test_a_pause_keeps_nobody_from_joining_or_reading(oracle: Oracle):
    oracle.reported((0, word(5_002)))
    paused(oracle, DAY)
    assert oracle.by_network("join", node(50)).names == ["NodeRegistered"]
    assert oracle.score(node(0)) == (True, True, 5_000)


def test_a_pause_cannot_be_made_longer_and_not_be_chained(oracle: Oracle):
    until = paused(oracle, 7 * DAY)
    for time in (until - 1, until, until + 7 * DAY - 1):
        oracle.chain.at(time)
        with pytest.raises(RevertedError, match=rf"PauseCoolDown\({until + 7 * DAY}\)"):
            oracle.do("pauseFor", 1, sender=oracle.pauser)
    oracle.chain.at(until + 7 * DAY)
    paused(oracle, 1)


@pytest.mark.parametrize("seconds", [0, 7 * DAY + 1])
def test_a_pause_lasts_a_second_to_a_week(oracle: Oracle, seconds: int):
    with pytest.raises(RevertedError, match=rf"PauseTooLong\({seconds}\)"):
        oracle.do("pauseFor", seconds, sender=oracle.pauser)


@pytest.mark.parametrize("call", [("pauseFor", 60), ("pauseKicks",)], ids=["all", "kickouts"])
@pytest.mark.parametrize("who", ["admin", "vetoer", "transmitter"])
def test_only_the_pauser_pauses(oracle: Oracle, call: tuple[Any, ...], who: str):
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do(*call, sender=getattr(oracle, who))


def test_the_admin_resumes(oracle: Oracle):
    report = oracle.report((0, word(5)))
    paused(oracle, DAY)
    said = oracle.do("resume", sender=oracle.admin).only("PausedUntil")
    assert said == {"until": oracle.chain.time, "by": oracle.admin}
    oracle.push(report)
    assert oracle.round == 1


def test_there_must_be_a_pause_to_end(oracle: Oracle):
    with pytest.raises(RevertedError, match="NotPaused"):
        oracle.do("resume", sender=oracle.admin)


def test_kickouts_are_paused_alone_until_the_admin_lets_them(oracle: Oracle):
    ready(worded(oracle))
    call = oracle.signed_kick(2)
    said = oracle.do("pauseKicks", sender=oracle.pauser).only("KicksPaused")
    assert said == {"paused": True, "by": oracle.pauser}
    for refused in (call, oracle.contract.functions.executeKick(0)):
        with pytest.raises(RevertedError, match="KicksRest"):
            oracle.send(refused)
    worded(oracle)

    said = oracle.do("resumeKicks", sender=oracle.admin).only("KicksPaused")
    assert said == {"paused": False, "by": oracle.admin}
    assert "KickExecuted" in oracle.execute(0).names


def test_signers_hold_no_role(oracle: Oracle):
    signers = {signer.address for signer in SIGNERS}
    assert not signers & {oracle.read(name) for name in ("admin", "pauser", "vetoer")}
