"""Receipts of blocks: the indexes of their logs, and the number of receipts in a batch."""

from collections.abc import Sequence
from typing import Any

import pytest

from devnet.fakechain.block_json import FakeLog, Tx
from devnet.fakechain.faults.log_faults import RECEIPT_METHODS, build_changed_logs_fault
from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.tree import BlockTree
from oracle.chain.verification.full_headers import fetch_required_headers
from oracle.chain.verification.receipt_fetch import fetch_receipts
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.endpoint import Endpoint

SENDER = "0x" + "01" * 20
SPEAKER = "0x" + "aa" * 20


def speaking(logs: int) -> Tx:
    fake_logs = tuple(FakeLog(SPEAKER, (f"0x{n:064x}",)) for n in range(logs))
    return Tx(SENDER, SPEAKER, logs=fake_logs)


def from_zero(logs):
    return [{**log, "logIndex": hex(place)} for place, log in enumerate(logs)]


@pytest.mark.parametrize("counted", ["through the block", "in each receipt"])
def test_every_log_gets_its_index_within_the_block(counted: str):
    tree = BlockTree()
    tree.mine([speaking(2), speaking(0), speaking(3), speaking(1)])
    provider = Provider(tree)
    if counted == "in each receipt":
        provider.faults.append(
            build_changed_logs_fault("as Ganache", from_zero, methods=RECEIPT_METHODS)
        )
    with serve_endpoint(provider) as served:
        endpoint = Endpoint(JsonRpcClient(served.url))
        ((_, receipts),) = fetch_receipts(endpoint, [fetch_required_headers(endpoint, [1])[1]])

    assert [[log.log_index for log in receipt.logs] for receipt in receipts] == [
        ["0x0", "0x1"],
        [],
        ["0x2", "0x3", "0x4"],
        ["0x5"],
    ]


def test_log_index_in_a_receipt_is_not_trusted():
    tree = BlockTree()
    tree.mine([speaking(1), speaking(2)])
    provider = Provider(tree)
    elsewhere = {
        "logIndex": "0x7",
        "transactionIndex": "0x5",
        "transactionHash": "0x" + "dd" * 32,
    }
    provider.faults.append(
        build_changed_logs_fault(
            "elsewhere",
            lambda logs: [{**log, **elsewhere} for log in logs],
            methods=RECEIPT_METHODS,
        )
    )
    with serve_endpoint(provider) as served:
        endpoint = Endpoint(JsonRpcClient(served.url))
        ((_, receipts),) = fetch_receipts(endpoint, [fetch_required_headers(endpoint, [1])[1]])

    assert [
        (log.log_index, log.transaction_index, log.transaction_hash == receipt.transaction_hash)
        for receipt in receipts
        for log in receipt.logs
    ] == [("0x0", "0x0", True), ("0x1", "0x1", True), ("0x2", "0x1", True)]


def test_batch_has_at_most_a_thousand_receipts_or_one_block(monkeypatch: pytest.MonkeyPatch):
    tree = BlockTree()
    # The batches are blocks 1 and 2, block 3, and blocks 4 to 6.
    counts = (400, 600, 1_200, 300, 300, 300)
    for count in counts:
        tree.mine([speaking(1)] * count)
    batch_sizes = list[int]()

    def call_batch(self: JsonRpcClient, method: str, params: Sequence[Any], *options: Any) -> Any:
        if method == "eth_getBlockReceipts":
            batch_sizes.append(len(params))
        return original_call_batch(self, method, params, *options)

    original_call_batch = JsonRpcClient.call_batch
    monkeypatch.setattr(JsonRpcClient, "call_batch", call_batch)
    with serve_endpoint(Provider(tree)) as served:
        endpoint = Endpoint(JsonRpcClient(served.url))
        headers = fetch_required_headers(endpoint, range(1, 7))
        fetched = list(fetch_receipts(endpoint, [headers[number] for number in range(1, 7)]))

    assert [len(receipts) for _, receipts in fetched] == list(counts)
    assert batch_sizes == [2, 1, 3]
