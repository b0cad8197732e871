"""Builds a file for verifying a node's scores in a round without the oracle.

The page `/verify` reads the file. See docs/spec/evidence.md#bundle.
"""

import json
from collections.abc import Iterator, Sequence

from pydantic import Field, JsonValue

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.events.jsonl import event_to_json
from oracle.domain.events.network_events import DomainEvent, GroupValidated
from oracle.domain.events.oracle_events import Objected, RoundAccepted
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from oracle.domain.reports.kickout_evidence import justifies_kickout
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.state import Node, Task
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.kickout_reviews import load_counted_entries, load_task_creators
from oracle.indexer.round_leaves import LeafCache, load_domain
from oracle.indexer.stored_events import iterate_decoded_chunks
from oracle.kickouts.kickout_cases import load_kickout_evidence
from oracle.kickouts.objection_sender import build_objection_statement
from oracle.queries.answers import AddressText, ApiModel, HashText, LogPlace, load_event_sources
from oracle.queries.node_proof import NodeProofDetail, load_accepted_round, prove_node
from oracle.queries.objection_models import (
    ObjectionEntry,
    build_objection_entries,
)
from oracle.quorum.statements import list_round_statements
from oracle.reporting.recompute import find_as_of_block
from oracle.signing.signature_checks import normalize_statement_signature
from oracle.signing.typed_data import Domain
from oracle.store.database import UnitOfWork

BUNDLE_VERSION = 1


class BundleConfiguration(ApiModel):
    """The configuration that a round was signed under; the round's `config` is its digest."""

    config_count: int = Field(
        description="Number of the contract's configuration, counted from its deployment."
    )
    signers: list[AddressText]
    quorum: int


class BundleRound(ApiModel):
    """The signed report of a round, and the signatures stored on this host."""

    chain_id: int
    contract: AddressText
    round: int
    prev: HashText | None = Field(
        description=("Root of the previous round; null if this host does not have it.")
    )
    as_of: int
    as_of_hash: HashText
    as_of_time: int | None = Field(
        description="Time of the block `as_of`, in unix seconds; null if it is not stored."
    )
    deadline: int | None = Field(
        description="Deadline of the report, in unix seconds; null if this host does not know it."
    )
    root: HashText
    config: HashText
    configuration: BundleConfiguration | None = Field(
        description=(
            "Configuration for which the round was signed; null if the contract has a newer one, "
            "or if it is not indexed."
        )
    )
    signatures: list[str] = Field(
        description=(
            "Signatures of one digest that this host has, each 65 bytes as hex; empty if it has "
            "none."
        )
    )
    accepted_at: LogPlace


class BundlePosition(ApiModel):
    """The position of an event in the chain."""

    block: int
    tx: int
    log: int
    sub: int


class BundleScore(ApiModel):
    """A score that counts in the round, with the same fields as in kickout evidence."""

    seq: int
    task: HashText
    group: HashText
    creator: AddressText | None
    rank: int | None
    elapsed: int | None
    score: int
    at: BundlePosition
    time: int


class BundleLog(ApiModel):
    """The raw log of an event in the bundle."""

    block: int
    block_hash: HashText
    tx: int
    log: int
    transaction: HashText
    address: AddressText
    topics: list[HashText]
    data: str = Field(examples=["0x"])


class BundleObjection(ObjectionEntry):
    """An objection, and the node's signed statement if it was posted to this reporter."""

    contract: AddressText | None = Field(
        description=(
            "Address of the objections contract, which is part of the EIP-712 domain of "
            "objections and answers; null if the raw log is not stored."
        )
    )
    deadline: int | None = Field(
        description=(
            "Deadline in the signed objection, in unix seconds; null if `signature` is null."
        )
    )
    signature: str | None = Field(
        description=(
            "Signature of the objection by the node's key, 65 bytes as hex; null if the objection "
            "was not posted to this reporter, if the node is a contract, or if the raw log is not "
            "stored."
        )
    )


class EvidenceBundle(ApiModel):
    """A node's leaf in a round, and the data that its scores are computed from."""

    bundle_version: int
    node: AddressText
    proof: NodeProofDetail
    signed_round: BundleRound
    rules_id: str = Field(
        description="Text whose SHA-256 is the contract's `rulesHash`; it contains the rule set."
    )
    holds_kickouts: bool = Field(
        description="Whether the network's profile holds every kickout for review."
    )
    scores: list[BundleScore] = Field(
        description=(
            "The scores of the pool that the leaf states, oldest first; empty if the node has no "
            "leaf."
        )
    )
    evidence: str | None = Field(
        description=(
            "Text of the evidence file; null if the leaf states no due kickout, or if the stored "
            "scores do not justify one."
        )
    )
    objections: list[BundleObjection] = Field(
        description="The objections to the kickout that the leaf states, oldest first; no score "
        "depends on them."
    )
    events: list[dict[str, JsonValue]] = Field(
        description=(
            "All events, up to the as-of block, about the tasks and groups of these scores and of "
            "the evidence."
        )
    )
    logs: list[BundleLog] = Field(description="The logs of these events.")


