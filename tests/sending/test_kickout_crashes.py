"""The daemon dies at every commit, signature and send of a kickout; one node goes, once.

Proposal and execution are played apart, each from the chain as it stands before it, on a database
that has nothing but what it reads from there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from oracle.services.confirming import confirm_next
from oracle.services.kicking import plan_kick
from oracle.services.publishing import publish_next
from oracle.store.outbox_rows import IntentKind
from tests.evm.network import Standing
from tests.office import FINALITY, Office, Premises
from tests.sending.fuses import Crash, Deaths, Fuse, fused
from tests.sending.journals import gaps
from tests.services.conftest import NewStore
from tests.services.test_kicking import bad_pool, kick, pushed_without_kickouts, shown_low

# Every point takes seconds on a shared machine.
pytestmark = pytest.mark.timeout(900)

_MOST_ROUNDS = 10


def look(office: Office) -> None:
    """One turn of the daemon in which nothing but kickouts is planned."""
    office.index()
    for step in (confirm_next, publish_next, plan_kick, publish_next):
        office.repeat(step)


def play(office: Office) -> None:
    """What is due about the kickout, to its finality."""
    look(office)
    office.mine()
    look(office)
    office.mine(FINALITY + 1)
    look(office)


def low(office: Office) -> None:
    """A node is shown low for as long as it takes."""
    bad_pool(office)
    shown_low(office)


def ready(office: Office) -> None:
    """It was proposed, and nobody may veto any more."""
    low(office)
    play(office)
    for _ in range(_MOST_ROUNDS):
        if int(str(kick(office)["readyAt"])) <= office.premises.chain.time:
            break
        pushed_without_kickouts(office)
    office.mine(FINALITY + 1)


def proposed(office: Office) -> bool:
    return bool(kick(office)["live"])


def executed(office: Office) -> bool:
    network = office.premises.network
    return network.standing(network.nodes[2]) is Standing.KICKED_OUT


class Phase(NamedTuple):
    """What comes before it, what the contract says once, and what is so at the end."""

    before: Callable[[Office], None]
    event: str
    is_so: Callable[[Office], bool]


PHASES = {
    IntentKind.PROPOSE_KICK: Phase(low, "KickProposed", proposed),
    IntentKind.EXECUTE_KICK: Phase(ready, "KickExecuted", executed),
}


@dataclass(frozen=True)
class Stage:
    """The chain before a phase; each office on it has a fresh database, and leaves no trace."""

    premises: Premises
    new_store: NewStore
    folder: Path

    @contextmanager
    def office(self, name: str) -> Iterator[Office]:
        with self.premises.chain.undone(), self.new_store() as store:
            opened = Office(self.premises, store, self.folder / name)
            yield opened
            opened.close()


@pytest.fixture
def stage(premises: Premises, new_store: NewStore, tmp_path: Path) -> Stage:
    return Stage(premises, new_store, tmp_path)


@pytest.mark.parametrize("kind", PHASES)
def test_case_f01_whoever_dies_during_a_kickout_has_one_successor_who_finishes_it(
    stage: Stage, deaths: Deaths, kind: IntentKind
):
    premises = stage.premises
    with premises.chain.undone():
        with stage.new_store() as store:
            office = Office(premises, store, stage.folder / "before")
            PHASES[kind].before(office)
            office.close()
        passed = points(stage)
        # Planned, ready, assigned, signed, sent, mined, final.
        assert passed.count("after a commit") >= 7
        assert passed.count("after a send") == 2
        assert passed.count("after signing a transaction") == 1
        for number, name in deaths.of(passed):
            die(stage, number, f"{name} {number}", kind)


def points(stage: Stage) -> list[str]:
    """Where it can die: a whole one, watched."""
    fuse = Fuse()
    with stage.office("whole") as office, fused(office, fuse):
        play(office)
    assert fuse.unstored == []
    return fuse.passed


def die(stage: Stage, number: int, where: str, kind: IntentKind) -> None:
    """Die at one point; another process goes on, and all of it happened once."""
    phase, premises = PHASES[kind], stage.premises
    with stage.office(str(number)) as office:
        nonce = premises.nonce
        with pytest.raises(Crash), fused(office, Fuse(number)):
            play(office)
        office.restart()
        play(office)
        assert phase.is_so(office), where
        assert said(premises, phase.event) == 1, where
        (call,) = office.intents(kind)
        assert (call.state.value, call.nonce) == ("final", nonce), where
        assert premises.nonce == nonce + 1, where
        assert gaps(office) == [], where


def said(premises: Premises, event: str) -> int:
    """How often the contract said it, from the first block on."""
    return len(list(premises.oracle.events[event]().get_logs(from_block=0)))
