"""Shared code of the tests of forks: a join, counters, and the final checks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from devnet.fakechain.block_json import Block
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.provider import Provider
from oracle.errors import TransientError
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.store.database import Store, UnitOfWork
from tests.support.ingest.event_encoding import encode_network_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer
from tests.support.traffic import make_address

NEWCOMER = make_address(0xBEEF)


def encode_unknown_join_log() -> Any:
    """Return the log of a join of an unknown node."""
    return encode_network_log(
        "NodeJoined",
        node=NEWCOMER,
        stake=1,
        gpuName="",
        gpuVram=0,
        major=0,
        minor=0,
        patch=0,
        models=[],
    )


def read_counter(metric: Any) -> float:
    return float(metric._value.get())


def index_with_retries(indexer: Indexer) -> list[object]:
    """Index to the head; a failed step is repeated, as in the daemon. Return the results."""
    done: list[object] = []
    for _ in range(60):
        try:
            step = indexer.step()
        except TransientError as error:
            done.append(error)
            continue
        if step is None:
            return done
        done.append(step)
    raise AssertionError(done)


def assert_index_equals_chain(
    indexer: Indexer, fake_chain: FakeChain, head: Block | None = None
) -> None:
    """Assert that the index equals the chain, and that a rebuild gives the same state."""
    head = head or fake_chain.head
    assert indexer.cursor == (head.number, head.hash)
    assert indexer.canonical_logs() == fake_chain.logs(head)
    assert indexer.gaps() == []
    assert rebuild_state(indexer.store, indexer.folder, RebuildOptions(dry_run=True)).is_same


def record_header_batch_sizes(provider: Provider) -> list[int]:
    """Return a list to which the number of headers in each later batch is appended."""
    sizes: list[int] = []

    def note(requests: Any, answers: Any) -> Any:
        sizes.append(len(requests))
        return answers

    fault = InjectedFault("counts", change_batch=note, limits={"methods": "eth_getBlockByNumber"})
    provider.faults.append(fault)
    return sizes


class Counting:
    """A store that counts its writing transactions."""

    def __init__(self, store: Store) -> None:
        self.read_transaction = store.read_transaction
        self._transaction = store.transaction
        self.writes = 0

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        with self._transaction() as uow:
            yield uow
        self.writes += 1


def drop_local_rows(rows: list[str]) -> list[str]:
    """Return dumped rows, except for those about forks, readers and reports.

    Reports are left out because missed reports stay missed.
    """
    besides = ("reorg_log", "coverage", "verified_block", "report")
    return [row for row in rows if not row.startswith(besides)]
