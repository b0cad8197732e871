"""Which block a period's report speaks of."""

from oracle.reporting.recompute import find_last_block
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain
from tests.support.txmgr.follower import SETTINGS, Follower

LENGTH = SETTINGS.period_seconds


def test_report_on_orphaned_block_does_not_determine_last_block_of_period(
    store: Store,
):
    follower = Follower(ScriptedChain(), store)
    follower.chain.mine_many(30)
    follower.catch_up()
    with store.read_transaction() as uow:
        kept, lost = uow.reports.list_latest(2)
    follower.chain.fork(follower.chain.newest.number - lost.report.as_of.number + 1)
    follower.chain.mine_many(10)
    follower.catch_up()

    theirs = follower.chain.fetch_header(lost.report.as_of.number)
    assert theirs != lost.report.as_of
    assert find_last_block(follower.chain, store, lost.report.period, LENGTH) == theirs
    assert find_last_block(follower.chain, store, kept.report.period, LENGTH) == kept.report.as_of
