"""Withholds a report's signature until the blocks behind its newly due kickouts are verified.

Anyone can accuse a node by a signed root, so a reporter must not sign a root whose kickouts it has
not verified. See docs/explanation/kickouts.md#what-a-reporter-signs.
"""

from oracle.domain.blocks import format_block_count
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Address
from oracle.domain.reports.report import Report
from oracle.domain.roots.leaves import NodeLeaf, is_kickout_due_in_leaf, split_leaves
from oracle.errors import TransientError
from oracle.indexer.evidence_verification import (
    EvidenceVerification,
    build_evidence_verification,
)
from oracle.indexer.kickout_reviews import load_counted_entries
from oracle.reporting.leaf_storage import load_last_round_leaves, load_report_leaves
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork
from oracle.txmgr.context import StepResult


def find_unverified_kickout(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> EvidenceVerification | None:
    """Return an unverified kickout that became due since the last round.

    The result is None if there is none, or if the rules of the network do not require the
    verification.

    Raises:
        TransientError: it is not known which kickouts are newly due, or since when.
    """
    if not context.report_settings.requires_proof:
        return None
    verifier = context.verifier
    level = VerificationLevel.PROVEN if verifier is None else verifier.get_level()
    for leaf in _list_newly_due_leaves(context, uow, report):
        verification = _load_kickout_verification(context, uow, report, leaf.node, level)
        if verification.reason is not None:
            return verification
    return None


def verify_next_blocks(
    context: ReportingContext, verification: EvidenceVerification
) -> StepResult | None:
    """Verify some of the blocks behind a kickout.

    The result is None if no block was verified.
    """
    if context.verifier is None or verification.obstacle is not None:
        return None
    verified_block_count = context.verifier.verify_next_blocks(verification)
    remaining_count = len(verification.unproven) - verified_block_count
    result = StepResult(
        "kickout evidence verified",
        None,
        f"{verification.node}: {format_block_count(remaining_count)} left",
    )
    return result if verified_block_count else None


def _list_newly_due_leaves(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> list[NodeLeaf]:
    """Return the leaves of nodes whose kickout became due since the last round."""
    leaves = load_report_leaves(context, uow, report)
    if leaves is None:
        raise TransientError(f"period {report.period}: the leaves of its report are not stored")
    due_leaves = [leaf for leaf in split_leaves(leaves) if is_kickout_due_in_leaf(leaf)]
    if not due_leaves:
        return []
    last_leaves = load_last_round_leaves(context, uow, report) or b""
    due_since_by_node = {
        leaf.node: leaf.kickout_due_since
        for leaf in map(NodeLeaf.decode, filter(is_kickout_due_in_leaf, split_leaves(last_leaves)))
    }
    return [
        leaf
        for leaf in map(NodeLeaf.decode, due_leaves)
        if due_since_by_node.get(leaf.node) != leaf.kickout_due_since
    ]


def _load_kickout_verification(
    context: ReportingContext,
    uow: UnitOfWork,
    report: Report,
    address: Address,
    level: VerificationLevel,
) -> EvidenceVerification:
    """Return how far the blocks behind the node's newest kickout interval are verified."""
    intervals = [
        interval
        for interval in uow.kickouts.list_for_node(address)
        if interval.opened_at.block <= report.as_of.number
    ]
    node = uow.nodes.get_many([address]).get(address)
    if not intervals or node is None:
        raise TransientError(
            f"{address}: its kickout is due in the report of period {report.period}, but not in "
            "the index; `qos-oracle resync verify --repair` compares them"
        )
    interval = intervals[-1]
    entries = load_counted_entries(uow, node, interval.opened_at, context.policy.rules)
    return build_evidence_verification(uow, interval, entries, level)
