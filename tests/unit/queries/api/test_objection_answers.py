"""Objections in the read API and on the page of their node; their text is escaped."""

from collections.abc import Iterator
from dataclasses import replace
from html import escape

import pytest
from fastapi.testclient import TestClient

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import Objected
from oracle.domain.fixed_point import UNIT
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.kickout_policy import ObjectionTerms
from oracle.notify.notice_kinds import format_notice_text
from oracle.queries.objection_models import count_unanswered_objections
from oracle.store.state.objection_repository import ObjectionAnswer
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address
from tests.support.txmgr.stores import NewStore

NODE = make_node_address("A")
RULES = replace(CRYNUX, pool_size=4, kick_creator_share=UNIT)
HOSTILE = f"<script>alert(1)</script> \u202e ignore previous instructions {'w' * 100} the end"
TERMS = ObjectionTerms(7200, 21_600, 0)


@pytest.fixture
def indexed(new_sqlite_store: NewStore) -> Iterator[IndexedHistory]:
    """Index a network with a node whose kickout is due."""
    history = History().joins("A").scores("A", 0, 0, 0, 0)
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store, RULES)
        archive = replace(indexed.source.archive, objection_terms=TERMS)
        indexed.source = replace(indexed.source, archive=archive)
        yield indexed.whole(history)


def due_since(indexed: IndexedHistory) -> int:
    with indexed.store.read_transaction() as uow:
        return uow.nodes.get_many([NODE])[NODE].kickout_due_time or 0


def object_to(indexed: IndexedHistory, *, seq: int = 0, reason: int = 0) -> None:
    since = due_since(indexed)
    event = Objected(Position(5, 9, seq), since + 1, NODE, since, reason, seq, HOSTILE)
    with indexed.store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(objections=[event]))


@pytest.fixture
def client(indexed: IndexedHistory) -> TestClient:
    return indexed.client()


def test_objection_is_listed_with_check_and_answer(indexed, client):
    object_to(indexed)
    with indexed.store.transaction() as uow:
        uow.objections.save_answer(
            ObjectionAnswer(NODE, due_since(indexed), False, "proven", 77, NODE, b"\x01\x02")
        )

    (entry,) = client.get("/v1/objections").json()["objections"]

    assert (entry["node"], entry["seq"], entry["reason"]) == (NODE, 0, "other")
    assert (entry["verdict"], entry["is_due"], entry["is_counted"]) == ("open", True, True)
    assert entry["answer"] == {
        "is_accepted": False,
        "because": "proven",
        "answered_at": 77,
        "signer": NODE,
        "signature": "0x0102",
    }
    assert entry["text"] == HOSTILE


def test_later_objection_to_same_kickout_does_not_count(indexed, client):
    object_to(indexed)
    object_to(indexed, seq=1)
    entries = client.get(f"/v1/objections/{NODE}").json()["objections"]
    assert [(entry["seq"], entry["is_counted"]) for entry in entries] == [(1, False), (0, True)]


def test_pages_show_check_result_of_every_objection(indexed, client):
    object_to(indexed)
    object_to(indexed, seq=1)
    entries = client.get("/v1/objections").json()["objections"]
    (finding,) = {escape(entry["finding"]) for entry in entries}
    for path in ("/objections", f"/nodes/{NODE}"):
        assert client.get(path).text.count(finding) >= len(entries)


def test_api_shows_reason_for_delayed_accusation(indexed, client):
    (due,) = client.get("/v1/kickouts").json()["due"]
    until = due_since(indexed) + TERMS.window + 1
    delay = due["objection_delay"]
    assert (delay["until"], delay["objection"]) == (until, None)
    page = client.get("/kickouts").text
    assert "Its owner may object" in page

    object_to(indexed)
    answers = [
        indexed.client().get(f"/v1/nodes/{NODE}").json(),
        indexed.client().get(f"/v1/nodes/{NODE}/explain").json()["explanation"],
    ]
    for answer in answers:
        assert answer["objection_delay"]["objection"] == 0
        assert [entry["verdict"] for entry in answer["objections"]] == ["open"]


def test_page_shows_objection_deadline(indexed, client):
    page = client.get(f"/nodes/{NODE}").text
    assert "The owner may object to the kickout until" in page
    assert f"--due-since {due_since(indexed)}" in page


def test_objection_text_is_escaped_on_page(indexed, client):
    object_to(indexed)
    page = client.get(f"/nodes/{NODE}").text
    assert "not decided by the automatic check" in page.lower()
    assert "the end" in page
    assert "<script>alert" not in page
    assert "\u202e" not in page
    headline = page.partition("<h1>")[2].partition("</h1>")[0]
    assert "ignore" not in headline


def test_notice_of_an_objection_omits_its_text():
    fields = {"node": NODE, "objection": 0, "due_since": 5, "reason": "application"}
    text = format_notice_text("objection_made", fields)
    assert text == f"{NODE} objected to its kickout: application"


@pytest.mark.parametrize(
    ("reason", "is_answered", "count"), [(0, False, 1), (0, True, 0), (4, False, 0)]
)
def test_unanswered_objections_are_counted(
    indexed: IndexedHistory, reason: int, *, is_answered: bool, count: int
):
    object_to(indexed, reason=reason)
    if is_answered:
        with indexed.store.transaction() as uow:
            uow.objections.save_answer(ObjectionAnswer(NODE, due_since(indexed), True, "so", 1))
    with indexed.store.read_transaction() as uow:
        policy = indexed.source.archive.kickout_policy._replace(objection_terms=TERMS)
        assert count_unanswered_objections(uow, policy) == count
        assert count_unanswered_objections(uow, policy._replace(objection_terms=None)) == 0
