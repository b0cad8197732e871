"""Endpoints that return at most so many logs, without an error for the rest."""

from collections.abc import Callable

import pytest

from devnet.fakechain.faults import block_faults, log_faults
from devnet.fakechain.provider import Provider
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.fetch.limit_memory import MAX_LOGS_FACT, OMITS_LOGS_FACT
from oracle.chain.verification.calibration import Calibration
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import list_endpoints, read_metric
from tests.support.ingest.event_encoding import encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, MINIMAL_POLICY, Indexer
from tests.support.ingest.reading import (
    add_fault,
    build_logs,
    fetch_all_logs,
    list_log_ranges,
    reject_block_hash_filters,
)

CAPS = [1, 2, 3, 7, 50]
Headers = Callable[[Provider], None]


def add_no_fault(_: Provider) -> None:
    pass


def add_zero_bloom_fault(provider: Provider) -> None:
    provider.faults.append(block_faults.build_zero_bloom_fault())


def add_zero_bloom_and_root_faults(provider: Provider) -> None:
    provider.faults += [
        block_faults.build_zero_bloom_fault(),
        block_faults.build_wrong_receipts_root_fault(),
    ]


@pytest.fixture
def crowded_chain(fake_chain: FakeChain) -> FakeChain:
    """Return a chain of blocks with up to nine logs, some adjacent and some far apart."""
    for number in range(40):
        fake_chain.emit(*build_logs(number % 10))
        fake_chain.mine_empty(number % 3)
    fake_chain.mine_empty(FINALITY + 2)
    return fake_chain


def cap_first_endpoint(chain: FakeChain, max_logs: int, headers: Headers = add_no_fault) -> None:
    """Cap the first endpoint; the headers have the same faults at both endpoints."""
    add_fault(chain, log_faults.build_capped_logs_fault(max_logs))
    for provider in chain.providers[:2]:
        headers(provider)


def read_truncated_response_count(indexer: Indexer, place: int = 0) -> float:
    name = indexer.source.list_endpoint_names()[place]
    return read_metric("oracle_endpoint_truncated_responses_total", endpoint=name)


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside an honest one"])
@pytest.mark.parametrize(
    "headers", [add_no_fault, add_zero_bloom_fault, add_zero_bloom_and_root_faults]
)
@pytest.mark.parametrize("max_logs", CAPS)
def test_log_cap_of_an_endpoint_does_not_lose_logs(
    crowded_chain: FakeChain,
    open_indexer: OpenIndexer,
    max_logs: int,
    headers: Headers,
    *,
    alone: bool,
):
    cap_first_endpoint(crowded_chain, max_logs, headers)
    indexer = open_indexer(*crowded_chain.urls[: 1 if alone else 2], reports=False)

    indexer.index()
    crowded_chain.emit(*build_logs(8))
    crowded_chain.emit(*build_logs(2))
    indexer.index()

    assert indexer.canonical_logs() == crowded_chain.logs()
    assert read_truncated_response_count(indexer) > 0


@pytest.mark.parametrize("max_logs", CAPS)
def test_log_cap_is_detected_by_splitting_without_receipts(
    fake_chain: FakeChain, open_indexer: OpenIndexer, max_logs: int
):
    for number in range(30):
        fake_chain.emit(encode_task_created_log(number))
    fake_chain.mine_empty(FINALITY + 2)
    fake_chain.provider.unsupported |= {"eth_getBlockReceipts", "eth_getTransactionReceipt"}
    indexer = open_indexer(fake_chain.urls[0], reports=False)
    indexer.source.configure_verification(MINIMAL_POLICY, Calibration(indexer.clock))
    first = fake_chain.head.number - (FINALITY + 2) - 29
    cap_first_endpoint(fake_chain, max_logs)
    add_fault(fake_chain, reject_block_hash_filters())

    logs = fetch_all_logs(indexer.source, first, fake_chain.head.number)

    assert [(log.block_hash, log.index) for log in logs] == fake_chain.logs()[-len(logs) :]
    assert len(logs) == 30


def test_log_cap_is_stored_and_counted_against_the_endpoint(
    crowded_chain: FakeChain, open_indexer: OpenIndexer
):
    capability_store = Kept()
    cap_first_endpoint(crowded_chain, 7, add_zero_bloom_and_root_faults)
    indexer = open_indexer(*crowded_chain.urls, reports=False)
    indexer.source.configure_verification(
        VerificationPolicy(), Calibration(capability_store=capability_store)
    )
    first, second = list_endpoints(indexer)

    indexer.index()

    assert capability_store.of[first.name, MAX_LOGS_FACT] == "7"
    assert (second.name, MAX_LOGS_FACT) not in capability_store.of
    assert (
        read_metric("oracle_endpoint_inconsistent_total", endpoint=first.name, check="logs") == 1
    )


