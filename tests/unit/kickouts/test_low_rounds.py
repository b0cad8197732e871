"""How much is read to see that a node was low: never every round there was."""

from dataclasses import replace
from pathlib import Path

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.ids import ZERO_ADDRESS
from oracle.domain.reports.lanes import LANES_PER_WORD, replace_lane
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.rounds import Rounds
from oracle.kickouts.shown_low import count_low_rounds, find_first_low_rounds
from oracle.store.database import Store
from oracle.store.state.round_repository import RoundRepository
from tests.support.rounds import accepted

SETTINGS = ReportSettings()
INTERVAL = KickoutDue(ZERO_ADDRESS, Position(10, 0, 0), None)
ROUNDS = 250


def test_counting_low_rounds_of_an_unwritten_lane_reads_no_rounds(tmp_path: Path, monkeypatch):
    rounds = Rounds()
    for number in range(1, ROUNDS + 1):
        rounds.fold_block(number, [_accepted(number)], journal=False)
    with Store.open(f"sqlite:///{tmp_path}/rounds.sqlite", create=True) as store:
        with store.transaction() as uow:
            uow.rounds.save_changes(rounds.drain_changes())
        with store.read_transaction() as uow:
            low = find_first_low_rounds(uow, INTERVAL, 3, SETTINGS)
            assert [low_round.round for low_round in low] == [10, 11, 12]
            newest = uow.rounds.list_accepted(SETTINGS.kick_after_rounds)
            line = SETTINGS.kick_line
            assert count_low_rounds(uow, INTERVAL, 3, newest, line) == len(low)

            def until(_room: RoundRepository, *_args: int) -> None:
                raise AssertionError("all rounds were read")

            monkeypatch.setattr(RoundRepository, "list_accepted_up_to", until)
            unwritten_lane = LANES_PER_WORD + 3
            assert count_low_rounds(uow, INTERVAL, unwritten_lane, newest, line) == 0


def _accepted(number: int) -> RoundAccepted:
    accepted_round = accepted(number, {0: replace_lane(0, 3, 100)}, time=60 * number)
    return replace(accepted_round, as_of=number)
