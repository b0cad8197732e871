"""Responses about single records: the evidence of a kickout, the timeline of a task."""

import pytest

from oracle.queries.api.records.kickout_view import get_accusation_evidence
from oracle.queries.api.records.task_view import build_task_answer
from oracle.queries.api.source import NotFoundError, open_snapshot
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address, make_task_key
from tests.support.indexed_rounds import accuse_node
from tests.support.rounds import build_contract_state


def test_evidence_error_for_unaccused_node_gives_reason(store):
    indexed = IndexedHistory(store).whole(History().joins("A"))
    with open_snapshot(indexed.source) as snapshot, pytest.raises(NotFoundError) as caught:
        get_accusation_evidence(snapshot, make_node_address("A"), lambda *_: "a file")
    assert str(caught.value) == f"node {make_node_address('A')} was never accused"


def test_evidence_error_for_missing_file_gives_reason(store):
    indexed = IndexedHistory(store).whole(History().joins("A"))
    accuse_node(indexed, build_contract_state(), make_node_address("A"), block=2, ready_at=99)
    with open_snapshot(indexed.source) as snapshot, pytest.raises(NotFoundError) as caught:
        get_accusation_evidence(snapshot, make_node_address("A"), lambda *_: None)
    assert (
        str(caught.value)
        == f"the evidence against {make_node_address('A')} is not stored on this host"
    )


def test_task_started_at_time_0_keeps_its_start_time(store):
    history = History()
    history.time = 0
    history.joins("A").creates("1").starts("1", "A")
    indexed = IndexedHistory(store)
    # The header that is stored for this block has another time than the log.
    indexed.index(history.events, history.block, 5)
    with open_snapshot(indexed.source) as snapshot:
        answer = build_task_answer(snapshot, make_task_key("1"))
    assert {moment.what: moment.time for moment in answer.moments} == {"created": 5, "started": 0}
