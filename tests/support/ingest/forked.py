"""What the cases of forks have in common: who joins, what is counted, what must hold."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from devnet.fakechain.block_json import Block
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.provider import Provider
from oracle.errors import TransientError
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.store.database import Store, UnitOfWork
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.indexer import Indexer
from tests.support.ingest.speaking import network
from tests.support.traffic import address

NEWCOMER = address(0xBEEF)


def joins() -> Any:
    """A node that nobody has heard of joins."""
    return network(
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


def count(metric: Any) -> float:
    return float(metric._value.get())


def patiently(indexer: Indexer) -> list[object]:
    """Index to the head; a step that fails is taken again, as the daemon does."""
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


def holds_the_chain(indexer: Indexer, a_chain: AChain, head: Block | None = None) -> None:
    """What it holds is what the chain says, and what folding all of it anew gives."""
    head = head or a_chain.head
    assert indexer.cursor == (head.number, head.hash)
    assert indexer.canonical_logs() == a_chain.logs(head)
    assert indexer.gaps() == []
    assert rebuild_state(indexer.store, indexer.folder, RebuildOptions(dry_run=True)).is_same


def header_batches(provider: Provider) -> list[int]:
    """Note how many headers each batch asks for, from now on."""
    sizes: list[int] = []

    def note(requests: Any, answers: Any) -> Any:
        sizes.append(len(requests))
        return answers

    fault = InjectedFault("counts", change_batch=note, limits={"methods": "eth_getBlockByNumber"})
    provider.faults.append(fault)
    return sizes


class Counting:
    """A store that counts the transactions that write."""

    def __init__(self, store: Store) -> None:
        self.read_transaction = store.read_transaction
        self._transaction = store.transaction
        self.writes = 0

    @contextmanager
    def transaction(self) -> Iterator[UnitOfWork]:
        with self._transaction() as uow:
            yield uow
        self.writes += 1


def told(rows: list[str]) -> list[str]:
    """Leave out that there were forks, who read what, and reports: missed ones stay missed."""
    besides = ("reorg_log", "coverage", "verified_block", "report")
    return [row for row in rows if not row.startswith(besides)]
