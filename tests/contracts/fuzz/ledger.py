"""The oracle's storage rebuilt from its events and the inputs of pushes, and from nothing else."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from eth_utils.crypto import keccak

from tests.contracts.fuzz.evm import Said
from tests.contracts.fuzz.seen import Seen, Words
from tests.contracts.fuzz.state import Bucket, Kick, Limits, records_in
from tests.contracts.fuzz.step import Step


@dataclass
class Ledger:
    """What a reader who was never told anything but events would believe."""

    now: int = 0
    round: int = 0
    as_of: int = 0
    pushed_at: int = 0
    paused_until: int = 0
    count: int = 0
    quorum: int = 0
    rules: int = 0
    kicks_paused: int = 0
    last_report: int = 0
    # Digest of every accepted report, by round.
    reports: dict[int, int] = field(default_factory=dict)
    rules_hash: int = 0
    offered: int = 0
    limits: Limits | None = None
    bucket: Bucket | None = None
    signers: Words = ()
    roles: dict[str, int] = field(default_factory=dict)
    words: dict[int, int] = field(default_factory=dict)
    kicks: dict[int, Kick] = field(default_factory=dict)
    # The node's newest index.
    index_of: dict[int, int] = field(default_factory=dict)

    def hear(self, said: Iterable[Said], now: int, step: Step | None = None) -> None:
        """Take the events of one transaction in; `step`: whose input it was."""
        self.now = now
        for one in said:
            if one.name == "RoundAccepted":
                assert step is not None
                assert one.words[3] == int.from_bytes(keccak(step.records))
                self.words |= dict(records_in(step.records))
            _RECEIVED.get(one.name, _not_the_oracles)(self, one.words)

    def seen(self, kicks: Iterable[int]) -> Seen:
        assert self.limits is not None
        assert self.bucket is not None
        names = self.roles
        quorum = (self.quorum, len(self.signers), self.rules, self.kicks_paused)
        head = (self.round, self.as_of, self.pushed_at, self.paused_until, self.count, *quorum)
        return Seen(
            head=head,
            limits=tuple(self.limits),
            last_report=self.last_report,
            rules_hash=self.rules_hash,
            roles=(names["admin"], self.offered, names["pauser"], names["vetoer"]),
            bucket=tuple(self.bucket.at(self.now)),
            signers=self.signers,
            words=tuple(self.words.get(at, 0) for at in range(self.count // 16 + 2)),
            kicks={i: tuple(map(int, self.kicks.get(i, Kick()))) for i in kicks},
        )


def _not_the_oracles(_: Ledger, __: Words) -> None:
    """The network speaks too."""


def _accepted(book: Ledger, words: Words) -> None:
    book.round, book.as_of, _, _, book.last_report, _, _, _ = words
    book.pushed_at = book.now
    book.reports[book.round] = book.last_report


def _registered(book: Ledger, words: Words) -> None:
    index, node = words
    book.count = index + 1
    book.index_of[node] = index


def _proposed(book: Ledger, words: Words) -> None:
    assert book.limits is not None
    index, _, round_, _, evidence, ready_at = words
    dies_at = ready_at + book.limits.kick_window
    book.kicks[index] = Kick(ready_at, dies_at, round_, is_live=True, evidence=evidence)


def _ended(book: Ledger, words: Words) -> None:
    book.kicks[words[0]] = book.kicks[words[0]]._replace(is_live=False)


def _executed(book: Ledger, words: Words) -> None:
    assert book.bucket is not None
    _ended(book, words)
    now = book.bucket.at(book.now)
    book.bucket = now._replace(left=now.left - 1)


def _bucket_set(book: Ledger, words: Words) -> None:
    most, per_frame, frame = words
    left = most if book.bucket is None else min(most, book.bucket.at(book.now).left)
    book.bucket = Bucket(most, left, per_frame, frame, book.now)


def _signers_set(book: Ledger, words: Words) -> None:
    _, book.quorum, _, *signers = words
    book.signers = tuple(signers)


def _limits_set(book: Ledger, words: Words) -> None:
    book.limits = Limits(*words)


def _rules_set(book: Ledger, words: Words) -> None:
    book.rules, book.rules_hash = words


def _role_set(book: Ledger, words: Words) -> None:
    name = words[0].to_bytes(32).rstrip(b"\0").decode()
    book.roles[name] = words[1]
    if name == "admin":
        book.offered = 0


def _offered(book: Ledger, words: Words) -> None:
    (book.offered,) = words


def _paused(book: Ledger, words: Words) -> None:
    book.paused_until = words[0]


def _kicks_paused(book: Ledger, words: Words) -> None:
    book.kicks_paused = words[0]


_RECEIVED: dict[str, Callable[[Ledger, Words], None]] = {
    "RoundAccepted": _accepted,
    "NodeRegistered": _registered,
    "KickProposed": _proposed,
    "KickCancelled": _ended,
    "KickExecuted": _executed,
    "BucketSet": _bucket_set,
    "SignersSet": _signers_set,
    "LimitsSet": _limits_set,
    "RulesSet": _rules_set,
    "RoleSet": _role_set,
    "AdminOffered": _offered,
    "PausedUntil": _paused,
    "KicksPaused": _kicks_paused,
}
