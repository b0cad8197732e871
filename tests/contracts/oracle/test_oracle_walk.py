"""The oracle walked at random: whatever is called, some things hold after every step."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.contracts.oracle_driver import LIMITS, SIGNERS, STRANGER, Oracle, node, word
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
    done: list[str] = field(default_factory=list)


@dataclass
class Walker:
    """Calls one thing after another, right and wrong ones; a revert is an answer too."""

    oracle: Oracle
    chosen: random.Random
    start: int
    seen: Seen = field(default_factory=Seen)

    def step(self) -> None:
        wanted = self.chosen.choices(*zip(*STEPS_AND_WEIGHTS, strict=True))[0]
        head = self.oracle.read("head")
        paused = self.oracle.chain.time + 1 < head[3]
        try:
            wanted(self)
        except RevertedError:
            return
        self.seen.done.append(wanted.__name__)
        assert not (paused and wanted in STOPPED_BY_A_PAUSE)

    # --- what can happen ---

    def report(self) -> None:
        self.oracle.chain.mine(2)
        count = self.oracle.read("head")[4]
        sizes = [min(16, count - first) for first in range(0, count, 16)]
        words = [(at, word(*map(self._lane, range(size)))) for at, size in enumerate(sizes)]
        late = self.chosen.random() < 0.2
        report = self.oracle.report(*words, **({"as_of": self.seen.as_of} if late else {}))
        self.oracle.chain.later(LIMITS["minInterval"])
        self.oracle.push(report, report.signed_by(*self._signers()))

    def _lane(self, _: int) -> int:
        lanes = (1, 2, 1_000, 1_500, 2_002, self.chosen.randrange(1, WORST_LANE + 1))
        return WORST_LANE + 1 if self.chosen.random() < 0.002 else self.chosen.choice(lanes)

    def _signers(self):
        quorums = (SIGNERS[:2], SIGNERS[1:], (SIGNERS[0], STRANGER), (SIGNERS[0], SIGNERS[0]))
        return self.chosen.choices(quorums, (5, 5, 1, 1))[0]

    def propose(self) -> None:
        self.oracle.send(self.oracle.signed_kick(self._index(), self._signers()))

    def execute(self) -> None:
        index = self._index()
        lane, who = self.oracle.lane(index), self.oracle.read("nodeAt", index)
        current = self.oracle.read("indexOf", who)
        assert self.oracle.execute(index).only("KickExecuted")["node"] == who
        self.seen.kicked += 1
        assert 0 < lane < LIMITS["kickBelow"] + 2
        assert current == index
        assert self.oracle.network.functions.activeCount().call() >= LIMITS["minActive"]

    def cancel(self) -> None:
        who = self.chosen.choice((self.oracle.vetoer, self.oracle.transmitter))
        self.oracle.do("cancelKick", self._index(), bytes(32), sender=who)

    def come_or_go(self) -> None:
        who = node(self.chosen.randrange(NODES))
        inside = self.oracle.network.functions.isMember(who).call()
        self.oracle.by_network("quit" if inside else "join", who)

    def pause(self) -> None:
        self.oracle.do("pauseFor", self.chosen.choice((60, 700)), sender=self.oracle.pauser)

    def resume(self) -> None:
        self.oracle.do("resume", sender=self.oracle.admin)

    def wait(self) -> None:
        self.oracle.chain.later(self.chosen.choice((5, 300, 700, 4_000)))
        self.oracle.chain.mine()

    def _index(self) -> int:
        return self.chosen.randrange(self.oracle.read("head")[4])

    # --- what always holds ---

    def check(self) -> None:
        oracle, seen = self.oracle, self.seen
        round_, as_of, _, _, count, *_ = oracle.read("head")
        words = oracle.read("wordsAt", 0, count // 16 + 2)
        if round_ == seen.round:
            known = min(len(words), len(seen.words))
            assert (as_of, words[:known]) == (seen.as_of, seen.words[:known])
        else:
            assert round_ == seen.round + 1
            assert as_of > seen.as_of
        lanes = [one >> 16 * place & 0xFFFF for one in words for place in range(16)]
        assert max(lanes) <= WORST_LANE
        assert not any(lanes[count:])
        frames = (oracle.chain.time - self.start) // 3_600 + 1
        assert seen.kicked <= BUCKET + frames
        seen.round, seen.as_of, seen.words = round_, as_of, words


STEPS_AND_WEIGHTS: list[tuple[Callable[[Walker], None], int]] = [
    (Walker.report, 40),
    (Walker.propose, 25),
    (Walker.execute, 25),
    (Walker.cancel, 3),
    (Walker.come_or_go, 6),
    (Walker.pause, 2),
    (Walker.resume, 2),
    (Walker.wait, 20),
]
STOPPED_BY_A_PAUSE = {Walker.report, Walker.propose, Walker.execute}


def test_whatever_is_called_rounds_rise_lanes_fit_and_kickouts_stay_rare(oracle: Oracle):
    limits = LIMITS | {"maxKicksPerRound": 5, "vetoDelay": 60, "kickRounds": 1}
    oracle.do("setLimits", tuple(limits.values()), sender=oracle.admin)
    chosen = random.Random(1)  # noqa: S311 -- the same walk in every run, nothing secret
    walker = Walker(oracle, chosen, oracle.chain.time)
    oracle.chain.rpc("anvil_setBlockTimestampInterval", 1)  # no clock but the chain's
    for _ in range(STEPS):
        walker.step()
        walker.check()
    oracle.chain.rpc("anvil_removeBlockTimestampInterval")
    for who in map(node, range(NODES)):
        assert oracle.read("nodeAt", oracle.read("indexOf", who)) == who
    assert set(walker.seen.done) >= {"report", "propose", "execute", "come_or_go", "pause"}
    assert walker.seen.round > STEPS // 8
