"""The expulsion that an executed kickout begins, and the attempts to end the membership.

The oracle contract itself records an expulsion, so the expulsion does not depend on the network.
If the network refuses to end the membership, the refusal is recorded in addition.
"""

from dataclasses import dataclass, replace

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import KickExecuted, KickRefused
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address, Hash

# The target if no contract is called, because the network's operator acts on the event.
NO_TARGET = ZERO_ADDRESS
# After this many consecutive refusals with the same reason, there is no automatic retry.
MAX_SAME_REFUSALS = 2
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

    `was_refused` is whether the target refused the last attempt. If it did not, the node has
    rejoined since, so refusals restart at 0.
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

    `expulsion` is None if the execution is older than the first block read.
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
    """Return an expulsion whose event was not read, as of a later event at `position`."""
    return Expulsion(position, head_round, NEVER_EXPIRES, NO_TARGET, head_round, position)
