"""What a worker is told: a plan that all orders of a run share, and each order.

Plain values only, so that they travel as bytes; no URL, key or token is among them.
See docs/explanation/segments.md#order.
"""

import hashlib

import msgspec

from oracle import __version__
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.profiles.profile import Literal
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.coverage import Level
from oracle.errors import InputError

# What was learned of each endpoint, by its shown name, and of the chain under no name; as a
# CapabilityStore keeps it.
Facts = dict[str, dict[str, str]]


class SegmentPlan(msgspec.Struct, frozen=True):
    """How every range of a run is read; `identity` is the profile's."""

    chain_id: int
    profile: str
    contracts: dict[str, str]
    oracle: str | None
    options: dict[str, Literal]
    identity: str
    # See VerificationPolicy; of the head nothing is prepared.
    history: int
    receipts: bool
    every_header: bool
    most_bytes: int
    version: str = __version__

    @property
    def id(self) -> bytes:
        """32 bytes that change with anything that decides what a segment says."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).digest()

    @property
    def policy(self) -> VerificationPolicy:
        """How far history is proven."""
        return VerificationPolicy(
            history=Level(self.history), receipts=self.receipts, every_header=self.every_header
        )

    def reader(self) -> EventReader:
        """Return what reads the logs. Raises InputError: the profile is another one here."""
        reader = EventReader.open(self.profile, self.contracts, self.oracle, self.options)
        if (self.version, self.identity) != (__version__, reader.identity):
            raise InputError(f"{self.profile} as read by version {self.version} is not ours")
        return reader


class WriterState(msgspec.Struct, frozen=True):
    """What the writer knows when it gives an order.

    `checkpoints` are number, hash and source of blocks that every endpoint must show; `highest`
    the highest block, `batches` the largest batch and `providers` the provider of each endpoint.
    """

    facts: Facts
    checkpoints: tuple[tuple[int, str, str], ...] = ()
    highest: dict[str, int] = {}
    batches: dict[str, int] = {}
    providers: dict[str, str] = {}


class SegmentOrder(msgspec.Struct, frozen=True):
    """Prepare blocks `first` to `last` from this endpoint; a range ordered twice has two numbers.

    `rate` is how many calls a second this worker may spend; None: nobody has named a limit.
    `level`: read as `ChainReader.verified` does, up to it; None: as history is read.
    """

    plan: bytes
    number: int
    first: int
    last: int
    endpoint: str
    known: WriterState
    rate: float | None = None
    level: int | None = None
