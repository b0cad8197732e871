"""A suspected incident, during which timeouts were probably not the fault of the nodes.

See docs/explanation/incidents.md.
"""

from collections.abc import Iterable
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.ids import Address


class Incident(NamedTuple):
    """A period in which timeouts were probably not the fault of the nodes.

    `number` counts from 1, in the order in which the incidents were found. `creator` is the
    creator whose tasks timed out, or None for a network outage. `since` and `until` are block
    times, and the incident marks the timeouts between them, both included. `until` moves while the
    incident is open. `nodes` and `timeouts` are the maximum numbers of nodes with a timeout and of
    their timeouts in one window. `over_at` and `over_time` are None while the incident is open.
    """

    number: int
    creator: Address | None
    found_at: Position
    found_time: int
    since: int
    until: int
    nodes: int
    timeouts: int
    over_at: Position | None = None
    over_time: int | None = None

    @property
    def is_network_outage(self) -> bool:
        return self.creator is None

    def is_known_at(self, at: Position) -> bool:
        """Return whether the incident was found at this position or before it."""
        return self.found_at <= at

    def marks(self, time: int, creator: Address | None, known_at: Position | None = None) -> bool:
        """Return whether the incident marks a timeout of a creator's task at a block time.

        With `known_at`, the result is what was known at this position: an incident that was still
        open then marks every timeout since its start, up to this position.
        """
        if self.creator is not None and self.creator != creator:
            return False
        if known_at is None:
            return self.since <= time <= self.until
        was_over = self.over_at is not None and self.over_at <= known_at
        return self.is_known_at(known_at) and self.since <= time <= (
            self.until if was_over else time
        )


def find_incident_marking_timeout(
    incidents: Iterable[Incident],
    time: int,
    creator: Address | None,
    known_at: Position | None = None,
) -> Incident | None:
    """Return the first incident that marks a timeout at a block time, or None if none does.

    `creator` and `known_at` have the same meaning as in `Incident.marks`.
    """
    marking = (incident for incident in incidents if incident.marks(time, creator, known_at))
    return next(marking, None)
