"""The block to which a period's report refers."""

from oracle.reporting.recompute import find_last_block_of_period
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain
from tests.support.txmgr.follower import SETTINGS, Follower

LENGTH = SETTINGS.period_seconds


def test_orphaned_report_does_not_set_last_block_of_period(
    store: Store,
):
    follower = Follower(ScriptedChain(), store)
    follower.chain.mine_many(30)
    follower.catch_up()
    with store.read_transaction() as uow:
        canonical_report, lost = uow.reports.list_newest(2)
    follower.chain.fork(follower.chain.newest.number - lost.report.as_of.number + 1)
    follower.chain.mine_many(10)
    follower.catch_up()

    replacing_block = follower.chain.fetch_header(lost.report.as_of.number)
    assert replacing_block != lost.report.as_of
    assert (
        find_last_block_of_period(follower.chain, store, lost.report.period, LENGTH)
        == replacing_block
    )
    assert (
        find_last_block_of_period(follower.chain, store, canonical_report.report.period, LENGTH)
        == canonical_report.report.as_of
    )
