"""After a contradiction in the feed, nothing is signed until an operator accepts the feed."""

from oracle.domain.feed_rows import FeedFault
from oracle.indexer.feed_faults import BAD_ROW, CHANGED
from tests.support.harness import Harness
from tests.support.sending.rounds import list_signed_statements


def test_nothing_is_signed_while_a_feed_fault_is_open(harness: Harness):
    with harness.store.transaction() as uow:
        uow.feed.record_faults([FeedFault(CHANGED, 1, 7, 1_000, "it was told in another way")])
    harness.period()
    harness.tick()
    assert list_signed_statements(harness, 1) == []

    with harness.store.transaction() as uow:
        uow.feed.accept_faults(2_000)
    harness.tick()
    assert len(list_signed_statements(harness, 1)) == 1


def test_malformed_feed_row_does_not_block_signing(harness: Harness):
    with harness.store.transaction() as uow:
        uow.feed.record_faults([FeedFault(BAD_ROW, 1, 7, 1_000, "args: must be valid JSON")])
    harness.period()
    harness.tick()
    assert len(list_signed_statements(harness, 1)) == 1
