"""Many nodes below the kickout line at once, as in a mass outage, written to the database."""

from dataclasses import replace

from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.oracle_events import Registrations
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from oracle.domain.reports.contract_state import RoundsChanges
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.reports.lanes import LANES_PER_WORD, replace_lane
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.rounds import Rounds
from oracle.domain.state import Membership, create_node
from oracle.kickouts.kickout_eligibility import KickoutRules, load_kickout_evidence
from oracle.store.database import Store
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.rounds import accepted, address, round_of

POOL = 4
RULES = replace(CRYNUX, name="due", pool_size=POOL, kick_creator_share=UNIT)
SETTINGS = ReportSettings()
KICKOUT_RULES = KickoutRules(RULES, SETTINGS)
OPENED = Position(10, 0, 0)
# Lanes: one below the kickout line, and one far above it.
LOW, HIGH = 100, 9000


def store_due_nodes(store: Store, open_count: int, live_count: int) -> list[Address]:
    """Write nodes with an open interval; the first `live_count` also have a live kickout.

    The lanes of nodes with a kickout were low in as many rounds as evidence requires. The lanes of
    the other nodes are above the line.
    """
    nodes = [address(1 + number) for number in range(open_count)]
    rounds = Rounds()
    with store.transaction() as uow:
        uow.nodes.save(
            replace(
                create_node(node, seat, 0, 0),
                membership=Membership.MEMBER,
                pool=bytes(POOL),
                kickout_due_since=OPENED,
                kickout_due_time=0,
            )
            for seat, node in enumerate(nodes)
        )
        uow.kickouts.save_intervals([KickoutDue(node, OPENED, None) for node in nodes])
        uow.scores.append(
            [
                _score(node, number, seq)
                for number, node in enumerate(nodes)
                for seq in range(POOL)
            ],
            uow.rule_sets.get_or_assign_number(RULES),
        )
        words = _words(open_count, live_count)
        for number in range(1, 1 + SETTINGS.kick_after_rounds):
            block = 10 + number
            new = Registrations(appended=tuple(nodes)) if number == 1 else Registrations()
            accepted_round = replace(
                accepted(number, words, new, time=60 * block),
                at=Position(block, 0, 99_999),
                as_of=block - 1,
            )
            rounds.fold_block(block, round_of(rounds, accepted_round), journal=False)
        uow.rounds.save_changes(rounds.drain_changes())
        last = BlockRef(100, Hash("0x" + 64 * "1"), Hash("0x" + 64 * "2"), 6000)
        uow.cursor.move_to(last, last, 0)
    _propose(store, nodes[:live_count])
    return nodes


def _propose(store: Store, nodes: list[Address]) -> None:
    with store.transaction() as uow:
        kicks = {
            node: Kick(
                node=node,
                round=SETTINGS.kick_after_rounds,
                evidence=load_kickout_evidence(
                    uow, KICKOUT_RULES, KickoutDue(node, OPENED, None)
                ).hash,
                ready_at=10**6,
                dies_at=10**7,
                proposed_at=Position(20, 0, 0),
                state=KickState.LIVE,
            )
            for node in nodes
        }
        uow.rounds.save_changes(RoundsChanges(kicks=kicks))


def _words(open_count: int, live_count: int) -> dict[int, int]:
    words = dict.fromkeys(range(-(-open_count // LANES_PER_WORD)), 0)
    for lane in range(open_count):
        word = lane // LANES_PER_WORD
        words[word] = replace_lane(words[word], lane, LOW if lane < live_count else HIGH)
    return words


def _score(node: Address, number: int, seq: int) -> ScoreEntry:
    name = f"{POOL * number + seq:064x}"
    at = Position(5, number, seq)
    return ScoreEntry(
        node, seq + 1, TaskKey("0x" + name), GroupKey("0x" + name), None, None, 0, at, 1
    )
