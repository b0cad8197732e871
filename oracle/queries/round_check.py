"""Recomputes an accepted round from the stored logs alone, and compares the roots.

The computation uses raw logs, the rules, and the chain's as-of block, but no folded state.
"""

from collections.abc import Callable
from itertools import zip_longest

from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.domain.roots.round_tree import RoundTree
from oracle.errors import InputError, TransientError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.folded_state import fold_state_up_to
from oracle.indexer.round_leaves import LeafCache, load_domain, load_pieced_round
from oracle.queries.answers import load_event_sources
from oracle.queries.leaf_comparison import find_first_leaf_difference
from oracle.queries.leaf_models import LeafDifference
from oracle.queries.report_models import RoundVerification, build_round_entry
from oracle.reporting.recompute import build_tree_of_folded_state
from oracle.store.database import UnitOfWork


def verify_round(
    round_number: int,
    chain: ChainSource,
    archive: EventArchive,
    read_contract_root: Callable[[int], Hash | None],
) -> RoundVerification:
    """Recompute the root of a round, and compare it with the accepted root.

    `read_contract_root` returns the root of a round in the contract, or None if the contract no
    longer keeps it.

    Raises:
        InputError: the index has no such accepted round.
        TransientError: the chain does not serve the as-of block.
    """
    with archive.store.read_transaction() as uow:
        accepted = uow.rounds.find_accepted_round(round_number)
        if accepted is None:
            raise InputError(f"round {round_number} was not accepted in the indexed blocks")
        place = load_event_sources(uow, [accepted.at])[accepted.at]
        is_struck = uow.rounds.is_struck(round_number)
    as_of = _fetch_block(chain, accepted.as_of)
    with archive.store.read_transaction() as uow:
        folded = fold_state_up_to(uow, archive.reader, archive.rules, as_of.number)
        tree = build_tree_of_folded_state(uow, archive.reader, folded, as_of.time, archive.rules)
        domain = load_domain(uow)
        root = tree.compute_round_root(
            domain.chain_id, domain.contract, round_number, as_of.number
        )
        difference = None if root == accepted.root else _find_first_difference(uow, accepted, tree)
    contract_root = read_contract_root(round_number)
    holds_it = None if contract_root is None else contract_root == accepted.root
    has_same_block = as_of.hash == accepted.as_of_hash
    return RoundVerification(
        **dict(build_round_entry(accepted, place, is_struck=is_struck)),
        same=has_same_block and root == accepted.root and holds_it is not False,
        same_block=has_same_block,
        computed_root=root,
        contract_holds_it=holds_it,
        leaf_difference=difference,
    )


def _fetch_block(chain: ChainSource, block_number: int) -> BlockRef:
    block = chain.fetch_header(block_number)
    if block is None:
        raise TransientError(f"no endpoint returned block {block_number}")
    return block


def _find_first_difference(
    uow: UnitOfWork, accepted: RoundAccepted, tree: RoundTree
) -> LeafDifference | None:
    """Return the first leaf in which a computed tree differs from a round's stored leaves."""
    pieced_round = load_pieced_round(uow, LeafCache(), accepted)
    if pieced_round is None:
        return None
    computed_pieces = [edit.apply(b"") for _, edit in sorted(tree.edits.take().items())]
    accepted_pieces = [
        uow.leaf_pieces.load_leaves(piece, accepted.as_of)
        for piece in range(len(pieced_round.digests))
    ]
    pairs = zip_longest(computed_pieces, accepted_pieces, fillvalue=b"")
    for piece, (computed_leaves, accepted_leaves) in enumerate(pairs):
        difference = find_first_leaf_difference(piece, computed_leaves, accepted_leaves)
        if difference is not None:
            return difference
    return None
