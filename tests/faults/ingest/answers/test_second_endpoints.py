"""The effects of a second endpoint's data: who omits, who invents, and what waits (L5)."""

from collections.abc import Collection, Mapping
from threading import Event
from typing import Any

from devnet.fakechain.block_json import Block, FakeLog, Tx
from devnet.fakechain.fault import FaultLimits, InjectedFault, wrap_change_to_skip_errors
from devnet.fakechain.faults import block_faults, log_faults, transport_faults
from devnet.fakechain.requests import FakeRequest
from oracle.indexer.audit.auditor import Auditor, AuditResult, audit_next_window
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.rebuild import RebuildOptions
from tests.faults.ingest.conftest import OpenIndexer
from tests.faults.ingest.endpoints.test_new_heads import wait_until
from tests.faults.ingest.proofs.test_audit import (
    WINDOW,
    audit_due_windows,
    omit_one_log,
    set_verification_policy,
)
from tests.support.ingest.event_encoding import ANYBODY
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, MINIMAL_POLICY, Indexer
from tests.support.ingest.reading import add_busy_blocks, add_fault


def build_invented_logs_fault(blocks: Collection[Block], like: Mapping[str, Any]) -> InjectedFault:
    """Return a fault that adds a log like this in each of these blocks to responses about logs."""

    def add_logs(request: FakeRequest, answer: Any) -> object:
        first, last = request.block_range or (0, -1)
        invented_logs = [
            {
                **like,
                "blockNumber": hex(block.number),
                "blockHash": block.hash,
                "blockTimestamp": hex(block.time),
                "logIndex": "0x0",
            }
            for block in blocks
            if first <= block.number <= last
        ]
        return answer + invented_logs

    return InjectedFault(
        "logs invented",
        wrap_change_to_skip_errors(add_logs),
        limits=FaultLimits(methods="eth_getLogs"),
    )


def follow_and_audit(
    fake_chain: FakeChain, indexer: Indexer, auditor: Auditor, blocks: int
) -> list[AuditResult]:
    """Mine blocks with our logs and foreign logs in turn; return the results of the audit."""
    done: list[AuditResult] = []
    for number in range(blocks):
        if number % 3 == 0:
            foreign_tx = Tx(ANYBODY, ANYBODY, logs=(FakeLog(ANYBODY, ()),))
            fake_chain.show(fake_chain.tree.mine([foreign_tx]))
        else:
            fake_chain.live(1)
        indexer.index()
        while (
            audit := audit_next_window(
                RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions()),
                auditor,
            )
        ) is not None:
            done.append(audit)
    return done


