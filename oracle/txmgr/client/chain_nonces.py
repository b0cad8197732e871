"""Fetches an account's transaction counts, and its transactions from the blocks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.client import Json
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.rpc.fanout import EndpointCaller, PoolView, number_of, understood
from oracle.txmgr.client.l1_fees import l1_fee_in

# Full blocks are large: how many one batch requests.
_BLOCKS_AT_ONCE = 20


class Count(NamedTuple):
    """The transaction counts of one endpoint: in blocks, and with those pending in its pool."""

    endpoint: str
    mined: int
    pending: int


@dataclass(frozen=True, slots=True)
class Spent:
    """A mined transaction of the account, which used a nonce. `time` is that of its block.

    `gas_price` and `l1_fee` are in wei, as in `receipt_quorum.Receipt`.
    """

    nonce: int
    hash: Hash
    to: Address | None
    # The function selector (four bytes); empty for a plain payment.
    selector: str
    block_number: int
    block_hash: Hash
    time: int
    succeeded: bool
    gas_used: int
    gas_price: int
    l1_fee: int = 0


def counts_of(lines: PoolView, account: Address) -> list[Count]:
    """Return the account's transaction counts from every endpoint that answers.

    Raises:
        TransientError: no endpoint answers.
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
    """Walk back from the head and return the transactions that used these nonces, if found.

    Every endpoint is queried, and enough witnesses have to show the same transaction. The walk
    ends when all are found, or after `max_blocks` blocks.

    Raises:
        TransientError: no endpoint answers, or too few witnesses show the same.
    """
    if not nonces:
        return {}
    views = dict(lines.each(lambda endpoint: _find_spent(endpoint, account, nonces, most_blocks)))
    if not lines.quorum.is_reached_by(views):
        answered = ", ".join(views)
        raise TransientError(
            f"two {lines.quorum.witness_kind}s have to show which transactions used the nonces of "
            f"{account}; only {answered} answered; run the command again when the others do"
        )
    agreed = {nonce: _agreed_spent(views, account, nonce, lines.quorum) for nonce in nonces}
    return {nonce: spent for nonce, spent in agreed.items() if spent is not None}


def _agreed_spent(
    views: Mapping[str, Mapping[int, Spent]], account: Address, nonce: int, quorum: WitnessQuorum
) -> Spent | None:
    """Return the transaction that enough witnesses show for a nonce, or None if none shows one.

    Its prices are the lowest that they report.
    """
    shown = {endpoint: view[nonce] for endpoint, view in views.items() if nonce in view}
    endpoints_by_spent: dict[Spent, list[str]] = {}
    for endpoint, spent in shown.items():
        endpoints_by_spent.setdefault(replace(spent, gas_price=0, l1_fee=0), []).append(endpoint)
    agreed = [names for names in endpoints_by_spent.values() if quorum.is_reached_by(names)]
    if len(agreed) == 1:
        same = [shown[endpoint] for endpoint in agreed[0]]
        return replace(
            same[0],
            gas_price=min(spent.gas_price for spent in same),
            l1_fee=min(spent.l1_fee for spent in same),
        )
    if not shown:
        return None
    reported = ", ".join(
        f"{endpoint} {_in_words(view.get(nonce))}" for endpoint, view in views.items()
    )
    raise TransientError(
        f"two {quorum.witness_kind}s have to show the same transaction for nonce {nonce} of "
        f"{account}; they report: {reported}; wait until they are in step, or take the one that "
        "is wrong out of [chain] endpoints"
    )


def _in_words(spent: Spent | None) -> str:
    if spent is None:
        return "none"
    outcome = "succeeded" if spent.succeeded else "failed"
    return f"{spent.hash} in block {spent.block_number} ({outcome})"


def _find_spent(
    endpoint: EndpointCaller, account: Address, nonces: range, most_blocks: int
) -> Mapping[int, Spent]:
    """Return the transactions that one endpoint shows, by nonce."""
    sent_by_nonce: dict[int, tuple[Json, Json]] = {}
    with understood("blocks with their transactions, and receipts"):
        for block in _fetch_blocks_down(endpoint, most_blocks):
            own = [sent for sent in block["transactions"] if sent["from"].lower() == account]
            sent_by_nonce |= {int(sent["nonce"], 16): (sent, block) for sent in own}
            if sent_by_nonce.keys() >= set(nonces):
                break
        mined = [sent_by_nonce[nonce] for nonce in nonces if nonce in sent_by_nonce]
        if not mined:
            return {}
        receipts = endpoint.ask_all(
            [("eth_getTransactionReceipt", (sent["hash"],)) for sent, _ in mined]
        )
        pairs = zip(mined, receipts, strict=True)
        spent = [
            _decode_spent(sent, block, receipt) for (sent, block), receipt in pairs if receipt
        ]
    return {transaction.nonce: transaction for transaction in spent}


def _fetch_blocks_down(endpoint: EndpointCaller, most_blocks: int) -> Iterator[Json]:
    head = number_of(endpoint.ask("eth_blockNumber"))
    lowest = max(-1, head - most_blocks)
    for top in range(head, lowest, -_BLOCKS_AT_ONCE):
        numbers = range(top, max(lowest, top - _BLOCKS_AT_ONCE), -1)
        requests = [("eth_getBlockByNumber", (hex(number), True)) for number in numbers]
        # A reorg may remove the highest block between two requests.
        yield from (block for block in endpoint.ask_all(requests) if block is not None)


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
