"""The fold's working set: what it was given, what it changed, what it wants written down."""

from dataclasses import dataclass, field
from enum import StrEnum

from oracle.domain.block import Position
from oracle.domain.groups import GroupResult, OpenGroup
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.nodes import Node
from oracle.domain.tasks import Task


@dataclass(frozen=True, slots=True)
class ScoreEntry:
    """One task score that entered a node's pool; `seq` counts from 1 for each node."""

    node: Address
    seq: int
    task: TaskKey
    group: GroupKey
    rank: int | None
    elapsed: int | None
    score: int
    at: Position
    time: int


class ReliabilityCause(StrEnum):
    JOINED = "joined"
    TIMED_OUT = "timed_out"
    SUCCEEDED = "succeeded"
    REFUNDED = "refunded"


@dataclass(frozen=True, slots=True)
class ReliabilityChange:
    """One change of H; `before` (healed up to `time`) and `after` in units of 10^-18."""

    node: Address
    at: Position
    time: int
    cause: ReliabilityCause
    task: TaskKey | None
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An event that broke a rule of events.md; ignored whole, but for the few that say so.

    One event may break several rules, and a group may break one rule once for each of its
    tasks: the position is not a key; their order in `Changes` is kept.
    """

    at: Position
    time: int
    rule: str
    # The event's type as events.md spells it.
    event: str


@dataclass(frozen=True, slots=True)
class KickoutDue:
    """A spell in which the kickout predicate held; `closed_at` None while it still does."""

    node: Address
    opened_at: Position
    closed_at: Position | None


@dataclass(frozen=True, slots=True)
class LastEvent:
    """The newest event folded; time order is judged against it."""

    at: Position
    time: int


@dataclass(frozen=True, slots=True)
class PreImages:
    """What one block changed, as it was before that block; None: it was not there."""

    block: int
    nodes: dict[Address, Node | None]
    tasks: dict[TaskKey, Task | None]
    groups: dict[GroupKey, OpenGroup | None]
    # The value before the block, in a tuple of one; empty when the block folded no event.
    last: tuple[LastEvent | None, ...]


@dataclass(slots=True)
class Changes:
    """What has to be written down since the last `drain`; lists in position order."""

    nodes: dict[Address, Node] = field(default_factory=dict)
    tasks: dict[TaskKey, Task] = field(default_factory=dict)
    groups: dict[GroupKey, OpenGroup] = field(default_factory=dict)
    scores: list[ScoreEntry] = field(default_factory=list)
    reliability: list[ReliabilityChange] = field(default_factory=list)
    results: list[GroupResult] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    # Spells opened, and spells closed (a spell may stand here twice: opened, then closed).
    kickouts: list[KickoutDue] = field(default_factory=list)
    last: LastEvent | None = None
    pre_images: list[PreImages] = field(default_factory=list)
