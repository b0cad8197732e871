"""Lies about one final block, which the block's receipts disprove."""

from typing import Any

from devnet.fakechain.block_json import Block
from devnet.fakechain.faults import log_faults
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.reading import add_fault, build_log_matcher


def find_block_with_log(busy: FakeChain) -> Block:
    """Return a final block with a log of our contracts."""
    return busy.back(20)


def omit_log(busy: FakeChain, place: int = 0) -> Block:
    """Let an endpoint always omit one block's log; return the block."""
    at = find_block_with_log(busy)
    add_fault(busy, log_faults.build_omitted_logs_fault(build_log_matcher(at)), place)
    return at


def alter_log(busy: FakeChain, place: int = 0) -> Block:
    """Let an endpoint change one block's log; return the block."""
    at = find_block_with_log(busy)

    def change_data(log: dict[str, Any]) -> None:
        if build_log_matcher(at)(log):
            log["data"] = log["data"][:-2] + "99"

    add_fault(busy, log_faults.build_every_log_changed_fault("other data", change_data), place)
    return at
