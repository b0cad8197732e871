"""Anvil's blocks under every fork of Ethereum since London, with every type of transaction."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
import pytest
from eth_account import Account

from oracle.chain.proofs.header_hash import HeaderResponse, compute_block_hash
from oracle.chain.proofs.receipts import (
    ProvenReceipt,
    compute_bloom,
    compute_receipts_root,
    format_bloom,
)
from oracle.chain.proofs.transactions_root import SignedTransaction, compute_transactions_root
from oracle.chain.verification.transaction_check import recover_signer
from tests.support.evm.anvil import run_anvil
from tests.support.evm.chain import Chain

pytestmark = [pytest.mark.evm, pytest.mark.slow]

# Anvil's first account, from its public mnemonic.
KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
# Logs its input with two topics, the block's number and the gas left.
SPEAKER = "0x36600060003743" + "5a366000a200"
FAILING = "0xfe"
# The newest transaction type that each client supports.
FORKS = {"london": 2, "shanghai": 2, "cancun": 3, "prague": 4, "osaka": 4}


# CI proves blocks of the newest fork; older ones can differ only by a change of a library.
_OLDER = [pytest.param(name, marks=pytest.mark.nightly) for name in [*FORKS][:-1]]


@pytest.fixture(scope="module", params=[*_OLDER, [*FORKS][-1]])
def blocks(request) -> Iterator[list[Any]]:
    with run_anvil("--hardfork", request.param, "--no-mining") as url:
        chain = Chain(url)
        try:
            yield list(_blocks(chain, FORKS[request.param]))
        finally:
            chain.close()


def _blocks(chain: Chain, newest: int) -> Iterator[tuple[Any, Any]]:
    chain.rpc("anvil_setCode", "0x" + "5e" * 20, SPEAKER)
    chain.rpc("anvil_setCode", "0x" + "fa" * 20, FAILING)
    if newest >= 3:
        chain.rpc("eth_sendRawTransaction", _with_blob())
        chain.mine()
    for count in (1, 3, 140):
        for place in range(count):
            chain.rpc("eth_sendTransaction", _send_unlocked_transactions(chain, place))
        if newest >= 4:
            chain.rpc("eth_sendRawTransaction", _with_code(chain))
        chain.mine()
    for number in range(chain.block + 1):
        calls = (
            ("eth_getBlockByNumber", hex(number), True),
            ("eth_getBlockReceipts", hex(number)),
        )
        block, receipts = chain.rpcs(*calls)
        yield block, receipts


def _send_unlocked_transactions(chain: Chain, place: int) -> dict[str, Any]:
    """Return types 0, 1 and 2 in turn; one of each dozen creates a contract and one fails."""
    price = {"gasPrice": hex(10**10)}
    fees = {"maxFeePerGas": hex(10**10), "maxPriorityFeePerGas": hex(10**10)}
    # All pay the same: with Anvil's order by fee, some would be lost.
    kinds: tuple[dict[str, Any], ...] = (price, {**price, "accessList": []}, fees)
    sent = {"from": chain.accounts[1], "gas": hex(100_000), **kinds[place % 3]}
    if place % 12 == 3:
        return {**sent, "data": "0x00"}
    if place % 12 == 4:
        return {**sent, "to": "0x" + "fa" * 20}
    return {**sent, "to": "0x" + "5e" * 20, "data": "0x" + "ab" * place, "value": hex(place)}


ACCOUNT = Account.from_key(KEY)
SIGNED: dict[str, Any] = {
    "gas": 200_000,
    "value": 0,
    "chainId": 31337,
    "data": "0x12",
    "to": "0x" + "11" * 20,
    "maxFeePerGas": 10**10,
    "maxPriorityFeePerGas": 1,
    "accessList": [{"address": "0x" + "22" * 20, "storageKeys": ["0x" + "01" * 32]}],
}


# Created once, because it takes seconds.
@lru_cache
def _with_blob() -> str:
    sent = {**SIGNED, "type": 3, "nonce": 0, "maxFeePerBlobGas": 10**10}
    signed = ACCOUNT.sign_transaction(sent, blobs=[b"\x00" * 131_072])
    return str(signed.raw_transaction.to_0x_hex())


def _with_code(chain: Chain) -> str:
    nonce = int(chain.rpc("eth_getTransactionCount", ACCOUNT.address, "pending"), 16)
    named = {"chainId": 31337, "address": "0x" + "33" * 20, "nonce": nonce + 1}
    leave = ACCOUNT.sign_authorization(named)
    sent = {**SIGNED, "type": 4, "nonce": nonce, "authorizationList": [leave]}
    return str(ACCOUNT.sign_transaction(sent).raw_transaction.to_0x_hex())


def test_every_header_hash_equals_block_hash(blocks):
    headers = [msgspec.convert(block, HeaderResponse) for block, _ in blocks]
    assert [compute_block_hash(header) for header in headers] == [
        header.hash for header in headers
    ]


def test_computed_receipts_root_equals_that_of_the_header(blocks):
    for block, receipts in blocks:
        assert (
            compute_receipts_root(msgspec.convert(receipts, list[ProvenReceipt]))
            == block["receiptsRoot"]
        )


def test_computed_transactions_root_equals_that_of_the_header(blocks):
    for block, _ in blocks:
        signed = msgspec.convert(block["transactions"], list[SignedTransaction])
        assert [transaction.compute_hash() for transaction in signed] == [
            transaction.hash for transaction in signed
        ]
        # Anvil 1.7.1 puts a blob transaction into the trie together with its blobs, which is
        # against EIP-4844: the side-car is no part of a block.
        if not any(transaction.type == "0x3" for transaction in signed):
            assert compute_transactions_root(signed) == block["transactionsRoot"]


def test_every_recovered_sender_equals_transaction_sender(blocks):
    for block, _ in blocks:
        signed = msgspec.convert(block["transactions"], list[SignedTransaction])
        assert [recover_signer(transaction) for transaction in signed] == [
            transaction.sender.lower() for transaction in signed
        ]


def test_header_bloom_equals_the_bloom_of_its_logs(blocks):
    for block, receipts in blocks:
        logs = [
            log
            for receipt in msgspec.convert(receipts, list[ProvenReceipt])
            for log in receipt.logs
        ]
        assert format_bloom(compute_bloom(logs)) == block["logsBloom"]


def test_blocks_contain_all_transaction_and_receipt_types(blocks):
    receipts = [receipt for _, all_ in blocks for receipt in all_]
    kinds = {receipt["type"] for receipt in receipts}
    assert kinds >= {"0x0", "0x1", "0x2"}
    assert {receipt["status"] for receipt in receipts} == {"0x0", "0x1"}
    assert sum(len(receipt["logs"]) for receipt in receipts) > 100
    if "requestsHash" in blocks[0][0]:
        assert kinds == {"0x0", "0x1", "0x2", "0x3", "0x4"}
