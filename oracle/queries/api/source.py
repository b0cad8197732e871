"""Where answers come from, and the one look at the database that an answer is made in."""

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
    """What was asked cannot be answered as it stands; its text is for who asked."""


class NotKnownError(QuestionError):
    """The network never mentioned it up to the block that is spoken of."""


class AmbiguousError(QuestionError):
    """A prefix stands for several; `found` are the first of them."""

    def __init__(self, prefix: str, found: list[str]) -> None:
        self.found = found
        super().__init__(f"{prefix} is the beginning of {len(found)} or more")


@dataclass(frozen=True, slots=True)
class ApiSource:
    """What every answer is made from.

    `head` tells the newest block of the chain, None where only the daemon knows; `clock` unix
    seconds; `worker` who works on the database. `order` is kept between answers. `dispatch`: by
    what nodes are drawn, None: nobody is.
    `token`: the unit of amounts on pages. `labels`: names that the operator gave to addresses.
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
    """One snapshot of the database; everything of one answer is read in it."""

    source: ApiSource
    uow: UnitOfWork
    cursor: Cursor
    as_of: AsOf

    def health(self) -> HealthReport:
        """Return what is wrong, as `status` shows it."""
        return health_of(self.uow, self.source.worker)

    def ranking(self) -> NodeRanking:
        """Return all nodes as of the cursor, in order."""
        return self.source.order.at(self.uow, self.cursor)

    def time_of(self, at: Position) -> int | None:
        """Return the time of a block in which something was said; None: its logs are not kept."""
        block = self.uow.blocks.at(at.block)
        if block is not None:
            return block.time
        return next((log.time for log in self.uow.logs.between(at.block, at.block)), None)

    def places(self, positions: Iterable[Position]) -> dict[Position, LogPlace]:
        """Return each position with the transaction of its log."""
        return log_places(self.uow, positions)


@contextmanager
def looking(source: ApiSource) -> Iterator[ApiSnapshot]:
    """Open one snapshot; keep it short, a reader holds up SQLite's checkpoints.

    Raises:
        TransientError: nothing is indexed yet, or the database does not answer.
        InputError: other rules folded it.
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
