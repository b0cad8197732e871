"""A kickout that rests on one creator's tasks is held for an operator."""

from dataclasses import replace

import pytest

from oracle.cli.kickout_plans import plan_manual_proposal as proposed_by_hand
from oracle.domain.coverage import VerificationLevel
from oracle.domain.fixed_point import UNIT
from oracle.kickouts.kickout_context import PROPOSE_KICK
from oracle.kickouts.kickout_eligibility import KickoutRules, load_kickout_cases
from oracle.kickouts.kickout_planner import plan_kickout_call
from tests.integration.evm.test_kicking import bad_pool, kick, kinds, shown_low
from tests.support.office import RULES, SETTINGS, Office, next_step

HELD = replace(RULES, kick_creator_share=UNIT // 2)


@pytest.fixture
def held_office(sqlite_office: Office) -> Office:
    """Return an office where node 2 is due on final evidence from the tasks of one creator."""
    bad_pool(sqlite_office)
    shown_low(sqlite_office)
    sqlite_office.kickouts = replace(sqlite_office.kickouts, rules=HELD)
    return sqlite_office


def test_kickout_based_on_scores_from_one_creator_waits_for_operator(held_office: Office):
    office = held_office
    with office.store.read_transaction() as uow:
        (kickout_case,) = load_kickout_cases(
            uow, KickoutRules(HELD, SETTINGS), VerificationLevel.NOTHING
        )
    assert kickout_case.obstacle is None
    assert kickout_case.hold_reason == (
        "4 of its 4 scores come from one creator's tasks (there is no other creator)"
    )

    assert office.repeat(plan_kickout_call) == []
    assert PROPOSE_KICK not in kinds(office)
    assert not kick(office)["live"]

    proposed_by_hand(office.kickouts, kickout_case, office.source.fetch_heads())
    office.repeat(next_step)
    office.mine()
    office.index()
    assert kick(office)["live"]
    # What a person has proposed is not held a second time.
    with office.store.read_transaction() as uow:
        (kickout_case,) = load_kickout_cases(
            uow, KickoutRules(HELD, SETTINGS), VerificationLevel.NOTHING
        )
    assert (kickout_case.hold_reason, kickout_case.obstacle) == (
        None,
        "its kickout is already proposed",
    )
