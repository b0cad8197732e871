"""Three reporters with different databases: objections of every way change no signed byte."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.bindings.objections import CONTRACT
from oracle.domain.events.oracle_events import Objected
from oracle.domain.ids import Address
from oracle.kickouts.kickout_cases import find_due_intervals, load_kickout_evidence
from oracle.kickouts.kickout_context import ACCUSE
from oracle.kickouts.objection_sender import BRING_OBJECTION
from tests.integration.evm.test_kicking import bad_pool, node_two, stated_due_since
from tests.integration.evm.test_objections import TERMS, Hearing
from tests.integration.evm.test_posted_objections import post
from tests.support.office import RULES, Office, Premises
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
        bad_pool(opened.first.office)
        while not stated_due_since(opened.first.office):
            opened.round()
        yield opened, Hearing(opened.first.office, contract)


def list_objections(office: Office) -> list[Objected]:
    with office.store.read_transaction() as uow:
        return uow.objections.list_for_node(node_two(office))


def load_evidence(office: Office) -> str:
    with office.store.read_transaction() as uow:
        (interval,) = find_due_intervals(uow, RULES)
        return str(load_kickout_evidence(uow, office.kickouts.policy, interval))


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
    # The first reporter waits for its operator, because the node answered a task meanwhile or
    # the window is open; no reporter has accused the node before the window was over.
    accusations = reporters.first.office.intents(ACCUSE)
    assert all(call.created_at > due_since + TERMS.window for call in accusations)
