"""Folds stored rows of final blocks under other rules, without changing the state.

A shadow fold reads only raw rows. It needs no undo journal, because final blocks are never undone.
Its state is kept in a file, from which the next run continues. Tasks that ended long ago are
dropped. If a later event refers to a dropped task, everything is folded again with all tasks,
because the rows in the database belong to the rules in force. See
docs/how-to/change-the-rules.md#preview-other-rules.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from oracle.chain.profiles.event_reader import DecodedEvents, EventReader
from oracle.chain.segments.segment_request import append_digest, strip_digest
from oracle.domain.blocks import BlockRange
from oracle.domain.fold.fold import Fold, collect_task_keys
from oracle.domain.scoring.rules import Rules
from oracle.indexer.folded_state import compute_snapshot_version
from oracle.indexer.provenance import get_refold_count
from oracle.indexer.stored_events import iterate_decoded_chunks
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.snapshot_repository import PackedState, decode_state, encode_state

# The number of logs folded per read transaction.
LOGS_PER_STEP = 20_000
# An ended task is kept for later events while it is among this many newest logs.
KEPT_LOGS = 10_000
_SUFFIX, _TEMPORARY_SUFFIX = ".state", ".half"


class _DroppedTaskError(Exception):
    """Raised if an event refers to a task that was dropped."""


class _StoredShadow(msgspec.Struct, frozen=True, array_like=True):
    """A shadow fold in a file.

    `rebuilds` is the number of refolds of the database.
    """

    version: bytes
    rebuilds: int
    block: int
    keeps_all: bool
    state: bytes


_DECODER = msgspec.msgpack.Decoder(_StoredShadow)


@dataclass(slots=True)
class ShadowFold:
    """The state in memory after `block` under one set of rules.

    `block` is -1 at the start. `keeps_all` is whether no task is dropped, which is necessary for
    rules that close groups by counting, because they need every group.
    """

    fold: Fold
    block: int = -1
    keeps_all: bool = False

    @classmethod
    def start(cls, rules: Rules, *, keeps_all: bool = False) -> "ShadowFold":
        """Return the state before the first block."""
        return cls(Fold(rules), keeps_all=keeps_all or rules.close == "terminal")

    def fold_chunk(
        self, uow: UnitOfWork, blocks: BlockRange, decoded_events: DecodedEvents
    ) -> None:
        """Fold the events of the chunk that follows `block`.

        Raises:
            _DroppedTaskError: an event refers to a task that was dropped.
        """
        if not self.keeps_all:
            missing_keys = collect_task_keys(decoded_events.events) - self.fold.ledger.tasks.keys()
            stored_tasks = uow.tasks.get_many(missing_keys).values()
            if any(task.seen_at <= self.block for task in stored_tasks):
                raise _DroppedTaskError
        self.fold.fold_events(decoded_events.events)
        self.fold.drain_changes()
        self.block = blocks.last

    def drop_ended_tasks(self, first_kept_block: int) -> None:
        """Drop ended tasks that have not changed recently, unless all tasks are kept.

        Tasks that changed in `first_kept_block` or later are kept.
        """
        if self.keeps_all:
            return
        tasks = self.fold.ledger.tasks
        for key in [
            key
            for key, task in tasks.items()
            if task.ending is not None and task.changed_at < first_kept_block
        ]:
            del tasks[key]


def advance_shadow_fold(
    store: Store, reader: EventReader, shadow_fold: ShadowFold, last_block: int
) -> ShadowFold:
    """Continue a shadow fold up to the final block `last_block`.

    The result is a new object if the fold had to start again.
    """
    try:
        _advance_shadow_to_block(store, reader, shadow_fold, last_block)
    except _DroppedTaskError:
        shadow_fold = ShadowFold.start(shadow_fold.fold.rules, keeps_all=True)
        _advance_shadow_to_block(store, reader, shadow_fold, last_block)
    return shadow_fold


def _advance_shadow_to_block(
    store: Store, reader: EventReader, shadow_fold: ShadowFold, last_block: int
) -> None:
    while shadow_fold.block < last_block:
        with store.read_transaction() as uow:
            first_block = shadow_fold.block + 1
            step_end_block = uow.logs.find_block_of_nth_log(first_block, LOGS_PER_STEP)
            end_block = last_block if step_end_block is None else min(step_end_block, last_block)
            for blocks, _, decoded_events in iterate_decoded_chunks(
                uow, reader, BlockRange(first_block, end_block)
            ):
                shadow_fold.fold_chunk(uow, blocks, decoded_events)
            shadow_fold.drop_ended_tasks(
                uow.logs.find_block_of_nth_last_log(end_block, KEPT_LOGS) or 0
            )


@dataclass(frozen=True, slots=True)
class ShadowStage:
    """The folder that contains the files of shadow folds.

    It contains one file for each rule set and version of the fold.
    """

    folder: Path
    reader: EventReader

    def load(self, uow: UnitOfWork, rules: Rules, last_block: int) -> ShadowFold:
        """Load the stored shadow fold, or start a new one if no file can be continued.

        A file is ignored if it is damaged, if its block is above `last_block`, or if raw rows up
        to its block may have changed since.
        """
        version = compute_snapshot_version(self.reader, rules)
        stored_shadow = _read_stored_shadow(self._build_path(version))
        if (
            stored_shadow is None
            or stored_shadow.version != version
            or stored_shadow.rebuilds != get_refold_count(uow)
            or stored_shadow.block > last_block
        ):
            return ShadowFold.start(rules)
        packed_state = decode_state(stored_shadow.state)
        fold = Fold(rules)
        fold.last, fold.ledger.detector = packed_state.last, packed_state.detector
        fold.ledger.nodes.update((node.address, node) for node in packed_state.nodes)
        fold.ledger.tasks.update((task.key, task) for task in packed_state.tasks)
        fold.ledger.groups.update((group.group, group) for group in packed_state.groups)
        return ShadowFold(fold, stored_shadow.block, stored_shadow.keeps_all)

    def save(self, shadow_fold: ShadowFold, refold_count: int) -> None:
        """Store a shadow fold.

        `refold_count` is the number of refolds of the database when the shadow fold was loaded.

        Raises:
            OSError: the folder cannot be written.
        """
        ledger = shadow_fold.fold.ledger
        version = compute_snapshot_version(self.reader, shadow_fold.fold.rules)
        state = encode_state(
            PackedState(
                nodes=ledger.nodes.values(),
                tasks=ledger.tasks.values(),
                groups=ledger.groups.values(),
                last=shadow_fold.fold.last,
                kicks=(),
                detector=ledger.detector,
            )
        )
        stored_shadow = _StoredShadow(
            version, refold_count, shadow_fold.block, shadow_fold.keeps_all, state
        )
        path = self._build_path(version)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file_atomically(path, append_digest(msgspec.msgpack.encode(stored_shadow)))

    def delete_other_shadow_files(self, rule_sets: Iterable[Rules]) -> None:
        """Delete the shadow files of all rules except these."""
        kept_paths = {
            self._build_path(compute_snapshot_version(self.reader, rules)) for rules in rule_sets
        }
        for path in self.folder.glob(f"*{_SUFFIX}"):
            if path not in kept_paths:
                path.unlink(missing_ok=True)

    def _build_path(self, version: bytes) -> Path:
        return self.folder / f"{version.hex()}{_SUFFIX}"


def write_file_atomically(path: Path, content: bytes) -> None:
    """Replace a file atomically, but without fsync."""
    temporary_path = path.with_suffix(_TEMPORARY_SUFFIX)
    temporary_path.write_bytes(content)
    temporary_path.replace(path)


def _read_stored_shadow(path: Path) -> _StoredShadow | None:
    try:
        shadow_bytes = strip_digest(path.read_bytes())
        return None if shadow_bytes is None else _DECODER.decode(shadow_bytes)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None
