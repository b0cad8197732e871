"""How far the chain has counted an account, and which transactions of it are in the blocks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.ids import Address, Hash
from oracle.rpc.client import Json
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.rpc.fanout import EndpointCaller, PoolView, number_of, understood
from oracle.txmgr.client.l1_fees import l1_fee_in

# Whole blocks are large: so many in one batch.
_BLOCKS_AT_ONCE = 20


class Count(NamedTuple):
    """What one endpoint counts: transactions in blocks, and with those that wait in its pool."""

    endpoint: str
    mined: int
    pending: int


@dataclass(frozen=True, slots=True)
class Spent:
    """A transaction of the account in a block: what became of a nonce. `time` of the block.

    `gas_price` and `l1_fee` in wei, as `sightings.Receipt` has them.
    """

    nonce: int
    hash: Hash
    to: Address | None
    # The first four bytes of what it was called with; empty: a plain payment.
    selector: str
    block_number: int
    block_hash: Hash
    time: int
    succeeded: bool
    gas_used: int
    gas_price: int
    l1_fee: int = 0


def counts_of(lines: PoolView, account: Address) -> list[Count]:
    """Return the account's counts at every endpoint that answers.

    Raises:
        TransientError: none answers.
    """

    def read(endpoint: EndpointCaller) -> Count:
        requests = [("eth_getTransactionCount", (account, at)) for at in ("latest", "pending")]
        with understood("the count of an account"):
            mined, pending = (number_of(answer) for answer in endpoint.ask_all(requests))
            return Count(endpoint.name, mined, max(mined, pending))

    return [count for _, count in lines.each(read)]


def agreed_count(counts: Sequence[Count], quorum: WitnessQuorum) -> Count | None:
    """Return the highest count if enough witnesses report the same, else None."""
    top = max(counts, key=lambda count: (count.mined, count.pending))
    same = [count.endpoint for count in counts if count[1:] == top[1:]]
    highest = max(count.pending for count in counts)
    return top if quorum.is_reached_by(same) and highest == top.pending else None


def spent_nonces(
    lines: PoolView, account: Address, nonces: range, most_blocks: int
) -> Mapping[int, Spent]:
    """Walk back from the head and return the transactions that used these nonces, where found.

    The walk ends where all are found, or after `most_blocks` blocks.

    Raises:
        TransientError: no endpoint answers.
    """
    sent_by_nonce: dict[int, tuple[Json, Json]] = {}
    if nonces:
        for block in _fetch_blocks_down(lines, most_blocks):
            own = [sent for sent in block["transactions"] if sent["from"].lower() == account]
            sent_by_nonce |= {int(sent["nonce"], 16): (sent, block) for sent in own}
            if sent_by_nonce.keys() >= set(nonces):
                break
    mined = [sent_by_nonce[nonce] for nonce in nonces if nonce in sent_by_nonce]
    if not mined:
        return {}
    receipts = lines.first([("eth_getTransactionReceipt", (sent["hash"],)) for sent, _ in mined])
    pairs = zip(mined, receipts, strict=True)
    spent = [_decode_spent(sent, block, receipt) for (sent, block), receipt in pairs if receipt]
    return {transaction.nonce: transaction for transaction in spent}


def _fetch_blocks_down(lines: PoolView, most_blocks: int) -> Iterator[Json]:
    answer = lines.ask("eth_blockNumber")
    with understood("the number of the newest block"):
        head = number_of(answer)
    lowest = max(-1, head - most_blocks)
    for top in range(head, lowest, -_BLOCKS_AT_ONCE):
        numbers = range(top, max(lowest, top - _BLOCKS_AT_ONCE), -1)
        blocks = lines.first([("eth_getBlockByNumber", (hex(number), True)) for number in numbers])
        # A reorg may take the highest away between two requests.
        yield from (block for block in blocks if block is not None)


def _decode_spent(sent: Json, block: Json, receipt: Json) -> Spent:
    calldata = str(sent["input"])
    return Spent(
        nonce=int(sent["nonce"], 16),
        hash=Hash(sent["hash"]),
        to=Address(sent["to"].lower()) if sent["to"] else None,
        selector=calldata[:10] if len(calldata) >= len("0x") + 8 else "",
        block_number=int(block["number"], 16),
        block_hash=Hash(block["hash"]),
        time=int(block["timestamp"], 16),
        succeeded=int(receipt["status"], 16) == 1,
        gas_used=int(receipt["gasUsed"], 16),
        gas_price=int(receipt["effectiveGasPrice"], 16),
        l1_fee=l1_fee_in(receipt),
    )
