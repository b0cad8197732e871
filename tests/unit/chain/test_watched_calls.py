"""Watched calls of whole blocks: block and index of a transaction must match its position."""

import msgspec
import pytest

from oracle.chain.watched_calls import SentTransactionResponse, select_watched_calls
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.rpc.rpc_errors import RpcError

CONTRACT = Address("0x" + "c0" * 20)
SELECTOR = "0x12345678"
BLOCK = BlockRef(7, Hash("0x" + "b1" * 32), Hash("0x" + "b0" * 32), 100)
TRANSACTION = {
    "hash": "0x" + "a1" * 32,
    "from": "0x" + "f0" * 20,
    "to": CONTRACT,
    "value": "0x0",
    "input": SELECTOR,
    "blockHash": BLOCK.hash,
    "transactionIndex": "0x0",
}


@pytest.mark.parametrize(
    "changed_field", [{"transactionIndex": "0x1"}, {"blockHash": "0x" + "b2" * 32}]
)
def test_transaction_with_wrong_block_or_index_is_rejected(changed_field: dict[str, str]):
    transaction = msgspec.convert(TRANSACTION, SentTransactionResponse)
    selectors = {CONTRACT: frozenset({SELECTOR})}
    (call,) = select_watched_calls("node", BLOCK, [transaction], selectors)
    assert (call.tx, call.block_hash) == (0, BLOCK.hash)
    misplaced = msgspec.convert(TRANSACTION | changed_field, SentTransactionResponse)
    with pytest.raises(RpcError, match="differs from its place"):
        select_watched_calls("node", BLOCK, [misplaced], selectors)
