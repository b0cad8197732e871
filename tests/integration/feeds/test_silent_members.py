"""Members that timed out before their group closed: no row names them, and their 0 is derived."""

from collections.abc import Sequence

import pytest
from hypothesis import Phase, given, settings, strategies as st

from oracle.domain.blocks import BlockRef
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_evidence import find_derived_zeros_hold_reason
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.queries.explain import Explanation, explain_score
from oracle.queries.relay_audit.own_figures import derive_figures_from_rows
from oracle.store.database import Store
from oracle.systems.crynux.crynux_rule_sets import RELAY
from tests.integration.feeds.test_feed_faults import list_stored_rows, reread_rows
from tests.support.answers import build_explanation_json
from tests.support.examples import examples
from tests.support.feeds.feed_follower import FeedFollower, follow_relay
from tests.support.feeds.relay import Relay, make_relay_node
from tests.support.feeds.relay_rules import ALL_GROUPS, Stream, close_group, make_node_address

# Each reads streams over HTTP, page by page.
pytestmark = pytest.mark.slow

POOL, NODES = 50, 6


def closes_without(relay: Relay, tasks: Sequence[int], silent: int, nodes: Sequence[int]) -> None:
    """Run a group whose last member times out, and whose others agree."""
    for task_, by in zip(tasks, nodes, strict=True):
        relay.starts(task_, by)
    for task_, by in zip(tasks[:-1], nodes[:-1], strict=True):
        relay.answers(task_, by)
    relay.aborts(silent, reason=1, status=1)
    relay.ends("TaskValidated", tasks[0], nodes[0])
    relay.ends("TaskEndGroupRefund", tasks[1], nodes[1])
    relay.ends("TaskEndGroupSuccess", tasks[0], nodes[0])


def scores_of(store: Store, number: int) -> list[ScoreEntry]:
    with store.read_transaction() as uow:
        return uow.scores.list_for_node(Address(make_relay_node(number)), POOL)


def explain_node(feed: FeedFollower, number: int) -> Explanation:
    folder = feed.follower.folder
    with feed.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    assert cursor is not None
    block = BlockRef(cursor.number, cursor.hash, cursor.hash, cursor.time)
    archive = EventArchive(feed.store, folder.reader, folder.rules)
    return explain_score(archive, Address(make_relay_node(number)), block)


def test_group_member_that_timed_out_gets_a_derived_score_of_0(store: Store):
    relay = Relay()
    for number in (1, 2, 3):
        relay.joins(number)
    closes_without(relay, (11, 12, 13), 13, (1, 2, 3))
    with follow_relay(store, relay) as feed:
        feed.passes(100)

        assert feed.pools() == {
            make_relay_node(1): [10],
            make_relay_node(2): [5],
            make_relay_node(3): [0],
        }
        assert [entry.is_derived for entry in scores_of(store, 3)] == [True]
        assert [entry.is_derived for entry in scores_of(store, 1)] == [False]
        before = feed.digest()
        assert rebuild_state(store, feed.follower.folder, RebuildOptions()).is_same
        assert feed.digest() == before


def test_ambiguous_zero_score_is_listed_but_not_scored(store: Store):
    relay = Relay()
    for number in (1, 2, 3, 4):
        relay.joins(number)
    relay.group({21: 3, 22: 4, 23: 1})
    relay.starts(14, 4)
    for task_, by in ((11, 1), (12, 2), (13, 3)):
        relay.starts(task_, by)
    relay.answers(11, 1)
    relay.answers(12, 2)
    relay.aborts(14, reason=1, status=1)
    relay.aborts(13, reason=1, status=1)
    relay.ends("TaskValidated", 11, 1)
    relay.ends("TaskEndGroupRefund", 12, 2)
    with follow_relay(store, relay) as feed:
        feed.passes(100)

        assert feed.pools()[make_relay_node(3)] == [10]
        explanation = explain_node(feed, 3)
        assert len(explanation.possible_zeros) == 1
        answer = build_explanation_json(explanation)
        assert float(answer["lowest_long_term"]) == 0.5
        assert float(answer["row"]["long_term"]) == 1.0
        assert build_explanation_json(explain_node(feed, 1))["possible_zeros"] == []


