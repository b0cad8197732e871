"""Compares the blooms of headers with the logs of their blocks.

A bloom only adds evidence of forks and omissions; no query is skipped because of a bloom.
See docs/explanation/verification.md#l3.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from oracle.chain.log_filter import LogFilter
from oracle.chain.proofs.bloom import compute_bloom_mask, may_contain_log
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.full_headers import FullHeader
from oracle.chain.verification.header_check import has_valid_hash, may_contain_logs
from oracle.chain.verification.window_check import (
    ContradictionError,
    OmissionError,
    VerifiedWindow,
)
from oracle.domain.coverage import VerificationLevel
from oracle.domain.logs import Log

# Fetches the logs of a block from an endpoint other than the named one; None if there is none.
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
        """Return whether a block may have matching logs, according to its bloom.

        On a chain without blooms, every block may have matching logs.
        """
        if not self.calibration.is_proven(HeaderFeature.BLOOM):
            return self.calibration.is_unsupported(HeaderFeature.BLOOM)
        return header.bloom is None or self._may_contain_log(header.bloom)

    def check_window(self, window: VerifiedWindow) -> None:
        """Raise the level of blocks whose blooms agree with their logs.

        Raises:
            ContradictionError: a bloom does not contain a log.
            OmissionError: another endpoint has logs that this one omitted.
        """
        for header in window.headers:
            bloom, logs = header.bloom, window.logs_by_block.get(header.block.number, ())
            if bloom is None:
                continue
            if not may_contain_logs(bloom, logs):
                if window.is_proven(header.block.number) and has_valid_hash(header):
                    # The receipts match the root of a valid header, which proves the logs.
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
