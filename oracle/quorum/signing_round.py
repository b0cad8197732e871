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
RENEWAL_ROUNDS = RECENT_ROUNDS // 2


def min_signing_round(last_low_round: int, kick: Kick | None) -> int:
    """Return the first round that a kickout may be signed on.

    `shown_low`: the last of the rounds that its evidence names; `kick`: the newest proposal about
    the lane. The contract takes nothing that was signed before that one landed.
    """
    return last_low_round if kick is None else max(last_low_round, kick.round + 1)


def find_signing_round(
    uow: UnitOfWork, first_round: int, chain_time: int, ttl_seconds: int
) -> RoundAccepted | None:
    """Return the round to sign a kickout on now; None: the first that may be is not accepted yet.

    Every RENEWED_AFTER-th round from `since` on; every half, quarter of them and so on where
    rounds come so slowly that half of a signature's `ttl_seconds`, which count from its round,
    would be over. `time` is the chain's.
    """
    accepted = uow.rounds.list_accepted(limit=1)
    if not accepted or accepted[0].round < first_round:
        return None
    newest = accepted[0]
    interval_rounds = RENEWAL_ROUNDS
    while interval_rounds > 1:
        round_number = newest.round - (newest.round - first_round) % interval_rounds
        candidate = uow.rounds.get_accepted_round(round_number)
        if candidate is not None and chain_time - candidate.time <= ttl_seconds // 2:
            return candidate
        interval_rounds //= 2
    return newest


def round_expiry_reason(uow: UnitOfWork, round_number: int, report: Hash) -> str | None:
    """Tell why what was signed on a round can no longer land, by what we folded; None: it may.

    In the words of `pub_signature`: `prev_reorged` where another report became that round,
    `expired` where the contract has forgotten it.
    """
    accepted = uow.rounds.get_accepted_round(round_number)
    if accepted is not None and accepted.digest != report:
        return "prev_reorged"
    return "expired" if _count_rounds_since(uow, round_number) >= RECENT_ROUNDS else None


def stale_round_reason(uow: UnitOfWork, round_number: int, report: Hash) -> str | None:
    """Return why a kickout signed on a round is not sent, None if it outlives the next round."""
    accepted = uow.rounds.get_accepted_round(round_number)
    if accepted is None or accepted.digest != report:
        return f"round {round_number}, which the kickout was signed on, left the chain"
    if _count_rounds_since(uow, round_number) + 1 >= RECENT_ROUNDS:
        return f"round {round_number}, which the kickout was signed on, is too long ago"
    return None


def _count_rounds_since(uow: UnitOfWork, round_number: int) -> int:
    accepted = uow.rounds.list_accepted(limit=1)
    return accepted[0].round - round_number if accepted else 0
