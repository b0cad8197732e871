"""Computes the state after any block by folding raw rows in memory, from a snapshot on.

See docs/explanation/storage.md#state-snapshots.
"""

from dataclasses import dataclass, field
from hashlib import sha256

from oracle.chain.profiles.event_reader import DecodedEvents, EventReader
from oracle.domain.blocks import BlockRange
from oracle.domain.fold.fold import (
    FOLD_VERSION,
    Fold,
    collect_open_group_keys,
    collect_open_group_task_keys,
    collect_task_keys,
)
from oracle.domain.ids import TaskKey
from oracle.domain.incidents import Incident
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.reports.kickout_review import ScoreHistory
from oracle.domain.roots.pieces import KEPT_ROUNDS
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Task
from oracle.errors import OracleError
from oracle.indexer.stored_events import iterate_decoded_chunks
from oracle.store.database import UnitOfWork
from oracle.store.state.snapshot_repository import (
    PackedState,
    StateSnapshot,
    decode_state,
    encode_state,
)

# After this many unusable snapshots, everything is folded from the first block.
MAX_SNAPSHOTS_TRIED = 3


class NoNearbySnapshotError(OracleError):
    """Raised if folding would take too long, because no snapshot is close to the block."""


class _ChangedRowError(Exception):
    """Raised if a task or group that the snapshot lacks has changed since the snapshot."""


@dataclass(frozen=True, slots=True)
class FoldedState:
    """The state in memory after a block, with everything that a report needs.

    `snapshot_block` is the block of the snapshot on which the fold started, or None.
    `score_history` and `dead_letter_blocks` contain only rows that were folded after the snapshot.
    `incidents` are those that were open at the snapshot or were found after it, by number.
    """

    fold: Fold
    contract_state: ContractState
    score_history: ScoreHistory
    snapshot_block: int | None = None
    # Blocks with a log or call that could not be decoded.
    dead_letter_blocks: list[int] = field(default_factory=list)
    incidents: dict[int, Incident] = field(default_factory=dict)

    def record_changes(self) -> None:
        """Record the changes that were folded since the last call.

        They must be the changes of whole blocks.
        """
        changes = self.fold.drain_changes()
        self.score_history.record_changes(changes, self.fold.ledger.tasks)
        self.incidents.update(changes.incidents.list_incidents())


def compute_snapshot_version(reader: EventReader, rules: Rules) -> bytes:
    """Compute a digest of everything that a snapshot depends on besides the raw rows."""
    version_parts = (str(FOLD_VERSION), reader.identity, rules.to_json())
    return sha256("\n".join(version_parts).encode()).digest()


def fold_state_up_to(
    uow: UnitOfWork,
    reader: EventReader,
    rules: Rules,
    last_block: int,
    *,
    max_logs: int | None = None,
) -> FoldedState:
    """Return the state after `last_block`, folded in memory from stored rows only.

    `max_logs`: maximum number of logs to fold, or None for no limit.

    Raises:
        NoNearbySnapshotError: more than `max_logs` logs follow the nearest snapshot.
    """
    version = compute_snapshot_version(reader, rules)
    tried_count = 0
    for snapshot in uow.snapshots.iterate_snapshots_up_to(last_block, version):
        if tried_count == MAX_SNAPSHOTS_TRIED:
            break
        tried_count += 1
        _check_log_count(uow, snapshot.block + 1, last_block, max_logs)
        try:
            state = _restore_state(uow, snapshot, rules)
            _fold_remaining_blocks(uow, reader, state, last_block)
        except _ChangedRowError:
            continue
        return state
    _check_log_count(uow, 0, last_block, max_logs)
    state = FoldedState(Fold(rules), ContractState(KEPT_ROUNDS), ScoreHistory(rules))
    _fold_remaining_blocks(uow, reader, state, last_block)
    return state


def pack_state(state: FoldedState, first_task_block: int) -> bytes:
    """Encode the state as the body of a snapshot.

    The body contains the tasks that have not ended, and the tasks that changed in block
    `first_task_block` or later. A fold that starts on the snapshot reads all other tasks from the
    database, and detects whether one of them has changed since the snapshot.
    """
    ledger = state.fold.ledger
    return encode_state(
        PackedState(
            nodes=ledger.nodes.values(),
            tasks=(
                task
                for task in ledger.tasks.values()
                if task.ending is None or task.changed_at >= first_task_block
            ),
            groups=(group for group in ledger.groups.values() if not group.closed),
            last=state.fold.last,
            kicks=state.contract_state.kicks.values(),
            detector=ledger.detector,
        )
    )


