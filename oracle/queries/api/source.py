"""The data source of answers, and the database snapshot in which each answer is computed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from oracle.chain.profiles.profile import DEFAULT_TOKEN, Token
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.blocks import Position
from oracle.domain.health import HealthReport
from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.indexer.rules_binding import refuse_other_rules
from oracle.queries.answers import AsOf, LogPlace, as_of_cursor
from oracle.queries.api.node_order import NodeOrder, NodeRanking
from oracle.queries.explain import EventArchive
from oracle.queries.health import Worker, health_of
from oracle.queries.log_places import log_places
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor


class QuestionError(InputError):
    """A request that cannot be answered as it is; the text is for the client."""


class NotKnownError(QuestionError):
    """The object was never seen up to the block of the answer."""


class AmbiguousError(QuestionError):
    """A prefix that fits several objects; `candidates` are the first of them."""

    def __init__(self, prefix: str, found: list[str]) -> None:
        self.found = found
        super().__init__(f"{prefix} is the beginning of {len(found)} or more")


@dataclass(frozen=True, slots=True)
class ApiSource:
    """The data source of every answer.

    `get_head` returns the newest block of the chain, or None if only the daemon has it; `clock`
    returns unix seconds; `find_leader` returns the process that holds the lease. `rankings` is
    kept between answers. `dispatch`: the settings by which nodes are drawn, or None if no node is
    drawn. `token`: the unit of amounts on pages. `labels`: names that the operator gave to
    addresses.
    """

    archive: EventArchive
    order: NodeOrder
    head: Callable[[], int | None]
    clock: Callable[[], int]
    worker: Worker
    dispatch: DispatchSettings | None = None
    token: Token = DEFAULT_TOKEN
    labels: Mapping[Address, str] = field(default_factory=dict)

    def labelled(self, text: str) -> list[Address]:
        """Return the addresses whose label is `text`, or else those whose label starts with it."""
        wanted = text.casefold()
        exact = [at for at, label in self.labels.items() if label.casefold() == wanted]
        return exact or sorted(
            at for at, label in self.labels.items() if label.casefold().startswith(wanted)
        )


@dataclass(frozen=True, slots=True)
class ApiSnapshot:
    """One snapshot of the database; each answer is computed within one."""

    source: ApiSource
    uow: UnitOfWork
    cursor: Cursor
    as_of: AsOf

    def health(self) -> HealthReport:
        """Return the health report, as `status` shows it."""
        return health_of(self.uow, self.source.worker)

    def ranking(self) -> NodeRanking:
        """Return all nodes as of the cursor, in order."""
        return self.source.order.at(self.uow, self.cursor)

    def time_of(self, at: Position) -> int | None:
        """Return the time of a block that has an event, or None if its logs are not kept."""
        block = self.uow.blocks.at(at.block)
        if block is not None:
            return block.time
        return next((log.time for log in self.uow.logs.between(at.block, at.block)), None)

    def places(self, positions: Iterable[Position]) -> dict[Position, LogPlace]:
        """Return each position with the transaction of its log."""
        return log_places(self.uow, positions)


@contextmanager
def looking(source: ApiSource) -> Iterator[ApiSnapshot]:
    """Open one snapshot; keep it short, because a reader delays SQLite's checkpoints.

    Raises:
        TransientError: nothing is indexed yet, or the database does not answer.
        InputError: the database was folded under other rules.
    """
    with source.archive.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise TransientError("nothing is indexed yet")
        refuse_other_rules(uow, source.archive.rules)
        block = as_of_cursor(
            uow, cursor, source.archive.rules, head=source.head(), now=source.clock()
        )
        yield ApiSnapshot(source, uow, cursor, block)
