"""Targets are notified of everything, in order, at least once, despite failures."""

from itertools import groupby

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import OperationCancelled, RulesScheduled
from oracle.domain.ids import Hash
from oracle.domain.reports.contract_state import ContractChanges
from oracle.notify.target import NoticeFilter
from oracle.notify.target_delivery import compute_backoff_seconds
from oracle.store.halts import HaltClearRecord
from tests.integration.notify.notified_daemon import NotifiedDaemon, only_about
from tests.support.examples import examples
from tests.support.histories import GENESIS_TIME, History, make_node_address
from tests.support.receiver import run_receiver
from tests.support.task_traffic import build_burst_history
from tests.support.txmgr.stores import NewStore

OFTEN = examples(20)


def test_timeouts_and_exclusion_send_notices_in_order(
    notified_daemon: NotifiedDaemon,
):
    notified_daemon.times_out("A", 2)

    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.kinds == ["timed_out", "timed_out", "excluded"]
    assert [delivery.decoded["node"] for delivery in notified_daemon.receiver.got] == 3 * [
        make_node_address("A")
    ]
    assert [int(notice_id) for notice_id in notified_daemon.receiver.ids] == [1, 2, 3]


def test_events_before_the_first_start_send_no_notices(notified_daemon: NotifiedDaemon):
    # `begin` folded three joins before the target existed, so they caused no notices.
    assert notified_daemon.receiver.got == []


def test_recovery_over_time_sends_a_notice(notified_daemon: NotifiedDaemon):
    notified_daemon.times_out("A", 2)
    notified_daemon.run_until_idle()
    notified_daemon.chain.mine(after=3600)

    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.kinds[-1] == "recovered"
    assert notified_daemon.receiver.got[-1].decoded["node"] == make_node_address("A")


def test_recovery_and_exclusion_between_two_ticks_send_notices(
    notified_daemon: NotifiedDaemon,
):
    notified_daemon.times_out("A", 2)
    notified_daemon.run_until_idle()
    notified_daemon.chain.mine(after=3600)
    notified_daemon.times_out("A", 2)

    notified_daemon.run_until_idle()

    later = ["recovered", "timed_out", "timed_out", "excluded"]
    assert notified_daemon.receiver.kinds[3:] == later


def test_membership_changes_send_notices_when_they_happen(notified_daemon: NotifiedDaemon):
    turns = History().starts("1", "A").asks_to_pause("A").after(1)
    turns.submits("1").succeeds("1").after(1).resumes("A").after(1)
    for leaves in (History.quits, History.is_slashed, History.is_kicked_out):
        leaves(turns, "A").after(1).joins("A").after(1)
    notified_daemon.chain.mine(*turns.events)

    notified_daemon.run_until_idle()

    assert [
        (delivery.decoded["kind"], delivery.decoded["how"])
        for delivery in notified_daemon.receiver.got
    ] == [
        ("paused", "paused"),
        ("resumed", "resumed"),
        *(
            turn
            for reason in ("quit", "slashed", "kicked out")
            for turn in (("left", reason), ("joined", "joined"))
        ),
    ]


def test_failed_notice_is_retried_before_later_ones_are_sent(notified_daemon: NotifiedDaemon):
    notified_daemon.receiver.statuses.extend([500, 503])
    notified_daemon.times_out("A", 2)
    notified_daemon.run_until_idle()
    assert notified_daemon.receiver.ids == ["1"]
    assert notified_daemon.place().tries == 1
    notified_daemon.run_until_idle()
    assert notified_daemon.receiver.ids == ["1"]

    notified_daemon.now += compute_backoff_seconds(1)
    notified_daemon.run_until_idle()
    notified_daemon.now += compute_backoff_seconds(2)
    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.ids == ["1", "1", "1", "2", "3"]
    assert notified_daemon.place().tries == 0


def test_delivery_position_and_backoff_survive_a_restart(notified_daemon: NotifiedDaemon):
    notified_daemon.receiver.statuses.extend([200, 500])
    notified_daemon.times_out("A", 2)
    notified_daemon.run_until_idle()
    notified_daemon.restart()
    notified_daemon.run_until_idle()
    assert notified_daemon.receiver.ids == ["1", "2"]

    notified_daemon.now += compute_backoff_seconds(1)
    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.ids == ["1", "2", "2", "3"]


