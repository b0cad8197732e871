"""Compares the state with the contracts' own counters at the newest indexed block.

The database contains only the state of this block (docs/explanation/reorgs.md#one-transaction).
The counters are compared only near the head, where every endpoint has the state of the contracts.
See docs/explanation/verification.md#l6.
"""

from dataclasses import dataclass, field

from oracle.chain.heads import Heads
from oracle.chain.source import ChainSource
from oracle.domain.state import Membership
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.telemetry import integrity_metrics as metrics

# Endpoints without an archive still have the state of blocks up to this far below the head.
MAX_HEAD_DISTANCE = 64


@dataclass(frozen=True, slots=True)
class CounterComparison:
    """The counters at a block as counted in the index and as read from the contracts.

    Both are by name.
    """

    block: int
    stored_counts: dict[str, int]
    chain_counts: dict[str, int]

    @property
    def differing_counters(self) -> dict[str, tuple[int, int]]:
        """The counters that differ, each as (stored, on chain)."""
        return {
            name: (self.stored_counts[name], count)
            for name, count in self.chain_counts.items()
            if name in self.stored_counts and self.stored_counts[name] != count
        }


@dataclass(slots=True)
class CounterQuery:
    """A background read of the contracts' counters.

    `stored_counts` are the counts of the index at the same block.
    """

    background_call: BackgroundCall[dict[str, int]] = field(default_factory=BackgroundCall)
    block: int = 0
    stored_counts: dict[str, int] = field(default_factory=dict)

    def start(self, chain: ChainSource, store: Store, heads: Heads) -> None:
        """Start to read the contracts' counters if the index is near the head.

        The counts of the index at this block are kept.
        """
        with store.read_transaction() as uow:
            cursor = uow.cursor.get()
            if cursor is None or heads.latest.number - cursor.number > MAX_HEAD_DISTANCE:
                return
            self.block = cursor.number
            self.stored_counts = _count_stored_rows(uow)
        block_hash = cursor.hash
        self.background_call.start(
            lambda: dict(chain.fetch_contract_counters(block_hash)), "counters"
        )


def compare_contract_counters(
    chain: ChainSource, store: Store, heads: Heads, query: CounterQuery | None = None
) -> CounterComparison | None:
    """Compare all counters of the profile's contracts with the index.

    Return None if there is no result yet. If `query` does not finish within its wait time, a later
    call returns the comparison. Without a `query` the call waits for the result.

    Raises:
        TransientError: no endpoint responds, or the block has left the chain.
    """
    query = CounterQuery() if query is None else query
    if not query.background_call.is_pending:
        query.start(chain, store, heads)
    finished_call = query.background_call.take_finished_call()
    chain_counts = {} if finished_call is None else finished_call.result()
    if not chain_counts:
        return None
    stored_counts = query.stored_counts
    metrics.COUNTERS_COMPARED.inc()
    for name, count in chain_counts.items():
        if name in stored_counts:
            metrics.COUNTER_DIFFERENCE.labels(name).set(count - stored_counts[name])
    return CounterComparison(query.block, stored_counts, chain_counts)


def _count_stored_rows(uow: UnitOfWork) -> dict[str, int]:
    """Count the rows in the index, by the counter names of oracle/chain/contract_checks.py."""
    member_count = sum(
        count
        for (membership, _, _), count in uow.nodes.count_by_state().items()
        if membership is Membership.MEMBER
    )
    return {"members": member_count, "rounds": uow.rounds.get_last_round_and_root()[0]}
