"""Compares the blooms of headers with the logs of their blocks.

A bloom only adds evidence of forks and omissions; no query is skipped because of a bloom.
See docs/explanation/verification.md#l3.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from oracle.chain.log_filter import Filter
from oracle.chain.proofs.bloom import mask, may_log
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.full_headers import FullHeader
from oracle.chain.verification.header_check import is_hashed_right, may_hold_all
from oracle.chain.verification.window_check import (
    ContradictionError,
    OmissionError,
    VerifiedWindow,
)
from oracle.domain.coverage import Level
from oracle.domain.logs import Log

# Fetches the logs of a block from an endpoint other than the named one; None if there is none.
Elsewhere = Callable[[str, FullHeader], list[Log] | None]


@dataclass(frozen=True, slots=True)
class Blooms:
    """Checks blooms against the logs of one filter."""

    wanted: Filter
    calibration: Calibration
    elsewhere: Elsewhere
    _addresses: tuple[int, ...] = field(init=False)
    _topics: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_addresses", tuple(map(mask, sorted(self.wanted.addresses))))
        object.__setattr__(self, "_topics", tuple(map(mask, sorted(self.wanted.topics))))

    def may_hide(self, one: FullHeader) -> bool:
        """Return whether a block may have matching logs, according to its bloom.

        On a chain without blooms, every block may have matching logs.
        """
        if not self.calibration.has(HeaderFeature.BLOOM):
            return self.calibration.is_refuted(HeaderFeature.BLOOM)
        return one.bloom is None or self._may_log(one.bloom)

    def sift(self, window: VerifiedWindow) -> None:
        """Raise the level of blocks whose blooms agree with their logs.

        Raises:
            ContradictionError: a bloom does not contain a log.
            OmissionError: another endpoint has logs that this one omitted.
        """
        for one in window.blocks:
            bits, logs = one.bloom, window.logs.get(one.block.number, ())
            if bits is None:
                continue
            if not may_hold_all(bits, logs):
                if window.is_proven(one.block.number) and is_hashed_right(one):
                    # The receipts match the root of a valid header, which proves the logs.
                    self.calibration.demote(
                        HeaderFeature.BLOOM, f"block {one.block.hash} has logs beside it"
                    )
                    return
                if not self.calibration.is_accepted(HeaderFeature.BLOOM, one.block.hash):
                    words = "its bloom does not know a log that was given"
                    said = " ".join(f"{log.index} {log.address} {log.topics}" for log in logs)
                    raise ContradictionError(
                        window.name, HeaderFeature.BLOOM, one, words, said=said
                    )
        for one in window.blocks:
            self._raise(window, one)

    def _raise(self, window: VerifiedWindow, one: FullHeader) -> None:
        number, bits = one.block.number, one.bloom
        if bits is None or window.is_proven(number) or not window.is_whole:
            return
        if number not in window.logs and self._may_log(bits):
            other = self.elsewhere(window.name, one)
            if other is None:
                return
            if other:
                raise OmissionError(window.name, one, len(other))
        window.levels[number] = Level.BLOOMED

    def _may_log(self, bits: int) -> bool:
        return may_log(bits, self._addresses, self._topics)