def test_backoff_stored_by_a_fast_clock_does_not_delay_notices(
    notified_daemon: NotifiedDaemon,
):
    notified_daemon.receiver.statuses.append(500)
    notified_daemon.now += 86_400
    notified_daemon.times_out("A")
    notified_daemon.run_until_idle()
    notified_daemon.now -= 86_400
    notified_daemon.restart()
    notified_daemon.run_until_idle()
    assert notified_daemon.receiver.ids == ["1", "1"]


def test_notice_is_resent_after_a_crash_before_its_acknowledgement(
    notified_daemon: NotifiedDaemon,
):
    notified_daemon.receiver.gate.clear()
    notified_daemon.times_out("A")
    notified_daemon.run_until_idle(wait_seconds=0)
    notified_daemon.receiver.arrived.wait()
    notified_daemon.restart()
    notified_daemon.receiver.gate.set()

    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.ids == ["1", "1"]


def test_slow_receiver_blocks_neither_daemon_nor_other_targets(notified_daemon: NotifiedDaemon):
    with run_receiver() as quick_receiver:
        notified_daemon.restart(
            [notified_daemon.webhook(), notified_daemon.webhook("quick", url=quick_receiver.url)]
        )
        notified_daemon.run_until_idle()
        notified_daemon.receiver.gate.clear()
        notified_daemon.times_out("A", 2)
        while len(quick_receiver.got) < 3:
            notified_daemon.run_until_idle(wait_seconds=0.02)
        assert quick_receiver.kinds == ["timed_out", "timed_out", "excluded"]
        assert notified_daemon.follower.catch_up() == []
        assert notified_daemon.place().seq == 0

        notified_daemon.receiver.gate.set()
        notified_daemon.run_until_idle()

        assert notified_daemon.receiver.kinds == quick_receiver.kinds


def test_reorg_notice_lists_the_retracted_notices(
    notified_daemon: NotifiedDaemon,
):
    notified_daemon.times_out("A", 2)
    notified_daemon.run_until_idle()
    notified_daemon.chain.fork(1)
    notified_daemon.chain.mine_many(2)

    notified_daemon.run_until_idle()

    fork = notified_daemon.receiver.got[3].decoded
    assert (fork["kind"], fork["undone"]) == ("reorg", [2, 3])
    notified_daemon.times_out("A")
    notified_daemon.run_until_idle()
    assert notified_daemon.receiver.kinds[4:] == ["timed_out", "excluded"]


def test_unsent_notice_of_a_reorged_event_is_not_sent(notified_daemon: NotifiedDaemon):
    notified_daemon.receiver.statuses.append(500)
    notified_daemon.times_out("A", 2)
    notified_daemon.run_until_idle()
    notified_daemon.chain.fork(2)
    notified_daemon.chain.mine_many(3)
    notified_daemon.now += compute_backoff_seconds(1)

    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.kinds == ["timed_out", "reorg"]


def test_owner_is_notified_only_about_their_node(
    notified_daemon: NotifiedDaemon,
):
    notified_daemon.restart([notified_daemon.webhook(choice=only_about(make_node_address("B")))])
    notified_daemon.times_out("A", 2)
    notified_daemon.run_until_idle()
    notified_daemon.chain.fork(1)
    notified_daemon.chain.mine_many(2)
    notified_daemon.run_until_idle()
    assert notified_daemon.receiver.got == []
    notified_daemon.times_out("B")
    notified_daemon.run_until_idle()
    notified_daemon.chain.fork(1)
    notified_daemon.chain.mine_many(2)

    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.kinds == ["timed_out", "reorg"]
    assert notified_daemon.receiver.got[1].decoded["undone"] == [
        int(notified_daemon.receiver.ids[0])
    ]


def test_target_receives_only_selected_kinds(notified_daemon: NotifiedDaemon):
    notified_daemon.restart(
        [notified_daemon.webhook(choice=NoticeFilter(kinds=frozenset({"excluded"})))]
    )
    notified_daemon.times_out("A", 2)

    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.kinds == ["excluded"]


def test_halt_notice_is_sent_immediately_during_a_reorg(
    notified_daemon: NotifiedDaemon,
):
    with notified_daemon.store.transaction() as uow:
        uow.halts.open_halt("by hand", "a final block changed", since_block=1, since_time=10)
    notified_daemon.run_until_idle()
    notified_daemon.chain.mine()
    notified_daemon.run_until_idle()
    notified_daemon.chain.fork(1)
    notified_daemon.chain.mine_many(2)
    notified_daemon.run_until_idle()
    with notified_daemon.store.transaction() as uow:
        uow.halts.clear("by hand", HaltClearRecord(99, "somebody", "seen to"))

    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.kinds == ["halted", "reorg", "halt_cleared"]
    assert notified_daemon.receiver.got[1].decoded["undone"] == []


