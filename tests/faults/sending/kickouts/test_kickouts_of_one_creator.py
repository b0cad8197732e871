"""A kickout that rests on one creator's tasks is held until the vetoer allows it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.kickouts.kickout_cases import load_kickout_cases
from oracle.kickouts.kickout_context import ACCUSE
from oracle.kickouts.kickout_planner import plan_kickout_call
from tests.integration.evm.test_kicking import (
    fill_bad_pool,
    kick,
    kinds,
    node_two,
    run_until_due_is_stated,
)
from tests.support import office as offices
from tests.support.office import Office, Premises
from tests.support.txmgr.stores import NewStore

HELD = replace(offices.RULES, kick_creator_share=UNIT // 2)


@pytest.fixture
def held_office(
    premises: Premises,
    new_sqlite_store: NewStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Office]:
    """Yield an office whose rules hold a kickout on one creator's tasks; node 2 is due by them."""
    monkeypatch.setattr(offices, "RULES", HELD)
    with new_sqlite_store() as store:
        office = Office(premises, store, tmp_path / "evidence")
        rules_hash = bytes.fromhex(office.reporting.rules_hash[2:])
        call = premises.oracle.functions.setRules(rules_hash)
        premises.chain.send(call, sender=premises.network.admin)
        fill_bad_pool(office)
        run_until_due_is_stated(office)
        yield office
        office.close()


def test_kickout_based_on_scores_from_one_creator_waits_for_the_vetoer(held_office: Office):
    office = held_office
    kickouts = office.kickouts
    with office.store.read_transaction() as uow:
        (kickout_case,) = load_kickout_cases(
            uow, kickouts.leaf_cache, kickouts.policy, kickouts.settings
        )
    assert kickout_case.hold_reason == (
        "4 of its 4 scores come from one creator's tasks (there is no other creator)"
    )
    assert kickout_case.obstacle == (
        "it is held; the vetoer has to allow it (`qos-oracle kickout allow`)"
    )
    assert office.repeat(plan_kickout_call) == []
    assert ACCUSE not in kinds(office)

    premises = office.premises
    node = premises.network.nodes[2]
    allow = premises.oracle.functions.allow(node, kickout_case.due_since)
    premises.chain.send(allow, sender=premises.network.admin)
    office.tick()
    office.mine()
    assert kick(office)["live"]
    assert office.intents(ACCUSE)[0].request.subject == node_two(office)
