"""How writer and worker speak over a pipe: four bytes of length, then so many of content."""

from typing import BinaryIO

import msgspec
from typing_extensions import override

from oracle.chain.segments.order import SegmentOrder, SegmentPlan

# Far more than a window of the largest answers; above it a length is no length.
MOST_FRAME = 1 << 30
_LENGTH = 4

_ORDER = msgspec.msgpack.Decoder(SegmentOrder)


class Opening(msgspec.Struct, frozen=True):
    """What a worker is opened with. The URLs may hold keys: they go this way, and no other."""

    plan: SegmentPlan
    urls: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        return f"Opening({self.plan!r})"


_OPENING = msgspec.msgpack.Decoder(Opening)


class FrameError(Exception):
    """What came is no frame."""


def frame_of(given: SegmentOrder | Opening) -> bytes:
    """Return the content of a frame."""
    return msgspec.msgpack.encode(given)


def opening_of(given: bytes) -> Opening:
    """Return what `frame_of` was given. Raises msgspec.DecodeError: it is not that."""
    return _OPENING.decode(given)


def order_of(given: bytes) -> SegmentOrder:
    """Return what `frame_of` was given. Raises msgspec.DecodeError: it is not that."""
    return _ORDER.decode(given)


def write_frame(to: BinaryIO, content: bytes) -> None:
    """Write one frame, at once. Raises OSError: nobody reads."""
    to.write(len(content).to_bytes(_LENGTH))
    to.write(content)
    to.flush()


def read_frame(source: BinaryIO, most: int) -> bytes | None:
    """Return the next frame; None: there is none any more, as where the other one has died.

    Raises:
        FrameError: it is cut, or has more than `most` bytes.
    """
    head = source.read(_LENGTH)
    if not head:
        return None
    length = int.from_bytes(head)
    if len(head) < _LENGTH or length > most:
        raise FrameError("not the beginning of a frame")
    content = source.read(length)
    if len(content) < length:
        raise FrameError("the end of a frame is missing")
    return content
