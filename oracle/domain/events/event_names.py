"""The events' names, such as `task_submitted` for `TaskSubmitted`, and all field kinds.

See docs/reference/events-and-jsonl.md#vocabulary.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from oracle.domain.events.event_fields import FieldKind, field_kinds_of
from oracle.domain.events.network_events import DomainEvent


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


NAMES: Mapping[type[DomainEvent], str] = MappingProxyType(
    {kind: _snake(kind.__name__) for kind in get_args(DomainEvent)}
)
TYPES: Mapping[str, type[DomainEvent]] = MappingProxyType(
    {name: kind for kind, name in NAMES.items()}
)


def _field_kinds() -> dict[str, FieldKind]:
    """Return the kind of each field of any event.

    Raises:
        TypeError: two events have fields of one name and of different kinds.
    """
    kinds: dict[str, FieldKind] = {}
    for event_type in NAMES:
        for name, kind in field_kinds_of(event_type).items():
            if kinds.setdefault(name, kind) is not kind:
                raise TypeError(f"{event_type.__name__}.{name} is of another kind elsewhere")
    return kinds


# By name, in the order of the events.
FIELD_KINDS: Mapping[str, FieldKind] = MappingProxyType(_field_kinds())


def name_of(event: DomainEvent) -> str:
    """Return the `type` of an event."""
    return NAMES[type(event)]
