"""The expulsion that an executed kickout begins, and the attempts to end the membership.

The oracle contract itself records the expulsion, which therefore does not depend on the network.
If the network refuses to end the membership, the contract also records the refusal.
"""

from dataclasses import dataclass, replace

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import KickExecuted, KickRefused
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address, Hash

# The target if no contract is called, because the network's operator ends the membership.
NO_TARGET = ZERO_ADDRESS
# After this many consecutive refusals for the same reason, an expulsion is not retried
# automatically.
MAX_SAME_REFUSALS = 2
# The largest time in seconds that the contract can store.
NEVER_EXPIRES = 2**40 - 1


@dataclass(frozen=True, slots=True)
class Expulsion:
    """An executed kickout, with its position, its round, and the network's response.

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
    """Return the expulsion of `cooldown` seconds that an executed kickout starts.

    `head_round` is the last accepted round before the execution.
    """
    until = min(event.time + cooldown, NEVER_EXPIRES)
    return Expulsion(event.at, head_round, until, event.target, head_round, event.at)


def record_expulsion_retry(
    expulsion: Expulsion, event: KickExecuted, head_round: int, *, was_refused: bool
) -> Expulsion:
    """Return the expulsion after the network was called again to end the membership.

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


def record_refusal(expulsion: Expulsion | None, event: KickRefused, head_round: int) -> Expulsion:
    """Return the expulsion after the target refused to end the node's membership.

    `expulsion` is None if the kickout was executed before the first block that was read.
    """
    previous = expulsion or build_unrecorded_expulsion(event.at, head_round)
    is_same_reason = previous.refusals > 0 and previous.reason == event.reason
    return replace(
        previous,
        target=event.target,
        tried_in=head_round,
        tried_at=event.at,
        refusals=previous.refusals + 1 if is_same_reason else 1,
        reason=event.reason,
    )


def build_unrecorded_expulsion(position: Position, head_round: int) -> Expulsion:
    """Return an expulsion whose own event was not read, as of a later event at `position`."""
    return Expulsion(position, head_round, NEVER_EXPIRES, NO_TARGET, head_round, position)
