"""The value of a call, which is a fee, is proven by the block's transactions root."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devnet.fakechain.block_json import FakeLog, Tx
from devnet.fakechain.fault import InjectedFault, wrap_change_to_skip_errors
from devnet.fakechain.faults.block_faults import HEADER_METHODS
from devnet.fakechain.mining import create_account
from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import BlockTree
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Address
from oracle.indexer.audit.auditor import Auditor, AuditResult, audit_next_window
from oracle.indexer.audit.reverify import VerifyResult, reverify_blocks
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.rebuild import RebuildOptions
from tests.integration.traces.following import FINALITY, Follower, follow_endpoints, vss_reader
from tests.integration.traces.test_live_calls import ENOUGH, JOIN, NODES
from tests.support.ingest.indexer import MINIMAL_POLICY

pytestmark = [pytest.mark.slow]

# More joins than the samples of a proof; each pays a stake.
JOINS = 50
# Only three of them are final.
WINDOW = 17
A_LIE = 7
A_STRANGE_ONE = {"value": hex(A_LIE), "type": "0x7b"}
SOMEBODY = Address("0x" + "5a" * 20)


def joins() -> BlockTree:
    """Return a chain with a signed join and another log in every block."""
    tree = BlockTree()
    for number in range(1, JOINS + 1):
        node = create_account(number)
        log = FakeLog(SOMEBODY, ("0x" + "11" * 32,))
        tree.mine([Tx(node, NODES, JOIN, value=ENOUGH, logs=(log,))])
    tree.mine_empty_blocks(FINALITY)
    return tree


def build_false_values_fault() -> InjectedFault:
    """Return a fault that changes the value and the type of every transaction to unknown ones.

    A lie about a transaction of a known type would be detected while it is read.
    """

    def falsify_values(_request: object, answer: Any) -> object:
        sent = answer["transactions"]
        if not sent or isinstance(sent[0], str):
            return answer
        return {**answer, "transactions": [{**tx, **A_STRANGE_ONE} for tx in sent]}

    return InjectedFault(
        "other values",
        wrap_change_to_skip_errors(falsify_values),
        limits={"methods": HEADER_METHODS},
    )


@pytest.fixture
def fooled(tmp_path: Path) -> Iterator[Follower]:
    """Return a follower that has read everything from the lying first endpoint, unproven."""
    tree = joins()
    liar = Provider(tree, tree.last_mined)
    honest = Provider(tree, tree.last_mined)
    liar.faults.append(build_false_values_fault())
    with follow_endpoints(
        f"sqlite:///{tmp_path / 'a.sqlite'}", [liar, honest], vss_reader()
    ) as follower:
        follower.source.configure_verification(MINIMAL_POLICY)
        follower.index()
        assert values(follower) == [A_LIE] * JOINS
        follower.source.configure_verification(VerificationPolicy())
        learn_from_the_honest_one(follower)
        yield follower


def learn_from_the_honest_one(follower: Follower) -> None:
    """Let the source learn the header features from the honest endpoint."""
    honest = follower.source.list_endpoint_names()[1]
    follower.source.fetch_verified_window(BlockRange(1, JOINS), VerificationLevel.PROVEN, honest)
    assert follower.source.get_max_allowed_level() is VerificationLevel.PROVEN


def values(follower: Follower) -> list[int]:
    with follower.store.read_transaction() as uow:
        return [call.value for call in uow.calls.iterate_between(0, JOINS)]


def audit_all_windows(follower: Follower) -> list[AuditResult]:
    auditor = Auditor(window_blocks=WINDOW)
    done = []
    while (
        audit_result := audit_next_window(
            RepairContext(follower.source, follower.store, follower.folder, RebuildOptions()),
            auditor,
        )
    ) is not None:
        done.append(audit_result)
    return done


def verify_history(follower: Follower, *, repair: bool) -> VerifyResult:
    context = RepairContext(follower.source, follower.store, follower.folder, RebuildOptions())
    blocks = BlockRange(0, JOINS)
    return reverify_blocks(context, blocks, VerificationLevel.PROVEN, repair=repair)


def test_audit_detects_and_repairs_a_false_call_value(
    fooled: Follower,
):
    audit_results = audit_all_windows(fooled)

    assert {audit_result.outcome for audit_result in audit_results if audit_result.difference} == {
        "repaired"
    }
    assert values(fooled) == [ENOUGH] * JOINS


def test_verify_detects_and_repairs_a_false_call_value(
    fooled: Follower,
):
    verify_result = verify_history(fooled, repair=False)

    assert verify_result.reached_level is VerificationLevel.PROVEN
    assert len(verify_result.difference.changed_calls) == JOINS
    assert verify_history(fooled, repair=True).unrepaired_count == 0
    assert values(fooled) == [ENOUGH] * JOINS