def build_evidence_bundle(
    archive: EventArchive,
    cache: LeafCache,
    address: Address,
    round_number: int | None,
    rules_id: str,
) -> EvidenceBundle:
    """Build the evidence bundle of a node in a round, by default the newest accepted round.

    `rules_id` is the text whose SHA-256 is the rules hash of the contract.

    Raises:
        InputError: see `prove_node`.
        NoNearbySnapshotError: see `prove_node`.
    """
    proof = prove_node(archive, cache, address, round_number)
    with archive.store.read_transaction() as uow:
        accepted_round = load_accepted_round(uow, proof.summary.round)
        node = uow.nodes.get_many([address]).get(address)
        scores = _load_proven_scores(uow, proof, accepted_round)
        evidence_scores, evidence = _load_kickout_evidence(archive, uow, node, proof)
        entry_by_seq = {entry.seq: entry for entry in (*scores, *evidence_scores)}
        events, logs = _load_events(
            archive, uow, list(entry_by_seq.values()), accepted_round.as_of
        )
        creators = load_task_creators(uow, scores, Position(accepted_round.as_of + 1, 0, 0))
        return EvidenceBundle(
            bundle_version=BUNDLE_VERSION,
            node=address,
            proof=proof,
            signed_round=_build_round(uow, accepted_round),
            rules_id=rules_id,
            holds_kickouts=archive.reader.holds_kickouts,
            scores=[_build_score(entry, creators.get(entry.task)) for entry in scores],
            evidence=evidence,
            objections=_load_objections(archive, uow, address, proof.leaf.kickout_due_since),
            events=[json.loads(event_to_json(event)) for event in events],
            logs=logs,
        )


def _load_proven_scores(
    uow: UnitOfWork, proof: NodeProofDetail, accepted_round: RoundAccepted
) -> list[ScoreEntry]:
    if proof.is_absent or not proof.leaf.score_count:
        return []
    return uow.scores.list_for_node_up_to_block(
        Address(proof.address), accepted_round.as_of, proof.leaf.score_count
    )


def _load_kickout_evidence(
    archive: EventArchive, uow: UnitOfWork, node: Node | None, proof: NodeProofDetail
) -> tuple[Sequence[ScoreEntry], str | None]:
    """Load the scores and the text of the kickout evidence that the leaf refers to.

    They are empty and None if no kickout is due by the leaf.
    """
    if node is None or proof.is_absent or proof.leaf.kickout_due_since is None:
        return (), None
    intervals = [
        interval
        for interval in uow.kickouts.list_for_node(Address(proof.address))
        if interval.opened_at.block <= proof.summary.as_of
    ]
    if not intervals:
        return (), None
    policy = archive.kickout_policy
    entries = load_counted_entries(uow, node, intervals[-1].opened_at, policy.rules)
    if not justifies_kickout(entries, policy.rules):
        return (), None
    return entries, load_kickout_evidence(uow, policy, intervals[-1])


def _load_objections(
    archive: EventArchive, uow: UnitOfWork, node: Address, due_since: int | None
) -> list[BundleObjection]:
    objections = [
        objection
        for objection in uow.objections.list_for_nodes([node])
        if objection.due_since == due_since
    ]
    policy = archive.kickout_policy
    return build_bundle_objections(uow, objections, policy, load_domain(uow).chain_id)


