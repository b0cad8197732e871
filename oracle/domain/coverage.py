"""Records the scope, verification level and endpoint of each range of blocks that was read.

See docs/explanation/storage.md#coverage and docs/explanation/verification.md.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from hashlib import sha256
from typing import Self

from oracle.domain.blocks import BlockRange
from oracle.domain.ids import Address


class VerificationLevel(IntEnum):
    """How thoroughly a range of blocks was verified; each level includes all lower ones.

    `CHECK_BY_LEVEL` describes the checks. The comparison of counters
    (docs/explanation/verification.md#l6) is not a level of a range, because it checks the whole
    state at a block.
    """

    NOTHING = -1
    CHECKED = 0
    SEAMED = 1
    PINNED = 2
    BLOOMED = 3
    PROVEN = 4
    AUDITED = 5


# For each level, what was checked in addition to the lower levels.
CHECK_BY_LEVEL: Mapping[VerificationLevel, str] = {
    VerificationLevel.NOTHING: "nothing: the block was stored before levels existed",
    VerificationLevel.CHECKED: "form, filter, range and order of each log",
    VerificationLevel.SEAMED: (
        "the window's first parent hash is the hash of the newest indexed block"
    ),
    VerificationLevel.PINNED: (
        "all headers link by parent hash, and logs were requested by block hash"
    ),
    VerificationLevel.BLOOMED: "the logs match the blooms of the headers",
    VerificationLevel.PROVEN: "the root of the receipts equals the header's receipts root",
    VerificationLevel.AUDITED: "another provider later returned the same data",
}


@dataclass(frozen=True)
class IngestScope:
    """The filter applied to every block: logs by contract and first topic, calls by selector.

    All values are lower case and sorted, so that equal scopes have equal ids. A selector consists
    of a contract's address and the first four bytes of the input, written as `0x` and 40 hex
    digits, a colon, `0x` and 8 hex digits.
    """

    addresses: tuple[Address, ...]
    topics: tuple[str, ...]
    selectors: tuple[str, ...] = ()

    @classmethod
    def create(
        cls, addresses: Collection[str], topics: Collection[str], selectors: Collection[str] = ()
    ) -> Self:
        """Create a scope from filter values, in any order and letter case."""
        return cls(
            tuple(sorted({Address(address.lower()) for address in addresses})),
            tuple(sorted({topic.lower() for topic in topics})),
            tuple(sorted({selector.lower() for selector in selectors})),
        )

    @cached_property
    def id(self) -> bytes:
        """Return the SHA-256 hash (32 bytes) of the scope's JSON.

        See docs/explanation/storage.md#coverage.
        """
        return sha256(self.to_json().encode()).digest()

    def to_json(self) -> str:
        """Return the scope as canonical JSON."""
        return json.dumps([self.addresses, self.topics, self.selectors], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse a scope from the JSON that `to_json` returns."""
        addresses, topics, selectors = json.loads(text)
        return cls(tuple(addresses), tuple(topics), tuple(selectors))


@dataclass(frozen=True, slots=True)
class CoverageInterval:
    """A run of consecutive blocks that were read with the same scope, level and endpoint.

    The interval includes both `first` and `last`. `audited_by` is the endpoint that later returned
    the same data, and `audited_at` was the newest block at that time. Both are None if the blocks
    have not been audited yet.
    """

    first: int
    last: int
    level: VerificationLevel
    endpoint: str
    audited_by: str | None = None
    audited_at: int | None = None

    @property
    def blocks(self) -> BlockRange:
        """Return the interval as a block range."""
        return BlockRange(self.first, self.last)


def subtract_coverage(
    intervals: Iterable[CoverageInterval], removed_interval: CoverageInterval
) -> Iterator[CoverageInterval]:
    """Yield what is left of the intervals outside `removed_interval`."""
    for interval in intervals:
        if interval.first < removed_interval.first:
            yield replace(interval, last=min(interval.last, removed_interval.first - 1))
        if interval.last > removed_interval.last:
            yield replace(interval, first=max(interval.first, removed_interval.last + 1))


def merge_adjacent_intervals(
    sorted_intervals: Iterable[CoverageInterval],
) -> Iterator[CoverageInterval]:
    """Merge adjacent intervals with the same level, endpoint and auditor.

    A merged interval has the newest `audited_at` of its parts.
    """
    merged_interval: CoverageInterval | None = None
    for interval in sorted_intervals:
        if merged_interval is not None and _build_merge_key(interval) == _build_merge_key(
            merged_interval
        ):
            audited_at = max(merged_interval.audited_at or 0, interval.audited_at or 0)
            merged_interval = replace(
                merged_interval,
                last=interval.last,
                audited_at=None if interval.audited_by is None else audited_at,
            )
            continue
        if merged_interval is not None:
            yield merged_interval
        merged_interval = interval
    if merged_interval is not None:
        yield merged_interval


def _build_merge_key(interval: CoverageInterval) -> tuple[VerificationLevel, str, str | None]:
    return interval.level, interval.endpoint, interval.audited_by
