"""A kickout is due by a leaf, accused, delayed, and executed only with the last root."""

from dataclasses import replace
from typing import Any

import pytest

from oracle.domain.ids import Address
from tests.contracts.oracle_signing import SIGNERS
from tests.contracts.roots.conftest import NODES
from tests.contracts.roots.due_leaves import (
    DELAY,
    HELD,
    KICKED,
    ROUNDS,
    SINCE,
    due_leaves,
    wait_until_ready,
)
from tests.contracts.roots.root_rounds import make_leaves, summary_tuple
from tests.contracts.roots.roots_driver import (
    FOR_EVER,
    KICK_LIMITS,
    LIMITS,
    ZERO,
    RootsOracle,
    deploy_roots,
)
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

WHY = b"appeal".ljust(32, b"\0")
RECOVERED = b"recovered".ljust(32, b"\0")
BAD = due_leaves(4, 5, 6)
GOOD = make_leaves(NODES)


@pytest.fixture
def roots(roots: RootsOracle) -> RootsOracle:
    """Return an oracle in whose round 2 the kickouts of the members at seats 4 to 6 are due."""
    roots.push_leaves(BAD)
    for seat in (4, 5, 6):
        roots.by_network("join", roots.node(seat))
    return roots


def make_ready(oracle: RootsOracle, *seats: int) -> None:
    for seat in seats:
        oracle.accuse(seat)
    wait_until_ready(oracle, BAD)


# --- accusing ---


def test_any_account_can_accuse_a_due_node(roots: RootsOracle):
    receipt = roots.accuse(4)
    ready_at = roots.chain.time + DELAY
    assert receipt.only("KickAccused") == {
        "node": roots.node(4),
        "round": 2,
        "dueSince": SINCE,
        "evidence": BAD[4].pool_hash,
        "readyAt": ready_at,
    }
    assert roots.kick(4) == {
        "state": 1,
        "dueSince": SINCE,
        "readyAt": ready_at,
        "expelledUntil": 0,
        "sparedUntil": 0,
        "allowed": 0,
        "round": 2,
    }
    assert (roots.is_pending(4), roots.is_expelled(4)) == (True, False)


def test_node_is_accused_once_per_interval(roots: RootsOracle):
    roots.accuse(4)
    roots.push_leaves(BAD)
    with pytest.raises(RevertedError, match="AlreadyAccused"):
        roots.accuse(4)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"kickout_due_since": 0}, "NotDue"),
        ({"lane": 2_002}, r"NotBelowThreshold\(2002\)"),
        ({"lane": 2_001}, ""),
        ({"lane": 1}, ""),
    ],
    ids=["not due", "at the threshold", "below the threshold", "excluded"],
)
def test_accusation_requires_a_due_leaf_with_a_low_lane(
    roots: RootsOracle, changes: dict[str, int], error: str
):
    roots.push_leaves(due_leaves(4, **changes))
    if error:
        with pytest.raises(RevertedError, match=error):
            roots.accuse(4)
    else:
        assert roots.accuse(4).names == ["KickAccused"]


def test_leaf_with_a_due_time_in_the_future_is_rejected(roots: RootsOracle):
    """Otherwise a stolen quorum could protect a node forever."""
    moment = roots.chain.time + 1_000
    roots.push_leaves(due_leaves(4, kickout_due_since=moment))
    with roots.chain.undone():
        roots.chain.at(moment - 1)
        with pytest.raises(RevertedError, match="NotDue"):
            roots.accuse(4)
    roots.chain.at(moment)
    roots.accuse(4)


def test_accusation_with_a_leaf_of_another_node_or_round_reverts(roots: RootsOracle):
    leaf, proof = roots.last_round.proven(4)
    other = (roots.last_round.leaf(3)[0], *leaf[1:])
    with pytest.raises(RevertedError, match=r"^NotProven"):
        roots.do("accuse", other, proof)
    with pytest.raises(RevertedError, match=r"^NotProven"):
        roots.do("accuse", leaf, proof[:-1])
    with pytest.raises(RevertedError, match=r"^NotProven"):
        roots.do("accuse", leaf, [])


