"""Compares what the contracts count themselves with what we counted (chain.md 3.9, L6).

At our newest block, named by its hash, and only at the head: there every endpoint has the state
(the database holds the state at the head alone, decision 6).
"""

from dataclasses import dataclass

from oracle.chain.heads import Heads
from oracle.domain.nodes import Membership
from oracle.services.ports import Chain
from oracle.store.store import Store, Unit
from oracle.telemetry import integrity_metrics as metrics

# Blocks under the newest one up to which endpoints without an archive know the state.
NEAR = 64


@dataclass(frozen=True, slots=True)
class Counts:
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


def compare_counters(chain: Chain, store: Store, heads: Heads) -> Counts | None:
    """Compare all counters that the profile's contracts offer; None: not now, or none does.

    Raises:
        TransientError: no endpoint tells; our block may have left the chain.
    """
    with store.reading() as unit:
        cursor = unit.cursor.get()
        if cursor is None or heads.latest.number - cursor.number > NEAR:
            return None
        here = _counted(unit)
    on_chain = dict(chain.counted(cursor.hash))
    if not on_chain:
        return None
    metrics.COUNTERS_COMPARED.inc()
    for name, count in on_chain.items():
        if name in here:
            metrics.COUNTER_DIFFERENCE.labels(name).set(count - here[name])
    return Counts(cursor.number, here, on_chain)


def _counted(unit: Unit) -> dict[str, int]:
    """The names are those of oracle/chain/counters.py."""
    members = sum(
        count
        for (membership, _, _), count in unit.nodes.counts().items()
        if membership is Membership.MEMBER
    )
    rounds = unit.rounds.load()
    return {
        "members": members,
        "rounds": rounds.head.round,
        "indexes": max(rounds.indexes, default=-1) + 1,
    }
