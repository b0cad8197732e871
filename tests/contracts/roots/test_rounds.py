"""Which reports of roots are accepted, and which roots are kept."""

from dataclasses import replace
from typing import Any

import pytest

from oracle.domain.roots.leaves import NodeLeaf
from tests.contracts.oracle_signing import SIGNERS
from tests.contracts.roots.conftest import NODES
from tests.contracts.roots.root_rounds import make_leaves
from tests.contracts.roots.roots_driver import (
    KEPT,
    LAG,
    LIMITS,
    NO_ROOT,
    RootsOracle,
    deploy_roots,
)
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

LEAVES: list[NodeLeaf] = make_leaves(NODES)
ANY_ROOT = bytes.fromhex("51" * 32)
OTHER_ROOT = bytes.fromhex("52" * 32)


def wait_for_turn(oracle: RootsOracle) -> None:
    oracle.chain.later(LIMITS["minInterval"])
    oracle.chain.mine(2)


# --- an accepted round ---


def test_accepted_round_emits_its_root_and_is_readable(roots: RootsOracle):
    receipt = roots.push_leaves(LEAVES)
    accepted = roots.last_round
    header = roots.chain.rpc("eth_getBlockByNumber", hex(accepted.as_of), False)
    assert receipt.only("RoundAccepted") == {
        "round": 2,
        "asOf": accepted.as_of,
        "asOfHash": bytes.fromhex(header["hash"][2:]),
        "root": accepted.root,
        "config": bytes(roots.read("configDigest")),
        "signers": 0b011,
    }
    assert roots.read("last") == [2, accepted.as_of, roots.chain.time]
    assert bytes(roots.read("rootOf", 2)) == bytes(roots.read("lastRoot")) == accepted.root
    assert roots.head("roundConfig") == roots.head("configCount") == 1


def test_retained_rounds_and_lag_are_readable(roots: RootsOracle):
    assert (roots.read("KEPT"), roots.read("LAG")) == (KEPT, LAG)


def test_any_contract_or_account_can_send_report(roots: RootsOracle):
    wait_for_turn(roots)
    call = roots.call(roots.report(ANY_ROOT))
    with roots.chain.undone():
        assert roots.forward(call).names == ["RoundAccepted"]
    roots.send(call, sender=roots.chain.accounts[9])
    assert roots.round == 2


def test_push_gas_does_not_depend_on_node_count(chain: Chain):
    gas = []
    for count in (10, 1_000):
        oracle = deploy_roots(chain, kept=3)
        for _ in range(4):
            receipt = oracle.push_leaves(make_leaves(count))
        gas.append(receipt.gas)
    assert abs(gas[0] - gas[1]) < 200


# --- the chain of reports ---


