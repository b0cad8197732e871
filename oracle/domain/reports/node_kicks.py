"""The on-chain state of a node's kickout: accusation, expulsion and spared intervals.

The oracle contract itself records an expulsion, which therefore does not depend on the network.
If the network refuses to end the membership, the contract also records the refusal.

Each function returns the state after one event, by the rules of the contract
contracts/roots/core/KickoutsByProof.sol. A single event does not contain the whole state, but all
events together determine it.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    KickAccused,
    KickCancelled,
    KickExecuted,
    KickRefused,
)
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address, Hash

# With this target, no contract is called, and the network's operator ends the membership.
NO_TARGET = ZERO_ADDRESS
# An expulsion is not retried automatically after this many consecutive refusals for one reason.
MAX_SAME_REFUSALS = 2
# The largest time, in seconds, that the contract can store.
NEVER_EXPIRES = 2**40 - 1


@dataclass(frozen=True, slots=True)
class Expulsion:
    """An executed kickout, with its position, its round and the network's response.

    `expires_at` is the end of the expulsion in unix seconds. `target` is the contract that was
    called to end the membership, or zero if none was called. `refusals` counts consecutive
    refusals with the same `reason`. `tried_in` and `tried_at` are the round and the position of
    the newest attempt.
    """

    at: Position
    round: int
    expires_at: int
    target: Address
    tried_in: int
    tried_at: Position
    refusals: int = 0
    reason: Hash = ZERO_HASH


def build_expulsion(event: KickExecuted, *, head_round: int, cooldown: int) -> Expulsion:
    """Build the expulsion that starts with an executed kickout, lasting `cooldown` seconds.

    `head_round` is the last accepted round before the execution.
    """
    expires_at = min(event.time + cooldown, NEVER_EXPIRES)
    return Expulsion(event.at, head_round, expires_at, event.target, head_round, event.at)


def record_expulsion_retry(
    expulsion: Expulsion, event: KickExecuted, head_round: int, *, was_refused: bool
) -> Expulsion:
    """Return the expulsion after another attempt to end the node's membership.

    `was_refused` is whether the target refused the last attempt. If the target accepted it, the
    node has rejoined since, so the count of refusals restarts at 0.
    """
    return replace(
        expulsion,
        target=event.target,
        tried_in=head_round,
        tried_at=event.at,
        refusals=expulsion.refusals if was_refused else 0,
    )


def record_expulsion_refusal(
    expulsion: Expulsion | None, event: KickRefused, head_round: int
) -> Expulsion:
    """Return the expulsion after the network refused to end the node's membership.

    The refusal came from the target contract. `expulsion` is None if the kickout was executed
    before the first block that was read.
    """
    previous_expulsion = expulsion or build_unrecorded_expulsion(event.at, head_round)
    is_same_reason = previous_expulsion.refusals > 0 and previous_expulsion.reason == event.reason
    return replace(
        previous_expulsion,
        target=event.target,
        tried_in=head_round,
        tried_at=event.at,
        refusals=previous_expulsion.refusals + 1 if is_same_reason else 1,
        reason=event.reason,
    )


def build_unrecorded_expulsion(position: Position, head_round: int) -> Expulsion:
    """Build an expulsion whose own event was not read, from the position of a later event."""
    return Expulsion(position, head_round, NEVER_EXPIRES, NO_TARGET, head_round, position)


class KickState(StrEnum):
    """The state of a node's kickout.

    The contract does not distinguish NONE, RECOVERED, VETOED and READMITTED. NONE means that the
    node was never accused. RECOVERED means that the last root no longer stated the accused
    interval. VETOED means that the vetoer cancelled the kickout. EXPELLED means that the kickout
    was executed. REFUSED means that it was executed, but the network did not end the membership.
    READMITTED means that the admin revoked the expulsion.
    """

    NONE = "none"
    ACCUSED = "accused"
    RECOVERED = "recovered"
    VETOED = "vetoed"
    EXPELLED = "expelled"
    REFUSED = "refused"
    READMITTED = "readmitted"


EXPELLED_STATES = frozenset({KickState.EXPELLED, KickState.REFUSED})


@dataclass(frozen=True, slots=True)
class Accusation:
    """The newest accusation of a node.

    Its kickout has been due since `due_since`. `round` is the last accepted round at the
    accusation. The kickout may be executed from `ready_at` on. `evidence` is the hash of the
    scores behind the kickout, at the time of the accusation or, after the execution, at the time
    of the execution.
    """

    at: Position
    round: int
    due_since: int
    ready_at: int
    evidence: Hash


@dataclass(frozen=True, slots=True)
class NodeKick:
    """A node's kickout in the contract.

    All times are in unix seconds. Intervals that began at `spared_until` or earlier cannot be
    accused. `allowed` is the start of the interval for which the vetoer allowed a held kickout, or
    0.
    """

    node: Address
    state: KickState = KickState.NONE
    accusation: Accusation | None = None
    expulsion: Expulsion | None = None
    spared_until: int = 0
    allowed: int = 0

    @property
    def is_accused(self) -> bool:
        """Whether the node is accused and its kickout not yet executed."""
        return self.state is KickState.ACCUSED

    @property
    def last_round(self) -> int:
        """The round of the newest accusation, execution or target call, or 0 if none."""
        accusation, expulsion = self.accusation, self.expulsion
        if accusation is None:
            return 0 if expulsion is None else expulsion.tried_in
        if expulsion is None or accusation.at > expulsion.tried_at:
            return accusation.round
        return expulsion.tried_in

    @property
    def requires_operator(self) -> bool:
        """Whether repeated refusals by the network require a decision by an operator.

        The refusals must have the same reason.
        """
        expulsion = self.expulsion
        return (
            self.state is KickState.REFUSED
            and expulsion is not None
            and expulsion.refusals >= MAX_SAME_REFUSALS
        )

    def is_expelled(self, time: int) -> bool:
        """Return whether the node is expelled at `time`, whatever its leaf states."""
        expulsion = self.expulsion
        return (
            self.state in EXPELLED_STATES and expulsion is not None and time < expulsion.expires_at
        )

    def is_safe_from_accusation(self, due_since: int) -> bool:
        """Return whether the kickout due since `due_since` can no longer lead to an accusation."""
        return due_since <= self.spared_until

    def accuse(self, event: KickAccused) -> "NodeKick":
        """Return a copy with the accusation in `event`, which replaces any earlier one."""
        accusation = Accusation(
            event.at, event.round, event.due_since, event.ready_at, event.evidence
        )
        return replace(self, state=KickState.ACCUSED, accusation=accusation)

    def cancel(self, event: KickCancelled) -> "NodeKick":
        """Return a copy whose accusation was cancelled.

        After a veto, `event.by` is the vetoer, and the interval cannot be accused again. If the
        last root no longer states the interval, `event.by` is zero, and the interval may be
        accused again.
        """
        if event.by == ZERO_ADDRESS:
            return replace(self, state=KickState.RECOVERED)
        return replace(self, state=KickState.VETOED, spared_until=self._get_spared_until())

    def execute(self, event: KickExecuted, *, head_round: int, cooldown: int) -> "NodeKick":
        """Return a copy in which the kickout was executed.

        The first call of the target expels the node, and a later call retries. `head_round` is the
        last accepted round before the call. A new expulsion lasts `cooldown` seconds.
        """
        if self.expulsion is not None and self.state in EXPELLED_STATES:
            was_refused = self.state is KickState.REFUSED
            retried_expulsion = record_expulsion_retry(
                self.expulsion, event, head_round, was_refused=was_refused
            )
            return replace(self, state=KickState.EXPELLED, expulsion=retried_expulsion)
        accusation = self.accusation
        return replace(
            self,
            state=KickState.EXPELLED,
            accusation=accusation and replace(accusation, evidence=event.evidence),
            expulsion=build_expulsion(event, head_round=head_round, cooldown=cooldown),
            spared_until=self._get_spared_until(),
        )

    def refuse(self, event: KickRefused, head_round: int) -> "NodeKick":
        """Return a copy in which the target contract refused to end the node's membership."""
        expulsion = record_expulsion_refusal(self.expulsion, event, head_round)
        return replace(self, state=KickState.REFUSED, expulsion=expulsion)

    def expel(self, position: Position) -> "NodeKick":
        """Return a copy in which the node was expelled by the previous oracle contract."""
        expulsion = build_unrecorded_expulsion(position, 0)
        return replace(self, state=KickState.EXPELLED, expulsion=expulsion)

    def readmit(self, time: int) -> "NodeKick":
        """Return a copy in which the admin ended the expulsion at `time`."""
        return replace(self, state=KickState.READMITTED, spared_until=time)

    def allow(self, due_since: int) -> "NodeKick":
        """Return a copy in which the vetoer allowed the kickout due since `due_since`.

        If `due_since` is 0, no kickout is allowed.
        """
        return replace(self, allowed=due_since)

    def _get_spared_until(self) -> int:
        """Return the start of the last interval that a veto or an execution would spare."""
        return self.spared_until if self.accusation is None else self.accusation.due_since
