"""Random outages, lags and reorgs of three providers while blocks without proofs are audited."""

from collections.abc import Callable
from contextlib import suppress

from hypothesis import HealthCheck, given, settings, strategies as st

from devnet.fakechain.faults import log_faults, transport_faults
from devnet.fakechain.tree import get_branch
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.daemon.maintenance_jobs import AUDIT_BACKOFF_SECONDS
from oracle.errors import TransientError
from oracle.indexer.audit.auditor import Auditor
from tests.faults.ingest.conftest import OpenIndexer
from tests.faults.ingest.proofs.test_further_providers import (
    audit_one_window,
    change_block_hash,
    configure_without_proof,
    count_blocks_without_audit,
    list_disputes,
)
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, Indexer

COUNT = 3


class AuditedChain:
    """Three providers and an indexer that audits their blocks; each action may fail."""

    def __init__(self, chain: FakeChain, indexer: Indexer, clock: VirtualClock) -> None:
        self.chain, self.indexer, self.clock = chain, indexer, clock
        self.auditor = Auditor(min_blocks=1)
        self.lasting_faults = [list(provider.faults) for provider in chain.providers]

    def mine(self, _place: int) -> None:
        self.chain.mine_empty(3)
        self.clock.advance(36)
        self.indexer.index()

    def reorg(self, place: int) -> None:
        self.chain.mine_empty(4, on=self.chain.back(place + 1))
        self.indexer.index()

    def stop(self, place: int) -> None:
        fault = transport_faults.build_http_status_fault(503, methods=log_faults.LOG_METHODS)
        self.chain.providers[place].faults.append(fault)

    def lag(self, place: int) -> None:
        self.chain.following = [
            provider
            for provider in self.chain.following
            if provider is not self.chain.providers[place]
        ]

    def recover(self, place: int) -> None:
        provider = self.chain.providers[place]
        provider.faults[:] = self.lasting_faults[place]
        provider.head = self.chain.head
        self.lag(place)
        self.chain.following.append(provider)

    def audit(self, _place: int) -> None:
        audit_one_window(self.indexer, self.auditor)

    def wait(self, _place: int) -> None:
        self.clock.advance(120)

    def finish(self) -> None:
        """Let all providers recover, and audit until nothing is left."""
        for place in range(COUNT):
            self.recover(place)
        for _ in range(12):
            self.clock.advance(AUDIT_BACKOFF_SECONDS)
            with suppress(TransientError):
                self.indexer.index()
                self.audit(0)


ACTIONS = (
    AuditedChain.mine,
    AuditedChain.reorg,
    AuditedChain.stop,
    AuditedChain.lag,
    AuditedChain.recover,
    AuditedChain.audit,
    AuditedChain.audit,
    AuditedChain.wait,
)


def open_audited_chain(chain: FakeChain, open_indexer: OpenIndexer) -> AuditedChain:
    for _ in range(COUNT - len(chain.providers)):
        chain.serve()
    chain.following = list(chain.providers)
    for provider in chain.providers:
        provider.faults.clear()
    chain.live(10)
    chain.mine_empty(FINALITY + 4)
    clock = VirtualClock()
    indexer = open_indexer(*chain.urls, reports=False, clock=clock)
    configure_without_proof(indexer)
    indexer.index()
    return AuditedChain(chain, indexer, clock)


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, COUNT - 1)), max_size=14),
    liar=st.sampled_from([None, 1, 2]),
)
def test_random_outages_hide_no_conflicting_hash_and_dispute_no_equal_block(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    steps: list[tuple[Callable[[AuditedChain, int], None], int]],
    liar: int | None,
):
    audited_chain = open_audited_chain(fake_chain, open_indexer)
    indexer = audited_chain.indexer
    block = [block for block in get_branch(fake_chain.back(FINALITY)) if block.logs][-1]
    if liar is not None:
        change_block_hash(fake_chain, block, liar)
        audited_chain.lasting_faults[liar] = list(fake_chain.providers[liar].faults)

    for action, place in steps:
        with suppress(TransientError):
            action(audited_chain, place)
    audited_chain.finish()

    disputes = list_disputes(indexer)
    assert bool(disputes) == (liar is not None)
    for dispute in disputes:
        assert list(dispute.blocks) == [block.number]
        assert indexer.urls[liar or 0] in {dispute.giver, dispute.auditor}
    assert count_blocks_without_audit(indexer) == 0
