"""The order of nodes equals that of the command line; paging returns each node once."""

import json
from itertools import chain, groupby
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node
from oracle.queries.api import node_list, node_order
from oracle.queries.api.draw_weights import is_available
from oracle.queries.api.node_list import MAX_ROWS, NodeListQuery, list_nodes
from oracle.queries.api.node_order import NodeRanking, NodeSort
from oracle.queries.api.source import RequestError, open_snapshot
from oracle.queries.population import load_all_nodes
from oracle.store.state.node_repository import NodeRepository
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_WEIGHTING,
    compute_max_stake,
    compute_stake_score,
    compute_weight,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.api import IndexedHistory
from tests.support.examples import examples
from tests.support.histories import History, make_node_address
from tests.support.random_histories import disturbed_histories, legal_histories
from tests.unit.systems.legacy.networks import rules_with

RESTARTING = Rules.from_json(
    json.dumps({**json.loads(RELAY.to_json()), "restarts": [1300, 1301, 4000]})
)
SORTS: tuple[NodeSort, ...] = get_args(NodeSort)
TEN = [f"n{number}" for number in range(10)]


def a_network() -> History:
    """Return a history of ten nodes with various scores, some of them in parallel."""
    history = History().joins(*TEN)
    for place, name in enumerate(TEN):
        history.scores(name, *[(10, 5, 2, 0)[(place + turn) % 4] for turn in range(place % 5)])
    return history.after(7)


@pytest.fixture
def indexed(store):
    return IndexedHistory(store)


def list_ranked_nodes(indexed, **query_fields):
    with open_snapshot(indexed.source) as snapshot:
        return list_nodes(snapshot, NodeListQuery(**query_fields))


def all_pages(indexed, **query_fields):
    listed_nodes, cursor = [], None
    while True:
        page = list_ranked_nodes(indexed, cursor=cursor, **query_fields)
        listed_nodes += [row.node for row in page.nodes]
        if page.next is None:
            return listed_nodes
        cursor = page.next


def test_node_order_matches_command_line(indexed):
    indexed.whole(a_network())
    assert list_ranked_nodes(indexed, limit=MAX_ROWS) == load_all_nodes(
        indexed.store, indexed.rules, {}, indexed.now
    )


@pytest.mark.parametrize("sort", ["qos", "-qos", "long_term", "-reliability", "scored", "address"])
@pytest.mark.parametrize("limit", [1, 3, 200])
def test_pages_of_the_same_block_contain_each_node_once(indexed, sort, limit):
    indexed.whole(a_network())
    listed_nodes = all_pages(indexed, sort=sort, limit=limit)
    all_nodes = {row.node for row in list_ranked_nodes(indexed, limit=MAX_ROWS).nodes}
    assert (len(listed_nodes), set(listed_nodes)) == (len(all_nodes), all_nodes)


@pytest.mark.parametrize("nodes_per_candidate", [1, 10**6])
@pytest.mark.parametrize("sort", ["qos", "-reliability"])
@pytest.mark.parametrize(
    "filters",
    [
        {"state": "selectable"},
        {"state": "excluded"},
        {"state": "quit"},
        {"prefix": make_node_address("n3")[:3]},
        {"prefix": make_node_address("n3"), "state": "excluded"},
        {
            "of": frozenset(
                {make_node_address("n1"), make_node_address("n4"), make_node_address("unknown")}
            )
        },
        {"gpu": "rtx", "state": "selectable"},
        {"gpu": "4090"},
        {"gpu": "", "prefix": make_node_address("n3")[:3]},
    ],
)
def test_filtered_pages_together_equal_the_filtered_list(
    indexed, monkeypatch, nodes_per_candidate, sort, filters
):
    """The filters may read the keys of all nodes, or only those of the candidates."""
    monkeypatch.setattr(node_list, "_MIN_NODES_PER_CANDIDATE", nodes_per_candidate)
    history = a_network().pauses("n6").updates("n2", gpu_name="RTX 4090")
    for task in range(12):
        name = ("n3", "n8")[task % 2]
        history.creates(f"t{task}").starts(f"t{task}", name).times_out(f"t{task}", by=name)
    indexed.whole(history)

    def is_selected(row) -> bool:
        return (
            row.state == filters.get("state", row.state)
            and row.node.startswith(filters.get("prefix", "0x"))
            and row.node in filters.get("of", {row.node})
            and filters.get("gpu", "") in (row.gpu or "").casefold()
        )

    expected = [
        row.node for row in list_ranked_nodes(indexed, sort=sort).nodes if is_selected(row)
    ]
    assert all_pages(indexed, sort=sort, limit=2, **filters) == expected


