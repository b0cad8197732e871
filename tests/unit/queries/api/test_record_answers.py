"""Answers about single records: the evidence of a kickout, the moments of a task."""

import pytest

from oracle.queries.api.records.kickout_view import find_evidence
from oracle.queries.api.records.task_view import build_task_answer
from oracle.queries.api.source import NotFoundError, open_snapshot
from tests.support.api import IndexedHistory
from tests.support.histories import History, node, task


def find_missing_evidence(store, node_or_hash: str) -> str:
    indexed = IndexedHistory(store).whole(History().joins("A"))
    with open_snapshot(indexed.source) as snapshot, pytest.raises(NotFoundError) as caught:
        find_evidence(snapshot, node_or_hash, lambda _: None)
    return str(caught.value)


def test_error_for_evidence_of_node_without_kickout_gives_the_reason(store):
    reason = find_missing_evidence(store, node("A"))
    assert reason == f"no kickout was proposed for node {node('A')}"


def test_error_for_evidence_hash_without_file_gives_the_reason(store):
    evidence_hash = "0x" + 64 * "e"
    reason = find_missing_evidence(store, evidence_hash)
    assert reason == f"evidence {evidence_hash} is not stored on this host"


def test_task_started_at_time_zero_keeps_its_time(store):
    history = History()
    history.time = 0
    history.joins("A").creates("1").starts("1", "A")
    indexed = IndexedHistory(store)
    # The header that is stored for this block has another time than the log.
    indexed.index(history.events, history.block, 5)
    with open_snapshot(indexed.source) as snapshot:
        answer = build_task_answer(snapshot, task("1"))
    assert {moment.what: moment.time for moment in answer.moments} == {"created": 5, "started": 0}
