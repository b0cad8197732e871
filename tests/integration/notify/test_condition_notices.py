"""Notices about the daemon's health, and the heartbeat, with a real database and target."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.notify.notice_kinds import SELECTABLE_KINDS
from oracle.notify.notifier import SETTLED_SECONDS, ConditionNoticeWriter, Heartbeat
from oracle.notify.target import Message, NoticeFilter, build_notice_message
from oracle.store.database import Store

DOWN = HealthReport.from_findings([HealthFinding(Condition.NO_ENDPOINT, "no answer for 61 s")])
WELL = HealthReport()


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Switch:
    """A target that records its messages, and can be switched off."""

    name: str = "switch"
    notice_filter: NoticeFilter = field(default_factory=NoticeFilter)
    taken: list[Message] = field(default_factory=list)

    def send(self, message: Message) -> None:
        self.taken.append(message)


def list_notice_texts(store: Store, kinds: Sequence[str] = ()) -> list[str]:
    choice = NoticeFilter(frozenset(kinds))
    with store.read_transaction() as uow:
        return [
            build_notice_message(notice).text
            for notice in uow.notices.list_after(0, 100)
            if choice.matches(notice)
        ]


def test_condition_sends_notices_when_it_begins_and_ends(sqlite_url: str):
    clock = Clock()
    with Store.open(sqlite_url, create=True) as store:
        for health in (DOWN, WELL):
            for _ in range(3):
                # A restart between two checks repeats no notice.
                notices = ConditionNoticeWriter(store, clock, lambda: 1_800_000_000.0)
                for _ in range(3):
                    notices.store_condition_notices(health, None)
                    clock.now += SETTLED_SECONDS
        began, over = list_notice_texts(store)
        assert began.startswith("No endpoint answers (no_endpoint): no answer for 61 s; `qos-")
        assert over == "resolved: No endpoint answers (no_endpoint)"
        assert list_notice_texts(store, ["no_endpoint"]) == [began, over]
        assert list_notice_texts(store, ["behind"]) == []


def test_short_condition_sends_no_notice(sqlite_url: str):
    clock = Clock()
    with Store.open(sqlite_url, create=True) as store:
        notices = ConditionNoticeWriter(store, clock, lambda: 0.0)
        for health in (DOWN, WELL, DOWN, WELL):
            notices.store_condition_notices(health, None)
            clock.now += SETTLED_SECONDS - 1
        assert list_notice_texts(store) == []


def test_startup_sends_a_notice_about_the_downtime_before_it(sqlite_url: str):
    with Store.open(sqlite_url, create=True) as store:
        notices = ConditionNoticeWriter(store, Clock(), lambda: 0.0)
        notices.store_condition_notices(WELL, "2 h: the disk is full")
        assert list_notice_texts(store, ["daemon_was_down"]) == [
            "no daemon was running for 2 h: the disk is full"
        ]


@pytest.mark.parametrize("condition", Condition)
def test_every_condition_can_be_selected(condition: Condition):
    assert condition.key in SELECTABLE_KINDS


def test_heartbeat_notice_is_sent_once_per_period():
    clock = Clock()
    switch = Switch()
    heartbeat = Heartbeat(switch, 60, clock)
    for _ in range(3):
        heartbeat.send_if_due(DOWN, 7)
        while heartbeat._call.is_pending:
            heartbeat.send_if_due(DOWN, 7)
        heartbeat.send_if_due(DOWN, 7)
        clock.now += 60
    assert [message.text for message in switch.taken] == 3 * ["heartbeat: down: NO-ENDPOINT"]
