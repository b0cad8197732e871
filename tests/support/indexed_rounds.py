"""Rounds of the contract over an `IndexedHistory`: cut, with leaves stored, and accepted."""

from collections.abc import Sequence

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import KickAccused
from oracle.domain.ids import ZERO_ADDRESS, Address, Hash
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.reports.report import ReportSettings
from oracle.reporting.report_cutter import ReportCutter
from oracle.signing.typed_data import Domain
from tests.support.accepted_rounds import load_newest_report
from tests.support.api import IDENTITY, IndexedHistory, make_block
from tests.support.histories import History
from tests.support.rounds import build_acceptance, build_contract_state
from tests.support.scripted_reader import Unread

DOMAIN = Domain(IDENTITY.chain_id, IDENTITY.oracle or ZERO_ADDRESS)
# Any two cuts are in different periods.
SETTINGS = ReportSettings(period_seconds=1)


def index_with_rounds(
    indexed: IndexedHistory, history: History, blocks: Sequence[int]
) -> ContractState:
    """Index a history; the contract accepts a report of each of `blocks` in the following block.

    Returns the state of the contract.
    """
    state = build_contract_state()
    indexed_block = 0
    for as_of in blocks:
        events = [event for event in history.events if indexed_block < event.at.block <= as_of]
        indexed.index(events, as_of, events[-1].time)
        _accept_report(indexed, state, as_of, events[-1].time)
        indexed_block = as_of
    rest = [event for event in history.events if event.at.block > indexed_block]
    indexed.index(rest, history.block, history.time)
    return state


def _accept_report(indexed: IndexedHistory, state: ContractState, as_of: int, time: int) -> None:
    cutter = ReportCutter(Unread(), indexed.rules, SETTINGS, DOMAIN, anchor_window=256)
    with indexed.store.transaction() as uow:
        assert cutter.on_block(uow, state, make_block(as_of, time), -1) is not None
    accepted = build_acceptance(load_newest_report(indexed.store), as_of + 1, time + 1)
    state.fold_block(as_of + 1, [accepted], journal=False)
    with indexed.store.transaction() as uow:
        uow.rounds.save_changes(state.drain_changes())


def accuse_node(
    indexed: IndexedHistory, state: ContractState, node: Address, block: int, ready_at: int
) -> KickAccused:
    """Let the contract accept an accusation of a node in a block."""
    accusation = KickAccused(
        at=Position(block, 0, 100),
        time=0,
        node=node,
        round=state.head_round,
        due_since=1,
        evidence=Hash("0x" + 64 * "e"),
        ready_at=ready_at,
    )
    state.fold_block(block, [accusation], journal=False)
    with indexed.store.transaction() as uow:
        uow.rounds.save_changes(state.drain_changes())
    return accusation
