"""A nonsensical response of an endpoint counts as a failure: the next endpoint is used."""

import pytest

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.txmgr.client.chain_nonces import fetch_nonce_counts
from oracle.txmgr.client.receipts import (
    fetch_balance,
    fetch_receipt_quorum,
    fetch_transaction_count,
    fetch_transaction_counts_at_block,
    is_block_reorged,
)
from tests.integration.http.test_transports import Endpoint, first_endpoint, other
from tests.pools import view_of

__all__ = ["first_endpoint", "other"]

ACCOUNT = Address("0x" + 40 * "1")
HASH = Hash("0x" + 64 * "2")
BLOCK = BlockRef(7, HASH, HASH, 7)

REQUESTS = {
    "balance": lambda lines: fetch_balance(lines, ACCOUNT),
    "count": lambda lines: fetch_transaction_count(lines, ACCOUNT, "latest"),
    "counts": lambda lines: fetch_nonce_counts(lines, ACCOUNT),
    "receipts": lambda lines: fetch_receipt_quorum(lines, [HASH]),
}


@pytest.mark.parametrize("nonsense", [None, {}, "", "0x", "many", 5, [None]])
@pytest.mark.parametrize("send_request", ["balance", "count", "counts"])
def test_malformed_number_raises_transient_error(send_request, nonsense, first_endpoint: Endpoint):
    first_endpoint.response = {"result": nonsense}
    with pytest.raises(TransientError):
        REQUESTS[send_request](view_of(first_endpoint.url))


@pytest.mark.parametrize("nonsense", [{}, {"blockNumber": None}, "0x1", 5])
def test_malformed_receipt_raises_transient_error(nonsense, first_endpoint: Endpoint):
    first_endpoint.response = {"result": nonsense}
    with pytest.raises(TransientError):
        REQUESTS["receipts"](view_of(first_endpoint.url))


def test_next_endpoint_is_used_after_malformed_response(first_endpoint: Endpoint, other: Endpoint):
    first_endpoint.response = {"result": None}
    other.response = "0x10"
    assert fetch_balance(view_of(first_endpoint.url, other.url), ACCOUNT) == 16


def test_malformed_block_confirms_neither_a_nonce_count_nor_a_reorg(first_endpoint: Endpoint):
    first_endpoint.response = {"result": {"number": "0x7"}}
    lines = view_of(first_endpoint.url)
    assert fetch_transaction_counts_at_block(lines, ACCOUNT, BLOCK) == {}
    assert not is_block_reorged(lines, 7, HASH)
