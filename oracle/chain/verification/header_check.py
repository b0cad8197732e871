"""Recomputes header hashes and roots, and compares logs with receipts."""

from collections.abc import Iterable, Sequence

from oracle.chain.log_filter import LogFilter
from oracle.chain.proofs.bloom import compute_bloom, compute_bloom_mask, may_contain_log
from oracle.chain.proofs.header_hash import compute_block_hash
from oracle.chain.proofs.receipts_root import compute_receipts_root
from oracle.chain.verification.calibration import HeaderFeature
from oracle.chain.verification.full_headers import EMPTY_TRIE_ROOT, FullHeader
from oracle.chain.verification.receipt_fetch import Receipts
from oracle.domain.logs import Log


def compute_header_hash(header: FullHeader) -> str:
    """Return the hash of this header, or "unwritable" if it is incomplete or unreadable."""
    whole_header = header.complete_header
    try:
        return "unwritable" if whole_header is None else compute_block_hash(whole_header)
    except ValueError:
        return "unwritable"


def has_valid_hash(header: FullHeader) -> bool:
    """Return whether the header is complete and hashes to the block's hash."""
    return compute_header_hash(header) == header.block.hash


# A placeholder: no list of receipts or transactions has this root.
_ZERO_ROOT = "0x" + "00" * 32


def is_root_absent(header: FullHeader, feature: HeaderFeature) -> bool:
    """Return whether a header with a valid hash proves that its block has no such root.

    The hash commits to both roots: a zero root is not the root of any list, and a block with
    transactions has receipts. No other proof can refute a root that blocks have proven, because
    receipts that do not match a root may be forged.
    """
    if feature is HeaderFeature.RECEIPTS:
        is_empty = header.is_without_transactions and header.transactions_root != EMPTY_TRIE_ROOT
        is_absent = header.receipts_root == _ZERO_ROOT or is_empty
    else:
        is_absent = (
            feature is HeaderFeature.TRANSACTIONS and header.transactions_root == _ZERO_ROOT
        )
    return is_absent and has_valid_hash(header)


def try_compute_receipts_root(block_receipts: Receipts) -> str:
    """Return the root of these receipts, or "unwritable" if they cannot be encoded."""
    try:
        return compute_receipts_root(block_receipts)
    except ValueError:
        return "unwritable"


def check_header_features(
    header: FullHeader, block_receipts: Receipts
) -> dict[HeaderFeature, bool]:
    """Return which header features of a block with logs match its receipts."""
    try:
        bloom_bits = compute_bloom(log for receipt in block_receipts for log in receipt.logs)
    except ValueError:
        bloom_bits = -1
    return {
        HeaderFeature.RECEIPTS: try_compute_receipts_root(block_receipts) == header.receipts_root,
        HeaderFeature.BLOOM: bloom_bits == header.bloom,
        HeaderFeature.HEADER: has_valid_hash(header),
    }


def may_contain_logs(bloom_bits: int, logs: Iterable[Log]) -> bool:
    """Return whether the bloom may contain these logs, by address and first topic."""
    address_topic_pairs = {(log.address, log.topics[0]) for log in logs}
    return all(
        may_contain_log(bloom_bits, [compute_bloom_mask(address)], [compute_bloom_mask(topic)])
        for address, topic in address_topic_pairs
    )


def are_logs_complete(
    logs: Sequence[Log], block_receipts: Receipts, log_filter: LogFilter
) -> bool:
    """Return whether these are exactly the matching logs of the receipts of a whole block.

    `block_receipts` are in order. The result may be False only because of spelling, such as
    upper-case hex.
    """
    log_position, wanted_topics = 0, {(topic,) for topic in log_filter.topics}
    for tx, receipt in enumerate(block_receipts):
        for log in receipt.logs:
            if log.address not in log_filter.addresses or log.topics[:1] not in wanted_topics:
                if log_filter.matches(log):
                    return False
                continue
            if log_position == len(logs):
                return False
            own_log = logs[log_position]
            if (
                own_log.data != log.data
                or own_log.topics != log.topics
                or own_log.address != log.address
                or own_log.index != int(log.log_index, 16)
                or own_log.tx != tx
                or own_log.tx_hash != receipt.transaction_hash
            ):
                return False
            log_position += 1
    return log_position == len(logs)
