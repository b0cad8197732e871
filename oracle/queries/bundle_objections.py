"""The objections of an evidence bundle, with the signatures that the page `/verify` checks."""

from collections.abc import Sequence

from pydantic import Field

from oracle.domain.events.oracle_events import Objected
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_review import KickoutPolicy
from oracle.kickouts.objection_sender import build_objection_statement
from oracle.queries.answers import AddressText
from oracle.queries.objection_models import (
    ObjectionEntry,
    build_objection_entries,
)
from oracle.signing.signature_checks import normalize_statement_signature
from oracle.signing.typed_data import Domain
from oracle.store.database import UnitOfWork


class BundleObjection(ObjectionEntry):
    """An objection, and what the node signed if it was posted to this reporter."""

    contract: AddressText | None = Field(
        description="The objections contract, in whose domain objection and answer are signed; "
        "null if the raw log is not stored."
    )
    deadline: int | None = Field(
        description=("Deadline that was signed, unix seconds; null if not signed.")
    )
    signature: str | None = Field(
        description="By the node's key, 65 bytes as hex; null if the objection was not posted to "
        "this reporter, or the node is a contract."
    )


def build_bundle_objections(
    uow: UnitOfWork, objections: Sequence[Objected], policy: KickoutPolicy, chain_id: int
) -> list[BundleObjection]:
    """Return the entries of objections with their signatures, in the same order."""
    entries = build_objection_entries(uow, objections, policy)
    return [
        _build_bundle_objection(uow, objection, entry, chain_id)
        for objection, entry in zip(objections, entries, strict=True)
    ]


def _build_bundle_objection(
    uow: UnitOfWork, objection: Objected, entry: ObjectionEntry, chain_id: int
) -> BundleObjection:
    contract = _find_objections_contract(uow, objection)
    deadline = signature = None
    if contract is not None:
        signed = _find_signature(uow, objection, Domain(chain_id, contract))
        deadline, signature = signed or (None, None)
    return BundleObjection(
        **entry.model_dump(),
        contract=contract,
        deadline=deadline,
        signature=None if signature is None else f"0x{signature.hex()}",
    )


def _find_objections_contract(uow: UnitOfWork, objection: Objected) -> Address | None:
    block = objection.at.block
    logs = uow.logs.iterate_between(block, block)
    return next((log.address for log in logs if log.index == objection.at.log), None)


def _find_signature(
    uow: UnitOfWork, objection: Objected, domain: Domain
) -> tuple[int, bytes] | None:
    """Return the deadline and the node key's signature, or None if no signature is stored."""
    for posted in uow.objection_inbox.list_for_node(objection.node):
        statement = build_objection_statement(posted)
        if (statement.due_since, statement.reason, statement.text, statement.seq) != (
            objection.due_since,
            objection.reason,
            objection.text,
            objection.seq,
        ):
            continue
        digest = statement.compute_digest(domain)
        signature = normalize_statement_signature(posted.signature, digest, objection.node)
        if signature is not None:
            return statement.deadline, signature
    return None
