"""Receipts by hash from every endpoint, each checked against the endpoint's own blocks.

A receipt that one endpoint shows counts although another has none; irreversible changes need two
witnesses that agree on the block hash (docs/explanation/transactions.md#i7).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.rpc.fanout import EndpointCaller, PoolView, expect_response_format, parse_quantity
from oracle.txmgr.client.l1_fees import decode_l1_fee

# No chain reaches these values, and no database column holds more.
_MAX_COUNT, _MAX_WEI = 2**63 - 1, 10**28


@dataclass(frozen=True, slots=True)
class ReceiptLog:
    """A log of a receipt, with its bytes in `0x` hex."""

    contract: Address
    topics: tuple[str, ...]
    data: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """A transaction in a canonical block; `gas_price` is the price paid, in wei.

    `l1_fee` is what a rollup charged for the data, in wei (`l1_fees.decode_l1_fee`).
    """

    hash: Hash
    block_number: int
    block_hash: Hash
    succeeded: bool
    gas_used: int
    gas_price: int
    # The contract that the transaction created, if any.
    contract: Address | None
    events: tuple[ReceiptLog, ...] = ()
    l1_fee: int = 0
    # Whether enough witnesses report both prices; else they are the lowest reported.
    has_agreed_price: bool = False

    def is_equivalent(self, other_receipt: "Receipt") -> bool:
        """Return whether both receipts have the same block, outcome and events."""
        return (self.block_hash, self.succeeded, self.gas_used, self.events) == (
            other_receipt.block_hash,
            other_receipt.succeeded,
            other_receipt.gas_used,
            other_receipt.events,
        )


@dataclass(frozen=True, slots=True)
class _EndpointReceipts:
    """The receipts of one endpoint; `unsettled` are hashes in an orphaned block."""

    endpoint: str
    receipts: Mapping[Hash, Receipt]
    unsettled: frozenset[Hash]

    def is_missing(self, hashes: Sequence[Hash]) -> bool:
        return not any(tx_hash in self.receipts or tx_hash in self.unsettled for tx_hash in hashes)


@dataclass(frozen=True, slots=True)
class ReceiptQuorum:
    """The receipts from all endpoints that answered, and how many witnesses have to agree."""

    views: tuple[_EndpointReceipts, ...]
    quorum: WitnessQuorum

    def find_receipt(
        self, hashes: Sequence[Hash], known_block_hash: Hash | None = None
    ) -> Receipt | None:
        """Return the receipt of one of these hashes that the most witnesses show, or None.

        On a tie the receipt in the block `known_block_hash` is preferred, then that of the
        preferred endpoint. Its prices are those of `_with_agreed_price`.
        """
        shown_receipts = [
            view.receipts[tx_hash]
            for view in self.views
            for tx_hash in hashes
            if tx_hash in view.receipts
        ]
        best = max(
            shown_receipts,
            key=lambda receipt: (
                self._count_witnesses(receipt),
                receipt.block_hash == known_block_hash,
            ),
            default=None,
        )
        return None if best is None else self._with_agreed_price(best)

    def has_agreement_on(self, receipt: Receipt) -> bool:
        """Return whether enough witnesses show this very receipt."""
        return self.quorum.is_reached_by(self._find_same_receipts(receipt))

    @property
    def endpoints(self) -> frozenset[str]:
        """The names of the endpoints that answered."""
        return frozenset(view.endpoint for view in self.views)

    def endpoints_without_receipt(self, hashes: Sequence[Hash]) -> frozenset[str]:
        """Return the names of the endpoints that show no receipt of these hashes."""
        return frozenset(view.endpoint for view in self.views if view.is_missing(hashes))

    def _count_witnesses(self, receipt: Receipt) -> int:
        return self.quorum.count_witnesses(self._find_same_receipts(receipt))

    def _find_same_receipts(self, receipt: Receipt) -> dict[str, Receipt]:
        """Return the receipts with the same block and outcome, by endpoint."""
        shown = {view.endpoint: view.receipts.get(receipt.hash) for view in self.views}
        return {
            endpoint: same
            for endpoint, same in shown.items()
            if same is not None and same.is_equivalent(receipt)
        }

    def _with_agreed_price(self, receipt: Receipt) -> Receipt:
        """Set the prices of a receipt to those that enough of its witnesses agree on.

        The block hash does not commit to a price, so one provider alone could use up a day's
        budget.
        """
        endpoints_by_price: dict[tuple[int, int], list[str]] = {}
        for endpoint, same in self._find_same_receipts(receipt).items():
            endpoints_by_price.setdefault((same.gas_price, same.l1_fee), []).append(endpoint)
        agreed = [
            price
            for price, endpoints in endpoints_by_price.items()
            if self.quorum.is_reached_by(endpoints)
        ]
        gas_price, l1_fee = (
            agreed[0] if agreed else map(min, zip(*endpoints_by_price, strict=True))
        )
        return replace(receipt, gas_price=gas_price, l1_fee=l1_fee, has_agreed_price=bool(agreed))


def fetch_receipt_quorum(pool_view: PoolView, hashes: Sequence[Hash]) -> ReceiptQuorum:
    """Request the receipts of these hashes from every endpoint.

    A receipt in a block that differs from the endpoint's own block at that height is being
    reorged: neither the receipt nor its absence counts.

    Raises:
        TransientError: no endpoint answers.
    """
    views: list[_EndpointReceipts] = []
    last_error: TransientError | None = None
    for endpoint in pool_view.callers:
        try:
            with expect_response_format("receipts"):
                views.append(_fetch_endpoint_receipts(endpoint, hashes))
        except TransientError as error:
            last_error = error
    if not views and last_error is not None:
        raise last_error
    return ReceiptQuorum(tuple(views), pool_view.quorum)


def _fetch_endpoint_receipts(
    endpoint: EndpointCaller, hashes: Sequence[Hash]
) -> _EndpointReceipts:
    answers = endpoint.request_all(
        [("eth_getTransactionReceipt", (tx_hash,)) for tx_hash in hashes]
    )
    mined = [_decode_receipt(answer) for answer in answers if answer is not None]
    requests = [("eth_getBlockByNumber", (hex(receipt.block_number), False)) for receipt in mined]
    blocks = endpoint.request_all(requests) if requests else []
    settled = {
        receipt.hash: receipt
        for receipt, block in zip(mined, blocks, strict=True)
        if block is not None and block["hash"] == receipt.block_hash
    }
    unsettled = {receipt.hash for receipt in mined} - settled.keys()
    return _EndpointReceipts(endpoint.name, settled, frozenset(unsettled))


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
    """Return a number of a receipt.

    Raises ValueError, KeyError or TypeError if it is not valid.
    """
    number = parse_quantity(answer[name])
    if number > max_number:
        raise ValueError(f"{name}: {number} is too large; expected at most {max_number}")
    return number
