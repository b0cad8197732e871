"""Finds the accepted round on which every reporter signs a kickout (decision 0137).

The contract keeps the digests of its last rounds. A statement that is signed on one of these
rounds stays valid although new rounds come while signatures are collected. It becomes invalid if
its round is reorged.
"""

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.domain.reports.kicks import Kick
from oracle.store.database import UnitOfWork

# The number of rounds whose digests the contract keeps (OracleHead.sol).
RECENT_ROUNDS = 16
# A kickout that is not proposed yet is signed again after this many rounds. Earlier signatures can
# then still land during as many rounds.
RENEWAL_ROUNDS = RECENT_ROUNDS // 2


def compute_min_signing_round(last_low_round: int, kick: Kick | None) -> int:
    """Return the first round on which a kickout may be signed.

    `last_low_round` is the last round in the evidence, and `kick` the newest proposal about the
    node. The contract refuses statements that were signed before this proposal landed.
    """
    return last_low_round if kick is None else max(last_low_round, kick.round + 1)


def find_signing_round(
    uow: UnitOfWork, first_round: int, chain_time: int, ttl_seconds: int
) -> RoundAccepted | None:
    """Return the round on which to sign a kickout, or None if `first_round` is not accepted yet.

    Every RENEWAL_ROUNDS-th round from `first_round` on is a candidate, and the newest candidate is
    returned. A signature is valid for `ttl_seconds` from the time of its round. If more than half
    of this time has passed, because rounds come slowly, the distance of candidates is halved, more
    than once if needed.
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


def find_round_expiry_reason(uow: UnitOfWork, round_number: int, report: Hash) -> str | None:
    """Return why a statement that was signed on a round can no longer land, or None if it may.

    The reason follows from the indexed state. It is a value of `pub_signature.expiry_reason`:
    `prev_reorged` if another report became this round, or `expired` if the contract no longer
    keeps the digest of the round.
    """
    accepted = uow.rounds.get_accepted_round(round_number)
    if accepted is not None and accepted.digest != report:
        return "prev_reorged"
    return "expired" if _count_rounds_since(uow, round_number) >= RECENT_ROUNDS else None


def find_stale_round_reason(uow: UnitOfWork, round_number: int, report: Hash) -> str | None:
    """Return why a kickout that was signed on a round is not sent, or None if it may be sent.

    The statement must stay valid after one more round.
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
