"""The pipe protocol of writer and worker: four bytes of length, then the content."""

from typing import BinaryIO

import msgspec
from typing_extensions import override

from oracle.chain.segments.segment_request import SegmentPlan, SegmentRequest

# Far more than any window of logs; a larger length is invalid.
MAX_FRAME_BYTES = 1 << 30
_LENGTH_BYTES = 4

_ORDER_DECODER = msgspec.msgpack.Decoder(SegmentRequest)


class WorkerSetup(msgspec.Struct, frozen=True):
    """The first message to a worker. URLs may contain keys, so they are sent only this way."""

    plan: SegmentPlan
    urls: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        return f"WorkerSetup({self.plan!r})"


_SETUP_DECODER = msgspec.msgpack.Decoder(WorkerSetup)


class FrameError(Exception):
    """The input is not a valid frame."""


def encode_frame(message: SegmentRequest | WorkerSetup) -> bytes:
    """Encode the content of a frame."""
    return msgspec.msgpack.encode(message)


def decode_setup(content: bytes) -> WorkerSetup:
    """Decode the first message. Raises msgspec.DecodeError if it is invalid."""
    return _SETUP_DECODER.decode(content)


def decode_request(content: bytes) -> SegmentRequest:
    """Decode a request. Raises msgspec.DecodeError if it is invalid."""
    return _ORDER_DECODER.decode(content)


def write_frame(stream: BinaryIO, content: bytes) -> None:
    """Write one frame and flush it. Raises OSError if the reader is gone."""
    stream.write(len(content).to_bytes(_LENGTH_BYTES))
    stream.write(content)
    stream.flush()


def read_frame(stream: BinaryIO, max_bytes: int) -> bytes | None:
    """Return the next frame, or None at the end of the stream, when the other process has ended.

    Raises:
        FrameError: the frame is truncated, or has more than `max_bytes` bytes.
    """
    length_bytes = stream.read(_LENGTH_BYTES)
    if not length_bytes:
        return None
    length = int.from_bytes(length_bytes)
    if len(length_bytes) < _LENGTH_BYTES or length > max_bytes:
        raise FrameError("the length of a frame is truncated or too large")
    content = stream.read(length)
    if len(content) < length:
        raise FrameError("a frame is truncated")
    return content
