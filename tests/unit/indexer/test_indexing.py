"""One loop for backfill and head: the state does not depend on the steps."""

from dataclasses import replace

import pytest

from oracle.domain.events.network_events import NodeJoined, NodePaused
from oracle.domain.ids import Hash
from oracle.domain.scoring.rules import Rules
from oracle.errors import FatalError, TransientError
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.loop import IngestState
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain
from tests.support.traffic import AT, TIME, Traffic, make_address
from tests.support.txmgr.follower import RULES, Follower, folder, mine_blocks
from tests.support.txmgr.stores import NewStore

BLOCKS = Traffic(1).blocks(120)


def dump_after(
    new_store: NewStore, chain: ScriptedChain, *, restarting: bool = False
) -> list[str]:
    with new_store() as store:
        follower = Follower(chain, store)
        follower.catch_up(restarting=restarting)
        return follower.dump()


def test_indexing_history_stores_scores_kickouts_and_rounds(new_store: NewStore):
    with new_store() as store:
        Follower(mine_blocks(BLOCKS), store).catch_up()

        with store.read_transaction() as uow:
            assert uow.logs.count() > 200
            assert uow.results.count() > 5
            assert uow.kickouts.list_open()
            assert uow.rounds.list_accepted()


@pytest.mark.parametrize(
    "rules", [pytest.param(RULES, marks=pytest.mark.slow), replace(RULES, close="terminal")]
)
def test_window_size_does_not_change_state(new_store: NewStore, rules: Rules):
    dumps = []
    for most_blocks in (3, 50, 1_000):
        chain = mine_blocks(BLOCKS)
        chain.most_blocks = most_blocks
        with new_store() as store:
            follower = Follower(chain, store, folder=folder(rules))
            follower.catch_up()
            with store.read_transaction() as uow:
                assert uow.results.count() > 5
            dumps.append(follower.dump())

    assert dumps[0] == dumps[1] == dumps[2]


@pytest.mark.slow
def test_following_the_head_gives_the_same_state_as_backfill(new_store: NewStore):
    with new_store() as store:
        follower = Follower(ScriptedChain(), store)
        for block_args in BLOCKS[:60]:
            follower.chain.mine(*block_args)
            follower.catch_up()

        assert follower.dump() == dump_after(new_store, follower.chain)


def test_restarting_after_every_transaction_does_not_change_state(new_store: NewStore):
    chain = mine_blocks(BLOCKS)
    chain.most_blocks = 5

    assert dump_after(new_store, chain, restarting=True) == dump_after(
        new_store, mine_blocks(BLOCKS)
    )


def test_decreasing_time_is_detected_across_restart(store: Store):
    follower = Follower(mine_blocks([[NodeJoined(AT, TIME, make_address(1))]]), store)
    follower.catch_up(restarting=True)
    follower.chain.mine(NodePaused(AT, TIME, make_address(1)), after=-5)

    follower.catch_up()

    with store.read_transaction() as uow:
        assert uow.anomalies.count() == 1


def test_backfill_and_live_indexing_produce_identical_reports(new_store: NewStore):
    with new_store() as live, new_store() as late:
        follower = Follower(ScriptedChain(), live)
        for first in range(0, 120, 3):
            mine_blocks(BLOCKS[first : first + 3], follower.chain)
            follower.catch_up(restarting=True)
        Follower(follower.chain, late).catch_up()

        with live.read_transaction() as live_uow, late.read_transaction() as late_uow:
            cut_live = {
                stored.report.period: stored.report for stored in live_uow.reports.list_newest(99)
            }
            cut_late = {
                stored.report.period: stored.report for stored in late_uow.reports.list_newest(99)
            }
    # 24 blocks of 10 seconds contain the ends of four periods of a minute.
    assert len(cut_late) == 4
    assert len(cut_live) == 20
    assert cut_late.items() <= cut_live.items()
    assert len({report.root for report in cut_late.values()}) > 1


def test_report_is_built_as_of_last_block_of_period(store: Store):
    follower = Follower(ScriptedChain(), store)
    follower.chain.mine_many(3)
    follower.catch_up()
    last_of_period = follower.chain.newest
    follower.chain.mine(after=60)

    (indexed,) = follower.catch_up()

    assert isinstance(indexed, CommittedWindow)
    assert [note.name for note in indexed.notes] == ["reports"]
    with store.read_transaction() as uow:
        assert [stored_report.report.as_of for stored_report in uow.reports.list_newest(1)] == [
            last_of_period
        ]


def test_no_report_is_built_without_oracle_contract(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store, folder=folder(reports=False))

    follower.catch_up()

    with store.read_transaction() as uow:
        assert uow.reports.list_newest(99) == []


