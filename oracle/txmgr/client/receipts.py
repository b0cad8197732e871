"""The outcome of transactions: receipts and counts that the endpoints show and agree on."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.fanout import EndpointCaller, PoolView, expect_response_format, parse_quantity
from oracle.rpc.rpc_errors import RevertError
from oracle.txmgr.client.receipt_quorum import Receipt, ReceiptQuorum, fetch_receipt_quorum
from oracle.txmgr.client.refusal import Refusal, RefusalDecoder

__all__ = ["OUT_OF_GAS", "Receipt", "ReceiptQuorum", "SimulatedCall", "fetch_receipt_quorum"]

# The error class of a call whose gas limit was too low.
OUT_OF_GAS = "out_of_gas"
# The error class of a reverted call if no simulation shows the contract's error.
_REVERTED = "reverted"


class SimulatedCall(NamedTuple):
    """A call to simulate, or one that was sent."""

    sender: Address
    to: Address
    calldata: str


def fetch_receipts(pool_view: PoolView, hashes: Sequence[Hash]) -> dict[Hash, Receipt]:
    """Return the receipts that any endpoint has, by hash.

    Raises:
        TransientError: no endpoint answers.
    """
    receipt_quorum = fetch_receipt_quorum(pool_view, hashes)
    receipts = {tx_hash: receipt_quorum.find_receipt([tx_hash]) for tx_hash in hashes}
    return {tx_hash: receipt for tx_hash, receipt in receipts.items() if receipt is not None}


def fetch_mined_count(pool_view: PoolView, sender: Address, block_tag: str) -> int:
    """Return the account's transaction count at a block (`latest`, `0x…`).

    Raises:
        TransientError: no endpoint answers.
    """

    def read_count(endpoint: EndpointCaller) -> int:
        with expect_response_format("the count of an account"):
            return parse_quantity(endpoint.request("eth_getTransactionCount", sender, block_tag))

    return pool_view.read_first(read_count)


def balance_of(pool_view: PoolView, account: Address) -> int:
    """Return the account's balance at the newest block, in wei.

    Raises:
        TransientError: no endpoint answers.
    """

    def read_balance(endpoint: EndpointCaller) -> int:
        with expect_response_format("a balance"):
            return parse_quantity(endpoint.request("eth_getBalance", account, "latest"))

    return pool_view.read_first(read_balance)


def fetch_block_hashes(pool_view: PoolView, numbers: Sequence[int]) -> dict[int, Hash]:
    """Return block hashes by height from one endpoint; blocks that it lacks are left out."""
    blocks = pool_view.request_first(
        [("eth_getBlockByNumber", (hex(number), False)) for number in numbers]
    )
    with expect_response_format("blocks"):
        return {
            number: Hash(block["hash"])
            for number, block in zip(numbers, blocks, strict=True)
            if block is not None
        }


def fetch_counts_at_block(
    pool_view: PoolView, account: Address, block: BlockRef
) -> dict[str, int]:
    """Return the account's transaction count at the end of a block, by endpoint name.

    An endpoint that does not have the block by its hash is on another fork or lags, and is left
    out.
    """
    counts: dict[str, int] = {}
    for endpoint in pool_view.callers:
        number = hex(block.number)
        try:
            count, own_block = endpoint.request_all(
                [
                    ("eth_getTransactionCount", (account, number)),
                    ("eth_getBlockByNumber", (number, False)),
                ]
            )
            with expect_response_format("the count of an account"):
                if own_block is not None and own_block["hash"] == block.hash:
                    counts[endpoint.name] = parse_quantity(count)
        except TransientError:
            continue
    return counts


def is_block_reorged(pool_view: PoolView, block_number: int, block_hash: Hash) -> bool:
    """Return whether endpoints show another block at this height, and none shows this one."""
    shown_hashes = set()
    for endpoint in pool_view.callers:
        try:
            block = endpoint.request("eth_getBlockByNumber", hex(block_number), False)
            with expect_response_format("a block"):
                shown_hashes |= set() if block is None else {block["hash"]}
        except TransientError:
            continue
    return bool(shown_hashes) and block_hash not in shown_hashes


def is_in_block(pool_view: PoolView, block: tuple[int, Hash], hashes: Sequence[Hash]) -> bool:
    """Return whether an endpoint shows the block (number, hash) with one of these transactions."""
    block_number, block_hash = block
    for endpoint in pool_view.callers:
        try:
            own_block = endpoint.request("eth_getBlockByNumber", hex(block_number), False)
            with expect_response_format("a block"):
                is_there = own_block is not None and own_block["hash"] == block_hash
                if is_there and not set(hashes).isdisjoint(own_block["transactions"]):
                    return True
        except TransientError:
            continue
    return False


def exclude_blocks(
    receipt_quorum: ReceiptQuorum, reorged_hashes: Collection[Hash]
) -> ReceiptQuorum:
    """Return the quorum without receipts in these blocks, which have left the chain."""
    views = [
        replace(
            view,
            receipts={
                tx_hash: receipt
                for tx_hash, receipt in view.receipts.items()
                if receipt.block_hash not in reorged_hashes
            },
        )
        for view in receipt_quorum.views
    ]
    return ReceiptQuorum(tuple(views), receipt_quorum.quorum)


def find_revert_reason(
    pool_view: PoolView,
    receipt: Receipt,
    call: SimulatedCall,
    *,
    gas_limit: int,
    decode_refusal: RefusalDecoder,
) -> str:
    """Return why a mined call failed, from simulations on the block before and on its own block.

    The result is `class(details)`, where the class is one of few, because it becomes the label of
    a metric. It is a guess if the state has changed. `out_of_gas` means that all gas was used (a
    call forwards 63/64 of its gas) and the call has no revert reason. Never raises.
    """
    refusal, own_block = None, receipt.block_number
    try:
        # The conflicting transaction may have come earlier in the same block.
        refusal = fetch_refusal(pool_view, call, own_block - 1, decode_refusal)
        refusal = refusal or fetch_refusal(pool_view, call, own_block, decode_refusal)
        reason = str(
            refusal or f"{_REVERTED}(its simulation on this block and the one before works)"
        )
    except TransientError as error:
        reason = f"{_REVERTED}(its simulation failed: {error})"
    is_named = refusal is not None and bool(refusal.name)
    if not is_named and 64 * receipt.gas_used >= 63 * gas_limit:
        return f"{OUT_OF_GAS}(used {receipt.gas_used} of {gas_limit})"
    return reason


def fetch_refusal(
    pool_view: PoolView, call: SimulatedCall, block_number: int, decode_refusal: RefusalDecoder
) -> Refusal | None:
    """Return the decoded revert of a call at the end of a block, or None if the call works there.

    Raises:
        TransientError: no endpoint answers.
    """
    request = {"from": call.sender, "to": call.to, "data": call.calldata, "value": "0x0"}
    try:
        pool_view.request("eth_call", request, hex(block_number))
    except RevertError as error:
        return decode_refusal(error.data)
    return None


def fetch_newest_block(pool_view: PoolView) -> BlockRef:
    """Return the newest block of the first endpoint that answers.

    Raises:
        TransientError: the answer is null, as from a node that is starting or lost its database.
    """
    block = pool_view.request("eth_getBlockByNumber", "latest", False)
    if not isinstance(block, dict):
        raise TransientError("the endpoint returned no newest block")
    with expect_response_format("a block"):
        return BlockRef(
            parse_quantity(block["number"]),
            Hash(block["hash"]),
            Hash(block["parentHash"]),
            parse_quantity(block["timestamp"]),
        )
