"""Lies about one final block, which its receipts disprove."""

from typing import Any

from devnet.fakechain.block_json import Block
from devnet.fakechain.faults import log_faults
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.reading import hide, is_log


def a_block(busy: AChain) -> Block:
    """A final one with a log of ours."""
    return busy.back(20)


def leave_out(busy: AChain, place: int = 0) -> Block:
    """Let an endpoint never tell of one block's log."""
    at = a_block(busy)
    hide(busy, log_faults.omit_logs(is_log(at)), place)
    return at


def change(busy: AChain, place: int = 0) -> Block:
    """Let an endpoint say another thing in one block's log."""
    at = a_block(busy)

    def other(log: dict[str, Any]) -> None:
        if is_log(at)(log):
            log["data"] = log["data"][:-2] + "99"

    hide(busy, log_faults.change_each_log("other data", other), place)
    return at
