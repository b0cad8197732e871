"""Events built from columns equal the original ones; malformed columns give no events."""

from dataclasses import fields

import pytest
from hypothesis import given

from oracle.domain.events.event_fields import build_events
from oracle.domain.events.network_events import DomainEvent, NodeJoined
from tests.support.random_histories import any_histories

NAMES = [field.name for field in fields(NodeJoined)]


@given(any_histories())
def test_events_rebuilt_from_columns_equal_originals(events: list[DomainEvent]):
    for kind in {type(event) for event in events}:
        of_kind = [event for event in events if type(event) is kind]
        columns = {
            field.name: [getattr(event, field.name) for event in of_kind] for field in fields(kind)
        }
        assert build_events(kind, columns) == of_kind


def test_event_columns_without_required_field_are_rejected():
    with pytest.raises(ValueError, match="NodeJoined: the columns at, time"):
        build_events(NodeJoined, {"at": [], "time": []})


def test_columns_of_different_lengths_are_rejected():
    columns: dict[str, list[object]] = {name: [None] for name in NAMES}
    with pytest.raises(ValueError, match="different lengths"):
        build_events(NodeJoined, columns | {"node": [None, None]})
