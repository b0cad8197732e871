"""A reporter that waits for signatures names the missing ones;
an unknown signer is logged once.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.domain.ids import Address
from oracle.quorum.peer_client import PeerClients
from oracle.reporting.readiness import find_unsent_report_reason
from tests.support.evm.fixtures import chain, fresh_chain
from tests.support.harness import SETTINGS, OracleTestbed
from tests.support.sending.reporters import ReporterGroup, run_reporter_group
from tests.support.txmgr.harness_fixtures import fresh_testbed, testbed
from tests.support.txmgr.stores import NewStore, new_sqlite_store

__all__ = ["chain", "fresh_chain", "fresh_testbed", "new_sqlite_store", "testbed"]


@pytest.fixture
def group_of_three(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
) -> Iterator[ReporterGroup]:
    with (
        new_sqlite_store() as first_store,
        new_sqlite_store() as two,
        new_sqlite_store() as third,
        run_reporter_group(testbed, [first_store, two, third], tmp_path) as opened,
    ):
        yield opened


def test_reason_for_missing_quorum_names_missing_signers(
    group_of_three: ReporterGroup,
):
    three = group_of_three
    context = three.first.harness.reporting
    second, third = three.others
    second.is_down = third.is_down = True
    three.period()
    three.tick()
    # A signature may take a moment: this is no fault yet.
    assert find_unsent_report_reason(context) is None

    three.first.harness.mine(SETTINGS.period_seconds + 1)
    three.tick()
    reason = find_unsent_report_reason(context) or ""
    assert reason.startswith("round 1 has 1 of 2 signatures: no statement from ")
    assert second.signer in reason
    assert third.signer in reason
    second.is_down = False
    three.tick()
    assert find_unsent_report_reason(context) is None


def test_removed_signer_is_reported(group_of_three: ReporterGroup):
    three = group_of_three
    gone = three.others[1]
    remaining_signers = [reporter.signer for reporter in three.reporters if reporter is not gone]
    does, admin = three.testbed.oracle.functions, three.testbed.network.admin
    checked = [three.chain.web3.to_checksum_address(signer) for signer in remaining_signers]
    three.chain.send(does.setSigners(checked, 2), sender=admin)
    three.round()

    reason = find_unsent_report_reason(gone.harness.reporting) or ""
    assert reason.startswith(f"signer {gone.signer} is not a signer of the contract")
    assert find_unsent_report_reason(three.first.harness.reporting) is None


def test_unknown_signer_is_reported_once_per_peer():
    peers = PeerClients([], 1.0)
    first_signer = Address("0x" + 40 * "1")
    second_signer = Address("0x" + 40 * "2")
    peer_signers = [
        ("a", first_signer),
        ("a", first_signer),
        ("b", first_signer),
        ("a", second_signer),
        ("a", first_signer),
    ]
    assert [peers.record_unknown_signer(*peer_signer) for peer_signer in peer_signers] == [
        True,
        False,
        True,
        True,
        False,
    ]
