"""Has a second endpoint say where a window of history ends, before it is taken in.

A header chain of its own fits itself: its roots, its blooms and its hashes. What it cannot have is
another endpoint that ends up at the same block.
See docs/explanation/verification.md#who-is-believed.
"""

from collections.abc import Mapping

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.verification.refused_blocks import BLOCK_HASH, BlockRefusal
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.indexer.refused_block import refusal_in, remembered
from oracle.indexer.reorgs.fork_detection import ENOUGH, ForkContext
from oracle.telemetry.indexer_metrics import WITNESSED_WINDOWS

# What one endpoint's headers prove against it, whatever the others say.
_UNFIT = "its own headers do not link, or have other hashes"


class OutvotedError(TransientError):
    """Who gave a window was found wrong about its last block: the others are to be asked."""


def check_witness(fork_context: ForkContext, window: BlockWindow) -> None:
    """Let a window of final blocks be taken in only if nobody denies where it ends.

    Where two endpoints show two blocks, who contradicts himself loses: his headers do not link, or
    do not hash to what they say. One endpoint alone goes on, unwitnessed.

    Raises:
        OutvotedError: who gave it was found wrong.
        TransientError: both sides fit themselves: nobody is believed (RefusalError), or one of
            them does not answer while that is looked for.
    """
    _check_refused(fork_context, window)
    last = window.last
    told = fork_context.chain.second(last.number, window.endpoint)
    if told is None:
        is_alone = len(fork_context.chain.endpoint_names()) < ENOUGH
        WITNESSED_WINDOWS.labels("alone" if is_alone else "unanswered").inc()
    elif told[1].hash == last.hash:
        WITNESSED_WINDOWS.labels("agreed").inc()
    else:
        WITNESSED_WINDOWS.labels("disputed").inc()
        _judge(fork_context, window)


def _check_refused(fork_context: ForkContext, window: BlockWindow) -> None:
    """Let silence explain nothing: two endpoints must say the same, or an operator name one."""
    with fork_context.store.reading() as uow:
        known = refusal_in(uow)
    if known is None or known.check != BLOCK_HASH:
        return
    blocks = window.range
    is_alone = len(fork_context.chain.endpoint_names()) < ENOUGH
    if is_alone or not blocks.first <= known.number <= blocks.last:
        return
    shown = [block.hash for block in _views(fork_context, known.number).values()]
    if max(map(shown.count, shown), default=0) < ENOUGH:
        raise remembered(fork_context.store, known)


def _judge(fork_context: ForkContext, window: BlockWindow) -> None:
    """Find out who is right about the window's last block."""
    number, ours, giver = window.last.number, window.last.hash, window.endpoint
    views = _views(fork_context, number)
    shown = {name: block.hash for name, block in views.items()} | {giver: ours}
    said = list(shown.values())
    believed = {hash_ for hash_ in said if said.count(hash_) >= ENOUGH}
    if len(believed) == 1:
        wrong, why = [name for name in shown if shown[name] not in believed], "is outvoted"
    else:
        wrong = [name for name in shown if not fork_context.chain.is_linked(name, window.range)]
        why = _UNFIT
    right = {shown[name] for name in shown.keys() - set(wrong)}
    if len(right) != 1:
        raise _refused(fork_context, number, shown, ours)
    for name in wrong:
        fork_context.chain.deprioritise(name, f"shows another block {number}: {why}", number)
        if why == _UNFIT:
            fork_context.chain.blame(name, f"shows another block {number}: {why}")
    if giver in wrong:
        raise OutvotedError(f"{giver} shows another block {number}: {why}")


def _refused(
    fork_context: ForkContext, number: int, shown: Mapping[str, Hash], ours: Hash
) -> TransientError:
    said = " and ".join(f"{hash_} to {name}" for name, hash_ in sorted(shown.items()))
    words = f"block {number} is {said}: each fits itself, and no second endpoint says the same"
    return remembered(fork_context.store, BlockRefusal(number, ours, BLOCK_HASH, words))


def _views(fork_context: ForkContext, number: int) -> dict[str, BlockRef]:
    """Return by endpoint which block it shows at this height, if it has come so far."""
    return {
        one.endpoint: one.block
        for one in fork_context.chain.witness(number)
        if one.block is not None and one.head.number >= number
    }
