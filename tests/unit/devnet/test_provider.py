"""A provider of a block tree answers like geth."""

import pytest

from devnet.fakechain.provider import Provider
from devnet.fakechain.requests import FakeRpcError
from devnet.fakechain.tree import BlockTree
from tests.unit.devnet.networks import FIRST, OTHER, SECOND, SPEAKER, grown, make_log


def logs(provider, **log_filter):
    return provider.handle_call("eth_getLogs", [log_filter])


def failure(provider, method, *params):
    with pytest.raises(FakeRpcError) as caught:
        provider.handle_call(method, list(params))
    return caught.value.code, caught.value.message


def test_logs_include_both_ends_of_range():
    matching_logs = logs(Provider(grown()), fromBlock="0x2", toBlock="0x3")
    assert [log["blockNumber"] for log in matching_logs] == ["0x2", "0x2", "0x3", "0x3"]


def test_logs_are_filtered_by_address_and_topics():
    tree = BlockTree()
    tree.mine_block_with_logs(make_log(1), make_log(2, OTHER), make_log(3, topic=SECOND))
    provider = Provider(tree)
    full_range = {"fromBlock": "0x0", "toBlock": "latest"}
    assert len(logs(provider, **full_range, address=OTHER.upper().replace("0X", "0x"))) == 1
    assert (
        len(logs(provider, **full_range, address=[SPEAKER, OTHER], topics=[[FIRST, SECOND]])) == 3
    )
    assert len(logs(provider, **full_range, topics=[None, f"0x{3:064x}"])) == 1
    assert logs(provider, **full_range, topics=[FIRST, None, None]) == []


def test_log_range_beyond_the_head_returns_existing_logs():
    assert len(logs(Provider(grown(3)), fromBlock="0x3", toBlock="0x99")) == 2


def test_lagging_provider_hides_blocks_above_its_head():
    tree = grown()
    old = tree.last_mined.get_ancestor()
    provider = Provider(tree, old)
    assert provider.handle_call("eth_blockNumber", []) == "0x4"
    assert provider.handle_call("eth_getBlockByNumber", ["0x5", False]) is None
    assert provider.handle_call("eth_getBlockByHash", [tree.last_mined.hash, False]) is None
    assert provider.handle_call("eth_getBlockReceipts", [tree.last_mined.hash]) is None
    assert (
        failure(provider, "eth_getLogs", {"blockHash": tree.last_mined.hash})[1] == "unknown block"
    )


def test_setting_head_to_another_branch_causes_reorg():
    tree = grown()
    provider = Provider(tree)
    trunk = tree.last_mined
    fork = tree.mine_empty_blocks(3, parent_block=tree.genesis)
    provider.head = fork
    assert provider.handle_call("eth_getBlockByNumber", ["latest", False])["hash"] == fork.hash
    assert logs(provider, fromBlock="0x0", toBlock="latest") == []
    assert provider.handle_call("eth_getTransactionByHash", [trunk.tx_hashes[0]]) is None


def test_orphaned_block_is_returned_by_its_hash_only_if_kept():
    tree = grown()
    provider = Provider(tree)
    trunk = tree.last_mined
    provider.head = tree.mine_empty_blocks(3, parent_block=tree.genesis)
    assert len(logs(provider, blockHash=trunk.hash)) == 2
    provider.keeps_orphans = False
    assert provider.handle_call("eth_getBlockByHash", [trunk.hash, False]) is None


def test_receipt_is_taken_from_the_branch_of_the_provider():
    tree = BlockTree()
    first = tree.mine_block_with_logs(make_log(1))
    again = tree.mine(first.txs, parent_block=tree.mine(parent_block=tree.genesis))
    for head in (first, again):
        receipt = Provider(tree, head).handle_call(
            "eth_getTransactionReceipt", [first.tx_hashes[0]]
        )
        assert receipt["blockHash"] == head.hash


def test_block_tag_resolves_to_the_configured_block_or_error():
    tree = grown()
    provider = Provider(tree)
    provider.tag_targets = {
        "safe": 1,
        "finalized": tree.genesis,
        "odd": None,
        "bad": FakeRpcError(-1, "no"),
    }

    def number(tag):
        header = provider.handle_call("eth_getBlockByNumber", [tag, False])
        return header and header["number"]

    assert [number(tag) for tag in ("safe", "finalized", "odd")] == ["0x4", "0x0", None]
    assert failure(provider, "eth_getBlockByNumber", "bad", False) == (-1, "no")
    assert failure(provider, "eth_getBlockByNumber", "none", False)[0] == -32602


def test_pruned_provider_keeps_headers_but_not_logs():
    provider = Provider(grown())
    provider.pruned_below = 3
    assert provider.handle_call("eth_getBlockByNumber", ["0x2", False])["number"] == "0x2"
    assert failure(provider, "eth_getLogs", {"fromBlock": "0x2", "toBlock": "0x3"})[0] == 4444
    assert len(logs(provider, fromBlock="0x3", toBlock="0x3")) == 2


def test_skipped_heights_return_null():
    tree = BlockTree()
    tree.mine(number=4)
    tree.mine_block_with_logs(make_log(1))
    provider = Provider(tree)
    assert provider.handle_call("eth_getBlockByNumber", ["0x2", False]) is None
    assert provider.handle_call("eth_getBlockByNumber", ["latest", False])["number"] == "0x5"
    assert len(logs(provider, fromBlock="0x0", toBlock="0x5")) == 1


def test_log_filter_with_both_block_hash_and_range_is_rejected():
    tree = grown()
    log_filter = {"blockHash": tree.last_mined.hash, "fromBlock": "0x1"}
    assert failure(Provider(tree), "eth_getLogs", log_filter)[0] == -32602


def test_eth_call_returns_configured_response():
    tree = grown()
    provider = Provider(tree)
    provider.call_handler = lambda call, block: call["data"] + f"{block.number:x}"
    provider.code_by_address[SPEAKER] = "0x60"
    at = {"blockHash": tree.genesis.hash}
    assert provider.handle_call("eth_call", [{"to": SPEAKER, "data": "0xab"}, at]) == "0xab0"
    assert provider.handle_call("eth_getCode", [SPEAKER, "latest"]) == "0x60"
