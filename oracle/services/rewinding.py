"""Goes back to where our blocks are the chain's: after a fork, or because a user says so.

State, raw rows' flags, headers, reports, outbox and cursor go back in one transaction
(decision 6, chain.md 3.6). Nothing is deleted that the chain may not serve again.
"""

from collections import deque
from dataclasses import dataclass

from oracle.domain.block import BlockRange, BlockRef
from oracle.domain.ids import Hash
from oracle.errors import FatalError, InputError, TransientError
from oracle.services.assigning import take_back_draws
from oracle.services.folding import Folder
from oracle.services.ports import Chain
from oracle.services.refolding import Manner, refold_up_to
from oracle.store.cursor import Cursor
from oracle.store.outbox_rows import Stamp
from oracle.store.store import Store, Unit

# Headers asked for at once while looking for the common ancestor (chain.md 3.6).
HEADERS_AT_ONCE = 128
# Blocks below a rewind's target among which a log is looked for, to compare its block's hash.
LOOK_BACK = 1_000


@dataclass(frozen=True, slots=True)
class Rewound:
    """What going back to `ancestor` took with it.

    `abandoned` is the block that the cursor stood on, `depth` how many blocks were given up.
    `by_refold`: the journal did not reach, so everything up to the ancestor was folded anew.
    """

    ancestor: BlockRef
    abandoned: int
    depth: int
    logs: int
    reports: int
    by_refold: bool


def rewind_if_forked(chain: Chain, store: Store, folder: Folder) -> Rewound | None:
    """Go back to the common ancestor if the chain has left our blocks; None: it has not.

    Whoever calls this has seen one sign of a fork; here the chain is asked twice more, for the
    block at the cursor and for the blocks below it. An endpoint that has not come as far as the
    cursor is no witness.

    Raises:
        TransientError: the chain contradicts itself; nothing was changed.
        FatalError: a final block is not the chain's any more.
    """
    with store.reading() as unit:
        cursor = unit.cursor.get()
    if cursor is None or chain.heads().latest.number < cursor.number:
        return None
    seen = chain.header(cursor.number)
    if seen is None or seen.hash == cursor.hash:
        return None
    ancestor = _common_ancestor(chain, store, cursor, seen)
    reason = f"its as-of block left the chain: the common ancestor is block {ancestor.number}"
    with folder.following(None), store.transaction() as unit:
        unit.undo.rollback_to(ancestor.number)
        return _go_back(unit, cursor, ancestor, reason, by_refold=False)


def rewind_to(chain: Chain, store: Store, folder: Folder, number: int, manner: Manner) -> Rewound:
    """Go back to block `number`: by the journal, or where it ends by folding anew.

    Raises:
        InputError: nothing is indexed, `number` lies below the start block or not below the
            cursor, or the chain is another one there already.
        TransientError: the chain does not answer.
    """
    with store.reading() as unit:
        cursor = _cursor_above(unit, number)
        reach = unit.undo.reach()
        ours = _newest_known(unit, number)
    block = _header(chain, number)
    if ours is not None:
        _check_same(ours, block if ours[0] == number else _header(chain, ours[0]))
    by_refold = reach is None or reach > number
    reason = f"rewound to block {number} by command"
    with folder.following(None), manner.transaction(store) as unit:
        if not by_refold:
            unit.undo.rollback_to(number)
        rewound = _go_back(unit, cursor, block, reason, by_refold=by_refold)
        if by_refold:
            refold_up_to(unit, folder, number, manner)
    folder.forget()
    return rewound


def _cursor_above(unit: Unit, number: int) -> Cursor:
    cursor, identity = unit.cursor.get(), unit.identity.get()
    if cursor is None or identity is None:
        raise InputError("nothing is indexed yet: there is nothing to rewind")
    lowest = max(0, identity.start_block - 1)
    if not lowest <= number < cursor.number:
        raise InputError(
            f"cannot rewind to block {number}: name one from {lowest} (before the start block) "
            f"to {cursor.number - 1} (below the cursor)"
        )
    return cursor


def _newest_known(unit: Unit, number: int) -> tuple[int, Hash] | None:
    """Return the highest block not far below `number` whose hash we know: what stays."""
    block = unit.blocks.at(number)
    if block is not None:
        return block.number, block.hash
    logs = unit.logs.between(max(0, number - LOOK_BACK), number)
    newest = deque(logs, maxlen=1)
    return (newest[0].block, newest[0].block_hash) if newest else None


def _check_same(ours: tuple[int, Hash], theirs: BlockRef) -> None:
    number, our_hash = ours
    if theirs.hash != our_hash:
        raise InputError(
            f"block {number} is {theirs.hash} on the chain and {our_hash} here: "
            f"rewind to below block {number}"
        )


def _header(chain: Chain, number: int) -> BlockRef:
    block = chain.header(number)
    if block is None:
        raise TransientError(f"the chain does not give block {number} now")
    return block


def _go_back(
    unit: Unit, cursor: Cursor, block: BlockRef, reason: str, *, by_refold: bool
) -> Rewound:
    """Move everything but the projections; the raw rows above stay, no longer canonical."""
    number = block.number
    logs = unit.logs.orphan_above(number)
    unit.calls.orphan_above(number)
    unit.blocks.discard_above(number)
    unit.blocks.save([block])
    reports = unit.reports.miss_above(number, reason)
    take_back_draws(unit, number)
    # What has no nonce yet is dropped with its report; time is the chain's here.
    stamp = Stamp(cursor.time, unit.lease.current().epoch)
    unit.outbox.intents.forget_above(number, stamp)
    unit.cursor.move_to(block, None, cursor.epoch)
    return Rewound(block, cursor.number, cursor.number - number, logs, reports, by_refold)


def _common_ancestor(chain: Chain, store: Store, cursor: Cursor, seen: BlockRef) -> BlockRef:
    """Return the highest block that we and the chain agree on, asked for in batches, downwards.

    Raises:
        TransientError: the chain changed its mind while being asked.
        FatalError: there is none at or above the final block.
    """
    with store.reading() as unit:
        identity = unit.identity.get()
        final = cursor.final_number or 0
        ours = {block.number: block.hash for block in unit.blocks.between(final, cursor.number)}
    ours[cursor.number] = cursor.hash
    if cursor.final_hash is not None:
        ours[final] = cursor.final_hash
    # Below the start block we hold nothing that could differ.
    start = 0 if identity is None else identity.start_block
    floor = min(max(start - 1, final, 0), cursor.number)
    expected = seen.hash
    theirs: list[BlockRef] = []
    for last in range(cursor.number, floor - 1, -HEADERS_AT_ONCE):
        theirs = chain.headers(BlockRange(max(floor, last - HEADERS_AT_ONCE + 1), last))
        if theirs[-1].hash != expected:
            raise TransientError("the chain changed while we looked for where it forked")
        for block in reversed(theirs):
            if ours.get(block.number) == block.hash or block.number < start:
                return block
        expected = theirs[0].parent_hash
    raise _final_block_left(theirs[0], ours.get(floor), start)


def _final_block_left(theirs: BlockRef, ours: Hash | None, start: int) -> FatalError:
    number = theirs.number
    return FatalError(
        f"block {number} was final here as {ours}, but the chain now has {theirs.hash}: "
        "nothing was changed. If an endpoint is wrong, take it out of [chain] endpoints; if the "
        f"chain did change, run `qos-oracle resync rewind --to-block {max(start, number) - 1}`"
    )
