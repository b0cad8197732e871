"""Finds on-chain kickout proposals with our signature that this database did not create.

The signed statement is in the input of the transaction, but indexing does not read inputs.
Therefore the transaction of each new proposal is requested once, when the proposal is found at the
head (decision 0111).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from oracle.bindings.qos_oracle import decode_kick_proposal, get_signers
from oracle.chain.decode.abi_values import MalformedError
from oracle.chain.decode.oracle_logs import decode_proposal_signatures
from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.kicks import Kick
from oracle.errors import TransientError
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.signing_round import RECENT_ROUNDS
from oracle.quorum.statements import KICK
from oracle.rpc.fanout import expect_response_format
from oracle.rpc.rpc_errors import CallRefusedError
from oracle.signing.signature_checks import is_signed_by
from oracle.signing.typed_data import KickStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement

# The bookmark of the block of the first check, and of the proposals that were checked.
PROPOSALS_BOOKMARK = "own_key_seen_kicks"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A kickout that the contract accepted: its transaction, block time and our statements.

    `config` is the digest of the configuration under which the kickout was signed.
    `own_statements` are our statements about the node, including expired ones, on all rounds on
    which the kickout may have been signed.
    """

    kick: Kick
    tx_hash: Hash
    time: int
    config: Hash
    own_statements: Sequence[SignedStatement]

    def matches_statement(self, context: QuorumContext, own_statement: SignedStatement) -> bool:
        """Return whether one of our statements has this proposal's node and evidence."""
        kick_statement = KickStatement(
            config=own_statement.config or ZERO_HASH,
            round=own_statement.round,
            report=own_statement.prev_digest or ZERO_HASH,
            node=self.kick.node,
            evidence=self.kick.evidence,
            deadline=own_statement.expires_at,
        )
        return (
            kick_statement.compute_digest(context.account_context.sender_account.domain)
            == own_statement.digest
        )


def scan_proposals(
    context: QuorumContext, uow: UnitOfWork, heads: Heads
) -> tuple[Sequence[Proposal], str | None]:
    """Return the proposals since the last scan; the first scan, at the head, returns none.

    The second value is the bookmark to store under `PROPOSALS_BOOKMARK` once the proposals are
    checked, or None if the stored bookmark is still valid.
    """
    bookmark, newest_kicks = uow.bookmarks.get(PROPOSALS_BOOKMARK), uow.rounds.list_newest_kicks()
    if bookmark is None:
        cursor = uow.cursor.get()
        is_first = cursor is not None and context.account_context.is_at_head(uow, heads)
        return (), f"{cursor.number}" if cursor is not None and is_first else None
    since, *seen_keys = bookmark.split(" ")
    later_kicks = [kick for kick in newest_kicks if kick.proposed_at.block > int(since)]
    new_kicks = [kick for kick in later_kicks if _build_key(kick) not in seen_keys]
    if not new_kicks:
        return (), None
    candidates = (_load_proposal(context, uow, kick) for kick in new_kicks)
    new_proposals = [proposal for proposal in candidates if proposal is not None]
    return new_proposals, " ".join([since, *map(_build_key, later_kicks)])


def is_signed_elsewhere(context: QuorumContext, proposal: Proposal) -> bool:
    """Return whether our key signed a proposal whose signature this database did not create.

    A proposal that was sent through another contract does not show its signatures. In that case
    our key must have signed if all signers of the contract have to sign. Otherwise the signers
    remain unknown.

    Raises:
        TransientError: no endpoint answers.
    """
    signed = _fetch_signed_digest(context, proposal)
    if signed is None:
        return _requires_own_signature(context, proposal)
    digest, signatures = signed
    is_signed_here = any(
        own_statement.digest == digest for own_statement in proposal.own_statements
    )
    return not is_signed_here and is_signed_by(
        context.account_context.sender_account.signer.address, digest, signatures
    )


def _build_key(kick: Kick) -> str:
    """Return a key of a proposal that is unique even if a reorg reuses its position."""
    position = kick.proposed_at
    return f"{position.block}:{position.tx}:{position.log}:{kick.evidence[2:10]}"


def _load_proposal(context: QuorumContext, uow: UnitOfWork, kick: Kick) -> Proposal | None:
    position, domain = kick.proposed_at, context.account_context.sender_account.domain
    logs = (
        log
        for log in uow.logs.iterate_between(position.block, position.block)
        if log.index == position.log
    )
    log = next(logs, None)
    if log is None:
        return None
    signer, subject = context.account_context.sender_account.signer.address, kick.node
    statements = [
        statement
        for round_number in range(max(kick.round - RECENT_ROUNDS, 0) + 1, kick.round + 1)
        for statement in uow.statements.list_for_round(
            domain.contract, KICK, round_number, subject
        )
    ]
    config = uow.rounds.get_config_before(position) or ZERO_HASH
    own_statements = [statement for statement in statements if statement.signer == signer]
    return Proposal(kick, log.tx_hash, log.time, config, own_statements)


def _fetch_signed_digest(context: QuorumContext, proposal: Proposal) -> tuple[Hash, bytes] | None:
    """Return the signed digest and the signatures, or None if the input does not contain them."""
    calldata = _fetch_input(context, proposal.tx_hash)
    if calldata is None:
        return None
    try:
        signatures = decode_proposal_signatures(calldata)
    except MalformedError:
        return None
    kick_statement = decode_kick_proposal(calldata, proposal.config)
    return kick_statement.compute_digest(context.account_context.sender_account.domain), signatures


def _fetch_input(context: QuorumContext, tx_hash: Hash) -> str | None:
    """Return the input of a transaction to the contract, or None if it is not available.

    None means that the transaction called another contract, or that no endpoint has it.

    Raises:
        TransientError: no endpoint answers.
    """
    last_error: TransientError | None = TransientError("no endpoint is configured")
    for endpoint in context.account_context.sender_account.pool_view.callers:
        try:
            tx = endpoint.request("eth_getTransactionByHash", tx_hash)
        except CallRefusedError:
            last_error = None
            continue
        except TransientError as error:
            last_error = last_error and error
            continue
        last_error = None
        with expect_response_format("a transaction"):
            if tx is not None and tx["hash"] == tx_hash:
                is_direct = (
                    tx["to"] or ""
                ).lower() == context.account_context.sender_account.domain.contract
                return str(tx["input"]) if is_direct else None
    if last_error is not None:
        raise last_error
    return None


def _requires_own_signature(context: QuorumContext, proposal: Proposal) -> bool:
    if any(
        proposal.matches_statement(context, own_statement)
        for own_statement in proposal.own_statements
    ):
        return False
    publisher, kick = context.account_context.sender_account, proposal.kick
    contract_status = context.fetch_contract_status()
    signers = get_signers(publisher.pool_view, publisher.domain.contract, contract_status.block)
    is_required = publisher.signer.address in signers and contract_status.head.quorum >= len(
        signers
    )
    if not is_required:
        structlog.get_logger().warning(
            "proposal_decode_failed",
            node=kick.node,
            round=kick.round,
            transaction=proposal.tx_hash,
            act="the transaction shows no signatures, so it is unknown whether our key signed it",
        )
    return is_required
