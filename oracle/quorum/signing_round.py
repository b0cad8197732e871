"""On which accepted round a kickout is signed (decision 0137): every reporter on the same one.

The contract keeps the digests of its last rounds. What is signed on one of them outlives the
rounds that come while signatures are gathered, and is nobody's where that round was reorged.
"""

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.domain.reports.kicks import Kick
from oracle.store.database import UnitOfWork

# Rounds whose digests the contract keeps (OracleHead.sol).
RECENT_ROUNDS = 16
# A kickout that is still not proposed is signed anew after so many: what was signed until then
# has as many left to land in.
RENEWED_AFTER = RECENT_ROUNDS // 2


def signable_from(shown_low: int, kick: Kick | None) -> int:
    """Return the first round that a kickout may be signed on.

    `shown_low`: the last of the rounds that its evidence names; `kick`: the newest proposal about
    the lane. The contract takes nothing that was signed before that one landed.
    """
    return shown_low if kick is None else max(shown_low, kick.round + 1)


def signing_round(
    uow: UnitOfWork, since: int, time: int, ttl_seconds: int
) -> RoundAccepted | None:
    """Return the round to sign a kickout on now; None: the first that may be is not accepted yet.

    Every RENEWED_AFTER-th round from `since` on; every half, quarter of them and so on where
    rounds come so slowly that half of a signature's `ttl_seconds`, which count from its round,
    would be over. `time` is the chain's.
    """
    accepted = uow.rounds.accepted(last=1)
    if not accepted or accepted[0].round < since:
        return None
    newest = accepted[0]
    every = RENEWED_AFTER
    while every > 1:
        number = newest.round - (newest.round - since) % every
        chosen = uow.rounds.accepted_round(number)
        if chosen is not None and time - chosen.time <= ttl_seconds // 2:
            return chosen
        every //= 2
    return newest


def why_gone(uow: UnitOfWork, number: int, report: Hash) -> str | None:
    """Tell why what was signed on a round can no longer land, by what we folded; None: it may.

    In the words of `pub_signature`: `prev_reorged` where another report became that round,
    `expired` where the contract has forgotten it.
    """
    accepted = uow.rounds.accepted_round(number)
    if accepted is not None and accepted.digest != report:
        return "prev_reorged"
    return "expired" if _age(uow, number) >= RECENT_ROUNDS else None


def why_not_sent(uow: UnitOfWork, number: int, report: Hash) -> str | None:
    """Return why a kickout signed on a round is not sent, or None if it outlives the next round."""
    accepted = uow.rounds.accepted_round(number)
    if accepted is None or accepted.digest != report:
        return f"round {number}, which the kickout was signed on, left the chain"
    if _age(uow, number) + 1 >= RECENT_ROUNDS:
        return f"round {number}, which the kickout was signed on, is too long ago"
    return None


def _age(uow: UnitOfWork, number: int) -> int:
    accepted = uow.rounds.accepted(last=1)
    return accepted[0].round - number if accepted else 0
