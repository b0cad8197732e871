"""The work during which a leader dies or stalls: a push, an accusation, an execution.

Each phase starts from the same state of the chain, with a database that has only read the chain.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from oracle.kickouts.kickout_context import ACCUSE, EXECUTE_KICK
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.reporting.reporting_context import PUSH
from oracle.txmgr.confirmer import confirm_transactions
from tests.integration.evm.test_kicking import (
    fill_bad_pool,
    kick,
    pass_veto_delay,
    run_until_due_is_stated,
)
from tests.support.evm.network import Standing
from tests.support.office import FINALITY, Office, Premises, next_step
from tests.support.txmgr.stores import NewStore


def run_push(office: Office) -> None:
    """Run a push from the report to the finality of its round."""
    office.tick()
    office.mine()
    office.until_final()


def plan_kickouts(office: Office) -> None:
    """Run one turn of the daemon in which only kickouts are planned."""
    office.index()
    for step in (confirm_transactions, next_step, plan_kickout_call, next_step):
        office.repeat(step)


def run_kickout_step(office: Office) -> None:
    """Run the due step of a kickout, up to its finality."""
    plan_kickouts(office)
    office.mine()
    plan_kickouts(office)
    office.mine(FINALITY + 1)
    plan_kickouts(office)


def make_kickout_due(office: Office) -> None:
    """Run rounds until the last one states that a kickout is due."""
    fill_bad_pool(office)
    run_until_due_is_stated(office)


def make_kickout_executable(office: Office) -> None:
    """Accuse a node, and let the veto delay pass."""
    make_kickout_due(office)
    run_kickout_step(office)
    pass_veto_delay(office)
    office.mine(FINALITY + 1)


def has_landed(office: Office) -> bool:
    return office.premises.round == 1


def is_accused(office: Office) -> bool:
    return bool(kick(office)["live"])


def is_executed(office: Office) -> bool:
    network = office.premises.network
    return network.standing(network.nodes[2]) is Standing.KICKED_OUT


class Phase(NamedTuple):
    """A phase: its preparation, its steps, the contract's event, and the state at its end.

    `commits`: the minimum number of commits in the phase.
    """

    before: Callable[[Office], None]
    play: Callable[[Office], None]
    event: str
    is_so: Callable[[Office], bool]
    commits: int


# Planned, ready, assigned, signed, sent, mined, final; for a push also its statement, first.
PHASES = {
    PUSH: Phase(Office.period, run_push, "RoundAccepted", has_landed, 8),
    ACCUSE: Phase(make_kickout_due, run_kickout_step, "KickAccused", is_accused, 7),
    EXECUTE_KICK: Phase(make_kickout_executable, run_kickout_step, "KickExecuted", is_executed, 7),
}


@dataclass(frozen=True)
class Stage:
    """The chain before a phase.

    Each office on it has a new database, and its changes are undone.
    """

    premises: Premises
    new_store: NewStore
    folder: Path

    @contextmanager
    def office(self, name: str) -> Iterator[Office]:
        with self.premises.chain.undone(), self.new_store() as store:
            opened = Office(self.premises, store, self.folder / name)
            yield opened
            opened.close()

    @contextmanager
    def set_for(self, phase: Phase) -> Iterator[None]:
        """Bring the chain to the beginning of a phase."""
        with self.premises.chain.undone():
            with self.new_store() as store:
                office = Office(self.premises, store, self.folder / "before")
                phase.before(office)
                office.close()
            yield


def count_emitted_events(premises: Premises, event: str) -> int:
    """Return how often the contract emitted an event since the first block."""
    return len(list(premises.oracle.events[event]().get_logs(from_block=0)))