def test_log_cap_of_an_endpoint_survives_a_restart(
    crowded_chain: FakeChain, open_indexer: OpenIndexer
):
    capability_store = Kept()
    cap_first_endpoint(crowded_chain, 7, add_zero_bloom_and_root_faults)
    indexer = open_indexer(crowded_chain.urls[0], reports=False)
    capability_store.of[indexer.source.list_endpoint_names()[0], MAX_LOGS_FACT] = "7"
    indexer.source.configure_verification(
        MINIMAL_POLICY, Calibration(capability_store=capability_store)
    )
    many_logs = BlockRange(30, 60)
    # Of another endpoint's kind of answer: larger than the cap.
    indexer.source._window_source._limit_store.restore_limits()
    list_endpoints(indexer)[0].limits.may_be_truncated(10_000)

    window = indexer.source.fetch_window(many_logs, with_headers=False)

    block_hashes = {
        block.hash
        for block in (
            crowded_chain.tree.last_mined.get_ancestor(crowded_chain.head.number - number)
            for number in range(30, 61)
        )
    }
    assert [(log.block_hash, log.index) for log in window.logs] == [
        place for place in crowded_chain.logs() if place[0] in block_hashes
    ]


def test_endpoint_that_omits_logs_is_queried_by_block_hash(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    """No limit is reached: a range lacks logs that the single blocks have."""
    for number in range(30):
        fake_chain.emit(encode_task_created_log(number))
    fake_chain.mine_empty(FINALITY + 2)
    capability_store = Kept()
    late = hex(fake_chain.head.number - 40)
    add_fault(
        fake_chain,
        log_faults.build_omitted_range_logs_fault(lambda log: log["blockNumber"] > late),
    )
    add_zero_bloom_and_root_faults(fake_chain.provider)
    indexer = open_indexer(fake_chain.urls[0], reports=False)
    indexer.source.configure_verification(
        VerificationPolicy(), Calibration(capability_store=capability_store)
    )

    indexer.index()

    assert indexer.canonical_logs() == fake_chain.logs()
    assert len(list_log_ranges(fake_chain.provider)) <= 8
    assert capability_store.of[indexer.source.list_endpoint_names()[0], OMITS_LOGS_FACT] == "1"


def test_lowered_log_cap_of_an_endpoint_is_detected(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    """The earlier size of a response does not show the current cap; no logs are served by hash."""
    fake_chain.emit(*build_logs(60))
    for _ in range(120):
        fake_chain.emit(*build_logs(4))
    fake_chain.mine_empty(FINALITY + 2)
    add_zero_bloom_and_root_faults(fake_chain.provider)
    indexer = open_indexer(fake_chain.urls[0], reports=False, clock=clock)
    indexer.source.configure_verification(MINIMAL_POLICY, Calibration(clock))
    last = fake_chain.head.number
    fetch_all_logs(indexer.source, 0, 40)
    cap_first_endpoint(fake_chain, 10)
    add_fault(fake_chain, reject_block_hash_filters())

    windows = [
        indexer.source._window_source.fetch_window(BlockRange(at, at + 2), with_headers=False)
        for at in range(41, last - 12)
    ]

    assert read_truncated_response_count(indexer) > 0
    assert [len(window.logs) for window in windows[-10:]] == [12] * 10


def test_block_above_the_log_cap_is_unproven_without_receipts(
    crowded_chain: FakeChain, open_indexer: OpenIndexer
):
    """Nothing can prove the missing logs."""
    block = crowded_chain.emit(*build_logs(9))
    crowded_chain.provider.unsupported |= {"eth_getBlockReceipts", "eth_getTransactionReceipt"}
    cap_first_endpoint(crowded_chain, 4)
    source = open_indexer(crowded_chain.urls[0]).source
    source.fetch_heads()

    window = source.fetch_window(BlockRange(block.number, block.number), with_headers=True)

    assert (len(window.logs), window.proven) == (4, ())
    assert window.level < VerificationLevel.BLOOMED


class Kept:
    """Stores capabilities in memory."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, str], str] = {}

    def load_facts(self, endpoint: str) -> dict[str, str]:
        return {key: value for (of, key), value in self.of.items() if of == endpoint}

    def save_fact(self, endpoint: str, key: str, value: str, _seconds: float | None) -> None:
        self.of[endpoint, key] = value


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()
