"""The name of each event type, such as `task_submitted` for `TaskSubmitted`, and all field kinds.

See docs/reference/events-and-jsonl.md#vocabulary.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from oracle.domain.events.event_fields import FieldKind, get_field_kinds
from oracle.domain.events.network_events import DomainEvent


def _to_snake_case(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")


NAME_BY_TYPE: Mapping[type[DomainEvent], str] = MappingProxyType(
    {kind: _to_snake_case(kind.__name__) for kind in get_args(DomainEvent)}
)
TYPE_BY_NAME: Mapping[str, type[DomainEvent]] = MappingProxyType(
    {name: kind for kind, name in NAME_BY_TYPE.items()}
)


def _collect_field_kinds() -> dict[str, FieldKind]:
    """Return the kind of every event field, by field name.

    Raises:
        TypeError: two events have fields with the same name but different kinds.
    """
    kind_by_name: dict[str, FieldKind] = {}
    for event_type in NAME_BY_TYPE:
        for name, kind in get_field_kinds(event_type).items():
            if kind_by_name.setdefault(name, kind) is not kind:
                raise TypeError(
                    f"{event_type.__name__}.{name}: another event declares another kind of field"
                )
    return kind_by_name


# By field name, in the order of the events.
FIELD_KINDS: Mapping[str, FieldKind] = MappingProxyType(_collect_field_kinds())


def get_event_name(event: DomainEvent) -> str:
    """Return the name of an event's type, as in the field `type` of JSON lines."""
    return NAME_BY_TYPE[type(event)]
