"""Accepts a signed objection that was posted to the read API, or refuses it before gas is spent.

See docs/explanation/objections.md#post-an-objection.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum

from oracle.bindings.objections import encode_signed_objection_call
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership
from oracle.errors import InputError
from oracle.kickouts.kickout_cases import is_due_at_head, load_cursor_time
from oracle.signing.signature_checks import EcdsaSignature
from oracle.signing.signer import WrongSignatureError
from oracle.signing.typed_data import Domain, ObjectionStatement
from oracle.store.database import Store, UnitOfWork
from oracle.store.objection_inbox import PostedObjection

# The gas reserved for an objection; a node's first one with a text of 280 bytes uses less
# (docs/reference/gas.md#objections).
RESERVED_GAS = 70_000
_HOUR_SECONDS, _DAY_SECONDS = 3_600, 86_400


class ObjectionRefusal(StrEnum):
    """Why a posted objection is not accepted."""

    NOT_MEMBER = "not_member"
    NOT_DUE = "not_due"
    ALREADY_OBJECTED = "already_objected"
    WRONG_SEQ = "wrong_seq"
    EXPIRED = "expired"
    NOT_SIGNED_BY_NODE = "not_signed_by_node"
    HOURLY_LIMIT = "hourly_limit"
    DAILY_GAS = "daily_gas"


class ObjectionRefusedError(InputError):
    """A posted objection was refused; the message is sent to the client.

    `calldata` is the call with which anyone can submit the objection; it is set only if this
    reporter refused because it pays for no more objections.
    """

    def __init__(
        self, refusal: ObjectionRefusal, message: str, calldata: str | None = None
    ) -> None:
        self.refusal = refusal
        self.calldata = calldata
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    """The objections contract, and the limits of what this reporter pays for.

    `daily_gas` is the gas of all objections accepted within 24 hours.
    """

    domain: Domain
    rules: Rules
    posts_per_hour: int
    daily_gas: int


@dataclass(frozen=True, slots=True)
class ObjectionIntake:
    """Where posted objections are stored; `store` needs no lease (`Store.open_unfenced`)."""

    store: Store
    settings: IntakeSettings

    def accept(self, statement: ObjectionStatement, signature: bytes, now: int) -> None:
        """Store an objection that will be submitted; `now` is in unix seconds.

        The checks are ordered by their cost, and nothing is written before all of them passed.

        Raises:
            ObjectionRefusedError: the objection would fail, delays nothing, or exceeds a limit.
            TransientError: the database is busy or unavailable.
            InputError: the database is read-only.
        """
        with self.store.read_transaction() as uow:
            _check_subject(uow, statement, self.settings.rules)
        check_signature(statement, signature, self.settings.domain)
        with self.store.transaction() as uow:
            # Another server may have accepted one meanwhile.
            _check_subject(uow, statement, self.settings.rules)
            _check_limits(uow, self.settings, statement, signature, now)
            posted = PostedObjection(**asdict(statement), signature=signature, received_at=now)
            uow.objection_inbox.add(posted)


def _check_subject(uow: UnitOfWork, statement: ObjectionStatement, rules: Rules) -> None:
    node = uow.nodes.get_many([statement.node]).get(statement.node)
    if node is None or node.membership is not Membership.MEMBER:
        raise ObjectionRefusedError(
            ObjectionRefusal.NOT_MEMBER, f"{statement.node} is not a member of the network"
        )
    if not is_due_at_head(uow, statement.node, statement.due_since, rules):
        expected = (
            "no kickout of the node is due"
            if node.kickout_due_time is None
            else f"expected {node.kickout_due_time}"
        )
        raise ObjectionRefusedError(
            ObjectionRefusal.NOT_DUE, f"due_since: {statement.due_since}: {expected}"
        )
    _check_earlier_objections(uow, statement)
    if statement.deadline <= load_cursor_time(uow):
        raise ObjectionRefusedError(
            ObjectionRefusal.EXPIRED, f"deadline: {statement.deadline}: has passed"
        )


def _check_earlier_objections(uow: UnitOfWork, statement: ObjectionStatement) -> None:
    if has_waiting_objection(uow, statement.node):
        raise ObjectionRefusedError(
            ObjectionRefusal.ALREADY_OBJECTED,
            "an objection of the node was accepted here, and is not on the chain yet",
        )
    objections = uow.objections.list_for_nodes([statement.node])
    if any(objection.due_since == statement.due_since for objection in objections):
        raise ObjectionRefusedError(
            ObjectionRefusal.ALREADY_OBJECTED, "the node has already objected to this kickout"
        )
    next_seq = get_next_seq(uow, statement.node)
    if statement.seq != next_seq:
        raise ObjectionRefusedError(
            ObjectionRefusal.WRONG_SEQ, f"seq: {statement.seq}: expected {next_seq}"
        )


def has_waiting_objection(uow: UnitOfWork, node: Address) -> bool:
    """Return whether an objection of a node was accepted here and may still be submitted."""
    time = load_cursor_time(uow)
    return any(
        posted.ended_at is None and posted.deadline >= time
        for posted in uow.objection_inbox.list_for_node(node)
    )


def get_next_seq(uow: UnitOfWork, node: Address) -> int:
    """Return the number of the node's next objection, as of the cursor."""
    newest = uow.objections.list_for_node(node, 1)
    return newest[0].seq + 1 if newest else 0


def check_signature(statement: ObjectionStatement, signature: bytes, domain: Domain) -> None:
    """Check that the node's own key signed an objection, with a low s.

    The signature of a contract (ERC-1271) is not checked here, because the read API has no
    endpoint; its owner sends `objectFor` with any account.

    Raises:
        ObjectionRefusedError: the signature is not by the key of the node.
    """
    digest = bytes.fromhex(statement.compute_digest(domain)[2:])
    try:
        parsed_signature = EcdsaSignature.from_bytes(signature)
    except WrongSignatureError:
        signer = None
    else:
        signer = parsed_signature.recover_address(digest) if parsed_signature.has_low_s else None
    if signer != statement.node:
        raise ObjectionRefusedError(
            ObjectionRefusal.NOT_SIGNED_BY_NODE,
            f"signature: not by the key of {statement.node} for chain {domain.chain_id} and "
            f"contract {domain.contract}",
        )


def _check_limits(
    uow: UnitOfWork,
    settings: IntakeSettings,
    statement: ObjectionStatement,
    signature: bytes,
    now: int,
) -> None:
    inbox, refusal = uow.objection_inbox, None
    if inbox.count_since(now - _HOUR_SECONDS) >= settings.posts_per_hour:
        refusal = ObjectionRefusal.HOURLY_LIMIT
    elif (inbox.count_since(now - _DAY_SECONDS) + 1) * RESERVED_GAS > settings.daily_gas:
        refusal = ObjectionRefusal.DAILY_GAS
    if refusal is None:
        return
    span = "this hour" if refusal is ObjectionRefusal.HOURLY_LIMIT else "today"
    message = (
        f"this reporter pays for no more objections {span}; any account can send the calldata to "
        f"{settings.domain.contract}"
    )
    calldata = encode_signed_objection_call(statement, signature)
    raise ObjectionRefusedError(refusal, message, calldata)