def _load_events(
    archive: EventArchive, uow: UnitOfWork, entries: Sequence[ScoreEntry], last_block: int
) -> tuple[list[DomainEvent], list[BundleLog]]:
    """Load all events of the task groups that `entries` belong to, with their logs.

    The events are in order. Events after `last_block` are left out, because they change no score
    of the round.
    """
    results = uow.results.list_closed_at([entry.at for entry in entries])
    task_keys = {entry.task for entry in entries}
    task_keys |= {member.task for result in results for member in result.members}
    group_keys = {entry.group for entry in entries}
    tasks = uow.tasks.get_many(task_keys)
    block_numbers = {entry.at.block for entry in entries}
    for task in tasks.values():
        block_numbers.update(_iter_task_blocks(task))
    events, logs = [], []
    for block in sorted(block for block in block_numbers if block <= last_block):
        block_range = BlockRange(block, block)
        matching_events = [
            event
            for _, _, decoded_events in iterate_decoded_chunks(uow, archive.reader, block_range)
            for event in decoded_events.events
            if _is_about_tasks(event, task_keys, group_keys)
        ]
        event_places = {(event.at.tx, event.at.log) for event in matching_events}
        events += matching_events
        logs += [
            BundleLog(
                block=log.block,
                block_hash=log.block_hash,
                tx=log.tx,
                log=log.index,
                transaction=log.tx_hash,
                address=log.address,
                topics=[Hash(topic) for topic in log.topics],
                data=log.data,
            )
            for log in uow.logs.iterate_between(block, block)
            if (log.tx, log.index) in event_places
        ]
    return events, logs


def _iter_task_blocks(task: Task) -> Iterator[int]:
    """Yield the blocks of the events that a task's score may depend on."""
    positions = (
        task.created_at,
        task.started_at,
        task.stopped_at,
        task.revealed_at,
        task.ended_at,
        *(run.started_at for run in task.runs),
    )
    yield from (position.block for position in positions if position is not None)


def _is_about_tasks(event: DomainEvent, tasks: set[TaskKey], groups: set[GroupKey]) -> bool:
    if isinstance(event, GroupValidated):
        return event.group in groups
    return getattr(event, "task", None) in tasks


def _build_score(entry: ScoreEntry, creator: Address | None) -> BundleScore:
    return BundleScore(
        seq=entry.seq,
        task=entry.task,
        group=entry.group,
        creator=creator,
        rank=entry.rank,
        elapsed=entry.elapsed,
        score=entry.score,
        at=BundlePosition(**entry.at._asdict()),
        time=entry.time,
    )


def _build_round(uow: UnitOfWork, accepted_round: RoundAccepted) -> BundleRound:
    domain = load_domain(uow)
    block = find_as_of_block(uow, accepted_round)
    statements = [
        statement
        for statement in list_round_statements(uow, domain.contract, accepted_round.round)
        if (statement.root, statement.config) == (accepted_round.root, accepted_round.config)
    ]
    # Statements about the same round may have different deadlines, and therefore different
    # digests. The bundle contains the signatures of the first digest.
    matching_statements = [
        statement for statement in statements if statement.digest == statements[0].digest
    ]
    previous_round = uow.rounds.find_accepted_round(accepted_round.round - 1)
    return BundleRound(
        chain_id=domain.chain_id,
        contract=domain.contract,
        round=accepted_round.round,
        prev=matching_statements[0].prev
        if matching_statements
        else (None if previous_round is None else previous_round.root),
        as_of=accepted_round.as_of,
        as_of_hash=accepted_round.as_of_hash,
        as_of_time=None if block is None else block.time,
        deadline=matching_statements[0].deadline if matching_statements else None,
        root=accepted_round.root,
        config=accepted_round.config,
        configuration=_find_round_configuration(uow, accepted_round),
        signatures=["0x" + statement.signature.hex() for statement in matching_statements],
        accepted_at=load_event_sources(uow, [accepted_round.at])[accepted_round.at],
    )


def _find_round_configuration(
    uow: UnitOfWork, accepted_round: RoundAccepted
) -> BundleConfiguration | None:
    settings = uow.rounds.get_contract_settings()
    config, signers = settings.config, settings.signers
    if config is None or signers is None or config.digest != accepted_round.config:
        return None
    return BundleConfiguration(
        config_count=config.count,
        signers=list(signers.signers),
        quorum=signers.quorum,
    )


def build_bundle_objections(
    uow: UnitOfWork, objections: Sequence[Objected], policy: KickoutPolicy, chain_id: int
) -> list[BundleObjection]:
    """Build the bundle entries of objections, with their signatures, in the same order."""
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
        deadline_and_signature = _find_signature(uow, objection, Domain(chain_id, contract))
        deadline, signature = deadline_and_signature or (None, None)
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
    """Return the deadline and the node's signature, if a signature is stored."""
    for posted_objection in uow.objection_inbox.list_for_node(objection.node):
        statement = build_objection_statement(posted_objection)
        if (statement.due_since, statement.reason, statement.text, statement.seq) != (
            objection.due_since,
            objection.reason,
            objection.text,
            objection.seq,
        ):
            continue
        digest = statement.compute_digest(domain)
        signature = normalize_statement_signature(
            posted_objection.signature, digest, objection.node
        )
        if signature is not None:
            return statement.deadline, signature
    return None
