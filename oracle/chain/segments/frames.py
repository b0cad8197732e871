"""The pipe protocol of writer and worker: four bytes of length, then the content."""

from typing import BinaryIO

import msgspec
from typing_extensions import override

from oracle.chain.segments.order import SegmentOrder, SegmentPlan

# Far more than any window of logs; a larger length is invalid.
MOST_FRAME = 1 << 30
_LENGTH = 4

_ORDER = msgspec.msgpack.Decoder(SegmentOrder)


class Opening(msgspec.Struct, frozen=True):
    """The first message to a worker. The URLs may hold keys, so they are sent only this way."""

    plan: SegmentPlan
    urls: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        return f"Opening({self.plan!r})"


_OPENING = msgspec.msgpack.Decoder(Opening)


class FrameError(Exception):
    """The input is not a valid frame."""


def frame_of(given: SegmentOrder | Opening) -> bytes:
    """Encode the content of a frame."""
    return msgspec.msgpack.encode(given)


def opening_of(given: bytes) -> Opening:
    """Decode the first message. Raises msgspec.DecodeError: it is invalid."""
    return _OPENING.decode(given)


def order_of(given: bytes) -> SegmentOrder:
    """Decode an order. Raises msgspec.DecodeError: it is invalid."""
    return _ORDER.decode(given)


def write_frame(to: BinaryIO, content: bytes) -> None:
    """Write one frame and flush it. Raises OSError: the reader is gone."""
    to.write(len(content).to_bytes(_LENGTH))
    to.write(content)
    to.flush()


def read_frame(source: BinaryIO, most: int) -> bytes | None:
    """Read the next frame; return None at the end of the stream, as after the other side has died.

    Raises:
        FrameError: the frame is truncated, or has more than `max_bytes` bytes.
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