def test_audit_repairs_a_log_that_a_removed_endpoint_omitted(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.live(40)
    fake_chain.mine_empty(FINALITY + WINDOW)
    omit_one_log(fake_chain)
    fake_chain.serve()
    fake_chain.show(fake_chain.head)
    indexer = open_indexer(fake_chain.urls[0], reports=False)
    set_verification_policy(indexer, MINIMAL_POLICY)
    indexer.index()
    indexer.restart(fake_chain.urls[1:])
    indexer.index()

    audits = audit_due_windows(indexer)

    assert [audit.outcome for audit in audits if audit.difference] == ["repaired"]
    assert indexer.canonical_logs() == fake_chain.logs()


def test_audit_rejects_logs_fabricated_in_oversized_blocks(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    add_busy_blocks(fake_chain)
    quiet = [fake_chain.mine_empty(1) for _ in range(60)]
    fake_chain.mine_empty(FINALITY + WINDOW)
    indexer = open_indexer(*fake_chain.urls, reports=False)
    indexer.index()
    before = indexer.canonical_logs()
    every = {"fromBlock": "0x0", "toBlock": hex(fake_chain.head.number)}
    add_fault(
        fake_chain,
        build_invented_logs_fault(
            quiet, fake_chain.provider.handle_call("eth_getLogs", [every])[0]
        ),
        1,
    )

    audits = audit_due_windows(indexer, quiet[-1].number + 1)

    assert indexer.canonical_logs() == before
    assert {audit.outcome for audit in audits if audit.difference} == {"denied"}


def test_case_26_logs_of_other_fork_are_rejected_without_proofs(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.live(40)
    fake_chain.mine_empty(FINALITY + WINDOW)
    for provider in fake_chain.providers:
        provider.faults.append(block_faults.build_wrong_receipts_root_fault())
    here, _ = fake_chain.logs()[20]

    def moved(log: dict[str, Any]) -> None:
        if log["blockHash"] == here:
            log["blockHash"] = "0x" + "ab" * 32

    lie = add_fault(
        fake_chain, log_faults.build_every_log_changed_fault("logs of another fork", moved)
    )
    indexer = open_indexer(*fake_chain.urls, reports=False)

    indexer.index()

    assert lie.hit_count
    assert indexer.canonical_logs() == fake_chain.logs()


def test_audit_at_the_head_waits_until_a_window_is_full(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    add_busy_blocks(fake_chain)
    indexer = open_indexer(*fake_chain.urls, reports=False)
    indexer.index()
    auditor = Auditor(window_blocks=20, resample_interval=2**63)

    audits = follow_and_audit(fake_chain, indexer, auditor, 60)

    assert {len(audit.blocks) for audit in audits} == {20}
    with indexer.store.read_transaction() as uow:
        audited_count = uow.coverage.count_audited_blocks(indexer.folder.scope.id)
    assert audited_count == len(audits) * 20


def limit_window_size(indexer: Indexer, blocks: int) -> Indexer:
    """Limit the ranges of every endpoint to `blocks` blocks, as if it had named this limit."""
    indexer.source._window_source._limit_store.restore_limits()
    for endpoint in indexer.source.endpoints:
        endpoint.limits.range_sizer.limit = blocks
    return indexer


def test_case_50_pruned_small_windows_are_not_read_as_empty(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.live(60)
    fake_chain.mine_empty(FINALITY + WINDOW)
    for provider in fake_chain.providers:
        provider.faults += [
            block_faults.build_wrong_receipts_root_fault(),
            block_faults.build_zero_bloom_fault(),
        ]
    add_fault(fake_chain, log_faults.build_silent_pruning_fault(60))
    indexer = limit_window_size(open_indexer(*fake_chain.urls, reports=False), 10)

    indexer.index()

    assert indexer.canonical_logs() == fake_chain.logs()


def test_case_50_partly_pruned_window_is_not_read_as_empty(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.live(60)
    fake_chain.mine_empty(FINALITY + WINDOW)
    for provider in fake_chain.providers:
        provider.faults += [
            block_faults.build_wrong_receipts_root_fault(),
            block_faults.build_zero_bloom_fault(),
        ]
    add_fault(fake_chain, log_faults.build_silent_pruning_fault(60))
    indexer = open_indexer(*fake_chain.urls, reports=False)

    indexer.index()

    assert indexer.canonical_logs() == fake_chain.logs()


def test_indexing_does_not_wait_for_a_slow_auditor(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.live(40)
    fake_chain.mine_empty(FINALITY + WINDOW)
    omit_one_log(fake_chain)
    indexer = open_indexer(*fake_chain.urls, reports=False)
    set_verification_policy(indexer, MINIMAL_POLICY)
    indexer.index()
    gate = Event()
    add_fault(
        fake_chain, transport_faults.build_held_response_fault(gate, methods="eth_getLogs"), 1
    )
    auditor = Auditor(window_blocks=fake_chain.head.number - FINALITY + 1, wait_seconds=0.0)

    def turn() -> AuditResult | None:
        context = RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions())
        return audit_next_window(context, auditor)

    assert turn() is None
    fake_chain.live(2)
    assert [step for step in indexer.index() if isinstance(step, CommittedWindow)]
    assert (turn(), auditor.has_pending_request) == (None, True)
    gate.set()
    wait_until(lambda: (audit := turn()) is not None and audit.outcome == "repaired")
    assert indexer.canonical_logs() == fake_chain.logs()
