"""Endpoints that fail, throttle, lie or omit while workers read from them: the same state."""

from collections.abc import Callable

import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults.block_faults import (
    build_changed_header_fault,
    build_omitted_receipt_fault,
    build_wrong_bloom_fault,
    build_wrong_parent_fault,
)
from devnet.fakechain.faults.log_faults import (
    build_capped_logs_fault,
    build_duplicated_log_fault,
    build_omitted_logs_fault,
    build_omitted_range_logs_fault,
    build_reversed_logs_fault,
    build_uppercase_hex_fault,
)
from devnet.fakechain.faults.transport_faults import (
    build_429_fault,
    build_cut_connection_fault,
    build_html_fault,
    build_misdirected_responses_fault,
    build_reset_connection_fault,
    build_reversed_batch_fault,
)
from oracle.errors import TransientError
from tests.integration.segments.conftest import OpenPrepared, outcomes
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

# Longer than any of these faults.
TURNS = 2_000
FAULTS: dict[str, Callable[[], InjectedFault]] = {
    "cut off": lambda: build_cut_connection_fault(times=3),
    "reset": lambda: build_reset_connection_fault(times=3),
    "web page": lambda: build_html_fault(times=3),
    "throttled": lambda: build_429_fault(times=2),
    "misdirected": build_misdirected_responses_fault,
    "shuffled batch": build_reversed_batch_fault,
    "upper case": build_uppercase_hex_fault,
    "duplicate logs": build_duplicated_log_fault,
    "shuffled logs": build_reversed_logs_fault,
    "logs left out": lambda: build_omitted_logs_fault(for_blocks=(60, 90)),
    "logs left out in ranges": build_omitted_range_logs_fault,
    "logs capped": lambda: build_capped_logs_fault(7),
    "receipts left out": lambda: build_omitted_receipt_fault(0, for_blocks=(60, 90)),
    "another bloom": lambda: build_wrong_bloom_fault(1, for_blocks=(60, 90)),
    "another parent": lambda: build_wrong_parent_fault(times=2),
    "another header": lambda: build_changed_header_fault(
        {"extraData": "0x01"}, for_blocks=(60, 90)
    ),
}


def index_in_the_end(indexer: Indexer) -> None:
    """Index like the daemon, whatever fails temporarily."""
    for _ in range(TURNS):
        try:
            if indexer.step() is None:
                return
        except TransientError:
            continue
    pytest.fail("still not at the head")


@pytest.mark.parametrize("name", FAULTS)
def test_state_is_identical_despite_one_faulty_endpoint(
    fake_chain: FakeChain, open_prepared: OpenPrepared, name: str
):
    honest = open_prepared(0)
    honest.index()
    fake_chain.serve().head = fake_chain.head
    fake_chain.provider.faults.append(FAULTS[name]())
    indexer = open_prepared(2)
    before = outcomes("taken") + outcomes("refused")

    index_in_the_end(indexer)

    assert indexer.digest() == honest.digest()
    assert indexer.canonical_logs() == honest.canonical_logs()
    assert outcomes("taken") + outcomes("refused") > before
