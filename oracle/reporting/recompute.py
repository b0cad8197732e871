"""Recomputes the report of any period in memory, from the stored logs alone.

See docs/explanation/reports.md#cut-at-period-end.
"""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.chain.proofs.keccak import keccak
from oracle.chain.protocols import ChainReader, LogReader
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_ADDRESS
from oracle.domain.reports.kickout_review import KickoutPolicy
from oracle.domain.reports.report import Report, ReportSettings, cut_report
from oracle.domain.reports.target_words import (
    ScoringContext,
    build_target_words,
    compute_folded_words,
)
from oracle.domain.roots.node_tree import NodeTree
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.indexer.folded_state import FoldedState, fold_state_up_to
from oracle.indexer.kickout_reviews import build_folded_context
from oracle.reporting.report_cutter import find_registrations_in_memory
from oracle.signing.typed_data import Domain
from oracle.store.database import Store, UnitOfWork
from oracle.store.report_repository import ReportState


class ReportWithLeaves(NamedTuple):
    """A report, and the leaves of its root in pieces."""

    report: Report
    pieces: Sequence[bytes]


def recompute_report(
    store: Store, reader: LogReader, rules: Rules, settings: ReportSettings, as_of: BlockRef
) -> Report:
    """Return the report as of a block that any reporter with the same rules hash would compute.

    Only stored logs are read, no folded state, and nothing is written.
    """
    return recompute_leaves(store, reader, rules, settings, as_of).report


def recompute_leaves(
    store: Store, reader: LogReader, rules: Rules, settings: ReportSettings, as_of: BlockRef
) -> ReportWithLeaves:
    """Return the report as of a block like `recompute_report`, with the leaves of its root."""
    with store.read_transaction() as uow:
        folded = fold_state_up_to(uow, reader, rules, as_of.number, settings.min_scores)
        policy = KickoutPolicy(rules, reader.holds_kickouts)
        context = build_folded_context(uow, folded, as_of.time, policy)
        return build_report_with_leaves(folded, as_of, context, settings, load_domain(uow))


def load_domain(uow: UnitOfWork) -> Domain:
    """Return the chain and the contract that the roots of this database's reports are bound to.

    A database without an oracle contract has the zero address as its contract.
    """
    identity = uow.identity.get()
    if identity is None:
        raise InputError("the database is empty; `qos-oracle run` indexes the chain")
    return Domain(identity.chain_id, identity.oracle or ZERO_ADDRESS)


def build_report(
    folded: FoldedState,
    as_of: BlockRef,
    context: ScoringContext,
    settings: ReportSettings,
    domain: Domain,
) -> Report:
    """Return the report as of `as_of`, which is the last block of the state in `folded`.

    `context` is the scoring context of this state at the time of that block.
    """
    return build_report_with_leaves(folded, as_of, context, settings, domain).report


def build_report_with_leaves(
    folded: FoldedState,
    as_of: BlockRef,
    context: ScoringContext,
    settings: ReportSettings,
    domain: Domain,
) -> ReportWithLeaves:
    """Return the report as of the last block of the state in `folded`, with its leaves."""
    nodes, rounds = folded.fold.ledger.nodes, folded.rounds
    registrations = find_registrations_in_memory(
        rounds, nodes, folded.first_events, as_of.time, context.rules, settings
    )
    words = compute_folded_words(rounds, nodes, context)
    tree = NodeTree(keccak)
    tree.rebuild((nodes[address] for address in sorted(nodes)), context)
    report = cut_report(
        as_of,
        rounds,
        build_target_words(rounds, words, registrations, context),
        settings,
        tree.compute_root(domain.chain_id, domain.contract, rounds.head.round + 1, as_of.number),
    )
    edits = tree.take_edits()
    return ReportWithLeaves(report, [edits[piece].apply(b"") for piece in sorted(edits)])


def find_last_block(
    chain: ChainReader, store: Store, period: int, period_seconds: int
) -> BlockRef:
    """Return the last block of a period, which is the as-of block of its report.

    The block is taken from the stored report. If there is no such report, or if it was missed and
    its block may therefore have left the chain, the block is found by bisection on the chain.

    Raises:
        InputError: the period has not ended in the indexed blocks, or lies before the start block.
        TransientError: no endpoint returns a block that the chain must have.
    """
    with store.read_transaction() as uow:
        stored = uow.reports.get(period)
        cursor, identity = uow.cursor.get(), uow.identity.get()
    if stored is not None and stored.state is not ReportState.MISSED:
        return stored.report.as_of
    end_time = (period + 1) * period_seconds
    if cursor is None or identity is None or cursor.time < end_time:
        raise InputError(f"period {period} has not ended in the indexed blocks")
    low, high = identity.start_block, cursor.number
    if chain.fetch_header_at_or_below(low).time >= end_time:
        raise InputError(f"period {period} ended before the start block {low}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if chain.fetch_header_at_or_below(middle).time >= end_time
            else (middle, high)
        )
    return chain.fetch_header_at_or_below(low)
