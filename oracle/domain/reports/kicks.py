"""The on-chain state of a kickout, from the proposal to its end or the node's expulsion.

The oracle contract itself records an expulsion, so the expulsion does not depend on the network.
If the network refuses to end the membership, the refusal is recorded in addition. See
docs/explanation/kickouts.md#states.
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
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address, Hash

# The target if no contract is called, because the network's operator acts on the event.
NO_TARGET = ZERO_ADDRESS
# After this many consecutive refusals with the same reason, there is no automatic retry.
MAX_SAME_REFUSALS = 2


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
# The maximum time in seconds that the contract can store.
NEVER_EXPIRES = 2**40 - 1


@dataclass(frozen=True, slots=True)
class Expulsion:
    """An executed kickout: its position and round, and the network's response.

    `expires_at` is the end of the expulsion in unix seconds. `target` is the contract that was
    called to end the membership, or zero if none was. `refusals` counts consecutive refusals with
    the same `reason`. `tried_in` and `tried_at` are round and position of the newest attempt.
    """

    at: Position
    round: int
    expires_at: int
    target: Address
    tried_in: int
    tried_at: Position
    refusals: int = 0
    reason: Hash = ZERO_HASH


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
    previous, until = kick.expulsion, min(event.time + cooldown, NEVER_EXPIRES)
    expulsion = Expulsion(event.at, head_round, until, event.target, head_round, event.at)
    if previous is not None and kick.state in EXPELLED_STATES:
        # If the last attempt succeeded, the node has rejoined since, so refusals restart at 0.
        count = previous.refusals if kick.state is KickState.REFUSED else 0
        expulsion = replace(
            previous, target=event.target, tried_in=head_round, tried_at=event.at, refusals=count
        )
    return replace(kick, state=KickState.EXECUTED, evidence=event.evidence, expulsion=expulsion)


def build_refused_kick(existing: Kick | None, event: KickRefused, head_round: int) -> Kick:
    """Return the kickout after the network refused to end the node's membership."""
    kick = existing or _build_unproposed_kick(event.node, ZERO_HASH, event.at)
    previous = kick.expulsion or _build_unrecorded_expulsion(event.at, head_round)
    is_same_reason = previous.refusals > 0 and previous.reason == event.reason
    expulsion = replace(
        previous,
        target=event.target,
        tried_in=head_round,
        tried_at=event.at,
        refusals=previous.refusals + 1 if is_same_reason else 1,
        reason=event.reason,
    )
    return replace(kick, state=KickState.REFUSED, expulsion=expulsion)


def build_initial_expulsion(event: NodeExpelled) -> Kick:
    """Return the kickout of a node that was already expelled when the contract was deployed."""
    kick = _build_unproposed_kick(event.node, ZERO_HASH, event.at)
    return replace(kick, expulsion=_build_unrecorded_expulsion(event.at, 0))


def _build_unrecorded_expulsion(position: Position, head_round: int) -> Expulsion:
    """Return an expulsion whose own event was not read; `position` is that of a later event."""
    return Expulsion(position, head_round, NEVER_EXPIRES, NO_TARGET, head_round, position)


def _build_unproposed_kick(node: Address, evidence: Hash, position: Position) -> Kick:
    return Kick(node, 0, evidence, 0, 0, position, KickState.EXECUTED)
