"""The state of a node's kickout after each event of the contract."""

from dataclasses import replace

import pytest

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    KickAccused,
    KickCancelled,
    KickExecuted,
    KickRefused,
)
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address, Hash
from oracle.domain.reports.node_kicks import NEVER_EXPIRES, NO_TARGET, KickState, NodeKick
from tests.support.rounds import make_address

NODE = make_address(0xA)
NETWORK = make_address(0xB)
VETOER = make_address(0xC)
EVIDENCE, LATER_EVIDENCE, BUSY, POOR = (Hash(f"0x{digit * 64}") for digit in "1234")
SINCE, READY_AT, EXECUTED_AT = 1_000, 2_000, 3_000


def accuse(
    kick: NodeKick, *, block: int = 5, due_since: int = SINCE, round_number: int = 7
) -> NodeKick:
    at = Position(block, 0, 0)
    return kick.accuse(KickAccused(at, 0, NODE, round_number, due_since, EVIDENCE, READY_AT))


def cancel(kick: NodeKick, by: Address) -> NodeKick:
    return kick.cancel(KickCancelled(Position(6, 0, 0), 0, NODE, by, ZERO_HASH))


def execute(
    kick: NodeKick,
    *,
    block: int = 8,
    round_number: int = 9,
    target: Address = NETWORK,
    evidence: Hash = LATER_EVIDENCE,
    cooldown: int = NEVER_EXPIRES,
) -> NodeKick:
    event = KickExecuted(Position(block, 0, 0), EXECUTED_AT, NODE, evidence, target)
    return kick.execute(event, head_round=round_number, cooldown=cooldown)


def refuse(kick: NodeKick, reason: Hash, *, block: int = 8, round_number: int = 9) -> NodeKick:
    """Return the kickout after a call that the target refused."""
    event = KickRefused(Position(block, 0, 1), EXECUTED_AT, NODE, NETWORK, reason)
    return execute(kick, block=block, round_number=round_number).refuse(event, round_number)


ACCUSED = accuse(NodeKick(NODE))


def test_accusation_stores_its_interval_and_round():
    assert ACCUSED.is_accused
    assert ACCUSED.last_round == 7
    accusation = ACCUSED.accusation
    assert accusation is not None
    assert (accusation.due_since, accusation.ready_at) == (SINCE, READY_AT)
    assert not ACCUSED.is_expelled(0)


def test_veto_protects_the_accused_and_all_earlier_intervals():
    vetoed = cancel(ACCUSED, VETOER)

    assert (vetoed.state, vetoed.is_accused) == (KickState.VETOED, False)
    spared = [
        vetoed.is_safe_from_accusation(due_since) for due_since in (SINCE - 1, SINCE, SINCE + 1)
    ]
    assert spared == [True, True, False]


def test_cleared_accusation_does_not_protect_its_interval():
    recovered = cancel(ACCUSED, ZERO_ADDRESS)

    assert (recovered.state, recovered.is_accused) == (KickState.RECOVERED, False)
    assert not recovered.is_safe_from_accusation(SINCE)


def test_cleared_accusation_keeps_an_earlier_veto():
    vetoed = cancel(ACCUSED, VETOER)
    recovered = cancel(accuse(vetoed, due_since=SINCE + 10), ZERO_ADDRESS)

    assert recovered.is_safe_from_accusation(SINCE)
    assert not recovered.is_safe_from_accusation(SINCE + 10)


def test_executed_kickout_expels_the_node_and_protects_the_interval():
    kick = execute(ACCUSED)

    assert kick.state is KickState.EXPELLED
    assert kick.is_expelled(NEVER_EXPIRES - 1)
    assert kick.is_safe_from_accusation(SINCE)
    assert kick.last_round == 9
    assert kick.accusation is not None
    assert kick.accusation.evidence == LATER_EVIDENCE


def test_expulsion_ends_after_cooldown():
    kick = execute(ACCUSED, cooldown=50)

    assert kick.is_expelled(EXECUTED_AT + 49)
    assert not kick.is_expelled(EXECUTED_AT + 50)


def test_executed_kickout_without_a_target_expels_the_node():
    kick = execute(ACCUSED, target=NO_TARGET)

    assert kick.is_expelled(EXECUTED_AT)
    assert kick.expulsion is not None
    assert kick.expulsion.target == NO_TARGET


def test_node_is_expelled_even_if_the_kick_target_rejects_the_call():
    kick = refuse(ACCUSED, BUSY)

    assert (kick.state, kick.is_expelled(EXECUTED_AT)) == (KickState.REFUSED, True)
    assert kick.expulsion is not None
    assert (kick.expulsion.refusals, kick.expulsion.reason) == (1, BUSY)


@pytest.mark.parametrize(
    ("reasons", "is_settled"),
    [
        ([BUSY], False),
        ([BUSY, BUSY], True),
        ([BUSY, POOR], False),
        ([BUSY, POOR, BUSY], False),
        ([BUSY, POOR, POOR], True),
    ],
)
def test_repeated_kick_target_error_requires_the_operator(
    reasons: list[Hash], *, is_settled: bool
):
    kick = ACCUSED
    for reason in reasons:
        kick = refuse(kick, reason)

    assert kick.requires_operator is is_settled


def test_retry_keeps_the_evidence_and_the_end_of_the_expulsion():
    first = execute(ACCUSED, cooldown=50)
    retried = execute(first, block=12, round_number=14, evidence=ZERO_HASH, cooldown=99)

    assert first.expulsion is not None
    assert retried.accusation == first.accusation
    assert retried.expulsion == replace(first.expulsion, tried_in=14, tried_at=Position(12, 0, 0))
    assert retried.last_round == 14


def test_readmission_ends_expulsion_and_protects_earlier_intervals():
    kick = execute(ACCUSED).readmit(EXECUTED_AT + 5)

    assert kick.state is KickState.READMITTED
    assert not kick.is_expelled(EXECUTED_AT)
    assert kick.is_safe_from_accusation(EXECUTED_AT + 5)
    assert not kick.is_safe_from_accusation(EXECUTED_AT + 6)
    assert kick.last_round == 9


def test_second_kickout_after_expulsion_expels_node_again():
    first = execute(ACCUSED, cooldown=50)
    again = accuse(first, block=20, due_since=SINCE + 10, round_number=30)
    assert (again.last_round, again.is_expelled(EXECUTED_AT)) == (30, False)

    second = execute(again, block=25, round_number=33)
    assert second.expulsion is not None
    assert (second.expulsion.round, second.expulsion.at) == (33, Position(25, 0, 0))
    assert second.is_safe_from_accusation(SINCE + 10)


def test_allowing_a_held_kickout_changes_no_other_field():
    allowed = ACCUSED.allow(SINCE)

    assert allowed == replace(ACCUSED, allowed=SINCE)
    assert allowed.allow(0) == ACCUSED


def test_node_expelled_by_previous_oracle_stays_expelled():
    kick = NodeKick(NODE).expel(Position(1, 0, 0))

    assert kick.is_expelled(NEVER_EXPIRES - 1)
    assert (kick.last_round, kick.is_safe_from_accusation(1)) == (0, False)


def test_rejected_kick_of_an_unseen_accusation_expels_the_node():
    event = KickRefused(Position(8, 0, 1), EXECUTED_AT, NODE, NETWORK, BUSY)

    kick = NodeKick(NODE).refuse(event, 9)

    assert kick.is_expelled(EXECUTED_AT)
    assert kick.expulsion is not None
    assert kick.expulsion.refusals == 1
