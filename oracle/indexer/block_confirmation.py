"""Confirms blocks with another provider before they count as final.

Refused blocks are stored. The headers of a forged chain can be consistent, with matching roots,
blooms and hashes. Such a chain is detected only because an endpoint of another provider returns a
different block. A confirmed block proves all blocks below it by its parent links. Therefore only
the header of this block and the head of the other endpoint are requested. See
docs/explanation/reorgs.md#confirmed-by-a-second-provider.

A block is refused if its data contradict each other. The refusal is stored, so that every later
attempt fails in the same way, until an endpoint proves the block, two endpoints agree on it, or an
operator accepts it by a setting or by `resync refusal --accept`.
"""

from collections import defaultdict
from collections.abc import Mapping
from enum import Enum, auto

from oracle.chain.verification.refused_blocks import (
    BLOCK_HASH_CHECK,
    CALIBRATION_CHECK,
    REFUSAL_FACT,
    BlockRefusal,
    BlockRefusedError,
)
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Hash
from oracle.errors import InputError, TransientError
from oracle.indexer.reorgs.fork_detection import (
    MIN_PROVIDERS,
    ForkContext,
    OutvotedError,
    count_providers,
    fetch_hashes_by_endpoint,
)
from oracle.rpc.endpoints.probe import CHAIN_FACTS_KEY
from oracle.store.database import Store, UnitOfWork
from oracle.telemetry.indexer_metrics import WITNESSED_WINDOWS

# The fault of an endpoint that is proven wrong by its own headers alone.
_INCONSISTENT_HEADERS = "its own headers do not link or do not match their hashes"
# Name of a stored fact of the chain, not of an endpoint. Its value is the reason why no further
# block becomes final.
_UNCONFIRMED_FACT = "unconfirmed"


class Confirmation(Enum):
    """The result of confirming a block with a second provider.

    AGREED means that another provider has the same block. SINGLE_PROVIDER means that there is no
    other provider. UNANSWERED means that no other provider responds, so that the block does not
    count as final, even if its endpoint reports it as final.
    """

    AGREED = auto()
    SINGLE_PROVIDER = auto()
    UNANSWERED = auto()


def confirm_block(
    fork_context: ForkContext, block: BlockRef, source_endpoint: str, blocks: BlockRange
) -> tuple[Confirmation, BlockRef | None]:
    """Confirm with an endpoint of another provider that a block may become final.

    `source_endpoint` returned the block; `blocks` end with this block and are ingested with it.
    The second value is the head of the other endpoint, or None without a response. It is needed
    because the depth of a block below the head must be confirmed as well. If the endpoints return
    different blocks, the block that two providers have is accepted. If there is no such block, the
    headers of both endpoints are checked: an endpoint is wrong if its headers are not linked, or
    do not match their hashes.

    Raises:
        OutvotedError: `source_endpoint` was found wrong, and was deprioritised or quarantined.
        TransientError: both sides are consistent, so neither is accepted (BlockRefusedError), or
            an endpoint does not respond during the check.
    """
    has_single_provider = count_providers(fork_context.chain) < MIN_PROVIDERS
    if not has_single_provider:
        _check_refused_block(fork_context, blocks)
    second_witness = fork_context.chain.fetch_second_witness(block.number, source_endpoint)
    if second_witness is None:
        confirmation = (
            Confirmation.SINGLE_PROVIDER if has_single_provider else Confirmation.UNANSWERED
        )
        WITNESSED_WINDOWS.labels(confirmation.name.lower()).inc()
        return confirmation, None
    if second_witness.block is not None and second_witness.block.hash == block.hash:
        WITNESSED_WINDOWS.labels("agreed").inc()
    else:
        WITNESSED_WINDOWS.labels("disputed").inc()
        _resolve_block_conflict(fork_context, block, source_endpoint, blocks)
    confirmation = Confirmation.SINGLE_PROVIDER if has_single_provider else Confirmation.AGREED
    return confirmation, second_witness.head


