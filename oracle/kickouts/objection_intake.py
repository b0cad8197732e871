"""Accepts or refuses signed objections posted to the read API, before gas is spent on them.

See docs/explanation/objections.md#post-an-objection.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum

from oracle.bindings.contract_signatures import CHECK_GAS, SignatureCheckUnavailableError
from oracle.bindings.objections import encode_signed_objection_call
from oracle.domain.ids import Address, Hash
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership
from oracle.errors import InputError
from oracle.kickouts.kickout_cases import is_kickout_due_at_head, load_cursor_time
from oracle.signing.signature_checks import normalize_statement_signature
from oracle.signing.typed_data import Domain, ObjectionStatement
from oracle.store.database import Store, UnitOfWork
from oracle.store.objection_inbox import PostedObjection

# Gas that is reserved for an objection. The most expensive case is a node's first objection with a
# text of 280 bytes, and even this case uses less (docs/reference/gas.md#objections). If the node
# is a contract, its signature check needs more gas, and its signature may be longer than the 65
# bytes of a key's.
RESERVED_GAS = 70_000
RESERVED_CONTRACT_GAS = RESERVED_GAS + CHECK_GAS
_SIGNATURE_BYTE_GAS = 40
_HOUR_SECONDS, _DAY_SECONDS = 3_600, 86_400


class ObjectionRefusal(StrEnum):
    """The reason why a posted objection is not accepted."""

    NOT_MEMBER = "not_member"
    NOT_DUE = "not_due"
    ALREADY_OBJECTED = "already_objected"
    WRONG_SEQ = "wrong_seq"
    EXPIRED = "expired"
    NOT_SIGNED_BY_NODE = "not_signed_by_node"
    SIGNATURE_UNCHECKED = "signature_unchecked"
    HOURLY_LIMIT = "hourly_limit"
    DAILY_GAS = "daily_gas"


class ObjectionRefusedError(InputError):
    """A posted objection was refused; the message is sent to the client.

    `calldata` is the input of the transaction with which anyone can submit the objection. It is
    set only if this reporter has used up its gas for objections, or cannot check the signature.
    """

    def __init__(
        self, refusal: ObjectionRefusal, message: str, calldata: str | None = None
    ) -> None:
        self.refusal = refusal
        self.calldata = calldata
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    """The objections contract, and limits on the objections that this reporter pays for.

    `daily_gas` is the maximum gas reserved for all objections accepted within 24 hours.
    """

    domain: Domain
    rules: Rules
    posts_per_hour: int
    daily_gas: int


@dataclass(frozen=True, slots=True)
class ObjectionIntake:
    """Checks posted objections and stores them for submission.

    `store` writes without the lease (`Store.open_unfenced_store`). `accepts_signature` returns
    whether the contract of a node accepts a signature of a digest (ERC-1271), or raises
    SignatureCheckUnavailableError; it is None if contracts cannot be called.
    """

    store: Store
    settings: IntakeSettings
    accepts_signature: Callable[[Address, Hash, bytes], bool] | None = None

    def accept(self, statement: ObjectionStatement, signature: bytes, now: int) -> None:
        """Check an objection and store it for submission.

        `now` is in unix seconds. The cheapest checks run first, and nothing is written before all
        checks have passed.

        Raises:
            ObjectionRefusedError: the objection would fail, delays nothing, or exceeds a limit.
            TransientError: the database is busy or unavailable.
            InputError: the database is read-only.
        """
        with self.store.read_transaction() as uow:
            _check_node_may_object(uow, statement, self.settings.rules)
        posted_objection = self._check_signature(statement, signature, now)
        with self.store.transaction() as uow:
            # These checks were already made, but another process may have accepted an objection
            # since then.
            _check_node_may_object(uow, statement, self.settings.rules)
            _check_intake_limits(uow, self.settings, posted_objection, statement)
            uow.objection_inbox.add(posted_objection)

    def _check_signature(
        self, statement: ObjectionStatement, signature: bytes, now: int
    ) -> PostedObjection:
        """Return the objection to store, if the node's key or contract signed it.

        Raises:
            ObjectionRefusedError: neither of the two signed the objection, or the contract cannot
                be called now.
        """
        domain = self.settings.domain
        digest = statement.compute_digest(domain)
        key_signature = normalize_statement_signature(signature, digest, statement.node)
        reserved_gas = RESERVED_GAS
        if key_signature is None:
            self._check_contract_signature(statement, digest, signature)
            reserved_gas = RESERVED_CONTRACT_GAS + _SIGNATURE_BYTE_GAS * len(signature)
        return PostedObjection(
            **asdict(statement),
            signature=key_signature or signature,
            received_at=now,
            reserved_gas=reserved_gas,
        )

    def _check_contract_signature(
        self, statement: ObjectionStatement, digest: Hash, signature: bytes
    ) -> None:
        node, domain = statement.node, self.settings.domain
        is_accepted = False
        if self.accepts_signature is not None:
            try:
                is_accepted = self.accepts_signature(node, digest, signature)
            except SignatureCheckUnavailableError as error:
                raise ObjectionRefusedError(
                    ObjectionRefusal.SIGNATURE_UNCHECKED,
                    f"signature: not by the key of {node}, and whether its contract accepts it "
                    f"was not checked: {error}; or send the calldata to {domain.contract} from "
                    "any account",
                    encode_signed_objection_call(statement, signature),
                ) from None
        if not is_accepted:
            raise ObjectionRefusedError(
                ObjectionRefusal.NOT_SIGNED_BY_NODE,
                f"signature: not by the key or the contract of {node} for chain "
                f"{domain.chain_id} and contract {domain.contract}",
            )


def _check_node_may_object(uow: UnitOfWork, statement: ObjectionStatement, rules: Rules) -> None:
    node = uow.nodes.get_many([statement.node]).get(statement.node)
    if node is None or node.membership is not Membership.MEMBER:
        raise ObjectionRefusedError(
            ObjectionRefusal.NOT_MEMBER, f"{statement.node} is not a member of the network"
        )
    if not is_kickout_due_at_head(uow, statement.node, statement.due_since, rules):
        expected_text = (
            "no kickout of the node is due"
            if node.kickout_due_time is None
            else f"expected {node.kickout_due_time}"
        )
        raise ObjectionRefusedError(
            ObjectionRefusal.NOT_DUE, f"due_since: {statement.due_since}: {expected_text}"
        )
    _check_earlier_objections(uow, statement)
    if statement.deadline <= load_cursor_time(uow):
        raise ObjectionRefusedError(
            ObjectionRefusal.EXPIRED, f"deadline: {statement.deadline}: has passed"
        )


def _check_earlier_objections(uow: UnitOfWork, statement: ObjectionStatement) -> None:
    if has_unsubmitted_objection(uow, statement.node):
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


def has_unsubmitted_objection(uow: UnitOfWork, node: Address) -> bool:
    """Return whether this reporter accepted a node's objection but has not submitted it yet."""
    time = load_cursor_time(uow)
    return any(
        posted_objection.ended_at is None and posted_objection.deadline >= time
        for posted_objection in uow.objection_inbox.list_for_node(node)
    )


