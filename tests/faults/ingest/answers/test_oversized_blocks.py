"""A block that is larger than a response may be is still read, slowly and visibly."""

import pytest

from devnet.fakechain.block_json import Block, Tx
from devnet.fakechain.mining import create_account
from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Address
from oracle.errors import TransientError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.chain.network_logs import NETWORK, make_node_address, make_task_key
from tests.support.ingest.endpoints import list_endpoints, read_metric
from tests.support.ingest.event_encoding import (
    build_transaction,
    encode_network_log,
    encode_task_created_log,
)
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, MINIMAL_POLICY, Indexer
from tests.support.ingest.reading import add_busy_blocks, build_logs

# Of an answer, in place of 64 MiB; a block of the burst holds about fifteen times as much.
LIMIT = 128 * 1024
LOGS = 1_500
WATCHED = "0x12345678"


@pytest.fixture
def busy_chain(fake_chain: FakeChain) -> FakeChain:
    return add_busy_blocks(fake_chain)


def limit_response_size(indexer: Indexer, max_bytes: int = LIMIT) -> Indexer:
    for endpoint in list_endpoints(indexer):
        endpoint.client._wire.http.max_bytes = max_bytes
    return indexer


def mine_burst_block(chain: FakeChain, txs: int, logs: int) -> Block:
    """Mine one block of `txs` transactions with `logs` logs each."""
    burst_logs = build_logs(txs * logs)
    return chain.show(
        chain.tree.mine(
            [
                build_transaction(*burst_logs[place * logs : (place + 1) * logs])
                for place in range(txs)
            ]
        )
    )


def _build_transactions_of_two_kinds(logs: int) -> list[Tx]:
    kinds = (
        encode_task_created_log,
        lambda number: encode_network_log("TaskQueued", task=make_task_key(number)),
    )
    return [build_transaction(kinds[number % 2](number)) for number in range(logs)]


def fetch_block_window(source: ChainSource, number: int) -> BlockWindow:
    source.fetch_heads()
    return source.fetch_window(BlockRange(number, number), with_headers=True)


def read_split_count(reason: str) -> float:
    return read_metric("oracle_window_splits_total", reason=reason)


@pytest.mark.parametrize("final", [True, False], ids=["history", "head"])
def test_block_above_the_log_limit_is_proven_by_its_receipts(
    busy_chain: FakeChain, open_indexer: OpenIndexer, *, final: bool
):
    indexer = limit_response_size(open_indexer(busy_chain.urls[0], reports=False))
    if not final:
        indexer.index()
    before = read_split_count("one block's receipts")
    block = mine_burst_block(busy_chain, LOGS // 10, 10)
    busy_chain.mine_empty(FINALITY + 2 if final else 0)

    indexer.index()

    assert indexer.canonical_logs() == busy_chain.logs()
    assert read_split_count("one block's receipts") > before
    window = indexer.source.fetch_verified_window(
        BlockRange(block.number, block.number), VerificationLevel.PROVEN
    )
    assert (window.level, len(window.logs)) == (VerificationLevel.PROVEN, LOGS)


def test_batch_limit_is_restored_after_burst(busy_chain: FakeChain, open_indexer: OpenIndexer):
    indexer = limit_response_size(open_indexer(busy_chain.urls[0], reports=False))
    mine_burst_block(busy_chain, LOGS // 10, 10)
    busy_chain.mine_empty(FINALITY + 2)
    (endpoint,) = list_endpoints(indexer)
    usual = endpoint.client.batch_limit

    indexer.index()

    assert endpoint.client.batch_limit == usual


def test_block_without_receipts_is_read_topic_by_topic(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    """Without receipts, nothing of the block is proven."""
    block = busy_chain.show(busy_chain.tree.mine(_build_transactions_of_two_kinds(LOGS)))
    busy_chain.provider.unsupported |= {"eth_getBlockReceipts", "eth_getTransactionReceipt"}
    indexer = limit_response_size(open_indexer(busy_chain.urls[0]), 12 * LIMIT)
    before = read_split_count("by topic")

    window = fetch_block_window(indexer.source, block.number)

    assert [log.index for log in window.logs] == list(range(LOGS))
    assert read_split_count("by topic") == before + 1
    assert (window.level, window.proven) == (VerificationLevel.SEAMED, ())


def test_error_for_oversized_transaction_names_the_setting(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    block = mine_burst_block(busy_chain, 1, LOGS)
    indexer = limit_response_size(open_indexer(busy_chain.urls[0]))

    for _ in range(3):
        with pytest.raises(TransientError, match=r"\[chain\] max_response_mib = 0\.125"):
            fetch_block_window(indexer.source, block.number)

    limit_response_size(indexer, 2**26)
    assert len(fetch_block_window(indexer.source, block.number).logs) == LOGS


@pytest.mark.parametrize("receipts", [True, False], ids=["receipts of blocks", "of transactions"])
def test_oversized_block_is_read_transaction_by_transaction(
    busy_chain: FakeChain, open_indexer: OpenIndexer, *, receipts: bool
):
    """If calls are watched, blocks are read with all their transactions."""
    if not receipts:
        busy_chain.provider.unsupported.add("eth_getBlockReceipts")
    indexer = limit_response_size(open_indexer(busy_chain.urls[0]))
    source = indexer.source
    source._reader.selectors = {Address(NETWORK): frozenset({WATCHED})}
    source.configure_verification(MINIMAL_POLICY)
    calls = [Tx(create_account(1), NETWORK, WATCHED + f"{place:064x}") for place in range(500)]
    block = busy_chain.show(busy_chain.tree.mine(calls))

    window = fetch_block_window(source, block.number)

    assert [call.tx for call in window.calls] == list(range(500))
    assert all(call.succeeded for call in window.calls)


@pytest.mark.timeout(900)
def test_block_with_100_000_joins_is_read(fake_chain: FakeChain, open_indexer: OpenIndexer):
    """The limit has its real value, 64 MiB."""
    busy_chain = add_busy_blocks(fake_chain)
    indexer = open_indexer(fake_chain.urls[0], reports=False)
    indexer.index()
    before = read_split_count("one block's receipts")
    version = {"major": 2, "minor": 5, "patch": 0}
    gpu = {"gpuName": "RTX 4090", "gpuVram": 24, "models": ["sdxl", "llama"]}
    joins = [
        encode_network_log("NodeJoined", node=make_node_address(number), stake=1, **gpu, **version)
        for number in range(100_000)
    ]
    busy_chain.show(
        busy_chain.tree.mine(
            [build_transaction(*joins[first : first + 50]) for first in range(0, 100_000, 50)]
        )
    )

    indexer.index()

    assert indexer.canonical_logs() == busy_chain.logs()
    assert read_split_count("one block's receipts") > before