def test_recovered_node_cannot_be_accused_with_an_old_root(roots: RootsOracle):
    old = roots.last_round
    roots.push_leaves(GOOD)
    with pytest.raises(RevertedError, match=r"^NotProven"):
        roots.accuse(4, old)
    assert not roots.is_pending(4)


def test_accusation_for_a_new_interval_replaces_the_old_one(roots: RootsOracle):
    make_ready(roots, 4)
    roots.push_leaves(due_leaves(4, kickout_due_since=SINCE + 100))
    with pytest.raises(RevertedError, match=rf"OtherInterval\(\S+, {SINCE}\)"):
        roots.execute(4)
    receipt = roots.accuse(4)
    assert receipt.names == ["KickCancelled", "KickAccused"]
    assert receipt.only("KickCancelled") == {"node": roots.node(4), "by": ZERO, "why": RECOVERED}
    assert roots.kick(4)["dueSince"] == SINCE + 100
    with pytest.raises(RevertedError, match="KickNotReady"):
        roots.execute(4)


def test_held_kickout_requires_the_vetoers_permission(
    roots: RootsOracle,
):
    held = make_leaves(NODES, {4: HELD})
    roots.push_leaves(held)
    with pytest.raises(RevertedError, match="KickHeld"):
        roots.accuse(4)
    roots.do("allow", roots.node(4), SINCE - 1, sender=roots.vetoer)
    with pytest.raises(RevertedError, match="KickHeld"):
        roots.accuse(4)
    event = roots.do("allow", roots.node(4), SINCE, sender=roots.vetoer).only("KickAllowed")
    assert event == {"node": roots.node(4), "dueSince": SINCE}
    roots.accuse(4)
    wait_until_ready(roots, held)
    with roots.chain.undone():
        roots.do("allow", roots.node(4), 0, sender=roots.vetoer)
        with pytest.raises(RevertedError, match="KickHeld"):
            roots.execute(4)
    assert roots.execute(4).names == KICKED


# --- executing ---


def test_any_account_can_execute_a_ready_kickout(roots: RootsOracle):
    make_ready(roots, 4)
    receipt = roots.send(roots.execution(4), sender=roots.chain.accounts[9])
    evidence = BAD[4].pool_hash
    assert receipt.only("KickExecuted") == {
        "node": roots.node(4),
        "evidence": evidence,
        "target": roots.network.address,
    }
    assert receipt.only("KickedOut") == {"node": roots.node(4), "evidence": evidence}
    assert roots.kick(4) | {"readyAt": 0} == {
        "state": 2,
        "dueSince": SINCE,
        "readyAt": 0,
        "expelledUntil": FOR_EVER,
        "sparedUntil": SINCE,
        "allowed": 0,
        "round": 2 + ROUNDS,
    }
    assert (roots.is_pending(4), roots.is_expelled(4)) == (False, True)


def test_second_execution_is_rejected(roots: RootsOracle):
    make_ready(roots, 4)
    call = roots.execution(4)
    roots.send(call, sender=roots.chain.accounts[9])
    with pytest.raises(RevertedError, match="NoKick"):
        roots.send(call)
    with pytest.raises(RevertedError, match="AlreadyExpelled"):
        roots.accuse(4)


def test_execution_without_accusation_is_rejected(roots: RootsOracle):
    make_ready(roots, 4)
    with pytest.raises(RevertedError, match="NoKick"):
        roots.execute(5)


def test_veto_delay_is_exact_to_the_second(roots: RootsOracle):
    roots.accuse(4)
    ready_at = roots.chain.time + DELAY
    for _ in range(ROUNDS):
        roots.push_leaves(BAD)
    with roots.chain.undone():
        roots.chain.at(ready_at - 1)
        with pytest.raises(RevertedError, match=rf"KickNotReady\({ready_at}, 4\)"):
            roots.execute(4)
    roots.chain.at(ready_at)
    assert roots.execute(4).names == KICKED


