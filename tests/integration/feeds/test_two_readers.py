"""A second reader of the same feed has the same order, ranks and scores; with our times,
the same bytes.
"""

from fractions import Fraction

import pytest
from hypothesis import Phase, given, settings, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import compute_reliability
from oracle.errors import InputError
from oracle.indexer.witness_file import export_witness_lines, import_witness_lines
from oracle.store.database import Store
from oracle.systems.crynux.crynux_rule_sets import RELAY
from tests.support.examples import examples
from tests.support.feeds.feed_follower import FeedFollower, follow_relay
from tests.support.feeds.relay import Relay, make_relay_node
from tests.support.scripted import ScriptedChain

# Each reads streams over HTTP, page by page.
pytestmark = pytest.mark.slow

LAG = 7


def play_step(relay: Relay, step: int) -> None:
    """Run one step: groups in turn, timeouts, nodes that join and leave."""
    if step == 0:
        for number in range(1, 6):
            relay.joins(number)
        return
    runners = [1 + (step + offset) % 5 for offset in range(3)]
    relay.group(
        {10 * step + offset: by for offset, by in enumerate(runners)}, score=f"0x{step:02x}"
    )
    if step % 3 == 0:
        relay.starts(1_000 + step, runners[0])
        relay.aborts(1_000 + step, reason=1, status=1)


def read_both(first_reader: FeedFollower, second_reader: FeedFollower, steps: int) -> None:
    """Read one relay at different times: the second reader is `LAG` seconds late."""
    relay = first_reader.relay
    for step in range(steps):
        play_step(relay, step)
        first_reader.passes(10)
        relay.now += LAG
        second_reader.poll()
        relay.now -= LAG
    first_reader.passes(60)
    relay.now += LAG
    second_reader.poll()
    relay.now += 60
    second_reader.poll()
    while second_reader.chain.newest.time + 10 <= relay.now:
        second_reader.chain.mine()
    second_reader.catch_up()


def test_readers_with_different_poll_times_compute_equal_scores(store: Store, other_store: Store):
    relay = Relay()
    chain = ScriptedChain()
    with (
        follow_relay(store, relay, chain) as first_reader,
        follow_relay(other_store, relay, chain) as second_reader,
    ):
        second_reader.relay = relay
        read_both(first_reader, second_reader, 8)

        assert first_reader.pools() == second_reader.pools()
        assert sum(map(len, first_reader.pools().values())) == 21


def test_reliability_at_two_readers_differs_only_by_their_poll_times(
    store: Store, other_store: Store
):
    relay = Relay()
    chain = ScriptedChain()
    with (
        follow_relay(store, relay, chain) as first_reader,
        follow_relay(other_store, relay, chain) as second_reader,
    ):
        read_both(first_reader, second_reader, 8)
        now = relay.now
        with (
            first_reader.store.read_transaction() as uow,
            second_reader.store.read_transaction() as second_uow,
        ):
            node_by_address = {
                stored_node.address: stored_node for stored_node in uow.nodes.iterate_all()
            }
            for stored_node in second_uow.nodes.iterate_all():
                mine = compute_reliability(node_by_address[stored_node.address], now, RELAY)
                his = compute_reliability(stored_node, now, RELAY)
                # |dH| <= (1 - H) * dt / tau for each of at most four penalties and boosts.
                bound = Fraction(4 * (10 + LAG), RELAY.tau_seconds)
                assert Fraction(abs(mine - his), UNIT) <= bound


def test_importing_a_witness_file_produces_an_identical_state(store: Store, other_store: Store):
    relay = Relay()
    chain = ScriptedChain()
    with follow_relay(store, relay, chain) as first_reader:
        for step in range(6):
            play_step(relay, step)
            first_reader.passes(10)
        first_reader.passes(60)
        with store.read_transaction() as uow:
            lines = list(export_witness_lines(uow))
        digest = first_reader.digest()
        newest = relay.now
    with follow_relay(other_store, relay, chain) as second_reader:
        assert import_witness_lines(other_store, lines) == len(lines)
        for _ in range(5):
            second_reader.poll()
            relay.now += 10
        relay.now = newest + 50
        second_reader.poll()
        second_reader.catch_up()

        assert second_reader.digest() == digest
        with other_store.read_transaction() as uow:
            assert list(export_witness_lines(uow)) == lines


def test_importing_a_witness_file_requires_an_empty_database(store: Store):
    relay = Relay()
    relay.joins(1)
    with follow_relay(store, relay) as feed:
        feed.passes(60)
        with pytest.raises(InputError, match="empty"):
            import_witness_lines(store, [])


# Without shrinking: an example polls and mines some hundred times over HTTP.
@settings(examples(6, in_ci=3), phases=[Phase.explicit, Phase.generate])
@given(
    moments=st.lists(st.integers(1, 40), min_size=6, max_size=6),
    gaps=st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
def test_scores_do_not_depend_on_poll_times(moments: list[int], gaps: list[int], databases):
    expected_pools: dict[str, list[int]] = {}
    for step in range(1, 6):
        for rank, offset in enumerate(range(3)):
            number = make_relay_node(1 + (step + offset) % 5)
            expected_pools.setdefault(number, []).append((10, 5, 2)[rank])
    relay = Relay()
    with databases() as fresh, follow_relay(fresh, relay) as feed:
        for step, (seconds, gap) in enumerate(zip(moments, gaps, strict=True)):
            play_step(relay, step)
            relay.burn(gap)
            feed.passes(seconds, every=seconds)
        feed.passes(60)

        assert feed.pools() == expected_pools
