"""Computes the state after any block in memory: raw rows folded onto the nearest snapshot.

See docs/explanation/storage.md#state-snapshots.
"""

from dataclasses import dataclass
from hashlib import sha256

from oracle.chain.profiles.event_reader import Decoded
from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRange
from oracle.domain.fold.fold import FOLD_VERSION, Fold
from oracle.domain.fold.row_prefetch import (
    open_group_keys_in,
    task_keys_in,
    task_keys_of_open_groups,
)
from oracle.domain.ids import GroupKey, TaskKey
from oracle.domain.reports.registration import FirstEvents
from oracle.domain.reports.report import MIN_SCORES
from oracle.domain.reports.rounds import Rounds
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.task import Task
from oracle.errors import OracleError
from oracle.indexer.feeds.feed_events import with_feed
from oracle.indexer.stored_events import chunks
from oracle.store.database import UnitOfWork
from oracle.store.state.snapshot_codec import PackedState, pack, unpack
from oracle.store.state.snapshot_repository import StateSnapshot

# Number of snapshots tried before everything is folded from the start.
_MAX_SNAPSHOTS = 3


class NoNearbySnapshotError(OracleError):
    """No snapshot is close enough to the block, so folding would take too long."""


class _ChangedRowError(Exception):
    """A task or group that the snapshot omits changed after it; its stored row is newer."""


@dataclass(frozen=True, slots=True)
class FoldedState:
    """The state after some block, in memory: everything that a report is built from.

    `snapshot_block`: the block of the snapshot that the fold started from; None: from nothing.
    """

    fold: Fold
    rounds: Rounds
    first_events: FirstEvents
    snapshot: int | None = None


def snapshot_version(reader: LogReader, rules: Rules, min_scores: int) -> bytes:
    """Return a digest of everything that a snapshot depends on besides the raw rows."""
    parts = (str(FOLD_VERSION), reader.identity, rules.to_json(), str(min_scores))
    return sha256("\n".join(parts).encode()).digest()


def folded_up_to(
    uow: UnitOfWork,
    reader: LogReader,
    rules: Rules,
    last: int,
    min_scores: int = MIN_SCORES,
    *,
    max_logs: int | None = None,
) -> FoldedState:
    """Return the state after `last_block`, folded in memory from the stored rows alone.

    `min_scores` matters for registrations. `max_logs`: how many logs may be folded.

    Raises:
        NoNearbySnapshotError: more than `max_logs` logs follow the nearest snapshot.
    """
    made_by = snapshot_version(reader, rules, min_scores)
    tried = 0
    for snapshot in uow.snapshots.newest_to(last, made_by):
        if tried == _MAX_SNAPSHOTS:
            break
        tried += 1
        _check_distance(uow, snapshot.block + 1, last, max_logs)
        try:
            state = _restored(uow, snapshot, rules, min_scores)
            _fold_on(uow, reader, state, last)
        except _ChangedRowError:
            continue
        return state
    _check_distance(uow, 0, last, max_logs)
    state = FoldedState(Fold(rules), Rounds(), FirstEvents(min_scores))
    _fold_on(uow, reader, state, last)
    return state


def packed_state(state: FoldedState, kept_since: int) -> bytes:
    """Return the state as the body of a snapshot.

    The body has the tasks that have not ended, and those that changed from block
    `tasks_since_block` on. The database has the others unchanged, and a fold from the snapshot
    detects any that changed.
    """
    ledger, rounds = state.fold.ledger, state.rounds
    scored, timed_out = state.first_events.rows()
    return pack(
        PackedState(
            nodes=ledger.nodes.values(),
            tasks=(
                task
                for task in ledger.tasks.values()
                if task.ending is None or task.changed_at >= kept_since
            ),
            groups=(group for group in ledger.groups.values() if not group.closed),
            last=state.fold.last,
            head=rounds.head,
            indexes=rounds.indexes.values(),
            words=rounds.words.values(),
            kicks=rounds.kicks.values(),
            first_scored=scored,
            first_timed_out=timed_out,
        )
    )


