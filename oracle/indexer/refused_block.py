"""Stores a refused block until it is explained, so that every attempt fails the same way.

A refusal is explained once an endpoint proves the block, once two endpoints agree on it, or once
an operator accepts it by a setting or by `resync refusal --accept`.
"""

from oracle.chain.verification.refused_blocks import (
    BLOCK_HASH,
    CALIBRATION,
    REFUSAL,
    BlockRefusal,
    RefusalError,
)
from oracle.domain.blocks import BlockRange
from oracle.errors import InputError
from oracle.store.database import Store, UnitOfWork

# Facts of the chain, rather than of an endpoint, are stored under this name.
_CHAIN = ""


def refusal_in(uow: UnitOfWork) -> BlockRefusal | None:
    """Return the refused block that is not explained yet, or None."""
    text = uow.facts.get(_CHAIN, REFUSAL, 0)
    return None if text is None else BlockRefusal.from_json(text)


def store_refusal(store: Store, refusal: BlockRefusal) -> RefusalError:
    """Store that a block was refused; return the error of the first refusal."""
    with store.transaction() as uow:
        known = refusal_in(uow)
        if known is None:
            uow.facts.set(_CHAIN, {REFUSAL: refusal.to_json()}, None)
    return RefusalError(known or refusal)


def explained(uow: UnitOfWork, blocks: BlockRange) -> None:
    """Delete a refusal inside these blocks, which were read at the required level."""
    known = refusal_in(uow)
    if known is not None and blocks.first <= known.number <= blocks.last:
        uow.facts.forget(_CHAIN, REFUSAL)


def accept_refused_block(uow: UnitOfWork, reason: str) -> BlockRefusal:
    """Accept the refused block as served, on an operator's command, and return it.

    Raises:
        InputError: no block is refused, two endpoints show two blocks, or a provider does not
            respond.
    """
    known = refusal_in(uow)
    if known is None:
        raise InputError("no block is refused: there is nothing to accept")
    if known.check == BLOCK_HASH:
        raise InputError(
            "take the endpoint that is wrong out of [chain] endpoints, or name a third"
        )
    if known.check == CALIBRATION:
        raise InputError(
            "a provider does not answer: wait for it, take its endpoints out of [chain] "
            "endpoints, or ask for less with [verify]"
        )
    uow.facts.set(_CHAIN, {known.acceptance: reason}, None)
    return known
