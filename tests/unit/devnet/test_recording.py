"""A recorded chain gives the same answers as the original."""

import gzip
from pathlib import Path

import msgspec
import pytest

from devnet.fakechain.provider import Provider
from devnet.fakechain.recordings.recording import read_recording
from devnet.fakechain.requests import FakeRpcError
from devnet.fakechain.tree import get_branch
from oracle.errors import InputError
from tests.unit.devnet.networks import grown

ALL_BLOCKS: list[object] = [{"fromBlock": "0x0", "toBlock": "latest"}]


def lines(tree, *, kinds):
    """Return the records of the chain, newest first: the order does not matter."""
    yield {"kind": "chain", "chainId": hex(tree.chain_id)}
    for block in get_branch(tree.last_mined)[::-1]:
        records_by_kind = {
            "block": [block.header],
            "log": block.logs,
            "tx": block.transactions,
            "receipt": block.receipts,
        }
        yield from ({"kind": kind, **record} for kind in kinds for record in records_by_kind[kind])


def write_records(path, records):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wb") as file:
        file.writelines(msgspec.json.encode(record) + b"\n" for record in records)
    return path


@pytest.fixture
def tree():
    return grown()


def list_answers(provider, tree):
    """Return the answers to all requests that a chain supports."""
    questions: list[tuple[str, list[object]]] = [
        ("eth_getLogs", ALL_BLOCKS),
        ("eth_chainId", []),
        ("eth_blockNumber", []),
    ]
    for block in get_branch(tree.last_mined):
        questions += [
            ("eth_getBlockByNumber", [hex(block.number), True]),
            ("eth_getBlockByHash", [block.hash, False]),
            ("eth_getBlockReceipts", [block.hash]),
            ("eth_getLogs", [{"blockHash": block.hash}]),
        ]
        for tx_hash in block.tx_hashes:
            questions.append(("eth_getTransactionReceipt", [tx_hash]))
            questions.append(("eth_getTransactionByHash", [tx_hash]))
    return [provider.handle_call(method, params) for method, params in questions]


@pytest.mark.parametrize("name", ["chain.jsonl", "chain.jsonl.gz"])
def test_full_recording_reproduces_chain_responses(tmp_path, tree, name):
    path = write_records(tmp_path / name, lines(tree, kinds=["block", "tx", "receipt"]))
    assert list_answers(read_recording(path).create_provider(), tree) == list_answers(
        Provider(tree), tree
    )


def test_receipts_are_rebuilt_from_transactions_and_logs(tmp_path, tree):
    path = write_records(tmp_path / "chain.jsonl", lines(tree, kinds=["block", "log", "tx"]))
    receipts = read_recording(path).create_provider().handle_call("eth_getBlockReceipts", ["0x2"])
    true = Provider(tree).handle_call("eth_getBlockReceipts", ["0x2"])
    assert [receipt["logs"] for receipt in receipts] == [receipt["logs"] for receipt in true]
    assert [receipt["transactionHash"] for receipt in receipts] == [
        receipt["transactionHash"] for receipt in true
    ]


def test_transaction_status_is_copied_to_receipt(tmp_path, tree):
    def failed():
        for line in lines(tree, kinds=["block", "tx"]):
            yield {**line, "status": "0x0"} if line["kind"] == "tx" else line

    provider = read_recording(write_records(tmp_path / "chain.jsonl", failed())).create_provider()
    assert provider.handle_call("eth_getBlockReceipts", ["0x1"])[0]["status"] == "0x0"


def test_header_fields_that_were_not_recorded_are_zero(tmp_path, tree):
    kept_fields = {"kind", "number", "hash", "parentHash", "timestamp", "chainId"}
    bare = [
        {key: value for key, value in line.items() if key in kept_fields}
        for line in lines(tree, kinds=["block"])
    ]
    provider = read_recording(write_records(tmp_path / "chain.jsonl", bare)).create_provider()
    head = provider.handle_call("eth_getBlockByNumber", ["latest", False])
    assert head["hash"] == tree.last_mined.hash
    assert int(head["logsBloom"], 16) == int(head["receiptsRoot"], 16) == 0


def test_request_for_unrecorded_receipts_returns_error(tmp_path, tree):
    provider = read_recording(
        write_records(tmp_path / "chain.jsonl", lines(tree, kinds=["block"]))
    ).create_provider()
    assert provider.handle_call("eth_getBlockReceipts", ["0x0"]) == []
    with pytest.raises(FakeRpcError, match="no receipts were recorded"):
        provider.handle_call("eth_getBlockReceipts", ["0x2"])


def test_recording_folder_of_three_files_is_read(tmp_path, tree):
    def plain(tx, block):
        return {**tx, "block": block.number, "index": int(tx["transactionIndex"], 16)}

    blocks = get_branch(tree.last_mined)
    heads = [
        {
            "number": block.number,
            "hash": block.hash,
            "timestamp": block.time,
            "parentHash": block.parent_hash,
        }
        for block in blocks
    ]
    write_records(tmp_path / "blocks.jsonl.gz", heads)
    write_records(tmp_path / "logs.jsonl.gz", [log for block in blocks for log in block.logs])
    txs = [plain(tx, block) for block in blocks for tx in block.transactions]
    write_records(tmp_path / "txs.jsonl.gz", txs)
    provider = read_recording(tmp_path).create_provider()
    assert provider.handle_call("eth_getLogs", ALL_BLOCKS) == Provider(tree).handle_call(
        "eth_getLogs", ALL_BLOCKS
    )
    assert provider.handle_call("eth_getBlockByNumber", ["0x3", True])["transactions"][0]["from"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"kind": "song"}, "unknown kind 'song'; expected one of"),
        ({"kind": "block", "number": "0x0"}, "a field is missing or invalid: 'parentHash'"),
        (
            {"kind": "log", "blockHash": "0x1"},
            "refers to block 0x1, which is not recorded",
        ),
        ([], "not a JSON object"),
    ],
)
def test_malformed_recording_is_rejected_with_one_line_error(tmp_path, tree, line, words):
    path = write_records(tmp_path / "chain.jsonl", [*lines(tree, kinds=["block"]), line])
    with pytest.raises(InputError, match=words) as caught:
        read_recording(path)
    assert "\n" not in str(caught.value)


def test_missing_recording_is_rejected(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_recording(Path(tmp_path / "nothing.jsonl"))
