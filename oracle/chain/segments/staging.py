"""Stores finished segments as files, to survive a crash before they are committed.

A file contains a request, its answer, and the sha256 of both. An invalid file is deleted. The
content of a file is validated like a new answer. See docs/explanation/segments.md#staging.
"""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from oracle.chain.segments.segment_request import SegmentRequest, append_digest, strip_digest

_SEGMENT_SUFFIX, _TEMPORARY_SUFFIX = ".segment", ".half"
_MAX_BYTES = 256 * 2**20


class StagedSegment(msgspec.Struct, frozen=True, array_like=True):
    """A request and its encoded answer."""

    request: SegmentRequest
    answer: bytes


_DECODER = msgspec.msgpack.Decoder(StagedSegment)


@dataclass(slots=True)
class SegmentStage:
    """The stored segments of one plan.

    Their folder is created when first needed.
    """

    folder: Path
    plan: bytes
    max_bytes: int = _MAX_BYTES
    # For each range, keyed by its first block: the last block and the file size.
    _last_and_size_by_first: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Load the index of an earlier run, and delete files that cannot be used.

        These are invalid files and files of another plan.
        """
        for temporary_path in self.folder.glob(f"*{_TEMPORARY_SUFFIX}"):
            temporary_path.unlink(missing_ok=True)
        for path in self.folder.glob(f"*{_SEGMENT_SUFFIX}"):
            staged_segment = _read_staged_segment(path)
            if staged_segment is None or staged_segment.request.plan != self.plan:
                path.unlink(missing_ok=True)
                continue
            self._last_and_size_by_first[staged_segment.request.first] = (
                staged_segment.request.last,
                path.stat().st_size,
            )

    def store_answer(self, request: SegmentRequest, answer: bytes) -> None:
        """Store an answer until it is committed, unless the stage or the disk is full."""
        content = append_digest(msgspec.msgpack.encode(StagedSegment(request, answer)))
        if (
            sum(size for _, size in self._last_and_size_by_first.values()) + len(content)
            > self.max_bytes
        ):
            return
        path = self._build_path(request.first)
        temporary_path = path.with_suffix(_TEMPORARY_SUFFIX)
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            temporary_path.write_bytes(content)
            # There is no fsync, because the digest reveals a truncated file.
            temporary_path.replace(path)
        except OSError:
            temporary_path.unlink(missing_ok=True)
            return
        self._last_and_size_by_first[request.first] = request.last, len(content)

    def load_segment(self, first_block: int, last_block: int) -> StagedSegment | None:
        """Load the segment that begins at `first_block` and ends at or before `last_block`."""
        if (
            first_block not in self._last_and_size_by_first
            or self._last_and_size_by_first[first_block][0] > last_block
        ):
            return None
        return _read_staged_segment(self._build_path(first_block))

    def discard_segments_below(self, first_block: int) -> None:
        """Delete the committed segments, which begin below this block."""
        for staged_block in [
            staged_block
            for staged_block in self._last_and_size_by_first
            if staged_block < first_block
        ]:
            self.discard_segment(staged_block)

    def discard_segment(self, first_block: int) -> None:
        """Delete the segment that begins at this block."""
        if self._last_and_size_by_first.pop(first_block, None) is not None:
            self._build_path(first_block).unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete all segments.

        They may not continue the stored chain.
        """
        for first_block in list(self._last_and_size_by_first):
            self.discard_segment(first_block)

    def _build_path(self, first_block: int) -> Path:
        return self.folder / f"{first_block}{_SEGMENT_SUFFIX}"


def _read_staged_segment(path: Path) -> StagedSegment | None:
    try:
        body = strip_digest(path.read_bytes())
        return None if body is None else _DECODER.decode(body)
    except (OSError, msgspec.DecodeError):
        return None
