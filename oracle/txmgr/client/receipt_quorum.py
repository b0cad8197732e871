"""Was it mined? Receipts by hash from every endpoint, checked against the chain that each has.

A receipt that one endpoint has counts, though another has none; what cannot be taken back needs
two that agree by the hash of the block (docs/explanation/transactions.md#i7).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.fanout import EndpointCaller, PoolView, number_of, understood
from oracle.txmgr.client.l1_fees import l1_fee_in

# No chain comes near; and more of it no table holds.
_MOST_COUNTED, _MOST_WEI = 2**63 - 1, 10**28


@dataclass(frozen=True, slots=True)
class ReceiptLog:
    """A log of a receipt, as bytes in `0x` hex."""

    contract: Address
    topics: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """A transaction in a block of the canonical chain; `gas_price` in wei, as really paid.

    `l1_fee` in wei: what a rollup took for the data beside gas (`l1_fees.l1_fee_in`).
    """

    hash: Hash
    block_number: int
    block_hash: Hash
    succeeded: bool
    gas_used: int
    gas_price: int
    # What the transaction created, where it did.
    contract: Address | None
    events: tuple[ReceiptLog, ...] = ()
    l1_fee: int = 0
    # Enough endpoints tell these two figures; else they are the lowest of what is told.
    is_priced: bool = False

    def is_equivalent(self, other: "Receipt") -> bool:
        """Tell whether both speak of one block, one outcome and the same events."""
        return (self.block_hash, self.succeeded, self.gas_used, self.events) == (
            other.block_hash,
            other.succeeded,
            other.gas_used,
            other.events,
        )


@dataclass(frozen=True, slots=True)
class _View:
    """What one endpoint shows; `unsettled`: receipts in a block that is not its own any more."""

    place: str
    receipts: Mapping[Hash, Receipt]
    unsettled: frozenset[Hash]

    def is_missing(self, hashes: Sequence[Hash]) -> bool:
        return not any(one in self.receipts or one in self.unsettled for one in hashes)


@dataclass(frozen=True, slots=True)
class ReceiptQuorum:
    """What the endpoints that answered show of some hashes; `quorum`: how many have to agree."""

    views: tuple[_View, ...]
    quorum: int

    def receipt(self, hashes: Sequence[Hash], known: Hash | None = None) -> Receipt | None:
        """Return the receipt of one of these hashes that most endpoints show.

        Where as many show another one: that in the `known` block, then that of the preferred
        endpoint. None: no endpoint has any. What it cost is as `_priced` says.
        """
        shown = [
            view.receipts[one] for view in self.views for one in hashes if one in view.receipts
        ]
        best = max(
            shown,
            key=lambda one: (self._seen_by(one), one.block_hash == known),
            default=None,
        )
        return None if best is None else self._priced(best)

    def has_agreement_on(self, receipt: Receipt) -> bool:
        """Tell whether enough endpoints show this very receipt."""
        return self._seen_by(receipt) >= self.quorum

    @property
    def places(self) -> frozenset[str]:
        """The endpoints that answered, by their places."""
        return frozenset(view.place for view in self.views)

    def without(self, hashes: Sequence[Hash]) -> frozenset[str]:
        """Return the endpoints that know of none of these hashes, by their places."""
        return frozenset(view.place for view in self.views if view.is_missing(hashes))

    def _seen_by(self, receipt: Receipt) -> int:
        return len(self._alike(receipt))

    def _alike(self, receipt: Receipt) -> list[Receipt]:
        shown = (view.receipts.get(receipt.hash) for view in self.views)
        return [one for one in shown if one is not None and one.is_equivalent(receipt)]

    def _priced(self, receipt: Receipt) -> Receipt:
        """Put in what was paid, by those who show this receipt: two must tell the same.

        No block's hash vouches for a price; one endpoint alone could have a day's budget used up.
        """
        told = [(one.gas_price, one.l1_fee) for one in self._alike(receipt)]
        sure = [one for one in told if told.count(one) >= self.quorum]
        price, l1_fee = sure[0] if sure else map(min, zip(*told, strict=True))
        return replace(receipt, gas_price=price, l1_fee=l1_fee, is_priced=bool(sure))


def look_for(lines: PoolView, hashes: Sequence[Hash]) -> ReceiptQuorum:
    """Ask every endpoint for the receipts of these hashes.

    One in a block that is not the endpoint's own of that height is being reorged: it counts for
    nothing, and its absence neither.

    Raises:
        TransientError: no endpoint answers.
    """
    views: list[_View] = []
    silence: TransientError | None = None
    for place, line in enumerate(lines.all):
        try:
            with understood("receipts"):
                views.append(_view(line, place_of(place), hashes))
        except TransientError as error:
            silence = error
    if not views and silence is not None:
        raise silence
    return ReceiptQuorum(tuple(views), lines.quorum)


def place_of(number: int) -> str:
    """Name an endpoint by its place in the settings: two may have one host."""
    return str(number)


def _view(line: EndpointCaller, place: str, hashes: Sequence[Hash]) -> _View:
    answers = line.ask_all([("eth_getTransactionReceipt", (one,)) for one in hashes])
    mined = [_receipt(answer) for answer in answers if answer is not None]
    blocks = (
        line.ask_all([("eth_getBlockByNumber", (hex(one.block_number), False)) for one in mined])
        if mined
        else []
    )
    known = {
        receipt.hash: receipt
        for receipt, block in zip(mined, blocks, strict=True)
        if block is not None and block["hash"] == receipt.block_hash
    }
    return _View(place, known, frozenset(one.hash for one in mined if one.hash not in known))


def _receipt(answer: dict[str, Any]) -> Receipt:
    created = answer.get("contractAddress")
    return Receipt(
        hash=Hash(answer["transactionHash"]),
        block_number=_figure(answer, "blockNumber", _MOST_COUNTED),
        block_hash=Hash(answer["blockHash"]),
        succeeded=int(answer["status"], 16) == 1,
        gas_used=_figure(answer, "gasUsed", _MOST_COUNTED),
        gas_price=_figure(answer, "effectiveGasPrice", _MOST_WEI),
        contract=Address(created.lower()) if created else None,
        events=tuple(
            ReceiptLog(Address(log["address"].lower()), tuple(log["topics"]), log["data"])
            for log in answer.get("logs", ())
        ),
        l1_fee=l1_fee_in(answer),
    )


def _figure(answer: dict[str, Any], name: str, most: int) -> int:
    """Read a number of a receipt. Raises ValueError and others: it is none that can be."""
    number = number_of(answer[name])
    if number > most:
        raise ValueError(f"{name} is {number}")
    return number
