"""An export contains the chain's events, and folds to the state of the daemon."""

import json

import pytest

from oracle.domain.blocks import BlockRange
from oracle.domain.events.jsonl import parse_events
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fixed_point import format_decimal
from oracle.domain.scoring.node_scores import compute_reliability, get_status
from oracle.indexer import stored_events
from oracle.indexer.stored_events import export_events
from oracle.queries.replay import replay_events
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain, ScriptedReader
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import RULES, Follower, mine_blocks

EVERYTHING = BlockRange(0, 10**9)
TRAFFIC = Traffic(5).blocks(60)


def export_blocks(store: Store, blocks: BlockRange = EVERYTHING) -> list[str]:
    with store.read_transaction() as uow:
        return list(export_events(uow, ScriptedReader(), blocks))


def list_chain_events(chain: ScriptedChain) -> list[DomainEvent]:
    logs = [log for block in chain.blocks for log in block.logs]
    return ScriptedReader().decode_rows(logs, []).events


def test_export_contains_events_in_order_of_position(store):
    follower = Follower(mine_blocks(TRAFFIC), store)
    follower.catch_up()
    events = parse_events(export_blocks(store))

    assert events == list_chain_events(follower.chain)
    assert len(events) > 50
    assert events == sorted(events, key=lambda event: event.at)


def test_export_does_not_depend_on_the_batch_size(store, monkeypatch):
    Follower(mine_blocks(TRAFFIC), store).catch_up()
    full_export = export_blocks(store)
    monkeypatch.setattr(stored_events, "LOGS_AT_ONCE", 1)
    assert export_blocks(store) == full_export
    assert (
        export_blocks(store, BlockRange(0, 20)) + export_blocks(store, BlockRange(21, 99))
        == full_export
    )


def test_export_omits_orphaned_events(store):
    follower = Follower(mine_blocks(TRAFFIC[:40]), store)
    follower.catch_up()
    follower.chain = mine_blocks(TRAFFIC[45:60], follower.chain.fork(6))
    follower.catch_up()
    assert parse_events(export_blocks(store)) == list_chain_events(follower.chain)


def test_export_without_events_is_empty(store):
    Follower(mine_blocks([[], []]), store).catch_up()
    assert export_blocks(store) == []


@pytest.mark.parametrize("blocks", [20, 60])
def test_replaying_an_export_reproduces_the_state_of_the_daemon(store, blocks):
    Follower(mine_blocks(TRAFFIC[:blocks]), store).catch_up()
    printed = json.loads(replay_events(export_blocks(store), RULES, None, None))
    time = printed["as_of"]["time"]
    with store.read_transaction() as uow:
        nodes = {node.address: node for node in uow.nodes.iterate_all()}

    assert {row["node"] for row in printed["nodes"]} == set(nodes)
    for row in printed["nodes"]:
        node = nodes[row["node"]]
        assert row["status"] == get_status(node)
        assert row["task_scores"] == list(node.pool)
        assert row["reliability"] == format_decimal(compute_reliability(node, time, RULES))
        assert row["kickout_due"] == (node.kickout_due_since is not None)
