"""Recomputes header hashes and roots, and compares logs with receipts and blooms.

Blooms are used only to detect forks and omissions, and no query is left out because of a bloom.
See docs/explanation/verification.md#l3.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from oracle.chain.log_filter import LogFilter
from oracle.chain.proofs.header_hash import compute_block_hash
from oracle.chain.proofs.receipts import (
    compute_bloom,
    compute_bloom_mask,
    compute_receipts_root,
    has_all_bits,
    may_contain_log,
)
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.full_headers import EMPTY_TRIE_ROOT, FullHeader
from oracle.chain.verification.receipt_fetch import Receipts
from oracle.chain.verification.window_check import (
    ContradictionError,
    OmissionError,
    VerifiedWindow,
)
from oracle.domain.coverage import VerificationLevel
from oracle.domain.logs import Log


def compute_header_hash(header: FullHeader) -> str:
    """Compute the hash of a header.

    The result is "unwritable" if the header is incomplete or unreadable.
    """
    hashed_fields = header.hashed_fields
    try:
        return "unwritable" if hashed_fields is None else compute_block_hash(hashed_fields)
    except ValueError:
        return "unwritable"


def has_valid_hash(header: FullHeader) -> bool:
    """Return whether a header is complete and its hash is the block's hash."""
    return compute_header_hash(header) == header.block.hash


# A placeholder that is not the root of any list of receipts or transactions.
_ZERO_ROOT = "0x" + "00" * 32


def is_root_provably_absent(header: FullHeader, feature: HeaderFeature) -> bool:
    """Return whether a header with a valid hash proves that a root is absent.

    The hash commits to both roots. A zero root is not the root of any list, and a block with
    transactions must have receipts. There is no other proof that a chain lacks a root that was
    proven before, because receipts that do not match a root may be forged.
    """
    if feature is HeaderFeature.RECEIPTS:
        is_empty = header.has_no_transactions and header.transactions_root != EMPTY_TRIE_ROOT
        is_absent = header.receipts_root == _ZERO_ROOT or is_empty
    else:
        is_absent = (
            feature is HeaderFeature.TRANSACTIONS and header.transactions_root == _ZERO_ROOT
        )
    return is_absent and has_valid_hash(header)


def try_compute_receipts_root(block_receipts: Receipts) -> str:
    """Compute the root of these receipts.

    The result is "unwritable" if they cannot be encoded.
    """
    try:
        return compute_receipts_root(block_receipts)
    except ValueError:
        return "unwritable"


def compare_header_features(
    header: FullHeader, block_receipts: Receipts
) -> dict[HeaderFeature, bool]:
    """Return whether each feature of a header matches the block's receipts."""
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
    """Return whether a bloom may contain these logs.

    Addresses and first topics are compared.
    """
    mask_bits = 0
    for address, topic in {(log.address, log.topics[0]) for log in logs}:
        mask_bits |= compute_bloom_mask(address) | compute_bloom_mask(topic)
    return has_all_bits(bloom_bits, mask_bits)


def are_logs_complete(
    logs: Sequence[Log], block_receipts: Receipts, log_filter: LogFilter
) -> bool:
    """Return whether these logs are all matching logs in a block's receipts.

    There must be no other logs. `block_receipts` are in order. The result may also be False if the
    logs differ only in their format, such as upper-case hex.
    """
    log_position = 0
    wanted_topics = {(topic,) for topic in log_filter.topics}
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


# Fetches a block's logs from any endpoint except the named one. Returns None if there is no other
# endpoint.
OtherLogFetch = Callable[[str, FullHeader], list[Log] | None]


@dataclass(frozen=True, slots=True)
class BloomChecker:
    """Checks blooms against the logs of one filter."""

    log_filter: LogFilter
    calibration: Calibration
    fetch_other_logs: OtherLogFetch
    _addresses: tuple[int, ...] = field(init=False)
    _topics: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "_addresses", tuple(map(compute_bloom_mask, sorted(self.log_filter.addresses)))
        )
        object.__setattr__(
            self, "_topics", tuple(map(compute_bloom_mask, sorted(self.log_filter.topics)))
        )

    def may_have_logs(self, header: FullHeader) -> bool:
        """Return whether a block's bloom allows logs that match the filter.

        On a chain without blooms, every block may have matching logs.
        """
        if not self.calibration.is_proven(HeaderFeature.BLOOM):
            return self.calibration.is_unsupported(HeaderFeature.BLOOM)
        return header.bloom is None or self._may_contain_log(header.bloom)

    def check_window(self, window: VerifiedWindow) -> None:
        """Mark blocks as BLOOMED if their blooms agree with their logs.

        Raises:
            ContradictionError: a bloom does not contain a log.
            OmissionError: another endpoint has logs that this one omitted.
        """
        for header in window.headers:
            bloom = header.bloom
            logs = window.logs_by_block.get(header.block.number, ())
            if bloom is None:
                continue
            if not may_contain_logs(bloom, logs):
                if window.is_proven(header.block.number) and has_valid_hash(header):
                    # The receipts root of a valid header proves the logs, so the bloom must be
                    # wrong.
                    self.calibration.mark_unsupported(
                        HeaderFeature.BLOOM, f"block {header.block.hash} has logs outside of it"
                    )
                    return
                if not self.calibration.is_accepted(HeaderFeature.BLOOM, header.block.hash):
                    message = "the header's bloom does not contain a returned log"
                    log_content = " ".join(
                        f"{log.index} {log.address} {log.topics}" for log in logs
                    )
                    raise ContradictionError(
                        window.endpoint_name,
                        HeaderFeature.BLOOM,
                        header,
                        message,
                        computed_value=log_content,
                    )
        for header in window.headers:
            self._raise_level(window, header)

    def _raise_level(self, window: VerifiedWindow, header: FullHeader) -> None:
        number, bloom = header.block.number, header.bloom
        if bloom is None or window.is_proven(number) or not window.has_all_headers:
            return
        if number not in window.logs_by_block and self._may_contain_log(bloom):
            other_logs = self.fetch_other_logs(window.endpoint_name, header)
            if other_logs is None:
                return
            if other_logs:
                raise OmissionError(window.endpoint_name, header, len(other_logs))
        window.level_by_block[number] = VerificationLevel.BLOOMED

    def _may_contain_log(self, bloom: int) -> bool:
        return may_contain_log(bloom, self._addresses, self._topics)
