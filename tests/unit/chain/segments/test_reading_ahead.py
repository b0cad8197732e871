"""Prefetched windows: which are fetched again after one of them failed."""

from collections import Counter
from threading import Lock

import pytest

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.segments.segment_queue import DEFAULT_DEPTH, SegmentQueue
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Hash
from oracle.errors import InputError, OracleError, TransientError

LAST = 99
HASH = Hash("0x" + "00" * 32)


class Fetching:
    """Fetches windows of ten blocks; a window that begins at a block of `failing` fails once."""

    def __init__(self, failing: dict[int, OracleError]) -> None:
        self.failing = failing
        self.fetched: Counter[int] = Counter()
        self._lock = Lock()
        self.ahead = SegmentQueue(self._fetch, self._cut)

    def _cut(self, blocks: BlockRange) -> BlockRange:
        return BlockRange(blocks.first, min(blocks.last, blocks.first + 9))

    def _fetch(self, part: BlockRange) -> BlockWindow:
        with self._lock:
            self.fetched[part.first] += 1
            failure = self.failing.pop(part.first, None)
        if failure is not None:
            raise failure
        return BlockWindow(part, HASH, BlockRef(part.last, HASH, HASH, 0), [], [], [])

    def take(self, first: int) -> int:
        return self.ahead.take_window(BlockRange(first, LAST)).range.first


def test_failed_window_does_not_discard_prefetched_windows():
    fetching = Fetching({20: TransientError("no connection")})
    first_blocks = [fetching.take(0), fetching.take(10)]
    with pytest.raises(TransientError):
        fetching.take(20)

    first_blocks += [fetching.take(first) for first in range(20, 100, 10)]

    assert first_blocks == list(range(0, 100, 10))
    assert fetching.fetched == {first: 1 + (first == 20) for first in first_blocks}


def test_repeated_failure_does_not_refetch_other_windows():
    fetching = Fetching({0: TransientError("no connection")})
    for _ in range(3):
        with pytest.raises(TransientError):
            fetching.take(0)
        fetching.failing[0] = TransientError("no connection")

    assert fetching.fetched[0] == 3
    assert {count for first, count in fetching.fetched.items() if first} == {1}
    assert len(fetching.fetched) <= DEFAULT_DEPTH + 1


def test_another_window_can_be_requested_after_a_failure():
    fetching = Fetching({0: TransientError("no connection")})
    with pytest.raises(TransientError):
        fetching.take(0)

    assert fetching.take(5) == 5


def test_permanent_error_discards_prefetched_windows():
    fetching = Fetching({0: InputError("another chain")})
    with pytest.raises(InputError):
        fetching.take(0)

    fetching.take(0)

    assert fetching.fetched[10] == 2