def test_kickout_execution_requires_newer_rounds(roots: RootsOracle):
    roots.accuse(4)
    for _ in range(ROUNDS - 1):
        roots.push_leaves(BAD)
    roots.chain.later(DELAY)
    with pytest.raises(RevertedError, match=r"KickNotReady\(\d+, 4\)"):
        roots.execute(4)


def test_recovered_node_cannot_be_kicked_with_an_old_root(roots: RootsOracle):
    make_ready(roots, 4)
    old = roots.last_round
    roots.push_leaves(GOOD)
    with pytest.raises(RevertedError, match=r"^NotProven"):
        roots.execute(4, old)
    with pytest.raises(RevertedError, match="NotDue"):
        roots.execute(4)


def test_struck_root_cannot_be_used_for_kickouts(roots: RootsOracle):
    make_ready(roots, 4)
    roots.do("pauseFor", 60, sender=roots.pauser)
    roots.do("strike", 2, sender=roots.pauser)
    roots.chain.later(60)
    for refused in (lambda: roots.execute(4), lambda: roots.accuse(5), lambda: roots.clear(4)):
        with pytest.raises(RevertedError, match=r"NoRoot\(4\)"):
            refused()
    roots.push_leaves(BAD)
    assert roots.execute(4).names == KICKED


@pytest.mark.parametrize("rotated_by", ["setSigners", "dropSigner", "setRules"])
def test_root_of_an_old_configuration_cannot_be_used_for_kickouts(
    roots: RootsOracle, rotated_by: str
):
    make_ready(roots, 4)
    if rotated_by == "setSigners":
        addresses = [signer.address for signer in SIGNERS]
        roots.do("setSigners", addresses, 2, sender=roots.admin)
    elif rotated_by == "dropSigner":
        roots.do("dropSigner", SIGNERS[2].address, sender=roots.pauser)
    else:
        roots.do("setRules", bytes.fromhex("ac" * 32), sender=roots.admin)
    for refused in (lambda: roots.execute(4), lambda: roots.accuse(5)):
        with pytest.raises(RevertedError, match=r"WrongConfig\(2, 1\)"):
            refused()
    roots.push_leaves(GOOD)
    with pytest.raises(RevertedError, match="NotDue"):
        roots.execute(4)
    roots.push_leaves(BAD)
    assert roots.execute(4).names == KICKED


def test_kickout_with_stale_scores_reverts(roots: RootsOracle):
    make_ready(roots, 4)
    last = roots.head("pushedAt") + LIMITS["maxAgeSeconds"]
    with roots.chain.undone():
        roots.chain.at(last + 1)
        with pytest.raises(RevertedError, match=r"StaleScores\(\d+\)"):
            roots.execute(4)
    roots.chain.at(last)
    assert roots.execute(4).names == KICKED


def test_kickout_execution_requires_a_minimum_of_selectable_nodes(roots: RootsOracle):
    make_ready(roots, 4)
    roots.set_limits(minOpen=NODES + 1)
    with pytest.raises(RevertedError, match=rf"TooFewOpen\({NODES}, {NODES + 1}\)"):
        roots.execute(4)
    roots.set_limits(minOpen=NODES)
    assert roots.execute(4).names == KICKED


@pytest.mark.parametrize(
    "changes",
    [{"open_count": 2**32 - 1}, {"round": 2}, {"oracle": Address("0x" + 40 * "1")}, {"as_of": 1}],
    ids=lambda changes: next(iter(changes)),
)
def test_summary_of_another_round_is_rejected(roots: RootsOracle, changes: dict[str, Any]):
    make_ready(roots, 4)
    proven = roots.last_round
    forged = summary_tuple(replace(proven.summary, **changes))
    with pytest.raises(RevertedError, match=rf"SummaryNotProven\({proven.round}\)"):
        roots.do("executeKick", *proven.proven(4), forged)


