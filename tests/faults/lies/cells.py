"""The cells of the matrix: the lie, the other endpoints, and the headers of the chain."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import block_faults, log_faults
from devnet.fakechain.faults.forging import Depth
from tests.faults.lies.chains import BUSY
from tests.faults.lies.lies import LIES


class EndpointSet(StrEnum):
    """The configured endpoints: the liar alone, or the liar and an honest endpoint in this order.

    `OUTNUMBERED`: two liars with the same lie, and an honest endpoint that does not respond.
    `MAJORITY`: two liars with the same lie, and an honest endpoint.
    """

    ALONE = "alone"
    FIRST = "first"
    SECOND = "second"
    OUTNUMBERED = "outnumbered"
    MAJORITY = "majority"


class Headers(StrEnum):
    """How far the headers of the chain can be trusted, at every endpoint."""

    TRUE = "true headers"
    ZERO_BLOOMS = "zero blooms"
    MADE_UP_ROOTS = "made-up roots"
    WORTHLESS = "zero blooms and made-up roots"

    def faults(self) -> list[InjectedFault]:
        """Return the faults that turn true headers into these headers."""
        header_faults = []
        if self in {Headers.ZERO_BLOOMS, Headers.WORTHLESS}:
            header_faults.append(block_faults.build_zero_bloom_fault())
        if self in {Headers.MADE_UP_ROOTS, Headers.WORTHLESS}:
            made_up = dict.fromkeys(("receiptsRoot", "transactionsRoot"), "0x" + "00" * 32)
            header_faults.append(block_faults.build_changed_header_fault(made_up, "made-up roots"))
        return header_faults


class Place(StrEnum):
    """The blocks that are lied about."""

    EARLY = "early blocks"
    LATE = "late blocks"
    HEAD = "the head"
    ALL = "all blocks"
    # The newest blocks are empty, so the samples that calibrate trust are among the blocks read.
    BEFORE_PROOF = "before calibration"

    @property
    def blocks(self) -> tuple[int, int]:
        """The first and the last of the blocks."""
        return _BLOCKS[self]


_BLOCKS = {
    Place.EARLY: (8, 24),
    Place.LATE: (70, 94),
    Place.HEAD: (BUSY - 4, BUSY),
    Place.ALL: (1, BUSY),
    Place.BEFORE_PROOF: (2, 20),
}


class Timing(StrEnum):
    """The times at which the liar lies."""

    ALWAYS = "always"
    # The liar then becomes honest, so a second request gets another response.
    AT_FIRST = "at first"
    # The liar is honest for the first responses.
    LATER = "later"
    EVERY_SECOND = "every second time"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell.

    `lie` is one of LIES, or `cap N`: at most N logs in a response, without an error.
    """

    lie: str
    endpoint_set: EndpointSet
    headers: Headers
    depth: Depth = Depth.ANSWERS
    place: Place = Place.EARLY
    profile: str = "crynux-vss"
    timing: Timing = Timing.ALWAYS
    seed: int = 1

    @property
    def name(self) -> str:
        """The cell's name as a test parameter."""
        parts = (
            self.lie,
            self.depth.name.lower(),
            self.place,
            self.timing,
            self.endpoint_set,
            self.headers,
            self.profile,
            self.seed,
        )
        return "-".join(str(part).replace(" ", "_") for part in parts)

    def cap(self) -> InjectedFault | None:
        """Return the fault that truncates responses, if this is the lie, else None."""
        kind, _, max_logs = self.lie.partition(" ")
        return log_faults.build_capped_logs_fault(int(max_logs)) if kind == "cap" else None


OF_CALLS = ("value", "status", "from")
MARKS = ("transaction index", "transaction hash", "removed")
CAPS = ("cap 2", "cap 50")


# Header, receipts and logs of one endpoint agree on a transaction hash that no root covers. Where
# only logs are read, nothing proves the hash, and nothing is folded from it (decision 0139).
_UNPROVABLE = ("transaction hash", "reference")


def list_depths(lie: str, profile: str) -> Iterator[Depth]:
    """Yield the depths of a lie, without those that equal a shallower depth."""
    if lie == "honest" or lie in CAPS or (lie, profile) == _UNPROVABLE:
        yield Depth.ANSWERS
    elif lie in MARKS:
        yield from (Depth.ANSWERS, Depth.RECEIPTS)
    elif lie in {"value", "status"}:
        yield from (Depth.ANSWERS, Depth.HEADERS, Depth.BLOCKS, Depth.CHAIN)
    else:
        yield from Depth


def list_lies(profile: str) -> list[str]:
    """Return the lies that affect an index of this profile."""
    return [lie for lie in (*LIES, *CAPS) if profile != "reference" or lie not in OF_CALLS]