def get_next_seq(uow: UnitOfWork, node: Address) -> int:
    """Return the sequence number of the node's next objection, as of the cursor."""
    newest_objections = uow.objections.list_for_node(node, 1)
    return newest_objections[0].seq + 1 if newest_objections else 0


def _check_intake_limits(
    uow: UnitOfWork,
    settings: IntakeSettings,
    posted_objection: PostedObjection,
    statement: ObjectionStatement,
) -> None:
    inbox, now, refusal = uow.objection_inbox, posted_objection.received_at, None
    if inbox.count_posted_within(now, _HOUR_SECONDS) >= settings.posts_per_hour:
        refusal = ObjectionRefusal.HOURLY_LIMIT
    elif (
        inbox.sum_reserved_gas_within(now, _DAY_SECONDS) + posted_objection.reserved_gas
        > settings.daily_gas
    ):
        refusal = ObjectionRefusal.DAILY_GAS
    if refusal is None:
        return
    span = "this hour" if refusal is ObjectionRefusal.HOURLY_LIMIT else "today"
    message = (
        f"this reporter pays for no more objections {span}; any account can send the calldata to "
        f"{settings.domain.contract}"
    )
    calldata = encode_signed_objection_call(statement, posted_objection.signature)
    raise ObjectionRefusedError(refusal, message, calldata)
