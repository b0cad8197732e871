"""Messages to workers: requests to prepare a block range, and the plan they share.

Messages contain only plain values, so that they can be serialised. They contain no URL, key or
token, except that the first message in a pipe contains the URLs of the endpoints. A frame in a
pipe consists of a length (four bytes) and the content. See docs/explanation/segments.md#request.
"""

import hashlib
from typing import BinaryIO

import msgspec
from typing_extensions import override

from oracle import __version__
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.profiles.profile import Literal
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.coverage import VerificationLevel
from oracle.errors import InputError

# Learned facts by endpoint name, in the format of a CapabilityStore; facts about the chain have
# the name "".
FactsByEndpoint = dict[str, dict[str, str]]

_DIGEST_BYTES = 32


def append_digest(body: bytes) -> bytes:
    """Append the SHA-256 of the content, for `strip_digest` to check."""
    return body + hashlib.sha256(body).digest()


def strip_digest(content: bytes) -> bytes | None:
    """Check and remove the SHA-256 at the end of the content.

    The result is None if the content is truncated or corrupted.
    """
    content_without_digest = content[:-_DIGEST_BYTES]
    digest = content[-_DIGEST_BYTES:]
    return (
        content_without_digest
        if hashlib.sha256(content_without_digest).digest() == digest
        else None
    )


class SegmentPlan(msgspec.Struct, frozen=True):
    """The configuration with which every range of a run is read.

    `identity` is the identity of the profile.
    """

    chain_id: int
    profile: str
    contracts: dict[str, str]
    oracle: str | None
    options: dict[str, Literal]
    identity: str
    # These fields are as in VerificationPolicy. Its field for the head is missing here, because
    # workers prepare only history.
    history: int
    receipts: bool
    every_header: bool
    most_bytes: int
    timelock: str | None = None
    objections: str | None = None
    version: str = __version__

    @property
    def id(self) -> bytes:
        """A 32-byte hash of everything that affects the content of a segment."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).digest()

    @property
    def policy(self) -> VerificationPolicy:
        """The verification policy for history."""
        return VerificationPolicy(
            history=VerificationLevel(self.history),
            receipts=self.receipts,
            every_header=self.every_header,
        )

    def open_reader(self) -> EventReader:
        """Create the log reader of the plan.

        Raises:
            InputError: the profile has another identity in this version than in the writer's
            version.
        """
        reader = EventReader.from_profile(
            self.profile,
            self.contracts,
            self.oracle,
            self.options,
            self.timelock,
            self.objections,
        )
        if (self.version, self.identity) != (__version__, reader.identity):
            raise InputError(
                f"{self.profile}: version {self.version} of the writer reads the profile "
                f"differently than version {__version__} of the worker"
            )
        return reader


class WriterState(msgspec.Struct, frozen=True):
    """The writer's view of the chain and its endpoints at the time of a request.

    `checkpoints` are the number, the hash and the source of each block that every endpoint must
    have. `highest`, `batches` and `providers` contain the highest block, the largest batch and the
    provider of each endpoint.
    """

    facts: FactsByEndpoint
    checkpoints: tuple[tuple[int, str, str], ...] = ()
    highest: dict[str, int] = {}
    batches: dict[str, int] = {}
    providers: dict[str, str] = {}


class SegmentRequest(msgspec.Struct, frozen=True):
    """The request to prepare blocks `first` to `last` from `endpoint`.

    Its `number` is unique. `rate` is the number of calls per second that the worker may send, or
    None for no limit. `level` is the level to verify up to, as in
    `ChainSource.fetch_verified_window`, or None to verify the blocks like any history.
    """

    plan: bytes
    number: int
    first: int
    last: int
    endpoint: str
    writer_state: WriterState
    rate: float | None = None
    level: int | None = None


# A greater length is invalid, because windows of logs are far smaller.
MAX_FRAME_BYTES = 1 << 30
_LENGTH_BYTES = 4

_ORDER_DECODER = msgspec.msgpack.Decoder(SegmentRequest)


class WorkerSetup(msgspec.Struct, frozen=True):
    """The first message to a worker, and the only one with URLs.

    URLs may contain keys.
    """

    plan: SegmentPlan
    urls: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        return f"WorkerSetup({self.plan!r})"


_SETUP_DECODER = msgspec.msgpack.Decoder(WorkerSetup)


class FrameError(Exception):
    """The input is not a valid frame."""


def encode_frame(message: SegmentRequest | WorkerSetup) -> bytes:
    return msgspec.msgpack.encode(message)


def decode_setup(content: bytes) -> WorkerSetup:
    """Decode the first message to a worker.

    Raises msgspec.DecodeError if it is invalid.
    """
    return _SETUP_DECODER.decode(content)


def decode_request(content: bytes) -> SegmentRequest:
    """Decode a request.

    Raises msgspec.DecodeError if it is invalid.
    """
    return _ORDER_DECODER.decode(content)


def write_frame(stream: BinaryIO, content: bytes) -> None:
    """Write one frame and flush the stream.

    Raises OSError if the reader is gone.
    """
    stream.write(len(content).to_bytes(_LENGTH_BYTES))
    stream.write(content)
    stream.flush()


def read_frame(stream: BinaryIO, max_bytes: int) -> bytes | None:
    """Read the next frame, or return None if the other process has ended.

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