def test_indexing_step_at_the_head_returns_none(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()

    assert follower.step() is None


def test_indexing_starts_at_start_block(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store, start_block=40)

    follower.catch_up()

    with store.read_transaction() as uow:
        assert min(log.block for log in uow.logs.iterate_between(0, 200)) >= 40
    assert follower.chain.windows_served[0].first == 40


def test_future_start_block_raises_transient_error_until_reached(store: Store):
    follower = Follower(ScriptedChain(), store, start_block=3)

    with pytest.raises(TransientError, match="block 3 does not exist yet"):
        follower.step()
    follower.chain.mine_many(3)
    assert follower.catch_up()
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
    assert cursor is not None
    assert cursor.number == 3


def test_lagging_endpoint_does_not_change_index(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    before = follower.dump()

    follower.chain.lag = 5

    assert follower.step() is None
    assert follower.dump() == before


def test_backfill_does_not_store_headers_or_a_journal(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store, folder=folder(reports=False))

    first = follower.step()

    assert isinstance(first, CommittedWindow)
    assert first.blocks.last == 120 - follower.chain.finality_depth
    with store.read_transaction() as uow:
        assert len(uow.blocks.list_canonical(0, 200)) == 1
        assert uow.undo.find_lowest_reachable_block() == first.blocks.last


def test_journal_reaches_back_to_final_block(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)

    follower.catch_up()

    with store.read_transaction() as uow:
        assert uow.undo.find_lowest_reachable_block() == 120 - follower.chain.finality_depth


def test_new_final_block_is_stored_even_without_a_new_head(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    follower.chain.finality_depth = 2

    assert follower.step() is None

    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        assert cursor is not None
        assert cursor.final_number == 118
        assert uow.undo.find_lowest_reachable_block() == 118
    follower.chain.mine()
    assert follower.catch_up()


def test_writer_writes_nothing_if_another_process_is_ahead(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.chain.most_blocks = 10
    follower.step()
    overtaking_follower = Follower(mine_blocks(BLOCKS), store)
    window = follower.chain.fetch_window

    def nonces_ahead(*args: object, **more: object) -> object:
        overtaking_follower.step()
        return window(*args, **more)  # type: ignore[arg-type]  # passed through

    follower.chain.fetch_window = nonces_ahead  # type: ignore[method-assign, assignment]

    with pytest.raises(FatalError, match="another process"):
        follower.step()
    assert overtaking_follower.dump() == Follower(overtaking_follower.chain, store).dump()


def test_window_from_another_fork_changes_nothing(store: Store):
    chain = mine_blocks(BLOCKS)
    follower = Follower(chain, store)
    follower.catch_up()
    before = follower.dump()
    astray = chain.copy()
    astray.fork(3)
    astray.mine_many(5)
    chain.mine()
    # Heads from the chain, the window from another, and all later responses from the chain.
    chain.answers.extend([chain, astray])

    with pytest.raises(TransientError, match="still shown by"):
        follower.step()

    assert follower.dump() == before
    assert follower.catch_up()


def test_log_that_cannot_be_decoded_stops_the_indexer_before_a_write(store: Store):
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.chain.most_blocks = 10
    follower.step()
    before = follower.dump()
    for block in follower.chain.blocks[11:20]:
        for log in block.logs:
            log.topics = (Hash("0x" + 64 * "0"),)
            log.data = "0x00"

    with pytest.raises(AttributeError):
        follower.step()

    assert follower.dump() == before


def test_events_are_counted_under_their_documented_names(store: Store):
    chain = mine_blocks(
        [[NodeJoined(AT, TIME, make_address(1)), NodePaused(AT, TIME, make_address(2))]]
    )

    (done,) = Follower(chain, store).catch_up()

    assert isinstance(done, CommittedWindow)
    assert done.event_counts == {"node_joined": 1, "node_paused": 1}
    with store.read_transaction() as uow:
        assert uow.anomalies.count() == 1


def test_slow_window_is_followed_by_smaller_windows():
    ingest = IngestState()

    ingest.adapt_window_size(400, 4.0)
    assert ingest.max_blocks == 100
    ingest.adapt_window_size(100, 0.4)
    assert ingest.max_blocks == 200


def test_heads_are_refreshed_every_two_seconds_during_backfill():
    now = [100.0]
    ingest = IngestState(clock=lambda: now[0])
    chain = mine_blocks(BLOCKS)
    first = ingest.get_heads(chain, 1, head_depth=24)
    chain.mine()

    assert ingest.get_heads(chain, 50, head_depth=24) is first
    now[0] += 2.5
    assert ingest.get_heads(chain, 50, head_depth=24).latest == chain.newest


def test_heads_are_refreshed_every_step_near_head():
    ingest = IngestState(clock=lambda: 0.0)
    chain = mine_blocks(BLOCKS)
    ingest.get_heads(chain, 1, head_depth=24)
    chain.mine()

    assert ingest.get_heads(chain, 100, head_depth=24).latest == chain.newest
