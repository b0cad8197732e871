"""The store, whose repositories share one transaction in each unit of work.

See docs/explanation/storage.md#unit-of-work.
"""

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Condition
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from oracle.errors import InputError, TransientError
from oracle.store.commit_watch import CommitWatch, FileCommitWatch, ServerCommitWatch
from oracle.store.db_errors import (
    DatabaseCorruptedError,
    UnknownCommitError,
    is_connection_lost,
    translate_db_error,
)
from oracle.store.engine import (
    create_read_engine,
    create_write_engine,
    find_file_identity,
    parse_database_url,
)
from oracle.store.schema import check_schema

if TYPE_CHECKING:
    from oracle.domain.fold.working_set import Changes
    from oracle.store.activity_repository import ActivityRepository
    from oracle.store.bookmarks import Bookmarks
    from oracle.store.endpoint_facts import EndpointFactsRepository
    from oracle.store.gateway_repositories import GatewayRepositories
    from oracle.store.halts import HaltRepository
    from oracle.store.health_repository import HealthRepository
    from oracle.store.history_repository import (
        AnomalyRepository,
        KickoutRepository,
        MembershipRepository,
        ReliabilityRepository,
        ScoreRepository,
    )
    from oracle.store.history_rows import HistoryRows
    from oracle.store.identity import IdentityRepository
    from oracle.store.leaf_piece_repository import LeafPieceRepository
    from oracle.store.lease_repository import LeaseRepository
    from oracle.store.notice_repository import NoticeRepository
    from oracle.store.objection_inbox import ObjectionInbox
    from oracle.store.outbox.outbox import Outbox
    from oracle.store.outbox.statement_repository import (
        PeerStatementRepository,
        SignatureRepository,
    )
    from oracle.store.raw.block_repository import (
        BlockRepository,
        ReorgRepository,
        VerifiedBlockRepository,
    )
    from oracle.store.raw.call_repository import CallRepository
    from oracle.store.raw.coverage_repository import CoverageRepository
    from oracle.store.raw.dead_letter_repository import DeadLetterRepository
    from oracle.store.raw.feed_repository import FeedRepository
    from oracle.store.raw.log_repository import LogRepository
    from oracle.store.raw.raw_checksums import RawChecksums
    from oracle.store.report_repository import HoldRepository, ReportRepository
    from oracle.store.state.cursor_repository import CursorRepository, LastEventRepository
    from oracle.store.state.draw_repository import DownloadRepository, DrawRepository
    from oracle.store.state.group_repository import GroupRepository, GroupResultRepository
    from oracle.store.state.incident_repository import IncidentRepository
    from oracle.store.state.node_repository import NodeRepository
    from oracle.store.state.objection_repository import ObjectionRepository
    from oracle.store.state.projections import ProjectionRepository
    from oracle.store.state.round_repository import RoundRepository
    from oracle.store.state.rule_set_repository import RuleSetRepository
    from oracle.store.state.snapshot_repository import SnapshotRepository
    from oracle.store.state.task_repository import TaskRepository
    from oracle.store.state.undo_journal import UndoJournal
    from oracle.store.subscription_repository import SubscriptionRepository

# The lag of a replica is the age of the newest transaction that it has replayed, because the
# daemon renews its lease every few seconds. If the replica has replayed nothing, its lag is at
# least the time since its start.
_LAG_QUERY = text(
    "SELECT CASE WHEN pg_is_in_recovery() THEN extract(epoch FROM clock_timestamp() - "
    "coalesce(pg_last_xact_replay_timestamp(), pg_postmaster_start_time())) END"
)


class _LazyRepository:
    """An attribute of a unit of work whose repository is created on first access.

    The module of the repository is imported at the same time, because a command uses only a few
    repositories. The annotation of the attribute contains the class of the repository.
    """

    def __init__(self, module_name: str) -> None:
        self._module_name = module_name

    def __set_name__(self, owner: type["UnitOfWork"], name: str) -> None:
        self._name = name
        self._class_name = owner.__annotations__[name]

    def __get__(self, uow: "UnitOfWork", owner: type["UnitOfWork"]) -> Any:  # noqa: ANN401  any repository
        """Create the repository, and store it in the unit of work under the same name."""
        repository_class = getattr(import_module(self._module_name), self._class_name)
        attributes = vars(uow)
        attributes[self._name] = repository_class(attributes["_connection"])
        return attributes[self._name]


def _declare_lazy_repository(module: str) -> Any:  # noqa: ANN401  the annotation has the type
    """Return a descriptor that imports the repository on first use."""
    return _LazyRepository(f"oracle.store.{module}")


