"""Compares what the contracts count themselves with what we counted.

At our newest block, named by its hash, and only at the head: there every endpoint has the state
(the database holds the state at the head alone, docs/explanation/reorgs.md#one-transaction).
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

# Blocks under the newest one up to which endpoints without an archive know the state.
NEAR = 64


@dataclass(frozen=True, slots=True)
class CounterComparison:
    """What was counted at a block: by name, here and on chain."""

    block: int
    here: dict[str, int]
    on_chain: dict[str, int]

    @property
    def differing(self) -> dict[str, tuple[int, int]]:
        """Return (here, on chain) of the counters that differ."""
        return {
            name: (self.here[name], count)
            for name, count in self.on_chain.items()
            if name in self.here and self.here[name] != count
        }


@dataclass(slots=True)
class CounterQuery:
    """What is asked of the contracts beside the work, and what we had counted then."""

    background_call: BackgroundCall[dict[str, int]] = field(default_factory=BackgroundCall)
    block: int = 0
    here: dict[str, int] = field(default_factory=dict)

    def ask(self, chain: ChainReader, store: Store, heads: Heads) -> None:
        """Count here at our newest block, and have it asked there; not far from the head."""
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
    """Compare all counters that the profile's contracts offer; None: not now, or none does.

    What `question` has asked and nobody has answered in its patience is looked for in later
    calls; without one it is waited for.

    Raises:
        TransientError: no endpoint tells; our block may have left the chain.
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
    """The names are those of oracle/chain/contract_checks.py."""
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
