"""The page of a node that left or is accused: its state, and the end of its chart."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import KickAccused
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import ZERO_HASH
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.node_kicks import NodeKick
from oracle.domain.scoring.reliability import remove_reliability_decreases
from oracle.queries.text.human_numbers import format_time
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address
from tests.support.txmgr.stores import NewStore

DAYS = 86_400
A = make_node_address("A")


def load_page(new_store: NewStore, history: History, path: str) -> str:
    with new_store() as store:
        answer = IndexedHistory(store).whole(history).client().get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_paused_node_shows_pause_time(new_sqlite_store: NewStore):
    history = History().joins("A").scores("A", 10).pauses("A")
    since = format_time(history.time)
    page = load_page(new_sqlite_store, history.after(2 * DAYS), f"/nodes/{make_node_address('A')}")
    assert f"<h1>Paused by its owner since {since}.</h1>" in page


def test_factor_of_1_is_not_shown_as_a_drop_in_reliability(new_sqlite_store: NewStore):
    history = History().joins("A").scores("A", 10, 0).after(60)
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store, remove_reliability_decreases(CRYNUX)).whole(history)
        page = indexed.client().get(f"/nodes/{A}").text
    assert "lowered by no event" in page
    assert "by timeouts" not in page


def test_timeout_without_a_penalty_is_not_counted_in_the_headline(new_sqlite_store: NewStore):
    """Under these rules only the first of two timeouts lowers H."""
    rules = replace(CRYNUX, penalty=UNIT, first_penalty=UNIT // 2)
    history = History().joins("A").scores("A", *[10] * 8, 0, 0).after(60)
    with new_sqlite_store() as store:
        page = IndexedHistory(store, rules).whole(history).client().get(f"/nodes/{A}").text
    assert "one timeout in the last" in page.lower()
    assert "two timeouts in the last" not in page.lower()


@pytest.mark.parametrize("leaves", [History.quits, History.is_slashed, History.is_kicked_out])
def test_history_chart_of_departed_node_ends_at_departure(
    new_sqlite_store: NewStore, leaves: Callable[[History, str], History]
):
    history = leaves(History().joins("A").scores("A", 10, 0).after(60), "A")
    left_at = history.time
    history.after(50 * DAYS)
    with new_sqlite_store() as store:
        client = IndexedHistory(store).whole(history).client()
        for span in ("1h", "6h", "24h", "7d", "30d", "all"):
            page = client.get(f"/nodes/{make_node_address('A')}?range={span}").text
            assert f"history?first=1000&amp;last={left_at}" in page, span


def test_accused_and_due_nodes_have_different_pages(new_sqlite_store: NewStore):
    rules = replace(CRYNUX, kick_creator_share=UNIT)
    history = History().joins("A").scores("A", *[0] * rules.pool_size)
    node = make_node_address("A")
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store, rules).whole(history)
        due_page = indexed.client().get(f"/nodes/{node}").text
        accusation = KickAccused(
            at=Position(history.block, 0, 100),
            time=history.time,
            node=node,
            round=1,
            due_since=indexed.fold.ledger.nodes[node].kickout_due_time or 0,
            evidence=ZERO_HASH,
            ready_at=history.time + 5_700,
        )
        with store.transaction() as uow:
            uow.rounds.save_changes(
                ContractChanges(kicks={node: NodeKick(node).accuse(accusation)})
            )
        accused_page = indexed.client().get(f"/nodes/{node}").text
    assert 'class="chip kickout_due"' in due_page
    assert 'class="chip accused"' in accused_page
    assert "in 1 h 35 min" in accused_page
