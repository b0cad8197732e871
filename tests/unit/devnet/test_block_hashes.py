"""Every block that a tree mines is proven by its hash."""

import msgspec
from hypothesis import given, strategies as st

from devnet.fakechain.block_json import Block, FakeLog, Tx
from devnet.fakechain.tree import BlockTree, get_branch
from oracle.chain.proofs.header_hash import HeaderResponse, compute_block_hash
from oracle.chain.proofs.receipts import (
    ProvenReceipt,
    compute_bloom,
    compute_receipts_root,
    format_bloom,
)
from oracle.chain.proofs.transactions_root import SignedTransaction, compute_transactions_root
from tests.support.examples import examples
from tests.unit.devnet.networks import SENDER, SPEAKER, grown, make_log

words = st.binary(min_size=32, max_size=32).map(lambda case: "0x" + case.hex())
addresses = st.binary(min_size=20, max_size=20).map(lambda case: "0x" + case.hex())
contents = st.binary(max_size=100).map(lambda case: "0x" + case.hex())
things = st.builds(FakeLog, addresses, st.lists(words, max_size=4).map(tuple), contents)
txs = st.builds(
    Tx,
    addresses,
    addresses | st.none(),
    contents,
    st.integers(0, 2**100),
    st.lists(things, max_size=3).map(tuple),
    st.booleans(),
    st.integers(0, 2),
)


def prove(block: Block) -> None:
    """Check that all parts of the block match its hash."""
    head = msgspec.convert(block.header, HeaderResponse)
    receipts = msgspec.convert(block.receipts, list[ProvenReceipt])
    signed = msgspec.convert(block.transactions, list[SignedTransaction])
    assert compute_block_hash(head) == block.hash
    assert compute_receipts_root(receipts) == head.receipts_root
    assert compute_transactions_root(signed) == head.transactions_root
    assert [tx.compute_hash() for tx in signed] == [tx.hash for tx in signed]
    assert (
        format_bloom(compute_bloom(log for receipt in receipts for log in receipt.logs))
        == head.logs_bloom
    )


@examples(15)
@given(st.lists(st.lists(txs, max_size=4), min_size=1, max_size=3))
def test_every_mined_block_verifies_against_its_hash(blocks):
    tree = BlockTree()
    for mined in blocks:
        prove(tree.mine(mined))


def test_block_mined_on_older_block_starts_fork():
    tree = BlockTree()
    trunk = tree.mine_empty_blocks(3)
    fork = tree.mine_empty_blocks(2, parent_block=tree.genesis)
    assert get_branch(trunk)[0] is get_branch(fork)[0] is tree.genesis
    assert trunk.hash not in {block.hash for block in get_branch(fork)}


def test_empty_sibling_blocks_have_different_hashes():
    tree = BlockTree()
    first_block = tree.mine(parent_block=tree.genesis)
    second_block = tree.mine(parent_block=tree.genesis)
    assert first_block.hash != second_block.hash
    prove(second_block)


def test_transaction_mined_again_keeps_its_hash():
    tree = BlockTree()
    first = tree.mine_block_with_logs(make_log(1))
    again = tree.mine(
        [Tx(SENDER, SPEAKER, logs=(make_log(0),)), *first.txs], parent_block=tree.genesis
    )
    assert again.tx_hashes[1] == first.tx_hashes[0]
    assert again.logs[1]["logIndex"] != first.logs[0]["logIndex"]


def test_failed_transaction_emits_no_logs():
    block = BlockTree().mine([Tx(SENDER, SPEAKER, logs=(make_log(1),), succeeded=False)])
    assert block.logs == []
    assert block.receipts[0]["status"] == "0x0"


def test_identical_calls_produce_identical_blocks():
    assert [block.hash for block in get_branch(grown().last_mined)] == [
        block.hash for block in get_branch(grown().last_mined)
    ]
