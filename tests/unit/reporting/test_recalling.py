"""Which block a period's report speaks of."""

from oracle.reporting.recompute import last_block_of
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain
from tests.support.txmgr.follower import SETTINGS, Follower

LENGTH = SETTINGS.period_seconds


def test_a_report_of_a_block_that_left_the_chain_does_not_name_its_periods_last_block(
    store: Store,
):
    follower = Follower(ScriptedChain(), store)
    follower.chain.mine_many(30)
    follower.catch_up()
    with store.reading() as uow:
        kept, lost = uow.reports.latest(2)
    follower.chain.fork(follower.chain.newest.number - lost.report.as_of.number + 1)
    follower.chain.mine_many(10)
    follower.catch_up()

    theirs = follower.chain.header(lost.report.as_of.number)
    assert theirs != lost.report.as_of
    assert last_block_of(follower.chain, store, lost.report.period, LENGTH) == theirs
    assert last_block_of(follower.chain, store, kept.report.period, LENGTH) == kept.report.as_of
