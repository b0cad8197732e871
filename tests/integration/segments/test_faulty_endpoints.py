"""Endpoints that fail, throttle, lie or leave out, while workers read by them: same state."""

from collections.abc import Callable

import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults.block_faults import (
    omit_receipt,
    override_header_fields,
    serve_wrong_bloom,
    serve_wrong_parent,
)
from devnet.fakechain.faults.log_faults import (
    cap_logs,
    duplicate_log,
    omit_logs,
    omit_logs_of_ranges,
    reverse_logs,
    uppercase_hex,
)
from devnet.fakechain.faults.transport_faults import (
    cut_connection,
    misdirect_responses,
    reset_connection,
    return_429,
    return_html,
    reverse_batch,
)
from oracle.errors import TransientError
from tests.integration.segments.conftest import OpenPrepared, outcomes
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.indexer import Indexer

# More than any of these faults lasts.
TURNS = 2_000
FAULTS: dict[str, Callable[[], InjectedFault]] = {
    "cut off": lambda: cut_connection(times=3),
    "reset": lambda: reset_connection(times=3),
    "web page": lambda: return_html(times=3),
    "throttled": lambda: return_429(times=2),
    "misdirected": misdirect_responses,
    "shuffled batch": reverse_batch,
    "upper case": uppercase_hex,
    "doubled": duplicate_log,
    "shuffled logs": reverse_logs,
    "logs left out": lambda: omit_logs(for_blocks=(60, 90)),
    "logs left out in ranges": omit_logs_of_ranges,
    "logs capped": lambda: cap_logs(7),
    "receipts left out": lambda: omit_receipt(0, for_blocks=(60, 90)),
    "another bloom": lambda: serve_wrong_bloom(1, for_blocks=(60, 90)),
    "another parent": lambda: serve_wrong_parent(times=2),
    "another header": lambda: override_header_fields({"extraData": "0x01"}, for_blocks=(60, 90)),
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
def test_state_is_identical_whatever_one_endpoint_does(
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
