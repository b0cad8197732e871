"""Reports blocks of history that are disputed or below the required level.

Blocks are disputed if two endpoints differ about them, and no proof shows which endpoint is right.
The stored rows of these blocks come from one endpoint, and another endpoint contradicts them. The
dispute is stored and reported until an operator verifies the blocks. The difference is then stored
as accepted, and only another difference is reported.

On a chain whose headers cannot serve as proofs, the level that `[verify]` requires cannot be
reached. This is reported as a failure until a second endpoint agrees on every block, or until an
operator lowers the level. A chain that is still too short for calibration is exempt.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange, format_block_count
from oracle.domain.coverage import IngestScope
from oracle.errors import InputError
from oracle.rpc.endpoints.probe import CHAIN_FACTS_KEY
from oracle.store.database import UnitOfWork

if TYPE_CHECKING:
    # These names are not imported at run time, because `status` only reads disputes and needs no
    # audit.
    from oracle.indexer.audit.judgement import AuditResult
    from oracle.indexer.audit.row_diff import RowDiff


def describe_unproven_history(
    source: ChainSource,
    uow: UnitOfWork,
    scope: IngestScope,
    *,
    max_unaudited: int = 0,
    audit_obstacle: str = "",
) -> str | None:
    """Describe the unproven blocks and how to prove them, or return None if there are none.

    Up to `max_unaudited` blocks that wait for the audit are not reported, provided that a second
    witness can audit them. `audit_obstacle` is the reason why the last audit failed, if it failed.
    """
    shortfall = source.find_level_shortfall()
    cursor = uow.cursor.get()
    if shortfall is None or cursor is None or cursor.final_number is None:
        return None
    final_number = min(cursor.final_number, cursor.number)
    unaudited_blocks = uow.coverage.count_unaudited_blocks_below_level(
        scope.id, shortfall.unproven_below, final_number
    )
    has_second_endpoint = source.count_usable_witnesses() > 1
    if unaudited_blocks <= (max_unaudited if has_second_endpoint else 0):
        return None
    explanation = (
        "no second endpoint has confirmed it yet"
        if has_second_endpoint
        else "there is no second endpoint"
    )
    if has_second_endpoint and audit_obstacle:
        explanation += f" (the last audit failed: {audit_obstacle})"
    advice = (
        "wait for the audit" if has_second_endpoint else "add a second one to [chain] endpoints"
    )
    unsupported_features_text = ", ".join(shortfall.unsupported_features)
    return (
        f"data of {format_block_count(unaudited_blocks)} is unproven and rests on a single "
        "endpoint, because "
        f"{explanation} and the chain's headers ({unsupported_features_text}) do not "
        f'allow the proof that verify.history = "{shortfall.wanted_level.name.lower()}" '
        f"requires; {advice}, or lower the requirement with "
        f'verify.history = "{shortfall.reachable_level.name.lower()}"'
    )


_FACT_PREFIX = "disputed "
# The key under which facts about accepted differences are stored. It is not an endpoint's name.
_ACCEPTED_KEY = "accepted differences"
_DIGEST_CHARS: Final = 16
# The blocks of a dispute may count as audited, so a damaged dispute is deleted with all audits.
_DELETE_AUDITS: Final = "UPDATE coverage SET audited_by = NULL, audited_at = NULL"


class DisputedBlock(msgspec.Struct, frozen=True):
    """The number of differing rows of a block, and a digest of their contents.

    The digest does not depend on which of the two endpoints returned a row. If only the hash of
    the block differs, the digest is the hash that the auditor returned.
    """

    rows: int
    digest: str


class Dispute(msgspec.Struct, frozen=True):
    """The disputed blocks by number, and the endpoints of both sides."""

    giver: str
    auditor: str
    blocks: dict[int, DisputedBlock]

    @property
    def message(self) -> str:
        """A description of the dispute and of how to end it."""
        first, last = min(self.blocks), max(self.blocks)
        row_count = sum(block.rows for block in self.blocks.values())
        difference_text = f"{row_count} rows" if row_count else "the block hash"
        return (
            f"blocks {first} to {last} are unproven: {self.giver} and {self.auditor} "
            f"differ about {difference_text}, and no proof shows which is right; to accept the "
            f"rows of an endpoint that you trust, run `qos-oracle resync verify --from "
            f"{first} --to {last} --endpoint NAME --repair`"
        )


def build_dispute(audit: "AuditResult", difference: "RowDiff") -> Dispute:
    """Build the dispute that an audit found.

    `difference` contains all differing rows before any repair.
    """
    digests = _compute_block_digests(difference, audit.conflicting_hashes)
    return Dispute(audit.source_endpoint, audit.auditor, digests)


def record_dispute(uow: UnitOfWork, dispute: Dispute) -> None:
    """Store a dispute.

    Differences that an operator has accepted are left out. A stored dispute of the same endpoints
    about overlapping blocks is extended.
    """
    accepted_digests = _load_accepted_digests(uow, dispute.auditor)
    blocks = {
        number: block
        for number, block in dispute.blocks.items()
        if (number, block.digest) not in accepted_digests
    }
    if not blocks:
        return
    for stored_dispute in _load_stored_disputes(uow):
        is_same_pair = (stored_dispute.giver, stored_dispute.auditor) == (
            dispute.giver,
            dispute.auditor,
        )
        if is_same_pair and _do_overlap(stored_dispute.blocks, blocks):
            _delete_dispute(uow, stored_dispute)
            blocks = stored_dispute.blocks | blocks
    _store_dispute(uow, Dispute(dispute.giver, dispute.auditor, blocks))


def load_disputes(uow: UnitOfWork) -> list[Dispute]:
    """Return the open disputes by block, one for each pair of endpoints."""
    blocks_by_pair: dict[tuple[str, str], dict[int, DisputedBlock]] = {}
    for dispute in _load_stored_disputes(uow):
        endpoint_pair = dispute.giver, dispute.auditor
        blocks_by_pair[endpoint_pair] = blocks_by_pair.get(endpoint_pair, {}) | dispute.blocks
    return [Dispute(*endpoint_pair, blocks) for endpoint_pair, blocks in blocks_by_pair.items()]


def accept_disputed_blocks(
    uow: UnitOfWork, blocks: BlockRange, trusted_endpoints: Collection[str]
) -> None:
    """End the disputes about these blocks.

    Their stored rows equal those of trusted endpoints. The differences are stored as accepted, so
    that an audit does not report them again. Another difference of the same blocks is reported.
    """
    for dispute in _load_stored_disputes(uow):
        accepted_blocks = {
            number: block
            for number, block in dispute.blocks.items()
            if blocks.first <= number <= blocks.last
        }
        if not accepted_blocks:
            continue
        _delete_dispute(uow, dispute)
        remaining_blocks = {
            number: block
            for number, block in dispute.blocks.items()
            if number not in accepted_blocks
        }
        if remaining_blocks:
            _store_dispute(uow, Dispute(dispute.giver, dispute.auditor, remaining_blocks))
        digests = [(number, block.digest) for number, block in accepted_blocks.items()]
        content = msgspec.json.encode(digests).decode()
        for endpoint in {dispute.giver, dispute.auditor}.difference(trusted_endpoints):
            fact_name = f"{endpoint} {_compute_digest(content)}"
            uow.facts.set(_ACCEPTED_KEY, {fact_name: content}, None)


def find_accepted_blocks(
    uow: UnitOfWork,
    endpoint: str,
    difference: "RowDiff",
    conflicting_hashes: Mapping[int, str],
) -> set[int]:
    """Return the blocks where an operator has accepted the differences from this endpoint."""
    accepted_digests = _load_accepted_digests(uow, endpoint)
    return {
        number
        for number, block in _compute_block_digests(difference, conflicting_hashes).items()
        if (number, block.digest) in accepted_digests
    }


def _compute_block_digests(
    difference: "RowDiff", conflicting_hashes: Mapping[int, str]
) -> dict[int, DisputedBlock]:
    texts_by_block = defaultdict[int, list[str]](list)
    for row in (*difference.missing_rows, *difference.extra_rows, *difference.changed_rows):
        texts_by_block[row.block].append(repr(row))
    disputed_blocks = {
        number: DisputedBlock(len(texts), _compute_digest("\n".join(sorted(texts))))
        for number, texts in sorted(texts_by_block.items())
    }
    for number, served_hash in conflicting_hashes.items():
        disputed_blocks.setdefault(number, DisputedBlock(0, served_hash))
    return disputed_blocks


def _compute_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


def _load_accepted_digests(uow: UnitOfWork, endpoint: str) -> set[tuple[int, str]]:
    content_by_name = uow.facts.get_all(_ACCEPTED_KEY, 0)
    return {
        accepted
        for name, content in content_by_name.items()
        if name.rpartition(" ")[0] == endpoint
        for accepted in msgspec.json.decode(content, type=list[tuple[int, str]])
    }


def _load_stored_disputes(uow: UnitOfWork) -> list[Dispute]:
    disputes = []
    for name, content in uow.facts.get_all(CHAIN_FACTS_KEY, 0).items():
        if not name.startswith(_FACT_PREFIX):
            continue
        try:
            disputes.append(msgspec.json.decode(content, type=Dispute))
        except msgspec.DecodeError as error:
            deletion = f"DELETE FROM endpoint_fact WHERE name = '{name}'"  # noqa: S608  only a text
            raise InputError(
                f"the dispute {name!r} in the database is damaged or of an unreleased version "
                f"({error}); to audit all blocks again, stop the daemon and run in the database: "
                f"{deletion}; {_DELETE_AUDITS}"
            ) from error
    return sorted(disputes, key=lambda dispute: min(dispute.blocks))


def _store_dispute(uow: UnitOfWork, dispute: Dispute) -> None:
    dispute_json = msgspec.json.encode(dispute).decode()
    uow.facts.set(CHAIN_FACTS_KEY, {_build_fact_name(dispute): dispute_json}, None)


def _delete_dispute(uow: UnitOfWork, dispute: Dispute) -> None:
    uow.facts.delete(CHAIN_FACTS_KEY, _build_fact_name(dispute))


def _build_fact_name(dispute: Dispute) -> str:
    return f"{_FACT_PREFIX}{min(dispute.blocks)} {dispute.giver} {dispute.auditor}"


def _do_overlap(blocks: Collection[int], other_blocks: Collection[int]) -> bool:
    return min(blocks) <= max(other_blocks) and min(other_blocks) <= max(blocks)
