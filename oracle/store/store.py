"""The store: one transaction over everything, committed where the story ends (house.md 3.7)."""

from contextlib import AbstractContextManager

from sqlalchemy import Connection

from oracle.domain.ledger import Changes
from oracle.store.blocks import BlockRoom
from oracle.store.calls import CallRoom
from oracle.store.cursor import CursorRoom
from oracle.store.groups import GroupRoom, ResultRoom
from oracle.store.history import AnomalyRoom, ReliabilityRoom, ScoreRoom
from oracle.store.identity import IdentityRoom
from oracle.store.kickouts import KickoutRoom
from oracle.store.lanes import LaneRoom
from oracle.store.last_event import LastEventRoom
from oracle.store.logs import LogRoom
from oracle.store.nodes import NodeRoom
from oracle.store.progress import ProgressRoom
from oracle.store.projections import ProjectionRoom
from oracle.store.reports import ReportRoom
from oracle.store.rounds import RoundRoom
from oracle.store.tasks import TaskRoom
from oracle.store.undo import UndoRoom


class Unit:
    """One transaction; each room has the verbs that are used, and none commits."""

    def __init__(self, connection: Connection) -> None:
        self.identity = IdentityRoom(connection)
        self.cursor = CursorRoom(connection)
        self.blocks = BlockRoom(connection)
        self.logs = LogRoom(connection)
        self.calls = CallRoom(connection)
        self.nodes = NodeRoom(connection)
        self.tasks = TaskRoom(connection)
        self.groups = GroupRoom(connection)
        self.results = ResultRoom(connection)
        self.scores = ScoreRoom(connection)
        self.reliability = ReliabilityRoom(connection)
        self.anomalies = AnomalyRoom(connection)
        self.kickouts = KickoutRoom(connection)
        self.last_event = LastEventRoom(connection)
        self.rounds = RoundRoom(connection)
        self.lanes = LaneRoom(connection)
        self.reports = ReportRoom(connection)
        self.undo = UndoRoom(connection)
        self.projections = ProjectionRoom(connection)
        self.progress = ProgressRoom(connection)

    def changes(self, changes: Changes) -> None:
        """Write everything that a fold drained, in bulk; its pre-images into the journal."""
        raise NotImplementedError


class Store:
    """A database whose tables are the code's; made by `open`, closed by `close`."""

    @classmethod
    def open(cls, url: str, *, create: bool = False) -> "Store":
        """Open `sqlite:///FILE` or `postgresql://USER@HOST/NAME`.

        `create` makes the tables in an empty database; an older one is never migrated here.

        Raises:
            InputError: unreachable, unwritable, wrong password, tables older or newer than the
                code or missing; one line that says what to do.
        """
        raise NotImplementedError

    def transaction(self) -> AbstractContextManager[Unit]:
        """Write: committed on a clean exit, rolled back by any exception.

        Raises:
            TransientError: another writer holds the database, or the connection was lost.
            InputError: the database cannot be written.
        """
        raise NotImplementedError

    def reading(self) -> AbstractContextManager[Unit]:
        """Read one snapshot, on a connection of its own, beside a writer; keep it short.

        Raises:
            TransientError: the connection was lost.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give all connections back."""
        raise NotImplementedError
