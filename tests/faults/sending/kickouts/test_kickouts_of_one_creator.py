"""A kickout that rests on one creator's tasks is held until the vetoer allows it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.kickouts.kickout_cases import load_kickout_cases
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.store.outbox.records import ACCUSE
from tests.integration.evm.test_kickout_on_chain import (
    fill_bad_pool,
    kick,
    kinds,
    node_two,
    run_until_due_is_stated,
)
from tests.support import harness as harnesses
from tests.support.harness import Harness, OracleTestbed
from tests.support.txmgr.stores import NewStore

HELD = replace(harnesses.RULES, kick_creator_share=UNIT // 2)


@pytest.fixture
def held_harness(
    testbed: OracleTestbed,
    new_sqlite_store: NewStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Harness]:
    """Yield a harness whose rules hold a kickout on one creator's tasks; node 2 is due by them."""
    monkeypatch.setattr(harnesses, "RULES", HELD)
    with new_sqlite_store() as store:
        harness = Harness(testbed, store, tmp_path / "evidence")
        rules_hash = bytes.fromhex(harness.reporting.rules_hash[2:])
        call = testbed.oracle.functions.setRules(rules_hash)
        testbed.chain.send(call, sender=testbed.network.admin)
        fill_bad_pool(harness)
        run_until_due_is_stated(harness)
        yield harness
        harness.close()


def test_kickout_caused_by_one_creator_waits_for_the_vetoer(held_harness: Harness):
    harness = held_harness
    kickouts = harness.kickouts
    with harness.store.read_transaction() as uow:
        (kickout_case,) = load_kickout_cases(
            uow, kickouts.leaf_cache, kickouts.policy, kickouts.report_settings
        )
    assert kickout_case.hold_reason == (
        "4 of its 4 scores come from one creator's tasks (there is no other creator)"
    )
    assert kickout_case.obstacle == (
        "it is held; the vetoer has to allow it (`qos-oracle kickout allow`)"
    )
    assert harness.repeat(plan_kickout_call) == []
    assert ACCUSE not in kinds(harness)

    testbed = harness.testbed
    node = testbed.network.nodes[2]
    allow = testbed.oracle.functions.allow(node, kickout_case.due_since)
    testbed.chain.send(allow, sender=testbed.network.admin)
    harness.tick()
    harness.mine()
    assert kick(harness)["live"]
    assert harness.intents(ACCUSE)[0].request.subject == node_two(harness)
