"""Calls that were planned on blocks that left the chain."""

import pytest

from oracle.store.database import Store
from oracle.store.outbox.records import PUSH, Account, CallRequest, IntentState, Stamp
from tests.support.chain.network_logs import ORACLE
from tests.support.traffic import Traffic, make_address
from tests.support.txmgr.follower import Follower, mine_blocks

US = Account(1, make_address(0xAB))


@pytest.mark.slow
def test_push_planned_at_an_orphaned_block_expires(store: Store):
    follower = Follower(mine_blocks(Traffic(3).blocks(100)), store)
    follower.catch_up()
    with store.transaction() as uow:
        uow.outbox.accounts.enroll_account(US, 0, Stamp(1, 1))
        as_of = uow.reports.list_newest(1)[0].report.as_of
        planned = uow.outbox.intents.add(
            CallRequest(
                account=US,
                contract=ORACLE,
                kind=PUSH,
                dedup_key="push:1",
                period=1,
                calldata="0x",
                as_of_block=as_of.number,
                as_of_hash=as_of.hash,
            ),
            Stamp(1, 1),
        )
    assert planned is not None
    follower.chain.fork(7)
    follower.chain.mine_many(8)

    follower.catch_up()

    with store.read_transaction() as uow:
        intent = uow.outbox.intents.get(planned)
    assert intent is not None
    assert (intent.state, intent.error_class) == (IntentState.EXPIRED, "as_of_reorged")