def test_new_blocks_update_the_ranking_in_memory(indexed):
    history = History().joins(*TEN)
    indexed.whole(history)
    assert list_ranked_nodes(indexed).total == len(TEN)
    done = len(history.events)
    history.after(5).scores("n3", 10, 0).joins("late")
    indexed.index(history.events[done:], history.block, history.time)
    updated_list = list_ranked_nodes(indexed)
    fresh_source = IndexedHistory(indexed.store).source
    with open_snapshot(fresh_source) as snapshot:
        assert [row.node for row in list_nodes(snapshot, NodeListQuery()).nodes] == [
            row.node for row in updated_list.nodes
        ]


def test_only_changed_nodes_are_read_again_during_backfill(indexed, monkeypatch):
    history = History().joins(*TEN)
    indexed.whole(history)
    before = list_ranked_nodes(indexed)
    done = len(history.events)
    history.after(5).scores("n3", 10, 0).joins("late")
    indexed.index(history.events[done:], history.block, history.time)
    with indexed.store.transaction() as uow:
        uow.blocks.orphan_above(0)

    def read_all(_: NodeRepository) -> None:
        raise AssertionError("all nodes are read again")

    monkeypatch.setattr(NodeRepository, "iterate_all", read_all)
    assert (before.total, list_ranked_nodes(indexed).total) == (
        len(TEN),
        len(indexed.fold.ledger.nodes),
    )


def orders_of(ranking: NodeRanking) -> tuple[object, ...]:
    places = {name: ranking.find_rank(name) for name in ranking.nodes}
    gpus = {
        node.gpu_name: ranking.find_nodes_by_gpu(node.gpu_name or "")
        for node in ranking.nodes.values()
    }
    weights = ranking.get_draw_weights(CRYNUX_WEIGHTING)
    members = [ranking.get_ranked_key(rank + 1) for rank in range(ranking.member_count)]
    return (
        ranking.counts,
        ranking.state_by_address,
        places,
        members,
        weights,
        gpus,
        ranking.members_by_gpu,
    )


def sum_weights_plainly(ranking: NodeRanking, rules: Rules) -> tuple[int, int]:
    """Return the sum of the weights of all available members, and their number."""
    members = [node for node in ranking.nodes.values() if node.membership is Membership.MEMBER]
    largest_stake = compute_max_stake(members)
    weights = [
        compute_weight(
            UNIT,
            compute_stake_score(node.stake, largest_stake),
            ranking.compute_qos(node) or 0,
            CRYNUX_WEIGHTING,
        )
        for node in members
        if is_available(node, ranking.cursor.time, rules)
    ]
    return sum(weights), len(weights)


# Steps: a number of blocks, a pause after them in which reliability recovers, and the orders that
# are requested then; the other orders are updated at a later step.
@settings(examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(legal_histories(40), disturbed_histories(max_size=40)),
    st.sampled_from((CRYNUX, RELAY, rules_with(), RESTARTING)),
    st.lists(
        st.tuples(
            st.integers(0, 8),
            # Reliability is 1 - 10^-18 after 21 hours, and 1 after 44.4 hours.
            st.sampled_from([0, 1, 60, 600, 7_200, 80_000, 153_000, 160_000]),
            st.sets(st.sampled_from(SORTS)),
        ),
        min_size=2,
        max_size=6,
    ),
)
def test_incremental_ranking_equals_fresh_ranking(new_sqlite_store, events, rules, steps):
    blocks = [list(block) for _, block in groupby(events, key=lambda event: event.at.block)]
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store, rules)
        block = 0
        time = 1_000
        for many, pause, sorts in [*steps, (len(blocks), 60, SORTS[:1]), (0, 600, SORTS)]:
            piece = list(chain.from_iterable(blocks[:many]))
            blocks = blocks[many:]
            time = max(time, piece[-1].time if piece else 0) + pause
            block = max([event.at.block for event in piece], default=block)
            indexed.index(piece, block, time)
            with open_snapshot(indexed.source) as snapshot:
                updated_ranking = snapshot.get_ranking()
                nodes_now = {
                    stored_node.address: stored_node
                    for stored_node in snapshot.uow.nodes.iterate_all()
                }
                fresh_ranking = NodeRanking(snapshot.cursor, nodes_now, rules)
            assert updated_ranking.nodes == fresh_ranking.nodes
            assert orders_of(updated_ranking) == orders_of(fresh_ranking)
            assert updated_ranking.get_draw_weights(CRYNUX_WEIGHTING)[:2] == sum_weights_plainly(
                fresh_ranking, rules
            )
            for sort in sorts:
                keys = list(fresh_ranking.iterate_sorted_keys(sort, None, None))
                assert list(updated_ranking.iterate_sorted_keys(sort, None, None)) == keys
                for start in range(0, len(keys), 7):
                    rest = updated_ranking.iterate_sorted_keys(sort, keys[start], None)
                    assert list(rest) == keys[start + 1 :]


