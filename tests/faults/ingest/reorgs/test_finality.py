"""Cases 4, 5 and 16: a final block that is not on the chain."""

from contextlib import suppress

import pytest

from devnet.fakechain.block_json import Block
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.indexer.reorgs.finality_halt import FINALITY_VIOLATION, HaltChanged
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.store.halts import Halt, HaltClearRecord
from oracle.telemetry import indexer_metrics
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.evm.fixtures import chain
from tests.support.harness import Harness
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, Indexer
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    sqlite_harness,
    testbed,
)

__all__ = ["chain", "fresh_chain", "fresh_testbed", "sqlite_harness", "testbed"]

POLL = 24.0
# A halt that no check of the chain opens again.
ANOTHER = "for_a_test"


def read_finality_violation_metric() -> float:
    return float(indexer_metrics.FINALITY_VIOLATION._value.get())


def get_open_halt(indexer: Indexer) -> Halt | None:
    with indexer.store.read_transaction() as uow:
        return uow.halts.find_open_halt(FINALITY_VIOLATION)


def dump_rows_without_halts(indexer: Indexer) -> list[str]:
    """Return all rows of the database except the halts."""
    return [row for row in dump_database_rows(indexer.url) if not row.startswith("halt")]


def mine_conflicting_branch(fake_chain: FakeChain) -> Block:
    """Mine a longer chain from below our final block."""
    return fake_chain.tree.mine_empty_blocks(
        FINALITY + 6, parent_block=fake_chain.back(FINALITY + 3)
    )


def test_case_04_final_block_denied_by_two_endpoints_sets_a_halt(
    indexer: Indexer, fake_chain: FakeChain
):
    indexer.index()
    before = dump_rows_without_halts(indexer)
    stored_head = fake_chain.head
    other_head = mine_conflicting_branch(fake_chain)
    fake_chain.show(other_head)

    done = indexer.index()

    assert [(type(step), step.is_active) for step in done if isinstance(step, HaltChanged)] == [
        (HaltChanged, True)
    ]
    halt = get_open_halt(indexer)
    assert halt is not None
    assert halt.evidence is not None
    assert halt.evidence.our_hash == fake_chain.back(FINALITY, stored_head).hash
    assert halt.evidence.their_hash == fake_chain.back(other_head.number - 22, other_head).hash
    assert read_finality_violation_metric() == 1
    # No automatic data loss: not now, not as the other chain grows, not after a restart.
    fake_chain.mine_empty(5, on=other_head)
    assert indexer.index() == []
    indexer.restart()
    assert indexer.index() == []
    assert dump_rows_without_halts(indexer) == before


def test_case_04_halt_is_cleared_if_two_endpoints_confirm_the_block(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    clock = VirtualClock()
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    stored_head = fake_chain.head
    other_head = mine_conflicting_branch(fake_chain)
    fake_chain.show(other_head)
    indexer.index()

    # One of two is no proof (chainlink-evm PR#429).
    longer = fake_chain.tree.mine_empty_blocks(FINALITY + 8, parent_block=stored_head)
    fake_chain.providers[0].head = longer
    for _ in range(4):
        assert indexer.index() == []
        clock.advance(POLL)
    assert get_open_halt(indexer) is not None

    fake_chain.show(longer)
    (opened, *_) = indexer.index()
    assert isinstance(opened, HaltChanged)
    assert not opened.is_active
    assert get_open_halt(indexer) is None
    assert read_finality_violation_metric() == 0
    assert indexer.cursor == (longer.number, longer.hash)
    assert indexer.canonical_logs() == fake_chain.logs(longer)


def test_case_04_only_endpoint_must_deny_final_block_three_times(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    clock = VirtualClock()
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    indexer.index()
    stored_head = fake_chain.head
    other_head = mine_conflicting_branch(fake_chain)
    fake_chain.show(other_head)
    for _ in range(2):
        assert indexer.index() == []
        assert get_open_halt(indexer) is None
        clock.advance(POLL)
    (halted,) = indexer.index()
    assert isinstance(halted, HaltChanged)

    fake_chain.show(fake_chain.tree.mine_empty_blocks(FINALITY + 8, parent_block=stored_head))
    for _ in range(2):
        assert indexer.index() == []
        clock.advance(POLL)
    (opened, *_) = indexer.index()
    assert isinstance(opened, HaltChanged)
    assert not opened.is_active


def test_case_04_nothing_is_sent_during_halt(sqlite_harness: Harness):
    harness, before = sqlite_harness, sqlite_harness.testbed.nonce
    with harness.store.transaction() as uow:
        uow.halts.open_halt(ANOTHER, "for a test", since_block=1, since_time=1)
    harness.period()

    assert harness.tick() == []
    assert harness.intents() == []

    # Calls planned before are neither signed nor sent, and sent calls are not sent again.
    with harness.store.transaction() as uow:
        uow.halts.clear(ANOTHER, build_clear_record())
    harness.tick()
    assert harness.states() == ["live"]
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    with harness.store.transaction() as uow:
        uow.halts.open_halt(ANOTHER, "for a test", since_block=1, since_time=1)
    harness.mine(4)
    assert harness.tick() == []
    harness.mine()
    assert harness.testbed.nonce == before


def build_clear_record() -> HaltClearRecord:
    return HaltClearRecord(1, "test", "for a test")


def test_case_05_endpoint_that_denies_final_block_is_quarantined(
    indexer: Indexer, fake_chain: FakeChain
):
    indexer.index()
    before = dump_rows_without_halts(indexer)
    stored_head = fake_chain.head
    liar = fake_chain.providers[0]
    liar.head = mine_conflicting_branch(fake_chain)
    fake_chain.following = fake_chain.providers[1:]

    with pytest.raises(TransientError, match="nothing"):
        indexer.step()

    assert list(indexer.source.endpoints.get_quarantine_reasons()) == [
        indexer.source.list_endpoint_names()[0]
    ]
    assert dump_rows_without_halts(indexer) == before
    assert get_open_halt(indexer) is None
    fake_chain.live(3, on=stored_head)
    done = indexer.index()
    assert not any(isinstance(step, RewindResult) for step in done)
    assert indexer.cursor == (fake_chain.head.number, fake_chain.head.hash)
    assert indexer.canonical_logs() == fake_chain.logs()


def test_case_05_endpoint_denying_final_block_at_startup_is_quarantined(
    indexer: Indexer, fake_chain: FakeChain
):
    indexer.index()
    before = dump_rows_without_halts(indexer)
    fake_chain.providers[0].head = mine_conflicting_branch(fake_chain)
    fake_chain.following = fake_chain.providers[1:]
    indexer.restart()

    for _ in range(3):
        with suppress(TransientError):
            indexer.index()

    assert list(indexer.source.endpoints.get_quarantine_reasons()) == [
        indexer.source.list_endpoint_names()[0]
    ]
    assert dump_rows_without_halts(indexer) == before


def test_case_16_final_block_without_logs_is_identified_by_hash(
    indexer: Indexer, fake_chain: FakeChain
):
    indexer.index()
    quiet = fake_chain.mine_empty(40)
    indexer.index()
    with indexer.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    final = fake_chain.back(FINALITY, quiet)
    assert cursor is not None
    assert (cursor.final_number, cursor.final_hash) == (final.number, final.hash)

    # The fork lies in the empty gap, far above the last block with an event.
    fake_chain.mine_empty(20, on=fake_chain.back(FINALITY + 10, quiet))
    done = indexer.index()

    assert [step.is_active for step in done if isinstance(step, HaltChanged)] == [True]
    assert not any(isinstance(step, RewindResult) for step in done)
