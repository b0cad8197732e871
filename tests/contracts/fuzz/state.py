"""What the model knows of an oracle, in plain Python; and the two shapes that reports come in."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from eth_utils.crypto import keccak

from tests.contracts.fuzz.chain_kinds import ARBITRUM_AHEAD, FAR, NEAR, find_block_hash
from tests.contracts.fuzz.limits import KickLimits, Limits
from tests.contracts.fuzz.signing import Domain

BEST_LANE = 10_002
ZERO_QOS = 2
LANES = 16
COUNTS, ADDRESS, RECORD = 4, 20, 35
# Rounds whose digests a kickout may be signed on.
RECENT = 16
# So many lanes may fall in any round.
ALWAYS = 4
NONE, PENDING, EXPELLED, REFUSED = range(4)


class Slot(NamedTuple):
    """What is kept of an address, in the contract's order."""

    index_plus_one: int = 0
    kick: int = NONE
    ready_at: int = 0
    dies_at: int = 0
    expelled_until: int = 0
    round: int = 0
    config: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """What never changes in a walk: addresses, floors, and what kind of chain this is."""

    oracle: int
    network: int
    floors: Limits
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
        kind = {"is_arbitrum": self.is_arbitrum, "has_history": self.has_history}
        return find_block_hash(number, newest, **kind)


@dataclass
class State:
    """Everything that an oracle and its network remember, with the block they stand in.

    `reports`: the digest of each accepted report; round 0 has none. `holders`: who has each index.
    """

    limits: Limits
    kick_limits: KickLimits
    bucket: tuple[int, int]
    admin: int
    pauser: int
    vetoer: int
    target: int
    signers: tuple[int, ...]
    quorum: int
    rules_hash: int
    number: int
    time: int
    config: int = 1
    pending_admin: int = 0
    round: int = 0
    as_of: int = 0
    pushed_at: int = 0
    paused_until: int = 0
    held: int = 0
    pause: int = 0
    pause_holds: bool = False
    kicks_paused: bool = False
    reports: tuple[int, ...] = (0,)
    counted: tuple[int, int] = (0, 0)
    words: dict[int, int] = field(default_factory=dict)
    holders: list[int] = field(default_factory=list)
    slots: dict[int, Slot] = field(default_factory=dict)
    evidence: dict[int, int] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    refuses: bool = False

    def lane(self, index: int) -> int:
        return self.words.get(index // LANES, 0) >> 16 * (index % LANES) & 0xFFFF

    def slot(self, node: int) -> Slot:
        return self.slots.get(node, Slot())

    def lane_of(self, node: int) -> int:
        """0: it has no index."""
        held = self.slot(node).index_plus_one
        return self.lane(held - 1) if held else 0

    def is_low(self, node: int) -> bool:
        return 0 < self.lane_of(node) < self.limits.kick_below + ZERO_QOS

    def is_expelled(self, node: int) -> bool:
        slot = self.slot(node)
        return slot.kick in {EXPELLED, REFUSED} and self.time < slot.expelled_until

    def is_pending(self, node: int) -> bool:
        """Proposed, and neither too late nor of another configuration."""
        slot = self.slot(node)
        return slot.kick == PENDING and self.time <= slot.dies_at and slot.config == self.config

    @property
    def open_count(self) -> int:
        return sum(lane >= ZERO_QOS for word in self.words.values() for lane in lanes_of(word))

    @property
    def last_report(self) -> int:
        return self.reports[-1]

    @property
    def in_bucket(self) -> tuple[int, int]:
        return self.kick_limits.refilled(*self.bucket, self.time)

    def is_recent(self, round_: int) -> bool:
        """One of the last rounds: a kickout may be signed on it."""
        return max(self.round - RECENT, 0) < round_ <= self.round

    @property
    def is_fresh(self) -> bool:
        return self.time <= self.pushed_at + self.limits.max_age + self.held

    def config_digest(self, place: Place) -> int:
        head = (1, place.oracle, self.config, 6 * 32, self.quorum, self.rules_hash)
        words = (*head, len(self.signers), *self.signers)
        return int.from_bytes(keccak(b"".join(word.to_bytes(32) for word in words)))


def lanes_of(word: int) -> list[int]:
    return [word >> 16 * place & 0xFFFF for place in range(LANES)]


class Data(NamedTuple):
    """The data of a report, taken apart; `reused`: who takes an index, and who has it."""

    reused: tuple[tuple[int, int], ...]
    fresh: tuple[int, ...]
    records: bytes

    @property
    def words(self) -> Iterator[tuple[int, int]]:
        """Word index and word of each whole record."""
        for at in range(0, len(self.records) - RECORD + 1, RECORD):
            record = self.records[at : at + RECORD]
            yield int.from_bytes(record[:3]), int.from_bytes(record[3:])

    @property
    def raw(self) -> bytes:
        addresses = (*(who for pair in self.reused for who in pair), *self.fresh)
        counts = len(self.reused).to_bytes(2) + len(self.fresh).to_bytes(2)
        return counts + b"".join(who.to_bytes(20) for who in addresses) + self.records


def taken_apart(raw: bytes) -> Data | None:
    """None: the counts or the addresses that they promise are not all there."""
    reused, fresh = int.from_bytes(raw[:2]), int.from_bytes(raw[2:4])
    end = COUNTS + ADDRESS * (2 * reused + fresh)
    if len(raw) < max(end, COUNTS):
        return None
    who = [int.from_bytes(raw[at : at + ADDRESS]) for at in range(COUNTS, end, ADDRESS)]
    pairs = tuple(zip(who[: 2 * reused : 2], who[1 : 2 * reused : 2], strict=True))
    return Data(pairs, tuple(who[2 * reused :]), raw[end:])
