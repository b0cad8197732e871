"""The oracle walked at random: whatever is called, some things hold after every step."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.contracts.oracle_driver import LIMITS, Oracle, node
from tests.contracts.oracle_signing import SIGNERS, STRANGER, word
from tests.support.evm.chain import RevertedError

pytestmark = [pytest.mark.evm, pytest.mark.slow]

NODES, STEPS, BUCKET = 20, 150, 2
WORST_LANE = 10_002


@dataclass
class Seen:
    """What the last step left, and what has happened in all."""

    round: int = 0
    as_of: int = 0
    words: list[int] = field(default_factory=list)
    kicked: int = 0
    proposed: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)


@dataclass
class Walker:
    """Calls one thing after another, right and wrong ones; a revert is an answer too."""

    oracle: Oracle
    chosen: random.Random
    start: int
    seen: Seen = field(default_factory=Seen)

    def step(self) -> None:
        action = self.chosen.choices(*zip(*STEPS_AND_WEIGHTS, strict=True))[0]
        paused = self.oracle.chain.time + 1 < self.oracle.head("pausedUntil")
        try:
            action(self)
        except RevertedError:
            return
        self.seen.done.append(action.__name__)
        assert not (paused and action in STOPPED_BY_A_PAUSE)

    # --- what can happen ---

    def report(self) -> None:
        self.oracle.chain.mine(2)
        before = self.oracle.head("nodeCount")
        fresh = self._newcomers()
        count = before + len(fresh)
        sizes = [min(16, count - first) for first in range(0, count, 16)]
        words = [(at, word(*map(self._lane, range(size)))) for at, size in enumerate(sizes)]
        late = {"as_of": self.seen.as_of} if self.chosen.random() < 0.2 else {}
        report = self.oracle.report(*words, fresh=fresh, reused=self._takers(fresh), **late)
        self.oracle.chain.later(LIMITS["minInterval"])
        self.oracle.push(report, report.signed_by(*self._signers()))

    def _lane(self, _: int) -> int:
        lanes = (1, 2, 1_000, 1_500, 2_002, self.chosen.randrange(1, WORST_LANE + 1))
        return WORST_LANE + 1 if self.chosen.random() < 0.002 else self.chosen.choice(lanes)

    def _signers(self):
        quorums = (SIGNERS[:2], SIGNERS[1:], (SIGNERS[0], STRANGER), (SIGNERS[0], SIGNERS[0]))
        return self.chosen.choices(quorums, (5, 5, 1, 1))[0]

    def _newcomers(self) -> list[str]:
        """Sometimes one; now and then one that has an index already."""
        who = node(self.chosen.randrange(NODES, 2 * NODES))
        return [who] if self.chosen.random() < 0.3 else []

    def _takers(self, fresh: list[str]) -> list[tuple[str, str]]:
        """Sometimes a node takes another's index, whether that is closed or not."""
        if self.chosen.random() < 0.7:
            return []
        taker = node(self.chosen.randrange(2 * NODES, 3 * NODES))
        return [(taker, self._who())] if taker not in fresh else []

    def propose(self) -> None:
        who = self._who()
        self.oracle.send(self.oracle.signed_kick(who, self._signers()))
        self.seen.proposed.append(who)

    def execute(self) -> None:
        who = self.chosen.choice([*self.seen.proposed[-3:], self._who()])
        index = self.oracle.held(who)["indexPlusOne"] - 1
        lane = self.oracle.lane(index) if index >= 0 else 0
        open_lanes = self.oracle.head("openCount")
        assert self.oracle.execute(who).only("KickExecuted")["node"] == who
        self.seen.kicked += 1
        assert 0 < lane < LIMITS["kickBelow"] + 2
        assert open_lanes >= LIMITS["minOpen"]
        assert self.oracle.read("weightOf", who) == 0

    def retry(self) -> None:
        self.oracle.retry(self._who())

    def cancel(self) -> None:
        who = self.chosen.choice((self.oracle.vetoer, self.oracle.transmitter))
        self.oracle.cancel(self._who(), sender=who)

    def come_or_go(self) -> None:
        who = self._who()
        inside = self.oracle.network.functions.isMember(who).call()
        self.oracle.by_network("quit" if inside else "join", who)

    def pause(self) -> None:
        self.oracle.do("pauseFor", self.chosen.choice((60, 700)), sender=self.oracle.pauser)

    def resume(self) -> None:
        self.oracle.do("resume", sender=self.oracle.admin)

    def wait(self) -> None:
        self.oracle.chain.later(self.chosen.choice((5, 300, 700, 4_000)))
        self.oracle.chain.mine()

    def _who(self) -> str:
        """Mostly one of the first twenty, who are members at the start."""
        return node(self.chosen.randrange(NODES if self.chosen.random() < 0.8 else 3 * NODES))

    # --- what always holds ---

    def check(self) -> None:
        oracle, last_seen = self.oracle, self.seen
        head = oracle.named("head")
        round_, as_of, count = head["round"], head["asOf"], head["nodeCount"]
        words = oracle.read("wordsAt", 0, count // 16 + 2)
        if round_ == last_seen.round:
            common_count = min(len(words), len(last_seen.words))
            assert (as_of, words[:common_count]) == (
                last_seen.as_of,
                last_seen.words[:common_count],
            )
        else:
            assert round_ == last_seen.round + 1
            assert as_of > last_seen.as_of
        lanes = [
            packed_word >> 16 * place & 0xFFFF for packed_word in words for place in range(16)
        ]
        assert max(lanes) <= WORST_LANE
        assert (0 in lanes[:count], any(lanes[count:])) == (False, False)
        assert sum(lane >= 2 for lane in lanes) == head["openCount"]
        frames = (oracle.chain.time - self.start) // 3_600 + 1
        assert last_seen.kicked <= BUCKET + frames
        last_seen.round, last_seen.as_of, last_seen.words = round_, as_of, words


STEPS_AND_WEIGHTS: list[tuple[Callable[[Walker], None], int]] = [
    (Walker.report, 40),
    (Walker.propose, 25),
    (Walker.execute, 25),
    (Walker.retry, 4),
    (Walker.cancel, 3),
    (Walker.come_or_go, 6),
    (Walker.pause, 2),
    (Walker.resume, 2),
    (Walker.wait, 20),
]
STOPPED_BY_A_PAUSE = {Walker.report, Walker.propose, Walker.execute, Walker.retry}


def test_random_walk_keeps_oracle_invariants(oracle: Oracle):
    oracle.limited(maxKicksPerRound=5, vetoDelay=60, kickRounds=1)
    chosen = random.Random(1)  # noqa: S311 -- the same walk in every run, nothing secret
    walker = Walker(oracle, chosen, oracle.chain.time)
    oracle.chain.rpc("anvil_setBlockTimestampInterval", 1)  # no clock but the chain's
    for _ in range(STEPS):
        walker.step()
        walker.check()
    oracle.chain.rpc("anvil_removeBlockTimestampInterval")
    held = [oracle.held(number)["indexPlusOne"] for number in range(3 * NODES)]
    assigned_indexes = [index for index in held if index]
    assert sorted(assigned_indexes) == list(range(1, oracle.head("nodeCount") + 1))
    assert set(walker.seen.done) >= {"report", "propose", "execute", "come_or_go", "pause"}
    assert walker.seen.round > STEPS // 8
