"""What the model knows of an oracle, in plain Python; and the two shapes that reports come in."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from eth_utils.crypto import keccak

from tests.contracts.fuzz.signing import Domain

BEST_LANE = 10_002
ZERO_QOS = 2
LANES = 16
RECORD = 35
NEAR, FAR = 256, 8191
ARBITRUM_AHEAD = 1_000_000
# Rounds whose digests a kickout may be signed on.
RECENT = 16


class Limits(NamedTuple):
    """In the contract's order."""

    max_step: int
    max_words: int
    min_interval: int
    anchor_window: int
    max_age: int
    kick_below: int
    veto_delay: int
    kick_rounds: int
    kick_window: int
    max_kicks: int
    min_active: int


class Bucket(NamedTuple):
    """In the contract's order."""

    most: int
    left: int
    per_frame: int
    frame: int
    since: int

    def at(self, now: int) -> "Bucket":
        frames = (now - self.since) // self.frame
        left = min(self.left + frames * self.per_frame, self.most)
        return self._replace(left=left, since=self.since + frames * self.frame)


class Kick(NamedTuple):
    """In the contract's order."""

    ready_at: int = 0
    dies_at: int = 0
    round: int = 0
    is_live: bool = False
    evidence: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """What never changes in a walk: addresses, and what kind of chain this is."""

    oracle: int
    network: int
    is_arbitrum: bool
    has_history: bool

    @property
    def domain(self) -> Domain:
        return Domain(1, self.oracle)

    @property
    def ahead(self) -> int:
        """How far the numbers that the oracle goes by are ahead of the EVM's."""
        return ARBITRUM_AHEAD if self.is_arbitrum else 0

    @property
    def farthest(self) -> int:
        return NEAR if self.is_arbitrum else FAR

    def hash_of(self, number: int, newest: int) -> int:
        """What a contract in block `newest` finds; 0: nothing."""
        back = newest - number
        if not 0 < back <= (FAR if self.has_history and not self.is_arbitrum else NEAR):
            return 0
        return int.from_bytes(true_hash(number, is_arbitrum=self.is_arbitrum))


def true_hash(number: int, *, is_arbitrum: bool) -> bytes:
    if not is_arbitrum:
        return keccak(text=str(number))
    head = (64).to_bytes(32) + number.to_bytes(32)
    return keccak(head + (8).to_bytes(32) + b"arbitrum".ljust(32, b"\0"))


@dataclass
class State:
    """Everything that an oracle and its network remember, with the block they stand in."""

    limits: Limits
    bucket: Bucket
    admin: int
    pauser: int
    vetoer: int
    signers: tuple[int, ...]
    quorum: int
    rules: int
    rules_hash: int
    number: int
    time: int
    pending_admin: int = 0
    round: int = 0
    as_of: int = 0
    pushed_at: int = 0
    paused_until: int = 0
    kicks_paused: bool = False
    # Digest of each accepted report; round 0 has none.
    reports: tuple[int, ...] = (0,)
    counted: tuple[int, int] = (0, 0)
    words: dict[int, int] = field(default_factory=dict)
    nodes: list[int] = field(default_factory=list)
    index_of: dict[int, int] = field(default_factory=dict)
    kicks: dict[int, Kick] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    active: int = 0
    refuses: bool = False

    def lane(self, index: int) -> int:
        return self.words.get(index // LANES, 0) >> 16 * (index % LANES) & 0xFFFF

    def is_member(self, index: int) -> bool:
        """The index was given, its node has taken no newer one, and is in the network."""
        node = self.nodes[index] if index < len(self.nodes) else 0
        return node != 0 and self.index_of[node] == index and node in self.members

    def is_low(self, index: int) -> bool:
        return 0 < self.lane(index) < self.limits.kick_below + ZERO_QOS

    def kick(self, index: int) -> Kick:
        return self.kicks.get(index, Kick())

    @property
    def last_report(self) -> int:
        return self.reports[-1]

    def is_recent(self, round_: int) -> bool:
        """One of the last rounds: a kickout may be signed on it."""
        return max(self.round - RECENT, 0) < round_ <= self.round

    @property
    def is_fresh(self) -> bool:
        return self.time - self.pushed_at <= self.limits.max_age


def lanes_of(word: int) -> list[int]:
    return [word >> 16 * place & 0xFFFF for place in range(LANES)]


def records_in(records: bytes) -> Iterator[tuple[int, int]]:
    """Word index and word of each whole record."""
    for at in range(0, len(records) - RECORD + 1, RECORD):
        one = records[at : at + RECORD]
        yield int.from_bytes(one[:3]), int.from_bytes(one[3:])
