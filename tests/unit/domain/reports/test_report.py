"""When a report is due; its content depends on nothing but the chain."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundsStruck
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports import report
from oracle.domain.reports.lanes import DO_NOT_SELECT, HIGHEST_SCORE
from oracle.domain.reports.report import (
    PreviousRound,
    Report,
    ReportChange,
    ReportSettings,
    compute_period_number,
    cut_report,
    hash_rules_and_settings,
    measure_lane_changes,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.rounds import build_accepted_round, build_contract_state

SETTINGS = ReportSettings()
AS_OF_TIME = 1_000_000
ROOT = Hash("0x" + 64 * "5")
KICK_LINE = SETTINGS.kick_line

lane_lists = st.lists(st.integers(0, HIGHEST_SCORE), max_size=40)


def block(number: int = 100, time: int = AS_OF_TIME) -> BlockRef:
    return BlockRef(number, Hash(f"0x{number:064x}"), Hash(f"0x{number - 1:064x}"), time)


def last_round(lanes: list[int], time: int = AS_OF_TIME - 60) -> PreviousRound:
    return PreviousRound(1, Hash(f"0x{1:064x}"), time, lanes)


def cut(
    lanes: list[int], before: PreviousRound, *, as_of: BlockRef | None = None, root: Hash = ROOT
) -> Report:
    return cut_report(as_of or block(), before, lanes, root, SETTINGS)


# --- what a report changes ---


@given(lane_lists)
def test_equal_lanes_do_not_count_as_a_change(lanes):
    assert measure_lane_changes(lanes, lanes, KICK_LINE) == ReportChange()


@given(lane_lists, lane_lists)
def test_change_counts_each_node_once(old_lanes, new_lanes):
    new_lanes = [*new_lanes, *[0] * (len(old_lanes) - len(new_lanes))]
    padded_lanes = [*old_lanes, *[DO_NOT_SELECT] * (len(new_lanes) - len(old_lanes))]
    differences = [abs(new - old) for old, new in zip(padded_lanes, new_lanes, strict=True)]

    with pytest.MonkeyPatch.context() as patched:
        # Lanes are compared in several runs.
        patched.setattr(report, "_LANES_PER_RUN", 3)
        change = measure_lane_changes(old_lanes, new_lanes, KICK_LINE)

    assert change.node_count == sum(difference > 0 for difference in differences)
    assert change.steps == sum(differences)
    assert change.max_steps == max(differences, default=0)


@pytest.mark.parametrize(
    ("old_lane", "new_lane"),
    [(2, 1), (1, 2), (KICK_LINE - 1, KICK_LINE), (KICK_LINE, KICK_LINE - 1)],
    ids=["excluded", "selectable again", "above the kickout line", "below it"],
)
def test_step_into_another_band_counts_as_a_band_crossing(old_lane, new_lane):
    change = measure_lane_changes([5002, old_lane], [5002, new_lane], KICK_LINE)
    assert change == ReportChange(1, 1, 1, crosses_band=True)


def test_new_selectable_node_counts_as_a_band_crossing():
    assert measure_lane_changes([5002], [5002, 6002], KICK_LINE).crosses_band
    assert measure_lane_changes([5002], [5002, DO_NOT_SELECT], KICK_LINE) == ReportChange()


# --- when a report is due ---


@pytest.mark.parametrize(("lane", "is_due"), [(5101, False), (5102, True), (4902, True)])
def test_report_is_due_if_a_node_reaches_the_deviation_threshold(lane, is_due):
    assert cut([lane], last_round([5002])).is_due is is_due


def test_report_is_not_due_for_many_small_changes():
    assert not cut([5003] * 400, last_round([5002] * 400)).is_due


def test_report_is_due_if_a_lane_crosses_a_band_by_one_step():
    assert cut([KICK_LINE - 1], last_round([KICK_LINE])).is_due


def test_unchanged_report_is_due_after_heartbeat():
    lanes = [5002, 6002]
    heartbeat = SETTINGS.heartbeat_seconds
    assert not cut(lanes, last_round(lanes, AS_OF_TIME - heartbeat + 1)).is_due
    assert cut(lanes, last_round(lanes, AS_OF_TIME - heartbeat)).is_due


def test_report_without_nodes_is_never_due():
    assert not cut([], last_round([], time=0)).is_due


def test_report_is_due_if_the_last_lanes_are_unknown():
    before = PreviousRound.from_state(
        build_contract_state(build_accepted_round(1, time=AS_OF_TIME - 60))
    )
    assert cut([5002], before).is_due


# --- what a report contains ---


def test_report_follows_the_last_round_at_its_block():
    report = cut(
        [7002],
        PreviousRound.from_state(
            build_contract_state(build_accepted_round(1), build_accepted_round(2))
        ),
    )
    assert (report.head_round, report.prev, report.root) == (2, build_accepted_round(2).root, ROOT)
    assert report.deadline == AS_OF_TIME + SETTINGS.ttl_seconds


def test_report_after_a_struck_round_has_no_previous_root():
    state = build_contract_state(build_accepted_round(1), build_accepted_round(2))
    state.fold_block(3, [RoundsStruck(build_accepted_round(3).at, 0, 2, 2)], journal=False)
    report = cut([7002], PreviousRound.from_state(state))
    assert (report.head_round, report.prev) == (2, ZERO_HASH)


def test_fingerprint_depends_on_block_round_and_root():
    before = last_round([5002])
    reports = [
        cut([5002], before),
        cut([5002], before, as_of=block(number=101)),
        cut([5002], before, as_of=block(time=AS_OF_TIME + 1)),
        cut([5002], before._replace(round=2)),
        cut([5002], before._replace(root=ZERO_HASH)),
        cut([5002], before, root=Hash("0x" + 64 * "6")),
    ]
    assert len({report.fingerprint for report in reports}) == len(reports)


def test_fingerprint_does_not_depend_on_last_lanes():
    known = last_round([5002])
    unknown = last_round([])
    assert cut([5002], known) == cut([5002], unknown)
    assert cut([5002], known).fingerprint == cut([5002], unknown).fingerprint


def settings_with(name: str, value: int) -> ReportSettings:
    changed: dict[str, Any] = {name: value}
    return ReportSettings(**changed)


def test_rules_id_depends_on_every_shared_setting():
    changed_settings = [
        settings_with(name, 7)
        for name in (
            *("period_seconds", "heartbeat_seconds", "deviation"),
            *("ttl_seconds", "kick_below"),
        )
    ]
    ids = {
        hash_rules_and_settings(CRYNUX, "reference", SETTINGS),
        hash_rules_and_settings(RELAY, "reference", SETTINGS),
        hash_rules_and_settings(CRYNUX, "crynux-vss", SETTINGS),
        hash_rules_and_settings(CRYNUX, "reference", ReportSettings(requires_proof=False)),
        *(hash_rules_and_settings(CRYNUX, "reference", changed) for changed in changed_settings),
    }
    assert len(ids) == 9


@pytest.mark.parametrize("name", ["period_seconds", "heartbeat_seconds", "deviation"])
def test_zero_report_setting_is_rejected(name):
    with pytest.raises(ValueError, match=name):
        settings_with(name, 0)


def test_period_number_is_time_divided_by_length():
    assert [compute_period_number(time, 60) for time in (0, 59, 60, 121)] == [0, 0, 1, 2]
