"""Proposals of kickouts on chain whose signatures are ours, and that this database never signed.

What was signed is in the input of the transaction, which nobody reads while he indexes: each new
proposal is asked for once, where it is found at the head (decision 0111).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from oracle.bindings.oracle_views import signers_of
from oracle.bindings.qos_oracle import proposal_in
from oracle.chain.decode.abi_tails import MalformedError
from oracle.chain.decode.oracle_logs import proposed_signatures
from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.kicks import Kick
from oracle.errors import TransientError
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.signing_round import RECENT_ROUNDS
from oracle.quorum.statements import KICK
from oracle.rpc.fanout import understood
from oracle.rpc.rpc_errors import CallRefusedError
from oracle.signing.signature_checks import is_signed_by
from oracle.signing.typed_data import KickStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement

# Block of the first look, and the proposals that were looked at.
_SEEN = "own_key_seen_kicks"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A kickout that the contract took: the transaction, its block's time, and what we signed.

    `config`: what it was signed under. `ours`: our statements about that node on the
    rounds that it may have been signed on, whatever became of them.
    """

    kick: Kick
    tx_hash: Hash
    time: int
    config: Hash
    ours: Sequence[SignedStatement]

    def is_of(self, context: QuorumContext, ours: SignedStatement) -> bool:
        """Tell whether a statement of ours is of the evidence that the log names."""
        said = KickStatement(
            config=ours.config or ZERO_HASH,
            round=ours.round,
            report=ours.prev_digest or ZERO_HASH,
            node=self.kick.node,
            evidence=self.kick.evidence,
            deadline=ours.expires_at,
        )
        return said.digest(context.tx.publisher.domain) == ours.digest


@dataclass(frozen=True, slots=True)
class ProposalScan:
    """Proposals that nobody has looked at yet; `seen`: what to write down once somebody has."""

    fresh: Sequence[Proposal]
    seen: str | None

    def store_progress(self, uow: UnitOfWork) -> None:
        """Store that the proposals were checked."""
        if self.seen is not None:
            uow.bookmarks.set(_SEEN, self.seen)


def unseen(context: QuorumContext, uow: UnitOfWork, heads: Heads) -> ProposalScan:
    """Return the proposals since the last scan; the first scan, at the head, returns none."""
    told, newest = uow.bookmarks.get(_SEEN), uow.rounds.newest_kicks()
    if told is None:
        cursor = uow.cursor.get()
        is_first = cursor is not None and context.tx.is_at_head(uow, heads)
        return ProposalScan((), f"{cursor.number}" if cursor is not None and is_first else None)
    since, *names = told.split(" ")
    later = [kick for kick in newest if kick.proposed_at.block > int(since)]
    fresh = [kick for kick in later if _name(kick) not in names]
    if not fresh:
        return ProposalScan((), None)
    found = (_proposal(context, uow, kick) for kick in fresh)
    return ProposalScan(
        [one for one in found if one is not None], " ".join([since, *map(_name, later)])
    )


def is_strange(context: QuorumContext, proposal: Proposal) -> bool:
    """Tell whether our key has signed it, and not here.

    One that came by way of another contract does not show its signatures: it is ours where all of
    the contract's signers have to sign, and else nobody knows.

    Raises:
        TransientError: no endpoint answers.
    """
    said = _said(context, proposal)
    if said is None:
        return _is_hidden(context, proposal)
    digest, signatures = said
    is_known = any(one.digest == digest for one in proposal.ours)
    return not is_known and is_signed_by(context.tx.publisher.signer.address, digest, signatures)


def _name(kick: Kick) -> str:
    """Return the key of a proposal; after a reorg another may have the same position."""
    at = kick.proposed_at
    return f"{at.block}:{at.tx}:{at.log}:{kick.evidence[2:10]}"


def _proposal(context: QuorumContext, uow: UnitOfWork, kick: Kick) -> Proposal | None:
    at, domain = kick.proposed_at, context.tx.publisher.domain
    logs = (log for log in uow.logs.between(at.block, at.block) if log.index == at.log)
    log = next(logs, None)
    if log is None:
        return None
    signer, subject = context.tx.publisher.signer.address, kick.node
    signed = [
        one
        for around in range(max(kick.round - RECENT_ROUNDS, 0) + 1, kick.round + 1)
        for one in uow.statements.of_round(domain.contract, KICK, around, subject)
    ]
    config = uow.rounds.config_before(at) or ZERO_HASH
    ours = [one for one in signed if one.signer == signer]
    return Proposal(kick, log.tx_hash, log.time, config, ours)


def _said(context: QuorumContext, proposal: Proposal) -> tuple[Hash, bytes] | None:
    """Return the digest that was signed, and the signatures; None: the input does not say."""
    calldata = _input_of(context, proposal.tx_hash)
    if calldata is None:
        return None
    try:
        signatures = proposed_signatures(calldata)
    except MalformedError:
        return None
    said = proposal_in(calldata, proposal.config)
    return said.digest(context.tx.publisher.domain), signatures


def _input_of(context: QuorumContext, tx_hash: Hash) -> str | None:
    """Return the input of a transaction to the contract; None: it called another, or none has it.

    Raises:
        TransientError: no endpoint answers.
    """
    silence: TransientError | None = TransientError("no endpoint is configured")
    for line in context.tx.publisher.lines.all:
        try:
            sent = line.ask("eth_getTransactionByHash", tx_hash)
        except CallRefusedError:
            silence = None
            continue
        except TransientError as error:
            silence = silence and error
            continue
        silence = None
        with understood("a transaction"):
            if sent is not None and sent["hash"] == tx_hash:
                is_direct = (sent["to"] or "").lower() == context.tx.publisher.domain.contract
                return str(sent["input"]) if is_direct else None
    if silence is not None:
        raise silence
    return None


def _is_hidden(context: QuorumContext, proposal: Proposal) -> bool:
    if any(proposal.is_of(context, one) for one in proposal.ours):
        return False
    publisher, kick = context.tx.publisher, proposal.kick
    contract_status = context.contract_status()
    signers = signers_of(publisher.lines, publisher.domain.contract, contract_status.block)
    is_ours = publisher.signer.address in signers and contract_status.head.quorum >= len(signers)
    if not is_ours:
        structlog.get_logger().warning(
            "proposal_decode_failed",
            node=kick.node,
            round=kick.round,
            transaction=proposal.tx_hash,
            act="it shows no signatures; whether our key signed it is not known",
        )
    return is_ours
