"""Messages to workers: requests to prepare a range of blocks, and the plan that they share.

Messages contain plain values only, so that they can be serialised, and no URL, key or token.
See docs/explanation/segments.md#request.
"""

import hashlib

import msgspec

from oracle import __version__
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.profiles.profile import Literal
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.coverage import VerificationLevel
from oracle.errors import InputError

# Learned facts of each endpoint, by its shown name, and of the chain, under an empty name; in the
# format of a CapabilityStore.
FactsByEndpoint = dict[str, dict[str, str]]


class SegmentPlan(msgspec.Struct, frozen=True):
    """The configuration with which every range of a run is read; `identity` is the profile's."""

    chain_id: int
    profile: str
    contracts: dict[str, str]
    oracle: str | None
    options: dict[str, Literal]
    identity: str
    # See VerificationPolicy; workers prepare history only, not the head.
    history: int
    receipts: bool
    every_header: bool
    most_bytes: int
    version: str = __version__

    @property
    def id(self) -> bytes:
        """A 32-byte hash that changes with everything that affects the content of a segment."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).digest()

    @property
    def policy(self) -> VerificationPolicy:
        """The verification policy of history."""
        return VerificationPolicy(
            history=VerificationLevel(self.history),
            receipts=self.receipts,
            every_header=self.every_header,
        )

    def open_reader(self) -> EventReader:
        """Return the log reader. Raises InputError if this version reads the profile otherwise."""
        reader = EventReader.from_profile(self.profile, self.contracts, self.oracle, self.options)
        if (self.version, self.identity) != (__version__, reader.identity):
            raise InputError(
                f"{self.profile}: version {self.version} of the writer reads the profile "
                f"differently than version {__version__} of the worker"
            )
        return reader


class WriterState(msgspec.Struct, frozen=True):
    """The writer's facts about the chain and its endpoints when it creates a request.

    `checkpoints` has number, hash and source of the blocks that every endpoint must show. The maps
    have the highest block, the largest batch and the provider of each endpoint.
    """

    facts: FactsByEndpoint
    checkpoints: tuple[tuple[int, str, str], ...] = ()
    highest: dict[str, int] = {}
    batches: dict[str, int] = {}
    providers: dict[str, str] = {}


class SegmentRequest(msgspec.Struct, frozen=True):
    """The request to prepare blocks `first` to `last` from `endpoint`; its `number` is unique.

    `rate` is the number of calls per second that the worker may send, or None for no limit.
    `level` is the level to verify up to, as in `ChainReader.fetch_verified_window`, or None to
    verify the blocks like any history.
    """

    plan: bytes
    number: int
    first: int
    last: int
    endpoint: str
    writer_state: WriterState
    rate: float | None = None
    level: int | None = None
