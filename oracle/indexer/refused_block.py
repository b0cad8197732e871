"""Stores a refused block until it is explained, so that every attempt fails the same way.

A refusal is explained once an endpoint proves the block, once two endpoints agree on it, or once
an operator accepts it by a setting or by `resync refusal --accept`.
"""

from oracle.chain.verification.refused_blocks import (
    BLOCK_HASH_CHECK,
    CALIBRATION_CHECK,
    REFUSAL_FACT,
    BlockRefusal,
    BlockRefusedError,
)
from oracle.domain.blocks import BlockRange
from oracle.errors import InputError
from oracle.store.database import Store, UnitOfWork

# Facts of the chain, rather than of an endpoint, are stored under this name.
_CHAIN_FACTS_KEY = ""


def get_refusal(uow: UnitOfWork) -> BlockRefusal | None:
    """Return the refused block that is not explained yet, or None."""
    text = uow.facts.get(_CHAIN_FACTS_KEY, REFUSAL_FACT, 0)
    return None if text is None else BlockRefusal.from_json(text)


def store_refusal(store: Store, refusal: BlockRefusal) -> BlockRefusedError:
    """Store a refusal, unless one is stored already; return the error of the stored refusal."""
    with store.transaction() as uow:
        existing_refusal = get_refusal(uow)
        if existing_refusal is None:
            uow.facts.set(_CHAIN_FACTS_KEY, {REFUSAL_FACT: refusal.to_json()}, None)
    return BlockRefusedError(existing_refusal or refusal)


def clear_refusal(uow: UnitOfWork, blocks: BlockRange) -> None:
    """Delete a refusal inside these blocks, which were read at the required level."""
    refusal = get_refusal(uow)
    if refusal is not None and blocks.first <= refusal.number <= blocks.last:
        uow.facts.delete(_CHAIN_FACTS_KEY, REFUSAL_FACT)


def accept_refused_block(uow: UnitOfWork, reason: str) -> BlockRefusal:
    """Accept the refused block as served, on an operator's command, and return it.

    Raises:
        InputError: no block is refused, two endpoints show two blocks, or a provider does not
            respond.
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
            f"block {refusal.number}: a provider does not respond, so it cannot be accepted; wait "
            "for it, remove its endpoints from [chain] endpoints, or lower the level in [verify]"
        )
    uow.facts.set(_CHAIN_FACTS_KEY, {refusal.acceptance_fact: reason}, None)
    return refusal
