"""Three reporters with different databases: objections of every way change no signed byte."""

from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from oracle.bindings.objections import CONTRACT
from oracle.domain.events.oracle_events import Objected
from oracle.domain.ids import Address
from oracle.domain.reports.report import format_rules_id
from oracle.indexer.event_archive import EventArchive
from oracle.kickouts.kickout_cases import load_kickout_evidence, load_open_kickout_intervals
from oracle.queries.evidence_bundle import build_evidence_bundle
from oracle.signing.typed_data import AnswerStatement
from oracle.store.outbox.records import ACCUSE, SUBMIT_OBJECTION
from oracle.store.state.objection_repository import ObjectionAnswer
from tests.integration.evm.test_kickout_on_chain import (
    fill_bad_pool,
    get_stated_due_since,
    node_two,
)
from tests.integration.evm.test_objections import TERMS, Hearing
from tests.integration.evm.test_posted_objections import post
from tests.support.harness import RULES, Harness, OracleTestbed
from tests.support.page_scripts import needs_node, run_page_script
from tests.support.sending.reporters import ReporterGroup, run_reporter_group
from tests.support.txmgr.stores import NewStore

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def reporters_and_hearing(
    testbed: OracleTestbed,
    new_sqlite_store: NewStore,
    new_postgresql_store: NewStore,
    tmp_path: Path,
) -> Iterator[tuple[ReporterGroup, Hearing]]:
    """Yield three reporters that index objections, and a due node in the first one's view."""
    contract = testbed.chain.deploy(CONTRACT, testbed.oracle.address)
    with (
        new_sqlite_store() as first,
        new_postgresql_store() as second,
        new_sqlite_store() as third,
        run_reporter_group(
            testbed,
            [first, second, third],
            tmp_path,
            objections=Address(contract.address.lower()),
            equipment={"objection_terms": TERMS},
        ) as opened,
    ):
        for reporter, window in zip(opened.reporters, (1_000, 1, 3), strict=True):
            reporter.window = window
        fill_bad_pool(opened.first.harness)
        while not get_stated_due_since(opened.first.harness):
            opened.round()
        yield opened, Hearing(opened.first.harness, contract)


def list_objections(harness: Harness) -> list[Objected]:
    with harness.store.read_transaction() as uow:
        return uow.objections.list_for_node(node_two(harness))


def load_evidence(harness: Harness) -> str:
    with harness.store.read_transaction() as uow:
        (interval,) = load_open_kickout_intervals(uow, RULES)
        return load_kickout_evidence(uow, harness.kickouts.policy, interval)


def decline_objections(harness: Harness, due_since: int) -> None:
    """Decline the objections as the signer of a harness, as `objection answer` does."""
    account, contract = harness.context.sender_account, harness.kickouts.objections_contract
    assert contract is not None
    statement = AnswerStatement(node_two(harness), due_since, False, "the logs show it", 9)
    signature = account.signer.sign_statement(
        statement, replace(account.domain, contract=contract)
    )
    with harness.store.transaction() as uow:
        unsigned = ObjectionAnswer(*astuple(statement))
        uow.objections.save_answer(
            unsigned._replace(signer=account.signer.address, signature=signature)
        )


def load_bundle(harness: Harness) -> dict[str, Any]:
    """Return the bundle of the due node in the newest round."""
    reader = harness.folder.reader
    bundle = build_evidence_bundle(
        EventArchive(harness.store, reader, RULES, None, TERMS),
        harness.kickouts.leaf_cache,
        node_two(harness),
        None,
        format_rules_id(RULES, reader.identity, harness.settings),
    )
    return bundle.model_dump(mode="json")


def list_checks(bundles: list[dict[str, Any]]) -> list[dict[str, bool | None]]:
    """Return the results of the page `/verify` for each bundle, by the name of the check."""
    script = "(bundles) => bundles.map((bundle) => checkBundle(bundle, null))"
    return [
        {check["name"]: check["is_true"] for check in checks}
        for checks in run_page_script(script, bundles)
    ]


@needs_node
def test_reporters_agree_regardless_of_how_objections_arrive(
    reporters_and_hearing: tuple[ReporterGroup, Hearing],
):
    reporters, hearing = reporters_and_hearing
    due_since = hearing.due_since
    before = load_evidence(reporters.first.harness)

    post(hearing, "by the read API of one reporter")
    reporters.round()
    hearing.object("by the node itself", due_since)
    reporters.round()
    reporters.chain.later(TERMS.window + 1)
    hearing.object("after the window", due_since)
    decline_objections(reporters.others[0].harness, due_since)
    reporters.round()

    harnesses = [reporter.harness for reporter in reporters.reporters]
    assert reporters.first.harness.intents(SUBMIT_OBJECTION)
    assert [objection.seq for objection in list_objections(harnesses[0])] == [2, 1, 0]
    assert {tuple(list_objections(harness)) for harness in harnesses} == {
        tuple(list_objections(harnesses[0]))
    }
    assert {load_evidence(harness) for harness in harnesses} == {before}
    common = set.intersection(*(set(reporter.reports()) for reporter in reporters.reporters))
    assert len(common) >= 3
    for period in common:
        assert len({reporter.reports()[period] for reporter in reporters.reporters}) == 1
    bundles = [load_bundle(harness) for harness in harnesses]
    assert {bundle["evidence"] for bundle in bundles} == {before}
    for bundle in bundles:
        in_time = [entry["is_counted"] for entry in bundle["objections"]]
        assert (bundle["objections"][0]["seq"], in_time) == (0, [True, False, False])
    checks = list_checks(bundles)
    assert [result for result in checks if False in result.values()] == []
    # Only the reporter that got the post has the node's signature, and only one has answered.
    assert [result["Objection 0"] for result in checks] == [True, None, None]
    assert [result.get("Answer to objection 0") for result in checks] == [None, True, None]

    # The first reporter waits for its operator, because the node answered a task meanwhile or
    # the window is open; no reporter has accused the node before the window was over.
    accusations = reporters.first.harness.intents(ACCUSE)
    assert all(call.created_at > due_since + TERMS.window for call in accusations)
