"""The oracle's storage rebuilt from its events and the inputs of pushes, and from nothing else."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from eth_utils.crypto import keccak

from tests.contracts.fuzz.evm import Said
from tests.contracts.fuzz.limits import FOR_EVER, KickLimits, Limits
from tests.contracts.fuzz.seen import Head, Seen, Words
from tests.contracts.fuzz.state import (
    EXPELLED,
    NONE,
    PENDING,
    REFUSED,
    Slot,
    lanes_of,
    taken_apart,
)
from tests.contracts.fuzz.step import Step


@dataclass
class Ledger:
    """What a reader who was never told anything but events would believe."""

    now: int = 0
    round: int = 0
    as_of: int = 0
    pushed_at: int = 0
    paused_until: int = 0
    held: int = 0
    pause: int = 0
    pause_holds: bool = False
    count: int = 0
    quorum: int = 0
    kicks_paused: int = 0
    config_count: int = 0
    config: int = 0
    last_report: int = 0
    # Digest of every accepted report, by round.
    reports: dict[int, int] = field(default_factory=dict)
    rules_hash: int = 0
    offered: int = 0
    target: int = 0
    limits: Limits | None = None
    kick_limits: KickLimits | None = None
    bucket: tuple[int, int] = (0, 0)
    signers: Words = ()
    roles: dict[str, int] = field(default_factory=dict)
    words: dict[int, int] = field(default_factory=dict)
    slots: dict[int, Slot] = field(default_factory=dict)
    evidence: dict[int, int] = field(default_factory=dict)

    def hear(self, events: Iterable[Said], now: int, step: Step | None = None) -> None:
        """Take the events of one transaction in; `step`: whose input it was."""
        self.now = now
        for event in events:
            if event.name == "RoundAccepted":
                assert step is not None
                assert event.words[3] == int.from_bytes(keccak(step.data))
                data = taken_apart(step.data)
                assert data is not None
                self.words |= dict(data.words)
            _RECEIVED.get(event.name, _not_the_oracles)(self, event.words)

    def change(self, node: int, **fields: int) -> None:
        self.slots[node] = self.slots.get(node, Slot())._replace(**fields)

    def seen(self, nodes: Iterable[int]) -> Seen:
        assert self.limits is not None
        assert self.kick_limits is not None
        names = self.roles
        clock = (self.pushed_at, self.paused_until, self.held)
        lanes = [lane for word in self.words.values() for lane in lanes_of(word)]
        counts = (self.count, sum(lane >= 2 for lane in lanes))
        config_fields = (self.quorum, self.kicks_paused, self.config_count)
        return Seen(
            head=Head(self.round, self.as_of, *clock, *counts, *config_fields),
            limits=tuple(self.limits),
            kick_limits=tuple(self.kick_limits),
            bucket=self.kick_limits.refilled(*self.bucket, self.now),
            last_report=self.last_report,
            rules_hash=self.rules_hash,
            config=self.config,
            pause=self.pause,
            roles=(names["admin"], self.offered, names["pauser"], names["vetoer"], self.target),
            signers=self.signers,
            words=tuple(self.words.get(at, 0) for at in range(self.count // 16 + 2)),
            slots={
                who: (*self.slots.get(who, Slot()), self.evidence.get(who, 0)) for who in nodes
            },
        )


def _not_the_oracles(_: Ledger, __: Words) -> None:
    """The network speaks too."""


# --- rounds ---


def _accepted(book: Ledger, words: Words) -> None:
    book.round, book.as_of, _, _, book.last_report, config, _, _ = words
    assert config == book.config
    book.pushed_at, book.held = book.now, 0
    book.reports[book.round] = book.last_report


def _registered(book: Ledger, words: Words) -> None:
    index, node = words
    book.count = max(book.count, index + 1)
    book.change(node, index_plus_one=index + 1)


def _released(book: Ledger, words: Words) -> None:
    _, node = words
    kick = book.slots[node].kick
    book.change(node, index_plus_one=0, kick=NONE if kick == PENDING else kick)


# --- kickouts ---


def _proposed(book: Ledger, words: Words) -> None:
    node, round_, _, evidence, ready_at, dies_at = words
    times = {"ready_at": ready_at, "dies_at": dies_at}
    book.change(node, kick=PENDING, round=round_, config=book.config_count, **times)
    book.evidence[node] = evidence


def _cleared(book: Ledger, words: Words) -> None:
    book.change(words[0], kick=NONE, round=book.round)
    book.evidence[words[0]] = 0


def _executed(book: Ledger, words: Words) -> None:
    assert book.kick_limits is not None
    node = words[0]
    if book.slots[node].kick == PENDING:
        left, since = book.kick_limits.refilled(*book.bucket, book.now)
        book.bucket = (left - 1, since)
        until = min(book.now + book.kick_limits.cool_down, FOR_EVER)
        book.change(node, expelled_until=until)
    book.change(node, kick=EXPELLED, round=book.round)


def _refused(book: Ledger, words: Words) -> None:
    book.change(words[0], kick=REFUSED)


def _expelled(book: Ledger, words: Words) -> None:
    book.change(words[0], kick=EXPELLED, expelled_until=FOR_EVER)


# --- what is set ---


def _kick_limits_set(book: Ledger, words: Words) -> None:
    new_limits, old = KickLimits(*words), book.kick_limits
    left = new_limits.most if old is None else old.refilled(*book.bucket, book.now)[0]
    book.kick_limits, book.bucket = new_limits, (min(left, new_limits.most), book.now)


def _signers_set(book: Ledger, words: Words) -> None:
    _, book.quorum, _, *signers = words
    book.signers = tuple(signers)


def _limits_set(book: Ledger, words: Words) -> None:
    book.limits = Limits(*words)


def _rules_set(book: Ledger, words: Words) -> None:
    (book.rules_hash,) = words


def _config_set(book: Ledger, words: Words) -> None:
    book.config_count, book.config = words


def _target_set(book: Ledger, words: Words) -> None:
    (book.target,) = words


def _role_set(book: Ledger, words: Words) -> None:
    name = words[0].to_bytes(32).rstrip(b"\0").decode()
    book.roles[name] = words[1]
    if name == "admin":
        book.offered = 0


def _offered(book: Ledger, words: Words) -> None:
    (book.offered,) = words


def _paused(book: Ledger, words: Words) -> None:
    """A pause begins, or ends before its time."""
    assert book.limits is not None
    until, _ = words
    if until == book.now:
        remaining_seconds = book.paused_until - until
        book.pause -= remaining_seconds
        book.held -= remaining_seconds if book.pause_holds else 0
    else:
        fresh_until = book.pushed_at + book.limits.max_age + book.held
        book.pause, book.pause_holds = until - book.now, book.now <= fresh_until
        book.held += book.pause if book.pause_holds else 0
    book.paused_until = until


def _kicks_paused(book: Ledger, words: Words) -> None:
    book.kicks_paused = words[0]


_RECEIVED: dict[str, Callable[[Ledger, Words], None]] = {
    "RoundAccepted": _accepted,
    "NodeRegistered": _registered,
    "NodeReleased": _released,
    "KickProposed": _proposed,
    "KickCancelled": _cleared,
    "KickExecuted": _executed,
    "KickRefused": _refused,
    "NodeExpelled": _expelled,
    "NodeReadmitted": _cleared,
    "KickLimitsSet": _kick_limits_set,
    "SignersSet": _signers_set,
    "LimitsSet": _limits_set,
    "RulesSet": _rules_set,
    "ConfigSet": _config_set,
    "TargetSet": _target_set,
    "RoleSet": _role_set,
    "AdminOffered": _offered,
    "PausedUntil": _paused,
    "KicksPaused": _kicks_paused,
}
