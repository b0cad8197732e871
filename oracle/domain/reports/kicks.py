"""The on-chain state of a kickout, from the proposal to its end or the node's expulsion.

See docs/explanation/kickouts.md#states.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    KickExecuted,
    KickProposed,
    KickRefused,
    NodeExpelled,
)
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.expulsions import (
    MAX_SAME_REFUSALS,
    Expulsion,
    build_unrecorded_expulsion,
    record_refusal,
    record_retry,
    start_expulsion,
)


class KickState(StrEnum):
    """The state of a kickout.

    VETOED: the vetoer cancelled the kickout. CANCELLED: anyone cancelled it after it had expired.
    OUTDATED: signers, quorum or rules were replaced before it was executed. EXECUTED: the
    node is expelled. REFUSED: the node is expelled, but the network did not end its membership.
    READMITTED: the admin revoked the expulsion.
    """

    LIVE = "live"
    CANCELLED = "cancelled"
    VETOED = "vetoed"
    OUTDATED = "outdated"
    EXECUTED = "executed"
    REFUSED = "refused"
    READMITTED = "readmitted"


EXPELLED_STATES = frozenset({KickState.EXECUTED, KickState.REFUSED})


@dataclass(frozen=True, slots=True)
class Kick:
    """The newest kickout proposed for a node; `ready_at` and `dies_at` are in unix seconds."""

    node: Address
    round: int
    evidence: Hash
    ready_at: int
    dies_at: int
    proposed_at: Position
    state: KickState
    expulsion: Expulsion | None = None

    def is_expelled(self, time: int) -> bool:
        """Return whether the node is expelled at `time`, regardless of the age of its lane."""
        expulsion = self.expulsion
        return (
            self.state in EXPELLED_STATES and expulsion is not None and time < expulsion.expires_at
        )

    @property
    def requires_operator(self) -> bool:
        """Whether the network refused so often for one reason that an operator has to decide."""
        expulsion = self.expulsion
        return self.state is KickState.REFUSED and (
            expulsion is None or expulsion.refusals >= MAX_SAME_REFUSALS
        )


def build_proposed_kick(event: KickProposed) -> Kick:
    """Return the kickout that an event proposes."""
    return Kick(
        node=event.node,
        round=event.round,
        evidence=event.evidence,
        ready_at=event.ready_at,
        dies_at=event.dies_at,
        proposed_at=event.at,
        state=KickState.LIVE,
    )


def build_executed_kick(
    existing: Kick | None, event: KickExecuted, *, head_round: int, cooldown: int
) -> Kick:
    """Return the kickout after an execution, which expels the node or calls the network again.

    `existing` is None if the proposal is older than the first block read. `head_round` is the last
    accepted round before the execution. The expulsion lasts `cooldown` seconds.
    """
    kick = existing or _build_unproposed_kick(event.node, event.evidence, event.at)
    if kick.expulsion is not None and kick.state in EXPELLED_STATES:
        was_refused = kick.state is KickState.REFUSED
        expulsion = record_retry(kick.expulsion, event, head_round, was_refused=was_refused)
    else:
        expulsion = start_expulsion(event, head_round=head_round, cooldown=cooldown)
    return replace(kick, state=KickState.EXECUTED, evidence=event.evidence, expulsion=expulsion)


def build_refused_kick(existing: Kick | None, event: KickRefused, head_round: int) -> Kick:
    """Return the kickout after the network refused to end the node's membership."""
    kick = existing or _build_unproposed_kick(event.node, ZERO_HASH, event.at)
    expulsion = record_refusal(kick.expulsion, event, head_round)
    return replace(kick, state=KickState.REFUSED, expulsion=expulsion)


def build_initial_expulsion(event: NodeExpelled) -> Kick:
    """Return the kickout of a node that was already expelled when the contract was deployed."""
    kick = _build_unproposed_kick(event.node, ZERO_HASH, event.at)
    return replace(kick, expulsion=build_unrecorded_expulsion(event.at, 0))


def _build_unproposed_kick(node: Address, evidence: Hash, position: Position) -> Kick:
    return Kick(node, 0, evidence, 0, 0, position, KickState.EXECUTED)
