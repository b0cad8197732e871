"""Fetches receipts of transactions, and transaction counts of an account.

Receipts are requested by hash from every endpoint, and each receipt is checked against the
endpoint's own blocks. A receipt counts even if only one endpoint returns it. Irreversible changes
need two witnesses that agree on the block hash (docs/explanation/transactions.md#i7).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.rpc.fanout import EndpointCaller, PoolView, expect_response_format, parse_quantity
from oracle.rpc.rpc_errors import RevertError
from oracle.txmgr.client.l1_fees import decode_l1_fee
from oracle.txmgr.client.refusal import Refusal, RefusalDecoder

# A higher value is rejected, because no chain reaches it, and no database column can store it.
_MAX_COUNT = 2**63 - 1
_MAX_WEI = 10**28
# Error class of a call whose gas limit was too low.
OUT_OF_GAS = "out_of_gas"
# Error class of a reverted call if no simulation reveals the contract's error.
_REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class ReceiptLog:
    """A log in a receipt, with its bytes as `0x` hex."""

    contract: Address
    topics: tuple[str, ...]
    data: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt of a transaction in a canonical block.

    `gas_price` is the price that was paid, in wei per gas. `l1_fee` is the fee that a rollup
    charged for the data, in wei (`l1_fees.decode_l1_fee`).
    """

    hash: Hash
    block_number: int
    block_hash: Hash
    succeeded: bool
    gas_used: int
    gas_price: int
    # The contract that the transaction created, or None if it created none.
    contract: Address | None
    events: tuple[ReceiptLog, ...] = ()
    l1_fee: int = 0
    # True if enough witnesses agree on both prices. Otherwise, each price is the lowest that was
    # reported.
    has_agreed_price: bool = False

    def is_equivalent(self, other_receipt: "Receipt") -> bool:
        """Return whether two receipts have the same block, outcome and events."""
        return (self.block_hash, self.succeeded, self.gas_used, self.events) == (
            other_receipt.block_hash,
            other_receipt.succeeded,
            other_receipt.gas_used,
            other_receipt.events,
        )


@dataclass(frozen=True, slots=True)
class _EndpointReceipts:
    """The receipts of one endpoint.

    `unsettled` are the hashes of transactions whose block has left the chain.
    """

    endpoint: str
    receipts: Mapping[Hash, Receipt]
    unsettled: frozenset[Hash]

    def is_missing(self, hashes: Sequence[Hash]) -> bool:
        return not any(tx_hash in self.receipts or tx_hash in self.unsettled for tx_hash in hashes)


@dataclass(frozen=True, slots=True)
class ReceiptQuorum:
    """The receipts of all endpoints that answered.

    `quorum` determines how many witnesses have to agree.
    """

    views: tuple[_EndpointReceipts, ...]
    quorum: WitnessQuorum

    def find_receipt(
        self, hashes: Sequence[Hash], known_block_hash: Hash | None = None
    ) -> Receipt | None:
        """Return the receipt that most witnesses report for these hashes, if there is one.

        On a tie, the receipt in the block `known_block_hash` is preferred, then the receipt of the
        endpoint with the highest preference. The prices of the result are those that enough
        witnesses agree on, or else the lowest prices.
        """
        shown_receipts = [
            view.receipts[tx_hash]
            for view in self.views
            for tx_hash in hashes
            if tx_hash in view.receipts
        ]
        best_receipt = max(
            shown_receipts,
            key=lambda receipt: (
                self._count_witnesses(receipt),
                receipt.block_hash == known_block_hash,
            ),
            default=None,
        )
        return None if best_receipt is None else self._apply_agreed_prices(best_receipt)

    def has_agreement_on(self, receipt: Receipt) -> bool:
        """Return whether enough witnesses return exactly this receipt."""
        return self.quorum.is_reached_by(self._find_equivalent_receipts(receipt))

    @property
    def endpoints(self) -> frozenset[str]:
        """The names of the endpoints that answered."""
        return frozenset(view.endpoint for view in self.views)

    def list_endpoints_without_receipt(self, hashes: Sequence[Hash]) -> frozenset[str]:
        """Return the names of the endpoints that have no receipt for any of these hashes."""
        return frozenset(view.endpoint for view in self.views if view.is_missing(hashes))

    def _count_witnesses(self, receipt: Receipt) -> int:
        return self.quorum.count_witnesses(self._find_equivalent_receipts(receipt))

    def _find_equivalent_receipts(self, receipt: Receipt) -> dict[str, Receipt]:
        """Return the receipts with the same block and outcome, by endpoint."""
        receipt_by_endpoint = {
            view.endpoint: view.receipts.get(receipt.hash) for view in self.views
        }
        return {
            endpoint: equivalent_receipt
            for endpoint, equivalent_receipt in receipt_by_endpoint.items()
            if equivalent_receipt is not None and equivalent_receipt.is_equivalent(receipt)
        }

    def _apply_agreed_prices(self, receipt: Receipt) -> Receipt:
        """Return the receipt with the prices that enough witnesses report.

        If no prices are reported by enough witnesses, the lowest reported prices are used.

        The block hash does not commit to prices, so a single provider could otherwise use up a
        day's budget by returning a false price.
        """
        endpoints_by_price: dict[tuple[int, int], list[str]] = {}
        for endpoint, equivalent_receipt in self._find_equivalent_receipts(receipt).items():
            endpoints_by_price.setdefault(
                (equivalent_receipt.gas_price, equivalent_receipt.l1_fee), []
            ).append(endpoint)
        agreed_prices = [
            price
            for price, endpoints in endpoints_by_price.items()
            if self.quorum.is_reached_by(endpoints)
        ]
        gas_price, l1_fee = (
            agreed_prices[0] if agreed_prices else map(min, zip(*endpoints_by_price, strict=True))
        )
        return replace(
            receipt, gas_price=gas_price, l1_fee=l1_fee, has_agreed_price=bool(agreed_prices)
        )


