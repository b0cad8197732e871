"""The work during which a leader dies or stalls: a push, an accusation, an execution.

Each phase starts from the same state of the chain, with a database that has only read the chain.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.store.outbox.records import ACCUSE, EXECUTE_KICK, PUSH
from oracle.txmgr.confirmer import confirm_transactions
from tests.integration.evm.test_kickout_on_chain import (
    fill_bad_pool,
    kick,
    pass_veto_delay,
    run_until_due_is_stated,
)
from tests.support.evm.network import Standing
from tests.support.harness import FINALITY, Harness, OracleTestbed, run_next_step
from tests.support.txmgr.stores import NewStore


def run_push(harness: Harness) -> None:
    """Run a push from the report to the finality of its round."""
    harness.tick()
    harness.mine()
    harness.until_final()


def plan_kickouts(harness: Harness) -> None:
    """Run one turn of the daemon in which only kickouts are planned."""
    harness.index()
    for step in (confirm_transactions, run_next_step, plan_kickout_call, run_next_step):
        harness.repeat(step)


def run_kickout_step(harness: Harness) -> None:
    """Run the due step of a kickout, up to its finality."""
    plan_kickouts(harness)
    harness.mine()
    plan_kickouts(harness)
    harness.mine(FINALITY + 1)
    plan_kickouts(harness)


def make_kickout_due(harness: Harness) -> None:
    """Run rounds until the last one states that a kickout is due."""
    fill_bad_pool(harness)
    run_until_due_is_stated(harness)


def make_kickout_executable(harness: Harness) -> None:
    """Accuse a node, and let the veto delay pass."""
    make_kickout_due(harness)
    run_kickout_step(harness)
    pass_veto_delay(harness)
    harness.mine(FINALITY + 1)


def has_landed(harness: Harness) -> bool:
    return harness.testbed.round == 1


def is_accused(harness: Harness) -> bool:
    return bool(kick(harness)["live"])


def is_executed(harness: Harness) -> bool:
    network = harness.testbed.network
    return network.standing(network.nodes[2]) is Standing.KICKED_OUT


class Phase(NamedTuple):
    """A phase: its preparation, its steps, the contract's event, and the state at its end.

    `commits`: the minimum number of commits in the phase.
    """

    before: Callable[[Harness], None]
    play: Callable[[Harness], None]
    event: str
    is_so: Callable[[Harness], bool]
    commits: int


# Planned, ready, assigned, signed, sent, mined, final; for a push also its statement, first.
PHASES = {
    PUSH: Phase(Harness.period, run_push, "RoundAccepted", has_landed, 8),
    ACCUSE: Phase(make_kickout_due, run_kickout_step, "KickAccused", is_accused, 7),
    EXECUTE_KICK: Phase(make_kickout_executable, run_kickout_step, "KickExecuted", is_executed, 7),
}


@dataclass(frozen=True)
class Stage:
    """The chain before a phase.

    Each harness on it has a new database, and its changes are undone.
    """

    testbed: OracleTestbed
    new_store: NewStore
    folder: Path

    @contextmanager
    def harness(self, name: str) -> Iterator[Harness]:
        with self.testbed.chain.undone(), self.new_store() as store:
            opened = Harness(self.testbed, store, self.folder / name)
            yield opened
            opened.close()

    @contextmanager
    def set_for(self, phase: Phase) -> Iterator[None]:
        """Bring the chain to the beginning of a phase."""
        with self.testbed.chain.undone():
            with self.new_store() as store:
                harness = Harness(self.testbed, store, self.folder / "before")
                phase.before(harness)
                harness.close()
            yield


def count_emitted_events(testbed: OracleTestbed, event: str) -> int:
    """Return how often the contract emitted an event since the first block."""
    return len(list(testbed.oracle.events[event]().get_logs(from_block=0)))