def test_halt_cleared_between_ticks_still_sends_both_notices(
    notified_daemon: NotifiedDaemon,
):
    with notified_daemon.store.transaction() as uow:
        uow.halts.open_halt("by hand", "a final block changed", since_block=1, since_time=10)
        uow.halts.clear("by hand", HaltClearRecord(99, "somebody", "seen to"))

    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.kinds == ["halted", "halt_cleared"]


def test_new_target_receives_only_later_notices(notified_daemon: NotifiedDaemon):
    notified_daemon.times_out("A", 2)
    notified_daemon.run_until_idle()
    notified_daemon.restart([notified_daemon.webhook("new")])
    notified_daemon.run_until_idle()
    notified_daemon.times_out("B")

    notified_daemon.run_until_idle()

    assert [delivery.decoded["node"] for delivery in notified_daemon.receiver.got[3:]] == [
        make_node_address("B")
    ]


def test_notices_older_than_thirty_days_are_deleted(notified_daemon: NotifiedDaemon):
    notified_daemon.times_out("A")
    notified_daemon.run_until_idle()
    notified_daemon.chain.mine(after=31 * 86_400)
    notified_daemon.times_out("B")
    notified_daemon.run_until_idle()
    notified_daemon.chain.mine()
    notified_daemon.run_until_idle()

    with notified_daemon.store.read_transaction() as uow:
        assert [notice.node for notice in uow.notices.list_after(0, 10)] == [
            make_node_address("B")
        ]


@pytest.mark.slow
@OFTEN
@given(
    turns=st.lists(
        st.tuples(
            st.sampled_from("ABC"),
            st.integers(0, 2),
            st.lists(st.sampled_from([200, 500]), max_size=3),
            st.booleans(),
        ),
        max_size=6,
    )
)
def test_delivered_minus_retracted_notices_equal_stored_notices(
    new_sqlite_store: NewStore, turns: list[tuple[str, int, list[int], bool]]
):
    with new_sqlite_store() as store, run_receiver() as receiver:
        notified_daemon = NotifiedDaemon(store, receiver)
        notified_daemon.begin()
        for name, depth, statuses, is_restarted in turns:
            notified_daemon.times_out(name)
            notified_daemon.receiver.statuses.extend(statuses)
            notified_daemon.run_until_idle()
            if depth:
                notified_daemon.chain.fork(depth)
                notified_daemon.chain.mine_many(depth + 1)
            if is_restarted:
                notified_daemon.restart()
            notified_daemon.now += 4000
        for _ in range(20):
            notified_daemon.run_until_idle()
            notified_daemon.now += 4000

        with store.read_transaction() as uow:
            holds = [notice.seq for notice in uow.notices.list_after(0, 1000)]
        undone = {seq for delivery in receiver.got for seq in delivery.decoded.get("undone", [])}
        heard = [int(notice_id) for notice_id in dict.fromkeys(receiver.ids)]
        assert heard == sorted(heard)
        assert [seq for seq in heard if seq not in undone] == holds


def forecasts_after(notified_daemon: NotifiedDaemon, history: History, *scores: int) -> list[str]:
    """Let A get these scores in a new block; return the kinds of all notices of forecasts."""
    mined = len(history.events)
    notified_daemon.chain.mine(*history.scores("A", *scores).events[mined:])
    notified_daemon.run_until_idle()
    return [
        kind for kind in notified_daemon.receiver.kinds if kind in {"kickout_near", "kickout_far"}
    ]


def test_near_kickout_sends_one_notice_until_it_is_distant_again(notified_daemon: NotifiedDaemon):
    # The pool of these rules has four scores, and a kickout is due below a mean of 4.
    history = History()

    assert forecasts_after(notified_daemon, history, 0) == [], "near for one score only"
    assert forecasts_after(notified_daemon, history, 0) == ["kickout_near"]
    notified_daemon.restart()
    assert forecasts_after(notified_daemon, history, 0) == ["kickout_near"], "still near"
    assert forecasts_after(notified_daemon, history, 10, 10, 10) == ["kickout_near", "kickout_far"]
    assert forecasts_after(notified_daemon, history, 2, 2, 2)[2:] == ["kickout_near"]
    near = [
        delivery.decoded
        for delivery in notified_daemon.receiver.got
        if delivery.decoded["kind"] == "kickout_near"
    ]
    assert [(notice["node"], notice["scores"]) for notice in near] == [
        (make_node_address("A"), 2),
        (make_node_address("A"), 1),
    ]