def test_recovering_node_rises_in_the_ranking_without_new_events(indexed):
    history = History().joins("A", "B").scores("A", 10, 10).scores("B", 10, 5)
    history.creates("1").starts("1", "A").after(5).times_out("1")
    indexed.whole(history)
    before = [row.node for row in list_ranked_nodes(indexed).nodes][:2]
    history.after(7_200)
    indexed.index([], history.block + 1, history.time)
    after = [row.node for row in list_ranked_nodes(indexed).nodes][:2]
    assert (before, after) == (
        [make_node_address("B"), make_node_address("A")],
        [make_node_address("A"), make_node_address("B")],
    )


def test_block_without_events_recomputes_no_fully_recovered_node(indexed, monkeypatch):
    history = History().joins(*TEN)
    history.creates("1").starts("1", "n1").after(5).times_out("1")
    indexed.whole(history)
    list_ranked_nodes(indexed)
    scored: list[Node] = []

    def compute_qos(node: Node, *_: object) -> int | None:
        scored.append(node)
        return None

    history.after(60)
    indexed.index([], history.block + 1, history.time)
    monkeypatch.setattr(node_order, "compute_qos_with_reliability", compute_qos)
    with open_snapshot(indexed.source) as snapshot:
        member_count = snapshot.get_ranking().member_count

    assert (member_count, scored) == (len(TEN), [])


def test_rewind_clears_the_ranking(indexed):
    indexed.whole(a_network())
    before = list_ranked_nodes(indexed)
    with indexed.store.transaction() as uow:
        uow.projections.clear()
        cursor = uow.cursor.get()
        block = uow.blocks.find_canonical(cursor.number)
        uow.cursor.move_to(block, None, cursor.epoch)
    assert (before.total > 0, list_ranked_nodes(indexed).total) == (True, 0)


def test_next_page_is_marked_as_moved_after_a_new_block(indexed):
    history = a_network()
    indexed.whole(history)
    first = list_ranked_nodes(indexed, limit=3)
    history.after(600)
    indexed.index([], history.block, history.time)
    second = list_ranked_nodes(indexed, limit=200, cursor=first.next)
    assert (first.moved, second.moved) == (False, True)
    assert second.nodes


@pytest.mark.parametrize("cursor", ["", "x", "WzFd", "bnVsbA", "WyIiLCJxb3MiLDAsMCwiIl0", "_-_-"])
def test_malformed_cursor_is_rejected(indexed, cursor):
    indexed.whole(a_network())
    with pytest.raises(RequestError, match="cursor"):
        list_ranked_nodes(indexed, cursor=cursor)


def test_cursor_of_another_sort_is_rejected(indexed):
    indexed.whole(a_network())
    cursor = list_ranked_nodes(indexed, limit=1).next
    with pytest.raises(RequestError, match="another sort"):
        list_ranked_nodes(indexed, sort="scored", cursor=cursor)


def test_filtered_list_shows_ranks_of_the_full_list(indexed):
    indexed.whole(a_network())
    place_by_node = {row.node: row.place for row in list_ranked_nodes(indexed).nodes}
    filtered_rows = list_ranked_nodes(
        indexed, of=frozenset({make_node_address("n3"), make_node_address("n7")})
    ).nodes
    assert {row.node: row.place for row in filtered_rows} == {
        make_node_address(name): place_by_node[make_node_address(name)] for name in ("n3", "n7")
    }
    assert list_ranked_nodes(indexed, prefix="0xff").nodes == []
