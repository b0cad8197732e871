"""The oracle contract's state as rows: its head, indexes, words, and settings."""

from dataclasses import dataclass, field
from typing import NamedTuple

from oracle.domain.events.oracle_events import (
    ConfigSet,
    KickLimitsSet,
    LimitsSet,
    RoundAccepted,
    SettingEvent,
)
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.kicks import Kick
from oracle.domain.reports.lanes import LOWEST_SCORE

# This many lanes may always fall at once, so that small networks are not held up.
MIN_ALLOWED_FALLS = 4
_SHARE_UNIT = 10_000


@dataclass(frozen=True, slots=True)
class RoundHead:
    """The last accepted round; before the first one, `round` is 0 and `digest` is zero.

    `time` is the time of the block that accepted the round, or 0 before the first.
    """

    round: int = 0
    as_of: int = 0
    digest: Hash = ZERO_HASH
    time: int = 0


@dataclass(frozen=True, slots=True)
class NodeIndex:
    """One lane and the node that holds it.

    `closed_in` is the round since which the lane has been "do not select", or None if it is not.
    """

    index: int
    node: Address
    closed_in: int | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """Sixteen lanes as stored in the contract, with the round that wrote them and its time."""

    index: int
    value: int
    round: int
    time: int


@dataclass(frozen=True, slots=True)
class RoundsPreImages:
    """The rows of the contract's state before one block; None if a row did not exist."""

    block: int
    words: dict[int, Word | None]
    indexes: dict[int, NodeIndex | None]
    kicks: dict[Address, Kick | None]
    # The head before the block as a tuple of one; empty if the block accepted no round.
    head: tuple[RoundHead, ...]


@dataclass(slots=True)
class RoundsChanges:
    """The changes to store since the last `drain_changes`."""

    words: dict[int, Word] = field(default_factory=dict)
    indexes: dict[int, NodeIndex] = field(default_factory=dict)
    kicks: dict[Address, Kick] = field(default_factory=dict)
    head: RoundHead | None = None
    accepted: list[RoundAccepted] = field(default_factory=list)
    # Settings made by the contract's administrators: the vetoer, limits, the configuration of
    # signers and rules.
    settings: list[SettingEvent] = field(default_factory=list)
    pre_images: list[RoundsPreImages] = field(default_factory=list)


class RoundLimits(NamedTuple):
    """The contract's limits for one round; the defaults are those of `contract deploy`.

    `max_new_nodes` is the number of nodes that may get an index. `fall_share`, in 1/10,000, is the
    share of the open lanes that may fall at once (four always may). A lane falls if it closes or
    drops by more than `big_fall` steps.
    """

    max_new_nodes: int = 200
    fall_share: int = 1000
    big_fall: int = 2500

    def compute_max_falls(self, open_lanes: int) -> int:
        """Return how many lanes may fall in a round if `open_lanes` lanes were open before."""
        return max(MIN_ALLOWED_FALLS, open_lanes * self.fall_share // _SHARE_UNIT)

    def is_fall(self, old_lane: int, new_lane: int) -> bool:
        """Return whether a lane closes or drops by more than `big_fall`.

        The first value of a lane is never a fall.
        """
        is_closed = old_lane >= LOWEST_SCORE > new_lane
        return is_closed or new_lane + self.big_fall < old_lane


@dataclass(frozen=True, slots=True)
class ContractSettings:
    """The newest settings of the contract; a setting is None if no block read so far set it."""

    vetoer: Address | None = None
    limits: LimitsSet | None = None
    kick_limits: KickLimitsSet | None = None
    config: ConfigSet | None = None