def fetch_receipt_quorum(pool_view: PoolView, hashes: Sequence[Hash]) -> ReceiptQuorum:
    """Request the receipts for these hashes from every endpoint.

    If the receipt's block differs from the endpoint's own block at that height, the endpoint is in
    the middle of a reorg. Then neither the receipt nor its absence counts.

    Raises:
        TransientError: no endpoint answers.
    """
    endpoint_views: list[_EndpointReceipts] = []
    last_error: TransientError | None = None
    for endpoint in pool_view.callers:
        try:
            with expect_response_format("receipts"):
                endpoint_views.append(_fetch_endpoint_receipts(endpoint, hashes))
        except TransientError as error:
            last_error = error
    if not endpoint_views and last_error is not None:
        raise last_error
    return ReceiptQuorum(tuple(endpoint_views), pool_view.quorum)


def _fetch_endpoint_receipts(
    endpoint: EndpointCaller, hashes: Sequence[Hash]
) -> _EndpointReceipts:
    receipt_responses = endpoint.request_all(
        [("eth_getTransactionReceipt", (tx_hash,)) for tx_hash in hashes]
    )
    mined_receipts = [
        _decode_receipt(receipt_response)
        for receipt_response in receipt_responses
        if receipt_response is not None
    ]
    requests = [
        ("eth_getBlockByNumber", (hex(receipt.block_number), False)) for receipt in mined_receipts
    ]
    blocks = endpoint.request_all(requests) if requests else []
    settled_receipts = {
        receipt.hash: receipt
        for receipt, block in zip(mined_receipts, blocks, strict=True)
        if block is not None and block["hash"] == receipt.block_hash
    }
    unsettled_hashes = {receipt.hash for receipt in mined_receipts} - settled_receipts.keys()
    return _EndpointReceipts(endpoint.name, settled_receipts, frozenset(unsettled_hashes))


def _decode_receipt(answer: dict[str, Any]) -> Receipt:
    created_contract = answer.get("contractAddress")
    return Receipt(
        hash=Hash(answer["transactionHash"]),
        block_number=_decode_number(answer, "blockNumber", _MAX_COUNT),
        block_hash=Hash(answer["blockHash"]),
        succeeded=int(answer["status"], 16) == 1,
        gas_used=_decode_number(answer, "gasUsed", _MAX_COUNT),
        gas_price=_decode_number(answer, "effectiveGasPrice", _MAX_WEI),
        contract=Address(created_contract.lower()) if created_contract else None,
        events=tuple(
            ReceiptLog(Address(log["address"].lower()), tuple(log["topics"]), log["data"])
            for log in answer.get("logs", ())
        ),
        l1_fee=decode_l1_fee(answer),
    )


def _decode_number(answer: dict[str, Any], name: str, max_number: int) -> int:
    """Decode a numeric field of a receipt.

    Raises:
        ValueError, KeyError, TypeError: the field is missing or not a valid number.
    """
    parsed_number = parse_quantity(answer[name])
    if parsed_number > max_number:
        raise ValueError(f"{name}: {parsed_number} is too large; expected at most {max_number}")
    return parsed_number


class SimulatedCall(NamedTuple):
    """A call to simulate, which may already have been sent."""

    sender: Address
    to: Address
    calldata: str

    @property
    def params(self) -> dict[str, str]:
        """The call as the first parameter of `eth_call`."""
        return {"from": self.sender, "to": self.to, "data": self.calldata, "value": "0x0"}


def fetch_receipts(pool_view: PoolView, hashes: Sequence[Hash]) -> dict[Hash, Receipt]:
    """Fetch the receipts of these transactions, as far as any endpoint has them.

    Raises:
        TransientError: no endpoint answers.
    """
    receipt_quorum = fetch_receipt_quorum(pool_view, hashes)
    receipts = {tx_hash: receipt_quorum.find_receipt([tx_hash]) for tx_hash in hashes}
    return {tx_hash: receipt for tx_hash, receipt in receipts.items() if receipt is not None}