def _restore_state(uow: UnitOfWork, snapshot: StateSnapshot, rules: Rules) -> FoldedState:
    packed_state = decode_state(snapshot.body)
    fold = Fold(rules)
    fold.last = packed_state.last
    fold.ledger.detector = packed_state.detector
    fold.ledger.nodes.update((node.address, node) for node in packed_state.nodes)
    fold.ledger.tasks.update((task.key, task) for task in packed_state.tasks)
    fold.ledger.groups.update((group.group, group) for group in packed_state.groups)
    contract_state = uow.rounds.load_contract_state(up_to_block=snapshot.block)
    contract_state.kicks = {kick.node: kick for kick in packed_state.kicks}
    return FoldedState(
        fold,
        contract_state,
        ScoreHistory(rules),
        snapshot.block,
        incidents={incident.number: incident for incident in packed_state.detector.open_incidents},
    )


def _fold_remaining_blocks(
    uow: UnitOfWork, reader: EventReader, state: FoldedState, last_block: int
) -> None:
    first_block = 0 if state.snapshot_block is None else state.snapshot_block + 1
    if first_block > last_block:
        return
    remaining_blocks = BlockRange(first_block, last_block)
    for blocks, _, decoded_events in iterate_decoded_chunks(uow, reader, remaining_blocks):
        if state.snapshot_block is not None:
            _load_omitted_rows(uow, state, decoded_events, state.snapshot_block)
        state.fold.fold_events(decoded_events.events)
        state.contract_state.fold_block(blocks.last, decoded_events.contract_events, journal=False)
        # The changes are not stored; draining them only frees memory.
        state.record_changes()
        state.contract_state.drain_changes()
        state.dead_letter_blocks.extend(letter.block for letter in decoded_events.dead_letters)


def _load_omitted_rows(
    uow: UnitOfWork, state: FoldedState, decoded_events: DecodedEvents, snapshot_block: int
) -> None:
    """Load rows that the events need but the snapshot does not contain.

    Raises:
        _ChangedRowError: one of these rows has changed since the snapshot.
    """
    ledger, rules = state.fold.ledger, state.fold.rules
    task_keys = collect_task_keys(decoded_events.events)
    _load_tasks(uow, ledger.tasks, task_keys, snapshot_block)
    known_tasks = {key: ledger.tasks[key] for key in task_keys & ledger.tasks.keys()}
    group_keys = collect_open_group_keys(decoded_events.events, known_tasks, rules)
    for group in uow.groups.get_many(group_keys - ledger.groups.keys()).values():
        member_tasks = uow.tasks.get_many(group.tasks).values()
        if any(task.seen_at <= snapshot_block for task in member_tasks):
            # This group is not among the snapshot's open groups, and closed groups are never
            # reopened, so it was closed before the snapshot.
            if not group.closed or any(task.seen_at > snapshot_block for task in member_tasks):
                raise _ChangedRowError
            ledger.groups[group.group] = group
    open_groups = [ledger.groups[key] for key in group_keys & ledger.groups.keys()]
    _load_tasks(uow, ledger.tasks, collect_open_group_task_keys(open_groups), snapshot_block)


def _load_tasks(
    uow: UnitOfWork, task_by_key: dict[TaskKey, Task], task_keys: set[TaskKey], snapshot_block: int
) -> None:
    for key, task in uow.tasks.get_many(task_keys - task_by_key.keys()).items():
        if task.changed_at <= snapshot_block:
            task_by_key[key] = task
        elif task.seen_at <= snapshot_block:
            raise _ChangedRowError


def _check_log_count(
    uow: UnitOfWork, first_block: int, last_block: int, max_logs: int | None
) -> None:
    if max_logs is not None and uow.logs.count_between(first_block, last_block) > max_logs:
        raise NoNearbySnapshotError(
            f"the state after block {last_block} requires a fold of more than {max_logs} logs; "
            "try again later, because the daemon makes snapshots of such blocks while it is at "
            f"the head, or run `qos-oracle explain --at {last_block}`"
        )
