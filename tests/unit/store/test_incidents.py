"""Incidents are stored, undone and folded again like every projection, on both databases."""

import pytest

from oracle.domain.blocks import BlockRange
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.incidents import Incident
from oracle.store.database import Store, UnitOfWork
from tests.support.histories import make_node_address
from tests.support.task_traffic import build_burst_history
from tests.unit.store.folding import fold_into, forget_everything

EVENTS = build_burst_history().events
BLOCKS = sorted({event.at.block for event in EVENTS})
LAST = BLOCKS[-1]


def dump_of(uow: UnitOfWork, last: int, *, final: int) -> list[str]:
    """Return the rows of a new fold of the burst up to block `last`."""
    forget_everything(uow)
    fold_into(uow, events_up_to(last), last, final=final)
    return list(uow.projections.iterate_dump_lines())


def events_up_to(last: int, first: int = 0) -> list[DomainEvent]:
    return [event for event in EVENTS if first <= event.at.block <= last]


def load_single_incident(uow: UnitOfWork) -> Incident:
    (incident,) = uow.incidents.list_newest(9)
    return incident


@pytest.mark.parametrize("ancestor", [BLOCKS[14], BLOCKS[23], BLOCKS[24], BLOCKS[-2]])
def test_rollback_to_any_phase_of_incident_equals_fold_up_to_it(store: Store, ancestor: int):
    with store.transaction() as uow:
        expected = dump_of(uow, ancestor, final=ancestor)
        dump_of(uow, LAST, final=0)
        uow.undo.rollback_to(ancestor)
        assert list(uow.projections.iterate_dump_lines()) == expected
        fold_into(uow, events_up_to(LAST, ancestor + 1), LAST, final=0)
        refolded = list(uow.projections.iterate_dump_lines())
        assert refolded == dump_of(uow, LAST, final=LAST)


def test_incident_opens_and_closes_at_its_positions(store: Store):
    with store.transaction() as uow:
        dump_of(uow, BLOCKS[-2], final=0)
        incident = load_single_incident(uow)
        assert uow.incidents.list_open() == [incident]
        assert (incident.creator, incident.over_at) == (make_node_address("burst"), None)
        found = incident.found_at.block
        assert uow.incidents.list_changed(BlockRange(found, found)) == [incident]
        assert uow.incidents.list_changed(BlockRange(found + 1, LAST)) == []
        assert uow.incidents.list_between(0, incident.since - 1) == []
        assert uow.incidents.list_between(incident.until + 999, incident.until + 1999) == [
            incident
        ]
        assert uow.incidents.list_between(0, LAST * 999, up_to_block=found - 1) == []

        fold_into(uow, events_up_to(LAST, LAST), LAST, final=0)
        over = load_single_incident(uow)
        assert over.over_at is not None
        assert over == incident._replace(over_at=over.over_at, over_time=over.over_time)
        assert over.over_at.block == LAST
        assert uow.incidents.list_open() == []
        assert uow.incidents.list_changed(BlockRange(LAST, LAST)) == [over]
        assert uow.incidents.list_between(incident.until + 1, incident.until + 999) == []
        assert uow.incidents.list_newest(9, below=1) == []


def test_stored_incident_detector_equals_folded_detector(store: Store):
    with store.transaction() as uow:
        dump_of(uow, BLOCKS[-2], final=0)
        detector = uow.incidents.load_detector()
        assert detector.incident_count == 1
        assert [row.ends_by_key != {} for row in detector.minutes].count(True) > 0
        assert detector.open_incidents == [load_single_incident(uow)]
