"""Heads and single headers."""

from collections.abc import Iterator

import pytest

from oracle.chain.head_tracker import STANDSTILL_SECONDS
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.errors import TransientError
from oracle.rpc.pool import EndpointPool
from tests.support.chain.fixtures import OpenSource, Serve
from tests.support.chain.memory_chain import MemoryChain
from tests.support.chain.server import Http, Request, Served


def test_final_block_follows_the_finalized_tag_if_it_is_lower(
    served: Served, open_source: OpenSource
):
    heads = open_source(served, finality_depth=2).fetch_heads()

    assert (heads.latest.number, heads.final.number) == (40, 36)
    assert heads.safe is not None
    assert heads.safe.number == 38


def test_final_block_follows_the_depth_if_it_is_lower(served: Served, open_source: OpenSource):
    heads = open_source(served, finality_depth=10).fetch_heads()

    assert heads.final.number == 30
    assert heads.final.hash == served.chain.blocks[30].hash


def test_final_block_of_a_short_chain_is_genesis(serve: Serve, open_source: OpenSource):
    heads = open_source(serve(MemoryChain()), finality_depth=64).fetch_heads()

    assert (heads.latest.number, heads.final.number) == (0, 0)


def test_unsupported_block_tags_are_requested_only_once(served: Served, open_source: OpenSource):
    served.chain.tags = {}
    source = open_source(served, finality_depth=3)

    heads = source.fetch_heads()
    assert (heads.safe, heads.final.number) == (None, 37)

    before = len(served.received_requests)
    source.fetch_heads()
    tags = [params[0] for _, params in served.received_requests[before:]]
    assert tags == ["latest"]


def test_tag_above_the_newest_block_is_rejected(served: Served, open_source: OpenSource):
    served.chain.tags = {"finalized": 0, "safe": 0}

    def late(request: Request) -> Http | None:
        if request["params"] != ["latest", False]:
            return None
        header = served.chain.blocks[38].header
        return Http(body=b'{"id":%d,"result":%b}' % (request["id"], header))

    served.most_in_batch = 1
    served.faults.append(late)

    with pytest.raises(TransientError, match="block 40 is final or safe, but the latest"):
        open_source(served, finality_depth=5).fetch_heads()


def test_block_mined_during_a_batch_request_is_tolerated(served: Served, open_source: OpenSource):
    """On a chain where every block is final immediately."""
    served.chain.tags = {"finalized": 0, "safe": 0}
    stale = [served.chain.blocks[38].header]

    def late(request: Request) -> Http | None:
        if request["params"] != ["latest", False] or not stale:
            return None
        return Http(body=b'{"id":%d,"result":%b}' % (request["id"], stale.pop()))

    served.most_in_batch = 1
    served.faults.append(late)

    heads = open_source(served, finality_depth=5).fetch_heads()

    assert (heads.latest.number, heads.final.number) == (40, 35)


def test_final_block_never_decreases(served: Served, open_source: OpenSource):
    source = open_source(served, finality_depth=2)
    final = source.fetch_heads().final
    served.chain.tags["finalized"] = 20

    assert source.fetch_heads().final == final


def test_endpoint_behind_final_block_is_rejected(
    serve: Serve, served: Served, open_source: OpenSource
):
    source = open_source(served, finality_depth=2)
    source.fetch_heads()
    served.chain.blocks = served.chain.blocks[:20]

    with pytest.raises(TransientError, match="below the final block"):
        source.fetch_heads()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pair(
    serve: Serve, reader: EventReader, clock: Clock
) -> Iterator[tuple[Served, Served, ChainSource]]:
    """Return two endpoints of one chain, each of which may lag separately."""
    chain = MemoryChain()
    for _ in range(20):
        chain.mine()
    other_chain = MemoryChain(blocks=list(chain.blocks))
    first = serve(chain)
    second = serve(other_chain)
    endpoints = EndpointPool.from_urls([first.url, second.url], 31337, clock)
    source = ChainSource(endpoints, reader, 4, clock)
    yield first, second, source
    source.close()


def test_stalled_preferred_endpoint_is_skipped(
    pair: tuple[Served, Served, ChainSource], clock: Clock
):
    """Its responses are valid, but always show the same block."""
    frozen, going, source = pair
    source.fetch_heads()
    going.chain.mine()
    assert source.fetch_heads().latest.number == 20

    clock.now += STANDSTILL_SECONDS + 1

    assert source.fetch_heads().latest.number == 21
    before = len(frozen.received_requests)
    assert source.fetch_heads().latest.number == 21
    header = source.fetch_header(21)
    assert header is not None
    assert header.number == 21
    assert len(frozen.received_requests) == before


def test_preferred_endpoint_is_skipped_while_it_catches_up(
    pair: tuple[Served, Served, ChainSource], clock: Clock
):
    returning, going, source = pair
    source.fetch_heads()
    returning.faults.append(lambda _: Http(status=502))
    going.chain.mine()
    assert source.fetch_heads().latest.number == 21

    returning.faults.clear()
    clock.now += 10

    assert source.fetch_heads().latest.number == 21


def test_stalled_chain_is_still_polled(pair: tuple[Served, Served, ChainSource], clock: Clock):
    first, _, source = pair
    source.fetch_heads()
    for _ in range(10):
        clock.now += STANDSTILL_SECONDS + 1
        assert source.fetch_heads().latest.number == 20

    clock.now += 60
    first.chain.mine()
    assert source.fetch_heads().latest.number == 21


def test_shorter_chain_is_accepted_if_all_endpoints_agree(
    pair: tuple[Served, Served, ChainSource],
):
    first, second, source = pair
    source.fetch_heads()
    for served in (first, second):
        served.chain.cut(2, salt="shorter")

    assert source.fetch_heads().latest.number == 18


def test_missing_header_returns_none(served: Served, open_source: OpenSource):
    source = open_source(served)

    assert source.fetch_header(41) is None
    header = source.fetch_header(40)
    assert header is not None
    assert header.parent_hash == served.chain.blocks[39].hash


def test_missing_headers_raise_transient_error(served: Served, open_source: OpenSource):
    with pytest.raises(TransientError, match="no block 41"):
        open_source(served).fetch_headers(BlockRange(38, 42))


def test_header_of_another_block_is_rejected(served: Served, open_source: OpenSource):
    served.chain.blocks[7] = served.chain.blocks[8]

    with pytest.raises(TransientError, match="another block for 7"):
        open_source(served).fetch_header(7)


def test_genesis_hash_is_the_hash_of_block_zero(served: Served, open_source: OpenSource):
    source = open_source(served)

    assert source.fetch_genesis_hash() == served.chain.blocks[0].hash
    assert source.get_chain_id() == 31337
