"""The rows that a fold works on, and the changes to store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events.event_fields import TimedEvent
from oracle.domain.events.network_events import DomainEvent, get_event_name
from oracle.domain.feed_rows import is_feed_position
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.preconditions import Violation
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.incidents import IncidentDetector, IncidentRows
from oracle.domain.scoring.group_ranking import ClosingMember
from oracle.domain.scoring.legacy_tally import get_stored_window_tally
from oracle.domain.scoring.node_scores import (
    count_pool_restarts,
    get_pool_for_kickout,
    heal_reliability,
    is_below_kickout_threshold,
    is_excluded_after_change,
)
from oracle.domain.scoring.reliability import DECREASE_CAUSES, ReliabilityCause, change_reliability
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import (
    GroupResult,
    LastEvent,
    Membership,
    Node,
    OpenGroup,
    Task,
    copy_node,
    copy_task,
    create_node,
    create_task,
)


class ScoreEntry(NamedTuple):
    """A task score that was added to a node's pool.

    `seq` numbers the scores of each node from 1.
    """

    node: Address
    seq: int
    task: TaskKey
    group: GroupKey
    rank: int | None
    elapsed: int | None
    score: int
    at: Position
    time: int

    @property
    def is_derived(self) -> bool:
        """Whether the task's membership in the group was derived, because no source lists it.

        A feed never lists members that timed out, so the score of 0 of such members is derived
        from other rows.
        """
        return self.rank is None and is_feed_position(self.at)


class ClosingGroup(NamedTuple):
    """A closed group that waits for its verdict.

    The values are as of the time when the group closed. `size` counts all members, including tasks
    that were never created. `answered` lists the tasks with an answer, fastest first. `invalid`
    holds the tasks whose answers are wrong according to the closing event, and `possible` holds
    the tasks that may be members.
    """

    group: GroupKey
    at: Position
    time: int
    size: int
    members: tuple[ClosingMember, ...]
    answered: tuple[TaskKey, ...]
    invalid: frozenset[TaskKey]
    possible: tuple[TaskKey, ...]

    @property
    def tasks(self) -> frozenset[TaskKey]:
        """Return the task keys of the members."""
        return frozenset(member.task for member in self.members)


class ReliabilityChange(NamedTuple):
    """A change of reliability, in units of 10^-18.

    `before` includes the recovery up to `time`. `before` and `after` are equal if the change is a
    void timeout.
    """

    node: Address
    at: Position
    time: int
    cause: ReliabilityCause
    task: TaskKey | None
    before: int
    after: int


class MembershipTransition(StrEnum):
    JOINED = "joined"
    # While the node is busy, the request is pending; it takes effect when the node's task ends.
    PAUSE_ASKED = "pause_asked"
    PAUSED = "paused"
    RESUMED = "resumed"
    QUIT_ASKED = "quit_asked"
    QUIT = "quit"
    SLASHED = "slashed"
    KICKED_OUT = "kicked_out"


# These only request a transition, which takes effect when the node's task ends.
REQUEST_TRANSITIONS = (MembershipTransition.PAUSE_ASKED, MembershipTransition.QUIT_ASKED)


class MembershipChange(NamedTuple):
    """A change of a node's membership.

    One event may cause two transitions: a join while a quit is pending shows that the quit took
    effect.
    """

    node: Address
    at: Position
    time: int
    transition: MembershipTransition


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An event that broke a rule.

    The fold ignores the event unless the rule allows it. One event may break several rules, and a
    group may break one rule once for each of its tasks. The position is therefore not a key, and
    the order in `Changes` is kept. See docs/reference/events-and-jsonl.md#what-is-legal.
    """

    at: Position
    time: int
    rule: str
    # The event's type, as in docs/reference/events-and-jsonl.md#what-is-legal.
    event: str


@dataclass(frozen=True, slots=True)
class KickoutDue:
    """An interval in which a node's kickout was due.

    `closed_at` is None while the kickout is still due.
    """

    node: Address
    opened_at: Position
    closed_at: Position | None


@dataclass(frozen=True, slots=True)
class PreImages:
    """The rows that a block changed, as they were before the block.

    The value of a new row is None.
    """

    block: int
    nodes: dict[Address, Node | None]
    tasks: dict[TaskKey, Task | None]
    groups: dict[GroupKey, OpenGroup | None]
    # Holds one element, the value before the block; empty if the block had no event.
    last: tuple[LastEvent | None, ...]
    incidents: IncidentRows = field(default_factory=IncidentRows)


@dataclass(slots=True)
class Changes:
    """The changes since the last `drain_changes`, which have to be stored.

    Lists are in position order.
    """

    nodes: dict[Address, Node] = field(default_factory=dict)
    tasks: dict[TaskKey, Task] = field(default_factory=dict)
    groups: dict[GroupKey, OpenGroup] = field(default_factory=dict)
    scores: list[ScoreEntry] = field(default_factory=list)
    reliability: list[ReliabilityChange] = field(default_factory=list)
    memberships: list[MembershipChange] = field(default_factory=list)
    results: list[GroupResult] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    # Intervals that opened or closed; one interval may occur twice.
    kickouts: list[KickoutDue] = field(default_factory=list)
    incidents: IncidentRows = field(default_factory=IncidentRows)
    last: LastEvent | None = None
    pre_images: list[PreImages] = field(default_factory=list)