@pytest.mark.parametrize(
    "changes",
    [
        {"config": OTHER_ROOT},
        {"round": 3},
        {"prev": OTHER_ROOT},
        {"as_of": 1},
        {"as_of_hash": OTHER_ROOT},
        {"deadline": 1},
        {"root": OTHER_ROOT},
        {"version": "2"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_report_that_differs_from_the_signed_report_is_rejected(
    roots: RootsOracle, changes: dict[str, Any]
):
    wait_for_turn(roots)
    right = roots.report(ANY_ROOT)
    signed = replace(right, **changes)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        roots.push(right, signed.signed_by(*SIGNERS[:2]))
    roots.push(right)


@pytest.mark.parametrize("number", [1, 3])
def test_case_f60_report_that_is_not_for_the_next_round_is_rejected(
    roots: RootsOracle, number: int
):
    wait_for_turn(roots)
    with pytest.raises(RevertedError, match=rf"WrongRound\(2, {number}\)"):
        roots.push(roots.report(ANY_ROOT, round=number))


def test_zero_root_is_rejected(roots: RootsOracle):
    wait_for_turn(roots)
    with pytest.raises(RevertedError, match=r"NoRoot\(2\)"):
        roots.push(roots.report(NO_ROOT))


def test_case_f60_only_one_of_two_signed_roots_is_accepted(roots: RootsOracle):
    wait_for_turn(roots)
    first = roots.report(ANY_ROOT)
    second = roots.report(OTHER_ROOT)
    signatures = second.signed_by(*SIGNERS[:2])
    roots.push(first)
    wait_for_turn(roots)
    with pytest.raises(RevertedError, match=r"WrongRound\(3, 2\)"):
        roots.push(second, signatures)
    with pytest.raises(RevertedError, match="StaleAsOf"):
        roots.push(replace(second, round=3), signatures)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        roots.push(roots.report(OTHER_ROOT), signatures)


def test_report_that_follows_a_reorged_round_is_rejected(roots: RootsOracle):
    roots.chain.mine(3)
    with roots.chain.undone():
        as_of = roots.chain.block
        roots.push_leaves(LEAVES)
        # As of a block of both histories, on a round of only the first one.
        report = roots.report(ANY_ROOT, as_of=as_of)
        signatures = report.signed_by(*SIGNERS[:2])
    roots.chain.mine(1)
    wait = roots.head("pushedAt") + LIMITS["minInterval"]
    roots.chain.at(max(wait, roots.chain.time + 1))
    roots.push(roots.report(OTHER_ROOT, as_of=as_of - 1))
    wait_for_turn(roots)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        roots.push(report, signatures)


def test_report_with_a_reorged_block_is_rejected(roots: RootsOracle):
    with roots.chain.undone():
        roots.chain.mine(3)
        report = roots.report(ANY_ROOT)
        signatures = report.signed_by(*SIGNERS[:2])
    roots.chain.later(LIMITS["minInterval"])
    roots.chain.mine(5)
    with pytest.raises(RevertedError, match=rf"Reorged\({report.as_of}, "):
        roots.push(report, signatures)


# --- time ---


def test_min_round_interval_is_exact_to_the_second(roots: RootsOracle):
    roots.chain.mine(2)
    report = roots.report(ANY_ROOT)
    turn = roots.head("pushedAt") + LIMITS["minInterval"]
    with roots.chain.undone():
        roots.chain.at(turn - 1)
        with pytest.raises(RevertedError, match=rf"TooSoon\({turn}\)"):
            roots.push(report)
    roots.chain.at(turn)
    roots.push(report)


def test_case_f60_deadline_is_exact_and_at_most_one_hour_ahead(roots: RootsOracle):
    wait_for_turn(roots)
    deadline = roots.chain.time + 100
    report = roots.report(ANY_ROOT, deadline=deadline)
    with roots.chain.undone():
        roots.chain.at(deadline + 1)
        with pytest.raises(RevertedError, match=rf"Expired\({deadline}\)"):
            roots.push(report)
    far = replace(report, deadline=roots.chain.time + 1 + 3_601)
    with roots.chain.undone():
        roots.chain.later(1)
        with pytest.raises(RevertedError, match=rf"DeadlineTooFar\({far.deadline}\)"):
            roots.push(far)
    roots.chain.at(deadline)
    roots.push(report)


def test_as_of_block_must_lie_between_last_report_and_current_block(roots: RootsOracle):
    wait_for_turn(roots)
    _, last, _ = roots.read("last")
    with pytest.raises(RevertedError, match=rf"StaleAsOf\({last}\)"):
        roots.push(roots.report(ANY_ROOT, as_of=last))
    # The block of the next transaction.
    current = roots.chain.block + 1
    report = replace(roots.report(ANY_ROOT), as_of=current)
    with pytest.raises(RevertedError, match=rf"StaleAsOf\({current}\)"):
        roots.push(report)


@pytest.mark.parametrize("window", [5, 300], ids=["BLOCKHASH", "EIP-2935"])
def test_anchor_window_is_exact_to_the_block(chain: Chain, window: int):
    oracle = deploy_roots(chain, limits=LIMITS | {"anchorWindow": window})
    as_of = chain.block - 1
    report = oracle.report(ANY_ROOT, as_of=as_of)
    chain.mine(window - 2)
    with chain.undone():
        chain.mine()
        with pytest.raises(RevertedError, match=rf"AsOfTooOld\({as_of}\)"):
            oracle.push(report)
    oracle.push(report)
    assert oracle.round == 1


# --- which roots are kept ---


def test_root_is_rejected_after_its_retention_period(chain: Chain):
    oracle = deploy_roots(chain, kept=3)
    accepted = []
    for _ in range(3):
        oracle.push_leaves(LEAVES)
        accepted.append(oracle.last_round.root)
    assert [bytes(oracle.read("rootOf", number)) for number in (1, 2, 3)] == accepted
    oracle.push_leaves(LEAVES)
    for number in (0, 1, 5, 2**32 - 1):
        with pytest.raises(RevertedError, match=rf"NoRoot\({number}\)"):
            oracle.do("rootOf", number)
    assert bytes(oracle.read("rootOf", 2)) == accepted[1]
    assert bytes(oracle.read("rootOf", 4)) == oracle.last_round.root


def test_root_depends_on_round_and_contract(roots: RootsOracle):
    first = roots.last_round
    roots.push_leaves(LEAVES)
    second = roots.last_round
    other = replace(second, oracle=roots.network.address)
    assert first.trees == second.trees == other.trees
    assert len({first.root, second.root, other.root}) == 3


def test_first_report_has_no_previous_root(chain: Chain):
    oracle = deploy_roots(chain)
    assert bytes(oracle.read("lastRoot")) == NO_ROOT
    with pytest.raises(RevertedError, match=r"NoRoot\(0\)"):
        oracle.do("rootOf", 0)
    assert not oracle.read("isFresh")
    oracle.push_leaves(LEAVES)
    assert oracle.read("isFresh")


# --- strikes ---


def pause(oracle: RootsOracle, seconds: int = 600) -> int:
    oracle.do("pauseFor", seconds, sender=oracle.pauser)
    return oracle.head("pausedUntil")


def test_striking_rounds_removes_their_roots_and_the_last_root(roots: RootsOracle):
    kept_root = roots.last_round.root
    roots.push_leaves(LEAVES)
    roots.push_leaves(LEAVES)
    until = pause(roots)
    receipt = roots.do("strike", 2, sender=roots.pauser)
    assert receipt.only("RoundsStruck") == {"from": 2, "to": 3}
    for number in (2, 3):
        with pytest.raises(RevertedError, match=rf"NoRoot\({number}\)"):
            roots.do("rootOf", number)
    assert bytes(roots.read("rootOf", 1)) == kept_root
    assert bytes(roots.read("lastRoot")) == NO_ROOT
    roots.chain.at(until)
    roots.push_leaves(LEAVES)
    assert roots.round == 4


def test_report_that_follows_a_struck_root_is_rejected(roots: RootsOracle):
    roots.push_leaves(LEAVES)
    roots.chain.mine(2)
    report = roots.report(ANY_ROOT)
    signatures = report.signed_by(*SIGNERS[:2])
    until = pause(roots)
    roots.do("strike", 2, sender=roots.pauser)
    roots.chain.at(until)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        roots.push(report, signatures)


def test_only_the_pauser_can_strike_and_only_during_a_pause(roots: RootsOracle):
    with pytest.raises(RevertedError, match="NotPaused"):
        roots.do("strike", 1, sender=roots.pauser)
    until = pause(roots)
    for sender in (roots.admin, roots.vetoer, roots.transmitter):
        with pytest.raises(RevertedError, match="NotAllowed"):
            roots.do("strike", 1, sender=sender)
    roots.chain.at(until)
    with pytest.raises(RevertedError, match="NotPaused"):
        roots.do("strike", 1, sender=roots.pauser)


@pytest.mark.parametrize("number", [0, 1, 5])
def test_strike_of_expired_round_is_rejected(chain: Chain, number: int):
    oracle = deploy_roots(chain, kept=3)
    for _ in range(4):
        oracle.push_leaves(LEAVES[:2])
    pause(oracle)
    with pytest.raises(RevertedError, match=rf"WrongRound\(4, {number}\)"):
        oracle.do("strike", number, sender=oracle.pauser)
    oracle.do("strike", 2, sender=oracle.pauser)
