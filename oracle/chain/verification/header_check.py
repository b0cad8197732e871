"""Recomputes header hashes and roots, and compares logs with receipts."""

from collections.abc import Iterable, Sequence

from oracle.chain.log_filter import Filter
from oracle.chain.proofs.bloom import bloom, mask, may_log
from oracle.chain.proofs.header_hash import header_hash
from oracle.chain.proofs.receipts_root import receipts_root
from oracle.chain.verification.calibration import HeaderFeature
from oracle.chain.verification.full_headers import NO_RECEIPTS, FullHeader
from oracle.chain.verification.receipt_fetch import Receipts
from oracle.domain.logs import Log


def hash_of(one: FullHeader) -> str:
    """Return the hash of this header, or "unwritable" if it is incomplete or unreadable."""
    whole = one.whole_header
    try:
        return "unwritable" if whole is None else header_hash(whole)
    except ValueError:
        return "unwritable"


def is_hashed_right(one: FullHeader) -> bool:
    """Return whether the header is complete and hashes to the block's hash."""
    return hash_of(one) == one.block.hash


# A placeholder: no list of receipts or transactions has this root.
_ZERO_ROOT = "0x" + "00" * 32


def lacks_root(one: FullHeader, feature: HeaderFeature) -> bool:
    """Return whether a header with a valid hash proves that its block has no such root.

    The hash commits to both roots: a zero root is not the root of any list, and a block with
    transactions has receipts. No other proof can refute a root that blocks have proven, because
    receipts that do not match a root may be a lie.
    """
    if feature is HeaderFeature.RECEIPTS:
        is_empty = one.is_without_transactions and one.transactions_root != NO_RECEIPTS
        lacks = one.receipts_root == _ZERO_ROOT or is_empty
    else:
        lacks = feature is HeaderFeature.TRANSACTIONS and one.transactions_root == _ZERO_ROOT
    return lacks and is_hashed_right(one)


def root_of(given: Receipts) -> str:
    """Return the root of these receipts, or "unwritable" if they cannot be encoded."""
    try:
        return receipts_root(given)
    except ValueError:
        return "unwritable"


def judged(one: FullHeader, given: Receipts) -> dict[HeaderFeature, bool]:
    """Return which header features of a block with logs match its receipts."""
    try:
        bits = bloom(log for receipt in given for log in receipt.logs)
    except ValueError:
        bits = -1
    return {
        HeaderFeature.RECEIPTS: root_of(given) == one.receipts_root,
        HeaderFeature.BLOOM: bits == one.bloom,
        HeaderFeature.HEADER: is_hashed_right(one),
    }


def may_hold_all(bits: int, logs: Iterable[Log]) -> bool:
    """Return whether the bloom may contain these logs, by address and first topic."""
    said = {(log.address, log.topics[0]) for log in logs}
    return all(may_log(bits, [mask(address)], [mask(topic)]) for address, topic in said)


def are_all(logs: Sequence[Log], given: Receipts, wanted: Filter) -> bool:
    """Return whether these are exactly the receipts' matching logs; may give false negatives.

    `block_receipts` are those of the whole block, in order. A negative result may be caused by
    spelling alone, such as upper-case hex.
    """
    place, topics = 0, {(topic,) for topic in wanted.topics}
    for tx, receipt in enumerate(given):
        for log in receipt.logs:
            if log.address not in wanted.addresses or log.topics[:1] not in topics:
                if wanted.matches(log):
                    return False
                continue
            if place == len(logs):
                return False
            ours = logs[place]
            if (
                ours.data != log.data
                or ours.topics != log.topics
                or ours.address != log.address
                or ours.index != int(log.log_index, 16)
                or ours.tx != tx
                or ours.tx_hash != receipt.transaction_hash
            ):
                return False
            place += 1
    return place == len(logs)
