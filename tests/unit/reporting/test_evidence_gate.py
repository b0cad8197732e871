"""Which reports are not signed before the blocks behind their kickouts are verified."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from oracle.domain.blocks import BlockRef
from oracle.domain.coverage import CoverageInterval, IngestScope, VerificationLevel
from oracle.domain.ids import ZERO_HASH, Address
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.report import Report, ReportChange
from oracle.domain.roots.leaves import NodeLeaf
from oracle.errors import TransientError
from oracle.quorum.quorum_context import QuorumContext
from oracle.reporting.evidence_gate import find_unverified_kickout
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import Store
from tests.support.due_nodes import (
    DUE_SINCE,
    HEAD,
    POLICY,
    SETTINGS,
    build_leaves,
    store_leaves,
    store_nodes,
    store_round,
)
from tests.support.rounds import make_address

DUE = make_address(1)


@pytest.fixture
def nodes(store: Store) -> list[Address]:
    """Write five nodes, of which the first is due; no block behind its kickout is verified."""
    nodes = store_nodes(store, 5, 1)
    store_coverage(store, VerificationLevel.SEAMED)
    return nodes


def store_coverage(store: Store, level: VerificationLevel) -> None:
    scope = IngestScope.create([DUE], [])
    with store.transaction() as uow:
        uow.coverage.set_scope(scope)
        uow.coverage.store_interval(scope.id, CoverageInterval(0, HEAD.number, level, "a"))


def store_report(store: Store, leaves: Sequence[NodeLeaf], head_round: int = 1) -> Report:
    """Write the leaves of a report that follows a round, and return the report."""
    as_of, root = store_leaves(store, head_round + 1, leaves)
    return Report(
        period=as_of,
        as_of=BlockRef(as_of, ZERO_HASH, ZERO_HASH, 60 * as_of),
        head_round=head_round,
        prev=ZERO_HASH,
        deadline=HEAD.time,
        root=root,
        change=ReportChange(),
        is_due=True,
    )


def find_unverified(store: Store, report: Report, *, requires_proof: bool = True) -> str | None:
    """Return the node whose kickout is not verified; nothing verifies blocks meanwhile."""
    no_account: Any = None
    settings = replace(SETTINGS, requires_proof=requires_proof)
    context = ReportingContext(QuorumContext(no_account, settings), ZERO_HASH, POLICY)
    with store.read_transaction() as uow:
        unverified = find_unverified_kickout(context, uow, report)
    return None if unverified is None else unverified.node


@pytest.mark.parametrize("head_round", [0, 1])
def test_due_kickout_is_not_signed_until_its_blocks_are_verified(store, nodes, head_round):
    if head_round:
        store_round(store, head_round, build_leaves(nodes, []))
    report = store_report(store, build_leaves(nodes, [DUE]), head_round)
    assert find_unverified(store, report) == DUE

    store_coverage(store, VerificationLevel.PROVEN)
    assert find_unverified(store, report) is None


def test_unverified_kickout_is_signed_if_proofs_are_not_required(store, nodes):
    report = store_report(store, build_leaves(nodes, [DUE]), head_round=0)
    assert find_unverified(store, report, requires_proof=False) is None


def test_kickout_of_the_last_round_is_not_verified_again(store, nodes):
    store_round(store, 1, build_leaves(nodes, [DUE]))
    report = store_report(store, build_leaves(nodes, [DUE]))
    assert find_unverified(store, report) is None


def test_kickout_with_another_interval_is_verified_again(store, nodes):
    store_round(store, 1, build_leaves(nodes, [DUE], due_since=DUE_SINCE - 60))
    report = store_report(store, build_leaves(nodes, [DUE]))
    assert find_unverified(store, report) == DUE


def test_every_kickout_is_verified_if_the_last_leaves_are_unknown(store, nodes):
    """Other reporters signed a round whose leaves this database does not hold."""
    accepted_round = store_round(store, 1, build_leaves(nodes, [DUE]))
    other_round = replace(
        accepted_round, round=2, root=ZERO_HASH, at=accepted_round.at._replace(block=30)
    )
    with store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(accepted=[other_round]))
    report = store_report(store, build_leaves(nodes, [DUE]), head_round=2)
    assert find_unverified(store, report) == DUE


def test_report_without_stored_leaves_is_not_signed(store, nodes):
    report = store_report(store, build_leaves(nodes, []), head_round=0)
    with pytest.raises(TransientError, match="its report are not stored"):
        find_unverified(store, replace(report, root=ZERO_HASH))


def test_due_kickout_that_is_not_in_the_index_is_not_signed(store, nodes):
    report = store_report(store, build_leaves(nodes, [nodes[1]]), head_round=0)
    with pytest.raises(TransientError, match="but not in the index"):
        find_unverified(store, report)
