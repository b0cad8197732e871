"""Compares the contracts' own counters with the same counts from the index.

They are compared at the newest indexed block, because the database has only the state of that
block (docs/explanation/reorgs.md#one-transaction), and only near the head, where every endpoint
has the state. See docs/explanation/verification.md#l6.
"""

from dataclasses import dataclass, field

from oracle.chain.heads import Heads
from oracle.chain.protocols import ChainReader
from oracle.domain.ids import Hash
from oracle.domain.state.node import Membership
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.telemetry import integrity_metrics as metrics

# How many blocks below the head endpoints without an archive still have the state.
MAX_HEAD_DISTANCE = 64


@dataclass(frozen=True, slots=True)
class CounterComparison:
    """Counters at a block, by name: from the index and on chain."""

    block: int
    stored_counts: dict[str, int]
    chain_counts: dict[str, int]

    @property
    def differing(self) -> dict[str, tuple[int, int]]:
        """Return (stored, on chain) for the counters that differ."""
        return {
            name: (self.stored_counts[name], count)
            for name, count in self.chain_counts.items()
            if name in self.stored_counts and self.stored_counts[name] != count
        }


@dataclass(slots=True)
class CounterQuery:
    """A background read of the contracts' counters, with the stored counts at that block."""

    background_call: BackgroundCall[dict[str, int]] = field(default_factory=BackgroundCall)
    block: int = 0
    stored_counts: dict[str, int] = field(default_factory=dict)

    def start(self, chain: ChainReader, store: Store, heads: Heads) -> None:
        """Count at the newest indexed block and start to read the contracts, if near the head."""
        with store.read_transaction() as uow:
            cursor = uow.cursor.get()
            if cursor is None or heads.latest.number - cursor.number > MAX_HEAD_DISTANCE:
                return
            self.block, self.stored_counts = cursor.number, _count_stored(uow)
        block_hash: Hash = cursor.hash
        self.background_call.start(
            lambda: dict(chain.fetch_contract_counters(block_hash)), "counters"
        )


def compare_counters(
    chain: ChainReader, store: Store, heads: Heads, query: CounterQuery | None = None
) -> CounterComparison | None:
    """Compare all counters of the profile's contracts; return None if that is not possible now.

    If `query` does not finish within its wait time, a later call returns the comparison. Without a
    `query` the call waits for the result.

    Raises:
        TransientError: no endpoint responds, or the block has left the chain.
    """
    query = CounterQuery() if query is None else query
    if not query.background_call.is_pending:
        query.start(chain, store, heads)
    finished_call = query.background_call.take_finished()
    chain_counts = {} if finished_call is None else finished_call.result()
    if not chain_counts:
        return None
    stored_counts = query.stored_counts
    metrics.COUNTERS_COMPARED.inc()
    for name, count in chain_counts.items():
        if name in stored_counts:
            metrics.COUNTER_DIFFERENCE.labels(name).set(count - stored_counts[name])
    return CounterComparison(query.block, stored_counts, chain_counts)


def _count_stored(uow: UnitOfWork) -> dict[str, int]:
    """Return the counts from the database, named as in oracle/chain/contract_checks.py."""
    members = sum(
        count
        for (membership, _, _), count in uow.nodes.count_by_state().items()
        if membership is Membership.MEMBER
    )
    rounds = uow.rounds.load()
    return {
        "members": members,
        "rounds": rounds.head.round,
        "indexes": max(rounds.indexes, default=-1) + 1,
    }
