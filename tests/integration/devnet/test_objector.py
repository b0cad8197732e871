"""The demo's owner objects once by the read API, and reads the verdict of the automatic check."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devnet.demo.demo_nodes import HOPELESS
from devnet.demo.objector import Objector
from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.daemon.web.http_server import serve_app
from oracle.domain.reports.objections import ObjectionVerdict
from oracle.indexer.event_archive import EventArchive
from oracle.kickouts.objection_intake import IntakeSettings, ObjectionIntake
from oracle.queries.api.node_order import NodeRankingCache
from oracle.queries.api.source import ApiSource
from tests.integration.evm.test_kickout_on_chain import node_two
from tests.integration.evm.test_objections import (
    TERMS,
    Hearing,
    chain,
    fresh_chain,
    fresh_testbed,
    hearing,
    new_sqlite_store,
    testbed,
)
from tests.integration.evm.test_posted_objections import count_objected, send_posted_objections
from tests.support.harness import RULES

pytestmark = [pytest.mark.evm, pytest.mark.slow]

# A refuted objection needs no answer.
NO_CONFIGURATION = Path("no-such-file.toml")

__all__ = ["chain", "fresh_chain", "fresh_testbed", "hearing", "new_sqlite_store", "testbed"]


def build_source(hearing: Hearing) -> ApiSource:
    store = hearing.harness.store
    settings = IntakeSettings(hearing.domain, RULES, posts_per_hour=9, daily_gas=10**6)
    return ApiSource(
        EventArchive(store, hearing.harness.folder.reader, RULES, objection_terms=TERMS),
        NodeRankingCache(RULES),
        lambda: None,
        lambda: hearing.testbed.chain.time,
        lambda _held: "a daemon",
        objection_intake=ObjectionIntake(store.open_unfenced_store(), settings),
        rules_id="{}",
    )


def test_node_owner_objects_once_and_reads_the_answer(hearing: Hearing):
    node = node_two(hearing.harness)
    rpc = hearing.testbed.chain.rpc
    stage: Any = SimpleNamespace(
        nodes={HOPELESS.name: node},
        chain=SimpleNamespace(make_request=rpc),
        objections=hearing.domain.contract,
    )
    section = ApiSection()
    with serve_app(create_read_api(build_source(hearing), streams=section), section, 0) as url:
        objector = Objector(stage, url, HOPELESS.name, ObjectionVerdict.REFUTED)
        for due_nodes in ([], [node], [node]):
            objector.advance_objection(due_nodes, NO_CONFIGURATION)
        assert len(objector.outcome.list_faults()) == 1
        send_posted_objections(hearing)
        objector.advance_objection([node], NO_CONFIGURATION)
    assert count_objected(hearing) == 1
    assert objector.outcome.list_faults() == []
    assert objector.outcome.verdict == "refuted"