def test_kickout_of_a_node_that_always_times_out_is_due_but_held(store: Store):
    relay = Relay()
    for number in (1, 2, 3):
        relay.joins(number)
    with follow_relay(store, relay) as feed:
        for step in range(POOL - 1):
            closes_without(relay, [10 * step + n for n in (1, 2, 3)], 10 * step + 3, (1, 2, 3))
            relay.burn(300)
        feed.passes(60)
        with store.read_transaction() as uow:
            assert uow.kickouts.list_open() == []
        closes_without(relay, (901, 902, 903), 903, (1, 2, 3))
        feed.passes(60)

        with store.read_transaction() as uow:
            assert [interval.node for interval in uow.kickouts.list_open()] == [make_relay_node(3)]
        assert "derived" in build_explanation_json(explain_node(feed, 3))["held"]
    entries = scores_of(store, 3)
    assert [entry.score for entry in entries] == [0] * POOL
    # A stake is not taken for a derived score alone: such a kickout waits for an operator.
    assert "derived" in (find_derived_zeros_hold_reason(entries, RELAY) or "")


def test_kickout_is_held_only_if_it_depends_on_derived_scores(store: Store):
    relay = Relay()
    for number in (1, 2, 3):
        relay.joins(number)
    closes_without(relay, (11, 12, 13), 13, (1, 2, 3))
    with follow_relay(store, relay) as feed:
        feed.passes(100)
    (derived,) = scores_of(store, 3)
    reported_entry = derived._replace(rank=3)
    assert find_derived_zeros_hold_reason([reported_entry] * POOL, RELAY) is None
    assert (
        find_derived_zeros_hold_reason([reported_entry] * (POOL - 9) + [derived] * 9, RELAY)
        is None
    )
    assert (
        find_derived_zeros_hold_reason([reported_entry] * (POOL - 10) + [derived] * 10, RELAY)
        is not None
    )


def test_abort_that_arrives_before_settlement_gives_a_derived_score_of_0(store: Store):
    """A row's id is assigned when it is written, and visible when its transaction ends."""
    relay = Relay()
    for number in (1, 2, 3):
        relay.joins(number)
    closes_without(relay, (11, 12, 13), 13, (1, 2, 3))
    (late,) = (row for row in relay.rows if row["type"] == "TaskEndAborted")
    relay.rows.remove(late)
    with follow_relay(store, relay) as feed:
        feed.passes(20)
        relay.rows.append(late)
        feed.passes(100)

        assert feed.pools()[make_relay_node(3)] == [0]
        assert feed.faults() == []


def test_abort_that_arrives_after_settlement_changes_no_score(store: Store):
    relay = Relay()
    for number in (1, 2, 3):
        relay.joins(number)
    closes_without(relay, (11, 12, 13), 13, (1, 2, 3))
    (late,) = (row for row in relay.rows if row["type"] == "TaskEndAborted")
    relay.rows.remove(late)
    with follow_relay(store, relay) as feed:
        feed.passes(100)
        relay.rows.append(late)

        assert reread_rows(feed) == ["late_row"]
        feed.passes(60)
        assert feed.pools()[make_relay_node(3)] == []
        assert rebuild_state(store, feed.follower.folder, RebuildOptions()).is_same


PLAYED = st.tuples(
    st.sampled_from([group for group in ALL_GROUPS if close_group(group).closes]),
    st.permutations(range(NODES)),
    st.integers(0, 60),
)


def whole_pools(feed: FeedFollower) -> dict[str, list[int]]:
    """Return the pools if all stored rows are read at once; the time of reading matters, too."""
    nodes = derive_figures_from_rows(list_stored_rows(feed), {}).nodes
    return {address: list(own.state.pool) for address, own in nodes.items()}


# Without shrinking: an example polls and mines some hundred times over HTTP.
@settings(examples(12, in_ci=4), phases=[Phase.explicit, Phase.generate])
@given(
    played=st.lists(PLAYED, min_size=1, max_size=14),
    every=st.integers(1, 30),
    restarts=st.sets(st.integers(0, 14), max_size=4),
)
def test_partial_streams_give_the_same_scores_as_the_full_stream(
    played: list[tuple[tuple[str, ...], list[int], int]],
    every: int,
    restarts: set[int],
    databases,
):
    stream = Stream()
    relay = Relay(page_cap=7)
    for number in range(NODES):
        stream.emit(
            "NodeJoin", make_node_address(number), "", node_address=make_node_address(number)
        )
    with databases() as fresh, follow_relay(fresh, relay) as feed:
        for place, (outcomes, order, burnt) in enumerate(played):
            tasks = [3 * place + member for member in range(3)]
            stream.play_group(order[:3], tasks, outcomes, close_group(outcomes))
            stream.next_id += burnt
            relay.rows = [dict(zip(FIELDS, row, strict=True)) for row in stream.rows]
            if place in restarts:
                feed.restart()
            feed.passes(every, every=every)
        feed.passes(100)

        assert feed.pools() == whole_pools(feed)
        before = feed.digest()
        assert rebuild_state(fresh, feed.follower.folder, RebuildOptions()).is_same
        assert feed.digest() == before


FIELDS = ("id", "type", "node_address", "task_id_commitment", "args")
