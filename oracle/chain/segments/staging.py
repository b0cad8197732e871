"""Stores finished segments as files, so that they survive a crash before they are committed.

A file contains an order, its answer, and their sha256; an invalid file is deleted. Its content is
trusted no more than an answer that has just arrived. See docs/explanation/segments.md#staging.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from oracle.chain.segments.order import SegmentOrder

_SUFFIX, _HALF = ".segment", ".half"
_DIGEST = 32
_MOST_BYTES = 256 * 2**20


class StagedSegment(msgspec.Struct, frozen=True, array_like=True):
    """An order and its encoded answer."""

    order: SegmentOrder
    given: bytes


_DECODER = msgspec.msgpack.Decoder(StagedSegment)


@dataclass(slots=True)
class SegmentStage:
    """The files of one plan in a folder of its own, which is created when first needed."""

    folder: Path
    plan: bytes
    most_bytes: int = _MOST_BYTES
    # By first block: the last block, and the size of the file.
    _kept: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Load the index of an earlier run; delete files of another plan, and invalid ones."""
        for half in self.folder.glob(f"*{_HALF}"):
            half.unlink(missing_ok=True)
        for path in self.folder.glob(f"*{_SUFFIX}"):
            found = _read(path)
            if found is None or found.order.plan != self.plan:
                path.unlink(missing_ok=True)
                continue
            self._kept[found.order.first] = found.order.last, path.stat().st_size

    def keep(self, order: SegmentOrder, given: bytes) -> None:
        """Store an answer that waits to be committed; skip it if there is no room or no disk."""
        body = msgspec.msgpack.encode(StagedSegment(order, given))
        content = body + hashlib.sha256(body).digest()
        if sum(size for _, size in self._kept.values()) + len(content) > self.most_bytes:
            return
        path = self._path(order.first)
        half = path.with_suffix(_HALF)
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            half.write_bytes(content)
            # No fsync: the digest detects a truncated file.
            half.replace(path)
        except OSError:
            half.unlink(missing_ok=True)
            return
        self._kept[order.first] = order.last, len(content)

    def take(self, first: int, last: int) -> StagedSegment | None:
        """Return the segment that begins at `first_block` and ends at `last_block` or before."""
        if first not in self._kept or self._kept[first][0] > last:
            return None
        return _read(self._path(first))

    def discard_below(self, first: int) -> None:
        """Delete segments that begin below this block: they were committed."""
        for number in [number for number in self._kept if number < first]:
            self.discard(number)

    def discard(self, first: int) -> None:
        """Delete the segment that begins at this block."""
        if self._kept.pop(first, None) is not None:
            self._path(first).unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete all segments: they may not continue the stored chain."""
        for first in list(self._kept):
            self.discard(first)

    def _path(self, first: int) -> Path:
        return self.folder / f"{first}{_SUFFIX}"


def _read(path: Path) -> StagedSegment | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        return None
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError:
        return None
