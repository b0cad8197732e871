"""The outcome of transactions: receipts and counts that the endpoints show and agree on."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.fanout import EndpointCaller, PoolView, number_of, understood
from oracle.rpc.rpc_errors import RevertError
from oracle.txmgr.client.receipt_quorum import Receipt, ReceiptQuorum, look_for
from oracle.txmgr.client.refusal import Refusal, RefusalDecoder

__all__ = ["OUT_OF_GAS", "Receipt", "ReceiptQuorum", "SimulatedCall", "look_for"]

# The error class of a call whose gas limit was too low.
OUT_OF_GAS = "out_of_gas"


class SimulatedCall(NamedTuple):
    """A call to simulate, or one that was sent."""

    sender: Address
    to: Address
    calldata: str


def receipts_of(lines: PoolView, hashes: Sequence[Hash]) -> dict[Hash, Receipt]:
    """Return the receipts that any endpoint has, by hash.

    Raises:
        TransientError: no endpoint answers.
    """
    seen = look_for(lines, hashes)
    receipts = {tx_hash: seen.receipt([tx_hash]) for tx_hash in hashes}
    return {tx_hash: receipt for tx_hash, receipt in receipts.items() if receipt is not None}


def nonce_at(lines: PoolView, sender: Address, block: str) -> int:
    """Return the account's transaction count at a block (`latest`, `0x…`).

    Raises:
        TransientError: no endpoint answers.
    """

    def read(line: EndpointCaller) -> int:
        with understood("the count of an account"):
            return number_of(line.ask("eth_getTransactionCount", sender, block))

    return lines.first_that(read)


def balance_of(lines: PoolView, account: Address) -> int:
    """Return the account's balance at the newest block, in wei.

    Raises:
        TransientError: no endpoint answers.
    """

    def read(line: EndpointCaller) -> int:
        with understood("a balance"):
            return number_of(line.ask("eth_getBalance", account, "latest"))

    return lines.first_that(read)


def block_hashes(lines: PoolView, numbers: Sequence[int]) -> dict[int, Hash]:
    """Return the hashes of the endpoint's own blocks at these heights, where it has them."""
    blocks = lines.first([("eth_getBlockByNumber", (hex(number), False)) for number in numbers])
    with understood("blocks"):
        return {
            number: Hash(block["hash"])
            for number, block in zip(numbers, blocks, strict=True)
            if block is not None
        }


def witnesses_of_count(lines: PoolView, account: Address, block: BlockRef) -> dict[str, int]:
    """Return the account's transaction count at the end of a block, by endpoint name.

    An endpoint that does not have the block by its hash is on another fork or lags, and is left
    out.
    """
    counts: dict[str, int] = {}
    for endpoint in lines.all:
        number = hex(block.number)
        try:
            count, own_block = endpoint.ask_all(
                [
                    ("eth_getTransactionCount", (account, number)),
                    ("eth_getBlockByNumber", (number, False)),
                ]
            )
            with understood("the count of an account"):
                if own_block is not None and own_block["hash"] == block.hash:
                    counts[endpoint.name] = number_of(count)
        except TransientError:
            continue
    return counts


def is_block_gone(lines: PoolView, number: int, block_hash: Hash) -> bool:
    """Return whether endpoints show another block at this height, and none shows this one."""
    shown = set()
    for endpoint in lines.all:
        try:
            block = endpoint.ask("eth_getBlockByNumber", hex(number), False)
            with understood("a block"):
                shown |= set() if block is None else {block["hash"]}
        except TransientError:
            continue
    return bool(shown) and block_hash not in shown


def is_in_block(lines: PoolView, block: tuple[int, Hash], hashes: Sequence[Hash]) -> bool:
    """Return whether an endpoint shows the block (number, hash) with one of these transactions."""
    number, block_hash = block
    for endpoint in lines.all:
        try:
            own_block = endpoint.ask("eth_getBlockByNumber", hex(number), False)
            with understood("a block"):
                is_there = own_block is not None and own_block["hash"] == block_hash
                if is_there and not set(hashes).isdisjoint(own_block["transactions"]):
                    return True
        except TransientError:
            continue
    return False


def without_blocks(seen: ReceiptQuorum, gone: Collection[Hash]) -> ReceiptQuorum:
    """Return the quorum without receipts in these blocks, which have left the chain."""
    views = [
        replace(
            view,
            receipts={
                tx_hash: receipt
                for tx_hash, receipt in view.receipts.items()
                if receipt.block_hash not in gone
            },
        )
        for view in seen.views
    ]
    return ReceiptQuorum(tuple(views), seen.quorum)


def why_reverted(
    lines: PoolView,
    receipt: Receipt,
    call: SimulatedCall,
    *,
    gas_limit: int,
    refusal_of: RefusalDecoder,
) -> str:
    """Return why a mined call failed, from simulations on the block before and on its own block.

    The result is a guess if the state has changed. `out_of_gas` means that all gas was used (a
    call forwards 63/64 of its gas) and the call has no revert reason. Never raises.
    """
    refusal, own = None, receipt.block_number
    try:
        # The conflicting transaction may have come earlier in the same block.
        refusal = refusal_at(lines, call, own - 1, refusal_of)
        refusal = refusal or refusal_at(lines, call, own, refusal_of)
        guess = str(refusal or "reverted, though it works on the block before and on its own")
    except TransientError as error:
        guess = f"reverted; {error}"
    is_named = refusal is not None and bool(refusal.name)
    if not is_named and 64 * receipt.gas_used >= 63 * gas_limit:
        return f"{OUT_OF_GAS}(used {receipt.gas_used} of {gas_limit})"
    return guess


def refusal_at(
    lines: PoolView, call: SimulatedCall, block: int, refusal_of: RefusalDecoder
) -> Refusal | None:
    """Return the decoded revert of a call at the end of a block, or None if the call works there.

    Raises:
        TransientError: no endpoint answers.
    """
    request = {"from": call.sender, "to": call.to, "data": call.calldata, "value": "0x0"}
    try:
        lines.ask("eth_call", request, hex(block))
    except RevertError as error:
        return refusal_of(error.data)
    return None


def newest_block(lines: PoolView) -> BlockRef:
    """Return the newest block of the endpoint that answers.

    Raises:
        TransientError: the answer is null, as from a node that is starting or lost its database.
    """
    block = lines.ask("eth_getBlockByNumber", "latest", False)
    if not isinstance(block, dict):
        raise TransientError("the endpoint knows no newest block")
    with understood("a block"):
        return BlockRef(
            number_of(block["number"]),
            Hash(block["hash"]),
            Hash(block["parentHash"]),
            number_of(block["timestamp"]),
        )