def test_token_bucket_limits_kickout_executions_and_refills_over_time(roots: RootsOracle):
    most = KICK_LIMITS["bucketMost"]
    frame = KICK_LIMITS["bucketFrame"]
    make_ready(roots, 4, 5, 6)
    since = roots.read("bucket")[1]
    for seat in (4, 5):
        roots.execute(seat)
    assert most == 2
    refill = since + frame * ((roots.chain.time - since) // frame + 1)
    with pytest.raises(RevertedError, match=rf"BucketEmpty\({refill}\)"):
        roots.execute(6)
    roots.chain.at(refill - 30)
    roots.chain.mine()
    roots.push_leaves(BAD)
    roots.chain.at(max(refill, roots.chain.time + 1))
    assert roots.execute(6).names == KICKED


# --- endings ---


def test_any_account_can_clear_an_accusation_of_an_ended_interval(roots: RootsOracle):
    roots.accuse(4)
    with pytest.raises(RevertedError, match="StillDue"):
        roots.clear(4)
    roots.push_leaves(GOOD)
    roots.do("pauseFor", 60, sender=roots.pauser)
    receipt = roots.clear(4)
    assert receipt.only("KickCancelled") == {"node": roots.node(4), "by": ZERO, "why": RECOVERED}
    assert not roots.is_pending(4)
    with pytest.raises(RevertedError, match="NoKick"):
        roots.clear(4)


def test_accusation_cannot_be_cleared_with_an_old_root(roots: RootsOracle):
    roots.push_leaves(GOOD)
    healthy = roots.last_round
    roots.push_leaves(BAD)
    roots.accuse(4)
    with pytest.raises(RevertedError, match=r"^NotProven"):
        roots.clear(4, healthy)


def test_clearing_a_false_accusation_does_not_protect_a_real_interval(roots: RootsOracle):
    """A stolen quorum states a wrong interval; the honest one that began before is still due."""
    roots.push_leaves(due_leaves(4, kickout_due_since=SINCE + 500))
    roots.accuse(4)
    roots.push_leaves(GOOD)
    roots.clear(4)
    roots.push_leaves(BAD)
    make_ready(roots, 4)
    assert roots.execute(4).names == KICKED


def test_veto_ends_kickout_only_for_its_interval(roots: RootsOracle):
    make_ready(roots, 4)
    event = roots.veto(4, WHY).only("KickCancelled")
    assert event == {"node": roots.node(4), "by": roots.vetoer, "why": WHY}
    with pytest.raises(RevertedError, match="NoKick"):
        roots.execute(4)
    with pytest.raises(RevertedError, match="Spared"):
        roots.accuse(4)
    roots.push_leaves(due_leaves(4, kickout_due_since=SINCE - 1))
    with pytest.raises(RevertedError, match="Spared"):
        roots.accuse(4)
    roots.push_leaves(due_leaves(4, kickout_due_since=SINCE + 1))
    assert roots.accuse(4).names == ["KickAccused"]


def test_veto_and_clearing_by_the_vetoer_emit_different_events(
    roots: RootsOracle,
):
    """Only the events show which of the two protects the interval."""
    roots.accuse(4)
    roots.accuse(5)
    veto = roots.veto(4, RECOVERED).only("KickCancelled")
    roots.push_leaves(GOOD)
    clearing = roots.do("clear", *roots.last_round.proven(5), sender=roots.vetoer)
    assert veto["by"] == roots.vetoer
    assert clearing.only("KickCancelled")["by"] == ZERO
    spared = [roots.kick(seat)["sparedUntil"] for seat in (4, 5)]
    assert spared == [SINCE, 0]


def test_clearing_an_accusation_does_not_undo_an_earlier_veto(roots: RootsOracle):
    roots.accuse(4)
    roots.veto(4)
    roots.push_leaves(due_leaves(4, kickout_due_since=SINCE + 1))
    roots.accuse(4)
    roots.push_leaves(BAD)
    roots.clear(4)
    with pytest.raises(RevertedError, match="Spared"):
        roots.accuse(4)


def test_only_vetoer_can_veto_and_allow(roots: RootsOracle):
    roots.accuse(4)
    for sender in (roots.admin, roots.pauser, roots.transmitter):
        for call in (("veto", roots.node(4), WHY), ("allow", roots.node(4), SINCE)):
            with pytest.raises(RevertedError, match="NotAllowed"):
                roots.do(*call, sender=sender)
    with pytest.raises(RevertedError, match="NoKick"):
        roots.veto(5)


def test_readmission_ends_the_expulsion_and_protects_past_intervals(roots: RootsOracle):
    make_ready(roots, 4)
    roots.execute(4)
    with pytest.raises(RevertedError, match="NotAllowed"):
        roots.do("readmit", roots.node(4))
    receipt = roots.do("readmit", roots.node(4), sender=roots.admin)
    assert receipt.only("NodeReadmitted") == {"node": roots.node(4)}
    moment = roots.chain.time
    assert (roots.is_expelled(4), roots.kick(4)["sparedUntil"]) == (False, moment)
    roots.push_leaves(due_leaves(4, kickout_due_since=moment))
    with pytest.raises(RevertedError, match="Spared"):
        roots.accuse(4)
    roots.push_leaves(due_leaves(4, kickout_due_since=moment + 1))
    roots.accuse(4)
    with pytest.raises(RevertedError, match="NotExpelled"):
        roots.do("readmit", roots.node(5), sender=roots.admin)


def test_node_cannot_be_accused_again_for_an_executed_interval(chain: Chain):
    oracle = deploy_roots(chain, kickLimits=KICK_LIMITS | {"kickCooldown": 5_000})
    oracle.push_leaves(BAD)
    make_ready(oracle, 4)
    oracle.execute(4)
    until = chain.time + 5_000
    assert oracle.kick(4)["expelledUntil"] == until
    for moment, expelled in ((until - 1, True), (until, False)):
        with chain.undone():
            chain.at(moment)
            chain.mine()
            assert oracle.is_expelled(4) == expelled
    chain.at(until)
    chain.mine()
    oracle.push_leaves(BAD)
    with pytest.raises(RevertedError, match="Spared"):
        oracle.accuse(4)
    with pytest.raises(RevertedError, match="NotExpelled"):
        oracle.retry(4)
    oracle.push_leaves(due_leaves(4, kickout_due_since=SINCE + 1))
    assert oracle.accuse(4).names == ["KickAccused"]


def test_nodes_expelled_by_the_previous_oracle_stay_expelled(chain: Chain):
    previous = [chain.accounts[7], chain.accounts[8]]
    oracle = deploy_roots(chain, expelled=previous)
    assert [oracle.read("isExpelled", node) for node in previous] == [True, True]
    oracle.do("readmit", previous[0], sender=oracle.admin)
    assert [oracle.read("isExpelled", node) for node in previous] == [False, True]


# --- pauses ---


def test_pause_stops_kickouts_but_not_vetoes(roots: RootsOracle):
    make_ready(roots, 4, 5)
    roots.execute(5)
    roots.do("pauseFor", 60, sender=roots.pauser)
    until = roots.head("pausedUntil")
    for refused in (
        lambda: roots.execute(4),
        lambda: roots.accuse(6),
        lambda: roots.retry(5),
    ):
        with pytest.raises(RevertedError, match=rf"Paused\({until}\)"):
            refused()
    assert roots.veto(4, WHY).names == ["KickCancelled"]


def test_only_admin_can_resume_paused_kickouts(roots: RootsOracle):
    make_ready(roots, 4, 5)
    roots.execute(5)
    event = roots.do("pauseKicks", sender=roots.pauser).only("KicksPaused")
    assert event == {"paused": True, "by": roots.pauser}
    for refused in (
        lambda: roots.execute(4),
        lambda: roots.accuse(6),
        lambda: roots.retry(5),
    ):
        with pytest.raises(RevertedError, match="KicksRest"):
            refused()
    roots.push_leaves(BAD)
    with pytest.raises(RevertedError, match="NotAllowed"):
        roots.do("resumeKicks", sender=roots.pauser)
    roots.do("resumeKicks", sender=roots.admin)
    assert roots.execute(4).names == KICKED
