"""A database with an indexed history, and the read API over it."""

from collections.abc import Sequence
from typing import Any

from fastapi.testclient import TestClient

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.domain.blocks import BlockRef
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address, Hash
from oracle.domain.scoring.rules import Rules
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.rules_binding import bind_or_check_rules
from oracle.queries.api.node_order import NodeRankingCache
from oracle.queries.api.source import ApiSource
from oracle.store.database import Store
from oracle.store.identity import Identity
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History
from tests.support.scripted_reader import Unread

IDENTITY = Identity(
    31_337,
    Hash("0x" + 64 * "0"),
    {"TaskNetwork": Address("0x" + 40 * "1")},
    Address("0x" + 40 * "c"),
    0,
)
# The settings of a command that opens a database with this identity.
IDENTITY_SETTINGS: dict[str, dict[str, Any]] = {
    "chain": {"id": IDENTITY.chain_id, "endpoints": ["http://127.0.0.1:1"]},
    "network": {"contracts": dict(IDENTITY.contracts)},
    "oracle": {"address": IDENTITY.oracle},
}
# Seconds from the last block to the clock of the API.
LAG_SECONDS = 4


def make_block(number: int, time: int) -> BlockRef:
    return BlockRef(number, Hash(f"0x{number:064x}"), Hash(f"0x{max(0, number - 1):064x}"), time)


class IndexedHistory:
    """Writes a history to a database as the daemon does; each call of `index` adds a part."""

    def __init__(self, store: Store, rules: Rules = CRYNUX) -> None:
        self.store = store
        self.rules = rules
        self.fold = Fold(rules)
        self._epoch = 0
        self.now = 0
        archive = EventArchive(store, Unread(), rules)
        self.source = ApiSource(
            archive,
            NodeRankingCache(rules),
            lambda: None,
            lambda: self.now,
            lambda _held: "a daemon",
            rules_id="{}",
        )

    def index(self, events: Sequence[DomainEvent], block: int, time: int) -> None:
        """Fold more events, and move the cursor to a block."""
        self.fold.fold_events(list(events))
        as_of = make_block(block, time)
        with self.store.transaction() as uow:
            bind_or_check_rules(uow, self.rules)
            uow.identity.ensure_stored_identity(IDENTITY)
            uow.write_changes(
                self.fold.drain_changes(), uow.rule_sets.get_or_assign_number(self.rules)
            )
            uow.blocks.save([as_of])
            self._epoch = uow.cursor.move_to(as_of, None, self._epoch)
        self.now = time + LAG_SECONDS

    def whole(self, history: History) -> "IndexedHistory":
        """Index a complete history in one step."""
        self.index(history.events, history.block, history.time)
        return self

    def client(self, **options: Any) -> TestClient:
        """Return a client that sends requests to the API as a browser does."""
        return TestClient(create_read_api(self.source, streams=ApiSection(), **options))
