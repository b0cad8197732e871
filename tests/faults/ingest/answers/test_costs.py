"""The cost of a block at the head: HTTP requests, counted at the endpoint."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from typing_extensions import override

from devnet.fakechain.block_json import Block, FakeLog, Tx
from devnet.fakechain.provider import Provider
from devnet.fakechain.requests import HttpResponse
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.tree import BlockTree
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.chain.verification.rpc_costs import estimate_rpc_costs
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Address
from tests.pools import source_on
from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.ingest.event_encoding import ANYBODY, build_transaction
from tests.support.ingest.indexer import MINIMAL_POLICY
from tests.support.ingest.reading import build_logs

WATCHED = "0x12345678"
Open = Callable[..., ChainSource]


class Counting(Provider):
    """An endpoint that records the methods of each request."""

    def __init__(self, tree: BlockTree) -> None:
        super().__init__(tree)
        self.requests: list[list[str]] = []

    @override
    def handle_post(self, body: bytes) -> HttpResponse:
        before = len(self.received_requests)
        answer = super().handle_post(body)
        self.requests.append([request.method for request in list(self.received_requests)[before:]])
        return answer


@pytest.fixture
def tree() -> BlockTree:
    """Return a tree with twice as many blocks with logs as prove the chain's roots."""
    tree = BlockTree()
    for log in build_logs(40):
        tree.mine([build_transaction(log)])
    return tree


@pytest.fixture
def provider(tree: BlockTree) -> Counting:
    return Counting(tree)


@pytest.fixture
def open_source(provider: Counting) -> Iterator[Open]:
    """Return a function that opens sources which have read the chain up to its head."""
    with ExitStack() as until_the_end:
        url = until_the_end.enter_context(serve_endpoint(provider)).url

        def open_synced_source(*, watched: bool = False) -> ChainSource:
            reader = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)
            if watched:
                reader.selectors = {Address(NETWORK): frozenset({WATCHED})}
            source = source_on(reader, url)
            until_the_end.callback(source.close)
            for number in (provider.head.number - 30, provider.head.number):
                source.fetch_heads()
                source.fetch_window(BlockRange(number, number), with_headers=True)
            return source

        yield open_synced_source


def list_requests_for_block(
    source: ChainSource, provider: Counting, block: Block
) -> list[set[str]]:
    """Return the requests from the poll that finds this block to the fetch of its window."""
    provider.head = block
    provider.requests.clear()
    source.fetch_heads()
    window = source.fetch_window(BlockRange(block.number, block.number), with_headers=True)
    assert window.level >= VerificationLevel.BLOOMED
    return [set(methods) for methods in provider.requests]


HEADERS = {"eth_getBlockByNumber"}
LOGS = {"eth_getLogs"}
RECEIPTS = {"eth_getBlockReceipts"}


@pytest.mark.parametrize("txs", [[], [Tx(ANYBODY, ANYBODY, logs=(FakeLog(ANYBODY, ()),))]])
def test_empty_block_costs_one_header_batch_and_one_log_request(
    provider: Counting, open_source: Open, tree: BlockTree, txs: list[Tx]
):
    """The poll is included: it returns the header whose hash the log request names."""
    source = open_source()

    assert list_requests_for_block(source, provider, tree.mine(txs)) == [HEADERS, LOGS]


def test_block_with_logs_costs_one_more_receipts_request(
    provider: Counting, open_source: Open, tree: BlockTree
):
    source = open_source()

    block = tree.mine([build_transaction(log) for log in build_logs(3)])

    assert list_requests_for_block(source, provider, block) == [HEADERS, LOGS, RECEIPTS]


def test_empty_block_with_watched_calls_costs_one_block_request(
    provider: Counting, open_source: Open, tree: BlockTree
):
    source = open_source(watched=True)

    assert list_requests_for_block(source, provider, tree.mine()) == [HEADERS, HEADERS, LOGS]
    fulls = [
        request.params[1]
        for request in provider.received_requests
        if request.method == "eth_getBlockByNumber"
    ]
    assert fulls[-1] is True


def test_watched_calls_cost_one_receipts_request_per_block(
    provider: Counting, open_source: Open, tree: BlockTree
):
    source = open_source(watched=True)
    call = Tx(ANYBODY, NETWORK, WATCHED + "00" * 32)

    block = tree.mine([call, build_transaction(build_logs(1)[0])])

    assert list_requests_for_block(source, provider, block) == [HEADERS, HEADERS, LOGS, RECEIPTS]


def test_watched_calls_are_proven_including_their_success_status(
    provider: Counting, open_source: Open, tree: BlockTree
):
    source = open_source(watched=True)
    calls = [Tx(ANYBODY, NETWORK, WATCHED, succeeded=even) for even in (True, False)]
    provider.head = block = tree.mine([*calls, Tx(ANYBODY, NETWORK, "0x87654321")])

    window = source.fetch_window(BlockRange(block.number - 1, block.number), with_headers=False)

    assert [(call.tx, call.succeeded) for call in window.calls] == [(0, True), (1, False)]
    assert window.proven == (block.number - 1, block.number)


def test_reported_request_costs_equal_the_actual_requests(
    provider: Counting, open_source: Open, tree: BlockTree
):
    for watched in (False, True):
        source = open_source(watched=watched)
        reader = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)
        if watched:
            reader.selectors = {Address(NETWORK): frozenset({WATCHED})}
        cost_estimate = estimate_rpc_costs(reader, VerificationPolicy(), None)

        empty = list_requests_for_block(source, provider, tree.mine())
        busy = list_requests_for_block(
            source, provider, tree.mine([build_transaction(build_logs(1)[0])])
        )

        assert (len(empty), len(busy)) == (
            cost_estimate.empty_block,
            cost_estimate.empty_block + cost_estimate.proof,
        )


def test_lower_verification_level_needs_fewer_requests():
    reader = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)

    min_costs = estimate_rpc_costs(reader, MINIMAL_POLICY, None)
    max_costs = estimate_rpc_costs(reader, VerificationPolicy(), None)
    every = estimate_rpc_costs(reader, VerificationPolicy(every_header=True), None)

    assert (min_costs.empty_block, min_costs.proof, min_costs.history) == (2, 0, 6)
    assert (max_costs.proof, max_costs.history) == (1, 1_006)
    assert every.history == 2_000
