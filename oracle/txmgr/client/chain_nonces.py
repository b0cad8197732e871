"""Fetches transaction counts of an account, and finds its transactions in blocks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.client import Json
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.rpc.fanout import EndpointCaller, PoolView, expect_response_format, parse_quantity
from oracle.txmgr.client.l1_fees import decode_l1_fee

# Number of blocks per batch request. It is low, because blocks with full transactions are large.
_BLOCKS_PER_BATCH = 20


class NonceCounts(NamedTuple):
    """The transaction counts of an account at one endpoint, with and without pending ones."""

    endpoint: str
    mined: int
    pending: int


@dataclass(frozen=True, slots=True)
class MinedTransaction:
    """A mined transaction of the account.

    `time` is the time of its block in unix seconds. `gas_price` (per gas) and `l1_fee` (in total)
    are in wei, as in `receipts.Receipt`.
    """

    nonce: int
    hash: Hash
    to: Address | None
    # Four bytes in hex. A plain payment has no selector, so this is empty.
    selector: str
    block_number: int
    block_hash: Hash
    time: int
    succeeded: bool
    gas_used: int
    gas_price: int
    l1_fee: int = 0


def fetch_nonce_counts(pool_view: PoolView, account: Address) -> list[NonceCounts]:
    """Fetch the account's transaction counts from every endpoint that answers.

    Raises:
        TransientError: no endpoint answers.
    """

    def read_counts(endpoint: EndpointCaller) -> NonceCounts:
        requests = [
            ("eth_getTransactionCount", (account, block_tag))
            for block_tag in ("latest", "pending")
        ]
        with expect_response_format("the count of an account"):
            mined, pending = (
                parse_quantity(quantity) for quantity in endpoint.request_all(requests)
            )
            return NonceCounts(endpoint.name, mined, max(mined, pending))

    return [count for _, count in pool_view.read_from_each(read_counts)]


def find_agreed_nonce_counts(
    counts: Sequence[NonceCounts], quorum: WitnessQuorum
) -> NonceCounts | None:
    """Return the highest counts if enough witnesses report the same counts, else None."""
    highest_count = max(counts, key=lambda count: (count.mined, count.pending))
    agreeing_endpoints = [count.endpoint for count in counts if count[1:] == highest_count[1:]]
    highest_pending = max(count.pending for count in counts)
    return (
        highest_count
        if quorum.is_reached_by(agreeing_endpoints) and highest_pending == highest_count.pending
        else None
    )


def fetch_transactions_by_nonce(
    pool_view: PoolView, account: Address, nonces: range, max_blocks: int
) -> Mapping[int, MinedTransaction]:
    """Search the newest blocks for the transactions that used these nonces.

    The search starts at the head and goes downwards. Every endpoint is queried, and enough
    witnesses have to return the same transaction. The search ends when all transactions are found,
    or after `max_blocks` blocks.

    Raises:
        TransientError: no endpoint answers, or too few witnesses show the same transaction.
    """
    if not nonces:
        return {}
    transactions_by_endpoint = dict(
        pool_view.read_from_each(
            lambda endpoint: _fetch_mined_transactions(endpoint, account, nonces, max_blocks)
        )
    )
    if not pool_view.quorum.is_reached_by(transactions_by_endpoint):
        endpoint_names = ", ".join(transactions_by_endpoint)
        raise TransientError(
            f"two {pool_view.quorum.witness_kind}s must show which transactions used the nonces "
            f"of {account}, but only {endpoint_names} responded; run the command again when the "
            "others respond"
        )
    agreed_transaction_by_nonce = {
        nonce: _find_agreed_transaction(transactions_by_endpoint, account, nonce, pool_view.quorum)
        for nonce in nonces
    }
    return {
        nonce: transaction
        for nonce, transaction in agreed_transaction_by_nonce.items()
        if transaction is not None
    }


def _find_agreed_transaction(
    transactions_by_endpoint: Mapping[str, Mapping[int, MinedTransaction]],
    account: Address,
    nonce: int,
    quorum: WitnessQuorum,
) -> MinedTransaction | None:
    """Return the transaction that enough witnesses report for a nonce, if there is one.

    The prices of the result are the lowest that these witnesses report.
    """
    transaction_by_endpoint = {
        endpoint: transaction_by_nonce[nonce]
        for endpoint, transaction_by_nonce in transactions_by_endpoint.items()
        if nonce in transaction_by_nonce
    }
    endpoints_by_transaction: dict[MinedTransaction, list[str]] = {}
    for endpoint, transaction in transaction_by_endpoint.items():
        endpoints_by_transaction.setdefault(
            replace(transaction, gas_price=0, l1_fee=0), []
        ).append(endpoint)
    agreeing_groups = [
        endpoints
        for endpoints in endpoints_by_transaction.values()
        if quorum.is_reached_by(endpoints)
    ]
    if len(agreeing_groups) == 1:
        agreed_transactions = [
            transaction_by_endpoint[endpoint] for endpoint in agreeing_groups[0]
        ]
        return replace(
            agreed_transactions[0],
            gas_price=min(transaction.gas_price for transaction in agreed_transactions),
            l1_fee=min(transaction.l1_fee for transaction in agreed_transactions),
        )
    if not transaction_by_endpoint:
        return None
    reports_text = ", ".join(
        f"{endpoint} {_describe_transaction(transaction_by_nonce.get(nonce))}"
        for endpoint, transaction_by_nonce in transactions_by_endpoint.items()
    )
    raise TransientError(
        f"two {quorum.witness_kind}s must show the same transaction for nonce {nonce} of "
        f"{account}; they report: {reports_text}; wait until they agree, or remove the wrong one "
        "from [chain] endpoints"
    )


def _describe_transaction(mined_transaction: MinedTransaction | None) -> str:
    if mined_transaction is None:
        return "none"
    outcome = "succeeded" if mined_transaction.succeeded else "failed"
    return f"{mined_transaction.hash} in block {mined_transaction.block_number} ({outcome})"


def _fetch_mined_transactions(
    endpoint: EndpointCaller, account: Address, nonces: range, max_blocks: int
) -> Mapping[int, MinedTransaction]:
    """Fetch the transactions with these nonces from one endpoint, by nonce."""
    sent_by_nonce: dict[int, tuple[Json, Json]] = {}
    with expect_response_format("blocks with their transactions, and receipts"):
        for block in _iter_blocks_from_head(endpoint, max_blocks):
            own_txs = [tx for tx in block["transactions"] if tx["from"].lower() == account]
            sent_by_nonce |= {int(tx["nonce"], 16): (tx, block) for tx in own_txs}
            if sent_by_nonce.keys() >= set(nonces):
                break
        mined_txs = [sent_by_nonce[nonce] for nonce in nonces if nonce in sent_by_nonce]
        if not mined_txs:
            return {}
        receipts = endpoint.request_all(
            [("eth_getTransactionReceipt", (tx["hash"],)) for tx, _ in mined_txs]
        )
        txs_with_receipts = zip(mined_txs, receipts, strict=True)
        mined_transactions = [
            _decode_mined_transaction(tx, block, receipt)
            for (tx, block), receipt in txs_with_receipts
            if receipt
        ]
    return {transaction.nonce: transaction for transaction in mined_transactions}


def _iter_blocks_from_head(endpoint: EndpointCaller, max_blocks: int) -> Iterator[Json]:
    head_number = parse_quantity(endpoint.request("eth_blockNumber"))
    lowest_number = max(-1, head_number - max_blocks)
    for top in range(head_number, lowest_number, -_BLOCKS_PER_BATCH):
        block_numbers = range(top, max(lowest_number, top - _BLOCKS_PER_BATCH), -1)
        requests = [("eth_getBlockByNumber", (hex(number), True)) for number in block_numbers]
        # A reorg between two requests may lower the head. A block may therefore be missing.
        yield from (block for block in endpoint.request_all(requests) if block is not None)


def _decode_mined_transaction(tx: Json, block: Json, receipt: Json) -> MinedTransaction:
    calldata = str(tx["input"])
    return MinedTransaction(
        nonce=int(tx["nonce"], 16),
        hash=Hash(tx["hash"]),
        to=Address(tx["to"].lower()) if tx["to"] else None,
        selector=calldata[:10] if len(calldata) >= len("0x") + 8 else "",
        block_number=int(block["number"], 16),
        block_hash=Hash(block["hash"]),
        time=int(block["timestamp"], 16),
        succeeded=int(receipt["status"], 16) == 1,
        gas_used=int(receipt["gasUsed"], 16),
        gas_price=int(receipt["effectiveGasPrice"], 16),
        l1_fee=decode_l1_fee(receipt),
    )
