"""Segments that are ready and not due yet survive a crash of the writer, as files.

A file is an order and its answer, and their sha256: it is taken up whole or thrown away. It is
believed no further than an answer that has just come. See docs/explanation/segments.md#staging.
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
    """What was ordered, and what came of it."""

    order: SegmentOrder
    given: bytes


_DECODER = msgspec.msgpack.Decoder(StagedSegment)


@dataclass(slots=True)
class SegmentStage:
    """One plan's files in a folder that nobody else uses; made when it is first needed."""

    folder: Path
    plan: bytes
    most_bytes: int = _MOST_BYTES
    # By their first block: the last one, and how large the file is.
    _kept: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """See what an earlier run has left; of another plan, and torn ones, nothing stays."""
        for half in self.folder.glob(f"*{_HALF}"):
            half.unlink(missing_ok=True)
        for path in self.folder.glob(f"*{_SUFFIX}"):
            found = _read(path)
            if found is None or found.order.plan != self.plan:
                path.unlink(missing_ok=True)
                continue
            self._kept[found.order.first] = found.order.last, path.stat().st_size

    def keep(self, order: SegmentOrder, given: bytes) -> None:
        """Write an answer down that waits for its turn; without room, or a disk, it is not."""
        body = msgspec.msgpack.encode(StagedSegment(order, given))
        content = body + hashlib.sha256(body).digest()
        if sum(size for _, size in self._kept.values()) + len(content) > self.most_bytes:
            return
        path = self._path(order.first)
        half = path.with_suffix(_HALF)
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            half.write_bytes(content)
            # Without fsync: the digest tells a torn one.
            half.replace(path)
        except OSError:
            half.unlink(missing_ok=True)
            return
        self._kept[order.first] = order.last, len(content)

    def take(self, first: int, last: int) -> StagedSegment | None:
        """Return what begins at this block and ends at `last` at most; None: there is nothing."""
        if first not in self._kept or self._kept[first][0] > last:
            return None
        return _read(self._path(first))

    def discard_below(self, first: int) -> None:
        """Throw away what begins below this block: it was taken in."""
        for number in [number for number in self._kept if number < first]:
            self.discard(number)

    def discard(self, first: int) -> None:
        """Throw away what begins at this block."""
        if self._kept.pop(first, None) is not None:
            self._path(first).unlink(missing_ok=True)

    def clear(self) -> None:
        """Throw everything away: it is not known to continue what is stored."""
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