def get_confirmation_obstacle(uow: UnitOfWork) -> str | None:
    """Return why no further block counts as final, or None if there is no obstacle."""
    return uow.facts.get(CHAIN_FACTS_KEY, _UNCONFIRMED_FACT, 0)


def record_confirmation(fork_context: ForkContext, block: BlockRef, result: Confirmation) -> None:
    """Store whether blocks wait for a second provider.

    A dispute that is resolved ends. Nothing is written if the result has not changed.
    """
    is_waiting = result is Confirmation.UNANSWERED
    with fork_context.store.read_transaction() as uow:
        was_waiting = get_confirmation_obstacle(uow) is not None
        refusal = get_refusal(uow)
    is_dispute_over = not is_waiting and _is_hash_dispute_up_to_block(refusal, block.number)
    if is_waiting == was_waiting and not is_dispute_over:
        return
    with fork_context.store.transaction() as uow:
        if is_waiting:
            unconfirmed_reason = (
                f"no second provider confirms block {block.number}: blocks from there on are not "
                "final, and nothing that needs final blocks is done (chain.endpoints)"
            )
            uow.facts.set(CHAIN_FACTS_KEY, {_UNCONFIRMED_FACT: unconfirmed_reason}, None)
        else:
            uow.facts.delete(CHAIN_FACTS_KEY, _UNCONFIRMED_FACT)
        if is_dispute_over and refusal is not None:
            clear_block_refusal(uow, BlockRange(refusal.number, refusal.number))


def _is_hash_dispute_up_to_block(refusal: BlockRefusal | None, block_number: int) -> bool:
    return (
        refusal is not None
        and refusal.check == BLOCK_HASH_CHECK
        and refusal.number <= block_number
    )


def _check_refused_block(fork_context: ForkContext, blocks: BlockRange) -> None:
    """Check whether two providers now agree on the refused block.

    Otherwise the stored refusal is raised again.
    """
    with fork_context.store.read_transaction() as uow:
        refusal = get_refusal(uow)
    if refusal is None or not _is_hash_dispute_up_to_block(refusal, blocks.last):
        return
    providers_by_hash = _group_providers_by_hash(
        fork_context, fetch_hashes_by_endpoint(fork_context.chain, refusal.number)
    )
    if max(map(len, providers_by_hash.values()), default=0) < MIN_PROVIDERS:
        raise store_block_refusal(fork_context.store, refusal)


def _resolve_block_conflict(
    fork_context: ForkContext, block: BlockRef, source_endpoint: str, blocks: BlockRange
) -> None:
    """Determine which of two blocks is on the chain, and deprioritise wrong endpoints."""
    block_number, chain = block.number, fork_context.chain
    hash_by_endpoint = fetch_hashes_by_endpoint(chain, block_number) | {
        source_endpoint: block.hash
    }
    providers_by_hash = _group_providers_by_hash(fork_context, hash_by_endpoint)
    accepted_hashes = {
        block_hash
        for block_hash, providers in providers_by_hash.items()
        if len(providers) >= MIN_PROVIDERS
    }
    if len(accepted_hashes) == 1:
        wrong_endpoints = [
            endpoint
            for endpoint in hash_by_endpoint
            if hash_by_endpoint[endpoint] not in accepted_hashes
        ]
        conflict_reason = "two other providers agree on another block"
    else:
        wrong_endpoints = [
            endpoint
            for endpoint in hash_by_endpoint
            if not chain.has_linked_headers(endpoint, blocks)
        ]
        conflict_reason = _INCONSISTENT_HEADERS
    right_hashes = {
        hash_by_endpoint[endpoint] for endpoint in hash_by_endpoint.keys() - set(wrong_endpoints)
    }
    if len(right_hashes) != 1:
        raise _store_block_conflict(fork_context, block_number, hash_by_endpoint, block.hash)
    for endpoint in wrong_endpoints:
        message = f"shows a different block {block_number}: {conflict_reason}"
        if conflict_reason == _INCONSISTENT_HEADERS:
            chain.deprioritise(endpoint, message, block_number)
            chain.report_wrong_logs(endpoint, message)
        else:
            chain.quarantine(endpoint, message, (block_number, next(iter(right_hashes))))
    if source_endpoint in wrong_endpoints:
        raise OutvotedError(
            f"{source_endpoint} shows a different block {block_number}: {conflict_reason}"
        )


