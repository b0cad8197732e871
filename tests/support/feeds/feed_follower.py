"""A daemon's two sources for tests: a scripted chain, and a relay over real HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from oracle.chain.feed.feed_client import FeedClient
from oracle.chain.feed.relay_reader import RelayReader
from oracle.daemon.config.feed_section import FeedSection
from oracle.domain.feed_rows import FeedFault
from oracle.domain.scoring.rules import Rules
from oracle.errors import TransientError
from oracle.indexer.feed_events import FeedHeadLimit, FeedHook
from oracle.indexer.feed_polls import PollResult, get_next_poll_start_id, ingest_poll_response
from oracle.indexer.folder import EventFolder
from oracle.indexer.loop import IngestState
from oracle.store.database import Store
from oracle.systems.crynux.crynux_rule_sets import RELAY
from tests.support.feeds.relay import Relay, serve_relay
from tests.support.scripted import ScriptedChain, ScriptedReader
from tests.support.txmgr.follower import Follower

SETTINGS = FeedSection(page_rows=100)


def create_feed_folder(rules: Rules = RELAY) -> EventFolder:
    """Return the folder of a new process that folds a chain and a feed."""
    reader = ScriptedReader()
    reader.feed = RelayReader()
    return EventFolder(rules, reader, [FeedHook(0)])


@dataclass
class FeedFollower:
    """Follows a chain and a relay into a store; both clocks are the relay's."""

    relay: Relay
    client: FeedClient
    follower: Follower
    settings: FeedSection = SETTINGS
    polls: list[PollResult] = field(default_factory=list)
    # Whether the last poll did not reach the end, as the daemon remembers.
    reads_on: bool = False

    @property
    def store(self) -> Store:
        return self.follower.store

    @property
    def chain(self) -> ScriptedChain:
        return self.follower.chain

    def poll(self, our_time: float | None = None) -> PollResult | None:
        start = get_next_poll_start_id(self.store, self.settings, is_continuation=self.reads_on)
        if start is None:
            return None
        answer = self.client.poll(start, self.settings.page_rows)
        ingested = ingest_poll_response(
            self.store, answer, self.settings, self.relay.now if our_time is None else our_time
        )
        self.reads_on = ingested is not None and not answer.is_complete
        if ingested is not None:
            self.polls.append(ingested)
        return ingested

    def passes(self, seconds: int, every: int = 10) -> None:
        """Advance the relay's clock, poll the relay, and mine blocks up to the relay's time."""
        until = self.relay.now + seconds
        while self.relay.now < until:
            self.relay.now += every
            self.poll()
            # The daemon polls again at once if it did not reach the end.
            while self.reads_on:
                self.poll()
                self.catch_up()
            while self.chain.newest.time + self.chain.seconds_per_block <= self.relay.now:
                self.chain.mine()
            self.catch_up()

    def catch_up(self) -> None:
        # The heads are fetched each time, so no machine's clock decides what is folded.
        self.follower.ingest.discard_heads()
        # None while the feed is not settled up to the first block.
        with suppress(TransientError):
            self.follower.catch_up()

    def restart(self) -> None:
        """Continue as another process would."""
        self.follower.folder = create_feed_folder(self.follower.folder.rules)
        self.follower.ingest = IngestState(head_limit=FeedHeadLimit(self.store))
        self.reads_on = False

    def faults(self) -> list[FeedFault]:
        with self.store.read_transaction() as uow:
            return uow.feed.list_faults(is_open=True)

    def kinds(self) -> list[str]:
        return [fault.kind for fault in self.faults()]

    def pools(self) -> dict[str, list[int]]:
        """Return every node's task scores, oldest first."""
        with self.store.read_transaction() as uow:
            return {node.address: list(node.pool) for node in uow.nodes.iterate_all()}

    def digest(self) -> str:
        with self.store.read_transaction() as uow:
            return uow.projections.compute_digest()


@contextmanager
def follow_relay(
    store: Store, relay: Relay, chain: ScriptedChain | None = None, rules: Rules = RELAY
) -> Iterator[FeedFollower]:
    """Follow a relay over HTTP beside a chain, within this context."""
    chain = chain or ScriptedChain()
    follower = Follower(chain, store, folder=create_feed_folder(rules))
    follower.ingest = IngestState(head_limit=FeedHeadLimit(store))
    with serve_relay(relay) as url:
        client = FeedClient(url, "feed.url", 5.0, 1 << 16)
        try:
            yield FeedFollower(relay, client, follower, SETTINGS.model_copy())
        finally:
            client.close()