def fetch_transaction_count(pool_view: PoolView, sender: Address, block_tag: str) -> int:
    """Fetch the account's transaction count at a block (`latest`, `0x…`).

    Raises:
        TransientError: no endpoint answers.
    """

    def read_count(endpoint: EndpointCaller) -> int:
        with expect_response_format("the count of an account"):
            return parse_quantity(endpoint.request("eth_getTransactionCount", sender, block_tag))

    return pool_view.read_from_first(read_count)


def fetch_balance(pool_view: PoolView, account: Address) -> int:
    """Fetch the account's balance at the newest block, in wei.

    Raises:
        TransientError: no endpoint answers.
    """

    def read_balance(endpoint: EndpointCaller) -> int:
        with expect_response_format("a balance"):
            return parse_quantity(endpoint.request("eth_getBalance", account, "latest"))

    return pool_view.read_from_first(read_balance)


def fetch_block_hashes(pool_view: PoolView, numbers: Sequence[int]) -> dict[int, Hash]:
    """Fetch block hashes by height from one endpoint.

    Blocks that the endpoint lacks are left out.
    """
    blocks = pool_view.request_from_first(
        [("eth_getBlockByNumber", (hex(number), False)) for number in numbers]
    )
    with expect_response_format("blocks"):
        return {
            number: Hash(block["hash"])
            for number, block in zip(numbers, blocks, strict=True)
            if block is not None
        }


def fetch_transaction_counts_at_block(
    pool_view: PoolView, account: Address, block: BlockRef
) -> dict[str, int]:
    """Fetch the account's transaction count at the end of a block, by endpoint name.

    An endpoint that does not have the block by its hash is on another fork or lags, and is left
    out.
    """
    transaction_counts: dict[str, int] = {}
    for endpoint in pool_view.callers:
        block_quantity = hex(block.number)
        try:
            count, own_block = endpoint.request_all(
                [
                    ("eth_getTransactionCount", (account, block_quantity)),
                    ("eth_getBlockByNumber", (block_quantity, False)),
                ]
            )
            with expect_response_format("the count of an account"):
                if own_block is not None and own_block["hash"] == block.hash:
                    transaction_counts[endpoint.name] = parse_quantity(count)
        except TransientError:
            continue
    return transaction_counts


def is_block_reorged(pool_view: PoolView, block_number: int, block_hash: Hash) -> bool:
    """Return whether a block was replaced, according to the endpoints.

    Then some endpoint has another block at this height, and none has this block.
    """
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
    """Return whether one of these transactions is in a block, according to any endpoint.

    The block is given as (number, hash).
    """
    block_number, block_hash = block
    for endpoint in pool_view.callers:
        try:
            own_block = endpoint.request("eth_getBlockByNumber", hex(block_number), False)
            with expect_response_format("a block"):
                is_included = own_block is not None and own_block["hash"] == block_hash
                if is_included and not set(hashes).isdisjoint(own_block["transactions"]):
                    return True
        except TransientError:
            continue
    return False


def exclude_reorged_blocks(
    receipt_quorum: ReceiptQuorum, reorged_hashes: Collection[Hash]
) -> ReceiptQuorum:
    """Remove the receipts in reorged blocks from the quorum."""
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


def fetch_revert_reason(
    pool_view: PoolView,
    receipt: Receipt,
    call: SimulatedCall,
    *,
    gas_limit: int,
    decode_refusal: RefusalDecoder,
) -> str:
    """Find out by simulations why a mined call failed.

    The call is simulated on its own block and on the block before. The result is `class(details)`.
    There are only a few classes, because the class becomes the label of a metric. If the state has
    changed between the two blocks, the reason may be wrong. The class `out_of_gas` is returned if
    all gas was used (a contract forwards 63/64 of its gas to another) and the simulation gives no
    revert reason. No exception is raised.
    """
    call_refusal, own_block = None, receipt.block_number
    try:
        # The call is also simulated on its own block, because the transaction that made it fail
        # may come earlier in that block.
        call_refusal = fetch_refusal(pool_view, call, own_block - 1, decode_refusal)
        call_refusal = call_refusal or fetch_refusal(pool_view, call, own_block, decode_refusal)
        reason = str(
            call_refusal or f"{_REVERTED}(its simulation on this block and the one before works)"
        )
    except TransientError as error:
        reason = f"{_REVERTED}(its simulation failed: {error})"
    is_named = call_refusal is not None and bool(call_refusal.name)
    if not is_named and 64 * receipt.gas_used >= 63 * gas_limit:
        return f"{OUT_OF_GAS}(used {receipt.gas_used} of {gas_limit})"
    return reason


def fetch_refusal(
    pool_view: PoolView, call: SimulatedCall, block_number: int, decode_refusal: RefusalDecoder
) -> Refusal | None:
    """Return how a contract refuses a call at the end of a block, or None if the call works.

    Raises:
        TransientError: no endpoint answers.
    """
    try:
        pool_view.request("eth_call", call.params, hex(block_number))
    except RevertError as error:
        return decode_refusal(error.data)
    return None


def fetch_newest_block(pool_view: PoolView) -> BlockRef:
    """Fetch the newest block from the first endpoint that answers.

    Raises:
        TransientError: no endpoint answers, or the answer is null, as from a node that is starting
            or has lost its database.
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