def test_near_kickout_notice_is_resent_after_a_fork_retracts_it(
    notified_daemon: NotifiedDaemon,
):
    history = History()
    forecasts_after(notified_daemon, history, 0)
    assert forecasts_after(notified_daemon, history, 0) == ["kickout_near"]
    notified_daemon.chain.fork(1)
    notified_daemon.run_until_idle()

    again = History().scores("A", 0, 0)
    notified_daemon.chain.mine(*again.events[len(again.events) // 2 :])
    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.kinds[-1] == "kickout_near"
    assert notified_daemon.receiver.kinds.count("kickout_near") == 2


def list_valid_forecasts(notified_daemon: NotifiedDaemon) -> list[tuple[str, int | None]]:
    with notified_daemon.store.read_transaction() as uow:
        notices = uow.notices.list_after(0, 1_000)
    return [(notice.kind, notice.block) for notice in notices if "kickout" in notice.kind]


def test_fork_after_the_last_score_keeps_the_near_kickout_notice(
    notified_daemon: NotifiedDaemon,
):
    history = History()
    forecasts_after(notified_daemon, history, 0)
    mined = len(history.events)
    notified_daemon.chain.mine(*history.scores("A", 0).events[mined:])
    scored_block = notified_daemon.chain.newest.number
    notified_daemon.chain.mine()
    notified_daemon.run_until_idle()
    assert list_valid_forecasts(notified_daemon) == [("kickout_near", scored_block)]

    notified_daemon.chain.fork(1)
    notified_daemon.chain.mine_many(3)
    notified_daemon.run_until_idle()

    assert list_valid_forecasts(notified_daemon) == [("kickout_near", scored_block)]


def test_incident_sends_notices_when_it_begins_and_ends(notified_daemon: NotifiedDaemon):
    time = GENESIS_TIME
    for event_time, events in groupby(build_burst_history().events, key=lambda event: event.time):
        notified_daemon.chain.mine(*events, after=event_time - time)
        time = event_time
        notified_daemon.run_until_idle()
    incident_notices = [
        delivery.decoded
        for delivery in notified_daemon.receiver.got
        if "incident" in delivery.decoded["kind"]
    ]
    assert [said["kind"] for said in incident_notices] == ["incident_began", "incident_over"]
    cause = f"tasks of the application {make_node_address('burst')} time out"
    assert [said["text"] for said in incident_notices] == [
        f"incident 1 began: {cause}; 10 timeouts on 10 nodes",
        f"incident 1 is over: {cause}",
    ]
    assert [said["incident"] for said in incident_notices] == [1, 1]


def test_reorg_before_incident_retracts_its_notice(notified_daemon: NotifiedDaemon):
    time = GENESIS_TIME
    for event_time, events in groupby(
        build_burst_history().events[:-2], key=lambda event: event.time
    ):
        notified_daemon.chain.mine(*events, after=event_time - time)
        time = event_time
    notified_daemon.run_until_idle()
    assert notified_daemon.receiver.kinds.count("incident_began") == 1

    notified_daemon.chain.fork(4)
    notified_daemon.chain.mine_many(5)
    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.kinds[-1] == "reorg"
    with notified_daemon.store.read_transaction() as uow:
        assert uow.incidents.list_newest(1) == []


def test_announced_and_cancelled_rules_send_notices(notified_daemon: NotifiedDaemon):
    rules = Hash("0x" + "5a" * 32)
    operation = Hash("0x" + "0b" * 32)
    notified_daemon.chain.mine()
    notified_daemon.follower.catch_up()
    block = notified_daemon.chain.newest
    scheduled = RulesScheduled(Position(block.number, 0, 0), block.time, operation, rules, 900)
    cancelled = OperationCancelled(Position(block.number, 0, 1), block.time, operation)
    with notified_daemon.store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(settings=[scheduled, cancelled]))

    notified_daemon.run_until_idle()

    assert notified_daemon.receiver.kinds == ["rules_announced", "rules_cancelled"]
    assert [delivery.decoded["rules"] for delivery in notified_daemon.receiver.got] == [
        rules,
        rules,
    ]
    assert notified_daemon.receiver.got[0].decoded["ready_at"] == 900
