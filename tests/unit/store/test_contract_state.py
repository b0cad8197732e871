"""What the oracle contract holds, and what was reported."""

from dataclasses import replace

import pytest
from sqlalchemy.exc import IntegrityError

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    NO_REGISTRATIONS,
    VETOER,
    ConfigSet,
    IndexReuse,
    KickLimitsSet,
    LimitsSet,
    Registrations,
    RoleSet,
    RoundAccepted,
    SettingEvent,
)
from oracle.domain.reports.contract_state import (
    ContractSettings,
    NodeIndex,
    RoundHead,
    RoundsChanges,
    Word,
)
from oracle.domain.reports.expulsions import Expulsion
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.reports.report import Report
from oracle.domain.reports.round_schedule import ReportHeader
from oracle.store.database import Store
from oracle.store.report_repository import ReportState, StoredReport
from tests.unit.store.samples import a_hash, address, block


def accepted(number: int) -> RoundAccepted:
    return RoundAccepted(
        at=Position(10 * number, 1, 2),
        time=20 * number,
        round=number,
        as_of=10 * number - 3,
        as_of_hash=a_hash(number),
        data_hash=a_hash(number + 1),
        digest=a_hash(number + 2),
        config=a_hash(7),
        transmitter=address(8),
        registrations=Registrations((IndexReuse(address(1), address(2)),), (address(number),)),
        words=((0, 2**256 - 1), (2**24 // 16 - 1, number)),
    )


def report(period: int, records: bytes = b"\x00" * 35) -> Report:
    return Report(
        period=period,
        as_of=block(10 * period),
        head_round=4,
        prev=a_hash(4),
        deadline=20 * period + 600,
        root=a_hash(period),
        records=records,
        registrations=Registrations((), (address(9),)) if records else NO_REGISTRATIONS,
    )


def kick(number: int, state: KickState) -> Kick:
    at = Position(8, 0, number)
    return Kick(
        address(number), 2, a_hash(9), ready_at=99, dies_at=199, proposed_at=at, state=state
    )


def expelled(number: int) -> Kick:
    at = Position(9, 0, 1)
    gone = Expulsion(at, 3, 2**40 - 1, address(7), 4, Position(12, 0, 0), 2, a_hash(5))
    return replace(kick(number, KickState.REFUSED), expulsion=gone)


def test_empty_contract_state_has_default_head(store: Store):
    with store.read_transaction() as uow:
        rounds = uow.rounds.load()
        assert rounds.head == RoundHead()
        assert (rounds.words, rounds.indexes, rounds.kicks) == ({}, {}, {})
        assert uow.rounds.get_accepted_round(1) is None


def test_contract_state_round_trips(store: Store):
    words = {0: Word(0, 2**256 - 1, 2, 40), 5: Word(5, 0, 1, 20)}
    indexes = {0: NodeIndex(0, address(2), closed_in=2), 1: NodeIndex(1, address(1))}
    kicks = {address(1): kick(1, KickState.LIVE), address(2): expelled(2)}
    with store.transaction() as uow:
        uow.rounds.save_changes(RoundsChanges(words=words, indexes=indexes, kicks=kicks))
        uow.rounds.save_changes(RoundsChanges(accepted=[accepted(1), accepted(2)]))
        rounds = uow.rounds.load()
    assert (rounds.words, rounds.indexes, rounds.kicks) == (words, indexes, kicks)
    assert rounds.head == RoundHead(2, 17, a_hash(4), 40)
    assert rounds.index_by_node == {address(2): 0, address(1): 1}


def test_latest_setting_of_each_kind_is_active(store: Store):
    def at(block: int) -> Position:
        return Position(block, 0, 0)

    limits, kick_limits = LimitsSet(at(2), 20, 200, 1000, 2500), KickLimitsSet(at(3), 30, 77)
    config = ConfigSet(at(6), 60, 2, a_hash(2))
    settings: list[SettingEvent] = [
        *(RoleSet(at(1), 10, VETOER, address(1)), limits, kick_limits),
        *(ConfigSet(at(4), 40, 1, a_hash(1)), RoleSet(at(5), 50, VETOER, address(2)), config),
    ]
    with store.transaction() as uow:
        uow.rounds.save_changes(RoundsChanges(settings=settings))
        standing = uow.rounds.get_contract_settings()
        before = [uow.rounds.get_config_before(at(block)) for block in (4, 5, 6, 7)]
    assert standing == ContractSettings(address(2), limits, kick_limits, config)
    assert before == [None, a_hash(1), a_hash(1), a_hash(2)]


def test_state_is_loaded_only_for_the_requested_nodes(store: Store):
    words = {0: Word(0, 2**256 - 1, 2, 40), 5: Word(5, 0, 1, 20)}
    indexes = {
        0: NodeIndex(0, address(4)),
        1: NodeIndex(1, address(1)),
        80: NodeIndex(80, address(2)),
    }
    kicks = {address(1): kick(1, KickState.LIVE), address(2): expelled(2)}
    with store.transaction() as uow:
        uow.rounds.save_changes(RoundsChanges(words=words, indexes=indexes, kicks=kicks))
        held = uow.rounds.load_for_nodes([address(1), address(3)])
        assert uow.rounds.list_live_kicks() == [kicks[address(1)]]
        assert uow.rounds.list_expulsions() == [kicks[address(2)]]
        assert (uow.rounds.get_node_at(80), uow.rounds.get_node_at(2)) == (address(2), None)
    assert held.words == {0: words[0]}
    assert held.indexes == {1: indexes[1]}
    assert held.kicks == {address(1): kicks[address(1)]}
    assert held.index_by_node == {address(1): 1}


def test_accepted_rounds_round_trip(store: Store):
    with store.transaction() as uow:
        uow.rounds.save_changes(
            RoundsChanges(accepted=[accepted(number) for number in range(1, 6)])
        )
        assert uow.rounds.list_accepted(limit=2) == [accepted(4), accepted(5)]
        assert uow.rounds.list_accepted(limit=1, up_to_block=39) == [accepted(3)]
        assert uow.rounds.get_accepted_round(2) == accepted(2)


def test_newer_lane_data_replaces_older_data(store: Store):
    with store.transaction() as uow:
        uow.rounds.save_changes(RoundsChanges(words={0: Word(0, 1, 1, 10)}))
        uow.rounds.save_changes(RoundsChanges(words={0: Word(0, 2, 2, 20)}))
        assert uow.rounds.load().words == {0: Word(0, 2, 2, 20)}


def test_report_is_due_until_landed(store: Store):
    with store.transaction() as uow:
        uow.reports.add(report(1))
        assert uow.reports.list_due() == [
            StoredReport(report(1), ReportState.DUE, reason=None, round=None, digest=None)
        ]
        uow.reports.bind_round(1, 5, a_hash(6))
        uow.reports.set_state(1, ReportState.LANDED)
        assert uow.reports.list_due() == []
        assert uow.reports.get(1) == StoredReport(
            report(1), ReportState.LANDED, reason=None, round=5, digest=a_hash(6)
        )


def test_report_without_records_is_skipped(store: Store):
    with store.transaction() as uow:
        uow.reports.add(report(1, records=b""))
        stored = uow.reports.get(1)
    assert stored is not None
    assert (stored.state, stored.reason) == (ReportState.SKIPPED, "nothing to send")


def test_second_report_of_period_is_rejected(store: Store):
    with store.transaction() as uow:
        uow.reports.add(report(1))
    with pytest.raises(IntegrityError), store.transaction() as uow:
        uow.reports.add(report(1, records=b"\x01" * 35))


def test_newest_period_is_returned(store: Store):
    with store.transaction() as uow:
        assert uow.reports.get_newest_period() is None
        for period in (3, 1, 2):
            uow.reports.add(report(period))
        assert uow.reports.get_newest_period() == 3
        assert [stored_report.report.period for stored_report in uow.reports.list_latest(2)] == [
            2,
            3,
        ]
        assert [stored_report.report.period for stored_report in uow.reports.list_above(10)] == [
            2,
            3,
        ]


def test_rewind_deletes_later_reports_except_landed_ones(store: Store):
    with store.transaction() as uow:
        for period in (1, 2, 3):
            uow.reports.add(report(period))
        uow.reports.add(report(4, records=b""))
        uow.reports.set_state(3, ReportState.LANDED)
        assert uow.reports.delete_from_block(report(2).as_of.number) == 1
        periods = [stored_report.report.period for stored_report in uow.reports.list_latest()]
    assert periods == [1, 3]


def test_report_outcomes_since_period_match_stored_reports(store: Store):
    with store.transaction() as uow:
        for period in (1, 2):
            uow.reports.add(report(period))
        uow.reports.add(report(3, records=b""))
        uow.reports.bind_round(2, 7, report(2).fingerprint)
        stored_cuts = uow.reports.list_outcomes_since(2)
    assert [stored_cut.cut for stored_cut in stored_cuts] == [
        ReportHeader.from_report(report(2)),
        ReportHeader.from_report(report(3, records=b"")),
    ]
    assert [(stored_cut.round, stored_cut.digest) for stored_cut in stored_cuts] == [
        (7, report(2).fingerprint),
        (None, None),
    ]


def test_first_complete_period_never_decreases(store: Store):
    with store.transaction() as uow:
        assert uow.reports.get_first_complete_period() == 0
        for period in (5, 3):
            uow.reports.set_first_complete_period(period)
        assert uow.reports.get_first_complete_period() == 5


def test_marking_missing_report_raises_error(store: Store):
    with pytest.raises(ValueError, match="no report of period 9"), store.transaction() as uow:
        uow.reports.set_state(9, ReportState.MISSED, "why")


def test_stored_report_reproduces_its_fingerprint(store: Store):
    with store.transaction() as uow:
        uow.reports.add(report(1))
        stored = uow.reports.get(1)
    assert stored is not None
    assert stored.report.fingerprint == report(1).fingerprint
    assert stored.report.fingerprint != replace(report(1), head_round=5).fingerprint
