"""How each endpoint is, for `status`: seen by the daemon, and kept for other processes."""

from dataclasses import dataclass

from oracle.chain.source import ChainSource
from oracle.rpc.endpoints.capabilities import CapabilityStore

# What is older says nothing any more, in seconds.
_LASTING = 120.0
_UNKNOWN = "not seen by a daemon of late"
_WELL, _STALLED = "ok", "stands still:"


@dataclass(frozen=True, slots=True)
class EndpointView:
    """One endpoint: its newest block, None while unknown, and in words how it is."""

    name: str
    head: int | None
    state: str

    def answer(self, newest: int | None) -> dict[str, object]:
        """Write it for programs; `newest` is the highest block of all of them."""
        lag = None if newest is None or self.head is None else newest - self.head
        return {"endpoint": self.name, "head": self.head, "lag_blocks": lag, "state": self.state}


def look(source: ChainSource, facts: CapabilityStore) -> list[EndpointView]:
    """Return how the endpoints of this process are, and have it kept; asks none of them."""
    states = source.endpoints.states()
    stalled = source.tracker.stalled_seconds
    views = []
    for endpoint in source.endpoints:
        head = None if endpoint.highest_block < 0 else endpoint.highest_block
        state = states[endpoint.name]
        if state == _WELL and stalled is not None:
            state = f"{_STALLED} no new block for {stalled:.0f} s"
        views.append(EndpointView(endpoint.name, head, state))
        if head is not None:
            facts.keep(endpoint.name, "head", str(head), _LASTING)
        facts.keep(endpoint.name, "state", state, _LASTING)
    return views


def recall(source: ChainSource, facts: CapabilityStore) -> list[EndpointView]:
    """Return how the endpoints were to the daemon that works on this database.

    That one was proven wrong is known for good, also where no daemon works.
    """
    views, wrong = [], source.proven_wrong()
    states = source.endpoints.states()
    for endpoint in source.endpoints:
        kept = facts.recall(endpoint.name)
        head = kept.get("head", "")
        number = int(head) if head.isdecimal() else None
        said = kept.get("state", _UNKNOWN)
        state = states[endpoint.name] if endpoint.name in wrong else said
        views.append(EndpointView(endpoint.name, number, state))
    return views


def newest_of(views: list[EndpointView]) -> int | None:
    """Return the highest block that any of them has shown."""
    return max((view.head for view in views if view.head is not None), default=None)


def endpoint_answers(views: list[EndpointView]) -> list[dict[str, object]]:
    """Write all of them for programs."""
    return [view.answer(newest_of(views)) for view in views]