class WorkingSet:
    """The rows that the fold works on, and the record of its changes.

    A missing key means that there is no such row, so the caller must load rows first. `at` is the
    position of the newest folded event. `node_count` is the number of all nodes, including those
    that are not loaded. `pre_images` holds the changed rows as they were before the current block,
    or is None if old rows are not kept. `closing_groups` holds the groups that closed in the
    current transaction and have no scores yet. `detector` follows the ends of tasks to find
    incidents.
    """

    __slots__ = (
        "at",
        "changes",
        "closing_groups",
        "detector",
        "groups",
        "node_count",
        "nodes",
        "pre_images",
        "quit_transactions",
        "rules",
        "tasks",
    )

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.nodes: dict[Address, Node] = {}
        self.node_count = 0
        self.tasks: dict[TaskKey, Task] = {}
        self.groups: dict[GroupKey, OpenGroup] = {}
        self.changes = Changes()
        self.pre_images: PreImages | None = None
        self.at = Position(0, 0, 0)
        self.closing_groups: list[ClosingGroup] = []
        self.detector = IncidentDetector()
        # For each node whose pending quit took effect, the (block, transaction) in which this
        # happened.
        self.quit_transactions: dict[Address, tuple[int, int]] = {}

    def get_node_for_update(self, address: Address, time: int) -> Node:
        """Return a node for an update, creating it if needed.

        A new node was first seen at `time`.
        """
        node = self.nodes.get(address)
        pre_images = self.pre_images
        if pre_images is not None and address not in pre_images.nodes:
            pre_images.nodes[address] = None if node is None else copy_node(node)
        if node is None:
            node = self.nodes[address] = create_node(
                address, self.node_count, time, count_pool_restarts(time, self.rules)
            )
            self.node_count += 1
        node.changed_at = self.at.block
        self.changes.nodes[address] = node
        return node

    def get_task_for_update(self, key: TaskKey) -> Task:
        """Return a task for an update, creating it if needed."""
        task = self.tasks.get(key)
        pre_images = self.pre_images
        if pre_images is not None and key not in pre_images.tasks:
            pre_images.tasks[key] = None if task is None else copy_task(task)
        if task is None:
            task = self.tasks[key] = create_task(key)
            task.seen_at = self.at.block
        task.changed_at = self.at.block
        self.changes.tasks[key] = task
        return task

    def get_group_for_update(self, key: GroupKey) -> OpenGroup:
        """Return an open group for an update, creating it if needed."""
        group = self.groups.get(key)
        pre_images = self.pre_images
        if pre_images is not None and key not in pre_images.groups:
            pre_images.groups[key] = None if group is None else replace(group)
        if group is None:
            group = self.groups[key] = OpenGroup(key, (), closed=False)
        self.changes.groups[key] = group
        return group

    def record_task_end(
        self, event: DomainEvent, task: Task, node: Address, *, is_timeout: bool = False
    ) -> None:
        """Record the end of a task at a node, for the detection of incidents."""
        self.detector.record_end(event.at, event.time, (task.creator, node), is_timeout=is_timeout)

    def record_anomaly(self, event: DomainEvent, violation: Violation) -> None:
        """Record that an event broke a rule."""
        anomaly = Anomaly(event.at, event.time, violation.value, get_event_name(event))
        self.changes.anomalies.append(anomaly)


# The function that applies the events of a type.
EventHandlers = Mapping[type[DomainEvent], Callable[[WorkingSet, Any], None]]


def update_reliability(
    ledger: WorkingSet, event: TimedEvent, node: Node, cause: ReliabilityCause
) -> None:
    """Change the node's reliability by the rule for the cause, and record the change."""
    rules = ledger.rules
    reliability_before = heal_reliability(node.base, node.since, event.time, rules)
    reliability_after = change_reliability(cause, reliability_before, rules)
    if reliability_before != UNIT or reliability_after != UNIT:
        task = getattr(event, "task", None)
        change = ReliabilityChange(
            node.address, event.at, event.time, cause, task, reliability_before, reliability_after
        )
        ledger.changes.reliability.append(change)
    if rules.has_exclusion_hysteresis:
        node.excluded = is_excluded_after_change(
            reliability_before,
            reliability_after,
            rules,
            was_excluded=node.excluded,
            is_penalty=cause in DECREASE_CAUSES,
        )
    node.base, node.since = reliability_after, event.time


def update_kickout_interval(ledger: WorkingSet, node: Node, position: Position, time: int) -> None:
    """Open or close a node's kickout interval after its pool or membership changed.

    `time` is the block time of the change. The pool of a node that joins may be empty, because the
    pools were restarted since its last score. An interval stays open when the node quits, so that
    a node cannot avoid a kickout by leaving (docs/explanation/kickouts.md#leaving-is-no-way-out).
    """
    rules = ledger.rules
    pool = get_pool_for_kickout(node, time, rules)
    due_since = node.kickout_due_since
    is_accountable = node.membership is Membership.MEMBER or (
        node.membership is Membership.QUIT and due_since is not None
    )
    is_due = (
        is_accountable
        and len(pool) == rules.pool_size
        and is_below_kickout_threshold(node.pool_sum, rules)
    )
    if rules.legacy is not None:
        is_too_low = get_stored_window_tally(node).justifies_kickout(rules.legacy)
        is_due = is_too_low and node.membership is Membership.MEMBER
    if is_due and due_since is None:
        node.kickout_due_since, node.kickout_due_time = position, time
        ledger.changes.kickouts.append(KickoutDue(node.address, position, None))
    elif not is_due and due_since is not None:
        node.kickout_due_since = node.kickout_due_time = None
        ledger.changes.kickouts.append(KickoutDue(node.address, due_since, position))
