"""A feed beside the chain: stored raw, ordered, folded, undone, and folded again."""

from oracle.domain.state import Membership
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.store.database import Store
from tests.support.feeds.feed_follower import follow_relay
from tests.support.feeds.relay import Relay, make_relay_node


def busy(relay: Relay) -> Relay:
    """Let three nodes join and run one group: 1 is the fastest, 3 the slowest."""
    for number in (1, 2, 3):
        relay.joins(number)
    relay.group({11: 1, 12: 2, 13: 3})
    return relay


def test_group_is_scored_in_the_order_of_its_rows(store: Store):
    with follow_relay(store, busy(Relay())) as feed:
        feed.passes(100)

        assert feed.pools() == {
            make_relay_node(1): [10],
            make_relay_node(2): [5],
            make_relay_node(3): [2],
        }


def test_rows_are_not_folded_before_they_settle(store: Store):
    with follow_relay(store, busy(Relay())) as feed:
        feed.passes(30)
        assert feed.pools() == {}

        feed.passes(30)
        assert len(feed.pools()) == 3


def test_block_is_not_folded_before_its_rows_settle(store: Store):
    with follow_relay(store, Relay()) as feed:
        feed.passes(50)
        feed.relay.joins(1)
        feed.passes(10)
        first_seen = feed.relay.now
        feed.passes(20)

        with store.read_transaction() as uow:
            cursor = uow.cursor.get()
        assert cursor is not None
        assert cursor.time <= first_seen < feed.chain.newest.time


def test_rebuild_produces_the_same_digest(store: Store):
    with follow_relay(store, busy(Relay())) as feed:
        feed.passes(100)
        before = feed.digest()

        rebuilt = rebuild_state(store, feed.follower.folder, RebuildOptions())

        assert rebuilt.is_same
        assert feed.digest() == before
        assert len(feed.pools()) == 3


def test_reorg_reverts_and_reapplies_rows(store: Store, other_store: Store):
    with follow_relay(store, busy(Relay())) as feed:
        feed.passes(60)
        feed.chain.fork(4)
        feed.chain.mine_many(5)
        feed.passes(60)
        forked = feed.digest()
        chain = feed.chain
    with follow_relay(other_store, busy(Relay())) as feed:
        for _ in range(12):
            feed.relay.now += 10
            feed.poll()
        feed.follower.chain = chain
        feed.catch_up()

        assert len(feed.pools()) == 3
        assert feed.digest() == forked


def test_restart_at_any_step_does_not_change_the_state(store: Store, other_store: Store):
    with follow_relay(store, busy(Relay())) as feed:
        feed.passes(100)
        full_digest = feed.digest()
    with follow_relay(other_store, busy(Relay())) as feed:
        for _ in range(10):
            feed.passes(10)
            feed.restart()

        assert feed.digest() == full_digest


def test_kicked_out_node_is_not_recorded_as_quit(store: Store):
    with follow_relay(store, busy(Relay())) as feed:
        feed.relay.leaves("NodeQuit", 2)
        feed.relay.leaves("NodeKickedOut", 2)
        feed.passes(100)

        with store.read_transaction() as uow:
            (kicked_node,) = (
                stored_node
                for stored_node in uow.nodes.iterate_all()
                if stored_node.address == make_relay_node(2)
            )
            assert kicked_node.membership is Membership.KICKED_OUT
            assert uow.anomalies.count() == 0


def test_only_timeouts_penalised_by_the_relay_lower_reliability(store: Store):
    relay = Relay()
    for number in (1, 2, 3):
        relay.joins(number)
        relay.starts(20 + number, number)
    relay.aborts(21, reason=1, status=1)
    relay.answers(22, 2)
    relay.aborts(22, reason=8, status=4)
    relay.answers(23, 3)
    relay.aborts(23, reason=9, status=5)
    with follow_relay(store, relay) as feed:
        feed.passes(100)

        with store.read_transaction() as uow:
            blamed = {
                stored_node.address
                for stored_node in uow.nodes.iterate_all()
                if stored_node.base < 10**18
            }
        assert blamed == {make_relay_node(1), make_relay_node(3)}


def test_rows_older_than_the_first_block_are_folded(store: Store):
    with follow_relay(store, busy(Relay())) as feed:
        feed.passes(6, every=1)
        with store.read_transaction() as uow:
            assert uow.cursor.get() is None
        feed.passes(60)

        assert len(feed.pools()) == 3
