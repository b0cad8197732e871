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
from oracle.kickouts.kickout_cases import find_due_intervals, load_kickout_evidence
from oracle.kickouts.kickout_context import ACCUSE
from oracle.kickouts.objection_sender import BRING_OBJECTION
from oracle.queries.evidence_bundle import build_evidence_bundle
from oracle.queries.explain import EventArchive
from oracle.signing.typed_data import AnswerStatement
from oracle.store.state.objection_repository import ObjectionAnswer
from tests.integration.evm.test_kicking import fill_bad_pool, get_stated_due_since, node_two
from tests.integration.evm.test_objections import TERMS, Hearing
from tests.integration.evm.test_posted_objections import post
from tests.support.office import RULES, Office, Premises
from tests.support.page_scripts import needs_node, run_page_script
from tests.support.sending.reporters import Company, run_company
from tests.support.txmgr.stores import NewStore

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def court(
    premises: Premises,
    new_sqlite_store: NewStore,
    new_postgresql_store: NewStore,
    tmp_path: Path,
) -> Iterator[tuple[Company, Hearing]]:
    """Yield three reporters that index objections, and a due node in the first one's view."""
    contract = premises.chain.deploy(CONTRACT, premises.oracle.address)
    with (
        new_sqlite_store() as first,
        new_postgresql_store() as second,
        new_sqlite_store() as third,
        run_company(
            premises,
            [first, second, third],
            tmp_path,
            objections=Address(contract.address.lower()),
            equipment={"objection_terms": TERMS},
        ) as opened,
    ):
        for reporter, window in zip(opened.reporters, (1_000, 1, 3), strict=True):
            reporter.window = window
        fill_bad_pool(opened.first.office)
        while not get_stated_due_since(opened.first.office):
            opened.round()
        yield opened, Hearing(opened.first.office, contract)


def list_objections(office: Office) -> list[Objected]:
    with office.store.read_transaction() as uow:
        return uow.objections.list_for_node(node_two(office))


def load_evidence(office: Office) -> str:
    with office.store.read_transaction() as uow:
        (interval,) = find_due_intervals(uow, RULES)
        return load_kickout_evidence(uow, office.kickouts.policy, interval).text


def answer(office: Office, due_since: int) -> None:
    """Decline the objections as the signer of an office, as `objection answer` does."""
    account, contract = office.context.sender_account, office.kickouts.objections_contract
    assert contract is not None
    statement = AnswerStatement(node_two(office), due_since, False, "the logs show it", 9)
    signature = account.signer.sign_statement(
        statement, replace(account.domain, contract=contract)
    )
    with office.store.transaction() as uow:
        unsigned = ObjectionAnswer(*astuple(statement))
        uow.objections.save_answer(
            unsigned._replace(signer=account.signer.address, signature=signature)
        )


def load_bundle(office: Office) -> dict[str, Any]:
    """Return the bundle of the due node in the newest round."""
    reader = office.folder.reader
    bundle = build_evidence_bundle(
        EventArchive(office.store, reader, RULES, None, TERMS),
        office.kickouts.leaf_cache,
        node_two(office),
        None,
        format_rules_id(RULES, reader.identity, office.settings),
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
def test_objections_by_api_by_node_and_too_late_leave_all_reporters_equal(
    court: tuple[Company, Hearing],
):
    reporters, hearing = court
    due_since = hearing.due_since
    before = load_evidence(reporters.first.office)

    post(hearing, "by the read API of one reporter")
    reporters.round()
    hearing.object("by the node itself", due_since)
    reporters.round()
    reporters.chain.later(TERMS.window + 1)
    hearing.object("after the window", due_since)
    answer(reporters.others[0].office, due_since)
    reporters.round()

    offices = [reporter.office for reporter in reporters.reporters]
    assert reporters.first.office.intents(BRING_OBJECTION)
    assert [objection.seq for objection in list_objections(offices[0])] == [2, 1, 0]
    assert {tuple(list_objections(office)) for office in offices} == {
        tuple(list_objections(offices[0]))
    }
    assert {load_evidence(office) for office in offices} == {before}
    common = set.intersection(*(set(reporter.reports()) for reporter in reporters.reporters))
    assert len(common) >= 3
    for period in common:
        assert len({reporter.reports()[period] for reporter in reporters.reporters}) == 1
    bundles = [load_bundle(office) for office in offices]
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
    accusations = reporters.first.office.intents(ACCUSE)
    assert all(call.created_at > due_since + TERMS.window for call in accusations)
