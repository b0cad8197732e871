"""Short histories as chains of method calls."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, get_args

from oracle.domain.blocks import Position
from oracle.domain.events import network_events
from oracle.domain.events.event_fields import get_field_kinds
from oracle.domain.events.network_events import (
    AbortReason,
    DomainEvent,
    DownloadRequested,
    FeeShared,
    LastStatus,
)
from oracle.domain.fold.fold import Fold
from oracle.domain.fold.working_set import Changes
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.systems.crynux.crynux_rule_sets import CRYNUX

GENESIS_TIME = 1000
# Kinds of events that name a node and nothing else.
NODE_ONLY_KINDS: tuple[type[Any], ...] = tuple(
    kind for kind in get_args(network_events.NodeEvent) if get_field_kinds(kind).keys() == {"node"}
)


def make_node_address(name: str) -> Address:
    return Address("0x" + name.encode().hex().rjust(40, "0"))


def make_task_key(name: str) -> TaskKey:
    return TaskKey("0x" + name.encode().hex().rjust(64, "0"))


def make_group_key(name: str) -> GroupKey:
    return GroupKey("0x" + name.encode().hex().rjust(64, "0"))


class History:
    """Consecutive events: `History().joins("A").starts("1", "A").after(9).submits("1")`.

    Every event is the next log of the block; `after` moves to a later block.
    """

    def __init__(self) -> None:
        self.events: list[DomainEvent] = []
        self.block = 1
        self.time = GENESIS_TIME
        self._log = 0
        # The transaction of the next events; None: each event has its own.
        self._tx: int | None = None
        self._runs: dict[str, str] = {}
        self._made = 0

    def after(self, seconds: int, *, blocks: int = 1) -> Self:
        self.block += blocks
        self.time += seconds
        self._log = 0
        return self

    def adds(self, event: DomainEvent) -> Self:
        """Append an event at the next position."""
        transaction = self._log if self._tx is None else self._tx
        at = Position(self.block, transaction, self._log)
        self._log += 1
        self.events.append(replace(event, at=at, time=self.time))
        return self

    def emits(self, kind: type[DomainEvent], /, **values: Any) -> Self:
        return self.adds(kind(at=Position(0, 0, 0), time=0, **values))

    def joins(self, *names: str, **values: Any) -> Self:
        for name in names:
            self.emits(network_events.NodeJoined, node=make_node_address(name), **values)
        return self

    def updates(self, name: str, **values: Any) -> Self:
        return self.emits(network_events.NodeUpdated, node=make_node_address(name), **values)

    def adds_model(self, name: str, model: str) -> Self:
        return self.emits(network_events.ModelAdded, node=make_node_address(name), model=model)

    def is_asked_to_download(self, name: str, model: str, until: int = 0) -> Self:
        download_fields = {
            "node": make_node_address(name),
            "model": model,
            "until": until or self.time + 1800,
        }
        return self.emits(DownloadRequested, **download_fields)

    def has_event(self, kind: type[Any], name: str) -> Self:
        """Append an event of a kind of NODE_ONLY_KINDS."""
        return self.emits(kind, node=make_node_address(name))

    def pauses(self, name: str) -> Self:
        return self.has_event(network_events.NodePaused, name)

    def resumes(self, name: str) -> Self:
        return self.has_event(network_events.NodeResumed, name)

    def quits(self, name: str) -> Self:
        return self.has_event(network_events.NodeQuit, name)

    def asks_to_pause(self, name: str) -> Self:
        return self.has_event(network_events.NodePauseAsked, name)

    def asks_to_quit(self, name: str) -> Self:
        return self.has_event(network_events.NodeQuitAsked, name)

    def is_slashed(self, name: str) -> Self:
        return self.has_event(network_events.NodeSlashed, name)

    def is_kicked_out(self, name: str) -> Self:
        return self.has_event(network_events.NodeKickedOut, name)

    def creates(self, *names: str, of: str | None = None, **values: Any) -> Self:
        key = None if of is None else make_group_key(of)
        for name in names:
            self.emits(network_events.TaskCreated, task=make_task_key(name), group=key, **values)
        return self

    def queues(self, name: str) -> Self:
        return self.emits(network_events.TaskQueued, task=make_task_key(name))

    def starts(self, name: str, on: str, *, place: int | None = None) -> Self:
        self._runs[name] = on
        return self.emits(
            network_events.TaskStarted,
            task=make_task_key(name),
            node=make_node_address(on),
            round=place,
        )

    def submits(self, name: str, by: str | None = None) -> Self:
        runner = make_node_address(by or self._runs.get(name, "nobody"))
        return self.emits(network_events.TaskSubmitted, task=make_task_key(name), node=runner)

    def reports_error(self, name: str, by: str | None = None) -> Self:
        runner = make_node_address(by or self._runs.get(name, "nobody"))
        return self.emits(network_events.TaskErrorReported, task=make_task_key(name), node=runner)

    def commits(self, name: str, by: str) -> Self:
        return self.emits(
            network_events.ResultCommitted, task=make_task_key(name), node=make_node_address(by)
        )

    def discloses(self, name: str, by: str) -> Self:
        return self.emits(
            network_events.ResultDisclosed, task=make_task_key(name), node=make_node_address(by)
        )

    def is_paid(self, name: str, by: str, fee: int) -> Self:
        return self.emits(FeeShared, task=make_task_key(name), node=make_node_address(by), fee=fee)

    def validates(self, name: str) -> Self:
        return self.emits(network_events.TaskValidated, task=make_task_key(name))

    def succeeds(self, name: str, by: str | None = None) -> Self:
        return self._ends(network_events.TaskSucceeded, name, by)

    def is_refunded(self, name: str, by: str | None = None) -> Self:
        return self._ends(network_events.TaskRefunded, name, by)

    def is_invalidated(self, name: str, by: str | None = None) -> Self:
        return self._ends(network_events.TaskInvalidated, name, by)

    def aborts(
        self,
        name: str,
        reason: AbortReason | None = None,
        last_status: LastStatus | None = None,
        by: str | None = None,
    ) -> Self:
        return self._ends(
            network_events.TaskAborted, name, by, reason=reason, last_status=last_status
        )

    def times_out(
        self, name: str, last_status: LastStatus | None = None, by: str | None = None
    ) -> Self:
        return self._ends(network_events.TaskTimedOut, name, by, last_status=last_status)

    def _ends(self, kind: type[DomainEvent], name: str, by: str | None, **values: Any) -> Self:
        runner = None if by is None else make_node_address(by)
        return self.emits(kind, task=make_task_key(name), node=runner, **values)

    def closes(self, name: str, *tasks: str) -> Self:
        return self.emits(
            network_events.GroupValidated,
            group=make_group_key(name),
            tasks=tuple(make_task_key(t) for t in tasks),
        )

    def judges(
        self, name: str, *tasks: str, right: Sequence[str] = (), wrong: Sequence[str] = ()
    ) -> Self:
        """Close a group and give its verdict in the same transaction."""
        self._tx = self._log
        self.closes(name, *tasks)
        for key in right:
            self.validates(key).is_refunded(key)
        for key in wrong:
            self.is_invalidated(key)
        self._tx = None
        return self

    def judges_nothing(self, name: str, *tasks: str, errors: Sequence[str] = ()) -> Self:
        """Close a group without a majority for a result, so that every answer is aborted."""
        self._tx = self._log
        self.closes(name, *tasks)
        for key in tasks:
            reason = AbortReason.ERROR_REPORTED if key in errors else AbortReason.INCORRECT_RESULT
            self.aborts(key, reason)
        self._tx = None
        return self

    def scores(self, name: str, *scores: int) -> Self:
        """Give a node task scores of 10, 5, 2 or 0, in groups with nodes created for this.

        A score of 0 is a timeout, with its effect on H.
        """
        for score in scores:
            self._score(name, score)
        return self

    def _score(self, name: str, score: int) -> None:
        self._made += 1
        # A group of three, so that more than half have answered if this node has not.
        place = {10: 0, 5: 1, 2: 2, 0: 2}[score]
        runners = [f"{self._made}-{n}" for n in range(place)] + [name]
        tasks = [f"{self._made}/{n}" for n in range(len(runners))]
        for key, runner in zip(tasks, runners, strict=True):
            self.starts(key, runner)
        finished = tasks[:-1] if score == 0 else tasks
        for key in finished:
            if score or key == tasks[0]:
                self.after(1)
            self.submits(key)
        if score == 0:
            self.times_out(tasks[-1])
        self.closes(f"made {self._made}", *tasks)
        for key in finished:
            self.aborts(key)


def fold_history(
    history: History | list[DomainEvent], rules: Rules = CRYNUX
) -> tuple[Fold, Changes]:
    """Fold a history from the start; return the fold and all its changes."""
    events = history.events if isinstance(history, History) else history
    fold = Fold(rules)
    fold.fold_events(sorted(events, key=lambda event: event.at))
    return fold, fold.drain_changes()


def fold_node(history: History, name: str, rules: Rules = CRYNUX) -> Node:
    fold, _ = fold_history(history, rules)
    return fold.ledger.nodes[make_node_address(name)]


def build_changed_rules(**changes: Any) -> Rules:
    return replace(CRYNUX, **changes)
