"""Computes previews of other rules in a worker process of the daemon or in a command.

The worker only reads the database, so it does not delay the daemon's writes. It keeps its state
and its results in files below `rules.announced_folder`.
"""

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.segments.segment_request import MAX_FRAME_BYTES, read_frame, write_frame
from oracle.chain.segments.worker_process import DATABASE_VARIABLES, start_worker_process
from oracle.daemon.compose import Index, compute_rules_hash
from oracle.daemon.config.loader import Config, read_shadow_rules
from oracle.daemon.config.redaction import iter_secret_url_parts, iter_secret_values
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import Records, open_folded_records
from oracle.daemon.scheduler import Job, TickFacts
from oracle.domain.ids import Address
from oracle.domain.reports.rules_changes import get_rules_in_force
from oracle.domain.scoring.rules import Rules
from oracle.errors import OracleError
from oracle.indexer.provenance import find_stored_block, get_refold_count
from oracle.indexer.shadow_fold import (
    ShadowFold,
    ShadowStage,
    advance_shadow_fold,
    write_file_atomically,
)
from oracle.notify.notice_kinds import NoticeKind
from oracle.queries.api.rules_preview import (
    PREVIEW_FOLDER,
    NodePreview,
    OtherRules,
    RulesPreview,
    build_preview_path,
    compute_rules_preview,
    encode_preview,
    iterate_previews,
    list_other_rules,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.notice_repository import Notice
from oracle.telemetry.logger import get_logger
from oracle.telemetry.safe_text import redact_secrets, register_secret

PREVIEW_SECONDS = 60.0
# The nice value of the worker process, which makes it yield to the daemon.
_NICENESS = 10
# A node gets a notice if announced rules would move it down this many places in the ranking.
_MANY_PLACES = 10
_SUBJECTS_PER_QUERY = 500


def update_previews(
    records: Records, reader: EventReader
) -> list[tuple[OtherRules, RulesPreview]]:
    """Fold the final blocks under the current and all other rules, and store the previews.

    Nothing is done if there are no other rules, or if there is no final block. If rows were
    repaired meanwhile, nothing is stored, and the next run folds the repaired rows.

    Raises:
        InputError: the file of a shadow set cannot be read, or has no valid rules.
        OSError: the folder cannot be written.
    """
    config, store = records.config, records.store
    folder = config.rules.announced_folder / PREVIEW_FOLDER
    shadow_stage = ShadowStage(folder, reader)
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        refold_count = get_refold_count(uow)
        other_rules = list_other_rules(
            uow, reader.identity, config.rules.announced_folder, read_shadow_rules(config)
        )
        in_force = get_rules_in_force(uow.rounds.get_contract_settings().rules_changes)
    if in_force is None or in_force.rules_hash == compute_rules_hash(config, reader):
        # No file is deleted while the daemon is about to switch to the rules in force, because it
        # still needs the state in these files.
        shadow_stage.delete_other_shadow_files(
            [records.rules, *(other_set.rules for other_set in other_rules)]
        )
    _delete_other_previews(folder, other_rules)
    if not other_rules or cursor is None or cursor.final_number is None:
        return []
    last_block = min(cursor.final_number, cursor.number)
    current_fold = _fold_shadow_rules(store, shadow_stage, records.rules, last_block)
    time = _get_block_time(store, current_fold, last_block)
    for other_set in other_rules:
        preview_fold = _fold_shadow_rules(store, shadow_stage, other_set.rules, last_block)
        with store.read_transaction() as uow:
            if get_refold_count(uow) != refold_count:
                return []
        shadow_stage.save(preview_fold, refold_count)
        preview = compute_rules_preview(
            current_fold.fold,
            preview_fold.fold,
            last_block,
            time,
            records.dispatch_settings,
        )
        write_file_atomically(build_preview_path(folder, other_set.rules), encode_preview(preview))
    shadow_stage.save(current_fold, refold_count)
    return list(iterate_previews(folder, records.rules, other_rules))


def _delete_other_previews(folder: Path, other_rules: list[OtherRules]) -> None:
    """Delete the previews of rules that are no longer announced or configured as shadow rules."""
    kept_paths = {build_preview_path(folder, other_set.rules) for other_set in other_rules}
    for path in folder.glob("*.json"):
        if path not in kept_paths:
            path.unlink(missing_ok=True)


def _fold_shadow_rules(
    store: Store, stage: ShadowStage, rules: Rules, last_block: int
) -> ShadowFold:
    with store.read_transaction() as uow:
        shadow_fold = stage.load(uow, rules, last_block)
    return advance_shadow_fold(store, stage.reader, shadow_fold, last_block)


def _get_block_time(store: Store, shadow_fold: ShadowFold, block: int) -> int:
    """Return a block's time, or the time of the last event if its header is missing."""
    with store.read_transaction() as uow:
        stored_block = find_stored_block(uow, block)
    last_event = shadow_fold.fold.last
    if stored_block is not None:
        return stored_block.time
    return 0 if last_event is None else last_event.time


def start_preview_worker(config: Config) -> "subprocess.Popen[bytes]":
    """Start a process that updates the previews once.

    The exit code of the process is 1 on failure. The process ends early if its stdin is closed.
    The settings are sent through this pipe, because the environment of the process contains no
    key.
    """
    worker = start_worker_process(
        "oracle.daemon.rules_previews",
        stdout=subprocess.DEVNULL,
        also_passed=DATABASE_VARIABLES,
    )
    assert worker.stdin is not None  # noqa: S101  # opened with a pipe
    # If the worker has already ended, its exit code will reveal the failure.
    with suppress(BrokenPipeError):
        write_frame(worker.stdin, pickle.dumps(config))  # type: ignore[arg-type]  # a binary pipe
    return worker


def run_preview_worker() -> None:
    """Read the settings from stdin, and update the previews with them."""
    # The parent process handles SIGINT and closes the stdin of this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request_frame = read_frame(sys.stdin.buffer, MAX_FRAME_BYTES)
    if request_frame is None:
        return
    Thread(target=_exit_on_stdin_eof, name="parent watch", daemon=True).start()
    config: Config = pickle.loads(request_frame)  # noqa: S301  # sent by the parent process
    for secret in iter_secret_url_parts(iter_secret_values(config)):
        register_secret(secret)
    os.nice(_NICENESS)
    try:
        with open_folded_records(config) as records:
            update_previews(records, open_reader(config))
    except Exception as error:  # noqa: BLE001  the default traceback would contain secrets
        is_expected = isinstance(error, OracleError | OSError)
        error_text = str(error) if is_expected else "".join(traceback.format_exception(error))
        sys.stderr.write(redact_secrets(f"rules preview: {error_text}\n"))
        sys.exit(1)


def _exit_on_stdin_eof() -> None:
    """Exit this process at once when its parent process ends.

    This is safe at any point, because files are replaced atomically.
    """
    # `sys.stdin` is not used, because its lock would get in the way of the interpreter at exit.
    while os.read(0, 1):
        continue
    os._exit(1)


@dataclass(slots=True)
class PreviewJob:
    """Starts preview workers when due, and stores notices for nodes that new rules would harm.

    `shadow_rules` are the rules of `[[shadow]]` as the daemon read them at its start.
    """

    index: Index
    shadow_rules: Mapping[str, Rules]
    _worker: "subprocess.Popen[bytes] | None" = None

    def tick(self) -> TickFacts:
        """Store the notices of the last run, and start the next run if there are other rules."""
        if self._worker is not None:
            exit_code = self._worker.poll()
            if exit_code is None:
                return None
            self.stop()
            if exit_code:
                get_logger().warning("rules_preview_failed", exit_code=exit_code)
        config, reader = self.index.config, self.index.reader
        folder = config.rules.announced_folder
        with self.index.store.read_transaction() as uow:
            other_rules = list_other_rules(uow, reader.identity, folder, self.shadow_rules)
        if not other_rules:
            return None
        if config.has_notice_recipients:
            self._store_notices(other_rules)
        self._worker = start_preview_worker(config)
        return None

    def stop(self) -> None:
        """End the worker process; the next run continues from the files it wrote."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.terminate()
            # Leaving the block closes the pipe and waits until the worker has ended.
            worker.communicate()

    def _store_notices(self, other_rules: list[OtherRules]) -> None:
        folder = self.index.config.rules.announced_folder / PREVIEW_FOLDER
        store = self.index.store
        with store.read_transaction() as uow:
            notices = [
                notice
                for other_set, preview in iterate_previews(folder, self.index.rules, other_rules)
                if other_set.ready_at is not None
                for notice in build_rule_loss_notices(uow, other_set, preview)
            ]
        if notices:
            with store.transaction() as uow:
                uow.notices.append(notices)


def open_preview_job(index: Index, exit_stack: ExitStack) -> Job:
    """Create the job that keeps the previews up to date.

    `exit_stack` ends the worker process.
    """
    preview_job = PreviewJob(index, read_shadow_rules(index.config))
    exit_stack.callback(preview_job.stop)
    return Job("previews", PREVIEW_SECONDS, preview_job.tick)


def build_rule_loss_notices(
    uow: UnitOfWork, other_set: OtherRules, preview: RulesPreview
) -> list[Notice]:
    """Build notices for nodes that announced rules would harm.

    Nodes that already have such a notice are left out. A node is harmed if its kickout becomes
    due, if it becomes excluded, or if it loses ten places in the ranking.
    """
    entry_by_subject = {
        f"rules:{other_set.name}:{entry.node}": entry
        for entry in preview.nodes
        if _is_affected_by_rules(entry)
    }
    kind = NoticeKind.RULES_HIT_YOU
    notified_subjects = set[str]()
    all_subjects = list(entry_by_subject)
    for start in range(0, len(all_subjects), _SUBJECTS_PER_QUERY):
        subjects = all_subjects[start : start + _SUBJECTS_PER_QUERY]
        notified_subjects |= uow.notices.filter_notified_subjects(kind, subjects)
    return [
        Notice(
            kind,
            None,
            preview.time,
            {
                "rules": other_set.name,
                "ready_at": other_set.ready_at,
                "rank_now": entry.rank_now,
                "rank_then": entry.rank_then,
                "due": entry.kickout_due_then,
                "excluded": entry.excluded_then,
                "as_of": preview.block,
            },
            Address(entry.node),
            subject=subject,
        )
        for subject, entry in entry_by_subject.items()
        if subject not in notified_subjects
    ]


def _is_affected_by_rules(entry: NodePreview) -> bool:
    is_newly_due = entry.kickout_due_then and not entry.kickout_due_now
    is_newly_excluded = entry.excluded_then and not entry.excluded_now
    return is_newly_due or is_newly_excluded or entry.places_lost >= _MANY_PLACES


if __name__ == "__main__":
    run_preview_worker()
