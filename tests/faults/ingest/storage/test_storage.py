"""Cases 63, 67, 68 and 74: undecodable logs, new contracts, start blocks, new fold versions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from devnet.fakechain.block_json import FakeLog, Tx
from devnet.fakechain.mining import create_account
from oracle.chain.profiles.event_reader import DecodedEvents, EventReader, restrict_reader_to_scope
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import IngestScope
from oracle.domain.fold.fold import FOLD_VERSION
from oracle.domain.ids import Address
from oracle.domain.logs import Call, Log
from oracle.errors import TransientError
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.audit.scope_backfill import (
    ScopeBackfill,
    ScopeBackfillResult,
    backfill_next_gap,
)
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import RebuildOptions, list_open_dead_letters, retry_dead_letters
from oracle.queries.index_checks import find_index_gaps
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.chain.network_logs import NETWORK, ORACLE, make_node_address
from tests.support.ingest.event_encoding import encode_network_log, encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.honest import index_honest_chain
from tests.support.ingest.indexer import FINALITY, Indexer


def adapt_database(indexer: Indexer) -> list[ScopeBackfillResult]:
    """Return the results of every step that adapts the database to configuration and program."""
    scope_backfill = ScopeBackfill()
    done = []
    while (
        step := backfill_next_gap(
            RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions()),
            scope_backfill,
        )
    ) is not None:
        done.append(step)
    return done


# --- 63: unreadable rows ---


class Learned(EventReader):
    """A reader of the next version, which can decode the logs of a changed contract."""

    def decode_rows(self, logs: Sequence[Log], calls: Sequence[Call]) -> DecodedEvents:
        return super().decode_rows([_remove_added_word(log) for log in logs], calls)


def add_word_to_log(log: FakeLog) -> FakeLog:
    """Return the same event of a changed contract, with an additional word."""
    return replace(log, data="0x" + "ee" * 31 + log.data[2:])


def _remove_added_word(log: Log) -> Log:
    is_changed = log.data.startswith("0x" + "ee" * 31)
    return replace(log, data="0x" + log.data[2 + 62 :]) if is_changed else log


def restart_with_new_reader(indexer: Indexer) -> Indexer:
    """Continue with a program that can decode the changed contract."""
    reader = Learned.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)
    indexer.folder = EventFolder(CRYNUX, reader, indexer.folder.hooks)
    return indexer


def test_case_63_undecodable_logs_are_decoded_after_an_upgrade(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.emit(
        add_word_to_log(encode_network_log("NodeQuit", node=make_node_address(1))),
        encode_task_created_log(901),
    )
    fake_chain.emit(add_word_to_log(encode_task_created_log(902)))
    last = fake_chain.live(6)
    indexer = open_indexer(*fake_chain.urls)

    indexer.index()

    assert indexer.cursor == (last.number, last.hash)
    assert [letter.name for letter in list_open_dead_letters(indexer.store)] == [
        "NodeQuit",
        "TaskCreated",
    ]
    assert indexer.canonical_logs() == fake_chain.logs()
    still = retry_dead_letters(indexer.store, indexer.folder, RebuildOptions())
    assert (still.readable, len(still.unreadable), still.rebuilt) == ((), 2, None)
    retried = retry_dead_letters(
        indexer.store, restart_with_new_reader(indexer).folder, RebuildOptions()
    )
    assert (len(retried.readable), retried.unreadable) == (2, ())
    assert list_open_dead_letters(indexer.store) == []
    fresh = restart_with_new_reader(open_indexer(*fake_chain.urls))
    fresh.index()
    assert indexer.digest() == fresh.digest()


def test_case_63_dead_letter_is_orphaned_with_its_block(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    base = fake_chain.head
    fake_chain.emit(add_word_to_log(encode_task_created_log(902)))
    indexer = open_indexer(*fake_chain.urls)
    indexer.index()
    assert len(list_open_dead_letters(indexer.store)) == 1

    fake_chain.mine_empty(3, on=base)
    indexer.index()

    assert list_open_dead_letters(indexer.store) == []
    with indexer.store.read_transaction() as uow:
        orphans = uow.dead_letters.list_between(0, base.number + 1, canonical=False)
    assert [letter.block for letter in orphans] == [base.number + 1]


# --- 67: contracts and events that are new in the configuration ---


def restart_with_reader(indexer: Indexer, reader: EventReader) -> Indexer:
    """Continue as a process whose configuration names what this reader reads."""
    endpoints = indexer.source.endpoints
    indexer.source = ChainSource(endpoints, reader, FINALITY, clock=indexer.clock)
    indexer.folder = EventFolder(CRYNUX, reader, indexer.folder.hooks)
    return indexer


def list_log_requests(fake_chain: FakeChain, since: int) -> list[tuple[set[str], set[str]]]:
    """Return addresses and first topics of every log request since the given request."""
    questions: list[dict[str, Any]] = [
        request.params[0]
        for request in list(fake_chain.provider.received_requests)[since:]
        if request.method == "eth_getLogs"
    ]
    return [(set(log_filter["address"]), set(log_filter["topics"][0])) for log_filter in questions]


def test_case_67_only_new_contracts_and_events_are_read(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.mine_empty(FINALITY)
    indexer = open_indexer(fake_chain.urls[0], reports=False)
    now = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)
    submitted = encode_network_log(
        "TaskSubmitted",
        task=make_task_key(),
        node=make_node_address(1),
        resultHash=make_task_key(),
    )
    new_topic = submitted.topics[0]
    old_topics = [topic for topic in now.topics if topic != new_topic]
    restart_with_reader(
        indexer, restrict_reader_to_scope(now, IngestScope.create([NETWORK], old_topics))
    ).index()
    request_count = len(fake_chain.provider.received_requests)

    steps = adapt_database(restart_with_reader(indexer, now))

    assert [step.rebuilt is not None for step in steps] == [False] * (len(steps) - 1) + [True]
    assert {step.blocks_left for step in steps[-2:]} == {0}
    questions = list_log_requests(fake_chain, request_count)
    assert {frozenset(addresses) for addresses, _ in questions} == {
        frozenset([ORACLE]),
        frozenset([NETWORK]),
    }
    # Of the contract that we knew, the new event alone.
    assert {frozenset(topics) for to, topics in questions if to == {NETWORK}} == {
        frozenset([new_topic])
    }
    fresh = open_indexer(fake_chain.urls[0], reports=False)
    fresh.index()
    assert indexer.canonical_logs() == fresh.canonical_logs() == fake_chain.logs()
    assert indexer.digest() == fresh.digest()
    with indexer.store.read_transaction() as uow:
        gaps = find_index_gaps(uow, now)
    assert gaps is not None
    assert not gaps.has_gaps


def make_task_key() -> str:
    return "0x" + "07" * 32


def test_case_67_new_calls_of_contract_are_read_for_old_blocks(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    watched = "0x12345678"
    caller = create_account(1)
    call = Tx(caller, NETWORK, watched + "07")
    called = fake_chain.show(fake_chain.tree.mine([call, Tx(caller, NETWORK, "0x87654321")]))
    fake_chain.mine_empty(FINALITY)
    indexer = open_indexer(fake_chain.urls[0], reports=False)
    indexer.index()
    now = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)
    now.selectors = {Address(NETWORK): frozenset({watched})}

    steps = adapt_database(restart_with_reader(indexer, now))

    assert sum(step.row_count for step in steps) == 1
    assert steps[-1].rebuilt is not None
    with indexer.store.read_transaction() as uow:
        (stored,) = uow.calls.iterate_between(0, called.number)
        assert (stored.block, stored.sender, stored.input) == (called.number, caller, call.input)
        gaps = find_index_gaps(uow, now)
    assert gaps is not None
    assert not gaps.has_gaps


def test_case_67_interrupted_backfill_resumes_at_the_last_block(
    fake_chain: FakeChain, open_indexer: OpenIndexer, monkeypatch: pytest.MonkeyPatch
):
    fake_chain.mine_empty(FINALITY)
    monkeypatch.setattr("oracle.indexer.audit.scope_backfill.CHUNK", 7)
    indexer = open_indexer(fake_chain.urls[0], reports=False)
    now = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)
    restart_with_reader(
        indexer, restrict_reader_to_scope(now, IngestScope.create([NETWORK], now.topics))
    ).index()
    restart_with_reader(indexer, now)
    options = RebuildOptions()
    context = RepairContext(indexer.source, indexer.store, indexer.folder, options)
    first = backfill_next_gap(context, ScopeBackfill())
    assert first is not None

    indexer.restart()
    steps = adapt_database(indexer)

    assert steps[0].blocks is not None
    assert (steps[0].blocks.first, steps[-1].rebuilt is not None) == (7, True)
    fresh = open_indexer(fake_chain.urls[0], reports=False)
    fresh.index()
    assert indexer.digest() == fresh.digest()


# --- 68: start blocks ---


def test_case_68_daemon_waits_for_a_future_start_block(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    start = fake_chain.head.number + 5
    indexer = open_indexer(*fake_chain.urls, start_block=start)

    with pytest.raises(TransientError, match=rf"block {start} does.*newest.* {start - 5}"):
        indexer.index()

    fake_chain.mine_empty(4)
    fake_chain.emit(encode_task_created_log(700))
    fake_chain.mine_empty(2)
    indexer.index()
    assert indexer.canonical_logs() == fake_chain.logs()[-1:]


def test_case_68_start_block_at_the_head_is_included(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    head = fake_chain.emit(encode_task_created_log(700))
    indexer = open_indexer(*fake_chain.urls, start_block=head.number)

    indexer.index()

    assert indexer.cursor == (head.number, head.hash)
    assert indexer.canonical_logs() == fake_chain.logs()[-1:]
    with indexer.store.read_transaction() as uow:
        scope = indexer.folder.scope.id
        assert [span.blocks for span in uow.coverage.list_intervals(scope)] == [
            BlockRange(head.number, head.number)
        ]


def test_case_68_backfill_from_block_0_resumes_after_every_restart(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(*fake_chain.urls, start_block=0)
    indexer.ingest.max_blocks = 8
    assert isinstance(indexer.step(), CommittedWindow)

    while True:
        indexer.restart()
        indexer.ingest.max_blocks = 8
        if indexer.step() is None:
            break

    assert indexer.canonical_logs() == fake_chain.logs()
    assert indexer.gaps() == []
    assert indexer.digest() == index_honest_chain(fake_chain, open_indexer).digest()


# --- 74: another version of the fold ---


def test_case_74_state_of_another_version_is_refolded_offline(
    indexer: Indexer, fake_chain: FakeChain, monkeypatch: pytest.MonkeyPatch
):
    indexer.index()
    before = indexer.digest()
    with indexer.store.transaction() as uow:
        # The result of the older version.
        uow.nodes.save(
            [
                replace(node_state, base=node_state.base // 2)
                for node_state in uow.nodes.iterate_all()
            ]
        )
    monkeypatch.setattr("oracle.indexer.provenance.FOLD_VERSION", FOLD_VERSION + 1)
    request_count = len(fake_chain.provider.received_requests)

    (step,) = adapt_database(indexer)

    assert len(fake_chain.provider.received_requests) == request_count
    assert step.rebuilt is not None
    assert not step.rebuilt.is_same
    assert indexer.digest() == before
    # The difference is reported once; then indexing continues.
    assert adapt_database(indexer) == []