def _group_providers_by_hash(
    fork_context: ForkContext, hash_by_endpoint: Mapping[str, Hash]
) -> dict[Hash, set[str]]:
    provider_by_endpoint = fork_context.chain.get_providers()
    providers_by_hash: dict[Hash, set[str]] = defaultdict(set)
    for endpoint, block_hash in hash_by_endpoint.items():
        providers_by_hash[block_hash].add(provider_by_endpoint.get(endpoint, endpoint))
    return providers_by_hash


def _store_block_conflict(
    fork_context: ForkContext,
    block_number: int,
    hash_by_endpoint: Mapping[str, Hash],
    stored_hash: Hash,
) -> TransientError:
    hashes_text = " and ".join(
        f"{block_hash} to {endpoint}" for endpoint, block_hash in sorted(hash_by_endpoint.items())
    )
    message = (
        f"block {block_number} is {hashes_text}: each fits itself, and no second endpoint "
        "says the same"
    )
    return store_block_refusal(
        fork_context.store, BlockRefusal(block_number, stored_hash, BLOCK_HASH_CHECK, message)
    )


def get_refusal(uow: UnitOfWork) -> BlockRefusal | None:
    """Return the stored block refusal, or None if no block is refused."""
    refusal_json = uow.facts.get(CHAIN_FACTS_KEY, REFUSAL_FACT, 0)
    return None if refusal_json is None else BlockRefusal.from_json(refusal_json)


def store_block_refusal(store: Store, refusal: BlockRefusal) -> BlockRefusedError:
    """Store a block refusal and return its error.

    A refusal that is already stored is kept, and its error is returned.
    """
    with store.transaction() as uow:
        existing_refusal = get_refusal(uow)
        if existing_refusal is None:
            uow.facts.set(CHAIN_FACTS_KEY, {REFUSAL_FACT: refusal.to_json()}, None)
    return BlockRefusedError(existing_refusal or refusal)


def clear_block_refusal(uow: UnitOfWork, blocks: BlockRange) -> None:
    """Delete a refusal of a block in this range.

    The blocks were now read at the required level.
    """
    refusal = get_refusal(uow)
    if refusal is not None and blocks.first <= refusal.number <= blocks.last:
        uow.facts.delete(CHAIN_FACTS_KEY, REFUSAL_FACT)


def accept_refused_block(uow: UnitOfWork, reason: str) -> BlockRefusal:
    """Accept the refused block on behalf of an operator.

    The block is accepted as the endpoint returned it.

    Raises:
        InputError: no block is refused, or acceptance would not help because endpoints return
            different blocks or a provider does not respond.
    """
    refusal = get_refusal(uow)
    if refusal is None:
        raise InputError("no block is refused; there is nothing to accept")
    if refusal.check == BLOCK_HASH_CHECK:
        raise InputError(
            f"block {refusal.number}: two endpoints show different blocks, so it cannot be "
            "accepted; remove the wrong endpoint from [chain] endpoints, or add a third"
        )
    if refusal.check == CALIBRATION_CHECK:
        raise InputError(
            f"block {refusal.number}: it cannot be accepted while a provider does not respond; "
            "wait for it, remove its endpoints from [chain] endpoints, or lower the level in "
            "[verify]"
        )
    uow.facts.set(CHAIN_FACTS_KEY, {refusal.acceptance_fact_name: reason}, None)
    return refusal
