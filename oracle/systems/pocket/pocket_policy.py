"""Pocket's profiles as policies: `article`, the default, and `portal_api_head`, bug for bug."""

from dataclasses import dataclass

from oracle.systems.pocket import parameters
from oracle.systems.pocket.follower import PocketFollower
from oracle.systems.pocket.parameters import Parameters


@dataclass(frozen=True, slots=True)
class PocketPolicy:
    """A selection policy of Pocket, which compares latencies within one kind of task."""

    name: str
    version: int
    params: Parameters

    def create_follower(self) -> PocketFollower:
        """Return a follower that has seen no event."""
        return PocketFollower(self.params)


ARTICLE = PocketPolicy("article", 2, parameters.ARTICLE)
PORTAL_API_HEAD = PocketPolicy("portal_api_head", 1, parameters.PORTAL_API_HEAD)
