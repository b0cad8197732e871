"""The events' names: `task_submitted` for `TaskSubmitted`.

See docs/reference/events-and-jsonl.md#vocabulary.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from oracle.domain.events.network_events import DomainEvent


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


NAMES: Mapping[type[DomainEvent], str] = MappingProxyType(
    {kind: _snake(kind.__name__) for kind in get_args(DomainEvent)}
)
TYPES: Mapping[str, type[DomainEvent]] = MappingProxyType(
    {name: kind for kind, name in NAMES.items()}
)


def name_of(event: DomainEvent) -> str:
    """Return the `type` of an event."""
    return NAMES[type(event)]
