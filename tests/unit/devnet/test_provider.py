"""A view of a tree answers as geth does."""

import pytest

from devnet.fakechain.provider import Provider
from devnet.fakechain.requests import FakeRpcError
from devnet.fakechain.tree import Tree
from tests.unit.devnet.networks import FIRST, OTHER, SECOND, SPEAKER, grown, said


def logs(provider, **asked):
    return provider.answer("eth_getLogs", [asked])


def failure(provider, method, *params):
    with pytest.raises(FakeRpcError) as caught:
        provider.answer(method, list(params))
    return caught.value.code, caught.value.message


def test_logs_are_those_of_the_range_both_ends_included():
    found = logs(Provider(grown()), fromBlock="0x2", toBlock="0x3")
    assert [log["blockNumber"] for log in found] == ["0x2", "0x2", "0x3", "0x3"]


def test_logs_are_picked_by_address_and_by_each_topic():
    tree = Tree()
    tree.say(said(1), said(2, OTHER), said(3, topic=SECOND))
    provider, whole = Provider(tree), {"fromBlock": "0x0", "toBlock": "latest"}
    assert len(logs(provider, **whole, address=OTHER.upper().replace("0X", "0x"))) == 1
    assert len(logs(provider, **whole, address=[SPEAKER, OTHER], topics=[[FIRST, SECOND]])) == 3
    assert len(logs(provider, **whole, topics=[None, f"0x{3:064x}"])) == 1
    assert logs(provider, **whole, topics=[FIRST, None, None]) == []


def test_a_range_is_answered_as_far_as_there_are_blocks():
    assert len(logs(Provider(grown(3)), fromBlock="0x3", toBlock="0x99")) == 2


def test_a_lagging_view_knows_nothing_above_its_head():
    tree = grown()
    old = tree.last.below()
    provider = Provider(tree, old)
    assert provider.answer("eth_blockNumber", []) == "0x4"
    assert provider.answer("eth_getBlockByNumber", ["0x5", False]) is None
    assert provider.answer("eth_getBlockByHash", [tree.last.hash, False]) is None
    assert provider.answer("eth_getBlockReceipts", [tree.last.hash]) is None
    assert failure(provider, "eth_getLogs", {"blockHash": tree.last.hash})[1] == "unknown block"


def test_an_assigned_head_is_a_reorg():
    tree = grown()
    provider, trunk = Provider(tree), tree.last
    fork = tree.mine_many(3, on=tree.genesis)
    provider.head = fork
    assert provider.answer("eth_getBlockByNumber", ["latest", False])["hash"] == fork.hash
    assert logs(provider, fromBlock="0x0", toBlock="latest") == []
    assert provider.answer("eth_getTransactionByHash", [trunk.tx_hashes[0]]) is None


def test_an_orphan_is_answered_by_its_hash_where_a_node_keeps_them():
    tree = grown()
    provider, trunk = Provider(tree), tree.last
    provider.head = tree.mine_many(3, on=tree.genesis)
    assert len(logs(provider, blockHash=trunk.hash)) == 2
    provider.keeps_orphans = False
    assert provider.answer("eth_getBlockByHash", [trunk.hash, False]) is None


def test_a_transaction_is_answered_where_the_view_has_it():
    tree = Tree()
    first = tree.say(said(1))
    again = tree.mine(first.txs, on=tree.mine(on=tree.genesis))
    for head in (first, again):
        found = Provider(tree, head).answer("eth_getTransactionReceipt", [first.tx_hashes[0]])
        assert found["blockHash"] == head.hash


def test_tags_are_told_a_number_a_block_nothing_or_an_error():
    tree = grown()
    provider = Provider(tree)
    provider.tags = {
        "safe": 1,
        "finalized": tree.genesis,
        "odd": None,
        "bad": FakeRpcError(-1, "no"),
    }

    def number(tag):
        found = provider.answer("eth_getBlockByNumber", [tag, False])
        return found and found["number"]

    assert [number(tag) for tag in ("safe", "finalized", "odd")] == ["0x4", "0x0", None]
    assert failure(provider, "eth_getBlockByNumber", "bad", False) == (-1, "no")
    assert failure(provider, "eth_getBlockByNumber", "none", False)[0] == -32602


def test_pruned_history_keeps_its_headers():
    provider = Provider(grown())
    provider.pruned_below = 3
    assert provider.answer("eth_getBlockByNumber", ["0x2", False])["number"] == "0x2"
    assert failure(provider, "eth_getLogs", {"fromBlock": "0x2", "toBlock": "0x3"})[0] == 4444
    assert len(logs(provider, fromBlock="0x3", toBlock="0x3")) == 2


def test_heights_that_a_chain_skips_are_null():
    tree = Tree()
    tree.mine(number=4)
    tree.say(said(1))
    provider = Provider(tree)
    assert provider.answer("eth_getBlockByNumber", ["0x2", False]) is None
    assert provider.answer("eth_getBlockByNumber", ["latest", False])["number"] == "0x5"
    assert len(logs(provider, fromBlock="0x0", toBlock="0x5")) == 1


def test_both_a_block_and_a_range_is_an_error():
    tree = grown()
    asked = {"blockHash": tree.last.hash, "fromBlock": "0x1"}
    assert failure(Provider(tree), "eth_getLogs", asked)[0] == -32602


def test_a_call_is_answered_by_what_it_was_given():
    tree = grown()
    provider = Provider(tree)
    provider.call = lambda asked, block: asked["data"] + f"{block.number:x}"
    provider.code[SPEAKER] = "0x60"
    at = {"blockHash": tree.genesis.hash}
    assert provider.answer("eth_call", [{"to": SPEAKER, "data": "0xab"}, at]) == "0xab0"
    assert provider.answer("eth_getCode", [SPEAKER, "latest"]) == "0x60"
