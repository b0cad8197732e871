"""Endpoints that fail, throttle, lie or leave out, while workers read by them: same state."""

from collections.abc import Callable

import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults.block_faults import (
    header_with,
    omits_receipts,
    other_bloom,
    other_parent,
)
from devnet.fakechain.faults.log_faults import (
    capped,
    doubled,
    omits_in_ranges,
    omits_logs,
    shuffled_logs,
    upper_case,
)
from devnet.fakechain.faults.transport_faults import (
    cut_off,
    misdirected,
    reset,
    shuffled_batch,
    throttled,
    web_page,
)
from oracle.errors import TransientError
from tests.integration.segments.conftest import OpenPrepared, outcomes
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.indexer import Indexer

# More than any of these faults lasts.
TURNS = 2_000
FAULTS: dict[str, Callable[[], InjectedFault]] = {
    "cut off": lambda: cut_off(times=3),
    "reset": lambda: reset(times=3),
    "web page": lambda: web_page(times=3),
    "throttled": lambda: throttled(times=2),
    "misdirected": misdirected,
    "shuffled batch": shuffled_batch,
    "upper case": upper_case,
    "doubled": doubled,
    "shuffled logs": shuffled_logs,
    "logs left out": lambda: omits_logs(for_blocks=(60, 90)),
    "logs left out in ranges": omits_in_ranges,
    "logs capped": lambda: capped(7),
    "receipts left out": lambda: omits_receipts(0, for_blocks=(60, 90)),
    "another bloom": lambda: other_bloom(1, for_blocks=(60, 90)),
    "another parent": lambda: other_parent(times=2),
    "another header": lambda: header_with({"extraData": "0x01"}, for_blocks=(60, 90)),
}


def index_in_the_end(indexer: Indexer) -> None:
    """Index on as the daemon does, whatever fails for now."""
    for _ in range(TURNS):
        try:
            if indexer.step() is None:
                return
        except TransientError:
            continue
    pytest.fail("still not at the head")


@pytest.mark.parametrize("name", FAULTS)
def test_the_state_is_the_same_whatever_an_endpoint_does(
    a_chain: AChain, open_prepared: OpenPrepared, name: str
):
    honest = open_prepared(0)
    honest.index()
    a_chain.serve().head = a_chain.head
    a_chain.provider.faults.append(FAULTS[name]())
    indexer, before = open_prepared(2), outcomes("taken") + outcomes("refused")

    index_in_the_end(indexer)

    assert indexer.digest() == honest.digest()
    assert indexer.canonical_logs() == honest.canonical_logs()
    assert outcomes("taken") + outcomes("refused") > before