def _restored(
    uow: UnitOfWork, snapshot: StateSnapshot, rules: Rules, min_scores: int
) -> FoldedState:
    packed, fold = unpack(snapshot.body), Fold(rules)
    fold.last = packed.last
    fold.ledger.nodes.update((node.address, node) for node in packed.nodes)
    fold.ledger.tasks.update((task.key, task) for task in packed.tasks)
    fold.ledger.groups.update((group.group, group) for group in packed.groups)
    rounds = Rounds(
        head=packed.head,
        indexes=packed.indexes,
        words=packed.words,
        kicks=packed.kicks,
        standing=uow.rounds.standing(up_to_block=snapshot.block),
    )
    first_events = FirstEvents(min_scores)
    first_events.restore(packed.first_scored, packed.first_timed_out)
    return FoldedState(fold, rounds, first_events, snapshot.block)


def _fold_on(uow: UnitOfWork, reader: LogReader, state: FoldedState, last: int) -> None:
    first = 0 if state.snapshot is None else state.snapshot + 1
    if first > last:
        return
    for part, logs in chunks(uow, BlockRange(first, last)):
        said = reader.read(logs, list(uow.calls.between(part.first, part.last)))
        said = with_feed(uow, reader, said, part)
        if state.snapshot is not None:
            _load_left_out(uow, state, said, state.snapshot)
        state.fold.many(said.events)
        state.rounds.block(part.last, said.contract_events, journal=False)
        # Nothing is stored here.
        state.first_events.note(state.fold.drain())
        state.rounds.drain()


def _load_left_out(uow: UnitOfWork, state: FoldedState, said: Decoded, snapshot: int) -> None:
    """Load the rows that events name but the snapshot omits, if they are unchanged.

    Raises:
        _ChangedRowError: one has changed since.
    """
    ledger, rules = state.fold.ledger, state.fold.rules
    named = task_keys_in(said.events)
    _load_tasks(uow, ledger.tasks, named, snapshot)
    known = {key: ledger.tasks[key] for key in named & ledger.tasks.keys()}
    groups = open_group_keys_in(said.events, known, rules) - ledger.groups.keys()
    for group in uow.groups.named(groups).values():
        members = uow.tasks.named(group.tasks).values()
        if any(task.seen_at <= snapshot for task in members):
            # A group that is not among the snapshot's open ones was closed, and is never reopened.
            if not group.closed or any(task.seen_at > snapshot for task in members):
                raise _ChangedRowError
            ledger.groups[group.group] = group
    _load_members(uow, state, groups | (open_group_keys_in(said.events, known, rules)), snapshot)


def _load_members(
    uow: UnitOfWork, state: FoldedState, groups: set[GroupKey], snapshot: int
) -> None:
    ledger = state.fold.ledger
    open_groups = [ledger.groups[key] for key in groups & ledger.groups.keys()]
    _load_tasks(uow, ledger.tasks, task_keys_of_open_groups(open_groups), snapshot)


def _load_tasks(
    uow: UnitOfWork, tasks: dict[TaskKey, Task], named: set[TaskKey], snapshot: int
) -> None:
    for key, task in uow.tasks.named(named - tasks.keys()).items():
        if task.changed_at <= snapshot:
            tasks[key] = task
        elif task.seen_at <= snapshot:
            raise _ChangedRowError


def _check_distance(uow: UnitOfWork, first: int, last: int, max_logs: int | None) -> None:
    if max_logs is not None and uow.logs.count_between(first, last) > max_logs:
        raise NoNearbySnapshotError(
            f"the state after block {last} takes a fold of more than {max_logs} logs: the daemon "
            "makes snapshots of such blocks while it is at the head; ask again later, or run "
            f"`qos-oracle explain --at {last}`"
        )
