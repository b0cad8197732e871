"""Recomputes any period's report in memory, from the stored logs alone.

See docs/explanation/reports.md#cut-at-period-end.
"""

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.proofs.keccak import keccak
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.report import PreviousRound, Report, ReportSettings, cut_report
from oracle.domain.roots.node_leaves import iter_linked_leaves
from oracle.domain.roots.round_tree import RoundTree
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.indexer.folded_state import FoldedState, fold_state_up_to
from oracle.indexer.kickout_reviews import build_folded_scoring_context
from oracle.indexer.provenance import find_stored_block
from oracle.indexer.round_leaves import load_domain
from oracle.store.database import Store, UnitOfWork
from oracle.store.report_repository import ReportState


def build_report(
    uow: UnitOfWork,
    reader: EventReader,
    folded_state: FoldedState,
    as_of: BlockRef,
    rules: Rules,
    settings: ReportSettings,
) -> Report:
    """Build the report as of `as_of`, the last block of `folded_state`.

    The report's changes are not computed, because this would need the leaves of the last round.
    """
    contract_state = folded_state.contract_state
    domain = load_domain(uow)
    tree = build_tree_of_folded_state(uow, reader, folded_state, as_of.time, rules)
    root = tree.compute_round_root(
        domain.chain_id, domain.contract, contract_state.head_round + 1, as_of.number
    )
    return cut_report(as_of, PreviousRound.from_state(contract_state), tree.lanes, root, settings)


def build_tree_of_folded_state(
    uow: UnitOfWork, reader: EventReader, folded_state: FoldedState, time: int, rules: Rules
) -> RoundTree:
    """Build the leaf tree of a folded state at the block time `time`."""
    policy = KickoutPolicy(rules, reader.holds_kickouts)
    nodes = folded_state.fold.ledger.nodes
    leaves = iter_linked_leaves(
        (nodes[address] for address in sorted(nodes)),
        build_folded_scoring_context(uow, folded_state, time, policy),
        keccak,
    )
    return RoundTree((leaf.encode() for leaf in leaves), keccak)


def fold_round_tree(
    uow: UnitOfWork, reader: EventReader, accepted_round: RoundAccepted, rules: Rules
) -> RoundTree | None:
    """Build the leaf tree of a round by folding the stored logs.

    The result is None if the time of the round's as-of block is not stored.
    """
    as_of = find_as_of_block(uow, accepted_round)
    if as_of is None:
        return None
    folded_state = fold_state_up_to(uow, reader, rules, as_of.number)
    return build_tree_of_folded_state(uow, reader, folded_state, as_of.time, rules)


def find_as_of_block(uow: UnitOfWork, accepted_round: RoundAccepted) -> BlockRef | None:
    """Find a round's as-of block in a stored report, header or log, if there is one.

    The contract checked the hash of the block when it accepted the round.
    """
    as_of_number = accepted_round.as_of
    for stored_report in uow.reports.list_between(as_of_number, as_of_number):
        if stored_report.report.as_of.hash == accepted_round.as_of_hash:
            return stored_report.report.as_of
    block = find_stored_block(uow, as_of_number)
    return None if block is None or block.hash != accepted_round.as_of_hash else block


def find_last_block_of_period(
    chain: ChainSource, store: Store, period: int, period_seconds: int
) -> BlockRef:
    """Return the last block of a period, the as-of block of its report.

    The block is taken from the stored report. If there is no such report, or if the report was
    missed, so that its block may have left the chain, the block is found on the chain by
    bisection.

    Raises:
        InputError: the period has not ended in the indexed blocks, or lies before the start block.
        TransientError: no endpoint returns a block that the chain must have.
    """
    with store.read_transaction() as uow:
        stored_report = uow.reports.get(period)
        cursor = uow.cursor.get()
        identity = uow.identity.get()
    if stored_report is not None and stored_report.state is not ReportState.MISSED:
        return stored_report.report.as_of
    end_time = (period + 1) * period_seconds
    if cursor is None or identity is None or cursor.time < end_time:
        raise InputError(f"period {period} has not ended in the indexed blocks")
    low_number, high_number = identity.start_block, cursor.number
    if chain.fetch_header_at_or_below(low_number).time >= end_time:
        raise InputError(f"period {period} ended before the start block {low_number}")
    while high_number - low_number > 1:
        middle_number = (low_number + high_number) // 2
        low_number, high_number = (
            (low_number, middle_number)
            if chain.fetch_header_at_or_below(middle_number).time >= end_time
            else (middle_number, high_number)
        )
    return chain.fetch_header_at_or_below(low_number)
