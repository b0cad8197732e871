"""The model of an oracle of roots, its modules and its network, in plain Python."""

from dataclasses import dataclass, field
from typing import NamedTuple

from eth_utils.crypto import keccak

from tests.contracts.fuzz.chain_kinds import ARBITRUM_AHEAD, FAR, NEAR, find_block_hash
from tests.contracts.fuzz.limits import DAY, KickLimits
from tests.contracts.fuzz.roots.limits import RootLimits
from tests.contracts.fuzz.roots.trees import ZERO_QOS, Contents, lanes_of
from tests.contracts.fuzz.signing import Domain

NONE, ACCUSED, EXPELLED, REFUSED = range(4)
CHAIN_ID = 1
NEWCOMER = 5_000
ALWAYS_MAY_FALL = 4


class Kick(NamedTuple):
    """The kickout of a node, in the contract's order of fields."""

    state: int = NONE
    due_since: int = 0
    ready_at: int = 0
    expelled_until: int = 0
    spared_until: int = 0
    allowed: int = 0
    round: int = 0


class Counts(NamedTuple):
    """The counters that limit the falls of a day, in the contract's order."""

    day: int = 0
    open: int = 0
    open_at_day_start: int = 0
    open_day_before: int = 0
    falls: int = 0

    def at_day(self, day: int) -> "Counts":
        """Return the counters as they are before a word is written on this day."""
        if day == self.day:
            return self
        is_next = day == self.day + 1
        day_before = self.open_at_day_start if is_next else self.open
        return Counts(day, self.open, self.open, day_before, 0)


@dataclass(frozen=True, slots=True)
class Place:
    """The constants of a walk: addresses, constructor arguments, and the kind of chain."""

    oracle: int
    words: int
    challenge: int
    network: int
    timelock: int
    proposer: int
    floors: RootLimits
    tightest: RootLimits
    kick_floors: KickLimits
    kept: int
    lag: int
    fall_share: int
    big_fall: int
    max_rounds: int
    is_arbitrum: bool
    has_history: bool

    @property
    def domain(self) -> Domain:
        return Domain(CHAIN_ID, self.oracle, b"3")

    @property
    def ahead(self) -> int:
        """Return how far the oracle's block numbers are ahead of the EVM's."""
        return ARBITRUM_AHEAD if self.is_arbitrum else 0

    @property
    def farthest(self) -> int:
        return NEAR if self.is_arbitrum else FAR

    @property
    def contracts(self) -> set[int]:
        """Return the addresses that have code."""
        return {self.oracle, self.words, self.challenge, self.network, self.timelock}

    def hash_of(self, number: int, newest: int) -> int:
        kind = {"is_arbitrum": self.is_arbitrum, "has_history": self.has_history}
        return find_block_hash(number, newest, **kind)


@dataclass
class State:
    """The state of all contracts, with their current block.

    `roots`: of every accepted round, 0 once it is struck; `contents`: the contents of the roots.
    `words`: word and round by index; `seats`: by node; `reasons`: the proven errors of rounds.

    `roots`: of every accepted round, 0 once it is struck; `contents`: what the roots were made
    of. `words`: word and round by index; `seats`: by node; `reasons`: what was proven of rounds.
    """

    limits: RootLimits
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
    round_config: int = 0
    pending_admin: int = 0
    pending_vetoer: int = 0
    offered_from: int = 0
    round: int = 0
    as_of: int = 0
    pushed_at: int = 0
    paused_until: int = 0
    held: int = 0
    pause: int = 0
    pause_holds: bool = False
    kicks_paused: bool = False
    roots: dict[int, int] = field(default_factory=dict)
    contents: dict[int, Contents] = field(default_factory=dict)
    kicks: dict[int, Kick] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    refuses: bool = False
    scheduled: set[int] = field(default_factory=set)
    words: dict[int, tuple[int, int]] = field(default_factory=dict)
    seats: dict[int, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    reasons: dict[int, int] = field(default_factory=dict)

    def kick(self, node: int) -> Kick:
        return self.kicks.get(node, Kick())

    def is_expelled(self, node: int) -> bool:
        kick = self.kick(node)
        return kick.state >= EXPELLED and self.time < kick.expelled_until

    @property
    def last_root(self) -> int:
        """Return the root that the next report must name."""
        return self.roots.get(self.round, 0)

    def root_of(self, place: Place, round_: int) -> bytes | None:
        """Return the root of a kept round that was not struck, else None."""
        if not max(self.round - place.kept, 0) < round_ <= self.round:
            return None
        root = self.roots[round_]
        return root.to_bytes(32) if root else None

    @property
    def in_bucket(self) -> tuple[int, int]:
        return self.kick_limits.refilled(*self.bucket, self.time)

    @property
    def is_fresh(self) -> bool:
        return self.time <= self.pushed_at + self.limits.max_age + self.held

    def config_digest(self, place: Place) -> int:
        head = (CHAIN_ID, place.oracle, self.config, 6 * 32, self.quorum, self.rules_hash)
        words = (*head, len(self.signers), *self.signers)
        return int.from_bytes(keccak(b"".join(word.to_bytes(32) for word in words)))

    # --- the hot set ---

    @property
    def counts_today(self) -> Counts:
        return self.counts.at_day(self.time // DAY)

    def allowed_falls(self, place: Place) -> int:
        share = self.counts_today.open_day_before * place.fall_share // 10_000
        return max(share, ALWAYS_MAY_FALL)

    def word(self, index: int) -> tuple[int, int]:
        """Return a stored word and its round; 0 and 0 if it was never written."""
        return self.words.get(index, (0, 0))

    def lane_and_round(self, node: int) -> tuple[int, int]:
        if node not in self.seats:
            return 0, 0
        seat = self.seats[node]
        word, round_ = self.word(seat // 16)
        return lanes_of(word)[seat % 16], round_


def count_open(word: int) -> int:
    return sum(lane >= ZERO_QOS for lane in lanes_of(word))


def count_falls(before: int, after: int, step: int) -> int:
    """Return how many lanes close, or drop by more than the step;
    0 counts like a newcomer's lane.
    """
    pairs = zip(lanes_of(before), lanes_of(after), strict=True)
    filled = ((old or NEWCOMER + 1, new or NEWCOMER + 1) for old, new in pairs)
    return sum(old > new + step or old >= ZERO_QOS > new for old, new in filled)
