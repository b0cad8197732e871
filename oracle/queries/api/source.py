"""The data source of all answers, and the database snapshot that an answer is computed from."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from oracle.chain.profiles.profile import DEFAULT_TOKEN, Token
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.blocks import Position
from oracle.domain.health import HealthReport
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError, TransientError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.round_leaves import LeafCache
from oracle.indexer.rules_binding import check_bound_rules
from oracle.kickouts.objection_intake import ObjectionIntake
from oracle.notify.subscriptions import SubscriptionIntake
from oracle.queries.answers import AsOf, LogPlace, build_as_of, load_event_sources
from oracle.queries.api.gpu_table import GpuTable, GpuTableCache
from oracle.queries.api.node_order import NodeRanking, NodeRankingCache
from oracle.queries.api.recent_draws import RecentDraw, RecentDrawCache
from oracle.queries.health import LeaderLookup, build_health_report
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor


class RequestError(InputError):
    """A request that is invalid or cannot be answered; the message is sent to the client."""


class NotFoundError(RequestError):
    """The requested object is unknown at the block of the answer."""


class AmbiguousPrefixError(RequestError):
    """A prefix that matches several objects; `candidates` lists the first of them."""

    def __init__(self, prefix: str, candidates: list[str]) -> None:
        self.candidates = candidates
        super().__init__(f"{prefix}: ambiguous; {len(candidates)} or more match")


@dataclass(frozen=True, slots=True)
class ApiSource:
    """The data source of every answer.

    `get_head` returns the newest block of the chain, or None if only the daemon knows it. `clock`
    returns unix seconds. `find_leader` returns the process that holds the lease. `rankings`,
    `leaves`, `draws` and `gpus` are caches that outlive an answer. `dispatch` has the settings
    by which nodes are drawn, or is None if no node is drawn. `token` is the unit of amounts on
    pages. `labels` are the operator's names for addresses, `explorer` is the URL of a
    block explorer, and `contact` is the URL by which owners reach the operator.
    `rules_id` is the text whose SHA-256 is the contract's `rulesHash`, and `announced_folder` has
    such texts of other rules. `shadow_rules` are the shadow sets by name.
    `objection_intake` is None if `POST /v1/objections` accepts no objections.
    `subscriptions` is None if owners cannot subscribe to notices.
    """

    archive: EventArchive
    rankings: NodeRankingCache
    get_head: Callable[[], int | None]
    clock: Callable[[], int]
    find_leader: LeaderLookup
    dispatch: DispatchSettings | None = None
    token: Token = DEFAULT_TOKEN
    labels: Mapping[Address, str] = field(default_factory=dict)
    explorer: str | None = None
    contact: str | None = None
    leaves: LeafCache = field(default_factory=LeafCache)
    draws: RecentDrawCache = field(default_factory=RecentDrawCache)
    gpus: GpuTableCache = field(default_factory=GpuTableCache)
    objection_intake: ObjectionIntake | None = None
    subscriptions: SubscriptionIntake | None = None
    rules_id: str = field(kw_only=True)
    announced_folder: Path | None = None
    shadow_rules: Mapping[str, Rules] = field(default_factory=dict)

    def find_addresses_by_label(self, text: str) -> list[Address]:
        """Return the addresses with the label `text`, or else those whose label starts with it."""
        folded_text = text.casefold()
        exact_matches = [
            address for address, label in self.labels.items() if label.casefold() == folded_text
        ]
        return exact_matches or sorted(
            address
            for address, label in self.labels.items()
            if label.casefold().startswith(folded_text)
        )


@dataclass(frozen=True, slots=True)
class ApiSnapshot:
    """The database snapshot that one answer is computed from."""

    source: ApiSource
    uow: UnitOfWork
    cursor: Cursor
    as_of: AsOf

    def load_health_report(self) -> HealthReport:
        """Return the health report that the status page shows."""
        return build_health_report(self.uow, self.source.find_leader)

    def get_ranking(self) -> NodeRanking:
        """Return the ranking of all nodes as of the cursor."""
        return self.source.rankings.get_ranking(self.uow, self.cursor)

    def get_recent_draws(self) -> list[RecentDraw]:
        """Return the newest draws as of the cursor, oldest first."""
        return self.source.draws.load_draws(self.uow, self.cursor)

    def get_gpu_table(self) -> GpuTable:
        """Return the table of the network's GPUs, with member counts and recent answer times."""
        ranking = self.get_ranking()
        return self.source.gpus.load_gpu_table(
            self.uow, self.cursor, ranking.nodes, ranking.members_by_gpu
        )

    def find_block_time(self, position: Position) -> int | None:
        """Return the block time of an event, or None if no header or log is stored."""
        block = self.uow.blocks.find_canonical(position.block)
        if block is not None:
            return block.time
        return next(
            (log.time for log in self.uow.logs.iterate_between(position.block, position.block)),
            None,
        )

    def load_log_places(self, positions: Iterable[Position]) -> dict[Position, LogPlace]:
        """Load the source of the event at each position, including the transaction of its log."""
        return load_event_sources(self.uow, positions)


@contextmanager
def open_snapshot(source: ApiSource) -> Iterator[ApiSnapshot]:
    """Open a snapshot of the database for a short time.

    The time must be short, because an open reader delays SQLite's checkpoints.

    Raises:
        TransientError: nothing is indexed yet, or the database does not respond.
        InputError: the database was folded under other rules.
    """
    with source.archive.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise TransientError("nothing is indexed yet")
        check_bound_rules(uow, source.archive.rules)
        as_of = build_as_of(
            uow, cursor, source.archive.rules, head=source.get_head(), now=source.clock()
        )
        yield ApiSnapshot(source, uow, cursor, as_of)
