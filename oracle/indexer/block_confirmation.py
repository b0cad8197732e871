"""Confirms a block with an endpoint of another provider before it counts as final.

A forged header chain is consistent in itself: its roots, blooms and hashes match. An endpoint of
another provider that shows another block exposes it. The parent links prove all blocks below the
confirmed one, so that one header is requested at a time. See
docs/explanation/reorgs.md#confirmed-by-a-second-provider.
"""

from collections import defaultdict
from collections.abc import Mapping
from enum import Enum, auto

from oracle.chain.verification.refused_blocks import BLOCK_HASH, BlockRefusal
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.indexer.refused_block import explained, refusal_in, store_refusal
from oracle.indexer.reorgs.fork_detection import ENOUGH, ForkContext, OutvotedError
from oracle.store.database import UnitOfWork
from oracle.telemetry.indexer_metrics import WITNESSED_WINDOWS

# Faults that an endpoint's own headers prove, regardless of the others.
_UNFIT = "its own headers do not link, or have other hashes"
# A fact of the chain, not of an endpoint: the reason why no further block counts as final.
_CHAIN, _UNCONFIRMED = "", "unconfirmed"


class Confirmation(Enum):
    """Result of confirming a block with a second provider.

    AGREED: another provider shows the block. ALONE: there is no other provider. UNANSWERED: none
    responds. A block that no other provider confirms is not final, whatever its endpoint reports.
    """

    AGREED = auto()
    ALONE = auto()
    UNANSWERED = auto()


def confirm_block(
    fork_context: ForkContext, block: BlockRef, giver: str, blocks: BlockRange
) -> Confirmation:
    """Confirm a future final block with an endpoint of another provider.

    `source_endpoint` returned the block; `blocks` end at it and are ingested with it. If two
    blocks differ, the one that two providers show is accepted. Otherwise the endpoint is wrong
    whose headers do not link or do not hash to their block hashes.

    Raises:
        OutvotedError: `source_endpoint` was found wrong, and deprioritised or quarantined.
        TransientError: both sides are consistent, so neither is accepted (RefusalError), or one of
            them does not respond during the check.
    """
    is_alone = len(set(fork_context.chain.providers().values())) < ENOUGH
    if not is_alone:
        _check_refused(fork_context, blocks)
    seen = fork_context.chain.second(block.number, giver)
    if seen is None:
        result = Confirmation.ALONE if is_alone else Confirmation.UNANSWERED
        WITNESSED_WINDOWS.labels(result.name.lower()).inc()
        return result
    if seen[1].hash == block.hash:
        WITNESSED_WINDOWS.labels("agreed").inc()
    else:
        WITNESSED_WINDOWS.labels("disputed").inc()
        _judge(fork_context, block, giver, blocks)
    return Confirmation.ALONE if is_alone else Confirmation.AGREED


def unconfirmed_reason(uow: UnitOfWork) -> str | None:
    """Return why no further block counts as final, or None if blocks are confirmed."""
    return uow.facts.get(_CHAIN, _UNCONFIRMED, 0)


def note_confirmation(fork_context: ForkContext, block: BlockRef, result: Confirmation) -> None:
    """Store whether blocks wait for a second provider; a confirmed block ends a dispute.

    Written only if the result changes, not for every block.
    """
    is_waiting = result is Confirmation.UNANSWERED
    with fork_context.store.reading() as uow:
        was_waiting = unconfirmed_reason(uow) is not None
        known = refusal_in(uow)
    is_settled = not is_waiting and _is_dispute_up_to(known, block.number)
    if is_waiting == was_waiting and not is_settled:
        return
    with fork_context.store.transaction() as uow:
        if is_waiting:
            words = (
                f"no second provider confirms block {block.number}: blocks from there on are not "
                "final, and nothing that needs final blocks is done (chain.endpoints)"
            )
            uow.facts.set(_CHAIN, {_UNCONFIRMED: words}, None)
        else:
            uow.facts.forget(_CHAIN, _UNCONFIRMED)
        if is_settled and known is not None:
            explained(uow, BlockRange(known.number, known.number))


def _is_dispute_up_to(known: BlockRefusal | None, number: int) -> bool:
    return known is not None and known.check == BLOCK_HASH and known.number <= number


def _check_refused(fork_context: ForkContext, blocks: BlockRange) -> None:
    """Raise the stored refusal again unless two providers now agree on the block."""
    with fork_context.store.reading() as uow:
        known = refusal_in(uow)
    if known is None or not _is_dispute_up_to(known, blocks.last):
        return
    supporters = _supporters(fork_context, _shown_at(fork_context, known.number))
    if max(map(len, supporters.values()), default=0) < ENOUGH:
        raise store_refusal(fork_context.store, known)


def _judge(fork_context: ForkContext, block: BlockRef, giver: str, blocks: BlockRange) -> None:
    """Find out which of two blocks is the chain's; demote the endpoints that are wrong."""
    number, chain = block.number, fork_context.chain
    shown = _shown_at(fork_context, number) | {giver: block.hash}
    supporters = _supporters(fork_context, shown)
    believed = {hash_ for hash_, names in supporters.items() if len(names) >= ENOUGH}
    if len(believed) == 1:
        wrong, why = [name for name in shown if shown[name] not in believed], "is outvoted"
    else:
        wrong, why = [name for name in shown if not chain.is_linked(name, blocks)], _UNFIT
    right = {shown[name] for name in shown.keys() - set(wrong)}
    if len(right) != 1:
        raise _refused(fork_context, number, shown, block.hash)
    for name in wrong:
        words = f"shows another block {number}: {why}"
        if why == _UNFIT:
            chain.deprioritise(name, words, number)
            chain.blame(name, words)
        else:
            chain.quarantine(name, words, (number, next(iter(right))))
    if giver in wrong:
        raise OutvotedError(f"{giver} shows another block {number}: {why}")


def _supporters(fork_context: ForkContext, shown: Mapping[str, Hash]) -> dict[Hash, set[str]]:
    """Return the providers that show each hash."""
    provider = fork_context.chain.providers()
    found: dict[Hash, set[str]] = defaultdict(set)
    for name, block_hash in shown.items():
        found[block_hash].add(provider.get(name, name))
    return found


def _refused(
    fork_context: ForkContext, number: int, shown: Mapping[str, Hash], ours: Hash
) -> TransientError:
    said = " and ".join(f"{hash_} to {name}" for name, hash_ in sorted(shown.items()))
    words = f"block {number} is {said}: each fits itself, and no second endpoint says the same"
    return store_refusal(fork_context.store, BlockRefusal(number, ours, BLOCK_HASH, words))


def _shown_at(fork_context: ForkContext, number: int) -> dict[str, Hash]:
    """Return the hash that each endpoint shows at this height, if its head is that high."""
    return {
        one.endpoint: one.block.hash
        for one in fork_context.chain.witness(number)
        if one.block is not None and one.head.number >= number
    }