class UnitOfWork:
    """All repositories within one database transaction.

    No repository commits by itself.
    """

    identity: "IdentityRepository" = _declare_lazy_repository("identity")
    cursor: "CursorRepository" = _declare_lazy_repository("state.cursor_repository")
    blocks: "BlockRepository" = _declare_lazy_repository("raw.block_repository")
    logs: "LogRepository" = _declare_lazy_repository("raw.log_repository")
    calls: "CallRepository" = _declare_lazy_repository("raw.call_repository")
    feed: "FeedRepository" = _declare_lazy_repository("raw.feed_repository")
    nodes: "NodeRepository" = _declare_lazy_repository("state.node_repository")
    tasks: "TaskRepository" = _declare_lazy_repository("state.task_repository")
    groups: "GroupRepository" = _declare_lazy_repository("state.group_repository")
    results: "GroupResultRepository" = _declare_lazy_repository("state.group_repository")
    last_event: "LastEventRepository" = _declare_lazy_repository("state.cursor_repository")
    rounds: "RoundRepository" = _declare_lazy_repository("state.round_repository")
    objections: "ObjectionRepository" = _declare_lazy_repository("state.objection_repository")
    objection_inbox: "ObjectionInbox" = _declare_lazy_repository("objection_inbox")
    undo: "UndoJournal" = _declare_lazy_repository("state.undo_journal")
    projections: "ProjectionRepository" = _declare_lazy_repository("state.projections")
    snapshots: "SnapshotRepository" = _declare_lazy_repository("state.snapshot_repository")
    bookmarks: "Bookmarks" = _declare_lazy_repository("bookmarks")
    rule_sets: "RuleSetRepository" = _declare_lazy_repository("state.rule_set_repository")
    lease: "LeaseRepository" = _declare_lazy_repository("lease_repository")
    health: "HealthRepository" = _declare_lazy_repository("health_repository")
    coverage: "CoverageRepository" = _declare_lazy_repository("raw.coverage_repository")
    raw_checksums: "RawChecksums" = _declare_lazy_repository("raw.raw_checksums")
    verified_blocks: "VerifiedBlockRepository" = _declare_lazy_repository("raw.block_repository")
    dead_letters: "DeadLetterRepository" = _declare_lazy_repository("raw.dead_letter_repository")
    facts: "EndpointFactsRepository" = _declare_lazy_repository("endpoint_facts")
    halts: "HaltRepository" = _declare_lazy_repository("halts")
    reorgs: "ReorgRepository" = _declare_lazy_repository("raw.block_repository")
    notices: "NoticeRepository" = _declare_lazy_repository("notice_repository")
    subscriptions: "SubscriptionRepository" = _declare_lazy_repository("subscription_repository")
    gateway: "GatewayRepositories" = _declare_lazy_repository("gateway_repositories")
    draws: "DrawRepository" = _declare_lazy_repository("state.draw_repository")
    downloads: "DownloadRepository" = _declare_lazy_repository("state.draw_repository")
    scores: "ScoreRepository" = _declare_lazy_repository("history_repository")
    reliability: "ReliabilityRepository" = _declare_lazy_repository("history_repository")
    memberships: "MembershipRepository" = _declare_lazy_repository("history_repository")
    anomalies: "AnomalyRepository" = _declare_lazy_repository("history_repository")
    histories: "HistoryRows" = _declare_lazy_repository("history_rows")
    kickouts: "KickoutRepository" = _declare_lazy_repository("history_repository")
    incidents: "IncidentRepository" = _declare_lazy_repository("state.incident_repository")
    activity: "ActivityRepository" = _declare_lazy_repository("activity_repository")
    outbox: "Outbox" = _declare_lazy_repository("outbox.outbox")
    reports: "ReportRepository" = _declare_lazy_repository("report_repository")
    leaf_pieces: "LeafPieceRepository" = _declare_lazy_repository("leaf_piece_repository")
    holds: "HoldRepository" = _declare_lazy_repository("report_repository")
    statements: "SignatureRepository" = _declare_lazy_repository("outbox.statement_repository")
    peer_statements: "PeerStatementRepository" = _declare_lazy_repository(
        "outbox.statement_repository"
    )

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def measure_replica_lag_seconds(self) -> float | None:
        """Return the lag of a replica in seconds, or None on a primary database.

        The lag is the age of the last replayed transaction. The read API may use a PostgreSQL
        replica (docs/how-to/serve-the-read-api.md#replica), and every response states how far its
        data lags behind the daemon. SQLite has no replicas. If a replica has replayed nothing yet,
        the value is a lower bound.
        """
        if self._connection.dialect.name == "sqlite":
            return None
        lag = self._connection.execute(_LAG_QUERY).scalar_one()
        return None if lag is None else max(0.0, float(lag))

    def discard_verification_above(self, number: int) -> None:
        """Discard the recorded coverage and verification of blocks above `number`."""
        self.coverage.delete_above(number)
        self.verified_blocks.delete_above(number)
        self.dead_letters.orphan_above(number)

    def write_changes(self, changes: "Changes", rule_set: int) -> None:
        """Write all changes of a fold in bulk, and save the replaced rows in the undo journal.

        `rule_set` is the number of the rule set that the fold applied.
        """
        self.nodes.save(changes.nodes.values())
        self.tasks.save(changes.tasks.values())
        self.groups.save(changes.groups.values())
        self.scores.append(changes.scores, rule_set)
        self.reliability.append(changes.reliability)
        self.memberships.append(changes.memberships)
        self.results.append(changes.results)
        self.anomalies.append(changes.anomalies)
        self.kickouts.save_intervals(changes.kickouts)
        self.incidents.save_changes(changes.incidents)
        if changes.last is not None:
            self.last_event.set(changes.last)
        self.undo.write(changes.pre_images)


