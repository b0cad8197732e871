"""Between near and far, the notice of a kickout is neither repeated nor taken back."""

from oracle.notify.notice_collector import NoticeCollector
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IndexedHistory
from tests.support.histories import History


def test_kickout_between_near_and_far_sends_no_notice(new_sqlite_store):
    history = History().joins("A")
    with new_sqlite_store() as store:
        indexed, collector = IndexedHistory(store), NoticeCollector(CRYNUX)

        def collect_after(*scores: int) -> list[tuple[str, object]]:
            """Let A get these scores in a new block; return all notices of forecasts so far."""
            folded = len(history.events) if indexed.now else 0
            history.after(60).scores("A", *scores)
            indexed.index(history.events[folded:], history.block, history.time)
            with store.transaction() as uow:
                collector.collect_notices(uow, is_at_head=True)
                notices = uow.notices.list_after(0, 1_000)
            kinds = {"kickout_near", "kickout_far"}
            return [
                (notice.kind, notice.body.get("scores"))
                for notice in notices
                if notice.kind in kinds
            ]

        assert collect_after(*[10] * 12) == []
        assert collect_after(*[0] * 26) == []
        assert collect_after(0) == [("kickout_near", 14)]
        # Due in 16 tasks, and in 15 and 14 again: never far.
        for score in (10, 10, 10, 0, 0):
            assert collect_after(score) == [("kickout_near", 14)]
        assert collect_after(*[10] * 10)[1:] == [("kickout_far", None)]
