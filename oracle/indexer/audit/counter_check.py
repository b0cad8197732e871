"""Compares the contracts' own counters with those computed from the index.

The newest indexed block is used, by its hash, and only at the head, where every endpoint has the
state (the database has the state of the head alone, docs/explanation/reorgs.md#one-transaction).
See docs/explanation/verification.md#l6.
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
NEAR = 64


@dataclass(frozen=True, slots=True)
class CounterComparison:
    """Counters at a block, by name: from the index and on chain."""

    block: int
    here: dict[str, int]
    on_chain: dict[str, int]

    @property
    def differing(self) -> dict[str, tuple[int, int]]:
        """Return (stored, on chain) for the counters that differ."""
        return {
            name: (self.here[name], count)
            for name, count in self.on_chain.items()
            if name in self.here and self.here[name] != count
        }


@dataclass(slots=True)
class CounterQuery:
    """A background read of the contracts' counters, with the stored counts at that block."""

    background_call: BackgroundCall[dict[str, int]] = field(default_factory=BackgroundCall)
    block: int = 0
    here: dict[str, int] = field(default_factory=dict)

    def ask(self, chain: ChainReader, store: Store, heads: Heads) -> None:
        """Count at the newest indexed block and read the contracts; only near the head."""
        with store.reading() as uow:
            cursor = uow.cursor.get()
            if cursor is None or heads.latest.number - cursor.number > NEAR:
                return
            self.block, self.here = cursor.number, _counted(uow)
        at: Hash = cursor.hash
        self.background_call.begin(lambda: dict(chain.counted(at)), "counters")


def compare_counters(
    chain: ChainReader, store: Store, heads: Heads, question: CounterQuery | None = None
) -> CounterComparison | None:
    """Compare all counters of the profile's contracts; None if not possible now.

    A `query` that is not finished within its wait time is collected by a later call; without a
    query the call waits for the result.

    Raises:
        TransientError: no endpoint responds, or the block has left the chain.
    """
    question = CounterQuery() if question is None else question
    if not question.background_call.is_out:
        question.ask(chain, store, heads)
    ended = question.background_call.take()
    on_chain = {} if ended is None else ended.result()
    if not on_chain:
        return None
    here = question.here
    metrics.COUNTERS_COMPARED.inc()
    for name, count in on_chain.items():
        if name in here:
            metrics.COUNTER_DIFFERENCE.labels(name).set(count - here[name])
    return CounterComparison(question.block, here, on_chain)


def _counted(uow: UnitOfWork) -> dict[str, int]:
    """Return the stored counts; the names are those of oracle/chain/contract_checks.py."""
    members = sum(
        count
        for (membership, _, _), count in uow.nodes.counts().items()
        if membership is Membership.MEMBER
    )
    rounds = uow.rounds.load()
    return {
        "members": members,
        "rounds": rounds.head.round,
        "indexes": max(rounds.indexes, default=-1) + 1,
    }
