"""Pocket's profiles as policies: `article`, the default, and `portal_api_head`, bug for bug."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from oracle.systems.pocket import parameters
from oracle.systems.pocket.follower import PocketFollower
from oracle.systems.pocket.parameters import Parameters


@dataclass(frozen=True, slots=True)
class PocketPolicy:
    """Satisfies `Policy`.

    `by_kind`: latencies are compared within a kind of task, else all of them. `special`: scopes
    (kinds of task, "any" where none is known) with parameters of their own.
    """

    name: str
    version: int
    params: Parameters
    by_kind: bool = True
    special: Mapping[str, Parameters] = field(default_factory=dict)

    def follow(self) -> PocketFollower:
        """Return one that has seen nothing yet."""
        return PocketFollower(self.params, self.special, by_kind=self.by_kind)


ARTICLE = PocketPolicy("article", 1, parameters.ARTICLE)
PORTAL_API_HEAD = PocketPolicy("portal_api_head", 1, parameters.PORTAL_API_HEAD)
