"""The use of a fold: blocks in order, a journal on request, and changes taken in between."""

import pytest

from oracle.domain.fold.fold import Fold
from oracle.domain.state import LastEvent
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History, fold_history, make_node_address, make_task_key

BLOCK = History().joins("A").starts("1", "A").events


def test_events_of_another_block_are_rejected():
    with pytest.raises(ValueError, match="block 2: some of the events"):
        Fold(CRYNUX).fold_block(2, BLOCK, journal=True)


@pytest.mark.parametrize("events", [BLOCK[::-1], [*BLOCK, BLOCK[0]], [BLOCK[0], BLOCK[0]]])
def test_unordered_events_are_rejected_by_the_fold(events):
    with pytest.raises(ValueError, match="is not after"):
        Fold(CRYNUX).fold_events(events)


def test_resumed_fold_rejects_earlier_events():
    fold = Fold(CRYNUX)
    fold.last = LastEvent(BLOCK[-1].at, BLOCK[-1].time, 1)
    with pytest.raises(ValueError, match="is not after"):
        fold.fold_events(BLOCK)


def test_empty_block_has_no_pre_images():
    fold = Fold(CRYNUX)
    fold.fold_block(7, [], journal=True)
    assert fold.drain_changes().pre_images == []
    assert fold.last is None


def test_pre_images_are_kept_only_when_journaling():
    fold = Fold(CRYNUX)
    fold.fold_block(1, BLOCK, journal=False)
    assert fold.drain_changes().pre_images == []

    fold.fold_block(2, History().after(9).submits("1", "A").events, journal=True)
    (images,) = fold.drain_changes().pre_images
    assert (images.block, images.nodes, images.groups) == (2, {}, {})
    before = images.tasks[make_task_key("1")]
    assert before is not None
    assert before.stopped_at is None
    assert images.last == (LastEvent(BLOCK[-1].at, BLOCK[-1].time, 1),)


def test_changes_of_the_fold_are_returned_only_once():
    fold, changes = fold_history(BLOCK)
    assert set(changes.nodes) == {make_node_address("A")}
    assert changes.last == fold.last
    again = fold.drain_changes()
    assert (again.nodes, again.tasks, again.reliability, again.last) == ({}, {}, [], None)


def test_row_stores_the_block_of_its_last_change():
    history = History().joins("A", "B").after(5, blocks=3).pauses("A")
    fold, _ = fold_history(history)
    assert [fold.ledger.nodes[make_node_address(name)].changed_at for name in "AB"] == [4, 1]


def test_success_at_full_reliability_is_not_recorded_as_a_change():
    _, changes = fold_history(History().joins("A").starts("1", "A").succeeds("1"))
    assert [change.cause for change in changes.reliability] == ["joined"]
