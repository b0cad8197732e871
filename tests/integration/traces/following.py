"""Follows the recorded chain like the daemon: over HTTP, window by window, into a database."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import override

from devnet.fakechain.provider import Provider
from devnet.fakechain.recordings.recording import Recording, read_recording
from devnet.fakechain.server import serve_endpoint
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.domain.ids import Address
from oracle.domain.state import Node
from oracle.indexer.folder import EventFolder
from oracle.indexer.loop import IngestState, ingest_next_window
from oracle.rpc.pool import EndpointPool
from oracle.store.database import Store
from oracle.store.identity import Identity
from oracle.systems.crynux.crynux_rule_sets import CRYNUX

FOLDER = Path(__file__).resolve().parent / "crynux-vss"
# The depth of the final block below the head.
FINALITY = 16


@cache
def addresses() -> dict[str, Any]:
    address_book: dict[str, Any] = msgspec.json.decode((FOLDER / "addresses.json").read_bytes())
    return address_book


@cache
def load_recording() -> Recording:
    return read_recording(FOLDER)


def vss_reader(**options: Any) -> EventReader:
    contracts = {name: addresses()["contracts"][name] for name in ("VSSTask", "Node")}
    return EventReader.from_profile("crynux-vss", contracts, None, options)


@dataclass
class SteadyPace(IngestState):
    """Windows of a fixed size, however long they take."""

    size: int = 1

    def __post_init__(self) -> None:
        self.max_blocks = self.size

    @override
    def adapt_window_size(self, blocks: int, seconds: float) -> None:
        self.max_blocks = self.size


@dataclass
class Follower:
    """The indexing half of a daemon on the recorded chain;
    `provider.head` is the height that it shows.
    """

    store: Store
    source: ChainSource
    provider: Provider
    folder: EventFolder
    ingest: IngestState
    blocks: dict[int, Any] = field(default_factory=dict)

    def follow(self, number: int) -> None:
        """Advance the chain to a block, and ingest everything up to it."""
        self.provider.head = self.blocks[number]
        self.index()

    def index(self) -> None:
        """Ingest all blocks that the chain shows."""
        self.ingest.discard_heads()
        while ingest_next_window(self.source, self.store, self.folder, self.ingest) is not None:
            pass

    def nodes(self) -> dict[Address, Node]:
        with self.store.read_transaction() as uow:
            return {node.address: node for node in uow.nodes.iterate_all()}


@contextmanager
def follow_recorded_chain(
    url: str, *, size: int, start_block: int = 0, reader: EventReader | None = None
) -> Iterator[Follower]:
    """Run a daemon on the recorded chain, with this window size, from a block on."""
    chain = load_recording()
    with daemon(url, chain.create_provider(), reader or vss_reader(), start_block) as follower:
        follower.blocks = {block.number: block for block in chain.blocks.block_by_hash.values()}
        follower.ingest = SteadyPace(size=size)
        yield follower


@contextmanager
def daemon(
    url: str, provider: Provider, reader: EventReader, start_block: int = 0, endpoints: int = 1
) -> Iterator[Follower]:
    """Return the indexing half of a daemon, with the rules `crynux`, for any provider.

    This number of `endpoints` serves it, because a fork needs two endpoints that report it.
    """
    with follow_endpoints(url, [provider] * endpoints, reader, start_block) as follower:
        yield follower


@contextmanager
def follow_endpoints(
    url: str, providers: Sequence[Provider], reader: EventReader, start_block: int = 0
) -> Iterator[Follower]:
    """Return the same with endpoints that may show different chains."""
    provider = providers[0]
    with ExitStack() as until_the_end:
        served = [
            until_the_end.enter_context(serve_endpoint(served_provider))
            for served_provider in providers
        ]
        store = until_the_end.enter_context(Store.open(url, create=True))
        pool = EndpointPool.from_urls([endpoint.url for endpoint in served], provider.chain_id)
        source = ChainSource(pool, reader, FINALITY)
        contracts = {name: address for address, (name, _) in reader.contracts.items()}
        identity = Identity(
            source.get_chain_id(), source.fetch_genesis_hash(), contracts, None, start_block
        )
        with store.transaction() as uow:
            uow.identity.ensure_stored_identity(identity)
        try:
            yield Follower(store, source, provider, EventFolder(CRYNUX, reader), IngestState())
        finally:
            source.close()
