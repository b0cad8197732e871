"""Remembers a block that was refused, until it is explained: the same word at every try.

Explained it is by whoever gets past it: an endpoint that proves it, two that say the same of it,
or an operator, by a setting or by `resync refusal --accept`.
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

# What is known of the chain, and not of an endpoint, stands under this name.
_CHAIN = ""


def refusal_in(uow: UnitOfWork) -> BlockRefusal | None:
    """Return the block that was refused, and that nobody has explained; None: there is none."""
    text = uow.facts.get(_CHAIN, REFUSAL, 0)
    return None if text is None else BlockRefusal.from_json(text)


def store_refusal(store: Store, refusal: BlockRefusal) -> RefusalError:
    """Write down that a block was refused; return what to raise: the first refusal's words."""
    with store.transaction() as uow:
        known = refusal_in(uow)
        if known is None:
            uow.facts.set(_CHAIN, {REFUSAL: refusal.to_json()}, None)
    return RefusalError(known or refusal)


def explained(uow: UnitOfWork, blocks: BlockRange) -> None:
    """Forget a refusal inside these blocks: they were read, as well as the chain allows."""
    known = refusal_in(uow)
    if known is not None and blocks.first <= known.number <= blocks.last:
        uow.facts.forget(_CHAIN, REFUSAL)


def accept_refused_block(uow: UnitOfWork, reason: str) -> BlockRefusal:
    """Let the refused block pass as it is given, because an operator says so; return it.

    Raises:
        InputError: no block is refused, two endpoints show two blocks, or a provider is waited
            for.
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
