"""Proposes a kickout: the evidence is laid down, every reporter signs, a transmitter sends.

What is signed follows from the chain alone, so that a quorum of reporters signs the same.
"""

from oracle.domain.evidence import Evidence
from oracle.domain.ids import Hash
from oracle.errors import InputError, TransientError
from oracle.publisher.contract import Standing, propose_call
from oracle.publisher.typed_data import KickStatement
from oracle.services.accusing import Look
from oracle.services.desk import Desk, Step
from oracle.services.evidence_files import export
from oracle.services.quorum.collecting import signatures as gathered_signatures
from oracle.services.quorum.offering import offer
from oracle.services.quorum.records import kick_record
from oracle.services.quorum.signing import sign_once
from oracle.services.recanting import LANE_SUBJECT
from oracle.services.timing.inclusion import why_too_late
from oracle.store.outbox_rows import Intent, IntentKind, SignedStatement, Wish
from oracle.store.store import Unit

# Kickouts wait for nobody, and let nobody wait: their lane is behind the pushes'.
PRIORITY = 200
# A round has fewer proposals: there is one for each node at most.
_LOOKED_THROUGH = 1000


def propose(desk: Desk, look: Look, standing: Standing) -> Step | None:
    """Sign the proposal of a look that nothing stands against; plan it once a quorum has.

    None: not now: this round's time for it is over, too few have signed, another statement about
    it may still land, or a push or another call about this lane is on its way.

    Raises:
        TransientError: the evidence cannot be written: then nothing is signed.
    """
    if look.index is None or look.evidence is None:
        return None
    subject = f"{LANE_SUBJECT}{look.index}"
    statement = statement_against(desk, look.index, look.evidence.hash, standing)
    if standing.block.time > statement.deadline:
        return None
    # The file stands before anything that names its hash.
    _lay_down(desk, look.evidence)
    record = kick_record(desk, statement, subject)
    return _signed(desk, statement, record, standing) or _planned(
        desk, look, statement, record, standing
    )


def _planned(
    desk: Desk, look: Look, statement: KickStatement, record: SignedStatement, standing: Standing
) -> Step | None:
    subject = record.subject
    if not desk.publisher.has_payer or _must_wait(desk, record):
        return None
    with desk.store.reading() as unit:
        if why_too_late(desk, unit, statement.deadline, standing.block.time) is not None:
            return None
    signatures = gathered_signatures(desk, record, standing)
    if signatures is None:
        return None
    wish = Wish(
        account=desk.account,
        contract=record.contract,
        kind=IntentKind.PROPOSE_KICK,
        dedup_key=f"propose_kick:{subject}:round={statement.round}:{record.digest}",
        calldata=propose_call(statement, signatures),
        subject=subject,
        round=statement.round,
        digest=record.digest,
        priority=PRIORITY,
        deadline=statement.deadline,
        as_of_block=look.spell.opened_at.block,
    )
    with desk.writing() as unit:
        intent_id = unit.outbox.intents.add(wish, desk.stamp)
    if intent_id is None:
        return None
    return Step("kickout proposal planned", intent_id, f"{look.node} {statement.evidence}")


def statement_against(desk: Desk, index: int, evidence: Hash, standing: Standing) -> KickStatement:
    """Return what every reporter signs about a lane in this round: no clock of ours is in it."""
    head = standing.head
    return KickStatement(head.round, index, evidence, head.pushed_at + desk.settings.ttl_seconds)


def _lay_down(desk: Desk, evidence: Evidence) -> None:
    try:
        export(desk.evidence_folder, evidence)
    except InputError as error:
        # The reports go on meanwhile.
        raise TransientError(str(error)) from error


def _signed(
    desk: Desk, statement: KickStatement, record: SignedStatement, standing: Standing
) -> Step | None:
    """Sign it, where there is a key for it; None: nothing new was signed."""
    if not desk.publisher.has_signer:
        return None
    with desk.store.reading() as unit:
        earlier = unit.outbox.signatures.live(record)
    if earlier is not None and earlier.digest == record.digest:
        offer(desk, statement, earlier)
        return None
    signed = sign_once(desk, statement, record, standing)
    return None if signed is None else Step("kickout signed", None, f"{record.subject}")


def _must_wait(desk: Desk, record: SignedStatement) -> bool:
    """Tell whether a call about this lane is on its way, or a push, which would take the round.

    Or it was tried in this round: once is enough, what came of it is in the outbox.
    """
    with desk.store.reading() as unit:
        is_pushing = unit.outbox.intents.push_on_its_way(desk.account) is not None
        is_tried = tried(unit, record) is not None
        return is_pushing or is_tried or is_open(desk, unit, record.subject)


def tried(unit: Unit, record: SignedStatement) -> Intent | None:
    """Return the proposal of just this statement, whatever became of it; None: there is none."""
    newest = unit.outbox.intents.newest(_LOOKED_THROUGH, kind=IntentKind.PROPOSE_KICK)
    return next((one for one in newest if one.wish.digest == record.digest), None)


def is_open(desk: Desk, unit: Unit, subject: str) -> bool:
    """Tell whether a call about this lane is on its way, not yet final."""
    return open_about(desk, unit, subject) is not None


def open_about(desk: Desk, unit: Unit, subject: str) -> Intent | None:
    """Return the call about this lane that is on its way, not yet final; None: there is none."""
    unfinished = unit.outbox.intents.unfinished(desk.account)
    return next((intent for intent in unfinished if intent.wish.subject == subject), None)
