"""The parts of a forged block are consistent with each other up to the lie's depth."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from devnet.fakechain.block_json import Block, FakeLog, Tx
from devnet.fakechain.faults.forging import (
    BlockContent,
    Depth,
    ForgeryPlan,
    create_forged_provider,
)
from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import BlockTree
from oracle.chain.proofs.header_hash import HeaderResponse, compute_block_hash
from oracle.chain.proofs.receipts import ProvenReceipt, compute_receipts_root

ADDRESS = "0x" + "4e" * 20
TOPIC = "0x" + "11" * 32
BLOCKS = (3, 4)


@pytest.fixture
def tree() -> BlockTree:
    tree = BlockTree()
    for number in range(6):
        tree.mine_block_with_logs(FakeLog(ADDRESS, (TOPIC,), f"0x{number:064x}"))
    return tree


def with_repeated_log(block: Block) -> BlockContent:
    """Return the block with its last log repeated."""
    return BlockContent(block.time, tuple(_repeat_log(tx) for tx in block.txs))


def _repeat_log(tx: Tx) -> Tx:
    return replace(tx, logs=(*tx.logs, tx.logs[-1]))


def build_forging_provider(tree: BlockTree, depth: Depth) -> Provider:
    return create_forged_provider(tree, ForgeryPlan("louder", with_repeated_log), depth, BLOCKS)


def block(provider: Provider, number: int) -> dict[str, Any]:
    header: dict[str, Any] = provider.handle_call("eth_getBlockByNumber", [hex(number), False])
    return header


def logs(provider: Provider, number: int) -> list[dict[str, Any]]:
    log_filter = {"fromBlock": hex(number), "toBlock": hex(number)}
    matching_logs: list[dict[str, Any]] = provider.handle_call("eth_getLogs", [log_filter])
    return matching_logs


def matches_root(provider: Provider, number: int) -> bool:
    header = block(provider, number)
    receipts = provider.handle_call("eth_getBlockReceipts", [header["hash"]])
    root: str = header["receiptsRoot"]
    return compute_receipts_root(msgspec.convert(receipts, list[ProvenReceipt])) == root


def matches_hash(provider: Provider, number: int) -> bool:
    header = block(provider, number)
    name: str = header["hash"]
    return compute_block_hash(msgspec.convert(header, HeaderResponse)) == name


@pytest.mark.parametrize(
    ("depth", "fits_root", "fits_hash", "links"),
    [
        (Depth.ANSWERS, True, True, True),
        (Depth.RECEIPTS, False, True, True),
        (Depth.HEADERS, True, False, True),
        (Depth.BLOCKS, True, True, False),
        (Depth.CHAIN, True, True, True),
    ],
)
def test_forged_block_is_consistent_up_to_the_forgery_depth(
    tree: BlockTree, depth: Depth, *, fits_root: bool, fits_hash: bool, links: bool
):
    provider = build_forging_provider(tree, depth)

    for number in range(BLOCKS[0], BLOCKS[1] + 1):
        assert len(logs(provider, number)) == 2
        assert matches_root(provider, number) is fits_root
        assert matches_hash(provider, number) is fits_hash
    above = block(provider, BLOCKS[1] + 1)
    assert (above["parentHash"] == block(provider, BLOCKS[1])["hash"]) is links
    assert matches_hash(provider, BLOCKS[1] + 1)


@pytest.mark.parametrize("depth", Depth)
def test_forging_endpoint_is_honest_outside_the_forged_range(tree: BlockTree, depth: Depth):
    provider = build_forging_provider(tree, depth)
    honest = Provider(tree)

    assert block(provider, 2) == block(honest, 2)
    assert [log["data"] for log in logs(provider, 6)] == [log["data"] for log in logs(honest, 6)]
    is_other = block(provider, 6)["hash"] != block(honest, 6)["hash"]
    assert is_other is (depth is Depth.CHAIN)


def test_forged_transaction_hash_is_consistent_in_all_responses(tree: BlockTree):
    lie = ForgeryPlan("renamed", change_tx_hash=lambda name: "0xdd" + name[4:])
    provider = create_forged_provider(tree, lie, Depth.RECEIPTS, BLOCKS)

    (name,) = block(provider, 3)["transactions"]

    assert name.startswith("0xdd")
    assert [log["transactionHash"] for log in logs(provider, 3)] == [name]
    assert provider.handle_call("eth_getTransactionReceipt", [name])["transactionHash"] == name
    assert provider.handle_call("eth_getTransactionByHash", [name])["hash"] == name
