"""When a statement that was signed can no longer land; only then is another signed for its round.

What is believed here is what we folded, which no single endpoint can change; see decision 0089.
"""

from oracle.bindings.qos_oracle import ContractStatus
from oracle.kickouts.signing_round import why_gone
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement


def why_dead(uow: UnitOfWork, said: SignedStatement, now: ContractStatus) -> str | None:
    """Tell why a statement can no longer land, in the words of `pub_signature`; None: it may.

    `now` is how the contract stands; time and height are those of the block folded last, which
    the chain's are never below.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        return None
    if cursor.time > said.expires_at:
        return "expired"
    if said.as_of_block is not None:
        return _why_report_dead(uow, said, now)
    # A kickout: signed on a round, whose digest stands in the place of a report's `prev`.
    report = said.prev_digest
    return None if report is None else why_gone(uow, said.round, report)


def _why_report_dead(uow: UnitOfWork, said: SignedStatement, now: ContractStatus) -> str | None:
    cursor, as_of = uow.cursor.get(), said.as_of_block or 0
    height = 0 if cursor is None else cursor.number
    ours = uow.blocks.at(as_of)
    is_on_its_turn = now.head.round == said.round - 1
    reasons = {
        "expired": height + 1 - as_of > now.limits.anchor_window,
        "round_taken": uow.rounds.accepted_round(said.round) is not None,
        "prev_reorged": is_on_its_turn and now.last_report != said.prev_digest,
        "anchor_reorged": ours is not None and ours.hash != said.as_of_hash,
    }
    return next((why for why, is_so in reasons.items() if is_so), None)