class Store:
    """An open database with the schema of this version.

    A store is closed by `close` or by a `with` block.
    """

    def __init__(self, url: URL) -> None:
        """Create a store without checks; use `open` instead, which also checks the schema."""
        self._url = url
        # True if this process has committed any write.
        self._was_written = False
        # True if the connection was lost during the last COMMIT, so that its outcome is unknown.
        self._has_unknown_commit = False
        self._epoch: int | None = None
        self._file = find_file_identity(url)
        # Device and inode of SQLite's write-ahead log. The log exists only while a connection is
        # open.
        self._log_file: tuple[int, int] | None = None
        self._stop_readers: set[Callable[[], None]] = set()
        self._commit_condition = Condition()

    @classmethod
    def open(cls, url: str, *, create: bool = False) -> "Store":
        """Open the database at `sqlite:///FILE` or `postgresql://USER@HOST/NAME`.

        With `create`, the tables of an empty database are created. An older schema is never
        migrated by this method.

        Raises:
            InputError: the database is unreachable or unwritable, the password is wrong, or the
                schema is missing, older or newer; the message contains what to do.
        """
        check_schema(url, create=create)
        return cls(parse_database_url(url))

    def open_unfenced_store(self) -> "Store":
        """Return a store for the same database whose writes need no lease.

        Use it only for inboxes that clients fill, such as posted objections. It is closed together
        with this store.
        """
        store = Store(self._url)
        self.call_before_close(store.close)
        return store

    def set_fencing_epoch(self, epoch: int) -> None:
        """Reject later writes unless the lease has this epoch.

        This prevents a process that had stalled from writing outdated data after another process
        has taken over the lease.
        """
        self._epoch = epoch

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        """Open a write transaction, and commit it at the end or roll it back on an exception.

        Raises:
            UnknownCommitError: the connection was lost during COMMIT. The next transaction of any
                kind waits until the outcome is known.
            TransientError: another process is writing, the connection was lost, or the database
                has become unwritable (disk or server).
            InputError: the database was never writable, or its file was deleted, replaced or
                damaged.
            FatalError: a fencing epoch is set, and another process has taken over the lease.
        """
        self._await_unknown_commit()
        is_committing = False
        try:
            with self._translate_db_errors(), self._write_engine.begin() as connection:
                uow = UnitOfWork(connection)
                if self._epoch is not None:
                    uow.lease.lock_held_lease(self._epoch)
                yield uow
                self._check_file_identity()
                is_committing = True
        except DatabaseCorruptedError:
            raise
        except InputError as error:
            if self._was_written and isinstance(error.__cause__, DBAPIError):
                raise TransientError(str(error)) from error
            raise
        except TransientError as error:
            if is_committing and is_connection_lost(error.__cause__):
                self._has_unknown_commit = True
                raise UnknownCommitError(str(error)) from error
            raise
        self._was_written = True
        with self._commit_condition:
            self._commit_condition.notify_all()

    def _await_unknown_commit(self) -> None:
        """Wait until the server has ended the transaction with the unconfirmed COMMIT.

        Until then, the transaction holds the lock of writers. A caller that read the state earlier
        might repeat work that was committed.

        Raises:
            TransientError: the server is unreachable, or the transaction is still under way.
        """
        if not self._has_unknown_commit:
            return
        with self._translate_db_errors(), self._write_engine.begin():
            # The beginning of a transaction waits for the writers' lock. The lost transaction may
            # hold this lock.
            pass
        self._has_unknown_commit = False

    def _check_file_identity(self) -> None:
        """Check that the database's path still leads to the open files.

        This is checked before each commit. A commit into a deleted file would be lost. A commit
        into a deleted write-ahead log would be lost as well if the process is killed before it
        closes the database.

        Raises:
            InputError: the database file or its log is missing, or another file has replaced it.
        """
        if find_file_identity(self._url) != self._file:
            raise InputError(
                f"database {self._url.database}: the file was deleted or replaced while it was "
                "open; it must stay the same file until the process ends; restore the file, or a "
                "copy made after the last transaction was sent, and start again"
            )
        self._log_file = self._log_file or find_file_identity(self._url, "-wal")
        self._check_log_identity()

    def _check_log_identity(self) -> None:
        """Check that the write-ahead log was not deleted or replaced by another file.

        Raises:
            InputError: the log is missing, or another file has replaced it.
        """
        if self._log_file is None or self._log_file == find_file_identity(self._url, "-wal"):
            return
        raise InputError(
            f"database {self._url.database}-wal: the write-ahead log was deleted or replaced "
            "while it was open; it contains the newest rows; they are written to the database "
            "when this process ends, if no other process has opened it; start again"
        )

    @property
    def data_directory(self) -> Path | None:
        """The directory of the SQLite file, or None for a database server."""
        if self._url.get_backend_name() != "sqlite":
            return None
        return Path(self._url.database or "").absolute().parent

    def checkpoint_wal(self) -> None:
        """Write SQLite's write-ahead log back to the database.

        Raises:
            TransientError: the log could not be written back.
        """
        if self._url.get_backend_name() != "sqlite":
            return
        try:
            with closing(sqlite3.connect(self._url.database or "")) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise TransientError(f"database {self._url.database}: {error}") from error

    @contextmanager
    def read_transaction(self) -> Iterator[UnitOfWork]:
        """Open a read transaction on one snapshot of the database.

        Keep the transaction short.

        Raises:
            TransientError: the connection was lost.
        """
        self._await_unknown_commit()
        with self._translate_db_errors(), self._read_engine.begin() as connection:
            yield UnitOfWork(connection)

    def watch_commits(self) -> CommitWatch:
        """Return a watch that detects later commits of any process."""
        watch: CommitWatch = (
            FileCommitWatch(self._url.database or "", self._commit_condition)
            if self._url.get_backend_name() == "sqlite"
            else ServerCommitWatch(self._url)
        )
        self.call_before_close(watch.close)
        return watch

    @contextmanager
    def open_temporary_copy(self) -> Iterator[str | None]:
        """Yield the URL of a temporary copy of the SQLite database, or None for PostgreSQL.

        The copy is in the folder of the database file, takes as much disk space, and does not
        block writers.

        Raises:
            TransientError: there is no space for the copy, or the connection was lost.
        """
        if self._url.get_backend_name() != "sqlite":
            yield None
            return
        directory = Path(self._url.database or "").absolute().parent
        with tempfile.TemporaryDirectory(prefix="qos-oracle-copy-", dir=directory) as folder:
            path = Path(folder) / "copy.sqlite"
            self.copy_sqlite_database(path)
            yield f"sqlite:///{path}"

    def copy_sqlite_database(self, path: Path) -> None:
        """Copy a snapshot of the SQLite database to a file without blocking writers.

        Raises:
            TransientError: the file cannot be written, or the database cannot be read.
        """
        with (
            self._translate_db_errors(),
            closing(self._read_engine.raw_connection()) as connection,
            closing(sqlite3.connect(path)) as copy_connection,
        ):
            driver = connection.driver_connection
            try:
                if isinstance(driver, sqlite3.Connection):
                    driver.backup(copy_connection)
            except sqlite3.Error as error:
                raise TransientError(
                    f"{path.parent}: cannot create a copy of the database: {error}"
                ) from None

    def call_before_close(self, stop_reader: Callable[[], None]) -> None:
        """Register a function that `close` calls once to end a read in another thread."""
        self._stop_readers.add(stop_reader)

    def close(self) -> None:
        while self._stop_readers:
            self._stop_readers.pop()()
        for engine in (self._write_engine, self._read_engine):
            engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @cached_property
    def _write_engine(self) -> Engine:
        return create_write_engine(self._url)

    @cached_property
    def _read_engine(self) -> Engine:
        return create_read_engine(self._url)

    @contextmanager
    def _translate_db_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            translated_error = translate_db_error(error, self._url)
            if translated_error is None:
                raise
            # If the log was deleted, this call reports it. The error of a new connection would
            # not.
            self._check_log_identity()
            raise translated_error from error
