"""Finds the accepted round that every reporter signs a kickout on (decision 0137).

The contract keeps the digests of its last rounds. A statement that is signed on one of them
remains valid during the rounds that come while signatures are collected, and becomes invalid if
that round is reorged.
"""

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.domain.reports.kicks import Kick
from oracle.store.database import UnitOfWork

# The number of rounds whose digests the contract keeps (OracleHead.sol).
RECENT_ROUNDS = 16
# A kickout that is not proposed yet is signed again after this many rounds; earlier signatures
# have as many rounds left in which to land.
RENEWAL_ROUNDS = RECENT_ROUNDS // 2


def min_signing_round(last_low_round: int, kick: Kick | None) -> int:
    """Return the first round that a kickout may be signed on.

    `last_low_round` is the last round in its evidence, and `kick` the newest proposal about the
    lane. The contract refuses statements that were signed before that proposal landed.
    """
    return last_low_round if kick is None else max(last_low_round, kick.round + 1)


def find_signing_round(
    uow: UnitOfWork, first_round: int, chain_time: int, ttl_seconds: int
) -> RoundAccepted | None:
    """Return the round to sign a kickout on now, or None if `first_round` is not accepted yet.

    The result is the newest of every RENEWAL_ROUNDS-th round from `first_round` on. A signature's
    `ttl_seconds` count from the time of its round. If the result is older than half of them,
    because rounds come slowly, the step is halved, several times if needed.
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
    """Return why a statement signed on a round can no longer land, by the indexed state, or None.

    The reason is a value of `pub_signature.expiry_reason`: `prev_reorged` if another report became
    that round, `expired` if the contract no longer keeps the round.
    """
    accepted = uow.rounds.get_accepted_round(round_number)
    if accepted is not None and accepted.digest != report:
        return "prev_reorged"
    return "expired" if _count_rounds_since(uow, round_number) >= RECENT_ROUNDS else None


def stale_round_reason(uow: UnitOfWork, round_number: int, report: Hash) -> str | None:
    """Return why a kickout signed on a round is not sent, or None if it stays valid long enough.

    It has to stay valid after one more round.
    """
    accepted = uow.rounds.get_accepted_round(round_number)
    if accepted is None or accepted.digest != report:
        return f"round {round_number}, which the kickout was signed on, left the chain"
    if _count_rounds_since(uow, round_number) + 1 >= RECENT_ROUNDS:
        return f"round {round_number}, which the kickout was signed on, is too long ago"
    return None


def _count_rounds_since(uow: UnitOfWork, round_number: int) -> int:
    accepted = uow.rounds.list_accepted(limit=1)
    return accepted[0].round - round_number if accepted else 0
